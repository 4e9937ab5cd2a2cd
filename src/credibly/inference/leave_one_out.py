r"""Leaving a row out without fitting again: its own factor, as Laplace sees it, is taken off its marginal.

Notation
--------
======  ====================================================================  ==========================
m, v    mean and variance of a row's score given all rows                     (n,); (n, K), (n, K, K)
g, W    gradient and curvature of the row's log-likelihood at m               the same
m₋, v₋  the cavity: mean and variance of the score given all other rows       the same
======  ====================================================================  ==========================

The cavity is that of a Gaussian factor with the row's gradient and curvature at m; what is neglected is that the other
rows' curvatures would move a little without it. It is exact for a Gaussian likelihood.

References: Vehtari, Mononen, Tolvanen, Sivula & Winther 2016, sec. 2.4 (LA-LOO).
"""

import numpy as np

from credibly.inference.gaussian import Scores
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.quadrature import gauss_hermite
from credibly.numerics.special import log_sum_exp

MATCHINGS = 100
MATCHED = 1e-12  # change of a cavity's natural parameters, relative, at which moments match
NODES = 64
NOTHING = 1e-12  # what rounding leaves of a variance's share that is zero


def cavities(scores: Scores, grad: Array, curvature: Array) -> Scores:
    r"""Scores of rows given all other rows; NaN where the others give no Gaussian.

    .. math:: v_- = \frac{v}{1 - v W}, \qquad m_- = m - v_- g
    """
    m, v = scores
    left = 1.0 - v * curvature
    proper = left > NOTHING
    cavity_v = np.divide(v, left, out=np.full_like(v, np.nan), where=proper)
    return Scores(m - cavity_v * grad, cavity_v)


def matched_cavities(likelihood: Likelihood, y: Array, scores: Scores) -> Scores:
    """Cavities whose product with the row's likelihood has the moments m and v: those of expectation propagation.

    From N(m, v) itself, by adding what the natural parameters of that product lack; NaN where that does not settle. The
    nearer a likelihood is to a Gaussian, the faster it does.
    """
    m, v = scores
    tau, nu, settled = 1.0 / v, m / v, np.zeros(len(m), dtype=bool)
    for _ in range(MATCHINGS):
        product = likelihood.tilted(y, nu / tau, 1.0 / tau)
        short = Scores(m / v - product.mean / product.var, 1.0 / v - 1.0 / product.var)
        settled = (np.abs(v * short.variance) <= MATCHED) & (np.abs(v * short.mean) <= MATCHED * (1.0 + np.abs(m)))
        moving = ~settled & (tau + short.variance > 0)
        if not moving.any():
            break
        tau, nu = np.where(moving, tau + short.variance, tau), np.where(moving, nu + short.mean, nu)
    return Scores(np.where(settled, nu / tau, np.nan), np.where(settled, 1.0 / tau, np.nan))


def class_cavities(scores: Scores, grad: Array, curvature: Array) -> Scores:
    r"""The same for K scores a row, whose curvature is a matrix.

    .. math:: V_- = (I - V W)^{-1} V, \qquad m_- = m - V_- g
    """
    m, V = scores
    VW = V @ curvature
    proper = np.linalg.eigvals(VW).real.max(axis=-1) < 1.0 - NOTHING  # real but for rounding: V has a square root
    cavity_V = np.full_like(V, np.nan)
    cavity_V[proper] = np.linalg.solve(np.eye(V.shape[-1]) - VW[proper], V[proper])
    cavity_m = m - np.einsum("ncd,nd->nc", cavity_V, grad)
    return Scores(cavity_m, 0.5 * (cavity_V + cavity_V.transpose(0, 2, 1)))


def log_left_out(likelihood: Likelihood, y: Array, cavity: Scores) -> Array:
    """log p(y_i | other rows), (n,), from the cavities; NaN where there is none."""
    out = np.full(len(y), np.nan)
    proper = np.isfinite(cavity.variance)
    out[proper] = likelihood.log_average(y[proper], cavity.mean[proper], cavity.variance[proper])
    return out


def log_class_left_out(likelihood: Categorical | NoisyCategorical, y: Codes, cavity: Scores) -> Array:
    """log p(y_i | other rows), (n,), for K scores a row."""
    out = np.full(len(y), np.nan)
    proper = np.isfinite(cavity.variance).all(axis=(1, 2))
    base = likelihood.base if isinstance(likelihood, NoisyCategorical) else likelihood
    log_proba = base.log_average(cavity.mean[proper], cavity.variance[proper])
    if isinstance(likelihood, NoisyCategorical):
        log_proba = likelihood.log_recorded(log_proba)
    out[proper] = np.take_along_axis(log_proba, y[proper, None], axis=1)[:, 0]
    return out


def log_power_left_out(likelihood: Likelihood, y: Array, weight: Array, cavity: Scores, scores: Scores) -> Array:
    r"""The same for rows that count several times and are left out, and predicted, together.

    .. math:: \log \int p(y \mid f)^w \, N(f \mid m_-, v_-) \, df

    by quadrature under N(m, v), which is about what the integrand is proportional to, however large w is.
    """
    nodes, log_weights = gauss_hermite(NODES)
    (m, v), (cavity_m, cavity_v) = scores, cavity
    f = m[:, None] + np.sqrt(v)[:, None] * nodes
    apart = (f - cavity_m[:, None]) ** 2 / cavity_v[:, None]
    log_ratio = 0.5 * (nodes**2 - apart + np.log(v / cavity_v)[:, None])  # of both Gaussians
    terms = log_weights + log_ratio + weight[:, None] * likelihood.log_prob(y[:, None], f)
    return np.where(np.isfinite(cavity_v), log_sum_exp(terms, axis=1), np.nan)
