"""glum: penalised generalised linear models by iteratively reweighted least squares, or L-BFGS."""

from collections.abc import Callable
from typing import Any

import numpy as np
from glum import GeneralizedLinearRegressor

from benchmarks.peers import FIRST_ORDER, LADDER, NEWTON, Method
from benchmarks.problems import Problem

FAMILIES = {"logit": ("binomial", "logit"), "poisson": ("poisson", "log"), "gamma": ("gamma", "log")}


def labels(problem: Problem) -> Any:
    return problem.keep("float labels", lambda: problem.y.astype(float))


def fit(solver: str) -> Callable[[Problem, float], Any]:
    def run(problem: Problem, tolerance: float) -> Any:
        scale, (family, link) = problem.spec.scale, FAMILIES[problem.spec.kind]
        model = GeneralizedLinearRegressor(
            alpha=0.0 if scale is None else 1 / (problem.spec.n * scale**2),
            l1_ratio=0,
            fit_intercept=False,
            family=family,
            link=link,
            solver=solver,
            gradient_tol=tolerance,
            max_iter=10_000,
        )
        return model.fit(problem.X, labels(problem))

    return run


def weights(model: Any, problem: Problem) -> Any:
    return np.asarray(model.coef_).ravel()


METHODS = {
    "irls": Method("glum irls-ls", NEWTON, fit("irls-ls"), weights, LADDER, prepare=labels),
    "lbfgs": Method("glum lbfgs", FIRST_ORDER, fit("lbfgs"), weights, LADDER, prepare=labels),
}
