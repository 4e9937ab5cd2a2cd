"""Averages of the logistic function over a normal score f ~ N(m, v): accurate to rounding, in log space.

Notation
--------
===========  ==============================================================================
m, v, s      mean, variance and standard deviation of the score; v = 0 is allowed
Z            the average E[σ(f)]
tilted       the density σ(f) N(f | m, v) / Z, whose moments EP and ADF need
===========  ==============================================================================
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.numerics import special
from credibly.numerics.arrays import Array
from credibly.numerics.quadrature import gauss_hermite, row_chunks

__all__ = ["Tilted", "broadcast_scores", "log_sigmoid", "mackay_sigmoid", "sigmoid", "tilted_sigmoid"]


class Tilted(NamedTuple):
    """Log mass, mean and variance of a likelihood times a normal density, normalised."""

    log_mass: Array
    mean: Array
    var: Array


# Gauss–Hermite nodes that make the average of σ exact to rounding for every m, by the largest s they serve.
# Wider scores get the series (slower, but exact for any s).
_WIDTHS = np.array([0.15, 0.5, 1.0, 2.0])
_NODES = (12, 20, 40, 128)
_Wide = Callable[[Array, Array], tuple[Array, Array]]
_Narrow = Callable[[int, Array, Array], tuple[Array, Array]]


def broadcast_scores(m: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """Bring m and s = √v to one shape; refuse a negative variance."""
    m, v = np.broadcast_arrays(np.asarray(m, dtype=float), np.asarray(v, dtype=float))
    if (v < 0).any():
        raise InputError(f"a variance must not be negative; the smallest is {v.min():.3g}")
    return m, np.sqrt(v)


def _by_width(narrow: _Narrow, wide: _Wide, m: Array, s: Array) -> list[Array]:
    """Give each row the cheapest rule that is exact for its s; collect what the rules return."""
    flat_m, flat_s = m.ravel(), s.ravel()
    band = np.searchsorted(_WIDTHS, flat_s)
    out = np.empty((2, m.size))
    for b in np.unique(band):
        rule, n = (wide, 2 * len(_SIGNS)) if b == len(_NODES) else (partial(narrow, _NODES[b]), _NODES[b])
        for rows in row_chunks(np.flatnonzero(band == b), n):
            out[:, rows] = rule(flat_m[rows], flat_s[rows])
    return [row.reshape(m.shape) for row in out]


def log_sigmoid(m: ArrayLike, v: ArrayLike) -> Array:
    r"""Logarithm of the average of the logistic function over a normal score.

    .. math:: \log E[\sigma(f)], \qquad f \sim N(m, v)

    Exact to rounding, also relatively in the far tails: it has no parameter to tune and no range to stay in.

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    float array, the broadcast shape of m and v

    Notes
    -----
    For s = √v ≤ 2: Gauss–Hermite, with e^m taken out so that nothing underflows. For s > 2: σ is expanded in
    powers of e^{−|f|} on both sides of zero. Every term integrates to an exponential times a normal tail, and
    the terms alternate; being moments of a positive measure, 20 of them give the sum to rounding, without
    cancellation. The side m > 0 follows from E[σ(f)] = 1 − E[σ(−f)], where nothing is lost either.

    References
    ----------
    Cohen, Rodriguez Villegas, Zagier (2000), Convergence acceleration of alternating series, algorithm 1.

    Examples
    --------
    >>> float(log_sigmoid(0.0, 100.0))
    -0.69314718055994...
    >>> float(log_sigmoid(-40.0, 4.0))  # the tail is log-normal: m + v/2
    -38.0
    """
    m, s = broadcast_scores(m, v)
    log_tail, _ = _by_width(_narrow_log_tail, _wide_log_tail, -np.abs(m), s)
    return np.where(m > 0, np.log1p(-np.exp(log_tail)), log_tail)[()]


def _paired_nodes(n: int) -> tuple[Array, Array]:
    """Positive half of an even Gauss–Hermite rule: nodes and weights."""
    nodes, log_weights = gauss_hermite(n)
    return nodes[n // 2 :], np.exp(log_weights[n // 2 :])


def _narrow_log_tail(n: int, m: Array, s: Array) -> tuple[Array, Array]:
    """log E[σ(f)] for m ≤ 0 by quadrature; the second entry is unused."""
    x, w = _paired_nodes(n)
    lift, a = np.exp(np.multiply.outer(s, x)), np.exp(m)[:, None]
    # e^{-m} σ(m ± sx) is 1/(e^{∓sx} + e^m): one exponential serves both nodes of a pair
    log_z = m + np.log((lift / (1.0 + a * lift) + 1.0 / (lift + a)) @ w)
    return log_z, log_z


def _alternating_weights(n: int) -> Array:
    """Weights with which n terms of an alternating series of moments give its sum to 5.8⁻ⁿ."""
    d = (3 + np.sqrt(8.0)) ** n
    d = (d + 1 / d) / 2
    b, c, weights = -1.0, -d, np.empty(n)
    for k in range(n):
        c = b - c
        weights[k] = c / d
        b *= (k + n) * (k - n) / ((k + 0.5) * (k + 1))
    return weights


_SIGNS = _alternating_weights(20)  # 2 · 5.8⁻²⁰ = 1e-15
_POWERS = np.arange(len(_SIGNS))


class _Pieces(NamedTuple):
    """The terms of σ(f) = Σₖ ±e^{−kf} on one side of zero, integrated against N(f | m, v)."""

    log_mass: Array  # (rows, terms), without the signs
    y: Array  # where the exponentially tilted normal is cut, in standard deviations from its mean


def _pieces(m: Array, s: Array, side: int) -> _Pieces:
    """∫ exp(−k|f|) N(f | m, v) df over f > 0 (side 1, k ≥ 0) or f < 0 (side −1, k ≥ 1), in logs."""
    m, s = m[:, None], s[:, None]
    k = -_POWERS if side > 0 else _POWERS + 1
    y = -side * (m / s + k * s)
    # With k the exponent is exact; when the cut is above the mean it would cancel against log Φ(−y).
    with np.errstate(over="ignore"):  # a mean 1e154 standard deviations from zero leaves nothing beyond it: log 0
        log_mass = np.where(y < 0, k * (m + 0.5 * k * s**2), -0.5 * (m / s) ** 2 - 0.5 * special.LOG_2PI)
    cut = y < 0
    log_mass[cut] += special.log_normal_cdf(-y[cut])
    log_mass[~cut] += special.log_mills_ratio(y[~cut])
    return _Pieces(log_mass, y)


def _wide_log_tail(m: Array, s: Array) -> tuple[Array, Array]:
    """log E[σ(f)] for m ≤ 0 by the alternating series; the second entry is unused."""
    right, left = _pieces(m, s, 1).log_mass, _pieces(m, s, -1).log_mass
    top = np.maximum(right[:, 0], left[:, 0])  # the first terms are the largest
    shares = np.exp(right - top[:, None]) + np.exp(left - top[:, None])
    log_z = top + np.log(shares @ _SIGNS)
    return log_z, log_z


def sigmoid(m: ArrayLike, v: ArrayLike) -> Array:
    r"""Average of the logistic function over a normal score: the predictive probability of class 1.

    .. math:: E[\sigma(f)] = \int \frac{1}{1 + e^{-f}}\, N(f \mid m, v)\, df

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    float array, the broadcast shape of m and v

    See Also
    --------
    log_sigmoid : the same in log space, with the method.
    mackay_sigmoid : a famous approximation.

    Examples
    --------
    >>> round(float(sigmoid(2.0, 1.0)), 4)
    0.8445
    """
    return np.exp(log_sigmoid(m, v))


def tilted_sigmoid(m: ArrayLike, v: ArrayLike) -> Tilted:
    r"""Moments of the logistic function times a normal density.

    .. math:: \sigma(f)\, N(f \mid m, v) / Z

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the normal factor; v ≥ 0. For class 0 use −m, and negate the mean.

    Returns
    -------
    Tilted
        log Z, mean and variance, each of the broadcast shape.

    Notes
    -----
    The same two rules as in `log_sigmoid`. In the series each term is a truncated normal, whose first two
    moments are s K₁ and s² K₁ K₂ (`special.mills_ratios`). Where the tilted density has no mass near zero
    (farther than 37 plus nine standard deviations) σ is e^f or 1 to rounding, and the density is normal.

    References
    ----------
    RW06, sec. 3.6.2, needs these moments for EP.

    Examples
    --------
    >>> log_mass, mean, var = tilted_sigmoid(0.0, 1.0)
    >>> round(float(mean), 6), round(float(var), 6)
    (0.413242, 0.829231)
    """
    m, s = broadcast_scores(m, v)
    mean, var = _by_width(_narrow_moments, _wide_moments, m, s)
    return Tilted(log_sigmoid(m, v), mean[()], var[()])


def _narrow_moments(n: int, m: Array, s: Array) -> tuple[Array, Array]:
    """Tilted mean and variance by quadrature, the variance around the mean."""
    x, w = _paired_nodes(n)
    lift = np.exp(np.multiply.outer(s, x))
    p, q = np.exp(-np.maximum(m, 0.0))[:, None], np.exp(np.minimum(m, 0.0))[:, None]
    up, down = w * lift / (p + q * lift), w / (p * lift + q)  # ∝ σ(m ± sx), scaled to stay in range
    mass = (up + down).sum(axis=1)
    center = (((up - down) @ x) / mass)[:, None]
    spread = (up * (x - center) ** 2 + down * (x + center) ** 2).sum(axis=1) / mass
    return m + s * center[:, 0], s**2 * spread


def _wide_moments(m: Array, s: Array) -> tuple[Array, Array]:
    """Tilted mean and variance by the alternating series, or of the shifted normal far from zero."""
    low, high = m + s**2 + 9.0 * s < -37.0, m - 9.0 * s > 37.0
    mean, var = np.where(low, m + s**2, m), s**2
    near = ~(low | high)
    mean[near], var[near] = _series_moments(m[near], s[near])
    return mean, var


def _series_moments(m: Array, s: Array) -> tuple[Array, Array]:
    sides = [(side, _pieces(m, s, side)) for side in (1, -1)]
    top = np.maximum(*(pieces.log_mass[:, :1] for _, pieces in sides))
    moments = np.zeros((3, len(m)))
    for side, pieces in sides:
        share = np.exp(pieces.log_mass - top) * _SIGNS
        ratios = special.mills_ratios(pieces.y)
        moments[0] += share.sum(axis=1)
        moments[1] += side * (share * ratios.first).sum(axis=1)
        moments[2] += (share * ratios.first * ratios.second).sum(axis=1)
    mean, square = moments[1:] / moments[0]
    return s * mean, s**2 * (square - mean**2)


def mackay_sigmoid(m: ArrayLike, v: ArrayLike) -> Array:
    r"""MacKay's closed-form approximation to the averaged logistic function.

    .. math:: \sigma(\kappa(v)\, m), \qquad \kappa(v) = (1 + \pi v / 8)^{-1/2}

    The logistic function is replaced by Φ(λf) with the same slope 1/4 at zero, λ = √(π/8), averaged exactly,
    and replaced back. Kept for comparison with the literature: `sigmoid` is exact at a similar cost.

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0 is the *variance*, not the standard deviation.

    Returns
    -------
    float array, the broadcast shape of m and v

    Notes
    -----
    The absolute error stays below 0.02, but the relative error in the tail reaches a factor of 33 and more.

    References
    ----------
    PRML, eq. 4.153 and 4.154; MacKay (1992), The evidence framework applied to classification networks.

    Examples
    --------
    >>> round(float(mackay_sigmoid(2.0, 1.0)), 3)
    0.845
    """
    m, s = broadcast_scores(m, v)
    out: Array = special.sigmoid(m / np.sqrt(1.0 + np.pi * s**2 / 8.0))
    return out
