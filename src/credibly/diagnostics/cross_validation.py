"""Probabilities of rows that a model has not seen: learnt on the other parts of the same table.

Notation
--------
=======  ====================================================  ======
proba    probabilities of the rows that were predicted         (m, K)
base     shares of the classes in the rows that were learnt    (m, K)
rows     which rows of the table those are                     (m,)
=======  ====================================================  ======
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import InputError
from credibly.numerics.arrays import Array, Codes

Predict = Callable[[Any, Any], Array]  # a fitted model and rows in, log p(class | x) out


class CrossValidated(NamedTuple):
    """What models that had not seen a row said of it, and what the shares of the classes alone would have said."""

    rows: Codes  # (m,)
    log_proba: Array  # (m, K)
    base: Array  # (m, K), shares
    folds: int
    warned: tuple[str, ...]  # what the fits warned of

    @property
    def proba(self) -> Array:
        """Probabilities, (m, K)."""
        return np.exp(self.log_proba)


class Rows(NamedTuple):
    """A table, and its labels as they are and as codes."""

    X: Any
    y: Any
    codes: Codes  # (n,)

    def take(self, which: Codes) -> Rows:
        """Some of the rows."""
        return Rows(take_rows(self.X, which), np.asarray(self.y)[which], self.codes[which])


def take_rows(X: Any, which: Codes) -> Any:
    """Rows of an array, a sparse matrix or a frame, by their place."""
    from sklearn.utils import _safe_indexing

    return _safe_indexing(X, which)


def stratified_folds(rng: np.random.Generator, codes: Codes, folds: int) -> Codes:
    """The fold of every row, (n,): each class is shuffled and dealt out, so that folds are alike in their classes.

    A class with a single row is in no fold (-1): without it nothing could be learnt of the class. Of a class with two
    rows or more, no fold has all.

    Examples
    --------
    >>> codes = np.array([0, 0, 0, 0, 1, 1, 2])
    >>> found = stratified_folds(np.random.default_rng(0), codes, 2)
    >>> np.bincount(found[:4]), sorted(found[4:6]), found[6]
    (array([2, 2]), [np.int64(0), np.int64(1)], np.int64(-1))
    """
    found, start = np.full(len(codes), -1), 0
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero(codes == code))
        if len(members) > 1:
            found[members] = (start + np.arange(len(members))) % folds
            start += len(members)  # the next class goes on where this one ended: folds are of nearly equal size
    return found


def stratified_sample(rng: np.random.Generator, codes: Codes, most: int) -> Codes:
    """Rows in the order of the table, about `most` of them, classes in their shares; two of each class at least."""
    if len(codes) <= most:
        return np.arange(len(codes))
    kept = []
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero(codes == code))
        kept.append(members[: max(2, round(most * len(members) / len(codes)))])
    return np.sort(np.concatenate(kept))


def cross_validate(
    model: Any, table: Rows, predict: Predict, *, folds: int, random_state: int, tick: Callable[[], None] | None = None
) -> CrossValidated:
    """Learn clones of a model on all folds but one, and predict that one.

    Parameters
    ----------
    model : estimator
        With `fit`; it is cloned, not changed.
    table : Rows
        Codes are those of all classes that the model has, each present at least twice to be predicted.
    predict : callable
        Takes a fitted clone and rows, gives log p(class | x), (b, K).
    folds : int
        Two or more.
    random_state : int
        Of the dealing of rows.
    tick : callable, optional
        Called after every fold.

    Returns
    -------
    CrossValidated

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> said = cross_validate(
    ...     LogisticRegression(max_iter=1000),
    ...     Rows(X, y, y),
    ...     lambda m, X: m.predict_log_proba(X),
    ...     folds=5,
    ...     random_state=0,
    ... )
    >>> bool((said.proba.argmax(axis=1) == y[said.rows]).mean() > 0.9)
    True
    """
    if folds < 2:
        raise InputError(f"Cross-validation needs two folds or more; got {folds}.")
    n_classes = int(table.codes.max()) + 1
    of_row = stratified_folds(np.random.default_rng(random_state), table.codes, folds)
    rows, logs, base = [], [], []
    warned: dict[str, None] = {}
    for fold in np.unique(of_row[of_row >= 0]):
        asked, learnt = np.flatnonzero(of_row == fold), table.take(np.flatnonzero(of_row != fold))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            said = predict(_learnt(model, learnt), take_rows(table.X, asked))
        warned |= dict.fromkeys(f"{it.category.__name__}: {it.message}" for it in caught)
        share = np.bincount(learnt.codes, minlength=n_classes) / len(learnt.codes)
        rows.append(asked)
        logs.append(said)
        base.append(np.tile(share, (len(asked), 1)))
        if tick is not None:
            tick()
    if not rows:
        raise InputError("Every class has a single row: nothing can be learnt of a class whose only row is left out.")
    return CrossValidated(np.concatenate(rows), np.concatenate(logs), np.concatenate(base), len(rows), tuple(warned))


def _learnt(model: Any, table: Rows) -> Any:
    from sklearn.base import clone

    return clone(model).fit(table.X, table.y)
