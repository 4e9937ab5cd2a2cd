"""Cells of a text table, many at once: what is missing, what is a number."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from credibly.cli.reading.options import MISSING_AMONG_NUMBERS, ReadOptions
from credibly.numerics.arrays import AnyArray

Cells = Any  # a pyarrow array of text; pyarrow has no types of its own

NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity|nan))$"


class Numbers(NamedTuple):
    """Cells read as numbers: whole ones as int64 where none is missing, else float64 with NaN for what is missing."""

    values: AnyArray
    markers: Counter[str]  # cells that said that they are missing, other than by being empty


class Levels(NamedTuple):
    """Cells of text by their levels."""

    codes: AnyArray  # (n,) int32, -1 where missing
    levels: Cells
    markers: Counter[str]

    def counts(self) -> AnyArray:
        """How often each level occurs."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.levels))


def stripped(cells: Cells) -> Cells:
    """Cells without spaces around them."""
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(cells)


def total_length(cells: Cells) -> int:
    """Bytes of all cells together."""
    import pyarrow.compute as pc

    return int(pc.sum(pc.binary_length(cells)).as_py() or 0)


def is_number(cells: Cells, decimal: str) -> AnyArray:
    """Which cells are written as numbers."""
    import pyarrow.compute as pc

    pattern = NUMBER if decimal == "." else NUMBER.replace(r"\.", ",")
    return np.asarray(pc.match_substring_regex(cells, pattern).fill_null(False).to_numpy(zero_copy_only=False))


def is_missing(cells: Cells, markers: tuple[str, ...]) -> Cells:
    """Which cells say that they are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.is_in(cells, value_set=pa.array(markers, pa.string()))


def as_numbers(cells: Cells, options: ReadOptions, whole: bool = True) -> Numbers | None:
    """Stripped cells as numbers; None if one is neither a number nor missing.

    Parameters
    ----------
    cells : pyarrow array of text
    options : ReadOptions
    whole : bool
        Whether to try whole numbers.

    Examples
    --------
    >>> import pyarrow as pa
    >>> as_numbers(pa.array(["1", "2.5", "NA"]), ReadOptions()).values
    array([1. , 2.5, nan])
    >>> as_numbers(pa.array(["1", "two"]), ReadOptions())
    """
    import pyarrow as pa

    markers: Counter[str] = Counter()
    if not _a_marker_is_a_number(options):
        try:
            return Numbers(_cast(cells, options.decimal, whole), markers)
        except pa.ArrowInvalid:
            pass
    missing = is_missing(cells, (*options.missing, *MISSING_AMONG_NUMBERS))
    markers.update(said(cells.filter(missing)))
    try:
        return Numbers(_cast(_without(cells, missing), options.decimal, whole), markers)
    except pa.ArrowInvalid:
        return None


def said(cells: Cells) -> Counter[str]:
    """How often each text occurs, empty cells not counted."""
    import pyarrow.compute as pc

    counts = {str(it["values"]): int(it["counts"]) for it in pc.value_counts(cells).to_pylist() if it["values"]}
    return Counter(counts)


def _a_marker_is_a_number(options: ReadOptions) -> bool:
    """Whether a cell that could be a number means a missing one (-999); otherwise numbers can be tried first."""
    import pyarrow as pa

    own = options.own_missing
    return bool(own) and bool(is_number(pa.array(own, pa.string()), options.decimal).any())


def _without(cells: Cells, missing: Cells) -> Cells:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(missing, pa.scalar(None, pa.string()), cells)


def _cast(cells: Cells, decimal: str, whole: bool) -> AnyArray:
    """Cells as numbers, or ArrowInvalid."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if decimal == ",":  # a point must not be read as a decimal sign: 1.500 is one and a half thousand here
        cells = pc.replace_substring(pc.replace_substring(cells, ".", " "), ",", ".")
    numbers = pc.cast(cells, pa.float64())  # first, because the cast to whole numbers takes 0x1F as well
    if whole and not numbers.null_count:
        try:
            numbers = pc.cast(cells, pa.int64())
        except pa.ArrowInvalid:
            pass
    return own(numbers)


def own(cells: Cells) -> AnyArray:
    """Cells in memory of NumPy's own: kept among the parser's short-lived blocks, they would hold twice their size."""
    return np.array(cells.to_numpy(zero_copy_only=False))


def as_levels(cells: Cells, missing: tuple[str, ...]) -> Levels:
    """Stripped cells by their levels, in the order of their appearance.

    Examples
    --------
    >>> import pyarrow as pa
    >>> as_levels(pa.array(["b", "NA", "a", "b"]), ("NA",)).codes
    array([ 0, -1,  1,  0], dtype=int32)
    """
    import pyarrow as pa

    encoded = cells.dictionary_encode()
    codes = own(encoded.indices.fill_null(-1)).astype(np.int32, copy=False)
    gone = is_missing(encoded.dictionary, missing)
    if not gone.true_count:
        return Levels(codes, encoded.dictionary, Counter())
    lost = np.asarray(gone.to_numpy(zero_copy_only=False), dtype=bool)
    new = np.where(lost, -1, np.cumsum(~lost) - 1).astype(np.int32)
    counts = np.bincount(codes[codes >= 0], minlength=len(lost))[lost]
    texts = encoded.dictionary.filter(gone).to_pylist()
    markers = Counter({text: int(count) for text, count in zip(texts, counts, strict=True) if text})
    recoded = np.append(new, np.int32(-1))[codes]  # -1 picks the last
    return Levels(recoded, encoded.dictionary.filter(pa.array(~lost)), markers)
