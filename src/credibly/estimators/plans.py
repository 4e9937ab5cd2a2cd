"""How a table becomes numbers for a generative model, and which family describes them: fixed by the first fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from credibly.data.rows import LARGEST, SMALLEST
from credibly.errors import InputError
from credibly.estimators.containers import named
from credibly.estimators.left_out import constant_columns, empty_columns, refuse_news, warn_left_out
from credibly.estimators.mixed_columns import GLANCE, Column, MixedTable, Table, column_of, read_table
from credibly.estimators.validation import canonical, feature_names, read_numbers
from credibly.model.class_conditionals.base import ClassConditional, Prior
from credibly.model.class_conditionals.columns import cells
from credibly.model.class_conditionals.multivariate import FullGaussian, with_columns, without_columns
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import DesignMatrix

Statistics = Any


class Plan(ABC):
    """What a first fit decides about the columns."""

    family: ClassConditional[Any]
    names: list[str]

    @abstractmethod
    def encode(self, table: Table) -> DesignMatrix:
        """The table as numbers that the family reads, checked."""

    def to_predict(self, table: Table) -> DesignMatrix:
        """The table as numbers to predict from."""
        return self.encode(table)

    def prior(self, prior: Prior) -> Prior:
        """A prior of all columns as one of the columns used."""
        return prior

    def full_prior(self, prior: Prior) -> Prior:
        """A prior of the columns used as one of all columns."""
        return prior

    def grown(self, table: Table, statistics: Statistics) -> tuple[Plan, Statistics]:
        """The plan after rows with levels that are new, and the statistics it would have given."""
        return self, statistics

    def shrunk(self, statistics: Statistics) -> tuple[Plan, Statistics]:
        """The plan without levels that no row has any more."""
        return self, statistics

    def joined(self, other: Plan, mine: Statistics, theirs: Statistics) -> tuple[Plan, Statistics, Statistics]:
        """One plan for both models, and their statistics under it."""
        return self, mine, theirs

    def decode(self, X: Array) -> AnyArray:
        """Numbers as what they stand for."""
        return X

    @property
    def kinds(self) -> list[str]:
        """The name of each column's family."""
        return ["gaussian"] * len(self.names)

    def row_names(self) -> list[str]:
        """Names of the rows of a summary, in the order of the family's quantities."""
        return [self.names[j] for j in self.family.row_columns(len(self.names)).tolist()]


# --- Gaussian columns that depend on each other -----------------------------------------------------------------


@dataclass(frozen=True)
class GaussianPlan(Plan):
    """Numbers only; columns without any value, or of one value, may be left out."""

    family: FullGaussian
    all_names: list[str]
    used: Codes
    left_out: dict[int, float | None]  # the one value of a column, None for none

    @property
    def names(self) -> list[str]:  # type: ignore[override]  # derived here
        """Of the columns used."""
        return [self.all_names[j] for j in self.used.tolist()]

    @classmethod
    def of(cls, family: FullGaussian, table: DesignMatrix, names: list[str], *, drop_constant: bool) -> GaussianPlan:
        """Find out which columns can be used."""
        empty = empty_columns(table)
        if len(empty) == len(names):
            raise InputError("X has no values: every cell is missing (NaN).")
        constant = constant_columns(table) if drop_constant and not family.shared else {}
        used = [j for j in range(len(names)) if j not in empty and j not in constant]
        if not used:
            raise InputError(
                "X is constant: no column has more than one value, and a covariance in every class needs one that has."
            )
        warn_left_out(names, list(empty), "has no values")
        warn_left_out(names, list(constant), "has one value only")
        return cls(family, names, np.array(used), dict.fromkeys(empty) | constant)

    def encode(self, table: Table) -> DesignMatrix:
        """The columns used."""
        assert not isinstance(table, MixedTable)  # read as numbers
        return table[:, self.used] if self.left_out else table

    def grown(self, table: Table, statistics: Statistics) -> tuple[Plan, Statistics]:
        """The same plan; a column that was left out cannot be taken up."""
        refuse_news(self.left_out, table, self.all_names)
        return self, statistics

    def joined(self, other: Plan, mine: Statistics, theirs: Statistics) -> tuple[Plan, Statistics, Statistics]:
        """The same plan, if both left out the same columns."""
        if not isinstance(other, GaussianPlan) or list(self.left_out) != list(other.left_out):
            raise InputError("The models have left out different columns (without values, or constant); fit them anew.")
        return self, mine, theirs

    def decode(self, X: Array) -> AnyArray:
        """With the columns that were left out."""
        table = np.empty((len(X), len(self.all_names)))
        table[:, self.used] = X
        for j, value in self.left_out.items():
            table[:, j] = np.nan if value is None else value
        return table

    def prior(self, prior: Prior) -> Prior:
        """The prior of the columns used."""
        return without_columns(prior, self.used, len(self.all_names))

    def full_prior(self, prior: Prior) -> Prior:
        """With mean zero and variance one for columns that are left out; their part is integrated out again."""
        return with_columns(prior, self.used, len(self.all_names))

    @property
    def kinds(self) -> list[str]:
        """Gaussian, or left out."""
        return ["constant" if j in self.left_out else "gaussian" for j in range(len(self.all_names))]


# --- reading ----------------------------------------------------------------------------------------------------


def read_generative(estimator: BaseEstimator, X: Any, *, mixed: bool, reset: bool) -> Table:
    """A table as the estimator takes it; missing cells pass, infinity does not."""
    table = read_table(estimator, X, reset=reset) if mixed else canonical(read_numbers(estimator, X, reset=reset))
    if isinstance(table, MixedTable):
        numbers = [column.values for column in table.columns if not column.text]
        extremes = [np.nanmax(np.abs(v), initial=0.0) for v in numbers]
        bad = [
            name
            for name, e in zip(
                [n for n, c in zip(table.names, table.columns, strict=True) if not c.text], extremes, strict=True
            )
            if e > LARGEST
        ]
    else:
        _refuse_sparse_gaps(table, feature_names(estimator))
        bad = _too_large(table, feature_names(estimator))
    if bad:
        raise InputError(
            f"X has infinity (inf), or values beyond 1e100, in column {named(bad)}: their squares cannot be "
            "represented. Drop those rows, or change the unit; a missing cell is NaN."
        )
    if reset:
        _refuse_tiny(table, feature_names(estimator))
    return table


def _refuse_sparse_gaps(table: DesignMatrix, names: list[str]) -> None:
    if isinstance(table, csr_array) and np.isnan(table.data).any():
        bad = np.asarray(names)[np.unique(table.indices[np.isnan(table.data)])]
        raise InputError(
            f"X is sparse and has NaN in column {named(bad)}: missing cells are taken in dense tables only. Use "
            "X.toarray() if it fits into memory, or drop those rows."
        )


def _refuse_tiny(table: Table, names: list[str]) -> None:
    """Refuse columns that vary by so little that variances underflow."""
    bad = [names[j] for j in _doubtful(table) if _tiny(column_of(table, j))]
    if bad:
        refuse_tiny(bad)


def refuse_tiny(names: Any) -> NoReturn:
    """Tell that these columns vary by too little."""
    raise InputError(
        f"X has values that differ by less than 1e-100 in column {named(names)}: variances of that size cannot be "
        "represented. Change the unit of the column."
    )


def _doubtful(table: Table) -> list[int]:
    """Columns that may be such; most are seen at a glance to vary by more."""
    if isinstance(table, MixedTable):
        return [j for j, column in enumerate(table.columns) if not column.text]
    if isinstance(table, csr_array):
        return list(np.unique(table.indices[np.abs(table.data) < SMALLEST]))
    head = table[:GLANCE]
    return list(np.flatnonzero(~(np.fmax.reduce(head) - np.fmin.reduce(head) >= SMALLEST)))


def _tiny(column: Column) -> bool:
    present = column.values[~np.isnan(column.values)]
    return bool(len(present)) and 0 < float(present.max()) - float(present.min()) < SMALLEST


def _too_large(table: DesignMatrix, names: list[str]) -> list[str]:
    numbers = cells(table)
    if _sum_of_squares(numbers) <= LARGEST**2:  # then no cell is beyond it; NaN, and overflow, take the slow way
        return []
    if isinstance(table, csr_array):
        return [names[j] for j in np.unique(table.indices[np.abs(numbers.astype(float)) > LARGEST])]
    extremes = [float(np.nanmax(np.abs(table[:, j]), initial=0.0)) for j in range(table.shape[1])]
    return [name for name, extreme in zip(names, extremes, strict=True) if extreme > LARGEST]


def _sum_of_squares(numbers: Array) -> float:
    """In one pass, without a copy where the memory is in one piece."""
    flat = numbers.reshape(-1, order="A") if numbers.flags.forc else np.array([np.inf])
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.dot(flat, flat))
