"""The target of a table: labels, and the reasons why a column cannot be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credibly.errors import TableError
from credibly.tables.columns import MOST_LEVELS, check_names, find, refuse_dates
from credibly.wording import shortened

if TYPE_CHECKING:
    import pandas as pd


class Labelled(NamedTuple):
    """The rows of a table whose class is known."""

    frame: pd.DataFrame
    y: pd.Series
    notes: tuple[str, ...]


def labelled(frame: pd.DataFrame, target: str) -> Labelled:
    """The rows whose class is known; that others were left out is told."""
    check_names(frame)
    y = labels(frame, target)
    known = y.notna().to_numpy()
    if known.all():
        return Labelled(frame, y, ())
    left = f"{int((~known).sum())} of {len(known)} rows have no value of the target {target!r} and were left out."
    return Labelled(frame[known], y[known], (left,))


def labels(frame: pd.DataFrame, target: str) -> pd.Series:
    """The target's column with labels of one plain type, missing where no label is known."""
    values = find(frame, target)
    present = values.dropna()
    distinct = present.unique()
    _check(target, values, len(present), len(distinct))
    refuse_dates(values)
    return _plain(values)


def _check(target: str, values: pd.Series, n_present: int, n_distinct: int) -> None:
    if n_present == 0:
        raise TableError(f"The target {target!r} has no values: no row says what class it is.")
    if n_distinct == 1:
        raise TableError(
            f"The target {target!r} is constant ({values.dropna().iloc[0]!s} in all {n_present} rows that have a "
            "value). At least two classes are needed."
        )
    if n_distinct <= MOST_LEVELS and n_distinct < n_present:
        return
    shown = shortened(map(str, values.dropna().unique()[:4]))
    if n_distinct == n_present:
        what = f"is different in every row ({shown}, …): it names rows, or measures something"
    elif _numeric(values):
        what = f"takes {n_distinct} different numbers ({shown}, …): it looks like a measurement"
    else:
        what = f"has {n_distinct} different values ({shown}, …)"
    raise TableError(
        f"The target {target!r} {what}, where at most {MOST_LEVELS} classes are expected. Name another column, or cut "
        "it into classes first (for instance: above or below a threshold). For counts and measurements there is "
        "credibly.BayesianGLM in Python."
    )


def _numeric(values: pd.Series) -> bool:
    from pandas.api import types

    return bool(types.is_numeric_dtype(values.dtype))


def _plain(values: pd.Series) -> pd.Series:
    """Booleans, whole numbers (also where a file with gaps made them floats), or text."""
    import pandas as pd

    kinds = {type(value) for value in values.dropna().tolist()}
    as_label: Callable[[Any], Any] = str
    if kinds <= {bool}:
        as_label = bool
    elif kinds <= {int, float} and all(float(value).is_integer() for value in values.dropna().tolist()):
        as_label = int
    known = values.notna().tolist()
    found = [as_label(value) if there else None for value, there in zip(values.tolist(), known, strict=True)]
    return pd.Series(found, index=values.index, name=values.name, dtype=object)


def as_array(known: pd.Series) -> np.ndarray:
    """Labels without gaps as an array of their own type."""
    return np.array(known.tolist())
