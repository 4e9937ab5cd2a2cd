"""Columns with two values: probabilities with Beta beliefs.

Notation
--------
====  ===================================================  ======
θ     probability of the second value                      (K, d)
a, b  posterior pseudo-counts of the two values            (K, d)
====  ===================================================  ======
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma

from credibly.errors import InputError
from credibly.model.class_conditionals.base import Beliefs, Density, Divisor, Estimates, Linear, Prior
from credibly.model.class_conditionals.columns import (
    ColumnFamily,
    cell_weights,
    cells,
    observed,
    one_each,
    per_column,
    refuse_values,
    zero_filled,
)
from credibly.model.class_conditionals.probabilities import (
    JEFFREYS,
    beta_estimates,
    log_beta,
    log_gammas,
    log_product,
    refuse_empty,
)
from credibly.model.class_conditionals.statistics import Additive, group_sums, membership
from credibly.model.conjugate_priors import ConjugatePrior, Reference
from credibly.model.priors import Beta
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import DesignMatrix, dense, is_sparse


@dataclass(frozen=True)
class Successes(Additive):
    """How often a column was one, and how often it was zero, (K, d) each."""

    ones: Array
    zeros: Array

    def least_rows(self) -> Array:
        return np.asarray((self.ones + self.zeros).max(axis=1, initial=0.0))


@dataclass(frozen=True)
class Bernoulli(ColumnFamily[Successes]):
    r"""Columns with two values, independent given the class.

    .. math:: p(x \mid c) = \prod_j θ_{cj}^{x_j} (1 - θ_{cj})^{1 - x_j} = \prod_j σ(-η_{cj}) \exp(η_{cj} x_j),
              \quad η = \log\frac{θ}{1 - θ}

    With Beta(1, 1) the averaged probability is (count + 1)/(n + 2): Laplace's correction.

    Parameters
    ----------
    values : pair of numbers
        What counts as zero and as one.

    Examples
    --------
    >>> Bernoulli()
    Bernoulli(values=(0, 1))
    """

    values: tuple[float, float] = (0, 1)
    name = "bernoulli"

    def __post_init__(self) -> None:
        if np.shape(self.values) != (2,) or self.values[0] == self.values[1]:
            raise InputError(f"values of Bernoulli must be two different numbers; got {self.values!r}.")

    def strange(self, values: Array) -> AnyArray:
        """Which cells have neither value."""
        low, high = self.values
        return np.asarray(~((values == low) | (values == high) | np.isnan(values)))

    def check(self, X: DesignMatrix, names: Sequence[str]) -> None:
        low, high = self.values
        if 0 not in (low, high):
            X = dense(X)  # zeros that a sparse table does not store are values like others
        refuse_values(
            X, self.strange(cells(X)), names, f"A Bernoulli column holds {low:g} or {high:g} (missing cells are NaN)"
        )

    def ones(self, X: DesignMatrix) -> DesignMatrix:
        """Zeros and ones, NaN where missing."""
        low, high = self.values
        if (low, high) == (0, 1):
            return X if is_sparse(X) else dense(X)
        return (dense(X) - low) / (high - low)

    def summarise(self, X: DesignMatrix, codes: Codes, weight: Array | None, n_classes: int) -> Successes:
        table = self.ones(X)
        seen = observed(table)
        member = membership(codes, weight, n_classes)
        total = cell_weights(member, seen, table.shape[1])
        ones = group_sums(member, zero_filled(table, seen))
        return Successes(ones, total - ones)

    def empirical_prior(self, pooled: Successes) -> list[ConjugatePrior]:
        return [Beta(1.0, 1.0)] * pooled.ones.shape[1]

    def reference_prior(self) -> Beta:
        return Beta(JEFFREYS, JEFFREYS)

    def posterior(self, statistics: Successes, prior: Prior) -> BetaBeliefs:
        d = statistics.ones.shape[1]
        given = one_each(prior, (Beta, Reference), d, "Beta(a, b)")
        given = [self.reference_prior() if isinstance(item, Reference) else item for item in given]
        if isinstance(prior, Beta):
            a0, b0 = per_column(prior, ("a", "b"), d)
        else:
            a0, b0 = np.array([per_column(item, ("a", "b"), 1)[:, 0] for item in given]).T
        a, b = a0 + statistics.ones, b0 + statistics.zeros
        log_marginal = (log_beta(a, b) - log_beta(a0, b0)).sum()
        return BetaBeliefs(self, a, b, float(log_marginal))

    def plug_in(self, statistics: Successes, divisor: Divisor) -> Bernoullis:
        total = statistics.ones + statistics.zeros
        refuse_empty(total)
        with np.errstate(divide="ignore"):
            return Bernoullis(self, np.log(statistics.ones / total), np.log(statistics.zeros / total))


@dataclass(frozen=True)
class Bernoullis(Density[Successes]):
    """Π_j θ_cj^x_j (1 - θ_cj)^(1 - x_j), held by logarithms."""

    family: Bernoulli
    log_one: Array
    log_zero: Array

    def log_density(self, X: DesignMatrix) -> Array:
        return log_outcomes(self.family.ones(X), self.log_one, self.log_zero)

    def log_likelihood(self, statistics: Successes) -> float:
        with np.errstate(invalid="ignore"):
            parts = [
                np.where(n > 0, n * log_p, 0.0)
                for n, log_p in ((statistics.ones, self.log_one), (statistics.zeros, self.log_zero))
            ]
        return float(sum(part.sum() for part in parts))

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        ones = rng.random((len(codes), self.log_one.shape[1])) < np.exp(self.log_one)[codes]
        return np.where(ones, *reversed(self.family.values)).astype(float)

    def linear(self) -> Linear | None:
        if np.isinf(self.log_one).any() or np.isinf(self.log_zero).any():
            return None
        low, high = self.family.values
        eta = (self.log_one - self.log_zero) / (high - low)
        return Linear(eta, self.log_zero.sum(axis=1) - low * eta.sum(axis=1))

    def center(self) -> Array:
        low, high = self.family.values
        return low + (high - low) * np.exp(self.log_one)

    def spread(self) -> Array:
        low, high = self.family.values
        return np.asarray(abs(high - low) * np.exp((self.log_one + self.log_zero) / 2))


def log_outcomes(X: DesignMatrix, log_one: Array, log_zero: Array) -> Array:
    """Σ_j x_j log p_cj + (1 - x_j) log q_cj, (n, K), over observed cells."""
    if is_sparse(X):
        finite = np.isfinite(log_zero).all()
        if not finite:
            return log_outcomes(dense(X), log_one, log_zero)
        return np.asarray(log_product(X, log_one - log_zero) + log_zero.sum(axis=1))
    seen = observed(X)
    zeros = np.asarray(1 - X) if seen is None else np.where(seen, 1 - X, 0.0)
    return log_product(zero_filled(X, seen), log_one) + log_product(zeros, log_zero)


@dataclass(frozen=True)
class BetaBeliefs(Beliefs[Successes]):
    """θ_cj ~ Beta(a_cj, b_cj)."""

    family: Bernoulli
    a: Array
    b: Array
    log_marginal: float = np.nan

    def log_predictive(self, X: DesignMatrix) -> Array:
        return self.expectation().log_density(X)  # linear in θ, so averaging is exact

    def log_expected(self, X: DesignMatrix) -> Array:
        both = digamma(self.a + self.b)
        return log_outcomes(self.family.ones(X), digamma(self.a) - both, digamma(self.b) - both)

    def draw(self, rng: np.random.Generator) -> Bernoullis:
        # A Beta as a ratio of Gammas keeps θ and 1 - θ apart where one of them rounds to zero.
        x, y = log_gammas(rng, self.a), log_gammas(rng, self.b)
        total = np.logaddexp(x, y)
        return Bernoullis(self.family, x - total, y - total)

    def expectation(self) -> Bernoullis:
        total = self.a + self.b
        return Bernoullis(self.family, np.log(self.a / total), np.log(self.b / total))

    def linear(self) -> Linear | None:
        return self.expectation().linear()

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        return self.expectation().sample(rng, codes)

    def estimates(self, level: float) -> Estimates:
        low, high = self.family.values
        inner = beta_estimates(self.a, self.b, level)
        limits = sorted_limits(low + (high - low) * inner.lower, low + (high - low) * inner.upper)
        return Estimates(low + (high - low) * inner.mean, abs(high - low) * inner.sd, *limits)


def sorted_limits(a: Array, b: Array) -> tuple[Array, Array]:
    """Lower and upper limits, whichever way the values run."""
    return np.minimum(a, b), np.maximum(a, b)
