"""Rows of counts that share one distribution over columns: words in a text, species in a sample.

Notation
--------
====  =================================================  ======
x     counts in a row, N their sum                       (d,)
a     posterior pseudo-counts of the columns             (K, d)
====  =================================================  ======
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln

from credibly.errors import InputError
from credibly.model.class_conditionals.base import Beliefs, Density, Divisor, Estimates, Linear, NotDetermined, Prior
from credibly.model.class_conditionals.columns import ColumnFamily, cells, not_counts, observed, refuse_values
from credibly.model.class_conditionals.probabilities import JEFFREYS, beta_estimates, log_gammas, log_product
from credibly.model.class_conditionals.statistics import Additive, group_sums, membership
from credibly.model.conjugate_priors import ConjugatePrior, Dirichlet, Reference
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import DesignMatrix, dense, is_sparse
from credibly.numerics.special import log_rising_factorial


@dataclass(frozen=True)
class Words(Additive):
    """Counts of every column (K, d), and log multinomial coefficients and row totals of every class, (K, 1) each."""

    counts: Array
    log_base: Array
    rows: Array

    def least_rows(self) -> Array:
        return self.rows[:, 0]

    def possible(self) -> Self:
        """Counts are not negative; the base may be anything, and is nothing without rows."""
        Additive.possible(replace(self, log_base=np.zeros_like(self.log_base)))
        return replace(self, log_base=np.where(self.rows > 0, self.log_base, 0.0))


@dataclass(frozen=True)
class Multinomial(ColumnFamily[Words]):
    r"""Counts of a row given their sum, all columns together.

    .. math:: p(x \mid c, N) = \frac{N!}{\prod_j x_j!} \prod_j θ_{cj}^{x_j}

    How many counts a row has says nothing about its class. Averaged over a Dirichlet belief about θ it is the
    Dirichlet-multinomial, which knows that words come in bursts. A missing count leaves the observed ones, given
    their own sum; rows to learn from must be complete.

    Examples
    --------
    >>> Multinomial()
    Multinomial()
    """

    name = "multinomial"
    joint = True

    def check(self, X: DesignMatrix, names: Sequence[str]) -> None:
        bad = not_counts(cells(X))
        refuse_values(
            X,
            bad,
            names,
            "A multinomial column holds counts, whole numbers that are not negative (tf-idf is none)",
        )

    def summarise(self, X: DesignMatrix, codes: Codes, weight: Array | None, n_classes: int) -> Words:
        _refuse_missing(X)
        member = membership(codes, weight, n_classes)
        base = group_sums(member, log_coefficient(X)[:, None])
        return Words(group_sums(member, X), base, group_sums(member, np.ones((len(codes), 1))))

    def empirical_prior(self, pooled: Words) -> list[ConjugatePrior]:
        return [Dirichlet(1.0)] * pooled.counts.shape[1]

    def reference_prior(self) -> Dirichlet:
        return Dirichlet(JEFFREYS)

    def posterior(self, statistics: Words, prior: Prior) -> WordBeliefs:
        a0 = self._alpha(prior, statistics.counts.shape[1])
        a = a0 + statistics.counts
        parts = [gammaln(values).sum() - gammaln(values.sum(axis=-1)).sum() for values in (a, a0)]
        return WordBeliefs(a, float(parts[0] - len(a) * parts[1] + statistics.log_base.sum()))

    def _alpha(self, prior: Prior, d: int) -> Array:
        """One Dirichlet for all columns: a number or a number each, or a list with one number each."""
        given = list(prior) if isinstance(prior, Sequence) else [prior]
        alphas: list[Array] = []
        for item in given:
            if not isinstance(item, Dirichlet | Reference):
                raise InputError(f"The prior of multinomial columns is Dirichlet(alpha); got {item!r}.")
            alphas.append(
                np.atleast_1d(np.asarray(JEFFREYS if isinstance(item, Reference) else item.alpha, dtype=float))
            )
        flat = np.concatenate(alphas)
        if len(flat) not in {1, d}:
            raise InputError(f"Dirichlet(alpha) has {len(flat)} numbers for {d} columns; give one, or one for each.")
        return np.broadcast_to(flat, (d,))

    def plug_in(self, statistics: Words, divisor: Divisor) -> WordProbabilities:
        total = statistics.counts.sum(axis=1, keepdims=True)
        if (total == 0).any():
            raise NotDetermined("has no counts", int(np.flatnonzero(total == 0)[0]))
        with np.errstate(divide="ignore"):
            return WordProbabilities(np.log(statistics.counts / total))

    def n_parameters(self, statistics: Words) -> int:
        K, d = statistics.counts.shape
        return int(K * (d - 1))


def _refuse_missing(X: DesignMatrix) -> None:
    if not is_sparse(X) and np.isnan(X).any():
        raise InputError(
            "Multinomial columns to learn from must not have missing cells (NaN): a row's sum is then unknown. Drop "
            "those rows, write 0 where nothing was counted, or read the columns as Poisson."
        )


def log_coefficient(X: DesignMatrix) -> Array:
    """log N! / Π x_j! of every row, (n,), over observed cells."""
    if isinstance(X, csr_array):
        logs = csr_array((gammaln(X.data + 1), X.indices, X.indptr), X.shape)
        return np.asarray(gammaln(X.sum(axis=1) + 1) - logs.sum(axis=1))
    seen = observed(X)
    counts = X if seen is None else np.where(seen, X, 0.0)
    return np.asarray(gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1))


def _normalised(X: DesignMatrix, log_p: Array) -> Array:
    """log Σ_observed θ_cj of every row, (n, K): missing counts leave the others given their sum."""
    seen = observed(X)
    if seen is None:
        return np.zeros((1, len(log_p)))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(seen @ np.exp(log_p).T))


@dataclass(frozen=True)
class WordProbabilities(Density[Words]):
    """Multinomial rows with known probabilities, held by logarithms (K, d)."""

    log_p: Array

    def log_density(self, X: DesignMatrix) -> Array:
        seen = observed(X)
        counts = X if seen is None else np.where(seen, X, 0.0)
        total = np.asarray(counts.sum(axis=1)).reshape(-1, 1)
        log_share = _normalised(X, self.log_p)
        lost = total * np.where(np.isneginf(log_share), 0.0, log_share)  # all that was observed is impossible anyway
        return np.asarray(log_product(counts, self.log_p) - lost + log_coefficient(X)[:, None])

    def log_likelihood(self, statistics: Words) -> float:
        with np.errstate(invalid="ignore"):
            parts = np.where(statistics.counts > 0, statistics.counts * self.log_p, 0.0)
        return float(parts.sum() + statistics.log_base.sum())

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        raise InputError(_NO_TOTAL)

    def linear(self) -> Linear | None:
        return None if np.isinf(self.log_p).any() else Linear(self.log_p, np.zeros(len(self.log_p)))

    def center(self) -> Array:
        return np.exp(self.log_p)

    def spread(self) -> Array:
        p = np.exp(self.log_p)
        return np.asarray(np.sqrt(p * (1 - p)))


_NO_TOTAL = (
    "Rows of a multinomial cannot be drawn: how many counts a row has is not part of the model. Use Poisson columns, "
    "or draw with numpy.random.Generator.multinomial(total, p) and the probabilities in summary()."
)


@dataclass(frozen=True)
class WordBeliefs(Beliefs[Words]):
    """θ_c ~ Dirichlet(a_c)."""

    a: Array
    log_marginal: float = np.nan

    def log_predictive(self, X: DesignMatrix) -> Array:
        """Dirichlet-multinomial; a subset of the columns has the Dirichlet of its own pseudo-counts."""
        columns = [self._class_predictive(X, a) for a in self.a]
        return np.column_stack(columns) + log_coefficient(X)[:, None]

    def _class_predictive(self, X: DesignMatrix, a: Array) -> Array:
        if isinstance(X, csr_array):
            rises = log_rising_factorial(a[X.indices], X.data)
            total = np.asarray(X.sum(axis=1))
            parts = np.asarray(csr_array((rises, X.indices, X.indptr), X.shape).sum(axis=1))
            return np.asarray(parts - log_rising_factorial(a.sum(), total))
        table = dense(X)
        seen = observed(table)
        every: AnyArray = np.ones(table.shape, dtype=bool) if seen is None else seen
        rises = log_rising_factorial(a, np.where(every, table, 0.0))  # nothing for missing cells
        strength = every @ a
        total = np.where(every, table, 0.0).sum(axis=1)
        # Without any observed cell the strength is zero, and so is the total: such a row says nothing.
        some = strength > 0
        return np.asarray(
            rises.sum(axis=1) - log_rising_factorial(np.where(some, strength, 1.0), np.where(some, total, 0.0))
        )

    def log_expected(self, X: DesignMatrix) -> Array:
        _refuse_missing(X)
        expected = digamma(self.a) - digamma(self.a.sum(axis=1, keepdims=True))
        return log_product(X, expected) + log_coefficient(X)[:, None]

    def draw(self, rng: np.random.Generator) -> WordProbabilities:
        logs = log_gammas(rng, self.a)
        return WordProbabilities(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))

    def expectation(self) -> WordProbabilities:
        return WordProbabilities(np.log(self.a / self.a.sum(axis=1, keepdims=True)))

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        raise InputError(_NO_TOTAL)

    def estimates(self, level: float) -> Estimates:
        return beta_estimates(self.a, self.a.sum(axis=1, keepdims=True) - self.a, level)
