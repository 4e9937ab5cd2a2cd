"""X, y and weights as they arrive, before they are arrays: what cannot become numbers or labels is refused by its type.

NumPy would read dates as counts of nanoseconds, and text as numbers, forget which cells are masked, and turn 1 into
"1" beside text.
"""

from collections.abc import Collection, Iterator, Mapping, Set
from numbers import Number
from typing import Any

import numpy as np
from scipy.sparse import issparse

from credibly.data.rows import MISREAD
from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray

MOST_NAMED = 5
ENCODE = (
    "Encode text and categories first, e.g. with scikit-learn's OneHotEncoder in a ColumnTransformer, or "
    "pandas.get_dummies; dates and times are numbers once they are counted, in days since a start."
)
NO_NUMBERS = (  # types of columns, of pandas, polars and Arrow, by how their names begin
    "str",
    "large_string",
    "binary",
    "large_binary",
    "category",
    "categorical",
    "dictionary",
    "enum",
    "date",
    "time",
    "duration",
    "period",
    "interval",
)
KINDS = {"M": "dates", "m": "spans of time"}
DAMAGED = "X is a sparse array whose indices point outside of it: it is damaged. Build it again"
NO_TABLE = (str, bytes, Mapping, Set, Iterator, Number, type(None))
NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
DECEPTIVE = (str, bytes, np.datetime64, np.timedelta64)  # no numbers, although float() takes some of them


def named(names: Collection[Any] | AnyArray) -> str:
    """A few names in quotes, and how many more there are."""
    shown = ", ".join(repr(str(name)) for name in list(names)[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def as_table(X: Any) -> Any:
    """X as it is, masked cells as NaN; an error for what is no table, or holds dates or complex numbers."""
    if (isinstance(X, NO_TABLE) and not issparse(X)) or getattr(X, "ndim", 2) == 0:
        raise InputError(
            f"X must be a table: a 2D array, a data frame, a sparse array or a list of rows; got {_what(X)}. Reshape "
            "your data if it is a single number; read it first, e.g. with pandas.read_csv, if it is in a file."
        )
    if isinstance(X, np.matrix):
        raise InputError("X is a np.matrix, which is not supported; use np.asarray(X).")
    if type(X).__name__ == "LazyFrame":
        raise InputError("X is a LazyFrame, which holds no rows yet; use X.collect().")
    _refuse_types(X)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(float), np.nan) if X.dtype.kind in "biuf" else _unmasked(X)
    if isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # infinity is refused later, by column
            X = X.astype(float)
    if issparse(X):
        _refuse_damaged(X)
    elif isinstance(X, list | tuple):
        _refuse_ragged(X)
    return X


def _unmasked(values: Any) -> AnyArray:
    """Objects with None in masked places; `filled` of NumPy would put a '?' there."""
    cells = np.array(values.data, dtype=object)
    cells[np.ma.getmaskarray(values)] = None
    return cells


def _what(X: Any) -> str:
    return "None" if X is None else f"{type(X).__name__} {X!r:.40}" if isinstance(X, str | Number) else type(X).__name__


def _refuse_types(X: Any) -> None:
    dtypes, columns = getattr(X, "dtypes", None), getattr(X, "columns", None)
    if columns is not None and dtypes is not None:
        if not len(columns):
            raise InputError(f"X has no columns: 0 feature(s) (shape=({len(X)}, 0)) while a minimum of 1 is required.")
        wrong = [name for name, kind in zip(columns, dtypes, strict=True) if str(kind).lower().startswith("complex")]
        if wrong:
            raise InputError(f"Complex data not supported: column {named(wrong)}. {_PARTS}")
        return
    dtype: Any = getattr(X, "dtype", None)
    kind = getattr(dtype, "kind", "")
    if kind == "c":
        raise InputError(f"Complex data not supported: X is of type {dtype}. {_PARTS}")
    if kind in KINDS:
        raise InputError(
            f"X holds {KINDS[kind]} ({dtype}): turn them into numbers first (days, years), e.g. days since a start."
        )
    if kind == "V":
        raise InputError(
            f"X is a structured array with the fields {named(dtype.names or ())}; expected one type for all columns. "
            "Use pandas.DataFrame(X), or numpy.lib.recfunctions.structured_to_unstructured(X)."
        )


_PARTS = "Give real and imaginary part as two columns."


def _refuse_ragged(X: Any) -> None:
    lengths = [len(row) for row in X if isinstance(row, list | tuple)]
    if len(lengths) == len(X) and len(set(lengths)) > 1:
        row = next(i for i, length in enumerate(lengths) if length != lengths[0])
        raise InputError(
            f"X has rows of different lengths: row 0 has {lengths[0]} cells, row {row} has {lengths[row]}. Every row "
            "needs one cell for each column; a missing one is NaN."
        )


def _refuse_damaged(X: Any) -> None:
    """Indices beyond the columns would make compiled code read and write foreign memory."""
    if X.ndim != 2:
        return
    if X.format in {"coo", "lil"}:
        if not _within(X):
            raise InputError(DAMAGED)
        return
    if X.format not in {"csr", "csc", "bsr"}:
        return
    across = X.shape[1] if X.format == "csr" else X.shape[0] if X.format == "csc" else X.shape[1] // X.blocksize[1]
    pointers, indices = X.indptr, X.indices
    inside = not len(indices) or (indices.min() >= 0 and indices.max() < across)
    if not inside or pointers[0] != 0 or pointers[-1] > len(indices) or (np.diff(pointers) < 0).any():
        raise InputError(f"{DAMAGED}; check_format() of the array tells where.")


def _within(X: Any) -> bool:
    """Whether the places that a COO or LIL array names are in it."""
    if X.format == "lil":
        return all(0 <= j < X.shape[1] for row in X.rows for j in row)
    pairs = zip(X.coords, X.shape, strict=True)
    return all(not len(at) or (at.min() >= 0 and at.max() < size) for at, size in pairs)


def _refuse_text(X: Any) -> None:
    """Columns of strings, categories or dates are named before NumPy stumbles over them."""
    dtypes, columns = getattr(X, "dtypes", None), getattr(X, "columns", None)
    if columns is None or dtypes is None:
        if isinstance(X, np.ndarray) and X.dtype.kind in "US":
            raise InputError(f"X is an array of strings; expected numbers. {ENCODE}")
        return
    wrong = [name for name, dtype in zip(columns, dtypes, strict=True) if str(dtype).lower().startswith(NO_NUMBERS)]
    if wrong:
        raise InputError(f"X has columns that are not numbers: {named(wrong)}. {ENCODE}")


def as_numeric(X: Any) -> Any:
    """A table of objects with NaN for pandas' NA; an error where text or dates would be read as numbers."""
    _refuse_text(X)
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        return _frame_of_numbers(X)
    if isinstance(X, list | tuple):
        try:
            X = np.asarray(X, dtype=object if np.asarray(X).dtype.kind in "US" else None)
        except ValueError:
            return X  # scikit-learn says what is wrong
    if not isinstance(X, np.ndarray) or X.dtype != object:
        return X
    wrong = deceptive(X)
    if wrong is not None:
        what = "text" if isinstance(wrong, str | bytes) else "dates"
        raise InputError(f"X holds {what} where numbers are expected, such as {wrong!r:.40}. {ENCODE}")
    return _without_gaps(X)


def _frame_of_numbers(X: Any) -> Any:
    given = X
    for j, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        if str(dtype).lower() != "object":
            continue
        cells = np.asarray(given.iloc[:, j] if hasattr(given, "iloc") else given[name], dtype=object)
        if deceptive(cells) is not None:
            raise InputError(f"X has columns that are not numbers: {named([name])}. {ENCODE}")
        filled = _without_gaps(cells)
        if filled is not cells and hasattr(X, "iloc"):
            X = X.copy(deep=False)
            X[name] = filled
    return X


def deceptive(cells: AnyArray) -> Any:
    """The first of these objects that is text or one of NumPy's dates, which float() would take; None if none is."""
    if cells.dtype.kind not in "OUS":
        return None
    flat = cells.ravel().tolist()
    kinds = {kind for kind in set(map(type, flat)) if issubclass(kind, DECEPTIVE)}
    return next((cell for cell in flat if type(cell) in kinds), None) if kinds else None


def _without_gaps(cells: AnyArray) -> AnyArray:
    """Objects with NaN in the place of pandas' NA and NaT, themselves if there is none."""
    flat = cells.ravel().tolist()
    if not any(kind.__name__ in {"NAType", "NaTType"} for kind in set(map(type, flat))):
        return cells
    filled = np.empty(len(flat), dtype=object)
    filled[:] = [np.nan if _gone(cell) else cell for cell in flat]
    return filled.reshape(cells.shape)


def note_plain(estimator: Any, X: Any, *labels: Any, reset: bool) -> bool:
    """Whether scikit-learn would hand back an array of numbers, and one of labels, as they are after a long look.

    If so the number of columns is noted and names of an earlier fit are forgotten, as it would do.
    """
    if not all(type(array) is np.ndarray for array in (X, *labels)):
        return False
    plain = X.ndim == 2 and X.size > 0 and X.dtype in (np.float64, np.float32)
    beside = all(y.dtype.kind in "biu" and y.shape == X.shape[:1] for y in labels)
    named_before = hasattr(estimator, "feature_names_in_")
    as_before = not named_before and getattr(estimator, "n_features_in_", 0) == X.shape[-1]
    if not (plain and beside and (reset or as_before)):
        return False
    if reset:
        estimator.n_features_in_ = X.shape[1]
    if named_before:
        del estimator.feature_names_in_
    return True


# --- labels and targets -----------------------------------------------------------------------------------------


def as_vector(y: Any) -> Any:
    """Labels or targets as they are, masked ones as None, a list with text and numbers as it was; or an error."""
    if y is None:
        return None
    if issparse(y):
        raise InputError("y is sparse; expected one entry for every row. Use y.toarray().ravel().")
    if isinstance(y, NO_TABLE) or getattr(y, "ndim", 1) == 0:
        raise InputError(
            f"y should be a 1d array or a list, one entry for every row; got {_what(y)}, an array of shape () to NumPy."
        )
    if isinstance(y, np.ma.MaskedArray):
        return _unmasked(y) if np.ma.is_masked(y) else np.array(y.data)
    kind = getattr(getattr(y, "dtype", None), "kind", "")
    if kind == "c":
        raise InputError("Complex data not supported: y must hold labels, or real numbers for a regression.")
    if kind == "V":
        raise InputError(f"y is a structured array ({y.dtype}); expected one label or number for every row.")
    if isinstance(y, list | tuple):
        return _from_list(y)
    return _own_type(y) if kind == "O" else y


def _own_type(y: Any) -> Any:
    """Numbers and booleans among objects as an array of their type; anything else as it is."""
    entries = np.asarray(y).tolist()
    if not entries or not all(issubclass(kind, NUMBERS) for kind in set(map(type, entries))):
        return y
    array = np.array(entries)
    return y if array.dtype.kind == "f" and np.isnan(array).any() else array  # beside a gap whole numbers stay whole


def _from_list(y: Any) -> AnyArray:
    try:
        array = np.asarray(y)
    except ValueError as error:
        raise InputError("y mixes entries of different lengths; expected one label or number for every row.") from error
    if array.dtype.kind in "US" and not all(isinstance(label, str | bytes) for label in y):
        return np.asarray(y, dtype=object)
    return array


def as_numbers(y: Any) -> Any:
    """Targets of a regression as float64, NaN where missing; or an error that says so of y, not of X."""
    y = as_vector(y)
    if y is None:
        return None
    given = y.to_numpy(dtype=object) if hasattr(y, "isna") and hasattr(y, "to_numpy") else np.asarray(y)
    if given.dtype.kind in KINDS:
        raise InputError(f"y holds {KINDS[given.dtype.kind]} ({given.dtype}); turn them into numbers, e.g. days.")
    wrong = deceptive(given)
    if wrong is not None:
        raise InputError(
            f"y holds text, or what is no number, such as {wrong!r:.40}. Targets of a regression are numbers; for "
            "labels use a classifier."
        )
    if given.dtype == object:
        given = np.where([_gone(entry) for entry in given.ravel()], np.nan, given.ravel()).reshape(given.shape)
    try:
        numbers = np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"y holds text, or what is no number, where numbers are expected ({error}). Targets of a regression are "
            "numbers; for labels use a classifier."
        ) from error
    missing = np.flatnonzero(np.isnan(numbers).any(axis=tuple(range(1, numbers.ndim))))
    if missing.size:
        raise InputError(f"y contains NaN in {missing.size} rows, the first in row {missing[0]}; drop those rows.")
    return numbers


def _gone(entry: Any) -> bool:
    return entry is None or type(entry).__name__ in {"NAType", "NaTType"}


def refuse_weight_types(sample_weight: Any) -> None:
    """Dates and text are no weights, although NumPy would read some as numbers; nor is what is hidden by a mask."""
    if issparse(sample_weight) or isinstance(sample_weight, Mapping | Set | Iterator):
        raise InputError(f"sample_weight must hold one number for every row; got {type(sample_weight).__name__}.")
    if isinstance(sample_weight, np.ma.MaskedArray) and np.ma.is_masked(sample_weight):
        raise InputError("sample_weight has masked entries; give every row a weight, 0 for those that do not count.")
    weight = np.asarray(sample_weight)
    if weight.dtype.kind in MISREAD:
        raise InputError(f"sample_weight must hold one number for every row; got {weight.dtype}.")
    if deceptive(weight) is not None:
        raise InputError(f"sample_weight must hold one number for every row; got {deceptive(weight)!r:.40}.")
