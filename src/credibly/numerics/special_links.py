"""Log-safe distribution functions of heavy-tailed and skewed thresholds, with their hazards.

Notation
--------
===========  ==========================================================================
F, p         distribution function and density of a standard threshold
h(z)         hazard p(z) / F(z), the slope of log F
ν            degrees of freedom of Student's t
u            e^f, the rate of the complementary log-log link
B(u)         u / (e^u − 1), the slope of log(1 − e^−u) in f
D(u)         u / (1 − e^−u) − 1 = u + B(u) − 1, without its cancellation at small u
===========  ==========================================================================
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, exprel, stdtr

from credibly.numerics.arrays import Array

__all__ = [
    "Cloglog",
    "CloglogInformation",
    "cauchy_hazard",
    "cloglog",
    "cloglog_information",
    "log_cauchy_cdf",
    "log_cloglog",
    "log_student_cdf",
    "rate",
    "student_hazard",
]

_SMALLEST = 1e-290  # below this a distribution function loses digits to subnormal numbers
_LADDER_FROM, _LADDER_RUNGS = -5.0, 100  # from z = −5 down, 100 rungs are exact to rounding for every ν …
_LADDER_DF = 1e4  # … up to this one: beyond, what is left of one minus the first rung is z²/ν
_TAIL_NODES, _TAIL_WEIGHTS = np.polynomial.laguerre.laggauss(32)
_VANISHES = 7.0  # beyond f = 7, e^(−e^f) is below the smallest number


def log_cauchy_cdf(z: ArrayLike) -> Array:
    r"""Logarithm of the standard Cauchy distribution function.

    .. math:: \log F(z) = \log\{\tfrac12 + \arctan(z) / \pi\}

    Parameters
    ----------
    z : float array, any shape

    Returns
    -------
    float array, the shape of z

    Notes
    -----
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
    r"""Slope of the logarithm of the Cauchy distribution function.

    .. math:: h(z) = \frac{1}{\pi (1 + z^2) F(z)}

    Parameters
    ----------
    z : float array, any shape

    Returns
    -------
    float array, the shape of z

    Examples
    --------
    >>> float(cauchy_hazard(0.0))  # 2/π
    0.636619772367581...
    """
    z = np.asarray(z, dtype=float)
    distance = np.hypot(1.0, z)  # divided by twice: its square could overflow
    return np.asarray(1.0 / distance / np.arctan2(1.0, -z) / distance)


def log_student_cdf(df: float, z: ArrayLike) -> Array:
    r"""Logarithm of the distribution function of Student's t.

    .. math:: \log F_\nu(z) = \log \int_{-\infty}^z \frac{(1 + x^2/\nu)^{-(\nu+1)/2}}{\sqrt\nu B(\nu/2, 1/2)}\,dx

    Parameters
    ----------
    df : float
        Degrees of freedom ν > 0.
    z : float array, any shape

    Returns
    -------
    float array, the shape of z

    Notes
    -----
    Where F itself underflows (large ν, far left), log F is the log density minus the log hazard.

    Examples
    --------
    >>> float(log_student_cdf(2.0, 0.0))
    -0.693147180559945...
    >>> float(log_student_cdf(1000.0, -1000.0))
    -3458.74995707...
    """
    z = np.asarray(z, dtype=float)
    tail = np.array(stdtr(df, -np.abs(z)))
    left, tiny = z <= 0, tail < _SMALLEST
    out = np.empty(z.shape)
    out[~left] = np.log1p(-tail[~left])
    out[left & ~tiny] = np.log(tail[left & ~tiny])
    far = z[left & tiny]
    out[left & tiny] = _log_student_density(df, far) - np.log(_student_tail(df, far))
    return out[()]


def student_hazard(df: float, z: ArrayLike) -> Array:
    r"""Slope of the logarithm of the distribution function of Student's t.

    .. math:: h_\nu(z) = p_\nu(z) / F_\nu(z)

    Parameters
    ----------
    df : float
        Degrees of freedom ν > 0.
    z : float array, any shape

    Returns
    -------
    float array, the shape of z

    Notes
    -----
    Far on the left density and distribution function both vanish, but their ratio is ν / |z| over a hypergeometric
    function, which has a continued fraction. Where ν is so large that this cancels, the ratio is taken as it is while
    both are numbers, and by Gauss–Laguerre beyond, where the density falls like an exponential.

    References
    ----------
    DLMF, eq. 8.17.8 (incomplete beta function) and 15.7.1 (continued fraction).

    Examples
    --------
    >>> float(student_hazard(2.0, 0.0))  # 2 p(0) = 1/√2
    0.70710678118654...
    >>> round(float(student_hazard(7.0, -1e8)), 12)  # ν / |z|
    7e-08
    """
    z = np.asarray(z, dtype=float)
    out = np.empty(z.shape)
    proba = np.asarray(stdtr(df, z))
    far = z < _LADDER_FROM if df <= _LADDER_DF else proba < _SMALLEST
    out[far] = _student_tail(df, z[far])
    out[~far] = np.exp(_log_student_density(df, z[~far])) / proba[~far]
    return out[()]


def _log_student_density(df: float, z: Array) -> Array:
    t = np.abs(z) / np.sqrt(df)
    small = t < 1.0  # log(1 + t²), without overflow of t² and without loss at small t
    log_square = np.where(small, np.log1p(np.where(small, t, 0.0) ** 2), 2.0 * np.log(np.hypot(1.0, t)))
    density: Array = -0.5 * (df + 1.0) * log_square - 0.5 * np.log(df) - _log_beta_half(0.5 * df)
    return density


def _log_beta_half(a: float) -> float:
    """log B(a, ½); SciPy's subtracts two log-gammas and loses up to six digits between a = 100 and 10⁶."""
    if a < 100.0:
        return float(betaln(a, 0.5))
    series = (-1 / 8 + (1 / 128 + (5 / 1024 + (-21 / 32768 - 399 / 262144 / a) / a) / a) / a) / a
    return float(0.5 * np.log(np.pi / a) - np.log1p(series))  # Γ(a + ½) / (Γ(a) √a) is one plus the series


def _student_tail(df: float, z: Array) -> Array:
    """The hazard far on the left."""
    if df <= _LADDER_DF:
        return _student_ladder(df, z)
    distance = np.hypot(np.sqrt(df), z)
    slope = (df + 1.0) * (np.abs(z) / distance) / distance  # of the log density
    t = _TAIL_NODES / (slope * distance)[..., None]  # so that the density falls like e^−u at the nodes u
    ratio = t * (2.0 * (np.abs(z) / distance)[..., None] + t)  # how much ν + z² grows, relatively
    terms = np.exp(_TAIL_NODES - 0.5 * (df + 1.0) * np.log1p(ratio)) @ _TAIL_WEIGHTS
    return np.asarray(slope / terms)


def _student_ladder(df: float, z: Array) -> Array:
    """h = ν / (|z| H), with H = ₂F₁(a + ½, 1; a + 1; x), a = ν/2 and x = ν / (ν + z²), by its continued fraction."""
    a = 0.5 * df
    x = np.hypot(1.0, z / np.sqrt(df)) ** -2.0
    rung = np.ones(z.shape)  # 1/H = 1 − d₁x / (1 − d₂x / (1 − …))
    for k in range(_LADDER_RUNGS // 2, 0, -1):
        even = k * (k - 0.5) / ((a + 2 * k - 1) * (a + 2 * k))
        odd = (a + k - 0.5) * (a + (k - 1)) / ((a + 2 * (k - 1)) * (a + 2 * k - 1))
        rung = 1.0 - odd * x / (1.0 - even * x / rung)
    return df / np.abs(z) * rung


class Cloglog(NamedTuple):
    """Slopes of log(1 − e^−u) in f, u = e^f: the first is B, the second −BD, the third B(D² + BD − u)."""

    grad: Array
    curvature: Array  # minus the second derivative
    third: Array


def rate(f: ArrayLike) -> Array:
    """e^f; beyond the range of numbers it is inf, as it should be."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(np.asarray(f, dtype=float)))


def log_cloglog(f: ArrayLike) -> Array:
    r"""Logarithm of the complementary log-log function, the distribution function of a Gumbel minimum.

    .. math:: \log\{1 - \exp(-e^f)\}

    Parameters
    ----------
    f : float array, any shape

    Returns
    -------
    float array, the shape of f

    Notes
    -----
    On the left f + log{(1 − e^−u)/u}, where e^f may underflow; on the right log1p(−e^−u).

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


def cloglog(f: ArrayLike) -> Cloglog:
    r"""Three derivatives of the logarithm of the complementary log-log function.

    .. math:: B, \quad -B D, \quad B (D^2 + B D - u)

    Parameters
    ----------
    f : float array, any shape

    Returns
    -------
    Cloglog
        Gradient, minus the second derivative, third derivative; each of the shape of f.

    Notes
    -----
    D = u + B − 1 cancels at small u, where it is u/2. The difference 1 − (1 − e^−u)/u inside it is taken from its
    series there. Beyond f = 7 all three are below the smallest number.

    Examples
    --------
    >>> [float(it) for it in cloglog(-50.0)]  # log p is f − u/2
    [1.0, 9.6437...e-23, -9.6437...e-23]
    """
    f = np.asarray(f, dtype=float)
    out = np.zeros((3, *f.shape))
    inside = f < _VANISHES
    u = np.exp(f[inside])
    B, D = 1.0 / exprel(u), _one_minus_exprel(u) / exprel(-u)
    out[:, inside] = B, B * D, B * (D * (D + B) - u)
    out[:, np.isnan(f)] = np.nan
    return Cloglog(*(part[()] for part in out))


class CloglogInformation(NamedTuple):
    """Fisher information uB of the complementary log-log link, and its slope in f."""

    first: Array
    second: Array


def cloglog_information(f: ArrayLike) -> CloglogInformation:
    r"""Fisher information about f of the complementary log-log link, and its slope.

    .. math:: I = u B = \frac{u^2}{e^u - 1}, \qquad I' = u B (1 - D)

    Parameters
    ----------
    f : float array, any shape

    Returns
    -------
    CloglogInformation
        Information and slope, each of the shape of f.

    Examples
    --------
    >>> float(cloglog_information(-50.0).first)  # u, when u is small
    1.9287...e-22
    """
    f = np.asarray(f, dtype=float)
    out = np.zeros((2, *f.shape))
    inside = f < _VANISHES
    u = np.exp(f[inside])
    information = u / exprel(u)
    out[:, inside] = information, information * (1.0 - _one_minus_exprel(u) / exprel(-u))
    out[:, np.isnan(f)] = np.nan
    return CloglogInformation(*(part[()] for part in out))


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
