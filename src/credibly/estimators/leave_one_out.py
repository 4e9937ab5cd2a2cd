"""Leave-one-out of linear models, from the rows of the fit and without fitting again."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import Block
from credibly.data.threads import single_threaded_blas
from credibly.errors import InputError
from credibly.estimators.linear_model import SOFTMAX_BLOCK_ROWS, LinearModel
from credibly.estimators.nested_models import rows_of_fit
from credibly.estimators.validation import Training
from credibly.inference.drawn_posterior import DrawnPosterior, drawn_scores
from credibly.inference.leave_one_out import (
    cavities,
    class_cavities,
    log_class_left_out,
    log_left_out,
    log_power_left_out,
    matched_cavities,
)
from credibly.inference.posterior import Scores, WeightPosterior
from credibly.inference.targets import row_log_prob
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.model.likelihoods.proportions import Binomial
from credibly.numerics.arrays import Array
from credibly.numerics.status import Status
from credibly.numerics.weighted_draws import pareto_smoothed

DRAWN_BLOCK_ROWS = 64


class Fit(NamedTuple):
    """What a row's probability is computed from."""

    posterior: WeightPosterior
    plug_in: bool  # predictions at the estimate, where there is no prior
    expected: bool  # whether the posterior is made of the expected curvature
    matched: bool  # whether its moments are those of expectation propagation


def left_out(model: LinearModel) -> Array:
    """log p(y_i | all other rows), (n,), on the rows of the fit."""
    check_is_fitted(model)
    training, likelihood = rows_of_fit(model, "loo_log_proba_"), model._likelihood
    posterior: Any = model.posterior_
    if isinstance(posterior, DrawnPosterior):
        return _by_draws(model, posterior, training)
    gaussian = posterior
    matched = "ep" in (getattr(model, "inference", None), getattr(model, "rung_", None))
    fit = Fit(gaussian, model.prior_ is None, model.status_ is Status.SADDLE, matched)
    rows = training.rows(model.n_jobs).through(gaussian.frame.design)
    with single_threaded_blas():
        if isinstance(likelihood, Likelihood):
            return rows.map(partial(_one_score, likelihood, fit))
        _check_weights(training.weight)
        return rows.in_blocks(SOFTMAX_BLOCK_ROWS).map(partial(_several_scores, likelihood, fit))


def _by_draws(model: LinearModel, posterior: DrawnPosterior, training: Training) -> Array:
    """By importance weights: a draw counts for the other rows by its weight over the probability it gives the row."""
    likelihood, weights = model._likelihood, posterior.free.log_weights

    def block(part: Block) -> Array:
        log_prob = row_log_prob(likelihood, part.y, drawn_scores(posterior, part.X).f) * part.weights
        smoothed = [pareto_smoothed(weights - column).log_mean for column in log_prob.T]
        return np.asarray(-(np.array(smoothed) + np.log(len(weights))))

    rows = training.rows(model.n_jobs).through(posterior.frame.design)
    with single_threaded_blas():
        return rows.in_blocks(DRAWN_BLOCK_ROWS).map(block)


def _check_weights(weight: Array | None) -> None:
    if weight is not None and ((weight != 0) & (weight != 1)).any():
        raise InputError(
            "loo_log_proba_ of three classes and more needs sample_weight 0 or 1: the probability of a label to a "
            "power has no average in closed form. Repeat rows instead."
        )


def _one_score(likelihood: Likelihood, fit: Fit, part: Block) -> Array:
    m, v = fit.posterior.scores(part.X)
    scores = Scores(m if part.offset is None else m + part.offset, v)
    y, w = np.asarray(part.y), part.weights
    at = likelihood.expand(y, scores.mean)
    W = likelihood.information(scores.mean) if fit.expected else at.curvature
    cavity = cavities(scores, w * at.grad, w * W)
    if fit.plug_in:
        out = w * likelihood.log_prob(y, cavity.mean)
    elif (w == 1).all():
        if fit.matched:
            cavity = matched_cavities(likelihood, y, scores)
        out = log_left_out(likelihood, y, cavity)
    else:
        out = log_power_left_out(likelihood, y, w, cavity, scores)
    if isinstance(likelihood, FamilyLikelihood) and isinstance(likelihood.family, Binomial):
        out = out + likelihood.family.log_coefficients(y, w)
    return out


def _several_scores(likelihood: Categorical | NoisyCategorical, fit: Fit, part: Block) -> Array:
    scores, y, w = fit.posterior.determined_scores(part.X), np.asarray(part.y), part.weights
    if isinstance(likelihood, Categorical):
        at = likelihood.expand(y, scores.mean)
        grad, W = at.grad, likelihood.curvature(at.proba)
    else:
        noisy = likelihood.expand(y, scores.mean)
        grad = noisy.grad
        W = likelihood.information(scores.mean) if fit.expected else likelihood.curvature(noisy)
    cavity = class_cavities(scores, w[:, None] * grad, w[:, None, None] * W)
    if fit.plug_in:
        cavity = Scores(cavity.mean, np.where(np.isnan(cavity.variance), np.nan, 0.0))
    return w * log_class_left_out(likelihood, y, cavity)
