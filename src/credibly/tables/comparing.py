"""Several models of one table: each with its own columns, all of the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from credibly.comparison import Comparison, compare
from credibly.estimators.prepared import prepared
from credibly.tables.fitting import Prepared, prepare, without_intercept
from credibly.tables.model import Choices, TableModel
from credibly.tables.target import as_array

if TYPE_CHECKING:
    import pandas as pd


class TableComparison(NamedTuple):
    """What a comparison found, and the models with the way a table becomes their columns.

    Attributes
    ----------
    comparison : Comparison
    models : dict of str to TableModel
        Best first; those whose fit failed are missing.

    Examples
    --------
    See `compare_table`, which makes it.

    >>> TableComparison._fields
    ('comparison', 'models')
    """

    comparison: Comparison
    models: dict[str, TableModel]

    @property
    def best(self) -> TableModel:
        """The model that the comparison puts first."""
        return self.models[self.comparison.best_]


class _Filled(NamedTuple):
    """A design after gaps were filled."""

    ready: Prepared

    def matrix(self, frame: pd.DataFrame) -> pd.DataFrame:
        return self.ready.design.matrix(self.ready.filling(frame))


def compare_table(
    estimators: Mapping[str, Any],
    frame: pd.DataFrame,
    target: str | None,
    choices: Choices = Choices(),
    **how: Any,
) -> TableComparison:
    """Compare models of a table on rows that all of them can use.

    Parameters
    ----------
    estimators : dict of name to classifier
    frame : DataFrame
    target : str
    choices : Choices
        As for `TableModel.fit`.
    **how
        `by`, `n_jobs`, `random_state` of `credibly.compare`.

    Returns
    -------
    TableComparison

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import BayesianLogisticRegression, LinearDiscriminant
    >>> irises = load_iris(as_frame=True).frame[50:]
    >>> models = {"line": BayesianLogisticRegression(), "Gaussians": LinearDiscriminant()}
    >>> found = compare_table(models, irises, "target", random_state=0)
    >>> found.best.predict(irises[:2]), found.best is found.models[found.comparison.best_]
    (array([1, 1]), True)
    """
    ready = {name: prepare(estimator, frame, target, choices) for name, estimator in estimators.items()}
    # Rows dropped for one model are dropped for all: evidences of different rows are not on one scale.
    table = min((one.table for one in ready.values()), key=lambda table: len(table.frame))
    pipelines = {
        name: prepared(_Filled(one), without_intercept(estimators[name], one.design)) for name, one in ready.items()
    }
    found = compare(pipelines, table.frame, as_array(table.y), **how)
    models = {name: ready[name].model(pipeline[-1]) for name, pipeline in found.models_.items()}
    return TableComparison(found, models)
