"""Columns of Parquet files as columns of a design: numbers as they are, categories as one indicator for each level.

The columns of a block are copied once, one after the other, into a table that fits the cache and whose columns are
contiguous. A copy, since each column of a batch lies somewhere else; read in place, from memory, they are no faster.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import types

from credibly.data.parquet_files import shortened
from credibly.data.source import Code
from credibly.errors import InputError, TableError
from credibly.numerics.arrays import AnyArray, Array, Codes

MOST_LEVELS = 1000  # of one category: each is a column of the design
MISSING, UNSEEN, REFERENCE = -1, -2, -3  # codes of cells that are no level with a column


class Feature(NamedTuple):
    """A column of the files and its place in the design.

    Attributes
    ----------
    name : str
    start : int
        Its first column of the design.
    levels : tuple of str, or None
        The levels of a category; None for numbers.
    reference : str, or None
        A level without a column: all indicators are zero there.
    """

    name: str
    start: int
    levels: tuple[str, ...] | None
    reference: str | None = None

    @property
    def stop(self) -> int:
        """Past its last column of the design."""
        return self.start + (1 if self.levels is None else len(self.levels))

    @property
    def names(self) -> list[str]:
        """Its columns of the design."""
        return [self.name] if self.levels is None else [f"{self.name}={level}" for level in self.levels]


def features_of(
    names: Iterable[str], levels: Mapping[str, tuple[str, ...]], references: Mapping[str, str]
) -> tuple[Feature, ...]:
    """Columns of the files side by side."""
    placed: list[Feature] = []
    for name in names:
        placed.append(Feature(name, placed[-1].stop if placed else 0, levels.get(name), references.get(name)))
    made = [name for feature in placed for name in feature.names]
    if len(set(made)) < len(made):
        twice = sorted({name for name in made if made.count(name) > 1})
        raise TableError(f"Two columns of the model would be called {shortened(twice)}; rename one of the files'.")
    return tuple(placed)


# --- kinds --------------------------------------------------------------------------------------------------------


def is_text(kind: Any) -> bool:
    """Whether cells are text, or come with a dictionary."""
    return bool(
        types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    )


def is_number(kind: Any) -> bool:
    """Whether cells can be numbers as they are."""
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind))


def is_nested(kind: Any) -> bool:
    """Whether cells are no single values."""
    return bool(types.is_nested(kind) or types.is_null(kind))


def check_kinds(schema: Any, features: Sequence[str], categories: Sequence[str]) -> None:
    """Every feature is a number, or a category."""
    for name in features:
        kind = schema.field(name).type
        if name in categories:
            if is_nested(kind):
                raise TableError(f"Column {name!r} ({kind}) cannot be a category: its cells are no single values.")
        elif is_text(kind):
            raise TableError(
                f"Column {name!r} holds text ({kind}), and is not among the categories. Name it there, use "
                'categories="auto", or leave it out of the features.'
            )
        elif not is_number(kind):
            raise TableError(
                f"Column {name!r} ({kind}) is neither a number nor a category. Turn it into numbers (dates: days since "
                f"a start, year, month), or leave it out of the features; if it is the target, say so: target={name!r}."
            )


# --- cells --------------------------------------------------------------------------------------------------------


def numbers(cells: Any) -> AnyArray:
    """Cells as numbers of any kind, without a copy where that can be; missing ones are NaN."""
    if types.is_decimal(cells.type):
        cells = cells.cast(pa.float64())
    if cells.null_count and types.is_boolean(cells.type):
        cells = cells.cast(pa.uint8())
    return np.asarray(cells.to_numpy(zero_copy_only=False))


def with_dictionary(cells: Any) -> Any:
    """Cells as codes with a dictionary."""
    return cells if types.is_dictionary(cells.type) else cells.dictionary_encode()


def places(cells: Any) -> Codes:
    """Where in their dictionary cells are; MISSING for nulls."""
    indices = cells.indices
    held = indices.cast(pa.int64()).fill_null(MISSING) if indices.null_count else indices
    return np.asarray(held.to_numpy(zero_copy_only=False), dtype=np.intp)


def is_missing(value: object) -> bool:
    """Whether a cell holds nothing."""
    return value is None or (isinstance(value, float) and isnan(value))


def cell_text(value: object) -> str:
    """A cell as text: whole numbers without a decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class Coded(NamedTuple):
    """A category of a batch: the number of its level for every row."""

    codes: Codes  # (b,), MISSING or UNSEEN where it has none
    unseen: frozenset[str]


def coded(cells: Any, levels: Mapping[str, int]) -> Coded:
    """Cells by the numbers of their levels; each entry of the dictionary is looked up once."""
    cells = with_dictionary(cells)
    entries = [None if is_missing(value) else cell_text(value) for value in cells.dictionary.to_pylist()]
    known = [MISSING if text is None else levels.get(text, UNSEEN) for text in entries]
    codes = np.array([*known, MISSING], dtype=np.intp)[places(cells)]  # MISSING is also the last place
    unseen: frozenset[str] = frozenset()
    if UNSEEN in known and (codes == UNSEEN).any():
        used = np.unique(places(cells)[codes == UNSEEN])
        unseen = frozenset(str(entries[at]) for at in used)
    return Coded(codes, unseen)


def labels(cells: Any, code: Code) -> AnyArray:
    """`code` of the labels; where labels repeat as text does, each different one is handed to it once."""
    if not is_text(cells.type):
        return np.asarray(code(numbers(cells) if is_number(cells.type) else cells.to_numpy(zero_copy_only=False)))
    cells = with_dictionary(cells)
    at = places(cells)
    entries = np.array([*cells.dictionary.to_pylist(), None], dtype=object)  # the last: missing
    (used,) = np.nonzero(np.bincount(at % len(entries), minlength=len(entries)))
    of_used = np.asarray(code(entries[used]))
    of_all = np.empty(len(entries), of_used.dtype)
    of_all[used] = of_used
    return of_all[at]


# --- levels -------------------------------------------------------------------------------------------------------


Found = dict[str, set[object]]  # the values that occur in each of some columns


def found_levels(names: Sequence[str], batches: Iterable[Any], where: str) -> Found:
    """The levels that occur in some rows."""
    found: Found = {name: set() for name in names}
    for batch in batches:
        for name in names:
            values = batch.column(batch.schema.get_field_index(name)).unique()
            if types.is_dictionary(values.type):
                values = values.dictionary_decode()
            found[name].update(value for value in values.to_pylist() if not is_missing(value))
            _check_few(name, found[name], where)
    return found


def merged_levels(a: Found, b: Found, where: str) -> Found:
    """The levels that occur in either part."""
    for name, more in b.items():
        a[name] |= more
        _check_few(name, a[name], where)
    return a


def _check_few(name: str, found: set[object], where: str) -> None:
    if len(found) > MOST_LEVELS:
        raise TableError(
            f"Column {name!r} has more than {MOST_LEVELS} levels (up to {where}), each of which would be a column of "
            "the model. Leave it out of the features, group its levels, or turn it into numbers."
        )


def ordered_levels(found: Found) -> dict[str, tuple[str, ...]]:
    """Levels as text, in order: numbers by size, text by the alphabet."""
    return {name: _ordered(name, values) for name, values in found.items()}


def _ordered(name: str, found: set[object]) -> tuple[str, ...]:
    if not found:
        raise TableError(f"Column {name!r} is a category without levels: all its cells are missing. Leave it out.")
    by_size = all(isinstance(value, int | float) for value in found)
    ordered: list[Any] = sorted(found, key=None if by_size else str)
    return tuple(dict.fromkeys(map(cell_text, ordered)))


def levels_in(names: Sequence[str], features: Sequence[str], categories: Sequence[str]) -> dict[str, list[str]]:
    """Which columns of the files, with which levels, a model's columns `names` are made of, in their order.

    A column of whole numbers is a category if the model's columns say so.

    Returns
    -------
    dict
        For each column of the files its levels; empty for numbers.
    """
    numeric = set(features) - set(categories)
    found: dict[str, list[str]] = {}
    for name in names:
        if name in numeric:
            found[name] = []
            continue
        column = max((it for it in features if name.startswith(f"{it}=")), key=len, default=None)
        if column is None and name in features:
            raise InputError(
                f"Column {name!r} held numbers when the model was fitted, and is a category in these files: text, or "
                "named by categories=. Write it as numbers."
            )
        if column is None:
            raise InputError(
                f"The files have no column {name!r}, nor a category that this could be a level of. They have "
                f"{shortened(features)}."
            )
        found.setdefault(column, []).append(name[len(column) + 1 :])
    return found


# --- blocks -------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """The features of some decoded rows: an array of numbers, or a code for every row, for each."""

    features: tuple[Feature, ...]
    cells: tuple[AnyArray, ...]
    n_rows: int
    alike: Any = None  # the columns as pyarrow has them, where all are float64 without gaps

    @property
    def n_columns(self) -> int:
        """Columns of the design."""
        return self.features[-1].stop

    def rows(self, start: int, stop: int) -> Array:
        """Some rows of the design, its columns contiguous: they come as columns, and kernels run down columns."""
        if self.alike is not None:  # the same copy in one call, in memory that pyarrow keeps at hand
            return np.asarray(self.alike.slice(start, stop - start).to_tensor(row_major=False).to_numpy())
        out = np.empty((self.n_columns, stop - start))
        for feature, cells in zip(self.features, self.cells, strict=True):
            if feature.levels is None:
                out[feature.start] = cells[start:stop]
            else:
                _indicate(out[feature.start : feature.stop], cells[start:stop])
        return out.T


def _indicate(indicators: Array, codes: Codes) -> None:
    """A one where the level is, NaN everywhere where it is missing, zeros where it was never seen."""
    indicators[:] = 0.0
    (known,) = np.nonzero(codes >= 0)
    indicators[codes[known], known] = 1.0
    indicators[:, codes == MISSING] = np.nan


def batch_of(decoded: Any, features: tuple[Feature, ...]) -> tuple[Batch, dict[str, frozenset[str]]]:
    """Decoded columns, ready to be cut into blocks, and for each category the levels that are not among its own."""
    cells: list[AnyArray] = []
    unseen: dict[str, frozenset[str]] = {}
    for feature in features:
        column = decoded.column(decoded.schema.get_field_index(feature.name))
        if feature.levels is None:
            cells.append(numbers(column))
            continue
        known = {level: k for k, level in enumerate(feature.levels)}
        if feature.reference is not None:
            known[feature.reference] = REFERENCE
        found = coded(column, known)
        # Beside a reference zeros would mean that one: what was never seen is missing then.
        cells.append(np.where(found.codes == UNSEEN, MISSING, found.codes) if feature.reference else found.codes)
        if found.unseen:
            unseen[feature.name] = found.unseen
    return Batch(features, tuple(cells), decoded.num_rows, _alike(decoded, features)), unseen


def _alike(decoded: Any, features: tuple[Feature, ...]) -> Any:
    """The columns of the features, if they are the design: float64 throughout, and no cell is missing."""
    chosen = decoded.select([feature.name for feature in features])
    plain = all(types.is_float64(column.type) and not column.null_count for column in chosen.columns)
    return chosen if plain and all(feature.levels is None for feature in features) else None
