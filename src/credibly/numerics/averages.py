"""Averages of inverse links over normal scores f ~ N(m, v): one address for all of them.

The logistic function is in `logistic_averages`, softmax in `softmax_averages`; the normal distribution function,
whose averages are closed forms, is here.

Notation
--------
===========  ==============================================================================
m, v, s      mean, variance and standard deviation of the score; v = 0 is allowed
r(z)         the hazard φ(z) / Φ(z)
Z            the average E[link(f)]
tilted       the density link(f) N(f | m, v) / Z, whose moments EP and ADF need
===========  ==============================================================================
"""

import numpy as np
from numpy.typing import ArrayLike

from credibly.numerics import special
from credibly.numerics.arrays import Array
from credibly.numerics.logistic_averages import (
    Tilted,
    broadcast_scores,
    log_sigmoid,
    mackay_sigmoid,
    sigmoid,
    tilted_sigmoid,
)
from credibly.numerics.softmax_averages import log_softmax, softmax
from credibly.numerics.truncated_normals import cut_normal

__all__ = [
    "Tilted",
    "log_normal_cdf",
    "log_sigmoid",
    "log_softmax",
    "mackay_sigmoid",
    "normal_cdf",
    "sigmoid",
    "softmax",
    "tilted_normal_cdf",
    "tilted_sigmoid",
]


def log_normal_cdf(m: ArrayLike, v: ArrayLike) -> Array:
    r"""Logarithm of the average of the normal distribution function over a normal score.

    .. math:: \log E[\Phi(f)] = \log \Phi\!\left(\frac{m}{\sqrt{1 + v}}\right)

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    float array, the broadcast shape of m and v

    References
    ----------
    RW06, eq. 3.82; PRML, eq. 4.152.

    Examples
    --------
    >>> float(log_normal_cdf(-100.0, 0.0))
    -5005.5242086942...
    """
    m, s = broadcast_scores(m, v)
    return special.log_normal_cdf(m / np.hypot(1.0, s))


def normal_cdf(m: ArrayLike, v: ArrayLike) -> Array:
    r"""Average of the normal distribution function over a normal score.

    .. math:: E[\Phi(f)] = \Phi\!\left(\frac{m}{\sqrt{1 + v}}\right)

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    float array, the broadcast shape of m and v

    References
    ----------
    RW06, eq. 3.82; PRML, eq. 4.152.

    Examples
    --------
    >>> round(float(normal_cdf(2.0, 3.0)), 6)  # Φ(1)
    0.841345
    """
    return np.exp(log_normal_cdf(m, v))


def tilted_normal_cdf(m: ArrayLike, v: ArrayLike) -> Tilted:
    r"""Moments of the normal distribution function times a normal density.

    .. math:: \Phi(f)\, N(f \mid m, v) / Z, \qquad z = m / \sqrt{1 + v}

    with mean :math:`m + v\,r(z)/\sqrt{1 + v}` and variance :math:`v - v^2\, r(z)\{z + r(z)\}/(1 + v)`.

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
    Both are written so that nothing cancels where Z is tiny: see `truncated_normals.cut_normal`.

    References
    ----------
    RW06, eq. 3.82 to 3.85.

    Examples
    --------
    >>> log_mass, mean, var = tilted_normal_cdf(0.0, 1.0)
    >>> round(float(mean), 6), round(float(var), 6)  # 1/√π and 1 − 1/π
    (0.56419, 0.68169)
    """
    m, s = broadcast_scores(m, v)
    z, mean, var = cut_normal(m, s)
    return Tilted(special.log_normal_cdf(z), mean, var)
