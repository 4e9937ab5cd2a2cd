"""Tables to Parquet or CSV files, some rows at a time, whole or not at all."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import csv
from pyarrow import parquet as pq

from credibly.data.files import write_errors, written_whole
from credibly.data.parquet_files import AnyPath, shortened
from credibly.errors import InputError, TableError
from credibly.numerics.arrays import AnyArray

GROUP_ROWS = 131_072  # rows that are gathered into a row group, at least


def write_table(path: AnyPath, batches: Iterable[Mapping[str, AnyArray]], *, overwrite: bool = True) -> int:
    """Write a table that need not fit in memory; the file has its name once it is whole, and leaves nothing otherwise.

    Parameters
    ----------
    path : path
        Ends in .parquet or .csv, which says how to write.
    batches : iterable of mappings
        Columns of some rows by name, the same ones in every batch; asked for one at a time.
    overwrite : bool, default True
        Whether a file of that name may be replaced.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    InputError
        The folder does not exist, or the name is taken.
    TableError
        The ending is another, columns differ between batches, nothing is to be written, or the disk is full.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> path = pathlib.Path(tempfile.mkdtemp(), "answer.csv")
    >>> write_table(path, ({"id": np.arange(n), "p": np.full(n, 0.5)} for n in (1, 2)))
    3
    >>> print(path.read_text())
    "id","p"
    0,0.5
    0,0.5
    1,0.5
    """
    kind = _kind(path)
    with write_errors(path, TableError), written_whole(path, overwrite=overwrite) as part, part.open("wb") as file:
        rows = _written(_groups(batches), file, kind)
    return rows


def _kind(path: AnyPath) -> str:
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"Expected the name of a file that ends in .parquet or .csv; got {path!r}.")
    suffix = Path(path).suffix.lower()
    if suffix not in {".parquet", ".csv"}:
        raise TableError(f"{os.fspath(path)} must end in .parquet or .csv, which says how to write it.")
    return suffix


def _written(tables: Iterator[Any], file: IO[bytes], kind: str) -> int:
    first = next(tables, None)
    if first is None:
        raise TableError("Nothing was written: the table has no rows.")
    alike = (_same_columns(table, first.schema) for table in _with_first(first, tables))
    return _write_csv(alike, file) if kind == ".csv" else _write_parquet(alike, file, first.schema)


def _write_csv(tables: Iterator[Any], file: IO[bytes]) -> int:
    rows = 0
    for table in tables:
        csv.write_csv(table, file, csv.WriteOptions(include_header=rows == 0))
        rows += table.num_rows
    return rows


def _write_parquet(tables: Iterator[Any], file: IO[bytes], schema: Any) -> int:
    writer, rows = None, 0
    try:
        writer = pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)
        for table in tables:
            writer.write_table(table)
            rows += table.num_rows
        writer.close()
    except BaseException:
        if writer is not None:
            writer.is_open = False  # or the rest would be written when Python tidies up, to a file that is closed
        raise
    return rows


def _with_first(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _groups(batches: Iterable[Mapping[str, AnyArray]]) -> Iterator[Any]:
    """Batches as pyarrow tables, small ones together."""
    waiting: list[Any] = []
    empty, some = None, False
    for batch in batches:
        table = _table(batch)
        if not table.num_rows:
            empty = table
            continue
        waiting.append(table if not waiting else _same_columns(table, waiting[0].schema))
        if sum(table.num_rows for table in waiting) >= GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting, some = [], True
    if waiting:
        yield pa.concat_tables(waiting)
    elif empty is not None and not some:  # a table without rows has columns
        yield empty


def _table(batch: Mapping[str, AnyArray]) -> Any:
    lengths = {name: len(values) for name, values in batch.items()}
    if len(set(lengths.values())) > 1:
        raise TableError(f"Columns of a batch must have the same length; got {lengths}.")
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in batch.items()})


def _same_columns(table: Any, schema: Any) -> Any:
    if table.schema == schema:
        return table
    if table.column_names != schema.names:
        raise TableError(
            f"Rows must have the columns of the first ones ({shortened(schema.names)}); got "
            f"{shortened(table.column_names)}."
        )
    try:
        return table.cast(schema)
    except pa.ArrowInvalid as error:
        raise TableError(f"A column changes its type between rows: {error}.") from error
