"""Logarithms of products against multiple precision and against sums of logarithms."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.special import gammaln

from credibly.model.class_conditionals.probabilities import log_product
from credibly.numerics.special import log_rising_factorial

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
        assert_allclose(log_rising_factorial(np.array(a), s, unit), wanted, atol=1e-14 * size, rtol=0)
