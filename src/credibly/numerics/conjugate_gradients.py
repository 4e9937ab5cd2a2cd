"""Conjugate gradients for several right-hand sides at once, and what their coefficients say of the spectrum.

Notation
--------
====  =============================================================================  ======
A     a symmetric positive definite operator                                         (M, M)
b     right-hand sides, one per row                                                  (m, M)
T     tridiagonal Lanczos matrix of A started at b, from the coefficients            (k, k)
====  =============================================================================  ======
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

from credibly.numerics.arrays import AnyArray, Array

Operator = Callable[[Array], Array]
OwnTerm = Callable[[Array, AnyArray], Array]  # of vectors, and of the right-hand sides that they belong to


class Solved(NamedTuple):
    """Solutions, and the coefficients of every step."""

    x: Array  # (m, M)
    alpha: Array  # (k, m), NaN after a right-hand side was done
    beta: Array  # (k, m), likewise
    start: Array  # (m,): bᵀP⁻¹b

    @property
    def steps(self) -> int:
        """How often A was applied."""
        return len(self.alpha)

    def of(self, chosen: slice) -> "Solved":
        """Some of the right-hand sides."""
        return Solved(self.x[chosen], self.alpha[:, chosen], self.beta[:, chosen], self.start[chosen])

    def log_quadratic(self) -> Array:
        """cᵀ log(L⁻¹AL⁻ᵀ) c with b = Lc for a preconditioner P = LLᵀ (the identity without), by Gauss quadrature.

        References
        ----------
        Golub & Meurant 2010, ch. 6; Ubaru, Chen & Saad 2017.
        """
        return np.array(
            [norm * _first_log(a, b) for norm, a, b in zip(self.start, self.alpha.T, self.beta.T, strict=True)]
        )


def _first_log(alpha: Array, beta: Array) -> float:
    """(log T)₁₁."""
    alpha, beta = alpha[np.isfinite(alpha)], beta[np.isfinite(alpha)]
    diagonal = 1.0 / alpha
    diagonal[1:] += beta[:-1] / alpha[:-1]
    values, vectors = eigh_tridiagonal(diagonal, np.sqrt(beta[:-1]) / alpha[:-1])
    return float(vectors[0] ** 2 @ np.log(values))


def conjugate_gradients(
    apply: Operator,
    b: Array,
    precondition: Operator | None = None,
    *,
    tol: float | Array,
    most: int,
    own: OwnTerm | None = None,
) -> Solved:
    """Solve A x = b until bᵀx = bᵀA⁻¹b is known to the relative accuracy `tol`, or `most` steps were taken.

    `tol` may be one for every right-hand side; A is applied to those only that are not done. Every right-hand side may
    have a matrix A of its own: `own` says what it adds to the product with the common one.
    bᵀx rises with every step; k steps of which the last adds the share s are enough when k·s ≤ tol. A small residual
    would not do: where A is ill-conditioned, most of bᵀA⁻¹b may lie in what the residual hardly shows.

    References
    ----------
    Nash & Sofer 1990 (the stopping rule); Hestenes & Stiefel 1952 (what a step adds).

    Examples
    --------
    >>> found = conjugate_gradients(lambda x: x * np.array([1.0, 2.0]), np.array([[1.0, 1.0]]), tol=1e-12, most=5)
    >>> found.x.round(12), found.steps
    (array([[1. , 0.5]]), 2)
    >>> bool(np.isclose(found.log_quadratic()[0], np.log(2.0)))
    True
    """
    x, r, tol = np.zeros_like(b), b.copy(), np.broadcast_to(tol, len(b))
    z = r if precondition is None else precondition(r)
    start = np.einsum("ij,ij->i", r, z)
    alphas, betas = [], []
    live = np.flatnonzero(start > 0)  # which right-hand sides the arrays below are of
    r, p, rz, energy, part = r[live], z[live], start[live], np.zeros(len(live)), x[live]
    for step in range(1, most + 1):
        if not live.size:
            break
        Ap = apply(p) if own is None else apply(p) + own(p, live)
        alpha = rz / np.einsum("ij,ij->i", p, Ap)
        part += alpha[:, None] * p
        r -= alpha[:, None] * Ap
        z = r if precondition is None else precondition(r)
        last, rz = rz, np.einsum("ij,ij->i", r, z)
        alphas.append(_spread(alpha, live, len(b)))
        betas.append(_spread(rz / last, live, len(b)))
        energy += alpha * last
        goes_on = (step * alpha * last > tol[live] * energy) & (rz > np.finfo(float).tiny)
        p = z + (rz / last)[:, None] * p
        if not goes_on.all():
            x[live] = part
            live, r, p, rz, energy, part = (it[goes_on] for it in (live, r, p, rz, energy, part))
    x[live] = part
    shape = (len(alphas), len(b))
    return Solved(x, np.array(alphas).reshape(shape), np.array(betas).reshape(shape), start)


def _spread(values: Array, places: AnyArray, size: int) -> Array:
    """Values at their places, NaN elsewhere."""
    out = np.full(size, np.nan)
    out[places] = values
    return out
