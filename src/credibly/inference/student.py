"""Independent Student-t beliefs about weights: heavier tails than a Gaussian's, so large weights are allowed.

Notation
--------
====  ==================================================================  =======
u     weights in the frame, where the search runs                         (M,)
w     weights in data units, w = axesᵀu                                   (M,)
s     scales in data units                                                (M,)
ν     degrees of freedom; 1 is the Cauchy distribution                    scalar
====  ==================================================================  =======
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from credibly.numerics.arrays import Array
from credibly.numerics.linalg import Roots


@dataclass(frozen=True)
class IndependentStudent:
    r"""Every weight Student-t in data units, as a density of the weights in the frame.

    .. math:: p(w) = \prod_j t_ν(w_j / s_j) / s_j, \qquad -\log t_ν(z) = \tfrac{ν + 1}{2} \log(1 + z^2/ν) + …

    Not log-concave: beyond :math:`s\sqrt{ν}` the curvature is negative, and the curvature of the Gaussian that touches
    the density from below in its logarithm takes its place.

    Parameters
    ----------
    df : float
    scale : (M,) array
    axes : (M, M) array
        Rows are the frame's unit vectors in data units.
    log_volume : float
        log |det dw/du|.

    Examples
    --------
    >>> prior = IndependentStudent(1.0, np.array([2.0]), np.eye(1), 0.0)
    >>> round(float(np.exp(prior.logpdf(np.array([2.0])))) * 4 * np.pi, 12)  # the Cauchy density 1 / (2π(1 + 1))
    1.0
    """

    df: float
    scale: Array
    axes: Array
    log_volume: float

    @property
    def mean(self) -> Array:
        """The centre of the density, where searches start."""
        return np.zeros(len(self.scale))

    @property
    def log_concave(self) -> bool:
        """A Student-t density never is."""
        return False

    def logpdf(self, u: Array) -> Array:
        """Log density of the weights in the frame at u, (M,)."""
        z, half = self._data_units(u) / self.scale, (self.df + 1) / 2
        constant = gammaln(half) - gammaln(self.df / 2) - 0.5 * np.log(self.df * np.pi)
        terms = constant - np.log(self.scale) - half * np.log1p(z**2 / self.df)
        return np.asarray(terms.sum(axis=-1) + self.log_volume)

    def pull(self, u: Array) -> Array:
        """Gradient of minus the log density."""
        w = self._data_units(u)
        return np.asarray(self.axes @ ((self.df + 1) * w / self._spread(w)))

    def curvature(self, u: Array) -> Array:
        """Hessian of minus the log density; indefinite where a weight is far out."""
        return self._in_frame(self._bend(u))

    def roots(self, u: Array) -> Roots:
        """The same by its directions, those of weights that are far out with the other sign."""
        bend = self._bend(u)
        along = self.axes * np.sqrt(np.abs(bend))
        return Roots(along[:, bend > 0], along[:, bend < 0])

    def stand_in(self, u: Array) -> Array:
        """Hessian of the Gaussian that has the same pull: always positive."""
        return self._in_frame((self.df + 1) / self._spread(self._data_units(u)))

    def _data_units(self, u: Array) -> Array:
        return np.asarray(u @ self.axes)

    def _spread(self, w: Array) -> Array:
        return np.asarray(self.df * self.scale**2 + w**2)

    def _bend(self, u: Array) -> Array:
        """Minus the second derivative of the log density of each weight in data units."""
        w = self._data_units(u)
        return (self.df + 1) * (self.df * self.scale**2 - w**2) / self._spread(w) ** 2

    def _in_frame(self, diagonal: Array) -> Array:
        return np.asarray((self.axes * diagonal) @ self.axes.T)
