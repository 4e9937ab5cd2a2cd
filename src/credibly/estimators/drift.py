r"""How far updates have carried a posterior from the one of all rows together.

Notation
--------
====  =====================================================================  =======
m_b   mode after batch b; Λ_b the precision there                            (M,)
v     variance zᵀΛ_b⁻¹z of a row's score then                                (n,)
====  =====================================================================  =======

A batch is remembered by its quadratic at m_b. Where later batches move the mode by Δ, its gradient is off by
½ Σ ℓ''' (zᵀΔ)² z, and Δ is as large as the posterior was wide: (zᵀΔ)² is about v. What all earlier batches lack,
divided by the precision now, is the distance between the updated mode and that of one fit to all rows.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from credibly.errors import UnreliableWarning
from credibly.estimators.learning import objective_of
from credibly.estimators.problem import Problem
from credibly.inference.evidence import curvature_slope_sum
from credibly.inference.posterior import Gaussian
from credibly.inference.prior_density import PriorDensity
from credibly.inference.targets import WeightTarget
from credibly.numerics.arrays import Array

FAR = 0.15  # posterior standard deviations; mostly the estimate is one to two times the distance
SURPRISING = 4.0  # times the squared move that the posterior before the batch expected
FAR_POINT = 2.0  # posterior standard deviations, where a batch is compared with its quadratic
ROUGH = 1.0  # nats of difference there: the quadratic remembers something else


class Drift(NamedTuple):
    """What the quadratics of earlier batches lack."""

    pull: Array  # (M,), a gradient
    rough: bool  # whether one of them, or the last batch, was no quadratic at all
    left_rough: bool = False  # whether one of them was
    surprise: float = 1.0  # the largest so far
    estimate: float = 0.0  # largest distance from one fit to all rows, in posterior standard deviations
    told: bool = False  # whether that was large before

    @classmethod
    def of(cls, problem: Problem, prior: PriorDensity | None, posterior: Gaussian) -> Drift:
        """After the first batch: nothing has moved yet."""
        return cls(_lost_pull(problem, posterior), _is_rough(problem, prior, posterior))

    def after(self, problem: Problem, before: Gaussian, posterior: Gaussian) -> Drift:
        """After another batch, which took the posterior from `before` to `posterior`."""
        surprise = max(self.surprise, _surprise(before, posterior))
        lost = np.abs(posterior.precision.solve(self.pull)) / np.sqrt(posterior.precision.inverse_diagonal())
        return Drift(
            pull=self.pull + _lost_pull(problem, posterior),
            rough=self.rough or _is_rough(problem, before, posterior),
            left_rough=self.rough,
            surprise=surprise,
            estimate=surprise * float(lost.max()),
            told=self.told or self.far,
        )

    @property
    def far(self) -> bool:
        """Whether the posterior may be far from that of one fit to all rows."""
        return self.estimate > FAR or self.left_rough

    def tell(self) -> None:
        """Warn, once."""
        if not self.far or self.told:
            return
        how = f"the posterior mean is some {self.estimate:.2g} standard deviations from what that would give"
        if self.left_rough:
            how = "a batch was far from what a Gaussian can remember (one class only, or nearly separated)"
        warnings.warn(
            f"partial_fit has drifted from one fit to all rows: {how}. Use larger batches, and shuffle the rows; on "
            "shuffled ones inference='ep' drifts less. (drift_ has the estimate.)",
            UnreliableWarning,
            stacklevel=5,
        )


def _lost_pull(problem: Problem, posterior: Gaussian) -> Array:
    """½ Σ ∂³ℓ v z."""
    return -0.5 * curvature_slope_sum(problem.likelihood, problem.rows, posterior)


def _is_rough(problem: Problem, prior: PriorDensity | None, posterior: Gaussian) -> bool:
    """Whether the log posterior is far from its quadratic two standard deviations along some direction."""
    objective = objective_of(problem, prior, np.eye(problem.shape.n_outputs))
    target = WeightTarget(objective, posterior)
    steps = FAR_POINT * posterior.precision.inverse_root  # rows are uncorrelated directions of that length
    here = target.log_likelihood + objective.log_prior(posterior.mean)
    difference = target.log_joints(steps) - here + 0.5 * FAR_POINT**2
    return not bool(np.abs(difference).max() < ROUGH)


def _surprise(before: Gaussian, after: Gaussian) -> float:
    """How much larger the squared move of the mode is than the posterior before it expected; 1 where that is usual."""
    step = before.precision.factor.T @ (after.mean - before.mean)
    kept = after.precision.half_solve(before.precision.factor)
    expected = step.size - float((kept**2).sum())
    ratio = float(step @ step) / expected if expected > 0 else 1.0
    return ratio if ratio > SURPRISING else 1.0
