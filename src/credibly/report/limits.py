"""What the model cannot tell, chosen by what is true of these data."""

from __future__ import annotations

from typing import Any

import numpy as np

from credibly.diagnostics.separation import separation
from credibly.errors import CrediblyError
from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.generative import NaiveBayes
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.estimators.glm import BayesianGLM
from credibly.estimators.linear_classifier import LinearClassifier
from credibly.report.glance import missing_cells
from credibly.report.material import Material
from credibly.report.performance import Failed, Performance, calibration_doubtful
from credibly.report.trust import Trust
from credibly.report.words import counted, listed, number

SMALL_CLASS, RARE = 30, 0.1  # rows, and share, below both of which a class is called small
FEW_ROWS = 10  # for each column and class
ALIKE = 0.95  # correlation from which on two columns say nearly the same
MOST_CELLS = 2_000_000  # of a table in which separation and correlations are looked for
MOST_COLUMNS = 500


def limits(material: Material, found: Performance | Failed, certificate: Trust) -> list[tuple[str, str]]:
    """The warnings that apply, general ones first."""
    said = [_association(material), _exchangeable(), _range(material)]
    said += [
        it
        for it in (
            _small(material),
            _few_rows(material),
            _separated(material),
            _alike(material),
            _shape(material),
            _labels(material),
            _gaps(material),
            _calibration(material, found),
            _approximation(certificate),
        )
        if it is not None
    ]
    return said


def _association(material: Material) -> tuple[str, str]:
    return (
        "Association is not cause.",
        "The model says how probable a class is for a row with given columns. It does not say what would happen if "
        "somebody changed a column.",
    )


def _exchangeable() -> tuple[str, str]:
    return (
        "The rows are taken to be alike.",
        "New rows must come from where these came from, in the same way. Rows that belong together (one patient "
        "twice, one day after the other) make everything here look surer than it is, cross-validation included.",
    )


def _range(material: Material) -> tuple[str, str]:
    where = "Beyond the range of the columns in the table above"
    if isinstance(material.model, GaussianProcessResults):
        return (
            "Far from the rows it knows nothing.",
            f"{where} the probabilities drift back to those of the prior; they are no knowledge about such rows.",
        )
    if isinstance(material.model, GenerativeClassifierBase):
        return (
            "Far from the rows it is sure for no reason.",
            f"{where} the tails of the assumed distributions decide. score_samples tells how unusual a row is.",
        )
    if material.about.bent:
        return (
            "Beyond the data it goes on by the formula.",
            f"{where} the score is continued as the formula has it, and the probability goes to 0 or 1, whether that "
            "is true or not.",
        )
    return (
        "Beyond the data it draws straight lines.",
        f"{where} the score is continued as a straight line, and the probability goes to 0 or 1, whether that is true "
        "or not.",
    )


def _small(material: Material) -> tuple[str, str] | None:
    counts = np.bincount(material.codes, minlength=len(material.classes))
    small = [k for k, n in enumerate(counts) if n < SMALL_CLASS and n / counts.sum() < RARE]
    if not small or len(small) == len(counts):
        return None
    said = listed([f"{material.event(k)} ({counted(int(counts[k]), 'row')})" for k in small])
    return "Some classes are small.", f"Little is known of {said}; scores over all rows hardly notice them."


def _few_rows(material: Material) -> tuple[str, str] | None:
    smallest = int(np.bincount(material.codes, minlength=len(material.classes)).min())
    d = len(material.names)
    if smallest >= FEW_ROWS * d:
        return None
    return (
        "There are many columns for so few rows.",
        f"The smallest class has {counted(smallest, 'row')} for {counted(d, 'column')} of the model. What is said of "
        "single columns leans on the prior, and which of them come first may change with a few rows more.",
    )


def _not_looked_for(why: str) -> tuple[str, str]:
    return (
        "Whether the classes are separated was not looked for.",
        "Where a combination of columns tells them without error, weights and their intervals are the prior's doing "
        f"({why}).",
    )


def _separated(material: Material) -> tuple[str, str] | None:
    if not isinstance(material.model, LinearClassifier | BayesianGLM):
        return None
    X = material.complete
    if X is None or X.size > MOST_CELLS:
        return _not_looked_for("the table is too large, or has gaps")
    try:
        found = separation(material.rows_like(X), material.y)
    except CrediblyError as error:
        return _not_looked_for(str(error))
    if not found:
        return None
    names = [name if isinstance(name, str) else material.names[name] for name in found.columns]
    unbounded = "The likelihood then puts no bound on"
    if found.kind != "complete":
        rows = f" ({len(found.rows)} of {len(material.codes)})" if len(found.rows) else ""
        return (
            f"Some rows can be told without error{rows}.",
            f"{_combination(names)} does it for them, and for the others not (quasi-complete separation). {unbounded} "
            "some weights: how large these are, and how sure the probabilities of such rows, is the prior's doing.",
        )
    return (
        "The classes can be told apart without error in these rows.",
        f"{_combination(names)} does it (complete separation). {unbounded} the "
        "weights: how large they are, and how sure the probabilities, is the prior's doing.",
    )


def _combination(names: list[str]) -> str:
    if not names:
        return "The intercept alone"
    return names[0] if len(names) == 1 else f"A combination of {listed(names)}"


def _alike(material: Material) -> tuple[str, str] | None:
    X = material.complete
    weights = isinstance(material.model, LinearClassifier | BayesianGLM | NaiveBayes)
    if X is None or not weights or X.size > MOST_CELLS or not 1 < X.shape[1] <= MOST_COLUMNS:
        return None
    varied = np.flatnonzero(X.std(axis=0) > 0)
    if len(varied) < 2:
        return None
    r = np.triu(np.corrcoef(X[:, varied].T), 1)
    one = {j: it.column for it in material.groups for j in it.places}  # levels of one category say the same anyway
    found = zip(*np.nonzero(np.abs(r) > ALIKE), strict=True)
    apart = [(i, j) for i, j in found if one.get(varied[i], i) != one.get(varied[j], j)]
    pairs = sorted(apart, key=lambda ij: -abs(r[ij]))
    if not pairs:
        return None
    said = listed(
        [
            f"{material.names[varied[i]]} and {material.names[varied[j]]} ({number(float(r[i, j]), 2)})"
            for i, j in pairs
        ],
        4,
    )
    if isinstance(material.model, NaiveBayes):
        what = "naive Bayes counts their evidence twice, and is surer than it should be"
    else:
        what = "their effects are hard to tell apart, and one may stand in for the other"
    return "Some columns say nearly the same.", f"Correlations: {said}; {what}."


def _shape(material: Material) -> tuple[str, str] | None:
    model = material.model
    if isinstance(model, LinearClassifier | BayesianGLM) and material.about.bent:
        return (
            "Effects have the shapes that the formula gives them.",
            f"{listed(material.about.bent)}: there the formula bends or multiplies columns. Other columns enter as "
            "straight lines, and a shape that the formula does not have is not seen. A single column of such a term "
            "does not change alone: read them together.",
        )
    if isinstance(model, LinearClassifier | BayesianGLM):
        return (
            "Effects are straight lines and do not depend on each other.",
            "A column that matters only in the middle of its range, or only together with another, is not seen unless "
            "such columns are added. A Gaussian process, or a comparison with one, tells whether that would help.",
        )
    if isinstance(model, NaiveBayes):
        return (
            "Columns are taken to be independent within a class.",
            "They seldom are; the order of the probabilities often survives that, their size does not.",
        )
    return None


def _labels(material: Material) -> tuple[str, str] | None:
    model: Any = material.model
    if not hasattr(model, "label_noise"):
        return None
    if np.any(getattr(model, "label_noise_", 0.0)):
        return None
    return (
        "Labels are taken at their word.",
        "If some were recorded wrongly, effects are understated and the surest probabilities are too sure; "
        "label_noise='estimate' asks the data how many.",
    )


def _gaps(material: Material) -> tuple[str, str] | None:
    gaps = missing_cells(material)
    if not gaps:
        return None
    if isinstance(material.model, GenerativeClassifierBase):
        how = (
            "Missing cells are integrated out, which is right if they are missing for reasons unrelated to their value"
        )
    else:
        how = "What was done about them is told under the data; the uncertainty about filled-in cells is not counted"
    return "Cells are missing.", f"{counted(gaps, 'cell')} of the table. {how}."


def _calibration(material: Material, found: Performance | Failed) -> tuple[str, str] | None:
    if isinstance(found, Failed):
        return "It was not tried on new rows.", f"Cross-validation was not possible. {found.reason}"
    if not calibration_doubtful(material, found):
        return None
    return (
        "Its probabilities are not well calibrated.",
        "On rows it had not seen, what it said and what happened differ by more than chance would have it. Recalibrate "
        "it, or compare it with another model.",
    )


def _approximation(certificate: Trust) -> tuple[str, str] | None:
    if certificate.reliable is False:
        return (
            "The posterior is not the exact one.",
            "The certificate does not hold: intervals, and how sure a direction is, may be wrong.",
        )
    return None
