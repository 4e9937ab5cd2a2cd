"""What the linear classifiers share: validate, encode, assemble, delegate."""

import warnings
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from credibly.data.columns import describe
from credibly.data.source import MemoryRows
from credibly.data.threads import single_threaded_blas
from credibly.errors import ConvergenceWarning, InputError, NoEvidenceError
from credibly.estimators.learning import (
    Learnt,
    Problem,
    Search,
    check_prior,
    learn,
    learn_from,
)
from credibly.estimators.probabilities import ProbabilityMixin
from credibly.estimators.summary import Summary, weight_columns
from credibly.estimators.validation import (
    Table,
    all_or_nothing,
    check_columns,
    feature_names,
    generator,
    n_threads,
    read_columns,
    read_training,
)
from credibly.inference.frame import Frame
from credibly.inference.laplace import Controls
from credibly.inference.objective import AnyLikelihood
from credibly.inference.posterior import Scores, WeightPosterior
from credibly.model.likelihoods import Categorical
from credibly.model.priors import Normal, WeightShape
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import is_sparse
from credibly.numerics.newton import Report, silent
from credibly.predictive import Predictive, predictive_of

SOFTMAX_BLOCK_ROWS = 256


def print_progress(step: int, value: float, decrement: float) -> None:
    """What `verbose` shows of every step."""
    print(f"step {step:3d}  objective {value:.10g}  squared decrement {decrement:.2e}")


def only(value: object, allowed: dict[str, Any], argument: str) -> Any:
    """The object that a short string stands for, or an error that lists the strings."""
    if isinstance(value, str) and value in allowed:
        return allowed[value]
    raise InputError(f"{argument} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")


class LinearClassifier(ProbabilityMixin, ClassifierMixin, BaseEstimator):
    """What the linear classifiers share: everything but the likelihood."""

    _multi_class: ClassVar[bool]

    def __init__(
        self,
        *,
        prior: Normal | str | None = "empirical",
        fit_intercept: bool = True,
        inference: str = "laplace",
        solver: str = "newton",
        label_noise: float = 0.0,
        tol: float = 1e-20,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.inference = inference
        self.solver = solver
        self.label_noise = label_noise
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _likelihood_for(self, n_classes: int) -> AnyLikelihood:
        """The likelihood for so many classes, or an error."""

    # --- learning ----------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the posterior of the weights.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or data frame
            Numbers only, all finite.
        y : (n,) labels
            Two or more classes.
        sample_weight : (n,) array, optional
            Multiplies each row's log-likelihood: a weight of 2 is the row twice.

        Returns
        -------
        self
        """
        with all_or_nothing(self), single_threaded_blas():
            self._check_choices()
            table = read_training(self, X, y, sample_weight)
            self._forget()
            self._first_fit(table)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the posterior with more rows: yesterday's posterior is today's prior.

        The first call is `fit`. Prior scales and the standardisation are learnt there and kept; log evidence and log
        likelihood accumulate by the chain rule.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : (K,) labels, optional
            All classes there will ever be; needed at the first call if its rows lack some.

        Returns
        -------
        self
        """
        with all_or_nothing(self), single_threaded_blas():
            self._check_choices()
            if not hasattr(self, "posterior_"):
                self._first_fit(read_training(self, X, y, sample_weight, classes=classes))
            else:
                if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
                    raise InputError(
                        f"classes={np.asarray(classes).tolist()} differ from those of the first call, "
                        f"{self.classes_.tolist()}; leave them out, or start again with fit."
                    )
                self._update(read_training(self, X, y, sample_weight, classes=self.classes_, reset=False))
        return self

    def _check_choices(self) -> None:
        check_prior(self.prior)
        only(self.inference, {"laplace": None}, "in this version, inference")
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept must be True or False; got {self.fit_intercept!r}.")
        n_threads(self.n_jobs)
        only(self.solver, {"newton": False, "sgd": True}, "solver")
        if self.label_noise != 0:
            raise InputError(f"label_noise other than 0.0 is not available in this version; got {self.label_noise!r}.")
        for argument, least in (("tol", 0.0), ("max_iter", 1)):
            value = getattr(self, argument)
            if isinstance(value, bool) or not np.isreal(value) or not value >= least:
                raise InputError(f"{argument} must be a number of at least {least}; got {value!r}.")

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") and not name.endswith("_in_")]:
            delattr(self, name)

    def _search(self) -> Search:
        report: Report = print_progress if self.verbose else silent
        stochastic = only(self.solver, {"newton": False, "sgd": True}, "solver")
        seed = int(generator(self.random_state).integers(2**31)) if stochastic else None
        return Search(Controls(self.tol, self.max_iter, report), seed)

    def _first_fit(self, table: Table) -> None:
        likelihood, names = self._likelihood_for(len(table.classes)), feature_names(self)
        rows = table.rows(likelihood, self.n_jobs)
        columns = describe(rows)
        check_columns(columns, table.X, names)
        frame = Frame.of(columns, intercept=self.fit_intercept, sparse=is_sparse(table.X))
        n_outputs = likelihood.n_classes if isinstance(likelihood, Categorical) else 1
        shape = WeightShape(table.X.shape[1], n_outputs, self.fit_intercept)
        problem = Problem(likelihood, rows.through(frame.design), rows, frame, columns, shape, names)
        learnt = learn(problem, self.prior, self._search())
        self.classes_, self.prior_ = table.classes, learnt.resolved
        self._likelihood, self._shape, self._columns = likelihood, shape, columns
        self._first_prior, self._n_rows = learnt.prior, 0
        self._log_evidence, self.log_likelihood_ = 0.0, 0.0
        if learnt.prior_scale is not None:
            self.prior_scale_ = float(learnt.prior_scale[0]) if self.prior == "empirical" else learnt.prior_scale
        self._keep(learnt, frame, table)

    def _update(self, table: Table) -> None:
        frame, names = self.posterior_.frame, feature_names(self)
        rows = table.rows(self._likelihood, self.n_jobs)
        check_columns(describe(rows), table.X, names)
        design = rows.through(frame.design)
        problem = Problem(self._likelihood, design, rows, frame, self._columns, self._shape, names)
        learnt = learn_from(problem, self.posterior_.gaussian, self.posterior_.contrast, self._search())
        self._keep(learnt, frame, table)

    def _keep(self, learnt: Learnt, frame: Frame, table: Table) -> None:
        """Turn what was learnt into fitted attributes, and a bad status into one warning."""
        result, shape = learnt.result, self._shape
        self.posterior_ = WeightPosterior(result.posterior, frame, learnt.contrast)
        self.status_, self.n_iter_ = learnt.status, result.solution.steps
        self.distance_to_mode_ = float(np.sqrt(max(result.solution.decrement, 0.0)))
        self._log_evidence += result.log_evidence
        self.log_likelihood_ += result.log_likelihood
        self._n_rows += len(table.codes) if table.weight is None else int(np.count_nonzero(table.weight))
        W = self.posterior_.mean.reshape(shape.n_outputs, -1)
        if shape.n_outputs > 1:
            W = W - W.mean(axis=0)  # a constant added to all classes changes no probability
        self.coef_ = W[:, : shape.n_features]
        self.intercept_ = W[:, -1] if shape.intercept else np.zeros(shape.n_outputs)
        if not learnt.status.good:
            warnings.warn(learnt.status.value, ConvergenceWarning, stacklevel=4)

    # --- what was learnt ---------------------------------------------------------------------------------------

    @property
    def log_evidence_(self) -> float:
        """log p(y | X), the weights integrated out; raises for a flat prior, which has none."""
        check_is_fitted(self)
        if self.prior_ is None:
            raise NoEvidenceError(
                "log_evidence_ does not exist with prior=None: a flat prior is not a distribution, so p(y | X) has no "
                'value. Use a proper prior (prior="empirical" or Normal(scale=2.5)), or compare by bic_.'
            )
        return self._log_evidence

    @property
    def occam_factor_(self) -> float:
        """What averaging over the weights costs: log_evidence_ - log_likelihood_."""
        return self.log_evidence_ - self.log_likelihood_

    @property
    def _n_identified(self) -> int:
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
        """How many weights the data determined: M - tr(S₀⁻¹ S_N)."""
        check_is_fitted(self)
        if self._first_prior is None:
            return float(self._n_identified)
        q = self.posterior_.gaussian
        kept = q.precision.half_solve(self._first_prior.precision.factor)
        return float(q.mean.size - (kept**2).sum())

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
        names = feature_names(self) + (["intercept"] if self._shape.intercept else [])
        evidence = "log evidence: none (flat prior)" if flat else f"log evidence: {self.log_evidence_:.4f}"
        return Summary(
            title=f"{type(self).__name__}: {self._n_rows} rows, classes {self.classes_.tolist()}",
            notes=[
                f"{evidence}; log likelihood: {self.log_likelihood_:.4f}; "
                f"effective parameters: {self.effective_parameters_:.2f}",
                f"lower, upper: {level:.0%} interval. {self.status_.value}",
            ],
            names=names,
            classes=None if self._shape.n_outputs == 1 else self.classes_.tolist(),
            columns=weight_columns(self.posterior_, level, tests=flat),
        )

    # --- prediction --------------------------------------------------------------------------------------------

    def predict_latent(self, X: ArrayLike) -> Scores:
        """Mean and variance of the score: (n,), (n,); K weight vectors: (n, K), (n, K, K)."""
        rows = self._design(X)
        posterior, K = self.posterior_, self._shape.n_outputs
        if K == 1:
            both = rows.map(lambda part: np.column_stack(posterior.scores(part.X)))
            return Scores(both[:, 0], both[:, 1])
        packed = rows.map(lambda part: _packed(posterior.scores(part.X)))
        return Scores(packed[:, :K], packed[:, K:].reshape(-1, K, K))

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """log p(class | x), (n, K), averaged over the posterior (at the estimate when prior is None).

        Two classes: exact to rounding, into the tails. Three to five: probabilities to about 1e-4; more: 1e-3
        (`credibly.averages.softmax` takes a smaller tolerance).
        """
        rows = self._design(X)
        posterior, predictive = self.posterior_, self._predictive()
        log_proba = predictive.plug_in if self.prior_ is None else predictive.log_proba
        return rows.map(lambda part: log_proba(posterior.scores(part.X)))

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

        Notes
        -----
        Far in a tail the averaged probability can lie above the upper limit: a mean is not a median.
        """
        return self._predictive().interval(self.predict_latent(X), level)

    def sample_proba(self, X: ArrayLike, size: int = 1, random_state: Any = None) -> Array:
        """Draws of the class probabilities, (size, n, K); in each draw all rows share their weights."""
        rows = self._design(X)
        rng = generator(self.random_state if random_state is None else random_state)
        draws = self.posterior_.frame_draws(rng, size)  # (size, K, D)
        f = rows.map(lambda part: np.asarray(part.X @ draws.reshape(-1, draws.shape[-1]).T))
        scores = np.moveaxis(f.reshape(len(f), size, -1), 0, 1)
        return self._predictive().proba(scores)

    def _predictive(self) -> Predictive:
        check_is_fitted(self)
        return predictive_of(self._likelihood)

    def _design(self, X: ArrayLike) -> MemoryRows:
        check_is_fitted(self)
        table = read_columns(self, X)
        # With K scores a row, prediction costs far more than reading: small blocks keep all threads busy.
        block_rows = None if self._shape.n_outputs == 1 else SOFTMAX_BLOCK_ROWS
        rows = MemoryRows(table, np.zeros(table.shape[0]), threads=n_threads(self.n_jobs), block_rows=block_rows)
        return rows.through(self.posterior_.frame.design)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = self._multi_class
        return tags


def _packed(scores: Scores) -> Array:
    """Means and covariances of a block of rows side by side, so that one array comes back."""
    return np.concatenate([scores.mean, scores.variance.reshape(len(scores.mean), -1)], axis=1)
