"""Arrays in NumPy's own file format, written here and never parsed.

A header of ours says what every array is; from that the first bytes of its ``.npy`` file follow to the last byte, and
a file that begins otherwise is refused. So ``numpy.load`` reads the arrays of a model file, but nothing in them is
ever evaluated, and their size is known before memory is taken.
"""

import math
import re
from typing import IO, Any, NamedTuple, Self

import numpy as np

from credibly.errors import ModelFileError
from credibly.numerics.arrays import AnyArray

CHUNK = 1 << 20  # bytes copied at a time
MOST_DIMENSIONS = 32
# Booleans, integers, floats, complex numbers, text, bytes, dates and durations; no objects, no records.
_TYPE = re.compile(
    r"[<>|]([?]|b1|[iu][1248]|f(2|4|8|12|16)|c(8|16|24|32)|[SU][1-9]\d{0,8}|[mM]8(\[\d{0,9}[A-Za-zμ]+\])?)"
)


class Stored(NamedTuple):
    """What an array is: type with byte order, shape, and whether its columns are contiguous instead of its rows."""

    dtype: str
    shape: tuple[int, ...]
    fortran: bool

    @classmethod
    def of(cls, array: AnyArray) -> Self:
        """Of an array at hand."""
        fortran = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
        return cls(array.dtype.str, array.shape, fortran)

    @classmethod
    def read(cls, entry: Any) -> Self:
        """Of the entry in a header, every part of it checked."""
        if not (isinstance(entry, list) and len(entry) == 3):
            raise ModelFileError("an array is not described by type, shape and order")
        dtype, shape, order = entry
        if order not in ("C", "F"):
            raise ModelFileError(f"an array's order is {order!r:.20}, neither 'C' nor 'F'")
        return cls(checked_dtype(dtype).str, checked_shape(shape), order == "F")

    def entry(self) -> list[Any]:
        """For a header."""
        return [self.dtype, list(self.shape), "F" if self.fortran else "C"]

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers alone."""
        return count(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def preamble(self) -> bytes:
        """What comes before the numbers in a ``.npy`` file of version 1.0."""
        text = f"{{'descr': {self.dtype!r}, 'fortran_order': {self.fortran}, 'shape': {self.shape}, }}"
        padded = text + " " * (-(len(text) + 11) % 64) + "\n"  # numbers start at a multiple of 64 bytes
        return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode("latin1")

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self.preamble) + self.nbytes


def is_storable(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this type have a place in the format."""
    return _TYPE.fullmatch(dtype.str) is not None


def checked_dtype(text: Any) -> np.dtype[Any]:
    """The type that a text names, or a ModelFileError."""
    if not (isinstance(text, str) and _TYPE.fullmatch(text)):
        raise ModelFileError(f"an array is of the type {text!r:.40}, which model files do not hold")
    try:
        return np.dtype(text)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"an array is of the type {text!r:.40}, unknown on this machine ({error})") from error


def checked_shape(shape: Any) -> tuple[int, ...]:
    """A list of lengths as a tuple, or a ModelFileError."""
    whole = isinstance(shape, list) and all(type(length) is int and 0 <= length < 2**63 for length in shape)
    if not whole or len(shape) > MOST_DIMENSIONS:
        raise ModelFileError(f"an array has the shape {shape!r:.60}")
    return tuple(shape)


def count(shape: tuple[int, ...]) -> int:
    """How many items an array of this shape has; a Python integer, which does not overflow."""
    return math.prod(shape)


def write(file: IO[bytes], array: AnyArray, stored: Stored) -> None:
    """Write an array as a ``.npy`` file."""
    file.write(stored.preamble)
    if array.size:
        rows = np.ascontiguousarray(array.T if stored.fortran else array)
        file.write(rows.reshape(-1).view(np.uint8).data)


def read(file: IO[bytes], stored: Stored) -> AnyArray:
    """Read what `write` has written; anything else is a ModelFileError."""
    if file.read(len(stored.preamble)) != stored.preamble:
        raise ModelFileError("an array is not what the header says it is")
    array = np.empty(stored.shape, dtype=stored.dtype, order="F" if stored.fortran else "C")
    flat = (array.T if stored.fortran else array).reshape(-1)
    view = flat.view(np.uint8).data if array.size else memoryview(b"")
    filled = 0
    while filled < len(view):
        part = file.read(min(CHUNK, len(view) - filled))
        if not part:
            raise ModelFileError("an array is shorter than the header says")
        view[filled : filled + len(part)] = part
        filled += len(part)
    if file.read(1):
        raise ModelFileError("an array is longer than the header says")
    return array
