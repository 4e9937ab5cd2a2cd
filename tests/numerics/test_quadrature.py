"""Points and weights: moments they must reproduce, and integrals known in closed form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import factorial2

from credibly.errors import InputError
from credibly.numerics.arrays import row_blocks
from credibly.numerics.quadrature import gauss_hermite, normal_points, trapezoid
from credibly.numerics.special import log_sum_exp


@pytest.mark.parametrize("n", [1, 2, 5, 12, 40])
def test_gauss_hermite_is_exact_for_polynomials_of_degree_below_2n(n: int):
    nodes, log_weights = gauss_hermite(n)
    for degree in range(0, min(2 * n, 16), 2):
        moment = np.exp(log_weights) @ nodes**degree
        assert_allclose(moment, factorial2(degree - 1) if degree else 1, rtol=1e-12)
        assert_allclose(np.exp(log_weights) @ nodes ** (degree + 1), 0, atol=1e-9 * moment)


def test_weights_that_would_underflow_are_kept_as_logarithms():
    nodes, log_weights = gauss_hermite(600)
    assert log_weights.min() < np.log(np.finfo(float).tiny)
    assert np.isfinite(log_weights).all()
    # E[exp(s x)] = exp(s²/2): with s = 40 all the mass is at nodes near 40, whose weights are about exp(-800)
    assert_allclose(log_sum_exp(log_weights + 40 * nodes), 800, rtol=1e-12)


@pytest.mark.parametrize("rule", [gauss_hermite(64), trapezoid(64, 6.0)])
def test_weights_sum_to_one_and_cannot_be_overwritten(rule):
    assert_allclose(np.exp(rule.log_weights).sum(), 1, rtol=1e-14)
    assert_allclose(rule.nodes, -rule.nodes[::-1], atol=1e-13)
    with pytest.raises(ValueError, match="read-only"):
        rule.nodes[0] = 0.0


@pytest.mark.parametrize("n", [0, 601])
def test_an_impossible_number_of_nodes_is_refused(n: int):
    with pytest.raises(InputError, match="1 to 600 nodes"):
        gauss_hermite(n)


@pytest.mark.parametrize(("size", "dim"), [(64, 1), (128, 19), (4096, 5)])
def test_normal_points_average_cubic_polynomials_exactly(size: int, dim: int):
    x = normal_points(size, dim)
    assert x.shape == (size, dim)
    assert_allclose(x.mean(axis=0), 0, atol=1e-12)
    assert_allclose(x.T @ x / size, np.eye(dim), atol=1e-12)
    assert_allclose((x**3).mean(axis=0), 0, atol=1e-11)


def test_normal_points_are_the_same_every_time_and_look_normal():
    x = normal_points(4096, 2).copy()
    normal_points.cache_clear()
    assert_array_equal(x, normal_points(4096, 2))
    assert_allclose((x**4).mean(axis=0), 3, rtol=0.05)  # dominated by a few extreme points
    assert_allclose((x < -1).mean(axis=0), 0.158655, atol=0.002)


def test_a_size_that_is_no_power_of_two_is_refused():
    with pytest.raises(InputError, match="power of two"):
        normal_points(1000, 3)
    with pytest.raises(InputError, match="larger than 2"):
        normal_points(16, 8)


def test_row_blocks_lose_no_row():
    rows = np.arange(1000)
    parts = [rows[block] for block in row_blocks(1000, 500)]
    assert_array_equal(np.concatenate(parts), rows)
    assert max(len(part) for part in parts) == 65  # 2¹⁵ numbers
    assert [len(rows[block]) for block in row_blocks(3, 7, numbers=5)] == [1, 1, 1]
    assert list(row_blocks(0, 7)) == []
