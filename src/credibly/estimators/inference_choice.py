"""Which ways to a posterior there are for linear classifiers, and what each of them cannot do."""

from __future__ import annotations

from typing import Any

import numpy as np

from credibly.errors import InputError
from credibly.estimators.noise import read_noise
from credibly.estimators.problem import PriorChoice
from credibly.inference.adf import Belief, FullCovariance, Spherical
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.priors import Jeffreys, Normal
from credibly.numerics.arrays import AnyArray, Array

INFERENCES = ("laplace", "ep", "adf", "adf_spherical", "skew", "auto")
FILTERS: dict[str, type[Belief]] = {"adf": FullCovariance, "adf_spherical": Spherical}  # families to project on
BY_MOMENTS = {"ep", *FILTERS}  # of one score a row
BY_DRAWS = {"skew", "auto"}  # from the Gaussian at the mode


def check_inference(inference: str, prior: PriorChoice, solver: str, label_noise: Any) -> None:
    """Refuse what does not go with a way other than Laplace's."""
    by_moments = inference in BY_MOMENTS
    if by_moments and not isinstance(prior, Normal | str):
        raise InputError(
            f"inference={inference!r} starts from a normal distribution: prior must be a Normal, "
            f'"empirical" or "ard"; got {prior!r}. With that prior use inference="laplace".'
        )
    if prior is None or isinstance(prior, Jeffreys):
        raise InputError(
            f"inference={inference!r} corrects a posterior, which needs a prior that is a distribution; got "
            f'{prior!r}. Use prior="empirical" or Normal(scale=2.5), or inference="laplace".'
        )
    if solver == "sgd":
        why = "looks for no mode" if by_moments else "needs the mode itself"
        raise InputError(f'inference={inference!r} {why}, so solver="sgd" does not go with it; leave solver="newton".')
    noise = read_noise(label_noise, softmax=False)
    if noise is not None and noise.belief is not None:
        raise InputError(
            f"inference={inference!r} needs label_noise as a number or a pair of numbers; got "
            f'{label_noise!r}. It is estimated with inference="laplace".'
        )


def refuse_inference(inference: str) -> None:
    """Ways to a posterior that look at single rows again and again need them in memory."""
    if inference != "laplace":
        raise InputError(
            f"inference={inference!r} looks at single rows many times, which files and clusters cannot give. Use "
            'inference="laplace", or fit to a sample of the rows in memory.'
        )


def check_rows(inference: str, sample_weight: Array | None, likelihood: AnyLikelihood) -> None:
    """Refuse rows that cannot be learnt by moments of one score."""
    if inference not in BY_MOMENTS:
        return
    if not isinstance(likelihood, Likelihood):
        raise InputError(
            "Only binary classification is supported. The type of the target is multiclass, or "
            f"multi_class is 'softmax': inference={inference!r} is for one score a row, and the softmax has "
            'one for each class. Use inference="auto", "skew" or "laplace".'
        )
    weight = np.ones(1) if sample_weight is None else sample_weight
    if inference == "ep":
        _refuse(
            weight,
            (weight > 0) & (weight < 1),
            f"inference={inference!r} takes sample_weight 0 (left out) or at least 1",
            'A part of a row has no moments here: use inference="skew" or "laplace".',
        )
    else:
        _refuse(
            weight,
            (weight != 0) & (weight != 1),
            f"inference={inference!r} takes sample_weight 0 (left out) or 1 only",
            "A row counts when it is its turn, and a power of its likelihood has no moments here: repeat rows instead, "
            'or use inference="laplace".',
        )


def _refuse(weight: Array, odd: AnyArray, expected: str, advice: str) -> None:
    rows = np.flatnonzero(odd)
    if rows.size:
        raise InputError(
            f"{expected}; {rows.size} of {len(weight)} are others, the first {weight[rows[0]]:g} in row {rows[0]}. "
            f"{advice}"
        )
