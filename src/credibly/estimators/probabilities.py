"""What follows from log class probabilities alone, for every classifier."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from credibly.decisions import REJECT, least_cost
from credibly.errors import InputError
from credibly.estimators.formulas import FormulaMixin
from credibly.estimators.lazily import lazily
from credibly.estimators.not_in_memory import ScoreMixin
from credibly.estimators.outputs import PredictToMixin
from credibly.estimators.reporting import ReportMixin
from credibly.estimators.validation import read_labels
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.arrays import AnyArray, Array


class ProbabilityMixin(PredictToMixin, FormulaMixin, ReportMixin, ScoreMixin):
    """Labels, probabilities and decisions from `predict_log_proba` and `classes_`."""

    classes_: AnyArray

    @abstractmethod
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K)."""

    @lazily
    def predict_proba(self, X: ArrayLike) -> Array:
        """p(class | x), (n, K): the exponential of `predict_log_proba`."""
        return np.exp(self.predict_log_proba(X))

    @lazily
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
        if reject_label in labels[:-1]:
            raise InputError(
                f"reject_label={reject_label!r} is a class, so that a declined row could not be told from a decided "
                "one; choose another."
            )
        alike = np.asarray(reject_label).dtype.kind == self.classes_.dtype.kind
        table = np.array(labels, dtype=None if alike else object)  # a mixture keeps every label as it is
        return table[np.where(codes == REJECT, len(labels) - 1, codes)]


class LabelNoiseMixin(ProbabilityMixin):
    """What follows from the probabilities of the true class where labels may be flipped."""

    _likelihood: AnyLikelihood
    label_noise_: Any
    label_noise_std_: Any

    @lazily
    def predict_recorded_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the label that would be written down, (n, K): those of the true class, flipped.

        The same as `predict_proba` without label noise.
        """
        log_proba, noisy = self.predict_log_proba(X), self._likelihood
        if isinstance(noisy, LabelNoise):
            return np.exp(np.column_stack([noisy.log_recorded(np.array(c), *log_proba.T) for c in (0.0, 1.0)]))
        return np.exp(noisy.log_recorded(log_proba) if isinstance(noisy, NoisyCategorical) else log_proba)

    def flip_probability(self, X: ArrayLike, y: ArrayLike) -> Array:
        """P(the label was flipped | x, y) for every row, (n,): which labels to look at again.

        Parameters
        ----------
        X : (n, d) array or frame
        y : (n,) labels as recorded, of the classes of the fit

        Notes
        -----
        Without label noise it is zero: the model takes labels at their word.
        """
        log_proba, noisy = self.predict_log_proba(X), self._likelihood
        codes = read_labels(y, self.classes_, len(log_proba))
        if isinstance(noisy, LabelNoise):
            return np.exp(noisy.log_flipped(codes.astype(float), *log_proba.T))
        return (
            np.exp(noisy.log_flipped(codes, log_proba)) if isinstance(noisy, NoisyCategorical) else np.zeros(len(codes))
        )

    def _noise_notes(self) -> list[str]:
        """Lines under a summary."""
        if not np.any(self.label_noise_):
            return []
        shown = [np.atleast_1d(a) for a in (self.label_noise_, self.label_noise_std_)]
        said = ", ".join(f"{flip:.4g} (sd {sd:.2g})" if sd else f"{flip:.4g}" for flip, sd in zip(*shown, strict=True))
        return [f"label noise: {said}"]
