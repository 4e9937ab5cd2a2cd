"""Chains and bridges on densities with known moments and normalising constants; tolerances are five standard errors."""

from dataclasses import replace

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma, gammaln, log_expit, polygamma
from scipy.stats import truncnorm

from credibly.errors import InputError
from credibly.numerics.sampling import (
    CHAIN_SETTINGS,
    ChainSettings,
    bridge_log_normalizer,
    convergence,
    effective_size,
    hamiltonian_chains,
)

LOG_2PI = np.log(2 * np.pi)


class Gaussian:
    """exp of minus half a quadratic form; log Z is that of its determinant."""

    def __init__(self, mean, cov):
        self.mean, self.cov = np.asarray(mean, float), np.asarray(cov, float)
        self.precision = np.linalg.solve(self.cov, np.eye(len(self.cov)))
        self.log_z = 0.5 * (len(self.mean) * LOG_2PI + np.linalg.slogdet(self.cov)[1])
        self.var = np.diag(self.cov)

    def __call__(self, z):
        pulled = (z - self.mean) @ self.precision
        return -0.5 * ((z - self.mean) * pulled).sum(axis=1), -pulled


class LogGamma:
    """Coordinates μ + σz = log of a gamma variable of some shape: skewed, with a Gaussian and an exponential tail."""

    def __init__(self, shape, dim):
        self.shape, self.mu, self.sigma = shape, np.log(shape), shape**-0.5
        self.mean = np.full(dim, (digamma(shape) - self.mu) / self.sigma)
        self.var = np.full(dim, polygamma(1, shape) / self.sigma**2)
        self.log_z = dim * (gammaln(shape) - np.log(self.sigma))

    def __call__(self, z):
        x = self.mu + self.sigma * z
        return (self.shape * x - np.exp(x)).sum(axis=1), self.sigma * (self.shape - np.exp(x))


class Banana:
    """z₁ ~ N(0, 1), z₂ | z₁ ~ N((z₁² - 1)/2, ½²)."""

    mean, var = np.zeros(2), np.array([1.0, 0.75])
    log_z = LOG_2PI + np.log(0.5)

    def __call__(self, z):
        rest = (z[:, 1] - 0.5 * (z[:, 0] ** 2 - 1)) / 0.25
        value = -0.5 * z[:, 0] ** 2 - 0.5 * 0.25 * rest**2
        return value, np.stack([-z[:, 0] + rest * z[:, 0], -rest], axis=1)


class Modes:
    """½N(-a, I) + ½N(a, I)."""

    def __init__(self, *a):
        self.a = np.array(a)

    def __call__(self, z):
        p = np.exp(log_expit(2 * z @ self.a))
        near = -0.5 * ((z - self.a) ** 2).sum(axis=1)
        return near - log_expit(2 * z @ self.a), -z + (2 * p - 1)[:, None] * self.a


def log_sigmoid(f):
    return np.minimum(f, 0.0) - np.log1p(np.exp(-np.abs(f)))


def logistic(X, y, scale):
    """Log posterior of a logistic regression under N(0, scale²), whitened by its curvature at the mode."""
    signed = np.where(y == 1, 1.0, -1.0)[:, None] * X
    mode = np.zeros(X.shape[1])
    for _ in range(50):
        p = np.exp(log_expit(-signed @ mode))
        H = (X * (p * (1 - p))[:, None]).T @ X + np.eye(len(mode)) / scale**2
        mode = mode + np.linalg.solve(H, signed.T @ p - mode / scale**2)
    C = np.linalg.solve(np.linalg.cholesky(H).T, np.eye(len(H)))
    log_factor = np.log(np.abs(np.diag(C))).sum() - 0.5 * len(mode) * np.log(2 * np.pi * scale**2)

    def density(z):
        w = mode + z @ C.T
        log_p = log_sigmoid(w @ signed.T)
        value = log_p.sum(axis=1) - 0.5 * (w**2).sum(axis=1) / scale**2 + log_factor
        return value, (-np.expm1(log_p) @ signed - w / scale**2) @ C

    return density


def correlated(dim, seed=0):
    """A covariance whose standard deviations go from 1/3 to 3, in directions that are no coordinates."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))[0]
    return (Q * np.geomspace(1 / 9, 9, dim)) @ Q.T


def mean_and_error(h):
    """Mean over chains (C, S), and its standard error."""
    n = h.shape[1] // 2
    return h.mean(), h.std() / np.sqrt(effective_size(np.concatenate([h[:, :n], h[:, -n:]])))


def run(density, dim, seed=0, settings=CHAIN_SETTINGS, **kwargs):
    rng = np.random.default_rng(seed)
    return hamiltonian_chains(rng, density, dim, settings, **kwargs), rng


# --- what is drawn ------------------------------------------------------------------------------------------

KNOWN = [
    pytest.param(Gaussian(np.zeros(4), np.eye(4)), 4, id="white"),
    pytest.param(Gaussian(np.arange(6.0), correlated(6)), 6, id="whitened badly"),
    pytest.param(LogGamma(1.0, 3), 3, id="very skewed"),
    pytest.param(LogGamma(5.0, 40), 40, id="skewed, many"),
    pytest.param(Banana(), 2, id="banana"),
]


@pytest.mark.parametrize(("density", "dim"), KNOWN)
def test_moments_and_normalizer_are_those_of_the_density(density, dim):
    chains, rng = run(density, dim)
    assert chains.converged
    assert (chains.rhat < 1.01).all() and (np.minimum(chains.ess_bulk, chains.ess_tail) >= 400).all()
    for j in range(dim):
        mean, error = mean_and_error(chains.points[:, :, j])
        assert abs(mean - density.mean[j]) < 5 * error
        var, error = mean_and_error((chains.points[:, :, j] - density.mean[j]) ** 2)
        assert abs(var - density.var[j]) < 5 * error
    assert_allclose(chains.log_density[3], density(chains.points[3])[0], rtol=1e-12, atol=1e-10)
    log_z, se = bridge_log_normalizer(rng, density, chains)
    assert abs(log_z - density.log_z) < 5 * se
    assert se < 0.02


@pytest.mark.slow
def test_errors_of_means_are_as_the_effective_sample_size_says():
    """Over seeds, squared errors in units of their standard errors are chi-square: mean 1, variance 2."""
    density, seeds = LogGamma(2.0, 3), range(40)
    settings = ChainSettings(chains=16, first_draws=50)
    squares = []
    for seed in seeds:
        points = run(density, 3, seed, settings)[0].points
        for j in range(3):
            mean, error = mean_and_error(points[:, :, j])
            squares.append(((mean - density.mean[j]) / error) ** 2)
    assert abs(np.mean(squares) - 1) < 5 * np.sqrt(2 / len(squares))


@pytest.mark.slow
def test_errors_of_normalizers_are_as_their_standard_error_says():
    density, seeds = LogGamma(2.0, 3), range(40)
    settings, squares = ChainSettings(chains=16, first_draws=50), []
    for seed in seeds:
        chains, rng = run(density, 3, seed, settings)
        log_z, se = bridge_log_normalizer(rng, density, chains)
        squares.append(((log_z - density.log_z) / se) ** 2)
    assert abs(np.mean(squares) - 1) < 5 * np.sqrt(2 / len(squares))


def test_the_evidence_of_a_separated_logistic_regression_is_that_of_a_grid():
    X = np.array([[-2.0, 1.0], [-1.0, 1.0], [-0.5, 1.0], [0.6, 1.0], [1.5, 1.0], [3.0, 1.0]])
    density = logistic(X, np.array([0, 0, 0, 1, 1, 1]), scale=2.5)
    chains, rng = run(density, 2)
    axis = np.linspace(-25, 25, 1001)  # the trapezoid rule is exact to rounding for what is smooth and vanishes outside
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    weight = np.exp(density(grid)[0])
    z = weight.sum() * (axis[1] - axis[0]) ** 2
    log_z, se = bridge_log_normalizer(rng, density, chains)
    assert abs(log_z - np.log(z)) < 5 * se
    assert se < 0.02
    for j in range(2):
        mean, error = mean_and_error(chains.points[:, :, j])
        assert abs(mean - weight @ grid[:, j] / weight.sum()) < 5 * error


def test_the_evidence_of_many_weights_is_the_same_by_the_chain_rule():
    """Columns that no row tells anything about leave the evidence alone, whatever their number: here 80 of 100."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 20))
    y = (X[:, 0] + rng.logistic(size=300) > 0).astype(int)
    padded = np.hstack([X, np.zeros((300, 80))])
    results = []
    for columns in (X, padded):
        density = logistic(columns, y, 1.0)
        chains, rng = run(density, columns.shape[1])
        assert chains.converged
        results.append(bridge_log_normalizer(rng, density, chains))
    assert abs(results[0].value - results[1].value) < 5 * np.hypot(results[0].se, results[1].se)
    assert max(results[0].se, results[1].se) < 0.05


# --- when draws are enough ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("chains", "draws", "memory"), [(4, 100, 0.5), (64, 50, 0.9), (8, 10, -0.5), (2, 8, 0.0)])
def test_convergence_is_that_of_arviz_stats(chains, draws, memory):
    """Skewed draws that remember, a fifth of them repeated as after rejections."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((chains, draws, 5))
    for t in range(1, draws):
        x[:, t] = memory * x[:, t - 1] + np.sqrt(1 - memory**2) * x[:, t]
        repeated = rng.random(chains) < 0.2
        x[repeated, t] = x[repeated, t - 1]
    x = np.exp(x)
    axes = {"chain_axis": 0, "draw_axis": 1}
    found = convergence(x)
    assert_allclose(found.rhat, array_stats.rhat(x, **axes), rtol=1e-12)
    assert_allclose(found.ess_bulk, array_stats.ess(x, method="bulk", **axes), rtol=1e-12)
    assert_allclose(found.ess_tail, array_stats.ess(x, method="tail", prob=0.05, **axes), rtol=1e-12)


def test_a_coordinate_that_never_moves_is_no_convergence():
    assert np.isnan(np.array(convergence(np.ones((4, 20, 1))))).all()


def test_two_far_modes_are_not_taken_for_one():
    chains, _ = run(Modes(8.0, 0.0), 2, settings=replace(CHAIN_SETTINGS, max_passes=3000))
    assert not chains.converged
    assert chains.rhat[0] > 1.1
    assert chains.passes <= 3000


def test_two_near_modes_are_both_visited():
    chains, _ = run(Modes(1.5, 0.0), 2)
    assert chains.converged
    share, error = mean_and_error((chains.points[:, :, 0] > 0).astype(float))
    assert abs(share - 0.5) < 5 * error


def test_a_funnel_is_either_drawn_right_or_said_not_to_be():
    """v ~ N(0, 1.5²), five x ~ N(0, eᵛ): the neck asks for other steps than the mouth."""

    def funnel(z):
        v, x = z[:, :1], z[:, 1:]
        shrunk = x * np.exp(-v)
        value = -0.5 * v[:, 0] ** 2 / 2.25 - 0.5 * (x * shrunk).sum(axis=1) - 2.5 * v[:, 0]
        return value, np.hstack([-v / 2.25 + 0.5 * (x * shrunk).sum(axis=1, keepdims=True) - 2.5, -shrunk])

    chains, _ = run(funnel, 6)
    mean, error = mean_and_error(chains.points[:, :, 0])
    assert not chains.converged or abs(mean) < 5 * error


def test_more_draws_can_be_asked_for():
    chains, _ = run(Gaussian(np.zeros(2), np.eye(2)), 2, draws=20_000)
    assert chains.converged
    assert chains.points.shape[0] * chains.points.shape[1] >= 20_000


def test_a_budget_that_runs_out_is_told():
    density = Gaussian(np.zeros(2), np.eye(2))
    chains, _ = run(density, 2, settings=replace(CHAIN_SETTINGS, max_passes=500), draws=100_000)
    assert not chains.converged
    assert 400 < chains.passes <= 500
    assert chains.points.shape[1] == chains.log_density.shape[1] < 100_000 / 64
    with pytest.raises(InputError, match="max_passes=20 ran out in warm-up"):
        run(density, 2, settings=replace(CHAIN_SETTINGS, max_passes=20))


# --- where there is no density, and other ends --------------------------------------------------------------


def test_trajectories_that_leave_the_domain_are_rejected_and_counted():
    """N(0, 1) above -½, whose logarithm is NaN below: chains start inside, none leaves, moments are right."""

    def half(z):
        value = np.where(z[:, 0] > -0.5, -0.5 * z[:, 0] ** 2, np.nan)
        return value, np.where(z > -0.5, -z, np.nan)

    chains, rng = run(half, 1)
    assert chains.converged
    assert chains.exits > 0
    assert chains.points.min() > -0.5
    assert np.isfinite(chains.log_density).all()
    known = truncnorm(-0.5, np.inf)
    mean, error = mean_and_error(chains.points[:, :, 0])
    assert abs(mean - known.mean()) < 5 * error
    log_z, se = bridge_log_normalizer(rng, half, chains)
    assert abs(log_z - 0.5 * LOG_2PI - np.log(1 - 0.3085375387259869)) < 5 * se


def test_lost_energy_is_a_rejection():
    """A wall of 10⁴ nats, finite and flat: steps across it are rejected without a warning, and counted."""

    def walled(z):
        return -0.5 * z[:, 0] ** 2 - np.where(np.abs(z[:, 0]) > 2.0, 1e4, 0.0), -z

    settings = replace(CHAIN_SETTINGS, spread=0.5)
    chains, _ = run(walled, 1, settings=settings)
    assert chains.divergences > 0
    assert chains.exits == 0
    assert np.abs(chains.points).max() <= 2.0
    var, error = mean_and_error(chains.points[:, :, 0] ** 2)
    assert abs(var - truncnorm(-2, 2).var()) < 5 * error


@pytest.mark.parametrize("bad", [np.nan, -np.inf, np.inf])
def test_chains_that_cannot_start_say_so(bad):
    with pytest.raises(InputError, match="64 of 64 chains cannot start"):
        run(lambda z: (np.full(len(z), bad), np.zeros_like(z)), 2)
    with pytest.raises(InputError, match="gradient is not finite"):
        run(lambda z: (np.zeros(len(z)), np.full_like(z, bad)), 2)


def test_one_seed_one_answer():
    density = LogGamma(2.0, 3)
    (one, rng), (two, again), (other, _) = run(density, 3, 7), run(density, 3, 7), run(density, 3, 8)
    assert_array_equal(one.points, two.points)
    assert bridge_log_normalizer(rng, density, one) == bridge_log_normalizer(again, density, two)
    assert not np.array_equal(one.points, other.points)


def test_every_pass_is_reported_and_an_interrupt_passes_through():
    seen = []
    chains, _ = run(Gaussian(np.zeros(2), np.eye(2)), 2, report=seen.append)
    assert seen == list(range(1, chains.passes + 1))

    def interrupt(passes):
        if passes == 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Gaussian(np.zeros(2), np.eye(2)), 2, report=interrupt)
