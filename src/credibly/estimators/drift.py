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
from credibly.estimators.problem import Problem
from credibly.inference.evidence import curvature_slope_sum
from credibly.inference.posterior import Gaussian
from credibly.numerics.arrays import Array

FAR = 0.15  # posterior standard deviations; mostly the estimate is one to two times the distance
SURPRISING = 4.0  # times the squared move that the posterior before the batch expected


class Drift(NamedTuple):
    """What the quadratics of earlier batches lack."""

    pull: Array  # (M,), a gradient
    estimate: float = 0.0  # largest distance from one fit to all rows, in posterior standard deviations

    @classmethod
    def of(cls, problem: Problem, posterior: Gaussian) -> Drift:
        """After the first batch: nothing has moved yet."""
        return cls(-0.5 * curvature_slope_sum(problem.likelihood, problem.rows, posterior))

    def after(self, problem: Problem, before: Gaussian, posterior: Gaussian) -> Drift:
        """After another batch, which took the posterior from `before` to `posterior`."""
        pull = self.pull * _surprise(before, posterior)
        lost = np.abs(posterior.precision.solve(pull)) / np.sqrt(posterior.precision.inverse_diagonal())
        own = -0.5 * curvature_slope_sum(problem.likelihood, problem.rows, posterior)
        return Drift(pull + own, float(lost.max()))

    def tell(self, earlier: float) -> None:
        """Warn when the estimate has become large."""
        if self.estimate > FAR >= earlier:
            warnings.warn(
                f"partial_fit has drifted: the posterior mean is some {self.estimate:.2g} standard deviations from "
                "what one fit to all rows would give (drift_ has the number). Use larger batches, shuffle the rows, or "
                "use inference='ep'.",
                UnreliableWarning,
                stacklevel=5,
            )


def _surprise(before: Gaussian, after: Gaussian) -> float:
    """How much larger the squared move of the mode is than the posterior before it expected; 1 where that is usual."""
    step = before.precision.factor.T @ (after.mean - before.mean)
    kept = after.precision.half_solve(before.precision.factor)
    expected = step.size - float((kept**2).sum())
    ratio = float(step @ step) / expected if expected > 0 else 1.0
    return ratio if ratio > SURPRISING else 1.0
