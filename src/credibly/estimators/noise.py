"""`label_noise=` as a user gives it, and learning when it is to be estimated."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import InputError, NotPositiveDefinite
from credibly.estimators.determined import refuse_collinear, refuse_infinite, refuse_separated
from credibly.estimators.learning import explicit_prior, first_point, learn, learn_scales, objective_of
from credibly.estimators.problem import Learnt, PriorChoice, Problem, Search
from credibly.inference.contrasts import sum_to_zero
from credibly.inference.label_noise import (
    FlipBelief,
    JointObjective,
    NoiseMode,
    follow_mode,
    height,
    integrate_flips,
    noise_modes,
)
from credibly.inference.prior_density import PriorDensity
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import true_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.priors import Beta, Jeffreys, Normal, StudentT
from credibly.numerics.arrays import Array
from credibly.numerics.status import Status

DEFAULT_BELIEF = Beta(1.0, 9.0)  # about 2ε: five per cent of labels wrong is expected, a third is not excluded
FIRST_GUESS = 0.05
MOST_ROUNDS = 30  # of prior scales and flip probabilities in turn
SETTLED = 1e-7
CHOICES = (
    'label_noise must be 0.0, a number below 1/2, "estimate", a Beta(a, b) (to estimate, with that belief about twice '
    "the flip probability), or for two classes a pair (eps01, eps10) of these"
)


class NoiseChoice(NamedTuple):
    """Flip probabilities as given, and which of them are to be estimated."""

    flips: Array  # (2,) or (1,)
    belief: FlipBelief | None  # None when all are fixed


def read_noise(label_noise: Any, *, softmax: bool) -> NoiseChoice | None:
    """What `label_noise=` means; None for labels that are taken at their word."""
    if type(label_noise) is float and label_noise == 0:  # as it nearly always is
        return None
    pair = isinstance(label_noise, Sequence | np.ndarray) and not isinstance(label_noise, str)
    if pair and (len(label_noise) != 2 or softmax):
        known = "one flip probability for all classes" if softmax else "two entries (eps01, eps10)"
        raise InputError(f"label_noise of this model has {known}; got {label_noise!r}.")
    entries = list(label_noise) if pair else [label_noise]
    free = [isinstance(entry, Beta) or (isinstance(entry, str) and entry == "estimate") for entry in entries]
    fixed = np.array([0.0 if open_ else _flip(entry) for entry, open_ in zip(entries, free, strict=True)])
    given = [entry for entry in entries if isinstance(entry, Beta)] or [DEFAULT_BELIEF]
    beliefs = {(belief.a, belief.b) for belief in given}
    if len(beliefs) > 1:
        raise InputError(f"label_noise takes one belief for both flip probabilities; got {label_noise!r}.")
    index = np.where(free, np.cumsum(free) - 1, -1)
    if not pair and not softmax:  # one number flips both classes alike
        index, fixed = np.repeat(index, 2), np.repeat(fixed, 2)
    if any(free):
        start = np.where(index < 0, fixed, FIRST_GUESS)
        return NoiseChoice(start, FlipBelief(index, fixed, beliefs.pop()))
    return NoiseChoice(fixed, None) if fixed.any() else None


def _flip(value: Any) -> float:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (number and 0 <= value < 0.5):
        raise InputError(
            f"{CHOICES}; got {value!r}. (At 1/2 a label says nothing, and above it the classes change places.)"
        )
    return float(value)


def with_noise(likelihood: Likelihood | Categorical, flips: Array) -> LabelNoise | NoisyCategorical:
    """A likelihood whose labels are flipped."""
    if isinstance(likelihood, Categorical):
        return NoisyCategorical(likelihood.n_classes, float(flips[0]))
    return LabelNoise(likelihood, float(flips[0]), float(flips[1]))


def learn_with_noise(problem: Problem, choice: PriorChoice, belief: FlipBelief, search: Search) -> Learnt:
    """Weights and flip probabilities together.

    Without a prior both are maximum likelihood. Prior scales that are to be learnt and flip probabilities take turns
    until neither moves: the scales are those of highest evidence at the flip probabilities found.
    """
    if isinstance(choice, Jeffreys) or search.seed is not None:
        which = "prior=Jeffreys()" if isinstance(choice, Jeffreys) else 'solver="sgd"'
        raise InputError(f"label_noise cannot be estimated with {which}; give it a number, or change that argument.")
    if choice is None:
        return _without_prior(problem, replace(belief, beta=None), search)
    if isinstance(choice, str):
        return _with_learnt_scales(problem, choice, belief, search)
    prior, resolved = explicit_prior(choice, problem)
    known = Known(prior, np.eye(problem.shape.n_outputs), resolved)
    return _learnt(problem, known, belief, search)


class Known(NamedTuple):
    """The prior under which modes are looked for."""

    prior: PriorDensity | None
    contrast: Array
    resolved: Normal | StudentT | Jeffreys | None
    scale: Array | None = None


def _joint(problem: Problem, known: Known, belief: FlipBelief) -> JointObjective:
    return JointObjective(objective_of(problem, known.prior, known.contrast), belief)


def _modes(problem: Problem, known: Known, belief: FlipBelief, search: Search) -> list[NoiseMode]:
    start = first_point(problem, known.prior, known.contrast)
    return noise_modes(_joint(problem, known, belief), start, search.controls)


def _learnt(problem: Problem, known: Known, belief: FlipBelief, search: Search) -> Learnt:
    joint = _joint(problem, known, belief)
    found = [integrate_flips(joint, mode, search.controls) for mode in _modes(problem, known, belief, search)]
    modes = sorted(found, key=height, reverse=True)
    best = modes[0]
    likelihood = _at(problem, best.flips).likelihood
    status = best.result.solution.status
    return Learnt(
        best.result, known.prior, known.contrast, status, known.resolved, known.scale, likelihood, tuple(modes)
    )


def _at(problem: Problem, flips: Array) -> Problem:
    """The problem with other flip probabilities."""
    return problem._replace(likelihood=with_noise(true_likelihood(problem.likelihood), flips))


def _with_learnt_scales(problem: Problem, choice: str, belief: FlipBelief, search: Search) -> Learnt:
    flips = np.where(belief.index < 0, belief.fixed, FIRST_GUESS)
    scaled = learn(_at(problem, flips), choice, search)
    best = _modes(problem, _known(scaled), belief, search)[0]
    for _ in range(MOST_ROUNDS):
        moved, flips = np.abs(best.flips - flips).max(), best.flips
        if moved < SETTLED:
            break
        scaled = learn_scales(_at(problem, flips), choice, search, start=best.result.posterior.mean)
        best = follow_mode(_joint(problem, _known(scaled), belief), best.result.solution.x, search.controls)
    learnt = _learnt(problem, _known(scaled), belief, search)
    if not scaled.status.good or scaled.status is Status.SCALE_AT_BOUND:
        return learnt._replace(status=scaled.status)
    return learnt if moved < SETTLED else learnt._replace(status=Status.SCALES_NOT_FOUND)


def _known(scaled: Learnt) -> Known:
    return Known(scaled.prior, scaled.contrast, scaled.resolved, scaled.prior_scale)


def _without_prior(problem: Problem, belief: FlipBelief, search: Search) -> Learnt:
    refuse_collinear(problem)
    known = Known(None, sum_to_zero(problem.shape.n_outputs), None)
    try:
        learnt = _learnt(problem, known, belief, search)
    except NotPositiveDefinite as error:
        refuse_separated(problem)
        raise InputError(
            "Without a prior the likelihood of weights and label noise together has no maximum that could be found: "
            'weights and flip probabilities explain the same rows. Use a prior, e.g. prior="empirical".'
        ) from error
    refuse_infinite(problem, learnt)
    return learnt
