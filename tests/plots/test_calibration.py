import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly import plots
from credibly.diagnostics import reliability_curve
from credibly.errors import InputError

RNG = np.random.default_rng(0)
P = RNG.uniform(size=400)
Y = (RNG.random(400) < P).astype(int)
THREE = RNG.dirichlet([1.0, 2.0, 3.0], size=300)
LABELS = np.array(["a", "b", "c"])[[RNG.choice(3, p=p) for p in THREE]]


def test_points_bars_and_band_are_those_of_the_curve():
    ax = plots.reliability(Y, P, bins=7, level=0.8)
    curve = reliability_curve(Y, P, 7, level=0.8)
    drawn = np.concatenate([it.lines[0].get_xydata() for it in ax.containers])
    order = np.argsort(drawn[:, 0])
    assert_allclose(drawn[order], np.column_stack([curve.predicted, curve.observed]))
    bars = np.concatenate([np.array(it.lines[2][0].get_segments()) for it in ax.containers])
    bars = bars[np.argsort(bars[:, 0, 0])]
    assert_allclose(bars[:, :, 1], np.column_stack([curve.low, curve.high]))
    corners = ax.collections[0].get_paths()[0].vertices
    for p, low, high in zip(curve.predicted, curve.band_low, curve.band_high, strict=True):
        assert_allclose(np.unique(corners[np.isclose(corners[:, 0], p), 1]), np.unique([low, high]))


def test_points_outside_the_band_have_another_colour():
    said = np.where(P < 0.5, P**3, P)  # far too low in one half
    ax = plots.reliability(Y, said, bins=6)
    curve = reliability_curve(Y, said, 6)
    assert 0 < curve.inside.sum() < 6
    inside, outside = ax.containers
    assert_allclose(inside.lines[0].get_xdata(), curve.predicted[curve.inside])
    assert_allclose(outside.lines[0].get_xdata(), curve.predicted[~curve.inside])
    assert inside.lines[0].get_color() != outside.lines[0].get_color()


def test_the_histogram_beneath_counts_all_rows():
    ax = plots.reliability(Y, P)
    (below,) = ax.child_axes
    assert sum(bar.get_height() for bar in below.patches) == len(Y)
    assert below.get_xlim() == ax.get_xlim() and below.get_xlabel() == "said: P(1)" and ax.get_xlabel() == ""


def test_several_classes_by_the_most_probable_or_by_one():
    assert "most probable class" in plots.reliability(LABELS, THREE).child_axes[0].get_xlabel()
    ax = plots.reliability(LABELS, THREE, label="b")
    assert "P(b)" in ax.child_axes[0].get_xlabel()
    drawn = np.sort(np.concatenate([it.lines[0].get_xdata() for it in ax.containers]))
    assert_allclose(drawn, reliability_curve(LABELS, THREE, label="b").predicted)


def test_a_curve_draws_itself_and_becomes_a_frame():
    curve = reliability_curve(Y, P, 4)
    ax = curve.plot()
    assert ax.get_xlabel() == "said: P(1)" and not ax.child_axes
    frame = curve.to_frame()
    assert_array_equal(frame["observed"], curve.observed)
    assert list(frame.columns) == [
        "predicted",
        "observed",
        "count",
        "low",
        "high",
        "band_low",
        "band_high",
        "inside",
    ]


def test_scores_are_refused():
    with pytest.raises(InputError, match="between 0 and 1"):
        plots.reliability(Y, 4 * P)
