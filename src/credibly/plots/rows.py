"""A table of rows as it came, array or frame, from which rows that nobody has seen are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.plots.indicators import indicator_groups
from credibly.wording import did_you_mean


class Levels(NamedTuple):
    """The values of a column that has few, in order, and for each a row that has it."""

    names: list[Any]
    rows: Codes


@dataclass(frozen=True)
class Rows:
    """Columns by name or number, and tables of the same kind made of them.

    Examples
    --------
    >>> rows = Rows.of([[1.0, 0.0], [2.0, 0.0], [9.0, 1.0]])
    >>> rows.typical(2)
    array([[2., 0.],
           [2., 0.]])
    >>> rows.put(rows.typical(2), 0, np.array([5.0, 6.0]))
    array([[5., 0.],
           [6., 0.]])
    """

    table: Any  # (n, d) array, or pandas frame
    names: list[Any]

    @classmethod
    def of(cls, X: Any) -> Rows:
        """Read an array or a frame; a frame of another library than pandas is turned into one of that."""
        if hasattr(X, "to_pandas"):
            X = X.to_pandas()
        if hasattr(X, "toarray"):
            raise InputError("X is a sparse matrix, which cannot be drawn; pass some of its rows, X[:200].toarray().")
        if hasattr(X, "iloc") and np.ndim(X) == 2:
            table, names = X, list(X.columns)
        else:
            table = np.asarray(X)
            table = table.astype(float) if table.dtype.kind in "biuf" else table
            names = [f"column {j}" for j in range(table.shape[1])] if table.ndim == 2 else []
        if np.ndim(table) != 2 or 0 in np.shape(table):
            raise InputError(f"X must be a table of rows and columns, and not empty; got shape {np.shape(X)}.")
        return cls(table, names)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def _frame(self) -> bool:
        return hasattr(self.table, "iloc")

    def find(self, which: Any) -> int:
        """The number of a column that is given by name, or by number."""
        if which in self.names:
            return self.names.index(which)
        number = isinstance(which, int | np.integer) and not isinstance(which, bool)
        if number and -len(self.names) <= which < len(self.names):
            return int(which) % len(self.names)
        hint = did_you_mean(str(which), [str(name) for name in self.names], f"The columns are {_some(self.names)}.")
        raise InputError(f"X has no column {which!r}, neither by name nor by number. {hint}")

    def column(self, j: int) -> Any:
        """The column as it came."""
        return self.table.iloc[:, j] if self._frame else self.table[:, j]

    def missing(self, j: int) -> AnyArray:
        """Which cells of the column are missing, (n,)."""
        values = self.column(j)
        if self._frame:
            return np.asarray(values.isna(), dtype=bool)
        return np.array([cell is None or (isinstance(cell, float) and np.isnan(cell)) for cell in values.tolist()])

    def numbers(self, j: int) -> Array | None:
        """The column as numbers, missing cells NaN; None where it holds something else."""
        values = self.column(j)
        if values.dtype.kind in "biuf":
            return np.asarray(values.to_numpy(dtype=float, na_value=np.nan) if self._frame else values, dtype=float)
        cells, missing = np.asarray(values, dtype=object), self.missing(j)
        if str(values.dtype) == "category" or not all(isinstance(cell, Real) for cell in cells[~missing]):
            return None
        return np.where(missing, np.nan, cells).astype(float)

    def levels(self, j: int) -> Levels | None:
        """Its levels, where they are words or at most two numbers; None for a column of numbers."""
        numbers = self.numbers(j)
        values: AnyArray = np.asarray(self.column(j), dtype=object) if numbers is None else numbers
        first: dict[Any, int] = {}
        for i in np.flatnonzero(~self.missing(j)):
            first.setdefault(values[i], int(i))
        if not first:
            raise InputError(f"column {self.names[j]!r} has no cell that is not missing.")
        if numbers is not None and len(first) > 2:
            return None
        names = sorted(first, key=lambda it: it if numbers is not None else str(it))
        return Levels(names, np.array([first[name] for name in names], dtype=np.intp))

    def take(self, positions: Codes | Sequence[int]) -> Any:
        """A table of these rows."""
        at = np.asarray(positions, dtype=np.intp)
        return self.table.iloc[at].reset_index(drop=True) if self._frame else self.table[at]

    def put(self, table: Any, j: int, values: Any) -> Any:
        """The table with other values in a column."""
        new = table.copy()
        if self._frame:
            new.isetitem(j, values)
        else:
            new[:, j] = values
        return new

    def cells(self, j: int, positions: Codes) -> Any:
        """Cells of a column, in its own type."""
        values = self.column(j)
        return values.iloc[positions].reset_index(drop=True) if self._frame else values[positions]

    def typical(self, n: int) -> Any:
        """`n` times one row: medians of numbers, and of words and pairs of numbers those seen most often.

        Columns of 0 and 1 that are levels of one category have the level seen most often, so that one of them is 1.
        """
        table = self.take(np.zeros(n, dtype=np.intp))
        for j in range(len(self.names)):
            numbers = self.numbers(j)
            if numbers is not None and self.levels(j) is None:
                table = self.put(table, j, np.full(n, np.nanmedian(numbers)))
            else:
                table = self.put(table, j, self.cells(j, np.full(n, _commonest(self, j), dtype=np.intp)))
        for places in level_columns(self).values():
            cells = matrix_of(self, places)
            row = int(cells[:, cells.sum(axis=0).argmax()].argmax())
            for j in places:
                table = self.put(table, j, self.cells(j, np.full(n, row, dtype=np.intp)))
        return table


def matrix_of(rows: Rows, places: Sequence[int]) -> Array:
    """Columns of numbers side by side, (n, len(places))."""
    return np.column_stack([it for j in places if (it := rows.numbers(j)) is not None])


def level_columns(rows: Rows) -> dict[str, list[int]]:
    """Columns of 0 and 1 that are the levels of one category."""
    marked = [j for j, name in enumerate(rows.names) if isinstance(name, str) and "=" in name]
    places = [j for j in marked if rows.numbers(j) is not None]
    if not places:
        return {}
    found = indicator_groups([rows.names[j] for j in places], matrix_of(rows, places))
    return {category: [places[i] for i in at] for category, at in found.items()}


def _commonest(rows: Rows, j: int) -> int:
    """A row that has the column's most frequent cell."""
    values = np.asarray(rows.column(j), dtype=object)
    present = np.flatnonzero(~rows.missing(j))
    (value, _), *_ = Counter(values[present]).most_common(1)
    return next(int(i) for i in present if values[i] == value)


def _some(names: list[Any], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
