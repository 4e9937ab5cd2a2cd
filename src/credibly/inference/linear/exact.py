r"""Exact inference: draws from the posterior itself, by Hamiltonian chains whitened by the best Gaussian known.

Notation
--------
=====  ====================================================================================  ===========
x      free weights                                                                          (C, M)
z      white coordinates, in which the posterior is nearly N(0, I): x = m + z R, Σ = RᵀR     (C, M)
C      number of chains; all of them share every pass                                        scalar
θ, s   log prior scale, and the scale e^θ                                                    scalar
P, τ   prior precision e^(-2θ) P of the coefficients; τ = e^(-2θ)                            (M, M)
=====  ====================================================================================  ===========
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import gammaln

from credibly.data.rows import Block, Sums
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.objective import Objective, scores_at
from credibly.inference.linear.priors import ScaledPriors
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.sampling import (
    CHAIN_SETTINGS,
    ChainSettings,
    bridge_log_normalizer,
    hamiltonian_chains,
)
from credibly.numerics.status import Controls, Status

# "hierarchical": a half-Student-t prior on the scale of the coefficients of standardized columns.
SCALE_DF = 3.0
SCALE_OF_SCALE = 2.5


class WhiteTarget(Protocol):
    """A posterior in coordinates in which it is nearly N(0, I)."""

    @property
    def dim(self) -> int:
        """Number of coordinates."""

    def density(self, z: Array) -> tuple[Array, Array]:
        """Log density of z (C, dim), with the evidence as its integral, and its gradient."""

    def points(self, z: Array) -> Array:
        """The free weights (…, M), and the log scale last where it is drawn along, for z (…, dim)."""


@dataclass(frozen=True)
class WhiteWeights:
    """The free weights x = m + z R under a given prior.

    Parameters
    ----------
    objective : Objective
        With a prior that is a distribution.
    around : Gaussian
        Close to the posterior.
    """

    objective: Objective
    around: Gaussian

    @property
    def dim(self) -> int:
        return self.around.mean.size

    def density(self, z: Array) -> tuple[Array, Array]:
        value, gradient = log_likelihoods(self.objective, x := self.points(z))
        prior = self.objective.prior
        assert prior is not None
        joint = value + prior.logpdf(x) - 0.5 * self.around.precision.logdet
        return joint, (gradient - prior.gradient(x)) @ self.around.root.T

    def points(self, z: Array) -> Array:
        return np.asarray(self.around.mean + z @ self.around.root)


class _Axes(NamedTuple):
    """Axes along which the prior and the Gaussian at one scale are both diagonal."""

    basis: Array  # B, rows are axes: x = u B
    share: Array  # μ: prior precision along each axis, in units of the posterior's there
    mean: Array  # of u


@dataclass(frozen=True)
class WhiteWeightsAndScale:
    r"""Free weights and the log scale θ of their prior together.

    The Gaussian q at one scale θ₀ tells what q would be at another. If weights follow the scale, as those of separated
    classes do, x e^(-ρ(θ - θ₀)) is what changes little, 0 ≤ ρ ≤ 1; of that only the prior's precision changes, and
    along axes u that make both diagonal each coordinate by itself,

    .. math::
        x = e^{ρ(θ - θ_0)} B^\top u, \qquad u_j = \frac{a_j}{k_j} + \frac{z_j}{\sqrt{k_j}}, \qquad
        k_j = 1 + (e^{-2(θ_0 + (1 - ρ)(θ - θ_0))} - τ_0) μ_j .

    So z is nearly N(0, I) at *every* scale, and there is no funnel where a small scale leaves weights no room.

    Parameters
    ----------
    objective : Objective
        At the scale θ₀.
    priors : ScaledPriors
        With one scale.
    center : float
        θ₀.
    around : Gaussian
        Close to the posterior at θ₀.
    follow : float
        ρ.
    """

    objective: Objective
    priors: ScaledPriors
    center: float
    around: Gaussian
    follow: float

    @property
    def dim(self) -> int:
        return self.around.mean.size + 1

    @cached_property
    def width(self) -> float:
        """About how far θ is known: every coefficient that the rows determine tells it to 1/√2."""
        determined = np.count_nonzero(self._unit_precision) - np.exp(-2 * self.center) * self._axes.share.sum()
        return float(1 / np.sqrt(1 + 2 * determined))

    @cached_property
    def _unit_precision(self) -> Array:
        """Prior precision of every free weight at a scale of one; the intercept's is given, and counts as none."""
        by_column = self.priors.column_precision(np.zeros(1))
        n_free = self.priors.design.classes.n_free
        padded = np.zeros((n_free, self.priors.design.standardization.size))
        padded[:, : len(by_column)] = by_column
        return padded.reshape(-1)

    @cached_property
    def _axes(self) -> _Axes:
        root, tau = self.around.root, np.exp(-2 * self.center)
        share, turn = np.linalg.eigh((root * self._unit_precision) @ root.T)
        basis = turn.T @ root
        share = np.clip(share, 0.0, 1 / tau)  # but for rounding it lies there; any share there makes good coordinates
        return _Axes(basis, share, turn.T @ (self.around.precision.factor.T @ self.around.mean))

    def _precision(self, theta: Array) -> tuple[Array, Array]:
        """k and dk/dθ along the axes, (C, M)."""
        rest = 1 - self.follow
        tau = np.exp(-2 * (self.center + rest * (theta - self.center)))[..., None]
        return 1 + (tau - np.exp(-2 * self.center)) * self._axes.share, -2 * rest * tau * self._axes.share

    def points(self, z: Array) -> Array:
        step = self.width * z[..., -1:]
        k, _ = self._precision(self.center + step[..., 0])
        u = self._axes.mean / k + z[..., :-1] / np.sqrt(k)
        return np.concatenate([np.exp(self.follow * step) * (u @ self._axes.basis), self.center + step], axis=-1)

    def density(self, z: Array) -> tuple[Array, Array]:
        points = self.points(z)
        x, theta = points[:, :-1], points[:, -1]
        value, by_x = log_likelihoods(self.objective, x)
        prior, by_prior, by_theta = self._log_prior(x, theta)
        by_x = by_x + by_prior
        k, slope = self._precision(theta)
        step, growth = theta - self.center, np.exp(self.follow * (theta - self.center))[:, None]
        log_volume = self.around.mean.size * self.follow * step - 0.5 * np.log(k).sum(axis=1)
        log_volume += np.log(self.width) - 0.5 * self.around.precision.logdet
        by_u = growth * (by_x @ self._axes.basis.T)
        du = -(self._axes.mean / k**2 + 0.5 * z[:, :-1] * k**-1.5) * slope
        by_theta = by_theta + (by_u * du).sum(axis=1) + self.follow * (by_x * x).sum(axis=1)
        by_theta += self.around.mean.size * self.follow - 0.5 * (slope / k).sum(axis=1)
        return value + prior + log_volume, np.column_stack([by_u / np.sqrt(k), self.width * by_theta])

    def _log_prior(self, x: Array, theta: Array) -> tuple[Array, Array, Array]:
        """log p(x, θ), its gradient in x and its slope in θ: the prior at θ₀, and what another scale makes of it."""
        given, unit = self.priors.at(np.array([self.center])), self._unit_precision
        tau, squares, n_scaled = np.exp(-2 * theta), x**2 @ unit, np.count_nonzero(unit)
        more = tau - np.exp(-2 * self.center)
        belief, by_belief = log_scale_density(theta)
        value = given.logpdf(x) - 0.5 * more * squares - n_scaled * (theta - self.center) + belief
        return value, -given.gradient(x) - more[:, None] * x * unit, tau * squares - n_scaled + by_belief


def log_scale_density(theta: Array) -> tuple[Array, Array]:
    r"""Log density of θ = log s under a half-Student-t prior on s, and its derivative.

    .. math:: p(s) = \frac{2}{A} \, t_ν(s / A), \qquad ν = 3, \; A = 2.5

    References
    ----------
    Gelman 2006; brms and rstanarm have it as default.
    """
    df, half = SCALE_DF, (SCALE_DF + 1) / 2
    squares = np.exp(2 * (theta - np.log(SCALE_OF_SCALE))) / df
    constant = np.log(2.0) + gammaln(half) - gammaln(df / 2) - 0.5 * np.log(df * np.pi) - np.log(SCALE_OF_SCALE)
    return constant + theta - half * np.log1p(squares), 1 - 2 * half * squares / (1 + squares)


def exact(
    rng: np.random.Generator,
    target: WhiteTarget,
    objective: Objective,
    controls: Controls,
    *,
    draws: int | None = None,
    settings: ChainSettings = CHAIN_SETTINGS,
) -> Approximation:
    """Draw from the posterior until rank R-hat is below 1.01 and bulk and tail ESS reach 400 for every weight.

    Parameters
    ----------
    rng : numpy.random.Generator
    target : WhiteTarget
        Close to N(0, I): chains start around its origin.
    objective : Objective
        Whose log likelihood is reported at the mean.
    controls : Controls
        `report` is called after each pass.
    draws : int, optional
        Draws to make at least.
    settings : ChainSettings
        With the budget of passes.

    Returns
    -------
    Approximation
        q is the Gaussian of the draws' moments, `chains` holds the draws of the free weights, `log_scales` those of the
        scale; the evidence is that of bridge sampling, with its standard error; the log likelihood is at the mean.
    """

    def report(passes: int) -> None:
        controls.report(passes, np.nan, np.nan)

    chains = hamiltonian_chains(
        rng, target.density, target.dim, settings, draws=draws or 0, report=report, judged=target.points
    )
    evidence = bridge_log_normalizer(rng, target.density, chains)
    points = target.points(chains.points)
    M = objective.design.size
    chains = replace(chains, points=points[..., :M])
    flat = chains.points.reshape(-1, M)
    mean = flat.mean(axis=0)
    q = Gaussian.from_covariance_root(mean, (flat - mean).T / np.sqrt(len(flat)))
    return Approximation(
        q,
        evidence.value,
        objective.log_likelihood(mean),
        Status.CONVERGED if chains.converged else Status.CHAINS_NOT_MIXED,
        chains.passes,
        chains=chains,
        log_scales=points[..., M].reshape(-1) if points.shape[-1] > M else None,
        log_evidence_se=evidence.se,
    )


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
