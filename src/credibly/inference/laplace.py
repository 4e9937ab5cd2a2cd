"""Laplace in weight space: the Gaussian at the posterior mode, with the curvature found there."""

from functools import partial
from typing import NamedTuple

import numpy as np

from credibly.data.rows import Block, MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference.objective import Objective
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, pivots_above
from credibly.numerics.newton import Local, Report, Solution, Start, Status, approach, newton, silent
from credibly.numerics.settings import SEARCH_COSTS, SearchCosts
from credibly.numerics.sgd import averaged_sweep

RANK = 1e-8  # of a weight's curvature that the weights before it must leave to it: rounding is some 1e-14
BATCH_ROWS = 64  # at most; fewer rows than that are one batch,
STEPS_PER_SWEEP = 16  # more are walked in about so many steps at least
NEAR = 1e-2  # squared decrement: a tenth of a posterior standard deviation


class Controls(NamedTuple):
    """When the search for the mode stops, and what it tells on the way."""

    tol: float = 1e-20
    max_steps: int = 100
    report: Report = silent


def laplace(
    objective: Objective,
    start: Array | Start,
    controls: Controls = Controls(),
    costs: SearchCosts = SEARCH_COSTS,
) -> InferenceResult:
    r"""Approximate the posterior by the Gaussian at its mode.

    .. math:: \log Z \approx \log p(y, \hat w) - \log q(\hat w)

    which is exact when the likelihood is Gaussian. Logistic, probit, softmax and every other likelihood, in memory
    and elsewhere. With a flat prior the Gaussian is that of the observed information, and there is no evidence.

    Parameters
    ----------
    objective : Objective
    start : (M,) array or Start
        Where Newton starts; with a matrix near the Hessian there, most steps ask for gradients only.
    controls : Controls

    References
    ----------
    PRML eq. 4.137, 4.142–4.144 (the determinant is of an M×M matrix and M counts weights, not rows: misprint E-38
    of docs/theory.md).
    """
    return result_at(objective, _search(objective, start, controls, costs))


def _search(objective: Objective, start: Array | Start, controls: Controls, costs: SearchCosts) -> Solution:
    tol, max_steps, report = controls
    if not isinstance(start, Start):
        confirm = objective.rows.n_rows * start.size**2 <= costs.confirmed_numbers
        return newton(objective.expand, start, tol=tol, max_steps=max_steps, confirm=confirm, report=report)
    near, last = costs.distances(start.nonlinearity, start.x.size, tol)
    search = partial(newton, objective.expand, tol=last, max_steps=max_steps, confirm=False, report=report)
    # Where rows have to be read in every pass, a gradient costs as much as a Hessian.
    in_memory = isinstance(objective.rows, MemoryRows)
    try:
        return search(approach(objective.gradient, start, tol=near) if in_memory else start.x)
    except NotPositiveDefinite:  # so far out that all curvature is rounded away, or has overflowed
        return search(start.fallback)


def result_at(objective: Objective, solution: Solution) -> InferenceResult:
    """The Laplace result at the point where a search ended."""
    posterior = Gaussian(solution.x, solution.local.hessian)
    log_joint = -solution.local.value
    flat = objective.prior is None
    return InferenceResult(
        posterior=posterior,
        log_evidence=np.nan if flat else float(log_joint - posterior.logpdf(solution.x)),
        log_likelihood=log_joint - objective.log_prior(solution.x),
        solution=solution,
    )


def sampled_start(objective: Objective, start: Array, costs: SearchCosts = SEARCH_COSTS) -> Start | Array:
    """A point near the mode, and a matrix near the Hessian there, from a sample of many rows; else a point to start at.

    The mode of a sample is some standard deviations away, and its Hessian some per cent off: gradients of all rows do
    the rest. Few rows, counts under a flat prior (zeros may be separated, and no loss tells) and what is not
    log-concave are left to Newton.
    """
    if not objective.log_concave or (objective.prior is None and not _has_labels(objective)):
        return start
    x = start
    for size in sample_sizes(objective, start.size, costs):
        rng = np.random.default_rng(0)  # the seed moves only the start, not the mode
        sample = objective.sample(rng, size)
        rough = _SampleSearch(sample.sample(rng, size // costs.first_share), objective.rows.n_rows, costs)
        rough.run(x)
        search = _SampleSearch(sample, objective.rows.n_rows, costs)
        found = search.run(rough.x)
        if found is not None:
            return Start(found.x, found.local.hessian, found.nonlinearity, fallback=start)
        x = search.x
    return x


class _Separated(Exception):
    """The rows of a sample are all but separated: its mode is no guide to that of all rows."""


class _SampleSearch:
    """Newton's search for the mode of a sample, and the last point where it was still a guide."""

    def __init__(self, sample: Objective, n_rows: int, costs: SearchCosts) -> None:
        self.sample, self.costs, self.n_rows = sample, costs, n_rows
        self.x = np.empty(0)

    def run(self, x: Array) -> Solution | None:
        """The mode, or None where it is no guide."""
        self.x = x
        # Squared distance to the mode of all rows, in standard deviations of their posterior.
        distance = x.size * self.n_rows / self.sample.rows.n_rows
        self.least_loss = self.costs.least_loss * distance if _has_labels(self.sample) else -np.inf
        goal = self.costs.sample_accuracy * distance
        try:
            found = newton(self._expand, x, tol=goal, max_steps=self.costs.sample_steps, confirm=False)
        except _Separated:
            return None
        except NotPositiveDefinite:
            self.x = x
            return None
        # Rounding may be taken for curvature by a factorisation.
        singular = self.sample.prior is None and not pivots_above(found.local.hessian, RANK)
        if singular or found.status is not Status.CONVERGED:
            self.x = x
            return None
        self.x = found.x
        return found

    def _expand(self, x: Array) -> Local:
        local = self.sample.expand(x)
        if local.value + self.sample.log_prior(x) < self.least_loss:
            raise _Separated
        self.x = x
        return local


def _has_labels(objective: Objective) -> bool:
    """Whether a loss of nothing means that every row is fitted without error."""
    return not isinstance(objective.likelihood, Likelihood) or objective.likelihood.two_labels


def sample_sizes(objective: Objective, n_weights: int, costs: SearchCosts) -> list[int]:
    """How many rows a sample has, and larger ones in case it is no guide; none where Newton is as fast."""
    n = objective.rows.n_rows
    if n * n_weights < costs.sampled_numbers:
        return []
    weights = n_weights / min(2, objective.contrast.shape[1])  # a row tells of two classes, or more
    least, most = (n // share for share in costs.sample_shares)
    size = int(np.clip(costs.rows_per_weight * weights, least, most))
    if size < costs.fewest_per_weight * weights:
        return []
    sizes = []
    while 2 * size <= n:
        sizes.append(size)
        size *= costs.sample_growth
    return sizes


def stochastic_gradient(
    rng: np.random.Generator, objective: Objective, start: Array, controls: Controls = Controls()
) -> InferenceResult:
    """Laplace at the averaged iterate of stochastic gradient descent, `controls.max_steps` sweeps at most.

    Iterates are averaged over the later sweeps; the Hessian at the average measures the next steps, so that the units
    and correlations of the columns do not matter.
    Sweeps end when the average is within a tenth of a posterior standard deviation of the mode, which the Hessian at
    the average tells; the status says whether that was reached.
    """
    n_rows = objective.rows.n_rows
    size = BATCH_ROWS if n_rows <= BATCH_ROWS else int(np.clip(n_rows // STEPS_PER_SWEEP, 8, BATCH_ROWS))
    first_step = min(1.0, size / (2 * start.size))  # a batch of few rows for many weights is mostly noise
    x, mean, averaged = start, start, 0
    local, t, decrement = objective.expand(start), 0, np.inf

    def step(hessian: PSD, batch: Block, x: Array) -> Array:
        # By rows, not by their weight: the ratio of two random sums would be biased.
        return hessian.solve(objective.batch_gradient(batch, x, share=len(batch.y) / n_rows))

    for sweep in range(1, controls.max_steps + 1):
        batches = (partial(step, local.hessian, batch) for batch in objective.rows.batches(rng, size))
        x, swept, t = averaged_sweep(batches, x, first_step=first_step, t=t)
        averaged = 1 if sweep.bit_count() == 1 else averaged + 1  # the average forgets at sweeps 1, 2, 4, 8, …
        mean = swept if averaged == 1 else mean + (swept - mean) / averaged
        local = objective.expand(mean)
        decrement = float(local.grad @ local.hessian.solve(local.grad))
        controls.report(sweep, local.value, decrement)
        if decrement <= NEAR:
            break
    status = Status.NEAR_MODE if decrement <= NEAR else Status.AWAY_FROM_MODE
    return result_at(objective, Solution(mean, local, status, sweep, decrement))
