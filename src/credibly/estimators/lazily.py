"""Predictions for Dask tables: lazy, one partition at a time, where the partitions are."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import is_dask
from credibly.errors import InputError

BY_ROW = ("offset", "exposure")  # arguments that belong to the rows, beside X

Method = TypeVar("Method", bound=Callable[..., Any])


def lazily(method: Method) -> Method:
    """A method of a fitted model that takes Dask tables, too, and is lazy for these.

    The model is copied when the method is called: what is learnt later does not change what was asked for before.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from credibly import LinearDiscriminant
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = LinearDiscriminant().fit(X, [0, 0, 1, 1])
    >>> lazy = model.predict(da.from_array(X, chunks=(2, 1)))
    >>> lazy.shape, lazy.compute()
    ((4,), array([0, 0, 1, 1]))
    """
    signature = inspect.signature(method)

    @wraps(method)
    def answer(self: Any, X: Any, *more: Any, **options: Any) -> Any:
        if not is_dask(X):
            return method(self, X, *more, **options)
        from credibly.data.dask import lazy_arrays

        _check(self, X)
        given = signature.bind(self, X, *more, **options).arguments
        rest = dict(list(given.items())[2:])
        beside = {name: rest.pop(name) for name in BY_ROW if name in rest}
        by_row = {name: value for name, value in beside.items() if value is not None}
        return lazy_arrays(partial(_ask, model=copy.copy(self), method=method.__name__, rest=rest), X, **by_row)

    return cast(Method, answer)


def _check(model: Any, X: Any) -> None:
    """Refuse what can be refused before anything is computed."""
    check_is_fitted(model)
    if X.ndim != 2 or X.shape[1] != model.n_features_in_:
        shape = "one dimension" if X.ndim == 1 else f"{X.shape[1]} columns"
        raise InputError(
            f"X has {shape}, but {type(model).__name__} was fitted to a table of {model.n_features_in_} columns."
        )


def _ask(X: Any, *, model: Any, method: str, rest: dict[str, Any], **by_row: Any) -> Any:
    return getattr(model, method)(X, **rest, **by_row)
