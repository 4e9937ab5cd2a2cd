"""Blocks of a column put together, in little more memory than the column needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from credibly.cli.reading.cells import Cells, Levels
from credibly.numerics.arrays import AnyArray

FLAGS = {"true": True, "false": False}
FEW_LEVELS, MANY_LEVELS = 50, 0.5  # text is kept as it is with more than 50 levels in over half as many cells
GROWTH = 1.25
STRIDE = 1 << 20


class NumberParts:
    """Numbers in one array that grows in place: many small ones would leave the memory in pieces.

    Examples
    --------
    >>> parts = NumberParts()
    >>> parts.add(np.array([1, 2]))
    >>> parts.add(np.array([np.nan]))
    >>> parts.finished()
    array([ 1.,  2., nan])
    """

    def __init__(self) -> None:
        self._data: AnyArray = np.empty(0)
        self._used = 0

    def add(self, part: AnyArray) -> None:
        """Append; the type becomes one that holds both."""
        dtype = np.result_type(self._data, part) if self._used else part.dtype
        needed = self._used + len(part)
        if dtype != self._data.dtype:
            self._data = self._data[: self._used].astype(dtype)
        if needed > len(self._data):
            self._data.resize(max(needed, int(GROWTH * len(self._data))), refcheck=False)  # nobody else holds it
        self._data[self._used : needed] = part
        self._used = needed

    def count_known(self) -> int:
        """Numbers that are not missing."""
        return int((~np.isnan(self._data[: self._used])).sum())

    def finished(self) -> AnyArray:
        """All numbers; given away."""
        data, self._data = self._data, np.empty(0)
        data.resize(self._used, refcheck=False)
        self._used = 0
        return data


class TextParts:
    """Text by levels, each block with its own until the end."""

    def __init__(self) -> None:
        self._codes, self._levels, self._passed = NumberParts(), list[Cells](), 0

    def add(self, part: Levels) -> None:
        """Append."""
        codes = np.where(part.codes < 0, -1, part.codes + self._passed)
        self._codes.add(codes.astype(np.int64 if self._passed + len(part.levels) >= 2**31 else np.int32))
        self._levels.append(part.levels)
        self._passed += len(part.levels)

    def add_missing(self, rows: int) -> None:
        """Append cells that are missing."""
        self._codes.add(np.full(rows, -1, np.int32))

    def finished(self, *, flags: bool) -> Any:
        """The whole column; given away.

        Parameters
        ----------
        flags : bool
            Whether true and false (in any case) are to be read as bool.

        Returns
        -------
        array
            A categorical with sorted levels; text where most cells differ; bool (objects True, False, None where some
            are missing).
        """
        import pyarrow as pa

        codes, parts, total = self._codes.finished(), self._levels, self._passed
        self._levels, self._passed = [], 0
        levels = pa.concat_arrays(parts) if parts else pa.array([], pa.string())
        if flags and parts and all(map(_are_flags, parts)):
            return _flags(codes, levels)
        if total > max(FEW_LEVELS, MANY_LEVELS * len(codes)):
            return levels.take(pa.array(codes, mask=codes < 0)).to_pandas().array
        return categorical(*_merged(codes, levels))


def _are_flags(levels: Cells) -> bool:
    return len(levels) <= 6 and all(text.lower() in FLAGS for text in levels.to_pylist())


def _flags(codes: AnyArray, levels: Cells) -> AnyArray:
    meaning: AnyArray = np.array([*(FLAGS[text.lower()] for text in levels.to_pylist()), None], dtype=object)[codes]
    return meaning if (codes < 0).any() else meaning.astype(bool)


def _merged(codes: AnyArray, levels: Cells) -> tuple[AnyArray, Cells]:
    """Codes, changed in place, and levels, each once."""
    encoded = levels.dictionary_encode()
    same = np.append(encoded.indices.to_numpy(zero_copy_only=False), -1).astype(np.int32)
    for start in range(0, len(codes), STRIDE):  # a stretch at a time, for little memory
        codes[start : start + STRIDE] = same[codes[start : start + STRIDE]]
    return codes, encoded.dictionary


def categorical(codes: AnyArray, levels: Cells) -> Any:
    """A categorical column with its levels in order."""
    import pandas as pd
    import pyarrow.compute as pc

    order = pc.sort_indices(levels)
    rank = np.full(len(levels) + 1, -1, dtype=np.int32)
    rank[order.to_numpy()] = np.arange(len(levels))
    return pd.Categorical.from_codes(rank[codes], categories=pd.Index(levels.take(order).to_pandas()))
