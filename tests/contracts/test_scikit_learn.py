"""scikit-learn's own checks: every public class as it comes, and (marked slow) with other choices."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

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
    NormalMixture,
    QuadraticDiscriminant,
    StudentT,
)
from credibly.class_conditionals import MultivariateGaussian
from credibly.kernels import RBF
from helpers import SKLEARN_1_6

# The checks' tables have separated classes, fewer rows than columns, or columns that fit the target exactly.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The posterior is too far from every approximation"),
]


def each(*names: str, because: str) -> dict[str, str]:
    """Checks that are expected to fail."""
    return dict.fromkeys((f"check_{name}" for name in names), because)


WEIGHTS = ("sample_weight_equivalence_on_dense_data", "sample_weight_equivalence_on_sparse_data")
# In scikit-learn 1.6 this check makes two classes of three by the label that comes first, which in its shuffled rows is
# another one than in its repeated rows: what it compares are fits to different labels.
OTHER_LABELS = each(*WEIGHTS, because="the check gives weighted and repeated rows different labels")
BINARY = (BayesianProbitRegression, NoisyThresholdClassifier)
CELLS = each("dtype_object", because="what every model said of the cells comes as one InputError, not as a TypeError")


def known(model):
    if isinstance(model, ModelAverage):
        return CELLS
    return OTHER_LABELS if SKLEARN_1_6 and isinstance(model, BINARY) else {}


def accepts(models, expected):
    return parametrize_with_checks(models, expected_failed_checks=expected)


NARROW, WIDE = (BayesianLogisticRegression(prior=Normal(scale)) for scale in (1.0, 10.0))
DEFAULTS = [
    BayesianLogisticRegression(),
    BayesianProbitRegression(),
    NoisyThresholdClassifier(),
    LeastSquaresClassifier(),
    BayesianGLM(),
    LinearDiscriminant(),
    QuadraticDiscriminant(),
    NaiveBayes(),
    GenerativeClassifier(),
    GaussianProcessClassifier(),
    ModelAverage([NARROW, WIDE]),
]


@accepts(DEFAULTS, known)
def test_scikit_learn_accepts_every_class(estimator, check):
    check(estimator)


LOGIT, PROBIT, THRESHOLD, GP = (
    BayesianLogisticRegression,
    BayesianProbitRegression,
    NoisyThresholdClassifier,
    GaussianProcessClassifier,
)
FIXED = 4.0 * RBF(2.0)
VARIANTS = [
    LOGIT(prior="ard", inference="laplace"),
    LOGIT(prior=Normal(), n_jobs=2),
    LOGIT(fit_intercept=False),
    LOGIT(prior=Normal(), multi_class="softmax"),
    LOGIT(prior=Normal(), solver="sgd", max_iter=20),
    LOGIT(prior=StudentT(), label_noise=0.05),
    *(LOGIT(prior=Normal(), inference=rung) for rung in ("laplace", "variational", "ep")),
    LOGIT(inference="ep"),
    LOGIT(prior=Normal(standardized=True)),
    PROBIT(prior=Normal(), fit_intercept=False),
    PROBIT(prior="ard", inference="laplace"),
    PROBIT(prior=Normal(), inference="ep"),
    PROBIT(prior=Normal(), solver="sgd", max_iter=20),
    THRESHOLD("cauchy", prior=Normal()),
    THRESHOLD("gumbel"),
    THRESHOLD(NormalMixture([0.4, 0.6], [-1.0, 1.0], [1.0, 2.0]), prior=Normal()),
    LeastSquaresClassifier(prior="empirical"),
    BayesianGLM(prior=Normal(), dispersion=1.0),
    GenerativeClassifier(MultivariateGaussian("spherical")),
    GenerativeClassifier(MultivariateGaussian("diagonal"), class_prior="uniform"),
    LinearDiscriminant(parameters="plugin", shrinkage=0.2),
    NaiveBayes(features="gaussian", n_jobs=2),
    GP(),
    GP(FIXED, optimize=False, inference="adf"),
    GP(FIXED, optimize=False, inference="ep"),
    GP(FIXED, optimize=False, inference="ep", likelihood="probit"),
    GP(likelihood="softmax"),
    GP(inference="ep"),
    GP(inference="adf"),
]


@pytest.mark.slow  # minutes, and little that the classes as they come do not tell
@accepts(VARIANTS, known)
def test_scikit_learn_accepts_other_choices(estimator, check):
    if getattr(estimator, "prior", "") == "ard" and check.func.__name__.removeprefix("check_") in WEIGHTS:
        pytest.xfail("of several maxima in many scales the search ends in one or the other, as rounding has it")
    check(estimator)


# --- models that refuse some tables of the checks -----------------------------------------------------------------

FEW_ROWS = each(*WEIGHTS, because="fewer rows than columns, or one value in a class, without a prior")
COLLINEAR = each("sample_weights_shape", "sample_weights_not_overwritten", because="columns are collinear")
OTHER_TABLES = each("n_features_in_after_fitting", "dtype_object", because="fewer rows than columns")
THREE_CLASSES = each(
    *("classifiers_classes", "classifiers_train", "dict_unchanged", "dont_overwrite_parameters", "dtype_object"),
    *("estimators_fit_returns_self", "estimators_overwrite_params", "f_contiguous_array_estimator", "fit2d_predict1d"),
    *("fit_score_takes_y", "methods_sample_order_invariance", "methods_subset_invariance"),
    *("non_transformer_estimators_n_iter", "positive_only_tag_during_fit", "readonly_memmap_input", "supervised_y_2d"),
    *([] if SKLEARN_1_6 else ["n_features_in_after_fitting"]),
    because="a check with three or four classes, which a Laplace probit refuses with the way on",
)


def refused(model):
    if isinstance(model, GaussianProcessClassifier):
        return THREE_CLASSES
    collinear = isinstance(model, LinearDiscriminant | QuadraticDiscriminant)
    other = SKLEARN_1_6 and isinstance(model, QuadraticDiscriminant)
    return FEW_ROWS | (COLLINEAR if collinear else {}) | (OTHER_TABLES if other else {})


@pytest.mark.slow
@accepts(
    [
        BayesianGLM(prior=None),
        LinearDiscriminant(parameters="plugin"),
        QuadraticDiscriminant(prior="reference"),
        NaiveBayes(parameters="moment"),
        GaussianProcessClassifier(likelihood="probit"),
    ],
    refused,
)
def test_scikit_learn_accepts_models_without_priors_where_rows_suffice(estimator, check):
    check(estimator)
