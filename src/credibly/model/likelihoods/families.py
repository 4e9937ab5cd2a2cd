"""The families of generalised linear models; `family_base` says what each method means.

Notation
--------
=====  =====================================================  ==================
y      target                                                 any shape
μ      mean, called `mu`                                      any shape
λ      log μ, called `log_mu`                                 any shape
s      dispersion; 1 where the family has none                positive
η      natural parameter                                      the shape of μ
r      y / μ
=====  =====================================================  ==================
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln

from credibly.errors import InputError
from credibly.model.likelihoods.family_base import Dispersion, Family, check_counts, check_finite, refuse
from credibly.model.likelihoods.links import Derivatives, Identity, Log, Power, silent, times
from credibly.model.likelihoods.proportions import Bernoulli, Binomial
from credibly.numerics.arrays import Array
from credibly.numerics.special import LOG_2PI, sigmoid, softplus

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Binomial",
    "Family",
    "Gamma",
    "Gaussian",
    "InverseGaussian",
    "NegativeBinomial",
    "Poisson",
    "resolve_family",
]


@dataclass(frozen=True)
class Gaussian(Family):
    r"""Real targets; the dispersion is the variance σ².

    .. math:: p(y) = (2\pi s)^{-1/2} \exp\{-(y - \mu)^2 / 2s\}, \qquad V = 1, \quad \eta = \mu

    Examples
    --------
    >>> round(float(Gaussian().log_density(np.array(1.0), np.array(1.0), s=4.0)), 6)
    -1.612086
    """

    name = "gaussian"
    default_link = Identity()
    has_dispersion = True
    concave_powers = (1.0, 1.0)
    mean_range = (-np.inf, np.inf)

    def variance(self, mu: Array) -> Array:
        return np.ones(np.shape(mu))

    def log_density(self, y: Array, mu: Array, s: Dispersion = 1.0, log_mu: Array | None = None) -> Array:
        return np.asarray(-0.5 * ((y - mu) ** 2 / s + np.log(s) + LOG_2PI))

    def log_mean_slopes(self, y: Array, mu: Array, s: Dispersion, log_mu: Array) -> Derivatives:
        return Derivatives((y - mu) * mu / s, (y - 2 * mu) * mu / s, (y - 4 * mu) * mu / s)

    def log_mean_information(self, mu: Array, s: Dispersion, log_mu: Array) -> tuple[Array, Array]:
        return mu**2 / s, 2 * mu**2 / s

    def exponentials(self, y: Array, s: Dispersion) -> tuple[tuple[float, Array], ...]:
        return (1.0, np.asarray(y / s)), (2.0, np.asarray(-0.5 / s))

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        return np.asarray((y - mu) ** 2)

    def check_targets(self, y: Array) -> None:
        check_finite(y, self.name)

    def starting_mean(self, y: Array, weight: Array) -> Array:
        return np.asarray(y, dtype=float)

    def distribution(self, mu: Array, s: Dispersion = 1.0) -> Any:
        return stats.norm(mu, np.sqrt(s))


@dataclass(frozen=True)
class Gamma(Family):
    r"""Positive targets whose standard deviation is a fixed share of their mean; the shape is k = 1/s.

    .. math:: p(y) = \frac{1}{y\,\Gamma(k)} (k r)^k e^{-k r}, \quad r = y / \mu, \qquad V = \mu^2, \quad \eta = -1/\mu

    Examples
    --------
    >>> float(Gamma().log_density(np.array(3.0), np.array(1.0), s=1.0))  # an exponential distribution
    -3.0
    """

    name = "gamma"
    default_link = Power(-1.0)
    natural_slope = -1.0
    has_dispersion = True
    concave_powers = (-1.0, 0.0)

    def variance(self, mu: Array) -> Array:
        return np.asarray(mu) ** 2

    def log_density(self, y: Array, mu: Array, s: Dispersion = 1.0, log_mu: Array | None = None) -> Array:
        k = 1 / np.asarray(s, dtype=float)
        with silent():
            log_ratio = np.log(y) - (np.log(mu) if log_mu is None else log_mu)
            return np.asarray(k * (log_ratio + 1 - y / mu) - np.log(y) + stirling(k))

    def log_mean_slopes(self, y: Array, mu: Array, s: Dispersion, log_mu: Array) -> Derivatives:
        r = y / mu
        return Derivatives((r - 1) / s, -r / s, r / s)

    def log_mean_information(self, mu: Array, s: Dispersion, log_mu: Array) -> tuple[Array, Array]:
        return np.ones(np.shape(mu)) / s, np.zeros(np.shape(mu))

    def exponentials(self, y: Array, s: Dispersion) -> tuple[tuple[float, Array], ...]:
        return ((-1.0, np.asarray(-y / s)),)

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        with silent():
            r = y / mu
            return np.asarray(2 * (r - 1 - np.log(r)))

    def check_targets(self, y: Array) -> None:
        check_finite(y, self.name)
        refuse(y, y <= 0, self.name, "positive")

    def starting_mean(self, y: Array, weight: Array) -> Array:
        return np.asarray(y, dtype=float)

    def distribution(self, mu: Array, s: Dispersion = 1.0) -> Any:
        return stats.gamma(1 / np.asarray(s), scale=s * mu)


@dataclass(frozen=True)
class InverseGaussian(Family):
    r"""Positive targets with a heavy upper tail, such as first-passage times; the shape is 1/s.

    .. math:: p(y) = (2\pi s y^3)^{-1/2} \exp\{-(r - 1)^2 / (2 s y)\}, \qquad V = \mu^3, \quad \eta = -1/(2\mu^2)

    Examples
    --------
    >>> round(float(InverseGaussian().log_density(np.array(1.0), np.array(1.0), s=1.0)), 6)
    -0.918939
    """

    name = "inverse_gaussian"
    default_link = Power(-2.0)
    natural_slope = -0.5
    has_dispersion = True
    concave_powers = (-2.0, -1.0)

    def variance(self, mu: Array) -> Array:
        return np.asarray(mu) ** 3

    def log_density(self, y: Array, mu: Array, s: Dispersion = 1.0, log_mu: Array | None = None) -> Array:
        with silent():
            return np.asarray(-0.5 * (self.unit_deviance(y, mu) / s + LOG_2PI + np.log(s) + 3 * np.log(y)))

    def log_mean_slopes(self, y: Array, mu: Array, s: Dispersion, log_mu: Array) -> Derivatives:
        r, scale = y / mu, s * mu
        return Derivatives((r - 1) / scale, (1 - 2 * r) / scale, (4 * r - 1) / scale)

    def log_mean_information(self, mu: Array, s: Dispersion, log_mu: Array) -> tuple[Array, Array]:
        return 1 / (s * mu), -1 / (s * mu)

    def exponentials(self, y: Array, s: Dispersion) -> tuple[tuple[float, Array], ...]:
        return (-2.0, np.asarray(-0.5 * y / s)), (-1.0, np.asarray(1 / s))

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        with silent():
            return np.asarray(((y / mu - 1) / np.sqrt(y)) ** 2)  # the square alone could overflow

    def check_targets(self, y: Array) -> None:
        check_finite(y, self.name)
        refuse(y, y <= 0, self.name, "positive")

    def starting_mean(self, y: Array, weight: Array) -> Array:
        return np.asarray(y, dtype=float)

    def distribution(self, mu: Array, s: Dispersion = 1.0) -> Any:
        return stats.invgauss(s * mu, scale=1 / np.asarray(s))


@dataclass(frozen=True)
class Poisson(Family):
    r"""Counts of independent events.

    .. math:: p(y) = \mu^y e^{-\mu} / y!, \qquad V = \mu, \quad \eta = \log \mu

    Examples
    --------
    >>> float(Poisson().log_density(np.array(0.0), np.array(2.5)))
    -2.5
    """

    name = "poisson"
    default_link = Log()
    concave_powers = (0.0, 1.0)

    def variance(self, mu: Array) -> Array:
        return np.asarray(mu, dtype=float)

    def log_density(self, y: Array, mu: Array, s: Dispersion = 1.0, log_mu: Array | None = None) -> Array:
        y = np.asarray(y, dtype=float)
        with silent():  # of large counts the three terms cancel: half the deviance, and what Stirling leaves of y!
            zero = y == 0
            at_mean = np.where(zero, 0.0, stirling(np.where(zero, 1.0, y)) - np.log(np.where(zero, 1.0, y)))
            return np.asarray(at_mean - excess(y, mu, log_mu))

    def log_mean_slopes(self, y: Array, mu: Array, s: Dispersion, log_mu: Array) -> Derivatives:
        return Derivatives(y - mu, -mu, -mu)

    def log_mean_information(self, mu: Array, s: Dispersion, log_mu: Array) -> tuple[Array, Array]:
        return mu, mu

    def exponentials(self, y: Array, s: Dispersion) -> tuple[tuple[float, Array], ...]:
        return ((1.0, np.array(-1.0)),)

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        with silent():
            return 2 * excess(y, mu)

    def check_targets(self, y: Array) -> None:
        check_counts(y, self.name)

    def starting_mean(self, y: Array, weight: Array) -> Array:
        return np.asarray(y) + 0.1

    def distribution(self, mu: Array, s: Dispersion = 1.0) -> Any:
        return stats.poisson(mu)


@dataclass(frozen=True)
class NegativeBinomial(Family):
    r"""Counts that vary more than a Poisson's: a Poisson whose rate is gamma distributed.

    .. math:: p(y) = \frac{\Gamma(y + k)}{\Gamma(k)\, y!} \frac{(\alpha\mu)^y}{(1 + \alpha\mu)^{y + k}},
       \quad k = 1/\alpha, \qquad V = \mu + \alpha\mu^2

    The default link is the logarithm, as everywhere; the canonical one, log(αμ / (1 + αμ)), is not offered.

    Parameters
    ----------
    dispersion : float
        α; the Poisson is its limit at zero. It is not a dispersion s in the sense of the other families (the density
        with s = 1 is meant), but a parameter of the variance function.

    Examples
    --------
    >>> float(NegativeBinomial(0.5).variance(np.array(2.0)))
    4.0
    """

    name = "negative_binomial"
    default_link = Log()
    natural_slope = None
    concave_powers = (0.0, 0.0)

    dispersion: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.dispersion < np.inf:
            raise InputError(f"the dispersion of the negative binomial is a positive number, not {self.dispersion}.")

    def variance(self, mu: Array) -> Array:
        return mu + self.dispersion * np.asarray(mu) ** 2

    def log_density(self, y: Array, mu: Array, s: Dispersion = 1.0, log_mu: Array | None = None) -> Array:
        y, k = np.asarray(y, dtype=float), np.array(1 / self.dispersion)
        with silent():  # of large counts the terms cancel: half the deviance, and what Stirling leaves of y!
            zero, some = y == 0, np.where(y == 0, 1.0, y)
            at_mean = np.where(zero, 0.0, stirling(k) + stirling(some) - stirling(some + k) - np.log(some))
            return np.asarray(at_mean - self._excess(y, mu, log_mu))

    def _excess(self, y: Array, mu: Array, log_mu: Array | None = None) -> Array:
        """Half the unit deviance: y and k against what n = y + k counts have of either, np and nq (Loader 2000)."""
        k, odds = np.array(1 / self.dispersion), self.dispersion * np.asarray(mu, dtype=float)
        z, n = (np.log(mu) if log_mu is None else log_mu) + np.log(self.dispersion), y + k
        of_y = excess(y, n / (1 + 1 / odds), np.log(n) - softplus(-z))
        of_k = excess(k, n / (1 + odds), np.log(n) - softplus(z))
        return of_y + of_k

    def log_mean_slopes(self, y: Array, mu: Array, s: Dispersion, log_mu: Array) -> Derivatives:
        k, p, q = 1 / self.dispersion, *self._shares(log_mu)
        return Derivatives(y * q - k * p, -(y + k) * p * q, -(y + k) * p * q * (q - p))

    def log_mean_information(self, mu: Array, s: Dispersion, log_mu: Array) -> tuple[Array, Array]:
        k, p, q = 1 / self.dispersion, *self._shares(log_mu)
        return k * p, k * p * q

    def _shares(self, log_mu: Array) -> tuple[Array, Array]:
        """αμ / (1 + αμ) and 1 / (1 + αμ)."""
        z = log_mu + np.log(self.dispersion)
        return np.asarray(sigmoid(z)), np.asarray(sigmoid(-z))

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        with silent():
            return 2 * self._excess(np.asarray(y, dtype=float), mu)

    def check_targets(self, y: Array) -> None:
        check_counts(y, self.name)

    def starting_mean(self, y: Array, weight: Array) -> Array:
        return np.where(np.asarray(y) == 0, 1 / 6, y)

    def distribution(self, mu: Array, s: Dispersion = 1.0) -> Any:
        return stats.nbinom(1 / self.dispersion, 1 / (1 + self.dispersion * np.asarray(mu)))


def excess(y: Array, mu: Array, log_mu: Array | None = None) -> Array:
    """y log(y/μ) - y + μ ≥ 0, without cancellation where y is near μ; `log_mu` where μ may underflow.

    With d = (y - μ)/(y + μ) it is (y + μ){(1 + d) artanh(d) - d}, whose series starts at d² (Loader 2000).
    """
    y, mu = np.asarray(y, dtype=float), np.asarray(mu, dtype=float)
    d = (y - mu) / (y + mu)
    near = np.abs(d) < 0.1
    square = np.where(near, d, 0.0) ** 2
    odd = np.zeros_like(d)
    for k in range(19, 1, -2):  # artanh(d)/d - 1 = d²/3 + d⁴/5 + …, to d¹⁸: 1e-19
        odd = square * (1 / k + odd)
    series = (y + mu) * np.where(near, d, 0.0) * (d + (1 + d) * odd)
    apart = times(y, np.log(np.where(y > 0, y, 1.0)) - (np.log(mu) if log_mu is None else log_mu)) - (y - mu)
    return np.where(near, series, apart)


def stirling(k: Array) -> Array:
    """k log k - k - log Γ(k); from 15 on by Stirling's series, because there the three terms cancel."""
    k = np.asarray(k, dtype=float)
    direct = k * np.log(k) - k - gammaln(k)
    u = 1 / k**2
    series = 0.5 * np.log(k) - 0.5 * LOG_2PI - (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u * (1 / 1680 - u / 1188)))) / k
    return np.where(k < 15, direct, series)


EVERY = (Gaussian(), Bernoulli(), Binomial(), Poisson(), Gamma(), InverseGaussian(), NegativeBinomial())
FAMILIES: dict[str, Family] = {family.name: family for family in EVERY}


def resolve_family(family: Any) -> Family:
    """A family by its name, or by itself.

    Raises
    ------
    InputError
        If there is no such family; the message lists them.

    Examples
    --------
    >>> resolve_family("poisson")
    Poisson()
    """
    if isinstance(family, Family):
        return family
    if not isinstance(family, str) or family not in FAMILIES:
        choices = ", ".join(repr(name) for name in FAMILIES)
        raise InputError(f"family={family!r} is not known; choose {choices} or a Family object.")
    return FAMILIES[family]
