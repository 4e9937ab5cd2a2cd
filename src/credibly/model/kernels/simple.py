"""Kernels that look at no column: a constant, and independent noise."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from credibly.model.kernels.base import Kernel, shown, square_matrix, tables
from credibly.model.kernels.hyperparameters import DEFAULT_BOUNDS, Bounds, Number, Prior, is_free
from credibly.numerics.arrays import Array


@dataclass(frozen=True, repr=False)
class Constant(Kernel):
    r"""The same covariance everywhere: an unknown level, or in a product the variance of the function.

    .. math:: k(x, z) = \mathrm{variance}

    Parameters
    ----------
    variance : float
        Positive. ``2.0 * RBF()`` is ``Constant(2.0) * RBF()``.
    variance_bounds : (float, float) or "fixed"
        Between which values it is searched for.
    variance_prior : LogNormal, optional
        A belief about it.

    References
    ----------
    RW06, table 4.1.

    Examples
    --------
    >>> Constant(1.44)
    1.2²
    >>> Constant(1.44)(np.zeros((1, 1)), np.ones((2, 1)))
    array([[1.44, 1.44]])
    """

    variance: float = 1.0
    _: KW_ONLY
    variance_bounds: Bounds = DEFAULT_BOUNDS
    variance_prior: Prior = None

    numbers: ClassVar = (Number("variance"),)
    positive_definite: ClassVar[bool] = True

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return np.full(tables(X, Z).shape, self.variance)

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self.variance)

    def gradient_sums(self, X: Array, M: Array, K: Array | None = None) -> Array:
        # ∂K/∂θ is the constant itself
        if not is_free(self, "variance"):
            return np.empty(0)
        return np.array([self.variance * square_matrix(M, len(X)).sum()])

    def __repr__(self) -> str:
        return f"{shown(np.sqrt(self.variance))}²"


@dataclass(frozen=True, repr=False)
class White(Kernel):
    r"""Noise of its own for every row: independent even of a row with the same numbers.

    .. math:: k(x_i, x_j) = \mathrm{variance} \cdot [i = j], \qquad k(x_i, z_j) = 0

    The first for k(X), rows of one table; the second for k(X, Z), rows of two, even if they are equal.

    Parameters
    ----------
    variance : float
        Positive.
    variance_bounds : (float, float) or "fixed"
        Between which values it is searched for.
    variance_prior : LogNormal, optional
        A belief about it.

    References
    ----------
    RW06, eq. 2.20 and table 4.1.

    Examples
    --------
    >>> White(0.5)(np.zeros((2, 1)))
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    variance: float = 1.0
    _: KW_ONLY
    variance_bounds: Bounds = DEFAULT_BOUNDS
    variance_prior: Prior = None

    numbers: ClassVar = (Number("variance"),)
    positive_definite: ClassVar[bool] = True

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        K = np.zeros(tables(X, Z).shape)
        if Z is None:
            np.fill_diagonal(K, self.variance)
        return K

    def diag(self, X: Array) -> Array:
        return np.full(len(X), self.variance)

    def gradient_sums(self, X: Array, M: Array, K: Array | None = None) -> Array:
        # ∂K/∂θ is K itself, and that is diagonal
        if not is_free(self, "variance"):
            return np.empty(0)
        return np.array([self.variance * np.trace(square_matrix(M, len(X)))])

    def __repr__(self) -> str:
        return f"White(σ²={shown(self.variance)})"
