"""credibly, at its defaults but for the prior; every linear fit includes the covariance of all weights.

By default a mode is found to rounding. `logistic_as_exact` stops where the peers do: at the loosest tolerance that
comes within 1e-8 of the best objective.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import LADDER, OURS, Method, coefficients
from benchmarks.problems import GP_COLUMNS, Problem
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
from credibly.kernels import RBF, Constant

DEFAULT = (None,)
VARIANCE, LENGTH, BOUNDS = 4.0, 3.0, (1e-3, 1e3)


def prior(problem: Problem) -> Normal | None:
    return None if problem.spec.scale is None else Normal(scale=problem.spec.scale)


def linear(make: Callable[[Problem], Any]) -> Callable[[Problem, float], Any]:
    def fit(problem: Problem, tolerance: float) -> Any:
        model = make(problem)
        if not math.isnan(tolerance):
            model.set_params(tol=tolerance)
        model.fit(problem.X, problem.y)
        if model.posterior_.mean.size <= 5_000:
            model.posterior_.cov  # noqa: B018 - asked for, so that it is in the time
        else:
            model.posterior_.std  # noqa: B018 - what a low-rank posterior can say of every weight
        return model

    return fit


def logistic(problem: Problem) -> Any:
    return BayesianLogisticRegression(prior=prior(problem), fit_intercept=False)


def probit(problem: Problem) -> Any:
    return BayesianProbitRegression(prior=prior(problem), fit_intercept=False)


def glm(problem: Problem) -> Any:
    return BayesianGLM(problem.spec.kind, "log", prior=prior(problem), fit_intercept=False)


# --- generative models ---------------------------------------------------------------------------------------------

SHOWN = 10_000  # rows whose probabilities are compared
GENERATIVE: dict[str, Callable[[], Any]] = {
    "lda": LinearDiscriminant,
    "lda_plugin": lambda: LinearDiscriminant(parameters="plugin"),
    "qda": QuadraticDiscriminant,
    "qda_plugin": lambda: QuadraticDiscriminant(parameters="plugin"),
    "naive_bayes": lambda: NaiveBayes(features="gaussian"),
    "naive_bayes_plugin": lambda: NaiveBayes(features="gaussian", parameters="plugin"),
}


def shown(model: Any, problem: Problem) -> Any:
    return model.predict_proba(problem.X[:SHOWN])


def generative(name: str, label: str) -> dict[str, Method]:
    def fit(problem: Problem, tolerance: float) -> Any:
        return GENERATIVE[name]().fit(problem.X, problem.y)

    def fitted(problem: Problem) -> Any:
        return problem.keep(f"ours {name}", lambda: fit(problem, np.nan))

    def predict(problem: Problem, tolerance: float) -> Any:
        return fitted(problem).predict_proba(problem.X)

    return {
        name: Method(label, OURS, fit, shown, threads=DEFAULT),
        f"{name}_predict": Method(
            f"{label}, prediction", OURS, predict, lambda P, problem: P[:SHOWN], threads=DEFAULT, prepare=fitted
        ),
    }


# --- Gaussian processes --------------------------------------------------------------------------------------------


def gaussian_process(**options: Any) -> Callable[[Problem, float], Any]:
    def fit(problem: Problem, tolerance: float) -> Any:
        kernel = Constant(VARIANCE, variance_bounds=BOUNDS) * RBF((LENGTH,) * GP_COLUMNS, length_scale_bounds=BOUNDS)
        return GaussianProcessClassifier(kernel, **options).fit(problem.X, problem.y)

    return fit


def minus_evidence(model: Any, problem: Problem) -> Any:
    return np.asarray(-model.log_evidence_)


def held_out(model: Any, problem: Problem) -> Any:
    return problem.log_score_loss(model.predict_proba(problem.X_test))


def probabilities(model: Any, problem: Problem) -> Any:
    return model.predict_proba(problem.X)[:, 1]


METHODS = {
    "logistic": Method("credibly", OURS, linear(logistic), threads=DEFAULT),
    "logistic_as_exact": Method(
        "credibly, as exact as the others", OURS, linear(logistic), tolerances=LADDER, threads=DEFAULT
    ),
    "logistic_predictive": Method("credibly", OURS, linear(logistic), probabilities, threads=DEFAULT),
    "probit": Method("credibly", OURS, linear(probit), coefficients, threads=DEFAULT),
    "glm": Method("credibly", OURS, linear(glm), coefficients, threads=DEFAULT),
    **generative("lda", "credibly LDA, averaged"),
    **generative("lda_plugin", "credibly LDA, estimated"),
    **generative("qda", "credibly QDA, averaged"),
    **generative("qda_plugin", "credibly QDA, estimated"),
    **generative("naive_bayes", "credibly naive Bayes, averaged"),
    **generative("naive_bayes_plugin", "credibly naive Bayes, estimated"),
    "gp_laplace": Method(
        "credibly GP Laplace", OURS, gaussian_process(optimize=False), minus_evidence, threads=DEFAULT
    ),
    "gp_optimised": Method(
        "credibly GP Laplace, optimised", OURS, gaussian_process(optimize=True), minus_evidence, threads=DEFAULT
    ),
    "gp_ep": Method(
        "credibly GP EP",
        OURS,
        gaussian_process(optimize=False, inference="ep", likelihood="probit"),
        minus_evidence,
        threads=DEFAULT,
    ),
    "gp_classes": Method("credibly GP softmax", OURS, gaussian_process(optimize=False), held_out, threads=DEFAULT),
    "gp_classes_optimised": Method(
        "credibly GP softmax, optimised", OURS, gaussian_process(optimize=True), held_out, threads=DEFAULT
    ),
    "gp_inducing": Method(
        "credibly GP, at most 500 inducing points",
        OURS,
        gaussian_process(optimize=True, inducing=500),
        held_out,
        threads=DEFAULT,
    ),
}
