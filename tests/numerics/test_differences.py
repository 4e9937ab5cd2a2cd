"""Derivatives from values: exact on polynomials, as accurate elsewhere as the head of the module says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly.numerics.differences import (
    EPS,
    best_step,
    central_gradient,
    complex_gradient,
    hessian_of_gradients,
    hessian_of_values,
    natural_scale,
    noise_level,
    richardson,
)

RNG = np.random.default_rng(0)
x = np.array([0.3, -0.5, 0.8])
B = RNG.normal(size=(3, 3))


def f(z):
    return np.sin(z[0]) * np.exp(z[1]) + z[0] * z[2] ** 3 + np.cos(z[1] * z[2])


def gradient(z):
    twist = -np.sin(z[1] * z[2])
    return np.array(
        [
            np.cos(z[0]) * np.exp(z[1]) + z[2] ** 3,
            np.sin(z[0]) * np.exp(z[1]) + twist * z[2],
            3 * z[0] * z[2] ** 2 + twist * z[1],
        ]
    )


def hessian(z):
    a, c, s = np.exp(z[1]), np.cos(z[1] * z[2]), np.sin(z[1] * z[2])
    return np.array(
        [
            [-np.sin(z[0]) * a, np.cos(z[0]) * a, 3 * z[2] ** 2],
            [np.cos(z[0]) * a, np.sin(z[0]) * a - c * z[2] ** 2, -c * z[1] * z[2] - s],
            [3 * z[2] ** 2, -c * z[1] * z[2] - s, 6 * z[0] * z[2] - c * z[1] ** 2],
        ]
    )


def test_complex_gradient_are_right_to_rounding():
    assert_allclose(complex_gradient(f, x, B), B @ gradient(x), rtol=1e-14)
    assert_allclose(complex_gradient(f, x, B, first=2), B[2:] @ gradient(x), rtol=1e-14)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_slopes_of_values_reach_the_stated_accuracy(levels):
    found = richardson(lambda h: central_gradient(f, x, B, h), best_step(EPS, 1, levels), levels)
    # σ^(2L / (2L + 1)), times derivatives of order ten
    assert_allclose(found.value, B @ gradient(x), atol=20 * EPS ** (2 * levels / (2 * levels + 1)))


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_hessian_of_values_reach_the_stated_accuracy(levels):
    found = richardson(lambda h: hessian_of_values(f, x, B, h), best_step(EPS, 2, levels), levels)
    assert_allclose(found.value, B @ hessian(x) @ B.T, atol=100 * EPS ** (2 * levels / (2 * levels + 2)))
    assert_allclose(found.value, found.value.T, rtol=0)


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize(
    "slopes",
    [lambda z, first: B[first:] @ gradient(z), lambda z, first: complex_gradient(f, z, B, first)],
    ids=["gradients", "complex"],
)
def test_hessian_of_gradients_reach_the_stated_accuracy(levels, slopes):
    found = richardson(lambda h: hessian_of_gradients(slopes, x, B, h), best_step(EPS, 1, levels), levels)
    assert_allclose(found.value, B @ hessian(x) @ B.T, atol=100 * EPS ** (2 * levels / (2 * levels + 1)))


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_the_error_of_combined_steps_shrinks_by_its_order(levels):
    def error(h):
        found = richardson(
            lambda h: central_gradient(lambda z: np.exp(z[0]), np.zeros(1), np.ones((1, 1)), h), h, levels
        )
        return abs(found.value[0] - 1)

    h = 0.2
    assert_allclose(error(h) / error(h / 2), 4**levels, rtol=0.05)  # the next order is h² ~ 0.04


def test_bends_of_a_quadratic_are_exact_at_any_step():
    A = B @ B.T
    assert_allclose(hessian_of_values(lambda z: 0.5 * z @ A @ z, x, np.eye(3), 0.7), A, rtol=1e-12)
    assert_allclose(hessian_of_gradients(lambda z, first: (A @ z)[first:], x, np.eye(3), 0.7), A, rtol=1e-12)


def test_the_last_refinement_tells_a_kink():
    smooth = richardson(lambda h: hessian_of_values(f, x, B, h), 1e-2, 3)
    kink = richardson(lambda h: hessian_of_values(lambda z: -np.abs(z[0]), np.zeros(1), np.eye(1), h), 1e-2, 3)
    assert smooth.change < 1e-6
    assert kink.change > 1


@pytest.mark.parametrize("sigma", [1e-12, 1e-8, 1e-4])
def test_noise_is_measured(sigma):
    rng = np.random.default_rng(1)
    found = noise_level(lambda z: f(z) + sigma * rng.standard_normal(), x, np.ones(3))
    assert sigma / 4 < found < 4 * sigma  # of five fourth differences


def test_a_value_is_at_least_a_unit_in_the_last_place_off():
    assert_allclose(noise_level(lambda z: 1e6 + z[0], x, np.ones(3)), 1e6 * EPS, rtol=1)
    assert noise_level(lambda z: 0.0 * z[0], x, np.ones(3)) == EPS
    assert noise_level(lambda z: 0.0 * z[0], x, np.ones(3), eps=1e-7) == 1e-7  # values of single precision


@pytest.mark.parametrize("unit", [1e-40, 1e-9, 1.0, 1e12, 1e60])
@pytest.mark.parametrize("where", [0.0, 3.0, -1e4])
def test_the_natural_unit_of_a_gaussian_is_its_standard_deviation(unit, where):
    s = natural_scale(lambda z: -0.5 * (z[0] / unit) ** 2, np.array([where * unit]), np.ones(1))
    assert 0.5 <= s / unit <= 2


def test_natural_units_elsewhere():
    assert natural_scale(lambda z: 3 * z[0] + 1, np.zeros(1), np.ones(1)) is None
    assert natural_scale(lambda z: 7.0, np.zeros(1), np.ones(1)) is None
    s = natural_scale(lambda z: -0.5 * z[0] ** 2 if abs(z[0]) < 1e-3 else -np.inf, np.zeros(1), np.ones(1))
    assert 5e-4 < s < 1e-3  # as far as the support goes
    big = natural_scale(lambda z: -0.5 * z[0] ** 2, np.array([1e9]), np.ones(1))
    assert 1 < big < 1e6  # where rounding hides a bend of one


def test_a_spike_has_no_natural_unit():
    """It bends by five at every distance."""
    assert natural_scale(lambda z: 2.5 if z[0] == 0 else 0.0, np.zeros(1), np.ones(1)) is None
