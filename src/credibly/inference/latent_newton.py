"""Newton's method in function space: the mode of latents whose prior covariance is K, which is never inverted.

Notation
--------
====  ===================================================================================  =============
f, a  latents and their representation f = K a; at the mode a = ∇ log p(y | f)             (n,) or (n, C)
Ψ     what is minimised, ½ aᵀf - log p(y | f)                                              scalar
r     a - ∇ log p(y | f), so that K r is the gradient in a                                 (n,) or (n, C)
δ²    squared Newton decrement rᵀ(K⁻¹ + W)⁻¹r: squared distance to the mode in             scalar
      posterior standard deviations
====  ===================================================================================  =============
"""

from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from credibly.numerics.arrays import Array
from credibly.numerics.newton import ARMIJO, HALVINGS, at_rounding_floor, rounding
from credibly.numerics.status import Controls, Status

CHORD = 3.0  # squared decrement below which a step is tried with the factor of the last one: n² instead of n³
CHORD_GOAL = 1e-2
CHORD_GAIN = 0.3  # what such a step must take off the squared decrement, or the factor is renewed


class LocalLikelihood(Protocol):
    """log p(y | f) near some latents."""

    @property
    def log_prob(self) -> Array:
        """log p(y_i | f_i), (n,)."""

    @property
    def grad(self) -> Array:
        """∇ log p(y | f), of the shape of f."""


class Weighing(Protocol):
    """K⁻¹ + W, factorised."""

    @property
    def logdet(self) -> float:
        """Log determinant of I + K W."""

    def weigh(self, u: Array) -> Array:
        """(K + W⁻¹)⁻¹ u."""


At = TypeVar("At", bound=LocalLikelihood)
Factored_co = TypeVar("Factored_co", bound=Weighing, covariant=True)


class Point(NamedTuple, Generic[At]):
    """Latents, and the likelihood there to second order."""

    a: Array
    f: Array
    at: At

    @property
    def value(self) -> float:
        """Ψ."""
        return float(0.5 * np.vdot(self.a, self.f) - self.at.log_prob.sum())


class LatentProblem(Protocol[At, Factored_co]):
    """What the search for a mode asks of a problem."""

    def times(self, u: Array) -> Array:
        """K u."""

    def expand(self, f: Array) -> At:
        """The likelihood at some latents."""

    def factorise(self, here: Point[At]) -> tuple[Factored_co, bool]:
        """K⁻¹ + W at a point, and whether another curvature stands in for one that gives no Gaussian."""


class Mode(NamedTuple, Generic[At, Factored_co]):
    """Where a search for the mode ended."""

    point: Point[At]
    precision: Factored_co
    status: Status
    steps: int


@dataclass(frozen=True)
class AtMode(Generic[At, Factored_co]):
    """The Gaussian at a mode of the latents, its evidence, and how the search for the mode ended."""

    mode: Mode[At, Factored_co]

    @property
    def mean(self) -> Array:
        """The mode, (n,) or (n, C)."""
        return self.mode.point.f

    @property
    def status(self) -> Status:
        """How the search for the mode ended."""
        return self.mode.status

    @property
    def steps(self) -> int:
        """Newton steps."""
        return self.mode.steps

    @property
    def warm(self) -> Array:
        """Where a search with a similar kernel may start."""
        return self.mode.point.a

    @property
    def log_likelihood(self) -> float:
        """log p(y | f) at the mode."""
        return float(self.mode.point.at.log_prob.sum())

    @property
    def log_evidence(self) -> float:
        r""":math:`\log p(y \mid \hat f) - \frac12 a^T \hat f - \frac12 \log|I + KW|` (RW06 eq. 3.32, 3.44)."""
        return -self.mode.point.value - 0.5 * self.mode.precision.logdet


def find_mode(problem: LatentProblem[At, Factored_co], start: Array, controls: Controls) -> Mode[At, Factored_co]:
    """Minimise Ψ by Newton steps, halved until they help enough.

    Near the mode steps re-use the factor of the last one, as long as each takes off most of δ²; the factor
    returned is always that of the point returned.

    Parameters
    ----------
    problem : LatentProblem
    start : (n,) or (n, C) array
        Where to start, as a = K⁻¹f.
    controls : Controls

    References
    ----------
    RW06 Alg. 3.1 and 3.3, with step control.
    """
    f = problem.times(start)
    here = Point(start, f, problem.expand(f))
    precision, stand_in = problem.factorise(here)
    fresh, replaced, status = True, stand_in, Status.STEP_LIMIT
    last = last_fresh = np.inf  # δ² one step before; where the factor was last that of the point
    for step in range(1, controls.max_steps + 2):
        r = here.a - here.at.grad
        Kr = problem.times(r)
        direction = precision.weigh(Kr) - r  # -(I + WK)⁻¹ r
        decrement = float(-np.vdot(Kr, direction))
        controls.report(step - 1, here.value, decrement)
        if not fresh and decrement > CHORD_GAIN * last:
            precision, stand_in = problem.factorise(here)
            fresh, replaced = True, replaced or stand_in
            continue
        # The evidence moves with the first power of the distance to the mode: cheap steps go a little further.
        goal = controls.tol if fresh else CHORD_GOAL * controls.tol
        if decrement <= goal or (fresh and at_rounding_floor(here.value, decrement, last_fresh)):
            status = Status.CURVATURE_REPLACED if replaced else Status.CONVERGED
            break
        moved = _damped(problem, here, direction, decrement)
        if moved is None:
            status = Status.STALLED
            break
        whole, here = moved
        last_fresh = decrement if fresh else last_fresh
        last, fresh = decrement, not (whole and decrement < CHORD and not stand_in)
        if fresh:
            precision, stand_in = problem.factorise(here)
            replaced = replaced or stand_in
    if not fresh:
        precision, stand_in = problem.factorise(here)
    if stand_in and status.good:
        status = Status.SADDLE
    return Mode(here, precision, status, step)


def _damped(
    problem: LatentProblem[At, Factored_co], here: Point[At], direction: Array, decrement: float
) -> tuple[bool, Point[At]] | None:
    """The first of ever shorter steps that lowers Ψ enough, and whether it is the whole one."""
    shift = problem.times(direction)
    for t in 0.5 ** np.arange(HALVINGS):
        f = here.f + t * shift
        there = Point(here.a + t * direction, f, problem.expand(f))
        if there.value <= here.value - ARMIJO * t * decrement + rounding(here.value):
            return bool(t == 1), there
    return None
