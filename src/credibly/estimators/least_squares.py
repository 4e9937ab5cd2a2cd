"""Least squares on coded labels: the oldest linear classifier, kept for comparison."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from credibly.data.memory import refuse_beyond_memory
from credibly.data.rows import OutOfCoreRows
from credibly.data.threads import single_threaded_blas
from credibly.errors import CollinearityError, InputError, NotDefinedError
from credibly.estimators.lazily import lazily
from credibly.estimators.linear_base import LinearModel
from credibly.estimators.not_in_memory import ScoreMixin, is_stored, refuse_resume
from credibly.estimators.stored import AnyTable, read_stored, stored_rows, with_references
from credibly.estimators.validation import all_or_nothing, forget_fit, read_training
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.design import ClassMap
from credibly.inference.linear.fit import LinearFit, least_norm
from credibly.inference.linear.posterior import WeightPosterior
from credibly.inference.linear.priors import IndependentStudent, PriorDensity
from credibly.inference.linear.spec import Data, LinearSpec, PriorChoice
from credibly.model.likelihoods.families import Gaussian as Normally
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Identity
from credibly.model.priors import Jeffreys, Normal
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import PSD
from credibly.numerics.settings import ManyWeights

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
            forget_fit(self)
            self._first_fit(table)
        return self

    def _first_fit(self, table: AnyTable) -> None:
        codes = [1] if len(table.classes) == 2 else range(len(table.classes))
        coded = [table.recoded(partial(_signed, code=c, size=float(self.targets))) for c in codes]
        data = self._described(coded[0])
        refuse_beyond_memory(
            STACKED_ARRAYS * (len(coded) * (len(data.names) + bool(self.fit_intercept))) ** 2,
            "the matrices of all pairs of weights of all classes",
            "Use fewer columns, or a machine with more memory.",
        )
        spec = self._spec(FamilyLikelihood(Normally(), Identity()), free_dispersion=True)
        fits = [self._regression(replace(data, rows=rows.rows(self.n_jobs)), spec) for rows in coded]
        self.classes_ = table.classes
        noise = np.array([fit.dispersion for fit in fits])
        self.dispersion_ = float(noise[0]) if len(fits) == 1 else noise
        self._hold(_stacked(fits), None if len(fits) > 1 else data)

    def _regression(self, data: Data, spec: LinearSpec) -> LinearFit:
        """One least-squares fit; without a prior and with dependent columns, the solution of least norm."""
        try:
            return self._fit(data, spec)
        except CollinearityError:
            return least_norm(data, spec)

    inference = "laplace"  # exact for a normal target
    _many_weights = ManyWeights(narrow=10**9)  # classes have scales of their own, and would have row spaces

    @property
    def coef_(self) -> Array:
        """Coefficients in data units, (1, d) or (K, d)."""
        return self._fitted().weights[:, : self.fit_.shape.n_features]

    @property
    def intercept_(self) -> Array:
        """Intercepts, (1,) or (K,)."""
        W, shape = self._fitted().weights, self.fit_.shape
        return W[:, -1] if shape.intercept else np.zeros(shape.n_outputs)

    @property
    def _n_identified(self) -> int:
        """Every class has its weights and its variance."""
        shape = self.fit_.shape
        return shape.n_outputs * (shape.per_output + 1)

    def _outputs(self) -> list[Any]:
        return list(self.classes_.tolist())

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


def _stacked(fits: list[LinearFit]) -> LinearFit:
    """Independent regressions as one fit, class by class."""
    if len(fits) == 1:
        return fits[0]
    worst = next((fit for fit in fits if not fit.status.good), fits[0])
    scales = [fit.scales for fit in fits if fit.scales is not None]
    design = replace(worst.posterior.design, classes=ClassMap.separate(len(fits)))
    return replace(
        worst,
        shape=worst.shape._replace(n_outputs=len(fits)),
        posterior=WeightPosterior(_block_gaussian([fit.posterior.free for fit in fits]), None, design),
        prior=_stacked_prior([fit.prior for fit in fits]),
        resolved=_stacked_normal([fit.resolved for fit in fits]),
        scales=np.squeeze(np.array(scales)) if scales else None,
        log_evidence=sum(fit.log_evidence for fit in fits),
        integrated_log_evidence=sum(fit.integrated_log_evidence for fit in fits),
        log_likelihood=sum(fit.log_likelihood for fit in fits),
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


def _stacked_normal(parts: list[PriorChoice]) -> PriorChoice:
    normals = [part for part in parts if isinstance(part, Normal)]
    if len(normals) < len(parts):
        return parts[0]
    means, covs = [np.asarray(part.mean) for part in normals], [np.asarray(part.cov) for part in normals]
    return Normal(mean=np.concatenate(means), cov=block_diag(*covs))
