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
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from credibly.data.rows import Block, Rows, add
from credibly.inference.contrasts import centring
from credibly.inference.laplace import Controls, laplace, sampled_start
from credibly.inference.objective import Objective, score
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.inference.scale_search import (
    AT_BOUND,
    LOG_BOUNDS,
    MOST_SETTLED,
    STEEP,
    Evidence,
    best_of_scan,
    climbed,
    polished,
    root_uphill,
    search_status,
    settled,
)
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import PSD, block_diagonal
from credibly.numerics.newton import Start
from credibly.numerics.settings import COSTS
from credibly.numerics.status import Status

__all__ = [
    "AT_BOUND",
    "INTERCEPT_SCALE",
    "LOG_BOUNDS",
    "STEEP",
    "Maximum",
    "ScaledPriors",
    "curvature_slope_sum",
    "evidence_gradient",
    "maximise_evidence",
]

REMEMBERED = 8  # evaluations: searches come back to their last points
MOST_QUADRATICS = 6
UPHILL = 1e-6  # nats that a step may lose to rounding
SMALL = 1e-9  # nats per unit of log scale: scales are known to a billionth;
SMALL_OF_MANY = 1e-4  # where there are so many that the search does not polish them
INTERCEPT_SCALE = 10.0  # of the intercept at the column means, where scores have no unit


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
    unit : float
        Of the slopes: scales are multiples of it.
    intercept_scale : float
        Of the intercept at the column means.
    """

    group: Codes
    intercept_row: Array | None
    n_outputs: int
    unit: float = 1.0
    intercept_scale: float = INTERCEPT_SCALE

    @property
    def n_scales(self) -> int:
        """Number of scales to choose."""
        return int(self.group.max()) + 1 if self.group.size else 0

    def slope_precision(self, theta: Array) -> Array:
        """τ for every slope."""
        return np.asarray((np.exp(-2 * theta) / self.unit**2)[self.group])

    def prior(self, theta: Array) -> Gaussian:
        """The Gaussian prior of all weights in the frame."""
        precision = np.diag(self.slope_precision(theta))
        if self.intercept_row is not None:
            of_intercept = np.outer(self.intercept_row, self.intercept_row) / self.intercept_scale**2
            precision = np.pad(precision, (0, 1)) + of_intercept
        stacked = block_diagonal(precision, self.n_outputs)
        return Gaussian(np.zeros(len(stacked)), PSD.of(stacked, "the prior precision"))

    def per_slope(self, weights: Array) -> Array:
        """The slopes' part of a flat vector of weights, (K, d)."""
        return weights.reshape(self.n_outputs, -1)[:, : self.group.size]


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
    f, V = posterior.class_scores(rows.X, centring(likelihood.n_classes))
    slopes = likelihood.curvature_slope(likelihood.mean(f), V)
    return slopes if rows.weight is None else slopes * rows.weight[:, None]


@curvature_slopes.register
def _(likelihood: NoisyCategorical, rows: Block, posterior: Gaussian) -> Array:
    f, V = posterior.class_scores(rows.X, centring(likelihood.n_classes))
    slopes = likelihood.curvature_slope(likelihood.expand(rows.y, f), V)
    return slopes if rows.weight is None else slopes * rows.weight[:, None]


def curvature_slope_sum(likelihood: AnyLikelihood, rows: Rows, posterior: Gaussian) -> Array:
    """c: how log det A moves when the mode does, in one pass over the rows."""

    def block(part: Block) -> tuple[Array | float, ...]:
        rows = part.counted
        return (score(rows.X, curvature_slopes(likelihood, rows, posterior)),)

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
    return _gradient(priors, theta, posterior, curvature_slope_sum(objective.likelihood, objective.rows, posterior))


def _gradient(priors: ScaledPriors, theta: Array, posterior: Gaussian, c: Array) -> Array:
    tau = priors.slope_precision(theta)
    w = priors.per_slope(posterior.mean)
    variance = priors.per_slope((posterior.precision.inverse_root**2).sum(axis=0))
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
        self.objective, self.priors, self.start = objective, priors, start
        self.controls = controls._replace(tol=controls.tol**2)  # differences of gradients show what a mode is off by
        self.n_weights = priors.prior(np.zeros(priors.n_scales)).mean.size
        self.last: tuple[Array, InferenceResult] | None = None  # θ and the fit there
        self.status = Status.CONVERGED  # of the worst fit so far: a search led by one that stopped early is not done
        self.seen: dict[bytes, Evidence] = {}

    @property
    def large(self) -> bool:
        """Whether passes over the rows are dear, and one maximum is worth finding."""
        return self.objective.rows.n_rows * self.n_weights >= COSTS.quadratic_numbers

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
        result = laplace(objective, self._start(objective, prior), self.controls)
        self.last = theta, result
        if not result.solution.status.good:
            self.status = result.solution.status
        c = curvature_slope_sum(objective.likelihood, objective.rows, result.posterior)
        return Evidence(result, _gradient(self.priors, theta, result.posterior, c), c)

    def _start(self, objective: Objective, prior: Gaussian) -> Start | Array:
        """The last mode, and where passes are dear, what the last fit tells of gradient and Hessian there."""
        if self.last is None:
            return sampled_start(objective, prior.mean if self.start is None else self.start)
        theta, (posterior, _, _, solution) = self.last
        if not (self.large and objective.log_concave):
            return posterior.mean
        before = self.priors.prior(theta)
        hessian = posterior.precision.matrix - before.precision.matrix + prior.precision.matrix
        metric = PSD.of(hessian, "the posterior precision")
        moved = metric.solve(prior.pull(posterior.mean) - before.pull(posterior.mean))  # at a mode the rest is zero
        return Start(posterior.mean - moved, posterior.mean, metric, solution.nonlinearity)


class _QuadraticSurface:
    """Evidence and gradient as if the log likelihood were the quadratic it is near a mode: no pass over the rows.

    Both are exact at the scales where the quadratic was taken. The likelihood's curvature is that at the mode; what its
    determinant does when the mode moves is kept to first order, by c.
    """

    def __init__(self, priors: ScaledPriors, theta: Array, at: Evidence) -> None:
        posterior, before = at.result.posterior, priors.prior(theta)
        self.priors, self.at, self.w = priors, at, posterior.mean
        self.information = posterior.precision.matrix - before.precision.matrix
        self.pull = before.pull(self.w)  # at a mode the gradient of the log likelihood

    def __call__(self, theta: Array) -> Evidence:
        prior, c = self.priors.prior(theta), self.at.curvature_slope
        A = PSD.of(self.information + prior.precision.matrix, "the posterior precision")
        q = Gaussian(A.solve(self.information @ self.w + self.pull), A)
        moved = q.mean - self.w
        log_likelihood = self.at.result.log_likelihood + moved @ (self.pull - self.information @ moved / 2)
        log_evidence = log_likelihood + prior.logpdf(q.mean) - q.logpdf(q.mean) - c @ moved / 2
        result = InferenceResult(q, float(log_evidence), float(log_likelihood), self.at.result.solution)
        return Evidence(result, _gradient(self.priors, theta, q, c), c)


def maximise_evidence(
    objective: Objective, priors: ScaledPriors, controls: Controls = Controls(), start: Array | None = None
) -> Maximum:
    """Find the prior scales of highest Laplace evidence within [1e-3, 1e3].

    One scale: the root of the exact gradient, bracketed by walking uphill from the best of a coarse scan. Several:
    L-BFGS-B from 1, which finds a maximum but not always the highest. With many rows both walk over quadratics instead,
    each taken where the last search ended, until the exact gradient agrees. The fit returned is the one at the scales
    returned: mode, curvature and evidence belong together. However a search ended, the gradient there decides what is
    said of it. A `start` for the weights chooses among several modes.
    """
    surface = _EvidenceSurface(objective, priors, controls, start)
    theta = _searched(surface)
    final = surface(theta)
    status = search_status(theta, final.gradient) if surface.status.good else surface.status
    if status is Status.CONVERGED:
        status = final.result.solution.status
    return Maximum(theta, final.result, status)


def _searched(surface: _EvidenceSurface) -> Array:
    theta, found = np.zeros(surface.priors.n_scales), False
    if surface.large and surface.objective.likelihood.log_concave:
        theta, found = _over_quadratics(surface, theta)
    if found:
        return theta
    if surface.priors.n_scales == 1:
        return root_uphill(surface, theta[0] if surface.large else best_of_scan(surface))
    return settled(surface, climbed(surface, theta))


def _over_quadratics(surface: _EvidenceSurface, theta: Array) -> tuple[Array, bool]:
    """Scales, and whether the exact gradient is zero there: two or three fits, however long the search."""
    at = surface(theta)
    for _ in range(MOST_QUADRATICS):
        quadratic = _QuadraticSurface(surface.priors, theta, at)
        if theta.size == 1:
            proposal = polished(quadratic, root_uphill(quadratic, theta[0]))
        else:
            proposal = settled(quadratic, climbed(quadratic, theta))
        there = surface(proposal)
        if there.result.log_evidence < at.result.log_evidence - UPHILL:
            return theta, False
        theta, at = proposal, there
        free = (theta > LOG_BOUNDS[0]) & (theta < LOG_BOUNDS[1])
        if np.abs(at.gradient[free]).max(initial=0.0) <= (SMALL if theta.size <= MOST_SETTLED else SMALL_OF_MANY):
            return theta, True
    return theta, False
