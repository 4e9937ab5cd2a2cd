"""Columns of categories: probabilities of levels with Dirichlet beliefs.

Notation
--------
====  ==========================================================  ======
θ     probabilities of levels, columns side by side               (K, M)
a     posterior pseudo-counts: prior plus counts                  (K, M)
====  ==========================================================  ======
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln

from credibly.errors import InputError
from credibly.model.class_conditionals.base import Beliefs, Density, Divisor, Estimates, Linear, Prior
from credibly.model.class_conditionals.columns import ColumnFamily, one_each
from credibly.model.class_conditionals.probabilities import (
    JEFFREYS,
    beta_estimates,
    log_gammas,
    log_product,
    refuse_empty,
)
from credibly.model.class_conditionals.statistics import Additive, group_sums, membership
from credibly.model.conjugate_priors import ConjugatePrior, Dirichlet, Reference
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import DesignMatrix, dense


@dataclass(frozen=True)
class Counts(Additive):
    """How often every level of every column occurred, (K, M): columns side by side."""

    counts: Array

    def least_rows(self) -> Array:
        return np.asarray(self.counts.max(axis=1, initial=0.0))  # of one level; columns are not told apart here


@dataclass(frozen=True)
class Categorical(ColumnFamily[Counts]):
    r"""Columns of categories, independent given the class.

    .. math:: p(x \mid c) = \prod_j θ_{cj, x_j}

    Below the estimators a category is its number among the column's levels; a number beyond them is a level that was
    not seen in training, which has the probability of a level with no count.

    Parameters
    ----------
    sizes : tuple of int, optional
        How many levels each column has; found when the model is fitted.

    Examples
    --------
    >>> Categorical()
    Categorical()
    """

    sizes: tuple[int, ...] = ()
    name = "categorical"

    def __repr__(self) -> str:
        return "Categorical()"

    @property
    def starts(self) -> Codes:
        """Where each column's levels begin."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)

    def per_column(self, values: Array) -> Array:
        """Sums over the levels of every column, (K, d)."""
        return np.add.reduceat(values, self.starts[:-1], axis=1)

    def repeated(self, values: Array) -> Array:
        """One value per column repeated for its levels, (…, M)."""
        return np.repeat(values, self.sizes, axis=-1)

    def indicators(self, X: DesignMatrix) -> csr_array:
        """(n, M): one where a row has a level; nothing for a cell that is missing or a level that is new."""
        table = dense(X)
        known = np.asarray(table < np.array(self.sizes))  # false for NaN, too
        columns = (np.where(known, table, 0) + self.starts[:-1]).astype(np.intp)[known]
        ends = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        return csr_array((np.ones(len(columns)), columns, ends), shape=(len(table), int(self.starts[-1])))

    def summarise(self, X: DesignMatrix, codes: Codes, weight: Array | None, n_classes: int) -> Counts:
        return Counts(group_sums(membership(codes, weight, n_classes), self.indicators(X)))

    def empirical_prior(self, pooled: Counts) -> list[ConjugatePrior]:
        return [Dirichlet(1.0)] * len(self.sizes)

    def reference_prior(self) -> Dirichlet:
        return Dirichlet(JEFFREYS)

    def posterior(self, statistics: Counts, prior: Prior) -> DirichletBeliefs:
        given = one_each(prior, (Dirichlet, Reference), len(self.sizes), "Dirichlet(alpha)")
        alphas = []
        for item, size in zip(given, self.sizes, strict=True):
            alpha = JEFFREYS if isinstance(item, Reference) else np.asarray(item.alpha, dtype=float)
            if np.ndim(alpha) and np.shape(alpha) != (size,):
                raise InputError(
                    f"Dirichlet(alpha) has {np.size(alpha)} numbers for a column with {size} levels; give one number "
                    "for all levels, or one for each in sorted order."
                )
            alphas.append(np.broadcast_to(alpha, (size,)))
        a0 = np.concatenate(alphas)
        a = a0 + statistics.counts
        sums = [gammaln(values).sum() - gammaln(self.per_column(values)).sum() for values in (a, a0[None])]
        return DirichletBeliefs(self, a, a0, float(sums[0] - len(a) * sums[1]))

    def plug_in(self, statistics: Counts, divisor: Divisor) -> Categoricals:
        total = self.per_column(statistics.counts)
        refuse_empty(total)
        with np.errstate(divide="ignore"):
            return Categoricals(self, np.log(statistics.counts / self.repeated(total)))

    def n_parameters(self, statistics: Counts) -> int:
        return int(len(statistics.counts) * (sum(self.sizes) - len(self.sizes)))

    def row_columns(self, n_columns: int) -> Codes:
        return np.repeat(np.arange(n_columns), self.sizes)


@dataclass(frozen=True)
class Categoricals(Density[Counts]):
    """Π_j θ_cj,x_j, held by logarithms; a new level tells nothing here and counts as missing."""

    family: Categorical
    log_p: Array  # (K, M)

    def log_density(self, X: DesignMatrix) -> Array:
        return log_product(self.family.indicators(X), self.log_p)

    def log_likelihood(self, statistics: Counts) -> float:
        with np.errstate(invalid="ignore"):
            return float(np.where(statistics.counts > 0, statistics.counts * self.log_p, 0.0).sum())

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        starts, columns = self.family.starts, []
        for start, size in zip(starts[:-1], self.family.sizes, strict=True):
            steps = np.cumsum(np.exp(self.log_p[:, start : start + size]), axis=1)[codes]
            # Rounding can leave the last step below one: the draw is then of the last level all the same.
            columns.append((rng.random((len(codes), 1)) > steps[:, :-1]).sum(axis=1))
        return np.column_stack(columns).astype(float)

    def linear(self) -> Linear | None:
        return None

    def natural(self) -> Array:
        """log θ with u(x) the indicators of levels, (K, M)."""
        return self.log_p

    def center(self) -> Array:
        return np.exp(self.log_p)

    def spread(self) -> Array:
        p = np.exp(self.log_p)
        return np.asarray(np.sqrt(p * (1 - p)))


@dataclass(frozen=True)
class DirichletBeliefs(Beliefs[Counts]):
    """θ_cj ~ Dirichlet(a_cj)."""

    family: Categorical
    a: Array
    prior: Array
    log_marginal: float = np.nan

    def log_predictive(self, X: DesignMatrix) -> Array:
        known = log_product(self.family.indicators(X), self.expectation().log_p)
        new = (dense(X) >= np.array(self.family.sizes)).astype(float)  # false for missing cells
        if not new.any():
            return known
        # A new level is one more outcome, with the average pseudo-count of the known ones and no count.
        alpha = self.family.per_column(self.prior[None]) / np.array(self.family.sizes)
        return np.asarray(known + new @ np.log(alpha / (self.family.per_column(self.a) + alpha)).T)

    def log_expected(self, X: DesignMatrix) -> Array:
        expected = digamma(self.a) - self.family.repeated(digamma(self.family.per_column(self.a)))
        return log_product(self.family.indicators(X), expected)

    def draw(self, rng: np.random.Generator) -> Categoricals:
        logs = log_gammas(rng, self.a)
        total = np.logaddexp.reduceat(logs, self.family.starts[:-1], axis=1)
        return Categoricals(self.family, logs - self.family.repeated(total))

    def expectation(self) -> Categoricals:
        return Categoricals(self.family, np.log(self.a / self.family.repeated(self.family.per_column(self.a))))

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        return self.expectation().sample(rng, codes)

    def estimates(self, level: float) -> Estimates:
        total = self.family.repeated(self.family.per_column(self.a))
        return beta_estimates(self.a, total - self.a, level)


def relevelled(statistics: Counts, family: Categorical, order: Sequence[Codes], sizes: tuple[int, ...]) -> Counts:
    """Counts for other lists of levels: order[j][l] is where level l of column j goes, -1 drops it."""
    starts, out = family.starts, np.zeros((len(statistics.counts), sum(sizes)))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    for j, places in enumerate(order):
        kept = places >= 0
        out[:, ends[j] + places[kept]] = statistics.counts[:, starts[j] : starts[j + 1]][:, kept]
    return Counts(out)
