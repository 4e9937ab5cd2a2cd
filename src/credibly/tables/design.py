"""From the cells of a table to the columns of a model: numbers as they are, categories by indicators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from credibly.errors import DataWarning, TableError
from credibly.tables.columns import Column, cells, numbers
from credibly.wording import close_names, shortened

if TYPE_CHECKING:
    import pandas as pd

ENCODINGS = ("indicators", "reference", "as they are")


class Design(Protocol):
    """How a table becomes the columns of a model; plain data, fixed by the training table."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the table that are needed."""

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the model."""

    def matrix(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The model's columns, row by row; NaN where a cell that is needed is missing."""


@dataclass(frozen=True)
class ColumnsDesign:
    """Every column on its own.

    Attributes
    ----------
    columns : tuple of Column
    encoding : str
        Categories become "indicators" (one 0/1 column per level, named ``column=level``), the same without the first
        level ("reference": for models without a prior, where all of them and an intercept would be collinear), or
        stay categories ("as they are": for models that describe those themselves).

    Examples
    --------
    >>> import pandas as pd
    >>> from credibly.tables import Column
    >>> design = ColumnsDesign((Column("age", "number"), Column("sex", "category", ("f", "m"))))
    >>> design.matrix(pd.DataFrame({"sex": ["m", None], "age": [31, 44]}))
        age  sex=f  sex=m
    0  31.0    0.0    1.0
    1  44.0    NaN    NaN
    """

    columns: tuple[Column, ...]
    encoding: str = "indicators"

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the table that are needed."""
        return tuple(column.name for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the model."""
        return tuple(name for column in self.columns for name in self._names(column))

    def _levels(self, column: Column) -> tuple[str, ...]:
        return column.levels[1:] if self.encoding == "reference" else column.levels

    def _names(self, column: Column) -> list[str]:
        if column.kind != "category" or self.encoding == "as they are":
            return [column.name]
        return [f"{column.name}={level}" for level in self._levels(column)]

    def matrix(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The model's columns; levels that are new are told, and belong to none of the indicators."""
        import pandas as pd

        check_sources(frame, self.sources)
        parts: dict[str, np.ndarray | pd.Series] = {}
        for column in self.columns:
            values = frame[column.name]
            if column.kind != "category":
                parts[column.name] = numbers(values, column)
            elif self.encoding == "as they are":
                tell_new_levels(values, column, "the model treats them as categories that training did not show")
                parts[column.name] = cells(values)
            else:
                parts |= self._indicators(values, column)
        return pd.DataFrame(parts, index=frame.index)

    def _indicators(self, values: pd.Series, column: Column) -> dict[str, np.ndarray]:
        if self.encoding == "reference":
            refuse_new_levels(values, column)
        else:
            tell_new_levels(values, column, "no level's effect is added there, and intervals do not know the new one's")
        text, missing = cells(values).to_numpy(dtype=object), values.isna().to_numpy()
        return {
            f"{column.name}={level}": np.where(missing, np.nan, (text == level).astype(float))
            for level in self._levels(column)
        }


def tell_new_levels(values: pd.Series, column: Column, consequence: str) -> None:
    """Warn of levels that training did not show."""
    if new := _new_levels(values, column):
        warnings.warn(f"{new}; {consequence}.", DataWarning, stacklevel=4)


def refuse_new_levels(values: pd.Series, column: Column) -> None:
    """Without a prior nothing is known of a level that training did not show; zeros would mean the first level."""
    if new := _new_levels(values, column):
        raise TableError(
            f"{new}; without a prior nothing is known of them. Fit with a prior, or leave these cells empty."
        )


def _new_levels(values: pd.Series, column: Column) -> str:
    present = cells(values).dropna()
    new = present[~present.isin(column.levels)]
    if not len(new):
        return ""
    return (
        f"Column {column.name!r} has levels that were not in the training table: "
        f"{shortened(sorted(set(new)), show=repr)} ({len(new)} of {len(values)} rows)"
    )


def check_sources(frame: pd.DataFrame, sources: tuple[str, ...]) -> None:
    """The columns that a model needs are there."""
    check_sources_named([str(name) for name in frame.columns], sources)


def check_sources_named(present: Sequence[str], sources: tuple[str, ...]) -> None:
    """The columns that a model needs are among those of a table."""
    lacking = [name for name in sources if name not in present]
    if not lacking:
        return
    near = [(name, close_names(name, present, 1)) for name in lacking]
    hints = "".join(f" Is {names[0]!r} what the model calls {name!r}?" for name, names in near if names)
    raise TableError(
        f"The table lacks {len(lacking)} of the {len(sources)} columns that the model was fitted on: "
        f"{shortened(lacking, show=repr)}.{hints}"
    )
