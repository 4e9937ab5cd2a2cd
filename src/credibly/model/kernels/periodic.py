"""Functions that repeat themselves.

Notation
--------
=====  ==========================================================
δ_d    π (x_d - z_d) / period
S      Σ_d sin² δ_d
=====  ==========================================================
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from credibly.model.kernels.base import (
    Columns,
    Kernel,
    rows,
    shown,
    shown_columns,
    square_matrix,
    tables,
)
from credibly.model.kernels.hyperparameters import DEFAULT_BOUNDS, Bounds, Number, Prior, is_free
from credibly.model.kernels.stationary import BLOCK, squared_distances
from credibly.numerics.arrays import Array, row_blocks


@dataclass(frozen=True, repr=False)
class Periodic(Kernel):
    r"""Functions that repeat themselves after one period, in each column that it looks at.

    .. math:: k(x, z) = \exp\Big(-\frac{2}{\ell^2} \sum_d \sin^2 \frac{π (x_d - z_d)}{\mathrm{period}}\Big)

    Several columns: the product of one such kernel for each, which is positive definite (the sine of a Euclidean
    distance, scikit-learn's ExpSineSquared, is not in more than one column; in one both are the same). Usually one
    column is meant: ``Periodic(period=24.0, columns=["hour"])``. Columns of different periods: a product of kernels.

    Parameters
    ----------
    length_scale : float
        ℓ, smoothness within a period; dimensionless.
    period : float
        In the units of the columns.
    columns : sequence of ints or names, optional
        The columns it looks at; all of them if not given.
    length_scale_bounds, period_bounds : (float, float) or "fixed"
        Between which values they are searched for. The evidence has many maxima in the period: keep it in a narrow
        interval, or fixed.
    length_scale_prior, period_prior : LogNormal, optional
        A belief about them.

    Notes
    -----
    4 sin² δ is the squared distance of two points on the unit circle; their angles are found after taking whole periods
    off, which is exact, so that far from zero no digit is lost.

    References
    ----------
    RW06, eq. 4.31.

    Examples
    --------
    >>> Periodic(period=24.0)(np.array([[1.0]]), np.array([[25.0], [13.0]])).round(6)
    array([[1.      , 0.135335]])
    """

    length_scale: float = 1.0
    period: float = 1.0
    _: KW_ONLY
    columns: Columns = None
    length_scale_bounds: Bounds = DEFAULT_BOUNDS
    period_bounds: Bounds = DEFAULT_BOUNDS
    length_scale_prior: Prior = None
    period_prior: Prior = None

    numbers: ClassVar = (Number("length_scale"), Number("period"))
    positive_definite: ClassVar[bool] = True

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        x, z = tables(X, Z, self.columns)
        K = squared_distances(self._on_circles(x), None if z is None else self._on_circles(z))
        K *= -0.5 / self.length_scale**2
        return np.asarray(np.exp(K, out=K))

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))

    def gradient_sums(self, X: Array, M: Array, K: Array | None = None) -> Array:
        x, M = rows(X, self.columns), square_matrix(M, len(X))
        K = self(X) if K is None else K
        circles, angles = self._on_circles(x), np.pi / self.period * x
        by_length_scale = by_period = 0.0
        for block in row_blocks(len(K), K.shape[1], BLOCK):
            G = M[block] * K[block]
            if is_free(self, "length_scale"):  # ∂K/∂log ℓ = K · 4 S / ℓ²
                by_length_scale += np.einsum("ij,ij->", G, squared_distances(circles[block], circles))
            if is_free(self, "period"):  # ∂K/∂log period = K · 2/ℓ² Σ_d δ_d sin 2δ_d
                by_period += 2.0 * turning_sum(G, angles[block], angles)
        both = {"length_scale": by_length_scale, "period": by_period}
        return np.array([it for name, it in both.items() if is_free(self, name)]) / self.length_scale**2

    def _on_circles(self, x: Array) -> Array:
        """Every column as the point on a circle to which its period winds it, (n, 2d)."""
        angle = np.fmod(x, self.period) * (2.0 * np.pi / self.period)
        return np.hstack([np.cos(angle), np.sin(angle)])

    def __repr__(self) -> str:
        arguments = f"ℓ={shown(self.length_scale)}, period={shown(self.period)}{shown_columns(self.columns)}"
        return f"Periodic({arguments})"


def turning_sum(G: Array, x: Array, z: Array) -> float:
    """Σᵢⱼ Gᵢⱼ Σ_d δ sin 2δ of differences δ between angles."""
    total = 0.0
    for ours, theirs in zip(x.T, z.T, strict=True):
        delta = np.subtract.outer(ours, theirs)
        turn = np.sin(2.0 * delta)
        turn *= delta
        total += float(np.einsum("ij,ij->", G, turn))
    return total
