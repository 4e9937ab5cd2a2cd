"""Distributions over weights: the same type before and after the data.

Notation
--------
====  ================================================  =======
w     weights                                           (M,)
Λ     precision, Λ = L Lᵀ                               (M, M)
Σ     covariance, Λ⁻¹                                   (M, M)
Φ     rows whose scores are wanted                      (n, D)
====  ================================================  =======
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from credibly.data.threads import blas_threads
from credibly.errors import InputError, NotPositiveDefinite
from credibly.inference.contrasts import centring
from credibly.inference.frame import Frame
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, DesignMatrix, Roots, from_upper, upper_factor
from credibly.numerics.special import LOG_2PI
from credibly.numerics.status import Solution


class Scores(NamedTuple):
    """Mean and variance of latent scores: (n,), (n,) for one score a row; (n, K), (n, K, K) for K."""

    mean: Array
    variance: Array


@dataclass(frozen=True)
class Gaussian:
    """N(w | mean, Λ⁻¹): a prior before the data, a posterior after them.

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

    @property
    def log_concave(self) -> bool:
        """A Gaussian always is."""
        return True

    def pull(self, w: Array) -> Array:
        """Gradient of minus the log density."""
        L = self.precision.factor  # the product L Lᵀ would lose what the prior says of directions it hardly knows
        return np.asarray(L @ ((w - self.mean) @ L))

    def curvature(self, w: Array) -> Array:
        """Hessian of minus the log density: the precision, wherever."""
        return self.precision.matrix

    stand_in = curvature

    def roots(self, w: Array) -> Roots:
        """The precision by its factor."""
        return Roots.positive(self.precision.factor)

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

    def class_scores(self, Z: DesignMatrix, contrast: Array) -> Scores:
        """Mean and covariance of K scores per row: of combinations of the weight vectors that are stacked, (K, J).

        Vectors are combined before anything is squared: what they have in common may be known so much less that it
        would hide how they differ.
        """
        rows, J = np.asarray(Z if isinstance(Z, np.ndarray) else Z.toarray()), contrast.shape[1]
        whitener = np.matmul(contrast, self.root.reshape(len(self.root), J, -1))
        white = np.einsum("mkd,nd->nkm", whitener, rows, optimize=True)
        return Scores(rows @ (contrast @ self.mean.reshape(J, -1)).T, white @ white.transpose(0, 2, 1))


class InferenceResult(NamedTuple):
    """What every inference method returns."""

    posterior: Gaussian
    log_evidence: float  # NaN where there is none (a flat prior)
    log_likelihood: float  # at the mode
    solution: Solution


class DataUnits:
    """Weights in a frame, shown in data units: slopes, then intercept; K classes stacked class by class.

    Weight vector k is Σ_j contrast[k, j] u_j: the identity, unless the weights are only determined up to a constant.
    """

    frame: Frame
    contrast: Array  # (K, J)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(M={len(self.contrast) * (self.frame.scale.size + self.frame.intercept)})"

    def to_data(self, u: Array) -> Array:
        """Free weights in the frame (…, J·D) to data units (…, K·D)."""
        free = u.reshape(*u.shape[:-1], self.contrast.shape[1], -1)
        w = np.einsum("kj,...jd->...kd", self.contrast, self.frame.to_data(free))
        return np.asarray(w.reshape(*u.shape[:-1], -1))

    def to_frame(self, w: Array) -> Array:
        """Weights in data units (…, K·D) to the frame."""
        w = np.asarray(w, dtype=float)
        return self.frame.to_frame(w.reshape(*w.shape[:-1], len(self.contrast), -1)).reshape(w.shape)

    def determined(self, w: Array) -> Array:
        """Weights in data units (…, K·D) less the mean over classes, which no probability depends on."""
        if len(self.contrast) == 1:
            return w
        by_class = w.reshape(*w.shape[:-1], len(self.contrast), -1)
        return np.asarray(by_class - by_class.mean(axis=-2, keepdims=True)).reshape(w.shape)

    def vectors(self, u: Array) -> Array:
        """Free weights in the frame (size, J·D) as one vector for each class, (size, K, D)."""
        return np.asarray(self.contrast @ u.reshape(len(u), self.contrast.shape[1], -1))

    def determined_vectors(self, u: Array) -> Array:
        """The same, less their mean over classes: that changes no probability, and may hide the rest by its size."""
        V = self.vectors(u)
        return V if len(self.contrast) == 1 else np.asarray(V - V.mean(axis=1, keepdims=True))

    def scores_at(self, Z: DesignMatrix, u: Array) -> Array:
        """Scores of rows Z of the design at free weights u (S, M), less their mean over classes: (S, n, K)."""
        V = self.determined_vectors(u)
        return np.asarray(Z @ V.reshape(-1, V.shape[-1]).T).reshape(Z.shape[0], len(V), -1).swapaxes(0, 1)

    @abstractmethod
    def combined_scores(self, Z: DesignMatrix, contrast: Array) -> Scores:
        """Mean and variance of the scores of combinations of the free weight vectors, (K, J), for rows Z."""

    def scores(self, Z: DesignMatrix) -> Scores:
        """Mean and variance of the scores for rows Z of the design in the frame."""
        return self.combined_scores(Z, self.contrast)

    def determined_scores(self, Z: DesignMatrix) -> Scores:
        """The same of what probabilities depend on: scores of K classes less their mean."""
        K = len(self.contrast)
        return self.combined_scores(Z, self.contrast if K == 1 else centring(K) @ self.contrast)

    def project(self, Phi: Array) -> Scores:
        """Mean and variance of the scores Φw for rows Φ (n, d+1) with ones last (without, if no intercept)."""
        return self.scores(self.frame.rows_to_frame(np.asarray(Phi, dtype=float)))


@dataclass(frozen=True)
class WeightPosterior(DataUnits):
    """The posterior over the weights in data units: slopes, then intercept; K classes stacked class by class.

    Held as a Gaussian in the frame where columns are standardised, which stays well conditioned whatever the units.
    Where the weights are only determined up to a constant (softmax without a prior) `contrast` maps the determined
    combinations to all K vectors, and `cov` is singular.

    Parameters
    ----------
    gaussian : Gaussian
        Over the weights in the frame, flattened class by class.
    frame : Frame
    contrast : (K, J) array
        Weight vector k is Σ_j contrast[k, j] u_j. The identity unless there is no prior.
    """

    gaussian: Gaussian
    frame: Frame
    contrast: Array

    def __repr__(self) -> str:
        return f"WeightPosterior(M={self.mean.size}, log|Λ|={self.gaussian.precision.logdet:.4g})"

    @property
    def mean(self) -> Array:
        """Posterior mean, (M,)."""
        return self.to_data(self.gaussian.mean)

    @property
    def cov(self) -> Array:
        """Posterior covariance, (M, M)."""
        with blas_threads(self.gaussian.mean.size, None):  # woken for little they keep a processor busy for long
            root = self.to_data(self.gaussian.precision.inverse_root)
            return np.asarray(root.T @ root)

    @property
    def std(self) -> Array:
        """Posterior standard deviations, (M,)."""
        return np.asarray(np.sqrt((_root(self) ** 2).sum(axis=0)))

    @property
    def positive(self) -> Array:
        """P(weight > 0), (M,)."""
        return np.asarray(ndtr(self.mean / self.std))

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation of what is determined of the weights, (M,) each."""
        root = self.determined(_root(self))
        return self.determined(self.mean), np.asarray(np.sqrt((root**2).sum(axis=0)))

    def interval(self, level: float = 0.9) -> Array:
        """Equal-tailed credible intervals of the weights, (M, 2)."""
        half = normal_quantile(level) * self.std
        return np.column_stack([self.mean - half, self.mean + half])

    def logpdf(self, w: Array) -> Array:
        """Log density at weights w, (M,) or (size, M), in data units."""
        if self.contrast.shape[0] != self.contrast.shape[1]:
            raise InputError(
                "This posterior has no density: without a prior, softmax weights are determined only up to a "
                "constant added to all classes. Give the model a prior, e.g. Normal(scale=2.5)."
            )
        return self.gaussian.logpdf(self.to_frame(w)) + len(self.contrast) * self.frame.log_volume

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the weights, (size, M)."""
        return self.data_draws(rng, self.gaussian.sample(rng, size))

    def data_draws(self, rng: np.random.Generator, u: Array) -> Array:
        """Draws of the free weights in the frame, (size, J·D), as draws of the weights, (size, M)."""
        return self.to_data(u)

    def frame_draws(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the weight vectors in the frame, (size, K, D)."""
        return self.vectors(self.gaussian.sample(rng, size))

    def combined_scores(self, Z: DesignMatrix, contrast: Array) -> Scores:
        """Mean and variance of the scores of combinations of the free weight vectors, (K, J), for rows Z."""
        return self.gaussian.scores(Z) if len(contrast) == 1 else self.gaussian.class_scores(Z, contrast)


def _root(posterior: WeightPosterior) -> Array:
    """R with cov = RᵀR, one column per weight."""
    with blas_threads(posterior.gaussian.mean.size, None):
        return posterior.to_data(posterior.gaussian.root)


def normal_quantile(level: Any) -> float:
    """z with P(|N(0, 1)| ≤ z) = level."""
    if not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.")
    return float(ndtri(0.5 + level / 2))
