"""Generalised linear models with a posterior: regression for targets of any exponential family."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import OutOfCoreRows
from credibly.data.threads import single_threaded_blas
from credibly.errors import DataWarning, InputError
from credibly.estimators.certificate import Certificate
from credibly.estimators.certified_weights import certify_weights
from credibly.estimators.dispersion import (
    dispersion_found,
    has_free_dispersion,
    learn_glm,
    with_dispersion,
)
from credibly.estimators.fitted import Fitted, describe_fit, in_units, r_log_likelihood
from credibly.estimators.hypothesis_tests import HypothesisTests
from credibly.estimators.lazily import lazily
from credibly.estimators.learning import learn_from
from credibly.estimators.linear_model import LinearModel, only
from credibly.estimators.not_in_memory import ScoreMixin, is_stored
from credibly.estimators.outputs import PredictToMixin, mean_table
from credibly.estimators.problem import Learnt, PriorChoice, Problem
from credibly.estimators.reporting import ReportMixin
from credibly.estimators.stored import in_memory, recorded, resumable, stored_rows, with_references
from credibly.estimators.targets import Targets, read_offset, read_stored_targets, read_targets
from credibly.estimators.validation import Training, all_or_nothing
from credibly.estimators.wide_learning import in_row_space
from credibly.inference.frame import Frame
from credibly.inference.posterior import Scores
from credibly.model.likelihoods.families import resolve_family
from credibly.model.likelihoods.family_base import Family
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Link, resolve_link
from credibly.numerics.arrays import AnyArray, Array
from credibly.predictive import MeanPredictive


class BayesianGLM(PredictToMixin, ReportMixin, ScoreMixin, RegressorMixin, HypothesisTests, LinearModel):
    r"""A generalised linear model with a posterior over its weights.

    .. math:: y \mid x \sim \mathrm{family}(μ, s), \qquad g(μ) = w^T x + b + \mathrm{offset}

    `family` is the distribution of the target, `link` is g: named by the link, so "probit" is Φ⁻¹. With ``prior=None``
    coefficients, standard errors, deviance, AIC and BIC are those of R's ``glm``.

    Parameters
    ----------
    family : "gaussian" (default), "bernoulli", "binomial", "poisson", "gamma", "inverse_gaussian", "negative_binomial"
    link : str or None
        "identity", "log", "logit", "probit", "cloglog", "loglog", "cauchit", "inverse", "inverse_square", "sqrt", or a
        `credibly.links.Power`; None is the canonical one (the logarithm for the negative binomial).
    prior : "empirical" (default), "ard", Normal, StudentT, Jeffreys, or None
        As for the classifiers: None is maximum likelihood.
    dispersion : float or None
        s of Var(y) = s V(μ) (the variance of a Gaussian; α of the negative binomial's μ + αμ²). None estimates it: with
        a proper prior by the evidence, without one as R does.
    fit_intercept : bool
    tol : float
        Goal for the squared Newton decrement.
    max_iter : int
        Most Newton steps in one fit.
    n_jobs : int or None
        Threads for large tables.
    random_state : int, RandomState or None
    verbose : bool
        Print every step.

    Attributes
    ----------
    posterior_ : WeightPosterior
        Of slopes, then intercept, in data units; its covariance is that of the observed curvature.
    coef_ : (d,) array
    intercept_ : float
    dispersion_ : float
    deviance_, null_deviance_ : float
    standard_errors_ : (M,) array
        From the expected information and `dispersion_`, as R.
    log_likelihood_ : float
        With all constants. Without a prior, R's ``logLik``: the dispersion there is deviance/n.
    log_evidence_, occam_factor_, effective_parameters_, bic_, aic_ : float
        BIC and AIC count an estimated dispersion as one parameter, as R.
    family_, link_
        What was used.
    prior_, prior_scale_, status_, n_iter_
        As for the classifiers.

    References
    ----------
    McCullagh & Nelder 1989; PRML sec. 4.3.6 (where the constant is constant in w, not in s).

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import BayesianGLM
    >>> X, counts = np.array([[0.0], [1.0], [2.0], [3.0]]), [1, 2, 4, 9]
    >>> model = BayesianGLM(family="poisson", prior=None).fit(X, counts)
    >>> model.coef_.round(3), round(model.intercept_, 3)
    (array([0.748]), -0.061)
    >>> model.predict([[4.0]]).round(2)
    array([18.74])
    """

    _likelihood: FamilyLikelihood
    _table_of = staticmethod(mean_table)

    def __init__(
        self,
        family: str | Family = "gaussian",
        link: str | Link | None = None,
        *,
        prior: PriorChoice = "empirical",
        dispersion: float | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-10,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.family = family
        self.link = link
        self.prior = prior
        self.dispersion = dispersion
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- learning ----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike | OutOfCoreRows,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        *,
        resume: str | Path | None = None,
    ) -> Self:
        """Learn the posterior of the weights.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or data frame; Dask array or frame; ParquetRows
        y : (n,) targets
            Binomial: (n, 2) successes and failures, or proportions with `sample_weight` as numbers of trials.
            `ParquetRows` have their own.
        sample_weight : (n,) array, optional
            Multiplies each row's log-likelihood: a weight of 2 is the row twice.
        offset : (n,) array, optional
            Added to the score.
        exposure : (n,) array, optional
            For the log link: its logarithm is added to the score.
        resume : path, optional
            As for the classifiers: a fit that was stopped goes on from this file.

        Returns
        -------
        self
        """
        with all_or_nothing(self), single_threaded_blas(), resumable(self, resume) as walk:
            self._check_shared_choices()
            likelihood = self._chosen_likelihood()
            extra = (sample_weight, read_offset(likelihood.link, offset, exposure))
            if is_stored(X):
                rows = with_references(self, stored_rows(X, y, *extra, offsets=True), self.prior)
                targets = read_stored_targets(self, likelihood.family, walk(rows), rows)
            else:
                targets = read_targets(self, likelihood.family, X, y, *extra)
                targets = targets._replace(training=recorded(targets.training, walk, self.n_jobs))
            self._forget()
            self._first_fit(likelihood, targets)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        """Update the posterior with more rows; the first call is `fit`, whose dispersion and prior scales stay.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            As for `fit`.

        Returns
        -------
        self
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y, sample_weight, offset, exposure)
        with all_or_nothing(self), single_threaded_blas():
            extra = (sample_weight, read_offset(self.link_, offset, exposure))
            targets = read_targets(self, self.family_, X, y, *extra, reset=False)
            self._make_room(targets.training)
            before, watched = self.posterior_.gaussian, self._watch_drift()
            problem = self._next_problem(targets.training)._replace(start=before.mean)
            learnt = learn_from(problem, before, np.eye(1), self._search())
            self._keep_fit(learnt, problem, self.posterior_.frame, targets)
            if watched:
                self._tell_drift(problem, before)
        return self

    def _read_rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        offset: ArrayLike | None,
        exposure: ArrayLike | None,
    ) -> Training:
        extra = (sample_weight, read_offset(self.link_, offset, exposure))
        return in_memory(read_targets(self, self.family_, X, y, *extra, reset=False).training)

    def certify(
        self,
        X: ArrayLike,
        y: ArrayLike,
        draws: int | None = None,
        random_state: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Certificate:
        """How far this posterior can be trusted, at the dispersion found, and its numbers corrected.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            The rows of the fit; a `DataWarning` says when they are others.
        draws, random_state
            As for the classifiers.

        Returns
        -------
        Certificate
            With `predict(X)` for the corrected mean of the target.
        """
        check_is_fitted(self)
        extra = (sample_weight, read_offset(self.link_, offset, exposure))
        targets = read_targets(self, self.family_, X, y, *extra, reset=False)
        return certify_weights(self, in_memory(targets.training), draws, random_state, targets.log_constant)

    def _chosen_likelihood(self) -> FamilyLikelihood:
        family = resolve_family(self.family)
        link = resolve_link(self.link, family)
        likelihood = FamilyLikelihood(family, link)
        if self.dispersion is None:
            return likelihood
        if isinstance(self.dispersion, bool) or not isinstance(self.dispersion, int | float | np.number):
            raise InputError(f"dispersion must be a positive number or None; got {self.dispersion!r}.")
        if not has_free_dispersion(likelihood):
            raise InputError(
                f"The {family.name} family has no dispersion; leave dispersion=None. For counts that vary more than a "
                'Poisson\'s use family="negative_binomial", or covariance("robust").'
            )
        return with_dispersion(likelihood, float(self.dispersion))

    def _first_fit(self, likelihood: FamilyLikelihood, targets: Targets) -> None:
        problem = self._problem(likelihood, targets.training)
        problem = in_units(problem) if isinstance(self.prior, str) else problem
        reduced = in_row_space(problem, self.prior)
        learnt = reduced.lift(learn_glm(reduced.problem, reduced.prior, self.dispersion, self._search()))
        assert isinstance(learnt.likelihood, FamilyLikelihood)
        self._start_keeping(problem, learnt)
        problem = reduced.problem._replace(likelihood=learnt.likelihood)
        self.family_, self.link_ = learnt.likelihood.family, learnt.likelihood.link
        self.dispersion_ = dispersion_found(learnt)
        self._keep_fit(learnt, problem, reduced.frame, targets)
        if self.prior is None and self.family_.has_dispersion and self.dispersion is None:
            self.log_likelihood_ = r_log_likelihood(problem, learnt, self._described())

    def _keep_fit(self, learnt: Learnt, problem: Problem, frame: Frame, targets: Targets) -> None:
        first = self._n_rows == 0
        constant = targets.log_constant
        learnt = learnt._replace(
            result=learnt.result._replace(
                log_likelihood=learnt.result.log_likelihood + constant,
                log_evidence=learnt.result.log_evidence + constant,
            )
        )
        self._keep(learnt, frame, targets.training)
        W = self.posterior_.mean
        self.coef_ = W[: self._shape.n_features]
        self.intercept_ = float(W[-1]) if self._shape.intercept else 0.0
        self._fitted = describe_fit(problem, learnt, self._search()) if first else None

    # --- what was learnt ---------------------------------------------------------------------------------------

    def _described(self) -> Fitted:
        check_is_fitted(self)
        if self._fitted is None:
            raise InputError("The deviance is that of one fit; after partial_fit the earlier rows are gone.")
        return self._fitted

    @property
    def deviance_(self) -> float:
        """Minus twice s times the log-likelihood, from that of a perfect fit."""
        return self._described().deviance

    @property
    def null_deviance_(self) -> float:
        """The deviance of the intercept alone (and the offset)."""
        return self._described().null_deviance

    @property
    def _n_identified(self) -> int:
        """R's count: an estimated dispersion is a parameter."""
        return self._shape.per_output + (self.dispersion is None and has_free_dispersion(self._likelihood))

    def _what(self) -> str:
        return f"{self.family_.name} family, {self.link_.name} link"

    def _notes(self) -> list[str]:
        said = f"dispersion: {self.dispersion_:.5g}"
        if self._fitted is not None:
            said += f"; deviance: {self.deviance_:.5g} (null {self.null_deviance_:.5g})"
        return [said, *super()._notes()]

    # --- prediction --------------------------------------------------------------------------------------------

    def _scores(self, X: ArrayLike, offset: ArrayLike | None, exposure: ArrayLike | None) -> Scores:
        m, v = self.predict_latent(X)
        shift = read_offset(self.link_, offset, exposure, n_rows=len(m))
        return Scores(m if shift is None else m + shift, v)

    @lazily
    def predict(self, X: ArrayLike, offset: ArrayLike | None = None, exposure: ArrayLike | None = None) -> Array:
        """The mean of the target, (n,): averaged over the posterior, at the estimate when prior is None.

        For the inverse, the inverse-square and other power links E[g⁻¹(f)] of a Gaussian score diverges: there it is
        the mean at the posterior mode (the plug-in), whatever the prior. NaN, with a `DataWarning`, where a score has
        no mean (a negative one of the identity link for counts).
        """
        scores = self._scores(X, offset, exposure)
        predictive = MeanPredictive(self._likelihood)
        means = predictive.plug_in(scores) if self.prior_ is None else predictive.mean(scores)
        self._warn_outside(np.isnan(means))
        return means

    def _warn_outside(self, outside: AnyArray) -> None:
        if outside.any():
            warnings.warn(
                f"{int(outside.sum())} of {len(outside)} rows have a score that is no mean of the "
                f"{self.family_.name} family under the {self.link_.name} link; their prediction is NaN. Use a link "
                "that takes every score, such as the log or the logit.",
                DataWarning,
                stacklevel=3,
            )

    @lazily
    def predict_interval(
        self,
        X: ArrayLike,
        level: float = 0.9,
        *,
        kind: str = "mean",
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Array:
        """Equal-tailed interval, (n, 2): of the mean, or of a new observation.

        Parameters
        ----------
        X : (n, d) array or frame
        level : float
            Mass of the interval.
        kind : "mean" (default) or "observation"
            "mean": a credible interval of the mean, g⁻¹(m ± z√v). "observation": quantiles of a new target, the
            posterior and the noise together (for the binomial: of a single trial).
        offset, exposure
            As for `fit`.
        """
        observation = only(kind, {"mean": False, "observation": True}, "kind")
        scores = self._scores(X, offset, exposure)
        predictive = MeanPredictive(self._likelihood)
        ends = predictive.observation_interval(scores, level) if observation else predictive.interval(scores, level)
        outside = ~self._likelihood.form.inside(scores.mean)
        self._warn_outside(outside)
        return np.where(outside[:, None], np.nan, ends)
