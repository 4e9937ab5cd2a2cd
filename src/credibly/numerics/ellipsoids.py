"""Squared distances from several centres, each in its own metric, with missing coordinates left out.

Notation
--------
====  ============================================================  ========
μ_c   centre of group c                                             (d,)
Σ_c   its covariance (or scale) matrix; one may serve all groups    (d, d)
δ²    (x - μ_c)ᵀ Σ_c⁻¹ (x - μ_c) over the observed coordinates      (n, K)
o, m  observed and missing coordinates of a row
====  ============================================================  ========

With the observed coordinates first, Σ = L Lᵀ holds all that a row with missing cells asks for: L_oo whitens what was
observed, L_mo L_oo⁻¹ predicts the rest from it, and L_mm is the factor of what stays uncertain.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.caching import cached_property
from credibly.numerics.grouped import patterns
from credibly.numerics.linalg import PSD, scratch, stacked_factors, stacked_half_solve

FAR_APART = 1e6  # squared distance of centres from which on squares are not expanded: they would cancel
FREQUENT = 16  # rows with the same pattern: from there on they share one factor, else every row has its own
STACKED_NUMBERS = 1_000_000  # numbers in a stack of factors


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


class Alike(NamedTuple):
    """Rows with equally many observed cells; each row's columns in its own order, observed ones first."""

    rows: Codes  # (b,)
    order: Codes  # (b, d), or (1, d) where all rows lack the same cells
    p: int  # observed cells

    def values(self, table: Array) -> Array:
        """Their rows of a table, (b, d), columns in order."""
        return np.asarray(np.take_along_axis(table[self.rows], self.order, axis=1))

    def means(self, mean: Array) -> Array:
        """A centre with its columns in order: (b, d) or (1, d)."""
        return mean[self.order]

    def factors(self, matrix: Array) -> Array:
        """Lower Cholesky factors of a matrix with its columns in order: (b, d, d) or (1, d, d)."""
        return stacked_factors(matrix[self.order[:, :, None], self.order[:, None, :]], "a covariance")


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
        """Distances of rows from every centre."""
        whole = self._distances(X)
        if not np.isnan(whole).any():
            return Measured(whole, np.array([[metric.logdet for metric in self.metrics]]), np.array([[X.shape[1]]]))
        logdet, size = np.zeros_like(whole), np.zeros((len(X), 1))
        for alike in rows_alike(X):
            p = alike.p
            size[alike.rows] = p
            factors = [alike.factors(matrix)[:, :p, :p] for matrix in self._matrices]
            for c, mean in enumerate(self.means):
                L = factors[self._metric_of(c)]
                gap = alike.values(X)[:, :p] - alike.means(mean)[:, :p]
                whole[alike.rows, c] = (stacked_half_solve(L, gap) ** 2).sum(axis=1)
                logdet[alike.rows, c] = 2 * np.log(np.einsum("bii->bi", L)).sum(axis=1)
        return Measured(whole, logdet, size)

    def fill(self, X: Array, codes: Codes, weight: Array) -> Filled:
        """Missing cells of every row given its observed ones, under the centre and metric of its group."""
        filled, d = X.copy(), X.shape[1]
        spread, entropy = np.zeros((len(self.metrics), d, d)), 0.0
        for g, matrix in enumerate(self._matrices):
            members = np.arange(len(X)) if len(self.metrics) == 1 else np.flatnonzero(codes == g)
            for alike in rows_alike(X[members]):
                p, q, rows = alike.p, d - alike.p, members[alike.rows]
                if q == 0:
                    continue
                L = alike.factors(matrix)
                centre = np.take_along_axis(self.means[codes[rows]], alike.order, axis=1)
                white = stacked_half_solve(L[:, :p, :p], alike.values(X[members])[:, :p] - centre[:, :p])
                missing = np.broadcast_to(alike.order[:, p:], (len(rows), q))
                filled[rows[:, None], missing] = centre[:, p:] + np.einsum("...qp,...p->...q", L[:, p:, :p], white)
                left = np.einsum("bij,bkj->bik", L[:, p:, p:], L[:, p:, p:])
                shares = weight[rows] if len(L) > 1 else weight[rows].sum(keepdims=True)
                columns = alike.order[:, p:]
                np.add.at(spread[g], (columns[:, :, None], columns[:, None, :]), shares[:, None, None] * left)
                logs = 2 * np.log(np.einsum("bii->bi", L[:, p:, p:])).sum(axis=1)
                entropy += float(shares @ (0.5 * (q * (1 + np.log(2 * np.pi)) + logs)))
        return Filled(filled, spread, entropy)

    def _metric_of(self, c: int) -> int:
        return 0 if len(self.metrics) == 1 else c

    @cached_property
    def _matrices(self) -> list[Array]:
        return [metric.matrix for metric in self.metrics]

    def _distances(self, X: Array) -> Array:
        """Distances of complete rows; NaN for others."""
        if len(self.metrics) > 1:
            each = zip(self.means, self.metrics, strict=True)
            return np.column_stack([_squares(_whitened(X, mean, metric)) for mean, metric in each])
        (metric,), middle = self.metrics, self.means.mean(axis=0)
        centres = metric.half_solve((self.means - middle).T)
        lengths = (centres**2).sum(axis=0)
        if lengths.max() > FAR_APART:
            return np.column_stack([_squares(_whitened(X, mean, metric)) for mean in self.means])
        white = _whitened(X, middle, metric)
        return np.asarray(_squares(white)[:, None] - 2 * (white @ centres) + lengths)


def rows_alike(X: Array) -> Iterator[Alike]:
    """Rows of a table in parts: frequent patterns one by one, the others by the number of observed cells."""
    d, rare = X.shape[1], []
    for rows, observed in patterns(X):
        if len(rows) < FREQUENT:
            rare.append(rows)
            continue
        missing = np.delete(np.arange(d), observed)
        yield Alike(rows, np.concatenate([observed, missing])[None].astype(np.intp), len(observed))
    if not rare:
        return
    rows = np.sort(np.concatenate(rare))
    holes = np.isnan(X[rows])
    order, counts = np.argsort(holes, axis=1, kind="stable"), d - holes.sum(axis=1)
    for p in np.unique(counts).tolist():
        chosen = np.flatnonzero(counts == p)
        for part in np.array_split(chosen, -(-len(chosen) * d * d // STACKED_NUMBERS)):
            yield Alike(rows[part], order[part], p)


def _whitened(X: Array, mean: Array, metric: PSD) -> Array:
    """L⁻¹(x - μ), one row for each row of X, in scratch memory: to be used up at once.

    On tall tables a product with L⁻¹ runs on all threads (SciPy's triangular solves hold the interpreter) and is as
    good: rows of L⁻¹ are found by substitution, each with a small error of its own, so that units do not matter.
    """
    table = np.subtract(X, mean, out=scratch(X.shape[0], X.shape[1]))
    return np.matmul(table, metric.inverse_root.T, out=scratch(X.shape[0], X.shape[1], "white"))


def _squares(white: Array) -> AnyArray:
    return np.asarray(np.einsum("ij,ij->i", white, white))
