"""The Rows protocol, and rows in memory.

Every statistic that weight-space inference and generative models need is a sum over rows, or merges like one. So a
source of rows has two verbs: ``sum`` applies a function to every block of rows and adds the results, ``map`` applies
it and keeps the rows. Blocks fit the processor's cache and run on threads; what a sum returns does not depend on the
number of threads, since the cuts depend only on the table's shape and the parts are added in order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from scipy.sparse import csr_array

from credibly.data.threads import default_threads, in_order, single_threaded_blas
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import DesignMatrix

CACHED_NUMBERS = 64_000  # numbers in a block: half a megabyte, which fits the second-level cache
COPIED_NUMBERS = 8_000_000  # numbers in a table that may be held a second time, transformed: 64 megabytes
FEWEST_ROWS = 256  # below that a product of a block with its transpose is all overhead
WORTH_THREADS = 200_000  # numbers in a table: below that a pass is faster than handing out blocks


class Block(NamedTuple):
    """Some rows: their columns, class codes (or targets), weights and offsets."""

    X: DesignMatrix  # (b, d)
    y: AnyArray  # (b,)
    weight: Array | None  # (b,), None for all ones
    offset: Array | None = None  # (b,), added to the score of every row

    @property
    def weights(self) -> Array:
        """The weights, ones where there are none."""
        return np.ones(len(self.y)) if self.weight is None else self.weight


Result = TypeVar("Result")
Sums = tuple[Array | float, ...]
RowWise = Callable[[Block], Array]
Change = Callable[[DesignMatrix], DesignMatrix]


def add(a: Sums, b: Sums) -> Sums:
    """Add two tuples of numbers and arrays, entry by entry."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


class Rows(Protocol):
    """What a model may ask of its data."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]) -> Result:
        """Apply `block` to every block of rows and merge the results."""

    def map(self, block: RowWise) -> Array:
        """Apply `block` to every block of rows and stack what it returns, one row for each row."""

    def through(self, change: Change) -> "Rows":
        """The same rows with `change` applied to the columns of every block."""

    def in_blocks(self, block_rows: int) -> "Rows":
        """The same rows, handed out in blocks of this size."""

    def relabelled(self, y: AnyArray) -> "Rows":
        """The same rows with other labels, or anything else that belongs to each of them: (n, …)."""

    def sample(self, rng: np.random.Generator, size: int) -> "Rows":
        """A random part of the rows, weighted so that its sums estimate those of all rows."""

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Block]:
        """All rows once, in random order, `size` at a time."""


@dataclass(frozen=True)
class MemoryRows:
    """Rows of an array in memory, dense (float64, or float32 kept as it is) or CSR.

    A float32 table is cast block by block: every sum is accumulated in float64.

    Parameters
    ----------
    X : (n, d) array or csr_array
    y : (n,) array
    weight : (n,) array or None
    offset : (n,) array or None
    threads : int
    block_rows : int or None
        Rows in a block; None cuts blocks that fit the cache.

    Examples
    --------
    >>> rows = MemoryRows(np.arange(6.0).reshape(3, 2), np.array([0, 1, 1]))
    >>> rows.sum(lambda block: (block.X.sum(axis=0), len(block.y)), add)
    (array([6., 9.]), 3)
    """

    X: DesignMatrix
    y: AnyArray
    weight: Array | None = None
    threads: int | None = None
    block_rows: int | None = None
    offset: Array | None = None
    changes: tuple[Change, ...] = field(default=())

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]) -> Result:
        """Apply `block` to every block of rows and merge the results in order."""
        cuts = self._cuts
        if len(cuts) == 1:
            return block(self._block(cuts[0]))
        with single_threaded_blas():
            return reduce(merge, in_order(lambda cut: block(self._block(cut)), cuts, self.threads or default_threads()))

    def map(self, block: RowWise) -> Array:
        """Apply `block` to every block of rows and stack what it returns."""
        cuts = self._cuts
        if len(cuts) == 1:
            return block(self._block(cuts[0]))
        with single_threaded_blas():
            return np.concatenate(
                list(in_order(lambda cut: block(self._block(cut)), cuts, self.threads or default_threads()))
            )

    def through(self, change: Change) -> "MemoryRows":
        """The same rows with `change` applied, when they are asked for."""
        return replace(self, changes=(*self.changes, change))

    def in_blocks(self, block_rows: int) -> "MemoryRows":
        """The same rows, handed out in blocks of this size."""
        return replace(self, block_rows=block_rows)

    def relabelled(self, y: AnyArray) -> "MemoryRows":
        """The same rows with other labels, or anything else that belongs to each of them: (n, …)."""
        again = replace(self, y=y)
        if "_changed_table" in vars(self):  # not to be changed anew
            vars(again)["_changed_table"] = self._changed_table
        return again

    def sample(self, rng: np.random.Generator, size: int) -> "MemoryRows":
        """`size` rows drawn without replacement, in order, each standing for n / size of them."""
        chosen = np.sort(rng.choice(self.n_rows, size, replace=False, shuffle=False))
        weight = np.ones(size) if self.weight is None else self.weight[chosen]
        offset = None if self.offset is None else self.offset[chosen]
        return replace(self, X=self.X[chosen], y=self.y[chosen], weight=weight * (self.n_rows / size), offset=offset)

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Block]:
        """All rows once, in random order, `size` at a time."""
        order = rng.permutation(self.n_rows)
        return (self._block(order[start : start + size]) for start in range(0, self.n_rows, size))

    def _block(self, cut: slice | Codes) -> Block:
        small = self.changes and (isinstance(self.X, csr_array) or self.X.size <= COPIED_NUMBERS)
        X = self._changed_table[cut] if small else self._changed(self.X[cut])
        weight, offset = (None if held is None else held[cut] for held in (self.weight, self.offset))
        return Block(X, self.y[cut], weight, offset)

    @cached_property
    def _changed_table(self) -> DesignMatrix:
        """The whole table after its changes, kept: what is small or sparse is not changed again in every pass."""
        return self._changed(self.X)

    def _changed(self, X: DesignMatrix) -> DesignMatrix:
        if not isinstance(X, csr_array):
            X = np.asarray(X, dtype=np.float64)
        for change in self.changes:
            X = change(X)
        return X

    @cached_property
    def _cuts(self) -> list[slice]:
        n, d = max(1, self.n_rows), max(1, self.X.shape[1])
        largest = self.block_rows or (n if n * d < WORTH_THREADS else max(FEWEST_ROWS, CACHED_NUMBERS // d))
        ends = np.linspace(0, n, -(-n // largest) + 1).astype(int).tolist()  # blocks of almost the same size
        return [slice(start, end) for start, end in pairwise(ends)]
