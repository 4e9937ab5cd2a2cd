"""What an approximation is compared with: a log posterior, up to the evidence, at many points."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from credibly.inference.flips import FlipBelief
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.objective import Objective
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.arrays import Array


class Target(Protocol):
    """A posterior up to its evidence, and the Gaussian that stands for it."""

    @property
    def q(self) -> Gaussian:
        """The approximation."""

    def log_joints(self, x: Array) -> Array:
        """log p(y, x) at points x (S, M): (S,)."""


@dataclass(frozen=True)
class WeightTarget:
    """The posterior of the free weights of a linear model.

    Parameters
    ----------
    objective : Objective
        With a prior that is a distribution.
    q : Gaussian
        Over its free weights.
    """

    objective: Objective
    q: Gaussian

    def log_joints(self, x: Array) -> Array:
        """log p(y, x), (S,): one pass over the rows."""
        prior = self.objective.prior
        assert prior is not None
        return self.objective.log_likelihoods(x) + prior.logpdf(x)


@dataclass(frozen=True)
class FlipTarget:
    """The posterior of the free weights and of the logits of flip probabilities together.

    Parameters
    ----------
    objective : Objective
        At some flip probabilities.
    belief : FlipBelief
    q : Gaussian
        Over free weights, then logits.
    """

    objective: Objective
    belief: FlipBelief
    q: Gaussian

    def log_joints(self, x: Array) -> Array:
        """log p(y, x, θ), (S,): a pass over the rows for each point, as each has a likelihood of its own."""
        weights, theta = x[:, : -self.belief.n_free], x[:, -self.belief.n_free :]
        prior, likelihood = self.objective.prior, self.objective.likelihood
        assert prior is not None and isinstance(likelihood, LabelNoise | NoisyCategorical)
        flips = [np.resize(self.belief.flips(it), likelihood.flips.shape) for it in theta]
        each = [replace(self.objective, likelihood=likelihood.with_flips(it)) for it in flips]
        log_likelihood = [it.log_likelihood(w) for it, w in zip(each, weights, strict=True)]
        return np.array(log_likelihood) + prior.logpdf(weights) + [self.belief.log_density(it) for it in theta]
