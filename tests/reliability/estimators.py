"""Every public estimator, small and fast, with the harmless problem that inputs of the table are made from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import credibly
from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    GenerativeClassifier,
    LeastSquaresClassifier,
    LinearDiscriminant,
    ModelAverage,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    QuadraticDiscriminant,
)
from credibly.class_conditionals import MultivariateGaussian
from credibly.kernels import RBF

ROWS, COLUMNS = 36, 3
PRIOR = Normal(scale=2.5)
KERNEL = 4.0 * RBF(2.0)

KINDS = {
    "linear": "Linear classifiers",
    "glm": "GLM",
    "gp": "Gaussian process",
    "discriminant": "Discriminants",
    "bayes": "NaiveBayes",
    "average": "ModelAverage",
}


@dataclass(frozen=True)
class Problem:
    """What goes into `fit`, and the rows that are asked about afterwards (None: those of the fit)."""

    X: Any
    y: Any
    codes: np.ndarray  # what y means: 0 … K-1, the starting point of every other kind of label
    weight: Any = None
    ask: Any = None

    def but(self, **changes: Any) -> "Problem":
        return replace(self, **changes)

    @property
    def asked(self) -> Any:
        return self.X if self.ask is None else self.ask


def plain(n_classes: int) -> Problem:
    """Overlapping classes, every one of them present, columns of ordinary size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    score = X[:, [0]] * np.linspace(-1, 1, n_classes) + rng.gumbel(size=(ROWS, n_classes))
    codes = score.argmax(axis=1)
    return Problem(X, codes.copy(), codes)


def of_columns(columns: Callable[[np.random.Generator, np.ndarray], np.ndarray]) -> Callable[[], Problem]:
    """A problem whose columns are counts, or yes and no."""

    def make() -> Problem:
        codes = plain(2).codes
        X = columns(np.random.default_rng(1), codes[:, None]).astype(float)
        return Problem(X, codes.copy(), codes)

    return make


@dataclass(frozen=True)
class Subject:
    """An estimator of the table."""

    name: str
    kind: str
    make: Callable[[], Any]
    problem: Callable[[], Problem] = lambda: plain(2)
    columns: str = "numbers"  # "counts", "yes and no", "categories": what the estimator reads X as

    @property
    def short(self) -> str:
        """Within its kind."""
        return SHORT.get(self.name, self.name.removeprefix("… ").split(", ")[-1])

    @property
    def probabilities(self) -> bool:
        return hasattr(self.make(), "predict_log_proba")


def two_priors() -> ModelAverage:
    narrow, wide = (BayesianLogisticRegression(prior=Normal(scale=scale)) for scale in (1.0, 5.0))
    return ModelAverage({"narrow": narrow, "wide": wide}, random_state=0)


def gp(**options: Any) -> Callable[[], GaussianProcessClassifier]:
    return lambda: GaussianProcessClassifier(KERNEL, optimize=False, **options)


SHORT = {
    "BayesianLogisticRegression": "logistic",
    "BayesianProbitRegression": "probit",
    "NoisyThresholdClassifier": "noisy threshold",
    "LeastSquaresClassifier": "least squares",
    "LinearDiscriminant": "linear",
    "QuadraticDiscriminant": "quadratic",
    "GenerativeClassifier": "diagonal",
    "NaiveBayes": "auto",
    "… softmax of functions": "softmax",
}

COUNTS = of_columns(lambda rng, code: rng.poisson(3 + 2 * code, size=(ROWS, COLUMNS)))
YES_NO = of_columns(lambda rng, code: rng.random((ROWS, COLUMNS)) < 0.3 + 0.4 * code)

SUBJECTS = [
    Subject("BayesianLogisticRegression", "linear", lambda: BayesianLogisticRegression(prior=PRIOR)),
    Subject("… empirical prior", "linear", BayesianLogisticRegression),
    Subject("… softmax", "linear", lambda: BayesianLogisticRegression(prior=PRIOR), lambda: plain(3)),
    Subject("BayesianProbitRegression", "linear", lambda: BayesianProbitRegression(prior=PRIOR)),
    Subject("NoisyThresholdClassifier", "linear", lambda: NoisyThresholdClassifier("gumbel", prior=PRIOR)),
    Subject("LeastSquaresClassifier", "linear", lambda: LeastSquaresClassifier(prior=PRIOR)),
    Subject("BayesianGLM, binomial", "glm", lambda: BayesianGLM("binomial", prior=PRIOR)),
    Subject("BayesianGLM, poisson", "glm", lambda: BayesianGLM("poisson", prior=PRIOR), lambda: plain(3)),
    Subject("BayesianGLM, gaussian", "glm", lambda: BayesianGLM(prior=PRIOR)),
    Subject("GaussianProcessClassifier, Laplace", "gp", gp()),
    Subject("… softmax of functions", "gp", gp(), lambda: plain(3)),
    Subject("… EP", "gp", gp(inference="ep")),
    Subject("… ADF", "gp", gp(inference="adf")),
    Subject("… inducing points", "gp", gp(inducing=6)),
    Subject("LinearDiscriminant", "discriminant", LinearDiscriminant),
    Subject("QuadraticDiscriminant", "discriminant", QuadraticDiscriminant),
    Subject("GenerativeClassifier", "discriminant", lambda: GenerativeClassifier(MultivariateGaussian("diagonal"))),
    Subject("NaiveBayes", "bayes", NaiveBayes),
    Subject("NaiveBayes, gaussian", "bayes", lambda: NaiveBayes(features="gaussian"), lambda: plain(3)),
    Subject("NaiveBayes, bernoulli", "bayes", lambda: NaiveBayes(features="bernoulli"), YES_NO, "yes and no"),
    Subject("NaiveBayes, poisson", "bayes", lambda: NaiveBayes(features="poisson"), COUNTS, "counts"),
    Subject("NaiveBayes, multinomial", "bayes", lambda: NaiveBayes(features="multinomial"), COUNTS, "counts"),
    Subject("NaiveBayes, categorical", "bayes", lambda: NaiveBayes(features="categorical"), COUNTS, "categories"),
    Subject("ModelAverage", "average", two_priors),
]


@cache
def public() -> set[str]:
    """Names of all estimators that the package offers."""
    offered = ((name, getattr(credibly, name)) for name in credibly.__all__)
    return {name for name, it in offered if isinstance(it, type) and hasattr(it, "fit")}
