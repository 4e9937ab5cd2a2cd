"""The same input gives the same predictions, to 1e-12, whatever threads work on it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    LinearDiscriminant,
    NaiveBayes,
    Normal,
    QuadraticDiscriminant,
)
from credibly.kernels import RBF
from helpers import REPOSITORY

PROMISE = 1e-12


class Rows(NamedTuple):
    X: np.ndarray
    y: np.ndarray


@cache
def rows(n: int, n_classes: int = 2) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    score = X[:, :1] * np.linspace(-1, 1, n_classes) + rng.gumbel(size=(n, n_classes))
    return Rows(X, score.argmax(axis=1))


KERNEL = 4.0 * RBF(2.0)
LARGE = 40_000  # cut into blocks
MODELS: dict[str, tuple[Callable[..., Any], Rows]] = {
    "logistic": (lambda **more: BayesianLogisticRegression(prior=Normal(), **more), rows(LARGE)),
    "logistic, empirical prior": (BayesianLogisticRegression, rows(LARGE)),
    "softmax": (lambda **more: BayesianLogisticRegression(prior=Normal(), **more), rows(10_000, 3)),
    "probit": (lambda **more: BayesianProbitRegression(prior=Normal(), **more), rows(LARGE)),
    "poisson": (lambda **more: BayesianGLM("poisson", prior=Normal(), **more), rows(LARGE)),
    "linear discriminant": (LinearDiscriminant, rows(LARGE)),
    "quadratic discriminant": (QuadraticDiscriminant, rows(LARGE)),
    "naive Bayes": (NaiveBayes, rows(LARGE)),
    "process, Laplace": (lambda **more: GaussianProcessClassifier(KERNEL, optimize=False, **more), rows(150)),
    "process, EP": (lambda **more: GaussianProcessClassifier(KERNEL, inference="ep", optimize=False, **more), rows(60)),
    "process, inducing points": (
        lambda **more: GaussianProcessClassifier(KERNEL, inducing=20, optimize=False, **more),
        rows(3000),
    ),
}
EVERY = pytest.mark.parametrize("name", list(MODELS))


def answers(name: str, **more: Any) -> np.ndarray:
    make, (X, y) = MODELS[name]
    model = make(**more).fit(X, y)
    return model.predict(X[:200]) if name == "poisson" else model.predict_proba(X[:200])


@cache
def by_one_thread(name: str) -> np.ndarray:
    with threadpool_limits(1):
        return answers(name, n_jobs=1)


def assert_promised(found: np.ndarray, wanted: np.ndarray) -> None:
    assert np.abs(found - wanted).max() <= PROMISE


@EVERY
@pytest.mark.parametrize("threads", [2, 3])
def test_predictions_do_not_depend_on_n_jobs(name, threads):
    assert_promised(answers(name, n_jobs=threads), by_one_thread(name))


@EVERY
@pytest.mark.parametrize("threads", [2, 4])
def test_predictions_do_not_depend_on_the_threads_that_blas_may_use(name, threads):
    with threadpool_limits(threads):
        assert_promised(answers(name), by_one_thread(name))


@pytest.mark.slow  # a process takes seconds to start
@EVERY
@pytest.mark.parametrize("threads", ["1", "2"])
def test_predictions_do_not_depend_on_the_process(name, threads):
    here = [str(REPOSITORY / "src"), str(REPOSITORY / "tests")]
    code = (
        f"import json; from reliability.test_determinism import answers; print(json.dumps(answers({name!r}).tolist()))"
    )
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(here),
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert_promised(np.array(json.loads(done.stdout)), by_one_thread(name))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_process_large_enough_for_threaded_blas_answers_alike(threads):
    X, y = rows(2000)
    model = GaussianProcessClassifier(KERNEL, optimize=False)
    with threadpool_limits(1):
        wanted = model.fit(X, y).predict_proba(X[:200])
    with threadpool_limits(threads):
        assert_promised(model.fit(X, y).predict_proba(X[:200]), wanted)
