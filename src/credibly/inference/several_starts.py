"""Likelihoods and priors that are not log-concave may have several modes: look from several places, keep the best."""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from credibly.data.rows import Block, MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference.laplace import Controls, laplace, sampled_start
from credibly.inference.objective import Objective, row_slopes
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.inference.prior_density import PriorDensity
from credibly.model.likelihoods import BernoulliDistribution
from credibly.model.likelihoods.kinds import AnyLikelihood, concave_relative
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, DesignMatrix
from credibly.numerics.settings import COSTS

DRAWS, MORE_DRAWS = 2, 8  # starts drawn around the mode of a log-concave relative
SMALL = 1000  # numbers in a table for which a search takes no time, and modes are many
STEEPER = (3.0, 10.0)  # multiples of a mode: with rows explained away the rest may be fitted closely
TRIMMED, TRIMMING_ROUNDS = (0.1, 0.25), 4  # shares of the rows left out
STRETCH = 3.0  # of those draws: modes worth finding are further apart than a posterior standard deviation


def best_laplace(objective: Objective, start: Array, controls: Controls = Controls()) -> InferenceResult:
    """The highest of the modes found: by evidence, or by likelihood where there is no prior.

    Searches start at `start`; at the mode of a log-concave relative (the logit for other thresholds, no label noise, a
    Gaussian for a Student-t prior), of all rows and with outlying ones given little weight; and at draws around those.
    The draws are the same every time.
    """
    results, failure = [], None
    points = _around_relative(objective, start, controls)
    for point in points if _few_searches(objective, start) and points else [start, *points]:
        try:
            results.append(laplace(objective, point, controls))
        except NotPositiveDefinite as error:  # a flat prior far out: another start may do
            failure = error
    if failure is not None and not results:
        raise failure
    return max(results, key=_rank)


def _few_searches(objective: Objective, start: Array) -> bool:
    """Many rows leave one mode worth finding, and every pass counts; so it does where SciPy takes its time."""
    many = objective.rows.n_rows * start.size >= COSTS.single_mode_numbers
    return many or isinstance(objective.likelihood, BernoulliDistribution)


def _rank(result: InferenceResult) -> tuple[bool, float]:
    value = result.log_evidence if np.isfinite(result.log_evidence) else -result.solution.local.value
    return result.solution.status.good, value


def _around_relative(objective: Objective, start: Array, controls: Controls) -> list[Array]:
    relative = _relative(objective)
    if relative is None:
        return []
    points: list[Array] = []
    for rows in (relative, near_rows_only(relative)):
        try:
            found = laplace(rows, sampled_start(rows, start), controls).posterior
        except NotPositiveDefinite:  # without a prior and with separated classes it has no mode
            continue
        points.append(found.mean)
        if _few_searches(objective, start):
            break
        if isinstance(objective.likelihood, LabelNoise | NoisyCategorical):
            points.extend([*_trimmed(relative, found.mean, controls), *(steep * found.mean for steep in STEEPER)])
        small = objective.rows.n_rows * start.size <= SMALL
        draws = found.sample(np.random.default_rng(0), MORE_DRAWS if small else DRAWS)
        points.extend(found.mean + STRETCH * (draws - found.mean))
    return points


def _trimmed(relative: Objective, start: Array, controls: Controls) -> list[Array]:
    """Modes of the relative without the rows that it explains worst, found and left out again a few times."""
    rows, points = relative.rows, []
    if not isinstance(rows, MemoryRows):
        return []
    for share in TRIMMED:
        x = start
        for _ in range(TRIMMING_ROUNDS):
            W = relative.chain.weights(x)
            fit = rows.map(partial(_log_prob, likelihood=relative.likelihood, W=W))
            kept = (fit > np.quantile(fit, share)).astype(float)
            weighted = replace(rows, weight=kept if rows.weight is None else kept * rows.weight)
            try:
                x = laplace(replace(relative, rows=weighted, raw=None), x, controls).posterior.mean
            except NotPositiveDefinite:  # what is left is separated, and there is no prior
                break
        points.append(x)
    return points


def _log_prob(block: Block, likelihood: AnyLikelihood, W: Array) -> Array:
    return row_slopes(likelihood, block._replace(weight=None), W).log_prob


def near_rows_only(objective: Objective) -> Objective:
    """The objective with rows the less weight the further out they are, so that outlying ones cannot lead the search.

    A row whose squared norm is k times the median has a weight of 1/k².
    """
    rows = objective.rows
    if not isinstance(rows, MemoryRows):
        return objective
    norms = rows.map(lambda block: _squared_norms(block.X))
    near = 1.0 / np.maximum(1.0, norms / max(np.median(norms), np.finfo(float).tiny)) ** 2
    weighted = replace(rows, weight=near if rows.weight is None else near * rows.weight)
    return replace(objective, rows=weighted, raw=None)


def _squared_norms(Z: DesignMatrix) -> Array:
    return np.asarray((Z.multiply(Z) if isinstance(Z, csr_array) else Z**2).sum(axis=1)).reshape(-1)


def _relative(objective: Objective) -> Objective | None:
    likelihood: AnyLikelihood | None = objective.likelihood
    if not objective.likelihood.log_concave:
        likelihood = concave_relative(objective.likelihood)
    return None if likelihood is None else replace(objective, likelihood=likelihood, prior=_gaussian(objective.prior))


def _gaussian(prior: PriorDensity | None) -> PriorDensity | None:
    if prior is None or prior.log_concave:
        return prior
    return Gaussian(prior.mean, PSD.of(prior.stand_in(prior.mean), "the prior precision"))
