"""A JSON header and arrays in one file: what model files and checkpoints are made of.

==================  ===========================================================================================
``header.json``     any JSON value, in ASCII
``arrays/0.npy``, … arrays of numbers, text or dates in NumPy's format; never of objects
comment             ``credibly KIND 1 sha256`` and 64 hexadecimal digits: the SHA-256 of the SHA-256 of every member
==================  ===========================================================================================

Any zip tool opens such a file, and ``numpy.load`` reads its arrays. The checksum finds accidents, wherever they
happened. It does not find malice: whoever makes a file can compute it. So reading trusts nothing: the members must be
exactly those above, stored without compression, and no larger than the file in all; an array must have the size that
its own header says before memory is taken for it; nothing is extracted, evaluated or unpickled.
"""

import hashlib
import json
import math
import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from numpy.lib import format as npy

from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray

VERSION = 1
LARGEST_HEADER = 32 * 2**20  # bytes: the parsed JSON takes some thirty times as much memory
STORABLE = "biufcSUmM"  # kinds of arrays: booleans, numbers, bytes, text, dates and durations
NPY_START = b"\x93NUMPY\x01\x00"  # of version 1.0, followed by the length of a header
NPY_HEADER = re.compile(
    rb"\{'descr': '([<>|][biufcSUmM]\d{1,9}(?:\[\w{1,20}\])?)', 'fortran_order': (?:True|False), "
    rb"'shape': \(([\d, ]*)\), \} *\n"
)
UNREADABLE = (  # what zipfile, json and NumPy raise for bytes that are none of theirs
    *(zipfile.BadZipFile, struct.error, EOFError, NotImplementedError, RuntimeError),
    *(ValueError, TypeError, LookupError, ArithmeticError, MemoryError),
)


class Archive(NamedTuple):
    """The contents of an archive."""

    header: Any
    arrays: list[AnyArray]


# --- writing -----------------------------------------------------------------------------------------------------


def write_archive(path: Path, kind: str, header: Any, arrays: Sequence[AnyArray]) -> None:
    """Write an archive; the same contents give the same bytes.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "example")
    >>> write_archive(path, "example", {"answer": 42}, [np.arange(3)])
    >>> read_archive(path, "example")
    Archive(header={'answer': 42}, arrays=[array([0, 1, 2])])
    """
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(text) > LARGEST_HEADER:
        raise InputError(
            f"It takes {len(text)} bytes besides its arrays; a file has room for {LARGEST_HEADER}. Does it hold labels "
            "or levels by the million?"
        )
    digests = []
    with _new_archive(path) as archive:
        with _new_member(archive, "header.json", len(text)) as member:
            member.write(text)
        digests.append(member.digest)
        for number, array in enumerate(arrays):
            with _new_member(archive, f"arrays/{number}.npy", array.nbytes) as member:
                npy.write_array(member, array, allow_pickle=False)
            digests.append(member.digest)
        archive.comment = _comment(kind, digests)


@contextmanager
def _new_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive to write to. After an error nothing more is written: to close it would hide the error."""
    with path.open("wb") as file:
        archive = zipfile.ZipFile(file, "w")
        try:
            yield archive
            archive.close()
        except BaseException:
            archive.fp = None
            raise


@contextmanager
def _new_member(archive: zipfile.ZipFile, name: str, size: int) -> Iterator["_Hashed"]:
    info = zipfile.ZipInfo(name)  # dated 1980: a file depends on its contents only
    info.file_size = size  # tells zipfile whether it needs the fields for more than 4 GB
    with archive.open(info, "w") as file:
        yield _Hashed(file)


class _Hashed:
    """A file whose bytes are hashed on their way."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._sha256 = file, hashlib.sha256()

    @property
    def digest(self) -> bytes:
        return self._sha256.digest()

    def write(self, data: bytes) -> int:
        self._sha256.update(data)
        return self._file.write(data)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._sha256.update(data)
        return data


def _comment(kind: str, digests: Sequence[bytes]) -> bytes:
    return f"credibly {kind} {VERSION} sha256 {hashlib.sha256(b''.join(digests)).hexdigest()}".encode("ascii")


# --- reading -----------------------------------------------------------------------------------------------------


def read_archive(path: Path, kind: str) -> Archive:
    """The contents of an archive.

    Raises
    ------
    InputError
        If the file is not an archive of this kind, is damaged, or could not have been written by `write_archive`; the
        message is half a sentence about the file ("it is damaged …").
    OSError
        If it cannot be read.
    """
    if not path.is_file():
        raise InputError("it is not a file" if path.exists() else "there is no such file")
    with path.open("rb") as file:
        try:
            return _read(file, path.stat().st_size, kind)
        except InputError:
            raise
        except RecursionError as error:
            raise InputError("its header is nested too deeply") from error
        except UNREADABLE as error:
            raise InputError(f"it is damaged, or not a {kind} file ({type(error).__name__}: {error!s:.200})") from error


def _read(file: IO[bytes], size: int, kind: str) -> Archive:
    _check_start(file.read(4), kind)
    with zipfile.ZipFile(file) as archive:
        _check_version(archive.comment, kind)
        members = archive.infolist()
        _check_members(members, size)
        with archive.open(members[0]) as plain:
            hashed = _Hashed(plain)
            text, digests, arrays = hashed.read(), [hashed.digest], []
        for member in members[1:]:
            _check_array(archive, member)
            with archive.open(member) as plain:
                hashed = _Hashed(plain)
                arrays.append(npy.read_array(hashed, allow_pickle=False))
                digests.append(hashed.digest)
        if archive.comment != _comment(kind, digests):
            raise InputError("its checksum is wrong: it was damaged after it was written")
    return Archive(json.loads(text, parse_constant=_refuse_constant), arrays)


def _check_start(start: bytes, kind: str) -> None:
    if not start:
        raise InputError("it is empty")
    if start[:1] == b"\x80":
        raise InputError("it is a pickle, which is never opened: that would run what is in it")
    if start != b"PK\x03\x04":
        raise InputError(f"it is not a {kind} file")


def _check_version(comment: bytes, kind: str) -> None:
    match = re.fullmatch(rb"credibly ([a-z]+) (\d{1,9}) sha256 [0-9a-f]{64}", comment)
    if match is None or match[1].decode() != kind:
        raise InputError(f"it is not a {kind} file of credibly, or it has been damaged")
    if int(match[2]) > VERSION:
        raise InputError(
            f"it was written by a newer release of credibly (format {int(match[2])}; this one reads up to {VERSION}). "
            "Upgrade: pip install --upgrade credibly"
        )


def _check_members(members: Sequence[zipfile.ZipInfo], size: int) -> None:
    names = ["header.json", *(f"arrays/{number}.npy" for number in range(len(members) - 1))]
    if [member.filename for member in members] != names:
        raise InputError("its members are not a header and numbered arrays")
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise InputError("its members are compressed")
    if members[0].file_size > LARGEST_HEADER:
        raise InputError(f"its header has more than {LARGEST_HEADER} bytes")
    if sum(max(member.file_size, member.compress_size) for member in members) > size:
        raise InputError("its members are larger than the file")


def _check_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Compare type and shape of an array with its size in the file; NumPy would evaluate text, and take the memory."""
    with archive.open(member) as file:
        start = file.read(len(NPY_START) + 2)
        text = file.read(int.from_bytes(start[-2:], "little"))
    match = NPY_HEADER.fullmatch(text)
    if start[:-2] != NPY_START or match is None:
        raise InputError(f"{member.filename} is not an array of numbers, text or dates as NumPy writes them")
    itemsize, shape = np.dtype(match[1].decode()).itemsize, [int(length) for length in match[2].split(b",") if length]
    if not itemsize or itemsize * math.prod(shape) != member.file_size - len(start) - len(text):
        raise InputError(f"{member.filename} has another size than its header says")


def _refuse_constant(text: str) -> NoReturn:
    raise InputError(f"its header holds {text}, which is not JSON")
