"""A step of a pipeline whose columns are already decided."""

from __future__ import annotations

from typing import Any, Protocol, Self

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline


class Preparation(Protocol):
    """Something that turns a table into the columns of a model."""

    def matrix(self, frame: Any) -> Any:
        """The model's columns."""


class PreparedColumns(TransformerMixin, BaseEstimator):
    """Columns of a model from a table, by rules that were fixed before; there is nothing to fit."""

    def __init__(self, preparation: Preparation) -> None:
        self.preparation = preparation

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is learnt."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Any) -> Any:
        """The model's columns."""
        return self.preparation.matrix(X)


def prepared(preparation: Preparation, estimator: Any) -> Pipeline:
    """A pipeline that begins with a table and ends in the estimator."""
    return Pipeline([("columns", PreparedColumns(preparation)), ("model", estimator)])
