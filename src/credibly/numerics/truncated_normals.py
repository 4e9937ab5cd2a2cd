"""A normal density cut off by a normal distribution function: the moments behind every probit-like average.

Notation
--------
===========  ==========================================================================
m, s         mean and standard deviation of the normal
b, a         place and width of the cut Φ((f − b)/a); a = 0 is a step
z            (m − b)/√(a² + s²), how far the mean is on the side that is kept
r(z)         hazard φ(z)/Φ(z)
Kⱼ           ratios of `special.mills_ratios` at −z: z + r = K₁
===========  ==========================================================================
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credibly.numerics.arrays import Array
from credibly.numerics.special import mills_ratios, normal_hazard, normal_hazard_slope

__all__ = ["CutNormal", "cut_normal", "truncated_normal_variance"]


class CutNormal(NamedTuple):
    """Where the cut is, and mean and variance of what it leaves."""

    z: Array
    mean: Array
    var: Array


def truncated_normal_variance(z: ArrayLike) -> Array:
    r"""Variance of a standard normal that is known to exceed −z: what the curvature of log Φ lacks to one.

    .. math:: 1 - r(z)\,(z + r(z)) = 1 + \frac{d^2}{dz^2} \log \Phi(z)

    Parameters
    ----------
    z : float array, any shape

    Returns
    -------
    float array, the shape of z

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
    left, right = z < 0.0, (z >= 0.0) & (z < 39.0)
    first, second, _ = mills_ratios(-z[left])
    out[left] = first * (second - first)
    out[right] = 1.0 - normal_hazard_slope(z[right])
    return out[()]


def cut_normal(
    m: Array, s: Array, place: Array | float = 0.0, width: Array | float = 1.0, side: Array | float = 1.0
) -> CutNormal:
    r"""Moments of a normal density times a normal distribution function.

    .. math:: \Phi\{\pm (f - b)/a\}\, N(f \mid m, s^2), \qquad E[f] = m \pm \frac{s^2}{\sqrt{a^2 + s^2}}\, r(z)

    Parameters
    ----------
    m, s : float arrays, broadcast together
        Mean and standard deviation of the normal; s ≥ 0.
    place, width : float arrays
        b and a ≥ 0, not zero where s is.
    side : +1 or −1
        Which side of b is kept.

    Returns
    -------
    CutNormal

    Notes
    -----
    On the wrong side of a cut that is narrow beside s, m ± … is a difference of numbers of size m. There the mean is
    between m and b, by the shares of variance α = a²/(a² + s²) and 1 − α, plus what is cut: αm + (1 − α)b ± K₁ s²/√….

    References
    ----------
    RW06, eq. 3.85 to 3.87.

    Examples
    --------
    >>> z, mean, var = cut_normal(np.array(-1e8), np.array(1e2))
    >>> round(float(mean), 3), round(float(var), 3)  # almost m/(1 + s²)
    (-9999.0, 1.0)
    """
    s = np.asarray(s, dtype=float)
    wide = np.hypot(width, s)
    own, given = width / wide, s / wide
    with np.errstate(over="ignore"):  # more than 1e308 widths away is as good as infinitely far
        z = np.asarray(side * (np.asarray(m) - place) / wide)
    far = (z < 0) & (given > own)
    between = m * own**2 + place * given**2 + side * s * given * mills_ratios(np.where(far, -z, 0.0)).first
    mean = np.where(far, between, m + side * s * given * normal_hazard(np.where(far, 0.0, z)))
    return CutNormal(z[()], mean[()], (s**2 * (own**2 + given**2 * truncated_normal_variance(z)))[()])
