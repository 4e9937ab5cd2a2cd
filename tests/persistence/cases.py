"""Fitted models of every kind and with every choice that changes what they hold; shared by the tests of saving.

Each case is a function without arguments that fits a model and returns it with rows to predict from. They are small:
what is tested is that everything they hold comes back, not how well they fit.
"""

import datetime
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.gaussian_process import kernels as theirs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

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
    compare,
    laplace_approximation,
)
from credibly import class_conditionals as cc
from credibly import kernels as k
from credibly.basis import GaussianBasis, SigmoidBasis
from credibly.families import NegativeBinomial
from credibly.links import Power
from credibly.model.likelihoods import BernoulliLogit
from credibly.model.likelihoods.distribution import LocationScale
from credibly.model.likelihoods.families import FAMILIES
from credibly.priors import Beta, Dirichlet, Gamma, NormalInverseWishart
from credibly.tables import Choices, TableModel

IRIS, SPECIES = load_iris(return_X_y=True)
TWO = SPECIES > 0  # versicolor and virginica: two classes that overlap
X2, Y2 = IRIS[TWO][::2], SPECIES[TWO][::2] - 1
X3, Y3 = IRIS[::3], SPECIES[::3]
COUNTS = np.round(X2[:, 0] * 2)
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


class Fitted(NamedTuple):
    """A fitted model, rows to predict from, and a batch to learn next (None where it cannot)."""

    model: Any
    X: Any
    more: tuple[Any, Any] | None = None


Case = Callable[[], Fitted]
CASES: dict[str, Case] = {}


def quietly(case: Case) -> Case:
    """Small tables make some models warn (separated, not converged); that is not what is tested here."""

    def fitted() -> Fitted:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return case()

    return fitted


def add(name: str, case: Case) -> None:
    assert name not in CASES, name
    CASES[name] = quietly(case)


def two(model: Any) -> Fitted:
    return Fitted(model.fit(X2, Y2), X2[:9], (X2[1::2], Y2[1::2]))


def three(model: Any) -> Fitted:
    return Fitted(model.fit(X3, Y3), X3[::5], (X3[1::2], Y3[1::2]))


# --- linear ------------------------------------------------------------------------------------------------------

PRIORS = {
    "empirical": "empirical",
    "ard": "ard",
    "normal": Normal(scale=2.0),
    "normal per column": Normal(scale=[1.0, 2.0, 3.0, np.float32(4.0)]),
    "normal with covariance": Normal(mean=np.zeros(4), cov=np.eye(4)),
    "normal on standardized columns": Normal(scale=2.0, standardized=True),
    "student": StudentT(df=4),
    "student on standardized columns": StudentT(df=4, standardized=True),
    "jeffreys": Jeffreys(),
}
for name, prior in PRIORS.items():
    add(f"logistic, {name} prior", partial(lambda prior: two(BayesianLogisticRegression(prior=prior)), prior))

WIDE = np.random.default_rng(5).normal(size=(12, 1100)), np.arange(12) % 2
add("logistic, more columns than rows", lambda: Fitted(BayesianLogisticRegression().fit(*WIDE), WIDE[0][:3], WIDE))
for inference in ("laplace", "variational", "ep", "exact", "auto", "adf", "adf_spherical"):
    add(f"logistic by {inference}", partial(lambda it: two(BayesianLogisticRegression(inference=it)), inference))
add(
    "logistic by exact, hierarchical prior",
    lambda: two(BayesianLogisticRegression(prior="hierarchical", inference="exact")),
)
for name, noise in {
    "number": 0.1,
    "pair": (0.1, 0.05),
    "estimated": "estimate",
    "half estimated": ("estimate", 0.0),
    "Beta": Beta(2.0, 8.0),
}.items():
    add(
        f"logistic, label noise {name}",
        partial(lambda it: two(BayesianLogisticRegression(prior=Normal(1.0), label_noise=it)), noise),
    )
for name, choices in {
    "no intercept": {"fit_intercept": False},
    "sgd": {"solver": "sgd", "random_state": 0, "max_iter": 20},
    "two classes by softmax": {"multi_class": "softmax"},
    "NumPy numbers": {"tol": np.float64(1e-18), "max_iter": np.int64(50), "fit_intercept": np.bool_(True)},
}.items():
    add(f"logistic, {name}", partial(lambda it: two(BayesianLogisticRegression(**it)), choices))
for name, choices in {
    "laplace": {"inference": "laplace"},
    "exact": {"inference": "exact", "prior": Normal(1.0)},
    "auto": {"inference": "auto"},
    "label noise": {"label_noise": 0.1},
    "estimated label noise": {"label_noise": "estimate", "prior": Normal(1.0)},
    "student prior": {"prior": StudentT()},
}.items():
    add(f"softmax, {name}", partial(lambda it: three(BayesianLogisticRegression(**it)), choices))

MIXED_UP = np.arange(len(Y3)) % 3  # labels that no column separates, as maximum likelihood needs
add("logistic, flat prior", lambda: Fitted(BayesianLogisticRegression(prior=None).fit(X3, MIXED_UP > 0), X3[:5]))
add("softmax, flat prior", lambda: Fitted(BayesianLogisticRegression(prior=None).fit(X3, MIXED_UP), X3[:5]))

LABELS = {
    "strings": np.array(["no", "yes"]),
    "unicode": np.array(["Ja 'ø'", "日本 <b>$x$"]),
    "bytes": np.array([b"no", b"yes"]),
    "booleans": np.array([False, True]),
    "large integers": np.array([2**62, 2**63], dtype=np.uint64),
    "floats": np.array([-0.0, 1.0]),
    "objects": np.array(["no", "yes"], dtype=object),
}
for name, labels in LABELS.items():
    add(
        f"logistic, labels are {name}",
        partial(lambda it: Fitted(BayesianLogisticRegression().fit(X2, it[Y2]), X2[:5]), labels),
    )


def updated(given: Any) -> Fitted:
    model = clone(given)
    model.partial_fit(X2[::2], Y2[::2], classes=[0, 1])
    return Fitted(model.partial_fit(X2[1::2], Y2[1::2]), X2[:9], (X2, Y2))


for name, model in {
    "logistic": BayesianLogisticRegression(prior=Normal(1.0)),
    "logistic by ep": BayesianLogisticRegression(prior=Normal(1.0), inference="ep"),
    "logistic by adf": BayesianLogisticRegression(prior=Normal(1.0), inference="adf"),
    "logistic with label noise": BayesianLogisticRegression(prior=Normal(1.0), label_noise="estimate"),
    "probit": BayesianProbitRegression(prior=Normal(1.0)),
    "LDA": LinearDiscriminant(),
}.items():
    add(f"updated {name}", partial(updated, model))

FRAME2 = pd.DataFrame(X2, columns=NAMES)
add("logistic on a frame", lambda: Fitted(BayesianLogisticRegression().fit(FRAME2, Y2), FRAME2[:5]))
add("logistic on sparse rows", lambda: Fitted(BayesianLogisticRegression().fit(csr_array(X2), Y2), csr_array(X2[:5])))
add("probit", lambda: two(BayesianProbitRegression()))

THRESHOLDS = {
    **{name: name for name in ("logistic", "normal", "cauchy", "gumbel", "gumbel_max", "loglog")},
    "student": StudentT(df=4),
    "mixture": NormalMixture([0.5, 0.5], [-1.0, 1.0], [1.0, 2.0]),
    "scipy t": scipy.stats.t(4),
    "scipy norm": scipy.stats.norm(loc=1.0, scale=2),
    "scipy laplace": scipy.stats.laplace(),
    "scipy hypsecant": scipy.stats.hypsecant(loc=np.float64(0.5)),
    "likelihood": LocationScale(BernoulliLogit(), 1.0, 2.0),
}
for name, threshold in THRESHOLDS.items():
    add(f"threshold {name}", partial(lambda it: two(NoisyThresholdClassifier(it, prior=Normal(1.0))), threshold))

SQUEEZED = (X2[:, :2] - X2[:, :2].min(axis=0)) / 40
GLM_TARGETS = {
    "gaussian": 2.0 + X2[:, 0],
    "bernoulli": Y2.astype(float),
    "binomial": np.column_stack([COUNTS, 30 - COUNTS]),
    "poisson": COUNTS,
    "gamma": 1.0 + X2[:, 0],
    "inverse_gaussian": 1.0 + X2[:, 0],
    "negative_binomial": COUNTS + 1.0,
}


def glm(family: Any, link: Any, y: Any, **choices: Any) -> Fitted:
    model = BayesianGLM(family, link, **{"prior": None, "max_iter": 30, **choices})
    return Fitted(model.fit(SQUEEZED, y), SQUEEZED[:5])


for family, y in GLM_TARGETS.items():
    for link in FAMILIES[family].links:
        if family in {"bernoulli", "binomial"} and link in {"identity", "log", "sqrt", "inverse", "inverse_square"}:
            continue  # means that leave the unit interval: fits that end in an error on most tables
        add(f"GLM {family} with {link}", partial(glm, family, link, y))
    add(f"GLM {family} with a prior", partial(glm, family, None, y, prior="empirical"))
add("GLM of objects", partial(glm, NegativeBinomial(0.5), Power(0.3), GLM_TARGETS["negative_binomial"], prior=Normal()))
add("GLM with fixed dispersion", partial(glm, "gamma", "log", GLM_TARGETS["gamma"], dispersion=0.5))
add("least squares, two classes", lambda: two(LeastSquaresClassifier()))
add("least squares, three classes", lambda: three(LeastSquaresClassifier(prior=Normal(1.0))))


# --- generative --------------------------------------------------------------------------------------------------

GENERATIVE = {
    "default": {},
    "reference prior": {"prior": "reference"},
    "explicit prior": {"prior": NormalInverseWishart(np.zeros(4), 0.1, np.eye(4), 6.0)},
    "plugin": {"parameters": "plugin"},
    "moment": {"parameters": "moment"},
    "shrinkage": {"parameters": "plugin", "shrinkage": 0.2},
    "automatic shrinkage": {"parameters": "plugin", "shrinkage": "ledoit_wolf"},
    "uniform classes": {"class_prior": "uniform"},
    "given classes": {"class_prior": [0.2, 0.3, 0.5]},
    "Dirichlet classes": {"class_prior": Dirichlet(0.5)},
}
for kind in (LinearDiscriminant, QuadraticDiscriminant):
    for name, choices in GENERATIVE.items():
        add(f"{kind.__name__}, {name}", partial(lambda kind, it: three(kind(**it)), kind, choices))


def holes(X: np.ndarray) -> np.ndarray:
    out = X.copy()
    out[::7, 1] = np.nan
    out[3::11, 2] = np.nan
    return out


def with_gaps(model: Any) -> Fitted:
    y = Y3.astype(object)
    y[::6] = None
    return Fitted(model.fit(holes(X3), y), holes(X3)[:9])


for model in (LinearDiscriminant(), QuadraticDiscriminant(), NaiveBayes(), GenerativeClassifier()):
    add(f"{type(model).__name__} with missing cells and labels", partial(with_gaps, model))
add(
    "LDA with a marker for rows without a label",
    lambda: Fitted(LinearDiscriminant(unlabelled=-1).fit(X3, np.where(np.arange(len(Y3)) % 5, Y3, -1)), X3[:5]),
)
add(
    "LDA of declared classes",
    lambda: Fitted(LinearDiscriminant().partial_fit(X3, Y3, classes=[0, 1, 2, 7]), X3[:9], (X3[1::2], Y3[1::2])),
)
MIXED = pd.DataFrame(
    {
        "length": X2[:, 0],
        "count": COUNTS.astype(int),
        "wide": X2[:, 3] > 1.6,
        "text": np.where(X2[:, 2] > 4.5, "long", "short"),
        "level": pd.Categorical(np.where(X2[:, 1] > 3, "b", "a"), categories=["a", "b", "never seen"]),
        "interval": pd.cut(X2[:, 0], 3),
        "group": pd.Categorical(COUNTS.astype(int) % 3),
        "day": pd.Categorical([datetime.date(2024, 1, 1 + int(n) % 4) for n in COUNTS]),
        "moment": pd.Categorical(pd.Timestamp("2024-01-01T12:00:00.123456789") + pd.to_timedelta(COUNTS % 2, unit="D")),
    }
)
MIXED.loc[3, ["text", "level"]] = None


def mixed(model: Any, frame: pd.DataFrame = MIXED) -> Fitted:
    return Fitted(model.fit(frame, Y2), frame[:9], (frame[5:25], Y2[5:25]))


add("NaiveBayes on a mixed frame", lambda: mixed(NaiveBayes()))
add("NaiveBayes, plugin, on a mixed frame", lambda: mixed(NaiveBayes(parameters="plugin")))
add("NaiveBayes with a constant column", lambda: mixed(NaiveBayes(), MIXED.assign(length=1.5)))
add("NaiveBayes with an empty column", lambda: mixed(NaiveBayes(parameters="plugin"), MIXED.assign(length=np.nan)))
add("NaiveBayes, named families", lambda: mixed(NaiveBayes(features={"length": "gamma", "count": cc.Exponential()})))
add("NaiveBayes, priors by column", lambda: two(NaiveBayes(features="gamma", prior=[Gamma(1.0, 1.0)] * 4)))
WHOLE = np.round(X3)
FAMILIES_OF_COLUMNS = {
    "gaussian": (cc.Gaussian(), X3),
    "bernoulli": (cc.Bernoulli(), (X3 > X3.mean(axis=0)).astype(float)),
    "bernoulli of other values": (cc.Bernoulli((1, 2)), (X3 > X3.mean(axis=0)) + 1.0),
    "categorical": (cc.Categorical(), WHOLE),
    "multinomial": (cc.Multinomial(), WHOLE),
    "poisson": (cc.Poisson(), WHOLE),
    "exponential": (cc.Exponential(), X3),
    "gamma": (cc.Gamma(2.0), X3),
    "gamma of unknown shape": (cc.Gamma(), X3),
    **{
        f"{covariance} covariance": (cc.MultivariateGaussian(covariance), X3)
        for covariance in ("shared", "per_class", "diagonal", "spherical")
    },
    "independent": (cc.Independent([cc.Gaussian(), "exponential", cc.Poisson(), "categorical"]), WHOLE + 1.0),
}
for name, (family, X) in FAMILIES_OF_COLUMNS.items():
    for parameters in ("integrated", "plugin"):
        add(
            f"GenerativeClassifier of {name}, {parameters}",
            partial(
                lambda family, X, parameters: Fitted(
                    GenerativeClassifier(family, parameters=parameters).fit(X, Y3), X[::7], (X[::2], Y3[::2])
                ),
                family,
                X,
                parameters,
            ),
        )


# --- Gaussian processes ------------------------------------------------------------------------------------------

KERNELS = {
    "default": None,
    "constant": k.Constant(2.0),
    "white": k.White(0.1) + k.RBF(),
    "RBF per column": 2.0 * k.RBF([1.0, 2.0, 3.0, 4.0]),
    "Matern": k.Matern(2.0, nu=2.5),
    "rational quadratic": k.RationalQuadratic(2.0, alpha=0.7),
    "linear": k.Linear(1.0, bias_bounds=(1e-3, 1e3)),
    "polynomial": k.Polynomial(2, 1.0, columns=[0]),
    "periodic": k.Periodic(1.0, 3.0, columns=[1]),
    "prior": k.RBF(1.0, length_scale_prior=k.LogNormal(1.0, 0.5)),
    "sums and products": (k.RBF(1.0) + k.Linear(0.5)) * (k.Constant(2.0) + k.White(0.2)) + k.Matern(1.0, nu=0.5),
    "scikit-learn's": 1.5 * theirs.RBF([0.7, 1.0, 1.0, 2.0]) + theirs.WhiteKernel(0.1),
    "scikit-learn's others": theirs.Matern(nu=1.5) * theirs.DotProduct(1.0) ** 2
    + theirs.RationalQuadratic()
    + theirs.ConstantKernel(0.3),
}


def process(kernel: Any = None, **choices: Any) -> GaussianProcessClassifier:
    return GaussianProcessClassifier(kernel, **{"optimize": False, **choices})


for name, kernel in KERNELS.items():
    add(f"GP, {name} kernel", partial(lambda it: two(process(it)), kernel))
add("GP, names of columns", lambda: Fitted(process(k.RBF(1.0, columns=NAMES[:2])).fit(FRAME2, Y2), FRAME2[:5]))
add("GP, learnt", lambda: two(GaussianProcessClassifier(1.0 * k.RBF(2.0), max_iter=20)))
for name, choices in {
    "probit by EP": {"inference": "ep", "likelihood": "probit"},
    "by EP": {"inference": "ep"},
    "by ADF": {"inference": "adf"},
    "cauchy": {"likelihood": "cauchy"},
    "scipy threshold": {"likelihood": scipy.stats.t(5)},
    "mixture threshold": {"likelihood": NormalMixture([1.0], [0.0], [1.0])},
    "softmax of two": {"likelihood": "softmax"},
    "label noise": {"label_noise": 0.1},
    "label noise pair": {"label_noise": (0.1, 0.2)},
    "estimated label noise": {"label_noise": "estimate", "optimize": True, "kernel": k.RBF(2.0)},
}.items():
    add(f"GP {name}", partial(lambda it: two(process(**it)), choices))
add("GP softmax of three", lambda: three(process()))
add("GP softmax, a kernel each", lambda: three(process([k.RBF(1.0), k.RBF(2.0), k.Matern(1.0)])))
add("GP one against the rest by EP", lambda: three(process(inference="ep")))
add("GP one against the rest by ADF", lambda: three(process(inference="adf", likelihood="probit")))
add("GP with inducing points", lambda: two(process(inducing=10)))
add("GP with moved inducing points", lambda: two(process(k.RBF(2.0), inducing=5, optimize_inducing=True)))
add("GP with inducing points by EP", lambda: three(process(inducing=X3[::6], inference="ep")))


# --- several models, and other things ----------------------------------------------------------------------------


def candidates() -> dict[str, Any]:
    return {
        "logistic": BayesianLogisticRegression(),
        "basis": make_pipeline(GaussianBasis(centers=5, random_state=0), BayesianLogisticRegression()),
        "GP": process(),
        "NaiveBayes": NaiveBayes(),
    }


add("average of models", lambda: Fitted(compare(candidates(), X2, Y2, random_state=0).average(), X2[:5]))
add("ModelAverage", lambda: two(ModelAverage([BayesianLogisticRegression(), BayesianProbitRegression()], by="bic")))
add("comparison", lambda: Fitted(compare(candidates(), X2, Y2, random_state=0), X2[:5]))
add(
    "pipeline",
    lambda: two(
        make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False), BayesianLogisticRegression())
    ),
)
add(
    "pipeline of bases",
    lambda: two(make_pipeline(MinMaxScaler(), SigmoidBasis(centers=3), BayesianLogisticRegression())),
)
add("basis", lambda: Fitted(GaussianBasis(centers=4, random_state=0).fit(X2), X2[:5]))


def two_wells(z: Any) -> Any:
    return -((z[0] ** 2 - 4) ** 2) / 8 + 0.3 * z[0]


add("density", lambda: Fitted(laplace_approximation(two_wells, 2.0), np.array([[1.0], [2.0]])))
add(
    "density with bounds and modes",
    lambda: Fitted(
        laplace_approximation(
            lambda z: two_wells(z) - z[1], [2.0, 1.0], bounds=[(None, None), (0, 9)], modes=2, random_state=0
        ),
        np.array([[1.0, 2.0], [2.0, 0.5]]),
    ),
)


# --- tables ------------------------------------------------------------------------------------------------------

TABLE = MIXED[["length", "count", "wide", "text", "level"]].assign(species=np.array(["versicolor", "virginica"])[Y2])


def table_model(estimator: Any, frame: pd.DataFrame = TABLE, **choices: Any) -> Fitted:
    return Fitted(TableModel.fit(estimator, frame, "species", Choices(**choices)), TABLE.dropna()[:9])


add("table, logistic", lambda: table_model(BayesianLogisticRegression(), missing="drop"))
add("table, imputed", lambda: table_model(BayesianLogisticRegression(), missing="impute"))
add(
    "table, reference levels",
    lambda: table_model(
        BayesianLogisticRegression(prior=None), TABLE.dropna().assign(species=np.arange(len(TABLE) - 1) % 2)
    ),
)
add("table, NaiveBayes", lambda: table_model(NaiveBayes()))
add("table, GP of some columns", lambda: table_model(process(), features=["length", "count"]))
FORMULA = "species ~ poly(length, 2) + center(count) * text + C(level) + I(length > 6) + ns(length, 3)"
add("formula", lambda: table_model(BayesianLogisticRegression(), TABLE.dropna(), formula=FORMULA))
