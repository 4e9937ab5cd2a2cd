"""What a column does to the probability where no weight says so: it is moved, and the probabilities are averaged."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from credibly.diagnostics.cross_validation import stratified_sample
from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.model_average import ModelAverage
from credibly.numerics.arrays import Array
from credibly.report.answers import MOST_SENTENCES, Answer
from credibly.report.material import Material
from credibly.report.steps import Step, steps
from credibly.report.tables import Cell, Head, Table, bars_of, numeric
from credibly.report.words import NB, counted, direction, level_name, number, percent, plain, probability, surely_short

ROWS, DRAWS = 100, 400  # over which probabilities are averaged; of the posterior
MOST_COLUMNS = 60
DEVIATIONS_ROWS = 1000  # up to so many rows the hyperparameters get intervals, which take two fits for each
LOW, HIGH = 0.1, 0.9  # quantiles between which a column is moved


class Moved(NamedTuple):
    """A column moved in all rows, and what that does to the average probability of a class."""

    step: Step
    start: float
    end: float
    label: str
    before: float
    after: float
    low: float  # ends of the interval of the change; NaN where there are no draws
    high: float
    positive: float

    @property
    def change(self) -> float:
        """Of the averaged probability."""
        return self.after - self.before

    @property
    def sure(self) -> float:
        """The probability of the sign."""
        return max(self.positive, 1 - self.positive) if not np.isnan(self.positive) else np.nan


def averaged_answer(material: Material) -> Answer:
    """Average changes of the probability, and a kernel's hyperparameters or a mixture's weights."""
    level = material.settings.level
    found = sorted(_moved(material), key=lambda it: -abs(it.change))
    said = tuple(_said(it, level) for it in found[:MOST_SENTENCES])
    more = len(steps(material)) - MOST_COLUMNS
    were = "was" if more == 1 else "were"
    notes = (f"{counted(more, 'column')} beyond the first {MOST_COLUMNS} {were} not moved.",) if more > 0 else ()
    if not found:
        notes = ("The columns are not all numbers without gaps, so that moving one of them was not tried.",)
    tables = [*([_table(found, level)] if found else []), _inner(material)]
    return Answer(_lead(material), said, tuple(tables), tuple(it.step.place for it in found), notes)


def _lead(material: Material) -> str:
    moved = (
        "To see what a column does, it is moved from a low to a high value in all rows, the other columns as they are, "
        "and the probabilities are averaged."
    )
    if material.groups:
        moved += " A category goes from its commonest level (or the one that the model left out) to another."
    if isinstance(material.model, ModelAverage):
        return f"This is an average of several models, so there is no single coefficient for a column. {moved}"
    return f"A Gaussian process may bend as the data ask, so there is no single coefficient for a column. {moved}"


def _moved(material: Material) -> list[Moved]:
    X = material.complete
    if X is None:
        return []
    rng = np.random.default_rng(material.settings.seed)
    rows = X[stratified_sample(rng, material.codes, ROWS)]
    found = []
    for step in steps(material)[:MOST_COLUMNS]:
        if step.constant:
            continue
        values = X[:, step.place]
        start, end = (0.0, 1.0) if step.indicator else np.quantile(values, [LOW, HIGH]).tolist()
        if start == end:
            start, end = float(values.min()), float(values.max())
        both = np.concatenate([step.put(rows, start), step.put(rows, end)])
        averages = _averages(material, material.rows_like(both))  # (draws, 2, K)
        found.append(_strongest(material, step, (start, end), averages))
    return found


def _averages(material: Material, both: Any) -> Array:
    """Probabilities averaged over the rows, before and after, for draws of the posterior; one where there are none."""
    model, K = material.model, len(material.classes)
    if hasattr(model, "sample_proba"):
        draws = model.sample_proba(both, DRAWS, random_state=material.settings.seed)
    else:
        draws = model.predict_proba(both)[None]
    averages: Array = np.asarray(draws).reshape(len(draws), 2, -1, K).mean(axis=2)
    return averages


def _strongest(material: Material, step: Step, move: tuple[float, float], averages: Array) -> Moved:
    """For the class that changes most; of two classes, for the second."""
    before, after = averages.mean(axis=0)
    k = 1 if material.two_classes else int(np.abs(after - before).argmax())
    change = averages[:, 1, k] - averages[:, 0, k]
    low, high, positive = np.nan, np.nan, np.nan
    if len(change) > 1:
        level = material.settings.level
        low, high = np.quantile(change, [0.5 - level / 2, 0.5 + level / 2]).tolist()
        positive = float(((change > 0).sum() + 1) / (len(change) + 2))  # draws are never certain
    return Moved(step, *move, material.event(k), float(before[k]), float(after[k]), low, high, positive)


def _points(share: float) -> str:
    """A difference of probabilities, with its sign."""
    return f"{'+' if share >= 0 else ''}{number(100 * share, 2)}"


def _said(it: Moved, level: float) -> str:
    move = it.step.subject if it.step.group else f"Moving {it.step.name} from {plain(it.start)} to {plain(it.end)}"
    interval = ""
    if not np.isnan(it.low):
        interval = f" (change in points, {level_name(level)}: {_points(it.low)} to {_points(it.high)})"
        interval += f"; {direction(it.sure)}"
    return (
        f"{move} takes the average probability of {it.label} from {percent(it.before)} to "
        f"{percent(it.after)}{interval}."
    )


def _table(found: list[Moved], level: float) -> Table:
    drawn, classes = not np.isnan(found[0].low), len({it.label for it in found}) > 1
    heads = [
        Head("Column", numeric=False),
        *([Head("Class", numeric=False)] if classes else []),
        Head("Moved"),
        Head("Before"),
        Head("After"),
        Head("Change in points"),
        *(
            [Head(f"{level_name(level)} interval"), Head("P(positive)"), Head("Direction", numeric=False)]
            if drawn
            else []
        ),
        *([Head("Interval", numeric=False, sortable=False)] if drawn else []),
    ]
    tips = [f"{it.step.name}: {_points(it.change)} points" for it in found]
    bars = bars_of([(it.low, it.change, it.high) for it in found], tips)
    rows = []
    for it, bar in zip(found, bars, strict=True):
        drawn_cells = [
            numeric(it.low, f"{_points(it.low)} to {_points(it.high)}"),
            numeric(it.positive, probability(it.positive)),
            numeric(it.sure, surely_short(it.sure)),
            Cell("", bar=bar),
        ]
        rows.append(
            [
                Cell(it.step.name),
                *([Cell(it.label)] if classes else []),
                numeric(it.end - it.start, it.step.short if it.step.group else f"{plain(it.start)} → {plain(it.end)}"),
                numeric(it.before, percent(it.before)),
                numeric(it.after, percent(it.after)),
                numeric(it.change, _points(it.change)),
                *(drawn_cells if drawn else []),
            ]
        )
    quantiles = f"10{NB}% to its 90{NB}% quantile"
    of = "" if classes else f" of {found[0].label}"
    return Table.of(f"Average probabilities{of} when a column is moved from its {quantiles}", heads, rows)


def _inner(material: Material) -> Table:
    model = material.model
    if isinstance(model, GaussianProcessResults):
        return _hyperparameters(material)
    rows = [[Cell(name), numeric(weight, probability(weight))] for name, weight in model.weights_.items()]
    return Table.of("The models of the average", [Head("Model", numeric=False), Head("Weight")], rows)


def _hyperparameters(material: Material) -> Table:
    """Length scales and the rest of the kernel; a short length scale is a column that matters."""
    with_errors = len(material.codes) <= DEVIATIONS_ROWS
    summary = material.model.summary(material.settings.level, uncertainty=with_errors)
    columns = summary.columns
    interval = f"{level_name(material.settings.level)} interval"
    heads = [Head("Hyperparameter", numeric=False), Head("Value"), *([Head(interval)] if with_errors else [])]
    rows = []
    for i, name in enumerate(summary.names):
        cells = [Cell(name), numeric(columns["value"][i], number(float(columns["value"][i])))]
        if with_errors:
            low, high = float(columns["lower"][i]), float(columns["upper"][i])
            cells.append(numeric(low, "not determined" if np.isnan(low) else f"{number(low)} to {number(high)}"))
        rows.append(cells)
    caption = "The kernel: the function hardly changes over distances much shorter than a length scale"
    return Table.of(caption, heads, rows)
