"""Weighted means, spreads and extremes of columns, merged over blocks without cancellation."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from credibly.data.rows import Block, Rows
from credibly.numerics.arrays import AnyArray, Array

FARTHEST = 100.0  # spreads between a column's mean and zero: raw squares then lose four digits of sixteen
LOOP = 1024  # numbers that a loop of NumPy should go over

Plain = tuple[Any, ...]  # the fields of `Columns`, as a checkpoint can record them


class Columns(NamedTuple):
    """Means, spreads and extremes of the columns of some rows.

    Attributes
    ----------
    weight : float
        Total weight of the rows.
    mean : (d,) float array
        Weighted means.
    scatter : (d,) float array
        Weighted sums of squared deviations from the mean.
    low, high : (d,) float arrays
        Extremes over the rows of positive weight.
    """

    weight: float
    mean: Array
    scatter: Array
    low: Array
    high: Array

    @property
    def scale(self) -> Array:
        """Standard deviations (divisor: the total weight); 1 for a constant column."""
        return np.where(self.constant, 1.0, np.sqrt(self.scatter / self.weight))

    @property
    def constant(self) -> AnyArray:
        """Flags of the columns that have one value only."""
        return np.asarray(self.low == self.high)


def describe(rows: Rows) -> Columns:
    """Means, spreads and extremes of all columns, in one pass.

    Examples
    --------
    >>> from credibly.data.rows import MemoryRows
    >>> describe(MemoryRows(np.array([[1.0, 5.0], [3.0, 5.0]]), np.zeros(2))).scale
    array([1., 1.])
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what overflowed shows in the extremes
        return Columns(*rows.sum(describe_block, merge_columns))


def describe_block(block: Block) -> Plain:
    """Means, spreads and extremes of the columns of one block."""
    block = block.counted
    X, weight = block.X, block.weights
    total = float(weight.sum())
    if total == 0:
        return 0.0, *(np.full(X.shape[1], value) for value in (0.0, 0.0, np.inf, -np.inf))
    if isinstance(X, csr_array):
        return _describe_sparse(X, weight)
    X = np.ascontiguousarray(X, dtype=np.float64)
    mean = weight @ X / total
    squares = np.einsum("ij,ij->j", X if block.weight is None else X * weight[:, None], X)
    scatter = squares - total * mean**2
    far = ~(scatter >= squares / FARTHEST**2)  # the difference has lost digits there, or is not a number
    if far.any():
        scatter[far] = weight @ (X[:, far] - mean[far]) ** 2
    return total, mean, scatter, _down(np.minimum, X), _down(np.maximum, X)


def _down(ufunc: np.ufunc, X: Array) -> Array:
    """Reduce the columns of a table, with several rows side by side: NumPy's loops along short rows are slow."""
    n, d = X.shape
    side = max(1, LOOP // d)
    whole = n - n % side
    if not whole:
        return np.asarray(ufunc.reduce(X, axis=0))
    folded = ufunc.reduce(X[:whole].reshape(-1, side * d), axis=0)
    return np.asarray(ufunc.reduce(np.vstack([folded.reshape(side, d), X[whole:]]), axis=0))


def _describe_sparse(X: csr_array, weight: Array) -> Plain:
    """Entries that are stored deviate by x - mean, the zeros that are not by -mean."""
    (n, d), j, x = X.shape, X.indices, X.data
    total, weights = float(weight.sum()), np.repeat(weight, np.diff(X.indptr))
    mean = np.bincount(j, weights * x, d) / total
    lacking = np.bincount(j, minlength=d) < n  # elsewhere the weight of the zeros is rounding
    zeros = np.where(lacking, total - np.bincount(j, weights, d), 0.0)
    scatter = np.bincount(j, weights * (x - mean[j]) ** 2, d) + zeros * mean**2
    low, high = (np.where(lacking, 0.0, end) for end in (np.inf, -np.inf))
    np.minimum.at(low, j, x)
    np.maximum.at(high, j, x)
    return total, mean, scatter, low, high


def merge_columns(one: Plain, other: Plain) -> Plain:
    """Chan, Golub & LeVeque 1983, eq. 2.1: centered scatters add, plus what the means differ by."""
    a, b = Columns(*one), Columns(*other)
    weight = a.weight + b.weight
    share = b.weight / weight if weight else 0.0
    gap = b.mean - a.mean
    return (
        weight,
        a.mean + share * gap,
        a.scatter + b.scatter + gap**2 * a.weight * share,
        np.minimum(a.low, b.low),
        np.maximum(a.high, b.high),
    )
