"""Who is compared with whom: our defaults and scikit-learn's counterparts.

Ours get the columns as they are; the linear models and Gaussian processes of scikit-learn get them standardised.
`max_iter` is raised so that scikit-learn's solver arrives. `LogisticRegressionCV` chooses its penalty by log loss, the
score used here, and not by its default, accuracy.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier as SklearnGaussianProcess
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import credibly

GP_ROWS = 1_000  # Gaussian processes cost n³: larger sets are left out


class Model(NamedTuple):
    label: str
    make: Callable[[], Any]
    ours: bool
    most_rows: float = float("inf")
    most_classes: float = float("inf")

    def takes(self, n: int, classes: int) -> bool:
        return n <= self.most_rows and classes <= self.most_classes


def logistic(inference: str, **limits: float) -> Model:
    def make() -> Any:
        return credibly.BayesianLogisticRegression(inference=inference)

    return Model(f'`inference="{inference}"`', make, True, **limits)


def standardised(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


MODELS = {
    "logistic": Model("credibly", credibly.BayesianLogisticRegression, True),
    "sk-logistic": Model("scikit-learn", lambda: standardised(LogisticRegression(max_iter=10_000)), False),
    "sk-logistic-cv": Model(
        "scikit-learn, C by CV",
        lambda: standardised(
            LogisticRegressionCV(max_iter=10_000, scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False)
        ),
        False,
    ),
    "boosting": Model("gradient boosting", lambda: HistGradientBoostingClassifier(random_state=0), False),
    "forest": Model("random forest", lambda: RandomForestClassifier(random_state=0), False),
    "laplace": logistic("laplace"),
    "ep": logistic("ep", most_classes=2),
    "variational": logistic("variational"),
    "exact": logistic("exact"),
    "gp": Model("credibly", credibly.GaussianProcessClassifier, True, GP_ROWS),
    "sk-gp": Model(
        "scikit-learn", lambda: standardised(SklearnGaussianProcess(ConstantKernel() * RBF())), False, GP_ROWS
    ),
    "lda": Model("credibly", credibly.LinearDiscriminant, True),
    "sk-lda": Model("scikit-learn", LinearDiscriminantAnalysis, False),
    "qda": Model("credibly", credibly.QuadraticDiscriminant, True),
    "sk-qda": Model("scikit-learn", QuadraticDiscriminantAnalysis, False),
    "naive-bayes": Model("credibly", credibly.NaiveBayes, True),
    "sk-naive-bayes": Model("scikit-learn", GaussianNB, False),
}
QUICK = ("logistic", "sk-logistic")
EXTRA = ("laplace", "ep", "variational", "exact")

PAIRS = {  # ours: (the counterpart, the title of the section)
    "logistic": ("sk-logistic", "Logistic regression"),
    "gp": ("sk-gp", "Gaussian processes"),
    "lda": ("sk-lda", "Linear discriminants"),
    "qda": ("sk-qda", "Quadratic discriminants"),
    "naive-bayes": ("sk-naive-bayes", "Naive Bayes"),
}
