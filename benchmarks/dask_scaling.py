"""What a pass over a cluster costs, and what that makes of a billion rows.

Run by `python -m benchmarks.dask_scaling` (`--rows`, `--columns`, `--repeats`, `--json PATH`), some minutes, best on a
machine with nothing else to do. Two clusters on this machine, one of a single worker and one of two, with one thread
each, hold the same persisted rows, as many on every worker: Dask itself puts five of eight partitions on one of two
workers, and then two cannot be more than 1.6 times as fast as one. Passes run on one and the other in turn, so that a
neighbour's load falls on both, and ratios of medians are what counts (spread: the quartiles of the ratio of
neighbouring runs). Printed are

* the throughput of two workers over one, for gradient and Hessian passes of the logistic model (bar: 1.7), and what it
  could be by their processor time: that of one over that of the busier of two, which a neighbour's load hardly changes;
* the same for the sum of X @ w by Dask itself, which does nothing but read the rows: two workers of one machine share
  its memory, and no gradient pass can gain more than that;
* processor seconds of one worker for a million rows of 100 columns;
* what a task costs beside its work: passes over partitions of a few rows;
* what travels: the bytes of the tasks of a pass and of its result, as they are pickled;
* the passes that a fit took, and the plan for 10⁹ × 100 that follows.
"""

import argparse
import json
import operator
import os
import pickle
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import cloudpickle
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from credibly import BayesianLogisticRegression, Normal
from credibly.data import dask as data_dask
from credibly.data.columns import describe
from credibly.data.dask import DaskRows
from credibly.inference.frame import Frame
from credibly.inference.objective import Objective, Raw
from credibly.inference.posterior import Gaussian
from credibly.model.likelihoods import BernoulliLogit
from credibly.numerics.linalg import PSD

BAR = 1.7
PARTITIONS = 8  # of the table; four for each of two workers
TINY_PARTITIONS = 200
PLANNED_ROWS, PLANNED_COLUMNS, PLANNED_PARTITION = 10**9, 100, 500_000
WORKERS = (16, 64, 256, 1024)
KEPT = 2.0  # bytes of memory for each byte of rows: the rows, and room to work and to take over from a dead worker


class Pass(NamedTuple):
    """One kind of pass, timed on both clusters in turn."""

    one: list[float]
    two: list[float]

    @property
    def speedup(self) -> float:
        return statistics.median(self.one) / statistics.median(self.two)

    @property
    def spread(self) -> tuple[float, float]:
        ratios = sorted(a / b for a, b in zip(self.one, self.two, strict=True))
        return ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]


ONE, TWO = operator.attrgetter("one"), operator.attrgetter("two")


def table(client: Client, rows: int, columns: int, partitions: int) -> tuple[da.Array, da.Array]:
    """Persisted columns, and labels of a logistic model; made on the workers in turn, so that nothing is sent."""
    random, workers = da.random.default_rng(0), list(client.scheduler_info(n_workers=-1)["workers"])
    made = []
    for number in range(partitions):
        X = random.normal(size=(rows // partitions, columns), chunks=-1)
        score = X[:, 0] - 0.5 * X[:, 1]
        y = (random.uniform(size=len(X), chunks=-1) < 1 / (1 + da.exp(-score))).astype(float)
        made.append(client.persist([X, y], workers=[workers[number % len(workers)]]))
    X, y = (da.concatenate(parts) for parts in zip(*made, strict=True))
    client.gather(client.compute([X.sum(), y.sum()]))
    return X, y


def objective(rows: DaskRows) -> Objective:
    """The logistic model's, in the frame of its columns."""
    frame = Frame.of(describe(rows), intercept=True, sparse=False)
    size = frame.center.size + 1
    prior = Gaussian(np.zeros(size), PSD.of(np.eye(size), "the prior"))
    return Objective(BernoulliLogit(), rows.through(frame.design), prior, np.eye(1), Raw.of(rows, frame))


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def on(client: Client, work: Callable[[], Any]) -> float:
    with client.as_current():
        return seconds(work)


def processor_seconds(client: Client, work: Callable[[], Any], repeats: int) -> list[float]:
    """What each worker's processor did in one run, with what it does when nothing is asked of it."""
    before = client.run(time.process_time)
    for _ in range(repeats):
        on(client, work)
    return [(after - before[worker]) / repeats for worker, after in client.run(time.process_time).items()]


def interleaved(works: list[tuple[Client, Callable[[], Any]]], repeats: int) -> Pass:
    """Both clusters in turn; the first round compiles and is not counted."""
    times = [[on(*work) for work in works] for _ in range(repeats + 1)][1:]
    one, two = zip(*times, strict=True)
    return Pass(list(one), list(two))


def counted_passes(X: da.Array, y: da.Array) -> dict[str, int]:
    """How often a fit walked over all rows, by what came back: a matrix, or vectors only; and bytes that travelled."""
    found = {"with a matrix": 0, "with vectors": 0, "bytes": 0, "bytes of tasks": 0}
    computed = data_dask.computed

    def watched(tasks: Any) -> Any:
        result = computed(tasks)
        sums = result[0] if len(tasks) == 1 else []
        parts = sums[0] if sums and isinstance(sums[0], tuple) else ()
        matrix = any(np.ndim(part) == 2 for part in parts)
        found["with a matrix" if matrix else "with vectors"] += 1
        found["bytes"] = max(found["bytes"], len(pickle.dumps(result)) if parts else 0)
        graphs = [dict(task.__dask_graph__()) for task in tasks if parts]
        ours = [task for graph in graphs for name, task in graph.items() if str(name).startswith("credibly")]
        found["bytes of tasks"] = max(found["bytes of tasks"], sum(len(cloudpickle.dumps(task)) for task in ours))
        return result

    data_dask.computed = watched
    try:
        BayesianLogisticRegression(prior=Normal()).fit(X, y)
    finally:
        data_dask.computed = computed
    return found


def measure(rows: int, columns: int, repeats: int) -> dict[str, Any]:
    """All that the plan needs."""
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "silence_logs": 50}
    with ExitStack() as stack:
        clients = [
            stack.enter_context(Client(stack.enter_context(LocalCluster(n_workers=n, **options)), set_as_default=False))
            for n in (1, 2)
        ]
        small, large, tables = [], [], []
        for client in clients:
            with client.as_current():
                tables.append(table(client, rows, columns, PARTITIONS))
                large.append((client, objective(DaskRows(*tables[-1]))))
                small.append((client, objective(DaskRows(*table(client, 10 * TINY_PARTITIONS, 2, TINY_PARTITIONS)))))
        x = np.full(columns + 1, 0.1)
        passes = {
            "gradient": interleaved([(c, lambda o=o: o.gradient(x)) for c, o in large], repeats),
            "Hessian": interleaved([(c, lambda o=o: o.expand(x)) for c, o in large], repeats),
        }
        w = np.full(columns, 0.1)
        reading = interleaved(
            [(c, lambda X=X: (X @ w).sum().compute()) for c, (X, _) in zip(clients, tables, strict=True)], repeats
        )
        ways = {"gradient": Objective.gradient, "Hessian": Objective.expand}
        work = {
            kind: [processor_seconds(c, lambda o=o, way=way: way(o, x), repeats) for c, o in large]
            for kind, way in ways.items()
        }
        tiny = interleaved([(c, lambda o=o: o.gradient(np.zeros(3))) for c, o in small], repeats)
        with clients[1].as_current():
            taken = counted_passes(*tables[1])
    millions = rows * columns / 1e8
    counts = {"gradient": taken["with vectors"], "Hessian": taken["with a matrix"]}
    fit = [sum(n * statistics.median(side(passes[kind])) for kind, n in counts.items()) for side in (ONE, TWO)]
    return {
        "speedup": {name: [it.speedup, *it.spread] for name, it in passes.items()},
        "speedup of the passes of a fit": fit[0] / fit[1],
        "speedup of X @ w": [reading.speedup, *reading.spread],
        "seconds per million x 100": {kind: sum(one) / millions for kind, (one, _) in work.items()},
        "work of two over work of one": {kind: sum(two) / sum(one) for kind, (one, two) in work.items()},
        "speedup by processor time": {kind: sum(one) / max(two) for kind, (one, two) in work.items()},
        "wall seconds per million x 100": {kind: statistics.median(it.one) / millions for kind, it in passes.items()},
        "seconds per task": min(tiny.two) / TINY_PARTITIONS,
        "passes of a fit": taken,
        "load": os.getloadavg()[0],
    }


def plan(found: dict[str, Any]) -> list[str]:
    """Minutes for 10⁹ × 100, by the number of workers with one thread each."""
    cost, task, taken = found["seconds per million x 100"], found["seconds per task"], found["passes of a fit"]
    parts = -(-PLANNED_ROWS // PLANNED_PARTITION)
    each = PLANNED_PARTITION / 1e6
    lines = ["| workers | memory for each | a gradient pass | a Hessian pass | a fit |", "|---|---|---|---|---|"]
    for workers in WORKERS:
        turns = -(-parts // workers)
        gradient, hessian = (turns * each * cost[kind] + parts * task for kind in ("gradient", "Hessian"))
        fit = taken["with vectors"] * gradient + taken["with a matrix"] * hessian
        memory = KEPT * PLANNED_ROWS * PLANNED_COLUMNS * 8 / workers / 1e9
        lines.append(f"| {workers} | {memory:.1f} GB | {gradient:.1f} s | {hessian:.1f} s | {fit / 60:.1f} min |")
    return lines


def main() -> None:
    """Measure, and print the plan."""
    asked = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    asked.add_argument("--rows", type=int, default=8_000_000)
    asked.add_argument("--columns", type=int, default=100)
    asked.add_argument("--repeats", type=int, default=9)
    asked.add_argument("--json", default=None)
    given = asked.parse_args()
    found = measure(given.rows, given.columns, given.repeats)
    for name, (ratio, low, high) in found["speedup"].items():
        verdict, could = "met" if ratio >= BAR else "MISSED", found["speedup by processor time"][name]
        print(f"{name} pass: two workers {ratio:.2f} x one (quartiles {low:.2f} to {high:.2f}); {BAR} {verdict}")
        print(f"    by processor time, had each a processor to itself: {could:.2f}")
    print(f"all passes of a fit together: {found['speedup of the passes of a fit']:.2f} x one")
    ratio, low, high = found["speedup of X @ w"]
    print(f"sum of X @ w by Dask: {ratio:.2f} x one (quartiles {low:.2f} to {high:.2f})")
    for name, value in found["seconds per million x 100"].items():
        wall, more = found["wall seconds per million x 100"][name], found["work of two over work of one"][name]
        print(
            f"{name} pass: {value:.3f} processor seconds for a million rows of 100 columns ({wall:.3f} s by the clock)"
        )
        print(f"    two workers do {more:.2f} times the work of one for the same pass")
    print(f"a task costs {1e3 * found['seconds per task']:.2f} ms beside its work; a fit: {found['passes of a fit']}")
    print(f"load while measuring: {found['load']:.1f} on {os.cpu_count()} processors")
    print("\n".join(plan(found)))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
