"""Posterior + likelihood → log class probabilities, or the mean of a target: the only road to predictions.

Notation
--------
====  =====================================================  ===================
m, v  mean and variance of the latent score                  (n,), (n,)
m, V  mean and covariance of K latent scores                 (n, K), (n, K, K)
====  =====================================================  ===================
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from credibly.inference.conjugate import Joint, PlugInJoint
from credibly.inference.gaussian import Scores, normal_quantile
from credibly.model.likelihoods import BernoulliLogit, Categorical, Likelihood
from credibly.model.likelihoods.families import NegativeBinomial, Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.proportions import Proportions
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import DesignMatrix
from credibly.numerics.quadrature import gauss_hermite, normal_points
from credibly.numerics.special import log_softmax, log_sum_exp

QUANTILE_POINTS = 4096  # deterministic draws for quantiles of softmax probabilities: rank error of some 1e-3
OBSERVATION_NODES = 40  # of the score, in intervals of a new target
BISECTIONS = 60  # halvings of the interval between the quantiles of a mixture's parts
DRAWN_NUMBERS = 200_000  # numbers held at a time, so that they stay in the cache


class Predictive(Protocol):
    """How latent scores become class probabilities."""

    def log_proba(self, scores: Scores) -> Array:
        """log p(class | x), (n, K), the scores integrated out."""

    def plug_in(self, scores: Scores) -> Array:
        """log p(class | x), (n, K), at the mean score."""

    def interval(self, scores: Scores, level: float) -> Array:
        """Equal-tailed credible interval of the probability: (n, 2) for two classes, (n, K, 2) for more."""

    def log_proba_at(self, f: Array) -> Array:
        """log p(class | f), (…, n, K), at given scores: (…, n, 1) for two classes, (…, n, K) for more."""

    def proba(self, f: Array) -> Array:
        """The same as probabilities."""


def predictive_of(likelihood: Likelihood | Categorical) -> Predictive:
    """The road to probabilities for a likelihood."""
    return SoftmaxPredictive(likelihood) if isinstance(likelihood, Categorical) else BinaryPredictive(likelihood)


class BinaryPredictive:
    """Two classes and one score per row."""

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood = likelihood

    def log_proba(self, scores: Scores) -> Array:
        """log p(class | x), (n, 2), the score integrated out."""
        return np.column_stack(self.likelihood.label_averages(*scores))

    def plug_in(self, scores: Scores) -> Array:
        """log p(class | x), (n, 2), at the mean score."""
        return np.column_stack([self.likelihood.log_prob(np.array(c), scores.mean) for c in (0, 1)])

    def interval(self, scores: Scores, level: float) -> Array:
        """link(m ± z √v), (n, 2): the link is monotone, so quantiles of the score become those of P(class 1)."""
        half = normal_quantile(level) * np.sqrt(scores.variance)
        return self.likelihood.mean(np.column_stack([scores.mean - half, scores.mean + half]))

    def log_proba_at(self, f: Array) -> Array:
        """log p(class | f), (…, n, 2), at given scores (…, n, 1)."""
        log_proba: Array = np.concatenate([self.likelihood.log_prob(np.array(c), f) for c in (0, 1)], axis=-1)
        return log_proba

    def proba(self, f: Array) -> Array:
        """The same as probabilities."""
        return np.exp(self.log_proba_at(f))


class SoftmaxPredictive:
    """K classes and K scores per row."""

    def __init__(self, likelihood: Categorical) -> None:
        self.likelihood = likelihood

    def log_proba(self, scores: Scores) -> Array:
        """log p(class | x), (n, K), the scores integrated out."""
        return self.likelihood.log_average(*scores)

    def plug_in(self, scores: Scores) -> Array:
        """log p(class | x), (n, K), at the mean scores."""
        return log_softmax(scores.mean)

    def interval(self, scores: Scores, level: float) -> Array:
        """Equal-tailed quantiles of each class's probability: (n, K, 2), or (n, 2) of the second of two."""
        if self.likelihood.n_classes == 2:
            return BinaryPredictive(BernoulliLogit()).interval(difference(scores), level)
        normal_quantile(level)  # checks the level
        return drawn_interval(self.proba, scores, level)

    def log_proba_at(self, f: Array) -> Array:
        """log p(class | f) at given scores, both (…, n, K)."""
        return log_softmax(f)

    def proba(self, f: Array) -> Array:
        """The same as probabilities."""
        return self.likelihood.mean(f)


class OneVsRestPredictive:
    """K classes by K independent scores, each of its class against the rest, normalised after averaging."""

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood = likelihood

    def _log_own(self, scores: Scores) -> Array:
        """log p(this class, not another), (n, K), every score integrated out by itself."""
        return self.likelihood.log_average(np.array(1.0), scores.mean, np.einsum("...kk->...k", scores.variance))

    def log_proba(self, scores: Scores) -> Array:
        """log p(class | x), (n, K)."""
        return log_softmax(self._log_own(scores))

    def plug_in(self, scores: Scores) -> Array:
        """log p(class | x), (n, K), at the mean scores."""
        return log_softmax(self.likelihood.log_prob(np.array(1.0), scores.mean))

    def interval(self, scores: Scores, level: float) -> Array:
        """Equal-tailed quantiles of each class's normalised probability, (n, K, 2)."""
        normal_quantile(level)  # checks the level
        return drawn_interval(self.proba, scores, level)

    def log_proba_at(self, f: Array) -> Array:
        """log p(class | f) at given scores, both (…, n, K)."""
        return log_softmax(self.likelihood.log_prob(np.array(1.0), f))

    def proba(self, f: Array) -> Array:
        """The same as probabilities."""
        return np.exp(self.log_proba_at(f))


class MeanPredictive:
    """Targets with a mean: a generalised linear model and one score per row."""

    def __init__(self, likelihood: FamilyLikelihood) -> None:
        self.likelihood = likelihood

    def mean(self, scores: Scores) -> Array:
        """E[y | x], (n,), the score integrated out; at the mean score for links whose average diverges."""
        averaged = self.likelihood.link.average(*scores)
        if averaged is None:
            return self.plug_in(scores)
        return np.where(self.likelihood.form.inside(scores.mean), averaged, np.nan)

    @property
    def averages(self) -> bool:
        """True where the mean can be averaged over scores."""
        return self.likelihood.link.average(np.zeros(1), np.ones(1)) is not None

    def mean_over_draws(self, f: Array) -> Array:
        """E[y | x], (n,), averaged over draws of the scores, (S, n, 1); at their mean where links have no average."""
        if not self.averages:
            return self.plug_in(Scores(f[..., 0].mean(axis=0), f[..., 0].var(axis=0)))
        return np.asarray(self.likelihood.mean(f[..., 0]).mean(axis=0))

    def plug_in(self, scores: Scores) -> Array:
        """E[y | x], (n,), at the mean score; NaN where that has no mean of the family."""
        inside = self.likelihood.form.inside(scores.mean)
        with np.errstate(all="ignore"):
            return np.where(inside, self.likelihood.mean(scores.mean), np.nan)

    def interval(self, scores: Scores, level: float) -> Array:
        """Quantiles of the mean, (n, 2): the inverse link is monotone, so those of the score become those of it.

        A score without a mean of the family counts as the end of the means' range that it lies beyond.
        """
        half = normal_quantile(level) * np.sqrt(scores.variance)
        return self._means(np.column_stack([scores.mean - half, scores.mean + half]))

    def interval_over_draws(self, f: Array, level: float) -> Array:
        """The same from draws of the scores, (S, n, 1)."""
        normal_quantile(level)  # checks the level
        return self._means(equal_tails(f[..., 0].T, level))

    def _means(self, f: Array) -> Array:
        """Means at the ends of intervals of the score, (n, 2)."""
        link, (least, most) = self.likelihood.link, self.likelihood.family.mean_range
        falling = link.power is not None and link.power < 0
        with np.errstate(all="ignore"):
            mu = np.where(link.valid(f), link.mean(f), np.inf if falling else least)
        ends = np.where(mu < least, least, np.where(mu > most, most, mu))
        return np.asarray(ends[:, ::-1] if falling else ends)

    def observation_interval(self, scores: Scores, level: float) -> Array:
        """Quantiles of a new target, (n, 2): of the family mixed over the score, by bisection."""
        normal_quantile(level)  # checks the level
        nodes, log_weights = gauss_hermite(OBSERVATION_NODES)
        f = scores.mean[:, None] + np.sqrt(scores.variance)[:, None] * nodes
        inside = self.likelihood.form.inside(f)
        weight = np.where(inside, np.exp(log_weights), 0.0)  # scores without a mean are left out of the mixture
        some = inside.any(axis=1)
        first = np.take_along_axis(f, inside.argmax(axis=1)[:, None], axis=1)  # in their place, with no weight
        f, weight = np.where(inside, f, first)[some], weight[some] / weight[some].sum(axis=1, keepdims=True)
        ends = np.full((len(inside), 2), np.nan)
        mixture = Mixture(self.likelihood, f, weight)
        ends[some] = np.column_stack([mixture.quantile(q) for q in (0.5 - level / 2, 0.5 + level / 2)])
        return ends


class GenerativePredictive:
    """Classes by Bayes' rule: p(c | x) ∝ p(x, c)."""

    def __init__(self, joint: Joint) -> None:
        self.joint = joint

    def log_proba(self, X: DesignMatrix) -> Array:
        """log p(class | x), (n, K); NaN in rows that no class can have."""
        with np.errstate(invalid="ignore"):
            return log_softmax(self.joint.log_ratio(X))

    def log_marginal(self, X: DesignMatrix) -> Array:
        """log p(x), (n,), summed over classes."""
        return np.asarray(log_sum_exp(self.joint.log_joint(X)))

    def proba_draws(self, X: DesignMatrix, draws: Sequence[PlugInJoint]) -> Array:
        """Class probabilities for every draw of the parameters, (size, n, K)."""
        return np.exp([GenerativePredictive(draw).log_proba(X) for draw in draws])


class Mixture(NamedTuple):
    """A family's distribution mixed over scores, row by row."""

    likelihood: FamilyLikelihood
    f: Array  # (n, nodes)
    weight: Array  # (n, nodes)

    def quantile(self, q: float) -> Array:
        """The least target with at least this mass at or below it, (n,)."""
        family, s = self.likelihood.family, self.likelihood.dispersion
        mu = self.likelihood.mean(self.f)
        parts = family.quantile(np.array(q), mu, s)  # the mixture's quantile lies between those of its parts
        low, high = parts.min(axis=1), parts.max(axis=1)
        discrete = isinstance(family, Poisson | NegativeBinomial | Proportions)
        step = 1.0 if discrete else 0.0
        low = low - step
        for _ in range(BISECTIONS):
            middle = np.floor((low + high) / 2) if discrete else (low + high) / 2
            enough = (self.weight * family.cdf(middle[:, None], mu, s)).sum(axis=1) >= q
            settled = high - low <= step
            low, high = np.where(enough | settled, low, middle), np.where(enough & ~settled, middle, high)
        return np.asarray(high)


def log_proba_over_draws(predictive: Predictive, f: Array, log_weights: Array | None = None) -> Array:
    """log p(class | x), (n, K), averaged over draws of the scores f (S, n, ·); weighted, where weights add to one."""
    terms = predictive.log_proba_at(f)
    shift = -np.log(len(f)) if log_weights is None else log_weights[:, None, None]
    return log_sum_exp(np.moveaxis(terms + shift, 0, -1))


def interval_over_draws(predictive: Predictive, f: Array, level: float) -> Array:
    """Equal-tailed interval of the probability over draws of scores: (n, 2) of the second of two classes, (n, K, 2)."""
    normal_quantile(level)  # checks the level
    intervals = equal_tails(np.moveaxis(predictive.proba(f), 0, -1), level)
    return np.asarray(intervals[:, 1] if intervals.shape[1] == 2 else intervals)


def drawn_interval(proba: Callable[[Array], Array], scores: Scores, level: float) -> Array:
    """Equal-tailed quantiles of each class's probability, (n, K, 2), over deterministic draws of the K scores."""
    points = normal_points(QUANTILE_POINTS, scores.mean.shape[1]).T
    chunk = max(1, DRAWN_NUMBERS // points.size)
    parts = []
    for start in range(0, len(scores.mean), chunk):
        m, V = (array[start : start + chunk] for array in scores)
        f = m[:, :, None] + covariance_root(V) @ points  # (rows, K, points)
        parts.append(equal_tails(proba(f.swapaxes(1, 2)).swapaxes(1, 2), level))
    return np.concatenate(parts)


def equal_tails(draws: Array, level: float) -> Array:
    """Quantiles that leave (1 - level)/2 on either side, over the last axis: (…, 2)."""
    ranks = (draws.shape[-1] - 1) * np.array([0.5 - level / 2, 0.5 + level / 2])
    below = np.floor(ranks).astype(int)
    # A partition finds the four order statistics in a tenth of the time that sorting everything takes.
    ordered = np.partition(draws, [*below, *np.minimum(below + 1, draws.shape[-1] - 1)], axis=-1)
    low, high = ordered[..., below], ordered[..., np.minimum(below + 1, draws.shape[-1] - 1)]
    return np.asarray(low + (ranks - below) * (high - low))


def difference(scores: Scores) -> Scores:
    """The score of the second of two classes over the first."""
    V = scores.variance
    return Scores(scores.mean[:, 1] - scores.mean[:, 0], V[:, 0, 0] + V[:, 1, 1] - 2 * V[:, 0, 1])


def covariance_root(V: Array) -> Array:
    """S with S Sᵀ = V for covariances that may be singular (a prior-free softmax has one)."""
    values, vectors = np.linalg.eigh(V)
    # Rounding leaves eigenvalues of a semi-definite matrix at ±1e-16 of the largest: those are zeros.
    rounding = V.shape[-1] * np.finfo(float).eps * np.abs(values).max(axis=-1, keepdims=True)
    return np.asarray(vectors * np.sqrt(np.where(values > rounding, values, 0.0))[..., None, :])
