"""`python -m benchmarks quick`, `python -m benchmarks full`, `python -m benchmarks tables`.

Needs the environment of `make bench` (benchmarks/requirements.txt): peers that are not installed are named as missing.
"""

import argparse
import subprocess
import sys
import time
from importlib.util import find_spec

from benchmarks import cases, harness, machine, plots, records, tables


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="credibly against its peers")
    parser.add_argument(
        "mode", choices=("quick", "full", "tables", "list"), help="tables: write the page from earlier results"
    )
    parser.add_argument("--only", nargs="+", default=(), metavar="WORD", help="cases whose name holds one of these")
    parser.add_argument("--no-page", action="store_true", help="leave docs/benchmarks.md and its pictures as they are")
    return parser.parse_args()


def measure(mode: str, only: tuple[str, ...]) -> None:
    found = cases.chosen(mode, only)
    if not found:
        sys.exit(f"no case is called like {' or '.join(only)}; they are: {', '.join(cases.NAMES)}")
    print(f"{len(found)} cases, {machine.facts()['cores']} cores, load {machine.load()}")
    start = time.perf_counter()
    for case in found:
        print(f"\n{case.title}", flush=True)
        result = harness.run(case, mode)
        records.save(result)
        print(tables.terminal(result), flush=True)
    print(f"\n{(time.perf_counter() - start) / 60:.1f} minutes, load {machine.load()}")


def others() -> None:
    """Scripts with a form of their own, in the full run: passes, out of core, and Dask."""
    for script in ("benchmarks.passes", "benchmarks.out_of_core", "benchmarks.dask_scaling"):
        if find_spec(script):
            print(f"\npython -m {script}", flush=True)
            subprocess.run([sys.executable, "-m", script], cwd=harness.ROOT, check=False)


def main() -> None:
    asked = arguments()
    if asked.mode == "list":
        print("\n".join(f"{case.name:32} {case.title}{'' if case.quick else ' (full)'}" for case in cases.CASES))
        return
    if asked.mode != "tables":
        measure(asked.mode, tuple(asked.only))
    if asked.mode == "full" and not asked.only:
        others()
    if not asked.no_page:
        known = records.load(order=cases.NAMES)
        plots.draw(known)
        print(f"written: {tables.write_page(known).relative_to(harness.ROOT)}")


if __name__ == "__main__":
    main()
