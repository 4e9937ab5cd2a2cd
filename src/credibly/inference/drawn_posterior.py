"""A posterior held as weighted draws: what is left when a Gaussian is not good enough."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import NotDefinedError
from credibly.inference.frame import Frame
from credibly.inference.posterior import DataUnits, Gaussian, Scores, WeightPosterior, normal_quantile
from credibly.inference.targets import Target
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import DesignMatrix
from credibly.numerics.weighted_draws import WeightedDraws, weighted_mean, weighted_quantiles

SEED = 0  # of what lies outside of the space of few rows, where the draws say nothing
MOST_DRAWS = 8_192  # that are kept: each is another prediction for every row


class DrawnScores(NamedTuple):
    """Scores of some rows at every draw, and the draws' weights."""

    f: Array  # (S, n, K)
    log_weights: Array  # (S,)


@dataclass(frozen=True, repr=False)
class DrawnPosterior(DataUnits):
    """The posterior over the weights in data units as weighted draws; the layout of `WeightPosterior`.

    Parameters
    ----------
    around : WeightPosterior
        The Gaussian that the draws came from.
    free, data : WeightedDraws
        Of the free weights in the frame, and of all weights in data units.
    target : Target or None
        The posterior itself, where the draws are of its skew-symmetric approximation
        q*(w) = 2 q(w) p(w) / (p(w) + p(2m - w)): its density needs the rows of the fit, and goes with them.
    """

    frame: Frame
    contrast: Array
    around: WeightPosterior
    free: WeightedDraws
    data: WeightedDraws
    target: Target | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(replace(self, target=None))  # a saved model holds no rows

    @cached_property
    def gaussian(self) -> Gaussian:
        """The Gaussian with the mean and covariance of the draws, in the frame: the prior of an update."""
        mean = self.free.mean
        return Gaussian.from_mapped_moments(mean, self.free.cov, np.eye(mean.size), "the posterior's draws")

    @property
    def mean(self) -> Array:
        """Posterior mean, (M,)."""
        return self.data.mean

    @property
    def cov(self) -> Array:
        """Posterior covariance, (M, M)."""
        return self.data.cov

    @property
    def std(self) -> Array:
        """Posterior standard deviations, (M,)."""
        return self.data.std

    @property
    def positive(self) -> Array:
        """P(weight > 0), (M,)."""
        return weighted_mean((self.data.x > 0).astype(float), self.data.weights)

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation of what is determined of the weights, (M,) each."""
        draws = self.data._replace(x=self.determined(self.data.x))
        return draws.mean, draws.std

    def interval(self, level: float = 0.9) -> Array:
        """Equal-tailed credible intervals of the weights, (M, 2)."""
        normal_quantile(level)  # checks the level
        return weighted_quantiles(self.data.x, self.data.weights, np.array([0.5 - level / 2, 0.5 + level / 2]))

    def logpdf(self, w: Array) -> Array:
        """Log density at weights w, (M,) or (size, M), in data units: of the skew-symmetric approximation."""
        if self.target is None:
            raise NotDefinedError(
                "This posterior is held as weighted draws and has no density at hand: importance weights have none, "
                'and that of inference="skew" needs the rows of the fit, which are not saved with a model.'
            )
        around = self.around.logpdf(w)
        steps = np.atleast_2d(self.to_frame(w)) - self.around.gaussian.mean
        here, there = self.target.log_joints(steps)
        return np.asarray(np.log(2.0) + around + (here - np.logaddexp(here, there)).reshape(around.shape))

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the weights, (size, M), with replacement."""
        return self.data.choose(rng, size)

    def frame_draws(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the weight vectors in the frame of all columns, (size, K, D), with replacement."""
        if self.frame.full is self.frame:
            return self.vectors(self.free.choose(rng, size))
        draws = self.data.choose(rng, size)
        return self.frame.full.to_frame(draws.reshape(size, len(self.contrast), -1))

    def combined_scores(self, Z: DesignMatrix, contrast: Array) -> Scores:
        """Mean and variance of the scores of combinations of the free weight vectors, (K, J), for rows Z."""
        return replace(self.around, gaussian=self.gaussian).combined_scores(Z, contrast)


def drawn_scores(posterior: DrawnPosterior, Z: DesignMatrix) -> DrawnScores:
    """Scores of rows Z of the design at every draw."""
    return DrawnScores(posterior.scores_at(Z, posterior.free.x), posterior.free.log_weights)


def drawn_posterior(
    around: WeightPosterior, points: Array, log_weights: Array, target: Target | None = None
) -> DrawnPosterior:
    """Weighted draws of the free weights, (S, M), in the place of the Gaussian that they came from."""
    free = WeightedDraws(points, log_weights).thinned(MOST_DRAWS)
    data = WeightedDraws(around.data_draws(np.random.default_rng(SEED), free.x), free.log_weights)
    return DrawnPosterior(around.frame, around.contrast, around, free, data, target)
