"""Kernels of the product of two rows: linear functions, and polynomials."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from credibly.errors import InputError
from credibly.model.kernels.base import (
    Columns,
    Kernel,
    rows,
    shown,
    shown_columns,
    square_matrix,
    tables,
)
from credibly.model.kernels.hyperparameters import DEFAULT_BOUNDS, Bounds, Number, Prior, is_free
from credibly.numerics.arrays import Array


@dataclass(frozen=True, repr=False)
class Linear(Kernel):
    r"""Linear functions: weights of variance 1 for every column, an intercept of variance bias².

    .. math:: k(x, z) = x \cdot z + \mathrm{bias}^2

    ``v * Linear()`` is the Bayesian linear classifier with prior variance v, seen from the rows.

    Parameters
    ----------
    bias : float
        Standard deviation of the intercept; zero, the default, for none, and then there is nothing to learn.
    columns : sequence of ints or names, optional
        The columns it looks at; all of them if not given.
    bias_bounds : (float, float) or "fixed"
        Between which values a positive bias is searched for.
    bias_prior : LogNormal, optional
        A belief about it.

    References
    ----------
    RW06, sec. 4.2.2, with Σ = I.

    Examples
    --------
    >>> Linear(bias=0.5)(np.array([[1.0, 2.0]]))
    array([[5.25]])
    >>> Linear().theta
    array([], dtype=float64)
    """

    bias: float = 0.0
    _: KW_ONLY
    columns: Columns = None
    bias_bounds: Bounds = DEFAULT_BOUNDS
    bias_prior: Prior = None

    numbers: ClassVar = (Number("bias", may_vanish=True),)
    positive_definite: ClassVar[bool] = True

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return products(self, X, Z)

    def diag(self, X: Array) -> Array:
        return squares(self, X)

    def gradient_sums(self, X: Array, M: Array, K: Array | None = None) -> Array:
        # ∂K/∂log bias = 2 bias², the same for all pairs
        if not is_free(self, "bias"):
            return np.empty(0)
        return np.array([2.0 * self.bias**2 * square_matrix(M, len(X)).sum()])

    def __repr__(self) -> str:
        bias = f"bias={shown(self.bias)}" if self.bias else ""
        return f"Linear({(bias + shown_columns(self.columns)).removeprefix(', ')})"


@dataclass(frozen=True, repr=False)
class Polynomial(Kernel):
    r"""Polynomials of limited degree in all columns together.

    .. math:: k(x, z) = (x \cdot z + \mathrm{bias}^2)^{\mathrm{degree}}

    Scale the columns first: the variance grows with the power 2·degree of them.

    Parameters
    ----------
    degree : int
        The highest power, at least 1; never learnt.
    bias : float
        How much lower powers count; zero for none of them, and then there is nothing to learn.
    columns : sequence of ints or names, optional
        The columns it looks at; all of them if not given.
    bias_bounds : (float, float) or "fixed"
        Between which values a positive bias is searched for.
    bias_prior : LogNormal, optional
        A belief about it.

    References
    ----------
    RW06, sec. 4.2.2, with Σ = I.

    Examples
    --------
    >>> Polynomial(degree=3, bias=1.0)(np.array([[1.0, 2.0]]))
    array([[216.]])
    """

    degree: int = 2
    bias: float = 1.0
    _: KW_ONLY
    columns: Columns = None
    bias_bounds: Bounds = DEFAULT_BOUNDS
    bias_prior: Prior = None

    numbers: ClassVar = (Number("bias", may_vanish=True),)
    positive_definite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        degree: object = self.degree
        if isinstance(degree, bool) or not isinstance(degree, int | np.integer) or degree < 1:
            raise InputError(f"degree of Polynomial must be a whole number, at least 1; got {degree!r}.")
        object.__setattr__(self, "degree", int(degree))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return whole_power(products(self, X, Z), self.degree)

    def diag(self, X: Array) -> Array:
        return whole_power(squares(self, X), self.degree)

    def gradient_sums(self, X: Array, M: Array, K: Array | None = None) -> Array:
        # ∂K/∂log bias = 2 bias² degree · (x·z + bias²)^(degree - 1); K / (x·z + bias²) might be 0/0
        if not is_free(self, "bias"):
            return np.empty(0)
        power = whole_power(products(self, X, None), self.degree - 1)
        return np.array([2.0 * self.bias**2 * self.degree * np.einsum("ij,ij->", square_matrix(M, len(X)), power)])

    def __repr__(self) -> str:
        return f"Polynomial(degree={self.degree}, bias={shown(self.bias)}{shown_columns(self.columns)})"


def products(kernel: Linear | Polynomial, X: Array, Z: Array | None) -> Array:
    """x · z + bias², (n, m); of one table with itself exactly symmetric, since BLAS then computes one triangle."""
    x, z = tables(X, Z, kernel.columns)
    K = x @ (x if z is None else z).T
    K += kernel.bias**2
    return np.asarray(K)


def squares(kernel: Linear | Polynomial, X: Array) -> Array:
    """x · x + bias², (n,)."""
    x = rows(X, kernel.columns)
    return np.asarray(np.einsum("id,id->i", x, x) + kernel.bias**2)


def whole_power(base: Array, degree: int) -> Array:
    """base^degree by repeated squaring, ten times faster than the power function of floats."""
    if degree == 0:
        return np.ones_like(base)
    power = base.copy()
    for bit in f"{degree:b}"[1:]:
        np.square(power, out=power)
        if bit == "1":
            power *= base
    return power
