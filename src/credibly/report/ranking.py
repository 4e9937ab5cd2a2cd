"""The comparison with other models, as a table and in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from credibly.numerics.weighted_draws import RELIABLE
from credibly.report.tables import Cell, Head, Table, numeric
from credibly.report.words import count, number, probability

HEADS = {  # column of a comparison: heading
    "log_evidence": "Log evidence",
    "log_evidence_se": "±",
    "log_bayes_factor": "Log Bayes factor",
    "probability": "Probability",
    "loo": "Leave-one-out",
    "bic": "BIC",
    "effective_parameters": "Parameters",
    "khat": "k-hat",
}
# Kass & Raftery (1995), for differences of log evidence.
STRENGTH = ((5.0, "very strong"), (3.0, "strong"), (1.0, "positive"))


def ranking_table(comparison: Any) -> Table:
    """The models, best first; columns that no model has are left out."""
    known = {
        name: heading
        for name, heading in HEADS.items()
        if not np.isnan(np.asarray(comparison.columns[name], dtype=float)).all()
    }
    several = len(set(comparison.columns["kind"])) > 1
    heads = [Head("Model", numeric=False), *([Head("Kind", numeric=False)] if several else [])]
    heads += [Head(heading) for heading in known.values()]
    rows = []
    for i, row in enumerate(comparison.rows):
        cells = [_cell(name, float(comparison.columns[name][i])) for name in known]
        rows.append([Cell(row.name), *([Cell(row.kind)] if several else []), *cells])
    return Table.of(f"Models ranked by {comparison.by.replace('_', ' ')}, best first", heads, rows)


def _cell(name: str, value: float) -> Cell:
    if name == "probability":
        return numeric(value, probability(value))
    if name in {"log_evidence_se", "khat", "effective_parameters"} or np.isnan(value):
        return numeric(value, number(value, 2))
    return numeric(value, f"{value:,.1f}".replace("-", "−"))


def ranking_words(comparison: Any) -> tuple[str, ...]:
    """Which model is best, and by how much."""
    rows = [row for row in comparison.rows if not np.isnan(row.score(comparison.by))]
    said = [f"The best of {count(len(comparison.rows))} models is {comparison.best_}."]
    if len(rows) > 1:
        gap = rows[0].score(comparison.by) - rows[1].score(comparison.by)
        ahead = f"It is {number(float(gap), 2)} nats ahead of {rows[1].name}"
        why = _unsettled(rows[0], rows[1], comparison.by, float(gap))
        strength = next((word for limit, word in STRENGTH if gap >= limit), None)
        verdict = f"{strength} evidence" if strength else "hardly worth mentioning"
        said.append(f"{ahead}, but the order is not settled: {why}." if why else f"{ahead}: {verdict}.")
    return (*said, *comparison.notes)


def _unsettled(best: Any, second: Any, by: str, gap: float) -> str:
    """Why the numbers of two models do not settle which is better; nothing where they do."""
    if by == "bic":
        return ""
    why = []
    for row in (best, second):
        khat = row.evidence.khat
        if row.evidence.doubt is not None or khat > RELIABLE:
            known = "" if np.isnan(khat) else f" (k-hat {number(khat, 2)})"
            why.append(f"the number of {row.name} is not reliable{known}")
        elif by != "loo" and row.evidence.se > gap:
            why.append(f"that of {row.name} is known to ± {number(row.evidence.se, 2)} only")
    return " and ".join(why)
