"""Very many weights: which fits do without a matrix of all pairs of them, and which cannot.

Up to `LARGEST_FULL` weights every fit may form that matrix. Fewer rows than weights are fitted with matrices of rows by
rows, exactly. More of both are fitted by conjugate gradients, with a posterior of a diagonal and some directions.
"""

from enum import Enum
from functools import partial

import numpy as np

from credibly.data.memory import refuse_beyond_memory
from credibly.errors import InputError, NotPositiveDefinite
from credibly.estimators.problem import Learnt, PriorChoice, Problem, Search
from credibly.inference.curvature import RowParts, RowPasses
from credibly.inference.dual import DualSurface, dual_laplace
from credibly.inference.scale_search import best_of_scan, root_uphill, search_status
from credibly.inference.wide import wide_mode, wide_result
from credibly.inference.wide_prior import WidePrior
from credibly.inference.wide_scale import scale_of
from credibly.model.centred_prior import CentredNormal
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.priors import Normal
from credibly.numerics.low_rank import LARGEST_FULL
from credibly.numerics.newton import Status

FULL_ARRAYS = 5  # of all pairs of weights that a fit holds at the same time, at the least
WIDE_VECTORS = 4  # of all weights that a fit without such matrices holds, at the least
FEWEST_WIDE = 1_000  # weights: below that the matrix of all pairs is no burden


class Way(Enum):
    """How a problem of some size is fitted."""

    FULL = "by a matrix of all pairs of weights"
    ROWS = "by a matrix of all pairs of rows"
    DIRECTIONS = "by a diagonal and some directions"


def way_of(problem: Problem) -> Way:
    """By the numbers of rows, weights and classes."""
    weights, scores = problem.shape.total, problem.rows.n_rows * problem.shape.n_outputs
    if 2 * scores <= weights and weights > FEWEST_WIDE and scores <= LARGEST_FULL:
        return Way.ROWS
    if weights <= LARGEST_FULL:
        return Way.FULL
    return Way.ROWS if scores <= min(weights, LARGEST_FULL) else Way.DIRECTIONS


def learn_wide(problem: Problem, choice: PriorChoice, search: Search) -> Learnt | None:
    """The fit without a matrix of all pairs of weights; None where that is wanted, or where nothing else can be done.

    Raises
    ------
    InputError
        Where there are too many weights for that matrix, and the choices made need it.
    """
    way = way_of(problem)
    if way is Way.FULL or not _possible(problem, choice, search):
        return None
    _refuse_large_wide(problem, way)
    try:
        return _learn_without(problem, choice, search, way)
    except NotPositiveDefinite:  # at the edge of a link's domain, which the search in weights knows how to leave
        if problem.shape.total > LARGEST_FULL:
            raise
        return None


def _learn_without(problem: Problem, choice: PriorChoice, search: Search, way: Way) -> Learnt:
    likelihood = problem.likelihood
    assert isinstance(likelihood, Likelihood | Categorical)
    if isinstance(choice, str):
        scaled = _scaled_rows if way is Way.ROWS else _scaled_directions
        return scaled(problem, likelihood, search)
    assert isinstance(choice, Normal)
    prior = WidePrior.of(choice, problem.shape, problem.frame)
    if way is Way.ROWS:
        result, se = dual_laplace(likelihood, problem.rows, prior, search.controls), 0.0
    else:
        passes = RowPasses(likelihood, _parts(problem), problem.frame, prior)
        result, se = wide_result(passes, wide_mode(passes, np.zeros_like(prior.mean), search.controls))
    contrast, status = np.eye(problem.shape.n_outputs), result.solution.status
    return Learnt(result, prior.gaussian, contrast, status, choice, log_evidence_se=se)


def _possible(problem: Problem, choice: PriorChoice, search: Search) -> bool:
    prior = choice == "empirical" or (isinstance(choice, Normal) and choice.cov is None)
    kind = isinstance(problem.likelihood, Likelihood | Categorical) and problem.likelihood.log_concave
    return prior and kind and search.seed is None


def refuse_wide(problem: Problem) -> None:
    """Raise where a matrix of all pairs of weights is asked for and there are too many."""
    M = problem.shape.total
    if M > LARGEST_FULL:
        raise InputError(
            f"This model has {M:,} weights; with more than {LARGEST_FULL:,} of them a fit cannot hold the matrix of "
            f"all pairs ({8e-9 * M**2:.1f} GB), which what was asked for needs. Without it work: prior='empirical' or "
            "Normal(scale=…) (not 'ard', StudentT, Jeffreys, a covariance or None), inference='laplace', "
            "solver='newton', label_noise=0, and the logit, probit, softmax and other log-concave likelihoods. Or use "
            "fewer columns."
        )
    refuse_large(M)


def refuse_large(n_weights: int, arrays: int = FULL_ARRAYS) -> None:
    """Raise where so many matrices of all pairs of weights do not fit into memory."""
    advice = "Use fewer columns, or a machine with more memory."
    refuse_beyond_memory(arrays * n_weights**2, f"the matrices of all pairs of {n_weights:,} weights", advice)


def _refuse_large_wide(problem: Problem, way: Way) -> None:
    """The same for fits that do without them."""
    M, scores = problem.shape.total, problem.rows.n_rows * problem.shape.n_outputs
    pairs = scores**2 if way is Way.ROWS else 0
    advice = "Use fewer columns, or fewer classes."
    refuse_beyond_memory(WIDE_VECTORS * M + pairs, f"a fit of {M:,} weights to {problem.rows.n_rows:,} rows", advice)


def _scaled_rows(problem: Problem, likelihood: Likelihood | Categorical, search: Search) -> Learnt:
    """The scale of highest evidence, by matrices of rows."""
    surface = DualSurface(likelihood, problem.rows, partial(_prior_at, problem), _intercept(problem), search.controls)
    theta = root_uphill(surface, best_of_scan(surface))
    final = surface(theta)
    status = search_status(theta, final.gradient) if surface.status.good else surface.status
    if status is Status.CONVERGED:
        status = final.result.solution.status
    prior = _prior_at(problem, float(theta[0])).gaussian
    resolved, contrast = _standardised(problem, float(theta[0])), np.eye(problem.shape.n_outputs)
    return Learnt(final.result, prior, contrast, status, resolved, problem.unit * np.exp(theta))


def _scaled_directions(problem: Problem, likelihood: Likelihood | Categorical, search: Search) -> Learnt:
    """The scale of highest evidence, its slope by conjugate gradients."""
    passes = RowPasses(likelihood, _parts(problem), problem.frame, _prior_at(problem, 0.0))
    found = scale_of(passes, partial(_prior_at, problem), search.controls)
    result, se = wide_result(found.passes, found.mode)
    theta = np.array([found.theta])
    status = search_status(theta, np.zeros(1)) if found.settled else Status.SCALES_NOT_FOUND
    status = result.solution.status if status is Status.CONVERGED or not result.solution.status.good else status
    contrast, resolved = np.eye(problem.shape.n_outputs), _standardised(problem, found.theta)
    prior = found.passes.prior.gaussian
    return Learnt(result, prior, contrast, status, resolved, problem.unit * np.exp(theta), log_evidence_se=se)


def _standardised(problem: Problem, theta: float) -> CentredNormal:
    """The prior of standardised columns with one scale, in data units."""
    slopes = problem.unit * np.exp(theta) / problem.columns.scale
    return CentredNormal(slopes, problem.intercept_scale, problem.columns.mean)


def _prior_at(problem: Problem, theta: float) -> WidePrior:
    return WidePrior.of(_standardised(problem, theta), problem.shape, problem.frame)


def _parts(problem: Problem) -> RowParts:
    return RowParts(problem.raw, problem.shape.n_features)


def _intercept(problem: Problem) -> float:
    return problem.intercept_scale if problem.shape.intercept else 0.0
