"""Deterministic points for expectations under a normal distribution.

Gauss–Hermite and evenly spaced nodes for one dimension (and their products), quasi-random points for many. Weights of
nodes are given as logarithms, because those of the outermost are far below the smallest positive number.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, roots_hermitenorm
from scipy.stats import qmc

from credibly.errors import InputError
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.special import log_sum_exp

_MOST_NODES = 600  # from 740 on the recurrence of the weights overflows at the outermost nodes
_SEED = 20240229  # part of the definition of the quasi-random rule, as nodes are of a Gauss rule


class Rule(NamedTuple):
    """Points and log-weights; the weights sum to one."""

    nodes: Array  # (n,)
    log_weights: Array  # (n,)


@lru_cache(maxsize=64)
def gauss_hermite(n: int) -> Rule:
    r"""Gauss–Hermite rule for the standard normal distribution.

    .. math:: E[g(x)] = \sum_{i=1}^n w_i\, g(x_i) \quad\text{for polynomials of degree} < 2n

    Parameters
    ----------
    n : int
        Number of nodes, 1 to 600.

    Returns
    -------
    Rule
        Nodes in increasing order and log-weights, both (n,) and read-only.

    Notes
    -----
    The weight at xᵢ is 1 / (n hₙ₋₁(xᵢ)²) with hₖ the orthonormal Hermite polynomials. Its logarithm is found
    by their recurrence, so that it is right where the weight itself would underflow (n above 350).

    References
    ----------
    DLMF, sec. 3.5(v) and table 18.9.1.

    Examples
    --------
    >>> nodes, log_weights = gauss_hermite(5)
    >>> round(float(np.exp(log_weights) @ nodes**4), 12)  # the fourth moment
    3.0
    """
    if not 1 <= n <= _MOST_NODES:
        raise InputError(f"a Gauss-Hermite rule needs 1 to {_MOST_NODES} nodes, not {n}")
    nodes = np.asarray(roots_hermitenorm(n)[0], dtype=float)
    before, last = np.zeros(n), np.ones(n)
    for k in range(1, n):
        before, last = last, (nodes * last - np.sqrt(k - 1.0) * before) / np.sqrt(float(k))
    return _read_only(nodes, -2.0 * np.log(np.abs(last)))


@lru_cache(maxsize=64)
def trapezoid(n: int, reach: float) -> Rule:
    r"""Trapezoidal rule for the standard normal distribution.

    .. math:: E[g(x)] \approx \sum_i w_i\, g(x_i), \qquad w_i \propto e^{-x_i^2/2}

    Better than Gauss–Hermite when g has a pole at distance a < 3 from the real axis: the error is of order
    exp(−2πa/h) with h the step.

    Parameters
    ----------
    n : int
        Number of nodes, at least 2.
    reach : float
        The nodes are equally spaced on [−reach, reach].

    Returns
    -------
    Rule
        Nodes and log-weights, both (n,) and read-only.

    References
    ----------
    Trefethen, Weideman (2014), The exponentially convergent trapezoidal rule, theorem 5.1.

    Examples
    --------
    >>> nodes, log_weights = trapezoid(25, reach=6.0)
    >>> round(float(np.exp(log_weights) @ nodes**4), 6)
    3.0
    """
    nodes = np.linspace(-reach, reach, n)
    return _read_only(nodes, -0.5 * nodes**2)


def _read_only(nodes: Array, log_weights: Array) -> Rule:
    """Normalized; the cache hands out the same arrays to everybody."""
    rule = Rule(nodes, log_weights - log_sum_exp(log_weights))
    for part in rule:
        part.flags.writeable = False
    return rule


@lru_cache(maxsize=16)
def normal_points(size: int, dim: int) -> Array:
    r"""Quasi-random standard normal points, the same ones every time.

    .. math:: E[g(x)] \approx \frac1S \sum_{i=1}^S g(x_i), \qquad x_i \in \mathbb{R}^r

    The points come in pairs ±x and are stretched so that their covariance is exactly the identity: every
    polynomial of degree three or less is averaged without error.

    Parameters
    ----------
    size : int
        Number S of points; a power of two, larger than 2·dim.
    dim : int
        Dimension r.

    Returns
    -------
    (size, dim) float array, read-only
        The second half is minus the first.

    Notes
    -----
    A scrambled Sobol sequence with a fixed seed, mapped by the normal quantile function. The seed is part of
    the definition of the rule, as the nodes of a Gauss rule are.

    Examples
    --------
    >>> x = normal_points(256, 3)
    >>> np.allclose(x.mean(axis=0), 0) and np.allclose(x.T @ x / 256, np.eye(3))
    True
    """
    if size & (size - 1) or size <= 2 * dim:
        raise InputError(f"size must be a power of two larger than 2 * dim = {2 * dim}, not {size}")
    # 60 bits: with the usual 30 a coordinate may be exactly 0, whose normal quantile is −inf
    sobol = qmc.Sobol(dim, scramble=True, bits=60, rng=np.random.default_rng(_SEED))
    half = ndtri(sobol.random(size // 2))
    half = PSD.of(half.T @ half / len(half), "the covariance of the points").half_solve(half.T).T
    points = np.concatenate([half, -half])
    points.flags.writeable = False
    return points
