"""Frozen distributions of SciPy by name and parameters, and sparse rows by their three arrays."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import stats
from scipy.sparse import csr_array

from credibly.errors import ModelFileError
from credibly.persistence.refusals import Unsavable

Down = Callable[[str, Any], Any]

FROZEN: type[Any] = type(stats.norm())
CSR: type[Any] = csr_array


@cache
def _distributions() -> dict[str, Any]:
    """SciPy's own continuous distributions; a name in a file can mean nothing else."""
    found: list[Any] = [getattr(stats, name) for name in dir(stats)]
    return {it.name: it for it in found if isinstance(it, stats.rv_continuous)}


def encode_distribution(value: Any, down: Down) -> Any:
    """Name, positional and named parameters, all of them numbers."""
    own: Any = _distributions().get(value.dist.name)
    if type(own) is not type(value.dist):
        raise Unsavable(f"the distribution {value.dist.name!r} is not one of scipy.stats")
    numbers = [*value.args, *value.kwds.values()]
    if not all(_is_number(it) for it in numbers):
        raise Unsavable(f"the parameters of {value.dist.name} are not all single numbers")
    return [value.dist.name, down(".args", list(value.args)), down(".kwds", dict(value.kwds))]


def decode_distribution(payload: Any, down: Down) -> Any:
    """The distribution, frozen again."""
    name, encoded_args, encoded_kwds = payload
    args, kwds = down(".args", encoded_args), down(".kwds", encoded_kwds)
    if name not in _distributions():
        raise ModelFileError(f"scipy.stats has no distribution {name!r:.40}")
    own = _distributions()[name]
    known = {*(own.shapes.split(", ") if own.shapes else ()), "loc", "scale"}
    if not (isinstance(args, list) and len(args) <= len(known) and set(kwds) <= known):
        raise ModelFileError(f"the distribution {name} has not the parameters that are given")
    if not all(_is_number(it) for it in [*args, *kwds.values()]):
        raise ModelFileError(f"the parameters of the distribution {name} are not all numbers")
    return own(*args, **kwds)


def _is_number(value: Any) -> bool:
    single = isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf"
    return single or (isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool))


def encode_csr(value: Any, down: Down) -> Any:
    """Sparse rows: shape, numbers, columns, ends of rows."""
    return [
        list(value.shape),
        down(".data", value.data),
        down(".indices", value.indices),
        down(".indptr", value.indptr),
    ]


def decode_csr(payload: Any, down: Down) -> Any:
    """The rows, once it is certain that no index points outside: SciPy's compiled loops do not look."""
    (n_rows, n_columns), *encoded = payload
    data, indices, indptr = (down(f"[{i}]", part) for i, part in enumerate(encoded))
    if not all(isinstance(it, np.ndarray) and it.ndim == 1 for it in (data, indices, indptr)):
        raise ModelFileError("sparse rows are not made of three arrays")
    if indices.dtype.kind != "i" or indptr.dtype != indices.dtype or data.dtype.kind not in "biufc":
        raise ModelFileError("sparse rows are of types that they cannot have")
    fits = len(indptr) == n_rows + 1 and len(indices) == len(data) and indptr[0] == 0 and indptr[-1] == len(data)
    if not fits or (np.diff(indptr) < 0).any() or (indices < 0).any() or (indices >= n_columns).any():
        raise ModelFileError("sparse rows point outside themselves")
    return csr_array((data, indices, indptr), shape=(n_rows, n_columns))
