"""What a generalised linear model says of the rows it was fitted on, as sums over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import xlog1py, xlogy

from credibly.data.rows import Block, Sums, add
from credibly.errors import NotPositiveDefinite
from credibly.estimators.problem import Learnt, Problem, Search
from credibly.inference.evidence import INTERCEPT_SCALE
from credibly.inference.laplace import Controls, laplace
from credibly.inference.objective import Objective, scores
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood, deviance, pearson
from credibly.model.likelihoods.proportions import Proportions
from credibly.numerics.arrays import Array

Scored = Callable[[Block], Array]  # the score of every row of a block


class Fitted(NamedTuple):
    """What a likelihood says of the rows that were fitted."""

    deviance: float
    null_deviance: float
    weight: float


def family_likelihood(problem: Problem) -> FamilyLikelihood:
    """The likelihood of a problem of regression."""
    assert isinstance(problem.likelihood, FamilyLikelihood)
    return problem.likelihood


def fitted_scores(learnt: Learnt) -> Scored:
    """Scores at the estimate."""
    return partial(scores, W=learnt.result.posterior.mean[None, :])


def mean_target(problem: Problem) -> float:
    """The weighted mean of the targets."""
    total, weight = problem.rows.sum(lambda rows: (float(rows.weights @ rows.y), float(rows.weights.sum())), add)
    return float(total) / float(weight)


def in_units(problem: Problem) -> Problem:
    """The problem with learnt priors in the unit of the target, so that another unit changes nothing.

    Where the link is a power, slopes are measured by what the targets' spread is in scores, the intercept by what their
    root mean square is. Counts, proportions and what is on a log scale have no unit.
    """
    likelihood = family_likelihood(problem)
    power = likelihood.link.power
    if not (likelihood.family.has_dispersion and power):
        return problem
    mean, weight = mean_target(problem), problem.columns.weight
    spread = float(problem.rows.sum(lambda rows: (float(rows.weights @ (rows.y - mean) ** 2),), add)[0]) / weight
    if spread == 0:
        return problem
    size = float(np.hypot(mean, np.sqrt(spread)))
    unit = size**power
    return problem._replace(
        unit=abs(power) * unit * float(np.sqrt(spread)) / size, intercept_scale=INTERCEPT_SCALE * unit
    )


def constant_score(problem: Problem, likelihood: FamilyLikelihood) -> Array | None:
    """Weights whose score is the same for all rows, that of the mean target; None without an intercept."""
    if not problem.shape.intercept:
        return None

    def block(rows: Block) -> Sums:
        weight = rows.weights
        offset = 0.0 if rows.offset is None else float(weight @ rows.offset)
        # The same sum as that of targets which are all one, so that their mean is one.
        return float(weight @ np.ones_like(weight)), float(weight @ rows.y), offset

    n, total, offset = (float(part) for part in problem.rows.sum(block, add))
    weights = np.zeros(problem.shape.per_output)
    weights[-1] = likelihood.link.link(np.array(total / n)) - offset / n
    return weights


def null_scores(problem: Problem, search: Search) -> Scored | None:
    """Scores of the model with the intercept alone; the offset alone where there is none.

    None where all targets are at one end of their range: the intercept is infinite, and fits them without error.
    """
    likelihood = family_likelihood(problem)
    start = constant_score(problem, likelihood)
    if start is None:
        return partial(_null, score=0.0)
    score = float(start[-1])
    if np.isinf(score) and likelihood.family.variance(likelihood.mean(start[-1:])) == 0:
        return None
    shifted = problem.rows.sum(lambda rows: (float(np.abs(_offsets(rows)).sum()),), add)[0]
    if shifted != 0:  # else the mean target is its own estimate
        score = _best_intercept(Objective(likelihood, problem.rows.through(_ones), None, np.eye(1)), score, search)
    return partial(_null, score=score)


def _best_intercept(objective: Objective, start: float, search: Search) -> float:
    """The intercept that fits best, alone: by Newton, and by the sign of slopes where curvature is rounded away."""
    controls = Controls(report=search.controls.report)  # however loose, or short, the search for the fit is
    try:
        alone = laplace(objective, np.array([start]), controls)
        if alone.solution.status.good:
            return float(alone.posterior.mean[0])
    except NotPositiveDefinite:
        pass  # offsets may fit, or miss, every target by so much that an intercept hardly matters
    return _where_slope_changes_sign(lambda score: -float(objective.gradient(np.array([score]))[0]), start)


def _where_slope_changes_sign(slope: Callable[[float], float], x: float) -> float:
    """The maximum, uphill of x, of a function of one number: steps that double, then halve.

    It needs no curvature. Where the slope is NaN, outside of the link's domain, the domain is looked for on both sides
    of x. The answer is x itself where the function is flat, NaN where it has no slope anywhere.
    """
    reach = [0.0, *(side * 2.0**k for k in range(40) for side in (1, -1))]
    x, first = next(((x + r, s) for r in reach if not np.isnan(s := slope(x + r))), (np.nan, np.nan))
    if not abs(first) > 0:
        return x
    step = float(np.sign(first))
    while slope(x + step) * first > 0:  # not so where there is no slope
        x, step = x + step, 2 * step
    while abs(step) > 1e-12 * max(1.0, abs(x)):
        step /= 2
        if slope(x + step) * first > 0:
            x += step
    return x


def _ones(Z: Array) -> Array:
    return np.ones((Z.shape[0], 1))


def _null(rows: Block, score: float) -> Array:
    return _offsets(rows) + score


def _offsets(rows: Block) -> Array:
    return np.zeros(len(rows.y)) if rows.offset is None else rows.offset


def score_deviance(likelihood: FamilyLikelihood, rows: Block, f: Array) -> float:
    """The deviance at scores f; of proportions by log probabilities, since means near 0 and 1 round to those."""
    if not isinstance(likelihood.family, Proportions):
        return deviance(likelihood.family, rows.y, likelihood.mean(f), rows.weight)
    exact = xlogy(rows.y, rows.y) + xlog1py(1 - rows.y, -rows.y)
    return float(2 * (rows.weights @ (exact - likelihood.log_prob(rows.y, f))))


def describe_fit(problem: Problem, learnt: Learnt, search: Search) -> Fitted:
    """Deviances of the fit and of the intercept alone, in one pass."""
    likelihood, at_fit, at_null = family_likelihood(problem), fitted_scores(learnt), null_scores(problem, search)

    def block(part: Block) -> Sums:
        rows = part.counted
        fitted, null = (0.0 if at is None else score_deviance(likelihood, rows, at(rows)) for at in (at_fit, at_null))
        return fitted, null, float(rows.weights.sum())

    return Fitted(*(float(part) for part in problem.rows.sum(block, add)))


def pearson_sum(problem: Problem, means: Callable[[Block], Array]) -> float:
    """Pearson's statistic about means of every row."""
    family = family_likelihood(problem).family

    def block(part: Block) -> Sums:
        rows = part.counted
        return (pearson(family, rows.y, means(rows), rows.weight),)

    return float(problem.rows.sum(block, add)[0])


def r_log_likelihood(problem: Problem, learnt: Learnt, fitted: Fitted) -> float:
    """R's logLik: the dispersion there is deviance / n."""
    s = fitted.deviance / fitted.weight
    if not s > 0:  # an exact fit: a density without bound
        return float("inf")
    likelihood, at_fit = family_likelihood(problem), fitted_scores(learnt)

    def block(part: Block) -> Sums:
        rows = part.counted
        return (float(rows.weights @ likelihood.family.log_density(rows.y, likelihood.mean(at_fit(rows)), s)),)

    return float(problem.rows.sum(block, add)[0])
