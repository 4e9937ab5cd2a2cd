"""Priors on very many slopes, without the matrix of all pairs of weights."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from credibly.model.priors import Moments, Normal, WeightShape, one_vector_scales
from credibly.numerics.arrays import Array


@dataclass(eq=False, repr=False)
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
    mean : array, optional
        As of `Normal`.

    Examples
    --------
    >>> CentredNormal([2.0], 10.0, [3.0]).moments(WeightShape(1, 1, True)).cov
    array([[  4., -12.],
           [-12., 136.]])
    """

    point: ArrayLike = 0.0

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


class IndependentPrior(NamedTuple):
    r"""Independent normal slopes, and an independent normal score at one point of the columns, in data units.

    .. math:: w_j \sim N(m_j, s_j^2), \qquad b + p^\top w \sim N(m_b + p^\top m, t^2)

    Examples
    --------
    >>> prior = IndependentPrior.of(CentredNormal([2.0], 10.0, [3.0]), WeightShape(1, 1, True))
    >>> prior.whiten(np.array([2.0, 4.0]))  # one standard deviation of the slope; a score of 3·2 + 4 at the point
    array([1., 1.])
    """

    mean: Array  # (K, D), intercept last: m
    scale: Array  # (d,): s
    intercept_scale: float  # t; without a meaning where there is no intercept
    point: Array  # (d,): p

    @classmethod
    def of(cls, prior: Normal, shape: WeightShape) -> Self:
        """A prior that is given by scales."""
        scale = one_vector_scales(prior.scale, prior.intercept_scale, shape)[: shape.n_features]
        given = prior.point if isinstance(prior, CentredNormal) else 0.0
        point = np.broadcast_to(np.asarray(given, dtype=float), scale.shape)
        mean = prior.full_mean(shape).reshape(shape.n_outputs, -1)
        return cls(mean, scale, float(prior.intercept_scale), point)

    def whiten(self, w: Array) -> Array:
        """Deviations of weights from their mean, (…, D), in units in which they are independent and of variance one."""
        d = len(self.scale)
        slopes = w[..., :d]
        if w.shape[-1] == d:
            return slopes / self.scale
        score = w[..., -1] + slopes @ self.point
        return np.concatenate([slopes / self.scale, score[..., None] / self.intercept_scale], axis=-1)
