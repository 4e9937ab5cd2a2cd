"""The Laplace approximation of any density: exact cases, laws, stored numbers, and what cannot be used."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import betaln, expit, gammaln, log_expit, log_ndtr
from scipy.stats import lognorm, multivariate_normal, norm

from credibly import BayesianLogisticRegression, Normal, laplace_approximation
from credibly.errors import CrediblyError, InputError, NoModeError
from helpers import SHARED_IS_HERE, load_refload, needs_shared

LOG_2PI = np.log(2 * np.pi)


def by_values_only(log_density):
    """The same function for real points only, so that complex steps cannot be used."""

    def function(z):
        if np.iscomplexobj(z):
            raise TypeError("real points only")
        return log_density(z)

    return function


ways = pytest.mark.parametrize("way", [lambda f: f, by_values_only], ids=["complex steps", "differences"])


def covariance(M, seed=0):
    A = np.random.default_rng(seed).normal(size=(M, M + 3))
    return A @ A.T / M


def gaussian(mean, cov):
    precision = np.linalg.solve(cov, np.eye(len(mean)))
    return lambda z: -0.5 * (z - mean) @ precision @ (z - mean)


# --- stored numbers -----------------------------------------------------------------------------------------

# mpmath, from ../shared/reference/laplace_general.json: mode, A, log normaliser
PRML = (
    lambda z: -z * z / 2 - np.log1p(np.exp(-(20 * z + 4))),
    0.07747958098531299,
    2.5435885342366,
    0.44526754177253564,
)
WELL = (lambda z: -((z * z - 4) ** 2) / 8 + 3 * z / 10, 2.0711574281777074, 4.434539638443543, 0.7850835964702811)
OTHER_WELL = (WELL[0], -1.920299111038211, 3.5313230137812153, -0.3001907249357907)
STUDENT = (lambda z: -3 * np.log1p(z * z / 5), 0.0, 1.2, 0.8277777548076954)


@ways
@pytest.mark.parametrize("case", [PRML, WELL, OTHER_WELL, STUDENT], ids=["prml 4.14", "well", "other well", "student"])
def test_one_dimension(case, way):
    log_density, z0, A, log_normalizer = case
    q = laplace_approximation(way(log_density), z0 + 0.3)
    assert q.mean.shape == (1,) and q.cov.shape == (1, 1)
    assert_allclose(q.mean, z0, rtol=1e-9, atol=1e-10)
    assert_allclose(q.modes[0].precision, A, rtol=1e-9)
    assert_allclose(q.cov, 1 / A, rtol=1e-9)
    assert_allclose(q.log_normalizer, log_normalizer, rtol=1e-9)


def curved(z):
    ridge = z[0] ** 2 / 2 + (z[1] - 0.2 * z[0] ** 2) ** 2 * 2 + (z[2] - 0.5 * z[1]) ** 2
    return -ridge / 2 - 0.05 * z[0] ** 4 + 0.3 * z[0]


@ways
def test_three_dimensions(way):
    q = laplace_approximation(way(curved), np.zeros(3))
    assert_allclose(q.mean, [0.5377859635183996, 0.05784274851148269, 0.028921374255741344], rtol=1e-9)
    assert_allclose(q.cov[0], [1.4847187280267584, 0.3193843566822732, 0.1596921783411366], rtol=1e-9)
    assert_allclose(q.log_normalizer, 2.6927048060951955, rtol=1e-9)


def log_gamma_density(a, b):
    return lambda z: (a - 1) * np.log(z) - b * z


def log_beta_density(a, b):
    return lambda z: (a - 1) * np.log(z) + (b - 1) * np.log1p(-z)


BOUNDED = [
    (log_gamma_density(3.5, 2.0), (0, None), 0.5596157879354227, 3.5, -1.2487876932690318),
    (log_gamma_density(0.7, 3.0), (0, np.inf), -1.455287232606842, 0.7, -0.6214250576507505),
    (log_gamma_density(40.0, 8.0), (0, None), 1.6094379124341003, 40.0, 23.45201530351172),
    (log_beta_density(2.5, 1.7), (0, 1), 0.3856624808119847, 1.0119047619047619, -1.9215388453429063),
    (log_beta_density(0.8, 3.0), (0, 1), -1.3217558399823195, 0.631578947368421, -0.8069773307360383),
    (lambda z: 0.0 * z, (0, 1), 0.0, 0.5, -0.12078223763524522),  # uniform
]


@ways
@pytest.mark.parametrize("case", BOUNDED, ids=["gamma", "gamma 0.7", "gamma 40", "beta", "beta 0.8", "uniform"])
def test_bounded_coordinates(case, way):
    log_density, bounds, u0, A, log_normalizer = case
    q = laplace_approximation(way(log_density), 0.5, bounds=[bounds])
    assert_allclose(q.mean, u0, rtol=1e-9, atol=1e-10)
    assert_allclose(q.cov, 1 / A, rtol=1e-9)
    assert_allclose(q.log_normalizer, log_normalizer, rtol=1e-9)
    assert_allclose(q.mode, np.exp(u0) if bounds[1] != 1 else expit(u0), rtol=1e-9)


def stored(family):
    cases = load_refload().load("laplace_general")[family] if SHARED_IS_HERE else {}
    cases = cases if isinstance(cases, dict) else {f"{it['family']} {it['a']} {it['b']}": it for it in cases}
    return pytest.mark.parametrize("case", cases.values(), ids=cases.keys())


def compiled(case):
    names = {"log1p": np.log1p, "exp": np.exp, "log": np.log, "mpf": float, "sig": lambda x: 1 / (1 + np.exp(-x))}
    return lambda z: eval(case["log_f"], names | {"z": z})


@needs_shared
@ways
@stored("one_dimensional")
def test_every_stored_mode(case, way):
    for mode in case["modes"]:
        q = laplace_approximation(way(compiled(case)), mode["z0"] + 0.2)
        assert_allclose(q.mean, mode["z0"], rtol=1e-8, atol=1e-10)
        assert_allclose(q.modes[0].precision, mode["A"], rtol=1e-8)
        assert_allclose(q.log_normalizer, mode["laplace_log_Z"], rtol=1e-8)


@needs_shared
@ways
@stored("one_dimensional")
def test_all_stored_modes_together(case, way):
    wanted = sorted(case["modes"], key=lambda mode: -mode["laplace_log_Z"])
    q = laplace_approximation(way(compiled(case)), 0.0, modes=len(wanted), random_state=0)
    assert_allclose([it.mean[0] for it in q.modes], [it["z0"] for it in wanted], rtol=1e-8, atol=1e-10)
    assert_allclose([it.log_normalizer for it in q.modes], [it["laplace_log_Z"] for it in wanted], rtol=1e-8)
    total = case.get("log_of_sum_of_laplace_Z", wanted[0]["laplace_log_Z"])
    assert_allclose(q.log_normalizer, total, rtol=1e-8)


@needs_shared
@ways
@stored("several_dimensions")
def test_every_stored_density_of_three_coordinates(case, way):
    q = laplace_approximation(way(compiled(case)), np.zeros(case["dim"]))
    assert_allclose(q.mean, case["mode"], rtol=1e-8)
    assert_allclose(q.modes[0].precision, case["A"], rtol=1e-8, atol=1e-10)
    assert_allclose(q.cov, case["laplace_cov"], rtol=1e-8)
    assert_allclose(q.log_normalizer, case["laplace_log_Z"], rtol=1e-8)


@needs_shared
@ways
@stored("transformed_coordinates")
def test_every_stored_gamma_and_beta(case, way):
    make, bounds, name = {
        "gamma": (log_gamma_density, (0, None), "log_coordinate"),
        "beta": (log_beta_density, (0, 1), "logit_coordinate"),
    }[case["family"]]
    log_density = way(make(case["a"], case["b"]))
    q, wanted = laplace_approximation(log_density, 0.4, bounds=[bounds]), case[name]
    assert_allclose(q.mean, wanted["mode"], rtol=1e-8, atol=1e-10)
    assert_allclose(q.modes[0].precision, wanted["A"], rtol=1e-8)
    assert_allclose(q.log_normalizer, wanted["laplace_log_Z"], rtol=1e-8)
    if case["x_coordinate"] is None:
        with pytest.raises(NoModeError):
            laplace_approximation(log_density, 0.4)
    else:
        q, wanted = laplace_approximation(log_density, 0.4), case["x_coordinate"]
        assert_allclose(q.mean, wanted["mode"], rtol=1e-8)
        assert_allclose(q.modes[0].precision, wanted["A"], rtol=1e-8)
        assert_allclose(q.log_normalizer, wanted["laplace_log_Z"], rtol=1e-8)


# --- misprints of the notes ---------------------------------------------------------------------------------


def test_e10_the_expansion_starts_with_the_log_of_f():
    log_density, z0, A, _ = PRML
    right = log_density(z0) + 0.5 * LOG_2PI - 0.5 * np.log(A)
    printed = np.exp(log_density(z0)) + 0.5 * LOG_2PI - 0.5 * np.log(A)  # f(z0) in the place of ln f(z0)
    q = laplace_approximation(log_density, 0.0)
    assert_allclose(q.log_normalizer, right, rtol=1e-9)
    assert_allclose(np.exp([right, printed]), [1.561, 4.27], rtol=1e-2)  # exactly 1.451


def test_e11_a_is_minus_the_second_derivative():
    log_density, z0, A, _ = PRML
    h = 1e-4  # the difference is off by h² f''''/12, some 1e-5
    second = (log_density(z0 + h) - 2 * log_density(z0) + log_density(z0 - h)) / h**2
    assert second < 0
    assert_allclose(laplace_approximation(log_density, 0.0).modes[0].precision, -second, rtol=1e-4)
    assert_allclose(A, -second, rtol=1e-4)


# --- exact cases --------------------------------------------------------------------------------------------


@ways
@pytest.mark.parametrize("M", [1, 2, 7, 20])
def test_a_gaussian_is_its_own_approximation(M, way):
    mean, cov = np.arange(1.0, M + 1), covariance(M)
    q = laplace_approximation(way(gaussian(mean, cov)), np.zeros(M))
    assert_allclose(q.mean, mean, rtol=1e-9)
    assert_allclose(q.cov, cov, rtol=1e-8, atol=1e-9)
    assert_allclose(q.log_normalizer, 0.5 * (M * LOG_2PI + np.linalg.slogdet(cov)[1]), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("derivatives", ["none", "grad", "both"])
def test_two_hundred_dimensions(derivatives):
    rng = np.random.default_rng(1)
    M = 200
    mean, sd, turn = rng.normal(size=M), 10.0 ** rng.uniform(-2, 2, size=M), rng.normal(size=M) / 20

    def log_density(z):  # precision I + turn turnᵀ in units of sd: its determinant is 1 + |turn|²
        x = (z - mean) / sd
        return -0.5 * (x @ x + (turn @ x) ** 2)

    A = (np.eye(M) + np.outer(turn, turn)) / np.outer(sd, sd)
    given = {"grad": lambda z: -A @ (z - mean), "hess": lambda z: -A}
    chosen = {"none": {}, "grad": {"grad": given["grad"]}, "both": given}[derivatives]
    q = laplace_approximation(log_density, np.zeros(M), **chosen)
    exact = M / 2 * LOG_2PI + np.log(sd).sum() - 0.5 * np.log1p(turn @ turn)
    assert_allclose(q.log_normalizer, exact, rtol=1e-11)
    assert_allclose((q.mean - mean) / sd, 0, atol=1e-8)
    assert_allclose(q.cov / np.outer(sd, sd), np.eye(M) - np.outer(turn, turn) / (1 + turn @ turn), atol=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e5, 1e12])
def test_units_do_not_matter(scale):
    q = laplace_approximation(lambda z: curved(z / scale), np.full(3, 0.1 * scale))
    assert_allclose(q.mean / scale, [0.5377859635183996, 0.05784274851148269, 0.028921374255741344], rtol=1e-9)
    assert_allclose(q.log_normalizer, 2.6927048060951955 + 3 * np.log(scale), rtol=1e-9)


@pytest.mark.parametrize("start", [-1e8, -30.0, 1e3, 1e8])
def test_a_start_far_away(start):
    q = laplace_approximation(lambda z: -0.5 * (z[0] - 3) ** 2, start)
    assert_allclose([q.mean[0], q.cov[0, 0]], [3, 1], rtol=1e-9)
    heavy = laplace_approximation(lambda z: -np.log1p((z[0] - 3) ** 2), start)  # where log f curves upwards
    assert_allclose([heavy.mean[0], heavy.cov[0, 0]], [3, 0.5], rtol=1e-9)


def test_separated_gaussians_are_a_mixture():
    weights, means, sds = np.array([0.5, 0.3, 0.2]), np.array([-30.0, 0.0, 40.0]), np.array([1.0, 0.5, 2.0])

    def log_density(z):
        return np.log((weights * np.exp(-0.5 * ((z - means) / sds) ** 2) / sds).sum() / np.sqrt(2 * np.pi))

    q = laplace_approximation(log_density, [[-25.0], [1.0], [38.0]], modes=3, random_state=0)
    assert_allclose(q.log_normalizer, 0, atol=1e-10)
    assert_allclose([mode.weight for mode in q.modes], weights, rtol=1e-9)
    assert_allclose([mode.mean[0] for mode in q.modes], means, rtol=1e-9, atol=1e-9)
    assert_allclose([mode.cov[0, 0] for mode in q.modes], sds**2, rtol=1e-9)
    mean = weights @ means
    assert_allclose(q.mean, mean, rtol=1e-9)
    assert_allclose(q.cov, weights @ (sds**2 + (means - mean) ** 2), rtol=1e-9)
    z = np.linspace(-35, 45, 200)
    assert_allclose(q.logpdf(z[:, None]), [log_density(it) for it in z], rtol=1e-9, atol=1e-9)


# --- laws ---------------------------------------------------------------------------------------------------


@ways
def test_an_affine_change_of_variables_adds_its_log_determinant(way):
    rng = np.random.default_rng(3)
    a, B = rng.normal(size=3), rng.normal(size=(3, 3))
    plain = laplace_approximation(way(curved), np.zeros(3))
    moved = laplace_approximation(way(lambda z: curved(np.linalg.solve(B, z - a))), a)  # of a + Bz
    assert_allclose(moved.log_normalizer, plain.log_normalizer + np.linalg.slogdet(B)[1], rtol=1e-9)
    assert_allclose(moved.mean, a + B @ plain.mean, rtol=1e-8)
    assert_allclose(moved.cov, B @ plain.cov @ B.T, rtol=1e-8)


def test_a_factor_adds_its_logarithm():
    q, scaled = (laplace_approximation(lambda z, c=c: curved(z) + c, np.zeros(3)) for c in (0.0, 5.0))
    assert_allclose(scaled.log_normalizer - q.log_normalizer, 5.0, rtol=1e-10)
    assert_allclose(scaled.mean, q.mean, rtol=1e-8)


def test_bounds_are_a_change_of_variables_written_out():
    a, b = np.array([2.0, 3.0]), np.array([1.5, 4.0])

    def log_density(z):
        return (
            (a[0] - 1) * np.log(z[0] - 1) - b[0] * (z[0] - 1) * (1 + z[1] ** 2)
            + (a[1] - 1) * np.log(z[1] + 2) + (b[1] - 1) * np.log(3 - z[1]) - (5 - z[2]) + np.log(5 - z[2])
        )  # fmt: skip

    def written_out(u):  # u = log(z0 - 1), logit((z1 + 2)/5), log(5 - z2)
        p = 1 / (1 + np.exp(-u[1]))
        z = np.array([1 + np.exp(u[0]), -2 + 5 * p, 5 - np.exp(u[2])])
        return log_density(z) + u[0] + np.log(5 * p * (1 - p)) + u[2]

    bounds = [(1, None), (-2, 3), (None, 5)]
    start = np.array([2.0, 1.5, 4.0])
    q = laplace_approximation(log_density, start, bounds=bounds)
    free = laplace_approximation(written_out, [0.0, np.log(3.5 / 1.5), 0.0])
    assert_allclose(q.log_normalizer, free.log_normalizer, rtol=1e-9)
    assert_allclose(q.mean, free.mean, rtol=1e-8)
    assert_allclose(q.cov, free.cov, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("given", ["grad", "hess", "both"])
def test_given_derivatives_and_bounds_agree_with_differences(given):
    def log_density(z):
        return 2 * np.log(z[0]) - z[0] * (1 + z[1] ** 2) + 1.5 * np.log(1 - z[2]) + np.log(z[2]) - z[1] * z[2]

    def grad(z):
        return np.array([2 / z[0] - 1 - z[1] ** 2, -2 * z[0] * z[1] - z[2], -1.5 / (1 - z[2]) + 1 / z[2] - z[1]])

    def hess(z):
        last = -1.5 / (1 - z[2]) ** 2 - 1 / z[2] ** 2
        return np.array([[-2 / z[0] ** 2, -2 * z[1], 0], [-2 * z[1], -2 * z[0], -1], [0, -1, last]])

    chosen = {"grad": {"grad": grad}, "hess": {"hess": hess}, "both": {"grad": grad, "hess": hess}}[given]
    bounds = [(0, None), (None, None), (0, 1)]
    q = laplace_approximation(log_density, [1.0, 0.1, 0.5], bounds=bounds, **chosen)
    plain = laplace_approximation(by_values_only(log_density), [1.0, 0.1, 0.5], bounds=bounds)
    assert_allclose(q.mean, plain.mean, rtol=1e-8)
    assert_allclose(q.cov, plain.cov, rtol=1e-8)
    assert_allclose(q.log_normalizer, plain.log_normalizer, rtol=1e-9)


@ways
def test_the_log_posterior_of_logistic_regression_written_by_hand(way):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (rng.random(80) < expit(X @ [1.0, -2.0, 0.5] + 0.3)).astype(int)
    Phi, sd = np.column_stack([X, np.ones(80)]), np.array([1.5, 1.5, 1.5, 4.0])
    signed = (2 * y - 1)[:, None] * Phi

    def log_posterior(w):
        prior = -0.5 * ((w / sd) ** 2).sum() - np.log(sd).sum() - 2 * LOG_2PI
        return prior - np.log1p(np.exp(-signed @ w)).sum()

    q = laplace_approximation(way(log_posterior), np.zeros(4))
    model = BayesianLogisticRegression(prior=Normal(scale=1.5, intercept_scale=4.0), inference="laplace").fit(X, y)
    assert_allclose(q.log_normalizer, model.log_evidence_, rtol=1e-9)
    assert_allclose(q.mean, model.posterior_.mean, rtol=1e-8)
    assert_allclose(q.cov, model.posterior_.cov, rtol=1e-7, atol=1e-9)


def test_functions_that_take_no_complex_numbers():
    q = laplace_approximation(lambda z: log_ndtr(2 * z[0]) + norm.logpdf(z[0]) + float(log_expit(z[0])), 0.0)
    same = laplace_approximation(
        lambda z: log_ndtr(2 * z[0]) - z[0] ** 2 / 2 - 0.5 * LOG_2PI - np.log1p(np.exp(-z[0])), 0.0
    )
    assert_allclose(q.log_normalizer, same.log_normalizer, rtol=1e-9)
    assert_allclose(q.cov, same.cov, rtol=1e-9)


def test_functions_that_take_complex_numbers_but_are_not_analytic():
    q = laplace_approximation(lambda z: -(np.abs(z) ** 2).sum() / 2, np.zeros(2))  # the start is the mode
    assert_allclose(q.cov, np.eye(2), atol=1e-10)
    # analytic at the start, not at the mode
    q = laplace_approximation(lambda z: -0.5 * (z[0].real ** 2 if abs(z[0]) < 2 else z[0] ** 2), 5.0)
    assert_allclose([q.mean[0], q.cov[0, 0]], [0, 1], atol=1e-8)


def test_what_complex_steps_do_not_see_is_found_by_differences():
    """Beyond one the last term is not analytic: complex steps climb to 3, where they are found out."""
    q = laplace_approximation(lambda z: -0.5 * (z[0] - 3) ** 2 + 1e-3 * (z[0] if z[0].real < 1 else z[0].real), 0.0)
    assert_allclose([q.mean[0], q.cov[0, 0]], [3.001, 1], rtol=1e-8)


def test_a_function_may_change_its_argument():
    def log_density(z):
        z -= 3
        return -0.5 * z @ z

    assert_allclose(laplace_approximation(log_density, np.zeros(2)).mean, 3, rtol=1e-9)


def test_single_precision_is_not_mistaken_for_double():
    q = laplace_approximation(lambda z: np.float32(-0.5 * z[0] ** 2 - 50), 0.7)
    assert_allclose([q.mean[0], q.cov[0, 0]], [0, 1], atol=2e-3)  # values are known to 6e-6


def test_a_log_density_that_is_not_defined_everywhere():
    q = laplace_approximation(lambda z: np.log(z[0]) - z[0], 1e-3)  # NaN below zero
    assert_allclose([q.mean[0], q.cov[0, 0]], [1, 1], rtol=1e-9)


# --- what q is ----------------------------------------------------------------------------------------------


def test_density_and_draws_without_bounds():
    mean, cov = np.array([1.0, -2.0, 0.5]), covariance(3)
    q = laplace_approximation(gaussian(mean, cov), np.zeros(3))
    z = np.random.default_rng(0).normal(size=(5, 3))
    scipy = multivariate_normal(mean, cov)
    assert_allclose(q.logpdf(z), scipy.logpdf(z), rtol=1e-8)
    assert q.logpdf(z[0]).shape == ()
    assert_allclose(q.logpdf(z[0]), scipy.logpdf(z[0]), rtol=1e-8)
    draws = q.sample(np.random.default_rng(1), 40_000)
    assert draws.shape == (40_000, 3)
    # five standard errors of a mean and of a variance
    assert_allclose(draws.mean(axis=0), mean, atol=5 * np.sqrt(np.diag(cov).max() / 40_000))
    assert_allclose(np.cov(draws.T), cov, atol=5 * np.sqrt(2 / 40_000) * np.diag(cov).max())
    assert_array_equal(q.sample(np.random.default_rng(1), 10), q.sample(np.random.default_rng(1), 10))


def test_density_and_draws_with_bounds():
    q = laplace_approximation(log_gamma_density(3.5, 2.0), 1.0, bounds=[(0, None)])
    scipy = lognorm(s=np.sqrt(1 / 3.5), scale=1.75)  # log z is normal about log(a/b) with variance 1/a
    z = np.array([[0.1], [1.0], [4.0], [0.0], [-1.0]])
    assert_allclose(q.logpdf(z), [*scipy.logpdf([0.1, 1.0, 4.0]), -np.inf, -np.inf], rtol=1e-8)
    assert_allclose(q.logpdf(1.0), scipy.logpdf(1.0), rtol=1e-8)
    draws = q.sample(np.random.default_rng(0), 20_000)
    assert (draws > 0).all()
    assert_allclose(np.median(draws), 1.75, rtol=5 * np.sqrt(np.pi / 2 / 20_000 / 3.5))  # five standard errors
    inside = laplace_approximation(log_beta_density(2.5, 1.7), 0.5, bounds=[(0, 1)])
    z = np.linspace(0, 1, 20_001)[:, None]  # the density of q vanishes at both ends: the trapezoid rule is exact
    assert_allclose(np.trapezoid(np.exp(inside.logpdf(z)), z[:, 0]), 1, rtol=1e-8)
    draws = inside.sample(np.random.default_rng(0), 1000)
    assert ((draws > 0) & (draws < 1)).all()


def test_the_approximation_improves_with_the_number_of_rows():
    def error(log_density, exact, bounds):
        return abs(laplace_approximation(log_density, 0.5, bounds=[bounds]).log_normalizer - exact)

    for n in (1, 10, 100):  # a Gamma(3n) posterior, a Beta(2n, 3n): off by O(1/n)
        gammas = [error(log_gamma_density(k, 2.0), gammaln(k) - k * np.log(2), (0, None)) for k in (3 * n, 30 * n)]
        betas = [error(log_beta_density(2 * k, 3 * k), betaln(2 * k, 3 * k), (0, 1)) for k in (n, 10 * n)]
        assert_allclose([gammas[0] / gammas[1], betas[0] / betas[1]], 10, rtol=0.02)  # 1/n² is next


def test_printing():
    q = laplace_approximation(WELL[0], 0.0, modes=2, random_state=0)
    assert repr(q) == "LaplaceApproximation(M=1, modes=2, log Z=1.076)"
    assert repr(q.modes[0]) == "Mode(z=[2.07116], log Z=0.7851, weight=0.747)"


# --- several modes ------------------------------------------------------------------------------------------


def test_draws_and_results_depend_on_the_random_state_only():
    one, two = (laplace_approximation(WELL[0], 0.0, modes=2, random_state=4) for _ in range(2))
    assert_array_equal(one.mean, two.mean)
    assert one.log_normalizer == two.log_normalizer
    rng = laplace_approximation(WELL[0], 0.0, modes=2, random_state=np.random.default_rng(4))
    assert_array_equal(one.mean, rng.mean)


def test_fewer_modes_than_asked_for_are_told():
    q = laplace_approximation(WELL[0], 0.0, modes=4, random_state=0)
    assert len(q.modes) == 2
    assert "only 2 of the 4 modes asked for were found in 41 searches" in q.status
    assert laplace_approximation(WELL[0], 0.0, modes=2, random_state=0).status == "Converged."


def test_of_several_starts_the_heaviest_mode_is_kept():
    q = laplace_approximation(WELL[0], [[-2.0], [2.0], [1.9]])
    assert_allclose(q.mean, WELL[1], rtol=1e-9)
    assert q.status == "Converged. 2 modes were found; the heaviest is kept."


def test_starts_outside_the_support_are_passed_over():
    q = laplace_approximation(lambda z: -0.5 * z[0] ** 2 if abs(z[0]) < 2 else -np.inf, 0.5, modes=2, random_state=0)
    assert_allclose([q.mean[0], q.cov[0, 0]], [0, 1], atol=1e-8)
    assert "only 1 of the 2 modes asked for was found in 21 searches" in q.status


def test_a_saddle_between_two_modes_is_passed_over():
    q = laplace_approximation(lambda z: -((z[0] ** 2 - 4) ** 2) / 8 - z[1] ** 2, [0.0, 1.0], modes=2, random_state=0)
    assert_allclose(sorted(mode.mean[0] for mode in q.modes), [-2, 2], rtol=1e-9)
    assert_allclose(q.mean, 0, atol=1e-8)


def test_a_mode_of_next_to_no_mass():
    def log_density(z):  # the second bump is exp(-1000) as heavy
        return np.logaddexp(-0.5 * (z[0] + 60) ** 2, -1000 - 0.5 * (z[0] - 60) ** 2)

    q = laplace_approximation(log_density, [[-60.5], [60.5]], modes=2, random_state=0)
    assert q.modes[1].weight == 0.0
    assert_allclose(q.logpdf([[-60.0], [60.0]]), np.array([0, -1000]) - 0.5 * LOG_2PI, rtol=1e-9)
    assert (q.sample(np.random.default_rng(0), 100) < 0).all()


def test_modes_of_a_bounded_density():
    def log_density(z):  # two bumps on (0, 1)
        return np.log((np.exp(-0.5 * ((z - 0.2) / 0.03) ** 2) + np.exp(-0.5 * ((z - 0.7) / 0.05) ** 2)).sum())

    q = laplace_approximation(log_density, 0.5, modes=2, bounds=[(0, 1)], random_state=0)
    assert_allclose([mode.mode[0] for mode in q.modes], [0.7, 0.2], atol=0.01)
    assert_allclose(np.exp(q.log_normalizer), 0.08 * np.sqrt(2 * np.pi), rtol=0.02)  # not Gaussian in logit z


# --- no mode ------------------------------------------------------------------------------------------------

NO_MODE = {
    "saddle": (lambda z: -(z[0] ** 2) + z[1] ** 2, [0.0, 0.0], r"saddle: along", [0, 1]),
    "flat coordinate": (lambda z: -(z[0] ** 2), [1.0, 1.0], r"flat at z = .* along z\[1\]", [0, 1]),
    "ridge": (lambda z: -((z[0] - z[1]) ** 2), [1.0, 3.0], r"flat at .* along 0\.71·z\[0\] \+ 0\.71·z\[1\]: ", [1, 1]),
    "constant": (lambda z: 0.0, [0.3], r"flat at", [1]),
    "quartic": (lambda z: -(z[0] ** 4), [1.0], r"flat at", [1]),
    "upwards": (lambda z: -(z[0] ** 2) + z[1] ** 2, [0.5, 1.0], r"still rises at z = .* along z\[1\]", [0, 1]),
    "linear": (lambda z: z[0] - z[1] ** 2, [1.0, 1.0], r"still rises at", [1, 0]),
    "ever flatter": (lambda z: -np.exp(-z[0]), [1.0], r"flat at", [1]),
    "kink": (lambda z: -abs(z[0]), [1.0], r"not smooth|kink", [1]),
    "pole": (lambda z: -0.2 * np.log(z[0]) - z[0], [0.5], r"still rises|not smooth", [1]),
}


@ways
@pytest.mark.parametrize("case", NO_MODE.values(), ids=NO_MODE.keys())
def test_no_mode_is_an_error_that_names_the_direction(case, way):
    log_density, start, message, direction = case
    with pytest.raises(NoModeError, match=message) as caught:
        laplace_approximation(way(log_density), start)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, CrediblyError)
    unit = np.array(direction) / np.linalg.norm(direction)
    assert_allclose(abs(caught.value.direction @ unit), 1, rtol=1e-2)


def test_a_density_that_is_infinite_on_the_way_is_unbounded():
    with pytest.raises(NoModeError, match=r"\+inf at z = .* along z\[0\]: it is unbounded"):
        laplace_approximation(lambda z: 5 * z[0] - 0.5 * z[0] ** 2 if z[0].real < 4 else np.inf, 0.0)


def test_a_point_without_neighbours_has_no_derivatives():
    with pytest.raises(NoModeError, match=r"no finite derivatives at z = .*Start further inside its support"):
        laplace_approximation(lambda z: 0.0 if z[0] == 0 else -np.inf, 0.0)


def test_given_second_derivatives_do_not_hide_a_saddle():
    with pytest.raises(NoModeError, match="saddle") as caught:
        laplace_approximation(
            lambda z: -(z[0] ** 2) + z[1] ** 2,
            [0.0, 0.0],
            grad=lambda z: np.array([-2 * z[0], 2 * z[1]]),
            hess=lambda z: np.diag([-2.0, 2.0]),
        )
    assert_allclose(np.abs(caught.value.direction), [0, 1], atol=1e-8)


def test_a_direction_in_bounded_coordinates_is_named_as_such():
    with pytest.raises(NoModeError, match=r"along -?log z\[1\]"):  # 1/z has no maximum in log z
        laplace_approximation(lambda z: -(z[0] ** 2) - np.log(z[1]), [0.0, 1.0], bounds=[(None, None), (0, None)])


# --- bad input ----------------------------------------------------------------------------------------------


def bowl(z):
    return -0.5 * (z @ z)


BAD = {
    "not a function": ((3.0, [0.0]), {}, "log_density must be a function"),
    "text": ((lambda z: "a", [0.0]), {}, "log_density must return one real number .* returned 'a'"),
    "nothing": ((lambda z: None, [0.0]), {}, "log_density must return one real number .* returned None"),
    "complex": ((lambda z: 1j, [0.0]), {}, "log_density must return one real number .* returned 1j"),
    "an array": ((lambda z: -(z**2), [0.0, 1.0]), {}, r"one real number .* an array of shape \(2,\)"),
    "NaN": ((lambda z: np.nan, [0.0]), {}, "log_density is NaN at the start, z = .* Start where"),
    "outside": ((lambda z: np.log(z[0]), [0.0]), {}, "log_density is -inf at the start"),
    "infinite": ((lambda z: np.inf, [0.0]), {}, "log_density is inf at the start"),
    "start text": ((bowl, "a"), {}, "start must be made of real numbers"),
    "start complex": ((bowl, [1j]), {}, "start must be made of real numbers"),
    "start NaN": ((bowl, [np.nan]), {}, "start must be finite"),
    "start empty": ((bowl, []), {}, r"start must be a number, .* got shape \(0,\)"),
    "start deep": ((bowl, np.zeros((1, 1, 1))), {}, r"got shape \(1, 1, 1\)"),
    "no modes": ((bowl, [0.0]), {"modes": 0}, "modes must be a whole number of at least 1; got 0"),
    "half a mode": ((bowl, [0.0]), {"modes": 1.5}, "modes must be a whole number"),
    "modes true": ((bowl, [0.0]), {"modes": True}, "modes must be a whole number"),
    "too few bounds": ((bowl, [0.0, 1.0]), {"bounds": [(0, 1)]}, "one .lower, upper. pair for each of the 2 .* got 1"),
    "bounds of numbers": ((bowl, [0.0, 1.0]), {"bounds": (0, 1)}, r"pair for each of the 2 .* got \(0, 1\)"),
    "bounds reversed": ((bowl, [0.5]), {"bounds": [(1, 0)]}, r"bounds\[0\] must have lower < upper; got \(1, 0\)"),
    "bounds NaN": ((bowl, [0.5]), {"bounds": [(np.nan, 0)]}, r"bounds\[0\] must have lower < upper"),
    "bounds text": ((bowl, [0.5]), {"bounds": [("a", 0)]}, "a bound must be made of real numbers"),
    "start out of bounds": ((bowl, [2.0]), {"bounds": [(0, 1)]}, r"strictly inside the bounds; got \[2\]"),
    "start on a bound": ((bowl, [0.0]), {"bounds": [(0, 1)]}, "strictly inside the bounds"),
    "random_state": ((bowl, [0.0]), {"random_state": "a"}, "random_state must be a whole number"),
    "grad no function": ((bowl, [0.0]), {"grad": 1}, "grad must be a function"),
    "grad shape": ((bowl, [0.0, 1.0]), {"grad": lambda z: 1.0}, r"grad must return a real array of shape \(2,\)"),
    "grad of minus": ((bowl, [0.0, 1.0]), {"grad": lambda z: z}, "grad contradicts log_density: .* component"),
    "grad nearly": (
        (bowl, [0.0, 1.0]),
        {"grad": lambda z: -z * [1, 1.01]},
        "grad contradicts .* component 1 is .* leave grad out",
    ),
    "grad NaN": ((bowl, [0.0, 1.0]), {"grad": lambda z: z * np.nan}, "grad contradicts .* nan"),
    "hess shape": ((bowl, [0.0, 1.0]), {"hess": lambda z: -z}, r"hess must return a real array of shape \(2, 2\)"),
    "hess of minus": ((bowl, [0.0, 1.0]), {"hess": lambda z: np.eye(2)}, "hess contradicts log_density: "),
    "hess lopsided": (
        (bowl, [0.0, 1.0]),
        {"hess": lambda z: np.array([[-1.0, 0.1], [0.0, -1.0]])},
        "hess must return a symmetric matrix",
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_used_is_told(case):
    positional, named, message = case
    with pytest.raises(InputError, match=message):
        laplace_approximation(*positional, **named)


def test_bad_points_and_generators():
    q = laplace_approximation(bowl, [0.0, 1.0])
    with pytest.raises(InputError, match=r"z must have shape \(2,\) or \(size, 2\); got \(3,\)"):
        q.logpdf([1.0, 2.0, 3.0])
    with pytest.raises(InputError, match=r"rng must be a numpy.random.Generator"):
        q.sample(0, 10)


def test_a_users_own_error_comes_through():
    def broken(z):
        raise KeyError("theta")

    with pytest.raises(KeyError, match="theta"):
        laplace_approximation(broken, [0.0])


@pytest.mark.parametrize("power", [2.5, 3.0])
def test_a_mode_without_curvature_is_flat_even_where_a_step_finds_some(power):
    """The second derivative of |z|^p, p > 2, is zero at the mode; by differences it is that of the step."""
    with pytest.raises(NoModeError, match=r"flat|kink"):
        laplace_approximation(lambda z: -(abs(float(z[0])) ** power), 0.7)


def test_little_curvature_is_curvature():
    q = laplace_approximation(lambda z: -(float(z[0]) ** 4) - 1e-2 * float(z[0]) ** 2, 0.7)
    assert_allclose(1 / q.cov[0, 0], 2e-2, rtol=1e-6)


def test_a_constant_that_hides_the_mode_is_refused():
    with pytest.raises(InputError, match="Leave the constant out"):
        laplace_approximation(lambda z: -0.5 * float(z[0] - 1) ** 2 + 1e15, 0.0)


def test_a_function_that_raises_far_out_is_not_defined_there():
    q = laplace_approximation(lambda z: -math.exp(z[0]) + float(z[0]), -30.0)  # a long step overflows
    assert_allclose(q.mean, 0.0, atol=1e-8)
    with pytest.raises(ZeroDivisionError):  # at the start it is the user's error
        laplace_approximation(lambda z: 1 / 0, 0.0)
