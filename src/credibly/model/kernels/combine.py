"""Sums and products of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.model.kernels.base import Kernel, square_matrix
from credibly.model.kernels.hyperparameters import (
    DEFAULT_BOUNDS,
    Adjustable,
    changed,
    checked_theta,
    is_free,
    positive_number,
)
from credibly.model.kernels.simple import Constant, White
from credibly.numerics.arrays import Array

WIDER = 1e3  # how far around a number that is itself outside the usual bounds it is searched for


@dataclass(frozen=True, repr=False)
class Pair(Kernel):
    """Two kernels in one; hyperparameters are those of the left part, then those of the right."""

    left: Kernel
    right: Kernel

    @property
    def leaves(self) -> tuple[Adjustable, ...]:
        return self.left.leaves + self.right.leaves

    @property
    def positive_definite(self) -> bool:  # type: ignore[override]  # a fact about the class, but for composites
        return self.left.positive_definite and self.right.positive_definite

    def with_theta(self, theta: ArrayLike) -> Self:
        found, p = checked_theta(theta, self.hyperparameters), len(self.left.theta)
        return changed(self, left=self.left.with_theta(found[:p]), right=self.right.with_theta(found[p:]))

    def resolved(self, names: Sequence[str]) -> Self:
        return changed(self, left=self.left.resolved(names), right=self.right.resolved(names))


@dataclass(frozen=True, repr=False)
class Sum(Pair):
    r"""The covariance of a sum of independent functions.

    .. math:: k(x, z) = \mathrm{left}(x, z) + \mathrm{right}(x, z)

    Written ``left + right``. Hyperparameters: those of the left part, then those of the right.

    Parameters
    ----------
    left, right : Kernel

    References
    ----------
    RW06, sec. 4.2.4.

    Examples
    --------
    >>> Constant(1.44) + White(0.1)
    1.2² + White(σ²=0.1)
    >>> (Constant(1.44) + White(0.1)).hyperparameters
    ('Constant.variance', 'White.variance')
    """

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        first, second = simple_last(self.left, self.right)
        K = first(X, Z)
        if isinstance(second, Constant):
            K += second.variance
        elif isinstance(second, White):
            if Z is None:
                K[np.diag_indices_from(K)] += second.variance
        else:
            K += second(X, Z)
        return K

    def diag(self, X: Array) -> Array:
        return np.asarray(self.left.diag(X) + self.right.diag(X))

    def gradient_sums(self, X: Array, M: Array, K: Array | None = None) -> Array:
        parts = (self.left, self.right)
        known = (without_noise(K, part, other, X) for part, other in (parts, parts[::-1]))
        return np.concatenate([part.gradient_sums(X, M, it) for part, it in zip(parts, known, strict=True)])

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


@dataclass(frozen=True, repr=False)
class Product(Pair):
    r"""The covariance of a product of independent functions; a `Constant` factor is a variance.

    .. math:: k(x, z) = \mathrm{left}(x, z) \cdot \mathrm{right}(x, z)

    Written ``left * right``. Hyperparameters: those of the left factor, then those of the right.

    Parameters
    ----------
    left, right : Kernel

    References
    ----------
    RW06, sec. 4.2.4.

    Examples
    --------
    >>> 2.0 * (White(0.1) + 1.0)
    1.414² · (White(σ²=0.1) + 1²)
    """

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        first, second = simple_last(self.left, self.right)
        K = first(X, Z)
        K *= second.variance if isinstance(second, Constant) else second(X, Z)
        return K

    def diag(self, X: Array) -> Array:
        return np.asarray(self.left.diag(X) * self.right.diag(X))

    def gradient_sums(self, X: Array, M: Array, K: Array | None = None) -> Array:
        M = square_matrix(M, len(X))
        if isinstance(self.left, Constant):
            return np.concatenate(scaled_gradients(self.left, self.right, X, M, K))
        if isinstance(self.right, Constant):
            return np.concatenate(scaled_gradients(self.right, self.left, X, M, K)[::-1])
        left, right = self.left(X), self.right(X)
        by_left = self.left.gradient_sums(X, M * right, left)
        return np.concatenate([by_left, self.right.gradient_sums(X, np.multiply(M, left, out=left), right)])

    def __repr__(self) -> str:
        return " · ".join(f"({it!r})" if isinstance(it, Sum) else repr(it) for it in (self.left, self.right))


def summed(left: object, right: object) -> Sum:
    """The sum of two kernels, or of a kernel and a positive number."""
    return Sum(as_factor(left), as_factor(right))


def multiplied(left: object, right: object) -> Product:
    """The product of two kernels, or of a kernel and a positive number."""
    return Product(as_factor(left), as_factor(right))


def as_factor(part: object) -> Kernel:
    """A kernel as it is, a positive number as `Constant`."""
    if isinstance(part, Kernel):
        return part
    if isinstance(part, int | float | np.number) and not isinstance(part, bool):
        low, high = DEFAULT_BOUNDS
        value = positive_number(part, "variance of Constant")
        return Constant(value, variance_bounds=(min(low, value / WIDER), max(high, value * WIDER)))
    raise InputError(f"A kernel can be added to, or multiplied by, a kernel or a positive number; got {part!r}.")


def simple_last(left: Kernel, right: Kernel) -> tuple[Kernel, Kernel]:
    """Both in an order in which the second may need no matrix of its own."""
    return (right, left) if isinstance(left, Constant | White) else (left, right)


def without_noise(K: Array | None, part: Kernel, other: Kernel, X: Array) -> Array | None:
    """The kernel matrix of one part, if that of the sum has it: beside noise they differ in the diagonal alone."""
    if K is None or not isinstance(other, White):
        return None
    own = K.copy()
    np.fill_diagonal(own, part.diag(X))
    return own


def scaled_gradients(scale: Constant, part: Kernel, X: Array, M: Array, K: Array | None) -> tuple[Array, Array]:
    """Sums of derivatives of scale · part, by both, from one kernel matrix."""
    own = part(X) if K is None else K / scale.variance
    by_scale = [scale.variance * np.einsum("ij,ij->", M, own)] if is_free(scale, "variance") else []
    return np.array(by_scale), scale.variance * part.gradient_sums(X, M, own)
