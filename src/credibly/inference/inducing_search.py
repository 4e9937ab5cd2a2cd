r"""Hyperparameters of a Gaussian process with inducing points: mostly on a part of the rows, then a few steps on all.

Notation
--------
====  =====================================================================================  ======
θ     natural logs of the free hyperparameters                                               (p,)
B     curvature of minus the log evidence in θ, positive definite                            (p, p)
====  =====================================================================================  ======

An evaluation on all rows costs n m², and a search by L-BFGS some fifty of them. The evidence of a part of the rows has
its maximum nearby, and its curvature tells that of all: what data say about hyperparameters grows with the number of
parameters that they determine (not with n: ten times the rows may bring twice the curvature). Quasi-Newton steps that
start from both need two or three evaluations. So the curvature is measured once, on the smallest part.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from credibly.data.threads import default_threads
from credibly.errors import NotPositiveDefinite
from credibly.inference.inducing_ascent import Ascent, Goal, Look, Terms, definite
from credibly.inference.inducing_evidence import InducingEvidence
from credibly.inference.inducing_points import chosen_points
from credibly.inference.kernel_evidence import Evaluated, Progress, maximise
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.status import Controls, Status, silent

SMALL = 3e8  # n m²: below, hyperparameters are searched for on all rows
PARTS = ((1_500, 100), (5_000, 200), (15_000, 350))  # rows and points, before all rows
JUDGED_ROWS = 5_000  # on which the curvature is measured, or other points are tried, once hyperparameters are found
MOST_EVALUATIONS = 12  # on all rows
MOST_ON_A_PART = 60
# Nats that a further step would gain. On all rows half a nat: hyperparameters are then within one of their own standard
# deviations. On a part it is n over its rows times as much of all.
CLOSE, CLOSE_ON_A_PART = 0.5, 0.05
LOOSE = 1e-7  # squared distance of latents to their goal: evidences are then good to 1e-5 nats, slopes to 2e-3 (seen)
MOVED = 1.0  # e-folds that hyperparameters move after points were chosen, from which on others are tried

Make = Callable[[AnyArray | None, Array], InducingEvidence]  # for some rows (None: all) and points
Begin = Callable[[AnyArray | None, Array], Array]  # for some rows and a guess of their latents: where to start


class Points(NamedTuple):
    """How points are found."""

    rng: np.random.Generator
    X: Array
    size: int
    given: Array | None

    @property
    def fixed(self) -> bool:
        """Whether they do not depend on the kernel."""
        return self.given is not None or self.size >= len(self.X)

    def at(self, kernels: tuple[Kernel, ...]) -> Array:
        """Those given, all rows, or rows chosen for these kernels."""
        if self.given is not None:
            return self.given
        if self.size >= len(self.X):
            return self.X
        return chosen_points(self.rng, reduce(add, kernels), self.X, self.size)

    def of_a_part(self, rows: AnyArray, most: int) -> "Points":
        """Fewer points, for a part of the rows."""
        size = min(self.size, most, len(rows))
        given = self.given
        if given is not None and len(given) > size:
            given = given[np.sort(self.rng.choice(len(given), size, replace=False))]
        return Points(self.rng, self.X[rows], size, given)


class Learnt(NamedTuple):
    """Where the search ended, and the evidence, with its points, that was searched."""

    at: Evaluated
    status: Status
    evidence: InducingEvidence


class Part(NamedTuple):
    """A search on a part of the rows, at its end."""

    rows: AnyArray
    evidence: InducingEvidence
    top: Look
    curvature: Array  # B of the part

    @classmethod
    def measured(cls, rows: AnyArray, evidence: InducingEvidence, ascent: Ascent) -> "Part":
        """With the curvature measured, which takes p evaluations."""
        threads = evidence.threads or default_threads()
        return cls(rows, evidence, ascent.here, ascent.measured_curvature(threads))

    def curvature_of_more(self, there: Look) -> Array:
        """B of more rows, whose latents say how many numbers they determine."""
        return definite(self.curvature * (_determined(there) / _determined(self.top)))


def _determined(look: Look) -> float:
    return look.at.result.effective_parameters()


class Search(NamedTuple):
    """A search for the hyperparameters of highest evidence (times their prior)."""

    make: Make
    begin: Begin
    kernels: tuple[Kernel, ...]
    bounds: Array
    controls: Controls
    progress: Progress

    @property
    def terms(self) -> Terms:
        """What ascents keep to."""
        return Terms(self.bounds, self.controls, self.progress)

    def learn(self, points: Points, starts: Sequence[Array]) -> Learnt:
        """On all rows where that is quick, else on a part of them and then a few steps on all."""
        n = len(points.X)
        if n * points.size**2 <= SMALL:
            return self._climb(None, points, starts)
        order = points.rng.permutation(n)
        rows, most = PARTS[0]
        part = self._begin_on(np.sort(order[:rows]), points.of_a_part(order[:rows], most), starts)
        for rows, most in PARTS[1:]:
            if 2 * rows <= n:  # else all rows are hardly more
                part = self._go_on_with(np.sort(order[:rows]), points.of_a_part(order[:rows], most), part, n)
        return self._approach(part, points)

    def settle(self, points: Points, moved: Learnt) -> Learnt:
        """Hyperparameters once more, for points that have moved and stay now."""
        evidence, theta = moved.evidence, moved.at.theta
        n = len(points.X)
        if n * points.size**2 <= SMALL:
            at, status = maximise(evidence, self.bounds, [theta], self.controls, self.progress)
            return Learnt(at, status, evidence)
        rows = np.sort(points.rng.choice(n, min(n, JUDGED_ROWS), replace=False))
        some = self.make(rows, evidence.points)
        look_around = Ascent(some, self.terms._replace(progress=silent), Goal(np.inf, 1, LOOSE))
        look_around.climb(theta, self.begin(rows, moved.at.result.mean[rows]))
        return self._refined(
            self._on_all(Part.measured(rows, some, look_around), evidence, theta, moved.at.result.warm)
        )

    def _refined(self, found: Learnt) -> Learnt:
        """With latents to the tolerance that was asked for."""
        at = found.evidence.refined(found.at, self.controls)
        return found._replace(at=at, status=found.status if at.result.status.good else at.result.status)

    def _climb(self, rows: AnyArray | None, points: Points, starts: Sequence[Array]) -> Learnt:
        """By L-BFGS; points that depend on the kernel are chosen anew where that ended, and it goes on from there."""
        evidence = self.make(rows, points.at(self.kernels))
        at, status = maximise(evidence, self.bounds, starts, self.controls, self.progress)
        if not points.fixed:
            evidence = self.make(rows, points.at(at.kernels))
            at, status = maximise(evidence, self.bounds, [at.theta], self.controls, self.progress)
        return Learnt(at, status, evidence)

    def _begin_on(self, rows: AnyArray, points: Points, starts: Sequence[Array]) -> Part:
        """Where a search on a few rows ended, the best of those from several starts."""
        evidence = self.make(rows, points.at(self.kernels))
        goal = Goal(CLOSE_ON_A_PART, MOST_ON_A_PART, LOOSE)
        climbs = []
        for i, start in enumerate(starts):
            climbs.append(Ascent(evidence, self.terms, goal))
            with suppress(NotPositiveDefinite) if i else nullcontext():  # a drawn start whose kernel overflows
                climbs[-1].climb(start, None)
        best = max((it for it in climbs if it.begun), key=lambda it: it.here.height)
        return Part.measured(rows, evidence, best)

    def _go_on_with(self, rows: AnyArray, points: Points, first: Part, n: int) -> Part:
        """The same on more rows, with points for the kernel that was found on fewer."""
        evidence = self.make(rows, points.at(first.top.at.kernels))
        close = max(CLOSE_ON_A_PART, CLOSE * len(rows) / n)
        goal = Goal(close, MOST_ON_A_PART, LOOSE)
        ascent = Ascent(evidence, self.terms, goal, first.curvature_of_more)
        ascent.climb(first.top.at.theta, self._warm(first, rows, evidence.X))
        return Part(rows, evidence, ascent.here, ascent.curvature)

    def _warm(self, part: Part, rows: AnyArray | None, X: Array) -> Array:
        """Where a search for the latents of other rows may start, from what a part says about them."""
        return self.begin(rows, part.evidence.posterior(part.top.at).means(X))

    def _approach(self, part: Part, points: Points) -> Learnt:
        """By a few steps on all rows; points are chosen anew where that led far away and a part shows a gain."""
        rough = part.top.at
        warm = self._warm(part, None, points.X)
        found = self._on_all(part, self.make(None, points.at(rough.kernels)), rough.theta, warm)
        if not points.fixed and np.abs(found.at.theta - rough.theta).max() > MOVED:
            chosen = points.at(found.at.kernels)
            if self._gain_on(part, found, chosen) > CLOSE:
                again = self._on_all(part, self.make(None, chosen), found.at.theta, found.at.result.warm)
                found = max(found, again, key=lambda it: it.at.result.log_evidence)
        return self._refined(found)

    def _on_all(self, part: Part, evidence: InducingEvidence, theta: Array, warm: Array) -> Learnt:
        goal = Goal(CLOSE, MOST_EVALUATIONS, LOOSE)
        ascent = Ascent(evidence, self.terms, goal, part.curvature_of_more)
        status = ascent.climb(theta, warm)
        return Learnt(ascent.here.at, status, evidence)

    def _gain_on(self, part: Part, found: Learnt, chosen: Array) -> float:
        """Nats that other points would gain on all rows, judged by a part of them."""
        controls = Controls(max(LOOSE, self.controls.tol), self.controls.max_steps, silent)
        rows = part.rows[:: -(-len(part.rows) // JUDGED_ROWS)]
        old, new = (
            self.make(rows, Z).at(found.at.theta, None, controls).result.log_evidence
            for Z in (found.evidence.points, chosen)
        )
        return (new - old) * len(found.evidence.X) / len(rows)
