"""Newton with few Hessians: the metric, which passes are asked for, and that the answer is Newton's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from credibly.errors import NotPositiveDefinite
from credibly.numerics import quasi_newton as quasi_newton_module
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import HESSIAN_CHANGE, Local, Status, newton, rounding
from credibly.numerics.quasi_newton import MOST_PASSES, Metric, Passes, Start, _passes_until, quasi_newton


def spd(rng, d: int) -> np.ndarray:
    root = rng.normal(size=(d, d))
    return root @ root.T + np.eye(d)


class Counted:
    """A ridge-penalised logistic loss that counts what it is asked for."""

    def __init__(self, rows, y, precision=1.0):
        self.rows, self.y, self.precision = rows, y, precision
        self.asked = ""

    def expand(self, x) -> Local:
        self.asked += "H"
        f, sign = self.rows @ x, 2 * self.y - 1
        p = expit(f)
        H = (self.rows * (p * (1 - p))[:, None]).T @ self.rows + self.precision * np.eye(len(x))
        value = np.logaddexp(0, -sign * f).sum() + self.precision * (x @ x) / 2
        return Local(float(value), self.slope(x), PSD.of(H, "a Hessian"))

    def gradient(self, x):
        self.asked += "g"
        return self.slope(x)

    def slope(self, x):
        return self.rows.T @ (expit(self.rows @ x) - self.y) + self.precision * x

    def passes(self, hessian_cost: float) -> Passes:
        return Passes(self.expand, self.gradient, hessian_cost)


def logistic(seed=0, n=2000, d=4) -> Counted:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    return Counted(rows, (rows.sum(axis=1) + rng.logistic(size=n) > 0).astype(float))


def near(problem: Counted, share: float = 0.1) -> Start:
    """The mode of the first rows, and their Hessian times what they stand for."""
    few = int(share * len(problem.y))
    part = Counted(problem.rows[:few], problem.y[:few], problem.precision * share)
    found = newton(part.expand, np.zeros(problem.rows.shape[1]))
    return Start(found.x, PSD.of(found.local.hessian.matrix / share, "a part's Hessian"), np.zeros_like(found.x))


def checked(problem: Counted, solution) -> None:
    """The promise: δ² ≤ tol at the point returned, and the Hessian there to 5e-11."""
    assert solution.status is Status.CONVERGED
    there = problem.expand(solution.x)
    assert float(there.grad @ there.hessian.solve(there.grad)) <= 1e-20
    white = there.hessian.half_solve(solution.local.hessian.factor)
    assert_allclose(white @ white.T, np.eye(len(white)), rtol=0, atol=3 * HESSIAN_CHANGE)  # over all entries
    assert_allclose(solution.local.value, there.value, rtol=1e-14)


# --- the metric ---------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 100), n_pairs=st.integers(0, 6))
def test_the_two_loops_are_the_product_that_defines_bfgs(seed, n_pairs):
    """Nocedal & Wright 2006, eq. 6.17: inverse ← (I - ρsyᵀ) inverse (I - ρysᵀ) + ρssᵀ."""
    rng = np.random.default_rng(seed)
    A, base, eye = spd(rng, 5), spd(rng, 5), np.eye(5)
    metric, inverse = Metric(PSD.of(base, "a base")), np.linalg.solve(base, eye)
    for s in rng.normal(size=(n_pairs, 5)):
        y = A @ s
        metric, left = metric.learn(s, y), eye - np.outer(s, y) / (s @ y)
        inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
    g = rng.normal(size=5)
    assert_allclose(metric.solve(g), inverse @ g, rtol=1e-7, atol=1e-9)  # products of matrices of condition 100


def test_a_pair_without_curvature_is_left_out():
    metric = Metric(PSD(np.eye(2)))
    assert metric.learn(np.array([1.0, 0.0]), np.array([-1.0, 5.0])) is metric
    assert metric.learn(np.array([1.0, 0.0]), np.array([np.nan, 5.0])) is metric


# --- the answer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hessian_cost", [1.0, 1.7, 5.0, 1000.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_minimum_and_its_hessian_are_those_of_newton(seed, hessian_cost):
    problem = logistic(seed)
    solution = quasi_newton(problem.passes(hessian_cost), near(problem))
    checked(problem, solution)
    assert_allclose(solution.x, newton(problem.expand, np.zeros(4)).x, rtol=1e-9)
    assert solution.steps >= 1


@pytest.mark.parametrize("factor", [1e-6, 0.1, 0.5, 2.0, 10.0, 1e6])
def test_a_metric_that_is_wrong_by_any_factor_costs_passes_but_not_the_answer(factor):
    problem = logistic()
    x, metric, retreat = near(problem)[:3]
    checked(problem, quasi_newton(problem.passes(5.0), Start(x, PSD(np.sqrt(factor) * metric.factor), retreat)))


@pytest.mark.parametrize("away", [1.0, 10.0, 100.0])
def test_a_start_far_away_is_left_to_damped_newton(away):
    """A full step from 10 lands where every curvature has underflown (see the laws of Newton)."""
    problem = logistic(d=2)
    start = Start(np.full(2, away), PSD(np.eye(2)), np.zeros(2))
    checked(problem, quasi_newton(problem.passes(2.0), start))


@pytest.mark.parametrize("hessian_cost", [1.0, 3.0])
def test_an_objective_that_is_not_finite_at_the_start_sends_the_search_back(hessian_cost):
    problem = logistic()

    def gradient(x):
        return np.full(4, np.inf) if x[0] > 50 else problem.gradient(x)

    def expand(x):
        if x[0] > 50:
            raise NotPositiveDefinite("no curvature is left here")
        return problem.expand(x)

    start = Start(np.full(4, 100.0), PSD(np.eye(4)), np.zeros(4))
    with np.errstate(invalid="ignore"):
        checked(problem, quasi_newton(Passes(expand, gradient, hessian_cost), start))


@pytest.mark.parametrize("hessian_cost", [1.0, 3.0])
def test_a_search_that_meets_nan_is_not_called_converged(hessian_cost):
    def expand(x):
        return Local(np.nan, np.full(1, np.nan), PSD(np.eye(1)))

    passes = Passes(expand, lambda x: np.full(1, np.nan), hessian_cost)
    start = Start(np.ones(1), PSD(np.eye(1)), np.zeros(1), bend=1e-6)
    assert not quasi_newton(passes, start).status.good


# --- what is asked for --------------------------------------------------------------------------------------


def test_where_hessians_are_dear_there_is_one():
    problem = logistic()
    solution = quasi_newton(problem.passes(1000.0), near(problem))
    assert problem.asked.count("H") == 1 and problem.asked.endswith("H")
    assert solution.steps == 1
    assert problem.asked.count("g") <= 12


def test_where_hessians_cost_little_more_than_gradients_there_is_one_on_the_way():
    problem = logistic(n=20_000)
    quasi_newton(problem.passes(1.7), near(problem))
    assert problem.asked.count("H") == 2
    assert problem.asked.count("g") <= 5


def test_a_plan_that_a_sample_has_told_asks_for_the_hessian_at_once_and_keeps_its_promises():
    """A guess of the curvature's change may be wrong by any factor: it moves passes, not the answer."""
    problem, start = logistic(n=20_000), near(logistic(n=20_000))
    quasi_newton(problem.passes(2.0), start._replace(rate=1e-3, likely_bend=1e-6))
    assert problem.asked.startswith("gH")
    for likely in (1e-30, 1e-12, 1e-5, 1.0, 1e12):
        checked(problem, quasi_newton(problem.passes(3.0), start._replace(rate=1e-3, likely_bend=likely)))


def test_a_hessian_that_measures_longer_than_the_metric_before_it_is_no_step_back(monkeypatch):
    """In a metric four times too large δ² is four times too small: where the Hessian comes in, it seems to grow."""
    problem, start = logistic(n=20_000), near(logistic(n=20_000))
    large = start._replace(metric=PSD(2 * start.metric.factor), rate=1e-3, likely_bend=1e-5)
    monkeypatch.setattr(quasi_newton_module, "newton", None)  # which would begin anew
    checked(problem, quasi_newton(problem.passes(2.0), large))
    assert problem.asked.startswith("gH")


def test_a_first_step_that_fails_is_taken_again_with_the_hessian(monkeypatch):
    """In a metric a tenth as large as it should be a step goes ten times too far; damped Newton is not needed yet."""
    problem, start = logistic(n=20_000), near(logistic(n=20_000))
    small = start._replace(metric=PSD(np.sqrt(0.1) * start.metric.factor))
    monkeypatch.setattr(quasi_newton_module, "newton", None)
    checked(problem, quasi_newton(problem.passes(3.0), small))
    assert problem.asked.startswith("ggH")


@pytest.mark.parametrize(
    ("needed", "first", "rate", "passes"), [(1e-6, 1e-7, 0.5, 1), (1e-6, 1e-2, 0.1, 5), (1e-6, 1e-2, 1.0, np.inf)]
)
def test_passes_are_counted_until_enough_is_reached(needed, first, rate, passes):
    assert _passes_until(needed, first, rate) == pytest.approx(passes, rel=1e-12)


def test_where_hessians_are_as_cheap_as_gradients_there_is_nothing_else():
    problem = logistic()
    quasi_newton(problem.passes(1.0), near(problem))
    assert set(problem.asked) == {"H"}
    assert len(problem.asked) <= 5


def test_what_is_known_at_the_start_is_not_asked_for():
    """A mode under one prior is one Newton step from that under the next: the Hessian is asked for there at once."""
    problem = logistic(n=20_000)
    first = quasi_newton(problem.passes(3.0), near(problem))
    assert np.isfinite(first.bend)
    moved = Counted(problem.rows, problem.y, problem.precision + 1e-3)
    gradient = 1e-3 * first.x
    metric = PSD.of(first.local.hessian.matrix + 1e-3 * np.eye(4), "a Hessian")
    solution = quasi_newton(moved.passes(3.0), Start(first.x, metric, first.x, gradient, first.bend))
    assert moved.asked == "H"
    checked(moved, solution)


def test_a_loose_goal_ends_earlier():
    problem = logistic()
    solution = quasi_newton(problem.passes(1000.0), near(problem), tol=1e-2)
    assert solution.decrement <= 1e-2
    there = problem.expand(solution.x)
    assert_array_equal(solution.local.hessian.factor, there.hessian.factor)
    asked, problem.asked = problem.asked, ""
    quasi_newton(problem.passes(1000.0), near(problem))
    assert len(asked) < len(problem.asked)


def test_a_search_that_may_not_take_enough_steps_says_so():
    problem = logistic(d=2)
    start = Start(np.full(2, 10.0), PSD(np.eye(2)), np.full(2, 5.0))
    solution = quasi_newton(problem.passes(2.0), start, max_steps=1)
    assert solution.status is Status.STEP_LIMIT
    assert solution.steps == 2  # the start and one step; points tried and left do not count


def test_reports_count_the_hessians():
    problem, told = logistic(n=20_000), []
    solution = quasi_newton(problem.passes(1.7), near(problem), report=lambda *report: told.append(report))
    assert [step for step, _, _ in told] == list(range(solution.steps))
    assert told[-1][2] < told[0][2]


def test_a_goal_that_rounding_forbids_ends_at_the_floor():
    problem = logistic()
    solution = quasi_newton(problem.passes(1000.0), near(problem), tol=1e-300)
    assert solution.status is Status.CONVERGED
    assert_allclose(solution.x, newton(problem.expand, np.zeros(4)).x, rtol=1e-9)
    assert len(problem.asked) <= 30


@pytest.mark.parametrize("hessian_cost", [1.0, 2.0])
def test_a_search_that_may_take_no_step_stays_at_the_start(hessian_cost):
    problem, start = logistic(d=2), Start(np.full(2, 0.5), PSD(np.eye(2)), np.zeros(2))
    solution = quasi_newton(problem.passes(hessian_cost), start, max_steps=0)
    assert solution.status is Status.STEP_LIMIT
    assert min(abs(solution.x - 0.5).max(), abs(solution.x).max()) == 0


def test_a_minimum_without_curvature_is_left_to_damped_newton():
    """A step on x⁸ goes to 6/7 of x: so slowly that the search ends after its most passes, and Newton takes over."""
    bowl = lambda x: Local(float(x[0] ** 8), 8 * x**7, PSD(np.sqrt(56 * x[:, None] ** 6)))  # noqa: E731
    reports = []
    report = lambda step, value, decrement: reports.append((step, value))  # noqa: E731
    start = Start(np.array([6.0]), PSD(np.eye(1)), np.array([6.0]))
    solution = quasi_newton(Passes(bowl, lambda x: 8 * x**7, 1.0), start, report=report)
    steps, values = zip(*reports, strict=True)
    assert list(steps) == sorted(set(steps))
    assert_allclose(values[:MOST_PASSES], [(6 * (6 / 7) ** k) ** 8 for k in range(MOST_PASSES)], rtol=1e-12)
    assert solution.steps == steps[-1] + 1 > MOST_PASSES
    assert solution.decrement <= rounding(0.0)  # as far as the value shows, this is the minimum


@pytest.mark.parametrize(
    ("needed", "first", "rate", "expected"),
    [
        (1e-3, 1e-4, 0.5, 1.0),
        (1e-3, 1e-1, 0.1, 3.0),
        (0.0, 1.0, 0.5, math.inf),
        (1e-300, 1e300, 1e-100, 7.0),  # the quotient of the first two is no number
        (1e-3, math.inf, 0.5, math.inf),
        (1e-3, 1.0, 1.0, math.inf),
        (1e-3, 1.0, 0.0, 2.0),
    ],
)
def test_passes_are_counted_for_numbers_of_any_size(needed, first, rate, expected):
    assert_allclose(_passes_until(needed, first, rate), expected, rtol=1e-12)
