"""Rows of Parquet files, streamed: a pass decodes some rows at a time, on threads, and forgets them."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Self, TypeVar

import numpy as np

from credibly.data.ahead import Crew, one_ahead
from credibly.data.parquet_files import AnyPaths, Piece
from credibly.data.parquet_table import Categories, ParquetTable, Reading, Roles, opened
from credibly.data.parquet_writing import write_table
from credibly.data.progress import RowProgress
from credibly.data.source import Block, Change, Code, MemoryRows, Result, Stored, Walked, joined, shares, strewn
from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array, Codes

__all__ = ["ParquetRows", "write_table"]

Gathered = TypeVar("Gathered")
MIXED_BATCHES = 4  # batches of stochastic gradient steps whose rows are shuffled together, at least


class _Source(Stored):
    """What is known of rows of files before they are read."""

    def __init__(  # noqa: PLR0913 - a constructor lists the user's choices
        self,
        path: AnyPaths,
        target: str | None = None,
        features: Sequence[str] | None = None,
        categories: Categories = "auto",
        weight: str | None = None,
        *,
        offset: str | None = None,
        progress: bool | None = None,
        batch_rows: int | None = None,
    ) -> None:
        table = opened(path, Roles(target, weight, offset), features, categories, batch_rows)
        self.table: ParquetTable = replace(table, progress=RowProgress(progress))
        self.reading = Reading()
        self.threads: int | None = None

    def __repr__(self) -> str:
        files = len(self.table.files.paths)
        return f"ParquetRows({self.n_rows:,} rows in {files:,} {'file' if files == 1 else 'files'})"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.files.n_rows

    @property
    def names(self) -> list[str]:  # type: ignore[override]
        """Columns of the design: those of numbers, and ``column=level`` for each level of a category."""
        return self.table.names

    @property
    def plain(self) -> bool:
        """Whether blocks carry no offsets."""
        return self.table.roles.offset is None

    @property
    def labelled(self) -> bool:  # type: ignore[override]
        """Whether a target was named."""
        return self.table.roles.target is not None

    @property
    def with_offsets(self) -> bool:  # type: ignore[override]
        """Whether a column of offsets was named."""
        return self.table.roles.offset is not None

    @property
    def fingerprint(self) -> str:
        """What tells these rows from others: files with their sizes and times, and what their columns are for."""
        return self.table.fingerprint

    def aligned(self, names: Sequence[str], references: Mapping[str, str] = MappingProxyType({})) -> Self:
        """The same rows with the columns of a model that was fitted before, in its order.

        Levels are the model's: a level that it does not know is zero in all indicators of its column, and told once.

        Parameters
        ----------
        names : sequence of str
            What `names` was for the rows of the fit.
        references : mapping
            Levels that had no column there.
        """
        return self._with(table=self.table.aligned(list(names), references))

    def referenced(self) -> tuple[Self, dict[str, str]]:
        """The same rows without the first level of every category, and which those are."""
        table = self.table.referenced()
        return self._with(table=table), dict(table.references)

    def _with(self, **changes: object) -> Self:
        again = copy(self)
        vars(again).update(changes)
        return again


class ParquetRows(_Source, Walked):
    """Rows of one or many Parquet files, which need not fit in memory.

    Give them to `fit` in the place of X and y. Footers are read at once: they tell the number of rows, and whether all
    files have the same columns. Data are read anew in every pass, some rows at a time.

    Parameters
    ----------
    path : path, or list of paths
        A file, a folder (the .parquet files in it and below), a pattern such as ``"data/*.parquet"``, or a list of
        those.
    target : str, optional
        The column of labels, which may be text, numbers or flags; left out for rows that are only to be predicted.
    features : list of str, optional
        Columns to learn from, in this order; all others by default.
    categories : "auto", list of str, or None
        Columns that become one indicator for each level, called ``column=level``. "auto": those of text or with a
        dictionary; a list: these too, whatever they hold; None: none, and text is refused. Flags are the numbers 0 and
        1 unless listed. Levels are found by a pass over these columns alone, when they are first needed.
    weight : str, optional
        A column of weights of the rows, not negative.
    offset : str, optional
        A column that is added to the score of every row: for a rate the logarithm of the exposure.
    progress : bool, optional
        Whether a line on the error stream says how far a pass is, once it has taken a second; None: on a terminal.
    batch_rows : int, optional
        Rows that each thread decodes at a time; by default some 100 megabytes of them.

    Notes
    -----
    Missing cells, null or NaN, are NaN in the design; a missing category is NaN in all its indicators.

    A pass is cut at row groups and, inside, at a number of rows that depends on the number of columns: so sums do not
    depend on threads or time. Row groups of 100,000 to 1,000,000 rows suit it; what is computed of a row group is held
    until all before it has been handed out. A file that changes between two passes is an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.parquet")
    >>> write_table(path, [{"age": np.array([31, 47]), "sex": np.array(["f", "m"]), "ill": np.array([False, True])}])
    2
    >>> rows = ParquetRows(path, target="ill")
    >>> rows, rows.names
    (ParquetRows(2 rows in 1 file), ['age', 'sex=f', 'sex=m'])
    >>> rows.sum(lambda block: block.X.sum(axis=0), np.add)
    array([78.,  1.,  1.])
    """

    def each(self, block: Callable[[Block], Result]) -> Generator[Result, None, None]:
        """Apply `block` to every block of rows; results in the order of the rows."""
        with closing(self._gathered(lambda blocks: [block(rows) for rows in blocks])) as pieces:
            for results in pieces:
                yield from results

    def sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]) -> Result:
        """Apply `block` to every block of rows and merge the results in order, first those of each row group."""
        with closing(self._gathered(lambda blocks: reduce(merge, map(block, blocks)))) as pieces:
            return reduce(merge, pieces)

    def through(self, change: Change) -> Self:
        """The same rows with `change` applied to the columns of every block."""
        return self._with(reading=self.reading._replace(changes=(*self.reading.changes, change)))

    def encoded(self, code: Code) -> Self:
        """The same rows with `code` applied to the labels, each by itself; of text, once to each different label."""
        return self._with(reading=self.reading._replace(codes=(*self.reading.codes, code)))

    def in_blocks(self, block_rows: int) -> Self:
        """The same rows, in blocks of at most this size."""
        return self._with(reading=self.reading._replace(block_rows=block_rows))

    def on_threads(self, threads: int | None) -> Self:
        """The same rows, computed with by so many threads (and decoded ahead by one more)."""
        return self._with(threads=threads)

    def relabelled(self, y: AnyArray) -> Self:
        """Not possible: what belongs to single rows cannot be kept for rows that are not in memory."""
        raise InputError(
            "This inference keeps numbers for every single row, which rows of files do not allow: use "
            'inference="laplace", or fit to a sample of the rows in memory.'
        )

    def sample(self, rng: np.random.Generator, size: int, n_classes: int = 0) -> MemoryRows:
        """Rows drawn without replacement, in order, strewn over the table or over those of a class; now in memory.

        With classes, a pass over the labels alone counts them first. Row groups of which nothing is drawn are not read.
        """
        counts = self._counts(n_classes)
        totals = counts.sum(axis=0)
        wanted = shares(totals, size) if n_classes else np.array([size])
        draws = [strewn(rng, n, k) for n, k in zip(totals, wanted, strict=True)]
        standing = totals / np.maximum(wanted, 1)
        return self._drawn(_by_piece(self.table.pieces, draws, counts), standing)

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Block]:
        """All rows once, `size` at a time: row groups in random order, their rows shuffled in a buffer.

        A batch holds rows of a few row groups only: where files are sorted by something that matters, shuffle them
        when they are written.
        """
        _ = self.table.features
        crew = Crew(1)
        pieces = [self.table.pieces[at] for at in rng.permutation(len(self.table.pieces))]
        blocks = (block for piece in pieces for block in self.table.blocks(piece, self.reading, crew))
        buffer = _Buffer(rng, size, max(MIXED_BATCHES * size, self.table.batch_rows))
        with closing(one_ahead(blocks)) as coming:
            for block in coming:
                yield from buffer.add(block)
            yield from buffer.rest()

    def _gathered(self, gather: Callable[[Iterator[Block]], Gathered]) -> Generator[Gathered, None, None]:
        """Apply `gather` to the blocks of every piece; results in the order of the pieces."""
        table, reading = self.table, self.reading

        def gathered(piece: Piece, crew: Crew) -> Gathered:
            with closing(table.blocks(piece, reading, crew)) as blocks:
                return gather(blocks)

        def work(piece: Piece, crew: Crew) -> Gathered:
            try:
                return gathered(piece, crew)
            except InputError:
                for group in table.files.apart(piece):  # the one that is at fault names itself
                    gathered(group, crew)
                raise

        _ = table.features  # which may need a pass of its own
        return table.walked(work, table.pieces, self.threads)

    def _counts(self, n_classes: int) -> Codes:
        """Rows of each piece and class."""
        table, reading = self.table, self.reading
        if not n_classes:
            return np.array([[piece.n_rows] for piece in table.pieces])

        def work(piece: Piece, crew: Crew) -> Codes:
            total = np.zeros(n_classes, dtype=np.intp)
            for codes in table.labels(piece, reading, crew):
                total += np.bincount(codes.astype(np.intp, copy=False), minlength=n_classes)
            return total

        return np.array(list(table.walked(work, table.pieces, self.threads)))

    def _drawn(self, drawn: dict[Piece, list[Codes]], standing: Array) -> MemoryRows:
        """The rows with these numbers, counted in each piece and class."""
        table = self.table
        reading = self.reading._replace(changes=(), block_rows=None)

        def work(piece: Piece, crew: Crew) -> Block:
            with closing(table.blocks(piece, reading, crew)) as blocks:
                return joined(list(_picked(blocks, drawn[piece], standing)))

        _ = table.features
        X, y, weight, offset, *_ = joined(list(table.walked(work, list(drawn), self.threads)))
        return MemoryRows(X, y, weight, self.threads, self.reading.block_rows, offset, self.reading.changes)


def _by_piece(pieces: Sequence[Piece], draws: Sequence[Codes], counts: Codes) -> dict[Piece, list[Codes]]:
    """Numbers of drawn rows, counted in each class over all pieces, counted in each piece: of those that have any."""
    ends = np.cumsum(counts, axis=0)
    starts = ends - counts
    cuts = [np.searchsorted(numbers, ends[:, k]) for k, numbers in enumerate(draws)]
    found = {}
    for at, piece in enumerate(pieces):
        first = [0 if at == 0 else cut[at - 1] for cut in cuts]
        here = [
            numbers[low : cut[at]] - starts[at, k]
            for k, (numbers, low, cut) in enumerate(zip(draws, first, cuts, strict=True))
        ]
        if any(numbers.size for numbers in here):
            found[piece] = here
    return found


def _picked(blocks: Iterator[Block], numbers: Sequence[Codes], standing: Array) -> Iterator[Block]:
    """The rows of each class with these numbers."""
    seen = np.zeros(len(numbers), dtype=np.intp)
    for block in blocks:
        codes = block.y.astype(np.intp, copy=False) if len(numbers) > 1 else np.zeros(len(block.y), dtype=np.intp)
        chosen = []
        for k, wanted in enumerate(numbers):
            (members,) = np.nonzero(codes == k)
            low, high = np.searchsorted(wanted, (seen[k], seen[k] + members.size))
            chosen.append(members[wanted[low:high] - seen[k]])
            seen[k] += members.size
        at = np.sort(np.concatenate(chosen))
        picked = block.taken(at)
        yield picked._replace(weight=picked.weights * standing[codes[at]])


class _Buffer:
    """Rows that are shuffled together and handed out in batches.

    Parameters
    ----------
    rng : Generator
    size : int
        Rows of a batch.
    most : int
        Rows that are held, about.
    """

    def __init__(self, rng: np.random.Generator, size: int, most: int) -> None:
        self._rng, self._size, self._most = rng, size, most
        self._blocks: list[Block] = []
        self._n = 0

    def add(self, block: Block) -> Iterator[Block]:
        """Take up some rows; once there are enough, hand out half of them."""
        self._blocks.append(block)
        self._n += len(block.y)
        if self._n >= self._most:
            yield from self._handed_out(max(1, self._n // (2 * self._size)) * self._size)

    def rest(self) -> Iterator[Block]:
        """Hand out all."""
        yield from self._handed_out(self._n)

    def _handed_out(self, n: int) -> Iterator[Block]:
        held, order = joined(self._blocks), self._rng.permutation(self._n)
        cuts = [order[start : min(start + self._size, n)] for start in range(0, n, self._size)]
        left = held.taken(order[n:])
        self._blocks, self._n = [left] if n < self._n else [], self._n - n
        for cut in cuts:
            yield held.taken(cut)
