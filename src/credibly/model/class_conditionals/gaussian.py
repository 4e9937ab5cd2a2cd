"""Gaussian columns, independent given the class, with a variance each or one for all columns of a class.

Notation
--------
=======  ============================================================  =======
n, x̄, S  weight, mean and scatter of a column in a class               (K, d)
m, κ     posterior mean of a centre and its strength                   (K, d)
ψ, ν     scale and degrees of freedom of a variance: ψ/σ² ~ χ²(ν)      (K, d), (K, 1) where it is spherical
=======  ============================================================  =======
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import digamma, gammaln

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
from credibly.model.class_conditionals.columns import ColumnFamily, cell_weights, observed, one_each, zero_filled
from credibly.model.class_conditionals.statistics import (
    REMOVAL_ROUNDING,
    Statistics,
    apart,
    deviations,
    group_means,
    group_sums,
    membership,
    refuse_impossible,
    refuse_too_many,
    removal_rounding,
    taken,
    together,
)
from credibly.model.class_conditionals.student import student_estimates
from credibly.model.conjugate_priors import ConjugatePrior, NormalInverseWishart, Reference
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import DesignMatrix, dense, scratch
from credibly.numerics.special import LOG_2PI, log_rising_factorial

MEAN_STRENGTH = 0.01  # of the empirical prior: a hundredth of a row
DOF = 3.0  # of the empirical prior: d + 2 with d = 1


@dataclass(frozen=True)
class Moments(Statistics):
    """Weights, means and scatters of every column in every class, (K, d) each."""

    weight: Array
    mean: Array
    scatter: Array

    def merge(self, other: Self) -> Self:
        both = together(self.weight, self.mean, other.weight, other.mean)
        return type(self)(both.weight, both.mean, self.scatter + other.scatter + both.factor * both.gap**2)

    def remove(self, other: Self) -> Self:
        refuse_too_many(self.weight, other.weight)
        left = apart(self.weight, self.mean, other.weight, other.mean)
        scatter = self.scatter - other.scatter - left.factor * left.gap**2
        rounding = removal_rounding(self.scatter, left, self.mean, other.mean)
        if (scatter < -rounding - REMOVAL_ROUNDING * self.scatter).any():
            refuse_impossible("a variance would be negative")
        # A scatter within the rounding of the sums it is the difference of is none: one row, or equal ones.
        nothing = (left.weight == 0) | (scatter <= rounding)
        return type(self)(left.weight, left.mean, np.where(nothing, 0.0, scatter))

    def take(self, order: Codes) -> Self:
        return type(self)(*(taken(values, order) for values in self.arrays()))

    def pooled(self) -> Self:
        n = self.weight.sum(axis=0, keepdims=True)
        total = (self.weight * self.mean).sum(axis=0, keepdims=True)
        mean = np.divide(total, n, out=np.zeros_like(total), where=n > 0)
        between = (self.weight * (self.mean - mean) ** 2).sum(axis=0, keepdims=True)
        return type(self)(n, mean, self.scatter.sum(axis=0, keepdims=True) + between)

    def change(self, before: Self) -> float:
        """Of weights relatively, of means and scatters in units of the spread within classes."""
        total = self.weight.sum(axis=0)
        total = np.where(total > 0, total, 1.0)
        spread = np.sqrt(self.scatter.sum(axis=0) / total)
        spread = np.where(spread > 0, spread, 1.0)
        gaps = (
            (self.weight - before.weight) / total,
            (self.mean - before.mean) / spread,
            (self.scatter - before.scatter) / (spread**2 * total),
        )
        return float(max(np.abs(gap).max(initial=0.0) for gap in gaps))

    @property
    def variance(self) -> Array:
        """Divisor n; zero for columns without values."""
        return np.divide(self.scatter, self.weight, out=np.zeros_like(self.scatter), where=self.weight > 0)


@dataclass(frozen=True)
class Gaussian(ColumnFamily[Moments]):
    r"""Normally distributed columns, independent given the class.

    .. math:: p(x \mid c) = \prod_j N(x_j \mid μ_{cj}, σ²_{cj}) =
              \prod_j \frac{1}{\sqrt{2π}} g(η_{cj}) \exp(η_{cj}^T (x_j, x_j²)), \quad
              η = (μ/σ², -1/(2σ²)), \; g(η) = \sqrt{-2η_2} \exp(η_1² / (4η_2))

    The conjugate prior of a column is `NormalInverseWishart` with d = 1.

    References
    ----------
    Murphy 2012, sec. 4.6.3.8.

    Examples
    --------
    >>> Gaussian()
    Gaussian()
    """

    name = "gaussian"
    _spherical = False  # a plain class attribute: not part of the constructor

    def summarise(self, X: DesignMatrix, codes: Codes, weight: Array | None, n_classes: int) -> Moments:
        table = dense(X)
        seen = observed(table)
        member = membership(codes, weight, n_classes)
        total = cell_weights(member, seen, table.shape[1])
        mean = group_means(member, np.asarray(zero_filled(table, seen)), total)
        D = deviations(table, mean, codes)
        mean = mean + group_means(member, D if seen is None else np.where(seen, D, 0.0), total)  # once more, near zero
        D = deviations(table, mean, codes)
        D *= D
        scatter = group_sums(member, D if seen is None else np.where(seen, D, 0.0))
        return Moments(total, mean, scatter)

    def empirical_prior(self, pooled: Moments) -> list[ConjugatePrior]:
        variance = pooled.variance
        scale = np.where(variance > 0, variance, 1.0)  # a column that is constant, or never observed
        return [
            NormalInverseWishart(float(m), MEAN_STRENGTH, float(s), DOF)
            for m, s in zip(pooled.mean[0], scale[0], strict=True)
        ]

    def reference_prior(self) -> Reference:
        return Reference()

    def _hyper(self, prior: Prior, d: int) -> tuple[Array, Array, Array, Array]:
        """m₀, κ₀, ψ₀, ν₀, one per column; κ₀ = 0 for no opinion."""
        expected = "NormalInverseWishart(mean, mean_strength, scale, dof) with one number per column, d = 1"
        if isinstance(prior, NormalInverseWishart):
            return _columnwise(prior, d, expected)
        given = one_each(prior, (NormalInverseWishart, Reference), d, expected)
        rows = []
        for item in given:
            if isinstance(item, Reference):
                rows.append([0.0, 0.0, 0.0, 0.0])
                continue
            rows.append([float(number[0]) for number in _columnwise(item, 1, expected)])
        m0, k0, p0, v0 = np.array(rows).T
        return m0, k0, p0, v0

    def posterior(self, statistics: Moments, prior: Prior) -> GammaNormalBeliefs:
        n, xbar, S = statistics.arrays()
        m0, k0, p0, v0 = self._hyper(prior, xbar.shape[1])
        both = together(np.broadcast_to(k0, n.shape), np.broadcast_to(m0, n.shape), n, xbar)
        scale, dof = S + both.factor * both.gap**2, n - (k0 == 0)  # a mean without a prior costs a degree of freedom
        if self._spherical:
            if np.ptp(p0) > 0 or np.ptp(v0) > 0:
                raise InputError("One variance for all columns has one prior: give them all the same scale and dof.")
            scale, dof = scale.sum(axis=1, keepdims=True), dof.sum(axis=1, keepdims=True)
            p0, v0 = p0[:1], v0[:1]
        scale, dof = p0 + scale, v0 + dof
        _check_proper(scale, dof)
        beliefs = GammaNormalBeliefs(both.mean, both.weight, scale, dof)
        if (k0 == 0).any():
            return beliefs
        log_marginal = (
            gammaln(dof / 2).sum()
            - (len(n) * gammaln(v0 / 2)).sum()
            + 0.5 * (len(n) * v0 * np.log(p0)).sum()
            - 0.5 * (dof * np.log(scale)).sum()
            - 0.5 * n.sum() * np.log(np.pi)
            + 0.5 * np.log(k0 / both.weight).sum()
        )
        return GammaNormalBeliefs(both.mean, both.weight, scale, dof, float(log_marginal))

    def plug_in(self, statistics: Moments, divisor: Divisor) -> ColumnNormals:
        n, mean, S = statistics.arrays()
        count = n - divisor.per_group
        if self._spherical:
            S, count = S.sum(axis=1, keepdims=True), count.sum(axis=1, keepdims=True)
        for bad, why in (
            (n == 0, "has no values"),
            (np.broadcast_to(count <= 0, n.shape), "has too few rows"),
            (np.broadcast_to(S <= 0, n.shape), "has one value only, and no variance,"),
        ):
            if bad.any():
                code = int(np.flatnonzero(bad.any(axis=1))[0])
                raise NotDetermined(why, code, np.flatnonzero(bad[code]))
        return ColumnNormals(mean, np.broadcast_to(S / count, n.shape))

    def n_parameters(self, statistics: Moments) -> int:
        K, d = statistics.mean.shape
        return int(K * (d + 1) if self._spherical else 2 * K * d)


@dataclass(frozen=True)
class Spherical(Gaussian):
    r"""Gaussian classes whose columns have one variance.

    .. math:: p(x \mid c) = N(x \mid μ_c, σ²_c I)
    """

    name = "spherical"
    _spherical = True

    def empirical_prior(self, pooled: Moments) -> list[ConjugatePrior]:
        """The average variance of all columns, in every entry."""
        variance = pooled.scatter.sum() / pooled.weight.sum()
        scale = float(variance) if variance > 0 else 1.0
        return [NormalInverseWishart(float(m), MEAN_STRENGTH, scale, DOF) for m in pooled.mean[0]]


def _columnwise(prior: NormalInverseWishart, d: int, expected: str) -> tuple[Array, Array, Array, Array]:
    """The numbers of a prior, one per column; a scale matrix must be diagonal."""
    mean, strength, scale, dof = (
        np.asarray(value, dtype=float) for value in (prior.mean, prior.mean_strength, prior.scale, prior.dof)
    )
    if scale.ndim == 2 and not np.count_nonzero(scale - np.diag(np.diag(scale))):
        scale = np.diag(scale)
    if any(values.shape not in {(), (1,), (d,)} for values in (mean, strength, scale, dof)):
        raise InputError(f"The prior of these columns is {expected}; got {prior!r} for {d} columns.")
    m, k, s, v = (np.broadcast_to(values, (d,)) for values in (mean, strength, scale, dof))
    return m, k, s, v


def _check_proper(scale: Array, dof: Array) -> None:
    for bad, why in (
        (dof <= 0, "has too few rows under prior='reference'"),
        (scale <= 0, "has one value only under prior='reference', and no variance,"),
    ):
        if bad.any():
            code = int(np.flatnonzero(bad.any(axis=1))[0])
            raise NotDetermined(why, code, np.flatnonzero(bad[code]))


@dataclass(frozen=True)
class ColumnNormals(Density[Moments]):
    """Π_j N(x_j | μ_cj, σ²_cj) for every class."""

    mean: Array
    variance: Array

    def log_density(self, X: DesignMatrix) -> Array:
        table = dense(X)
        seen = observed(table)
        constants = np.log(self.variance) + LOG_2PI
        columns = []
        for m, v, constant in zip(self.mean, self.variance, constants, strict=True):
            terms = np.subtract(table, m, out=scratch(*table.shape))
            terms *= terms
            if seen is not None:
                terms[~seen] = 0.0
            columns.append(terms @ (1 / v) + (constant.sum() if seen is None else seen @ constant))
        return -0.5 * np.column_stack(columns)

    def log_likelihood(self, statistics: Moments) -> float:
        n, mean, S = statistics.arrays()
        squares = (S + n * (mean - self.mean) ** 2) / self.variance
        return float(-0.5 * (n * (LOG_2PI + np.log(self.variance)) + squares).sum())

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        noise = rng.standard_normal((len(codes), self.mean.shape[1]))
        return self.mean[codes] + np.sqrt(self.variance)[codes] * noise

    def linear(self) -> Linear | None:
        """Linear only where classes have the same variances."""
        if (self.variance != self.variance[0]).any():
            return None
        return Linear(self.mean / self.variance, -0.5 * (self.mean**2 / self.variance).sum(axis=1))

    def natural(self) -> Array:
        """(μ/σ², -1/(2σ²)) with u(x) = (x, x²), (K, d, 2)."""
        return np.stack([self.mean / self.variance, -0.5 / self.variance], axis=-1)

    def center(self) -> Array:
        return self.mean

    def spread(self) -> Array:
        return np.sqrt(self.variance)


@dataclass(frozen=True)
class GammaNormalBeliefs(Beliefs[Moments]):
    """ψ/σ² ~ χ²(ν), μ | σ² ~ N(m, σ²/κ): a variance for every column (K, d), or for all of them (K, 1)."""

    mean: Array
    strength: Array
    scale: Array
    dof: Array
    log_marginal: float = np.nan

    @property
    def _one_variance(self) -> bool:
        return self.scale.shape != self.mean.shape

    def log_predictive(self, X: DesignMatrix) -> Array:
        table = dense(X)
        columns = scratch(table.shape[1], table.shape[0], "columns")
        np.copyto(columns, table.T)  # everything below runs down columns
        out = np.column_stack([self._class_predictive(columns, None, c) for c in range(len(self.mean))])
        if not np.isnan(out).any():
            return out
        seen = ~np.isnan(columns)
        return np.column_stack([self._class_predictive(columns, seen, c) for c in range(len(self.mean))])

    def _class_predictive(self, columns: Array, seen: AnyArray | None, c: int) -> Array:
        """Student-t with ν degrees of freedom: a column each, or all columns of a row together."""
        m, k, dof = self.mean[c][:, None], self.strength[c][:, None], self.dof[c]
        stretch = self.scale[c][:, None] * (k + 1) / k
        terms = np.subtract(columns, m, out=scratch(*columns.shape))
        terms *= terms
        terms *= 1 / stretch
        if seen is not None:
            terms[~seen] = 0.0
        logs = np.log(stretch[:, 0] * np.pi)
        if self._one_variance:
            size = np.array([len(m)]) if seen is None else seen.sum(axis=0)
            log_scale = logs.sum() if seen is None else logs @ seen
            power = 0.5 * (dof[0] + size)
            heights = log_rising_factorial(dof[0] / 2, 0.5 * size) - 0.5 * log_scale
            return np.asarray(heights - power * np.log1p(terms.sum(axis=0)))
        constants = log_rising_factorial(dof / 2, 0.5) - 0.5 * logs
        constant = constants.sum() if seen is None else constants @ seen
        if (dof == dof[0]).all():
            return np.asarray(constant - 0.5 * (dof[0] + 1) * np.log1p(terms).sum(axis=0))
        return np.asarray(constant - 0.5 * (dof + 1) @ np.log1p(terms))

    def log_expected(self, X: DesignMatrix) -> Array:
        table = dense(X)
        seen = observed(table)
        out = np.empty((len(table), len(self.mean)))
        for c, (m, k, scale, dof) in enumerate(zip(self.mean, self.strength, self.scale, self.dof, strict=True)):
            log_precision = digamma(dof / 2) + np.log(2 / scale)
            terms = dof / scale * (table - m) ** 2 + 1 / k - log_precision + LOG_2PI
            out[:, c] = -0.5 * (terms if seen is None else np.where(seen, terms, 0.0)).sum(axis=1)
        return out

    def draw(self, rng: np.random.Generator) -> ColumnNormals:
        variance = np.broadcast_to(self.scale / rng.chisquare(self.dof), self.mean.shape)
        return ColumnNormals(rng.normal(self.mean, np.sqrt(variance / self.strength)), variance)

    def expectation(self) -> ColumnNormals:
        """E[σ²] = ψ / (ν - 2), where that exists; else ψ / ν."""
        variance = self.scale / np.where(self.dof > 2, self.dof - 2, self.dof)
        return ColumnNormals(self.mean, np.broadcast_to(variance, self.mean.shape))

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        spread = np.sqrt(self.scale[codes] / rng.chisquare(self.dof[codes]))
        stretch = np.sqrt((self.strength + 1) / self.strength)[codes]
        return self.mean[codes] + spread * stretch * rng.standard_normal((len(codes), self.mean.shape[1]))

    def estimates(self, level: float) -> Estimates:
        scale = np.sqrt(self.scale / (self.strength * self.dof))
        return student_estimates(self.mean, scale, np.broadcast_to(self.dof, self.mean.shape), level)
