"""What a fit of a Gaussian process claims, looked at with kernels, curvatures and integrals typed again.

Notation
--------
====  ==================================================================================  =========
K     prior covariance of the latents, by naive formulas; with inducing points FITC's      (n, n)
g, W  gradient and curvature of log p(y | f)                                              (n,)
Δ     Newton step (I + KW)⁻¹(Kg - f) from the latents that are claimed to be the mode      (n,)
τ, ν  sites of expectation propagation                                                    (n,)
====  ==================================================================================  =========

Distances are in posterior standard deviations.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, expit, log_expit, log_ndtr
from sklearn.base import clone

from credibly import Status
from credibly.errors import ConvergenceWarning, CrediblyError
from credibly.inference.inducing_posterior import InducingPosterior
from credibly.kernels import RBF, Constant, Kernel, Linear, Matern, Periodic, Product, RationalQuadratic, Sum
from reliability.torture_gp import GaussianProblem

EPS = float(np.finfo(float).eps)
GRID = np.linspace(0.0, 1.0, 8_001)
REACH = 12.0  # standard deviations beyond the mean of the normal factor, and beyond the mode of the product


def naive_kernel(kernel: Kernel, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """k(X, Z) from its displayed equation, differences taken one by one."""
    if isinstance(kernel, Product | Sum):
        left, right = (naive_kernel(part, X, Z) for part in (kernel.left, kernel.right))
        return left * right if isinstance(kernel, Product) else left + right
    if isinstance(kernel, Constant):
        return np.full((len(X), len(Z)), kernel.variance)
    if isinstance(kernel, Linear):
        return (X[:, None, :] * Z[None, :, :]).sum(axis=2) + kernel.bias**2
    gaps = X[:, None, :] - Z[None, :, :]
    if isinstance(kernel, Periodic):
        return np.exp(-2 * (np.sin(np.pi * gaps / kernel.period) ** 2).sum(axis=2) / kernel.length_scale**2)
    return of_distance(kernel, np.sqrt(((gaps / kernel.length_scale) ** 2).sum(axis=2)))


def of_distance(kernel: Kernel, r: np.ndarray) -> np.ndarray:
    """Stationary kernels, at distances in length scales."""
    if isinstance(kernel, RBF):
        return np.exp(-0.5 * r**2)
    if isinstance(kernel, RationalQuadratic):
        return np.exp(-kernel.alpha * np.log1p(r**2 / (2 * kernel.alpha)))
    assert isinstance(kernel, Matern)
    if kernel.nu == 0.5:
        return np.exp(-r)
    return (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)


def prior_covariance(problem: GaussianProblem) -> np.ndarray:
    """K, or with inducing points Q + diag(K - Q)."""
    model, X = problem.model, problem.X
    K = naive_kernel(model.kernel_, X, X)
    if not isinstance(model.posterior_, InducingPosterior):
        return K
    Z = model.inducing_points_
    values, vectors = np.linalg.eigh(naive_kernel(model.kernel_, Z, Z))
    some = values > EPS * len(Z) * values[-1]
    half = naive_kernel(model.kernel_, X, Z) @ (vectors[:, some] / np.sqrt(values[some]))
    Q = half @ half.T
    Q[np.diag_indices(len(X))] = np.diag(K)
    return Q


class Expanded(NamedTuple):
    log_prob: np.ndarray
    grad: np.ndarray
    curvature: np.ndarray


def expanded(likelihood: str, sign: np.ndarray, f: np.ndarray) -> Expanded:
    """log p(y | f) to second order, for labels of ±1."""
    z = sign * f
    if likelihood == "probit":
        r = np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))
        return Expanded(log_ndtr(z), sign * r, r * (z + r))
    return Expanded(log_expit(z), sign * expit(-z), expit(z) * expit(-z))


def newton_distance(problem: GaussianProblem) -> float:
    """Largest Newton step of a latent from the claimed mode; two classes or the joint softmax."""
    model, K, n = problem.model, prior_covariance(problem), len(problem.X)
    f, var = model.posterior_.mean, model.posterior_.var
    if f.ndim == 1:
        _, g, W = expanded(model.likelihood, 2.0 * problem.y - 1, f)
        step = np.linalg.solve(np.eye(n) + K * W, K @ g - f)
        return in_deviations(step, var)
    C = f.shape[1]
    p = np.exp(f - np.logaddexp.reduce(f, axis=1, keepdims=True))
    g = np.eye(C)[problem.y] - p
    W = np.einsum("nc,cd->ncd", p, np.eye(C)) - p[:, :, None] * p[:, None, :]
    KW = np.einsum("nm,mcd->cndm", K, W).reshape(C * n, C * n)
    step = np.linalg.solve(np.eye(C * n) + KW, (K @ g - f).T.ravel()).reshape(C, n).T
    return in_deviations(step, var)


def in_deviations(step: np.ndarray, var: np.ndarray) -> float:
    """The largest of some steps; a latent without variance is known, and must not move at all."""
    known = var == 0
    assert not step[known].any()
    return float((np.abs(step[~known]) / np.sqrt(var[~known])).max(initial=0.0))


def laplace_evidence(problem: GaussianProblem) -> float:
    """log p(y | f) - ½ fᵀa - ½ log |I + KW| at the claimed mode, two classes."""
    model, K, n = problem.model, prior_covariance(problem), len(problem.X)
    f = model.posterior_.mean
    log_p, g, W = expanded(model.likelihood, 2.0 * problem.y - 1, f)
    return float(log_p.sum() - 0.5 * f @ g - 0.5 * np.linalg.slogdet(np.eye(n) + K * W)[1])


class Moments(NamedTuple):
    log_mass: np.ndarray
    mean: np.ndarray
    var: np.ndarray


def tilted(likelihood: str, sign: np.ndarray, m: np.ndarray, v: np.ndarray) -> Moments:
    """Moments of p(y | f) N(f | m, v): RW06 eq. 3.82 to 3.85, or the trapezoidal rule in asinh f for the logit."""
    if likelihood == "probit":
        wide = np.sqrt(1 + v)
        log_mass, r, c = expanded(likelihood, sign, m / wide)
        return Moments(log_mass, m + v * r / wide, v - v**2 * c / (1 + v))
    s = np.sqrt(v)
    at = m.copy()
    for _ in range(200):  # Newton on a concave function, no step longer than the prior is wide
        _, g, W = expanded(likelihood, sign, at)
        at = at - np.clip((at - m - v * g) / (1 + v * W), -s, s)
    low, high = np.arcsinh(np.minimum(m, at) - REACH * s), np.arcsinh(np.maximum(m, at) + REACH * s)
    t = low[:, None] + (high - low)[:, None] * GRID
    f = np.sinh(t)
    log_terms = expanded(likelihood, sign[:, None], f).log_prob - 0.5 * ((f - m[:, None]) / s[:, None]) ** 2
    top = log_terms.max(axis=1, keepdims=True)
    share = np.exp(log_terms - top) * np.cosh(t)
    mass = share.sum(axis=1)
    mean = (share * f).sum(axis=1) / mass
    var = (share * (f - mean[:, None]) ** 2).sum(axis=1) / mass
    step = (high - low) * (GRID[1] - GRID[0]) / s
    return Moments(top[:, 0] + np.log(mass * step) - 0.5 * np.log(2 * np.pi), mean, var)


class Fixed(NamedTuple):
    """How far expectation propagation is from its fixed point, and its evidence there."""

    moved: float  # largest change of a marginal mean or standard deviation, in standard deviations
    log_evidence: float


def site_distance(problem: GaussianProblem, part: int | None = None) -> Fixed:
    """Whether every site has the right moments in the context of all others; part c: class c against the rest."""
    model, K, n = problem.model, prior_covariance(problem), len(problem.X)
    tau, nu = model._warm if part is None else model._warm[part]
    sign = np.where(problem.y == (1 if part is None else part), 1.0, -1.0)
    root = np.sqrt(np.maximum(tau, 0.0))
    B = np.eye(n) + root[:, None] * K * root
    half = np.linalg.solve(np.linalg.cholesky(B), root[:, None] * K)
    cov = K - half.T @ half
    known = np.diag(K) == 0  # a latent without prior variance is zero, and its site says nothing
    mean, var = (cov @ nu)[~known], np.diag(cov)[~known]
    certain = np.log(0.5) * known.sum()
    tau, nu, sign = tau[~known], nu[~known], sign[~known]
    cavity = 1 / var - tau
    m, v = (mean / var - nu) / cavity, 1 / cavity
    log_mass, wanted, spread = tilted(model.likelihood, sign, m, v)
    moved = np.maximum(np.abs(wanted - mean) / np.sqrt(var), np.abs(spread / var - 1))
    own = -0.5 * np.log1p(tau * v) + 0.5 * ((m / v + nu) ** 2 / (1 / v + tau) - m**2 / v)
    joint = -0.5 * np.linalg.slogdet(B)[1] + 0.5 * nu @ mean
    return Fixed(float(moved.max()), float((log_mass - own).sum() + joint + certain))


def filtered_evidence(problem: GaussianProblem, part: int | None = None) -> float:
    """Assumed-density filtering row by row: the sum of the log masses."""
    model, cov = problem.model, prior_covariance(problem).copy()
    sign = np.where(problem.y == (1 if part is None else part), 1.0, -1.0)
    mean, total = np.zeros(len(cov)), 0.0
    for i in range(len(cov)):
        m, v = mean[i : i + 1], cov[i, i : i + 1]
        if v[0] == 0:  # a latent without prior variance is zero, and learns nothing
            total += np.log(0.5)
            continue
        log_mass, wanted, spread = tilted(model.likelihood, sign[i : i + 1], m, v)
        column = cov[:, i] / v
        mean = mean + column * (wanted - m)
        cov = cov - np.outer(column, column) * (v - spread)
        total += float(log_mass[0])
    return total


# --- all of it --------------------------------------------------------------------------------------------------

NEAR = 1e-7  # posterior standard deviations: the goal is 1e-9, and K g - f loses eps · n · k(x, x) ≤ 1e-8 of one
SLOPE = 1e-2  # nats per e-fold: what the library calls flat
STEP = 1e-3  # of a log hyperparameter; the difference errs by a third derivative times 1e-6


def examine_gaussian(problem: GaussianProblem) -> str:
    """Fit, predict, and check what is claimed; returns how it ended."""
    model = problem.model
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            model.fit(problem.X, problem.y)
        except CrediblyError as error:
            raise AssertionError(f"none of these problems is to be refused: {error}\n{problem}") from error
        look_at_predictions(problem)
    expected = [] if model.status_.good else [(ConvergenceWarning, model.status_.value)]
    assert [(it.category, str(it.message)) for it in told] == expected, problem
    check_latents(problem)
    check_hyperparameters(problem)
    return f"{model.inference}: {model.status_.name}"


def look_at_predictions(problem: GaussianProblem) -> None:
    """At the rows, beside them, far away and at the origin."""
    model, X = problem.model, problem.X
    rows = np.vstack([X, X + 1e-3, 1e6 * X, 0 * X[:1]])
    proba, interval = model.predict_proba(rows), model.predict_interval(rows)
    assert (proba >= 0).all() and np.abs(proba.sum(axis=1) - 1).max() <= 1e-12, problem
    assert (interval >= 0).all() and (interval <= 1).all() and (interval[..., 0] <= interval[..., 1]).all(), problem
    assert np.isfinite(model.posterior_.mean).all() and (model.posterior_.var >= 0).all(), problem
    assert np.isfinite(model.loo_log_proba_).all() and (model.loo_log_proba_ <= 0).all(), problem


def log_evidences(problem: GaussianProblem) -> np.ndarray:
    """As the model says: one, or one for each class against the rest."""
    model = problem.model
    one_by_one = problem.classes > 2 and model.inference != "laplace"
    return np.asarray(model.one_vs_rest_log_evidence_ if one_by_one else [model.log_evidence_])


def check_latents(problem: GaussianProblem) -> None:
    model, said = problem.model, log_evidences(problem)
    parts = [None] if len(said) == 1 else list(range(len(said)))
    found = said
    if model.inference == "laplace":
        moved = newton_distance(problem)
        if problem.classes == 2:
            found = np.array([laplace_evidence(problem)])
    elif model.inference == "ep":
        fixed = [site_distance(problem, part) for part in parts]
        moved, found = max(it.moved for it in fixed), np.array([it.log_evidence for it in fixed])
    else:
        moved, found = 0.0, np.array([filtered_evidence(problem, part) for part in parts])
    if model.status_ is Status.SWEEP_LIMIT:
        assert model.n_iter_ == model.max_iter and moved > 1e-9, problem
    else:
        assert model.status_.good and moved <= NEAR, (moved, problem)
    # Kernel values are rounded, and what is left of a variance is a difference from them. Inducing points are told
    # apart by 1e-10 of a variance: that far their matrix is known to 1e-6 only, of a share of 1e-10.
    size = prior_covariance(problem).max() * (100 * EPS if model.inducing is None else 1e-12)
    np.testing.assert_allclose(found, said, rtol=1e-9, atol=1e-9 + size, err_msg=repr(problem))


def check_hyperparameters(problem: GaussianProblem) -> None:
    """No slope inside the bounds, none but outwards at them; by differences of evidences at hyperparameters beside."""
    model = problem.model
    kernel = model.kernel_
    low, high = (np.isclose(kernel.theta, ends, rtol=0, atol=1e-8) for ends in kernel.bounds.T)
    assert (model.status_ is Status.HYPERPARAMETER_AT_BOUND) == bool(model.optimize and (low | high).any()), problem
    if not model.optimize or model.inference == "adf" or model.inducing is not None:
        return  # ADF is searched for by Laplace's evidence; inducing points are chosen anew for every kernel
    for j, step in enumerate(STEP * np.eye(len(kernel.theta))):
        inside = [theta for theta in (kernel.theta - step, kernel.theta + step) if _allowed(kernel, theta)]
        heights = [float(log_evidences(_held(problem, theta)).sum()) for theta in [kernel.theta, *inside]]
        gain = max(heights) - heights[0]
        assert gain <= SLOPE * STEP, (problem, j, gain)


def _allowed(kernel: Kernel, theta: np.ndarray) -> bool:
    return bool(((kernel.bounds[:, 0] <= theta) & (theta <= kernel.bounds[:, 1])).all())


def _held(problem: GaussianProblem, theta: np.ndarray) -> GaussianProblem:
    model = clone(problem.model).set_params(kernel=problem.model.kernel_.with_theta(theta), optimize=False)
    return GaussianProblem(problem.index, problem.X, problem.y, model.fit(problem.X, problem.y), problem.said)
