"""What is done to one partition of a table where it is held: walked in blocks, by one thread.

These functions are sent to the workers of a cluster, so they know nothing of it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from credibly.data.lazy import MISREAD, refuse_no_numbers
from credibly.data.source import (
    Block,
    Change,
    Code,
    MemoryRows,
    Result,
    RowWise,
    Start,
    block_cuts,
    changed,
    check_beside,
    drawn_rows,
    shares,
)
from credibly.data.threads import single_threaded_blas
from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import DesignMatrix

BESIDE = {"weight": "sample_weight", "offset": "offset"}  # what users call them


class Part(NamedTuple):
    """One partition, and how it is to be read."""

    number: int
    held: tuple[Any, ...]  # X, y, weight, offset: arrays, or parts of frames; None for what there is not
    code: Code | None
    block_rows: int | None

    def rows(self) -> MemoryRows:
        """The partition as rows in memory, without its changes: they would be kept, for one pass only."""
        X, labels, *more = self.held
        X = as_numbers(X, f"partition {self.number}: X")
        y = np.zeros(X.shape[0]) if labels is None else aligned(np.asarray(unmasked(labels)))
        weight, offset = (None if it is None else self._beside(it, kind) for kind, it in zip(BESIDE, more, strict=True))
        held = {"y": y, "sample_weight": weight, "offset": offset}
        for name, length in ((name, len(vector)) for name, vector in held.items() if vector is not None):
            if length != X.shape[0]:
                raise InputError(f"Partition {self.number} has {X.shape[0]} rows of X and {length} of {name}.")
        cut = self.block_rows or (dense_rows(X.shape) if isinstance(X, csr_array) else None)
        return MemoryRows(X, y if self.code is None else self.code(y), weight, 1, cut, offset)

    def _beside(self, held: Any, kind: str) -> Array:
        """Weights or offsets as numbers, checked."""
        name, where = BESIDE[kind], f"partition {self.number}"
        try:
            plain = held.to_numpy(na_value=np.nan) if hasattr(held, "to_numpy") else unmasked(held)
            if np.asarray(plain).dtype.kind in MISREAD:
                raise TypeError(f"they are {np.asarray(plain).dtype}")
            values = np.asarray(plain, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{where}: {name} must hold numbers, one for each row; {error}.") from error
        return check_beside(aligned(values), kind, name, where, Start(of="partition"))


def dense_rows(shape: tuple[int, ...]) -> int:
    """Rows in a block of a sparse table that is made dense block by block: as many as if it were dense already."""
    return max(int(cut.stop - cut.start) for cut in block_cuts(shape, None))


def aligned(array: AnyArray) -> AnyArray:
    """The array where the processor likes it: what came over a network may begin at any byte.

    There NumPy takes another way than BLAS, so that a sum would depend on where a partition was when it was added.
    """
    return np.require(array, requirements="A")


def unmasked(held: Any) -> Any:
    """What a mask hides is missing: NaN among numbers, None among others."""
    if not np.ma.is_masked(held):
        return held
    return held.astype(float).filled(np.nan) if held.dtype.kind in "biuf" else held.astype(object).filled(None)


def as_numbers(part: Any, where: str = "X") -> DesignMatrix:
    """Columns of a partition as numbers; missing cells of a frame become NaN, sparse chunks become CSR."""
    if not hasattr(part, "dtypes"):
        refuse_no_numbers(part.dtype, where)  # a chunk may be of another type than Dask was told
    if issparse(part):
        return csr_array(part)
    if not hasattr(part, "dtypes"):
        part = unmasked(part)
        return np.asarray(part) if getattr(part, "dtype", None) == np.float32 else np.asarray(part, dtype=np.float64)
    single = set(map(str, part.dtypes)) == {"float32"}
    return np.asarray(part.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan))


def finished(block: Callable[[Block], Result], number: int, changes: Sequence[Change]) -> Callable[[Block], Result]:
    """The function with a block's columns dense and changed, and the name of its partition."""

    def work(rows: Block) -> Result:
        X = rows.X.toarray() if isinstance(rows.X, csr_array) else aligned(rows.X)
        start = rows.start._replace(of="partition")
        return block(rows._replace(X=changed(X, changes), where=f"partition {number}", start=start))

    return work


def sum_part(
    part: Part,
    changes: Sequence[Change],
    block: Callable[[Block], Result],
    merge: Callable[[Result, Result], Result],
) -> Result | None:
    """The sum over one partition; None where it is empty."""
    with single_threaded_blas():
        rows = part.rows()
        return rows.sum(finished(block, part.number, changes), merge) if rows.n_rows else None


def merge_parts(results: Sequence[Result | None], merge: Callable[[Result, Result], Result]) -> Result | None:
    """Sums of several partitions merged in order; None where all of them are empty."""
    held = [result for result in results if result is not None]
    return reduce(merge, held) if held else None


def map_part(part: Part, changes: Sequence[Change], block: RowWise) -> Array | None:
    """One row of results for every row of a partition."""
    with single_threaded_blas():
        rows = part.rows()
        return rows.map(finished(block, part.number, changes)) if rows.n_rows else None


def each_part(part: Part, changes: Sequence[Change], block: Callable[[Block], Result]) -> list[Result] | None:
    """The result of every block of a partition."""
    with single_threaded_blas():
        rows = part.rows()
        return list(rows.each(finished(block, part.number, changes))) if rows.n_rows else None


def count_part(part: Part, changes: Sequence[Change], n_classes: int) -> Codes:
    """Rows of every class in one partition."""
    codes = part.rows().y.astype(np.intp, copy=False)
    return np.bincount(codes, minlength=n_classes)


class Drawn(NamedTuple):
    """Which rows of a partition a sample takes: so many of each class (one class: of all), each standing for some."""

    wanted: Codes  # (K,)
    standing: Array  # (K,)
    seed: int


def drawn_from(rng: np.random.Generator, counts: Codes, size: int) -> Iterator[Drawn]:
    """How many rows a sample takes from each partition: in proportion, rounded at random so that none is favoured."""
    totals = counts.sum(axis=0)
    wanted = shares(totals, size)
    ends = np.floor(np.cumsum(counts, axis=0) * (wanted / np.maximum(totals, 1)) + rng.random(len(totals)))
    taken = np.diff(ends, axis=0, prepend=0).astype(np.intp)
    standing = totals / np.maximum(taken.sum(axis=0), 1)
    for here in taken:
        yield Drawn(here, standing, int(rng.integers(2**63)))


def draw_part(part: Part, changes: Sequence[Change], drawn: Drawn) -> Block | None:
    """Rows drawn without replacement from one partition, in order, columns as they came."""
    if not drawn.wanted.any():
        return None
    rng, rows = np.random.default_rng(drawn.seed), part.rows()
    codes: AnyArray = np.zeros(rows.n_rows, np.intp) if len(drawn.wanted) == 1 else rows.y.astype(np.intp, copy=False)
    chosen = drawn_rows(rng, codes, drawn.wanted)
    block = Block(rows.X, rows.y, rows.weight, rows.offset).taken(chosen)
    X = block.X.toarray() if isinstance(block.X, csr_array) else block.X
    return block._replace(X=X, weight=block.weights * drawn.standing[codes[chosen]])


def whole_part(part: Part) -> Block | None:
    """All rows of one partition, columns as they came: sparse ones stay so until they are cut."""
    rows = part.rows()
    return Block(rows.X, rows.y, rows.weight, rows.offset) if rows.n_rows else None


def one_after_other(first: Code, then: Code, y: AnyArray) -> AnyArray:
    """Labels coded twice."""
    return then(first(y))


class Output(NamedTuple):
    """What a function returns for each row."""

    shape: tuple[int, ...]
    dtype: Any = np.float64


class Asked(NamedTuple):
    """What is to be found of a partition: its number, the names of its vectors, what there is for each row."""

    number: int
    names: tuple[str, ...]
    output: Output

    def __call__(self, function: Callable[..., Any], X: Any, *vectors: Any) -> Any:
        """The function of the partition; its errors say in which they arose. Models refuse tables without rows."""
        if not X.shape[0]:
            return np.empty((0, *self.output.shape), dtype=self.output.dtype)
        try:
            with single_threaded_blas():
                return function(X, **dict(zip(self.names, vectors, strict=True)))
        except InputError as error:
            raise InputError(f"Partition {self.number}: {error}") from error
