"""Where in a file something is, and what is wrong with a row: for messages, so it may take its time."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import islice

from credibly.cli.reading.header import Layout, spelt
from credibly.cli.reading.records import Record, records
from credibly.cli.reading.source import Source


def all_records(source: Source, layout: Layout) -> Iterator[Record]:
    """The rows below the header, with line numbers of the file."""
    with io.TextIOWrapper(io.BufferedReader(source.text(layout.skip)), encoding="utf-8", newline="") as lines:
        for line, last_line, cells, closed in records(lines, layout.delimiter):
            yield Record(line + layout.lines, last_line + layout.lines, cells, closed)


def lines_of_rows(source: Source, layout: Layout, rows: Iterable[int]) -> list[int]:
    """The lines in the file at which some rows (from 0, in ascending order) begin."""
    found, passed, every = [], 0, all_records(source, layout)
    for row in rows:
        found.append(next(islice(every, row - passed, None)).line)
        passed = row + 1
    return found


def unclosed_quote(source: Source, layout: Layout) -> str | None:
    """What to say of a quote that is open where the file ends."""
    last = None
    for last in all_records(source, layout):  # noqa: B007
        pass
    return None if last is None or last.closed else _unclosed(source, last)


def broken_row(source: Source, layout: Layout) -> str | None:
    """What to say of the first row that does not have as many cells as the header; None if there is none."""
    expected = len(layout.names)
    for place, record in enumerate(all_records(source, layout)):
        if not record.closed:
            return _unclosed(source, record)
        if record.cells != expected:
            return (
                f"{source.name}, line {record.line}: {counted(record.cells)}, but the header has {expected} "
                f"(separated by {spelt(layout.delimiter)}). {_hint(record, expected, place, layout.delimiter)}"
            )
    return None


def counted(cells: int) -> str:
    """A number of cells in words."""
    return "1 cell" if cells == 1 else f"{cells} cells"


def _unclosed(source: Source, record: Record) -> str:
    return (
        f"{source.name}, line {record.line}: a quote is opened in this row and never closed; the row would go on to "
        f"the end of the file (line {record.last_line}). Close it, or double it if it is part of the cell."
    )


def _hint(record: Record, expected: int, place: int, delimiter: str) -> str:
    if record.last_line > record.line:
        return f"The row goes on to line {record.last_line}: is a quote left open, or closed too late?"
    if place == 0 and record.cells == expected + 1:
        return "Does the header lack the name of the first column (R: write.csv), or does the row end in a delimiter?"
    if record.cells > expected:
        return f"A cell that contains {spelt(delimiter)} must be in double quotes, without a space before them."
    return "Complete the row, or delete it if it is a remark."
