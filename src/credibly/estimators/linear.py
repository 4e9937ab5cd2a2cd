"""Classifiers linear in their columns: the public ones, each a choice of likelihood."""

from typing import Any, TypeVar

from credibly.errors import InputError
from credibly.estimators.linear_classifier import LinearClassifier
from credibly.estimators.linear_model import only
from credibly.estimators.problem import PriorChoice
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical, Likelihood

Classifier = TypeVar("Classifier", bound=type[LinearClassifier])

PARAMETERS = """Parameters
    ----------
    prior : "empirical" (default), "ard", Normal, or None
        What is believed about the weights. "empirical": one scale for the coefficients of standardised columns, found
        by maximising the evidence; "ard": one for each column; a `Normal` is in the units of the data; None is maximum
        likelihood, without evidence or averaging.
    fit_intercept : bool
        Whether there is an intercept; it never shares the slopes' prior.
    inference : "laplace"
        How the posterior is found: the Gaussian at the mode, with the curvature there.
    solver : "newton" (default) or "sgd"
        How the mode is found. With "sgd" (averaged stochastic gradient, decreasing steps) `max_iter` counts sweeps,
        the Hessian is taken at the averaged iterate, and `status_` and `distance_to_mode_` say how far off it is.
    multi_class : "auto" (default) or "softmax"
        BayesianLogisticRegression only: "softmax" gives two classes a weight vector each, too.
    label_noise : float
        0.0: labels are taken at their word.
    tol : float
        Goal for the squared Newton decrement: the squared distance to the mode, in posterior standard deviations.
    max_iter : int
        Most Newton steps (or sweeps) in one fit; "empirical" and "ard" fit many times.
    n_jobs : int or None
        Threads for large tables; None uses as many as BLAS may.
    random_state : int, RandomState or None
        For "sgd" and `sample_proba`.
    verbose : bool
        Print every step.

    Attributes
    ----------
    classes_ : (K,) array
    posterior_ : WeightPosterior
        ``mean, cov, std, logpdf, sample, project, interval`` of the weights in data units: slopes first, intercept
        last, class by class.
    coef_ : (1, d) or (K, d) array
        Slopes at the posterior mode; over K classes they sum to zero.
    intercept_ : (1,) or (K,) array
        Intercepts at the posterior mode.
    log_evidence_ : float
        log p(y | X), the weights integrated out.
    log_likelihood_ : float
        At the mode.
    occam_factor_ : float
        log_evidence_ - log_likelihood_.
    effective_parameters_ : float
        How many weights the data determined.
    bic_ : float
        -2 log_likelihood_ + m ln n.
    aic_ : float
        -2 log_likelihood_ + 2 m.
    prior_ : Normal or None
        The prior used, in data units.
    prior_scale_ : float or (d,) array
        Learnt scales on standardised columns ("empirical" and "ard").
    status_ : Status
        How the search ended, as a sentence.
    n_iter_ : int
"""


def documented(cls: Classifier) -> Classifier:
    """Put the parameters and attributes that all linear classifiers share into a docstring."""
    if cls.__doc__ is not None:  # stripped under python -OO
        cls.__doc__ = cls.__doc__.replace("{parameters}", PARAMETERS.strip())
    return cls


@documented
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
    """

    _multi_class = True

    def __init__(
        self,
        *,
        prior: PriorChoice = "empirical",
        fit_intercept: bool = True,
        inference: str = "laplace",
        solver: str = "newton",
        multi_class: str = "auto",
        label_noise: Any = 0.0,
        tol: float = 1e-20,
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


@documented
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
        if n_classes > 2:
            raise InputError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{n_classes} classes were found. For more than two use BayesianLogisticRegression (softmax)."
            )
        return BernoulliProbit()
