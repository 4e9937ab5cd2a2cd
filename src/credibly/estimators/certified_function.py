"""`certify` of Gaussian processes: the same draws, in function space."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from credibly.data.threads import blas_threads
from credibly.errors import NotDefinedError
from credibly.estimators.certificate import (
    DRAWS_SEED,
    Certificate,
    Found,
    Gap,
    draws_rng,
    print_draws,
    read_draws,
    warn_other_data,
)
from credibly.estimators.validation import Table, n_threads
from credibly.inference.function_target import FunctionTarget
from credibly.inference.inducing_posterior import InducingPosterior
from credibly.inference.one_vs_rest import OneVsRestGaussian
from credibly.inference.trust.importance import Correction, correct
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.kinds import true_likelihood
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.settings import IMPORTANCE
from credibly.numerics.special import log_sum_exp
from credibly.numerics.weighted_draws import WeightedDraws, weighted_mean

if TYPE_CHECKING:
    from credibly.estimators.gaussian_process_results import GaussianProcessResults

MOST_DRAWS = 8_192  # that predictions average over
DRAWN_NUMBERS = 1_000_000  # held at a time


class CorrectedFunction:
    """A Gaussian process's numbers by weighted draws of the latents at the training rows."""

    def __init__(self, model: GaussianProcessResults, target: FunctionTarget, correction: Correction) -> None:
        self._model = copy.copy(model)  # as it is now: the model may be fitted again
        self._target, self._correction = target, correction
        self._all = WeightedDraws(correction.points, correction.log_weights)
        self._draws = self._all.thinned(MOST_DRAWS)  # for predictions

    @cached_property
    def mean(self) -> Array:
        """Of the latents at the training rows, (n,) or (n, C)."""
        return self._shaped(self._target.by_class(self._all.mean[None], self._target.roots)[0])

    @cached_property
    def std(self) -> Array:
        """Of the latents at the training rows, (n,) or (n, C)."""
        u, weights, center = self._all.x, self._all.weights, self._all.mean
        total = np.zeros((len(self._target.y), self._target.n_functions))
        size = max(1, DRAWN_NUMBERS // total.size)
        for start in range(0, len(u), size):
            some = slice(start, start + size)
            total += weighted_mean(self._target.by_class(u[some] - center, self._target.roots) ** 2, weights[some])
        return self._shaped(np.sqrt(total))

    def _shaped(self, by_class: Array) -> Array:
        return by_class[:, 0] if self._target.n_functions == 1 else by_class

    def largest_change(self) -> float:
        """Of an averaged probability of a training row, by the correction."""
        target, dw, worst = self._target, self._correction.weight_changes, 0.0
        predictive, n = self._model._plan.predictive(), len(target.y)
        size = max(1, DRAWN_NUMBERS // (len(dw) * target.n_functions))
        for start in range(0, n, size):
            roots = tuple(S[start : start + size] for S in target.roots)
            proba = predictive.proba(target.by_class(self._correction.points, roots))
            worst = max(worst, float(np.abs(weighted_mean(proba, dw)).max()))
        return worst

    def log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K)."""
        log_weights = self._draws.log_weights
        return self._by_rows(X, self._draws.x, lambda terms: log_sum_exp(np.moveaxis(terms, 0, -1) + log_weights))

    def khat(self, X: ArrayLike) -> Array:
        """Of every prediction, (n,)."""
        some = self._correction.thinned(IMPORTANCE.settled_pairs)
        return self._by_rows(X, some.points, some.khats)

    def predict(self, X: ArrayLike, offset: ArrayLike | None, exposure: ArrayLike | None) -> Array:
        """There is no target with a mean."""
        raise NotDefinedError("A classifier's certificate has predict_proba(X); predict is for BayesianGLM.")

    def _by_rows(self, X: ArrayLike, u: Array, reduce: Callable[[Array], Array]) -> Array:
        rows = self._model._rows(X)
        size = max(1, DRAWN_NUMBERS // (len(u) * self._target.n_functions))
        with blas_threads(len(self._target.y), n_threads(self._model.n_jobs)):
            return np.concatenate([reduce(self._log_terms(rows[i : i + size], u)) for i in range(0, len(rows), size)])

    def _log_terms(self, X: Array, u: Array) -> Array:
        """log p(class | x, draw), (draws, n, K): what the training rows leave open of a latent is averaged over.

        Exactly for two classes; for more by one draw of it for each draw of the rest.
        """
        mean, variance = self._target.scores_at(u, X)
        likelihood = true_likelihood(self._target.likelihood)
        if isinstance(likelihood, Likelihood):
            terms = [likelihood.log_average(np.array(c), mean[..., 0], variance[:, 0]) for c in (0.0, 1.0)]
            return np.stack(terms, axis=-1)
        noise = np.random.default_rng(DRAWS_SEED).standard_normal(mean.shape)
        return self._model._plan.predictive().log_proba_at(mean + np.sqrt(variance) * noise)


def certify_function(model: GaussianProcessResults, table: Table, draws: Any, random_state: Any) -> Certificate:
    """The certificate of a Gaussian process, hyperparameters as they are."""
    posterior, likelihood = model.posterior_, model._likelihood
    size = read_draws(draws, len(model._codes))
    if isinstance(posterior, InducingPosterior):
        raise NotDefinedError(
            "certify does not exist with inducing points: it draws all latents of the exact model together. Fit a part "
            "of the rows, some thousand, with inducing=None and this kernel_, and certify that."
        )
    if isinstance(posterior.gaussian, OneVsRestGaussian):
        raise NotDefinedError(
            f"certify does not exist for inference={model._plan.inference!r} with {model._plan.n_classes} classes: "
            "each class is inferred against the rest, which is no model of all labels together. Use "
            "inference='laplace', which is joint, or fit two classes at a time."
        )
    X, y = posterior.X, model._codes
    if not same_rows(np.column_stack([table.X, table.codes]), np.column_stack([X, y])):
        warn_other_data("a Gaussian process keeps its rows, and the certificate is about those", stacklevel=4)
    with blas_threads(len(y), n_threads(model.n_jobs)):
        labels = y.astype(float) if isinstance(likelihood, Likelihood) else y
        target = FunctionTarget(posterior.kernels, X, labels, likelihood, posterior.gaussian)
        report = print_draws if model.verbose else None
        correction = correct(draws_rng(model, random_state), target, size, report=report)
        corrected = CorrectedFunction(model, target, correction)
        shift = float(np.abs((corrected.mean - posterior.mean) / corrected.std).max())
        widening = float(np.exp(np.abs(0.5 * np.log(posterior.var) - np.log(corrected.std)).max()))
        gap = Gap(shift, widening, corrected.largest_change())
    return Certificate(Found.of(correction, corrected, gap, _advice(model)))


def same_rows(A: Array, B: Array) -> bool:
    """Whether two tables have the same rows, in whatever order."""
    return A.shape == B.shape and np.array_equal(A[np.lexsort(A.T)], B[np.lexsort(B.T)])


def _advice(model: GaussianProcessResults) -> str:
    if model._plan.inference != "ep" and model._plan.n_classes == 2:
        return "fit again with inference='ep'"
    return "use a kernel of smaller variance, fewer rows at a time, or a linear model with inference='auto'"
