"""Weighted means, spreads and extremes of columns, merged over blocks without cancellation."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from credibly.data.source import FEWEST_ROWS, WORTH_THREADS, Block, MemoryRows, Rows, Stored, whole_block
from credibly.data.threads import Helpers, default_threads
from credibly.numerics import fused
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import is_sparse, scratch

PART_NUMBERS, MOST_PARTS = 100_000, 64  # of a table that threads walk over together: some thirty microseconds each
COMPILED_NUMBERS = 500_000  # in a block for the compiled kernel: with fewer, merging takes as long as walking


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
    numbers = rows.X.size if isinstance(rows, MemoryRows) and not is_sparse(rows.X) else 0
    numbers = rows.n_rows * len(rows.names) if isinstance(rows, Stored) else numbers
    compiled = fused.pays(fused.COLUMNS, numbers)
    if compiled and isinstance(rows, MemoryRows) and rows.block_rows is None:
        rows = rows.in_blocks(max(FEWEST_ROWS, COMPILED_NUMBERS // max(1, rows.X.shape[1])))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflowed shows in the extremes
        if compiled and (found := _described_in_parts(rows)) is not None:
            return found
        return rows.sum(partial(describe_block, compiled=compiled), merge_columns)


def _described_in_parts(rows: Rows) -> Columns | None:
    """The same for a table of many numbers that threads can walk over together without the interpreter, else None."""
    whole = whole_block(rows)
    if whole is None or whole.weight is not None or whole.X.size < WORTH_THREADS or not whole.X.flags.c_contiguous:
        return None
    X = np.asarray(whole.X)
    n, count = len(X), min(MOST_PARTS, X.size // PART_NUMBERS)
    if X.shape[1] < fused.FEWEST_ACROSS or not isinstance(rows, MemoryRows):
        return None
    parts = fused.Columns(X, n * np.arange(count + 1) // count)
    parts.begin()
    Helpers(parts, rows.threads or default_threads()).finish()
    mean, scatter, low, high = parts.out.swapaxes(0, 1)
    if not np.isfinite(mean).all():  # the extremes have passed over what is not
        return None
    weight = np.diff(parts.cuts)[:, None]  # what `merge_columns` does for two, for all at once
    centre = mean[0] + (weight * (mean - mean[0])).sum(axis=0) / n
    spread = scatter.sum(axis=0) + (weight * (mean - centre) ** 2).sum(axis=0)
    return Columns(float(n), centre, spread, low.min(axis=0), high.max(axis=0))


def describe_block(block: Block, *, compiled: bool = False) -> Columns:
    """Means, spreads and extremes of the columns of one block; `compiled` where that is worth it."""
    X, weight = block.X, block.weight
    if compiled and weight is None and isinstance(X, np.ndarray) and X.flags.forc:
        found = fused.describe(X)
        if np.isfinite(found[0]).all():  # else the extremes have passed over what is not
            return Columns(float(len(X)), *found)
    if weight is None:
        weight = np.ones(X.shape[0])
    if (weight == 0).any():
        X, weight = X[weight > 0], weight[weight > 0]
    total = float(weight.sum())
    if total == 0:
        return Columns(0.0, *(np.full(X.shape[1], value) for value in (0.0, 0.0, np.inf, -np.inf)))
    if isinstance(X, csr_array):
        return _describe_sparse(X, weight)
    table = scratch(X.shape[1], X.shape[0])  # a copy with contiguous columns: four reductions run down them
    np.copyto(table, X.T)
    mean = table @ weight / total
    low, high = table.min(axis=1), table.max(axis=1)
    table -= mean[:, None]
    table *= table
    return Columns(total, mean, table @ weight, low, high)


def _describe_sparse(X: csr_array, weight: Array) -> Columns:
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
    return Columns(total, mean, scatter, low, high)


def merge_columns(a: Columns, b: Columns) -> Columns:
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
