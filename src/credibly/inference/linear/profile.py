r"""Profile-likelihood intervals: where the likelihood of one weight, all others at their best, has fallen by so much.

Notation
--------
====  =================================================================  ================
x     free weights                                                       (P,)
a     the combination that is profiled, v = a·x its value                (P,)
N     orthonormal directions in which v stays as it is                   (P, P - 1)
t     coordinates on the plane x = origin + N t                          (P - 1,)
====  =================================================================  ================
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import brentq

from credibly.data.rows import Sums
from credibly.errors import InputError, NotPositiveDefinite
from credibly.inference.gaussian import normal_quantile
from credibly.inference.linear.covariance import axes, flat_objective, rows_of_fit
from credibly.inference.linear.fit import LinearFit
from credibly.inference.linear.jeffreys import PenalisedObjective
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.spec import Data
from credibly.model.likelihoods.kinds import true_likelihood
from credibly.model.priors import Jeffreys
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import Expand, newton
from credibly.numerics.status import Local, Solution, Status

MOVED = 1e-2  # squared, in standard errors: farther from the estimate than any search ends
TOL = 1e-16  # squared decrement; the profile is off by half of that, in nats
DOUBLINGS = 40  # of the way out, beyond which a limit is infinite
HALVINGS = 20  # of a step on that way which leaves the domain
NUDGE = 0.1  # standard errors, to leave a saddle
FLAT = 1e-6  # nats per standard error: a likelihood that no longer falls

Plane = Callable[[Array, Array], Expand]  # origin and N to a function of t


def profile_interval(fit: LinearFit, data: Data | None, level: float = 0.95) -> Array:
    r"""Profile-likelihood intervals of the weights, (M, 2), laid out as the posterior.

    .. math:: \{ v : 2 (\ell_{max} - \max_{w_j = v} \ell(w)) \le χ^2_{1, level} \}

    A limit is infinite where the likelihood never falls so far, and NaN where the search failed.
    """
    z = normal_quantile(level)
    if fit.resolved is not None and not isinstance(fit.resolved, Jeffreys):
        raise InputError("profile_interval is about the likelihood alone; with a prior use posterior_.interval(level).")
    if fit.shape.n_outputs > 2:
        raise InputError(
            f"profile_interval is for two classes and for a GLM; this model has {fit.shape.n_outputs} classes. Use "
            "posterior_.interval(level), or wald_test for one hypothesis."
        )
    if true_likelihood(fit.likelihood) is not fit.likelihood:
        raise InputError(
            "profile_interval is not for label noise: with a weight held far out, the likelihood of the others has "
            "several maxima, and the highest is not found for certain. Use posterior_.interval(level)."
        )
    objective = flat_objective(fit, rows_of_fit(data, "profile_interval"))
    expand: Expand = objective.expand
    plane = partial(on_plane, objective)
    if isinstance(fit.resolved, Jeffreys):
        expand = PenalisedObjective(objective).expand
        plane = partial(cut_by_plane, expand)
    best = newton(expand, fit.posterior.free.mean)
    moved = best.x - fit.posterior.free.mean
    if moved @ best.local.hessian.matrix @ moved > MOVED:
        raise InputError("The rows of the fit were changed since, or it did not reach its maximum; fit again.")
    profiles = [Profile(expand, plane, best, a) for a in axes(fit.posterior)]
    return np.array([[profile.limit(z, side) for side in (-1, 1)] for profile in profiles])


# --- objectives on a plane ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlaneObjective(Objective):
    """Minus a log likelihood on the plane origin + N t: its Hessian may be positive there and nowhere else."""

    origin: Array
    N: Array

    def _sum(self, block: Callable[..., Sums], x: Array) -> Sums:
        return super()._sum(block, self.origin + self.N @ x)

    def free(self, by_weight: Array | float) -> Array:
        """The chain rule on the first axis, from weights in data units to t."""
        return np.asarray(self.N.T @ super().free(by_weight))


def on_plane(objective: Objective, origin: Array, N: Array) -> Expand:
    """An objective with a flat prior on a plane."""
    return PlaneObjective(objective.rows, objective.design, objective.likelihood, None, origin, N).expand


def cut_by_plane(expand: Expand, origin: Array, N: Array) -> Expand:
    """Any function on a plane, by the chain rule on what it returns."""

    def at(t: Array) -> Local:
        full = expand(origin + N @ t)
        hessian = PSD.of(N.T @ full.hessian.matrix @ N, "the curvature under the constraint")
        return Local(full.value, N.T @ full.grad, hessian, full.replaced, full.exact)

    return at


# --- the profile ----------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """A value of the combination, the best weights that have it, and twice the log likelihood lost."""

    value: float
    x: Array
    drop: float


@dataclass(frozen=True)
class Profile:
    r"""The likelihood of one combination of weights, all else at its best.

    .. math:: \ell_p(v) = \max \{ \ell(x) : a^T x = v \}

    Parameters
    ----------
    expand : function of x
        Minus the log likelihood, or what takes its place.
    plane : function of origin and N
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
        """The value above (side 1) or below (-1) the estimate at which twice the log likelihood has fallen by z².

        Infinite where it never falls so far, NaN where the search fails.
        """
        bracket = self._bracket(side * z * self.se, z**2)
        if isinstance(bracket, float):
            return bracket
        inner, outer = bracket

        def excess(value: float) -> float:
            drop = self.move(inner, value).drop
            return float(np.sign(drop) * np.sqrt(abs(drop)) - z)  # nearly linear in the value

        try:
            return float(brentq(excess, inner.value, outer.value, xtol=1e-12 * self.se))
        except NotPositiveDefinite:
            return np.nan

    def _bracket(self, step: float, goal: float) -> tuple[Point, Point] | float:
        """Two points between which the drop passes the goal, or the limit where there are none."""
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
                return inner, outer
            slope = abs((outer.drop - inner.drop) / step) * self.se
            inner, step = outer, 2 * step
        return float(np.copysign(np.inf, step)) if slope < FLAT else np.nan

    def move(self, start: Point, value: float) -> Point:
        """From one point of the profile to another; the first guess is where a quadratic likelihood would have it."""
        origin = start.x + (value - start.value) * self._along
        N = self._null_space
        if N.shape[1] == 0:
            return Point(value, origin, 2 * (self.expand(origin).value - self.best.local.value))
        search = partial(newton, self.plane(origin, N), tol=TOL)
        found = search(np.zeros(N.shape[1]))
        if found.status is Status.SADDLE:  # unstable: a nudge to either side leads on
            nudge = NUDGE * found.local.hessian.half_solve_transposed(np.ones_like(found.x))
            found = min((search(found.x + nudge), search(found.x - nudge)), key=lambda it: it.local.value)
        if not (found.status.good and np.isfinite(found.local.value)):
            raise NotPositiveDefinite("no best weights were found under the constraint.")
        return Point(value, origin + N @ found.x, 2 * (found.local.value - self.best.local.value))

    @cached_property
    def se(self) -> float:
        """Standard error of the combination."""
        return float(np.linalg.norm(self.best.local.hessian.half_solve(self.a)))

    @cached_property
    def _along(self) -> Array:
        """Change of the best weights with the value, where the likelihood is quadratic."""
        return self.best.local.hessian.solve(self.a) / self.se**2

    @cached_property
    def _null_space(self) -> Array:
        return np.asarray(null_space(self.a[None, :]))
