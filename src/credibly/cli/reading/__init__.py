"""Tables from files: CSV and its relatives, compressed or not, and Parquet, whole or in batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from credibly.cli.reading.csv import csv_batches, csv_table
from credibly.cli.reading.header import layout_of
from credibly.cli.reading.options import MISSING, PLAIN, Progress, ReadOptions, Table
from credibly.cli.reading.parquet import column_names, parquet_batches, parquet_table
from credibly.cli.reading.source import open_source
from credibly.errors import TableError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MISSING", "Progress", "ReadOptions", "Table", "columns_of", "read_batches", "read_table"]

TYPES = ("number", "text")


def read_table(
    path: str | os.PathLike[str],
    *,
    columns: Iterable[str] | None = None,
    types: Mapping[str, str] | None = None,
    options: ReadOptions = PLAIN,
    progress: Progress | None = None,
) -> Table:
    r"""A whole table, in memory, with the type of each column seen from all its cells.

    A column whose cells are all numbers or missing is a number (float64 where some are missing); one of true and false
    is bool; everything else is text, kept as a categorical where cells repeat. What kind of file it is, its compression
    and its delimiter are seen from its contents.

    Parameters
    ----------
    path : path
        A CSV file (or with ``;``, tabs or ``|``), also compressed by gzip, bzip2, xz or zstandard, or a Parquet file;
        ``-`` for standard input.
    columns : iterable of str, optional
        Read only these, in this order; all of them must be there.
    types : mapping from column to "number" or "text", optional
        Read these columns so; a cell that is no number is then an error that names it.
    options : ReadOptions
    progress : callable, optional
        Called as ``progress(done_bytes, total_bytes)`` between blocks.

    Returns
    -------
    Table
        The frame, and notes about what was not taken quite as it came.

    Raises
    ------
    TableError
        One sentence or two: what is wrong, where, and what to change.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.csv")
    >>> _ = path.write_text("age;sex\n31;m\n28;f\nold;m\n44;\n")
    >>> frame, notes = read_table(path)
    >>> frame.shape, list(frame["age"])
    ((4, 2), ['31', '28', 'old', '44'])
    >>> print(notes[0])
    Column 'age' is read as text, because 1 of 4 cells is no number: 'old' (line 4). Correct ...
    >>> read_table(path, options=ReadOptions(missing=(*MISSING, "old"))).frame["age"].dtype
    dtype('float64')
    """
    with open_source(path, options) as source:
        read = parquet_table if source.is_parquet else csv_table
        return read(source, _asked(columns), _checked(types), progress)


def read_batches(
    path: str | os.PathLike[str],
    *,
    columns: Iterable[str] | None = None,
    types: Mapping[str, str] | None = None,
    options: ReadOptions = PLAIN,
    progress: Progress | None = None,
) -> Iterator[pd.DataFrame]:
    r"""A table some rows at a time, in memory that does not grow with the file.

    Types cannot be seen from cells that are not read yet, so they are given: columns of a text file without a type are
    text (categoricals, each batch with its own levels). Columns of a Parquet file have the file's type.

    Parameters
    ----------
    path, columns, types, options, progress
        As in `read_table`.

    Yields
    ------
    DataFrame
        With the index counting rows of the file from 0.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.csv")
    >>> _ = path.write_text("age,sex\n31,m\n28,f\n")
    >>> for batch in read_batches(path, columns=["sex", "age"], types={"age": "number"}):
    ...     print(batch.to_dict("list"))
    {'sex': ['m', 'f'], 'age': [31.0, 28.0]}
    """
    with open_source(path, options) as source:
        read = parquet_batches if source.is_parquet else csv_batches
        yield from read(source, _asked(columns), _checked(types), progress)


def columns_of(path: str | os.PathLike[str], options: ReadOptions = PLAIN) -> list[str]:
    """The names of the columns that `read_table` would find, from the beginning (or the metadata) of a file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.csv")
    >>> _ = path.write_text('"","age","sex"')
    >>> columns_of(path)
    ['age', 'sex']
    """
    with open_source(path, options) as source:
        return column_names(source) if source.is_parquet else layout_of(source).columns


def _asked(columns: Iterable[str] | None) -> list[str] | None:
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names; got the string {columns!r}.")
    asked = None if columns is None else list(columns)
    if asked == []:
        raise TableError("No column was asked for.")
    return asked


def _checked(types: Mapping[str, str] | None) -> Mapping[str, str]:
    wrong = {name: kind for name, kind in (types or {}).items() if kind not in TYPES}
    if wrong:
        raise TableError(f"Types must be one of {', '.join(map(repr, TYPES))}; got {wrong}.")
    return types or {}
