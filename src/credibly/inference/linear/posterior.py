"""The posterior of the weights in data units: a Gaussian, or draws.

Layout: one weight vector per class (one in all for two classes), coefficients first, intercept last; K vectors are
stacked class by class.

Notation
--------
====  ==================================================================  =======
w     all weights in data units                                           (M,), M = K·D
x     free weights of the fit (see `design`)                              (J·D,)
s     √K times the mean over classes, where only contrasts are free       (D,)
Φ     rows whose scores are wanted, ones last                             (n, D)
====  ==================================================================  =======
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from credibly.errors import InputError
from credibly.inference.gaussian import Gaussian, Scores, normal_quantile
from credibly.inference.linear.design import Design, centring
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import DesignMatrix
from credibly.numerics.sampling import Chains


@dataclass(frozen=True)
class WeightPosterior:
    """A Gaussian posterior over the weights.

    Held as a Gaussian over the free weights of standardized columns, which stays well conditioned whatever the units.
    Under a prior that treats K classes alike only their contrasts are free: along their mean the posterior is the
    prior, `shared`. Without a prior the mean is not determined at all, and `cov` is singular.

    Parameters
    ----------
    free : Gaussian
        Over the free weights.
    shared : Gaussian or None
        Over √K times the mean over classes, in standardized coordinates.
    design : Design
    """

    free: Gaussian
    shared: Gaussian | None
    design: Design

    def __repr__(self) -> str:
        return f"{type(self).__name__}(M={self.mean.size}, log|Λ|={self.free.precision.logdet:.4g})"

    # --- the weights -----------------------------------------------------------------------------------------

    @property
    def mean(self) -> Array:
        """Posterior mean, (M,)."""
        W = self.design.to_data(self.free.mean)
        return np.asarray(W if self.shared is None else W + self._shared_part(self.shared.mean)).reshape(-1)

    @property
    def cov(self) -> Array:
        """Posterior covariance, (M, M)."""
        root = self._root
        return np.asarray(root.T @ root)

    @property
    def std(self) -> Array:
        """Posterior standard deviations, (M,)."""
        return np.asarray(np.sqrt((self._root**2).sum(axis=0)))

    @property
    def positive(self) -> Array:
        """P(weight > 0), (M,)."""
        return np.asarray(ndtr(self.mean / self.std))

    def interval(self, level: float = 0.9) -> Array:
        """Equal-tailed credible intervals of the weights, (M, 2)."""
        half = normal_quantile(level) * self.std
        return np.column_stack([self.mean - half, self.mean + half])

    def logpdf(self, w: Array) -> Array:
        """Log density at weights w, (M,) or (size, M), in data units."""
        classes, standard = self.design.classes, self.design.standardization
        if self.shared is None and not classes.identity:
            raise InputError(
                "This posterior has no density: without a prior, softmax weights are determined only up to a "
                "constant added to all classes. Give the model a prior, e.g. Normal(scale=2.5)."
            )
        w = np.asarray(w, dtype=float)
        W = standard.from_data(w.reshape(*w.shape[:-1], classes.n_classes, -1))
        volume = classes.n_classes * standard.log_volume
        if self.shared is None:
            return np.asarray(self.free.logpdf(W.reshape(*w.shape[:-1], -1)) + volume)
        # x and s from W: contrasts have orthogonal columns, each of squared length `precision`
        x = (classes.matrix.T @ W) / classes.precision
        s = W.mean(axis=-2) * np.sqrt(classes.n_classes)
        stretch = -0.5 * x.shape[-2] * x.shape[-1] * np.log(classes.precision)
        free = self.free.logpdf(x.reshape(*w.shape[:-1], -1)) + stretch
        return np.asarray(free + self.shared.logpdf(s) + volume)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the weights, (size, M)."""
        W = self.design.to_data(self.free.sample(rng, size))
        if self.shared is not None:
            W = W + self._shared_part(self.shared.sample(rng, size))
        return np.asarray(W).reshape(size, -1)

    # --- scores ----------------------------------------------------------------------------------------------

    def scores(self, X: DesignMatrix) -> Scores:
        """Mean and variance of what probabilities depend on, for rows X: scores of K classes less their mean."""
        return self._scores(self.design.standardization.design(X))

    def _scores(self, Z: DesignMatrix) -> Scores:
        classes = self.design.classes
        if classes.n_classes == 1:
            return self.free.scores(Z)
        C = classes.matrix if not classes.identity else centring(classes.n_classes)
        return self.free.class_scores(Z, C)

    def draws_of_free(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the free weights, (size, J·D)."""
        return self.free.sample(rng, size)

    def scores_of(self, X: DesignMatrix, x: Array) -> Array:
        """Scores of rows X at free weights x (S, J·D), less their mean over classes: (S, n, K)."""
        W = self.design.weights(x)  # (S, K, D)
        if W.shape[1] > 1:
            W = W - W.mean(axis=1, keepdims=True)
        f = np.asarray(self.design.standardization.design(X) @ W.reshape(-1, W.shape[-1]).T)
        return f.reshape(X.shape[0], len(W), -1).swapaxes(0, 1)

    def project(self, Phi: Array) -> Scores:
        """Mean and variance of the scores Φw for rows Φ (n, d+1) with ones last (without, if no intercept)."""
        Z = self.design.standardization.rows_from_data(np.asarray(Phi, dtype=float))
        classes = self.design.classes
        if classes.n_classes == 1:
            return self.free.scores(Z)
        m, V = self.free.class_scores(Z, classes.matrix)
        if self.shared is None:
            return Scores(m, V)
        shift = self.shared.scores(Z)
        ones = np.ones((classes.n_classes, classes.n_classes)) / classes.n_classes
        return Scores(m + shift.mean[:, None] / np.sqrt(classes.n_classes), V + shift.variance[:, None, None] * ones)

    # --- parts -----------------------------------------------------------------------------------------------

    @cached_property
    def _root(self) -> Array:
        """R with cov = RᵀR, one column per weight."""
        root = self.design.to_data(self.free.root).reshape(len(self.free.root), -1)
        if self.shared is None:
            return root
        shared = self._shared_part(self.shared.root).reshape(len(self.shared.root), -1)
        return np.concatenate([root, shared])

    def _shared_part(self, s: Array) -> Array:
        """Weight vectors in data units that all classes have alike, (…, K, D), for s (…, D)."""
        one = self.design.standardization.to_data(s / np.sqrt(self.design.classes.n_classes))
        return np.repeat(one[..., None, :], self.design.classes.n_classes, axis=-2)


@dataclass(frozen=True, repr=False)
class DrawnPosterior(WeightPosterior):
    """Draws of the weights from the posterior itself; `free` is the Gaussian of their moments.

    Parameters
    ----------
    chains : Chains
        Draws of the free weights, (chains, draws, J·D).
    """

    chains: Chains | None = None

    def __repr__(self) -> str:
        return f"DrawnPosterior(M={self.mean.size}, {len(self.draws)} draws)"

    @cached_property
    def draws(self) -> Array:
        """Draws of the free weights, (S, J·D), chain by chain."""
        assert self.chains is not None
        return self.chains.points.reshape(-1, self.free.mean.size)

    @cached_property
    def weight_draws(self) -> Array:
        """Draws of all weights in data units, (S, M); the mean over classes is drawn from its prior."""
        W = self.design.to_data(self.draws)
        if self.shared is not None:
            W = W + self._shared_part(self.shared.sample(np.random.default_rng(0), len(W)))
        return np.asarray(W).reshape(len(W), -1)

    @property
    def positive(self) -> Array:
        """P(weight > 0), (M,)."""
        return np.asarray((self.weight_draws > 0).mean(axis=0))

    def interval(self, level: float = 0.9) -> Array:
        """Equal-tailed credible intervals of the weights, (M, 2)."""
        normal_quantile(level)  # checks it
        return np.quantile(self.weight_draws, [0.5 - level / 2, 0.5 + level / 2], axis=0).T

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the weights, (size, M): picked from those that are held."""
        return self.weight_draws[rng.integers(len(self.draws), size=size)]

    def draws_of_free(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the free weights, (size, J·D): picked from those that are held."""
        return np.asarray(self.draws[rng.integers(len(self.draws), size=size)])
