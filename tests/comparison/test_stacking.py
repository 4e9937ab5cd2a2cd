"""Stacking weights: no others are better, and closed forms are found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from credibly.comparison.result import stacking_weights


def largest_mean_share(log_p: np.ndarray, w: np.ndarray) -> float:
    """max_k mean_i p_ik / Σ_j w_j p_ij, which is one at the best weights and above elsewhere."""
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    return (p / (p @ w)[:, None]).mean(axis=0).max()


@given(st.integers(0, 10**6), st.integers(1, 100), st.integers(1, 7), st.floats(0.01, 100.0))
def test_no_other_weights_are_better(seed, n, K, spread):
    log_p = -spread * np.random.default_rng(seed).exponential(size=(n, K))
    weights = stacking_weights(log_p)
    assert (weights >= 0).all()
    assert_allclose(weights.sum(), 1.0, rtol=1e-14)
    assert largest_mean_share(log_p, weights) <= 1 + 1e-7  # SLSQP stops where a step gains less than rounding


def test_two_candidates_that_take_turns_share_by_how_often_each_is_right():
    """p = (a, b) on n₁ rows and (b, a) on n₂: where b = 0, the weights are the shares of the rows."""
    log_p = np.log(np.repeat([[0.8, 1e-300], [1e-300, 0.8]], [30, 10], axis=0))
    assert_allclose(stacking_weights(log_p), [0.75, 0.25], rtol=1e-7)  # of a loss known to 1e-16


def test_a_stationary_point_inside_is_found():
    """(a, b) and (b, a) alike: ½, ½ by symmetry; with unequal numbers, the root of the derivative."""
    a, b, n1, n2 = 0.9, 0.3, 7, 5
    log_p = np.log(np.repeat([[a, b], [b, a]], [n1, n2], axis=0))
    d = a - b  # n1 d/(b + d w) = n2 d/(a - d w)
    w = (n1 * a - n2 * b) / (d * (n1 + n2))
    assert 0 < w < 1
    assert_allclose(stacking_weights(log_p), [w, 1 - w], rtol=1e-7)


def test_the_better_one_everywhere_takes_all():
    assert_allclose(stacking_weights(np.log([[0.5, 0.4], [0.6, 0.1]])), [1.0, 0.0], atol=1e-9)


def test_twins_and_impossible_rows_do_no_harm():
    log_p = np.log(np.array([[0.5, 0.5], [0.2, 0.2]]))
    assert_allclose(stacking_weights(log_p), [0.5, 0.5])
    with_impossible = np.vstack([np.log([[0.5, 0.4], [0.1, 0.3]]), [[-np.inf, -np.inf]]])
    assert_allclose(stacking_weights(with_impossible), stacking_weights(with_impossible[:2]))
    assert_allclose(stacking_weights(np.full((3, 2), -np.inf)), [0.5, 0.5])


@pytest.mark.parametrize("shift", [0.0, -1e5])
def test_log_probabilities_that_underflow_are_fine(shift):
    log_p = np.log([[0.9, 0.3], [0.1, 0.6], [0.5, 0.4]]) + shift
    assert_allclose(stacking_weights(log_p), stacking_weights(log_p - shift), rtol=1e-5)  # 1e5 has eleven digits left
