"""What a model file says of itself, for people and for `credibly show`: no part of it is needed to make the model."""

import platform
from typing import Any

import numpy as np
import scipy

from credibly._version import __version__
from credibly.persistence.classes import fields_of, name_of
from credibly.tables.formula_safety import quoted

_LONGEST = 200  # characters of a choice
_PLAIN = (type(None), bool, int, float, str)


def about(model: Any) -> dict[str, Any]:
    """Class, columns, classes, data and choices of a model, as JSON."""
    return {
        "class": type(model).__name__,
        "classes": _labels(getattr(model, "classes_", None)),
        "target": getattr(model, "target", None),
        "formula": getattr(getattr(model, "design", None), "formula", None),
        "columns": _columns(model),
        "data": _data(model),
        "notes": [str(it) for it in getattr(model, "notes", ())],
        "parameters": _parameters(model),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Of everything that has a say in what is computed."""
    from importlib.metadata import version

    return {
        "credibly": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": version("scikit-learn"),
    }


def inner(model: Any) -> Any:
    """The estimator inside a model of a table, or at the end of a pipeline."""
    if hasattr(model, "design") and hasattr(model, "model"):
        return inner(model.model)
    steps = getattr(model, "steps", None)
    return inner(steps[-1][1]) if steps else model


def _labels(values: Any) -> list[Any] | None:
    """Labels as JSON has them: text, numbers and booleans as they are, other things as text."""
    if values is None:
        return None
    return [it if _is_json(it) else str(it) for it in np.asarray(values).tolist()]


def _is_json(value: Any) -> bool:
    if type(value) is float:
        return bool(np.isfinite(value))
    return type(value) in (bool, str) or (type(value) is int and abs(value) < 10**19)


# --- columns -----------------------------------------------------------------------------------------------------


def _columns(model: Any) -> list[dict[str, Any]] | None:
    design: Any = getattr(model, "design", None)
    if hasattr(design, "columns"):
        return [_column(it.name, it.kind, it.levels) for it in design.columns]
    if hasattr(design, "kinds"):  # of a formula
        levels = dict(design.levels)
        return [_column(name, kind, levels.get(f"C({quoted(name)})", ())) for name, kind in design.kinds]
    final, n_columns = inner(model), getattr(model, "n_features_in_", None)
    plan: Any = getattr(final, "_plan", None)
    if hasattr(plan, "levels") and final is model:
        known = [() if it is None else it.known for it in plan.levels]
        return [_column(*it) for it in zip(plan.names, plan.kinds, known, strict=True)]
    if n_columns is None:
        return None
    names = getattr(model, "feature_names_in_", None)
    return [_column(f"x{j}" if names is None else names[j], "number") for j in range(n_columns)]


def _column(name: Any, kind: str, levels: Any = ()) -> dict[str, Any]:
    said = {"name": str(name), "type": kind}
    return {**said, "levels": _labels(np.array([*levels, None], dtype=object)[:-1])} if len(levels) else said


# --- data and choices --------------------------------------------------------------------------------------------


def _data(model: Any) -> dict[str, Any]:
    """What is known of the rows that the model has seen: how many, and by what to recognise them."""
    given: Any = getattr(model, "data", None)
    if name_of(type(given)) is not None:  # a table's fingerprint
        return {name: _shown_fact(it) for name, it in fields_of(given).items()}
    final = inner(model)
    posterior: Any = getattr(final, "posterior_", None)
    rows, likelihood = getattr(final, "_n_rows", None), getattr(final, "_fingerprint", None)
    if rows is None and hasattr(posterior, "X"):  # a Gaussian process keeps them
        rows = len(posterior.X)
    return {"rows": rows, "log_likelihood": _shown_fact(likelihood)}


def _shown_fact(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_shown_fact(it) for it in value]
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if plain is None or _is_json(plain) else str(plain)


def _parameters(model: Any) -> dict[str, str]:
    """The choices of an estimator as text."""
    final = inner(model)
    if not hasattr(final, "get_params"):
        return {}
    return {name: _shown(value) for name, value in final.get_params(deep=False).items()}


def _shown(value: Any) -> str:
    """A choice as text; of what may print an address in memory, which is never the same, only the kind."""
    own = type(value) in _PLAIN or (name_of(type(value)) is not None and type(value).__module__.startswith("credibly"))
    return repr(value)[:_LONGEST] if own else type(value).__name__
