"""Element-wise functions that neither overflow nor cancel.

Where passes over rows need a faster one, its docstring says which digits it gives up.

Notation
--------
===========  ==========================================================================
φ, Φ         density and distribution function of N(0, 1)
R(x)         Mills ratio (1 − Φ(x)) / φ(x) = ∫₀^∞ exp(−xt − t²/2) dt
Rⱼ(x)        its moments ∫₀^∞ tʲ exp(−xt − t²/2) dt, so R₀ = R
Kⱼ(x)        the ratios Rⱼ / Rⱼ₋₁; they satisfy the ladder Kⱼ = j / (x + Kⱼ₊₁)
r(z)         hazard φ(z) / Φ(z) = 1 / R(−z), so that z + r = K₁(−z)
u            e^f, the rate of the complementary log-log link
B(u)         u / (e^u − 1), the slope of log(1 − e^−u) in f
D(u)         u / (1 − e^−u) − 1 = u + B(u) − 1, without its cancellation at small u
===========  ==========================================================================

Derivatives of log Φ lose all their digits in the far negative tail when they are written with z + r, which
subtracts two numbers of size |z| to get one of size 1/|z|. Written with the ladder they lose none.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, exprel, gammaln, log_ndtr, ndtr

from credibly.numerics.arrays import Array

LOG_2PI = float(np.log(2 * np.pi))
_LOG_2 = float(np.log(2.0))
_SQRT_HALF_PI = float(np.sqrt(np.pi / 2))
_SQRT_2 = float(np.sqrt(2.0))
_LADDER_FROM, _LADDER_RUNGS = 2.5, 60  # from x = 2.5 on 60 rungs are exact to rounding; below, the upward recurrence is
_DENSITY_UNDERFLOWS = 39.0  # φ(39) is below the smallest number
_STIRLING_FROM = 100.0  # from there on three terms of Stirling's series are exact to rounding
_RATE_UNDERFLOWS = 7.0  # and so is exp(−e^f) from f = 7 on


# --- the logistic function ----------------------------------------------------------------------------------


def softplus(x: ArrayLike) -> Array:
    r"""Smooth positive part, log(1 + e^x).

    Examples
    --------
    >>> float(softplus(800.0))
    800.0
    """
    x = np.asarray(x, dtype=float)
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))[()]


def log_sigmoid(x: ArrayLike) -> Array:
    r"""Logarithm of the logistic function, −log(1 + e^−x).

    Examples
    --------
    >>> float(log_sigmoid(-800.0))
    -800.0
    """
    return -softplus(-np.asarray(x, dtype=float))


def sigmoid(x: ArrayLike) -> Array:
    r"""Logistic function 1 / (1 + e^−x), relatively exact in the left tail.

    NumPy's vectorized exponential makes it several times as fast as SciPy's ``expit``.

    Examples
    --------
    >>> float(sigmoid(0.0)), float(sigmoid(-700.0))
    (0.5, 9.8...e-305)
    """
    x = np.asarray(x, dtype=float)
    small = np.exp(-np.abs(x))
    larger: Array = 1.0 / (1.0 + small)
    return np.where(x < 0.0, small * larger, larger)[()]


def log1mexp(log_p: ArrayLike) -> Array:
    r"""Log of what a probability lacks to one, log(1 − p), from log p ≤ 0: each half by the form that does not cancel.

    Examples
    --------
    >>> float(log1mexp(-1e-20)), float(log1mexp(-50.0))
    (-46.0517..., -1.9287...e-22)
    """
    log_p = np.asarray(log_p, dtype=float)
    near_one = log_p > -_LOG_2
    out = np.empty(log_p.shape)
    with np.errstate(divide="ignore"):  # p = 1 leaves nothing: log 0
        out[near_one] = np.log(-np.expm1(log_p[near_one]))
    out[~near_one] = np.log1p(-np.exp(log_p[~near_one]))
    return out[()]


# --- the normal distribution function and the derivatives of its logarithm ----------------------------------


def _normal_density(x: Array) -> Array:
    """φ(x) to full relative precision: the rounding of x² would be blown up by the exponential."""
    head = np.round(16.0 * x) / 16.0  # few digits, so head² is exact (Cody 1969)
    density: Array = np.exp(-0.5 * head**2) * np.exp(-0.5 * (x - head) * (x + head) - 0.5 * LOG_2PI)
    return density


def log_normal_cdf(x: ArrayLike) -> Array:
    r"""Logarithm of the standard normal distribution function.

    .. math:: \log \Phi(x) = \log \tfrac12\{1 + \mathrm{erf}(x / \sqrt 2)\}

    Notes
    -----
    SciPy's ``log_ndtr`` is used except for 5 < x < 39, where it rounds x/√2 before squaring it and so loses
    three digits of the tail 1 − Φ. Here the tail is φ(x) R(x). Relative error below 1e-14 for every x.

    References
    ----------
    PRML, eq. 4.114 to 4.116, has the link between Φ and erf.

    Examples
    --------
    >>> float(log_normal_cdf(-1e4))
    -50000010.1292789...
    """
    x = np.asarray(x, dtype=float)
    out = np.array(log_ndtr(x), dtype=float)
    right = (x > 5.0) & (x < _DENSITY_UNDERFLOWS)
    if right.any():
        tail = x[right]
        out[right] = np.log1p(-_normal_density(tail) * _SQRT_HALF_PI * erfcx(tail / _SQRT_2))
    return out[()]


def log_mills_ratio(x: ArrayLike) -> Array:
    r"""Logarithm of the Mills ratio, log{(1 − Φ(x)) / φ(x)}.

    Notes
    -----
    R(x) is √(π/2) erfcx(x/√2), about 1/x on the right. On the left it grows like exp(x²/2) and is written
    that way, so nothing overflows before the logarithm itself does, at −1.9e154.

    Examples
    --------
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


class MillsRatios(NamedTuple):
    """The first three ratios Kⱼ = Rⱼ / Rⱼ₋₁ of the moments of exp(−xt − t²/2) on t > 0."""

    first: Array
    second: Array
    third: Array


def mills_ratios(x: ArrayLike) -> MillsRatios:
    r"""Ratios of successive moments of the density proportional to exp(−xt − t²/2) on t > 0.

    .. math:: K_j(x) = \frac{R_j(x)}{R_{j-1}(x)}, \qquad R_j(x) = \int_0^\infty t^j e^{-xt - t^2/2}\,dt

    K₁ is the mean of a standard normal truncated to values above x, minus x; the other derivatives of log Φ
    and the moments of truncated normals follow from K₂ and K₃.

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

    Notes
    -----
    exp(log φ − log Φ) subtracts two large numbers when z is very negative (error 1.6 instead of 1.0 in the
    curvature at z = −10⁴). The scaled function erfcx has no such difference: r is about −z there.

    References
    ----------
    RW06, eq. 3.16 and 3.82.

    Examples
    --------
    >>> float(normal_hazard(0.0)), float(normal_hazard(-1e8))
    (0.797884560802865..., 100000000.0)
    """
    z = np.asarray(z, dtype=float)
    out = np.zeros(z.shape)
    left, right = z < 0.0, (z >= 0.0) & (z < _DENSITY_UNDERFLOWS)
    with np.errstate(divide="ignore"):  # at −inf the hazard is inf, as it should be
        out[left] = 1.0 / (_SQRT_HALF_PI * erfcx(-z[left] / _SQRT_2))
    out[right] = _normal_density(z[right]) / ndtr(z[right])
    out[np.isnan(z)] = np.nan
    return out[()]


def normal_hazard_slope(z: ArrayLike) -> Array:
    r"""Curvature of log Φ: what the hazard loses per unit of z; between 0 and 1.

    .. math:: r(z)\,(z + r(z)) = -\frac{d^2}{dz^2} \log \Phi(z)

    Notes
    -----
    z + r is K₁(−z), taken from the continued fraction when z < −2.5: no cancellation. It tends to 1 − 1/z².

    Examples
    --------
    >>> float(normal_hazard_slope(0.0))  # 2/π
    0.636619772367581...
    """
    z = np.asarray(z, dtype=float)
    return normal_hazard(z) * mills_ratios(-z).first


def quick_normal_hazard(z: ArrayLike) -> Array:
    """The hazard φ/Φ for passes over rows: three times as fast as `normal_hazard`, to a relative 1e-13.

    Examples
    --------
    >>> float(quick_normal_hazard(0.0))
    0.797884...
    """
    with np.errstate(over="ignore"):  # of Φ(z) / φ(z) from z = 37 on: the hazard is zero then
        return np.asarray(1.0 / (_SQRT_HALF_PI * erfcx(np.asarray(z, dtype=float) / -_SQRT_2)))[()]


class LogExpansion(NamedTuple):
    """The logarithm of a function, its slope, and minus its second derivative."""

    log: Array
    slope: Array
    curvature: Array


def log_normal_cdf_expansion(z: ArrayLike) -> LogExpansion:
    r"""log Φ to second order, for passes over rows: one scaled function serves all three.

    Notes
    -----
    The same as `log_normal_cdf`, `normal_hazard` and `normal_hazard_slope`, which are five times slower, but for the
    last digits: log Φ is right to 1e-15 in absolute terms, the others to 1e-13 relative to themselves.

    Examples
    --------
    >>> [float(part) for part in log_normal_cdf_expansion(0.0)]
    [-0.693147..., 0.797884..., 0.636619...]
    """
    z, shape = np.ravel(np.asarray(z, dtype=float)), np.shape(z)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # of Φ(z) / φ(z) from z = 37 on, of z² …
        mills = _SQRT_HALF_PI * erfcx(z / -_SQRT_2)
        hazard = 1.0 / mills
        log = np.log(mills) - 0.5 * z**2 - 0.5 * LOG_2PI
        curvature = hazard * (z + hazard)
    likely, unlikely = z > 0.0, z < -10.0  # … and where these differences cancel
    log[likely] = np.log1p(-ndtr(-z[likely]))
    curvature[unlikely] = normal_hazard_slope(z[unlikely])
    return LogExpansion(*(part.reshape(shape)[()] for part in (log, hazard, curvature)))


def log_normal_cdf_third(z: ArrayLike) -> Array:
    r"""Third derivative of log Φ.

    .. math:: \frac{d^3}{dz^3} \log \Phi(z) = r\,\{(z + r)(z + 2r) - 1\}

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


def truncated_normal_variance(z: ArrayLike) -> Array:
    r"""Variance of a standard normal that is known to exceed −z: one minus the curvature of log Φ.

    .. math:: 1 - r(z)\,(z + r(z)) = 1 + \frac{d^2}{dz^2} \log \Phi(z)

    Notes
    -----
    On the left the curvature tends to one, and the difference to 1/z²; with the ladder it is K₁ (K₂ − K₁).

    Examples
    --------
    >>> float(truncated_normal_variance(0.0))  # 1 − 2/π
    0.36338022763241...
    >>> round(float(truncated_normal_variance(-1e8)), 20)
    1e-16
    """
    z = np.asarray(z, dtype=float)
    out = np.where(np.isnan(z), np.nan, 1.0)  # beyond 39 nothing is cut off
    left, right = z < 0.0, (z >= 0.0) & (z < _DENSITY_UNDERFLOWS)
    first, second, _ = mills_ratios(-z[left])
    out[left] = first * (second - first)
    out[right] = 1.0 - normal_hazard_slope(z[right])
    return out[()]


# --- the Cauchy distribution function -----------------------------------------------------------------------


def log_cauchy_cdf(z: ArrayLike) -> Array:
    r"""Logarithm of the standard Cauchy distribution function, log{½ + arctan(z)/π}.

    F(z) is the angle of the point (−z, 1), divided by π: nothing is subtracted on the left. On the right the angle of
    (z, 1) is what is missing to one.

    Examples
    --------
    >>> float(log_cauchy_cdf(0.0))
    -0.693147180559945...
    """
    z = np.asarray(z, dtype=float)
    tail: Array = np.arctan2(1.0, np.abs(z)) / np.pi
    return np.where(z > 0, np.log1p(-tail), np.log(tail))[()]


def cauchy_hazard(z: ArrayLike) -> Array:
    r"""Slope of the logarithm of the Cauchy distribution function F, 1 / {π (1 + z²) F(z)}.

    Examples
    --------
    >>> float(cauchy_hazard(0.0))  # 2/π
    0.636619772367581...
    """
    z = np.asarray(z, dtype=float)
    distance = np.hypot(1.0, z)  # divided by twice: its square could overflow
    return np.asarray(1.0 / distance / np.arctan2(1.0, -z) / distance)


# --- the complementary log-log function ---------------------------------------------------------------------


class CloglogSlopes(NamedTuple):
    """Slopes of log(1 − e^−u) in f, u = e^f: the first is B, the second −BD, the third B(D² + BD − u)."""

    grad: Array
    curvature: Array  # minus the second derivative
    third: Array


def rate(f: ArrayLike) -> Array:
    """e^f; beyond the range of numbers it is inf, as it should be."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(np.asarray(f, dtype=float)))


def log_cloglog(f: ArrayLike) -> Array:
    r"""Logarithm of the distribution function of a Gumbel minimum, log{1 − exp(−e^f)}.

    On the left it is f + log{(1 − e^−u)/u}, where e^f may underflow; on the right log1p(−e^−u).

    Examples
    --------
    >>> float(log_cloglog(-800.0))
    -800.0
    """
    f = np.asarray(f, dtype=float)
    u = rate(f)
    out = np.empty(f.shape)
    left = u < 0.5
    out[left] = f[left] + np.log(exprel(-u[left]))
    out[~left] = np.log1p(-np.exp(-u[~left]))
    return out[()]


def log_cloglog_slopes(f: ArrayLike) -> CloglogSlopes:
    r"""Three derivatives of the logarithm of the complementary log-log function, B, −BD and B(D² + BD − u).

    Notes
    -----
    D = u + B − 1 cancels at small u, where it is u/2. The difference 1 − (1 − e^−u)/u inside it is taken from its
    series there.

    Examples
    --------
    >>> [float(it) for it in log_cloglog_slopes(-50.0)]  # log p is f − u/2
    [1.0, 9.6437...e-23, -9.6437...e-23]
    """
    f = np.asarray(f, dtype=float)
    out = np.zeros((3, *f.shape))
    inside = f < _RATE_UNDERFLOWS
    u = np.exp(f[inside])
    B, D = 1.0 / exprel(u), _one_minus_exprel(u) / exprel(-u)
    out[:, inside] = B, B * D, B * (D * (D + B) - u)
    out[:, np.isnan(f)] = np.nan
    return CloglogSlopes(*(part[()] for part in out))


def _one_minus_exprel(u: Array) -> Array:
    """1 − (1 − e^−u)/u, which is u/2! − u²/3! + … at small u."""
    out = np.empty(u.shape)
    small = u < 0.5
    term = np.ones(int(small.sum()))
    total = np.zeros_like(term)
    for k in range(2, 16):  # 0.5¹⁴/15! < 1e-16
        term = term * u[small] / k
        total += term if k % 2 == 0 else -term
    out[small] = total
    out[~small] = 1.0 - exprel(-u[~small])
    return out


# --- sums of exponentials -----------------------------------------------------------------------------------


def log_sum_exp(a: ArrayLike, axis: int = -1) -> Array:
    r"""Logarithm of a sum of exponentials along one axis; −inf is a term of zero.

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
    r"""Logarithm of the softmax function over the last axis, log(e^{f_k} / Σⱼ e^{f_j}); −inf for an impossible class.

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


# --- rising products ----------------------------------------------------------------------------------------


def log_rising_factorial(a: Array, s: Array | float, unit: Array | float = 1.0) -> Array:
    r"""Logarithm of a rising product, s steps up from a, each in units of `unit`.

    .. math:: \log \frac{Γ(a + s)}{Γ(a)} - s \log \mathrm{unit}

    Notes
    -----
    For large a the difference of two log-gamma functions keeps few digits (at a = 1e12 none): there it is written with
    Stirling's series, whose large parts cancel on paper.

    Examples
    --------
    >>> log_rising_factorial(np.array([1e15]), 2.0, 1e15).round(12)
    array([0.])
    """
    a, s = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(s, dtype=float))
    large = a >= _STIRLING_FROM
    safe = np.where(large, a, _STIRLING_FROM)
    series = (
        (safe + s - 0.5) * np.log1p(s / safe)
        - s
        + s * np.log(safe / unit)
        + _stirling_tail(safe + s)
        - _stirling_tail(safe)
    )
    small = np.where(large, 1.0, a)
    return np.where(large, series, gammaln(small + s) - gammaln(small) - s * np.log(unit))


def _stirling_tail(x: Array) -> Array:
    """The part of log Γ that Stirling's formula leaves: exact to rounding from 100 on."""
    return np.asarray((1 / 12 - (1 / 360 - 1 / (1260 * x**2)) / x**2) / x)
