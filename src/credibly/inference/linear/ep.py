r"""Expectation propagation over the weights: every row's likelihood becomes a Gaussian with the right moments.

Notation as in `inference.sites`; the score of row i is f = zᵀx + offset with z a row of the design, and

.. math:: q(x) = N(m, Λ^{-1}), \qquad Λ = P + \sum_i c_i τ_i z_i z_i^T, \qquad Λ m = P m_0 + \sum_i c_i ν_i z_i
"""

from dataclasses import dataclass

import numpy as np

from credibly.data.rows import Block, Rows, Sums, add
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.objective import Objective
from credibly.inference.sites import GOAL, Sites, SiteState, cavities_of, matched, settle, tilted_of
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD, weighted_gram
from credibly.numerics.status import CONTROLS, Controls


@dataclass(frozen=True)
class WeightProblem:
    """A linear model of one score a row under a Gaussian prior, its rows in memory."""

    objective: Objective

    @property
    def likelihood(self) -> Likelihood:
        """p(y | f)."""
        assert isinstance(self.objective.likelihood, Likelihood)
        return self.objective.likelihood

    @property
    def prior(self) -> Gaussian:
        """Of the weights."""
        assert isinstance(self.objective.prior, Gaussian)
        return self.objective.prior

    @cached_property
    def rows(self) -> Rows:
        """Rows of the design."""
        return self.objective.rows.through(self.objective.design.standardization.design)

    @cached_property
    def y(self) -> Array:
        """Labels, (n,)."""
        return self.objective.rows.map(lambda block: block.y)

    @cached_property
    def counts(self) -> Array:
        """How often each row counts, (n,)."""
        return self.objective.rows.map(lambda block: block.weights)

    @cached_property
    def offset(self) -> Array:
        """What is added to the score of each row, (n,)."""
        return self.objective.rows.map(lambda block: np.zeros(len(block.y)) if block.offset is None else block.offset)


@dataclass(frozen=True)
class WeightSites(SiteState):
    """Sites, the Gaussian over the weights that they make with the prior, and the scores under it."""

    problem: WeightProblem
    sites: Sites
    posterior: Gaussian
    mean: Array
    variance: Array

    @classmethod
    def of(cls, problem: WeightProblem, sites: Sites) -> "WeightSites":
        """The Gaussian that these sites make; raises NotPositiveDefinite where they make none.

        Sites are in the whole score f; that of the weights is f less the offset.
        """
        tau, nu = sites
        per_row = np.column_stack([tau, nu - tau * problem.offset]) * problem.counts[:, None]
        gram, linear = problem.rows.relabelled(per_row).sum(_site_sums, add)
        prior = problem.prior
        precision = PSD.of(prior.precision.matrix + np.asarray(gram), "the precision that EP's sites make")
        posterior = Gaussian(precision.solve(prior.precision.matrix @ prior.mean + np.asarray(linear)), precision)
        scores = problem.rows.map(lambda part: np.column_stack(posterior.scores(part.X)))
        return cls(problem, sites, posterior, scores[:, 0] + problem.offset, scores[:, 1])

    @property
    def counts(self) -> Array:
        return self.problem.counts

    def rebuilt(self, sites: Sites) -> "WeightSites":
        return WeightSites.of(self.problem, sites)

    def log_mass(self) -> float:
        """½(mᵀΛm - m₀ᵀPm₀) - ½ log|P⁻¹Λ|, and what the sites have at the offsets."""
        prior, q, offset = self.problem.prior, self.posterior, self.problem.offset
        # Both quadratic forms as lengths; their difference is taken at the end.
        longer, shorter = q.mean @ q.precision.factor, prior.mean @ prior.precision.factor
        tau, nu = self.sites
        at_offset = float((self.counts * offset * (nu - 0.5 * tau * offset)).sum())
        forms = longer @ longer - shorter @ shorter - q.precision.logdet + prior.precision.logdet
        return float(0.5 * forms) + at_offset

    def row_by_row(self) -> "WeightSites":
        """Visit rows one by one; mean and covariance of the weights follow by updates of rank one."""
        tau, nu = (site.copy() for site in self.sites)
        root, offset = self.posterior.root, self.problem.offset
        mean, cov = self.posterior.mean.copy(), root.T @ root
        for i, z in enumerate(_each_row(self.problem.rows)):
            column = cov @ z
            here = Sites(tau[i : i + 1], nu[i : i + 1])
            cavity = cavities_of(np.atleast_1d(z @ mean + offset[i]), np.atleast_1d(z @ column), here)
            if not cavity.proper[0] or not self.counts[i]:
                continue
            new = matched(tilted_of(self.likelihood, self.labels[i : i + 1], cavity), cavity)
            by_tau, by_nu = (self.counts[i] * (float(a[0]) - float(b[0])) for a, b in zip(new, here, strict=True))
            tau[i], nu[i] = new.tau[0], new.nu[0]
            column = column / (1.0 + by_tau * (z @ column))
            shift = by_nu - by_tau * (z @ mean + offset[i])
            mean, cov = mean + shift * column, cov - by_tau * np.outer(column, cov @ z)
        return self.rebuilt(Sites(tau, nu))


def _site_sums(block: Block) -> Sums:
    """Σ τ zzᵀ and Σ ν z of some rows, whose τ and ν stand in the place of labels."""
    return weighted_gram(block.X, block.y[:, 0]), np.asarray(block.X.T @ block.y[:, 1])


def _each_row(rows: Rows) -> Array:
    return rows.map(lambda part: part.X if isinstance(part.X, np.ndarray) else part.X.toarray())


def ep(objective: Objective, near: Approximation | None, controls: Controls = CONTROLS) -> Approximation:
    """Approximate the posterior of the weights by expectation propagation.

    Every row's likelihood is replaced by a Gaussian in its score that has the right moments in the context of all
    others. For posteriors of linear classifiers the mean is then 10 to 100 times nearer to the true one than Laplace's
    mode.

    Parameters
    ----------
    objective : Objective
        A likelihood of one score a row, whose `tilted` gives the moments; a Gaussian prior; rows in memory, each
        counting not at all, or at least once: a row that counts twice is two rows.
    near : Approximation, optional
        Whose sites are started from, or Laplace's at its mean, which saves half of the sweeps where rows are many.
    controls : Controls
        The square of `tol` is the goal for the largest squared change of a score, in its standard deviations (at least
        1e-18): sweeps converge linearly, where a Newton step from `tol` leaves tol²; `max_steps` the most sweeps.

    Returns
    -------
    Approximation
        The log likelihood is at the posterior mean.

    References
    ----------
    Minka 2001; Chopin & Ridgway 2017, sec. 3.3.
    """
    problem = WeightProblem(objective)
    state, status, steps = settle(_first_state(problem, near), max(controls.tol**2, GOAL), controls)
    return Approximation(
        state.posterior, state.ep_log_evidence(), state.log_likelihood, status, steps, sites=state.sites
    )


def _first_state(problem: WeightProblem, near: Approximation | None) -> WeightSites:
    """Without sites, with those of nearly the same problem, or each row's likelihood to second order at a mode."""
    if near is None:
        return WeightSites.of(problem, Sites(np.zeros(len(problem.y)), np.zeros(len(problem.y))))
    if near.sites is not None:
        return WeightSites.of(problem, near.sites)
    f = problem.rows.map(lambda part: np.asarray(part.X @ near.q.mean)) + problem.offset
    at = problem.likelihood.expand(problem.y, f)
    tau = np.where(at.curvature > 0, at.curvature, problem.likelihood.information(f)) * (problem.counts > 0)
    return WeightSites.of(problem, Sites(tau, tau * f + at.grad * (problem.counts > 0)))
