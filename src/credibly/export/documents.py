"""What a scoring document says of a model: link, weights, posterior; plain data only."""

from typing import Any, NamedTuple

import numpy as np

from credibly.errors import InputError, NotDefinedError
from credibly.estimators.exporting import check_fitted
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.estimators.glm import BayesianGLM
from credibly.estimators.linear_classifier import LinearClassifier
from credibly.estimators.plans import GaussianPlan
from credibly.estimators.validation import feature_names
from credibly.export.links import (
    ROUNDING,
    Document,
    mean_average,
    mean_link,
    threshold_average,
    threshold_link,
)
from credibly.inference.drawn_posterior import DrawnPosterior
from credibly.inference.posterior import WeightPosterior
from credibly.model.likelihoods import BernoulliLogit, Likelihood
from credibly.model.likelihoods.kinds import true_likelihood
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.quadrature import normal_points

SOFTMAX_DRAWS = 1024  # of the weights of three classes and more, whose average has no closed form
SOBOL_DIMENSIONS = 200  # beyond that quasi-random points are no better than random ones
DIGITS = 10  # of a draw of a weight: rounding moves no probability by more than 1e-9
SEED = 20240229  # of draws beyond that: the same model gives the same document

NO_AVERAGE = (
    "An average of the softmax over a Gaussian has no short closed form: probabilities are averages over the draws of "
    "the weights listed here. Their error is at most about a thirtieth of the spread of a probability over the "
    "posterior; check.largest_difference has the largest difference from the library's own in the rows of the check."
)
PLUG_IN = (
    "Without the posterior (covariance=False) predictions are those at the estimate; the library averages over the "
    "posterior, which pulls probabilities towards one half."
)


class Described(NamedTuple):
    """A document, and whether its formulas are those of the library."""

    document: Document
    exact: bool

    def more(self, parts: Document) -> "Described":
        """With further entries."""
        return self._replace(document=self.document | parts)


def describe(model: Any, covariance: bool) -> Described:
    """The document of an estimator, without the rows of its check."""
    if isinstance(model, LinearClassifier):
        check_fitted(model)
        return _classifier(model, covariance)
    if isinstance(model, BayesianGLM):
        check_fitted(model)
        return _glm(model, covariance)
    if isinstance(model, GenerativeClassifierBase):
        return _generative(model)
    raise NotDefinedError(
        f"{type(model).__name__} cannot be written as plain coefficients: linear classifiers, BayesianGLM, and "
        "generative models whose log odds are linear can. (A Gaussian process needs its training rows; least squares "
        "has no probabilities, its coef_ and intercept_ are all there is; of a pipeline export the last step, whose "
        "columns are those after the transformation.) Save the model instead (credibly.save)."
    )


# --- linear models -------------------------------------------------------------------------------------------------


def _classifier(model: LinearClassifier, covariance: bool) -> Described:
    likelihood, posterior = true_likelihood(model._likelihood), model.posterior_
    averaged = covariance and model.prior_ is not None
    document = _head(model, plain_labels(model.classes_)) | {
        "prediction": "averaged" if averaged else "plug_in",
        "label_noise": _numbers(model.label_noise_),
    }
    exact = covariance or model.prior_ is None
    notes = [] if exact else [PLUG_IN]
    if isinstance(likelihood, Likelihood):
        held = _posterior(posterior) if covariance else None
        parts = _one_score(likelihood, held, averaged) | _weights(model, model.coef_, model.intercept_)
    elif likelihood.n_classes == 2:
        parts = _difference(model, covariance, averaged)
    else:
        held = _class_posterior(posterior) if covariance else None
        parts = {"link": {"name": "softmax"}, "average": {"kind": "draws"} if averaged else None, "posterior": held}
        parts |= _weights(model, model.coef_, model.intercept_)
        if covariance and isinstance(posterior, WeightPosterior):
            exact, notes = False, [*notes, NO_AVERAGE]
    return Described(document | parts | {"notes": notes}, exact)


def _one_score(likelihood: Likelihood, held: Document | None, averaged: bool) -> Document:
    by_draws = held is not None and held["kind"] == "draws"
    average = {"kind": "draws", "error": ROUNDING} if by_draws else threshold_average(likelihood)
    return {"link": threshold_link(likelihood), "average": average if averaged else None, "posterior": held}


def _difference(model: LinearClassifier, covariance: bool, averaged: bool) -> Document:
    """Two classes with a weight vector each: the score of the second over the first, and the logit."""
    posterior: Any = model.posterior_
    less = np.array([-1.0, 1.0])
    held: Document | None = None
    if covariance and isinstance(posterior, DrawnPosterior):
        vectors = np.einsum("k,skd->sd", less, posterior.vectors(posterior.free.x))
        held = _draws(vectors, posterior.free.weights)
    elif covariance:
        root = posterior.vectors(posterior.gaussian.precision.inverse_root)
        held = {"kind": "gaussian", "root": np.einsum("k,mkd->md", less, root).tolist()}
    parts = _weights(model, less[None] @ model.coef_, less[None] @ model.intercept_)
    parts["standardised"]["weights"] = (less[None] @ np.array(parts["standardised"]["weights"])).tolist()
    return _one_score(BernoulliLogit(), held, averaged) | parts


def _glm(model: BayesianGLM, covariance: bool) -> Described:
    link, posterior = model.link_, model.posterior_
    averaged = covariance and model.prior_ is not None
    average = mean_average(link)
    if average["kind"] == "plug_in":
        averaged = False
    low, high = model.family_.mean_range
    ranged = None if link.threshold is not None else [_finite(low), _finite(high)]
    exact = covariance or model.prior_ is None or average["kind"] == "plug_in"
    document = (
        _head(model, None)
        | {
            "family": model.family_.name,
            "dispersion": float(model.dispersion_),
            "mean_range": ranged,
            "prediction": "averaged" if averaged else "plug_in",
            "link": mean_link(link),
            "average": average if averaged else None,
            "posterior": _posterior(posterior) if covariance else None,
            "notes": ["An offset, or the logarithm of an exposure, is added to the score."]
            + ([] if exact else [PLUG_IN]),
        }
        | _weights(model, model.coef_[None], np.array([model.intercept_]))
    )
    return Described(document, exact)


def _head(model: Any, classes: list[Any] | None) -> Document:
    return {"model": type(model).__name__, "features": feature_names(model), "classes": classes}


def _weights(model: Any, coef: Array, intercept: Array) -> Document:
    """Coefficients in the units of the data, and the weights of standardised columns that scores are computed from."""
    posterior, frame = model.posterior_, model.posterior_.frame
    free = posterior.free.mean if isinstance(posterior, DrawnPosterior) else posterior.gaussian.mean
    return {
        "coef": coef.tolist(),
        "intercept": intercept.tolist(),
        "standardised": {
            "center": frame.center.tolist(),
            "scale": frame.scale.tolist(),
            "intercept": bool(frame.intercept),
            "weights": posterior.vectors(free[None])[0].tolist(),
        },
    }


def _posterior(posterior: WeightPosterior | DrawnPosterior) -> Document:
    """One weight vector: a root of the covariance, or weighted draws."""
    if isinstance(posterior, DrawnPosterior):
        return _draws(posterior.free.x, posterior.free.weights)
    root = posterior.gaussian.precision.inverse_root  # lower triangular
    return {"kind": "gaussian", "root": [row[: i + 1].tolist() for i, row in enumerate(root)]}


def _class_posterior(posterior: WeightPosterior | DrawnPosterior) -> Document:
    """Several weight vectors: weighted draws, class by class, less what all classes share."""
    if isinstance(posterior, DrawnPosterior):
        return _draws(posterior.determined_vectors(posterior.free.x), posterior.free.weights)
    gaussian = posterior.gaussian
    free = gaussian.mean + gaussian.precision.half_solve_transposed(_points(gaussian.mean.size).T).T
    return _draws(posterior.determined_vectors(free), np.full(SOFTMAX_DRAWS, 1.0 / SOFTMAX_DRAWS))


def _points(dim: int) -> Array:
    """Standard normal points in pairs ±x, the same ones every time."""
    if dim <= SOBOL_DIMENSIONS:
        return normal_points(SOFTMAX_DRAWS, dim)
    half = np.random.default_rng(SEED).standard_normal((SOFTMAX_DRAWS // 2, dim))
    return np.concatenate([half, -half])


def _draws(vectors: Array, weights: Array) -> Document:
    rounded = [[float(f"{number:.{DIGITS}g}") for number in row] for row in vectors.reshape(len(vectors), -1).tolist()]
    return {"kind": "draws", "weights": weights.tolist(), "draws": rounded}


# --- generative models ---------------------------------------------------------------------------------------------


def _generative(model: GenerativeClassifierBase) -> Described:
    """Models whose log odds are linear; others refuse, with the reason."""
    try:
        coef, intercept = model.coef_, model.intercept_
    except NotDefinedError as error:
        raise NotDefinedError(
            f"{type(model).__name__} cannot be written as plain coefficients. {error} With parameters averaged out "
            "(the default) classes have Student-t densities; parameters='plugin' gives a discriminant that is linear."
        ) from error
    plan, names = model._plan, feature_names(model)
    slopes, center, scale = np.zeros((len(coef), len(names))), np.zeros(len(names)), np.ones(len(names))
    used = plan.used if isinstance(plan, GaussianPlan) else np.arange(len(names))
    slopes[:, used] = coef
    density, share = model._joint.estimate, model.class_prior_
    spread = share @ density.spread()
    known = np.isfinite(spread) & (spread > 0)
    center[used[known]], scale[used[known]] = (share @ density.center())[known], spread[known]
    weights = np.column_stack([slopes * scale, intercept + slopes @ center])
    document = _head(model, plain_labels(model.classes_)) | {
        "prediction": "plug_in",
        "link": {"name": "logit" if len(coef) == 1 else "softmax"},
        "average": None,
        "posterior": None,
        "coef": slopes.tolist(),
        "intercept": intercept.tolist(),
        "standardised": {
            "center": center.tolist(),
            "scale": scale.tolist(),
            "intercept": True,
            "weights": weights.tolist(),
        },
        "notes": ["A missing cell cannot be left out here, as the model itself would: every cell is needed."],
    }
    return Described(document, True)


# --- plain values --------------------------------------------------------------------------------------------------


def plain_labels(classes: AnyArray) -> list[Any]:
    """Labels that JSON has: text, numbers, true and false."""
    labels: list[Any] = classes.tolist()
    strange = [label for label in labels if not isinstance(label, str | int | float | bool)]
    if strange:
        raise InputError(
            f"The label {strange[0]!r} is no text and no number, so JSON cannot hold it; fit with labels turned into "
            "text."
        )
    return labels


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _numbers(value: Any) -> Any:
    return np.asarray(value, dtype=float).tolist()
