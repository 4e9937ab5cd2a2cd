"""Conjugate gradients for several right-hand sides at once, and the log determinant estimated from their coefficients.

Notation
--------
====  =============================================================================  ======
A     a symmetric positive definite operator                                         (M, M)
P     its preconditioner, a diagonal                                                 (M,)
b     right-hand sides, one per row                                                  (m, M)
T     tridiagonal Lanczos matrix of P^(-1/2) A P^(-1/2) started at P^(-1/2) b        (k, k)
====  =============================================================================  ======
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

from credibly.numerics.arrays import Array

Operator = Callable[[Array], Array]  # of vectors, one per row


class Solved(NamedTuple):
    """Solutions, and the coefficients of every step."""

    x: Array  # (m, M)
    alpha: Array  # (k, m): step lengths; NaN once a right-hand side was done
    beta: Array  # (k, m): ratios of squared residuals, likewise
    start: Array  # (m,): bᵀP⁻¹b

    @property
    def steps(self) -> int:
        """The number of products with A."""
        return len(self.alpha)


def conjugate_gradients(apply: Operator, b: Array, P: Array, *, tol: float, most: int) -> Solved:
    """Solve A x = b until bᵀx = bᵀA⁻¹b is known to the relative accuracy `tol`, or `most` steps were taken.

    A is applied to those right-hand sides only that are not done. bᵀx rises with every step; k steps of which the last
    adds the share s are enough when k·s ≤ tol. A small residual would not do: where A is ill-conditioned, most of
    bᵀA⁻¹b may lie in what the residual hardly shows.

    References
    ----------
    Nash & Sofer 1990 (the stopping rule); Hestenes & Stiefel 1952 (what a step adds).

    Examples
    --------
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> solved = conjugate_gradients(lambda x: x @ A, np.array([[3.0, 4.0]]), np.diag(A), tol=1e-12, most=5)
    >>> solved.x.round(12)
    array([[1., 1.]])
    """
    x = np.zeros_like(b)
    start = np.einsum("ij,j,ij->i", b, 1 / P, b)
    live = np.flatnonzero(start > 0)  # which right-hand sides the arrays below are of
    r, p, rz, energy = b[live], b[live] / P, start[live], np.zeros(len(live))
    alphas, betas = [], []
    for step in range(1, most + 1):
        if not live.size:
            break
        Ap = apply(p)
        alpha = rz / np.einsum("ij,ij->i", p, Ap)
        x[live] += alpha[:, None] * p
        r -= alpha[:, None] * Ap
        z = r / P
        last, rz = rz, np.einsum("ij,ij->i", r, z)
        alphas.append(np.full(len(b), np.nan))
        betas.append(np.full(len(b), np.nan))
        alphas[-1][live], betas[-1][live] = alpha, rz / last
        gain = alpha * last
        energy += gain
        p = z + (rz / last)[:, None] * p
        unfinished = (step * gain > tol * energy) & (rz > np.finfo(float).tiny)
        if not unfinished.all():
            live, r, p, rz, energy = (it[unfinished] for it in (live, r, p, rz, energy))
    shape = (len(alphas), len(b))
    return Solved(x, np.array(alphas).reshape(shape), np.array(betas).reshape(shape), start)


def log_quadratic(solved: Solved) -> Array:
    r"""cᵀ log(P^(-1/2) A P^(-1/2)) c with c = P^(-1/2) b for every right-hand side, by Gauss quadrature, (m,).

    .. math:: \log\det A = \sum_j \log P_j + \mathbb{E}\, c^\top \log(P^{-1/2} A P^{-1/2})\, c

    for c of independent random signs: stochastic Lanczos quadrature.

    References
    ----------
    Golub & Meurant 2010, ch. 6; Ubaru, Chen & Saad 2017.

    Examples
    --------
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])  # all unit vectors give the trace of log A, without noise
    >>> solved = conjugate_gradients(lambda x: x @ A, np.eye(2), np.ones(2), tol=1e-12, most=5)
    >>> round(float(np.exp(log_quadratic(solved).sum())), 12)
    5.0
    """
    triples = zip(solved.start, solved.alpha.T, solved.beta.T, strict=True)
    return np.array([norm * _first_log(alpha, beta) for norm, alpha, beta in triples])


def _first_log(alpha: Array, beta: Array) -> float:
    """(log T)₁₁."""
    alpha, beta = alpha[np.isfinite(alpha)], beta[np.isfinite(alpha)]
    diagonal = 1.0 / alpha
    diagonal[1:] += beta[:-1] / alpha[:-1]
    values, vectors = eigh_tridiagonal(diagonal, np.sqrt(beta[:-1]) / alpha[:-1])
    return float(vectors[0] ** 2 @ np.log(values))
