"""Where the time of a fit goes: its passes over the rows, counted and timed, beside what the machine can do.

`python -m benchmarks.passes` writes results/passes.json, of which docs/benchmarks.md makes a table.
"""

import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from benchmarks import machine
from benchmarks.cases import SCALES
from benchmarks.common import RESULTS, seconds
from benchmarks.peers import limits, ours
from benchmarks.problems import Spec, make
from credibly.estimators import learning, validation
from credibly.inference.objective import Objective

FORM = "credibly passes, 1"
PATH = RESULTS / "passes.json"
TURNS = 9
SHAPES = [
    Spec("logit", 10_000, 10),
    Spec("logit", 100_000, 30),
    Spec("logit", 100_000, 30, "separable", scale=SCALES["separable"]),
    Spec("logit", 100_000, 100, "ill", scale=SCALES["ill"]),
    Spec("logit", 1_000_000, 30),
    Spec("logit", 1_000_000, 100),
    Spec("logit", 200_000, 500),
    Spec("softmax", 100_000, 30, classes=5),
]
KINDS = ("description", "sample", "gradient", "hessian")
TRACED = {
    "description": (validation, "describe"),
    "sample": (learning, "sampled_start"),
    "gradient": (Objective, "gradient"),
    "hessian": (Objective, "expand"),
}


class Trace:
    """Seconds and calls by kind; what happens inside another traced call belongs to that one."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.inside = False

    def wrapped(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            if self.inside:
                return function(*arguments, **options)
            self.inside, start = True, time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.inside = False
                self.seconds[kind] += time.perf_counter() - start
                self.calls[kind] += 1

        return timed

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            for kind, (owner, name) in TRACED.items():
                stack.enter_context(patch.object(owner, name, self.wrapped(kind, getattr(owner, name))))
            yield


def median(action: Callable[[], Any]) -> float:
    return statistics.median(seconds(action) for _ in range(TURNS))


def traced(spec: Spec) -> dict[str, Any]:
    """Medians over some fits of one problem, in seconds."""
    problem = make(spec)
    fit, gradient, hessian = (
        partial(method.fit, problem, math.nan)
        for method in (ours.METHODS["logistic"], limits.METHODS["gradient"], limits.METHODS["hessian"])
    )
    fit()
    traces = [Trace() for _ in range(TURNS)]
    totals = []
    for trace in traces:
        with trace.watching():
            totals.append(seconds(fit))
    return {
        "spec": spec._asdict(),
        "total": statistics.median(totals),
        "seconds": {kind: statistics.median(trace.seconds[kind] for trace in traces) for kind in KINDS},
        "calls": {kind: traces[-1].calls[kind] for kind in KINDS},
        "limits": {"gradient": median(gradient), "hessian": median(hessian)},
    }


def main() -> None:
    found = []
    for spec in SHAPES:
        found.append(traced(spec))
        row = found[-1]
        parts = ", ".join(f"{kind} {row['calls'][kind]} × {1e3 * row['seconds'][kind]:.1f} ms in all" for kind in KINDS)
        print(f"{spec.kind} {spec.n:,} × {spec.d} {spec.columns}: {1e3 * row['total']:.1f} ms; {parts}", flush=True)
    record = {"form": FORM, "machine": machine.facts(), "load": machine.load(), "rows": found}
    PATH.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
