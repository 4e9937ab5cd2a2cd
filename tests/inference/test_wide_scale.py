"""Very many weights: how the search for a mode ends, and how the scale of the prior is stepped to."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly import BayesianLogisticRegression
from credibly.data.source import MemoryRows
from credibly.estimators import wide_learning
from credibly.inference import wide_scale
from credibly.inference.curvature import RowParts, RowPasses
from credibly.inference.frame import Frame
from credibly.inference.laplace import Controls, laplace
from credibly.inference.objective import Objective
from credibly.inference.posterior import Gaussian
from credibly.inference.wide import GOAL, wide_mode
from credibly.inference.wide_prior import WidePrior
from credibly.inference.wide_scale import LONGEST_STEP, _step
from credibly.model.likelihoods import BernoulliLogit
from credibly.model.priors import Normal, WeightShape
from credibly.numerics.linalg import PSD
from credibly.numerics.newton import Status
from helpers import UnitGaussian

SCALE = 10.0  # of the prior: a full Newton step from far out goes too far


def problem(likelihood, n: int = 60, d: int = 5) -> tuple[RowPasses, MemoryRows]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + rng.logistic(size=n) > 0).astype(float)
    rows, shape = MemoryRows(X, y, threads=1), WeightShape(d, 1, False)
    frame = Frame(np.zeros(d), np.ones(d), intercept=False)
    return RowPasses(likelihood, RowParts(rows, d), frame, WidePrior.of(Normal(scale=SCALE), shape, frame)), rows


# --- the mode -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0.0, 1.0], ids=["zero", "far out"])
def test_the_mode_is_that_of_the_matrix_from_wherever_the_search_starts(start):
    passes, rows = problem(BernoulliLogit())
    found = wide_mode(passes, np.full(passes.shape, start))
    prior = Gaussian(np.zeros(5), PSD(np.eye(5) / SCALE))
    full = laplace(Objective(BernoulliLogit(), rows, prior, np.eye(1)), np.zeros(5)).posterior
    assert found.status is Status.CONVERGED
    away = full.precision.factor.T @ (passes.weights(found.x)[0] - full.mean)
    assert np.linalg.norm(away) < 2 * np.sqrt(GOAL)  # the decrement is known to a share of its own


def test_a_search_that_may_take_no_step_says_so():
    passes, _ = problem(BernoulliLogit())
    found = wide_mode(passes, np.zeros(passes.shape), Controls(max_steps=0))
    assert found.status is Status.STEP_LIMIT
    assert found.decrement > GOAL
    assert_array_equal(found.x, 0.0)


class Downhill(UnitGaussian):
    """Slopes of the wrong sign: every step along them raises the objective."""

    def slopes(self, y, f):
        return super().slopes(y, f)._replace(grad=f - y)


def test_a_search_that_no_step_helps_stalls():
    passes, _ = problem(Downhill())
    found = wide_mode(passes, np.zeros(passes.shape))
    assert found.status is Status.STALLED
    assert_array_equal(found.x, 0.0)


# --- the scale ----------------------------------------------------------------------------------------------


def seen(theta: float, log_ratio: float) -> tuple[float, float, float]:
    """A scale tried, and by how much the fixed point would change it."""
    return theta, float(np.exp(2 * log_ratio)), 1.0


def test_the_first_step_is_that_of_the_fixed_point():
    assert_allclose(_step([seen(0.0, 0.3)]), 0.3, rtol=1e-14)
    assert _step([seen(0.0, 5.0)]) == LONGEST_STEP


def test_a_secant_lands_where_a_straight_line_is_zero():
    """Log ratios 0.1 (2 - θ)."""
    assert_allclose(_step([seen(0.0, 0.2), seen(1.0, 0.1)]), 1.0, rtol=1e-12)
    assert_allclose(_step([seen(4.0, -0.2), seen(3.0, -0.1)]), -1.0, rtol=1e-12)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("before", [0.01, 0.02], ids=["rising", "level"])
def test_where_the_ratio_does_not_fall_the_step_is_long_and_goes_where_the_evidence_rises(side, before):
    """A secant would go back, to the minimum between: for ever to and fro."""
    assert _step([seen(0.0, side * before), seen(side, side * 0.02)]) == side * LONGEST_STEP


def test_a_scale_at_which_nothing_pulls_stays():
    assert _step([seen(1.0, 0.0), seen(2.0, 0.0)]) == 0.0


def both(monkeypatch, X, y) -> list[BayesianLogisticRegression]:
    """By the matrix of all pairs of weights, and without."""
    monkeypatch.setattr(wide_learning, "FEWEST_WIDE", 10**9)
    fits = []
    for most in (5000, 100):
        monkeypatch.setattr(wide_learning, "LARGEST_FULL", most)
        fits.append(BayesianLogisticRegression().fit(X, y))
    return fits


def test_columns_that_say_nothing_end_at_the_smallest_scale(monkeypatch):
    """Labels that are noise, one in twenty: the evidence falls with the scale, ever more slowly towards zero."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 150)), (rng.random(300) < 0.05).astype(int)
    full, wide = both(monkeypatch, X, y)
    assert full.status_ is wide.status_ is Status.SCALE_AT_BOUND
    assert_allclose(wide.prior_scale_, full.prior_scale_, rtol=1e-12)
    assert_allclose(wide.log_evidence_, full.log_evidence_, atol=1e-5)


def test_a_search_for_the_scale_that_is_stopped_says_so(monkeypatch):
    monkeypatch.setattr(wide_scale, "MOST_SCALES", 1)
    passes, _ = problem(BernoulliLogit())
    shape = WeightShape(5, 1, False)
    prior_at = lambda theta: WidePrior.of(Normal(scale=np.exp(theta)), shape, passes.frame)  # noqa: E731
    assert not wide_scale.scale_of(passes, prior_at, Controls()).settled
