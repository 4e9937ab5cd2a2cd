"""Importance weights: exact where q is the posterior, quadrature elsewhere, and rows held in any way."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import gammaln, log_softmax, logsumexp

from credibly import BayesianGLM, BayesianLogisticRegression, Normal, StudentT
from credibly.data.rows import MemoryRows
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.laplace import laplace
from credibly.inference.trust.importance import correct, counted_khat
from credibly.inference.trust.target import WeightTarget
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical, threshold_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.settings import IMPORTANCE
from credibly.numerics.weighted_draws import WeightedDraws, pareto_smoothed
from helpers import UnitGaussian, raw_objective

LOGIT, PROBIT = BernoulliLogit(), BernoulliProbit()
ONE_SCORE = {
    "logit": LOGIT,
    "probit": PROBIT,
    "cauchy": threshold_likelihood("cauchy"),
    "gumbel": threshold_likelihood("gumbel"),
    "noisy": LabelNoise(LOGIT, 0.1, 0.05),
}
GRID = np.linspace(-60.0, 60.0, 240_001)  # trapezoids: exponentially accurate for what is smooth and falls to nothing
SEEDS = range(40)


def gaussian(mean, cov):
    return Gaussian.from_mapped_moments(np.asarray(mean, dtype=float), np.atleast_2d(cov), np.eye(len(mean)), "a test")


def target_of(likelihood, rows, prior):
    objective = raw_objective(likelihood, rows, prior)
    return WeightTarget(objective, laplace(objective, prior.mean).q)


def one_weight(likelihood=LOGIT, scale=1.0, n=8):
    """Where the likelihood is flat the posterior falls as the prior: k = 1 - var(q)/scale², in the limit."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=n) + 0.5
    y = (1.5 * z + rng.logistic(size=n) > 0).astype(float)
    return target_of(likelihood, MemoryRows(z[:, None], y), gaussian([0.0], [[scale**2]])), z, y, scale


def toy(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = (Z @ [1.0, -2.0, 0.5][:d] + rng.logistic(size=n) > 0).astype(float)
    return Z, y, gaussian(np.zeros(d), 4.0 * np.eye(d))


class Exact:
    """Evidence and moments of a density known on a grid."""

    def __init__(self, log_joint, w=GRID):
        step = w[1] - w[0]
        self.log_evidence = logsumexp(log_joint) + np.log(step)
        self.density = np.exp(log_joint - self.log_evidence)
        self.mean = (self.density * w).sum() * step
        self.std = np.sqrt((self.density * (w - self.mean) ** 2).sum() * step)


def exact_of(likelihood, z, y, scale, weight=1.0):
    log_joint = stats.norm.logpdf(GRID, 0.0, scale)
    for zi, yi, wi in zip(z, y, np.broadcast_to(weight, y.shape), strict=True):
        log_joint = log_joint + wi * likelihood.log_prob(np.array(yi), zi * GRID)
    return Exact(log_joint)


def moments_of(found):
    """Corrected mean and deviation, and the mean's own standard error, of one weight."""
    draws = WeightedDraws(found.points, found.log_weights)
    error = np.sqrt((draws.weights**2 * (draws.x[:, 0] - draws.mean[0]) ** 2).sum())
    return draws.mean[0], draws.std[0], error


# --- exact cases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3, 250])  # Sobol's points, and beyond them random ones
def test_with_gaussian_targets_q_is_the_posterior_and_nothing_is_corrected(d):
    rng = np.random.default_rng(0)
    Z, t = rng.normal(size=(40, d)), rng.normal(size=40)
    prior = gaussian(rng.normal(size=d), 0.3 * np.eye(d))
    target = target_of(UnitGaussian(), MemoryRows(Z, t), prior)
    found = correct(np.random.default_rng(1), target)
    marginal = stats.multivariate_normal(Z @ prior.mean, np.eye(40) + 0.3 * Z @ Z.T)
    assert found.khat == 0.0 and found.reliable
    assert_allclose(found.log_evidence, marginal.logpdf(t), rtol=1e-11)
    draws = WeightedDraws(found.points, found.log_weights)
    assert_allclose(draws.mean, target.q.mean, rtol=1e-8, atol=1e-9)  # pairs: the odd part cancels exactly
    assert found.log_evidence_se < 1e-10
    assert_allclose(found.weight_changes, 0.0, atol=1e-12)
    assert found.log_weights.size == 2 * IMPORTANCE.first_pairs  # the goal is met at once
    # q's own draws, seven of eight, and what the wide ones are worth: those nearer than three deviations hardly any
    assert 0.875 * (1 - 1e-9) <= found.ess / found.log_weights.size <= 1


def test_the_certificate_of_a_gaussian_regression_is_exact():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    model = BayesianGLM("gaussian", prior=Normal(scale=1.5), dispersion=0.7).fit(X, y)
    certificate = model.certify(X, y)
    assert certificate.khat == 0.0 and certificate.reliable and certificate.shift < 1e-8
    assert_allclose(certificate.log_evidence, model.log_evidence_, rtol=1e-11)
    assert_allclose(certificate.mean, model.posterior_.mean, rtol=1e-8)
    # 1,024 draws of a Gaussian: its deviations to a few standard errors 1/√(2·512)
    assert_allclose(certificate.std, model.posterior_.std, rtol=4 / np.sqrt(1024))
    assert_allclose(certificate.predict(X), model.predict(X), rtol=1e-8)


# --- one weight, against quadrature -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE_SCORE)
def test_one_weight_agrees_with_quadrature(name):
    likelihood = ONE_SCORE[name]
    target, z, y, scale = one_weight(likelihood)
    exact = exact_of(likelihood, z, y, scale)
    found = correct(np.random.default_rng(0), target, draws=8192)
    mean, std, error = moments_of(found)
    assert found.reliable
    assert_allclose(found.log_evidence, exact.log_evidence, atol=3 * found.log_evidence_se)
    assert_allclose(mean, exact.mean, atol=3 * error)
    # a deviation's relative error is at most that of a fourth moment: kurtosis below 9 gives 2/√ess
    assert_allclose(std, exact.std, rtol=3 * 2 / np.sqrt(found.ess))


def test_the_correction_takes_laplaces_error_out():
    target, z, y, scale = one_weight()
    exact = exact_of(LOGIT, z, y, scale)
    shift = abs(target.q.mean[0] - exact.mean) / exact.std
    assert shift > 0.09  # the mode is not the mean
    for seed in range(5):
        mean, _, error = moments_of(correct(np.random.default_rng(seed), target, draws=8192))
        assert abs(mean - exact.mean) < min(3 * error, 0.2 * shift * exact.std)


@pytest.mark.parametrize("draws", [1024, 4096])
def test_standard_errors_are_those_of_independent_draws_or_less(draws):
    """Over seeds, errors in units of the stated one: Sobol's points make them smaller, never larger on average."""
    target, z, y, scale = one_weight()
    exact = exact_of(LOGIT, z, y, scale).log_evidence
    found = [correct(np.random.default_rng(seed), target, draws=draws) for seed in SEEDS]
    scores = np.array([(it.log_evidence - exact) / it.log_evidence_se for it in found])
    assert scores.std() <= 1.0 and np.abs(scores).max() <= 3.0
    unsmoothed = np.exp([logsumexp(it.pairs.log_ratios) - np.log(draws) - exact for it in found])
    assert_allclose(
        unsmoothed.mean(), 1.0, atol=5 * np.mean([it.log_evidence_se for it in found]) / np.sqrt(len(SEEDS))
    )


def random_points(scale, size=1024):
    """In 201 dimensions, of which the data see one: the rest of q is exact, so the ratios are those of one weight."""
    D = 201
    _, z, y, _ = one_weight(scale=scale)
    rows = MemoryRows(np.column_stack([z, np.zeros((len(z), D - 1))]), y)
    target = target_of(LOGIT, rows, gaussian(np.zeros(D), scale**2 * np.eye(D)))
    found = [correct(np.random.default_rng(seed), target, draws=size) for seed in SEEDS]
    exact = exact_of(LOGIT, z, y, scale).log_evidence
    return found, np.array([(it.log_evidence - exact) / it.log_evidence_se for it in found])


def test_standard_errors_hold_for_random_points_where_the_tail_is_light():
    found, scores = random_points(scale=0.5)
    assert np.mean([it.khat for it in found]) < 0.5
    # a variance over 40 replicates has a relative standard error of √(2/39)
    assert scores.std() <= np.sqrt(1 + 4 * np.sqrt(2 / (len(SEEDS) - 1)))
    assert abs(scores.mean()) <= 4 / np.sqrt(len(SEEDS))


def test_standard_errors_hold_for_random_points_wherever_khat_is_below_a_half():
    found, scores = random_points(scale=3.0)
    close = np.array([it.khat < 0.5 for it in found])
    # with so few draws some have not met the tail, and neither evidence nor k-hat knows of it: not four errors, but six
    assert np.abs(scores[close]).max() <= 6.0


# --- pairs --------------------------------------------------------------------------------------------------


def test_the_evidence_is_the_mean_ratio_and_khat_the_worse_of_the_weights_and_of_q():
    """Smoothing cuts ratios at the largest seen, and would make the evidence too small."""
    Z, y, prior = toy()
    found = correct(np.random.default_rng(0), target_of(LOGIT, MemoryRows(Z, y), prior), draws=1000)
    assert_allclose(found.log_evidence, logsumexp(found.pairs.log_ratios) - np.log(1000), rtol=1e-14)
    smoothed, own = pareto_smoothed(found.pairs.log_ratios.reshape(-1)), pareto_smoothed(found.pairs.ratios_to_q)
    assert abs(smoothed.log_mean - found.log_evidence) < found.log_evidence_se
    assert_allclose(found.log_weights, smoothed.log_weights, rtol=1e-14)
    assert found.khat == max(counted_khat(smoothed), counted_khat(own))


def test_draws_are_pairs_of_which_one_in_eight_is_three_times_as_wide_and_ratios_are_to_the_mixture():
    Z, y, prior = toy()
    target = target_of(LOGIT, MemoryRows(Z, y), prior)
    pairs = correct(np.random.default_rng(0), target, draws=4096).pairs
    assert_array_equal(pairs.points, np.vstack([target.q.mean + pairs.steps, target.q.mean - pairs.steps]))
    assert pairs.wide.sum() == 4096 // 2 // 8
    white = pairs.steps @ target.q.precision.factor
    narrow, wide = (pairs.steps[it] @ target.q.precision.factor for it in (~pairs.wide, pairs.wide))
    # mean squares over 256 pairs of three coordinates, of which each has the relative deviation √2
    assert_allclose([(narrow**2).mean(), (wide**2).mean()], [1.0, 9.0], rtol=4 * np.sqrt(2 / 768))
    log_q = stats.norm.logpdf(white).sum(axis=1) + 0.5 * target.q.precision.logdet
    log_wide = stats.norm.logpdf(white, scale=3.0).sum(axis=1) + 0.5 * target.q.precision.logdet
    log_g = np.logaddexp(np.log(7 / 8) + log_q, np.log(1 / 8) + log_wide)
    assert_allclose(pairs.log_tilt, log_q - log_g, rtol=1e-9, atol=1e-12)
    log_joints = target.log_joints(pairs.points).reshape(2, -1)
    assert_allclose(pairs.log_ratios, log_joints - log_g, rtol=1e-11)
    assert_allclose(pairs.ratios_to_q, (log_joints - log_q)[:, ~pairs.wide].reshape(-1), rtol=1e-11)


def test_the_changes_of_the_weights_take_the_noise_of_the_draws_off():
    """Σ (w - u) x² is E_p[x²] - E_q[x²]; Σ w x² alone has the noise of so many random draws."""
    found, _ = random_points(scale=0.5)
    _, z, y, scale = one_weight(scale=0.5)
    exact = exact_of(LOGIT, z, y, scale)
    q = target_of(LOGIT, MemoryRows(z[:, None], y), gaussian([0.0], [[scale**2]])).q
    under_p, under_q = exact.std**2 + exact.mean**2, 1 / q.precision.matrix[0, 0] + q.mean[0] ** 2
    by_changes = np.array([it.weight_changes @ it.points[:, 0] ** 2 for it in found]) - (under_p - under_q)
    by_weights = np.array([np.exp(it.log_weights) @ it.points[:, 0] ** 2 for it in found]) - under_p
    assert abs(by_changes.mean()) < 4 * by_changes.std() / np.sqrt(len(SEEDS))
    assert by_changes.std() < by_weights.std() / 2


def test_the_effective_size_is_that_of_kish():
    Z, y, prior = toy()
    found = correct(np.random.default_rng(0), target_of(LOGIT, MemoryRows(Z, y), prior), draws=1000)
    weights = np.exp(found.log_weights)
    assert_allclose(found.ess, weights.sum() ** 2 / (weights**2).sum(), rtol=1e-10)
    assert 1 < found.ess < 1000


def test_the_error_of_means_is_that_of_sums_over_pairs():
    Z, y, prior = toy()
    found = correct(np.random.default_rng(0), target_of(LOGIT, MemoryRows(Z, y), prior), draws=1000)
    draws = WeightedDraws(found.points, found.log_weights)
    by_pair = (draws.weights[:, None] * (draws.x - draws.mean)).reshape(2, 500, -1).sum(axis=0)
    assert_allclose(found.mean_se, (np.sqrt((by_pair**2).sum(axis=0)) / draws.std).max(), rtol=1e-10)


# --- how many draws -----------------------------------------------------------------------------------------


def test_a_smaller_goal_takes_more_draws_and_meets_it():
    target, *_ = one_weight()
    sizes = []
    for goal in (0.1, 0.002, 0.001):
        found = correct(np.random.default_rng(0), target, settings=replace(IMPORTANCE, evidence_se=goal))
        sizes.append(found.log_weights.size)
        assert found.log_evidence_se <= goal or found.log_weights.size == 2 * IMPORTANCE.most_pairs
    assert sizes[0] <= sizes[1] < sizes[2]
    assert sizes[0] >= 2 * IMPORTANCE.first_pairs and all(np.log2(size).is_integer() for size in sizes)


def test_means_are_to_be_known_too():
    target, *_ = one_weight()
    first, more = (
        correct(np.random.default_rng(0), target, settings=replace(IMPORTANCE, mean_se=goal)) for goal in (0.1, 0.004)
    )
    assert first.log_weights.size < more.log_weights.size
    assert more.mean_se <= 0.004 < first.mean_se


@pytest.mark.parametrize(("asked", "drawn"), [(256, 256), (257, 258), (1000, 1000), (5000, 5000)])
def test_as_many_draws_as_asked_for(asked, drawn):
    target, *_ = one_weight()
    found = correct(np.random.default_rng(0), target, draws=asked)
    assert found.log_weights.size == drawn == len(found.points)


def test_a_hopeless_tail_is_given_up_early():
    """Forty weights and thirty rows: k̂ is far above 0.7, and more draws would not help."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(30, 40))
    target = target_of(LOGIT, MemoryRows(Z, (Z[:, 0] > 0).astype(float)), gaussian(np.zeros(40), 25.0 * np.eye(40)))
    found = correct(np.random.default_rng(0), target)
    assert not found.reliable and found.log_weights.size == 2 * IMPORTANCE.settled_pairs


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    target, *_ = one_weight()
    first, again, other = (correct(np.random.default_rng(seed), target) for seed in (3, 3, 4))
    assert_array_equal(first.log_weights, again.log_weights)
    assert first.log_evidence == again.log_evidence != other.log_evidence


# --- the density of rows held in any way --------------------------------------------------------------------


def points_of(target, size=9):
    return target.q.mean + 0.5 * np.random.default_rng(5).normal(size=(size, target.q.mean.size))


def same_joints(a, b, rtol=1e-12):
    x = points_of(a)
    assert_allclose(b.log_joints(x), a.log_joints(x), rtol=rtol)


@pytest.mark.parametrize("name", ONE_SCORE)
def test_log_joints_are_the_naive_sums(name):
    Z, y, prior = toy()
    likelihood, offset = ONE_SCORE[name], np.random.default_rng(1).normal(size=len(y))
    weight = np.random.default_rng(2).random(len(y))
    objective = raw_objective(likelihood, MemoryRows(Z, y, weight, offset=offset), prior)
    target = WeightTarget(objective, gaussian([0.3, -0.2, 0.1], np.eye(3)))
    x = points_of(target)
    naive = [weight @ likelihood.log_prob(y, Z @ w + offset) + prior.logpdf(w) for w in x]
    assert_allclose(target.log_joints(x), naive, rtol=1e-12)


@pytest.mark.parametrize("noise", [None, 0.1])
def test_softmax_log_joints_are_the_naive_sums_in_the_stacked_layout(noise):
    rng = np.random.default_rng(0)
    Z, y = np.column_stack([rng.normal(size=(50, 2)), np.ones(50)]), rng.integers(0, 4, size=50)
    likelihood = Categorical(4) if noise is None else NoisyCategorical(4, noise)
    prior = gaussian(rng.normal(size=12), 2.0 * np.eye(12))
    target = WeightTarget(raw_objective(likelihood, MemoryRows(Z, y), prior), prior)
    x = points_of(target)
    for w, log_joint in zip(x, target.log_joints(x), strict=True):
        p = np.exp(log_softmax(Z @ w.reshape(4, 3).T, axis=1))[np.arange(50), y]
        recorded = p if noise is None else (1 - noise) * p + noise / 3 * (1 - p)
        assert_allclose(log_joint, np.log(recorded).sum() + prior.logpdf(w), rtol=1e-12)


@pytest.mark.parametrize("block_rows", [1, 7, 59])
@pytest.mark.parametrize("threads", [1, 3])
def test_how_rows_are_cut_does_not_matter(block_rows, threads):
    Z, y, prior = toy()
    whole = target_of(LOGIT, MemoryRows(Z, y), prior)
    cut = WeightTarget(raw_objective(LOGIT, MemoryRows(Z, y, block_rows=block_rows, threads=threads), prior), whole.q)
    same_joints(whole, cut)
    a, b = (correct(np.random.default_rng(0), it, draws=400) for it in (whole, cut))
    assert_allclose(b.log_evidence, a.log_evidence, rtol=1e-11)
    assert_allclose(b.khat, a.khat, rtol=1e-6)


def test_sparse_rows_and_rows_in_another_order_give_the_same():
    Z, y, prior = toy()
    whole = target_of(PROBIT, MemoryRows(Z, y), prior)
    for rows in (MemoryRows(csr_array(Z), y), MemoryRows(csr_array(Z), y, block_rows=11), MemoryRows(Z[::-1], y[::-1])):
        same_joints(whole, WeightTarget(raw_objective(PROBIT, rows, prior), whole.q))


def test_a_row_of_weight_two_is_the_row_twice():
    Z, y, prior = toy()
    weight = np.arange(len(y)) % 3.0
    twice = MemoryRows(np.repeat(Z, weight.astype(int), axis=0), np.repeat(y, weight.astype(int)))
    whole = target_of(LOGIT, twice, prior)
    same_joints(whole, WeightTarget(raw_objective(LOGIT, MemoryRows(Z, y, weight), prior), whole.q))


def test_many_draws_at_once_are_the_draws_one_by_one():
    """Scores are held a few draws at a time; how many does not matter."""
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(7000, 2)), rng.integers(0, 2, size=7000).astype(float)
    target = target_of(LOGIT, MemoryRows(Z, y), gaussian(np.zeros(2), np.eye(2)))
    x = points_of(target, 20)
    one_by_one = np.hstack([target.log_joints(w[None]) for w in x])
    assert_allclose(target.log_joints(x), one_by_one, rtol=1e-13)


# --- models of one slope, against quadrature in data units --------------------------------------------------


def logistic_rows(n=14, seed=0):
    rng = np.random.default_rng(seed)
    x = 2.0 * rng.normal(size=n) + 0.5
    return x, (x + rng.logistic(size=n) > 0).astype(int)


def agrees_with_quadrature(certificate, exact):
    assert certificate.reliable
    assert_allclose(certificate.log_evidence, exact.log_evidence, atol=3 * certificate.log_evidence_se)
    # error of a weighted mean; draws of little weight may lie far out, which the factor two allows for
    assert_allclose(certificate.mean[0], exact.mean, atol=3 * 2 * exact.std / np.sqrt(certificate.ess))
    assert_allclose(certificate.std[0], exact.std, rtol=3 * 2 / np.sqrt(certificate.ess))


PRIORS = {
    "normal": (Normal(mean=[0.5], cov=[[4.0]]), stats.norm(0.5, 2.0).logpdf),
    "student": (StudentT(df=3.0, scale=1.5), stats.t(3.0, scale=1.5).logpdf),
}


@pytest.mark.parametrize(
    ("prior", "noise"), [("normal", 0.0), ("normal", 0.1), ("normal", (0.15, 0.02)), ("student", 0.0)], ids=repr
)
def test_a_classifier_of_one_slope_agrees_with_quadrature(prior, noise):
    x, y = logistic_rows()
    chosen, log_prior = PRIORS[prior]
    model = BayesianLogisticRegression(prior=chosen, fit_intercept=False, label_noise=noise, inference="laplace")
    model.fit(x[:, None], y)
    flips = np.broadcast_to(noise, 2)
    likelihood = LabelNoise(LOGIT, *flips) if np.any(noise) else LOGIT
    exact = Exact(log_prior(GRID) + sum(likelihood.log_prob(np.array(b), a * GRID) for a, b in zip(x, y, strict=True)))
    agrees_with_quadrature(model.certify(x[:, None], y, draws=8192), exact)


def test_a_tail_of_students_beside_a_gaussian_is_told():
    """Flipped labels leave the prior's own tail, t of three degrees of freedom: no moment of the ratios is finite."""
    x, y = logistic_rows()
    prior = StudentT(df=3.0, scale=1.5)
    model = BayesianLogisticRegression(prior=prior, fit_intercept=False, label_noise=0.1, inference="laplace")
    assert not model.fit(x[:, None], y).certify(x[:, None], y, draws=8192).reliable


def poisson(w, x, y, offset):
    return stats.poisson.logpmf(y, np.exp(np.outer(w, x) + offset)).sum(axis=1)


def gamma(w, x, y, offset):
    return stats.gamma.logpdf(y, 2.0, scale=np.exp(np.outer(w, x) + offset) / 2.0).sum(axis=1)


def inverse_gamma_link(w, x, y, offset):
    f = np.outer(w, x) + offset
    with np.errstate(all="ignore"):
        return np.where(f > 0, stats.gamma.logpdf(y, 2.0, scale=1 / np.where(f > 0, f, 1.0) / 2.0), -np.inf).sum(axis=1)


GLMS = {
    "poisson": (dict(family="poisson"), poisson),
    "gamma, log": (dict(family="gamma", link="log", dispersion=0.5), gamma),
    "gamma, inverse": (dict(family="gamma", link="inverse", dispersion=0.5), inverse_gamma_link),
}


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("name", GLMS)
def test_a_generalised_linear_model_of_one_slope_agrees_with_quadrature(name, offsets):
    """With all constants, an offset, and where a link has a domain: draws outside of it have no density."""
    choices, log_likelihood = GLMS[name]
    rng = np.random.default_rng(0)
    x = rng.uniform(0.3, 1.5, size=6)
    offset = rng.uniform(0.1, 0.6, size=6) if offsets else np.zeros(6)
    mean = 1 / (0.8 * x + offset) if "inverse" in name else np.exp(0.8 * x + offset)
    y = rng.poisson(mean) if name == "poisson" else rng.gamma(2.0, mean / 2.0)
    prior = Normal(mean=[0.5], cov=[[1.0]])
    model = BayesianGLM(**choices, prior=prior, fit_intercept=False, inference="laplace")
    model.fit(x[:, None], y, offset=offset)
    w = np.linspace(-12.0, 12.0, 48_001)
    exact = Exact(log_likelihood(w, x, y, offset) + stats.norm.logpdf(w, 0.5, 1.0), w)
    certificate = model.certify(x[:, None], y, draws=8192, offset=offset)
    agrees_with_quadrature(certificate, exact)
    mean_at = (
        np.where(w * 0.7 + 0.2 > 0, 1 / np.abs(w * 0.7 + 0.2), 0.0) if "inverse" in name else np.exp(w * 0.7 + 0.2)
    )
    averaged = (exact.density * mean_at).sum() * (w[1] - w[0])
    if "inverse" not in name:  # there the average diverges: 1/f at f = 0
        assert_allclose(certificate.predict([[0.7]], offset=[0.2]), averaged, rtol=0.03)  # 3/√8192, spread below one


def test_binomial_counts_have_their_coefficients_in_the_evidence():
    x, trials, successes = np.array([-1.0, 0.0, 1.0, 2.0]), np.array([5, 6, 4, 7]), np.array([1, 2, 3, 7])
    model = BayesianGLM("binomial", prior=Normal(scale=2.0), fit_intercept=False, inference="laplace")
    y = np.column_stack([successes, trials - successes])
    certificate = model.fit(x[:, None], y).certify(x[:, None], y, draws=8192)
    log_joint = stats.norm.logpdf(GRID, 0, 2.0)
    for a, n, k in zip(x, trials, successes, strict=True):
        log_joint = log_joint + k * LOGIT.log_prob(np.array(1.0), a * GRID)
        log_joint = log_joint + (n - k) * LOGIT.log_prob(np.array(0.0), a * GRID)
    constant = (gammaln(trials + 1) - gammaln(successes + 1) - gammaln(trials - successes + 1)).sum()
    agrees_with_quadrature(certificate, Exact(log_joint + constant))
    assert_allclose(model.log_evidence_, certificate.log_evidence, atol=0.2)  # Laplace's own error on 22 trials


# --- softmax and logit --------------------------------------------------------------------------------------


def test_softmax_for_two_classes_is_the_logit_of_twice_the_prior_variance():
    """The difference of two vectors with variance s² has variance 2s²; the average of the two stays as it was."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X @ [1.0, -1.0] + rng.logistic(size=60) > 0).astype(int)
    softmax = BayesianLogisticRegression(prior=Normal(scale=1.0, intercept_scale=3.0), multi_class="softmax").fit(X, y)
    root = np.sqrt(2.0)
    logit = BayesianLogisticRegression(prior=Normal(scale=root, intercept_scale=3 * root)).fit(X, y)
    a, b = softmax.certify(X, y, draws=8192), logit.certify(X, y, draws=8192)
    assert a.reliable and b.reliable and a.mean.shape == (6,) and b.mean.shape == (3,)
    assert_allclose(a.log_evidence, b.log_evidence, atol=3 * np.hypot(a.log_evidence_se, b.log_evidence_se))
    error = 3 * np.hypot(1 / np.sqrt(a.ess), 1 / np.sqrt(b.ess))
    assert_allclose((a.mean[3:] - a.mean[:3]) / b.std, b.mean / b.std, atol=error)
    assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=error / 2)  # a probability's deviation is at most ½
