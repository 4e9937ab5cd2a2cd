"""How well the model predicts rows that it has not seen, and whether its probabilities can be taken at their word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from credibly.diagnostics.calibration import calibration_error, calibration_test, reliability_curve
from credibly.diagnostics.cross_validation import CrossValidated, Rows, cross_validate, stratified_sample
from credibly.diagnostics.reliability import ReliabilityCurve
from credibly.diagnostics.scores import auc
from credibly.errors import CrediblyError
from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.model_average import ModelAverage, log_proba
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.report.material import Material
from credibly.report.tables import Cell, Head, Table, numeric
from credibly.report.words import NB, count, counted, level_name, number, p_value, percent, probability

PROCESS_ROWS, AVERAGE_ROWS = 1000, 2000  # most that are cross-validated: a fit costs the cube of the rows, or many fits
FEW_ROWS, MANY_FOLDS, FOLDS = 500, 10, 5
MOST_CLASSES = 12  # of a table of decisions
SURPRISING = 8  # rows shown
CALIBRATION_ROWS = 50  # fewer say little about calibration
SUSPICIOUS = 0.05  # p-values below which calibration is called into question


class Score(NamedTuple):
    """A score with its standard error, beside that of the base rates, and the difference."""

    name: str
    value: float
    error: float
    base: float
    gain: float
    gain_error: float


class Performance(NamedTuple):
    """What cross-validation found."""

    y: AnyArray  # (m,) labels of the rows predicted
    codes: Codes
    said: CrossValidated
    scores: tuple[Score, ...]
    notes: tuple[str, ...]

    @property
    def accuracy(self) -> Score:
        """How often the most probable class was the right one."""
        return self.scores[0]

    @property
    def log_score(self) -> Score:
        """The mean log probability."""
        return self.scores[1]


class Failed(NamedTuple):
    """Why there is no cross-validation."""

    reason: str


def n_folds(material: Material) -> int:
    """How many parts the rows are dealt into."""
    if material.settings.folds is not None:
        return material.settings.folds
    heavy = isinstance(material.model, GaussianProcessResults | ModelAverage)
    return MANY_FOLDS if len(material.codes) <= FEW_ROWS and not heavy else FOLDS


def performance(material: Material, tick: Callable[[], None]) -> Performance | Failed:
    """Cross-validate the model; where that is not possible, say why."""
    most = _most_rows(material)
    kept = stratified_sample(np.random.default_rng(material.settings.seed), material.codes, most)
    table = Rows(material.X, material.y, material.codes).take(kept)
    notes = []
    if len(kept) < len(material.codes):
        notes.append(
            f"Cross-validated on {counted(len(kept), 'row')} drawn from {count(len(material.codes))}, to save time; "
            "the model of all rows should do no worse."
        )
    alone = [material.event(int(k)) for k in np.flatnonzero(np.bincount(material.codes) == 1)]
    if alone:
        notes.append(f"The only row of {', '.join(alone)} cannot be predicted by a model that has not seen it.")
    try:
        said = cross_validate(
            material.model, table, recorded, folds=n_folds(material), random_state=material.settings.seed, tick=tick
        )
    except (CrediblyError, ValueError, ArithmeticError) as error:
        return Failed(f"{type(error).__name__}: {error}")
    notes += [f"While cross-validating: {text}" for text in said.warned[:3]]
    codes = table.codes[said.rows]
    return Performance(
        table.y[said.rows], codes, said._replace(rows=kept[said.rows]), _scores(codes, said), tuple(notes)
    )


def _most_rows(material: Material) -> int:
    if isinstance(material.model, GaussianProcessResults):
        return min(PROCESS_ROWS, material.settings.most_rows)
    if isinstance(material.model, ModelAverage):
        return min(AVERAGE_ROWS, material.settings.most_rows)
    return material.settings.most_rows


def recorded(model: Any, X: Any) -> Array:
    """log p(label that is written down | x): rows are scored by their labels, some of which may be wrong."""
    if not np.any(getattr(model, "label_noise_", 0.0)):
        return log_proba(model, X)
    with np.errstate(divide="ignore"):  # zero only where the true class has probability zero and no label is wrong
        said: Array = np.log(model.predict_recorded_proba(X))
    return said


def _scores(codes: Codes, said: CrossValidated) -> tuple[Score, ...]:
    rows, truth = np.arange(len(codes)), np.eye(said.proba.shape[1])[codes]
    logs = [said.log_proba[rows, codes], np.log(said.base[rows, codes])]
    right = [(p.argmax(axis=1) == codes).astype(float) for p in (said.proba, said.base)]
    brier = [((p - truth) ** 2).sum(axis=1) for p in (said.proba, said.base)]
    return (_score("Accuracy", *right), _score("Log score", *logs), _score("Brier score", *brier))


def _score(name: str, own: Array, base: Array) -> Score:
    return Score(
        name, float(own.mean()), _error(own), float(base.mean()), float((own - base).mean()), _error(own - base)
    )


def _error(values: Array) -> float:
    """Standard error of a mean; unknown where a value is infinite."""
    if len(values) < 2 or not np.isfinite(values).all():
        return float("nan")
    return float(values.std(ddof=1) / np.sqrt(len(values)))


# --- tables -----------------------------------------------------------------------------------------------------


def score_table(material: Material, found: Performance) -> Table:
    """The scores beside those of the base rates."""
    hints = {"Accuracy": "larger is better", "Log score": "larger is better", "Brier score": "smaller is better"}
    heads = [Head("Score", numeric=False), Head("This model"), Head("Base rates alone"), Head("Difference")]
    rows = [
        [
            Cell(f"{it.name} ({hints[it.name]})"),
            numeric(it.value, _with_error(it.value, it.error, it.name)),
            numeric(it.base, _with_error(it.base, np.nan, it.name)),
            numeric(it.gain, _with_error(it.gain, it.gain_error, it.name)),
        ]
        for it in found.scores
    ]
    rows += _auc_rows(material, found)
    return Table.of(f"Scores in {found.said.folds}-fold cross-validation, ± one standard error over rows", heads, rows)


def _with_error(value: float, error: float, name: str) -> str:
    if name == "Accuracy":
        digits = f"{100 * value:.1f}"
        return (
            f"{digits}{NB}%".replace("-", "−")
            if np.isnan(error)
            else f"{digits} ± {100 * error:.1f}{NB}%".replace("-", "−")
        )
    shown = f"{value:.3f}".replace("-", "−")
    return shown if np.isnan(error) else f"{shown} ± {error:.3f}"


def _auc_rows(material: Material, found: Performance) -> list[list[Cell]]:
    rows = []
    classes = [1] if material.two_classes else range(min(len(material.classes), MOST_CLASSES))
    for k in classes:
        inside = int((found.codes == k).sum())
        if inside in {0, len(found.codes)}:
            continue
        area = auc(found.codes == k, found.said.proba[:, k], level=material.settings.level)
        interval = f"{number(area.value)} ({level_name(area.level)}: {number(area.low)} to {number(area.high)})"
        name = f"Area under the ROC curve, {material.event(k)} (larger is better)"
        rows.append(
            [
                Cell(name),
                numeric(area.value, interval),
                Cell("0.5", 0.5),
                Cell(number(area.value - 0.5), area.value - 0.5),
            ]
        )
    return rows


def decision_table(material: Material, found: Performance) -> Table | None:
    """How often each class was taken for which."""
    K = len(material.classes)
    if K > MOST_CLASSES:
        return None
    guess = found.said.proba.argmax(axis=1)
    counts = np.zeros((K, K), dtype=int)
    np.add.at(counts, (found.codes, guess), 1)
    heads = [Head("Recorded", numeric=False), *(Head(f"said {label}") for label in material.labels), Head("right")]
    rows = []
    for k, label in enumerate(material.labels):
        total = int(counts[k].sum())
        share = counts[k, k] / total if total else np.nan
        cells = [Cell(count(int(n)), float(n)) for n in counts[k]]
        rows.append([Cell(label), *cells, numeric(share, percent(share))])
    return Table.of("Recorded class against the most probable one, cross-validated", heads, rows)


def surprising_table(material: Material, found: Performance) -> Table | None:
    """Rows whose recorded label had the least probability: to be looked at again."""
    own = found.said.proba[np.arange(len(found.codes)), found.codes]
    order = [int(i) for i in np.argsort(own, kind="stable")[:SURPRISING] if own[i] < 0.5]
    if not order:
        return None
    names = getattr(material.X, "index", None)
    heads = [Head("Row", numeric=False), Head("Recorded", numeric=False), Head("Its probability"),
             Head("Most probable", numeric=False), Head("Probability")]  # fmt: skip
    rows = []
    for i in order:
        row, best = int(found.said.rows[i]), int(found.said.proba[i].argmax())
        name = str(row if names is None else names[row])
        rows.append(
            [
                Cell(name, float(row)),
                Cell(material.labels[found.codes[i]]),
                numeric(float(own[i]), probability(float(own[i]))),
                Cell(material.labels[best]),
                numeric(float(found.said.proba[i, best]), probability(float(found.said.proba[i, best]))),
            ]
        )
    return Table.of("Rows that the model finds most surprising: outliers, or labels worth a second look", heads, rows)


# --- words ------------------------------------------------------------------------------------------------------


def headline(material: Material, found: Performance | Failed) -> str:
    """How well it predicts, in two sentences."""
    if isinstance(found, Failed):
        return f"How well this model predicts rows that it has not seen is not known: {found.reason}"
    right, log = found.accuracy, found.log_score
    most = material.event(int(np.bincount(material.codes).argmax()))
    words = (
        f"For {percent(right.value)} of the rows that it had not seen, the class that the model thought most probable "
        f"was the right one (always saying {most}: {percent(right.base)})."
    )
    own, base = np.exp(log.value), np.exp(log.base)
    return (
        f"{words} It gave the recorded class a probability of {own:.2f} on geometric average, where the base rates "
        f"alone give {base:.2f}. {_gain(log)}"
    )


def _gain(log: Score) -> str:
    if np.isnan(log.gain_error):
        return "Some rows had no probability at all under the model." if not np.isfinite(log.gain) else ""
    z = log.gain / log.gain_error if log.gain_error > 0 else np.inf
    if z > 4:
        return "The columns clearly tell something about the classes."
    if z > 2:
        return "The columns tell something about the classes."
    if z > -2:
        return "That is no clear gain over knowing the base rates alone."
    return "That is worse than knowing the base rates alone: do not use it for prediction."


def calibration_words(material: Material, found: Performance) -> str:
    """Whether probabilities can be taken at their word."""
    if len(found.codes) < CALIBRATION_ROWS:
        return f"With {counted(len(found.codes), 'row')} little can be said about calibration."
    curve = _curve(material, found)
    inside = f"{int(curve.inside.sum())} of {counted(len(curve.count), 'group')} of rows"
    where = f"{inside} lie in the band where a calibrated model would be"
    labels = np.arange(len(material.classes))
    error = calibration_error(found.codes, found.said.proba, _bins(found), labels=labels)
    typical = f"on average a stated probability of the most probable class is off by {percent(error)}"
    try:
        test = calibration_test(found.codes, found.said.proba, labels=labels)
    except CrediblyError:  # certain everywhere, and right: nothing to test
        return f"Of the probabilities, {where}; {typical}."
    p = f"Spiegelhalter's test: {p_value(test.pvalue)}"
    if test.pvalue < SUSPICIOUS:
        how = "too sure of themselves" if test.statistic > 0 else "too timid"
        verdict = f"Take the probabilities with care: they are {how} ({p}): {where}"
    elif _outside(curve, material.settings.level):
        verdict = f"Take the probabilities with care: only {where}, though a test of all rows together finds nothing "
        verdict += f"({p})"
    else:
        verdict = f"The probabilities can be taken at their word, as far as these rows can tell ({p}): {where}"
    return f"{verdict}, and {typical}, noise included."


def _bins(found: Performance) -> int:
    return 10 if len(found.codes) >= 200 else 5


def _curve(material: Material, found: Performance) -> ReliabilityCurve:
    labels, level = np.arange(len(material.classes)), material.settings.level
    return reliability_curve(found.codes, found.said.proba, _bins(found), level=level, labels=labels)


def _outside(curve: ReliabilityCurve, level: float) -> bool:
    """Whether fewer groups lie in their bands than chance would have it for a calibrated model."""
    return bool(binom.cdf(int(curve.inside.sum()), len(curve.count), level) < SUSPICIOUS)


def calibration_doubtful(material: Material, found: Performance) -> bool:
    """Whether the test of calibration fails, or too few groups of rows are where they should be."""
    if len(found.codes) < CALIBRATION_ROWS:
        return False
    try:
        test = calibration_test(found.codes, found.said.proba, labels=np.arange(found.said.proba.shape[1]))
    except CrediblyError:
        return False
    return bool(test.pvalue < SUSPICIOUS) or _outside(_curve(material, found), material.settings.level)
