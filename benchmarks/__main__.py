"""`python -m benchmarks [--only WORD …] [--long]`, in the environment of `make bench`."""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks import page, speed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="credibly beside other packages")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cases whose name has one of these words")
    parser.add_argument("--long", action="store_true", help="the slowest cases too")
    return parser.parse_args()


def measure(case: speed.Case) -> speed.Outcome | str:
    """The outcome of a case in a fresh process, or the error that ended it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(speed.run, case.name).result()
        except Exception as error:  # one case that fails leaves the others alone
            return f"{type(error).__name__}: {error}".splitlines()[0]


def main() -> None:
    chosen = arguments()
    cases = [case for case in speed.CASES if not chosen.only or any(word in case.name for word in chosen.only)]
    if not cases:
        sys.exit(f"No case has {' or '.join(chosen.only)} in its name. They are: {', '.join(speed.BY_NAME)}.")
    load, start, results = os.getloadavg()[0], time.perf_counter(), []
    for case in cases:
        outcome = None if case.long and not chosen.long else measure(case)
        results.append((case, outcome))
        spent = time.perf_counter() - start
        print(f"{spent:5.0f} s  {case.name}: {' | '.join(page.cells(case, outcome)[1:])}", file=sys.stderr, flush=True)
    print(page.table(results))
    if not chosen.only:
        page.write(results, load)
        print(f"\nwritten: {page.PATH.relative_to(page.PATH.parent.parent)}", file=sys.stderr)


if __name__ == "__main__":
    main()
