"""Beliefs before the data: about weights, about single parameters, and conjugate ones about densities of classes."""

from credibly.model.conjugate_priors import Dirichlet, Gamma, NormalInverseWishart
from credibly.model.priors import Beta, Jeffreys, Normal, StudentT

__all__ = ["Beta", "Dirichlet", "Gamma", "Jeffreys", "Normal", "NormalInverseWishart", "StudentT"]
