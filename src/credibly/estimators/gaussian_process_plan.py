"""From a user's choices to a posterior of latents: which likelihood, which inference, which kernel to start from."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from credibly.data.columns import Columns
from credibly.data.memory import refuse_beyond_memory
from credibly.errors import DataWarning, InputError
from credibly.estimators.linear_base import only
from credibly.estimators.noise import NoiseChoice, read_noise
from credibly.estimators.sklearn_kernels import as_kernel
from credibly.inference.ep import SiteLatents, assumed_density_filtering, expectation_propagation
from credibly.inference.kernel_evidence import Inferred, KernelEvidence
from credibly.inference.latent_laplace import Latents, laplace_latents
from credibly.inference.latent_softmax import ClassLatents, softmax_latents
from credibly.inference.one_vs_rest import one_vs_rest
from credibly.model.kernels import RBF, Constant, Kernel, Periodic
from credibly.model.likelihoods import BernoulliLogit, Categorical, Likelihood, threshold_likelihood
from credibly.model.likelihoods.choices import LINKS, THRESHOLDS
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.status import Controls
from credibly.predictive import OneVsRestPredictive, Predictive, predictive_of

INFERENCES = {"laplace": laplace_latents, "ep": expectation_propagation, "adf": assumed_density_filtering}
EXPECTED = "laplace with expected curvature"
START_VARIANCE = 4.0
LENGTH_BOUNDS = (1e-2, 1e4)  # in standard deviations of the column
ARRAYS = 6  # of n × n numbers held at the peak, for two classes
# Squared distances to the mode, or the fixed point, while hyperparameters move. Laplace's evidence is then good to
# 1e-8, EP's to 1e-12 (it is stationary in the sites), slopes to 1e-8 and 1e-6.
LAPLACE_SEARCH_TOL, EP_SEARCH_TOL = 1e-16, 1e-12
NOT_SYMMETRIC = 1e-8
LOST_DIGITS, DOUBTFUL_DIGITS = 1e-3, 1e-6  # errors of latents, which are numbers of order one
NOT_DEFINITE = 1e-8  # eigenvalue below zero, relative to the largest: more than rounding


@dataclass(frozen=True)
class Plan:
    """What is inferred, and how; small, and saved with the model."""

    likelihood: Likelihood | Categorical
    inference: str
    n_classes: int
    noise: NoiseChoice | None

    @classmethod
    def of(cls, likelihood: Any, inference: str, label_noise: Any, n_classes: int) -> "Plan":
        """Check that the choices go together."""
        only(inference, INFERENCES, "inference")
        chosen = _likelihood(likelihood, inference, n_classes)
        softmax = n_classes > 2 or isinstance(chosen, Categorical)
        noise = read_noise(label_noise, softmax=softmax)
        if noise is not None and softmax:
            raise InputError(
                "label_noise of a Gaussian process is for two classes (and not for the softmax). For more classes use "
                "BayesianLogisticRegression(label_noise=...), or fit one class against the rest."
            )
        return cls(chosen, inference, n_classes, noise)

    @property
    def joint(self) -> bool:
        """Whether all classes are inferred together by the softmax."""
        return isinstance(self.likelihood, Categorical)

    @property
    def one_vs_rest(self) -> bool:
        """Whether each class is inferred against the rest."""
        return self.n_classes > 2 and not self.joint

    @property
    def n_functions(self) -> int:
        """How many latent functions there are: one, or one for each class."""
        return self.n_classes if self.joint or self.one_vs_rest else 1

    @property
    def searched_by(self) -> str:
        """Whose evidence hyperparameters are searched for by.

        A single pass of ADF has none that is smooth and cheap. That of Laplace has poles where the likelihood is not
        log-concave: a mode that is about to vanish is flat, and flat modes seem to have much mass. With the expected
        curvature there are none.
        """
        if self.inference == "ep" or self.one_vs_rest:
            return "ep"
        concave = isinstance(self.likelihood, Categorical) or (self.noise is None and self.likelihood.log_concave)
        return "laplace" if concave else EXPECTED

    def predictive(self) -> Predictive:
        """The road to probabilities of the true class."""
        if self.one_vs_rest and isinstance(self.likelihood, Likelihood):
            return OneVsRestPredictive(self.likelihood)
        return predictive_of(self.likelihood)

    def at(self, flips: Array | None) -> Likelihood | Categorical:
        """The likelihood of recorded labels, with these flip probabilities or the fixed ones."""
        if self.noise is None or isinstance(self.likelihood, Categorical):
            return self.likelihood
        return LabelNoise(self.likelihood, *(self.noise.flips if flips is None else flips).tolist())

    def evidence(self, X: Array, y: Codes, kernels: tuple[Kernel, ...], *, search: bool = False) -> KernelEvidence:
        """log p(y | X) as a function of hyperparameters, or the one that they are searched for by."""
        if search and self.searched_by != self.inference:
            return Plan(self.likelihood, self.searched_by, self.n_classes, self.noise).evidence(X, y, kernels)
        belief = None if self.noise is None else self.noise.belief
        return KernelEvidence(
            X,
            kernels,
            partial(self._infer, y),
            belief,
            differences=self.inference == "adf",
            search_tol=EP_SEARCH_TOL if self.inference == "ep" else LAPLACE_SEARCH_TOL,
        )

    def _infer(
        self, y: Codes, kernels: tuple[Array, ...], flips: Array | None, start: Array | None, controls: Controls
    ) -> Inferred:
        likelihood = self.at(flips)
        if isinstance(likelihood, Categorical):
            return softmax_latents(ClassLatents(kernels, y, likelihood), start, controls)
        if self.one_vs_rest:
            return one_vs_rest(partial(self._sites, controls), kernels, y, likelihood, start)
        problem = Latents(kernels[0], y.astype(float), likelihood, expected=self.inference == EXPECTED)
        if self.inference in {"laplace", EXPECTED}:
            return laplace_latents(problem, start, controls)
        return self._sites(controls, problem, start)

    def _sites(self, controls: Controls, problem: Latents, start: Array | None) -> SiteLatents:
        infer = expectation_propagation if self.inference == "ep" else assumed_density_filtering
        return infer(problem, start, controls)


def _likelihood(choice: Any, inference: str, n_classes: int) -> Likelihood | Categorical:
    if isinstance(choice, str) and choice == "softmax":
        if inference != "laplace":
            raise InputError(
                f"likelihood='softmax' is inferred by inference='laplace'; got {inference!r}. With likelihood='logit' "
                "EP and ADF take each class against the rest."
            )
        return Categorical(n_classes)
    if isinstance(choice, str) and choice not in {*THRESHOLDS, *LINKS}:
        known = ", ".join(map(repr, [*LINKS, *THRESHOLDS, "softmax"]))
        raise InputError(f"likelihood must be one of {known}, or a noisy threshold; got {choice!r}.")
    likelihood = threshold_likelihood(choice)
    if n_classes > 2 and inference == "laplace":
        if isinstance(likelihood, BernoulliLogit):
            return Categorical(n_classes)
        raise InputError(
            f"likelihood={choice!r} is for two classes; {n_classes} were found. For more use likelihood='logit' (the "
            "joint softmax), or inference='ep', which takes each class against the rest."
        )
    return likelihood


# --- kernels -----------------------------------------------------------------------------------------------------


def default_kernel(columns: Columns, names: Sequence[str] | None = None) -> Kernel:
    """Constant × RBF with a length scale for each column, starting from the columns' own spreads.

    A column that is constant says nothing, and is not looked at.
    """
    variance = Constant(START_VARIANCE)
    used = np.flatnonzero(~columns.constant)
    if not used.size:
        return variance
    spread = columns.scale[used]
    bounds = tuple((LENGTH_BOUNDS[0] * s, LENGTH_BOUNDS[1] * s) for s in spread.tolist())
    every = used.size == len(columns.scale)
    chosen: list[int | str] = [int(j) if names is None else names[int(j)] for j in used]
    return variance * RBF(
        tuple(spread * np.sqrt(used.size)), columns=None if every else chosen, length_scale_bounds=bounds
    )


def read_kernels(choice: Any, plan: Plan, columns: Columns, names: Sequence[str] | None) -> tuple[Kernel, ...]:
    """`kernel=` as a tuple: one kernel for all classes, or one for each; columns by name where the user named them."""
    if choice is None:
        return (default_kernel(columns, names),)
    if not isinstance(choice, list | tuple):
        return (translated(choice, columns),)
    if len(choice) != plan.n_functions or plan.n_functions == 1:
        raise InputError(
            f"kernel is a list of {len(choice)}; this model has {plan.n_functions} latent function(s) and takes one"
            + (f" kernel, or a list of {plan.n_functions}, one for each class." if plan.n_functions > 1 else " kernel.")
        )
    return tuple(translated(each, columns) for each in choice)


def translated(choice: Any, columns: Columns) -> Kernel:
    """A kernel of ours, or one of scikit-learn translated."""
    kernel = as_kernel(choice)
    periodic = any(isinstance(leaf, Periodic) for leaf in kernel.leaves)
    if periodic and kernel is not choice and len(columns.scale) > 1:
        raise InputError(
            "scikit-learn's ExpSineSquared is no covariance in several columns. Use credibly.kernels.Periodic, with "
            "columns=[…] for the one that repeats (in several columns it is a product over them)."
        )
    return kernel


def check_kernel(kernel: Kernel, X: Array) -> None:
    """Refuse a kernel that gives no covariance on these rows; our own ones only where they overflow."""
    with np.errstate(all="ignore"):  # what overflows is refused below
        K = kernel(X)
    if not isinstance(K, np.ndarray):
        raise InputError(f"The kernel {kernel!r} must return a NumPy array; got {type(K).__name__}.")
    if np.shape(K) != (len(X), len(X)):
        raise InputError(f"The kernel {kernel!r} gave an array of shape {np.shape(K)} for {len(X)} rows.")
    if not np.isfinite(K).all():
        raise InputError(
            f"The kernel {kernel!r} is not finite on these rows (it overflows): scale the columns, or use other "
            "hyperparameters."
        )
    size = float(np.abs(K).max(initial=0.0))
    tell_lost_digits(size, refuse=True)
    if kernel.positive_definite:
        return
    if not np.abs(K - K.T).max() <= NOT_SYMMETRIC * size:
        raise InputError(f"The kernel {kernel!r} is not symmetric: k(x, z) differs from k(z, x).")
    least = float(np.linalg.eigvalsh(K)[0])
    if least < -NOT_DEFINITE * size * len(X):
        raise InputError(
            f"The kernel {kernel!r} is not positive semi-definite on these rows (smallest eigenvalue {least:.2g}), so "
            "it is no covariance. Use one of credibly.kernels, or sums and products of them."
        )


def tell_lost_digits(size: float, *, refuse: bool) -> None:
    """Warn where rounding of kernel values shows in the evidence; refuse, before work starts, where it says nothing.

    What counts are differences of order one between latents whose prior covariances are of this size.
    """
    error = float(np.finfo(float).eps * size)
    advice = (
        f"Kernel values reach {size:.1e}, so latents and log evidence are known to about {error:.0e} only. Centre and "
        "scale the columns of a linear or polynomial kernel (StandardScaler), or use a smaller variance."
    )
    if error > LOST_DIGITS and refuse:
        raise InputError(advice)
    if error > DOUBTFUL_DIGITS:
        warnings.warn(advice, DataWarning, stacklevel=5)


def gigabytes(n_rows: int, n_functions: int) -> float:
    """What a fit takes at its peak."""
    arrays = ARRAYS if n_functions == 1 else 3 * n_functions + 3
    return arrays * n_rows**2 * 8 / 1e9


def check_size(n_rows: int, max_n: Any, plan: Plan, *, exact: bool = True) -> None:
    """Refuse what would not fit, before work starts; with inducing points every number of rows does."""
    if isinstance(max_n, bool) or not isinstance(max_n, int | np.integer) or max_n < 1:
        raise InputError(f"max_n must be a whole number of rows; got {max_n!r}.")
    if exact and n_rows > max_n:
        raise InputError(
            f"A Gaussian process holds n × n matrices: {n_rows} rows would take about "
            f"{gigabytes(n_rows, plan.n_functions):.1f} GB and time that grows as n³; the limit is max_n={max_n}. "
            "Use inducing points (inducing=500), a random subset of the rows, a linear model on a basis "
            "(credibly.basis.GaussianBasis with BayesianLogisticRegression), or raise max_n if the machine has the "
            "memory."
        )
    if exact:
        advice = (
            "Use inducing points (inducing=500), a random subset of the rows, or a linear model on a basis "
            "(credibly.basis.GaussianBasis with BayesianLogisticRegression)."
        )
        least = gigabytes(n_rows, plan.n_functions) / 2  # without a search for hyperparameters
        refuse_beyond_memory(least * 1e9 / 8, f"a Gaussian process of {n_rows:,} rows", advice)
