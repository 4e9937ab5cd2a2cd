"""Expectation propagation by its definition, its evidence by log partition functions, and every way it can go wrong."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal, norm

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
from credibly.inference.sites import Pace, _all_at_once, _row_by_row
from credibly.kernels import RBF, White
from credibly.model.likelihoods import NormalMixture, threshold_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.model.priors import StudentT
from credibly.numerics.averages import Tilted
from credibly.numerics.status import TO_ROUNDING, Status
from helpers import UnitGaussian

MIXTURE = NormalMixture(weights=(0.3, 0.7), means=(-1.0, 0.5), scales=(0.6, 1.4))
LOGIT, PROBIT, CAUCHY = (threshold_likelihood(name) for name in ("logit", "probit", "cauchy"))
LIKELIHOODS = {
    "logit": LOGIT,
    "probit": PROBIT,
    "cauchy": CAUCHY,
    "gumbel": threshold_likelihood("gumbel"),
    "student": threshold_likelihood(StudentT(df=3.0)),
    "mixture": threshold_likelihood(MIXTURE),
    "noisy-logit": LabelNoise(LOGIT, 0.1, 0.05),
    "noisy-probit": LabelNoise(PROBIT, 0.05, 0.2),
}
EVERY = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS.keys())


class ClosedFormGaussian(UnitGaussian):
    """y ~ N(f, 1), with tilted moments in closed form."""

    def tilted(self, y, m, v):
        return Tilted(norm.logpdf(y, m, np.sqrt(v + 1.0)), m + v / (v + 1.0) * (y - m), v / (v + 1.0))


def toy(n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, (np.sin(2 * X[:, 0]) + X[:, -1] + 0.7 * rng.logistic(size=n) > 0).astype(float)


def problem_of(likelihood, n: int = 20, variance: float = 4.0, nugget: float = 0.1) -> Latents:
    X, y = toy(n)
    return Latents((variance * RBF(1.0) + White(nugget))(X), y, likelihood)


def inverse(A: np.ndarray) -> np.ndarray:
    return np.linalg.solve(A, np.eye(len(A)))


def log_partition(precision: np.ndarray, nu: np.ndarray) -> float:
    """log ∫ exp(-½ fᵀPf + νᵀf) df without the constant (2π)^{n/2}."""
    return float(0.5 * nu @ np.linalg.solve(precision, nu) - 0.5 * np.linalg.slogdet(precision)[1])


# --- the definition -----------------------------------------------------------------------------------------


@EVERY
def test_the_posterior_is_prior_times_sites(likelihood):
    """q ∝ N(f | 0, K) Π exp(-½τf² + νf): Σ = (K⁻¹ + T)⁻¹, μ = Σν."""
    problem = problem_of(likelihood)
    result = expectation_propagation(problem)
    S = inverse(inverse(problem.K) + np.diag(result.sites.tau))
    assert_allclose(result.mean, S @ result.sites.nu, rtol=1e-9, atol=1e-10)
    assert_allclose(result.variance, np.diag(S), rtol=1e-9)
    assert_allclose(result.posterior.scores(problem.K, np.diag(problem.K)).variance, np.diag(S), rtol=1e-9)


@EVERY
def test_at_the_fixed_point_cavity_times_likelihood_has_the_moments_of_the_marginal(likelihood):
    """With the cavity by division of Gaussians and its moments by adaptive quadrature: nothing of the library's."""
    problem = problem_of(likelihood)
    result = expectation_propagation(problem)
    assert result.status is Status.CONVERGED
    for i in (0, 7, 13):
        tau = 1 / result.variance[i] - result.sites.tau[i]
        m, s = (result.mean[i] / result.variance[i] - result.sites.nu[i]) / tau, tau**-0.5

        def tilted(z, power, m=m, s=s, i=i):  # over z = (f - m)/s
            f = m + s * z
            return f**power * np.exp(likelihood.log_prob(problem.y[i], f)) * norm.pdf(z)

        mass, first, second = (quad(tilted, -12, 12, args=(k,), epsabs=1e-13, limit=200)[0] for k in range(3))
        assert_allclose(first / mass, result.mean[i], atol=1e-8)
        assert_allclose(second / mass - (first / mass) ** 2, result.variance[i], rtol=1e-8)
        assert_allclose(result.leave_one_out()[i], np.log(mass), rtol=1e-8)


@EVERY
def test_the_evidence_by_log_partition_functions(likelihood):
    """log Z = Φ(q) - Φ(prior) + Σ [log Ẑ_i + Φ(cavity_i) - Φ(q_i)], with the Φ of Gaussians in natural parameters."""
    problem = problem_of(likelihood)
    result = expectation_propagation(problem)
    tau, nu = result.sites
    P = inverse(problem.K)
    whole = log_partition(P + np.diag(tau), nu) - log_partition(P, np.zeros_like(nu))
    constants = 0.0
    for i in range(len(nu)):
        own_tau, own_nu = 1 / result.variance[i], result.mean[i] / result.variance[i]
        cavity_tau, cavity_nu = own_tau - tau[i], own_nu - nu[i]
        log_mass = likelihood.log_average(problem.y[i], cavity_nu / cavity_tau, 1 / cavity_tau)
        constants += log_mass + log_partition(np.array([[cavity_tau]]), np.array([cavity_nu]))
        constants -= log_partition(np.array([[own_tau]]), np.array([own_nu]))
    assert_allclose(result.log_evidence, whole + constants, rtol=1e-9)


def test_the_evidence_is_stationary_in_the_sites():
    """Why the gradient needs no derivative of the sites: moved by h, log Z moves by h²."""
    problem = problem_of(PROBIT)
    result = expectation_propagation(problem)
    away = np.random.default_rng(0).normal(size=(2, 20)) * np.abs(result.warm)

    def height(h):
        return SiteLatents.of(problem, Sites(*(result.warm + h * away))).ep_log_evidence()

    moved = [abs(height(h) - result.log_evidence) for h in (1e-2, 1e-3, 1e-4)]
    assert_allclose(moved[0] / moved[1], 100, rtol=0.1)
    assert_allclose(moved[1] / moved[2], 100, rtol=0.1)


def test_one_row_is_exact():
    """There is nothing to approximate in the evidence: log Z = log ∫ p(y | f) N(f | 0, k) df, and moments match."""
    for likelihood in LIKELIHOODS.values():
        for v in (0.1, 10.0):
            result = expectation_propagation(Latents(np.array([[v]]), np.ones(1), likelihood))
            log_mass, mean, var = likelihood.tilted(np.ones(1), np.zeros(1), np.array([v]))
            assert_allclose(result.log_evidence, log_mass[0], rtol=1e-12)
            assert_allclose([result.mean[0], result.variance[0]], [mean[0], var[0]], rtol=1e-9)


def test_independent_rows_are_exact():
    """K diagonal: a product of one-row problems, and labels alone tell nothing where the likelihood is symmetric."""
    variances, y = np.array([0.5, 1.0, 30.0]), np.array([1.0, 0.0, 1.0])
    for likelihood in LIKELIHOODS.values():
        result = expectation_propagation(Latents(np.diag(variances), y, likelihood))
        alone = likelihood.log_average(y, np.zeros(3), variances)
        assert_allclose(result.log_evidence, alone.sum(), rtol=1e-11)
        assert_allclose(result.leave_one_out(), alone, rtol=1e-9)
    for likelihood in (LOGIT, PROBIT, CAUCHY):
        symmetric = expectation_propagation(Latents(np.diag(variances), y, likelihood))
        assert_allclose(symmetric.log_evidence, 3 * np.log(0.5), rtol=1e-12)


# --- a Gaussian likelihood ----------------------------------------------------------------------------------


def test_a_gaussian_likelihood_is_exact_after_one_sweep():
    K, t = problem_of(LOGIT).K, np.random.default_rng(1).normal(size=20)
    problem = Latents(K, t, ClosedFormGaussian())
    result = expectation_propagation(problem)
    assert result.status is Status.CONVERGED and result.steps == 2  # one sweep, and one that finds nothing to change
    assert_allclose(result.sites.tau, 1.0, rtol=1e-11)
    assert_allclose(result.sites.nu, t, rtol=1e-10, atol=1e-11)
    C = K + np.eye(20)
    assert_allclose(result.log_evidence, multivariate_normal(np.zeros(20), C).logpdf(t), rtol=1e-11)
    assert_allclose(result.mean, K @ np.linalg.solve(C, t), rtol=1e-9, atol=1e-11)
    assert_allclose(result.variance, np.diag(K - K @ np.linalg.solve(C, K)), rtol=1e-9)


def test_a_single_pass_is_exact_for_a_gaussian_likelihood_in_any_order():
    K, t = problem_of(LOGIT).K, np.random.default_rng(1).normal(size=20)
    exact = multivariate_normal(np.zeros(20), K + np.eye(20)).logpdf(t)
    for order in (np.arange(20), np.arange(20)[::-1]):
        result = assumed_density_filtering(Latents(K[np.ix_(order, order)], t[order], ClosedFormGaussian()))
        assert_allclose(result.log_evidence, exact, rtol=1e-11)
        assert_allclose(result.ep_log_evidence(), exact, rtol=1e-11)


# --- roads to the fixed point -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["logit", "probit", "cauchy", "mixture", "noisy-logit"])
def test_sequential_sweeps_reach_the_same_fixed_point(name):
    problem = problem_of(LIKELIHOODS[name], 10)
    result = expectation_propagation(problem)
    state = assumed_density_filtering(problem)
    for _ in range(25):
        state = sequential_sweep(state).state
    # EP stops when no marginal moves by 1e-9 of its standard deviation
    assert_allclose(state.mean, result.mean, atol=1e-8)
    assert_allclose(state.variance, result.variance, rtol=1e-8)
    assert_allclose(state.ep_log_evidence(), result.log_evidence, rtol=1e-10)


def test_a_sequential_sweep_is_the_textbook_loop():
    """One row at a time with the whole covariance updated by rank one (RW06 Alg. 3.5): blocks change nothing."""
    problem = problem_of(PROBIT, 21)
    mean, S = np.zeros(21), problem.K.copy()
    tau, nu = np.zeros(21), np.zeros(21)
    for _ in range(2):
        for i in range(21):
            cavity_tau, cavity_nu = 1 / S[i, i] - tau[i], mean[i] / S[i, i] - nu[i]
            _, m, v = PROBIT.tilted(problem.y[i], cavity_nu / cavity_tau, 1 / cavity_tau)
            by = 1 / v - cavity_tau - tau[i]
            tau[i], nu[i] = 1 / v - cavity_tau, m / v - cavity_nu
            S = S - by / (1 + by * S[i, i]) * np.outer(S[:, i], S[:, i])
            mean = S @ nu
    once = sequential_sweep(SiteLatents.of(problem, Sites(np.zeros(21), np.zeros(21))))
    twice = sequential_sweep(once.state).state
    assert_allclose(twice.sites.tau, tau, rtol=1e-9)
    assert_allclose(twice.sites.nu, nu, rtol=1e-9)
    assert_allclose(twice.mean, mean, rtol=1e-9, atol=1e-11)


@EVERY
def test_a_start_from_the_sites_of_another_kernel_ends_at_the_same_place_sooner(likelihood):
    problem = problem_of(likelihood)
    near = expectation_propagation(problem._replace(K=1.05 * problem.K))
    cold, warm = expectation_propagation(problem), expectation_propagation(problem, near.warm)
    assert_allclose(warm.mean, cold.mean, atol=1e-8)
    assert_allclose(warm.log_evidence, cold.log_evidence, rtol=1e-10)
    assert warm.steps <= cold.steps


def test_sites_that_make_no_gaussian_with_this_kernel_are_not_started_from():
    problem = problem_of(CAUCHY)
    hopeless = np.stack([np.full(20, -10.0), np.zeros(20)])
    result = expectation_propagation(problem, hopeless)
    assert_allclose(result.log_evidence, expectation_propagation(problem).log_evidence, rtol=1e-10)


def test_from_a_fixed_point_one_look_is_enough():
    problem = problem_of(LOGIT)
    result = expectation_propagation(problem)
    again = expectation_propagation(problem, result.warm)
    assert again.steps == 1
    assert_array_equal(again.sites.tau, result.sites.tau)


def test_log_concave_sites_have_positive_precisions_and_others_may_not():
    for likelihood in (LOGIT, PROBIT):
        assert (expectation_propagation(problem_of(likelihood)).sites.tau > 0).all()
    surprised = LabelNoise(PROBIT, 0.1, 0.1)
    y = np.ones(12)
    y[5] = 0.0  # one among many like rows: explained as a flip, its site pushes away
    result = expectation_propagation(Latents((25.0 * RBF(3.0) + White(0.01))(toy(12)[0]), y, surprised))
    assert result.status is Status.CONVERGED
    assert result.sites.tau[5] < 0
    assert (result.variance > 0).all() and result.log_evidence < 0


@pytest.mark.parametrize("name", ["cauchy", "student", "noisy-logit", "noisy-probit"])
@pytest.mark.parametrize("variance", [1.0, 25.0, 400.0])
def test_likelihoods_that_are_not_log_concave_settle_or_say_so(name, variance):
    problem = problem_of(LIKELIHOODS[name], 15, variance)
    result = expectation_propagation(problem)
    assert result.status in (Status.CONVERGED, Status.SWEEP_LIMIT)
    assert np.isfinite(result.log_evidence) and result.log_evidence < 0
    assert (result.variance > 0).all()
    assert result.cavities().proper.all()
    assert (result.leave_one_out() < 0).all()
    assert np.isfinite(result.gradient_matrices()[0]).all()


def test_what_settles_with_constant_damping_settles():
    """All sites moved by three tenths of the way reach 1e-18 in 211 sweeps; fewer are needed here."""
    problem = problem_of(LIKELIHOODS["noisy-probit"], 30, 25.0)
    assert expectation_propagation(problem, controls=TO_ROUNDING._replace(max_steps=211)).status is Status.CONVERGED


@EVERY
def test_one_sweep_is_too_few_and_is_said(likelihood):
    """The state is the best one seen, and can be used."""
    problem = problem_of(likelihood)
    result = expectation_propagation(problem, controls=TO_ROUNDING._replace(max_steps=1))
    assert result.status is Status.SWEEP_LIMIT and result.steps == 1
    assert np.isfinite(result.log_evidence) and (result.variance > 0).all()
    two = expectation_propagation(problem, controls=TO_ROUNDING._replace(max_steps=4))
    full = expectation_propagation(problem)
    assert two.status is Status.SWEEP_LIMIT
    assert abs(two.log_evidence - full.log_evidence) < abs(result.log_evidence - full.log_evidence)


def test_sweeps_are_reported():
    seen = []
    result = expectation_propagation(
        problem_of(LOGIT), controls=TO_ROUNDING._replace(report=lambda *args: seen.append(args))
    )
    assert [step for step, _, _ in seen] == list(range(result.steps))
    assert seen[-1][2] <= 1e-18 < seen[0][2]
    assert_allclose(-seen[-1][1], result.log_evidence, rtol=1e-12)


# --- assumed-density filtering ------------------------------------------------------------------------------


def test_the_evidence_of_a_single_pass_is_a_chain_of_predictions():
    """log p(y₁) + log p(y₂ | y₁) + …: of the first k rows alone it is the sum of the first k terms."""
    problem = problem_of(LOGIT, 10)
    whole = assumed_density_filtering(problem)
    assert whole.status is Status.CONVERGED and whole.steps == 1
    for k in (1, 4, 9):
        part = assumed_density_filtering(Latents(problem.K[:k, :k], problem.y[:k], LOGIT))
        assert_allclose(part.log_masses, whole.log_masses[:k], rtol=1e-10)
        predicted = LOGIT.log_average(
            problem.y[k : k + 1], *part.posterior.scores(problem.K[:k, k : k + 1], problem.K[k : k + 1, k])
        )
        assert_allclose(predicted, whole.log_masses[k], rtol=1e-10)
    assert_allclose(whole.log_evidence, whole.log_masses.sum(), rtol=1e-15)


# --- identical rows: a one-dimensional integral -------------------------------------------------------------


def shared_latent(likelihood, y, variance: float) -> float:
    """log ∫ Π p(y_i | f) N(f | 0, v) df: all rows have one latent."""
    s = variance**0.5

    def joint(z):
        return np.exp(likelihood.log_prob(y, np.full(len(y), s * z)).sum()) * norm.pdf(z)

    return float(np.log(quad(joint, -12, 12, epsabs=1e-14, epsrel=1e-12, limit=200)[0]))


@pytest.mark.parametrize("name", ["logit", "probit"])
def test_the_error_of_ep_with_one_shared_latent_fades_with_the_variance(name):
    """EP matches all that is of second order in the covariance: a fourth of it leaves less than a sixteenth."""
    likelihood, y = LIKELIHOODS[name], np.array([1.0, 1.0, 0.0, 1.0, 1.0])

    def error(v):
        result = expectation_propagation(Latents(np.full((5, 5), v), y, likelihood))
        return abs(result.log_evidence - shared_latent(likelihood, y, v))

    errors = [error(v) for v in (1 / 4, 1 / 16, 1 / 64)]
    assert 2e-4 > errors[0] > 16 * errors[1] > 16**2 * errors[2]


# --- extremes -----------------------------------------------------------------------------------------------

ROWS = {
    "10": toy(10),
    "1": (toy()[0][:1], np.ones(1)),
    "2": (toy()[0][:2], np.array([0.0, 1.0])),
    "identical": (np.zeros((6, 2)), np.arange(6) % 2.0),
}


@pytest.mark.parametrize("name", ["logit", "probit", "cauchy", "noisy-logit"])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("variance", [1e-8, 1e8])
@pytest.mark.parametrize("length", [1e-3, 1e3])
def test_ep_at_extremes(name, rows, variance, length):
    """Settled, or said not to be; in both cases finite, a probability, and with variances that are positive."""
    (X, y), likelihood = rows, LIKELIHOODS[name]
    K = variance * RBF(length)(X)
    result = expectation_propagation(Latents(K, y, likelihood))
    assert result.status in (Status.CONVERGED, Status.SWEEP_LIMIT)
    assert result.status is Status.CONVERGED or variance > 1
    assert np.isfinite(result.log_evidence) and result.log_evidence <= 1e-9
    assert (result.variance > 0).all() and (result.leave_one_out() <= 0).all()
    assert np.isfinite(result.gradient_matrices()[0]).all()
    if variance < 1:
        assert_allclose(result.log_evidence, likelihood.log_prob(y, np.zeros(len(y))).sum(), atol=1e-6)


@pytest.mark.parametrize("name", ["logit", "probit"])
def test_opposite_labels_of_identical_rows_under_a_huge_variance(name):
    """n/2 of either label: ∫ (F(f)F(-f))^{n/2} df / √(2πv), the density of the prior at zero; EP has it to a tenth."""
    likelihood, n, v = LIKELIHOODS[name], 10, 1e8
    inverse_link = {"logit": expit, "probit": ndtr}[name]
    flat = quad(lambda f: (inverse_link(f) * inverse_link(-f)) ** (n / 2), -20, 20)[0] / np.sqrt(2 * np.pi * v)
    result = expectation_propagation(Latents(np.full((n, n), v), np.arange(n) % 2.0, likelihood))
    assert result.status is Status.CONVERGED
    assert abs(result.log_evidence - np.log(flat)) < 0.1
    assert_allclose(result.mean, 0.0, atol=1e-4)


# --- sites that together make no Gaussian ----------------------------------------------------------------------------


class Delicate:
    """A state of one site that is a Gaussian only up to some precision of the site."""

    counts = 1.0

    def __init__(self, tau: float, most: float) -> None:
        self.sites, self.most, self.variance = Sites(np.array([tau]), np.zeros(1)), most, np.ones(1)

    def rebuilt(self, sites: Sites) -> "Delicate":
        if sites.tau[0] > self.most:
            raise NotPositiveDefinite("too much")
        return Delicate(float(sites.tau[0]), self.most)

    def row_by_row(self) -> "Delicate":
        return self.rebuilt(Sites(np.ones(1), np.zeros(1)))


GOAL = Sites(np.ones(1), np.zeros(1))


@pytest.mark.parametrize(("most", "reached"), [(2.0, 1.0), (0.3, 0.25), (-1.0, 0.0)])
def test_sites_go_half_as_far_until_they_make_a_gaussian(most, reached):
    assert _all_at_once(Delicate(0.0, most), GOAL, Pace()).sites.tau == reached


@pytest.mark.parametrize(("most", "reached"), [(2.0, 1.0), (0.3, 0.0)])
def test_a_sweep_row_by_row_that_ends_in_no_gaussian_is_not_taken(most, reached):
    assert _row_by_row(Delicate(0.0, most)).sites.tau == reached


def test_a_mixture_of_sweeps_that_makes_no_gaussian_is_forgotten():
    pace = Pace()
    for _ in range(10):
        pace.heed(1e-9)
    assert pace.mixes
    pace.mixing.next_point = lambda x, gap, scale, step: x + 5.0
    forgotten = []
    pace.mixing.forget = lambda: forgotten.append(True)
    assert _all_at_once(Delicate(0.0, 2.0), GOAL, pace).sites.tau == 1.0
    assert forgotten


def test_a_pass_that_meets_a_cavity_that_is_none_is_refused(monkeypatch):
    """Its mass is not known, and neither is the evidence."""
    problem = Latents(np.eye(2), np.ones(2), PROBIT)
    passed = sequential_sweep(SiteLatents.of(problem, Sites(np.zeros(2), np.zeros(2))))
    monkeypatch.setattr(ep, "sequential_sweep", lambda state: passed._replace(log_masses=np.array([-0.7, np.nan])))
    with pytest.raises(NotPositiveDefinite, match="lost in rounding: the kernel's values are too large"):
        assumed_density_filtering(problem)
