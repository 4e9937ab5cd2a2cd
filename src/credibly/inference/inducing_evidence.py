"""The evidence of a Gaussian process with inducing points as a function of its hyperparameters.

Notation as in `kernel_evidence`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from credibly.data.rows import MemoryRows
from credibly.inference.inducing import InducingPrior
from credibly.inference.inducing_latents import InducingLatents, inducing_laplace, inducing_propagation
from credibly.inference.inducing_points import independent_points
from credibly.inference.inducing_posterior import InducingPosterior
from credibly.inference.kernel_evidence import Evaluated, KernelEvidence
from credibly.inference.one_vs_rest import OneVsRestLatents
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.status import Controls

Infer = Callable[[InducingLatents, Array | None, Controls], Any]
SOLVERS: dict[str, Infer] = {"laplace": inducing_laplace, "ep": inducing_propagation}


@dataclass(frozen=True)
class InducingEvidence(KernelEvidence):
    """log p(y | X, θ) with latents that hang together through points; the points stay where they are.

    A subclass because the search for hyperparameters is the same; the latents at one θ, and the gradient there, are
    found without a kernel matrix.

    Parameters
    ----------
    points : (m, d) array
    threads : int or None
    """

    points: Array = field(default_factory=lambda: np.zeros((0, 0)))
    threads: int | None = None

    def at(self, theta: Array, warm: Array | None, controls: Controls) -> Evaluated:
        """Infer the latents at one θ."""
        kernels = self.split(theta)[0]
        rows = MemoryRows(self.X, np.zeros(len(self.X)), threads=self.threads)
        priors: Any = tuple(InducingPrior.of(kernel, rows, self.points) for kernel in kernels)
        return Evaluated(theta, kernels, (), self.infer(priors, None, warm, controls))

    def gradient(self, at: Evaluated, controls: Controls) -> Array:
        """∂ log p(y | X, θ)/∂θ, (p,)."""
        result: Any = at.result
        gradient: Array = result.gradient()
        return gradient

    def gradient_with_points(self, at: Evaluated) -> tuple[Array, Array]:
        """The same, (p,), and ∂ log p(y | X, θ)/∂Z, (m, d): zero for points that are left out."""
        by_theta, by_points = [], np.zeros_like(self.points)
        for part in _parts(at):
            whitening = part.problem.prior.whitening
            slope, p = part.gradient(places=True), len(whitening.kernel.theta)
            by_theta.append(slope[:p])
            by_points[independent_points(whitening.kernel, self.points)] += slope[p:].reshape(whitening.points.shape)
        shared = len(self.kernels) == 1
        return np.asarray(np.sum(by_theta, axis=0) if shared else np.concatenate(by_theta)), by_points

    def refined(self, at: Evaluated, controls: Controls) -> Evaluated:
        """The same θ with latents to another tolerance, from where they are."""
        result: Any = at.result
        return at._replace(result=result.refined(controls))

    def posterior(self, at: Evaluated) -> InducingPosterior:
        """What was inferred at one θ, as a posterior of the function."""
        result, parts = at.result, _parts(at)
        gaussians = tuple(part.posterior for part in parts)
        variance = np.column_stack([part.marginals().variance for part in parts])
        return InducingPosterior(
            result.mean, variance if len(parts) > 1 else variance[:, 0], self.X, self.points, gaussians
        )


def _parts(at: Evaluated) -> tuple[Any, ...]:
    """The result itself, or one for each class."""
    return at.result.parts if isinstance(at.result, InducingOneVsRest) else (at.result,)


@dataclass(frozen=True)
class InducingOneVsRest(OneVsRestLatents):
    """Binary results for each class against the rest, with inducing points."""

    def refined(self, controls: Controls) -> "InducingOneVsRest":
        """The same with latents to another tolerance."""
        parts: Any = self.parts
        return replace(self, parts=tuple(part.refined(controls) for part in parts))

    def gradient(self) -> Array:
        """∂/∂θ of the sum of the binary log evidences, (p,)."""
        parts: Any = self.parts
        gradients = [part.gradient() for part in parts]
        return np.asarray(sum(gradients[1:], start=gradients[0]) if self.shared else np.concatenate(gradients))


def inferring(inference: str, likelihood: Likelihood, y: Codes, n_classes: int) -> Any:
    """How latents are inferred from (priors, flips, start, controls): `infer` of an `InducingEvidence`."""
    solve = SOLVERS[inference]
    if n_classes == 2:
        return partial(_two_classes, solve, likelihood, y.astype(float))
    return partial(_each_class, solve, likelihood, y)


def _two_classes(solve: Infer, likelihood: Likelihood, y: Array, priors: tuple[InducingPrior, ...], *rest: Any) -> Any:
    _, start, controls = rest
    return solve(InducingLatents(priors[0], y, likelihood), start, controls)


def _each_class(
    solve: Infer, likelihood: Likelihood, y: Codes, priors: tuple[InducingPrior, ...], *rest: Any
) -> InducingOneVsRest:
    _, start, controls = rest
    parts: Any = tuple(
        solve(
            InducingLatents(priors[0] if len(priors) == 1 else priors[c], (y == c).astype(float), likelihood),
            None if start is None else start[c],
            controls,
        )
        for c in range(int(y.max()) + 1)
    )
    return InducingOneVsRest(parts, y, len(priors) == 1)
