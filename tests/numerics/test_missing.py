"""Distances in several metrics, and the conditional Gaussian, against the formulas as a textbook prints them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from credibly.numerics.linalg import PSD
from credibly.numerics.missing import FAR_APART, Ellipsoids, patterns

K, D = 3, 4
SHARED = pytest.mark.parametrize("shared", [True, False], ids=["shared", "per group"])


def matrices(shared, d=D):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(1 if shared else K, d, d))
    return A @ A.transpose(0, 2, 1) + 0.3 * np.eye(d)


def example(shared, spread=2.0):
    means = spread * np.random.default_rng(1).normal(size=(K, D))
    return Ellipsoids(means, tuple(PSD.of(matrix, "a metric") for matrix in matrices(shared)))


def matrix_of(e, c):
    return e.metrics[0 if len(e.metrics) == 1 else c].matrix


def rows(n=40, holes=0.0):
    """Rows whose patterns of holes are few enough to occur several times."""
    rng = np.random.default_rng(2)
    X = 3 * rng.normal(size=(n, D))
    lacks = rng.random((6, D)) < 0.5
    X[lacks[rng.integers(6, size=n)] & (rng.random((n, 1)) < holes)] = np.nan
    return X


def stated(e, row, c):
    """(x - μ)ᵀ Σ⁻¹ (x - μ), log |Σ| and size over observed coordinates."""
    o = ~np.isnan(row)
    part = matrix_of(e, c)[np.ix_(o, o)]
    gap = row[o] - e.means[c, o]
    return gap @ np.linalg.solve(part, gap), np.linalg.slogdet(part)[1], o.sum()


def assert_measured_as_stated(e, X, rtol=1e-11, atol=0.0):
    distance, logdet, size = e.measure(X)
    assert distance.shape == (len(X), K)
    logdet, size = np.broadcast_to(logdet, distance.shape), np.broadcast_to(size, distance.shape)
    for i, row in enumerate(X):
        for c in range(K):
            want = stated(e, row, c)
            assert_allclose(distance[i, c], want[0], rtol=rtol, atol=atol)
            assert_allclose([logdet[i, c], size[i, c]], want[1:], rtol=1e-11, atol=1e-11)


# --- distances --------------------------------------------------------------------------------------------------


@SHARED
def test_distances_of_complete_rows_are_those_of_the_formula(shared):
    assert_measured_as_stated(example(shared), rows())


@SHARED
def test_distances_of_rows_with_holes_are_those_of_the_observed_coordinates(shared):
    X = rows(holes=0.9)
    X[7] = np.nan
    assert np.isnan(X).any(axis=1).sum() > 20
    assert_measured_as_stated(example(shared), X)


@SHARED
def test_a_row_without_any_coordinate_has_distance_zero(shared):
    for X in (np.full((1, D), np.nan), np.vstack([rows(3), np.full((1, D), np.nan)])):
        distance, logdet, size = example(shared).measure(X)
        assert_array_equal(distance[-1], 0)
        assert_array_equal(logdet[-1], 0)
        assert_array_equal(size[-1], 0)


@SHARED
def test_a_row_is_measured_in_the_same_way_whatever_is_beside_it(shared):
    e, X = example(shared), rows(holes=0.7)
    whole = e.measure(X)
    for i in range(len(X)):
        alone = e.measure(X[i : i + 1])
        assert_allclose(alone.distance[0], whole.distance[i], rtol=1e-11)
        for a, b in ((alone.logdet, whole.logdet), (alone.size, whole.size)):
            assert_allclose(np.broadcast_to(a, (1, K))[0], np.broadcast_to(b, (len(X), K))[i], atol=1e-12)


@SHARED
@pytest.mark.parametrize("spread", [1.0, 1e2, 1e4, 1e8])
def test_distances_are_right_for_centres_near_and_far_apart(shared, spread):
    """On either side of FAR_APART, where squares are expanded and where they are not."""
    e = example(shared, spread)
    X = e.means[[0, 1, 2, 0]] + rows(4)
    # an expanded square has the rounding of the squared distance of centres, at most FAR_APART
    assert_measured_as_stated(e, X, rtol=1e-10, atol=4e-16 * FAR_APART)


def test_the_spreads_above_are_on_both_sides_of_the_threshold():
    def length(spread):
        e = example(True, spread)
        return max(stated(e, mean, c)[0] for mean in e.means for c in range(K))

    assert length(1.0) < FAR_APART < length(1e4)


@SHARED
@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_an_offset_of_all_rows_and_centres_does_not_cancel(shared, offset):
    near = example(shared)
    X = rows()
    whole = np.round(X * 2**20) / 2**20 + offset  # exact sums, so that only the distances can lose digits
    means = np.round(near.means * 2**20) / 2**20
    far = Ellipsoids(means + offset, near.metrics)
    want = Ellipsoids(means, near.metrics).measure(whole - offset).distance
    assert_allclose(far.measure(whole).distance, want, rtol=1e-11, atol=1e-11)


def test_units_of_the_columns_do_not_matter():
    units = np.array([1e-8, 1.0, 1e5, 1e9])
    for shared in (True, False):
        e, X = example(shared), rows(holes=0.4)
        scaled = Ellipsoids(
            e.means * units, tuple(PSD.of(m.matrix * np.outer(units, units), "a metric") for m in e.metrics)
        )
        assert_allclose(scaled.measure(X * units).distance, e.measure(X).distance, rtol=1e-10)


# --- filling ----------------------------------------------------------------------------------------------------


def textbook(e, X, codes, weight):
    """PRML eqs. 2.81 and 2.82, row by row."""
    filled, entropy = X.copy(), 0.0
    spread = np.zeros((len(e.metrics), D, D))
    for i, (row, c) in enumerate(zip(X, codes, strict=True)):
        m, o = np.isnan(row), ~np.isnan(row)
        if not m.any():
            continue
        cov = matrix_of(e, c)
        gain = np.linalg.solve(cov[np.ix_(o, o)], cov[np.ix_(o, m)]).T
        filled[i, m] = e.means[c, m] + gain @ (row[o] - e.means[c, o])
        left = cov[np.ix_(m, m)] - gain @ cov[np.ix_(o, m)]
        spread[0 if len(e.metrics) == 1 else c][np.ix_(m, m)] += weight[i] * left
        entropy += weight[i] * stats.multivariate_normal(np.zeros(m.sum()), left).entropy()
    return filled, spread, entropy


@SHARED
def test_missing_cells_are_filled_with_the_conditional_gaussian(shared):
    e, X = example(shared), rows(60, holes=0.9)
    X[[4, 11]] = np.nan
    codes, weight = np.arange(60) % K, np.linspace(0.0, 2.0, 60)
    got, want = e.fill(X, codes, weight), textbook(e, X, codes, weight)
    assert_allclose(got.X, want[0], rtol=1e-10)
    assert_allclose(got.spread, want[1], rtol=1e-10, atol=1e-12)
    assert_allclose(got.entropy, want[2], rtol=1e-11)


@SHARED
def test_rows_without_holes_are_left_as_they_are(shared):
    X = rows()
    filled, spread, entropy = example(shared).fill(X, np.arange(40) % K, np.ones(40))
    assert_array_equal(filled, X)
    assert_array_equal(spread, 0)
    assert entropy == 0
    assert filled is not X


@SHARED
def test_a_row_without_any_cell_is_filled_with_the_centre_and_the_whole_metric(shared):
    e = example(shared)
    filled, spread, entropy = e.fill(np.full((1, D), np.nan), np.array([2]), np.array([1.5]))
    assert_allclose(filled[0], e.means[2], rtol=1e-15)
    assert_allclose(spread[0 if shared else 2], 1.5 * matrix_of(e, 2), rtol=1e-12)
    assert_allclose(entropy, 1.5 * stats.multivariate_normal(np.zeros(D), matrix_of(e, 2)).entropy(), rtol=1e-12)


@SHARED
def test_observed_cells_are_never_changed(shared):
    X = rows(60, holes=0.9)
    filled = example(shared).fill(X, np.arange(60) % K, np.ones(60)).X
    assert not np.isnan(filled).any()
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])


@SHARED
def test_the_filled_cells_are_where_the_distance_is_least(shared):
    """The conditional mean is the mode: the distance of the filled row is that of its observed part."""
    e, X, codes = example(shared), rows(30, holes=0.9), np.arange(30) % K
    filled = e.fill(X, codes, np.ones(30)).X
    at = np.arange(30), codes
    assert_allclose(e.measure(filled).distance[at], e.measure(X).distance[at], rtol=1e-9, atol=1e-11)


@SHARED
def test_the_entropy_of_missing_cells_is_that_of_all_less_that_of_the_observed(shared):
    """Chain rule: h(x_m | x_o) = h(x) - h(x_o), each ½ (size (1 + log 2π) + log det)."""
    e, X, codes, weight = example(shared), rows(30, holes=0.9), np.arange(30) % K, np.linspace(0.5, 1.5, 30)
    _, logdet, size = e.measure(X)
    whole = np.array([e.metrics[0 if shared else c].logdet for c in codes])
    part = np.broadcast_to(logdet, (30, K))[np.arange(30), codes]
    want = 0.5 * weight @ ((D - size[:, 0]) * (1 + np.log(2 * np.pi)) + whole - part)
    assert_allclose(e.fill(X, codes, weight).entropy, want, rtol=1e-11)


# --- patterns ---------------------------------------------------------------------------------------------------


def test_rows_without_holes_have_one_pattern():
    (pattern,) = patterns(rows(6))
    assert_array_equal(pattern.rows, np.arange(6))
    assert_array_equal(pattern.observed, np.arange(D))


@pytest.mark.parametrize("d", [1, 3, 8, 9, 20])
def test_patterns_cut_the_rows_by_what_they_lack(d):
    rng = np.random.default_rng(3)
    kinds = rng.random((5, d)) < 0.5
    X = np.where(kinds[rng.integers(5, size=40)], np.nan, 1.0)
    found = patterns(X)
    assert_array_equal(np.sort(np.concatenate([pattern.rows for pattern in found])), np.arange(40))
    for rows, observed, missing in found:
        seen = np.isin(np.arange(d), observed)
        assert_array_equal(np.sort(np.concatenate([observed, missing])), np.arange(d))
        assert (~np.isnan(X[rows]) == seen).all()
        assert_array_equal(rows, np.sort(rows))
    assert len({tuple(observed) for _, observed, _ in found}) == len(found)  # no pattern twice


def test_rows_without_any_cell_are_a_pattern_of_their_own():
    found = {
        tuple(p.observed.tolist()): p.rows.tolist() for p in patterns(np.array([[np.nan] * 2, [1, 2], [np.nan] * 2]))
    }
    assert found == {(): [0, 2], (0, 1): [1]}
