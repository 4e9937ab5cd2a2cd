"""The record that every way of inference returns."""

from typing import NamedTuple

from credibly.inference.gaussian import Gaussian
from credibly.inference.sites import Sites
from credibly.numerics.sampling import Chains
from credibly.numerics.status import Report, Status, silent


class Controls(NamedTuple):
    """When a search stops, and what it tells on the way."""

    tol: float = 1e-10  # squared distance to the mode in posterior standard deviations; for Gaussians, twice KL in nats
    max_steps: int = 100
    report: Report = silent  # of (step, objective, squared distance)


CONTROLS = Controls()


class Approximation(NamedTuple):
    """A posterior of the free weights, and how it was found."""

    q: Gaussian  # of draws, the Gaussian of their moments
    log_evidence: float  # NaN where there is none (a flat prior)
    log_likelihood: float  # at the mode (Laplace), else at the mean
    status: Status
    steps: int
    decrement: float = float("nan")  # squared distance to the mode in posterior standard deviations, where there is one
    nonlinearity: float = float("inf")  # κ² of the last Newton step (`numerics.newton`)
    sites: Sites | None = None  # of expectation propagation
    chains: Chains | None = None  # draws of the free weights, by exact inference
    log_evidence_se: float = 0.0
