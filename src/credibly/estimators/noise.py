"""`label_noise=` as a user gives it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import InputError
from credibly.inference.flips import FlipBelief
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.priors import Beta
from credibly.numerics.arrays import Array

DEFAULT_BELIEF = Beta(1.0, 9.0)  # about 2ε: five per cent of labels wrong is expected, a third is not excluded
FIRST_GUESS = 0.05
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
        return NoiseChoice(start, FlipBelief(index, fixed, Beta(*beliefs.pop())))
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
