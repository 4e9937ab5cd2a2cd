"""What families of independent columns share: additive sums, one prior per column, cells that are skipped.

A column family handles all of its columns at once: statistics are (K, d) arrays, densities sum over columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from credibly.errors import InputError
from credibly.model.class_conditionals.base import Beliefs, ClassConditional, Divisor, Prior, Sums
from credibly.model.class_conditionals.statistics import group_sums
from credibly.model.conjugate_priors import ConjugatePrior
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import DesignMatrix, is_sparse


class ColumnFamily(ClassConditional[Sums]):
    """Independent columns of one kind; statistics are (K, d) arrays."""

    name: str
    """What `features=` calls it."""

    joint: bool = False
    """Whether the columns have one distribution together, so that columns of a list are collected."""

    @abstractmethod
    def empirical_prior(self, pooled: Sums) -> list[ConjugatePrior]:
        """One weak prior for each column."""

    @abstractmethod
    def posterior(self, statistics: Sums, prior: Prior) -> Beliefs[Sums]:
        """What is believed of the parameters of every class and column."""

    @abstractmethod
    def plug_in(self, statistics: Sums, divisor: Divisor) -> Any:
        """Densities at the estimated parameters."""

    def n_parameters(self, statistics: Sums) -> int:
        return int(statistics.arrays()[0].size)


def one_each(prior: Prior, kind: type | tuple[type, ...], n_columns: int, expected: str) -> list[Any]:
    """A prior for every column: one for all, or a list with one each, of the right kind."""
    given = list(prior) if isinstance(prior, Sequence) else [prior] * n_columns
    if len(given) != n_columns:
        raise InputError(f"prior has {len(given)} entries for {n_columns} columns; give one, or one for each column.")
    wrong = next((item for item in given if not isinstance(item, kind)), None)
    if wrong is not None:
        raise InputError(f"The prior of these columns is {expected}; got {wrong!r}.")
    return given


def per_column(prior: Any, names: Sequence[str], d: int) -> Array:
    """The numbers of a prior for so many columns: one for all, or one for each, (len(names), d)."""
    rows = []
    for name in names:
        values = np.asarray(getattr(prior, name), dtype=float)
        if values.shape not in {(), (1,), (d,)}:
            raise InputError(
                f"{name} of {type(prior).__name__} has shape {values.shape} for {d} columns; give one number, or one "
                "for each column."
            )
        rows.append(np.broadcast_to(values, (d,)))
    return np.array(rows)


def observed(X: DesignMatrix) -> AnyArray | None:
    """Which cells were observed, None for all; a zero that a sparse table does not store was."""
    if is_sparse(X):
        return None
    missing: AnyArray = np.isnan(X)
    return ~missing if missing.any() else None


def cell_weights(member: csc_array, seen: AnyArray | None, n_columns: int) -> Array:
    """Weight of the observed cells of every class and column, (K, d)."""
    if seen is not None:
        return group_sums(member, seen.astype(float))
    return np.repeat(np.asarray(member.sum(axis=1), dtype=float)[:, None], n_columns, axis=1)


def not_counts(numbers: Array) -> AnyArray:
    """Which numbers are negative, or not whole; missing cells are neither."""
    return np.asarray((numbers < 0) | ((numbers != np.floor(numbers)) & ~np.isnan(numbers)))


def zero_filled(X: DesignMatrix, seen: AnyArray | None) -> DesignMatrix:
    """Rows in which missing cells are zeros, so that sums skip them."""
    return X if seen is None else np.where(seen, X, 0.0)


def refuse_values(X: DesignMatrix, bad: AnyArray, names: Sequence[str], expected: str) -> None:
    """Raise, naming columns and the first row, if any cell is outside a support."""
    if not bad.any():
        return
    if isinstance(X, csr_array):
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[bad]
        first, column, value, columns = rows[0], X.indices[bad][0], X.data[bad][0], np.unique(X.indices[bad])
    else:
        first = int(np.flatnonzero(bad.any(axis=1))[0])
        column = int(np.flatnonzero(bad[first])[0])
        value, columns = X[first, column], np.flatnonzero(bad.any(axis=0))
    more = f" (and {len(columns) - 1} more columns have such values)" if len(columns) > 1 else ""
    raise InputError(f"{expected}; column {names[column]!r} has {value:g} in row {first}{more}.")


def cells(X: DesignMatrix) -> Array:
    """The numbers of a table: all cells, or those that are stored."""
    return np.asarray(X.data if is_sparse(X) else X)
