r"""How far updates have carried a posterior from the one of all rows together.

Notation
--------
====  =====================================================================  =======
m_b   mean after batch b; Λ_b the precision there                            (M,)
p_b   pull: E_q[∇ log p(y_b | x)] - ∇ log p(y_b | m_b), q = N(m_b, Λ_b⁻¹)     (M,)
P     Σ p_b over batches that Laplace remembers                              (M,)
S     Σ p_b p_bᵀ over batches that averages remember                         (M, M)
====  =====================================================================  =======

A batch is remembered by a quadratic. Where later batches move the mean by Δ, its gradient at m_b + Δ is off by
½ Σ ℓ''' (zᵀΔ)² z, and Δ is as large as the posterior was wide: (zᵀΔ)² is about the variance of the row's score, and
the error about p_b. Laplace lacks all of it, always on the same side. An average over q has the expected part, and
lacks what (zᵀΔ)² differs from it: about as much, but on either side, so that batches add up like random numbers. What
all earlier batches lack, divided by the precision now, is the distance between the updated mean and that of one fit to
all rows.
"""

from typing import NamedTuple

import numpy as np

from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.fit import FILTERS, LinearFit
from credibly.inference.linear.glm import averages_exist
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.posterior import WeightPosterior
from credibly.inference.linear.spec import Data
from credibly.numerics.arrays import Array

FAR = 0.15  # posterior standard deviations; mostly the estimate is one to two times the distance
SURPRISING = 4.0  # times the squared move that the posterior before the batch expected


class Drift(NamedTuple):
    """What the quadratics of all batches lack, and what that has come to."""

    pull: Array  # P, (M,)
    spread: Array  # S, (M, M)
    surprise: float = 1.0  # the largest squared move beside the expected one; 1 where that is usual
    estimate: float = 0.0  # largest distance of a mean from that of one fit to all rows, in sds; NaN where unknown
    told: bool = False  # whether that was large before

    @property
    def far(self) -> bool:
        """True where the posterior may be far from that of one fit to all rows."""
        return self.estimate > FAR or (np.isnan(self.estimate) and self.surprise > SURPRISING)

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

    def and_more(self, fit: LinearFit, data: Data) -> "Drift":
        """With the batch that took the posterior to this fit; a filter's rows are learnt the same in parts."""
        if fit.rung in FILTERS:
            return self
        pull = _pull(fit, data)
        if fit.rung == "laplace":
            return self._replace(pull=self.pull + pull)
        return self._replace(spread=self.spread + np.outer(pull, pull))


def first_drift(fit: LinearFit, data: Data) -> Drift:
    """After the first batch: nothing has moved yet."""
    M = fit.posterior.free.mean.size
    return Drift(np.zeros(M), np.zeros((M, M))).and_more(fit, data)


def next_drift(drift: Drift, before: LinearFit, after: LinearFit, data: Data) -> Drift:
    """After another batch, which took the posterior from one fit to the next."""
    drift, old = _in_coordinates_of(after.posterior, drift, before.posterior)
    q = after.posterior.free
    surprise = max(drift.surprise, _surprise(old, q))
    lost = q.precision.solve(drift.pull)
    scattered = np.diag(q.precision.solve(q.precision.solve(drift.spread).T))
    estimate = surprise * float(np.sqrt((lost**2 + scattered) / (q.root**2).sum(axis=0)).max())
    return drift._replace(surprise=surprise, estimate=estimate, told=drift.told or drift.far).and_more(after, data)


def _in_coordinates_of(after: WeightPosterior, drift: Drift, before: WeightPosterior) -> tuple[Drift, Gaussian]:
    """Drift and posterior before a batch, in a space of few rows that has grown with it."""
    larger, smaller, old = after.row_space, before.row_space, before.free
    if larger is None or smaller is None or larger.rank == smaller.rank:
        return drift, old
    at, size = larger.places_of(smaller, old.mean.size), after.free.mean.size
    pull, spread = np.zeros(size), np.zeros((size, size))
    pull[at], spread[np.ix_(at, at)] = drift.pull, drift.spread
    return drift._replace(pull=pull, spread=spread), larger.embed(old, smaller)


def _pull(fit: LinearFit, data: Data) -> Array:
    q = fit.posterior.free
    if not averages_exist(fit.likelihood):
        return np.full_like(q.mean, np.nan)
    objective = Objective(data.rows, fit.posterior.design, fit.likelihood, None)
    return objective.averages(q).gradient + objective.gradient(q.mean)


def _surprise(before: Gaussian, after: Gaussian) -> float:
    """How much larger the squared move of the mean is than the posterior before it expected; 1 where that is usual."""
    step = before.precision.factor.T @ (after.mean - before.mean)
    kept = after.precision.half_solve(before.precision.factor)
    expected = step.size - float((kept**2).sum())
    ratio = float(step @ step) / expected if expected > 0 else 1.0
    return ratio if ratio > SURPRISING else 1.0
