"""The frame: coordinates of the weights in which every column has mean zero and spread one.

Newton steps, Cholesky factors and evidences are computed there, so that the answer does not depend on the units of the
columns; what a user sees is mapped back.

Notation
--------
====  ==============================================================  =========================
X     columns as they came                                            (n, d)
Z     the design in the frame: (X - center) / scale, ones last        (n, D), D = d or d + 1
w     weights in data units, intercept last                           (…, D)
u     weights in the frame, Z u = X w₁…d + b                          (…, D)
====  ==============================================================  =========================
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from credibly.data.columns import Columns
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import DesignMatrix


@dataclass(frozen=True)
class Frame:
    """Centres and scales of the columns, and whether there is an intercept.

    Examples
    --------
    >>> frame = Frame(center=np.array([10.0]), scale=np.array([2.0]), intercept=True)
    >>> frame.design(np.array([[14.0]]))
    array([[2., 1.]])
    >>> frame.to_data(np.array([1.0, 0.0]))
    array([ 0.5, -5. ])
    >>> frame.to_frame(np.array([0.5, -5.0]))
    array([1., 0.])
    """

    center: Array  # (d,)
    scale: Array  # (d,)
    intercept: bool

    @classmethod
    def of(cls, columns: Columns, *, intercept: bool, sparse: bool) -> "Frame":
        """Standardise; without an intercept, or where zeros must stay zeros, scale only."""
        centred = intercept and not sparse
        center = columns.mean if centred else np.zeros_like(columns.mean)
        return cls(center, columns.scale, intercept)

    @property
    def full(self) -> "Frame":
        """The frame of all columns: this one."""
        return self

    @property
    def log_volume(self) -> float:
        """log |det du/dw| of one weight vector."""
        return float(np.log(self.scale).sum())

    def centred(self, X: DesignMatrix) -> DesignMatrix:
        """Rows X less the centres; sparse ones become dense, for centring leaves no zeros."""
        return np.asarray(X.toarray() if isinstance(X, csr_array) else X) - self.center

    def design(self, X: DesignMatrix) -> DesignMatrix:
        """Z for rows X."""
        n, d = X.shape
        if isinstance(X, csr_array):
            if not self.center.any():
                return self._sparse_design(X)
            X = np.asarray(X.toarray())  # sparse rows for a model of dense ones: centring leaves no zeros
        Z = np.empty((n, d + self.intercept), order="F")  # columns contiguous: what follows runs down columns
        np.subtract(X, self.center, out=Z[:, :d])
        Z[:, :d] *= 1.0 / self.scale
        if self.intercept:
            Z[:, d] = 1.0
        return Z

    def _sparse_design(self, X: csr_array) -> csr_array:
        scaled = csr_array((X.data / self.scale[X.indices], X.indices, X.indptr), X.shape)
        if not self.intercept:
            return scaled
        n, d = X.shape
        ends = X.indptr[1:]  # the intercept's one goes to the end of every row
        return csr_array(
            (np.insert(scaled.data, ends, 1.0), np.insert(X.indices, ends, d), X.indptr + np.arange(n + 1)),
            (n, d + 1),
        )

    def to_data(self, u: Array) -> Array:
        """w for weights u in the frame; the last axis is one weight vector."""
        if not self.intercept:
            return u / self.scale
        slopes = u[..., :-1] / self.scale
        return np.concatenate([slopes, u[..., -1:] - (slopes @ self.center)[..., None]], axis=-1)

    def to_frame(self, w: Array) -> Array:
        """u for weights w in data units; the last axis is one weight vector."""
        if not self.intercept:
            return w * self.scale
        slopes = w[..., :-1]
        return np.concatenate([slopes * self.scale, w[..., -1:] + (slopes @ self.center)[..., None]], axis=-1)

    def gradient(self, by_weight: Array, n_outputs: int) -> Array:
        """The chain rule: a gradient in weights of data units (first axis, K·D) as one in weights of the frame."""
        g = by_weight.reshape(n_outputs, -1, *by_weight.shape[1:])
        scale = self.scale.reshape(-1, *(1 for _ in by_weight.shape[1:]))
        if not self.intercept:
            return np.asarray(g / scale).reshape(by_weight.shape)
        center = self.center.reshape(scale.shape)
        slopes = (g[:, :-1] - center * g[:, -1:]) / scale
        return np.concatenate([slopes, g[:, -1:]], axis=1).reshape(by_weight.shape)

    def rows_to_frame(self, Phi: Array) -> Array:
        """Rows Φ in data units (a ones column last, or anything in its place) as rows that multiply u."""
        if not self.intercept:
            return Phi / self.scale
        ones = Phi[..., -1:]
        return np.concatenate([(Phi[..., :-1] - ones * self.center) / self.scale, ones], axis=-1)
