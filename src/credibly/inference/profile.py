r"""Likelihoods under a linear constraint, and the profile of one combination of weights.

Notation
--------
====  =================================================================  ================
u     free weights in the frame                                          (P,)
a     the combination that is profiled, v = a·u its value                (P,)
N     orthonormal directions in which v stays as it is                   (P, P - 1)
t     coordinates on the plane u = origin + N t                          (P - 1,)
====  =================================================================  ================
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import brentq

from credibly.errors import NotPositiveDefinite
from credibly.inference.contrasts import Contrast
from credibly.inference.objective import Objective
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import Expand, newton
from credibly.numerics.status import Local, Solution, Status

TOL = 1e-16  # squared decrement; the profile is off by half of that, in nats
DOUBLINGS = 40  # of the way out, beyond which a limit is infinite
HALVINGS = 20  # of a step on that way which leaves the domain
NUDGE = 0.1  # standard errors, to leave a saddle
FLAT = 1e-6  # nats per standard error: a likelihood that no longer falls

Plane = Callable[[Array, Array], Expand]  # origin and N to a function of t


# --- Objectives on a plane ------------------------------------------------------------------------------------


class PlaneContrast(Contrast):
    """Weight vectors from coordinates on a plane of the free weights; gradients and Hessians go the other way."""

    def __init__(self, contrast: Array, origin: Array, N: Array) -> None:
        super().__init__(contrast)
        self.origin, self.N = origin, N

    def weights(self, x: Array) -> Array:
        """One weight vector per class, (K, D)."""
        return super().weights(self.origin + self.N @ x)

    def free(self, by_weight: Array) -> Array:
        """The chain rule on the first axis."""
        return np.asarray(self.N.T @ super().free(by_weight))

    def free_both(self, by_weights: Array) -> Array:
        """The chain rule on both axes of a matrix."""
        return self.free(self.free(by_weights).T)


@dataclass(frozen=True)
class PlaneObjective(Objective):
    """Minus a log-likelihood on the plane origin + N t, its Hessian that of the plane: it may be positive there only.

    The prior must be flat.
    """

    origin: Array | None = None
    N: Array | None = None

    @cached_property
    def chain(self) -> PlaneContrast:
        """How weight vectors depend on t."""
        assert self.origin is not None and self.N is not None and self.prior is None
        return PlaneContrast(self.contrast, self.origin, self.N)


def on_plane(objective: Objective) -> Plane:
    """An objective without a prior on planes of its free weights."""
    parts = {part.name: getattr(objective, part.name) for part in fields(objective)}
    return lambda origin, N: PlaneObjective(**parts, origin=origin, N=N).expand


def cut_by_plane(expand: Expand) -> Plane:
    """Any function on planes, by the chain rule on what it returns."""

    def reduced(H: PSD, N: Array) -> PSD:
        return PSD.of(N.T @ H.matrix @ N, "the curvature under the constraint")

    def at(t: Array, origin: Array, N: Array) -> Local:
        full = expand(origin + N @ t)
        return Local(full.value, N.T @ full.grad, reduced(full.hessian, N), full.replaced, full.exact)

    return lambda origin, N: partial(at, origin=origin, N=N)


# --- The profile ----------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """A value of the combination, the best weights that have it, and twice the log-likelihood lost."""

    value: float
    u: Array
    drop: float


@dataclass(frozen=True)
class Profile:
    r"""The likelihood of one combination of weights, all else at its best.

    .. math:: \ell_p(v) = \max \{ \ell(u) : a^T u = v \}

    Parameters
    ----------
    expand : function of u
        Minus the log-likelihood, or what takes its place.
    plane : Plane
        The same on planes.
    best : Solution
        Its minimum.
    a : (P,) array

    References
    ----------
    Venzon & Moolgavkar 1988.
    """

    expand: Expand
    plane: Plane
    best: Solution
    a: Array

    def limit(self, z: float, side: int) -> float:
        """Where twice the log-likelihood has fallen by z², above (side 1) or below (-1) the estimate.

        Infinite where it never falls so far, NaN where the search fails.
        """
        bracket = self._way_out(side * z * self.se, z**2)
        if isinstance(bracket, float):
            return bracket
        near = {point.value: point for point in bracket}

        def excess(value: float) -> float:
            if value not in near:
                near[value] = self.move(min(near.values(), key=lambda point: abs(point.value - value)), value)
            drop = near[value].drop
            return float(np.sign(drop) * np.sqrt(abs(drop)) - z)  # nearly linear in the value

        try:
            return float(brentq(excess, bracket[0].value, bracket[1].value, xtol=1e-12 * self.se))
        except NotPositiveDefinite:
            return np.nan

    def move(self, start: Point, value: float) -> Point:
        """From one point of the profile to another; the first guess is where a quadratic likelihood would have it."""
        origin = start.u + (value - start.value) * self._along
        if self._N.shape[1] == 0:
            return Point(value, origin, 2 * (self.expand(origin).value - self.best.local.value))
        search = partial(newton, self.plane(origin, self._N), tol=TOL)
        found = search(np.zeros(self._N.shape[1]))
        if found.status is Status.SADDLE:  # unstable: a nudge to either side leads on
            nudge = NUDGE * found.local.hessian.half_solve_transposed(np.ones_like(found.x))
            found = min((search(found.x + nudge), search(found.x - nudge)), key=lambda it: it.local.value)
        if not (found.status.good and np.isfinite(found.local.value)):
            raise NotPositiveDefinite("no best weights were found under the constraint.")
        return Point(value, origin + self._N @ found.x, 2 * (found.local.value - self.best.local.value))

    def _way_out(self, step: float, goal: float) -> list[Point] | float:
        """Two points between which the goal lies, or the limit where there are none."""
        inner, halvings, slope = Point(float(self.a @ self.best.x), self.best.x, 0.0), 0, np.inf
        for _ in range(DOUBLINGS + HALVINGS):
            try:
                outer = self.move(inner, inner.value + step)
            except NotPositiveDefinite:  # outside the domain, or so far out that all curvature is rounded away
                halvings, step = halvings + 1, step / 2
                if halvings > HALVINGS:
                    break
                continue
            if outer.drop >= goal:
                return [inner, outer]
            slope = abs((outer.drop - inner.drop) / step) * self.se
            inner, step = outer, 2 * step
        return float(np.copysign(np.inf, step)) if slope < FLAT else np.nan

    @cached_property
    def se(self) -> float:
        """Standard error of the combination."""
        return float(np.linalg.norm(self.best.local.hessian.half_solve(self.a)))

    @cached_property
    def _along(self) -> Array:
        """How the best weights move with the value, where the likelihood is quadratic."""
        return self.best.local.hessian.solve(self.a) / self.se**2

    @cached_property
    def _N(self) -> Array:
        return np.asarray(null_space(self.a[None, :]))
