"""Tests, standard errors, robust covariances and profile intervals of models linear in their columns."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, column_or_1d

from credibly.data.threads import single_threaded_blas
from credibly.errors import ConvergenceWarning, InputError
from credibly.estimators.linear_model import LinearModel, only
from credibly.estimators.nested_models import (
    against_intercept,
    check_nested,
    need_maximum_likelihood,
    rao,
    read_extra,
    rows_of_fit,
)
from credibly.estimators.validation import Training, read_training
from credibly.inference.drawn_posterior import DrawnPosterior
from credibly.inference.hypotheses import HypothesisResult, WeightNames, about_free_weights, read_hypothesis, wald
from credibly.inference.jeffreys import PenalisedObjective
from credibly.inference.objective import Objective, RawRows
from credibly.inference.posterior import WeightPosterior, normal_quantile
from credibly.inference.profile import Profile, cut_by_plane, on_plane
from credibly.inference.row_space import RowSpace
from credibly.inference.sandwich import curvature_is_expected, sum_of_group_squares, sum_of_squares
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.kinds import true_likelihood
from credibly.model.priors import Jeffreys
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import PSD, is_sparse
from credibly.numerics.newton import newton

KINDS = {"model": "model", "robust": "robust", "cluster": "cluster"}
ROUNDING = 1e-9  # of a log-likelihood: how far a smaller model may seem to be above a larger one
MOVED = 1e-2  # squared, in standard errors: farther from the estimate than any search ends


class HypothesisTests(LinearModel):
    """Wald, likelihood-ratio and score tests, covariances and profile intervals, for linear models to inherit."""

    classes_: AnyArray  # of classifiers only

    def covariance(self, kind: str = "model", groups: ArrayLike | None = None) -> Array:
        r"""Covariance of the weights in data units, laid out as `posterior_`: slopes, then intercept.

        .. math:: B, \qquad B \textstyle\sum_n s_n s_n^T B, \qquad
           B \tfrac{G}{G-1} \textstyle\sum_g (\sum_{n \in g} s_n) (\sum_{n \in g} s_n)^T B

        Parameters
        ----------
        kind : "model" (default), "robust" or "cluster"
            "model" is B: the inverse expected information at the estimate, as R's ``vcov`` (prior None or Jeffreys),
            or with a proper prior ``posterior_.cov``. "robust" is White's HC0, "cluster" the same for dependent rows.
        groups : (n,) labels
            For "cluster": which rows of the fit belong together.

        Returns
        -------
        (M, M) array

        Notes
        -----
        s_n is the gradient of a row's log-likelihood. Weights are counts: in "robust" a row of weight k is k rows, and
        a proportion of m trials is m rows; let every row be a group of its own to take it as one. K classes without a
        prior: the matrix is that of the weights that sum to zero, and singular. "robust" and "cluster" need the rows
        of the fit, which a model keeps until `partial_fit` and does not save.

        Examples
        --------
        >>> from credibly import BayesianLogisticRegression
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), [0, 1, 0, 1, 1]
        >>> BayesianLogisticRegression(prior=None).fit(X, y).covariance("robust").shape
        (2, 2)
        """
        check_is_fitted(self)
        if isinstance(self.posterior_.frame, RowSpace):
            if kind != "model":
                _refuse_few_rows(f'covariance "{kind}"')
            return self.posterior_.cov
        if np.isnan(self.posterior_.gaussian.precision.factor).any():  # an exact fit: no dispersion, no errors
            return np.full((self._shape.total, self._shape.total), np.nan)
        half = self.posterior_.to_data(_frame_covariance(self, kind, groups))
        V = self.posterior_.to_data(half.T)
        return np.asarray((V + V.T) / 2)

    @property
    def standard_errors_(self) -> Array:
        """Square roots of the diagonal of ``covariance("model")``, (M,)."""
        return np.sqrt(np.diag(self.covariance()))

    def wald_test(
        self,
        hypothesis: Any,
        r: ArrayLike = 0.0,
        *,
        covariance: Any = "model",
        groups: ArrayLike | None = None,
    ) -> HypothesisResult:
        r"""Wald's test of linear equations about the weights.

        .. math:: (R w - r)^T (R V R^T)^{-1} (R w - r) \sim χ^2_q

        Parameters
        ----------
        hypothesis : str, list of str, or (q, M) or (M,) array
            ``"age = 0, dose = 2*weight"``; a list of columns, each without effect; or R over slopes and intercept.
            Names with other characters than letters, digits, _ and . go between backticks (not in a list); the
            intercept is ``intercept``. Of K classes ``age`` says that its weights are the same for all classes, and
            ``setosa:age = virginica:age`` is about single ones; R is over all K·(d+1).
        r : float or (q,) array
            Right-hand sides, for an array.
        covariance : "model" (default), "robust", "cluster" or (M, M) array
            V, see `covariance`.
        groups : (n,) labels
            For "cluster".

        Returns
        -------
        HypothesisResult
            `statistic`, `df`, `pvalue`.

        Examples
        --------
        >>> from credibly import BayesianLogisticRegression
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), [0, 1, 0, 1, 1]
        >>> BayesianLogisticRegression(prior=None).fit(X, y).wald_test("x0 = 0")
        Wald test: χ² = 1.251 on 1 df, p = 0.2633
        """
        check_is_fitted(self)
        posterior, outputs = self.posterior_, self._shape.n_outputs
        if isinstance(posterior.frame, RowSpace):
            _refuse_few_rows("wald_test")
        names = WeightNames(self._weight_names(), [str(label) for label in self._outputs()] if outputs > 1 else [])
        T = posterior.to_data(np.eye(posterior.gaussian.mean.size)).T
        constraints = about_free_weights(read_hypothesis(hypothesis, r, names), T)
        if isinstance(covariance, str):
            C = _frame_covariance(self, covariance, groups)
        else:
            C = _given_covariance(posterior, covariance, names.n_weights)
        return wald(posterior.gaussian.mean, C, constraints)

    def lr_test(self, reduced_model: HypothesisTests | None = None) -> HypothesisResult:
        r"""The likelihood-ratio test of a smaller model, fitted on the same rows, against this one.

        .. math:: 2 (\ell - \ell_{reduced}) \sim χ^2, \qquad (D_{reduced} - D) / s \text{ where there is a dispersion}

        Parameters
        ----------
        reduced_model : fitted model of the same kind, optional
            Its columns must be combinations of this one's. Both need ``prior=None``. None is the intercept alone: do
            the columns have any effect?

        Returns
        -------
        HypothesisResult
            `statistic`, `df`, `pvalue`.

        Notes
        -----
        D is the deviance and s this model's dispersion, as in R's ``anova(test = "LRT")``.

        Examples
        --------
        >>> from credibly import BayesianLogisticRegression
        >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0], [4.0, 0.0], [5.0, 2.0]])
        >>> y = [0, 1, 0, 1, 0, 1]
        >>> full, reduced = (BayesianLogisticRegression(prior=None).fit(part, y) for part in (X, X[:, :1]))
        >>> full.lr_test(reduced)
        Likelihood-ratio test: χ² = 0.03179 on 1 df, p = 0.8585
        """
        check_is_fitted(self)
        if reduced_model is None:
            return HypothesisResult("Likelihood-ratio test", *against_intercept(self))
        df = check_nested(self, reduced_model)
        likelihood = self._likelihood
        if isinstance(likelihood, FamilyLikelihood) and likelihood.family.has_dispersion:
            scale: Any = self
            statistic = (_deviance(reduced_model) - _deviance(self)) / scale.dispersion_
        else:
            statistic = 2 * (self.log_likelihood_ - reduced_model.log_likelihood_)
        if statistic < -ROUNDING * (1 + abs(self.log_likelihood_)):
            raise InputError(
                f"The reduced model has the higher likelihood (by {-statistic / 2:.3g}): one of the two is not at its "
                f"maximum. This one: {self.status_.value} The reduced one: {reduced_model.status_.value}"
            )
        return HypothesisResult("Likelihood-ratio test", max(statistic, 0.0), df)  # below zero by rounding only

    def score_test(
        self,
        X_extra: ArrayLike,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> HypothesisResult:
        r"""Rao's score test: would more columns have an effect? Only this model, without them, is fitted.

        .. math:: U^T I^{-1} U \sim χ^2

        with the gradient U of the larger model's log-likelihood and its expected information I, both at this estimate
        (and this model's dispersion).

        Parameters
        ----------
        X_extra : (n, q) or (n,) array or frame
            The columns in question.
        X, y, sample_weight, offset, exposure
            As given to `fit`.

        Returns
        -------
        HypothesisResult
            `statistic`, `df`, `pvalue`.

        Examples
        --------
        >>> from credibly import BayesianLogisticRegression
        >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0], [4.0, 0.0], [5.0, 2.0]])
        >>> y = [0, 1, 0, 1, 0, 1]
        >>> BayesianLogisticRegression(prior=None).fit(X[:, :1], y).score_test(X[:, 1:], X[:, :1], y)
        Score test: χ² = 0.03162 on 1 df, p = 0.8589
        """
        check_is_fitted(self)
        need_maximum_likelihood(self, "score_test")
        training = self._read_rows(X, y, sample_weight, offset, exposure)
        return rao(self, training, read_extra(X_extra, len(training.y)))

    def profile_interval(self, level: float = 0.95) -> Array:
        r"""Profile-likelihood intervals of the weights, (M, 2), in the layout of `posterior_`.

        .. math:: \{ v : 2 (\ell_{max} - \max_{w_j = v} \ell(w)) \le χ^2_{1, level} \}

        Parameters
        ----------
        level : float
            Confidence level.

        Returns
        -------
        (M, 2) array
            ±inf where the likelihood never falls so far.

        Notes
        -----
        A dispersion is held at its estimate, as R does. With ``prior=Jeffreys()`` the likelihood is the penalised one,
        as in ``logistf``. A proper prior has `posterior_.interval` instead. Where a likelihood is not log-concave
        (cauchit, some links of a GLM) each step follows the maximum next to the last one; there may be a higher one.

        Examples
        --------
        >>> from credibly import BayesianLogisticRegression
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), [0, 1, 0, 1, 1]
        >>> BayesianLogisticRegression(prior=None).fit(X, y).profile_interval(level=0.9).round(2)
        array([[-0.18,  3.43],
               [-5.96,  1.27]])
        """
        check_is_fitted(self)
        z = normal_quantile(level)
        if self.prior_ is not None and not isinstance(self.prior_, Jeffreys):
            raise InputError(
                "profile_interval is about the likelihood alone; with a prior use posterior_.interval(level)."
            )
        if true_likelihood(self._likelihood) is not self._likelihood:
            raise InputError(
                "profile_interval is not for label noise: with a weight held far out, the likelihood of the others has "
                "several maxima, and the highest is not found for certain. Use posterior_.interval(level)."
            )
        training = rows_of_fit(self, "profile_interval")
        with single_threaded_blas():
            limits = _profile_limits(self, _objective(self, training), z)
        if np.isnan(limits).any():
            lost = np.flatnonzero(np.isnan(limits).any(axis=1))
            message = f"The search for the limits of weights {lost.tolist()} failed; they are NaN."
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return limits

    def _test_errors(self) -> Array:
        """Those of the expected information, as R's, where the rows of the fit are still at hand."""
        known = getattr(self, "_training", None) is not None or curvature_is_expected(self._likelihood)
        return self.standard_errors_ if known else super()._test_errors()

    def _notes(self) -> list[str]:
        notes = super()._notes()
        at_hand = getattr(self, "_training", None) is not None
        if self.prior_ is None and at_hand and not curvature_is_expected(self._likelihood):
            notes.append("z, p: by the standard errors of the expected information, as R; sd: observed curvature.")
        return notes

    def _read_rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        offset: ArrayLike | None,
        exposure: ArrayLike | None,
    ) -> Training:
        """Rows as `fit` reads them; models whose targets are no labels override it."""
        if offset is not None or exposure is not None:
            raise InputError("Classifiers take no offset and no exposure; BayesianGLM does.")
        table = read_training(self, X, y, sample_weight, classes=self.classes_, reset=False)
        return table.training(self._likelihood)


# --- Covariances ----------------------------------------------------------------------------------------------


def _refuse_few_rows(what: str) -> NoReturn:
    raise InputError(
        f"{what} is about many rows; this model has far fewer rows than weights, of which most are as the prior says. "
        "posterior_.project(rows) has the mean and variance of any combination of weights."
    )


def _objective(model: LinearModel, training: Training) -> Objective:
    """Minus the log-likelihood of some rows, as a function of the free weights."""
    rows, posterior = training.rows(model.n_jobs), model.posterior_
    raw = RawRows.of(rows, posterior.frame)
    return Objective(model._likelihood, rows.through(posterior.frame.design), None, posterior.contrast, raw)


def _frame_covariance(model: LinearModel, kind: str, groups: ArrayLike | None) -> Array:
    """Covariance of the free weights."""
    kind = only(kind, KINDS, "kind of covariance")
    if (groups is None) == (kind == "cluster"):
        raise InputError(
            'groups go with covariance "cluster", which needs one label for each row of the fit; '
            f"got {kind!r} and {'no groups' if groups is None else 'groups'}."
        )
    precision = _precision(model)
    if kind == "model":
        root = precision.inverse_root
        return np.asarray(root.T @ root)
    training = rows_of_fit(model, f'covariance "{kind}"')
    objective, u = _objective(model, training), model.posterior_.gaussian.mean
    if kind == "robust":
        middle = sum_of_squares(objective, u)
    else:
        X = training.X if is_sparse(training.X) else np.asarray(training.X, dtype=np.float64)
        middle = sum_of_group_squares(objective, u, model.posterior_.frame.design(X), _group_codes(groups, training))
    return precision.solve(precision.solve(middle).T)


def _precision(model: LinearModel) -> PSD:
    """The expected information where there is no proper prior; else the precision of the posterior."""
    posterior = model.posterior_.gaussian
    if model.prior_ is not None or curvature_is_expected(model._likelihood):
        return posterior.precision  # under a Jeffreys prior it is the expected information already
    training = rows_of_fit(model, "the expected information of this likelihood")
    return PSD.of(_objective(model, training).expected_information(posterior.mean), "the expected information")


def _group_codes(groups: Any, training: Training) -> Codes:
    """Groups as codes; rows that do not count are no group."""
    try:
        labels = np.asarray(column_or_1d(groups))
        counted = np.ones(len(labels), dtype=bool) if training.weight is None else training.weight > 0
        if len(labels) != len(training.y):
            raise InputError(f"groups has {len(labels)} labels for {len(training.y)} rows of the fit.")
        codes = np.zeros(len(labels), dtype=np.intp)
        found, codes[counted] = np.unique(labels[counted], return_inverse=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"groups must hold one label for each row, all of one type: {error}") from error
    if len(found) < 2:
        raise InputError(f"All rows are in one group, {found.tolist()[0]!r}; a covariance needs at least two.")
    return codes


def _given_covariance(posterior: WeightPosterior | DrawnPosterior, covariance: Any, M: int) -> Array:
    """A covariance in data units as that of the free weights."""
    try:
        V = np.asarray(covariance, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"covariance must be one of {', '.join(KINDS)} or a matrix; got {covariance!r}.") from error
    if V.shape != (M, M) or not np.isfinite(V).all() or not np.allclose(V, V.T, rtol=1e-6, atol=0.0):
        raise InputError(f"covariance must be a finite symmetric matrix of shape {(M, M)}; got shape {V.shape}.")

    def to_free(w: Array) -> Array:
        W = posterior.frame.to_frame(w.reshape(len(w), len(posterior.contrast), -1))
        return np.asarray(np.einsum("kj,nkd->njd", posterior.contrast, W).reshape(len(w), -1))

    return to_free(to_free(V).T)


def _deviance(model: Any) -> float:
    """The deviance of a generalised linear model, which alone has one."""
    return float(model.deviance_)


# --- Profiles -------------------------------------------------------------------------------------------------


def _profile_limits(model: LinearModel, objective: Objective, z: float) -> Array:
    """Lower and upper limits of every weight, (M, 2)."""
    posterior, penalised = model.posterior_, isinstance(model.prior_, Jeffreys)
    expand = PenalisedObjective(objective).expand if penalised else objective.expand
    best = newton(expand, posterior.gaussian.mean)
    moved = best.x - posterior.gaussian.mean
    if moved @ best.local.hessian.matrix @ moved > MOVED:
        raise InputError("The rows of the fit were changed since, or it did not reach its maximum; fit again.")
    T = posterior.to_data(np.eye(best.x.size)).T
    plane = cut_by_plane(expand) if penalised else on_plane(objective)
    profiles = [Profile(expand, plane, best, a) for a in T]
    return np.array([[profile.limit(z, side) for side in (-1, 1)] for profile in profiles])
