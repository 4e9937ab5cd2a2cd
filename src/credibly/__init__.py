"""Classification with honest probabilities: every classifier is a posterior."""

from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING, Any

from credibly._version import __version__

if TYPE_CHECKING:  # what `__getattr__` finds, for type checkers
    from credibly.comparison import Comparison, compare
    from credibly.data.parquet import ParquetRows
    from credibly.diagnostics.separation import separation
    from credibly.estimators.gaussian_process import GaussianProcessClassifier
    from credibly.estimators.generative import (
        GenerativeClassifier,
        LinearDiscriminant,
        NaiveBayes,
        QuadraticDiscriminant,
    )
    from credibly.estimators.glm import BayesianGLM
    from credibly.estimators.least_squares import LeastSquaresClassifier
    from credibly.estimators.linear import (
        BayesianLogisticRegression,
        BayesianProbitRegression,
        NoisyThresholdClassifier,
    )
    from credibly.estimators.model_average import ModelAverage
    from credibly.inference.density import laplace_approximation
    from credibly.model.likelihoods import NormalMixture
    from credibly.model.priors import Jeffreys, Normal, StudentT
    from credibly.numerics.status import Status
    from credibly.persistence import load, save

__all__ = [
    "BayesianGLM",
    "BayesianLogisticRegression",
    "BayesianProbitRegression",
    "Comparison",
    "GaussianProcessClassifier",
    "GenerativeClassifier",
    "Jeffreys",
    "LeastSquaresClassifier",
    "LinearDiscriminant",
    "ModelAverage",
    "NaiveBayes",
    "NoisyThresholdClassifier",
    "Normal",
    "NormalMixture",
    "ParquetRows",
    "QuadraticDiscriminant",
    "Status",
    "StudentT",
    "__version__",
    "compare",
    "laplace_approximation",
    "load",
    "save",
    "separation",
]


if find_spec("pyarrow") is None:  # `from credibly import *` gives what there is
    __all__.remove("ParquetRows")

_WHERE = {  # a model is imported without the others: half of the time
    "BayesianGLM": "estimators.glm",
    "BayesianLogisticRegression": "estimators.linear",
    "BayesianProbitRegression": "estimators.linear",
    "Comparison": "comparison",
    "GaussianProcessClassifier": "estimators.gaussian_process",
    "GenerativeClassifier": "estimators.generative",
    "Jeffreys": "model.priors",
    "LeastSquaresClassifier": "estimators.least_squares",
    "LinearDiscriminant": "estimators.generative",
    "ModelAverage": "estimators.model_average",
    "NaiveBayes": "estimators.generative",
    "NoisyThresholdClassifier": "estimators.linear",
    "Normal": "model.priors",
    "NormalMixture": "model.likelihoods",
    "ParquetRows": "data.parquet",
    "QuadraticDiscriminant": "estimators.generative",
    "Status": "numerics.status",
    "StudentT": "model.priors",
    "compare": "comparison",
    "laplace_approximation": "inference.density",
    "load": "persistence",
    "save": "persistence",
    "separation": "diagnostics.separation",
}
_SUBMODULES = {
    "averages",
    "basis",
    "class_conditionals",
    "diagnostics",
    "errors",
    "export",
    "families",
    "kernels",
    "links",
    "persistence",
    "plots",
    "priors",
    "report",
    "tables",
}
_ROOMS = {"comparison", "data", "decisions", "estimators", "inference", "model", "numerics", "predictive"}
_ONE_AT_A_TIME = RLock()  # scikit-learn's modules import each other, which fails where two threads begin at once


def __getattr__(name: str) -> Any:
    """Public names, and the modules that hold others, are imported when they are first asked for."""
    if name in _WHERE:
        with _ONE_AT_A_TIME:
            try:
                found = globals()[name] = getattr(import_module(f"credibly.{_WHERE[name]}"), name)
            except ModuleNotFoundError as error:
                if error.name != "pyarrow":
                    raise
                raise ImportError(f"{name} needs pyarrow: pip install 'credibly[data]'", name=error.name) from error
        return found
    if name in _SUBMODULES | _ROOMS:
        with _ONE_AT_A_TIME:
            return import_module(f"credibly.{name}")
    raise AttributeError(f"module 'credibly' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES, *_ROOMS})
