"""Gaussian densities with full covariances, and normal–inverse-Wishart beliefs about their parameters.

Notation
--------
====  ==============================================================  ===============
G     number of covariances: 1 (shared) or K (per class)
m, κ  mean of a class's centre and its strength                        (K, d), (K,)
Ψ, ν  scale and degrees of freedom of the inverse Wishart              (G, d, d), (G,)
====  ==============================================================  ===============
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import digamma

from credibly.model.class_conditionals.base import Beliefs, Density, Estimates, Linear
from credibly.model.class_conditionals.gaussian import Moments
from credibly.model.class_conditionals.statistics import (
    REMOVAL_ROUNDING,
    Statistics,
    Together,
    apart,
    less,
    refuse_impossible,
    refuse_too_many,
    removal_rounding,
    taken,
    together,
)
from credibly.model.class_conditionals.student import student_estimates
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD, DesignMatrix, dense
from credibly.numerics.missing import Ellipsoids
from credibly.numerics.special import LOG_2PI, log_rising_factorial

SMALL_SHIFT = 1e3  # log odds at the origin: below that, centring rows first would not change the twelfth digit


@dataclass(frozen=True)
class Scatter(Statistics):
    """Weights (K,), means (K, d) and scatters: (1, d, d) pooled over classes, or (K, d, d).

    `holes` (K, d) is the weight of the cells that were not observed but filled in.
    """

    weight: Array
    mean: Array
    scatter: Array
    holes: Array
    shared: bool

    def merge(self, other: Self) -> Self:
        both = together(self.weight[:, None], self.mean, other.weight[:, None], other.mean)
        scatter = self.scatter + other.scatter + between(both, self.shared)
        return type(self)(both.weight[:, 0], both.mean, scatter, self.holes + other.holes, self.shared)

    def remove(self, other: Self) -> Self:
        refuse_too_many(self.weight, other.weight)
        left = apart(self.weight[:, None], self.mean, other.weight[:, None], other.mean)
        scatter = self.scatter - other.scatter - between(left, self.shared)
        variances, before = np.einsum("gii->gi", scatter), np.einsum("gii->gi", self.scatter)
        each = before / len(left.weight) if self.shared else before  # classes share the one scatter's rounding
        rounding = removal_rounding(each, left, self.mean, other.mean)
        rounding = rounding.sum(axis=0, keepdims=True) if self.shared else rounding
        if (variances < -rounding - REMOVAL_ROUNDING * before).any():
            refuse_impossible("a variance would be negative")
        gone = (left.weight.sum(axis=0) if self.shared else left.weight[:, 0]) == 0
        nothing = gone[:, None] | (variances <= rounding)  # rounding is all that is left: one row, or equal ones
        scatter[nothing[:, :, None] | nothing[:, None, :]] = 0.0
        holes = less(self.holes, other.holes)
        if (holes < 0).any():
            refuse_impossible("more cells would have been observed than there are")
        return type(self)(left.weight[:, 0], left.mean, scatter, holes, self.shared)

    def take(self, order: Codes) -> Self:
        scatter = self.scatter if self.shared else taken(self.scatter, order)
        weight, mean, holes = (taken(values, order) for values in (self.weight, self.mean, self.holes))
        return type(self)(weight, mean, scatter, holes, self.shared)

    def change(self, before: Self) -> float:
        """Of weights relatively, of means and scatters in units of the spread within classes."""
        total = self.weight.sum() or 1.0
        spread = np.sqrt(np.einsum("gii->i", self.scatter) / total)
        spread = np.where(spread > 0, spread, 1.0)
        gaps = (
            (self.weight - before.weight) / total,
            (self.mean - before.mean) / spread,
            (self.scatter - before.scatter) / (np.outer(spread, spread) * total),
        )
        return float(max(np.abs(gap).max(initial=0.0) for gap in gaps))

    def pooled(self) -> Moments:
        """Means and variances of the columns; covariances of all rows together are not needed."""
        n = self.weight.sum()
        mean = self.weight @ self.mean / n
        spread = np.einsum("gii->i", self.scatter) + self.weight @ (self.mean - mean) ** 2
        return Moments(np.full((1, len(mean)), n), mean[None], spread[None])


def between(both: Together, shared: bool) -> Array:
    """What different means add to scatters: (1, d, d) or (K, d, d)."""
    weighted = both.gap * both.factor
    return (weighted.T @ both.gap)[None] if shared else np.einsum("ci,cj->cij", weighted, both.gap)


@dataclass(frozen=True)
class Normals(Density[Scatter]):
    """N(x | μ_c, Σ_c) for every class."""

    ellipsoids: Ellipsoids

    def log_density(self, X: DesignMatrix) -> Array:
        distance, logdet, size = self.ellipsoids.measure(dense(X))
        return -0.5 * (distance + logdet + size * LOG_2PI)

    def log_ratio(self, X: DesignMatrix) -> Array:
        if len(self.ellipsoids.metrics) > 1:
            return self.log_density(X)
        slopes, offsets, middle = self._centred
        slopes, offsets = (slopes - slopes[0])[1:], (offsets - offsets[0])[1:]  # relative to the first class
        shift = slopes @ middle
        table = dense(X)
        out = np.zeros((len(table), len(slopes) + 1))
        if np.abs(shift).max(initial=0.0) < SMALL_SHIFT:
            out[:, 1:] = _product(table, slopes) + (offsets - shift)
        else:
            out[:, 1:] = _product(table - middle, slopes) + offsets
        return self.log_density(X) if np.isnan(out).any() else out

    @cached_property
    def _centred(self) -> tuple[Array, Array, Array]:
        """Slopes and offsets of log p(x | c) in x - middle, where little cancels (shared covariance)."""
        means, (metric,) = self.ellipsoids.means, self.ellipsoids.metrics
        middle = means.mean(axis=0)
        slopes = metric.solve((means - middle).T).T
        return slopes, -0.5 * ((means - middle) * slopes).sum(axis=1), middle

    def log_likelihood(self, statistics: Scatter) -> float:
        n, mean, S = statistics.weight, statistics.mean, statistics.scatter
        gap = mean - self.ellipsoids.means
        total = 0.0
        shared = len(self.ellipsoids.metrics) == 1
        for g, metric in enumerate(self.ellipsoids.metrics):
            count = n.sum() if shared else n[g]
            gaps, weights = (gap, n) if shared else (gap[[g]], n[[g]])
            white = metric.half_solve(gaps.T)
            trace = np.trace(metric.solve(S[g])) + ((white**2) @ weights).sum()
            total -= 0.5 * (count * (metric.logdet + len(metric.factor) * LOG_2PI) + trace)
        return float(total)

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        return self.ellipsoids.means[codes] + coloured(rng, self.ellipsoids.metrics, codes)

    def linear(self) -> Linear | None:
        if len(self.ellipsoids.metrics) > 1:
            return None
        slopes, offsets, middle = self._centred
        return Linear(slopes, offsets - slopes @ middle)

    def center(self) -> Array:
        return self.ellipsoids.means

    def spread(self) -> Array:
        each = np.array([np.sqrt((metric.factor**2).sum(axis=1)) for metric in self.ellipsoids.metrics])
        return np.broadcast_to(each, self.ellipsoids.means.shape)


def _product(table: Array, slopes: Array) -> Array:
    """table @ slopesᵀ; one slope is a product with a vector, which is four times as fast."""
    return (table @ slopes[0])[:, None] if len(slopes) == 1 else np.asarray(table @ slopes.T)


def coloured(rng: np.random.Generator, metrics: tuple[PSD, ...], codes: Codes) -> Array:
    """Noise of covariance Σ_c for every class code, (n, d)."""
    white = rng.standard_normal((len(codes), len(metrics[0].factor)))
    if len(metrics) == 1:
        return np.asarray(white @ metrics[0].factor.T)
    return np.asarray(np.einsum("nij,nj->ni", np.array([metric.factor for metric in metrics])[codes], white))


@dataclass(frozen=True)
class WishartBeliefs(Beliefs[Scatter]):
    """Σ ~ IW(ν, Ψ), μ_c | Σ ~ N(m_c, Σ/κ_c), for one Σ or one per class.

    Cells that were filled in are no data, though completing rows (variational Bayes) counts them as such. So what is
    said of uncertainty takes them off again: the mean of a column is worth the rows that have the cell, κ_cj, which
    makes its covariance D Σ D with D = diag(κ_cj^(-1/2)), and ν counts observed cells in units of a row.
    """

    means: Array
    strength: Array  # (K,)
    metrics: tuple[PSD, ...]  # Ψ
    dof: Array  # (G,)
    holes: Array  # (K, d)
    log_marginal: float = np.nan

    def __repr__(self) -> str:
        K, d = self.means.shape
        return f"WishartBeliefs(K={K}, d={d}, ν={np.array2string(self.dof, precision=6)})"

    @cached_property
    def _column_strength(self) -> Array:
        return np.asarray(self.strength[:, None] - self.holes)

    @cached_property
    def observed_dof(self) -> Array:
        """(G,): ν less the rows' worth of cells that were filled in."""
        lost = self.holes.mean(axis=1)
        return np.asarray(self.dof - (lost.sum(keepdims=True) if len(self.dof) == 1 else lost))

    @cached_property
    def _observed_metrics(self) -> tuple[PSD, ...]:
        """Ψ for that ν, with the same expectation of the precision."""
        return _scaled(self.metrics, self.observed_dof / self.dof)

    def log_predictive(self, X: DesignMatrix) -> Array:
        """Student-t with ν - d + 1 degrees of freedom and scale (Ψ + D Ψ D) / (ν - d + 1)."""
        dof = self.observed_dof - self.means.shape[1] + 1  # (G,)
        if self.holes.any():
            distance, logdet, size = Ellipsoids(self.means, self._predictive_metrics).measure(dense(X))
            stretch = np.ones(len(self.means))
        else:  # D is a number, so one metric may serve all classes
            distance, logdet, size = Ellipsoids(self.means, self.metrics).measure(dense(X))
            stretch = (self.strength + 1) / self.strength
        log_scale = logdet + size * np.log(stretch * np.pi)
        heights = log_rising_factorial(dof / 2, size / 2)
        return np.asarray(heights - 0.5 * (log_scale + (dof + size) * np.log1p(distance / stretch)))

    @cached_property
    def _predictive_metrics(self) -> tuple[PSD, ...]:
        """Ψ + D Ψ D for every class."""
        matrices = [metric.matrix for metric in self._observed_metrics]
        D = 1 / np.sqrt(self._column_strength)
        each = [matrices[0 if len(matrices) == 1 else c] for c in range(len(self.means))]
        return tuple(PSD.of(P + P * np.outer(w, w), "a predictive scale") for P, w in zip(each, D, strict=True))

    def log_expected(self, X: DesignMatrix) -> Array:
        """log N(x_o | m, Ψ/ν) plus what uncertain parameters cost: Beal 2003, sec. 4.3, missing cells completed."""
        d = self.means.shape[1]
        steps = np.arange(d)
        wishart = digamma((self.dof[:, None] - steps) / 2).sum(axis=1) + d * np.log(2 / self.dof)
        return np.asarray(self.filling.log_density(X) + 0.5 * (wishart - d / self.strength))

    def draw(self, rng: np.random.Generator) -> Normals:
        pairs = zip(self._observed_metrics, self.observed_dof, strict=True)
        metrics = tuple(_drawn(rng, metric, v) for metric, v in pairs)
        noise = coloured(rng, metrics, np.arange(len(self.means)))
        return Normals(Ellipsoids(self.means + noise / np.sqrt(self._column_strength), metrics))

    def expectation(self) -> Normals:
        """E[Σ] = Ψ / (ν - d - 1), where that exists; else Ψ / ν."""
        d = self.means.shape[1]
        divisor = np.where(self.dof > d + 1, self.dof - d - 1, self.dof)
        return Normals(Ellipsoids(self.means, _scaled(self.metrics, 1 / divisor)))

    @property
    def filling(self) -> Normals:
        """N(m, Ψ/ν): the precision at its expectation."""
        return Normals(Ellipsoids(self.means, _scaled(self.metrics, 1 / self.dof)))

    def sample(self, rng: np.random.Generator, codes: Codes) -> Array:
        dof = np.broadcast_to((self.observed_dof - self.means.shape[1] + 1), self.strength.shape)[codes]
        noise = coloured(rng, self._predictive_metrics, codes)
        return self.means[codes] + noise / np.sqrt(rng.chisquare(dof))[:, None]

    def estimates(self, level: float) -> Estimates:
        """Means are marginally Student-t with ν - d + 1 degrees of freedom and scale Ψ_jj / (κ_cj (ν - d + 1))."""
        dof = np.broadcast_to((self.observed_dof - self.means.shape[1] + 1), self.strength.shape)[:, None]
        variances = np.array([(metric.factor**2).sum(axis=1) for metric in self._observed_metrics])
        return student_estimates(self.means, np.sqrt(variances / (self._column_strength * dof)), dof, level)


def _scaled(metrics: tuple[PSD, ...], factors: Array) -> tuple[PSD, ...]:
    """Every matrix times its factor."""
    return tuple(PSD(metric.factor * np.sqrt(f)) for metric, f in zip(metrics, factors, strict=True))


def _drawn(rng: np.random.Generator, metric: PSD, dof: float) -> PSD:
    """Σ ~ IW(ν, Ψ) by Bartlett's decomposition: Σ = (A⁻¹ Lᵀ)ᵀ (A⁻¹ Lᵀ), Ψ = L Lᵀ."""
    d = len(metric.factor)
    A = np.tril(rng.standard_normal((d, d)), -1)
    A[np.diag_indices(d)] = np.sqrt(rng.chisquare(dof - np.arange(d)))
    R = np.linalg.qr(solve_triangular(A, metric.factor.T, lower=True), mode="r")
    return PSD(np.asfortranarray((R * np.sign(np.diag(R))[:, None]).T))
