"""Better than Laplace: expectation propagation, the skew correction, and a ladder to climb until one of them holds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.estimators.learning import (
    BESIDE_COLUMNS,
    ChosenPrior,
    chosen_prior,
    explained,
    find_mode,
    learn,
    objective_of,
)
from credibly.estimators.problem import Drawn, Learnt, PriorChoice, Problem, Search, posterior_of
from credibly.inference.drawn_posterior import MOST_DRAWS, DrawnPosterior
from credibly.inference.importance import SMALL_SHIFT, SMALL_WIDENING, Correction, correct
from credibly.inference.posterior import Gaussian
from credibly.inference.targets import WeightTarget
from credibly.inference.weight_ep import WeightSitesProblem, weight_ep
from credibly.inference.wide import WideGaussian
from credibly.model.likelihoods import Likelihood
from credibly.model.priors import Normal
from credibly.numerics.status import Status
from credibly.numerics.weighted_draws import CLOSE


def learn_by_ep(problem: Problem, choice: Normal | str, search: Search) -> Learnt:
    """Expectation propagation under a prior that is given, or whose scales have the highest Laplace evidence."""
    return ep_from(problem, chosen_prior(problem, choice, search), search)


def ep_from(problem: Problem, chosen: ChosenPrior, search: Search) -> Learnt:
    """Expectation propagation from one given prior."""
    assert isinstance(problem.likelihood, Likelihood)
    y, counts = (problem.raw.map(take) for take in (lambda rows: rows.y, lambda rows: rows.weights))
    sites = WeightSitesProblem(problem.likelihood, chosen.prior, problem.rows, y, counts)
    with explained(BESIDE_COLUMNS):
        at_mode = find_mode(objective_of(problem, chosen.prior, np.eye(1)), chosen.prior.mean, search)
        result = weight_ep(sites, at_mode.posterior.mean, search.controls)
    status = result.solution.status if not result.solution.status.good else chosen.status
    return Learnt(result, chosen.prior, np.eye(1), status, chosen.resolved, chosen.scale)


class Checked(NamedTuple):
    """A Gaussian posterior, and what draws from it say."""

    problem: Problem
    learnt: Learnt
    target: WeightTarget
    correction: Correction

    @classmethod
    def of(cls, problem: Problem, learnt: Learnt, rng: np.random.Generator) -> Checked:
        """Draw from the posterior found and weigh the draws."""
        target = target_of(problem, learnt)
        return cls(problem, learnt, target, correct(rng, target))

    def holds(self, khat: float, learnt: Learnt) -> bool:
        """Whether a posterior, whose ratios have this k̂, is near enough to the corrected one."""
        frame = self.problem.frame
        corrected, other = posterior_of(self.corrected(), frame), posterior_of(learnt, frame)
        assert isinstance(corrected, DrawnPosterior)
        draws = corrected.data._replace(x=corrected.determined(corrected.data.x))
        shift, widening = draws.differences(*other.moments())
        near = shift <= SMALL_SHIFT and widening <= SMALL_WIDENING
        return khat <= CLOSE and near and self.correction.reliable

    def skewed(self) -> Learnt:
        """The skew-symmetric correction: means, intervals and predictions by draws reflected about the mode."""
        pairs = self.correction.pairs.first(MOST_DRAWS // 2)  # in random order: as good as any
        return self.with_evidence(self.learnt._replace(drawn=Drawn(pairs, pairs.skew_log_weights, self.target)))

    def corrected(self) -> Learnt:
        """The importance correction: everything by weighted draws."""
        drawn = Drawn(self.correction.pairs, self.correction.log_weights, None)
        return self.with_evidence(self.learnt._replace(drawn=drawn))

    def with_evidence(self, learnt: Learnt) -> Learnt:
        """With the corrected evidence; where that cannot be relied on, with a status that says so."""
        if not self.correction.reliable:
            return learnt._replace(status=Status.UNTRUSTWORTHY, log_evidence_se=np.nan)
        result = learnt.result._replace(log_evidence=self.correction.log_evidence)
        return learnt._replace(result=result, log_evidence_se=self.correction.log_evidence_se)


def target_of(problem: Problem, learnt: Learnt) -> WeightTarget:
    """The posterior that a fit approximates, beside its approximation."""
    return WeightTarget(objective_of(problem, learnt.prior, learnt.contrast), learnt.result.posterior)


def learn_skewed(problem: Problem, choice: PriorChoice, search: Search, rng: np.random.Generator) -> Learnt:
    """Laplace, and the skew-symmetric correction of it."""
    return Checked.of(problem, learn(problem, choice, search), rng).skewed()


def learn_auto(problem: Problem, choice: PriorChoice, search: Search, rng: np.random.Generator) -> Learnt:
    """Laplace, then its skew correction, then EP, then importance weights: the first whose certificate holds."""
    first = learn(problem, choice, search)
    if isinstance(first.result.posterior, WideGaussian):  # too many weights for anything better
        return first._replace(rung="laplace")
    return climb(problem, first, search, rng)


def climb(problem: Problem, first: Learnt, search: Search, rng: np.random.Generator) -> Learnt:
    """Go up the ladder from a Laplace posterior.

    A rung holds when its ratios have a finite variance, k̂ ≤ 0.5, and correcting it by them moves no mean by more than
    a quarter of its standard deviation, and no standard deviation by more than a quarter. Importance weights, the last
    rung, take the draws of lowest k̂ and hold up to 0.7. Where that fails too, what has the lowest k̂ is reported with a
    bad status: EP, or the skew correction. The evidence is the corrected one wherever that can be relied on.
    """
    laplace = Checked.of(problem, first, rng)
    if laplace.holds(laplace.correction.khat_plain, first):
        return laplace.with_evidence(first)._replace(rung="laplace")
    skewed = laplace.skewed()
    if laplace.holds(laplace.correction.khat_symmetrised, skewed):
        return skewed._replace(rung="skew")
    ep = _by_ep(problem, first, search, rng)
    if ep is not None and ep.holds(ep.correction.khat_plain, ep.learnt):
        return ep.with_evidence(ep.learnt)._replace(rung="ep")
    found = {"laplace": laplace} | ({} if ep is None else {"ep": ep})
    nearest = min(found, key=lambda rung: found[rung].correction.khat)
    best = found[nearest]
    if best.correction.reliable:
        return best.corrected()._replace(rung="importance")
    if nearest == "laplace":
        return skewed._replace(rung="skew")
    return best.with_evidence(best.learnt)._replace(rung=nearest)


def _by_ep(problem: Problem, first: Learnt, search: Search, rng: np.random.Generator) -> Checked | None:
    """EP from the same prior; None where there is none (softmax, other priors, parts of rows), or it fails."""
    whole = problem.raw.map(lambda rows: (rows.weights == 0) | (rows.weights >= 1)).all()
    if not (whole and isinstance(problem.likelihood, Likelihood) and isinstance(first.prior, Gaussian)):
        return None
    try:
        learnt = ep_from(problem, ChosenPrior(first.prior, first.resolved, first.prior_scale, first.status), search)
    except NotPositiveDefinite:
        return None
    return Checked.of(problem, learnt, rng) if learnt.result.solution.status.good else None
