"""The evidence of a Gaussian process as a function of its hyperparameters: value, gradient, maximum, curvature.

Notation
--------
====  ==========================================================================================  ======
θ     natural logs of the kernels' free hyperparameters, kernel by kernel, then the logits of     (p,)
      twice the flip probabilities where label noise is estimated
====  ==========================================================================================  ======
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize

from credibly.inference.label_noise import FlipBelief
from credibly.inference.laplace import Controls
from credibly.inference.latent import LatentGaussian
from credibly.inference.latent_softmax import ClassGaussian
from credibly.inference.one_vs_rest import OneVsRestGaussian
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import Array
from credibly.numerics.newton import Status, silent

FLAT = 1e-2  # slope, in nats per e-fold of a hyperparameter, that counts as none
AT_BOUND = 1e-9
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
        noise = np.zeros(0) if self.belief is None else -self.belief.pull(logits)
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
    climbs = [_climb(evidence, bounds, start, search, progress) for start in starts]
    best = max(climbs, key=lambda climb: climb.height)
    at = evidence.at(best.theta, best.warm, controls)
    return Found(at, _judged(at, best, bounds))


class Climb(NamedTuple):
    """One search: where it ended, the penalised evidence and its slope there."""

    theta: Array
    height: float
    slope: Array
    warm: Array


def _climb(evidence: KernelEvidence, bounds: Array, start: Array, controls: Controls, progress: Progress) -> Climb:
    best: Climb | None = None
    count, unit = 0, 1.0

    def objective(theta: Array) -> tuple[float, Array]:
        nonlocal best, count, unit
        at = evidence.at(theta, None if best is None else best.warm, controls)
        height = at.result.log_evidence + evidence.log_prior(theta)
        slope = evidence.gradient(at, controls) + evidence.log_prior_gradient(theta)
        if best is None or height > best.height:
            best = Climb(theta.copy(), height, slope, at.result.warm)
        steepest = float(np.abs(slope).max(initial=0.0))
        progress(count, height, steepest)
        if count == 0:  # with bounds L-BFGS first steps as far as the gradient is long: an e-fold is far enough
            unit = max(1.0, steepest)
        count += 1
        return -height / unit, -slope / unit

    options: Any = {"maxiter": MOST_STEPS, "maxcor": PAIRS, "ftol": 1e-10, "gtol": 1e-5}
    minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=[(lo, hi) for lo, hi in bounds.tolist()], options=options
    )
    assert best is not None
    return best


def _judged(at: Evaluated, climb: Climb, bounds: Array) -> Status:
    if not at.result.status.good:
        return at.result.status
    free = bounds[:, 0] < bounds[:, 1]
    low, high = climb.theta <= bounds[:, 0] + AT_BOUND, climb.theta >= bounds[:, 1] - AT_BOUND
    outwards = (low & (climb.slope <= 0)) | (high & (climb.slope >= 0))
    if (np.abs(climb.slope[free & ~outwards]) > FLAT).any():
        return Status.HYPERPARAMETERS_NOT_FOUND
    return Status.HYPERPARAMETER_AT_BOUND if (free & (low | high)).any() else at.result.status
