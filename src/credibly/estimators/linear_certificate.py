"""`certify` of models linear in their columns."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from credibly.data.rows import MemoryRows
from credibly.data.threads import single_threaded_blas
from credibly.errors import ImproperPriorError, NotDefinedError
from credibly.estimators.certificate import (
    Certificate,
    Found,
    Gap,
    draws_rng,
    print_draws,
    read_draws,
    warn_other_data,
)
from credibly.estimators.targets import read_offset
from credibly.inference.linear.fit import LinearFit, with_flips
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.posterior import DrawnPosterior
from credibly.inference.linear.spec import Data
from credibly.inference.linear.wide import WideGaussian
from credibly.inference.trust.importance import Correction, correct
from credibly.inference.trust.target import FlipTarget, WeightTarget
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.kinds import true_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.arrays import Array
from credibly.numerics.settings import IMPORTANCE
from credibly.numerics.weighted_draws import WeightedDraws, weighted_mean
from credibly.predictive import Predictive, log_proba_over_draws, predictive_of

if TYPE_CHECKING:
    from credibly.estimators.linear_base import LinearModel

SAME_DATA = 1e-6  # relative difference of log likelihoods that is only rounding and the order of sums
MOST_DRAWS = 8_192  # that predictions average over: each is another prediction for every row
COMPARED_SCORES = 20_000_000  # of training rows at all draws; fewer rows are looked at where they would be more
FEWEST_COMPARED = 100  # rows, all the same


class CorrectedWeights:
    """A linear model's numbers by weighted draws of its free weights."""

    def __init__(self, model: LinearModel, draws: WeightedDraws, correction: Correction | None) -> None:
        self._model = copy.copy(model)  # as it is now: the model may be fitted again
        self._fit, self._posterior = model.fit_, model.fit_.posterior.of_scores()
        self._draws, self._few, self._correction = draws, draws.thinned(MOST_DRAWS), correction
        self.mean, self.std = self._fit.posterior.moments_of(draws.x, draws.weights)

    def log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K)."""
        predictive, posterior, draws = self._predictive(), self._posterior, self._few

        def averaged(f: Array) -> Array:
            return log_proba_over_draws(predictive, f, draws.log_weights)

        rows = self._model._rows(X, len(draws.x))
        return rows.map(lambda block: averaged(posterior.scores_of(block.X, draws.x)))

    def khat(self, X: ArrayLike) -> Array:
        """k̂ of every prediction, (n,); NaN for draws that have no weights."""
        if self._correction is None:
            return np.full(len(self._model._rows(X).y), np.nan)
        log_terms, posterior = self._log_terms(), self._posterior
        some = self._correction.thinned(IMPORTANCE.settled_pairs)
        points = some.points[:, : posterior.free.mean.size]
        rows = self._model._rows(X, len(points))
        return rows.map(lambda block: some.khats(log_terms(posterior.scores_of(block.X, points))))

    def predict(self, X: ArrayLike, offset: ArrayLike | None, exposure: ArrayLike | None) -> Array:
        """The mean of the target of a generalised linear model, (n,)."""
        posterior, likelihood, draws = self._posterior, self._fit.likelihood, self._few
        if not isinstance(likelihood, FamilyLikelihood):
            raise NotDefinedError("A classifier's certificate has predict_proba(X); predict is for BayesianGLM.")
        rows = self._model._rows(X, len(draws.x))
        shift = read_offset(likelihood.link, offset, exposure, n_rows=rows.n_rows)
        rows = rows._with(offset=shift)

        def mean(block: Any) -> Array:
            f = posterior.scores_of(block.X, draws.x)[..., 0]
            return weighted_mean(likelihood.mean(f if block.offset is None else f + block.offset), draws.weights)

        return rows.map(mean)

    def _log_terms(self) -> Callable[[Array], Array]:
        """What predictions average over draws, as logarithms: probabilities, or the sizes of means."""
        likelihood = self._fit.likelihood
        if not isinstance(likelihood, FamilyLikelihood):
            return self._predictive().log_proba_at

        def log_size(f: Array) -> Array:
            with np.errstate(all="ignore"):
                return np.asarray(np.log(np.abs(likelihood.mean(f))))

        return log_size

    def _predictive(self) -> Predictive:
        likelihood = true_likelihood(self._fit.likelihood)
        if isinstance(likelihood, FamilyLikelihood):
            raise NotDefinedError(
                "A generalised linear model predicts the mean of its target, not classes: use the certificate's "
                "predict(X) instead of predict_proba(X)."
            )
        return predictive_of(likelihood)


def certify_weights(model: LinearModel, data: Data, draws: Any, random_state: Any) -> Certificate:
    """The certificate of a linear model on the rows of its fit."""
    fit, posterior = model.fit_, model.posterior_
    size = read_draws(draws, posterior.free.mean.size)
    if fit.spec.flat:
        raise ImproperPriorError(
            f"certify compares with the exact posterior, which needs a prior that is a distribution; this model has "
            f'prior={model.prior!r}. Use prior="empirical" or Normal(scale=2.5).'
        )
    if isinstance(posterior.free, WideGaussian):
        raise NotDefinedError(
            "certify needs the precision of all weights, and this posterior, of many weights and many rows, is known "
            "by its mode and by draws. Use fewer columns, or fewer rows than columns."
        )
    assert fit.prior is not None
    objective = Objective(data.rows, posterior.design, fit.likelihood, fit.prior)
    difference = _difference_from_fit(fit, data, objective)
    if difference is not None:
        what = "the certificate compares the model's posterior with that of these data"
        warn_other_data(f"{difference}; {what}", stacklevel=5)
    if isinstance(posterior, DrawnPosterior):
        return Certificate(_of_chains(model, posterior))
    with single_threaded_blas():
        report = print_draws if model.verbose else None
        correction = correct(draws_rng(model, random_state), _target(fit, objective), size, report=report)
        correction = correction._replace(log_evidence=correction.log_evidence + data.log_constant)
        points = correction.points[:, : posterior.free.mean.size]  # without logits of flip probabilities
        corrected = CorrectedWeights(model, WeightedDraws(points, correction.log_weights), correction)
        gap = _gap(fit, data, points, correction)
    return Certificate(Found.of(correction, corrected, gap, _advice(fit)))


def _advice(fit: LinearFit) -> str:
    better = "'auto' or 'exact'" if fit.spec.inference == "laplace" else "'exact'"
    return f"fit again with inference={better}"


def _of_chains(model: LinearModel, posterior: DrawnPosterior) -> Found:
    """Draws of the posterior itself: good where their chains agree."""
    fit, rhat, ess = model.fit_, model.rhat_, model.ess_
    x = posterior.draws
    draws = WeightedDraws(x, np.full(len(x), -np.log(len(x))))
    agree, worth = fit.status.good, f"(R-hat {rhat:.3f}; worth at least {ess:.0f} independent draws)"
    if agree:
        verdict = (
            f"The computation is accurate: these are draws of the posterior itself, whose chains agree {worth}. "
            "Whether the model fits the data is another question."
        )
    else:
        verdict = f"Do not rely on these draws: their chains do not agree {worth}. Allow more passes (max_passes=)."
    corrected = CorrectedWeights(model, draws, None)
    evidence = fit.log_evidence, fit.log_evidence_se
    return Found(np.nan, agree, ess, len(x), *evidence, 0.0, 1.0, 0.0, verdict, corrected)


def _target(fit: LinearFit, objective: Objective) -> WeightTarget | FlipTarget:
    joint = with_flips(fit)
    if joint is None:
        return WeightTarget(objective, fit.posterior.free)
    assert fit.spec.flips is not None
    return FlipTarget(objective, fit.spec.flips, joint)


def _gap(fit: LinearFit, data: Data, x: Array, correction: Correction) -> Gap:
    """How far the correction moves weights, scores and probabilities."""
    weights, posterior = fit.posterior.determined(), fit.posterior.of_scores()
    w, dw = np.exp(correction.log_weights), correction.weight_changes
    shift, widening = _moved(weights.design.to_data(x - weights.free.mean).reshape(len(x), -1), w, dw)
    rows = _some_rows(data.rows, max(FEWEST_COMPARED, COMPARED_SCORES // (len(x) * fit.shape.n_outputs)))
    labels = not isinstance(fit.likelihood, FamilyLikelihood)
    predictive = predictive_of(true_likelihood(fit.likelihood)) if labels else None

    def compared(block: Any) -> tuple[float, float]:
        f = posterior.scores_of(block.X, x)
        moved, _ = _moved(f.reshape(len(x), -1), w, dw)
        change = 0.0 if predictive is None else float(np.abs(weighted_mean(predictive.proba(f), dw)).max())
        return moved, change

    by_score, change = rows.sum(compared, lambda a, b: (max(a[0], b[0]), max(a[1], b[1])))
    return Gap(max(shift, by_score), widening, change)


def _moved(v: Array, w: Array, dw: Array) -> tuple[float, float]:
    """The largest shift of a mean of numbers v (S, …), in sds, and the largest ratio of sds before and after."""
    mean, shift = weighted_mean(v, w - dw), weighted_mean(v, dw)
    before, after = weighted_mean((v - mean) ** 2, w - dw), weighted_mean((v - mean) ** 2, w) - shift**2
    some = before > 0  # what is known beforehand, like the score of a row of zeros, moves nowhere
    if not (after[some] > 0).all():  # one draw has all the weight
        return np.inf, np.inf
    ratio = np.abs(np.log(after[some] / before[some]))
    shifts = np.abs(shift[some]) / np.sqrt(after[some])
    return float(shifts.max(initial=0.0)), float(np.exp(0.5 * ratio.max(initial=0.0)))


def _some_rows(rows: Any, most: int) -> MemoryRows:
    """So many rows, evenly spaced."""
    assert isinstance(rows, MemoryRows)
    at = np.unique(np.linspace(0, rows.n_rows - 1, min(most, rows.n_rows)).astype(int))
    some = rows.block(slice(0, rows.n_rows)).counted if rows.n_rows <= most else _taken(rows, at)
    return MemoryRows(some.X, some.y, threads=rows.threads).in_blocks(16)


def _taken(rows: MemoryRows, at: Array) -> Any:
    return rows.block(slice(0, rows.n_rows)).taken(at).counted


def _difference_from_fit(fit: LinearFit, data: Data, objective: Objective) -> str | None:
    """What tells that rows are not those of the fit: another number, or another log likelihood at the estimate.

    After `partial_fit` only the number of rows is known.
    """
    if data.n_counted != fit.n_rows:
        return f"{data.n_counted} rows count here, {fit.n_rows} in the fit"
    if fit.n_parts > 1:
        return None
    here, of_fit = _at_estimate(fit, objective) + data.log_constant, fit.log_likelihood
    if abs(here - of_fit) <= SAME_DATA * max(1.0, abs(of_fit)):
        return None
    return f"their log likelihood is {here:.12g}, that of the fit's rows {of_fit:.12g}"


def _at_estimate(fit: LinearFit, objective: Objective) -> float:
    likelihood, belief = fit.likelihood, fit.spec.flips
    if belief is not None:  # the fit's is at their mode, the model's flips are their mean
        assert isinstance(likelihood, LabelNoise | NoisyCategorical)
        flips = np.resize(belief.flips(fit.parameters.mode), likelihood.flips.shape)
        objective = Objective(objective.rows, objective.design, likelihood.with_flips(flips), objective.prior)
    return objective.log_likelihood(fit.posterior.free.mean)
