"""A column with one value in all rows, or none: it says nothing about classes, and is not modelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from credibly.model.class_conditionals.base import Beliefs, Density, Divisor, Estimates, Linear, Prior
from credibly.model.class_conditionals.columns import ColumnFamily
from credibly.model.class_conditionals.statistics import Additive, membership
from credibly.model.conjugate_priors import ConjugatePrior, Reference
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import DesignMatrix


@dataclass(frozen=True)
class Rows(Additive):
    """How many rows there were, (K, d)."""

    weight: Array


@dataclass(frozen=True)
class Constant(ColumnFamily[Rows]):
    r"""A column that is left out.

    .. math:: p(x \mid c) = 1

    A variance cannot be learnt from one value; were it tried, classes with more rows would seem to have less of it, and
    the column would speak for them.
    """

    value: float | None = None  # None where no row has one
    name = "constant"

    def summarise(self, X: DesignMatrix, codes: Codes, weight: Array | None, n_classes: int) -> Rows:
        total = np.asarray(membership(codes, weight, n_classes).sum(axis=1), dtype=float)
        return Rows(np.repeat(total[:, None], X.shape[1], axis=1))

    def empirical_prior(self, pooled: Rows) -> list[ConjugatePrior]:
        return [Reference()] * pooled.weight.shape[1]

    def reference_prior(self) -> Reference:
        return Reference()

    def posterior(self, statistics: Rows, prior: Prior) -> Nothing:
        return Nothing(self.value, statistics.weight.shape)

    def plug_in(self, statistics: Rows, divisor: Divisor) -> Certain:
        return Certain(self.value, statistics.weight.shape)

    def n_parameters(self, statistics: Rows) -> int:
        return 0


@dataclass(frozen=True)
class Certain(Density[Rows]):
    """The constant, in every class."""

    value: float | None
    shape: tuple[Any, ...]  # (K, d)

    def log_density(self, X: DesignMatrix) -> Array:
        return np.zeros((X.shape[0], self.shape[0]))

    def log_likelihood(self, statistics: Rows) -> float:
        return 0.0

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        return np.broadcast_to(self.center()[0], (len(codes), self.shape[1]))

    def linear(self) -> Linear | None:
        return Linear(np.zeros(self.shape), np.zeros(self.shape[0]))

    def center(self) -> Array:
        return np.full(self.shape, np.nan if self.value is None else self.value)

    def spread(self) -> Array:
        return np.zeros(self.shape)


@dataclass(frozen=True)
class Nothing(Beliefs[Rows]):
    """No parameters, so nothing to believe of them."""

    value: float | None
    shape: tuple[Any, ...]
    log_marginal: float = 0.0

    def log_predictive(self, X: DesignMatrix) -> Array:
        return self.expectation().log_density(X)

    def log_expected(self, X: DesignMatrix) -> Array:
        return self.expectation().log_density(X)

    def linear(self) -> Linear | None:
        return self.expectation().linear()

    def draw(self, rng: np.random.Generator) -> Certain:
        return self.expectation()

    def expectation(self) -> Certain:
        return Certain(self.value, self.shape)

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        return self.expectation().sample(rng, codes)

    def estimates(self, level: float) -> Estimates:
        center = self.expectation().center()
        return Estimates(center, np.zeros(self.shape), center, center)
