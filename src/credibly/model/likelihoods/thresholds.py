"""Noisy thresholds: t = 1 if f ≥ θ, and p(y = 1 | f) is the distribution function of θ."""

import numpy as np
from scipy.special import ndtr

from credibly.model.likelihoods.base import Expansion, Likelihood, Slopes
from credibly.numerics import averages
from credibly.numerics.arrays import Array
from credibly.numerics.averages import Tilted
from credibly.numerics.special import (
    log_normal_cdf,
    log_normal_cdf_third,
    log_sigmoid,
    normal_hazard,
    normal_hazard_slope,
    sigmoid,
)


def sign(y: Array) -> Array:
    """Class codes 0, 1 as -1, +1."""
    return 2.0 * np.asarray(y) - 1.0


class BernoulliLogit(Likelihood):
    r"""The logistic threshold: two classes, logit link.

    .. math:: p(y = 1 \mid f) = \sigma(f) = 1 / (1 + e^{-f})

    References
    ----------
    PRML eq. 4.87–4.91, 4.97.

    Examples
    --------
    >>> float(BernoulliLogit().log_prob(1, np.array(-800.0)))
    -800.0
    """

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_sigmoid(sign(y) * f)

    def slopes(self, y: Array, f: Array) -> Slopes:
        return Slopes(*self.expand(y, f)[1:])

    def third(self, y: Array, f: Array) -> Array:
        # σ(1-σ)(2σ-1); the last factor is tanh(f/2), which does not cancel at f = 0
        return sigmoid(f) * sigmoid(-f) * np.tanh(f / 2)

    def mean(self, f: Array) -> Array:
        return sigmoid(f)

    def expand(self, y: Array, f: Array) -> Expansion:
        # One exponential e^-|f| serves value, gradient and curvature, and can only underflow. The logarithm is of
        # 1 + e^-|f|, rounded to 1e-16: what `log_prob` has beyond that is lost in a sum over rows anyway.
        s = sign(y)
        z = s * f
        small = np.exp(-np.abs(z))
        larger = 1.0 / (1.0 + small)  # σ(|f|)
        smaller = small * larger  # σ(-|f|)
        log_prob = np.minimum(z, 0.0) + np.log(larger)
        return Expansion(log_prob, s * np.where(z > 0, smaller, larger), smaller * larger)

    def tilted(self, y: Array, m: Array, v: Array) -> Tilted:
        s = sign(y)
        log_mass, mean, var = averages.tilted_sigmoid(s * m, v)
        return Tilted(log_mass, s * mean, var)

    def log_average(self, y: Array, m: Array, v: Array) -> Array:
        return averages.log_sigmoid(sign(y) * m, v)


class BernoulliProbit(Likelihood):
    r"""The normal threshold: two classes, probit link.

    .. math:: p(y = 1 \mid f) = \Phi(f)

    References
    ----------
    PRML sec. 4.3.5; RW06 eq. 3.82–3.85 for the averages.

    Examples
    --------
    >>> round(float(BernoulliProbit().tilted(1, np.array(0.0), np.array(1.0)).log_mass), 6)
    -0.693147
    """

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_normal_cdf(sign(y) * f)

    def slopes(self, y: Array, f: Array) -> Slopes:
        z = sign(y) * f
        return Slopes(sign(y) * normal_hazard(z), normal_hazard_slope(z))

    def third(self, y: Array, f: Array) -> Array:
        return sign(y) * log_normal_cdf_third(sign(y) * f)

    def mean(self, f: Array) -> Array:
        return np.asarray(ndtr(f))

    def tilted(self, y: Array, m: Array, v: Array) -> Tilted:
        s = sign(y)
        log_mass, mean, var = averages.tilted_normal_cdf(s * m, v)
        return Tilted(log_mass, s * mean, var)

    def log_average(self, y: Array, m: Array, v: Array) -> Array:
        return averages.log_normal_cdf(sign(y) * m, v)
