"""Parquet files as rows: decoded by pyarrow's scanner in every pass, some rows at a time, and forgotten.

`File` is the one reader of Parquet files, for models and for the command; `ParquetRows` makes rows of columns.
"""

import os
import re
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from glob import glob, has_magic
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs, types

from credibly.data import categories as cats
from credibly.data.categories import Feature, LevelSets
from credibly.data.memory import refuse_beyond_memory
from credibly.data.progress import Progress
from credibly.data.rows import Block, Code, OutOfCoreRows, Result, RowPosition, block_cuts, check_weights
from credibly.data.threads import default_threads, in_order, single_threaded_blas
from credibly.errors import DataWarning, InputError, TableError
from credibly.numerics.arrays import AnyArray, Array
from credibly.wording import did_you_mean, shortened

BATCH_ROWS, BATCH_NUMBERS = 65_536, 4_000_000  # in a batch: what is handed to a thread at a time, 32 MB at most
READ_AHEAD = 4  # batches that pyarrow decodes ahead: beyond the row group in use, one more
GROUPS_HELD = 2  # row groups that are in memory at the same time, at the least
THRIFT_LIMIT = 1 << 28  # bytes and items of metadata, so that a damaged file cannot ask for all memory
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # with two letters at least: one is a drive
HIVE = re.compile(r"[^=]+=.*")  # a folder that stands for the value of a column
ROW_NAMES = re.compile(r"__index_level_\d+__")  # what pandas makes of an index without a name
DAMAGED = (pa.ArrowException, OSError, ValueError, OverflowError, KeyError, MemoryError)  # what pyarrow raises then

AnyPath = str | os.PathLike[str]
AnyPaths = AnyPath | Sequence[AnyPath]
Categories = str | Sequence[str] | None


# --- one file -----------------------------------------------------------------------------------------------------


class State(NamedTuple):
    """By what a file that was written anew is recognized."""

    size: int
    modified: int  # nanoseconds


@dataclass(frozen=True)
class File:
    """A Parquet file whose footer has been read.

    Parameters
    ----------
    path : Path
    name : str
        For messages.
    state : State
    footer : pyarrow.parquet.FileMetaData
    schema : pyarrow.Schema
    """

    path: Path
    name: str
    state: State
    footer: Any
    schema: Any

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> "File":
        """Read the footer."""
        name = str(path) if name is None else name
        try:
            state = _state(path)
            limits = {"thrift_string_size_limit": THRIFT_LIMIT, "thrift_container_size_limit": THRIFT_LIMIT}
            with pq.ParquetFile(path, **limits) as file:
                return cls(path, name, state, file.metadata, file.schema_arrow)
        except PermissionError as error:
            raise TableError(f"{name} cannot be read: permission denied. Change its permissions.") from error
        except DAMAGED as error:
            raise TableError(
                f"{name} is not a Parquet file, or is truncated or damaged: its footer, which lists the columns, "
                f"cannot be read ({_short(error)}). Fetch or write the file again."
            ) from error

    @property
    def n_rows(self) -> int:
        """Number of rows, as the footer tells."""
        return int(self.footer.num_rows)

    @property
    def group_rows(self) -> list[int]:
        """Rows of each row group."""
        return [self.footer.row_group(k).num_rows for k in range(self.footer.num_row_groups)]

    def batches(
        self, columns: Sequence[str], most_rows: int, group: int | None = None, *, threads: bool = True
    ) -> Iterator[Any]:
        """Decode columns, at most so many rows at a time, in order; a batch never spans two row groups.

        Parameters
        ----------
        columns : sequence of str
            Text comes with a dictionary, which is how files hold text that repeats.
        most_rows : int
        group : int or None
            One row group only.
        threads : bool
            Whether pyarrow's threads decode ahead.
        """
        self.check_unchanged()
        done, expected = 0, self.n_rows if group is None else self.group_rows[group]
        try:
            for batch in self._scanner(columns, most_rows, group, threads).to_batches():
                batch.validate(full=True)
                done += batch.num_rows
                yield batch
        except DAMAGED as error:
            self.check_unchanged()
            raise TableError(
                f"{self.name} is damaged or cut off ({_short(error)}). Fetch or write the file again, or leave it out."
            ) from error
        if done != expected:
            raise TableError(f"{self.name} is damaged: it holds {done} of the {expected} rows that it announces.")

    def _scanner(self, columns: Sequence[str], most_rows: int, group: int | None, threads: bool) -> Any:
        text = [name for name in columns if cats.is_text(self.schema.field(name).type)]
        options = ds.ParquetFragmentScanOptions(
            pre_buffer=False,  # it would hold every byte of a file until the file is done
            page_checksum_verification=True,
            thrift_string_size_limit=THRIFT_LIMIT,
            thrift_container_size_limit=THRIFT_LIMIT,
        )
        kind = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=text))
        fragment = kind.make_fragment(str(self.path.absolute()), filesystem=fs.LocalFileSystem())
        if group is not None:
            fragment = fragment.subset(row_group_ids=[group])
        return fragment.scanner(
            columns=list(columns),
            batch_size=most_rows,
            batch_readahead=READ_AHEAD,
            fragment_scan_options=options,
            use_threads=threads,
        )

    def check_unchanged(self) -> None:
        """Refuse a file that was written anew: passes over different rows do not add up."""
        try:
            same = _state(self.path) == self.state
        except OSError as error:
            raise TableError(
                f"{self.name} can no longer be read ({error.strerror}). Create the ParquetRows again."
            ) from error
        if not same:
            raise TableError(
                f"{self.name} has changed since it was first read (its size or its time of modification). Do not "
                "change files while a model reads them, and create the ParquetRows again."
            )


def _state(path: Path) -> State:
    stat = path.stat()
    return State(stat.st_size, stat.st_mtime_ns)


def _short(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")[:200]


# --- which files --------------------------------------------------------------------------------------------------


def expanded(path: AnyPaths) -> tuple[Path, ...]:
    """The files that a path, a folder, a pattern, or a list of those stands for.

    A folder stands for the .parquet files in it and below, those whose names start with a dot or an underscore left
    out; files of folders and patterns come in the order of their names.
    """
    given = list(path) if isinstance(path, Iterable) and not isinstance(path, str | bytes) else [path]
    paths = tuple(file for one in given for file in _expanded(one))
    if not paths:
        raise TableError("Expected Parquet files; got an empty list.")
    if len(set(paths)) < len(paths):
        twice = next(it for at, it in enumerate(paths) if it in paths[:at])
        raise TableError(f"{twice} is given twice; its rows would count double.")
    return paths


def _expanded(path: object) -> list[Path]:
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"Expected a path, a pattern such as 'data/*.parquet', or a list of paths; got {path!r}.")
    one = Path(path)
    if one.is_dir():
        files = sorted(it for it in one.rglob("*.parquet") if it.is_file() and not it.name.startswith((".", "_")))
        if not files:
            raise TableError(f"The folder {one} holds no .parquet files.")
        return files
    if one.exists():
        return [one]
    if URL.match(str(path)):
        raise TableError(
            f"{path} is an address; files of this machine are read. Mount or copy it, or read it with Dask, whose "
            "arrays and data frames fit takes as they are."
        )
    if not has_magic(str(path)):
        raise TableError(f"No such file: {one}.")
    files = sorted(Path(it) for it in glob(str(path), recursive=True) if Path(it).is_file())
    if not files:
        raise TableError(f"No file matches {path}.")
    return files


# --- which columns ------------------------------------------------------------------------------------------------


class Roles(NamedTuple):
    """Columns that are no features."""

    target: str | None
    weight: str | None
    offset: str | None

    @property
    def named(self) -> list[str]:
        """Those that there are."""
        return [name for name in self if name is not None]


def _warn_of_unseen(unseen: set[tuple[str, str]], reported: set[str], references: Mapping[str, str]) -> None:
    """Warn of levels that are not those of the training table, (column, level), once for every column."""
    new = sorted({name for name, _ in unseen} - reported)
    reported.update(new)
    for name in new:
        missing = "such cells count as missing"
        zeros = "no level's effect is added there, and intervals do not know the new one's"
        warnings.warn(
            f"Column {name!r} has levels that were not in the training table: "
            f"{shortened([level for column, level in sorted(unseen) if column == name], show=repr)}; "
            f"{missing if name in references else zeros}.",
            DataWarning,
            stacklevel=2,
        )


def _check_arguments(roles: Roles, features: Sequence[str] | None, categories: Categories, batch_rows: object) -> None:
    if isinstance(features, str):
        raise InputError(f"features must be a list of columns, or None for all; got {features!r}.")
    if isinstance(categories, str) and categories != "auto":
        raise InputError(f'categories must be "auto", a list of columns, or None; got {categories!r}.')
    for name in (*roles.named, *(features or ())):
        if not isinstance(name, str):
            raise InputError(f"Column names must be strings; got {name!r}.")
    if batch_rows is not None and (not isinstance(batch_rows, int | np.integer) or batch_rows < 1):
        raise InputError(f"batch_rows must be a positive number of rows, or None; got {batch_rows!r}.")


def _check_nothing_left_out(files: Sequence[File]) -> None:
    """Check, if all columns are features, that no file has more than the first, and no folder's name is a column."""
    known = set(files[0].schema.names)
    for file in files:
        more = [name for name in file.schema.names if name not in known and not ROW_NAMES.fullmatch(name)]
        if more:
            raise TableError(
                f"{file.name} has the column {shortened(more, show=repr)}, which {files[0].name} lacks; name the "
                "columns to learn from by features=[...]."
            )
    hive = sorted({part for file in files for part in file.path.parent.parts if HIVE.fullmatch(part)})
    if hive:
        warnings.warn(
            f"The folders are called {shortened(hive, show=repr)}; such columns, which are in no file, are not read. "
            "Write the column into the files if the model is to use it, or give features=[...].",
            DataWarning,
            stacklevel=3,
        )


def _features(schema: Any, roles: Roles, features: Sequence[str] | None) -> list[str]:
    if features is None:
        names = [it for it in schema.names if it not in roles.named and not ROW_NAMES.fullmatch(it)]
    else:
        names = list(features)
    uses = [*names, *roles.named]
    both = [name for name in dict.fromkeys(roles.named) if uses.count(name) > 1]
    if both:
        raise InputError(
            f"A column has one role: feature, target, weight or offset; {shortened(both, show=repr)} has several."
        )
    twice = [name for at, name in enumerate(names) if name in names[:at]]
    if twice:
        raise InputError(f"Columns occur more than once among the features: {shortened(twice, show=repr)}.")
    if not names:
        raise TableError("No features: expected at least one column besides target, weight and offset.")
    return names


def _check_column(name: str, files: Sequence[File]) -> None:
    """Every file has this column, once, with the type of the first file."""
    for file in files:
        places = file.schema.get_all_field_indices(name)
        if not places:
            hint = did_you_mean(name, file.schema.names, f"It has {shortened(file.schema.names, show=repr)}.")
            raise TableError(f"{file.name} has no column {name!r}. {hint}")
        if len(places) > 1:
            raise TableError(f"{file.name} has {len(places)} columns called {name!r}. Rename them.")
        kind, expected = file.schema.field(name).type, files[0].schema.field(name).type
        if _comparable(kind) != _comparable(expected):
            raise TableError(
                f"Column {name!r} has another type in {file.name} than in {files[0].name}: {kind} instead of "
                f"{expected}. Write the files with the same types."
            )


def _comparable(kind: Any) -> Any:
    """A type without the width of the codes of a dictionary, which follows the number of its entries."""
    return ("dictionary", kind.value_type) if types.is_dictionary(kind) else kind


def _categories(schema: Any, names: Sequence[str], categories: Categories) -> list[str]:
    text = [name for name in names if cats.is_text(schema.field(name).type)]
    if categories == "auto":
        return text
    listed = list(categories or ())
    unknown = [name for name in listed if name not in names]
    if unknown:
        raise InputError(
            f"Categories must be features; {shortened(unknown, show=repr)} is not. There are "
            f"{shortened(names, show=repr)}."
        )
    return [name for name in names if name in {*listed, *(text if listed else ())}]


def _check_role(schema: Any, role: str, name: str | None) -> None:
    if name is None:
        return
    kind = schema.field(name).type
    if role == "target" and cats.is_nested(kind):
        raise TableError(f"Column {name!r} ({kind}) cannot be the target: {cats.NESTED}.")
    if role != "target" and (cats.is_text(kind) or not cats.is_number(kind)):
        raise TableError(f"Column {name!r} ({kind}) cannot be the {role}: it must hold numbers.")


# --- the rows -----------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Some decoded rows, and where they are from."""

    cells: Any  # pyarrow.RecordBatch
    file: str
    first: int  # the first row, counted in the file
    before: int  # rows of the files before


class ParquetRows(OutOfCoreRows):
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
        Whether the error stream says how far a pass is, once it has taken a second; None: where the model is verbose.
    batch_rows : int, optional
        Rows that are handed to a thread at a time; by default 65,536, fewer of very wide tables.

    Notes
    -----
    Missing cells, null or NaN, are NaN in the design; a missing category is NaN in all its indicators.

    A pass is cut at row groups and, inside, at a number of rows that depends on the number of columns: so sums do not
    depend on threads or time. Two row groups are in memory at a time: those of 100,000 to 1,000,000 rows suit it. A
    file that changes between two passes is an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from credibly.data.table_files import write_table
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.parquet")
    >>> write_table(path, [{"age": np.array([31, 47]), "sex": np.array(["f", "m"]), "ill": np.array([False, True])}])
    2
    >>> rows = ParquetRows(path, target="ill")
    >>> rows, rows.names
    (ParquetRows(2 rows in 1 file), ['age', 'sex=f', 'sex=m'])
    >>> rows.sum(lambda block: block.X.sum(axis=0), np.add)
    array([78.,  1.,  1.])
    """

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
        roles = Roles(target, weight, offset)
        _check_arguments(roles, features, categories, batch_rows)
        self.files, self.roles = tuple(File.of(it) for it in expanded(path)), roles
        if features is None:
            _check_nothing_left_out(self.files)
        schema = self.files[0].schema
        self.columns = tuple(_features(schema, roles, features))
        for name in (*self.columns, *roles.named):
            _check_column(name, self.files)
        self.categories = tuple(_categories(schema, self.columns, categories))
        cats.check_kinds(schema, self.columns, self.categories)
        for role, column in roles._asdict().items():
            _check_role(schema, role, column)
        self.labelled, self.with_offsets = target is not None, offset is not None
        if self.labelled and not self.n_rows:  # there is nothing to learn; nothing to predict is no error
            raise TableError(
                f"The files have columns but no rows: {shortened([file.name for file in self.files], show=repr)}."
            )
        width = len(self.columns) + len(roles.named)
        self._refuse_large_groups(width)
        self.batch_rows = batch_rows or max(1, min(BATCH_ROWS, BATCH_NUMBERS // width))
        self.progress = progress
        self.references: dict[str, str] = {}  # levels without a column, for some categories
        self.codes: tuple[Code, ...] = ()
        self._levels: dict[str, tuple[str, ...]] = {}  # shared by all views of these rows: found once
        self._reported: set[str] = set()  # columns with levels that a model does not know; shared by views, too
        self._passes = count(1)
        self._order: np.random.Generator | None = None  # where row groups are to come in random order
        self._only_labels = False

    def _refuse_large_groups(self, width: int) -> None:
        largest = max((rows for file in self.files for rows in file.group_rows), default=0)
        refuse_beyond_memory(
            GROUPS_HELD * largest * width,
            f"reading row groups of {largest:,} rows, {GROUPS_HELD} at a time,",
            "Write the files with smaller row groups (row_group_size=500_000), or name fewer features.",
        )

    def __repr__(self) -> str:
        files = len(self.files)
        return f"ParquetRows({self.n_rows:,} rows in {files:,} {'file' if files == 1 else 'files'})"

    @property
    def n_rows(self) -> int:
        return sum(file.n_rows for file in self.files)

    @property
    def names(self) -> list[str]:  # type: ignore[override]
        """Columns of the design: those of numbers, and ``column=level`` for each level of a category."""
        return [name for feature in self.features for name in feature.names]

    @property
    def features(self) -> tuple[Feature, ...]:
        """Features with their places in the design; the first to ask may have to wait for a pass over categories."""
        if self.categories and not self._levels:
            levels: LevelSets = {name: set() for name in self.categories}
            for file in self.files:
                for batch in file.batches(self.categories, self.batch_rows):
                    cats.merge_levels(levels, cats.levels_of(batch, self.categories), file.name)
            self._levels.update(cats.ordered_levels(levels))
        return cats.features_of(self.columns, self._levels, self.references)

    @property
    def fingerprint(self) -> str:
        """A text that tells these rows from others: files with their sizes and times, and the uses of their columns."""
        files = [(str(file.path.resolve()), *file.state) for file in self.files]
        text = repr((files, tuple(self.roles), self.columns, self.categories, self.references))
        return f"{len(files)} files, {self.n_rows} rows, {sha256(text.encode()).hexdigest()}"

    # other views of the same rows

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
        by_column = cats.levels_in(names, self.columns, self.categories)
        levels = {name: tuple(of) for name, of in by_column.items() if of}
        known = {name: level for name, level in references.items() if name in levels}
        again = self._with(
            columns=tuple(by_column), categories=tuple(levels), _levels=levels, references=known, _reported=set()
        )
        if again.names != list(names):
            raise InputError(
                f"The levels of a category must stand together; got the columns {shortened(names, show=repr)}."
            )
        return again

    def without_reference_levels(self) -> tuple[Self, dict[str, str]]:
        levels = {feature.name: feature.levels for feature in self.features if feature.levels is not None}
        references = {name: of[0] for name, of in levels.items()}
        return self._with(_levels={name: of[1:] for name, of in levels.items()}, references=references), references

    def encoded(self, code: Code) -> Self:
        return self._with(codes=(*self.codes, code))

    def relabelled(self, y: AnyArray) -> Self:
        """Not possible: what belongs to single rows cannot be kept for rows that are not in memory."""
        raise InputError(
            "This inference keeps numbers for every single row, which rows of files do not allow: use "
            'inference="laplace", or fit to a sample of the rows in memory.'
        )

    def _labels(self) -> Self:
        if not self.labelled:
            raise InputError("These rows have no target: name its column, ParquetRows(..., target=...).")
        return self._with(_only_labels=True)

    def _shuffled(self, rng: np.random.Generator) -> Self:
        return self._with(_order=rng)

    # a pass

    def parts(self, work: Callable[[Iterator[Block]], Result]) -> Generator[Result, None, None]:
        threads = self.threads or default_threads()
        features = () if self._only_labels else self.features  # which may need a pass of its own
        unseen: set[tuple[str, str]] = set()  # levels of columns; threads add to it at the same time

        def of_batch(batch: Batch) -> tuple[int, Result]:
            return batch.cells.num_rows, work(self._blocks(batch, features, unseen))

        with (
            single_threaded_blas(),
            Progress(self.n_rows, f"pass {next(self._passes)}", " rows", bool(self.progress)) as progress,
            closing(self._decoded(threads > 1)) as batches,
            closing(in_order(of_batch, batches, threads)) as results,
        ):
            for n_rows, result in results:
                progress.update(n_rows)
                yield result
        _warn_of_unseen(unseen, self._reported, self.references)  # at the end, so that all are named

    def _decoded(self, threads: bool) -> Generator[Batch, None, None]:
        wanted = [str(self.roles.target)] if self._only_labels else [*self.columns, *self.roles.named]
        before = np.cumsum([0, *(file.n_rows for file in self.files)]).tolist()
        for number, group in self._pieces():
            file = self.files[number]
            row = sum(file.group_rows[:group]) if group else 0
            for cells in file.batches(wanted, self.batch_rows, group, threads=threads):
                if cells.num_rows:
                    yield Batch(cells, file.name, row, before[number])
                row += cells.num_rows

    def _pieces(self) -> list[tuple[int, int | None]]:
        """Numbers of files in order, or of files and their row groups in random order."""
        if self._order is None:
            return [(number, None) for number in range(len(self.files))]
        groups = [(number, group) for number, file in enumerate(self.files) for group in range(len(file.group_rows))]
        return [groups[at] for at in self._order.permutation(len(groups))]

    def _blocks(self, batch: Batch, features: tuple[Feature, ...], unseen: set[tuple[str, str]]) -> Iterator[Block]:
        encoded, n = cats.encode(batch.cells, features), batch.cells.num_rows
        unseen.update((name, level) for name, levels in encoded.unseen.items() for level in levels)
        y, weight, offset = np.full(n, np.nan), None, None
        if self.roles.target is not None:
            y = cats.labels(batch.cells.column(self.roles.target), self._code)
        if not self._only_labels:
            weight = _row_values(batch, "weight", self.roles.weight)
            offset = _row_values(batch, "offset", self.roles.offset)
        for cut in block_cuts((n, features[-1].stop if features else 0), self.block_rows):
            w, o = (None if it is None else it[cut] for it in (weight, offset))
            start = RowPosition(batch.first + cut.start, "file")
            row = batch.before + start.row
            yield Block(encoded.rows(cut), y[cut], w, o, batch.file, start, row).transformed(self.transforms)

    def _code(self, y: AnyArray) -> AnyArray:
        return reduce(lambda labels, code: code(labels), self.codes, y)


def _row_values(batch: Batch, kind: str, name: str | None) -> Array | None:
    """Weights or offsets, or an error that names the first invalid one."""
    if name is None:
        return None
    values = np.asarray(cats.numbers(batch.cells.column(name)), dtype=np.float64)
    return check_weights(values, kind, f"the {kind} in column {name!r}", batch.file, RowPosition(batch.first, "file"))
