"""What follows from log class probabilities alone, for every classifier."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from credibly.decisions import REJECT, least_cost
from credibly.numerics.arrays import AnyArray, Array


class ProbabilityMixin:
    """Labels, probabilities and decisions from `predict_log_proba` and `classes_`."""

    classes_: AnyArray

    @abstractmethod
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K)."""

    def predict_proba(self, X: ArrayLike) -> Array:
        """p(class | x), (n, K): the exponential of `predict_log_proba`."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> AnyArray:
        """The most probable class of every row."""
        codes = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def decide(
        self,
        X: ArrayLike,
        costs: ArrayLike,
        reject_cost: float | None = None,
        reject_label: Any = None,
    ) -> AnyArray:
        """The label of least expected cost, or `reject_label` where declining is cheaper.

        Parameters
        ----------
        X : (n, d) array or frame
        costs : (K, K) array
            costs[i, j] is the cost of deciding class j when the truth is class i, in the order of `classes_`.
        reject_cost : float, optional
            Cost of not deciding; None never declines.
        reject_label : optional
            What declined rows carry.

        Returns
        -------
        (n,) array of labels; of dtype object when `reject_label` is of another kind than the labels.
        """
        codes = least_cost(self.predict_proba(X), costs, reject_cost)
        if reject_cost is None:
            return np.asarray(self.classes_[codes])
        labels = [*self.classes_.tolist(), reject_label]
        alike = np.asarray(reject_label).dtype.kind == self.classes_.dtype.kind
        table = np.array(labels, dtype=None if alike else object)  # a mixture keeps every label as it is
        return table[np.where(codes == REJECT, len(labels) - 1, codes)]
