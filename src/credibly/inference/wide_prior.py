"""Gaussian priors of very many weights: independent slopes, and an intercept that leans on them."""

from typing import NamedTuple

import numpy as np

from credibly.inference.frame import Frame
from credibly.inference.posterior import WideGaussian
from credibly.model.centred_prior import CentredNormal
from credibly.model.priors import Normal, WeightShape, one_vector_scales
from credibly.numerics.arrays import Array
from credibly.numerics.arrow import Arrow
from credibly.numerics.low_rank import ChosenDirections, WidePrecision


class WidePrior(NamedTuple):
    """N(mean, (GᵀG)⁻¹) over each of K weight vectors in the frame.

    Examples
    --------
    >>> frame = Frame(center=np.zeros(2), scale=np.ones(2), intercept=True)
    >>> WidePrior.of(Normal(scale=2.0), WeightShape(2, 1, True), frame).arrow.diagonal
    array([0.5, 0.5, 0.1])
    """

    arrow: Arrow
    mean: Array  # (K, D)

    @classmethod
    def of(cls, choice: Normal, shape: WeightShape, frame: Frame) -> "WidePrior":
        """A prior in data units, without a matrix of covariances, in the frame."""
        scales = one_vector_scales(choice.scale, choice.intercept_scale, shape)
        mean = frame.to_frame(_full_mean(choice, shape).reshape(shape.n_outputs, -1))
        if not shape.intercept:
            return cls(Arrow(1.0 / (scales * frame.scale), np.zeros_like(scales)), mean)
        point = np.asarray(choice.point, dtype=float) if isinstance(choice, CentredNormal) else 0.0
        diagonal = 1.0 / (scales * np.append(frame.scale, 1.0))
        return cls(Arrow(diagonal, np.append((point - frame.center) / frame.scale, 0.0) * diagonal[-1]), mean)

    @property
    def gaussian(self) -> WideGaussian:
        """The same as a distribution that can be asked for densities and draws."""
        K, D = self.mean.shape
        low = ChosenDirections.of(self.arrow, np.eye(K), np.ones((K, D)), np.zeros((K, D, 1)))
        return WideGaussian(self.mean.reshape(-1), WidePrecision(low))


def _full_mean(choice: Normal, shape: WeightShape) -> Array:
    """The mean of all weights, by a prior that has the same mean and no matrix."""
    return np.zeros(shape.total) if choice.mean is None else choice._full_mean(shape)
