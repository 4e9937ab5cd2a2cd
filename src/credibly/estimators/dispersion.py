"""Learning a generalised linear model whose dispersion may have to be found too.

With a proper prior the dispersion is the one of highest evidence: for least squares that is RSS / (n - γ), γ the
effective number of weights, not RSS / n. Without a prior it is Pearson's, as R reports it, and for the negative
binomial maximum likelihood.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from credibly.data.rows import Block, Sums, add
from credibly.errors import InputError, NotPositiveDefinite, SingularPriorError
from credibly.estimators.fitted import (
    constant_score,
    family_likelihood,
    fitted_scores,
    mean_target,
    pearson_sum,
)
from credibly.estimators.learning import learn, objective_of
from credibly.estimators.problem import Learnt, PriorChoice, Problem, Search
from credibly.inference.laplace import laplace
from credibly.inference.objective import scores
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.model.likelihoods.families import NegativeBinomial
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood, starting_scores
from credibly.model.priors import Jeffreys
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, weighted_gram
from credibly.numerics.status import Local, Solution, Status

WIDEST = 12.0  # in log dispersion, on either side of a first guess
PRECISE = 1e-6  # in log dispersion, of the search by values
NARROW = 1e-2  # in log dispersion: bounds from whose middle a Newton step will do
STEP = 3e-3  # of differences: they err by its fourth power, and rounding is divided by it
MOST_ROUNDS = 20  # of prior scales and dispersion in turn
AT_BOUND = 0.1  # in log dispersion: so near, an evidence that is flat but for rounding may have a maximum
EDGE = 1e-6  # of the largest score
SETTLED = 1e-9  # in log dispersion
PERFECT = 1e-24  # of the targets' own spread: a fit this near is exact but for rounding


def learn_glm(problem: Problem, choice: PriorChoice, dispersion: float | None, search: Search) -> Learnt:
    """Weights, and the dispersion where it is not given; `Learnt.likelihood` has what was found."""
    try:
        learnt = _learn(problem._replace(start=starting_point(problem)), choice, dispersion, search)
    except SingularPriorError:
        raise
    except NotPositiveDefinite as error:
        likelihood = family_likelihood(problem)
        raise InputError(
            f"No maximum was found for the {likelihood.family.name} family with the {likelihood.link.name} link: its "
            f"curvature vanishes, or its domain ends, on the way ({error}) Use the canonical link, or a tighter prior."
        ) from error
    if learnt.status is Status.STALLED and _at_the_edge(problem, learnt):
        return learnt._replace(status=Status.EDGE_OF_DOMAIN)
    return learnt


def _at_the_edge(problem: Problem, learnt: Learnt) -> bool:
    """Whether some score is about to leave the link's domain."""
    likelihood, W = family_likelihood(problem), learnt.result.posterior.mean[None, :]
    f = problem.rows.map(lambda rows: scores(rows, W))
    step = EDGE * max(1.0, float(np.abs(f).max()))
    return not bool((likelihood.form.inside(f - step) & likelihood.form.inside(f + step)).all())


def _learn(problem: Problem, choice: PriorChoice, dispersion: float | None, search: Search) -> Learnt:
    likelihood = family_likelihood(problem)
    if dispersion is not None or not has_free_dispersion(likelihood):
        return learn(problem, choice, search)._replace(likelihood=likelihood)
    if isinstance(choice, Jeffreys):
        raise InputError(
            f"Jeffreys() needs a known dispersion for the {likelihood.family.name} family; give dispersion=."
        )
    if choice is None and likelihood.family.has_dispersion:
        return _with_pearson(problem, search)
    return _with_best(problem, choice, search)


def has_free_dispersion(likelihood: FamilyLikelihood) -> bool:
    """Whether there is a dispersion that could be estimated."""
    return likelihood.family.has_dispersion or isinstance(likelihood.family, NegativeBinomial)


def with_dispersion(likelihood: FamilyLikelihood, s: float) -> FamilyLikelihood:
    """The likelihood at another dispersion; for the negative binomial that is α of its variance μ + αμ²."""
    if isinstance(likelihood.family, NegativeBinomial):
        return replace(likelihood, family=NegativeBinomial(s))
    return likelihood.with_dispersion(s)


def dispersion_found(learnt: Learnt) -> float:
    """The dispersion of a fit; NaN where it could not be estimated."""
    likelihood = learnt.likelihood
    assert isinstance(likelihood, FamilyLikelihood)
    if learnt.status in {Status.FITTED_EXACTLY, Status.UNDETERMINED}:
        return float("nan")
    return likelihood.family.dispersion if isinstance(likelihood.family, NegativeBinomial) else likelihood.dispersion


def starting_point(problem: Problem) -> Array:
    """Weights whose scores all have a mean: a constant score at the mean target, or least squares on R's scores."""
    likelihood = family_likelihood(problem)
    for candidate in (constant_score, _least_squares):
        weights = candidate(problem, likelihood)
        if weights is not None and np.isfinite(_log_likelihood(problem, weights)):
            return weights
    raise InputError(
        f"No weights were found from which a search could start: with the {likelihood.link.name} link some scores have "
        f"no mean of the {likelihood.family.name} family. Use the log link, or centre the columns and offsets."
    )


def _log_likelihood(problem: Problem, weights: Array) -> float:
    """Not finite where some row has no mean."""
    likelihood = family_likelihood(problem)

    def block(part: Block) -> Sums:
        rows = part.counted
        return (float(rows.weights @ likelihood.log_prob(rows.y, scores(rows, weights[None, :]))),)

    return float(problem.rows.sum(block, add)[0])


def _least_squares(problem: Problem, likelihood: FamilyLikelihood) -> Array:
    def block(rows: Block) -> Sums:
        target = starting_scores(likelihood, rows.y) - (0.0 if rows.offset is None else rows.offset)
        return weighted_gram(rows.X, rows.weights), np.asarray(rows.X.T @ (rows.weights * target))

    gram, moment = problem.rows.sum(block, add)
    return np.asarray(np.linalg.lstsq(np.asarray(gram), np.asarray(moment))[0])


def least_norm(problem: Problem) -> Learnt:
    """Least squares where columns are dependent: of all solutions the one of least norm in the frame."""
    likelihood = family_likelihood(problem)
    w = _least_squares(problem, likelihood)
    size = len(w)
    unknown = PSD(np.full((size, size), np.nan, order="F"))
    value = -_log_likelihood(problem, w)
    solution = Solution(w, Local(value, np.zeros(size), unknown), Status.UNDETERMINED, 1, 0.0)
    result = InferenceResult(Gaussian(w, unknown), np.nan, -value, solution)
    return Learnt(result, None, np.eye(1), Status.UNDETERMINED, likelihood=likelihood)


def _with_pearson(problem: Problem, search: Search) -> Learnt:
    """Maximum likelihood, which does not depend on the dispersion, then Pearson's estimate of it."""
    likelihood, mean = family_likelihood(problem), mean_target(problem)
    around_mean = pearson_sum(problem, lambda rows: np.full(len(rows.y), mean))
    guess = around_mean / problem.columns.weight  # in the target's unit: a search ends when nats do not change
    first = learn(
        problem._replace(likelihood=likelihood.with_dispersion(guess)) if guess > 0 else problem, None, search
    )
    at_fit = fitted_scores(first)
    chi2 = pearson_sum(problem, lambda rows: likelihood.mean(at_fit(rows)))
    free = problem.columns.weight - problem.shape.per_output
    if free <= 0 or chi2 <= PERFECT * around_mean:
        return _without_spread(first, Status.FITTED_EXACTLY)._replace(likelihood=likelihood)
    found = likelihood.with_dispersion(chi2 / free)
    again = learn(problem._replace(likelihood=found, start=first.result.posterior.mean), None, search)
    solution = again.result.solution._replace(steps=first.result.solution.steps)  # the second fit only changes units
    return again._replace(result=again.result._replace(solution=solution), likelihood=found)


def _without_spread(learnt: Learnt, status: Status) -> Learnt:
    """An estimate whose standard deviations are not known: NaN, rather than zero or anything else."""
    q = learnt.result.posterior
    unknown = Gaussian(q.mean, PSD(np.full_like(q.precision.factor, np.nan)))
    return learnt._replace(result=learnt.result._replace(posterior=unknown), status=status)


def _with_best(problem: Problem, choice: PriorChoice, search: Search) -> Learnt:
    """The dispersion of highest evidence, or of highest likelihood where there is no prior.

    Prior scales that are to be learnt and the dispersion take turns until neither moves.
    """
    guess = _first_guess(problem)
    widest = (guess - WIDEST, guess + WIDEST)
    log_s, bounds = guess, widest
    learnt = _at(problem, log_s, choice, search)
    for _ in range(MOST_ROUNDS):
        before, log_s = log_s, _best_dispersion(problem, learnt, search, bounds)
        nearest = min(widest, key=lambda bound: abs(log_s - bound))
        if at_bound := abs(log_s - nearest) < AT_BOUND:
            log_s = nearest
        try:
            learnt = _at(problem._replace(start=learnt.result.posterior.mean), log_s, choice, search)
        except NotPositiveDefinite:  # a dispersion so small that some priors vanish beside the likelihood
            return learnt._replace(status=Status.DISPERSION_AT_BOUND)
        moved = abs(log_s - before)
        if at_bound:
            return learnt._replace(status=Status.DISPERSION_AT_BOUND)
        if moved < SETTLED or not isinstance(choice, str):
            break
        reach = 4 * max(moved, 1e-3)
        bounds = max(widest[0], log_s - reach), min(widest[1], log_s + reach)
    return learnt


def _at(problem: Problem, log_s: float, choice: PriorChoice, search: Search) -> Learnt:
    likelihood = with_dispersion(family_likelihood(problem), float(np.exp(log_s)))
    return learn(problem._replace(likelihood=likelihood), choice, search)._replace(likelihood=likelihood)


def _best_dispersion(problem: Problem, learnt: Learnt, search: Search, bounds: tuple[float, float]) -> float:
    """log s of highest evidence under the prior of a fit, every search starting at the last mode."""
    from scipy.optimize import minimize_scalar

    likelihood, mode = family_likelihood(problem), learnt.result.posterior.mean

    def loss(log_s: float) -> float:
        nonlocal mode
        at = problem._replace(likelihood=with_dispersion(likelihood, float(np.exp(log_s))))
        try:
            result = laplace(objective_of(at, learnt.prior, learnt.contrast), mode, search.controls)
        except NotPositiveDefinite:  # a dispersion so small that the prior vanishes beside the likelihood
            return float("inf")
        mode = result.posterior.mean
        return -(result.log_likelihood if learnt.prior is None else result.log_evidence)

    known = (bounds[0] + bounds[1]) / 2 if bounds[1] - bounds[0] < NARROW else None
    polished = None if known is None else _polished(loss, known)
    if polished is not None:
        return polished
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": PRECISE, "maxiter": 200})
    polished = _polished(loss, float(found.x))
    return float(found.x) if polished is None else polished


def _polished(loss: Callable[[float], float], x: float) -> float | None:
    """After a Newton step by differences, if it is short: values are flat at a minimum and tell it to 1e-8 only."""
    before, left, here, right, beyond = (loss(x + steps * STEP) for steps in (-2, -1, 0, 1, 2))
    slope = (before - beyond + 8 * (right - left)) / (12 * STEP)
    curvature = (16 * (left + right) - before - beyond - 30 * here) / (12 * STEP**2)
    near = curvature > 0 and abs(slope) < STEP * curvature  # not so at a bound, or where a value is infinite
    return x - slope / curvature if near else None


def _first_guess(problem: Problem) -> float:
    """log of Pearson's dispersion around the mean target; of the extra variance for the negative binomial."""
    likelihood = family_likelihood(problem)
    mean, weight = mean_target(problem), problem.columns.weight
    if isinstance(likelihood.family, NegativeBinomial):
        squares = problem.rows.sum(lambda rows: (float(rows.weights @ (rows.y - mean) ** 2),), add)[0]
        extra = float(squares) / weight - mean
        return float(np.log(extra / mean**2) - WIDEST / 2) if extra > 0 else -WIDEST / 2
    s = pearson_sum(problem, lambda rows: np.full(len(rows.y), mean)) / weight
    if not s > 0:
        why = "From one sample" if problem.rows.n_rows == 1 else "From targets that are all alike"
        raise InputError(f"{why} no dispersion can be estimated: give it (dispersion=).")
    return float(np.log(s))
