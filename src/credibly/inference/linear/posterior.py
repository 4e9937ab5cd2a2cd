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

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import ndtr

from credibly.errors import InputError
from credibly.inference.gaussian import Gaussian, Scores, normal_quantile
from credibly.inference.linear.design import ClassMap, Design, centring
from credibly.inference.linear.row_space import RowSpace
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import DesignMatrix
from credibly.numerics.sampling import Chains
from credibly.numerics.settings import MANY_WEIGHTS, ManyWeights


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
        refuse_covariance(self.mean.size)
        root, space = self._root, self.row_space
        inside = np.asarray(root.T @ root)
        return inside if space is None else np.asarray(inside + np.kron(self._outside_classes, space.outside_cov()))

    @property
    def std(self) -> Array:
        """Posterior standard deviations, (M,)."""
        return self._std(self.free.root)

    def _std(self, root: Array) -> Array:
        """The same, where the free weights have a covariance with this root."""
        if self.row_space is None:
            return np.asarray(np.sqrt((self._data_root(root) ** 2).sum(axis=0)))
        inside = self.design.classes.weights(root)
        if self.shared is not None:
            K = self.design.classes.n_classes
            inside = np.concatenate([inside, np.repeat(self.shared.root[:, None] / np.sqrt(K), K, axis=1)])
        return np.sqrt(self.row_space.variances(inside, np.diag(self._outside_classes))).reshape(-1)

    @property
    def row_space(self) -> RowSpace | None:
        """The space of few rows, outside of which the posterior is the prior; None where all weights are free."""
        standard = self.design.standardization
        return standard if isinstance(standard, RowSpace) else None

    @property
    def _outside_classes(self) -> Array:
        """How classes go together outside of that space: each by itself, or less their mean, (K, K)."""
        classes = self.design.classes
        return np.eye(classes.n_classes) if classes.identity or self.shared is not None else centring(classes.n_classes)

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
        volume: Array = np.asarray(classes.n_classes * standard.log_volume)
        if isinstance(standard, RowSpace):
            volume = volume + standard.outside_logpdf(w.reshape(*w.shape[:-1], classes.n_classes, -1))
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
        return self.to_weights(rng, self.free.sample(rng, size))

    def to_weights(self, rng: np.random.Generator, x: Array) -> Array:
        """Draws of all weights in data units, (size, M), for draws of the free ones; what classes share is drawn."""
        W = self.design.to_data(x)
        if self.shared is not None:
            W = W + self._shared_part(self.shared.sample(rng, len(x)))
        if self.row_space is not None:
            outside = self.row_space.outside_draws(rng, len(x), W.shape[1])
            W = W + np.einsum("kj,sjd->skd", self._outside_classes, outside)
        return np.asarray(W).reshape(len(x), -1)

    def moments_of(self, x: Array, weights: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of all weights in data units, (M,) each, for weighted draws of the free ones."""
        mean = weights @ x
        return replace(self, free=replace(self.free, mean=mean)).mean, self._std(np.sqrt(weights)[:, None] * (x - mean))

    def determined(self) -> "WeightPosterior":
        """The same less what all classes share, which changes no probability."""
        classes = self.design.classes
        if classes.n_classes == 1:
            return self
        centred = ClassMap(centring(classes.n_classes) @ classes.matrix)
        return replace(self, shared=None, design=replace(self.design, classes=centred))

    # --- scores ----------------------------------------------------------------------------------------------

    def of_scores(self) -> "WeightPosterior":
        """The same over weights of the scores that the likelihood takes: of two classes, of their difference."""
        classes = self.design.classes
        if classes.matrix.shape != (2, 1):
            return self
        return replace(self, shared=None, design=replace(self.design, classes=ClassMap(classes.of_scores)))

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

    def score_draws(self, rng: np.random.Generator, size: int) -> Callable[[DesignMatrix], Array]:
        """Scores of any rows at `size` draws of all weights, less their mean over classes: a function to (size, n, K).

        Rows share each draw, in the space of few rows also what lies outside of it.
        """
        x = self.draws_of_free(rng, size)
        space = self.row_space
        if space is None:
            return partial(self.scores_of, x=x)
        K, d = self.design.classes.n_classes, len(space.spread)
        W: Array = self.to_weights(rng, x).reshape(size, K, -1)
        W = (W - W.mean(axis=1, keepdims=True) if K > 1 else W).reshape(size * K, -1)

        def scores(X: DesignMatrix) -> Array:
            f = np.asarray(X @ W[:, :d].T)
            f = f + W[:, d] if space.intercept else f
            return f.reshape(X.shape[0], size, K).swapaxes(0, 1)

        return scores

    def scores_of(self, X: DesignMatrix, x: Array) -> Array:
        """Scores of rows X at free weights x (S, J·D), less their mean over classes: (S, n, K)."""
        W = self.design.weights(x)  # (S, K, D)
        if W.shape[1] > 1:
            W = W - W.mean(axis=1, keepdims=True)
        f = np.asarray(self.design.standardization.design(X) @ W.reshape(-1, W.shape[-1]).T)
        return f.reshape(X.shape[0], len(W), -1).swapaxes(0, 1)

    def project(self, Phi: Array) -> Scores:
        """Mean and variance of the scores Φw for rows Φ (n, d+1) with ones last (without, if no intercept)."""
        return self._all_scores(self.design.standardization.rows_from_data(np.asarray(Phi, dtype=float)))

    def latent(self, X: DesignMatrix) -> Scores:
        """The same for rows X as they came, without the column of ones."""
        return self._all_scores(self.design.standardization.design(X))

    def _all_scores(self, Z: DesignMatrix) -> Scores:
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
        return self._data_root(self.free.root)

    def _data_root(self, root: Array) -> Array:
        in_data = self.design.to_data(root).reshape(len(root), -1)
        if self.shared is None:
            return in_data
        return np.concatenate([in_data, self._shared_part(self.shared.root).reshape(len(self.shared.root), -1)])

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
        return self.to_weights(np.random.default_rng(0), self.draws)

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


def refuse_covariance(n_weights: int, limits: ManyWeights = MANY_WEIGHTS) -> None:
    """Refuse a matrix of all pairs of weights that is too large to look at."""
    if n_weights > limits.largest_matrix:
        raise InputError(
            f"The covariance of {n_weights:,} weights would be a matrix of {8e-9 * n_weights**2:.1f} GB; it is formed "
            f"up to {limits.largest_matrix:,} weights. posterior_.std, .interval, .sample and .project(rows), and all "
            "predictions, do without it."
        )
