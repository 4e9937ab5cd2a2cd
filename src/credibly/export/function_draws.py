"""Draws of the latents of a Gaussian process: at the rows of its fit, or at others."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credibly.data.threads import blas_threads
from credibly.errors import InputError
from credibly.estimators.exporting import check_fitted
from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.validation import feature_names, n_threads, read_training
from credibly.export.drawn import RowDraws, Sampled, Variable, check_size, class_names, draw_classes, draw_codes
from credibly.inference.function_posterior import LOST, FunctionPosterior
from credibly.inference.inducing_posterior import InducingPosterior
from credibly.inference.latent import LatentGaussian
from credibly.inference.targets import row_log_prob
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import semidefinite_root

INDEPENDENT = "draws are independent draws of the Gaussian approximation of the latents, not of a Markov chain"
HYPERPARAMETERS = "the kernel's hyperparameters are estimates and are not drawn"
OWN_LATENTS = (
    "every row has a latent of its own, so that the importance weights of az.loo mostly fail: loo_log_proba_ has the "
    "model's own leave-one-out"
)
ONE_VS_REST = (
    "no log_likelihood: each class is inferred against the rest, which is no model of all labels together "
    "(inference='laplace' is)"
)


class Wanted(NamedTuple):
    """Rows, their labels where known, and whether they are those of the fit."""

    X: Array
    codes: Codes | None
    fitted: bool


def sample_function(
    model: GaussianProcessResults, X: ArrayLike | None, y: ArrayLike | None, rng: np.random.Generator, size: int
) -> Sampled:
    """Everything that is exported of a Gaussian process."""
    check_fitted(model)
    wanted, plan = _wanted(model, X, y), model._plan
    _check_rows(model, wanted)
    check_size(size, len(wanted.X) * plan.n_functions)
    with blas_threads(len(wanted.X) * plan.n_functions, n_threads(model.n_jobs)):
        f = _latents(model.posterior_, wanted, rng, size)
        before = _prior_latents(model.posterior_, wanted, rng, size)
    coords: dict[str, list[Any]] = {"feature": feature_names(model)}
    if plan.n_functions > 1:
        coords["class"] = class_names(model.classes_)
    return Sampled(
        posterior={"f": _variable(f)},
        prior={"f": _variable(before)},
        coords=coords,
        rows=_rows(model, wanted, f, rng),
        inference=plan.inference,
        notes=(
            INDEPENDENT,
            f"{HYPERPARAMETERS}: k = {model.kernel_!r}",
            ONE_VS_REST if plan.one_vs_rest else OWN_LATENTS,
        ),
    )


def _wanted(model: GaussianProcessResults, X: ArrayLike | None, y: ArrayLike | None) -> Wanted:
    fitted = model.posterior_.X
    if X is None:
        return Wanted(fitted, model._codes, True)
    if y is None:
        rows = model._rows(X)
        return Wanted(rows, None, np.array_equal(rows, fitted))
    table = read_training(model, X, y, None, classes=model.classes_, reset=False, sparse=False)
    rows = np.asarray(table.X, dtype=float)
    return Wanted(rows, table.codes, np.array_equal(rows, fitted))


def _check_rows(model: GaussianProcessResults, wanted: Wanted) -> None:
    """Latents are drawn together, by a root of their covariance."""
    n_values, limit = len(wanted.X) * model._plan.n_functions, max(int(model.max_n), model._n_square)
    if n_values > limit:
        raise InputError(
            f"to_arviz draws {n_values} latents together ({len(wanted.X)} rows × {model._plan.n_functions} functions); "
            f"the limit is max_n={limit}. Pass fewer rows (X=, y=)."
        )


def _latents(
    posterior: FunctionPosterior | InducingPosterior, wanted: Wanted, rng: np.random.Generator, size: int
) -> Array:
    """Draws of the function at the rows, (S, n, C)."""
    if not wanted.fitted or isinstance(posterior, InducingPosterior):
        return posterior.sample(rng, wanted.X, size)
    K = tuple(kernel(posterior.X) for kernel in posterior.kernels)  # white noise belongs to its own row
    gaussian = posterior.gaussian
    mean, cov = gaussian.joint(K[0], K[0]) if isinstance(gaussian, LatentGaussian) else gaussian.joint(K, K)
    root = semidefinite_root(cov, "the posterior covariance", noise=LOST * max(float(k.max()) for k in K))
    return np.asarray(mean.reshape(len(wanted.X), -1) + _shaped(rng, root, size, len(wanted.X)))


def _prior_latents(
    posterior: FunctionPosterior | InducingPosterior, wanted: Wanted, rng: np.random.Generator, size: int
) -> Array:
    """Draws of the function before any label, (S, n, C)."""
    n_functions = posterior.mean.shape[1] if posterior.mean.ndim > 1 else 1
    kernels = posterior.kernels * (n_functions if len(posterior.kernels) == 1 else 1)
    roots = {id(kernel): semidefinite_root(kernel(wanted.X), "the prior covariance") for kernel in posterior.kernels}
    each = [_shaped(rng, roots[id(kernel)], size, len(wanted.X)) for kernel in kernels]
    return np.concatenate(each, axis=2)


def _shaped(rng: np.random.Generator, root: Array, size: int, n_rows: int) -> Array:
    """Draws with this root of their covariance, class by class, as (S, n, C)."""
    noise = rng.standard_normal((size, root.shape[1])) @ root.T
    return np.asarray(noise.reshape(size, -1, n_rows).transpose(0, 2, 1))


def _variable(f: Array) -> Variable:
    return Variable(f[..., 0], ("row",)) if f.shape[2] == 1 else Variable(f, ("row", "class"))


def _rows(model: GaussianProcessResults, wanted: Wanted, f: Array, rng: np.random.Generator) -> RowDraws:
    likelihood, plan = model._likelihood, model._plan
    if plan.one_vs_rest:
        return RowDraws(wanted.X, wanted.codes, draw_classes(rng, plan.predictive().proba(f)), None, {})
    log_likelihood = None
    if wanted.codes is not None:
        labels = wanted.codes.astype(float) if isinstance(likelihood, Likelihood) else wanted.codes
        log_likelihood = row_log_prob(likelihood, labels, f)
    return RowDraws(wanted.X, wanted.codes, draw_codes(rng, likelihood, f), log_likelihood, {})
