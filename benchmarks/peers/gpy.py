"""GPy: Gaussian processes by expectation propagation, one site after the other or all at once."""

from collections.abc import Callable
from typing import Any

import GPy
import numpy as np
import paramz

from benchmarks.peers import OTHER, Method
from benchmarks.peers.scikit_learn import LENGTH, VARIANCE
from benchmarks.problems import Problem


def propagation(*, parallel: bool) -> Callable[[Problem, float], Any]:
    def fit(problem: Problem, tolerance: float) -> Any:
        d = problem.spec.d
        np.random.seed(0)  # noqa: NPY002, TID251 - GPy visits sites in an order from the global generator
        kernel = GPy.kern.RBF(d, variance=VARIANCE, lengthscale=np.full(d, LENGTH), ARD=True)
        ep = GPy.inference.latent_function_inference.EP(ep_mode="nested", parallel_updates=parallel)
        labels = paramz.ObsAr(problem.y.astype(float)[:, None])
        return ep.inference(kernel, problem.X, GPy.likelihoods.Bernoulli(), labels)[1]

    return fit


def minus_evidence(log_z: Any, problem: Problem) -> Any:
    return np.asarray(-float(np.ravel(log_z)[0]))


METHODS = {
    "ep": Method("GPy EP", OTHER, propagation(parallel=False), minus_evidence),
    "ep_parallel": Method("GPy EP, parallel updates", OTHER, propagation(parallel=True), minus_evidence),
}
