r"""The file: a zip archive that only stores, and ends in a checksum of itself.

=================  ====================================================================================
``header.json``    what the model is, and its objects (see `codecs`)
``arrays/0.npy``   and so on: its arrays, in NumPy's format, as `header.json` lists them
comment            ``credibly model 1 sha256`` and 64 hexadecimal digits: the SHA-256 of all bytes before them
=================  ====================================================================================

Any zip tool opens it. `opened` checks the digits before anything else is looked at, so that whatever a disk or a
network does to a file gives one error. But whoever *makes* a file can compute them as well, so what follows trusts
nothing: members must be exactly those expected, in order, each where the one before it ends (no gaps, no overlaps,
nothing twice), stored without compression (their sizes are then bounded by the file's), and nothing is ever
extracted, so that names like ``../x`` are just wrong names.
"""

import hashlib
import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from credibly.errors import ModelFileError
from credibly.numerics.arrays import AnyArray
from credibly.persistence import npy
from credibly.persistence.npy import Stored

FORMAT = 1
HEADER = "header.json"
MOST_HEADER = 32 * 2**20  # bytes
DIGITS = 64
SEAL = b"credibly model %d sha256 "
_SEAL = re.compile(rb"credibly model (\d{1,9}) sha256 [0-9a-f]{64}")
_LONGEST_SEAL = len(SEAL % 999_999_999) + DIGITS
_LOCAL = struct.Struct("<4s22xHH")  # of a member's own header: signature, lengths of its name and of extra fields
# What Python's zipfile raises for an archive that is none.
_NO_ARCHIVE = (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError, EOFError, RuntimeError)


# --- writing -----------------------------------------------------------------------------------------------------


def write(path: Path, header: bytes, arrays: Sequence[AnyArray]) -> None:
    """Write the archive; the same contents give the same bytes."""
    seal = SEAL % FORMAT
    with path.open("w+b") as whole, _archive(whole) as archive:
        archive.comment = seal + b"0" * DIGITS
        with archive.open(_member(HEADER, len(header)), "w") as file:
            file.write(header)
        for k, array in enumerate(arrays):
            stored = Stored.of(array)
            with archive.open(_member(array_name(k), stored.size), "w") as file:
                npy.write(file, array, stored)
    with path.open("r+b") as whole:
        size = whole.seek(0, 2)
        digits = _checksum(whole, size - DIGITS)
        whole.seek(size - DIGITS)
        whole.write(digits)


@contextmanager
def _archive(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """An archive to write to. After an error nothing more is written: to close it would hide why, e.g. Ctrl-C."""
    archive = zipfile.ZipFile(file, "w")
    try:
        yield archive
        archive.close()
    except BaseException:
        archive.fp = None
        raise


def array_name(k: int) -> str:
    """The member that holds array number k."""
    return f"arrays/{k}.npy"


def _member(name: str, size: int) -> zipfile.ZipInfo:
    """An entry without a date, so that a file depends on its contents only."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, 0o644 << 16
    info.file_size = size  # tells zipfile whether it needs the fields for more than 4 GB
    return info


def _checksum(file: IO[bytes], size: int) -> bytes:
    """SHA-256 of the first bytes of a file, in hexadecimal digits."""
    found = hashlib.sha256()
    file.seek(0)
    left = size
    while left and (part := file.read(min(npy.CHUNK, left))):
        found.update(part)
        left -= len(part)
    return found.hexdigest().encode("ascii")


# --- reading -----------------------------------------------------------------------------------------------------


class Container(NamedTuple):
    """An archive whose checksum is right, and whose members are where they should be."""

    archive: zipfile.ZipFile
    members: list[zipfile.ZipInfo]  # the header, then the arrays

    def header(self) -> bytes:
        """The text of the header."""
        if self.members[0].file_size > MOST_HEADER:
            raise ModelFileError(f"its header has more than {MOST_HEADER} bytes")
        return self.archive.read(self.members[0])

    def arrays(self, entries: Any) -> list[AnyArray]:
        """The arrays that the header lists; sizes are compared before memory is taken."""
        if not isinstance(entries, list) or len(entries) != len(self.members) - 1:
            raise ModelFileError("it does not hold the arrays that its header lists")
        described = [Stored.read(entry) for entry in entries]
        for member, stored in zip(self.members[1:], described, strict=True):
            if member.file_size != stored.size:
                raise ModelFileError(f"{member.filename} has not the size that the header says")
        return [self._array(member, stored) for member, stored in zip(self.members[1:], described, strict=True)]

    def _array(self, member: zipfile.ZipInfo, stored: Stored) -> AnyArray:
        with self.archive.open(member) as file:
            return npy.read(file, stored)


@contextmanager
def opened(path: Path) -> Iterator[Container]:
    """The archive at a path, its checksum found right and its members checked; else a ModelFileError."""
    with path.open("rb") as file:
        start = _check_seal(file)
        try:
            with zipfile.ZipFile(file) as archive:
                yield Container(archive, _checked_members(file, archive, start))
        except ModelFileError:
            raise
        except _NO_ARCHIVE as error:
            raise ModelFileError(
                f"it is not the archive that save() writes ({type(error).__name__}: {error})"
            ) from error


def _check_seal(file: IO[bytes]) -> int:
    """Look at the end of the file, and compare the checksum; return where the seal starts."""
    size = file.seek(0, 2)
    if size == 0:
        raise ModelFileError("it is empty")
    file.seek(max(0, size - _LONGEST_SEAL))
    end = file.read()
    seal = next((found for found in _SEAL.finditer(end) if found.end() == len(end)), None)
    if seal is None:
        file.seek(0)
        raise ModelFileError(_what_else(file.read(4)))
    if _checksum(file, size - DIGITS) != end[-DIGITS:]:
        raise ModelFileError("its checksum is wrong: it was damaged after it was saved. Get it again, or save anew")
    refuse_newer(int(seal[1]))
    return size - len(seal[0])


def refuse_newer(number: Any) -> None:
    """Formats of later releases are theirs to read."""
    if type(number) is not int or number < 1:
        raise ModelFileError(f"its format is {number!r:.40}, which is no number of a format")
    if number > FORMAT:
        raise ModelFileError(
            f"it was written by a newer release of credibly (format {number}; this one reads up to {FORMAT}). Upgrade: "
            "pip install --upgrade credibly"
        )


def _what_else(start: bytes) -> str:
    if start[:1] == b"\x80":
        return "it is a pickle, which load() never opens (that would run what is in it); it opens files made by save()"
    if start == b"PK\x03\x04":
        return "it is not a model file, or it has been damaged or cut off: it does not end as files made by save() do"
    return "it is not a model file: it was not made by credibly's save()"


def _checked_members(file: IO[bytes], archive: zipfile.ZipFile, seal: int) -> list[zipfile.ZipInfo]:
    members = archive.infolist()
    if [it.filename for it in members] != [HEADER, *(array_name(k) for k in range(len(members) - 1))]:
        raise ModelFileError("its members are not a header and numbered arrays")
    where = 0
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size or member.flag_bits:
            raise ModelFileError(f"{member.filename} is compressed or encrypted, which save() never does")
        if member.header_offset != where:
            raise ModelFileError(f"{member.filename} is not where the member before it ends")
        file.seek(where)
        _, name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
        where += _LOCAL.size + name + extra + member.file_size
    if where != archive.start_dir or where > seal:
        raise ModelFileError("there is something between its members and its list of members")
    return members
