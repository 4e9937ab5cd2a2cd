"""Inducing points against dense formulas: the n × n covariance of FITC is formed, and given to the exact inference."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from credibly.data.rows import MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference import inducing
from credibly.inference.ep import expectation_propagation
from credibly.inference.gaussian import Scores
from credibly.inference.inducing import InducingPrecision, InducingPrior
from credibly.inference.inducing_ascent import LONGEST, Ascent, Goal, boxed, definite, updated
from credibly.inference.inducing_evidence import InducingEvidence, inferring
from credibly.inference.inducing_latents import InducingLatents, inducing_laplace, inducing_propagation
from credibly.inference.inducing_points import RANK, chosen_points, independent_points, pivoted_rows
from credibly.inference.inducing_search import Learnt, Part, Points, Search
from credibly.inference.kernel_evidence import KernelEvidence, maximise
from credibly.inference.kernel_slopes import cross_sums, diagonal_sums
from credibly.inference.latent import Precision
from credibly.inference.latent_laplace import Latents, laplace_latents
from credibly.kernels import RBF, Constant, Linear, Matern, Periodic, Polynomial, RationalQuadratic, White
from credibly.model.kernels import Kernel
from credibly.model.likelihoods import Slopes, threshold_likelihood
from credibly.numerics.status import TO_ROUNDING, Controls, Status, silent
from helpers import UnitGaussian

LIKELIHOODS = {name: threshold_likelihood(name) for name in ("logit", "probit", "gumbel")}
KERNELS = {
    "rbf": 4.0 * RBF([0.5, 0.7]),
    "one scale": 2.0 * RBF(0.6),
    "sum with noise": 4.0 * Matern(0.8, nu=2.5) + Constant(0.5) + White(0.2),
    "rough": Matern([0.8, 1.1], nu=0.5),
    "low rank": 2.0 * Linear(0.5) + Polynomial(2, 0.7),
    "products": RationalQuadratic(1.0, 0.7) * Periodic(1.0, 3.0) * 2.0,
    "fixed parts": Constant(2.0, variance_bounds="fixed") * RBF(0.7) * (White(0.3) + Linear(1.0)),
}
BOTH = {"laplace": (inducing_laplace, laplace_latents), "ep": (inducing_propagation, expectation_propagation)}
EVERY_KERNEL = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
EVERY_LIKELIHOOD = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS.keys())
EITHER = pytest.mark.parametrize("inference", BOTH)
LAPLACE_TOL = 1e-9  # both stop within 1e-10 posterior standard deviations of the mode
EXACTLY = TO_ROUNDING


def toy(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + 0.7 * rng.logistic(size=n) > 0).astype(float)


def some_points(m: int = 12) -> np.ndarray:
    return 0.9 * np.random.default_rng(1).normal(size=(m, 2))


def prior_of(kernel: Kernel, X: np.ndarray, Z: np.ndarray) -> InducingPrior:
    return InducingPrior.of(kernel, MemoryRows(X, np.zeros(len(X))), Z)


def dense(kernel: Kernel, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """diag(K - Q) + Q with Q = K_nm K_mm⁻¹ K_mn, for points that are independent."""
    Z = Z[independent_points(kernel, Z)]
    cross = kernel(X, Z)
    Q = cross @ np.linalg.solve(kernel(Z, Z), cross.T)
    return Q + np.diag(kernel.diag(X) - np.diag(Q))


# --- linear algebra ----------------------------------------------------------------------------------------------


@EVERY_KERNEL
def test_products_determinants_and_variances_are_those_of_the_dense_covariance(kernel):
    X, _ = toy()
    prior, P = prior_of(kernel, X, some_points()), dense(kernel, X, some_points())
    u, W = np.random.default_rng(2).normal(size=len(X)), np.random.default_rng(3).uniform(0, 0.5, size=len(X))
    W[:5] = 0.0
    ours, theirs = InducingPrecision.of(prior, W, u), Precision.of(P, W)
    close = partial(assert_allclose, rtol=1e-10, atol=1e-11 * P.max())
    close(prior.times(u), P @ u)
    close(ours.weigh(u), theirs.weigh(u))
    close(ours.logdet, theirs.logdet)
    close(ours.variances(), theirs.variances(P))
    close(ours.diagonal(), np.diag(theirs.matrix()))
    a = np.linalg.solve(np.eye(len(X)) + W[:, None] * P, u)
    for pulled in (ours.pulled(u), ours.pulled_with_leverage(u), ours.pulled(u, ours.projected)):
        close(pulled.a, a)
        close(pulled.f, P @ a)


@EVERY_KERNEL
def test_slopes_between_two_tables_are_those_of_differences(kernel):
    X, Z, h = toy(15)[0], some_points(7), 1e-5  # differences of a function of order ten are good to 1e-9
    M, weight = np.random.default_rng(4).normal(size=(15, 7)), np.random.default_rng(5).normal(size=15)

    def sums(theta: np.ndarray) -> np.ndarray:
        there = kernel.with_theta(theta)
        return np.array([(M * there(X, Z)).sum(), weight @ there.diag(X)])

    slopes = [
        (sums(kernel.theta + step) - sums(kernel.theta - step)) / (2 * h) for step in h * np.eye(kernel.theta.size)
    ]
    ours = np.column_stack([cross_sums(kernel, X, Z, M), diagonal_sums(kernel, X, weight)])
    assert_allclose(ours, slopes, rtol=1e-7, atol=1e-8)
    assert_allclose(cross_sums(kernel, X, Z, M, kernel(X, Z)), ours[:, 0], rtol=1e-12, atol=1e-13)


def test_slopes_of_length_scales_keep_their_digits_where_points_are_close_beside_the_spread():
    Z = np.array([[0.0], [1e4], [2e4]])
    X, M = Z + 1e-3, np.diag([1.0, 1.0, 1.0])
    assert_allclose(cross_sums(RBF(1.0), X, Z, M), [3 * 1e-6 * np.exp(-0.5e-6)], rtol=1e-7)  # 1e4 + 1e-3 - 1e4 is


# --- inference ----------------------------------------------------------------------------------------------------


@EVERY_KERNEL
@EVERY_LIKELIHOOD
@EITHER
def test_inference_is_that_with_the_dense_covariance(kernel, likelihood, inference):
    X, y = toy()
    ours, theirs = BOTH[inference]
    P = dense(kernel, X, some_points())
    found = ours(InducingLatents(prior_of(kernel, X, some_points()), y, likelihood), None, EXACTLY)
    wanted = theirs(Latents(P, y, likelihood), None, EXACTLY)
    assert found.status is Status.CONVERGED
    assert_allclose(found.log_evidence, wanted.log_evidence, rtol=LAPLACE_TOL)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, rtol=LAPLACE_TOL)
    assert_allclose(found.effective_parameters(), wanted.effective_parameters(), rtol=1e-8)
    assert_allclose(found.leave_one_out(), wanted.leave_one_out(), rtol=1e-7)
    for mine, other in zip(found.marginals(), wanted.marginals(), strict=True):
        assert_allclose(mine, other, rtol=1e-8, atol=1e-8)


@EVERY_KERNEL
@EITHER
def test_the_gradient_of_the_evidence_is_that_of_differences(kernel, inference):
    X, y = toy()
    evidence = InducingEvidence(
        X, (kernel,), inferring(inference, LIKELIHOODS["logit"], y.astype(int), 2), points=some_points()
    )
    at = evidence.at(kernel.theta, None, EXACTLY)
    gradient, h = evidence.gradient(at, EXACTLY), 1e-4
    heights = [
        [evidence.at(kernel.theta + side, None, EXACTLY).result.log_evidence for side in (step, -step)]
        for step in h * np.eye(kernel.theta.size)
    ]
    differences = np.array([(up - down) / (2 * h) for up, down in heights])
    assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6)  # h² of the third derivative, 1e-12/h of rounding


@EVERY_LIKELIHOOD
@EITHER
def test_all_rows_as_points_give_the_exact_model(likelihood, inference):
    X, y = toy()
    kernel = 3.0 * RBF([0.5, 0.6]) + White(0.1)
    ours, theirs = BOTH[inference]
    found = ours(InducingLatents(prior_of(kernel, X, X), y, likelihood), None, EXACTLY)
    wanted = theirs(Latents(kernel(X), y, likelihood), None, EXACTLY)
    assert_allclose(found.log_evidence, wanted.log_evidence, rtol=1e-10)
    assert_allclose(found.mean, wanted.mean, rtol=1e-8, atol=1e-8)
    gradient = kernel.gradient_sums(X, wanted.gradient_matrices()[0])
    assert_allclose(found.gradient(), gradient, rtol=1e-8, atol=1e-8)


@EITHER
def test_neither_blocks_nor_holding_the_design_change_anything(inference, monkeypatch):
    X, y = toy(600)
    kernel, ours = KERNELS["rbf"], BOTH[inference][0]
    whole = ours(InducingLatents(prior_of(kernel, X, some_points()), y, LIKELIHOODS["logit"]), None, EXACTLY)
    monkeypatch.setattr(inducing, "FEWEST_ROWS", 64)
    monkeypatch.setattr(inducing, "BLOCK_NUMBERS", 100)
    monkeypatch.setattr(inducing, "HELD_NUMBERS", 0)
    prior = prior_of(kernel, X, some_points())
    assert prior.V is None and prior.rows.block_rows == 64
    parts = ours(InducingLatents(prior, y, LIKELIHOODS["logit"]), None, EXACTLY)
    assert_allclose(parts.log_evidence, whole.log_evidence, rtol=1e-12)
    assert_allclose(parts.mean, whole.mean, rtol=1e-8, atol=1e-9)
    assert_allclose(parts.gradient(), whole.gradient(), rtol=1e-8, atol=1e-8)


@EITHER
def test_a_warm_start_leads_to_the_same_place_in_fewer_steps(inference):
    X, y = toy(200)
    kernel, ours = KERNELS["rbf"], BOTH[inference][0]
    problem = InducingLatents(prior_of(kernel, X, some_points()), y, LIKELIHOODS["logit"])
    cold = ours(problem, None, EXACTLY)
    near = ours(
        problem._replace(prior=prior_of(kernel.with_theta(kernel.theta + 0.01), X, some_points())), None, EXACTLY
    )
    warm = ours(problem, near.warm, EXACTLY)
    assert_allclose(warm.log_evidence, cold.log_evidence, rtol=1e-11)
    assert warm.steps < cold.steps


@EITHER
def test_loose_latents_are_refined_to_where_exact_ones_are(inference):
    X, y = toy(200)
    ours = BOTH[inference][0]
    problem = InducingLatents(prior_of(KERNELS["rbf"], X, some_points()), y, LIKELIHOODS["logit"])
    loose, exact = ours(problem, None, Controls(tol=1e-3)), ours(problem, None, EXACTLY)
    refined = loose.refined(EXACTLY)
    assert np.abs(loose.mean - exact.mean).max() > 1e-6
    assert_allclose(refined.mean, exact.mean, atol=1e-8)
    assert_allclose(refined.log_evidence, exact.log_evidence, rtol=1e-11)
    assert_allclose(refined.gradient(), exact.gradient(), rtol=1e-7, atol=1e-7)
    again = exact.refined(EXACTLY)
    assert again.steps == 1
    assert again.log_evidence == exact.log_evidence


def test_refining_what_is_exact_factorises_nothing(monkeypatch):
    X, y = toy(200)
    exact = inducing_laplace(InducingLatents(prior_of(KERNELS["rbf"], X, some_points()), y, LIKELIHOODS["logit"]))
    monkeypatch.setattr(InducingPrecision, "of", None)
    assert exact.refined(EXACTLY).mode.precision is exact.mode.precision


def test_a_step_limit_is_told():
    X, y = toy()
    problem = InducingLatents(prior_of(KERNELS["rbf"], X, some_points()), y, LIKELIHOODS["probit"])
    assert inducing_laplace(problem, None, TO_ROUNDING._replace(max_steps=1)).status is Status.STEP_LIMIT
    assert inducing_propagation(problem, None, TO_ROUNDING._replace(max_steps=2)).status is Status.SWEEP_LIMIT


def test_sites_that_are_moved_part_by_part_come_nearer():
    X, y = toy()
    problem = InducingLatents(prior_of(KERNELS["rbf"], X, some_points()), y, LIKELIHOODS["probit"])
    settled = inducing_propagation(problem, None, EXACTLY)
    state = inducing_propagation(problem, None, TO_ROUNDING._replace(max_steps=1))
    gaps = [np.abs(state.mean - settled.mean).max()]
    for _ in range(8):
        state = state.row_by_row()
        gaps.append(np.abs(state.mean - settled.mean).max())
    assert gaps[-1] < 0.05 * gaps[0]  # half the way in each of eight sweeps, and what parts learn from each other


def test_sites_of_another_prior_that_give_no_gaussian_are_not_started_from():
    X, y = toy()
    problem = InducingLatents(prior_of(KERNELS["rbf"], X, some_points()), y, LIKELIHOODS["probit"])
    bad = np.stack([np.full(len(y), -10.0), np.zeros(len(y))])
    with pytest.raises(NotPositiveDefinite):
        InducingPrecision.of(problem.prior, bad[0])
    found = inducing_propagation(problem, bad, EXACTLY)
    assert_allclose(found.log_evidence, inducing_propagation(problem, None, EXACTLY).log_evidence, rtol=1e-10)


def test_the_function_elsewhere_is_conditioned_on_the_dense_prior():
    X, y = toy()
    kernel, Z, new = KERNELS["sum with noise"], some_points(), 1.5 * some_points(9)
    found = inducing_laplace(InducingLatents(prior_of(kernel, X, Z), y, LIKELIHOODS["logit"]), None, EXACTLY)
    P, W = dense(kernel, X, Z), found.mode.precision.W
    cross = kernel(X, Z) @ np.linalg.solve(kernel(Z, Z), kernel(Z, new))
    covariance = kernel(new) - cross.T @ np.linalg.solve(P + np.diag(1 / W), cross)
    mean = cross.T @ np.linalg.solve(P, found.mean)
    for scores, variance in (
        (found.posterior.scores(new), np.diag(covariance)),
        (found.posterior.joint(new), covariance),
    ):
        assert isinstance(scores, Scores)
        assert_allclose(scores.mean, mean, rtol=1e-8, atol=1e-9)
        assert_allclose(scores.variance, variance, rtol=1e-8, atol=1e-9)
    assert_allclose(found.posterior.means(new), mean, rtol=1e-8, atol=1e-9)


# --- points -------------------------------------------------------------------------------------------------------


def test_pivots_end_at_the_rank_of_the_kernel():
    X, _ = toy()
    assert len(pivoted_rows(Linear(), X, 10)) == 2
    assert len(pivoted_rows(Linear(1.0), X, 10, np.random.default_rng(0))) == 3
    assert len(pivoted_rows(Constant(2.0) + White(1.0), X, 10)) == 1  # noise of a row's own is nobody else's
    smooth = pivoted_rows(RBF(50.0), X, 40)
    assert len(smooth) < 15
    left = RBF(50.0)(X) - (cross := RBF(50.0)(X, X[smooth])) @ np.linalg.solve(RBF(50.0)(X[smooth]), cross.T)
    assert np.abs(left).max() < 1e3 * RANK  # solving with a matrix of condition 1e10 by hand loses digits


def test_points_that_say_nothing_new_are_left_out_and_the_rest_keeps_its_order():
    Z = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
    found = independent_points(RBF(), Z)
    assert len(found) == 3 and (np.diff(found) > 0).all()
    assert_array_equal(np.unique(Z[found], axis=0), np.unique(Z, axis=0))
    assert_array_equal(independent_points(RBF(), Z[:2]), [0, 1])


def test_a_kernel_that_is_zero_at_all_points_is_refused():
    with pytest.raises(NotPositiveDefinite, match="zero at the inducing points"):
        independent_points(Linear(), np.zeros((2, 2)))


def test_points_are_rows_each_at_most_once_and_the_same_for_the_same_seed():
    X, _ = toy(3000)
    first, again = (chosen_points(np.random.default_rng(5), RBF(0.5), X, 50) for _ in range(2))
    assert_array_equal(first, again)
    assert len(np.unique(first, axis=0)) == 50
    assert (first[:, None] == X[None]).all(axis=2).any(axis=1).all()


def test_no_more_points_are_chosen_than_leave_next_to_nothing_open():
    X, y = toy(1_500)
    kernel, rng = 4.0 * RBF([2.0, 2.0]), np.random.default_rng(0)
    few, all_that_differ = chosen_points(rng, kernel, X, 300), X[pivoted_rows(kernel, X, 300)]
    assert len(few) < 0.7 * len(all_that_differ)
    assert 0.1 < prior_of(kernel, X, few).D.sum() < 1.5  # ENOUGH, by a part of the rows; all of them here
    heights = [searching(X, y, kernel).make(None, Z).at(kernel.theta, None, EXACTLY) for Z in (few, all_that_differ)]
    assert abs(heights[0].result.log_evidence - heights[1].result.log_evidence) < 0.125


def test_chosen_points_leave_less_open_than_rows_at_random():
    X, _ = toy(2000)
    rng, kernel = np.random.default_rng(0), RBF(0.5)
    left = prior_of(kernel, X, chosen_points(rng, kernel, X, 60)).D.sum()
    others = [prior_of(kernel, X, X[rng.choice(len(X), 60, replace=False)]).D.sum() for _ in range(5)]
    assert left < min(others)


# --- hyperparameters ----------------------------------------------------------------------------------------------


def searching(X: np.ndarray, y: np.ndarray, kernel: Kernel) -> Search:
    likelihood = LIKELIHOODS["logit"]

    def make(rows: np.ndarray | None, points: np.ndarray) -> InducingEvidence:
        some = np.arange(len(y)) if rows is None else rows
        return InducingEvidence(
            X[some],
            (kernel,),
            inferring("laplace", likelihood, y[some].astype(int), 2),
            search_tol=1e-14,
            points=points,
        )

    def begin(rows: np.ndarray | None, f: np.ndarray) -> np.ndarray:
        at = likelihood.expand(y if rows is None else y[rows], f)
        return np.stack([at.curvature, at.curvature * f + at.grad])

    return Search(make, begin, (kernel,), kernel.bounds, EXACTLY, silent)


def test_a_few_steps_on_all_rows_end_within_a_nat_of_the_maximum(monkeypatch):
    X, y = toy(900)
    kernel, points = 4.0 * RBF([1.0, 1.0]), Points(np.random.default_rng(0), X, 40, None)
    search = searching(X, y, kernel)
    monkeypatch.setattr("credibly.inference.inducing_search.SMALL", 0)
    monkeypatch.setattr("credibly.inference.inducing_search.PARTS", ((150, 20), (300, 40)))
    looks = []
    found = search._replace(progress=lambda *it: looks.append(it)).learn(points, [kernel.theta])
    assert found.status in {Status.CONVERGED, Status.HYPERPARAMETER_AT_BOUND}
    on_all = [height for _, height, _ in looks if height < 0.7 * found.at.result.log_evidence]  # a part has a third
    best, _ = maximise(found.evidence, kernel.bounds, [found.at.theta], EXACTLY, silent)
    assert best.result.log_evidence - found.at.result.log_evidence < 1.0  # CLOSE, by a curvature that is about right
    assert 1 <= len(on_all) <= 12 and len(looks) > len(on_all)


def test_one_ascent_finds_what_l_bfgs_finds():
    X, y = toy(150)
    kernel = 4.0 * RBF([1.0, 1.0])
    search = searching(X, y, kernel)
    evidence = search.make(None, some_points(20))
    ascent = Ascent(evidence, search, Goal(1e-9, 200, 0.0))
    assert ascent.climb(kernel.theta, None).good
    best, _ = maximise(evidence, kernel.bounds, [kernel.theta], EXACTLY, silent)
    assert_allclose(ascent.here.height, best.result.log_evidence, rtol=1e-9)
    B, H = ascent.measured_curvature(), evidence.hessian(ascent.here.at, EXACTLY)
    assert_allclose(B, -H, rtol=1e-2, atol=1e-2)  # one-sided differences with steps of 3e-3
    assert_allclose(ascent.measured_curvature(threads=3), B, atol=1e-6)  # slopes are good to 1e-9, over the step


def test_an_ascent_stops_at_bounds_and_says_when_it_was_cut_short():
    X, y = toy(150)
    kernel = Constant(4.0, variance_bounds=(3.9, 4.1)) * RBF([1.0, 1.0], length_scale_bounds=(0.9, 1.1))
    search = searching(X, y, kernel)
    ascent = Ascent(search.make(None, some_points()), search, Goal(1e-6, 100, 0.0))
    assert ascent.climb(kernel.theta, None) is Status.HYPERPARAMETER_AT_BOUND
    low, high = kernel.bounds.T
    assert ((ascent.here.at.theta >= low) & (ascent.here.at.theta <= high)).all()
    free = 4.0 * RBF([1.0, 1.0])
    search = searching(X, y, free)
    short = Ascent(search.make(None, some_points()), search, Goal(1e-9, 2, 0.0))
    assert short.climb(free.theta, None) is Status.HYPERPARAMETERS_NOT_FOUND


def test_an_update_of_the_curvature_satisfies_the_secant_equation():
    B, moved, fell = np.diag([1.0, 4.0]), np.array([0.5, -0.2]), np.array([2.0, -0.3])
    assert_allclose(updated(B, moved, fell) @ moved, fell, rtol=1e-12)
    assert updated(B, moved, -fell) is B


def test_a_hyperparameter_that_runs_away_neither_holds_up_nor_misleads_the_others():
    low, high = np.full(3, -LONGEST), np.full(3, LONGEST)
    B = np.array([[4.0, 1.0, 0.0], [1.0, 0.5, 0.1], [0.0, 0.1, 2.0]])
    slope = np.array([3.0, 20.0, -0.5])
    step = boxed(slope, B, low, high)
    assert step[1] == LONGEST
    others = [0, 2]  # where they would go were the second known to be there
    assert_allclose(step[others], np.linalg.solve(B[np.ix_(others, others)], (slope - B[:, 1] * LONGEST)[others]))
    assert_allclose(boxed(slope / 100, B, low, high), np.linalg.solve(B, slope / 100), rtol=1e-12)
    assert boxed(np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros(0)).shape == (0,)


def test_weak_and_negative_curvatures_do_not_make_long_steps():
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    values = np.linalg.eigvalsh(definite(turn @ np.diag([-40.0, 1e-3, 7.0]) @ turn.T))
    assert_allclose(values, [1.0, 7.0, 40.0])


def test_the_curvature_grows_with_what_the_rows_determine_and_not_with_their_number():
    rng, kernel = np.random.default_rng(4), 4.0 * RBF([1.0, 1.0])
    X = rng.normal(size=(4_000, 2))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * rng.logistic(size=len(X)) > 0).astype(float)
    search, Z, found = searching(X, y, kernel), chosen_points(rng, kernel, X, 60), []
    theta = maximise(search.make(np.arange(1_000), Z), kernel.bounds, [kernel.theta], EXACTLY, silent).at.theta
    for n in (250, 4_000):
        evidence = search.make(np.arange(n), Z)
        at = evidence.at(theta, None, EXACTLY)
        found.append([at.result.effective_parameters(), -np.trace(evidence.hessian(at, EXACTLY))])
    determined, curvature = np.divide(*found[::-1])
    assert 1.2 < determined < 3 and 0.5 < curvature / determined < 2  # sixteen times the rows; twice is no harm


def test_the_exact_evidence_is_the_limit_of_many_points():
    X, y = toy(60)
    kernel = 3.0 * RBF([0.7, 0.9])
    exact = KernelEvidence(
        X,
        (kernel,),
        lambda K, _, start, controls: laplace_latents(Latents(K[0], y, LIKELIHOODS["logit"]), start, controls),
    )
    wanted = exact.at(kernel.theta, None, EXACTLY).result.log_evidence
    order, search = pivoted_rows(kernel, X, 60), searching(X, y, kernel)
    gaps = [
        abs(search.make(None, X[order[:m]]).at(kernel.theta, None, EXACTLY).result.log_evidence - wanted)
        for m in (5, 20, 60)
    ]
    assert gaps[0] > 10 * gaps[1] > 1e3 * gaps[2] and gaps[2] < 1e-7


class Downhill(UnitGaussian):
    """Slopes of the wrong sign: every step along them raises the objective."""

    def slopes(self, y, f):
        return Slopes(f - y, np.ones_like(f))


def test_a_search_that_no_step_helps_stalls():
    X, y = toy(10)
    found = inducing_laplace(InducingLatents(prior_of(RBF(1.0), X, some_points(4)), y - 0.5, Downhill()))
    assert found.status is Status.STALLED
    assert_array_equal(found.mean, 0.0)


def test_a_search_with_too_few_steps_ends_with_the_precision_of_its_last_point():
    X, y = toy(10)
    problem = InducingLatents(prior_of(RBF(1.0), X, some_points(4)), y, LIKELIHOODS["logit"])
    found = inducing_laplace(problem, controls=TO_ROUNDING._replace(max_steps=1))
    assert found.status is Status.STEP_LIMIT
    W = problem.likelihood.slopes(y, found.mean).curvature
    assert_allclose(found.mode.precision.logdet, InducingPrecision.of(problem.prior, W, W).logdet, rtol=1e-13)


def test_rows_that_the_points_would_know_better_than_the_kernel_are_refused():
    V = np.array([[0.6, 0.0], [1.5, 0.0]])
    with pytest.raises(NotPositiveDefinite, match="no covariance between these rows and the inducing points"):
        inducing.left_open(np.ones(2), V)
    assert_allclose(inducing.left_open(np.ones(2), V / 2), [0.91, 0.4375])


def test_points_are_chosen_anew_where_that_gains(monkeypatch):
    """However little the hyperparameters have moved."""
    X, y = toy(400)
    kernel, points = 4.0 * RBF([1.0, 1.0]), Points(np.random.default_rng(0), X, 20, None)
    search = searching(X, y, kernel)
    monkeypatch.setattr("credibly.inference.inducing_search.SMALL", 0)
    monkeypatch.setattr("credibly.inference.inducing_search.PARTS", ((150, 20), (180, 20)))
    once = search.learn(points, [kernel.theta])
    monkeypatch.setattr("credibly.inference.inducing_search.MOVED", -1.0)
    monkeypatch.setattr(Search, "_gain_on", lambda *_: 1.0)
    twice = search.learn(points._replace(rng=np.random.default_rng(0)), [kernel.theta])
    assert twice.at.result.log_evidence >= once.at.result.log_evidence - 1e-6  # latents to their tolerance
    assert twice.status.good


def test_what_other_points_would_gain_is_judged_by_a_part_of_the_rows():
    X, y = toy(60)
    search, rows, other = searching(X, y, kernel := RBF([1.0, 1.0])), np.arange(0, 60, 3), some_points(9)
    evidence = search.make(None, some_points(4))
    part = Part(rows, evidence, None, None)
    found = Learnt(evidence.at(kernel.theta, None, EXACTLY), Status.CONVERGED, evidence)
    assert search._gain_on(part, found, evidence.points) == 0.0
    old, new = (search.make(rows, Z).at(kernel.theta, None, EXACTLY).result for Z in (evidence.points, other))
    assert_allclose(search._gain_on(part, found, other), 3 * (new.log_evidence - old.log_evidence), rtol=1e-5)
