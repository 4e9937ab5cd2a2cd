"""Columns that say nothing: without values, or with one value in all rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from credibly.errors import DataWarning, InputError
from credibly.estimators.containers import named
from credibly.estimators.mixed_columns import GLANCE, MixedTable, Table, column_of
from credibly.estimators.validation import is_missing
from credibly.model.class_conditionals.gaussian import Gaussian
from credibly.model.class_conditionals.rates import Poisson
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import dense, is_sparse

ENOUGH_ROWS = 30  # to judge a variance by
ODD_RATIO = 4.0  # of variance and mean, either way: no Poisson column of 30 rows comes near (ten standard errors)


def empty_columns(table: Table) -> set[int]:
    """Columns of numbers without any value."""
    if isinstance(table, MixedTable):
        return {j for j, column in enumerate(table.columns) if not column.text and np.isnan(column.values).all()}
    if is_sparse(table) or not np.isnan(table[0]).any():  # a column without values has none in the first row
        return set()
    return set(np.flatnonzero(np.isnan(table).all(axis=0)).tolist())


def constant_columns(table: Table) -> dict[int, float]:
    """Columns of numbers with one value, and that value."""
    if isinstance(table, MixedTable):
        columns = {j: column.values for j, column in enumerate(table.columns) if not column.text}
        found = {j: _only_value(values) for j, values in columns.items()}
    else:
        head = dense(table[:GLANCE])
        with np.errstate(invalid="ignore"):
            varied = ((head != head[0]) & ~np.isnan(head) & ~np.isnan(head[0])).any(axis=0)
        found = {j: _only_value(column_of(table, j).values) for j in np.flatnonzero(~varied).tolist()}
    return {j: value for j, value in found.items() if value is not None}


def _only_value(values: Array) -> float | None:
    present = values[~np.isnan(values)]
    return float(present[0]) if len(present) and (present == present[0]).all() else None


def warn_left_out(names: Sequence[str], columns: Sequence[int], why: str) -> None:
    """Say which columns are not used."""
    if columns:
        message = f"Column {named([names[j] for j in columns])} {why} and is left out of the model."
        warnings.warn(message, DataWarning, stacklevel=2)


def refuse_news(left_out: dict[int, float | None], table: Table, names: Sequence[str]) -> None:
    """Refuse to learn from a column that was left out and has other values now."""
    for j, value in left_out.items():
        values = column_of(table, j).values
        if any(not is_missing(v) and v != value for v in values.tolist()):
            raise InputError(
                f"Column {names[j]!r} was left out of the first fit (no values, or one value only), but varies now. "
                "Fit again on all rows, or give an explicit prior."
            )


def warn_no_counts(
    families: Sequence[object], guessed: Sequence[int], table: Table, codes: Codes, names: Sequence[str]
) -> None:
    """Say which columns "auto" reads as counts although they do not vary as counts do."""
    ratios = {j: _dispersion(column_of(table, j).values, codes) for j in guessed if isinstance(families[j], Poisson)}
    odd = {j: ratio for j, ratio in ratios.items() if not 1 / ODD_RATIO <= ratio <= ODD_RATIO}
    if odd:
        j, ratio = next(iter(odd.items()))
        warnings.warn(
            f"Column {named([names[i] for i in odd])} holds whole numbers and is read as Poisson counts, but does not "
            f"vary like them (in {names[j]!r} the variance within classes is {ratio:.3g} times the mean). Rounded "
            "measurements are no counts: name their family, as in features={'column': 'gaussian'}.",
            DataWarning,
            stacklevel=2,
        )


def _dispersion(values: Array, codes: Codes) -> float:
    """Variance within classes over the mean; 1 where there are too few rows to judge."""
    known = (codes >= 0) & ~np.isnan(values)
    moments = Gaussian().summarise(values[known][:, None], codes[known], None, int(codes.max()) + 1)
    total, mass = moments.weight.sum(), (moments.weight * moments.mean).sum()
    return float(moments.scatter.sum() / mass) if total >= ENOUGH_ROWS and mass > 0 else 1.0
