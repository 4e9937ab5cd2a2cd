"""The Rows protocol, and rows in memory.

Every statistic that weight-space inference and generative models need is a sum over rows, or merges like one. So a
source of rows has two verbs: ``sum`` applies a function to every block of rows and adds the results, ``map`` applies
it and keeps the rows; ``each``, which both are made of, hands out the results one by one. Blocks fit the processor's
cache and run on threads; what a sum returns does not depend on the number of threads, since the cuts depend only on
the table's shape and the parts are added in order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np
from scipy.sparse import csr_array

from credibly.data.threads import default_threads, in_order, merged, single_threaded_blas
from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import DesignMatrix, is_sparse

CACHED_NUMBERS = 200_000  # numbers in a block: it stays in the cache, and calls of NumPy cost little beside it
COPIED_NUMBERS = 8_000_000  # numbers in a table that may be held a second time, transformed: 64 megabytes
SPARSE_SHARE = 16  # non-zeros in a block of sparse rows, for each column
ROWS_PER_COLUMN, WIDE_NUMBERS = 2, 500_000  # of a block with many columns, whose d² sums are to be added to others'
FEWEST_ROWS = 256  # below that a product of a block with its transpose is all overhead
LARGEST, SMALLEST = 1e100, 1e-100  # beyond that squares of numbers leave the range of floating point
FEW_CLASSES = 8  # up to which rows are counted class by class: a comparison is ten times faster than a count of codes
WORTH_THREADS = 200_000  # numbers in a table: below that a pass is faster than handing out blocks


class Start(NamedTuple):
    """The number of a block's first row, and of what it is the number: rows are named by it in messages."""

    row: int = 0
    of: str = "table"

    def told(self, at: int) -> str:
        """A row of the block in words."""
        return f"row {self.row + at} of the {self.of} (counted from 0)"


class Block(NamedTuple):
    """Some rows: their columns, class codes (or targets), weights and offsets."""

    X: DesignMatrix  # (b, d)
    y: AnyArray  # (b,)
    weight: Array | None  # (b,), None for all ones
    offset: Array | None = None  # (b,), added to the score of every row
    where: str = ""  # which part of the data this is, for messages
    start: Start = Start()

    @property
    def weights(self) -> Array:
        """The weights, ones where there are none."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def counted(self) -> "Block":
        """Without the rows of weight zero: whatever they hold, infinity times nothing is not a number."""
        if self.weight is None or self.weight.all():
            return self
        return self.taken(self.weight > 0)

    def taken(self, chosen: AnyArray) -> "Block":
        """Some of the rows: their numbers, or a flag for each."""
        weight, offset = (None if held is None else held[chosen] for held in (self.weight, self.offset))
        by_number = isinstance(self.X, np.ndarray) and chosen.dtype != bool
        X = np.take(self.X, chosen, axis=0) if by_number else self.X[chosen]  # np.take copies whole rows
        return self._replace(X=X, y=self.y[chosen], weight=weight, offset=offset)


def check_beside(values: Array, kind: str, what: str, where: str, start: Start) -> Array:
    """Weights or offsets, or an error that names the first that is none.

    Parameters
    ----------
    values : (b,) array
    kind : "weight" or "offset"
    what : str
        What the user calls them.
    where : str
        Which part of the data they are from.
    start : Start
    """
    if kind == "offset":
        good, asked = np.abs(values) <= LARGEST, "finite, and at most 1e100 in size"
    else:
        good, asked = (values == 0) | ((values >= SMALLEST) & (values <= LARGEST)), "0, or from 1e-100 to 1e100"
    if not good.all():
        at = int(np.argmin(good))
        raise InputError(
            f"{where}: {what} is {values[at]:g} in {start.told(at)}; every {kind} must be {asked}. Correct it, or drop "
            "the row."
        )
    return values


def joined(blocks: Sequence[Block]) -> Block:
    """Dense blocks as one, its rows contiguous: they are to be picked from."""
    X, y, weight, offset, *_ = zip(*blocks, strict=True)
    weights, offsets = (None if it[0] is None else np.concatenate(it) for it in (weight, offset))
    table = np.empty((sum(map(len, X)), X[0].shape[1]), np.result_type(*X))
    return Block(np.concatenate(X, out=table), np.concatenate(y), weights, offsets)


Result = TypeVar("Result")
Sums = tuple[Array | float, ...]
RowWise = Callable[[Block], Array]
Change = Callable[[DesignMatrix], DesignMatrix]
Code = Callable[[AnyArray], AnyArray]


def add(a: Sums, b: Sums) -> Sums:
    """Add two tuples of numbers and arrays, entry by entry."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


class Rows(Protocol):
    """What a model may ask of its data."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def plain(self) -> bool:
        """Whether blocks are dense and carry no offsets, so that a compiled kernel may walk them."""

    def sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]) -> Result:
        """Apply `block` to every block of rows and merge the results."""

    def map(self, block: RowWise) -> Array:
        """Apply `block` to every block of rows and stack what it returns, one row for each row."""

    def each(self, block: Callable[[Block], Result]) -> Generator[Result, None, None]:
        """Apply `block` to every block of rows; results in the order of the rows, few of them waiting at a time."""

    def through(self, change: Change) -> "Rows":
        """The same rows with `change` applied to the columns of every block."""

    def encoded(self, code: Code) -> "Rows":
        """The same rows with `code` applied to the labels of every block."""

    def in_blocks(self, block_rows: int) -> "Rows":
        """The same rows, handed out in blocks of this size."""

    def on_threads(self, threads: int | None) -> "Rows":
        """The same rows, walked by so many threads; None: as many as BLAS was allowed."""

    def relabelled(self, y: AnyArray) -> "Rows":
        """The same rows with other labels, or anything else that belongs to each of them: (n, …)."""

    def sample(self, rng: np.random.Generator, size: int, n_classes: int = 0) -> "MemoryRows":
        """A random part of the rows, weighted so that its sums estimate those of all rows.

        With `n_classes` the labels are codes below that, and every class has its share, rare ones a larger one.
        """

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Block]:
        """All rows once, in random order, `size` at a time."""


class Walked(ABC):
    """Sums and maps of rows that are walked block by block."""

    @abstractmethod
    def each(self, block: Callable[[Block], Result]) -> Generator[Result, None, None]:
        """Apply `block` to every block of rows; results in the order of the rows."""

    def sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]) -> Result:
        """Apply `block` to every block of rows and merge the results in order."""
        return reduce(merge, self.each(block))

    def map(self, block: RowWise) -> Array:
        """Apply `block` to every block of rows and stack what it returns."""
        parts = list(self.each(block))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Stored(ABC):
    """Rows that are not in memory: files, or the partitions of a cluster. Labels are as they came until encoded."""

    names: list[str]  # of the columns of the design
    named: bool = True  # whether those are names that a user gave
    labelled: bool = True  # whether there are labels, or targets
    with_offsets: bool = False

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """What must be the same for a fit that was stopped to go on."""

    def aligned(self, names: Sequence[str], references: Mapping[str, str]) -> Self:
        """The same rows with the columns of a model that was fitted before, in its order, where that can be done."""
        return self

    def referenced(self) -> tuple[Self, dict[str, str]]:
        """The same rows without the first level of every category, and which those are."""
        return self, {}


@dataclass(frozen=True)
class MemoryRows(Walked):
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

    @property
    def plain(self) -> bool:
        """Whether blocks are dense and carry no offsets."""
        return self.offset is None and not is_sparse(self.X)

    def each(self, block: Callable[[Block], Result]) -> Generator[Result, None, None]:
        """Apply `block` to every block of rows; results in the order of the rows."""
        with single_threaded_blas():  # for one block, too: on a busy machine its own threads cost more than they bring
            yield from in_order(lambda cut: block(self._block(cut)), self._cuts, self.threads or default_threads())

    def sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]) -> Result:
        """Apply `block` to every block of rows and merge the results in order."""
        with single_threaded_blas():
            return merged(lambda cut: block(self._block(cut)), self._cuts, merge, self.threads or default_threads())

    @property
    def _cuts(self) -> list[slice]:
        stored = self.X.nnz if isinstance(self.X, csr_array) else None
        return block_cuts(self.X.shape, self.block_rows, stored)

    def through(self, change: Change) -> "MemoryRows":
        """The same rows with `change` applied, when they are asked for."""
        return replace(self, changes=(*self.changes, change))

    def in_blocks(self, block_rows: int) -> "MemoryRows":
        """The same rows, handed out in blocks of this size."""
        return replace(self, block_rows=block_rows)

    def on_threads(self, threads: int | None) -> "MemoryRows":
        """The same rows, walked by so many threads."""
        return replace(self, threads=threads)

    def encoded(self, code: Code) -> "MemoryRows":
        """The same rows with `code` applied to the labels."""
        return self.relabelled(code(self.y))

    def relabelled(self, y: AnyArray) -> "MemoryRows":
        """The same rows with other labels, or anything else that belongs to each of them: (n, …)."""
        again = replace(self, y=y)
        if "_changed_table" in vars(self):  # not to be changed anew
            vars(again)["_changed_table"] = self._changed_table
        return again

    def sample(self, rng: np.random.Generator, size: int, n_classes: int = 0) -> "MemoryRows":
        """Rows drawn without replacement, in order, each standing for as many of its class as are left out."""
        chosen, standing = stratified(rng, self.y, size, n_classes)
        drawn = Block(self.X, self.y, self.weight, self.offset).taken(chosen)
        weight = standing if drawn.weight is None else drawn.weight * standing
        return replace(self, X=drawn.X, y=drawn.y, weight=weight, offset=drawn.offset)

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Block]:
        """All rows once, in random order, `size` at a time."""
        order = rng.permutation(self.n_rows)
        return (self._block(order[start : start + size]) for start in range(0, self.n_rows, size))

    def _block(self, cut: slice | Codes) -> Block:
        small = self.changes and (isinstance(self.X, csr_array) or self.X.size <= COPIED_NUMBERS)
        X = self._changed_table[cut] if small else changed(self.X[cut], self.changes)
        weight, offset = (None if held is None else held[cut] for held in (self.weight, self.offset))
        return Block(X, self.y[cut], weight, offset, start=Start(cut.start if isinstance(cut, slice) else 0))

    @cached_property
    def _changed_table(self) -> DesignMatrix:
        """The whole table after its changes, kept: what is small or sparse is not changed again in every pass."""
        return changed(self.X, self.changes)


def changed(X: DesignMatrix, changes: Sequence[Change]) -> DesignMatrix:
    """Columns in float64, every change applied."""
    if not isinstance(X, csr_array):
        X = np.asarray(X, dtype=np.float64)
    for change in changes:
        X = change(X)
    return X


def block_cuts(shape: tuple[int, ...], block_rows: int | None, stored: int | None = None) -> list[slice]:
    """Where a table of this shape, and with so many stored numbers if it is sparse, is cut into blocks."""
    n, d = max(1, shape[0]), max(1, shape[1])
    if stored is not None:  # what a block of sparse rows adds up to has a number for every column
        largest = block_rows or max(FEWEST_ROWS, n * max(CACHED_NUMBERS, SPARSE_SHARE * d) // max(1, stored))
    else:
        many = max(FEWEST_ROWS, CACHED_NUMBERS // d, min(ROWS_PER_COLUMN * d, WIDE_NUMBERS // d))
        largest = block_rows or (n if n * d < WORTH_THREADS else many)
    if n <= largest:
        return [slice(0, n)]
    count = -(-n // largest)
    count = min(n, count + count % 2)  # an odd one out would keep one of two threads waiting
    return [slice(n * at // count, n * (at + 1) // count) for at in range(count)]


def shares(counts: Codes, size: int) -> Codes:
    """How many rows of each class a sample has: in proportion, but half of an equal share where a class is rare."""
    proportional = np.rint(counts * (size / max(1, counts.sum()))).astype(np.intp)
    return np.asarray(np.minimum(counts, np.maximum(proportional, size // (2 * len(counts)))))


def stratified(rng: np.random.Generator, y: AnyArray, size: int, n_classes: int) -> tuple[Codes, Array]:
    """Which rows a sample has, in order, and how many rows each stands for: `size`, and more of rare classes.

    Rows are strewn over the table whatever their class: nothing as long as the table is sorted or permuted. A class of
    which too few are among them is then drawn by itself.

    Examples
    --------
    >>> chosen, standing = stratified(np.random.default_rng(0), np.array([0] * 98 + [1] * 2), 20, 2)
    >>> chosen[-2:], standing[-2:]
    (array([98, 99]), array([1., 1.]))
    >>> round(float(standing.sum()), 12)
    100.0
    """
    chosen = strewn(rng, len(y), size)
    if not n_classes:
        return chosen, np.full(size, len(y) / size)
    counts, found = class_counts(y, n_classes), y[chosen].astype(np.intp, copy=False)
    wanted, taken = shares(counts, size), np.bincount(found, minlength=n_classes)
    rare = taken < np.minimum(counts, size // (2 * n_classes))
    if rare.any():
        chosen = np.sort(np.append(chosen[~rare[found]], drawn_rows(rng, y, np.where(rare, wanted, 0))))
        found, taken = y[chosen].astype(np.intp, copy=False), np.where(rare, wanted, taken)
    return chosen, (counts / np.maximum(taken, 1))[found]


def strewn(rng: np.random.Generator, n: int, size: int) -> Codes:
    """So many of n rows, in order: one at random out of every stretch of n/size rows, each row as likely as any other.

    Stretches begin at whole rows, and the first anywhere: where `size` does not divide n, none is favoured. The last
    goes on at the top of the table.

    Examples
    --------
    >>> strewn(np.random.default_rng(0), 1000, 5)
    array([109, 180, 335, 530, 889])
    """
    begin = ((np.arange(size + 1) + rng.random()) * (n / max(1, size))).astype(np.intp)
    begin[-1] = begin[0] + n  # but for rounding it is
    chosen = (begin[:-1] + (rng.random(size) * np.diff(begin)).astype(np.intp)) % max(1, n)
    return np.sort(chosen, kind="stable")  # all but one are in order


def class_counts(y: AnyArray, n_classes: int) -> Codes:
    """How many rows of each class there are; for few classes without an array of whole numbers as long as y."""
    if n_classes > FEW_CLASSES:
        return np.bincount(y.astype(np.intp, copy=False), minlength=n_classes)
    later = [np.count_nonzero(y == k) for k in range(1, n_classes)]
    return np.array([len(y) - sum(later), *later])


def drawn_rows(rng: np.random.Generator, codes: AnyArray, wanted: Codes) -> Codes:
    """So many rows of every class, drawn without replacement, in order."""
    drawn = []
    for k in np.flatnonzero(wanted):
        rows = np.flatnonzero(codes == k)
        drawn.append(rows[strewn(rng, len(rows), wanted[k])])
    return np.sort(np.concatenate(drawn))
