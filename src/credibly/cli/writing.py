"""Tables to files: CSV or Parquet, some rows at a time, whole or not at all."""

from __future__ import annotations

import errno
import gzip
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from credibly.cli.printable import printable
from credibly.data.files import write_errors, written_whole
from credibly.errors import TableError
from credibly.tables.columns import shortened

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SUFFIXES", "TableWriter", "table_writer"]

STANDARD_OUTPUT = "-"
SUFFIXES = (".csv", ".csv.gz", ".parquet")


class TableWriter:
    """A file that a table is being written to; see `table_writer`."""

    def __init__(self, path: str | os.PathLike[str], overwrite: bool):
        self._path, self._overwrite, self._suffix = path, overwrite, suffix_of(path)
        self._stack = ExitStack()
        self._rows: CsvRows | ParquetRows | None = None

    def __enter__(self) -> TableWriter:
        with _told(self._path), ExitStack() as stack:
            file = self._opened(stack)
            self._rows = ParquetRows(file) if self._suffix == ".parquet" else CsvRows(file)
            stack.callback(self._rows.abandon)
            self._stack = stack.pop_all()
        return self

    def _opened(self, stack: ExitStack) -> Any:
        if os.fspath(self._path) == STANDARD_OUTPUT:
            return stack.enter_context(_standard_output())
        part = stack.enter_context(written_whole(self._path, overwrite=self._overwrite))
        file = stack.enter_context(part.open("wb"))
        if self._suffix != ".csv.gz":
            return file  # below: neither name nor time, so that the same table gives the same bytes
        return stack.enter_context(gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0))

    def write(self, frame: pd.DataFrame) -> None:
        """Write some rows.

        Parameters
        ----------
        frame : DataFrame
            With the same columns every time; its index is not written.
        """
        if self._rows is None:
            raise RuntimeError("table_writer is used as: with table_writer(path) as table: table.write(frame)")
        with _told(self._path):
            self._rows.write(as_arrow(frame))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with _told(self._path):
            if error is not None:
                return self._stack.__exit__(kind, error, trace)  # what went wrong in the block goes on as it is
            with self._stack:
                if self._rows is not None:
                    self._rows.finish()
        return None


def table_writer(path: str | os.PathLike[str], *, overwrite: bool = False) -> TableWriter:
    r"""A file to write a table to; it gets its name when the block ends well, and leaves nothing behind otherwise.

    Numbers are written so that they are read back the same, to the last bit; missing cells are empty.

    Parameters
    ----------
    path : path
        Ends in .csv, .csv.gz or .parquet; ``-`` for CSV on standard output.
    overwrite : bool, default False
        Whether a file of that name may be replaced.

    Returns
    -------
    TableWriter
        A context manager with a method `write(frame)`, to be called at least once.

    Raises
    ------
    InputError
        The name is taken, or its folder does not exist.
    TableError
        The ending is another, the disk is full, or nothing was written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> path = pathlib.Path(tempfile.mkdtemp(), "answer.csv")
    >>> with table_writer(path) as table:
    ...     table.write(pd.DataFrame({"prediction": ["yes", "no"], "p_yes": [0.7, 0.1 + 0.2]}))
    >>> print(path.read_text())
    "prediction","p_yes"
    "yes",0.7
    "no",0.30000000000000004
    """
    return TableWriter(path, overwrite)


def suffix_of(path: str | os.PathLike[str]) -> str:
    """The ending that says how to write, or an error that lists them.

    Examples
    --------
    >>> suffix_of("Answer.CSV.GZ")
    '.csv.gz'
    """
    if os.fspath(path) == STANDARD_OUTPUT:
        return ".csv"
    found = next((suffix for suffix in SUFFIXES if Path(path).name.lower().endswith(suffix)), None)
    if found is None:
        raise TableError(
            f"{path} must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, which says how to write it."
        )
    return found


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    if sys.__stdout__ is None:  # it was closed before Python began; whatever stands there now is read by nobody
        raise OSError(errno.EBADF, "it is closed")
    sys.stdout.flush()
    if not sys.stdout.isatty():
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    shown = BytesIO()  # for somebody who looks at it: labels and kept cells must not steer the terminal
    yield shown
    print(printable(shown.getvalue().decode()), end="", flush=True)


def _told(path: str | os.PathLike[str]) -> AbstractContextManager[None]:
    return write_errors("to standard output" if os.fspath(path) == STANDARD_OUTPUT else path, TableError)


class CsvRows:
    """Rows as lines of text."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._names: list[str] | None = None

    def write(self, table: Any) -> None:
        """Write some rows, the header before the first."""
        from pyarrow import csv

        _check_same(self._names, table.column_names)
        csv.write_csv(table, self._file, csv.WriteOptions(include_header=self._names is None))
        self._names = table.column_names

    def finish(self) -> None:
        """Nothing is left to do."""
        _check_written(self._names)

    def abandon(self) -> None:
        """Nothing is left to do."""


class ParquetRows:
    """Rows as columns, with a checksum on each page."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._writer: Any = None

    def write(self, table: Any) -> None:
        """Write some rows; the first ones say what type each column has."""
        import pyarrow as pa
        from pyarrow import parquet

        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, table.schema, compression="zstd", write_page_checksum=True)
        _check_same(self._writer.schema.names, table.column_names)
        try:
            self._writer.write_table(table.cast(self._writer.schema))
        except pa.ArrowInvalid as error:
            raise TableError(f"A column changes its type between rows: {error}.") from error

    def finish(self) -> None:
        """Write the metadata."""
        _check_written(self._writer)
        self._writer.close()

    def abandon(self) -> None:
        """Forget the rest, which would otherwise be written when Python tidies up, to a file that is closed."""
        if self._writer is not None:
            self._writer.is_open = False


def as_arrow(frame: pd.DataFrame) -> Any:
    """A frame as a pyarrow table: categories as text, NaN as missing."""
    import pyarrow as pa

    columns = [_column(frame.iloc[:, place]) for place in range(frame.shape[1])]
    return pa.table(columns, names=[str(name) for name in frame.columns])


def _column(values: pd.Series) -> Any:
    import pyarrow as pa
    from pyarrow import types

    cells = pa.array(values, from_pandas=True)
    if types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if types.is_null(cells.type) or types.is_large_string(cells.type):
        cells = cells.cast(pa.string())
    return cells


def _check_same(before: list[str] | None, now: list[str]) -> None:
    if before is not None and before != now:
        raise TableError(f"Rows must have the columns of the first ones ({shortened(before)}); got {shortened(now)}.")


def _check_written(anything: object) -> None:
    if anything is None:
        raise TableError("Nothing was written: the table has no rows.")
