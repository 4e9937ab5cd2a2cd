"""Columns of Arrow batches as columns of a design: numbers as they are, categories as one indicator for each level."""

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import types

from credibly.data.rows import Code
from credibly.errors import InputError, TableError
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.wording import shortened

MOST_LEVELS = 1000  # of one category: each is a column of the design
NESTED = "its cells are lists or structs, or it has no type"  # why a column is refused
MISSING, UNSEEN, REFERENCE = -1, -2, -3  # codes of cells that are no level with a column

Levels = Mapping[str, tuple[str, ...]]  # of every category
LevelSets = dict[str, set[object]]  # the values that occur in each of some columns


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


def features_of(names: Iterable[str], levels: Levels, references: Mapping[str, str]) -> tuple[Feature, ...]:
    """Columns of the files side by side."""
    placed: list[Feature] = []
    for name in names:
        placed.append(Feature(name, placed[-1].stop if placed else 0, levels.get(name), references.get(name)))
    made = [name for feature in placed for name in feature.names]
    if len(set(made)) < len(made):
        twice = sorted({name for name in made if made.count(name) > 1})
        raise TableError(
            f"Two columns of the model would be called {shortened(twice, show=repr)}; rename one of the files'."
        )
    return tuple(placed)


# --- kinds of columns ---------------------------------------------------------------------------------------------


def is_text(kind: Any) -> bool:
    """True for cells that are text, or come with a dictionary."""
    text = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
    return any(test(kind) for test in text)


def is_number(kind: Any) -> bool:
    """True for cells that can be numbers as they are."""
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean))


def is_nested(kind: Any) -> bool:
    """True for cells that are lists or structs, or have no type."""
    return bool(types.is_nested(kind) or types.is_null(kind))


def check_kinds(schema: Any, features: Sequence[str], categories: Sequence[str]) -> None:
    """Refuse a feature that is neither a number nor a category."""
    for name in features:
        kind = schema.field(name).type
        if name in categories:
            if is_nested(kind):
                raise TableError(f"Column {name!r} ({kind}) cannot be a category: {NESTED}.")
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


def labels(cells: Any, code: Code) -> AnyArray:
    """`code` of the labels; of text, each different label is handed to it once."""
    if not is_text(cells.type):
        return np.asarray(code(numbers(cells) if is_number(cells.type) else cells.to_numpy(zero_copy_only=False)))
    cells = _with_dictionary(cells)
    at = _places(cells)
    entries = np.array([*cells.dictionary.to_pylist(), None], dtype=object)  # the last: missing
    (used,) = np.nonzero(np.bincount(at % len(entries), minlength=len(entries)))
    of_used = np.asarray(code(entries[used]))
    of_all = np.empty(len(entries), of_used.dtype)
    of_all[used] = of_used
    return of_all[at]


def _with_dictionary(cells: Any) -> Any:
    return cells if types.is_dictionary(cells.type) else cells.dictionary_encode()


def _places(cells: Any) -> Codes:
    """Places of the cells in their dictionary; MISSING for nulls."""
    indices = cells.indices
    held = indices.cast(pa.int64()).fill_null(MISSING) if indices.null_count else indices
    return np.asarray(held.to_numpy(zero_copy_only=False), dtype=np.intp)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _text(value: object) -> str:
    """A cell as text: whole numbers without a decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


# --- the design ---------------------------------------------------------------------------------------------------


class Encoded(NamedTuple):
    """The features of some decoded rows: an array of numbers, or a level's code for every row, for each."""

    features: tuple[Feature, ...]
    cells: tuple[AnyArray, ...]
    unseen: dict[str, frozenset[str]]  # levels that are not among those of their category

    def rows(self, cut: slice) -> Array:
        """Some rows of the design, its columns contiguous: they come as columns."""
        width = self.features[-1].stop if self.features else 0
        out = np.empty((width, cut.stop - cut.start))
        for feature, cells in zip(self.features, self.cells, strict=True):
            if feature.levels is None:
                out[feature.start] = cells[cut]
            else:
                _indicate(out[feature.start : feature.stop], cells[cut])
        return out.T


def encode(batch: Any, features: tuple[Feature, ...]) -> Encoded:
    """The features of a decoded batch."""
    cells: list[AnyArray] = []
    unseen: dict[str, frozenset[str]] = {}
    for feature in features:
        column = batch.column(feature.name)
        if feature.levels is None:
            cells.append(numbers(column))
            continue
        codes, unknown = _codes(column, feature)
        cells.append(codes)
        if unknown:
            unseen[feature.name] = unknown
    return Encoded(features, tuple(cells), unseen)


def _codes(cells: Any, feature: Feature) -> tuple[Codes, frozenset[str]]:
    """Cells by the numbers of their levels; each entry of the dictionary is looked up once."""
    cells, levels = _with_dictionary(cells), {level: k for k, level in enumerate(feature.levels or ())}
    if feature.reference is not None:
        levels[feature.reference] = REFERENCE
    entries = [None if _is_missing(value) else _text(value) for value in cells.dictionary.to_pylist()]
    known = [MISSING if text is None else levels.get(text, UNSEEN) for text in entries]
    places = _places(cells)
    codes = np.array([*known, MISSING], dtype=np.intp)[places]  # MISSING is also the last place
    unknown = frozenset(str(entries[at]) for at in np.unique(places[codes == UNSEEN]))
    # Beside a reference zeros would mean that one: what was never seen is missing then.
    return np.where(codes == UNSEEN, MISSING, codes) if feature.reference else codes, unknown


def _indicate(indicators: Array, codes: Codes) -> None:
    """A one where the level is, NaN everywhere where it is missing, zeros where it was never seen."""
    indicators[:] = 0.0
    (known,) = np.nonzero(codes >= 0)
    indicators[codes[known], known] = 1.0
    indicators[:, codes == MISSING] = np.nan


# --- levels -------------------------------------------------------------------------------------------------------


def levels_of(batch: Any, names: Sequence[str]) -> LevelSets:
    """The values that occur in some columns of a batch."""
    levels: LevelSets = {}
    for name in names:
        values = batch.column(name).unique()
        if types.is_dictionary(values.type):
            values = values.dictionary_decode()
        levels[name] = {value for value in values.to_pylist() if not _is_missing(value)}
    return levels


def merge_levels(levels: LevelSets, more: LevelSets, where: str) -> None:
    """Add the values of some rows to those of others."""
    for name, values in more.items():
        levels[name] |= values
        if len(levels[name]) > MOST_LEVELS:
            raise TableError(
                f"Column {name!r} has more than {MOST_LEVELS} levels (up to {where}), each of which would be a column "
                "of the model. Leave it out of the features, group its levels, or turn it into numbers."
            )


def ordered_levels(levels: LevelSets) -> Levels:
    """Levels as text, in order: numbers by size, text by the alphabet."""
    return {name: _ordered(name, values) for name, values in levels.items()}


def _ordered(name: str, values: set[object]) -> tuple[str, ...]:
    if not values:
        raise TableError(f"Column {name!r} is a category without levels: all its cells are missing. Leave it out.")
    by_size = all(isinstance(value, int | float) for value in values)
    ordered: list[Any] = sorted(values, key=None if by_size else str)
    return tuple(dict.fromkeys(map(_text, ordered)))


def levels_in(names: Sequence[str], features: Sequence[str], categories: Sequence[str]) -> dict[str, list[str]]:
    """The columns of the files that a model's columns `names` are made of, in their order, and their levels.

    A column of whole numbers is a category if the model's columns say so.

    Returns
    -------
    dict
        For each column of the files its levels; empty for numbers.
    """
    numeric = set(features) - set(categories)
    levels: dict[str, list[str]] = {}
    for name in names:
        if name in numeric:
            levels[name] = []
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
                f"{shortened(features, show=repr)}."
            )
        levels.setdefault(column, []).append(name[len(column) + 1 :])
    return levels
