"""Gaussian process classification: validate, choose a kernel by its evidence, infer the latents, predict."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.data.threads import blas_threads
from credibly.diagnostics.inputs import generator
from credibly.errors import ConvergenceWarning, InputError, NotDefinedError
from credibly.estimators.gaussian_process_inducing import (
    POINTS_SEED,
    Induced,
    check_moving,
    check_plan,
    read_points,
    used_points,
    widest_rows,
)
from credibly.estimators.gaussian_process_plan import (
    Plan,
    check_kernel,
    check_size,
    read_kernels,
    tell_lost_digits,
)
from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.linear_base import print_progress
from credibly.estimators.validation import (
    Table,
    all_or_nothing,
    check_columns,
    check_limits,
    feature_names,
    forget_fit,
    n_threads,
    read_training,
)
from credibly.inference.function_posterior import FunctionPosterior
from credibly.inference.inducing_moves import Moves
from credibly.inference.inducing_posterior import InducingPosterior
from credibly.inference.inducing_search import Learnt, Search
from credibly.inference.kernel_evidence import Evaluated, KernelEvidence, maximise
from credibly.inference.one_vs_rest import OneVsRestLatents
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import Array
from credibly.numerics.status import Controls, Status, silent

ROUNDING = 1e-9  # of a log evidence


class EvidencePrinter:
    """What `verbose` shows of the search for hyperparameters."""

    def __init__(self) -> None:
        self._start = 0

    def __call__(self, evaluation: int, log_evidence: float, slope: float) -> None:
        """Print a line; evaluations are counted anew from every start."""
        self._start += evaluation == 0
        print(f"start {self._start}, {evaluation:3d}: log evidence {log_evidence:.8g}, largest slope {slope:.2e}")


class GaussianProcessClassifier(GaussianProcessResults):
    r"""A classifier whose score is a function with a Gaussian process prior.

    .. math:: f \sim GP(0, k), \qquad p(y_* = 1 \mid x_*) = \int σ(f_*) \, q(f_* \mid x_*) \, df_*

    The kernel's hyperparameters are those of highest evidence. Two classes by any noisy threshold; more by the joint
    softmax (Laplace), or by each class against the rest (EP, ADF).

    Parameters
    ----------
    kernel : None (default), Kernel of `credibly.kernels`, kernel of scikit-learn, or a list with one for each class
        How alike the scores of two rows are. None: a variance times an RBF with one length scale for each column,
        starting from the columns' own spreads. Others are in the units of the data.
    likelihood : "logit" (default), "probit", "cauchy", "gumbel", …, "softmax", or a noisy threshold
        As `threshold` of `NoisyThresholdClassifier`. With more than two classes the logit is the softmax; "softmax"
        gives two classes a function each, too.
    inference : "laplace" (default), "ep" or "adf"
        The Gaussian at the mode; expectation propagation, nearer to the true posterior and some three times slower;
        or a single pass over the rows in their order (which matters). With K > 2 classes EP and ADF infer each class
        against the rest, and normalise the averaged probabilities.
    label_noise : 0.0 (default), float, pair, "estimate" or Beta
        As for `BayesianLogisticRegression`; two classes. Predictions are of the true class.
    optimize : bool
        Whether hyperparameters are learnt; False keeps those of the kernel given. (For ADF by the evidence of Laplace;
        for Laplace with label noise, or another likelihood that is not log-concave, with the expected curvature.)
    n_restarts : int
        Further searches from points drawn inside the bounds (uniformly in the logarithms); the best is kept.
    inducing : None (default), int, or (m, d) array
        For many rows: latents hang together through the function's values at so many points at most (chosen among the
        rows), or at these (FITC). Time then grows as n m², memory as n m at most. Laplace for two classes, EP for two
        or more (each against the rest); log-concave likelihoods without label noise. As many points as rows: the exact
        model.
    optimize_inducing : bool
        Whether the points move, too: ten steps of L-BFGS at most, uphill in the evidence, with the hyperparameters,
        which are then searched for once more. For smooth stationary kernels and constants.
    max_n : int
        Most rows without inducing points; more are refused with the memory that they would take.
    tol : float
        Goal for the squared distance to the mode (or the fixed point of EP, 1e-18 at least), in posterior standard
        deviations.
    max_iter : int
        Most Newton steps, or sweeps of EP, at one value of the hyperparameters.
    n_jobs : int or None
        Threads of BLAS; None as many as it may.
    random_state : int, RandomState or None
        For restarts and `sample_proba`.
    verbose : bool
        Print every step.

    Attributes
    ----------
    classes_ : (K,) array
    kernel_ : Kernel, or list with one for each class
        With the hyperparameters used; ``kernel_.theta`` are their natural logarithms.
    posterior_ : FunctionPosterior, or InducingPosterior
        ``mean`` and ``var`` of the latents at the training rows, (n,) or (n, K).
    inducing_points_ : (m, d) array
        Where `inducing` is given: the points used, without those that the kernel does not tell apart from the others.
    log_evidence_ : float
        log p(y | X), the latents integrated out. Raises for one against the rest, which has none
        (``one_vs_rest_log_evidence_`` has those of its parts).
    log_evidence_gradient_ : (p,) array
        Its derivative by ``kernel_.theta`` (of the sum of the parts for one against the rest).
    log_likelihood_ : float
        log p(y | f) at the mode (Laplace) or mean of the latents.
    occam_factor_ : float
        log_evidence_ - log_likelihood_.
    effective_parameters_ : float
        How many numbers' worth the data determined.
    loo_log_proba_ : (n,) array
        log p(y_i | all other rows), without refitting: from the cavities, hyperparameters as they are.
    label_noise_, label_noise_std_ : float or (2,) array
        Flip probabilities used or learnt, and their standard deviations (0 where fixed).
    label_noise_modes_ : list of dict
        The one that was found, where it is estimated: label_noise, log_evidence.
    status_ : Status
        How the search ended, as a sentence.
    n_iter_ : int

    References
    ----------
    RW06 ch. 3 and 5.

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import GaussianProcessClassifier
    >>> x = np.linspace(-3, 3, 40)[:, None]
    >>> model = GaussianProcessClassifier().fit(x, np.where(np.abs(x[:, 0]) < 1.5, "in", "out"))
    >>> model.predict([[0.0], [2.5]])
    array(['in', 'out'], dtype='<U3')
    >>> bool(model.predict_proba([[100.0]]).max() < 0.6)  # far from the data the prior comes back
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: Any = "logit",
        inference: str = "laplace",
        label_noise: Any = 0.0,
        optimize: bool = True,
        n_restarts: int = 0,
        inducing: Any = None,
        optimize_inducing: bool = False,
        max_n: int = 10_000,
        tol: float = 1e-20,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.label_noise = label_noise
        self.optimize = optimize
        self.n_restarts = n_restarts
        self.inducing = inducing
        self.optimize_inducing = optimize_inducing
        self.max_n = max_n
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- learning ----------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the kernel and the posterior of the latent function.

        Parameters
        ----------
        X : (n, d) array or data frame
            Numbers only, all finite, not sparse.
        y : (n,) labels
            Two or more classes.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            self._check_choices()
            table = read_training(self, X, y, None, sparse=False)
            forget_fit(self)
            with blas_threads(len(table.codes) if self.inducing is None else 0, n_threads(self.n_jobs)):
                self._learn(table)
        return self

    @property
    def partial_fit(self) -> NoReturn:
        """Does not exist: asking for it raises, with the reason."""
        raise NotDefinedError(
            "GaussianProcessClassifier has no partial_fit: a function's posterior depends on all rows at once, and a "
            "new row changes every other. Fit again on all rows, or use a linear model on a basis (credibly.basis), "
            "whose posterior can be updated."
        )

    def _check_choices(self) -> None:
        check_limits(self)
        if not isinstance(self.optimize, bool | np.bool_):
            raise InputError(f"optimize must be True or False; got {self.optimize!r}.")
        if not isinstance(self.optimize_inducing, bool | np.bool_):
            raise InputError(f"optimize_inducing must be True or False; got {self.optimize_inducing!r}.")
        if self.optimize_inducing and self.inducing is None:
            raise InputError("optimize_inducing=True moves inducing points, and there are none: give inducing=.")
        restarts: Any = self.n_restarts
        if isinstance(restarts, bool) or not isinstance(restarts, int | np.integer) or restarts < 0:
            raise InputError(f"n_restarts must be a whole number of at least 0; got {self.n_restarts!r}.")

    def _learn(self, table: Table) -> None:
        n_rows = len(table.codes)
        self._plan = Plan.of(self.likelihood, self.inference, self.label_noise, len(table.classes))
        check_size(n_rows, self.max_n, self._plan, exact=self.inducing is None)
        X, names = np.array(table.X, dtype=np.float64), feature_names(self)
        columns = describe(MemoryRows(X, np.zeros(n_rows)))
        check_columns(columns, X, names)
        named = read_kernels(self.kernel, self._plan, columns, names if hasattr(self, "feature_names_in_") else None)
        kernels = tuple(kernel.resolved(names) for kernel in named)
        self._codes = table.codes
        self.classes_ = table.classes
        if self.inducing is None:
            for kernel in kernels:
                check_kernel(kernel, X)
            self._search(X, kernels)
        else:
            self._search_induced(X, kernels)
        if self.optimize:
            tell_lost_digits(max(float(kernel.diag(X).max()) for kernel in self._kernels), refuse=False)
        shown = [kernel.with_theta(learnt.theta) for kernel, learnt in zip(named, self._kernels, strict=True)]
        self.kernel_ = shown[0] if len(shown) == 1 else shown

    @property
    def _controls(self) -> Controls:
        return Controls(self.tol, self.max_iter, print_progress if self.verbose else silent)

    def _search(self, X: Array, kernels: tuple[Kernel, ...]) -> None:
        """Find the hyperparameters, or keep those given, and the latents with them."""
        evidence = self._plan.evidence(X, self._codes, kernels)
        bounds = self._bounds(evidence, kernels)
        if (bounds[:, 0] == bounds[:, 1]).all():
            at = evidence.at(evidence.start, None, self._controls)
            self._keep(at, at.result.status, _exact(at, X))
            return
        starts = self._starts(evidence, bounds, generator(self.random_state))
        progress = EvidencePrinter() if self.verbose else silent
        searched = self._plan.evidence(X, self._codes, kernels, search=True)
        at, status = maximise(searched, bounds, starts, self._controls, progress)
        if self._plan.searched_by != self.inference:
            at = evidence.at(at.theta, None, self._controls)
            status = status if at.result.status.good else at.result.status
        self._keep(at, status, _exact(at, X))

    def _bounds(self, evidence: KernelEvidence, kernels: tuple[Kernel, ...]) -> Array:
        """Of all hyperparameters, (p, 2); both the same where they are not learnt."""
        bounds = evidence.bounds.copy()
        if not self.optimize:
            n_kernel = sum(len(kernel.theta) for kernel in kernels)
            bounds[:n_kernel] = evidence.start[:n_kernel, None]
        return bounds

    def _starts(self, evidence: KernelEvidence, bounds: Array, rng: np.random.Generator) -> list[Array]:
        low, high = bounds.T
        return [evidence.start, *(rng.uniform(low, high) for _ in range(self.n_restarts))]

    def _search_induced(self, X: Array, kernels: tuple[Kernel, ...]) -> None:
        """The same with inducing points."""
        check_plan(self._plan)
        rng = generator(POINTS_SEED if self.random_state is None else self.random_state)
        points = read_points(rng, self.inducing, X)
        if self.optimize_inducing:
            check_moving(kernels)
        for kernel in kernels:
            check_kernel(kernel, widest_rows(kernel, X))
        progress = EvidencePrinter() if self.verbose else silent
        induced = Induced(self._plan, X, self._codes, kernels, n_threads(self.n_jobs))
        plain = induced.evidence(None, X[:1])
        bounds = self._bounds(plain, kernels)
        search = Search(induced.evidence, induced.begin, kernels, bounds, self._controls, progress)
        held = bool((bounds[:, 0] == bounds[:, 1]).all())
        if held:
            evidence = induced.evidence(None, points.at(kernels))
            at = evidence.at(evidence.start, None, self._controls)
            found = Learnt(at, at.result.status, evidence)
        else:
            found = search.learn(points, self._starts(plain, bounds, rng))
        if self.optimize_inducing:
            found = Moves(bounds, self._controls, progress).learn(found)
            found = found if held else search.settle(points, found)
        posterior = found.evidence.posterior(found.at)
        self.inducing_points_ = used_points(posterior, points)
        self._keep(found.at, found.status, posterior)

    def _keep(self, at: Evaluated, status: Status, posterior: FunctionPosterior | InducingPosterior) -> None:
        """Turn what was found into fitted attributes, and a bad status into one warning."""
        result = at.result
        self._theta, self._warm, self._lazy = at.theta, result.warm, dict[str, Any]()
        self._kernels, self._held = at.kernels, not self.optimize
        self.posterior_ = posterior
        self._log_evidence, self.log_likelihood_ = result.log_evidence, result.log_likelihood
        self.n_iter_ = result.steps
        self._keep_noise(self._evidence.flips(at.theta))
        if isinstance(result, OneVsRestLatents):
            self.one_vs_rest_log_evidence_ = np.array([part.log_evidence for part in result.parts])
        if status.good and self._log_evidence > ROUNDING:
            status = Status.EVIDENCE_ABOVE_ZERO
        self.status_ = status
        if not status.good:
            warnings.warn(status.value, ConvergenceWarning, stacklevel=5)

    def _keep_noise(self, flips: Array | None) -> None:
        noise = self._plan.noise
        used = flips if flips is not None else np.zeros(2) if noise is None else noise.flips
        self._likelihood = self._plan.at(flips)
        one = np.ndim(self.label_noise) == 0
        self.label_noise_ = float(used[0]) if one else used
        mode = {"label_noise": self.label_noise_, "log_evidence": self._log_evidence}
        self.label_noise_modes_ = [] if flips is None else [mode]


def _exact(at: Evaluated, X: Array) -> FunctionPosterior:
    return FunctionPosterior(at.result.mean, X, at.kernels, at.result.posterior)
