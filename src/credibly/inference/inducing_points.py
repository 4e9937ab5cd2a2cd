"""Which rows to choose as inducing points, and which of given points are independent in floating point.

Notation
--------
====  ==========================================================================  ========
F     rows of a pivoted Cholesky factor: k(X, X) ≈ Fᵀ F                           (m, n)
left  diagonal of k(X, X) - Fᵀ F: what the rows chosen so far leave open          (n,)
====  ==========================================================================  ========
"""

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import PSD

RANK = 1e-10  # of the largest variance: a point whose own share is less is determined by the others
# Sum over all rows of the variances that points leave open, below which no more are chosen. A variance D of a row's own
# takes ½ D W from the evidence, W being the likelihood's curvature, at most 1/4 (logit) or about 1 (probit): an eighth
# of a nat, or half a nat, which is what hyperparameters are found to.
ENOUGH = 1.0
CANDIDATES = 10  # rows that are looked at for every point that is wanted
FEWEST_CANDIDATES = 2_000
DIAGONAL = 64  # rows whose kernel matrix is made for its diagonal


def pivoted_rows(
    kernel: Kernel, X: Array, size: int, rng: np.random.Generator | None = None, enough: float = 0.0
) -> Codes:
    """Rows of X in the order of a pivoted Cholesky factorisation of k(X, X), `size` at most, fewer at numerical rank.

    Also fewer where those chosen leave open no more than `enough` in all; one there is, unless the kernel is zero.
    Without a generator the next row is the one of which most is left open; with one it is drawn in proportion to that.

    References
    ----------
    Chen, Epperly, Tropp & Webber 2023 (randomly pivoted Cholesky).
    """
    left = noiseless_diagonal(kernel, X)
    least = RANK * left.max(initial=0.0)
    F = np.empty((size, len(X)))
    chosen: list[int] = []
    for j in range(size):
        at = int(left.argmax()) if rng is None else _drawn(rng, left)
        if not left[at] > least or (chosen and left.sum() < enough):
            break
        F[j] = (kernel(X[at : at + 1], X)[0] - F[:j, at] @ F[:j]) / np.sqrt(left[at])
        left -= F[j] ** 2
        left[at] = 0.0
        chosen.append(at)
    return np.array(chosen, dtype=np.intp)


def _drawn(rng: np.random.Generator, left: Array) -> int:
    share = np.cumsum(np.where(left > 0, left, 0.0))
    return int(np.searchsorted(share, rng.uniform(0.0, share[-1]), side="right")) if share[-1] > 0 else 0


def noiseless_diagonal(kernel: Kernel, X: Array) -> Array:
    """k(x, x) between rows of two tables: without the noise of a row's own (`White`)."""
    starts = range(0, len(X), DIAGONAL)
    parts = [np.diag(kernel(X[i : i + DIAGONAL], X[i : i + DIAGONAL])) for i in starts]
    return np.concatenate([*parts, np.zeros(0)])


def independent_points(kernel: Kernel, points: Array) -> Codes:
    """Which points have a kernel matrix that is well conditioned; all of them where they have."""
    if not noiseless_diagonal(kernel, points).any():
        raise NotPositiveDefinite("the kernel is zero at the inducing points.")
    try:
        pivots = np.diag(PSD.of(kernel(points, points), "the kernel matrix of the inducing points").factor) ** 2
    except NotPositiveDefinite:
        pivots = np.zeros(len(points))
    if pivots.min() > RANK * noiseless_diagonal(kernel, points).max():
        return np.arange(len(points))
    return np.sort(pivoted_rows(kernel, points, len(points)))


def chosen_points(rng: np.random.Generator, kernel: Kernel, X: Array, size: int) -> Array:
    """Points for a kernel: rows of X, drawn by a pivoted Cholesky factorisation from a random part of them."""
    n = min(len(X), max(FEWEST_CANDIDATES, CANDIDATES * size))
    candidates = X if n == len(X) else X[np.sort(rng.choice(len(X), n, replace=False))]
    return candidates[np.sort(pivoted_rows(kernel, candidates, size, rng, ENOUGH * n / len(X)))]
