"""Rows of a text table counted by hand: slower than the parser, but knowing lines. For first lines and for errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

QUOTE = '"'


class Record(NamedTuple):
    """One row of a text table: its first and last line in the file (from 1), its number of cells."""

    line: int
    last_line: int
    cells: int
    closed: bool = True  # False: a quote is still open where the text ends


def records(lines: Iterable[str], delimiter: str) -> Iterator[Record]:
    r"""The rows in some lines, by the parser's rules: blank lines are none, quoted cells may contain line ends.

    Examples
    --------
    >>> [tuple(row) for row in records(["a,b\n", '"1,\n', '2",3\n'], ",")]
    [(1, 1, 2, True), (2, 3, 2, True)]
    """
    start, cells, inside, number = 0, 0, False, 0
    for number, line in enumerate(lines, 1):
        if not inside and QUOTE not in line:
            if plain := line.rstrip("\r\n"):
                yield Record(number, number, plain.count(delimiter) + 1)
            continue
        if not inside:
            start, cells = number, 1
        separators, inside = _walk(line, delimiter, inside)
        cells += separators
        if not inside:
            yield Record(start, number, cells)
    if inside:
        yield Record(start, number, cells, closed=False)


def _walk(line: str, delimiter: str, inside: bool) -> tuple[int, bool]:
    """Delimiters of one line outside quotes, and whether a quoted cell is open at its end."""
    separators, at = 0, 0
    if not inside and line.startswith(QUOTE):
        inside, at = True, 1
    while True:
        while inside:
            at = line.find(QUOTE, at) + 1
            if at == 0:
                return separators, True
            if line[at : at + 1] == QUOTE:  # doubled: part of the cell
                at += 1
            else:
                inside = False
        at = line.find(delimiter, at) + 1
        if at == 0:
            return separators, False
        separators += 1
        if line[at : at + 1] == QUOTE:
            inside, at = True, at + 1
