"""Gaussians over latents, Laplace in function space and the evidence of kernels, against dense formulas typed again."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

from credibly.errors import NotPositiveDefinite
from credibly.inference.ep import expectation_propagation
from credibly.inference.flips import FlipBelief
from credibly.inference.kernel_evidence import Climb, KernelEvidence, _one_round, maximise
from credibly.inference.latent import LatentGaussian, Precision
from credibly.inference.latent_laplace import Latents, laplace_latents
from credibly.inference.latent_newton import find_mode
from credibly.kernels import (
    RBF,
    Constant,
    Linear,
    LogNormal,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)
from credibly.model.likelihoods import NormalMixture, Slopes, threshold_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.model.priors import StudentT
from credibly.numerics.status import TO_ROUNDING, Status, silent
from helpers import UnitGaussian

MIXTURE = NormalMixture(weights=(0.3, 0.7), means=(-1.0, 0.5), scales=(0.6, 1.4))
LOGIT, PROBIT = threshold_likelihood("logit"), threshold_likelihood("probit")
LIKELIHOODS = {
    "logit": LOGIT,
    "probit": PROBIT,
    "cauchy": threshold_likelihood("cauchy"),
    "gumbel": threshold_likelihood("gumbel"),
    "gumbel_max": threshold_likelihood("gumbel_max"),
    "student": threshold_likelihood(StudentT(df=3.0)),
    "mixture": threshold_likelihood(MIXTURE),
    "noisy-logit": LabelNoise(LOGIT, 0.1, 0.05),
    "noisy-probit": LabelNoise(PROBIT, 0.05, 0.2),
    "noisy-cauchy": LabelNoise(threshold_likelihood("cauchy"), 0.1, 0.1),
    "noisy-mixture": LabelNoise(threshold_likelihood(MIXTURE), 0.0, 0.1),
}
BOTH = (expectation_propagation, laplace_latents)
EVERY = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS.keys())


def toy(n: int = 20, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + 0.7 * rng.logistic(size=n) > 0).astype(float)


def covariance(n: int, nugget: float = 0.1) -> np.ndarray:
    return (2.0 * RBF(1.2) + White(nugget))(toy(n)[0])


def inverse(A: np.ndarray) -> np.ndarray:
    return np.linalg.solve(A, np.eye(len(A)))


def posterior_covariance(K, W):
    return inverse(inverse(K) + np.diag(W))


def slopes(function, theta: np.ndarray, step: float = 1e-2) -> np.ndarray:
    """Central differences of fourth order: truncation h⁴/30 (3e-10) and an evidence's 1e-10 over h (1e-8)."""
    weights = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
    steps = step * np.eye(len(theta))
    return np.array([sum(w * function(theta + k * e) for k, w in weights.items()) / step for e in steps])


# --- Precision ----------------------------------------------------------------------------------------------

CURVATURES = {
    "positive": np.linspace(0.1, 3.0, 8),
    "some zero": np.array([0.0, 0.5, 0.0, 2.0, 1.0, 0.0, 0.1, 0.3]),
    "all zero": np.zeros(8),
    "huge": 10.0 ** np.arange(8),
    "some negative": np.array([0.5, -0.2, 1.0, 2.0, -0.3, 0.0, 0.7, -0.01]),
    "all negative": np.full(8, -0.05),
}


@pytest.fixture(params=CURVATURES.values(), ids=CURVATURES.keys())
def W(request) -> np.ndarray:
    return request.param


def test_precision_is_the_dense_formulas(W):
    K, n = covariance(8), 8
    S, P = posterior_covariance(K, W), Precision.of(K, W)
    R = np.diag(W) - W[:, None] * S * W
    cross = (2.0 * RBF(1.2))(toy(8)[0], np.array([[0.0, 0.0], [1.0, -1.0], [9.0, 9.0]]))
    prior = np.diag([2.0, 2.0, 2.0]) + 0.3
    close = partial(assert_allclose, rtol=1e-9, atol=1e-11 * max(1.0, np.abs(W).max()))
    close(P.matrix(), R)
    close(P.weigh(np.arange(8.0)), R @ np.arange(8.0))
    close(P.weigh(cross), R @ cross)
    close(P.explained(cross), np.diag(cross.T @ R @ cross), rtol=1e-8)
    close(P.reduced(prior, cross), prior - cross.T @ R @ cross)
    assert_allclose(P.logdet, np.linalg.slogdet(np.eye(n) + K * W)[1], rtol=1e-11, atol=1e-14)
    assert_allclose(P.variances(K), np.diag(S), rtol=1e-9)
    assert_allclose(P.variances(K, P.matrix()), np.diag(S), rtol=1e-9)


def test_arguments_are_left_alone(W):
    K = covariance(8)
    K_before, W_before, cross = K.copy(), W.copy(), np.asfortranarray(K[:, :2])
    P = Precision.of(K, W)
    P.explained(cross)
    P.reduced(K[:2, :2], cross)
    P.variances(K, P.matrix())
    assert_array_equal(K, K_before)
    assert_array_equal(W, W_before)
    assert_array_equal(cross, K[:, :2])


@pytest.mark.parametrize("side", [0.999, 1.001])
def test_a_negative_curvature_is_refused_exactly_when_there_is_no_gaussian(side):
    """K⁻¹ + W along one row loses its last positive eigenvalue at W_i = -1/((K⁻¹ + W without i)⁻¹)_ii."""
    K, W = covariance(8), CURVATURES["positive"].copy()
    W[3] = 0.0
    W[3] = -side / posterior_covariance(K, W)[3, 3]
    assert (np.linalg.eigvalsh(inverse(K) + np.diag(W))[0] > 0) == (side < 1)
    if side < 1:
        assert_allclose(Precision.of(K, W).variances(K), np.diag(posterior_covariance(K, W)), rtol=1e-8)
    else:
        with pytest.raises(NotPositiveDefinite, match=r"K⁻¹ \+ W"):
            Precision.of(K, W)


@pytest.mark.parametrize("seed", range(20))
def test_refusal_agrees_with_the_eigenvalues_for_any_signs(seed):
    rng = np.random.default_rng(seed)
    K, W = covariance(6), rng.normal(size=6)
    least = np.linalg.eigvalsh(inverse(K) + np.diag(W))[0]
    if least > 0:
        assert_allclose(Precision.of(K, W).matrix(), inverse(K + np.diag(1 / W)), rtol=1e-8, atol=1e-9)
    else:
        with pytest.raises(NotPositiveDefinite):
            Precision.of(K, W)


@pytest.mark.parametrize("W", [0.0, 1e-300, 1e-20, 1e-12, 1e-8, 1e-6, 1e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("with_R", [True, False])
def test_variances_keep_nine_digits_for_any_curvature_of_independent_rows(W, with_R):
    """K = v I: every variance is v/(1 + vW). From R it is (W - R)/W², which must not be used where W is tiny."""
    v = 3.0
    K = v * np.eye(4)
    P = Precision.of(K, np.full(4, W))
    # by subtraction from the prior the digits that are left are those of 1/(1 + vW)
    tol = 1e-9 if with_R else max(1e-9, 4e-16 * (1 + v * W))
    assert_allclose(P.variances(K, P.matrix() if with_R else None), v / (1 + v * W), rtol=tol)


def test_tiny_and_zero_curvatures_beside_large_ones_lose_no_digits():
    K, W = covariance(8, 1e-3), np.array([0.0, 1e-300, 1e-16, 1e-8, 1e-5, 1.0, 100.0, 0.0])
    P = Precision.of(K, W)
    root = np.sqrt(W)  # K - K√W B⁻¹√W K, which inverts no K
    S = K - K @ (root[:, None] * np.linalg.solve(np.eye(8) + root[:, None] * K * root, root[:, None] * K))
    assert_allclose(P.variances(K, P.matrix()), np.diag(S), rtol=1e-9)
    assert_allclose(P.variances(K), np.diag(S), rtol=1e-9)


def test_the_kernel_is_never_inverted():
    """Of fifty identical rows K has rank one: Σ = v/(1 + n v W) for all of them, and nothing breaks."""
    n, v, W = 50, 4.0, 0.25
    K = np.full((n, n), v)
    P = Precision.of(K, np.full(n, W))
    assert_allclose(P.variances(K), v / (1 + n * v * W), rtol=1e-12)
    assert_allclose(P.logdet, np.log1p(n * v * W), rtol=1e-12)


# --- MISSION 1.11: prediction -------------------------------------------------------------------------------


def test_latents_elsewhere_given_latents_at_the_rows_are_those_of_the_prior():
    """p(f* | f) = N(k*ᵀK⁻¹f, k** - k*ᵀK⁻¹k*): with an infinitely sharp likelihood at f the posterior is that."""
    kernel, X, Z = 2.0 * RBF(1.2), toy(6)[0], np.array([[0.2, -0.3], [2.0, 1.0]])
    K, cross, f = kernel(X), kernel(X, Z), np.arange(6.0)
    sharp = 1e12
    P = Precision.of(K, np.full(6, sharp))
    q = LatentGaussian(P.weigh(f), P)
    mean, variance = q.scores(cross, kernel.diag(Z))
    # the nugget 1/W = 1e-12 shows through the condition of K, some 1e4 here
    assert_allclose(mean, cross.T @ np.linalg.solve(K, f), rtol=1e-6)
    assert_allclose(variance, kernel.diag(Z) - np.diag(cross.T @ np.linalg.solve(K, cross)), atol=1e-6)


@EVERY
def test_the_latent_mean_and_the_two_terms_of_the_latent_variance(likelihood):
    r"""k*ᵀK⁻¹f̂, and k** - k*ᵀK⁻¹k* + k*ᵀK⁻¹ Σ K⁻¹k*, which is k** - k*ᵀ(K + W⁻¹)⁻¹k*."""
    X, y = toy(8)
    K, Z = covariance(8), np.array([[0.0, 0.0], [1.0, -1.0], [9.0, 9.0]])
    cross, prior = (2.0 * RBF(1.2))(X, Z), np.full(3, 2.1)
    result = laplace_latents(Latents(K, y, likelihood))
    W = likelihood.slopes(y, result.mean).curvature
    weights = np.linalg.solve(K, cross)
    mean, variance = result.posterior.scores(cross, prior)
    given_f = prior - np.diag(cross.T @ weights)
    from_f = np.diag(weights.T @ posterior_covariance(K, W) @ weights)
    assert_allclose(mean, weights.T @ result.mean, rtol=1e-9, atol=1e-12)
    assert_allclose(variance, given_f + from_f, rtol=1e-10)
    assert_allclose(variance, prior - np.diag(cross.T @ inverse(K + np.diag(1 / W)) @ cross), rtol=1e-9)


def test_joint_latents_are_the_marginal_ones_on_the_diagonal():
    K, W = covariance(8), CURVATURES["some negative"]
    cross = K[:, :3]
    q = LatentGaussian(np.arange(8.0), Precision.of(K, W))
    joint, single = q.joint(cross, K[:3, :3]), q.scores(cross, np.diag(K)[:3])
    assert_allclose(joint.mean, single.mean, rtol=1e-14)
    assert_allclose(np.diag(joint.variance), single.variance, rtol=1e-12)
    assert_allclose(joint.variance, posterior_covariance(K, W)[:3, :3], rtol=1e-9, atol=1e-12)


# --- MISSION 1.11: Laplace ----------------------------------------------------------------------------------


def log_joint(problem: Latents, f: np.ndarray) -> float:
    """ψ(f) = log p(y | f) - ½ fᵀK⁻¹f - ½ log|K| - n/2 log 2π."""
    prior = multivariate_normal(np.zeros(len(f)), problem.K)
    return float(problem.likelihood.log_prob(problem.y, f).sum() + prior.logpdf(f))


@EVERY
def test_the_mode_is_a_top_of_psi_and_a_fixed_point(likelihood):
    """f̂ = K ∇ log p(y | f̂), and no other optimiser finds more: from anywhere, or from there if there may be several."""
    problem = Latents(covariance(12), toy(12)[1], likelihood)
    result = laplace_latents(problem)
    assert result.status.good
    assert_allclose(result.mean, problem.K @ likelihood.slopes(problem.y, result.mean).grad, rtol=1e-9, atol=1e-9)
    top = log_joint(problem, result.mean)
    for start in (np.zeros(12), 3 * (2 * problem.y - 1)) if likelihood.log_concave else (result.mean + 1e-2,):
        assert -minimize(lambda f: -log_joint(problem, f), start).fun <= top + 1e-9


@EVERY
def test_the_evidence_of_laplace_is_psi_at_the_mode_and_the_determinant_of_its_hessian(likelihood):
    """log Z = ψ(f̂) + n/2 log 2π - ½ log|K⁻¹ + W|, with the Hessian -W - K⁻¹ by differences of ψ."""
    problem, n = Latents(covariance(5), toy(5)[1], likelihood), 5
    result = laplace_latents(problem)
    K_inverse = inverse(problem.K)

    def gradient(f):
        return slopes(lambda u: float(likelihood.log_prob(problem.y, u).sum()), f, 1e-2) - K_inverse @ f

    # fourth order at h = 1e-2: h⁴/30 · fifth derivative (about 1) and 1e-15/h twice over
    hessian = np.array([(gradient(result.mean + e) - gradient(result.mean - e)) / 2e-3 for e in 1e-3 * np.eye(n)])
    by_hand = log_joint(problem, result.mean) + n / 2 * np.log(2 * np.pi) - np.linalg.slogdet(-hessian)[1] / 2
    assert_allclose(result.log_evidence, by_hand, atol=1e-6)


def test_the_evidence_is_exact_for_one_row_as_the_prior_tightens():
    """The error of Laplace is of the fourth derivative, ∝ v²: it falls by sixteen when v falls by four."""

    def error(likelihood, v):
        s = v**0.5
        exact = np.log(quad(lambda f: np.exp(likelihood.log_prob(1.0, f)) * norm.pdf(f, 0, s), -9 * s, 9 * s)[0])
        return abs(laplace_latents(Latents(np.array([[v]]), np.ones(1), likelihood)).log_evidence - exact)

    for likelihood in (LOGIT, PROBIT):
        assert error(likelihood, 1 / 16) > 10 * error(likelihood, 1 / 64) > 0


def test_newton_from_the_mode_of_a_like_kernel_ends_in_the_same_mode():
    _, y = toy()
    K = covariance(20)
    for likelihood in LIKELIHOODS.values():
        near = laplace_latents(Latents(1.3 * K, y, likelihood))
        cold = laplace_latents(Latents(K, y, likelihood))
        warm = laplace_latents(Latents(K, y, likelihood), near.warm)
        assert_allclose(warm.mean, cold.mean, rtol=1e-8, atol=1e-9)
        assert_allclose(warm.log_evidence, cold.log_evidence, rtol=1e-11)


def test_newton_from_far_away_comes_back():
    """Undamped it would not: at f = 1e3 the curvature of the logit is zero."""
    problem = Latents(covariance(20), toy()[1], LOGIT)
    far = find_mode(problem, 1e3 * np.sin(np.arange(20.0)), TO_ROUNDING)
    assert far.status is Status.CONVERGED
    assert_allclose(far.point.f, laplace_latents(problem).mean, rtol=1e-8, atol=1e-9)


def test_too_few_steps_are_said_and_the_state_can_be_used():
    problem = Latents(100 * covariance(20), toy()[1], LOGIT)
    result = laplace_latents(problem, controls=TO_ROUNDING._replace(max_steps=1))
    assert result.status is Status.STEP_LIMIT
    assert np.isfinite(result.log_evidence)
    assert (result.posterior.scores(problem.K, np.diag(problem.K)).variance > 0).all()


def test_the_factor_is_that_of_the_point_returned():
    """Near the mode steps re-use a factor; what is returned has the curvature at the mode to all digits."""
    for likelihood in LIKELIHOODS.values():
        problem = Latents(covariance(20), toy()[1], likelihood)
        result = laplace_latents(problem)
        fresh = Precision.of(problem.K, likelihood.slopes(problem.y, result.mean).curvature)
        assert_allclose(result.mode.precision.logdet, fresh.logdet, rtol=1e-13)


def test_steps_are_reported():
    seen = []
    problem = Latents(covariance(20), toy()[1], PROBIT)
    result = laplace_latents(problem, controls=TO_ROUNDING._replace(report=lambda *args: seen.append(args)))
    values = [value for _, value, _ in seen]
    assert len(seen) >= 3 and all(a >= b - 1e-12 for a, b in pairwise(values))
    assert_allclose(values[-1], result.mode.point.value, rtol=1e-12)


def test_a_kernel_matrix_that_is_none_is_refused():
    with pytest.raises(NotPositiveDefinite, match="kernel matrix"):
        laplace_latents(Latents(np.array([[1.0, 90.0], [90.0, 1.0]]), np.array([0.0, 1.0]), LOGIT))


def test_effective_parameters_are_the_trace_of_the_shrinkage():
    problem = Latents(covariance(8), toy(8)[1], LOGIT)
    result = laplace_latents(problem)
    W = LOGIT.slopes(problem.y, result.mean).curvature
    S = posterior_covariance(problem.K, W)
    assert_allclose(result.effective_parameters(), np.trace(S * W), rtol=1e-10)
    assert 0 < result.effective_parameters() < 8


# --- leave one out ------------------------------------------------------------------------------------------


def test_leave_one_out_is_exact_when_the_likelihood_is_gaussian():
    """The closed form of regression: y_i has mean y_i - (C⁻¹y)_i/(C⁻¹)_ii and variance 1/(C⁻¹)_ii, C = K + I."""
    K, t = covariance(25), np.random.default_rng(1).normal(size=25)
    C = inverse(K + np.eye(25))
    exact = norm.logpdf(t, t - C @ t / np.diag(C), np.diag(C) ** -0.5)
    assert_allclose(laplace_latents(Latents(K, t, UnitGaussian())).leave_one_out(), exact, rtol=1e-10)
    assert_allclose(expectation_propagation(Latents(K, t, UnitGaussian())).leave_one_out(), exact, rtol=1e-10)


class Bent(UnitGaussian):
    """log p = -½ c f² with c = 1 for label 0 and c = -0.4 for label 1, which no other row may be left alone with."""

    log_concave = False

    def log_prob(self, y, f):
        return -0.5 * np.where(y > 0.5, -0.4, 1.0) * f**2

    def slopes(self, y, f):
        curvature = np.where(y > 0.5, -0.4, 1.0) * np.ones_like(f)
        return Slopes(-curvature * f, curvature)


def test_a_row_without_which_there_is_no_gaussian_has_no_leave_one_out():
    """Both rows share a latent of variance 4: 1/4 - 0.4 < 0 without the first, 1/4 + 1 without the second."""
    result = laplace_latents(Latents(np.full((2, 2), 4.0), np.array([0.0, 1.0]), Bent()))
    first, second = result.leave_one_out()
    assert np.isnan(first)
    assert_allclose(second, -0.5 * np.log(1 - 0.4 / 1.25), rtol=1e-9)  # E exp(0.2 f²), f ~ N(0, 1/1.25)


def refitted(infer, problem: Latents) -> np.ndarray:
    """log p(y_i | all others) by leaving every row out in turn."""
    n, found = len(problem.y), []
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        left = infer(Latents(problem.K[np.ix_(rest, rest)], problem.y[rest], problem.likelihood))
        scores = left.posterior.scores(problem.K[rest, i : i + 1], problem.K[i : i + 1, i])
        found.append(problem.likelihood.log_average(problem.y[i : i + 1], *scores)[0])
    return np.array(found)


@pytest.mark.parametrize("infer", BOTH)
@pytest.mark.parametrize("likelihood", [LOGIT, PROBIT], ids=repr)
def test_leave_one_out_without_refitting_approaches_refitting(likelihood, infer):
    """What is neglected: the others' sites, or curvatures, would move a little; faster than the variance squared."""
    X, y = toy(25)

    def error(variance):
        problem = Latents((variance * RBF(1.0))(X), y, likelihood)
        return np.abs(infer(problem).leave_one_out() - refitted(infer, problem)).max()

    errors = [error(v) for v in (1 / 4, 1 / 16, 1 / 64)]
    assert errors[0] > 16 * errors[1] > 16**2 * errors[2]
    assert errors[0] < 2e-3


@pytest.mark.parametrize("likelihood", [LOGIT, PROBIT], ids=repr)
def test_leave_one_out_of_ep_is_much_nearer_to_refits_of_ep_than_that_of_laplace_is(likelihood):
    X, y = toy(25)
    for variance in (4.0, 1.0, 0.25):
        problem = Latents((variance * RBF(1.0))(X), y, likelihood)
        near = refitted(expectation_propagation, problem)
        ep, laplace = (
            np.abs(infer(problem).leave_one_out() - near).max() for infer in (expectation_propagation, laplace_latents)
        )
        assert ep < laplace / 2.5


def orthant(K: np.ndarray, s: np.ndarray) -> float:
    """log P(s∘g > 0) for g ~ N(0, K + I), one to three rows: the exact probit evidence, in arcsines."""
    C = np.outer(s, s) * (K + np.eye(len(s)))
    angles = np.arcsin(C / np.sqrt(np.outer(np.diag(C), np.diag(C))))[np.triu_indices(len(s), 1)].sum()
    return float(np.log({1: 0.5, 2: 0.25 + angles / (2 * np.pi), 3: 0.125 + angles / (4 * np.pi)}[len(s)]))


def test_leave_one_out_of_ep_is_ten_times_nearer_to_the_truth_than_that_of_laplace():
    """p(y_i | others) = Z/Z without i, both in closed form for three rows."""
    shape, y = np.array([[2, 1.2, 0.4], [1.2, 2, 0.9], [0.4, 0.9, 2]]), np.array([1.0, 1.0, 0.0])

    def errors(variance):
        K, s = variance * shape, 2 * y - 1
        pairs = [np.delete(np.arange(3), i) for i in range(3)]
        exact = orthant(K, s) - np.array([orthant(K[np.ix_(two, two)], s[two]) for two in pairs])
        problem = Latents(K, y, PROBIT)
        return np.array(
            [
                np.abs(infer(problem).leave_one_out() - exact).max()
                for infer in (expectation_propagation, laplace_latents)
            ]
        )

    found = np.array([errors(v) for v in (2.0, 1 / 8, 1 / 32, 1 / 128)])
    assert (found[:, 0] < found[:, 1] / 10).all()
    assert (found[1:-1] > 8 * found[2:]).all()


# --- evidence gradients -------------------------------------------------------------------------------------


def evidence(kernel, likelihood=LOGIT, *, n=20, d=2, infer=laplace_latents, **options) -> KernelEvidence:
    X, y = toy(n, d)

    def inferred(matrices, flips, start, controls):
        noisy = likelihood if flips is None else LabelNoise(likelihood, *flips)
        return infer(Latents(matrices[0], y, noisy), start, controls)

    return KernelEvidence(X, (kernel,), inferred, **options)


def gradients(of: KernelEvidence) -> tuple[np.ndarray, np.ndarray]:
    at = of.at(of.start, None, TO_ROUNDING)
    assert at.result.status.good
    differences = slopes(lambda theta: of.at(theta, at.result.warm, TO_ROUNDING).result.log_evidence, of.start)
    return of.gradient(at, TO_ROUNDING), differences


@EVERY
@pytest.mark.parametrize("infer", BOTH)
def test_the_gradient_of_the_evidence_for_every_likelihood(likelihood, infer):
    """With the movement of the mode (Laplace); without that of the sites (EP), which are stationary."""
    exact, differences = gradients(evidence(Constant(2.0) * RBF((0.9, 1.7)) + White(0.05), likelihood, infer=infer))
    assert_allclose(exact, differences, rtol=1e-7, atol=1e-7)


def with_expected_curvature(problem: Latents, start=None, controls=TO_ROUNDING):
    return laplace_latents(problem._replace(expected=True), start, controls)


@EVERY
def test_the_gradient_with_the_expected_curvature(likelihood):
    kernel = Constant(2.0) * RBF((0.9, 1.7)) + White(0.05)
    exact, differences = gradients(evidence(kernel, likelihood, infer=with_expected_curvature))
    assert_allclose(exact, differences, rtol=1e-7, atol=1e-7)


@EVERY
def test_the_evidence_with_the_expected_curvature_is_that_with_its_determinant(likelihood):
    K, y = covariance(20), toy(20)[1]
    found, expected = laplace_latents(Latents(K, y, likelihood)), with_expected_curvature(Latents(K, y, likelihood))
    f = expected.mean
    assert_allclose(f, found.mean, atol=1e-8)  # the mode is the same
    W = sum(
        np.exp(likelihood.log_prob(c, f)) * likelihood.slopes(c, f).grad ** 2 for c in (np.array(0.0), np.array(1.0))
    )
    determinant = np.linalg.slogdet(np.eye(20) + K * W)[1]
    height = likelihood.log_prob(y, f).sum() - 0.5 * f @ np.linalg.solve(K, f)
    assert_allclose(expected.log_evidence, height - 0.5 * determinant, rtol=1e-9)
    if likelihood is LOGIT:  # the curvature does not depend on the label
        assert_allclose(expected.log_evidence, found.log_evidence, rtol=1e-12)


def test_the_evidence_with_the_expected_curvature_has_no_poles():
    """Along a path on which a mode vanishes: no step is larger than what a mode's disappearing can cost."""
    X, y = toy(40, 1)
    y[::9] = 1.0 - y[::9]
    likelihood = LabelNoise(LOGIT, 0.1, 0.1)
    scales = np.exp(np.linspace(np.log(0.2), np.log(2.0), 200))
    problems = [Latents((60.0 * RBF(scale))(X), y, likelihood) for scale in scales]
    values = [with_expected_curvature(problem).log_evidence for problem in problems]
    assert max(values) < 0 and np.ptp(values) < 40 * np.log(2)
    assert np.abs(np.diff(values)).max() < 1.0


KERNELS = {
    "rbf": RBF(1.3),
    "rbf-ard": RBF((0.7, 2.0)),
    "matern-1/2": Matern(1.3, 0.5),
    "matern-3/2-ard": Matern((0.7, 2.0), 1.5),
    "matern-5/2": Matern(1.3, 2.5),
    "rational-quadratic": RationalQuadratic((0.7, 2.0), 0.8),
    "periodic": Periodic(1.1, 12.0),  # a short period makes fifth derivatives large, and with them the differences bad
    "linear": Linear(bias=0.7),
    "polynomial": Polynomial(degree=3, bias=0.8),
    "constant": Constant(2.0),
    "white": White(0.7),
    "fixed": RBF(1.0, length_scale_bounds="fixed") + White(0.2),
    "sum": RBF(0.7, columns=[0]) + Constant(0.5) * Linear(bias=1.0, columns=[1]),
    "product": RBF(0.7, columns=[0]) * Matern(2.0, columns=[1]),
    "nested": Constant(2.0) * (RBF(1.1) * Periodic(1.0, 3.0, columns=[1]) + White(0.1)) + Constant(0.3),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
@pytest.mark.parametrize("infer", BOTH)
def test_the_gradient_of_the_evidence_for_every_kernel(kernel, infer):
    exact, differences = gradients(evidence(kernel, PROBIT, infer=infer))
    assert exact.shape == (len(kernel.theta),)
    assert_allclose(exact, differences, rtol=1e-7, atol=1e-7)


def test_the_implicit_term_of_laplace_counts():
    """Without it, ½aᵀ∂K a - ½tr(R ∂K), the gradient is wrong in the second digit."""
    of = evidence(Constant(2.0) * RBF((0.9, 1.7)))
    at = of.at(of.start, None, TO_ROUNDING)
    a, R = at.result.mode.point.a, at.result.mode.precision.matrix()
    explicit = at.kernels[0].gradient_sums(of.X, 0.5 * (np.outer(a, a) - R))
    assert np.abs(explicit - of.gradient(at, TO_ROUNDING)).max() > 1e-2


def test_the_gradient_by_label_noise():
    """Logits of twice the flip probabilities come last in θ; by differences of second order, good to 1e-8 or so."""
    belief = FlipBelief(np.array([0, 1]), np.zeros(2), None)
    of = evidence(Constant(2.0) * RBF(0.9), belief=belief)
    assert of.start.size == of.bounds.shape[0] == 4
    assert_allclose(*gradients(of), rtol=1e-6, atol=1e-7)
    assert_allclose(of.flips(np.array([0.0, 0.0, 0.0, np.log(0.25)])), [0.25, 0.1])


def test_a_single_pass_has_its_gradient_by_differences():
    from credibly.inference.ep import assumed_density_filtering

    of = evidence(Constant(2.0) * RBF(0.9), infer=assumed_density_filtering, differences=True)
    assert_allclose(*gradients(of), rtol=1e-6, atol=1e-7)


def test_the_hessian_of_the_evidence():
    """Against second differences of fourth order (h = 0.02: h⁴/90 · sixth derivative, and 1e-12/h² of rounding)."""
    of = evidence(Constant(2.0) * RBF(0.9, length_scale_prior=LogNormal(1.0, 0.5)))
    at = of.at(of.start, None, TO_ROUNDING)
    H, h = of.hessian(at, TO_ROUNDING), 0.02

    def height(shift):
        theta = of.start + shift
        return of.at(theta, None, TO_ROUNDING).result.log_evidence + of.log_prior(theta)

    e = h * np.eye(2)
    for i in range(2):
        terms = [(-2, -1 / 12), (-1, 4 / 3), (0, -5 / 2), (1, 4 / 3), (2, -1 / 12)]
        # `hessian` has steps of 1e-3: its own error is 1e-6/6 of a fourth derivative
        assert_allclose(H[i, i], sum(w * height(k * e[i]) for k, w in terms) / h**2, atol=3e-6)
    assert_allclose(H[0, 1], H[1, 0], rtol=0)


# --- hyperparameters of highest evidence --------------------------------------------------------------------


def test_the_search_ends_where_the_evidence_is_flat():
    of = evidence(Constant(1.0) * RBF(1.0), n=30)
    found = maximise(of, of.bounds, [of.start], TO_ROUNDING, silent)
    assert found.status is Status.CONVERGED
    assert np.abs(of.gradient(found.at, TO_ROUNDING)).max() < 1e-3
    assert (np.linalg.eigvalsh(of.hessian(found.at, TO_ROUNDING)) < 0).all()


def test_a_prior_on_a_hyperparameter_pulls():
    """Where evidence and prior balance, their slopes cancel."""
    free, prior = evidence(Constant(1.0) * RBF(1.0), n=30), LogNormal(0.3, 0.1)
    held = evidence(Constant(1.0) * RBF(1.0, length_scale_prior=prior), n=30)
    one, other = (maximise(of, of.bounds, [of.start], TO_ROUNDING, silent).at for of in (free, held))
    assert abs(other.theta[1] - np.log(0.3)) < abs(one.theta[1] - np.log(0.3))
    assert_allclose(held.gradient(other, TO_ROUNDING), -held.log_prior_gradient(other.theta), atol=1e-3)


def test_bounds_hold_and_are_named():
    of = evidence(Constant(1.0) * RBF(1.7, length_scale_bounds=(1.5, 2.0)), n=30)
    found = maximise(of, of.bounds, [of.start], TO_ROUNDING, silent)
    assert found.status is Status.HYPERPARAMETER_AT_BOUND
    assert np.exp(found.at.theta[1]) in (pytest.approx(1.5), pytest.approx(2.0))


def test_equal_bounds_keep_a_value():
    of = evidence(Constant(1.0) * RBF(1.3), n=30)
    bounds = of.bounds.copy()
    bounds[1] = of.start[1]
    found = maximise(of, bounds, [of.start], TO_ROUNDING, silent)
    assert found.at.theta[1] == of.start[1] and found.status is Status.CONVERGED


def test_the_best_of_several_starts_is_kept():
    of = evidence(Constant(1.0) * RBF(1.0), n=30)
    starts = [of.start, np.log([1.0, 1e-4]) + 0.5]  # from length scales near zero nothing is learnt
    alone = [maximise(of, of.bounds, [start], TO_ROUNDING, silent).at.result.log_evidence for start in starts]
    both = maximise(of, of.bounds, starts, TO_ROUNDING, silent).at.result.log_evidence
    assert both == pytest.approx(max(alone), abs=1e-9)


# --- extremes -----------------------------------------------------------------------------------------------

ROWS = {
    "20": toy(),
    "1": (toy()[0][:1], np.ones(1)),
    "2": (toy()[0][:2], np.array([0.0, 1.0])),
    "identical": (np.zeros((10, 2)), np.arange(10) % 2.0),
}


@EVERY
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("variance", [1e-8, 1e8])
@pytest.mark.parametrize("length", [1e-3, 1e3])
def test_laplace_at_extremes(likelihood, rows, variance, length):
    X, y = rows
    K = variance * RBF(length)(X)
    result = laplace_latents(Latents(K, y, likelihood))
    assert result.status.good
    assert np.isfinite(result.log_evidence) and result.log_evidence <= 1e-9
    assert np.isfinite(result.gradient_matrices()[0]).all()
    assert (result.posterior.scores(K, np.diag(K)).variance > 0).all()
    assert (result.leave_one_out() <= 0).all()
    if variance < 1:  # the latents are known to be zero
        assert_allclose(result.log_evidence, likelihood.log_prob(y, np.zeros(len(y))).sum(), atol=1e-6)


def test_a_search_steps_back_from_kernels_that_are_rounded_away():
    """Far up, the values of a linear kernel on columns that are not centred lose all digits; the fit is not lost."""
    X, _ = toy(30)
    of = evidence(Constant(1.0, variance_bounds=(1e-5, 1e20)) * Linear(1.0), n=30)
    far = KernelEvidence(X + 1e3, of.kernels, of.infer)
    with pytest.raises(NotPositiveDefinite):
        far.at(np.log([1e14, 1.0]), None, TO_ROUNDING)
    found = maximise(far, far.bounds, [far.start, np.log([1e14, 1.0])], TO_ROUNDING, silent)  # the second start is none
    assert np.isfinite(found.at.result.log_evidence) and found.at.result.status.good


def test_a_step_to_a_kernel_that_is_none_is_taken_back():
    """A height that rises to 10, and beyond 5 there is no covariance."""
    refused = []

    def look(theta, warm):
        if theta[0] > 5.0:
            refused.append(theta[0])
            raise NotPositiveDefinite("rounded away")
        return Climb(theta.copy(), -((theta[0] - 10.0) ** 2), -2.0 * (theta - 10.0), np.zeros(1))

    best = _one_round(look, look(np.zeros(1), None), np.array([[-20.0, 20.0]]))
    assert refused and 1.0 <= best.theta[0] <= 5.0


# --- how a search may end --------------------------------------------------------------------------------------------


class TwoHumps(UnitGaussian):
    """p(y | f) = ½ N(f | -3, 1) + ½ N(f | 3, 1) for every y: at zero log p is flat, and bends upwards by 8."""

    log_concave = False

    def log_prob(self, y, f):
        return np.logaddexp(norm.logpdf(f, -3), norm.logpdf(f, 3)) - np.log(2)

    def slopes(self, y, f):
        t = np.tanh(3 * f)
        return Slopes(3 * t - f, 1 - 9 * (1 - t**2))

    def information(self, f):
        return np.ones_like(f)


def test_a_search_that_starts_on_a_saddle_says_so():
    """K⁻¹ + W is -7 there: the Gaussian is made of the expected curvature."""
    problem = Latents(np.eye(1), np.ones(1), TwoHumps())
    found = find_mode(problem, np.zeros(1), TO_ROUNDING)
    assert found.status is Status.SADDLE
    assert_allclose(found.precision.logdet, np.log(2))
    beside = find_mode(problem, np.array([1e-3]), TO_ROUNDING)
    assert beside.status is Status.CURVATURE_REPLACED
    f = beside.point.f
    assert_allclose(f + f, 3 * np.tanh(3 * f), rtol=1e-10)  # f = slope of log p; it stops at δ = 1e-10


class Downhill(UnitGaussian):
    """Slopes of the wrong sign: every step along them raises the objective."""

    def slopes(self, y, f):
        return Slopes(f - y, np.ones_like(f))


def test_a_search_that_no_step_helps_stalls():
    found = find_mode(Latents(np.eye(2), np.array([3.0, -2.0]), Downhill()), np.zeros(2), TO_ROUNDING)
    assert found.status is Status.STALLED
    assert_array_equal(found.point.f, 0.0)
    assert found.steps == 1


class Counts(TwoHumps):
    """The same for targets that are no labels: no log-concave relative is known."""

    two_labels = False


def test_a_likelihood_without_a_relative_is_searched_from_the_starts_there_are():
    problem = Latents(np.eye(1), np.ones(1), Counts())
    assert laplace_latents(problem).status is Status.SADDLE  # zero is all there is
    found = laplace_latents(problem, start=np.array([1.4]))
    assert found.status.good
    assert_allclose(2 * found.mean, 3 * np.tanh(3 * found.mean), rtol=1e-10)  # it stops at δ = 1e-10
    assert repr(found.posterior).startswith("LatentGaussian(n=1, log|I + KW|=")
