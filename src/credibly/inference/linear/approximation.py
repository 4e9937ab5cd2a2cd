"""The record that every way of inference returns."""

from typing import NamedTuple

from credibly.inference.gaussian import Gaussian
from credibly.inference.sites import Sites
from credibly.numerics.arrays import Array
from credibly.numerics.sampling import Chains
from credibly.numerics.status import Status


class Quadratic(NamedTuple):
    """A log likelihood as an approximation sees it: hᵀx - ½xᵀHx and a constant, over the free weights."""

    information: Array  # H, (M, M)
    linear: Array  # h, (M,)

    @classmethod
    def of_posterior(cls, q: Gaussian, prior: Gaussian) -> "Quadratic":
        """What q has beyond a Gaussian prior."""
        return cls(
            q.precision.matrix - prior.precision.matrix,
            q.precision.matrix @ q.mean - prior.precision.matrix @ prior.mean,
        )


class Approximation(NamedTuple):
    """A posterior of the free weights, and how it was found."""

    q: Gaussian  # of draws, the Gaussian of their moments
    log_evidence: float  # NaN where there is none (a flat prior)
    log_likelihood: float  # at the mode (Laplace), else at the mean
    status: Status
    steps: int
    decrement: float = float("nan")  # squared distance to the mode in posterior standard deviations, where there is one
    nonlinearity: float = float("inf")  # κ² of the last Newton step (`numerics.newton`)
    likelihood: Quadratic | None = None  # where it is not what q has beyond the prior: in the midst of a search
    sites: Sites | None = None  # of expectation propagation
    chains: Chains | None = None  # draws of the free weights, by exact inference,
    log_scales: Array | None = None  # and of the log prior scale, where it is drawn along
    log_evidence_se: float = 0.0
