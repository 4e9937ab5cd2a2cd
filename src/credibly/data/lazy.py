"""What can be told of a Dask collection without importing Dask: that it is one, and its columns."""

from typing import Any

from credibly.errors import InputError

MISREAD = "USMmcV"  # kinds of NumPy's types, some of which it would read as numbers
COLLECTIONS = ("dask.array", "dask.dataframe", "dask_expr")


def is_dask(table: Any) -> bool:
    """Whether this is a Dask array, data frame or series; Dask is not imported for the answer.

    Examples
    --------
    >>> import numpy as np
    >>> is_dask(np.zeros((3, 2)))
    False
    """
    return type(table).__module__.startswith(COLLECTIONS) and hasattr(table, "__dask_graph__")


def column_names(X: Any) -> list[str]:
    """Names of the columns, x0 … for an array; columns that are not numbers are refused by name."""
    if X.ndim != 2:
        raise InputError(f"X must be a table of rows and columns; got a Dask collection of {X.ndim} dimension(s).")
    if not hasattr(X, "columns"):
        refuse_no_numbers(X.dtype, "X")
        return [f"x{j}" for j in range(X.shape[1])]
    text = [str(name) for name, dtype in zip(X.columns, X.dtypes, strict=True) if dtype.kind not in "biuf"]
    if text:
        raise InputError(
            f"X has columns that are not numbers: {', '.join(map(repr, text))}. Encode text and categories first, e.g. "
            "with categorize() and dask.dataframe.get_dummies."
        )
    names = [str(name) for name in X.columns]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise InputError(f"X has the column {twice!r} more than once; give every column a name of its own.")
    return names


def refuse_no_numbers(dtype: Any, where: str) -> None:
    """Dates, text, objects and complex numbers are not read as numbers in secret."""
    if dtype.kind not in "biuf":
        raise InputError(
            f"{where} holds {dtype}; expected numbers. Dates are numbers once they are counted, in days since a start; "
            "objects that are numbers become such by X.astype(float)."
        )
