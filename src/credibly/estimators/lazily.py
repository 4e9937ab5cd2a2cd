"""Predictions for Dask tables: lazy, one partition at a time, where the partitions are."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from credibly.data.lazy import is_dask
from credibly.data.partitions import Output
from credibly.errors import InputError
from credibly.inference.posterior import Scores
from credibly.numerics.arrays import Array

BY_ROW = ("offset", "exposure")  # arguments that belong to the rows, beside X

Method = TypeVar("Method", bound=Callable[..., Any])


class Outputs(NamedTuple):
    """Several results: the type of the tuple, and the shape of each for one row."""

    kind: Callable[..., Any]
    each: tuple[Output, ...]


def labels(model: Any) -> Output:
    """One label for a row."""
    return Output((), model.classes_.dtype)


def probabilities(model: Any) -> Output:
    """A number for each class."""
    return Output((len(model.classes_),))


def intervals(model: Any) -> Output:
    """Two ends, of each class where there are more than two."""
    K = len(model.classes_)
    return Output((2,) if K == 2 else (K, 2))


def number(model: Any) -> Output:
    """One number for a row."""
    return Output(())


def two_ends(model: Any) -> Output:
    """An interval for a row."""
    return Output((2,))


def latent(n_scores: int) -> Outputs:
    """Mean and variance of one score, or of several together."""
    one, several = (Output(()), Output(())), (Output((n_scores,)), Output((n_scores, n_scores)))
    return Outputs(Scores, one if n_scores == 1 else several)


def lines(model: Any) -> Output:
    """One score for a row, or one for each class."""
    return latent(model._shape.n_outputs).each[0]


def lazily(outputs: Callable[[Any], Output | Outputs]) -> Callable[[Method], Method]:
    """A method of a fitted model that takes Dask tables, too, and is lazy for these; any other table is its own affair.

    The model is copied when the method is called: what is learnt later does not change what was asked for before.

    Parameters
    ----------
    outputs : callable
        What the method returns for one row, told by the fitted model.

    Examples
    --------
    >>> import dask.array as da
    >>> from credibly import LinearDiscriminant
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = LinearDiscriminant().fit(X, [0, 0, 1, 1])
    >>> lazy = model.predict(da.from_array(X, chunks=(2, 1)))
    >>> lazy.shape, lazy.compute()
    ((4,), array([0, 0, 1, 1]))
    """

    def decorate(method: Method) -> Method:
        signature = inspect.signature(method)

        @wraps(method)
        def answer(self: Any, X: Any, *more: Any, **options: Any) -> Any:
            if not is_dask(X):
                return method(self, X, *more, **options)
            _check(self, X)
            given = signature.bind(self, X, *more, **options).arguments
            rest = dict(list(given.items())[2:])
            beside = {name: rest.pop(name) for name in BY_ROW if name in rest}
            by_row = {name: value for name, value in beside.items() if value is not None}
            ask = partial(_ask, model=copy.copy(self), method=method.__name__, rest=rest)
            return _lazy(ask, outputs(self), X, by_row)

        return cast(Method, answer)

    return decorate


def _check(model: Any, X: Any) -> None:
    """What can be refused before anything is computed."""
    check_is_fitted(model)
    if X.ndim != 2 or X.shape[1] != model.n_features_in_:
        shape = "one dimension" if X.ndim == 1 else f"{X.shape[1]} columns"
        raise InputError(
            f"X has {shape}, but {type(model).__name__} was fitted to a table of {model.n_features_in_} columns."
        )


def _ask(X: Any, *, model: Any, method: str, rest: dict[str, Any], **by_row: Any) -> Any:
    return getattr(model, method)(X, **rest, **by_row)


def _lazy(ask: Callable[..., Any], outputs: Output | Outputs, X: Any, by_row: dict[str, Any]) -> Any:
    from credibly.data.dask import columns_of, lazy_array

    if isinstance(outputs, Output):
        return lazy_array(ask, outputs, X, **by_row)
    widths = [int(np.prod(output.shape)) for output in outputs.each]
    packed = lazy_array(partial(_side_by_side, ask), Output((sum(widths),)), X, **by_row)
    starts = np.cumsum([0, *widths])
    return outputs.kind(*(columns_of(packed, int(k), it) for k, it in zip(starts, outputs.each, strict=False)))


def _side_by_side(ask: Callable[..., Any], X: Any, **by_row: Any) -> Array:
    """Several results in one array, so that the work is done once."""
    results = [np.asarray(result) for result in ask(X, **by_row)]
    return np.concatenate([result.reshape(len(result), -1) for result in results], axis=1)
