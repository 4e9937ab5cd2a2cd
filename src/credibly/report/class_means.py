"""What a model of the columns within each class says: where the classes lie, and how far apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from credibly.estimators.generative import LinearDiscriminant, NaiveBayes, QuadraticDiscriminant
from credibly.numerics.arrays import Array
from credibly.report.answers import MOST_SENTENCES, Answer
from credibly.report.material import Material
from credibly.report.tables import Cell, Head, Table, numeric
from credibly.report.words import count, counted, direction, level_name, number, probability, span

MOST_CLASSES = 6  # of which a table shows the means


class Means(NamedTuple):
    """Of every class and row of the summary, (K, R) each; NaN where parameters are estimates."""

    names: list[str]
    mean: Array
    sd: Array
    lower: Array
    upper: Array
    spread: Array


class Apart(NamedTuple):
    """The two classes that a column tells apart best."""

    row: int
    a: int
    b: int
    distance: float  # in standard deviations within a class
    sure: float  # probability that the means lie in this order; NaN where unknown


def generative_answer(material: Material) -> Answer:
    """Which columns separate the classes, and where their means are."""
    means = _means(material)
    found = sorted(_apart(means), key=lambda it: -it.distance)
    told = [it for it in found if it.distance > 0]
    said = tuple(_said(material, means, it) for it in told[:MOST_SENTENCES])
    place = {name: j for j, name in enumerate(material.names)}
    columns = dict.fromkeys(place[means.names[it.row]] for it in found if means.names[it.row] in place)
    rest = len(told) - MOST_SENTENCES
    notes = (
        (f"The other {count(rest)} columns tell the classes apart less; they are in the table.",)
        if rest > 1
        else ("The other column tells the classes apart less; it is in the table.",) * rest
    )
    return Answer(_lead(material), said, (_table(material, means, found),), tuple(columns), notes)


def _lead(material: Material) -> str:
    together: dict[type, str] = {
        LinearDiscriminant: "the model weighs them together, with one covariance for all classes",
        QuadraticDiscriminant: "the model weighs them together, with a covariance for each class",
        NaiveBayes: "the model multiplies what they say, as if they were independent within a class",
    }
    how = next((words for kind, words in together.items() if isinstance(material.model, kind)), "")
    ending = f"; {how}" if how else ""
    return (
        "This model describes the columns within each class, and gets the class by Bayes' rule. The columns that "
        f"tell classes apart best come first, each looked at alone{ending}."
    )


def _means(material: Material) -> Means:
    summary = material.model.summary(material.settings.level)
    shape = (len(material.classes), len(summary.names))
    unknown = np.full(shape, np.nan)
    columns = {name: np.asarray(values, dtype=float).reshape(shape) for name, values in summary.columns.items()}
    parts = [columns.get(name, unknown) for name in ("mean", "sd", "lower", "upper", "spread")]
    return Means(list(summary.names), *parts)


def _apart(means: Means) -> list[Apart]:
    """For every row of the summary the pair of classes whose means are furthest apart."""
    K, found = len(means.mean), []
    a, b = np.triu_indices(K, 1)
    gap = means.mean[a] - means.mean[b]
    within = np.sqrt((means.spread[a] ** 2 + means.spread[b] ** 2) / 2)
    error = np.sqrt(means.sd[a] ** 2 + means.sd[b] ** 2)
    for row in range(means.mean.shape[1]):
        known = within[:, row] > 0
        if not known.any():
            found.append(Apart(row, 0, min(1, K - 1), 0.0, np.nan))
            continue
        distance = np.where(known, np.abs(gap[:, row]) / np.where(known, within[:, row], 1.0), -1.0)
        pair = int(distance.argmax())
        z = abs(gap[pair, row]) / error[pair, row] if error[pair, row] > 0 else np.nan
        found.append(Apart(row, int(a[pair]), int(b[pair]), float(distance[pair]), float(ndtr(np.array(z)))))
    return found


def _said(material: Material, means: Means, it: Apart) -> str:
    level, name = material.settings.level, means.names[it.row]

    def mean(k: int) -> str:
        low, high = means.lower[k, it.row], means.upper[k, it.row]
        interval = "" if np.isnan(low) else f" ({span(low, high, level)})"
        return f"{number(means.mean[k, it.row])}{interval} in {material.event(k)}"

    high, low = (it.a, it.b) if means.mean[it.a, it.row] >= means.mean[it.b, it.row] else (it.b, it.a)
    end = "" if np.isnan(it.sure) else f"; {direction(it.sure)}"
    return (
        f"{name} is on average {mean(high)} and {mean(low)}: {number(it.distance, 2)} standard deviations within a "
        f"class apart{end}."
    )


def _table(material: Material, means: Means, found: list[Apart]) -> Table:
    shown = range(min(len(material.classes), MOST_CLASSES))
    heads = [
        Head("Column", numeric=False),
        Head("Most apart", numeric=False),
        Head("Standard deviations apart"),
        Head("P(order)"),
        *(Head(f"Mean in {material.event(k)}") for k in shown),
    ]
    rows = [
        [
            Cell(means.names[it.row]),
            Cell(f"{material.event(it.a)}, {material.event(it.b)}"),
            numeric(it.distance, number(it.distance)),
            numeric(it.sure, probability(it.sure)),
            *(numeric(means.mean[k, it.row], _mean_cell(means, k, it.row)) for k in shown),
        ]
        for it in found
    ]
    left_out = len(material.classes) - len(shown)
    more = f"; means of {counted(left_out, 'more class', 'more classes')} are not shown" if left_out else ""
    caption = f"Means within the classes, with {level_name(material.settings.level)} intervals{more}"
    return Table.of(caption, heads, rows)


def _mean_cell(means: Means, k: int, row: int) -> str:
    low, high = means.lower[k, row], means.upper[k, row]
    mean = number(means.mean[k, row])
    return mean if np.isnan(low) else f"{mean} ({number(low)} to {number(high)})"
