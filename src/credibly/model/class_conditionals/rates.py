"""Counts and waiting times with a rate: Poisson, exponential and gamma columns, with Gamma beliefs about the rate.

Notation
--------
====  ===============================================================  ======
n, s  weight and sum of a column in a class                            (K, d)
h     sum of log h(x), the part of the log density without the rate    (K, d)
a, b  posterior shape and rate of λ ~ Gamma(a, b)                      (K, d)
====  ===============================================================  ======
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammaincinv, gammaln

from credibly.errors import InputError
from credibly.model.class_conditionals.base import (
    Beliefs,
    Density,
    Divisor,
    Estimates,
    Linear,
    NotDetermined,
    Prior,
)
from credibly.model.class_conditionals.columns import (
    ColumnFamily,
    cell_weights,
    cells,
    not_counts,
    observed,
    one_each,
    per_column,
    refuse_values,
    zero_filled,
)
from credibly.model.class_conditionals.probabilities import refuse_empty
from credibly.model.class_conditionals.statistics import Additive, group_sums, membership
from credibly.model.conjugate_priors import ConjugatePrior, Reference
from credibly.model.conjugate_priors import Gamma as GammaPrior
from credibly.model.priors import positive
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import DesignMatrix, dense
from credibly.numerics.special import log_rising_factorial

LogDensity: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True)
class RateSums(Additive):
    """Weights, sums and log base measures of every column in every class, (K, d) each."""

    weight: Array
    total: Array
    log_base: Array

    def possible(self) -> Self:
        """Weights and sums are not negative; the base may be anything, and is nothing without rows."""
        Additive.possible(replace(self, log_base=np.zeros_like(self.log_base)))
        return replace(self, log_base=np.where(self.weight > 0, self.log_base, 0.0))


class RateFamily(ColumnFamily[RateSums]):
    """Columns whose log density is log h(x) + events(x) log λ - time(x) λ.

    A Poisson column sees x events in a time of one, an exponential column one event in a time of x, a gamma column
    `shape` events in a time of x: one conjugate update serves all three.
    """

    counts: bool
    """Whether x counts events (Poisson) or is the time for a fixed number of them."""

    events: float
    """Events per row where x is a time."""

    @abstractmethod
    def log_base(self, x: Array) -> Array:
        """log h(x)."""

    @abstractmethod
    def log_predictive(self, x: Array, a: Array, b: Array) -> Array:
        """log p(x) with λ ~ Gamma(a, b) integrated out."""

    @abstractmethod
    def draw_rows(self, rng: np.random.Generator, rate: Array) -> Array:
        """One value for every rate."""

    def exposure(self, weight: Array, total: Array) -> tuple[Array, Array]:
        """Events and time: what is added to the shape and the rate of the belief."""
        return (total, weight) if self.counts else (self.events * weight, total)

    def summarise(self, X: DesignMatrix, codes: Codes, weight: Array | None, n_classes: int) -> RateSums:
        table = dense(X)
        seen = observed(table)
        filled = np.asarray(zero_filled(table, seen))
        member = membership(codes, weight, n_classes)
        with np.errstate(divide="ignore"):
            base = self.log_base(table) if seen is None else np.where(seen, self.log_base(table), 0.0)
        total = cell_weights(member, seen, table.shape[1])
        return RateSums(total, group_sums(member, filled), group_sums(member, base))

    def reference_prior(self) -> Reference:
        return Reference()

    def _hyper(self, prior: Prior, d: int) -> tuple[Array, Array]:
        given = one_each(prior, (GammaPrior, Reference), d, "Gamma(shape, rate)")
        if isinstance(prior, GammaPrior):
            a0, b0 = per_column(prior, ("shape", "rate"), d)
            return a0, b0
        pairs = [
            self._jeffreys if isinstance(item, Reference) else per_column(item, ("shape", "rate"), 1)[:, 0]
            for item in given
        ]
        a0, b0 = np.array(pairs, dtype=float).T
        return a0, b0

    @property
    def _jeffreys(self) -> tuple[float, float]:
        """√information is λ^(-1/2) for a Poisson rate, 1/λ for that of a time."""
        return (0.5, 0.0) if self.counts else (0.0, 0.0)

    def posterior(self, statistics: RateSums, prior: Prior) -> GammaBeliefs:
        a0, b0 = self._hyper(prior, statistics.weight.shape[1])
        events, time = self.exposure(statistics.weight, statistics.total)
        a, b = a0 + events, b0 + time
        bad = (a <= 0) | (b <= 0)
        if bad.any():
            code = int(np.flatnonzero(bad.any(axis=1))[0])
            raise NotDetermined("has no values under prior='reference'", code, np.flatnonzero(bad[code]))
        if (b0 == 0).any():
            return GammaBeliefs(self, a, b)
        parts = gammaln(a) - gammaln(a0) + a0 * np.log(b0) - a * np.log(b)
        return GammaBeliefs(self, a, b, float(parts.sum() + statistics.log_base.sum()))

    def plug_in(self, statistics: RateSums, divisor: Divisor) -> Rates:
        refuse_empty(statistics.weight)
        events, time = self.exposure(statistics.weight, statistics.total)
        if (time == 0).any():
            code = int(np.flatnonzero((time == 0).any(axis=1))[0])
            raise NotDetermined("has nothing but zeros", code, np.flatnonzero(time[code] == 0))
        return Rates(self, events / time)

    def log_density(self, x: Array, rate: Array) -> Array:
        """log p(x | λ)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_rate = np.log(rate)
            if self.counts:
                return np.where(x > 0, x * log_rate, 0.0 * x) - rate + self.log_base(x)
            return self.events * log_rate - rate * x + self.log_base(x)


def _scale_prior(family: RateFamily, pooled: RateSums) -> list[ConjugatePrior]:
    """Gamma(1, ·) whose mean is the rate of all rows, so that units do not matter."""
    events, time = family.exposure(pooled.weight, pooled.total)
    # No event in any row: as if there had been one; no time: a column of zeros, which says nothing of its unit.
    rate = np.where(time > 0, time / np.where(events > 0, events, 1.0), 1.0)[0]
    return [GammaPrior(1.0, float(value) if value > 0 else 1.0) for value in rate]


@dataclass(frozen=True)
class Poisson(RateFamily):
    r"""Columns of counts, independent given the class.

    .. math:: p(x \mid c) = \prod_j \frac{λ_{cj}^{x_j} e^{-λ_{cj}}}{x_j!}, \qquad η = \log λ

    Averaged over a Gamma belief about the rate it is the negative binomial.

    Examples
    --------
    >>> Poisson()
    Poisson()
    """

    name = "poisson"
    counts = True
    events = 1.0

    def check(self, X: DesignMatrix, names: Sequence[str]) -> None:
        refuse_values(
            X, not_counts(cells(X)), names, "A Poisson column holds counts, whole numbers that are not negative"
        )

    def log_base(self, x: Array) -> Array:
        return -gammaln(x + 1)

    def empirical_prior(self, pooled: RateSums) -> list[ConjugatePrior]:
        return _scale_prior(self, pooled)

    def log_predictive(self, x: Array, a: Array, b: Array) -> Array:
        return np.asarray(log_rising_factorial(a, x, 1 + b) - gammaln(x + 1) - a * np.log1p(1 / b))

    def draw_rows(self, rng: np.random.Generator, rate: Array) -> Array:
        return rng.poisson(rate).astype(float)


class TimeFamily(RateFamily):
    """Positive columns: the time that a fixed number of events takes."""

    counts = False

    def log_base(self, x: Array) -> Array:
        if self.events == 1:
            return np.zeros_like(x)
        return (self.events - 1) * np.log(x) - gammaln(self.events)

    def empirical_prior(self, pooled: RateSums) -> list[ConjugatePrior]:
        return _scale_prior(self, pooled)

    def log_predictive(self, x: Array, a: Array, b: Array) -> Array:
        k = self.events
        constant = log_rising_factorial(a, k, b)
        return np.asarray(constant - (a + k) * np.log1p(x / b) + self.log_base(x))

    def draw_rows(self, rng: np.random.Generator, rate: Array) -> Array:
        return rng.standard_gamma(self.events, size=rate.shape) / rate


@dataclass(frozen=True)
class Exponential(TimeFamily):
    r"""Columns of waiting times, independent given the class.

    .. math:: p(x \mid c) = \prod_j λ_{cj} e^{-λ_{cj} x_j}, \qquad η = -λ

    Examples
    --------
    >>> Exponential()
    Exponential()
    """

    name = "exponential"
    events = 1.0

    def check(self, X: DesignMatrix, names: Sequence[str]) -> None:
        refuse_values(X, cells(X) < 0, names, "An exponential column holds numbers that are not negative")


@dataclass(frozen=True)
class Gamma(TimeFamily):
    r"""Positive columns with a gamma distribution of known shape, independent given the class.

    .. math:: p(x \mid c) = \prod_j \frac{λ_{cj}^k}{Γ(k)} x_j^{k - 1} e^{-λ_{cj} x_j}, \qquad η = -λ

    Parameters
    ----------
    shape : float, optional
        k; one is the exponential distribution. None: found when the model is fitted, by maximum likelihood with a rate
        for every class, and known from then on.

    Examples
    --------
    >>> Gamma(shape=2.0)
    Gamma(shape=2.0)
    """

    shape: float | None = None
    name = "gamma"

    def __post_init__(self) -> None:
        if self.shape is not None:
            positive(self.shape, "shape of Gamma")

    @property
    def events(self) -> float:  # type: ignore[override]  # a constant of the other families, an argument here
        """The shape: a sum of so many exponential times."""
        if self.shape is None:
            raise InputError("The shape of Gamma() is not known yet; give Gamma(shape=...).")
        return float(self.shape)

    def check(self, X: DesignMatrix, names: Sequence[str]) -> None:
        table = dense(X)  # zeros that a sparse table does not store are values like others
        refuse_values(table, table <= 0, names, "A gamma column holds positive numbers")


def gamma_shape(log_gap: float) -> float:
    """The shape k with log k - ψ(k) = log_gap, the average of log E[x] - E[log x] over classes."""
    if not log_gap > 0:
        raise NotDetermined("have one value only, so the shape of a gamma column cannot be found;")
    start = (3 - log_gap + np.sqrt((log_gap - 3) ** 2 + 24 * log_gap)) / (12 * log_gap)  # Minka 2002, eq. 9
    return float(brentq(lambda k: np.log(k) - digamma(k) - log_gap, start / 2, start * 2, xtol=1e-14 * start))


@dataclass(frozen=True)
class Rates(Density[RateSums]):
    """Densities with known rates."""

    family: RateFamily
    rate: Array

    def log_density(self, X: DesignMatrix) -> Array:
        return _summed(dense(X), [partial(self.family.log_density, rate=rate) for rate in self.rate])

    def log_likelihood(self, statistics: RateSums) -> float:
        events, time = self.family.exposure(statistics.weight, statistics.total)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(events > 0, events * np.log(self.rate), 0.0)
        return float((logs - time * self.rate + statistics.log_base).sum())

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        return self.family.draw_rows(rng, self.rate[codes])

    def linear(self) -> Linear | None:
        if not self.family.counts:
            return Linear(-self.rate, self.family.events * np.log(self.rate).sum(axis=1))
        return Linear(np.log(self.rate), -self.rate.sum(axis=1)) if (self.rate > 0).all() else None

    def center(self) -> Array:
        return self.rate if self.family.counts else self.family.events / self.rate

    def spread(self) -> Array:
        return np.sqrt(self.rate) if self.family.counts else np.sqrt(self.family.events) / self.rate


def _summed(X: Array, per_class: Sequence[LogDensity]) -> Array:
    """Sums over observed columns of an element-wise log density of every class, (n, K)."""
    seen = observed(X)
    out = np.empty((len(X), len(per_class)))
    for c, log_density in enumerate(per_class):
        terms = log_density(X)
        out[:, c] = (terms if seen is None else np.where(seen, terms, 0.0)).sum(axis=1)
    return out


@dataclass(frozen=True)
class GammaBeliefs(Beliefs[RateSums]):
    """λ_cj ~ Gamma(a_cj, b_cj)."""

    family: RateFamily
    a: Array
    b: Array
    log_marginal: float = np.nan

    def _each(self) -> list[tuple[Array, Array]]:
        return list(zip(self.a, self.b, strict=True))

    def log_predictive(self, X: DesignMatrix) -> Array:
        return _summed(dense(X), [partial(self.family.log_predictive, a=a, b=b) for a, b in self._each()])

    def log_expected(self, X: DesignMatrix) -> Array:
        def expected(a: Array, b: Array) -> LogDensity:
            log_rate, rate = digamma(a) - np.log(b), a / b
            if self.family.counts:
                return lambda x: x * log_rate - rate + self.family.log_base(x)
            return lambda x: self.family.events * log_rate - rate * x + self.family.log_base(x)

        return _summed(dense(X), [expected(a, b) for a, b in self._each()])

    def draw(self, rng: np.random.Generator) -> Rates:
        return Rates(self.family, rng.standard_gamma(self.a) / self.b)

    def expectation(self) -> Rates:
        return Rates(self.family, self.a / self.b)

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        return self.family.draw_rows(rng, rng.standard_gamma(self.a[codes]) / self.b[codes])

    def estimates(self, level: float) -> Estimates:
        """Of E[x | c]: the rate itself, or events over the rate, whose mean exists from a > 1 and sd from a > 2."""
        low, high = (gammaincinv(self.a, q) / self.b for q in (0.5 - level / 2, 0.5 + level / 2))
        if self.family.counts:
            return Estimates(self.a / self.b, np.sqrt(self.a) / self.b, low, high)
        k = self.family.events
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(self.a > 1, k * self.b / (self.a - 1), np.inf)
            sd = np.where(self.a > 2, mean / np.sqrt(self.a - 2), np.inf)
        return Estimates(mean, sd, k / high, k / low)
