"""The first lines of a text table: its delimiter, its header, its columns."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from credibly.cli.reading.options import MOST_COLUMNS, ReadOptions
from credibly.cli.reading.records import Record, records
from credibly.cli.reading.source import Source
from credibly.errors import TableError
from credibly.wording import shortened

DELIMITERS = (",", ";", "\t", "|")
OTHER_DELIMITERS = (" ", ":", "^", "~")
SPELLING = {"\t": "a tab", " ": "a space"}
SAMPLE, LONGEST_SAMPLE, SAMPLE_LINES = 1 << 16, 1 << 26, 20
DECLARED = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # Excel's own first line
ROW_NAMES = re.compile(r"(Unnamed: 0(\.\d+)*)?")  # as R's write.csv and pandas' to_csv leave them
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")


class Layout(NamedTuple):
    """How a text table is laid out.

    Attributes
    ----------
    names : tuple of str
        Of all columns, by position; "" for row names, which are not read.
    delimiter : str
    skip : int
        Bytes of UTF-8 up to the first row.
    lines : int
        Lines up to the first row.
    notes : tuple of str
    """

    names: tuple[str, ...]
    delimiter: str
    skip: int
    lines: int
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Names of the columns to read."""
        return [name for name in self.names if name]


def spelt(delimiter: str) -> str:
    """A delimiter as it can be read in a sentence."""
    return SPELLING.get(delimiter, repr(delimiter))


def layout_of(source: Source) -> Layout:
    """Look at the first lines of a text table."""
    lines, whole = _first_lines(source)
    declared = DECLARED.fullmatch(lines[0]) if lines else None
    before = 1 if declared else 0
    if not "".join(lines[before:]).strip():
        raise TableError(f"{source.name} is empty: it has no header and no rows.")
    given = source.options.delimiter or (declared[1] if declared else None)
    delimiter = given or sniffed(lines, whole, source.options)
    header = next(records(lines[before:], delimiter))
    last = before + header.last_line
    if not header.closed:
        raise TableError(f"{source.name}, line {before + header.line}: a quote in the header is never closed.")
    cells = _cells("".join(lines[before + header.line - 1 : last]), delimiter, source.name)
    skip = len("".join(lines[:last]).encode())
    return Layout(_checked_names(cells, source.name), delimiter, skip, last, _notes(cells))


def _first_lines(source: Source) -> tuple[list[str], bool]:
    """Some lines from the beginning, and whether they are all."""
    data, whole = b"", False
    with io.BufferedReader(source.text()) as stream:
        while not whole and (len(data) < SAMPLE or not _enough(data)):
            if len(data) > LONGEST_SAMPLE:
                raise TableError(f"{source.name} has no line end in its first {len(data) >> 20} MB; it is no table.")
            wanted = max(SAMPLE, len(data))
            more = stream.read(wanted)
            data, whole = data + more, len(more) < wanted
    text = data.decode(errors="strict" if whole else "ignore")  # a cut may go through a letter
    return list(io.StringIO(text, newline="")), whole


def _enough(data: bytes) -> bool:
    ends = data.count(b"\n") or data.count(b"\r")
    return ends >= SAMPLE_LINES or (ends > 0 and len(data) > LONGEST_SAMPLE // 16)


# --- the delimiter -------------------------------------------------------------------------------------------------


def sniffed(lines: Sequence[str], whole: bool, options: ReadOptions) -> str:
    r"""The delimiter under which the header and the first rows agree best; a comma where none occurs.

    Examples
    --------
    >>> sniffed(["a;b\n", "1,5;2,5\n"], True, ReadOptions())
    ';'
    """
    candidates = sorted(DELIMITERS, key=lambda it: it == options.decimal)  # a stable sort: the decimal sign comes last
    fits = {it: _fit(_first_records(lines, whole, it)) for it in candidates}
    return max((it for it in candidates if fits[it][0]), key=lambda it: fits[it], default=",")


def other_delimiter_of(source: Source) -> str | None:
    """A delimiter under which a file that seems to have one column would have more; None if there is none."""
    lines, whole = _first_lines(source)
    fits = {it: _fit(_first_records(lines, whole, it)) for it in (*DELIMITERS, *OTHER_DELIMITERS)}
    best = max(fits, key=lambda it: fits[it])
    return best if fits[best][:2] == (True, 1.0) else None


def _first_records(lines: Sequence[str], whole: bool, delimiter: str) -> list[Record]:
    found = list(islice(records(lines, delimiter), 1000))
    return found if whole or len(found) < 2 else found[:-1]  # the last one may be cut


def _fit(found: Sequence[Record]) -> tuple[bool, float, int]:
    width = found[0].cells
    return width > 1, sum(record.cells == width for record in found) / len(found), width


# --- names ---------------------------------------------------------------------------------------------------------


def _cells(text: str, delimiter: str, where: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise TableError(f"The header of {where} cannot be read ({error}). Is a quote in it left open?") from error


def _checked_names(cells: list[str], where: str) -> tuple[str, ...]:
    """Names without spaces around them, "" for row names in the first column."""
    if len(cells) > MOST_COLUMNS:
        raise TableError(
            f"{where} has {len(cells)} columns, more than {MOST_COLUMNS}. Is the table turned on its side?"
        )
    names = [cell.strip() for cell in cells]
    unnamed = [str(place) for place, name in enumerate(names, 1) if place > 1 and not name]
    if unnamed:
        which = f"Column {unnamed[0]} has" if len(unnamed) == 1 else f"Columns {shortened(unnamed)} have"
        raise TableError(
            f"{which} no name in the header of {where} ({len(names)} columns). Name or delete what is there."
        )
    check_distinct(names, where)
    if ROW_NAMES.fullmatch(names[0]) and len(names) > 1:
        names[0] = ""
    elif not names[0]:
        raise TableError(f"The only column of {where} has no name in the header. Name it.")
    return tuple(names)


def check_distinct(names: Sequence[str], where: str) -> None:
    """No two columns have the same name."""
    doubled = [f"{name!r} ({count} times)" for name, count in Counter(names).items() if count > 1]
    if doubled:
        headless = " The first line looks like data: does the file lack a header?" if _all_numbers(names) else ""
        raise TableError(f"Column names must differ; {where} has {shortened(doubled)}. Rename them.{headless}")


def _all_numbers(names: Sequence[str]) -> bool:
    return all(NUMBER.fullmatch(name) for name in names if name)


def _notes(cells: list[str]) -> tuple[str, ...]:
    names, notes = [cell.strip() for cell in cells], []
    stripped = [repr(cell) for cell, name in zip(cells, names, strict=True) if cell != name]
    if stripped:
        notes.append(f"Spaces around column names were left out: {shortened(stripped)}.")
    if len(names) > 1 and ROW_NAMES.fullmatch(names[0]):
        called = f"called {names[0]!r}" if names[0] else "without a name"
        notes.append(f"The first column, {called}, was taken for row names and left out.")
    if _all_numbers(names):
        notes.append(f"All column names are numbers ({shortened(names, 3)}): does the file lack a header line?")
    return tuple(notes)
