"""Sums over rows, class by class: they merge, and rows can be taken out again without cancellation.

Every statistic has the classes on its first axis, but for what classes share. A class without weight has mean and
scatter zero, so that equal data give equal sums on every road.

Notation
--------
=====  ======================================================  =================
codes  class of every row, 0 … K-1                             (n,)
n, m   total weight and mean of a class                        (K,), (K, d)
S      scatter, the weighted sum of (z - m)(z - m)ᵀ            (d, d), (K, d, d)
=====  ======================================================  =================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from scipy.sparse import csc_array

from credibly.errors import InputError
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import DesignMatrix, is_sparse, scratch

WEIGHT_ROUNDING = 1e-13  # relative: how well a sum of weights is known
REMOVAL_ROUNDING = 1e-9  # relative: what removing rows may leave behind of the sums they were part of


class Statistics(ABC):
    """What a family knows of its rows: a commutative sum."""

    @abstractmethod
    def merge(self, other: Self) -> Self:
        """Statistics of two sets of rows together."""

    @abstractmethod
    def remove(self, other: Self) -> Self:
        """Statistics without the rows of `other`; refuses what is impossible."""

    @abstractmethod
    def take(self, order: Codes) -> Self:
        """The same classes in another order; -1 stands for a class without rows."""

    @abstractmethod
    def pooled(self) -> Any:
        """All rows as one class, as `ClassConditional.describing` would summarise them."""

    @abstractmethod
    def change(self, before: Self) -> float:
        """How much they have changed, in units of the data."""

    def least_rows(self) -> Array:
        """How many rows each class must have had, (K,): as many as any column has values, where that is known."""
        weight: Array | None = getattr(self, "weight", None)
        if weight is None:
            return np.zeros(len(self.arrays()[0]))
        return weight if weight.ndim == 1 else weight.max(axis=1, initial=0.0)

    def arrays(self) -> list[Array]:
        """The numbers."""
        values = [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]  # a dataclass
        return [value for value in values if isinstance(value, np.ndarray)]


class Additive(Statistics):
    """Arrays that add up."""

    def merge(self, other: Self) -> Self:
        return type(self)(*(x + y for x, y in zip(self.arrays(), other.arrays(), strict=True)))

    def remove(self, other: Self) -> Self:
        left = type(self)(*(less(x, y) for x, y in zip(self.arrays(), other.arrays(), strict=True)))
        return left.possible()

    def possible(self) -> Self:
        """Refuse sums that no rows can have: every one here is of numbers that are not negative."""
        if any((values < 0).any() for values in self.arrays()):
            refuse_impossible("a count or a sum would be negative")
        return self

    def take(self, order: Codes) -> Self:
        return type(self)(*(taken(values, order) for values in self.arrays()))

    def pooled(self) -> Self:
        return type(self)(*(values.sum(axis=0, keepdims=True) for values in self.arrays()))

    def change(self, before: Self) -> float:
        """The largest, relative to the largest of all classes in the same column."""
        return max(_relative(now, then) for now, then in zip(self.arrays(), before.arrays(), strict=True))


def _relative(now: Array, then: Array) -> float:
    size = np.abs(now).max(axis=0)
    return float((np.abs(now - then) / np.where(size > 0, size, 1.0)).max(initial=0.0))


def less(a: Array, b: Array) -> Array:
    """a - b, where a difference within the rounding of a sum is none."""
    difference = a - b
    return np.where(np.abs(difference) <= REMOVAL_ROUNDING * np.abs(a), 0.0, difference)


def refuse_impossible(what: str) -> NoReturn:
    """The error of forgetting what was never learnt."""
    raise InputError(
        f"These rows cannot be forgotten: without them {what}, so the model has not learnt them all. Forget exactly "
        "the rows (and weights) that were given to fit or partial_fit."
    )


def refuse_too_many(weight: Array, removed: Array) -> None:
    """Refuse to remove more rows of a class than there are."""
    if (weight - removed < -REMOVAL_ROUNDING * (weight + removed)).any():
        refuse_impossible("a class would have fewer than no rows")


@dataclass(frozen=True)
class Parts(Statistics):
    """Statistics of several groups of columns."""

    parts: tuple[Any, ...]

    def merge(self, other: Self) -> Self:
        return type(self)(tuple(a.merge(b) for a, b in zip(self.parts, other.parts, strict=True)))

    def remove(self, other: Self) -> Self:
        return type(self)(tuple(a.remove(b) for a, b in zip(self.parts, other.parts, strict=True)))

    def take(self, order: Codes) -> Self:
        return type(self)(tuple(part.take(order) for part in self.parts))

    def pooled(self) -> Self:
        return type(self)(tuple(part.pooled() for part in self.parts))

    def least_rows(self) -> Array:
        return np.asarray(np.max([part.least_rows() for part in self.parts], axis=0))

    def arrays(self) -> list[Array]:
        """The numbers of all parts."""
        return [values for part in self.parts for values in part.arrays()]

    def change(self, before: Self) -> float:
        return float(max(now.change(then) for now, then in zip(self.parts, before.parts, strict=True)))


# --- sums, means and scatters by class ----------------------------------------------------------------------


class Together(NamedTuple):
    """Weight and mean of two sets of rows together, and what their means add to the scatter: factor · gap gapᵀ."""

    weight: Array
    mean: Array
    gap: Array
    factor: Array


def together(weight_a: Array, mean_a: Array, weight_b: Array, mean_b: Array) -> Together:
    """Chan, Golub & LeVeque 1983, eq. 2.1: weights are of shape (…, 1) or that of the means.

    Examples
    --------
    >>> both = together(np.array([2.0]), np.array([1.0]), np.array([1.0]), np.array([4.0]))
    >>> float(both.mean[0]), float(both.factor[0] * both.gap[0] ** 2)
    (2.0, 6.0)
    """
    weight = weight_a + weight_b
    share = np.divide(weight_b, weight, out=np.zeros_like(weight), where=weight != 0)
    gap = mean_b - mean_a
    return Together(weight, mean_a + share * gap, gap, weight_a * share)


def apart(weight: Array, mean: Array, weight_b: Array, mean_b: Array) -> Together:
    """Weight and mean of what is left when b is taken away, and what the means had added to the scatter."""
    left = weight - weight_b
    some = left > WEIGHT_ROUNDING * weight
    ratio = np.divide(weight_b, left, out=np.zeros_like(left), where=some)
    mean_a = np.where(some, mean + ratio * (mean - mean_b), 0.0)
    share = np.divide(weight_b, weight, out=np.zeros_like(weight), where=weight != 0)
    return Together(np.where(some, left, 0.0), mean_a, np.where(some, mean_b - mean_a, 0.0), left * share)


def removal_rounding(scatter: Array, left: Together, mean: Array, mean_b: Array) -> Array:
    """What is noise in a scatter that rows were taken out of: its own rounding, and that of means far from zero."""
    offset = left.factor * np.abs(left.gap) * (np.abs(mean) + np.abs(mean_b))
    return np.asarray(1000 * np.finfo(float).eps * (scatter + offset))


def membership(codes: Codes, weight: Array | None, n_groups: int) -> csc_array:
    """(K, n): the weight of every row in its group; a product with it is a sum over groups.

    Examples
    --------
    >>> membership(np.array([0, 1, 0]), None, 2) @ np.array([1.0, 10.0, 100.0])
    array([101.,  10.])
    """
    n = len(codes)
    weights = np.ones(n) if weight is None else weight
    return csc_array((weights, codes, np.arange(n + 1)), shape=(n_groups, n))


def group_sums(member: csc_array, Z: DesignMatrix) -> Array:
    """Sums of rows by group, (K, d)."""
    total = member @ Z
    return np.asarray(total.toarray() if is_sparse(total) else total, dtype=float)


def group_means(member: csc_array, Z: Array, weight: Array) -> Array:
    """Means of rows by group, (K, d); `weight` is (K, 1) or (K, d)."""
    sums = group_sums(member, Z)
    return np.divide(sums, weight, out=np.zeros_like(sums), where=weight != 0)


def refined_means(member: csc_array, Z: Array, weight: Array, codes: Codes) -> Array:
    """Means of rows by group, (K, d), to the rounding of the mean itself: a second look at what the first left over."""
    mean = group_means(member, Z, weight)
    return mean + group_means(member, deviations(Z, mean, codes), weight)


def deviations(Z: Array, mean: Array, codes: Codes) -> Array:
    """Rows less the means of their groups, in scratch memory: to be used up at once."""
    out = scratch(*Z.shape)
    np.take(mean, codes, axis=0, out=out, mode="clip")
    return np.subtract(Z, out, out=out)


def gram(D: Array, weight: Array | None) -> Array:
    """Dᵀ diag(weight) D; `D` is overwritten."""
    if weight is not None:
        D *= np.sqrt(weight)[:, None]
    return np.asarray(D.T @ D)


def taken(values: Array, order: Codes) -> Array:
    """Entries along the first axis in this order, zeros where it says -1."""
    out = np.zeros((len(order), *values.shape[1:]))
    known = order >= 0
    out[known] = values[order[known]]
    return out
