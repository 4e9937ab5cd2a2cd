"""The choices of a generative classifier, checked and turned into objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from credibly.errors import InputError
from credibly.estimators.containers import named
from credibly.estimators.linear_base import only
from credibly.model.class_conditionals.base import NotDetermined
from credibly.model.class_weights import ClassWeights, FixedWeights, LearnedWeights, Proportions
from credibly.model.conjugate_priors import ConjugatePrior, Dirichlet
from credibly.numerics.arrays import AnyArray, Array


def class_weights(choice: Any, n_classes: int, *, integrated: bool) -> ClassWeights:
    """How class probabilities are found."""
    if isinstance(choice, str) and choice == "learned":
        return LearnedWeights() if integrated else Proportions()
    if isinstance(choice, str):
        return FixedWeights(np.full(n_classes, -np.log(n_classes)))
    if isinstance(choice, Dirichlet) and np.ndim(choice.alpha) == 0:
        return LearnedWeights(float(np.asarray(choice.alpha)))
    return FixedWeights(_log_probabilities(choice, n_classes))


def check_priors(class_prior: Any, prior: Any) -> None:
    """Refuse what is no prior, of the classes or of the parameters."""
    if isinstance(class_prior, str):
        only(class_prior, {"learned": None, "uniform": None}, "class_prior")
    if isinstance(prior, str):
        only(prior, {"empirical": None, "reference": None}, "prior")
    elif not is_prior(prior):
        raise InputError(
            "prior must be 'empirical', 'reference', or NormalInverseWishart, Beta, Dirichlet, Gamma of "
            f"credibly.priors (or a list with one per column); got {prior!r}."
        )


def is_prior(prior: Any) -> bool:
    """A conjugate prior, or a list of them."""
    kinds = ConjugatePrior.__args__
    return isinstance(prior, kinds) or (isinstance(prior, list | tuple) and all(isinstance(p, kinds) for p in prior))


def _log_probabilities(given: Any, n_classes: int) -> Array:
    try:
        p = np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"class_prior must be 'learned', 'uniform' or an array; got {given!r}.") from error
    if p.shape != (n_classes,) or not (p > 0).all() or not np.isclose(p.sum(), 1.0):
        raise InputError(
            f"class_prior must be {n_classes} positive probabilities that sum to one, in the order of the sorted "
            f"classes; got {given!r}. (When classes come or go: set_params(class_prior=...) first.)"
        )
    return np.asarray(np.log(p))


def not_determined(error: NotDetermined, classes: AnyArray, names: Sequence[str], other: str | None) -> str:
    """What to say of a class that its rows do not determine; `other` is a remedy of estimates, None with a prior."""
    who = "The classes together" if error.code is None else f"Class {classes.tolist()[error.code]!r}"
    where = "" if error.columns is None else f" in column {named([names[j] for j in error.columns])}"
    remedy = "drop the column, or use a proper prior (prior='empirical')"
    if other is not None:
        more = f", or {other}" if "covariance" in error.why else ""
        remedy = f"use parameters='integrated' (the default), whose prior makes up for it{more}; or drop columns"
    return f"{who} {error.why}{where}, so parameters cannot be estimated: {remedy}."
