"""Which columns of a table a model can use, and as what: numbers, yes/no, categories. What is left out is told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from credibly.data.rows import LARGEST
from credibly.errors import TableError
from credibly.wording import did_you_mean, shortened

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 50  # of a category, and classes of a target
MOSTLY_DISTINCT = 0.9  # share of different values from which a column names rows rather than describes them
IDENTIFIER = re.compile(r"(.*[_\W])?(id|ids|uuid|guid|index|idx|key|rownames|row|row_?number|case_?number)", re.I)
DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([T ]\d{1,2}:\d{2}.*)?")
ODD_NUMBER = re.compile(r"[-+]?[$€£]?\d[\d.,' ]*%?")
MARK = re.compile(r"[,' %$€£]")
ASK = "name it among the features (--features) to use it all the same"
FLAGS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
LONGEST_SHOWN = 40  # characters of a cell in a message


@dataclass(frozen=True)
class Column:
    """One column of a table as a model reads it.

    Attributes
    ----------
    name : str
    kind : "number", "flag" (true or false) or "category"
    levels : tuple of str
        Of a category, in order.

    Examples
    --------
    >>> print(Column("sex", "category", ("f", "m")))
    sex: category with 2 levels (f, m)
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.kind != "category":
            return f"{self.name}: {'yes/no' if self.kind == 'flag' else 'number'}"
        return f"{self.name}: category with {len(self.levels)} levels ({shortened(self.levels)})"


class Used(NamedTuple):
    """The columns a model uses, and why others are not used."""

    columns: tuple[Column, ...]
    dropped: dict[str, str]  # name: reason


def choose(frame: pd.DataFrame, target: str | None, features: Sequence[str] | None, exclude: Sequence[str]) -> Used:
    """The columns of a training table, kinds inferred.

    Parameters
    ----------
    frame : DataFrame
    target : str or None
        A column that is no input.
    features : sequence of str or None
        Only these, even if they look like identifiers; None: all that can be used.
    exclude : sequence of str
        Not these.

    Returns
    -------
    Used
    """
    check_names(frame)
    wanted = [str(name) for name in frame.columns] if features is None else list(features)
    for name in (*wanted, *exclude):
        find(frame, name)
    if features is not None and target in features:
        raise TableError(f"Column {target!r} is the target; it cannot be among the features as well.")
    names = [name for name in dict.fromkeys(wanted) if name != target and name not in set(exclude)]
    dropped = {name: why for name in names if (why := why_not(frame[name], asked=features is not None))}
    columns = tuple(column_of(frame[name]) for name in names if name not in dropped)
    if not columns:
        reasons = "; ".join(f"{name} {why}" for name, why in dropped.items()) or "there are no others"
        raise TableError(f"No column is left to learn from besides the target {target!r}: {reasons}.")
    return Used(columns, dropped)


def check_names(frame: pd.DataFrame) -> None:
    """Columns have names, each its own."""
    doubled = frame.columns[frame.columns.duplicated()].unique()
    if len(doubled):
        raise TableError(f"Column names must differ; these occur more than once: {shortened(map(str, doubled))}.")
    strange = [repr(name) for name in frame.columns.tolist() if type(name) is not str]
    if strange:
        raise TableError(
            "Column names must be strings, so that a model can find its columns again; got "
            f"{shortened(strange)}. Name them: frame.columns = [...]."
        )


def find(frame: pd.DataFrame, name: str) -> pd.Series:
    """A column by name, or an error that suggests one."""
    check_present(list(frame.columns), [name])
    return frame[name]


def check_present(present: Sequence[str], names: Sequence[str]) -> None:
    """Names of columns that a table has, or an error that suggests one."""
    for name in names:
        if name not in present:
            hint = did_you_mean(name, present, f"It has {shortened(present)}.")
            raise TableError(f"The table has no column {name!r}. {hint}")


# --- one column ----------------------------------------------------------------------------------------------------


def why_not(values: pd.Series, *, asked: bool) -> str | None:
    """Why a column is of no use, or None. One that was asked for may be an identifier or have many levels."""
    present = values.dropna()
    n_distinct = present.nunique()
    if n_distinct == 0:
        return "has no values"
    if n_distinct == 1:
        return f"is constant ({_cell(present.iloc[0])} in every row that has a value)"
    refuse_dates(values)
    if asked:
        return None
    if is_text(values):
        odd = _odd_numbers(present)
        return odd or _why_not_category(n_distinct, n_distinct / len(present))
    return f"looks like an identifier or a row number; {ASK}" if _names_rows(present, n_distinct) else None


def _why_not_category(n_levels: int, share: float) -> str | None:
    if n_levels <= MOST_LEVELS and (share < MOSTLY_DISTINCT or n_levels <= 10):
        return None
    if share >= MOSTLY_DISTINCT:
        return (
            f"looks like an identifier or free text ({n_levels} different values; to learn from text, turn it into "
            "numbers first, for instance counts of words)"
        )
    return f"has {n_levels} levels, more than {MOST_LEVELS}; {ASK}"


def _odd_numbers(present: pd.Series) -> str | None:
    """Numbers that are written as people write them."""
    shown = [_cell(value) for value in present.unique()[:1000]]
    if len(shown) <= 2 or not all(map(ODD_NUMBER.fullmatch, shown)) or not any(map(MARK.search, shown)):
        return None
    return (
        f"holds numbers with commas, spaces or % signs (such as {shown[0]!r}): write plain numbers, or, where the "
        "comma is the decimal mark, read them with --decimal ,"
    )


def _names_rows(present: pd.Series, n_distinct: int) -> bool:
    numbers = present.to_numpy(dtype=float)
    if n_distinct < MOSTLY_DISTINCT * len(numbers) or len(numbers) < 10 or not (numbers == np.floor(numbers)).all():
        return False
    counted = numbers[0] in (0.0, 1.0) and bool((np.diff(numbers) == 1.0).all())
    return counted or IDENTIFIER.fullmatch(str(present.name)) is not None


def column_of(values: pd.Series) -> Column:
    """A column and its kind."""
    name = str(values.name)
    if is_text(values):
        return Column(name, "category", levels_of(values))
    return Column(name, "flag" if _is_boolean(values) else "number")


def levels_of(values: pd.Series) -> tuple[str, ...]:
    """The levels that occur, as text: in the order of a categorical type, of size for numbers, else of the alphabet."""
    import pandas as pd

    present = values.dropna()
    if isinstance(present.dtype, pd.CategoricalDtype):
        ordered = pd.Series(present.cat.remove_unused_categories().cat.categories)
    else:
        ordered = pd.Series(present.unique())
        ordered = (ordered if pd.api.types.is_numeric_dtype(ordered.dtype) else cells(ordered)).sort_values()
    return tuple(dict.fromkeys(str(level) for level in cells(ordered)))


def is_text(values: pd.Series) -> bool:
    """Whether cells are categories rather than numbers."""
    from pandas.api import types

    return not (types.is_numeric_dtype(values.dtype) or _is_boolean(values))


def _is_boolean(values: pd.Series) -> bool:
    from pandas.api import types

    if types.is_bool_dtype(values.dtype):
        return True
    present = values.dropna()
    return values.dtype == object and len(present) > 0 and all(isinstance(value, bool | np.bool_) for value in present)


def refuse_dates(values: pd.Series) -> None:
    """Dates are neither numbers nor categories; what they should become is the user's choice."""
    from pandas.api import types

    present = values.dropna()
    kinds = (types.is_datetime64_any_dtype, types.is_timedelta64_dtype)
    typed = any(is_kind(values.dtype) for is_kind in kinds) or isinstance(values.dtype, _period_type())
    looks = is_text(values) and all(DATE.fullmatch(_cell(value)) for value in present.unique()[:1000])
    if typed or looks:
        raise TableError(
            f"Column {values.name!r} holds dates (such as {_cell(present.iloc[0])}). Turn them into numbers that mean "
            "something here (days since a start, year, month), or leave the column out (exclude, --exclude)."
        )


def _period_type() -> type:
    import pandas as pd

    return pd.PeriodDtype


def _cell(value: object) -> str:
    """A cell as text: whole numbers without a decimal point, so that levels read from CSV and Parquet are the same."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


# --- cells of known columns ----------------------------------------------------------------------------------------


def numbers(values: pd.Series, column: Column) -> np.ndarray:
    """The cells of a number or flag column, NaN where missing, or an error that names the cell."""
    import pandas as pd

    if column.kind == "flag":
        out = cells(values).map(lambda cell: FLAGS.get(cell.lower(), np.nan), na_action="ignore").to_numpy(dtype=float)
        expected = "true or false"
    else:
        out = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
        expected = "a number"
    bad = np.isnan(out) & values.notna().to_numpy()
    _refuse(values, bad, f"Column {column.name!r} held {expected} in every row of the training table")
    _refuse(values, np.abs(out) > LARGEST, f"Column {column.name!r} must hold numbers up to {LARGEST:.0e} in size")
    return out


def _refuse(values: pd.Series, bad: np.ndarray, expectation: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        cell = _cell(values.iloc[row])
        shown = cell if len(cell) <= LONGEST_SHOWN else f"{cell[:LONGEST_SHOWN]}…"
        raise TableError(
            f"{expectation}; now {int(bad.sum())} of {len(bad)} rows do not, the first is row {row + 1}: "
            f"{shown!r}. Correct the cells, or leave them empty where they are unknown."
        )


def cells(values: pd.Series) -> pd.Series:
    """The cells of a category as text, missing ones kept."""
    import pandas as pd

    codes, distinct = pd.factorize(values)  # text is made once per level, not once per row
    text = np.array([*map(_cell, distinct), None], dtype=object)
    return pd.Series(text[codes], index=values.index, name=values.name, dtype=object)
