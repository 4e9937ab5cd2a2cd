"""Learning from a table: labels, columns, gaps, then the model's own fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from credibly.errors import TableError
from credibly.estimators.generative import GenerativeClassifier, NaiveBayes
from credibly.estimators.validation import unfitted
from credibly.model.priors import Jeffreys
from credibly.numerics.arrays import AnyArray
from credibly.tables.columns import Column, Used, choose, column_of
from credibly.tables.design import ColumnsDesign
from credibly.tables.fingerprint import Fingerprint
from credibly.tables.formula import FormulaDesign, target_of
from credibly.tables.missing import Filling, check_policy, counts, refuse, takes_missing
from credibly.tables.model import Choices, TableModel
from credibly.tables.target import Labelled, as_array, labelled

if TYPE_CHECKING:
    import pandas as pd

TAKES_CATEGORIES = (NaiveBayes, GenerativeClassifier)


class Prepared(NamedTuple):
    """A table that an estimator can learn from."""

    design: ColumnsDesign | FormulaDesign
    table: Labelled
    target: str
    data: Fingerprint
    filling: Filling
    complete: bool  # whether rows that lack a cell were left out

    def model(self, fitted: Any) -> TableModel:
        """A fitted estimator with the way a table becomes its columns."""
        return TableModel(
            self.design, fitted, self.target, self.data, self.filling, self.table.notes, complete=self.complete
        )

    def fit(self, estimator: Any) -> TableModel:
        """Learn."""
        X = self.design.matrix(self.filling(self.table.frame))
        chosen = without_intercept(estimator, self.design)
        return self.model(unfitted(chosen).fit(X, as_array(self.table.y)))


def prepare(estimator: Any, frame: pd.DataFrame, target: str | None, choices: Choices = Choices()) -> Prepared:
    """Labels, columns and gaps of a training table, as the estimator needs them.

    Parameters
    ----------
    estimator : classifier
    frame : DataFrame
    target : str or None
        None where a formula names it.
    choices : Choices
    """
    check_policy(choices.missing)
    if choices.formula is not None:
        return _by_formula(estimator, frame, target, choices)
    if target is None:
        raise TableError("Name the target: the column that holds the class.")
    table, policy = labelled(frame, target), _policy(estimator, choices)
    used = choose(table.frame, target, choices.features, choices.exclude)
    if policy == "drop":
        # Levels, and whether a column is of use, are those of the rows that are left.
        table = _complete_rows(table, tuple(column.name for column in used.columns))
        again = choose(table.frame, target, choices.features, [*choices.exclude, *used.dropped])
        used = Used(again.columns, {**used.dropped, **again.dropped})
    said = tuple(f"Not used: {name}, which {why}." for name, why in used.dropped.items())
    design = ColumnsDesign(used.columns, encoding_for(estimator))
    return _prepared(design, used.columns, table._replace(notes=table.notes + said), target, policy)


def _by_formula(estimator: Any, frame: pd.DataFrame, target: str | None, choices: Choices) -> Prepared:
    assert choices.formula is not None
    if choices.features is not None or choices.exclude:
        raise TableError("A formula says which columns are used; leave features and exclude out.")
    named = target_of(choices.formula)
    if named is None and target is None:
        raise TableError(f"The formula {choices.formula!r} names no target: write it as 'target ~ columns'.")
    if named is not None and target is not None and named != target:
        raise TableError(f"The formula's target is {named!r}, but {target!r} was named as the target.")
    target = named or target
    assert target is not None
    table, policy = labelled(frame, target), _policy(estimator, choices)
    reference = encoding_for(estimator) == "reference"
    design = FormulaDesign.of(choices.formula, table.frame, reference=reference)
    if policy == "drop":  # levels, knots and polynomials are those of the rows that are left
        table = _complete_rows(table, design.sources)
        design = FormulaDesign.of(choices.formula, table.frame, reference=reference)
    columns = tuple(column_of(table.frame[name]) for name in design.sources)
    return _prepared(design, columns, table, target, policy)


def _policy(estimator: Any, choices: Choices) -> str | None:
    """What to do with gaps; None where the estimator takes them as they are."""
    return None if takes_missing(estimator) and choices.missing != "drop" else choices.missing


def _prepared(
    design: ColumnsDesign | FormulaDesign,
    columns: tuple[Column, ...],
    table: Labelled,
    target: str,
    policy: str | None,
) -> Prepared:
    data = Fingerprint.of(table.frame[[*design.sources, target]])
    lacking = counts(table.frame, design.sources)
    if policy == "refuse" and lacking:
        refuse(lacking, len(table.y), int(_gaps(table, design.sources).sum()))
    if policy != "impute":
        return Prepared(design, table, target, data, Filling(), policy == "drop")
    cells = ", ".join(f"{name} ({count})" for name, count in lacking.items())
    said = f"{sum(lacking.values())} missing cells were filled in with means and commonest levels: {cells}."
    notes = (*table.notes, said) if lacking else table.notes
    return Prepared(design, table._replace(notes=notes), target, data, Filling.of(table.frame, columns), False)


def encoding_for(estimator: Any) -> str:
    """How categories become columns of this estimator."""
    if isinstance(estimator, TAKES_CATEGORIES):
        return "as they are"
    prior = getattr(estimator, "prior", "")
    flat = (
        prior is None or isinstance(prior, Jeffreys) or getattr(estimator, "parameters", "integrated") != "integrated"
    )
    return "reference" if flat else "indicators"


def without_intercept(estimator: Any, design: ColumnsDesign | FormulaDesign) -> Any:
    """The estimator without an intercept where a formula asks for none."""
    if getattr(design, "has_intercept", True) or not hasattr(estimator, "fit_intercept"):
        return estimator
    return unfitted(estimator).set_params(fit_intercept=False)


def _gaps(table: Labelled, sources: tuple[str, ...]) -> AnyArray:
    lacking: AnyArray = table.frame[list(sources)].isna().any(axis=1).to_numpy()
    return lacking


def _complete_rows(table: Labelled, sources: tuple[str, ...]) -> Labelled:
    """The rows that have every cell; how many do not is told."""
    gaps = _gaps(table, sources)
    if not gaps.any():
        return table
    if gaps.all():
        raise TableError("Every row lacks a cell, so dropping incomplete rows leaves none. Use missing='impute'.")
    said = f"{int(gaps.sum())} of {len(gaps)} rows lack a cell and were left out."
    return Labelled(table.frame[~gaps], table.y[~gaps], (*table.notes, said))
