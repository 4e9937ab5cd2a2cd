"""Rows that are not in memory, read for models: one pass finds out all that must be known before learning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from credibly._version import __version__
from credibly.data.checkpoint import Checkpoint
from credibly.data.columns import Columns, describe, describe_block, merge_columns
from credibly.data.rows import Block, Code, OutOfCoreRows, Rows, is_dask
from credibly.errors import FileWriteError, InputError, NewClassError
from credibly.estimators.containers import named
from credibly.estimators.validation import (
    LARGEST_LABEL,
    NO_WEIGHT,
    Table,
    Training,
    check_columns,
    check_labels,
    feature_names,
    n_threads,
    refuse_missing_labels,
    refuse_not_finite,
    refuse_one_class,
    sorted_labels,
)
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.priors import Jeffreys
from credibly.numerics.arrays import AnyArray, Codes
from credibly.numerics.linalg import DesignMatrix

UNRECORDED = ("verbose", "n_jobs")  # arguments that change no sum
MOST_LABELS = 1000

Walk = Callable[[Rows], Rows]
Look = tuple[Any, ...]  # what a first pass returns: numbers and arrays, so that it can be written down


class StoredTraining(NamedTuple):
    """Rows as models learn from them, wherever they are."""

    source: Rows
    n_features: int
    n_counted: int
    sparse: bool
    columns: Columns | None  # where a first pass has described them
    table: DesignMatrix | None = None  # where they are in memory after all

    def rows(self, n_jobs: int | None) -> Rows:
        """Rows to walk over."""
        return self.source.on_threads(n_threads(n_jobs))

    def described(self, rows: Rows, names: Sequence[str]) -> Columns:
        """Means, spreads and extremes of the columns, checked."""
        if self.columns is not None:
            check_columns(self.columns, None, names)
            return self.columns
        columns = describe(rows)
        check_columns(columns, self.table, names)
        return columns


class StoredTable(NamedTuple):
    """Training rows whose labels are codes of classes."""

    source: Rows
    classes: AnyArray
    columns: Columns
    n_counted: int
    weight: None = None  # not here: with the rows

    def training(self, likelihood: AnyLikelihood) -> StoredTraining:
        """Rows to learn from, with codes as the likelihood reads them."""
        return self._training(self.source.encoded(_as_numbers) if isinstance(likelihood, Likelihood) else self.source)

    def recoded(self, code: Code) -> StoredTraining:
        """Rows to learn from, with numbers made of the codes."""
        return self._training(self.source.encoded(code))

    def _training(self, rows: Rows) -> StoredTraining:
        return StoredTraining(rows, self.columns.mean.size, self.n_counted, sparse=False, columns=self.columns)


AnyTraining = Training | StoredTraining
AnyTable = Table | StoredTable


def _as_numbers(codes: AnyArray) -> AnyArray:
    return codes.astype(float)


def in_memory(training: AnyTraining) -> Training:
    """Rows that were read from arrays."""
    assert isinstance(training, Training)
    return training


# --- what a user gives ------------------------------------------------------------------------------------------


def stored_rows(X: Any, y: Any, sample_weight: Any, offset: Any = None, *, offsets: bool = False) -> Any:
    """Rows of a source: those of files bring their labels and weights along, Dask's come with them."""
    if is_dask(X):
        if y is None:
            raise InputError("y is missing: a Dask array or frame needs its labels beside it, fit(X, y).")
        return lazy_rows(X, y, sample_weight, offset)
    extra = {"y": y, "sample_weight": sample_weight, "offset": offset}
    given = [name for name, value in extra.items() if value is not None]
    if not X.labelled:
        raise InputError(f"These rows have no target: name its column, {type(X).__name__}(..., target=...).")
    if X.with_offsets and not offsets:
        raise InputError("Offsets belong to a BayesianGLM; this model has no place for them: leave out offset=.")
    if given:
        raise InputError(
            f"{type(X).__name__} has its labels, weights and offsets among its columns: name those there, and leave "
            f"out {', '.join(given)} here."
        )
    return X


def lazy_rows(X: Any, *beside: Any) -> Any:
    """Rows of a Dask array or frame, with labels, weights and offsets where there are any."""
    from credibly.data.dask import DaskRows

    return DaskRows(X, *beside)


def read_names(estimator: BaseEstimator, source: OutOfCoreRows, *, reset: bool) -> None:
    """Keep the names of the columns, or compare them with those of the fit."""
    names = source.names
    if reset:
        estimator.n_features_in_ = len(names)
        vars(estimator).pop("feature_names_in_", None)
        if source.named:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return
    expected = feature_names(estimator)
    if not (source.named and hasattr(estimator, "feature_names_in_")):
        if len(names) != len(expected):
            raise InputError(f"The fit had {len(expected)} columns; these rows have {len(names)}.")
        return
    if names != expected:
        missing, more = ([n for n in a if n not in set(b)] for a, b in ((expected, names), (names, expected)))
        what = f"missing: {named(missing)}" if missing else f"not known: {named(more)}" if more else "another order"
        raise InputError(f"The columns are not those of the fit ({what}); it had {named(expected)}.")


def as_in_fit(estimator: BaseEstimator, source: OutOfCoreRows) -> Any:
    """The same rows with the columns of the fit, in its order, where both have names."""
    if not (source.named and hasattr(estimator, "feature_names_in_")):
        return source
    return source.aligned(feature_names(estimator), getattr(estimator, "_references", {}))


def read_stored(
    estimator: BaseEstimator, rows: Rows, source: OutOfCoreRows, *, classes: ArrayLike | None = None, reset: bool = True
) -> StoredTable:
    """Classes and columns of rows that are not in memory, in one pass, or an error that names the place."""
    read_names(estimator, source, reset=reset)
    rows = rows.with_progress(getattr(estimator, "verbose", False))
    columns, n_counted, (found, counting) = first_pass(rows, source.names, labels_of, joined_labels)
    check_labels(found)
    if classes is None:
        refuse_one_class(counting, updatable=hasattr(estimator, "partial_fit"))
    known = found if classes is None else np.unique(np.asarray(classes))
    new = [label for label in found.tolist() if label not in set(known.tolist())]
    if new:
        raise NewClassError(f"The labels hold {new}, which the model was not built for; it knows {known.tolist()}.")
    return StoredTable(rows.encoded(partial(codes_of, known)), known, columns, n_counted)


def first_pass(
    rows: Rows, names: list[str], read: Callable[[Block], Look], merge: Callable[[Look, Look], Look]
) -> tuple[Columns, int, Look]:
    """Describe the columns, count the rows, and read the labels or targets."""
    n = len(Columns._fields)

    def merged(a: Look, b: Look) -> Look:
        return (*merge_columns(a[:n], b[:n]), a[n] + b[n], *merge(a[n + 1 :], b[n + 1 :]))

    with np.errstate(over="ignore", invalid="ignore"):  # what overflowed shows in the extremes
        found = rows.sum(partial(_look, names=names, read=read), merged)
    refuse_no_weight(found[n])
    return Columns(*found[:n]), int(found[n]), found[n + 1 :]


def refuse_no_weight(n_counted: float) -> None:
    """Some row must count."""
    if not n_counted:
        raise InputError(NO_WEIGHT)


def _look(block: Block, names: list[str], read: Callable[[Block], Look]) -> Look:
    with np.errstate(over="ignore", invalid="ignore"):  # on a worker, too
        columns = Columns(*describe_block(block))
    seen = columns.mean if block.weight is None else block.X  # rows of weight zero are not described
    if not np.isfinite(seen.sum(dtype=np.float64)):
        refuse_not_finite(block.X, names, block.where, block.start)
    return (*columns, float(np.count_nonzero(block.weights)), *read(block))


def labels_of(block: Block) -> Look:
    """The labels, and those among the rows that count."""
    try:
        refuse_missing_labels(block.y, block.start)
    except InputError as error:
        raise InputError(f"{block.where}: {error}") from error
    found = _few(plain_labels(block.y))
    return found, found if block.weight is None else plain_labels(block.y[block.weight > 0])


def plain_labels(y: AnyArray) -> AnyArray:
    """The labels that occur, as numbers or strings where they are held as objects."""
    try:
        labels = sorted_labels(np.asarray(y))[0]
    except TypeError as error:
        raise InputError(f"y mixes labels that cannot be put in order ({error}); use labels of one type.") from error
    if labels.dtype != object or not len(labels):
        return labels
    plain = np.array(labels.tolist())
    if plain.ndim != 1 or plain.dtype == object:
        check_labels(labels)
    return plain


def joined_labels(a: Look, b: Look) -> Look:
    """The labels of both."""
    return tuple(_union(x, y) for x, y in zip(a, b, strict=True))


def _union(a: AnyArray, b: AnyArray) -> AnyArray:
    if not len(a) or not len(b):
        return a if len(a) else b
    if (a.dtype.kind in "US") != (b.dtype.kind in "US"):
        raise InputError(
            f"The labels are of different types in different parts of the data: {a[0]!r} and {b[0]!r}; use one type."
        )
    return _few(np.unique(np.concatenate([a, b])))


def _few(labels: AnyArray) -> AnyArray:
    if len(labels) > MOST_LABELS:
        raise InputError(
            f"The target has more than {MOST_LABELS} labels, such as {labels[0]!r}: is it an identifier, or a number "
            "to be regressed (BayesianGLM)?"
        )
    return labels


def codes_of(classes: AnyArray, y: AnyArray) -> Codes:
    """Labels as codes 0 … K-1 into sorted classes."""
    labels = np.asarray(y)
    whole = labels.dtype.kind in "biu" and classes.dtype.kind in "biu"
    if whole and classes[-1] < LARGEST_LABEL and int(classes[-1]) - int(classes[0]) == len(classes) - 1:
        codes = np.asarray(labels.astype(np.intp) - int(classes[0]))
    else:
        codes = np.searchsorted(classes, labels.astype(classes.dtype))
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(classes):
        raise InputError(f"The labels hold others than {classes.tolist()} now: have the data changed during the fit?")
    return codes


def with_references(estimator: Any, rows: Any, prior: object) -> Any:
    """Without the first level of every category where the prior is flat: all levels would repeat the intercept."""
    estimator._references = {}
    if prior is None or isinstance(prior, Jeffreys):
        rows, estimator._references = rows.without_reference_levels()
    return rows


# --- going on after a stop --------------------------------------------------------------------------------------


def as_it_is(rows: Rows) -> Rows:
    """Rows to be walked without a record."""
    return rows


@contextmanager
def resumable(estimator: BaseEstimator, path: Any) -> Iterator[Walk]:
    """How rows are to be walked: as they are, or with a record of all passes."""
    if path is None:
        yield as_it_is
        return
    if not isinstance(path, str | Path):
        raise InputError(f"resume must be the path of a file, or None; got {path!r}.")
    choices = {name: value for name, value in estimator.get_params(deep=False).items() if name not in UNRECORDED}
    checkpoint = Checkpoint(
        path, {"model": type(estimator).__name__, "parameters": _digest(choices), "version": __version__}
    )
    try:
        yield checkpoint.record
    except FileWriteError:  # a full disk, say: with space the fit goes on from what is recorded
        raise
    except InputError:
        checkpoint.discard()
        raise
    checkpoint.delete()


def _digest(choices: Any) -> str:
    """What the arguments of two estimators that are alike have in common."""
    return sha256(repr(_plain(choices)).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """A value by what it is made of: arrays in full, objects by their attributes, so that no address is in it."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return sorted((str(name), _plain(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "dist") and hasattr(value, "kwds"):  # a frozen distribution of SciPy
        return value.dist.name, _plain(value.args), _plain(value.kwds)
    state = getattr(value, "__dict__", None)
    return (type(value).__name__, _plain(state)) if state else repr(value)


def recorded(training: AnyTraining, walk: Walk, n_jobs: int | None) -> AnyTraining:
    """Rows in memory as they are to be walked; those that are not have been wrapped before the first pass."""
    if walk is as_it_is or isinstance(training, StoredTraining):
        return training
    rows = walk(training.rows(n_jobs))
    return StoredTraining(rows, training.n_features, training.n_counted, training.sparse, None, training.X)
