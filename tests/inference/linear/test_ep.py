"""Expectation propagation over weights: exact where it can be, function space's elsewhere, in any order of rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm

from credibly.data.rows import MemoryRows
from credibly.inference.ep import expectation_propagation
from credibly.inference.gaussian import Gaussian
from credibly.inference.latent_laplace import Latents
from credibly.inference.linear.ep import WeightProblem, WeightSites, ep
from credibly.inference.linear.laplace import laplace
from credibly.inference.sites import Sites
from credibly.model.likelihoods import NormalMixture, threshold_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.model.priors import StudentT
from credibly.numerics.averages import Tilted
from credibly.numerics.status import CONTROLS, Status
from helpers import UnitGaussian, raw_objective

LOGIT, PROBIT, CAUCHY = (threshold_likelihood(name) for name in ("logit", "probit", "cauchy"))
MIXTURE = NormalMixture(weights=(0.3, 0.7), means=(-1.0, 0.5), scales=(0.6, 1.4))
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
# Sweeps end when no score would move by 1e-9 of its deviation; n rows that see the same weights move it n times that.
SETTLED = 1e-7


class ClosedFormGaussian(UnitGaussian):
    """y ~ N(f, 1), with tilted moments in closed form."""

    def tilted(self, y, m, v):
        return Tilted(norm.logpdf(y, m, np.sqrt(v + 1.0)), m + v / (v + 1.0) * (y - m), v / (v + 1.0))


def gaussian(mean, cov):
    return Gaussian.from_mapped_moments(np.asarray(mean, dtype=float), np.asarray(cov), np.eye(len(cov)), "a test")


def covariance(q):
    return q.precision.inverse_root.T @ q.precision.inverse_root


def toy(n=30, d=3, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1))
    y = (Z @ np.array([1.0, -2.0, 0.5])[:d] + rng.logistic(size=n) > 0).astype(float)
    root = rng.normal(size=(d, d))
    return Z, y, root @ root.T + 0.5 * np.eye(d)


def propagated(likelihood, prior, Z, y, counts=None, *, near=None, controls=CONTROLS, **rows):
    return ep(raw_objective(likelihood, MemoryRows(Z, y, counts, **rows), prior), near, controls)


def first_state(likelihood, prior, rows):
    n = rows.n_rows
    problem = WeightProblem(raw_objective(likelihood, rows, prior))
    return WeightSites.of(problem, Sites(np.zeros(n), np.zeros(n)))


def same(a, b, tol=SETTLED):
    assert_allclose(a.log_evidence, b.log_evidence, rtol=tol)
    assert_allclose(a.q.mean, b.q.mean, rtol=tol, atol=tol)
    assert_allclose(covariance(a.q), covariance(b.q), rtol=tol, atol=tol)


# --- exact cases --------------------------------------------------------------------------------------------


def test_one_row_of_the_probit_is_in_closed_form():
    """RW06 eq. 3.82 to 3.85, and what one score says of all weights."""
    z, m, S = np.array([1.0, -2.0]), np.array([0.3, 0.4]), np.array([[2.0, 0.5], [0.5, 1.0]])
    result = propagated(PROBIT, gaussian(m, S), z[None], np.array([0.0]))
    v = z @ S @ z
    x = -(z @ m) / np.sqrt(1 + v)
    hazard = norm.pdf(x) / norm.cdf(x)
    gain = S @ z / np.sqrt(1 + v)
    assert_allclose(result.log_evidence, log_ndtr(x), rtol=1e-12)
    assert_allclose(result.q.mean, m - gain * hazard, rtol=1e-10)
    assert_allclose(covariance(result.q), S - np.outer(gain, gain) * hazard * (x + hazard), rtol=1e-10)
    assert result.status is Status.CONVERGED


@EVERY
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_row_in_one_dimension_is_quadrature(likelihood, label):
    z, m, v = 0.7, 0.4, 2.0

    def moment(g):
        def density(w):
            return g(w) * np.exp(likelihood.log_prob(np.array(label), np.array(z * w))) * norm.pdf(w, m, np.sqrt(v))

        return quad(density, m - 17, m + 17, epsabs=1e-13, epsrel=1e-12, limit=400, points=[0.0])[0]

    mass = moment(lambda w: 1.0)
    mean = moment(lambda w: w) / mass
    result = propagated(likelihood, gaussian([m], [[v]]), np.array([[z]]), np.array([label]))
    assert_allclose(result.log_evidence, np.log(mass), rtol=1e-9)
    assert_allclose(result.q.mean, [mean], rtol=1e-8)
    assert_allclose(covariance(result.q), [[moment(lambda w: (w - mean) ** 2) / mass]], rtol=1e-8)


def test_with_gaussian_targets_it_is_bayesian_linear_regression():
    Z, _, S = toy()
    t, m = np.random.default_rng(1).normal(size=30), np.array([0.5, -1.0, 0.2])
    result = propagated(ClosedFormGaussian(), gaussian(m, S), Z, t)
    precision = np.linalg.solve(S, np.eye(3)) + Z.T @ Z
    assert_allclose(result.q.mean, np.linalg.solve(precision, np.linalg.solve(S, m) + Z.T @ t), rtol=1e-10)
    assert_allclose(result.q.precision.matrix, precision, rtol=1e-10)
    marginal = multivariate_normal(Z @ m, np.eye(30) + Z @ S @ Z.T)
    assert_allclose(result.log_evidence, marginal.logpdf(t), rtol=1e-10)


@EVERY
def test_orthogonal_rows_under_a_spherical_prior_are_exact(likelihood):
    """Every row then sees a weight of its own: the posterior is a product, and so is the evidence."""
    y, scale = np.array([1.0, 0.0, 1.0, 0.0]), np.array([0.5, 1.0, 2.0, 0.3])
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    m = np.array([0.3, -0.2, 0.5, 1.0])
    result = propagated(likelihood, gaussian(m, 1.7 * np.eye(4)), scale[:, None] * basis, y)
    own = likelihood.tilted(y, scale * (basis @ m), 1.7 * scale**2)
    assert_allclose(result.log_evidence, own.log_mass.sum(), rtol=1e-9)
    mean, variance = result.q.scores(scale[:, None] * basis)
    assert_allclose(mean, own.mean, rtol=1e-8)
    assert_allclose(variance, own.var, rtol=1e-8)
    if likelihood is PROBIT:
        z = (2 * y - 1) * scale * (basis @ m) / np.sqrt(1 + 1.7 * scale**2)
        assert_allclose(result.log_evidence, log_ndtr(z).sum(), rtol=1e-10)


# --- two roads ----------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("n", [2, 30])  # fewer rows than weights, and more
def test_the_linear_kernel_is_the_weight_space_model(likelihood, n):
    Z, y, S = toy(n)
    weights = propagated(likelihood, gaussian(np.zeros(3), S), Z, y)
    latents = expectation_propagation(Latents(Z @ S @ Z.T, y, likelihood))
    assert weights.status.good and latents.status.good
    assert_allclose(weights.log_evidence, latents.log_evidence, rtol=1e-8)
    mean, variance = weights.q.scores(Z)
    assert_allclose(mean, latents.mean, rtol=SETTLED, atol=SETTLED)
    assert_allclose(variance, latents.variance, rtol=SETTLED)
    assert_allclose(weights.log_likelihood, likelihood.log_prob(y, mean).sum(), rtol=1e-10)


def by_the_book(Z, y, m, S, sweeps=500):
    """Probit EP over weights, one row at a time, with covariances and RW06 eq. 3.56, 3.58, 3.59 as printed."""
    n = len(y)
    tau, nu = np.zeros(n), np.zeros(n)
    prior = np.linalg.solve(S, np.eye(len(m)))

    def made():
        precision = prior + (Z.T * tau) @ Z
        return np.linalg.solve(precision, np.eye(len(m))), precision

    for _ in range(sweeps):
        before = tau.copy()
        for i, (z, s) in enumerate(zip(Z, 2 * y - 1, strict=True)):
            cov, _ = made()
            mean = cov @ (prior @ m + Z.T @ nu)
            v, f = z @ cov @ z, z @ mean
            tau_c, nu_c = 1 / v - tau[i], f / v - nu[i]
            mc, vc = nu_c / tau_c, 1 / tau_c
            x = s * mc / np.sqrt(1 + vc)
            hazard = norm.pdf(x) / norm.cdf(x)
            m_hat = mc + s * vc * hazard / np.sqrt(1 + vc)
            v_hat = vc - vc**2 * hazard / (1 + vc) * (x + hazard)
            tau[i], nu[i] = 1 / v_hat - tau_c, m_hat / v_hat - nu_c
        if np.abs(tau - before).max() < 1e-15:
            break
    cov, _ = made()
    mean = cov @ (prior @ m + Z.T @ nu)
    v, f = np.einsum("ij,jk,ik->i", Z, cov, Z), Z @ mean
    tau_c, nu_c = 1 / v - tau, f / v - nu
    mc, vc, ms = nu_c / tau_c, 1 / tau_c, nu / tau
    log_site = log_ndtr((2 * y - 1) * mc / np.sqrt(1 + vc)) + 0.5 * np.log(2 * np.pi * (vc + 1 / tau))
    log_site += 0.5 * (mc - ms) ** 2 / (vc + 1 / tau)  # RW06 eq. 3.61
    marginal = multivariate_normal(Z @ m, Z @ S @ Z.T + np.diag(1 / tau))
    return mean, cov, log_site.sum() + marginal.logpdf(ms)


def test_the_fixed_point_is_that_of_the_printed_algorithm():
    Z, y, S = toy(12)
    m = np.array([0.5, -0.3, 0.1])
    mean, cov, log_evidence = by_the_book(Z, y, m, S)
    result = propagated(PROBIT, gaussian(m, S), Z, y)
    assert_allclose(result.q.mean, mean, rtol=0, atol=1e-9)
    assert_allclose(covariance(result.q), cov, rtol=0, atol=1e-9)
    assert_allclose(result.log_evidence, log_evidence, rtol=1e-12)  # at a fixed point errors of sites count squared


@pytest.mark.parametrize("sweeps", [1, 2])
def test_a_sequential_sweep_is_that_of_the_printed_algorithm(sweeps):
    """Each row sees what the rows before it have changed; an offset is a shift of the prior."""
    Z, y, S = toy(12)
    m, a = np.array([0.5, -0.3, 0.1]), np.array([-0.7, 0.4, 1.1])
    mean, cov, _ = by_the_book(Z, y, m, S, sweeps)
    plain = first_state(PROBIT, gaussian(m, S), MemoryRows(Z, y))
    beside = first_state(PROBIT, gaussian(m - a, S), MemoryRows(Z, y, offset=Z @ a))
    for _ in range(sweeps):
        plain, beside = plain.row_by_row(), beside.row_by_row()
    assert_allclose(plain.posterior.mean, mean, rtol=1e-8)
    assert_allclose(covariance(plain.posterior), cov, rtol=1e-8, atol=1e-10)
    assert_allclose(beside.posterior.mean + a, mean, rtol=1e-8)
    assert_allclose(covariance(beside.posterior), cov, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("likelihood", [LOGIT, PROBIT], ids=repr)
def test_the_error_fades_as_the_prior_tightens(likelihood):
    z, y = np.array([0.3, -0.8, 1.1, 0.4, -0.2]), np.array([1.0, 0.0, 1.0, 0.0, 0.0])

    def errors(variance):
        def moment(g):
            def joint(w):
                return g(w) * np.exp(likelihood.log_prob(y, z * w).sum()) * norm.pdf(w, 0, np.sqrt(variance))

            return quad(joint, -12, 12, epsabs=1e-15, epsrel=1e-12, limit=200)[0]

        mass = moment(lambda w: 1.0)
        result = propagated(likelihood, gaussian([0.0], [[variance]]), z[:, None], y)
        mean_error = abs(result.q.mean[0] - moment(lambda w: w) / mass)
        return abs(result.log_evidence - np.log(mass)), mean_error / np.sqrt(variance)

    evidence, mean = np.transpose([errors(variance) for variance in (1.0, 0.25, 1 / 16)])
    assert evidence[0] < 1e-3 and mean[0] < 1e-2  # in nats, and in prior standard deviations
    assert (evidence[1:] < evidence[:-1] / 4).all() and (mean[1:] < mean[:-1] / 4).all()


# --- rows ---------------------------------------------------------------------------------------------------


def by_counts(likelihood, counts):
    Z, y, S = toy(12)
    prior = gaussian(np.zeros(3), S)
    weighted = propagated(likelihood, prior, Z, y, counts.astype(float))
    copies = propagated(likelihood, prior, np.repeat(Z, counts, axis=0), np.repeat(y, counts))
    same(weighted, copies)
    assert_allclose(weighted.log_likelihood, copies.log_likelihood, rtol=SETTLED)


@EVERY
def test_a_row_that_counts_c_times_is_c_rows(likelihood):
    by_counts(likelihood, np.array([1, 2, 3, 1, 1, 2, 1, 1, 2, 1, 3, 2]))


@EVERY
def test_a_row_that_counts_zero_times_is_no_row(likelihood):
    by_counts(likelihood, np.array([1, 2, 3, 1, 0, 2, 1, 1, 2, 1, 3, 0]))


@EVERY
def test_where_the_search_starts_does_not_matter(likelihood):
    Z, y, S = toy()
    prior = gaussian(np.zeros(3), S)
    cold = propagated(likelihood, prior, Z, y)
    at_mode = laplace(raw_objective(likelihood, MemoryRows(Z, y), prior), prior.mean)
    same(propagated(likelihood, prior, Z, y, near=at_mode), cold)
    tighter = propagated(likelihood, gaussian(np.zeros(3), 0.3 * S), Z, y)  # its sites are started from
    same(propagated(likelihood, prior, Z, y, near=tighter), cold)
    again = propagated(likelihood, prior, Z, y, near=cold)
    assert again.steps == 1
    same(again, cold)


@EVERY
def test_the_order_and_the_cut_of_rows_do_not_matter(likelihood):
    Z, y, S = toy()
    Z[np.abs(Z) < 0.4] = 0.0
    prior, order = gaussian(np.zeros(3), S), np.random.default_rng(3).permutation(30)
    whole = propagated(likelihood, prior, Z, y)
    same(propagated(likelihood, prior, Z[order], y[order]), whole)
    same(propagated(likelihood, prior, Z, y, block_rows=7, threads=3), whole)
    same(propagated(likelihood, prior, csr_array(Z), y), whole)


def test_linear_maps_of_the_weights_change_nothing():
    Z, y, S = toy()
    m, A = np.array([0.5, -1.0, 0.2]), np.random.default_rng(5).normal(size=(3, 3))
    there = propagated(LOGIT, gaussian(m, S), Z, y)
    mapped = propagated(LOGIT, gaussian(A @ m, A @ S @ A.T), np.linalg.solve(A.T, Z.T).T, y)
    assert_allclose(mapped.log_evidence, there.log_evidence, rtol=1e-8)
    assert_allclose(mapped.q.mean, A @ there.q.mean, rtol=SETTLED)


@EVERY
def test_an_offset_along_the_columns_is_a_shift_of_the_prior(likelihood):
    """Scores Z(w + a) under N(m, S) are scores Zu under N(m + a, S)."""
    Z, y, S = toy()
    m, a = np.array([0.5, -1.0, 0.2]), np.array([-0.7, 0.4, 1.1])
    counts = np.arange(30) % 3.0
    shifted = propagated(likelihood, gaussian(m + a, S), Z, y, counts)
    beside = propagated(likelihood, gaussian(m, S), Z, y, counts, offset=Z @ a)
    assert_allclose(beside.log_evidence, shifted.log_evidence, rtol=SETTLED)
    assert_allclose(beside.log_likelihood, shifted.log_likelihood, rtol=SETTLED)
    assert_allclose(beside.q.mean + a, shifted.q.mean, rtol=SETTLED, atol=SETTLED)
    assert_allclose(covariance(beside.q), covariance(shifted.q), rtol=SETTLED, atol=SETTLED)


SOME = pytest.mark.parametrize(
    "likelihood", [LOGIT, PROBIT, LIKELIHOODS["mixture"], LIKELIHOODS["noisy-logit"]], ids=repr
)


@SOME
@pytest.mark.parametrize("block_rows", [None, 5])
def test_sequential_sweeps_reach_the_same_fixed_point(likelihood, block_rows):
    Z, y, S = toy(12)
    prior = gaussian(np.zeros(3), S)
    result = propagated(likelihood, prior, Z, y)
    state = first_state(likelihood, prior, MemoryRows(Z, y, block_rows=block_rows))
    for _ in range(40):
        state = state.row_by_row()
    assert_allclose(state.posterior.mean, result.q.mean, rtol=SETTLED, atol=SETTLED)
    assert_allclose(state.ep_log_evidence(), result.log_evidence, rtol=1e-8)
    again = state.row_by_row()
    assert_allclose(again.sites.tau, state.sites.tau, rtol=1e-6, atol=1e-9)


@SOME
def test_a_sequential_sweep_counts_rows_and_takes_sparse_ones_and_offsets(likelihood):
    Z, y, S = toy(10)
    Z[np.abs(Z) < 0.4] = 0.0
    counts, offset = np.array([1, 2, 0, 1, 2, 1, 1, 3, 1, 1.0]), np.linspace(-0.5, 0.5, 10)
    prior = gaussian(np.zeros(3), S)
    result = propagated(likelihood, prior, Z, y, counts, offset=offset)
    state = first_state(likelihood, prior, MemoryRows(csr_array(Z), y, counts, offset, block_rows=4))
    for _ in range(60):
        state = state.row_by_row()
    assert_allclose(state.posterior.mean, result.q.mean, rtol=1e-6, atol=1e-6)  # damped by counts: slower
    assert_allclose(state.ep_log_evidence(), result.log_evidence, rtol=1e-7)


# --- odd rows, and the search -------------------------------------------------------------------------------


@EVERY
def test_a_row_of_zeros_is_predicted_and_teaches_nothing(likelihood):
    Z, y, S = toy(10)
    prior = gaussian(np.zeros(3), S)
    without = propagated(likelihood, prior, Z, y)
    with_zeros = propagated(likelihood, prior, np.vstack([Z, np.zeros((1, 3))]), np.append(y, 1.0))
    constant = likelihood.log_prob(np.array(1.0), np.array(0.0))
    assert_allclose(with_zeros.log_evidence, without.log_evidence + constant, rtol=1e-8)
    assert_allclose(with_zeros.q.mean, without.q.mean, rtol=SETTLED)


def test_two_rows_alike_that_count_one_and_a_half_times_are_three():
    """Sites alike are what a count multiplies, so that halves of rows are no approximation."""
    Z, y, S = toy(10)
    prior = gaussian(np.zeros(3), S)
    in_halves = propagated(LOGIT, prior, np.repeat(Z, 2, axis=0), np.repeat(y, 2), np.full(20, 1.5))
    same(in_halves, propagated(LOGIT, prior, Z, y, np.full(10, 3.0)))


@pytest.mark.parametrize("likelihood", [LOGIT, PROBIT, CAUCHY], ids=repr)
def test_separated_rows_under_a_wide_prior_settle(likelihood):
    Z = np.linspace(-3.0, 3.0, 40)[:, None]
    result = propagated(likelihood, gaussian([0.0], [[100.0]]), Z, (Z[:, 0] > 0).astype(float))
    assert result.status is Status.CONVERGED
    assert result.q.mean[0] > 2 and -np.log(2) * 40 < result.log_evidence < 0


@pytest.mark.parametrize("likelihood", [LOGIT, PROBIT], ids=repr)
@pytest.mark.parametrize("size", [1e3, 1e6])
def test_huge_scores_on_either_side_leave_finite_numbers(likelihood, size):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(30, 2)) * size
    y = (rng.random(30) < 0.5).astype(float)  # about half of the rows contradict the others
    result = propagated(likelihood, gaussian(np.zeros(2), np.eye(2)), Z, y)
    assert np.isfinite(result.q.mean).all() and np.isfinite(result.log_evidence)


def test_a_limit_on_sweeps_is_told():
    Z, y, S = toy()
    result = propagated(LOGIT, gaussian(np.zeros(3), S), Z, y, controls=CONTROLS._replace(max_steps=2))
    assert result.status is Status.SWEEP_LIMIT and result.steps == 2
    assert np.isfinite(result.log_evidence)


def test_sweeps_are_reported():
    """With the largest squared change of a marginal that its own new site would make, in its standard deviations."""
    Z, y, S = toy()
    told, m = [], np.array([0.5, -1.0, 0.2])
    controls = CONTROLS._replace(report=lambda *step: told.append(step))
    result = propagated(LOGIT, gaussian(m, S), Z, y, controls=controls)
    assert_array_equal([step for step, *_ in told], np.arange(result.steps))
    assert_allclose(-told[-1][1], result.log_evidence, rtol=1e-10)
    assert told[-1][2] <= 1e-18 < told[0][2]
    f, v = Z @ m, np.einsum("ij,jk,ik->i", Z, S, Z)  # without sites: the prior
    new = LOGIT.tilted(y, f, v)
    by_tau = 1 / new.var - 1 / v
    by_mean = new.mean / new.var - f / v - by_tau * f
    assert_allclose(told[0][2], np.maximum((by_tau * v) ** 2, by_mean**2 * v).max(), rtol=1e-8)


def test_many_rows_take_few_sweeps():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(3000, 5))
    y = (Z @ [1.0, 0.5, 0.0, -1.0, 0.2] + rng.logistic(size=3000) > 0).astype(float)
    prior = gaussian(np.zeros(5), np.eye(5))
    result = propagated(LOGIT, prior, Z, y)
    assert result.status is Status.CONVERGED and result.steps < 30
    at_mode = laplace(raw_objective(LOGIT, MemoryRows(Z, y), prior), prior.mean)
    assert propagated(LOGIT, prior, Z, y, near=at_mode).steps < 2 * result.steps / 3
