"""The evidence as a function of prior scales: its exact gradient, and its maximum.

Notation
--------
====  ========================================================================  ===========
θ     log prior scales on standardised columns                                  (G,)
τ     prior precisions of the slopes, e^(-2θ)                                   (d,)
w     mode of the posterior                                                     (M,)
A     precision of the posterior, H + Λ                                         (M, M)
c     gradient of tr(A⁻¹H(w)) in w, with A⁻¹ held still                         (M,)
====  ========================================================================  ===========
"""

from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import NamedTuple

import numpy as np

from credibly.data.source import Block, Rows, add
from credibly.inference.laplace import MANY_ROWS, Controls, laplace, sampled_start
from credibly.inference.objective import Objective, score
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import PSD, block_diagonal
from credibly.numerics.newton import Status

LOG_BOUNDS = (float(np.log(1e-3)), float(np.log(1e3)))
MOST_SETTLED = 30  # scales; each needs a fit of its own
PLATEAU = 0.1  # scales below that hardly move a score,
FAINT = 0.3  # nor do scales below that share of a column's standard error
PLATEAU_STEP = 0.1  # in θ: on the plateau the gradient grows by e^0.2 over it
POLISHING_STEPS = 4
TIDYING_ROUNDS = 4
GRADIENT_GOAL = 1e-10
STEEP = 1e-3  # nats per unit of log scale: a thousandth of what a person would call a difference
AT_BOUND = 1e-8
REMEMBERED = 8  # evaluations: searches come back to their last points
DIFFERENCE = 1e-5  # forward differences: relative error 1e-5, so every step gains five digits
INTERCEPT_SCALE = 10.0  # of the intercept at the column means


@dataclass(frozen=True)
class ScaledPriors:
    """Normal priors on the coefficients of standardised columns, by their log scales θ.

    Parameters
    ----------
    group : (d,) int array
        Which scale each slope has: all zeros for one common scale, 0 … d-1 for one each.
    intercept_row : (D,) array or None
        The combination of the frame's weights that is the intercept at the column means; None without intercept.
    n_outputs : int
        Number of weight vectors, which share the scales.
    """

    group: Codes
    intercept_row: Array | None
    n_outputs: int

    @property
    def n_scales(self) -> int:
        """Number of scales to choose."""
        return int(self.group.max()) + 1 if self.group.size else 0

    def slope_precision(self, theta: Array) -> Array:
        """τ for every slope."""
        return np.asarray(np.exp(-2 * theta)[self.group])

    def prior(self, theta: Array) -> Gaussian:
        """The Gaussian prior of all weights in the frame."""
        precision = np.diag(self.slope_precision(theta))
        if self.intercept_row is not None:
            precision = (
                np.pad(precision, (0, 1)) + np.outer(self.intercept_row, self.intercept_row) / INTERCEPT_SCALE**2
            )
        stacked = block_diagonal(precision, self.n_outputs)
        return Gaussian(np.zeros(len(stacked)), PSD.of(stacked, "the prior precision"))

    def per_slope(self, weights: Array) -> Array:
        """The slopes' part of a flat vector of weights, (K, d)."""
        return weights.reshape(self.n_outputs, -1)[:, : self.group.size]


class Evidence(NamedTuple):
    """A Laplace fit at some scales, and the derivative of its log evidence in θ."""

    result: InferenceResult
    gradient: Array  # (G,)


@singledispatch
def curvature_slopes(likelihood: AnyLikelihood, rows: Block, posterior: Gaussian) -> Array:
    """d tr(A⁻¹H)/df for every row and score, A⁻¹ held still."""
    raise TypeError(f"no curvature slope is known for {likelihood!r}")


@curvature_slopes.register
def _(likelihood: Likelihood, rows: Block, posterior: Gaussian) -> Array:
    f, v = posterior.scores(rows.X)
    slopes = likelihood.curvature_slope(rows.y, f if rows.offset is None else f + rows.offset, v)
    return slopes if rows.weight is None else slopes * rows.weight


@curvature_slopes.register
def _(likelihood: Categorical, rows: Block, posterior: Gaussian) -> Array:
    f, V = posterior.class_scores(rows.X, likelihood.n_classes)
    slopes = likelihood.curvature_slope(likelihood.mean(f), V)
    return slopes if rows.weight is None else slopes * rows.weight[:, None]


@curvature_slopes.register
def _(likelihood: NoisyCategorical, rows: Block, posterior: Gaussian) -> Array:
    f, V = posterior.class_scores(rows.X, likelihood.n_classes)
    slopes = likelihood.curvature_slope(likelihood.expand(rows.y, f), V)
    return slopes if rows.weight is None else slopes * rows.weight[:, None]


def curvature_slope_sum(likelihood: AnyLikelihood, rows: Rows, posterior: Gaussian) -> Array:
    """c: how log det A moves when the mode does, in one pass over the rows."""

    def block(part: Block) -> tuple[Array | float, ...]:
        return (score(part.X, curvature_slopes(likelihood, part, posterior)),)

    return np.asarray(rows.sum(block, add)[0])


def evidence_gradient(objective: Objective, priors: ScaledPriors, theta: Array, posterior: Gaussian) -> Array:
    r"""d log Z / dθ, with the dependence of the mode and of the curvature on θ.

    .. math:: \frac{d \log Z}{d θ_g} = \sum_{j ∈ g} τ_j w_j^2 + τ_j (A^{-1})_{jj} - 1 - τ_j w_j (A^{-1} c)_j

    The last term is the one that is usually left out: the mode moves by dw/dθ_g = 2 A⁻¹(τ w)_g, and with it the
    curvature in -½ log det A.

    References
    ----------
    RW06 eq. 5.22–5.24, in weight space.
    """
    tau = priors.slope_precision(theta)
    w = priors.per_slope(posterior.mean)
    variance = priors.per_slope((posterior.precision.inverse_root**2).sum(axis=0))
    c = curvature_slope_sum(objective.likelihood, objective.rows, posterior)
    moved = priors.per_slope(posterior.precision.solve(c))
    terms = (tau * (w**2 + variance - w * moved) - 1).sum(axis=0)
    return np.bincount(priors.group, weights=terms, minlength=priors.n_scales).astype(float)


class Maximum(NamedTuple):
    """The scales of highest evidence, the fit there, and how the search went."""

    theta: Array
    result: InferenceResult
    status: Status


class _EvidenceSurface:
    """Evidence and gradient at any θ, each fit warm-started from the last; the latest are remembered."""

    def __init__(
        self, objective: Objective, priors: ScaledPriors, controls: Controls, start: Array | None = None
    ) -> None:
        self.objective, self.priors, self.controls = objective, priors, controls
        self.mode = start
        self.status = Status.CONVERGED  # of the worst fit so far: a search led by one that stopped early is not done
        self.seen: dict[bytes, Evidence] = {}

    @cached_property
    def plateau(self) -> Array:
        """log of the scales below which a column has all but dropped out: the more rows, the smaller."""
        prior = self.priors.prior(np.zeros(self.priors.n_scales))
        total = self(np.zeros(self.priors.n_scales)).result.posterior.precision.matrix - prior.precision.matrix
        information = self.priors.per_slope(np.diag(total)).max(axis=0)
        largest = np.zeros(self.priors.n_scales)
        np.maximum.at(largest, self.priors.group, information)
        return np.log(np.minimum(PLATEAU, FAINT / np.sqrt(np.maximum(largest, np.finfo(float).tiny))))

    def __call__(self, theta: Array) -> Evidence:
        key = theta.tobytes()
        if key not in self.seen:
            if len(self.seen) >= REMEMBERED:
                del self.seen[next(iter(self.seen))]
            self.seen[key] = self._evaluate(theta)
        return self.seen[key]

    def _evaluate(self, theta: Array) -> Evidence:
        prior = self.priors.prior(theta)
        objective = replace(self.objective, prior=prior)
        start = sampled_start(objective, prior.mean) if self.mode is None else self.mode
        result = laplace(objective, start, self.controls)
        self.mode = result.posterior.mean
        if not result.solution.status.good:
            self.status = result.solution.status
        gradient = evidence_gradient(objective, self.priors, theta, result.posterior)
        return Evidence(result, gradient)


def maximise_evidence(
    objective: Objective, priors: ScaledPriors, controls: Controls = Controls(), start: Array | None = None
) -> Maximum:
    """Find the prior scales of highest Laplace evidence within [1e-3, 1e3].

    One scale: the root of the exact gradient, bracketed by walking uphill from the best of a coarse scan. Several:
    L-BFGS-B from 1, which finds a maximum but not always the highest. The fit returned is the one at the scales
    returned: mode, curvature and evidence belong together. However a search ended, the gradient there decides what is
    said of it. A `start` for the weights chooses among several modes.
    """
    surface = _EvidenceSurface(objective, priors, controls, start)
    if priors.n_scales == 1:
        theta = _uphill_root(surface, _best_of_scan(surface))
    else:
        theta = _settled(surface, _quasi_newton(surface, np.zeros(priors.n_scales)))
    final = surface(theta)
    status = _search_status(theta, final.gradient) if surface.status.good else surface.status
    if status is Status.CONVERGED:
        status = final.result.solution.status
    return Maximum(theta, final.result, status)


def _search_status(theta: Array, gradient: Array) -> Status:
    """Whether the evidence is at a maximum: no slope left, but outwards at a bound."""
    low, high = (np.abs(theta - bound) < AT_BOUND for bound in LOG_BOUNDS)
    rising = np.where(low, gradient > STEEP, np.where(high, gradient < -STEEP, np.abs(gradient) > STEEP))
    if rising.any():
        return Status.SCALES_NOT_FOUND
    return Status.SCALE_AT_BOUND if (low | high).any() else Status.CONVERGED


def _best_of_scan(surface: _EvidenceSurface) -> float:
    """The best of seven scales from 0.001 to 1000: the evidence may have several maxima. Many rows leave it one."""
    if surface.objective.rows.n_rows >= MANY_ROWS:
        return 0.0
    scales = [0.0, *(float(sign * step * np.log(10)) for sign in (-1, 1) for step in (1, 2, 3))]
    return max(scales, key=lambda theta: surface(np.array([theta])).result.log_evidence)


def _uphill_root(surface: _EvidenceSurface, start: float) -> Array:
    from scipy.optimize import brentq

    def slope(theta: float) -> float:
        return float(surface(np.array([theta])).gradient[0])

    low = high = float(np.clip(start, *LOG_BOUNDS))
    here = slope(high)
    if abs(here) <= GRADIENT_GOAL:
        return np.array([high])
    step = np.copysign(1.0, here)
    while True:
        low, high = high, float(np.clip(high + step, *LOG_BOUNDS))
        if slope(high) * here < 0:
            return np.array([brentq(slope, low, high, xtol=1e-9)])
        if high in LOG_BOUNDS:
            return np.array([high])


def _quasi_newton(surface: _EvidenceSurface, start: Array) -> Array:
    from scipy.optimize import minimize

    def objective(theta: Array) -> tuple[float, Array]:
        at = surface(theta)
        return -at.result.log_evidence, -at.gradient

    found = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[LOG_BOUNDS] * len(start),
        options={"ftol": 1e-12, "gtol": 1e-6, "maxiter": 500},
    )
    return np.asarray(found.x)


def _settled(surface: _EvidenceSurface, theta: Array) -> Array:
    """Free the answer from where the search happened to stop.

    As a scale s → 0 its column drops out and d log Z/dθ falls like s²: a search by gradients stops anywhere on that
    plateau, and where depends on rounding. So what is on the plateau is switched off, the rest polished; then the
    column whose return would raise the evidence most is let in again, until there is none (as Tipping & Faul 2003).
    """
    if len(theta) > MOST_SETTLED:
        return theta
    theta = _tidied(surface, theta)
    for _ in range(len(theta)):
        at = surface(theta)
        better = _woken(surface, theta, at)
        if better is None:
            break
        theta = better
    return theta


def _woken(surface: _EvidenceSurface, theta: Array, at: Evidence) -> Array | None:
    """A column that is switched off let in again, the one with the strongest pull first, where that helps."""
    pull = np.where(theta == LOG_BOUNDS[0], at.gradient, 0.0)
    for j in np.argsort(-pull)[: np.count_nonzero(pull > 0)]:
        woken = np.where(np.arange(len(theta)) == j, surface.plateau, theta)
        woken = _tidied(surface, _quasi_newton(surface, woken))
        if surface(woken).result.log_evidence > at.result.log_evidence:
            return woken
    return None


def _tidied(surface: _EvidenceSurface, theta: Array) -> Array:
    """Switch off and polish until neither changes the other's work."""
    for _ in range(TIDYING_ROUNDS):
        before, theta = theta, _polished(surface, _switched_off(surface, theta))
        if not ((theta < surface.plateau) & (theta > LOG_BOUNDS[0]) & (theta != before)).any():
            break
    return theta


def _switched_off(surface: _EvidenceSurface, theta: Array) -> Array:
    """Move to the lower bound the scales below which the evidence is a plateau: convex in θ, unlike at a maximum."""
    gradient = surface(theta).gradient
    off = theta.copy()
    for j in np.flatnonzero((theta < surface.plateau) & (theta > LOG_BOUNDS[0])):
        beside = theta.copy()
        beside[j] += PLATEAU_STEP
        growing = surface(beside).gradient[j] * gradient[j] > gradient[j] ** 2
        if growing or gradient[j] < 0:
            off[j] = LOG_BOUNDS[0]
    return off


def _polished(surface: _EvidenceSurface, theta: Array) -> Array:
    """Newton steps on the exact gradient, its derivative by differences; scales at a bound stay there.

    The line search above compares evidences, whose rounding hides gradients below about 1e-6; the gradient itself is
    known far better, and the answer should not depend on rounding.
    """
    for _ in range(POLISHING_STEPS):
        gradient = surface(theta).gradient
        free = np.flatnonzero((theta > LOG_BOUNDS[0]) & (theta < LOG_BOUNDS[1]))
        if not free.size or np.abs(gradient[free]).max() < GRADIENT_GOAL:
            break
        shifted = theta + DIFFERENCE * np.eye(len(theta))[free]
        jacobian = np.array([surface(point).gradient[free] - gradient[free] for point in shifted]) / DIFFERENCE
        proposal = theta.copy()
        # Least squares: a column that is constant, or there twice, leaves its scale undetermined.
        proposal[free] -= np.linalg.lstsq(jacobian.T, gradient[free], rcond=1e-10)[0]
        proposal = np.clip(proposal, *LOG_BOUNDS)
        if np.linalg.norm(surface(proposal).gradient[free]) > np.linalg.norm(gradient[free]):
            break
        theta = proposal
    return theta
