"""Predictions from file to file, a batch of rows at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from credibly.cli.printable import printable
from credibly.cli.reading import ReadOptions, columns_of, read_batches
from credibly.cli.shell import Outcome
from credibly.data.progress import Progress
from credibly.data.table_files import TableWriter
from credibly.errors import DataWarning, TableError
from credibly.numerics.arrays import AnyArray
from credibly.tables import ColumnsDesign, TableModel
from credibly.tables.design import check_sources_named
from credibly.wording import shortened

if TYPE_CHECKING:
    import pandas as pd


class Output(NamedTuple):
    """What is written, and where."""

    path: str
    overwrite: bool
    level: float
    keep: list[str]


class Tally(NamedTuple):
    """What predictions came to: rows, rows left empty, and where the truth is known how good they were."""

    rows: int = 0
    empty: int = 0
    known: int = 0
    log_score: float = 0.0  # summed
    right: int = 0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            self.rows + other.rows,
            self.empty + other.empty,
            self.known + other.known,
            self.log_score + other.log_score,
            self.right + other.right,
        )

    def outcome(self, out: str, target: str) -> Outcome:
        """For scripts and for people."""
        result: dict[str, object] = {"rows": self.rows, "not_predicted": self.empty}
        said = [f"{self.rows:,} rows predicted, written to {out}."]
        if self.empty:
            said.append(f"{self.empty:,} of them lack a cell that the model needs and are empty.")
        if self.known:
            result["score"] = {
                "rows": self.known,
                "log_score": self.log_score / self.known,
                "accuracy": self.right / self.known,
            }
            said.append(
                f"{target} is known for {self.known:,} rows: {self.right / self.known:.1%} predicted rightly, mean log "
                f"probability of the truth {self.log_score / self.known:.4f}."
            )
        return Outcome(result, " ".join(said))


def predict_file(model: TableModel, data: str, options: ReadOptions, output: Output) -> Outcome:
    """Predict every row of a file into another."""
    present = columns_of(data, options)
    check_sources_named(present, model.design.sources)
    taken = set(output.keep) & set(output_columns(model, output.level))
    if taken:
        raise TableError(f"--keep {', '.join(sorted(taken))}: the predictions have columns of these names.")
    wanted = [*model.design.sources, *output.keep, *([model.target] if model.target in present else [])]
    tally = Tally()
    with (
        Progress(1, printable(f"predicting {data}"), "B", shown=True) as bar,
        TableWriter(output.path, overwrite=output.overwrite) as writer,
    ):
        batches = read_batches(
            data, columns=list(dict.fromkeys(wanted)), types=types_of(model), options=options, progress=bar.reach
        )
        for batch in batches:
            found = model.predict_table(batch, output.level)
            if model.classes_.dtype == bool:  # as the columns p_False and p_True name them
                found["prediction"] = found["prediction"].map(str, na_action="ignore")
            writer.write(batch[output.keep].join(found))
            tally = tally.plus(Tally(len(found), int(found["prediction"].isna().sum()), *score(model, batch, found)))
    return tally.outcome(output.path, model.target)


def output_columns(model: TableModel, level: float) -> list[str]:
    """The columns of the predictions."""
    from credibly.estimators.outputs import output_names

    return output_names(model.classes_, level)


def types_of(model: TableModel) -> dict[str, str]:
    """What the cells of each column must be, so that every batch has the types of the training table."""
    design = model.design
    kinds = [(it.name, it.kind) for it in design.columns] if isinstance(design, ColumnsDesign) else design.kinds
    found = {name: "number" if kind == "number" else "text" for name, kind in kinds}
    return found | {model.target: "text"}


def score(model: TableModel, batch: pd.DataFrame, found: pd.DataFrame) -> tuple[int, float, int]:
    """Where the truth is known: how many rows, the sum of its log probabilities, how many were predicted rightly."""
    if model.target not in batch.columns:
        return 0, 0.0, 0
    labels = [str(label) for label in model.classes_.tolist()]
    truth = batch[model.target].astype(object).map(reader_of(model.classes_), na_action="ignore")
    strange = sorted(set(truth.dropna()) - set(labels))
    if strange:
        warnings.warn(
            f"{model.target} holds {shortened(strange, show=repr)}, which the model does not know; such rows are not "
            "scored.",
            DataWarning,
            stacklevel=2,
        )
    known = truth.isin(labels).to_numpy() & found["prediction"].notna().to_numpy()
    codes = truth[known].map({label: code for code, label in enumerate(labels)}).to_numpy(dtype=int)
    proba = found[[f"p_{label}" for label in labels]].to_numpy(dtype=float)[known]
    if len(codes) and np.any(getattr(model.model, "label_noise_", 0.0)):  # the table has labels as they were recorded
        proba = model.model.predict_recorded_proba(model.matrix(batch[known]))
    chosen = proba[np.arange(len(codes)), codes]
    log_p = np.log(np.where(chosen > 0.0, chosen, 1.0))
    if lost := np.flatnonzero(chosen == 0.0).tolist():  # below 1e-308: the logarithm is known all the same
        again = model.predict_log_proba(batch[known].iloc[lost])
        log_p[lost] = again[np.arange(len(lost)), codes[lost]]
    return len(codes), float(log_p.sum()), int((proba.argmax(axis=1) == codes).sum())


def reader_of(classes: AnyArray) -> Callable[[object], str]:
    """How the text of a cell becomes a label, as it did in training: 1e0, +1 and 01 are the label 1."""
    if classes.dtype == bool:
        return lambda cell: str(cell).strip().capitalize()
    numbers = {_number(label): str(label) for label in classes.tolist()}
    if None in numbers:  # labels that are words
        return str
    return lambda cell: numbers.get(_number(cell), str(cell))


def _number(cell: object) -> float | None:
    try:
        return float(str(cell))
    except ValueError:
        return None
