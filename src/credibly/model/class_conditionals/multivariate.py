"""Gaussian classes with full covariances, one for all or one each, and the normal–inverse-Wishart prior.

Notation
--------
=======  ===========================================================  ======================
n, x̄, S  weight, mean and scatter of a class                           (K,), (K, d), (G, d, d)
G        number of covariances: 1 (shared) or K (per class)
m, κ     posterior mean of a class's centre and its strength           (K, d), (K,)
Ψ, ν     scale and degrees of freedom of the inverse Wishart           (G, d, d), (G,)
=======  ===========================================================  ======================
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack
from scipy.special import multigammaln

from credibly.errors import InputError, NotPositiveDefinite
from credibly.model.class_conditionals.base import (
    ClassConditional,
    Completed,
    Density,
    Divisor,
    NotDetermined,
    Prior,
)
from credibly.model.class_conditionals.gaussian import MEAN_STRENGTH, Gaussian, Moments
from credibly.model.class_conditionals.probabilities import refuse_empty
from credibly.model.class_conditionals.statistics import (
    deviations,
    gram,
    group_sums,
    membership,
    refined_means,
    together,
)
from credibly.model.class_conditionals.wishart import Normals, Scatter, WishartBeliefs, between
from credibly.model.conjugate_priors import NormalInverseWishart, Reference
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import PSD, DesignMatrix, dense
from credibly.numerics.missing import Ellipsoids


@dataclass(frozen=True)
class FullGaussian(ClassConditional[Scatter]):
    r"""Gaussian classes with full covariance.

    .. math:: p(x \mid c) = N(x \mid μ_c, Σ) \quad\text{or}\quad N(x \mid μ_c, Σ_c)

    References
    ----------
    Murphy 2012, sec. 4.6.3; Geisser 1964 for the predictive.
    """

    shared: bool
    shrinkage: float = 0.0  # share of the average variance, times the identity, in every covariance
    skips_missing = False

    def summarise(self, X: DesignMatrix, codes: Codes, weight: Array | None, n_classes: int) -> Scatter:
        table = dense(X)
        member = membership(codes, weight, n_classes)
        total = np.asarray(member.sum(axis=1), dtype=float)
        mean = refined_means(member, table, total[:, None], codes)
        if self.shared:
            return Scatter(total, mean, gram(deviations(table, mean, codes), weight)[None], np.zeros_like(mean), True)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=n_classes))
        D = deviations(table[order], mean, codes[order])
        weights = None if weight is None else weight[order]
        cuts = [slice(end - size, end) for end, size in zip(ends, np.bincount(codes, minlength=n_classes), strict=True)]
        parts = [gram(D[cut], None if weights is None else weights[cut]) for cut in cuts]
        return Scatter(total, mean, np.array(parts), np.zeros_like(mean), False)

    @property
    def describing(self) -> Gaussian:
        return Gaussian()

    def empirical_prior(self, pooled: Moments) -> NormalInverseWishart:
        """A hundredth of a row at the mean of all rows, and their variances; a constant column has variance one."""
        variance = pooled.variance[0]
        scale = np.diag(np.where(variance > 0, variance, 1.0))
        return NormalInverseWishart(pooled.mean[0], MEAN_STRENGTH, scale, len(variance) + 2)

    def reference_prior(self) -> Reference:
        return Reference()

    def posterior(self, statistics: Scatter, prior: Prior) -> WishartBeliefs:
        n, xbar, S = statistics.weight, statistics.mean, statistics.scatter
        d = xbar.shape[1]
        m0, k0, P0, v0 = self._hyper(prior, d)
        both = together(np.full((len(n), 1), k0), np.broadcast_to(m0, xbar.shape), n[:, None], xbar)
        scale = P0 + shrunk(S, self.shrinkage) + between(both, self.shared)
        flat = 1.0 if k0 == 0 else 0.0  # a mean without a prior costs a degree of freedom
        dof = np.array([v0 + (n - flat).sum()]) if self.shared else v0 + n - flat
        self._check_proper(dof, d)
        what = "the posterior scale of the covariance"
        try:
            metrics = tuple(PSD.of(matrix, what) for matrix in scale)
        except NotPositiveDefinite as error:
            why = "have covariances that are singular (constant or collinear columns)"
            raise NotDetermined(why) from error
        means = _with_unseen(both.mean, statistics, metrics, m0)
        beliefs = WishartBeliefs(means, both.weight[:, 0], metrics, dof, statistics.holes)
        if k0 > 0:
            return replace(beliefs, log_marginal=self._log_marginal(beliefs, statistics, k0, P0, v0))
        refuse_empty(both.weight - statistics.holes)  # a column that no row of a class has, and no prior
        self._check_proper(beliefs.observed_dof, d)
        return beliefs

    def _log_marginal(self, q: WishartBeliefs, statistics: Scatter, k0: float, P0: Array, v0: float) -> float:
        """Murphy 2012, eq. 5.29, with one Wishart for all classes or one for each."""
        d, n = q.means.shape[1], statistics.weight
        logdet = np.array([metric.logdet for metric in q.metrics])
        start = 0.5 * v0 * PSD.of(P0, "the prior scale").logdet - multigammaln(v0 / 2, d)
        end = np.array([multigammaln(v / 2, d) for v in q.dof]) - 0.5 * q.dof * logdet
        return float((start + end).sum() - 0.5 * d * n.sum() * np.log(np.pi) + 0.5 * d * np.log(k0 / q.strength).sum())

    def _hyper(self, prior: Prior, d: int) -> tuple[Array, float, Array, float]:
        if isinstance(prior, Reference):
            return np.zeros(d), 0.0, np.zeros((d, d)), 0.0
        if not isinstance(prior, NormalInverseWishart):
            raise InputError(
                "The prior of Gaussian classes is NormalInverseWishart(mean, mean_strength, scale, dof); got "
                f"{prior!r}."
            )
        mean, scale = np.asarray(prior.mean, dtype=float), np.asarray(prior.scale, dtype=float)
        if mean.shape not in {(), (d,)}:
            raise InputError(f"mean of NormalInverseWishart has shape {mean.shape}; expected ({d},), one per column.")
        if scale.ndim < 2:
            scale = np.diag(np.broadcast_to(scale, (d,))) if scale.shape in {(), (d,)} else scale
        if scale.shape != (d, d):
            raise InputError(f"scale of NormalInverseWishart has shape {scale.shape}; expected ({d}, {d}).")
        for name in ("mean_strength", "dof"):
            if np.ndim(getattr(prior, name)) > 0:
                raise InputError(f"{name} of NormalInverseWishart must be one number here; got {prior!r}.")
        dof = float(np.asarray(prior.dof))
        if dof <= d - 1:
            raise InputError(f"dof of NormalInverseWishart must exceed d - 1 = {d - 1} for {d} columns; got {dof:g}.")
        return np.broadcast_to(mean, (d,)), float(np.asarray(prior.mean_strength)), scale, dof

    def _check_proper(self, dof: Array, d: int) -> None:
        poor = np.flatnonzero(dof - d + 1 <= 0)
        if len(poor):
            why = f"has too few rows for {d} columns under prior='reference' (a class needs more rows than columns)"
            shared = f"have too few rows for {d} columns under prior='reference'"
            raise NotDetermined(shared if self.shared else why, None if self.shared else int(poor[0]))

    def plug_in(self, statistics: Scatter, divisor: Divisor) -> Normals:
        n, mean, S = statistics.weight, statistics.mean, statistics.scatter
        d = mean.shape[1]
        if (n == 0).any():
            raise NotDetermined("has no rows", int(np.flatnonzero(n == 0)[0]))
        size = np.array([n.sum() - divisor.per_group * len(n)]) if self.shared else n - divisor.per_group
        metrics = []
        for g, (scatter, count) in enumerate(zip(shrunk(S, self.shrinkage), size, strict=True)):
            code = None if self.shared else g
            try:
                if count <= 0:
                    rows = f"have {n.sum():g} rows" if self.shared else f"has {n[g]:g} rows"
                    raise NotDetermined(f"{rows}, too few for a covariance", code)
                metrics.append(PSD.of(scatter / count, "a covariance"))
                _check_condition(metrics[-1])
            except NotPositiveDefinite as error:
                verb = "have" if self.shared else "has"
                rows = f"{(n.sum() if self.shared else n[g]):g} rows for {d} columns"
                columns = _dependent(scatter) if count > d else None
                raise NotDetermined(f"{verb} a singular covariance ({rows})", code, columns) from error
        return Normals(Ellipsoids(mean, tuple(metrics)))

    def n_parameters(self, statistics: Scatter) -> int:
        d = statistics.mean.shape[1]
        return int(statistics.mean.size + len(statistics.scatter) * d * (d + 1) // 2)

    @property
    def while_completing(self) -> FullGaussian:
        return replace(self, shrinkage=0.0)

    def complete(
        self, X: DesignMatrix, codes: Codes, weight: Array, n_classes: int, filling: Density[Scatter]
    ) -> Completed:
        assert isinstance(filling, Normals)  # of this family
        filled, spread, entropy = filling.ellipsoids.fill(dense(X), codes, weight)
        statistics = self.summarise(filled, codes, weight, n_classes)
        holes = group_sums(membership(codes, weight, n_classes), np.isnan(dense(X)).astype(float))
        return Completed(replace(statistics, scatter=statistics.scatter + spread, holes=holes), entropy)


def shrunk(S: Array, shrinkage: float) -> Array:
    """(1 - s) S + s · tr(S)/d · I, as scikit-learn's `shrunk_covariance`."""
    if shrinkage == 0.0:
        return S
    d = S.shape[1]
    average = np.einsum("gii->g", S) / d
    return np.asarray((1 - shrinkage) * S + shrinkage * average[:, None, None] * np.eye(d))


def _with_unseen(means: Array, statistics: Scatter, metrics: tuple[PSD, ...], m0: Array) -> Array:
    """Means of columns that no row of a class has: predicted from the others, given the prior mean.

    Completing rows would get there too, but with a weak prior only after thousands of steps: the mean and the cells
    filled in with it hold each other.
    """
    unseen = (statistics.holes >= statistics.weight[:, None]) & (statistics.weight[:, None] > 0)
    if not unseen.any():
        return means
    means = means.copy()
    for c in np.flatnonzero(unseen.any(axis=1)):
        u, o = np.flatnonzero(unseen[c]), np.flatnonzero(~unseen[c])
        if not len(o):
            continue
        scale = metrics[0 if len(metrics) == 1 else c].matrix
        root = PSD.of(scale[np.ix_(o, o)], "a covariance of observed columns")
        means[c, u] = m0[u] + scale[np.ix_(u, o)] @ root.solve(means[c, o] - m0[o])
    return means


def without_columns(prior: Prior, kept: Codes, d: int) -> Prior:
    """The prior of some of d columns: a part of an inverse Wishart matrix has fewer degrees of freedom."""
    if not isinstance(prior, NormalInverseWishart) or len(kept) == d:
        return prior
    mean, scale = np.broadcast_to(np.asarray(prior.mean, dtype=float), (d,)), np.asarray(prior.scale, dtype=float)
    part = scale[np.ix_(kept, kept)] if scale.ndim == 2 else np.broadcast_to(scale, (d,))[kept]
    return NormalInverseWishart(mean[kept], prior.mean_strength, part, float(np.asarray(prior.dof)) - (d - len(kept)))


def with_columns(prior: Prior, used: Codes, d: int) -> Prior:
    """The prior of some columns as one of d columns: the others get mean zero and variance one."""
    if not isinstance(prior, NormalInverseWishart) or len(used) == d:
        return prior
    mean, scale = np.zeros(d), np.eye(d)
    mean[used], scale[np.ix_(used, used)] = np.asarray(prior.mean), np.asarray(prior.scale)
    return NormalInverseWishart(mean, prior.mean_strength, scale, float(np.asarray(prior.dof)) + d - len(used))


def first_filling(moments: Moments, shared: bool) -> Normals:
    """Densities to start completing rows with: class means, and variances within classes, without correlations.

    A class without any value in a column takes the mean of all classes there.
    """
    n, mean, S = moments.arrays()
    total = n.sum(axis=0)
    middle = np.divide((n * mean).sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
    variance = np.divide(S.sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
    metric = PSD.diagonal(np.where(variance > 0, variance, 1.0))
    return Normals(Ellipsoids(np.where(n > 0, mean, middle), (metric,) * (1 if shared else len(mean))))


def _dependent(scatter: Array) -> Codes:
    """Columns that do not vary, or that the others explain, by a Cholesky factorisation with pivoting."""
    scale = np.sqrt(np.diag(scatter))
    scale = np.where(scale > 0, scale, 1.0)
    _, pivots, rank, _ = lapack.dpstrf(scatter / np.outer(scale, scale), lower=1)
    return np.sort(pivots[rank:] - 1)


def _check_condition(metric: PSD) -> None:
    """Rounding can make a singular matrix look definite: columns that others explain to all digits."""
    diagonal, variances = np.diag(metric.factor) ** 2, (metric.factor**2).sum(axis=1)
    if (diagonal <= len(diagonal) * np.finfo(float).eps * variances).any():
        raise NotPositiveDefinite("numerically singular")
