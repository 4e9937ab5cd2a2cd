"""Targets of a regression as a user gives them: counts, proportions, offsets, exposures, checked once."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from credibly.data.rows import LARGEST, SMALLEST, Block, OutOfCoreRows, Rows, add
from credibly.errors import InputError
from credibly.estimators.containers import as_numbers
from credibly.estimators.stored import AnyTraining, StoredTraining, first_pass, read_names
from credibly.estimators.validation import (
    Training,
    canonical,
    check_finite,
    feature_names,
    read_numbers,
    read_weights,
)
from credibly.model.likelihoods.family_base import Family
from credibly.model.likelihoods.links import Link, Log
from credibly.model.likelihoods.proportions import Binomial
from credibly.numerics.arrays import AnyArray, Array


class Targets(NamedTuple):
    """Training rows, and what the log-likelihood has that does not depend on the weights."""

    training: AnyTraining
    log_constant: float  # binomial coefficients


def read_targets(
    estimator: BaseEstimator,
    family: Family,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    offset: Array | None,
    *,
    reset: bool = True,
) -> Targets:
    """Columns, targets, weights and offsets of a training table, or an error that says what to change."""
    y = as_numbers(y)
    table, y = read_numbers(estimator, X, y, reset=reset, y_numeric=True, multi_output=isinstance(family, Binomial))
    X = canonical(table)
    weight = read_weights(sample_weight, X)
    if not np.isfinite(y).all():
        bad = np.flatnonzero(~np.isfinite(y if y.ndim == 1 else y.sum(axis=1)))
        raise InputError(f"y contains NaN or infinity in {len(bad)} rows, the first in row {bad[0]}; drop those rows.")
    constant = 0.0
    if isinstance(family, Binomial):
        y, weight, constant = _proportions(family, y, weight)
    else:
        family.check_targets(y)
    _check_magnitude(y)
    if offset is not None:
        offset = _for_all_rows(offset, len(y))
    if weight is not None and not weight.all():
        check_finite(X, feature_names(estimator))
    return Targets(Training(X, y, weight, offset), constant)


def read_stored_targets(
    estimator: BaseEstimator, family: Family, rows: Rows, source: OutOfCoreRows, *, reset: bool = True
) -> Targets:
    """Columns and targets of rows that are not in memory, in one pass, or an error that names the place."""
    read_names(estimator, source, reset=reset)
    names = source.names
    rows = rows.with_progress(getattr(estimator, "verbose", False)).encoded(_as_floats)
    columns, n_counted, (constant,) = first_pass(rows, names, partial(_block_constant, family=family), add)
    training = StoredTraining(rows, len(names), n_counted, sparse=False, columns=columns)
    return Targets(training, float(constant))


def _as_floats(y: AnyArray) -> AnyArray:
    if y.dtype.kind in "mM":
        raise InputError(f"The target holds dates or times ({y.dtype}); turn it into numbers, e.g. days since a start.")
    text = y.dtype.kind in "USc" or (y.dtype == object and any(isinstance(it, str | bytes) for it in y))
    try:
        if text:  # also where it reads like a number
            raise TypeError(f"{y[0]!r}, of type {y.dtype}")
        return np.asarray(y, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"The target holds what is no number ({error}); for labels use a classifier.") from error


def _block_constant(block: Block, family: Family) -> tuple[float]:
    """Check the targets of a block; log binomial coefficients."""
    y = np.asarray(block.y, dtype=float)
    try:
        if not np.isfinite(y).all():
            first = block.start.describe(int(np.argmin(np.isfinite(y))))
            raise InputError(f"the target is NaN, missing or infinite in some rows, first in {first}; drop those.")
        _check_magnitude(y)
        if isinstance(family, Binomial):
            return (_proportions(family, y, block.weight)[2],)
        family.check_targets(y)
    except InputError as error:
        raise InputError(f"{block.where}: {error}") from error
    return (0.0,)


def _check_magnitude(y: Array) -> None:
    """Refuse targets whose squares, or cubes, leave floating point."""
    size = np.abs(y)
    extreme = (size > LARGEST) | ((size < SMALLEST) & (size > 0))
    if extreme.any():
        raise InputError(
            f"y has {int(extreme.sum())} values beyond 1e100 or nearer to zero than 1e-100, the first in row "
            f"{int(np.flatnonzero(extreme)[0])}: their variances cannot be represented. Change the unit of the target."
        )


def _proportions(family: Binomial, y: Array, weight: Array | None) -> tuple[Array, Array, float]:
    """Successes and failures, or proportions of `weight` trials, as proportions, trials and log coefficients."""
    if y.ndim == 2:
        if y.shape[1] != 2:
            raise InputError(f"Binomial targets are (n, 2), successes and failures, or proportions; got {y.shape}.")
        if (y < 0).any():
            row = int(np.flatnonzero((y < 0).any(axis=1))[0])
            raise InputError(
                f"Numbers of successes and failures must not be negative; row {row} has {y[row].tolist()}. (The second "
                "column is of failures, not of totals.)"
            )
        totals = y.sum(axis=1)
        empty = totals == 0
        successes = y[:, 0]
        y = np.divide(successes, totals, out=np.zeros_like(totals), where=~empty)
        family.check_totals(y, totals)
        repeat = np.ones_like(totals) if weight is None else weight
        return y, totals * repeat, float(repeat @ family.log_coefficients(y, totals))
    totals = np.ones_like(y) if weight is None else weight
    family.check_targets(y)
    family.check_totals(y, totals)
    return y, totals, float(family.log_coefficients(y, totals).sum())


def read_offset(
    link: Link, offset: ArrayLike | None, exposure: ArrayLike | None, *, n_rows: int | None = None
) -> Array | None:
    """What is added to the scores: an offset, or the logarithm of an exposure."""
    if offset is None and exposure is None:
        return None
    total: Array | float = 0.0 if offset is None else _numbers(offset, "offset")
    if exposure is not None:
        if not isinstance(link, Log):
            raise InputError(
                f"exposure multiplies the mean, which is an offset for the log link only; this is {link.name}."
            )
        time = _numbers(exposure, "exposure")
        if not (time > 0).all():
            raise InputError(
                f"exposure must be positive; row {int(np.flatnonzero(np.atleast_1d(time) <= 0)[0])} is not."
            )
        total = total + np.log(time)
    shift = np.asarray(total)
    return shift if n_rows is None else _for_all_rows(shift, n_rows)


def _for_all_rows(shift: Array, n_rows: int) -> Array:
    if shift.ndim == 0:
        return np.full(n_rows, float(shift))
    if len(shift) != n_rows:
        raise InputError(f"offset (or exposure) has {len(shift)} entries for {n_rows} rows.")
    return shift


def _numbers(values: ArrayLike, what: str) -> Array:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be one number per row, or one for all; got {values!r:.60}.") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim > 1:
        raise InputError(f"{what} must be one number per row, or one for all; got shape {array.shape}.")
    good = np.atleast_1d(np.abs(array) <= LARGEST)
    if not good.all():
        raise InputError(f"{what} must be finite, and at most 1e100 in size; row {int(np.argmin(good))} is not.")
    return array
