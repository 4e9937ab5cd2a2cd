"""Classifiers linear in their columns: the public ones, each a choice of likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from credibly.errors import InputError
from credibly.estimators.linear_base import only
from credibly.estimators.linear_classifier import LinearClassifier
from credibly.inference.linear.spec import PriorChoice
from credibly.model.likelihoods import (
    BernoulliLogit,
    BernoulliProbit,
    Categorical,
    Likelihood,
    threshold_likelihood,
)
from credibly.model.likelihoods.kinds import true_likelihood

Classifier = TypeVar("Classifier", bound=type[LinearClassifier])

PARAMETERS = """Parameters
    ----------
    prior : "empirical" (default), "ard", "hierarchical", Normal, StudentT, Jeffreys, or None
        What is believed about the weights. "empirical": one scale for the coefficients of standardised columns, found
        by maximising the evidence; "ard": one for each column; "hierarchical": one, drawn along with the weights under
        a half-Student-t prior (3 degrees of freedom, scale 2.5; only with ``inference="exact"``); a `Normal` or
        `StudentT` is in the units of the data, or of standardised columns if it says so;
        `Jeffreys()` is Firth's bias reduction, finite on separated data; None is maximum likelihood, without evidence
        or averaging.
    fit_intercept : bool
        Whether there is an intercept; it never shares the slopes' prior.
    inference : "auto" (default), "laplace", "variational", "ep", "exact", "adf" or "adf_spherical"
        How the posterior is found.

        - "auto": "laplace" where averaging its gradient and curvature over the Gaussian moves no mean by more than 0.1
          standard deviations, no standard deviation by more than 10 % and no probability of a training row by more
          than 0.01; else "ep" (two classes, a Normal prior, every weight 0 or at least 1) or "variational". Arithmetic
          only, no draws. `rung_` says which was used.
        - "laplace": the Gaussian at the mode, with the curvature there. Fast, and enough with many rows.
        - "variational": the Gaussian of least Kullback–Leibler divergence from the posterior, for any number of
          classes; `log_evidence_` is its lower bound.
        - "ep" (expectation propagation, two classes): the Gaussian with nearly the right mean and covariance.
        - "exact": draws from the posterior itself, by Hamiltonian chains until rank R-hat < 1.01 and bulk and tail
          effective sizes are at least 400 for every weight; `rhat_` and `ess_` have the worst. `draws` asks for more.
        - "adf" (assumed-density filtering, two classes): one pass over the rows in the order given, on which the answer
          depends. For streams.
        - "adf_spherical": the same with one variance for all weights.

        "ep" and the filters need a Normal prior, or scales that are learnt. In "adf" row i with score
        f = φᵀw ~ N(φᵀm, φᵀΣφ), whose mean and variance become m̂ and v̂ once its label is known, gives

        .. math:: m ← m + Σφ \\frac{\\hat m - φ^T m}{φ^T Σ φ}, \\qquad
                  Σ ← Σ - Σφφ^T Σ \\, \\frac{φ^T Σ φ - \\hat v}{(φ^T Σ φ)^2}

        and log_evidence_ is the sum of the log probabilities with which each label was predicted from the rows before
        it. "adf_spherical" keeps N(m, vI) with v = tr(Σ)/D after every row. It is the weights of *standardized*
        columns, as the first fit found them, that share v (with the intercept at their means), and the prior is
        replaced by the nearest N(m, vI) before the first row: `prior_` has that one. `partial_fit` goes on where the
        pass ended.
    solver : "newton" (default) or "sgd"
        How the mode is found. With "sgd" (averaged stochastic gradient, decreasing steps) `max_iter` counts sweeps,
        the Hessian is taken at the averaged iterate, and `status_` and `distance_to_mode_` say how far off it is.
    label_noise : 0.0 (default), float, pair, "estimate" or Beta
        How often labels are wrong: a number below 1/2 for both classes (for K classes: to any other class), a pair
        (eps01, eps10) with eps01 = P(recorded 1 | true 0), or "estimate", which may also stand in the pair. Estimated
        with Beta(1, 9) beliefs about twice the flip probability, or those given as `credibly.priors.Beta`; without a
        prior by maximum likelihood. Predictions are of the true class.
    draws : int or None
        Of "exact": draws to make at least; None makes as many as convergence takes.
    max_passes : int or None
        Of "exact": a budget of passes over the rows; `status_` says when it ran out.
    tol : float
        Goal for the squared Newton decrement: the squared distance to the mode, in posterior standard deviations.
    max_iter : int
        Most Newton steps (or sweeps) in one fit; "empirical" and "ard" fit many times.
    n_jobs : int or None
        Threads for large tables; None uses as many as BLAS may.
    random_state : int, RandomState or None
        For "sgd", "exact", `sample_proba` and `certify` (fits and certificates: always the same draws where None).
    verbose : bool
        Print every step.

    Attributes
    ----------
    classes_ : (K,) array
    posterior_ : WeightPosterior or DrawnPosterior
        ``mean, cov, std, logpdf, sample, project, interval`` of the weights in data units: coefficients first,
        intercept last, class by class. Draws for "exact".
    coef_ : (1, d) or (K, d) array
        Slopes at ``posterior_.mean`` (by Laplace the mode); over K classes they sum to zero.
    intercept_ : (1,) or (K,) array
        Intercepts there.
    log_evidence_ : float
        log p(y | X), the weights integrated out: Laplace's, EP's, the variational bound, or by bridge sampling.
    log_evidence_se_ : float
        Its standard error where it is estimated from draws ("exact"), else 0.
    integrated_log_evidence_ : float
        The same with what was learnt by maximising it integrated out, too.
    rung_ : str
        The inference that was used.
    rhat_, ess_ : float
        Of the draws of "exact".
    drift_ : float
        After `partial_fit` by Laplace: how far the posterior mean may be from that of one fit to all rows, in posterior
        standard deviations. A warning is raised when it passes 0.15, or when a batch was so far from a Gaussian (one
        class only, or nearly separated) that this estimate says nothing.
    log_likelihood_ : float
        At the coefficients reported.
    occam_factor_ : float
        log_evidence_ - log_likelihood_.
    effective_parameters_ : float
        How many weights the data determined.
    bic_ : float
        -2 log_likelihood_ + m ln n.
    aic_ : float
        -2 log_likelihood_ + 2 m.
    prior_ : Normal, StudentT, Jeffreys or None
        The prior used, in data units.
    prior_scale_ : float or (d,) array
        Learnt scales on standardized columns ("empirical" and "ard").
    label_noise_, label_noise_std_ : float or (2,) array
        Flip probabilities used or learnt, and their standard deviations (0 where fixed).
    label_noise_modes_ : list of dict
        All modes found when it is estimated, the best first: label_noise, log_evidence (Laplace's, label noise
        integrated out), log_joint.
    status_ : Status
        How the search ended, as a sentence.
    n_iter_ : int
"""


MULTI_CLASS = """\
    multi_class : "auto" (default) or "softmax"
        "softmax" gives two classes a weight vector each, too.
"""

THRESHOLD = """\
    threshold : str, StudentT, NormalMixture, or frozen distribution of scipy.stats
        "logistic" (default), "normal", "cauchy", "gumbel" (complementary log–log), "gumbel_max" (log–log), or the name
        of the link ("logit", "probit", "cauchit", "cloglog", "loglog").
"""


def documented(own: str = "") -> Callable[[Classifier], Classifier]:
    """Put the parameters and attributes that all linear classifiers share into a docstring, after those of its own."""

    def fill(cls: Classifier) -> Classifier:
        if cls.__doc__ is not None:  # stripped under python -OO
            every = PARAMETERS.strip().replace("----------\n", f"----------\n{own}", 1)
            cls.__doc__ = cls.__doc__.replace("{parameters}", every)
        return cls

    return fill


@documented(MULTI_CLASS)
class BayesianLogisticRegression(LinearClassifier):
    r"""Logistic regression with a posterior: two classes by the logit, more by the softmax.

    .. math:: p(y = 1 \mid x) = \int σ(w^T φ(x)) \, q(w) \, dw

    With K classes every class has its own weights and the prior is on all of them; the coefficients reported sum to
    zero over classes.

    {parameters}

    References
    ----------
    PRML sec. 4.3–4.5.

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import BayesianLogisticRegression
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> model = BayesianLogisticRegression().fit(X, ["no", "no", "yes", "no", "yes", "yes"])
    >>> model.predict(np.array([[0.5], [4.5]]))
    array(['no', 'yes'], dtype='<U3')
    >>> model.predict_interval(np.array([[4.5]])).round(2).shape
    (1, 2)

    One pass over the rows, and then over those that come later:

    >>> from credibly import Normal
    >>> stream = BayesianLogisticRegression(prior=Normal(scale=1.0), inference="adf").fit(X, [0, 0, 1, 0, 1, 1])
    >>> stream.partial_fit([[6.0]], [1]).predict([[0.5], [4.5]])
    array([0, 1])
    """

    _multi_class = True

    def __init__(
        self,
        *,
        prior: PriorChoice = "empirical",
        fit_intercept: bool = True,
        inference: str = "auto",
        solver: str = "newton",
        multi_class: str = "auto",
        label_noise: Any = 0.0,
        draws: int | None = None,
        max_passes: int | None = None,
        tol: float = 1e-10,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            prior=prior,
            fit_intercept=fit_intercept,
            inference=inference,
            solver=solver,
            label_noise=label_noise,
            draws=draws,
            max_passes=max_passes,
            tol=tol,
            max_iter=max_iter,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.multi_class = multi_class

    def _likelihood_for(self, n_classes: int) -> Likelihood | Categorical:
        always_softmax = only(self.multi_class, {"auto": False, "softmax": True}, "multi_class")
        return Categorical(n_classes) if always_softmax or n_classes > 2 else BernoulliLogit()


@documented()
class BayesianProbitRegression(LinearClassifier):
    r"""Probit regression with a posterior: two classes, a normal threshold.

    .. math:: p(y = 1 \mid x) = \int Φ(w^T φ(x)) \, q(w) \, dw = Φ(m / \sqrt{1 + v})

    Tails fall off like those of the normal distribution, so a mislabelled row far on the wrong side weighs more than
    under the logit.

    {parameters}

    References
    ----------
    PRML sec. 4.3.5, 4.5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import BayesianProbitRegression, Normal
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> model = BayesianProbitRegression(prior=Normal(scale=1.0)).fit(X, [0, 0, 1, 0, 1, 1])
    >>> model.predict([[0.5], [4.5]])
    array([0, 1])
    """

    _multi_class = False

    def _likelihood_for(self, n_classes: int) -> Likelihood | Categorical:
        two_classes_only(n_classes)
        return BernoulliProbit()


def two_classes_only(n_classes: int) -> None:
    """Refuse more classes than a threshold can tell apart."""
    if n_classes > 2:
        raise InputError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"{n_classes} classes were found. For more than two use BayesianLogisticRegression (softmax)."
        )


@documented(THRESHOLD)
class NoisyThresholdClassifier(LinearClassifier):
    r"""Two classes by a noisy threshold: y = 1 where the score reaches θ, and θ has any distribution.

    .. math:: p(y = 1 \mid x) = P(θ ≤ w^T φ(x)) = F_θ(w^T φ(x))

    The logit is a logistic θ, the probit a normal one; a Cauchy θ hardly reacts to mislabelled rows, a Gumbel θ is
    the complementary log–log link of survival times. `log_evidence_` ranks them. Where log F is not concave (Cauchy,
    Student-t, mixtures) the search starts from several places, and `status_` says when the curvature was replaced.

    {parameters}

    References
    ----------
    PRML sec. 4.3.5; McCullagh & Nelder 1989, sec. 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import NoisyThresholdClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> model = NoisyThresholdClassifier(threshold="cauchy").fit(X, [0, 0, 1, 0, 1, 1])
    >>> model.predict([[0.5], [4.5]])
    array([0, 1])
    """

    _multi_class = False

    def __init__(
        self,
        threshold: Any = "logistic",
        *,
        prior: PriorChoice = "empirical",
        fit_intercept: bool = True,
        inference: str = "auto",
        solver: str = "newton",
        label_noise: Any = 0.0,
        draws: int | None = None,
        max_passes: int | None = None,
        tol: float = 1e-10,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            prior=prior,
            fit_intercept=fit_intercept,
            inference=inference,
            solver=solver,
            label_noise=label_noise,
            draws=draws,
            max_passes=max_passes,
            tol=tol,
            max_iter=max_iter,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.threshold = threshold

    def _likelihood_for(self, n_classes: int) -> Likelihood | Categorical:
        two_classes_only(n_classes)
        return threshold_likelihood(self.threshold)

    def _what(self) -> str:
        return f"{true_likelihood(self._likelihood)!r} threshold, {super()._what()}"
