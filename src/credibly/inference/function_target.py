r"""The posterior of a function beside its Gaussian approximation, in coordinates where the prior is white.

Notation
--------
====  ========================================================================  ========
S     a root of the prior covariance of a class's latents, K = S Sᵀ             (n, r)
u     white coordinates, f = S u with u ~ N(0, I) before the data               (r,)
====  ========================================================================  ========

In these coordinates a Gaussian process is a linear model with design S, however singular K is: q(u) has precision
I + SᵀWS and mean Sᵀa. Several classes stand side by side.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from credibly.data.rows import Block
from credibly.errors import InputError
from credibly.inference.gaussian import Gaussian
from credibly.inference.latent import LatentGaussian
from credibly.inference.latent_softmax import ClassGaussian
from credibly.inference.linear.objective import log_likelihood_block
from credibly.model.kernels import Kernel
from credibly.model.likelihoods import Categorical
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD, semidefinite_root, weighted_gram
from credibly.numerics.special import LOG_2PI, log_softmax

LEFT = 1e-10  # of the prior variance: less is rounding
LOST = 1e-6  # of it: more below zero cannot be overlooked


@dataclass(frozen=True)
class FunctionTarget:
    """The posterior of one latent function, or of one for each class.

    Parameters
    ----------
    kernels : tuple of Kernel
        One for all classes, or one for each.
    X : (n, d) array
        Training rows.
    y : (n,) array
    likelihood : Likelihood or Categorical
    latents : LatentGaussian or ClassGaussian
        The approximation.
    """

    kernels: tuple[Kernel, ...]
    X: Array
    y: AnyArray
    likelihood: AnyLikelihood
    latents: LatentGaussian | ClassGaussian

    @property
    def n_functions(self) -> int:
        """Latents of a row."""
        return self.likelihood.n_classes if isinstance(self.likelihood, Categorical) else 1

    @cached_property
    def roots(self) -> tuple[Array, ...]:
        """S of every function."""
        own = tuple(semidefinite_root(kernel(self.X), "the kernel matrix") for kernel in self.kernels)
        return own * self.n_functions if len(own) == 1 else own

    @cached_property
    def _ends(self) -> list[int]:
        return [0, *np.cumsum([S.shape[1] for S in self.roots]).tolist()]

    @cached_property
    def q(self) -> Gaussian:
        """The approximation in white coordinates."""
        a = self.latents.a.reshape(len(self.y), -1)
        mean = np.concatenate([S.T @ a[:, c] for c, S in enumerate(self.roots)])
        precision = self._information() + np.eye(mean.size)
        return Gaussian(mean, PSD.of(precision, "the posterior precision in white coordinates"))

    def _information(self) -> Array:
        """SᵀWS, the classes of a row coupled by W = diag(π) - ππᵀ."""
        if isinstance(self.latents, LatentGaussian):
            return weighted_gram(self.roots[0], self.latents.precision.W)
        f = np.column_stack([self.roots[c] @ (S.T @ self.latents.a[:, c]) for c, S in enumerate(self.roots)])
        W = Categorical(self.n_functions).curvature(np.exp(log_softmax(f)))
        blocks = [[S.T @ (W[:, c, d, None] * T) for d, T in enumerate(self.roots)] for c, S in enumerate(self.roots)]
        return np.block(blocks)

    def log_joints(self, x: Array) -> Array:
        """log p(y, x), (S,)."""
        block = Block(np.hstack(self.roots), self.y)
        (log_likelihood,) = log_likelihood_block(block, self.likelihood, self._vectors(x))
        return np.asarray(log_likelihood - 0.5 * (x**2).sum(axis=1) - 0.5 * x.shape[1] * LOG_2PI)

    def _vectors(self, u: Array) -> Array:
        """One vector for each class, (size, C, M): its own coordinates, and zeros for those of other classes."""
        out = np.zeros((len(u), len(self.roots), u.shape[1]))
        for c, (start, end) in enumerate(zip(self._ends[:-1], self._ends[1:], strict=True)):
            out[:, c, start:end] = u[:, start:end]
        return out

    def by_class(self, u: Array, maps: tuple[Array, ...]) -> Array:
        """Latents for draws u (size, M): (size, n, C); at the training rows where the maps are the roots."""
        ends = zip(self._ends[:-1], self._ends[1:], maps, strict=True)
        return np.stack([u[:, start:end] @ S.T for start, end, S in ends], axis=-1)

    def scores_at(self, u: Array, X: Array) -> tuple[Array, Array]:
        """Mean (size, m, C) and variance (m, C) of the latents at other rows, the training rows' being given by u."""
        maps, left = [], []
        for c, (Q, R) in enumerate(self._decomposed):
            kernel = self.kernels[0] if len(self.kernels) == 1 else self.kernels[c]
            V = solve_triangular(R, Q.T @ kernel(self.X, X))  # S⁺ᵀ-weights: E[f*] = Vᵀu
            prior = kernel.diag(X)
            variance = prior - (V**2).sum(axis=0)
            if (variance < -LOST * prior).any():
                raise InputError(
                    "The kernel matrix of the training rows is so nearly singular that a variance between these rows "
                    "and those is lost in rounding. Use a smaller kernel variance, or add White noise to the kernel."
                )
            maps.append(V.T)
            # A row that the training rows determine has no variance left, but for rounding.
            left.append(np.where(variance > LEFT * prior, variance, 0.0))
        return self.by_class(u, tuple(maps)), np.column_stack(left)

    @cached_property
    def _decomposed(self) -> list[tuple[Array, Array]]:
        """S = QR of every function."""
        shared = len(self.kernels) == 1
        found = [np.linalg.qr(S) for S in (self.roots[:1] if shared else self.roots)]
        return [(Q, R) for Q, R in found] * (self.n_functions if shared else 1)
