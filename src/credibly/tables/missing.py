"""Cells that are missing in a table: which models take them, and what else can be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credibly.errors import InputError, TableError
from credibly.estimators.generative import GenerativeClassifier, LinearDiscriminant, NaiveBayes, QuadraticDiscriminant
from credibly.tables.columns import Column, cells, numbers
from credibly.wording import shortened

if TYPE_CHECKING:
    import pandas as pd

POLICIES = ("refuse", "drop", "impute")
TAKES_MISSING = (LinearDiscriminant, QuadraticDiscriminant, NaiveBayes, GenerativeClassifier)


def takes_missing(model: Any) -> bool:
    """Whether a model integrates missing cells out; one that shrinks its covariances does not."""
    return isinstance(model, TAKES_MISSING) and getattr(model, "shrinkage", None) is None


@dataclass(frozen=True)
class Filling:
    """What stands in for missing cells: a number or a level per column; empty where nothing does."""

    values: tuple[tuple[str, float | str], ...] = ()

    @classmethod
    def of(cls, frame: pd.DataFrame, columns: tuple[Column, ...]) -> Filling:
        """The mean of a number, the commonest level of a category (the first of equals), from the training table."""
        return cls(tuple((column.name, _typical(frame[column.name], column)) for column in columns))

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table with its gaps filled."""
        present = {name: value for name, value in self.values if name in frame.columns}
        gaps = {name: value for name, value in present.items() if frame[name].isna().any()}
        return frame.assign(
            **{name: frame[name].astype(object).where(frame[name].notna(), gaps[name]) for name in gaps}
        )


def _typical(values: pd.Series, column: Column) -> float | str:
    if column.kind == "category":
        return str(cells(values).dropna().mode().iloc[0])
    known = numbers(values, column)
    mean = float(np.nanmean(known))
    return mean if column.kind == "number" else float(mean >= 0.5)


def counts(frame: pd.DataFrame, sources: tuple[str, ...]) -> dict[str, int]:
    """How many cells are missing, by column, where any are."""
    missing = {name: int(frame[name].isna().sum()) for name in sources}
    return {name: n for name, n in missing.items() if n}


def check_policy(policy: Any) -> None:
    """One of the policies, or an error that lists them."""
    if policy not in POLICIES:
        raise InputError(f"missing must be one of {', '.join(map(repr, POLICIES))}; got {policy!r}.")


def refuse(missing: dict[str, int], n_rows: int, n_incomplete: int) -> None:
    """Say which cells are missing, and what can be done about it."""
    listed = shortened([f"{name} ({n})" for name, n in missing.items()])
    raise TableError(
        f"Cells are missing in {n_incomplete} of {n_rows} rows: {listed}. This model needs every cell. Choose one that "
        "takes missing cells as they are (lda, qda, naive-bayes), or say what to do: missing='drop' (--missing drop) "
        f"learns from the {n_rows - n_incomplete} complete rows, missing='impute' (--missing impute) fills in means "
        "and commonest levels."
    )
