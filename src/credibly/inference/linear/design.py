"""Coordinates of the weights: standardized columns, and as many class vectors as the rows can tell apart.

Newton steps, Cholesky factors and evidences are computed in these coordinates, so that an answer does not depend on
the units of the columns; what a user sees is mapped back to data units.

Notation
--------
====  ===================================================================  =========================
X     columns as they came                                                 (n, d)
Z     rows of the design: (X - center) / scale, ones last                  (n, D), D = d or d + 1
W     weight vectors, one per class (one in all for two classes)           (K, D)
x     free weights: J stacked vectors, W = C x                             (J·D,)
C     class map                                                            (K, J)
====  ===================================================================  =========================
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from credibly.data.columns import Columns
from credibly.data.rows import Rows
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import DesignMatrix


class Coordinates(Protocol):
    """Coordinates of one weight vector: standardized columns, or the space of few rows."""

    @property
    def intercept(self) -> bool:
        """True where there is an intercept."""

    @property
    def size(self) -> int:
        """D, the length of one weight vector in these coordinates."""

    @property
    def log_volume(self) -> float:
        """log |det du/dw| of one weight vector, u in these coordinates and w in data units."""

    def design(self, X: DesignMatrix, /) -> DesignMatrix:
        """Rows that multiply u, for rows X."""

    def over(self, rows: Rows, /) -> "tuple[Rows, Standardization]":
        """Rows for passes over raw values, and the standardization that is left to fold into the weights."""

    def to_data(self, u: Array, /) -> Array:
        """Weights in data units for weights u."""

    def from_data(self, w: Array, /) -> Array:
        """Weights u for weights in data units."""

    def rows_from_data(self, Phi: Array, /) -> Array:
        """Rows Φ in data units, ones last, as rows that multiply u."""


FARTHEST_CENTER = 100.0  # scales between a column's mean and zero: squares of raw values then lose four digits


@dataclass(frozen=True)
class Standardization:
    """Centers and scales of the columns, and whether there is an intercept.

    Examples
    --------
    >>> standard = Standardization(center=np.array([10.0]), scale=np.array([2.0]), intercept=True)
    >>> standard.design(np.array([[14.0]]))
    array([[2., 1.]])
    >>> standard.to_data(np.array([1.0, 0.0]))
    array([ 0.5, -5. ])
    >>> standard.from_data(np.array([0.5, -5.0]))
    array([1., 0.])
    """

    center: Array  # (d,)
    scale: Array  # (d,)
    intercept: bool

    @classmethod
    def of(cls, columns: Columns, *, intercept: bool, sparse: bool) -> "Standardization":
        """Standardize; without an intercept, or where zeros must stay zeros, scale only."""
        centred = intercept and not sparse
        return cls(columns.mean if centred else np.zeros_like(columns.mean), columns.scale, intercept)

    @property
    def size(self) -> int:
        """D, the length of one weight vector in these coordinates."""
        return len(self.scale) + self.intercept

    @property
    def log_volume(self) -> float:
        """log |det du/dw| of one weight vector, u in these coordinates and w in data units."""
        return float(np.log(self.scale).sum())

    def centred(self, X: DesignMatrix) -> DesignMatrix:
        """Rows X less the centers; sparse ones become dense, for centring leaves no zeros."""
        return np.asarray(X.toarray() if isinstance(X, csr_array) else X) - self.center

    def design(self, X: DesignMatrix) -> DesignMatrix:
        """Z for rows X."""
        n, d = X.shape
        if isinstance(X, csr_array):
            if not self.center.any():
                return self._sparse_design(X)
            X = np.asarray(X.toarray())  # sparse rows for a model of dense ones: centring leaves no zeros
        Z = np.empty((n, d + self.intercept), order="F")  # contiguous columns: what follows runs down columns
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
        """Weights in data units for weights u of standardized columns; the last axis is one weight vector."""
        if not self.intercept:
            return u / self.scale
        slopes = u[..., :-1] / self.scale
        return np.concatenate([slopes, u[..., -1:] - (slopes @ self.center)[..., None]], axis=-1)

    def from_data(self, w: Array) -> Array:
        """Weights of standardized columns for weights w in data units; the last axis is one weight vector."""
        if not self.intercept:
            return w * self.scale
        slopes = w[..., :-1]
        return np.concatenate([slopes * self.scale, w[..., -1:] + (slopes @ self.center)[..., None]], axis=-1)

    def gradient(self, by_weight: Array, n_vectors: int) -> Array:
        """The chain rule: a gradient in weights of data units (first axis, K·D) as one in standardized weights."""
        g = by_weight.reshape(n_vectors, -1, *by_weight.shape[1:])
        scale = self.scale.reshape(-1, *(1 for _ in by_weight.shape[1:]))
        if not self.intercept:
            return np.asarray(g / scale).reshape(by_weight.shape)
        center = self.center.reshape(scale.shape)
        slopes = (g[:, :-1] - center * g[:, -1:]) / scale
        return np.concatenate([slopes, g[:, -1:]], axis=1).reshape(by_weight.shape)

    def rows_from_data(self, Phi: Array) -> Array:
        """Rows Φ in data units (a column of ones last, or anything in its place) as rows that multiply u."""
        if not self.intercept:
            return Phi / self.scale
        ones = Phi[..., -1:]
        return np.concatenate([(Phi[..., :-1] - ones * self.center) / self.scale, ones], axis=-1)

    def over(self, rows: Rows) -> tuple[Rows, "Standardization"]:
        """Rows for passes over raw values, and the standardization that is left to fold into the weights.

        Columns far from zero are centred in every block: sums of squares would lose the digits of their spread.
        """
        if (np.abs(self.center) <= FARTHEST_CENTER * self.scale).all():
            return rows, self
        return rows.through(self.centred), replace(self, center=np.zeros_like(self.center))


@dataclass(frozen=True)
class ClassMap:
    r"""Weight vectors of K classes as combinations of J free ones, W = C x.

    A softmax does not change when all its scores are shifted alike, so the rows know of K - 1 combinations only. Under
    a prior that treats classes alike, the K - 1 orthonormal contrasts and the mean over classes are independent before
    the data and after them, and along the mean the posterior *is* the prior: only contrasts are fitted.

    Examples
    --------
    >>> two = ClassMap.contrasts(2)
    >>> two.weights(np.array([4.0]))  # f₁ - f₀ = x
    array([[-2.],
           [ 2.]])
    """

    matrix: Array  # C, (K, J)

    @cached_property
    def identity(self) -> bool:
        """Whether every class has free weights of its own."""
        return bool(np.array_equal(self.matrix, np.eye(len(self.matrix))))

    @classmethod
    def separate(cls, n_classes: int) -> "ClassMap":
        """Every class has free weights of its own."""
        return cls(np.eye(n_classes))

    @classmethod
    def contrasts(cls, n_classes: int) -> "ClassMap":
        """Weights that add to zero over classes; of two classes, half the difference with either sign."""
        if n_classes == 2:
            return cls(np.array([[-0.5], [0.5]]))
        return cls(np.linalg.qr(np.eye(n_classes)[:, :-1] - 1.0 / n_classes)[0])

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.matrix)

    @property
    def n_free(self) -> int:
        """J."""
        return int(self.matrix.shape[1])

    @property
    def precision(self) -> float:
        """The prior precision of a free vector, in units of that of one class: the diagonal of CᵀC."""
        return float((self.matrix[:, 0] ** 2).sum())

    @property
    def of_scores(self) -> Array:
        """The map from free vectors to those of the likelihood's scores: of two classes, that of the difference."""
        return np.eye(1) if self.matrix.shape == (2, 1) else self.matrix

    def weights(self, x: Array) -> Array:
        """One weight vector per class, (…, K, D), from the free ones, (…, J·D)."""
        return self._mapped(self.matrix, x)

    def score_weights(self, x: Array) -> Array:
        """One weight vector per score of a row, from the free ones, (…, J·D)."""
        return self._mapped(self.of_scores, x)

    def _mapped(self, matrix: Array, x: Array) -> Array:
        free = x.reshape(*x.shape[:-1], self.n_free, -1)
        return free if self.identity else np.asarray(matrix @ free)

    def free(self, by_weight: Array) -> Array:
        """The chain rule on the first axis, from weights of scores to free ones.

        Of a shift of all classes alike rows tell nothing: what rounding left of one is taken off.
        """
        if self.identity:
            by_class = by_weight.reshape(len(self.matrix), -1)
            return by_weight if len(by_class) == 1 else (by_class - by_class.mean(axis=0)).reshape(by_weight.shape)
        matrix = self.of_scores
        per_score = by_weight.reshape(len(matrix), -1)
        size = by_weight.shape[0] // len(matrix) * self.n_free
        return np.asarray(matrix.T @ per_score).reshape(size, *by_weight.shape[1:])


def centring(n_classes: int) -> Array:
    """The matrix that takes their mean off K numbers, (K, K)."""
    return np.eye(n_classes) - 1.0 / n_classes


@dataclass(frozen=True)
class Design:
    """The coordinates in which a model is fitted, and the columns that learnt priors are scaled by."""

    standardization: Coordinates
    classes: ClassMap
    columns: Columns

    @property
    def size(self) -> int:
        """The number of free weights, J·D."""
        return self.classes.n_free * self.standardization.size

    def weights(self, x: Array) -> Array:
        """Weight vectors of standardized columns, (…, K, D), from free weights (…, J·D)."""
        return self.classes.weights(x)

    def score_weights(self, x: Array) -> Array:
        """The same for every score that the likelihood takes."""
        return self.classes.score_weights(x)

    def to_data(self, x: Array) -> Array:
        """Free weights (…, J·D) as weight vectors in data units, (…, K, D)."""
        return self.standardization.to_data(self.classes.weights(x))
