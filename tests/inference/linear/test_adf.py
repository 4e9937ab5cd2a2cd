"""Assumed-density filtering: exact where it can be, the moments of quadrature elsewhere, one row at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal, norm

from credibly.data.rows import MemoryRows
from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.adf import FullCovariance, Spherical, adf
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, threshold_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.numerics.averages import Tilted
from credibly.numerics.linalg import PSD
from credibly.numerics.status import Status
from helpers import UnitGaussian, raw_objective

LOGIT, PROBIT = BernoulliLogit(), BernoulliProbit()
CAUCHY, GUMBEL = threshold_likelihood("cauchy"), threshold_likelihood("gumbel")
NOISY = LabelNoise(LOGIT, 0.1, 0.05)
EVERY = pytest.mark.parametrize("likelihood", [LOGIT, PROBIT, CAUCHY, GUMBEL, NOISY], ids=repr)
FAMILIES = pytest.mark.parametrize("family", [FullCovariance, Spherical])


class GaussianTargets(UnitGaussian):
    """y ~ N(f, noise): every tilted distribution is a Gaussian, and filtering is Bayesian linear regression."""

    def __init__(self, noise=1.0):
        self.noise = noise

    def log_prob(self, y, f):
        return norm.logpdf(y, f, np.sqrt(self.noise))

    def tilted(self, y, m, v):
        gain = v / (v + self.noise)
        return Tilted(norm.logpdf(y, m, np.sqrt(v + self.noise)), m + gain * (y - m), gain * self.noise)


def gaussian(mean, cov):
    return Gaussian.from_mapped_moments(np.asarray(mean, dtype=float), np.asarray(cov), np.eye(len(cov)), "a test")


def covariance(q):
    return q.precision.inverse_root.T @ q.precision.inverse_root


def filtered(likelihood, prior, rows, family=FullCovariance):
    return adf(raw_objective(likelihood, rows, prior), family)


def toy(n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))  # correlated columns
    y = (Z @ np.array([1.0, -2.0, 0.5])[:d] + rng.logistic(size=n) > 0).astype(float)
    root = rng.normal(size=(d, d))
    return Z, y, gaussian(rng.normal(size=d), root @ root.T + 0.3 * np.eye(d))


def reversed_rows(rows):
    return MemoryRows(rows.X[::-1], rows.y[::-1])


# --- the exact case -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("reverse", [False, True])
def test_with_gaussian_targets_it_is_bayesian_linear_regression_in_any_order(noise, reverse):
    Z, _, prior = toy()
    t, offset = np.random.default_rng(1).normal(size=(2, len(Z)))
    order = slice(None, None, -1) if reverse else slice(None)
    result = filtered(GaussianTargets(noise), prior, MemoryRows(Z[order], t[order], offset=offset[order]))
    precision = prior.precision.matrix + Z.T @ Z / noise
    mean = np.linalg.solve(precision, prior.precision.matrix @ prior.mean + Z.T @ (t - offset) / noise)
    # log p(t) = log p(t, w) - log p(w | t) at any w; the n×n marginal covariance would cost four digits
    log_likelihood = norm.logpdf(t, offset + Z @ mean, np.sqrt(noise)).sum()
    log_posterior = (np.linalg.slogdet(precision)[1] - 3 * np.log(2 * np.pi)) / 2
    assert_allclose(result.q.mean, mean, rtol=1e-12)
    assert_allclose(result.q.precision.matrix, precision, rtol=1e-12)
    assert_allclose(covariance(result.q), np.linalg.solve(precision, np.eye(3)), rtol=1e-11)
    assert_allclose(result.log_evidence, log_likelihood + prior.logpdf(mean) - log_posterior, rtol=1e-12)
    assert_allclose(result.log_likelihood, log_likelihood, rtol=1e-12)


def test_the_evidence_of_gaussian_targets_is_their_marginal_density():
    Z, t, prior = toy()
    marginal = multivariate_normal(Z @ prior.mean, np.eye(len(Z)) + Z @ covariance(prior) @ Z.T)
    assert_allclose(filtered(GaussianTargets(), prior, MemoryRows(Z, t)).log_evidence, marginal.logpdf(t), rtol=1e-12)


def test_almost_exact_targets_under_a_wide_prior_have_the_right_covariance():
    """The update as it is printed, Σ - Σφφᵀ Σ (…), loses it: variances fall from 1e8 to 1e-12."""
    rng = np.random.default_rng(3)
    Z, noise = rng.normal(size=(12, 3)), 1e-10
    Z[:, 1] = Z[:, 0] + 1e-2 * Z[:, 1]
    t, prior = Z @ [1.0, 2.0, 3.0], gaussian(np.zeros(3), 1e8 * np.eye(3))
    printed = 1e8 * np.eye(3)
    for z in Z:
        v = z @ printed @ z
        printed = printed - np.outer(printed @ z, printed @ z) / (v + noise)
    q = filtered(GaussianTargets(noise), prior, MemoryRows(Z, t)).q
    exact = 1e-8 * np.eye(3) + Z.T @ Z / noise
    assert_allclose(q.mean, [1.0, 2.0, 3.0], rtol=1e-9)
    # Roots fall by ten powers of ten, so that narrow directions keep six digits of sixteen
    assert_allclose(q.precision.matrix, exact, rtol=1e-5)
    assert np.abs(printed @ exact - np.eye(3)).max() > 1


# --- one row ------------------------------------------------------------------------------------------------


@EVERY
@FAMILIES
@pytest.mark.parametrize(("y", "m", "v"), [(1.0, 0.3, 2.0), (0.0, 1.5, 0.4), (0.0, 2.0, 9.0)])
def test_one_row_in_one_dimension_is_quadrature(likelihood, family, y, m, v):
    z = 0.7
    s, mid = np.sqrt(v), m

    def moment(g):
        def density(w):
            return g(w) * np.exp(likelihood.log_prob(np.array(y), np.array(z * w))) * norm.pdf(w, m, s)

        return quad(density, mid - 12 * s, mid + 12 * s, epsabs=1e-13, epsrel=1e-12, limit=400, points=[0.0])[0]

    mass = moment(lambda w: 1.0)
    mean = moment(lambda w: w) / mass
    var = moment(lambda w: (w - mean) ** 2) / mass
    result = filtered(likelihood, gaussian([m], [[v]]), MemoryRows(np.array([[z]]), np.array([y])), family)
    assert_allclose(result.log_evidence, np.log(mass), rtol=1e-9)
    assert_allclose(result.q.mean, [mean], rtol=1e-9)
    assert_allclose(covariance(result.q), [[var]], rtol=1e-8)


@EVERY
def test_one_row_in_two_dimensions_has_the_moments_of_the_tilted_distribution(likelihood):
    prior, z = gaussian([0.5, -1.0], [[2.0, 0.6], [0.6, 1.0]]), np.array([1.0, -0.5])
    # Trapezoids in white coordinates: exponentially accurate for what is smooth and falls to nothing at the ends
    grid = np.linspace(-9, 9, 721)
    white = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    w = prior.mean + white @ prior.precision.inverse_root
    log_density = likelihood.log_prob(np.array(0.0), w @ z) + norm.logpdf(white).sum(axis=1)
    share = np.exp(log_density) * (grid[1] - grid[0]) ** 2
    mean = share @ w / share.sum()
    cov = (share[:, None] * (w - mean)).T @ (w - mean) / share.sum()
    rows = MemoryRows(z[None], np.zeros(1))
    full = filtered(likelihood, prior, rows)
    assert_allclose(full.log_evidence, np.log(share.sum()), rtol=1e-9)
    assert_allclose(full.q.mean, mean, rtol=1e-8)
    assert_allclose(covariance(full.q), cov, rtol=1e-8)


@EVERY
def test_the_spherical_match_of_one_row_is_the_trace_of_the_full_one(likelihood):
    prior, rows = gaussian([0.5, -1.0, 0.2], 1.7 * np.eye(3)), MemoryRows(np.array([[1.0, -0.5, 2.0]]), np.zeros(1))
    full, ball = (filtered(likelihood, prior, rows, family) for family in (FullCovariance, Spherical))
    assert_allclose(ball.q.mean, full.q.mean, rtol=1e-12)
    assert_allclose(covariance(ball.q), np.eye(3) * np.trace(covariance(full.q)) / 3, rtol=1e-12)
    assert_allclose(ball.log_evidence, full.log_evidence, rtol=1e-13)


# --- many rows ----------------------------------------------------------------------------------------------


def by_the_book(Z, y, m, S, spherical):
    """Probit ADF with covariances and RW06 eq. 3.82 to 3.85, as printed."""
    log_evidence = 0.0
    for z, s in zip(Z, 2 * y - 1, strict=True):
        m_f, v_f = z @ m, z @ S @ z
        x = s * m_f / np.sqrt(1 + v_f)
        hazard = norm.pdf(x) / norm.cdf(x)
        mean = m_f + s * v_f * hazard / np.sqrt(1 + v_f)
        var = v_f - v_f**2 * hazard * (x + hazard) / (1 + v_f)
        log_evidence += norm.logcdf(x)
        m = m + S @ z * (mean - m_f) / v_f
        S = S - np.outer(S @ z, S @ z) * (v_f - var) / v_f**2
        if spherical:
            S = np.trace(S) / len(m) * np.eye(len(m))
    return m, S, log_evidence


@FAMILIES
def test_the_recursion_is_the_printed_one(family):
    Z, y, prior = toy(n=60)
    start = family.project(prior)
    m, S, log_evidence = by_the_book(Z, y, prior.mean, covariance(start), family is Spherical)
    result = filtered(PROBIT, prior, MemoryRows(Z, y), family)
    assert_allclose(result.q.mean, m, rtol=1e-11)
    assert_allclose(covariance(result.q), S, rtol=1e-11, atol=1e-14)
    assert_allclose(result.log_evidence, log_evidence, rtol=1e-12)
    assert_allclose(result.log_likelihood, PROBIT.log_prob(y, Z @ m).sum(), rtol=1e-11)
    assert result.status is Status.CONVERGED and result.steps == 1


def test_the_spherical_prior_is_the_nearest_one():
    _, _, prior = toy()
    nearest = Spherical.project(prior)
    cov = covariance(prior)

    def divergence(v):
        return np.trace(cov) / v + len(cov) * np.log(v)  # 2 KL(prior ‖ N(m, vI)) up to a constant

    (v, *_) = np.diag(covariance(nearest))
    assert_array_equal(nearest.mean, prior.mean)
    assert_allclose(v, np.trace(cov) / 3, rtol=1e-14)
    assert divergence(v) < min(divergence(1.001 * v), divergence(0.999 * v))
    assert FullCovariance.project(prior) is prior


@FAMILIES
@pytest.mark.parametrize("likelihood", [LOGIT, PROBIT])
def test_the_order_of_the_rows_matters(likelihood, family):
    Z, y, prior = toy()
    rows = MemoryRows(Z, y)
    there, back = (filtered(likelihood, prior, order, family) for order in (rows, reversed_rows(rows)))
    assert abs(there.log_evidence - back.log_evidence) > 1e-4
    assert np.abs(there.q.mean - back.q.mean).max() > 1e-4


@FAMILIES
@EVERY
def test_two_parts_one_after_the_other_are_the_whole(likelihood, family):
    Z, y, prior = toy()
    whole = filtered(likelihood, prior, MemoryRows(Z, y), family)
    first = filtered(likelihood, prior, MemoryRows(Z[:17], y[:17]), family)
    second = filtered(likelihood, first.q, MemoryRows(Z[17:], y[17:]), family)
    assert_allclose(second.q.mean, whole.q.mean, rtol=1e-11)
    assert_allclose(second.q.precision.matrix, whole.q.precision.matrix, rtol=1e-10, atol=1e-12)
    assert_allclose(first.log_evidence + second.log_evidence, whole.log_evidence, rtol=1e-12)


@FAMILIES
def test_how_rows_are_cut_and_held_does_not_matter(family):
    Z, y, prior = toy()
    Z[np.abs(Z) < 0.4] = 0.0
    whole = filtered(LOGIT, prior, MemoryRows(Z, y), family)
    for rows in (MemoryRows(Z, y, block_rows=7, threads=3), MemoryRows(csr_array(Z), y), MemoryRows(Z[:, ::-1], y)):
        turned = rows.X is not Z and not isinstance(rows.X, csr_array)
        start = gaussian(prior.mean[::-1], covariance(prior)[::-1, ::-1]) if turned else prior
        again = filtered(LOGIT, start, rows, family)
        assert_allclose(again.log_evidence, whole.log_evidence, rtol=1e-12)
        assert_allclose(again.log_likelihood, whole.log_likelihood, rtol=1e-11)
        mean = again.q.mean[::-1] if turned else again.q.mean
        assert_allclose(mean, whole.q.mean, rtol=1e-11)


def test_linear_maps_of_the_weights_change_nothing_in_the_full_family():
    Z, y, prior = toy()
    A = np.random.default_rng(5).normal(size=(3, 3))  # u = A w, so that Z w = (Z A⁻¹) u
    there = filtered(LOGIT, prior, MemoryRows(Z, y))
    mapped = filtered(
        LOGIT,
        gaussian(A @ prior.mean, A @ covariance(prior) @ A.T),
        MemoryRows(np.linalg.solve(A.T, Z.T).T, y),
    )
    assert_allclose(mapped.log_evidence, there.log_evidence, rtol=1e-11)
    assert_allclose(mapped.q.mean, A @ there.q.mean, rtol=1e-9)
    assert_allclose(covariance(mapped.q), A @ covariance(there.q) @ A.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("likelihood", [LOGIT, PROBIT], ids=repr)
def test_the_error_fades_as_the_prior_tightens(likelihood):
    z, y = np.array([0.3, -0.8, 1.1, 0.4, -0.2]), np.array([1.0, 0.0, 1.0, 0.0, 0.0])

    def errors(variance):
        def moment(g):
            def joint(w):
                return g(w) * np.exp(likelihood.log_prob(y, z * w).sum()) * norm.pdf(w, 0, np.sqrt(variance))

            return quad(joint, -12, 12, epsabs=1e-15, epsrel=1e-12, limit=200)[0]

        mass = moment(lambda w: 1.0)
        result = filtered(likelihood, gaussian([0.0], [[variance]]), MemoryRows(z[:, None], y))
        mean_error = abs(result.q.mean[0] - moment(lambda w: w) / mass)
        return abs(result.log_evidence - np.log(mass)), mean_error / np.sqrt(variance)

    evidence, mean = np.transpose([errors(variance) for variance in (1.0, 0.25, 1 / 16, 1 / 64)])
    assert evidence[0] < 1e-3 and mean[0] < 1e-2  # in nats, and in prior standard deviations
    assert (evidence[1:] < evidence[:-1] / 4).all() and (mean[1:] < mean[:-1] / 4).all()


# --- odd rows -----------------------------------------------------------------------------------------------


@FAMILIES
@EVERY
@pytest.mark.parametrize("size", [0.0, 1e-170])
def test_a_row_of_zeros_is_predicted_and_teaches_nothing(likelihood, family, size):
    _, _, prior = toy()
    start = family.project(prior)
    result = filtered(likelihood, prior, MemoryRows(np.full((1, 3), size), np.ones(1), offset=np.full(1, 0.5)), family)
    assert_allclose(result.log_evidence, likelihood.log_prob(np.ones(1), np.full(1, 0.5))[0], rtol=1e-15)
    assert_array_equal(result.q.mean, prior.mean)
    assert_allclose(result.q.precision.matrix, start.precision.matrix, rtol=1e-12, atol=1e-13)


@FAMILIES
def test_rows_of_weight_zero_are_left_out(family):
    Z, y, prior = toy()
    counts = np.arange(len(y)) % 3 > 0
    some = filtered(LOGIT, prior, MemoryRows(Z[counts], y[counts]), family)
    all_rows = filtered(LOGIT, prior, MemoryRows(Z, y, counts.astype(float)), family)
    assert_array_equal(all_rows.q.mean, some.q.mean)
    assert (all_rows.log_evidence, all_rows.log_likelihood) == (some.log_evidence, some.log_likelihood)


@FAMILIES
@EVERY
@pytest.mark.parametrize("size", [1e4, 1e8])
def test_huge_scores_on_either_side_leave_finite_numbers(likelihood, family, size):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(30, 2)) * size
    y = (rng.random(30) < 0.5).astype(float)  # about half of the rows contradict the others
    result = filtered(likelihood, gaussian(np.zeros(2), np.eye(2)), MemoryRows(Z, y), family)
    assert np.isfinite(result.q.mean).all() and np.isfinite(result.log_evidence)
    assert (np.linalg.eigvalsh(covariance(result.q)) > 0).all()


def test_under_a_heavy_tailed_threshold_a_surprise_widens_the_belief():
    """Not log-concave: v̂ > v; the quadrature above says that the number is right."""
    rows = MemoryRows(np.array([[1.0, 1.0]]), np.zeros(1))
    prior = gaussian([4.0, 4.0], 4.0 * np.eye(2))
    for family in (FullCovariance, Spherical):
        after = filtered(CAUCHY, prior, rows, family).q
        assert after.scores(np.ones((1, 2))).variance[0] > 8.0
    assert_allclose(filtered(CAUCHY, prior, rows).q.scores(np.array([[1.0, -1.0]])).variance, [8.0], rtol=1e-12)


def test_a_thousand_rows_of_almost_collinear_columns_keep_the_covariance_positive():
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(1000, 1)) + 1e-6 * rng.normal(size=(1000, 4))
    y = (Z[:, 0] + rng.logistic(size=1000) > 0).astype(float)
    q = filtered(PROBIT, gaussian(np.zeros(4), 1e6 * np.eye(4)), MemoryRows(Z, y)).q
    assert (np.diag(q.precision.factor) > 0).all() and np.isfinite(q.mean).all()
    along = q.scores(np.full((1, 4), 0.25)).variance[0]
    across = q.scores(np.array([[1.0, -1.0, 0.0, 0.0]])).variance[0]
    assert along < 0.02 and across > 1e4  # a thousand rows look along, almost none across


def test_moments_that_are_no_numbers_are_an_error_not_a_belief():
    class Broken(GaussianTargets):
        def tilted(self, y, m, v):
            return super().tilted(y, m, v)._replace(var=np.asarray(-1e-9))

    with pytest.raises(NotPositiveDefinite, match=r"label 1 .* variance -1e-09"):
        filtered(Broken(), Gaussian(np.zeros(1), PSD(np.eye(1))), MemoryRows(np.ones((1, 1)), np.ones(1)))
