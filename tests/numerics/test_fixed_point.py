"""Anderson mixing: exact on linear maps, a plain step without a past, and safe where past steps say the same."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.numerics.fixed_point import Anderson


def linear_map(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """g(x) = Mx + b whose repetition diverges (an eigenvalue of -1.5), and its fixed point."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    M = Q @ np.diag(np.linspace(-1.5, 0.9, d)) @ Q.T
    b = rng.normal(size=d)
    return M, b, np.linalg.solve(np.eye(d) - M, b)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("step", [1.0, 0.3])
def test_a_linear_map_of_d_dimensions_is_solved_in_d_plus_one_steps(d, step):
    M, b, fixed = linear_map(d)
    mixing, x = Anderson(depth=d), np.zeros(d)
    for _ in range(d + 1):
        x = mixing.next_point(x, M @ x + b - x, np.ones(d), step)
    assert_allclose(x, fixed, rtol=1e-9, atol=1e-9)


def test_the_weights_of_coordinates_do_not_matter_where_the_residual_can_be_cancelled():
    M, b, fixed = linear_map(3)
    mixing, x = Anderson(depth=3), np.zeros(3)
    for _ in range(4):
        x = mixing.next_point(x, M @ x + b - x, np.array([1.0, 1e-3, 1e3]))
    assert_allclose(x, fixed, rtol=1e-8)


def test_the_weights_of_coordinates_decide_where_it_cannot():
    """With one past point γ minimises |s(f - Δf γ)|; here by hand, for two coordinates."""
    x0, f0 = np.zeros(2), np.array([1.0, 2.0])
    f1, scale = np.array([0.5, -1.0]), np.array([3.0, 0.5])
    mixing = Anderson()
    x1 = mixing.next_point(x0, f0, scale, 0.7)
    assert_array_equal(x1, 0.7 * f0)
    df, dx, s2 = f1 - f0, x1 - x0, scale**2
    gamma = (s2 * df * f1).sum() / (s2 * df**2).sum()
    assert_allclose(mixing.next_point(x1, f1, scale, 0.7), x1 + 0.7 * f1 - (dx + 0.7 * df) * gamma, rtol=1e-13)


def test_the_first_step_and_the_one_after_forgetting_are_plain():
    mixing, x, f = Anderson(), np.array([1.0, 2.0]), np.array([0.5, -0.5])
    assert_array_equal(mixing.next_point(x, f, np.ones(2)), x + f)
    assert (mixing.next_point(x + f, 0.5 * f, np.ones(2)) != x + 1.5 * f).any()
    mixing.forget()
    assert_array_equal(mixing.next_point(x, f, np.ones(2), 0.5), x + 0.5 * f)


def test_only_the_last_points_are_remembered():
    """This one and `depth` before it; what came earlier has no weight."""
    X, F = np.random.default_rng(0).normal(size=(2, 7, 4))
    long, short = Anderson(depth=2), Anderson(depth=2)
    for x, f in zip(X, F, strict=True):
        last = long.next_point(x, f, np.ones(4))
    for x, f in zip(X[-3:], F[-3:], strict=True):
        again = short.next_point(x, f, np.ones(4))
    assert_array_equal(last, again)


def test_points_seen_twice_do_not_blow_up():
    mixing, x, f = Anderson(), np.array([1.0, -1.0]), np.array([0.1, 0.2])
    for _ in range(5):
        new = mixing.next_point(x, f, np.ones(2))
    assert_allclose(new, x + f, rtol=1e-12)


def test_at_the_fixed_point_nothing_moves():
    mixing, x = Anderson(), np.array([1.0, -1.0])
    mixing.next_point(x + 1.0, np.array([-1.0, -1.0]), np.ones(2))
    assert_allclose(mixing.next_point(x, np.zeros(2), np.ones(2)), x, rtol=1e-15)
