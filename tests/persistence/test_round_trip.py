"""What is saved comes back: every estimator, every choice, to the last bit."""

import copy
import io
import os
import pickle
import re
import subprocess
import sys
import warnings
from functools import cache
from typing import Any

import joblib
import numpy as np
import pytest

from credibly import BayesianLogisticRegression, load, save
from persistence.cases import CASES, Fitted

METHODS = ("predict_log_proba", "predict", "transform", "logpdf")


@cache
def fitted_once(name: str) -> Fitted:
    """Tests here read models and change copies only, so one fit serves all."""
    return CASES[name]()


def answers(fitted: Fitted, model: Any) -> dict[str, Any]:
    """All that a model says of some rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: getattr(model, name)(fitted.X) for name in METHODS if hasattr(model, name)}


def printed(model: Any) -> list[str]:
    """What a model prints about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # of a Gaussian process, without the curvature of the evidence, which costs more than all the rest
        options = {"uncertainty": False} if hasattr(model, "_lazy") else {}
        summary = [str(model.summary(**options))] if hasattr(model, "summary") else []
        parameters = model.get_params() if hasattr(model, "get_params") else {}
        lines = [*summary, repr(model), *(f"{name}={value!r}" for name, value in parameters.items())]
        return [re.sub(" at 0x[0-9a-f]+", "", line) for line in lines]


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for method, values in expected.items():
        np.testing.assert_array_equal(found[method], values, err_msg=method)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_model_is_the_same_model(name, tmp_path):
    """It predicts and prints the same, and saved again it has the same bytes: then all its parts are the same."""
    fitted, path, again = fitted_once(name), tmp_path / "model.credibly", tmp_path / "again.credibly"
    save(fitted.model, path)
    back = load(path)
    pickled = pickle.loads(pickle.dumps(fitted.model))
    for duplicate in (back, pickled):  # in files there is nothing of time, addresses in memory or the order of sets
        save(duplicate, again)
        assert again.read_bytes() == path.read_bytes()
    expected = answers(fitted, fitted.model)
    assert expected or name == "comparison"
    assert_same(answers(fitted, back), expected)
    assert_same(answers(fitted, pickled), expected)
    # Standard errors of a flat prior may need the rows of the fit, which neither a file nor a pickle has.
    assert printed(back) == printed(pickled if getattr(back, "prior_", 0) is None else fitted.model)


@pytest.mark.parametrize(
    "name", ["logistic by auto", "LinearDiscriminant, default", "GP by EP", "GLM poisson with log"]
)
def test_intervals_are_the_same(name, tmp_path):
    fitted = fitted_once(name)
    save(fitted.model, tmp_path / "model")
    expected = fitted.model.predict_interval(fitted.X[:2])
    np.testing.assert_array_equal(load(tmp_path / "model").predict_interval(fitted.X[:2]), expected)


LEARNING = (
    "logistic,",
    "softmax,",
    "updated",
    "threshold",
    "LinearDiscriminant,",
    "NaiveBayes",
    "GenerativeClassifier of",
)
ONCE = ("labels are", "flat", "exact", "auto", "missing cells")


@pytest.mark.parametrize("name", [it for it in CASES if it.startswith(LEARNING) and not any(no in it for no in ONCE)])
def test_a_loaded_model_learns_on_as_a_pickled_one_does(name, tmp_path):
    """Rows of the fit are left out by both, so that drift is unknown to both."""
    fitted = fitted_once(name)
    save(fitted.model, tmp_path / "model.credibly")
    found: list[Any] = []
    for model in (pickle.loads(pickle.dumps(fitted.model)), load(tmp_path / "model.credibly")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model.partial_fit(*fitted.more)
            except ValueError as error:  # some combinations refuse updates; then both must
                found.append({"refused": str(error)})
                continue
        found.append(answers(fitted, model))
    assert_same(found[1], found[0])


def joblib_copy(model: Any) -> Any:
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize("name", ["logistic by auto", "NaiveBayes on a mixed frame", "GP by EP", "pipeline", "formula"])
def test_joblib_and_deepcopy_keep_predictions(name):
    fitted = fitted_once(name)
    for duplicate in (joblib_copy(fitted.model), copy.deepcopy(fitted.model)):
        assert_same(answers(fitted, duplicate), answers(fitted, fitted.model))


def test_what_a_model_has_computed_since_does_not_hinder(tmp_path):
    for name in ("GP, default kernel", "logistic by auto", "GLM poisson with log", "LinearDiscriminant, default"):
        fitted = CASES[name]()
        str(fitted.model.summary())
        for attribute in ("loo_log_proba_", "effective_parameters_", "log_evidence_gradient_", "coef_"):
            getattr(fitted.model, attribute, None)
        save(fitted.model, tmp_path / "model")
        assert_same(answers(fitted, load(tmp_path / "model")), answers(fitted, fitted.model))


ELSEWHERE = """
import pickle, sys, numpy as np
from credibly import LinearDiscriminant, load, save
folder = sys.argv[1]
for k in range(int(sys.argv[2])):
    with open(f"{folder}/{k}.rows", "rb") as file:
        rows = pickle.load(file)
    assert load(f"{folder}/{k}.credibly").predict_log_proba(rows).tobytes() == np.load(f"{folder}/{k}.npy").tobytes(), k
model = LinearDiscriminant().partial_fit([[0.0], [1.0], [2.0], [3.5]], list("aabb"), classes=list("abcdefgh"))
save(model, sys.argv[3])
"""


def test_other_processes_predict_the_same_and_save_the_same(tmp_path):
    """Sets of strings have another order in every process."""
    names = ["logistic, empirical prior", "softmax, laplace", "GP by EP", "NaiveBayes on a mixed frame", "pipeline"]
    for k, name in enumerate(names):
        fitted = CASES[name]()
        save(fitted.model, tmp_path / f"{k}.credibly")
        (tmp_path / f"{k}.rows").write_bytes(pickle.dumps(fitted.X))
        np.save(tmp_path / f"{k}.npy", fitted.model.predict_log_proba(fitted.X))
    for seed in "12":
        arguments = [sys.executable, "-c", ELSEWHERE, str(tmp_path), str(len(names)), str(tmp_path / f"seed {seed}")]
        done = subprocess.run(
            arguments, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "seed 1").read_bytes() == (tmp_path / "seed 2").read_bytes()


def test_more_than_four_gigabytes_are_laid_out_in_the_same_way(tmp_path, monkeypatch):
    """The fields for that come in at a limit, which is put at a kilobyte here."""
    fitted = fitted_once("GP, default kernel")
    save(fitted.model, tmp_path / "usual")
    monkeypatch.setattr("zipfile.ZIP64_LIMIT", 1000)
    save(fitted.model, tmp_path / "large")
    assert (tmp_path / "large").stat().st_size > (tmp_path / "usual").stat().st_size
    assert_same(answers(fitted, load(tmp_path / "large")), answers(fitted, fitted.model))


def test_an_object_that_is_shared_stays_shared(tmp_path):
    model = CASES["GP, default kernel"]().model
    assert model._kernels[0] is model.posterior_.kernels[0]
    save(model, tmp_path / "model")
    back = load(tmp_path / "model")
    assert back._kernels[0] is back.posterior_.kernels[0]


def test_rows_of_the_fit_are_not_saved(tmp_path):
    """In other numbers than those of the rows, the file would be as long for ten times as many."""
    rng = np.random.default_rng(0)
    sizes = []
    for n in (200, 2000):
        X = rng.normal(size=(n, 5))
        save(BayesianLogisticRegression().fit(X, X[:, 0] + rng.normal(size=n) > 0), tmp_path / "model")
        sizes.append((tmp_path / "model").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 200  # digits of numbers in the header
