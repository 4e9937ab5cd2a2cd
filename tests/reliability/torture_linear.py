"""Five hundred random problems for linear classifiers, harmless to nearly singular; problem i depends on i alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from credibly import BayesianLogisticRegression, BayesianProbitRegression, Normal

COUNT = 500
SEED = 9_000


@dataclass(frozen=True)
class LinearProblem:
    """One table with labels, and what is asked of it."""

    index: int
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    model: BayesianLogisticRegression | BayesianProbitRegression
    said: str  # how the table was made

    @property
    def classes(self) -> int:
        return len(np.unique(self.y))

    def __repr__(self) -> str:
        n, d = self.X.shape
        weighted = "" if self.weight is None else ", weighted"
        return f"linear {self.index}: n={n}, d={d}, K={self.classes}, {self.said}{weighted}, {self.model!r}"


def linear_problem(index: int) -> LinearProblem:
    rng = np.random.default_rng([SEED, index])
    n, prior = round(np.exp(rng.uniform(np.log(2), np.log(300)))), prior_of(rng)
    d = int(
        rng.integers(1, 41 if prior is not None or n < 6 else max(2, min(41, n // 3)))
    )  # mostly more rows than weights
    kind = str(rng.choice(["logit", "probit", "softmax"], p=[0.5, 0.25, 0.25]))
    classes = int(rng.integers(3, 6)) if kind == "softmax" and n >= 3 else 2
    classes = min(classes, n)
    X, how = columns(rng, n, d)
    y, labels = targets(rng, X, classes)
    units, X = rescaled(rng, X)
    weight = 10 ** rng.uniform(-6, 6, size=n) if rng.random() < 0.3 else None
    choices: dict[str, Any] = {"prior": prior, "fit_intercept": bool(rng.random() < 0.85), "inference": "laplace"}
    if kind != "softmax" and not isinstance(prior, str | None) and rng.random() < 0.3:
        choices["inference"] = "ep"
        weight = None if weight is None else 1 + weight  # EP takes whole rows at least
    model = (BayesianProbitRegression if kind == "probit" else BayesianLogisticRegression)(**choices)
    return LinearProblem(index, X, y, weight, model, f"{how}, {units}, {labels}")


def columns(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, str]:
    """Rows with the trouble that columns can have among themselves."""
    X = rng.normal(size=(n, d))
    trouble = str(rng.choice(["none", "conditioned", "repeated", "constant", "near", "one-hot"]))
    if trouble == "conditioned":
        condition = rng.uniform(0, 16)
        U, _, Vt = np.linalg.svd(X, full_matrices=False)
        X = (U * np.logspace(0, -condition, len(Vt))) @ Vt
        trouble = f"condition 1e{condition:.0f}"
    if trouble == "repeated":
        X[:, -1] = X[:, 0]
    if trouble == "constant":
        X[:, 0] = rng.choice([0.0, 1.0, -3e5])
    if trouble == "near":
        gap = rng.uniform(1, 16)
        X[:, -1] = X[:, 0] + 10**-gap * rng.normal(size=n)
        trouble = f"two columns within 1e-{gap:.0f}"
    if trouble == "one-hot":
        X = np.eye(d)[rng.integers(d, size=n)]
    return X, trouble


def targets(rng: np.random.Generator, X: np.ndarray, classes: int) -> tuple[np.ndarray, str]:
    """Labels from pure chance to separated; every class has a row."""
    n, d = X.shape
    how = str(rng.choice(["random", "noisy", "separated", "nearly separated", "rare"]))
    scores = X @ rng.normal(size=(d, classes)) + rng.normal(size=classes)
    if how == "random":
        scores = np.zeros((n, classes))
    if how in {"random", "noisy"}:
        scores = scores + rng.gumbel(size=(n, classes))
    y = scores.argmax(axis=1)
    if how == "nearly separated":
        y[rng.integers(n)] = rng.integers(classes)
    if how == "rare":
        y[:] = 0
    y[rng.permutation(n)[:classes]] = np.arange(classes)  # at least one row of each
    return y, f"{how} labels"


def rescaled(rng: np.random.Generator, X: np.ndarray) -> tuple[str, np.ndarray]:
    """Units of the columns, and offsets beside which the columns hardly vary."""
    how = str(rng.choice(["own units", "one unit", "units apart", "offset"], p=[0.3, 0.2, 0.3, 0.2]))
    if how == "one unit":
        X = X * 10 ** rng.uniform(-8, 8)
    if how == "units apart":
        X = X * 10 ** rng.uniform(-8, 8, size=X.shape[1])
    if how == "offset":
        X = X + 10 ** rng.uniform(0, 8)
    return how, X


def prior_of(rng: np.random.Generator) -> Any:
    choice = str(rng.choice(["normal", "empirical", "none"], p=[0.45, 0.3, 0.25]))
    if choice == "normal":
        return Normal(scale=float(10 ** rng.uniform(-6, 6)), intercept_scale=float(10 ** rng.uniform(-6, 6)))
    return "empirical" if choice == "empirical" else None
