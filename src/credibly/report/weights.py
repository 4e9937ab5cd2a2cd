"""What the weights of a linear model say: odds, or shifts of a score."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from credibly.estimators.glm import BayesianGLM
from credibly.estimators.linear import BayesianLogisticRegression, BayesianProbitRegression
from credibly.estimators.model_average import log_proba
from credibly.inference.drawn_posterior import DrawnPosterior
from credibly.inference.posterior import WeightPosterior, normal_quantile
from credibly.numerics.arrays import Array
from credibly.report.answers import MOST_SENTENCES, Answer
from credibly.report.material import Material
from credibly.report.steps import Step, steps
from credibly.report.tables import Cell, Head, Table, bars_of, numeric
from credibly.report.words import (
    NB,
    count,
    direction,
    level_name,
    number,
    percent,
    probability,
    span,
    surely,
    surely_short,
)

EXACT_WEIGHTS = 2000  # up to so many weights their covariance is written out; more are drawn
DRAWS = 4000


class Links(NamedTuple):
    """How a score becomes a probability, in words."""

    odds: bool  # whether a step multiplies the odds
    unit: str  # of the score, where it does not


class Effect(NamedTuple):
    """What one step in a column does to the score of a class, against another."""

    step: Step
    place: int  # of the column
    label: str
    against: str | None
    mean: float
    low: float
    high: float
    positive: float
    before: float  # probability at the means of the columns, and after the step; NaN for three classes or more
    after: float

    @property
    def sure(self) -> float:
        """The probability of the sign."""
        return max(self.positive, 1 - self.positive)


def link_of(model: Any) -> Links:
    """The words for the link of a model."""
    name = model.link_.name if isinstance(model, BayesianGLM) else ""
    if isinstance(model, BayesianLogisticRegression) or name == "logit":
        return Links(True, "")
    if isinstance(model, BayesianProbitRegression) or name == "probit":
        return Links(False, "standard deviations of the threshold")
    threshold = getattr(model, "threshold", name)
    if isinstance(threshold, str) and threshold == "logistic":
        return Links(True, "")
    shown = threshold if isinstance(threshold, str) else "threshold"
    return Links(False, f"units of the {shown} scale")


def linear_answer(material: Material) -> Answer:
    """Odds ratios, or shifts of the score, column by column."""
    link, level = link_of(material.model), material.settings.level
    found = sorted((it for it in effects(material) if not it.step.constant), key=lambda it: -abs(it.mean))
    best: dict[int, Effect] = {}
    for effect in found:
        best.setdefault(effect.place, effect)
    strongest = list(best.values())
    said = tuple(said_of(effect, link, level) for effect in strongest[:MOST_SENTENCES])
    return Answer(_lead(material, link), said, (_table(found, link, level),), tuple(best), _rest(strongest))


def _lead(material: Material, link: Links) -> str:
    fixed = "All statements are about one column at a time, with the other columns held where they are."
    if material.two_classes:
        return fixed
    reference = material.event(_reference(material))
    return f"{fixed} Odds are against {reference}, the most common class."


def _rest(strongest: list[Effect]) -> tuple[str, ...]:
    rest = strongest[MOST_SENTENCES:]
    if not rest:
        return ()
    clear = sum(surely(it.sure) != "unclear" for it in rest)
    unclear = len(rest) - clear
    told = f"The other {count(len(rest))} columns have weaker effects; they are in the table."
    return (f"{told} For {count(unclear)} of them even the direction is unclear." if unclear else told,)


# --- numbers ----------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """What steps in all columns do to the score of a class, (d,) each."""

    k: int
    against: int | None  # the class that it is compared with, where there are several
    mean: Array
    low: Array
    high: Array
    positive: Array


def effects(material: Material) -> list[Effect]:
    """Of every column on every class, in the order of the columns."""
    shape = material.model._shape
    found = steps(material)
    size = np.array([step.size for step in found])
    parts = _single(material, size) if shape.n_outputs == 1 else _contrasts(material, size)
    before, after = _moved(material, found)
    return [
        Effect(step, j, material.event(it.k), None if it.against is None else material.event(it.against),
               *(float(numbers[j]) for numbers in (it.mean, it.low, it.high, it.positive, before, after)))
        for it in parts
        for j, step in enumerate(found)
    ]  # fmt: skip


def _single(material: Material, size: Array) -> list[Part]:
    """The weights of the one score that two classes need."""
    posterior, d = material.model.posterior_, len(size)
    low, high = (posterior.interval(material.settings.level)[:d] * size[:, None]).T
    return [Part(1, None, posterior.mean[:d] * size, low, high, posterior.positive[:d])]


def _reference(material: Material) -> int:
    return int(np.bincount(material.codes, minlength=len(material.classes)).argmax())


def _contrasts(material: Material, size: Array) -> list[Part]:
    """Weights of each class less those of the most common one, by their moments or by draws."""
    K, r = len(material.classes), 0 if material.two_classes else _reference(material)
    others = [k for k in range(K) if k != r]
    found = []
    for k in others:
        moments = contrast(material.model.posterior_, K, (k, r), material.settings.level, material.settings.seed)
        mean, low, high, positive = (it[: len(size)] for it in moments)
        found.append(Part(k, None if K == 2 else r, mean * size, low * size, high * size, positive))
    return found


def contrast(
    posterior: WeightPosterior | DrawnPosterior, n_classes: int, pair: tuple[int, int], level: float, seed: int
) -> tuple[Array, Array, Array, Array]:
    """Mean, ends of the interval and P(positive) of the difference of two classes' weights, (D,) each."""
    k, r = pair
    mean = posterior.mean.reshape(n_classes, -1)
    if isinstance(posterior, DrawnPosterior) or posterior.mean.size > EXACT_WEIGHTS:
        draws = posterior.sample(np.random.default_rng(seed), DRAWS).reshape(DRAWS, n_classes, -1)
        gap = draws[:, k] - draws[:, r]
        low, high = np.quantile(gap, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        return mean[k] - mean[r], low, high, ((gap > 0).sum(axis=0) + 1) / (DRAWS + 2)
    blocks = posterior.cov.reshape(n_classes, mean.shape[1], n_classes, mean.shape[1])
    own, other, both = (np.diagonal(blocks[a, :, b]) for a, b in ((k, k), (r, r), (k, r)))
    gap, sd = mean[k] - mean[r], np.sqrt(own + other - 2 * both)
    half = normal_quantile(level) * sd
    return gap, gap - half, gap + half, ndtr(gap / sd)


def _moved(material: Material, found: list[Step]) -> tuple[Array, Array]:
    """P(second of two classes) at the means of the columns, before and after each step."""
    nothing = np.full(len(found), np.nan)
    if not material.two_classes or material.complete is None:
        return nothing, nothing
    middle = np.tile(material.complete.mean(axis=0), (len(found), 1))
    places = np.arange(len(found))
    middle[places, places] = [step.middle for step in found]
    moved = middle.copy()
    moved[places, places] += [step.size for step in found]
    low, high = (np.exp(log_proba(material.model, material.rows_like(rows)))[:, 1] for rows in (middle, moved))
    return low, high


# --- words ------------------------------------------------------------------------------------------------------


def said_of(effect: Effect, link: Links, level: float) -> str:
    """One sentence."""
    end = f"; {direction(effect.sure)}."
    if not link.odds:
        verb = "raises" if effect.mean >= 0 else "lowers"
        mean, low, high = _outwards(effect)
        moved = f", which takes the probability of {effect.label} {_from_to(effect)}"
        return (
            f"{effect.step.subject} {verb} the score by {number(mean)} {link.unit} ({span(low, high, level)})"
            f"{moved if not np.isnan(effect.before) else ''}{end}"
        )
    verb = "multiplies" if effect.mean >= 0 else "divides"
    mean, low, high = (_factor(it) for it in _outwards(effect))
    against = f" against {effect.against}" if effect.against else ""
    return (
        f"{effect.step.subject} {verb} the odds of {effect.label}{against} by {number(mean, 2)} "
        f"({level_name(level)}: {number(low, 2)} to {number(high, 2)}){end}"
    )


def _outwards(effect: Effect) -> tuple[float, float, float]:
    """Mean and interval with the sign taken off, so that a sentence can say which way."""
    if effect.mean >= 0:
        return effect.mean, effect.low, effect.high
    return -effect.mean, -effect.high, -effect.low


def _factor(shift: float) -> float:
    """By what the odds are multiplied; beyond the largest number, infinity."""
    with np.errstate(over="ignore"):
        return float(np.exp(shift))


def _from_to(effect: Effect) -> str:
    return f"from {percent(effect.before)} to {percent(effect.after)} at the means of the columns"


def _table(found: list[Effect], link: Links, level: float) -> Table:
    moved = any(not np.isnan(it.before) for it in found)
    classes = any(it.against for it in found)
    heads = [
        Head("Column", numeric=False),
        *([Head("Class", numeric=False)] if classes else []),
        Head("Step"),
        Head(f"Odds{NB}×" if link.odds else "Shift of the score"),
        Head(f"{level_name(level)} interval"),
        Head("P(positive)"),
        Head("Direction", numeric=False),
        *([Head("Probability at the means")] if moved else []),
        Head("Shift of the score, with interval" if link.odds else "Interval", numeric=False, sortable=False),
    ]
    tips = [f"{it.step.name}: score {number(it.mean)} ({span(it.low, it.high, level)})" for it in found]
    bars = bars_of([(it.low, it.mean, it.high) for it in found], tips)
    rows = [
        [
            Cell(it.step.name),
            *([Cell(it.label)] if classes else []),
            numeric(it.step.size, it.step.short),
            *_size(it, link),
            numeric(it.positive, probability(it.positive)),
            numeric(it.sure, surely_short(it.sure)),
            *([numeric(it.after - it.before, f"{percent(it.before)} → {percent(it.after)}")] if moved else []),
            Cell("", bar=bar),
        ]
        for it, bar in zip(found, bars, strict=True)
    ]
    of = f"of {found[0].label}" if found and not classes else "of each class"
    what = f"the odds {of}" if link.odds else f"the score {of}, in {link.unit}"
    return Table.of(f"What one step in a column does to {what}", heads, rows)


def _size(it: Effect, link: Links) -> list[Cell]:
    if not link.odds:
        return [numeric(it.mean, number(it.mean)), numeric(it.low, f"{number(it.low)} to {number(it.high)}")]
    value, low, high = (_factor(shift) for shift in (it.mean, it.low, it.high))
    return [numeric(it.mean, number(value)), numeric(it.low, f"{number(low)} to {number(high)}")]
