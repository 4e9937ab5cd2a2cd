"""The check of `inference="auto"`: how far averaging over Laplace's Gaussian would move it.

At the mode the gradient is zero; averaged over the Gaussian q it is not, unless the posterior is symmetric, and the
averaged curvature is not that of the mode. Both in one pass: they say how far a mean would move and a width change if
one more step were taken, and a second pass says what that does to the probabilities of the rows. Where rows are many,
a sample of them tells (the differences between averages and values at the mode vary little from row to row).
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from credibly.data.rows import Block
from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.objective import DataGaussian, Objective, class_scores, scores
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood, true_likelihood
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.softmax_averages import FEW_POINTS

# What is said to users: how far averaging may move what Laplace says.
MOST_SHIFT = 0.1  # of a mean, in standard deviations
MOST_WIDENING = 0.1  # of a standard deviation, relative
MOST_CHANGE = 0.01  # of an averaged probability of a training row

SAMPLED_ROWS = 4_000  # of many: the error of what they say is a sixtieth of the spread of one row's share


class Check(NamedTuple):
    """How far one step of averaging moves a Gaussian."""

    shift: float  # largest change of a mean, in standard deviations
    widening: float  # largest relative change of a standard deviation
    change: float  # largest change of an averaged probability of a row; 0 where targets are no labels

    @property
    def holds(self) -> bool:
        """Whether the approximation may stay."""
        return self.shift <= MOST_SHIFT and self.widening <= MOST_WIDENING and self.change <= MOST_CHANGE


NEVER = Check(np.inf, np.inf, np.inf)


def checked(objective: Objective, found: Approximation) -> Check:
    """How far averaging over Laplace's Gaussian would move it."""
    rows, q = objective.rows, found.q
    if rows.n_rows > 2 * SAMPLED_ROWS:
        objective = objective.sample(np.random.default_rng(0), SAMPLED_ROWS)
    at_mode, averaged = objective.expand(q.mean), objective.averages(q, FEW_POINTS)
    prior = objective.expected_prior(q)
    # Differences: what the sample says of all rows at the mode itself is noise that both have.
    gradient = averaged.gradient - prior.gradient + at_mode.grad
    curvature = averaged.information + prior.hessian - at_mode.hessian.matrix
    try:
        precision = PSD.of(q.precision.matrix + curvature, "the averaged curvature")
    except NotPositiveDefinite:
        return NEVER
    moved = Gaussian(q.mean + precision.solve(gradient), precision)
    before, after = ((it.root**2).sum(axis=0) ** 0.5 for it in (q, moved))
    shift = float((np.abs(moved.mean - q.mean) / before).max())
    widening = float(np.abs(after / before - 1).max())
    if shift > MOST_SHIFT or widening > MOST_WIDENING:
        return Check(shift, widening, np.inf)
    return Check(shift, widening, largest_change(objective, q, moved))


def largest_change(objective: Objective, q: Gaussian, other: Gaussian) -> float:
    """The largest difference between averaged probabilities of a row under two Gaussians over the weights."""
    likelihood = true_likelihood(objective.likelihood)
    if isinstance(likelihood, Likelihood) and not likelihood.two_labels:
        return 0.0
    pair = objective.in_data_units(q), objective.in_data_units(other)
    return float(objective.raw[0].sum(partial(_change, likelihood=likelihood, pair=pair), max))


def _change(block: Block, likelihood: AnyLikelihood, pair: tuple[DataGaussian, DataGaussian]) -> float:
    rows = block.counted
    if not len(rows.y):
        return 0.0
    one, other = (_probabilities(rows, likelihood, at) for at in pair)
    return float(np.abs(one - other).max())


def _probabilities(rows: Block, likelihood: AnyLikelihood, at: DataGaussian) -> Array:
    if isinstance(likelihood, Likelihood):
        return np.exp(likelihood.label_averages(scores(rows, at.mean), at.variance(rows.X))[1])
    assert isinstance(likelihood, Categorical)
    return np.exp(likelihood.log_average(class_scores(rows.X, at.mean), at.class_covariance(rows.X)))
