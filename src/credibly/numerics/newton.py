"""Damped Newton; the result carries a status.

Where a Hessian costs much and one nearby is known (of a sample of the rows, of a problem like this one), `approach`
comes close to the minimum by gradients alone, and Newton does the rest.

Notation
--------
====  ===============================================================  ======
x     where we are                                                     (d,)
g, H  gradient and Hessian of the objective at x                       (d,), (d, d)
δ²    squared Newton decrement gᵀH⁻¹g: the squared distance to the     scalar
      minimum of the local quadratic in units of H^(-1/2); for a log
      posterior, in posterior standard deviations (and δ²/2 in nats)
B     a matrix near the Hessian                                        (d, d)
s, y  a step, and by how much the gradient changed over it             (d,)
κ²    nonlinearity: δ² after a full step is κ²(δ²)², and over the      scalar
      step the Hessian changes by about κδ of itself
====  ===============================================================  ======
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.settings import COSTS, CostModel
from credibly.numerics.status import Local, Report, Solution, Status, silent

ARMIJO = 1e-4  # share of the predicted decrease that a step must deliver (Nocedal & Wright 2006, eq. 3.4)
HALVINGS = 40  # 2⁻⁴⁰: below that a step is lost in rounding
# From the goal on. Most often one or two: each squares what is left. But where a few rows are so far out that their
# curvature is rounded away beside the prior's, a step moves their scores by one, and δ² falls by a factor of e.
MOST_LAST_STEPS = 40
# Error of a sum over rows, relative to it. No larger than that: steps may go uphill by it.
_ROUNDING = 16 * float(np.finfo(float).eps)
_SHORT = 0.1  # of δ²: steps so short are within the quadratic, which is alike in all directions
_NEGLIGIBLE = 1e-24  # squared decrement of a step by 1e-12 standard deviations, which is rounding
_VALUES_TOO_NOISY = 1e-6  # squared decrement from which on a gradient that shrinks is enough

Expand = Callable[[Array], Local]
Gradient = Callable[[Array], Array]


class LastStep(NamedTuple):
    """A last step that a gradient confirms, where another Hessian would cost more."""

    gradient: Gradient
    near: float  # δ² from which on it is tried
    hessian_tol: float  # relative change of the Hessian over the step that is let pass
    nonlinearity: float = np.inf  # κ², as the solution tells it where no full step has shown it


# --- Newton ---------------------------------------------------------------------------------------


def newton(  # noqa: PLR0913 - when to stop, and how well the Hessian is known
    expand: Expand,
    x: Array,
    *,
    tol: float = 1e-10,
    max_steps: int = 100,
    hessian_tol: float = 0.0,
    last: LastStep | None = None,
    report: Report = silent,
) -> Solution:
    """Minimize a function by Newton steps, halved until they help enough.

    Undamped Newton can diverge on a convex function (E-5 of docs/theory.md), so every step must deliver a share of the
    decrease its quadratic promises. The stopping rule δ² ≤ `tol` does not depend on the units of x, and the step from
    there is still taken: quadratic convergence leaves about κ² tol² of δ². Once δ² is below what the objective's own
    rounding can show, a step that no longer lowers it has reached the floor of floating-point numbers and counts as
    converged too. Where a function is not convex its `expand` puts a positive definite matrix in the Hessian's place
    and says so; every step still goes downhill, and the status tells.

    Parameters
    ----------
    expand : function of an (d,) array returning `Local`
        Value, gradient and Hessian together: one pass over the data.
    x : (d,) float array
        Where to start.
    tol : float
        Goal for the squared decrement.
    max_steps : int
        Largest number of Newton steps before the last.
    hessian_tol : float
        Relative error allowed in the Hessian of the solution. It is formed at the minimum itself, unless the last step
        is so short that it changes the Hessian by less than this, κδ ≤ `hessian_tol`: then it is the one before that
        step. By default it is always that of the minimum.
    last : LastStep
        A cheaper end: from a point near the goal a step is taken with the Hessian there, and the gradient where it
        leads says how far from the minimum that is, and by how much the Hessian has changed. If either is too much,
        the search goes on.
    report : function of (step, value, squared decrement)
        Called at every point that is kept.

    Examples
    --------
    >>> bowl = lambda x: Local(float(x @ x) / 2, x, PSD(np.eye(2)))
    >>> newton(bowl, np.array([3.0, 4.0])).status
    <Status.CONVERGED: 'Converged.'>
    """
    here = expand(x)
    last_decrement, replaced, nonlinearity = np.inf, False, np.inf
    for step in range(max_steps + 1):
        direction = -here.hessian.solve(here.grad)
        decrement = float(-here.grad @ direction)
        report(step, here.value, decrement)
        replaced = replaced or here.replaced
        if 0 < last_decrement < np.inf:
            nonlinearity = decrement / last_decrement / last_decrement
        near = last_decrement <= _SHORT  # a long step tells of the directions that it went, and not of those left
        floor = at_rounding_floor(here.value, decrement, last_decrement, exact=here.exact)
        settled = decrement <= tol and _keeps_hessian(decrement, nonlinearity if near else np.inf, hessian_tol)
        if last is not None and not (settled or floor or replaced) and decrement <= max(last.near, tol):
            known = nonlinearity if nonlinearity < np.inf else last.nonlinearity
            solution = Solution(x, here, Status.CONVERGED, step + 1, decrement, known)
            confirmed = _confirmed_step(last, solution, direction, tol)
            if confirmed is not None:
                return confirmed
        if decrement <= tol or floor:
            solution = Solution(x, here, _goal_reached(here, replaced), step + 1, decrement, nonlinearity)
            if floor or here.replaced:
                return solution
            if settled:
                # not evaluated: the quadratic's value and gradient, and the Hessian of the step before
                moved = Local(here.value - decrement / 2, np.zeros_like(x), here.hessian)
                return solution._replace(x=x + direction, local=moved)
            return _last_step(expand, solution, direction, hessian_tol, report)
        if step == max_steps:
            return Solution(x, here, Status.STEP_LIMIT, step + 1, decrement)
        accepted = _damped_step(expand, x, here, direction, decrement)
        if accepted is None and here.stand_in is not None:
            replaced, direction = True, -here.stand_in().solve(here.grad)
            accepted = _damped_step(expand, x, here, direction, float(-here.grad @ direction))
        if accepted is None:
            return Solution(x, here, Status.STALLED, step + 1, decrement)
        (x, here), last_decrement = accepted, decrement
    raise AssertionError("unreachable: the loop returns")


def _confirmed_step(last: LastStep, solution: Solution, direction: Array, tol: float) -> Solution | None:
    """The solution a step further, with the Hessian before it, if the gradient there says that this is the end."""
    here, decrement = solution.local, solution.decrement
    grad = last.gradient(solution.x + direction)
    left = _decrement(grad, here.hessian)
    # Had the Hessian not changed, nothing would be left: a change by a share of itself leaves half of that of the step.
    if not (left <= tol and 4 * left <= last.hessian_tol**2 * decrement):
        return None
    value = here.value + float((here.grad + grad) @ direction) / 2  # to the third order in the step
    return solution._replace(
        x=solution.x + direction,
        local=Local(value, grad, here.hessian),
        decrement=left,
    )


def _last_step(expand: Expand, solution: Solution, direction: Array, hessian_tol: float, report: Report) -> Solution:
    """Take the Newton step from the goal and expand there; repeat until the Hessian is within `hessian_tol`.

    At most `MOST_LAST_STEPS` steps are taken.
    """
    for _ in range(MOST_LAST_STEPS):
        x = solution.x + direction
        try:
            there = expand(x)
        except NotPositiveDefinite:  # the curvature along some direction is rounding alone
            return solution
        direction = -there.hessian.solve(there.grad)
        decrement = float(-there.grad @ direction)
        if there.replaced or not decrement < solution.decrement:  # rounding has the last word
            return solution
        report(solution.steps, there.value, decrement)
        nonlinearity = decrement / solution.decrement / solution.decrement
        solution = Solution(x, there, solution.status, solution.steps + 1, decrement, nonlinearity)
        if not hessian_tol or _keeps_hessian(decrement, nonlinearity, hessian_tol):
            break
    return solution


def _keeps_hessian(decrement: float, nonlinearity: float, hessian_tol: float) -> bool:
    """True where the step from here changes the Hessian by no more than `hessian_tol` of itself, κδ, or is rounding."""
    return nonlinearity * decrement <= hessian_tol**2 or decrement <= _NEGLIGIBLE


def _goal_reached(here: Local, replaced: bool) -> Status:
    if here.replaced:
        return Status.SADDLE
    return Status.CURVATURE_REPLACED if replaced else Status.CONVERGED


def rounding(value: float) -> float:
    """The error of an objective that is a sum of rounded terms."""
    return _ROUNDING * (1 + abs(value))


def at_rounding_floor(value: float, decrement: float, last_decrement: float, *, exact: bool = True) -> bool:
    """True where δ² is below what the objective shows, and no longer falls.

    With the Hessian (`exact`) δ² falls quadratically, or, far out on a row of little weight, by a factor of e; with
    another matrix by any factor, and slow steps are no sign.
    """
    return decrement <= rounding(value) and decrement >= (last_decrement / 2 if exact else last_decrement)


def _damped_step(
    expand: Expand, x: Array, here: Local, direction: Array, decrement: float
) -> tuple[Array, Local] | None:
    for halvings in range(HALVINGS):
        t = 0.5**halvings
        target = x + t * direction
        try:
            there = expand(target)
        except NotPositiveDefinite:  # so far out that all curvature is rounded away
            continue
        if there.value <= here.value - ARMIJO * t * decrement + rounding(here.value):
            return target, there
        if t == 1 and decrement < _VALUES_TOO_NOISY and _decrement(there.grad, here.hessian) < decrement / 4:
            return target, there  # values are too noisy to tell, gradients are not
    return None


def _decrement(grad: Array, hessian: PSD) -> float:
    return float(grad @ hessian.solve(grad))


# --- gradients in the metric of another Hessian ---------------------------------------------------

_FIRST_RATE = 0.05  # by which δ² is expected to fall in the first step: where the metric is a fifth off, 0.2² = 0.04
_SLOW = 0.5  # where δ² falls by less in a step, the metric is of no use


@dataclass(frozen=True)
class Metric:
    """A matrix near the Hessian, and the pairs (s, y) that correct it: the B of L-BFGS.

    Examples
    --------
    >>> H = np.array([[2.0, 0.5], [0.5, 1.0]])
    >>> metric = Metric(PSD(np.eye(2)))
    >>> for step in np.eye(2):
    ...     metric = metric.learn(step, H @ step)
    >>> metric.solve(H[1])  # the last pair is met exactly
    array([0., 1.])
    """

    base: PSD
    pairs: tuple[tuple[Array, Array], ...] = field(default=())

    def learn(self, step: Array, change: Array) -> "Metric":
        """With one more pair; one that shows no curvature is left out."""
        return replace(self, pairs=(*self.pairs, (step, change))) if step @ change > 0 else self

    def solve(self, gradient: Array) -> Array:
        """B⁻¹g by the two-loop recursion (Nocedal & Wright 2006, Alg. 7.4)."""
        q, shares = gradient, []
        for step, change in reversed(self.pairs):
            share = (step @ q) / (step @ change)
            q = q - share * change
            shares.append(share)
        r = self.base.solve(q)
        for (step, change), share in zip(self.pairs, reversed(shares), strict=True):
            r = r + (share - (change @ r) / (step @ change)) * step
        return r


class Start(NamedTuple):
    """A point that is likely to be near the minimum."""

    x: Array  # (d,)
    fallback: Array  # where to start if x turns out to be no place to start from
    metric: PSD | None = None  # near the Hessian at x, if such a matrix is known
    nonlinearity: float = np.inf  # κ²


def approach(gradient: Gradient, x: Array, metric: PSD, *, tol: float, most: int) -> Array:
    """Come close to the minimum of a convex function by gradients alone, in the metric of a matrix near its Hessian.

    Ends at a point where δ² is likely to be at most `tol`, as it falls from step to step; or where steps have stopped
    to help, and the Hessian is needed.

    Parameters
    ----------
    gradient : function of an (d,) array
    x : (d,) array
        Where to start.
    metric : PSD
    tol : float
        Goal for δ², in the metric.
    most : int
        Gradients, after which the Hessian is worth its cost.

    Returns
    -------
    (d,) array

    Examples
    --------
    >>> H = np.array([[2.0, 0.5], [0.5, 1.0]])
    >>> near = PSD.of(1.1 * H, "near H")
    >>> bool(np.abs(approach(lambda x: H @ x, np.array([3.0, 4.0]), near, tol=1e-10, most=10)).max() < 1e-5)
    True
    """
    learnt, g = Metric(metric), gradient(x)
    step = -learnt.solve(g)
    decrement, rate = float(-g @ step), _FIRST_RATE
    for _ in range(most - 1):
        if rate * decrement <= tol:
            break
        there = gradient(x + step)
        learnt = learnt.learn(step, there - g)
        next_step = -learnt.solve(there)
        rate = float(-there @ next_step) / decrement
        if not rate < 1:  # or not a number: the step was no good
            return x
        x, g, step, decrement = x + step, there, next_step, rate * decrement
        if rate > _SLOW:
            return x
    return x + step


class Differentiable(Protocol):
    """A function whose gradient alone is cheaper than its value, gradient and Hessian."""

    def expand(self, x: Array) -> Local:
        """Value, gradient and Hessian at x."""

    def gradient(self, x: Array) -> Array:
        """The gradient at x."""


def minimize(
    function: Differentiable,
    start: Array | Start,
    *,
    tol: float,
    max_steps: int,
    report: Report = silent,
    costs: CostModel = COSTS,
) -> Solution:
    """Minimize by Newton steps; from a start with a metric by gradients first, with one Hessian if all goes well.

    Parameters
    ----------
    function : Differentiable
        What to minimize.
    start : (d,) float array, or Start
        A point; or one that a sample of the rows led to, the metric there, and where to begin if it is of no use.
    tol, max_steps, report
        As for `newton`.
    costs : CostModel
        How many gradients may come before the Hessian, and how well the Hessian must be known.
    """
    search = partial(
        newton,
        function.expand,
        tol=tol,
        max_steps=max_steps,
        hessian_tol=costs.newton_hessian_error,
        report=report,
    )
    if not isinstance(start, Start):
        return search(start)
    try:
        if start.metric is None:
            return search(start.x)
        near = costs.last_distance(start.nonlinearity, tol)
        x = approach(function.gradient, start.x, start.metric, tol=near, most=costs.gradient_passes)
        return search(x, last=LastStep(function.gradient, near, costs.hessian_error, start.nonlinearity))
    except NotPositiveDefinite:  # so far out that all curvature is rounded away, or has overflowed
        return search(start.fallback)
