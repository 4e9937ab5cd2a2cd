"""Averages of the softmax function over normal scores f ~ N(m, V), one score per class.

Notation
--------
===========  ==============================================================================
K            number of classes (the last axis)
m, V         mean (K,) and covariance (K, K) of the scores of one row
B            (K, r) principal axes of V once the common shift is taken out: f = m + B z
z            (r,) independent standard normal; r = K − 1
spread       how far apart z = 1 on one axis drives two classes, maxₖ B − minₖ B
===========  ==============================================================================

Softmax does not see a constant added to all scores, so V is centered and at most K − 1 axes remain. A row whose axes
are few or short is integrated by a product of one-dimensional rules; any other by quasi-random points, as many as its
class count and its widest axis ask for. Both choices depend on the row alone: no seed and no neighbour changes an
answer.

Largest errors of a probability that were measured against brute force (24 to 60 rows each: equal or random variances,
means up to twice as far apart as the standard deviation), and the time of 10,000 rows on one core:

===========================  ======  ======  ======  ======  ======  ======  ================
standard deviation of scores    0.3       1       3       5      10      20  seconds
===========================  ======  ======  ======  ======  ======  ======  ================
three classes                  1e-7    4e-8    7e-8    1e-7    3e-8    5e-6  0.05, at 10 0.5
four classes                   7e-8    1e-7    2e-6    2e-5    7e-5    1e-4  0.05 to 6
five classes                   4e-8    4e-5    3e-5    4e-5    2e-4    3e-4  0.06 to 8
six classes                    6e-8    1e-4    2e-4    2e-4    6e-4    1e-3  0.2 to 2.5
ten classes                    2e-5    1e-4    5e-4    7e-4    1e-3    2e-3  0.3, from 3 on 4
twenty classes                 3e-5    2e-4    8e-4    2e-3    2e-3    3e-3  1, from 3 on 12
===========================  ======  ======  ======  ======  ======  ======  ================
"""

from collections.abc import Iterator
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from credibly.errors import InputError
from credibly.numerics import special
from credibly.numerics.arrays import Array, Codes, row_blocks
from credibly.numerics.averages import LOGISTIC_NORMALS, sigmoid_averages
from credibly.numerics.quadrature import Rule, gauss_hermite, normal_points, trapezoid
from credibly.numerics.settings import BLOCK_SIZES

_Single = NDArray[np.float32]

# Reach of evenly spaced nodes, in standard deviations: probabilities down to 1e-9 have three digits at least.
_NODE_REACH = 7.0
_GOAL = 5e-7  # error of an averaged logistic function; those of two axes add up to 1e-6 at most


def _widest(n: int) -> float:
    r"""Largest spread s for which n evenly spaced nodes average the logistic function to `_GOAL`, whatever its mean.

    Its poles are a = π/s off the real axis; with steps h they leave an error of
    :math:`2\sqrt{2π} / s \cdot e^{a^2/2 - 2πa/h}` at most (Trefethen, Weideman 2014, sec. 5), which is solved for a.
    """
    h = 2 * _NODE_REACH / (n - 1)
    a = h
    for _ in range(50):  # a contraction: by 0.4 for 24 nodes, faster for more
        a = h / (2 * np.pi) * (np.log(np.sqrt(8 / np.pi) * a / _GOAL) + a**2 / 2)
    return float(np.pi / a)


# Nodes on an axis, by the largest spread for which the averaged logistic function is right to `_GOAL`, for any mean:
# measured for Gauss-Hermite rules, computed by `_widest` for evenly spaced nodes.
_GAUSS = ((1, 0.0033), (3, 0.22), (5, 0.5), (8, 0.8), (12, 1.1))
_COUNTS = np.array([n for n, _ in _GAUSS] + [24, 32, 48, 64, 96, 128, 192, 256, 384])
_SPREADS = np.array([spread for _, spread in _GAUSS] + [_widest(int(n)) for n in _COUNTS[len(_GAUSS) :]])
_TOO_WIDE = 10**6  # stands for "no product rule" in a table of node counts

_FEW_CLASSES = 5  # for which up to 2¹⁷ nodes or points are worth their time, 0.3 to 0.8 ms a row
_POINT_SPREADS = (0.5, 2.0)  # the widest axis …
_POINTS_FEW, _POINTS_MANY = (2**10, 2**13, 2**17), (2**10, 2**13, 2**15)  # … and the points that it gets
_NODES_PER_POINT = 4  # a node of a product costs a third of a point, and gains more

_LARGEST = 1e30  # of a score, in single precision: its products stay in range
_ROUNDED = 1e-8  # of a covariance: it may be a difference of larger matrices, known to half of the digits
_TINY = 1e-30  # a probability below this may have lost digits to underflow in single precision
_TAIL_POINTS = 1024  # for such a probability: of what is below the error of all points the order of magnitude is enough


# For averages of log p, in the directions that are left when all classes but one move together:
BY_NODES = 4  # classes at most: two axes are left of them
_MOST_ON_AXIS = (1, 1536, 64)  # by the number of axes
_MARGIN = 1.25  # on spreads: errors of 1e-8 instead of `_GOAL`
_LEAST_VARIANCE = 1e-14  # of an axis, beside the largest of a score: what is below is rounding
_NARROW_SPREAD, _NARROW_POINTS = 0.15, 128  # a spread below which so many points are enough
POINTS, FEW_POINTS = 4096, 1024  # for more classes; the second on the way to an optimum


def log_softmax(m: ArrayLike, V: ArrayLike) -> Array:
    r"""Logarithm of the average of the softmax function over normal scores.

    .. math:: \log E\!\left[\frac{e^{f_k}}{\sum_j e^{f_j}}\right], \qquad f \sim N(m, V)

    Parameters
    ----------
    m : (..., K) float array
        Means of the scores.
    V : (..., K, K) float array
        Covariances; positive semi-definite, zero and singular ones included. Leading axes broadcast with m.

    Returns
    -------
    (..., K) float array
        Probabilities sum to one.

    Notes
    -----
    Two classes: the averaged logistic function of the difference, exact to 1e-12. Three classes with standard
    deviations up to 20: 1e-6. More: see the table of the module; the error is absolute. Probabilities far below it keep
    their order of magnitude as long as scores within seven standard deviations (four with quasi-random points) decide
    them; smaller ones come out too small. A row takes 2 µs to 0.8 ms.

    Examples
    --------
    >>> np.exp(log_softmax([1.0, 0.0, -1.0], np.eye(3))).round(6)
    array([0.596015, 0.281358, 0.122626])
    """
    lead, m, V = _rows(m, V)
    out = np.full(m.shape, np.nan)  # as it stays where a mean or a covariance is not finite
    known = np.flatnonzero(np.isfinite(m).all(axis=1) & np.isfinite(V).all(axis=(1, 2)))
    for block in row_blocks(len(known), m.shape[1] ** 2, BLOCK_SIZES.covariances):
        rows = known[block]
        out[rows] = _log_proba(m[rows], V[rows])
    return out.reshape((*lead, m.shape[1]))


def softmax(m: ArrayLike, V: ArrayLike) -> Array:
    r"""Average of the softmax function over normal scores: the predictive probabilities of all classes.

    .. math:: E\!\left[\frac{e^{f_k}}{\sum_j e^{f_j}}\right], \qquad f \sim N(m, V)

    Parameters
    ----------
    m : (..., K) float array
        Means of the scores.
    V : (..., K, K) float array
        Covariances; positive semi-definite. Leading axes broadcast with m.

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
    return np.exp(log_softmax(m, V))


def _rows(m: ArrayLike, V: ArrayLike) -> tuple[tuple[int, ...], Array, Array]:
    """Leading shape, and means (n, K) and covariances (n, K, K) of all rows."""
    m, V = np.asarray(m, dtype=float), np.asarray(V, dtype=float)
    K = m.shape[-1]
    if V.shape[-2:] != (K, K):
        raise InputError(f"V must end in ({K}, {K}) to match {K} means; its shape is {V.shape}")
    lead = np.broadcast_shapes(m.shape[:-1], V.shape[:-2])
    return lead, np.broadcast_to(m, (*lead, K)).reshape(-1, K), np.broadcast_to(V, (*lead, K, K)).reshape(-1, K, K)


def _principal_axes(V: Array) -> Array:
    """B (n, K, K−1) with B Bᵀ = V but for the common shift; longest axis first."""
    centered = V - V.mean(axis=-1, keepdims=True)
    centered = centered - centered.mean(axis=-2, keepdims=True)
    variance, axes = np.linalg.eigh(centered)
    if (variance[:, 0] < -_ROUNDED * (variance[:, -1] + np.abs(V).max(axis=(1, 2)))).any():
        raise InputError(f"V is not positive semi-definite: smallest eigenvalue {variance.min():.3g}")
    variance = np.where(variance > 0, variance, 0.0)  # rounding leaves zeros of either sign
    scaled: Array = (axes * np.sqrt(variance)[:, None, :])[:, :, :0:-1]
    return scaled


@lru_cache
def _contrasts(K: int) -> Array:
    return np.linalg.qr(np.eye(K)[:, :-1] - 1.0 / K)[0]


def _log_proba(m: Array, V: Array) -> Array:
    """Log probabilities of one block of rows: two classes, or a rule for each row."""
    B, K = _principal_axes(V), m.shape[1]
    if K == 2:
        return np.stack(sigmoid_averages(m[:, 1] - m[:, 0], ((B[:, 0] - B[:, 1]) ** 2).sum(axis=-1)), axis=-1)
    m = m - m.max(axis=1, keepdims=True)
    counts = _node_counts(B)
    tier = np.searchsorted(_POINT_SPREADS, _spreads(B).max(axis=1, initial=0.0))
    points = np.array(_POINTS_FEW if K <= _FEW_CLASSES else _POINTS_MANY)[tier]
    affordable = np.full(len(m), _POINTS_FEW[-1]) if K <= _FEW_CLASSES else _NODES_PER_POINT * points
    product = counts.prod(axis=1, dtype=float) <= affordable
    log_p = np.empty(m.shape)
    for pattern, rows in _groups(counts, np.flatnonzero(product)):
        for part in row_blocks(len(rows), int(np.prod(pattern))):
            log_p[rows[part]] = _product_average(m[rows[part]], B[rows[part]], pattern)
    for size in np.unique(points[~product]):
        rows = np.flatnonzero(~product & (points == size))
        log_p[rows] = _point_average(m[rows], B[rows], int(size))
    return log_p - special.log_sum_exp(log_p)[:, None]


# --- product rules ------------------------------------------------------------------------------------------


def _spreads(B: Array) -> Array:
    return np.asarray(B.max(axis=1) - B.min(axis=1))


def _node_counts(B: Array) -> Codes:
    """Nodes that each axis of each row needs; (n, r)."""
    counts: Codes = np.append(_COUNTS, _TOO_WIDE)[np.searchsorted(_SPREADS, _spreads(B))]
    return counts


def _groups(counts: Codes, rows: Codes) -> Iterator[tuple[tuple[int, ...], Codes]]:
    """Rows with the same node counts, with those counts."""
    patterns, which = np.unique(counts[rows], axis=0, return_inverse=True)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(patterns) + 1))
    for pattern, start, stop in zip(patterns, starts, starts[1:], strict=False):
        yield tuple(int(n) for n in pattern), rows[order[start:stop]]


def _rule(n: int) -> Rule:
    return gauss_hermite(n) if n <= _GAUSS[-1][0] else trapezoid(n, _NODE_REACH)


@lru_cache(maxsize=256)
def _grid(pattern: tuple[int, ...]) -> tuple[Array, Array]:
    """Nodes (r, S) and weights (S,) of a product of rules."""
    nodes = np.stack(np.meshgrid(*(_rule(n).nodes for n in pattern), indexing="ij")).reshape(len(pattern), -1)
    return nodes, _product_weights(pattern)


def _product_weights(pattern: tuple[int, ...]) -> Array:
    return reduce(lambda w, n: np.multiply.outer(w, np.exp(_rule(n).log_weights)).ravel(), pattern, np.ones(1))


def _product_average(m: Array, B: Array, pattern: tuple[int, ...]) -> Array:
    """log p of rows with the same node counts.

    The axes are split in two halves, whose exponentials e^{B z} are few. The denominators at all pairs of their nodes
    are one matrix product, and so are the sums over one half. The means stay out of the numerators, so that no class is
    too improbable for its logarithm.
    """
    half = len(pattern) // 2
    left, right = _exponentials(B[:, :, :half], pattern[:half]), _exponentials(B[:, :, half:], pattern[half:])
    share = (np.exp(m)[:, :, None] * left).swapaxes(1, 2) @ right  # (n, left, right)
    np.divide(_product_weights(pattern[half:]), share, out=share)
    sums = share @ right.swapaxes(1, 2)  # (n, left, K)
    return np.asarray(m + np.log(np.einsum("nks,nsk,s->nk", left, sums, _product_weights(pattern[:half]))))


def _exponentials(B: Array, pattern: tuple[int, ...]) -> Array:
    """e^{B z} at the nodes of a product rule, (n, K, S): exponentials on the axes only, products elsewhere."""
    n, K, _ = B.shape
    out = np.ones((n, K, 1))
    for i, nodes in enumerate(pattern):
        table = np.exp(B[:, :, i, None] * _rule(nodes).nodes)
        out = (out[:, :, :, None] * table[:, :, None, :]).reshape(n, K, -1)
    return out


# --- quasi-random points ------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _single_points(size: int, dim: int) -> _Single:
    return np.ascontiguousarray(normal_points(size, dim).T, dtype=np.float32)


def _point_average(m: Array, B: Array, size: int) -> Array:
    """log p by so many points, in single precision: its rounding, 1e-7, is far below the error of the points."""
    n, K, r = B.shape
    points = _single_points(size, r)
    # beyond the range of single precision a softmax is a maximum, which does not know a factor
    scale = np.maximum(np.abs(B).max(axis=(1, 2)) / _LARGEST, 1.0)[:, None]
    with np.errstate(over="ignore"):  # a class so far below the best that it cannot be: −inf
        means, axes = (m / scale).astype(np.float32), (B / scale[:, :, None]).astype(np.float32)
    total = np.zeros((n, K))
    step = max(1, min(size, BLOCK_SIZES.single_scores // K))
    for rows in row_blocks(n, K * step, BLOCK_SIZES.single_scores):
        some = axes[rows].reshape(-1, r)
        for i in range(0, size, step):
            f = (some @ points[:, i : i + step]).reshape(-1, K, min(step, size - i))
            f += means[rows, :, None]
            f -= f.max(axis=1, keepdims=True)
            np.exp(f, out=f)
            total[rows] += (f @ (1.0 / f.sum(axis=1))[:, :, None])[:, :, 0]
    return _log_with_tails(total / size, m, B)


def _log_with_tails(p: Array, m: Array, B: Array) -> Array:
    """log p, where the tiniest are averaged again in log space by fewer points."""
    tiny = p < _TINY
    log_p = np.log(np.where(tiny, 1.0, p))
    lost, points = np.flatnonzero(tiny.any(axis=1)), normal_points(_TAIL_POINTS, B.shape[2]).T
    for part in row_blocks(len(lost), m.shape[1] * _TAIL_POINTS):
        rows = lost[part]
        log_prob = special.log_softmax((m[rows, :, None] + B[rows] @ points).swapaxes(1, 2))
        averaged = special.log_sum_exp(log_prob, axis=1) - np.log(_TAIL_POINTS)
        log_p[rows] = np.where(tiny[rows], averaged, log_p[rows])
    return log_p


# --- log p of one class and its derivatives -----------------------------------------------------------------


class AgainstOthers(NamedTuple):
    """Average of log(1 + e^(a - shift)) over normal scores, and its first and second derivatives in their means."""

    value: Array  # (n,)
    gradient: Array  # (n, K)
    hessian: Array  # (n, K, K)


def softplus_of_others(y: Codes, m: Array, V: Array, shift: float = 0.0, points: int = POINTS) -> AgainstOthers:
    r"""Averages of the softplus of the log odds a of all other classes against class y, f ~ N(m, V).

    .. math:: E[\log(1 + e^{a - c})], \qquad a = \log \textstyle\sum_{j \ne y} e^{f_j - f_y}, \qquad
              \log p_y = -\log(1 + e^a)

    Variational inference of a softmax needs them with shift c = 0, and with another where labels are flipped.

    Parameters
    ----------
    y : (n,) int array
        A class for each row.
    m : (n, K) float array
        Means of the scores.
    V : (n, K, K) float array
        Covariances; positive semi-definite.
    shift : float
        c.
    points : int
        A power of two; of the rule for five classes and more.

    Returns
    -------
    AgainstOthers

    Notes
    -----
    Where all others move together, a moves with them, and the average is known: with their common t ~ N(0, τ²)
    independent of what is left, and the logistic distribution a mixture of normals N(0, s_k²),

    .. math:: E_t[\log(1 + e^{a + t})] = \textstyle\sum_k π_k \{a Φ(a/r_k) + r_k φ(a/r_k)\}, \qquad r_k^2 = τ^2 + s_k^2

    K - 2 directions remain: none for two classes; evenly spaced or Gauss–Hermite nodes for three (errors of 1e-7, as
    long as scores differ by some 100 standard deviations at most) and four (up to 3; 1e-4 up to 6); else points, the
    same for every row and at every call. A root of the covariance that is a smooth function of it makes averages smooth
    functions of m and V. First and second derivatives in m are those of the very sum that is the value. Errors of
    4,096 points are at most 1e-3 where standard deviations are 1, and grow with them.

    References
    ----------
    Monahan & Stefanski 1992, Normal scale mixture approximations to F*(z) and computation of the logistic-normal
    integral (Handbook of the Logistic Distribution, ch. 22).

    Examples
    --------
    >>> value, slope, _ = softplus_of_others(np.array([0]), np.zeros((1, 3)), np.zeros((1, 3, 3)))
    >>> np.exp(value).round(6), slope.round(6)  # 1/p, and the negative of the gradient of log p
    (array([3.]), array([[-0.666667,  0.333333,  0.333333]]))
    """
    n, K = m.shape
    out = AgainstOthers(np.empty(n), np.empty((n, K)), np.empty((n, K, K)))
    for block in row_blocks(n, K**2, BLOCK_SIZES.covariances):
        first = _class_first(K)[y[block]]
        within = np.take_along_axis(m[block], first, axis=1)
        ordered = V[block][np.arange(len(first))[:, None, None], first[:, :, None], first[:, None, :]]
        found = _first_against_others(within, ordered, shift, points)
        back = np.argsort(first, axis=1)
        out.value[block] = found.value
        out.gradient[block] = np.take_along_axis(found.gradient, back, axis=1)
        out.hessian[block] = found.hessian[np.arange(len(back))[:, None, None], back[:, :, None], back[:, None, :]]
    return out


def _first_against_others(m: Array, V: Array, shift: float, points: int) -> AgainstOthers:
    """The same for the first class of each row."""
    n, K = m.shape
    lines, variance = _residual_axes(V)
    d = m[:, 1:] - m[:, :1]
    out = AgainstOthers(np.empty(n), np.empty((n, K)), np.empty((n, K, K)))
    which = np.column_stack([_residual_counts(lines, points), variance > _WIDE_VARIANCE])
    for pattern, rows in _groups(which, np.arange(n)):
        z, weights = _residual_nodes(pattern[:-1], K - 2)
        normals = _FEW_NORMALS if pattern[-1] else _NORMALS
        for part in row_blocks(len(rows), (K - 1) * len(weights)):
            some = rows[part]
            f = d[some, :, None] + lines[some] @ z  # (b, K-1, S), scores less that of the first class
            top = f.max(axis=1)
            f -= top[:, None]
            np.exp(f, out=f)
            total = f.sum(axis=1)
            f /= total[:, None]  # shares of the others among themselves
            value, slope, bend = _smooth_softplus(top + np.log(total) - shift, variance[some, None], normals)
            out.value[some] = value @ weights
            slope *= weights
            bend *= weights
            gradient = np.matmul(f, slope[:, :, None])[:, :, 0]
            out.gradient[some, 0], out.gradient[some, 1:] = -gradient.sum(axis=1), gradient
            out.hessian[some] = _bordered((f * (bend - slope)[:, None]) @ f.swapaxes(1, 2), f @ bend[:, :, None])
    return out


def _bordered(H: Array, by_first: Array) -> Array:
    """A Hessian in all scores, whose rows add to zero, from its part off the diagonal, with that of the first class."""
    n, J = H.shape[:2]
    out = np.empty((n, J + 1, J + 1))
    out[:, 1:, 1:] = H
    out[:, 1:, :1], out[:, :1, 1:] = -by_first, -by_first.swapaxes(1, 2)
    k = np.arange(J + 1)
    out[:, k, k] = 0.0
    out[:, k, k] = -out.sum(axis=2)
    return out


def _residual_axes(V: Array) -> tuple[Array, Array]:
    """How the others move against the first class: freely in K - 2 directions, (n, K-1, K-2), and together, τ² (n,).

    With e the contrasts of the others, E their covariance, and t the mean of the others less the first, t is regressed
    on e: what is left of t is independent of e.
    """
    n, K = V.shape[:2]
    J = K - 1
    average = np.append(-1.0, np.full(J, 1.0 / J))
    with_mean = V @ average  # covariances of all scores with t
    spread = with_mean @ average
    if J == 1:
        return np.empty((n, 1, 0)), np.maximum(spread, 0.0)
    C = _contrasts(J)
    variance, axes = np.linalg.eigh(C.T @ V[:, 1:, 1:] @ C)
    known = variance > _LEAST_VARIANCE * np.abs(V).max(axis=(1, 2))[:, None]
    sd = np.sqrt(np.where(known, variance, 1.0))
    along = (axes.swapaxes(1, 2) @ (with_mean[:, 1:] @ C)[:, :, None])[:, :, 0]
    regression = (axes @ np.where(known, along / sd, 0.0)[:, :, None]).swapaxes(1, 2)  # (n, 1, J-1)
    root = (axes * np.where(known, sd, 0.0)[:, None, :]) @ axes.swapaxes(1, 2)
    return np.asarray(C @ root + regression), np.maximum(spread - (regression**2).sum(axis=(1, 2)), 0.0)


def _residual_counts(lines: Array, points: int) -> Codes:
    """Nodes on each axis for three and four classes, (n, K-2); one number of points for more, (n, 1)."""
    r = lines.shape[2]
    spreads = _spreads(np.concatenate([lines, np.zeros((len(lines), 1, r))], axis=1))
    if r > BY_NODES - 2:
        return np.where(spreads.max(axis=1, keepdims=True) < _NARROW_SPREAD, _NARROW_POINTS, points)
    counts: Codes = _COUNTS[np.minimum(np.searchsorted(_SPREADS, _MARGIN * spreads), len(_COUNTS) - 1)]
    return np.minimum(counts, _MOST_ON_AXIS[r])


@lru_cache(maxsize=256)
def _residual_nodes(pattern: tuple[int, ...], r: int) -> tuple[Array, Array]:
    """Nodes (r, S) and weights (S,) of the directions that are left."""
    if r <= BY_NODES - 2:
        return _grid(pattern) if r else (np.empty((0, 1)), np.ones(1))
    (size,) = pattern
    return normal_points(size, r).T, np.full(size, 1.0 / size)


def _smooth_softplus(a: Array, variance: Array, normals: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """E[log(1 + e^(a + t))], t ~ N(0, variance), and its first and second derivative in a."""
    value, slope, bend = np.zeros((3, *a.shape))
    for weight, own in zip(*normals, strict=True):
        r = np.sqrt(variance + own)
        z = a / r
        slope += weight * ndtr(z)
        np.multiply(z, z, out=z)
        z *= -0.5
        np.exp(z, out=z)
        z *= weight / np.sqrt(2.0 * np.pi)
        bend += z / r
        z *= r
        value += z
    value += a * slope
    return value, slope, bend


def _fewer(weights: Array, variances: Array, n: int) -> tuple[Array, Array]:
    """The Gauss rule of n nodes for a mixture over variances: the same moments, up to order 2n - 1."""
    krylov = np.sqrt(weights)[:, None] * np.vander(variances, n, increasing=True)
    Q = np.linalg.qr(krylov)[0]
    nodes, axes = np.linalg.eigh((Q.T * variances) @ Q)
    return axes[0] ** 2, nodes


_WIDE_VARIANCE = 9.0  # from here on a mixture of four normals is a logistic distribution to 1e-7
_NORMALS = (LOGISTIC_NORMALS[0], LOGISTIC_NORMALS[1] ** 2)
_FEW_NORMALS = _fewer(*_NORMALS, 4)


@lru_cache
def _class_first(K: int) -> Codes:
    """For each class the order of all in which it is first, (K, K)."""
    return np.array([[y, *(k for k in range(K) if k != y)] for y in range(K)])
