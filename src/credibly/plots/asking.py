"""What a fitted model says about rows: asked by the names of its methods, whatever its class.

A pipeline is asked through its last step where it lacks the method itself, and so is a model with a table's design
(`credibly.tables`): their rows are turned into columns first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from credibly.diagnostics.inputs import check_level
from credibly.errors import InputError
from credibly.numerics.arrays import Array, Codes


class Said(NamedTuple):
    """Probabilities of some rows, or the mean of a target that is no label, with a credible interval."""

    mean: Array  # (n, K)
    low: Array | None  # (n, K); None where the model has no interval
    high: Array | None


def last_step(model: Any) -> Any:
    """The estimator itself: what ends a pipeline, or stands behind the design of a table."""
    if getattr(model, "steps", None):
        return last_step(model.steps[-1][1])
    return last_step(model.model) if hasattr(model, "design") and hasattr(model, "model") else model


def inside(model: Any, X: Any) -> tuple[Any, Any]:
    """A model one layer further in, and the rows as they reach it."""
    if getattr(model, "steps", None):
        return model.steps[-1][1], model[:-1].transform(X) if len(model.steps) > 1 else X
    return model.model, model.matrix(X)


def can(model: Any, method: str) -> bool:
    """Whether a model, or what is inside it, has a method."""
    return hasattr(model, method) or (last_step(model) is not model and hasattr(last_step(model), method))


def ask(model: Any, method: str, X: Any, *arguments: Any, **choices: Any) -> Any:
    """Call a method with these rows, where it is found first."""
    while not hasattr(model, method):
        model, X = inside(model, X)
    return getattr(model, method)(X, *arguments, **choices)


def needs(model: Any, method: str, what: str) -> None:
    """Refuse a model without a method."""
    if not can(model, method):
        raise InputError(f"{what}; {type(last_step(model)).__name__} has no {method}.")


def classes_of(model: Any) -> list[Any] | None:
    """The classes, or None for a model of a target that is no label."""
    needs(model, "fit", "model must be a fitted estimator")
    if not hasattr(last_step(model), "predict_proba"):
        needs(
            model, "predict_interval", "A picture of probabilities needs predict_proba (or predict_interval of a GLM)"
        )
        return None
    for it in (model, last_step(model)):
        if hasattr(it, "classes_"):
            return list(np.asarray(it.classes_).tolist())
    raise InputError(f"This {type(last_step(model)).__name__} is not fitted yet: call fit before drawing it.")


def has_interval(model: Any) -> bool:
    """Whether probabilities have intervals: estimates of parameters have none."""
    return can(model, "predict_interval") and getattr(last_step(model), "parameters", "integrated") == "integrated"


def probabilities(model: Any, X: Any, level: float, *, band: bool = True) -> Said:
    """What the model says of every row, all classes."""
    check_level(level)
    if classes_of(model) is None:
        mean = np.asarray(ask(model, "predict", X), dtype=float)[:, None]
    else:
        mean = np.asarray(ask(model, "predict_proba", X), dtype=float)
    if not band or not has_interval(model):
        return Said(mean, None, None)
    limits = np.asarray(ask(model, "predict_interval", X, level), dtype=float)
    if limits.ndim == 3:
        return Said(mean, limits[..., 0], limits[..., 1])
    low, high = limits.T
    if mean.shape[1] == 1:
        return Said(mean, low[:, None], high[:, None])
    # Of two classes the interval is that of the second; the first has what is left.
    return Said(mean, np.column_stack([1 - high, low]), np.column_stack([1 - low, high]))


def asked_classes(classes: list[Any], label: Any) -> list[int]:
    """Numbers of the classes to draw: the one asked for, the second of two, else all."""
    if label is None:
        return [1] if len(classes) == 2 else list(range(len(classes)))
    if label not in classes:
        raise InputError(f"label={label!r} is none of the classes {classes}.")
    return [classes.index(label)]


def codes_of(y: Any, classes: list[Any], n_rows: int) -> Codes:
    """Labels as numbers of their classes."""
    given = np.asarray(y)
    if given.shape != (n_rows,):
        raise InputError(f"y must have one label for each of the {n_rows} rows; got shape {given.shape}.")
    place = {label: k for k, label in enumerate(classes)}
    unknown = [label for label in dict.fromkeys(given.tolist()) if label not in place]
    if unknown:
        raise InputError(f"y has labels that the model does not know: {unknown[:5]}; its classes are {classes}.")
    return np.array([place[label] for label in given.tolist()], dtype=np.intp)
