"""The text of a file as a stream of checked UTF-8, whatever its compression and encoding."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from credibly.errors import TableError

CHUNK = 1 << 20  # the parser reads 32 of them ahead
# Tables are packed to a tenth, sparse ones to a hundredth. What unpacks to far more was made to fill the memory.
HARMLESS = 1 << 28  # bytes that may come out of any file, however short
MOST_TIMES = 250

# The longer marks first: UTF-32's begins like UTF-16's.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def _zstandard(file: BinaryIO) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")


# bzip2's magic is text ("BZh9"), so its block's mark is asked for as well.
COMPRESSIONS: dict[str, tuple[Callable[[bytes], bool], Callable[[BinaryIO], Any]]] = {
    "gzip": (lambda head: head.startswith(b"\x1f\x8b\x08"), lambda file: gzip.GzipFile(fileobj=file)),
    "bzip2": (lambda head: head[:3] == b"BZh" and head[4:10] in {b"1AY&SY", b"\x17rE8P\x90"}, bz2.BZ2File),
    "xz": (lambda head: head.startswith(b"\xfd7zXZ\0"), lzma.LZMAFile),
    "zstandard": (lambda head: head.startswith(b"\x28\xb5\x2f\xfd"), _zstandard),
}


def compression_of(head: bytes) -> str | None:
    """How a file is compressed, from its first bytes.

    Examples
    --------
    >>> compression_of(gzip.compress(b"a,b"))
    'gzip'
    """
    return next((name for name, (recognises, _) in COMPRESSIONS.items() if recognises(head)), None)


def encoding_of(head: bytes) -> str:
    """What a byte-order mark says; UTF-8 (with a mark or without) where there is none."""
    return next((name for mark, name in BYTE_ORDER_MARKS if head.startswith(mark)), "utf-8-sig")


class Unpacked:
    """The bytes of a file, unpacked; a damaged or cut-off file is told as such."""

    def __init__(self, file: BinaryIO, name: str):
        head = file.read(16)
        file.seek(0)
        self.name, self.file, self.compression = name, file, compression_of(head)
        self._unpacked = COMPRESSIONS[self.compression][1](file) if self.compression else file
        self._given = 0

    def read(self, size: int) -> bytes:
        """At most this many bytes; none at the end."""
        try:
            part = bytes(self._unpacked.read(size))
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise TableError(self._complaint(error)) from error
        self._given += len(part)
        if self.compression and self._given > max(HARMLESS, MOST_TIMES * self.file.tell()):
            raise TableError(
                f"{self.name} is compressed with {self.compression} and unpacks to more than {MOST_TIMES} times its "
                "size, as files do that are made to fill the memory. If it is what you want, unpack it first."
            )
        return part

    def _complaint(self, error: Exception) -> str:
        if self.compression is None:
            return f"{self.name} cannot be read: {error}."
        cut = isinstance(error, EOFError) or "runcated" in str(error)
        what = "ends in the middle: it is cut off" if cut else f"is damaged ({error})"
        return f"{self.name} is compressed with {self.compression} and {what}. Fetch or make the file again."

    def close(self) -> None:
        """Close the file."""
        if self._unpacked is not self.file:
            self._unpacked.close()
        self.file.close()


class Utf8Stream(io.RawIOBase):
    """The text of a file in UTF-8, checked as it passes: what cannot be decoded, and NUL bytes, are told by line.

    Parameters
    ----------
    unpacked : Unpacked
    encoding : str
    skip : int
        Bytes (of UTF-8) to leave out at the beginning.
    chunk : int
        Bytes to read at once.
    """

    def __init__(self, unpacked: Unpacked, encoding: str, skip: int = 0, chunk: int = CHUNK):
        super().__init__()
        self.unpacked, self.encoding, self.chunk = unpacked, encoding, chunk
        self.quotes = 0  # so that a quote that is never closed can be noticed
        self._lines, self._chunks, self._rest = 0, self._decoded(), memoryview(b"")
        while skip > 0 and self._fill():
            taken = min(skip, len(self._rest))
            self._rest, skip = self._rest[taken:], skip - taken

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._fill():
            return 0
        taken = min(len(buffer), len(self._rest))
        buffer[:taken], self._rest = self._rest[:taken], self._rest[taken:]
        return taken

    def read(self, size: int = -1) -> bytes:
        """The next chunk, uncopied where it is not too long: the parser takes each answer as one block."""
        if not self._fill():
            return b""
        whole = size < 0 or len(self._rest) <= size
        taken, self._rest = (self._rest, memoryview(b"")) if whole else (self._rest[:size], self._rest[size:])
        return taken.obj if isinstance(taken.obj, bytes) and len(taken.obj) == len(taken) else bytes(taken)

    def close(self) -> None:
        if not self.closed:
            self.unpacked.close()
        super().close()

    @property
    def position(self) -> int:
        """Bytes of the (compressed) file that were read."""
        return 0 if self.unpacked.file.closed else self.unpacked.file.tell()

    def _fill(self) -> bool:
        while not len(self._rest):
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._rest = memoryview(chunk)
        return True

    def _decoded(self) -> Iterator[bytes]:
        decode = codecs.getincrementaldecoder(self.encoding)().decode
        while chunk := self.unpacked.read(self.chunk):
            yield self._checked(decode, chunk, False)
        yield self._checked(decode, b"", True)

    def _checked(self, decode: Callable[[bytes, bool], str], chunk: bytes, final: bool) -> bytes:
        try:
            text = decode(chunk, final).encode()
        except UnicodeDecodeError as error:
            raise TableError(self._undecodable(error)) from error
        except UnicodeError as error:  # "UTF-16 stream does not start with BOM", a lone surrogate
            raise TableError(f"{self.unpacked.name} cannot be decoded as {self.encoding}: {error}.") from error
        if (at := text.find(b"\0")) >= 0:
            raise TableError(
                f"{self.unpacked.name}, line {self._line(text[:at])}: a NUL byte. The file is binary, damaged, or in "
                "another encoding; if it is UTF-16, say so with --encoding utf-16-le."
            )
        self._lines += _line_ends(text)
        self.quotes += text.count(b'"')
        return text

    def _line(self, before: bytes) -> int:
        return self._lines + _line_ends(before) + 1

    def _undecodable(self, error: UnicodeDecodeError) -> str:
        plain = error.object[: error.start].decode(self.encoding, errors="replace").encode(errors="replace")
        where = f"{self.unpacked.name}, line {self._line(plain)}"
        tried = self.encoding.removesuffix("-sig")
        others = [f"--encoding {name}" for name in ("utf-8", "latin-1", "cp1252") if name != tried]
        what = f"byte 0x{error.object[error.start]:02x} is not {tried.upper()} ({error.reason})"
        return f"{where}: {what}. Name the encoding of the file, such as {' or '.join(others[:2])}."


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") or text.count(b"\r")
