"""Rows of Dask arrays and data frames: a pass maps every partition on its worker and merges the results as a tree.

What travels is what a function of a block returns, a number, a vector and a matrix; never the rows. A collection is
computed as it is: one that was persisted is read from the workers' memory in every pass, any other is made anew.
"""

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple, Self
from uuid import uuid4

import dask
import dask.array as dask_array
import numpy as np
from dask.base import is_dask_collection, tokenize
from scipy.sparse import csr_array, issparse

from credibly.data.rows import (
    MISREAD,
    Block,
    Code,
    MemoryRows,
    OutOfCoreRows,
    Result,
    RowPosition,
    Transform,
    check_weights,
    rows_in_block,
    sum_blocks,
)
from credibly.data.threads import single_threaded_blas
from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import DesignMatrix, dense

da: Any = dask_array  # Dask's functions have no types of their own
delayed: Any = dask.delayed  # type: ignore[attr-defined]
compute: Any = dask.compute  # type: ignore[attr-defined]

MERGED_AT_ONCE = 8  # results that one task merges: the tree of a thousand partitions has four levels
WAITING = 16  # partitions whose results are held at a time, where they are handed out one by one
VECTORS = ("y", "sample_weight", "offset")  # the users' words for what belongs to the rows of a table


# --- what is done to a partition, where it is ---------------------------------------------------------------------


class Reading(NamedTuple):
    """The choices by which partitions are read."""

    codes: tuple[Code, ...]
    block_rows: int | None
    transforms: tuple[Transform, ...] | None


class Place(NamedTuple):
    """A partition among the others."""

    number: int
    row: int  # the number of its first row

    def __str__(self) -> str:
        return f"partition {self.number}"


def on_partition(
    work: Callable[[Iterator[Block]], Result], reading: Reading, place: Place, X: Any, *vectors: Any
) -> list[Result]:
    """Apply `work` to the blocks of a partition on one thread; nothing is returned where it is empty."""
    with single_threaded_blas():
        rows = _rows(reading, place, X, *vectors)
        blocks = (_placed(rows.block(cut), place).transformed(reading.transforms) for cut in rows.cuts)
        return [work(blocks)] if rows.n_rows else []


def _rows(reading: Reading, place: Place, X: Any, y: Any, weight: Any, offset: Any) -> MemoryRows:
    X = _numbers(X, f"{place}: X")
    labels = np.zeros(X.shape[0]) if y is None else np.require(_unmasked(y), requirements="A")
    w, o = _row_values(weight, "weight", place), _row_values(offset, "offset", place)
    for name, vector in zip(VECTORS, (labels, w, o), strict=True):
        if vector is not None and len(vector) != X.shape[0]:
            raise InputError(f"Partition {place.number} has {X.shape[0]} rows of X and {len(vector)} of {name}.")
    labels = reduce(lambda it, code: code(it), reading.codes, labels)
    cut = reading.block_rows or (rows_in_block(X.shape[1]) if isinstance(X, csr_array) else None)
    return MemoryRows(X, labels, w, o, threads=1, block_rows=cut)


def _placed(block: Block, place: Place) -> Block:
    start = RowPosition(block.start.row, "partition")
    return block._replace(where=str(place), start=start, row=place.row + start.row)


def _numbers(part: Any, where: str) -> DesignMatrix:
    """Columns of a partition as numbers; missing cells of a frame become NaN, sparse chunks become CSR.

    What came over a network may begin at any byte. There NumPy takes another way than BLAS, so that a sum would depend
    on where a partition was when it was added: the array is moved to where the processor likes it.
    """
    if hasattr(part, "dtypes"):
        single = set(map(str, part.dtypes)) == {"float32"}
        return np.asarray(part.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan))
    _refuse_no_numbers(part.dtype, where)  # a chunk may be of another type than Dask was told
    if issparse(part):
        return csr_array(part)
    part = _unmasked(part)
    return np.require(part, part.dtype if part.dtype == np.float32 else np.float64, "A")


def _row_values(held: Any, kind: str, place: Place) -> Array | None:
    """Weights or offsets as numbers, checked."""
    if held is None:
        return None
    name = "sample_weight" if kind == "weight" else kind
    try:
        plain = held.to_numpy(na_value=np.nan) if hasattr(held, "to_numpy") else _unmasked(held)
        if np.asarray(plain).dtype.kind in MISREAD:
            raise TypeError(f"they are {np.asarray(plain).dtype}")
        values: Array = np.require(plain, np.float64, "A")
    except (TypeError, ValueError) as error:
        raise InputError(f"{place}: {name} must hold numbers, one for each row; {error}.") from error
    return check_weights(values, kind, name, str(place), RowPosition(of="partition"))


def _unmasked(held: Any) -> Any:
    """An array in which what a mask hides is missing: NaN among numbers, None among others."""
    if not np.ma.is_masked(held):
        return np.asarray(held)
    return held.astype(float).filled(np.nan) if held.dtype.kind in "biuf" else held.astype(object).filled(None)


def merge_parts(results: Sequence[list[Result]], merge: Callable[[Result, Result], Result]) -> list[Result]:
    """Sums of several partitions merged in order; nothing where all of them are empty."""
    flat = [result for part in results for result in part]
    return [reduce(merge, flat)] if flat else []


# --- the rows -----------------------------------------------------------------------------------------------------


class Partition(NamedTuple):
    """One partition: its place, and what is to be computed for X, y, weight and offset."""

    place: Place
    held: tuple[Any, ...]  # delayed; None for what there is not


class DaskRows(OutOfCoreRows):
    """Rows in the partitions of a Dask array or data frame.

    Every partition is read by its worker, on one thread, in blocks that fit the cache. Results are merged in the
    order of the partitions, eight at a time, so that they do not depend on which worker was first.

    Parameters
    ----------
    X : (n, d) Dask array or data frame
        In chunks of any lengths (counted in one pass where not known); column chunks are brought together.
    y, weight, offset : (n,) Dask arrays or series, or arrays in memory, optional

    Examples
    --------
    >>> import dask.array as da
    >>> rows = DaskRows(da.arange(6, chunks=6).reshape(3, 2), np.array([0, 1, 1]))
    >>> rows.n_rows, rows.names
    (3, ['x0', 'x1'])
    >>> rows.sum(lambda block: (block.X.sum(axis=0), len(block.y)))
    (array([6., 9.]), 3)
    """

    transforms = (dense,)  # of sparse chunks, block by block

    def __init__(self, X: Any, y: Any = None, weight: Any = None, offset: Any = None) -> None:
        self.names, self.named = column_names(X), hasattr(X, "columns")
        for what, it in zip(VECTORS, (y, weight, offset), strict=True):
            if it is not None and np.ndim(it) != 1:
                raise InputError(f"{what} must have one dimension: a number, or a label, for each row.")
        held, self.lengths = partitions(X, (y, weight, offset), VECTORS, count=True)
        if not self.n_rows:
            raise InputError("X has no rows: all its partitions are empty.")
        starts = np.cumsum([0, *self.lengths]).tolist()
        self.partitions = [Partition(Place(i, int(starts[i])), one) for i, one in enumerate(held)]
        self.codes: tuple[Code, ...] = ()
        self._fingerprint = str(tokenize(X, y, weight, offset))

    @property
    def n_rows(self) -> int:
        return int(sum(self.lengths))

    @property
    def fingerprint(self) -> str:
        """Dask's name for these very collections."""
        return self._fingerprint

    def encoded(self, code: Code) -> Self:
        return self._with(codes=(*self.codes, code))

    def relabelled(self, y: AnyArray) -> Self:
        """The same rows with other labels, or anything else that belongs to each of them; n of these travel."""
        labels = _delayed(_distributed(np.asarray(y), self.lengths, "y"))
        pairs = zip(self.partitions, labels, strict=True)
        return self._with(partitions=[Partition(it.place, (it.held[0], y, *it.held[2:])) for it, y in pairs], codes=())

    def _shuffled(self, rng: np.random.Generator) -> Self:
        return self._with(partitions=[self.partitions[at] for at in rng.permutation(len(self.partitions))])

    def _sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]) -> Result:
        level = self._tasks(partial(sum_blocks, block=block, merge=merge))
        while len(level) > 1:
            merged = task(merge_parts, "merge")
            level = [merged(level[at : at + MERGED_AT_ONCE], merge) for at in range(0, len(level), MERGED_AT_ONCE)]
        ((total,),) = computed(level)
        return total  # type: ignore[no-any-return]

    def parts(self, work: Callable[[Iterator[Block]], Result]) -> Generator[Result, None, None]:
        """Apply `work` to the blocks of every partition, on its worker; results of a few partitions at a time."""
        tasks = self._tasks(work)
        for start in range(0, len(tasks), WAITING):
            for results in computed(tasks[start : start + WAITING]):
                yield from results

    def _tasks(self, work: Callable[[Iterator[Block]], Any]) -> list[Any]:
        run, reading = task(on_partition, "part"), Reading(self.codes, self.block_rows, self.transforms)
        return [run(work, reading, partition.place, *partition.held) for partition in self.partitions]


def task(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    """A function that makes tasks under names of their own: nobody is to answer with what an earlier pass found."""
    make = delayed(function, pure=False, traverse=True)
    return lambda *inputs: make(*inputs, dask_key_name=f"credibly-{what}-{uuid4().hex}")


def computed(tasks: Sequence[Any]) -> Any:
    """Values of tasks, by whatever scheduler is in force; BLAS has one thread where that is this process."""
    with single_threaded_blas():
        return compute(*tasks)


# --- from collections to partitions -------------------------------------------------------------------------------


def column_names(X: Any) -> list[str]:
    """Names of the columns, x0 … for an array; columns that are not numbers are refused by name."""
    if X.ndim != 2:
        raise InputError(f"X must be a table of rows and columns; got a Dask collection of {X.ndim} dimension(s).")
    if not hasattr(X, "columns"):
        _refuse_no_numbers(X.dtype, "X")
        return [f"x{j}" for j in range(X.shape[1])]
    text = [str(name) for name, dtype in zip(X.columns, X.dtypes, strict=True) if dtype.kind not in "biuf"]
    if text:
        raise InputError(
            f"X has columns that are not numbers: {', '.join(map(repr, text))}. Encode text and categories first, e.g. "
            "with categorize() and dask.dataframe.get_dummies."
        )
    names = [str(name) for name in X.columns]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise InputError(f"X has the column {twice!r} more than once; give every column a name of its own.")
    return names


def _refuse_no_numbers(dtype: Any, where: str) -> None:
    """Dates, text, objects and complex numbers are not read as numbers in secret."""
    if dtype.kind not in "biuf":
        raise InputError(
            f"{where} holds {dtype}; expected numbers. Convert dates to days since a start date, and objects with "
            "X.astype(float)."
        )


def partitions(
    X: Any, vectors: Sequence[Any], names: Sequence[str], *, count: bool
) -> tuple[list[tuple[Any, ...]], list[float]]:
    """Delayed partitions of a table with those of its vectors, which are cut as the table is, and their lengths.

    Where lengths are not counted, partitions of unknown lengths are taken to match one by one.
    """
    held = [X.rechunk({1: -1}) if _is_array(X) and X.numblocks[1] > 1 else X, *vectors]
    in_memory = any(it is not None and not is_dask_collection(it) for it in vectors)
    lengths = [_lengths(it) for it in held]
    if count or in_memory:
        lengths = _counted(held, lengths)
    for j, name in enumerate(names, start=1):
        held[j] = None if held[j] is None else _aligned(held[j], lengths[j], lengths[0], name)
    columns = [[None] * len(lengths[0]) if it is None else _delayed(it) for it in held]
    return list(zip(*columns, strict=True)), lengths[0]


def _is_array(collection: Any) -> bool:
    return isinstance(collection, da.Array)


def _delayed(collection: Any) -> list[Any]:
    """The partitions; a plan for those that were persisted would not hold on to them."""
    n_blocks = collection.npartitions
    parts = collection.to_delayed(optimize_graph=len(collection.__dask_graph__()) > n_blocks)
    return list(np.ravel(parts))


def _lengths(held: Any) -> list[float]:
    """Lengths of partitions, NaN where they are not known; those of a vector in memory are not asked for."""
    if not is_dask_collection(held):
        return []
    return [float(n) for n in held.chunks[0]] if _is_array(held) else [np.nan] * held.npartitions


def _counted(held: list[Any], lengths: list[list[float]]) -> list[list[float]]:
    """Lengths with those that were not known, found in one pass."""
    unknown = [j for j, own in enumerate(lengths) if np.isnan(own).any()]
    length = task(_length, "count")
    counted = computed([[length(part) for part in _delayed(held[j])] for j in unknown])
    return [[float(n) for n in counted[unknown.index(j)]] if j in unknown else own for j, own in enumerate(lengths)]


def _length(part: Any) -> int:
    return int(part.shape[0])


def _aligned(vector: Any, own: list[float], lengths: list[float], name: str) -> Any:
    """A vector in the partitions of the table, or an error that says why it cannot be."""
    if not is_dask_collection(vector):
        return _distributed(np.asarray(vector), lengths, name)
    advice = "Take both from one data frame, or call compute_chunk_sizes() on arrays."
    if np.isnan([*own, *lengths]).any():
        if len(own) != len(lengths):
            raise InputError(
                f"{name} has {len(own)} partitions, X has {len(lengths)}, and not all their lengths are known, so that "
                f"rows cannot be matched. {advice}"
            )
        return vector
    _same_length(name, sum(own), sum(lengths))
    if own == lengths:
        return vector
    if np.isnan(_lengths(vector)).any():
        raise InputError(
            f"Partitions of {name} have {_listed(own)} rows, those of X {_listed(lengths)}, so that rows cannot be "
            f"matched. {advice}"
        )
    return vector.rechunk({0: tuple(int(n) for n in lengths)})


def _listed(lengths: list[float]) -> str:
    shown = ", ".join(str(int(n)) for n in lengths[:5])
    return f"{shown}, …" if len(lengths) > 5 else shown


def _same_length(name: str, own: float, n_rows: float) -> None:
    if own != n_rows:
        raise InputError(f"{name} has {int(own)} rows, X has {int(n_rows)}; they must have the same length.")


def _distributed(vector: AnyArray, lengths: list[float], name: str) -> Any:
    """A vector in memory, handed to the workers once and not in every pass."""
    _same_length(name, len(vector), sum(lengths))
    chunks = (tuple(int(n) for n in lengths), *vector.shape[1:])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)  # it is, and only once
        return da.from_array(vector, chunks=chunks, name=f"vector-{uuid4().hex}").persist()


# --- lazy predictions ---------------------------------------------------------------------------------------------


def lazy_arrays(function: Callable[..., Any], X: Any, **vectors: Any) -> Any:
    """Dask arrays of what a function of a table returns, one partition at a time, when they are asked for.

    Parameters
    ----------
    function : callable
        Takes a partition as a NumPy array or a pandas frame, and vectors by their names. Returns an array with a row
        for each row, or a NamedTuple of such. Shapes and types are learnt from one row of zeros (frames: of
        what Dask has for an example; vectors: of ones).
    X : (n, d) Dask array or data frame
    **vectors : (n,) arrays
        Dask arrays, series, or arrays in memory; cut as X is.

    Examples
    --------
    >>> import dask.array as da
    >>> lazy_arrays(lambda X: X.sum(axis=1), da.ones((5, 2), chunks=(3, 1))).compute()
    array([2., 2., 2., 2., 2.])
    """
    held, lengths = partitions(X, list(vectors.values()), list(vectors), count=False)
    with warnings.catch_warnings():  # a level that Dask made up is none that anybody should hear of
        warnings.simplefilter("ignore")
        example = function(_one_row(X), **{name: np.ones(1) for name in vectors})
    several = isinstance(example, tuple)
    examples = [np.asarray(it) for it in (example if several else (example,))]
    shared = delayed(function, pure=False)  # a model may be large: it is sent once, not with every partition
    predicted = [
        task(_predicted, "predict")(shared, i, [it[:0] for it in examples], list(vectors), *parts)
        for i, parts in enumerate(held)
    ]
    arrays = [
        da.concatenate([_array(one[k], n, it) for one, n in zip(predicted, lengths, strict=True)])
        for k, it in enumerate(examples)
    ]
    return type(example)(*arrays) if several else arrays[0]


def _one_row(X: Any) -> Any:
    return np.zeros((1, X.shape[1])) if _is_array(X) else X._meta_nonempty.iloc[:1]  # one cell of each column's type


def _array(part: Any, length: float, example: AnyArray) -> Any:
    shape = (length if np.isnan(length) else int(length), *example.shape[1:])
    return da.from_delayed(part, shape, dtype=example.dtype, meta=np.empty((0,) * len(shape), example.dtype))


def _predicted(
    function: Callable[..., Any], number: int, empty: list[AnyArray], names: Sequence[str], X: Any, *vectors: Any
) -> list[Any]:
    """Results of the function for a partition; its errors say in which. Models refuse tables without rows."""
    if not X.shape[0]:
        return empty
    try:
        with single_threaded_blas():
            results = function(X, **dict(zip(names, vectors, strict=True)))
    except InputError as error:
        raise InputError(f"Partition {number}: {error}") from error
    return list(results) if isinstance(results, tuple) else [results]
