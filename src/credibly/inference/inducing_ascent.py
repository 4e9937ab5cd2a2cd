"""BFGS within bounds, for evidences that are dear to evaluate: a handful of evaluations, from a curvature at hand.

Notation
--------
====  =====================================================================================  ======
θ     natural logs of the free hyperparameters                                               (p,)
B     curvature of minus the log evidence in θ, positive definite                            (p, p)
====  =====================================================================================  ======
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy.optimize import lsq_linear

from credibly.data.threads import in_order, single_threaded_blas
from credibly.errors import NotPositiveDefinite
from credibly.inference.kernel_evidence import AT_BOUND, Evaluated, KernelEvidence, Progress
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import ARMIJO
from credibly.numerics.status import Controls, Status, silent

STEP = 3e-3  # of a log hyperparameter, for differences of slopes that are good to 1e-3
LONGEST = 1.0  # step, in e-folds of a hyperparameter
WEAKEST = 1.0  # curvature, in nats per squared e-fold, that steps count on
SHORTER = 0.3


class Terms(NamedTuple):
    """What an ascent keeps to."""

    bounds: Array
    controls: Controls
    progress: Progress


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


FirstCurvature = Callable[[Look], Array]  # B, from what is seen at the start


def cautious(start: Look) -> Array:
    """A curvature with which the first step is an e-fold at most."""
    return np.eye(len(start.slope)) * max(WEAKEST, float(np.abs(start.slope).max(initial=0.0)))


class Ascent:
    """BFGS within bounds, from a curvature that is nearly right where there is one."""

    here: Look
    curvature: Array

    def __init__(
        self, evidence: KernelEvidence, terms: Terms, goal: Goal, curvature: FirstCurvature = cautious
    ) -> None:
        self.evidence, self.bounds, self._first_curvature = evidence, terms.bounds, curvature
        self._controls = Controls(max(goal.tol, terms.controls.tol), terms.controls.max_steps, silent)
        self._goal, self._progress, self._count = goal, terms.progress, 0

    @property
    def begun(self) -> bool:
        """Whether there was a place to start from."""
        return hasattr(self, "here")

    def climb(self, theta: Array, warm: Array | None) -> Status:
        """Step until a further step would gain next to nothing; the sentence says how that ended."""
        self.here, status = self._look(theta, warm), Status.HYPERPARAMETERS_NOT_FOUND
        if not hasattr(self, "curvature"):
            self.curvature = self._first_curvature(self.here)
        last = self._count + self._goal.most
        while self._count < last:
            step = self._step()
            if step @ self.here.slope - 0.5 * step @ self.curvature @ step <= self._goal.close:
                status = Status.HYPERPARAMETER_AT_BOUND if self._at_bounds().any() else Status.CONVERGED
                break
            there = self._better(step, last)
            if there is None:
                break
            moved, fell = there.at.theta - self.here.at.theta, self.here.slope - there.slope
            self.curvature, self.here = updated(self.curvature, moved, fell), there
        found = self.here.at.result.status
        return status if found.good else found

    def _step(self) -> Array:
        """To the top of the quadratic, within the bounds and an e-fold of here."""
        theta, (low, high) = self.here.at.theta, self.bounds.T
        free, step = low < high, np.zeros_like(theta)
        near = np.maximum(low - theta, -LONGEST)[free], np.minimum(high - theta, LONGEST)[free]
        step[free] = boxed(self.here.slope[free], self.curvature[np.ix_(free, free)], *near)
        return step

    def measured_curvature(self, threads: int = 1) -> Array:
        """B, by differences of the slope, (p, p), several of which are looked at at a time."""
        here = self.here

        def fall(step: Array) -> Array:
            at = self.evidence.at(here.at.theta + step, here.at.result.warm, self._controls)
            slope = self.evidence.gradient(at, self._controls) + self.evidence.log_prior_gradient(at.theta)
            return np.asarray((here.slope - slope) / STEP)

        with single_threaded_blas():  # else whoever looks alone for a moment would have other threads, and rounding
            B = np.array(list(in_order(fall, list(STEP * np.eye(len(here.slope))), threads)))
        return np.asarray(0.5 * (B + B.T))

    def _look(self, theta: Array, warm: Array | None) -> Look:
        return self._complete(self.evidence.at(theta, warm, self._controls))

    def _height(self, at: Evaluated) -> float:
        return at.result.log_evidence + self.evidence.log_prior(at.theta)

    def _complete(self, at: Evaluated) -> Look:
        """With the slope."""
        slope = self.evidence.gradient(at, self._controls) + self.evidence.log_prior_gradient(at.theta)
        look = Look(at, self._height(at), slope)
        self._progress(self._count, look.height, float(np.abs(slope).max(initial=0.0)))
        self._count += 1
        return look

    def _at_bounds(self) -> AnyArray:
        theta, (low, high) = self.here.at.theta, self.bounds.T
        return np.asarray((low < high) & ((theta <= low + AT_BOUND) | (theta >= high - AT_BOUND)))

    def _better(self, step: Array, last: int) -> Look | None:
        """The first of ever shorter steps that gains enough; only there the slope is looked at, too."""
        here = self.here
        while self._count < last:
            theta = np.clip(here.at.theta + step, *self.bounds.T)  # what rounding leaves outside
            with suppress(NotPositiveDefinite):  # so far out that kernel values overflow: step back
                at = self.evidence.at(theta, here.at.result.warm, self._controls)
                if self._height(at) - here.height >= ARMIJO * float(here.slope @ (theta - here.at.theta)):
                    return self._complete(at)
            self._count += 1
            step = SHORTER * step
        return None


def boxed(slope: Array, curvature: Array, low: Array, high: Array) -> Array:
    r"""The top of a quadratic in a box: a coordinate that stops at a wall does not mislead the others.

    .. math:: \arg\max_s \; g^T s - \tfrac12 s^T B s, \qquad l \le s \le h

    Examples
    --------
    >>> B = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> boxed(np.array([5.0, 1.0]), B, -np.ones(2), np.ones(2))
    array([1. , 0.5])
    """
    if not slope.size:
        return slope
    factor = PSD.of(curvature, "B")
    return np.asarray(lsq_linear(factor.factor.T, factor.half_solve(slope), (low, high), method="bvls").x)


def updated(curvature: Array, moved: Array, fell: Array) -> Array:
    """The BFGS update of a curvature, where the slope fell along the step."""
    along = float(moved @ fell)
    if along <= 0:
        return curvature
    Bs = curvature @ moved
    return np.asarray(curvature - np.outer(Bs, Bs) / float(moved @ Bs) + np.outer(fell, fell) / along)


def definite(curvature: Array) -> Array:
    """The same curvature where it is positive; weak and negative ones become such that steps are not too long."""
    values, vectors = np.linalg.eigh(curvature)
    return np.asarray((vectors * np.maximum(np.abs(values), WEAKEST)) @ vectors.T)
