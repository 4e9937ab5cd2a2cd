"""Joint softmax Laplace in function space: C classes, a latent function for each, one Gaussian over all of them.

Notation
--------
======  ==============================================================================  ===========
f, a    latents and f_c = K_c a_c                                                       (n, C)
π       class probabilities at the latents                                              (n, C)
W       curvature diag(π) - ΠΠᵀ, which couples the classes of a row                     never formed
E_c     √π_c B_c⁻¹ √π_c with B_c = I + √π_c K_c √π_c                                    (n, n)
A       Σ_c E_c                                                                         (n, n)
R       (K + W⁻¹)⁻¹, with blocks δ_cd E_c - E_c A⁻¹ E_d                                 never formed
======  ==============================================================================  ===========

Nothing of size Cn × Cn is formed: C + 1 Cholesky factors of n × n matrices hold everything.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from credibly.inference.gaussian import Scores
from credibly.inference.latent import Precision
from credibly.inference.latent_newton import AtMode, Point, find_mode
from credibly.inference.leave_one_out import class_cavities, log_class_left_out
from credibly.model.likelihoods import Categorical
from credibly.model.likelihoods.categorical import CategoricalExpansion
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import PSD
from credibly.numerics.status import TO_ROUNDING, Controls


def of_class(items: tuple[Array, ...], c: int) -> Array:
    """What belongs to class c, of one for all classes or one for each."""
    return items[0] if len(items) == 1 else items[c]


class ClassPrecision(NamedTuple):
    """K⁻¹ + W over all classes, by one factor for each class and one for their sum."""

    parts: tuple[Precision, ...]  # K_c⁻¹ + diag(π_c)
    A: PSD
    logdet: float  # of I + K W

    @classmethod
    def of(cls, kernels: tuple[Array, ...], proba: Array) -> "ClassPrecision":
        r"""Factorise; :math:`\log|I + KW| = \sum_c \log|B_c| + \log|\sum_c E_c|`."""
        if len(kernels) == 1 and (proba == proba[:, :1]).all():  # as before the first step: one factor serves all
            parts = [Precision.of(kernels[0], proba[:, 0])] * proba.shape[1]
            total = len(parts) * parts[0].matrix()
        else:
            parts, total = [], np.zeros_like(kernels[0])
            for c, pi in enumerate(proba.T):
                parts.append(Precision.of(of_class(kernels, c), pi))
                total += parts[-1].matrix()
        A = PSD.of(total, "the sum of class precisions")
        return cls(tuple(parts), A, sum(part.logdet for part in parts) + A.logdet)

    def weigh(self, u: Array) -> Array:
        """R u for u (n, C)."""
        own = np.column_stack([part.weigh(column) for part, column in zip(self.parts, u.T, strict=True)])
        shared = self.A.solve(own.sum(axis=1))
        return own - np.column_stack([part.weigh(shared) for part in self.parts])


class ClassLatents(NamedTuple):
    """The problem: one kernel matrix for all classes or one for each, and class codes."""

    kernels: tuple[Array, ...]
    y: Codes
    likelihood: Categorical

    def times(self, u: Array) -> Array:
        """K u, class by class."""
        if len(self.kernels) == 1:
            return np.asarray(self.kernels[0] @ u)
        return np.column_stack([K @ column for K, column in zip(self.kernels, u.T, strict=True)])

    def expand(self, f: Array) -> CategoricalExpansion:
        """The likelihood at some latents."""
        return self.likelihood.expand(self.y, f)

    def factorise(self, here: Point[CategoricalExpansion]) -> tuple[ClassPrecision, bool]:
        """K⁻¹ + W; the softmax is log-concave, so its curvature always serves."""
        return ClassPrecision.of(self.kernels, here.at.proba), False


@dataclass(frozen=True)
class ClassGaussian:
    """q(f) = N(K a, (K⁻¹ + W)⁻¹) over all classes at the training rows, and by the prior everywhere else."""

    a: Array  # (n, C)
    precision: ClassPrecision

    def __repr__(self) -> str:
        return f"ClassGaussian(n={len(self.a)}, C={self.a.shape[1]}, log|I + KW|={self.precision.logdet:.4g})"

    def _parts(self, cross: tuple[Array, ...]) -> tuple[Array, list[Array]]:
        """k*ᵀa (m, C), and z_c = L_A⁻¹ E_c k*_c for every class, so that covariances gain z_cᵀ z_d."""
        classes = range(self.a.shape[1])
        mean = np.column_stack([of_class(cross, c).T @ self.a[:, c] for c in classes])
        weighed = (self.precision.parts[c].weigh(of_class(cross, c)) for c in classes)
        return mean, [self.precision.A.half_solve(own) for own in weighed]

    def scores(self, cross: tuple[Array, ...], prior: tuple[Array, ...]) -> Scores:
        """Mean (m, C) and covariance (m, C, C) of the latents at each of m other rows.

        Parameters
        ----------
        cross, prior : tuples with one entry for all classes or one for each
            k_c(X, X*) (n, m) and k_c(x*, x*) (m,).

        References
        ----------
        RW06 Alg. 3.4.
        """
        mean, z = self._parts(cross)
        cov = np.array([[np.einsum("nm,nm->m", left, right) for right in z] for left in z])
        for c, part in enumerate(self.precision.parts):
            cov[c, c] += of_class(prior, c) - part.explained(of_class(cross, c))
        return Scores(mean, np.moveaxis(cov, -1, 0))

    def joint(self, cross: tuple[Array, ...], prior: tuple[Array, ...]) -> Scores:
        """Mean (m, C) and covariance (C·m, C·m), class by class, of the latents at m other rows together."""
        mean, z = self._parts(cross)
        cov = np.block([[left.T @ right for right in z] for left in z])
        m = len(mean)
        for c, part in enumerate(self.precision.parts):
            block = slice(c * m, (c + 1) * m)
            cov[block, block] += part.reduced(of_class(prior, c), of_class(cross, c))
        return Scores(mean, cov)


@dataclass(frozen=True)
class SoftmaxLatents(AtMode[CategoricalExpansion, ClassPrecision]):
    """The Gaussian at the joint mode of all latents, its evidence, and how the search for the mode ended."""

    problem: ClassLatents

    @property
    def posterior(self) -> ClassGaussian:
        """q(f)."""
        return ClassGaussian(self.mode.point.a, self.mode.precision)

    def gradient_matrices(self) -> list[Array]:
        r"""M_c with ∂ log evidence/∂θ = Σ_c Σᵢⱼ (M_c)ᵢⱼ ∂(K_c)ᵢⱼ/∂θ; one matrix where the kernel is shared.

        .. math:: M_c = \tfrac12 (a_c a_c^T - R_{cc}) + u_c a_c^T, \quad u = (I + WK)^{-1} s, \quad
            s_i = -\tfrac12 \partial \operatorname{tr}(Σ_i W_i) / \partial f_i

        with the C × C covariance Σ_i of row i held fixed in the derivative.
        """
        point, precision = self.mode.point, self.mode.precision
        blocks, cov = self._blocks()
        s = -0.5 * self.problem.likelihood.curvature_slope(point.at.proba, cov)
        u = s - precision.weigh(self.problem.times(s))
        for block, a, u_c, grad in zip(blocks, point.a.T, u.T, point.at.grad.T, strict=True):
            block *= -0.5  # noqa: PLW2901 - in place
            block += np.outer(0.5 * a + u_c, grad)  # noqa: PLW2901
        return blocks if len(self.problem.kernels) > 1 else [sum(blocks[1:], start=blocks[0])]

    def _blocks(self) -> tuple[list[Array], Array]:
        """R_cc for every class, and the covariance of the classes at every training row, (n, C, C)."""
        precision, blocks, z = self.mode.precision, [], []
        cov = np.zeros((len(self.problem.y), *[self.problem.likelihood.n_classes] * 2))
        for c, part in enumerate(precision.parts):
            K, E = of_class(self.problem.kernels, c), part.matrix()
            cov[:, c, c] = part.variances(K, E)
            G = precision.A.half_solve(E)
            z.append(G @ K)
            E -= G.T @ G
            blocks.append(E)
        for c, left in enumerate(z):
            for d, right in enumerate(z[: c + 1]):
                shared = np.einsum("ni,ni->i", left, right)
                cov[:, c, d] += shared
                if d != c:
                    cov[:, d, c] += shared
        return blocks, cov

    def marginals(self) -> Scores:
        """Mean (n, C) and covariance (n, C, C) of the latents at the training rows."""
        return Scores(self.mean, self._blocks()[1])

    def leave_one_out(self) -> Array:
        """log p(y_i | other rows), (n,): the row's own factor, as Laplace sees it, is taken off its marginal."""
        at, likelihood = self.mode.point.at, self.problem.likelihood
        cavity = class_cavities(self.marginals(), at.grad, likelihood.curvature(at.proba))
        return log_class_left_out(likelihood, self.problem.y, cavity)

    def effective_parameters(self) -> float:
        """tr(Σ W)."""
        W = self.problem.likelihood.curvature(self.mode.point.at.proba)
        return float(np.einsum("ncd,ndc->", W, self.marginals().variance))


def softmax_latents(
    problem: ClassLatents, start: Array | None = None, controls: Controls = TO_ROUNDING
) -> SoftmaxLatents:
    """Approximate the joint posterior of all classes' latents by the Gaussian at its mode.

    Parameters
    ----------
    problem : ClassLatents
    start : (n, C) array, optional
        a = K⁻¹f to start from; zero by default.
    controls : Controls

    References
    ----------
    RW06 Alg. 3.3.
    """
    zero = np.zeros((len(problem.y), problem.likelihood.n_classes))
    return SoftmaxLatents(find_mode(problem, zero if start is None else start, controls), problem)
