"""The evidence of a Gaussian process as a function of its hyperparameters: value, gradient, maximum, curvature.

Notation
--------
====  ==========================================================================================  ======
θ     natural logs of the kernels' free hyperparameters, kernel by kernel, then the logits of     (p,)
      twice the flip probabilities where label noise is estimated
====  ==========================================================================================  ======
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize

from credibly.errors import NotPositiveDefinite
from credibly.inference.flips import FlipBelief
from credibly.inference.gaussian import Scores
from credibly.inference.latent import LatentGaussian
from credibly.inference.latent_softmax import ClassGaussian
from credibly.inference.one_vs_rest import OneVsRestGaussian
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.status import Controls, Status, silent

FLAT = 1e-2  # slope, in nats per e-fold of a hyperparameter, that counts as none
GAIN, LEVEL = 1e-9, 1e-4  # a step that gains less (of the evidence), and a slope that is less, end the search
FORBIDDEN = 1e4  # nats below the best, for hyperparameters whose kernel gives no covariance in floating point
SAME_HEIGHT = 1e-10  # relative, of two evidences
AT_BOUND = 1e-9
ROUNDS = 3
MOST_STEPS = 200
SEARCH_STEPS = 50  # of Newton, or sweeps of EP, at hyperparameters that are only passed by
PAIRS = 20
STEP = 1e-4  # of a logit or a log, for central differences: error 1e-8 of the third derivative
HESSIAN_STEP = 1e-3  # of a log hyperparameter, for differences of gradients that are good to 1e-9
FLIP_BOUNDS = (-14.0, 7.0)  # logits of twice a flip probability: from one in two million to just below a half


class Inferred(Protocol):
    """What every inference over latents gives."""

    @property
    def log_evidence(self) -> float:
        """log p(y | X, θ)."""

    @property
    def log_likelihood(self) -> float:
        """At the mode, or at the mean."""

    @property
    def status(self) -> Status:
        """How the search for the latents ended."""

    @property
    def steps(self) -> int:
        """How many steps or sweeps it took."""

    @property
    def mean(self) -> Array:
        """Mode or mean of the latents."""

    @property
    def warm(self) -> Array:
        """Where a search with similar hyperparameters may start."""

    def gradient_matrices(self) -> list[Array]:
        """M_c with ∂ log evidence/∂θ = Σ_c Σᵢⱼ (M_c)ᵢⱼ ∂(K_c)ᵢⱼ/∂θ, one for each kernel."""

    def leave_one_out(self) -> Array:
        """log p(y_i | other rows), (n,)."""

    def effective_parameters(self) -> float:
        """tr(Σ W)."""

    def marginals(self) -> Scores:
        """Means and (co)variances of the latents at the training rows."""

    @property
    def posterior(self) -> LatentGaussian | ClassGaussian | OneVsRestGaussian:
        """q(f)."""


Infer = Callable[[tuple[Array, ...], Array | None, Array | None, Controls], Inferred]


class Evaluated(NamedTuple):
    """The evidence at one θ, with what its gradient needs."""

    theta: Array
    kernels: tuple[Kernel, ...]
    matrices: tuple[Array, ...]
    result: Inferred


@dataclass(frozen=True)
class KernelEvidence:
    """log p(y | X, θ) for given rows and labels.

    Parameters
    ----------
    X : (n, d) array
    kernels : tuple of Kernel
        One for all classes, or one for each.
    infer : function of (kernel matrices, flip probabilities or None, start or None, controls)
    belief : FlipBelief or None
        Where label noise is estimated too.
    differences : bool
        Whether the gradient is found by differences of the evidence (a single pass of ADF has no other).
    search_tol : float
        Tolerance of the latents while hyperparameters move.
    """

    X: Array
    kernels: tuple[Kernel, ...]
    infer: Infer
    belief: FlipBelief | None = None
    differences: bool = False
    search_tol: float = 0.0

    @property
    def start(self) -> Array:
        """θ of the kernels as given, and a first guess of the flip probabilities."""
        flips = [] if self.belief is None else [np.full(self.belief.n_free, -2.0)]
        return np.concatenate([*(kernel.theta for kernel in self.kernels), *flips, np.zeros(0)])

    @property
    def bounds(self) -> Array:
        """(p, 2)."""
        flips = [] if self.belief is None else [np.tile(FLIP_BOUNDS, (self.belief.n_free, 1))]
        return np.concatenate([*(kernel.bounds for kernel in self.kernels), *flips, np.zeros((0, 2))])

    def split(self, theta: Array) -> tuple[tuple[Kernel, ...], Array]:
        """Kernels with these hyperparameters, and the logits of label noise."""
        sizes = np.cumsum([len(kernel.theta) for kernel in self.kernels])
        parts = np.split(theta, sizes)
        return tuple(k.with_theta(part) for k, part in zip(self.kernels, parts, strict=False)), parts[-1]

    def flips(self, theta: Array) -> Array | None:
        """Flip probabilities, where they are estimated."""
        return None if self.belief is None else self.belief.flips(self.split(theta)[1])

    def at(self, theta: Array, warm: Array | None, controls: Controls) -> Evaluated:
        """Infer the latents at one θ."""
        kernels = self.split(theta)[0]
        matrices = tuple(kernel(self.X) for kernel in kernels)
        return Evaluated(theta, kernels, matrices, self.infer(matrices, self.flips(theta), warm, controls))

    def gradient(self, at: Evaluated, controls: Controls) -> Array:
        """∂ log p(y | X, θ)/∂θ, (p,)."""
        if self.differences:
            return self._by_differences(at.theta, controls)
        sums = [
            kernel.gradient_sums(self.X, M, K)
            for kernel, M, K in zip(at.kernels, at.result.gradient_matrices(), at.matrices, strict=True)
        ]
        return np.concatenate([*sums, self._flip_gradient(at, controls)])

    def _by_differences(self, theta: Array, controls: Controls) -> Array:
        def height(point: Array) -> float:
            return self.at(point, None, controls).result.log_evidence

        steps = STEP * np.eye(len(theta))
        return np.array([(height(theta + step) - height(theta - step)) / (2 * STEP) for step in steps])

    def _flip_gradient(self, at: Evaluated, controls: Controls) -> Array:
        """By central differences: a handful of parameters that enter through the likelihood."""
        if self.belief is None:
            return np.zeros(0)
        logits = self.split(at.theta)[1]
        slopes = []
        for step in STEP * np.eye(len(logits)):
            up, down = (
                self.infer(at.matrices, self.belief.flips(logits + side), at.result.warm, controls).log_evidence
                for side in (step, -step)
            )
            slopes.append((up - down) / (2 * STEP))
        return np.array(slopes)

    def log_prior(self, theta: Array) -> float:
        """Log density of the priors on hyperparameters, zero for those without."""
        kernels, logits = self.split(theta)
        noise = 0.0 if self.belief is None else self.belief.log_density(logits)
        return sum(kernel.log_prior for kernel in kernels) + noise

    def log_prior_gradient(self, theta: Array) -> Array:
        """Its gradient, (p,)."""
        kernels, logits = self.split(theta)
        noise = np.zeros(0) if self.belief is None else -self.belief.gradient(logits)
        return np.concatenate([*(kernel.log_prior_gradient for kernel in kernels), noise])

    def hessian(self, at: Evaluated, controls: Controls) -> Array:
        """Second derivatives of log evidence + log prior at θ, (p, p), by central differences of the gradient."""

        def slope(theta: Array) -> Array:
            there = self.at(theta, at.result.warm, controls)
            return self.gradient(there, controls) + self.log_prior_gradient(theta)

        steps = HESSIAN_STEP * np.eye(len(at.theta))
        rows = [(slope(at.theta + step) - slope(at.theta - step)) / (2 * HESSIAN_STEP) for step in steps]
        H = np.array(rows).reshape(len(steps), len(steps))
        return np.asarray(0.5 * (H + H.T))


class Found(NamedTuple):
    """Where a search for hyperparameters ended."""

    at: Evaluated
    status: Status


Progress = Callable[[int, float, float], None]


def maximise(
    evidence: KernelEvidence, bounds: Array, starts: Sequence[Array], controls: Controls, progress: Progress
) -> Found:
    """Hyperparameters of highest evidence (times their prior), by L-BFGS from one or several starts.

    Latents of one evaluation start the next. The last evaluation is repeated with the tolerance of `controls`.

    Parameters
    ----------
    evidence : KernelEvidence
    bounds : (p, 2) array
        Where both are equal a hyperparameter keeps its value.
    starts : sequence of (p,) arrays
        Each inside the bounds.
    controls : Controls
    progress : function of (evaluation, log evidence, largest slope)
    """
    search = Controls(max(controls.tol, evidence.search_tol), min(controls.max_steps, SEARCH_STEPS), silent)
    climbs = [_climb(evidence, bounds, starts[0], search, progress)]
    for start in starts[1:]:
        with suppress(NotPositiveDefinite):  # a drawn start whose kernel values are rounded away, or overflow
            climbs.append(_climb(evidence, bounds, start, search, progress))
    best = max(climbs, key=lambda climb: climb.height)
    at = evidence.at(best.theta, best.warm, controls)
    return Found(at, _judged(at, best, bounds))


class Climb(NamedTuple):
    """One search: where it ended, the penalised evidence and its slope there."""

    theta: Array
    height: float
    slope: Array
    warm: Array

    @property
    def steepest(self) -> float:
        """Largest slope."""
        return float(np.abs(self.slope).max(initial=0.0))

    def above(self, other: "Climb") -> bool:
        """Whether it is higher, or as high up to rounding and less steep."""
        noise = SAME_HEIGHT * max(1.0, abs(other.height))
        if abs(self.height - other.height) <= noise:
            return self.steepest < other.steepest
        return self.height > other.height

    def at_bounds(self, bounds: Array) -> tuple[AnyArray, AnyArray]:
        """Which hyperparameters are at their lower, and which at their upper bound."""
        return self.theta <= bounds[:, 0] + AT_BOUND, self.theta >= bounds[:, 1] - AT_BOUND

    def rising(self, bounds: Array) -> AnyArray:
        """Along which hyperparameters the evidence still rises inside the bounds."""
        low, high = self.at_bounds(bounds)
        outwards = (low & (self.slope <= 0)) | (high & (self.slope >= 0))
        return np.asarray((np.abs(self.slope) > FLAT) & ~outwards & (bounds[:, 0] < bounds[:, 1]))


def _climb(evidence: KernelEvidence, bounds: Array, start: Array, controls: Controls, progress: Progress) -> Climb:
    count = 0

    def look(theta: Array, warm: Array | None) -> Climb:
        nonlocal count
        at = evidence.at(theta, warm, controls)
        slope = evidence.gradient(at, controls) + evidence.log_prior_gradient(theta)
        here = Climb(theta.copy(), at.result.log_evidence + evidence.log_prior(theta), slope, at.result.warm)
        progress(count, here.height, here.steepest)
        count += 1
        return here

    best = look(start, None)
    for _ in range(ROUNDS):  # a steep start sets the units of the first
        last, best = best, _one_round(look, best, bounds)
        if not best.rising(bounds).any() or best.height <= last.height:
            break
    return best


def _one_round(look: Callable[[Array, Array | None], Climb], first: Climb, bounds: Array) -> Climb:
    """L-BFGS from a point that has been looked at already."""
    best = first
    # With bounds L-BFGS first steps as far as the gradient is long: in these units an e-fold at most.
    unit, size = max(1.0, first.steepest), max(1.0, abs(first.height))

    def objective(theta: Array) -> tuple[float, Array]:
        nonlocal best
        try:
            here = first if np.array_equal(theta, first.theta) else look(theta, best.warm)
        except NotPositiveDefinite:  # so far out that kernel values are rounded away, or overflow: step back
            return (FORBIDDEN - best.height) / unit, np.zeros_like(theta)
        best = here if here.above(best) else best
        return -here.height / unit, -here.slope / unit

    options: Any = {"maxiter": MOST_STEPS, "maxcor": PAIRS, "ftol": GAIN * size / max(size, unit), "gtol": LEVEL / unit}
    within = [(low, high) for low, high in bounds.tolist()]
    minimize(objective, first.theta, jac=True, method="L-BFGS-B", bounds=within, options=options)
    return best


def _judged(at: Evaluated, climb: Climb, bounds: Array) -> Status:
    if not at.result.status.good:
        return at.result.status
    if climb.rising(bounds).any():
        return Status.HYPERPARAMETERS_NOT_FOUND
    free = bounds[:, 0] < bounds[:, 1]
    low, high = climb.at_bounds(bounds)
    return Status.HYPERPARAMETER_AT_BOUND if (free & (low | high)).any() else at.result.status
