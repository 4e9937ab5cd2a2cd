"""Logarithms of products over columns, without one logarithm for each factor."""

import numpy as np
from scipy.special import gammaln

from credibly.numerics.arrays import Array
from credibly.numerics.linalg import DesignMatrix

STIRLING = 100.0  # from there on three terms of the series are exact to rounding


def log1p_product(q: Array) -> Array:
    r"""Logarithm of a product of 1 + q over the first axis.

    .. math:: \sum_j \log(1 + q_j) = \log\Bigl(1 + \Bigl[\prod_j (1 + q_j) - 1\Bigr]\Bigr)

    Parameters
    ----------
    q : (d, n) float array
        Not negative. Overwritten.

    Returns
    -------
    (n,) float array

    Notes
    -----
    One logarithm for d factors. Products less one are joined in pairs, (1 + a)(1 + b) - 1 = a + b + ab, which keeps the
    digits of small q; where a product may overflow, logarithms are added instead.

    Examples
    --------
    >>> (log1p_product(np.array([[1.0], [3.0]])) / np.log(2)).round(12)
    array([3.])
    """
    width = len(q)
    largest = float(q.max(initial=0.0))
    if not largest < float(np.finfo(float).max ** (1.0 / max(width, 1))) - 1:  # NaN comes this way, too
        return np.asarray(np.log1p(q).sum(axis=0))
    while width > 1:
        half = width // 2
        left, right = q[:half], q[width - half : width]
        product = left * right
        left += right
        left += product
        width -= half
    return np.asarray(np.log1p(q[0])) if len(q) else np.zeros(q.shape[1])


def log_product(X: DesignMatrix, log_p: Array) -> Array:
    """Σ_j x_j log p_cj, (n, K), for x ≥ 0, where 0 · log 0 is 0."""
    impossible = np.isneginf(log_p)
    out = np.asarray(X @ np.where(impossible, 0.0, log_p).T)
    if impossible.any():
        out[np.asarray(X @ impossible.T.astype(float)) > 0] = -np.inf
    return out


def log_rise(a: Array, s: Array | float, unit: Array | float = 1.0) -> Array:
    r"""Logarithm of a rising product, s steps up from a, each in units of `unit`.

    .. math:: \log \frac{Γ(a + s)}{Γ(a)} - s \log \mathrm{unit}

    Notes
    -----
    For large a the difference of two log-gamma functions keeps few digits (at a = 1e12 none): there it is written with
    Stirling's series, whose large parts cancel on paper.

    Examples
    --------
    >>> log_rise(np.array([1e15]), 2.0, 1e15).round(12)
    array([0.])
    """
    a, s = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(s, dtype=float))
    large = a >= STIRLING
    safe = np.where(large, a, STIRLING)
    series = (safe + s - 0.5) * np.log1p(s / safe) - s + s * np.log(safe / unit) + _tail(safe + s) - _tail(safe)
    small = np.where(large, 1.0, a)
    return np.where(large, series, gammaln(small + s) - gammaln(small) - s * np.log(unit))


def _tail(x: Array) -> Array:
    """What Stirling's formula leaves of log Γ: exact to rounding from 100 on."""
    return np.asarray((1 / 12 - (1 / 360 - 1 / (1260 * x**2)) / x**2) / x)
