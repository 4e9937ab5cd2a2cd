"""Gaussian sites in the place of likelihood factors, and the search for those that expectation propagation asks for.

Notation
--------
======  ===============================================================================  ======
t_i     site i, proportional to exp(-½ τ_i f² + ν_i f), in the place of p(y_i | f_i)     (n,)
μ, σ²   marginal means and variances of the score f_i under q ∝ prior · Π t_i            (n,)
τ₋, ν₋  precision and precision × mean of the cavity: q_i without t_i, normalised        (n,)
Ẑ       mass of the tilted density p(y_i | f_i) · cavity; μ̂, σ̂² its moments              (n,)
c       how often a row counts                                                           (n,)
======  ===============================================================================  ======

Function space and weight space share all of this; they differ in how a Gaussian is made of prior and sites. The cavity
is *proportional* to the integral that the notes print (E-43 of docs/theory.md); each site carries the constant that
makes its product with the normalised cavity integrate to Ẑ.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.averages import Tilted
from credibly.numerics.fixed_point import Anderson
from credibly.numerics.newton import HALVINGS
from credibly.numerics.status import Controls, Status, silent

GOAL = 1e-18  # squared change of a marginal, in its own standard deviations; finer is rounding of K
FLOOR = 4 * np.finfo(float).eps
SHORTER, LONGER = 0.7, 1.1  # what a step is multiplied by after a sweep that overshot, and after calm ones
SMALLEST_STEP = 0.1
CALM = 3  # sweeps that came nearer, one after the other
NEAR = 0.1  # squared change from which on past sweeps tell where the fixed point is
PATIENCE = 20  # sweeps without a new best state, after which one goes row by row


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


class SiteProblem(Protocol):
    """What is to be learnt from."""

    @property
    def likelihood(self) -> Likelihood:
        """p(y | f)."""

    @property
    def y(self) -> Array:
        """Labels, (n,)."""


class SiteState(ABC):
    """Sites, and what the Gaussian that they make with the prior says of every row."""

    problem: SiteProblem
    sites: Sites
    mean: Array  # μ, (n,)
    variance: Array  # σ², (n,)

    @property
    def likelihood(self) -> Likelihood:
        """p(y | f)."""
        return self.problem.likelihood

    def effective_parameters(self) -> float:
        """tr(Σ T)."""
        return float(self.sites.tau @ self.variance)

    @property
    def labels(self) -> Array:
        """y, (n,)."""
        return self.problem.y

    @abstractmethod
    def rebuilt(self, sites: Sites) -> Self:
        """The same problem with other sites; raises NotPositiveDefinite where they make no Gaussian."""

    @abstractmethod
    def row_by_row(self) -> Self:
        """After one sequential sweep; raises NotPositiveDefinite where that ends in no Gaussian."""

    @abstractmethod
    def log_mass(self) -> float:
        """log ∫ prior · Π exp(-½ τ f² + ν f)."""

    @property
    def counts(self) -> Array | float:
        """How often each row counts: so many sites alike."""
        return 1.0

    def cavities(self) -> Cavities:
        """All marginals without their own site."""
        return cavities_of(self.mean, self.variance, self.sites)

    def tilted(self) -> Tilted:
        """Mass and moments of p(y_i | f_i) · cavity for every row."""
        return tilted_of(self.likelihood, self.labels, self.cavities())

    @property
    def log_likelihood(self) -> float:
        """log p(y | f) at the posterior mean."""
        return float((self.counts * self.likelihood.log_prob(self.labels, self.mean)).sum())

    def ep_log_evidence(self) -> float:
        r"""log Z_EP with all its terms.

        .. math:: \sum_i c_i \Bigl[\log \hat Z_i + \tfrac12 \log(1 + τ_i/τ_{-i})
            - \frac{ν_i(ν_i + 2ν_{-i}) - τ_i μ_{-i} ν_{-i}}{2(τ_i + τ_{-i})}\Bigr]
            + \log \int p(f) \prod_i e^{c_i(-τ_i f_i^2/2 + ν_i f_i)} df

        Notes
        -----
        RW06 eq. 3.65 divides by site precisions, which vanish far from the boundary; here nothing does.
        """
        tau, nu = self.sites
        cavity = self.cavities()
        exponent = nu * (nu + 2 * cavity.nu) - tau * cavity.mean * cavity.nu
        constants = self.tilted().log_mass + 0.5 * np.log1p(tau / cavity.tau) - 0.5 * exponent / (tau + cavity.tau)
        return float((self.counts * constants).sum() + self.log_mass())

    def leave_one_out(self) -> Array:
        """log p(y_i | other rows), (n,): the masses of the cavities."""
        return self.tilted().log_mass


State = TypeVar("State", bound=SiteState)


def settle(state: State, enough: float, controls: Controls) -> tuple[State, Status, int]:
    """Move sites until every one has the right moments in the context of all others.

    All sites are updated at once, damped more when they overshoot; a sweep visits rows one by one when that does not
    settle. Sites whose cavity is no Gaussian keep their value in that sweep. The status tells when sweeps ended before
    the goal, `enough` for the largest squared change of a marginal; the state is then the best one seen. Raises
    NotPositiveDefinite where in every sweep some cavity was no Gaussian: such a state has no evidence.

    References
    ----------
    RW06 Alg. 3.5; Minka 2001; Cseke & Heskes 2011 on parallel updates.
    """
    pace, best, since = Pace(), (np.inf, state), 0
    for sweep in range(1, controls.max_steps + 1):
        goal, improper = _targets(state)
        change = _change(state, goal)
        if controls.report is not silent:
            controls.report(sweep - 1, np.nan if improper else -state.ep_log_evidence(), change)
        if change < best[0] and not improper:
            best, since = (change, state), 0
        if change <= enough and not improper:
            return state, Status.CONVERGED, sweep
        since += 1
        pace.heed(change)
        state = _row_by_row(state) if since % PATIENCE == 0 else _all_at_once(state, goal, pace)
    if best[0] == np.inf:
        raise NotPositiveDefinite("in no sweep of expectation propagation were all cavities Gaussians.")
    return best[1], Status.SWEEP_LIMIT, controls.max_steps


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


def cavities_of(mean: Array, variance: Array, sites: Sites) -> Cavities:
    """Marginals without their own site."""
    some = variance != 0  # a latent without prior variance is known to be zero, and stays so
    tau, nu = np.full_like(variance, np.inf), np.zeros_like(mean)
    tau[some] = 1.0 / variance[some] - sites.tau[some]
    nu[some] = mean[some] / variance[some] - sites.nu[some]
    return Cavities(tau, nu, tau > 0)


def tilted_of(likelihood: Likelihood, y: Array, cavity: Cavities) -> Tilted:
    """Mass and moments of p(y | f) · cavity."""
    return likelihood.tilted(y, cavity.mean, 1.0 / cavity.tau)


def matched(tilted: Tilted, cavity: Cavities) -> Sites:
    """Sites that give cavity × site the moments of the tilted density."""
    some = np.isfinite(cavity.tau)
    tau, nu = np.zeros_like(tilted.var), np.zeros_like(tilted.var)
    tau[some] = 1.0 / tilted.var[some] - cavity.tau[some]
    nu[some] = tilted.mean[some] / tilted.var[some] - cavity.nu[some]
    return Sites(tau, nu)


def _targets(state: SiteState) -> tuple[Sites, bool]:
    """The sites that every row asks for, and whether some cavity is no Gaussian (its site stays).

    So does that of a row that does not count.
    """
    cavity = state.cavities()
    counted = np.broadcast_to(np.asarray(state.counts) > 0, cavity.proper.shape)
    ok = cavity.proper & counted
    if ok.all():
        return matched(state.tilted(), cavity), False
    tau, nu = (site.copy() for site in state.sites)
    some = Cavities(cavity.tau[ok], cavity.nu[ok], ok[ok])
    tau[ok], nu[ok] = matched(tilted_of(state.likelihood, state.labels[ok], some), some)
    return Sites(tau, nu), not cavity.proper[counted].all()


def _change(state: SiteState, goal: Sites) -> float:
    """Largest squared change of a marginal that its own new site would make, in its standard deviations."""
    by_tau = goal.tau - state.sites.tau
    by_mean = goal.nu - state.sites.nu - by_tau * state.mean
    with np.errstate(over="ignore"):  # infinite is far from settled
        return float(np.maximum((by_tau * state.variance) ** 2, by_mean**2 * state.variance).max())


def _row_by_row(state: State) -> State:
    """A sequential sweep, or the state as it is where that ends in sites that give no Gaussian."""
    try:
        return state.row_by_row()
    except NotPositiveDefinite:
        return state


def _all_at_once(state: State, goal: Sites, pace: Pace) -> State:
    """All sites moved towards their goals; less far where together they would give no Gaussian."""
    step = pace.step
    if pace.mixes:
        share, sd = np.sqrt(state.counts), np.sqrt(state.variance)  # a row that counts twice weighs as two rows
        x, scale = np.concatenate(state.sites), np.concatenate([share * state.variance, share * sd])
        sites = Sites(*np.split(pace.mixing.next_point(x, np.concatenate(goal) - x, scale, step), 2))
        if ((sites.tau >= 0) | (goal.tau < 0)).all():
            try:
                return state.rebuilt(sites)
            except NotPositiveDefinite:
                pace.mixing.forget()
    for _ in range(HALVINGS):
        try:
            return state.rebuilt(state.sites.towards(goal, step))
        except NotPositiveDefinite:
            step /= 2
    return state
