"""scikit-learn: point estimates of linear models, generative classifiers, Gaussian processes by Laplace."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.naive_bayes import GaussianNB

from benchmarks.peers import FIRST_ORDER, LADDER, NEWTON, OTHER, Method
from benchmarks.problems import GP_COLUMNS, Problem

MANY = 100_000  # iterations: the budget of seconds ends a search, not this
VARIANCE, LENGTH, BOUNDS = 4.0, 3.0, (1e-3, 1e3)
SHOWN = 10_000


def penalty(problem: Problem) -> float:
    return float("inf") if problem.spec.scale is None else problem.spec.scale**2


def logistic(solver: str) -> Callable[[Problem, float], Any]:
    def fit(problem: Problem, tolerance: float) -> Any:
        model = LogisticRegression(
            C=penalty(problem), solver=solver, tol=tolerance, max_iter=MANY, fit_intercept=False, random_state=0
        )
        return model.fit(problem.X, problem.y)

    return fit


def as_it_comes(problem: Problem, tolerance: float) -> Any:
    return LogisticRegression(C=penalty(problem), fit_intercept=False).fit(problem.X, problem.y)


def poisson(solver: str) -> Callable[[Problem, float], Any]:
    def fit(problem: Problem, tolerance: float) -> Any:
        alpha = 0.0 if problem.spec.scale is None else 1 / (problem.spec.n * problem.spec.scale**2)
        return PoissonRegressor(alpha=alpha, solver=solver, tol=tolerance, max_iter=MANY, fit_intercept=False).fit(
            problem.X, problem.y
        )

    return fit


def generative(name: str, label: str, make: Callable[[], Any]) -> dict[str, Method]:
    def fit(problem: Problem, tolerance: float) -> Any:
        return make().fit(problem.X, problem.y)

    def fitted(problem: Problem) -> Any:
        return problem.keep(f"scikit-learn {name}", lambda: fit(problem, np.nan))

    def predict(problem: Problem, tolerance: float) -> Any:
        return fitted(problem).predict_proba(problem.X)

    return {
        name: Method(label, OTHER, fit, lambda model, problem: model.predict_proba(problem.X[:SHOWN])),
        f"{name}_predict": Method(f"{label}, prediction", OTHER, predict, lambda P, problem: P[:SHOWN], prepare=fitted),
    }


def gaussian_process(optimizer: str | None) -> Callable[[Problem, float], Any]:
    def fit(problem: Problem, tolerance: float) -> Any:
        kernel = ConstantKernel(VARIANCE, BOUNDS) * RBF([LENGTH] * GP_COLUMNS, BOUNDS)
        return GaussianProcessClassifier(kernel, optimizer=optimizer).fit(problem.X, problem.y)

    return fit


def minus_evidence(model: Any, problem: Problem) -> Any:
    return np.asarray(-model.log_marginal_likelihood_value_)


def held_out(model: Any, problem: Problem) -> Any:
    return problem.log_score_loss(model.predict_proba(problem.X_test))


def solver(name: str, family: str) -> Method:
    return Method(f"scikit-learn {name}", family, logistic(name), tolerances=LADDER)


METHODS = {
    "lbfgs": solver("lbfgs", FIRST_ORDER),
    "newton-cg": solver("newton-cg", NEWTON),
    "newton-cholesky": solver("newton-cholesky", NEWTON),
    "liblinear": solver("liblinear", NEWTON),
    "sag": solver("sag", FIRST_ORDER),
    "saga": solver("saga", FIRST_ORDER),
    "default": Method("scikit-learn at its defaults", OTHER, as_it_comes),
    "poisson_lbfgs": Method("scikit-learn lbfgs", FIRST_ORDER, poisson("lbfgs"), tolerances=LADDER),
    "poisson_newton": Method("scikit-learn newton-cholesky", NEWTON, poisson("newton-cholesky"), tolerances=LADDER),
    **generative("lda", "scikit-learn LDA", LinearDiscriminantAnalysis),
    **generative("lda_lsqr", "scikit-learn LDA, lsqr", lambda: LinearDiscriminantAnalysis(solver="lsqr")),
    **generative("qda", "scikit-learn QDA", QuadraticDiscriminantAnalysis),
    **generative("naive_bayes", "scikit-learn GaussianNB", GaussianNB),
    "gp_laplace": Method("scikit-learn GP Laplace", OTHER, gaussian_process(None), minus_evidence),
    "gp_optimised": Method(
        "scikit-learn GP Laplace, optimised", OTHER, gaussian_process("fmin_l_bfgs_b"), minus_evidence
    ),
    "gp_classes": Method("scikit-learn GP one-vs-rest", OTHER, gaussian_process(None), held_out),
    "gp_classes_optimised": Method(
        "scikit-learn GP one-vs-rest, optimised", OTHER, gaussian_process("fmin_l_bfgs_b"), held_out
    ),
}
