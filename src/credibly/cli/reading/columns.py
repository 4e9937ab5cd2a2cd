"""Columns gathered block by block: numbers as long as every cell is one, text otherwise; the whole column decides."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from credibly.cli.reading.cells import (
    Cells,
    Levels,
    as_levels,
    as_numbers,
    is_missing,
    is_number,
    stripped,
    total_length,
)
from credibly.cli.reading.options import MISSING_AMONG_NUMBERS, ReadOptions
from credibly.cli.reading.parts import NumberParts, TextParts
from credibly.numerics.arrays import AnyArray

NUMBER, TEXT = "number", "text"
EXAMPLES = 3


class NotANumber(Exception):
    """A cell that should be a number; to be told with its place in the file."""

    def __init__(self, column: str, row: int, cell: str):
        super().__init__(column, row, cell)
        self.column, self.row, self.cell = column, row, cell


class Spoilt(NamedTuple):
    """Why a column is text."""

    n_numbers: int
    n_others: int
    examples: tuple[tuple[int, str], ...]  # row, cell


def required_numbers(name: str, cells: Cells, options: ReadOptions, first_row: int) -> AnyArray:
    """Cells of a column that must hold numbers, as float64."""
    clean = stripped(cells)
    got = as_numbers(clean, options, whole=False)
    if got is not None:
        return got.values
    fine = is_number(clean, options.decimal)
    missing = is_missing(clean, (*options.missing, *MISSING_AMONG_NUMBERS)).to_numpy(zero_copy_only=False)
    row = int(np.argmin(fine | missing))
    raise NotANumber(name, first_row + row, clean[row].as_py())


class Column:
    """One column of a text table as it is gathered.

    Parameters
    ----------
    name : str
    options : ReadOptions
    kind : "number", "text" or None
        None: seen from the cells.

    Attributes
    ----------
    reread : bool
        Numbers were followed by text, so the text of the former must be read once more.
    """

    def __init__(self, name: str, options: ReadOptions, kind: str | None = None):
        self.name, self.options, self.kind = name, options, kind
        self.is_text = kind == TEXT
        self.reread, self.was_stripped, self.rows = False, False, 0
        self.markers: Counter[str] = Counter()
        self._numbers, self._text = NumberParts(), TextParts()
        self._whole, self._n_numbers, self._n_others = True, 0, 0
        self._examples: dict[str, int] = {}

    @property
    def spoilt(self) -> Spoilt:
        """How many cells are numbers and how many are not, in a column of text."""
        return Spoilt(self._n_numbers, self._n_others, tuple((row, cell) for cell, row in self._examples.items()))

    def add(self, cells: Cells) -> None:
        """Gather some more cells."""
        if self.kind == NUMBER:
            self._numbers.add(required_numbers(self.name, cells, self.options, self.rows))
        else:
            self._infer(cells)
        self.rows += len(cells)

    def _infer(self, cells: Cells) -> None:
        clean = stripped(cells)
        if not self.is_text:
            got = as_numbers(clean, self.options, self._whole)
            if got is not None:
                self._whole = got.values.dtype.kind == "i"
                self._numbers.add(got.values)
                self.markers.update(got.markers)
                return
            self._become_text()
        self._add_text(clean)
        self.was_stripped |= total_length(clean) < total_length(cells)

    def _become_text(self) -> None:
        self._n_numbers = self._numbers.count_known()
        self.reread = self._n_numbers > 0 or any(self.markers[text] for text in MISSING_AMONG_NUMBERS)
        self._numbers = NumberParts()
        self._text.add_missing(self.rows)
        self.is_text = True

    def _add_text(self, clean: Cells) -> None:
        found = as_levels(clean, self.options.missing)
        if self.kind is None:
            self._count_numbers(found)
        if not self.reread:
            self._text.add(found)
            self.markers.update(found.markers)

    def _count_numbers(self, found: Levels) -> None:
        like, counts = is_number(found.levels, self.options.decimal), found.counts()
        self._n_numbers += int(counts[like].sum())
        self._n_others += int(counts[~like].sum())
        for level in np.flatnonzero(~like)[: EXAMPLES - len(self._examples)]:
            self._examples.setdefault(
                found.levels[int(level)].as_py(), self.rows + int(np.argmax(found.codes == level))
            )

    def values(self) -> Any:
        """The whole column; what was gathered is given away, so that it is not in memory twice."""
        return self._text.finished(flags=self.kind is None) if self.is_text else self._numbers.finished()
