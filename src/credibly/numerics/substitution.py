"""Triangular systems for many right-hand sides that are rows, by products that other threads need not wait for.

Notation
--------
====  ==============================================  =======
L     a lower triangular matrix                       (m, m)
B     right-hand sides, one in each row               (b, m)
====  ==============================================  =======

LAPACK solves them too, but SciPy holds the interpreter's lock meanwhile, so that threads with a block of rows each
would take turns, and OpenBLAS solves at half the speed at which it multiplies.
"""

from typing import NamedTuple

import numpy as np

from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, scratch

STRIP = 48  # columns solved at a time: within a tenth of the fastest for 100 to 500 columns (measured)


class Strip(NamedTuple):
    """Some neighbouring columns of L, and the rows with the same numbers."""

    start: int
    end: int
    left: Array  # L[start:end, :start]
    below: Array  # L[end:, start:end]
    inverse: Array  # of L[start:end, start:end]


class Substitution(NamedTuple):
    """L, cut into strips.

    A strip is found from those before it, as in substitution by hand; only within a strip is L inverted. So the errors
    are those of substitution as long as the blocks on the diagonal are well conditioned, however L is.

    Examples
    --------
    >>> L = np.array([[2.0, 0.0], [1.0, 4.0]])
    >>> by_rows = Substitution.of(PSD(np.asfortranarray(L)))
    >>> by_rows.forward(np.array([[2.0, 9.0], [0.0, 4.0]]))
    array([[1., 2.],
           [0., 1.]])
    """

    strips: tuple[Strip, ...]

    @classmethod
    def of(cls, matrix: PSD, width: int = STRIP) -> "Substitution":
        """For the Cholesky factor of a matrix."""
        L, m = matrix.factor, len(matrix.factor)
        cuts = [(start, min(start + width, m)) for start in range(0, m, width)]
        return cls(
            tuple(
                Strip(i, j, np.ascontiguousarray(L[i:j, :i]), L[j:, i:j], PSD(L[i:j, i:j]).inverse_root)
                for i, j in cuts
            )
        )

    def forward(self, B: Array) -> Array:
        """L⁻¹ b in the place of every row b."""
        for start, end, left, _, inverse in self.strips:
            self._solved(B[:, start:end], B[:, :start], left.T, inverse.T)
        return B

    def backward(self, B: Array) -> Array:
        """L⁻ᵀ b in the place of every row b."""
        for start, end, _, below, inverse in reversed(self.strips):
            self._solved(B[:, start:end], B[:, end:], below, inverse)
        return B

    @staticmethod
    def _solved(here: Array, known: Array, weight: Array, inverse: Array) -> None:
        """(here - known weight) inverse, in the place of here."""
        rows, columns = here.shape
        work = scratch(rows, columns, "substitution")
        np.matmul(known, weight, out=work)
        np.subtract(here, work, out=work)
        np.matmul(work, inverse, out=here)
