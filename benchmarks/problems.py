"""What is fitted: made from a seed, judged by the objective that every peer is asked to minimise.

A problem is described by a `Spec`, a handful of plain values, so that a child process can make the same one. Columns
are
- "well": independent, standard normal;
- "ill": the same turned and stretched, so that the condition number of X is 1,000 (that of the Hessian 10⁶);
- "separable": like "well", with labels that hardly ever disagree with the sign of the score;
- "ill-separable": columns of "ill" and labels of "separable", as tables of measurements mostly come;
- "sparse": CSR, `per_row` ones in a row, common columns and rare ones.

There is no intercept (packages differ in whether they shrink it). The prior is N(0, scale²) on every weight, or none
(scale None: maximum likelihood); scikit-learn's C is scale², glum's alpha 1/(n scale²).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, log_ndtr, logsumexp, ndtr, softmax

Array = np.ndarray
BLOCK = 20_000  # rows; nothing n-long and temporary while a table is made, so that its peak is its size
GP_COLUMNS = 10


class Spec(NamedTuple):
    """A problem in plain values."""

    kind: str  # "logit", "probit", "poisson", "gamma", "softmax", "generative", "gp", "gp-classes"
    n: int
    d: int
    columns: str = "well"
    classes: int = 2
    scale: float | None = 1.0
    n_test: int = 0
    per_row: int = 50


# --- tables ------------------------------------------------------------------------------------------------------


def blocks(n: int) -> list[slice]:
    return [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]


def stretch(rng: np.random.Generator, d: int, condition: float = 1e3) -> Array:
    """A symmetric (d, d) matrix with this condition number and largest eigenvalue 1."""
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return np.asarray((basis * np.geomspace(1, 1 / condition, d)) @ basis.T)


def dense(rng: np.random.Generator, n: int, d: int, columns: str) -> Array:
    turn = stretch(rng, d) if columns in ("ill", "ill-separable") else None
    X = np.empty((n, d))
    for rows in blocks(n):
        block = rng.normal(size=(rows.stop - rows.start, d))
        X[rows] = block if turn is None else block @ turn
    return X


def csr(rng: np.random.Generator, n: int, d: int, per_row: int) -> Any:
    """Ones in columns whose frequency falls like that of words: the square of a uniform number, times d."""
    column = (rng.random((n, per_row)) ** 2 * d).astype(np.int32).ravel()
    row = np.repeat(np.arange(n, dtype=np.int32), per_row)
    X = sparse.csr_array((np.ones(n * per_row), (row, column)), shape=(n, d))
    X.sum_duplicates()
    return X


def scores(rng: np.random.Generator, X: Any, spread: float, n_outputs: int = 1) -> Array:
    """Linear scores with standard deviation `spread`, (n, n_outputs)."""
    w = rng.normal(size=(X.shape[1], n_outputs))
    F = X @ w
    return np.asarray(F * (spread / F.std(axis=0)))


SPREAD = {"well": 1.5, "ill": 1.5, "sparse": 1.5, "separable": 30.0, "ill-separable": 30.0}


def labels(rng: np.random.Generator, X: Any, spec: Spec) -> Array:
    n = X.shape[0]
    spread = SPREAD[spec.columns]
    if spec.kind == "softmax":
        noisy = scores(rng, X, spread, spec.classes) + rng.gumbel(size=(n, spec.classes))
        return np.asarray(noisy.argmax(axis=1))
    f = scores(rng, X, spread if spec.kind in ("logit", "probit") else 0.7)[:, 0]
    if spec.kind == "poisson":
        return np.asarray(rng.poisson(np.exp(f)), dtype=float)
    if spec.kind == "gamma":
        return np.asarray(rng.gamma(2.0, np.exp(f) / 2.0))
    p = ndtr(f) if spec.kind == "probit" else expit(f)
    return np.asarray(rng.random(n) < p, dtype=int)


def gaussian_classes(rng: np.random.Generator, spec: Spec) -> tuple[Array, Array]:
    """Gaussian classes with correlated columns, each class with spreads of its own."""
    n, d, K = spec.n, spec.d, spec.classes
    mixing = np.eye(d) + rng.normal(size=(d, d)) / np.sqrt(4 * d)
    spread, centre = rng.uniform(0.8, 1.2, size=(K, d)), rng.normal(size=(K, d)) / 3
    y = rng.integers(K, size=n)
    X = np.empty((n, d))
    for rows in blocks(n):
        X[rows] = (rng.normal(size=(rows.stop - rows.start, d)) * spread[y[rows]] + centre[y[rows]]) @ mixing
    return X, y


def waves(rng: np.random.Generator, n: int, d: int, classes: int = 2) -> tuple[Array, Array]:
    """Gaussian columns; scores that wave, multiply and rise with four of them each; noisy labels."""
    X = rng.normal(size=(n, d))
    four = [X[:, np.arange(k, k + 4) % d].T for k in range(1 if classes == 2 else classes)]
    F = np.column_stack([2 * np.sin(1.5 * a) + b * c - e / 2 for a, b, c, e in four])
    if classes == 2:
        return X, (rng.random(n) < expit(2 * F[:, 0])).astype(int)
    return X, (2 * F + rng.gumbel(size=F.shape)).argmax(axis=1)


# --- objectives ----------------------------------------------------------------------------------------------------


class Loss(NamedTuple):
    """Minus the log likelihood of rows (up to a constant), and its derivative by the score."""

    value: Callable[[Array, Array], float]
    slope: Callable[[Array, Array], Array]


def softmax_loss(y: Array, F: Array) -> float:
    return float((logsumexp(F, axis=1) - F[np.arange(len(y)), y]).sum())


def softmax_slope(y: Array, F: Array) -> Array:
    P = softmax(F, axis=1)
    P[np.arange(len(y)), y] -= 1
    return P


def probit_slope(y: Array, f: Array) -> Array:
    s = 2 * y - 1
    z = s * f
    return np.asarray(-s * np.exp(-(z**2) / 2 - log_ndtr(z)) / np.sqrt(2 * np.pi))


LOSSES = {
    "logit": Loss(lambda y, f: float(np.logaddexp(0, (1 - 2 * y) * f).sum()), lambda y, f: expit(f) - y),
    "probit": Loss(lambda y, f: float(-log_ndtr((2 * y - 1) * f).sum()), probit_slope),
    "poisson": Loss(lambda y, f: float((np.exp(f) - y * f).sum()), lambda y, f: np.exp(f) - y),
    "gamma": Loss(lambda y, f: float((y * np.exp(-f) + f).sum()), lambda y, f: 1 - y * np.exp(-f)),
    "softmax": Loss(softmax_loss, softmax_slope),
}


class Judged(NamedTuple):
    """How good an answer is: lower values are better; NaN where there is no such number."""

    value: float
    gradient_norm: float


@dataclass
class Problem:
    """Rows, labels, and the judgement of an answer.

    An answer is what a method's `read` gives: for linear models the weights, (d,) or (K, d); for a Gaussian process
    minus its log evidence, or minus the mean log probability of labels that it did not see; elsewhere probabilities.
    """

    spec: Spec
    X: Any
    y: Array
    X_test: Array
    y_test: Array
    kept: dict[str, Any] = field(default_factory=dict)  # what an adapter makes of the rows, outside the clock

    def keep(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    @property
    def input_bytes(self) -> int:
        arrays = [self.X] if isinstance(self.X, Array) else [self.X.data, self.X.indices, self.X.indptr]
        return sum(array.nbytes for array in [*arrays, self.y])

    @cached_property
    def linear(self) -> bool:
        return self.spec.kind in LOSSES

    def judge(self, answer: Array | None) -> Judged:
        if answer is None:
            return Judged(np.nan, np.nan)
        if not self.linear or (np.ndim(answer) == 1 and len(answer) != self.spec.d):
            scalar = np.ndim(answer) == 0
            return Judged(float(answer) if scalar else np.nan, np.nan)
        return self.objective(np.asarray(answer, dtype=float))

    def objective(self, w: Array) -> Judged:
        """Minus log likelihood plus |w|²/(2 scale²), and the norm of its gradient."""
        loss, precision = LOSSES[self.spec.kind], 0.0 if self.spec.scale is None else self.spec.scale**-2
        value, gradient = precision * float((w**2).sum()) / 2, precision * w
        for rows in blocks(self.X.shape[0]):
            block, y = self.X[rows], self.y[rows]
            F = block @ w.T
            value += loss.value(y, F)
            gradient = gradient + (block.T @ loss.slope(y, F)).T
        return Judged(value, float(np.linalg.norm(gradient)))

    def farthest(self, gradient_norm: float) -> float:
        """The most by which an objective with this gradient can be above its minimum.

        The prior makes the objective strongly convex, with constant 1/scale²: the distance is at most scale² |g|²/2.
        """
        return math.inf if self.spec.scale is None else (self.spec.scale * gradient_norm) ** 2 / 2

    def log_score_loss(self, P: Array) -> Array:
        """Minus the mean log probability of the test labels, given (n_test, K) probabilities."""
        return np.asarray(-np.log(P[np.arange(len(self.y_test)), self.y_test]).mean())


def make(spec: Spec) -> Problem:
    """The problem of a spec: the same one in every process."""
    rng = np.random.default_rng([spec.n, spec.d, len(spec.columns)])
    none = np.empty((0, spec.d)), np.empty(0, int)
    if spec.kind == "generative":
        return Problem(spec, *gaussian_classes(rng, spec), *none)
    if spec.kind in ("gp", "gp-classes"):
        X, y = waves(rng, spec.n + spec.n_test, spec.d, spec.classes)
        return Problem(spec, X[: spec.n], y[: spec.n], X[spec.n :], y[spec.n :])
    sparse_columns = spec.columns == "sparse"
    X = csr(rng, spec.n, spec.d, spec.per_row) if sparse_columns else dense(rng, spec.n, spec.d, spec.columns)
    return Problem(spec, X, labels(rng, X, spec), *none)
