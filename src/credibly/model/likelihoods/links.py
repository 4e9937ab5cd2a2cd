"""Links: how a score becomes a mean.

A link is named after the function from the mean to the score; its inverse is what a prediction applies. So the
probit is Φ⁻¹, and Φ is the inverse of the probit (E-8 of docs/theory.md).

Notation
--------
=====  =====================================================  =============
μ      mean E[y | f], called `mu`                             any shape
f      score, f = link(μ)                                     any shape
λ      logarithm of the mean, log μ(f)                        any shape
m, v   mean and variance of a Gaussian over f                 any shape
=====  =====================================================  =============

Everything is element-wise and silent: a score that no mean belongs to gives NaN, and `valid` is False there.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtr, ndtri

from credibly.errors import InputError
from credibly.model.likelihoods import thresholds
from credibly.model.likelihoods.base import Likelihood
from credibly.numerics.arrays import Array
from credibly.numerics.special import LOG_2PI, sigmoid

if TYPE_CHECKING:
    from credibly.model.likelihoods.family_base import Family

Mask = NDArray[np.bool_]
ONE = np.array(1.0)  # the label whose probability a threshold link's mean is


def silent() -> np.errstate:
    """For what may be asked outside its domain: the answer is inf or NaN, not a warning."""
    return np.errstate(divide="ignore", over="ignore", invalid="ignore")


class Derivatives(NamedTuple):
    """First, second and third derivative of a function of one variable."""

    first: Array
    second: Array
    third: Array


class Link(ABC):
    """A smooth function from means to scores and back; every method is element-wise."""

    @abstractmethod
    def link(self, mu: Array) -> Array:
        """The score f of a mean; infinite or NaN at and beyond the ends of the means' range."""

    @abstractmethod
    def mean(self, f: Array) -> Array:
        """The mean μ(f): the inverse link."""

    @abstractmethod
    def derivatives(self, f: Array) -> Derivatives:
        """First three derivatives of μ(f)."""

    def log_mean(self, f: Array) -> Array:
        """λ = log μ(f), finite although μ(f) may underflow."""
        if self.threshold is not None:
            return self.threshold.log_prob(ONE, f)
        with silent():
            return np.asarray(np.log(self.mean(f)))

    def log_mean_derivatives(self, f: Array) -> Derivatives:
        """First three derivatives of λ; overridden where the ratios to μ(f) underflow or are simpler."""
        if self.threshold is not None:
            grad, curvature = self.threshold.slopes(ONE, f)
            return Derivatives(grad, -curvature, self.threshold.third(ONE, f))
        with silent():
            mu = self.mean(f)
            first, second, third = (np.asarray(d / mu) for d in self.derivatives(f))
            return Derivatives(first, second - first**2, third - 3 * first * second + 2 * first**3)

    def valid(self, f: Array) -> Mask:
        """Whether a mean belongs to the score."""
        return np.isfinite(f)

    def average(self, m: Array, v: Array) -> Array | None:
        """E[μ(f)] when f ~ N(m, v), or None where the average does not exist and μ(m) has to do."""
        if self.threshold is None:
            return None
        return np.asarray(np.exp(self.threshold.log_average(ONE, m, v)))

    @property
    def threshold(self) -> Likelihood | None:
        """The likelihood of two labels with p(y = 1 | f) = μ(f), where μ is a distribution function."""
        return None

    @property
    def power(self) -> float | None:
        """The exponent p of a link f = μᵖ (0 for the logarithm), None for other links."""
        return None

    @property
    def name(self) -> str:
        """What the link is called in `resolve_link`."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Identity(Link):
    r"""The score is the mean.

    .. math:: f = \mu

    Examples
    --------
    >>> Identity().average(np.array(2.0), np.array(9.0))
    array(2.)
    """

    def link(self, mu: Array) -> Array:
        return np.asarray(mu, dtype=float)

    def mean(self, f: Array) -> Array:
        return np.asarray(f, dtype=float)

    def derivatives(self, f: Array) -> Derivatives:
        return Derivatives(np.ones(np.shape(f)), np.zeros(np.shape(f)), np.zeros(np.shape(f)))

    def average(self, m: Array, v: Array) -> Array:
        return np.asarray(m + np.zeros(np.shape(v)))

    @property
    def power(self) -> float:
        return 1.0


@dataclass(frozen=True)
class Log(Link):
    r"""Effects multiply the mean.

    .. math:: f = \log \mu, \qquad E[\mu(f)] = e^{m + v/2}

    Examples
    --------
    >>> float(Log().log_mean(np.array(-800.0)))  # the mean itself underflows
    -800.0
    """

    def link(self, mu: Array) -> Array:
        with silent():
            return np.asarray(np.log(mu))

    def mean(self, f: Array) -> Array:
        with silent():
            return np.asarray(np.exp(f))

    def derivatives(self, f: Array) -> Derivatives:
        mu = self.mean(f)
        return Derivatives(mu, mu, mu)

    def log_mean(self, f: Array) -> Array:
        return np.asarray(f, dtype=float)

    def log_mean_derivatives(self, f: Array) -> Derivatives:
        return Identity().derivatives(f)

    def average(self, m: Array, v: Array) -> Array:
        return self.mean(np.asarray(m) + np.asarray(v) / 2)

    @property
    def power(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Power(Link):
    r"""A power of a positive mean, on positive scores.

    .. math:: f = \mu^p, \qquad \mu(f) = f^{1/p}, \quad f > 0

    Named: "sqrt" is p = 1/2, "inverse" p = -1 and "inverse_square" p = -2.

    Parameters
    ----------
    p : float
        The exponent; not zero, for which there is `Log`.

    Notes
    -----
    A Gaussian score may be negative. For "sqrt" μ(f) = f² goes on there, and E[f²] = m² + v. For negative p the average
    of f^{1/p} diverges at 0, and for other p a negative score has no mean: `average` is None, predictions plug in μ(m).

    Examples
    --------
    >>> Power(-1.0).name, float(Power(-1.0).mean(np.array(4.0)))
    ('inverse', 0.25)
    """

    p: float

    def __post_init__(self) -> None:
        given: Any = self.p
        if not isinstance(given, int | float | np.number) or not np.isfinite(given) or given == 0:
            raise InputError(f"the exponent of a power link is a number other than 0, not {self.p}; for 0 use Log().")

    def link(self, mu: Array) -> Array:
        with silent():
            return np.asarray(np.asarray(mu, dtype=float) ** self.p)

    def mean(self, f: Array) -> Array:
        with silent():
            return np.asarray(np.asarray(f, dtype=float) ** (1 / self.p))

    def derivatives(self, f: Array) -> Derivatives:
        f, a = np.asarray(f, dtype=float), 1 / self.p
        with silent():
            first, second, third = a * f ** (a - 1), a * (a - 1) * f ** (a - 2), a * (a - 1) * (a - 2) * f ** (a - 3)
        return Derivatives(np.asarray(first), np.asarray(second), np.asarray(third))

    def log_mean(self, f: Array) -> Array:
        with silent():
            return np.asarray(np.log(f) / self.p)

    def log_mean_derivatives(self, f: Array) -> Derivatives:
        with silent():
            step = 1 / np.asarray(f, dtype=float)
            return Derivatives(step / self.p, -(step**2) / self.p, 2 * step**3 / self.p)

    def valid(self, f: Array) -> Mask:
        return np.isfinite(f) & (np.asarray(f) > 0)

    def average(self, m: Array, v: Array) -> Array | None:
        with silent():  # a square beyond the range is inf
            return np.asarray(np.asarray(m) ** 2 + v) if self.p == 0.5 else None

    @property
    def power(self) -> float:
        return self.p

    @property
    def name(self) -> str:
        return {0.5: "sqrt", -1.0: "inverse", -2.0: "inverse_square"}.get(self.p, f"power({self.p:g})")


@dataclass(frozen=True)
class Logit(Link):
    r"""The log odds of a probability.

    .. math:: f = \log \frac{\mu}{1 - \mu}
    """

    def link(self, mu: Array) -> Array:
        return np.asarray(logit(np.asarray(mu, dtype=float)))

    def mean(self, f: Array) -> Array:
        return np.asarray(sigmoid(f))

    def derivatives(self, f: Array) -> Derivatives:
        slope = np.asarray(sigmoid(f) * sigmoid(-np.asarray(f)))
        return Derivatives(slope, -slope * np.tanh(np.asarray(f) / 2), slope * (1 - 6 * slope))

    @property
    def threshold(self) -> Likelihood:
        return thresholds.BernoulliLogit()


@dataclass(frozen=True)
class Probit(Link):
    r"""The normal quantile of a probability.

    .. math:: f = \Phi^{-1}(\mu)
    """

    def link(self, mu: Array) -> Array:
        return np.asarray(ndtri(np.asarray(mu, dtype=float)))

    def mean(self, f: Array) -> Array:
        return np.asarray(ndtr(f))

    def derivatives(self, f: Array) -> Derivatives:
        with silent():
            square = np.asarray(f, dtype=float) ** 2
            density = np.exp(-0.5 * (square + LOG_2PI))
            return Derivatives(density, times(density, -np.asarray(f)), times(density, square - 1))

    @property
    def threshold(self) -> Likelihood:
        return thresholds.BernoulliProbit()


@dataclass(frozen=True)
class Cloglog(Link):
    r"""Complementary log–log: the log rate at which the first event of a Poisson process comes.

    .. math:: f = \log(-\log(1 - \mu)), \qquad \mu(f) = 1 - \exp(-e^f)
    """

    def link(self, mu: Array) -> Array:
        with silent():
            return np.asarray(np.log(-np.log1p(-np.asarray(mu, dtype=float))))

    def mean(self, f: Array) -> Array:
        with silent():
            return np.asarray(-np.expm1(-np.exp(f)))

    def derivatives(self, f: Array) -> Derivatives:
        with silent():
            rate = np.exp(f)
            density = np.asarray(np.exp(f - rate))
            return Derivatives(density, times(density, 1 - rate), times(density, (1 - rate) ** 2 - rate))

    @property
    def threshold(self) -> Likelihood:
        return thresholds.BernoulliCloglog()


@dataclass(frozen=True)
class Loglog(Link):
    r"""Log–log: the mirror image of the complementary log–log.

    .. math:: f = -\log(-\log \mu), \qquad \mu(f) = \exp(-e^{-f})
    """

    def link(self, mu: Array) -> Array:
        with silent():
            return np.asarray(-np.log(-np.log(mu)))

    def mean(self, f: Array) -> Array:
        with silent():
            return np.asarray(np.exp(-np.exp(-np.asarray(f))))

    def derivatives(self, f: Array) -> Derivatives:
        first, second, third = Cloglog().derivatives(-np.asarray(f))
        return Derivatives(first, -second, third)

    @property
    def threshold(self) -> Likelihood:
        return thresholds.BernoulliLoglog()


@dataclass(frozen=True)
class Cauchit(Link):
    r"""The Cauchy quantile of a probability: outlying labels hardly pull.

    .. math:: f = \tan(\pi(\mu - \tfrac12)), \qquad \mu(f) = \tfrac12 + \tfrac1\pi \arctan f
    """

    def link(self, mu: Array) -> Array:
        mu = np.asarray(mu, dtype=float)
        side = np.where(mu < 0.5, -1.0, 1.0)
        with silent():  # from the nearer end, where π(μ - ½) would round
            return np.asarray(side / np.tan(np.pi * np.where(mu < 0.5, mu, 1 - mu)))

    def mean(self, f: Array) -> Array:
        return np.asarray(np.arctan2(1.0, -np.asarray(f)) / np.pi)  # no ½ to cancel with in the lower tail

    def derivatives(self, f: Array) -> Derivatives:
        with silent():
            u = 1 / (1 + np.asarray(f, dtype=float) ** 2)
        return Derivatives(u / np.pi, -2 * f * u**2 / np.pi, u**2 * (6 - 8 * u) / np.pi)

    @property
    def threshold(self) -> Likelihood:
        return thresholds.BernoulliCauchit()


def times(share: Array, factor: Array) -> Array:
    """A product that is zero where its first factor is, though the second may be infinite there."""
    return np.where(np.asarray(share) == 0, 0.0, share * factor)


POWERS: tuple[Link, ...] = (Identity(), Log(), Power(0.5), Power(-1.0), Power(-2.0))
THRESHOLDS: tuple[Link, ...] = (Logit(), Probit(), Cloglog(), Loglog(), Cauchit())
LINKS: dict[str, Link] = {link.name: link for link in POWERS + THRESHOLDS}


def resolve_link(link: "str | Link | None", family: "Family") -> Link:
    """A link by its name, by itself, or the family's own when None.

    Raises
    ------
    InputError
        If the name is not among the family's links; the message lists them. A `Link` object is taken as it is.

    Examples
    --------
    >>> from credibly.model.likelihoods.families import Poisson
    >>> resolve_link("sqrt", Poisson())
    Power(p=0.5)
    """
    if link is None:
        return family.default_link
    if isinstance(link, Link):
        return link
    if link not in family.links:
        choices = ", ".join(repr(name) for name in family.links)
        raise InputError(f"link={link!r} is not a link of the {family.name} family; choose {choices} or a Link.")
    return LINKS[link]
