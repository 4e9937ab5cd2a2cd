"""The end of an iteration: a status whose value is a sentence, and the point with the local quadratic there."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD


class Status(Enum):
    """The end of an iteration; the value is a sentence for a person.

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
    LAPLACE_UNCHECKED = (
        "Converged; inference='auto' kept Laplace's approximation without its check, because averages over a Gaussian "
        "score do not exist where the link takes some scores only. inference='exact' or certify() tells how good it is."
    )
    NO_LABEL_NOISE = (
        "Converged; the likelihood is highest without label noise, so the flip probability is at its bound of zero and "
        "has no standard deviation."
    )
    PARAMETER_SPREAD_UNKNOWN = (
        "Converged, but how well the flip probability or the dispersion is known could not be told: its standard "
        "deviation is NaN, and those of the weights are as if it were given. Give it, or use a tighter prior or more "
        "rows."
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
        "on standardized columns is reported, and standard deviations are NaN. Use a prior."
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
    CHAINS_NOT_MIXED = (
        "The chains had not mixed when the budget of passes ran out (rhat_ and ess_ say how far they are): means, "
        "intervals and evidence are uncertain. Raise max_passes, or use a tighter prior or fewer columns."
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
        """True where the result can be used without a second look."""
        return self not in _NOT_GOOD


_NOT_GOOD = {
    Status.CHAINS_NOT_MIXED,
    Status.AWAY_FROM_MODE,
    Status.DISPERSION_AT_BOUND,
    Status.EDGE_OF_DOMAIN,
    Status.EVIDENCE_ABOVE_ZERO,
    Status.FITTED_EXACTLY,
    Status.HYPERPARAMETERS_NOT_FOUND,
    Status.PARAMETER_SPREAD_UNKNOWN,
    Status.SADDLE,
    Status.SCALES_NOT_FOUND,
    Status.STALLED,
    Status.STEP_LIMIT,
    Status.SWEEP_LIMIT,
    Status.UNDETERMINED,
}


class Local(NamedTuple):
    """An objective at one point, to second order."""

    value: float
    grad: Array  # (d,)
    hessian: PSD
    replaced: bool = False  # the Hessian was not positive definite; `hessian` is a substitute
    exact: bool = True  # False where `hessian` is an approximation at every point
    stand_in: "Callable[[], PSD] | None" = None  # makes that substitute, for a step along the true Hessian that fails


class Solution(NamedTuple):
    """The point where an iteration ended, the objective there, and how it went."""

    x: Array  # (d,)
    local: Local  # there; after a short last step, as the quadratic predicts it
    status: Status
    steps: int  # points at which the objective was expanded and kept, at least 1
    decrement: float  # δ² at the last of them
    nonlinearity: float = np.inf  # κ², as the last full step has shown it


Report = Callable[[int, float, float], None]  # of step, value and squared decrement


def silent(step: int, value: float, decrement: float) -> None:
    """Report nothing."""


class Controls(NamedTuple):
    """When a search stops, and what it tells on the way."""

    tol: float = 1e-10  # squared distance to the mode in posterior standard deviations; for Gaussians, twice KL in nats
    max_steps: int = 100
    report: Report = silent  # of (step, objective, squared distance)


CONTROLS = Controls()
TO_ROUNDING = Controls(tol=1e-20)  # Newton's last step before rounding has the last word
