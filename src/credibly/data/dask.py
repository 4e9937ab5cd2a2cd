"""Rows of Dask arrays and data frames: a pass maps every partition on its worker and merges the results as a tree.

What travels is what a function of a block returns, a number, a vector and a matrix; never the rows. A collection is
computed as it is: one that was persisted is read from the workers' memory in every pass, any other is made anew.
"""

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import dask.array as dask_array
import dask.core as dask_core
import numpy as np
from dask.base import is_dask_collection, tokenize
from dask.delayed import Delayed

from credibly.data.lazy import column_names
from credibly.data.partitions import (
    Asked,
    Output,
    Part,
    count_part,
    draw_part,
    drawn_from,
    each_part,
    finished,
    map_part,
    merge_parts,
    one_after_other,
    sum_part,
    whole_part,
)
from credibly.data.source import Block, Change, Code, MemoryRows, Result, RowWise, Stored, Walked, joined
from credibly.data.threads import single_threaded_blas
from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array, Codes

da: Any = dask_array  # Dask's functions have no types of their own
core: Any = dask_core
one_value: Any = Delayed

MERGED_AT_ONCE = 8  # results that one task merges: the tree of a thousand partitions has four levels
WAITING = 16  # partitions whose results are held at a time, where they are handed out one by one
MOST_SHOWN = 5
VECTORS = ("y", "sample_weight", "offset")

Key = Any  # a string or a tuple that names a task
Graph = dict[Any, Any]


class Partitions(NamedTuple):
    """Partitions of a table and of the vectors that belong to it: for every one the keys of its parts."""

    keys: tuple[tuple[Key | None, ...], ...]  # of X, y, weight, offset
    graph: Graph
    lengths: tuple[float, ...]  # NaN where nobody has counted


# --- From collections to partitions -------------------------------------------------------------------------------


def rows_of(X: Any, y: Any = None, weight: Any = None, offset: Any = None) -> "DaskRows":
    """Rows of a Dask array or data frame.

    Parameters
    ----------
    X : (n, d) Dask array or data frame
        In chunks of any lengths (counted in one pass where not known); column chunks are brought together.
    y, weight, offset : (n,) Dask arrays or series, or arrays in memory, optional

    Returns
    -------
    DaskRows

    Examples
    --------
    >>> import dask.array as da
    >>> rows = rows_of(da.ones((5, 2), chunks=(2, 1)), np.arange(5))
    >>> rows.n_rows, rows.names
    (5, ['x0', 'x1'])
    """
    names = column_names(X)
    for what, it in zip(VECTORS, (y, weight, offset), strict=True):
        if it is not None and np.ndim(it) != 1:
            raise InputError(f"{what} must have one dimension: a number, or a label, for each row.")
    parts = partitions(X, (y, weight, offset), VECTORS, count=True)
    if not sum(parts.lengths):
        raise InputError("X has no rows: all its partitions are empty.")
    return DaskRows(parts, names, tokenize(X, y, weight, offset), named=hasattr(X, "columns"))


def partitions(X: Any, vectors: Sequence[Any], names: Sequence[str], *, count: bool) -> Partitions:
    """Partitions of a table with those of its vectors, which are cut as the table is.

    Where lengths are not counted, partitions of unknown lengths are taken to match one by one.
    """
    held = [X.rechunk({1: -1}) if _is_array(X) and X.numblocks[1] > 1 else X, *vectors]
    in_memory = any(it is not None and not is_dask_collection(it) for it in vectors)
    lengths = [_lengths(it) for it in held]
    if count or in_memory:
        lengths = _counted(held, lengths)
    for j, name in enumerate(names, start=1):
        held[j] = None if held[j] is None else _aligned(held[j], lengths[j], lengths[0], name)
    read = [None if it is None else _keys_and_graph(it) for it in held]
    graph = {key: task for one in read if one is not None for key, task in one[1].items()}
    keys = zip(*([None] * len(lengths[0]) if one is None else one[0] for one in read), strict=True)
    return Partitions(tuple(keys), graph, tuple(lengths[0]))


def _is_array(collection: Any) -> bool:
    return isinstance(collection, da.Array)


def _lengths(held: Any) -> list[float]:
    """Lengths of partitions, NaN where they are not known; those of a vector in memory are not asked for."""
    if not is_dask_collection(held):
        return []
    return [float(n) for n in held.chunks[0]] if _is_array(held) else [np.nan] * held.npartitions


def _keys_and_graph(collection: Any) -> tuple[list[Key], Graph]:
    """Keys of the partitions, and the best plan for them; with what is persisted, which plans for arrays leave out."""
    held = collection if _is_array(collection) else collection.optimize()
    keys, graph = held.__dask_keys__(), dict(held.__dask_graph__())
    if _is_array(held):
        graph |= da.optimization.optimize(held.__dask_graph__(), keys)
    return list(core.flatten(keys)), graph


def _counted(held: list[Any], lengths: list[list[float]]) -> list[list[float]]:
    """Lengths with those that were not known, found in one pass."""
    name = _name("count")
    layer, graph = Graph(), Graph()
    for j, own in enumerate(lengths):
        if np.isnan(own).any():
            keys, tasks = _keys_and_graph(held[j])
            graph |= tasks
            layer |= {(name, j, i): (_length, key) for i, key in enumerate(keys)}
    found = dict(zip(layer, computed(graph | layer, list(layer)), strict=True))
    return [[float(found.get((name, j, i), n)) for i, n in enumerate(own)] for j, own in enumerate(lengths)]


def _length(part: Any) -> int:
    return int(part.shape[0])


def _aligned(vector: Any, own: list[float], lengths: list[float], name: str) -> Any:
    """A vector in the partitions of the table, or an error that says why it cannot be."""
    if not is_dask_collection(vector):
        return _spread(np.asarray(vector), lengths, name)
    if np.isnan([*own, *lengths]).any():
        if len(own) != len(lengths):
            raise InputError(
                f"{name} has {len(own)} partitions, X has {len(lengths)}, and not all their lengths are known, so that "
                "rows cannot be matched. Take both from one data frame, or call compute_chunk_sizes() on arrays."
            )
        return vector
    _same_length(name, sum(own), sum(lengths))
    if own == lengths:
        return vector
    if np.isnan(_lengths(vector)).any():
        raise InputError(
            f"Partitions of {name} have {_listed(own)} rows, those of X {_listed(lengths)}, so that rows cannot be "
            "matched. Take both from one data frame, or call compute_chunk_sizes() on arrays."
        )
    return vector.rechunk({0: tuple(int(n) for n in lengths)})


def _listed(lengths: list[float]) -> str:
    shown = ", ".join(str(int(n)) for n in lengths[:MOST_SHOWN])
    return f"{shown}, …" if len(lengths) > MOST_SHOWN else shown


def _same_length(name: str, own: float, n_rows: float) -> None:
    if own != n_rows:
        raise InputError(f"{name} has {int(own)} rows, X has {int(n_rows)}; they must be of one length.")


def _spread(vector: AnyArray, lengths: list[float], name: str) -> Any:
    """A vector in memory, handed to the workers once and not in every pass."""
    _same_length(name, len(vector), sum(lengths))
    chunks = (tuple(int(n) for n in lengths), *vector.shape[1:])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)  # it is, and only once
        return da.from_array(vector, chunks=chunks, name=f"vector-{uuid4().hex}").persist()


def computed(graph: Graph, keys: Any) -> Any:
    """Values of keys of a graph, by whatever scheduler is in force; BLAS has one thread where that is this process."""
    if not keys:
        return keys
    name = f"found-{uuid4().hex}"
    return value_of({**graph, name: (_itself, keys)}, name)


def value_of(graph: Graph, key: Key) -> Any:
    """The value of one key."""
    with single_threaded_blas():
        return one_value(key, graph).compute()


def _itself(value: Any) -> Any:
    return value


# --- The rows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DaskRows(Walked, Stored):
    """Rows in the partitions of a Dask collection; made by `rows_of`.

    Every partition is walked on its worker, by one thread, in blocks that fit the cache. Results are merged in the
    order of the partitions, eight at a time, so that they do not depend on which worker was first.

    Examples
    --------
    >>> import dask.array as da
    >>> from credibly.data.source import add
    >>> rows = rows_of(da.arange(6, chunks=6).reshape(3, 2), np.array([0, 1, 1]))
    >>> rows.sum(lambda block: (block.X.sum(axis=0), len(block.y)), add)
    (array([6., 9.]), 3)
    """

    parts: Partitions
    names: list[str]
    fingerprint: str = ""  # Dask's name for these very collections
    named: bool = True  # False for arrays, whose columns are only numbered
    code: Code | None = None
    block_rows: int | None = None
    changes: tuple[Change, ...] = field(default=())

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(sum(self.parts.lengths))

    @property
    def plain(self) -> bool:
        """Whether blocks carry no offsets; they are dense, those of sparse chunks too."""
        return self.parts.keys[0][-1] is None

    def sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]) -> Result:
        """Apply `block` to every block of rows and merge the results in order, as a tree."""
        layer = _tasks(self, partial(sum_part, changes=self.changes, block=block, merge=merge))
        level = list(layer)
        while len(level) > 1:
            name, work = _name("merge"), partial(merge_parts, merge=merge)
            merged = {(name, k): (work, level[k : k + MERGED_AT_ONCE]) for k in range(0, len(level), MERGED_AT_ONCE)}
            layer, level = layer | merged, list(merged)
        found: Result = value_of(self.parts.graph | layer, level[0])
        return found

    def map(self, block: RowWise) -> Array:
        """Apply `block` to every block of rows and stack what it returns: n rows of it come back."""
        return np.concatenate(_at_once(self, partial(map_part, changes=self.changes, block=block)))

    def each(self, block: Callable[[Block], Result]) -> Generator[Result, None, None]:
        """Apply `block` to every block of rows; results in the order of the rows, of a few partitions at a time."""
        tasks = _tasks(self, partial(each_part, changes=self.changes, block=block))
        keys = list(tasks)
        for start in range(0, len(keys), WAITING):
            for results in computed(self.parts.graph | tasks, keys[start : start + WAITING]):
                yield from results or ()

    def through(self, change: Change) -> "DaskRows":
        """The same rows with `change` applied to the columns of every block."""
        return replace(self, changes=(*self.changes, change))

    def encoded(self, code: Code) -> "DaskRows":
        """The same rows with `code` applied to the labels of every block."""
        return replace(self, code=code if self.code is None else partial(one_after_other, self.code, code))

    def in_blocks(self, block_rows: int) -> "DaskRows":
        """The same rows, handed out in blocks of this size."""
        return replace(self, block_rows=block_rows)

    def on_threads(self, threads: int | None) -> "DaskRows":
        """The same rows: how many partitions are walked at a time is the scheduler's affair."""
        return self

    def relabelled(self, y: AnyArray) -> "DaskRows":
        """The same rows with other labels, or anything else that belongs to each of them; n of these travel."""
        keys, graph = _keys_and_graph(_spread(np.asarray(y), list(self.parts.lengths), "y"))
        labelled = tuple((old[0], new, *old[2:]) for old, new in zip(self.parts.keys, keys, strict=True))
        return replace(self, parts=self.parts._replace(keys=labelled, graph=self.parts.graph | graph), code=None)

    def sample(self, rng: np.random.Generator, size: int, n_classes: int = 0) -> MemoryRows:
        """Rows drawn without replacement, every partition (and class) in proportion; they come into memory."""
        chosen = drawn_from(rng, _counts(self, n_classes), size)
        drawn = _at_once(self, *(partial(draw_part, changes=(), drawn=here) for here in chosen))
        X, y, weight, offset, *_ = joined(drawn)
        return MemoryRows(X, y, weight, None, self.block_rows, offset, self.changes)

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Block]:
        """All rows once, `size` at a time: partitions in random order, each brought into memory and shuffled there."""
        tasks = _tasks(self, whole_part)
        keys = list(tasks)
        for number in rng.permutation(len(keys)):
            (part,) = computed(self.parts.graph | tasks, [keys[number]])
            order = rng.permutation(0 if part is None else len(part.y))
            finish = finished(_itself, number, self.changes)
            yield from (finish(part.taken(order[start : start + size])) for start in range(0, len(order), size))


def _name(what: str) -> str:
    """A name that no other tasks have: nobody is to answer with what an earlier pass has found."""
    return f"credibly-{what}-{uuid4().hex}"


def _tasks(rows: DaskRows, *works: Callable[..., Any]) -> Graph:
    """One task for every partition: the same function for all, or one for each."""
    every = works if len(works) > 1 else works * len(rows.parts.keys)
    read, name = partial(_on_part, code=rows.code, block_rows=rows.block_rows), _name("part")
    return {
        (name, number): (partial(read, number, work), *keys)
        for number, (work, keys) in enumerate(zip(every, rows.parts.keys, strict=True))
    }


def _on_part(number: int, work: Callable[..., Any], *held: Any, code: Code | None, block_rows: int | None) -> Any:
    return work(Part(number, tuple(held), code, block_rows))


def _at_once(rows: DaskRows, *works: Callable[..., Any]) -> list[Any]:
    """What tasks find, in the order of the partitions; nothing for empty ones."""
    tasks = _tasks(rows, *works)
    return [result for result in computed(rows.parts.graph | tasks, list(tasks)) if result is not None]


def _counts(rows: DaskRows, n_classes: int) -> Codes:
    """Rows of every class (of all rows where there are none) in every partition, (partitions, K)."""
    if not n_classes:
        return np.array(rows.parts.lengths, dtype=np.intp)[:, None]
    return np.stack(_at_once(rows, partial(count_part, changes=(), n_classes=n_classes)))


# --- Lazy predictions ---------------------------------------------------------------------------------------------


def lazy_array(function: Callable[..., Any], output: Output, X: Any, **vectors: Any) -> Any:
    """A Dask array of what a function of a table returns, one partition at a time, when it is asked for.

    Parameters
    ----------
    function : callable
        Takes a partition as a NumPy array or a pandas frame, and vectors by their names.
    output : Output
        Shape and type of what it returns for each row.
    X : (n, d) Dask array or data frame
    **vectors : (n,) arrays or None
        Dask arrays, series, or arrays in memory; cut as X is.

    Examples
    --------
    >>> import dask.array as da
    >>> from credibly.data.partitions import Output
    >>> lazy_array(lambda X: X.sum(axis=1), Output(()), da.ones((5, 2), chunks=(3, 1))).compute()
    array([2., 2., 2., 2., 2.])
    """
    parts = partitions(X, list(vectors.values()), list(vectors), count=False)
    name, tail = _name("predict"), (0,) * len(output.shape)
    shared = f"{name}-function"  # a model may be large: it is sent once, not with every partition
    layer: Graph = {
        (name, i, *tail): (Asked(i, tuple(vectors), output), shared, *keys) for i, keys in enumerate(parts.keys)
    } | {shared: function}
    chunks = (tuple(n if np.isnan(n) else int(n) for n in parts.lengths), *((width,) for width in output.shape))
    return da.Array(parts.graph | layer, name, chunks=chunks, meta=np.empty((0,) * len(chunks), dtype=output.dtype))


def columns_of(packed: Any, start: int, output: Output) -> Any:
    """Some columns of a lazy (n, width) array as what they were before they were laid side by side."""
    width = int(np.prod(output.shape))
    part = packed[:, start : start + width]
    chunks = (part.chunks[0], *((w,) for w in output.shape))
    shaped = partial(_shaped, shape=output.shape)
    if not output.shape:
        return part.map_blocks(shaped, dtype=output.dtype, chunks=chunks, drop_axis=1)
    new = list(range(2, 1 + len(output.shape)))
    return part.map_blocks(shaped, dtype=output.dtype, chunks=chunks, new_axis=new or None)


def _shaped(part: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    return part.reshape(len(part), *shape)
