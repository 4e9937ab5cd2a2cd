"""Draws of a fitted model as ArviZ holds them: groups of labelled arrays, (S, …) for S draws of all chains together."""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from credibly._version import __version__
from credibly.data.rows import MemoryRows
from credibly.data.threads import single_threaded_blas
from credibly.diagnostics.inputs import generator
from credibly.errors import DataWarning, InputError, NotDefinedError
from credibly.estimators.exporting import check_fitted
from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.generative_results import GenerativeClassifierBase, at_least_one
from credibly.estimators.least_squares import LeastSquaresClassifier
from credibly.estimators.linear_base import LinearModel
from credibly.estimators.validation import Training, feature_names, read_columns, read_training
from credibly.inference.function_posterior import LOST
from credibly.inference.inducing_posterior import InducingPosterior
from credibly.inference.latent import LatentGaussian
from credibly.inference.linear.fit import LinearFit, with_flips
from credibly.inference.linear.objective import log_probs
from credibly.inference.linear.spec import Data
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.model.likelihoods.proportions import Binomial
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import dense, is_sparse, semidefinite_root
from credibly.numerics.special import log_softmax

MOST_NUMBERS = 250_000_000  # in one variable: two gigabytes
SCORES_AT_ONCE = 1_000_000  # of several draws together: eight megabytes, large enough for NumPy to be fast


SAMPLED = ("posterior", "prior", "posterior_predictive", "log_likelihood")  # groups whose arrays begin with the draws
OBSERVED = ("log_likelihood", "observed_data")  # groups that need labels
UNLABELLED = {"posterior_predictive": "predictions", "constant_data": "predictions_constant_data"}

Group = dict[str, AnyArray]
Scored = tuple[AnyLikelihood, Array]  # the likelihood of some draws, and their scores of the rows, (s, n, K)


class Draws(NamedTuple):
    """All that is exported of a model."""

    groups: dict[str, Group]  # of ArviZ's schema; those of draws are (S, …)
    dims: dict[str, list[str]]  # names of the dimensions after the draws
    coords: dict[str, list[Any]]  # names along dimensions
    inference: str


def to_arviz(
    model: Any, X: Any = None, y: Any = None, *, draws: int = 1000, chains: int = 4, random_state: Any = None
) -> Any:
    """Draws of a fitted model as ArviZ's `InferenceData`: for `az.summary`, `az.loo`, `az.plot_forest` and the like.

    Draws are independent, and of `posterior_` as it is: no Markov chain, no correction of the approximation. What was
    learnt by maximizing the evidence (scales of priors, kernels, dispersions) is not drawn.

    Parameters
    ----------
    model : fitted estimator of this library, or TableModel
        Linear models (weights ``coef``, ``intercept``, and ``label_noise`` where it is estimated), Gaussian processes
        (latents ``f``), generative models with ``parameters="integrated"`` (``class_probability``, and ``mean`` and
        ``spread`` of every column in each class).
    X, y : optional
        Rows and labels (or targets) for ``log_likelihood``, ``posterior_predictive`` and ``observed_data``. By default
        those of the fit, where the model holds them. X alone: rows to predict, in the group ``predictions``.
    draws : int, default 1000
        In each chain.
    chains : int, default 4
        A layout only: ArviZ compares chains with each other.
    random_state : int, Generator or None
        None takes the model's.

    Returns
    -------
    arviz.InferenceData
        An xarray ``DataTree`` from ArviZ 1 on. Labels are codes into ``model.classes_``. The log likelihood of a
        generative model is joint, log p(x, y | parameters), as it was learnt.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import LinearDiscriminant
    >>> X, y = load_iris(return_X_y=True)
    >>> data = to_arviz(LinearDiscriminant().fit(X, y), X, y, draws=50, random_state=0)
    >>> data.posterior["mean"].sizes["class"], data.log_likelihood["y"].shape
    (3, (4, 50, 150))
    """
    at_least_one(draws, "draws")
    at_least_one(chains, "chains")
    if X is None and y is not None:
        raise InputError("y came without X: pass both, or neither for the rows of the fit.")
    arviz = import_arviz()
    if hasattr(model, "design") and hasattr(model, "target"):  # a model of tables, which may have their labels
        if X is not None:
            labelled = y is None and model.target in X.columns
            X, y = tuple(model.training_rows(X)) if labelled else (model.matrix(X), y)
        model = model.model
    sample = next((sample for kind, sample in KINDS if isinstance(model, kind)), None)
    if sample is None:
        raise NotDefinedError(
            f"A {type(model).__name__} has no parameters of its own to draw: export the models in it."
        )
    check_fitted(model)
    rng = generator(getattr(model, "random_state", None) if random_state is None else random_state)
    with single_threaded_blas():
        drawn = sample(model, X, y, rng, draws * chains)
    return _inference_data(arviz, model, drawn, (chains, draws), labelled=X is None or y is not None)


def import_arviz() -> Any:
    """ArviZ, without the notice about its next release that it gives once a day."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ: pip install 'credibly[arviz]'") from error
    return arviz


def _inference_data(arviz: Any, model: Any, drawn: Draws, shape: tuple[int, int], *, labelled: bool) -> Any:
    groups = {name: dict(group) for name, group in drawn.groups.items() if group}
    for group in (groups[name] for name in SAMPLED if name in groups):
        group.update({name: values.reshape(*shape, *values.shape[1:]) for name, values in group.items()})
    if not labelled:  # rows without labels are predictions, and no observations
        groups = {UNLABELLED.get(name, name): group for name, group in groups.items() if name not in OBSERVED}
    by_row = {"y": ["row"], "X": ["row", "feature"], "weight": ["row"], "offset": ["row"]}
    names: dict[str, Any] = {"dims": drawn.dims | by_row, "coords": drawn.coords}
    names |= {f"pred_{name}": value for name, value in names.items()}
    before_1 = "InferenceData" in vars(arviz)  # ArviZ 1.3 answers to the name, with a warning, though it has none
    data = arviz.from_dict(**groups, **names) if before_1 else arviz.from_dict(groups, **names)
    data.attrs.update(inference_library="credibly", inference_library_version=__version__)
    data.attrs.update(model=type(model).__name__, inference=drawn.inference)
    return data


def _check_size(draws: int, n_rows: int) -> None:
    """Refuse more numbers than a machine is likely to hold, before any is computed."""
    if draws * n_rows > MOST_NUMBERS:
        raise InputError(
            f"{draws:,} draws for {n_rows:,} rows are more than the {MOST_NUMBERS:,} numbers a group may have. Ask "
            "for fewer draws (draws=, chains=), or pass some of the rows (X=, y=)."
        )


def _class_names(classes: AnyArray) -> list[Any]:
    """Labels as coordinates that a file can hold: numbers as they are, all else as text."""
    return [label if classes.dtype.kind in "iuf" else str(label) for label in classes.tolist()]


# --- what one draw says of rows ------------------------------------------------------------------------------------


def _simulate(rng: np.random.Generator, rows: Training, each: Iterable[Scored]) -> dict[str, Group]:
    """Labels drawn again and log likelihoods, for the likelihoods and the scores of all draws."""
    both = [(_draw_rows(rng, likelihood, rows, f), _log_prob(likelihood, rows, f)) for likelihood, f in each]
    drawn, log_likelihood = (np.concatenate(part) for part in zip(*both, strict=True))
    held = {"X": None if is_sparse(rows.X) else np.asarray(rows.X), "weight": rows.weight, "offset": rows.offset}
    return {
        "posterior_predictive": {"y": drawn},
        "log_likelihood": {"y": log_likelihood},
        "observed_data": {"y": rows.y.astype(drawn.dtype)},
        "constant_data": {name: values for name, values in held.items() if values is not None},
    }


def _draw_rows(rng: np.random.Generator, likelihood: AnyLikelihood, rows: Training, f: Array) -> AnyArray:
    """One recorded label, as a code, or one target for every row of scores."""
    if isinstance(likelihood, FamilyLikelihood):
        return _draw_targets(rng, likelihood, rows, f[..., 0])
    if isinstance(likelihood, Likelihood):
        return (rng.random(f.shape[:-1]) < likelihood.mean(f[..., 0])).astype(np.int64)
    if isinstance(likelihood, NoisyCategorical):
        return _draw_classes(rng, np.exp(likelihood.log_recorded(log_softmax(f))))
    return _draw_classes(rng, likelihood.mean(f))


def _draw_classes(rng: np.random.Generator, proba: Array) -> Codes:
    below = np.cumsum(proba, axis=-1)[..., :-1]  # what is left of one belongs to the last class
    return np.asarray((rng.random(proba.shape[:-1])[..., None] > below).sum(axis=-1))


def _draw_targets(rng: np.random.Generator, likelihood: FamilyLikelihood, rows: Training, f: Array) -> Array:
    """Draws of the family; NaN where a draw's score is no mean of it, as in `predict`."""
    inside = likelihood.form.inside(f)
    dispersion: float | Array = likelihood.dispersion
    if isinstance(likelihood.family, Binomial) and rows.weight is not None:  # proportions of so many trials
        inside = inside & (rows.weight > 0)
        dispersion = 1.0 / np.broadcast_to(rows.weight, f.shape)[inside]
    out = np.full(f.shape, np.nan)
    out[inside] = likelihood.family.sample(rng, likelihood.mean(f[inside]), dispersion)
    return out


def _log_prob(likelihood: AnyLikelihood, rows: Training, f: Array) -> Array:
    """log p(y_i | f_i), (s, n); a row of weight 2 is the row twice."""
    out = log_probs(likelihood, rows.y, f) * (1.0 if rows.weight is None else rows.weight)
    if isinstance(likelihood, FamilyLikelihood) and isinstance(likelihood.family, Binomial):
        totals = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        out = out + likelihood.family.log_coefficients(np.asarray(rows.y), totals)
    return np.asarray(out)


# --- linear models -------------------------------------------------------------------------------------------------


def _sample_linear(model: Any, X: Any, y: Any, rng: np.random.Generator, size: int) -> Draws:
    rows = _linear_rows(model, X, y)
    _check_size(size, 0 if rows is None else len(rows.y))
    fit: LinearFit = model.fit_
    joint, belief = with_flips(fit), fit.spec.flips
    flips = None
    if joint is None or belief is None:
        w = fit.posterior.sample(rng, size)
    else:
        x = joint.sample(rng, size)
        w = fit.posterior.to_weights(rng, x[:, : -belief.n_free])
        flips = np.array([belief.flips(it) for it in x[:, -belief.n_free :]])
    by_class = ["class"] if model.fit_.shape.n_outputs > 1 else []
    flip = ["flip"] if np.ndim(getattr(model, "label_noise", 0.0)) else []  # a pair: one for each direction
    coords = {"feature": feature_names(model)} | {name: _class_names(model.classes_) for name in by_class}
    if flips is not None and flip:
        zero, one = (str(label) for label in model.classes_.tolist())
        coords["flip"] = [f"{zero} recorded as {one}", f"{one} recorded as {zero}"]
    groups = {"posterior": _named_weights(model, w, flips), "prior": _linear_prior(model, rng, size)}
    if rows is not None:
        groups |= _simulate(rng, rows, _linear_scores(model, rows, w, flips))
    dims = {"coef": ["feature", *by_class], "intercept": by_class, "label_noise": flip}
    return Draws(groups, dims, coords, str(getattr(model, "rung_", None) or getattr(model, "inference", "laplace")))


def _vectors(model: Any, w: Array) -> tuple[Array, Array]:
    """Weights (S, M), which are class by class, as coefficients (S, d, K) and intercepts (S, K)."""
    vectors = w.reshape(len(w), model.fit_.shape.n_outputs, -1).swapaxes(1, 2)
    intercept = vectors[:, -1] if model.fit_.shape.intercept else np.zeros((len(w), vectors.shape[2]))
    return vectors[:, : model.fit_.shape.n_features], intercept


def _named_weights(model: Any, w: Array, flips: Array | None) -> Group:
    coef, intercept = _vectors(model, w)
    one = model.fit_.shape.n_outputs == 1
    named = {"coef": coef[..., 0] if one else coef}
    if model.fit_.shape.intercept:
        named["intercept"] = intercept[:, 0] if one else intercept
    if flips is not None:
        named["label_noise"] = flips if np.ndim(model.label_noise) else flips[:, 0]
    return named


def _linear_prior(model: Any, rng: np.random.Generator, size: int) -> Group:
    """Draws of the prior; none where it is flat or Jeffreys'."""
    fit: LinearFit = model.fit_
    w = fit.prior_draws(rng, size)
    if w is None:
        return {}
    flips, belief = None, fit.spec.flips
    if belief is not None:
        halves = 0.5 * rng.beta(belief.beta.a, belief.beta.b, (size, belief.n_free))
        flips = np.where(belief.index < 0, belief.fixed, halves[:, belief.index])
    return _named_weights(model, w, flips)


def _linear_scores(model: Any, rows: Training, w: Array, flips: Array | None) -> Iterator[Scored]:
    """Likelihoods and scores, of as many draws at a time as share a likelihood and fit into little memory."""
    coef, intercept = _vectors(model, w)
    n_draws, d, K = coef.shape
    step = max(1, SCORES_AT_ONCE // max(1, len(rows.y) * K)) if flips is None else 1
    for at in range(0, n_draws, step):
        some = coef[at : at + step]
        f = np.asarray(rows.X @ some.swapaxes(0, 1).reshape(d, -1)).reshape(-1, len(some), K).swapaxes(0, 1)
        f = f + intercept[at : at + step, None] + (0.0 if rows.offset is None else rows.offset[:, None])
        yield model._likelihood if flips is None else model._likelihood.with_flips(flips[at]), f


def _linear_rows(model: Any, X: Any, y: Any) -> Training | None:
    """The rows that are asked about; those of the fit where none are given and it holds them."""
    fitted = None if model._data is None else _training(model._data)
    if isinstance(model, LeastSquaresClassifier):
        if X is not None:
            raise InputError("LeastSquaresClassifier has no probabilities of labels: leave out X and y.")
        return None
    if X is None:
        return fitted
    if fitted is not None and (fitted.weight is not None or fitted.offset is not None):
        warnings.warn(
            "The model was fitted with weights, trials or an offset, which X and y alone do not have: here every row "
            "counts once, without an offset. For the rows of the fit leave X and y out.",
            DataWarning,
            stacklevel=4,
        )
    if y is None:
        columns = read_columns(model, X)
        return Training(columns, np.zeros(columns.shape[0], dtype=np.int64), None, None)
    return _training(model._read_data(X, y))


def _training(data: Data) -> Training:
    assert isinstance(data.rows, MemoryRows)
    return Training(data.rows.X, data.rows.y, data.rows.weight, data.rows.offset)


# --- Gaussian processes --------------------------------------------------------------------------------------------


def _sample_function(model: Any, X: Any, y: Any, rng: np.random.Generator, size: int) -> Draws:
    posterior, plan, likelihood = model.posterior_, model._plan, model._likelihood
    if y is not None:
        table = read_training(model, X, y, None, classes=model.classes_, reset=False, sparse=False)
        at, codes = np.asarray(table.X, dtype=float), table.codes
    else:
        at = posterior.X if X is None else model._rows(X)
        codes = model._codes if X is None else np.zeros(len(at), dtype=np.int64)
    n_latents, limit = len(at) * plan.n_functions, max(int(model.max_n), model._n_square)
    if n_latents > limit:
        raise InputError(
            f"to_arviz draws {n_latents} latents together ({len(at)} rows × {plan.n_functions} functions); the limit "
            f"is max_n={limit}. Pass fewer rows (X=, y=)."
        )
    _check_size(size, n_latents)
    f = _latents(posterior, at, rng, size)
    if plan.one_vs_rest:  # each class against the rest is no model of all labels: there is no likelihood
        again = _draw_classes(rng, plan.predictive().proba(f))
        groups = {"posterior_predictive": {"y": again}, "observed_data": {"y": codes}, "constant_data": {"X": at}}
    else:
        labels = codes.astype(float) if isinstance(likelihood, Likelihood) else codes
        groups = _simulate(rng, Training(at, labels, None, None), [(likelihood, f)])
    by_class = ["class"] if plan.n_functions > 1 else []
    groups["posterior"] = {"f": f if by_class else f[..., 0]}
    coords = {"feature": feature_names(model)} | {name: _class_names(model.classes_) for name in by_class}
    return Draws(groups, {"f": ["row", *by_class]}, coords, plan.inference)


def _latents(posterior: Any, X: Array, rng: np.random.Generator, size: int) -> Array:
    """Draws of the functions at the rows, (S, n, K)."""
    if isinstance(posterior, InducingPosterior) or not np.array_equal(X, posterior.X):
        return np.asarray(posterior.sample(rng, X, size))
    K = tuple(kernel(posterior.X) for kernel in posterior.kernels)  # white noise belongs to its own row
    gaussian = posterior.gaussian
    mean, cov = gaussian.joint(K[0], K[0]) if isinstance(gaussian, LatentGaussian) else gaussian.joint(K, K)
    root = semidefinite_root(cov, "the posterior covariance", noise=LOST * max(float(k.max()) for k in K))
    noise = rng.standard_normal((size, root.shape[1])) @ root.T  # class by class
    return np.asarray(mean.reshape(len(X), -1) + noise.reshape(size, -1, len(X)).transpose(0, 2, 1))


# --- generative models ---------------------------------------------------------------------------------------------


def _sample_generative(model: Any, X: Any, y: Any, rng: np.random.Generator, size: int) -> Draws:
    joint = model._integrated("to_arviz")
    if y is not None:
        learner, columns, codes = model._labelled(X, y, "to_arviz")
        if learner.family is not model._plan.family:
            raise InputError(
                "These rows hold levels of categories that the model has not learnt; fit it on them first."
            )
    else:
        columns = np.empty((0, 0)) if X is None else dense(model._design(X).X)
        codes = np.zeros(len(columns), dtype=np.int64)
    _check_size(size, len(columns))
    parameters = [joint.draw(rng) for _ in range(size)]
    groups = {
        "posterior": {
            "class_probability": np.exp([it.weights.log_average(it.sums.counts) for it in parameters]),
            "mean": np.array([it.density.center() for it in parameters]),
            "spread": np.array([it.density.spread() for it in parameters]),
        }
    }
    if X is not None:
        again, log_joint = np.empty((size, len(codes)), dtype=np.int64), np.empty((size, len(codes)))
        for s, each in enumerate(it.log_joint(columns) for it in parameters):
            again[s], log_joint[s] = _draw_classes(rng, np.exp(log_softmax(each))), each[np.arange(len(codes)), codes]
        groups |= {
            "posterior_predictive": {"y": again},
            "log_likelihood": {"y": log_joint},
            "observed_data": {"y": codes},
        }
    dims = {"class_probability": ["class"], "mean": ["class", "feature"], "spread": ["class", "feature"]}
    names = model._plan.row_names()
    earlier = [names[:at].count(name) for at, name in enumerate(names)]  # a number tells names apart that occur again
    names = [f"{name} ({count + 1})" if count else name for name, count in zip(names, earlier, strict=True)]
    coords = {"class": _class_names(model.classes_), "feature": names}
    return Draws(groups, dims, coords, "conjugate")


KINDS = (
    (LinearModel, _sample_linear),
    (GaussianProcessResults, _sample_function),
    (GenerativeClassifierBase, _sample_generative),
)
