"""The seam of every likelihood with one latent score per row.

Notation
--------
====  ============================================  ====================
y     class codes, 0 or 1                           any shape, or scalar
f     latent scores                                 any shape
m, v  mean and variance of a Gaussian over f        any shape, v ≥ 0
====  ============================================  ====================

Everything is element-wise and broadcasts. There is no data, no solver and no number of rows in a likelihood.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from credibly.numerics import averages
from credibly.numerics.arrays import Array
from credibly.numerics.averages import Factor, LabelAverages, Tilted, Transition


class Slopes(NamedTuple):
    """First and second derivative of log p(y | f) in f."""

    grad: Array  # d log p / df
    curvature: Array  # -d² log p / df², ≥ 0 where log p is concave


class Expansion(NamedTuple):
    """log p(y | f) to second order: what one Newton step needs."""

    log_prob: Array
    grad: Array
    curvature: Array


class Averaged(NamedTuple):
    """log p(y | f) to second order, averaged over a Gaussian score: what one step of variational inference needs."""

    log_prob: Array
    grad: Array
    curvature: Array


class Likelihood(ABC):
    """p(y | f) for one latent score f per row; every method is element-wise.

    Averages over a Gaussian score come from the one rule of `numerics.averages`, and closed forms override them where
    there are any. `information` and its slope are written for two labels; families of other targets override them.
    """

    log_concave: ClassVar[bool] = True  # whether log p(y | f) is concave in f for every y: then a mode is the mode
    two_labels: ClassVar[bool] = True  # whether y is 0 or 1
    center: float = 0.0  # where p(y | f) has its transition; a kink, if there is one, is here
    width: float = 1.0  # how wide that is: about the distance of the nearest singularity of log p from the real line
    refinement: int = 1  # times as many nodes in `averaged`, where log p turns in other places too

    @abstractmethod
    def log_prob(self, y: Array, f: Array) -> Array:
        """log p(y | f)."""

    @abstractmethod
    def slopes(self, y: Array, f: Array) -> Slopes:
        """First derivative and minus the second derivative of log p(y | f)."""

    @abstractmethod
    def third(self, y: Array, f: Array) -> Array:
        """Third derivative of log p(y | f); asked for by evidence gradients only."""

    @abstractmethod
    def mean(self, f: Array) -> Array:
        """E[y | f] = p(y = 1 | f), the inverse link."""

    def grad(self, y: Array, f: Array) -> Array:
        """The first derivative alone."""
        return self.slopes(y, f).grad

    def expand(self, y: Array, f: Array) -> Expansion:
        """log p(y | f) and its slopes together; overridden where they share their expensive part."""
        return Expansion(self.log_prob(y, f), *self.slopes(y, f))

    def tilted(self, y: Array, m: Array, v: Array) -> Tilted:
        """Log mass, mean and variance of p(y | f) N(f | m, v)."""
        return averages.tilted(self._factor(), y, m, v)

    def log_average(self, y: Array, m: Array, v: Array) -> Array:
        """log ∫ p(y | f) N(f | m, v) df, the log probability of y when the score is uncertain."""
        return self.label_averages(m, v).of(y) if self.two_labels else self.tilted(y, m, v).log_mass

    def label_averages(self, m: Array, v: Array) -> LabelAverages:
        """The log averages of both labels; they share their integral."""
        return averages.label_averages(self._factor(), m, v)

    def averaged(self, y: Array, m: Array, v: Array) -> Averaged:
        r"""Averages of log p(y | f), its gradient and its curvature under N(f | m, v).

        .. math:: \frac{d}{dm} E[\log p] = E[\mathrm{grad}], \qquad 2 \frac{d}{dv} E[\log p] = -E[\mathrm{curvature}]
        """
        return Averaged(*averages.averaged_expansion(self.expand, self._transition(), y, m, v))

    def curvature_slope(self, y: Array, f: Array, v: Array) -> Array:
        """d/df of v · curvature(f): how a row's share of tr(A⁻¹H) moves with its score."""
        return -v * self.third(y, f)

    def information(self, f: Array) -> Array:
        r"""Fisher information about f: the curvature expected over y, which is never negative.

        .. math:: I(f) = \textstyle\sum_y p(y \mid f) \, (d \log p(y \mid f) / df)^2
        """
        return sum_over_labels(lambda y: self._weighed(y, f).grad ** 2)

    def information_slope(self, f: Array) -> Array:
        r"""d/df of the Fisher information; asked for by the Jeffreys prior.

        .. math:: I'(f) = \textstyle\sum_y p(y \mid f) \, g_y (g_y^2 - 2 c_y)

        with the gradient g and the curvature c of log p(y | f).
        """

        def share(y: Array) -> Array:
            root, grad, curvature = self._weighed(y, f)
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = np.where(root > 0, grad / root, 0.0)
            return np.asarray(grad**2 * slope - 2 * grad * curvature)

        return sum_over_labels(share)

    def _transition(self) -> Transition:
        return Transition(self.center, self.width, self.refinement)

    def _factor(self) -> Factor:
        return Factor(self.log_prob, self._transition(), self.two_labels)

    def _weighed(self, y: Array, f: Array) -> Expansion:
        """√p(y | f), and slope and curvature times that; zero where it is, for their own squares may overflow there."""
        root = np.exp(0.5 * self.log_prob(y, f))
        grad, curvature = (np.where(root > 0, part, 0.0) for part in self.slopes(y, f))
        return Expansion(root, root * grad, root * curvature)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def sum_over_labels(share: Callable[[Array], Array]) -> Array:
    """A function of the label, summed over both labels."""
    return np.asarray(share(np.array(0.0)) + share(np.array(1.0)))
