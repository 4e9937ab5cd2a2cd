"""The Jeffreys prior where it is known in closed form: k of n labels, and one weight."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit

from credibly.data.rows import MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference import jeffreys as module
from credibly.inference.jeffreys import PenalisedObjective, jeffreys
from credibly.inference.objective import Objective
from credibly.model.likelihoods import BernoulliCauchit, BernoulliLogit
from credibly.numerics.status import Status

K, N = 3, 10
Y = np.repeat([1.0, 0.0], [K, N - K])
FIRTH = logit((K + 0.5) / (N + 1))  # half a success and half a failure more


def objective(likelihood=None) -> Objective:
    return Objective(likelihood or BernoulliLogit(), MemoryRows(np.ones((N, 1)), Y), None, np.eye(1))


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


def test_a_hessian_that_is_not_positive_is_replaced_by_the_information():
    """Far out on the wrong side the Cauchy's log likelihood and log information both fall like log f: convex."""
    penalised, x = PenalisedObjective(objective(BernoulliCauchit())), np.array([50.0])
    here = penalised.expand_by_differences(x)
    assert here.replaced and not here.exact
    assert_allclose(here.hessian.matrix, penalised.expand(x).hessian.matrix, rtol=1e-15)


@pytest.mark.parametrize("change", [{}, {"SCORING_STEPS": 1}], ids=["scoring", "newton"])
def test_the_mode_is_half_a_success_and_half_a_failure_away_however_it_is_searched(change, monkeypatch):
    for name, value in change.items():
        monkeypatch.setattr(module, name, value)
    found = jeffreys(objective(), np.array([2.0]))
    assert found.solution.status is Status.CONVERGED
    assert_allclose(found.posterior.mean, [FIRTH], rtol=1e-8)
    # The likelihood is not at its own maximum there, so that an error of the mode counts in full.
    assert_allclose(found.log_likelihood, K * FIRTH - N * np.logaddexp(0, FIRTH), rtol=1e-8)
    assert np.isnan(found.log_evidence)


def test_a_start_that_cannot_be_found_is_done_without(monkeypatch):
    def failing(*_):
        raise NotPositiveDefinite("a score without a mean")

    monkeypatch.setattr(module, "laplace", failing)
    assert_allclose(jeffreys(objective(), np.array([2.0])).posterior.mean, [FIRTH], rtol=1e-8)
