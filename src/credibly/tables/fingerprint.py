"""What a table holds, in one number: to see whether a model was made from these very cells."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credibly.numerics.arrays import AnyArray

if TYPE_CHECKING:
    import pandas as pd

EXACT = 2**53  # whole numbers up to here are the same as float64


@dataclass(frozen=True)
class Fingerprint:
    """Rows, columns and the SHA-256 of a table's content: names, kinds and cells, in order; not the bytes of its file.

    CSV and Parquet files of the same table have the same fingerprint, and so have columns of other types with the same
    content (int8 and float64, categories and text). The index of a frame does not count.

    Attributes
    ----------
    rows, columns : int
    sha256 : str
        64 hexadecimal digits.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [31, 28], "sex": ["m", "f"]})
    >>> Fingerprint.of(frame) == Fingerprint.of(frame.astype({"age": float, "sex": "category"}))
    True
    >>> Fingerprint.of(frame) == Fingerprint.of(frame[::-1])
    False
    """

    rows: int
    columns: int
    sha256: str

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Fingerprint:
        """The fingerprint of a table.

        Parameters
        ----------
        frame : DataFrame
        """
        digest = hashlib.sha256(_numbers([frame.shape[0], frame.shape[1]]))
        for place, name in enumerate(frame.columns):
            _add_texts(digest, [str(name)])
            _add_column(digest, frame.iloc[:, place])
        return cls(frame.shape[0], frame.shape[1], digest.hexdigest())


def _add_column(digest: Any, values: pd.Series) -> None:
    import pandas as pd

    dtype = values.dtype
    cells = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    kind = getattr(cells, "kind", "O")
    if kind in "iuf" or values.isna().all():
        _add_numbers(digest, values if dtype is cells else values.astype(float))
    elif kind in "mM" and dtype is cells:
        _add_dates(digest, values)
    else:
        _add_levels(digest, values)


def _add_dates(digest: Any, values: pd.Series) -> None:
    """Microseconds, of dates since 1970 in UTC."""
    span = values.dtype.kind == "m"
    digest.update(b"span" if span else b"date")
    cells = values.to_numpy(dtype="timedelta64[us]" if span else "datetime64[us]")
    digest.update(np.ascontiguousarray(cells).view("<i8").data)


def _add_numbers(digest: Any, values: pd.Series) -> None:
    """Numbers as float64, with one NaN and one zero; whole numbers that float64 does not tell apart as they are."""
    if values.dtype.kind in "iu" and not values.isna().any() and _beyond(values.to_numpy(), EXACT):
        digest.update(b"whole")
        _add_texts(digest, map(str, values.tolist()))
        return
    digest.update(b"number")
    cells = values.to_numpy(dtype="<f8", na_value=np.nan) + 0.0  # a new array; -0 becomes 0
    cells[np.isnan(cells)] = np.nan
    digest.update(cells.data)


def _beyond(cells: AnyArray, limit: int) -> bool:
    return len(cells) > 0 and bool(cells.max() > limit or cells.min() < -limit)


def _add_levels(digest: Any, values: pd.Series) -> None:
    """Text, flags and objects by their levels in the order of appearance, whatever order the levels have."""
    import pandas as pd

    codes, levels = pd.factorize(values)
    digest.update(b"levels")
    digest.update(np.ascontiguousarray(codes, dtype="<i8").data)
    _add_texts(digest, (f"{_type(level)}:{level}" for level in list(levels)))


def _type(level: object) -> str:
    if isinstance(level, bool | np.bool_):
        return "flag"
    return "text" if isinstance(level, str) else type(level).__name__


def _add_texts(digest: Any, texts: Iterable[str]) -> None:
    """Texts with their lengths, so that ("ab", "c") is not ("a", "bc")."""
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    digest.update(_numbers([len(encoded), *map(len, encoded)]))
    digest.update(b"".join(encoded))


def _numbers(values: list[int]) -> bytes:
    return np.asarray(values, dtype="<i8").tobytes()
