r"""Weights of predictive densities that together predict best.

Notation
--------
=====  ====================================================================  =======
p      probability that each candidate gave to what happened, row by row     (n, K)
w      weights                                                               (K,)
r      share r_ik = p_ik / Σ_j w_j p_ij, so that Σ_k w_k r_ik = 1            (n, K)
g, H   gradient and Hessian of what is minimised                             (K,), (K, K)
z      multipliers of w ≥ 0                                                  (K,)
=====  ====================================================================  =======
"""

from typing import NamedTuple

import numpy as np

from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD

GOAL = 1e-10  # excess at which the weights are the best ones: nats per row that are still to be had
MOST_STEPS = 200
TOWARDS_BOUND = 0.995  # share of the way to the nearest bound that a step may go
CENTRING = 0.1  # share of the complementarity that each step aims at


class Stacking(NamedTuple):
    """Weights, and a bound on how far they are from the best: nats per row."""

    weights: Array  # (K,), ≥ 0, of sum one
    excess: float  # max_k mean_i r_ik - 1, zero at the best weights


def stack(log_p: Array) -> Stacking:
    r"""Weights of a mixture that make the mean log probability of the rows largest.

    .. math:: \max_w \; \frac1n \sum_i \log \sum_k w_k p_{ik}, \qquad w ≥ 0, \quad \sum_k w_k = 1

    The problem is concave. Since log is, :math:`\max_k \operatorname{mean}_i r_{ik} - 1` bounds what any other weights
    would gain, and is the certificate that these are the best. Adding Σw to minus the objective makes the sum-to-one
    constraint hold by itself at the solution; a primal-dual interior-point method does the rest.

    Parameters
    ----------
    log_p : (n, K) array
        Log probabilities; −inf is allowed. Rows that are impossible under every candidate say nothing about weights.

    Returns
    -------
    Stacking

    References
    ----------
    Yao, Vehtari, Simpson & Gelman 2018, sec. 3; Nocedal & Wright 2006, sec. 16.6 for the method.

    Examples
    --------
    >>> stack(np.log([[0.9, 0.4], [0.2, 0.4], [0.7, 0.4]])).weights.round(4)
    array([0.9893, 0.0107])
    """
    top = log_p.max(axis=1, keepdims=True)
    possible = np.isfinite(top[:, 0])
    p = np.exp(log_p[possible] - top[possible])
    K = log_p.shape[1]
    w, z = np.full(K, 1.0 / K), np.ones(K)
    excess = _shares(p, w)[1]
    for _ in range(MOST_STEPS):
        if excess <= GOAL:
            break
        w, z = _step(p, w, z)
        excess = _shares(p, w / w.sum())[1]
    return Stacking(w / w.sum(), max(excess, 0.0))


def _shares(p: Array, w: Array) -> tuple[Array, float]:
    """r, and how far the largest mean share is above one."""
    if not len(p):
        return p, 0.0
    r = p / (p @ w)[:, None]
    return r, float(r.mean(axis=0).max() - 1.0)


def _step(p: Array, w: Array, z: Array) -> tuple[Array, Array]:
    """One Newton step on g(w) = z, w z = μ, kept inside w, z > 0."""
    r = _shares(p, w)[0]
    g, H = 1.0 - r.mean(axis=0), r.T @ r / len(r)
    mu = CENTRING * float(w @ z) / len(w)
    move = PSD.of(H + np.diag(z / w), "the stacking problem").solve(mu / w - g)
    move_z = mu / w - z - z / w * move
    return w + _length(w, move) * move, z + _length(z, move_z) * move_z


def _length(at: Array, move: Array) -> float:
    """How far a step may go without leaving the positive numbers."""
    falling = move < 0
    return float(min(1.0, TOWARDS_BOUND * (at[falling] / -move[falling]).min(initial=np.inf)))
