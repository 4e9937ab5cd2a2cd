"""Damped Newton: it returns, and says how it went.

Where a Hessian is dear and one nearby is known (of a sample of the rows, of a problem like this one), `approach` comes
close to the minimum by gradients alone, and Newton does the rest.

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
κ²    what a Newton step leaves: δ² after it is κ²(δ²)²; over it the   scalar
      Hessian changes by about κδ of itself
====  ===============================================================  ======
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD

ARMIJO = 1e-4  # share of the predicted decrease that a step must deliver (Nocedal & Wright 2006, eq. 3.4)
NEARLY_THERE = 1e-6  # squared decrement from which on a gradient that shrinks is enough
HALVINGS = 40  # 2⁻⁴⁰: below that a step is lost in rounding
ROUNDING = 16 * float(np.finfo(float).eps)
FALLING = 0.25  # by which δ² must fall in a step with an approximate Hessian, or that is of no use
FIRST_RATE = 0.05  # by which it falls in the first of them, as a guess: the Hessian of a sample is a fifth off
MOST_GRADIENTS = 10  # such steps, after which the Hessian is worth its cost


class Status(Enum):
    """How an iteration ended; the value is a sentence for a person.

    Examples
    --------
    >>> from credibly import BayesianLogisticRegression
    >>> model = BayesianLogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> model.status_ is Status.CONVERGED, model.status_.value
    (True, 'Converged.')
    """

    CONVERGED = "Converged."
    CURVATURE_REPLACED = (
        "Converged to a mode; on the way the curvature was not positive and was replaced by the expected one, so there "
        "may be other modes. The best of those found is reported."
    )
    NO_LABEL_NOISE = (
        "Converged; the likelihood is highest without label noise, so the flip probability is at its bound of zero and "
        "has no standard deviation."
    )
    SCALE_AT_BOUND = (
        "Converged; a prior scale is at its bound: at 0.001 a column is switched off, at 1000 the data do not limit it."
    )
    DISPERSION_AT_BOUND = (
        "The search for the dispersion ran to its bound: the targets vary far less, or far more, than the family says. "
        "Use another family (a Poisson for a negative binomial without extra variance), or give dispersion=."
    )
    EDGE_OF_DOMAIN = (
        "The search ended at the edge of the link's domain, towards which the likelihood rises: some mean is at the "
        "end of its range, and this is no maximum inside. Use a link that takes every score (log, logit), or a prior."
    )
    EVIDENCE_ABOVE_ZERO = (
        "The log evidence of labels came out above zero, which no probability allows: the posterior is too far from a "
        "Gaussian. Do not compare by it; use a tighter prior, more rows, or a simpler threshold."
    )
    FITTED_EXACTLY = (
        "The targets are fitted exactly, or there are no rows to spare, so the dispersion cannot be estimated and "
        "standard deviations are NaN. Give the dispersion, use fewer columns or a prior."
    )
    UNDETERMINED = (
        "Columns are linearly dependent, or there are fewer rows than weights: of all solutions the one of least norm "
        "on standardised columns is reported, and standard deviations are NaN. Use a prior."
    )
    SCALES_NOT_FOUND = (
        "The search for prior scales ended where the evidence still rises; give the prior, e.g. Normal(scale=2.5)."
    )
    STEP_LIMIT = (
        "The step limit was reached before the goal; raise max_iter, or loosen tol if what the last step changed is "
        "small enough for you."
    )
    SWEEP_LIMIT = (
        "Expectation propagation did not settle within max_iter sweeps; the state that was nearest to a fixed point is "
        "reported. Raise max_iter, use a smaller kernel variance, or inference='laplace'."
    )
    UNTRUSTWORTHY = (
        "The posterior is too far from every approximation tried (k-hat above 0.7), so means, intervals and evidence "
        "are those of the nearest one and uncertain. Use inference='auto' if that was not it, a tighter prior, fewer "
        "columns or more rows."
    )
    HYPERPARAMETER_AT_BOUND = (
        "Converged; a hyperparameter of the kernel is at its bound. summary() says which, and what that means."
    )
    HYPERPARAMETERS_NOT_FOUND = (
        "The search for the kernel's hyperparameters ended where the evidence still rises; narrow the bounds, start "
        "from other values, or use n_restarts."
    )
    SADDLE = (
        "The search ended where the curvature is not positive (a saddle, or a flat direction); the covariance is made "
        "of the expected curvature. Use a tighter prior or another likelihood."
    )
    STALLED = (
        "No step length lowered the objective; the problem is numerically flat here. Rescale the columns or use "
        "a tighter prior."
    )
    NEAR_MODE = (
        "Stochastic gradient ended within a tenth of a posterior standard deviation of the mode "
        "(distance_to_mode_ has the number)."
    )
    AWAY_FROM_MODE = (
        "Stochastic gradient ended more than a tenth of a posterior standard deviation from the mode "
        "(distance_to_mode_ has the number); raise max_iter or use solver='newton'."
    )

    def __str__(self) -> str:
        return str(self.value)

    @property
    def good(self) -> bool:
        """Whether the result can be used without a second look."""
        return self not in _NOT_GOOD


_NOT_GOOD = {
    Status.AWAY_FROM_MODE,
    Status.DISPERSION_AT_BOUND,
    Status.EDGE_OF_DOMAIN,
    Status.EVIDENCE_ABOVE_ZERO,
    Status.FITTED_EXACTLY,
    Status.HYPERPARAMETERS_NOT_FOUND,
    Status.SADDLE,
    Status.SCALES_NOT_FOUND,
    Status.STALLED,
    Status.STEP_LIMIT,
    Status.SWEEP_LIMIT,
    Status.UNTRUSTWORTHY,
    Status.UNDETERMINED,
}


class Local(NamedTuple):
    """An objective at one point, to second order."""

    value: float
    grad: Array  # (d,)
    hessian: PSD
    replaced: bool = False  # whether the Hessian was not positive definite and another matrix stands in for it
    exact: bool = True  # False where another matrix takes the Hessian's place everywhere
    stand_in: "Callable[[], PSD] | None" = None  # that matrix, where a step along the Hessian's may fail


class Solution(NamedTuple):
    """Where the iteration ended, the objective there, and how it went."""

    x: Array  # (d,)
    local: Local
    status: Status
    steps: int  # points at which the objective was expanded and kept, at least 1
    decrement: float  # δ² at the last of them
    nonlinearity: float = np.inf  # κ², as the last full step has shown it


Expand = Callable[[Array], Local]
Report = Callable[[int, float, float], None]


def silent(step: int, value: float, decrement: float) -> None:
    """Report nothing."""


# --- Newton ---------------------------------------------------------------------------------------


def newton(
    expand: Expand,
    x: Array,
    *,
    tol: float = 1e-10,
    max_steps: int = 100,
    confirm: bool = True,
    report: Report = silent,
) -> Solution:
    """Minimise a function by Newton steps, halved until they help enough.

    Undamped Newton can diverge on a convex function (E-5 of docs/theory.md), so every step must deliver a share of the
    decrease its quadratic promises. The stopping rule δ² ≤ `tol` does not depend on the units of x, and the step from
    there is still taken: quadratic convergence leaves about tol² of δ². Once δ² is below what the objective's own
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
    confirm : bool
        Whether the objective is expanded where the last step leads, so that the Hessian is that of the minimum itself.
        Without, it is the one before that step, which is √tol standard deviations away at most.
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
        floor = at_rounding_floor(here.value, decrement, last_decrement, exact=here.exact)
        if decrement <= tol or floor:
            found = Solution(x, here, _goal_reached(here, replaced), step + 1, decrement, nonlinearity)
            return found if floor or here.replaced else _last_step(expand, found, direction, confirm, report)
        if step == max_steps:
            return Solution(x, here, Status.STEP_LIMIT, step + 1, decrement)
        moved = _damped_step(expand, x, here, direction, decrement)
        if moved is None and here.stand_in is not None:
            replaced, direction = True, -here.stand_in().solve(here.grad)
            moved = _damped_step(expand, x, here, direction, float(-here.grad @ direction))
        if moved is None:
            return Solution(x, here, Status.STALLED, step + 1, decrement)
        (x, here), last_decrement = moved, decrement
    raise AssertionError("unreachable: the loop returns")


def _last_step(expand: Expand, found: Solution, direction: Array, confirm: bool, report: Report) -> Solution:
    """The solution one Newton step further, looked at or not."""
    x, here = found.x + direction, found.local
    if not confirm:
        return found._replace(x=x, local=Local(here.value - found.decrement / 2, np.zeros_like(x), here.hessian))
    there = expand(x)
    decrement = _decrement(there.grad, there.hessian)
    if there.replaced or not decrement < found.decrement:  # rounding has the last word
        return found
    report(found.steps, there.value, decrement)
    return found._replace(x=x, local=there, steps=found.steps + 1, decrement=decrement)


def _goal_reached(here: Local, replaced: bool) -> Status:
    if here.replaced:
        return Status.SADDLE
    return Status.CURVATURE_REPLACED if replaced else Status.CONVERGED


def rounding(value: float) -> float:
    """How well the objective is known: it is a sum whose terms are rounded."""
    return ROUNDING * (1 + abs(value))


def at_rounding_floor(value: float, decrement: float, last_decrement: float, *, exact: bool = True) -> bool:
    """Whether δ² is below what the objective shows, and no longer falls.

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
        if t == 1 and decrement < NEARLY_THERE and _decrement(there.grad, here.hessian) < decrement / 4:
            return target, there  # values are too noisy to tell, gradients are not
    return None


def _decrement(grad: Array, hessian: PSD) -> float:
    return float(grad @ hessian.solve(grad))


# --- gradients in the metric of another Hessian ---------------------------------------------------


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
    """A point near the minimum, a matrix near the Hessian there, and how far a Newton step can be trusted."""

    x: Array  # (d,)
    metric: PSD
    nonlinearity: float  # κ²
    fallback: Array  # where to start if x turns out to be no place to start from


def approach(gradient: Callable[[Array], Array], start: Start, *, tol: float, rate: float = FIRST_RATE) -> Array:
    """Come close to the minimum of a convex function by gradients alone, in the metric of a start.

    Ends at a point where δ² is likely to be at most `tol`, as it falls from step to step; or where steps have stopped
    to help, and the Hessian is needed.

    Parameters
    ----------
    gradient : function of an (d,) array
    start : Start
    tol : float
        Goal for δ², in the metric.
    rate : float
        By which δ² is expected to fall in the first step.

    Returns
    -------
    (d,) array

    Examples
    --------
    >>> H = np.array([[2.0, 0.5], [0.5, 1.0]])
    >>> start = Start(np.array([3.0, 4.0]), PSD.of(1.1 * H, "near H"), nonlinearity=0.0, fallback=np.zeros(2))
    >>> bool(np.abs(approach(lambda x: H @ x, start, tol=1e-10)).max() < 1e-5)
    True
    """
    x, metric, g = start.x, Metric(start.metric), gradient(start.x)
    step = -metric.solve(g)
    decrement = float(-g @ step)
    for _ in range(MOST_GRADIENTS):
        if rate * decrement <= tol:
            return x + step
        there = gradient(x + step)
        metric = metric.learn(step, there - g)
        next_step = -metric.solve(there)
        rate = float(-there @ next_step) / decrement
        if not rate < FALLING:  # or not a number: the step was no good
            return x + step if rate < 1 else x
        x, g, step, decrement = x + step, there, next_step, rate * decrement
    return x
