"""The pictures of a report: which are drawn, where they stand, and what is seen in them, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import credibly.plots as plots  # noqa: PLR0402 - asked of the package it would wait for another thread's names
from credibly.diagnostics.calibration import reliability_curve
from credibly.diagnostics.cross_validation import stratified_sample, take_rows
from credibly.errors import CrediblyError
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.estimators.glm import BayesianGLM
from credibly.estimators.linear_classifier import LinearClassifier
from credibly.numerics.weighted_draws import RELIABLE
from credibly.plots.indicators import indicator_groups
from credibly.plots.weight_tables import Table as WeightTable
from credibly.plots.weights import forest
from credibly.report.answers import Answer
from credibly.report.material import Material
from credibly.report.performance import Failed, Performance
from credibly.report.svg import drawn, small_axes
from credibly.report.trust import Trust
from credibly.report.weights import effects, link_of
from credibly.report.words import count, counted, level_name, listed, number

MOST_EFFECTS = 4
MOST_LEVELS = 8  # of a category that is drawn
MOST_CURVES = 6  # classes of a ROC figure
DRAWN_ROWS = 2000  # of which effects and surfaces show the places


class Figure(NamedTuple):
    """A picture with its caption; or why there is none."""

    key: str
    section: str  # of the page
    caption: str
    markup: str
    missing: str | None = None


class Planned(NamedTuple):
    """A picture that is to be drawn."""

    key: str
    section: str
    caption: str
    draw: Callable[[], Any]
    alt: Callable[[Any], str]


def planned(material: Material, answer: Answer, found: Performance | Failed, certificate: Trust) -> list[Planned]:
    """The pictures that there are for this model and these rows."""
    return [
        *_weights(material),
        *_effects(material, answer),
        *_surface(material),
        *_predictions(material, found),
        *_trust(certificate),
        *_noise(material),
        *_comparison(material),
    ]


def draw(it: Planned) -> Figure:
    """One picture; a failure is told in its place, and does not lose the page."""
    try:
        return Figure(it.key, it.section, it.caption, drawn(it.draw, it.key, it.alt))
    except CrediblyError as error:
        return Figure(it.key, it.section, it.caption, "", str(error))


def _weights(material: Material) -> list[Planned]:
    model, level = material.model, material.settings.level
    if isinstance(model, LinearClassifier | BayesianGLM):
        if material.groups:
            return _steps(material)
        caption = f"Coefficients of standardised columns with {level_name(level)} intervals."
        many = min(len(material.names), 30)
        alt = (
            f"Forest plot of the coefficients of {counted(many, 'column')} with their intervals, the largest on top; "
            "the numbers are in the table above."
        )
    elif isinstance(model, GenerativeClassifierBase):
        caption = f"Means within the classes, from the average of the classes, with {level_name(level)} intervals."
        alt = "Forest plot of the class means of every column; the numbers are in the table above."
    else:
        return []
    return [Planned("coefficients", "answer", caption, lambda: plots.coefficients(model, level), lambda ax: alt)]


def _steps(material: Material) -> list[Planned]:
    """Where there are categories: a single coefficient of a level says nothing, its difference from another does."""
    found, level = effects(material), material.settings.level
    if not found:
        return []
    labels = list(dict.fromkeys(it.label for it in found))
    names = [it.step.name for it in found[: len(found) // len(labels)]]
    mean, low, high = (
        np.array([getattr(it, end) for it in found]).reshape(len(labels), -1) for end in ("mean", "low", "high")
    )
    bases, link = listed([it.base_name for it in material.groups]), link_of(material.model)
    score = "log odds" if link.odds else "score"
    against = f" against {found[0].against}" if found[0].against else ""
    table = WeightTable(
        names, labels if len(labels) > 1 else None, mean, low, high, "Effects",
        f"change of the {score}\nfor one step in the column", link.odds,
    )  # fmt: skip
    caption = (
        f"What one step does to the {score}{against}, with {level_name(level)} intervals: one standard deviation more, "
        f"1 instead of 0, or a level instead of {bases}."
    )
    alt = f"Forest plot of {counted(min(len(names), 30), 'effect')} with intervals; the numbers are in the table above."
    return [Planned("coefficients", "answer", caption, lambda: forest(table, level), lambda ax: alt)]


def _effects(material: Material, answer: Answer) -> list[Planned]:
    if hasattr(material.X, "toarray"):
        return []
    rows = stratified_sample(np.random.default_rng(material.settings.seed), material.codes, DRAWN_ROWS)
    X = take_rows(material.X, rows)
    shown = [j for j in dict.fromkeys(_first(material, j) for j in answer.columns) if j is not None]
    return [_effect(material, X, j) for j in shown[:MOST_EFFECTS]]


def _first(material: Material, j: int) -> int | None:
    """The column that stands for a picture: a category has one; none where its levels cannot all be drawn."""
    group = next((it for it in material.groups if j in it.places), None)
    if group is None or material.matrix is None:
        return j
    whole = group.base is not None and indicator_groups(material.names, material.matrix).get(group.column)
    return group.places[0] if whole and len(group.places) <= MOST_LEVELS else None


def _effect(material: Material, X: Any, j: int) -> Planned:
    level, name = material.settings.level, material.names[j]
    column = X.columns[j] if hasattr(X, "columns") else j
    category = next((it.column for it in material.groups if j in it.places), None)
    if category is not None:
        name = column = category

    def alt(ax: Any) -> str:
        curves = [line.get_xydata() for line in ax.get_lines() if len(line.get_xydata()) > 10]
        if not curves:
            return f"Probabilities for each value of {name}, with intervals."
        said = [
            f"from {number(float(curve[0, 1]), 2)} at {number(float(curve[0, 0]))} to {number(float(curve[-1, 1]), 2)} "
            f"at {number(float(curve[-1, 0]))}"
            for curve in curves[: len(material.classes)]
        ]
        return f"Probability against {name}. {'The curve goes' if len(said) == 1 else 'Curves go'} {listed(said)}."

    others = "other columns at their medians" + (", categories at their commonest level" if material.groups else "")
    caption = f"The probability as {name} changes, {others}; {'bars' if category else 'band'}: {level_name(level)}."
    return Planned(
        f"effect-{j}",
        "answer",
        caption,
        lambda: plots.effect(material.model, X, column, level=level, ax=small_axes()),
        alt,
    )


def _surface(material: Material) -> list[Planned]:
    if len(material.names) != 2 or material.complete is None or isinstance(material.model, BayesianGLM):
        return []
    rows = stratified_sample(np.random.default_rng(material.settings.seed), material.codes, DRAWN_ROWS)
    X, y = take_rows(material.X, rows), material.y[rows]
    a, b = material.names
    caption = f"The probability over {a} and {b}, how uncertain it is, and the rows."
    alt = f"Map of the probability over {a} and {b} with the rows on it."
    level = material.settings.level
    return [
        Planned(
            "surface",
            "answer",
            caption,
            lambda: plots.decision_surface(material.model, X, y, (0, 1), level=level),
            lambda ax: alt,
        )
    ]


def _predictions(material: Material, found: Performance | Failed) -> list[Planned]:
    if isinstance(found, Failed) or len(np.unique(found.codes)) < 2:
        return []
    proba, labels, level = found.said.proba, material.classes, material.settings.level
    y = material.classes[found.codes]
    bins = 10 if len(y) >= 200 else 5
    curve = reliability_curve(y, proba, bins, level=level, labels=labels)
    inside = f"{int(curve.inside.sum())} of {len(curve.count)} points lie in the band around the diagonal"
    figures = [
        Planned(
            "reliability",
            "calibration",
            "What was said against what happened, on rows the model had not seen; beneath, how often each was said.",
            lambda: plots.reliability(y, proba, bins=bins, level=level, labels=labels),
            lambda ax: f"Reliability diagram: {inside}.",
        )
    ]
    if len(labels) > MOST_CURVES or len(np.unique(found.codes)) < len(labels):
        return figures
    return [
        *figures,
        Planned(
            "roc",
            "calibration",
            "True against false positives, for every threshold on the probability.",
            lambda: plots.roc(y, proba, labels=labels, level=level),
            lambda ax: "ROC curve; the area under it is in the table of scores.",
        ),
        Planned(
            "precision-recall",
            "calibration",
            "Precision against recall: how many alarms are right, and how many cases are found.",
            lambda: plots.precision_recall(y, proba, labels=labels),
            lambda ax: "Precision against recall for every threshold on the probability.",
        ),
    ]


def _trust(certificate: Trust) -> list[Planned]:
    khats = certificate.khats
    if khats is None:
        return []
    above, known = int((khats > RELIABLE).sum()), khats[np.isfinite(khats)]
    largest = number(float(known.max()), 2) if len(known) else "unknown"
    alt = f"k-hat of {count(len(khats))} predictions: the largest is {largest}, {above} are above the limit of 0.7."
    caption = "How far single predictions can be corrected; below 0.7 they can be relied on."
    return [Planned("khat", "trust", caption, lambda: plots.khat(khats), lambda ax: alt)]


def _noise(material: Material) -> list[Planned]:
    model = material.model
    if not np.any(getattr(model, "label_noise_", 0.0)) or not hasattr(model, "flip_probability"):
        return []
    caption = "The labels that the model doubts most."
    return [
        Planned(
            "label-noise",
            "answer",
            caption,
            lambda: plots.label_noise(model, material.X, material.y),
            lambda ax: "Rows ranked by the probability that their label was recorded wrongly.",
        )
    ]


def _comparison(material: Material) -> list[Planned]:
    comparison = material.about.comparison
    if comparison is None:
        return []
    names = listed([row.name for row in comparison.rows])
    caption = "How far each model is behind the best; a difference of −3 is a twentieth of its probability."
    alt = f"Bars of the models from best to worst: {names}."
    return [Planned("evidence", "comparison", caption, lambda: plots.evidence(comparison), lambda ax: alt)]
