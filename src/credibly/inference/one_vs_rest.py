"""K classes by K binary problems, each class against all others: for EP and ADF, which have no joint form here.

The K posteriors are independent of each other, and so there is no evidence of the labels as a whole: `log_evidence`
is the sum of the K binary ones, which a kernel that all classes share is chosen by, and nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from credibly.inference.ep import SiteLatents
from credibly.inference.gaussian import Scores
from credibly.inference.latent import LatentGaussian
from credibly.inference.latent_laplace import Latents
from credibly.inference.latent_softmax import of_class
from credibly.model.likelihoods import Likelihood
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.special import log_softmax
from credibly.numerics.status import Status


@dataclass(frozen=True)
class OneVsRestGaussian:
    """Independent Gaussians over the latents of each class."""

    parts: tuple[LatentGaussian, ...]

    def __repr__(self) -> str:
        return f"OneVsRestGaussian(n={self.parts[0].a.size}, C={len(self.parts)})"

    def scores(self, cross: tuple[Array, ...], prior: tuple[Array, ...]) -> Scores:
        """Mean (m, C) and covariance (m, C, C), which is diagonal; arguments as for `ClassGaussian.scores`."""
        return _side_by_side([q.scores(of_class(cross, c), of_class(prior, c)) for c, q in enumerate(self.parts)])

    def joint(self, cross: tuple[Array, ...], prior: tuple[Array, ...]) -> Scores:
        """Mean (m, C) and covariance (C·m, C·m), class by class."""
        each = [q.joint(of_class(cross, c), of_class(prior, c)) for c, q in enumerate(self.parts)]
        m = len(each[0].mean)
        cov = np.zeros((len(each) * m, len(each) * m))
        for c, score in enumerate(each):
            cov[c * m : (c + 1) * m, c * m : (c + 1) * m] = score.variance
        return Scores(np.column_stack([score.mean for score in each]), cov)


@dataclass(frozen=True)
class OneVsRestLatents:
    """Binary results for each class against the rest."""

    parts: tuple[SiteLatents, ...]
    y: Codes
    shared: bool  # whether all classes have the same kernel

    @property
    def posterior(self) -> OneVsRestGaussian:
        """q(f), class by class."""
        return OneVsRestGaussian(tuple(part.posterior for part in self.parts))

    @property
    def mean(self) -> Array:
        """Posterior means of the latents, (n, C)."""
        return np.column_stack([part.mean for part in self.parts])

    @property
    def status(self) -> Status:
        """That of the class that went worst."""
        return next((part.status for part in self.parts if not part.status.good), self.parts[0].status)

    @property
    def steps(self) -> int:
        """Sweeps of the class that took most."""
        return max(part.steps for part in self.parts)

    @property
    def warm(self) -> Array:
        """Where a search with a similar kernel may start."""
        return np.stack([part.warm for part in self.parts])

    @property
    def log_likelihood(self) -> float:
        """Normalised log p(y | f) at the posterior means."""
        likelihood = self.parts[0].problem.likelihood
        return float(_own(log_softmax(likelihood.log_prob(np.array(1.0), self.mean)), self.y).sum())

    @property
    def log_evidence(self) -> float:
        """The sum of the binary log evidences."""
        return float(sum(part.log_evidence for part in self.parts))

    def gradient_matrices(self) -> list[Array]:
        """As for `SoftmaxLatents`: one for each class, or their sum where the kernel is shared."""
        matrices = [part.gradient_matrices()[0] for part in self.parts]
        return [sum(matrices[1:], start=matrices[0])] if self.shared else matrices

    def leave_one_out(self) -> Array:
        """log p(y_i | other rows), (n,), from the cavities of all classes, normalised."""
        one = np.array(1.0)
        log_proba = []
        for part in self.parts:
            cavity = part.cavities()
            log_proba.append(part.problem.likelihood.log_average(one, cavity.mean, 1.0 / cavity.tau))
        return _own(log_softmax(np.column_stack(log_proba)), self.y)

    def marginals(self) -> Scores:
        """Means (n, C) and covariances (n, C, C), which are diagonal, of the latents at the training rows."""
        return _side_by_side([part.marginals() for part in self.parts])

    def effective_parameters(self) -> float:
        """The sum over the classes."""
        return sum(part.effective_parameters() for part in self.parts)


def _side_by_side(each: list[Scores]) -> Scores:
    """Scores of independent classes as one."""
    variance = np.zeros((len(each[0].mean), len(each), len(each)))
    for c, score in enumerate(each):
        variance[:, c, c] = score.variance
    return Scores(np.column_stack([score.mean for score in each]), variance)


def _own(log_proba: Array, y: Codes) -> Array:
    return np.asarray(np.take_along_axis(log_proba, y[:, None], axis=1)[:, 0])


def one_vs_rest(
    infer: Callable[[Latents, Array | None], SiteLatents],
    kernels: tuple[Array, ...],
    y: Codes,
    likelihood: Likelihood,
    start: Array | None = None,
) -> OneVsRestLatents:
    """Infer every class against all others.

    Parameters
    ----------
    infer : function of (problem, start)
        EP or ADF.
    kernels : tuple of (n, n) arrays
        One for all classes, or one for each.
    y : (n,) class codes
    likelihood : Likelihood
        Of "this class" against "another".
    start : (C, 2, n) array, optional
    """
    parts = [
        infer(Latents(of_class(kernels, c), (y == c).astype(float), likelihood), None if start is None else start[c])
        for c in range(int(y.max()) + 1)
    ]
    return OneVsRestLatents(tuple(parts), y, len(kernels) == 1)
