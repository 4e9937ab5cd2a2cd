"""From sums over rows to a joint model p(x, c): parameters integrated out in closed form, or at an estimate.

Notation
--------
======  ========================================================  ====
counts  weight of the rows of every class                         (K,)
======  ========================================================  ====
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from credibly.model.class_conditionals.base import Beliefs, ClassConditional, Density, Divisor, Prior
from credibly.model.class_conditionals.statistics import (
    REMOVAL_ROUNDING,
    WEIGHT_ROUNDING,
    refuse_impossible,
    refuse_too_many,
    taken,
)
from credibly.model.class_weights import ClassWeights, FixedWeights
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import DesignMatrix


class JointSums(NamedTuple):
    """All that a generative model knows of its rows."""

    counts: Array  # (K,)
    statistics: Any

    def merge(self, other: JointSums) -> JointSums:
        """The sums of two sets of rows together."""
        return JointSums(self.counts + other.counts, self.statistics.merge(other.statistics))

    def remove(self, other: JointSums) -> JointSums:
        """The sums without the rows of `other`."""
        refuse_too_many(self.counts, other.counts)
        counts = self.counts - other.counts
        counts = np.where(counts <= WEIGHT_ROUNDING * self.counts, 0.0, counts)
        statistics = self.statistics.remove(other.statistics)
        if (statistics.least_rows() > counts + REMOVAL_ROUNDING * self.counts).any():
            refuse_impossible("a class would have more values in a column than rows")
        return JointSums(counts, statistics)

    def take(self, order: Codes) -> JointSums:
        """The same classes in another order; -1 stands for a class without rows."""
        return JointSums(taken(self.counts, order), self.statistics.take(order))


class Joint(Protocol):
    """p(x, c) for every class."""

    @property
    def weights(self) -> ClassWeights:
        """p(c)."""

    @property
    def value(self) -> float:
        """What learning maximises or integrates: log p(X, y)."""

    def log_joint(self, X: DesignMatrix) -> Array:
        """log p(x, c), (n, K)."""

    def log_ratio(self, X: DesignMatrix) -> Array:
        """log p(x, c) up to a term that classes share, (n, K)."""

    def log_complete(self, X: DesignMatrix) -> Array:
        """What responsibilities of unlabelled rows are made of, (n, K)."""

    @property
    def filling(self) -> Density[Any]:
        """What missing cells are completed with."""

    @property
    def estimate(self) -> Density[Any]:
        """Densities at one value of the parameters."""


class Rule(Protocol):
    """How sums become a joint model."""

    def learn(self, family: ClassConditional[Any], sums: JointSums) -> Joint:
        """The joint model after these sums."""

    @property
    def while_completing(self) -> Rule:
        """The rule that EM uses, whose value never falls."""


@dataclass(frozen=True)
class IntegratedJoint:
    """Parameters integrated out under their conjugate posterior."""

    beliefs: Beliefs[Any]
    weights: ClassWeights
    counts: Array

    @property
    def value(self) -> float:
        """log p(X, y), in closed form."""
        return self.beliefs.log_marginal + self.weights.log_marginal(self.counts)

    def log_joint(self, X: DesignMatrix) -> Array:
        """log p(x, c | data), (n, K)."""
        return self.beliefs.log_predictive(X) + self.weights.log_average(self.counts)

    def log_ratio(self, X: DesignMatrix) -> Array:
        """log p(x, c | data), (n, K)."""
        return self.log_joint(X)

    def log_complete(self, X: DesignMatrix) -> Array:
        """E[log p(x, c)] over the parameters, (n, K)."""
        return self.beliefs.log_expected(X) + self.weights.log_expected(self.counts)

    def draw(self, rng: np.random.Generator) -> PlugInJoint:
        """A joint model with parameters drawn from their posterior."""
        log_p = self.weights.draw(rng, self.counts)
        return PlugInJoint(self.beliefs.draw(rng), FixedWeights(log_p), JointSums(self.counts, None))

    @property
    def filling(self) -> Density[Any]:
        """What missing cells are completed with."""
        return self.beliefs.filling

    @property
    def estimate(self) -> Density[Any]:
        """Parameters at their posterior means."""
        return self.beliefs.expectation()


@dataclass(frozen=True)
class PlugInJoint:
    """Parameters at their estimates."""

    density: Density[Any]
    weights: ClassWeights
    sums: JointSums

    @property
    def value(self) -> float:
        """log p(X, y) at the estimates."""
        return self.density.log_likelihood(self.sums.statistics) + self.weights.log_likelihood(self.sums.counts)

    def log_joint(self, X: DesignMatrix) -> Array:
        """log p(x, c), (n, K)."""
        return self.density.log_density(X) + self.weights.log_average(self.sums.counts)

    def log_ratio(self, X: DesignMatrix) -> Array:
        """log p(x, c) up to a term that classes share, (n, K)."""
        return self.density.log_ratio(X) + self.weights.log_average(self.sums.counts)

    def log_complete(self, X: DesignMatrix) -> Array:
        """log p(x, c), (n, K)."""
        return self.log_joint(X)

    @property
    def filling(self) -> Density[Any]:
        """What missing cells are completed with."""
        return self.density

    @property
    def estimate(self) -> Density[Any]:
        """The densities themselves."""
        return self.density


@dataclass(frozen=True)
class Integrate:
    """Average over the parameters, which have a conjugate prior."""

    prior: Prior
    weights: ClassWeights

    def learn(self, family: ClassConditional[Any], sums: JointSums) -> IntegratedJoint:
        """The joint model after these sums."""
        return IntegratedJoint(family.posterior(sums.statistics, self.prior), self.weights, sums.counts)

    @property
    def while_completing(self) -> Integrate:
        """Variational Bayes: the same rule on expected sums."""
        return self


@dataclass(frozen=True)
class PlugIn:
    """Estimate the parameters, by maximum likelihood or with R's divisors."""

    divisor: Divisor
    weights: ClassWeights

    def learn(self, family: ClassConditional[Any], sums: JointSums) -> PlugInJoint:
        """The joint model after these sums."""
        return PlugInJoint(family.plug_in(sums.statistics, self.divisor), self.weights, sums)

    @property
    def while_completing(self) -> PlugIn:
        """Maximum likelihood, whatever divides at the end."""
        return PlugIn(Divisor(0), self.weights)
