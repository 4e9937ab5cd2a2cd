"""Deterministic points for expectations under a normal distribution.

Two kinds: Gauss–Hermite nodes for one dimension (and their products), quasi-random points for many. Weights
are kept as logarithms, because those of the outermost nodes are far below the smallest positive number.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, roots_hermitenorm
from scipy.stats import qmc

from credibly.errors import InputError
from credibly.numerics.arrays import Array
from credibly.numerics.special import log_sum_exp

__all__ = ["Rule", "gauss_hermite", "log_expectation", "normal_points"]

_MOST_NODES = 600


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
    log_weights = -2.0 * np.log(np.abs(last))
    return _frozen(nodes, log_weights - log_sum_exp(log_weights))


def _frozen(nodes: Array, log_weights: Array) -> Rule:
    nodes.flags.writeable = False  # the cache hands out the same arrays to everybody
    log_weights.flags.writeable = False
    return Rule(nodes, log_weights)


def log_expectation(log_g: Callable[[Array], Array], m: ArrayLike, v: ArrayLike, n: int = 64) -> Array:
    r"""Logarithm of the mean of a positive function of a normal variable.

    .. math:: \log E[g(f)], \qquad f \sim N(m, v)

    Parameters
    ----------
    log_g : callable
        Element-wise; given an array (..., n) of values of f, returns log g(f) of that shape.
    m, v : float arrays, broadcast together
        Mean and variance of f; v ≥ 0.
    n : int
        Number of Gauss–Hermite nodes.

    Returns
    -------
    float array, the broadcast shape of m and v

    Notes
    -----
    Accurate while log g is smooth on the scale √v; how many nodes that takes depends on g.

    Examples
    --------
    >>> float(log_expectation(lambda f: f, m=-1000.0, v=4.0))  # a log-normal mean, m + v/2
    -998.0
    """
    nodes, log_weights = gauss_hermite(n)
    scale = np.sqrt(np.asarray(v, dtype=float))[..., None]
    return log_sum_exp(log_g(np.asarray(m, dtype=float)[..., None] + scale * nodes) + log_weights)


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
    sobol = qmc.Sobol(dim, scramble=True, rng=np.random.default_rng(20240229))
    half = ndtri(sobol.random(size // 2))
    factor = np.linalg.cholesky(half.T @ half / len(half))
    half = np.linalg.solve(factor, half.T).T
    points = np.concatenate([half, -half])
    points.flags.writeable = False
    return points
