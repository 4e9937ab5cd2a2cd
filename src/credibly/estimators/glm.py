"""Generalised linear models with a posterior: regression for targets of any exponential family."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from credibly.data.rows import MemoryRows, OutOfCoreRows
from credibly.data.threads import single_threaded_blas
from credibly.errors import DataWarning, InputError
from credibly.estimators.certificate import Certificate
from credibly.estimators.lazily import lazily
from credibly.estimators.linear_base import LinearModel, only
from credibly.estimators.not_in_memory import ScoreMixin, is_stored
from credibly.estimators.outputs import PredictToMixin, mean_table
from credibly.estimators.reporting import ReportMixin
from credibly.estimators.stored import recorded, resumable, stored_rows, with_references
from credibly.estimators.targets import Targets, read_offset, read_stored_targets, read_targets
from credibly.estimators.tests import HypothesisTests
from credibly.estimators.validation import all_or_nothing, forget_fit
from credibly.inference.gaussian import Scores
from credibly.inference.linear.glm import (
    Fitted,
    describe,
    fitted_scores,
    has_free_dispersion,
    r_log_likelihood,
    with_dispersion,
)
from credibly.inference.linear.posterior import DrawnPosterior
from credibly.inference.linear.spec import Data, PriorChoice
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
    inference : "auto" (default), "laplace", "variational" or "exact"
        As for the classifiers. Where averages over a Gaussian score do not exist (inverse and inverse-square links,
        links that take some scores only) "auto" keeps Laplace.
    dispersion : float or None
        s of Var(y) = s V(μ) (the variance of a Gaussian; α of the negative binomial's μ + αμ²). None estimates it: with
        a proper prior by the evidence, without one as R does.
    fit_intercept : bool
    draws, max_passes : int or None
        Of "exact", as for the classifiers.
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

    _table_of = staticmethod(mean_table)
    _of_one_fit: Fitted | None  # deviances; None after an update

    def __init__(
        self,
        family: str | Family = "gaussian",
        link: str | Link | None = None,
        *,
        prior: PriorChoice = "empirical",
        inference: str = "auto",
        dispersion: float | None = None,
        fit_intercept: bool = True,
        draws: int | None = None,
        max_passes: int | None = None,
        tol: float = 1e-10,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.family = family
        self.link = link
        self.prior = prior
        self.inference = inference
        self.dispersion = dispersion
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.max_passes = max_passes
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
            forget_fit(self)
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
        if not hasattr(self, "fit_"):
            return self.fit(X, y, sample_weight, offset, exposure)
        with all_or_nothing(self), single_threaded_blas():
            extra = (sample_weight, read_offset(self.link_, offset, exposure))
            targets = read_targets(self, self.family_, X, y, *extra, reset=False)
            self._update(targets.training, targets.log_constant)
            self._of_one_fit = None
        return self

    def _read_data(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Data:
        """Rows and targets as the fit read them."""
        check_is_fitted(self)
        extra = (sample_weight, read_offset(self.link_, offset, exposure))
        targets = read_targets(self, self.family_, X, y, *extra, reset=False)
        return self._described(targets.training, targets.log_constant)

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
        return self._certificate(self._read_data(X, y, sample_weight, offset, exposure), draws, random_state)

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
        data = self._described(targets.training, targets.log_constant)
        free = self.dispersion is None and has_free_dispersion(likelihood)
        spec = self._spec(likelihood, free_dispersion=free, draws=self.draws, max_passes=self.max_passes)
        fit = self._fit(data, spec)
        deviances = describe(data, fit)
        if self.prior is None and free and likelihood.family.has_dispersion:  # R's logLik
            assert isinstance(fit.likelihood, FamilyLikelihood)
            at, s = fitted_scores(fit.weights[0]), deviances.deviance / deviances.weight
            fit = replace(fit, log_likelihood=r_log_likelihood(data, fit.likelihood, at, s) + data.log_constant)
        self._hold(fit, data)
        self._of_one_fit = deviances

    # --- what was learnt ---------------------------------------------------------------------------------------

    @property
    def _likelihood(self) -> FamilyLikelihood:
        likelihood = self._fitted().likelihood
        assert isinstance(likelihood, FamilyLikelihood)
        return likelihood

    @property
    def coef_(self) -> Array:
        """Coefficients in data units, (d,)."""
        return self._fitted().weights[0, : self.fit_.shape.n_features]

    @property
    def intercept_(self) -> float:
        """The intercept."""
        return float(self._fitted().weights[0, -1]) if self.fit_.shape.intercept else 0.0

    @property
    def family_(self) -> Family:
        """The distribution of the target."""
        return self._likelihood.family

    @property
    def link_(self) -> Link:
        """The link."""
        return self._likelihood.link

    @property
    def dispersion_(self) -> float:
        """The dispersion, given or estimated; α for the negative binomial."""
        return self._fitted().dispersion

    def _one_fit(self) -> Fitted:
        check_is_fitted(self)
        if self._of_one_fit is None:
            raise InputError("The deviance is that of one fit; after partial_fit the earlier rows are gone.")
        return self._of_one_fit

    def _deviances(self) -> Fitted | None:
        return self._of_one_fit

    @property
    def deviance_(self) -> float:
        """Minus twice s times the log-likelihood, from that of a perfect fit."""
        return self._one_fit().deviance

    @property
    def null_deviance_(self) -> float:
        """The deviance of the intercept alone (and the offset)."""
        return self._one_fit().null_deviance

    def _what(self) -> str:
        return f"{self.family_.name} family, {self.link_.name} link"

    def _notes(self) -> list[str]:
        said = f"dispersion: {self.dispersion_:.5g}"
        if self._of_one_fit is not None:
            said += f"; deviance: {self.deviance_:.5g} (null {self.null_deviance_:.5g})"
        return [said, *super()._notes()]

    def _outputs(self) -> list[Any]:
        return []

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
        predictive, posterior = MeanPredictive(self._likelihood), self.posterior_
        if isinstance(posterior, DrawnPosterior) and predictive.averages:
            rows = self._shifted(self._rows(X, len(posterior.draws)), offset, exposure)
            means = self._over_draws(rows, predictive.mean_over_draws)
        else:
            scores = self._scores(X, offset, exposure)
            means = predictive.plug_in(scores) if self.prior_ is None else predictive.mean(scores)
        self._warn_outside(np.isnan(means))
        return means

    def _shifted(self, rows: MemoryRows, offset: ArrayLike | None, exposure: ArrayLike | None) -> MemoryRows:
        return replace(rows, offset=read_offset(self.link_, offset, exposure, n_rows=rows.n_rows))

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
        predictive, posterior = MeanPredictive(self._likelihood), self.posterior_
        if isinstance(posterior, DrawnPosterior) and not observation:
            rows = self._shifted(self._rows(X, len(posterior.draws)), offset, exposure)
            return self._over_draws(rows, partial(predictive.interval_over_draws, level=level))
        scores = self._scores(X, offset, exposure)
        ends = predictive.observation_interval(scores, level) if observation else predictive.interval(scores, level)
        outside = ~self._likelihood.form.inside(scores.mean)
        self._warn_outside(outside)
        return np.where(outside[:, None], np.nan, ends)
