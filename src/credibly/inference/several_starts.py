"""Likelihoods and priors that are not log-concave may have several modes: look from several places, keep the best."""

from dataclasses import replace

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.inference.laplace import MANY_ROWS, Controls, laplace
from credibly.inference.objective import Objective, PriorDensity
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.model.likelihoods.kinds import AnyLikelihood, concave_relative
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD

DRAWS = 2  # starts drawn around the mode of a log-concave relative
STRETCH = 3.0  # of those draws: modes worth finding are further apart than a posterior standard deviation


def best_laplace(objective: Objective, start: Array, controls: Controls = Controls()) -> InferenceResult:
    """The highest of the modes found: by evidence, or by likelihood where there is no prior.

    Searches start at `start`, at the mode of a log-concave relative (the logit for other thresholds, no label noise, a
    Gaussian for a Student-t prior), and at draws around that. The draws are the same every time.
    """
    results, failure = [], None
    for point in [start, *_around_relative(objective, start, controls)]:
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
    try:
        found = laplace(relative, start, controls).posterior
    except NotPositiveDefinite:  # without a prior and with separated classes it has no mode
        return []
    if objective.rows.n_rows >= MANY_ROWS:  # so many rows leave one mode worth finding
        return [found.mean]
    draws = found.sample(np.random.default_rng(0), DRAWS)
    return [found.mean, *(found.mean + STRETCH * (draws - found.mean))]


def _relative(objective: Objective) -> Objective | None:
    likelihood: AnyLikelihood | None = objective.likelihood
    if not objective.likelihood.log_concave:
        likelihood = concave_relative(objective.likelihood)
    return None if likelihood is None else replace(objective, likelihood=likelihood, prior=_gaussian(objective.prior))


def _gaussian(prior: PriorDensity | None) -> PriorDensity | None:
    if prior is None or prior.log_concave:
        return prior
    return Gaussian(prior.mean, PSD.of(prior.stand_in(prior.mean), "the prior precision"))
