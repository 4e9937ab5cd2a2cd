"""Files to read from: found, looked at, and opened as often as needed."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from credibly.cli.reading.options import ReadOptions
from credibly.cli.reading.refused import why_no_table, why_no_text
from credibly.cli.reading.stream import CHUNK, Unpacked, Utf8Stream, compression_of, encoding_of
from credibly.errors import TableError
from credibly.wording import did_you_mean

STANDARD_INPUT = "-"
HEAD = 1 << 14  # bytes from which a file's kind is told

_INPUTS: dict[BinaryIO, Path] = {}  # by stream, because a stream can be read once only


@dataclass(frozen=True)
class Source:
    """A file that holds a table, as far as its first bytes tell.

    Attributes
    ----------
    path : Path
    name : str
        For messages, as the user gave it.
    size : int
        Bytes.
    is_parquet : bool
    encoding : str
        Of a text table.
    options : ReadOptions
    """

    path: Path
    name: str
    size: int
    is_parquet: bool
    encoding: str
    options: ReadOptions

    def text(self, skip: int = 0, chunk: int = CHUNK) -> Utf8Stream:
        """The text from the beginning, without its first bytes, in chunks of some size."""
        return Utf8Stream(Unpacked(self.path.open("rb"), self.name), self.encoding, skip, chunk)


@contextmanager
def open_source(path: str | os.PathLike[str], options: ReadOptions) -> Iterator[Source]:
    """A file, or what comes through a pipe, ready to be read as a table.

    Parameters
    ----------
    path : path
        ``-`` for standard input.
    options : ReadOptions

    Yields
    ------
    Source
    """
    if os.fspath(path) == STANDARD_INPUT:
        yield _looked_at(_standard_input(), "standard input", options)
        return
    found, name = Path(path), str(path)
    with _readable(found, name) as handle:
        if stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            yield _looked_at(found, name, options)
        else:
            with _kept(handle) as file:
                yield _looked_at(file, name, options)


@contextmanager
def _readable(path: Path, name: str) -> Iterator[BinaryIO]:
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        raise TableError(f"There is no file {name}. {_suggestion(path, name)}") from None
    except IsADirectoryError:
        raise TableError(f"{name} is a folder. Give a file in it{_tables_in(path)}.") from None
    except PermissionError:
        raise TableError(f"{name} may not be read by this user. Change its permissions (chmod u+r).") from None
    except (OSError, ValueError) as error:  # a ValueError for a NUL in the name
        raise TableError(f"{name!r} cannot be opened: {error}.") from error
    with handle:
        yield handle


def _suggestion(path: Path, name: str) -> str:
    if "://" in name:
        return "Download the table first, and give the file."
    if not path.parent.is_dir():
        return f"The folder {path.parent} does not exist either."
    return did_you_mean(path.name, _names_in(path.parent), "Check the name and the folder.", show=str)


def _tables_in(folder: Path) -> str:
    endings = (".csv", ".tsv", ".txt", ".parquet", ".gz", ".bz2", ".xz", ".zst")
    names = sorted(name for name in _names_in(folder) if name.lower().endswith(endings))
    return f", such as {folder / names[0]}" if names else ""


def _names_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except OSError:  # a folder that may not be listed has no suggestions to make
        return []


@contextmanager
def _kept(stream: BinaryIO) -> Iterator[Path]:
    """What comes through a pipe as a file, because a column that turns out to be text is read twice."""
    with tempfile.NamedTemporaryFile(prefix="credibly-", suffix=".table") as file:
        try:
            shutil.copyfileobj(stream, file, 1 << 20)
            file.flush()
        except OSError as error:
            raise TableError(f"The input cannot be kept in {tempfile.gettempdir()}: {error.strerror}.") from error
        yield Path(file.name)


def _standard_input() -> Path:
    """What came through standard input, kept until the program ends: columns are listed before they are read."""
    stream = sys.stdin.buffer
    if stream not in _INPUTS:
        stack = ExitStack()
        atexit.register(stack.close)
        _INPUTS[stream] = stack.enter_context(_kept(stream))
    return _INPUTS[stream]


def _looked_at(path: Path, name: str, options: ReadOptions) -> Source:
    """What the first bytes say, before and after unpacking."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head:
        raise TableError(f"{name} is empty (0 bytes). Give a file with a header line and rows.")
    is_parquet = head.startswith(b"PAR1")
    if not is_parquet:
        head = _unpacked_head(path, name) if compression_of(head) else head
        _refuse_other_kinds(head, Path(name), options)
    encoding = options.encoding or encoding_of(head)
    encoding = "utf-8-sig" if encoding.lower() in {"utf-8", "utf8", "utf_8"} else encoding
    return Source(path, name, path.stat().st_size, is_parquet, encoding, options)


def _unpacked_head(path: Path, name: str) -> bytes:
    unpacked = Unpacked(path.open("rb"), name)
    try:
        head = unpacked.read(HEAD)
    finally:
        unpacked.close()
    if head.startswith(b"PAR1"):
        raise TableError(f"{name} is a compressed Parquet file. Unpack it first; Parquet is compressed by itself.")
    if compression_of(head):
        raise TableError(f"{name} is compressed twice. Unpack it once.")
    return head


def _refuse_other_kinds(head: bytes, path: Path, options: ReadOptions) -> None:
    reason = why_no_table(head, path)
    if reason is None and options.encoding is None and encoding_of(head) == "utf-8-sig":
        reason = why_no_text(head)
    if reason is not None:
        raise TableError(f"{path} {reason}")
