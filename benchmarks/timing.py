"""Seconds of us and of the peers: in turns, at matched accuracy.

A relative gap of 1e-8 in the objective counts as the same answer. Every peer stops at the loosest tolerance that gets
there, as each package chooses its threads or with one thread, whichever is faster.
"""

import math
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

TURNS = 7
FEWEST_TURNS, LONGEST = 3, 60.0  # slow cases have fewer turns: as many as fit into so many seconds
SHORT, REPEATS = 0.02, 5  # shorter runs are repeated within a turn
PAUSE = 0.05  # threads of OpenBLAS wait some 25 ms by spinning, on the core of the next one
GAP = 1e-8
BUDGET, TIGHTENING = 15.0, 30.0  # seconds of one fit of a peer, and of all its tolerances
TOLERANCES = tuple(10.0**-k for k in range(2, 14))
CLOSE = 1.5  # peers within this factor of the fastest one take part in the turns


class Action(NamedTuple):
    """Something to be timed, and the threads it may use (None: its own choice)."""

    run: Callable[[], Any]
    threads: int | None = None


class Peer(NamedTuple):
    """The fit of a peer that reached the objective."""

    action: Action
    value: float
    seconds: float


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def turn(action: Action) -> float:
    """Seconds of one turn. Of short runs the first, which finds cold caches, is not counted."""
    time.sleep(PAUSE)
    with nullcontext() if action.threads is None else threadpool_limits(action.threads):
        first = seconds(action.run)
        if first >= SHORT:
            return first
        return statistics.median(seconds(action.run) for _ in range(REPEATS))


def alternate(actions: Mapping[str, Action]) -> dict[str, float]:
    """Median seconds of each over alternating turns, after one that is not counted."""
    for action in actions.values():
        turn(action)
    times: dict[str, list[float]] = {name: [] for name in actions}
    start = time.perf_counter()
    for done in range(1, TURNS + 1):
        for name, action in actions.items():
            times[name].append(turn(action))
        spent = time.perf_counter() - start
        if done >= FEWEST_TURNS and spent * (done + 1) / done > LONGEST:
            break
    return {name: statistics.median(taken) for name, taken in times.items()}


def relative_gap(value: float, best: float) -> float:
    return (value - best) / abs(best)


@contextmanager
def time_limit(allowed: float) -> Iterator[None]:
    """Raise TimeoutError when the block takes longer; peers are Python between their inner loops."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, allowed)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def loosest(fit: Callable[[float], Any], value: Callable[[Any], float], best: float) -> Peer | str:
    """The fit at the loosest tolerance whose objective is the best known one, or the reason why there is none."""
    reached, start = math.inf, time.perf_counter()
    for tolerance in TOLERANCES:
        spent = time.perf_counter() - start
        try:
            with time_limit(max(0.01, min(BUDGET, TIGHTENING - spent))):
                reached = value(fit(tolerance))
        except TimeoutError:
            return f"not there after {time.perf_counter() - start:.0f} s"
        except ImportError as error:
            return str(error)
        if relative_gap(reached, best) <= GAP:
            break
    else:
        return f"ends with a gap of {relative_gap(reached, best):.0e}"

    action, taken = best_threads(lambda: fit(tolerance))
    return Peer(action, reached, taken)


def best_threads(run: Callable[[], Any]) -> tuple[Action, float]:
    """With the threads that a package chooses, or with one: the faster, and its seconds."""
    found = [(action, turn(action)) for action in (Action(run), Action(run, threads=1))]
    return min(found, key=lambda it: it[1])
