"""What the commands do, between reading a table and saying what was found."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

from credibly import GaussianProcessClassifier, NaiveBayes
from credibly.cli.families import column_families
from credibly.cli.models import AUTO, MOST_ROWS_GP, Options, Size, candidates, make_model
from credibly.cli.printable import printable
from credibly.cli.reading import ReadOptions, Table
from credibly.data.progress import Progress
from credibly.errors import CrediblyError, DataWarning, NotDefinedError, TableError
from credibly.persistence import load
from credibly.report import About, Report, Settings
from credibly.tables import Choices, FormulaDesign, TableComparison, TableModel, compare_table
from credibly.tables.columns import choose
from credibly.tables.formula import target_of
from credibly.tables.target import as_array, labelled
from credibly.wording import shortened

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

MOST_ROWS_COMPARED = 20_000  # in a report that was not told whether to compare; a comparison fits dozens of times
MOST_COLUMNS_CERTIFIED = 100


class Task(NamedTuple):
    """A table and what is asked of it."""

    table: Table
    target: str | None
    choices: Choices
    options: Options
    seed: int | None = None
    excluded: Sequence[str] = ()  # columns that were not read

    @property
    def frame(self) -> pd.DataFrame:
        """The rows."""
        return self.table.frame

    @property
    def named_target(self) -> str:
        """The target, which a formula may name."""
        named = target_of(self.choices.formula) if self.choices.formula else None
        target = self.target if named is None else named
        if target is None:
            raise TableError(
                f"Name the target, the column that holds the class: --target NAME. The table has "
                f"{', '.join(map(str, list(self.frame.columns)[:20]))}."
            )
        return target

    @property
    def size(self) -> Size:
        """What the choice of models depends on."""
        target = self.named_target
        known = labelled(self.frame, target)
        if self.choices.formula is not None:
            inputs = FormulaDesign.of(self.choices.formula, known.frame).sources
        else:
            used = choose(known.frame, target, self.choices.features, self.choices.exclude)
            inputs = tuple(column.name for column in used.columns)
        gaps = self.choices.missing == "refuse" and bool(known.frame[list(inputs)].isna().to_numpy().any())
        return Size(len(known.y), known.y.nunique(), gaps)


def fit(task: Task, name: str) -> tuple[TableModel, TableComparison | None]:
    """The model of a name; of "auto", the best one and the comparison that says so."""
    if name == AUTO:
        found = compare(task, None, by="evidence")
        return found.best, found
    estimator = _suited(make_model(name, task.options), task)
    with Progress(None, printable(f"fitting {name} to {len(task.frame):,} rows")):
        return TableModel.fit(estimator, task.frame, task.named_target, task.choices), None


def trust(model: TableModel, task: Task) -> str | None:
    """What the certificate says in one sentence, where there is one and it is quick to have."""
    quick = MOST_ROWS_GP if isinstance(model.model, GaussianProcessClassifier) else MOST_ROWS_COMPARED
    small = len(task.frame) <= quick and len(model.design.names) <= MOST_COLUMNS_CERTIFIED
    if not small or not hasattr(model.model, "certify"):
        return None
    try:
        with Progress(None, "checking the approximation"):
            return model.certify(task.frame, random_state=task.seed).verdict
    except NotDefinedError:  # a flat prior has no certificate
        return None
    except CrediblyError as error:
        return f"The approximation could not be checked: {error}"


def _suited(estimator: Any, task: Task) -> Any:
    """Naive Bayes with densities that suit the columns; others as they are."""
    if not isinstance(estimator, NaiveBayes) or task.choices.formula is not None:
        return estimator
    known = labelled(task.frame, task.named_target)
    used = choose(known.frame, task.named_target, task.choices.features, task.choices.exclude)
    families = column_families(known.frame, used.columns, as_array(known.y))
    for family, word in (("gaussian", "rounded measurements (Gaussian)"), ("poisson", "counts (Poisson)")):
        if names := [name for name, chosen in families.items() if chosen == family]:
            said = f"naive-bayes reads whole numbers as {word} in {shortened(names)}: that has the larger evidence."
            warnings.warn(said, DataWarning, stacklevel=2)
    return estimator.set_params(features=families or "auto")


def compare(task: Task, names: str | None, by: str) -> TableComparison:
    """Models side by side."""
    models = {name: _suited(one, task) for name, one in candidates(names, task.options, task.size).items()}
    return compare_table(models, task.frame, task.named_target, task.choices, by=by, random_state=task.seed)


def load_model(path: Path) -> TableModel:
    """A model that knows its columns."""
    model: Any = load(path)
    if not isinstance(model, TableModel):
        raise TableError(
            f"{path} holds a {type(model).__name__} that was saved from Python, without the way a table becomes its "
            "columns. Use credibly.load in Python, or fit with 'credibly fit'."
        )
    return model


class Page(NamedTuple):
    """Where a report goes, and what is written above and below it."""

    out: Path
    overwrite: bool
    title: str | None
    level: float
    command: str
    data: str
    reading: ReadOptions


def write_report(task: Task, model: TableModel, found: TableComparison | None, page: Page) -> Report:
    """A report of a model and its table."""
    about = About(
        title=page.title,
        notes=task.table.notes,
        command=page.command,
        code=_code(task, model, page),
        comparison=None if found is None else found.comparison,
    )
    settings = Settings(page.level, task.seed, overwrite=page.overwrite)
    return model.report(task.frame, page.out, about, settings)


def _code(task: Task, model: TableModel, page: Page) -> str:
    """The same in Python."""
    asked = {name: value for name, value in task.choices._asdict().items() if value != getattr(Choices(), name)}
    choices = f", Choices({', '.join(f'{name}={value!r}' for name, value in asked.items())})" if asked else ""
    estimator, name = model.model, type(model.model).__name__
    default = {key: repr(it.default) for key, it in signature(type(estimator)).parameters.items()}
    given = estimator.get_params(deep=False).items()
    options = ", ".join(f"{key}={value!r}" for key, value in given if repr(value) != default[key])
    priors = [prior for prior in ("Jeffreys", "Normal", "StudentT") if f"{prior}(" in options]
    without = f".drop(columns={list(task.excluded)!r})" if task.excluded else ""
    about = f"About(title={page.title!r})" if page.title else "About()"
    settings = f"Settings(level={page.level!r}, random_state={task.seed!r})"
    reading = "" if page.reading == ReadOptions() else f", options={page.reading!r}"
    names = ["Choices", "TableModel"] if asked else ["TableModel"]
    return "\n".join(
        [
            f"from credibly import {', '.join(sorted([name, *priors]))}",
            f"from credibly.cli.reading import {'ReadOptions, ' if reading else ''}read_table",
            "from credibly.report import About, Settings",
            f"from credibly.tables import {', '.join(names)}",
            "",
            f"table = read_table({page.data!r}{reading}).frame{without}",
            f"model = TableModel.fit({name}({options}), table, {model.target!r}{choices})",
            f"model.report(table, {str(page.out)!r}, {about}, {settings})",
        ]
    )
