"""The largest eigenvalues of a symmetric operator by Lanczos, every vector kept orthogonal to all others."""

import numpy as np
from scipy.linalg import eigh_tridiagonal

from credibly.numerics.arrays import Array
from credibly.numerics.conjugate_gradients import Operator


class Lanczos:
    """A basis of Krylov vectors that can be made longer.

    Examples
    --------
    >>> A = Lanczos(lambda x: x * np.array([5.0, 1.0, 0.1]), np.ones(3))
    >>> A.extend(3)
    >>> A.pairs()[0].round(12)
    array([0.1, 1. , 5. ])
    """

    def __init__(self, apply: Operator, start: Array) -> None:
        self.apply = apply
        self.basis = (start / np.linalg.norm(start))[None]
        self.diagonal: list[float] = []
        self.beside: list[float] = []

    def extend(self, steps: int) -> None:
        """So many steps more, or fewer where the space is exhausted."""
        n = len(self.basis)
        self.basis = np.concatenate([self.basis, np.empty((steps, self.basis.shape[1]))])
        for _ in range(steps):
            w = self.apply(self.basis[n - 1 : n])[0]
            self.diagonal.append(float(w @ self.basis[n - 1]))
            for _ in range(2):  # twice is enough (Parlett)
                w -= (self.basis[:n] @ w) @ self.basis[:n]
            length = float(np.linalg.norm(w))
            if length <= np.finfo(float).eps * abs(self.diagonal[0]) * len(w):
                break
            self.beside.append(length)
            self.basis[n] = w / length
            n += 1
        self.basis = self.basis[:n]

    def pairs(self) -> tuple[Array, Array]:
        """Ritz values, ascending, and Ritz vectors (k, M)."""
        k = len(self.diagonal)
        values, vectors = eigh_tridiagonal(np.array(self.diagonal), np.array(self.beside[: k - 1]))
        return np.asarray(values, dtype=float), np.asarray(vectors.T @ self.basis[:k], dtype=float)
