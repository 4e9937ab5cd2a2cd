"""Expectation propagation and assumed-density filtering over the values of a function at the training rows.

Notation
--------
======  ===============================================================================  ======
t_i     site i, proportional to exp(-½ τ_i f² + ν_i f), in the place of p(y_i | f_i)     (n,)
μ, σ²   marginal means and variances of q(f) ∝ N(f | 0, K) Π t_i                         (n,)
τ₋, ν₋  precision and precision × mean of the cavity: q_i without t_i, normalised        (n,)
Ẑ       mass of the tilted density p(y_i | f_i) · cavity; μ̂, σ̂² its moments              (n,)
======  ===============================================================================  ======

The cavity is *proportional* to the integral that the notes print (E-43 of docs/theory.md); each site carries the
constant that makes its product with the normalised cavity integrate to Ẑ.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.inference.laplace import Controls
from credibly.inference.latent import LatentGaussian, Precision
from credibly.inference.latent_laplace import Latents
from credibly.inference.posterior import Scores
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.averages import Tilted
from credibly.numerics.fixed_point import Anderson
from credibly.numerics.newton import HALVINGS, Status, silent

GOAL = 1e-18  # squared change of a marginal, in its own standard deviations; finer is rounding of K
FLOOR = 4 * np.finfo(float).eps
SHORTER, LONGER = 0.7, 1.1  # what a step is multiplied by after a sweep that overshot, and after calm ones
SMALLEST_STEP = 0.1
CALM = 3  # sweeps that came nearer, one after the other
NEAR = 0.1  # squared change from which on past sweeps tell where the fixed point is
PATIENCE = 20  # sweeps without a new best state, after which one goes row by row
BLOCKS = 8  # parts of a sequential sweep: the joint marginal of a part is renewed before its rows are visited


class Sites(NamedTuple):
    """Gaussian factors in the place of the likelihood's."""

    tau: Array  # precisions
    nu: Array  # precisions times means

    def towards(self, other: "Sites", step: float) -> "Sites":
        """A share of the way to other sites."""
        return Sites(self.tau + step * (other.tau - self.tau), self.nu + step * (other.nu - self.nu))


class Cavities(NamedTuple):
    """Marginals without their own site; `proper` where that is a Gaussian."""

    tau: Array
    nu: Array
    proper: AnyArray

    @property
    def mean(self) -> Array:
        """ν₋ / τ₋."""
        return self.nu / self.tau


@dataclass(frozen=True)
class SiteLatents:
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

    @property
    def warm(self) -> Array:
        """Where a search with a similar kernel may start."""
        return np.stack(self.sites)

    def cavities(self) -> Cavities:
        """All marginals without their own site."""
        return _cavities(self.mean, self.variance, self.sites)

    def tilted(self) -> Tilted:
        """Mass and moments of p(y_i | f_i) · cavity for every row."""
        return _tilted(self.problem.likelihood, self.problem.y, self.cavities())

    @property
    def log_likelihood(self) -> float:
        """log p(y | f) at the posterior mean."""
        return float(self.problem.likelihood.log_prob(self.problem.y, self.mean).sum())

    @property
    def log_evidence(self) -> float:
        """log Z: by EP's formula, or for a single pass the sum of its log masses (a chain rule)."""
        return self.ep_log_evidence() if self.log_masses is None else float(self.log_masses.sum())

    def ep_log_evidence(self) -> float:
        r"""log Z_EP with all its terms.

        .. math:: \sum_i \Bigl[\log \hat Z_i + \tfrac12 \log(1 + τ_i/τ_{-i})
            - \frac{ν_i(ν_i + 2ν_{-i}) - τ_i μ_{-i} ν_{-i}}{2(τ_i + τ_{-i})}\Bigr]
            + \tfrac12 ν^T μ - \tfrac12 \log|I + KT|

        Notes
        -----
        RW06 eq. 3.65 divides by site precisions, which vanish far from the boundary; here nothing does.
        """
        tau, nu = self.sites
        cavity = self.cavities()
        exponent = nu * (nu + 2 * cavity.nu) - tau * cavity.mean * cavity.nu
        constants = self.tilted().log_mass + 0.5 * np.log1p(tau / cavity.tau) - 0.5 * exponent / (tau + cavity.tau)
        return float(constants.sum() + 0.5 * nu @ self.mean - 0.5 * self.posterior.precision.logdet)

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

    def leave_one_out(self) -> Array:
        """log p(y_i | other rows), (n,): the masses of the cavities."""
        return self.tilted().log_mass

    def marginals(self) -> Scores:
        """Means and variances of the latents at the training rows."""
        return Scores(self.mean, self.variance)

    def effective_parameters(self) -> float:
        """tr(Σ T)."""
        return float(self.sites.tau @ self.variance)


def expectation_propagation(
    problem: Latents, start: Array | None = None, controls: Controls = Controls()
) -> SiteLatents:
    """Replace every likelihood factor by a Gaussian that has the right moments in the context of all others.

    All sites are updated at once (a sweep is one Cholesky and one triangular inverse), damped more when they overshoot;
    a sweep visits rows one by one when that does not settle. Sites whose cavity is no Gaussian keep their value in that
    sweep. The status tells when sweeps ended before the goal; the result is then the best state seen.

    Parameters
    ----------
    problem : Latents
    start : (2, n) array, optional
        Sites (τ, ν) to start from; none by default.
    controls : Controls
        `tol` is the goal for the largest squared change of a marginal, in its standard deviations (at least 1e-18),
        `max_steps` the most sweeps.

    References
    ----------
    RW06 Alg. 3.5; Minka 2001; Cseke & Heskes 2011 on parallel updates.
    """
    state, pace = _first_state(problem, start), Pace()
    rounding = (FLOOR * np.diag(problem.K).max()) ** 2  # variances are differences from those of the prior
    enough = max(controls.tol, GOAL, rounding)
    best, since = (np.inf, state), 0
    for sweep in range(1, controls.max_steps + 1):
        goal, improper = _targets(state)
        change = _change(state, goal)
        if controls.report is not silent:
            controls.report(sweep - 1, np.nan if improper else -state.ep_log_evidence(), change)
        if change < best[0] and not improper:
            best, since = (change, state), 0
        if change <= enough and not improper:
            return replace(state, status=Status.CONVERGED, steps=sweep)
        since += 1
        pace.heed(change)
        state = _row_by_row(state) if since % PATIENCE == 0 else _all_at_once(state, goal, pace)
    return replace(best[1], status=Status.SWEEP_LIMIT, steps=controls.max_steps)


class Pace:
    """How far sites go towards their goals: shorter after a sweep that overshot, longer after some that did not.

    Past sweeps are mixed in only where the last ones came nearer one after the other.
    """

    def __init__(self) -> None:
        self.step, self.mixing = 1.0, Anderson()
        self._last, self._calm, self._near = np.inf, CALM, False

    def heed(self, change: float) -> None:
        """Take note of the change that the sites ask for after a sweep."""
        if change > self._last:
            self.step, self._calm = max(self.step * SHORTER, SMALLEST_STEP), 0
            self.mixing.forget()
        else:
            self._calm += 1
            if self._calm >= CALM:
                self.step = min(1.0, self.step * LONGER)
        self._last, self._near = change, change < NEAR

    @property
    def mixes(self) -> bool:
        """Whether past sweeps tell where the fixed point is."""
        return self._near and self._calm >= CALM


def assumed_density_filtering(
    problem: Latents, start: Array | None = None, controls: Controls = Controls()
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
            cavity = _cavities(mean[j : j + 1], cov[j : j + 1, j], here)
            if not cavity.proper[0]:
                continue
            tilted = _tilted(problem.likelihood, problem.y[i : i + 1], cavity)
            log_masses[i] = tilted.log_mass[0]
            new = _matched(tilted, cavity)
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


def _cavities(mean: Array, variance: Array, sites: Sites) -> Cavities:
    some = variance != 0  # a latent without prior variance is known to be zero, and stays so
    tau, nu = np.full_like(variance, np.inf), np.zeros_like(mean)
    tau[some] = 1.0 / variance[some] - sites.tau[some]
    nu[some] = mean[some] / variance[some] - sites.nu[some]
    return Cavities(tau, nu, tau > 0)


def _tilted(likelihood: Likelihood, y: Array, cavity: Cavities) -> Tilted:
    return likelihood.tilted(y, cavity.mean, 1.0 / cavity.tau)


def _matched(tilted: Tilted, cavity: Cavities) -> Sites:
    """Sites that give cavity × site the moments of the tilted density."""
    some = np.isfinite(cavity.tau)
    tau, nu = np.zeros_like(tilted.var), np.zeros_like(tilted.var)
    tau[some] = 1.0 / tilted.var[some] - cavity.tau[some]
    nu[some] = tilted.mean[some] / tilted.var[some] - cavity.nu[some]
    return Sites(tau, nu)


def _targets(state: SiteLatents) -> tuple[Sites, bool]:
    """The sites that every row asks for, and whether some cavity is no Gaussian (its site stays)."""
    cavity = state.cavities()
    ok = cavity.proper
    if ok.all():
        return _matched(state.tilted(), cavity), False
    tau, nu = (site.copy() for site in state.sites)
    some = Cavities(cavity.tau[ok], cavity.nu[ok], ok[ok])
    tau[ok], nu[ok] = _matched(_tilted(state.problem.likelihood, state.problem.y[ok], some), some)
    return Sites(tau, nu), True


def _change(state: SiteLatents, goal: Sites) -> float:
    """Largest squared change of a marginal that its own new site would make, in its standard deviations."""
    by_tau = goal.tau - state.sites.tau
    by_mean = goal.nu - state.sites.nu - by_tau * state.mean
    return float(np.maximum((by_tau * state.variance) ** 2, by_mean**2 * state.variance).max())


def _row_by_row(state: SiteLatents) -> SiteLatents:
    """A sequential sweep, or the state as it is where that ends in sites that give no Gaussian."""
    try:
        return sequential_sweep(state).state
    except NotPositiveDefinite:
        return state


def _all_at_once(state: SiteLatents, goal: Sites, pace: Pace) -> SiteLatents:
    """All sites moved towards their goals; less far where together they would give no Gaussian."""
    step = pace.step
    if pace.mixes:
        x, scale = np.concatenate(state.sites), np.concatenate([state.variance, np.sqrt(state.variance)])
        sites = Sites(*np.split(pace.mixing.next_point(x, np.concatenate(goal) - x, scale, step), 2))
        if ((sites.tau >= 0) | (goal.tau < 0)).all():
            try:
                return SiteLatents.of(state.problem, sites)
            except NotPositiveDefinite:
                pace.mixing.forget()
    for _ in range(HALVINGS):
        try:
            return SiteLatents.of(state.problem, state.sites.towards(goal, step))
        except NotPositiveDefinite:
            step /= 2
    return state
