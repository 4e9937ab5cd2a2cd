"""Sums over rows, class by class: they merge, and rows can be taken out again.

Every statistic has the classes on its first axis, but for what classes share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, NoReturn, Self

import numpy as np

from credibly.errors import InputError
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.grouped import REMOVAL_ROUNDING, taken


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
