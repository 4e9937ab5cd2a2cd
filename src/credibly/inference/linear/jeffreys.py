"""The Jeffreys prior: half the log determinant of the Fisher information joins the log likelihood (Firth 1993).

Notation
--------
====  =====================================================================  ==========
x     free weights                                                           (M,)
I     Fisher information at x                                                (M, M)
v     variance of a row's score when x has covariance I⁻¹ (its leverage      (n,)
      over its own information)
====  =====================================================================  ==========
"""

from dataclasses import dataclass, replace

import numpy as np

from credibly.data.rows import Block, Sums
from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.hyper import mode_slope
from credibly.inference.linear.laplace import laplace
from credibly.inference.linear.objective import Objective, by_weights, scores
from credibly.inference.linear.several_starts import near_rows_only, one_search
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import newton
from credibly.numerics.status import CONTROLS, Controls, Local, Solution

SCORING_STEPS = 60
MOST_DIFFERENCES = 60  # weights for which a Hessian by differences is worth its passes
DIFFERENCE = 1e-4  # standard deviations: truncation 1e-8, rounding 1e-12 of a gradient of order one
WEAK_SCALE = 10.0


@dataclass(frozen=True)
class PenalisedObjective:
    r"""Minus log p(y | x) - ½ log det I(x), for a flat `objective`.

    .. math:: ∂/∂x_j \; \tfrac12 \log \det I = \tfrac12 \textstyle\sum_n I'(f_n) \, v_n \, z_{nj}

    The Fisher information stands in for the Hessian, so steps are those of Fisher scoring.
    """

    objective: Objective

    def expand(self, x: Array) -> Local:
        """Value, gradient and Fisher information at x: three passes over the rows."""
        objective = self.objective
        fisher = PSD.of(objective.expected_information(x), "the Fisher information")
        return Local(
            value=-objective.log_likelihood(x) - 0.5 * fisher.logdet,
            grad=objective.gradient(x) - 0.5 * _information_slope(objective, Gaussian(x, fisher)),
            hessian=fisher,
            exact=False,
        )

    def expand_by_differences(self, x: Array) -> Local:
        """The same with the Hessian of the penalised likelihood, by central differences of its gradient."""
        here = self.expand(x)
        steps = DIFFERENCE * here.hessian.inverse_root.T  # columns: one standard deviation in independent directions
        rises = np.array([self.expand(x + h).grad - self.expand(x - h).grad for h in steps.T]) / (2 * DIFFERENCE)
        # In those directions the Fisher information is the identity; back from them by L on both sides.
        L, H = here.hessian.factor, rises @ here.hessian.inverse_root.T
        try:
            inner = PSD.of((H + H.T) / 2, "the penalised Hessian")
        except NotPositiveDefinite:
            return Local(here.value, here.grad, here.hessian, replaced=True, exact=False)
        return Local(here.value, here.grad, PSD(np.asfortranarray(L @ inner.factor)))


def jeffreys(objective: Objective, start: Array, controls: Controls = CONTROLS) -> Approximation:
    """The mode under the Jeffreys prior, with the inverse Fisher information as covariance, as `logistf` reports it.

    There is no evidence: the prior is known only up to a constant that depends on the rows.

    References
    ----------
    Firth 1993; Kosmidis & Firth 2021 for finiteness.
    """
    objective = objective.centred()
    penalised = PenalisedObjective(objective)
    starts = [start, *_steeper_starts(objective, start, controls)]
    found = [_search(penalised, point, controls) for point in starts]
    solution = min(found, key=lambda ended: (not ended.status.good, ended.local.value))
    fisher = penalised.expand(solution.x).hessian
    log_likelihood = -solution.local.value - 0.5 * fisher.logdet
    q = Gaussian(solution.x, fisher)
    return Approximation(q, np.nan, log_likelihood, solution.status, solution.steps, solution.decrement)


def _steeper_starts(objective: Objective, start: Array, controls: Controls) -> list[Array]:
    """Other places to start from: the penalised likelihood may have several modes, above all with outlying rows.

    Modes under a weak normal prior on the standardised columns, of all rows and with outlying ones given little weight.
    """
    if one_search(objective, start):
        return []
    prior = Gaussian(np.zeros_like(start), PSD.diagonal(np.full(start.size, WEAK_SCALE**-2.0)))
    points = []
    for rows in (objective, near_rows_only(objective)):
        try:
            points.append(laplace(replace(rows, prior=prior), start, controls).q.mean)
        except NotPositiveDefinite:  # a score without a mean, on the way of some family
            continue
    return points


def _search(penalised: PenalisedObjective, start: Array, controls: Controls) -> Solution:
    """Fisher scoring; where it is slow, Newton with a Hessian by differences from where it ended.

    A step of Newton's from δ² = tol leaves tol², one of Fisher scoring only a share of it: so it has to go on to tol².
    """
    first = newton(
        penalised.expand,
        start,
        tol=controls.tol**2,
        max_steps=min(controls.max_steps, SCORING_STEPS),
        report=controls.report,
    )
    if first.status.good or start.size > MOST_DIFFERENCES:
        return first
    return newton(
        penalised.expand_by_differences,
        first.x,
        tol=controls.tol,
        max_steps=controls.max_steps,
        report=controls.report,
    )


def _information_slope(objective: Objective, spread: Gaussian) -> Array:
    """d tr(I⁻¹ I(x))/dx with I⁻¹ held still; the softmax's information is its curvature."""
    likelihood = objective.likelihood
    if not isinstance(likelihood, Likelihood):
        return mode_slope(objective, spread)
    at = objective.in_data_units(spread)

    def block(part: Block) -> Sums:
        rows = part.counted
        slopes = likelihood.information_slope(scores(rows, at.mean)) * at.variance(rows.X)
        if rows.weight is not None:
            slopes = slopes * rows.weight
        return (by_weights(rows.X, slopes, intercept=at.intercept),)

    return objective.free(objective.raw[0].sum(block)[0])
