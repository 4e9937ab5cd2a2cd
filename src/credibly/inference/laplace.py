"""Laplace in weight space: the Gaussian at the posterior mode, with the curvature found there."""

from functools import partial
from typing import NamedTuple

import numpy as np

from credibly.data.source import Block, MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference.objective import MOST_FUSED_COLUMNS, Objective
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, pivots_above
from credibly.numerics.newton import Local, Report, Solution, Status, newton, silent
from credibly.numerics.quasi_newton import SLOWER, Passes, Start, quasi_newton
from credibly.numerics.sgd import averaged_sweep

MANY_ROWS = 40_000  # from here on every pass counts, and one mode is worth finding
MANY_NUMBERS = 300_000  # rows times weights from which on the search starts from the mode of a sample:
SAMPLE_SHARE = 60  # of so many rows as many as a Hessian costs gradients: where it is dear a good metric is worth more,
LEAST_SHARE, LARGEST_SHARE = 20, 10  # but at least one row in twenty, and at most one in ten,
ENOUGH_PER_WEIGHT = 2000  # and no more for each weight, however many rows there are (but for those not in memory);
ROWS_PER_WEIGHT = 20  # at least so many for each weight,
MOST_NUMBERS = 10_000_000  # at most so many numbers: 80 megabytes,
SAMPLE_GROWTH = (4, 16)  # and so many times more rows where
HONEST = 3  # nats of loss for each weight are not left in the sample: a weight takes half a nat off its own rows
SAMPLE_CARE = 0.1  # share of the squared distance from the sample's mode to that of all rows which may be left,
STEP_CARE = 0.2  # and that of one step alone, for which a bound is known,
SAMPLE_STEPS = 30
STRAIGHTER = 0.2  # how much less curvature changes from sample to sample than along the way from a start far off
FIRST_PART = 50  # rows for each weight, from which the way to the mode of a sample starts; at least
FIRST_ROWS = 1000  # so many: fewer take as long;
WORTH_A_PART = 4  # the sample has so many times more rows, or more;
PART_GROWTH = 5  # each later part has so many times more rows, of which one Newton step will do
RANK = 1e-8  # of a weight's curvature that the weights before it must leave to it: rounding is some 1e-14
HESSIAN_BASE, COLUMNS_PER_PASS = 1.4, 19  # gradients that a Hessian costs, and columns that make it one more;
SOFTMAX_BASE, SOFTMAX_COLUMNS_PER_PASS = 1.5, 13  # the same for several classes, columns times classes but one,
WIDE_BASE, WIDE_COLUMNS_PER_PASS = 2.2, 25  # and where gradients are compiled and Gram matrices are not
CACHED_NUMBERS = 4_000_000  # of a table: in a larger one a gradient waits for the memory,
WAITING = 1.75  # so many times as long as it computes,
FEWEST_GRADIENTS = 1.5  # and a Hessian still costs so many gradients
FEW_WEIGHTS = 5  # up to which a Hessian is taken to cost no more than a gradient
READING = 10.0  # passes with the gradient that take as long as reading the rows, where they are not in memory
UNCONFIRMED_FROM = 5_000  # rows from which Newton may stop without a last pass that only confirms
BATCH_ROWS = 64  # at most; fewer rows than that are one batch,
STEPS_PER_SWEEP = 16  # more are walked in about so many steps at least
NEAR = 1e-2  # squared decrement: a tenth of a posterior standard deviation


class Controls(NamedTuple):
    """When the search for the mode stops, and what it tells on the way."""

    tol: float = 1e-20
    max_steps: int = 100
    report: Report = silent


def laplace(objective: Objective, start: Array | Start, controls: Controls = Controls()) -> InferenceResult:
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
    return result_at(objective, _search(objective, start, controls))


def _search(objective: Objective, start: Array | Start, controls: Controls) -> Solution:
    tol, max_steps, report = controls
    if isinstance(start, Start):
        passes = Passes(objective.expand, objective.gradient, hessian_cost(objective, start.x.size))
        return quasi_newton(passes, start, tol=tol, max_steps=max_steps, report=report)
    confirm = objective.rows.n_rows < UNCONFIRMED_FROM
    return newton(objective.expand, start, tol=tol, max_steps=max_steps, confirm=confirm, report=report)


def hessian_cost(objective: Objective, n_weights: int) -> float:
    """What a pass with the Hessian costs, in passes with the gradient alone: a model of measured times.

    A weighted Gram matrix for every two classes, against a product with every class; for rows that are not in memory,
    reading costs more than either. For few weights it costs next to nothing more, and is asked for every time: of those
    a step in another metric may hit the mode by chance, and tell nothing of how fast steps converge.
    """
    K, d = len(objective.contrast), n_weights / objective.contrast.shape[1]
    if n_weights <= FEW_WEIGHTS:
        return 1.0
    if K > 1:
        cost = SOFTMAX_BASE + (K - 1) * d / SOFTMAX_COLUMNS_PER_PASS
    elif d > MOST_FUSED_COLUMNS:
        cost = WIDE_BASE + d / WIDE_COLUMNS_PER_PASS
    else:
        cost = HESSIAN_BASE + d / COLUMNS_PER_PASS
        if objective.rows.n_rows * d > CACHED_NUMBERS:
            cost = max(FEWEST_GRADIENTS, cost / WAITING)
    reading = 0.0 if isinstance(objective.rows, MemoryRows) else READING
    return float(reading + cost) / (reading + 1)


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


def sampled_start(objective: Objective, start: Array) -> Start | Array:
    """A point near the mode, and a matrix near the Hessian there, from a sample of many rows.

    The mode of a sample is some standard deviations away, and its Hessian some per cent off: gradients of all rows do
    the rest. Few rows, counts under a flat prior (zeros may be separated, and no loss tells) and what is not
    log-concave are left to Newton.
    """
    n, climb = objective.rows.n_rows, _Climb(objective.rows.n_rows, start)
    for size in sample_sizes(objective, start.size):
        rng = np.random.default_rng(0)  # the seed moves only the start, not the mode
        sample = objective.sample(rng, size)
        try:
            for part in part_sizes(size, objective, start.size):
                climb.towards(sample.sample(rng, part))
            found = climb.mode_of(sample)
        except (_OverfittedSample, NotPositiveDefinite):
            continue
        # Its Hessian is off because the rows are few, and because its mode is not that of all rows.
        rate = start.size / size * (1 + SLOWER * found.bend * n)
        return Start(found.x, found.local.hessian, retreat=start, rate=rate, likely_bend=found.bend)
    return climb.x


class _Climb:
    """A search through ever larger parts of the rows, each from the mode of the one before."""

    def __init__(self, n_rows: int, x: Array) -> None:
        self.n_rows, self.x = n_rows, x
        self.bend = np.inf  # what a Newton step leaves of δ², over the square of δ², as the last search has seen it,
        self.likely_bend = np.inf  # and as it will be from here on

    def towards(self, part: Objective) -> None:
        """Go to the mode of a part, unless that is no guide."""
        try:
            self.mode_of(part)
        except (_OverfittedSample, NotPositiveDefinite):
            self.bend = np.inf

    def mode_of(self, part: Objective) -> Solution:
        """About the mode of a part: with what is known from a smaller one, a single Newton step may be enough."""
        distance = self.x.size * self.n_rows / part.rows.n_rows  # squared, to that of all rows, in standard deviations
        watched = _Watched(part, self.x, HONEST * distance)
        try:
            found = self._stepped(watched, STEP_CARE * distance) if np.isfinite(self.bend) else None
            if found is None:
                found = self._searched(watched, SAMPLE_CARE * distance)
        except _OverfittedSample:
            self.x = watched.x
            raise
        # Rounding may be taken for curvature by a factorisation.
        if part.prior is None and not pivots_above(found.local.hessian, RANK):
            raise NotPositiveDefinite("Columns are constant, or dependent, in this part of the rows.")
        self.x = found.x
        return found

    def _stepped(self, watched: "_Watched", tol: float) -> Solution | None:
        """One Newton step, if it is sure to come near enough."""
        here = watched.expand(self.x)
        step = -here.hessian.solve(here.grad)
        expected = self.bend * float(here.grad @ step) ** 2
        if expected > tol:
            return None
        return Solution(self.x + step, here, Status.CONVERGED, 1, expected, self.likely_bend)

    def _searched(self, watched: "_Watched", tol: float) -> Solution:
        """Newton from here on, which tells how far a step can be trusted."""
        found = newton(watched.expand, self.x, tol=tol, max_steps=SAMPLE_STEPS)
        far, self.bend = np.isinf(self.bend), found.bend
        self.likely_bend = STRAIGHTER * self.bend if far else self.bend
        return found._replace(bend=self.likely_bend)


def sample_sizes(objective: Objective, n_weights: int) -> list[int]:
    """How many rows a sample has, and larger ones in case its rows are all but separated; none where Newton is as fast.

    Rows that are not in memory are sampled once: every sample is a pass.
    """
    n, outputs = objective.rows.n_rows, objective.contrast.shape[1]
    needed = ROWS_PER_WEIGHT * n_weights // min(2, outputs)  # a row tells of two classes, or more
    few = n < UNCONFIRMED_FROM or n * n_weights < MANY_NUMBERS or n < needed
    unwatched = objective.prior is None and not _labels(objective)
    if few or unwatched or not objective.log_concave:
        return []
    most = min(n // 2, max(needed, MOST_NUMBERS * outputs // n_weights))
    if not isinstance(objective.rows, MemoryRows):
        return [min(most, max(needed, n // LEAST_SHARE))]  # a pass costs more than any sample
    worth = min(n // LARGEST_SHARE, max(n // LEAST_SHARE, int(n * hessian_cost(objective, n_weights) / SAMPLE_SHARE)))
    size = min(most, max(needed, FIRST_ROWS, min(worth, ENOUGH_PER_WEIGHT * n_weights)))
    return sorted({size, *(min(most, size * grown) for grown in SAMPLE_GROWTH)})


def part_sizes(size: int, objective: Objective, n_weights: int) -> list[int]:
    """How many rows the parts of a sample have through which a search comes near its mode; none if it is small."""
    part = max(FIRST_ROWS, FIRST_PART * n_weights // min(2, objective.contrast.shape[1]))
    sizes: list[int] = []
    while (2 if sizes else WORTH_A_PART) * part <= size:
        sizes.append(part)
        part *= PART_GROWTH
    return sizes


def _labels(objective: Objective) -> bool:
    """Whether a loss of nothing means that every row is fitted without error."""
    return not isinstance(objective.likelihood, Likelihood) or objective.likelihood.two_labels


class _OverfittedSample(Exception):
    """A sample's rows are all but separated: its mode is no guide to that of all rows."""


class _Watched:
    """The objective of a sample, which stops the search where labels are fitted so well that it cannot be true."""

    def __init__(self, sample: Objective, x: Array, least_loss: float) -> None:
        self.sample, self.x, self.least_loss = sample, x, least_loss if _labels(sample) else -np.inf

    def expand(self, x: Array) -> Local:
        """As the sample's own."""
        local = self.sample.expand(x)
        if local.value + self.sample.log_prior(x) < self.least_loss:
            raise _OverfittedSample
        self.x = x
        return local


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
