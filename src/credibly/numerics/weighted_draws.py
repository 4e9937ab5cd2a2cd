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
EQUAL = 1e-9  # spread of log ratios that is only rounding


class Smoothed(NamedTuple):
    """Importance weights whose largest are replaced by quantiles of a generalised Pareto distribution."""

    log_weights: Array  # (S,), of weights that sum to one
    log_mean: float  # logarithm of the mean smoothed ratio
    khat: float  # shape of that distribution; inf where none could be fitted


def pareto_smoothed(log_ratios: Array) -> Smoothed:
    r"""Smooth the tail of importance ratios and tell how heavy it is.

    .. math:: \log \bar r = \log \tfrac1S \sum_s r_s, \qquad w_s = r_s / \textstyle\sum_t r_t

    with the largest :math:`3\sqrt S` ratios replaced by the expected order statistics of a generalised Pareto
    distribution fitted to them. Its shape k̂ tells how many moments the ratios have (1/k̂): below 0.5 their variance is
    finite, above 0.7 no practical number of draws is enough.

    Parameters
    ----------
    log_ratios : (S,) array
        At least 100 of them. -inf, a draw that the target excludes, is allowed.

    Returns
    -------
    Smoothed
        Ratios that are all alike (q is the posterior) have k̂ = 0.

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
        return Smoothed(np.full(size, -np.log(size)), np.nan, np.inf)
    plain = float(log_sum_exp(log_ratios))
    if np.ptp(log_ratios) <= EQUAL * max(1.0, abs(plain)):
        return Smoothed(log_ratios - plain, plain - math.log(size), 0.0)
    return _fitted(log_ratios, plain)


def _fitted(log_ratios: Array, plain: float) -> Smoothed:
    from arviz_stats.base.array import array_stats  # slow to import, and not always needed

    with np.errstate(all="ignore"):  # ratios so different that all but a few vanish: khat tells
        try:
            log_weights, khat = array_stats.psislw(-log_ratios)  # type: ignore[no-untyped-call]
        except ValueError:  # all ratios of the tail are alike
            log_weights, khat = log_ratios - plain, np.inf
    if not (np.isfinite(khat) and np.isfinite(log_sum_exp(log_weights))):
        return Smoothed(log_ratios - plain, plain - np.log(len(log_ratios)), np.inf)
    middle = np.argsort(log_ratios)[len(log_ratios) // 2]  # below the tail: there only the constant differs
    log_total = float(log_ratios[middle] - log_weights[middle])
    if not np.isfinite(log_total):
        return Smoothed(log_ratios - plain, plain - np.log(len(log_ratios)), float(khat))
    return Smoothed(np.asarray(log_weights), log_total - np.log(len(log_ratios)), float(khat))


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

    def shift_from(self, mean: Array) -> float:
        """The largest difference of a mean from another one, in standard deviations."""
        return float(np.abs((self.mean - mean) / self.std).max())

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
