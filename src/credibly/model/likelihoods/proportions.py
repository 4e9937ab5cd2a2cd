"""The families of labels and of proportions of labels.

Notation
--------
=====  =====================================================  ==================
y      label, or proportion of labels 1                       any shape
μ      probability of label 1, called `mu`                    any shape
λ      log μ, called `log_mu`                                 any shape
o      odds μ / (1 - μ) = 1 / (e⁻λ - 1)                       any shape
=====  =====================================================  ==================
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import betaln, xlog1py, xlogy

from credibly.model.likelihoods.family_base import (
    POWER_NAMES,
    Dispersion,
    Family,
    check_counts,
    check_finite,
    refuse,
)
from credibly.model.likelihoods.links import THRESHOLDS, Derivatives, Logit, silent, times
from credibly.numerics.arrays import Array
from credibly.numerics.special import log1mexp


class Proportions(Family):
    """What a label and a proportion of labels have in common: log p = y log μ + (1 - y) log(1 - μ) per trial."""

    links = tuple(link.name for link in THRESHOLDS) + POWER_NAMES
    default_link = Logit()
    concave_powers = (0.0, 1.0)
    mean_range = (0.0, 1.0)

    def variance(self, mu: Array) -> Array:
        return mu * (1 - np.asarray(mu))

    def log_density(self, y: Array, mu: Array, s: Dispersion = 1.0, log_mu: Array | None = None) -> Array:
        if log_mu is None:
            return np.asarray(xlogy(y, mu) + xlog1py(1 - np.asarray(y), -np.asarray(mu)))
        with silent():
            return times(y, log_mu) + times(1 - np.asarray(y), log1mexp(log_mu))

    def log_mean_slopes(self, y: Array, mu: Array, s: Dispersion, log_mu: Array) -> Derivatives:
        o, other = 1 / np.expm1(-log_mu), 1 - np.asarray(y)
        return Derivatives(y - other * o, -other * o * (1 + o), -other * o * (1 + o) * (1 + 2 * o))

    def log_mean_information(self, mu: Array, s: Dispersion, log_mu: Array) -> tuple[Array, Array]:
        o = 1 / np.expm1(-log_mu)
        return o, o * (1 + o)

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        with silent():
            rest = 1 - np.asarray(y)
            return np.asarray(2 * (xlogy(y, y / mu) + xlogy(rest, rest / (1 - np.asarray(mu)))))

    def starting_mean(self, y: Array, weight: Array) -> Array:
        return np.asarray((weight * y + 0.5) / (weight + 1))


@dataclass(frozen=True)
class Bernoulli(Proportions):
    r"""Labels 0 and 1.

    .. math:: p(y) = \mu^y (1 - \mu)^{1 - y}, \qquad V = \mu(1 - \mu), \quad \eta = \log\{\mu / (1 - \mu)\}

    Examples
    --------
    >>> float(Bernoulli().log_density(np.array(1.0), np.array(1.0)))
    0.0
    """

    name = "bernoulli"

    def check_targets(self, y: Array) -> None:
        check_finite(y, self.name)
        refuse(y, (y != 0) & (y != 1), self.name, "0 or 1")

    def distribution(self, mu: Array, s: Dispersion = 1.0) -> Any:
        return stats.bernoulli(mu)


@dataclass(frozen=True)
class Binomial(Proportions):
    r"""Proportions y of m trials; log densities are per trial, so that m is a weight.

    .. math:: p(y) = \binom{m}{m y} \{\mu^y (1 - \mu)^{1 - y}\}^m, \qquad V = \mu(1 - \mu), \quad s = 1/m

    `log_density` has neither m nor the binomial coefficient, which `log_coefficients` gives: the two are put together
    as m · log_density + log_coefficients. `cdf`, `quantile` and `sample` take the number of trials as s = 1/m.

    Examples
    --------
    >>> float(Binomial().quantile(np.array(0.5), np.array(0.3), s=1 / 10))  # three of ten trials
    0.3
    """

    name = "binomial"

    def check_targets(self, y: Array) -> None:
        check_finite(y, self.name)
        refuse(y, (y < 0) | (y > 1), self.name, "proportions between 0 and 1")

    def check_totals(self, y: Array, totals: Array) -> None:
        """Raise `InputError` unless totals are whole and y · totals are whole numbers of successes."""
        check_counts(totals, self.name, "numbers of trials")
        successes = np.asarray(y) * totals
        refuse(successes, successes > totals, self.name, "at most the number of trials", "numbers of successes")
        # a proportion is a rounded quotient: half a unit in its last place, times the number of trials
        off = np.abs(successes - np.rint(successes)) > np.finfo(float).eps * np.asarray(totals)
        refuse(successes, off, self.name, "whole numbers", "numbers of successes")

    def log_coefficients(self, y: Array, totals: Array) -> Array:
        """Log of the binomial coefficient of m over m·y, for each row."""
        successes = np.rint(np.asarray(y) * totals)
        return np.asarray(-np.log1p(totals) - betaln(successes + 1, totals - successes + 1))

    def distribution(self, mu: Array, s: Dispersion = 1.0) -> Any:
        """The distribution of the number of successes, in scipy.stats."""
        return stats.binom(np.rint(1 / np.asarray(s)).astype(int), mu)

    def cdf(self, y: Array, mu: Array, s: Dispersion = 1.0) -> Array:
        successes = np.asarray(y / s)
        nearest = np.rint(successes)  # k/m times m may be a rounding below k
        whole = np.abs(successes - nearest) <= 4 * np.finfo(float).eps * nearest
        return np.asarray(self.distribution(mu, s).cdf(np.where(whole, nearest, np.floor(successes))))

    def quantile(self, q: Array, mu: Array, s: Dispersion = 1.0) -> Array:
        return np.asarray(super().quantile(q, mu, s) / np.rint(1 / np.asarray(s)))

    def sample(self, rng: np.random.Generator, mu: Array, s: Dispersion = 1.0) -> Array:
        return np.asarray(super().sample(rng, mu, s) / np.rint(1 / np.asarray(s)))
