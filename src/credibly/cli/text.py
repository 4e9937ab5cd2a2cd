"""What commands say: sentences and small tables."""

from __future__ import annotations

import math
import shutil
import sys
from typing import TYPE_CHECKING

import numpy as np

from credibly.tables import ColumnsDesign, TableModel
from credibly.tables.target import as_array, labels
from credibly.wording import shortened

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from credibly.cli.reading import Table
    from credibly.comparison import Comparison
    from credibly.tables import TableComparison

MOST_NAMES = 12
MOST_LINES = 80


def fit_text(model: TableModel, table: Table, found: TableComparison | None, level: float, last: list[str]) -> str:
    """What was read, what was learnt, and what is said in the end."""
    lines = [
        *table.notes,
        describe_target(model.target, table.frame),
        *describe_columns(model),
        *model.notes,
    ]
    if found is not None:
        best = found.comparison.best_
        lines += ["", comparison_text(found.comparison), "", f"auto: this is {best}, which comes first.", ""]
    return "\n".join([*lines, summary_text(model, level), *last])


def summary_text(model: TableModel, level: float) -> str:
    """The table of what was learnt, cut where it is long."""
    lines = str(model.summary(level)).splitlines()
    if len(lines) <= MOST_LINES:
        return "\n".join(lines)
    cut = len(lines) - MOST_LINES
    return "\n".join([*lines[: MOST_LINES - 10], f"… {cut} more lines; --json has all …", *lines[-10:]])


def saved_text(out: Path | None) -> list[str]:
    """Where a model went."""
    if out is None:
        return ["Not saved: --out model.credibly keeps the model."]
    return [f"Saved to {out}. Next: credibly predict {out} NEW.csv --out predictions.csv"]


def comparison_text(comparison: Comparison) -> str:
    """The table of a comparison, in as many columns as the terminal has room for."""
    whole = comparison.to_text()
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
    wide = max(map(len, whole.splitlines()[1:4])) > room  # the rules and headings; notes may wrap
    return comparison.to_text(narrow=True) if wide else whole


def describe_target(target: str, frame: pd.DataFrame) -> str:
    """The classes and how many rows each has."""
    found, counts = np.unique(as_array(labels(frame, target).dropna()), return_counts=True)
    shares = [f"{label} ({count:,})" for label, count in zip(found, counts, strict=True)]
    return f"Target {target}: {shortened(shares, MOST_NAMES)}."


def describe_columns(model: TableModel) -> list[str]:
    """Which columns a model reads, and as what."""
    design = model.design
    if not isinstance(design, ColumnsDesign):
        return [f"Formula: {design.formula}", f"Columns: {shortened(design.names, MOST_NAMES)}."]
    said = []
    for kind, word in (("number", "Numbers"), ("flag", "Yes/no")):
        names = [column.name for column in design.columns if column.kind == kind]
        said += [f"{word}: {shortened(names, MOST_NAMES)}."] if names else []
    levels = [f"{it.name} ({shortened(it.levels, 6)})" for it in design.columns if it.kind == "category"]
    return said + ([f"Categories: {shortened(levels, MOST_NAMES)}."] if levels else [])
