"""Classification with honest probabilities: every classifier is a posterior."""

from importlib import import_module
from typing import Any

from credibly._version import __version__
from credibly.comparison import Comparison, compare
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
from credibly.estimators.linear import BayesianLogisticRegression, BayesianProbitRegression, NoisyThresholdClassifier
from credibly.estimators.model_average import ModelAverage
from credibly.inference.density import laplace_approximation
from credibly.model.likelihoods import NormalMixture
from credibly.model.priors import Jeffreys, Normal, StudentT
from credibly.numerics.newton import Status

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


_LATER = {  # not needed to fit a model, or asking for packages that may not be there
    "ParquetRows": "credibly.data.parquet",
    "load": "credibly.persistence",
    "save": "credibly.persistence",
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


def __getattr__(name: str) -> Any:
    """Submodules that hold public names, and names of rooms above, are imported when they are first asked for."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name in _SUBMODULES:
        return import_module(f"credibly.{name}")
    raise AttributeError(f"module 'credibly' has no attribute {name!r}")
