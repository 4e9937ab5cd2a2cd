"""`certify` of models linear in their columns."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from credibly.data.threads import single_threaded_blas
from credibly.errors import ImproperPriorError, NotDefinedError
from credibly.estimators.certificate import (
    Certificate,
    Found,
    check_same_data,
    draws_rng,
    print_draws,
    read_draws,
)
from credibly.estimators.learning import objective_of
from credibly.estimators.linear_model import LinearModel
from credibly.estimators.probabilities import ProbabilityMixin
from credibly.estimators.targets import read_offset
from credibly.estimators.validation import Training
from credibly.inference.drawn_posterior import SEED, DrawnPosterior, drawn_posterior, drawn_scores
from credibly.inference.importance import SETTLED_PAIRS, Correction, correct
from credibly.inference.label_noise import JointObjective
from credibly.inference.posterior import WeightPosterior
from credibly.inference.targets import NoiseTarget, WeightTarget
from credibly.inference.wide import WideGaussian
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.priors import Jeffreys
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.weighted_draws import WeightedDraws
from credibly.predictive import Predictive, drawn_log_proba


class CorrectedWeights:
    """A linear model's numbers by weighted draws of its weights."""

    def __init__(self, model: LinearModel, posterior: DrawnPosterior, correction: Correction) -> None:
        self._model = copy.copy(model)  # as it is now: the model may be fitted again
        self._model.posterior_ = posterior
        self._posterior, self._correction = posterior, correction

    @cached_property
    def _weights(self) -> WeightedDraws:
        """All draws in data units; predictions make do with fewer."""
        points = self._correction.pairs.points[:, : self._posterior.free.x.shape[1]]  # without logits of label noise
        rng = np.random.default_rng(SEED)
        return WeightedDraws(self._posterior.around.data_draws(rng, points), self._correction.log_weights)

    @property
    def mean(self) -> Array:
        """Of the weights, (M,)."""
        return self._weights.mean

    @property
    def std(self) -> Array:
        """Of the weights, (M,)."""
        return self._weights.std

    def differences(self, posterior: WeightPosterior | DrawnPosterior) -> tuple[float, float]:
        """The largest shift of a mean from a posterior's, and the largest ratio of standard deviations."""
        weights = self._weights
        return weights._replace(x=posterior.determined(weights.x)).differences(*posterior.moments())

    def log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K)."""
        predictive, posterior = self._predictive(), self._posterior
        rows = self._model._design(X)
        return rows.map(lambda part: drawn_log_proba(predictive, drawn_scores(posterior, part.X)))

    def khat(self, X: ArrayLike) -> Array:
        """Of every prediction, (n,)."""
        log_terms, posterior = self._log_terms(), self._posterior
        some = self._correction.of_first(SETTLED_PAIRS)
        points = some.pairs.points[:, : posterior.free.x.shape[1]]
        rows = self._model._design(X)
        return rows.map(lambda part: some.khats(log_terms(posterior.scores_at(part.X, points))))

    def predict(self, X: ArrayLike, offset: ArrayLike | None, exposure: ArrayLike | None) -> Array:
        """The mean of the target of a generalised linear model, (n,)."""
        posterior, likelihood = self._posterior, self._model._likelihood
        if not isinstance(likelihood, FamilyLikelihood):
            raise NotDefinedError("A classifier's certificate has predict_proba(X); predict is for BayesianGLM.")
        means = self._model._design(X).map(lambda part: drawn_scores(posterior, part.X).f[..., 0].T)
        shift = read_offset(likelihood.link, offset, exposure, n_rows=len(means))
        f = means if shift is None else means + shift[:, None]
        return np.asarray(likelihood.mean(f) @ posterior.free.weights)

    def _log_terms(self) -> Callable[[Array], Array]:
        """What predictions average over draws, as logarithms: probabilities, or the sizes of means."""
        likelihood = self._model._likelihood
        if not isinstance(likelihood, FamilyLikelihood):
            return self._predictive().log_proba_at

        def log_size(f: Array) -> Array:
            with np.errstate(all="ignore"):
                return np.asarray(np.log(np.abs(likelihood.mean(f))))

        return log_size

    def _predictive(self) -> Predictive:
        if not isinstance(self._model, ProbabilityMixin):
            raise NotDefinedError(
                "A generalised linear model predicts the mean of its target, not classes: use the certificate's "
                "predict(X) instead of predict_proba(X)."
            )
        predictive: Predictive = self._model._predictive()
        return predictive


def certify_weights(
    model: LinearModel, training: Training, draws: Any, random_state: Any, log_constant: float = 0.0
) -> Certificate:
    """The certificate of a linear model on clean rows."""
    prior, posterior = model._first_prior, model.posterior_
    if isinstance(posterior.gaussian, WideGaussian):
        raise NotDefinedError(
            "certify needs the precision of all weights, and this posterior, of many weights and many rows, is known "
            "by its mode and by draws. Use fewer columns, or fewer rows than columns."
        )
    size = read_draws(draws, posterior.mean.size)
    if model.prior_ is None or isinstance(model.prior_, Jeffreys) or prior is None:
        raise ImproperPriorError(
            f"certify compares with the exact posterior, which needs a prior that is a distribution; this model has "
            f'prior={model.prior!r}. Use prior="empirical" or Normal(scale=2.5).'
        )
    around = posterior.around if isinstance(posterior, DrawnPosterior) else posterior
    objective = objective_of(model._next_problem(training), prior, around.contrast)
    target: WeightTarget | NoiseTarget = WeightTarget(objective, around.gaussian, log_constant)
    if model._joint is not None:
        belief, joint = model._joint
        target = NoiseTarget(JointObjective(objective, belief), joint)
    check_same_data(target, training.n_counted, model._n_rows, model._fingerprint)
    with single_threaded_blas():
        report = print_draws if model.verbose else None
        correction = correct(draws_rng(model, random_state), target, size, report=report)
    points = correction.pairs.points[:, : around.gaussian.mean.size]  # without logits of flip probabilities
    drawn = drawn_posterior(around, points, correction.log_weights)
    corrected = CorrectedWeights(model, drawn, correction)
    return Certificate(Found(correction, corrected, *corrected.differences(posterior), model._advice()))
