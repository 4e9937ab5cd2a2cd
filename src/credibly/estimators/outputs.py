"""Tables of predictions: their columns, and the way into a file without holding all rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import Block, MemoryRows, OutOfCoreRows, Rows
from credibly.errors import InputError, NotDefinedError
from credibly.estimators.not_in_memory import is_stored
from credibly.estimators.stored import as_in_fit, lazy_rows, read_names
from credibly.estimators.validation import canonical, read_numbers
from credibly.inference.gaussian import normal_quantile
from credibly.numerics.arrays import AnyArray, Array

BLOCK_NUMBERS = 1_000_000  # in a block of rows in memory whose predictions are written


def output_names(classes: AnyArray, level: float | None) -> list[str]:
    """The columns of a table of predictions."""
    labels = [str(label) for label in classes]
    names = ["prediction", *(f"p_{label}" for label in labels)]
    if level is None:
        return names
    if len(labels) == 2:
        return [*names, "lower", "upper"]
    return [*names, *(f"{side}_{label}" for label in labels for side in ("lower", "upper"))]


def outputs(model: Any, X: Any, level: float | None) -> Array:
    """Probabilities, and intervals where they are asked for, side by side."""
    proba: Array = np.exp(model.predict_log_proba(X))
    if level is None:
        return proba
    if not hasattr(model, "predict_interval"):
        raise NotDefinedError(f"{type(model).__name__} has no intervals; ask for level=None.")
    return np.hstack([proba, model.predict_interval(X, level=level).reshape(len(proba), -1)])


def class_table(model: Any, X: Any, level: float | None) -> dict[str, AnyArray]:
    """Predictions of a classifier by the names of their columns."""
    names, values = output_names(model.classes_, level), outputs(model, X, level)
    prediction = model.classes_[values[:, : len(model.classes_)].argmax(axis=1)]
    return {"prediction": np.asarray(prediction), **dict(zip(names[1:], values.T, strict=True))}


def mean_table(model: Any, X: Any, level: float | None, offset: Array | None = None) -> dict[str, AnyArray]:
    """Predictions of a regression by the names of their columns."""
    table = {"prediction": np.asarray(model.predict(X, offset=offset))}
    return (
        table
        if level is None
        else table | dict(zip(("lower", "upper"), model.predict_interval(X, level, offset=offset).T, strict=True))
    )


class PredictToMixin:
    """Predictions of any number of rows into a file."""

    _table_of: Callable[..., dict[str, AnyArray]] = staticmethod(class_table)

    def predict_to(
        self, rows: ArrayLike | OutOfCoreRows, path: str | Path, *, level: float | None = 0.9, overwrite: bool = False
    ) -> int:
        """Predict rows as they are read, and write them as they are predicted.

        Columns: ``prediction``, ``p_<label>`` of every class, ``lower``, ``upper`` of P(`classes_[1]`) (more classes:
        ``lower_<label>``, ``upper_<label>``); of a regression ``prediction``, ``lower``, ``upper``. Rows that lack a
        cell the model needs are empty. The file appears when it is whole.

        Parameters
        ----------
        rows : ParquetRows, Dask array or frame, or (n, d) array or data frame
            With the columns of the fit. A target is not read.
        path : path
            ``.parquet``, ``.csv`` or ``.csv.gz``.
        level : float or None
            Mass of the intervals; None writes none.
        overwrite : bool
            Whether a file of that name may be replaced.

        Returns
        -------
        int
            How many rows were written.

        Examples
        --------
        >>> from credibly import BayesianLogisticRegression
        >>> model = BayesianLogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.predict_to([[0.5], [2.5]], pathlib.Path(folder, "out.csv"))
        2
        """
        try:
            from credibly.data.table_files import suffix_of, write_table
        except ModuleNotFoundError as error:
            raise ImportError("predict_to needs pyarrow: pip install 'credibly[data]'") from error

        check_is_fitted(self)
        suffix_of(path)  # errors before anything is read
        if level is not None:
            normal_quantile(level)
        alone = copy(self)
        vars(alone)["n_jobs"] = 1  # blocks are predicted side by side already,
        vars(alone)["_told_names"] = vars(alone).pop("feature_names_in_", None)  # and their columns have been compared
        predict = partial(_predicted, model=alone, level=level)
        source = _rows_to_predict(self, rows)
        _refuse_own_input(source, path)
        if not source.n_rows:
            return write_table(path, [_no_rows(alone, level)], overwrite=overwrite)
        with closing(source.each(predict)) as tables:  # its threads end with it, come what may
            return write_table(path, tables, overwrite=overwrite)


def _rows_to_predict(model: Any, rows: Any) -> Rows:
    if isinstance(rows, str | os.PathLike):
        raise InputError(
            f"rows is the path {os.fspath(rows)!r}; expected rows. For Parquet files: "
            f"predict_to(ParquetRows({os.fspath(rows)!r}), path)."
        )
    if is_stored(rows):
        source = as_in_fit(model, rows if isinstance(rows, OutOfCoreRows) else lazy_rows(rows))
        if source.with_offsets and model._table_of is class_table:
            raise InputError("This model takes no offsets: leave out offset=.")
        read_names(model, source, reset=False)
        found: Rows = source
        return found
    X = canonical(read_numbers(model, rows, reset=False))
    return MemoryRows(X, np.zeros(X.shape[0])).in_blocks(max(1, BLOCK_NUMBERS // max(1, X.shape[1])))


def _refuse_own_input(rows: Rows, path: str | Path) -> None:
    """Refuse to write predictions over a file that they are made from."""
    read = [file.path.resolve() for file in getattr(rows, "files", ())]
    if Path(path).resolve() in read:
        raise InputError(f"{os.fspath(path)} is one of the files that are predicted; write to another file.")


def _predicted(block: Block, model: Any, level: float | None) -> dict[str, AnyArray]:
    """The predictions of a block; masked where a row lacks a cell that the model needs."""
    X = block.X
    if isinstance(X, np.ndarray) and not model.__sklearn_tags__().input_tags.allow_nan:
        whole: AnyArray = np.asarray(np.isfinite(X).all(axis=1))
        if not whole.all():
            return _spread(_table(model, block, level, whole) if whole.any() else {}, whole, model, level)
    try:
        return _table(model, block, level, slice(None))
    except InputError as error:
        raise InputError(f"{block.where}: {error}") from error


def _table(model: Any, block: Block, level: float | None, kept: AnyArray | slice) -> dict[str, AnyArray]:
    beside = {} if block.offset is None else {"offset": block.offset[kept]}
    return dict(model._table_of(model, block.X[kept], level, **beside))


def _no_rows(model: Any, level: float | None) -> dict[str, AnyArray]:
    """The columns of predictions without a row: those of a row of zeros."""
    one = model._table_of(model, np.zeros((1, model.n_features_in_)), level)
    return {name: values[:0] for name, values in one.items()}


def _spread(found: dict[str, AnyArray], whole: AnyArray, model: Any, level: float | None) -> dict[str, AnyArray]:
    """Predictions of some rows among all: masked elsewhere."""
    if not found:  # no row to see the names and types at: those of a row of zeros
        one = model._table_of(model, np.zeros((1, model.n_features_in_)), level)
        return {name: np.ma.array(np.repeat(values, len(whole)), mask=True) for name, values in one.items()}
    places = np.cumsum(whole) - whole  # of every row among the predictions, where it has one
    places[places == whole.sum()] = 0
    return {name: np.ma.array(values[places], mask=~whole) for name, values in found.items()}
