import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import average_precision_score, roc_auc_score

from credibly import plots
from credibly.diagnostics import auc
from credibly.errors import InputError

RNG = np.random.default_rng(1)
P = RNG.uniform(size=120).round(2)
Y = np.where(RNG.random(120) < P, "yes", "no")
THREE = RNG.dirichlet([1.0, 2.0, 3.0], size=200)
LABELS = np.array(["a", "b", "c"])[[RNG.choice(3, p=p) for p in THREE]]


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_area_under_the_roc_curve_is_the_one_in_the_legend():
    ax = plots.roc(Y, P, level=0.8)
    x, y = ax.lines[0].get_data()
    area = auc(Y, P, level=0.8)
    assert_allclose(np.trapezoid(y, x), area.value, rtol=1e-12)
    assert legend_of(ax)[0] == f"P(yes): area {area.value:.3f} (80 %: {area.low:.3f} to {area.high:.3f})"
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)


def test_the_area_under_the_steps_is_the_average_precision():
    ax = plots.precision_recall(Y, P)
    recall, precision = ax.lines[0].get_data()
    assert ax.lines[0].get_drawstyle() == "steps-post"
    assert_allclose(-(np.diff(recall) * precision[:-1]).sum(), average_precision_score(Y == "yes", P), rtol=1e-12)
    assert_allclose(ax.lines[1].get_ydata(), (Y == "yes").mean())
    assert f"{average_precision_score(Y == 'yes', P):.3f}" in legend_of(ax)[0]


def test_every_class_against_the_rest_or_one():
    ax = plots.roc(LABELS, THREE)
    assert len(ax.lines) == 4 and len({line.get_color() for line in ax.lines}) == 4
    for k, label in enumerate("abc"):
        x, y = ax.lines[k].get_data()
        assert_allclose(np.trapezoid(y, x), roc_auc_score(LABELS == label, THREE[:, k]), rtol=1e-12)
    assert len(plots.roc(LABELS, THREE, label="c").lines) == 2
    assert "of class c" in plots.precision_recall(LABELS, THREE, label="c").get_ylabel()


def test_the_first_of_two_classes_mirrors_the_second():
    first, second = (np.array(plots.roc(Y, P, label=label).lines[0].get_data()) for label in ("no", "yes"))
    assert_allclose(np.trapezoid(first[1], first[0]), np.trapezoid(second[1], second[0]), rtol=1e-12)


def test_wrong_input_is_refused():
    with pytest.raises(InputError, match="none of the classes"):
        plots.roc(Y, P, label="maybe")
    with pytest.raises(InputError, match="0 rows are of it and 3 are not"):
        plots.precision_recall([0, 0, 0], [0.1, 0.2, 0.3])
    with pytest.raises(InputError, match="12 curves cannot be told apart"):
        plots.roc(np.arange(12), np.full((12, 12), 1 / 12))
