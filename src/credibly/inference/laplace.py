"""Laplace in weight space: the Gaussian at the posterior mode, with the curvature found there."""

from functools import partial
from typing import NamedTuple

import numpy as np

from credibly.data.source import Block
from credibly.inference.objective import Objective
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import Report, Solution, Status, newton, silent
from credibly.numerics.sgd import averaged_sweep

MANY_ROWS = 40_000  # from here on every pass counts: Newton starts from the mode of a sample
SAMPLE_SHARE = 20  # one row in twenty,
SAMPLE_ROWS_PER_WEIGHT = 20  # but at least so many for each weight
MOST_GRADIENT_STEPS = 3
NEAR_ENOUGH = 2.0  # squared decrement before a step that shrinks it a thousandfold: Newton does the rest in two passes
UNCONFIRMED_FROM = 5_000  # rows from which Newton may stop without a last pass that only confirms
BATCH_ROWS = 64  # at most; fewer rows than that are one batch,
STEPS_PER_SWEEP = 16  # more are walked in about so many steps at least
NEAR = 1e-2  # squared decrement: a tenth of a posterior standard deviation


class Controls(NamedTuple):
    """When the search for the mode stops, and what it tells on the way."""

    tol: float = 1e-20
    max_steps: int = 100
    report: Report = silent


def laplace(objective: Objective, start: Array, controls: Controls = Controls()) -> InferenceResult:
    r"""Approximate the posterior by the Gaussian at its mode.

    .. math:: \log Z \approx \log p(y, \hat w) - \log q(\hat w)

    which is exact when the likelihood is Gaussian. Logistic, probit, softmax and every other likelihood, in memory
    and elsewhere. With a flat prior the Gaussian is that of the observed information, and there is no evidence.

    Parameters
    ----------
    objective : Objective
    start : (M,) array
        Where Newton starts.
    controls : Controls

    References
    ----------
    PRML eq. 4.137, 4.142–4.144 (the determinant is of an M×M matrix and M counts weights, not rows: misprint E-38
    of docs/theory.md).
    """
    solution = newton(
        objective.expand,
        start,
        tol=controls.tol,
        max_steps=controls.max_steps,
        confirm=objective.rows.n_rows < UNCONFIRMED_FROM,
        report=controls.report,
    )
    return result_at(objective, solution)


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


def sampled_start(objective: Objective, start: Array) -> Array:
    """A point near the mode for few passes over many rows.

    Newton on a sample of the rows lands some standard deviations away; its Hessian then serves for steps that need the
    gradient of all rows only.
    """
    rows = objective.rows
    size = max(rows.n_rows // SAMPLE_SHARE, SAMPLE_ROWS_PER_WEIGHT * start.size)
    if objective.prior is None or rows.n_rows < MANY_ROWS or size > rows.n_rows // 2:
        return start
    sample = objective.sample(np.random.default_rng(0), size)  # the seed moves only the start, not the mode
    found = newton(sample.expand, start, tol=1e-2, max_steps=30)
    x, decrement = found.x, np.inf
    for _ in range(MOST_GRADIENT_STEPS):
        gradient = objective.gradient(x)
        step = found.local.hessian.solve(gradient)
        last, decrement = decrement, float(gradient @ step)
        if not decrement < last / 4:  # the sample's Hessian is not good enough: leave the rest to Newton
            break
        x = x - step
        if decrement < NEAR_ENOUGH:
            break
    return x


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
