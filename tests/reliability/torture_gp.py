"""Five hundred random problems for Gaussian processes, harmless to nearly singular; problem i depends on i alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from credibly import GaussianProcessClassifier
from credibly.kernels import RBF, Constant, Kernel, Linear, Matern, Periodic, RationalQuadratic

COUNT = 500
SEED = 9_500


@dataclass(frozen=True)
class GaussianProblem:
    """One table with labels, and what is asked of it."""

    index: int
    X: np.ndarray
    y: np.ndarray
    model: GaussianProcessClassifier
    said: str  # how the table was made

    @property
    def classes(self) -> int:
        return len(np.unique(self.y))

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"GP {self.index}: n={n}, d={d}, K={self.classes}, {self.said}, {' '.join(repr(self.model).split())}"


def gaussian_problem(index: int) -> GaussianProblem:
    rng = np.random.default_rng([SEED, index])
    n, d = round(np.exp(rng.uniform(np.log(2), np.log(60)))), int(rng.integers(1, 6))
    inference = str(rng.choice(["laplace", "ep", "adf"], p=[0.45, 0.4, 0.15]))
    inducing = int(rng.integers(1, n + 1)) if inference != "adf" and rng.random() < 0.15 else None
    classes = 3 if n >= 3 and (inducing is None or inference == "ep") and rng.random() < 0.2 else 2
    X, table = rows(rng, n, d)
    y, labels = targets(rng, X, classes)
    kernel = kernel_of(rng)
    choices: dict[str, Any] = {"inference": inference, "inducing": inducing, "optimize": bool(rng.random() < 0.2)}
    if classes == 2 and rng.random() < 0.4:
        choices["likelihood"] = "probit"
    return GaussianProblem(index, X, y, GaussianProcessClassifier(kernel, **choices), f"{table}, {labels}")


def rows(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, str]:
    X = rng.normal(size=(n, d))
    how = str(rng.choice(["plain", "repeated rows", "a point and a half", "a tight cluster", "a grid"]))
    if how == "repeated rows":
        X = X[rng.integers(max(1, n // 2), size=n)]
    if how == "a point and a half":
        X[n // 2 :] = X[0]
    if how == "a tight cluster":
        X *= 10 ** rng.uniform(-9, -3)
    if how == "a grid":
        X = np.round(X)
    return X, how


def targets(rng: np.random.Generator, X: np.ndarray, classes: int) -> tuple[np.ndarray, str]:
    n = len(X)
    how = str(rng.choice(["random", "smooth", "one odd row"]))
    y = rng.integers(classes, size=n)
    if how == "smooth":
        y = np.argsort(np.argsort(X[:, 0], kind="stable"), kind="stable") * classes // n
    if how == "one odd row":
        y[:] = 0
    y[rng.permutation(n)[:classes]] = np.arange(classes)  # at least one row of each
    return y, f"{how} labels"


def kernel_of(rng: np.random.Generator) -> Kernel:
    """Length scales 1e-6 to 1e6, amplitudes 1e-3 to 1e3; no white noise is added to any."""
    length, amplitude = (float(10 ** rng.uniform(-high, high)) for high in (6, 3))
    wide: Any = {"length_scale_bounds": (1e-7, 1e7)}
    kind = str(rng.choice(["RBF", "Matern 1/2", "Matern 5/2", "RQ", "Linear", "Periodic", "sum"]))
    shape: Kernel = {
        "RBF": RBF(length, **wide),
        "Matern 1/2": Matern(length, nu=0.5, **wide),
        "Matern 5/2": Matern(length, nu=2.5, **wide),
        "RQ": RationalQuadratic(length, float(10 ** rng.uniform(-1, 1)), **wide),
        "Linear": Linear(),
        "Periodic": Periodic(length, float(10 ** rng.uniform(-1, 1)), **wide),
        "sum": RBF(length, **wide) + Constant(1.0),
    }[kind]
    return Constant(amplitude**2, variance_bounds=(1e-7, 1e7)) * shape
