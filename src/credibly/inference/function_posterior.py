"""The posterior of a function: latents at the training rows, and from them at any other."""

from dataclasses import dataclass

import numpy as np

from credibly.errors import InputError
from credibly.inference.gaussian import Scores
from credibly.inference.latent import LatentGaussian
from credibly.inference.latent_softmax import ClassGaussian
from credibly.inference.one_vs_rest import OneVsRestGaussian
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import semidefinite_root

LOST = 1e-13  # posterior variance, relative to the prior one, that is nothing but rounding
CHUNK = 4_000_000  # numbers of k(X, X*) held at a time


@dataclass(frozen=True)
class FunctionPosterior:
    """The posterior of the latent function (of each class's function, for K classes).

    Attributes
    ----------
    mean : (n,) or (n, K) array
        Of the latents at the training rows; the mode for Laplace.
    var : (n,) or (n, K) array
        Their variances.
    X : (n, d) array
        Training rows.
    kernels : tuple of Kernel
        One for all classes, or one for each.
    gaussian : LatentGaussian, ClassGaussian or OneVsRestGaussian
    """

    mean: Array
    X: Array
    kernels: tuple[Kernel, ...]
    gaussian: LatentGaussian | ClassGaussian | OneVsRestGaussian

    def __repr__(self) -> str:
        return f"FunctionPosterior({self.gaussian!r}, k = {', '.join(map(repr, self.kernels))})"

    @cached_property
    def var(self) -> Array:
        """Variances of the latents at the training rows."""
        K = tuple(kernel(self.X) for kernel in self.kernels)  # not k(X, X): white noise belongs to its own row
        variance = self._scores(K, tuple(np.diag(k) for k in K)).variance
        return variance if variance.ndim == 1 else np.einsum("ncc->nc", variance).copy()

    def scores(self, X: Array) -> Scores:
        """Mean and variance of the latents at other rows: (m,), (m,); K classes: (m, K), (m, K, K)."""
        rows = max(1, CHUNK // (len(self.X) * (self.mean.shape[1] if self.mean.ndim > 1 else 1)))
        parts = [self._some_scores(X[i : i + rows]) for i in range(0, len(X), rows)]
        return Scores(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _some_scores(self, X: Array) -> Scores:
        with np.errstate(all="ignore"):  # what overflows is refused
            prior = finite(tuple(kernel.diag(X) for kernel in self.kernels))
        return self._scores(self._cross(X), prior)

    def _cross(self, X: Array) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return finite(tuple(kernel(self.X, X) for kernel in self.kernels))

    def _scores(self, cross: tuple[Array, ...], prior: tuple[Array, ...]) -> Scores:
        if isinstance(self.gaussian, LatentGaussian):
            found = self.gaussian.scores(cross[0], prior[0])
        else:
            found = self.gaussian.scores(cross, prior)
        own = found.variance if found.variance.ndim == 1 else np.einsum("mcc->cm", found.variance)
        if ((own <= LOST * np.array(prior)) & (np.array(prior) > 0)).any():
            raise InputError(
                "The kernel's variance is so large beside what the data leave of it that the posterior variance is "
                f"lost in rounding (k(x, x) is up to {np.max(prior):.1e}). Use a smaller variance, or centre the "
                "columns of a linear or polynomial kernel."
            )
        return found

    def joint(self, X: Array) -> Scores:
        """Mean (m,) or (m, K) and covariance of the latents at other rows together: (m, m), or (K·m, K·m)."""
        cross = self._cross(X)
        with np.errstate(all="ignore"):
            prior = finite(tuple(kernel(X) for kernel in self.kernels))
        if isinstance(self.gaussian, LatentGaussian):
            return self.gaussian.joint(cross[0], prior[0])
        return self.gaussian.joint(cross, prior)

    def sample(self, rng: np.random.Generator, X: Array, size: int) -> Array:
        """Draws of the function (of all K) at other rows, (size, m, 1) or (size, m, K); in each all rows share it."""
        mean, cov = self.joint(X)
        largest = max(float(kernel.diag(X).max(initial=0.0)) for kernel in self.kernels)
        root = semidefinite_root(cov, "the posterior covariance", noise=LOST * largest)
        noise = rng.standard_normal((size, root.shape[1])) @ root.T  # (size, K·m), class by class
        drawn = noise.reshape(size, -1, len(X)).transpose(0, 2, 1)
        return np.asarray(mean.reshape(len(X), -1) + drawn)


def finite(values: tuple[Array, ...]) -> tuple[Array, ...]:
    """Kernel values as they are, or an error where they overflow."""
    if not all(np.isfinite(numbers).all() for numbers in values):
        raise InputError("The kernel is not finite between these rows and those of the fit (it overflows).")
    return values
