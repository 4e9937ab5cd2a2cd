"""Fixed nonlinear functions of the columns, for use in front of a linear model."""

from credibly.model.basis import GaussianBasis, SigmoidBasis

__all__ = ["GaussianBasis", "SigmoidBasis"]
