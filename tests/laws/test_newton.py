"""Damped Newton: where it converges, how it ends, and what it does not depend on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from credibly.data.rows import MemoryRows
from credibly.inference.gaussian import Gaussian
from credibly.model.likelihoods import BernoulliLogit
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import LastStep, newton
from credibly.numerics.status import Local, Status
from helpers import raw_objective

# Five points in one dimension that no threshold at zero separates: a row with x = -3 is of class 1.
X = np.array([[1.0], [2.0], [3.0], [4.0], [-3.0]])
Y = np.ones(5)


def logistic(x, y=Y, rows=X) -> Local:
    """Minus the log likelihood of a logistic model without prior or intercept."""
    return raw_objective(BernoulliLogit(), MemoryRows(rows, y), None).expand(x)


def undamped(expand, x, steps: int) -> list[np.ndarray]:
    """Newton as the notes have it: the full step, whatever it does."""
    path = [x]
    for _ in range(steps):
        at = expand(path[-1])
        path.append(path[-1] - at.hessian.solve(at.grad))
    return path


def bowl(matrix, centre):
    """½ (x - centre)ᵀ matrix (x - centre)."""
    matrix, hessian = np.asarray(matrix), PSD.of(np.asarray(matrix), "a bowl")

    def expand(x):
        gap = x - centre
        return Local(float(gap @ matrix @ gap) / 2, matrix @ gap, hessian)

    return expand


def test_undamped_newton_diverges_from_a_warm_start_where_damped_newton_converges():
    """MISSION E-5: convex is not enough."""
    start = np.array([5.0])
    path = undamped(logistic, start, steps=2)
    assert abs(path[2][0]) > 10 * abs(path[1][0]) > abs(start[0])
    solution = newton(logistic, start)
    assert solution.status is Status.CONVERGED
    assert_allclose(solution.local.grad, 0, atol=1e-9)
    assert_allclose(solution.x, newton(logistic, np.zeros(1)).x, rtol=1e-9)


@given(start=st.floats(-8, 8))
def test_damped_newton_converges_from_afar_on_a_problem_that_is_not_separated(start):
    """A full step from 6 lands where every curvature underflows: that is a step too long, not the end."""
    best = newton(logistic, np.zeros(1)).x
    solution = newton(logistic, np.array([start]))
    assert solution.status is Status.CONVERGED
    assert_allclose(solution.x, best, rtol=1e-8)


def test_no_step_raises_the_objective():
    values = []
    newton(logistic, np.array([5.0]), report=lambda step, value, decrement: values.append(value))
    assert len(values) > 3
    assert (np.diff(values) <= 1e-14).all()


@given(centre=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2), tilt=st.floats(-0.9, 0.9))
def test_one_step_solves_a_quadratic(centre, tilt):
    centre = np.array(centre)
    solution = newton(bowl([[2.0, tilt], [tilt, 1.0]], centre), np.array([1e3, 2e3]))
    assert solution.status is Status.CONVERGED
    assert solution.steps <= 3  # one step, and one more where the first one rounded
    assert_allclose(solution.x, centre, atol=1e-9)


def test_exactly_one_step_is_taken_on_a_quadratic_that_does_not_round():
    solution = newton(bowl([[4.0, 0.0], [0.0, 16.0]], np.array([3.0, -5.0])), np.zeros(2))
    assert_array_equal(solution.x, [3.0, -5.0])
    assert solution.steps == 2  # the start, and the minimum
    assert solution.decrement == 0.0


def test_a_search_that_starts_at_the_minimum_stays_there():
    solution = newton(bowl(np.eye(2), np.ones(2)), np.ones(2))
    assert solution.steps == 1
    assert_array_equal(solution.x, np.ones(2))


@given(
    entries=st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    shift=st.lists(st.floats(-5, 5), min_size=2, max_size=2),
)
def test_the_path_does_not_depend_on_the_coordinates(entries, shift):
    """x = Tz + s: the iterates in z are those in x, seen through the map."""
    T = np.array(entries).reshape(2, 2) + 5 * np.eye(2)  # diagonally dominant, so invertible
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30).astype(float)
    prior = Gaussian(np.zeros(2), PSD.of(np.eye(2), "a prior"))
    objective = raw_objective(BernoulliLogit(), MemoryRows(rows, y), prior)

    def seen_through(z):
        at = objective.expand(T @ z + shift)
        return Local(at.value, T.T @ at.grad, PSD.of(T.T @ at.hessian.matrix @ T, "a Hessian"))

    paths = [], []
    plain = newton(objective.expand, np.array([2.0, -1.0]), report=lambda *report: paths[0].append(report), max_steps=4)
    start = np.linalg.solve(T, np.array([2.0, -1.0]) - shift)
    mapped = newton(seen_through, start, report=lambda *report: paths[1].append(report), max_steps=4)
    assert_allclose(T @ mapped.x + shift, plain.x, rtol=1e-8, atol=1e-8)
    for (_, value, decrement), (_, seen, seen_decrement) in zip(*paths, strict=False):
        assert_allclose(seen, value, rtol=1e-11)
        assert_allclose(seen_decrement, decrement, rtol=1e-5, atol=1e-13)  # a square of a gradient near zero


# --- how it ends --------------------------------------------------------------------------------------------


def test_a_search_that_may_not_take_enough_steps_says_so():
    solution = newton(logistic, np.array([5.0]), max_steps=2)
    assert solution.status is Status.STEP_LIMIT
    assert not solution.status.good
    assert solution.steps == 3  # the start and two steps
    assert solution.decrement > 1e-20
    assert "max_iter" in solution.status.value


def test_a_search_that_cannot_go_down_says_that_it_stalled():
    def uphill(x):  # the gradient has the wrong sign, so that every step length raises the value
        return Local(float(x @ x), -2 * x, PSD(2 * np.eye(1)))

    solution = newton(uphill, np.array([1.0]))
    assert solution.status is Status.STALLED
    assert not solution.status.good
    assert_array_equal(solution.x, [1.0])


def test_a_search_that_meets_nan_is_not_called_converged():
    def cliff(x):
        return Local(float(x[0]) if x[0] > 0.99 else np.nan, np.ones(1), PSD(np.eye(1)))

    assert not newton(cliff, np.array([1.0])).status.good


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_a_search_ends_at_the_floor_of_rounding_whatever_the_size_of_the_objective(offset):
    """With a goal that rounding forbids, the search still ends, converged, where no gradient is left to see."""

    def lifted(x):
        at = logistic(x)
        return at._replace(value=at.value + offset)

    solution = newton(lifted, np.array([5.0]), tol=1e-300)
    assert solution.status is Status.CONVERGED
    assert_allclose(solution.x, newton(logistic, np.zeros(1)).x, rtol=1e-7)


def test_the_solution_carries_the_expansion_at_its_own_point():
    solution = newton(logistic, np.zeros(1))
    again = logistic(solution.x)
    assert solution.local.value == again.value
    assert_array_equal(solution.local.grad, again.grad)
    assert_allclose(solution.decrement, again.grad @ again.hessian.solve(again.grad), rtol=1e-10, atol=0)


def test_every_report_is_of_a_point_that_was_kept():
    steps = []
    solution = newton(logistic, np.array([5.0]), report=lambda step, value, decrement: steps.append(step))
    assert steps == list(range(solution.steps))


def test_every_status_is_a_sentence():
    for status in Status:
        assert status.value[0].isupper() and status.value.endswith(".")


def test_a_step_that_no_halving_makes_short_enough_is_taken_along_the_matrix_that_stands_in():
    """(x - 1)² for |x| < 5 and nothing beyond, with a Hessian of 1e-20 at zero: steps of 4e8 and more."""

    def expand(x) -> Local:
        value = float((x[0] - 1) ** 2) if abs(x[0]) < 5 else np.inf
        return Local(value, 2 * (x - 1), PSD(np.full((1, 1), 1e-10)), stand_in=lambda: PSD(np.sqrt([[2.0]])))

    solution = newton(expand, np.zeros(1))
    assert solution.status is Status.CURVATURE_REPLACED
    assert_allclose(solution.x, 1.0, rtol=1e-15)
    assert newton(lambda x: expand(x)._replace(stand_in=None), np.zeros(1)).status is Status.STALLED


def test_values_too_noisy_to_tell_do_not_stop_a_search_whose_gradient_shrinks():
    """x²/2, with 1e-9 more at the minimum than beside it."""

    def expand(x) -> Local:
        return Local(float(x @ x) / 2 + 1e-9 * (x[0] == 0), x, PSD(np.eye(1)))

    solution = newton(expand, np.array([1e-5]))
    assert solution.status is Status.CONVERGED
    assert solution.x[0] == 0.0


def test_a_last_step_that_the_gradient_confirms_needs_no_other_hessian():
    calls = []
    expand = bowl([[2.0, 1.0], [1.0, 3.0]], centre=np.array([1.0, -2.0]))

    def counted(x) -> Local:
        calls.append(x)
        return expand(x)

    last = LastStep(lambda x: expand(x).grad, near=100.0, hessian_tol=1e-3)
    solution = newton(counted, np.zeros(2), last=last)
    assert len(calls) == 1 == solution.steps
    assert_allclose(solution.x, [1.0, -2.0], rtol=1e-14)
    assert_allclose([solution.local.value, *solution.local.grad], 0.0, atol=1e-14)


def test_a_last_step_that_the_gradient_does_not_confirm_is_followed_by_others():
    """(x - 1)² + 2 log(1 + e^(50 (x + 0.3))): from x = -1 the wall on the way is not seen."""

    def expand(x) -> Local:
        p = 1 / (1 + np.exp(-50 * (x[0] + 0.3)))
        value = float((x[0] - 1) ** 2 + 2 * np.log1p(np.exp(50 * (x[0] + 0.3))))
        hessian = 2 + 2 * 2500 * p * (1 - p)
        return Local(value, np.array([2 * (x[0] - 1) + 100 * p]), PSD(np.array([[np.sqrt(hessian)]])))

    plain = newton(expand, np.array([-1.0]))
    last = LastStep(lambda x: expand(x).grad, near=100.0, hessian_tol=1e-3)
    solution = newton(expand, np.array([-1.0]), last=last)
    assert solution.status is Status.CONVERGED
    # what is left is at most tol, a distance of 1e-5, and the Hessian changes by `hessian_tol` at most
    assert_allclose(plain.local.hessian.factor.T @ (solution.x - plain.x), 0.0, atol=1e-5)
    assert_allclose(solution.local.hessian.factor, plain.local.hessian.factor, rtol=1e-3)
