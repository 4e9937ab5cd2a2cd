r"""Variational inference: the Gaussian of least KL(q ‖ p), by steps that never lower the bound on the evidence.

.. math:: \log p(y) \ge E_q[\log p(y \mid x)] + E_q[\log p(x)] + H[q]

Notation
--------
====  ============================================================================  ======
m, Λ  mean and precision of q, Λ = L Lᵀ                                             (M,)
C     L⁻ᵀ, the upper triangular root of its covariance, Σ = C Cᵀ                    (M, M)
g     gradient of the bound in m: E[∇ log p(y, x)]                                  (M,)
H     averaged curvature: minus the Hessian of log p(y, x), averaged over q         (M, M)
E     the upper triangle of I - Cᵀ H C: gradient of the bound in T, where C(I + T)  (M, M)
====  ============================================================================  ======

At the maximum g = 0 and Λ = H. One pass over the rows gives the bound, g and H of the point it is made at.

Far from the maximum a step goes to the precision H and the mean m + H⁻¹g: the natural gradient of the bound with a
step of one (Khan & Rue 2023). Near it, such steps converge slowly where the posterior is skewed. There the search goes
on in (m, C), in which the bound of a log-concave likelihood is concave (Challis & Barber 2013), by the limited-memory
BFGS method, whose first guess of the Hessian is the Fisher metric of q: a step of KL in nats is as long everywhere.
"""

from typing import NamedTuple

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation, Quadratic
from credibly.inference.linear.objective import Objective
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.special import LOG_2PI
from credibly.numerics.status import CONTROLS, Controls, Status

FAR = 1.0  # squared standard deviations for each weight that a whole step would move it, above which q is far
MOST_PAIRS, FEWEST_PAIRS, PAIR_NUMBERS = 10, 2, 2e7  # steps that are remembered; all in 160 MB, but for the fewest
ARMIJO = 1e-4  # share of the rise that its slope promises which a step must have
SMALLEST_STEP, SMALLEST_NEAR = 2.0**-20, 2.0**-3  # shares of a step that are tried: the second where one is short
FLATTEST, STEEPEST = 0.05, 1.0  # of the first guess, beside the Fisher metric
LEAST_DIAGONAL = 0.1  # that a step leaves of an element of the diagonal of C
NEAR = 1e-5  # squared standard deviations for each weight: below, what stops a search is the rounding of averages
FARTHEST = 1e16  # squared standard deviations to go: averages over such a start are of its tails alone, or no numbers;
NARROWER, NARROWINGS = 16.0, 40  # so its precision becomes so many times as large, so often at most


class State(NamedTuple):
    """A Gaussian, the bound there, and its slopes."""

    q: Gaussian
    bound: float
    gradient: Array  # g
    triangle: Array  # E
    by_root: Array  # the gradient in C, upper triangular: that of L E
    target: PSD | None  # H, where it is positive definite
    likelihood: Quadratic  # that averages over q make of the log likelihood

    @classmethod
    def of(cls, objective: Objective, q: Gaussian) -> "State":
        """One pass over the rows."""
        with np.errstate(over="ignore", invalid="ignore"):  # averages that are no numbers: the search steps back
            rows, prior = objective.averages(q), objective.expected_prior(q)
            entropy = 0.5 * (q.mean.size * (1 + LOG_2PI) - q.precision.logdet)
            bound, gradient = rows.log_likelihood - prior.value + entropy, rows.gradient - prior.gradient
            white = [q.root @ part for part in prior.roots]
            E = np.triu(-(q.root @ rows.information) @ q.root.T - white[0] @ white[0].T + white[1] @ white[1].T)
            E.flat[:: len(E) + 1] += 1.0
            likelihood = Quadratic(rows.information, rows.information @ q.mean + rows.gradient)
        if not (np.isfinite(bound) and np.isfinite(gradient).all() and np.isfinite(E).all()):
            return cls(q, -np.inf, gradient, E, E, None, likelihood)
        try:
            target = objective.precision(rows.information, prior.hessian, prior.roots, "the averaged curvature")
        except NotPositiveDefinite:
            target = None
        return cls(q, bound, gradient, E, np.triu(q.precision.factor @ E), target, likelihood)

    @property
    def rise(self) -> float:
        r"""The squared length of a whole step, in standard deviations: twice the KL of its Gaussian to this one.

        .. math:: |C^\top g|^2 + \tfrac12 \|I - C^\top H C\|^2
        """
        with np.errstate(over="ignore", invalid="ignore"):
            white, diagonal = self.q.root @ self.gradient, np.diag(self.triangle)
            return float(white @ white + (self.triangle**2).sum() - 0.5 * diagonal @ diagonal)

    def metric(self, mean: Array, root: Array) -> tuple[Array, Array]:
        """The inverse of the Fisher metric, for a gradient in m and in C."""
        R = self.q.root
        T = np.triu(R @ root)
        T.flat[:: len(T) + 1] *= 0.5
        return R.T @ (R @ mean), R.T @ T

    def natural(self, length: float) -> Gaussian:
        """q after a natural-gradient step of this length."""
        assert self.target is not None
        precision = self.target
        if length < 1.0:
            mixed = (1 - length) * self.q.precision.matrix + length * self.target.matrix
            precision = PSD.of(mixed, "the precision between two steps")
        return Gaussian(self.q.mean + length * precision.solve(self.gradient), precision)

    def moved(self, mean: Array, root: Array) -> Gaussian:
        """q after a step in m and in C."""
        lower = PSD(np.asfortranarray((self.q.root.T + root).T))
        return Gaussian(self.q.mean + mean, PSD(np.asfortranarray(lower.inverse_root)))


class Pair(NamedTuple):
    """A step in (m, C), and by how much the gradient fell along it."""

    mean: Array
    root: Array
    fall_mean: Array
    fall_root: Array

    @property
    def product(self) -> float:
        """Positive where the bound is concave along the step."""
        return float(self.mean @ self.fall_mean + np.vdot(self.root, self.fall_root))


def variational(objective: Objective, start: Gaussian, controls: Controls = CONTROLS) -> Approximation:
    """Approximate the posterior by the Gaussian of least KL(q ‖ p), from a Gaussian near it.

    Parameters
    ----------
    objective : Objective
        With a prior that is a distribution, and a likelihood whose averages over a Gaussian exist.
    start : Gaussian
        Mostly Laplace's, or that of nearly the same problem.
    controls : Controls
        `tol`: the search ends where a whole step would be no longer than this, in squared standard deviations. It ends,
        too, where no step rises and a whole one is as short as the errors of averages.

    Returns
    -------
    Approximation
        `log_evidence` is the bound, the log likelihood that at the mean.

    References
    ----------
    Opper & Archambeau 2009; Challis & Barber 2013; Khan & Rue 2023. Nocedal & Wright 2006, algorithms 7.4 and 7.5.
    """
    state, pairs, status = _first(objective, start), list[Pair](), Status.STEP_LIMIT
    M = start.mean.size
    most = int(np.clip(PAIR_NUMBERS / (2 * M**2), FEWEST_PAIRS, MOST_PAIRS))
    for step in range(1, controls.max_steps + 1):
        rise = state.rise
        controls.report(step - 1, -state.bound, rise)
        if rise <= controls.tol:
            status = Status.CONVERGED
            break
        new = _natural_step(objective, state) if not pairs and rise > FAR * M else None
        if new is None:
            near = rise <= NEAR * M
            new = _step(objective, state, pairs, SMALLEST_NEAR if near else SMALLEST_STEP)
            if new is None and pairs and not near:
                pairs = []
                new = _step(objective, state, pairs, SMALLEST_STEP)
            if new is None:
                status = Status.CONVERGED if near else Status.STALLED
                break
            pair = Pair(
                new.q.mean - state.q.mean,
                new.q.root.T - state.q.root.T,
                state.gradient - new.gradient,
                state.by_root - new.by_root,
            )
            if pair.product > 0:
                pairs = [*pairs, pair][-most:]
        state = new
    q = state.q
    return Approximation(q, state.bound, objective.log_likelihood(q.mean), status, step, likelihood=state.likelihood)


def _first(objective: Objective, q: Gaussian) -> State:
    """The state at the start, with a smaller covariance where averages over it are no numbers."""
    for _ in range(NARROWINGS):
        state = State.of(objective, q)
        if np.isfinite(state.bound) and state.rise < FARTHEST:
            return state
        q = Gaussian(q.mean, PSD(np.asfortranarray(np.sqrt(NARROWER) * q.precision.factor)))
    raise NotPositiveDefinite("the averaged curvature is not finite around the mode.")


def _natural_step(objective: Objective, state: State) -> State | None:
    """The state after the longest natural-gradient step of one, a half, a quarter … that raises the bound."""
    length = 1.0 if state.target is not None else 0.0
    while length > SMALLEST_STEP:
        try:
            new = State.of(objective, state.natural(length))
        except NotPositiveDefinite:
            new = None
        if new is not None and new.bound > state.bound:
            return new
        length /= 2
    return None


def _step(objective: Objective, state: State, pairs: list[Pair], smallest: float) -> State | None:
    """The state after a step of limited-memory BFGS; None where no length of it raises the bound."""
    mean, root = _direction(state, pairs)
    slope = float(state.gradient @ mean + np.vdot(state.by_root, root))
    if not slope > 0:
        return None
    shrinkage = float((np.diag(root) / np.diag(state.q.root)).min())
    length = min(1.0, (LEAST_DIAGONAL - 1) / shrinkage) if shrinkage < 0 else 1.0
    smallest *= length
    while length > smallest:
        new = State.of(objective, state.moved(length * mean, length * root))
        gain = new.bound - state.bound
        if gain >= ARMIJO * length * slope:
            return new
        # of a parabola through both bounds and the slope, between a tenth and a half
        length *= float(np.clip(0.5 * length * slope / (length * slope - gain), 0.1, 0.5)) if gain > -np.inf else 0.1
    return None


def _direction(state: State, pairs: list[Pair]) -> tuple[Array, Array]:
    """The two loops of limited-memory BFGS, from the newest pair to the oldest and back."""
    mean, root = state.gradient, state.by_root
    shares: list[float] = []
    for pair in reversed(pairs):
        share = float(pair.mean @ mean + np.vdot(pair.root, root)) / pair.product
        mean, root = mean - share * pair.fall_mean, root - share * pair.fall_root
        shares.append(share)
    mean, root = state.metric(mean, root)
    if pairs:
        last = pairs[-1]
        metric_mean, metric_root = state.metric(last.fall_mean, last.fall_root)
        squared = float(last.fall_mean @ metric_mean + np.vdot(last.fall_root, metric_root))
        scale = float(np.clip(last.product / squared, FLATTEST, STEEPEST))
        mean, root = scale * mean, scale * root
    for pair, share in zip(pairs, reversed(shares), strict=True):
        more = share - float(pair.fall_mean @ mean + np.vdot(pair.fall_root, root)) / pair.product
        mean, root = mean + more * pair.mean, root + more * pair.root
    return mean, root
