r"""The normal-mixture threshold: every average and every moment in closed form.

Notation
--------
=============  ==========================================================================  =======
w_k, m_k, s_k  weight, mean and standard deviation of part k of the threshold              (K,)
z_k            (f − m_k) / s_k, or (m − m_k) / √(s_k² + v) when the score is uncertain     (…, K)
r_k            share of part k in p(y | f); the shares sum to one                          (…, K)
g_k, c_k, t_k  slope, curvature and third derivative of the log probability of part k      (…, K)
=============  ==========================================================================  =======
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.model.likelihoods.base import Likelihood, Slopes
from credibly.model.likelihoods.thresholds import sign
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.averages import LOGISTIC_NORMALS, LabelAverages, Tilted, tilted_probit
from credibly.numerics.special import (
    log_mills_ratio,
    log_normal_cdf,
    log_normal_cdf_third,
    log_sum_exp,
    normal_hazard,
    normal_hazard_slope,
)

_ROUNDING = 1e-9  # weights typed with nine digits sum to one


@dataclass(frozen=True, repr=False)
class NormalMixture:
    r"""A mixture of normal distributions, as the distribution of a noisy threshold.

    .. math:: p(\theta) = \textstyle\sum_k w_k N(\theta \mid m_k, s_k^2)

    Any density can be approached this way, skewed ones and ones with several humps too, and averages over a normal
    score stay in closed form.

    Parameters
    ----------
    weights : (K,) positive numbers
        They sum to one.
    means : (K,) numbers
    scales : (K,) positive numbers
        Standard deviations of the parts.

    Examples
    --------
    >>> NormalMixture([0.3, 0.7], [-1.0, 1.0], [0.5, 2.0])
    NormalMixture(weights=[0.3, 0.7], means=[-1.0, 1.0], scales=[0.5, 2.0])
    """

    weights: tuple[float, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]

    def __init__(self, weights: ArrayLike, means: ArrayLike, scales: ArrayLike) -> None:
        parts = {"weights": _numbers("weights", weights), "means": _numbers("means", means)}
        parts["scales"] = _numbers("scales", scales)
        _check(**parts)
        for name, numbers in parts.items():
            object.__setattr__(self, name, tuple(numbers.tolist()))

    @property
    def mean(self) -> float:
        """Mean Σ w m of the mixture."""
        return float(np.dot(self.weights, self.means))

    @property
    def var(self) -> float:
        """Variance Σ w {s² + (m − mean)²} of the mixture."""
        gaps = np.asarray(self.means) - self.mean
        return float(np.dot(self.weights, np.square(self.scales) + gaps**2))

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={list(getattr(self, name))}" for name in ("weights", "means", "scales"))
        return f"NormalMixture({parts})"


def _numbers(name: str, given: ArrayLike) -> Array:
    try:
        numbers = np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} of a NormalMixture must be a list of numbers, not {given!r}") from error
    if numbers.ndim != 1 or not numbers.size or not np.isfinite(numbers).all():
        raise InputError(f"{name} of a NormalMixture must be a list of finite numbers, not {given!r}")
    return numbers


def _check(weights: Array, means: Array, scales: Array) -> None:
    if not len(weights) == len(means) == len(scales):
        counts = f"{len(weights)} weights, {len(means)} means and {len(scales)} scales"
        raise InputError(f"a NormalMixture needs one weight, mean and scale for each part, not {counts}")
    if (weights <= 0).any() or abs(weights.sum() - 1.0) > _ROUNDING:
        raise InputError(
            f"weights of a NormalMixture must be positive and sum to one; the smallest is {weights.min():.6g} "
            f"and the sum {weights.sum():.12g}"
        )
    if (scales <= 0).any():
        raise InputError(f"scales of a NormalMixture must be positive; the smallest is {scales.min():.6g}")


class BernoulliMixture(Likelihood):
    r"""The normal-mixture threshold: two classes, any shape of link, closed-form averages.

    .. math:: p(y = 1 \mid f) = \textstyle\sum_k w_k \Phi\{(f - m_k) / s_k\}, \qquad
              E[p(y = 1 \mid f)] = \textstyle\sum_k w_k \Phi\{(m - m_k) / \sqrt{s_k^2 + v}\}

    Not log-concave in general: between two humps of the threshold log p turns upwards.

    Examples
    --------
    >>> threshold = NormalMixture([0.5, 0.5], [-2.0, 2.0], [0.5, 0.5])
    >>> round(float(BernoulliMixture(threshold).mean(np.array(0.0))), 12)
    0.5
    """

    log_concave: ClassVar[bool] = False
    refinement: int = 8  # far out one part takes over from another

    def __init__(self, mixture: NormalMixture) -> None:
        self.mixture = mixture
        weights = np.asarray(mixture.weights)
        self._log_weights = np.log(weights / weights.sum())
        self._means, self._scales = np.asarray(mixture.means), np.asarray(mixture.scales)
        self.center, self.width = mixture.mean, float(self._scales.min())

    def log_prob(self, y: Array, f: Array) -> Array:
        return self.log_average(y, f, np.array(0.0))

    def slopes(self, y: Array, f: Array) -> Slopes:
        s, z, r = self._parts(y, f)
        g, c = s * normal_hazard(z) / self._scales, normal_hazard_slope(z) / self._scales**2
        return Slopes((r * g).sum(axis=-1), (r * c).sum(axis=-1) - (r * _gaps(r, g) ** 2).sum(axis=-1))

    def third(self, y: Array, f: Array) -> Array:
        s, z, r = self._parts(y, f)
        g, c = s * normal_hazard(z) / self._scales, normal_hazard_slope(z) / self._scales**2
        t = s * log_normal_cdf_third(z) / self._scales**3
        gap = _gaps(r, g)
        # the third cumulant of the shares: E[t] + 3 Cov(g, −c) + E[(g − ḡ)³]
        return np.asarray((r * (t + gap * (gap**2 - 3 * c))).sum(axis=-1))

    def mean(self, f: Array) -> Array:
        return np.exp(self.log_prob(np.array(1.0), f))

    def tilted(self, y: Array, m: Array, v: Array) -> Tilted:  # RW06 eq. 3.82 to 3.85, for each part
        y, m, v = np.broadcast_arrays(np.asarray(y, dtype=float), m, v)
        r, s = self._shares(y, m, v), sign(y)[..., None]
        _, mean, var = tilted_probit(m[..., None], np.sqrt(v)[..., None], self._means, self._scales, s)
        spread = (r * (var + _gaps(r, mean) ** 2)).sum(axis=-1)
        return Tilted(self.log_average(y, m, v), _average(r, mean), spread)

    def label_averages(self, m: Array, v: Array) -> LabelAverages:
        zero, one = (log_sum_exp(self._log_terms(label, m, v)) for label in (np.array(0.0), np.array(1.0)))
        # near one a sum of parts has no digits left; what is missing to one has them
        more = np.log1p(-np.exp(np.minimum(zero, one)))
        return LabelAverages(np.where(zero > one, more, zero)[()], np.where(one > zero, more, one)[()])

    def __repr__(self) -> str:
        return f"BernoulliMixture({self.mixture!r})"

    def _log_terms(self, y: Array, m: Array, v: Array) -> Array:
        """log w_k Φ(±z_k); (…, K)."""
        m, v = np.asarray(m, dtype=float)[..., None], np.asarray(v, dtype=float)[..., None]
        z = (m - self._means) / np.sqrt(self._scales**2 + v)
        return np.asarray(self._log_weights + log_normal_cdf(sign(y)[..., None] * z))

    def _shares(self, y: Array, m: Array, v: Array) -> Array:
        """r_k. On the wrong side of all parts log Φ = −z²/2 + log R(−z) overflows, but what counts are differences."""
        m, v = np.asarray(m, dtype=float)[..., None], np.asarray(v, dtype=float)[..., None]
        z = sign(y)[..., None] * (m - self._means) / np.hypot(self._scales, np.sqrt(v))
        nearest = self._farther(m, v, np.abs(z).argmin(axis=-1)).argmin(axis=-1)  # |z| is good to rounding only
        behind = log_mills_ratio(-np.minimum(z, 0.0)) - 0.5 * self._farther(m, v, nearest)
        terms = self._log_weights + np.where((z < 0).all(axis=-1, keepdims=True), behind, log_normal_cdf(z))
        return np.asarray(np.exp(terms - log_sum_exp(terms)[..., None]))

    def _farther(self, m: Array, v: Array, part: Codes) -> Array:
        """z² of every part less that of one, with the difference taken before anything is squared."""
        place, scale = self._means[part][..., None], self._scales[part][..., None]
        unit = np.hypot(self._scales, np.sqrt(v)) * np.hypot(scale, np.sqrt(v))
        far, near = (m - self._means) * scale, (m - place) * self._scales
        with np.errstate(over="ignore"):  # a part that is so much farther away has no share
            by_place = (place - self._means) * (v / unit) * ((2 * m - self._means - place) / unit)
            return np.asarray(by_place + (far - near) / unit * ((far + near) / unit))

    def _parts(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Signs, ±z and shares of the parts of p(y | f); (…, K)."""
        f, s = np.asarray(f, dtype=float)[..., None], sign(y)[..., None]
        return s, s * (f - self._means) / self._scales, self._shares(y, f[..., 0], np.array(0.0))


def _gaps(r: Array, g: Array) -> Array:
    """g − Σ r g; zero for parts without a share, whose gaps may have squares beyond the range of numbers."""
    return np.where(r > 0, g - _average(r, g)[..., None], 0.0)


def _average(r: Array, g: Array) -> Array:
    """Σ r g, seen from the part with the largest share: equal parts have their common value as average, exactly."""
    top = np.take_along_axis(g, r.argmax(axis=-1)[..., None], axis=-1)
    return np.asarray(top[..., 0] + (r * (g - top)).sum(axis=-1))


LOGISTIC_MIXTURE = NormalMixture(LOGISTIC_NORMALS[0], np.zeros(len(LOGISTIC_NORMALS[0])), LOGISTIC_NORMALS[1])
"""The logistic distribution as eight zero-mean normals; their distribution functions differ by 5e-9 at most."""
