"""Likelihoods and priors that are not log-concave may have several modes: look from several places, keep the best."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from credibly.data.source import MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference.laplace import MANY_ROWS, Controls, laplace, sampled_start
from credibly.inference.objective import Objective, PriorDensity
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.model.likelihoods.kinds import AnyLikelihood, concave_relative
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, DesignMatrix

DRAWS = 2  # starts drawn around the mode of a log-concave relative
STRETCH = 3.0  # of those draws: modes worth finding are further apart than a posterior standard deviation


def best_laplace(objective: Objective, start: Array, controls: Controls = Controls()) -> InferenceResult:
    """The highest of the modes found: by evidence, or by likelihood where there is no prior.

    Searches start at `start`; at the mode of a log-concave relative (the logit for other thresholds, no label noise, a
    Gaussian for a Student-t prior), of all rows and with outlying ones given little weight; and at draws around those.
    The draws are the same every time.
    """
    results, failure = [], None
    points = _around_relative(objective, start, controls)
    many = objective.rows.n_rows >= MANY_ROWS  # so many rows leave one mode worth finding, and every pass counts
    for point in points if many and points else [start, *points]:
        try:
            results.append(laplace(objective, point, controls))
        except NotPositiveDefinite as error:  # a flat prior far out: another start may do
            failure = error
    if failure is not None and not results:
        raise failure
    return max(results, key=_rank)


def _rank(result: InferenceResult) -> tuple[bool, float]:
    value = result.log_evidence if np.isfinite(result.log_evidence) else -result.solution.local.value
    return result.solution.status.good, value


def _around_relative(objective: Objective, start: Array, controls: Controls) -> list[Array]:
    relative = _relative(objective)
    if relative is None:
        return []
    points: list[Array] = []
    for rows in (relative, _near_rows_only(relative)):
        try:
            found = laplace(rows, sampled_start(rows, start), controls).posterior
        except NotPositiveDefinite:  # without a prior and with separated classes it has no mode
            continue
        points.append(found.mean)
        if objective.rows.n_rows >= MANY_ROWS:
            break
        draws = found.sample(np.random.default_rng(0), DRAWS)
        points.extend(found.mean + STRETCH * (draws - found.mean))
    return points


def _near_rows_only(objective: Objective) -> Objective:
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
