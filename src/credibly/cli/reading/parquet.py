"""Parquet tables, read in blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credibly.cli.reading.cells import Levels, as_levels, as_numbers, own, stripped
from credibly.cli.reading.columns import NUMBER, TEXT, NotANumber, required_numbers
from credibly.cli.reading.header import check_distinct
from credibly.cli.reading.notes import levels_that_may_be_gaps, odd_numbers
from credibly.cli.reading.options import MOST_COLUMNS, Progress, ReadOptions, Table, chosen_columns
from credibly.cli.reading.parts import NumberParts, TextParts, categorical
from credibly.cli.reading.source import Source
from credibly.errors import TableError
from credibly.wording import shortened

if TYPE_CHECKING:
    import pandas as pd

    from credibly.data.parquet import File

CELLS_IN_A_BLOCK = 1 << 21


class ParquetTable(NamedTuple):
    """A Parquet table that is about to be read."""

    source: Source
    file: File
    columns: dict[str, str]  # the name without spaces around it, and the name in the file
    notes: tuple[str, ...]

    @classmethod
    def of(cls, source: Source, columns: Iterable[str] | None) -> ParquetTable:
        """Read the metadata, and check that the columns are there and can be read."""
        file, names = opened(source)
        kept = _without_row_names(names)
        chosen = {name: names[name] for name in chosen_columns(kept, columns, source.name)}
        _refuse_types(file.schema, chosen, source.name)
        if not file.n_rows:
            raise TableError(f"{source.name} has columns but no rows.")
        left = [f"Row names ({name}) were left out." for name in names if name not in set(kept)]
        spaces = [repr(raw) for name, raw in names.items() if raw != name]
        if spaces:
            left.append(f"Spaces around column names were left out: {shortened(spaces)}.")
        return cls(source, file, chosen, tuple(left))

    def blocks(self, progress: Progress | None = None) -> Iterator[dict[str, Any]]:
        """Some rows at a time, column by column."""
        done, size = 0, max(1, min(1 << 16, CELLS_IN_A_BLOCK // max(1, len(self.columns))))
        for batch in self.file.batches(list(self.columns.values()), size):
            done += batch.num_rows
            yield dict(zip(self.columns, batch.columns, strict=True))
            if progress is not None:
                progress(self.source.size * done // self.file.n_rows, self.source.size)


def opened(source: Source) -> tuple[File, dict[str, str]]:
    """A Parquet file, and its columns: the name without spaces around it, and the name in the file."""
    from credibly.data.parquet import File

    file = File.of(source.path, source.name)
    return file, _names(file.schema, source.name)


def column_names(source: Source) -> list[str]:
    """The columns of a Parquet file, row names left out."""
    return _without_row_names(opened(source)[1])


def _without_row_names(names: Iterable[str]) -> list[str]:
    from credibly.data.parquet import ROW_NAMES

    return [name for name in names if not ROW_NAMES.fullmatch(name)]


def _names(schema: Any, where: str) -> dict[str, str]:
    names = [name.strip() for name in schema.names]
    if len(names) > MOST_COLUMNS:
        raise TableError(
            f"{where} has {len(names)} columns, more than {MOST_COLUMNS}. Is the table turned on its side?"
        )
    unnamed = [str(place) for place, name in enumerate(names, 1) if not name]
    if unnamed:
        raise TableError(f"Columns without a name in {where}: number {shortened(unnamed)}. Name or delete them.")
    check_distinct(names, where)
    if not names:
        raise TableError(f"{where} has no columns.")
    return dict(zip(names, schema.names, strict=True))


def _refuse_types(schema: Any, names: Mapping[str, str], where: str) -> None:
    kinds = {name: schema.field(raw).type for name, raw in names.items()}
    refused = [f"{name!r} ({kind})" for name, kind in kinds.items() if _kind(kind) is None]
    if refused:
        raise TableError(
            f"{where} has columns whose cells are no single values: {shortened(refused)}. "
            "Make columns of their parts, or leave them out (--exclude)."
        )


# --- types ---------------------------------------------------------------------------------------------------------


def _kind(kind: Any) -> str | None:
    """What a column's type means here: "number", "text", "flag", "date"; None for what is not one value per cell."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return TEXT
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return NUMBER
    if types.is_boolean(kind):
        return "flag"
    return "date" if types.is_temporal(kind) and not types.is_interval(kind) else None


def converted(name: str, cells: Any, wanted: str | None, options: ReadOptions, first_row: int) -> Any:
    """One block of a column: an array of numbers or flags, Levels of text, or a Series of dates.

    Parameters
    ----------
    name : str
    cells : pyarrow array
    wanted : "number", "text" or None
        None: what the file says.
    options : ReadOptions
    first_row : int
        Row of the first cell, for messages.
    """
    from pyarrow import types

    if types.is_dictionary(cells.type) and not (_kind(cells.type) == TEXT and wanted != NUMBER):
        cells = cells.dictionary_decode()
    kind = _kind(cells.type)
    if wanted == NUMBER and kind != NUMBER:
        return required_numbers(name, _as_text(cells).fill_null(""), options, first_row)
    if TEXT in {wanted, kind}:
        return _levels(cells, options)
    if kind == NUMBER:
        return _numbers(cells, options)
    if kind == "flag":
        return own(cells)
    return cells.to_pandas(date_as_object=False) if not types.is_time(cells.type) else _levels(cells, options)


def _as_text(cells: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return cells if cells.type == pa.string() else pc.cast(cells, pa.string())


def _levels(cells: Any, options: ReadOptions) -> Levels:
    """Text by levels; cells of a dictionary are looked at once per level."""
    from pyarrow import types

    missing = ("", *options.own_missing)
    if not types.is_dictionary(cells.type):
        return as_levels(stripped(_as_text(cells)), missing)
    inner = as_levels(stripped(_as_text(cells.dictionary)), missing)
    codes = np.asarray(cells.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False))
    recoded = np.append(inner.codes, np.int32(-1))[codes]
    return Levels(recoded, inner.levels, Counter())


def _numbers(cells: Any, options: ReadOptions) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    if types.is_decimal(cells.type) or types.is_null(cells.type) or types.is_float16(cells.type):
        cells = pc.cast(cells, pa.float64())
    values = own(cells)
    codes = [_as_float(text) for text in options.own_missing]
    gone = np.isin(values, [code for code in codes if code is not None])
    return np.where(gone, np.nan, values) if gone.any() else values


def _as_float(text: str) -> float | None:
    import pyarrow as pa

    got = as_numbers(pa.array([text]), ReadOptions(missing=()), whole=False)
    return None if got is None else float(got.values[0])


def _refuse_cell(error: NotANumber, where: str) -> TableError:
    return TableError(
        f"{where}, row {error.row + 1}: column {error.column!r} must hold numbers, but the cell is {error.cell!r}. "
        "Correct it, or leave it empty if it is unknown."
    )


# --- tables --------------------------------------------------------------------------------------------------------


def parquet_table(
    source: Source, columns: Iterable[str] | None, types: Mapping[str, str], progress: Progress | None
) -> Table:
    """A whole Parquet table."""
    import pandas as pd

    table = ParquetTable.of(source, columns)
    gathered: dict[str, Any] = {}
    for _, block in _converted_blocks(table, types, progress):
        for name, part in block.items():
            gathered.setdefault(name, _gathering(part)).add(part)
    values = {name: gathered.pop(name).finished() for name in table.columns}
    notes = [*table.notes]
    for name, column in values.items():
        notes += levels_that_may_be_gaps(name, column) + odd_numbers(name, column)
    return Table(pd.DataFrame(values, copy=False), tuple(notes))


def _converted_blocks(
    table: ParquetTable, types: Mapping[str, str], progress: Progress | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    options, rows = table.source.options, 0
    for block in table.blocks(progress):
        try:
            yield rows, {name: converted(name, it, types.get(name), options, rows) for name, it in block.items()}
        except NotANumber as error:
            raise _refuse_cell(error, table.source.name) from None
        rows += len(next(iter(block.values())))


class _Text(TextParts):
    """Text as it is: what is true or false in a Parquet file says so by its type."""

    def finished(self, *, flags: bool = False) -> Any:
        """The whole column."""
        return super().finished(flags=flags)


class _Others:
    """Dates, and flags of which some are missing."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def add(self, part: Any) -> None:
        """Append."""
        self._parts.append(part)

    def finished(self) -> Any:
        """The whole column."""
        import pandas as pd

        if isinstance(self._parts[0], np.ndarray):
            return np.concatenate(self._parts)
        return pd.concat(self._parts, ignore_index=True).array


def _gathering(part: Any) -> NumberParts | _Text | _Others:
    if isinstance(part, Levels):
        return _Text()
    return NumberParts() if isinstance(part, np.ndarray) and part.dtype.kind in "iuf" else _Others()


def parquet_batches(
    source: Source, columns: Iterable[str] | None, types: Mapping[str, str], progress: Progress | None
) -> Iterator[pd.DataFrame]:
    """A Parquet table, some rows at a time."""
    import pandas as pd

    table = ParquetTable.of(source, columns)
    for rows, block in _converted_blocks(table, types, progress):
        values = {
            name: categorical(part.codes, part.levels) if isinstance(part, Levels) else part
            for name, part in block.items()
        }
        length = len(next(iter(values.values())))
        frame = pd.DataFrame({name: getattr(it, "array", it) for name, it in values.items()}, copy=False)
        yield frame.set_axis(pd.RangeIndex(rows, rows + length))
