"""Weighted means, spreads and extremes of columns, merged over blocks without cancellation."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from credibly.data.source import Block, Rows
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import scratch


class Columns(NamedTuple):
    """What is known of the columns of some rows.

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
        """Which columns have one value only."""
        return np.asarray(self.low == self.high)


def describe(rows: Rows) -> Columns:
    """Means, spreads and extremes of all columns, in one pass.

    Examples
    --------
    >>> from credibly.data.source import MemoryRows
    >>> describe(MemoryRows(np.array([[1.0, 5.0], [3.0, 5.0]]), np.zeros(2))).scale
    array([1., 1.])
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what overflowed shows in the extremes
        return rows.sum(_describe_block, _merge)


def _describe_block(block: Block) -> Columns:
    X, weight = block.X, block.weight
    if weight is None:
        weight = np.ones(X.shape[0])
    if (weight == 0).any():
        X, weight = X[weight > 0], weight[weight > 0]
    total = float(weight.sum())
    if total == 0:
        return Columns(0.0, *(np.full(X.shape[1], value) for value in (0.0, 0.0, np.inf, -np.inf)))
    if isinstance(X, csr_array):
        mean = weight @ X / total
        return Columns(
            total, mean, _sparse_scatter(X, mean, weight), _sparse_extreme(X, "min"), _sparse_extreme(X, "max")
        )
    table = scratch(X.shape[1], X.shape[0])  # a copy with contiguous columns: four reductions run down them
    np.copyto(table, X.T)
    mean = table @ weight / total
    low, high = table.min(axis=1), table.max(axis=1)
    table -= mean[:, None]
    table *= table
    return Columns(total, mean, table @ weight, low, high)


def _sparse_extreme(X: csr_array, how: str) -> Array:
    return np.asarray(getattr(X, how)(axis=0).toarray()).reshape(-1)


def _sparse_scatter(X: csr_array, mean: Array, weight: Array) -> Array:
    """Entries that are stored deviate by (x - mean), the zeros that are not by -mean."""
    weights = np.repeat(weight, np.diff(X.indptr))
    stored = csr_array((weights, X.indices, X.indptr), X.shape).sum(axis=0)
    deviation = csr_array((weights * (X.data - mean[X.indices]) ** 2, X.indices, X.indptr), X.shape).sum(axis=0)
    full = np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]  # no zeros: the difference below is rounding
    return np.asarray(deviation + np.where(full, 0.0, weight.sum() - stored) * mean**2)


def _merge(a: Columns, b: Columns) -> Columns:
    """Chan, Golub & LeVeque 1983, eq. 2.1: centred scatters add, plus what the means differ by."""
    weight = a.weight + b.weight
    share = b.weight / weight if weight else 0.0
    gap = b.mean - a.mean
    return Columns(
        weight,
        a.mean + share * gap,
        a.scatter + b.scatter + gap**2 * a.weight * share,
        np.minimum(a.low, b.low),
        np.maximum(a.high, b.high),
    )
