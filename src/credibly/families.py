"""Families of generalised linear models: the distribution of a target given its mean."""

from credibly.model.likelihoods.families import Gamma, Gaussian, InverseGaussian, NegativeBinomial, Poisson
from credibly.model.likelihoods.family_base import Family
from credibly.model.likelihoods.proportions import Bernoulli, Binomial

__all__ = ["Bernoulli", "Binomial", "Family", "Gamma", "Gaussian", "InverseGaussian", "NegativeBinomial", "Poisson"]
