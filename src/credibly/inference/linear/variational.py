r"""Variational inference: the Gaussian of least KL(q ‖ p), by steps that never lower the bound on the evidence.

.. math:: \log p(y) \ge E_q[\log p(y \mid x)] + E_q[\log p(x)] + H[q]

Notation
--------
====  ==========================================================================  ======
m, Λ  mean and precision of q                                                     (M,)
g     gradient of the bound in m: E[∇ log p(y, x)]                                (M,)
T     averaged curvature: minus the Hessian of log p(y, x), averaged over q       (M, M)
====  ==========================================================================  ======

At the maximum g = 0 and Λ = T. A step of length ρ goes from Λ towards T and from m along Λ⁻¹g: the natural gradient of
the bound (Khan & Rue 2023). One pass over the rows gives the bound, g and T of the point it is made at.
"""

from typing import NamedTuple

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.approximation import Approximation, Quadratic
from credibly.inference.linear.objective import Objective
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.numerics.special import LOG_2PI
from credibly.numerics.status import CONTROLS, Controls, Status

SMALLEST_STEP = 2.0**-20
ROUNDING = 1e-12  # of the bound, relative: what a pass rounds away
FIRST_STEP = 0.6
SHORTEST_STEP = 0.1


class State(NamedTuple):
    """A Gaussian, the bound there, and where the bound would like it to go."""

    q: Gaussian
    bound: float
    gradient: Array  # g
    target: PSD  # T
    likelihood: Quadratic  # that averages over q make of the log likelihood

    @classmethod
    def of(cls, objective: Objective, q: Gaussian) -> "State":
        """One pass over the rows; raises NotPositiveDefinite where the averaged curvature is not."""
        rows, prior = objective.averages(q), objective.expected_prior(q)
        entropy = 0.5 * (q.mean.size * (1 + LOG_2PI) - q.precision.logdet)
        target = objective.precision(rows.information, prior.hessian, prior.roots, "the averaged curvature")
        bound, gradient = rows.log_likelihood - prior.value + entropy, rows.gradient - prior.gradient
        likelihood = Quadratic(rows.information, rows.information @ q.mean + rows.gradient)
        return cls(q, bound, gradient, target, likelihood)

    def rise(self, mean: Array, precision: Array) -> float:
        r"""Slope of the bound along a direction in which the mean and the precision of q change.

        .. math:: g^\top dm + \tfrac12 \operatorname{tr}\bigl((T - Λ) Λ^{-1} dΛ \, Λ^{-1}\bigr)
        """
        mine = self.q.precision
        moved, wanted = mine.solve(precision), mine.solve(self.target.matrix - mine.matrix)
        return float(self.gradient @ mean + 0.5 * (wanted * moved.T).sum())

    def whole_rise(self) -> float:
        return self.rise(self.target.solve(self.gradient), self.target.matrix - self.q.precision.matrix)

    def stepped(self, length: float) -> Gaussian:
        """q after a step of this length."""
        if length == 1.0:
            precision = self.target
        else:
            mixed = (1 - length) * self.q.precision.matrix + length * self.target.matrix
            precision = PSD.of(mixed, "the precision between two steps")
        return Gaussian(self.q.mean + length * precision.solve(self.gradient), precision)


def variational(objective: Objective, start: Gaussian, controls: Controls = CONTROLS) -> Approximation:
    """Approximate the posterior by the Gaussian of least KL(q ‖ p), from a Gaussian near it.

    Parameters
    ----------
    objective : Objective
        With a prior that is a distribution, and a likelihood whose averages over a Gaussian exist.
    start : Gaussian
        Mostly Laplace's, or that of nearly the same problem.
    controls : Controls
        `tol`: the search ends where a whole step would be no longer than this, in squared standard deviations.

    Returns
    -------
    Approximation
        `log_evidence` is the bound, the log likelihood that at the mean.

    References
    ----------
    Opper & Archambeau 2009; Challis & Barber 2013; Khan & Rue 2023.
    """
    state, length, status = State.of(objective, start), FIRST_STEP, Status.STEP_LIMIT
    for step in range(1, controls.max_steps + 1):
        mean, precision = state.target.solve(state.gradient), state.target.matrix - state.q.precision.matrix
        rise = state.rise(mean, precision)
        controls.report(step - 1, -state.bound, rise)
        if rise <= controls.tol:
            status = Status.CONVERGED
            break
        moved = _moved(objective, state, rise, length)
        if moved is None:
            status = Status.STALLED
            break
        state, length = moved
        after = state.rise(mean, precision)
        length = float(np.clip(length * rise / max(rise - after, 0.1 * rise), SHORTEST_STEP, 1.0))
    q = state.q
    return Approximation(q, state.bound, objective.log_likelihood(q.mean), status, step, likelihood=state.likelihood)


def _moved(objective: Objective, state: State, rise: float, length: float) -> tuple[State, float] | None:
    """The state after the longest of the step, its half, its quarter … that does not lower the bound."""
    while length > SMALLEST_STEP:
        try:
            new = State.of(objective, state.stepped(length))
        except NotPositiveDefinite:
            length /= 2
            continue
        if new.bound >= state.bound or new.whole_rise() < rise:
            return new, length
        length /= 2
    return None
