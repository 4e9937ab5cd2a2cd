"""Classifiers from a formula and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from credibly.tables import TableModel


class FormulaMixin:
    """`from_formula` for every classifier."""

    @classmethod
    def from_formula(cls, formula: str, data: pd.DataFrame, *, missing: str = "refuse", **choices: Any) -> TableModel:
        """Learn from a table by a formula in the manner of R.

        Parameters
        ----------
        formula : str
            Such as ``"ill ~ age + C(sex) + poly(dose, 2)"``; `credibly.tables.FormulaDesign` says what may be in it.
        data : DataFrame
        missing : "refuse" (default), "drop" or "impute"
            What to do with missing cells where the model needs every cell.
        **choices
            Arguments of the estimator: ``prior="ard"``.

        Returns
        -------
        TableModel
            Fitted. It takes tables: ``predict_proba(table)``, ``summary()``, ``certify(table)``; the estimator itself
            is its ``model``.

        Examples
        --------
        >>> import pandas as pd
        >>> from credibly import BayesianLogisticRegression
        >>> table = pd.DataFrame({"dose": [1.0, 2, 3, 4, 5, 6], "sex": list("mfmfmf"), "ill": [0, 0, 1, 0, 1, 1]})
        >>> model = BayesianLogisticRegression.from_formula("ill ~ dose + sex", table)
        >>> model.design.names
        ('dose', 'sex=f', 'sex=m')
        """
        from credibly.tables import Choices, TableModel

        return TableModel.fit(cls(**choices), data, None, Choices(missing=missing, formula=formula))
