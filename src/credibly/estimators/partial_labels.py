"""Labels of which some may be missing, as class codes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from credibly.errors import InputError
from credibly.estimators.containers import as_vector
from credibly.estimators.validation import check_labels, is_missing, sorted_labels
from credibly.inference.em import UNLABELLED
from credibly.numerics.arrays import AnyArray, Array, Codes


class Labels(NamedTuple):
    """Class codes, `UNLABELLED` where there is no label, and the labels they stand for."""

    codes: Codes
    classes: AnyArray

    def with_weight(self, weight: Array) -> Labels:
        """Without classes whose rows all have weight zero: those are not there."""
        present = np.unique(self.codes[(weight > 0) & (self.codes != UNLABELLED)])
        moved = np.full(len(self.classes) + 1, UNLABELLED)  # the last entry serves rows without a label
        moved[present] = np.arange(len(present))
        return Labels(moved[self.codes], self.classes[present])


def read_partial_labels(y: Any, marker: Any, n_rows: int, *, some_label: bool = True) -> Labels:
    """Codes into the sorted classes found; None, NaN, pd.NA and the marker are rows without a label."""
    if y is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.")
    labels = _one_dimensional(as_vector(y))
    if len(labels) != n_rows:
        raise InputError(f"y has {len(labels)} labels for {n_rows} rows of X.")
    known = ~_without_label(labels, marker)
    if not known.any() and not some_label:
        return Labels(np.full(n_rows, UNLABELLED, dtype=np.intp), labels[:0])
    if not known.any():
        raise InputError("y has no label at all; at least one row of every class must be labelled.")
    given = labels[known]
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise InputError("Input y contains infinity or a value too large for a label.")
    if given.dtype == object:
        if not any(isinstance(label, list | tuple) for label in given):
            given = np.array(given.tolist())  # strings and numbers get their own type back
        if given.ndim != 1 or (given.dtype.kind in "US" and not all(isinstance(v, str) for v in labels[known])):
            given = labels[known]
    check_labels(given)
    classes, found = sorted_labels(given)
    codes = np.full(n_rows, UNLABELLED, dtype=np.intp)
    codes[known] = found
    return Labels(codes, classes)


def _one_dimensional(y: Any) -> AnyArray:
    if hasattr(y, "isna") and bool(np.any(y.isna())):
        y = np.asarray(y, dtype=object)  # so that whole numbers stay whole beside pandas' NA
    values = y if hasattr(y, "__array__") else np.asarray(y, dtype=None if _uniform(y) else object)
    try:
        return np.asarray(column_or_1d(values, warn=True))
    except ValueError as error:
        raise InputError(str(error)) from error


def _uniform(y: Any) -> bool:
    """Whether a list becomes an array without turning None or numbers into text."""
    return len({type(v) for v in y}) == 1 if isinstance(y, list | tuple) else True


def _without_label(labels: AnyArray, marker: Any) -> AnyArray:
    if labels.dtype == object:
        missing = np.array([is_missing(label) for label in labels.tolist()], dtype=bool)
    elif labels.dtype.kind in "fmM":
        missing = np.isnan(labels)
    else:
        missing = np.zeros(len(labels), dtype=bool)
    if marker is None:
        return missing
    if labels.dtype.kind in "iufb" and isinstance(marker, int | float):
        return np.asarray(missing | (labels == marker))
    marked = [not gone and label == marker for label, gone in zip(labels.tolist(), missing, strict=True)]
    return np.asarray(missing | np.array(marked, dtype=bool))


def read_classes(classes: ArrayLike) -> AnyArray:
    """Classes that somebody names, sorted: labels like any others, each once."""
    try:
        given = np.asarray(classes)
    except ValueError as error:  # lists of different lengths
        raise InputError(f"classes must be a list of labels ({error}).") from error
    if given.ndim != 1 or any(is_missing(label) for label in given.tolist()):
        raise InputError(
            f"classes must be a list of labels, one for each class, none of them missing; got {classes!r:.80}."
        )
    try:
        check_labels(given)
    except InputError as error:
        raise InputError(f"classes={classes!r:.80} cannot be used: {error}") from error
    return np.unique(given)


def refuse_other_classes(classes: AnyArray | None, known: AnyArray) -> None:
    """Classes that are named once more must be those of the first call."""
    if classes is not None and not np.array_equal(classes, known):
        raise InputError(
            f"classes={classes.tolist()} differ from those of the first call, {known.tolist()}; leave them out, or "
            "start again with fit."
        )


def refuse_no_label(label: Any, marker: Any) -> None:
    """One label, and none that stands for a row without one."""
    if np.ndim(label) or _without_label(np.array([label]), marker).any():
        raise InputError(
            f"label must be one label, such as 'other' or 3, that does not mark missing ones; got {label!r}."
        )


def joined_classes(known: AnyArray, found: AnyArray) -> AnyArray:
    """All classes of both, sorted."""
    if not len(found):
        return known
    try:
        kinds = {known.dtype.kind in "US", found.dtype.kind in "US"}
        if len(kinds) > 1 and object not in (known.dtype, found.dtype):
            raise TypeError("text and numbers")
        return np.unique(np.concatenate([known, found]))
    except TypeError as error:
        raise InputError(
            f"The labels {found.tolist()} cannot be put in order with those of the model, {known.tolist()} ({error}); "
            "use labels of one type."
        ) from error


def places(classes: AnyArray, among: AnyArray) -> Codes:
    """For every class of `among`, its place in `classes`, -1 where it has none."""
    index = {label: i for i, label in enumerate(classes.tolist())}
    return np.array([index.get(label, -1) for label in among.tolist()], dtype=np.intp)
