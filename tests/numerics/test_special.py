"""Log-safe element-wise functions against multiple precision, their own definitions and each other."""

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from credibly.numerics.special import (
    log1mexp,
    log_mills_ratio,
    log_normal_cdf,
    log_normal_cdf_third,
    log_sigmoid,
    log_softmax,
    log_sum_exp,
    mills_ratios,
    normal_hazard,
    normal_hazard_slope,
    sigmoid,
    softplus,
)

LEFT = -np.logspace(-3, 8, 89)
MIDDLE = np.concatenate([-2.5 + np.linspace(-1e-9, 1e-9, 5), np.linspace(-6, 6, 49), [4.999, 5.001, 38.9]])
RIGHT = np.logspace(-3, np.log10(30), 40)
EVERYWHERE = np.concatenate([LEFT, MIDDLE, RIGHT])


def exactly(function: Callable[[mp.mpf], mp.mpf], x: np.ndarray) -> np.ndarray:
    with mp.workdps(80):  # 1e8 squared costs 16 digits, and three derivatives cost 16 each
        return np.array([float(function(mp.mpf(float(value)))) for value in x])


def mp_tail(x: mp.mpf) -> mp.mpf:
    return mp.erfc(x / mp.sqrt(2)) / 2


def mp_log_cdf(x: mp.mpf) -> mp.mpf:
    return mp.log1p(-mp_tail(x)) if x > 0 else mp.log(mp_tail(-x))


def mp_hazard(z: mp.mpf) -> mp.mpf:
    return mp.npdf(z) / mp_tail(-z)


def mp_slope(z: mp.mpf) -> mp.mpf:
    return mp_hazard(z) * (z + mp_hazard(z))


def mp_third(z: mp.mpf) -> mp.mpf:
    r = mp_hazard(z)
    return r * ((z + r) * (z + 2 * r) - 1)


def test_log_normal_cdf_is_exact_in_both_tails():
    assert_allclose(log_normal_cdf(EVERYWHERE), exactly(mp_log_cdf, EVERYWHERE), rtol=2e-14)


def test_log_mills_ratio_is_exact_in_both_tails():
    x = np.concatenate([EVERYWHERE, -EVERYWHERE])
    exact = exactly(lambda x: mp.log(mp_tail(x)) + x**2 / 2 + mp.log(2 * mp.pi) / 2, x)
    assert_allclose(log_mills_ratio(x), exact, rtol=1e-14, atol=1e-15)


def test_the_normal_hazard_is_exact_in_both_tails():
    assert_allclose(normal_hazard(EVERYWHERE), exactly(mp_hazard, EVERYWHERE), rtol=4e-15)


def test_the_upper_tail_is_exact_to_rounding_until_it_is_subnormal():
    """SciPy rounds x² before it takes the exponential: its log Φ is off by 7e-15 at six already."""
    x = np.linspace(5.01, 37.0, 129)
    assert_allclose(log_normal_cdf(x), exactly(mp_log_cdf, x), rtol=2e-15)
    assert_allclose(normal_hazard(x), exactly(mp_hazard, x), rtol=2e-15)
    near = np.linspace(5.001, 5.999, 41)
    assert_allclose(log_normal_cdf(near), exactly(mp_log_cdf, near), rtol=2e-15)


def test_the_hazard_slope_does_not_cancel_in_the_left_tail():
    assert_allclose(normal_hazard_slope(EVERYWHERE), exactly(mp_slope, EVERYWHERE), rtol=2e-14)


def test_the_third_derivative_does_not_cancel_in_the_left_tail():
    z = EVERYWHERE[np.abs(EVERYWHERE + 0.3) > 0.5]  # there is no relative accuracy at its zero, near -0.30
    assert_allclose(log_normal_cdf_third(z), exactly(mp_third, z), rtol=1e-12, atol=1e-300)
    near_zero = np.linspace(-0.8, 0.2, 11)
    assert_allclose(log_normal_cdf_third(near_zero), exactly(mp_third, near_zero), atol=1e-15)


def test_the_three_quantities_are_derivatives_of_log_normal_cdf():
    z, h = np.linspace(-12, 6, 37), 1e-4  # central differences: error h² f‴/6, below 1e-8
    for lower, upper, sign in [
        (log_normal_cdf, normal_hazard, 1),
        (normal_hazard, normal_hazard_slope, -1),
        (normal_hazard_slope, log_normal_cdf_third, -1),
    ]:
        assert_allclose(sign * (lower(z + h) - lower(z - h)) / (2 * h), upper(z), rtol=2e-8, atol=2e-8)


def test_mills_ratios_are_ratios_of_the_stated_integrals():
    x = np.array([-30.0, -0.5, 1.0, 2.499, 2.501, 40.0])

    def moment(j: int, x: mp.mpf) -> mp.mpf:
        scale = 1 / (1 + abs(x))
        stops = [0, scale, 5 * scale, max(-x, 0) + 1, max(-x, 0) + 6, max(-x, 0) + 40]
        return mp.quad(lambda t: t**j * mp.exp(-x * t - t**2 / 2), sorted(stops))

    for j, ratio in enumerate(mills_ratios(x), start=1):
        with mp.workdps(20):
            exact = [float(moment(j, mp.mpf(v)) / moment(j - 1, mp.mpf(v))) for v in x]
        assert_allclose(ratio, exact, rtol=2e-13)  # measured 4e-14, in K₃ at 2.5


@given(st.floats(-1e8, 1e8))
def test_mills_ratios_satisfy_their_recurrence(x: float):
    first, second, third = mills_ratios(x)
    rounding = 1e-13 * (1 + min(x, 0) ** 2)  # on the left x + K₂ is a difference of size 1/|x|
    assert_allclose(first * (x + second), 1, rtol=rounding)
    assert_allclose(second * (x + third), 2, rtol=rounding)


def test_phi_is_half_of_one_plus_erf_of_a_over_root_two():
    """E-9: at a = 1.3 the truth is .9032, not the .8302 that a printed formula gives."""
    assert_allclose(np.exp(log_normal_cdf(1.3)), 0.9032, atol=5e-5)
    assert abs(np.exp(log_normal_cdf(1.3)) - 0.8302) > 0.07


def test_log_sigmoid_and_softplus_are_what_their_docstrings_say():
    x = np.linspace(-20, 20, 81)
    assert_allclose(log_sigmoid(x), np.log(1 / (1 + np.exp(-x))), atol=1e-15, rtol=1e-7)  # naive side rounds
    assert_allclose(softplus(x), np.log(1 + np.exp(x)), rtol=1e-7)  # naive side rounds
    assert_allclose(np.exp(log_sigmoid(x)), sigmoid(x), rtol=1e-14)
    assert_allclose(softplus(x) - softplus(-x), x, atol=1e-14)


def test_the_logarithm_of_a_complement_loses_no_digits():
    log_p = -np.logspace(-300, 2.8, 61)
    exact = exactly(lambda a: mp.log(-mp.expm1(a)) if a > -1 else mp.log1p(-mp.exp(a)), log_p)
    assert_allclose(log1mexp(log_p), exact, rtol=4e-16)
    assert_array_equal(log1mexp([0.0, -np.inf]), [-np.inf, 0.0])


def test_nothing_overflows_at_infinity():
    x = np.array([-np.inf, np.inf])
    assert_array_equal(log_sigmoid(x), [-np.inf, 0])
    assert_array_equal(softplus(x), [0, np.inf])
    assert_array_equal(log_normal_cdf(x), [-np.inf, 0])
    assert_array_equal(normal_hazard(x), [np.inf, 0])
    assert_allclose(normal_hazard(np.array([38.9, 39.1, 1e8])), 0, atol=1e-300)


def test_not_a_number_stays_not_a_number():
    for function in (log_sigmoid, log_normal_cdf, log_mills_ratio, normal_hazard, normal_hazard_slope):
        assert np.isnan(function(np.nan))


def test_log_sum_exp_knows_terms_of_zero():
    a = np.array([[0.0, -np.inf], [-np.inf, -np.inf], [-1e4, -1e4], [np.inf, 1.0]])
    assert_allclose(log_sum_exp(a), [0, -np.inf, -1e4 + np.log(2), np.inf])
    assert_allclose(log_sum_exp(a[[0, 2]], axis=0), [0, -1e4])
    assert log_sum_exp(a[:, None]).shape == (4, 1)  # only the axis that is summed goes


def test_softmax_sums_to_one_and_is_blind_to_a_common_shift():
    f = np.random.default_rng(0).normal(scale=30, size=(5, 7, 4))
    assert_allclose(np.exp(log_softmax(f)).sum(axis=-1), 1, rtol=1e-14)
    assert_allclose(log_softmax(f + 1e3), log_softmax(f), atol=1e-12)
    assert_allclose(log_softmax(f)[..., 0], f[..., 0] - np.log(np.exp(f).sum(axis=-1)), atol=1e-12)
    two = f[..., :2]
    assert_allclose(log_softmax(two)[..., 0], two[..., 0] - np.log(np.exp(two).sum(axis=-1)), atol=1e-12)


def test_softmax_gives_an_impossible_class_no_probability():
    assert_allclose(log_softmax([0.0, 0.0, -np.inf]), [-np.log(2), -np.log(2), -np.inf])


@pytest.mark.parametrize("function", [sigmoid, softplus, log_sigmoid, log_normal_cdf, log_mills_ratio, normal_hazard])
def test_shape_is_kept(function: Callable[[np.ndarray], np.ndarray]):
    x = np.linspace(-5, 5, 6).reshape(2, 3)
    assert function(x).shape == (2, 3)
    assert np.shape(function(0.5)) == ()


@pytest.mark.parametrize(
    "function",
    [
        sigmoid,
        softplus,
        log_sigmoid,
        log_normal_cdf,
        log_mills_ratio,
        lambda x: np.stack(mills_ratios(x)),
        normal_hazard,
        normal_hazard_slope,
        log_normal_cdf_third,
        log_sum_exp,
        log_softmax,
        lambda x: log_softmax(np.asarray(x)[:2]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint8])
def test_whatever_comes_is_computed_in_double_precision(function: Callable[[np.ndarray], np.ndarray], dtype: type):
    """A square of an int8, a minus of an unsigned number, an exponential in half precision: all would be wrong."""
    x = np.array([6, 40, 3, 0, 12, 1])
    found = function(x.astype(dtype))
    assert found.dtype == np.float64
    assert_array_equal(found, function(x.astype(float)))
    assert_array_equal(found, function(x.tolist()))
