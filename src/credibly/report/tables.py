"""A table of the page: cells with what they show and what they are sorted by."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any, NamedTuple

MOST_ROWS = 200  # of a table on the page; a model of words has thousands of columns


class Bar(NamedTuple):
    """An interval drawn beside its numbers, each end as a share of the width, with a mark and a zero line."""

    low: float
    high: float
    mark: float
    zero: float | None
    tip: str


class Cell(NamedTuple):
    """What a cell shows, what it is sorted by, and what is drawn in it."""

    text: str
    value: float | str | None = None  # None: sorted by the text
    bar: Bar | None = None
    bars: Sequence[Any] = ()  # of a small histogram


class Head(NamedTuple):
    """The head of a column."""

    text: str
    numeric: bool = True
    sortable: bool = True


class Table(NamedTuple):
    """Rows of cells; the first cell of each names it."""

    caption: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[Cell]]
    hidden: int = 0  # rows left out

    @classmethod
    def of(cls, caption: str, heads: Sequence[Head], rows: Sequence[Sequence[Cell]]) -> Table:
        """A table that is cut where it is too long for a page."""
        return cls(caption, heads, rows[:MOST_ROWS], max(0, len(rows) - MOST_ROWS))


def numeric(value: float, text: str) -> Cell:
    """A number with the text that stands for it; NaN is sorted last."""
    return Cell(text, None if isnan(value) else float(value))


def bars_of(intervals: Sequence[tuple[float, float, float]], tips: Sequence[str], zero: float = 0.0) -> list[Bar]:
    """Intervals (low, mark, high) on one scale that holds all of them, and the zero line."""
    known = [value for interval in intervals for value in interval if not isnan(value)] + [zero]
    low, high = min(known), max(known)
    width = high - low or 1.0
    low, width = low - 0.03 * width, 1.06 * width

    def at(value: float) -> float:
        return round(100 * (value - low) / width, 2)

    return [Bar(at(a), at(b), at(mark), at(zero), tip) for (a, mark, b), tip in zip(intervals, tips, strict=True)]
