"""One adapter for each package: how it is asked for the same answer, and how its answer is read.

An adapter module has `METHODS`, by name. `fit` is what is timed; it gets the problem and one of `tolerances`, and what
it returns is turned into an answer by `read`, outside the clock. Anything that only has to be done once for a table
(another layout, another type) is kept with `problem.keep`, before the clock starts, in `prepare`.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.problems import Problem

NO_TOLERANCE = (float("nan"),)
LADDER = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14)

OURS, NEWTON, FIRST_ORDER, OTHER, LIMIT = "ours", "newton", "first-order", "other", "limit"


def coefficients(model: Any, problem: Problem) -> Any:
    coef = np.asarray(model.coef_)
    return coef.ravel() if problem.spec.kind != "softmax" else coef


def nothing(problem: Problem) -> None:
    """Most packages take the rows as they are."""


@dataclass(frozen=True)
class Method:
    """A package and one of its ways."""

    label: str
    family: str
    fit: Callable[[Problem, float], Any]
    read: Callable[[Any, Problem], Any] = coefficients
    tolerances: tuple[float, ...] = NO_TOLERANCE  # from loose to tight
    threads: tuple[int | None, ...] = (None, 1)  # None: whatever the package does by itself
    prepare: Callable[[Problem], None] = nothing


def find(name: str) -> Method:
    """The method called "module.method", its package imported now."""
    module, _, method = name.partition(".")
    found: Method = importlib.import_module(f"benchmarks.peers.{module}").METHODS[method]
    return found
