"""What all models linear in their columns share: assemble, learn, keep, and tell what was learnt."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import MemoryRows
from credibly.diagnostics.inputs import generator
from credibly.errors import ConvergenceWarning, InputError, NoEvidenceError
from credibly.estimators.drift import Drift
from credibly.estimators.exporting import ExportMixin
from credibly.estimators.lazily import lazily
from credibly.estimators.learning import check_prior
from credibly.estimators.problem import Learnt, PriorChoice, Problem, Search, posterior_of
from credibly.estimators.stored import AnyTraining
from credibly.estimators.summary import Summary, weight_columns
from credibly.estimators.validation import (
    Training,
    check_limits,
    feature_names,
    forget_fit,
    n_threads,
    read_columns,
)
from credibly.estimators.wide_learning import grown, in_coordinates
from credibly.inference.drawn_posterior import DrawnPosterior
from credibly.inference.frame import Frame
from credibly.inference.label_noise import FlipBelief
from credibly.inference.laplace import Controls
from credibly.inference.posterior import Gaussian, Scores, WeightPosterior
from credibly.inference.prior_density import PriorDensity
from credibly.inference.row_space import RowSpace, RowSpacePosterior
from credibly.inference.wide import WideGaussian
from credibly.model.likelihoods.kinds import AnyLikelihood, n_outputs
from credibly.model.priors import Jeffreys, Normal, StudentT, WeightShape
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.settings import ManyWeights
from credibly.numerics.status import Report, Status, silent

SOFTMAX_BLOCK_ROWS = 256
DRAWN_SCORES = 1_000_000  # held at a time, in predictions by weighted draws


def print_progress(step: int, value: float, decrement: float) -> None:
    """What `verbose` shows of every step."""
    print(f"step {step:3d}  objective {value:.10g}  squared decrement {decrement:.2e}")


def only(value: object, allowed: dict[str, Any], argument: str) -> Any:
    """The object that a short string stands for, or an error that lists the strings."""
    if isinstance(value, str) and value in allowed:
        return allowed[value]
    raise InputError(f"{argument} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")


class LinearModel(ExportMixin, BaseEstimator):
    """From clean rows to fitted attributes; subclasses read what a user gives and choose the likelihood."""

    _many_weights: ClassVar[ManyWeights] = ManyWeights()

    prior: PriorChoice
    fit_intercept: bool
    tol: float
    max_iter: int
    n_jobs: int | None
    random_state: Any
    verbose: bool

    def _check_shared_choices(self) -> None:
        check_prior(self.prior)
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept must be True or False; got {self.fit_intercept!r}.")
        check_limits(self)

    def _forget(self) -> None:
        forget_fit(self)

    def _search(self, *, stochastic: bool = False) -> Search:
        report: Report = print_progress if self.verbose else silent
        seed = int(generator(self.random_state).integers(2**31)) if stochastic else None
        return Search(Controls(self.tol, self.max_iter, report), seed)

    def _problem(self, likelihood: AnyLikelihood, training: AnyTraining) -> Problem:
        """The problem of a first fit: columns are described, and the frame is set."""
        rows, names = training.rows(self.n_jobs), feature_names(self)
        columns = training.described(rows, names)
        frame = Frame.of(columns, intercept=self.fit_intercept, sparse=training.sparse)
        shape = WeightShape(training.n_features, n_outputs(likelihood), self.fit_intercept)
        design, limits = rows.through(frame.design), self._many_weights
        return Problem(likelihood, design, rows, frame, columns, shape, names, limits=limits)

    def _next_problem(self, training: AnyTraining) -> Problem:
        """The problem of an update: the frame of the first fit stays."""
        frame, names, rows = self.posterior_.frame, feature_names(self), training.rows(self.n_jobs)
        training.described(rows, names)
        design, limits = rows.through(frame.design), self._many_weights
        problem = Problem(self._likelihood, design, rows, frame, self._columns, self._shape, names, limits=limits)
        return in_coordinates(problem, frame) if isinstance(frame, RowSpace) else problem

    def _make_room(self, training: AnyTraining) -> None:
        """Before an update: a posterior in the space of the rows so far, in that of the new ones, too."""
        before = self.posterior_.frame
        if not isinstance(before, RowSpace):
            return
        frame = grown(before, training.rows(self.n_jobs), self._shape.n_outputs, self._many_weights)
        gaussian, contrast = frame.embed(self.posterior_.gaussian, before), self.posterior_.contrast
        self.posterior_ = RowSpacePosterior(gaussian, frame, contrast)
        if isinstance(self._first_prior, Gaussian):
            self._first_prior = frame.embed(self._first_prior, before)
        if self._drift is not None:
            self._drift = self._drift._replace(pull=frame.embed_vector(self._drift.pull, before))

    def _start_keeping(self, problem: Problem, learnt: Learnt) -> None:
        """What a first fit decides for good."""
        self.prior_ = learnt.resolved
        self._likelihood = problem.likelihood if learnt.likelihood is None else learnt.likelihood
        self._shape, self._columns = problem.shape, problem.columns
        self._first_prior, self._n_rows, self._drift, self._joint = learnt.prior, 0, None, None
        self._log_evidence, self.log_likelihood_ = 0.0, 0.0
        if learnt.prior_scale is not None:
            one = self.prior == "empirical" and learnt.prior_scale.size == 1
            self.prior_scale_ = float(learnt.prior_scale[0]) if one else learnt.prior_scale

    def _keep(self, learnt: Learnt, frame: Frame, training: AnyTraining) -> None:
        """Turn what was learnt into fitted attributes, and a bad status into one warning."""
        result = learnt.result
        self.posterior_ = posterior_of(learnt, frame)
        self.status_, self.n_iter_ = learnt.status, result.solution.steps
        self.distance_to_mode_ = float(np.sqrt(max(result.solution.decrement, 0.0)))
        self._log_evidence += result.log_evidence
        self.log_likelihood_ += result.log_likelihood
        # One fit's rows serve tests and robust covariances; after an update they would be those of the last part only.
        self._training = training if self._n_rows == 0 and isinstance(training, Training) else None
        self._fingerprint = result.log_likelihood if self._n_rows == 0 else None
        self._n_rows += training.n_counted
        if not learnt.status.good:
            warnings.warn(learnt.status.value, ConvergenceWarning, stacklevel=4)

    def _watch_drift(self) -> bool:
        """Before an update: what the quadratic of the first rows lacks; unknown where a saved model has lost those."""
        training: Training | None = getattr(self, "_training", None)
        # Without a prior there may be contrasts only, and no density.
        if training is not None and self._first_prior is not None:
            first = self._next_problem(training)
            self._drift = Drift.of(first, self._first_prior, self.posterior_.gaussian)
        self.drift_ = np.nan if self._drift is None else self._drift.estimate
        return self._drift is not None

    def _tell_drift(self, problem: Problem, before: Gaussian) -> None:
        """After an update: how far the posterior may be from that of one fit to all rows."""
        assert self._drift is not None
        self._drift = self._drift.after(problem, before, self.posterior_.gaussian)
        self.drift_ = self._drift.estimate
        self._drift.tell()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_training", None)  # a saved model holds no rows
        return state

    # --- what was learnt ---------------------------------------------------------------------------------------

    classes_: AnyArray  # of classifiers
    posterior_: WeightPosterior | DrawnPosterior
    drift_: float  # after partial_fit
    _drift: Drift | None
    _first_prior: PriorDensity | None  # in the frame
    _joint: tuple[FlipBelief, Gaussian] | None  # weights and label noise together, where that is estimated
    status_: Status
    prior_: Normal | StudentT | Jeffreys | None

    @property
    def log_evidence_(self) -> float:
        """log p(y | X), the weights integrated out; raises for a flat prior, which has none."""
        check_is_fitted(self)
        if self.prior_ is None or isinstance(self.prior_, Jeffreys):
            which = "prior=None: a flat prior is not" if self.prior_ is None else "prior=Jeffreys(): it need not be"
            raise NoEvidenceError(
                f"log_evidence_ does not exist with {which} a distribution, so p(y | X) has no value. Use a proper "
                'prior (prior="empirical" or Normal(scale=2.5)), or compare by bic_.'
            )
        return self._log_evidence

    @property
    def occam_factor_(self) -> float:
        """What averaging over the weights costs: log_evidence_ - log_likelihood_."""
        return self.log_evidence_ - self.log_likelihood_

    @property
    def _n_identified(self) -> int:
        """How many parameters a likelihood can tell: what AIC and BIC count."""
        return max(1, self._shape.n_outputs - 1) * self._shape.per_output

    @property
    def bic_(self) -> float:
        """-2 log L + m ln n at the returned estimate, as R and statsmodels; smaller is better."""
        check_is_fitted(self)
        return float(-2 * self.log_likelihood_ + self._n_identified * np.log(self._n_rows))

    @property
    def aic_(self) -> float:
        """-2 log L + 2 m at the returned estimate; smaller is better."""
        check_is_fitted(self)
        return float(-2 * self.log_likelihood_ + 2 * self._n_identified)

    @property
    def effective_parameters_(self) -> float:
        """How many weights the data determined: M - tr(S₀⁻¹ S_N), with a Student-t prior's curvature at the mode."""
        check_is_fitted(self)
        prior, q = self._first_prior, self.posterior_.gaussian
        if isinstance(q, WideGaussian):
            return q.effective_parameters
        if prior is None:
            return float(max(1, self._shape.n_outputs - 1) * self._shape.per_output)
        plus, minus = (q.precision.half_solve(np.asfortranarray(root)) for root in prior.roots(q.mean))
        return float(q.mean.size - (plus**2).sum() + (minus**2).sum())

    @property
    def loo_log_proba_(self) -> Array:
        """log p(y_i | all other rows), (n,), on the rows of the fit; prior scales and dispersion as they are.

        By Laplace cavities, without fitting again. NaN for a row without which the others give no Gaussian. A weight of
        2 is the row twice: both are left out and predicted together.
        """
        from credibly.estimators.leave_one_out import left_out

        return left_out(self)

    def _weight_names(self) -> list[str]:
        return feature_names(self) + (["intercept"] if self._shape.intercept else [])

    def summary(self, level: float = 0.9) -> Summary:
        """A table of the weights: mode, sd, credible interval, probability of being positive.

        Parameters
        ----------
        level : float
            Mass of the interval.

        Returns
        -------
        Summary
            Prints as text, shows as HTML in a notebook, and has `to_frame()`.
        """
        check_is_fitted(self)
        flat = self.prior_ is None
        none = "none (flat prior)" if flat else "none (Jeffreys prior)"
        evidence = none if flat or isinstance(self.prior_, Jeffreys) else f"{self.log_evidence_:.4f}"
        return Summary(
            title=f"{type(self).__name__}: {self._n_rows} rows, {self._what()}",
            columns=weight_columns(self.posterior_, level, self._test_errors() if flat else None),
            notes=[
                f"log evidence: {evidence}; log likelihood: {self.log_likelihood_:.4f}; "
                f"effective parameters: {self.effective_parameters_:.2f}",
                *self._notes(),
                f"lower, upper: {level:.0%} interval. {self.status_.value}",
            ],
            names=self._weight_names(),
            classes=None if self._shape.n_outputs == 1 else self._outputs(),
        )

    def _advice(self) -> str:
        """What to do where the posterior is not to be trusted."""
        return "use a tighter prior, fewer columns, or more rows"

    def _test_errors(self) -> Array:
        """Standard errors for z and p, where there is no prior."""
        return self.posterior_.std

    @abstractmethod
    def _what(self) -> str:
        """What the title of a summary says of the model."""

    def _notes(self) -> list[str]:
        """More lines under a summary."""
        return []

    def _outputs(self) -> list[Any]:
        """Names of the weight vectors where there are several: one for each class."""
        return list(self.classes_.tolist())

    # --- prediction --------------------------------------------------------------------------------------------

    @lazily
    def predict_latent(self, X: ArrayLike) -> Scores:
        """Mean and variance of the score: (n,), (n,); K weight vectors: (n, K), (n, K, K)."""
        rows = self._design(X)
        posterior, K = self.posterior_, self._shape.n_outputs
        if K == 1:
            both = rows.map(lambda part: np.column_stack(posterior.scores(part.X)))
            return Scores(both[:, 0], both[:, 1])
        packed = rows.map(lambda part: _packed(posterior.scores(part.X)))
        return Scores(packed[:, :K], packed[:, K:].reshape(-1, K, K))

    def _design(self, X: ArrayLike, frame: Frame | None = None) -> MemoryRows:
        """Rows of the design, in the frame of the posterior or in another one."""
        check_is_fitted(self)
        table = read_columns(self, X)
        # With K scores a row, prediction costs far more than reading: small blocks keep all threads busy.
        block_rows = None if self._shape.n_outputs == 1 else SOFTMAX_BLOCK_ROWS
        if isinstance(self.posterior_, DrawnPosterior):  # one score for each draw
            block_rows = max(1, DRAWN_SCORES // (self._shape.n_outputs * len(self.posterior_.free.x)))
        rows = MemoryRows(table, np.zeros(table.shape[0]), threads=n_threads(self.n_jobs), block_rows=block_rows)
        return rows.through((self.posterior_.frame if frame is None else frame).design)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _packed(scores: Scores) -> Array:
    """Means and covariances of a block of rows side by side, so that one array comes back."""
    return np.concatenate([scores.mean, scores.variance.reshape(len(scores.mean), -1)], axis=1)
