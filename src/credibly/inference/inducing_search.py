r"""Hyperparameters of a Gaussian process with inducing points: mostly on a part of the rows, then a few steps on all.

Notation
--------
====  =====================================================================================  ======
θ     natural logs of the free hyperparameters                                               (p,)
B     curvature of minus the log evidence in θ, positive definite                            (p, p)
====  =====================================================================================  ======

An evaluation on all rows costs n m², and a search by L-BFGS some fifty of them. The evidence of a part of the rows has
its maximum nearby and its curvature, times n over the number of rows, is about that of all: quasi-Newton steps that
start from both need a handful of evaluations.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.inference.inducing_evidence import InducingEvidence
from credibly.inference.inducing_points import chosen_points
from credibly.inference.kernel_evidence import AT_BOUND, Evaluated, Progress, maximise
from credibly.inference.laplace import Controls
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import ARMIJO, Status, silent

SMALL = 3e8  # n m²: below, hyperparameters are searched for on all rows
SAMPLE_ROWS, SAMPLE_POINTS = 5_000, 200
MOST_EVALUATIONS = 12  # on all rows
MOST_ON_A_PART = 60
# Nats that a further step would gain. On all rows half a nat: hyperparameters are then within one of their own standard
# deviations. On a part it is n over its rows times as much of all.
CLOSE, CLOSE_ON_A_PART = 0.5, 0.05
LOOSE = 1e-9  # squared distance of latents to their goal: evidences are then good to 1e-4 nats
STEP = 1e-3  # of a log hyperparameter, for differences of gradients
LONGEST = 1.0  # step, in e-folds of a hyperparameter
WEAKEST = 1.0  # curvature, in nats per squared e-fold, that steps count on
MOVED = 1.0  # e-folds that hyperparameters move after points were chosen, from which on they are chosen anew
SHORTER = 0.3

Make = Callable[[AnyArray | None, Array], InducingEvidence]  # for some rows (None: all) and points
Begin = Callable[[Array], Array]  # from a guess of all latents to where a search for them may start


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

    def of_a_part(self, rows: AnyArray) -> "Points":
        """Fewer points, for a part of the rows."""
        size = min(self.size, SAMPLE_POINTS)
        given = self.given
        if given is not None and len(given) > size:
            given = given[np.sort(self.rng.choice(len(given), size, replace=False))]
        return Points(self.rng, self.X[rows], size, given)


class Learnt(NamedTuple):
    """Where the search ended, and the evidence, with its points, that was searched."""

    at: Evaluated
    status: Status
    evidence: InducingEvidence


class Search(NamedTuple):
    """A search for the hyperparameters of highest evidence (times their prior)."""

    make: Make
    begin: Begin
    kernels: tuple[Kernel, ...]
    bounds: Array
    controls: Controls
    progress: Progress

    def learn(self, points: Points, starts: Sequence[Array]) -> Learnt:
        """On all rows where that is quick, else on a part of them and then a few steps on all."""
        n = len(points.X)
        if n * points.size**2 <= SMALL:
            return self._climb(None, points, starts)
        some = np.sort(points.rng.choice(n, min(n, SAMPLE_ROWS), replace=False))
        rough = self._on_a_part(some, points.of_a_part(some), starts)
        warm = self.begin(rough.evidence.posterior(rough.here.at).scores(points.X).mean)
        curvature = _definite(rough.measured_curvature() * (n / len(some)))
        ascent = Ascent(rough.evidence, self, Goal(CLOSE, MOST_EVALUATIONS, LOOSE), curvature)
        return self._approach(ascent, points, rough.here.at, warm)

    def _climb(self, rows: AnyArray | None, points: Points, starts: Sequence[Array]) -> Learnt:
        """By L-BFGS; points that depend on the kernel are chosen anew where that ended, and it goes on from there."""
        evidence = self.make(rows, points.at(self.kernels))
        at, status = maximise(evidence, self.bounds, starts, self.controls, self.progress)
        if not points.fixed:
            evidence = self.make(rows, points.at(at.kernels))
            at, status = maximise(evidence, self.bounds, [at.theta], self.controls, self.progress)
        return Learnt(at, status, evidence)

    def _on_a_part(self, rows: AnyArray, points: Points, starts: Sequence[Array]) -> "Ascent":
        """Where a search on a part of the rows ended, the best of those from several starts."""
        evidence = self.make(rows, points.at(self.kernels))
        goal = Goal(CLOSE_ON_A_PART, MOST_ON_A_PART, evidence.search_tol)
        climbs = []
        for i, start in enumerate(starts):
            climbs.append(Ascent(evidence, self, goal))
            with suppress(NotPositiveDefinite) if i else nullcontext():  # a drawn start whose kernel overflows
                climbs[-1].climb(start, None)
        best = max((it for it in climbs if it.begun), key=lambda it: it.here.height)
        if not points.fixed:
            found = best.here.at
            best.learnt(self.make(rows, points.at(found.kernels)), found.theta, found.result.warm)
        return best

    def _approach(self, ascent: "Ascent", points: Points, rough: Evaluated, warm: Array) -> Learnt:
        """By quasi-Newton steps on all rows; points are chosen anew where that led far away."""
        found = ascent.learnt(self.make(None, points.at(rough.kernels)), rough.theta, warm)
        if not points.fixed and np.abs(found.at.theta - rough.theta).max() > MOVED:
            again = ascent.learnt(self.make(None, points.at(found.at.kernels)), found.at.theta, found.at.result.warm)
            found = max(found, again, key=lambda it: it.at.result.log_evidence)
        at = found.evidence.refined(found.at, self.controls)
        return found._replace(at=at, status=found.status if at.result.status.good else at.result.status)


class Look(NamedTuple):
    """The penalised evidence and its slope at one θ."""

    at: Evaluated
    height: float
    slope: Array


class Goal(NamedTuple):
    """When an ascent ends."""

    close: float  # nats that a further step would gain
    most: int  # evaluations
    tol: float  # of the latents


class Ascent:
    """BFGS within bounds, from a curvature that is nearly right where there is one."""

    here: Look

    def __init__(self, evidence: InducingEvidence, search: Search, goal: Goal, curvature: Array | None = None) -> None:
        self.evidence, self.bounds, self.curvature = evidence, search.bounds, curvature
        self._controls = Controls(max(goal.tol, search.controls.tol), search.controls.max_steps, silent)
        self._goal, self._progress, self._count = goal, search.progress, 0

    @property
    def begun(self) -> bool:
        """Whether there was a place to start from."""
        return hasattr(self, "here")

    def learnt(self, evidence: InducingEvidence, theta: Array, warm: Array | None) -> Learnt:
        """`climb` with other points."""
        self.evidence = evidence
        status = self.climb(theta, warm)
        return Learnt(self.here.at, status, evidence)

    def climb(self, theta: Array, warm: Array | None) -> Status:
        """Step until a further step would gain next to nothing; the sentence says how that ended."""
        self.here, status = self._look(theta, warm), Status.HYPERPARAMETERS_NOT_FOUND
        if self.curvature is None:  # an e-fold at most at first
            self.curvature = np.eye(len(theta)) * max(WEAKEST, float(np.abs(self.here.slope).max(initial=0.0)))
        last = self._count + self._goal.most
        while self._count < last:
            step = self._step(self.curvature)
            if 0.5 * step @ self.here.slope <= self._goal.close:
                status = Status.HYPERPARAMETER_AT_BOUND if self._at_bounds().any() else Status.CONVERGED
                break
            there = self._better(limited(step, self.here.slope), last)
            if there is None:
                break
            moved, fell = there.at.theta - self.here.at.theta, self.here.slope - there.slope
            self.curvature, self.here = updated(self.curvature, moved, fell), there
        found = self.here.at.result.status
        return status if found.good else found

    def _step(self, curvature: Array) -> Array:
        """Uphill, among the hyperparameters that can go there."""
        free, step = self._free(), np.zeros_like(self.here.slope)
        if free.size:
            step[free] = PSD.of(curvature[np.ix_(free, free)], "B").solve(self.here.slope[free])
        return step

    def measured_curvature(self) -> Array:
        """B, by differences of the slope, (p, p)."""
        here, rows = self.here, []
        for step in STEP * np.eye(len(here.slope)):
            at = self.evidence.at(here.at.theta + step, here.at.result.warm, self._controls)
            slope = self.evidence.gradient(at, self._controls) + self.evidence.log_prior_gradient(at.theta)
            rows.append((here.slope - slope) / STEP)
        B = np.array(rows)
        return np.asarray(0.5 * (B + B.T))

    def _look(self, theta: Array, warm: Array | None) -> Look:
        at = self.evidence.at(theta, warm, self._controls)
        slope = self.evidence.gradient(at, self._controls) + self.evidence.log_prior_gradient(theta)
        look = Look(at, at.result.log_evidence + self.evidence.log_prior(theta), slope)
        self._progress(self._count, look.height, float(np.abs(slope).max(initial=0.0)))
        self._count += 1
        return look

    def _at_bounds(self) -> AnyArray:
        theta, (low, high) = self.here.at.theta, self.bounds.T
        return np.asarray((low < high) & ((theta <= low + AT_BOUND) | (theta >= high - AT_BOUND)))

    def _free(self) -> AnyArray:
        """Which hyperparameters can move uphill."""
        theta, slope, (low, high) = self.here.at.theta, self.here.slope, self.bounds.T
        blocked = ((theta <= low + AT_BOUND) & (slope <= 0)) | ((theta >= high - AT_BOUND) & (slope >= 0))
        return np.flatnonzero((low < high) & ~blocked)

    def _better(self, step: Array, last: int) -> Look | None:
        """The first of ever shorter steps that gains enough."""
        while self._count < last:
            theta = np.clip(self.here.at.theta + step, *self.bounds.T)
            try:
                there = self._look(theta, self.here.at.result.warm)
            except NotPositiveDefinite:  # so far out that kernel values overflow: step back
                self._count += 1
            else:
                gained = there.height - self.here.height
                if gained >= ARMIJO * float(self.here.slope @ (theta - self.here.at.theta)):
                    return there
            step = SHORTER * step
        return None


def limited(step: Array, slope: Array) -> Array:
    """A step of an e-fold at most in every hyperparameter: one that runs away does not hold up the others."""
    cut = np.clip(step, -LONGEST, LONGEST)
    return cut if slope @ cut > 0 else step * min(1.0, LONGEST / np.abs(step).max())


def updated(curvature: Array, moved: Array, fell: Array) -> Array:
    """The BFGS update of a curvature, where the slope fell along the step."""
    along = float(moved @ fell)
    if along <= 0:
        return curvature
    Bs = curvature @ moved
    return np.asarray(curvature - np.outer(Bs, Bs) / float(moved @ Bs) + np.outer(fell, fell) / along)


def _definite(curvature: Array) -> Array:
    """The same curvature where it is positive; weak and negative ones become such that steps are not too long."""
    values, vectors = np.linalg.eigh(curvature)
    return np.asarray((vectors * np.maximum(np.abs(values), WEAKEST)) @ vectors.T)
