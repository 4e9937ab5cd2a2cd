"""Models that take tables as they come: what is inside them, their rows, and how a raw row becomes numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from credibly.numerics.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

FORMULA = (
    "The columns come from a formula, which only the library can carry out: scoring begins from the features, in the "
    "order listed, and not from the raw row."
)
NEW_LEVELS = {
    "indicators": "A level that is not listed sets no indicator: no level's effect is added.",
    "reference": "A level that is not listed cannot be scored: zeros in all indicators mean the first level.",
}


def is_table_model(model: Any) -> bool:
    """Whether a model is a `credibly.tables.TableModel`; told by its parts, so that pandas is not imported for it."""
    return hasattr(model, "design") and hasattr(model, "target") and hasattr(model, "model")


def without_table(model: Any) -> Any:
    """The estimator itself."""
    return model.model if is_table_model(model) else model


def takes_raw_rows(model: Any) -> bool:
    """Whether a document can say how a raw row becomes numbers."""
    return is_table_model(model) and hasattr(model.design, "columns")


def labelled_rows(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Rows and labels as the estimator takes them; a table with its target has both."""
    if X is None or not is_table_model(model):
        return X, y
    if y is None and model.target in X.columns:
        rows = model.training_rows(X)
        return rows.X, rows.y
    return model.matrix(X), y


def describe_table(model: Any) -> dict[str, Any]:
    """How a raw row becomes the features of a document, as plain data."""
    if not takes_raw_rows(model):
        formula = getattr(model.design, "formula", None)
        return {"target": model.target, "design": {"kind": "formula", "formula": formula, "note": FORMULA}}
    filling = dict(model.filling.values)
    columns = [_column(column, model.design.encoding, filling) for column in model.design.columns]
    note = NEW_LEVELS.get(model.design.encoding, "")
    return {"target": model.target, "design": {"kind": "columns", "columns": columns, "note": note}}


def _column(column: Any, encoding: str, filling: dict[str, Any]) -> dict[str, Any]:
    """One column: its kind, the levels that have an indicator, what stands in for a missing cell."""
    described: dict[str, Any] = {"name": column.name, "kind": column.kind}
    if column.kind == "category":
        described["levels"] = list(column.levels)
        described["indicators"] = list(column.levels[1:] if encoding == "reference" else column.levels)
    if column.name in filling:
        described["missing"] = filling[column.name]
    return described


def raw_rows(model: Any, X: Array) -> pd.DataFrame:
    """Rows of raw cells made up from rows of features: numbers as they are, levels and flags in turn."""
    import pandas as pd

    place = {name: j for j, name in enumerate(model.design.names)}
    cells: dict[str, list[Any]] = {}
    for turn, column in enumerate(model.design.columns):
        if column.kind == "category":
            cells[column.name] = [column.levels[(i + turn) % len(column.levels)] for i in range(len(X))]
        elif column.kind == "flag":
            cells[column.name] = [(i + turn) % 2 == 0 for i in range(len(X))]
        else:
            cells[column.name] = X[:, place[column.name]].tolist()
    return pd.DataFrame(cells)
