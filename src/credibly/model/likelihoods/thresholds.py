"""Noisy thresholds: t = 1 if f ≥ θ, and p(y = 1 | f) is the distribution function of θ.

Light tails (logistic, normal), heavy ones (Cauchy) and unequal ones (Gumbel). Normal mixtures are in `mixture`,
distributions of SciPy, Student's t among them, in `distribution`.

Notation
--------
====  ==============================================
z     ±f, the score seen from the label
u     e^f, the rate of the complementary log-log
====  ==============================================
"""

from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from credibly.model.likelihoods.base import Averaged, Expansion, Likelihood, Slopes
from credibly.model.likelihoods.density import DensityThreshold, Score
from credibly.numerics import averages
from credibly.numerics.arrays import Array
from credibly.numerics.averages import LabelAverages, Tilted
from credibly.numerics.special import (
    CloglogSlopes,
    cauchy_hazard,
    log_cauchy_cdf,
    log_cloglog,
    log_cloglog_slopes,
    log_normal_cdf,
    log_normal_cdf_expansion,
    log_normal_cdf_third,
    log_sigmoid,
    normal_hazard,
    normal_hazard_slope,
    quick_normal_hazard,
    rate,
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

    width: float = np.pi  # log σ is singular at ±iπ

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

    def grad(self, y: Array, f: Array) -> Array:
        s = sign(y)
        with np.errstate(over="ignore"):  # of e^f to infinity: σ(-f) is then zero
            return np.asarray(s / (1.0 + np.exp(s * f)))

    def tilted(self, y: Array, m: Array, v: Array) -> Tilted:
        s = sign(y)
        log_mass, mean, var = averages.tilted_sigmoid(s * m, v)
        return Tilted(log_mass, s * mean, var)

    def label_averages(self, m: Array, v: Array) -> LabelAverages:
        return averages.sigmoid_averages(m, v)


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

    width: float = 2.0  # the zeros of Φ nearest to the real line are at −1.9 ± 2.8i

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_normal_cdf(sign(y) * f)

    def slopes(self, y: Array, f: Array) -> Slopes:
        z = sign(y) * f
        return Slopes(sign(y) * normal_hazard(z), normal_hazard_slope(z))

    def grad(self, y: Array, f: Array) -> Array:
        s = sign(y)
        return np.asarray(s * quick_normal_hazard(s * f))

    def expand(self, y: Array, f: Array) -> Expansion:
        s = sign(y)
        log_prob, hazard, curvature = log_normal_cdf_expansion(s * f)
        return Expansion(log_prob, s * hazard, curvature)

    def third(self, y: Array, f: Array) -> Array:
        return sign(y) * log_normal_cdf_third(sign(y) * f)

    def mean(self, f: Array) -> Array:
        return np.asarray(ndtr(f))

    def tilted(self, y: Array, m: Array, v: Array) -> Tilted:
        s = sign(y)
        log_mass, mean, var = averages.tilted_normal_cdf(s * m, v)
        return Tilted(log_mass, s * mean, var)

    def label_averages(self, m: Array, v: Array) -> LabelAverages:
        return LabelAverages(averages.log_normal_cdf(-np.asarray(m), v), averages.log_normal_cdf(m, v))


class BernoulliCauchit(DensityThreshold):
    r"""The Cauchy threshold: two classes, cauchit link; a few wrong labels hardly move it.

    .. math:: p(y = 1 \mid f) = \tfrac12 + \arctan(f) / \pi

    Not log-concave: log p falls only like log |f|, and a posterior may have several modes.

    Examples
    --------
    >>> round(float(BernoulliCauchit().mean(np.array(1.0))), 12)
    0.75
    """

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_cauchy_cdf(sign(y) * f)

    def grad(self, y: Array, f: Array) -> Array:
        return sign(y) * cauchy_hazard(sign(y) * f)

    def score(self, f: Array) -> Score:
        f = np.asarray(f, dtype=float)
        distance = np.hypot(1.0, f)  # divided by twice: its square could overflow
        along, across = f / distance, 1.0 / distance
        return Score(-2.0 * along / distance, 2.0 * (along - across) * (along + across) / distance / distance)

    def mean(self, f: Array) -> Array:
        return np.asarray(np.arctan2(1.0, -np.asarray(f, dtype=float)) / np.pi)


class BernoulliCloglog(DensityThreshold):
    r"""The Gumbel threshold: two classes, complementary log-log link.

    .. math:: p(y = 1 \mid f) = 1 - \exp(-e^f)

    y = 1 says that something with rate e^f happened at least once. The threshold is the smallest of many
    (`scipy.stats.gumbel_l`). Log-concave for both labels; p(y = 0 | f) falls double-exponentially.

    Examples
    --------
    >>> float(BernoulliCloglog().log_prob(0, np.array(0.0)))
    -1.0
    """

    log_concave: ClassVar[bool] = True
    width: float = np.pi / 2  # 1 − exp(−e^f) has a zero at log 2π + iπ/2

    def log_prob(self, y: Array, f: Array) -> Array:
        return _by_label(y, log_cloglog(f), -rate(f))

    def grad(self, y: Array, f: Array) -> Array:
        return self.slopes(y, f).grad

    def score(self, f: Array) -> Score:
        return Score(1.0 - rate(f), -rate(f))

    def mean(self, f: Array) -> Array:
        return -np.expm1(-rate(f))

    # The general formulas for derivatives cancel at small u and meet 0 · inf at large u; the closed forms do neither.
    def slopes(self, y: Array, f: Array) -> Slopes:
        one, u = log_cloglog_slopes(f), rate(f)
        return Slopes(_by_label(y, one.grad, -u), _by_label(y, one.curvature, u))

    def third(self, y: Array, f: Array) -> Array:
        return _by_label(y, log_cloglog_slopes(f).third, -rate(f))

    def information(self, f: Array) -> Array:
        return _times_rate(log_cloglog_slopes(f).grad, f)  # uB

    def information_slope(self, f: Array) -> Array:
        one: CloglogSlopes = log_cloglog_slopes(f)
        return _times_rate(one.grad - one.curvature, f)  # uB(1 − D)

    def averaged(self, y: Array, m: Array, v: Array) -> Averaged:
        one = super().averaged(np.array(1.0), m, v)
        u = rate(np.asarray(m) + np.asarray(v) / 2)  # E[e^f], which no window around m holds when v is large
        return Averaged(*(_by_label(y, at_one, at_zero) for at_one, at_zero in zip(one, (-u, -u, u), strict=True)))


def _times_rate(share: Array, f: Array) -> Array:
    """A share of the rate e^f; nothing where the share has underflowed, though the rate may be infinite."""
    return np.asarray(share * np.where(share == 0.0, 0.0, rate(f)))


def _by_label(y: Array, one: Array, zero: Array) -> Array:
    return np.where(np.asarray(y) > 0.5, one, zero)[()]


class BernoulliLoglog(Likelihood):
    r"""The threshold of a Gumbel maximum: two classes, log-log link; the mirror image of the complementary log-log.

    .. math:: p(y = 1 \mid f) = \exp(-e^{-f})

    The threshold is the largest of many (`scipy.stats.gumbel_r`). It is `BernoulliCloglog` with the labels swapped and
    the sign of f turned.

    Examples
    --------
    >>> float(BernoulliLoglog().log_prob(1, np.array(0.0)))
    -1.0
    """

    _image: ClassVar[BernoulliCloglog] = BernoulliCloglog()

    def log_prob(self, y: Array, f: Array) -> Array:
        return self._image.log_prob(_other(y), _turned(f))

    def slopes(self, y: Array, f: Array) -> Slopes:
        grad, curvature = self._image.slopes(_other(y), _turned(f))
        return Slopes(-grad, curvature)

    def third(self, y: Array, f: Array) -> Array:
        return -self._image.third(_other(y), _turned(f))

    def mean(self, f: Array) -> Array:
        return np.exp(-rate(_turned(f)))

    def tilted(self, y: Array, m: Array, v: Array) -> Tilted:
        log_mass, mean, var = self._image.tilted(_other(y), _turned(m), v)
        return Tilted(log_mass, -mean, var)

    def label_averages(self, m: Array, v: Array) -> LabelAverages:
        return LabelAverages(*self._image.label_averages(_turned(m), v)[::-1])

    def averaged(self, y: Array, m: Array, v: Array) -> Averaged:
        log_prob, grad, curvature = self._image.averaged(_other(y), _turned(m), v)
        return Averaged(log_prob, -grad, curvature)

    def information(self, f: Array) -> Array:
        return self._image.information(_turned(f))

    def information_slope(self, f: Array) -> Array:
        return -self._image.information_slope(_turned(f))


def _other(y: Array) -> Array:
    return 1.0 - np.asarray(y)


def _turned(f: Array) -> Array:
    return -np.asarray(f, dtype=float)
