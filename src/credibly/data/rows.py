"""Rows, and what a model may ask of them.

Every statistic that weight-space inference and generative models need is a sum over rows, or merges like one. So rows
answer two verbs: ``sum`` applies a function to every block of rows and merges the results, ``map`` applies it and keeps
the rows. Samples and batches for stochastic gradients are made of the same passes.

A source (memory here, `parquet`, `dask`) implements ``parts``: its blocks in parts that are the same whatever happens.
Cuts depend on the shape of the table only (and, for sparse rows, on the number of non-zeros), and results are merged in
order, so that a sum has the same bits for any number of threads. Blocks fit the processor's cache.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from scipy.sparse import csr_array, vstack

from credibly.data.threads import default_threads, in_order, single_threaded_blas
from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import DesignMatrix
from credibly.numerics.settings import BLOCK_SIZES

FEWEST_ROWS = 256  # in a block: below that a product of a block with its transpose is all overhead
# Non-zeros in a block of sparse rows, for each column: adding d sums is then little beside making them.
SPARSE_SHARE = 16
FEWEST_OF_A_CLASS = 20  # expected in a sample, where it has more: chance leaves none of them once in e²⁰ samples
MOST_PARTS = 32  # of a table in memory: enough for any number of threads; each costs two hand-overs between threads
COPIED_NUMBERS = 8_000_000  # numbers in a table that may be held a second time, transformed: 64 megabytes
MIXED_NUMBERS, MIXED_BATCHES = 10_000_000, 4  # rows not in memory that are shuffled together: 80 MB, or more batches
LARGEST, SMALLEST = 1e100, 1e-100  # beyond that squares of numbers leave the range of floating point
MISREAD = "USMmcV"  # kinds of NumPy types of which NumPy would read some as numbers: text, dates, complex numbers

Result = TypeVar("Result")
Sums = tuple[Array | float, ...]
Transform = Callable[[DesignMatrix], DesignMatrix]
Code = Callable[[AnyArray], AnyArray]
Record = Callable[[Callable[[], Any]], Any]


# --- blocks -------------------------------------------------------------------------------------------------------


class RowPosition(NamedTuple):
    """The number of a block's first row, and in what it is counted: messages name rows by it."""

    row: int = 0
    of: str = "table"

    def describe(self, at: int) -> str:
        """A row of the block in words."""
        return f"row {self.row + at} of the {self.of} (counted from 0)"


class Block(NamedTuple):
    """Some rows: their columns, class codes (or targets), weights and offsets."""

    X: DesignMatrix  # (b, d)
    y: AnyArray  # (b,)
    weight: Array | None = None  # (b,), None for all ones
    offset: Array | None = None  # (b,), added to the score of every row
    where: str = ""  # the file or the partition, for messages
    start: RowPosition = RowPosition()
    row: int = 0  # the number of the first row among all rows of the source

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

    def transformed(self, transforms: Sequence[Transform] | None) -> "Block":
        """Columns in float64, every transform applied; None: as they came."""
        if transforms is None:
            return self
        X = self.X if isinstance(self.X, csr_array) else np.asarray(self.X, dtype=np.float64)
        return self._replace(X=reduce(lambda table, transform: transform(table), transforms, X))


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks one after the other as one."""
    X, y, weight, offset, *_ = zip(*blocks, strict=True)
    weights, offsets = (None if it[0] is None else np.concatenate(it) for it in (weight, offset))
    table = csr_array(vstack(X)) if isinstance(X[0], csr_array) else _stacked(X)
    return Block(table, np.concatenate(y), weights, offsets)


def _stacked(tables: Sequence[AnyArray]) -> AnyArray:
    """Tables one above the other, each row in one place: rows are picked from it."""
    out = np.empty((sum(map(len, tables)), tables[0].shape[1]), np.result_type(*tables))
    return np.concatenate(tables, out=out)


def check_weights(values: Array, kind: str, what: str, where: str, start: RowPosition) -> Array:
    """Weights or offsets, or an error that names the first invalid one.

    Parameters
    ----------
    values : (b,) array
    kind : "weight" or "offset"
    what : str
        The user's word for them.
    where : str
        The file or the partition.
    start : RowPosition
    """
    if kind == "offset":
        good, rule = np.abs(values) <= LARGEST, "finite, and at most 1e100 in size"
    else:
        good, rule = (values == 0) | ((values >= SMALLEST) & (values <= LARGEST)), "0, or from 1e-100 to 1e100"
    if not good.all():
        at = int(np.argmin(good))
        raise InputError(
            f"{where}: {what} is {values[at]:g} in {start.describe(at)}; every {kind} must be {rule}. Correct it, or "
            "drop the row."
        )
    return values


def rows_in_block(d: int) -> int:
    """Rows of a dense block of d columns: as many as fit the cache, and no fewer than `FEWEST_ROWS`."""
    return max(FEWEST_ROWS, min(BLOCK_SIZES.table_rows, BLOCK_SIZES.table_numbers // max(1, d)))


def block_cuts(shape: tuple[int, ...], block_rows: int | None = None, stored: int | None = None) -> list[slice]:
    """Cuts of a table of this shape, and with so many stored numbers if it is sparse, into blocks."""
    n, d = shape
    if stored is None:
        largest = block_rows or rows_in_block(d)
    else:  # what a block of sparse rows adds up to has a number for every column
        largest = block_rows or max(FEWEST_ROWS, n * max(BLOCK_SIZES.table_numbers, SPARSE_SHARE * d) // max(1, stored))
    if n <= largest:
        return [slice(0, n)]
    count = -(-n // largest)
    count = min(n, count + count % 2)  # an odd one out would keep one of two threads waiting
    return [slice(n * at // count, n * (at + 1) // count) for at in range(count)]


def add(a: Sums, b: Sums) -> Sums:
    """Add two tuples of numbers and arrays, entry by entry."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def sum_blocks(
    blocks: Iterator[Block], block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]
) -> Result:
    """Apply `block` to every block and merge the results in order."""
    return reduce(merge, map(block, blocks))


# --- any rows -----------------------------------------------------------------------------------------------------


class Rows(ABC):
    """Rows wherever they are, cut into blocks. Other views of the same rows are made by `through` and the like."""

    threads: int | None = None  # that compute; None: as many as BLAS was allowed
    block_rows: int | None = None  # in a block; None: as many as fit the cache
    transforms: tuple[Transform, ...] | None = ()  # of the columns of every block, in float64; None: as they came
    record: Record | None = None  # hands out sums that an earlier fit has computed, and writes down the others

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @abstractmethod
    def parts(self, work: Callable[[Iterator[Block]], Result]) -> Generator[Result, None, None]:
        """Apply `work` to the blocks of every part, on threads; results in the order of the rows."""

    # passes

    def sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result] | None = None) -> Result:
        """Apply `block` to every block of rows and merge the results in order; None: add tuples entry by entry."""
        together: Any = add if merge is None else merge
        work: Callable[[], Result] = partial(self._sum, block, together)
        result: Result = work() if self.record is None else self.record(work)
        return result

    def _sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]) -> Result:
        with closing(self.parts(partial(sum_blocks, block=block, merge=merge))) as results:
            return reduce(merge, results)

    def map(self, block: Callable[[Block], Array]) -> Array:
        """Apply `block` to every block of rows and stack what it returns, one row for each row."""
        parts = list(self.each(block))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def each(self, block: Callable[[Block], Result]) -> Generator[Result, None, None]:
        """Apply `block` to every block of rows; results in the order of the rows, few of them waiting at a time."""
        with closing(self.parts(lambda blocks: [block(rows) for rows in blocks])) as parts:
            for results in parts:
                yield from results

    # other views of the same rows

    def through(self, transform: Transform) -> Self:
        """The same rows with `transform` applied to the columns of every block."""
        return self._with(transforms=(*(self.transforms or ()), transform))

    def in_blocks(self, block_rows: int) -> Self:
        """The same rows, in blocks of at most this size."""
        return self._with(block_rows=block_rows)

    def on_threads(self, threads: int | None) -> Self:
        """The same rows, computed with by so many threads; None: as many as BLAS was allowed."""
        return self._with(threads=threads)

    def with_progress(self, shown: bool) -> Self:
        """The same rows, whose passes show how far they are, unless progress= was given."""
        given = getattr(self, "progress", None) is not None
        return self._with(progress=True) if shown and not given else self

    def recorded(self, record: Record | None) -> Self:
        """The same rows, whose sums `record` may hand out: see `checkpoint`."""
        return self._with(record=record)

    @abstractmethod
    def encoded(self, code: Code) -> Self:
        """The same rows with `code` applied to the labels of every block, each label by itself."""

    @abstractmethod
    def relabelled(self, y: AnyArray) -> Self:
        """The same rows with other labels, or anything else that belongs to each of them: (n, …)."""

    def _with(self, **attributes: Any) -> Self:
        again = copy(self)
        vars(again).update(attributes)
        return again

    # random rows

    def sample(self, rng: np.random.Generator, size: int, n_classes: int = 0) -> "MemoryRows":
        """Draw about `size` rows without replacement, in order, weighted so that their sums estimate those of all rows.

        Each row is drawn by itself. With `n_classes` the labels are codes below that, and a class has about half of an
        equal share at least, and about `FEWEST_OF_A_CLASS` rows, or all that it has.
        """
        raw = self._with(transforms=None, record=None)
        counts = raw._labels().sum(partial(_class_counts, n_classes), np.add) if n_classes else np.array([self.n_rows])
        least = max(size / (2 * len(counts)), FEWEST_OF_A_CLASS)
        rates = np.minimum(1.0, np.maximum(size / self.n_rows, least / np.maximum(1, counts)))
        drawn = joined(list(raw.each(partial(_drawn, rates=rates, seed=int(rng.integers(2**63))))))
        codes = _codes(drawn.y, len(counts))
        expansion = (counts / np.maximum(1, np.bincount(codes, minlength=len(counts))))[codes]
        weight = expansion if drawn.weight is None else drawn.weight * expansion
        return MemoryRows(drawn.X, drawn.y, weight, drawn.offset, self.threads, self.block_rows, self.transforms)

    def _labels(self) -> Self:
        """The same rows, whose columns will not be looked at."""
        return self

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Block]:
        """All rows once, `size` at a time, shuffled: parts in random order, their rows in a buffer of 80 MB.

        Where parts are sorted by something that matters, shuffle the rows when they are stored.
        """
        held: list[Block] = []
        waiting = 0
        with closing(self._with(transforms=None, record=None)._shuffled(rng).each(lambda block: block)) as blocks:
            for block in blocks:
                held.append(block)
                waiting += len(block.y)
                if waiting >= max(MIXED_BATCHES * size, MIXED_NUMBERS // max(1, block.X.shape[1])):
                    mixed = joined(held).taken(rng.permutation(waiting))
                    given = max(1, waiting // (2 * size)) * size  # half of them stay, to be mixed with what comes
                    yield from self._cut(mixed, given, size)
                    held, waiting = [mixed.taken(np.arange(given, waiting))], waiting - given
        mixed = joined(held).taken(rng.permutation(waiting))
        yield from self._cut(mixed, waiting, size)

    def _shuffled(self, rng: np.random.Generator) -> Self:
        """The same rows, their parts in random order."""
        return self

    def _cut(self, mixed: Block, n: int, size: int) -> Iterator[Block]:
        for start in range(0, n, size):
            yield mixed.taken(np.arange(start, min(start + size, n))).transformed(self.transforms)


def _codes(y: AnyArray, n_classes: int) -> Codes:
    return y.astype(np.intp, copy=False) if n_classes > 1 else np.zeros(len(y), dtype=np.intp)


def _class_counts(n_classes: int, block: Block) -> Codes:
    return np.bincount(_codes(block.y, n_classes), minlength=n_classes)


def _drawn(block: Block, rates: Array, seed: int) -> Block:
    """Some rows of a block: each by itself, with the rate of its class, however the rows are cut into blocks."""
    fours, more = divmod(block.row, 4)  # this generator makes four numbers at a time
    rng = np.random.Generator(np.random.Philox(seed).advance(fours))
    codes = _codes(block.y, len(rates))
    return block.taken(np.flatnonzero(rng.random(more + len(codes))[more:] < rates[codes]))


# --- rows in memory -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MemoryRows(Rows):
    """Rows of an array in memory, dense (float64, or float32 kept as it is) or CSR.

    A float32 table is cast block by block: every sum is accumulated in float64.

    Parameters
    ----------
    X : (n, d) array or csr_array
    y : (n,) array
    weight, offset : (n,) arrays or None
    threads, block_rows, transforms
        As in `Rows`.

    Examples
    --------
    >>> rows = MemoryRows(np.arange(6.0).reshape(3, 2), np.array([0, 1, 1]))
    >>> rows.sum(lambda block: (block.X.sum(axis=0), len(block.y)))
    (array([6., 9.]), 3)
    """

    X: DesignMatrix
    y: AnyArray
    weight: Array | None = None
    offset: Array | None = None
    threads: int | None = None
    block_rows: int | None = None
    transforms: tuple[Transform, ...] | None = ()

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    def parts(self, work: Callable[[Iterator[Block]], Result]) -> Generator[Result, None, None]:
        cuts = self.cuts
        most = max(
            1, min(MOST_PARTS, 2 * self.X.size // BLOCK_SIZES.table_numbers)
        )  # small tables are not worth a hand-over
        per_part = -(-len(cuts) // most)
        parts = [cuts[at : at + per_part] for at in range(0, len(cuts), per_part)]
        if self._is_kept:
            _ = self._transformed_table  # made before threads ask for it
        with single_threaded_blas():  # for one block, too: on a busy machine its own threads cost more than they bring
            yield from in_order(lambda part: work(map(self.block, part)), parts, self.threads or default_threads())

    @property
    def cuts(self) -> list[slice]:
        """Cuts of the table into blocks."""
        return block_cuts(self.X.shape, self.block_rows, self.X.nnz if isinstance(self.X, csr_array) else None)

    def block(self, cut: slice) -> Block:
        """Some rows, their columns transformed."""
        if self._is_kept:
            return self._rows(self._transformed_table, cut)
        return self._rows(self.X, cut).transformed(self.transforms)

    def through(self, transform: Transform) -> Self:
        again = super().through(transform)
        vars(again).pop("_transformed_table", None)
        return again

    def encoded(self, code: Code) -> Self:
        return self.relabelled(code(self.y))

    def relabelled(self, y: AnyArray) -> Self:
        return self._with(y=y)

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Block]:
        """All rows once, `size` at a time, shuffled."""
        order = rng.permutation(self.n_rows)
        return (
            self._rows(self.X, order[at : at + size]).transformed(self.transforms) for at in range(0, self.n_rows, size)
        )

    def _rows(self, X: DesignMatrix, cut: slice | Codes) -> Block:
        weight, offset = (None if held is None else held[cut] for held in (self.weight, self.offset))
        first = cut.start if isinstance(cut, slice) else 0
        return Block(X[cut], self.y[cut], weight, offset, start=RowPosition(first), row=first)

    @property
    def _is_kept(self) -> bool:
        """True where the transformed table is held: what is small or sparse is not transformed again in every pass."""
        return bool(self.transforms) and (isinstance(self.X, csr_array) or self.X.size <= COPIED_NUMBERS)

    @cached_property
    def _transformed_table(self) -> DesignMatrix:
        return Block(self.X, self.y).transformed(self.transforms).X


# --- rows that are not in memory ----------------------------------------------------------------------------------


class OutOfCoreRows(Rows):
    """Rows that are not in memory: files, or the partitions of a cluster. Labels are as they came until encoded."""

    names: list[str]  # of the columns of the design
    named: bool = True  # whether those are names that a user gave
    labelled: bool = True  # whether there are labels, or targets
    with_offsets: bool = False

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text that must be the same for a fit that was stopped to go on."""

    def aligned(self, names: Sequence[str], references: Mapping[str, str]) -> Self:
        """The same rows with the columns of a model that was fitted before, in its order, where that can be done."""
        return self

    def without_reference_levels(self) -> tuple[Self, dict[str, str]]:
        """The same rows without the first level of every category, and which those are."""
        return self, {}


def is_dask(table: Any) -> bool:
    """True for a Dask array, data frame or series; Dask is not imported for the answer.

    Examples
    --------
    >>> is_dask(np.zeros((3, 2)))
    False
    """
    collections = ("dask.array", "dask.dataframe", "dask_expr")
    return type(table).__module__.startswith(collections) and hasattr(table, "__dask_graph__")
