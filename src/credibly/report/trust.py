"""How far the approximation can be trusted: the certificate, in words."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from credibly.diagnostics.cross_validation import stratified_sample, take_rows
from credibly.errors import CrediblyError, NotDefinedError
from credibly.estimators.certificate import Certificate
from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.estimators.model_average import ModelAverage
from credibly.numerics.arrays import Array
from credibly.numerics.weighted_draws import RELIABLE
from credibly.report.material import Material
from credibly.report.tables import Cell, Head, Table, numeric
from credibly.report.words import count, number

MOST_ROWS, PROCESS_ROWS = 200_000, 2_000  # beyond which a certificate takes minutes
KHAT_ROWS = 300  # predictions whose own k-hat is shown
VERDICTS = (  # for the top of the page: a word, and a sentence
    ("holds", "Its intervals come from an approximation that was checked, and holds."),
    ("once corrected", "Its intervals come from an approximation that holds once it is corrected."),
    ("does not hold", "Its intervals are not to be relied on: the approximation behind them does not hold."),
)
DRAWN = (  # the same where the posterior itself was drawn from
    ("exact", "Its intervals come from draws of the posterior itself."),
    ("does not hold", "Its intervals are not to be relied on: the chains of its draws do not agree."),
)


class Trust(NamedTuple):
    """The verdict, where there is one, and what is behind it."""

    short: str  # for the top of the page
    sentence: str  # for the headline
    words: tuple[str, ...]
    table: Table | None = None
    corrected: Table | None = None
    khats: Array | None = None  # (m,), of single predictions
    reliable: bool | None = None  # None: nothing was checked


def trust(material: Material) -> Trust:
    """Certify the model on its rows; say what is exact and what is approximated where there is no certificate."""
    model, n = material.model, len(material.codes)
    if not hasattr(model, "certify"):
        return _without(material)
    limit = PROCESS_ROWS if isinstance(model, GaussianProcessResults) else MOST_ROWS
    if n > limit:
        return Trust(
            "not checked",
            "How close its approximation is to the exact posterior was not checked.",
            (f"The certificate was left out: with more than {count(limit)} rows it takes minutes. "
             "model.certify(X, y) makes it.",),
        )  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            certificate = model.certify(material.X, material.y, random_state=material.settings.seed)
            khats = None if np.isnan(certificate.khat) else _khats(material, certificate)
        except (CrediblyError, NotImplementedError) as error:
            return Trust("none", "There is no certificate of its posterior.", (f"There is no certificate: {error}",))
    doubts = tuple(dict.fromkeys(str(it.message) for it in caught))
    return _certified(material, certificate, khats, doubts)


def _without(material: Material) -> Trust:
    model = material.model
    if isinstance(model, ModelAverage):
        return Trust(
            "of its parts",
            "",
            ("An average of models has no certificate of its own; its weights come from the evidence (or scores) of "
             "its parts, which are corrected by the certificate's draws where those can be relied on.",),
        )  # fmt: skip
    if isinstance(model, GenerativeClassifierBase) and model.parameters == "integrated":
        words = [
            "There is nothing to certify: the parameters are integrated out in closed form, so the probabilities are "
            "exact for this model and prior. What can be wrong is the model itself: the assumed distribution of the "
            "columns within each class, which calibration shows."
        ]
        if getattr(model, "_completed", False):
            words.append(
                "Missing cells or labels were completed by an EM iteration, which is approximate: the uncertainty "
                "about them is not fully counted."
            )
        return Trust("exact", "Its integrals are exact, given the model.", tuple(words))
    return Trust(
        "estimates only",
        "Its parameters are estimates, whose uncertainty is not counted.",
        ("The parameters are estimates, put in as if they were known: probabilities do not count the uncertainty about "
         "them, and there is no posterior to certify.",),
    )  # fmt: skip


def _khats(material: Material, certificate: Certificate) -> Array:
    rows = stratified_sample(np.random.default_rng(material.settings.seed), material.codes, KHAT_ROWS)
    return np.asarray(certificate.predict_khat(take_rows(material.X, rows)))


def _certified(material: Material, it: Certificate, khats: Array | None, doubts: tuple[str, ...]) -> Trust:
    if khats is None:
        short, sentence = DRAWN[not it.reliable]
        return Trust(short, sentence, (it.verdict, *doubts), _table(_of_draws(it)), reliable=it.reliable)
    short, sentence = VERDICTS[2 if not it.reliable else 0 if it.accurate else 1]
    above = int((khats > RELIABLE).sum())
    rows = (
        f"Of {count(len(khats))} predictions looked at one by one, "
        + ("none has" if not above else f"{count(above)} {'has' if above == 1 else 'have'}")
        + f" a k-hat above {RELIABLE}."
    )
    corrected = None if it.accurate or not it.reliable else _corrected(material, it)
    table = _table(_of_weights(material.model, it))
    return Trust(short, sentence, (it.verdict, rows, *doubts), table, corrected, khats, it.reliable)


def _table(rows: list[list[Cell]]) -> Table:
    return Table.of("The certificate in numbers", [Head("Quantity", numeric=False), Head("Value")], rows)


def _of_draws(it: Certificate) -> list[list[Cell]]:
    return [_worth(it), *([[Cell("Log evidence of the model"), _corrected_evidence(it)]] if it.reliable else [])]


def _of_weights(model: Any, it: Certificate) -> list[list[Cell]]:
    rows = [
        [Cell("k-hat, the tail of the importance weights (up to 0.7 is fine)"), numeric(it.khat, f"{it.khat:.2f}")],
        _worth(it),
        [Cell("Largest shift of a mean, in posterior standard deviations"), numeric(it.shift, number(it.shift, 2))],
        [Cell("Largest factor on a standard deviation"), numeric(it.widening, number(it.widening))],
    ]
    evidence = _evidence(model)
    if evidence is not None:
        rows.append([Cell("Log evidence of the model"), numeric(evidence, f"{evidence:,.2f}".replace("-", "−"))])
    if it.reliable:
        rows.append([Cell("Log evidence, corrected"), _corrected_evidence(it)])
    return rows


def _worth(it: Certificate) -> list[Cell]:
    shown = f"{count(it.draws)}, {count(round(it.ess))}"
    return [Cell("Draws, and how many independent ones they are worth"), numeric(it.draws, shown)]


def _corrected_evidence(it: Certificate) -> Cell:
    shown = f"{it.log_evidence:,.2f} ± {number(it.log_evidence_se, 2)}".replace("-", "−")
    return numeric(it.log_evidence, shown)


def _evidence(model: Any) -> float | None:
    try:
        return float(model.log_evidence_)
    except NotDefinedError:
        return None


def _corrected(material: Material, it: Certificate) -> Table | None:
    """Means and standard deviations of the weights with the approximation's error taken out."""
    posterior, names = material.model.posterior_, _weight_names(material)
    if names is None:
        return None
    heads = [Head("Weight", numeric=False), Head("Mean"), Head("Corrected mean"), Head("Standard deviation"),
             Head("Corrected standard deviation")]  # fmt: skip
    parts = zip(names, posterior.mean, it.mean, posterior.std, it.std, strict=True)
    rows = [[Cell(name), *(numeric(float(value), number(float(value))) for value in values)] for name, *values in parts]
    return Table.of("Weights as the model has them, and corrected", heads, rows)


def _weight_names(material: Material) -> list[str] | None:
    """Names of the weights of a linear model, with their class where each has its own; None for others."""
    if not hasattr(material.model, "_weight_names"):
        return None
    names: list[str] = material.model._weight_names()
    if material.model.fit_.shape.n_outputs == 1:
        return names
    return [f"{label}: {name}" for label in material.labels for name in names]
