"""Passes over Parquet files against pyarrow's own decoding of the same columns, and the memory of a whole fit.

    python -m benchmarks.out_of_core --rows 20000000

Writes a table of normal columns with a logit target (snappy, row groups of 500,000 rows) to a folder, which is removed
at the end. Passes and pyarrow's decoding are timed in turns, both with as many threads as there are processors; a ratio
is one of least times, since what other processes take away only adds to a time. A ratio of processor time is printed
too: other processes change it less. Every kind of pass counts, and the base is the faster of two ways to decode: row
groups as tables, or batches as they come by default. The fit runs in a process of its own, whose peak memory the system
tells.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from credibly.data.columns import describe
from credibly.data.parquet import ParquetRows
from credibly.data.threads import default_threads
from credibly.inference.frame import Frame
from credibly.inference.objective import Objective, Raw
from credibly.model.likelihoods import BernoulliLogit
from credibly.numerics.arrays import AnyArray

GROUP_ROWS, GROUPS_PER_FILE = 500_000, 10
MOST_RATIO, MOST_MEMORY = 1.5, 1.5e9  # what the issue asks for
PASSES = ("describe", "gradient", "value, gradient, Hessian")


class Cost(NamedTuple):
    wall: float
    processor: float

    @classmethod
    def of(cls, action: Callable[[], Any]) -> "Cost":
        before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        action()
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
        return cls(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def write(folder: Path, rows: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    weights, writer = rng.normal(size=columns) / np.sqrt(columns), None
    for group, start in enumerate(range(0, rows, GROUP_ROWS)):
        n = min(GROUP_ROWS, rows - start)
        X = rng.normal(size=(columns, n))
        y = (rng.random(n) < 1 / (1 + np.exp(-(weights @ X)))).astype(np.int8)
        table = pa.table({**{f"x{j}": column for j, column in enumerate(X)}, "y": y})
        if group % GROUPS_PER_FILE == 0:
            if writer is not None:
                writer.close()
            writer = pq.ParquetWriter(folder / f"part-{group // GROUPS_PER_FILE:04d}.parquet", table.schema)
        writer.write_table(table, row_group_size=GROUP_ROWS)
    writer.close()


def decode(folder: Path) -> None:
    """What pyarrow needs for the same columns, with all its threads, row group by row group."""
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                file.read_row_group(group, use_threads=True)


def decode_batches(folder: Path) -> None:
    """The same, in batches."""
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches(use_threads=True):
                pass


def as_numbers(y: AnyArray) -> AnyArray:
    return y.astype(float)


def passes(folder: Path) -> dict[str, Callable[[], Any]]:
    rows = ParquetRows(folder, target="y").encoded(as_numbers)
    columns = describe(rows)  # also brings the files into memory
    frame = Frame.of(columns, intercept=True, sparse=False)
    objective = Objective(BernoulliLogit(), rows.through(frame.design), None, np.eye(1), Raw.of(rows, frame))
    start = np.zeros(len(rows.names) + 1)
    objective.gradient(start), objective.expand(start)  # compiled kernels are loaded
    return {
        "pyarrow, row groups": lambda: decode(folder),
        "pyarrow, batches": lambda: decode_batches(folder),
        "decode only": lambda: rows.sum(lambda block: 0, lambda a, b: 0),
        "describe": lambda: describe(rows),
        "gradient": lambda: objective.gradient(start),
        "value, gradient, Hessian": lambda: objective.expand(start),
    }


def measure(folder: Path, repeats: int) -> bool:
    ways = passes(folder)
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, action in ways.items():
            costs[name].append(Cost.of(action))
    least = {name: Cost(*(min(it) for it in zip(*found, strict=True))) for name, found in costs.items()}
    ways_of_arrow = [least[name] for name in least if name.startswith("pyarrow")]
    base = Cost(*(min(it) for it in zip(*ways_of_arrow, strict=True)))
    print(f"threads: {pa.cpu_count()} of pyarrow, {default_threads()} of ours; load {os.getloadavg()[0]:.1f}")
    print(f"{'':26s} {'seconds':>8s} {'ratio':>6s} {'CPU s':>7s} {'ratio':>6s}")
    for name, (wall, processor) in least.items():
        print(
            f"{name:26s} {wall:8.2f} {wall / base.wall:6.2f} {processor:7.2f} {processor / base.processor:6.2f}",
            flush=True,
        )
    return all(least[name].wall <= MOST_RATIO * base.wall for name in PASSES)


FIT = """
import resource, sys, time
from credibly import BayesianLogisticRegression, Normal
from credibly.data.parquet import ParquetRows
rows = ParquetRows(sys.argv[1], target="y", progress=False)
start = time.perf_counter()
model = BayesianLogisticRegression(prior=Normal(scale=2.5)).fit(rows)
seconds = time.perf_counter() - start
print(seconds, rows.table.progress.passes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def fit(folder: Path) -> bool:
    done = subprocess.run([sys.executable, "-c", FIT, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"the fit failed: {done.stderr.strip().splitlines()[-1]}")
        return False
    seconds, n_passes, memory = map(float, done.stdout.split())
    print(f"fit: {seconds:.1f} s, {n_passes:.0f} passes, peak memory {memory / 1e9:.2f} GB")
    return memory <= MOST_MEMORY


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the files are, or are to be; kept")
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="credibly-out-of-core-"))
    try:
        folder.mkdir(exist_ok=True)
        if not list(folder.glob("*.parquet")):
            write(folder, chosen.rows, chosen.columns)
        size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
        print(f"{chosen.rows:,} rows of {chosen.columns} columns: {size / 1e9:.2f} GB in files")
        reached = [measure(folder, chosen.repeats), fit(folder)]
        print(
            "reached" if all(reached) else "NOT reached", f"(ratio at most {MOST_RATIO}, memory {MOST_MEMORY / 1e9} GB)"
        )
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
