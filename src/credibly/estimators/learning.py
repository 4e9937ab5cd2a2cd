"""From choices to a posterior: which prior, which search, and what to do when there is no prior.

The one place where an estimator's strings ("empirical", "sgd") become objects.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from credibly.data.threads import blas_threads
from credibly.errors import CollinearityError, InputError, NotPositiveDefinite, SingularPriorError
from credibly.estimators.determined import refuse_collinear, refuse_infinite, refuse_offsets, refuse_separated
from credibly.estimators.problem import Learnt, PriorChoice, Problem, Search
from credibly.estimators.wide_learning import has_independent_slopes, refuse_wide, scaled_prior
from credibly.inference.adf import Belief, adf
from credibly.inference.contrasts import sum_to_zero
from credibly.inference.evidence import LOG_BOUNDS, Maximum, ScaledPriors, maximise_evidence
from credibly.inference.jeffreys import jeffreys
from credibly.inference.laplace import laplace, sampled_start, stochastic_gradient
from credibly.inference.objective import Objective, RawRows
from credibly.inference.posterior import Gaussian, InferenceResult, WeightPosterior
from credibly.inference.prior_density import PriorDensity
from credibly.inference.several_starts import best_laplace
from credibly.inference.student import IndependentStudent
from credibly.inference.wide import WideObjective, best_scale, wide_laplace
from credibly.model.centred_prior import CentredNormal, IndependentPrior
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.priors import Jeffreys, Normal, StudentT
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, block_diagonal, from_root
from credibly.numerics.status import Status

PRIOR_CHOICES = (
    '"empirical", "ard", Normal(scale=2.5), Normal(mean=m0, cov=S0), StudentT(df=7, scale=2.5), Jeffreys() or None'
)
BESIDE_COLUMNS = (
    "This prior, in the units of the data, is numerically singular beside these columns ({}) Some column's mean is "
    "huge against its spread, or its unit against the prior's scale: centre and scale the columns, or use "
    'prior="empirical", which does not depend on units.'
)
BESIDE_ROWS = (
    "The prior on standardised columns is numerically singular beside these rows ({}) Without an intercept, some "
    "column's mean is huge against its spread, or sample_weight is huge: centre the columns, use fit_intercept=True, "
    "or divide the weights."
)
MOST_ROUNDS = 4  # of a search for scales that ended beside the highest mode
HIGHER = 1e-6  # nats


def learn(problem: Problem, choice: PriorChoice, search: Search) -> Learnt:
    """Fit with the prior chosen by an object or a short string."""
    with blas_threads(problem.shape.total, None):
        return _learn(problem, choice, search)


def _learn(problem: Problem, choice: PriorChoice, search: Search) -> Learnt:
    check_prior(choice)
    if problem.shape.total > problem.limits.largest_matrix and _by_conjugate_gradients(problem, choice, search):
        return _learn_wide(problem, choice, search)
    if choice is None:
        return _without_prior(problem, search)
    if isinstance(choice, Jeffreys):
        return _with_jeffreys(problem, choice, search)
    if isinstance(choice, str):
        return learn_scales(problem, choice, search)
    prior, resolved = explicit_prior(choice, problem)
    return learn_from(problem, prior, np.eye(problem.shape.n_outputs), search)._replace(resolved=resolved)


def check_prior(choice: object) -> None:
    """Refuse what is no prior, before any work."""
    known = isinstance(choice, Normal | StudentT | Jeffreys) or choice is None
    if not known and not (isinstance(choice, str) and choice in {"empirical", "ard"}):
        raise InputError(f"prior must be {PRIOR_CHOICES}; got {choice!r}.")
    if getattr(choice, "standardized", False):  # `fit_linear` takes it; these estimators read data units
        raise InputError(
            f"{choice!r} is not taken yet: these models read the scales of a prior in data units. Leave out "
            'standardized=True and standardize the columns, or use prior="empirical".'
        )


def objective_of(problem: Problem, prior: PriorDensity | None, contrast: Array) -> Objective:
    """Minus the log posterior of a problem under one prior."""
    return Objective(problem.likelihood, problem.rows, prior, contrast, RawRows.of(problem.raw, problem.frame))


def first_point(problem: Problem, prior: PriorDensity | None, contrast: Array) -> Array:
    """Where a search starts: the prior's centre, unless the problem knows better."""
    if problem.start is not None:
        return problem.start
    return np.zeros(contrast.shape[1] * problem.shape.per_output) if prior is None else prior.mean


def learn_from(problem: Problem, prior: PriorDensity | None, contrast: Array, search: Search) -> Learnt:
    """Find the mode under one given prior."""
    objective = objective_of(problem, prior, contrast)
    start = first_point(problem, prior, contrast)
    with explained(None if prior is None else BESIDE_COLUMNS):
        if search.seed is not None:
            result = stochastic_gradient(np.random.default_rng(search.seed), objective, start, search.controls)
        else:
            result = find_mode(objective, start, search)
    return Learnt(result, prior, contrast, result.solution.status)


class ChosenPrior(NamedTuple):
    """A Gaussian prior for methods that look for no mode."""

    prior: Gaussian  # in the frame
    resolved: Normal | StudentT | Jeffreys | None  # in data units
    scale: Array | None  # on standardised columns, where learnt
    status: Status  # of the search for scales


def chosen_prior(problem: Problem, choice: Normal | str, search: Search) -> ChosenPrior:
    """The prior as given; scales that are to be learnt are those of highest Laplace evidence."""
    if not isinstance(choice, str):
        prior, resolved = explicit_prior(choice, problem)
        assert isinstance(prior, Gaussian)
        return ChosenPrior(prior, resolved, None, Status.CONVERGED)
    scaled = learn_scales(problem, choice, search)
    assert isinstance(scaled.prior, Gaussian)
    # Of how the mode was found nothing matters here, unless it makes the scales doubtful.
    told = not scaled.status.good or scaled.status is Status.SCALE_AT_BOUND
    return ChosenPrior(scaled.prior, scaled.resolved, scaled.prior_scale, scaled.status if told else Status.CONVERGED)


def learn_by_filter(problem: Problem, choice: Normal | str, search: Search, family: type[Belief]) -> Learnt:
    """One pass of assumed-density filtering."""
    first, resolved, scale, status = chosen_prior(problem, choice, search)
    prior = family.project(first)
    if prior is not first:  # the family has no such member: the prior used is its nearest one
        nearest = WeightPosterior(prior, problem.frame, np.eye(1))
        resolved = Normal(mean=nearest.mean, cov=nearest.cov)
    return filter_from(problem, prior, family)._replace(status=status, resolved=resolved, prior_scale=scale)


def filter_from(problem: Problem, prior: Gaussian, family: type[Belief]) -> Learnt:
    """Learn the rows one by one, from one given prior."""
    assert isinstance(problem.likelihood, Likelihood)
    result = adf(problem.likelihood, prior, problem.rows, family)
    return Learnt(result, prior, np.eye(1), result.solution.status)


def find_mode(objective: Objective, start: Array, search: Search) -> InferenceResult:
    """The mode; the best of several where there may be others."""
    if objective.log_concave:
        return laplace(objective, sampled_start(objective, start), search.controls)
    return best_laplace(objective, start, search.controls)


@contextmanager
def explained(why: str | None) -> Iterator[None]:
    """Say what a prior that vanishes beside the rows means to a user; None leaves that to the caller."""
    try:
        yield
    except NotPositiveDefinite as error:
        if why is None or isinstance(error, SingularPriorError):
            raise
        raise SingularPriorError(why.format(error)) from error


def explicit_prior(choice: Normal | StudentT, problem: Problem) -> tuple[PriorDensity, Normal | StudentT]:
    """A prior in data units as a density in the frame, and with all its numbers, as it was used."""
    refuse_wide(problem)
    shape, frame = problem.shape, problem.frame
    # Rows of `axes` are the frame's unit vectors in data units, so that precision_u = (axes' whitener)ᵀ(…).
    axes = block_diagonal(frame.to_data(np.eye(shape.per_output)), shape.n_outputs)
    if isinstance(choice, StudentT):
        volume = -shape.n_outputs * frame.log_volume
        return IndependentStudent(choice.degrees, choice.scales(shape), axes, volume), choice
    if isinstance(choice, CentredNormal):
        independent = IndependentPrior.of(choice, shape)
        precision = from_root(independent.whiten(frame.to_data(np.eye(shape.per_output))))
        factor = np.asfortranarray(block_diagonal(precision.factor, shape.n_outputs))
        return Gaussian(frame.to_frame(independent.mean).reshape(-1), PSD(factor)), choice
    moments = choice.moments(shape)
    mean = frame.to_frame(moments.mean.reshape(shape.n_outputs, -1)).reshape(-1)
    with explained(BESIDE_COLUMNS):
        prior = Gaussian.from_mapped_moments(mean, moments.cov, axes, "the prior")
    return prior, Normal(mean=moments.mean, cov=moments.cov)


def learn_scales(problem: Problem, choice: str, search: Search, start: Array | None = None) -> Learnt:
    """Fit with the prior scales of highest evidence; a `start` for the weights says which mode is to be followed."""
    refuse_wide(problem)
    d = problem.shape.n_features
    group = np.zeros(d, dtype=np.intp) if choice == "empirical" else np.arange(d)
    row = None
    if problem.shape.intercept:  # the intercept at the column means, as a combination of the frame's weights
        row = np.append((problem.columns.mean - problem.frame.center) / problem.frame.scale, 1.0)
    priors = ScaledPriors(group, row, problem.shape.n_outputs, problem.unit, problem.intercept_scale)
    contrast = np.eye(problem.shape.n_outputs)
    objective = objective_of(problem, None, contrast)
    with explained(BESIDE_ROWS):
        if start is not None:
            best = maximise_evidence(objective, priors, search.controls, start)
        else:
            best = _best_scales(objective, priors, search, problem.start)
    prior = priors.prior(best.theta)
    scale = problem.unit * np.exp(best.theta)
    resolved = standardised_prior(problem, scale)
    if search.seed is not None:
        walked = learn_from(problem, prior, contrast, search)
        status = walked.status if best.status.good else best.status
        return walked._replace(status=status, resolved=resolved, prior_scale=scale)
    return Learnt(best.result, prior, contrast, best.status, resolved, scale)


def _best_scales(objective: Objective, priors: ScaledPriors, search: Search, start: Array | None) -> Maximum:
    """The scales of highest evidence; where there may be several modes, those of the highest one found."""
    if objective.likelihood.log_concave:
        return maximise_evidence(objective, priors, search.controls, start)
    best: Maximum | None = None
    for _ in range(MOST_ROUNDS):
        prior = priors.prior(np.zeros(priors.n_scales) if best is None else best.theta)
        first = prior.mean if start is None else start
        highest = best_laplace(replace(objective, prior=prior), first, search.controls)
        if best is not None and highest.log_evidence <= best.result.log_evidence + HIGHER:
            break
        best = maximise_evidence(objective, priors, search.controls, start=highest.posterior.mean)
    assert best is not None
    return best


def standardised_prior(problem: Problem, scale: Array) -> Normal:
    """The learnt prior in data units: slopes s/spread, the intercept at the column means with its own scale."""
    columns, shape = problem.columns, problem.shape
    slopes = np.broadcast_to(scale, (shape.n_features,)) / columns.scale
    if not shape.intercept:
        return Normal(mean=np.zeros(shape.per_output), cov=np.diag(slopes**2))
    root = np.diag(np.append(slopes, problem.intercept_scale))
    root[-1, :-1] = -slopes * columns.mean
    return Normal(mean=np.zeros(shape.per_output), cov=root @ root.T)


def _by_conjugate_gradients(problem: Problem, choice: PriorChoice, search: Search) -> bool:
    """Whether a fit can do without a matrix of all pairs of weights."""
    kind = isinstance(problem.likelihood, Likelihood | Categorical) and problem.likelihood.log_concave
    return kind and has_independent_slopes(choice) and search.seed is None


def _learn_wide(problem: Problem, choice: PriorChoice, search: Search) -> Learnt:
    """Laplace by conjugate gradients."""
    assert isinstance(problem.likelihood, Likelihood | Categorical)
    shape, start, scale, at_bound = problem.shape, None, None, False

    def prior_at(theta: float) -> IndependentPrior:
        return IndependentPrior.of(scaled_prior(problem, problem.unit * float(np.exp(theta))), shape)

    prior = IndependentPrior.of(choice, shape) if isinstance(choice, Normal) else prior_at(0.0)
    objective = WideObjective(problem.likelihood, problem.raw, prior, intercept=shape.intercept)
    resolved = choice
    if not isinstance(choice, Normal):
        theta, start = best_scale(objective, prior_at, LOG_BOUNDS, search.controls, problem.limits)
        scale, at_bound = problem.unit * np.exp(np.array([theta])), theta in LOG_BOUNDS
        objective, resolved = objective.with_prior(prior_at(theta)), scaled_prior(problem, float(scale[0]))
    assert isinstance(resolved, Normal)
    result, se = wide_laplace(objective, problem.frame, search.controls, problem.limits, start)
    status = Status.SCALE_AT_BOUND if at_bound and result.solution.status.good else result.solution.status
    return Learnt(result, None, np.eye(shape.n_outputs), status, resolved, scale, log_evidence_se=se)


def _without_prior(problem: Problem, search: Search) -> Learnt:
    refuse_collinear(problem)
    contrast = sum_to_zero(problem.shape.n_outputs)
    try:
        learnt = learn_from(problem, None, contrast, search)
    except NotPositiveDefinite as error:
        refuse_separated(problem)
        refuse_offsets(problem)
        raise CollinearityError(
            "The information matrix became singular on the way to the maximum-likelihood estimate: some combination of "
            "columns is hardly determined by these rows. Use a prior, e.g. Normal(scale=2.5)."
        ) from error
    refuse_infinite(problem, learnt)
    return learnt


def _with_jeffreys(problem: Problem, choice: Jeffreys, search: Search) -> Learnt:
    refuse_collinear(problem)
    if search.seed is not None:
        raise InputError('solver="sgd" cannot follow Jeffreys(): its pull is no sum over rows. Use solver="newton".')
    contrast = sum_to_zero(problem.shape.n_outputs)
    objective = objective_of(problem, None, contrast)
    result = jeffreys(objective, first_point(problem, None, contrast), search.controls)
    return Learnt(result, None, contrast, result.solution.status, choice)
