"""Which columns of Parquet files are what: features, target, weights, offsets; and decoded rows as blocks."""

import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import numpy as np

from credibly.data import parquet_columns as columns
from credibly.data.ahead import Crew
from credibly.data.parquet_columns import Feature
from credibly.data.parquet_files import (
    ROW_NAMES,
    AnyPaths,
    Files,
    Piece,
    check_columns,
    check_nothing_left_out,
    shortened,
)
from credibly.data.progress import RowProgress
from credibly.data.source import Block, Change, Code, Start, block_cuts, changed, check_beside
from credibly.data.threads import default_threads, single_threaded_blas
from credibly.errors import DataWarning, InputError, TableError
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.caching import cached_property

BATCH_NUMBERS = 12_000_000  # numbers that each thread decodes at a time: 96 megabytes; fewer cost pyarrow more time

Categories = str | Sequence[str] | None
Result = TypeVar("Result")


class Roles(NamedTuple):
    """Columns that are no features."""

    target: str | None
    weight: str | None
    offset: str | None

    @property
    def named(self) -> list[str]:
        """Those that there are."""
        return [name for name in self if name is not None]


class Reading(NamedTuple):
    """How decoded rows are handed out."""

    codes: tuple[Code, ...] = ()
    changes: tuple[Change, ...] = ()
    block_rows: int | None = None

    def code(self, y: AnyArray) -> AnyArray:
        """All codes, one after the other."""
        for code in self.codes:
            y = code(y)
        return y


class Unseen:
    """Levels that are not those of the table: found on threads, told once, by the thread that asked for the pass."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, frozenset[str]] = {}
        self._told: set[str] = set()

    def add(self, found: Mapping[str, frozenset[str]]) -> None:
        """Take up what one batch has."""
        with self._lock:
            self._found |= {name: self._found.get(name, frozenset()) | levels for name, levels in found.items()}

    def tell(self, references: Mapping[str, str]) -> None:
        """Warn of the columns that have not been told."""
        new = [name for name in self._found if name not in self._told]
        self._told.update(new)
        for name in new:
            missing = "such cells count as missing"
            zeros = "no level's effect is added there, and intervals do not know the new one's"
            warnings.warn(
                f"Column {name!r} has levels that were not in the training table: "
                f"{shortened(sorted(self._found[name]))}; {missing if name in references else zeros}.",
                DataWarning,
                stacklevel=2,
            )


@dataclass(frozen=True)
class ParquetTable:
    """Files, and what their columns are for.

    Parameters
    ----------
    files : Files
    roles : Roles
    columns : tuple of str
        Features, as the files name them.
    categories : tuple of str
        Those of them that are one-hot.
    batch_rows : int
        Rows that are decoded at a time.
    progress : RowProgress
    levels : mapping, or None
        Levels of the categories; None: those that occur.
    unseen : Unseen
        Levels beyond those.
    references : mapping
        Levels without a column, for some categories.
    """

    files: Files
    roles: Roles
    columns: tuple[str, ...]
    categories: tuple[str, ...]
    batch_rows: int
    progress: RowProgress
    levels: Mapping[str, tuple[str, ...]] | None = None
    unseen: Unseen = field(default_factory=Unseen)
    references: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Features with their places in the design; the first to ask may have to wait for a pass over categories."""
        levels = self._occurring() if self.levels is None else self.levels
        return columns.features_of(self.columns, levels, self.references)

    @cached_property
    def pieces(self) -> list[Piece]:
        """What is decoded together."""
        return self.files.pieces(self.batch_rows)

    @property
    def names(self) -> list[str]:
        """Columns of the design."""
        return [name for feature in self.features for name in feature.names]

    @property
    def fingerprint(self) -> str:
        """What tells these rows from others: files with their sizes and times, and the columns."""
        files = [(str(path.resolve()), *state) for path, state in zip(self.files.paths, self.files.states, strict=True)]
        text = repr((files, tuple(self.roles), self.columns, self.categories, self.levels, self.references))
        return f"{len(files)} files, {self.files.n_rows} rows, {sha256(text.encode()).hexdigest()}"

    def referenced(self) -> "ParquetTable":
        """The same rows without a column for the first level of every category."""
        levels = {feature.name: feature.levels for feature in self.features if feature.levels is not None}
        rest = {name: of[1:] for name, of in levels.items()}
        return replace(self, levels=rest, references={name: of[0] for name, of in levels.items()})

    def aligned(self, names: Sequence[str], references: Mapping[str, str]) -> "ParquetTable":
        """The same rows with the columns of a model that was fitted before."""
        found = columns.levels_in(names, self.columns, self.categories)
        levels = {name: tuple(of) for name, of in found.items() if of}
        table = replace(
            self,
            columns=tuple(found),
            categories=tuple(levels),
            levels=levels,
            unseen=Unseen(),
            references={name: level for name, level in references.items() if name in levels},
        )
        if table.names != list(names):
            raise InputError(f"The levels of a category must stand together; got the columns {shortened(names)}.")
        return table

    def walked(
        self, work: Callable[[Piece, Crew], Result], pieces: Sequence[Piece], threads: int | None
    ) -> Generator[Result, None, None]:
        """Apply `work` to pieces, on threads; results in the order of the pieces."""
        crew = Crew(threads or default_threads())
        total = sum(piece.n_rows for piece in pieces)
        with (
            single_threaded_blas(),
            self.progress.one_pass(total) as advance,
            closing(crew.in_order(lambda piece: work(piece, crew), pieces)) as results,
        ):
            for piece, result in zip(pieces, results, strict=True):
                advance(piece.n_rows)
                yield result
        self.unseen.tell(self.references)  # at the end, so that all are named

    def decoded(self, piece: Piece, wanted: Sequence[str]) -> Iterator[Any]:
        """Some columns of a piece, as pyarrow has them; text with a dictionary."""
        text = [name for name in wanted if columns.is_text(self.files.schema.field(name).type)]
        return self.files.batches(piece, wanted, self.batch_rows, text)

    def blocks(self, piece: Piece, reading: Reading, crew: Crew) -> Generator[Block, None, None]:
        """A piece, block by block; what is done with a block counts as computing."""
        wanted = [*self.columns, *self.roles.named]
        done, where = piece.first_row, self.files.where(piece)
        for batch in self.decoded(piece, wanted):
            with crew.computing():
                yield from self._cut(batch, reading, Place(where, done))
            done += batch.num_rows

    def labels(self, piece: Piece, reading: Reading, crew: Crew) -> Iterator[AnyArray]:
        """The labels of a piece, without its other columns."""
        target = self.roles.target
        if target is None:
            raise InputError("These rows have no target: name its column, ParquetRows(..., target=...).")
        for batch in self.decoded(piece, [target]):
            with crew.computing():
                yield columns.labels(batch.column(0), reading.code)

    def _cut(self, decoded: Any, reading: Reading, place: "Place") -> Iterator[Block]:
        batch, unseen = columns.batch_of(decoded, self.features)
        self.unseen.add(unseen)
        target, weight, offset = (
            None if name is None else decoded.column(decoded.schema.get_field_index(name)) for name in self.roles
        )
        y = np.full(batch.n_rows, np.nan) if target is None else columns.labels(target, reading.code)
        w = None if weight is None else _checked(weight, "weight", self.roles.weight, place)
        o = None if offset is None else _checked(offset, "offset", self.roles.offset, place)
        for cut in block_cuts((batch.n_rows, batch.n_columns), reading.block_rows):
            X = changed(batch.rows(cut.start, cut.stop), reading.changes)
            wo, start = [None if it is None else it[cut] for it in (w, o)], Start(place.first_row + cut.start, "file")
            yield Block(X, y[cut], wo[0], wo[1], place.where, start)

    def _occurring(self) -> Mapping[str, tuple[str, ...]]:
        """The levels that occur in the categories: one pass over those columns alone."""
        if not self.categories:
            return {}

        def work(piece: Piece, crew: Crew) -> columns.Found:
            return columns.found_levels(self.categories, self.decoded(piece, self.categories), self.files.where(piece))

        found: columns.Found = {name: set() for name in self.categories}
        for piece, more in zip(self.pieces, self.walked(work, self.pieces, None), strict=True):
            found = columns.merged_levels(found, more, self.files.where(piece))
        return columns.ordered_levels(found)


class Place(NamedTuple):
    """Where a batch is from."""

    where: str
    first_row: int  # in its file


def _checked(cells: Any, kind: str, name: str | None, place: Place) -> Array:
    """Weights or offsets, or an error that names the first that is none."""
    values = np.asarray(columns.numbers(cells), dtype=np.float64)
    return check_beside(values, kind, f"the {kind} in column {name!r}", place.where, Start(place.first_row, "file"))


# --- which columns ------------------------------------------------------------------------------------------------


def opened(
    path: AnyPaths, roles: Roles, features: Sequence[str] | None, categories: Categories, batch_rows: int | None
) -> ParquetTable:
    """Read the footers, and check that the columns are there and of use."""
    _check_arguments(roles, features, categories, batch_rows)
    files = Files.of(path)
    if features is None:
        check_nothing_left_out(files)
    names = _features(files, roles, features)
    check_columns(files, [*names, *roles.named])
    chosen = _categories(files, names, categories)
    columns.check_kinds(files.schema, names, chosen)
    for role, name in roles._asdict().items():
        _check_role(files, role, name)
    if not files.n_rows and roles.target is not None:  # there is nothing to learn, and nothing to predict is no error
        raise TableError(f"The files have columns but no rows: {shortened(map(str, files.paths))}.")
    most = batch_rows or max(1, BATCH_NUMBERS // (len(names) + len(roles.named)))
    return ParquetTable(files, roles, tuple(names), tuple(chosen), most, RowProgress())


def _check_arguments(roles: Roles, features: Sequence[str] | None, categories: Categories, batch_rows: object) -> None:
    if isinstance(features, str):
        raise InputError(f"features must be a list of columns, or None for all; got {features!r}.")
    if isinstance(categories, str) and categories != "auto":
        raise InputError(f'categories must be "auto", a list of columns, or None; got {categories!r}.')
    for name in (*roles.named, *(features or ())):
        if not isinstance(name, str):
            raise InputError(f"Columns of files are named by text; got {name!r}.")
    if batch_rows is not None and (not isinstance(batch_rows, int | np.integer) or batch_rows < 1):
        raise InputError(f"batch_rows must be a positive number of rows, or None; got {batch_rows!r}.")


def _features(files: Files, roles: Roles, features: Sequence[str] | None) -> list[str]:
    if features is None:
        names = [it for it in files.schema.names if it not in roles.named and not ROW_NAMES.fullmatch(it)]
    else:
        names = list(features)
    uses = [*names, *roles.named]
    both = [name for name in dict.fromkeys(roles.named) if uses.count(name) > 1]
    if both:
        raise InputError(f"Columns must be one of features, target, weight and offset; {shortened(both)} is more.")
    twice = [name for at, name in enumerate(names) if name in names[:at]]
    if twice:
        raise InputError(f"Columns occur more than once among the features: {shortened(twice)}.")
    if not names:
        raise TableError("No features: expected at least one column besides target, weight and offset.")
    return names


def _categories(files: Files, names: Sequence[str], categories: Categories) -> list[str]:
    text = [name for name in names if columns.is_text(files.schema.field(name).type)]
    if categories == "auto":
        return text
    asked = list(categories or ())
    strange = [name for name in asked if name not in names]
    if strange:
        raise InputError(f"Categories must be features; {shortened(strange)} is not. There are {shortened(names)}.")
    return [name for name in names if name in {*asked, *(text if asked else ())}]


def _check_role(files: Files, role: str, name: str | None) -> None:
    if name is None:
        return
    kind = files.schema.field(name).type
    if role == "target" and columns.is_nested(kind):
        raise TableError(f"Column {name!r} ({kind}) cannot be the target: its cells are no single values.")
    if role != "target" and (columns.is_text(kind) or not columns.is_number(kind)):
        raise TableError(f"Column {name!r} ({kind}) cannot be the {role}: it must hold numbers.")
