import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from credibly import BayesianGLM, BayesianLogisticRegression, LinearDiscriminant, QuadraticDiscriminant, plots
from credibly.errors import InputError
from credibly.plots.style import COLOURS


def lines_at(ax, level):
    """Points of the line of equal probability."""
    for found in ax.collections:
        levels = getattr(found, "levels", None)
        if levels is not None and not found.filled and np.isclose(levels, level).any():
            return found.get_paths()[int(np.isclose(levels, level).argmax())].vertices
    raise AssertionError("no such line")


def test_the_line_of_one_half_is_where_the_probability_is(cancer):
    X, y = cancer.X.iloc[:, :2], cancer.y
    model = BayesianLogisticRegression().fit(X, y)
    ax = plots.decision_surface(model, X, y)
    at = lines_at(ax, 0.5)
    rows = X.iloc[: len(at)].assign(**{"mean radius": at[:, 0], "mean texture": at[:, 1]})
    # Linear interpolation between points of the grid.
    assert_allclose(model.predict_proba(rows)[:, 1], 0.5, atol=2e-3)
    score = at @ model.coef_[0] + model.intercept_
    assert_allclose(score, 0, atol=1e-2)


def test_both_panels_show_the_data_and_share_their_axes(cancer):
    X, y = cancer.X.iloc[:, :2], cancer.y
    ax = plots.decision_surface(QuadraticDiscriminant().fit(X, y), X, y)
    left, right, *bars = ax.figure.axes
    assert left is ax and len(bars) == 2
    for panel in (left, right):
        drawn = {line.get_label(): line.get_xydata() for line in panel.lines}
        for label in ("benign", "malignant"):
            assert_allclose(drawn[label], X[y == label])
    assert left.get_xlim() == right.get_xlim() and left.get_xlabel() == right.get_xlabel() == "mean radius"
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["benign", "malignant"]


def test_the_width_is_that_of_the_interval(cancer):
    X, y = cancer.X.iloc[:, :2], cancer.y
    model = BayesianLogisticRegression().fit(X.iloc[:40], y[:40])
    ax = plots.decision_surface(model, X, y, show="width", level=0.8)
    field = next(found for found in ax.collections if getattr(found, "filled", False))
    low, high = model.predict_interval(X, 0.8).T
    assert_allclose(field.levels, np.linspace(0, 1, 11))
    inside = [path.contains_points(X) for path in field.get_paths()]
    # Every row lies in the layer of its own width, but for those nearer to an edge than the grid can tell.
    layer = np.digitize(high - low, field.levels[1:-1])
    agree = np.array([inside[k][i] for i, k in enumerate(layer)])
    assert agree.mean() > 0.9


def test_several_classes_have_the_colour_of_the_most_probable(iris, process):
    X = iris.X.iloc[:, :2]
    ax = plots.decision_surface(process, X, iris.y, show="probability")
    (image,) = ax.images
    left, right, bottom, top = image.get_extent()
    colours = image.get_array()
    n = len(colours)
    i = ((X.iloc[:, 1] - bottom) / (top - bottom) * n).astype(int)
    j = ((X.iloc[:, 0] - left) / (right - left) * n).astype(int)
    proba = process.predict_proba(X)
    sure = np.sort(proba, axis=1)[:, -1] - np.sort(proba, axis=1)[:, -2] > 0.1  # not where two colours meet
    hues = np.array([to_rgb(colour) for colour in COLOURS[:3]])
    for row, k in zip(np.flatnonzero(sure), proba.argmax(axis=1)[sure], strict=True):
        strength = (proba[row].max() - 1 / 3) / (1 - 1 / 3)
        expected = 1 - 0.75 * strength * (1 - hues[k])
        assert_allclose(colours[i[row], j[row]], expected, atol=0.1)  # probabilities change within a cell
    assert len([found for found in ax.collections if hasattr(found, "levels")]) >= 2


def test_other_columns_are_held_at_their_medians(iris, softmax):
    ax = plots.decision_surface(softmax, *iris, ("petal length (cm)", "petal width (cm)"), show="probability")
    colours, (left, right, bottom, top) = ax.images[0].get_array(), ax.images[0].get_extent()
    n = len(colours)
    middle = iris.X.median().to_frame().T
    middle["petal length (cm)"] = left + (right - left) * (70 + 0.5) / n
    middle["petal width (cm)"] = bottom + (top - bottom) * (80 + 0.5) / n
    proba = softmax.predict_proba(middle)[0]
    hue = np.array(to_rgb(COLOURS[proba.argmax()]))
    assert_allclose(colours[80, 70], 1 - 0.75 * (proba.max() * 3 - 1) / 2 * (1 - hue), rtol=1e-9)


def test_one_panel_where_there_is_no_interval_or_axes_are_given(iris, softmax):
    plugin = LinearDiscriminant(parameters="plugin").fit(*iris)
    assert len(plots.decision_surface(plugin, *iris).figure.axes) == 1
    _, mine = plt.subplots()
    assert plots.decision_surface(softmax, *iris, ax=mine) is mine
    assert mine.get_title(loc="left") == "Most probable class"
    with pytest.raises(InputError, match="no intervals"):
        plots.decision_surface(plugin, *iris, show="width")


def test_arrays_and_pipelines(cancer):
    X, y = cancer.X.to_numpy(), cancer.y
    model = make_pipeline(StandardScaler(), BayesianLogisticRegression()).fit(X, y)
    ax = plots.decision_surface(model, X, y, (2, 0))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("column 2", "column 0")
    assert len(ax.figure.axes) == 4


def test_wrong_requests_are_refused(cancer, logit):
    X, y = cancer
    wrong = {
        "two different": lambda: plots.decision_surface(logit, X, y, (0, "mean radius")),
        "must be a pair": lambda: plots.decision_surface(logit, X, y, "mean radius"),
        "no column 'b'": lambda: plots.decision_surface(logit, X, y, ("mean radius", "b")),
        "show must be": lambda: plots.decision_surface(logit, X, y, show="both"),
        "not made of different numbers": lambda: plots.decision_surface(logit, X.assign(**{"mean radius": 1.0}), y),
        "labels that the model does not know": lambda: plots.decision_surface(logit, X, y == "benign"),
    }
    for message, draw in wrong.items():
        with pytest.raises(InputError, match=message):
            draw()
    glm = BayesianGLM("gaussian").fit(X.iloc[:, :2], X["mean smoothness"])
    with pytest.raises(InputError, match="has no classes"):
        plots.decision_surface(glm, X, y)
