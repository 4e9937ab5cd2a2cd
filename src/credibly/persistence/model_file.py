"""Saving and loading models, for every estimator, without ever running what a file says.

*Pickle* (and joblib, which is pickle) rebuilds objects by calling whatever the file names: to open one is to run a
stranger's program. What models here hold is few kinds of values: numbers, text, arrays, and frozen objects of this
library. So a file is a zip archive of JSON and ``.npy`` arrays with a checksum (`credibly.data.archive`), its objects
are named by their class (`credibly.persistence.objects`), and reading consists of looking up, comparing and filling in.
"""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from credibly._version import __version__
from credibly.data.archive import Archive, read_archive, write_archive
from credibly.data.files import write_errors, written_whole
from credibly.errors import InputError, ModelFileError
from credibly.persistence.objects import Decoder, Encoder, name_of
from credibly.tables.formula_safety import quoted

PathLike = str | os.PathLike[str]

LONGEST_CHOICE = 200  # characters of a parameter's text in the description


def save(model: Any, path: PathLike, *, overwrite: bool = True) -> None:
    """Save a fitted model to a file.

    The file appears under its name when it is complete, or not at all. The same model gives the same bytes.

    Parameters
    ----------
    model : fitted model
        An estimator of credibly, a `TableModel`, `ModelAverage` or `Comparison`, the result of
        `laplace_approximation`, or a scikit-learn ``Pipeline`` of scalers, polynomials or bases that ends in one of
        these. It holds no rows of the training data, with one exception: a Gaussian process is made of its rows.
    path : path
        Any name; this guide uses the ending ``.credibly``.
    overwrite : bool, default True
        False: refuse a name that is taken.

    Raises
    ------
    InputError
        If the model is not fitted, or holds something that model files do not (a function, a random generator, a
        class of your own); the message says where.
    FileWriteError
        If the file cannot be written: its folder is missing, the disk is full. It is an OSError, too.

    See Also
    --------
    load : the way back.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from credibly import LinearDiscriminant
    >>> from credibly.persistence import load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "iris.credibly")
    >>> save(LinearDiscriminant().fit(X, y), path)
    >>> load(path).predict(X[:3])
    array([0, 0, 0])
    """
    _check_model(model)
    encoder, kind = Encoder(), type(model).__name__
    try:
        tree = encoder.encode(model, kind)
        Decoder(encoder.arrays).decode(tree, kind)  # what could not be loaded again is not written
    except RecursionError as error:
        raise InputError(f"Cannot save this {kind}: its parts are nested too deeply, or hold themselves.") from error
    except ModelFileError as error:
        raise InputError(f"Cannot save this {kind}, because it could not be loaded again: {error}.") from error
    with written_whole(path, overwrite=overwrite) as part, write_errors(path):
        write_archive(part, "model", {**describe(model), "object": tree}, encoder.arrays)


def load(path: PathLike) -> Any:
    """Load a model from a file made by `save`.

    Nothing that the file says is run, whoever made it. (Whether its numbers are worth anything is another question:
    the checksum finds damage, not deceit.)

    Parameters
    ----------
    path : path

    Returns
    -------
    fitted model
        Of the class that was saved; it predicts the same, and goes on learning where it could.

    Raises
    ------
    ModelFileError
        If there is no such file, or it is not a model file, is damaged, or was written by a newer release.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.credibly")
    >>> _ = path.write_bytes(b"something else")
    >>> load(path)
    Traceback (most recent call last):
    ...
    credibly.errors.ModelFileError: Cannot load ...model.credibly: it is not a model file.
    """
    archive = _read(Path(path))
    try:
        return Decoder(archive.arrays).decode(archive.header["object"], archive.header["class"])
    except RecursionError as error:
        raise ModelFileError(f"Cannot load {path}: its parts are nested too deeply.") from error
    except ModelFileError as error:
        writer = archive.header["versions"]["credibly"]
        advice = f"; credibly {writer!s:.40} wrote it, and this is {__version__}" if writer != __version__ else ""
        raise ModelFileError(f"Cannot load {path}: {error!s:.500}{advice}.") from error


def header(path: PathLike) -> dict[str, Any]:
    """Read what a model file says of itself, without making the model.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict
        Plain values that can be printed as JSON: ``class``; ``classes`` (labels); ``target`` and ``formula`` (of a
        `TableModel`); ``columns`` (``name``, ``type``, and ``levels`` where there are any); ``data`` (rows and
        fingerprint); ``notes``; ``parameters`` (choices as text); ``versions``.

    Raises
    ------
    ModelFileError
        As `load`; the checksum of the whole file is compared here, too.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from credibly import NaiveBayes
    >>> from credibly.persistence import header, save
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.credibly")
    >>> save(NaiveBayes().fit([[1.5, 0], [2.5, 1], [3.5, 1], [4.5, 1]], ["a", "a", "b", "b"]), path)
    >>> about = header(path)
    >>> about["class"], about["classes"], about["columns"][1]
    ('NaiveBayes', ['a', 'b'], {'name': 'x1', 'type': 'bernoulli'})
    """
    return {key: value for key, value in _read(Path(path)).header.items() if key != "object"}


def _read(path: Path) -> Archive:
    try:
        archive = read_archive(path, "model")
        versions = archive.header.get("versions") if isinstance(archive.header, dict) else None
        if not isinstance(versions, dict) or "credibly" not in versions or not {"class", "object"} <= {*archive.header}:
            raise InputError("its header lacks what save() writes")
    except InputError as error:
        raise ModelFileError(f"Cannot load {path}: {error}.") from error
    except OSError as error:
        raise ModelFileError(f"Cannot load {path}: {error.strerror or error}.") from error
    return archive


def _check_model(model: Any) -> None:
    if name_of(type(model)) is None:
        kind = model if isinstance(model, type) else type(model)
        what = "the class" if isinstance(model, type) else "an object of the class"
        raise InputError(
            f"save() takes a fitted model of credibly, or a Pipeline that ends in one; got {what} {kind.__module__}."
            f"{kind.__qualname__}. For other things, and for classes of your own, there is pickle."
        )
    estimator = inner(model)
    if not hasattr(estimator, "get_params"):
        return  # a result, which exists only once there is one
    if hasattr(estimator, "__sklearn_is_fitted__"):
        fitted = estimator.__sklearn_is_fitted__()
    else:
        fitted = any(name.endswith("_") and not name.startswith("_") for name in vars(estimator))
    if not fitted:
        raise InputError(f"This {type(model).__name__} has not been fitted, so there is nothing to save; fit it first.")


# --- what a file says of itself: no part of this is needed to make the model --------------------------------------


def describe(model: Any) -> dict[str, Any]:
    """Class, columns, classes, data and choices of a model, as JSON."""
    estimator = inner(model)
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    return {
        "class": type(model).__name__,
        "classes": _as_json(getattr(model, "classes_", None)),
        "target": getattr(model, "target", None),
        "formula": getattr(getattr(model, "design", None), "formula", None),
        "columns": _columns(model),
        "data": _data(model),
        "notes": [str(note) for note in getattr(model, "notes", ())],
        "parameters": {name: _choice(value) for name, value in parameters.items()},
        "versions": {
            "credibly": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": version("scikit-learn"),
        },
    }


def inner(model: Any) -> Any:
    """The estimator inside a model of a table, or at the end of a pipeline."""
    if hasattr(model, "design") and hasattr(model, "model"):
        return inner(model.model)
    steps = getattr(model, "steps", None)
    return inner(steps[-1][1]) if steps else model


def _columns(model: Any) -> list[dict[str, Any]] | None:
    design: Any = getattr(model, "design", None)
    if hasattr(design, "columns"):
        return [_column(it.name, it.kind, it.levels) for it in design.columns]
    if hasattr(design, "kinds"):  # of a formula
        levels = dict(design.levels)
        return [_column(name, kind, levels.get(f"C({quoted(name)})", ())) for name, kind in design.kinds]
    plan: Any = getattr(model, "_plan", None)
    if hasattr(plan, "levels"):  # of a generative model
        known = [() if it is None else it.known for it in plan.levels]
        return [_column(*it) for it in zip(plan.names, plan.kinds, known, strict=True)]
    n_columns = getattr(model, "n_features_in_", None)
    if n_columns is None:
        return None
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(n_columns)])
    return [_column(name, "number") for name in names]


def _column(name: Any, kind: str, levels: Any = ()) -> dict[str, Any]:
    return {"name": str(name), "type": kind} | ({"levels": _as_json(list(levels))} if len(levels) else {})


def _data(model: Any) -> dict[str, Any]:
    """Facts about the rows that the model has seen: how many, and by what to recognize them."""
    fingerprint: Any = getattr(model, "data", None)
    if hasattr(fingerprint, "sha256"):  # of a table
        return {name: _as_json(value) for name, value in vars(fingerprint).items()}
    estimator = inner(model)
    fit: Any = getattr(estimator, "fit_", None)
    if hasattr(fit, "n_parts"):  # of a linear model
        return {"rows": fit.n_rows, "log_likelihood": _as_json(fit.log_likelihood if fit.n_parts == 1 else None)}
    rows = getattr(estimator, "_n_rows", None)
    posterior: Any = getattr(estimator, "posterior_", None)
    if rows is None and hasattr(posterior, "X"):  # a Gaussian process holds them
        rows = len(posterior.X)
    return {"rows": rows, "log_likelihood": _as_json(getattr(estimator, "_fingerprint", None))}


def _as_json(value: Any) -> Any:
    """Text, numbers and booleans as they are, in lists where there are several; other things as text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if value is None or type(value) in (bool, int, str) or (type(value) is float and np.isfinite(value)):
        return value
    return str(value)


def _choice(value: Any) -> str:
    """A parameter as text; of what may print an address in memory, which is never the same, only the kind."""
    own = type(value) in (type(None), bool, int, float, str) or type(value).__module__.startswith("credibly.")
    return repr(value)[:LONGEST_CHOICE] if own else type(value).__name__
