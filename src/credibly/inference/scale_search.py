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
from credibly.numerics.arrays import Array
from credibly.numerics.newton import Status

LOG_BOUNDS = (float(np.log(1e-3)), float(np.log(1e3)))
MOST_SETTLED = 30  # scales; each needs a fit of its own
PLATEAU_STEP = 0.1  # in θ: on the plateau the gradient grows by e^0.2 over it
POLISHING_STEPS = 4
TIDYING_ROUNDS = 4
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

    @property
    def plateau(self) -> Array:
        """log of the scales below which a column has all but dropped out."""

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
    plateau, and where depends on rounding. So what is on the plateau is switched off, the rest polished; then the
    column whose return would raise the evidence most is let in again, until there is none (as Tipping & Faul 2003).
    """
    if len(theta) > MOST_SETTLED:
        return theta
    theta = _tidied(surface, theta)
    for _ in range(len(theta)):
        at = surface(theta)
        better = _woken(surface, theta, at)
        if better is None:
            break
        theta = better
    return theta


def _woken(surface: Surface, theta: Array, at: Evidence) -> Array | None:
    """A column that is switched off let in again, the one with the strongest pull first, where that helps."""
    pull = np.where(theta == LOG_BOUNDS[0], at.gradient, 0.0)
    for j in np.argsort(-pull)[: np.count_nonzero(pull > 0)]:
        woken = np.where(np.arange(len(theta)) == j, surface.plateau, theta)
        woken = _tidied(surface, climbed(surface, woken))
        if surface(woken).result.log_evidence > at.result.log_evidence:
            return woken
    return None


def _tidied(surface: Surface, theta: Array) -> Array:
    """Switch off and polish until neither changes the other's work."""
    for _ in range(TIDYING_ROUNDS):
        before, theta = theta, polished(surface, _switched_off(surface, theta))
        if not ((theta < surface.plateau) & (theta > LOG_BOUNDS[0]) & (theta != before)).any():
            break
    return theta


def _switched_off(surface: Surface, theta: Array) -> Array:
    """Move to the lower bound the scales below which the evidence is a plateau: convex in θ, unlike at a maximum."""
    gradient = surface(theta).gradient
    off = theta.copy()
    for j in np.flatnonzero((theta < surface.plateau) & (theta > LOG_BOUNDS[0])):
        beside = theta.copy()
        beside[j] += PLATEAU_STEP
        growing = surface(beside).gradient[j] * gradient[j] > gradient[j] ** 2
        if growing or gradient[j] < 0:
            off[j] = LOG_BOUNDS[0]
    return off


def polished(surface: Surface, theta: Array) -> Array:
    """Newton steps on the exact gradient, its derivative by differences; scales at a bound stay there.

    The line search above compares evidences, whose rounding hides gradients below about 1e-6; the gradient itself is
    known far better, and the answer should not depend on rounding.
    """
    for _ in range(POLISHING_STEPS):
        gradient = surface(theta).gradient
        free = np.flatnonzero((theta > LOG_BOUNDS[0]) & (theta < LOG_BOUNDS[1]))
        if not free.size or np.abs(gradient[free]).max() < GRADIENT_GOAL:
            break
        shifted = theta + DIFFERENCE * np.eye(len(theta))[free]
        jacobian = np.array([surface(point).gradient[free] - gradient[free] for point in shifted]) / DIFFERENCE
        proposal = theta.copy()
        # Least squares: a column that is constant, or there twice, leaves its scale undetermined.
        proposal[free] -= np.linalg.lstsq(jacobian.T, gradient[free], rcond=1e-10)[0]
        proposal = np.clip(proposal, *LOG_BOUNDS)
        if np.linalg.norm(surface(proposal).gradient[free]) > np.linalg.norm(gradient[free]):
            break
        theta = proposal
    return theta
