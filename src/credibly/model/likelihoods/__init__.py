"""p(y | f): the probability of a label given latent scores."""

from credibly.model.likelihoods.base import Expansion, Likelihood, Slopes
from credibly.model.likelihoods.categorical import Categorical
from credibly.model.likelihoods.thresholds import BernoulliLogit, BernoulliProbit

__all__ = ["BernoulliLogit", "BernoulliProbit", "Categorical", "Expansion", "Likelihood", "Slopes"]
