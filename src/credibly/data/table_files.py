"""Tables written to Parquet and CSV files, or to standard output, some rows at a time: whole, or not at all."""

import errno
import gzip
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, types

from credibly.data.files import write_errors, written_whole
from credibly.errors import InputError, TableError
from credibly.numerics.arrays import AnyArray
from credibly.wording import shortened

if TYPE_CHECKING:
    import pandas as pd

STANDARD_OUTPUT = "-"
SUFFIXES = (".csv", ".csv.gz", ".parquet")
GROUP_ROWS = 131_072  # rows that are gathered into a row group, at least

AnyPath = str | os.PathLike[str]


def write_table(path: AnyPath, batches: Iterable[Mapping[str, AnyArray]], *, overwrite: bool = False) -> int:
    """Write a table that need not fit in memory; the file has its name once it is whole, and leaves nothing otherwise.

    Parameters
    ----------
    path : path
        As in `TableWriter`.
    batches : iterable of mappings
        Columns of some rows by name, the same ones in every batch; asked for one at a time.
    overwrite : bool, default False
        Whether a file of that name may be replaced.

    Returns
    -------
    int
        Number of rows.

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
    with TableWriter(path, overwrite=overwrite) as writer:
        return sum(writer.write(batch) for batch in batches)


class TableWriter:
    r"""A file to write a table to; it gets its name when the block ends well, and leaves nothing behind otherwise.

    Numbers are written so that they are read back the same, to the last bit; missing cells are empty.

    Parameters
    ----------
    path : path
        Ends in .csv, .csv.gz or .parquet; ``-`` for CSV on standard output.
    overwrite : bool, default False
        Whether a file of that name may be replaced.

    Raises
    ------
    InputError
        The name is taken, or its folder does not exist.
    TableError
        The ending is another, columns differ between rows, or nothing was written.
    FileWriteError
        The disk is full, or the folder cannot be written to.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> path = pathlib.Path(tempfile.mkdtemp(), "answer.csv")
    >>> with TableWriter(path) as table:
    ...     table.write(pd.DataFrame({"prediction": ["yes", "no"], "p_yes": [0.7, 0.1 + 0.2]}))
    2
    >>> print(path.read_text())
    "prediction","p_yes"
    "yes",0.7
    "no",0.30000000000000004
    """

    def __init__(self, path: AnyPath, *, overwrite: bool = False):
        self._path, self._overwrite, self._suffix = path, overwrite, suffix_of(path)
        self._stack = ExitStack()
        self._rows: _CsvRows | _ParquetRows | None = None
        self._names: list[str] | None = None  # of the columns, once some rows were written

    def __enter__(self) -> "TableWriter":
        with self._errors(), ExitStack() as stack:
            file = self._opened(stack)
            self._rows = _ParquetRows(file) if self._suffix == ".parquet" else _CsvRows(file)
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

    def write(self, columns: "Mapping[str, AnyArray] | pd.DataFrame") -> int:
        """Write some rows, and return how many; their columns are the same every time (an index is not written)."""
        if self._rows is None:
            raise RuntimeError("TableWriter is used as: with TableWriter(path) as table: table.write(columns)")
        table = _as_arrow(columns)
        if self._names is not None and self._names != table.column_names:
            raise TableError(
                f"Rows must have the columns of the first ones ({shortened(self._names)}); got "
                f"{shortened(table.column_names)}."
            )
        self._names = table.column_names
        with self._errors():
            self._rows.write(table)
        return int(table.num_rows)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with self._errors():
            if error is not None:
                return self._stack.__exit__(kind, error, trace)  # what went wrong in the block goes on as it is
            with self._stack:
                if self._names is None or self._rows is None:
                    raise TableError("Nothing was written: the table has no rows.")
                self._rows.finish()
        return None

    def _errors(self) -> AbstractContextManager[None]:
        standard = os.fspath(self._path) == STANDARD_OUTPUT
        return write_errors("to standard output" if standard else self._path)


def suffix_of(path: AnyPath) -> str:
    """The ending that says how to write, or an error that lists them.

    Examples
    --------
    >>> suffix_of("Answer.CSV.GZ")
    '.csv.gz'
    """
    endings = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"Expected the name of a file that ends in {endings}; got {path!r}.")
    if os.fspath(path) == STANDARD_OUTPUT:
        return ".csv"
    suffix = next((it for it in SUFFIXES if Path(path).name.lower().endswith(it)), None)
    if suffix is None:
        raise TableError(f"{os.fspath(path)} must end in {endings}, which says how to write it.")
    return suffix


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    if sys.__stdout__ is None:  # it was closed before Python began; whatever stands there now is read by nobody
        raise OSError(errno.EBADF, "it is closed")
    sys.stdout.flush()
    if not sys.stdout.isatty():
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from credibly.cli.printable import printable  # for somebody who looks at it: labels must not steer the terminal

    shown = BytesIO()
    yield shown
    print(printable(shown.getvalue().decode()), end="", flush=True)


# --- formats -----------------------------------------------------------------------------------------------------


class _CsvRows:
    """Rows as lines of text."""

    def __init__(self, file: IO[bytes]):
        self._file, self._header = file, True

    def write(self, table: Any) -> None:
        """Write some rows, the header before the first."""
        csv.write_csv(table, self._file, csv.WriteOptions(include_header=self._header))
        self._header = False

    def finish(self) -> None:
        """Nothing is left to do."""

    def abandon(self) -> None:
        """Nothing is left to do."""


class _ParquetRows:
    """Rows as columns, with a checksum on each page; small batches share a row group."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._waiting: list[Any] = []
        self._schema: Any = None
        self._writer: Any = None

    def write(self, table: Any) -> None:
        """Take some rows; the first ones say what type each column has."""
        if self._writer is None and not sum(it.num_rows for it in self._waiting):  # no rows say nothing of types
            self._waiting, self._schema = [], table.schema
        try:
            self._waiting.append(table.cast(self._schema))
        except pa.ArrowInvalid as error:
            raise TableError(f"A column changes its type between rows: {error}.") from error
        if sum(it.num_rows for it in self._waiting) >= GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd", write_page_checksum=True)
        self._writer.write_table(pa.concat_tables(self._waiting))
        self._waiting = []

    def finish(self) -> None:
        """Write what is waiting, and the metadata."""
        if self._waiting:
            self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """Forget the rest, which would otherwise be written when Python tidies up, to a file that is closed."""
        if self._writer is not None:
            self._writer.is_open = False


def _as_arrow(columns: "Mapping[str, AnyArray] | pd.DataFrame") -> Any:
    """A pyarrow table: categories as text, NaN as missing."""
    arrays = [(str(name), _as_array(values)) for name, values in columns.items()]
    lengths = {name: len(array) for name, array in arrays}
    if len(set(lengths.values())) > 1:
        raise TableError(f"Columns of a batch must have the same length; got {lengths}.")
    return pa.table([array for _, array in arrays], names=[name for name, _ in arrays])


def _as_array(values: Any) -> Any:
    cells = pa.array(values, from_pandas=True)
    if types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if types.is_null(cells.type) or types.is_large_string(cells.type):
        cells = cells.cast(pa.string())
    return cells
