"""Prior scales of many rows: the answer of the exact search, for a bounded number of passes over the rows."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from credibly.data.rows import MemoryRows
from credibly.inference import evidence
from credibly.inference.evidence import ScaledPriors, _EvidenceSurface, _QuadraticSurface, maximise_evidence
from credibly.inference.laplace import Controls
from credibly.inference.objective import Objective
from credibly.inference.scale_search import LOG_BOUNDS, climbed, root_uphill, settled
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical
from credibly.numerics.status import Status

PASSES: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _count_anew():
    PASSES.clear()


@dataclass(frozen=True)
class CountedRows(MemoryRows):
    """Rows that count the passes over all of them; a sample is not counted."""

    def sum(self, block, merge):
        PASSES["passes"] += 1
        return super().sum(block, merge)

    def sample(self, rng, size, n_classes=0):
        return MemoryRows(self.X, self.y, self.weight).sample(rng, size, n_classes)


def problem(kind: str, likelihood=None, n=100_000, d=10, silent=5) -> tuple[Objective, ScaledPriors]:
    """d columns, the last few without effect; `kind` is "empirical" or "ard"."""
    likelihood = BernoulliLogit() if likelihood is None else likelihood
    K = likelihood.n_classes if isinstance(likelihood, Categorical) else 1
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(n, d)), rng.normal(size=(K, d))
    W[:, d - silent :] = 0.0
    f = X @ W.T
    y = np.argmax(f + rng.gumbel(size=f.shape), axis=1) if K > 1 else (f[:, 0] + rng.logistic(size=n) > 0).astype(float)
    group = np.zeros(d, dtype=np.intp) if kind == "empirical" else np.arange(d)
    rows = CountedRows(np.column_stack([X, np.ones(n)]), y)
    return Objective(likelihood, rows, None, np.eye(K)), ScaledPriors(group, np.append(np.zeros(d), 1.0), K)


@pytest.mark.parametrize(
    ("kind", "likelihood", "most"),
    [
        ("empirical", BernoulliLogit(), 16),  # 32 by the exact search
        ("ard", BernoulliLogit(), 20),  # 167
        ("empirical", BernoulliProbit(), 16),
        ("empirical", Categorical(3), 16),
        ("ard", Categorical(3), 20),
    ],
    ids=repr,
)
def test_many_rows_are_passed_some_fifteen_times_and_the_gradient_is_zero(kind, likelihood, most):
    objective, priors = problem(kind, likelihood, d=6 if isinstance(likelihood, Categorical) else 10)
    best = maximise_evidence(objective, priors, Controls(tol=1e-10))
    assert PASSES["passes"] <= most
    assert best.status in (Status.CONVERGED, Status.SCALE_AT_BOUND)
    with_prior = replace(objective, prior=priors.prior(best.theta))
    gradient = evidence.evidence_gradient(with_prior, priors, best.theta, best.result.posterior)
    free = best.theta > LOG_BOUNDS[0]
    assert free.any()
    assert np.abs(gradient[free]).max() < 1e-9


@pytest.mark.parametrize("kind", ["empirical", "ard"])
def test_the_scales_are_those_of_the_exact_search(kind):
    objective, priors = problem(kind, n=50_000, d=5, silent=2)
    best = maximise_evidence(objective, priors, Controls(tol=1e-10))
    few = PASSES["passes"]
    surface = _EvidenceSurface(objective, priors, Controls())
    exact = root_uphill(surface, 0.0) if kind == "empirical" else settled(surface, climbed(surface, np.zeros(5)))
    assert PASSES["passes"] - few > few
    assert_allclose(best.theta, exact, rtol=0, atol=1e-8)
    assert_allclose(best.result.log_evidence, surface(exact).result.log_evidence, rtol=1e-13)


def test_columns_without_any_effect_are_switched_off():
    objective, priors = problem("empirical", silent=10)
    best = maximise_evidence(objective, priors, Controls(tol=1e-10))
    assert best.status is Status.SCALE_AT_BOUND
    assert_allclose(best.theta, LOG_BOUNDS[0])
    assert PASSES["passes"] <= 12


# --- the quadratic ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [BernoulliLogit(), Categorical(3)], ids=repr)
def test_the_quadratic_is_exact_where_it_was_taken(likelihood):
    objective, priors = problem("ard", likelihood, n=300, d=3, silent=1)
    surface, theta = _EvidenceSurface(objective, priors, Controls()), np.array([-0.5, 0.3, -1.0])
    exact = surface(theta)
    there = _QuadraticSurface(priors, theta, exact)(theta)
    assert_allclose(there.result.log_evidence, exact.result.log_evidence, rtol=1e-13)
    assert_allclose(there.result.posterior.mean, exact.result.posterior.mean, rtol=1e-9)
    assert_allclose(there.gradient, exact.gradient, rtol=1e-9, atol=1e-10)


def test_the_gradient_of_the_quadratic_is_that_of_its_evidence():
    objective, priors = problem("ard", n=300, d=3, silent=1)
    quadratic = _QuadraticSurface(priors, np.zeros(3), _EvidenceSurface(objective, priors, Controls())(np.zeros(3)))
    theta, h = np.array([-0.5, 0.3, -1.0]), 1e-5
    differences = [
        (quadratic(theta + h * e).result.log_evidence - quadratic(theta - h * e).result.log_evidence) / (2 * h)
        for e in np.eye(3)
    ]
    assert_allclose(quadratic(theta).gradient, differences, rtol=1e-6, atol=1e-7)  # h² and rounding over h


def test_the_error_of_the_quadratic_falls_with_the_square_of_the_distance():
    """Value and gradient are those of the evidence, so what differs nearby is of second order."""
    objective, priors = problem("empirical", n=300, d=3, silent=0)
    surface, theta = _EvidenceSurface(objective, priors, Controls()), np.zeros(1)
    quadratic = _QuadraticSurface(priors, theta, surface(theta))
    errors = [
        quadratic(theta - h).result.log_evidence - surface(theta - h).result.log_evidence for h in (0.1, 0.05, 0.025)
    ]
    assert_allclose(np.divide(errors[:-1], errors[1:]), 4, rtol=0.15)  # the next order is h times as large


def test_a_quadratic_that_leads_downhill_is_given_up_for_the_exact_search(monkeypatch):
    """Whatever the quadratic says: the exact evidence and its gradient decide."""

    class Misleading(_QuadraticSurface):
        def __call__(self, theta):
            at = super().__call__(theta + 3.0)
            return at._replace(gradient=-1.0 - 0 * at.gradient)

    objective, priors = problem("empirical", n=50_000, d=3, silent=0)
    right = maximise_evidence(objective, priors)
    monkeypatch.setattr(evidence, "_QuadraticSurface", Misleading)
    misled = maximise_evidence(objective, priors)
    assert misled.status is Status.CONVERGED
    assert_allclose(misled.theta, right.theta, atol=1e-8)


def test_quadratics_that_do_not_end_leave_the_rest_to_the_exact_search(monkeypatch):
    objective, priors = problem("empirical", n=50_000, d=3, silent=0)
    right = maximise_evidence(objective, priors)
    monkeypatch.setattr(evidence, "MOST_QUADRATICS", 0)
    slow = maximise_evidence(objective, priors)
    assert slow.status is Status.CONVERGED
    assert_allclose(slow.theta, right.theta, atol=1e-8)
