"""Whether a table is a Dask collection, told without importing Dask."""

from typing import Any

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
