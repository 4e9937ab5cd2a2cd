import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    GaussianProcessClassifier,
    LeastSquaresClassifier,
    LinearDiscriminant,
    ModelAverage,
    NaiveBayes,
    QuadraticDiscriminant,
    plots,
)
from credibly.basis import GaussianBasis
from credibly.errors import InputError
from credibly.plots.rows import Rows
from credibly.tables.model import TableModel


def edges(collection, x):
    """Lower and upper edge at given places, whatever the order of the corners."""
    corners = collection.get_paths()[0].vertices
    inside = [corners[np.isclose(corners[:, 0], at, rtol=1e-12), 1] for at in x]
    return np.array([[values.min(), values.max()] for values in inside])


def rows_along(X, column, x):
    rows = pd.DataFrame([X.median()] * len(x)).reset_index(drop=True)
    rows[column] = x
    return rows


# --- effect -------------------------------------------------------------------------------------------------


def test_line_and_band_are_what_the_model_says_of_rows_at_the_medians(cancer, logit):
    ax = plots.effect(logit, cancer.X, "mean texture", level=0.8)
    x, p = ax.lines[0].get_data()
    assert x[0] == cancer.X["mean texture"].min() and x[-1] == cancer.X["mean texture"].max()
    rows = rows_along(cancer.X, "mean texture", x)
    assert_allclose(p, logit.predict_proba(rows)[:, 1], rtol=1e-12)
    assert_allclose(edges(ax.collections[0], x), logit.predict_interval(rows, 0.8), rtol=1e-12)
    assert ax.get_ylabel() == "P(malignant)" and ax.get_xlabel() == "mean texture"


def test_the_first_class_is_what_is_left(cancer, logit):
    first, second = (plots.effect(logit, cancer.X, 0, label=label) for label in ("benign", "malignant"))
    x, p = first.lines[0].get_data()
    assert_allclose(p, 1 - second.lines[0].get_ydata(), atol=1e-12)
    assert_allclose(edges(first.collections[0], x), 1 - edges(second.collections[0], x)[:, ::-1], atol=1e-12)


def test_several_classes_add_up_to_one(iris, softmax):
    ax = plots.effect(softmax, iris.X, "sepal width (cm)")
    lines = ax.lines[:3]
    assert_allclose(sum(line.get_ydata() for line in lines), 1, atol=1e-9)
    limits = softmax.predict_interval(rows_along(iris.X, "sepal width (cm)", lines[0].get_xdata()))
    for k in range(3):
        assert_allclose(edges(ax.collections[k], lines[k].get_xdata()), limits[:, k], atol=1e-9)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == softmax.classes_.tolist()
    one = plots.effect(softmax, iris.X, "sepal width (cm)", label="virginica")
    assert_allclose(one.lines[0].get_ydata(), lines[2].get_ydata())
    assert one.get_legend() is None


def test_arrays_and_frames_give_the_same_line(cancer):
    X, y = cancer.X.to_numpy(), cancer.y
    model = BayesianLogisticRegression().fit(X, y)
    ax = plots.effect(model, X, 1)
    named = plots.effect(BayesianLogisticRegression().fit(*cancer), cancer.X, "mean texture")
    assert_allclose(ax.lines[0].get_ydata(), named.lines[0].get_ydata(), rtol=1e-12)
    assert ax.get_xlabel() == "column 1"


def test_zero_and_one_are_points(cancer):
    X = cancer.X.assign(large=(cancer.X["mean radius"] > 15).astype(int))
    model = BayesianLogisticRegression().fit(X, cancer.y)
    ax = plots.effect(model, X, "large")
    rows = rows_along(X, "large", [0, 1])
    assert_allclose(ax.lines[0].get_ydata(), model.predict_proba(rows)[:, 1], rtol=1e-12)
    bars = np.array(ax.collections[0].get_segments())[:, :, 1]
    assert_allclose(bars, model.predict_interval(rows), rtol=1e-12)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0\n396 rows", "1\n173 rows"]


def test_the_average_is_that_of_rows_with_the_value_replaced(cancer, logit):
    few = cancer.X.iloc[:40]
    ax = plots.effect(logit, few, "mean radius", others="average")
    x, p = ax.lines[0].get_data()
    for at in (0, 20, 40):
        assert_allclose(p[at], logit.predict_proba(few.assign(**{"mean radius": x[at]}))[:, 1].mean(), rtol=1e-12)
    low, high = edges(ax.collections[0], x).T
    assert ((low < p) & (p < high)).all()


def test_the_band_of_an_average_holds_averages_that_share_their_weights(cancer, logit):
    few = cancer.X.iloc[:150]
    ax = plots.effect(logit, few, "mean radius", others="average")
    x = ax.lines[0].get_xdata()
    low, high = edges(ax.collections[0], x).T
    draws = logit.sample_proba(few.assign(**{"mean radius": x[20]}), 4000, random_state=1)[..., 1].mean(axis=1)
    # A 5 % quantile of 200 draws has a standard error of √(0.05·0.95/200)/φ(1.645) = 0.15 standard deviations.
    assert_allclose([low[20], high[20]], np.quantile(draws, [0.05, 0.95]), atol=4 * 0.15 * draws.std())


@pytest.mark.parametrize("others", ["median", "average"])
def test_every_kind_of_model_can_be_drawn(iris, others):
    X, y = iris.X.iloc[:, :2], iris.y == "versicolor"
    models = [
        GaussianProcessClassifier(optimize=False),
        QuadraticDiscriminant(),
        NaiveBayes(),
        make_pipeline(StandardScaler(), BayesianLogisticRegression()),
        make_pipeline(GaussianBasis(centers=4), BayesianLogisticRegression(inference="ep")),
    ]
    for model in models:
        ax = plots.effect(model.fit(X, y), X, 0, others=others)
        x, p = ax.lines[0].get_data()
        low, high = edges(ax.collections[0], x).T
        assert (low < high).all() and ((low <= p) & (p <= high)).mean() > 0.9  # a mean may leave a skew interval


def test_models_without_intervals_have_no_band_and_say_so(iris):
    models = [LinearDiscriminant(parameters="plugin"), ModelAverage([BayesianLogisticRegression()], random_state=0)]
    for model in models:
        ax = plots.effect(model.fit(*iris), iris.X, 0)
        assert not ax.collections
        assert any("no interval" in text.get_text() for text in ax.texts)


def test_a_glm_shows_the_mean_of_its_target(cancer):
    target = cancer.X["mean radius"].round()
    model = BayesianGLM("poisson").fit(cancer.X.iloc[:, 1:], target)
    ax = plots.effect(model, cancer.X.iloc[:, 1:], "mean texture")
    x, mean = ax.lines[0].get_data()
    assert_allclose(mean, model.predict(rows_along(cancer.X.iloc[:, 1:], "mean texture", x)), rtol=1e-12)
    assert ax.get_ylabel() == "mean of the target"
    with pytest.raises(InputError, match="no label"):
        plots.effect(model, cancer.X.iloc[:, 1:], 0, label=1)


def test_tables_with_words_are_drawn_by_their_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"dose": rng.normal(size=90), "sex": rng.choice(["f", "m"], 90), "site": rng.choice(list("abc"), 90)}
    )
    frame["ill"] = np.where(rng.random(90) < 1 / (1 + np.exp(-frame["dose"] - (frame["sex"] == "m"))), "yes", "no")
    model = TableModel.fit(BayesianLogisticRegression(), frame, "ill")
    ax = plots.effect(model, frame, "site")
    assert [label.get_text()[0] for label in ax.get_xticklabels()] == list("abc")
    typical = pd.DataFrame(
        {"dose": frame["dose"].median(), "sex": frame["sex"].mode()[0], "site": list("abc"), "ill": "no"}
    )
    assert_allclose(ax.lines[0].get_ydata(), model.predict_proba(typical)[:, 1], rtol=1e-12)
    for others in ("median", "average"):
        ax = plots.effect(model, frame, "dose", others=others)
        assert len(ax.collections) == 1
    assert len(plots.latent_function(model, frame, frame["ill"], "dose").lines) == 4


def test_few_rows_are_ticks_and_many_a_histogram(cancer, iris, logit, softmax):
    assert len(plots.effect(softmax, iris.X, 0).lines[-1].get_xdata()) == 150
    bars = plots.effect(logit, cancer.X, 0).patches
    assert len(bars) == 40 and max(bar.get_height() for bar in bars) == pytest.approx(0.075)


def test_wrong_requests_are_refused(cancer, logit):
    wrong = {
        "no column 'radius'": lambda: plots.effect(logit, cancer.X, "radius"),
        "none of the classes": lambda: plots.effect(logit, cancer.X, 0, label="healthy"),
        "others must be one of": lambda: plots.effect(logit, cancer.X, 0, others="mean"),
        "level must": lambda: plots.effect(logit, cancer.X, 0, level=90),
        "not fitted yet": lambda: plots.effect(BayesianLogisticRegression(), cancer.X, 0),
        "has no predict_interval": lambda: plots.effect(LeastSquaresClassifier().fit(*cancer), cancer.X, 0),
        "must be a fitted estimator": lambda: plots.effect("model", cancer.X, 0),
    }
    for message, draw in wrong.items():
        with pytest.raises(InputError, match=message):
            draw()


# --- latent function ----------------------------------------------------------------------------------------


def test_the_latent_function_of_a_process(iris):
    x, y = iris.X.iloc[:, :1], iris.y == "versicolor"
    model = GaussianProcessClassifier().fit(x, y)
    ax = plots.latent_function(model, x, y, level=0.8)
    at, mean = ax.lines[0].get_data()
    m, v = model.predict_latent(pd.DataFrame({x.columns[0]: at}))
    assert_allclose(mean, m)
    half = ndtri(0.9) * np.sqrt(v)
    assert_allclose(edges(ax.collections[0], at), np.column_stack([m - half, m + half]))
    ticks = {line.get_label(): len(line.get_xdata()) for line in ax.lines[2:]}
    assert ticks == {"rows of False": 100, "rows of True": 50}


def test_scores_of_several_classes_sum_to_zero(iris, process, softmax):
    for model, X in ((process, iris.X.iloc[:, :2]), (softmax, iris.X)):
        ax = plots.latent_function(model, X, iris.y, column="sepal width (cm)")
        lines = np.array([line.get_ydata() for line in ax.lines[:3]])
        assert_allclose(lines.sum(axis=0), 0, atol=1e-9)
        x = ax.lines[0].get_xdata()
        mean, cov = model.predict_latent(rows_along(X, "sepal width (cm)", x))
        first = np.array([2, -1, -1]) / 3
        half = ndtri(0.95) * np.sqrt(np.einsum("i,nij,j->n", first, cov, first))
        assert_allclose(lines[0], mean @ first, atol=1e-9)
        assert_allclose(np.diff(edges(ax.collections[0], x))[:, 0], 2 * half, rtol=1e-9)


def test_one_class_against_the_rest_keeps_its_own_functions(iris):
    x = iris.X.iloc[:, :1]
    model = GaussianProcessClassifier(inference="ep", optimize=False).fit(x, iris.y)
    ax = plots.latent_function(model, x)
    at = ax.lines[0].get_xdata()
    mean, _ = model.predict_latent(pd.DataFrame({x.columns[0]: at}))
    assert_allclose([line.get_ydata() for line in ax.lines[:3]], mean.T)


def test_scores_of_a_glm_and_of_a_pipeline(cancer):
    target = cancer.X["mean radius"].round()
    model = BayesianGLM("poisson").fit(cancer.X.iloc[:, 1:], target)
    assert plots.latent_function(model, cancer.X.iloc[:, 1:], target).get_ylabel() == "log of the mean"
    pipeline = make_pipeline(StandardScaler(), BayesianLogisticRegression()).fit(*cancer)
    ax = plots.latent_function(pipeline, *cancer, column=1)
    plain = plots.latent_function(BayesianLogisticRegression().fit(*cancer), *cancer, column=1)
    # The scores are the same function of the rows; the prior's scale is learnt to its own tolerance.
    assert_allclose(ax.lines[0].get_ydata(), plain.lines[0].get_ydata(), rtol=1e-5)


def test_models_and_columns_without_a_latent_function(iris, discriminant):
    with pytest.raises(InputError, match=r"try plots\.effect; LinearDiscriminant has no predict_latent"):
        plots.latent_function(discriminant, *iris)
    model = GaussianProcessClassifier(optimize=False).fit(iris.X.iloc[:, :1], iris.y == "setosa")
    with pytest.raises(InputError, match="labels that the model does not know"):
        plots.latent_function(model, iris.X.iloc[:, :1], iris.y)
    with pytest.raises(InputError, match="one label for each of the 150 rows"):
        plots.latent_function(model, iris.X.iloc[:, :1], [True])


def test_it_draws_where_it_is_told_to(cancer, logit):
    _, (left, right) = plt.subplots(1, 2)
    assert plots.effect(logit, cancer.X, 0, ax=left) is left
    assert plots.latent_function(logit, *cancer, ax=right) is right


def test_levels_that_are_columns_of_0_and_1_are_drawn_as_one_category():
    rng = np.random.default_rng(0)
    ward = rng.integers(3, size=90)
    X = pd.DataFrame(
        {"age": rng.normal(size=90), **{f"ward={name}": (ward == k) + 0.0 for k, name in enumerate("abc")}}
    )
    y = rng.random(90) < np.array([0.2, 0.5, 0.8])[ward]
    model = BayesianLogisticRegression().fit(X, y)
    ax = plots.effect(model, X, "ward")
    at = pd.DataFrame([[np.median(X["age"]), *row] for row in np.eye(3)], columns=X.columns)
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), model.predict_proba(at)[:, 1])
    assert [it.get_text().split()[0] for it in ax.get_xticklabels()] == ["a", "b", "c"]
    typical = Rows.of(X).typical(1)
    assert typical.iloc[0, 1:].tolist() == np.eye(3)[np.bincount(ward).argmax()].tolist()
