"""Beliefs before the data: about weights, and about single parameters."""

from credibly.model.priors import Beta, Jeffreys, Normal, StudentT

__all__ = ["Beta", "Jeffreys", "Normal", "StudentT"]
