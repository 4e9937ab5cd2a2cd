r"""Expectation propagation over the weights of a linear model: O(n D²) for a sweep, through any source of rows.

Notation as in `sites`; the score of row i is f = zᵀw with z a row of the design, and

.. math:: q(w) = N(m, Λ^{-1}), \qquad Λ = S_0^{-1} + \sum_i c_i τ_i z_i z_i^T, \qquad
          Λ m = S_0^{-1} m_0 + \sum_i c_i ν_i z_i
"""

import operator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from credibly.data.rows import Block, Rows, Sums, add
from credibly.inference.laplace import Controls
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.inference.sites import GOAL, Sites, SiteState, cavities_of, matched, settle, tilted_of
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, weighted_gram
from credibly.numerics.status import Local, Solution


class WeightSitesProblem(NamedTuple):
    """A linear model: prior, rows of the design, and what belongs to each row."""

    likelihood: Likelihood
    prior: Gaussian
    rows: Rows
    y: Array  # (n,)
    counts: Array  # (n,), how often each row counts


@dataclass(frozen=True)
class WeightSites(SiteState):
    """Sites, the Gaussian over the weights that they make with the prior, and the scores under it."""

    problem: WeightSitesProblem
    sites: Sites
    posterior: Gaussian
    mean: Array
    variance: Array

    @classmethod
    def of(cls, problem: WeightSitesProblem, sites: Sites) -> "WeightSites":
        """The Gaussian that these sites make; raises NotPositiveDefinite where they make none."""
        per_row = np.column_stack(sites) * problem.counts[:, None]
        gram, pull = problem.rows.relabelled(per_row).sum(_site_sums, add)
        prior = problem.prior
        precision = PSD.of(prior.precision.matrix + np.asarray(gram), "the precision that EP's sites make")
        posterior = Gaussian(precision.solve(prior.precision.matrix @ prior.mean + np.asarray(pull)), precision)
        scores = problem.rows.map(lambda part: np.column_stack(posterior.scores(part.X)))
        return cls(problem, sites, posterior, scores[:, 0], scores[:, 1])

    @property
    def counts(self) -> Array:
        return self.problem.counts

    def rebuilt(self, sites: Sites) -> "WeightSites":
        return WeightSites.of(self.problem, sites)

    def log_mass(self) -> float:
        """½(mᵀΛm - m₀ᵀS₀⁻¹m₀) - ½ log|S₀Λ|."""
        prior, q = self.problem.prior, self.posterior
        m, m0 = q.mean, prior.mean
        # Both quadratic forms as lengths; their difference is taken at the end.
        longer, shorter = m @ q.precision.factor, m0 @ prior.precision.factor
        return float(0.5 * (longer @ longer - shorter @ shorter - q.precision.logdet + prior.precision.logdet))

    def row_by_row(self) -> "WeightSites":
        """Visit rows one by one; mean and covariance of the weights follow by updates of rank one."""
        tau, nu = (site.copy() for site in self.sites)
        root = self.posterior.precision.inverse_root
        mean, cov = self.posterior.mean.copy(), root.T @ root
        for i, z in enumerate(_each_row(self.problem.rows)):
            column = cov @ z
            here = Sites(tau[i : i + 1], nu[i : i + 1])
            cavity = cavities_of(np.atleast_1d(z @ mean), np.atleast_1d(z @ column), here)
            if not cavity.proper[0] or not self.counts[i]:
                continue
            new = matched(tilted_of(self.likelihood, self.labels[i : i + 1], cavity), cavity)
            by_tau, by_nu = (self.counts[i] * (float(a[0]) - float(b[0])) for a, b in zip(new, here, strict=True))
            tau[i], nu[i] = new.tau[0], new.nu[0]
            column = column / (1.0 + by_tau * (z @ column))
            mean, cov = mean + (by_nu - by_tau * (z @ mean)) * column, cov - by_tau * np.outer(column, cov @ z)
        return self.rebuilt(Sites(tau, nu))


def _first_state(problem: WeightSitesProblem, mode: Array | None) -> WeightSites:
    """Without sites, or with those of Laplace: each row's likelihood to second order at the mode."""
    if mode is None:
        return WeightSites.of(problem, Sites(np.zeros(len(problem.y)), np.zeros(len(problem.y))))
    f = problem.rows.map(lambda part: np.asarray(part.X @ mode))
    at = problem.likelihood.expand(problem.y, f)
    tau = np.where(at.curvature > 0, at.curvature, problem.likelihood.information(f)) * (problem.counts > 0)
    return WeightSites.of(problem, Sites(tau, tau * f + at.grad * (problem.counts > 0)))


def _site_sums(block: Block) -> Sums:
    """Σ τ zzᵀ and Σ ν z of some rows, whose τ and ν stand in the place of labels."""
    return weighted_gram(block.X, block.y[:, 0]), np.asarray(block.X.T @ block.y[:, 1])


def _each_row(rows: Rows) -> list[Array]:
    parts = rows.sum(lambda part: [part.X if isinstance(part.X, np.ndarray) else part.X.toarray()], operator.add)
    return [z for part in parts for z in part]


def weight_ep(
    problem: WeightSitesProblem, mode: Array | None = None, controls: Controls = Controls()
) -> InferenceResult:
    """Approximate the posterior of the weights by expectation propagation.

    Every row's likelihood is replaced by a Gaussian in its score that has the right moments in the context of all
    others. For posteriors of linear classifiers the mean is then 10 to 100 times nearer to the true one than Laplace's
    mode; the evidence is mostly, not always, nearer too.

    Parameters
    ----------
    problem : WeightSitesProblem
        A likelihood of one score a row, whose `tilted` gives the moments, a Gaussian prior, rows of the design, labels,
        and how often each row counts: a row that counts twice is two rows.
    mode : (D,) array, optional
        The posterior mode: sites then start as Laplace's, which saves most sweeps where there are many rows.
    controls : Controls
        The square of `tol` is the goal for the largest squared change of a score, in its standard deviations (at least
        1e-18): sweeps converge linearly, where a Newton step from `tol` leaves tol²;
        `max_steps` the most sweeps.

    Returns
    -------
    InferenceResult
        The log likelihood is at the posterior mean. There is no mode, so the solution's gradient and decrement are NaN.

    References
    ----------
    Minka 2001; Chopin & Ridgway 2017, sec. 3.3.

    Examples
    --------
    >>> from credibly.data.rows import MemoryRows
    >>> from credibly.model.likelihoods import BernoulliProbit
    >>> prior, y = Gaussian(np.zeros(1), PSD(np.eye(1))), np.array([1.0])
    >>> rows = MemoryRows(np.array([[1.0]]), y)
    >>> result = weight_ep(WeightSitesProblem(BernoulliProbit(), prior, rows, y, np.ones(1)))
    >>> result.log_evidence, result.posterior.mean  # log ½ and 1/√π: one site is exact
    (-0.693147..., array([0.56418958]))
    """
    state, status, steps = settle(_first_state(problem, mode), max(controls.tol**2, GOAL), controls)
    posterior, log_likelihood = state.posterior, state.log_likelihood
    value = -log_likelihood - float(problem.prior.logpdf(posterior.mean))
    local = Local(value, np.full_like(posterior.mean, np.nan), posterior.precision, exact=False)
    solution = Solution(posterior.mean, local, status, steps, np.nan)
    return InferenceResult(posterior, state.ep_log_evidence(), log_likelihood, solution)
