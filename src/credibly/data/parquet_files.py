"""Parquet files as one table: which they are, whether they agree, and their row groups, decoded some rows at a time.

Everything that the footers tell is read once and kept; the data are read anew in every pass.
"""

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from glob import glob, has_magic
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from credibly.errors import DataWarning, InputError, TableError

READ_AHEAD = 1 << 19  # bytes of a column that are fetched at a time: a whole row group of all columns may be gigabytes
THRIFT_LIMIT = 1 << 28  # bytes and items of metadata, so that a damaged file cannot ask for all memory
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # with two letters at least: one is a drive
HIVE = re.compile(r"[^=]+=.*")  # a folder that stands for the value of a column
ROW_NAMES = re.compile(r"__index_level_\d+__")  # what pandas makes of an index without a name

AnyPath = str | os.PathLike[str]
AnyPaths = AnyPath | Sequence[AnyPath]


class State(NamedTuple):
    """By what a file that was written anew is recognised."""

    size: int
    modified: int  # nanoseconds

    @classmethod
    def of(cls, path: Path) -> "State":
        """As the file is now."""
        found = path.stat()
        return cls(found.st_size, found.st_mtime_ns)


class Piece(NamedTuple):
    """Consecutive row groups of one file that are decoded together: one, or several small ones."""

    file: int
    groups: tuple[int, ...]
    n_rows: int
    first_row: int = 0  # in the file


@dataclass(frozen=True)
class Files:
    """Parquet files with the same columns, their footers read.

    Parameters
    ----------
    paths : tuple of Path
    states : tuple of State
    footers : tuple of pyarrow.parquet.FileMetaData
    schema : pyarrow.Schema
        That of the first file.
    """

    paths: tuple[Path, ...]
    states: tuple[State, ...]
    footers: tuple[Any, ...]
    schema: Any

    @classmethod
    def of(cls, path: AnyPaths) -> "Files":
        """Read the footers of a file, a folder, a pattern, or a list of those."""
        paths = expanded(path)
        states = tuple(_state(it) for it in paths)
        footers = tuple(_footer(it) for it in paths)
        return cls(paths, states, footers, footers[0].schema.to_arrow_schema())

    @property
    def n_rows(self) -> int:
        """Number of rows, as the footers tell."""
        return sum(footer.num_rows for footer in self.footers)

    def pieces(self, most_rows: int) -> list[Piece]:
        """The row groups in order; small neighbours together, up to so many rows."""
        found: list[Piece] = []
        for file, footer in enumerate(self.footers):
            for group in self._groups(file, range(footer.num_row_groups), 0):
                last = found[-1] if found else Piece(-1, (), 0)
                n_rows = last.n_rows + group.n_rows
                if last.file == file and n_rows <= most_rows:
                    found[-1] = last._replace(groups=last.groups + group.groups, n_rows=n_rows)
                elif group.n_rows:
                    found.append(group)
        return found

    def _groups(self, file: int, groups: Iterable[int], first_row: int) -> Iterator[Piece]:
        for group in groups:
            n_rows = self.footers[file].row_group(group).num_rows
            yield Piece(file, (group,), n_rows, first_row)
            first_row += n_rows

    def apart(self, piece: Piece) -> list[Piece]:
        """The row groups of a piece, each by itself: to find the one that an error is of. None where it is one."""
        return list(self._groups(piece.file, piece.groups, piece.first_row)) if len(piece.groups) > 1 else []

    def where(self, piece: Piece) -> str:
        """The place in words."""
        first, last = piece.groups[0], piece.groups[-1]
        groups = f"row group {first}" if first == last else f"row groups {first} to {last}"
        return f"{self.paths[piece.file]}, {groups}"

    def batches(
        self, piece: Piece, columns: Sequence[str], most_rows: int, as_dictionary: Sequence[str] = ()
    ) -> Iterator[Any]:
        """Decode the columns of a piece on the thread that asks, at most so many rows at a time.

        Parameters
        ----------
        piece : Piece
        columns : sequence of str
        most_rows : int
        as_dictionary : sequence of str
            Columns of text to be handed out as codes with a dictionary, which is how files hold text that repeats.
        """
        done = 0
        with self._told(piece, columns), self._opened(piece.file, as_dictionary) as file:
            self.check_unchanged(piece.file)
            for batch in file.iter_batches(most_rows, piece.groups, columns, use_threads=False):
                done += batch.num_rows
                yield batch
        if done != piece.n_rows:
            raise TableError(
                f"{self.where(piece)}: the file is damaged; it holds {done} of the {piece.n_rows} rows it announces."
            )

    def _opened(self, file: int, as_dictionary: Sequence[str]) -> Any:
        return pq.ParquetFile(
            self.paths[file],
            metadata=self.footers[file],
            read_dictionary=list(as_dictionary),
            buffer_size=READ_AHEAD,
            pre_buffer=False,
            page_checksum_verification=True,
        )

    @contextmanager
    def _told(self, piece: Piece, columns: Sequence[str]) -> Iterator[None]:
        """Trouble with a file as an error that names it and the row group."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            self.check_unchanged(piece.file)
            place = self.where(self._guilty(piece, columns))
            raise TableError(
                f"{place}: the file is truncated or damaged ({_short(error)}). Write it anew, or leave it out."
            ) from error

    def _guilty(self, piece: Piece, columns: Sequence[str]) -> Piece:
        """The first row group of a piece that cannot be decoded, found by decoding each by itself; else all of it."""
        for group in self.apart(piece):
            try:
                with self._opened(piece.file, ()) as file:
                    file.read_row_groups(list(group.groups), list(columns), use_threads=False)
            except (pa.ArrowException, OSError):
                return group
        return piece

    def check_unchanged(self, file: int) -> None:
        """Passes over different rows do not add up."""
        path = self.paths[file]
        try:
            same = State.of(path) == self.states[file]
        except OSError as error:
            raise TableError(f"{path} can no longer be read ({error.strerror}). Make the rows anew.") from error
        if not same:
            raise TableError(
                f"{path} has changed since it was first read (its size or its time of modification). Let files rest "
                "while a model reads them, and make the rows anew: ParquetRows(...)."
            )


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
    twice = (
        next((it for at, it in enumerate(paths) if it in paths[:at]), None) if len(set(paths)) < len(paths) else None
    )
    if twice is not None:
        raise TableError(f"{twice} is given twice; its rows would count double.")
    return paths


def _expanded(path: object) -> list[Path]:
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"Expected a path, a pattern such as 'data/*.parquet', or a list of paths; got {path!r}.")
    one = Path(path)
    if one.is_dir():
        found = sorted(it for it in one.rglob("*.parquet") if it.is_file() and not it.name.startswith((".", "_")))
        if not found:
            raise TableError(f"The folder {one} holds no .parquet files.")
        return found
    if one.exists():
        return [one]
    if URL.match(str(path)):
        raise TableError(
            f"{path} is an address; files of this machine are read. Mount or copy it, or read it with Dask, whose "
            "arrays and data frames fit takes as they are."
        )
    if not has_magic(str(path)):
        raise TableError(f"There is no file {one}.")
    found = sorted(Path(it) for it in glob(str(path), recursive=True) if Path(it).is_file())
    if not found:
        raise TableError(f"No file matches {path}.")
    return found


def _state(path: Path) -> State:
    try:
        return State.of(path)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}.") from error


def _footer(path: Path) -> Any:
    try:
        with pq.ParquetFile(
            path, thrift_string_size_limit=THRIFT_LIMIT, thrift_container_size_limit=THRIFT_LIMIT
        ) as file:
            return file.metadata
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{path} is no Parquet file, or a truncated or damaged one: its footer, which lists the row groups, cannot "
            f"be read ({_short(error)})."
        ) from error


def _short(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


# --- which columns ------------------------------------------------------------------------------------------------


def check_columns(files: Files, wanted: Iterable[str]) -> None:
    """Every file has these columns, once, with the types of the first file."""
    wanted = list(wanted)
    for path, footer in zip(files.paths, files.footers, strict=True):
        schema = files.schema if footer is files.footers[0] else footer.schema.to_arrow_schema()
        for name in wanted:
            _check_column(name, schema, files, path)


def check_nothing_left_out(files: Files) -> None:
    """Where all columns are features: that no file has more than the first, and no folder's name is a column."""
    known = set(files.schema.names)
    for path, footer in zip(files.paths, files.footers, strict=True):
        names = [name for name in footer.schema.to_arrow_schema().names if not ROW_NAMES.fullmatch(name)]
        more = [name for name in names if name not in known]
        if more:
            raise TableError(
                f"{path} has the column {shortened(more)}, which {files.paths[0]} lacks; name the columns to "
                "learn from by features=[...]."
            )
    hive = sorted({part for path in files.paths for part in path.parent.parts if HIVE.fullmatch(part)})
    if hive:
        warnings.warn(
            f"The folders are called {shortened(hive)}; such columns, which are in no file, are not read. Write the "
            "column into the files if the model is to use it, or give features=[...].",
            DataWarning,
            stacklevel=4,
        )


def _check_column(name: str, schema: Any, files: Files, path: Path) -> None:
    places = schema.get_all_field_indices(name)
    if not places:
        near = get_close_matches(name, schema.names, n=3)
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"It has {shortened(schema.names)}."
        raise TableError(f"{path} has no column {name!r}. {hint}")
    if len(places) > 1:
        raise TableError(f"{path} has {len(places)} columns called {name!r}. Rename them.")
    kind, expected = schema.field(name).type, files.schema.field(name).type
    if _comparable(kind) != _comparable(expected):
        raise TableError(
            f"Column {name!r} has another type in {path} than in {files.paths[0]}: {kind} instead of {expected}. "
            "Write the files with the same types."
        )


def _comparable(kind: Any) -> Any:
    """A type without the width of the codes of a dictionary, which follows the number of its entries."""
    return ("dictionary", kind.value_type) if types.is_dictionary(kind) else kind


def shortened(names: Iterable[object], most: int = 8) -> str:
    """A list in a sentence, cut where it is long."""
    listed = [repr(name) for name in names]
    return ", ".join(listed[:most]) + (f" … ({len(listed)} in all)" if len(listed) > most else "")
