"""Mislabelled rows: the label written down is not always the class.

Notation
--------
========  ==========================================================================  ================
t, y      true class and recorded label                                               codes
ε         flip probabilities: (ε₀₁, ε₁₀), ε₀₁ = P(y = 1 | t = 0); one ε for K > 2      (2,) or (1,)
q         p(y | f), the probability of the recorded label                             (n,)
r         p(t = 1 | y, f), or p(t = y | y, f) for K classes                           (n,)
h         d log q / dε                                                                (n, 2) or (n, 1)
========  ==========================================================================  ================

Label noise is not log-concave in f: a row far on the wrong side is explained as a flip and stops pulling.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from credibly.model.likelihoods.base import Averaged, Expansion, Likelihood, Slopes
from credibly.model.likelihoods.categorical import Categorical
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.averages import LabelAverages, Tilted
from credibly.numerics.softmax_averages import POINTS, softplus_of_others
from credibly.numerics.special import log_softmax


class FlipSlopes(NamedTuple):
    """Derivatives of log p(y | f) that involve the flip probabilities; the second ones in ε alone are -h hᵀ."""

    grad: Array  # h, (n, E)
    cross: Array  # d h / df: (n, E), or (n, E, K) for K classes


@dataclass(frozen=True)
class LabelNoise(Likelihood):
    r"""Two classes whose labels are flipped with known probabilities.

    .. math:: p(y = 1 \mid f) = ε_{01} + (1 - ε_{01} - ε_{10}) \, p(t = 1 \mid f)

    Wraps any likelihood of two classes. Only ε₀₁ + ε₁₀ < 1 is identified: exchanging the classes and replacing ε by
    1 - ε gives the same model (misprint E-7 of docs/theory.md; the score is a(x), not x).

    Examples
    --------
    >>> from credibly.model.likelihoods import BernoulliLogit
    >>> round(float(LabelNoise(BernoulliLogit(), 0.1, 0.1).mean(np.array(-1000.0))), 12)
    0.1
    """

    base: Likelihood
    flip_01: float
    flip_10: float

    log_concave: ClassVar[bool] = False

    @property
    def center(self) -> float:  # type: ignore[override]  # that of the likelihood under the noise
        """Where the true class has its transition."""
        return self.base.center

    @property
    def width(self) -> float:  # type: ignore[override]
        """How wide that is."""
        return self.base.width

    @property
    def refinement(self) -> int:  # type: ignore[override]
        """Twice that of the base: log p also turns where the class becomes less probable than a flip."""
        return 2 * self.base.refinement

    @property
    def flips(self) -> Array:
        """(ε₀₁, ε₁₀)."""
        return np.array([self.flip_01, self.flip_10])

    def with_flips(self, flips: Array) -> "LabelNoise":
        """The same likelihood with other flip probabilities."""
        return LabelNoise(self.base, float(flips[0]), float(flips[1]))

    def log_prob(self, y: Array, f: Array) -> Array:
        return np.logaddexp(*_log_joint(self, y, f))

    def slopes(self, y: Array, f: Array) -> Slopes:
        return Slopes(*self.expand(y, f)[1:])

    def expand(self, y: Array, f: Array) -> Expansion:
        mixed = Mixed.of(y, *_log_joint(self, y, f))
        (g0, c0), (g1, c1) = (_felt(self.base, t, r, f) for t, r in enumerate(mixed.shares))
        r0, r1 = mixed.shares
        # cumulants of the shares: the slope is E[g], the curvature E[c] − Var[g]
        return Expansion(mixed.log_q, r0 * g0 + r1 * g1, r0 * c0 + r1 * c1 - mixed.both * mixed.gap(g0, g1) ** 2)

    def third(self, y: Array, f: Array) -> Array:
        mixed = Mixed.of(y, *_log_joint(self, y, f))
        (g0, c0), (g1, c1) = (_felt(self.base, t, r, f) for t, r in enumerate(mixed.shares))
        r0, r1 = mixed.shares
        t0, t1 = (np.where(r > 0, self.base.third(np.array(float(t)), f), 0.0) for t, r in enumerate(mixed.shares))
        gap = mixed.gap(g0, g1)
        # E[t] − 3 Cov(g, c) + E[(g − ḡ)³]
        return np.asarray(r0 * t0 + r1 * t1 + mixed.both * gap * ((r0 - r1) * gap**2 - 3 * mixed.gap(c0, c1)))

    def mean(self, f: Array) -> Array:
        return np.exp(self.log_prob(np.array(1.0), f))

    def tilted(self, y: Array, m: Array, v: Array) -> Tilted:
        zero, one = (self.base.tilted(np.array(float(t)), m, v) for t in (0, 1))
        mixed = Mixed.of(y, *self.log_with(y, zero.log_mass, one.log_mass))
        r0, r1 = mixed.shares
        mean = r0 * zero.mean + r1 * one.mean
        var = r0 * zero.var + r1 * one.var + mixed.both * mixed.gap(zero.mean, one.mean) ** 2
        return Tilted(mixed.log_q, np.asarray(mean), np.asarray(var))

    def label_averages(self, m: Array, v: Array) -> LabelAverages:
        true = self.base.label_averages(m, v)
        zero, one = (self.log_recorded(np.array(float(label)), *true) for label in (0, 1))
        return LabelAverages(zero, one)

    def log_recorded(self, y: Array, log_zero: Array, log_one: Array) -> Array:
        """log p(y), from the log probabilities of the true classes."""
        return np.logaddexp(*self.log_with(y, log_zero, log_one))

    def log_flipped(self, y: Array, log_zero: Array, log_one: Array) -> Array:
        """log P(t ≠ y | y), from the log probabilities of the true classes."""
        from_zero, from_one = self.log_with(y, log_zero, log_one)
        return np.asarray(np.where(np.asarray(y) == 1, from_zero, from_one) - np.logaddexp(from_zero, from_one))

    def flip_slopes(self, y: Array, f: Array) -> FlipSlopes:
        """Derivatives that involve (ε₀₁, ε₁₀)."""
        s, log_q = 2.0 * np.asarray(y) - 1.0, self.log_prob(y, f)
        first = self.slopes(y, f).grad
        grads, crosses = [], []
        for t, side in ((0, s), (1, -s)):  # more flips of class 0 make label 1 likelier, of class 1 less likely
            label = np.array(float(t))
            grads.append(side * np.exp(self.base.log_prob(label, f) - log_q))
            crosses.append(grads[-1] * (self.base.slopes(label, f).grad - first))
        return FlipSlopes(np.stack(grads, axis=-1), np.stack(crosses, axis=-1))

    def log_with(self, y: Array, log_zero: Array, log_one: Array) -> tuple[Array, Array]:
        """log p(y, t) for t = 0 and t = 1, from the log probabilities of the true classes."""
        one = np.asarray(y) == 1
        with np.errstate(divide="ignore"):  # labels of a class that is never flipped: log 0
            log_keep, log_flip = np.log1p(-self.flips), np.log(self.flips)
        return (
            np.asarray(log_zero + np.where(one, log_flip[0], log_keep[0])),
            np.asarray(log_one + np.where(one, log_keep[1], log_flip[1])),
        )


def _log_joint(noisy: LabelNoise, y: Array, f: Array) -> tuple[Array, Array]:
    """log p(y, t = 0 | f) and log p(y, t = 1 | f)."""
    return noisy.log_with(y, *(noisy.base.log_prob(np.array(float(t)), f) for t in (0, 1)))


def _felt(base: Likelihood, t: int, share: Array, f: Array) -> Slopes:
    """Slope and curvature of one true class; zero where it has no share, however steep it is there."""
    grad, curvature = base.slopes(np.array(float(t)), f)
    return Slopes(np.where(share > 0, grad, 0.0), np.where(share > 0, curvature, 0.0))


class Mixed(NamedTuple):
    """p(y) as a mixture over the true class: its logarithm, and the shares p(t | y), which sum to one."""

    log_q: Array
    shares: tuple[Array, Array]

    @classmethod
    def of(cls, y: Array, log_zero: Array, log_one: Array) -> "Mixed":
        """From log p(y, t = 0) and log p(y, t = 1)."""
        log_q = np.logaddexp(log_zero, log_one)
        # Where both vanish nothing was flipped (a flip would leave its probability), so the class is the label.
        one, lost = np.asarray(y) == 1, np.isneginf(log_q)
        with np.errstate(invalid="ignore"):
            r0, r1 = (np.exp(it - log_q) for it in (log_zero, log_one))
        return cls(log_q, (np.where(lost, ~one, r0)[()], np.where(lost, one, r1)[()]))

    @property
    def both(self) -> Array:
        """Variance of the true class, r(1 - r)."""
        return np.asarray(self.shares[0] * self.shares[1])

    def gap(self, zero: Array, one: Array) -> Array:
        """By how much class one exceeds class zero; zero where one of them has no share."""
        alone = self.both == 0
        return np.where(alone, 0.0, one) - np.where(alone, 0.0, zero)


class NoisyExpansion(NamedTuple):
    """log q, its gradient in the scores, and what its curvature r(diag(p) - ppᵀ) - r(1 - r)ddᵀ is made of."""

    log_prob: Array  # (n,)
    grad: Array  # (n, K), r d
    proba: Array  # (n, K), p
    kept: Array  # (n,), r
    direction: Array  # (n, K), d = 1[y = k] - p_k


@dataclass(frozen=True)
class NoisyCategorical:
    r"""K classes by softmax, whose labels are flipped with probability ε to any other class alike.

    .. math:: p(y = k \mid f) = (1 - ε) p_k + \frac{ε}{K - 1} \textstyle\sum_{j ≠ k} p_j

    Examples
    --------
    >>> NoisyCategorical(3, 0.2).log_recorded(np.log([[1.0, 1e-300, 1e-300]])).round(4)
    array([[-0.2231, -2.3026, -2.3026]])
    """

    n_classes: int
    flip: float

    log_concave: ClassVar[bool] = False

    @property
    def base(self) -> Categorical:
        """The likelihood of the true class."""
        return Categorical(self.n_classes)

    @property
    def flips(self) -> Array:
        """(ε,)."""
        return np.array([self.flip])

    def with_flips(self, flips: Array) -> "NoisyCategorical":
        """The same likelihood with another flip probability."""
        return NoisyCategorical(self.n_classes, float(flips[0]))

    @property
    def _floor(self) -> float:
        """What every label has at least, ε/(K-1)."""
        return self.flip / (self.n_classes - 1)

    def log_recorded(self, log_proba: Array) -> Array:
        """Log probabilities of the recorded label, (n, K), from those of the true class."""
        with np.errstate(divide="ignore"):  # ε = 0
            return np.asarray(np.logaddexp(np.log(self._floor), np.log1p(-self.flip - self._floor) + log_proba))

    def log_flipped(self, y: Codes, log_proba: Array) -> Array:
        """log P(t ≠ y | y), (n,), from the log probabilities of the true class."""
        label = np.asarray(y)[..., None]
        others = log_proba.copy()
        np.put_along_axis(others, label, -np.inf, axis=-1)
        log_recorded = np.take_along_axis(self.log_recorded(log_proba), label, axis=-1)[..., 0]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._floor) + np.logaddexp.reduce(others, axis=-1) - log_recorded)

    def grad(self, y: Codes, f: Array) -> Array:
        """The gradient alone, (n, K)."""
        return self.expand(y, f).grad

    def log_prob(self, y: Codes, f: Array) -> Array:
        """log p(y | f); y (n,), f (n, K)."""
        return np.take_along_axis(self.log_recorded(log_softmax(f)), np.asarray(y)[..., None], axis=-1)[..., 0]

    def expand(self, y: Codes, f: Array) -> NoisyExpansion:
        """log p(y | f) to second order; y (n,), f (n, K)."""
        at, log_q = self.base.expand(y, f), self.log_prob(y, f)
        kept = np.exp(np.log1p(-self.flip - self._floor) + at.log_prob - log_q)
        return NoisyExpansion(log_q, kept[..., None] * at.grad, at.proba, kept, at.grad)

    def curvature(self, at: NoisyExpansion) -> Array:
        """-∇∇ log q = r(diag(p) - ppᵀ) - r(1 - r)ddᵀ, (n, K, K); indefinite where a flip is the better explanation."""
        r, d = at.kept[..., None, None], at.direction
        return np.asarray(r * self.base.curvature(at.proba) - r * (1 - r) * d[..., :, None] * d[..., None, :])

    def averaged(self, y: Codes, m: Array, V: Array, points: int = POINTS) -> Averaged:
        r"""Averages of log p(y | f), its gradient (n, K) and its curvature (n, K, K) over f ~ N(m, V).

        With a the log odds of all other classes against y, and the shares κ of p_y and φ = ε/(K-1) of all labels,

        .. math:: \log p(y \mid f) = \log(κ + φ) + \log(1 + e^{a - c}) - \log(1 + e^a), \qquad c = \log(1 + κ/φ)
        """
        if self.flip == 0:
            return self.base.averaged(y, m, V, points)
        kept, y = 1 - self.flip - self._floor, np.asarray(y)
        up = softplus_of_others(y, m, V, float(np.log1p(kept / self._floor)), points)
        down = softplus_of_others(y, m, V, points=points)
        value, gradient, hessian = (over - under for over, under in zip(up, down, strict=True))
        return Averaged(np.log1p(-self.flip) + value, gradient, -hessian)

    def information(self, f: Array) -> Array:
        r"""The curvature expected over labels, :math:`\sum_y q_y r_y^2 d_y d_y^T`, (n, K, K)."""
        log_proba = log_softmax(f)
        log_q = self.log_recorded(log_proba)
        log_kept = np.log1p(-self.flip - self._floor) + log_proba - log_q
        share, p = np.exp(log_q + 2 * log_kept), np.exp(log_proba)
        d = np.eye(self.n_classes) - p[..., None, :]  # (n, label, K)
        return np.asarray(np.einsum("...y,...yj,...yk->...jk", share, d, d))

    def curvature_slope(self, at: NoisyExpansion, V: Array) -> Array:
        r"""∂/∂f of tr(V C), C = r W - r(1 - r) d dᵀ and W = diag(p) - ppᵀ, (n, K)."""
        base, r, d, p = self.base, at.kept[..., None], at.direction, at.proba
        Vd = np.einsum("...kj,...j->...k", V, d)
        W_Vd = p * (Vd - (p * Vd).sum(axis=-1, keepdims=True))
        trace = np.einsum("...kj,...jk->...", V, base.curvature(p))[..., None]
        h = r * (1 - r)
        quadratic = (d * Vd).sum(axis=-1, keepdims=True)
        return np.asarray(
            h * d * trace + r * base.curvature_slope(p, V) - (1 - 2 * r) * h * d * quadratic + 2 * h * W_Vd
        )

    def flip_slopes(self, y: Codes, f: Array) -> FlipSlopes:
        """Derivatives that involve ε; cross is (n, 1, K)."""
        at, K = self.expand(y, f), self.n_classes
        p_over_q = np.exp(self.base.log_prob(y, f) - at.log_prob)
        h = np.exp(-at.log_prob) / (K - 1) - K / (K - 1) * p_over_q
        slope = -K / (K - 1) * p_over_q - h * at.kept
        return FlipSlopes(h[..., None], (slope[..., None] * at.direction)[..., None, :])
