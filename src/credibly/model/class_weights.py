"""p(c): how probable each class is before its columns are seen.

Notation
--------
====  ==========================================  ====
n     weight of the rows of every class           (K,)
π     class probabilities                         (K,)
====  ==========================================  ====
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from credibly.model.class_conditionals.probabilities import log_gammas
from credibly.numerics.arrays import Array


class ClassWeights(ABC):
    """A belief, or a decision, about class probabilities."""

    @abstractmethod
    def log_average(self, n: Array) -> Array:
        """log p(c | labels seen), (K,)."""

    def log_expected(self, n: Array) -> Array:
        """E[log π], (K,)."""
        return self.log_average(n)

    def draw(self, rng: np.random.Generator, n: Array) -> Array:
        """log π drawn from the posterior, (K,)."""
        return self.log_average(n)

    def log_marginal(self, n: Array) -> float:
        """log p(labels), π integrated out or at its estimate."""
        return self.log_likelihood(n)

    def log_likelihood(self, n: Array) -> float:
        """log p(labels) at the estimate of π."""
        log_p = self.log_average(n)
        return float((n[n > 0] * log_p[n > 0]).sum())

    @abstractmethod
    def n_parameters(self, n_classes: int) -> int:
        """How many of the probabilities were estimated."""


@dataclass(frozen=True)
class LearnedWeights(ClassWeights):
    """π ~ Dirichlet(α, …, α)."""

    alpha: float = 1.0

    def log_average(self, n: Array) -> Array:
        return np.asarray(np.log((n + self.alpha) / (n + self.alpha).sum()))

    def log_expected(self, n: Array) -> Array:
        a = n + self.alpha
        return np.asarray(digamma(a) - digamma(a.sum()))

    def draw(self, rng: np.random.Generator, n: Array) -> Array:
        logs = log_gammas(rng, n + self.alpha)
        return np.asarray(logs - np.logaddexp.reduce(logs))

    def log_marginal(self, n: Array) -> float:
        a0, a = np.full(len(n), self.alpha), n + self.alpha
        return float(gammaln(a).sum() - gammaln(a.sum()) - gammaln(a0).sum() + gammaln(a0.sum()))

    def n_parameters(self, n_classes: int) -> int:
        return n_classes - 1


@dataclass(frozen=True)
class Proportions(ClassWeights):
    """π at its maximum-likelihood estimate, n_c / n."""

    def log_average(self, n: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(n / n.sum()))

    def n_parameters(self, n_classes: int) -> int:
        return n_classes - 1


@dataclass(frozen=True, eq=False)
class FixedWeights(ClassWeights):
    """π given by the user."""

    log_p: Array

    def log_average(self, n: Array) -> Array:
        return self.log_p

    def n_parameters(self, n_classes: int) -> int:
        return 0
