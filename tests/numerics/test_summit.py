"""A maximum by the sign of slopes: kinks, flats, edges of a domain, far away."""

import math

import pytest

from credibly.numerics.summit import summit


@pytest.mark.parametrize("peak", [-1e100, -1e4, -1.0, 0.0, 1e-3, 0.7, 800.0, 1e15])
@pytest.mark.parametrize("start", [-5.0, 0.0, 3.0])
def test_a_kink_is_found_from_either_side_however_far(peak, start):
    found = summit(lambda x: float((x < peak) - (x > peak)), start)
    assert found == pytest.approx(peak, rel=1e-12, abs=1e-12)


def test_a_smooth_summit_whose_slopes_overflow_is_found():
    def slope(x):
        return 5.0 - (math.exp(x) if x < 700 else math.inf)

    assert summit(slope, -300.0) == pytest.approx(math.log(5), rel=1e-11)


def test_where_it_is_flat_any_place_is_a_summit():
    assert summit(lambda x: 0.0, 3.0) == 3.0
    plateau = summit(lambda x: 1.0 if x < 2.5 else 0.0, 0.0)
    assert plateau == pytest.approx(2.5, rel=1e-11)


@pytest.mark.parametrize("sign", [-1, 1])
def test_an_edge_of_the_domain_is_reached_from_inside(sign):
    found = summit(lambda x: float(sign) if sign * x < 7.3 else math.nan, 0.0)
    assert sign * found < 7.3
    assert found == pytest.approx(sign * 7.3, rel=1e-11)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("start", [-300.0, 0.0, 3.9, 9.0])
def test_from_outside_the_domain_is_looked_for(start, sign):
    def slope(x):
        return sign * (1.0 / (sign * x - 4.0) - 0.5) if sign * x > 4.0 else math.nan

    assert summit(slope, sign * start) == pytest.approx(sign * 6.0, rel=1e-11)


def test_without_a_slope_anywhere_there_is_no_summit():
    assert math.isnan(summit(lambda x: math.nan, 0.0))
