"""Ways out of a fitted model: its draws for ArviZ, its coefficients as JSON."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted


def check_fitted(model: Any) -> None:
    """Raise scikit-learn's error where there is nothing to export yet."""
    check_is_fitted(model)


class DrawsMixin:
    """Draws for ArviZ: linear models, Gaussian processes and generative models."""

    def to_arviz(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        draws: int = 1000,
        chains: int = 4,
        random_state: Any = None,
    ) -> Any:
        """Draws of this model as ArviZ's `InferenceData`: for `az.summary`, `az.loo`, `az.plot_forest` and the like.

        Parameters
        ----------
        X, y : optional
            Rows and labels (or targets) for the groups about rows; by default those of the fit, where the model holds
            them. X alone: rows to predict.
        draws, chains : int
            Draws in each chain, and how many there are. They are independent.
        random_state : int, Generator or None
            None takes the model's.

        Returns
        -------
        arviz.InferenceData
            A `DataTree` from ArviZ 1 on. `credibly.export.to_arviz` says what is in it.
        """
        from credibly.export import to_arviz

        return to_arviz(self, X, y, draws=draws, chains=chains, random_state=random_state)


class ExportMixin(DrawsMixin):
    """Draws for ArviZ, and coefficients as JSON: models that are linear, or may be."""

    def to_json(
        self, path: str | os.PathLike[str] | None = None, *, covariance: bool = True, overwrite: bool = True
    ) -> str:
        """The coefficients as one JSON document, with all that scoring elsewhere needs.

        Parameters
        ----------
        path : path, optional
            Write the document there, too; the file appears whole or not at all.
        covariance : bool, default True
            Include the posterior, for averaged probabilities and intervals.
        overwrite : bool, default True
            False refuses a name that is taken.

        Returns
        -------
        str
            The document; `credibly.export.to_json` says what is in it, and which models have one.
        """
        from credibly.export import to_json

        return to_json(self, path, covariance=covariance, overwrite=overwrite)
