r"""How far updates have carried a posterior from the one of all rows together.

Notation
--------
====  =====================================================================  =======
m_b   mean after batch b; Λ_b the precision there                            (M,)
p_b   pull: E_q[∇ log p(y_b | x)] - ∇ log p(y_b | m_b), q = N(m_b, Λ_b⁻¹)     (M,)
====  =====================================================================  =======

A batch is remembered by its quadratic at m_b. Where later batches move the mean by Δ, its gradient is off by
½ Σ ℓ''' (zᵀΔ)² z, and Δ is as large as the posterior was wide: (zᵀΔ)² is about the variance of the row's score, and
the error about p_b. What all earlier batches lack, divided by the precision now, is the distance between the updated
mean and that of one fit to all rows.
"""

from typing import NamedTuple

import numpy as np

from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.fit import LinearFit
from credibly.inference.linear.glm import averages_exist
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.spec import Data
from credibly.numerics.arrays import Array

FAR = 0.15  # posterior standard deviations; mostly the estimate is one to two times the distance
SURPRISING = 4.0  # times the squared move that the posterior before the batch expected


class Drift(NamedTuple):
    """What the quadratics of all batches lack, and what that has come to."""

    pull: Array  # Σ p_b, (M,)
    surprise: float = 1.0  # the largest squared move beside the expected one; 1 where that is usual
    estimate: float = 0.0  # largest distance of a mean from that of one fit to all rows, in sds
    told: bool = False  # whether that was large before

    @property
    def far(self) -> bool:
        """True where the posterior may be far from that of one fit to all rows."""
        return self.estimate > FAR or self.surprise > SURPRISING

    @property
    def news(self) -> str | None:
        """What to tell a user, the first time that there is something to tell."""
        if not self.far or self.told:
            return None
        how = f"the posterior mean is some {self.estimate:.2g} standard deviations from what that would give"
        if self.surprise > SURPRISING:
            how = (
                "a batch moved it far beyond what the rows before it left open, and a Gaussian does not remember them "
                "so far out"
            )
        return (
            f"partial_fit has drifted from one fit to all rows: {how}. Use larger batches, and shuffle the rows. "
            "(drift_ has an estimate.)"
        )


def first_drift(fit: LinearFit, data: Data) -> Drift:
    """After the first batch: nothing has moved yet."""
    return Drift(_pull(fit, data))


def next_drift(drift: Drift, before: LinearFit, after: LinearFit, data: Data) -> Drift:
    """After another batch, which took the posterior from one fit to the next."""
    q, old = after.posterior.free, before.posterior.free
    surprise = max(drift.surprise, _surprise(old, q))
    lost = np.abs(q.precision.solve(drift.pull)) / np.sqrt((q.root**2).sum(axis=0))
    return Drift(drift.pull + _pull(after, data), surprise, float(lost.max()), drift.told or drift.far)


def _pull(fit: LinearFit, data: Data) -> Array:
    q = fit.posterior.free
    if fit.rung != "laplace" or not averages_exist(fit.likelihood):
        return np.zeros_like(q.mean)  # averages over q are in the quadratic already
    objective = Objective(data.rows, fit.posterior.design, fit.likelihood, None)
    return objective.averages(q).gradient + objective.gradient(q.mean)


def _surprise(before: Gaussian, after: Gaussian) -> float:
    """How much larger the squared move of the mean is than the posterior before it expected; 1 where that is usual."""
    step = before.precision.factor.T @ (after.mean - before.mean)
    kept = after.precision.half_solve(before.precision.factor)
    expected = step.size - float((kept**2).sum())
    ratio = float(step @ step) / expected if expected > 0 else 1.0
    return ratio if ratio > SURPRISING else 1.0
