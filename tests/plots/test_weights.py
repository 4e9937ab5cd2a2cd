import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    LinearDiscriminant,
    ModelAverage,
    NaiveBayes,
    Normal,
    QuadraticDiscriminant,
    plots,
)
from credibly.errors import InputError


def names_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def points(ax):
    """Positions of the points of every class, (K, n, 2)."""
    return np.array(
        [found.get_offsets() for found in ax.collections if hasattr(found, "get_sizes") and len(found.get_sizes())]
    )


def segments(ax):
    """Ends of the intervals of every class, (K, n, 2)."""
    lines = [found.get_segments() for found in ax.collections if hasattr(found, "get_segments")]
    return np.array(lines)[..., 0]


def test_points_are_coefficients_per_standard_deviation_strongest_first(cancer, logit):
    ax = plots.coefficients(logit, level=0.8)
    per_sd = logit.coef_[0] * cancer.X.std(ddof=0).to_numpy()
    order = np.argsort(-np.abs(per_sd))
    assert names_of(ax) == cancer.X.columns[order].tolist()
    assert_allclose(points(ax)[0, :, 0], per_sd[order], rtol=1e-12)
    assert_allclose(points(ax)[0, :, 1], np.arange(3))
    ends = logit.posterior_.interval(0.8)[:3] * cancer.X.std(ddof=0).to_numpy()[:, None]
    assert_allclose(segments(ax)[0], ends[order], rtol=1e-12)
    assert ax.yaxis_inverted() and "log odds for one standard deviation" in ax.get_xlabel()
    assert "80 % interval leaves out zero" in ax.get_legend().get_texts()[0].get_text()


def test_in_units_of_the_columns(logit):
    ax = plots.coefficients(logit, standardized=False)
    assert_allclose(np.sort(points(ax)[0, :, 0]), np.sort(logit.coef_[0]), rtol=1e-12)
    assert "one unit more" in ax.get_xlabel()


def test_hollow_points_have_intervals_with_zero():
    X, y = load_breast_cancer(return_X_y=True)
    model = BayesianLogisticRegression().fit(X, y)
    ax = plots.coefficients(model, most=12)
    low, high = segments(ax)[0].T
    faces = ax.collections[1].get_facecolors()
    assert len(low) == 12 and "the 12 strongest of 30" in ax.get_title(loc="left")
    assert 0 < ((low > 0) | (high < 0)).sum() < 12
    assert_allclose((faces[:, :3] == 1).all(axis=1), (low < 0) & (high > 0))


def test_classes_are_drawn_by_what_is_determined(iris, softmax):
    ax = plots.coefficients(softmax)
    sd = iris.X.std(ddof=0).to_numpy()
    order = [iris.X.columns.tolist().index(name) for name in names_of(ax)]
    assert_allclose(points(ax)[..., 0], (softmax.coef_ * sd)[:, order], rtol=1e-9)
    # The covariance of w_k less the mean over classes, by hand.
    contrast = np.kron(np.eye(3) - 1 / 3, np.eye(5))
    spread = np.sqrt(np.diag(contrast @ softmax.posterior_.cov @ contrast.T)).reshape(3, 5)[:, :4]
    widths = np.diff(segments(ax), axis=2)[..., 0]
    assert_allclose(widths, (2 * ndtri(0.95) * spread * sd)[:, order], rtol=1e-9)
    assert [text.get_text() for text in ax.get_legend().get_texts()][:3] == softmax.classes_.tolist()
    assert len(np.unique(points(ax)[..., 1])) == 12  # no two on one line


def test_draws_have_the_intervals_of_their_summary(cancer):
    some = np.random.default_rng(0).permutation(len(cancer.y))[:60]
    model = BayesianLogisticRegression(inference="exact", prior=Normal(scale=1.0)).fit(
        cancer.X.iloc[some], cancer.y[some]
    )
    frame = model.summary(0.9).to_frame()
    ax = plots.coefficients(model, standardized=False)
    assert_allclose(segments(ax)[0], frame.loc[names_of(ax), ["lower", "upper"]], rtol=1e-12)


def test_a_generative_model_shows_its_class_means(iris, discriminant):
    ax = plots.coefficients(discriminant, standardized=False)
    frame = discriminant.summary(0.9).to_frame().drop(columns="spread").unstack(0)
    center = frame["mean"].mean(axis=1)
    order = names_of(ax)
    for k, label in enumerate(discriminant.classes_):
        assert_allclose(points(ax)[k, :, 0], (frame["mean"][label] - center)[order], rtol=1e-12)
        assert_allclose(segments(ax)[k, :, 1], (frame["upper"][label] - center)[order], rtol=1e-12)
    spread = np.sqrt((discriminant.summary().columns["spread"].reshape(3, -1) ** 2).mean(axis=0))
    scaled = points(plots.coefficients(discriminant))[..., 0]
    raw = np.array([points(ax)[k, [order.index(name) for name in iris.X.columns], 0] for k in range(3)]) / spread
    assert_allclose(np.sort(scaled, axis=None), np.sort(raw, axis=None), rtol=1e-9)
    assert ax.get_title(loc="left") == "Class means"


def test_estimated_parameters_have_points_alone(iris):
    ax = plots.coefficients(LinearDiscriminant(parameters="plugin").fit(*iris))
    assert len(ax.collections) == 3 and points(ax).shape == (3, 4, 2)
    assert len(ax.get_legend().get_texts()) == 3


def test_naive_bayes_of_words():
    X = np.array([["a", "x"], ["b", "x"], ["a", "y"], ["b", "y"], ["a", "x"]], dtype=object)
    ax = plots.coefficients(NaiveBayes().fit(X, [0, 0, 1, 1, 1]))
    assert len(names_of(ax)) == points(ax).shape[1] > 0


def test_a_pipeline_shows_its_last_step_by_the_names_that_reach_it(cancer):
    model = make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler(), BayesianLogisticRegression())
    model.fit(*cancer)
    ax = plots.coefficients(model)
    assert set(names_of(ax)) == set(model[:-1].get_feature_names_out())


def test_glms_and_probits_name_their_score(cancer):
    counts = BayesianGLM("poisson").fit(cancer.X, cancer.X["mean radius"].round())
    assert "log of the mean" in plots.coefficients(counts).get_xlabel()
    assert "log odds" not in plots.coefficients(BayesianProbitRegression().fit(*cancer)).get_xlabel()


def test_the_axis_of_odds_is_the_exponential_of_the_other(logit):
    ax = plots.coefficients(logit)
    (top,) = ax.child_axes
    shown = {label.get_text(): at for label, at in zip(top.get_xticklabels(), top.get_xticks(), strict=True)}
    assert_allclose(shown["×2"], np.log(2))
    assert_allclose(shown["×10"], np.log(10))


def test_what_has_no_coefficients_is_refused(iris):
    gp = GaussianProcessClassifier(optimize=False).fit(iris.X.iloc[:, :1], iris.y == "setosa")
    with pytest.raises(InputError, match=r"no coefficients.*plots\.effect"):
        plots.coefficients(gp)
    with pytest.raises(InputError, match="not fitted yet"):
        plots.coefficients(BayesianLogisticRegression())
    with pytest.raises(InputError, match="ModelAverage has neither a posterior of weights nor"):
        plots.coefficients(ModelAverage([]))


@pytest.mark.parametrize("wrong", [{"level": 1.0}, {"most": 0}, {"standardized": "yes"}])
def test_wrong_choices_are_refused(logit, wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must"):
        plots.coefficients(logit, **wrong)


def test_quadratic_models_have_class_means_too(cancer):
    assert plots.coefficients(QuadraticDiscriminant().fit(*cancer)).get_title(loc="left") == "Class means"
