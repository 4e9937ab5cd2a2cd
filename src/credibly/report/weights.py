"""What the weights of a linear model say: odds, or shifts of a score."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, kron
from scipy.special import ndtr

from credibly.estimators.glm import BayesianGLM
from credibly.estimators.linear import BayesianLogisticRegression, BayesianProbitRegression
from credibly.estimators.model_average import log_proba
from credibly.inference.gaussian import normal_quantile
from credibly.inference.linear.posterior import DrawnPosterior, WeightPosterior
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
WIDEST = 10 * np.log(10)  # ten orders of magnitude of the odds, beyond which an interval says nothing


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

    @property
    def open(self) -> bool:
        """Whether the interval spans so much that it says nothing."""
        return not self.high - self.low <= WIDEST


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
    found = sorted(effects(material), key=lambda it: -abs(it.mean))
    best: dict[int, Effect] = {}
    for effect in found:
        best.setdefault(effect.place, effect)
    strongest = list(best.values())
    said = tuple(said_of(effect, link, level) for effect in strongest[:MOST_SENTENCES])
    return Answer(_lead(material, link), said, (_table(found, link, level),), tuple(best), _rest(strongest))


def _lead(material: Material, link: Links) -> str:
    fixed = "All statements are about one column at a time, with the other columns held where they are."
    if material.groups:
        fixed += " A category goes from one level to another: each level is told against one of them, the commonest"
        fixed += " (or the one that the model left out)." if any(it.base is None for it in material.groups) else "."
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
    if len(rest) == 1:
        also = " Even its direction is unclear." if unclear else ""
        return (f"The other effect is weaker; it is in the table.{also}",)
    told = f"The other {count(len(rest))} effects are weaker; they are in the table."
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
    """Of every step on every class, in the order of the columns."""
    found = [step for step in steps(material) if not step.constant]
    before, after = _moved(material, found)
    return [
        Effect(step, step.place, material.event(it.k), None if it.against is None else material.event(it.against),
               *(float(numbers[i]) for numbers in (it.mean, it.low, it.high, it.positive, before, after)))
        for it in _parts(material, found)
        for i, step in enumerate(found)
    ]  # fmt: skip


def _reference(material: Material) -> int:
    return int(np.bincount(material.codes, minlength=len(material.classes)).argmax())


def _parts(material: Material, found: list[Step]) -> list[Part]:
    """The one score that two classes need, or the score of each class less that of the most common one."""
    posterior, outputs = material.model.posterior_, material.model.fit_.shape.n_outputs
    changes = _changes(found, posterior.mean.size // outputs)
    r = None if outputs == 1 else 0 if material.two_classes else _reference(material)
    parts = []
    for k in [1] if r is None else [k for k in range(outputs) if k != r]:
        if r is None:
            rows = changes
        else:
            classes = np.zeros((1, outputs))
            classes[0, [k, r]] = 1.0, -1.0
            rows = kron(csr_array(classes), changes, format="csr")
        numbers = combined(posterior, rows, material.settings.level, material.settings.seed)
        parts.append(Part(k, None if material.two_classes else r, *numbers))
    return parts


def _changes(found: list[Step], n_weights: int) -> csr_array:
    """Row by row, by how much each column changes in a step, (S, D)."""
    cells = [(i, j, size) for i, step in enumerate(found) for j, size in step.parts]
    at, place, size = (np.array(it) for it in zip(*cells, strict=True)) if cells else (np.zeros(0, dtype=int),) * 3
    return csr_array((size.astype(float), (at, place)), shape=(len(found), n_weights))


def combined(posterior: WeightPosterior, rows: csr_array, level: float, seed: int) -> tuple[Array, Array, Array, Array]:
    """Mean, ends of the interval and P(positive) of sums of weights, one for each row of (S, M)."""
    mean = np.asarray(rows @ posterior.mean)
    ends = np.array([0.5 - level / 2, 0.5 + level / 2])
    if isinstance(posterior, DrawnPosterior):
        draws = posterior.weight_draws @ rows.T
        low, high = np.quantile(draws, ends, axis=0)
        return mean, low, high, ((draws > 0).sum(axis=0) + 1) / (len(draws) + 2)  # draws are never certain
    if posterior.mean.size > EXACT_WEIGHTS and (np.diff(rows.indptr) > 1).any():
        draws = posterior.sample(np.random.default_rng(seed), DRAWS) @ rows.T
        low, high = np.quantile(draws, ends, axis=0)
        return mean, low, high, ((draws > 0).sum(axis=0) + 1) / (DRAWS + 2)
    if (np.diff(rows.indptr) > 1).any():
        sd = np.sqrt(np.asarray(rows.multiply(rows @ posterior.cov).sum(axis=1)).ravel())
    else:
        sd = np.asarray(abs(rows) @ posterior.std)
    half = normal_quantile(level) * sd
    return mean, mean - half, mean + half, ndtr(mean / sd)


def _moved(material: Material, found: list[Step]) -> tuple[Array, Array]:
    """P(second of two classes) at the means of the columns, before and after each step."""
    nothing = np.full(len(found), np.nan)
    if not material.two_classes or material.complete is None or not found:
        return nothing, nothing
    middle = material.complete.mean(axis=0)[None]
    before = np.concatenate([step.put(middle, step.middle) for step in found])
    moved = np.concatenate([step.put(middle, step.middle + step.size) for step in found])
    low, high = (np.exp(log_proba(material.model, material.rows_like(rows)))[:, 1] for rows in (before, moved))
    return low, high


# --- words ------------------------------------------------------------------------------------------------------


def said_of(effect: Effect, link: Links, level: float) -> str:
    """One sentence."""
    against = f" against {effect.against}" if effect.against else ""
    if effect.open:
        what = f"odds of {effect.label}{against}" if link.odds else "score"
        return f"{effect.step.subject}: what that does to the {what} is not determined by these rows."
    end = f"; {direction(effect.sure)}."
    if not link.odds:
        verb = "raises" if effect.mean >= 0 else "lowers"
        mean, low, high = _outwards(effect)
        moved = f", which takes the probability of {effect.label} {_from_to(effect)}"
        return (
            f"{effect.step.subject} {verb} the score by {number(mean)} {link.unit} ({span(low, high, level)})"
            f"{moved if not np.isnan(effect.before) else ''}{end}"
        )
    # One level instead of another is a ratio, as in the table; only an increase can be said to divide.
    ratio = effect.step.group is not None or effect.mean >= 0
    verb = "multiplies" if ratio else "divides"
    shifts = (effect.mean, effect.low, effect.high) if ratio else _outwards(effect)
    mean, low, high = (_factor(it) for it in shifts)
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
    if it.open:
        return [numeric(it.mean, "not determined"), numeric(it.low, "–")]
    if not link.odds:
        return [numeric(it.mean, number(it.mean)), numeric(it.low, f"{number(it.low)} to {number(it.high)}")]
    value, low, high = (_factor(shift) for shift in (it.mean, it.low, it.high))
    return [numeric(it.mean, number(value)), numeric(it.low, f"{number(low)} to {number(high)}")]
