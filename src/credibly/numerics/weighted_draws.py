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

FEWEST_DRAWS = 100  # a tail of twenty: fewer say nothing about how heavy it is
SMALL_TAIL = 0.05  # of the mean ratio: a tail that holds less cannot spoil it
MOST_DIFFERENT = 700.0  # log ratio of weights in a tail, beyond which the smallest vanish beside the largest
EQUAL = 1e-9  # spread of log ratios that makes no difference
ROUNDING = 100 * np.finfo(float).eps  # of sums over rows, relative to them

CLOSE = 0.5  # k̂ up to which the draws' own distribution is close to the one they stand for
RELIABLE = 0.7  # k̂ above which numbers corrected by weighted draws are noise


class Smoothed(NamedTuple):
    """Importance weights whose largest are replaced by those of a generalised Pareto distribution."""

    log_weights: Array  # (S,), of weights that sum to one; none beyond the largest ratio seen
    log_shares: Array  # (S,), of each draw's share in the mean ratio, the tail's beyond that included; they sum to one
    log_mean: float  # logarithm of the mean ratio
    khat: float  # shape of that distribution, in proportion where it holds little; inf where none could be fitted
    shape: float  # the same as it is

    @classmethod
    def unsmoothed(cls, log_ratios: Array, khat: float) -> "Smoothed":
        """The ratios as they are."""
        total = float(log_sum_exp(log_ratios))
        log_weights = log_ratios - total
        return cls(log_weights, log_weights, total - math.log(len(log_ratios)), khat, khat)


def pareto_smoothed(log_ratios: Array) -> Smoothed:
    r"""Smooth the tail of importance ratios and tell how heavy it is.

    .. math:: \log \bar r = \log \tfrac1S \sum_s r_s, \qquad w_s = r_s / \textstyle\sum_t r_t

    with the largest :math:`T = 3\sqrt S` ratios replaced by quantiles of a generalised Pareto distribution fitted to
    them. Its shape k̂ tells how many moments the ratios have (1/k̂): below 0.5 their variance is finite, above 0.7 no
    practical number of draws is enough.

    Parameters
    ----------
    log_ratios : (S,) array
        At least 100 of them. -inf, a draw that the target excludes, is allowed.

    Returns
    -------
    Smoothed
        k̂ is that of arviz-stats where the tail, beyond where it begins, holds a twentieth of the mean ratio or more.
        Less is taken in proportion, down to k̂ = 0 for ratios that are all alike (q is the posterior): the shape of a
        tail does not depend on its size, and one of no weight is as likely to look heavy as any.

    Notes
    -----
    Weights are cut at the largest ratio seen, which keeps averages steady. A mean ratio made of them is too small by
    what the tail holds beyond: at k̂ = 0.5 and 1,024 draws 7 per cent of the tail. So the mean, and what its error is
    judged by, take each of the T quantiles as the mean of the distribution over the T-th part that it stands for.

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
    if size < FEWEST_DRAWS:
        raise InputError(f"{size} draws are too few to tell how heavy a tail is; use at least {FEWEST_DRAWS}.")
    if not (log_ratios < np.inf).all() or not np.isfinite(log_ratios).any():  # NaN is not below infinity
        even = np.full(size, -math.log(size))
        return Smoothed(even, even, math.nan, math.inf, math.inf)
    if alike(log_ratios):
        return Smoothed.unsmoothed(log_ratios, 0.0)
    if log_ratios.max() - log_sum_exp(log_ratios) > math.log(0.5):  # one draw outweighs all others together
        return Smoothed.unsmoothed(log_ratios, math.inf)
    return _fitted(log_ratios)


def alike(log_ratios: Array) -> bool:
    """Whether ratios are all equal, but for rounding."""
    return bool(np.ptp(log_ratios) <= EQUAL + ROUNDING * abs(float(log_ratios.max())))


def _fitted(log_ratios: Array) -> Smoothed:
    from arviz_stats.base.array import array_stats  # slow to import, and not always needed

    with np.errstate(all="ignore"):  # ratios so different that all but a few vanish: khat tells
        try:
            log_weights, khat = array_stats.psislw(-log_ratios)  # type: ignore[no-untyped-call]
        except ValueError:  # all ratios of the tail are alike
            return Smoothed.unsmoothed(log_ratios, math.inf)
    order, T = np.argsort(log_ratios), _tail_size(len(log_ratios))
    below, tail = order[-T - 1], order[-T:]  # the largest ratio that is left as it was
    if not (np.isfinite(khat) and np.isfinite(log_weights[[below, tail[-1]]]).all()):
        return Smoothed.unsmoothed(log_ratios, math.inf if np.isnan(khat) else float(khat))
    log_total = float(log_ratios[below] - log_weights[below])
    log_shares = np.array(log_weights)
    log_shares[tail] = _without_cut(log_weights[tail], float(khat))
    more = float(log_sum_exp(log_shares))
    log_mean = log_total + more - math.log(len(log_ratios))
    held = float((np.exp(log_shares[tail]) - np.exp(log_shares[below])).sum())  # by the tail beyond where it begins
    shape = float(khat)
    return Smoothed(np.asarray(log_weights), log_shares - more, log_mean, shape * min(1.0, held / SMALL_TAIL), shape)


def _tail_size(size: int) -> int:
    """How many ratios arviz-stats takes for the tail."""
    return math.floor(3 * math.sqrt(size)) if size > 225 else size // 5


def _without_cut(log_weights: Array, khat: float) -> Array:
    """Logarithms of a smoothed tail's weights, in increasing order, each as the mean over its part of the tail.

    The quantile function u + σ((1 - p)^-k - 1)/k is known again from two weights that were not cut.
    """
    T = len(log_weights)
    if not log_weights[-1] - log_weights[0] < MOST_DIFFERENT:
        return log_weights
    w, p = np.exp(log_weights - log_weights[0]), (np.arange(T) + 0.5) / T
    height = np.expm1(-khat * np.log1p(-p[[0, T // 2]])) / khat if khat else -np.log1p(-p[[0, T // 2]])
    sigma = (w[T // 2] - w[0]) / (height[1] - height[0])
    if not (khat < 1.0 and khat and sigma > 0):  # a tail without a mean; or none to speak of
        return log_weights
    left = np.linspace(1.0, 0.0, T + 1) ** (1.0 - khat)
    means = T / (1.0 - khat) * (left[:-1] - left[1:])  # of (1 - p)^-k
    return np.asarray(np.log(w[0] - sigma * height[0] + sigma * (means - 1.0) / khat) + log_weights[0])


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
