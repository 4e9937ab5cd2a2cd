"""Several models as one: their probabilities, averaged."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from credibly.errors import UnreliableWarning
from credibly.estimators.glm import BayesianGLM
from credibly.estimators.probabilities import ProbabilityMixin
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.special import log_sum_exp
from credibly.predictive import predictive_of


class ModelAverage(ProbabilityMixin, ClassifierMixin, BaseEstimator):
    r"""The average of several classifiers, weighted by how far each is believed.

    .. math:: \log p(c \mid x) = \log \textstyle\sum_k \exp(\log w_k + \log p_k(c \mid x))

    `credibly.Comparison.average` makes one that is fitted; `fit` runs the comparison itself.

    Parameters
    ----------
    models : dict of name to estimator, or list of estimators
        As for `credibly.compare`.
    by : str
        What model probabilities are made of: "evidence" (default), "bic", "loo", "prequential", "joint_evidence".
    weights : "probability" (default) or "stacking"
    n_jobs, random_state
        As for `credibly.compare`.

    Attributes
    ----------
    classes_ : (K,) array
    models_ : dict of str to estimator
        Fitted models of positive weight.
    weights_ : dict of str to float
    log_weights_ : dict of str to float
    n_features_in_, feature_names_in_
        As the models have them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import BayesianLogisticRegression, ModelAverage, Normal
    >>> X, y = load_iris(return_X_y=True)
    >>> tight, wide = (BayesianLogisticRegression(prior=Normal(scale=s)) for s in (1.0, 10.0))
    >>> ModelAverage([tight, wide], random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    classes_: AnyArray
    models_: dict[str, Any]
    log_weights_: dict[str, float]

    def __init__(
        self,
        models: Any,
        *,
        by: str = "evidence",
        weights: str = "probability",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.models = models
        self.by = by
        self.weights = weights
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Compare the models on these rows, and keep them with their weights.

        Parameters
        ----------
        X, y
            As for `credibly.compare`.

        Returns
        -------
        self
        """
        from credibly.comparison import compare

        if getattr(y, "shape", ())[1:] == (1,) and not issparse(y):
            y = column_or_1d(y, warn=True)
        found = compare(self.models, X, y, by=self.by, n_jobs=self.n_jobs, random_state=self.random_state)
        average = found.average(self.weights)
        _tell_failed({row.name: row.error for row in found.rows if row.error is not None})
        self.__dict__.update({name: it for name, it in vars(average).items() if name.endswith("_")})
        return self

    def keep(self, parts: dict[str, tuple[Any, float]], classes: AnyArray) -> Self:
        """Take over models that are fitted, with the logs of their weights."""
        self.classes_ = classes
        self.models_ = {name: model for name, (model, _) in parts.items()}
        self.log_weights_ = {name: log_weight for name, (_, log_weight) in parts.items()}
        first = next(iter(self.models_.values()))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
        return self

    @property
    def weights_(self) -> dict[str, float]:
        """The weights of the models."""
        check_is_fitted(self)
        return {name: float(np.exp(log_weight)) for name, log_weight in self.log_weights_.items()}

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K): the models' probabilities averaged, in log space."""
        check_is_fitted(self)
        parts = [log_proba(model, X) + self.log_weights_[name] for name, model in self.models_.items()]
        return log_sum_exp(np.array(parts), axis=0)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "log_weights_")

    def __sklearn_tags__(self) -> Any:
        """What every model takes, the average takes."""
        tags, given = super().__sklearn_tags__(), [get_tags(it) for it in _estimators(self.models)]
        tags.input_tags.sparse = all(it.input_tags.sparse for it in given)
        tags.input_tags.allow_nan = all(it.input_tags.allow_nan for it in given)
        return tags


def _estimators(models: Any) -> list[BaseEstimator]:
    """The models of a dict or a list, whether or not it may be compared: `fit` says what is wrong with it."""
    given = models.values() if isinstance(models, Mapping) else models if isinstance(models, Iterable) else ()
    parts = [it[-1] if isinstance(it, tuple) and it else it for it in given]
    return [it for it in parts if isinstance(it, BaseEstimator)]


def _tell_failed(failed: dict[str, str]) -> None:
    """An average of fewer models than were asked for is another model."""
    if failed:
        why = "; ".join(f"{name!r}: {error}" for name, error in failed.items())
        warnings.warn(f"The average is without the models that failed. {why}", UnreliableWarning, stacklevel=3)


def log_proba(model: Any, X: ArrayLike) -> Array:
    """log p(class | x), (n, K), of a classifier, or of a GLM of 0 and 1; either may end a pipeline."""
    steps = getattr(model, "steps", None)
    if steps and isinstance(steps[-1][1], BayesianGLM):
        return log_proba(steps[-1][1], model[:-1].transform(X) if len(steps) > 1 else X)
    if not isinstance(model, BayesianGLM):
        return np.asarray(model.predict_log_proba(X))
    scores, predictive = model.predict_latent(X), predictive_of(model._likelihood)
    return predictive.plug_in(scores) if model.prior_ is None else predictive.log_proba(scores)
