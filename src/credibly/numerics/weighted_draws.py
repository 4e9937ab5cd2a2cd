"""Weighted draws: Pareto-smoothed importance weights, moments and quantiles.

Notation
--------
====  =====================================================  =======
r     log importance ratios, log p - log q                   (S,)
w     weights that sum to one                                (S,)
x     draws, one in each row                                 (S, M)
====  =====================================================  =======
"""

import math
from typing import NamedTuple

import numpy as np

from credibly.errors import InputError
from credibly.numerics.arrays import Array
from credibly.numerics.special import log_sum_exp

CLOSE = 0.5  # k̂ up to which the draws' own distribution is close to the one they stand for
RELIABLE = 0.7  # k̂ above which numbers corrected by weighted draws are noise

_FEWEST_DRAWS = 100  # a tail of twenty: fewer say nothing about how heavy it is
_EQUAL = 1e-9  # spread of log ratios that makes no difference
# Rounding of a difference of two sums over rows, relative to it. It is larger than `newton._ROUNDING`, because the sums
# may be larger than their difference, and because nothing is lost where ratios that differ by so little count as equal.
_RATIO_ROUNDING = 100 * float(np.finfo(float).eps)


class Smoothed(NamedTuple):
    """Importance weights whose largest are replaced by those of a generalized Pareto distribution."""

    log_weights: Array  # (S,), of weights that sum to one
    log_mean: float  # logarithm of the mean ratio
    khat: float  # shape of that distribution
    tail: float = 1.0  # share of the mean ratio that the tail holds beyond where it begins


def pareto_smoothed(log_ratios: Array) -> Smoothed:
    r"""Smooth the tail of importance ratios and tell how heavy it is, by arviz-stats.

    .. math:: \log \bar r = \log \tfrac1S \sum_s r_s, \qquad w_s = r_s / \textstyle\sum_t r_t

    with the largest :math:`3\sqrt S` ratios replaced by quantiles of a generalized Pareto distribution fitted to them.
    Its shape k̂ tells how many moments the ratios have (1/k̂): below 0.5 their variance is finite, above 0.7 no practical
    number of draws is enough.

    Parameters
    ----------
    log_ratios : (S,) array
        At least 100 of them. -inf, a draw that the target excludes, is allowed.

    Returns
    -------
    Smoothed
        k̂ is 0 for ratios that are all equal (q is the posterior), infinite where one draw outweighs all others or none
        has a ratio.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao & Gabry 2024, Pareto smoothed importance sampling.

    Examples
    --------
    >>> same = pareto_smoothed(np.full(100, -3.0))
    >>> same.log_mean, same.khat
    (-3.0, 0.0)
    """
    size = len(log_ratios)
    if size < _FEWEST_DRAWS:
        raise InputError(f"{size} draws are too few to tell how heavy a tail is; use at least {_FEWEST_DRAWS}.")
    if not (log_ratios < np.inf).all() or not np.isfinite(log_ratios).any():  # NaN is not below infinity
        return Smoothed(np.full(size, -math.log(size)), math.nan, math.inf)
    log_total = float(log_sum_exp(log_ratios))
    as_they_are = Smoothed(log_ratios - log_total, log_total - math.log(size), math.inf)
    if all_equal(log_ratios):
        return as_they_are._replace(khat=0.0)
    if as_they_are.log_weights.max() > math.log(0.5):
        return as_they_are
    from arviz_stats.base.array import array_stats  # slow to import, and not always needed

    tail = min(size // 5, math.floor(3 * math.sqrt(size)))  # Vehtari et al. 2024, sec. 3; as in arviz-stats
    below = np.argsort(log_ratios)[-tail - 1]  # there smoothing changes the total only
    with np.errstate(all="ignore"):  # ratios so different that all but a few vanish: khat tells
        try:
            log_weights, khat = array_stats.psislw(-log_ratios)  # type: ignore[no-untyped-call]
        except ValueError:  # all ratios of the tail are equal
            return as_they_are
        scale = float(log_ratios[below] - log_weights[below])
    if not (np.isfinite(khat) and np.isfinite(scale)):
        return as_they_are if np.isnan(khat) else as_they_are._replace(khat=float(khat))
    beyond = np.sort(np.exp(log_weights))[-tail:].sum() - tail * np.exp(log_weights[below])
    return Smoothed(np.asarray(log_weights), scale - math.log(size), float(khat), float(beyond))


def all_equal(log_ratios: Array) -> bool:
    """True where ratios are all equal, but for rounding."""
    return bool(np.ptp(log_ratios) <= _EQUAL + _RATIO_ROUNDING * abs(float(log_ratios.max())))


class WeightedDraws(NamedTuple):
    """Draws, one in each row, and the logarithms of weights that sum to one.

    Examples
    --------
    >>> draws = WeightedDraws(np.array([[3.0], [1.0], [2.0]]), np.log([0.25, 0.25, 0.5]))
    >>> draws.mean, draws.std
    (array([2.]), array([0.70710678]))
    """

    x: Array  # (S, M)
    log_weights: Array  # (S,)

    @property
    def weights(self) -> Array:
        """The weights themselves, (S,)."""
        return np.exp(self.log_weights)

    @property
    def mean(self) -> Array:
        """Σ w x, (M,)."""
        return weighted_mean(self.x, self.weights)

    @property
    def cov(self) -> Array:
        """Σ w (x - x̄)(x - x̄)ᵀ, (M, M)."""
        rooted = np.exp(0.5 * self.log_weights)[:, None] * (self.x - self.mean)
        return np.asarray(rooted.T @ rooted)

    @property
    def std(self) -> Array:
        """Standard deviations, (M,)."""
        return np.asarray(np.sqrt(weighted_mean((self.x - self.mean) ** 2, self.weights)))

    def differences(self, mean: Array, std: Array) -> tuple[float, float]:
        """The largest difference from other means, in standard deviations, and ratio to (or of) other deviations."""
        own = self.std
        with np.errstate(divide="ignore", invalid="ignore"):  # one draw has all the weight: infinitely far
            shift, ratio = np.abs(self.mean - mean) / own, np.exp(np.abs(np.log(own / std)))
        known = own > 0
        return (float(shift.max()), float(ratio.max())) if known.all() else (np.inf, np.inf)

    def thinned(self, most: int) -> "WeightedDraws":
        """At most so many draws with nearly the same weighted distribution: those that equal steps of mass fall on.

        In random order, always the same: equal steps through a quasi-random sequence would pick out a corner.
        """
        if len(self.x) <= most:
            return self
        order = np.random.default_rng(len(self.x)).permutation(len(self.x))
        mass = np.cumsum(self.weights[order])
        hit = np.searchsorted(mass, (np.arange(most) + 0.5) / most * mass[-1])
        kept, count = np.unique(order[hit], return_counts=True)
        return WeightedDraws(self.x[kept], np.log(count / most))

    def choose(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws with replacement, (size, M)."""
        weights = self.weights
        return np.asarray(self.x[rng.choice(len(self.x), size, p=weights / weights.sum())])


def weighted_mean(x: Array, weights: Array) -> Array:
    """Σ w x over the first axis."""
    return np.asarray(np.tensordot(weights, x, axes=1))


def weighted_quantiles(x: Array, weights: Array, q: Array) -> Array:
    """Quantiles over the first axis of x (S, …), (…, len(q)): the distribution function is interpolated at midpoints.

    Examples
    --------
    >>> weighted_quantiles(np.array([[3.0], [1.0], [2.0]]), np.array([0.25, 0.25, 0.5]), np.array([0.5]))
    array([[2.]])
    """
    flat = x.reshape(len(x), -1)
    order = flat.argsort(axis=0)
    ordered = np.take_along_axis(flat, order, axis=0)
    mass = weights[order]
    middle = np.cumsum(mass, axis=0) - 0.5 * mass
    out = [np.interp(q, at, values) for at, values in zip(middle.T, ordered.T, strict=True)]
    return np.array(out).reshape(*x.shape[1:], len(q))
