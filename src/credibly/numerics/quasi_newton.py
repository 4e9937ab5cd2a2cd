"""Newton for functions whose Hessian is dear: most steps need the gradient alone.

A Hessian from elsewhere (of a sample of the rows, of a problem nearby) measures the steps, L-BFGS pairs correct it, and
the Hessian itself is asked for at the end, where it is the answer, or on the way where that is cheaper than going on.

Notation
--------
====  ===============================================================  ======
x     where we are                                                     (d,)
g     gradient of the objective at x                                   (d,)
H₀    a matrix near the Hessian                                        (d, d)
s, y  a step, and by how much the gradient changed over it             (d,)
δ²    squared decrement gᵀB⁻¹g in the metric B at hand                 scalar
κ²    bound on what a Newton step leaves: δ² after it is κ²(δ²)²       scalar
====  ===============================================================  ======
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import (
    HESSIAN_CHANGE,
    MARGIN,
    Expand,
    Local,
    Report,
    Solution,
    Status,
    at_rounding_floor,
    newton,
    silent,
)

MOST_PASSES = 30  # in all, before plain Newton takes over
FALLING = 0.25  # by which δ² must fall in a step, or the metric is of no use
FIRST_RATE = 0.05  # by which δ² falls in the first step, as a guess: the Hessian of a sample is a tenth or two off
CHEAP = 1.25  # cost of a Hessian in gradients, up to which it is asked for every time
SLOWER = 2.0  # κ²δ² times that is by how much δ² falls in steps with the Hessian of a point δ² away


@dataclass(frozen=True)
class Metric:
    """A matrix near the Hessian, and the pairs that correct it.

    Examples
    --------
    >>> H = np.array([[2.0, 0.5], [0.5, 1.0]])
    >>> metric = Metric(PSD(np.eye(2)))
    >>> for step in np.eye(2):
    ...     metric = metric.learn(step, H @ step)
    >>> metric.solve(H[1])  # the last pair is met exactly
    array([0., 1.])
    """

    base: PSD  # H₀
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


class Passes(NamedTuple):
    """What can be asked about an objective at a point, and what it costs."""

    expand: Expand  # value, gradient and Hessian
    gradient: Callable[[Array], Array]
    hessian_cost: float  # of a pass with the Hessian, in passes with the gradient alone


class Start(NamedTuple):
    """A point near the minimum, and what is known of the Hessian there."""

    x: Array  # (d,)
    metric: PSD  # near the Hessian
    retreat: Array  # where damped Newton starts if x turns out to be no place to start from
    gradient: Array | None = None  # at x, where it is known; the metric is the Hessian then
    bend: float = np.inf  # κ², where a search nearby has told
    rate: float = FIRST_RATE  # by which δ² is likely to fall in the first step
    likely_bend: float = np.inf  # κ² as good as a sample tells: enough for plans, not for promises


def quasi_newton(
    passes: Passes, start: Start, *, tol: float = 1e-20, max_steps: int = 100, report: Report = silent
) -> Solution:
    """Minimise a convex function from a point near its minimum, by gradients in a given metric.

    Ends with one Hessian at a point so near the minimum that it is the minimum's own to 5e-11, and the Newton step
    there. Where gradients shrink so slowly that the Hessian comes cheaper than going on, it is asked for on the way;
    where they do not shrink, damped Newton does the rest. What is promised is what `newton` promises without `confirm`.

    Parameters
    ----------
    passes : Passes
    start : Start
        Within some tens of standard deviations of the minimum.
    tol, max_steps, report
        As for `newton`; points where only the gradient was asked for do not count.

    Examples
    --------
    >>> H = np.array([[2.0, 0.5], [0.5, 1.0]])
    >>> bowl = lambda x: Local(float(x @ H @ x) / 2, H @ x, PSD.of(H, "a bowl"))
    >>> start = Start(np.array([3.0, 4.0]), PSD.of(1.1 * H, "near H"), np.zeros(2))
    >>> found = quasi_newton(Passes(bowl, lambda x: H @ x, 10.0), start)
    >>> found.status, found.steps  # one Hessian
    (<Status.CONVERGED: 'Converged.'>, 1)

    References
    ----------
    Nocedal & Wright 2006, section 7.2.
    """
    search = _Search(passes, start, tol, report)
    try:
        solution = search.run(max_steps)
    except NotPositiveDefinite:  # so far out that all curvature is rounded away
        solution = None
    if solution is not None:
        return solution
    left = max(0, max_steps - search.expanded)
    ended = newton(passes.expand, search.x, tol=tol, max_steps=left, confirm=False, report=search.later_report)
    return ended._replace(steps=search.expanded + ended.steps)


class _Point(NamedTuple):
    """What one pass has shown."""

    x: Array
    gradient: Array
    local: Local | None  # where the Hessian was asked for
    exact: bool  # whether the metric is the Hessian


class _Search:
    """Where the search is, and what it has seen."""

    def __init__(self, passes: Passes, start: Start, tol: float, report: Report) -> None:
        self.passes, self.tol, self.report = passes, tol, report
        self.start, self.x, self.metric = start, start.retreat, Metric(start.metric)
        self.expanded = 0  # points with a Hessian
        self.last = np.inf  # δ² one step before
        self.bend, self.likely_bend = start.bend, start.likely_bend  # κ², for promises and for plans

    def run(self, max_steps: int) -> Solution | None:
        """The minimum, or None where damped Newton has to go on from `x`."""
        here = self._first()
        most, seen = np.inf, False  # δ² that can still be called a step ahead; whether that was a Newton step
        for _ in range(MOST_PASSES):
            step = -self.metric.solve(here.gradient)
            decrement = float(-here.gradient @ step)
            if here.local is not None:
                self.report(self.expanded - 1, here.local.value, decrement)
            if 0 < self.last * self.last < np.inf:
                self._learn_bend(decrement / self.last**2, seen)
            if here.local is not None and (ended := self._ended(here.x, here.local, step, decrement)) is not None:
                return ended
            if not decrement < most:  # or not a number: the step was no good
                if self.expanded or not max_steps or math.isinf(self.last):
                    return None
                here, self.last, most = self._look(self.x, with_hessian=True), np.inf, np.inf
                continue  # from the point before, in a better metric
            self.x = here.x
            ask = self._hessian_pays(decrement, here.exact)
            if ask and self.expanded > max_steps:
                return None
            before, self.last = here, decrement
            here = self._look(self.x + step, with_hessian=ask)
            if here.local is None:
                self.metric = self.metric.learn(step, here.gradient - before.gradient)
            seen = before.exact
            most = decrement if seen or here.local is None else decrement / FALLING  # two metrics may differ
        return None

    def _learn_bend(self, ratio: float, seen: bool) -> None:
        """A Newton step shows κ² where we are; a step in another metric leaves more, and only bounds it."""
        self.bend = ratio if seen else min(self.bend, ratio)
        if seen:
            self.likely_bend = np.inf

    def _first(self) -> "_Point":
        x, gradient = self.start.x, self.start.gradient
        if gradient is None:
            return self._look(x, with_hessian=self.passes.hessian_cost <= CHEAP)
        return _Point(x, gradient, None, exact=True)

    def _look(self, x: Array, *, with_hessian: bool) -> "_Point":
        """One pass; a Hessian is the metric from then on."""
        if not with_hessian:
            return _Point(x, self.passes.gradient(x), None, exact=False)
        local = self.passes.expand(x)
        self.metric, self.expanded = Metric(local.hessian), self.expanded + 1
        return _Point(x, local.grad, local, exact=True)

    def later_report(self, step: int, value: float, decrement: float) -> None:
        """Report what damped Newton does after this search."""
        self.report(self.expanded + step, value, decrement)

    def _ended(self, x: Array, local: Local, step: Array, decrement: float) -> Solution | None:
        """The solution, if this point or the Newton step from it is one."""
        if decrement <= self.tol or at_rounding_floor(local.value, decrement, self.last, exact=local.exact):
            return Solution(x, local, Status.CONVERGED, self.expanded, decrement, self.bend)
        expected = self.bend * decrement * decrement  # a power would raise an error where this is infinite
        if MARGIN * expected <= self.tol and expected <= HESSIAN_CHANGE**2 * decrement:
            arrived = Local(local.value - decrement / 2, np.zeros_like(x), local.hessian)
            return Solution(x + step, arrived, Status.CONVERGED, self.expanded, expected, self.bend)
        return None  # also for what is not a number

    def _hessian_pays(self, decrement: float, exact: bool) -> bool:
        """Whether to ask for the Hessian at the next point: it ends the search there, or makes it shorter."""
        if self.passes.hessian_cost <= CHEAP:
            return True
        bend = min(self.bend, self.likely_bend)
        rate = decrement / self.last if math.isfinite(self.last) else self.start.rate
        expected = bend * decrement * decrement if exact else rate * decrement
        needed = self._needed(bend)
        if expected <= needed:
            return True
        if exact or not math.isfinite(bend):  # the metric is new
            return False
        return rate > FALLING or self._on_the_way(expected, rate, bend, needed)

    def _on_the_way(self, expected: float, rate: float, bend: float, needed: float) -> bool:
        """Whether the Hessian at the next point, some gradients and the last Hessian cost less than any other plan.

        Others ask for it some gradients later, or only at the end.
        """
        to_the_end = _passes_until(needed, expected, rate)
        costs = []
        for before in range(math.ceil(min(to_the_end, MOST_PASSES))):  # gradients that come first
            left = expected * rate**before  # δ² at the Hessian
            after = _passes_until(needed, bend * left * left, SLOWER * bend * left)
            costs.append(before + after + self.passes.hessian_cost)
        return costs[0] <= min(*costs, to_the_end)

    def _needed(self, bend: float) -> float:
        """The δ² at which a Hessian will do as that of the minimum, with a margin."""
        moved = HESSIAN_CHANGE**2 / bend if bend > 0 else np.inf
        return max(moved, self.tol) / MARGIN


def _passes_until(needed: float, first: float, rate: float) -> float:
    """How many passes come to the δ² that is needed, if the next one finds `first` and each later one `rate` of it.

    Parts of passes count too: of plans that take as many, the one with most to spare.
    """
    if first <= needed:
        return 1.0
    if rate >= 1 or needed <= 0:
        return math.inf
    return 1 + (math.log(needed) - math.log(first)) / math.log(rate) if rate > 0 else 2.0
