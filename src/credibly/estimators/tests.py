"""Tests, standard errors, robust covariances and profile intervals, for linear models to inherit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from credibly.data.threads import single_threaded_blas
from credibly.errors import ConvergenceWarning, InputError
from credibly.estimators.validation import canonical, feature_names
from credibly.inference.linear import covariance as covariances
from credibly.inference.linear import hypotheses, nested, profile
from credibly.inference.linear.fit import LinearFit
from credibly.inference.linear.glm import Fitted
from credibly.inference.linear.hypotheses import HypothesisResult
from credibly.inference.linear.spec import Data
from credibly.numerics.arrays import AnyArray, Array


class HypothesisTests:
    """Wald, likelihood-ratio and score tests, covariances and profile intervals, for linear models to inherit."""

    fit_: LinearFit
    classes_: AnyArray  # of classifiers only
    _data: Data | None  # the rows of one fit
    _read_data: Callable[..., Data]  # rows as `fit` reads them, by a fitted model

    def covariance(self, kind: str = "model", groups: ArrayLike | None = None) -> Array:
        r"""Covariance of the weights in data units, laid out as `posterior_`: coefficients, then intercept.

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
        return covariances.covariance(self.fit_, self._data, kind, groups)

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
            ``"age = 0, dose = 2*weight"``; a list of columns, each without effect; or R over coefficients and
            intercept. Names with other characters than letters, digits, _ and . go between backticks (not in a list);
            the intercept is ``intercept``. Of K classes ``age`` says that its weights are the same for all classes,
            and ``setosa:age = virginica:age`` is about single ones; R is over all K·(d+1).
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
        fit = self.fit_
        covariances.refuse_row_space(fit, "wald_test")
        columns = feature_names(self) + ["intercept"] * fit.shape.intercept
        classes = [str(label) for label in self.classes_.tolist()] if fit.shape.n_outputs > 1 else []
        constraints = hypotheses.read_hypothesis(hypothesis, r, hypotheses.WeightNames(columns, classes))
        if isinstance(covariance, str):
            C = covariances.coordinate_covariance(fit, self._data, covariance, groups)
        else:
            C = covariances.given_covariance(fit.posterior, covariance)
        return hypotheses.wald_test(fit, constraints, C)

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
            return nested.lr_test_of_columns(self.fit_, self._data, self._deviances())
        if type(reduced_model) is not type(self) or not hasattr(reduced_model, "fit_"):
            found = f"{type(self).__name__} and {type(reduced_model).__name__}"
            raise InputError(f"lr_test compares models of one kind, both fitted; got {found}.")
        if not np.array_equal(getattr(self, "classes_", 0), getattr(reduced_model, "classes_", 0)):
            raise InputError(
                "The two models were not fitted on the same rows in the same order: their classes are "
                f"{self.classes_.tolist()} and {reduced_model.classes_.tolist()}."
            )
        return nested.lr_test(self.fit_, self._data, reduced_model.fit_, reduced_model._data)

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
        nested.need_maximum_likelihood(self.fit_, "score_test")
        shifts = {"offset": offset, "exposure": exposure}
        shifts = {name: given for name, given in shifts.items() if given is not None}
        if shifts and hasattr(self, "classes_"):
            raise InputError("Classifiers take no offset and no exposure; BayesianGLM does.")
        data = self._read_data(X, y, sample_weight, **shifts)
        try:
            extra = check_array(X_extra, accept_sparse="csr", dtype=np.float64, ensure_2d=False, input_name="X_extra")
        except ValueError as error:
            raise InputError(str(error)) from error
        extra = canonical(extra[:, None] if extra.ndim == 1 else extra)
        if extra.shape[0] != data.rows.n_rows:
            raise InputError(f"X_extra has {extra.shape[0]} rows, X has {data.rows.n_rows}.")
        names = getattr(X_extra, "columns", None)
        names = [f"extra column {j}" for j in range(extra.shape[1])] if names is None else [str(it) for it in names]
        return nested.score_test(self.fit_, data, extra, names)

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
        For two classes and for a GLM. A dispersion is held at its estimate, as R does. With ``prior=Jeffreys()`` the
        likelihood is the penalised one, as in ``logistf``. A proper prior has `posterior_.interval` instead. Where a
        likelihood is not log-concave (cauchit, some links of a GLM) each step follows the maximum next to the last
        one; there may be a higher one.

        Examples
        --------
        >>> from credibly import BayesianLogisticRegression
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), [0, 1, 0, 1, 1]
        >>> BayesianLogisticRegression(prior=None).fit(X, y).profile_interval(level=0.9).round(2)
        array([[-0.18,  3.43],
               [-5.96,  1.27]])
        """
        check_is_fitted(self)
        with single_threaded_blas():
            limits = profile.profile_interval(self.fit_, self._data, level)
        if np.isnan(limits).any():
            lost = np.flatnonzero(np.isnan(limits).any(axis=1))
            message = f"The search for the limits of weights {lost.tolist()} failed; they are NaN."
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return limits

    # --- for the summary, and for models that know more ----------------------------------------------------------

    def _deviances(self) -> Fitted | None:
        """The deviances of a generalised linear model, where it knows them."""
        return None

    def _test_errors(self) -> Array:
        """Standard errors for z and p: R's, where they are known without the rows, or the rows are still at hand."""
        known = self._data is not None or covariances.has_model_covariance(self.fit_)
        return self.standard_errors_ if known else self.fit_.posterior.std

    def _test_notes(self) -> list[str]:
        """Lines under a summary: by which errors its z and p are."""
        if self._data is None or covariances.has_model_covariance(self.fit_):
            return []
        return ["z, p: by the standard errors of the expected information, as R; sd: observed curvature."]
