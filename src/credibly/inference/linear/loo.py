"""Leaving rows out of a linear fit without fitting again: log p(y_i | all other rows).

The row's own factor, as the approximation sees it, is taken off its marginal: to second order at the mode (Laplace),
averaged over q (variational), with matched moments (EP); draws are weighted by one over the probability of the label.
"""

from functools import partial

import numpy as np

from credibly.data.rows import Block
from credibly.errors import InputError
from credibly.inference.gaussian import Scores
from credibly.inference.leave_one_out import (
    cavities,
    class_cavities,
    log_class_left_out,
    log_left_out,
    log_power_left_out,
    matched_cavities,
)
from credibly.inference.linear.covariance import rows_of_fit
from credibly.inference.linear.fit import LinearFit
from credibly.inference.linear.objective import log_probs
from credibly.inference.linear.posterior import DrawnPosterior
from credibly.inference.linear.spec import Data
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.model.likelihoods.proportions import Binomial
from credibly.numerics.arrays import Array
from credibly.numerics.status import Status
from credibly.numerics.weighted_draws import pareto_smoothed

BLOCK_ROWS = 256  # of several scores, whose covariances take much memory
DRAWN_BLOCK_ROWS = 64


def leave_one_out(fit: LinearFit, data: Data | None) -> Array:
    """log p(y_i | all other rows), (n,), on the rows of the fit; NaN where the other rows give no Gaussian."""
    rows = rows_of_fit(data, "loo_log_proba_")
    if isinstance(fit.posterior, DrawnPosterior):
        return rows.in_blocks(DRAWN_BLOCK_ROWS).map(partial(_by_draws, fit, fit.posterior))
    if isinstance(fit.likelihood, Likelihood):
        return rows.map(partial(_one_score, fit, fit.likelihood))
    if rows.weight is not None and ((rows.weight != 0) & (rows.weight != 1)).any():
        raise InputError(
            "loo_log_proba_ of three classes and more needs sample_weight 0 or 1: the probability of a label to a "
            "power has no average in closed form. Repeat rows instead."
        )
    return rows.in_blocks(BLOCK_ROWS).map(partial(_several_scores, fit, fit.likelihood))


def _by_draws(fit: LinearFit, posterior: DrawnPosterior, block: Block) -> Array:
    f = posterior.of_scores().scores_of(block.X, posterior.draws)  # (S, b, K)
    log_prob = log_probs(fit.likelihood, block.y, f if block.offset is None else f + block.offset[:, None])
    out = [
        -pareto_smoothed(-weight * column).log_mean for weight, column in zip(block.weights, log_prob.T, strict=True)
    ]
    return _with_coefficients(fit.likelihood, block, np.array(out))


def _one_score(fit: LinearFit, likelihood: Likelihood, block: Block) -> Array:
    m, v = fit.posterior.of_scores().scores(block.X)
    scores = Scores(m if block.offset is None else m + block.offset, v)
    y, w = np.asarray(block.y), block.weights
    if fit.rung == "variational":
        _, grad, W = likelihood.averaged(y, *scores)
    else:
        _, grad, W = likelihood.expand(y, scores.mean)
        W = likelihood.information(scores.mean) if fit.status is Status.SADDLE else W
    cavity = cavities(scores, w * grad, w * W)
    if fit.resolved is None:
        out = w * likelihood.log_prob(y, cavity.mean)
    elif (w == 1).all():
        out = log_left_out(likelihood, y, matched_cavities(likelihood, y, scores) if fit.rung == "ep" else cavity)
    else:
        out = log_power_left_out(likelihood, y, w, cavity, scores)
    return _with_coefficients(likelihood, block, out)


def _with_coefficients(likelihood: object, block: Block, out: Array) -> Array:
    if isinstance(likelihood, FamilyLikelihood) and isinstance(likelihood.family, Binomial):
        return out + likelihood.family.log_coefficients(np.asarray(block.y), block.weights)
    return out


def _several_scores(fit: LinearFit, likelihood: Categorical | NoisyCategorical, block: Block) -> Array:
    scores, y, w = fit.posterior.scores(block.X), np.asarray(block.y), block.weights
    if fit.rung == "variational":
        _, grad, W = likelihood.averaged(y, *scores)
    elif isinstance(likelihood, Categorical):
        _, grad, proba = likelihood.expand(y, scores.mean)
        W = likelihood.curvature(proba)
    else:
        at = likelihood.expand(y, scores.mean)
        grad = at.grad
        W = likelihood.information(scores.mean) if fit.status is Status.SADDLE else likelihood.curvature(at)
    cavity = class_cavities(scores, w[:, None] * grad, w[:, None, None] * W)
    if fit.resolved is None:
        cavity = Scores(cavity.mean, np.where(np.isnan(cavity.variance), np.nan, 0.0))
    return w * log_class_left_out(likelihood, y, cavity)
