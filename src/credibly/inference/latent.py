"""Gaussians over the values of a function at the training rows: what Laplace, EP and ADF all end in.

Notation
--------
======  ==============================================================================  =======
K       prior covariance of the latents, k(X, X); may be singular                       (n, n)
W       curvatures of the likelihood (Laplace) or precisions of the sites (EP)          (n,)
Σ       posterior covariance (K⁻¹ + W)⁻¹ = K - K R K                                    (n, n)
R       (K + W⁻¹)⁻¹ = W - W Σ W                                                         (n, n)
a       posterior mean is K a                                                           (n,)
B       I + √W K √W, so that R = √W B⁻¹ √W                                              (n, n)
======  ==============================================================================  =======

K is never inverted, and neither is W: both may be singular. (Misprints E-41 and E-46 of docs/theory.md.)
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from credibly.inference.gaussian import Scores
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD

DIRECT = 1e-5  # share of a variance that must be gone before the rest is found by subtraction: leaves 1e-11


class Precision(NamedTuple):
    r"""K⁻¹ + W for a diagonal W, held so that neither has to be inverted.

    Where some W are negative (likelihoods that are not log-concave) the positive ones come first and the others are
    taken off: with N their rows and :math:`P = (K^{-1} + W_+)^{-1}`, the sum is positive definite exactly when
    :math:`I - \sqrt{|W_N|} P_{NN} \sqrt{|W_N|}` is. Then :math:`R = \sqrt{W_+} B^{-1} \sqrt{W_+} - T^T T`.

    References
    ----------
    RW06 sec. 3.4.3; the order of positive and negative terms after Jylänki, Vanhatalo & Vehtari 2011, sec. 3.4.
    """

    W: Array  # (n,)
    root: Array  # √W₊, (n,)
    B: PSD
    lift: Array | None  # T, one row for each negative W
    logdet: float  # of I + K W

    @classmethod
    def of(cls, K: Array, W: Array) -> Self:
        """Factorise; raises NotPositiveDefinite where K⁻¹ + W is not positive definite."""
        negative = W < 0
        root = np.sqrt(np.where(negative, 0.0, W))
        B = PSD.identity_plus(K, root)
        if not negative.any():
            return cls(W, root, B, None, B.logdet)
        rows, scale = np.flatnonzero(negative), np.sqrt(-W[negative])
        K_N = K[:, rows] * scale
        half = B.half_solve(root[:, None] * K_N)
        left = np.eye(len(rows)) - (scale[:, None] * K_N[rows] - half.T @ half)
        C = PSD.of(left, "K⁻¹ + W")
        H = -root[:, None] * B.solve(root[:, None] * K_N)
        H[rows, np.arange(len(rows))] += scale
        return cls(W, root, B, C.half_solve(np.asfortranarray(H.T)), B.logdet + C.logdet)

    def weigh(self, u: Array) -> Array:
        """R u."""
        root = self.root if u.ndim == 1 else self.root[:, None]
        weighed = root * self.B.solve(root * u)
        if self.lift is None:
            return np.asarray(weighed)
        return np.asarray(weighed - self.lift.T @ (self.lift @ u))

    def explained(self, cross: Array) -> Array:
        """diag(Cᵀ R C) for columns C (n, m): what the data take off the prior variances."""
        half = self.B.half_solve_scaled(self.root, cross)
        gone: Array = np.einsum("ij,ij->j", half, half)
        return gone if self.lift is None else gone - ((self.lift @ cross) ** 2).sum(axis=0)

    def reduced(self, prior: Array, cross: Array) -> Array:
        """prior - Cᵀ R C, (m, m)."""
        half = self.B.half_solve_scaled(self.root, cross)
        left = prior - half.T @ half
        if self.lift is None:
            return np.asarray(left)
        raised = self.lift @ cross
        return np.asarray(left + raised.T @ raised)

    def matrix(self) -> Array:
        """R itself, whose elements evidence gradients need all."""
        R = self.B.scaled_inverse(self.root)
        if self.lift is not None:
            R -= self.lift.T @ self.lift
        return R

    def variances(self, K: Array, R: Array | None = None) -> Array:
        """diag(Σ), from W diag(Σ) = 1 - diag(B⁻¹) where that leaves eleven digits, else by a solution for the row.

        With R at hand diag(B⁻¹) is found there.
        """
        prior = np.diag(K).copy()
        if not self.W.any():
            return prior
        if self.lift is not None:
            return np.asarray(prior - self.explained(K))
        kept = self.B.inverse_diagonal() if R is None else np.diag(R) / np.where(self.W > 0, self.W, 1.0)
        weak = (1.0 - kept < DIRECT) | (self.W == 0)
        out = (1.0 - kept) / np.where(weak, 1.0, self.W)
        if weak.any():
            out[weak] = prior[weak] - self.explained(K[:, weak])
        return np.asarray(out)


@dataclass(frozen=True)
class LatentGaussian:
    """q(f) = N(K a, (K⁻¹ + W)⁻¹) at the training rows, and by the prior everywhere else.

    Examples
    --------
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> q = LatentGaussian(np.array([1.0, 0.0]), Precision.of(K, np.array([1.0, 0.0])))
    >>> q.scores(K, np.ones(2))
    Scores(mean=array([1. , 0.5]), variance=array([0.5  , 0.875]))
    """

    a: Array
    precision: Precision

    def __repr__(self) -> str:
        return f"LatentGaussian(n={self.a.size}, log|I + KW|={self.precision.logdet:.4g})"

    def scores(self, cross: Array, prior: Array) -> Scores:
        """Mean and variance of the latents at m other rows, from k(X, X*) (n, m) and k(x*, x*) (m,)."""
        return Scores(cross.T @ self.a, prior - self.precision.explained(cross))

    def joint(self, cross: Array, prior: Array) -> Scores:
        """Mean and covariance (m, m) of the latents at other rows together; `prior` is k(X*, X*)."""
        return Scores(cross.T @ self.a, self.precision.reduced(prior, cross))
