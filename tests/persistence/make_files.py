"""Save a dozen models for the tests of later releases. Run once for a release, when its version is final:

    python tests/persistence/make_files.py

The files go into ``tests/persistence/files/<version>/``, each with a JSON of the predictions it must give; they are
never made anew for a version that is out. `test_old_files.py` loads all of them.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from credibly import __version__
from credibly.persistence import save
from persistence.cases import CASES

FILES = Path(__file__).parent / "files"
SAVED = {
    "logistic": "logistic, empirical prior",
    "logistic-labels": "logistic, labels are unicode",
    "logistic-label-noise": "logistic, label noise estimated",
    "logistic-updated": "updated logistic",
    "softmax-student": "softmax, student prior",
    "threshold-scipy": "threshold scipy hypsecant",
    "threshold-mixture": "threshold mixture",
    "poisson": "GLM poisson with a prior",
    "lda": "LinearDiscriminant, default",
    "qda-plugin": "QuadraticDiscriminant, plugin",
    "naive-bayes": "NaiveBayes on a mixed frame",
    "gp-ep": "GP by EP",
    "gp-softmax": "GP softmax of three",
    "gp-kernels": "GP, sums and products kernel",
    "pipeline": "pipeline",
    "average": "average of models",
    "density": "density with bounds and modes",
    "table": "table, imputed",
    "formula": "formula",
}


def as_json(X):
    """Rows as JSON; cells that JSON has no word for become missing ones, which the models here take."""
    if not hasattr(X, "columns"):
        return {"rows": np.asarray(X).tolist()}
    cells = {str(name): X[name].astype(object).tolist() for name in X.columns}
    return {"columns": {name: [it if _is_plain(it) else None for it in column] for name, column in cells.items()}}


def _is_plain(cell):
    return isinstance(cell, bool | int | str) or (isinstance(cell, float) and np.isfinite(cell))


def rows(entry):
    """The rows again."""
    return pd.DataFrame(entry["columns"]) if "columns" in entry else np.array(entry["rows"])


def answer(model, X):
    """What a model predicts, by the first of the methods that it has."""
    for method in ("predict_log_proba", "predict", "logpdf"):
        if hasattr(model, method):
            return np.asarray(getattr(model, method)(X), dtype=float)
    raise TypeError(f"{type(model).__name__} predicts nothing")


def main() -> None:
    folder = FILES / __version__
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in SAVED.items():
        fitted = CASES[case]()
        save(fitted.model, folder / f"{name}.credibly")
        X = as_json(fitted.X)
        expected = {"class": type(fitted.model).__name__, "X": X, "answer": answer(fitted.model, rows(X)).tolist()}
        (folder / f"{name}.json").write_text(json.dumps(expected) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
