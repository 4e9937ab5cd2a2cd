"""What a search for the mode asks of a prior, of whatever family."""

from typing import Protocol

from credibly.numerics.arrays import Array
from credibly.numerics.linalg import Roots


class PriorDensity(Protocol):
    """What a search asks of a prior over the free weights."""

    @property
    def mean(self) -> Array:
        """Where searches start."""

    @property
    def log_concave(self) -> bool:
        """Whether `curvature` is positive definite everywhere."""

    def logpdf(self, x: Array, /) -> Array:
        """Log density at x."""

    def pull(self, x: Array, /) -> Array:
        """Gradient of minus the log density."""

    def curvature(self, x: Array, /) -> Array:
        """Hessian of minus the log density."""

    def roots(self, x: Array, /) -> Roots:
        """The same, with all its digits."""

    def stand_in(self, x: Array, /) -> Array:
        """A positive definite matrix to use where `curvature` is not."""
