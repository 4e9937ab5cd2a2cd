"""`python -m benchmarks.honesty`: run what the cache does not hold, then write docs/honesty.md."""

import argparse

from benchmarks.honesty import battery, data, exact, page
from benchmarks.honesty.models import EXTRA, MODELS, QUICK

PARTS = ("battery", "references", "exact", "page")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.honesty", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts of the work; all by default")
    parser.add_argument("--models", nargs="+", choices=MODELS, metavar="MODEL", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--sets", nargs="+", default=(), metavar="SET", help="names of data sets")
    parser.add_argument("--quick", action="store_true", help="our default and scikit-learn's, no chains")
    parser.add_argument("--extra", action="store_true", help=f"also {', '.join(EXTRA)} as columns of their own")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    sets = tuple(asked.sets)
    unknown = set(sets) - set(data.LOADERS)
    if unknown:
        raise SystemExit(f"no such data set: {', '.join(sorted(unknown))}; they are: {', '.join(data.LOADERS)}")
    usual = [model for model in MODELS if asked.extra or model not in EXTRA]
    if "battery" in asked.only:
        battery.measure(asked.models or (QUICK if asked.quick else usual), sets, asked.processes)
    if not asked.quick and {"references", "exact"} & set(asked.only):
        exact.measure(sets, references_only="exact" not in asked.only)
    if "page" in asked.only:
        print(f"written: {page.write(battery.latest(), list(battery.known(exact.DISTANCES)))}")


if __name__ == "__main__":
    main()
