"""What a fit of a linear classifier claims, looked at without the library's own optimiser, frame or factorisations.

Notation
--------
====  ==================================================================================  ==========
Z     columns standardised here, ones last                                                (n, D)
u     weights of Z, one vector for each output                                            (K, D)
P     prior precision of one vector u, P = AᵀA                                            (D, D)
R     root of the precision of the posterior, by QR: its condition is not squared         (KD, KD)
δ²    squared Newton decrement ‖R⁻ᵀ g‖², in posterior standard deviations
====  ==================================================================================  ==========
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import linprog
from scipy.special import erfcx, log_ndtr, log_softmax, logsumexp

from credibly import BayesianProbitRegression, Normal
from reliability.torture_linear import LinearProblem

EPS = float(np.finfo(float).eps)
ROUNDING = 16 * EPS  # relative, of an objective: what the library says a sum of rounded terms is known to
LONG = np.longdouble


class Standardised(NamedTuple):
    """A problem in units in which no column is large."""

    Z: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    weight: np.ndarray


def standardised(problem: LinearProblem) -> Standardised:
    X, n = problem.X, len(problem.X)
    weight = np.ones(n) if problem.weight is None else problem.weight
    mean = weight @ X / weight.sum()
    scale = np.sqrt(weight @ (X - mean) ** 2 / weight.sum())
    scale[X.min(axis=0) == X.max(axis=0)] = 1.0
    if not problem.model.fit_intercept:
        return Standardised(X / scale, np.zeros_like(mean), scale, weight)
    return Standardised(np.column_stack([(X - mean) / scale, np.ones(n)]), mean, scale, weight)


def prior_root(problem: LinearProblem, at: Standardised) -> np.ndarray:
    """A with P = AᵀA: of a Normal in the units of the data, or of the scale that was learnt."""
    model, intercept = problem.model, problem.model.fit_intercept
    if model.prior is None:
        return np.zeros((0, at.Z.shape[1]))
    if isinstance(model.prior, Normal):
        slopes = np.full(len(at.scale), 1.0) / (at.scale * model.prior.scale)
        raw = np.append(-at.mean / at.scale, 1.0) / model.prior.intercept_scale  # the intercept at the origin
    else:
        slopes = np.full(len(at.scale), 1.0 / model.prior_scale_)
        raw = np.append(np.zeros(len(at.scale)), 1.0) / 10.0  # the intercept at the means
    root = np.diag(slopes)
    return np.vstack([np.pad(root, ((0, 0), (0, 1))), raw]) if intercept else root


class Local(NamedTuple):
    """The log posterior at a point: its terms, its gradient, and a root of its curvature."""

    sizes: float  # sum of the absolute terms of the objective: what its rounding is relative to
    grad: np.ndarray  # (K, D)
    root: np.ndarray  # (rows, K·D)
    log_likelihood: float


def expanded(problem: LinearProblem, at: Standardised, f: np.ndarray, u: np.ndarray) -> Local:
    """Value, gradient (in long double) and curvature, typed again for the three likelihoods."""
    Z, weight, A = at.Z, at.weight, prior_root(problem, at)
    if f.ndim == 1:
        z = np.where(problem.y == 1, f, -f)
        if isinstance(problem.model, BayesianProbitRegression):
            pull = np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))
            log_p, curvature = log_ndtr(z), np.maximum(pull * (z + pull), 1e-300)
        else:
            pull = 1 / (1 + np.exp(np.minimum(z, 700.0)))
            log_p, curvature = -np.logaddexp(0, -z), pull * (1 - pull)
        slope = np.where(problem.y == 1, pull, -pull)[:, None]
        rows = np.sqrt(weight * curvature)[:, None] * Z
    else:
        log_p = log_softmax(f, axis=1)
        p, K = np.exp(log_p), f.shape[1]
        slope = np.eye(K)[problem.y] - p
        parts = np.sqrt(weight[:, None] * p)[:, :, None] * (np.eye(K) - p[:, None, :])  # (n, k, K)
        rows = (parts[:, :, :, None] * Z[:, None, None, :]).reshape(len(Z) * K, -1)
        log_p = log_p[np.arange(len(Z)), problem.y]
    pulled = A.astype(LONG) @ u.astype(LONG).T  # (rows of A, K)
    grad = (weight[:, None] * slope).astype(LONG).T @ Z.astype(LONG) - pulled.T @ A.astype(LONG)
    terms = np.abs(A) @ np.abs(u).T
    sizes = float(weight @ np.abs(log_p) + 0.5 * (terms**2).sum())
    return Local(sizes, grad, np.vstack([rows, np.kron(np.eye(len(u)), A)]), float(weight @ log_p))


class Distance(NamedTuple):
    """How far a point is from the mode, and what rounding alone would make of it."""

    squared: float
    rounding: float
    flat: float  # what the objective cannot show, in the same unit


def decrement(problem: LinearProblem) -> Distance:
    at, model = standardised(problem), problem.model
    f = model.predict_latent(problem.X).mean
    u = np.atleast_2d(model.coef_ * at.scale)
    if model.fit_intercept:
        last = np.reshape(f, (len(f), -1))[0] - (u @ at.Z[0, :-1])
        u = np.column_stack([u, last - last.mean() if len(u) > 1 else last])
    here = expanded(problem, at, f, u)
    contrast = np.eye(len(u)) if model.prior is not None else sum_to_zero(len(u))
    spread = np.kron(contrast, np.eye(u.shape[1]))
    root, g = here.root @ spread, (here.grad.ravel() @ spread).astype(float)
    size = np.sqrt((root**2).sum(axis=0))
    R = np.linalg.qr(root / size, mode="r")
    squared = float((solve_triangular(R, g / size, trans="T") ** 2).sum())
    lengths = np.sqrt((here.root**2).sum(axis=0))
    rounding = (EPS * np.abs(u).ravel() @ lengths) ** 2
    return Distance(squared, float(rounding), ROUNDING * (1 + here.sizes))


def sum_to_zero(K: int) -> np.ndarray:
    if K == 1:
        return np.eye(1)
    return np.linalg.svd(np.eye(K) - 1 / K)[0][:, :-1]


# --- refusals ---------------------------------------------------------------------------------------------------


def dependence(problem: LinearProblem) -> float:
    """Smallest singular value of the standardised design beside the largest; 0 with fewer rows than columns."""
    Z = standardised(problem).Z
    if len(Z) < Z.shape[1]:
        return 0.0
    values = np.linalg.svd(Z, compute_uv=False)
    return float(values[-1] / values[0])


def separable(problem: LinearProblem) -> bool:
    """Whether a linear programme finds a direction along which no row loses and one gains (Konis 2007)."""
    Z, K = standardised(problem).Z, problem.classes
    D, rows = Z.shape[1], []
    for z, label in zip(Z / np.abs(Z).max(axis=1, keepdims=True), problem.y, strict=True):
        for k in range(K):
            if k != label:
                gap = np.zeros((K, D))
                gap[label], gap[k] = z, -z
                rows.append(gap.ravel())
    gaps = np.array(rows)
    found = linprog(-gaps.sum(axis=0), A_ub=-gaps, b_ub=np.zeros(len(gaps)), bounds=(-1, 1), method="highs")
    assert found.status == 0, found.message
    return bool(-found.fun > 1e-6)


def posterior_condition(problem: LinearProblem) -> float:
    """Condition of the posterior precision at weights of zero, where a fit starts; columns in their own units."""
    at, K = standardised(problem), 1 if problem.classes == 2 else problem.classes
    u = np.zeros((K, at.Z.shape[1]))
    f = np.zeros(len(at.Z)) if K == 1 else np.zeros((len(at.Z), K))
    root = expanded(problem, at, f, u).root
    values = np.linalg.svd(root / np.sqrt((root**2).sum(axis=0)), compute_uv=False)
    return float((values[0] / values[-1]) ** 2)


__all__ = ["Distance", "decrement", "dependence", "logsumexp", "posterior_condition", "separable", "standardised"]
