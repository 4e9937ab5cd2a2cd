"""Expectation propagation and assumed-density filtering over the values of a function at the training rows.

Notation as in `sites` and `latent`: the scores are the latents themselves, with prior N(f | 0, K).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Scores
from credibly.inference.latent import LatentGaussian, Precision
from credibly.inference.latent_laplace import Latents
from credibly.inference.sites import GOAL, Sites, SiteState, cavities_of, matched, settle, tilted_of
from credibly.numerics.arrays import Array
from credibly.numerics.status import TO_ROUNDING, Controls, Status

FLOOR = 4 * np.finfo(float).eps
BLOCKS = 8  # parts of a sequential sweep: the joint marginal of a part is renewed before its rows are visited


@dataclass(frozen=True)
class SiteLatents(SiteState):
    """Sites, the Gaussian they make with the prior, and how the search for them ended."""

    problem: Latents
    sites: Sites
    posterior: LatentGaussian
    mean: Array
    variance: Array
    status: Status = Status.CONVERGED
    steps: int = 0
    log_masses: Array | None = None  # of a single pass (ADF)

    @classmethod
    def of(cls, problem: Latents, sites: Sites) -> "SiteLatents":
        """The Gaussian that these sites make; raises NotPositiveDefinite where they make none."""
        precision = Precision.of(problem.K, sites.tau)
        a = sites.nu - precision.weigh(problem.K @ sites.nu)
        return cls(problem, sites, LatentGaussian(a, precision), problem.K @ a, precision.variances(problem.K))

    def rebuilt(self, sites: Sites) -> "SiteLatents":
        return SiteLatents.of(self.problem, sites)

    def row_by_row(self) -> "SiteLatents":
        return sequential_sweep(self).state

    def log_mass(self) -> float:
        """½ νᵀμ - ½ log|I + KT|."""
        return float(0.5 * self.sites.nu @ self.mean - 0.5 * self.posterior.precision.logdet)

    @property
    def warm(self) -> Array:
        """Where a search with a similar kernel may start."""
        return np.stack(self.sites)

    @property
    def log_evidence(self) -> float:
        """log Z: by EP's formula, or for a single pass the sum of its log masses (a chain rule)."""
        return self.ep_log_evidence() if self.log_masses is None else float(self.log_masses.sum())

    def gradient_matrices(self) -> list[Array]:
        """M with ∂ log Z_EP/∂θ = Σᵢⱼ Mᵢⱼ ∂Kᵢⱼ/∂θ; at a fixed point the sites' own movement does not count.

        References
        ----------
        RW06 eq. 5.27.
        """
        R = self.posterior.precision.matrix()
        R *= -0.5
        R += np.outer(0.5 * self.posterior.a, self.posterior.a)
        return [R]

    def marginals(self) -> Scores:
        """Means and variances of the latents at the training rows."""
        return Scores(self.mean, self.variance)


def expectation_propagation(
    problem: Latents, start: Array | None = None, controls: Controls = TO_ROUNDING
) -> SiteLatents:
    """Replace every likelihood factor by a Gaussian that has the right moments in the context of all others.

    A sweep over all sites is one Cholesky and one triangular inverse; `settle` has the rest.

    Parameters
    ----------
    problem : Latents
    start : (2, n) array, optional
        Sites (τ, ν) to start from; none by default.
    controls : Controls
        `tol` is the goal for the largest squared change of a marginal, in its standard deviations (at least 1e-18),
        `max_steps` the most sweeps.
    """
    rounding = (FLOOR * np.diag(problem.K).max()) ** 2  # variances are differences from those of the prior
    state, status, steps = settle(_first_state(problem, start), max(controls.tol, GOAL, rounding), controls)
    return replace(state, status=status, steps=steps)


def assumed_density_filtering(
    problem: Latents, start: Array | None = None, controls: Controls = TO_ROUNDING
) -> SiteLatents:
    """One pass over the rows in their order: every row is taken in once, with what came before it as its prior.

    The answer depends on the order of the rows. Its evidence is the product of the masses met on the way,
    p(y₁) p(y₂ | y₁) …, each with the approximation made so far.

    References
    ----------
    Minka 2001, sec. 3.2.
    """
    passed = sequential_sweep(_first_state(problem, None))
    if np.isnan(passed.log_masses).any():
        raise NotPositiveDefinite("a variance met on the way is lost in rounding: the kernel's values are too large.")
    return replace(passed.state, status=Status.CONVERGED, steps=1, log_masses=passed.log_masses)


class Sweep(NamedTuple):
    """The state after a sequential sweep, and the masses met on the way."""

    state: SiteLatents
    log_masses: Array


def sequential_sweep(state: SiteLatents) -> Sweep:
    """Visit rows one by one, in order; each sees the sites of all others as they are by then.

    Rows are taken in blocks. Within a block only the block's own joint marginal is kept up to date, by updates of
    rank one; it is made anew from all sites before the next block.
    """
    problem = state.problem
    n = len(problem.y)
    log_masses = np.full(n, np.nan)  # stays so where a cavity is no Gaussian
    for rows in np.array_split(np.arange(n), min(BLOCKS, n)):
        mean, cov = state.posterior.joint(problem.K[:, rows], problem.K[np.ix_(rows, rows)])
        tau, nu = (site.copy() for site in state.sites)
        for j, i in enumerate(rows):
            here = Sites(tau[i : i + 1], nu[i : i + 1])
            cavity = cavities_of(mean[j : j + 1], cov[j : j + 1, j], here)
            if not cavity.proper[0]:
                continue
            tilted = tilted_of(problem.likelihood, problem.y[i : i + 1], cavity)
            log_masses[i] = tilted.log_mass[0]
            new = matched(tilted, cavity)
            by_tau, by_nu = float(new.tau[0] - tau[i]), float(new.nu[0] - nu[i])
            tau[i], nu[i] = new.tau[0], new.nu[0]
            column = cov[:, j] / (1.0 + by_tau * cov[j, j])
            mean = mean + (by_nu - by_tau * mean[j]) * column
            cov = cov - by_tau * np.outer(column, cov[:, j])
        state = SiteLatents.of(problem, Sites(tau, nu))
    return Sweep(state, log_masses)


def _first_state(problem: Latents, start: Array | None) -> SiteLatents:
    none = np.zeros(len(problem.y))
    if start is not None:
        try:
            return SiteLatents.of(problem, Sites(*start))
        except NotPositiveDefinite:  # sites of another kernel need not suit this one
            pass
    return SiteLatents.of(problem, Sites(none, none))
