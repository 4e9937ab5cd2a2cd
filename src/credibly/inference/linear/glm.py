"""What is special about generalised linear models: where searches start, units, dispersion, deviance.

Sums over rows; scores are those of weights of standardized columns, offsets added.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import xlog1py, xlogy

from credibly.data.rows import Block, Sums
from credibly.errors import InputError
from credibly.inference.linear.design import Coordinates
from credibly.inference.linear.objective import Objective, scores
from credibly.inference.linear.priors import INTERCEPT_SCALE
from credibly.inference.linear.spec import Data
from credibly.model.likelihoods.families import NegativeBinomial
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood, deviance, pearson, starting_scores
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.links import silent
from credibly.model.likelihoods.proportions import Proportions
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import weighted_gram

if TYPE_CHECKING:
    from credibly.inference.linear.fit import LinearFit

PERFECT = 1e-24  # of the targets' own spread: a fit this near is exact but for rounding
EDGE = 1e-6  # of the largest score: so near to a link's domain a search has run into its edge
MOST_DOUBLINGS = 40  # of the distance at which the domain of a null model is looked for
NULL_ROUNDING = 1e-12  # of the intercept of a null model
FIRST_EXTRA = -6.0  # log of the negative binomial's extra variance to start from, where the targets show none

Scored = Callable[[Block], Array]  # the score of every row of a block


def averages_exist(likelihood: AnyLikelihood) -> bool:
    """Whether E[log p] under a Gaussian score exists: not where a link takes some scores only."""
    inside = [True] if not isinstance(likelihood, FamilyLikelihood) else likelihood.form.inside(np.array([-1.0, 1.0]))
    return bool(np.all(inside))


def has_free_dispersion(likelihood: FamilyLikelihood) -> bool:
    """Whether there is a dispersion that could be estimated."""
    return likelihood.family.has_dispersion or isinstance(likelihood.family, NegativeBinomial)


def has_dispersion(likelihood: AnyLikelihood) -> bool:
    """Whether the family has a dispersion on which the estimate without a prior does not depend."""
    return isinstance(likelihood, FamilyLikelihood) and likelihood.family.has_dispersion


def with_dispersion(likelihood: FamilyLikelihood, s: float) -> FamilyLikelihood:
    """The likelihood at another dispersion; for the negative binomial that is α of its variance μ + αμ²."""
    if isinstance(likelihood.family, NegativeBinomial):
        return replace(likelihood, family=NegativeBinomial(s))
    return likelihood.with_dispersion(s)


def dispersion_of(likelihood: FamilyLikelihood) -> float:
    """The dispersion of a likelihood."""
    return likelihood.family.dispersion if isinstance(likelihood.family, NegativeBinomial) else likelihood.dispersion


def no_maximum(likelihood: FamilyLikelihood, error: Exception) -> InputError:
    """What to say where a search has left the domain of a family and link."""
    return InputError(
        f"No maximum was found for the {likelihood.family.name} family with the {likelihood.link.name} link: its "
        f"curvature vanishes, or its domain ends, on the way ({error}) Use the canonical link, or a tighter prior."
    )


# --- where a search starts, and in which units ---------------------------------------------------------------


class TargetMoments(NamedTuple):
    """Weighted moments of the targets, and the mean offset."""

    weight: float
    mean: float
    variance: float
    offset: float


def target_moments(data: Data) -> TargetMoments:
    """In two passes: the spread is taken about the mean."""

    def first(rows: Block) -> Sums:
        weight = rows.weights
        offset = 0.0 if rows.offset is None else float(weight @ rows.offset)
        # The same sum as that of targets which are all one, so that their mean is one.
        return float(weight @ np.ones_like(weight)), float(weight @ rows.y), offset

    weight, total, offset = (float(part) for part in data.rows.sum(first))
    mean = total / weight
    squares = float(data.rows.sum(lambda rows: (float(rows.weights @ (rows.y - mean) ** 2),))[0])
    return TargetMoments(weight, mean, squares / weight, offset / weight)


def glm_units(data: Data, likelihood: AnyLikelihood) -> tuple[float, float]:
    """Units of coefficients and of the intercept under learnt priors: another unit of the target changes nothing.

    Where the link is a power, coefficients are measured by what the targets' spread is in scores, the intercept by what
    their root mean square is. Counts, proportions and what is on a log scale have no unit.
    """
    assert isinstance(likelihood, FamilyLikelihood)
    power = likelihood.link.power
    if not (likelihood.family.has_dispersion and power):
        return 1.0, INTERCEPT_SCALE
    moments = target_moments(data)
    if moments.variance == 0:
        return 1.0, INTERCEPT_SCALE
    size = float(np.hypot(moments.mean, np.sqrt(moments.variance)))
    unit = size**power
    return abs(power) * unit * float(np.sqrt(moments.variance)) / size, INTERCEPT_SCALE * unit


def starting_point(objective: Objective, data: Data) -> Array:
    """Weights whose scores all have a mean: a constant score at the mean target, or least squares on R's scores."""
    likelihood, standard = objective.likelihood, objective.design.standardization
    assert isinstance(likelihood, FamilyLikelihood)
    for candidate in (_constant_score, _least_squares):
        weights = candidate(data, likelihood, standard)
        if weights is not None and np.isfinite(objective.log_likelihood(weights)):
            return weights
    raise InputError(
        f"No weights were found from which a search could start: with the {likelihood.link.name} link some scores have "
        f"no mean of the {likelihood.family.name} family. Use the log link, or centre the columns and offsets."
    )


def _constant_score(data: Data, likelihood: FamilyLikelihood, standard: Coordinates) -> Array | None:
    """Weights whose score is the same for all rows, that of the mean target; None without an intercept."""
    if not standard.intercept:
        return None
    moments = target_moments(data)
    weights = np.zeros(standard.size)
    weights[-1] = likelihood.link.link(np.array(moments.mean)) - moments.offset
    return weights


def _least_squares(data: Data, likelihood: FamilyLikelihood, standard: Coordinates) -> Array:
    return least_squares(data, standard, partial(starting_scores, likelihood))


def least_squares(data: Data, standard: Coordinates, score: Callable[[Array], Array]) -> Array:
    """Weights of standardized columns that fit the scores of the targets best; of several those of least norm."""

    def block(rows: Block) -> Sums:
        target = score(rows.y) - (0.0 if rows.offset is None else rows.offset)
        return weighted_gram(rows.X, rows.weights), np.asarray(rows.X.T @ (rows.weights * target))

    gram, moment = data.rows.through(standard.design).sum(block)
    return np.asarray(np.linalg.lstsq(np.asarray(gram), np.asarray(moment))[0])


def first_dispersion(data: Data, likelihood: FamilyLikelihood) -> float:
    """log of Pearson's dispersion around the mean target; of the extra variance for the negative binomial."""
    moments = target_moments(data)
    if isinstance(likelihood.family, NegativeBinomial):
        extra = moments.variance - moments.mean
        return float(np.log(extra / moments.mean**2)) if extra > 0 else FIRST_EXTRA
    s = pearson_sum(data, likelihood, lambda rows: np.full(len(rows.y), moments.mean)) / moments.weight
    if not s > 0:
        why = "From one sample" if data.rows.n_rows == 1 else "From targets that are all alike"
        raise InputError(f"{why} no dispersion can be estimated: give it (dispersion=).")
    return float(np.log(s))


# --- what a fit says of its rows -------------------------------------------------------------------------------


def fitted_scores(w: Array) -> Scored:
    """Scores at weights in data units, (D,), intercept last."""
    return partial(scores, W=w[None])


def pearson_sum(data: Data, likelihood: FamilyLikelihood, means: Callable[[Block], Array]) -> float:
    """Pearson's statistic about means of every row."""

    def block(part: Block) -> Sums:
        rows = part.counted
        return (pearson(likelihood.family, rows.y, means(rows), rows.weight),)

    return float(data.rows.sum(block)[0])


def deviance_sum(data: Data, likelihood: FamilyLikelihood, at: Scored) -> float:
    """The deviance at some scores; of proportions by log probabilities, since means near 0 and 1 round to those."""

    def block(part: Block) -> Sums:
        rows = part.counted
        f = at(rows)
        if not isinstance(likelihood.family, Proportions):
            return (deviance(likelihood.family, rows.y, likelihood.mean(f), rows.weight),)
        exact = xlogy(rows.y, rows.y) + xlog1py(1 - rows.y, -rows.y)
        return (float(2 * (rows.weights @ (exact - likelihood.log_prob(rows.y, f)))),)

    return float(data.rows.sum(block)[0])


def r_log_likelihood(data: Data, likelihood: FamilyLikelihood, at: Scored, s: float) -> float:
    """R's logLik: the dispersion s there is deviance / n; infinite for an exact fit, a density without bound."""
    if not s > 0:
        return float("inf")

    def block(part: Block) -> Sums:
        rows = part.counted
        return (float(rows.weights @ likelihood.family.log_density(rows.y, likelihood.mean(at(rows)), s)),)

    return float(data.rows.sum(block)[0])


def at_edge(data: Data, likelihood: FamilyLikelihood, at: Scored) -> bool:
    """Whether some score is about to leave the link's domain."""
    largest = float(data.rows.sum(lambda part: float(np.abs(at(part.counted)).max(initial=0.0)), max))
    step = EDGE * max(1.0, largest)

    def near_edge(part: Block) -> bool:
        f = at(part.counted)
        return not bool((likelihood.form.inside(f - step) & likelihood.form.inside(f + step)).all())

    return bool(data.rows.sum(near_edge, max))


class Fitted(NamedTuple):
    """What a likelihood says of the rows that were fitted."""

    deviance: float
    null_deviance: float
    weight: float


def describe(data: Data, fit: "LinearFit") -> Fitted:
    """Deviances of a fit and of the intercept alone (of the offset alone, where there is none)."""
    likelihood = fit.likelihood
    assert isinstance(likelihood, FamilyLikelihood)
    at_null = _null_scores(data, likelihood, intercept=fit.shape.intercept)
    null = 0.0 if at_null is None else deviance_sum(data, likelihood, at_null)
    return Fitted(deviance_sum(data, likelihood, fitted_scores(fit.weights[0])), null, data.columns.weight)


def _null_scores(data: Data, likelihood: FamilyLikelihood, *, intercept: bool) -> Scored | None:
    """Scores of the model without columns.

    None where all targets are at one end of their range: the intercept is infinite, and fits them without error.
    """
    if not intercept:
        return partial(_null, score=0.0)
    moments = target_moments(data)
    score = float(likelihood.link.link(np.array(moments.mean))) - moments.offset
    if np.isinf(score) and likelihood.family.variance(likelihood.mean(np.array([score]))) == 0:
        return None
    if data.rows.sum(lambda rows: (float(np.abs(_offsets(rows)).sum()),))[0] != 0:  # else the mean target is its own
        score = _best_intercept(data, likelihood, score)
    return partial(_null, score=score)


def _best_intercept(data: Data, likelihood: FamilyLikelihood, start: float) -> float:
    """The intercept that fits best, alone: uphill of a start, where the slope of the log likelihood changes its sign.

    No curvature is needed: offsets may fit, or miss, every target by so much that an intercept hardly matters. Where
    the start is outside the link's domain, that is looked for on both sides. The answer is the start itself where the
    likelihood is flat, NaN where it has no slope anywhere.
    """
    from scipy.optimize import brentq

    def slope(score: float) -> float:
        def block(part: Block) -> Sums:
            rows = part.counted
            with silent():  # slopes at the end of a domain are infinite, of either sign
                return (float(rows.weights @ likelihood.slopes(rows.y, _offsets(rows) + score).grad),)

        return float(data.rows.sum(block)[0])

    reach = (0.0, *(side * 2.0**k for k in range(MOST_DOUBLINGS) for side in (1, -1)))
    low, here = next(((start + r, s) for r in reach if not np.isnan(s := slope(start + r))), (np.nan, np.nan))
    if not abs(here) > 0:
        return low
    step, inside = float(np.copysign(1.0, here)), True
    while abs(step) > NULL_ROUNDING * max(1.0, abs(low)):
        high, there = low + step, slope(low + step)
        if not np.isfinite(there):  # beyond the end of the domain, or at it
            step, inside = step / 2, False
        elif there * here <= 0:
            return float(brentq(slope, min(low, high), max(low, high), xtol=1e-12, rtol=1e-14))
        else:
            low, step = high, 2 * step if inside else step / 2
    return low


def _null(rows: Block, score: float) -> Array:
    return _offsets(rows) + score


def _offsets(rows: Block) -> Array:
    return np.zeros(len(rows.y)) if rows.offset is None else rows.offset
