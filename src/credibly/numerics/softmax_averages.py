"""Averages of the softmax function over normal scores f ~ N(m, V), one score per class.

Notation
--------
===========  ==============================================================================
K            number of classes (the last axis)
m, V         mean (K,) and covariance (K, K) of the scores of one row
B            (K, r) principal axes of V once the common shift is taken out: f = m + B z
z            (r,) independent standard normal
spread       how far apart z = 1 on one axis drives two classes, maxₖ B − minₖ B
===========  ==============================================================================

Softmax does not see a constant added to all scores, so V is centred and at most K − 1 axes remain. A row whose
axes are few or short is integrated by a product rule, in double precision; any other by quasi-random points in
doses that double until two successive averages agree, in single precision (its rounding, 1e-7, is far
below the error of the points). Both choices depend on the row alone: no seed and no neighbour changes an answer.
"""

from collections.abc import Iterator
from functools import lru_cache, reduce
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credibly.errors import InputError
from credibly.numerics import special
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.logistic_averages import log_sigmoid
from credibly.numerics.quadrature import REACH, Rule, gauss_hermite, normal_points, row_chunks, sobol_pairs, trapezoid

__all__ = ["log_softmax", "softmax"]

_Single = NDArray[np.float32]

_GOAL = 5e-7  # error of an averaged logistic function; those of two axes add up to 1e-6 at most


def _widest(n: int) -> float:
    r"""Largest spread s for which n evenly spaced nodes average the logistic function to `_GOAL`, whatever its mean.

    Its poles are a = π/s off the real axis; with steps h they leave an error of
    :math:`2\sqrt{2π} / s \cdot e^{a^2/2 - 2πa/h}` at most (Trefethen, Weideman 2014, sec. 5), which is solved for a.
    """
    h = 2 * REACH / (n - 1)
    a = h
    for _ in range(50):  # a contraction: by 0.4 for 16 nodes, faster for more
        a = h / (2 * np.pi) * (np.log(np.sqrt(8 / np.pi) * a / _GOAL) + a**2 / 2)
    return float(np.pi / a)


# (nodes, largest spread for which the averaged logistic function is right to `_GOAL` whatever its mean)
_GAUSS = ((1, 0.0033), (2, 0.082), (3, 0.23), (4, 0.38), (5, 0.51), (6, 0.63), (8, 0.83), (10, 1.01), (12, 1.16))
_EVEN_SPACED = (16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192)
_TRAPEZOID = tuple((n, _widest(n)) for n in _EVEN_SPACED)
_COUNTS, _SPREADS = (np.array(column) for column in zip(*_GAUSS, *_TRAPEZOID, strict=True))
_TOO_WIDE = 10**6  # stands for "no product rule" in a table of node counts

_AFFORDABLE = np.array([2**19, 2**19, 2**19, 2**17, 2**13, 2**10])  # nodes of a product, by number of axes
_AFFORDABLE_BEYOND = 512
_ROWS = 4096  # handled together
_POINTS = 4096  # taken together
_DOSES = tuple(2**i for i in range(6, 21))  # points so far after each dose: 64 to a million
_LOG_RANGE = 600.0  # products of exponentials stay inside the double range
_LARGEST = 1e30  # of an axis, so that sums of eight of its points stay in the range of single precision
_TINY = 1e-25  # a probability below this may have lost digits to underflow in single precision


def log_softmax(m: ArrayLike, V: ArrayLike, *, tol: float = 1e-4) -> Array:
    r"""Logarithm of the average of the softmax function over normal scores.

    .. math:: \log E\!\left[\frac{e^{f_k}}{\sum_j e^{f_j}}\right], \qquad f \sim N(m, V)

    Parameters
    ----------
    m : (..., K) float array
        Means of the scores.
    V : (..., K, K) float array
        Covariances; positive semi-definite, zero and singular ones included. Leading axes broadcast with m.
    tol : float
        Absolute error of a probability that is aimed at where quasi-random points are needed.

    Returns
    -------
    (..., K) float array

    Notes
    -----
    Two classes: exactly the averaged logistic function of the difference. Three and more: absolute error of a
    probability about 1e-6 with a product rule (three or four classes, or small variances); with points the
    doses stop when they agree to half of `tol`, an estimate and not a bound. A row gets at most a million
    points, hundredths to tenths of a second, which is too few for 1e-4 (errors up to 4e-4 were seen) when
    variances reach 1000 with six classes, 100 with ten or 25 with twenty. A probability far below `tol` keeps
    its order of magnitude, not its digits.

    Examples
    --------
    >>> np.exp(log_softmax([1.0, 0.0, -1.0], np.eye(3))).round(6)
    array([0.596015, 0.281358, 0.122626])
    """
    m, V = np.asarray(m, dtype=float), np.asarray(V, dtype=float)
    K = m.shape[-1]
    if V.shape[-2:] != (K, K):
        raise InputError(f"V must end in ({K}, {K}) to match {K} means; its shape is {V.shape}")
    lead = np.broadcast_shapes(m.shape[:-1], V.shape[:-2])
    m = np.broadcast_to(m, (*lead, K)).reshape(-1, K)
    V = np.broadcast_to(V, (*lead, K, K)).reshape(-1, K, K)
    out = np.empty(m.shape)
    for i in range(0, len(m), _ROWS):
        block = slice(i, i + _ROWS)
        out[block] = _two_classes(m[block], V[block]) if K == 2 else _many_classes(m[block], V[block], tol)
    return out.reshape((*lead, K))


def softmax(m: ArrayLike, V: ArrayLike, *, tol: float = 1e-4) -> Array:
    r"""Average of the softmax function over normal scores: the predictive probabilities of all classes.

    .. math:: E\!\left[\frac{e^{f_k}}{\sum_j e^{f_j}}\right], \qquad f \sim N(m, V)

    Parameters
    ----------
    m : (..., K) float array
        Means of the scores.
    V : (..., K, K) float array
        Covariances; positive semi-definite. Leading axes broadcast with m.
    tol : float
        Absolute error that is aimed at where quasi-random points are needed.

    Returns
    -------
    (..., K) float array
        Rows sum to one.

    See Also
    --------
    log_softmax : the same in log space, with the method and its limits.

    Examples
    --------
    >>> softmax([0.0, 0.0, 0.0], 100 * np.ones((3, 3))).round(6)  # a common shift changes nothing
    array([0.333333, 0.333333, 0.333333])
    """
    return np.exp(log_softmax(m, V, tol=tol))


def _two_classes(m: Array, V: Array) -> Array:
    gap = m[:, 0] - m[:, 1]
    B = _principal_axes(V)
    v = ((B[:, 0] - B[:, 1]) ** 2).sum(axis=-1)
    return np.stack([log_sigmoid(gap, v), log_sigmoid(-gap, v)], axis=-1)


def _principal_axes(V: Array) -> Array:
    """B (n, K, K−1) with B Bᵀ = V but for the common shift; longest axis first."""
    centred = V - V.mean(axis=-1, keepdims=True)
    centred = centred - centred.mean(axis=-2, keepdims=True)
    variance, axes = np.linalg.eigh(centred)
    if (variance[:, 0] < -1e-8 * (variance[:, -1] + np.abs(V).max(axis=(1, 2)))).any():
        raise InputError(f"V is not positive semi-definite: smallest eigenvalue {variance.min():.3g}")
    variance = np.where(variance > 0, variance, 0.0)  # rounding leaves zeros of either sign
    scaled: Array = (axes * np.sqrt(variance)[:, None, :])[:, :, :0:-1]
    return scaled


def _many_classes(m: Array, V: Array, tol: float) -> Array:
    """Choose a rule for each row and collect log probabilities; K = 1 and K ≥ 3."""
    m = m - m.max(axis=1, keepdims=True)
    B = _principal_axes(V)
    counts = _node_counts(B)
    product = _affordable(counts)
    log_p = np.empty(m.shape)
    for pattern, rows in _groups(counts, np.flatnonzero(product)):
        log_p[rows] = _product_average(m[rows], B[rows], pattern)
    rest = np.flatnonzero(~product)
    if len(rest):
        log_p[rest] = _point_average(m[rest], B[rest], tol)
    return log_p - special.log_sum_exp(log_p)[:, None]


# --- product rules ------------------------------------------------------------------------------------------


def _node_counts(B: Array) -> Codes:
    """Nodes that each axis of each row needs; (n, r)."""
    spread = B.max(axis=1) - B.min(axis=1)
    counts: Codes = np.append(_COUNTS, _TOO_WIDE)[np.searchsorted(_SPREADS, spread)]
    return counts


def _affordable(counts: Codes) -> NDArray[np.bool_]:
    """Whether a product rule costs less than the points that the row would need."""
    axes = (counts > 1).sum(axis=1)
    limit = np.append(_AFFORDABLE, _AFFORDABLE_BEYOND)[np.minimum(axes, len(_AFFORDABLE))]
    affordable: NDArray[np.bool_] = counts.prod(axis=1, dtype=float) <= limit
    return affordable


def _groups(counts: Codes, rows: Codes) -> Iterator[tuple[tuple[int, ...], Codes]]:
    """Rows with the same node counts, with those counts."""
    patterns, which = np.unique(counts[rows], axis=0, return_inverse=True)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(patterns) + 1))
    for pattern, start, stop in zip(patterns, starts, starts[1:], strict=False):
        yield tuple(int(n) for n in pattern), rows[order[start:stop]]


def _rule(n: int) -> Rule:
    return gauss_hermite(n) if n <= _GAUSS[-1][0] else trapezoid(n)


def _product_weights(pattern: tuple[int, ...]) -> Array:
    return reduce(lambda w, n: np.multiply.outer(w, np.exp(_rule(n).log_weights)).ravel(), pattern, np.ones(1))


def _product_average(m: Array, B: Array, pattern: tuple[int, ...]) -> Array:
    """log p by the product of one-dimensional rules: exponentials on the axes only, products elsewhere."""
    reach = np.array([_rule(n).nodes[-1] for n in pattern])
    exponent = np.abs(m).max(axis=1) + 2 * (np.abs(B).max(axis=1) * reach).sum(axis=1)
    log_p, weights = np.empty(m.shape), _product_weights(pattern)
    safe = np.isfinite(exponent) & (exponent < _LOG_RANGE)
    for rows in row_chunks(np.flatnonzero(safe), m.shape[1] * len(weights)):
        tables = [np.exp(B[rows, :, i, None] * _rule(n).nodes) for i, n in enumerate(pattern) if n > 1]
        scores = reduce(_outer, tables, np.exp(m[rows])[:, :, None])
        log_p[rows] = np.log((scores @ (weights / scores.sum(axis=1))[:, :, None])[:, :, 0])
    for row in np.flatnonzero(~safe):
        grid = np.meshgrid(*(_rule(n).nodes for n in pattern), indexing="ij")
        points = np.stack(grid).reshape(len(pattern), -1)
        log_p[row] = _log_space_average(m[row], B[row], points, np.log(weights))
    return log_p


def _outer(scores: Array, table: Array) -> Array:
    """(n, K, S) and (n, K, T) to their products at all pairs of nodes, (n, K, S·T)."""
    n, K, _ = scores.shape
    return (scores[:, :, :, None] * table[:, :, None, :]).reshape(n, K, -1)


def _log_space_average(m: Array, B: Array, points: Array, log_weights: Array) -> Array:
    """log p of one row whose exponentials would leave the range of numbers; points (r, S)."""
    log_prob = special.log_softmax((m[:, None] + B @ points).T)
    return special.log_sum_exp(log_prob + log_weights[:, None], axis=0)


# --- quasi-random points ------------------------------------------------------------------------------------


def _point_average(m: Array, B: Array, tol: float) -> Array:
    """log p by doses of points, each row until successive averages agree."""
    p, change = np.full(m.shape, np.inf), np.full(len(m), np.inf)
    rows, total = np.arange(len(m)), np.zeros(m.shape)
    single_m, single_B = _in_single(m, B)
    # A dose is made white, so even the first has twice as many pairs of points as there are dimensions.
    for spent, size in pairwise((0, *(size for size in _DOSES if size >= 4 * B.shape[2]))):
        total[rows] += _sum_over(single_m[rows], single_B[rows], _dose(spent, size, B.shape[2]))
        before, p[rows] = (p[rows], change[rows]), total[rows] / size
        # Old and new points are equally many and equally good: the change is as large as the error that is left.
        # That the change before was not much larger guards against agreement by accident.
        change[rows] = np.abs(p[rows] - before[0]).max(axis=1)
        rows = rows[np.maximum(change[rows], before[1] / 2) > 0.5 * tol]
        if not len(rows):
            break
    return _log_with_tails(p, m, B)


def _in_single(m: Array, B: Array) -> tuple[_Single, _Single]:
    """Means and axes in single precision; beyond its range a softmax is a maximum, which does not know a factor."""
    scale = np.maximum(np.abs(B).max(axis=(1, 2), initial=0.0) / _LARGEST, 1.0)
    with np.errstate(over="ignore"):  # a class so far below the best that it cannot be: −inf
        return (m / scale[:, None]).astype(np.float32), (B / scale[:, None, None]).astype(np.float32)


@lru_cache(maxsize=24)
def _dose(start: int, stop: int, dim: int) -> _Single:
    """Points number start to stop of the sequence, (dim, pairs); the other half is their negative."""
    return np.ascontiguousarray(sobol_pairs(start // 2, stop // 2, dim).T, dtype=np.float32)


def _sum_over(m: _Single, B: _Single, dose: _Single) -> Array:
    """Sum of softmax(m ± B z) over the points of a dose; (n, K)."""
    n, K, r = B.shape
    out = np.zeros((n, K))
    # Products this small are not spread over threads, which on a busy machine makes them 200 times slower.
    step = min(_POINTS, dose.shape[1], 2**18 // (K * r))
    for rows in row_chunks(np.arange(n), K * r * step // 8):
        for i in range(0, dose.shape[1], step):
            shift = (B[rows].reshape(-1, r) @ dose[:, i : i + step]).reshape(len(rows), K, -1)
            out[rows] += _sum_of_softmax(m[rows, :, None] + shift) + _sum_of_softmax(m[rows, :, None] - shift)
    return out


def _sum_of_softmax(f: _Single) -> _Single:
    """Sum over points of softmax over classes, in place; (n, K, points) to (n, K)."""
    f -= f.max(axis=1, keepdims=True)
    np.exp(f, out=f)
    total: _Single = (f @ (1.0 / f.sum(axis=1))[:, :, None])[:, :, 0]
    return total


def _log_with_tails(p: Array, m: Array, B: Array) -> Array:
    """log p, where the tiniest are found again in log space."""
    tiny = p < _TINY
    log_p = np.log(np.where(tiny, 1.0, p))
    points, log_weight = normal_points(_POINTS, B.shape[2]).T, np.full(1, -np.log(_POINTS))
    for row in np.flatnonzero(tiny.any(axis=1)):
        log_p[row, tiny[row]] = _log_space_average(m[row], B[row], points, log_weight)[tiny[row]]
    return log_p
