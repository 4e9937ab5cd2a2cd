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
from functools import partial, singledispatch

import numpy as np

from credibly.data.rows import Block, Sums, add
from credibly.errors import NotPositiveDefinite
from credibly.inference.contrasts import Contrast
from credibly.inference.laplace import Controls, laplace
from credibly.inference.objective import Objective, expected_information, row_slopes, score, scores
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.inference.several_starts import near_rows_only
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import newton
from credibly.numerics.settings import COSTS
from credibly.numerics.status import Local, Solution

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
        """Value, gradient and Fisher information at x: two passes over the rows."""
        likelihood, rows, chain = self.objective.likelihood, self.objective.rows, self.objective.chain
        W = chain.weights(x)
        log_likelihood, gradient, total = rows.sum(partial(_sums, likelihood=likelihood, W=W), add)
        fisher = PSD.of(chain.free_both(np.asarray(total)), "the Fisher information")
        spread = Gaussian(x, fisher)
        moved = rows.sum(lambda block: (score(block.X, _slopes(likelihood, block, W, spread, chain)),), add)[0]
        return Local(
            value=-float(log_likelihood) - 0.5 * fisher.logdet,
            grad=-chain.free(np.asarray(gradient) + 0.5 * np.asarray(moved)),
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


def jeffreys(objective: Objective, start: Array, controls: Controls = Controls()) -> InferenceResult:
    """The mode under the Jeffreys prior, with the inverse Fisher information as covariance, as `logistf` reports it.

    There is no evidence: the prior is known only up to a constant that depends on the rows.

    References
    ----------
    Firth 1993; Kosmidis & Firth 2021 for finiteness.
    """
    penalised = PenalisedObjective(objective)
    starts = [start, *_steeper_starts(objective, start, controls)]
    found = [_search(penalised, point, controls) for point in starts]
    solution = min(found, key=lambda ended: (not ended.status.good, ended.local.value))
    fisher = penalised.expand(solution.x).hessian
    posterior = Gaussian(solution.x, fisher)
    log_likelihood = -solution.local.value - 0.5 * fisher.logdet
    return InferenceResult(posterior, np.nan, log_likelihood, solution)


def _steeper_starts(objective: Objective, start: Array, controls: Controls) -> list[Array]:
    """Other places to start from: the penalised likelihood may have several modes, above all with outlying rows.

    Modes under a weak normal prior on the standardised columns, of all rows and with outlying ones given little weight.
    """
    if objective.rows.n_rows * start.size >= COSTS.single_mode_numbers:
        return []
    prior = Gaussian(np.zeros_like(start), PSD.diagonal(np.full(start.size, WEAK_SCALE**-2.0)))
    points = []
    for rows in (objective, near_rows_only(objective)):
        try:
            points.append(laplace(replace(rows, prior=prior), start, controls).posterior.mean)
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


def _sums(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    slopes = row_slopes(likelihood, block, W)
    return float(slopes.log_prob.sum()), score(block.X, slopes.grad), expected_information(likelihood, block, W)


@singledispatch
def _slopes(likelihood: AnyLikelihood, rows: Block, W: Array, spread: Gaussian, chain: Contrast) -> Array:
    """d tr(I⁻¹ I(f))/df for every row and score, I⁻¹ held still."""
    raise TypeError(f"no Jeffreys prior is known for {likelihood!r}")


@_slopes.register
def _(likelihood: Likelihood, rows: Block, W: Array, spread: Gaussian, chain: Contrast) -> Array:
    slopes = likelihood.information_slope(scores(rows, W)) * spread.scores(rows.X).variance
    return slopes if rows.weight is None else slopes * rows.weight


@_slopes.register
def _(likelihood: Categorical, rows: Block, W: Array, spread: Gaussian, chain: Contrast) -> Array:
    V = spread.class_scores(rows.X, chain.contrast).variance
    slopes = likelihood.curvature_slope(likelihood.mean(np.asarray(rows.X @ W.T)), V)
    return slopes if rows.weight is None else slopes * rows.weight[:, None]
