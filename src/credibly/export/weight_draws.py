"""Draws of the weights of linear models: of the posterior, of the prior, and of labels or targets."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import DataWarning, InputError
from credibly.estimators.exporting import check_fitted
from credibly.estimators.glm import BayesianGLM
from credibly.estimators.least_squares import LeastSquaresClassifier
from credibly.estimators.linear_classifier import LinearClassifier
from credibly.estimators.linear_model import LinearModel
from credibly.estimators.validation import Training, feature_names, read_columns, read_training
from credibly.export.drawn import MOST_NUMBERS, RowDraws, Sampled, Variable, check_size, class_names, draw_codes, parts
from credibly.inference.drawn_posterior import DrawnPosterior
from credibly.inference.label_noise import FlipBelief
from credibly.inference.posterior import Gaussian
from credibly.inference.targets import row_log_prob
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.likelihoods.proportions import Binomial
from credibly.model.priors import StudentT
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import DesignMatrix, is_sparse

NO_ROWS = (
    "no log_likelihood and posterior_predictive: the model does not hold the rows of its fit (partial_fit and saved "
    "models keep none); pass X and y"
)


class Wanted(NamedTuple):
    """Rows that draws are asked about."""

    training: Training
    labelled: bool


class Weights(NamedTuple):
    """Draws of the free weights in the frame, and of flip probabilities where these are estimated."""

    free: Array  # (S, M)
    flips: Array | None  # (S, E)


def sample_weights(
    model: LinearModel, X: ArrayLike | None, y: ArrayLike | None, rng: np.random.Generator, size: int
) -> Sampled:
    """Everything that is exported of a linear model."""
    check_fitted(model)
    wanted = _wanted(model, X, y)
    if wanted is not None:
        check_size(size, len(wanted.training.y))
    noise = _noise(model)
    drawn = _posterior_draws(model, noise, rng, size)
    posterior = _named(model, model.posterior_.to_data(drawn.free))
    if drawn.flips is not None:
        posterior["label_noise"] = _flip_variable(model, drawn.flips)
    return Sampled(
        posterior=posterior,
        prior=_prior(model, noise, rng, size),
        coords=_coords(model),
        rows=None if wanted is None else _rows(model, drawn, wanted, rng),
        inference=str(getattr(model, "rung_", None) or getattr(model, "inference", "laplace")),
        notes=tuple(_notes(model, noise is not None, wanted is not None)),
    )


# --- which rows ----------------------------------------------------------------------------------------------------


def _wanted(model: LinearModel, X: ArrayLike | None, y: ArrayLike | None) -> Wanted | None:
    fitted: Training | None = getattr(model, "_training", None)
    if isinstance(model, LeastSquaresClassifier):
        if X is not None:
            raise InputError(
                "LeastSquaresClassifier has no probabilities of labels, so there is nothing to say of rows: call "
                "to_arviz without X and y, for its weights alone."
            )
        return None
    if X is None:
        return None if fitted is None else Wanted(fitted, True)
    if fitted is not None and (fitted.weight is not None or fitted.offset is not None):
        warnings.warn(
            "The model was fitted with weights, trials or an offset, which X and y alone do not have: here every row "
            "counts once, without an offset. For the rows of the fit leave X and y out.",
            DataWarning,
            stacklevel=4,
        )
    if y is None:
        columns = read_columns(model, X)
        return Wanted(Training(columns, np.zeros(columns.shape[0]), None, None), False)
    return Wanted(_labelled(model, X, y), True)


def _labelled(model: LinearModel, X: ArrayLike, y: ArrayLike) -> Training:
    if isinstance(model, BayesianGLM):
        return model._read_rows(X, y, None, None, None)
    return read_training(model, X, y, None, classes=model.classes_, reset=False).training(model._likelihood)


# --- draws of parameters -------------------------------------------------------------------------------------------


def _noise(model: LinearModel) -> tuple[FlipBelief, Gaussian] | None:
    """Weights and flip probabilities together, where one fit has estimated both."""
    return model._joint if model._fingerprint is not None else None


def _posterior_draws(
    model: LinearModel, noise: tuple[FlipBelief, Gaussian] | None, rng: np.random.Generator, size: int
) -> Weights:
    posterior: Any = model.posterior_
    if isinstance(posterior, DrawnPosterior):
        return Weights(posterior.free.choose(rng, size), None)
    if noise is None:
        return Weights(posterior.gaussian.sample(rng, size), None)
    belief, joint = noise  # its marginal of the weights is the posterior
    points = joint.sample(rng, size)
    flips = np.array([belief.flips(theta) for theta in points[:, -belief.n_free :]])
    return Weights(points[:, : -belief.n_free], flips)


def _prior(
    model: LinearModel, noise: tuple[FlipBelief, Gaussian] | None, rng: np.random.Generator, size: int
) -> dict[str, Variable]:
    """Draws of the prior; none where it is flat or Jeffreys'."""
    prior, shape = model._first_prior, model._shape
    if isinstance(prior, Gaussian):
        w = model.posterior_.to_data(prior.sample(rng, size))
    elif isinstance(model.prior_, StudentT):
        w = model.prior_.scales(shape) * rng.standard_t(model.prior_.degrees, (size, shape.total))
    else:
        return {}
    named = _named(model, w)
    if noise is not None and noise[0].beta is not None:
        belief = noise[0]
        halves = 0.5 * rng.beta(*noise[0].beta, (size, belief.n_free))
        named["label_noise"] = _flip_variable(model, np.where(belief.index < 0, belief.fixed, halves[:, belief.index]))
    return named


# --- names ---------------------------------------------------------------------------------------------------------


def _named(model: LinearModel, w: Array) -> dict[str, Variable]:
    """Weights in data units (S, M) as slopes and intercepts."""
    shape = model._shape
    vectors = w.reshape(len(w), shape.n_outputs, -1)  # class by class, intercept last
    slopes = vectors[:, :, : shape.n_features]
    if shape.n_outputs == 1:
        named = {"coef": Variable(slopes[:, 0], ("feature",))}
        return named | ({"intercept": Variable(vectors[:, 0, -1], ())} if shape.intercept else {})
    named = {"coef": Variable(slopes.swapaxes(1, 2), ("feature", "class"))}
    return named | ({"intercept": Variable(vectors[:, :, -1], ("class",))} if shape.intercept else {})


def _flip_variable(model: Any, flips: Array) -> Variable:
    """One flip probability, or one for each direction where a pair was asked for."""
    return Variable(flips[:, 0], ()) if np.ndim(model.label_noise) == 0 else Variable(flips, ("flip",))


def _coords(model: LinearModel) -> dict[str, list[Any]]:
    coords: dict[str, list[Any]] = {"feature": feature_names(model)}
    if model._shape.n_outputs > 1:
        coords["class"] = class_names(model.classes_)
    if _noise(model) is not None and np.ndim(getattr(model, "label_noise", 0.0)) > 0:
        zero, one = (str(label) for label in model.classes_.tolist())
        coords["flip"] = [f"{zero} recorded as {one}", f"{one} recorded as {zero}"]
    return coords


def _notes(model: LinearModel, noise: bool, rows: bool) -> list[str]:
    said = ["draws are independent draws of the model's posterior, not of a Markov chain"]
    if isinstance(model.posterior_, DrawnPosterior):
        said += [
            f"the posterior is held as {len(model.posterior_.free.x)} weighted draws, which were chosen again in "
            "proportion to their weights: some draws occur more than once"
        ]
    if model.prior_ is None:
        said += ["no prior: the posterior is the Gaussian at the maximum of the likelihood; there is no prior group"]
    elif model._first_prior is None or not (isinstance(model._first_prior, Gaussian) or _is_student(model)):
        said += ["the prior is no distribution one could draw from; there is no prior group"]
    if model._shape.n_outputs > 1 and isinstance(model, LinearClassifier):
        said += ["a constant added to all classes changes no probability: compare differences between classes"]
    if noise:
        said += ["label_noise is drawn together with the weights; label_noise_ is its mean by numerical integration"]
    if isinstance(model, BayesianGLM):
        said += [f"the dispersion {model.dispersion_:.6g} is an estimate and is not drawn"]
    if isinstance(model, LeastSquaresClassifier):
        said += ["least squares has no probabilities of labels: weights only"]
    elif not rows:
        said += [NO_ROWS]
    return said


def _is_student(model: LinearModel) -> bool:
    return isinstance(model.prior_, StudentT)


# --- what they say of rows -----------------------------------------------------------------------------------------


def _rows(model: LinearModel, drawn: Weights, wanted: Wanted, rng: np.random.Generator) -> RowDraws:
    training, posterior = wanted.training, model.posterior_
    n, size = len(training.y), len(drawn.free)
    log_likelihood = np.empty((size, n)) if wanted.labelled else None
    codes = not isinstance(model._likelihood, FamilyLikelihood)
    again = np.empty((size, n), dtype=np.int64 if codes else np.float64)
    for part in parts(n, size * model._shape.n_outputs):
        rows = Training(*(None if held is None else held[part] for held in training))  # type: ignore[arg-type]
        f = posterior.scores_at(posterior.frame.design(rows.X), drawn.free)
        if rows.offset is not None:
            f = f + rows.offset[:, None]
        likelihoods = _likelihoods(model._likelihood, drawn.flips)
        again[:, part] = _again(rng, likelihoods, rows, f)
        if log_likelihood is not None:
            log_likelihood[:, part] = _log_likelihood(likelihoods, rows, f)
    held = {"weight": training.weight, "offset": training.offset}
    return RowDraws(
        X=_dense(training.X),
        y=_observed(training.y, codes) if wanted.labelled else None,
        drawn=again,
        log_likelihood=log_likelihood,
        constants={name: values for name, values in held.items() if values is not None},
    )


def _dense(X: DesignMatrix) -> Array | None:
    """The columns, unless a sparse table would not fit into memory."""
    if not is_sparse(X):
        return np.asarray(X)
    return None if X.shape[0] * X.shape[1] > MOST_NUMBERS else np.asarray(X.toarray())  # type: ignore[union-attr]


def _observed(y: AnyArray, codes: bool) -> AnyArray:
    return y.astype(np.int64) if codes else y


def _likelihoods(likelihood: AnyLikelihood, flips: Array | None) -> list[AnyLikelihood]:
    """One for all draws, or one for each where flip probabilities are drawn."""
    if flips is None:
        return [likelihood]
    assert isinstance(likelihood, LabelNoise | NoisyCategorical)
    return [likelihood.with_flips(one) for one in flips]


def _log_likelihood(likelihoods: list[AnyLikelihood], rows: Training, f: Array) -> Array:
    """log p(y_i | draw), (S, n); a row of weight 2 is the row twice."""
    if len(likelihoods) == 1:
        out = row_log_prob(likelihoods[0], rows.y, f)
    else:
        out = np.stack([row_log_prob(own, rows.y, one) for own, one in zip(likelihoods, f, strict=True)])
    if rows.weight is not None:
        out = out * rows.weight
    likelihood = likelihoods[0]
    if isinstance(likelihood, FamilyLikelihood) and isinstance(likelihood.family, Binomial):
        totals = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        out = out + likelihood.family.log_coefficients(np.asarray(rows.y), totals)
    return np.asarray(out)


def _again(rng: np.random.Generator, likelihoods: list[AnyLikelihood], rows: Training, f: Array) -> AnyArray:
    """Labels or targets drawn again, (S, n)."""
    likelihood = likelihoods[0]
    if isinstance(likelihood, FamilyLikelihood):
        return _targets(rng, likelihood, rows, f[..., 0])
    if len(likelihoods) == 1:
        return draw_codes(rng, likelihood, f)
    return np.stack([draw_codes(rng, own, one) for own, one in zip(likelihoods, f, strict=True)])


def _targets(rng: np.random.Generator, likelihood: FamilyLikelihood, rows: Training, f: Array) -> Array:
    """Draws of the family; NaN where a draw's score is no mean of it, as in `predict`."""
    inside = likelihood.form.inside(f)
    s: Any = likelihood.dispersion
    if isinstance(likelihood.family, Binomial) and rows.weight is not None:
        inside = inside & (rows.weight > 0)
        s = np.broadcast_to(1.0 / np.where(rows.weight > 0, rows.weight, 1.0), f.shape)[inside]
    out = np.full(f.shape, np.nan)
    out[inside] = likelihood.family.sample(rng, likelihood.mean(f[inside]), s)
    return out
