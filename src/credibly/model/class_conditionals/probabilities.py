"""Beta and Dirichlet beliefs about probabilities: what families of discrete columns share."""

import numpy as np
from scipy.special import betaincinv, gammaln

from credibly.model.class_conditionals.base import Estimates, NotDetermined
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import DesignMatrix

JEFFREYS = 0.5  # pseudo-counts of the reference prior


def log_beta(a: Array, b: Array) -> Array:
    """log B(a, b)."""
    return np.asarray(gammaln(a) + gammaln(b) - gammaln(a + b))


def log_product(X: DesignMatrix, log_p: Array) -> Array:
    """Σ_j x_j log p_cj, (n, K), for x ≥ 0, where 0 · log 0 is 0."""
    impossible = np.isneginf(log_p)
    out = np.asarray(X @ np.where(impossible, 0.0, log_p).T)
    if impossible.any():
        out[np.asarray(X @ impossible.T.astype(float)) > 0] = -np.inf
    return out


def refuse_empty(total: Array) -> None:
    """Probabilities of a class and column without any value cannot be estimated."""
    if (total == 0).any():
        code = int(np.flatnonzero((total == 0).any(axis=1))[0])
        raise NotDetermined("has no values", code, np.flatnonzero(total[code] == 0))


def beta_estimates(a: Array, b: Array, level: float) -> Estimates:
    """Mean, sd and interval of probabilities ~ Beta(a, b)."""
    total = a + b
    sd = np.sqrt(a * b / (total + 1)) / total
    tails = [np.asarray(betaincinv(a, b, q), dtype=float) for q in (0.5 - level / 2, 0.5 + level / 2)]
    return Estimates(a / total, sd, *tails)


def log_gammas(rng: np.random.Generator, shape: Array) -> Array:
    """Logarithms of Gamma(shape) draws; below shape one by Gamma(shape + 1) · U^(1/shape), which cannot be zero."""
    small = shape < 1
    draws = np.log(rng.standard_gamma(np.where(small, shape + 1, shape)))
    return np.asarray(draws + np.where(small, np.log(rng.random(shape.shape)) / shape, 0.0))
