"""A fit that was stopped goes on where it was: what every pass over the rows returned is written down.

The search for a mode is a fixed sequence of passes, each of which returns a few numbers, a vector and a matrix. So the
state of an optimiser need not be known: a fit that starts again is handed the recorded results, without a look at the
rows, until the record ends, and computes from there on.
"""

import json
import os
import re
import struct
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, Literal, cast
from zlib import crc32

import numpy as np
from scipy.sparse import csr_array

from credibly.data.files import check_name, told, written_whole
from credibly.data.source import Block, Change, Code, MemoryRows, Result, Rows, RowWise, Stored
from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array

NO_PASS = -1  # the number of the first record, which says what the fit is of
NOT_WRITTEN = (
    " Passes that are recorded there stay so: with space, the same call of fit goes on after them. Without resume= a "
    "fit writes nothing."
)
NUMBERS = re.compile(r"[<>|][biufc](1|2|4|8|16|32)")  # types of arrays that are recorded
HEAD = struct.Struct("<qQI")  # before every record: the number of its pass, its length and its checksum


@dataclass
class Checkpoint:
    """Results of passes in the order in which they were asked for, and the file that keeps them.

    The file is a sequence of records, to which every pass adds one; one that was cut off when the process died is not
    read.

    Parameters
    ----------
    path : Path
    about : dict
        What the fit is of, as JSON can hold it; a file that says otherwise is refused.
    """

    path: Path
    about: Mapping[str, Any]
    passes: dict[int, tuple[AnyArray, ...]] = field(default_factory=dict)
    asked: int = 0
    new: bool = False  # whether this fit has begun it

    def open(self) -> None:
        """Take up the file, or begin it."""
        check_name(self.path, overwrite=True)
        self.new = not self.path.exists()
        if self.new:
            with self._writing(), written_whole(self.path) as part:
                part.write_bytes(_record(NO_PASS, json.dumps(self.about).encode()))
            return
        try:
            about, kept = self._read()
        except (ValueError, OSError, EOFError, MemoryError, RecursionError) as error:
            raise InputError(
                f"resume={str(self.path)!r} is no checkpoint of a fit, or a damaged one. Name another file; if it is "
                "one, delete it to start anew."
            ) from error
        differing = sorted(key for key in self.about if about.get(key) != self.about[key])
        if differing:
            raise InputError(
                f"resume={str(self.path)!r} is the checkpoint of another fit: {', '.join(differing)} differ. Delete it "
                "to start anew, or fit the same model to the same rows."
            )
        with self._writing():
            os.truncate(self.path, kept)  # a record that was cut off

    def _writing(self) -> AbstractContextManager[None]:
        return told(self.path, more=NOT_WRITTEN)

    def _read(self) -> tuple[dict[str, Any], int]:
        """What the file says it is of, and how long its whole records are."""
        records = list(_records(self.path))
        if not records or records[0][0] != NO_PASS:
            raise ValueError("there is no first record")
        about = json.loads(records[0][1])
        if not isinstance(about, dict):
            raise ValueError("the first record is no object")
        if all(about.get(key) == self.about[key] for key in self.about):
            self.passes = {number: _unpacked(content) for number, content, _ in records[1:]}
        return about, records[-1][2]

    def result_of(self, work: Callable[[], Result]) -> Result:
        """The next result of the record, or else of the work, which is then written down."""
        number, self.asked = self.asked, self.asked + 1
        if number in self.passes:
            return cast(Result, tuple(float(part) if part.ndim == 0 else part for part in self.passes[number]))
        result = work()
        content = _packed(result)
        if content is not None:
            with self._writing(), self.path.open("ab") as file:
                file.write(_record(number, content))
        return result


def _record(number: int, content: bytes) -> bytes:
    return HEAD.pack(number, len(content), crc32(content)) + content


def _records(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Whole records: the number of the pass, the content, and where it ends."""
    end = 0
    with path.open("rb") as file:
        while len(head := file.read(HEAD.size)) == HEAD.size:
            number, length, checksum = HEAD.unpack(head)
            if length > path.stat().st_size - end - HEAD.size:  # cut off; or the file is something else
                return
            content = file.read(length)
            if crc32(content) != checksum:
                raise ValueError("a record is damaged")
            end += HEAD.size + length
            yield number, content, end


def _packed(result: object) -> bytes | None:
    """A tuple of numbers and arrays: a line that says of what types and shapes, then their bytes.

    None for all else, which is computed again.
    """
    if not isinstance(result, tuple) or not all(isinstance(part, float | int | np.ndarray) for part in result):
        return None
    arrays = [np.asarray(part) for part in result]
    if not all(NUMBERS.fullmatch(array.dtype.str) for array in arrays):
        return None
    orders = ["F" if array.flags.fnc else "C" for array in arrays]
    told = [[array.dtype.str, array.shape, order] for array, order in zip(arrays, orders, strict=True)]
    parts = [array.tobytes("F" if order == "F" else "C") for array, order in zip(arrays, orders, strict=True)]
    return b"\n".join([json.dumps(told).encode(), b"".join(parts)])


def _unpacked(content: bytes) -> tuple[AnyArray, ...]:
    """The arrays of a record. Its length bounds theirs, and nothing in it is evaluated, as NumPy's own headers are."""
    line, _, held = content.partition(b"\n")
    parts, at = [], 0
    for kind, shape, order in _described(line):
        part = np.frombuffer(held, kind, min(prod(shape), len(held) + 1), at)  # too many: a ValueError
        parts.append(part.reshape(shape, order=order).copy(order="K"))
        at += part.nbytes
    if at != len(held):
        raise ValueError("a record is longer than its arrays")
    return tuple(parts)


def _described(line: bytes) -> Iterator[tuple[str, tuple[int, ...], Literal["C", "F"]]]:
    """Types, shapes and orders of the arrays of a record."""
    for entry in _list(json.loads(line)):
        kind, shape, order = _list(entry)
        if not (isinstance(kind, str) and NUMBERS.fullmatch(kind) and order in ("C", "F")):
            raise ValueError("a record holds something else than numbers")
        if not all(type(n) is int and 0 <= n for n in _list(shape)):
            raise ValueError("a record holds an array without a shape")
        yield kind, tuple(shape), order


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("a record does not say what it holds")
    return value


class Recorder:
    """How rows are walked in a fit that may be stopped: the first rows it is given are what the record is of.

    Parameters
    ----------
    path : str or Path
    about : mapping
        What the fit is of, but for the rows.
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any]) -> None:
        self.path, self.about = Path(path), about
        self.record: Checkpoint | None = None

    def __call__(self, rows: Rows) -> Rows:
        """The same rows, their sums looked up in the record first."""
        if self.record is None:
            self.record = Checkpoint(self.path, {**self.about, "rows": fingerprint(rows)})
            self.record.open()
        return RecordedRows(rows, self.record)

    def refused(self) -> None:
        """The rows or the model cannot be used: a record that this fit has begun would be in the way of the next."""
        if self.record is not None and self.record.new:
            self.record.path.unlink(missing_ok=True)

    def done(self) -> None:
        """All went well: the record is not needed any more."""
        if self.record is not None:
            self.record.path.unlink(missing_ok=True)


def fingerprint(rows: Any) -> str:
    """What must be the same for a fit to go on: files with their sizes and times, partitions, or the numbers."""
    if isinstance(rows, Stored):
        return rows.fingerprint
    digest = sha256()
    for held in (rows.X, rows.y, rows.weight, rows.offset):
        for part in (held.data, held.indices, held.indptr) if isinstance(held, csr_array) else (held,):
            digest.update(repr(None if part is None else (part.shape, str(part.dtype))).encode())
            digest.update(b"" if part is None else np.ascontiguousarray(part).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class RecordedRows:
    """Rows whose sums are looked up in a record first. Samples and maps are made anew."""

    inner: Rows
    record: Checkpoint

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.inner.n_rows

    @property
    def plain(self) -> bool:
        """Whether blocks are dense and carry no offsets."""
        return self.inner.plain

    def sum(self, block: Callable[[Block], Result], merge: Callable[[Result, Result], Result]) -> Result:
        """The sum as recorded, or over the rows."""
        return self.record.result_of(lambda: self.inner.sum(block, merge))

    def map(self, block: RowWise) -> Array:
        """As the rows do."""
        return self.inner.map(block)

    def each(self, block: Callable[[Block], Result]) -> Generator[Result, None, None]:
        """As the rows do."""
        return self.inner.each(block)

    def through(self, change: Change) -> "RecordedRows":
        """The same rows with `change` applied to the columns of every block."""
        return replace(self, inner=self.inner.through(change))

    def encoded(self, code: Code) -> "RecordedRows":
        """The same rows with `code` applied to the labels of every block."""
        return replace(self, inner=self.inner.encoded(code))

    def in_blocks(self, block_rows: int) -> "RecordedRows":
        """The same rows, handed out in blocks of this size."""
        return replace(self, inner=self.inner.in_blocks(block_rows))

    def on_threads(self, threads: int | None) -> "RecordedRows":
        """The same rows, walked by so many threads."""
        return replace(self, inner=self.inner.on_threads(threads))

    def relabelled(self, y: AnyArray) -> "RecordedRows":
        """The same rows with other labels."""
        return replace(self, inner=self.inner.relabelled(y))

    def sample(self, rng: np.random.Generator, size: int, n_classes: int = 0) -> MemoryRows:
        """As the rows do: a sample is drawn again, the same one."""
        return self.inner.sample(rng, size, n_classes)

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Block]:
        """As the rows do."""
        return self.inner.batches(rng, size)
