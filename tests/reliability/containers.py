"""Containers and layouts: the same numbers held in another way."""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

from reliability.cells import table
from reliability.inputs import FITS, SAME, Answer, Input, Refused, generative, missing

NAMES = ["a", "b", "c"]
NO_TABLE = "X must be a table"


def frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES)


def memory_mapped(X: np.ndarray) -> np.ndarray:
    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, dtype=float, mode="w+", shape=X.shape)
    mapped[:] = X
    return mapped


def read_only(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.flags.writeable = False
    return X


def unaligned(X: np.ndarray) -> np.ndarray:
    return np.frombuffer(b"?" + X.tobytes(), dtype=np.uint8)[1:].view(float).reshape(X.shape)


def masked(X: np.ndarray) -> np.ma.MaskedArray:
    return np.ma.array(X, mask=(np.arange(len(X)) == 3)[:, None] & (np.arange(3) == 1))


def same(name: str, says: str, make: Callable[[np.ndarray], Any]) -> Input:
    return Input(name, says, table(make), {"every": SAME})


def refused(name: str, says: str, make: Callable[[np.ndarray], Any], words: str) -> Input:
    return Input(name, says, table(make), {"every": Refused(words)})


ARRAYS = [
    same("Fortran order", "The layout changes no number.", np.asfortranarray),
    same("not contiguous", "…", lambda X: np.repeat(np.repeat(X, 2, 0), 2, 1)[::2, ::2]),
    same("negative strides", "…", lambda X: X[::-1, ::-1].copy()[::-1, ::-1]),
    same("read-only", "Nothing is written into what is given.", read_only),
    same("memory-mapped", "…", memory_mapped),
    same("foreign byte order", "…", lambda X: X.astype(X.dtype.newbyteorder())),
    same("not aligned", "…", unaligned),
    same("a list of lists", "…", lambda X: X.tolist()),
    same("a tuple of tuples", "…", lambda X: tuple(map(tuple, X.tolist()))),
    same("a list of arrays", "…", list),
    Input(
        "None in a list of lists",
        "A missing cell, as NaN.",
        table(
            lambda X: [[None if (i, j) == (3, 1) else v for j, v in enumerate(row)] for i, row in enumerate(X.tolist())]
        ),
        missing(),
    ),
    refused(
        "ragged lists",
        "Refused with the first row of another length.",
        lambda X: [row[: 2 + i % 2] for i, row in enumerate(X.tolist())],
        "rows of different lengths: row 0 has 2 cells, row 1 has 3",
    ),
    refused(
        "np.matrix", "Refused; NumPy discourages it.", lambda X: X.view(np.matrix), r"np\.matrix.*np\.asarray\(X\)"
    ),
    same("a masked array, nothing masked", "An array.", np.ma.array),
    Input(
        "objects, masked",
        "As a masked array.",
        table(lambda X: masked(X).astype(object)),
        missing(),
    ),
    Input("a masked array", "Masked cells are missing cells, as NaN.", table(masked), missing()),
    refused(
        "a generator",
        "Refused: what is expected is listed.",
        lambda X: (row for row in X),
        f"{NO_TABLE}.*got generator",
    ),
    refused("a dict", "…", lambda X: {"a": X[:, 0], "b": X[:, 1]}, f"{NO_TABLE}.*got dict"),
    refused(
        "the name of a file", "… and where a file is read.", lambda X: "data.csv", f"{NO_TABLE}.*'data.csv'.*read_csv"
    ),
    refused("None", "…", lambda X: None, f"{NO_TABLE}.*got None"),
    refused("a number", "…", lambda X: 3.0, f"{NO_TABLE}.*got float 3.0"),
]

FRAMES = [
    same("a DataFrame", "Columns are told by their names.", frame),
    same("any index", "The index of a frame is not looked at.", lambda X: frame(X).set_index(pd.Index(["r"] * len(X)))),
    same("whole numbers as column names", "No names are kept; columns are counted.", pd.DataFrame),
    same(
        "a MultiIndex of columns",
        "As whole numbers.",
        lambda X: pd.DataFrame(X, columns=pd.MultiIndex.from_product([["a"], [1, 2, 3]])),
    ),
    refused(
        "column names of several types",
        "Refused, as by scikit-learn, with the way out.",
        lambda X: pd.DataFrame(X, columns=["a", 1, 2.5]),
        r"string names.*\['float', 'int', 'str'\].*convert",
    ),
    refused(
        "duplicate column names",
        "Refused with the name.",
        lambda X: pd.DataFrame(X, columns=["a", "b", "a"]),
        r"(?s)unique column names.*'a' 2 times",
    ),
    refused(
        "a Series",
        "Refused with how to make it a table.",
        lambda X: pd.Series(X[:, 0]),
        "2-dimensional container.*Series",
    ),
    same("a polars frame", "As pandas.", lambda X: pl.DataFrame(X, schema=NAMES)),
    refused(
        "a polars LazyFrame",
        "Refused: it holds no rows yet.",
        lambda X: pl.DataFrame(X, schema=NAMES).lazy(),
        r"LazyFrame.*X\.collect\(\)",
    ),
    Input(
        "null in a polars frame",
        "A missing cell, as NaN.",
        table(lambda X: pl.DataFrame({"a": X[:, 0], "b": [None, *X[1:, 1].tolist()], "c": X[:, 2]})),
        missing("NaN in column 'b'.*drop or impute"),
    ),
]


# --- sparse -----------------------------------------------------------------------------------------------------


def half(X: np.ndarray) -> np.ndarray:
    """A table with many zeros."""
    return np.where(X > 0, X, 0.0)


def twice(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every entry as two halves, by rows."""
    n, d = X.shape
    return np.repeat(X.ravel() / 2, 2), np.repeat(np.tile(np.arange(d), n), 2), 2 * d * np.arange(n + 1)


def by_rows(X: np.ndarray, order: list[int]) -> sp.csr_array:
    """Every cell stored, zeros too, the columns of a row in this order."""
    n, d = X.shape
    return sp.csr_array((X[:, order].ravel(), np.tile(order, n), d * np.arange(n + 1)), shape=X.shape)


def long_indices(X: np.ndarray) -> sp.csr_array:
    rows = sp.csr_array(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    return rows


def damaged(X: np.ndarray) -> sp.csr_array:
    rows = sp.csr_array(X)
    rows.indices[0] = 99
    return rows


def damaged_pairs(X: np.ndarray) -> sp.coo_array:
    pairs = sp.coo_array(X)
    pairs.coords[0][0] = 99
    return pairs


def damaged_lists(X: np.ndarray) -> sp.lil_array:
    lists = sp.lil_array(X)
    lists.rows[0], lists.data[0] = [99], [1.0]
    return lists


def with_cell(X: np.ndarray, value: float) -> sp.csr_array:
    X = X.copy()
    X[3, 1] = value
    return sp.csr_array(X)


DENSE = table(half)
NO_SPARSE = Refused(r"sparse, which GaussianProcessClassifier does not take.*X\.toarray\(\)")


def sparse(name: str, says: str, make: Callable[[np.ndarray], Any], answers: dict[str, Answer] | None = None) -> Input:
    # Evidences are corrected by draws, which zeros that must stay zeros put into other coordinates: 1e-4 of a weight.
    decided = {"every": SAME, "gp": NO_SPARSE, "average": FITS} if answers is None else answers
    return Input(name, says, table(lambda X: make(half(X))), decided, plain=DENSE)


SPARSE = [
    sparse("CSR", "What dense rows give. Kernels look at every column: refused with what to use.", sp.csr_array),
    sparse("CSR matrix", "…", sp.csr_matrix),
    sparse("CSC", "…", sp.csc_array),
    sparse("COO", "…", sp.coo_array),
    sparse("DOK", "…", sp.dok_array),
    sparse("LIL", "…", sp.lil_array),
    sparse("zeros that are stored", "…", lambda X: by_rows(X, [0, 1, 2])),
    sparse("indices out of order", "…", lambda X: by_rows(X, [2, 0, 1])),
    sparse("duplicate entries, CSR", "They add up, as everywhere in SciPy.", lambda X: sp.csr_array(twice(X), X.shape)),
    sparse(
        "duplicate entries, COO",
        "…",
        lambda X: sp.coo_array((np.tile(X.ravel() / 2, 2), np.tile(np.indices(X.shape).reshape(2, -1), 2)), X.shape),
    ),
    sparse("indices of 64 bits", "…", long_indices),
    sparse(
        "NaN in a sparse table",
        "Refused by all: missing cells are taken in dense tables only.",
        lambda X: with_cell(X, np.nan),
        {
            "every": Refused("NaN in column 'x1'"),
            "gp": NO_SPARSE,
            **generative(Refused(r"sparse and has NaN in column 'x1'.*X\.toarray\(\)")),
        },
    ),
    sparse(
        "infinity in a sparse table",
        "Refused with the column.",
        lambda X: with_cell(X, np.inf),
        {"every": Refused(r"infinity \(inf\).*'x1'"), "gp": NO_SPARSE},
    ),
    sparse(
        "indices that point outside",
        "Refused as damaged, before compiled code follows them.",
        damaged,
        {"every": Refused("indices point outside.*damaged.*check_format")},
    ),
    sparse("… in COO", "…", damaged_pairs, {"every": Refused("indices point outside.*damaged.*Build it again")}),
    sparse("… in LIL", "…", damaged_lists, {"every": Refused("indices point outside.*damaged.*Build it again")}),
]
