"""Label noise as a parameter: weights and flip probabilities found together.

Notation
--------
====  ======================================================================  ==========
x     free weights                                                            (M,)
θ     logits of 2ε, one for every flip probability that is estimated          (T,)
ε     flip probabilities, ½σ(θ) where estimated, below one half               (E,)
h     d log p(y | f) / dε                                                     (n, E)
====  ======================================================================  ==========

The search runs over (x, θ); with Beta(a, b) beliefs about 2ε the log density of θ is concave, the likelihood is not.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import betaln

from credibly.data.rows import Block, Sums, add
from credibly.errors import NotPositiveDefinite
from credibly.inference.laplace import Controls, laplace
from credibly.inference.objective import Objective, information, row_slopes, score, scores
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD, bordered, from_root
from credibly.numerics.newton import newton
from credibly.numerics.quadrature import gauss_hermite
from credibly.numerics.settings import COSTS
from credibly.numerics.special import LOG_2PI, log_sigmoid, log_sum_exp, sigmoid
from credibly.numerics.status import Local, Solution, Status

FIRST_GUESSES = (0.02, 0.1, 0.3)  # flip probabilities to start from: the likelihood has several modes
SAME_MODE = 1e-3  # squared distance in posterior standard deviations
NODES = {1: 17, 2: 9}  # Gauss–Hermite nodes in each of so many flip probabilities
ENOUGH_ROWS = 40_000  # for the posterior of a flip probability to be a Gaussian at its mode
NO_NOISE = 1e-9  # an estimate below that, with no prior to hold it, is zero


@dataclass(frozen=True)
class FlipBelief:
    """Which flip probabilities are estimated, and what is believed about them.

    Parameters
    ----------
    index : (E,) int array
        Which entry of θ each flip probability has; -1 for one that is fixed. Two alike are one parameter.
    fixed : (E,) array
        Their values where fixed.
    beta : (a, b) or None
        Beta(a, b) on 2ε; None for maximum likelihood.
    """

    index: Codes
    fixed: Array
    beta: tuple[float, float] | None

    @property
    def n_free(self) -> int:
        """Number of parameters."""
        return int(self.index.max()) + 1

    def flips(self, theta: Array) -> Array:
        """ε, (E,)."""
        return np.where(self.index < 0, self.fixed, 0.5 * sigmoid(theta)[self.index])

    def slope(self, theta: Array) -> Array:
        """dε/dθ, (E, T)."""
        rate = 0.5 * sigmoid(theta) * sigmoid(-theta)
        return np.where(self.index[:, None] == np.arange(self.n_free), rate, 0.0)

    def log_density(self, theta: Array) -> float:
        """log p(θ), with the Jacobian of the logit; zero without a prior."""
        if self.beta is None:
            return 0.0
        a, b = self.beta
        return float((a * log_sigmoid(theta) + b * log_sigmoid(-theta) - betaln(a, b)).sum())

    def pull(self, theta: Array) -> Array:
        """Gradient of minus the log density."""
        a, b = self.beta or (0.0, 0.0)
        return np.asarray(b * sigmoid(theta) - a * sigmoid(-theta))

    def curvature(self, theta: Array) -> Array:
        """Diagonal of the Hessian of minus the log density."""
        a, b = self.beta or (0.0, 0.0)
        return np.asarray((a + b) * sigmoid(theta) * sigmoid(-theta))


@dataclass(frozen=True)
class JointObjective:
    """Minus log p(y, x, θ): an `Objective` whose likelihood has label noise, and the flip probabilities."""

    objective: Objective
    belief: FlipBelief

    def split(self, point: Array) -> tuple[Array, Array]:
        """Weights x and logits θ."""
        return point[: -self.belief.n_free], point[-self.belief.n_free :]

    def at(self, theta: Array) -> Objective:
        """The objective of the weights alone, the flip probabilities given."""
        return replace(self.objective, likelihood=self._noisy.with_flips(self.belief.flips(theta)))

    @cached_property
    def _noisy(self) -> LabelNoise | NoisyCategorical:
        likelihood = self.objective.likelihood
        assert isinstance(likelihood, LabelNoise | NoisyCategorical)
        return likelihood

    def expand(self, point: Array) -> Local:
        """Value, gradient and Hessian in (x, θ), or where that is not positive definite what stands in for it."""
        x, theta = self.split(point)
        weights = self.at(theta)
        with np.errstate(over="ignore", invalid="ignore"):  # a step so far out that it is taken back
            log_likelihood, by_weight, by_flip, H, cross, square = self._sums(weights, x)
        J, chain, prior = self.belief.slope(theta), weights.chain, weights.prior
        by_theta = np.asarray(by_flip) @ J
        pull = 0.0 if prior is None else prior.pull(x)
        value = -float(log_likelihood) - weights.log_prior(x) - self.belief.log_density(theta)
        grad = np.concatenate([pull - chain.free(np.asarray(by_weight)), self.belief.pull(theta) - by_theta])
        corner = -chain.free(np.asarray(cross)) @ J
        # d²ε/dθ² = (1 - 2u) dε/dθ with u = σ(θ)
        low = J.T @ np.asarray(square) @ J + np.diag(self.belief.curvature(theta))
        bend = np.diag(by_theta * (sigmoid(-theta) - sigmoid(theta)))
        information = chain.free_both(np.asarray(H))

        def stand_in() -> PSD:
            return PSD.of(block_diag(weights.stand_in(x).matrix, low), "the expected joint information")

        try:
            upper = chain.precision(information, prior, x, weights.least_pivot)
            return Local(value, grad, bordered(upper, corner, low - bend, "the joint precision"), stand_in=stand_in)
        except NotPositiveDefinite:
            return Local(value, grad, stand_in(), replaced=True)

    def _sums(self, weights: Objective, x: Array) -> Sums:
        W, noisy = weights.chain.weights(x), weights.likelihood
        assert isinstance(noisy, LabelNoise | NoisyCategorical)
        return weights.rows.sum(partial(_block_sums, noisy=noisy, W=W), add)


def _block_sums(block: Block, noisy: LabelNoise | NoisyCategorical, W: Array) -> Sums:
    """Log likelihood; its gradient in weights and flips; minus its second derivatives: weights, mixed, flips."""
    slopes = row_slopes(noisy, block, W)
    if isinstance(noisy, LabelNoise):
        h, cross = noisy.flip_slopes(block.y, scores(block, W))
        cross = cross[..., None]
    else:
        h, cross = noisy.flip_slopes(block.y, np.asarray(block.X @ W.T))
    weight = block.weights
    mixed = np.stack([score(block.X, weight[:, None] * cross[:, e]) for e in range(h.shape[1])], axis=-1)
    return (
        float(slopes.log_prob.sum()),
        score(block.X, slopes.grad),
        weight @ h,
        information(noisy, block, slopes),
        mixed,
        (h * weight[:, None]).T @ h,
    )


class NoiseMode(NamedTuple):
    """One mode of the joint posterior of weights and flip probabilities."""

    flips: Array  # (E,), at the mode; their mean once integrated
    flips_std: Array  # (E,), by the delta method, or once integrated; 0 where fixed, NaN at a bound
    log_evidence: float  # NaN without a prior
    log_joint: float
    result: InferenceResult  # of the weights, the flip probabilities integrated out


def noise_modes(joint: JointObjective, start: Array, controls: Controls = Controls()) -> list[NoiseMode]:
    """The modes that a search from several flip probabilities finds, the best first.

    Each search starts at the mode of the weights for a given ε, from `start`, and then moves both.
    """
    found: list[tuple[Solution, NoiseMode]] = []
    failure: NotPositiveDefinite | None = None
    many = joint.objective.rows.n_rows * start.size >= COSTS.single_mode_numbers
    for guess in FIRST_GUESSES[1:2] if many else FIRST_GUESSES:
        try:
            solution = _search(joint, start, guess, controls)
        except NotPositiveDefinite as error:  # without a prior one search may run away where others do not
            failure = error
            continue
        if not any(_same(solution, other) for other, _ in found):
            found.append((solution, _mode(joint, solution)))
    if failure is not None and not found:
        raise failure
    return sorted((mode for _, mode in found), key=height, reverse=True)


def follow_mode(joint: JointObjective, point: Array, controls: Controls = Controls()) -> NoiseMode:
    """The mode that a search from one point (x, θ) finds."""
    return _mode(joint, _newton(joint, point, controls))


def _newton(joint: JointObjective, point: Array, controls: Controls) -> Solution:
    return newton(joint.expand, point, tol=controls.tol, max_steps=controls.max_steps, report=controls.report)


def _search(joint: JointObjective, start: Array, guess: float, controls: Controls) -> Solution:
    theta = np.full(joint.belief.n_free, np.log(2 * guess / (1 - 2 * guess)))
    first = laplace(joint.at(theta), start, controls)
    return _newton(joint, np.concatenate([first.posterior.mean, theta]), controls)


def integrate_flips(joint: JointObjective, mode: NoiseMode, controls: Controls = Controls()) -> NoiseMode:
    r"""Posterior mean and standard deviation of ε around a mode, and the evidence with ε integrated out numerically.

    .. math:: p(y) = \int p(y \mid θ) \, p(θ) \, dθ

    by Gauss–Hermite nodes in the coordinates of the joint Gaussian, p(y | θ) by Laplace in the weights. The posterior
    of ε is skewed, and at a thousand rows the joint mode lies half a standard deviation low; many rows leave nothing of
    that. Without a prior there is nothing to integrate: the estimate is maximum likelihood.
    """
    if joint.objective.prior is None or joint.objective.rows.n_rows >= ENOUGH_ROWS:
        return mode
    (x, theta), size = joint.split(mode.result.solution.x), joint.belief.n_free
    root = mode.result.solution.local.hessian.inverse_root[:, -size:]
    L = PSD.of(root.T @ root, "the covariance of the flip probabilities' logits").factor
    nodes, log_weights = gauss_hermite(NODES[size])
    z = np.stack(np.meshgrid(*[nodes] * size), axis=-1).reshape(-1, size)
    log_w = np.sum(np.meshgrid(*[log_weights] * size), axis=0).ravel()
    points = theta + z @ L.T
    log_posterior = [
        laplace(joint.at(point), x, controls).log_evidence + joint.belief.log_density(point) for point in points
    ]
    log_terms = log_w + log_posterior + 0.5 * (z**2).sum(axis=1) + 0.5 * size * LOG_2PI + np.log(np.diag(L)).sum()
    log_evidence = float(log_sum_exp(log_terms))
    share = np.exp(log_terms - log_evidence)
    flips = np.array([joint.belief.flips(point) for point in points])
    fixed = joint.belief.index < 0
    mean = np.where(fixed, joint.belief.fixed, share @ flips)
    std = np.where(fixed, 0.0, np.sqrt(share @ (flips - mean) ** 2))
    return mode._replace(
        flips=mean,
        flips_std=std,
        log_evidence=log_evidence,
        result=mode.result._replace(log_evidence=log_evidence),
    )


def height(mode: NoiseMode) -> tuple[bool, float]:
    """What modes are ranked by: evidence, or likelihood where there is no prior; searches that ended well first."""
    value = mode.log_joint if np.isnan(mode.log_evidence) else mode.log_evidence
    return mode.result.solution.status.good, value


def _same(one: Solution, other: Solution) -> bool:
    step = one.x - other.x
    return bool(step @ one.local.hessian.matrix @ step < SAME_MODE)


def _mode(joint: JointObjective, solution: Solution) -> NoiseMode:
    (x, theta), precision = joint.split(solution.x), solution.local.hessian
    flips, log_joint = joint.belief.flips(theta), -solution.local.value
    log_prior = joint.objective.log_prior(x) + joint.belief.log_density(theta)
    flat = joint.objective.prior is None
    evidence = np.nan if flat else log_joint + 0.5 * (solution.x.size * LOG_2PI - precision.logdet)
    # cov(θ) is the lower right corner of the inverse: columns of L⁻¹ that belong to θ
    root = precision.inverse_root[:, -theta.size :] @ joint.belief.slope(theta).T
    std = np.sqrt((root**2).sum(axis=0))
    status = solution.status
    if joint.belief.beta is None and (flips[joint.belief.index >= 0] < NO_NOISE).any():
        std, status = np.where(flips < NO_NOISE, np.nan, std), Status.NO_LABEL_NOISE
    result = InferenceResult(
        _without_last(Gaussian(solution.x, precision), theta.size),
        evidence,
        log_joint - log_prior,
        solution._replace(status=status),
    )
    return NoiseMode(flips, std, evidence, log_joint, result)


def _without_last(joint: Gaussian, size: int) -> Gaussian:
    """The marginal of all but the last coordinates.

    With them first in the factorisation the marginal precision is a Schur complement, and its factor the lower right
    corner of L: no difference of matrices is formed.
    """
    M = joint.mean.size - size
    order = np.r_[M : M + size, :M]
    factor = from_root(joint.precision.factor[order]).factor
    return Gaussian(joint.mean[:M], PSD(np.asfortranarray(factor[size:, size:])))
