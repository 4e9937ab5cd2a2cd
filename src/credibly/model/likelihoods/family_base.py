r"""The seam of every family of generalised linear models: the distribution of a target given its mean.

All are exponential dispersion families,

.. math:: p(y \mid \eta, s) = h(y, s) \, \exp\{(\eta y - b(\eta)) / s\}, \qquad \mu = b'(\eta), \quad
   \mathrm{Var}[y] = s V(\mu), \quad V(\mu) = b''(\eta)

The form of the lecture notes, (1/s) h(y/s) g(η) exp(ηy/s) with fixed functions h and g, has a *scale* for s: y/s is
distributed as y is when s = 1. For the Gaussian that is the standard deviation, with η = μ/s. Where s is the
dispersion, as here and wherever a gradient is (y - μ)/s, the first factor is not (1/s) h(y/s) and g is exp(-b(η)/s).
In both forms the factors without η depend on s, and must not be dropped when s is estimated.

Notation
--------
=====  =====================================================  ==================
y      target                                                 any shape
μ      mean, called `mu`                                      any shape
λ      log μ, called `log_mu`                                 any shape
s      dispersion; 1 where the family has none                positive
V      variance function                                      the shape of μ
=====  =====================================================  ==================
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from credibly.errors import InputError
from credibly.model.likelihoods.links import POWERS, Derivatives, Link, Mask
from credibly.numerics.arrays import Array

Dispersion = float | Array
POWER_NAMES = tuple(link.name for link in POWERS)


class Family(ABC):
    """The distribution of a target given its mean; every method is element-wise.

    Class attributes: `links` are the names of the links that make sense, `default_link` is canonical unless
    `natural_slope`, its dη/df, is None; `concave_powers` is the range of exponents p (0 for the logarithm) for which
    log p(y | f) with the link f = μᵖ is concave for every y; `mean_range` is the open interval of means.

    Examples
    --------
    >>> from credibly.families import Gamma
    >>> family: Family = Gamma()
    >>> family.name, family.default_link.name, family.variance(np.array([1.0, 3.0]))
    ('gamma', 'inverse', array([1., 9.]))
    """

    name: ClassVar[str]
    links: ClassVar[tuple[str, ...]] = POWER_NAMES
    default_link: ClassVar[Link]
    natural_slope: ClassVar[float | None] = 1.0
    has_dispersion: ClassVar[bool] = False
    concave_powers: ClassVar[tuple[float, float]]
    mean_range: ClassVar[tuple[float, float]] = (0.0, np.inf)

    @abstractmethod
    def variance(self, mu: Array) -> Array:
        """The variance function V(μ)."""

    @abstractmethod
    def log_density(self, y: Array, mu: Array, s: Dispersion = 1.0, log_mu: Array | None = None) -> Array:
        """log p(y | μ, s) with all constants; `log_mu` where it is known better than from μ, which may underflow."""

    @abstractmethod
    def log_mean_slopes(self, y: Array, mu: Array, s: Dispersion, log_mu: Array) -> Derivatives:
        """First three derivatives of log p in λ = log μ: with these nothing is divided by V, which may underflow."""

    @abstractmethod
    def log_mean_information(self, mu: Array, s: Dispersion, log_mu: Array) -> tuple[Array, Array]:
        """Fisher information μ² / (s V(μ)) about λ, and its derivative in λ."""

    def exponentials(self, y: Array, s: Dispersion) -> tuple[tuple[float, Array], ...] | None:
        """Powers p and coefficients c: log p is Σ c e^(pλ) and a line in λ = log μ; None where it is no such sum.

        With them the average over a normal λ is known in closed form.
        """
        return None

    @abstractmethod
    def unit_deviance(self, y: Array, mu: Array) -> Array:
        """2 s {log p(y | μ = y) - log p(y | μ)}, which does not depend on s."""

    @abstractmethod
    def check_targets(self, y: Array) -> None:
        """Raise `InputError` if a target cannot come from this family."""

    @abstractmethod
    def starting_mean(self, y: Array, weight: Array) -> Array:
        """Means near the targets and inside the range, from which iterations start (those of R)."""

    @abstractmethod
    def distribution(self, mu: Array, s: Dispersion = 1.0) -> Any:
        """The same distribution as a frozen one of `scipy.stats`."""

    def cdf(self, y: Array, mu: Array, s: Dispersion = 1.0) -> Array:
        """P(target ≤ y)."""
        return np.asarray(self.distribution(mu, s).cdf(y))

    def quantile(self, q: Array, mu: Array, s: Dispersion = 1.0) -> Array:
        """The smallest y with P(target ≤ y) ≥ q."""
        return np.asarray(self.distribution(mu, s).ppf(q), dtype=float)

    def sample(self, rng: np.random.Generator, mu: Array, s: Dispersion = 1.0) -> Array:
        """One draw for each mean."""
        shape = np.broadcast_shapes(np.shape(mu), np.shape(s))
        return np.asarray(self.distribution(mu, s).rvs(size=shape, random_state=rng), dtype=float)

    def valid_mean(self, mu: Array) -> Mask:
        """Whether the mean is inside the range of the family."""
        return (np.asarray(mu) > self.mean_range[0]) & (np.asarray(mu) < self.mean_range[1])


def refuse(y: Array, bad: Mask, family: str, rule: str, what: str = "targets") -> None:
    """Raise an `InputError` that says how many entries break the rule, and which is the first."""
    bad = np.ravel(bad)
    if not bad.any():
        return
    first = int(np.argmax(bad))
    count = f"{int(bad.sum())} of {bad.size} {'is' if bad.sum() == 1 else 'are'} not"
    raise InputError(
        f"{what} of the {family} family must be {rule}: {count}, the first in row {first} with {np.ravel(y)[first]:g}."
    )


def check_finite(y: Array, family: str, what: str = "targets") -> None:
    """Raise unless all are finite."""
    refuse(y, ~np.isfinite(y), family, "finite numbers", what)


def check_counts(y: Array, family: str, what: str = "targets") -> None:
    """Raise unless all are whole numbers and none is negative."""
    check_finite(y, family, what)
    refuse(y, np.asarray(y) < 0, family, "counts, 0 or more", what)
    refuse(y, np.asarray(y) != np.floor(y), family, "whole numbers", what)
