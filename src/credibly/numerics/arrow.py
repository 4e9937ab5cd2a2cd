"""Triangular matrices with a diagonal and a last row, applied to rows without filling their zeros.

Notation
--------
====  =======================================================================  =======
G     lower triangular, zero but for its diagonal and its last row             (D, D)
Z     rows, dense or CSR                                                       (n, D)
====  =======================================================================  =======
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import DesignMatrix


@dataclass(frozen=True)
class Arrow:
    """G, which whitens weights whose slopes are independent, and whose intercept leans on them.

    Examples
    --------
    >>> G = Arrow(np.array([2.0, 1.0]), np.array([3.0, 0.0]))
    >>> G.times(np.array([1.0, 1.0]))
    array([2., 4.])
    >>> G.solve(np.array([2.0, 4.0]))
    array([1., 1.])
    """

    diagonal: Array  # (D,), positive
    last: Array  # (D,): the last row left of the diagonal, then a zero

    @property
    def logdet(self) -> float:
        """Log determinant of GᵀG."""
        return float(2 * np.log(self.diagonal).sum())

    def times(self, u: Array) -> Array:
        """G u; the last axis is D long, here and below."""
        v = self.diagonal * u
        v[..., -1] += u @ self.last
        return v

    def solve(self, v: Array) -> Array:
        """G⁻¹ v."""
        u = np.asarray(v / self.diagonal)
        u[..., -1] -= u @ self.last / self.diagonal[-1]
        return u

    def transposed(self, y: Array) -> Array:
        """Gᵀ y."""
        return np.asarray(self.diagonal * y + self.last * y[..., -1:])

    def whiten(self, Z: DesignMatrix) -> Array:
        """Z G⁻¹, dense: for a vector, G⁻ᵀ z."""
        rows = Z if isinstance(Z, np.ndarray) else np.asarray(Z.toarray())
        return np.asarray((rows - rows[..., -1:] / self.diagonal[-1] * self.last) / self.diagonal)

    def products(self, A: DesignMatrix, B: DesignMatrix) -> Array:
        """A G⁻¹ G⁻ᵀ Bᵀ, (n, m): inner products of all rows of A and B, zeros left out where either is sparse."""
        if isinstance(A, np.ndarray) and isinstance(B, np.ndarray):
            return np.asarray(self.whiten(A) @ self.whiten(B).T)
        weight = np.where(self._far, 0.0, self.diagonal**-2)
        lean = self.last * weight
        a, b = (_last_column(Z) / self.diagonal[-1] for Z in (A, B))
        inner = _dense(_scaled(A, weight) @ B.T) + self._far_columns(A) @ self._far_columns(B).T
        inner -= np.outer(a, np.asarray(B @ lean)) + np.outer(np.asarray(A @ lean), b)
        return np.asarray(inner + np.outer(a, b) * (lean @ self.last))

    def squares(self, Z: DesignMatrix, share: Array) -> Array:
        """Σ_j share_j (Z G⁻¹)²_j for every row: its squared length, coordinates weighted."""
        if isinstance(Z, np.ndarray):
            return np.asarray(self.whiten(Z) ** 2 @ share)
        weight = np.where(self._far, 0.0, share * self.diagonal**-2)
        lean, last = self.last * weight, _last_column(Z) / self.diagonal[-1]
        squared = csr_array((Z.data**2, Z.indices, Z.indptr), Z.shape)
        far = self._far_columns(Z) ** 2 @ share[self._far]
        return np.asarray(squared @ weight - 2 * last * (Z @ lean) + last**2 * (lean @ self.last) + far)

    @property
    def n_dense(self) -> int:
        """How many columns of sparse rows are dense after whitening."""
        return int(self._far.sum())

    @property
    def _far(self) -> AnyArray:
        """Columns whose mean is farther from zero than their spread.

        Their squares would be small differences of large numbers. More than half of their cells are stored, so that
        they are few, and may be dense.
        """
        return np.asarray(np.abs(self.last) > self.diagonal[-1])

    def _far_columns(self, Z: DesignMatrix) -> Array:
        """Those columns of Z G⁻¹, dense."""
        far = np.flatnonzero(self._far)
        rows = _dense(Z[:, far])
        lean = (_last_column(Z) / self.diagonal[-1])[:, None] * self.last[far]
        return np.asarray((rows - lean) / self.diagonal[far])


def _last_column(Z: DesignMatrix) -> Array:
    return Z[:, -1] if isinstance(Z, np.ndarray) else np.asarray(Z[:, [-1]].toarray()).reshape(-1)


def _scaled(Z: DesignMatrix, weight: Array) -> DesignMatrix:
    if isinstance(Z, np.ndarray):
        return Z * weight
    return csr_array((Z.data * weight[Z.indices], Z.indices, Z.indptr), Z.shape)


def _dense(product: DesignMatrix) -> Array:
    return product if isinstance(product, np.ndarray) else np.asarray(product.toarray())
