"""What a fitted Gaussian process tells: evidence, hyperparameters, probabilities, draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from credibly.data.threads import blas_threads
from credibly.diagnostics.inputs import generator
from credibly.errors import InputError, NoEvidenceError
from credibly.estimators.certificate import Certificate
from credibly.estimators.certified_function import certify_function
from credibly.estimators.exporting import ExportMixin
from credibly.estimators.gaussian_process_inducing import Induced
from credibly.estimators.gaussian_process_plan import Plan
from credibly.estimators.gaussian_process_summary import at_bounds, hyperparameter_table, log_deviations
from credibly.estimators.lazily import lazily
from credibly.estimators.probabilities import LabelNoiseMixin, ProbabilityMixin
from credibly.estimators.summary import Summary
from credibly.estimators.validation import check_draws, feature_names, n_threads, read_columns, read_training
from credibly.inference.function_posterior import FunctionPosterior
from credibly.inference.gaussian import Scores
from credibly.inference.inducing_posterior import InducingPosterior
from credibly.inference.kernel_evidence import Evaluated, KernelEvidence
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.status import Controls, Status

DOUBTFUL_GAP = 0.05  # between averaged probabilities and shares of classes


class GaussianProcessResults(ExportMixin, LabelNoiseMixin, ProbabilityMixin, ClassifierMixin, BaseEstimator):
    """Everything that can be asked after `fit`; the subclass learns."""

    label_noise: Any
    max_n: int
    tol: float
    max_iter: int
    n_jobs: int | None
    random_state: Any
    verbose: bool

    classes_: AnyArray
    posterior_: FunctionPosterior | InducingPosterior
    kernel_: Kernel | list[Kernel]
    status_: Status
    log_likelihood_: float
    _plan: Plan
    _codes: Codes
    _kernels: tuple[Kernel, ...]
    _theta: Array
    _warm: Array
    _lazy: dict[str, Any]
    _log_evidence: float
    _held: bool  # whether the hyperparameters are those given

    @property
    def _quietly(self) -> Controls:
        return Controls(self.tol, self.max_iter)

    @property
    def _evidence(self) -> KernelEvidence:
        return self._evidence_by()

    def _evidence_by(self, *, search: bool = False) -> KernelEvidence:
        """log p(y | X) as a function of hyperparameters, or the one that they are searched for by."""
        X, posterior = self.posterior_.X, self.posterior_
        if isinstance(posterior, InducingPosterior):
            induced = Induced(self._plan, X, self._codes, self._kernels, n_threads(self.n_jobs))
            return induced.evidence(None, posterior.points)
        return self._plan.evidence(X, self._codes, self._kernels, search=search)

    @property
    def _n_square(self) -> int:
        """Rows of the largest matrices that are factorised."""
        return len(getattr(self.posterior_, "points", self._codes))

    def _later(self, name: str, compute: Callable[[KernelEvidence, Evaluated], Any]) -> Any:
        """A quantity that costs n³ again and is not always asked for: found at the first request."""
        check_is_fitted(self)
        if name not in self._lazy:
            with blas_threads(self._n_square, n_threads(self.n_jobs)):
                evidence = self._evidence
                at = evidence.at(self._theta, self._warm, self._quietly)
                self._lazy[name] = compute(evidence, at)
        return self._lazy[name]

    @property
    def log_evidence_(self) -> float:
        """log p(y | X), the latents integrated out; raises for one against the rest."""
        check_is_fitted(self)
        if self._plan.one_vs_rest:
            raise NoEvidenceError(
                f"log_evidence_ does not exist for inference={self._plan.inference!r} with {self._plan.n_classes} "
                "classes: each class is inferred against the rest, which is no model of all labels together. "
                "one_vs_rest_log_evidence_ has the evidence of each part; inference='laplace' is joint."
            )
        return self._log_evidence

    @property
    def occam_factor_(self) -> float:
        """What averaging over the latents costs: log_evidence_ - log_likelihood_."""
        return self.log_evidence_ - self.log_likelihood_

    @property
    def log_evidence_gradient_(self) -> Array:
        """Derivative of the log evidence by the natural logs of the kernel's hyperparameters, (p,)."""
        gradient: Array = self._later("gradient", lambda evidence, at: evidence.gradient(at, self._quietly))
        return gradient[: sum(len(kernel.theta) for kernel in self._kernels)].copy()

    @property
    def loo_log_proba_(self) -> Array:
        """log p(y_i | all other rows), (n,), hyperparameters as they are."""
        loo: Array = self._later("loo", lambda _, at: at.result.leave_one_out())
        return loo.copy()

    @property
    def effective_parameters_(self) -> float:
        """tr(Σ W): how many numbers' worth the data determined, between zero and the number of latents."""
        return float(self._later("effective", lambda _, at: at.result.effective_parameters()))

    @property
    def label_noise_std_(self) -> float | Array:
        """Standard deviations of the flip probabilities, 0 where fixed, from the curvature of the evidence."""
        noise, std = self._plan.noise, np.zeros(2)
        check_is_fitted(self)
        if noise is not None and noise.belief is not None:
            sd = self._deviations()[-noise.belief.n_free :]
            std = np.abs(noise.belief.slope(self._theta[-noise.belief.n_free :])) @ sd
        return float(std[0]) if np.ndim(self.label_noise) == 0 else std

    def _deviations(self) -> Array:
        """Standard deviations of the logs, from the evidence by which hyperparameters are searched for."""
        check_is_fitted(self)
        if "hessian" not in self._lazy:
            with blas_threads(self._n_square, n_threads(self.n_jobs)):
                evidence = self._evidence_by(search=True)
                at = evidence.at(self._theta, None, self._quietly)
                self._lazy["hessian"] = evidence.hessian(at, self._quietly)
        return log_deviations(self._lazy["hessian"], at_bounds(self._kernels) | self._held)

    def summary(self, level: float = 0.9, *, uncertainty: bool = True) -> Summary:
        """A table of the hyperparameters: value, interval, standard deviation of the logarithm.

        Uncertainty is that of the evidence's curvature in the logarithms: two further fits for each hyperparameter,
        done once, at the first request.

        Parameters
        ----------
        level : float
            Mass of the interval.
        uncertainty : bool
            False leaves intervals and standard deviations out, and takes no time.

        Returns
        -------
        Summary
            Prints as text, shows as HTML in a notebook, and has `to_frame()`.
        """
        check_is_fitted(self)
        evidence = "none (one against the rest)" if self._plan.one_vs_rest else f"{self.log_evidence_:.4f}"
        return hyperparameter_table(
            title=f"{type(self).__name__}: {len(self._codes)} rows, classes {self.classes_.tolist()}, "
            f"{self._plan.inference}",
            kernels=self._kernels,
            columns=feature_names(self),
            classes=self.classes_.tolist(),
            deviations=self._deviations() if uncertainty else None,
            level=level,
            notes=[
                f"k = {self.kernel_!r}",
                f"log evidence: {evidence}; log likelihood: {self.log_likelihood_:.4f}; "
                f"effective parameters: {self.effective_parameters_:.2f}",
                *(self._noise_notes() if uncertainty else []),
                *self._doubts(),
                self.status_.value,
            ],
        )

    def _doubts(self) -> list[str]:
        """What makes one doubt the approximation at first sight."""
        order = ["One pass over the rows in the order given: another order gives another answer."]
        if self._plan.inference != "laplace":
            return order if self._plan.inference == "adf" else []
        proba = np.exp(self._later("trained", lambda _, at: self._plan.predictive().log_proba(at.result.marginals())))
        share = np.bincount(self._codes, minlength=len(self.classes_)) / len(self._codes)
        gap = np.abs(proba.mean(axis=0) - share)
        if gap.max() < DOUBTFUL_GAP or np.any(self.label_noise_):
            return []
        worst = len(gap) - 1 - int(gap[::-1].argmax())
        return [
            f"Averaged over the training rows P({self.classes_.tolist()[worst]!r}) is {proba[:, worst].mean():.2f}, "
            f"their share {share[worst]:.2f}: Laplace is far from the posterior. Use inference='ep' for probabilities."
        ]

    def certify(self, X: ArrayLike, y: ArrayLike, draws: int | None = None, random_state: Any = None) -> Certificate:
        """How far this posterior can be trusted, hyperparameters as they are, and its numbers corrected.

        Parameters
        ----------
        X, y
            The rows of the fit; a `DataWarning` says when they are others.
        draws : int, optional
            By default as many as it takes for a standard error of 0.015 of the log evidence, 1,024 to 32,768.
        random_state : int, Generator or None
            None takes the model's, and where that is None too, always the same draws.

        Returns
        -------
        Certificate
            Its `mean` and `std` are those of the latents at the training rows.
        """
        check_is_fitted(self)
        table = read_training(self, X, y, None, classes=self.classes_, reset=False, sparse=False)
        return certify_function(self, table, draws, random_state)

    # --- prediction --------------------------------------------------------------------------------------------

    def _rows(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        return np.asarray(read_columns(self, X, sparse=False), dtype=np.float64)

    @lazily
    def predict_latent(self, X: ArrayLike) -> Scores:
        """Mean and variance of the latent function: (n,), (n,); K functions: (n, K), (n, K, K)."""
        rows = self._rows(X)
        with blas_threads(self._n_square, n_threads(self.n_jobs)):
            return self.posterior_.scores(rows)

    @lazily
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K), averaged over the posterior.

        Two classes: exact to rounding for the Gaussian q, into the tails. Joint softmax, three to five classes:
        probabilities to about 1e-4 (mostly 1e-6); more: 1e-3.
        """
        scores = self.predict_latent(X)
        return self._plan.predictive().log_proba(scores)

    @lazily
    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> Array:
        """Equal-tailed credible interval of the probability.

        Parameters
        ----------
        X : (n, d) array or frame
        level : float
            Mass of the interval.

        Returns
        -------
        (n, 2) array for P(classes_[1]) of two classes, (n, K, 2) for K.
        """
        scores = self.predict_latent(X)
        return self._plan.predictive().interval(scores, level)

    def sample_proba(self, X: ArrayLike, size: int = 1, random_state: Any = None) -> Array:
        """Draws of the class probabilities, (size, n, K); in each draw all rows share one function."""
        rows, size = self._rows(X), check_draws(size)
        limit = max(int(self.max_n), self._n_square)
        n_values = len(rows) * self._plan.n_functions
        if n_values > limit:
            raise InputError(
                f"sample_proba draws {n_values} latents together ({len(rows)} rows × {self._plan.n_functions} "
                f"functions); the limit is max_n={limit}. Draw for fewer rows at a time (rows of different calls are "
                "then drawn independently of each other)."
            )
        rng = generator(self.random_state if random_state is None else random_state)
        with blas_threads(max(n_values, self._n_square), n_threads(self.n_jobs)):
            return self._plan.predictive().proba(self.posterior_.sample(rng, rows, size))
