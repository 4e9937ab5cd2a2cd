"""The classifiers of this package as simulators: prior and likelihood to draw from, a refit to learn with.

Models are looked at from outside, by what they have; nothing of the rooms above is imported when this is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from credibly.diagnostics.simulation import Simulator
from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import semidefinite_root
from credibly.numerics.special import log_softmax

TRIES = 1000  # data that lack a class are drawn again so often
ROWS = 8  # at which latents and log odds are looked at
LIKELIHOOD = "log likelihood"


def simulator_of(model: Any, X: Any, classes: ArrayLike) -> Simulator:
    """The simulator of a classifier whose prior does not depend on the data."""
    if not (hasattr(model, "get_params") and hasattr(model, "sample_proba")):
        raise InputError(f"sbc takes a classifier of credibly or a Simulator; got {type(model).__name__}.")
    settings = model.get_params(deep=False)
    _check_settings(settings)
    fitted = _fitted(model, X, classes)
    if "kernel" in settings:
        return _function_simulator(fitted, X)
    return _joint_simulator(fitted, len(X)) if "class_prior" in settings else _weight_simulator(fitted, X)


def _check_settings(settings: dict[str, Any]) -> None:
    """Refuse what is learnt from the data and is no parameter with a prior."""
    from credibly.model.priors import Jeffreys

    prior = settings.get("prior", "")
    if settings.get("optimize", False):
        raise InputError(
            "sbc needs fixed hyperparameters, as they have no prior: use optimize=False, with kernel=model.kernel_ if "
            "they were learnt."
        )
    if "prior" in settings and (prior is None or isinstance(prior, str | Jeffreys)):
        raise InputError(
            f"sbc draws from the prior, so it must be a distribution that does not depend on the data; got {prior!r}. "
            "Give an explicit one, e.g. Normal(scale=2.5), or prior=model.prior_ of a fit."
        )
    if settings.get("parameters", "integrated") != "integrated":
        raise InputError(f"sbc needs parameters='integrated', which have a posterior; got {settings['parameters']!r}.")
    if isinstance(settings.get("label_noise", 0.0), str):
        raise InputError("sbc needs a fixed likelihood: give label_noise as a number.")


def _fitted(model: Any, X: Any, classes: ArrayLike) -> Any:
    """The model itself if it is fitted, else one that is fitted to any labels: only its prior will be used."""
    if hasattr(model, "classes_"):
        return model
    labels = np.unique(np.asarray(classes))
    if len(labels) < 2 or len(X) < len(labels):
        raise InputError(f"sbc needs two classes or more and a row for each; got {labels.tolist()} and {len(X)} rows.")
    return clone(model).fit(X, labels[np.arange(len(X)) % len(labels)])


# --- labels -----------------------------------------------------------------------------------------------------


def _log_prob(likelihood: Any, y: AnyArray, f: Array) -> Array:
    """log p(y | f): y (n,), f (…, n, 1) for two classes or (…, n, K)."""
    if f.shape[-1] == 1:
        return np.asarray(likelihood.log_prob(np.asarray(y, dtype=float), f[..., 0]))
    log_proba = log_softmax(f)
    log_proba = likelihood.log_recorded(log_proba) if hasattr(likelihood, "log_recorded") else log_proba
    return np.take_along_axis(log_proba, np.broadcast_to(y, f.shape[:-1])[..., None], axis=-1)[..., 0]


def _draw_labels(rng: np.random.Generator, likelihood: Any, f: Array, n_classes: int) -> Codes:
    """Recorded labels at the scores f, (n, 1) or (n, K)."""
    log_proba = np.column_stack([_log_prob(likelihood, np.full(len(f), c), f) for c in range(n_classes)])
    return np.asarray((log_proba + rng.gumbel(size=log_proba.shape)).argmax(axis=1), dtype=np.intp)


def _until_all_classes(
    draw: Callable[[np.random.Generator], tuple[Array, Any, Codes]], n_classes: int
) -> Callable[[np.random.Generator], tuple[Array, Any]]:
    """Draw again while a class is missing: a model cannot be fitted then."""

    def simulate(rng: np.random.Generator) -> tuple[Array, Any]:
        for _ in range(TRIES):
            truth, data, codes = draw(rng)
            if len(np.unique(codes)) == n_classes:
                return truth, data
        raise InputError(
            f"{TRIES} simulated sets of labels all lacked a class: use more rows, or a prior that is less extreme."
        )

    return simulate


# --- linear models ----------------------------------------------------------------------------------------------


def _weight_simulator(fitted: Any, X: Any) -> Simulator:
    likelihood, shape, classes = fitted.fit_.spec.likelihood, fitted.fit_.shape, fitted.classes_
    Phi = np.asarray(X, dtype=float)
    Phi = np.column_stack([Phi, np.ones(len(Phi))]) if shape.intercept else Phi

    def scores(w: Array) -> Array:
        return np.asarray(np.einsum("nd,...kd->...nk", Phi, w.reshape(*w.shape[:-1], shape.n_outputs, -1)))

    def with_likelihood(w: Array, y: Codes) -> Array:
        return np.concatenate([w, _log_prob(likelihood, y, scores(w)).sum(axis=-1, keepdims=True)], axis=-1)

    def draw(rng: np.random.Generator) -> tuple[Array, Any, Codes]:
        w = fitted.fit_.prior_draws(rng, 1)[0]
        y = _draw_labels(rng, likelihood, scores(w), len(classes))
        return with_likelihood(w, y), y, y

    def posterior(rng: np.random.Generator, y: Codes, size: int) -> Array:
        refit = clone(fitted).fit(X, classes[y])
        return with_likelihood(refit.posterior_.sample(rng, size), y)

    return Simulator(_until_all_classes(draw, len(classes)), posterior, _weight_names(fitted))


def _weight_names(fitted: Any) -> list[str]:
    shape = fitted.fit_.shape
    columns = getattr(fitted, "feature_names_in_", [f"x{j}" for j in range(shape.n_features)])
    names = [*map(str, columns), *(["intercept"] if shape.intercept else [])]
    if shape.n_outputs > 1:
        names = [f"{label}: {name}" for label in fitted.classes_.tolist() for name in names]
    return [*names, LIKELIHOOD]


# --- Gaussian processes -----------------------------------------------------------------------------------------


def _function_simulator(fitted: Any, X: Any) -> Simulator:
    """Latents at new rows that lie where some of the rows of the fit do."""
    if fitted._plan.one_vs_rest:
        raise InputError("One class against the rest is no model of all labels, so there is nothing to simulate from.")
    rows, classes, n_functions = np.asarray(X, dtype=float), fitted.classes_, fitted._plan.n_functions
    likelihood, some = fitted._plan.at(None), _some(len(rows))
    both = np.concatenate([rows, rows[some]])
    roots = [semidefinite_root(kernel(both), "the prior covariance") for kernel in fitted._kernels]
    roots = roots * n_functions if len(roots) == 1 else roots

    def with_likelihood(f: Array, y: Codes) -> Array:
        total = _log_prob(likelihood, y[some], f).sum(axis=-1, keepdims=True)
        return np.concatenate([f.reshape(*f.shape[:-2], -1), total], axis=-1)

    def draw(rng: np.random.Generator) -> tuple[Array, Any, Codes]:
        f = np.column_stack([root @ rng.standard_normal(root.shape[1]) for root in roots])
        y = _draw_labels(rng, likelihood, f[: len(rows)], len(classes))
        return with_likelihood(f[len(rows) :], y), y, y

    def posterior(rng: np.random.Generator, y: Codes, size: int) -> Array:
        refit = clone(fitted).fit(X, classes[y])
        return with_likelihood(refit.posterior_.sample(rng, rows[some], size), y)

    names = [f"f(row {i})" if n_functions == 1 else f"f_{c}(row {i})" for i in some for c in classes[:n_functions]]
    return Simulator(_until_all_classes(draw, len(classes)), posterior, [*names, LIKELIHOOD])


def _some(n_rows: int) -> Codes:
    """A few rows, from the first to the last."""
    return np.unique(np.linspace(0, n_rows - 1, min(ROWS, n_rows)).astype(np.intp))


# --- generative models ------------------------------------------------------------------------------------------


def _joint_simulator(fitted: Any, n_rows: int) -> Simulator:
    """Log odds at simulated rows; the rows are simulated too."""
    classes, family = fitted.classes_, fitted._plan.family
    features = fitted.get_params(deep=False).get("features")
    if isinstance(features, dict) or any(it == "auto" for it in np.atleast_1d(np.array(features, dtype=object))):
        raise InputError("sbc needs features= to be explicit: simulated columns may look like those of another family.")
    n_classes, some = len(classes), _some(n_rows)
    before = fitted._rule(n_classes).learn(family, fitted._sums.take(np.full(n_classes, -1)))

    def quantities(joint: Any, rows: Array, y: Codes) -> Array:
        log_joint = joint.log_joint(rows)
        odds = log_joint[some, 1:] - log_joint[some, :1]
        return np.append(odds, log_joint[np.arange(len(y)), y].sum())

    def draw(rng: np.random.Generator) -> tuple[Array, Any, Codes]:
        joint = before.draw(rng)
        y = rng.choice(n_classes, size=n_rows, p=np.exp(joint.weights.log_p))
        rows = joint.density.sample(rng, y)
        return quantities(joint, rows, y), (rows, y), y

    def posterior(rng: np.random.Generator, data: tuple[Array, Codes], size: int) -> Array:
        refit = clone(fitted).fit(fitted._plan.decode(data[0]), classes[data[1]])
        return np.array([quantities(refit._joint.draw(rng), *data) for _ in range(size)])

    names = [f"log odds of {c}, row {i}" for i in some for c in classes.tolist()[1:]]
    return Simulator(_until_all_classes(draw, n_classes), posterior, [*names, LIKELIHOOD])
