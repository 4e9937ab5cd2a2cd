"""Saving and loading models, for every estimator, without ever running what a file says.

Two known ways were weighed against this one. *Pickle* (and joblib, which is pickle) rebuilds objects by calling
whatever the file names: to open one is to run a stranger's program. It also names classes by where they happen to
live, so that files break when the library is tidied up. *skops* asks the reader to approve a list of types, then
imports what the file names; it would be one more dependency, and ties files to our module paths in the same way. What
estimators here hold is few kinds of things: numbers, text, arrays, and frozen objects of some hundred and fifty
classes. So a file is a zip archive of JSON and ``.npy`` arrays (see `container`), objects have names from a closed
table (see `table`) which stay when classes move, and reading consists of looking up, comparing and filling in.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from credibly._version import __version__
from credibly.data.files import told, written_whole
from credibly.errors import InputError, ModelFileError
from credibly.numerics.arrays import AnyArray
from credibly.persistence import container, strict_json
from credibly.persistence.about import about, inner
from credibly.persistence.classes import name_of
from credibly.persistence.container import FORMAT, Container
from credibly.persistence.npy import Stored
from credibly.persistence.tree import Decoder, Encoder

PathLike = str | os.PathLike[str]
_PARTS = ("arrays", "object")  # of a header, for the decoder only


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
        If the model is not fitted, or holds something that model files do not (a function, a class of your own); the
        message says where. Also where the file cannot be written: its folder is missing, the disk is full.

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
    encoder = Encoder()
    tree = encoder.encode(model, type(model).__name__)
    _check_readable(tree, encoder.arrays)
    arrays = [Stored.of(array).entry() for array in encoder.arrays]
    text = strict_json.dump({"format": FORMAT, **about(model), "arrays": arrays, "object": tree})
    if len(text) > container.MOST_HEADER or strict_json.depth(text) > strict_json.MOST_DEPTH:
        raise InputError(
            f"Cannot save this {type(model).__name__}: besides its arrays it takes {len(text)} bytes, nested "
            f"{strict_json.depth(text)} levels deep; a file has room for {container.MOST_HEADER} and "
            f"{strict_json.MOST_DEPTH}. Does it hold labels or levels by the million?"
        )
    with written_whole(path, overwrite=overwrite) as part, told(path):
        container.write(part, text, encoder.arrays)


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
    credibly.errors.ModelFileError: Cannot load ...model.credibly: it is not a model file: it was not made by ...
    """
    with _reading(Path(path)) as file:
        whole = _read_header(file)
        older = whole["versions"]["credibly"] != __version__
        decoder = Decoder(file.arrays(whole["arrays"]), older=older)
        model = decoder.decode(whole["object"], str(whole["class"])[:60])
        decoder.finish()
        if not _is_model(model):
            raise ModelFileError(f"it holds a {type(model).__name__}, which is no model")
    return model


def header(path: PathLike) -> dict[str, Any]:
    """What a model file says of itself, without making the model.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict
        Plain values that can be printed as JSON: ``format``; ``class``; ``classes`` (labels); ``target`` (of a
        `TableModel`); ``columns`` (``name``, ``type``, and ``levels`` where there are any); ``data`` (rows and
        fingerprint); ``parameters`` (choices as text); ``versions``.

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
    with _reading(Path(path)) as file:
        return {key: value for key, value in _read_header(file).items() if key not in _PARTS}


# --- the steps ---------------------------------------------------------------------------------------------------


def _check_model(model: Any) -> None:
    if not _is_model(model):
        kind = model if isinstance(model, type) else type(model)
        raise InputError(
            f"save() takes a fitted model of credibly, or a Pipeline that ends in one; got {_article(model)} "
            f"{kind.__module__}.{kind.__qualname__}. For other things, and for classes of your own, there is pickle."
        )
    if not _is_fitted(inner(model)):
        raise InputError(f"This {type(model).__name__} has not been fitted, so there is nothing to save; fit it first.")


def _check_readable(tree: Any, arrays: list[AnyArray]) -> None:
    """What could not be loaded again is not written. Arrays are not copied here, so this takes no time."""
    try:
        Decoder(arrays, older=False).decode(tree, "model")
    except ModelFileError as error:
        raise InputError(f"Cannot save this model, because it could not be loaded again: {error}.") from error


def _is_model(model: Any) -> bool:
    name = name_of(type(model))
    return name is not None and name.startswith("model.")


def _article(model: Any) -> str:
    return "the class" if isinstance(model, type) else "an object of the class"


def _is_fitted(model: Any) -> bool:
    if not hasattr(model, "get_params"):
        return True  # a result, which exists only once there is one
    if hasattr(model, "__sklearn_is_fitted__"):
        return bool(model.__sklearn_is_fitted__())
    return any(name.endswith("_") and not name.startswith("_") for name in vars(model))


@contextmanager
def _reading(path: Path) -> Iterator[Container]:
    """An opened file; whatever is wrong with it becomes one kind of error that names it."""
    try:
        if not path.exists():
            raise ModelFileError("there is no such file")
        if path.is_dir():
            raise ModelFileError("it is a folder, not a file")
        with container.opened(path) as file:
            yield file
    except ModelFileError as error:
        raise ModelFileError(f"Cannot load {path}: {str(error)[:500]}.") from error
    except OSError as error:
        raise ModelFileError(f"Cannot load {path}: {error.strerror or error}.") from error


def _read_header(file: Container) -> dict[str, Any]:
    whole = strict_json.parse(file.header())
    if not isinstance(whole, dict):
        raise ModelFileError("its header is not the JSON that save() writes")
    container.refuse_newer(whole.get("format"))
    versions = whole.get("versions")
    if not isinstance(versions, dict) or "credibly" not in versions or not {"class", *_PARTS} <= {*whole}:
        raise ModelFileError("its header lacks parts that save() writes")
    return whole
