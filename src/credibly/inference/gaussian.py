"""The Gaussian: a prior before the data, a posterior after them, in weight space and in function space.

Notation
--------
====  ================================================  =======
w     weights, or any coordinates                       (M,)
Λ     precision, Λ = L Lᵀ                               (M, M)
Σ     covariance, Λ⁻¹ = RᵀR                             (M, M)
====  ================================================  =======
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import rq
from scipy.special import ndtri

from credibly.errors import InputError, NotPositiveDefinite
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, DesignMatrix, Roots, from_upper, upper_factor
from credibly.numerics.special import LOG_2PI


class Scores(NamedTuple):
    """Mean and variance of latent scores: (n,), (n,) for one score a row; (n, K), (n, K, K) for K."""

    mean: Array
    variance: Array


class Expected(NamedTuple):
    """Minus a log density averaged over a Gaussian, to second order in its mean."""

    value: float
    gradient: Array  # (M,)
    hessian: Array  # (M, M)
    roots: Roots  # of `hessian`


@dataclass(frozen=True)
class Gaussian:
    """N(w | mean, Λ⁻¹).

    Examples
    --------
    >>> q = Gaussian(np.array([1.0, 2.0]), PSD(np.eye(2)))
    >>> q
    Gaussian(M=2, log|Λ|=0)
    >>> q.scores(np.array([[3.0, 4.0]]))
    Scores(mean=array([11.]), variance=array([25.]))
    """

    mean: Array
    precision: PSD

    @classmethod
    def from_mapped_moments(cls, mean: Array, cov: Array, axes: Array, what: str) -> "Gaussian":
        """The distribution of u where w = axesᵀu has covariance `cov`; `mean` is that of u.

        The precision of u is GᵀG with G = L⁻¹axesᵀ, cov = LLᵀ. Its factor comes from G = QR: forming GᵀG would square
        the condition number.
        """
        R = upper_factor(PSD.of(cov, f"the covariance of {what}").half_solve(np.asfortranarray(axes.T)))
        if not (np.isfinite(R).all() and np.diag(R).all()):
            raise NotPositiveDefinite(f"the precision of {what} is numerically singular.")
        return cls(mean, from_upper(R))

    @classmethod
    def from_covariance_root(cls, mean: Array, B: Array) -> "Gaussian":
        """N(mean, B Bᵀ) for a root B (M, r) of full row rank; the product is not formed."""
        U = np.asarray(rq(B, mode="economic")[0], dtype=float)  # Σ = UUᵀ with U upper triangular, so that Λ = U⁻ᵀU⁻¹
        lower = np.asfortranarray((U * np.sign(np.diag(U))).T)
        return cls(mean, PSD(np.asfortranarray(PSD(lower).inverse_root)))

    @property
    def root(self) -> Array:
        """R (·, M) with Σ = RᵀR."""
        return self.precision.inverse_root

    def __repr__(self) -> str:
        return f"Gaussian(M={self.mean.size}, log|Λ|={self.precision.logdet:.4g})"

    def logpdf(self, w: Array) -> Array:
        """Log density at w, (M,) or (size, M)."""
        whitened = (w - self.mean) @ self.precision.factor
        squared = whitened @ whitened if w.ndim == 1 else np.einsum("...i,...i->...", whitened, whitened)
        return np.asarray(0.5 * (self.precision.logdet - self.mean.size * LOG_2PI - squared))

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws, (size, M)."""
        white = rng.standard_normal((self.mean.size, size))
        return self.mean + self.precision.half_solve_transposed(white).T

    def scores(self, Z: DesignMatrix) -> Scores:
        """Mean and variance of the scores Zw, one per row."""
        rows = np.asarray(Z if isinstance(Z, np.ndarray) else Z.toarray())
        white = rows @ self.root.T
        return Scores(rows @ self.mean, np.einsum("nm,nm->n", white, white))

    def class_scores(self, Z: DesignMatrix, combinations: Array) -> Scores:
        """Mean and covariance of K scores per row: of combinations (K, J) of the J weight vectors that are stacked.

        Vectors are combined before anything is squared: what they have in common may be known so much less that it
        would hide how they differ.
        """
        rows, J = np.asarray(Z if isinstance(Z, np.ndarray) else Z.toarray()), combinations.shape[1]
        vectors = np.matmul(combinations, self.root.reshape(len(self.root), J, -1))  # (m, K, D)
        white = np.einsum("mkd,nd->nkm", vectors, rows, optimize=True)
        return Scores(rows @ (combinations @ self.mean.reshape(J, -1)).T, white @ white.transpose(0, 2, 1))

    # --- as a prior ------------------------------------------------------------------------------------------

    @property
    def log_concave(self) -> bool:
        """A Gaussian always is."""
        return True

    def gradient(self, w: Array) -> Array:
        """Gradient of minus the log density."""
        L = self.precision.factor  # the product L Lᵀ would lose what the prior says of directions it hardly knows
        return np.asarray(((w - self.mean) @ L) @ L.T)

    def hessian(self, w: Array) -> Array:
        """Hessian of minus the log density: the precision, wherever."""
        return self.precision.matrix

    def hessian_roots(self, w: Array) -> Roots:
        """The same by its factor."""
        return Roots(self.precision.factor, self.precision.factor[:, :0])

    stand_in = hessian

    def expected(self, q: "Gaussian") -> Expected:
        """Minus the log density averaged over q."""
        value = 0.5 * float(((q.root @ self.precision.factor) ** 2).sum()) - float(self.logpdf(q.mean))
        return Expected(value, self.gradient(q.mean), self.precision.matrix, self.hessian_roots(q.mean))


def normal_quantile(level: Any) -> float:
    """z with P(|N(0, 1)| ≤ z) = level."""
    if not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.")
    return float(ndtri(0.5 + level / 2))
