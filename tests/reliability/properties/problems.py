"""Random problems: tables of 3 to 60 rows whose classes hang on the columns not at all, somewhat, or entirely.

A problem is drawn as a handful of numbers (so that Hypothesis can make a failing one smaller) and a seed; the cells
follow from those. Every kind of column gives (n, d) rows to learn from and rows to ask about, some of them far away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

SIGNALS = (0.0, 1.0, 4.0, np.inf)  # the last one: no noise, so that the classes are separated
FAR = 20.0  # standard deviations


@dataclass(frozen=True)
class Problem:
    """What a table is made of."""

    seed: int
    n: int
    d: int
    K: int
    signal: float
    orders: int  # of magnitude by which columns may differ from unit scale, either way
    shift: float  # of all columns, in their own standard deviations
    weighted: bool
    intercept: bool
    prior: Any

    @property
    def rng(self) -> np.random.Generator:
        """The same numbers every time it is asked for."""
        return np.random.default_rng(self.seed)


def problems(classes: tuple[int, ...], priors: tuple[Any, ...], rows: tuple[int, int] = (3, 60)) -> st.SearchStrategy:
    """Problems with one of these numbers of classes and one of these priors."""
    return st.builds(
        Problem,
        seed=st.integers(0, 2**32 - 1),
        n=st.integers(max(rows[0], *classes), rows[1]),
        d=st.integers(1, 6),
        K=st.sampled_from(classes),
        signal=st.sampled_from(SIGNALS),
        orders=st.sampled_from([0, 3]),
        shift=st.sampled_from([0.0, 10.0]),
        weighted=st.booleans(),
        intercept=st.booleans(),
        prior=st.sampled_from(priors),
    )


class Drawn(NamedTuple):
    """Columns to learn from, columns to ask about, and a standardised (n, d) table on which the classes hang."""

    X: np.ndarray
    new: np.ndarray
    Z: np.ndarray


def numbers(problem: Problem) -> Drawn:
    """Normal columns of different units, off centre."""
    rng, n, d = problem.rng, problem.n, problem.d
    Z, new = rng.normal(size=(n, d)), rng.normal(size=(7, d))
    new[-2:] *= FAR
    scale = 10.0 ** rng.uniform(-problem.orders, problem.orders, d)
    return Drawn((Z + problem.shift) * scale, (new + problem.shift) * scale, Z)


def near_numbers(problem: Problem) -> Drawn:
    """The same without rows that are far away: links of means would take their scores beyond any range."""
    drawn = numbers(problem)
    return drawn._replace(new=drawn.new[:-2])


def yes_or_no(problem: Problem) -> Drawn:
    """Columns of 0 and 1."""
    X, new, _ = numbers(problem)
    middle = np.median(X, axis=0)
    cells, asked = (X > middle).astype(float), (new > middle).astype(float)
    return Drawn(cells, asked, 2 * cells - 1)


def counts(problem: Problem) -> Drawn:
    """Whole numbers that are not negative, some of them large."""
    rng, d = problem.rng, problem.d
    rate = 10.0 ** rng.uniform(0, problem.orders, d)
    X = rng.poisson(rate * rng.gamma(2.0, 1.0, (problem.n, d))).astype(float)
    new = rng.poisson(rate * rng.gamma(2.0, 1.0, (6, d))).astype(float)
    new[-1] *= FAR
    return Drawn(X, new, X / rate - 2.0)


def positive(problem: Problem) -> Drawn:
    """Positive numbers of different units."""
    rng, d = problem.rng, problem.d
    scale = 10.0 ** rng.uniform(-problem.orders, problem.orders, d)
    X, new = scale * rng.gamma(2.0, 1.0, (problem.n, d)), scale * rng.gamma(2.0, 1.0, (6, d))
    new[-1] *= FAR
    return Drawn(X, new, X / scale - 2.0)


Columns = Callable[[Problem], Drawn]


# --- what hangs on them -----------------------------------------------------------------------------------------


def labels(problem: Problem, Z: np.ndarray) -> np.ndarray:
    """Codes of a softmax of the columns; every class has a row."""
    rng = np.random.default_rng((problem.seed, 1))
    W = rng.normal(size=(problem.d, problem.K))
    noise = rng.gumbel(size=(len(Z), problem.K)) if np.isfinite(problem.signal) else 0.0
    y = ((problem.signal if np.isfinite(problem.signal) else 1.0) * Z @ W + noise).argmax(axis=1)
    for code in np.setdiff1d(np.arange(problem.K), y):
        counted = np.bincount(y, minlength=problem.K)
        y[np.flatnonzero(counted[y] > 1)[0]] = code
    return y


def means(problem: Problem, Z: np.ndarray) -> tuple[np.random.Generator, np.ndarray]:
    """Scores of at most some units, for targets of generalised linear models."""
    rng = np.random.default_rng((problem.seed, 1))
    w = rng.normal(size=problem.d) / np.sqrt(problem.d)
    return rng, Z @ w * (problem.signal if np.isfinite(problem.signal) else 1.0) / 2


def gaussian_targets(problem: Problem, Z: np.ndarray) -> np.ndarray:
    rng, f = means(problem, Z)
    return f + rng.normal(size=len(Z)) * (1.0 if np.isfinite(problem.signal) else 1e-3)


def successes(problem: Problem, Z: np.ndarray) -> np.ndarray:
    rng, f = means(problem, Z)
    trials = rng.integers(1, 9, len(Z))
    good = rng.binomial(trials, 1 / (1 + np.exp(-f)))
    return np.column_stack([good, trials - good])


def count_targets(problem: Problem, Z: np.ndarray) -> np.ndarray:
    rng, f = means(problem, Z)
    return rng.poisson(np.exp(np.minimum(f, 5.0)) * rng.gamma(2.0, 0.5, len(Z))).astype(float)


def positive_targets(problem: Problem, Z: np.ndarray) -> np.ndarray:
    rng, f = means(problem, Z)
    return np.exp(f) * rng.gamma(3.0, 1 / 3, len(Z))


Targets = Callable[[Problem, np.ndarray], np.ndarray]
