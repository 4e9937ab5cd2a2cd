"""A prior on very many slopes, with the intercept where the columns have their means."""

import numpy as np
from numpy.typing import ArrayLike

from credibly.model.priors import DEFAULT_INTERCEPT_SCALE, DEFAULT_SCALE, Moments, Normal, WeightShape
from credibly.numerics.arrays import Array


class CentredNormal(Normal):
    """Independent slopes, and an independent normal intercept *at one point* of the columns instead of at zero.

    What ``prior="empirical"`` learns, without the matrix of all pairs of weights that says the same.

    Parameters
    ----------
    scale : (d,) array
        Standard deviations of the slopes.
    intercept_scale : float
        Standard deviation of the score at `point`.
    point : (d,) array
        Usually the column means.

    Examples
    --------
    >>> CentredNormal([2.0], 10.0, [3.0]).moments(WeightShape(1, 1, True)).cov
    array([[  4., -12.],
           [-12., 136.]])
    """

    def __init__(
        self,
        scale: ArrayLike = DEFAULT_SCALE,
        intercept_scale: float = DEFAULT_INTERCEPT_SCALE,
        point: ArrayLike = 0.0,
    ) -> None:
        super().__init__(scale, intercept_scale)
        self.point = point

    def __repr__(self) -> str:
        return (
            f"CentredNormal({np.size(self.scale)} slopes, intercept_scale={self.intercept_scale} at the column means)"
        )

    def moments(self, shape: WeightShape) -> Moments:
        """Mean and covariance of all weights of a model of this shape."""
        plain = super().moments(shape)
        if not shape.intercept:
            return plain
        point = np.broadcast_to(np.asarray(self.point, dtype=float), (shape.n_features,))
        cov = plain.cov.reshape(shape.n_outputs, shape.per_output, shape.n_outputs, shape.per_output)
        slopes: Array = np.broadcast_to(np.asarray(self.scale, dtype=float), (shape.n_features,))
        lean = -(slopes**2) * point
        for k in range(shape.n_outputs):
            cov[k, -1, k, :-1] = cov[k, :-1, k, -1] = lean
            cov[k, -1, k, -1] -= lean @ point
        return plain
