"""dask-ml: L-BFGS on a Dask array in memory, its gradients summed over chunks by threads.

Its `newton` and `gradient_descent` take no prior, and `admm` has no single tolerance: they are not asked.
"""

from typing import Any

import numpy as np

from benchmarks.peers import FIRST_ORDER, LADDER, Method
from benchmarks.problems import Problem

CHUNKS = 4


def chunked(problem: Problem) -> Any:
    import dask.array as da

    def make() -> Any:
        rows = -(-problem.spec.n // CHUNKS)
        return da.from_array(problem.X, chunks=(rows, -1)), da.from_array(problem.y, chunks=rows)

    return problem.keep("dask arrays", make)


def fit(problem: Problem, tolerance: float) -> Any:
    from dask_ml.linear_model import LogisticRegression

    if problem.spec.scale is None:
        raise ValueError("dask-ml is asked for a penalised fit only")
    X, y = chunked(problem)
    model = LogisticRegression(
        C=problem.spec.scale**2, fit_intercept=False, solver="lbfgs", tol=tolerance, max_iter=10_000
    )
    return model.fit(X, y)


def weights(model: Any, problem: Problem) -> Any:
    return np.asarray(model.coef_).ravel()


METHODS = {"lbfgs": Method("dask-ml lbfgs", FIRST_ORDER, fit, weights, LADDER, prepare=chunked)}
