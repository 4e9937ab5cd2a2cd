"""Logarithms of products against multiple precision and against sums of logarithms."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.special import gammaln

from credibly.model.class_conditionals.probabilities import log_product
from credibly.numerics.special import log1p_product, log_rise

LARGEST = np.finfo(float).max


def exact(q):
    with mp.workdps(60):
        return np.array([float(mp.fsum(mp.log1p(mp.mpf(float(value))) for value in column)) for column in q.T])


# --- log Π (1 + q) ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 31, 64, 100])
@pytest.mark.parametrize("size", [1e-300, 1e-17, 1e-9, 1e-3, 1.0, 1e3, 1e30, 1e200])
def test_the_logarithm_of_a_product_agrees_with_multiple_precision(width, size):
    """Tiny entries keep all their digits, huge ones do not overflow: 1e30 does where there are more than ten."""
    q = size * np.random.default_rng(width).exponential(size=(width, 6))
    assert_allclose(log1p_product(q.copy()), exact(q), rtol=1e-14)


@given(st.lists(st.floats(0.0, 1e300), min_size=1, max_size=12))
def test_entries_of_all_sizes_side_by_side_agree_with_multiple_precision(entries):
    q = np.array(entries)[:, None]
    assert_allclose(log1p_product(q.copy()), exact(q), rtol=1e-14)


@pytest.mark.parametrize("width", [2, 3, 10])
def test_both_sides_of_the_overflow_threshold_agree(width):
    edge = LARGEST ** (1 / width)
    for factor in (0.5, 0.999, 1.0, 1.001, 2.0):
        q = np.full((width, 1), edge * factor)
        assert_allclose(log1p_product(q.copy()), exact(q), rtol=1e-14)


def test_one_huge_entry_does_not_cost_the_others_their_digits():
    q = np.array([[1e300, 1e-12], [1e300, 3e-12], [2.0, 0.0]])
    assert_allclose(log1p_product(q.copy()), exact(q), rtol=1e-14)


def test_a_product_of_ones_has_logarithm_zero():
    assert_array_equal(log1p_product(np.zeros((5, 3))), 0)
    assert_array_equal(log1p_product(np.zeros((0, 3))), 0)
    assert log1p_product(np.zeros((4, 0))).shape == (0,)


def test_infinite_and_missing_entries_stay_in_their_columns():
    got = log1p_product(np.array([[np.inf, np.nan, 1.0], [1.0, 1.0, 3.0]]))
    assert got[0] == np.inf
    assert np.isnan(got[1])
    assert_allclose(got[2], np.log(8), rtol=1e-15)


# --- Σ x log p ----------------------------------------------------------------------------------------------------

COUNTS = np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 5.0]])
LOG_P = np.log([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])
BOTH = pytest.mark.parametrize("kind", [np.asarray, csr_array], ids=["dense", "sparse"])


@BOTH
def test_a_log_product_is_the_sum_of_counts_times_logarithms(kind):
    assert_allclose(log_product(kind(COUNTS), LOG_P), COUNTS @ LOG_P.T, rtol=1e-15)


@BOTH
def test_what_never_happens_costs_nothing_unless_it_happens(kind):
    log_p = np.array([[0.0, -np.inf, -np.inf], [np.log(0.5), np.log(0.5), -np.inf]])
    got = log_product(kind(COUNTS), log_p)
    want = [[-np.inf, -np.inf], [0.0, 3 * np.log(0.5)], [0.0, 0.0], [-np.inf, -np.inf]]
    assert_allclose(got, want, rtol=1e-15)


@BOTH
def test_a_fraction_of_a_count_of_the_impossible_is_impossible(kind):
    assert log_product(kind(np.array([[1e-300, 1.0]])), np.array([[-np.inf, 0.0]]))[0, 0] == -np.inf


@BOTH
def test_the_logarithms_given_are_not_changed(kind):
    log_p = np.array([[-np.inf, 0.0, -1.0]])
    log_product(kind(COUNTS), log_p)
    assert_array_equal(log_p, [[-np.inf, 0.0, -1.0]])


# --- log Γ(a + s) / Γ(a) -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("s", [0.0, 0.5, 3.0, 1e3, 1e9])
@pytest.mark.parametrize("a", [0.3, 7.0, 99.9, 100.0, 1e4, 1e9, 1e15])
def test_a_rise_of_the_gamma_function_agrees_with_multiple_precision(a, s):
    for unit in (1.0, a):
        with mp.workdps(60):
            wanted = float(mp.loggamma(mp.mpf(a) + s) - mp.loggamma(a) - s * mp.log(unit))
        # Rounding of the parts: s itself, s log (a / unit), and below 100 the two log-gamma functions.
        size = 1 + abs(wanted) + s + s * abs(np.log(a / unit)) + (abs(gammaln(a + s)) if a < 100 else 0.0)
        assert_allclose(log_rise(np.array(a), s, unit), wanted, atol=1e-14 * size, rtol=0)
