"""Log-safe element-wise functions, each written once.

Notation
--------
===========  ==========================================================================
φ, Φ         density and distribution function of N(0, 1)
R(x)         Mills ratio (1 − Φ(x)) / φ(x) = ∫₀^∞ exp(−xt − t²/2) dt
Rⱼ(x)        its moments ∫₀^∞ tʲ exp(−xt − t²/2) dt, so R₀ = R
Kⱼ(x)        the ratios Rⱼ / Rⱼ₋₁; they climb the ladder Kⱼ = j / (x + Kⱼ₊₁)
r(z)         hazard φ(z) / Φ(z) = 1 / R(−z), so that z + r = K₁(−z)
===========  ==========================================================================

Derivatives of log Φ lose all their digits in the far negative tail when they are written with z + r, which
subtracts two numbers of size |z| to get one of size 1/|z|. Written with the ladder they lose none.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr, ndtr
from scipy.special import expit as sigmoid

from credibly.numerics.arrays import Array

__all__ = [
    "LOG_2PI",
    "MillsRatios",
    "log_mills_ratio",
    "log_normal_cdf",
    "log_normal_cdf_third",
    "log_sigmoid",
    "log_softmax",
    "log_sum_exp",
    "mills_ratios",
    "normal_hazard",
    "normal_hazard_slope",
    "sigmoid",
    "softplus",
]

LOG_2PI = float(np.log(2 * np.pi))
_SQRT_HALF_PI = float(np.sqrt(np.pi / 2))
_SQRT_2 = float(np.sqrt(2.0))

# From x = 2.5 on, the continued fraction of 60 rungs is exact to rounding; below, the upward recurrence is.
_LADDER_FROM, _LADDER_RUNGS = 2.5, 60


class MillsRatios(NamedTuple):
    """The first three ratios Kⱼ = Rⱼ / Rⱼ₋₁ of the moments of exp(−xt − t²/2) on t > 0."""

    first: Array
    second: Array
    third: Array


def softplus(x: ArrayLike) -> Array:
    r"""Smooth positive part.

    .. math:: \log(1 + e^x)

    Parameters
    ----------
    x : float array, any shape

    Returns
    -------
    float array, the shape of x

    Examples
    --------
    >>> float(softplus(0.0))
    0.693147180559945...
    >>> float(softplus(800.0))
    800.0
    """
    x = np.asarray(x, dtype=float)
    out: Array = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return out


def log_sigmoid(x: ArrayLike) -> Array:
    r"""Logarithm of the logistic function.

    .. math:: \log \sigma(x) = -\log(1 + e^{-x})

    Parameters
    ----------
    x : float array, any shape

    Returns
    -------
    float array, the shape of x

    Examples
    --------
    >>> float(log_sigmoid(-800.0))
    -800.0
    """
    return -softplus(-np.asarray(x, dtype=float))


def _normal_density(x: Array) -> Array:
    """φ(x) to full relative precision: the rounding of x² would be blown up by the exponential."""
    head = np.round(16.0 * x) / 16.0  # few digits, so head² is exact (Cody 1969)
    density: Array = np.exp(-0.5 * head**2) * np.exp(-0.5 * (x - head) * (x + head) - 0.5 * LOG_2PI)
    return density


def log_normal_cdf(x: ArrayLike) -> Array:
    r"""Logarithm of the standard normal distribution function.

    .. math:: \log \Phi(x) = \log \tfrac12\{1 + \mathrm{erf}(x / \sqrt 2)\}

    Parameters
    ----------
    x : float array, any shape

    Returns
    -------
    float array, the shape of x

    Notes
    -----
    SciPy's ``log_ndtr`` is used except for 5 < x < 39, where it rounds x/√2 before squaring it and so loses
    three digits of the tail 1 − Φ. Here the tail is φ(x) R(x). Relative error below 1e-14 for every x.

    References
    ----------
    PRML, eq. 4.114 to 4.116, has the link between Φ and erf.

    Examples
    --------
    >>> float(log_normal_cdf(0.0))
    -0.693147180559945...
    >>> float(log_normal_cdf(-1e4))
    -50000010.1292789...
    """
    x = np.asarray(x, dtype=float)
    out = np.array(log_ndtr(x), dtype=float)
    right = (x > 5.0) & (x < 39.0)
    if right.any():
        tail = x[right]
        out[right] = np.log1p(-_normal_density(tail) * _SQRT_HALF_PI * erfcx(tail / _SQRT_2))
    return out[()]


def log_mills_ratio(x: ArrayLike) -> Array:
    r"""Logarithm of the Mills ratio of the standard normal.

    .. math:: \log R(x) = \log \frac{1 - \Phi(x)}{\phi(x)}

    Parameters
    ----------
    x : float array, any shape

    Returns
    -------
    float array, the shape of x

    Notes
    -----
    R(x) is √(π/2) erfcx(x/√2), about 1/x on the right. On the left it grows like exp(x²/2) and is written
    that way, so nothing overflows before the logarithm itself does, at −1.9e154.

    Examples
    --------
    >>> float(log_mills_ratio(0.0))
    0.225791352644727...
    >>> float(log_mills_ratio(1e8))
    -18.42068074395236...
    """
    x = np.asarray(x, dtype=float)
    out = np.empty(x.shape)
    left = x < 0.0
    with np.errstate(over="ignore"):  # beyond −1e154 the logarithm itself is no number: inf
        out[left] = 0.5 * x[left] ** 2 + 0.5 * LOG_2PI + log_ndtr(-x[left])
    out[~left] = np.log(_SQRT_HALF_PI * erfcx(x[~left] / _SQRT_2))
    return out[()]


def mills_ratios(x: ArrayLike) -> MillsRatios:
    r"""Ratios of successive moments of the density proportional to exp(−xt − t²/2) on t > 0.

    .. math:: K_j(x) = \frac{R_j(x)}{R_{j-1}(x)}, \qquad R_j(x) = \int_0^\infty t^j e^{-xt - t^2/2}\,dt

    K₁ is the mean of a standard normal truncated to values above x, minus x; the other derivatives of log Φ
    and the moments of truncated normals follow from K₂ and K₃.

    Parameters
    ----------
    x : float array, any shape

    Returns
    -------
    MillsRatios
        K₁, K₂, K₃, each of the shape of x.

    Notes
    -----
    Integration by parts gives Kⱼ = j / (x + Kⱼ₊₁). Upwards from K₁ = 1/R − x this cancels for large x (K₃
    loses x⁶/6 units of rounding); downwards it is a convergent continued fraction. The two meet at x = 2.5.

    References
    ----------
    DLMF, eq. 7.9.1 and 7.18.7 (repeated integrals of the complementary error function).

    Examples
    --------
    >>> K = mills_ratios(0.0)
    >>> float(K.first), float(K.second * K.first)  # mean and mean square of a half-normal
    (0.797884560802865..., 1.0)
    """
    x = np.asarray(x, dtype=float)
    out = np.empty((3, *x.shape))
    far = x > _LADDER_FROM
    out[:, far] = _ladder_down(x[far])
    out[:, ~far] = _ladder_up(x[~far])
    return MillsRatios(*out)


def _ladder_up(x: Array) -> Array:
    first = (1.0 / _SQRT_HALF_PI) / erfcx(x / _SQRT_2) - x  # the product in a denominator could overflow
    second = 1.0 / first - x
    return np.stack([first, second, 2.0 / second - x])


def _ladder_down(x: Array) -> Array:
    n = _LADDER_RUNGS
    rung = n / (0.5 * np.hypot(x, 2.0 * np.sqrt(n)) + 0.5 * x)  # the root of K = n / (x + K)
    for j in range(n - 1, 3, -1):
        rung += x
        np.divide(j, rung, out=rung)
    third = 3.0 / (x + rung)
    second = 2.0 / (x + third)
    return np.stack([1.0 / (x + second), second, third])


def normal_hazard(z: ArrayLike) -> Array:
    r"""Slope of log Φ, also called the inverse Mills ratio.

    .. math:: r(z) = \frac{\phi(z)}{\Phi(z)} = \frac{d}{dz} \log \Phi(z)

    Parameters
    ----------
    z : float array, any shape

    Returns
    -------
    float array, the shape of z

    Notes
    -----
    exp(log φ − log Φ) subtracts two large numbers when z is very negative (error 1.6 instead of 1.0 in the
    curvature at z = −10⁴). The scaled function erfcx has no such difference: r is about −z there.

    References
    ----------
    RW06, eq. 3.16 and 3.82.

    Examples
    --------
    >>> float(normal_hazard(0.0))
    0.797884560802865...
    >>> float(normal_hazard(-1e8))
    100000000.0
    """
    z = np.asarray(z, dtype=float)
    out = np.zeros(z.shape)  # beyond 39 φ(z) is below the smallest number
    left, right = z < 0.0, (z >= 0.0) & (z < 39.0)
    with np.errstate(divide="ignore"):  # at −inf the hazard is inf, as it should be
        out[left] = 1.0 / (_SQRT_HALF_PI * erfcx(-z[left] / _SQRT_2))
    out[right] = _normal_density(z[right]) / ndtr(z[right])
    out[np.isnan(z)] = np.nan
    return out[()]


def normal_hazard_slope(z: ArrayLike) -> Array:
    r"""Curvature of log Φ: what the hazard loses per unit of z; between 0 and 1.

    .. math:: r(z)\,(z + r(z)) = -\frac{d^2}{dz^2} \log \Phi(z)

    Parameters
    ----------
    z : float array, any shape

    Returns
    -------
    float array, the shape of z

    Notes
    -----
    z + r is K₁(−z), taken from the continued fraction when z < −2.5: no cancellation. It tends to 1 − 1/z².

    Examples
    --------
    >>> float(normal_hazard_slope(0.0))  # 2/π
    0.636619772367581...
    >>> float(normal_hazard_slope(-100.0))
    0.99990005995...
    """
    z = np.asarray(z, dtype=float)
    return normal_hazard(z) * mills_ratios(-z).first


def log_normal_cdf_third(z: ArrayLike) -> Array:
    r"""Third derivative of log Φ.

    .. math:: \frac{d^3}{dz^3} \log \Phi(z) = r\,\{(z + r)(z + 2r) - 1\}

    Parameters
    ----------
    z : float array, any shape

    Returns
    -------
    float array, the shape of z

    Notes
    -----
    The braces cancel twice on the left, where the value tends to −2/z³. With the ladder (Kⱼ at −z) they are
    K₁ (2K₁ − K₂), and 2K₁ − K₂ = K₁ K₂ (K₃ − K₂), which does not cancel.

    Examples
    --------
    >>> float(log_normal_cdf_third(-1e3))
    1.9999...e-09
    """
    z = np.asarray(z, dtype=float)
    first, second, third = mills_ratios(-z)
    # in this order because the hazard is zero where the ratios are large, and large where they are small
    return normal_hazard(z) * first * first * (second * (third - second))


def log_sum_exp(a: ArrayLike, axis: int = -1) -> Array:
    r"""Logarithm of a sum of exponentials along one axis.

    .. math:: \log \sum_i e^{a_i}

    Parameters
    ----------
    a : float array, any shape
        Entries may be −inf (a term of zero); if all are, the result is −inf.
    axis : int

    Returns
    -------
    float array, the shape of a without the axis

    Examples
    --------
    >>> float(log_sum_exp([-1000.0, -1000.0]))
    -999.306852819440...
    """
    a = np.asarray(a, dtype=float)
    top = a.max(axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):  # the logarithm of an empty sum is −inf, as it should be
        out: Array = np.log(np.exp(a - shift).sum(axis=axis)) + shift.squeeze(axis)
    return out


def log_softmax(f: ArrayLike) -> Array:
    r"""Logarithm of the softmax function over the last axis.

    .. math:: \log \frac{e^{f_k}}{\sum_j e^{f_j}}

    Parameters
    ----------
    f : (..., C) float array
        Scores; −inf for a class that cannot be.

    Returns
    -------
    (..., C) float array

    Examples
    --------
    >>> log_softmax([1000.0, 1000.0])
    array([-0.69314718, -0.69314718])
    """
    scores = np.asarray(f, dtype=float)
    if scores.shape[-1] == 2:  # the same, three times as fast
        gap = scores[..., 1] - scores[..., 0]
        less = -np.log1p(np.exp(-np.abs(gap)))
        return np.stack([less - np.maximum(gap, 0.0), less + np.minimum(gap, 0.0)], axis=-1)
    top = scores.argmax(axis=-1, keepdims=True)
    gaps: Array = scores - np.take_along_axis(scores, top, axis=-1)
    others = np.exp(gaps)
    np.put_along_axis(others, top, 0.0, axis=-1)  # the largest term is one; log1p of the others keeps their digits
    log_proba: Array = gaps - np.log1p(others.sum(axis=-1, keepdims=True))
    return log_proba
