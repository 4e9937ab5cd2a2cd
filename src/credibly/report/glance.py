"""The data at a glance: what is in each column."""

from __future__ import annotations

from math import isnan
from typing import Any, NamedTuple

import numpy as np

from credibly.numerics.arrays import AnyArray, Array
from credibly.report.material import Material, names_of
from credibly.report.tables import MOST_ROWS, Cell, Head, Table, numeric
from credibly.report.words import count, counted, number, percent, plain

BINS = 16  # of a small histogram
LEVELS = 12  # bars of a column of categories
HEADS = (
    Head("Column", numeric=False),
    Head("Kind", numeric=False),
    Head("Mean, or commonest levels"),
    Head("Standard deviation"),
    Head("Least"),
    Head("Most"),
    Head("Missing"),
    Head("Distribution", numeric=False, sortable=False),
)


class HistogramBar(NamedTuple):
    """A bar of a small histogram: its height as a share of the tallest, and what it stands for."""

    height: float
    tip: str


def glance(material: Material) -> Table:
    """One row per column of the table that was given."""
    source = material.X if material.about.table is None else material.about.table
    names = names_of(source)
    rows = [_row(name, _column(source, j)) for j, name in enumerate(names[:MOST_ROWS])]
    caption = f"The columns of the table, {count(len(names))} in all"
    return Table(caption, HEADS, rows, max(0, len(names) - MOST_ROWS))


def columns_words(material: Material) -> str:
    """How many columns there are: of the table, and of the model where it has others."""
    table, model = len(material.sources), len(material.names)
    if table == model:
        return counted(table, "column")
    return f"{counted(table, 'column')} of the table, {count(model)} of the model"


def missing_cells(material: Material) -> int:
    """How many cells of the table are missing."""
    source = material.X if material.about.table is None else material.about.table
    if hasattr(source, "toarray"):
        return 0
    return sum(int(_missing(_column(source, j)).sum()) for j in range(source.shape[1]))


def _column(source: Any, j: int) -> AnyArray:
    if hasattr(source, "iloc"):
        column = source.iloc[:, j]
        numbers = str(column.dtype).lower().startswith(("int", "uint", "float", "bool"))
        return np.asarray(column.to_numpy(dtype=float, na_value=np.nan) if numbers else column.to_numpy(dtype=object))
    if hasattr(source, "toarray"):
        return np.asarray(source[:, [j]].toarray())[:, 0]
    if hasattr(source, "columns"):  # polars
        return np.asarray(source[source.columns[j]].to_numpy())
    return np.asarray(source[:, j])


def _missing(values: AnyArray) -> AnyArray:
    """Which cells are missing: NaN, None, and what does not equal itself."""
    if values.dtype.kind in "fc":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.array([_is_missing(value) for value in values], dtype=bool)


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and isnan(value))


def _row(name: str, values: AnyArray) -> list[Cell]:
    missing = _missing(values)
    known = values[~missing]
    gap = Cell(count(int(missing.sum())) if missing.any() else "0", float(missing.sum()))
    numbers = _numbers(known)
    if numbers is None:
        return _category(name, known, gap)
    if not len(numbers):
        return [Cell(name), Cell("empty"), *[Cell("–")] * 4, gap, Cell("")]
    two = np.unique(numbers)
    kind = "constant" if len(two) == 1 else "two values" if len(two) == 2 else "number"
    if kind == "number" and (numbers == np.round(numbers)).all():
        kind = "whole number"
    cells = [numeric(float(it), number(float(it))) for it in (numbers.mean(), numbers.std())]
    cells += [numeric(float(it), plain(float(it))) for it in (numbers.min(), numbers.max())]
    return [Cell(name), Cell(kind), *cells, gap, Cell("", bars=_histogram(numbers))]


def _numbers(known: AnyArray) -> Array | None:
    if known.dtype.kind in "fiub":
        return known.astype(float)
    if known.dtype.kind == "O" and len(known) and all(isinstance(it, bool | int | float | np.number) for it in known):
        return known.astype(float)
    return None


def _category(name: str, known: AnyArray, gap: Cell) -> list[Cell]:
    levels, counts = np.unique(known.astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shares = counts[order] / max(len(known), 1)
    said = ", ".join(f"{levels[i]} {percent(share)}" for i, share in zip(order[:3], shares[:3], strict=True))
    more = f" and {count(len(levels) - 3)} more" if len(levels) > 3 else ""
    bars = [
        HistogramBar(float(share / shares[0]), f"{levels[i]}: {count(int(counts[i]))}")
        for i, share in zip(order[:LEVELS], shares[:LEVELS], strict=True)
    ]
    kind = f"category, {counted(len(levels), 'level')}"
    return [Cell(name), Cell(kind), Cell(said + more), *[Cell("–")] * 3, gap, Cell("", bars=bars)]


def _histogram(numbers: Array) -> list[HistogramBar]:
    found = np.unique(numbers)
    if len(found) <= 2:
        counts = [int((numbers == value).sum()) for value in found]
        return [
            HistogramBar(n / max(counts), f"{plain(float(value))}: {count(n)}")
            for value, n in zip(found, counts, strict=True)
        ]
    if not np.isfinite(numbers).all():
        return []
    heights, edges = np.histogram(numbers, bins=BINS)
    return [
        HistogramBar(float(n / heights.max()), f"{number(float(a))} to {number(float(b))}: {count(int(n))}")
        for n, a, b in zip(heights, edges[:-1], edges[1:], strict=True)
    ]
