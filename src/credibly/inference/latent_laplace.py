"""Laplace in function space: the Gaussian at the mode of the latents, for any likelihood with one score a row.

Weight space and function space are two functions on purpose; a law ties them (a linear kernel is a linear model).
Notation as in `latent` and `latent_newton`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Scores
from credibly.inference.latent import LatentGaussian, Precision
from credibly.inference.latent_newton import AtMode, Mode, Point, find_mode
from credibly.inference.leave_one_out import cavities, log_left_out
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.base import Expansion
from credibly.model.likelihoods.kinds import concave_relative
from credibly.numerics.arrays import Array
from credibly.numerics.status import TO_ROUNDING, Controls


class Latents(NamedTuple):
    """The problem in function space: a kernel matrix, labels, and what ties labels to latents."""

    K: Array  # (n, n)
    y: Array  # (n,)
    likelihood: Likelihood
    expected: bool = False  # whether the Gaussian has the expected curvature at the mode instead of the one found there

    def times(self, u: Array) -> Array:
        """K u."""
        return np.asarray(self.K @ u)

    def expand(self, f: Array) -> Expansion:
        """The likelihood at some latents."""
        return self.likelihood.expand(self.y, f)

    def factorise(self, here: Point[Expansion]) -> tuple[Precision, bool]:
        """K⁻¹ + W, with the expected curvature where the observed one gives no Gaussian."""
        try:
            return Precision.of(self.K, here.at.curvature), False
        except NotPositiveDefinite:
            if (here.at.curvature >= 0).all():  # then it is the kernel
                raise
            return Precision.of(self.K, self.likelihood.information(here.f)), True


@dataclass(frozen=True)
class LaplaceLatents(AtMode[Expansion, Precision]):
    """The Gaussian at the mode of the latents, its evidence, and how the search for the mode ended."""

    problem: Latents

    @property
    def posterior(self) -> LatentGaussian:
        """q(f)."""
        return LatentGaussian(self.mode.point.a, self.mode.precision)

    def gradient_matrices(self) -> list[Array]:
        r"""M with ∂ log evidence/∂θ = Σᵢⱼ Mᵢⱼ ∂Kᵢⱼ/∂θ, the mode's own movement included.

        .. math:: M = \tfrac12 (a a^T - R) + u a^T, \quad u = (I + WK)^{-1} s, \quad
            s_i = -\tfrac12 Σ_{ii} \, \partial W_i / \partial f_i

        References
        ----------
        RW06 eq. 5.21–5.24, Alg. 5.1 (W = -∇∇ log p, so that ∂W/∂f is minus the third derivative).
        """
        point, precision, K = self.mode.point, self.mode.precision, self.problem.K
        R = precision.matrix()
        s = -0.5 * precision.variances(K, R) * self._curvature_slope()
        moving = self.problem.factorise(point)[0] if self.problem.expected else None
        u = s - (R @ (K @ s) if moving is None else moving.weigh(K @ s))
        R *= -0.5
        R += np.outer(0.5 * point.a + u, point.at.grad)
        return [R]

    def _curvature_slope(self) -> Array:
        """∂W_i/∂f_i."""
        if self.problem.expected:
            return self.problem.likelihood.information_slope(self.mean)
        return -self.problem.likelihood.third(self.problem.y, self.mean)

    def leave_one_out(self) -> Array:
        """log p(y_i | other rows), (n,): the row's own factor, as Laplace sees it, is taken off its marginal.

        NaN for a row without which the others give no Gaussian (where the likelihood is not log-concave).
        """
        cavity = cavities(self.marginals(), self.mode.point.at.grad, self.mode.precision.W)
        return log_left_out(self.problem.likelihood, self.problem.y, cavity)

    def marginals(self) -> Scores:
        """Means and variances of the latents at the training rows."""
        return Scores(self.mean, self.mode.precision.variances(self.problem.K))

    def effective_parameters(self) -> float:
        """tr(Σ W)."""
        return float(self.mode.precision.W @ self.mode.precision.variances(self.problem.K))


def laplace_latents(problem: Latents, start: Array | None = None, controls: Controls = TO_ROUNDING) -> LaplaceLatents:
    """Approximate the posterior of the latents by the Gaussian at its mode.

    A likelihood that is not log-concave is tried from the mode of its concave relative and from zero (and from
    `start`), and the mode with the largest evidence is kept; where its curvature gives no Gaussian the expected one
    stands in, and the status says so.

    Parameters
    ----------
    problem : Latents
    start : (n,) array, optional
        a = K⁻¹f to start from; zero by default.
    controls : Controls

    References
    ----------
    RW06 Alg. 3.1, 3.2.
    """
    zero = np.zeros(len(problem.y))
    starts = [zero if start is None else start]
    if not problem.likelihood.log_concave:
        relative = concave_relative(problem.likelihood)
        if isinstance(relative, Likelihood):
            starts.append(find_mode(problem._replace(likelihood=relative), zero, controls).point.a)
        if start is not None:
            starts.append(zero)
    found = [LaplaceLatents(_finished(problem, find_mode(problem, a, controls)), problem) for a in starts]
    return max(found, key=lambda it: (it.status.good, it.log_evidence))


def _finished(problem: Latents, mode: Mode[Expansion, Precision]) -> Mode[Expansion, Precision]:
    """A mode with the Gaussian that is wanted there.

    With the expected curvature (Hartmann & Vanhatalo 2019) a mode that is about to vanish, flat in some direction, is
    not taken for one of much mass: the evidence of a likelihood that is not log-concave has no poles in θ then.
    """
    if not problem.expected:
        return mode
    return mode._replace(precision=Precision.of(problem.K, problem.likelihood.information(mode.point.f)))
