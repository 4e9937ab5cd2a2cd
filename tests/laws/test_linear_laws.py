"""Identities that tie the linear models together: exact cases, two roads to one answer, and what must not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal, norm

from credibly import BayesianLogisticRegression, BayesianProbitRegression, Normal, Status, StudentT
from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.design import ClassMap, Design, Standardization
from credibly.inference.linear.hyper import mode_slope, scale_slope
from credibly.inference.linear.laplace import laplace
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.priors import ScaledPriors
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical
from credibly.numerics import averages
from credibly.numerics.linalg import PSD
from credibly.numerics.settings import COSTS
from helpers import UnitGaussian, raw_objective

LOGIT, PROBIT = BayesianLogisticRegression, BayesianProbitRegression
FIVE_STANDARD_ERRORS = 5.0


# --- data and models ----------------------------------------------------------------------------------------


def rows_of(n: int = 60, d: int = 3, K: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Columns of different units, off centre, and labels drawn from a softmax model."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    y = (Z @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)
    return Z * 10.0 ** (np.arange(d) - 1) + np.arange(d), y


def with_ones(X: np.ndarray) -> np.ndarray:
    return np.column_stack([X, np.ones(len(X))])


def isotropic(size: int, precision: float) -> Gaussian:
    return Gaussian(np.zeros(size), PSD.diagonal(np.full(size, precision)))


def fit(likelihood, source, prior):
    return laplace(raw_objective(likelihood, source, prior), prior.mean)


# --- exactness ----------------------------------------------------------------------------------------------


def test_laplace_is_exact_in_one_step_when_the_likelihood_is_gaussian():
    X, _ = rows_of(n=20)
    t = np.random.default_rng(1).normal(size=20)
    result = fit(UnitGaussian(), MemoryRows(X, t), isotropic(3, 2.0))
    marginal = multivariate_normal(np.zeros(20), np.eye(20) + X @ X.T / 2.0)
    precision = X.T @ X + 2.0 * np.eye(3)
    assert_allclose(result.log_evidence, marginal.logpdf(t), rtol=1e-12)
    assert_allclose(result.q.mean, np.linalg.solve(precision, X.T @ t), rtol=1e-12)
    assert_allclose(result.q.precision.matrix, precision, rtol=1e-12)
    assert result.steps <= 3  # the start, the mode, and the mode again where the first step rounded


def test_two_gaussian_batches_multiply_to_the_evidence_of_all_rows():
    """p(t) = p(t₁) p(t₂ | t₁): yesterday's posterior is today's prior, and nothing is lost."""
    X, _ = rows_of(n=30)
    t = np.random.default_rng(1).normal(size=30)
    whole = fit(UnitGaussian(), MemoryRows(X, t), isotropic(3, 2.0))
    first = fit(UnitGaussian(), MemoryRows(X[:11], t[:11]), isotropic(3, 2.0))
    second = fit(UnitGaussian(), MemoryRows(X[11:], t[11:]), first.q)
    assert_allclose(first.log_evidence + second.log_evidence, whole.log_evidence, rtol=1e-12)
    assert_allclose(second.q.mean, whole.q.mean, rtol=1e-11)
    assert_allclose(second.q.precision.matrix, whole.q.precision.matrix, rtol=1e-12)


@pytest.mark.parametrize("likelihood", [BernoulliLogit(), BernoulliProbit()], ids=repr)
def test_the_error_of_the_evidence_fades_as_the_prior_tightens(likelihood):
    x, y = np.array([0.3, -0.8, 1.1, 0.4]), np.array([1.0, 0.0, 1.0, 0.0])

    def error(precision: float) -> float:
        def joint(w: float) -> float:
            return np.exp(likelihood.log_prob(y, x * w).sum()) * norm.pdf(w, 0, precision**-0.5)

        exact = np.log(quad(joint, -12, 12, epsabs=1e-13)[0])
        return abs(fit(likelihood, MemoryRows(x[:, None], y), isotropic(1, precision)).log_evidence - exact)

    assert error(1.0) > 5 * error(4.0) > 50 * error(20.0) > 500 * error(100.0)


# --- softmax with two classes is the logit ------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
def test_softmax_with_two_classes_is_the_logit_when_the_priors_match(intercept):
    """Precision λ on each class's weights is λ/2 on their difference; what they share integrates out."""
    X, y = rows_of()
    scale, wide = np.array([0.5, 2.0, 0.3]), 4.0
    logit = LOGIT(prior=Normal(scale, wide), fit_intercept=intercept).fit(X, y)
    matched = Normal(scale / np.sqrt(2), wide / np.sqrt(2))
    softmax = LOGIT(prior=matched, multi_class="softmax", fit_intercept=intercept).fit(X, y)
    assert_allclose(softmax.log_evidence_, logit.log_evidence_, rtol=1e-12)
    assert_allclose(softmax.log_likelihood_, logit.log_likelihood_, rtol=1e-10)
    assert_allclose(softmax.coef_[1] - softmax.coef_[0], logit.coef_[0], rtol=1e-8)
    m, V = softmax.predict_latent(X)
    mean, variance = logit.predict_latent(X)
    assert_allclose(m[:, 1] - m[:, 0], mean, rtol=1e-8, atol=1e-9)
    assert_allclose(V[:, 1, 1] + V[:, 0, 0] - 2 * V[:, 0, 1], variance, rtol=1e-8)
    assert_allclose(softmax.predict_proba(X), logit.predict_proba(X), rtol=1e-7)
    assert_allclose(softmax.predict_interval(X), logit.predict_interval(X), rtol=1e-7)
    assert (softmax.bic_, softmax.aic_) == pytest.approx((logit.bic_, logit.aic_), rel=1e-10)


@pytest.mark.parametrize(("unit", "mean"), [(1e3, 0.0), (1e6, 5.0), (1e8, 0.0)])
def test_so_it_is_when_a_column_has_a_small_unit(unit, mean):
    """The prior of its coefficient is then all but flat, and all that is known of what the classes share."""
    X, y = rows_of(n=400)
    X = (X - X.mean(axis=0)) / X.std(axis=0) * [1.0, unit, 1.0] + [0.0, unit * mean, 0.0]
    logit = LOGIT(prior=Normal(2.5, 10.0)).fit(X, y)
    softmax = LOGIT(prior=Normal(2.5 / np.sqrt(2), 10.0 / np.sqrt(2)), multi_class="softmax").fit(X, y)
    # Variances of the shared part are right to eps √n unit; see `precision_of_roots`.
    assert_allclose(softmax.log_evidence_, logit.log_evidence_, rtol=1e-10)
    assert_allclose(softmax.predict_proba(X), logit.predict_proba(X), rtol=1e-7)
    assert_allclose(softmax.predict_interval(X), logit.predict_interval(X), rtol=1e-7)


@pytest.mark.parametrize("options", [{}, {"label_noise": 0.1}, {"label_noise": "estimate"}], ids=str)
@pytest.mark.parametrize(("unit", "mean"), [(1.0, 0.0), (1e3, 5.0), (1e6, 0.0), (1e6, 5.0)])
def test_what_all_classes_share_keeps_its_prior(unit, mean, options):
    """Rows tell nothing of a shift of all K weight vectors: their average has the prior N(m₀, S₀/K) it began with."""
    K, rng = 3, np.random.default_rng(5)
    X, y = rows_of(n=400, K=K)
    X = (X - X.mean(axis=0)) / X.std(axis=0) * [1.0, unit, 1.0] + [0.0, unit * mean, 0.0]
    root = np.tril(rng.normal(size=(4, 4))) + 2 * np.eye(4)
    m0, S0 = rng.normal(size=4) / [1.0, unit, 1.0, 1.0], root @ root.T
    fitted = LOGIT(prior=Normal(mean=m0, cov=S0), **options).fit(X, y)
    w, V = fitted.posterior_.mean.reshape(K, 4), fitted.posterior_.cov.reshape(K, 4, K, 4)
    sd = np.sqrt(np.diag(S0) / K)
    lost = 1e-10 + 10 * np.finfo(float).eps * np.sqrt(len(X) * np.diag(S0).max()) * unit * (1 + mean)
    assert_allclose((w.mean(axis=0) - m0) / sd, 0.0, atol=lost)
    assert_allclose(V.mean(axis=(0, 2)) / np.outer(sd, sd), S0 / K / np.outer(sd, sd), atol=lost)


@pytest.mark.parametrize("prior", [Normal(2.5), StudentT(df=3, scale=2.5)], ids=["normal", "student"])
@pytest.mark.parametrize("unit", [1e4, 1e6])
def test_few_rows_in_a_small_unit_are_fitted(prior, unit):
    """All probabilities are 0 or 1 there, and rows tell nothing of the weights."""
    X = np.random.default_rng(0).normal(size=(3, 2)) * unit
    fitted = LOGIT(prior=prior, inference="laplace").fit(X, [0, 1, 2])
    assert fitted.status_.good
    assert 0 <= fitted.effective_parameters_ <= 9
    assert fitted.log_likelihood_ > -1e-3  # at the mode every label is sure


def test_effective_parameters_under_a_student_prior_do_not_depend_on_an_all_but_flat_direction():
    """Of two weights of each of three classes, those of four differences are known, and of what is shared none."""
    X = np.random.default_rng(2).normal(size=(60, 1)) * 1e8
    fitted = LOGIT(prior=StudentT(df=3, scale=2.5), inference="laplace").fit(X, np.arange(60) % 3)
    assert fitted.effective_parameters_ == pytest.approx(
        4.0, abs=2e-3
    )  # intercepts are known to a thousandth of theirs


def test_the_learnt_scale_of_softmax_with_two_classes_is_that_of_the_logit_over_root_two():
    X, y = rows_of()
    logit = LOGIT(fit_intercept=False, inference="laplace").fit(X, y)
    softmax = LOGIT(fit_intercept=False, inference="laplace", multi_class="softmax").fit(X, y)
    assert_allclose(softmax.prior_scale_ * np.sqrt(2), logit.prior_scale_, rtol=1e-7)
    assert_allclose(softmax.log_evidence_, logit.log_evidence_, rtol=1e-12)


# --- what must not matter -----------------------------------------------------------------------------------

LIKELIHOODS = pytest.mark.parametrize("likelihood", [BernoulliLogit(), BernoulliProbit(), Categorical(3)], ids=repr)


@LIKELIHOODS
@pytest.mark.parametrize("cut", [{"block_rows": 1}, {"block_rows": 7}, {"block_rows": 13, "threads": 3}], ids=str)
def test_how_rows_are_cut_and_who_works_on_them_does_not_matter(likelihood, cut):
    K = getattr(likelihood, "n_classes", 1)
    X, y = rows_of(K=max(K, 2))
    X = with_ones(X / [0.1, 1.0, 10.0])
    y = y if K > 1 else y.astype(float)
    whole = fit(likelihood, MemoryRows(X, y), isotropic(4 * K, 0.5))
    parts = fit(likelihood, MemoryRows(X, y, **cut), isotropic(4 * K, 0.5))
    assert_allclose(parts.log_evidence, whole.log_evidence, rtol=1e-12)
    assert_allclose(parts.q.mean, whole.q.mean, rtol=1e-12, atol=1e-12)
    assert_allclose(parts.q.precision.matrix, whole.q.precision.matrix, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "error"),
    [(60, 1e-12), (80_000, COSTS.hessian_error)],
    ids=["few rows", "rows enough for a start from a sample"],
)
def test_standardising_inside_changes_no_number(n, error):
    """The estimator works on standardised columns, in blocks, perhaps from a sample; here is one plain block."""
    X, y = rows_of(n=n)
    model = LOGIT(prior=Normal(scale=0.5, intercept_scale=0.5), inference="laplace").fit(X, y)
    plain = fit(BernoulliLogit(), MemoryRows(with_ones(X), y.astype(float), block_rows=n), isotropic(4, 4.0))
    assert_allclose(model.log_evidence_, plain.log_evidence, rtol=1e-12, atol=4 * error)
    assert_allclose(model.posterior_.mean, plain.q.mean, rtol=1e-9, atol=error * 1e-3)
    cov = plain.q.precision.solve(np.eye(4))
    assert_allclose(model.posterior_.cov, cov, rtol=1e-8, atol=1e-12 + error * np.abs(cov).max())


PRIORS = pytest.mark.parametrize("prior", ["empirical", "ard", Normal(scale=1.5)], ids=repr)
MODELS = pytest.mark.parametrize("model", [LOGIT, PROBIT])


@MODELS
@PRIORS
def test_the_order_of_rows_does_not_matter(model, prior):
    X, y = rows_of()
    order = np.random.default_rng(3).permutation(len(y))
    plain, mixed = model(prior=prior).fit(X, y), model(prior=prior).fit(X[order], y[order])
    assert_allclose(mixed.log_evidence_, plain.log_evidence_, rtol=1e-12)
    assert_allclose(mixed.predict_log_proba(X), plain.predict_log_proba(X), rtol=1e-9)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_the_number_of_threads_changes_nothing_at_all(n_jobs):
    X, y = rows_of(n=90_000, d=3)  # large enough to be cut
    plain, threaded = (LOGIT(prior=Normal(), n_jobs=jobs).fit(X, y) for jobs in (1, n_jobs))
    assert threaded.log_evidence_ == plain.log_evidence_
    assert_array_equal(threaded.posterior_.mean, plain.posterior_.mean)


@MODELS
@PRIORS
def test_every_row_twice_is_every_weight_doubled(model, prior):
    X, y = rows_of(n=40)
    weight = np.random.default_rng(2).integers(1, 3, 40).astype(float)
    twice = model(prior=prior).fit(np.tile(X, (2, 1)), np.tile(y, 2), sample_weight=np.tile(weight, 2))
    doubled = model(prior=prior).fit(X, y, sample_weight=2 * weight)
    assert_allclose(doubled.log_evidence_, twice.log_evidence_, rtol=1e-11)
    assert_allclose(doubled.log_likelihood_, twice.log_likelihood_, rtol=1e-8)
    assert_allclose(doubled.predict_log_proba(X), twice.predict_log_proba(X), rtol=1e-8)


@MODELS
def test_a_row_of_weight_zero_is_not_there(model):
    X, y = rows_of(n=40)
    weight = np.arange(40) % 3.0
    kept = weight > 0
    weighted = model().fit(X, y, sample_weight=weight)
    without = model().fit(X[kept], y[kept], sample_weight=weight[kept])
    assert_allclose(weighted.log_evidence_, without.log_evidence_, rtol=1e-11)
    assert_allclose(weighted.predict_log_proba(X), without.predict_log_proba(X), rtol=1e-8)


UNITS = {
    "shift": st.floats(-50, 50),
    "factor": st.floats(0.01, 100).flatmap(lambda c: st.sampled_from([c, -c])),
    "column": st.integers(0, 2),
}


@pytest.mark.parametrize("prior", ["empirical", "ard"])
@MODELS
@given(**UNITS)
@settings(max_examples=8)
def test_units_change_a_coefficient_and_nothing_else(model, prior, shift, factor, column):
    X, y = rows_of(n=40)
    other = X.copy()
    other[:, column] = factor * X[:, column] + shift
    plain, changed = model(prior=prior).fit(X, y), model(prior=prior).fit(other, y)
    scales = np.ones(3)
    scales[column] = factor
    assert_allclose(changed.log_evidence_, plain.log_evidence_, rtol=1e-8)
    assert_allclose(changed.predict_proba(other), plain.predict_proba(X), rtol=1e-8, atol=1e-8)
    assert_allclose(changed.coef_ * scales, plain.coef_, rtol=1e-7, atol=1e-8)
    assert_allclose(changed.prior_scale_, plain.prior_scale_, rtol=1e-6)


def test_units_change_nothing_for_three_classes_either():
    X, y = rows_of(n=90, K=3)
    other = X * [3.0, 0.2, -7.0] + [100.0, 0.0, -5.0]
    plain, changed = LOGIT().fit(X, y), LOGIT().fit(other, y)
    assert_allclose(changed.log_evidence_, plain.log_evidence_, rtol=1e-8)
    assert_allclose(changed.predict_proba(other), plain.predict_proba(X), atol=1e-8)


def test_an_explicit_prior_is_in_the_units_of_the_data():
    """Scaling a column by c and its prior scale by 1/c is no change; scaling the column alone is one."""
    X, y = rows_of()
    plain = LOGIT(prior=Normal(scale=[1.0, 1.0, 1.0])).fit(X, y)
    scaled = LOGIT(prior=Normal(scale=[1.0, 1.0, 0.01])).fit(X * [1, 1, 100], y)
    alone = LOGIT(prior=Normal(scale=[1.0, 1.0, 1.0])).fit(X * [1, 1, 100], y)
    assert_allclose(scaled.log_evidence_, plain.log_evidence_, rtol=1e-11)
    assert abs(alone.log_evidence_ - plain.log_evidence_) > 0.1


# --- updates ------------------------------------------------------------------------------------------------


@MODELS
@PRIORS
def test_updating_with_one_batch_is_fitting(model, prior):
    X, y = rows_of()
    fitted, updated = model(prior=prior).fit(X, y), model(prior=prior).partial_fit(X, y)
    assert_array_equal(updated.posterior_.mean, fitted.posterior_.mean)
    assert_array_equal(updated.posterior_.cov, fitted.posterior_.cov)
    assert updated.log_evidence_ == fitted.log_evidence_


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.filterwarnings("ignore:partial_fit has drifted:credibly.errors.UnreliableWarning")
def test_a_second_batch_is_fitted_with_the_posterior_of_the_first_as_prior(K):
    X, y = rows_of(n=90, K=K)
    first = LOGIT(prior=Normal(scale=2.0), inference="laplace").fit(X[:50], y[:50])
    posterior = Normal(mean=first.posterior_.mean, cov=first.posterior_.cov)
    second = LOGIT(prior=posterior, inference="laplace").fit(X[50:], y[50:])
    updated = LOGIT(prior=Normal(scale=2.0), inference="laplace").partial_fit(X[:50], y[:50])
    updated.partial_fit(X[50:], y[50:])
    assert_allclose(updated.posterior_.mean, second.posterior_.mean, rtol=1e-7, atol=1e-9)
    assert_allclose(updated.posterior_.cov, second.posterior_.cov, rtol=1e-7, atol=1e-9)
    assert_allclose(updated.log_evidence_, first.log_evidence_ + second.log_evidence_, rtol=1e-9)
    assert_allclose(updated.log_likelihood_, first.log_likelihood_ + second.log_likelihood_, rtol=1e-9)


@MODELS
@pytest.mark.filterwarnings("ignore:partial_fit has drifted:credibly.errors.UnreliableWarning")
def test_two_batches_come_nearer_to_one_as_the_first_grows(model):
    """The recursion's only error is that of the Gaussian after the first batch, which fades as rows come in."""

    def distance(n: int) -> float:
        X, y = rows_of(n=n)
        whole = model(prior=Normal(scale=1.0)).fit(X, y)
        parts = model(prior=Normal(scale=1.0)).partial_fit(X[: n // 2], y[: n // 2])
        parts.partial_fit(X[n // 2 :], y[n // 2 :])
        return (np.abs(parts.posterior_.mean - whole.posterior_.mean) / whole.posterior_.std).max()

    assert distance(6400) < distance(100) / 2  # theory: a factor of 8


# --- the evidence and its gradient --------------------------------------------------------------------------


def evidence_problem(likelihood, kind: str, sparse: bool):
    """Rows in standardized coordinates, centred only if dense, and the family of priors over log scales."""
    K = getattr(likelihood, "n_classes", 1)
    X, y = rows_of(n=50, K=max(K, 2))
    rows = MemoryRows(csr_array(X) if sparse else X, y if K > 1 else y.astype(float), 0.5 + np.arange(50) % 3)
    columns = describe(rows)
    standard = Standardization.of(columns, intercept=True, sparse=sparse)
    design = Design(standard, ClassMap.contrasts(K) if K > 1 else ClassMap.separate(1), columns)
    priors = ScaledPriors(design, np.zeros(3, dtype=np.intp) if kind == "empirical" else np.arange(3))
    return lambda theta: Objective(rows, design, likelihood, priors.at(theta)), priors


def laplace_at(objective: Objective):
    return laplace(objective, objective.prior.mean)


def derivative_along(function, x: np.ndarray, axis: int, h: float = 1e-2) -> float:
    """Five-point central difference: truncation h⁴/30 · f⁽⁵⁾ ≈ 1e-9, rounding 1e-13/h ≈ 1e-11."""
    step = h * np.eye(len(x))[axis]
    near = function(x + step) - function(x - step)
    far = function(x + 2 * step) - function(x - 2 * step)
    return (8 * near - far) / (12 * h)


@LIKELIHOODS
@pytest.mark.parametrize("kind", ["empirical", "ard"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSR"])
def test_the_gradient_of_the_evidence_matches_central_differences(likelihood, kind, sparse):
    objective_at, priors = evidence_problem(likelihood, kind, sparse)
    theta = np.array([0.3, -0.4, 0.8])[: priors.n_scales]

    def log_evidence(at: np.ndarray) -> float:
        return laplace_at(objective_at(at)).log_evidence

    objective = objective_at(theta)
    q = laplace_at(objective).q
    gradient = scale_slope(priors, theta, q, mode_slope(objective, q))
    numerical = [derivative_along(log_evidence, theta, axis) for axis in range(len(theta))]
    assert_allclose(gradient, numerical, rtol=1e-7, atol=1e-8)


@LIKELIHOODS
def test_the_gradient_without_the_movement_of_the_mode_is_another_number(likelihood):
    """What is often left out: the curvature at the mode changes because the mode moves."""
    objective_at, priors = evidence_problem(likelihood, "ard", sparse=False)
    theta = np.array([0.3, -0.4, 0.8])
    q = laplace_at(objective_at(theta)).q
    full = scale_slope(priors, theta, q, mode_slope(objective_at(theta), q))
    assert np.abs(full - scale_slope(priors, theta, q, None)).max() > 1e-3


@MODELS
def test_the_learnt_scale_is_a_stationary_point_of_the_evidence(model):
    X, y = rows_of()
    best = model(inference="laplace").fit(X, y)

    def log_evidence(log_factor: np.ndarray) -> float:
        cov = np.array(best.prior_.cov)
        centre = X.mean(axis=0)
        slopes = np.sqrt(np.diag(cov)[:3]) * np.exp(log_factor[0])
        root = np.diag(np.append(slopes, 10.0))
        root[-1, :-1] = -slopes * centre
        prior = Normal(mean=np.zeros(4), cov=root @ root.T)
        return model(prior=prior, inference="laplace").fit(X, y).log_evidence_

    assert_allclose(log_evidence(np.zeros(1)), best.log_evidence_, rtol=1e-11)
    assert abs(derivative_along(log_evidence, np.zeros(1), 0)) < 1e-8
    assert best.log_evidence_ > max(log_evidence(np.array([step])) for step in (-0.5, 0.5))


@MODELS
@PRIORS
def test_the_evidence_is_the_likelihood_times_the_occam_factor(model, prior):
    """ln p(D) = ln p(D | ŵ) + [ln p(ŵ) + M/2 ln 2π - ½ ln det A], the bracket computed here in data units."""
    X, y = rows_of()
    fitted = model(prior=prior, inference="laplace").fit(X, y)
    w, cov = fitted.posterior_.mean, fitted.posterior_.cov
    prior_cov = fitted.prior_.cov
    log_prior = multivariate_normal(fitted.prior_.mean, prior_cov).logpdf(w)
    occam = log_prior + len(w) / 2 * np.log(2 * np.pi) + np.linalg.slogdet(cov)[1] / 2
    likelihood = BernoulliLogit() if model is LOGIT else BernoulliProbit()
    log_likelihood = likelihood.log_prob(y, with_ones(X) @ w).sum()
    assert_allclose(fitted.occam_factor_, occam, rtol=1e-9)
    assert_allclose(fitted.log_likelihood_, log_likelihood, rtol=1e-12)
    assert_allclose(fitted.log_evidence_, log_likelihood + occam, rtol=1e-10)


@pytest.mark.parametrize(("model", "K", "identified"), [(LOGIT, 2, 4), (PROBIT, 2, 4), (LOGIT, 3, 8)])
def test_the_effective_number_of_parameters_goes_from_none_to_all_that_are_identified(model, K, identified):
    X, y = rows_of(n=200, K=K)
    X = X / [0.1, 1.0, 10.0]

    def effective(scale: float) -> float:
        return model(prior=Normal(scale=scale, intercept_scale=scale)).fit(X, y).effective_parameters_

    numbers = [effective(scale) for scale in (1e-6, 1e-2, 1.0, 1e4)]
    assert np.all(np.diff(numbers) > 0)
    assert_allclose(numbers[0], 0, atol=1e-8)  # n · scale², at most
    assert_allclose(numbers[-1], identified, atol=1e-5)  # off by tr(S_N)/scale²


@MODELS
def test_effective_parameters_are_those_of_the_formula(model):
    X, y = rows_of()
    fitted = model(prior=Normal(scale=0.7)).fit(X, y)
    by_hand = 4 - np.trace(np.linalg.solve(np.asarray(fitted.prior_.cov), fitted.posterior_.cov))
    assert_allclose(fitted.effective_parameters_, by_hand, rtol=1e-10)


# --- the posterior as a distribution ------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def fitted(request):
    X, y = rows_of(n=80, K=request.param)
    return LOGIT(prior=Normal(scale=2.0)).fit(X, y)


def test_the_posterior_density_is_that_of_scipy(fitted):
    q = fitted.posterior_
    w = q.mean + np.random.default_rng(0).normal(size=(5, q.mean.size)) * q.std
    exact = multivariate_normal(q.mean, q.cov).logpdf(w)
    assert_allclose(q.logpdf(w), exact, rtol=1e-8)
    assert_allclose(q.logpdf(w[0]), exact[0], rtol=1e-8)


def test_draws_of_the_weights_have_the_posteriors_moments(fitted):
    q, n = fitted.posterior_, 40_000
    draws = q.sample(np.random.default_rng(0), n)
    z = (draws - q.mean) / q.std
    assert (np.abs(z.mean(axis=0)) < FIVE_STANDARD_ERRORS / np.sqrt(n)).all()
    correlation = q.cov / np.outer(q.std, q.std)
    error = np.sqrt((1 + correlation**2) / n)  # standard error of a product of two standard normals
    assert (np.abs(z.T @ z / n - correlation) < FIVE_STANDARD_ERRORS * error).all()


def test_projections_are_the_moments_of_the_scores(fitted):
    q = fitted.posterior_
    Phi = with_ones(rows_of(n=6, seed=9)[0])
    K = fitted.coef_.shape[0]
    mean, variance = q.project(Phi)
    blocks = q.cov.reshape(K, 4, K, 4)
    V = np.einsum("nd,kdje,ne->nkj", Phi, blocks, Phi)
    m = Phi @ q.mean.reshape(K, 4).T
    assert_allclose(mean, m if K > 1 else m[:, 0], rtol=1e-9, atol=1e-9)
    assert_allclose(variance, V if K > 1 else V[:, 0, 0], rtol=1e-7, atol=1e-8)


def test_intervals_of_the_weights_hold_their_level(fitted):
    q = fitted.posterior_
    lower, upper = q.interval(0.8).T
    assert_allclose(norm.cdf(lower, q.mean, q.std), 0.1, rtol=1e-12)
    assert_allclose(norm.cdf(upper, q.mean, q.std), 0.9, rtol=1e-12)
    assert_allclose(q.std, np.sqrt(np.diag(q.cov)), rtol=1e-12)


# --- predictions --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[(LOGIT, 2), (PROBIT, 2), (LOGIT, 3)], ids=["logit", "probit", "softmax"])
def drawn(request):
    """A model, a few rows, and many draws of their class probabilities."""
    model, K = request.param
    X, y = rows_of(n=80, K=K)
    fitted = model(prior=Normal(scale=2.0)).fit(X, y)
    rows = rows_of(n=5, seed=8)[0]
    return fitted, rows, fitted.sample_proba(rows, size=20_000, random_state=1)


def test_the_averaged_probability_is_the_mean_of_the_draws(drawn):
    model, X, draws = drawn
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert_allclose(draws.sum(axis=2), 1, rtol=1e-12)
    assert (np.abs(draws.mean(axis=0) - model.predict_proba(X)) < FIVE_STANDARD_ERRORS * error + 1e-12).all()


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_interval_of_a_probability_leaves_equal_shares_of_draws_outside(drawn, level):
    model, X, draws = drawn
    interval = model.predict_interval(X, level)
    probabilities = draws if interval.ndim == 3 else draws[:, :, 1]
    tail = (1 - level) / 2
    error = FIVE_STANDARD_ERRORS * np.sqrt(tail * (1 - tail) / len(draws))
    rank = 0 if interval.ndim == 2 else 2e-3  # quantiles of softmax come from 4096 points: rank error about 1e-3
    below, above = (probabilities < interval[..., 0]).mean(axis=0), (probabilities > interval[..., 1]).mean(axis=0)
    assert (np.abs(below - tail) < error + rank).all()
    assert (np.abs(above - tail) < error + rank).all()


def test_all_rows_of_a_draw_share_their_weights(drawn):
    model, X, _ = drawn
    draws = model.sample_proba(np.repeat(X[:1], 3, axis=0), size=4, random_state=0)
    assert_allclose(draws[:, 0], draws[:, 2], rtol=1e-12)
    assert np.ptp(draws[:, 0, 0]) > 0


@MODELS
def test_the_interval_is_the_link_of_the_latent_interval(model):
    X, y = rows_of()
    fitted = model().fit(X, y)
    mean, variance = fitted.predict_latent(X)
    link = (lambda f: 1 / (1 + np.exp(-f))) if model is LOGIT else norm.cdf
    half = norm.ppf(0.95) * np.sqrt(variance)
    stated = np.column_stack([link(mean - half), link(mean + half)])
    assert_allclose(fitted.predict_interval(X, 0.9), stated, rtol=1e-10)


def test_the_averaged_probit_has_its_closed_form():
    X, y = rows_of()
    fitted = PROBIT().fit(X, y)
    mean, variance = fitted.predict_latent(X)
    assert_allclose(fitted.predict_proba(X)[:, 1], norm.cdf(mean / np.sqrt(1 + variance)), rtol=1e-12)


def test_the_averaged_logit_is_the_integral_it_stands_for():
    X, y = rows_of()
    fitted = LOGIT().fit(X, y)
    for x in X[:5]:
        (m,), (v,) = fitted.predict_latent(x[None])
        exact = quad(lambda f: norm.pdf(f, m, v**0.5) / (1 + np.exp(-f)), m - 12 * v**0.5, m + 12 * v**0.5)[0]  # noqa: B023
        assert_allclose(fitted.predict_proba(x[None])[0, 1], exact, rtol=1e-9)


def test_far_from_the_data_the_log_probability_of_the_unlikely_class_is_still_right():
    X, y = rows_of()
    far = np.array([[0.0, -1e4, 0.0]])
    probit = PROBIT(prior=Normal(scale=0.5)).fit(X, y)
    mean, variance = probit.predict_latent(far)
    z = mean / np.sqrt(1 + variance)
    assert_allclose(probit.predict_log_proba(far), np.column_stack([norm.logcdf(-z), norm.logcdf(z)]), rtol=1e-10)


def test_mackays_approximation_is_within_its_known_error_of_the_exact_average():
    m, v = np.meshgrid(np.linspace(0, 8, 33), np.geomspace(0.1, 64, 25))
    gap = np.abs(averages.mackay_sigmoid(m, v) - averages.sigmoid(m, v)).max()
    assert 0.01 < gap < 0.02  # MISSION 2.2: at most .015 over this range


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("reject_cost", [None, 0.3, 5.0])
def test_decisions_have_the_least_expected_cost(K, reject_cost):
    X, y = rows_of(n=60, K=K)
    labels = np.array(["a", "b", "c"])[:K]
    fitted = LOGIT(prior=Normal()).fit(X, labels[y])
    costs = np.random.default_rng(0).uniform(0, 1, (K, K)) * (1 - np.eye(K)) * 2
    decided = fitted.decide(X, costs, reject_cost=reject_cost, reject_label="?")
    for p, label in zip(fitted.predict_proba(X), decided, strict=True):
        expected = {name: sum(p[i] * costs[i, j] for i in range(K)) for j, name in enumerate(labels)}
        if reject_cost is not None:
            expected["?"] = reject_cost
        assert expected[label] == pytest.approx(min(expected.values()), rel=1e-12)


# --- stochastic gradient ------------------------------------------------------------------------------------


@MODELS
def test_stochastic_gradient_ends_near_newtons_mode_and_says_how_near(model):
    X, y = rows_of(n=2000)
    prior = Normal(scale=2.0)
    mode = model(prior=prior).fit(X, y)
    walked = model(prior=prior, solver="sgd", random_state=0).fit(X, y)
    gap = walked.posterior_.mean - mode.posterior_.mean
    distance = np.sqrt(gap @ np.linalg.solve(walked.posterior_.cov, gap))
    assert walked.status_ is Status.NEAR_MODE
    assert walked.distance_to_mode_ <= 0.1
    # δ is the distance by the local quadratic, which is right to first order in itself
    assert_allclose(walked.distance_to_mode_, distance, rtol=0.1)
    assert_allclose(walked.log_evidence_, mode.log_evidence_, atol=0.02)  # δ²/2 and the change of curvature


def test_stochastic_gradient_repeats_itself_with_the_same_seed():
    X, y = rows_of(n=2000)
    one, two = (LOGIT(prior=Normal(), solver="sgd", random_state=4).fit(X, y) for _ in range(2))
    assert_array_equal(one.posterior_.mean, two.posterior_.mean)


@pytest.mark.parametrize("n", [100, 400])
def test_stochastic_gradient_goes_to_the_mode_of_the_weighted_rows(n):
    """Weights that depend on the label move the mode, and must move every batch's gradient alike."""
    X, y = rows_of(n=n)
    weight = np.where(y == 1, 9.0, 1.0)
    walked = LOGIT(prior=Normal(scale=1.0), solver="sgd", max_iter=200, random_state=0)
    assert walked.fit(X, y, sample_weight=weight).status_ is Status.NEAR_MODE


def test_batches_without_any_weight_do_not_stop_stochastic_gradient():
    """One row in a hundred counts: most batches of 64 hold one or none."""
    X, y = rows_of(n=4000)
    weight = np.where(np.arange(4000) % 100 == 0, 50.0, 0.0)
    prior = Normal(scale=1.0)
    mode = LOGIT(prior=prior).fit(X, y, sample_weight=weight)
    walked = LOGIT(prior=prior, solver="sgd", max_iter=1000, random_state=0).fit(X, y, sample_weight=weight)
    gap = (walked.posterior_.mean - mode.posterior_.mean) / mode.posterior_.std
    assert np.abs(gap).max() < 0.2  # it stops within a tenth of a standard deviation
