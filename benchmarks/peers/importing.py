"""What a model of credibly costs to import, in fresh interpreters, on top of scikit-learn's linear models."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.peers import OTHER, OURS, Method
from benchmarks.problems import Problem


def importing(statement: str) -> Callable[[Problem, float], None]:
    def run(problem: Problem, tolerance: float) -> None:
        subprocess.run([sys.executable, "-c", statement], check=True)

    return run


def no_answer(made: Any, problem: Problem) -> None:
    """Nothing to compare."""


METHODS = {
    "ours": Method(
        "…, and from credibly import BayesianLogisticRegression",
        OURS,
        importing("import sklearn.linear_model; from credibly import BayesianLogisticRegression"),
        no_answer,
        threads=(None,),
    ),
    "peer": Method(
        "import sklearn.linear_model", OTHER, importing("import sklearn.linear_model"), no_answer, threads=(None,)
    ),
}
