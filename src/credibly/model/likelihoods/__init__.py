"""p(y | f): the probability of a label given latent scores."""

from credibly.model.likelihoods.base import Averaged, Expansion, Likelihood, Slopes
from credibly.model.likelihoods.categorical import Categorical
from credibly.model.likelihoods.choices import threshold_likelihood
from credibly.model.likelihoods.distribution import BernoulliDistribution, LocationScale
from credibly.model.likelihoods.mixture import LOGISTIC_MIXTURE, BernoulliMixture, NormalMixture
from credibly.model.likelihoods.thresholds import (
    BernoulliCauchit,
    BernoulliCloglog,
    BernoulliLogit,
    BernoulliLoglog,
    BernoulliProbit,
)

__all__ = [
    "LOGISTIC_MIXTURE",
    "Averaged",
    "BernoulliCauchit",
    "BernoulliCloglog",
    "BernoulliDistribution",
    "BernoulliLogit",
    "BernoulliLoglog",
    "BernoulliMixture",
    "BernoulliProbit",
    "Categorical",
    "Expansion",
    "Likelihood",
    "LocationScale",
    "NormalMixture",
    "Slopes",
    "threshold_likelihood",
]
