"""Tables whose columns are of several kinds: numbers, yes/no, counts, categories. Read once, encoded as numbers.

Below the estimators a table is an array of float64: categories are their numbers among the levels of their column,
missing cells are NaN, a level that is not known is the number of known levels.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from credibly.errors import CellTypeError, InputError
from credibly.estimators.containers import as_table
from credibly.estimators.validation import canonical, feature_names, read_numbers
from credibly.model.class_conditionals.bernoulli import Bernoulli
from credibly.model.class_conditionals.categorical import Categorical
from credibly.model.class_conditionals.columns import ColumnFamily
from credibly.model.class_conditionals.gaussian import Gaussian
from credibly.model.class_conditionals.rates import Poisson
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import DesignMatrix

GLANCE = 1000  # rows that are looked at first
TIMES = {"datetime", "date", "time", "timedelta", "Timestamp", "Timedelta", "Period"}


class Column(NamedTuple):
    """One column as it came: numbers (NaN where missing), or things (None where missing)."""

    values: AnyArray
    text: bool
    boolean: bool = False
    declared: tuple[Hashable, ...] = ()  # levels that a categorical type lists


@dataclass(frozen=True)
class Levels:
    """The levels of a column of categories, in order; declared ones stay when no row has them."""

    known: tuple[Hashable, ...]
    declared: tuple[Hashable, ...] = ()

    def encode(self, column: Column) -> Array:
        """Numbers of levels; NaN for missing cells, the number of levels for what is new."""
        index = {level: float(i) for i, level in enumerate(self.known)}
        new = float(len(self.known))
        return np.array([np.nan if _missing(v) else index.get(v, new) for v in column.values.tolist()])

    def joined(self, other: Levels) -> Levels:
        """The levels of both."""
        return Levels(in_order({*self.known, *other.known}), in_order({*self.declared, *other.declared}))


class MixedTable:
    """A table read column by column."""

    def __init__(self, columns: Sequence[Column], names: Sequence[str]) -> None:
        self.columns = list(columns)
        self.names = list(names)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0].values) if self.columns else 0

    def encode(self, levels: Sequence[Levels | None]) -> Array:
        """The table as numbers."""
        table = np.empty((self.n_rows, len(self.columns)), order="F")
        for j, (column, known) in enumerate(zip(self.columns, levels, strict=True)):
            if known is None and column.text:
                raise InputError(
                    f"Column {self.names[j]!r} holds text, or things other than numbers, but the model reads it as "
                    "numbers. Write numbers there, or fit with features= 'categorical' for that column."
                )
            table[:, j] = column.values if known is None else known.encode(column)
        return np.ascontiguousarray(table)


Table: TypeAlias = MixedTable | DesignMatrix


def read_table(estimator: BaseEstimator, X: Any, *, reset: bool) -> Table:
    """A table of numbers as it is, or one with other columns to be encoded."""
    X = as_table(X)
    if _plain(X):
        return canonical(read_numbers(estimator, X, reset=reset))
    try:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    if not hasattr(X, "columns"):
        boolean = isinstance(X, np.ndarray) and X.dtype.kind == "b"
        X = X if boolean else np.asarray(X, dtype=object)
        if X.ndim != 2:
            read_numbers(estimator, X, reset=reset)  # scikit-learn says what is wrong
    table = MixedTable(_columns(X), feature_names(estimator))
    if table.n_rows == 0:
        raise InputError("X has no rows (0 samples); at least one is needed.")
    return table


def _plain(X: Any) -> bool:
    """Whether scikit-learn's own reading, into one array of numbers, loses nothing."""
    if issparse(X):
        return True
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return all(_number_type(dtype) for dtype in X.dtypes)
    if isinstance(X, np.ndarray):
        return X.dtype.kind in "iufc"
    return np.asarray(X).dtype.kind in "iufc" if _is_table_like(X) else True


def _is_table_like(X: Any) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], list | tuple)


def _number_type(dtype: Any) -> bool:
    name = str(dtype).lower()
    return name.startswith(("int", "uint", "float")) and not name.startswith("interval")


def _columns(X: Any) -> list[Column]:
    if hasattr(X, "columns"):
        series = [X.iloc[:, j] if hasattr(X, "iloc") else X[name] for j, name in enumerate(X.columns)]
        return [_frame_column(one, str(name)) for one, name in zip(series, X.columns, strict=True)]
    if X.dtype.kind == "b":
        return [Column(column.astype(float), text=False, boolean=True) for column in X.T]
    return [_column(X[:, j], f"x{j}") for j in range(X.shape[1])]


def _frame_column(series: Any, name: str) -> Column:
    kind = str(series.dtype).lower()
    if kind.startswith(("date", "time", "duration", "period")):
        raise InputError(f"Column {name!r} holds dates ({series.dtype}): turn it into numbers first (days, years).")
    declared = _declared(series)
    if _number_type(series.dtype) or kind.startswith("bool"):
        return Column(_numbers(series), text=False, boolean=kind.startswith("bool"))
    values = np.array([None if _missing(v) else v for v in series.to_list()], dtype=object)
    if declared is not None:
        return Column(values, text=True, declared=declared)
    return _column(values, name)


def _numbers(series: Any) -> Array:
    """A column of numbers or booleans, NaN where missing, of pandas or polars."""
    if hasattr(series, "isna"):
        missing = np.asarray(series.isna())
        nothing = False if str(series.dtype).startswith("bool") else 0
        filled = series.where(~series.isna(), nothing) if missing.any() else series
        return np.where(missing, np.nan, filled.to_numpy().astype(float))
    things = series.to_list()
    return np.array([np.nan if v is None else float(v) for v in things])


def _declared(series: Any) -> tuple[Hashable, ...] | None:
    if hasattr(series, "cat") and hasattr(series.dtype, "categories"):
        categories = series.dtype.categories
        return tuple(categories.to_list() if hasattr(categories, "to_list") else categories)
    return () if str(series.dtype).lower().startswith(("categor", "enum")) else None


def _column(values: AnyArray, name: str) -> Column:
    things = values.tolist()
    present = [v for v in things if not _missing(v)]
    kinds = set(map(type, present))
    if any(issubclass(kind, np.datetime64 | np.timedelta64) or kind.__name__ in TIMES for kind in kinds):
        raise InputError(f"Column {name!r} holds dates: turn it into numbers first (days, years).")
    if all(isinstance(v, Real | Decimal | np.bool_) for v in present):
        numbers = _floats(things, name)
        return Column(numbers, text=False, boolean=bool(present) and all(isinstance(v, bool) for v in present))
    strange = next((v for v in present if not isinstance(v, Hashable) or isinstance(v, complex)), None)
    if strange is not None:
        raise CellTypeError(
            f"Column {name!r} holds {strange!r}: a cell's argument must be a string or a number (or another hashable "
            "thing that names a category)."
        )
    return Column(np.array([None if _missing(v) else v for v in things], dtype=object), text=True)


def _floats(things: list[Any], name: str) -> Array:
    try:
        return np.array([np.nan if _missing(v) else float(v) for v in things])
    except OverflowError as error:
        raise InputError(
            f"Column {name!r} holds whole numbers beyond the range of float64; change its unit."
        ) from error


def _missing(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, float):
        return bool(np.isnan(value))
    return type(value).__name__ in {"NAType", "NaTType"}


# --- kinds of columns -------------------------------------------------------------------------------------------


def infer(table: Table) -> list[ColumnFamily[Any]]:
    """A family for every column, from its type and values."""
    if isinstance(table, MixedTable):
        return [_infer_column(column) for column in table.columns]
    if isinstance(table, csr_array):
        return [infer_numbers(table[:, [j]].toarray()[:, 0]) for j in range(table.shape[1])]
    return [infer_numbers(table[:, j]) for j in range(table.shape[1])]


def _infer_column(column: Column) -> ColumnFamily[Any]:
    if column.text:
        return Categorical()
    return Bernoulli() if column.boolean else infer_numbers(column.values)


def infer_numbers(values: AnyArray) -> ColumnFamily[Any]:
    """Two values: Bernoulli; whole numbers that are not negative: Poisson; other numbers: Gaussian."""
    head = values[:GLANCE]
    if np.count_nonzero(head != np.floor(head)) > np.count_nonzero(np.isnan(head)) and len(np.unique(head)) > 3:
        return Gaussian()  # seen at a glance
    present = values[~np.isnan(values)]
    if present.size == 0:
        return Gaussian()
    low, high = float(present.min()), float(present.max())
    if low < high and present.size > 2 and ((present == low) | (present == high)).all():
        return Bernoulli() if (low, high) == (0.0, 1.0) else Bernoulli((low, high))
    whole = low >= 0 and np.isfinite(high) and bool((present == np.floor(present)).all())
    return Poisson() if whole else Gaussian()


def find_levels(table: Table, families: Sequence[ColumnFamily[Any]]) -> list[Levels | None]:
    """The levels of every column of categories."""
    found: list[Levels | None] = []
    for j, family in enumerate(families):
        if not isinstance(family, Categorical):
            found.append(None)
            continue
        column = column_of(table, j)
        seen = {v for v in column.values.tolist() if not _missing(v)}
        found.append(Levels(in_order(seen | set(column.declared)), column.declared))
    return found


def column_of(table: Table, j: int) -> Column:
    """One column of a table, however it is held."""
    if isinstance(table, MixedTable):
        return table.columns[j]
    values = table[:, [j]].toarray()[:, 0] if isinstance(table, csr_array) else np.asarray(table[:, j])
    return Column(values.astype(float), text=False)


def encoded(table: Table, levels: Sequence[Levels | None]) -> DesignMatrix:
    """The table as numbers; without categories a table of numbers stays as it is."""
    if isinstance(table, MixedTable):
        return table.encode(levels)
    if all(one is None for one in levels):
        return table
    dense = np.array(table.toarray() if isinstance(table, csr_array) else table, dtype=float)
    for j, known in enumerate(levels):
        if known is not None:
            dense[:, j] = known.encode(column_of(table, j))
    return dense


def in_order(levels: set[Hashable]) -> tuple[Hashable, ...]:
    """Sorted, where they can be compared; else by type and text."""
    try:
        return tuple(sorted(levels))  # type: ignore[type-var]  # what cannot be compared raises
    except TypeError:
        return tuple(sorted(levels, key=lambda level: (type(level).__name__, str(level))))
