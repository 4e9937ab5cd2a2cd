"""Rows made up for a check, what the library says of them, and whether the document's formulas say the same."""

import warnings
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import DataWarning, NotDefinedError
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.export.documents import Described
from credibly.export.links import Document
from credibly.export.reading import Scored, score
from credibly.export.tables import raw_rows, takes_raw_rows, without_table
from credibly.numerics.arrays import AnyArray, Array

LEVEL = 0.9
TOLERANCE = 1e-8  # absolute of probabilities, relative of means that are larger than one
STEPS = (0.0, 1.0, -1.0, 0.5, -2.0, 2.0)  # in standard deviations of a column; every row takes them in another order
N_ROWS = 6
SEED = 0


class Rows(NamedTuple):
    """Rows as they stand in the document, and as numbers in the order of its features."""

    shown: list[Any]
    X: Array


def with_check(model: Any, described: Described) -> Document:
    """The document with rows to check another program by.

    Where the document's formulas are the library's, the library's results are expected, and a document that does not
    give them is refused; where they are others (averages over listed draws, predictions at the estimate) the formulas'
    own results are expected, and the library's stand beside them.
    """
    document = described.document
    rows = _rows(model, document)
    library = _library(without_table(model), rows.X)
    good = _finite(library)
    read = score(document, rows.X[good], LEVEL)
    library = Scored(library.prediction[good], None if library.interval is None else library.interval[good])
    shown = [row for row, use in zip(rows.shown, good, strict=True) if use]
    check: Document = {"rows": shown, "level": LEVEL, "tolerance": TOLERANCE}
    if described.exact:
        _refuse_different(read, library)
        expected = library if read.interval is not None else Scored(library.prediction, None)
        return document | {"check": check | _results(expected)}
    difference = np.abs(read.prediction - library.prediction).max(initial=0.0)
    more = {"library_prediction": library.prediction.tolist(), "largest_difference": float(difference)}
    return document | {"check": check | _results(read) | more}


def _finite(found: Scored) -> AnyArray:
    """Which rows have a prediction and an interval: a mean may not exist, and an end may be infinite."""
    numbers = [part.reshape(len(part), -1) for part in found if part is not None]
    return np.asarray(np.isfinite(np.hstack(numbers)).all(axis=1))


def _results(expected: Scored) -> Document:
    interval = None if expected.interval is None else expected.interval.tolist()
    return {"prediction": expected.prediction.tolist(), "interval": interval}


def _rows(model: Any, document: Document) -> Rows:
    inner = without_table(model)
    if takes_raw_rows(model):
        frame = raw_rows(model, _steps(document))
        X = model.matrix(frame).to_numpy(dtype=float)
        return Rows(frame.to_dict("records"), X)
    if isinstance(inner, GenerativeClassifierBase):  # of the support of its columns
        X = np.asarray(inner.sample(N_ROWS, random_state=SEED)[0], dtype=float)
        X = np.where(np.isnan(X), 0.0, X)  # columns without any value, which have no weight
        return Rows(X.tolist(), X)
    X = _steps(document)
    return Rows(X.tolist(), X)


def _steps(document: Document) -> Array:
    """Rows around the centres of the columns, some standard deviations off."""
    frame = document["standardised"]
    order = np.arange(N_ROWS)[:, None] + np.arange(len(frame["center"])) * (1 + np.arange(N_ROWS)[:, None])
    steps = np.array(STEPS)[order % len(STEPS)]
    steps[0] = 0.0
    return np.asarray(np.array(frame["center"]) + np.array(frame["scale"]) * steps)


def _library(model: Any, X: AnyArray) -> Scored:
    """What the model itself says of rows whose columns are in its order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # rows without a mean, which are left out
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        predict = model.predict_proba if hasattr(model, "classes_") else model.predict
        linear = not isinstance(model, GenerativeClassifierBase)
        return Scored(predict(X), model.predict_interval(X, level=LEVEL) if linear else None)


def _refuse_different(read: Scored, library: Scored) -> None:
    pairs = [(read.prediction, library.prediction)]
    if read.interval is not None and library.interval is not None:
        pairs.append((read.interval, library.interval))
    for ours, theirs in pairs:
        apart = np.abs(ours - theirs) / np.maximum(1.0, np.abs(theirs))
        if not (apart <= TOLERANCE).all():
            raise NotDefinedError(
                f"This model's coefficients do not reproduce its predictions (they differ by "
                f"{float(apart.max()):.1e}, more than {TOLERANCE:.0e}): its score is too uncertain, or too large, "
                "for the formulas of the format. Save the model instead (credibly.save)."
            )
