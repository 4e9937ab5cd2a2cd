"""What no fit can beat: one pass over the rows for a gradient, and one for a Hessian.

The first reads X once, at memory bandwidth; a gradient needs that at least. The second is BLAS's symmetric product,
half of XᵀX; a posterior covariance needs the like of it at least once.
"""

from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from benchmarks.peers import LIMIT, Method
from benchmarks.problems import Problem


def gradient_pass(problem: Problem, tolerance: float) -> Any:
    return problem.X @ problem.keep("direction", lambda: np.ones(problem.X.shape[1]))


def hessian_pass(problem: Problem, tolerance: float) -> Any:
    return dsyrk(1.0, problem.X.T, lower=1)  # the transpose of rows in C order is in Fortran order: nothing is copied


def no_answer(made: Any, problem: Problem) -> Any:
    return None


METHODS = {
    "gradient": Method("one gradient pass (X @ w)", LIMIT, gradient_pass, no_answer),
    "hessian": Method("one Hessian pass (dsyrk)", LIMIT, hessian_pass, no_answer),
}
