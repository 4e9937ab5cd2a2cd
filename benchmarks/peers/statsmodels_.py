"""statsmodels: maximum likelihood by Newton or reweighted least squares; a ridge without a tolerance to set."""

from typing import Any

import numpy as np
import statsmodels.api as sm

from benchmarks.peers import FIRST_ORDER, NEWTON, Method
from benchmarks.problems import Problem

TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
FAMILIES = {
    "logit": sm.families.Binomial,
    "probit": lambda: sm.families.Binomial(sm.families.links.Probit()),
    "poisson": sm.families.Poisson,
    "gamma": lambda: sm.families.Gamma(sm.families.links.Log()),
}
DISCRETE = {"logit": sm.Logit, "probit": sm.Probit, "poisson": sm.Poisson}


def reweighted(problem: Problem, tolerance: float) -> Any:
    return sm.GLM(problem.y, problem.X, family=FAMILIES[problem.spec.kind]()).fit(tol=tolerance, maxiter=1000)


def newton(problem: Problem, tolerance: float) -> Any:
    return DISCRETE[problem.spec.kind](problem.y, problem.X).fit(method="newton", tol=tolerance, maxiter=1000, disp=0)


def ridge(problem: Problem, tolerance: float) -> Any:
    if problem.spec.scale is None:
        raise ValueError("a ridge needs a scale")
    model = sm.GLM(problem.y, problem.X, family=FAMILIES[problem.spec.kind]())
    return model.fit_regularized(alpha=1 / (problem.spec.n * problem.spec.scale**2), L1_wt=0)


def parameters(model: Any, problem: Problem) -> Any:
    return np.asarray(model.params)


METHODS = {
    "glm": Method("statsmodels GLM", NEWTON, reweighted, parameters, TOLERANCES),
    "newton": Method("statsmodels newton", NEWTON, newton, parameters, TOLERANCES),
    "ridge": Method("statsmodels GLM ridge", FIRST_ORDER, ridge, parameters),
}
