"""What runs in a process of its own: `python -m benchmarks.child`, a job as JSON on standard input.

It prints READY when it begins to fit, then its results. "probe": one method, its tolerances from loose to tight until
the objective is there; one line for each, so that the parent knows how far it came when it has to end it. "time":
several methods in turns, us, peer, us, peer, …. "warm": one fit.
"""

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.machine import forget_peak, resident
from benchmarks.peers import Method, find
from benchmarks.problems import Problem, Spec, make
from benchmarks.records import relative_gap

READY = "ready"
SHORT = 0.5  # seconds
PAUSE = 0.05  # threads of OpenBLAS wait some 25 ms by spinning, on the next one's core
IN_A_ROW, FOR_ABOUT = 5, 0.2  # runs of one turn, where they are so short


def held(threads: int | None) -> AbstractContextManager[Any]:
    return nullcontext() if threads is None else threadpool_limits(threads)


def run(method: Method, problem: Problem, tolerance: float, threads: int | None) -> tuple[float, Any]:
    """Seconds of a fit, and what it made."""
    with held(threads):
        start = time.perf_counter()
        made = method.fit(problem, tolerance)
        return time.perf_counter() - start, made


def probe(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A line for each tolerance; with other threads then only the tolerance that got there."""
    method, problem = find(job["method"]), make(Spec(*job["spec"]))
    method.prepare(problem)
    print(READY, flush=True)
    tolerances = method.tolerances
    for threads in method.threads:
        for tolerance in tolerances:
            line = once(method, problem, tolerance, threads)
            if not there(line, problem, job["best"], job["accuracy"]):
                yield line
                continue
            line["seconds"] = again(method, problem, tolerance, threads, line["seconds"])
            yield line
            tolerances = (tolerance,)
            break
        else:
            return  # it did not get there by itself


def warm(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One fit, that counts for nothing: what is compiled once for an installation is compiled now."""
    find(job["method"]).fit(make(Spec(*job["spec"])), math.nan)
    yield {}


def there(line: dict[str, Any], problem: Problem, best: float | None, accuracy: float) -> bool:
    """Whether an objective is the best one; where none is known, whether its gradient says that it cannot be far."""
    if not problem.linear and (best is None or math.isnan(line["value"])):
        return True
    if best is not None:
        return relative_gap(line["value"], best) <= accuracy
    return problem.farthest(line["gradient_norm"]) <= accuracy * abs(float(line["value"]))


def once(method: Method, problem: Problem, tolerance: float, threads: int | None) -> dict[str, Any]:
    forget_peak()
    before = resident("VmRSS")
    seconds, made = run(method, problem, tolerance, threads)
    peak = resident("VmHWM")
    return {
        "threads": threads,
        "tolerance": tolerance,
        "seconds": seconds,
        **problem.judge(method.read(made, problem))._asdict(),
        "extra_bytes": None if before is None or peak is None else peak - before,
        "input_bytes": problem.input_bytes,
    }


def again(method: Method, problem: Problem, tolerance: float, threads: int | None, seconds: float) -> float:
    """The least of some more runs where they are short: a first one loads libraries."""
    runs = 5 if seconds < SHORT else 0
    return min([seconds, *(run(method, problem, tolerance, threads)[0] for _ in range(runs))])


def turn(action: Callable[[], float]) -> list[float]:
    """Times of one method's turn: one run, or where runs are short several in a row, the first of them not counted.

    After a peer and a pause the first run finds cold caches and a sleeping core: a quarter to a half more, for every
    method, at a few milliseconds.
    """
    time.sleep(PAUSE)
    first = action()
    more = min(IN_A_ROW, int(FOR_ABOUT / first))
    return [action() for _ in range(more)] or [first]


def in_turns(actions: list[Callable[[], float]], seconds: float, most: int) -> list[list[float]]:
    """Times of each, one after the other, round after round until the seconds are used up.

    Three rounds at least, unless that takes ten times as long; two in any case.
    """
    times: list[list[float]] = [[] for _ in actions]
    start = time.perf_counter()
    for rounds in range(1, most + 1):
        for action, taken in zip(actions, times, strict=True):
            taken.extend(turn(action))
        spent = time.perf_counter() - start
        if (rounds >= 3 and spent > seconds) or (rounds == 2 and spent > 10 * seconds):
            break
    return times


def largest_difference(answer: Any, reference: Any) -> float:
    if reference is None or np.shape(answer) != np.shape(reference) or np.ndim(answer) == 0:
        return math.nan
    return float(np.abs(answer - reference).max())


def timed(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One line: times and judgements of every entry. The first run of each, which loads libraries, is not counted."""
    problem = make(Spec(*job["spec"]))
    print(READY, flush=True)
    entries = [(find(entry["method"]), entry["tolerance"], entry["threads"]) for entry in job["entries"]]
    answers = []
    for method, tolerance, threads in entries:
        method.prepare(problem)
        answers.append(method.read(run(method, problem, tolerance, threads)[1], problem))
    judged = [problem.judge(answer)._asdict() for answer in answers]
    names = [entry["method"] for entry in job["entries"]]
    reference = answers[names.index(job["reference"])] if job["reference"] in names else None

    def action(method: Method, tolerance: float, threads: int | None) -> Callable[[], float]:
        return lambda: run(method, problem, tolerance, threads)[0]

    times = in_turns([action(*entry) for entry in entries], job["seconds"], job["most"])
    yield {
        "rows": [
            {"times": taken, **judgement, "difference": largest_difference(answer, reference)}
            for taken, judgement, answer in zip(times, judged, answers, strict=True)
        ]
    }


JOBS: dict[str, Callable[[dict[str, Any]], Iterator[dict[str, Any]]]] = {"warm": warm, "probe": probe, "time": timed}


def main() -> None:
    warnings.simplefilter("ignore")  # peers tell of tolerances; whether an answer is good is judged here
    job = json.loads(sys.stdin.read())
    for line in JOBS[job["job"]](job):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
