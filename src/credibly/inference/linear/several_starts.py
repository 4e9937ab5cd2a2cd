"""Likelihoods and priors that are not log-concave may have several modes: look from several places, keep the best."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from credibly.data.rows import MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.laplace import laplace
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.priors import PriorDensity
from credibly.model.likelihoods import BernoulliDistribution
from credibly.model.likelihoods.kinds import AnyLikelihood, concave_relative
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, DesignMatrix
from credibly.numerics.settings import COSTS
from credibly.numerics.status import CONTROLS, Controls

DRAWS = 4  # starts drawn around the mode of a log-concave relative
STRETCH = 3.0  # of those draws: modes worth finding are further apart than a posterior standard deviation
STEEPER = (3.0, 10.0)  # multiples of a mode: with rows explained away the rest may be fitted closely


def best_laplace(objective: Objective, start: Array, controls: Controls = CONTROLS) -> Approximation:
    """The highest of the modes found: by evidence, or by likelihood where there is no prior.

    Searches start at `start`; at the mode of a log-concave relative (the logit for other thresholds, no label noise, a
    Gaussian for a Student-t prior), of all rows and with outlying ones given little weight; and at draws around those,
    the same every time. Many rows leave one mode worth finding.
    """
    found, failure = [], None
    points = _around_relative(objective, start, controls)
    for point in points if one_search(objective, start) and points else [start, *points]:
        try:
            found.append(laplace(objective, point, controls))
        except NotPositiveDefinite as error:  # a flat prior far out: another start may do
            failure = error
    if failure is not None and not found:
        raise failure
    return max(found, key=_rank)


def one_search(objective: Objective, start: Array) -> bool:
    """Whether one mode is looked for: many rows leave one, as do most densities that SciPy evaluates, in its time."""
    many, likelihood = objective.rows.n_rows * start.size >= COSTS.single_mode_numbers, objective.likelihood
    return many or (isinstance(likelihood, BernoulliDistribution) and not likelihood.heavy_tailed)


def _rank(found: Approximation) -> tuple[bool, float]:
    return found.status.good, found.log_evidence if np.isfinite(found.log_evidence) else found.log_likelihood


def _around_relative(objective: Objective, start: Array, controls: Controls) -> list[Array]:
    relative = _relative(objective)
    if relative is None:
        return []
    points: list[Array] = []
    for rows in (relative, near_rows_only(relative)):
        try:
            q = laplace(rows, start, controls).q
        except NotPositiveDefinite:  # without a prior and with separated classes it has no mode
            continue
        points.append(q.mean)
        if one_search(objective, start):
            break
        if isinstance(objective.likelihood, LabelNoise | NoisyCategorical):
            points.extend(steep * q.mean for steep in STEEPER)
        draws = q.sample(np.random.default_rng(0), DRAWS)
        points.extend(q.mean + STRETCH * (draws - q.mean))
    return points


def near_rows_only(objective: Objective) -> Objective:
    """The objective with rows the less weight the further out they are, so that outlying ones cannot lead the search.

    A row whose squared norm is k times the median has a weight of 1/k².
    """
    rows = objective.rows
    if not isinstance(rows, MemoryRows):
        return objective
    norms = rows.through(objective.design.standardization.design).map(lambda block: _squared_norms(block.X))
    near = 1.0 / np.maximum(1.0, norms / max(np.median(norms), np.finfo(float).tiny)) ** 2
    return replace(objective, rows=replace(rows, weight=near if rows.weight is None else near * rows.weight))


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
