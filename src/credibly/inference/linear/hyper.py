r"""What is learnt beside the weights: prior scales, dispersion, flip probabilities, as one θ of highest evidence.

Notation
--------
=====  =====================================================================  =======
θ      log prior scales, then parameters of the likelihood (unbounded)        (T,)
H, h   the log likelihood as an approximation sees it: hᵀx - ½xᵀHx + const    (M, M)
τ      prior precisions of the coefficients, e^(-2θ)                          (d,)
m, Σ   mean and covariance of the posterior                                   (M,)
c      gradient of tr(Σ I(x)) in x, I the information of the rows (Laplace)   (M,)
=====  =====================================================================  =======

With EP and variational inference the evidence is stationary in the approximation, so its slope in a log scale is that
of the prior alone, Σ τ(m² + Σ_jj) - 1; with Laplace the mode moves along. Between two fits the likelihood is frozen as
the quadratic (H, h) that the last one saw, over which scales are searched without a pass.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from credibly.data.rows import Block, Sums
from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation, Quadratic
from credibly.inference.linear.laplace import sample_sizes
from credibly.inference.linear.objective import DataGaussian, Objective, by_weights, class_scores, scores
from credibly.inference.linear.priors import PriorDensity, ScaledPriors
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.differences import central_gradient, hessian_of_values, richardson
from credibly.numerics.linalg import PSD
from credibly.numerics.quadrature import gauss_hermite
from credibly.numerics.special import LOG_2PI, log_sum_exp
from credibly.numerics.status import Status

LOG_SCALE_BOUNDS = (float(np.log(1e-3)), float(np.log(1e3)))
SCALE_SPREAD = 1.0  # of the log-normal prior, median 1, under which scales are integrated out
GRID = np.linspace(*LOG_SCALE_BOUNDS, 28)  # of one log scale: the evidence may have several maxima
MOST_ROUNDS = 12  # of a search over quadratics, each ended by a fit,
MOST_BRIEF_ROUNDS = 30  # or by a few steps of one
NEAR = 0.02  # in log scale: proposals so close to each other are worth a whole fit
MOST_FROZEN = 4  # of them, where there are several scales
FLAT = 1e-7  # nats per unit of θ: the slope at which a search ends,
ROOT_FLAT = 1e-9  # … for one scale, by secants,
SAMPLED_FLAT = 5e-6  # … over many rows, whose Hessian is that of a point a last step away: slopes are no better
ROUGHLY_FLAT = 2e-2  # … by EP and variational inference, whose own searches end earlier than Newton's
STEEP = 10.0  # times that slope: the search goes on another way,
TOLD = 1e-3  # … and by so many nats per unit a user is told where that did not help, either
SWITCHED_OFF = 1e-6  # nats that a column may be worth whose scale is moved to its lower bound
DIFFERENCE = 1e-2  # step in θ, for differences of fourth order: errors of 1e-9
NODES = {1: 9, 2: 5}  # Gauss–Hermite nodes in each of so many dimensions
KNOTS = (0.0, -1.5, 1.5, -3.0, 3.0)  # in deviations of an integrand over one log scale;
FEW_KNOTS, WIDE = (0.0, -2.0, 2.0), 0.25  # for a deviation below that: of many weights, nearly Gaussian, and dear;
APART = 0.5  # deviations from the ones before
FINE = 4001  # points of a sum over it
FROZEN_ERROR = 0.05  # nats that a frozen likelihood may be off where an integrand is taken
MOST_PEAKS = 4  # evaluations on the way to the maximum of an integrand
AT_BOUND = 1e-6
NEAR_BOUND, UNLIMITED = 1.0, 10.0  # a parameter so near, known no better than to so many of its units, is on a plateau
ROUNDING = 1e-8  # of an evidence, in its slope,
VALUE_ROUNDING = 1e-11  # … and in itself


# --- choices ------------------------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """An unbounded parameter of the likelihood."""

    start: float
    bounds: tuple[float, float]
    log_prior: Callable[[float], float]  # declared beliefs, part of what is maximised; zero where there are none
    weak_prior: Callable[[float], float]  # log density under which it is integrated out


@dataclass(frozen=True)
class Choices:
    """Likelihood and prior as functions of θ; nothing is free where both are given.

    Parameters
    ----------
    likelihood : function of the likelihood's part of θ
    prior : PriorDensity, ScaledPriors or None
    parameters : tuple of Parameter
    """

    likelihood: Callable[[Array], AnyLikelihood]
    prior: PriorDensity | ScaledPriors | None
    parameters: tuple[Parameter, ...] = ()
    at_bound: Status = Status.DISPERSION_AT_BOUND  # what to say of a parameter at its bound

    @property
    def n_scales(self) -> int:
        """How many entries of θ are log scales; they come first."""
        return self.prior.n_scales if isinstance(self.prior, ScaledPriors) else 0

    @property
    def start(self) -> Array:
        """Scales of one, and what the parameters start from."""
        return np.concatenate([np.zeros(self.n_scales), [it.start for it in self.parameters]])

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Of every entry of θ."""
        return [LOG_SCALE_BOUNDS] * self.n_scales + [it.bounds for it in self.parameters]

    def ends(self, theta: Array) -> AnyArray:
        """Which entries of θ are at a bound."""
        return self.near_ends(theta, AT_BOUND)

    def near_ends(self, theta: Array, margin: float) -> AnyArray:
        """Which entries of θ are so near to a bound."""
        low, high = np.array(self.bounds).reshape(-1, 2).T
        return np.asarray((theta <= low + margin) | (theta >= high - margin))

    def at(self, theta: Array) -> tuple[AnyLikelihood, PriorDensity | None]:
        """Likelihood and prior at θ."""
        prior = self.prior.at(theta[: self.n_scales]) if isinstance(self.prior, ScaledPriors) else self.prior
        return self.likelihood(theta[self.n_scales :]), prior

    def log_belief(self, theta: Array) -> float:
        """Log density of declared beliefs about parameters."""
        pairs = zip(self.parameters, theta[self.n_scales :], strict=True)
        return float(sum(it.log_prior(float(value)) for it, value in pairs))

    def log_weak_prior(self, parameters: Array) -> float:
        """Log density under which the likelihood's parameters are integrated out."""
        return float(sum(it.weak_prior(float(v)) for it, v in zip(self.parameters, parameters, strict=True)))

    def with_parameters(self, values: Array) -> "Choices":
        """The same with the likelihood's parameters given."""
        return replace(self, likelihood=lambda _: self.likelihood(values), parameters=())


class Evaluation(NamedTuple):
    """An approximation at some θ, what is maximised there, and its slope."""

    theta: Array
    found: Approximation
    value: float
    slope: Array  # (T,)
    mode_slope: Array | None  # c, where the mode moves


class Moments(NamedTuple):
    """The posterior of the likelihood's parameters at the scales found, and how the weights go along."""

    mode: Array  # (T,)
    points: Array  # (S, T): nodes, or the maximum alone
    share: Array  # (S,), adding to one
    covariance: Array  # (T, T), of the Gaussian at the maximum; NaN where that is at a bound
    moved: Array  # (M, T): derivatives of the posterior mean
    log_ratio: float  # what integrating them adds to the log evidence

    @classmethod
    def none(cls, n_weights: int) -> "Moments":
        """Where there are no parameters."""
        return cls(np.empty(0), np.empty((1, 0)), np.ones(1), np.empty((0, 0)), np.empty((n_weights, 0)), 0.0)


class Maximum(NamedTuple):
    """The best θ, the approximation there, and how the search went."""

    theta: Array
    found: Approximation
    status: Status
    parameters: Moments
    scales_ratio: Callable[[], float]  # what integrating scales adds to the log evidence: by inference at others, later

    @property
    def log_integral(self) -> float:
        """log ∫ exp(log evidence) p(θ) dθ under weak priors."""
        return self.found.log_evidence + self.scales_ratio() + self.parameters.log_ratio


def nothing() -> float:
    """What integrating adds where nothing is learnt."""
    return 0.0


class Run(Protocol):
    """Inference at θ, started from an approximation near it.

    `brief`: a few steps only, while θ is still moving, or averages at few points.
    """

    def __call__(self, theta: Array, near: Approximation | None, *, brief: bool) -> Approximation: ...


Joint = Callable[[Array, Approximation | None], tuple[Array, Approximation]]


# --- the slope of the evidence ------------------------------------------------------------------------------


def mode_slope(objective: Objective, q: Gaussian) -> Array:
    """c: how log det of Laplace's precision moves when the mode does, in one pass over the rows."""
    block = partial(_mode_slope_block, likelihood=objective.likelihood, at=objective.in_data_units(q))
    return objective.free(objective.raw[0].sum(block)[0])


def _mode_slope_block(block: Block, likelihood: AnyLikelihood, at: DataGaussian) -> Sums:
    rows = block.counted
    if isinstance(likelihood, Likelihood):
        slopes = likelihood.curvature_slope(rows.y, scores(rows, at.mean), at.variance(rows.X))
    else:
        f, V = class_scores(rows.X, at.mean), at.class_covariance(rows.X)
        if isinstance(likelihood, Categorical):
            slopes = likelihood.curvature_slope(likelihood.mean(f), V)
        else:
            slopes = likelihood.curvature_slope(likelihood.expand(rows.y, f), V)
    if rows.weight is not None:
        slopes = slopes * rows.weight.reshape(-1, *(1 for _ in slopes.shape[1:]))
    return (by_weights(rows.X, slopes, intercept=at.intercept),)


def scale_slope(priors: ScaledPriors, theta: Array, q: Gaussian, c: Array | None) -> Array:
    r"""Slope of the log evidence in the log scales.

    .. math:: \frac{d \log Z}{d θ_g} = \sum_{j ∈ g} τ_j (m_j^2 + Σ_{jj}) - 1 - τ_j m_j (Σ c)_j

    The last term, with Laplace only, is the one that is usually left out: the mode moves by 2Σ(τ m)_g, and with it the
    curvature in -½ log det.

    References
    ----------
    RW06 eq. 5.22–5.24, in weight space.
    """
    tau, m = priors.column_precision(theta), priors.columns_of(q.mean)
    variance = priors.columns_of((q.root**2).sum(axis=0))
    moved = 0.0 if c is None else priors.columns_of(q.precision.solve(c))
    terms = (tau * (m**2 + variance - m * moved) - 1).sum(axis=0)
    return np.bincount(priors.group, weights=terms, minlength=priors.n_scales).astype(float)


@dataclass(frozen=True)
class FreeScales:
    """Log scales as variational inference searches along them.

    Parameters
    ----------
    priors : ScaledPriors
    at : function of θ
        The objective with the prior at θ.
    """

    priors: ScaledPriors
    at: Callable[[Array], Objective]

    def objective(self, theta: Array) -> Objective:
        """The objective with the prior at θ."""
        return self.at(theta)

    def slope(self, theta: Array, q: Gaussian) -> Array:
        """Slope of the bound in θ, zero where it points out of its bounds."""
        return _inside([LOG_SCALE_BOUNDS] * len(theta), theta, scale_slope(self.priors, theta, q, None))

    def clipped(self, theta: Array) -> Array:
        """θ within its bounds."""
        return np.asarray(np.clip(theta, *LOG_SCALE_BOUNDS))

    @property
    def counts(self) -> Array:
        """How many weights each scale is of."""
        in_group = np.bincount(self.priors.group, minlength=self.priors.n_scales)
        return np.asarray(in_group * float(self.priors.design.classes.n_free))


# --- the evidence over a frozen likelihood ------------------------------------------------------------------


class FrozenLikelihood:
    """The evidence as a function of log scales, as if the log likelihood were the quadratic of one approximation.

    Value and slope are exact at the θ of that approximation. With Laplace, what the determinant does when the mode
    moves is kept to first order, by c.

    Parameters
    ----------
    priors : ScaledPriors
    theta : (G,) array
        Log scales of the approximation.
    found : Approximation
    c : (M,) array or None
    concave : bool
        Whether the log likelihood is: then its quadratic makes a Gaussian with any prior. Where it is not, a prior that
        is too wide does not hold the weights, and the determinant runs away on the way there; `bounds` end before.
    """

    def __init__(
        self, priors: ScaledPriors, theta: Array, found: Approximation, c: Array | None, *, concave: bool
    ) -> None:
        self.priors, self.c, self.mean = priors, c, found.q.mean
        self.information, self.linear = found.likelihood or Quadratic.of_posterior(found.q, priors.at(theta))
        self.constant = 0.0
        self.constant = found.log_evidence - self(theta)[0]
        reach = np.inf if concave else self._reach(theta)
        self.bounds = [(LOG_SCALE_BOUNDS[0], min(LOG_SCALE_BOUNDS[1], float(it) + reach)) for it in theta]

    def _reach(self, theta: Array) -> float:
        """By how much log scales may grow so that half of the prior's precision is left in every direction.

        Where that is too much to ask, half of what is left now.
        """
        root = self.priors.at(theta).root
        lowest = float(np.linalg.eigvalsh(root @ self.information @ root.T)[0])
        if lowest >= 0:
            return np.inf
        share = -2 * lowest if lowest > -1 / 3 else (1 - lowest) / 2
        return max(0.0, -0.5 * float(np.log(share)))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Log evidence and its slope at θ."""
        prior, q = self.priors.at(theta), self.posterior(theta)
        white = q.precision.half_solve(self.linear)
        value = self.constant + 0.5 * (white @ white - q.precision.logdet + prior.precision.logdet)
        if self.c is not None:
            value -= 0.5 * self.c @ (q.mean - self.mean)
        return float(value), scale_slope(self.priors, theta, q, self.c)

    def posterior(self, theta: Array) -> Gaussian:
        """The posterior of the weights at θ."""
        precision = PSD.of(self.information + self.priors.at(theta).precision.matrix, "the posterior precision")
        return Gaussian(precision.solve(self.linear), precision)

    def loss(self, theta: Array) -> tuple[float, Array]:
        """Minus both."""
        value, slope = self(theta)
        return -value, -slope


def _best_scales(surface: FrozenLikelihood, theta: Array, *, scan: bool) -> Array:
    """The scales of highest evidence over a frozen likelihood: of one, from the best of a grid."""
    if scan and theta.size == 1:
        grid = GRID[GRID <= surface.bounds[0][1]]
        theta = max((np.array([it]) for it in (*grid, theta[0])), key=lambda it: surface(it)[0])
    options = {"ftol": 1e-15, "gtol": 0.1 * FLAT, "maxiter": 500, "maxls": 50}
    return _without_idle(surface, _lowest(surface.loss, theta, surface.bounds, options))


def _without_idle(surface: FrozenLikelihood, theta: Array) -> Array:
    """Scales with those of columns that tell nothing at their lower bound.

    As a scale s → 0 its column drops out, and the slope falls like s²: a search may end anywhere on that plateau.
    """
    best = surface(theta)[0]
    for j in np.argsort(theta):
        if LOG_SCALE_BOUNDS[0] < theta[j] < 0:
            without = theta.copy()
            without[j] = LOG_SCALE_BOUNDS[0]
            value = surface(without)[0]
            if value >= best - SWITCHED_OFF:
                theta, best = without, value
    return theta


def _lowest(
    loss: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: list[tuple[float, float]],
    options: dict[str, Any],
) -> Array:
    """Where L-BFGS-B ends, downhill from a start, by values and slopes."""
    from scipy.optimize import minimize

    search: Any = minimize  # whose stubs do not know a loss that returns both
    return np.asarray(search(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x)


# --- the maximum --------------------------------------------------------------------------------------------


def maximise(  # noqa: PLR0913
    run: Run,
    choices: Choices,
    objective: Callable[[Array], Objective],
    theta: Array | None = None,
    found: Approximation | None = None,
    *,
    moves: bool,
    jointly: Joint | None = None,
) -> Maximum:
    """The θ of highest evidence, and the approximation there; one run if nothing is learnt.

    Parameters
    ----------
    run : function of θ and an approximation near it
        Inference with the likelihood and the prior at θ.
    choices : Choices
    objective : function of θ
        Whose rows tell how the mode moves.
    theta, found : array, Approximation, optional
        Where to start.
    moves : bool
        Whether the evidence depends on how the mode moves with θ (Laplace).
    jointly : function of θ and an approximation near it, optional
        A search for scales and approximation together, where the rung has one.
    """
    theta = choices.start if theta is None else theta
    if not theta.size:
        found = run(theta, found, brief=False)
        return Maximum(theta, found, found.status, Moments.none(found.q.mean.size), nothing)
    surface = _Surface(run, choices, objective, moves=moves, found=found)
    surface.rough = jointly is not None
    if choices.parameters:
        best = _climbed(surface, theta)
    elif jointly is not None:
        best = _after_joint_search(surface, *jointly(theta, found))
    else:
        best = _over_scales(surface, theta)
    return _described(surface, best)


class _Surface:
    """What is maximised, and its slope, at any θ; every run starts from the last one."""

    def __init__(
        self,
        run: Run,
        choices: Choices,
        objective: Callable[[Array], Objective],
        *,
        moves: bool,
        found: Approximation | None,
    ) -> None:
        self.run, self.choices, self.objective, self.moves, self.last = run, choices, objective, moves, found
        self.flat, self.slack = self._flat(moves), 0.1 * (FLAT if moves else ROUGHLY_FLAT)
        self.rough = (
            False  # whether a brief run differs by a coarser rule alone, which a difference of evidences may have
        )
        self.brief, self.most_rounds = not moves, MOST_ROUNDS if moves else MOST_BRIEF_ROUNDS

    def _flat(self, moves: bool) -> float:
        theta = self.choices.start
        if not moves:
            return ROUGHLY_FLAT
        objective = self.objective(theta)
        if objective.log_concave and sample_sizes(objective, objective.design.size):
            return SAMPLED_FLAT
        return ROOT_FLAT if theta.size == 1 == self.choices.n_scales else FLAT

    def steepness(self, at: Evaluation) -> float:
        """The largest slope inside the bounds."""
        return float(np.abs(_inner(self.choices, at)).max(initial=0.0))

    def level(self, at: Evaluation) -> bool:
        """Whether the slope is as good as zero."""
        return self.steepness(at) <= self.flat

    def on_a_slope(self, at: Evaluation) -> bool:
        """Whether the evidence rises by more than rounding explains: the search has failed.

        Where inference ends early, a slope is a sum over all weights of what that leaves.
        """
        flat = self.flat if self.moves else self.flat * np.sqrt(at.found.q.mean.size)
        return self.steepness(at) > STEEP * max(flat, FLAT, ROUNDING * abs(at.value))

    def higher(self, at: Evaluation, other: Evaluation) -> bool:
        """Whether one evaluation is above another, or as high and more level."""
        rise, rounding = at.value - other.value, VALUE_ROUNDING * max(1.0, abs(other.value))
        return rise > rounding or (rise > -rounding and self.steepness(at) < self.steepness(other))

    def frozen(self, at: Evaluation) -> "FrozenLikelihood":
        """The evidence of scales as if the likelihood were the quadratic of one evaluation."""
        priors = self.choices.prior
        assert isinstance(priors, ScaledPriors)
        concave = self.objective(at.theta).likelihood.log_concave
        return FrozenLikelihood(priors, at.theta[: priors.n_scales], at.found, at.mode_slope, concave=concave)

    def found(self, theta: Array) -> Approximation:
        """Inference at θ."""
        self.last = self.run(theta, self.last, brief=self.brief)
        return self.last

    def height(self, theta: Array) -> float:
        """Log evidence (of a flat prior: log likelihood) and declared beliefs."""
        return self.height_of(theta, self.found(theta))

    def height_of(self, theta: Array, found: Approximation) -> float:
        """What is maximised, of one approximation."""
        fit = found.log_likelihood if np.isnan(found.log_evidence) else found.log_evidence
        return fit + self.choices.log_belief(theta)

    def completed(self, at: Evaluation) -> Evaluation:
        """An evaluation again, by as many steps as inference takes."""
        self.brief, self.last = False, at.found
        return self(at.theta)

    def __call__(self, theta: Array) -> Evaluation:
        found, n, slope, c = self.found(theta), self.choices.n_scales, np.zeros(theta.size), None
        priors = self.choices.prior
        if isinstance(priors, ScaledPriors):
            c = mode_slope(self.objective(theta), found.q) if self.moves else None
            slope[:n] = scale_slope(priors, theta[:n], found.q, c)
        for j in range(n, theta.size):  # parameters of the likelihood: by differences of the evidence
            step = DIFFERENCE * np.eye(theta.size)[j]
            near = {k: self.height(theta + k * step) for k in (-2, -1, 1, 2)}
            slope[j] = (near[-2] - near[2] + 8 * (near[1] - near[-1])) / (12 * DIFFERENCE)
        self.last = found
        return Evaluation(theta, found, self.height_of(theta, found), slope, c)


def _after_joint_search(surface: _Surface, theta: Array, found: Approximation) -> Evaluation:
    """The evaluation where scales and approximation were searched together, columns that tell nothing switched off."""
    surface.brief, surface.last = False, found
    best = surface(theta)
    without = _without_idle(surface.frozen(best), theta)
    if (without != theta).any():
        best = surface(without)
    return _climbed(surface, best.theta) if surface.on_a_slope(best) else best


def _over_scales(surface: _Surface, theta: Array) -> Evaluation:
    """Scales alone: over frozen likelihoods, each taken where the last search ended, then over the evidence itself.

    Proposals of frozen likelihoods converge linearly. One scale then goes on by the secant of the exact slope, several
    by L-BFGS-B. Inference that converges linearly itself takes a few steps only between two proposals, and then as many
    as it needs at the scales found.
    """
    best, last, reach = surface(theta), None, np.inf
    for round_ in range(surface.most_rounds):
        if surface.level(best) and not surface.brief:
            break
        proposal = None if last is None or surface.brief else _secant(last, best)
        if proposal is None:
            proposal = _best_scales(surface.frozen(best), best.theta, scan=round_ == 0 and not surface.brief)
        step = proposal - best.theta
        longest = float(np.abs(step).max())
        if surface.brief and longest <= NEAR:
            best, last = surface.completed(best), None
            continue
        if not surface.brief and theta.size > 1 and round_ >= MOST_FROZEN:
            return _climbed(surface, best.theta)
        new = surface(best.theta + step * min(1.0, reach / max(longest, 1e-300)))
        if not surface.brief and new.value < best.value - surface.slack and longest > DIFFERENCE:
            reach = 0.3 * min(longest, reach)  # too far from where the likelihood was frozen
            surface.last = best.found
        else:
            best, last = new, best
    if surface.brief:
        best = surface.completed(best)
    # Proposals may creep, on a plateau or where sites follow the scale, and secants may miss a maximum between them.
    return _climbed(surface, best.theta) if surface.on_a_slope(best) else best


def _secant(before: Evaluation, now: Evaluation) -> Array | None:
    """Where the slope in one log scale is zero, if it falls from one evaluation to the other."""
    if now.theta.size > 1 or before.theta[0] == now.theta[0]:
        return None
    rate = (now.slope[0] - before.slope[0]) / (now.theta[0] - before.theta[0])
    if rate >= 0:
        return None
    return np.asarray(np.clip(now.theta - now.slope / rate, *LOG_SCALE_BOUNDS))


def _inner(choices: Choices, at: Evaluation) -> Array:
    """The slope, zero where it points out of the bounds."""
    return _inside(choices.bounds, at.theta, at.slope)


def _inside(bounds: list[tuple[float, float]], theta: Array, slope: Array) -> Array:
    low, high = np.array(bounds).T
    outward = ((theta <= low) & (slope < 0)) | ((theta >= high) & (slope > 0))
    return np.where(outward, 0.0, slope)


def _climbed(surface: _Surface, theta: Array) -> Evaluation:
    """All of θ together, by L-BFGS-B over the evidence itself.

    Every run starts from the highest point so far: a trial step may go where the weights run away. Of points whose
    values differ by rounding only, which a line search takes for rises and falls, the most level one is the highest.
    """
    highest: Evaluation | None = None

    def loss(theta: Array) -> tuple[float, Array]:
        nonlocal highest
        if highest is not None:
            surface.last = highest.found
        try:
            at = surface(theta)
        except NotPositiveDefinite:  # a prior that vanishes beside the likelihood
            return np.inf, np.zeros_like(theta)
        if highest is None or surface.higher(at, highest):
            highest = at
        return -at.value, -at.slope

    options = {"ftol": 1e-14, "gtol": surface.flat, "maxiter": 100}
    end = _lowest(loss, theta, surface.choices.bounds, options)
    surface.brief = False
    if highest is None:
        return surface(end)
    surface.last = highest.found
    return surface(highest.theta)


# --- how well θ is known ------------------------------------------------------------------------------------


def _described(surface: _Surface, best: Evaluation) -> Maximum:
    """The status of a search, and the evidence with θ integrated out.

    Parameters of the likelihood by Gauss–Hermite nodes around their maximum, the scales held.
    """
    n = surface.choices.n_scales
    moments = _parameter_moments(surface, best)
    status = _status(surface, best, moments)
    return Maximum(
        best.theta, best.found, status, moments, cache(partial(_scales_ratio, surface, best)) if n else nothing
    )


def _status(surface: _Surface, best: Evaluation, moments: Moments) -> Status:
    choices = surface.choices
    if not best.found.status.good:
        return best.found.status
    if surface.on_a_slope(best) and surface.steepness(best) > TOLD:
        return Status.SCALES_NOT_FOUND
    at_bound = choices.ends(best.theta)
    plateau = choices.near_ends(best.theta, NEAR_BOUND)[choices.n_scales :]
    if plateau.size:  # a search that runs towards a bound may end before it
        plateau &= ~(np.diag(moments.covariance) <= UNLIMITED**2)
    if at_bound[choices.n_scales :].any() or plateau.any():
        return choices.at_bound
    if np.isnan(moments.covariance).any():
        return Status.PARAMETER_SPREAD_UNKNOWN
    return Status.SCALE_AT_BOUND if at_bound.any() else best.found.status


def _scales_ratio(surface: _Surface, best: Evaluation) -> float:
    """log ∫ Z(θ) p(θ) dθ - log Z over log scales, p log-normal; parameters of the likelihood are held.

    The likelihood is frozen where the integrand is highest, which is not where the evidence is: p draws scales to one.
    Where the posterior hardly changes along with θ, as with many rows, the frozen likelihood is all that is needed.
    Else evidences and slopes come from inference itself: at three knots for one scale, and at nodes for two. More than
    two are integrated by Laplace's method. NaN where inference fails on the way, or the integrand has no maximum.
    """
    surface.last, surface.brief = best.found, surface.rough
    try:
        if surface.rough:
            best = best._replace(found=surface.found(best.theta))
        peak = _at_peak(surface, best)
        integrated = _one_scale_integrated if surface.choices.n_scales == 1 else _several_scales_integrated
        return integrated(surface, peak) - best.found.log_evidence
    except NotPositiveDefinite:
        return float("nan")


class Peak(NamedTuple):
    """The maximum of an integrand over log scales, by the likelihood frozen at an evaluation near it."""

    at: Evaluation
    frozen: FrozenLikelihood
    around: Gaussian  # the integrand there, as a Gaussian

    def errs(self, theta: Array) -> bool:
        r"""Whether the frozen likelihood may be off at θ; true where it has no posterior there.

        Its information about the scores, Q = Δmᵀ H Δm + tr H ΔΣ of what changes, says by how much they change: √(Q/S),
        with the curvature S of all rows together. Cubic terms, of half the curvature, add up to Q √(Q/S) / 12.
        """
        here, H = self.at.found.q, self.frozen.information
        try:
            there = self.frozen.posterior(theta)
        except NotPositiveDefinite:
            return True
        shift = there.mean - here.mean
        widths = [np.einsum("ij,ij->", q.root @ H, q.root) for q in (here, there)]
        changed = abs(float(shift @ H @ shift)) + abs(float(widths[1] - widths[0]))
        return bool(changed * np.sqrt(changed / np.abs(np.diag(H)).max()) / 12 > FROZEN_ERROR)

    def log_terms(self, theta: Array) -> float:
        """Log of the integrand, over the frozen likelihood."""
        return self.frozen(theta)[0] + _log_normal(theta)


def _at_peak(surface: _Surface, best: Evaluation) -> Peak:
    """The maximum of the integrand, by frozen likelihoods, each taken where the last one has its maximum."""
    n = surface.choices.n_scales
    peak = _peak_of(surface, best._replace(value=best.found.log_evidence, slope=best.slope[:n]))
    for _ in range(MOST_PEAKS):
        if not peak.errs(peak.around.mean):
            break
        peak = _peak_of(surface, _at_scales(surface, peak, peak.around.mean))
    return peak


def _at_scales(surface: _Surface, peak: Peak, theta: Array) -> Evaluation:
    """Inference at other scales and the same parameters: the evidence, and its slope in the scales."""
    n, priors = surface.choices.n_scales, surface.choices.prior
    assert isinstance(priors, ScaledPriors)
    whole = np.concatenate([theta, peak.at.theta[n:]])
    with suppress(NotPositiveDefinite):  # else it starts from where the last one has ended
        surface.last = peak.at.found._replace(q=peak.frozen.posterior(theta))
    found = surface.found(whole)
    c = mode_slope(surface.objective(whole), found.q) if surface.moves else None
    return Evaluation(whole, found, found.log_evidence, scale_slope(priors, theta, found.q, c), c)


def _peak_of(surface: _Surface, at: Evaluation) -> Peak:
    n, frozen = surface.choices.n_scales, surface.frozen(at)

    def loss(theta: Array) -> tuple[float, Array]:
        value, slope = frozen(theta)
        return -value - _log_normal(theta), -slope + theta / SCALE_SPREAD**2

    low, high = np.array(frozen.bounds).T
    theta = at.theta[:n]
    start = np.clip(np.where((theta > LOG_SCALE_BOUNDS[0]) & (theta < LOG_SCALE_BOUNDS[1]), theta, 0.0), low, high)
    mode = _lowest(loss, start, frozen.bounds, {})
    steps = DIFFERENCE * np.eye(n)
    H = np.array([loss(mode + h)[1] - loss(mode - h)[1] for h in steps]) / (2 * DIFFERENCE)
    return Peak(at, frozen, Gaussian(mode, PSD.of((H + H.T) / 2, "the curvature of the evidence in log scales")))


def _one_scale_integrated(surface: _Surface, peak: Peak) -> float:
    """By a fine sum over the cubic through evidences and their slopes at knots, and tangents beyond them."""
    from scipy.interpolate import CubicHermiteSpline

    mode, width = float(peak.around.mean[0]), float(peak.around.root[0, 0])
    at = np.clip(mode + width * np.array(KNOTS if width > WIDE else FEW_KNOTS), *LOG_SCALE_BOUNDS)
    far = any(peak.errs(np.array([it])) for it in at)
    here = peak.at
    knots = {float(here.theta[0]): (here.value, float(here.slope[0]))}
    for it in at:
        if np.abs(it - np.array([*knots])).min() > APART * width:
            knot = _at_scales(surface, peak, np.array([it]))[2:4] if far else peak.frozen(np.array([it]))
            knots[float(it)] = knot[0], float(knot[1][0])
    at = np.sort([*knots])
    value, slope = np.array([knots[float(it)] for it in at]).T
    theta = np.linspace(*LOG_SCALE_BOUNDS, FINE)
    inside = np.clip(theta, at[0], at[-1])
    log_evidence = CubicHermiteSpline(at, value, slope)(inside)
    log_evidence += np.where(theta < at[0], slope[0], slope[-1]) * (theta - inside)
    log_terms = log_evidence + np.array([_log_normal(it) for it in theta[:, None]])
    return float(log_sum_exp(log_terms) + np.log(theta[1] - theta[0]))


def _several_scales_integrated(surface: _Surface, peak: Peak) -> float:
    around, n = peak.around, surface.choices.n_scales
    if n > max(NODES):
        return peak.log_terms(around.mean) - float(around.logpdf(around.mean))
    points, log_weights = _product_nodes(n)
    at = around.mean + points @ around.root
    low, high = LOG_SCALE_BOUNDS
    log_weights = np.where(((at >= low) & (at <= high)).all(axis=1), log_weights, -np.inf)  # nothing is beyond bounds
    far = any(peak.errs(it) for it in at[np.isfinite(log_weights)])
    heights = np.full(len(at), -np.inf)
    for k in np.flatnonzero(np.isfinite(log_weights)):
        if far:
            heights[k] = _at_scales(surface, peak, at[k]).value + _log_normal(at[k])
        else:
            heights[k] = peak.log_terms(at[k])
    return float(log_sum_exp(log_weights + heights - around.logpdf(at)))


def integral_beside_peak(theta: float, curvature: float) -> float:
    """log ∫ exp(-½ c (t - θ)²) p(t) dt over a log scale, p log-normal: what integrating adds to the evidence at θ.

    Nothing is added where the evidence is flat.
    """
    if not curvature > 0:
        return 0.0
    variance = SCALE_SPREAD**2 + 1 / curvature
    return float(-0.5 * (theta**2 / variance + np.log(variance * curvature)))


def _log_normal(theta: Array) -> float:
    z = theta / SCALE_SPREAD
    return float(-0.5 * (z @ z) - len(z) * (0.5 * LOG_2PI + np.log(SCALE_SPREAD)))


def _product_nodes(dim: int) -> tuple[Array, Array]:
    """Gauss–Hermite nodes (S, dim) and log weights (S,) for standard normal coordinates."""
    nodes, log_weights = gauss_hermite(NODES[dim])
    points = np.stack(np.meshgrid(*[nodes] * dim), axis=-1).reshape(-1, dim)
    return points, np.sum(np.meshgrid(*[log_weights] * dim), axis=0).ravel()


def _parameter_moments(surface: _Surface, best: Evaluation) -> Moments:
    """Posterior of the likelihood's parameters given the scales, and what integrating them adds to the log evidence.

    Parameters at a bound stay there: they have no maximum inside.
    """
    choices, n, size = surface.choices, surface.choices.n_scales, best.found.q.mean.size
    at, inside = best.theta[n:], ~surface.choices.ends(best.theta)[n:]
    if not at.size:
        return Moments.none(size)
    unknown = Moments(
        at, at[None], np.ones(1), np.full((at.size, at.size), np.nan), np.zeros((size, at.size)), log_ratio=0.0
    )
    if not inside.any():
        return unknown

    def found(parameters: Array) -> Approximation:
        surface.last = best.found
        return surface.found(np.concatenate([best.theta[:n], parameters]))

    def height(parameters: Array) -> float:
        return surface.height_of(np.concatenate([best.theta[:n], parameters]), found(parameters))

    axes = np.eye(at.size)[inside]
    try:
        H = richardson(lambda h: hessian_of_values(height, at, axes, h), DIFFERENCE, 2).value
        precision = PSD.of(-H, "the curvature of the evidence in the likelihood's parameters")
    except NotPositiveDefinite:
        return unknown
    around = Gaussian(at[inside], precision)
    unknown.covariance[np.ix_(inside, inside)] = around.root.T @ around.root
    unknown.moved[:, inside] = richardson(
        lambda h: central_gradient(lambda it: found(it).q.mean, at, axes, h), DIFFERENCE, 2
    ).value.T
    return unknown if np.isnan(best.found.log_evidence) else _at_nodes(choices, best, unknown, around, inside, found)


def _at_nodes(
    choices: Choices,
    best: Evaluation,
    here: Moments,
    around: Gaussian,
    inside: AnyArray,
    found: Callable[[Array], Approximation],
) -> Moments:
    """The posterior of the parameters at Gauss–Hermite nodes around its maximum: it may be skewed."""
    points, log_weights = _product_nodes(around.mean.size)
    moved = around.mean + points @ around.root
    at = np.tile(here.mode, (len(points), 1))
    at[:, inside] = np.clip(moved, *np.array(choices.bounds)[choices.n_scales :][inside].T)
    log_terms = np.array(
        [
            log_w + found(it).log_evidence + choices.log_weak_prior(it) - log_q
            for log_w, it, log_q in zip(log_weights, at, around.logpdf(moved), strict=True)
        ]
    )
    log_total = float(log_sum_exp(log_terms))
    share = np.exp(log_terms - log_total)
    return here._replace(points=at, share=share, log_ratio=log_total - best.found.log_evidence)
