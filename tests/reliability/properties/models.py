"""Every public estimator with the choices that change how it works, and what each of them promises.

The registry is `KINDS`. A property is one test over the kinds that promise it; `over(...)` picks them.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    GenerativeClassifier,
    Jeffreys,
    LeastSquaresClassifier,
    LinearDiscriminant,
    ModelAverage,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    NormalMixture,
    QuadraticDiscriminant,
    StudentT,
)
from credibly import class_conditionals as cc
from credibly.errors import (
    CollinearityError,
    ConvergenceWarning,
    SeparationError,
    UnreliableWarning,
)
from credibly.priors import Beta, Dirichlet, Gamma, NormalInverseWishart
from reliability.properties import problems as p
from reliability.properties.problems import Problem

REFUSALS = (SeparationError, CollinearityError)  # of maximum likelihood, where there is none


@dataclass(frozen=True, repr=False)
class Kind:
    """An estimator, the rows it is for, and what it promises of them."""

    make: Callable[[Problem], Any]
    columns: p.Columns = p.numbers
    targets: p.Targets = p.labels
    classes: tuple[int, ...] = (2,)
    priors: tuple[Any, ...] = (None,)
    rows: tuple[int, int] = (3, 60)

    probabilities: bool = True  # it is a classifier with predict_log_proba
    intervals: bool = True
    weights: tuple[float, float] | None = (0.2, 3.0)  # what sample_weight may be, where fit takes it
    draws: bool = False  # its posterior is made of draws, which differ where rounding differs
    any_order: bool = True  # of rows
    symmetric: bool = True  # in its classes
    unit_free: bool = True  # under a prior that is: see `standardised`
    updates: str | None = None  # "sums": halves are the whole; "chain": evidences of halves add up
    evidence: bool = True
    posterior: bool = True  # it has posterior_, of weights or of a function
    of_labels: bool = True  # its evidence is a probability of labels, not a density
    tol: float = 1e-7  # of a number, relative and absolute, where rounding differs: see test_invariances.py

    def priors_that(self, hold: Callable[[Any], bool]) -> tuple[Any, ...]:
        """Those of its priors for which something holds."""
        return tuple(prior for prior in self.priors if hold(prior))


@dataclass(frozen=True)
class Case:
    """A problem in the form that `fit` takes."""

    kind: Kind
    problem: Problem
    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    new: Any

    @classmethod
    def of(cls, kind: Kind, problem: Problem) -> "Case":
        X, new, Z = kind.columns(problem)
        y = kind.targets(problem, Z)
        weight = None
        if problem.weighted and kind.weights is not None:
            weight = np.random.default_rng((problem.seed, 2)).uniform(*kind.weights, len(y))
        return cls(kind, problem, X, y, weight, new)

    def model(self) -> Any:
        return self.kind.make(self.problem)

    def fit(self, X: Any = None, y: Any = None, weight: Any = None) -> Any:
        """A fitted model, of these rows or of others; maximum likelihood may refuse."""
        X, y = self.X if X is None else X, self.y if y is None else y
        weight = self.weight if weight is None else weight
        given = {} if weight is None else {"sample_weight": weight}
        return quietly(
            self.model(), lambda model: model.fit(X, y, **given), refusing=maximum_likelihood(self.problem.prior)
        )


def maximum_likelihood(prior: Any) -> bool:
    """Whether weights that the rows do not determine are refused: so they are by Jeffreys' prior, too."""
    return prior is None or isinstance(prior, Jeffreys)


def any_prior(prior: Any) -> bool:
    return True


def fixed(prior: Any) -> bool:
    """Whether the prior is a distribution that knows nothing of the rows."""
    return not learnt(prior)


def learnt(prior: Any) -> bool:
    """Whether the prior, or a kernel, or where its points are, comes from the rows themselves."""
    return maximum_likelihood(prior) or prior in ("empirical", "ard", "learnt kernel", "points among the rows")


def standardised(prior: Any) -> bool:
    """Whether a prior does not depend on the units of the columns."""
    return maximum_likelihood(prior) or isinstance(prior, str)


def quietly(model: Any, learn: Callable[[Any], Any], *, refusing: bool = False) -> Any:
    """The model after learning, every warning of which must be one of ours and explained by the status."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            learn(model)
        except REFUSALS:
            assume(not refusing)
            raise
    explain(model, [warning.message for warning in said])
    return model


def explain(model: Any, said: list[Any]) -> None:
    """One warning for a bad status, or one for an update that has drifted; these tables give no other cause."""
    for warning in said:
        assert isinstance(warning, ConvergenceWarning | UnreliableWarning), f"{type(warning).__name__}: {warning}"
        if isinstance(warning, UnreliableWarning):
            assert "drifted" in str(warning)
            assert model.drift_ > 0.15 or np.isnan(model.drift_)
        else:
            assert model.status_.value in str(warning)
    bad = hasattr(model, "status_") and not model.status_.good
    assert sum(isinstance(warning, ConvergenceWarning) for warning in said) == bad


# --- the registry -----------------------------------------------------------------------------------------------

PRIORS = ("empirical", "ard", Normal(scale=1.0), StudentT(df=4), Jeffreys(), None)
KERNEL = ("a kernel in units of the columns' spread",)
PROPER = ("empirical", Normal(scale=1.0))
NIW = NormalInverseWishart(mean=0.5, mean_strength=0.3, scale=2.0, dof=8.5)


def linear(estimator: Any, **choices: Any) -> Callable[[Problem], Any]:
    """By Laplace, whose modes are found to rounding, unless another way is chosen."""
    if estimator is not LeastSquaresClassifier:
        choices = {"inference": "laplace"} | choices

    def make(problem: Problem) -> Any:
        return estimator(prior=problem.prior, fit_intercept=problem.intercept, **choices)

    return make


def thresholds(threshold: Any) -> Callable[[Problem], Any]:
    return linear(lambda **choices: NoisyThresholdClassifier(threshold, **choices))


def glm(family: str, link: str | None = None, **choices: Any) -> Callable[[Problem], Any]:
    return linear(lambda **others: BayesianGLM(family, link, **others), **choices)


def process(**choices: Any) -> Callable[[Problem], Any]:
    return lambda problem: GaussianProcessClassifier(**{"optimize": False, **choices})


def generative(estimator: Any, **choices: Any) -> Callable[[Problem], Any]:
    def make(problem: Problem) -> Any:
        return estimator(prior=problem.prior, **choices)

    return make


def averaged(problem: Problem) -> ModelAverage:
    parts = [BayesianLogisticRegression(prior=Normal(scale)) for scale in (0.5, 3.0)]
    return ModelAverage(parts, random_state=0)


def mean_of(
    targets: p.Targets,
    family: str,
    link: str | None = None,
    priors: tuple[Any, ...] = PROPER,
    inference: str = "laplace",
) -> Kind:
    settled = SETTLED if family == "negative_binomial" or inference != "laplace" else 1e-7
    promises = {
        "probabilities": False,
        "updates": "chain",
        "of_labels": family in LABELS,
        "tol": settled,
    }
    return Kind(glm(family, link, inference=inference), p.near_numbers, targets, priors=priors, **promises)


SETTLED = 1e-5  # EP and variational inference end so many standard deviations from their fixed points (`tol`), …
SEVERAL_SCORES = 1e-2  # … and so many with several scores a row, whose averages are sums over fixed points
LABELS = ("bernoulli", "binomial")
GENERATIVE = {"updates": "sums", "posterior": False, "of_labels": False}  # its evidence is p(X, y)
LOGISTIC = BayesianLogisticRegression
KINDS = {
    "logistic": Kind(linear(LOGISTIC), priors=PRIORS, updates="chain"),
    "logistic by EP": Kind(linear(LOGISTIC, inference="ep"), priors=PROPER, weights=(1.0, 3.0), updates="chain"),
    "logistic by ADF": Kind(
        linear(LOGISTIC, inference="adf"), priors=PROPER, weights=None, any_order=False, updates="chain"
    ),
    "logistic by variational inference": Kind(
        linear(LOGISTIC, inference="variational"),
        priors=(Normal(scale=1.0), StudentT(df=4)),
        updates="chain",
        tol=SETTLED,
    ),
    "logistic by draws": Kind(
        linear(LOGISTIC, inference="exact"), priors=(Normal(scale=1.0),), rows=(3, 30), draws=True
    ),
    "logistic, automatic": Kind(
        linear(LOGISTIC, inference="auto"), priors=PRIORS, weights=(1.0, 3.0), updates="chain", tol=SETTLED
    ),
    "logistic, noisy labels": Kind(linear(LOGISTIC, label_noise=0.1), priors=(Normal(scale=1.0),), updates="chain"),
    "softmax": Kind(
        linear(LOGISTIC),
        classes=(3, 4),
        priors=(*PROPER, None),
        rows=(3, 40),
        updates="chain",
    ),
    "softmax, automatic": Kind(
        linear(LOGISTIC, inference="auto"),
        classes=(3,),
        priors=PROPER,
        rows=(3, 40),
        updates="chain",
        tol=SEVERAL_SCORES,
    ),
    "softmax of two": Kind(linear(LOGISTIC, multi_class="softmax"), priors=PROPER, updates="chain"),
    "probit": Kind(linear(BayesianProbitRegression), priors=PRIORS, updates="chain"),
    "probit, automatic": Kind(
        linear(BayesianProbitRegression, inference="auto"),
        priors=PROPER,
        weights=(1.0, 3.0),
        updates="chain",
        tol=SETTLED,
    ),
    "threshold cauchy": Kind(thresholds("cauchy"), priors=PROPER, updates="chain"),
    "threshold gumbel": Kind(thresholds("gumbel"), priors=PROPER, symmetric=False, updates="chain"),
    "threshold student": Kind(thresholds(student(4)), priors=(Normal(scale=1.0),), rows=(3, 20), updates="chain"),
    "threshold mixture": Kind(
        thresholds(NormalMixture([0.5, 0.5], [-1.0, 1.0], [1.0, 2.0])),
        priors=(Normal(scale=1.0),),
        symmetric=False,
        updates="chain",
    ),
    "least squares": Kind(
        linear(LeastSquaresClassifier),
        classes=(2, 3),
        priors=(None, Normal(scale=1.0)),
        probabilities=False,
        intervals=False,
        of_labels=False,
    ),
    "GLM gaussian": mean_of(p.gaussian_targets, "gaussian", priors=(*PROPER, None)),
    "GLM bernoulli": mean_of(p.labels, "bernoulli"),
    "GLM binomial": mean_of(p.successes, "binomial"),
    "GLM poisson": mean_of(p.count_targets, "poisson"),
    "GLM poisson, automatic": mean_of(p.count_targets, "poisson", inference="auto"),
    "GLM negative binomial": mean_of(p.count_targets, "negative_binomial"),
    "GLM gamma": mean_of(p.positive_targets, "gamma", "log"),
    "GLM inverse gaussian": mean_of(p.positive_targets, "inverse_gaussian", "log"),
    "GP": Kind(process(), priors=KERNEL, weights=None),
    "GP learnt": Kind(process(optimize=True), priors=("learnt kernel",), rows=(3, 20), weights=None),
    "GP by EP": Kind(process(inference="ep", likelihood="probit"), priors=KERNEL, weights=None),
    "GP by ADF": Kind(process(inference="adf"), priors=KERNEL, rows=(3, 30), weights=None, any_order=False),
    "GP softmax": Kind(process(), classes=(3,), priors=KERNEL, rows=(3, 30), weights=None),
    "GP one against the rest": Kind(
        process(inference="ep"), classes=(3,), priors=KERNEL, rows=(3, 30), weights=None, evidence=False
    ),
    "GP with inducing points": Kind(
        process(inducing=5), priors=("points among the rows",), rows=(5, 60), weights=None, any_order=False
    ),
    "linear discriminant": Kind(
        generative(LinearDiscriminant), classes=(2, 3, 4), priors=("empirical", NIW), **GENERATIVE
    ),
    "quadratic discriminant": Kind(
        generative(QuadraticDiscriminant), classes=(2, 3), priors=("empirical", NIW), **GENERATIVE
    ),
    "naive Bayes of numbers": Kind(
        generative(NaiveBayes, features="gaussian"), classes=(2, 3), priors=("empirical", NIW), **GENERATIVE
    ),
    "naive Bayes of yes and no": Kind(
        generative(NaiveBayes, features="bernoulli"),
        p.yes_or_no,
        classes=(2, 3),
        unit_free=False,
        priors=("empirical", Beta(0.7, 1.3)),
        **GENERATIVE,
    ),
    "naive Bayes of categories": Kind(
        generative(NaiveBayes, features="categorical"),
        p.yes_or_no,
        classes=(2, 3),
        unit_free=False,
        priors=("empirical", Dirichlet(0.8)),
        **GENERATIVE,
    ),
    "naive Bayes of counts": Kind(
        generative(NaiveBayes, features="poisson"),
        p.counts,
        classes=(2, 3),
        unit_free=False,
        priors=("empirical", Gamma(2.0, 0.5)),
        **GENERATIVE,
    ),
    "generative, spherical": Kind(
        generative(GenerativeClassifier, class_conditional=cc.MultivariateGaussian("spherical")),
        classes=(2, 3),
        unit_free=False,
        priors=("empirical", NIW),
        **GENERATIVE,
    ),
    "generative, gamma": Kind(
        generative(GenerativeClassifier, class_conditional=cc.Gamma(2.0)),
        p.positive,
        classes=(2, 3),
        priors=("empirical", Gamma(2.0, 0.5)),
        **GENERATIVE,
    ),
    "average of models": Kind(
        averaged,
        priors=("two of them",),
        weights=None,
        draws=True,
        intervals=False,
        evidence=False,
        posterior=False,
        unit_free=False,
    ),
}

ALWAYS = {  # one of every way to work; the others with the slow tests
    *(
        "logistic",
        "logistic by EP",
        "logistic, automatic",
        "softmax",
        "probit",
        "threshold cauchy",
        "least squares",
        "GLM poisson",
    ),
    *("GP", "GP by EP", "linear discriminant", "naive Bayes of numbers", "naive Bayes of counts"),
}


# --- properties -------------------------------------------------------------------------------------------------

# Some of the profile's number of examples (CONTRIBUTING.md): 3 of 100 in the steady one, for every kind and property.
FEW = settings(max_examples=settings().max_examples // 33, suppress_health_check=[HealthCheck.too_slow])


def every(kind: Kind) -> bool:
    return True


def over(promised: Callable[[Kind], bool] = every) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A property, `test(kind, data)`, of every kind that promises it, on random problems."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        promising = [
            pytest.param(kind, id=name, marks=() if name in ALWAYS else pytest.mark.slow)
            for name, kind in KINDS.items()
            if promised(kind)
        ]
        return pytest.mark.parametrize("kind", promising)(FEW(given(data=st.data())(test)))

    return decorate


def drawn(kind: Kind, data: st.DataObject, prior: Callable[[Any], bool] = any_prior) -> Case:
    """A random case of a kind, with one of the priors for which something holds."""
    return Case.of(kind, data.draw(p.problems(kind.classes, kind.priors_that(prior), kind.rows)))


def answers(model: Any, X: Any) -> dict[str, Any]:
    """All that a model says of some rows, but for intervals, which take most of the time."""
    asked = ("predict", "predict_log_proba", "predict_proba", "predict_latent", "decision_function", "score_samples")
    said = {name: getattr(model, name)(X) for name in asked if hasattr(model, name)}
    if hasattr(model, "sample_proba"):
        said["sample_proba"] = model.sample_proba(X, size=2, random_state=0)
    return said


def assert_same_bits(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, said in one.items():
        for a, b in zip(as_arrays(said), as_arrays(other[name]), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


def as_arrays(said: Any) -> tuple[np.ndarray, ...]:
    return said if isinstance(said, tuple) else (said,)
