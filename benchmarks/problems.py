"""Tables and labels made from a seed, and the objective that every package is asked to minimise.

Columns of a linear problem are

- "well": independent, standard normal;
- "ill": the same, rotated and stretched, so that the condition number of X is 1,000 (that of the Hessian 10⁶);
- "separable": those of "well", with labels that hardly ever disagree with the sign of the score;
- "ill-separable": columns of "ill", labels of "separable";
- "sparse": CSR, fifty ones in a row, common columns and rare ones.

There is no intercept, since packages differ in whether they shrink it. The prior is N(0, scale²) on every weight, or
none (scale None: maximum likelihood). scikit-learn's C is scale², glum's alpha is 1/(n scale²).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, log_ndtr, logsumexp, ndtr

Array = np.ndarray
BLOCK_ROWS = 20_000  # tables are filled in blocks, so that making one takes hardly more memory than it has
ONES_PER_ROW = 50
SCALES = {"well": 1.0, "sparse": 1.0, "ill": 10.0, "separable": 10.0, "ill-separable": 10.0}


class Problem(NamedTuple):
    """Rows, class codes, the link ("logit", "probit" or "softmax") and the standard deviation of the prior."""

    X: Any
    y: Array
    link: str = "logit"
    scale: float | None = 1.0


def linear(n: int, d: int, columns: str = "well", link: str = "logit", classes: int = 2) -> Problem:
    """A linear problem, the same in every process."""
    rng = np.random.default_rng([n, d, len(columns)])
    X = _csr(rng, n, d) if columns == "sparse" else _dense(rng, n, d, ill="ill" in columns)
    F = X @ rng.normal(size=(d, classes if link == "softmax" else 1))
    F *= (30.0 if "separable" in columns else 1.5) / F.std(axis=0)
    if link == "softmax":
        y = (F + rng.gumbel(size=F.shape)).argmax(axis=1)
    else:
        y = (rng.random(n) < (ndtr if link == "probit" else expit)(F[:, 0])).astype(int)
    return Problem(X, y, link, SCALES[columns])


def _dense(rng: np.random.Generator, n: int, d: int, *, ill: bool) -> Array:
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    stretch = (basis * np.geomspace(1, 1e-3, d)) @ basis.T
    X = np.empty((n, d))
    for start in range(0, n, BLOCK_ROWS):
        block = rng.normal(size=X[start : start + BLOCK_ROWS].shape)
        X[start : start + BLOCK_ROWS] = block @ stretch if ill else block
    return X


def _csr(rng: np.random.Generator, n: int, d: int) -> Any:
    """Ones in columns whose frequency falls like that of words: the square of a uniform number, times d."""
    column = (rng.random(n * ONES_PER_ROW) ** 2 * d).astype(np.int32)
    row = np.repeat(np.arange(n, dtype=np.int32), ONES_PER_ROW)
    X = sparse.csr_array((np.ones(len(row)), (row, column)), shape=(n, d))
    X.sum_duplicates()
    return X


def objective(problem: Problem, w: Array) -> float:
    """Minus the log likelihood plus |w|²/(2 scale²), at weights (d,) or for the softmax (K, d)."""
    X, y, link, scale = problem
    F = X @ w.T
    if link == "softmax":
        loss = logsumexp(F, axis=1) - F[np.arange(len(y)), y]
    else:
        margin = (2 * y - 1) * F
        loss = -log_ndtr(margin) if link == "probit" else np.logaddexp(0, -margin)
    return float(loss.sum()) + (0.0 if scale is None else float((w**2).sum()) / (2 * scale**2))


def gaussian_classes(n: int, d: int) -> Problem:
    """Two Gaussian classes with correlated columns, each with spreads of its own."""
    rng = np.random.default_rng([n, d])
    mixing = np.eye(d) + rng.normal(size=(d, d)) / np.sqrt(4 * d)
    spread, centre = rng.uniform(0.8, 1.2, size=(2, d)), rng.normal(size=(2, d)) / 3
    y = rng.integers(2, size=n)
    X = np.empty((n, d))
    for start in range(0, n, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        X[rows] = (rng.normal(size=X[rows].shape) * spread[y[rows]] + centre[y[rows]]) @ mixing
    return Problem(X, y)


def waves(n: int, d: int = 10) -> Problem:
    """Gaussian columns; a score that waves, multiplies and rises with four of them; noisy labels."""
    rng = np.random.default_rng([n, d])
    X = rng.normal(size=(n, d))
    f = 2 * np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] - X[:, 3] / 2
    return Problem(X, (rng.random(n) < expit(2 * f)).astype(int))
