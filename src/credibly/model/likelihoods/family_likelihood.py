r"""A family and a link together: the likelihood of a generalised linear model, and what is reported about a fit.

Notation
--------
=====  ==================================================================  ==================
y      target; a proportion for the binomial, whose weight is its total     any shape
f      score; μ = μ(f) its mean, λ = log μ(f)                               any shape
s      dispersion                                                           positive number
η      natural parameter; κ = dη/df for the canonical link
V      variance function
L      log p(y | f)
=====  ==================================================================  ==================

The derivatives of L take one of three ways:

* labels and proportions with a threshold link: y L₁ + (1 - y) L₀, where L₁ and L₀ are the two labels' (exact tails);
* a canonical link: L' = κ (y - μ)/s, L'' = -κ μ'/s, L''' = -κ μ''/s, where V does not occur;
* else the chain rule through λ, L' = (dL/dλ) λ', in which no variance that underflows is divided by.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from credibly.errors import InputError
from credibly.model.likelihoods.base import Averaged, Expansion, Likelihood, Slopes
from credibly.model.likelihoods.families import Binomial, Gaussian
from credibly.model.likelihoods.family_base import Family
from credibly.model.likelihoods.links import Identity, Link, Log, Mask, silent, times
from credibly.model.likelihoods.proportions import Bernoulli, Proportions
from credibly.numerics.arrays import Array
from credibly.numerics.averages import LabelAverages, Tilted
from credibly.numerics.caching import cached_property

ZERO, ONE = np.array(0.0), np.array(1.0)
OUTSIDE = Expansion(np.array(-np.inf), np.array(np.nan), np.array(np.nan))


class Form(ABC):
    """One way to compute L and its derivatives; only asked where `inside` is true, but silent elsewhere too."""

    @abstractmethod
    def inside(self, f: Array) -> Mask:
        """Whether the score has a mean, and the family has that mean."""

    @abstractmethod
    def log_prob(self, y: Array, f: Array) -> Array:
        """L."""

    @abstractmethod
    def slopes(self, y: Array, f: Array) -> Slopes:
        """L' and -L''."""

    @abstractmethod
    def third(self, y: Array, f: Array) -> Array:
        """L'''."""

    @abstractmethod
    def information(self, f: Array) -> tuple[Array, Array]:
        """μ'² / (s V), the expected -L'', and its derivative in f."""

    def expand(self, y: Array, f: Array) -> Expansion:
        """L, L' and -L'' together; overridden where they share their expensive part."""
        return Expansion(self.log_prob(y, f), *self.slopes(y, f))


@dataclass(frozen=True)
class ThresholdForm(Form):
    """Labels and proportions: everything is linear in y between what it is for the two labels."""

    threshold: Likelihood

    def inside(self, f: Array) -> Mask:
        return np.isfinite(f)

    def log_prob(self, y: Array, f: Array) -> Array:
        return between(y, self.threshold.log_prob(ZERO, f), self.threshold.log_prob(ONE, f))

    def slopes(self, y: Array, f: Array) -> Slopes:
        zero, one = self.threshold.slopes(ZERO, f), self.threshold.slopes(ONE, f)
        return Slopes(between(y, zero.grad, one.grad), between(y, zero.curvature, one.curvature))

    def third(self, y: Array, f: Array) -> Array:
        return between(y, self.threshold.third(ZERO, f), self.threshold.third(ONE, f))

    def expand(self, y: Array, f: Array) -> Expansion:
        if are_labels(y):  # then one side of each row is enough
            return self.threshold.expand(y, f)
        return super().expand(y, f)

    def information(self, f: Array) -> tuple[Array, Array]:
        return self.threshold.information(f), self.threshold.information_slope(f)


@dataclass(frozen=True)
class CanonicalForm(Form):
    """The link whose score is the natural parameter, times a constant: observed and expected curvature are the same."""

    family: Family
    link: Link
    s: float
    natural_slope: float

    def inside(self, f: Array) -> Mask:
        return inside(self.family, self.link, f)

    def log_prob(self, y: Array, f: Array) -> Array:
        return self.family.log_density(y, self.link.mean(f), self.s, self.link.log_mean(f))

    def slopes(self, y: Array, f: Array) -> Slopes:
        rate = self.natural_slope / self.s
        return Slopes(rate * (y - self.link.mean(f)), self.information(f)[0] + np.zeros(np.shape(y)))

    def third(self, y: Array, f: Array) -> Array:
        return -self.information(f)[1] + np.zeros(np.shape(y))

    def information(self, f: Array) -> tuple[Array, Array]:
        rate, (first, second, _) = self.natural_slope / self.s, self.link.derivatives(f)
        return rate * first, rate * second


@dataclass(frozen=True)
class LogMeanForm(Form):
    """Any family with any link, by the chain rule through λ = log μ(f)."""

    family: Family
    link: Link
    s: float

    def inside(self, f: Array) -> Mask:
        return inside(self.family, self.link, f)

    def log_prob(self, y: Array, f: Array) -> Array:
        return self.family.log_density(y, self.link.mean(f), self.s, self.link.log_mean(f))

    def slopes(self, y: Array, f: Array) -> Slopes:
        g1, g2, _ = self.family.log_mean_slopes(y, self.link.mean(f), self.s, self.link.log_mean(f))
        u1, u2, _ = self.link.log_mean_derivatives(f)
        return Slopes(g1 * u1, -(g2 * u1**2 + g1 * u2))

    def third(self, y: Array, f: Array) -> Array:
        g1, g2, g3 = self.family.log_mean_slopes(y, self.link.mean(f), self.s, self.link.log_mean(f))
        u1, u2, u3 = self.link.log_mean_derivatives(f)
        return np.asarray(g3 * u1**3 + 3 * g2 * u1 * u2 + g1 * u3)

    def information(self, f: Array) -> tuple[Array, Array]:
        value, slope = self.family.log_mean_information(self.link.mean(f), self.s, self.link.log_mean(f))
        u1, u2, _ = self.link.log_mean_derivatives(f)
        return value * u1**2, slope * u1**3 + 2 * value * u1 * u2


def between(y: Array, zero: Array, one: Array) -> Array:
    """(1 - y)·zero + y·one, where a share of nothing is nothing even of an infinite value."""
    return times(1 - np.asarray(y), zero) + times(y, one)


def are_labels(y: Array) -> bool:
    """Whether all are 0 or 1."""
    return bool(np.all((np.asarray(y) == 0) | (np.asarray(y) == 1)))


def inside(family: Family, link: Link, f: Array) -> Mask:
    """Whether the score has a mean, and the family has that mean; by log μ, because μ itself may underflow to 0."""
    low, high = family.mean_range
    if low < 0:
        return link.valid(f)
    with silent():
        log_mu = link.log_mean(f)
        return np.asarray(link.valid(f) & (log_mu > -np.inf) & (log_mu < np.log(high)))


@dataclass(frozen=True)
class FamilyLikelihood(Likelihood):
    r"""The likelihood of a generalised linear model.

    .. math:: p(y \mid f) = \mathrm{family}(y \mid \mu(f), s), \qquad
       \frac{d \log p}{df} = \frac{y - \mu}{s V(\mu)} \mu'(f), \qquad I(f) = \frac{\mu'(f)^2}{s V(\mu)}

    The curvature is the observed one; it is the expected one, I(f), for canonical links only. A score without a mean
    (a negative one of the inverse link, say) has log probability -inf and slopes NaN, so that a line search steps back.

    Parameters
    ----------
    family : Family
    link : Link
    dispersion : float
        s; must be 1 for families without one.

    Notes
    -----
    `tilted` and `averaged` are in closed form for a Gaussian with the identity link, those of the threshold for labels
    0 and 1, and otherwise the quadrature of `Likelihood`; `averaged` has closed forms for the log link too, but for the
    negative binomial. It is refused for links that have no mean at some scores: there E[log p] is minus infinity.

    References
    ----------
    McCullagh and Nelder (1989), sec. 2.2 and 2.5.

    Examples
    --------
    >>> from credibly.model.likelihoods.families import Poisson
    >>> from credibly.model.likelihoods.links import Log
    >>> FamilyLikelihood(Poisson(), Log()).slopes(np.array(3.0), np.array(0.0))
    Slopes(grad=array(2.), curvature=array(1.))
    """

    family: Family
    link: Link
    dispersion: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.dispersion < np.inf:
            raise InputError(f"a dispersion is a positive number, not {self.dispersion}.")
        if not self.family.has_dispersion and self.dispersion != 1:
            raise InputError(f"the {self.family.name} family has no dispersion; got {self.dispersion}.")

    def with_dispersion(self, s: float) -> "FamilyLikelihood":
        """The same likelihood with another dispersion."""
        return replace(self, dispersion=s)

    @property
    def log_concave(self) -> bool:  # type: ignore[override]  # here it depends on the family and the link
        """Whether log p(y | f) is concave in f for every y."""
        if isinstance(self.form, ThresholdForm):
            return self.form.threshold.log_concave
        low, high = self.family.concave_powers
        return self.link.power is not None and low <= self.link.power <= high

    @property
    def two_labels(self) -> bool:  # type: ignore[override]  # here it depends on the family and the link
        """Whether y is 0 or 1, with a threshold between them: then this is the classifier's likelihood."""
        return isinstance(self.family, Bernoulli) and isinstance(self.form, ThresholdForm)

    @cached_property
    def form(self) -> Form:
        """The way in which the derivatives are computed."""
        if isinstance(self.family, Proportions) and self.link.threshold is not None:
            return ThresholdForm(self.link.threshold)
        slope = self.family.natural_slope
        if slope is not None and self.link == self.family.default_link:
            return CanonicalForm(self.family, self.link, self.dispersion, slope)
        return LogMeanForm(self.family, self.link, self.dispersion)

    def log_prob(self, y: Array, f: Array) -> Array:
        with silent():
            return np.where(self.form.inside(f), self.form.log_prob(y, f), -np.inf)[()]

    def slopes(self, y: Array, f: Array) -> Slopes:
        with silent():
            grad, curvature = self.form.slopes(y, f)
            ok = self.form.inside(f)
        return Slopes(np.where(ok, grad, np.nan), np.where(ok, curvature, np.nan))

    def expand(self, y: Array, f: Array) -> Expansion:
        with silent():
            at, ok = self.form.expand(y, f), self.form.inside(f)
        if np.all(ok):
            return at
        return Expansion(*(np.where(ok, value, nothing) for value, nothing in zip(at, OUTSIDE, strict=True)))

    def third(self, y: Array, f: Array) -> Array:
        with silent():
            return np.where(self.form.inside(f), self.form.third(y, f), np.nan)

    def mean(self, f: Array) -> Array:
        return self.link.mean(f)

    def tilted(self, y: Array, m: Array, v: Array) -> Tilted:
        if isinstance(self.form, ThresholdForm) and are_labels(y):
            return self.form.threshold.tilted(y, m, v)
        if isinstance(self.family, Gaussian) and isinstance(self.link, Identity):
            total = v + self.dispersion
            shift = v * (y - m) / total
            return Tilted(self.family.log_density(y, m, total), m + shift, v * self.dispersion / total + 0 * shift)
        with silent():  # where no score has a mean there is no mass, and no moments
            return super().tilted(y, m, v)

    def label_averages(self, m: Array, v: Array) -> LabelAverages:
        if isinstance(self.form, ThresholdForm):
            return self.form.threshold.label_averages(m, v)
        return super().label_averages(m, v)

    def averaged(self, y: Array, m: Array, v: Array) -> Averaged:
        y, m, v = np.broadcast_arrays(*(np.asarray(part, dtype=float) for part in (y, m, v)))
        if not self.form.inside(np.array([-1.0, 1.0])).all():
            raise InputError(
                f"the average of log p(y | f) over a Gaussian score does not exist for the {self.family.name} family "
                f"with the {self.link.name} link: some scores have no mean; use a link that has one for every score."
            )
        if isinstance(self.form, ThresholdForm):
            if are_labels(y):
                return self.form.threshold.averaged(y, m, v)
            zero, one = self.form.threshold.averaged(ZERO, m, v), self.form.threshold.averaged(ONE, m, v)
            with silent():  # an infinite value of a label that has no share
                return Averaged(*(between(y, *pair) for pair in zip(zero, one, strict=True)))
        if isinstance(self.family, Gaussian) and isinstance(self.link, Identity):
            at = self.expand(y, m)
            return Averaged(at.log_prob - 0.5 * v * at.curvature, at.grad, at.curvature)
        terms = self.family.exponentials(y, self.dispersion) if isinstance(self.link, Log) else None
        with silent():
            return (
                super().averaged(y, m, v) if terms is None else self._with_exponentials(terms, self.expand(y, m), m, v)
            )

    def _with_exponentials(self, terms: tuple[tuple[float, Array], ...], at: Expansion, m: Array, v: Array) -> Averaged:
        r"""What exponentials of a normal score add to the expansion at its mean.

        .. math:: E[e^{pf}] - e^{pm} = e^{pm + p^2 v/2} (1 - e^{-p^2 v/2})

        No window of nodes around m holds that average where v is large.
        """
        log_prob, grad, curvature = at
        for power, coefficient in terms:
            half = 0.5 * power**2 * v
            more = times(coefficient, -np.expm1(-half) * np.exp(power * m + half))
            log_prob, grad, curvature = log_prob + more, grad + power * more, curvature - power**2 * more
        return Averaged(log_prob, grad, curvature)

    def information(self, f: Array) -> Array:
        with silent():
            return np.where(self.form.inside(f), self.form.information(f)[0], np.nan)

    def information_slope(self, f: Array) -> Array:
        with silent():
            return np.where(self.form.inside(f), self.form.information(f)[1], np.nan)


def starting_scores(likelihood: FamilyLikelihood, y: Array, weight: Array | None = None) -> Array:
    """Scores near the targets and inside the domain, from which iterations start; (n,).

    They are those of R, link(family.starting_mean). A target without a score, such as a negative one of the Gaussian
    family with the log link, gets that of the root mean square of all targets (of 1 if all are zero). The scores of a
    linear model fitted to these may still be outside; those of an intercept alone, link(mean of y), are not.
    """
    y = np.asarray(y, dtype=float)
    scores = likelihood.link.link(likelihood.family.starting_mean(y, np.ones_like(y) if weight is None else weight))
    size = np.sqrt(np.mean(y**2))
    return np.where(likelihood.form.inside(scores), scores, likelihood.link.link(np.array(size if size > 0 else 1.0)))


# --- What is reported about a fit ---------------------------------------------------------------------------


def deviance(family: Family, y: Array, mu: Array, weight: Array | None = None) -> float:
    """Σ w · unit deviance: minus twice s times the log-likelihood, from that of a perfect fit."""
    return float(np.sum(family.unit_deviance(y, mu) * (1.0 if weight is None else weight)))


def pearson(family: Family, y: Array, mu: Array, weight: Array | None = None) -> float:
    """Σ w (y - μ)² / V(μ); divided by the residual degrees of freedom it is R's estimate of the dispersion."""
    return float(np.sum((y - mu) ** 2 / family.variance(mu) * (1.0 if weight is None else weight)))


def r_log_likelihood(family: Family, y: Array, mu: Array, weight: Array | None = None) -> float:
    r"""The log-likelihood that R's ``logLik`` and ``AIC`` use for a fitted model, with all constants.

    Parameters
    ----------
    family : Family
    y, mu : (n,) float arrays
        Targets (proportions for the binomial) and fitted means.
    weight : (n,) float array, optional
        R's prior weights; numbers of trials for the binomial.

    Returns
    -------
    float

    Notes
    -----
    R plugs in dispersion = deviance / n, not the Pearson estimate that its summary prints; n is the sum of the weights
    for the gamma and the inverse Gaussian, for which each row's log density is multiplied by its weight. For the
    Gaussian a weight divides the variance instead: n is the number of rows with a positive weight, and ½ Σ log w is
    added. The binomial includes its coefficients. R counts the dispersion as one more parameter in the AIC and BIC
    of these three families; ``MASS::glm.nb`` counts α of the negative binomial, ``glm`` with a known α does not.
    """
    w = np.ones(np.shape(y)) if weight is None else np.asarray(weight, dtype=float)
    s = deviance(family, y, mu, w) / w.sum() if family.has_dispersion else 1.0
    if isinstance(family, Gaussian):
        y, mu, w = y[w > 0], mu[w > 0], w[w > 0]
        s = deviance(family, y, mu, w) / len(w)
        return float(np.sum(family.log_density(y, mu, s / w)))
    coefficients = family.log_coefficients(y, w) if isinstance(family, Binomial) else 0.0
    return float(np.sum(w * family.log_density(y, mu, s) + coefficients))
