r"""Exact inference: draws from the posterior itself, by Hamiltonian chains whitened by the best Gaussian known.

Notation
--------
====  ============================================================  ===========
x     free weights, x = m + z R with Σ = RᵀR of that Gaussian       (C, M)
z     white coordinates, in which the posterior is nearly N(0, I)   (C, M)
C     number of chains; all of them share every pass                scalar
====  ============================================================  ===========
"""

from dataclasses import replace
from functools import partial

import numpy as np

from credibly.data.rows import Block, Sums
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.objective import Objective, scores_at
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.numerics.arrays import Array
from credibly.numerics.sampling import (
    CHAIN_SETTINGS,
    ChainSettings,
    bridge_log_normalizer,
    convergence,
    hamiltonian_chains,
)
from credibly.numerics.status import Controls, Status


def exact(
    rng: np.random.Generator,
    objective: Objective,
    around: Gaussian,
    controls: Controls,
    *,
    draws: int | None = None,
    settings: ChainSettings = CHAIN_SETTINGS,
) -> Approximation:
    """Draw from the posterior until rank R-hat is below 1.01 and bulk and tail ESS reach 400 for every weight.

    Parameters
    ----------
    rng : numpy.random.Generator
    objective : Objective
        With a prior that is a distribution.
    around : Gaussian
        Close to the posterior: chains are whitened by it.
    controls : Controls
        `report` is called after each pass.
    draws : int, optional
        Draws to make at least.
    settings : ChainSettings
        With the budget of passes.

    Returns
    -------
    Approximation
        q is the Gaussian of the draws' moments, `chains` holds the draws of the free weights; the evidence is that of
        bridge sampling, with its standard error; the log likelihood is at the mean.
    """
    root = around.root

    def density(z: Array) -> tuple[Array, Array]:
        log_joint, gradient = log_joints(objective, around.mean + z @ root)
        return log_joint, gradient @ root.T

    def report(passes: int) -> None:
        controls.report(passes, np.nan, np.nan)

    chains = hamiltonian_chains(rng, density, around.mean.size, settings, draws=draws or 0, report=report)
    evidence = bridge_log_normalizer(rng, density, chains)
    points = around.mean + chains.points @ root
    chains = replace(chains, points=points, **convergence(points)._asdict())
    flat = points.reshape(-1, around.mean.size)
    mean = flat.mean(axis=0)
    q = Gaussian.from_covariance_root(mean, (flat - mean).T / np.sqrt(len(flat)))
    return Approximation(
        q,
        evidence.value - 0.5 * around.precision.logdet,
        objective.log_likelihood(mean),
        Status.CONVERGED if chains.converged else Status.CHAINS_NOT_MIXED,
        chains.passes,
        chains=chains,
        log_evidence_se=evidence.se,
    )


def log_joints(objective: Objective, x: Array) -> tuple[Array, Array]:
    """log p(y, x) and its gradient at many points x (C, M), in one pass over the rows: (C,) and (C, M)."""
    prior = objective.prior
    assert prior is not None
    value, gradient = log_likelihoods(objective, x)
    return value + prior.logpdf(x), gradient - prior.gradient(x)


def log_likelihoods(objective: Objective, x: Array) -> tuple[Array, Array]:
    """log p(y | x) and its gradient at many points x (C, M), in one pass over the rows: (C,) and (C, M)."""
    rows, standard = objective.raw
    W = standard.to_data(objective.design.score_weights(x))  # (C, K, D)
    value, by_weight = rows.sum(partial(_block, likelihood=objective.likelihood, W=W))
    by_free = objective.free(np.asarray(by_weight).reshape(W.shape[1] * W.shape[2], -1))
    return np.asarray(value), by_free.T


def _block(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    """Log likelihoods of a block at C weights, (C,), and their gradients, (K·D, C)."""
    rows, (C, K, D) = block.counted, W.shape
    d, f = rows.X.shape[1], scores_at(rows, W)
    if isinstance(likelihood, Likelihood):
        log_prob, grad, _ = likelihood.expand(rows.y[:, None], f[:, :, 0])
        grad = grad[:, :, None]
    else:
        log_prob, grad = likelihood.expand(np.broadcast_to(rows.y[:, None], f.shape[:2]), f)[:2]
    if rows.weight is not None:
        log_prob, grad = log_prob * rows.weight[:, None], grad * rows.weight[:, None, None]
    by_column = np.asarray(rows.X.T @ grad.reshape(len(grad), -1)).reshape(d, C, K)
    if d < D:
        by_column = np.concatenate([by_column, grad.sum(axis=0)[None]])
    return log_prob.sum(axis=0), by_column.transpose(2, 0, 1).reshape(K * D, C)
