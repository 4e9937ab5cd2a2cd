"""Least squares on coded labels: the oldest linear classifier, kept for comparison."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import OutOfCoreRows
from credibly.data.threads import single_threaded_blas
from credibly.errors import CollinearityError, InputError, NotDefinedError
from credibly.estimators.dispersion import dispersion_found, learn_glm, least_norm
from credibly.estimators.lazily import lazily
from credibly.estimators.linear_model import LinearModel
from credibly.estimators.not_in_memory import ScoreMixin, is_stored, refuse_resume
from credibly.estimators.problem import Learnt, PriorChoice, Problem, Search
from credibly.estimators.stored import AnyTable, AnyTraining, read_stored, stored_rows, with_references
from credibly.estimators.validation import all_or_nothing, read_training
from credibly.estimators.wide_learning import refuse_large
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.inference.prior_density import PriorDensity
from credibly.inference.student import IndependentStudent
from credibly.model.likelihoods.families import Gaussian as Normally
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Identity
from credibly.model.priors import Jeffreys, Normal, StudentT, WeightShape
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import PSD

STACKED_ARRAYS = 2  # of all pairs of the weights of all classes, at the least


class LeastSquaresClassifier(ScoreMixin, ClassifierMixin, LinearModel):
    r"""Regress labels coded as numbers on the columns, and predict by the sign.

    .. math:: t_n = w^T x_n + b + ε_n, \qquad ε_n \sim N(0, s), \qquad t_n = ± \mathrm{targets}

    Two classes are coded -1 and +1, more by one regression each (+1 for the class, -1 for the others). It may
    fail on classes that a line separates, because points far on the right side count as errors; logistic regression
    does not. A line is no probability, so there is no `predict_proba`; the evidence is that of the coded targets,
    not of labels, and is not to be compared with that of a classifier.

    Parameters
    ----------
    prior : None (default), "empirical", "ard", Normal or StudentT
        None is least squares.
    targets : float
        Labels are coded ±targets; 0.6 is an old choice.
    fit_intercept, tol, max_iter, n_jobs, random_state, verbose
        As for `BayesianLogisticRegression`.

    Attributes
    ----------
    classes_ : (K,) array
    coef_ : (1, d) or (K, d) array
    intercept_ : (1,) or (K,) array
    posterior_ : WeightPosterior
    dispersion_ : float or (K,) array
        Variance of the coded targets around the line.

    Examples
    --------
    The notes' counterexample: x = 2 is put on the wrong side, although 1.5 separates the classes.

    >>> import numpy as np
    >>> from credibly import BayesianLogisticRegression, LeastSquaresClassifier
    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0], [50.0]]), [-1, -1, 1, 1, 1]
    >>> LeastSquaresClassifier().fit(x, y).predict(x)
    array([-1, -1, -1,  1,  1])
    >>> BayesianLogisticRegression().fit(x, y).predict(x)
    array([-1, -1,  1,  1,  1])
    """

    def __init__(
        self,
        *,
        prior: PriorChoice = None,
        targets: float = 1.0,
        fit_intercept: bool = True,
        tol: float = 1e-10,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.prior = prior
        self.targets = targets
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike | OutOfCoreRows,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        resume: None = None,
    ) -> Self:
        """Learn the posterior of the weights.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or data frame; Dask array or frame; ParquetRows
        y : (n,) labels
            `ParquetRows` have their own.
        sample_weight : (n,) array, optional
            A weight of 2 is the row twice.
        resume : None
            Of linear classifiers and GLMs only: this one takes too few passes.

        Returns
        -------
        self
        """
        refuse_resume(resume, self)
        with all_or_nothing(self), single_threaded_blas():
            self._check_shared_choices()
            if isinstance(self.targets, bool) or not np.isreal(self.targets) or not 0 < self.targets < np.inf:
                raise InputError(f"targets must be a positive number, such as 1.0 or 0.6; got {self.targets!r}.")
            if isinstance(self.prior, Jeffreys):
                raise InputError("Jeffreys() of least squares is flat in the weights; use prior=None.")
            if is_stored(X):
                rows = with_references(self, stored_rows(X, y, sample_weight), self.prior)
                table: AnyTable = read_stored(self, rows, rows)
            else:
                table = read_training(self, X, y, sample_weight)
            self._forget()
            self._first_fit(table)
        return self

    def _first_fit(self, table: AnyTable) -> None:
        codes = [1] if len(table.classes) == 2 else range(len(table.classes))
        coded = [table.recoded(partial(_signed, code=c, size=float(self.targets))) for c in codes]
        problem = self._problem(FamilyLikelihood(Normally(), Identity()), coded[0])
        refuse_large(len(coded) * problem.shape.per_output, STACKED_ARRAYS)
        search = self._search()
        fits = [_regression(_with_rows(problem, rows, self.n_jobs), self.prior, search) for rows in coded]
        shape = WeightShape(problem.shape.n_features, len(fits), problem.shape.intercept)
        learnt = _stacked(fits)
        self.classes_ = table.classes
        self._start_keeping(problem._replace(shape=shape), learnt)
        self._keep(learnt, problem.frame, coded[0])
        noise = np.array([dispersion_found(fit) for fit in fits])
        self.dispersion_ = float(noise[0]) if len(fits) == 1 else noise
        W = self.posterior_.mean.reshape(shape.n_outputs, -1)
        self.coef_ = W[:, : shape.n_features]
        self.intercept_ = W[:, -1] if shape.intercept else np.zeros(shape.n_outputs)

    @property
    def _n_identified(self) -> int:
        """Every class has its weights and its variance."""
        return self._shape.n_outputs * (self._shape.per_output + 1)

    @property
    def loo_log_proba_(self) -> Array:
        """Does not exist: a line has no probabilities of labels."""
        raise NotDefinedError("loo_log_proba_ does not exist: least squares has no probabilities of labels.")

    def _what(self) -> str:
        return f"classes {self.classes_.tolist()} coded ±{self.targets:g}"

    @lazily
    def decision_function(self, X: ArrayLike) -> Array:
        """The fitted line, (n,) for two classes (positive for the second), (n, K) for K."""
        return self.predict_latent(X).mean

    @lazily
    def predict(self, X: ArrayLike) -> AnyArray:
        """The class on whose side a row is; of K classes the one with the highest line."""
        check_is_fitted(self)
        lines = self.decision_function(X)
        return np.asarray(self.classes_[(lines > 0).astype(int) if lines.ndim == 1 else lines.argmax(axis=1)])


def _signed(codes: AnyArray, code: int, size: float) -> AnyArray:
    """The target of one class against the others."""
    return np.where(codes == code, size, -size)


def _with_rows(problem: Problem, training: AnyTraining, n_jobs: int | None) -> Problem:
    rows = training.rows(n_jobs)
    return problem._replace(rows=rows.through(problem.frame.design), raw=rows)


def _regression(problem: Problem, choice: PriorChoice, search: Search) -> Learnt:
    """One least-squares fit; without a prior and with dependent columns, the solution of least norm."""
    try:
        return learn_glm(problem, choice, None, search)
    except CollinearityError:
        return least_norm(problem)


def _stacked(fits: list[Learnt]) -> Learnt:
    """Independent regressions as one posterior, class by class."""
    if len(fits) == 1:
        return fits[0]
    results = [fit.result for fit in fits]
    worst = next((fit for fit in fits if not fit.status.good), fits[0])
    result = InferenceResult(
        _block_gaussian([result.posterior for result in results]),
        sum(result.log_evidence for result in results),
        sum(result.log_likelihood for result in results),
        worst.result.solution,
    )
    scales = [fit.prior_scale for fit in fits if fit.prior_scale is not None]
    return worst._replace(
        result=result,
        contrast=np.eye(len(fits)),
        prior=_stacked_prior([fit.prior for fit in fits]),
        resolved=_stacked_normal([fit.resolved for fit in fits]),
        prior_scale=np.squeeze(np.array(scales)) if scales else None,
    )


def _block_gaussian(parts: list[Gaussian]) -> Gaussian:
    factor = block_diag(*(part.precision.factor for part in parts))
    return Gaussian(np.concatenate([part.mean for part in parts]), PSD(np.asfortranarray(factor)))


def _stacked_prior(parts: list[PriorDensity | None]) -> PriorDensity | None:
    gaussians = [part for part in parts if isinstance(part, Gaussian)]
    if len(gaussians) == len(parts):
        return _block_gaussian(gaussians)
    students = [part for part in parts if isinstance(part, IndependentStudent)]
    if not students:
        return None
    return IndependentStudent(
        students[0].df,
        np.concatenate([part.scale for part in students]),
        block_diag(*(part.axes for part in students)),
        sum(part.log_volume for part in students),
    )


def _stacked_normal(parts: list[Normal | StudentT | Jeffreys | None]) -> Normal | StudentT | Jeffreys | None:
    normals = [part for part in parts if isinstance(part, Normal)]
    if len(normals) < len(parts):
        return parts[0]
    means, covs = [np.asarray(part.mean) for part in normals], [np.asarray(part.cov) for part in normals]
    return Normal(mean=np.concatenate(means), cov=block_diag(*covs))
