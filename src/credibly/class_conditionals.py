"""Densities p(x | c) for `GenerativeClassifier(class_conditional=…)` and the columns of `NaiveBayes(features=[…])`."""

from credibly.model.class_conditionals.bernoulli import Bernoulli
from credibly.model.class_conditionals.categorical import Categorical
from credibly.model.class_conditionals.choices import Independent, MultivariateGaussian
from credibly.model.class_conditionals.gaussian import Gaussian
from credibly.model.class_conditionals.multinomial import Multinomial
from credibly.model.class_conditionals.rates import Exponential, Gamma, Poisson

__all__ = [
    "Bernoulli",
    "Categorical",
    "Exponential",
    "Gamma",
    "Gaussian",
    "Independent",
    "Multinomial",
    "MultivariateGaussian",
    "Poisson",
]
