"""Searches for prior scales: over any surface that tells the evidence and its gradient.

Notation
--------
====  ========================================================================  ===========
θ     log prior scales on standardised columns                                  (G,)
====  ========================================================================  ===========
"""

from typing import NamedTuple, Protocol

import numpy as np

from credibly.inference.posterior import InferenceResult
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.status import Status

LOG_BOUNDS = (float(np.log(1e-3)), float(np.log(1e3)))
MOST_SETTLED = 30  # scales; each needs a fit of its own
TELLING = 1e-9  # nats: a column that adds less is switched off
POLISHING_STEPS = 20  # four where the search has ended well
LONGEST_STEP = 1.0  # in θ
MOST_HALVINGS = 8
TIDYING_ROUNDS = 8
GRADIENT_GOAL = 1e-10  # nats per unit of log scale
STEEP = 1e-3  # nats per unit of log scale: a thousandth of what a person would call a difference
AT_BOUND = 1e-8
DIFFERENCE = 1e-5  # forward differences: relative error 1e-5, so every step gains five digits


class Evidence(NamedTuple):
    """A Laplace fit at some scales, and the derivative of its log evidence in θ."""

    result: InferenceResult
    gradient: Array  # (G,)
    curvature_slope: Array  # c: how log det A moves with the mode, (M,)


class Surface(Protocol):
    """The evidence as a function of log scales."""

    def __call__(self, theta: Array, /) -> Evidence:
        """Evidence and gradient at θ."""


def search_status(theta: Array, gradient: Array) -> Status:
    """Whether the evidence is at a maximum: no slope left, but outwards at a bound."""
    low, high = (np.abs(theta - bound) < AT_BOUND for bound in LOG_BOUNDS)
    rising = np.where(low, gradient > STEEP, np.where(high, gradient < -STEEP, np.abs(gradient) > STEEP))
    if rising.any():
        return Status.SCALES_NOT_FOUND
    return Status.SCALE_AT_BOUND if (low | high).any() else Status.CONVERGED


def best_of_scan(surface: Surface) -> float:
    """The best of seven scales from 0.001 to 1000: the evidence may have several maxima."""
    scales = [0.0, *(float(sign * step * np.log(10)) for sign in (-1, 1) for step in (1, 2, 3))]
    return max(scales, key=lambda theta: surface(np.array([theta])).result.log_evidence)


def root_uphill(surface: Surface, start: float) -> Array:
    """The one scale at which the evidence, followed uphill from here, no longer rises."""
    from scipy.optimize import brentq

    def slope(theta: float) -> float:
        return float(surface(np.array([theta])).gradient[0])

    low = high = float(np.clip(start, *LOG_BOUNDS))
    here = slope(high)
    if abs(here) <= GRADIENT_GOAL:
        return np.array([high])
    step = np.copysign(1.0, here)
    while True:
        low, high = high, float(np.clip(high + step, *LOG_BOUNDS))
        if slope(high) * here < 0:
            return np.array([brentq(slope, low, high, xtol=1e-9)])
        if high in LOG_BOUNDS:
            return np.array([high])


def climbed(surface: Surface, start: Array) -> Array:
    """The scales at which L-BFGS-B ends."""
    from scipy.optimize import minimize

    def objective(theta: Array) -> tuple[float, Array]:
        at = surface(theta)
        return -at.result.log_evidence, -at.gradient

    found = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[LOG_BOUNDS] * len(start),
        options={"ftol": 1e-12, "gtol": 1e-6, "maxiter": 500},
    )
    return np.asarray(found.x)


def settled(surface: Surface, theta: Array) -> Array:
    """Free the answer from where the search happened to stop.

    As a scale s → 0 its column drops out and d log Z/dθ falls like s²: a search by gradients stops anywhere on that
    plateau, and where depends on rounding. So what tells nothing is switched off, the rest polished; then the column
    whose return would raise the evidence most is let in again, until there is none (as Tipping & Faul 2003).
    """
    if len(theta) > MOST_SETTLED:
        return theta
    theta = _tidied(surface, theta)
    for _ in range(len(theta)):
        better = _woken(surface, theta)
        if better is None:
            break
        theta = better
    return theta


def _woken(surface: Surface, theta: Array) -> Array | None:
    """A column that is switched off let in again, the one with the strongest pull first, where that helps.

    Its own scale comes first, the others held: near zero the slope is too small for a search to follow, however much
    there is to gain further up.
    """
    at = surface(theta)
    pull = np.where(theta == LOG_BOUNDS[0], at.gradient, 0.0)
    for j in np.argsort(-pull)[: np.count_nonzero(pull > 0)]:
        woken = _raised(surface, np.where(np.arange(len(theta)) == j, 0.0, theta), int(j))
        if surface(woken).result.log_evidence > at.result.log_evidence + TELLING:
            woken = _tidied(surface, climbed(surface, woken))
            if surface(woken).result.log_evidence > at.result.log_evidence + TELLING:
                return woken
    return None


def _raised(surface: Surface, theta: Array, j: int) -> Array:
    """One scale followed uphill to where the evidence no longer rises, the others held."""
    raised = theta.copy()
    raised[j] = root_uphill(_OneScale(surface, theta, j), float(theta[j]))[0]
    return raised


class _OneScale:
    """The surface along one of its scales."""

    def __init__(self, surface: Surface, theta: Array, j: int) -> None:
        self.surface, self.theta, self.j = surface, theta, j

    def __call__(self, theta: Array) -> Evidence:
        point = self.theta.copy()
        point[self.j] = theta[0]
        at = self.surface(point)
        return at._replace(gradient=at.gradient[[self.j]])


def _tidied(surface: Surface, theta: Array) -> Array:
    """Switch off and polish until neither changes the other's work."""
    for _ in range(TIDYING_ROUNDS):
        off = _switched_off(surface, theta)
        before, theta = theta, polished(surface, off)
        if (off == before).all() and (theta == before).all():
            break
    return theta


def _switched_off(surface: Surface, theta: Array) -> Array:
    """Move to the lower bound, from the smallest on, the scales without which the evidence is as high."""
    best = surface(theta).result.log_evidence
    for j in np.argsort(theta):
        if LOG_BOUNDS[0] < theta[j]:
            without = theta.copy()
            without[j] = LOG_BOUNDS[0]
            log_evidence = surface(without).result.log_evidence
            if log_evidence >= best - TELLING:
                theta, best = without, log_evidence
    return theta


def polished(surface: Surface, theta: Array) -> Array:
    """Newton steps on the exact gradient, its derivative by differences; scales at a bound stay there.

    The line search above compares evidences, whose rounding hides gradients below about 1e-6; the gradient itself is
    known far better, and the answer should not depend on rounding.
    """
    for _ in range(POLISHING_STEPS):
        gradient = surface(theta).gradient
        free = np.flatnonzero(_between_bounds(theta))
        if np.abs(gradient[free]).max(initial=0.0) < GRADIENT_GOAL:
            break
        shifted = theta + DIFFERENCE * np.eye(len(theta))[free]
        jacobian = np.array([surface(point).gradient[free] - gradient[free] for point in shifted]) / DIFFERENCE
        convex = free[np.diag(jacobian) > 0]
        if convex.size:  # no maximum is near in that direction, and Newton's step would go downhill
            theta = _raised(surface, theta, int(convex[np.abs(gradient[convex]).argmax()]))
            continue
        step = np.zeros(len(theta))
        # Least squares: a column that is constant, or there twice, leaves its scale undetermined.
        step[free] = -np.linalg.lstsq(jacobian.T, gradient[free], rcond=1e-10)[0]
        flatter = _flatter(surface, theta, step)
        if flatter is None:
            break
        theta = flatter
    return theta


def _flatter(surface: Surface, theta: Array, step: Array) -> Array | None:
    """The first of the step, its half, its quarter … that makes the gradient smaller.

    Where a scale is all but on its plateau, its gradient bends so fast that a whole Newton step overshoots.
    """
    free = _between_bounds(theta)
    slope = np.linalg.norm(surface(theta).gradient[free])
    step = step / max(1.0, np.abs(step).max() / LONGEST_STEP)
    for _ in range(MOST_HALVINGS):
        proposal = np.clip(theta + step, *LOG_BOUNDS)
        if np.linalg.norm(surface(proposal).gradient[free]) < slope:
            return proposal
        step = step / 2
    return None


def _between_bounds(theta: Array) -> AnyArray:
    return (theta > LOG_BOUNDS[0]) & (theta < LOG_BOUNDS[1])
