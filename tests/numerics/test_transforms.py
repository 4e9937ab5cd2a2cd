"""Bounded coordinates: there and back, volumes and slopes by complex steps, no digits lost near the ends."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from credibly.numerics.differences import complex_gradient
from credibly.numerics.transforms import Box

BOX = Box(np.array([-np.inf, 2.0, -np.inf, -1.0]), np.array([np.inf, np.inf, 5.0, 3.0]))
POINTS = [np.array([0.3, -1.2, 0.7, 0.4]), np.array([-5.0, 3.0, -4.0, -6.0]), np.array([9.0, -20.0, 2.0, 12.0])]
points = pytest.mark.parametrize("u", POINTS)


@points
def test_there_and_back(u):
    z = BOX.bounded(u)
    assert BOX.contains(z)
    assert_allclose(z, [u[0], 2 + np.exp(u[1]), 5 - np.exp(u[2]), -1 + 4 * expit(u[3])], rtol=1e-14)
    assert_allclose(BOX.free(z), u, rtol=1e-6)  # 2 + exp(-20) keeps seven digits of exp(-20)


def test_many_points_are_points():
    u = np.array(POINTS)
    assert_array_equal(BOX.bounded(u), [BOX.bounded(it) for it in u])
    assert_allclose(BOX.log_jacobian(u), [BOX.log_jacobian(it) for it in u], rtol=1e-15)
    assert_array_equal(BOX.contains(np.vstack([BOX.bounded(u), [0.0, 1.0, 0.0, 0.0]])), [True, True, True, False])


@points
def test_slopes_and_volume(u):
    slopes, units = BOX.slopes(u), np.eye(4)
    dz = np.array([complex_gradient(lambda v, j=j: BOX.bounded(v)[j], u, units[[j]])[0] for j in range(4)])
    assert_allclose(slopes.z, dz, rtol=1e-12)
    assert_allclose(BOX.log_jacobian(u), np.log(np.abs(dz)).sum(), rtol=1e-12)
    assert_allclose(slopes.log_jacobian, complex_gradient(BOX.log_jacobian, u, units), rtol=1e-12, atol=1e-15)
    h = 1e-5  # central differences, off by h² and by eps / h
    twice = [(BOX.slopes(u + h * e).z - BOX.slopes(u - h * e).z)[j] / (2 * h) for j, e in enumerate(units)]
    volume = [
        (BOX.slopes(u + h * e).log_jacobian - BOX.slopes(u - h * e).log_jacobian)[j] / (2 * h)
        for j, e in enumerate(units)
    ]
    assert_allclose(slopes.z_twice, twice, rtol=1e-8, atol=1e-9)
    assert_allclose(slopes.log_jacobian_twice, volume, rtol=1e-8, atol=1e-9)


def test_far_out_nothing_overflows():
    box = Box(np.zeros(1), np.ones(1))
    with np.errstate(all="raise", under="ignore"):
        for u in (-800.0, 800.0):
            assert box.bounded(np.array([u]))[0] in (0.0, 1.0)
            assert_allclose(box.log_jacobian(np.array([u])), -800.0, rtol=1e-15)
    assert_allclose(box.bounded(np.array([-700.0])), np.exp(-700.0), rtol=1e-13)


def test_without_bounds_nothing_happens():
    box = Box(np.full(2, -np.inf), np.full(2, np.inf))
    u = np.array([1.0, 2.0])
    assert box.everywhere and not BOX.everywhere
    assert_array_equal(box.bounded(u), u)
    assert box.bounded(u) is not u
    assert box.log_jacobian(u) == 0.0
    assert box.names == ["z[0]", "z[1]"]
    assert BOX.names == ["z[0]", "log z[1]", "log z[2]", "logit z[3]"]
