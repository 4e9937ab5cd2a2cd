"""Laplace: the Gaussian at the posterior mode, with the curvature there.

Few rows: damped Newton from the prior's centre. Many rows: the mode of a sample first, then gradients of all rows in
the metric of its Hessian, and one or two Hessians at the end. One cost model decides (`numerics.settings.CostModel`).
"""

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.objective import Objective
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import pivots_above
from credibly.numerics.newton import Start, minimize, newton
from credibly.numerics.settings import COSTS, CostModel
from credibly.numerics.status import CONTROLS, Controls, Local, Solution, Status

RANK = 1e-8  # of a weight's curvature that the weights before it must leave to it: rounding is some 1e-14
BATCH_ROWS = 64  # at most; fewer rows than that are one batch,
STEPS_PER_SWEEP = 16  # more are cut into about so many batches at least
DECAY = 0.6  # of steps: between ½ and 1, as Robbins & Monro require
NEAR = 1e-2  # squared decrement: a tenth of a posterior standard deviation


def laplace(
    objective: Objective,
    start: Array | Start,
    controls: Controls = CONTROLS,
    costs: CostModel = COSTS,
) -> Approximation:
    r"""Approximate the posterior by the Gaussian at its mode.

    .. math:: \log Z \approx \log p(y, \hat x) - \log q(\hat x)

    which is exact when the likelihood is Gaussian. With a flat prior the Gaussian is that of the observed information,
    and there is no evidence.

    Parameters
    ----------
    objective : Objective
    start : (M,) array or Start
        Where the search starts; with a matrix near the Hessian there, most passes ask for gradients only.
    controls : Controls
    costs : CostModel

    References
    ----------
    PRML eq. 4.137, 4.142–4.144 (the determinant is of an M×M matrix, and M counts weights, not rows).
    """
    if not isinstance(start, Start):
        start = sampled_start(objective, start, costs)
    return at_mode(objective, minimize(objective, start, **controls._asdict(), costs=costs))


def at_mode(objective: Objective, solution: Solution) -> Approximation:
    """The approximation at the point where a search ended."""
    x, local = solution.x, solution.local
    q, log_joint = Gaussian(x, local.hessian), -local.value
    return Approximation(
        q,
        np.nan if objective.prior is None else float(log_joint - q.logpdf(x)),
        log_joint - objective.log_prior(x),
        solution.status,
        solution.steps,
        solution.decrement,
        nonlinearity=solution.nonlinearity,
    )


def sampled_start(objective: Objective, start: Array, costs: CostModel = COSTS) -> Start | Array:
    """A point near the mode, and a matrix near the Hessian there, from a sample of many rows; else a point to start at.

    The mode of a sample is some standard deviations away, and its Hessian some per cent off: gradients of all rows do
    the rest. Few rows, counts under a flat prior (zeros may be separated, and no loss tells) and what is not
    log-concave are left to Newton.
    """
    if not objective.log_concave or (objective.prior is None and not _has_labels(objective)):
        return start
    rng = np.random.default_rng(0)  # the seed moves only the start, not the mode
    x, n, found = start, objective.rows.n_rows, None
    for size in sample_sizes(objective, start.size, costs):
        sample = objective.sample(rng, size)
        x = _rough_mode(rng, sample, x, costs)
        found = _sample_mode(sample, x, n, costs)
        x = found.x if isinstance(found, Solution) else found
        if isinstance(found, Solution) and found.nonlinearity * start.size * n / size <= costs.most_nonlinear:
            break
    if isinstance(found, Solution):
        return Start(x, fallback=start, metric=found.local.hessian, nonlinearity=found.nonlinearity)
    return start if found is None else Start(x, fallback=start)


def sample_sizes(objective: Objective, n_weights: int, costs: CostModel = COSTS) -> list[int]:
    """The size of a sample, and larger ones in case it is no guide; none where plain Newton costs less."""
    return costs.sample_sizes(objective.rows.n_rows, n_weights, objective.design.classes.n_free)


class _Separated(Exception):
    """The rows of a sample are all but separated: its mode is no guide to that of all rows."""


def _rough_mode(rng: np.random.Generator, sample: Objective, x: Array, costs: CostModel) -> Array:
    """The mode of a part of a sample, from which the sample's own is a step or two away."""
    n = sample.rows.n_rows
    if n < costs.rough_share * costs.fewest_rows(x.size, sample.design.classes.n_free):
        return x
    found = _sample_mode(sample.sample(rng, n // costs.rough_share), x, n, costs)
    return found.x if isinstance(found, Solution) else found


def _sample_mode(sample: Objective, x: Array, n_rows: int, costs: CostModel) -> Solution | Array:
    """The mode of a sample; where it is no guide, the last point that was one."""
    # Squared distance to the mode of all rows, in standard deviations of their posterior.
    distance = x.size * n_rows / sample.rows.n_rows
    least_loss = costs.least_loss * distance if _has_labels(sample) else -np.inf
    last = x

    def expand(x: Array) -> Local:
        nonlocal last
        local = sample.expand(x)
        if local.value + sample.log_prior(x) < least_loss:
            raise _Separated
        last = x
        return local

    try:
        goal = costs.sample_accuracy * distance
        found = newton(expand, x, tol=goal, max_steps=costs.sample_steps, hessian_tol=np.inf)
    except _Separated:
        return last
    except NotPositiveDefinite:
        return x
    # Rounding may be taken for curvature by a factorisation.
    singular = sample.prior is None and not pivots_above(found.local.hessian, RANK)
    return x if singular or found.status is not Status.CONVERGED else found


def _has_labels(objective: Objective) -> bool:
    """Whether a loss of nothing means that every row is fitted without error."""
    return not isinstance(objective.likelihood, Likelihood) or objective.likelihood.two_labels


def stochastic_gradient(
    rng: np.random.Generator, objective: Objective, start: Array, controls: Controls = CONTROLS
) -> Approximation:
    r"""Laplace at the averaged iterate of stochastic gradient descent, `controls.max_steps` sweeps at most.

    .. math:: x_{t+1} = x_t - \eta_t H^{-1} \hat g_t(x_t), \qquad \eta_t = \eta_0 (1 + t)^{-0.6}

    Steps decrease so that the iterates settle, and are measured by the Hessian at the last average, so that the units
    and correlations of the columns do not matter. Iterates are averaged over the later sweeps. Sweeps end when the
    average is within a tenth of a posterior standard deviation of the mode; the status says whether that was reached.

    References
    ----------
    Polyak & Juditsky 1992: decays between ½ and 1 and averaging give the best rate.
    """
    n_rows = objective.rows.n_rows
    size = BATCH_ROWS if n_rows <= BATCH_ROWS else int(np.clip(n_rows // STEPS_PER_SWEEP, 8, BATCH_ROWS))
    first_step = min(1.0, size / (2 * start.size))  # a batch of few rows for many weights is mostly noise
    x, mean, averaged, t = start, start, 0, 0
    local, decrement = objective.expand(start), np.inf
    for sweep in range(1, controls.max_steps + 1):
        iterates = []
        for batch in objective.batches(rng, size):
            # By rows, not by their weight: the ratio of two random sums would be biased.
            gradient = objective.batch_gradient(batch, x, share=len(batch.y) / n_rows)
            x = x - first_step * (1 + t) ** -DECAY * local.hessian.solve(gradient)
            iterates.append(x)
            t += 1
        averaged = 1 if sweep.bit_count() == 1 else averaged + 1  # the average forgets at sweeps 1, 2, 4, 8, …
        mean = mean + (np.mean(iterates, axis=0) - mean) / averaged
        local = objective.expand(mean)
        decrement = float(local.grad @ local.hessian.solve(local.grad))
        controls.report(sweep, local.value, decrement)
        if decrement <= NEAR:
            break
    status = Status.NEAR_MODE if decrement <= NEAR else Status.AWAY_FROM_MODE
    return at_mode(objective, Solution(mean, local, status, sweep, decrement))
