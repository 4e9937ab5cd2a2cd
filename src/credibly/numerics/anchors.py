r"""Projections of a Gaussian that are known exactly, put into one that is not.

Notation
--------
====  ===========================================================================================  ======
B     covariance of x, approximate                                                                 (M, M)
E     some projections t = Eᵀx                                                                     (M, m)
F     exact covariances of x with t, so that S = EᵀF = LLᵀ is the covariance of t                  (M, m)
a     B E L₀⁻ᵀ with EᵀBE = L₀L₀ᵀ                                                                   (M, m)
f     F L⁻ᵀ                                                                                        (M, m)
====  ===========================================================================================  ======

Given t, x keeps the covariance that it has under B; t itself has its exact covariance, and x leans on it exactly:

.. math:: B' = B - a a^T + f f^T, \quad B' E = F.

With N = I + (f - a)(Eᵀa)⁻¹Eᵀ that is N B Nᵀ, and N⁻¹ = I - (f - a)(Eᵀf)⁻¹Eᵀ: a root of B becomes one of B'.

References
----------
The update of Davidon, Fletcher & Powell, for several directions at once (Nocedal & Wright 2006, eq. 6.15).
"""

from dataclasses import dataclass

import numpy as np

from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD


@dataclass(frozen=True)
class Anchors:
    """E, a and f; vectors x are rows (…, M).

    Examples
    --------
    >>> it = Anchors.of(np.array([[1.0], [1.0]]), held=np.array([[1.0], [1.0]]), exact=np.array([[6.0], [2.0]]))
    >>> N = it.times(np.eye(2)).T
    >>> (N @ N.T) @ it.ends  # B is the identity here
    array([[6.],
           [2.]])
    """

    ends: Array  # E
    held: Array  # a
    exact: Array  # f

    @classmethod
    def none(cls, size: int) -> "Anchors":
        """Nothing is known."""
        return cls(*(np.zeros((size, 0)) for _ in range(3)))

    @classmethod
    def of(cls, ends: Array, held: Array, exact: Array) -> "Anchors":
        """From E, B E and F."""
        if not ends.size:
            return cls.none(len(ends))
        return cls(ends, _normed(ends, held), _normed(ends, exact))

    def times(self, x: Array) -> Array:
        """N x."""
        return np.asarray(x + np.linalg.solve(self._held_ends, (x @ self.ends).T).T @ self._gap.T)

    def solve(self, x: Array) -> Array:
        """N⁻¹ x."""
        return np.asarray(x - np.linalg.solve(self._exact_ends, (x @ self.ends).T).T @ self._gap.T)

    def times_transposed(self, x: Array) -> Array:
        """Nᵀ x."""
        return np.asarray(x + np.linalg.solve(self._held_ends.T, (x @ self._gap).T).T @ self.ends.T)

    def solve_transposed(self, x: Array) -> Array:
        """N⁻ᵀ x."""
        return np.asarray(x - np.linalg.solve(self._exact_ends.T, (x @ self._gap).T).T @ self.ends.T)

    @property
    def logdet(self) -> float:
        """log |det N|."""
        return float(np.linalg.slogdet(self._exact_ends)[1] - np.linalg.slogdet(self._held_ends)[1])

    @property
    def trace(self) -> float:
        """What the anchors add to the trace of the covariance."""
        return float((self.exact**2).sum() - (self.held**2).sum())

    @cached_property
    def _gap(self) -> Array:
        return self.exact - self.held

    @cached_property
    def _held_ends(self) -> Array:
        return np.asarray(self.ends.T @ self.held)

    @cached_property
    def _exact_ends(self) -> Array:
        return np.asarray(self.ends.T @ self.exact)


def _normed(ends: Array, covariances: Array) -> Array:
    """Covariances of x with t as covariances with white t."""
    S = ends.T @ covariances
    L = PSD.of(0.5 * (S + S.T), "the covariance of the anchors")
    return np.ascontiguousarray(L.half_solve(np.asfortranarray(covariances.T)).T)
