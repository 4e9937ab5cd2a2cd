r"""Noisy thresholds given by a density: what follows from it, written once.

Notation
--------
====  ====================================================================================
F, p  distribution function and density of the threshold θ; p(y = 1 | f) = F(f)
g     slope of log p(y | f): p/F for y = 1, −p/(1 − F) for y = 0
ψ     score of the density, d log p / df; ψ' its slope
====  ====================================================================================

For both labels g' = g (ψ − g), because log |g| = log p − log p(y | f). All other derivatives follow.
"""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from credibly.model.likelihoods.base import Likelihood, Slopes
from credibly.numerics.arrays import Array


class Score(NamedTuple):
    """First and second derivative of the log density of a threshold."""

    first: Array
    second: Array


class DensityThreshold(Likelihood):
    r"""A noisy threshold with a smooth density.

    .. math:: p(y = 1 \mid f) = F(f) = \int_{-\infty}^f p(\theta)\, d\theta

    A subclass says what log p(y | f), its slope and the score of the density are.
    """

    log_concave: ClassVar[bool] = False

    @abstractmethod
    def grad(self, y: Array, f: Array) -> Array:
        """d log p(y | f) / df: density over probability, negative for y = 0."""

    @abstractmethod
    def score(self, f: Array) -> Score:
        """First and second derivative of the log density of the threshold at f."""

    def slopes(self, y: Array, f: Array) -> Slopes:
        g = self.grad(y, f)
        return Slopes(g, g * (g - self.score(f).first))

    def third(self, y: Array, f: Array) -> Array:
        g, score = self.grad(y, f), self.score(f)
        return g * ((score.first - g) * (score.first - 2 * g) + score.second)

    def information(self, f: Array) -> Array:
        # Σ_y p g² is p²/(F(1 − F)): the product of the two slopes
        return -self.grad(np.array(0.0), f) * self.grad(np.array(1.0), f)

    def information_slope(self, f: Array) -> Array:
        zero, one = self.grad(np.array(0.0), f), self.grad(np.array(1.0), f)
        return -zero * one * (2 * self.score(f).first - zero - one)
