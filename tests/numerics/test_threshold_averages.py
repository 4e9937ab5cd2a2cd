"""Averages of noisy thresholds where the transition is a step: scores, or spreads, of 1e13 widths of the link and more.

Near the transition they are compared with mpmath in tests/reference.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr
from scipy.stats import truncnorm

from credibly.numerics.special_links import log_cauchy_cdf
from credibly.numerics.threshold_averages import Link, log_threshold, tilted_threshold

CAUCHIT = Link(lambda y, f: log_cauchy_cdf((2 * y - 1) * f))
SHIFTED = Link(lambda y, f: log_cauchy_cdf((2 * y - 1) * (f - 3.0) / 2.0), center=3.0, width=2.0)


@pytest.mark.parametrize("link", [CAUCHIT, SHIFTED], ids=["at zero", "elsewhere"])
@pytest.mark.parametrize("y", [0, 1])
@pytest.mark.parametrize("z", [-2.0, -0.5, 0.0, 1.0, 3.0])
def test_a_spread_that_dwarfs_the_transition_leaves_a_truncated_normal(z, y, link):
    s = 1e15
    m, side = link.center + z * s, 2 * y - 1
    log_mass, mean, var = tilted_threshold(link, y, m, s**2)
    cut = truncnorm(-z, np.inf) if y else truncnorm(-np.inf, -z)
    assert_allclose(log_mass, log_ndtr(side * z), rtol=1e-12)
    assert_allclose(mean, m + s * cut.mean(), rtol=1e-10, atol=1e-10 * s)  # SciPy's own digits
    assert_allclose(var, s**2 * cut.var(), rtol=1e-10)
    assert_allclose(log_threshold(link, y, m, s**2), log_mass, rtol=1e-15)


@pytest.mark.parametrize("v", [0.0, 1.0, 1e10])
def test_far_from_the_transition_the_unlikely_label_has_the_probability_of_the_heavy_tail(v):
    """1/(π f) at f = 1e20; the score is where it was."""
    log_mass, mean, var = tilted_threshold(CAUCHIT, 0, 1e20, v)
    assert_allclose(log_mass, -np.log(np.pi * 1e20), rtol=1e-14)
    assert (mean, var) == (1e20, v)
    assert_allclose(log_threshold(CAUCHIT, 1, 1e20, v), -1 / (np.pi * 1e20), rtol=1e-12)


def test_near_and_far_rows_may_stand_side_by_side():
    m, v = np.array([0.0, 1e20]), np.array([1.0, 1.0])
    both = log_threshold(CAUCHIT, 0, m, v)
    assert_allclose(both, [log_threshold(CAUCHIT, 0, *row) for row in zip(m, v, strict=True)], rtol=1e-15)
    assert_allclose(both[0], -np.log(2), rtol=1e-13)
