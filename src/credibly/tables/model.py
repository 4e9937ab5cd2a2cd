"""A classifier together with the way a table becomes its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credibly.errors import NotDefinedError, TableError
from credibly.estimators.outputs import output_names, outputs
from credibly.numerics.arrays import AnyArray, Array
from credibly.tables.design import ColumnsDesign, check_sources
from credibly.tables.fingerprint import Fingerprint
from credibly.tables.formula import FormulaDesign
from credibly.tables.missing import Filling, counts, takes_missing
from credibly.tables.target import as_array, labelled
from credibly.wording import shortened

if TYPE_CHECKING:
    import pandas as pd

    from credibly.estimators.certificate import Certificate
    from credibly.estimators.summary import Summary
    from credibly.report import Report


NOTHING = Filling()


class Choices(NamedTuple):
    """What a user may say of a table.

    Attributes
    ----------
    features : sequence of str, optional
        Only these columns.
    exclude : sequence of str
        Not these columns.
    missing : "refuse" (default), "drop" or "impute"
        What to do with missing cells where the model needs every cell; "drop" holds for every model.
    formula : str, optional
        Instead of columns on their own, such as ``"ill ~ age + C(sex) + poly(dose, 2)"``; see `FormulaDesign`.

    Examples
    --------
    >>> Choices(exclude=["visit_date"], missing="impute").features is None
    True
    """

    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    missing: str = "refuse"
    formula: str | None = None


class Rows(NamedTuple):
    """Rows as an estimator takes them."""

    X: pd.DataFrame
    y: AnyArray


@dataclass(frozen=True)
class TableModel:
    """A fitted classifier that takes tables as they come: numbers, yes/no, categories, extra columns, gaps.

    Attributes
    ----------
    design : ColumnsDesign or FormulaDesign
        How a table becomes the columns of the model; fixed by the training table.
    model : estimator
        Fitted.
    target : str
        Name of the column that holds the class.
    data : Fingerprint
        Of the training table: rows, columns, SHA-256 of the columns that were used.
    filling : Filling
        What stands in for missing cells.
    notes : tuple of str
        What was left out, dropped or filled in.
    complete : bool
        Whether rows that lack a cell were left out of the fit.

    Examples
    --------
    >>> import pandas as pd
    >>> from credibly import BayesianLogisticRegression, Normal
    >>> table = pd.DataFrame(
    ...     {"dose": [1.0, 2, 3, 4, 5, 6], "sex": list("mfmfmf"), "ill": ["no", "no", "yes", "no", "yes", "yes"]}
    ... )
    >>> model = TableModel.fit(BayesianLogisticRegression(prior=Normal(scale=1.0)), table, "ill")
    >>> model.design.names
    ('dose', 'sex=f', 'sex=m')
    >>> model.predict(pd.DataFrame({"sex": ["f", "m"], "dose": [1.0, 6.0]}))
    array(['no', 'yes'], dtype='<U3')
    """

    design: ColumnsDesign | FormulaDesign
    model: Any
    target: str
    data: Fingerprint
    filling: Filling = NOTHING
    notes: tuple[str, ...] = ()
    complete: bool = False

    @classmethod
    def fit(
        cls, estimator: Any, frame: pd.DataFrame, target: str | None = None, choices: Choices = Choices()
    ) -> TableModel:
        """Learn from a table: every column on its own, kinds inferred; or by a formula.

        Parameters
        ----------
        estimator : classifier
            Of this library, unfitted; it is cloned.
        frame : DataFrame
        target : str, optional
            The column that holds the class; a formula may name it instead.
        choices : Choices
            Which columns, and what to do with missing cells.

        Returns
        -------
        TableModel
        """
        from credibly.tables.fitting import prepare

        return prepare(estimator, frame, target, choices).fit(estimator)

    # --- what a model says of a table --------------------------------------------------------------------------

    @property
    def classes_(self) -> AnyArray:
        """The classes, in order."""
        return np.asarray(self.model.classes_)

    def matrix(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The model's columns of a table, gaps filled where training filled them."""
        check_sources(frame, self.design.sources)
        return self.design.matrix(self.filling(frame))

    def predict(self, frame: pd.DataFrame) -> AnyArray:
        """The most probable class of every row."""
        return np.asarray(self.model.predict(complete(self, frame)))

    def predict_log_proba(self, frame: pd.DataFrame) -> Array:
        """log p(class | row), (n, K)."""
        return np.asarray(self.model.predict_log_proba(complete(self, frame)))

    def predict_proba(self, frame: pd.DataFrame) -> Array:
        """p(class | row), (n, K)."""
        return np.exp(self.predict_log_proba(frame))

    def predict_interval(self, frame: pd.DataFrame, level: float = 0.9) -> Array:
        """A credible interval of the probability, (n, 2) for two classes, (n, K, 2) for K."""
        return np.asarray(self.model.predict_interval(complete(self, frame), level=level))

    def predict_table(self, frame: pd.DataFrame, level: float | None = 0.9) -> pd.DataFrame:
        """Predictions as a table: ``prediction``, ``p_<label>``, and intervals.

        Parameters
        ----------
        frame : DataFrame
        level : float or None, default 0.9
            Of the intervals: ``lower, upper`` of P(`classes_[1]`) for two classes, ``lower_<label>, upper_<label>``
            for more. None: no intervals.

        Returns
        -------
        DataFrame
            Indexed as `frame`. Rows that lack a cell the model needs are empty.
        """
        import pandas as pd

        X = self.matrix(frame)
        usable = usable_rows(self.model, X)
        names = output_names(self.classes_, level)
        if not usable.any():
            return pd.DataFrame(np.nan, index=frame.index, columns=names).astype({"prediction": object})
        found = pd.DataFrame(outputs(self.model, X[usable], level), columns=names[1:], index=frame.index[usable])
        found.insert(0, "prediction", self.classes_[found.to_numpy()[:, : len(self.classes_)].argmax(axis=1)])
        return found if usable.all() else spread(found, usable, frame.index)

    def training_rows(self, frame: pd.DataFrame) -> Rows:
        """The model's columns and labels of a table that has the target: rows to certify, score or report."""
        known = labelled(frame, self.target)
        X = self.matrix(known.frame)
        whole = ~X.isna().any(axis=1).to_numpy() if self.complete else usable_rows(self.model, X)
        return Rows(X[whole], as_array(known.y[whole]))

    def certify(self, frame: pd.DataFrame, draws: int | None = None, random_state: Any = None) -> Certificate:
        """How far the approximation can be trusted: on the table that the model was fitted on."""
        X, y = self.training_rows(frame)
        if not hasattr(self.model, "certify"):
            raise NotDefinedError(
                f"{type(self.model).__name__} has no certificate: its parameters are integrated out in closed form, "
                "so there is no approximation to check. What it assumes of the columns is another question: compare it."
            )
        certificate: Certificate = self.model.certify(X, y, draws=draws, random_state=random_state)
        return certificate

    def summary(self, level: float = 0.9) -> Summary:
        """The table of what was learnt; `notes` say what was left out before."""
        summary: Summary = self.model.summary(level)
        return summary

    def report(self, frame: pd.DataFrame, path: Any = None, about: Any = None, settings: Any = None) -> Report:
        """One self-contained HTML page about the model and the table it was fitted on.

        Parameters
        ----------
        frame : DataFrame
        path : path, optional
            Where to write the page.
        about : credibly.report.About, optional
            Title, question, notes, a comparison with other models.
        settings : credibly.report.Settings, optional
            Level of intervals, seed, folds, whether a file may be replaced.

        Returns
        -------
        Report
            With `html` and `save(path)`; shows itself in a notebook.
        """
        from credibly.report import report_table

        return report_table(self, frame, path, about, settings)


def fingerprint_of(model: TableModel, frame: pd.DataFrame) -> Fingerprint:
    """Of the rows and columns of a table that the model would learn from."""
    known = labelled(frame, model.target).frame
    if model.complete:
        known = known[~model.matrix(known).isna().any(axis=1).to_numpy()]
    return Fingerprint.of(known[[*model.design.sources, model.target]])


def usable_rows(model: Any, X: pd.DataFrame) -> AnyArray:
    """Which rows have all cells that the model needs."""
    if takes_missing(model):
        return np.ones(len(X), dtype=bool)
    whole: AnyArray = ~X.isna().any(axis=1).to_numpy()
    return whole


def complete(table_model: TableModel, frame: pd.DataFrame) -> pd.DataFrame:
    """The model's columns, or an error where a cell that it needs is missing."""
    X = table_model.matrix(frame)
    usable = usable_rows(table_model.model, X)
    if usable.all():
        return X
    lacking = counts(frame, table_model.design.sources)
    raise TableError(
        f"Cells are missing in {int((~usable).sum())} of {len(usable)} rows, in {shortened(lacking)}; this model needs "
        "every cell. predict_table leaves such rows empty; a model fitted with missing='impute' fills them in."
    )


def spread(found: pd.DataFrame, usable: AnyArray, index: pd.Index) -> pd.DataFrame:
    """Predictions of some rows as a table of all; the others are empty."""
    import pandas as pd

    places = np.full(len(usable), -1)
    places[usable] = np.arange(len(found))
    columns = {name: found[name].array.take(places, allow_fill=True) for name in found.columns[1:]}
    prediction = np.full(len(usable), None, dtype=object)
    prediction[usable] = found["prediction"].to_numpy(dtype=object)
    return pd.DataFrame({"prediction": prediction, **columns}, index=index)
