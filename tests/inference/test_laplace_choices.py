"""What the search for a mode decides before it computes anything: sizes, costs, when to stop and what to keep."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from credibly import BayesianLogisticRegression, Normal
from credibly.data.source import Block, MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference import laplace as module
from credibly.inference.laplace import (
    Controls,
    hessian_cost,
    laplace,
    part_sizes,
    result_at,
    sample_sizes,
    sampled_start,
    stochastic_gradient,
)
from credibly.inference.objective import MOST_FUSED_COLUMNS, Objective
from credibly.inference.posterior import Gaussian
from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit, Categorical
from credibly.model.likelihoods.families import Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.links import Log
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import Local, Solution, Status
from credibly.numerics.quasi_newton import Start

ELSEWHERE = SimpleNamespace(n_rows=1_000_000_000)


def in_memory(n: int) -> MemoryRows:
    return MemoryRows(np.broadcast_to(0.0, (n, 1)), np.broadcast_to(0.0, (n,)))


def asked(rows, *, classes: int = 1, outputs: int | None = None, prior: object = "a prior", log_concave: bool = True):
    """As much of an objective as the choices look at."""
    contrast = np.ones((classes, classes if outputs is None else outputs))
    counts = FamilyLikelihood(Poisson(), Log())
    return SimpleNamespace(rows=rows, contrast=contrast, prior=prior, log_concave=log_concave, likelihood=counts)


# --- costs and sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "outputs", "n_weights", "cost"),
    [
        (1, 1, 30, 1.4 + 30 / 19),
        (1, 1, MOST_FUSED_COLUMNS, 1.4 + MOST_FUSED_COLUMNS / 19),
        (1, 1, MOST_FUSED_COLUMNS + 1, 2.2 + (MOST_FUSED_COLUMNS + 1) / 25),
        (4, 4, 400, 1.5 + 3 * 100 / 13),
        (3, 2, 60, 1.5 + 2 * 30 / 13),
        (2, 2, 4 * MOST_FUSED_COLUMNS, 1.5 + 2 * MOST_FUSED_COLUMNS / 13),
    ],
)
def test_a_hessian_costs_more_the_more_classes_there_are_to_pair(classes, outputs, n_weights, cost):
    objective = asked(in_memory(10), classes=classes, outputs=outputs)
    assert_allclose(hessian_cost(objective, n_weights), cost, rtol=1e-14)


def test_a_step_that_hits_the_mode_of_one_weight_by_chance_promises_nothing():
    """Rows, scale and seed are those of a fit whose variance was 1.2e-7 off, and that was called converged."""
    rng = np.random.default_rng(11)
    rng.integers(2), rng.integers(1, 4)
    n = 310_000 + int(rng.integers(20_000))
    X = rng.normal(size=(n, 1)) * 10.0 ** rng.integers(-2, 3)
    if rng.random() < 0.4:
        X = np.exp(rng.normal(size=(n, 1)))
    slope = rng.normal(size=1) * rng.choice([0.3, 2, 8]) / X.std()
    rng.choice([0, -5, -8])  # an intercept, in other fits
    y = (X @ slope + rng.logistic(size=n) > 0).astype(int)
    model = BayesianLogisticRegression(prior=Normal(scale=1 / X.std()), fit_intercept=False).fit(X, y)
    p = expit(X[:, 0] * model.posterior_.mean[0])
    precision = (X[:, 0] ** 2 * p * (1 - p)).sum() + X.var()
    assert_allclose(model.posterior_.cov[0, 0] * precision, 1, rtol=1e-9)  # 5e-11, and sums of 3e5 terms


@pytest.mark.parametrize(("n", "d", "cost"), [(40_000, 100, 6.66), (40_001, 100, 3.81), (400_001, 10, 1.5)])
def test_gradients_of_a_table_beyond_the_cache_wait_for_the_memory(n, d, cost):
    assert_allclose(hessian_cost(asked(in_memory(n)), d), cost, atol=0.005)  # as written: two digits


def test_reading_makes_gradients_nearly_as_dear_as_hessians():
    assert_allclose(hessian_cost(asked(ELSEWHERE), 30), (10 + (1.4 + 30 / 19) / 1.75) / 11, rtol=1e-14)


@pytest.mark.parametrize(
    ("n", "outputs", "n_weights", "sizes"),
    [
        (20_000, 1, 19, [1000, 4000, 10_000]),  # at least a thousand, at most half of them
        (60_000, 1, 19, [3000, 12_000, 30_000]),  # one row in twenty
        (100_000, 1, 38, [5666, 22_664, 50_000]),  # 3.4 rows, where a Hessian costs as many gradients
        (400_000, 1, 20, [20_000, 80_000, 200_000]),
        (2_000_000, 1, 20, [40_000, 160_000, 500_000]),  # at most two thousand for each weight, and ten million numbers
        (2_000_000, 1, 100, [100_000]),  # and ten million numbers
        (20_000, 8, 160, [2000, 8000, 10_000]),  # at most one row in ten
        (10_000, 8, 160, [1600, 5000]),  # twenty rows for each weight, of which a row tells of two
        (10_000, 2, 160, [1600, 5000]),
        (10_000, 1, 160, [3200, 5000]),
        (1_000_000, 1, 1000, [20_000]),  # however many numbers these are
        (1_000_000, 4, 1000, [40_000]),
        (5000, 1, 60, [1200, 2500]),
        (4999, 1, 61, []),
        (5000, 1, 59, []),
        (6000, 1, 300, [3000]),
        (5999, 1, 300, []),
    ],
)
def test_sizes_of_samples(n, outputs, n_weights, sizes):
    found = sample_sizes(asked(in_memory(n), classes=outputs), n_weights)
    assert found == sizes
    assert all(isinstance(it, int) for it in found)


def test_rows_elsewhere_are_sampled_once():
    assert sample_sizes(asked(ELSEWHERE), 20) == [500_000]


@pytest.mark.parametrize(
    ("size", "outputs", "n_weights", "sizes"),
    [
        (3999, 1, 20, []),
        (4000, 1, 20, [1000]),  # a quarter of it
        (10_000, 1, 20, [1000, 5000]),
        (100_000, 1, 100, [5000, 25_000]),  # fifty rows for each weight
        (100_000, 3, 100, [2500, 12_500]),  # of which a row tells of two
    ],
)
def test_sizes_of_the_parts_of_a_sample(size, outputs, n_weights, sizes):
    assert part_sizes(size, asked(in_memory(10), classes=outputs), n_weights) == sizes


@pytest.mark.parametrize("given", [{"prior": None}, {"log_concave": False}])
def test_no_sample_where_its_mode_may_mislead(given):
    assert sample_sizes(asked(in_memory(20_000), **given), 20) == []


# --- the search ---------------------------------------------------------------------------------------------


class Noted:
    """Takes the place of a search, and notes what it was asked for."""

    def __init__(self, answer):
        self.answer, self.args, self.given = answer, None, None

    def __call__(self, *args, **given):
        self.args, self.given = args, given
        return self.answer


def silence(*_):
    pass


def few_rows(n=40, d=2, likelihood=None, prior="some"):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + rng.logistic(size=n) > 0).astype(float)
    belief = Gaussian(np.zeros(d), PSD.diagonal(np.full(d, 0.5))) if prior == "some" else None
    return Objective(likelihood or BernoulliLogit(), MemoryRows(X, y), belief, np.eye(1))


@pytest.mark.parametrize(("n", "confirm"), [(4999, True), (5000, False)])
def test_newton_is_asked_as_the_controls_say_and_confirms_unless_rows_are_many(monkeypatch, n, confirm):
    objective, start = few_rows(), np.zeros(2)
    solution = module.newton(objective.expand, start)
    noted = Noted(solution)
    monkeypatch.setattr(module, "newton", noted)
    many = SimpleNamespace(rows=in_memory(n), expand=objective.expand, prior=None, log_prior=objective.log_prior)
    laplace(many, start, Controls(1e-3, 7, silence))
    assert noted.args == (objective.expand, start)
    assert noted.given == {"tol": 1e-3, "max_steps": 7, "confirm": confirm, "report": silence}


def test_from_a_start_with_a_metric_gradients_are_asked_as_the_controls_say(monkeypatch):
    objective = few_rows()
    solution = module.newton(objective.expand, np.zeros(2))
    noted = Noted(solution)
    monkeypatch.setattr(module, "quasi_newton", noted)
    start = Start(np.ones(2), solution.local.hessian, retreat=np.zeros(2))
    laplace(objective, start, Controls(1e-3, 7, silence))
    passes, first = noted.args
    assert passes == (objective.expand, objective.gradient, hessian_cost(objective, 2))
    assert first is start
    assert noted.given == {"tol": 1e-3, "max_steps": 7, "report": silence}


def test_without_a_prior_there_is_no_evidence_and_the_likelihood_is_the_objective():
    objective = few_rows(prior=None)
    found = laplace(objective, np.zeros(2))
    assert np.isnan(found.log_evidence)
    assert found.log_likelihood == -found.solution.local.value


def test_the_evidence_and_likelihood_of_a_point_follow_from_its_local_quadratic():
    objective, x = few_rows(), np.array([0.3, -0.2])
    local = Local(2.0, np.zeros(2), PSD.diagonal(np.array([4.0, 9.0])))
    found = result_at(objective, Solution(x, local, Status.CONVERGED, 3, 0.0))
    assert_array_equal(found.posterior.mean, x)
    assert_allclose(found.log_evidence, -2.0 + np.log(2 * np.pi) - np.log(6.0), rtol=1e-14)
    log_prior = -0.25 * (0.09 + 0.04) + np.log(0.5) - np.log(2 * np.pi)
    assert_allclose(found.log_likelihood, -2.0 - log_prior, rtol=1e-14)
    assert found.solution.steps == 3


# --- samples ------------------------------------------------------------------------------------------------


def test_the_search_in_a_sample_is_as_careful_as_the_sample_is_good(monkeypatch):
    """Its mode is √(d n / m) standard deviations away; a tenth of the square may be left."""
    objective = few_rows(n=20_000, d=20)
    m = sample_sizes(objective, 20)[0]
    found = module.newton(objective.expand, np.zeros(20), max_steps=1)
    noted = Noted(found)
    monkeypatch.setattr(module, "newton", noted)
    origin = np.zeros(20)
    start = sampled_start(objective, origin)
    watched = noted.args[0].__self__
    assert noted.args[1] is origin
    assert_allclose(noted.given["tol"], 0.1 * 20 * 20_000 / m, rtol=1e-14)
    assert noted.given["max_steps"] == 30
    assert_allclose(watched.least_loss, 3 * 20 * 20_000 / m, rtol=1e-14)
    expected = objective.sample(np.random.default_rng(0), m)
    assert_array_equal(watched.sample.rows.X, expected.rows.X)
    assert start.x is found.x and start.metric is found.local.hessian and start.retreat is origin


def test_a_larger_sample_starts_where_the_search_in_a_smaller_one_was_stopped(monkeypatch):
    starts = []

    def stopped(expand, x, **_):
        starts.append(x)
        expand.__self__.x = x + 1
        raise module._OverfittedSample

    monkeypatch.setattr(module, "newton", stopped)
    objective = few_rows(n=20_000, d=20)
    last = sampled_start(objective, np.zeros(20))
    sizes = sample_sizes(objective, 20)
    searches = sum(1 + len(part_sizes(size, objective, 20)) for size in sizes)
    assert searches > len(sizes) == 3
    assert_array_equal(np.array(starts)[:, 0], np.arange(searches))
    assert_array_equal(last, np.full(20, searches))


def test_a_search_that_is_stopped_at_its_first_point_leaves_it_where_it_was(monkeypatch):
    def stopped(expand, x, **_):
        raise module._OverfittedSample

    monkeypatch.setattr(module, "newton", stopped)
    origin = np.zeros(20)
    assert sampled_start(few_rows(n=20_000, d=20), origin) is origin


def test_larger_parts_of_a_sample_take_one_step_from_the_mode_of_a_smaller_one(monkeypatch):
    objective, expanded = few_rows(n=60_000, d=20), []
    expand = Objective.expand
    monkeypatch.setattr(Objective, "expand", lambda self, x: (expanded.append(self.rows.n_rows), expand(self, x))[1])
    monkeypatch.setattr(module, "sample_sizes", lambda *_: [20_000])
    start = sampled_start(objective, np.zeros(20))
    assert expanded[:2] == [1000, 1000] and expanded[-2:] == [5000, 20_000]
    mode = module.newton(objective.expand, start.x)
    away = mode.local.hessian.factor.T @ (start.x - mode.x)
    # d n / m, of which a third of the rows has but two thirds left: chi-squared with 20 degrees, five deviations
    assert away @ away < 3 * 2 / 3 * (20 + 5 * np.sqrt(40))
    assert 0 < start.likely_bend * 60_000 < 3
    assert_allclose(start.rate, 20 / 20_000 * (1 + 2 * start.likely_bend * 60_000), rtol=1e-14)


def test_a_part_that_is_no_guide_is_passed_over(monkeypatch):
    def refused(self, x):
        if self.rows.n_rows == 1000:
            raise NotPositiveDefinite("no curvature is left here")
        return expand(self, x)

    expand = Objective.expand
    monkeypatch.setattr(Objective, "expand", refused)
    monkeypatch.setattr(module, "sample_sizes", lambda *_: [20_000])
    assert isinstance(sampled_start(few_rows(n=60_000, d=20), np.zeros(20)), Start)


def test_a_part_in_which_a_column_is_constant_does_not_move_the_search():
    """Without a prior its weight is left open there, but for rounding."""
    objective = few_rows(n=60_000, d=20, prior=None)
    objective.rows.X[:, 3] = 1e-9 * objective.rows.X[:, 2] + objective.rows.X[:, 2]
    climb = module._Climb(60_000, np.zeros(20))
    climb.towards(objective.sample(np.random.default_rng(0), 1000))
    assert not climb.x.any()
    with pytest.raises(NotPositiveDefinite):
        climb.mode_of(objective.sample(np.random.default_rng(0), 1000))


@pytest.mark.parametrize("likelihood", [BernoulliLogit(), BernoulliCauchit(), Categorical(3)], ids=repr)
def test_labels_that_are_fitted_too_well_stop_the_search(likelihood):
    values = {1.0: 7.0, 2.0: 6.0, 3.0: 5.999}
    sample = SimpleNamespace(
        likelihood=likelihood, expand=lambda x: Local(values[float(x[0])], None, None), log_prior=lambda x: -1.0
    )
    watched = module._Watched(sample, np.zeros(1), 5.0)
    for good in (1.0, 2.0):  # the prior is no part of the loss, and just as much as is asked for is enough
        assert watched.expand(np.array([good])).value == values[good]
        assert watched.x[0] == good
    with pytest.raises(module._OverfittedSample):
        watched.expand(np.array([3.0]))
    assert watched.x[0] == 2.0


def test_targets_that_are_no_labels_may_be_fitted_however_well():
    sample = SimpleNamespace(
        likelihood=FamilyLikelihood(Poisson(), Log()), expand=lambda x: Local(-1e9, None, None), log_prior=lambda x: 0.0
    )
    assert module._Watched(sample, np.zeros(1), 5.0).expand(np.ones(1)).value == -1e9


# --- stochastic gradient ------------------------------------------------------------------------------------


class Walk:
    """An objective whose gradient, Hessian and sweeps are known numbers."""

    def __init__(self, n_rows, grads=(1.0,), hessian=1.0):
        self.rows = SimpleNamespace(n_rows=n_rows, batches=self.batches)
        self.grads, self.hessian, self.prior = grads, hessian, None
        self.expanded, self.sizes, self.steps = [], [], []

    def batches(self, rng, size):
        self.sizes.append(size)
        return [Block(np.zeros((3, 1)), np.zeros(3), np.ones(3))]

    def expand(self, x):
        grad = self.grads[min(len(self.expanded), len(self.grads) - 1)]
        self.expanded.append(float(x[0]))
        return Local(10.0 + len(self.expanded), np.full(len(x), grad), PSD.diagonal(np.full(len(x), self.hessian)))

    def batch_gradient(self, batch, x, share):
        return x + share

    def log_prior(self, x):
        return 0.0

    def sweep(self, batches, x, *, first_step, t):
        """The sweep number k ends at 10 k and has the average k."""
        k = len(self.steps) + 1
        self.steps.append((float(x[0]), first_step, t, [float(batch(x)[0]) for batch in batches]))
        return np.full_like(x, 10.0 * k), np.full_like(x, float(k)), t + 5


def walked(monkeypatch, walk, d=1, sweeps=7, report=silence):
    monkeypatch.setattr(module, "averaged_sweep", walk.sweep)
    controls = Controls(max_steps=sweeps, report=report)
    return stochastic_gradient(np.random.default_rng(0), walk, np.zeros(d), controls).solution


@pytest.mark.parametrize(
    ("n_rows", "size"), [(10, 64), (64, 64), (65, 8), (127, 8), (144, 9), (1000, 62), (1024, 64), (9999, 64)]
)
def test_batches_are_a_sixteenth_of_the_rows_within_limits(monkeypatch, n_rows, size):
    walk = Walk(n_rows)
    walked(monkeypatch, walk, sweeps=1)
    assert walk.sizes == [size]


def test_the_average_forgets_at_powers_of_two(monkeypatch):
    told = []
    walk = Walk(100, hessian=4.0)
    solution = walked(monkeypatch, walk, report=lambda *it: told.append(it))
    assert walk.expanded == [0.0, 1.0, 2.0, 2.5, 4.0, 4.5, 5.0, 5.5]
    assert_array_equal(solution.x, [5.5])
    assert solution.status is Status.AWAY_FROM_MODE
    assert (solution.steps, solution.decrement) == (7, 0.25)
    assert told == [(k, 11.0 + k, 0.25) for k in range(1, 8)]


def test_sweeps_go_on_where_the_last_one_ended_in_units_of_the_last_hessian(monkeypatch):
    walk = Walk(100, hessian=4.0)
    walked(monkeypatch, walk, sweeps=2)
    assert walk.steps == [(0.0, 1.0, 0, [0.03 / 4]), (10.0, 1.0, 5, [10.03 / 4])]


@pytest.mark.parametrize(("d", "first"), [(1, 1.0), (4, 1.0), (8, 0.5), (16, 0.25)])
def test_the_first_step_is_shorter_where_a_batch_has_few_rows_for_each_weight(monkeypatch, d, first):
    walk = Walk(100)
    walked(monkeypatch, walk, d=d, sweeps=1)
    assert walk.steps[0][1] == first


@pytest.mark.parametrize(
    ("grads", "steps", "status"),
    [((0.15, 0.15, 0.0999), 2, Status.NEAR_MODE), ((0.15, 0.101), 7, Status.AWAY_FROM_MODE)],
)
def test_sweeps_end_within_a_tenth_of_a_standard_deviation(monkeypatch, grads, steps, status):
    solution = walked(monkeypatch, Walk(100, grads=grads))
    assert (solution.steps, solution.status) == (steps, status)


def test_just_near_is_near(monkeypatch):
    monkeypatch.setattr(module, "NEAR", 0.25)  # a number without rounding
    solution = walked(monkeypatch, Walk(100, hessian=4.0))
    assert (solution.steps, solution.decrement, solution.status) == (1, 0.25, Status.NEAR_MODE)
