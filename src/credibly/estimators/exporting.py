"""The way out of a fitted model: its draws for ArviZ."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted


def check_fitted(model: Any) -> None:
    """Raise scikit-learn's error where there is nothing to export yet."""
    check_is_fitted(model)


class ExportMixin:
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
