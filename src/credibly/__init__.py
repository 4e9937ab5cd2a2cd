"""Classification with honest probabilities: every classifier is a posterior."""

from credibly._version import __version__
from credibly.diagnostics.separation import separation
from credibly.estimators.linear import BayesianLogisticRegression, BayesianProbitRegression
from credibly.model.priors import Normal
from credibly.numerics.newton import Status

__all__ = [
    "BayesianLogisticRegression",
    "BayesianProbitRegression",
    "Normal",
    "Status",
    "__version__",
    "separation",
]
