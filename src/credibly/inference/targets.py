"""Posteriors to be compared with a Gaussian q: their log density at many draws, two at a time.

Notation
--------
====  ==================================================================  ========
m     mean of q                                                           (M,)
h     steps from it, so that draws are m + h and m - h                    (S, M)
f     scores of the rows; linear in the weights, so f(m ± h) = f ± δ      (n,)
====  ==================================================================  ========
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from credibly.data.rows import Block, Rows, add
from credibly.inference.label_noise import JointObjective
from credibly.inference.objective import Objective
from credibly.inference.posterior import Gaussian
from credibly.inference.prior_density import PriorDensity
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.numerics.arrays import AnyArray, Array

CACHED_SCORES = 16_384  # scores of one block held at a time: with their temporaries they fit the cache


class Target(Protocol):
    """A posterior up to its evidence, and a Gaussian that stands for it."""

    @property
    def q(self) -> Gaussian:
        """The approximation."""

    def log_joints(self, steps: Array) -> Array:
        """log p(y, m ± h), (2, S), for steps h (S, M)."""

    @property
    def log_likelihood(self) -> float:
        """log p(y | m), by which the data of a fit are known again."""


@dataclass(frozen=True)
class WeightTarget:
    """The posterior of the weights of a linear model.

    Parameters
    ----------
    objective : Objective
        With a proper prior.
    q : Gaussian
        Over its free weights.
    log_constant : float
        What the log likelihood lacks.
    """

    objective: Objective
    q: Gaussian
    log_constant: float = 0.0

    def log_joints(self, steps: Array) -> Array:
        """log p(y, m ± h), (2, S): one pass over the rows."""
        prior = self.objective.prior
        assert prior is not None
        W, V = self._vectors(steps)
        log_likelihood = log_likelihoods(self.objective.likelihood, self.objective.rows, W, V)
        return log_likelihood + both(prior, self.q.mean, steps) + self.log_constant

    @property
    def log_likelihood(self) -> float:
        """log p(y | m)."""
        W, V = self._vectors(np.zeros((1, self.q.mean.size)))
        objective = self.objective
        return float(log_likelihoods(objective.likelihood, objective.rows, W, V)[0, 0]) + self.log_constant

    def _vectors(self, steps: Array) -> tuple[Array, Array]:
        """The mean and the steps as one weight vector for each class, (K, D) and (S, K, D)."""
        chain = self.objective.chain
        return chain.weights(self.q.mean), chain.weights(steps)


@dataclass(frozen=True)
class NoiseTarget:
    """The posterior of the weights and of the flip probabilities' logits together.

    Parameters
    ----------
    joint : JointObjective
    q : Gaussian
        Over free weights x, then logits θ.
    """

    joint: JointObjective
    q: Gaussian

    def log_joints(self, steps: Array) -> Array:
        """log p(y, m ± h), (2, S)."""
        x, theta = self.joint.split(self.q.mean)
        by_x, by_theta = steps[:, : x.size], steps[:, x.size :]
        prior, belief = self.joint.objective.prior, self.joint.belief
        assert prior is not None
        log_belief = [[belief.log_density(theta + sign * step) for step in by_theta] for sign in (1.0, -1.0)]
        return np.asarray(self._log_likelihoods(steps) + both(prior, x, by_x) + np.array(log_belief))

    @property
    def log_likelihood(self) -> float:
        """log p(y | m)."""
        return float(self._log_likelihoods(np.zeros((1, self.q.mean.size)))[0, 0])

    def _log_likelihoods(self, steps: Array) -> Array:
        objective = self.joint.objective
        x, theta = self.joint.split(self.q.mean)
        V = objective.chain.weights(steps[:, : x.size])

        def noisy(side: Side) -> list[AnyLikelihood]:
            sign = 1.0 if side.which == 0 else -1.0
            return [self.joint.at(theta + sign * step).likelihood for step in steps[side.draws, x.size :]]

        return log_likelihoods(noisy, objective.rows, objective.chain.weights(x), V)


def both(prior: PriorDensity, m: Array, steps: Array) -> Array:
    """log p(m ± h), (2, S)."""
    return np.stack([prior.logpdf(m + steps), prior.logpdf(m - steps)])


class Side(NamedTuple):
    """Some of the draws on one side of the mean."""

    which: int  # 0 for m + h, 1 for m - h
    draws: slice


DrawLikelihoods = Callable[[Side], list[AnyLikelihood]]  # where each draw has a likelihood of its own


def log_likelihoods(likelihood: AnyLikelihood | DrawLikelihoods, rows: Rows, W: Array, V: Array) -> Array:
    """log p(y | w) at W ± V, (2, S), summed over rows; W is (K, D), V (S, K, D)."""
    return np.asarray(rows.sum(partial(_block, likelihood=likelihood, W=W, V=V), add)[0])


def _block(block: Block, likelihood: AnyLikelihood | DrawLikelihoods, W: Array, V: Array) -> tuple[Array]:
    S, K, D = V.shape
    f = np.asarray(block.X @ W.T)
    if block.offset is not None:
        f = f + block.offset[:, None]
    total = np.empty((2, S))
    some = max(1, CACHED_SCORES // (len(f) * K))
    for start in range(0, S, some):
        part = slice(start, min(start + some, S))
        delta = np.asarray(block.X @ V[part].reshape(-1, D).T).reshape(len(f), -1, K).swapaxes(0, 1)
        for which, shifted in enumerate((f + delta, f - delta)):  # (draws, rows, K)
            if callable(likelihood):
                each = zip(likelihood(Side(which, part)), shifted, strict=True)
                log_prob = np.stack([row_log_prob(own, block.y, f_own) for own, f_own in each])
            else:
                log_prob = row_log_prob(likelihood, block.y, shifted)
            total[which, part] = log_prob.sum(axis=1) if block.weight is None else log_prob @ block.weight
    return (total,)


def row_log_prob(likelihood: AnyLikelihood, y: AnyArray, f: Array) -> Array:
    """log p(y | f) for scores (…, n, K) of any likelihood: (…, n)."""
    if isinstance(likelihood, Likelihood):
        with np.errstate(all="ignore"):  # a draw so far out that it overflows tells so by its ratio
            return likelihood.log_prob(y, f[..., 0])
    y = np.broadcast_to(y, f.shape[:-1])
    if isinstance(likelihood, NoisyCategorical):
        return likelihood.expand(y, f).log_prob
    assert isinstance(likelihood, Categorical)
    return likelihood.log_prob(y, f)
