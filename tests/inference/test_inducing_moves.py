"""Points that move: slopes against central differences, and evidence that never falls."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.errors import NotPositiveDefinite
from credibly.inference.inducing_evidence import InducingEvidence, inferring
from credibly.inference.inducing_moves import Moves, Place, _climbed
from credibly.inference.inducing_search import Learnt
from credibly.inference.kernel_slopes import fixed_places, place_sums
from credibly.kernels import RBF, Constant, Linear, Matern, Periodic, RationalQuadratic, White
from credibly.model.kernels import Kernel
from credibly.model.likelihoods import threshold_likelihood
from credibly.numerics.status import TO_ROUNDING, silent

KERNELS = {
    "rbf": 4.0 * RBF([0.5, 0.7]),
    "one scale": RBF(0.6),
    "one column": 2.0 * RBF(0.6, columns=[1]) + 3.0 * RBF(0.9, columns=[0]),
    "sum with noise": 4.0 * Matern(0.8, nu=2.5) + Constant(0.5) + White(0.2),
    "rough": 2.0 * Matern([0.8, 1.1], nu=1.5),
    "products": RationalQuadratic(1.0, 0.7) * RBF([1.0, 2.0]) * 2.0,
}
EVERY_KERNEL = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
EITHER = pytest.mark.parametrize("inference", ["laplace", "ep"])
EXACTLY = TO_ROUNDING
STEP = 1e-5  # errors of the differences: 1e-10 of a third derivative, and rounding, 1e-16 × 100 / 1e-5


def toy(n: int = 50) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + 0.7 * rng.logistic(size=n) > 0).astype(int)


def some_points(m: int = 7) -> np.ndarray:
    return 0.9 * np.random.default_rng(1).normal(size=(m, 2))


def evidence_of(kernel: Kernel, inference: str, points: np.ndarray) -> InducingEvidence:
    X, y = toy()
    infer = inferring(inference, threshold_likelihood("probit"), y, 2)
    return InducingEvidence(X, (kernel,), infer, search_tol=1e-16, points=points)


@EVERY_KERNEL
def test_sums_of_slopes_by_places_are_those_of_differences(kernel):
    X, Z = toy()[0], some_points()
    M = np.random.default_rng(3).normal(size=(len(X), len(Z)))
    found = place_sums(kernel, X, Z, M)
    for j, d in np.ndindex(*Z.shape):
        up, down = Z.copy(), Z.copy()
        up[j, d], down[j, d] = Z[j, d] + STEP, Z[j, d] - STEP
        wanted = (M * (kernel(X, up) - kernel(X, down))).sum() / (2 * STEP)
        assert_allclose(found[j, d], wanted, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
@EITHER
@EVERY_KERNEL
def test_the_slope_of_the_evidence_by_points_is_that_of_differences(kernel, inference):
    Z = some_points()
    evidence = evidence_of(kernel, inference, Z)
    at = evidence.at(kernel.theta, None, EXACTLY)
    by_theta, by_points = evidence.gradient_with_points(at)
    assert_allclose(by_theta, evidence.gradient(at, EXACTLY), rtol=1e-12)

    def height(points: np.ndarray) -> float:
        return evidence_of(kernel, inference, points).at(kernel.theta, None, EXACTLY).result.log_evidence

    for j, d in np.ndindex(*Z.shape):
        up, down = Z.copy(), Z.copy()
        up[j, d], down[j, d] = Z[j, d] + STEP, Z[j, d] - STEP
        assert_allclose(by_points[j, d], (height(up) - height(down)) / (2 * STEP), rtol=1e-6, atol=1e-7)


def test_a_point_that_is_left_out_has_no_slope():
    Z = some_points()
    evidence = evidence_of(KERNELS["rbf"], "laplace", np.vstack([Z, Z[:1]]))
    slopes = evidence.gradient_with_points(evidence.at(KERNELS["rbf"].theta, None, EXACTLY))[1]
    assert np.count_nonzero((slopes == 0).all(axis=1)) == 1


@EITHER
def test_moving_points_gains_evidence_and_never_loses_any(inference):
    kernel = 3.0 * RBF([1.0, 1.0])
    evidence = evidence_of(kernel, inference, some_points(4))
    at = evidence.at(kernel.theta, None, EXACTLY)
    start = Learnt(at, at.result.status, evidence)
    held = np.column_stack([kernel.theta, kernel.theta])
    heights = [at.result.log_evidence]
    for bounds in (held, kernel.bounds):
        moved = Moves(bounds, EXACTLY, silent).learn(start)
        heights.append(moved.at.result.log_evidence)
        assert moved.status.good and not np.array_equal(moved.evidence.points, evidence.points)
        again = moved.evidence.at(moved.at.theta, None, EXACTLY).result.log_evidence
        assert_allclose(heights[-1], again, rtol=1e-9)
    assert heights[0] < heights[1] < heights[2]
    assert_array_equal(Moves(held, EXACTLY, silent).learn(start).at.theta, kernel.theta)


def test_a_start_that_cannot_be_bettered_is_kept():
    kernel = Constant(2.0, variance_bounds="fixed")  # no place is better than another
    evidence = evidence_of(kernel, "laplace", some_points(1))
    at = evidence.at(kernel.theta, None, EXACTLY)
    start = Learnt(at, at.result.status, evidence)
    assert Moves(np.zeros((0, 2)), EXACTLY, silent).learn(start) is start


def test_kernels_whose_points_stay_are_named():
    assert fixed_places(2.0 * RBF(1.0) + Matern(1.0, nu=2.5) * White(0.1)) == []
    assert fixed_places(RBF(1.0) + Linear(1.0) * Periodic(1.0, 2.0)) == [repr(Linear(1.0)), repr(Periodic(1.0, 2.0))]
    assert fixed_places(2.0 * Matern(1.0, nu=0.5)) == [repr(Matern(1.0, nu=0.5))]


def test_a_step_to_points_whose_kernel_is_none_is_taken_back():
    """A height that rises to 10, and beyond 5 there is no covariance."""
    refused = []

    def look(where, warm):
        if where[0] > 5.0:
            refused.append(where[0])
            raise NotPositiveDefinite("rounded away")
        at = SimpleNamespace(result=SimpleNamespace(warm=None))
        return Place(where.copy(), -((where[0] - 10.0) ** 2), -2.0 * (where - 10.0), None, at)

    best = _climbed(look, look(np.zeros(1), None), [(None, None)])
    assert refused and 1.0 <= best.where[0] <= 5.0
