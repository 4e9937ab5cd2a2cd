"""From data and a specification to a frozen fit: the way of every linear model, in order.

data → design (coordinates) → choices (likelihood and prior, as functions of what is learnt)
→ the first rung, at the scales of highest evidence → its check → the next rung → the fit
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from credibly.data.memory import refuse_beyond_memory
from credibly.data.rows import MemoryRows
from credibly.errors import InputError, NotPositiveDefinite, SingularPriorError
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.adf import FullCovariance, Spherical, adf
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.auto import checked
from credibly.inference.linear.design import ClassMap, Design, Standardization
from credibly.inference.linear.ep import ep
from credibly.inference.linear.exact import WhiteTarget, WhiteWeights, WhiteWeightsAndScale, exact
from credibly.inference.linear.glm import (
    PERFECT,
    at_edge,
    averages_exist,
    dispersion_of,
    first_dispersion,
    fitted_scores,
    glm_units,
    has_dispersion,
    least_squares,
    no_maximum,
    pearson_sum,
    starting_point,
    target_moments,
    with_dispersion,
)
from credibly.inference.linear.hyper import (
    LOG_SCALE_BOUNDS,
    Choices,
    FreeScales,
    Joint,
    Maximum,
    Moments,
    Parameter,
    Run,
    integral_beside_peak,
    maximise,
    nothing,
)
from credibly.inference.linear.identifiability import (
    refuse_collinear,
    refuse_fewer_rows,
    refuse_infinite,
    singular_information,
)
from credibly.inference.linear.jeffreys import jeffreys
from credibly.inference.linear.laplace import laplace, sample_sizes, stochastic_gradient
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.posterior import DrawnPosterior, WeightPosterior
from credibly.inference.linear.priors import (
    BESIDE_COLUMNS,
    INTERCEPT_SCALE,
    FreePrior,
    PriorDensity,
    ScaledPriors,
    given_prior,
    in_data_units,
    treats_classes_alike,
)
from credibly.inference.linear.row_space import all_rows, in_row_space, refuse_growth, scaled_prior, worth_reducing
from credibly.inference.linear.several_starts import best_laplace, one_search
from credibly.inference.linear.spec import Data, LinearSpec, PriorChoice, refuse_combinations
from credibly.inference.linear.variational import variational, variational_with_scales
from credibly.inference.linear.wide import WideGaussian, WideObjective, best_scale, refuse_wide, wide_laplace
from credibly.model.centred_prior import IndependentPrior
from credibly.model.likelihoods import BernoulliLogit, Categorical, Likelihood
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.priors import Jeffreys, Normal, StudentT, WeightShape
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import Start
from credibly.numerics.sampling import CHAIN_SETTINGS, Chains
from credibly.numerics.settings import ManyWeights
from credibly.numerics.softmax_averages import FEW_POINTS, POINTS
from credibly.numerics.status import Controls, Report, Status, silent

FIRST_FLIPS = (0.02, 0.1, 0.3)  # flip probabilities to start from: the likelihood has several modes
FLIP_BOUNDS = (-16.0, 8.0)  # of logit 2ε: from 6e-8 to nearly one half
NO_FLIPS = -15.9  # below that, an estimate with no prior to hold it is zero
WIDEST_DISPERSION = 12.0  # in log dispersion, on either side of a first guess
DISPERSION_SPREAD = 3.0  # of the log-normal prior under which a dispersion is integrated out, around that guess
SAME_MODE = 1e-2  # in logits of flip probabilities
EVIDENCE_ROUNDING = 1e-9  # of a log evidence

FILTERS = ("adf", "adf_spherical")
FIRST_RUNG = {"auto": "laplace", "exact": "variational", "adf": "laplace", "adf_spherical": "laplace"}
BRIEF_STEPS = 3  # sweeps of EP while scales are moving
VARIATIONAL_TOL = 1e-6  # a weight, squared standard deviations: averages at fixed points are no better

WIDER = 0.5  # log scales by which the prior of "hierarchical" is widened to see how the weights follow

NO_LIMITS = ManyWeights(narrow=10**9, largest_matrix=10**9)
FULL_ARRAYS = 5  # of all pairs of weights that a fit holds at the same time, at the least

BESIDE_ROWS = (
    "The prior on standardised columns is numerically singular beside these rows ({}) Without an intercept, some "
    "column's mean is huge against its spread, or sample_weight is huge: centre the columns, use fit_intercept=True, "
    "or divide the weights."
)


BESIDE_EARLIER_ROWS = (
    "The posterior of the rows before is numerically singular beside these ({}) Give all batches the same units and "
    "centres, or fit to all rows at once."
)


@dataclass(frozen=True)
class LinearFit:
    """A fitted linear model: everything that predictions, tests, certificates and reports are functions of."""

    spec: LinearSpec
    shape: WeightShape
    names: tuple[str, ...]
    likelihood: AnyLikelihood  # with what was learnt of it
    resolved: PriorChoice  # the prior in data units, with what was learnt of it
    scales: Array | None  # learnt prior scales on standardized columns; draws of the one of "hierarchical"
    parameters: Moments  # posterior of what was learnt of the likelihood
    noise_modes: tuple["NoiseMode", ...]
    prior: PriorDensity | None  # of the free weights, before any rows
    posterior: WeightPosterior
    log_evidence: float
    log_evidence_se: float
    integrated_log_evidence: float
    log_likelihood: float
    rung: str
    status: Status
    steps: int
    decrement: float
    n_rows: int
    n_parts: int = 1  # calls of fit and partial_fit

    @property
    def weights(self) -> Array:
        """The estimate: one weight vector per class, intercept last, in data units, (K, D)."""
        return self.posterior.mean.reshape(self.shape.n_outputs, -1)

    @property
    def dispersion(self) -> float:
        """The dispersion of a GLM's family; NaN where the rows cannot tell it."""
        assert isinstance(self.likelihood, FamilyLikelihood)
        unknown = self.status in {Status.FITTED_EXACTLY, Status.UNDETERMINED}
        return float("nan") if unknown else dispersion_of(self.likelihood)

    @property
    def effective_parameters(self) -> float:
        """How many weights the data determined: M - tr(S₀⁻¹ S_N), with a Student-t prior's curvature at the mean."""
        q = self.posterior.free
        if self.spec.flat:
            return float(self.n_identified - self.spec.n_parameters)
        if isinstance(q, WideGaussian):
            return q.effective_parameters
        assert self.prior is not None
        plus, minus = self.prior.hessian_roots(q.mean)
        return float(q.mean.size - ((q.root @ plus) ** 2).sum() + ((q.root @ minus) ** 2).sum())

    def prior_draws(self, rng: np.random.Generator, size: int) -> Array | None:
        """Draws of the weights before any rows, (size, M), in data units; None where the prior is no distribution."""
        if self.prior is None:
            return None
        return WeightPosterior.to_weights(self.posterior, rng, self.prior.sample(rng, size))

    @property
    def n_identified(self) -> int:
        """Weights and parameters of the likelihood that rows can tell: what AIC and BIC count."""
        return max(1, self.shape.n_outputs - 1) * self.shape.per_output + self.spec.n_parameters


def with_flips(fit: LinearFit) -> Gaussian | None:
    """The free weights and the logits of flip probabilities together; None where flips are given, or unknown.

    The weights have the covariance of the fit, and the logits that of the weights' Gaussian, along which they move.
    """
    belief, moments, q = fit.spec.flips, fit.parameters, fit.posterior.free
    if belief is None or np.isnan(moments.covariance).any() or fit.n_parts > 1:
        return None
    white = q.precision.factor.T @ moments.moved @ moments.covariance  # cov(Lᵀx, θ)
    left = PSD.of(moments.covariance - white.T @ white, "the covariance of flips given the weights")
    M, T = moments.moved.shape
    root = np.block([[q.root.T, np.zeros((M, T))], [white.T, left.factor]])
    return Gaussian.from_covariance_root(np.append(q.mean, moments.mode), root)


@dataclass(frozen=True)
class NoiseMode:
    """One mode of the evidence in the flip probabilities."""

    flips: Array
    flips_sd: Array
    log_evidence: float
    log_joint: float


@dataclass(frozen=True)
class Problem:
    """Data and choices in the coordinates of a fit."""

    data: Data
    spec: LinearSpec
    shape: WeightShape
    design: Design
    choices: Choices
    start: Array
    given: FreePrior | None  # the prior, where it is given
    controls: Controls

    @classmethod
    def of(cls, data: Data, spec: LinearSpec, report: Report) -> "Problem":
        """Set up coordinates, and likelihood and prior as functions of what is learnt."""
        shape, likelihood = spec.shape(data), spec.likelihood
        alike = shape.n_outputs > 1 and treats_classes_alike(spec.prior, shape)
        classes = ClassMap.contrasts(shape.n_outputs) if alike else ClassMap.separate(shape.n_outputs)
        standard = Standardization.of(data.columns, intercept=spec.intercept, sparse=data.sparse)
        design = Design(standard, classes, data.columns)
        if alike and shape.n_outputs == 2:
            likelihood = of_difference(likelihood)
        glm = isinstance(likelihood, FamilyLikelihood)
        given: FreePrior | None = None
        prior: PriorDensity | ScaledPriors | None = None
        if isinstance(spec.prior, str):
            d = shape.n_features
            group = np.arange(d) if spec.prior == "ard" else np.zeros(d, dtype=np.intp)
            unit, intercept_scale = glm_units(data, likelihood) if glm else (1.0, INTERCEPT_SCALE)
            prior = ScaledPriors(design, group, unit, intercept_scale)
        elif isinstance(spec.prior, Normal | StudentT):
            given = given_prior(spec.prior, design, shape)
            prior = given.free
        flat = Objective(data.rows, design, likelihood, None)
        start = starting_point(flat, data) if glm else np.zeros(design.size) if given is None else given.free.mean
        choices = Choices(lambda _: likelihood, prior)
        if spec.flips is not None:
            choices = _with_flips(choices, spec, likelihood)
        if spec.free_dispersion:
            choices = _with_dispersion(choices, data, likelihood)
        return cls(data, spec, shape, design, choices, start, given, Controls(spec.tol, spec.max_iter, report))

    def at(self, theta: Array) -> Objective:
        """The objective with likelihood and prior at θ."""
        return Objective(self.data.rows, self.design, *self.choices.at(theta))


def of_difference(likelihood: AnyLikelihood) -> Likelihood:
    """The softmax of two classes as a likelihood of the difference of their scores."""
    if isinstance(likelihood, NoisyCategorical):
        return LabelNoise(BernoulliLogit(), likelihood.flip, likelihood.flip)
    assert isinstance(likelihood, Categorical)
    return BernoulliLogit()


def _with_flips(choices: Choices, spec: LinearSpec, likelihood: AnyLikelihood) -> Choices:
    belief = spec.flips
    assert belief is not None and isinstance(likelihood, LabelNoise | NoisyCategorical)

    def at(theta: Array) -> AnyLikelihood:
        flips = belief.flips(theta)
        return likelihood.with_flips(np.resize(flips, likelihood.flips.shape))

    def log_belief(value: float) -> float:
        return 0.0 if spec.prior is None else belief.log_density(value)

    one = Parameter(_logit(FIRST_FLIPS[1]), FLIP_BOUNDS, log_belief, belief.log_density)
    return replace(choices, likelihood=at, parameters=(one,) * belief.n_free, at_bound=Status.NO_LABEL_NOISE)


def _logit(flip: float) -> float:
    return float(np.log(2 * flip / (1 - 2 * flip)))


def _with_dispersion(choices: Choices, data: Data, likelihood: AnyLikelihood) -> Choices:
    assert isinstance(likelihood, FamilyLikelihood)
    guess = first_dispersion(data, likelihood)

    def weak(value: float) -> float:
        z = (value - guess) / DISPERSION_SPREAD
        return float(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - np.log(DISPERSION_SPREAD))

    bounds = (guess - WIDEST_DISPERSION, guess + WIDEST_DISPERSION)
    parameter = Parameter(guess, bounds, lambda _: 0.0, weak)
    return replace(
        choices, likelihood=lambda theta: with_dispersion(likelihood, float(np.exp(theta[0]))), parameters=(parameter,)
    )


# --- rungs --------------------------------------------------------------------------------------------------


def _laplace(problem: Problem, theta: Array, near: Approximation | None, *, brief: bool) -> Approximation:
    objective, spec = problem.at(theta), problem.spec
    if near is None:
        if spec.solver == "sgd":
            rng = np.random.default_rng(spec.seed)
            return stochastic_gradient(rng, objective, problem.start, problem.controls)
        if objective.log_concave:
            return laplace(objective, problem.start, problem.controls)
        return best_laplace(objective, problem.start, problem.controls)
    start: Array | Start = near.q.mean
    if objective.log_concave and sample_sizes(objective, near.q.mean.size):
        start = Start(near.q.mean, near.q.mean, near.q.precision, near.nonlinearity)
    return laplace(objective, start, problem.controls)


def _variational(problem: Problem, theta: Array, near: Approximation | None, *, brief: bool) -> Approximation:
    near = _laplace(problem, theta, None, brief=False) if near is None else near
    points = FEW_POINTS if brief else POINTS
    return variational(problem.at(theta), near.q, _variational_controls(problem), points=points)


def _variational_controls(problem: Problem) -> Controls:
    """One score a row is averaged to rounding, several are not."""
    likelihood, _ = problem.choices.at(problem.choices.start)
    if isinstance(likelihood, Likelihood):
        return problem.controls
    return problem.controls._replace(tol=max(problem.controls.tol, VARIATIONAL_TOL * problem.design.size))


def _with_scales(problem: Problem, theta: Array, near: Approximation | None) -> tuple[Array, Approximation]:
    """Prior scales and the variational approximation together."""
    near = _laplace(problem, theta, None, brief=False) if near is None else near
    assert isinstance(problem.choices.prior, ScaledPriors)
    scales = FreeScales(problem.choices.prior, problem.at)
    return variational_with_scales(scales, theta, near.q, _variational_controls(problem))


def _joint_search(problem: Problem, rung: str) -> Joint | None:
    return partial(_with_scales, problem) if rung == "variational" else None


def _ep(problem: Problem, theta: Array, near: Approximation | None, *, brief: bool) -> Approximation:
    near = _laplace(problem, theta, None, brief=False) if near is None else near
    controls = problem.controls
    return ep(problem.at(theta), near, controls._replace(max_steps=BRIEF_STEPS) if brief else controls)


def _adf(problem: Problem, theta: Array, near: Approximation | None, *, brief: bool) -> Approximation:
    return adf(problem.at(theta), FullCovariance)


def _adf_spherical(problem: Problem, theta: Array, near: Approximation | None, *, brief: bool) -> Approximation:
    return adf(problem.at(theta), Spherical)


def _exact(problem: Problem, theta: Array, near: Approximation | None, *, brief: bool) -> Approximation:
    assert near is not None
    spec = problem.spec
    settings = CHAIN_SETTINGS if spec.max_passes is None else replace(CHAIN_SETTINGS, max_passes=spec.max_passes)
    rng, objective = np.random.default_rng(spec.seed), problem.at(theta)
    target: WhiteTarget = WhiteWeights(objective, near.q)
    if spec.prior == "hierarchical":
        priors = problem.choices.prior
        assert isinstance(priors, ScaledPriors)
        wider = _variational(problem, theta + WIDER, near, brief=False).q
        follow = priors.growth(near.q.mean, wider.mean) / WIDER
        target = WhiteWeightsAndScale(objective, priors, float(theta[0]), near.q, float(np.clip(follow, 0.0, 1.0)))
    return exact(rng, target, objective, problem.controls, draws=spec.draws, settings=settings)


RUNGS = {
    "laplace": _laplace,
    "variational": _variational,
    "ep": _ep,
    "exact": _exact,
    "adf": _adf,
    "adf_spherical": _adf_spherical,
}


# --- the fit ------------------------------------------------------------------------------------------------


def fit_linear(data: Data, spec: LinearSpec, report: Report = silent) -> LinearFit:
    """Fit a linear model.

    Parameters
    ----------
    data : Data
        Rows in memory, in files or on a cluster.
    spec : LinearSpec
    report : function of (step, objective, squared distance)
        Called at every step.

    Returns
    -------
    LinearFit

    Notes
    -----
    "auto" takes Laplace where the check of `auto` bears it out, else EP (one score a row, rows in memory, every weight
    0 or at least 1) or variational inference. What is learnt maximises the evidence of the rung that is used; "exact"
    and the filters take the scales of the rung before them.
    """
    refuse_combinations(spec, data)
    if worth_reducing(data, spec):
        return _in_row_space(data, spec, report)
    if spec.flat:
        refuse_fewer_rows(data, spec.shape(data).per_output)
    if spec.shape(data).total > spec.limits.largest_matrix:
        return _wide(data, spec, report)
    _refuse_beyond_memory(spec.shape(data).total)
    problem = Problem.of(data, spec, report)
    if spec.flat:
        return _without_prior(problem)
    rung = _first_rung(spec)
    with _explained(problem):
        best, modes = _learnt(problem, rung)
        later = _later_rung(problem, best)
        if later is not None:
            rung, best = _by_later_rung(problem, later, best)
        elif spec.inference not in ("auto", rung):
            rung, found = spec.inference, RUNGS[spec.inference](problem, best.theta, best.found, brief=False)
            ratio = best.scales_ratio if found.log_scales is None else nothing
            status = best.status if best.theta.size and found.status.good else found.status  # of the search for θ
            best = best._replace(found=found, status=status, scales_ratio=ratio)
    return _fit(problem, best, rung, modes)


def _first_rung(spec: LinearSpec) -> str:
    """The rung that a fit begins with: draws are whitened by Laplace where averages over a Gaussian do not exist."""
    if spec.inference == "exact" and not averages_exist(spec.likelihood):
        return "laplace"
    return FIRST_RUNG.get(spec.inference, spec.inference)


def _refuse_beyond_memory(n_weights: int) -> None:
    advice = "Use fewer columns, or a machine with more memory."
    refuse_beyond_memory(FULL_ARRAYS * n_weights**2, f"the matrices of all pairs of {n_weights:,} weights", advice)


def _learnt(problem: Problem, rung: str) -> tuple[Maximum, tuple[NoiseMode, ...]]:
    """The first rung at the θ of highest evidence; where flips are learnt, the best of several modes."""
    first = "laplace" if problem.choices.parameters else rung  # of the likelihood's parameters Laplace decides
    run = partial(RUNGS[first], problem)
    modes: tuple[NoiseMode, ...] = ()
    if problem.spec.flips is None:
        joint = _joint_search(problem, first)
        best = maximise(run, problem.choices, problem.at, moves=first == "laplace", jointly=joint)
    else:
        best, modes = _best_flips(problem, run)
    return (best if first == rung else _again(problem, rung, best)), modes


def _again(problem: Problem, rung: str, before: Maximum) -> Maximum:
    """The scales of highest evidence by another rung; parameters of the likelihood stay."""
    n = problem.choices.n_scales
    choices = problem.choices.with_parameters(before.theta[n:])
    fixed = replace(problem, choices=choices)
    run = partial(RUNGS[rung], fixed)
    joint = _joint_search(fixed, rung)
    best = maximise(run, choices, fixed.at, before.theta[:n], before.found, moves=False, jointly=joint)
    return best._replace(theta=np.concatenate([best.theta, before.theta[n:]]), parameters=before.parameters)


def _later_rung(problem: Problem, best: Maximum) -> str | None:
    """The rung that "auto" goes on to; None where Laplace may stay, or nothing better is known."""
    spec, found = problem.spec, best.found
    if spec.inference != "auto" or spec.solver == "sgd" or not averages_exist(spec.likelihood):
        return None
    objective = problem.at(best.theta)
    if checked(objective, found).holds:
        return None
    return "ep" if takes_ep(objective) else "variational"


def _by_later_rung(problem: Problem, rung: str, before: Maximum) -> tuple[str, Maximum]:
    """The rung that "auto" went on to, and its result.

    Without a log-concave likelihood EP may not settle, or have sites that no prior holds: then it is variational.
    """
    if rung == "ep" and not problem.at(before.theta).likelihood.log_concave:
        try:
            best = _again(problem, rung, before)
        except NotPositiveDefinite:
            rung = "variational"
        else:
            if best.status.good:
                return rung, best
            rung = "variational"
    return rung, _again(problem, rung, before)


def takes_ep(objective: Objective) -> bool:
    """Whether expectation propagation can do it: one score a row, rows in memory, none that counts in part."""
    if not (isinstance(objective.likelihood, Likelihood) and objective.likelihood.two_labels):
        return False
    if not (isinstance(objective.prior, Gaussian) and isinstance(objective.rows, MemoryRows)):
        return False
    weight = objective.rows.weight
    return weight is None or bool(((weight == 0) | (weight >= 1)).all())


def _best_flips(problem: Problem, run: Run) -> tuple[Maximum, tuple[NoiseMode, ...]]:
    """The best of the modes that a search from several flip probabilities finds, and all of them."""
    n = problem.choices.n_scales
    found: list[Maximum] = []
    starts = FIRST_FLIPS[1:2] if one_search(problem.at(problem.choices.start), problem.start) else FIRST_FLIPS
    failure: NotPositiveDefinite | None = None
    for flip in starts:
        theta = problem.choices.start
        theta[n:] = _logit(flip)
        try:
            mode = maximise(run, problem.choices, problem.at, theta, moves=True)
        except NotPositiveDefinite as error:  # without a prior one search may run away where others do not
            failure = error
            continue
        if not any(np.abs(mode.theta[n:] - other.theta[n:]).max() < SAME_MODE for other in found):
            found.append(mode)
    if failure is not None and not found:
        raise failure
    found.sort(key=_mode_rank, reverse=True)
    modes = [mode for mode in found if mode.status.good] or found[:1]
    return modes[0], tuple(_noise_mode(problem, mode) for mode in modes)


def _mode_rank(mode: Maximum) -> tuple[bool, float]:
    if np.isnan(mode.found.log_evidence):  # there is no prior
        return mode.status.good, mode.found.log_likelihood
    value = mode.log_integral
    return mode.status.good, value if np.isfinite(value) else -np.inf  # no maximum that could be integrated around


def _noise_mode(problem: Problem, mode: Maximum) -> NoiseMode:
    """Posterior mean and sd of the flip probabilities around one mode; by the delta method where there is no prior."""
    belief, moments = problem.spec.flips, mode.parameters
    assert belief is not None
    flips = np.array([belief.flips(point) for point in moments.points])
    mean = np.where(belief.index < 0, belief.fixed, moments.share @ flips)  # shares add to one but for rounding
    if problem.spec.flat:  # nothing holds an estimate that is zero
        mean = np.where((belief.index >= 0) & (moments.mode[belief.index] < NO_FLIPS), 0.0, mean)
    variance = np.append(np.diag(moments.covariance), 0.0)[belief.index]  # NaN at a bound
    if len(flips) > 1:
        sd = np.where(np.isnan(variance), np.nan, np.sqrt(moments.share @ (flips - mean) ** 2))
    else:
        rate = mean * (1 - 2 * mean)  # dε/dθ of ε = ½σ(θ)
        sd = np.where(belief.index < 0, 0.0, rate * np.sqrt(variance))
    log_joint = mode.found.log_likelihood + problem.choices.log_belief(mode.theta)
    return NoiseMode(mean, sd, mode.log_integral, log_joint)


@contextmanager
def _explained(problem: Problem, *, update: bool = False) -> Iterator[None]:
    """Say what a matrix that is not positive definite means to a user."""
    try:
        yield
    except SingularPriorError:
        raise
    except NotPositiveDefinite as error:
        if update:
            raise SingularPriorError(BESIDE_EARLIER_ROWS.format(error)) from error
        if isinstance(problem.spec.likelihood, FamilyLikelihood):
            raise no_maximum(problem.spec.likelihood, error) from error
        raise SingularPriorError(
            (BESIDE_ROWS if problem.spec.learns_scales else BESIDE_COLUMNS).format(error)
        ) from error


def _fit(problem: Problem, best: Maximum, rung: str, modes: tuple[NoiseMode, ...]) -> LinearFit:
    """The frozen fit."""
    spec, data, found, n = problem.spec, problem.data, best.found, problem.choices.n_scales
    likelihood, prior = problem.choices.at(best.theta)
    shared, resolved, scales = None, spec.prior, None
    if problem.given is not None:
        shared, resolved = problem.given.shared, problem.given.resolved
    if isinstance(problem.choices.prior, ScaledPriors):
        priors = problem.choices.prior
        shared, resolved = priors.shared(best.theta[:n]), priors.resolved(best.theta[:n])
        scales = priors.unit * np.exp(best.theta[:n])
        if found.log_scales is not None:
            drawn = np.exp(found.log_scales)
            resolved, scales = priors.resolved(np.log([drawn.mean()])), priors.unit * drawn
            shared = priors.shared(0.5 * np.log([np.mean(drawn**2)]))  # with the variance that it has over all draws
    if rung == "adf_spherical":  # which starts from the nearest Gaussian with one variance
        assert isinstance(prior, Gaussian)
        prior = Spherical.project(prior)
        before = WeightPosterior(prior, None, problem.design)
        resolved = Normal(mean=before.mean, cov=before.cov)
    free, chains = found.q, found.chains
    if spec.flips is not None:  # the estimate of flips is their posterior mean
        assert isinstance(likelihood, LabelNoise | NoisyCategorical)
        likelihood = likelihood.with_flips(np.resize(modes[0].flips, likelihood.flips.shape))
        free, chains = _widened(found, best.parameters, spec.seed)
    if chains is not None:
        posterior: WeightPosterior = DrawnPosterior(free, shared, problem.design, chains)
    else:
        posterior = WeightPosterior(free, shared, problem.design)
    return LinearFit(
        spec=spec,
        shape=problem.shape,
        names=data.names,
        likelihood=likelihood,
        resolved=resolved,
        scales=scales,
        parameters=best.parameters,
        noise_modes=modes,
        prior=prior,
        posterior=posterior,
        log_evidence=found.log_evidence + data.log_constant,
        log_evidence_se=found.log_evidence_se,
        integrated_log_evidence=best.log_integral + data.log_constant,
        log_likelihood=found.log_likelihood + data.log_constant,
        rung=rung,
        status=_final_status(problem, best),
        steps=found.steps,
        decrement=found.decrement,
        n_rows=data.n_counted,
    )


def _of_parameters(moments: Moments) -> Array:
    """How weights move with what is not known of the likelihood's parameters, a column for each of those, (M, T)."""
    known = np.flatnonzero(~np.isnan(np.diag(moments.covariance)))
    covariance = PSD.of(moments.covariance[np.ix_(known, known)], "the covariance of the parameters")
    return np.asarray(moments.moved[:, known] @ covariance.factor)


def _widened(found: Approximation, moments: Moments, seed: int) -> tuple[Gaussian, Chains | None]:
    """Gaussian and draws with what is not known of the likelihood's parameters: the mean moves with them."""
    q, chains, columns = found.q, found.chains, _of_parameters(moments)
    if not columns.size:
        return q, chains
    if chains is None:
        return Gaussian.from_covariance_root(q.mean, np.hstack([q.root.T, columns])), None
    more = np.random.default_rng(seed).standard_normal((*chains.points.shape[:2], columns.shape[1])) @ columns.T
    points = chains.points + more - more.mean(axis=(0, 1))
    flat = points.reshape(-1, len(q.mean))
    q = Gaussian.from_covariance_root(q.mean, (flat - q.mean).T / np.sqrt(len(flat)))
    return q, replace(chains, points=points)


def _final_status(problem: Problem, best: Maximum) -> Status:
    spec, likelihood = problem.spec, problem.spec.likelihood
    if isinstance(likelihood, FamilyLikelihood):
        unchecked = spec.inference == "auto" and not spec.flat and not averages_exist(likelihood)
        if unchecked and best.status is Status.CONVERGED:
            return Status.LAPLACE_UNCHECKED
        if best.status is Status.STALLED:
            at_end = fitted_scores(problem.design.to_data(best.found.q.mean)[0])
            return Status.EDGE_OF_DOMAIN if at_edge(problem.data, likelihood, at_end) else best.status
    elif best.status.good and best.found.log_evidence > EVIDENCE_ROUNDING:
        return Status.EVIDENCE_ABOVE_ZERO  # a probability of labels is at most one
    return best.status


# --- very many weights --------------------------------------------------------------------------------------


def _in_row_space(data: Data, spec: LinearSpec, report: Report) -> LinearFit:
    """Fewer rows than weights: an ordinary problem in the space of the rows, exactly."""
    space, reduced, prior = in_row_space(data, spec)
    fit = fit_linear(reduced, replace(spec, prior=prior, limits=NO_LIMITS), report)
    resolved = (
        in_data_units(spec.prior, data.columns, spec.shape(data)) if isinstance(spec.prior, Normal) else spec.prior
    )
    if fit.scales is not None:
        assert isinstance(fit.resolved, Normal) and fit.resolved.cov is not None
        intercept_scale = float(np.sqrt(np.atleast_2d(fit.resolved.cov)[-1, -1]))
        space = replace(space, prior_sd=float(fit.scales[0]))
        resolved = scaled_prior(data, float(fit.scales[0]), intercept_scale)
    design = Design(space, fit.posterior.design.classes, data.columns)
    posterior = replace(fit.posterior, design=design)
    return replace(fit, spec=spec, shape=spec.shape(data), names=data.names, resolved=resolved, posterior=posterior)


def _wide(data: Data, spec: LinearSpec, report: Report) -> LinearFit:
    """Many weights and many rows: the mode by conjugate gradients, the posterior by draws."""
    refuse_wide(data, spec)
    shape, likelihood, controls = spec.shape(data), spec.likelihood, Controls(spec.tol, spec.max_iter, report)
    assert isinstance(likelihood, Likelihood | Categorical)

    def objective_at(prior: Normal) -> WideObjective:
        return WideObjective(likelihood, data.rows, IndependentPrior.of(prior, shape), intercept=spec.intercept)

    start, scales, log_integral = None, None, 0.0
    resolved: Normal
    if isinstance(spec.prior, str):
        glm = isinstance(likelihood, FamilyLikelihood)
        unit, intercept_scale = glm_units(data, likelihood) if glm else (1.0, INTERCEPT_SCALE)

        def prior_at(theta: float) -> IndependentPrior:
            return IndependentPrior.of(scaled_prior(data, unit * float(np.exp(theta)), intercept_scale), shape)

        first = WideObjective(likelihood, data.rows, prior_at(0.0), intercept=spec.intercept)
        best = best_scale(first, prior_at, LOG_SCALE_BOUNDS, controls, spec.limits)
        scales, start = np.array([unit * np.exp(best.theta)]), best.weights
        log_integral = integral_beside_peak(best.theta, best.curvature)
        resolved = scaled_prior(data, float(scales[0]), intercept_scale)
    else:
        assert isinstance(spec.prior, Normal)
        resolved = in_data_units(spec.prior, data.columns, shape)
    standard = Standardization.of(data.columns, intercept=spec.intercept, sparse=data.sparse)
    found = wide_laplace(objective_at(resolved), standard, controls, spec.limits, start)
    design = Design(standard, ClassMap.separate(shape.n_outputs), data.columns)
    status, bounds = found.status, LOG_SCALE_BOUNDS
    if status.good and scales is not None and float(np.log(scales[0] / unit)) in bounds:
        status = Status.SCALE_AT_BOUND
    return LinearFit(
        spec=spec,
        shape=shape,
        names=data.names,
        likelihood=likelihood,
        resolved=resolved,
        scales=scales,
        parameters=Moments.none(found.q.mean.size),
        noise_modes=(),
        prior=None,
        posterior=WeightPosterior(found.q, None, design),
        log_evidence=found.log_evidence + data.log_constant,
        log_evidence_se=found.log_evidence_se,
        integrated_log_evidence=found.log_evidence + log_integral + data.log_constant,
        log_likelihood=found.log_likelihood + data.log_constant,
        rung="laplace",
        status=status,
        steps=found.steps,
        decrement=found.decrement,
        n_rows=data.n_counted,
    )


# --- without a prior ----------------------------------------------------------------------------------------


def _without_prior(problem: Problem) -> LinearFit:
    """Maximum likelihood, or the Jeffreys prior: no evidence, and estimates that the rows must determine."""
    spec = problem.spec
    flat = problem.at(problem.choices.start)
    refuse_collinear(problem.data, flat)
    if isinstance(spec.prior, Jeffreys):
        found = jeffreys(flat, problem.start, problem.controls)
        return _fit(problem, _given(problem.choices.start, found), "laplace", ())
    modes: tuple[NoiseMode, ...] = ()
    try:
        if spec.free_dispersion and has_dispersion(spec.likelihood):
            best = _with_pearson(problem)
        else:
            best, modes = _learnt(problem, "laplace")
    except NotPositiveDefinite as error:
        raise singular_information(problem.data, flat) from error
    refuse_infinite(problem.data, problem.at(best.theta), best.found)
    return _fit(problem, best, "laplace", modes)


def _with_pearson(problem: Problem) -> Maximum:
    """Maximum likelihood, which does not depend on the dispersion, then Pearson's estimate of it, as R."""
    data, likelihood = problem.data, problem.spec.likelihood
    assert isinstance(likelihood, FamilyLikelihood)
    guess, run = problem.choices.start, partial(_laplace, problem)
    first = run(guess, None, brief=False)
    moments = target_moments(data)
    around_mean = pearson_sum(data, likelihood, lambda rows: np.full(len(rows.y), moments.mean))
    at_fit = fitted_scores(problem.design.to_data(first.q.mean)[0])
    chi2 = pearson_sum(data, likelihood, lambda rows: likelihood.mean(at_fit(rows)))
    free = moments.weight - problem.shape.per_output
    if free <= 0 or chi2 <= PERFECT * around_mean:
        unknown = Gaussian(first.q.mean, PSD(np.full_like(first.q.precision.factor, np.nan)))
        return _given(guess, first._replace(q=unknown, status=Status.FITTED_EXACTLY))
    theta = np.log([chi2 / free])
    again = run(theta, first, brief=False)
    return _given(theta, again._replace(steps=first.steps))  # the second fit only changes units


def least_norm(data: Data, spec: LinearSpec) -> LinearFit:
    """Least squares where columns are dependent: of all solutions the one of least norm on standardized columns."""
    problem = Problem.of(data, spec, silent)
    x = least_squares(data, problem.design.standardization, lambda y: y)
    unknown = Gaussian(x, PSD(np.full((len(x), len(x)), np.nan, order="F")))
    log_likelihood = problem.at(problem.choices.start).log_likelihood(x)
    found = Approximation(unknown, np.nan, log_likelihood, Status.UNDETERMINED, 1, 0.0)
    return _fit(problem, _given(problem.choices.start, found), "laplace", ())


def _given(theta: Array, found: Approximation) -> Maximum:
    """An approximation at a θ that was not searched for."""
    return Maximum(theta, found, found.status, Moments.none(found.q.mean.size), nothing)


# --- updates ------------------------------------------------------------------------------------------------


def _in_space_of_more(fit: LinearFit, data: Data) -> LinearFit:
    """A fit in the space of earlier rows, in that of more rows."""
    posterior, prior = fit.posterior, fit.prior
    space, design = posterior.row_space, posterior.design
    assert space is not None and isinstance(prior, Gaussian)
    larger = space.grown(all_rows(data.rows).X)
    refuse_growth(larger, design.classes.n_classes, fit.spec.limits.largest_matrix)
    shared = None if posterior.shared is None else larger.embed(posterior.shared, space)
    design = replace(design, standardization=larger)
    posterior = WeightPosterior(larger.embed(posterior.free, space), shared, design)
    return replace(fit, posterior=posterior, prior=larger.embed(prior, space))


def update_linear(fit: LinearFit, data: Data, report: Report = silent) -> LinearFit:
    """The fit after more rows: the posterior is the prior, what was learnt beside the weights stays.

    `fit.spec` may ask for another way of inference than the posterior is from.
    """
    refuse_combinations(fit.spec, data)
    if isinstance(fit.posterior, DrawnPosterior) or fit.spec.inference == "exact":
        raise InputError(
            'partial_fit goes on from a Gaussian, and inference="exact" has draws. Fit again to all rows, or use '
            'inference="variational".'
        )
    if fit.posterior.row_space is not None:
        fit = _in_space_of_more(fit, data)
    spec, before = fit.spec, fit.posterior
    choices = Choices(lambda _: fit.likelihood, before.free)
    controls = Controls(spec.tol, spec.max_iter, report)
    problem = Problem(data, spec, fit.shape, before.design, choices, before.free.mean, None, controls)
    rung = FIRST_RUNG.get(spec.inference, spec.inference) if spec.inference not in FILTERS else spec.inference
    theta = np.zeros(0)
    with _explained(problem, update=True):
        best = _given(theta, RUNGS[rung](problem, theta, None, brief=False))
        later = _later_rung(problem, best)
        if later is not None:
            rung, best = _by_later_rung(problem, later, best)
    after = best.found
    return replace(
        fit,
        posterior=replace(before, free=after.q),
        log_evidence=fit.log_evidence + after.log_evidence + data.log_constant,
        integrated_log_evidence=fit.integrated_log_evidence + after.log_evidence + data.log_constant,
        log_likelihood=fit.log_likelihood + after.log_likelihood + data.log_constant,
        rung=rung,
        status=_final_status(problem, best),
        steps=after.steps,
        decrement=after.decrement,
        n_rows=fit.n_rows + data.n_counted,
        n_parts=fit.n_parts + 1,
    )
