"""The search for prior scales, on an evidence whose maximum is known in closed form.

A column of a Gaussian model whose rows say a (its precision) and b (its pull) has, as a function of its prior scale s,
log Z = -½ log(1 + a s²) + ½ b² s² / (1 + a s²), largest at s² = (b² - a)/a² if that is positive, else at zero
(Tipping & Faul 2003, eq. 20).
"""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.inference import scale_search
from credibly.inference.scale_search import (
    LOG_BOUNDS,
    MOST_SETTLED,
    TELLING,
    Evidence,
    best_of_scan,
    polished,
    root_uphill,
    search_status,
    settled,
)
from credibly.numerics.status import Status


class Columns:
    """Columns that know nothing of each other."""

    def __init__(self, a, b):
        self.a, self.b, self.asked = np.asarray(a, dtype=float), np.asarray(b, dtype=float), 0

    @property
    def best(self):
        with np.errstate(divide="ignore", invalid="ignore"):
            theta = 0.5 * np.log((self.b**2 - self.a) / self.a**2)
        return np.where(self.b**2 > self.a, theta, LOG_BOUNDS[0])

    def __call__(self, theta):
        self.asked += 1
        s2 = np.exp(2 * theta)
        wide = 1 + self.a * s2
        log_evidence = float((-0.5 * np.log(wide) + 0.5 * self.b**2 * s2 / wide).sum())
        gradient = s2 * (-self.a / wide + self.b**2 / wide**2)
        return Evidence(SimpleNamespace(log_evidence=log_evidence), gradient, np.empty(0))


def test_the_gradient_of_these_columns_is_that_of_their_evidence():
    columns, theta, h = Columns([1.0, 4.0], [3.0, 1.0]), np.array([0.3, -0.7]), 1e-5
    for j, step in enumerate(h * np.eye(2)):
        rise = columns(theta + step).result.log_evidence - columns(theta - step).result.log_evidence
        assert_allclose(columns(theta).gradient[j], rise / (2 * h), rtol=1e-8)  # h² = 1e-10 and rounding over h


@pytest.mark.parametrize("start", [-3.0, 0.0, 4.0])
def test_one_scale_is_found_from_either_side(start):
    columns = Columns([2.0], [5.0])
    assert_allclose(root_uphill(columns, start), columns.best, atol=1e-8)  # xtol of the root


def test_a_start_that_is_the_root_is_kept():
    columns = Columns([2.0], [5.0])
    assert_array_equal(root_uphill(columns, float(columns.best[0])), columns.best)
    assert columns.asked == 1


def test_a_scale_that_should_be_zero_ends_at_the_bound():
    columns = Columns([2.0], [1.0])
    (found,) = root_uphill(columns, 0.0)
    assert found == LOG_BOUNDS[0]
    assert search_status(np.array([found]), columns(np.array([found])).gradient) is Status.SCALE_AT_BOUND


def test_the_scan_finds_the_higher_of_two_maxima():
    def surface(theta):
        log_evidence = float(np.exp(-((theta[0] + 4) ** 2)) + 2 * np.exp(-((theta[0] - 5) ** 2)))
        return SimpleNamespace(result=SimpleNamespace(log_evidence=log_evidence))

    assert best_of_scan(surface) == pytest.approx(2 * np.log(10))


@pytest.mark.parametrize(
    ("theta", "gradient", "status"),
    [
        ([0.0, 1.0], [0.0, 1e-9], Status.CONVERGED),
        ([0.0, 1.0], [0.0, 1.0], Status.SCALES_NOT_FOUND),
        ([0.0, LOG_BOUNDS[0]], [0.0, -1.0], Status.SCALE_AT_BOUND),
        ([0.0, LOG_BOUNDS[0]], [0.0, 1.0], Status.SCALES_NOT_FOUND),
        ([0.0, LOG_BOUNDS[1]], [0.0, 1.0], Status.SCALE_AT_BOUND),
        ([0.0, LOG_BOUNDS[1]], [0.0, -1.0], Status.SCALES_NOT_FOUND),
    ],
)
def test_the_status_says_whether_the_evidence_still_rises_inside_the_bounds(theta, gradient, status):
    assert search_status(np.array(theta), np.array(gradient)) is status


A, B = [1.0, 4.0, 2.0, 9.0], [3.0, 1.0, 5.0, 0.5]


@pytest.mark.parametrize("start", [np.zeros(4), np.full(4, -4.0), np.full(4, LOG_BOUNDS[0]), [LOG_BOUNDS[0], 0, 0, 0]])
def test_columns_that_tell_something_are_found_and_the_others_switched_off(start):
    """From the lower bound a column comes back only where it is let in again."""
    columns = Columns(A, B)
    assert_allclose(settled(columns, np.asarray(start, dtype=float)), columns.best, atol=1e-8)


def test_the_only_column_comes_back_from_the_bound():
    columns = Columns([1.0], [3.0])
    assert_allclose(settled(columns, np.array([LOG_BOUNDS[0]])), columns.best, atol=1e-8)


@pytest.mark.parametrize("excess", [8e-5, 4e-5])
def test_a_column_is_kept_if_it_tells_anything_at_all(excess):
    """The evidence gained is a quarter of the square of the excess of b² over a: 1.6e-9 nats, or 4e-10."""
    columns, theta = Columns([1.0], [np.sqrt(1 + excess)]), 0.5 * np.log([0.7 * excess])
    kept = columns(columns.best).result.log_evidence - columns(np.array([LOG_BOUNDS[0]])).result.log_evidence > TELLING
    assert kept == (excess == 8e-5)
    assert_allclose(
        settled(columns, theta), columns.best if kept else LOG_BOUNDS[0], atol=1e-2
    )  # gradient 1e-10, curvature 2e-8


@pytest.mark.parametrize("scale", [1e-3, 0.02, 0.2])
def test_a_column_is_followed_up_a_slope_that_is_too_small_for_a_search(scale):
    """Rows that are all but separated tell little of any one scale: here the evidence rises up to 100."""
    columns = Columns([1e-4, 1.0], [np.sqrt(2e-4), 3.0])
    start = np.array([np.log(scale), columns.best[1]])
    assert abs(columns(start).gradient[0]) < 1e-5
    assert_allclose(settled(columns, start), columns.best, atol=1e-8)


def test_many_scales_are_left_as_they_are():
    theta = np.zeros(MOST_SETTLED + 1)
    assert settled(Columns(np.ones(theta.size), np.ones(theta.size)), theta) is theta


def test_a_column_whose_return_does_not_help_stays_out(monkeypatch):
    """Its pull is upwards, but where a search from there ends the evidence is lower."""
    columns = Columns([1.0], [3.0])
    monkeypatch.setattr(scale_search, "climbed", lambda surface, theta: np.array([LOG_BOUNDS[1]]))
    out = np.array([LOG_BOUNDS[0]])
    assert_array_equal(settled(columns, out), out)


def test_polishing_shortens_steps_that_lead_to_a_steeper_place():
    """Where the gradient is largest a whole Newton step goes on for ever; at the upper bound the gradient is -1."""
    columns = Columns([1.0], [np.sqrt(1.5)])
    for start in (0.5 * np.log([0.2001]), 0.5 * np.log([0.1999]), columns.best + 0.1):  # largest at s² = 0.2
        assert_allclose(polished(columns, start), columns.best, atol=1e-8)  # xtol of the root
