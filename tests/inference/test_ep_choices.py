"""What expectation propagation decides on its way: when it is done, which rows it passes over, what it hands on."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag

from credibly.errors import NotPositiveDefinite
from credibly.inference import ep
from credibly.inference.ep import (
    SiteLatents,
    Sites,
    assumed_density_filtering,
    expectation_propagation,
    sequential_sweep,
)
from credibly.inference.latent_laplace import Latents
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit
from credibly.numerics.status import Controls, Status

K = np.array([[2.0, 0.7, 0.1], [0.7, 1.5, 0.4], [0.1, 0.4, 1.0]])
Y = np.array([1.0, 0.0, 1.0])


def inverse(A: np.ndarray) -> np.ndarray:
    return np.linalg.solve(A, np.eye(len(A)))


@pytest.mark.parametrize(
    ("tol", "variance", "goal"),
    [(1e-3, 1.0, 1e-3), (1e-20, 1.0, 1e-18), (1e-20, 1e8, (4 * np.finfo(float).eps * 2e8) ** 2)],
    ids=["what is asked for", "not below rounding of the marginals", "nor below rounding of the prior"],
)
def test_the_goal_is_what_is_asked_for_but_no_finer_than_rounding(monkeypatch, tol, variance, goal):
    asked = []

    def settled(state, goal, controls):
        asked.append((goal, controls))
        return state, Status.CONVERGED, 3

    monkeypatch.setattr(ep, "settle", settled)
    controls = Controls(tol=tol)
    expectation_propagation(Latents(variance * K, Y, BernoulliLogit()), controls=controls)
    assert_allclose(asked[0][0], goal, rtol=1e-14)
    assert asked[0][1] is controls


def test_the_gradient_matrix_is_half_of_aat_minus_the_precision_of_the_targets():
    result = expectation_propagation(Latents(K, Y, BernoulliProbit()))
    R = inverse(K + inverse(np.diag(result.sites.tau)))
    a = inverse(K) @ result.mean
    (M,) = result.gradient_matrices()
    assert_allclose(M, 0.5 * (np.outer(a, a) - R), rtol=1e-10, atol=1e-12)


def test_marginals_are_those_of_prior_times_sites():
    result = expectation_propagation(Latents(K, Y, BernoulliProbit()))
    cov = inverse(inverse(K) + np.diag(result.sites.tau))
    scores = result.marginals()
    assert_allclose(scores.mean, cov @ result.sites.nu, rtol=1e-12)
    assert_allclose(scores.variance, np.diag(cov), rtol=1e-12)


def test_a_row_whose_cavity_is_no_gaussian_is_passed_over_and_the_next_one_is_not():
    """Without its own site row 0 has none: the site of row 1 takes away more than the prior has."""
    one = np.array([[1.0, 0.9], [0.9, 1.0]])
    problem = Latents(block_diag(one, np.eye(7)), np.ones(9), BernoulliProbit())  # nine rows: the first block has two
    tau = np.array([2.0, -1.1, *np.zeros(7)])
    state = SiteLatents.of(problem, Sites(tau, np.zeros(9)))
    swept = sequential_sweep(state)
    assert_array_equal(np.isnan(swept.log_masses), [True] + 8 * [False])
    assert swept.state.sites.tau[0] == 2.0
    assert swept.state.sites.tau[1] > 0


def test_a_single_pass_that_loses_a_variance_is_refused(monkeypatch):
    problem = Latents(K, Y, BernoulliProbit())
    lost = ep.Sweep(SiteLatents.of(problem, Sites(np.zeros(3), np.zeros(3))), np.array([-1.0, np.nan, -1.0]))
    monkeypatch.setattr(ep, "sequential_sweep", lambda state: lost)
    with pytest.raises(NotPositiveDefinite, match=r"^a variance .* in rounding: the kernel's values are too large\.$"):
        assumed_density_filtering(problem)
