"""Laplace and expectation propagation over latents that hang together through inducing points.

Notation as in `inducing`, `latent_newton` and `sites`. Likelihoods are log-concave: curvatures are not negative.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from credibly.data.rows import Sums
from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Scores
from credibly.inference.inducing import InducingPrecision, InducingPrior, Part
from credibly.inference.inducing_posterior import InducingGaussian
from credibly.inference.kernel_slopes import cross_sums, diagonal_sums, place_sums
from credibly.inference.latent_newton import AtMode, Mode, Point
from credibly.inference.leave_one_out import cavities, log_left_out
from credibly.inference.sites import GOAL, Cavities, Sites, SiteState, matched, settle, tilted_of
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.base import Expansion
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import scratch, weighted_gram
from credibly.numerics.newton import ARMIJO, HALVINGS, at_rounding_floor, rounding
from credibly.numerics.status import TO_ROUNDING, Controls, Status

CHORD = 100.0  # squared decrement below which a step is tried with the factor of the last one: n m instead of n m²
CHORD_GAIN = 0.1  # what such a step must take off the squared decrement, or the factor is renewed
CHORD_GOAL = 1e-2
FLOOR = 4 * np.finfo(float).eps
HALF = 0.5
PARTS = 8  # of the rows, whose sites are moved in turn where moving all at once does not settle


class InducingLatents(NamedTuple):
    """The problem: a prior of the latents, labels, and what ties labels to latents."""

    prior: InducingPrior
    y: Array
    likelihood: Likelihood


def evidence_gradient(precision: InducingPrecision, a: Array, b: Array, places: bool = False) -> Array:
    r"""∂ log evidence/∂θ, (p,), the points being held, from M with ∂ log evidence = Σᵢⱼ Mᵢⱼ ∂Pᵢⱼ.

    With `places` also that by the points used, θ being held, (p + m d,).

    .. math:: M = \tfrac12 (b a^T + a b^T) - \tfrac12 R, \qquad
        \partial P = \operatorname{diag}(\partial k_{ii}) + \partial Q - \operatorname{diag}(\partial Q), \qquad
        \partial Q = \partial K_{nm} T^T + T \, \partial K_{mn} - T \, \partial K_{mm} T^T, \quad T = V L^{-1}

    b is a/2 for EP, and a/2 + u for Laplace, whose mode moves. R V = S V A⁻¹, so products of V with m × m matrices are
    all that is needed.
    """
    prior, A = precision.prior, precision.A
    kernel, Z, L = prior.whitening.kernel, prior.whitening.points, prior.whitening.factor
    own = a * b - 0.5 * precision.diagonal()  # diag(M)
    p, q = prior.onto_points(a, b)
    inverse = A.scaled_inverse(np.ones(prior.m))
    below = np.vstack([inverse, p, q])

    def sums(X: Array, M: Array, ends: float = 1.0) -> Array:
        slopes = cross_sums(kernel, X, Z, M)
        return np.append(slopes, ends * place_sums(kernel, X, Z, M)) if places else slopes

    def block(part: Part) -> Sums:
        X, V, (left, right, S, middle, _) = part
        weighted = scratch(len(V), prior.m + 2)
        np.multiply(V, -S[:, None], out=weighted[:, :-2])
        weighted[:, -2], weighted[:, -1] = right, left
        G = weighted @ below  # 2 (M - diag(M)) V
        G -= np.multiply(2.0 * middle[:, None], V, out=scratch(*V.shape))
        weights = G @ L.inverse_root
        return sums(X, weights), diagonal_sums(kernel, X, middle), weighted_gram(V, middle)

    slopes, on_diagonal, gram = prior.sum(block, a, b, precision.S, own)
    core = 0.5 * (inverse - np.eye(prior.m) + np.outer(p, q) + np.outer(q, p)) - gram  # Vᵀ (M - diag(M)) V
    half = L.half_solve_transposed(np.asfortranarray(core))
    among = L.half_solve_transposed(np.asfortranarray(half.T))
    slopes -= sums(Z, among, ends=2.0)  # both ends of a pair of points move
    slopes = np.asarray(slopes)
    slopes[: len(kernel.theta)] += on_diagonal
    return slopes


@dataclass(frozen=True)
class InducingLaplace(AtMode[Expansion, InducingPrecision]):
    """The Gaussian at the mode of the latents, its evidence, and how the search for the mode ended."""

    problem: InducingLatents

    @property
    def warm(self) -> Array:
        """Where a search with a similar prior may start: what the likelihood looks like here, to second order."""
        at = self.mode.point.at
        return np.stack([at.curvature, at.curvature * self.mean + at.grad])

    @property
    def posterior(self) -> InducingGaussian:
        """q, at the points."""
        return InducingGaussian.of(self.mode.precision, self.mode.point.a)

    def refined(self, controls: Controls) -> "InducingLaplace":
        """The same with latents to another tolerance, from where they are and with the factor that is at hand."""
        point, precision, *_ = self.mode
        return replace(self, mode=_mode(self.problem, point, precision, controls))

    def gradient(self, places: bool = False) -> Array:
        """∂ log evidence/∂θ, (p,), the mode's own movement included (RW06 eq. 5.21–5.24)."""
        point, precision = self.mode.point, self.mode.precision
        s = 0.5 * precision.variances() * self.problem.likelihood.third(self.problem.y, point.f)
        return evidence_gradient(precision, point.at.grad, 0.5 * point.at.grad + precision.pulled(s).a, places)

    def leave_one_out(self) -> Array:
        """log p(y_i | other rows), (n,): the row's own factor, as Laplace sees it, is taken off its marginal."""
        cavity = cavities(self.marginals(), self.mode.point.at.grad, self.mode.precision.W)
        return log_left_out(self.problem.likelihood, self.problem.y, cavity)

    def marginals(self) -> Scores:
        """Means and variances of the latents at the training rows."""
        return Scores(self.mean, self.mode.precision.variances())

    def effective_parameters(self) -> float:
        """tr(Σ W)."""
        return float(self.mode.precision.W @ self.mode.precision.variances())


def inducing_laplace(
    problem: InducingLatents, start: Array | None = None, controls: Controls = TO_ROUNDING
) -> InducingLaplace:
    """The Gaussian at the mode of the latents, by Newton steps, halved until they help enough.

    One pass over the rows factorises and another one steps; near the mode steps re-use the factor of the last one.

    Parameters
    ----------
    problem : InducingLatents
    start : (2, n) array, optional
        Curvatures W and W f + ∇ log p(y | f) at the mode for a similar prior: what the likelihood looked like there.
    controls : Controls

    References
    ----------
    RW06 Alg. 3.1; Naish-Guzman & Holden 2007.
    """
    none = np.zeros(len(problem.y))
    if start is None:
        here = Point(none, none, problem.likelihood.expand(problem.y, none))
        return InducingLaplace(_mode(problem, here, _factorised(problem, here), controls), problem)
    before = InducingPrecision.of(problem.prior, *start)
    a, f = before.pulled(start[1], before.projected)
    here = Point(a, f, problem.likelihood.expand(problem.y, f))
    return InducingLaplace(_mode(problem, here, before, controls), problem)


def _mode(
    problem: InducingLatents, here: Point[Expansion], precision: InducingPrecision, controls: Controls
) -> Mode[Expansion, InducingPrecision]:
    """As `find_mode`, which would walk over the rows three times as often; the precision is that of here, or nearly."""
    fresh, status = precision.W is here.at.curvature, Status.STEP_LIMIT
    last = last_fresh = np.inf  # δ² one step before; where the factor was last that of the point
    for step in range(1, controls.max_steps + 2):
        goal = precision.W * here.f + here.at.grad
        there = precision.pulled(goal, precision.projected if fresh else None)
        decrement = float((here.a - here.at.grad) @ (here.f - there.f))
        controls.report(step - 1, here.value, decrement)
        if not fresh and decrement > CHORD_GAIN * last:
            precision = _factorised(problem, here)
            fresh = True
            continue
        enough = controls.tol if fresh else CHORD_GOAL * controls.tol
        if decrement <= enough or (fresh and at_rounding_floor(here.value, decrement, last_fresh)):
            status = Status.CONVERGED
            break
        moved = _damped(problem, here, Point(there.a - here.a, there.f - here.f, here.at), decrement)
        if moved is None:
            status = Status.STALLED
            break
        whole, here = moved
        last_fresh = decrement if fresh else last_fresh
        last, fresh = decrement, not (whole and decrement < CHORD)
        if fresh:
            precision = _factorised(problem, here)
    if not fresh:
        precision = _factorised(problem, here)
    return Mode(here, precision, status, step)


def _factorised(problem: InducingLatents, here: Point[Expansion]) -> InducingPrecision:
    """P⁻¹ + W at a point, with W f + ∇ log p(y | f) summed in the same pass."""
    return InducingPrecision.of(problem.prior, here.at.curvature, here.at.curvature * here.f + here.at.grad)


def _damped(
    problem: InducingLatents, here: Point[Expansion], step: Point[Expansion], decrement: float
) -> tuple[bool, Point[Expansion]] | None:
    """The first of ever shorter steps that lowers Ψ enough, and whether it is the whole one."""
    for t in 0.5 ** np.arange(HALVINGS):
        f = here.f + t * step.f
        there = Point(here.a + t * step.a, f, problem.likelihood.expand(problem.y, f))
        if there.value <= here.value - ARMIJO * t * decrement + rounding(here.value):
            return bool(t == 1), there
    return None


@dataclass(frozen=True)
class InducingSites(SiteState):
    """Sites, the Gaussian they make with the prior, and how the search for them ended."""

    problem: InducingLatents
    sites: Sites
    precision: InducingPrecision
    a: Array
    mean: Array
    variance: Array
    status: Status = Status.CONVERGED
    steps: int = 0

    @classmethod
    def of(cls, problem: InducingLatents, sites: Sites) -> "InducingSites":
        """The Gaussian that these sites make; raises NotPositiveDefinite where they make none."""
        precision = InducingPrecision.of(problem.prior, sites.tau, sites.nu)
        a, f = precision.pulled_with_leverage(sites.nu)
        return cls(problem, sites, precision, a, f, precision.variances())

    def rebuilt(self, sites: Sites) -> "InducingSites":
        return InducingSites.of(self.problem, sites)

    def row_by_row(self) -> "InducingSites":
        """Some rows after the others: a part of the sites is moved at a time, half the way."""
        state = self
        for part in np.array_split(np.arange(len(self.mean)), PARTS):
            cavity = state.cavities()
            some = part[cavity.proper[part]]
            there = Cavities(cavity.tau[some], cavity.nu[some], cavity.proper[some])
            goal = matched(tilted_of(self.likelihood, self.labels[some], there), there)
            tau, nu = (site.copy() for site in state.sites)
            here = Sites(tau[some], nu[some])
            tau[some], nu[some] = here.towards(goal, HALF)
            state = state.rebuilt(Sites(tau, nu))
        return state

    def log_mass(self) -> float:
        """½ νᵀμ - ½ log|I + PT|."""
        return float(0.5 * self.sites.nu @ self.mean - 0.5 * self.precision.logdet)

    def refined(self, controls: Controls) -> "InducingSites":
        """The same with sites to another tolerance, from where they are."""
        return _settled(self, controls)

    @property
    def posterior(self) -> InducingGaussian:
        """q, at the points."""
        return InducingGaussian.of(self.precision, self.a)

    @property
    def warm(self) -> Array:
        """Where a search with a similar kernel may start."""
        return np.stack(self.sites)

    @property
    def log_evidence(self) -> float:
        """log Z_EP."""
        return self.ep_log_evidence()

    def gradient(self, places: bool = False) -> Array:
        """∂ log Z_EP/∂θ, (p,); at a fixed point the sites' own movement does not count (RW06 eq. 5.27)."""
        return evidence_gradient(self.precision, self.a, 0.5 * self.a, places)

    def marginals(self) -> Scores:
        """Means and variances of the latents at the training rows."""
        return Scores(self.mean, self.variance)


def inducing_propagation(
    problem: InducingLatents, start: Array | None = None, controls: Controls = TO_ROUNDING
) -> InducingSites:
    """Expectation propagation: as `expectation_propagation`, two passes over the rows for each sweep.

    References
    ----------
    Naish-Guzman & Holden 2007; the sweeps are parallel.
    """
    return _settled(_first_state(problem, start), controls)


def _settled(first: InducingSites, controls: Controls) -> InducingSites:
    prior = first.problem.prior
    largest = float(prior.D.max() + np.diag(prior.whitening.factor.matrix).max())
    state, status, steps = settle(first, max(controls.tol, GOAL, (FLOOR * largest) ** 2), controls)
    return replace(state, status=status, steps=steps)


def _first_state(problem: InducingLatents, start: Array | None) -> InducingSites:
    none = np.zeros(len(problem.y))
    if start is not None:
        try:
            return InducingSites.of(problem, Sites(*start))
        except NotPositiveDefinite:  # sites of another kernel need not suit this one
            pass
    return InducingSites.of(problem, Sites(none, none))
