"""Coefficients as plain JSON, to score elsewhere: in a database, a browser, another language.

docs/export.md describes the format; `FORMAT_VERSION` grows when a document of it could be read wrongly.
"""

import json
import os
from typing import Any

import numpy as np
from scipy.special import ndtri

from credibly._version import __version__
from credibly.data.files import told, written_whole
from credibly.errors import InputError, NotDefinedError
from credibly.export.checks import with_check
from credibly.export.documents import describe
from credibly.export.links import Document
from credibly.export.tables import describe_table, is_table_model, without_table

FORMAT, FORMAT_VERSION = "credibly-scoring", 1
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)

_HEAD = {"format": FORMAT, "format_version": FORMAT_VERSION, "credibly_version": __version__}
_QUANTILES = {"normal_quantiles": {f"{level:g}": float(ndtri(0.5 + level / 2)) for level in LEVELS}}


def to_json(
    model: Any, path: str | os.PathLike[str] | None = None, *, covariance: bool = True, overwrite: bool = True
) -> str:
    """The coefficients of a fitted model as one JSON document, with all that scoring elsewhere needs.

    Linear classifiers, `BayesianGLM`, and generative models whose log odds are linear. The document holds names,
    classes, link, coefficients, the posterior, the numbers behind the averaging formula, and rows with expected
    results by which another program can check itself. None of those rows is from the data.

    Parameters
    ----------
    model : fitted estimator of this library, or TableModel
        Of a TableModel that took its columns as they are, the document also says how a raw row becomes numbers.
    path : path, optional
        Write the document there, too; the file appears whole or not at all.
    covariance : bool, default True
        Include the posterior, for averaged probabilities and intervals; False: predictions at the estimate only.
    overwrite : bool, default True
        False refuses a name that is taken.

    Returns
    -------
    str
        The document.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import BayesianProbitRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> document = json.loads(to_json(BayesianProbitRegression().fit(X[50:, :2], y[50:])))
    >>> document["link"], document["classes"], document["average"]["kind"]
    ({'name': 'probit'}, [1, 2], 'normal_mixture')
    """
    if not isinstance(covariance, bool | np.bool_):
        raise InputError(f"covariance must be True or False; got {covariance!r}.")
    described = describe(without_table(model), bool(covariance))
    described = described.more(_QUANTILES | (describe_table(model) if is_table_model(model) else {}))
    text = lines(_HEAD | with_check(model, described))
    if path is not None:
        with written_whole(path, overwrite=overwrite) as part, told(path):
            part.write_text(text, encoding="utf-8")
    return text


def lines(document: Document) -> str:
    """JSON with one key on a line, so that a person can look at it and a diff is readable."""
    try:
        body = [f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items()]
    except ValueError as error:
        raise NotDefinedError(
            f"The model has numbers that are not finite, which JSON cannot hold ({error}); its posterior is not one to "
            "score with. See status_."
        ) from error
    return "{\n" + ",\n".join(body) + "\n}\n"
