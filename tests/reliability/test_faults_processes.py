"""Fits in threads and processes, started in every way: the same answers, and nothing that waits for ever."""

import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    LeastSquaresClassifier,
    LinearDiscriminant,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    QuadraticDiscriminant,
)
from reliability.faults import environment

LIMIT = 120  # seconds: what has not ended by then waits for ever
ROUNDING = 1e-10  # sums on other threads are added in another order
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
Y = (X @ [1.0, -1.0, 0.5] + rng.logistic(size=400) > 0).astype(int)
K3 = (X + rng.gumbel(size=X.shape)).argmax(axis=1)
MODELS: dict[str, tuple[Any, Any]] = {
    "logit": (BayesianLogisticRegression(prior=Normal()), Y),
    "logit, empirical": (BayesianLogisticRegression(), Y),
    "logit, auto": (BayesianLogisticRegression(inference="auto", random_state=0), Y),
    "softmax": (BayesianLogisticRegression(prior=Normal()), K3),
    "label noise": (BayesianLogisticRegression(prior=Normal(), label_noise=0.1), Y),
    "probit, EP": (BayesianProbitRegression(prior=Normal(), inference="ep"), Y),
    "cauchit": (NoisyThresholdClassifier("cauchy", prior=Normal()), Y),
    "counts": (BayesianGLM("poisson", prior=Normal()), K3),
    "least squares": (LeastSquaresClassifier(), K3),
    "linear discriminant": (LinearDiscriminant(), K3),
    "quadratic discriminant": (QuadraticDiscriminant(), K3),
    "naive Bayes": (NaiveBayes(features="gaussian"), K3),
    "process": (GaussianProcessClassifier(optimize=False), Y),
    "process, EP": (GaussianProcessClassifier(optimize=False, inference="ep"), Y),
    "process of classes": (GaussianProcessClassifier(optimize=False), K3),
    "inducing points": (GaussianProcessClassifier(optimize=False, inducing=20, random_state=0), Y),
}


@pytest.fixture(autouse=True)
def deadline():
    """A test that waits for ever fails, and says where."""

    def late(*_):
        raise TimeoutError(f"not done after {LIMIT} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def rows(name: str) -> np.ndarray:
    return X[:120] if "process" in name or "inducing" in name else X


def made(name: str) -> Any:
    model, y = MODELS[name]
    return clone(model).fit(rows(name), y[: len(rows(name))])


fitted = cache(made)
NEW = rng.normal(size=(12, 3))


def answers(model: Any) -> dict[str, np.ndarray]:
    """Everything that models are asked at the same time."""
    asked = ("predict", "predict_proba", "predict_log_proba", "predict_interval", "decision_function")
    return {name: getattr(model, name)(NEW) for name in asked if hasattr(model, name)}


def assert_same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert_array_equal(found[name], value, err_msg=name)


# --- threads --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_eight_threads_that_ask_one_model_get_the_answers_of_one(name):
    """To the last bit, whatever they ask first: nothing that is computed once and kept is seen half made."""
    wanted, fresh = answers(fitted(name)), made(name)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: answers(fresh), range(8)):
            assert_same(found, wanted)


@pytest.mark.slow
def test_different_models_fitted_at_the_same_time_are_those_fitted_one_by_one():
    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(MODELS, pool.map(made, MODELS), strict=True))
    for name, model in found.items():
        for method, value in answers(fitted(name)).items():
            assert_allclose(answers(model)[method], value, rtol=1e-8, atol=1e-12, err_msg=f"{name}.{method}")


def test_fits_inside_of_threads_inside_of_threads():
    def several(seed: int) -> list[np.ndarray]:
        with ThreadPoolExecutor(2) as inner:
            fits = inner.map(lambda _: BayesianLogisticRegression(prior=Normal(), n_jobs=2).fit(X, Y).coef_, range(2))
            return list(fits)

    alone = BayesianLogisticRegression(prior=Normal()).fit(X, Y).coef_
    with ThreadPoolExecutor(3) as outer:
        for fits in outer.map(several, range(3)):
            for coef in fits:
                assert_allclose(coef, alone, rtol=ROUNDING)


# --- processes ------------------------------------------------------------------------------------------------------


def coefficients(n_jobs: int) -> np.ndarray:
    return BayesianLogisticRegression(prior=Normal(), n_jobs=n_jobs).fit(*large()).coef_


@cache
def large() -> tuple[np.ndarray, np.ndarray]:
    """Enough rows for several blocks, so that threads are used."""
    generator = np.random.default_rng(1)
    table = generator.normal(size=(40_000, 4))
    return table, (table[:, 0] + generator.logistic(size=40_000) > 0).astype(int)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_after_fits_on_threads_fits_and_so_does_its_child():
    here = coefficients(2)
    assert_allclose(made("process").predict_proba(NEW), fitted("process").predict_proba(NEW), rtol=ROUNDING)

    def fit_in_child(depth: int) -> int:
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        code = 1
        try:
            signal.alarm(LIMIT // 2)
            assert_allclose(coefficients(2), here, rtol=ROUNDING)
            assert_allclose(
                answers(made("naive Bayes"))["predict_proba"], answers(fitted("naive Bayes"))["predict_proba"]
            )
            code = fit_in_child(depth - 1) if depth else 0
        finally:
            os._exit(code)

    assert fit_in_child(1) == 0


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow), "multiprocessing"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_joblib_fits_by_all_its_backends(backend):
    alone = coefficients(2)
    with parallel_config(backend=backend):
        for found in Parallel(n_jobs=2, timeout=LIMIT)(delayed(coefficients)(n_jobs) for n_jobs in (1, 2, 2)):
            assert_allclose(found, alone, rtol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logit, empirical", "quadratic discriminant", "naive Bayes", "process"])
def test_scikit_learn_searches_and_validates_on_two_processes(name):
    model, y = MODELS[name]
    grid = {"class_prior": ["learned", "uniform"]} if hasattr(model, "class_prior") else {"tol": [1e-10, 1e-12]}
    table, y = rows(name), y[: len(rows(name))]
    alone = cross_val_score(model, table, y, cv=3, scoring="neg_log_loss")
    assert_allclose(cross_val_score(model, table, y, cv=3, scoring="neg_log_loss", n_jobs=2), alone, rtol=1e-8)
    searched = [GridSearchCV(model, grid, cv=3, n_jobs=n_jobs).fit(table, y) for n_jobs in (None, 2)]
    assert_allclose(searched[1].cv_results_["mean_test_score"], searched[0].cv_results_["mean_test_score"], rtol=1e-8)
    assert searched[0].best_params_ == searched[1].best_params_


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_pools_of_processes_of_every_kind(start):
    here = coefficients(2)
    with multiprocessing.get_context(start).Pool(2) as pool:
        for there in pool.map_async(coefficients, [1, 2, 2]).get(LIMIT):
            assert_allclose(there, here, rtol=ROUNDING)


INTERRUPTED = """
import sys, threading, time, _thread
import numpy as np
from credibly import BayesianLogisticRegression, Normal
rng = np.random.default_rng(0)
X = rng.normal(size=(400_000, 40))
y = (X[:, 0] + rng.logistic(size=len(X)) > 0).astype(int)
print("ready", flush=True)
while True:
    BayesianLogisticRegression(n_jobs=2).fit(X, y)
"""


def test_a_large_fit_on_threads_ends_soon_after_ctrl_c():
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert said.strip().endswith("KeyboardInterrupt")
