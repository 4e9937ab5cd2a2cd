"""How searches for hyperparameters end, on an evidence that is a parabola."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly.inference import kernel_evidence
from credibly.inference.inducing_ascent import Ascent, Goal, Terms
from credibly.inference.kernel_evidence import Climb, _judged, maximise
from credibly.numerics.status import TO_ROUNDING, Status, silent

TOP, BENDS = np.array([0.3, -0.2]), np.array([1.0, 100.0])
BOUNDS = np.array([[-5.0, 5.0], [-5.0, 5.0]])


class Parabola:
    """Log evidence -½ Σ b (θ - top)², whose slope may be told with the wrong sign."""

    search_tol = 0.0

    def __init__(self, sign: float = 1.0, status: Status = Status.CONVERGED) -> None:
        self.sign, self.status, self.asked = sign, status, 0

    def at(self, theta, warm, controls):
        self.asked += 1
        height = -0.5 * float(BENDS @ (theta - TOP) ** 2)
        return SimpleNamespace(
            theta=theta, result=SimpleNamespace(log_evidence=height, warm=np.zeros(1), status=self.status)
        )

    def gradient(self, at, controls):
        return -self.sign * BENDS * (at.theta - TOP)

    def log_prior(self, theta):
        return 0.0

    def log_prior_gradient(self, theta):
        return np.zeros(2)


def ascent(evidence: Parabola, most: int) -> Ascent:
    return Ascent(evidence, Terms(BOUNDS, TO_ROUNDING, silent), Goal(1e-12, most, 0.0))


def test_a_search_that_may_go_on_finds_the_top():
    found = maximise(Parabola(), BOUNDS, [np.zeros(2)], TO_ROUNDING, silent)
    assert found.status is Status.CONVERGED
    assert_allclose(found.at.theta, TOP, atol=1e-4)  # it stops at slopes of 1e-4


def test_a_search_that_is_stopped_while_the_evidence_rises_says_so(monkeypatch):
    monkeypatch.setattr(kernel_evidence, "MOST_STEPS", 1)
    found = maximise(Parabola(), BOUNDS, [np.full(2, 4.0)], TO_ROUNDING, silent)
    assert found.status is Status.HYPERPARAMETERS_NOT_FOUND


@pytest.mark.parametrize(
    ("theta", "slope", "latents", "status"),
    [
        ([0.0, 0.0], [0.0, 1e-3], Status.CONVERGED, Status.CONVERGED),
        ([0.0, 0.0], [0.0, 1.0], Status.CONVERGED, Status.HYPERPARAMETERS_NOT_FOUND),
        ([0.0, 5.0], [0.0, 1.0], Status.CONVERGED, Status.HYPERPARAMETER_AT_BOUND),
        ([0.0, 5.0], [0.0, -1.0], Status.CONVERGED, Status.HYPERPARAMETERS_NOT_FOUND),
        ([0.0, 0.0], [0.0, 0.0], Status.CURVATURE_REPLACED, Status.CURVATURE_REPLACED),
        ([0.0, 5.0], [0.0, 1.0], Status.SWEEP_LIMIT, Status.SWEEP_LIMIT),
    ],
)
def test_what_a_search_says_of_its_end(theta, slope, latents, status):
    at = SimpleNamespace(result=SimpleNamespace(status=latents))
    assert _judged(at, Climb(np.array(theta), 0.0, np.array(slope), np.zeros(1)), BOUNDS) is status


def test_an_ascent_goes_on_with_the_curvature_it_has_learnt():
    evidence = Parabola()
    first = ascent(evidence, 100)
    assert first.climb(np.full(2, 2.0), None) is Status.CONVERGED
    assert_allclose(first.here.at.theta, TOP, atol=1e-5)
    used = evidence.asked
    assert first.climb(np.full(2, 2.0), None) is Status.CONVERGED
    assert evidence.asked - used < used


def test_an_ascent_whose_steps_gain_nothing_says_so():
    evidence = Parabola(sign=-1.0)
    stuck = ascent(evidence, 10)
    assert stuck.climb(np.full(2, 2.0), None) is Status.HYPERPARAMETERS_NOT_FOUND
    assert_allclose(stuck.here.at.theta, 2.0)
    assert evidence.asked == 1 + 10


def test_an_ascent_over_latents_that_did_not_settle_says_that_first():
    assert ascent(Parabola(status=Status.SWEEP_LIMIT), 100).climb(np.zeros(2), None) is Status.SWEEP_LIMIT
