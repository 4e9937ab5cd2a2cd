"""The posterior of a function that is known through its values at inducing points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from credibly.inference.function_posterior import CHUNK, LOST, finite
from credibly.inference.gaussian import Scores
from credibly.inference.inducing import InducingPrecision, Whitening, left_open, squared_lengths
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD, semidefinite_root


@dataclass(frozen=True)
class InducingGaussian:
    r"""q of one function: Gaussian in the white coordinates c of its values at the points, and the prior given those.

    .. math:: f(x) = v^T c + e, \qquad c \sim N(V^T a, A^{-1}), \quad e \sim N(0, k(x, x) - v^T v)
    """

    whitening: Whitening
    mean: Array  # Vᵀa, (m,)
    A: PSD

    @classmethod
    def of(cls, precision: InducingPrecision, a: Array) -> InducingGaussian:
        """From a posterior of the latents at rows."""
        return cls(precision.prior.whitening, precision.prior.onto_points(a)[0], precision.A)

    def __repr__(self) -> str:
        return f"InducingGaussian(m={self.mean.size}, log|A|={self.A.logdet:.4g})"

    def scores(self, X: Array) -> Scores:
        """Mean and variance of the latents at other rows."""
        V, prior = self._seen(X, self.whitening.kernel.diag)
        return Scores(V @ self.mean, left_open(prior, V) + squared_lengths(self.A.inverse_root, V))

    def means(self, X: Array) -> Array:
        """Their means alone: k(X, Z) times one vector."""
        return np.asarray(self.whitening.kernel(X, self.whitening.points) @ self._weights)

    @cached_property
    def _weights(self) -> Array:
        return self.whitening.factor.half_solve_transposed(self.mean)

    def joint(self, X: Array) -> Scores:
        """Mean and covariance of the latents at other rows together."""
        V, prior = self._seen(X, self.whitening.kernel)
        half = self.A.half_solve(V.T)
        return Scores(V @ self.mean, prior - V @ V.T + half.T @ half)

    def _seen(self, X: Array, prior: Callable[[Array], Array]) -> tuple[Array, Array]:
        """V of other rows, and their prior (co)variances."""
        with np.errstate(all="ignore"):  # what overflows is refused
            cross, own = finite((self.whitening.kernel(X, self.whitening.points), prior(X)))
        return self.whitening.whitened(cross), own


@dataclass(frozen=True)
class InducingPosterior:
    """The posterior of the latent function, or of one for each class against the rest.

    Attributes
    ----------
    mean, var : (n,) or (n, K) arrays
        Of the latents at the training rows; the mode for Laplace.
    X : (n, d) array
        Training rows.
    points : (m, d) array
        Inducing points, before those that the kernel does not tell apart are left out.
    parts : tuple of InducingGaussian
        One, or one for each class.
    """

    mean: Array
    var: Array
    X: Array
    points: Array
    parts: tuple[InducingGaussian, ...]

    def __repr__(self) -> str:
        kernels = ", ".join(map(repr, self.kernels))
        return f"InducingPosterior(n={len(self.X)}, {self.parts[0]!r}, k = {kernels})"

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Of each part."""
        return tuple(part.whitening.kernel for part in self.parts)

    def scores(self, X: Array) -> Scores:
        """Mean and variance of the latents at other rows: (b,), (b,); K classes: (b, K), (b, K, K)."""
        rows = max(1, CHUNK // len(self.points))
        found = [self._some_scores(X[i : i + rows]) for i in range(0, len(X), rows)]
        return Scores(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))

    def _some_scores(self, X: Array) -> Scores:
        each = [part.scores(X) for part in self.parts]
        if len(each) == 1:
            return each[0]
        mean, variance = (np.column_stack(them) for them in zip(*each, strict=True))
        return Scores(mean, variance[:, :, None] * np.eye(len(each)))  # classes are independent

    def means(self, X: Array) -> Array:
        """Means of the latents at other rows, (b,) or (b, K), without what their variances cost."""
        rows = max(1, CHUNK // len(self.points))
        blocks = [X[i : i + rows] for i in range(0, len(X), rows)]
        found = np.concatenate([np.column_stack([part.means(block) for part in self.parts]) for block in blocks])
        return found if len(self.parts) > 1 else found[:, 0]

    def sample(self, rng: np.random.Generator, X: Array, size: int) -> Array:
        """Draws of the function (of all K) at other rows, (size, b, 1) or (size, b, K); in each all rows share it."""
        drawn = []
        for part in self.parts:
            mean, cov = part.joint(X)
            noise = LOST * float(part.whitening.kernel.diag(X).max(initial=0.0))
            root = semidefinite_root(cov, "the posterior covariance", noise=noise)
            drawn.append(mean + rng.standard_normal((size, root.shape[1])) @ root.T)
        return np.stack(drawn, axis=-1)
