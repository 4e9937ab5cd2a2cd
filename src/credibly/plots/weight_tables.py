"""The numbers of a fitted model that pictures of its weights show."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

from credibly.diagnostics.inputs import check_level
from credibly.errors import InputError
from credibly.numerics.arrays import Array, Codes
from credibly.plots.asking import last_step

SCORES = {"logit": "log odds", "log": "log of the mean", "identity": "mean"}  # of links


class Table(NamedTuple):
    """One number for each class and column, with an interval."""

    names: list[str]
    classes: list[Any] | None  # None where there is one row of numbers
    mean: Array  # (K, d)
    low: Array | None
    high: Array | None
    title: str
    axis: str
    odds: bool = False  # whether a step of one on the axis multiplies odds by e

    @property
    def by_strength(self) -> Codes:
        """Columns in the order of their largest number, whatever its sign."""
        return np.argsort(-np.abs(self.mean).max(axis=0), kind="stable")


def table_of(model: Any, level: float, *, standardized: bool) -> Table:
    """Coefficients of a linear model, class means of a generative one."""
    check_level(level)
    if not isinstance(standardized, bool | np.bool_):
        raise InputError(f"standardized must be True or False; got {standardized!r}.")
    last = last_step(model)
    if is_linear(last):
        return _coefficients(model, level, standardized=standardized)
    if hasattr(last, "class_prior_"):
        return _class_means(model, level, standardized=standardized)
    refuse(last)


def is_linear(last: Any) -> bool:
    """Whether there is a posterior of weights."""
    return hasattr(getattr(last, "posterior_", None), "determined")


def refuse(last: Any) -> NoReturn:
    """Say why a model has no weights."""
    name = type(last).__name__
    if hasattr(last, "kernel_"):
        raise InputError(
            f"{name} has no coefficients: its score is a function, not a weighted sum of columns. Draw it with "
            "plots.effect or plots.latent_function."
        )
    if not hasattr(last, "summary"):
        raise InputError(f"{name} has neither a posterior of weights nor class means with intervals to be drawn.")
    raise InputError(f"This {name} is not fitted yet: call fit before drawing it.")


def column_names(model: Any, n: int) -> list[str]:
    """Names of the columns that reach the last step."""
    last = last_step(model)
    names = list(last.summary().names)[:n]
    if getattr(model, "steps", None) and len(model.steps) > 1:
        try:
            found = [str(name) for name in model[:-1].get_feature_names_out()]
        except (AttributeError, ValueError):  # a step that does not tell names
            return names
        return found if len(found) == n else names
    return names


def _coefficients(model: Any, level: float, *, standardized: bool) -> Table:
    last = last_step(model)
    posterior = last.posterior_
    K, d = last.fit_.shape.n_outputs, last.fit_.shape.n_features
    scale = posterior.design.columns.scale if standardized else np.ones(d)

    def slopes(weights: Array) -> Array:
        return np.asarray(weights.reshape(K, -1)[:, :d] * scale)

    determined = posterior.determined()
    mean, low, high = (slopes(it) for it in (determined.mean, *determined.interval(level).T))
    score = score_name(last, K)
    step = "one standard deviation" if standardized else "one unit"
    return Table(
        column_names(model, d),
        None if K == 1 else list(last.classes_.tolist()),
        mean,
        low,
        high,
        "Coefficients",
        f"change of the {score}{' ' if K == 1 else chr(10)}for {step} more",
        score == SCORES["logit"],
    )


def score_name(last: Any, n_outputs: int) -> str:
    """What the weights are weights of, in words."""
    link = getattr(getattr(last, "link_", None), "name", None) or getattr(last, "threshold", None)
    if type(last).__name__ == "BayesianLogisticRegression":
        return SCORES["logit"] if n_outputs == 1 else "log odds against the average class"
    if isinstance(link, str):
        return SCORES.get("logit" if link == "logistic" else link, "score")
    return "score" if n_outputs == 1 else "class's score"


def _class_means(model: Any, level: float, *, standardized: bool) -> Table:
    last = last_step(model)
    summary = last.summary(level)
    K = len(summary.classes)
    numbers = {name: np.asarray(values).reshape(K, -1) for name, values in summary.columns.items()}
    center = numbers["mean"].mean(axis=0)
    spread = np.sqrt((numbers["spread"] ** 2).mean(axis=0))
    if standardized and not (spread > 0).all():
        constant = [name for name, s in zip(summary.names, spread, strict=True) if not s > 0]
        raise InputError(
            f"Columns without any spread within classes have no standard deviation to be measured in: {constant[:5]}. "
            "Use standardized=False."
        )
    scale = spread if standardized else np.ones_like(spread)
    mean, low, high = (
        (numbers[name] - center) / scale if name in numbers else None for name in ("mean", "lower", "upper")
    )
    assert mean is not None
    unit = "standard deviations within classes" if standardized else "units of the column"
    return Table(
        list(summary.names),
        list(summary.classes),
        mean,
        low,
        high,
        "Class means",
        f"from the average of classes, {unit}",
    )
