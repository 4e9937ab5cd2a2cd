"""The Jeffreys prior where it is known in closed form: k of n labels, and one weight."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.inference.linear.design import ClassMap, Design, Standardization
from credibly.inference.linear.jeffreys import PenalisedObjective, jeffreys
from credibly.inference.linear.objective import Objective
from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit, BernoulliProbit, Categorical
from credibly.numerics.status import CONTROLS, Controls, Status
from helpers import raw_objective

K, N = 3, 10
FIRTH = logit((K + 0.5) / (N + 1))  # half a success and half a failure more


def objective(likelihood=None, k: int = K, n: int = N) -> Objective:
    y = np.repeat([1.0, 0.0], [k, n - k])
    return raw_objective(likelihood or BernoulliLogit(), MemoryRows(np.ones((n, 1)), y), None)


@pytest.mark.parametrize("f", [-2.0, 0.0, 1.5])
def test_the_penalised_likelihood_and_its_derivatives_are_those_of_one_more_row(f):
    """k f - n log(1 + e^f) + ½ log n p(1 - p): its second derivative is -(n + 1) p(1 - p)."""
    p = expit(f)
    penalised, x = PenalisedObjective(objective()), np.array([f])
    by_scoring, by_differences = penalised.expand(x), penalised.expand_by_differences(x)
    value = -K * f + N * np.logaddexp(0, f) - 0.5 * np.log(N * p * (1 - p))
    for here in (by_scoring, by_differences):
        assert_allclose(here.value, value, rtol=1e-14)
        assert_allclose(here.grad, [N * p - K - 0.5 * (1 - 2 * p)], rtol=1e-12, atol=1e-14)
    assert_allclose(by_scoring.hessian.matrix, [[N * p * (1 - p)]], rtol=1e-13)
    assert_allclose(
        by_differences.hessian.matrix, [[(N + 1) * p * (1 - p)]], rtol=1e-7
    )  # steps of 1e-4 standard deviations
    assert (by_scoring.exact, by_differences.exact, by_differences.replaced) == (False, True, False)


@pytest.mark.parametrize(
    ("likelihood", "size"), [(BernoulliProbit(), 3), (BernoulliCauchit(), 3), (Categorical(3), 6)], ids=repr
)
def test_the_gradient_is_that_of_the_value(likelihood, size):
    """In standardized coordinates of a column far from zero, with weights and offsets; of classes, their contrasts."""
    rng, several = np.random.default_rng(0), isinstance(likelihood, Categorical)
    y = rng.integers(0, 3, 40) if several else rng.integers(0, 2, 40).astype(float)
    offset = None if several else rng.normal(size=40)
    rows = MemoryRows(rng.normal([50.0, 0.0], 1.0, size=(40, 2)), y, rng.integers(1, 4, 40).astype(float), offset)
    columns, classes = describe(rows), ClassMap.contrasts(3) if several else ClassMap.separate(1)
    design = Design(Standardization.of(columns, intercept=True, sparse=False), classes, columns)
    penalised = PenalisedObjective(Objective(rows, design, likelihood, None))
    x, h = 0.3 * rng.normal(size=size), 1e-5
    rises = [(penalised.expand(x + h * e).value - penalised.expand(x - h * e).value) / (2 * h) for e in np.eye(size)]
    assert_allclose(penalised.expand(x).grad, rises, rtol=1e-6, atol=1e-6)  # rounding of values of 1e2 over h


def test_a_hessian_that_is_not_positive_is_replaced_by_the_information():
    """Far out on the wrong side the Cauchy's log likelihood and log information both fall like log f: convex."""
    penalised, x = PenalisedObjective(objective(BernoulliCauchit())), np.array([50.0])
    here = penalised.expand_by_differences(x)
    assert here.replaced and not here.exact
    assert_allclose(here.hessian.matrix, penalised.expand(x).hessian.matrix, rtol=1e-15)


@pytest.mark.parametrize("controls", [CONTROLS, Controls(max_steps=4)], ids=["scoring", "newton after four steps"])
def test_the_mode_is_half_a_success_and_half_a_failure_away_however_it_is_searched(controls):
    found = jeffreys(objective(), np.array([2.0]), controls)
    assert found.status is Status.CONVERGED
    assert_allclose(found.q.mean, [FIRTH], rtol=1e-8)
    p = expit(FIRTH)
    assert_allclose(found.q.precision.matrix, [[N * p * (1 - p)]], rtol=1e-8)  # the expected information
    # The likelihood is not at its own maximum there, so that an error of the mode counts in full.
    assert_allclose(found.log_likelihood, K * FIRTH - N * np.logaddexp(0, FIRTH), rtol=1e-8)
    assert np.isnan(found.log_evidence)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 20), (5, 5)])
def test_labels_that_are_all_alike_have_a_finite_estimate(k, n):
    assert_allclose(jeffreys(objective(k=k, n=n), np.zeros(1)).q.mean, logit((k + 0.5) / (n + 1)), rtol=1e-7)


def test_columns_far_from_zero_cost_no_digits():
    """Separated, and 90 spreads away: sums over raw rows would lose two digits more."""
    x = np.linspace(-1.0, 1.0, 40)
    y = (x > 0).astype(float)
    modes = []
    for shift in (0.0, 90.0):
        rows = MemoryRows((x + shift * x.std())[:, None], y)
        columns = describe(rows)
        design = Design(Standardization.of(columns, intercept=True, sparse=False), ClassMap.separate(1), columns)
        modes.append(jeffreys(Objective(rows, design, BernoulliLogit(), None), np.zeros(2)).q.mean)
    assert_allclose(modes[1], modes[0], rtol=0, atol=2e-11 * np.abs(modes[0]).max())


def test_of_several_modes_the_highest_is_found():
    """One row is so far out that a search from zero, and one by small steps, see little but it."""
    X = np.column_stack([[-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 50.0], np.ones(8)])
    problem = raw_objective(BernoulliLogit(), MemoryRows(X, (X[:, 0] > 0).astype(float)), None)
    penalised = PenalisedObjective(problem)
    found = jeffreys(problem, np.zeros(2))
    steeper = np.linspace(0.0, 5.0, 51)
    heights = [penalised.expand(np.array([slope, shift])).value for slope in steeper for shift in (-0.3, 0.0, 0.3)]
    assert penalised.expand(found.q.mean).value < min(heights)
    assert_allclose(penalised.expand(found.q.mean).grad, 0.0, atol=1e-8)
