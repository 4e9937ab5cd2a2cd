"""Text tables, read in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from credibly.cli.reading.cells import Cells, as_levels, stripped
from credibly.cli.reading.columns import NUMBER, TEXT, Column, NotANumber, required_numbers
from credibly.cli.reading.diagnosis import broken_row, lines_of_rows, unclosed_quote
from credibly.cli.reading.header import Layout, layout_of, other_delimiter_of, spelt
from credibly.cli.reading.notes import levels_that_may_be_gaps, odd_numbers, table_notes, why_text
from credibly.cli.reading.options import Progress, Table, chosen_columns
from credibly.cli.reading.parts import categorical
from credibly.cli.reading.source import Source
from credibly.cli.reading.stream import CHUNK, Utf8Stream
from credibly.errors import TableError

if TYPE_CHECKING:
    import pandas as pd

LONGEST_ROW = 1 << 26
LINES_LOOKED_UP = 1_000_000  # rows up to which a note looks for the line; beyond it gives the row


class _RowTooLong(Exception):
    """A row does not fit into the parser's blocks."""


class TextTable(NamedTuple):
    """A text table that is about to be read.

    Attributes
    ----------
    source : Source
    layout : Layout
    columns : list of str
        To be read, in this order.
    """

    source: Source
    layout: Layout
    columns: list[str]

    @classmethod
    def of(cls, source: Source, columns: Iterable[str] | None) -> TextTable:
        """Look at the first lines, and check that the columns are there."""
        layout = layout_of(source)
        if len(layout.names) == 1 and (columns is None or layout.names[0] not in set(columns)):
            _refuse_one_column(source, layout)
        return cls(source, layout, chosen_columns(layout.columns, columns, source.name))

    def blocks(self, progress: Progress | None = None, only: list[str] | None = None) -> Iterator[list[Cells]]:
        """The cells of the columns, some rows at a time, as text; what is wrong with the file is told by line."""
        chunk, rows = max(CHUNK, 16 * self.layout.skip), 0
        while True:
            try:
                for cells in self._one_pass(chunk, rows, self.columns if only is None else only, progress):
                    yield cells
                    rows += len(cells[0])
                return
            except _RowTooLong:
                chunk *= 16

    def _one_pass(self, chunk: int, done: int, columns: list[str], progress: Progress | None) -> Iterator[list[Cells]]:
        """The rows after some that are done."""
        import pyarrow as pa

        stream, rows = self.source.text(self.layout.skip, chunk), 0
        try:
            with self._reader(stream, columns) as reader:
                for batch in reader:
                    fresh = batch.slice(max(0, done - rows))
                    rows += batch.num_rows
                    if fresh.num_rows:
                        yield fresh.columns
                    if progress is not None:
                        progress(stream.position, self.source.size)
        except (pa.ArrowException, OSError, OverflowError) as error:
            if "Empty CSV file" not in str(error):
                self._explain(error, chunk)
        finally:
            stream.close()
        if stream.quotes % 2 and (complaint := unclosed_quote(self.source, self.layout)):
            raise TableError(complaint)

    def _reader(self, stream: Utf8Stream, columns: list[str]) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        place = {name: str(number) for number, name in enumerate(self.layout.names)}
        read = [place[name] for name in columns]
        return csv.open_csv(
            stream,
            read_options=csv.ReadOptions(
                column_names=[str(number) for number in range(len(self.layout.names))],
                block_size=4 * stream.chunk,  # other encodings can be longer in UTF-8
            ),
            parse_options=csv.ParseOptions(delimiter=self.layout.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                include_columns=read,
                column_types=dict.fromkeys(read, pa.string()),
                null_values=[],
                check_utf8=False,  # the stream has checked it, and knows the line
            ),
        )

    def _explain(self, error: Exception, chunk: int) -> NoReturn:
        complaint = broken_row(self.source, self.layout)
        if complaint is None and "straddl" in str(error):
            if chunk < LONGEST_ROW:
                raise _RowTooLong from error
            complaint = f"{self.source.name} has a row of more than {LONGEST_ROW >> 20} MB. Is a quote left open?"
        if complaint is None:
            complaint = f"{self.source.name} cannot be read as a table: {str(error).splitlines()[0]}."
        raise TableError(complaint) from error

    def lines(self, rows: Iterable[int]) -> list[str]:
        """Where rows are in the file, in words."""
        wanted = list(rows)
        if not wanted or max(wanted) > LINES_LOOKED_UP:
            return [f"row {row + 1}" for row in wanted]
        found = dict(zip(sorted(wanted), lines_of_rows(self.source, self.layout, sorted(wanted)), strict=True))
        return [f"line {found[row]}" for row in wanted]

    def refuse_cell(self, error: NotANumber) -> NoReturn:
        """Tell where a cell is that should be a number."""
        (line,) = lines_of_rows(self.source, self.layout, [error.row])
        raise TableError(
            f"{self.source.name}, line {line}: column {error.column!r} must hold numbers, "
            f"but the cell is {error.cell!r}. Correct it, or leave it empty if it is unknown."
        ) from None


def _refuse_one_column(source: Source, layout: Layout) -> NoReturn:
    found, other = layout.names[0], other_delimiter_of(source)
    hint = (
        f" It seems to be {spelt(other)}: give --delimiter '{other}'."
        if other
        else " If there are more, name it with --delimiter."
    )
    raise TableError(
        f"{source.name} has one column only ({found[:60]!r}), taking {spelt(layout.delimiter)} for the delimiter.{hint}"
    )


def csv_table(
    source: Source, columns: Iterable[str] | None, types: Mapping[str, str], progress: Progress | None
) -> Table:
    """A whole text table."""
    table = TextTable.of(source, columns)
    gathered = {name: Column(name, source.options, types.get(name)) for name in table.columns}
    _gather(table, gathered, progress)
    if not next(iter(gathered.values())).rows:
        raise TableError(f"{source.name} has a header but no rows below it.")
    notes = [*table.layout.notes]
    for column in gathered.values():
        if column.is_text and column.kind is None:
            notes += why_text(column, table.lines)
    again = {name: Column(name, source.options, TEXT) for name, column in gathered.items() if column.reread}
    if again:
        _gather(table, again, progress)
        gathered |= again
    notes += table_notes(list(gathered.values()))
    return _assembled(gathered, notes)


def _gather(table: TextTable, gathered: dict[str, Column], progress: Progress | None) -> None:
    try:
        for cells in table.blocks(progress, list(gathered)):
            for column, block in zip(gathered.values(), cells, strict=True):
                column.add(block)
    except NotANumber as error:
        table.refuse_cell(error)


def _assembled(gathered: dict[str, Column], notes: list[str]) -> Table:
    import pandas as pd

    values = {name: column.values() for name, column in gathered.items()}
    for name, column in values.items():
        notes += levels_that_may_be_gaps(name, column) + odd_numbers(name, column)
    return Table(pd.DataFrame(values, copy=False), tuple(notes))


def csv_batches(
    source: Source, columns: Iterable[str] | None, types: Mapping[str, str], progress: Progress | None
) -> Iterator[pd.DataFrame]:
    """A text table, some rows at a time; columns without a type are text."""
    import pandas as pd

    table = TextTable.of(source, columns)
    rows = 0
    for cells in table.blocks(progress):
        block = dict(zip(table.columns, cells, strict=True))
        try:
            values = {name: _typed(name, it, types, source, rows) for name, it in block.items()}
        except NotANumber as error:
            table.refuse_cell(error)
        yield pd.DataFrame(values, index=pd.RangeIndex(rows, rows + len(cells[0])), copy=False)
        rows += len(cells[0])
    if not rows:
        raise TableError(f"{source.name} has a header but no rows below it.")


def _typed(name: str, cells: Cells, types: Mapping[str, str], source: Source, rows: int) -> Any:
    if types.get(name) == NUMBER:
        return required_numbers(name, cells, source.options, rows)
    codes, levels, _ = as_levels(stripped(cells), source.options.missing)
    return categorical(codes, levels)
