"""Sums by group: exact where numbers are, and without cancellation where data are far from the origin.

Exact answers come from fractions: every double is one, so sums of doubles have an exact value.
"""

from fractions import Fraction
from math import fsum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from credibly.model.class_conditionals.statistics import (
    apart,
    deviations,
    gram,
    group_means,
    group_sums,
    membership,
    taken,
    together,
)
from credibly.numerics.linalg import dense

EPS = np.finfo(float).eps
CODES = np.array([2, 0, 0, 2, 2, 0])
Z = np.array([[1.0, -2.0], [4.0, 0.5], [0.0, 3.0], [2.0, 2.0], [-8.0, 1.0], [5.0, 7.0]])
WEIGHT = np.array([0.5, 2.0, 0.0, 1.0, 0.25, 4.0])
FAR = pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])


def exact_moments(x):
    """Mean and scatter of doubles, without rounding until the end."""
    values = [Fraction(float(value)) for value in x]
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values)


def column(values):
    return np.array([values], dtype=float)


# --- sums by group ----------------------------------------------------------------------------------------------


def test_sums_by_group_are_those_of_the_rows_of_a_group():
    for weight, w in ((None, np.ones(6)), (WEIGHT, WEIGHT)):
        got = group_sums(membership(CODES, weight, 4), Z)
        want = [[fsum(w[CODES == c] * Z[CODES == c, j]) for j in range(2)] for c in range(4)]
        assert_array_equal(got, want)  # numbers with few bits: nothing is rounded


def test_sums_of_sparse_rows_are_those_of_dense_ones():
    member = membership(CODES, WEIGHT, 3)
    assert_array_equal(group_sums(member, csr_array(Z)), group_sums(member, Z))
    assert type(group_sums(member, csr_array(Z))) is np.ndarray


def test_a_group_without_weight_has_mean_zero():
    weight = np.array([0.0, 1.0, 1.0, 0.0, 0.0, 2.0])  # nothing in group 2, no row in group 1
    member = membership(CODES, weight, 3)
    means = group_means(member, Z, np.asarray(member.sum(axis=1))[:, None])
    assert_array_equal(means[1:], 0)
    assert_allclose(means[0], [14 / 4, 17.5 / 4], rtol=1e-15)


def test_means_have_a_weight_for_each_cell_where_cells_are_missing():
    filled, seen = np.array([[2.0, 0.0], [4.0, 3.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])
    member = membership(np.array([0, 0]), None, 1)
    assert_array_equal(group_means(member, filled, group_sums(member, seen)), [[3.0, 3.0]])


def test_deviations_are_rows_less_the_mean_of_their_group():
    means = np.array([[1.0, 2.0], [9.0, 9.0], [-1.0, 0.5]])
    assert_array_equal(deviations(Z, means, CODES), Z - means[CODES])


def test_a_gram_matrix_is_a_weighted_sum_of_outer_products():
    for weight, w in ((None, np.ones(6)), (WEIGHT, WEIGHT)):
        want = sum(w_i * np.outer(z, z) for w_i, z in zip(w, Z, strict=True))
        got = gram(Z.copy(), weight)
        assert_allclose(got, want, rtol=1e-14)
        assert_array_equal(got, got.T)


def test_dense_leaves_arrays_alone_and_unpacks_others():
    assert dense(Z) is Z
    assert_array_equal(dense(csr_array(Z)), Z)
    assert dense(np.array([[1, 2]])).dtype == np.float64
    assert dense(np.array([[True]])).dtype == np.float64
    assert dense(np.array([[0.1]], dtype=np.float32)).dtype == np.float64


def test_entries_are_taken_in_order_and_new_ones_are_zero():
    values = np.arange(12.0).reshape(3, 2, 2)
    got = taken(values, np.array([2, -1, 0]))
    assert_array_equal(got, [values[2], np.zeros((2, 2)), values[0]])
    assert_array_equal(taken(values[:, 0, 0], np.array([-1, 1])), [0, 4])


# --- merging ----------------------------------------------------------------------------------------------------


@given(
    a=st.lists(st.integers(-1000, 1000), min_size=1, max_size=8),
    b=st.lists(st.integers(-1000, 1000), min_size=1, max_size=8),
)
def test_two_sets_of_rows_have_the_mean_and_scatter_of_all_rows(a, b):
    (mean_a, scatter_a), (mean_b, scatter_b), (mean, scatter) = map(exact_moments, (a, b, a + b))
    both = together(column([len(a)]), column([mean_a]), column([len(b)]), column([mean_b]))
    assert both.weight[0, 0] == len(a) + len(b)
    assert_allclose(both.mean[0, 0], float(mean), rtol=4 * EPS, atol=4 * EPS * 1000)
    got = float(scatter_a) + float(scatter_b) + (both.factor * both.gap**2)[0, 0]
    assert_allclose(got, float(scatter), rtol=16 * EPS, atol=1e-9)  # gaps of equal means round to 1e-13


@given(
    a=st.lists(st.integers(-1000, 1000), min_size=1, max_size=8),
    b=st.lists(st.integers(-1000, 1000), min_size=1, max_size=8),
)
def test_what_was_put_together_comes_apart(a, b):
    (mean_a, scatter_a), (mean_b, scatter_b), (mean, scatter) = map(exact_moments, (a, b, a + b))
    left = apart(column([len(a) + len(b)]), column([mean]), column([len(b)]), column([mean_b]))
    assert left.weight[0, 0] == len(a)
    assert_allclose(left.mean[0, 0], float(mean_a), rtol=1e-13, atol=1e-11)  # eight times a thousand times eps
    got = float(scatter) - float(scatter_b) - (left.factor * left.gap**2)[0, 0]
    assert_allclose(got, float(scatter_a), rtol=1e-13, atol=1e-8)  # of scatters up to 1e7


def test_nothing_put_to_rows_changes_nothing():
    zero, one, mean = np.zeros((2, 1)), np.array([[3.0], [0.0]]), np.array([[5.0, 7.0], [0.0, 0.0]])
    for both in (together(one, mean, zero, 0 * mean), together(zero, 0 * mean, one, mean)):
        assert_array_equal(both.weight, one)
        assert_array_equal(both.mean, mean)
        assert_array_equal(both.factor * both.gap**2, 0)


def test_all_rows_taken_away_leave_nothing():
    left = apart(column([3.0]), column([5.0, 7.0]), column([3.0]), column([5.0, 7.0]))
    for values in (left.weight, left.mean, left.factor * left.gap**2):
        assert_array_equal(values, 0)
    rounded = apart(column([0.1 + 0.2]), column([5.0]), column([0.3]), column([5.0]))  # 5e-17 left
    for values in (rounded.weight, rounded.mean, rounded.factor * rounded.gap**2):
        assert_array_equal(values, 0)


def test_weights_may_be_one_for_a_row_or_one_for_each_cell():
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 0.0], [-1.0, 2.0]])
    by_row = together(np.array([[1.0], [3.0]]), a, np.array([[2.0], [1.0]]), b)
    by_cell = together(np.array([[1.0, 1.0], [3.0, 3.0]]), a, np.array([[2.0, 2.0], [1.0, 1.0]]), b)
    assert_array_equal(by_row.mean, by_cell.mean)
    assert_array_equal(by_row.factor * by_row.gap**2, by_cell.factor * by_cell.gap**2)


@FAR
def test_the_scatter_of_rows_far_from_the_origin_does_not_cancel(offset):
    """Two passes: an error of the mean enters the scatter squared. The raw sums Σx² - n x̄² would have no digit left."""
    x = np.random.default_rng(0).normal(size=(1000, 1)) + offset
    member = membership(np.zeros(1000, dtype=int), None, 1)
    mean = group_means(member, x, np.array([[1000.0]]))
    scatter = gram(deviations(x, mean, np.zeros(1000, dtype=int)), None)[0, 0]
    exact_mean, exact_scatter = exact_moments(x[:, 0])
    assert_allclose(mean[0, 0], float(exact_mean), rtol=1e-13, atol=1e-15)
    assert_allclose(scatter, float(exact_scatter), rtol=1e-12)


@FAR
@pytest.mark.parametrize("blocks", [2, 7, 50])
def test_merged_scatters_of_rows_far_from_the_origin_do_not_cancel(offset, blocks):
    x = np.random.default_rng(1).normal(size=400) + offset
    weight, mean, scatter = column([0.0]), column([0.0]), 0.0
    for part in np.array_split(x, blocks):
        m, s = (float(value) for value in exact_moments(part))
        both = together(weight, mean, column([len(part)]), column([m]))
        weight, mean, scatter = both.weight, both.mean, scatter + s + (both.factor * both.gap**2)[0, 0]
    exact_mean, exact_scatter = exact_moments(x)
    assert_allclose(mean[0, 0], float(exact_mean), rtol=blocks * EPS, atol=1e-15)
    # means are doubles: a gap has an error of eps · offset, and Σ 2 · factor · gap over blocks is below 2 √(n · blocks)
    assert_allclose(scatter, float(exact_scatter), rtol=1e-13, atol=4 * EPS * offset * np.sqrt(400 * blocks))


@FAR
def test_rows_far_from_the_origin_come_apart_without_cancellation(offset):
    x = np.random.default_rng(2).normal(size=100) + offset
    (mean, scatter), (mean_b, scatter_b) = exact_moments(x), exact_moments(x[60:])
    left = apart(column([100.0]), column([float(mean)]), column([40.0]), column([float(mean_b)]))
    want_mean, want_scatter = exact_moments(x[:60])
    assert_allclose(left.mean[0, 0], float(want_mean), rtol=4 * EPS, atol=1e-14)
    got = float(scatter) - float(scatter_b) - (left.factor * left.gap**2)[0, 0]
    # 2 · factor · gap ≈ 2 · 24 · 0.3 times an error of the gap of a few eps · offset
    assert_allclose(got, float(want_scatter), rtol=1e-13, atol=100 * EPS * offset)
