"""Inducing points that move: a few steps uphill in the evidence, together with the hyperparameters.

Notation
--------
====  =====================================================================================  ======
θ     natural logs of the free hyperparameters                                               (p,)
Z     inducing points                                                                        (m, d)
====  =====================================================================================  ======
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from credibly.errors import NotPositiveDefinite
from credibly.inference.inducing_evidence import InducingEvidence
from credibly.inference.inducing_search import Learnt
from credibly.inference.kernel_evidence import FORBIDDEN, Evaluated, Progress
from credibly.numerics.arrays import Array
from credibly.numerics.status import Controls, silent

MOST_STEPS = 10  # of L-BFGS: each costs about a search step on all rows
PAIRS = 20


class Place(NamedTuple):
    """Hyperparameters and points, the penalised evidence there, and its slope in both."""

    where: Array  # θ, and Z in spreads of the columns
    height: float
    slope: Array
    evidence: InducingEvidence
    at: Evaluated


class Moves(NamedTuple):
    """Steps of hyperparameters and points together.

    Points are measured in standard deviations of their columns, so that a step of one is of the size of an e-fold of a
    hyperparameter.
    """

    bounds: Array
    controls: Controls
    progress: Progress

    def learn(self, start: Learnt) -> Learnt:
        """The best place of a few steps of L-BFGS; never below the start."""
        evidence, theta = start.evidence, start.at.theta
        spread = evidence.X.std(axis=0)
        unit = np.where(spread > 0, spread, 1.0)
        p, points = len(theta), evidence.points
        search = Controls(max(self.controls.tol, evidence.search_tol), self.controls.max_steps, silent)
        count = 0

        def look(where: Array, warm: Array | None) -> Place:
            nonlocal count
            there = replace(evidence, points=where[p:].reshape(points.shape) * unit)
            at = there.at(where[:p], warm, search)
            by_theta, by_points = there.gradient_with_points(at)
            slope = np.append(by_theta + there.log_prior_gradient(where[:p]), by_points * unit)
            place = Place(where.copy(), at.result.log_evidence + there.log_prior(where[:p]), slope, there, at)
            self.progress(count, place.height, float(np.abs(slope).max(initial=0.0)))
            count += 1
            return place

        first = look(np.append(theta, points / unit), start.at.result.warm)
        free = [(None, None)] * points.size
        best = _climbed(look, first, [*map(tuple, self.bounds.tolist()), *free])
        if best is first:
            return start
        at = best.evidence.refined(best.at, self.controls)
        good = at.result.status.good
        return Learnt(at, start.status if good else at.result.status, best.evidence)


def _climbed(look: Any, first: Place, bounds: list[Any]) -> Place:
    """The highest of the places that L-BFGS looks at."""
    best = first
    # With bounds L-BFGS first steps as far as the gradient is long: in these units one at most.
    unit = max(1.0, float(np.abs(first.slope).max(initial=0.0)))

    def objective(where: Array) -> tuple[float, Array]:
        nonlocal best
        try:
            here = first if np.array_equal(where, first.where) else look(where, best.at.result.warm)
        except NotPositiveDefinite:  # so far out that kernel values overflow: step back
            return (FORBIDDEN - best.height) / unit, np.zeros_like(where)
        best = here if here.height > best.height else best
        return -here.height / unit, -here.slope / unit

    options: Any = {"maxiter": MOST_STEPS, "maxcor": PAIRS}
    minimize(objective, first.where, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return best
