"""Basis functions: the displayed equations retyped, exact cases, the law of units, scikit-learn's checks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from credibly.basis import GaussianBasis, SigmoidBasis
from credibly.errors import InputError

EITHER = pytest.mark.parametrize("kind", [GaussianBasis, SigmoidBasis])


@pytest.fixture
def X():
    return np.random.default_rng(3).normal(size=(60, 3)) * [1.0, 50.0, 0.01] + [0.0, 7.0, -2.0]


# --- the equations ----------------------------------------------------------------------------------


def test_a_gaussian_bump_is_the_displayed_equation(X):
    basis = GaussianBasis(centers=4, random_state=0).fit(X)
    naive = [
        [np.exp(-0.5 * sum((x[i] - c[i]) ** 2 / basis.width_[i] ** 2 for i in range(3))) for c in basis.centers_]
        for x in X
    ]
    assert_allclose(basis.transform(X), naive, rtol=1e-12)


def test_one_width_for_all_columns_is_eq_3_4_of_prml(X):
    X = X[:, :2]
    basis = GaussianBasis(centers=X[:5], width=30.0).fit(X)
    naive = [[np.exp(-(np.linalg.norm(x - c) ** 2) / (2 * 30.0**2)) for c in X[:5]] for x in X]
    assert_allclose(basis.transform(X), naive, rtol=1e-12)


def test_a_sigmoidal_step_is_the_displayed_equation(X):
    basis = SigmoidBasis(centers=4).fit(X)
    naive = [[1 / (1 + np.exp(-basis.slope_[i] * (x[i] - c))) for i in range(3) for c in basis.centers_[i]] for x in X]
    assert_allclose(basis.transform(X), naive, rtol=1e-12)


# --- exact cases ------------------------------------------------------------------------------------


def test_a_bump_is_one_at_its_centre_and_falls_by_root_e_within_one_width():
    phi = GaussianBasis(centers=[5.0], width=3.0).fit_transform([[5.0], [8.0], [2.0], [1e6]])
    assert_allclose(phi[:, 0], [1, np.exp(-0.5), np.exp(-0.5), 0], rtol=1e-15)


def test_a_step_is_half_at_its_centre_flat_far_away_and_has_a_quarter_of_the_slope():
    basis = SigmoidBasis(centers=[5.0], slope=0.8).fit([[0.0], [1.0]])
    assert_array_equal(basis.transform([[-1e6], [5.0], [1e6]])[:, 0], [0, 0.5, 1])
    h = 1e-5  # cube root of machine epsilon
    below, above = basis.transform([[5 - h], [5 + h]])[:, 0]
    assert_allclose((above - below) / (2 * h), 0.8 / 4, rtol=1e-9)


def test_widths_and_slopes_may_differ_by_column():
    X = np.array([[0.0, 0.0], [1.0, 10.0]])
    phi = GaussianBasis(centers=[[0.0, 0.0]], width=[1.0, 10.0]).fit_transform(X)
    assert_allclose(phi[:, 0], [1, np.exp(-1)], rtol=1e-15)
    phi = SigmoidBasis(centers=[[0.0, 0.0]], slope=[1.0, 0.1]).fit_transform(X)
    assert_allclose(phi[:, 0], phi[:, 1], rtol=1e-15)


def test_centres_of_one_column_are_the_middles_of_equal_parts():
    X = np.arange(11.0)[:, None]
    for basis in (GaussianBasis(centers=5), SigmoidBasis(centers=5)):
        assert_allclose(np.ravel(basis.fit(X).centers_), [1, 3, 5, 7, 9])


def test_ties_do_not_make_centres_coincide():
    X = np.r_[np.zeros(1000), np.arange(1.0, 12.0)][:, None]
    centers = GaussianBasis(centers=6).fit(X).centers_[:, 0]
    assert (np.diff(centers) > 1).all()


def test_automatic_width_and_slope_are_the_mean_gap_between_neighbouring_centres():
    X = np.linspace(-3, 9, 50)[:, None]
    centers = [0.0, 1.0, 4.0]  # gaps to the nearest: 1, 1, 3
    assert_allclose(GaussianBasis(centers=centers).fit(X).width_, [5 / 3])
    assert_allclose(SigmoidBasis(centers=centers).fit(X).slope_, [3 / 5])


def test_a_single_centre_takes_the_standard_deviation_of_the_column(X):
    assert_allclose(GaussianBasis(centers=1).fit(X).width_, X.std(axis=0))
    assert_allclose(SigmoidBasis(centers=1).fit(X).slope_, 1 / X.std(axis=0))
    assert_allclose(GaussianBasis(centers=1).fit(X).centers_, [X.mean(axis=0)])


def test_k_means_finds_islands():
    rng = np.random.default_rng(0)
    islands = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 1000.0]])
    X = np.repeat(islands, 30, axis=0) + rng.normal(size=(90, 2)) * [0.1, 1.0]
    centers = GaussianBasis(centers=3, random_state=0).fit(X).centers_
    nearest = centers[np.argmin(np.abs((centers[None] - islands[:, None]) / [1, 10]).sum(axis=2), axis=1)]
    # the mean of 30 draws: five standard errors
    assert_allclose(nearest - islands, np.zeros((3, 2)), atol=5 / np.sqrt(30))


def test_a_column_of_few_values_has_one_step_per_value(X):
    X[:, 1] = X[:, 1] > 7  # a dummy
    X[:, 2] = 4.0  # a constant
    basis = SigmoidBasis(centers=6).fit(X)
    assert [len(centers) for centers in basis.centers_] == [6, 2, 1]
    assert basis.transform(X).shape == (60, 9)
    assert len(basis.get_feature_names_out()) == 9


# --- laws -------------------------------------------------------------------------------------------


@EITHER
@given(
    shift=st.floats(-1e3, 1e3),
    scale=st.floats(1e-3, 1e3),
    centers=st.integers(1, 8),
)
def test_units_do_not_matter_by_default(kind, shift, scale, centers):
    X = np.random.default_rng(5).normal(size=(40, 2))
    moved = X * [scale, 1.0] + [shift, 0.0]
    basis = kind(centers=centers)
    if kind is GaussianBasis:
        basis.set_params(random_state=0)
    # moving a column to 1e3 and shrinking it to 1e-3 costs six of its sixteen digits
    assert_allclose(basis.fit_transform(moved), basis.fit_transform(X), rtol=1e-6, atol=1e-8)


@EITHER
def test_standardising_first_changes_nothing(kind, X):
    basis = kind(centers=5) if kind is SigmoidBasis else kind(centers=5, random_state=1)
    assert_allclose(make_pipeline(StandardScaler(), basis).fit_transform(X), basis.fit_transform(X), rtol=1e-8)


def test_distances_do_not_cancel_far_from_zero():
    near = GaussianBasis(centers=[0.0, 1.0], width=1.0).fit_transform([[0.0], [0.5]])
    far = GaussianBasis(centers=[1e12, 1e12 + 1], width=1.0).fit_transform([[1e12], [1e12 + 0.5]])
    assert_array_equal(far, near)


@EITHER
@pytest.mark.parametrize("size", [1e200, 1e-300])
def test_extreme_units_neither_overflow_nor_vanish(kind, size):
    X = np.random.default_rng(5).normal(size=(40, 1))
    assert_allclose(kind().fit_transform(X * size), kind().fit_transform(X), rtol=1e-9)


def test_constant_columns_do_no_harm(X):
    padded = np.column_stack([X, np.full(60, 4.0)])
    assert_allclose(GaussianBasis(random_state=0).fit_transform(padded), GaussianBasis(random_state=0).fit_transform(X))


def test_random_state_fixes_the_centres(X):
    one, two = (GaussianBasis(random_state=7).fit(X).centers_ for _ in range(2))
    assert_array_equal(one, two)


# --- scikit-learn and frames ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "basis",
    [
        GaussianBasis(),
        GaussianBasis(centers=2, width=3.0),
        SigmoidBasis(),
        SigmoidBasis(centers=2, slope=3.0),
    ],
    ids=str,
)
def test_scikit_learn_accepts_it(basis):
    check_estimator(basis, on_skip=None)


def test_frames_in_and_named_frames_out(X):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["age", "dose", "size"], index=range(100, 160))
    steps = SigmoidBasis(centers=2).set_output(transform="pandas").fit_transform(frame)
    assert list(steps.columns) == [f"{name}_sigmoid_{j}" for name in frame.columns for j in (0, 1)]
    assert steps.index.equals(frame.index)
    bumps = GaussianBasis(centers=2, random_state=0).set_output(transform="pandas").fit_transform(frame)
    assert list(bumps.columns) == ["gaussianbasis0", "gaussianbasis1"]
    # a frame holds its columns one after the other, so sums are rounded in another order
    assert_allclose(bumps, GaussianBasis(centers=2, random_state=0).fit_transform(X), rtol=1e-12)


def test_polars_frames_are_accepted(X):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(X, schema=["age", "dose", "size"])
    basis = SigmoidBasis(centers=3).fit(frame)
    assert basis.get_feature_names_out()[0] == "age_sigmoid_0"
    assert_allclose(basis.transform(frame), SigmoidBasis(centers=3).fit_transform(X), rtol=1e-12)


def test_feature_names_can_be_supplied_but_not_contradicted(X):
    basis = SigmoidBasis(centers=1).fit(X)
    assert list(basis.get_feature_names_out()) == ["x0_sigmoid_0", "x1_sigmoid_0", "x2_sigmoid_0"]
    assert basis.get_feature_names_out(["a", "b", "c"])[0] == "a_sigmoid_0"
    with pytest.raises(InputError, match=r"number of columns fitted, 3, and has 2"):
        basis.get_feature_names_out(["a", "b"])
    pd = pytest.importorskip("pandas")
    named = SigmoidBasis(centers=1).fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    with pytest.raises(InputError, match="not equal to feature_names_in_"):
        named.get_feature_names_out(["a", "c", "b"])


# --- bad input --------------------------------------------------------------------------------------


@EITHER
@pytest.mark.parametrize("centers", [0, -3, 2.5, True, "many", None])
def test_centers_that_are_no_count_are_refused(kind, centers, X):
    with pytest.raises(InputError, match="centers must be a whole number from 1, or an array of centres; got"):
        kind(centers=centers).fit(X)


@EITHER
def test_more_centres_than_distinct_rows_are_refused(kind):
    X = np.repeat([[0.0, 1.0], [1.0, 1.0], [2.0, 5.0]], 40, axis=0)
    with pytest.raises(InputError, match=r"centers=4 asks for more centres than there are distinct rows \(3\)"):
        kind(centers=4).fit(X)
    with pytest.raises(InputError, match="lower centers to at most 3"):
        kind(centers=4).fit(X[:, :1])
    assert kind(centers=3).fit(X).transform(X).shape[0] == 120


@EITHER
@pytest.mark.parametrize("centers", [[0.0, 1.0], [[0.0, 1.0]], np.zeros((2, 3, 1)), np.zeros((0, 3))], ids=str)
def test_given_centres_of_the_wrong_shape_are_refused(kind, centers, X):
    with pytest.raises(InputError, match=r"centers has shape .* so \(m, 3\) was expected"):
        kind(centers=centers).fit(X)


@EITHER
def test_given_centres_must_be_finite_numbers(kind, X):
    with pytest.raises(InputError, match="centers must be finite"):
        kind(centers=[[0.0, np.nan, 0.0]]).fit(X)
    with pytest.raises(InputError, match="centers must be made of numbers"):
        kind(centers=[["a", "b", "c"]]).fit(X)


@EITHER
def test_coinciding_centres_leave_nothing_to_measure(kind, X):
    with pytest.raises(InputError, match="all centres coincide with another one"):
        kind(centers=np.zeros((2, 3))).fit(X)


@pytest.mark.parametrize(("kind", "name"), [(GaussianBasis, "width"), (SigmoidBasis, "slope")])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0.0, "must be positive; got 0.0"),
        (-1, "must be positive; got -1"),
        ([1.0, 1.0, -1.0], "must be positive"),
        (np.inf, "must be finite"),
        (None, "must be finite|must be made of numbers"),
        ([1.0, 2.0], r"has shape \(2,\); expected one number, or one per column, \(3,\)"),
        ("wide", "must be 'auto', a positive number, or one per column; got 'wide'"),
    ],
)
def test_impossible_widths_and_slopes_are_refused(kind, name, value, message, X):
    with pytest.raises(InputError, match=f"{name} (?:{message})"):
        kind(centers=2, **{name: value}).fit(X)
