"""What may stand in one comparison: models of the same targets, on one scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from credibly.errors import ImproperPriorError, InputError
from credibly.estimators.containers import as_vector
from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.estimators.glm import BayesianGLM
from credibly.estimators.least_squares import LeastSquaresClassifier
from credibly.estimators.linear_classifier import LinearClassifier
from credibly.estimators.validation import check_labels, is_missing, refuse_one_class
from credibly.model.likelihoods.families import resolve_family
from credibly.model.priors import Jeffreys
from credibly.numerics.arrays import AnyArray

LABELS = "labels"
TARGETS = {"bernoulli": LABELS, "binomial": "proportions", "poisson": "counts", "negative_binomial": "counts"}
CHOICES = ("evidence", "bic", "loo", "prequential", "joint_evidence")
BY_EVIDENCE = ("evidence", "prequential", "joint_evidence")


class Candidate(NamedTuple):
    """A model by name, and on what scale its evidence is."""

    name: str
    estimator: Any
    targets: str  # what it gives probabilities, or densities, of
    generative: bool  # whether its evidence is that of p(X, y)

    @property
    def final(self) -> Any:
        """The model itself, at the end of a pipeline."""
        return final_step(self.estimator)


def final_step(estimator: Any) -> Any:
    """The last step of a pipeline, or the estimator itself."""
    steps = getattr(estimator, "steps", None)
    return steps[-1][1] if steps else estimator


def read_candidates(models: Any) -> list[Candidate]:
    """Named models, or an error that says what cannot be compared."""
    pairs = _pairs(models)
    if not pairs:
        raise InputError("There are no models to compare: give a dict of names and estimators.")
    names = [name for name, _ in pairs]
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"Names of models must be strings; got {name!r}.")
        if names.count(name) > 1:
            raise InputError(f"Two models are called {name!r}; give every model a name of its own.")
    return [_candidate(name, estimator) for name, estimator in pairs]


def _pairs(models: Any) -> list[tuple[Any, Any]]:
    if isinstance(models, Mapping):
        return list(models.items())
    if isinstance(models, BaseEstimator | str | type) or not isinstance(models, Iterable):
        raise InputError(f"models must be a dict of names and estimators, or a list of estimators; got {models!r:.80}.")
    given = list(models)
    if given and all(isinstance(it, tuple) and len(it) == 2 for it in given):
        return given
    return list(zip(_unique([type(final_step(it)).__name__ for it in given]), given, strict=True))


def _unique(names: list[str]) -> list[str]:
    """Names with a number where one occurs again."""
    return [name if names.count(name) == 1 else f"{name} {names[: i + 1].count(name)}" for i, name in enumerate(names)]


def _candidate(name: str, estimator: Any) -> Candidate:
    model = final_step(estimator)
    if isinstance(model, LeastSquaresClassifier):
        raise InputError(
            f"{name!r} is a LeastSquaresClassifier: its evidence is a density of labels coded as real numbers, not a "
            "probability of labels, and stands in no ranking of classifiers. Compare predictions on held-out rows."
        )
    if isinstance(model, GenerativeClassifierBase):
        return Candidate(name, estimator, LABELS, True)
    if isinstance(model, LinearClassifier | GaussianProcessResults):
        return Candidate(name, estimator, LABELS, False)
    if isinstance(model, BayesianGLM):
        family = resolve_family(model.family)
        return Candidate(name, estimator, TARGETS.get(family.name, "real numbers"), False)
    what = f"the class {model.__name__}; make one, {model.__name__}(...)" if isinstance(model, type) else repr(model)
    raise InputError(
        f"{name!r} is no model that can be compared here; expected a classifier or BayesianGLM of credibly, or a "
        f"Pipeline that ends in one; got {what:.120}."
    )


def check_choice(by: Any, candidates: list[Candidate]) -> None:
    """Refuse a ranking that would mix scales, or rank by what a model does not have."""
    if by not in CHOICES:
        raise InputError(f"by must be one of {', '.join(map(repr, CHOICES))}; got {by!r}.")
    _check_targets(candidates)
    generative = [it.name for it in candidates if it.generative]
    others = [it.name for it in candidates if not it.generative]
    if by == "joint_evidence" and others:
        raise InputError(
            f"by='joint_evidence' ranks by log p(X, y), which {_listed(others)} does not have: it is a model of "
            "p(y | X). Leave it out, or use by='evidence', where generative models stand by their prequential score."
        )
    if by == "bic" and generative and others:
        raise InputError(
            f"by='bic' would mix scales: the BIC of {_listed(generative)} is that of p(X, y), the BIC of "
            f"{_listed(others)} that of p(y | X). Use by='evidence' or by='loo'."
        )
    for it in candidates:
        if by == "bic" and isinstance(it.final, GaussianProcessResults):
            raise InputError(
                f"{it.name!r} has no BIC: a Gaussian process does not count parameters. Use by='evidence'."
            )
        if by in BY_EVIDENCE:
            _check_prior(it, by)


def _check_targets(candidates: list[Candidate]) -> None:
    kinds = sorted({it.targets for it in candidates})
    if len(kinds) > 1:
        said = "; ".join(f"{kind}: {_listed([it.name for it in candidates if it.targets == kind])}" for kind in kinds)
        raise InputError(
            f"These are models of different targets, whose evidences are not on one scale ({said}). A density of real "
            "numbers, a probability of counts and a probability of labels never stand in one ranking."
        )


def _check_prior(it: Candidate, by: str) -> None:
    """A flat prior has no evidence (misprint E-25 of docs/theory.md)."""
    model, prior = it.final, getattr(it.final, "prior", "proper")
    if it.generative and model.parameters != "integrated":
        given = f"parameters={model.parameters!r}, which are estimates"
    elif it.generative and isinstance(prior, str) and prior == "reference":
        given = "prior='reference', which is not a distribution"
    elif not it.generative and (prior is None or isinstance(prior, Jeffreys)):
        given = "prior=None, a flat prior" if prior is None else "prior=Jeffreys(), which need not be a distribution"
    else:
        return
    raise ImproperPriorError(
        f"{it.name!r} has {given}, so it has no evidence and cannot be ranked by {by!r}: log p(y | X) would have an "
        "arbitrary constant. Use a proper prior (prior='empirical', or Normal(scale=2.5)), or by='bic' or by='loo'."
    )


def classes_of(y: Any, candidates: list[Candidate]) -> AnyArray:
    """The classes among the labels, which fitted models must have been built for, too."""
    if y is None:
        raise InputError("A comparison requires y to be passed, but the target y is None. Give the label of every row.")
    y = as_vector(y)
    labels = y if isinstance(y, np.ndarray) or hasattr(y, "__array__") else np.asarray(y, dtype=object)
    array = np.asarray(labels).reshape(-1)
    markers = {str(getattr(it.final, "unlabelled", None)) for it in candidates if it.generative} - {"None"}
    if array.dtype.kind in "Of" or markers:
        known = [label for label in array.tolist() if not is_missing(label) and str(label) not in markers]
        array = np.asarray(known) if known else array[:0]
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise InputError("y contains infinity, which is no label. Give the label of every row.")
    check_labels(array)
    found = np.unique(array)
    refuse_one_class(found, updatable=False)
    for it in candidates:
        fitted = getattr(it.estimator, "classes_", None)
        if fitted is not None and not np.array_equal(np.asarray(fitted), found):
            raise InputError(
                f"{it.name!r} was fitted with the classes {np.asarray(fitted).tolist()}, but y holds {found.tolist()}: "
                "models of different classes cannot be compared. Give y with the labels it was fitted with."
            )
    return found


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
