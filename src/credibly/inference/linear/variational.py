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
θ     log prior scales, where they are learnt                                       (T,)
====  ============================================================================  ======

At the maximum g = 0 and Λ = H. One pass over the rows gives the bound, g and H of the point it is made at.

Far from the maximum a step goes to the precision H and the mean m + H⁻¹g: the natural gradient of the bound with a
step of one (Khan & Rue 2023). Near it, such steps converge slowly where the posterior is skewed. There the search goes
on in (m, C), in which the bound of a log-concave likelihood is concave (Challis & Barber 2013), by the limited-memory
BFGS method, whose first guess of the Hessian is the Fisher metric of q: a step of KL in nats is as long everywhere.
Prior scales are searched along: their slope, Σ τ(m² + Σ_jj) - 1, needs no pass.
"""

from typing import NamedTuple, Protocol

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation, Quadratic
from credibly.inference.linear.objective import Objective
from credibly.model.likelihoods.kinds import n_outputs
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.softmax_averages import BY_NODES, FEW_POINTS, POINTS
from credibly.numerics.special import LOG_2PI
from credibly.numerics.status import CONTROLS, Controls, Status

FAR = 1.0  # squared standard deviations for each weight that a whole step would move it, above which q is far
MOST_PAIRS, FEWEST_PAIRS, PAIR_NUMBERS = 10, 2, 2e7  # steps that are remembered; all in 160 MB, but for the fewest
ARMIJO = 1e-4  # share of the rise that its slope promises which a step must have
SMALLEST_STEP, SMALLEST_NEAR = 2.0**-20, 2.0**-3  # shares of a step that are tried: the second where one is short
FLATTEST, STEEPEST = 0.05, 1.0  # of the first guess, beside the Fisher metric
LEAST_DIAGONAL = 0.1  # that a step leaves of an element of the diagonal of C
LONGEST_IN_SCALE = 1.0  # step in a log scale
CLOSE = 1e-1  # squared standard deviations for each weight: from farther off a search with few points comes first
ROUGH = 1e-4  # … to which few points lead, and below which it is their errors that stop a search,
NEAR = 1e-5  # or those of nodes
FARTHEST = 1e16  # squared standard deviations to go: averages over such a start are of its tails alone, or no numbers;
NARROWER, NARROWINGS = 16.0, 40  # so its precision becomes so many times as large, so often at most


class Vector(NamedTuple):
    """A step in the mean, in the root and in the log scales, or a gradient in them."""

    mean: Array  # (M,)
    root: Array  # (M, M), upper triangular
    scales: Array  # (T,)

    def dot(self, other: "Vector") -> float:
        """Inner product."""
        return float(self.mean @ other.mean + np.vdot(self.root, other.root) + self.scales @ other.scales)

    def plus(self, factor: float, other: "Vector") -> "Vector":
        """The sum with so much of another."""
        return Vector(*(mine + factor * its for mine, its in zip(self, other, strict=True)))

    def times(self, factor: float) -> "Vector":
        """So much of it."""
        return Vector(*(factor * mine for mine in self))


class Scales(Protocol):
    """Prior scales that are searched along."""

    def objective(self, theta: Array, /) -> Objective:
        """The objective with the prior at θ."""

    def slope(self, theta: Array, q: Gaussian, /) -> Array:
        """Slope of the bound in θ, zero where it points out of its bounds."""

    def clipped(self, theta: Array, /) -> Array:
        """θ within its bounds."""

    @property
    def counts(self) -> Array:
        """How many weights each scale is of."""


class State(NamedTuple):
    """A Gaussian (and scales), the bound there, and its slopes."""

    q: Gaussian
    theta: Array
    bound: float
    triangle: Array  # E
    gradient: Vector  # g, that in C, which is the upper triangle of L E, and that in θ
    target: PSD | None  # H, where it is positive definite
    likelihood: Quadratic  # that averages over q make of the log likelihood

    @property
    def rise(self) -> float:
        r"""The squared length of a whole step, in standard deviations: twice the KL of its Gaussian to this one.

        .. math:: |C^\top g|^2 + \tfrac12 \|I - C^\top H C\|^2
        """
        with np.errstate(over="ignore", invalid="ignore"):
            white, diagonal = self.q.root @ self.gradient.mean, np.diag(self.triangle)
            return float(white @ white + (self.triangle**2).sum() - 0.5 * diagonal @ diagonal)

    def natural(self, length: float) -> Gaussian:
        """q after a natural-gradient step of this length."""
        assert self.target is not None
        precision = self.target
        if length < 1.0:
            mixed = (1 - length) * self.q.precision.matrix + length * self.target.matrix
            precision = PSD.of(mixed, "the precision between two steps")
        return Gaussian(self.q.mean + length * precision.solve(self.gradient.mean), precision)

    def moved(self, step: Vector) -> Gaussian:
        """q after a step in m and in C."""
        lower = PSD(np.asfortranarray((self.q.root.T + step.root).T))
        return Gaussian(self.q.mean + step.mean, PSD(np.asfortranarray(lower.inverse_root)))


class Bound:
    """The bound as a function of a Gaussian and of log scales.

    Parameters
    ----------
    objective : Objective
        With scales, at whatever scales.
    scales : Scales or None
    points : int
        At which averages over the scores of many classes are taken.
    """

    def __init__(self, objective: Objective, scales: Scales | None, points: int) -> None:
        self.objective, self.scales, self.points = objective, scales, points

    def __call__(self, q: Gaussian, theta: Array) -> State:
        """One pass over the rows."""
        objective = self.objective if self.scales is None else self.scales.objective(theta)
        with np.errstate(over="ignore", invalid="ignore"):  # averages that are no numbers: the search steps back
            rows, prior = objective.averages(q, self.points), objective.expected_prior(q)
            entropy = 0.5 * (q.mean.size * (1 + LOG_2PI) - q.precision.logdet)
            bound, g = rows.log_likelihood - prior.value + entropy, rows.gradient - prior.gradient
            white = [q.root @ part for part in prior.roots]
            E = np.triu(-(q.root @ rows.information) @ q.root.T - white[0] @ white[0].T + white[1] @ white[1].T)
            E.flat[:: len(E) + 1] += 1.0
            likelihood = Quadratic(rows.information, rows.information @ q.mean + rows.gradient)
        slope = np.empty(0) if self.scales is None else self.scales.slope(theta, q)
        if not (np.isfinite(bound) and np.isfinite(g).all() and np.isfinite(E).all()):
            return State(q, theta, -np.inf, E, Vector(g, E, slope), None, likelihood)
        gradient = Vector(g, np.triu(q.precision.factor @ E), slope)
        try:
            target = objective.precision(rows.information, prior.hessian, prior.roots, "the averaged curvature")
        except NotPositiveDefinite:
            target = None
        return State(q, theta, bound, E, gradient, target, likelihood)

    def metric(self, state: State, gradient: Vector) -> Vector:
        """The inverse of the Fisher metric, times a gradient; of log scales, over the curvature 2 Σ τ(m² + Σ_jj)."""
        R = state.q.root
        T = np.triu(R @ gradient.root)
        T.flat[:: len(T) + 1] *= 0.5
        return Vector(R.T @ (R @ gradient.mean), R.T @ T, gradient.scales / self._curvature(state))

    def _curvature(self, state: State) -> Array:
        """That of the bound in log scales where they are too small, and what it is at their best where too large."""
        if self.scales is None:
            return np.empty(0)
        return 2 * (self.scales.counts + np.maximum(state.gradient.scales, 0.0))

    def level(self, state: State, tol: float) -> bool:
        """Whether a whole step would be no longer than the root of this, in standard deviations."""
        return state.rise + float((state.gradient.scales**2 / self._curvature(state)).sum()) <= tol


class Pair(NamedTuple):
    """A step, and by how much the gradient fell along it: their product is positive where the bound is concave."""

    step: Vector
    fall: Vector
    product: float


def variational(
    objective: Objective,
    start: Gaussian,
    controls: Controls = CONTROLS,
    *,
    points: int = POINTS,
) -> Approximation:
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
    points : int
        At which averages are taken, for five classes and more; a search with few comes first, whose bound is another.

    Returns
    -------
    Approximation
        `log_evidence` is the bound, the log likelihood that at the mean.

    References
    ----------
    Opper & Archambeau 2009; Challis & Barber 2013; Khan & Rue 2023. Nocedal & Wright 2006, algorithms 7.4 and 7.5.
    """
    return _search(Bound(objective, None, points), start, np.empty(0), controls)[1]


def variational_with_scales(
    scales: Scales, theta: Array, start: Gaussian, controls: Controls = CONTROLS, *, points: int = POINTS
) -> tuple[Array, Approximation]:
    """The log prior scales of the highest bound, and the approximation there, from a start of both."""
    return _search(Bound(scales.objective(theta), scales, points), start, theta, controls)


def _search(bound: Bound, start: Gaussian, theta: Array, controls: Controls) -> tuple[Array, Approximation]:
    M, objective, all_points = start.mean.size, bound.objective, bound.points
    most = int(np.clip(PAIR_NUMBERS / (2 * M**2), FEWEST_PAIRS, MOST_PAIRS))
    at_points = n_outputs(objective.likelihood) > BY_NODES
    few, nearest = all_points > FEW_POINTS and at_points, ROUGH if at_points else NEAR
    bound.points = FEW_POINTS if few else all_points
    state, pairs, status = _first(bound, start, theta), list[Pair](), Status.STEP_LIMIT
    if few and bound.level(state, CLOSE * M):
        few, bound.points = False, all_points
        state = bound(state.q, theta)
    for step in range(1, controls.max_steps + 1):
        controls.report(step - 1, -state.bound, state.rise)
        if bound.level(state, controls.tol) and not few:
            status = Status.CONVERGED
            break
        new = _natural_step(bound, state) if not pairs and state.rise > FAR * M else None
        if new is None and not (few and bound.level(state, ROUGH * M)):
            near = bound.level(state, nearest * M)
            new = _step(bound, state, pairs, SMALLEST_NEAR if near else SMALLEST_STEP)
            if new is None and pairs and not near:
                pairs = []
                new = _step(bound, state, pairs, SMALLEST_STEP)
            if new is None and not few:
                status = Status.CONVERGED if near else Status.STALLED
                break
            if new is not None:
                pairs = _remembered(pairs, state, new, most)
        if new is None:  # as far as few points lead
            few, bound.points = False, all_points
            new = bound(state.q, state.theta)
        state = new
    q = state.q
    if bound.scales is not None:
        objective = bound.scales.objective(state.theta)
    log_likelihood = objective.log_likelihood(q.mean)
    return state.theta, Approximation(q, state.bound, log_likelihood, status, step, likelihood=state.likelihood)


def _first(bound: Bound, q: Gaussian, theta: Array) -> State:
    """The state at the start, with a smaller covariance where averages over it are no numbers."""
    for _ in range(NARROWINGS):
        state = bound(q, theta)
        if np.isfinite(state.bound) and state.rise < FARTHEST:
            return state
        q = Gaussian(q.mean, PSD(np.asfortranarray(np.sqrt(NARROWER) * q.precision.factor)))
    raise NotPositiveDefinite("the averaged curvature is not finite around the mode.")


def _natural_step(bound: Bound, state: State) -> State | None:
    """The state after the longest natural-gradient step of one, a half, a quarter … that raises the bound."""
    length = 1.0 if state.target is not None else 0.0
    while length > SMALLEST_STEP:
        try:
            new = bound(state.natural(length), state.theta)
        except NotPositiveDefinite:
            new = None
        if new is not None and new.bound > state.bound:
            return new
        length /= 2
    return None


def _step(bound: Bound, state: State, pairs: list[Pair], smallest: float) -> State | None:
    """The state after a step of limited-memory BFGS; None where no length of it raises the bound."""
    step = _direction(bound, state, pairs)
    slope = state.gradient.dot(step)
    if not slope > 0:
        return None
    shrinkage = float((np.diag(step.root) / np.diag(state.q.root)).min())
    length = min(1.0, (LEAST_DIAGONAL - 1) / shrinkage) if shrinkage < 0 else 1.0
    length = min(length, LONGEST_IN_SCALE / max(float(np.abs(step.scales).max(initial=0.0)), LONGEST_IN_SCALE))
    smallest *= length
    while length > smallest:
        part = step.times(length)
        theta = state.theta if bound.scales is None else bound.scales.clipped(state.theta + part.scales)
        new = bound(state.moved(part), theta)
        gain = new.bound - state.bound
        if gain >= ARMIJO * length * slope:
            return new
        # of a parabola through both bounds and the slope, between a tenth and a half
        length *= float(np.clip(0.5 * length * slope / (length * slope - gain), 0.1, 0.5)) if gain > -np.inf else 0.1
    return None


def _remembered(pairs: list[Pair], before: State, after: State, most: int) -> list[Pair]:
    """The latest pairs with one more, if the gradient fell along it."""
    step = Vector(after.q.mean - before.q.mean, after.q.root.T - before.q.root.T, after.theta - before.theta)
    fall = before.gradient.plus(-1.0, after.gradient)
    product = step.dot(fall)
    return [*pairs, Pair(step, fall, product)][-most:] if product > 0 else pairs


def _direction(bound: Bound, state: State, pairs: list[Pair]) -> Vector:
    """The two loops of limited-memory BFGS, from the newest pair to the oldest and back."""
    vector, shares = state.gradient, list[float]()
    for pair in reversed(pairs):
        shares.append(pair.step.dot(vector) / pair.product)
        vector = vector.plus(-shares[-1], pair.fall)
    vector = bound.metric(state, vector)
    if pairs:
        fall = pairs[-1].fall
        vector = vector.times(
            float(np.clip(pairs[-1].product / fall.dot(bound.metric(state, fall)), FLATTEST, STEEPEST))
        )
    for pair, share in zip(pairs, reversed(shares), strict=True):
        vector = vector.plus(share - pair.fall.dot(vector) / pair.product, pair.step)
    return vector
