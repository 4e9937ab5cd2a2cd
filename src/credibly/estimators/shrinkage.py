"""Covariances shrunk by scikit-learn's estimators: these need the rows, not only their sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from credibly.errors import InputError
from credibly.estimators.generative_learning import GenerativeRows
from credibly.model.class_conditionals.wishart import Scatter
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import dense

Shrink = Callable[[Array], Array]


def read_shrinkage(choice: Any) -> tuple[float, str | None]:
    """A number for the family, or the name of an estimator for the rows."""
    if choice is None:
        return 0.0, None
    if isinstance(choice, str) and choice in {"ledoit_wolf", "oas"}:
        return 0.0, choice
    if not isinstance(choice, str | bool) and np.ndim(choice) == 0 and np.isreal(choice) and 0 <= choice <= 1:
        return float(choice), None
    raise InputError(f"shrinkage must be None, a number from 0 to 1, 'ledoit_wolf' or 'oas'; got {choice!r}.")


def shrunken(estimator: str, rows: GenerativeRows, statistics: Scatter) -> Scatter:
    """Statistics whose scatter is that of shrunken class covariances, as scikit-learn's discriminants have them.

    Columns are standardised within each class before they are shrunk; a shared covariance is the average over classes,
    weighted by their rows.
    """
    if rows.weight is not None and np.ptp(rows.weight) > 0:
        raise InputError(f"shrinkage={estimator!r} takes no sample_weight; use a number.")
    n = statistics.weight
    each = np.array([_covariance(estimator, dense(rows.X[rows.codes == c])) for c in range(len(n))])
    scatter = n[:, None, None] * each
    return replace(statistics, scatter=scatter.sum(axis=0, keepdims=True) if statistics.shared else scatter)


def _covariance(estimator: str, X: Array) -> Array:
    from sklearn import covariance

    if len(X) < 2:
        return np.zeros((X.shape[1], X.shape[1]))
    scale = X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    shrink = {"ledoit_wolf": covariance.ledoit_wolf, "oas": covariance.oas}[estimator]
    matrix, _ = shrink(X / scale)
    return np.asarray(scale[:, None] * matrix * scale)
