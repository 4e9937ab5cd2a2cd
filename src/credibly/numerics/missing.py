"""Gaussian groups over rows with missing cells: squared distances of what was observed, and the rest given that.

Notation
--------
====  ============================================================  ========
μ_c   center of group c                                             (d,)
Σ_c   its covariance (or scale) matrix; one may serve all groups    (d, d)
δ²    (x - μ_c)ᵀ Σ_c⁻¹ (x - μ_c) over the observed coordinates      (n, K)
o, m  observed and missing coordinates of a row
====  ============================================================  ========

With the observed coordinates first, Σ = L Lᵀ holds all that a row with missing cells asks for: L_oo whitens what was
observed, L_mo L_oo⁻¹ predicts the rest from it, and L_mm is the factor of what stays uncertain. Rows that lack the same
cells share the factor.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import PSD, scratch
from credibly.numerics.special import LOG_2PI

FAR_APART = 1e6  # squared distance of centers from which on squares are not expanded: they would cancel


class Pattern(NamedTuple):
    """Rows that lack the same cells."""

    rows: Codes
    observed: Codes  # columns
    missing: Codes

    def factor(self, metric: PSD) -> PSD:
        """Of a metric with the observed columns first."""
        order = np.concatenate([self.observed, self.missing])
        return PSD.of(metric.matrix[order[:, None], order], "a covariance")


def patterns(X: Array) -> list[Pattern]:
    """The rows of a table, grouped by which of their cells are observed.

    Examples
    --------
    >>> [p.observed.tolist() for p in patterns(np.array([[1.0, np.nan], [2.0, 3.0]]))]
    [[0], [0, 1]]
    """
    seen: AnyArray = ~np.isnan(X)
    if seen.all():
        return [Pattern(np.arange(len(X)), np.arange(X.shape[1]), np.arange(0))]
    packed = np.ascontiguousarray(np.packbits(seen, axis=1))
    keys = packed.view([("", packed.dtype)] * packed.shape[1]).reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    parts = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    return [
        Pattern(rows, np.flatnonzero(seen[i]), np.flatnonzero(~seen[i])) for rows, i in zip(parts, first, strict=True)
    ]


class Measured(NamedTuple):
    """Squared distances, log determinants of the metric used, and the number of observed coordinates.

    The last two have one row where no cell is missing, and one column where one metric serves all groups.
    """

    distance: Array  # (n, K)
    logdet: Array  # (n, K), (1, K) or (1, 1)
    size: Array  # (n, 1) or (1, 1)


class Filled(NamedTuple):
    """Rows with their missing cells at the conditional mean, and what is left of the uncertainty."""

    X: Array  # (n, d)
    spread: Array  # (K, d, d) or (1, d, d): weighted sums of conditional covariances, one per metric
    entropy: float  # of the missing cells, weighted


@dataclass(frozen=True)
class Ellipsoids:
    """Centres (K, d) and their metrics: K of them, or one for all.

    Examples
    --------
    >>> e = Ellipsoids(np.array([[0.0, 0.0]]), (PSD(np.eye(2)),))
    >>> e.measure(np.array([[3.0, 4.0], [3.0, np.nan]])).distance[:, 0]
    array([25.,  9.])
    """

    means: Array
    metrics: tuple[PSD, ...]

    def measure(self, X: Array) -> Measured:
        """Distances of rows from every center."""
        distance = self._distances(X)
        if not np.isnan(distance).any():
            return Measured(distance, np.array([[metric.logdet for metric in self.metrics]]), np.array([[X.shape[1]]]))
        logdet, size = np.zeros_like(distance), np.zeros((len(X), 1))
        for pattern in patterns(X):
            rows, o, _ = pattern
            table, size[rows] = X[rows[:, None], o], len(o)
            parts = [_leading(pattern.factor(metric), len(o)) for metric in self.metrics]
            for c, mean in enumerate(self.means):
                part = parts[self._metric_of(c)]
                distance[rows, c] = (part.half_solve((table - mean[o]).T) ** 2).sum(axis=0)
                logdet[rows, c] = part.logdet
        return Measured(distance, logdet, size)

    def fill(self, X: Array, codes: Codes, weight: Array) -> Filled:
        """Missing cells of every row given its observed ones, under the center and metric of its group."""
        filled, d = X.copy(), X.shape[1]
        spread, entropy = np.zeros((len(self.metrics), d, d)), 0.0
        for g, metric in enumerate(self.metrics):
            members = np.arange(len(X)) if len(self.metrics) == 1 else np.flatnonzero(codes == g)
            for pattern in patterns(X[members]):
                (_, o, m), rows = pattern, members[pattern.rows]
                if not len(m):
                    continue
                factor, p, centers = pattern.factor(metric), len(o), self.means[codes[rows]]
                L = factor.factor
                white = _leading(factor, p).half_solve((X[rows[:, None], o] - centers[:, o]).T)
                filled[rows[:, None], m] = centers[:, m] + (L[p:, :p] @ white).T
                total = weight[rows].sum()
                spread[g][m[:, None], m] += total * (L[p:, p:] @ L[p:, p:].T)
                entropy += total * (0.5 * len(m) * (1 + LOG_2PI) + np.log(np.diag(L)[p:]).sum())
        return Filled(filled, spread, float(entropy))

    def _metric_of(self, c: int) -> int:
        return 0 if len(self.metrics) == 1 else c

    def _distances(self, X: Array) -> Array:
        """Distances of complete rows; NaN for others."""
        if len(self.metrics) > 1:
            each = zip(self.means, self.metrics, strict=True)
            return np.column_stack([_squares(_whitened(X, mean, metric)) for mean, metric in each])
        (metric,), middle = self.metrics, self.means.mean(axis=0)
        centers = metric.half_solve((self.means - middle).T)
        lengths = (centers**2).sum(axis=0)
        if lengths.max() > FAR_APART:
            return np.column_stack([_squares(_whitened(X, mean, metric)) for mean in self.means])
        white = _whitened(X, middle, metric)
        return np.asarray(_squares(white)[:, None] - 2 * (white @ centers) + lengths)


def _leading(metric: PSD, p: int) -> PSD:
    """The metric of the first p coordinates."""
    return PSD(np.asfortranarray(metric.factor[:p, :p]))


def _whitened(X: Array, mean: Array, metric: PSD) -> Array:
    """L⁻¹(x - μ), one row for each row of X, in scratch memory: to be used up at once.

    On tall tables a product with L⁻¹ runs on all threads (SciPy's triangular solves hold the interpreter) and is as
    good: rows of L⁻¹ are found by substitution, each with a small error of its own, so that units do not matter.
    """
    table = np.subtract(X, mean, out=scratch(X.shape[0], X.shape[1]))
    return np.matmul(table, metric.inverse_root.T, out=scratch(X.shape[0], X.shape[1], "white"))


def _squares(white: Array) -> AnyArray:
    return np.asarray(np.einsum("ij,ij->i", white, white))
