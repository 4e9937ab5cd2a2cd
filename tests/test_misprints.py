"""Formulas that the notes print wrongly (MISSION section 2): the library has the right one, and not the printed one.

Each test computes both by hand and asks the library which it uses. E-9 is in `numerics/test_special.py`, the
misprints of Gaussian averages (E-13, E-14, E-39) in `numerics/test_averages.py`; undamped Newton (E-5) is also in
`laws/test_newton.py`, and the claims of the notes about generative models in `estimators/test_generative_claims.py`.
"""

import itertools

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import multivariate_normal, norm, pareto
from sklearn.pipeline import make_pipeline

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    GenerativeClassifier,
    LinearDiscriminant,
    NaiveBayes,
    Normal,
    QuadraticDiscriminant,
)
from credibly.basis import GaussianBasis
from credibly.class_conditionals import Exponential
from credibly.class_conditionals import Gamma as GammaColumns
from credibly.data.rows import MemoryRows
from credibly.errors import InputError, NoEvidenceError
from credibly.inference.ep import expectation_propagation
from credibly.inference.gaussian import Gaussian
from credibly.inference.latent import Precision
from credibly.inference.latent_laplace import Latents
from credibly.inference.latent_newton import Point
from credibly.inference.linear.laplace import laplace
from credibly.inference.linear.objective import Objective
from credibly.kernels import RBF, Constant, Linear, White
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical
from credibly.model.likelihoods.families import Gamma
from credibly.model.likelihoods.label_noise import LabelNoise
from credibly.numerics import softmax_averages
from credibly.numerics.linalg import PSD
from helpers import UnitGaussian, raw_objective

LOG_2PI = np.log(2 * np.pi)


def rows_of(n: int = 40, d: int = 2, K: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)


def with_ones(X: np.ndarray) -> np.ndarray:
    return np.column_stack([X, np.ones(len(X))])


def differ(one, other, by: float) -> bool:
    return float(np.abs(np.asarray(one) - np.asarray(other)).max()) > by


def objective(likelihood, X, y, mean, precision) -> Objective:
    prior = Gaussian(np.asarray(mean, dtype=float), PSD.of(np.atleast_2d(precision).astype(float), "a prior"))
    return raw_objective(likelihood, MemoryRows(X, y), prior)


def differences(function, x: np.ndarray) -> np.ndarray:
    """Jacobian by central differences; h is the cube root of eps, so that it is right to about 1e-10."""
    h = np.finfo(float).eps ** (1 / 3)
    return np.stack([(function(x + e) - function(x - e)) / (2 * h) for e in h * np.eye(len(x))], axis=-1)


# --- softmax ------------------------------------------------------------------------------------------------


def test_e1_every_class_has_its_own_weights():
    """a_k = w_kᵀφ; printed wᵀφ, which would make all classes equally probable."""
    X, y = rows_of(K=3)
    model = BayesianLogisticRegression(prior=Normal()).fit(X, y)
    W = model.posterior_.mean.reshape(3, -1)
    assert_allclose(model.predict_latent(X)[0], with_ones(X) @ W.T, rtol=1e-10, atol=1e-12)
    assert differ(model.predict_proba(X), 1 / 3, by=0.1)


def test_e2_the_softmax_jacobian_has_probabilities_in_both_places():
    """dy_k/da_j = y_k(δ_kj - y_j); printed y_k(δ_kj - a_j)."""
    a = np.array([0.3, -0.4, 0.9])
    likelihood = Categorical(3)
    y = likelihood.mean(a)
    jacobian = differences(likelihood.mean, a)
    assert_allclose(y[:, None] * (np.eye(3) - y), jacobian, atol=1e-9)
    assert_allclose(likelihood.curvature(y), jacobian, atol=1e-9)
    assert differ(y[:, None] * (np.eye(3) - a), jacobian, by=0.1)


def test_e3_the_softmax_hessian_is_positive():
    """H_jk = +Σ y_nk(δ_kj - y_nj) φφᵀ; printed with a minus."""
    X, y = rows_of(K=3)
    log_joint = objective(Categorical(3), X, y, np.zeros(6), np.eye(6))
    w = np.linspace(-1, 1, 6)
    p = Categorical(3).mean(X @ w.reshape(3, 2).T)
    right = np.einsum("nk,nkj,nd,ne->kdje", p, np.eye(3) - p[:, None, :], X, X).reshape(6, 6)
    hessian = log_joint.expand(w).hessian.matrix - np.eye(6)
    assert_allclose(hessian, right, rtol=1e-10, atol=1e-10)
    assert_allclose(hessian, differences(lambda x: log_joint.expand(x).grad, w) - np.eye(6), rtol=1e-7, atol=1e-7)
    assert np.linalg.eigvalsh(hessian).min() > -1e-12
    assert differ(-right, hessian, by=1.0)


def test_e4_the_joint_softmax_hessian_is_singular_and_more_so_when_columns_are_dependent():
    """Rank M(K-1) at most; with dependent columns uᵀHu = 0 does not mean that all u_k are equal."""
    X, y = rows_of(K=3)
    H = raw_objective(Categorical(3), MemoryRows(X, y), None).expected_information(np.zeros(6))
    assert np.linalg.matrix_rank(H) == 2 * (3 - 1)

    dependent = np.column_stack([X[:, 0], 2 * X[:, 0]])
    H = raw_objective(Categorical(3), MemoryRows(dependent, y), None).expected_information(np.zeros(6))
    u = np.array([[2.0, -1.0], [0.0, 0.0], [-4.0, 2.0]])  # unequal, but φᵀu_k = 0 for every row
    assert abs(u.reshape(-1) @ H @ u.reshape(-1)) < 1e-12
    BayesianLogisticRegression(prior=Normal()).fit(dependent, y)  # a prior makes it regular
    BayesianLogisticRegression(prior=None).fit(X, y)  # and so does the sum-to-zero convention


# --- logistic regression ------------------------------------------------------------------------------------


def test_e5_the_weights_of_irls_are_at_most_a_quarter_and_may_vanish():
    """0 < R ≤ ¼, and R underflows: z = Φw - R⁻¹(y - t) must never be formed. Printed: 0 < R < 1."""
    f = np.linspace(-30, 30, 61)
    _, R = BernoulliLogit().slopes(1, f)
    assert 0 < R.min() and R.max() == 0.25
    grad, R = BernoulliLogit().slopes(0, np.array([800.0]))
    assert R == 0.0 and grad == -1.0  # the working response would be -1/0
    start = np.array([800.0])
    wrong_side = objective(BernoulliLogit(), np.array([[1.0], [2.0]]), np.zeros(2), [0.0], [[1e-2]])
    assert laplace(wrong_side, start).status.good


def test_e6_the_probability_is_that_of_class_one():
    """y_n = p(C₁ | φ_n), C₁ the class coded 1; printed p(C_k | φ_n)."""
    X = np.arange(8.0)[:, None]
    model = BayesianLogisticRegression().fit(X, np.repeat(["a", "b"], 4))
    assert model.coef_[0, 0] > 0
    assert (np.diff(model.predict_proba(X)[:, 1]) > 0).all()
    assert list(model.classes_) == ["a", "b"]
    assert_allclose(BernoulliLogit().mean(2.0), np.exp(BernoulliLogit().log_prob(1, 2.0)), rtol=1e-14)


def test_e7_label_noise_flips_the_sigmoid_of_the_score_and_is_identified_below_one_half():
    """p(t=1 | x) = ε + (1-2ε) σ(a(x)), printed with σ(x); (ε, w) and (1-ε, -w) are one model, so ε < 1/2."""
    f = np.linspace(-6, 6, 13)
    for y in (0.0, 1.0):
        noisy = LabelNoise(BernoulliLogit(), 0.1, 0.1).log_prob(y, f)
        assert_allclose(np.exp(noisy), 0.1 + 0.8 / (1 + np.exp(-(2 * y - 1) * f)), rtol=1e-14)
        assert_allclose(LabelNoise(BernoulliLogit(), 0.9, 0.9).log_prob(y, -f), noisy, rtol=1e-13)
    X, y = rows_of()
    with pytest.raises(InputError, match="classes change places"):
        BayesianLogisticRegression(label_noise=0.9).fit(X, y)


def test_e8_phi_is_the_inverse_link_of_the_probit_model():
    """probit = Φ⁻¹; the notes call Φ itself the probit function."""
    X, y = rows_of()
    model = BayesianProbitRegression(prior=None).fit(X, y)
    score = X @ model.coef_[0] + model.intercept_[0]
    p = model.predict_proba(X)[:, 1]
    assert_allclose(norm.ppf(p), score, rtol=1e-7, atol=1e-9)
    assert differ(norm.cdf(p), score, by=0.1)


# --- generative models --------------------------------------------------------------------------------------


def log_joint(model, X) -> np.ndarray:
    """log p(x, c), (n, K), by the library: log p(c | x) + log p(x)."""
    return model.predict_log_proba(X) + model.score_samples(X)[:, None]


def test_e15_the_bias_of_naive_bayes_sums_logs_of_ratios_over_columns():
    """W₀ = log π₁/π₀ + Σ_j log (1-θ₁j)/(1-θ₀j), D terms; printed: log(1-θ₁)/log(1-θ₀), summed over n rows."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [25, 15])
    X = (rng.random((40, 3)) < np.where(y[:, None] == 1, [0.7, 0.4, 0.3], [0.2, 0.5, 0.6])).astype(float)
    model = NaiveBayes(features="bernoulli", parameters="plugin").fit(X, y)
    theta = np.array([X[y == c].mean(axis=0) for c in (0, 1)])
    right = np.log(15 / 25) + np.log((1 - theta[1]) / (1 - theta[0])).sum()
    weights = np.log(theta[1] / (1 - theta[1])) - np.log(theta[0] / (1 - theta[0]))
    assert_allclose(model.intercept_[0], right, rtol=1e-12)
    assert_allclose(model.coef_[0], weights, rtol=1e-12)
    assert_allclose(np.diff(model.predict_log_proba(X), axis=1)[:, 0], X @ weights + right, rtol=1e-10, atol=1e-12)
    ratios = (np.log(1 - theta[1]) / np.log(1 - theta[0])).sum()
    assert differ(model.intercept_, np.log(15 / 25) + ratios, by=1.0)
    per_row = np.log((1 - theta[1]) / (1 - theta[0])).mean() * len(y)  # n terms in place of D
    assert differ(model.intercept_, np.log(15 / 25) + per_row, by=1.0)


def test_e16_the_joint_density_of_lda_has_minus_one_half_in_the_exponent():
    """exp(-½ xᵀΣ⁻¹x); printed exp(-xᵀΣ⁻¹x), then exp(+xᵀΣ⁻¹x). It cancels in p(c | x), not in p(x, c)."""
    X, y = rows_of()
    model = LinearDiscriminant(parameters="plugin").fit(X, y)
    S = model.covariance_
    quadratic = (X * np.linalg.solve(S, X.T).T).sum(axis=1)
    beta = np.linalg.solve(S, model.means_.T)
    gamma = np.log(model.class_prior_) - (model.means_.T * beta).sum(axis=0) / 2
    constant = -LOG_2PI - np.linalg.slogdet(S)[1] / 2  # d = 2
    for factor in (-0.5, -1.0, 1.0):
        joint = constant + factor * quadratic[:, None] + X @ beta + gamma
        log_posterior = joint - np.logaddexp.reduce(joint, axis=1)[:, None]
        assert_allclose(model.predict_log_proba(X), log_posterior, rtol=1e-9, atol=1e-11)  # whichever it is
        if factor == -0.5:
            assert_allclose(log_joint(model, X), joint, rtol=1e-10, atol=1e-11)
            direct = [multivariate_normal(m, S).logpdf(X) for m in model.means_]
            assert_allclose(joint, np.transpose(direct) + np.log(model.class_prior_), rtol=1e-10, atol=1e-11)
        else:
            assert differ(log_joint(model, X), joint, by=1.0)


def test_e17_the_sum_over_classes_has_the_slope_of_every_class():
    """exp(β_c'ᵀx + γ_c') summed over c'; printed with β_c, the slope of the one class, in every term."""
    X, y = rows_of(K=3)
    model = LinearDiscriminant(parameters="plugin").fit(X, y)
    f = X @ model.coef_.T  # (n, K)
    right = np.exp(f + model.intercept_) / np.exp(f + model.intercept_).sum(axis=1, keepdims=True)
    printed = np.exp(f + model.intercept_) / (np.exp(f) * np.exp(model.intercept_).sum())
    assert_allclose(model.predict_proba(X), right, rtol=1e-9)
    assert differ(model.predict_proba(X), printed, by=0.1)
    assert_allclose(np.ptp(printed, axis=0), 0, atol=1e-12)  # it would not depend on x at all


def test_e18_the_base_measure_of_the_normal_divides_by_root_two_pi():
    """h(x) = (2π)^-½, η = (μ/s², -1/(2s²)), u = (x, x²); printed (2π)^+½: a density of 1.719 in place of 0.2736."""
    x = np.array([-1.0, 0.2, 1.4, 3.0])
    model = NaiveBayes(features="gaussian", parameters="plugin").partial_fit(x[:, None], np.zeros(4))
    mean, s2 = x.mean(), x.var()
    log_g = -(mean**2) / (2 * s2) - np.log(s2) / 2
    tilt = mean / s2 * x - x**2 / (2 * s2) + log_g
    found = model.score_samples(x[:, None])  # one class: the log density itself
    assert_allclose(found, tilt - LOG_2PI / 2, rtol=1e-12)
    assert_allclose(found, norm.logpdf(x, mean, np.sqrt(s2)), rtol=1e-12)
    assert differ(found, tilt + LOG_2PI / 2, by=1.8)
    assert quad(lambda t: np.exp(model.score_samples([[t]])[0]), -30, 30)[0] == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("family", [Exponential(), GammaColumns(2.5)], ids=repr)
def test_e19_the_separator_of_exponential_and_gamma_columns_carries_the_scale(family):
    """With λ = -s · rate the slope is (λ₁ - λ₀)/s for every s, and the offset ln g(λ₁)/g(λ₀); printed without 1/s."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    X = rng.gamma(2.5, np.where(y == 1, 1.5, 0.5)[:, None], size=(40, 2))
    model = GenerativeClassifier(family, parameters="plugin").fit(X, y)
    k = 1.0 if family == Exponential() else 2.5
    rates = np.array([k / X[y == c].mean(axis=0) for c in (0, 1)])
    s = 2.5
    natural = -s * rates
    assert_allclose(model.coef_[0], (natural[1] - natural[0]) / s, rtol=1e-12)
    assert_allclose(model.intercept_[0], k * np.log(natural[1] / natural[0]).sum(), rtol=1e-12)  # equal classes
    assert differ(model.coef_[0], natural[1] - natural[0], by=0.1)
    # In R^D the density has the factor s^-D: D = 2, and g(λ) = Π (-λ_j)^k with x measured in units of s.
    in_units = np.log(-natural[0] / s) * k - np.log(-natural[0]) * k
    assert_allclose(in_units.sum(), -2 * k * np.log(s), rtol=1e-12)


def test_e20_rows_are_vectors_whose_transpose_comes_first():
    """(x-μ)ᵀΣ⁻¹(x-μ) and xᵀ(β₁-β₀) are numbers for columns x; as printed they do not exist, or are matrices."""
    X, y = rows_of(d=3)
    quadratic = QuadraticDiscriminant(parameters="plugin", class_prior="uniform").fit(X, y)
    linear = LinearDiscriminant(parameters="plugin").fit(X, y)
    x = X[:1].T  # a column, as μ and Σ are made of
    for c in (0, 1):
        gap, S = x - quadratic.means_[c][:, None], quadratic.covariance_[c]
        distance = (gap.T @ np.linalg.solve(S, gap)).item()
        log_density = log_joint(quadratic, X[:1])[0, c] + np.log(2)
        expected = -distance / 2 - np.linalg.slogdet(S)[1] / 2 - 3 / 2 * LOG_2PI
        assert_allclose(log_density, expected, rtol=1e-10)
        with pytest.raises(ValueError, match=r"mismatch|dimension"):
            gap @ np.linalg.solve(S, np.eye(3)) @ gap.T
    beta = linear.coef_.T  # β₁ - β₀
    log_odds = np.diff(linear.predict_log_proba(X[:1]), axis=1).item()
    assert_allclose((x.T @ beta).item() + linear.intercept_[0], log_odds, rtol=1e-10)
    assert (x @ beta.T).shape == (3, 3)  # x(β₁-β₀)ᵀ of columns: no score


@pytest.mark.parametrize("K", [2, 3, 5])
def test_e30_naive_bayes_of_k_classes_has_kd_plus_k_minus_1_parameters(K):
    """K probabilities per column and a categorical label, printed 2D parameters and a Bernoulli label."""
    rng = np.random.default_rng(0)
    D, y = 4, np.arange(60) % K
    X = rng.integers(2, size=(60, D))
    model = NaiveBayes(features="bernoulli", parameters="plugin").fit(X, y)
    count = (model.aic_ + 2 * model.log_likelihood_) / 2
    assert_allclose(count, K * D + K - 1)
    assert abs(count - 2 * D) >= 1
    assert_allclose(model.class_prior_, np.bincount(y) / 60, rtol=1e-14)  # a categorical: K values that sum to one
    assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-12)


# --- exponential families and generalised linear models ----------------------------------------------------


def test_e19_the_log_odds_of_two_exponential_densities_carry_the_scale():
    """(1/s)(λ₁ - λ₀)x + ln g(λ₁)/g(λ₀) for p(x) = (1/s) g(λ) e^(λx/s); printed without 1/s. In R^D it is s^-D."""
    s, low, high = 2.5, -0.8, -1.7  # g(λ) = -λ: exponential densities of mean -s/λ
    x = np.array([0.3, 1.0, 4.0])
    right = (high - low) * x / s + np.log(high / low)
    log_density = [Gamma().log_density(x, np.full(3, -s / natural), 1.0) for natural in (low, high)]
    assert_allclose(log_density[1] - log_density[0], right, rtol=1e-13)
    assert differ(right, (high - low) * x + np.log(high / low), by=0.1)
    assert_allclose(quad(lambda t: -low / s * np.exp(low * t / s), 0, np.inf)[0] ** 2, 1, rtol=1e-10)  # D = 2: s^-2


def test_e27_a_family_whose_support_depends_on_its_parameter_has_a_conjugate_prior_too():
    """Uniform(0, θ) is no exponential family; with a Pareto(b, k) prior its posterior is Pareto(max(b, x), k + n)."""
    x, b, k = np.array([1.2, 0.4, 2.2]), 1.0, 3.0
    theta = np.linspace(2.3, 9.0, 20)
    log_joint = pareto.logpdf(theta, k, scale=b) - len(x) * np.log(theta)
    conjugate = pareto.logpdf(theta, k + len(x), scale=max(b, x.max()))
    assert_allclose(np.diff(log_joint), np.diff(conjugate), rtol=1e-12)


def test_e28_sigmoid_outputs_are_pushed_to_zero_and_one():
    """Not to -1 and +1: what separated classes without much of a prior do."""
    X, y = np.arange(8.0)[:, None], np.repeat([0, 1], 4)
    model = BayesianLogisticRegression(prior=Normal(scale=1e3, intercept_scale=1e4)).fit(X, y)
    outputs = expit(X @ model.coef_[0] + model.intercept_[0])
    assert_allclose(outputs, y, atol=1e-3)
    assert BernoulliLogit().mean(np.array(-1e3)) == 0 and BernoulliLogit().mean(np.array(1e3)) == 1


def test_e29_the_fit_depends_on_the_variance_function_and_errors_need_a_sandwich():
    """One link, one set of rows: other families weigh rows otherwise; with too much variance a Poisson's errors lie."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 1))
    mean = np.exp(1 + 0.4 * x[:, 0])
    y = rng.negative_binomial(0.8, 0.8 / (0.8 + mean)) + 0.0
    fits = {f: BayesianGLM(f, "log", prior=None).fit(x, y + 1e-3 * (f == "gamma")) for f in ("poisson", "gaussian")}
    assert differ(fits["poisson"].coef_, fits["gaussian"].coef_, by=0.01)
    model, robust = fits["poisson"].standard_errors_, np.sqrt(np.diag(fits["poisson"].covariance("robust")))
    assert (robust > 1.5 * model).all()
    proper = BayesianGLM("negative_binomial", prior=None).fit(x, y)
    assert_allclose(robust, proper.standard_errors_, rtol=0.25)  # both right for these rows, both estimated


def test_e30_a_label_of_k_classes_is_categorical():
    """One of K values with probabilities that sum to one: K - 1 free ones; printed as a Bernoulli with a vector."""
    f = np.random.default_rng(0).normal(size=(4, 5))
    total = sum(np.exp(Categorical(5).log_prob(np.full(4, k), f)) for k in range(5))
    assert_allclose(total, 1, rtol=1e-14)
    X, y = rows_of(n=60, d=3, K=4)
    model = BayesianLogisticRegression(prior=None).fit(X, y)
    assert_allclose((model.aic_ + 2 * model.log_likelihood_) / 2, (4 - 1) * (3 + 1))


# --- Laplace: PRML figure 4.14 as a Bayesian model with one row ---------------------------------------------


def figure_4_14():
    """exp(-z²/2) σ(20z + 4): one row x = 20 of class 1, w = z + 1/5, prior N(1/5, 1)."""
    return laplace(objective(BernoulliLogit(), np.array([[20.0]]), np.ones(1), [0.2], [[1.0]]), np.array([0.2]))


def density(z: float) -> float:
    return np.exp(-(z**2) / 2) * expit(20 * z + 4)


def test_e10_laplace_expands_the_logarithm_of_the_density():
    """ln f(z) ≈ ln f(z₀) - …; printed f(z₀) - …, which turns Z = 1.561 into 4.24."""
    result = figure_4_14()
    z0, A = result.q.mean[0] - 0.2, result.q.precision.matrix[0, 0]
    assert_allclose(z0, 0.0774796, atol=5e-8)
    log_Z = result.log_evidence + LOG_2PI / 2  # the density leaves out the prior's constant
    assert_allclose(np.exp(log_Z), 1.5609076, atol=5e-8)
    assert_allclose(log_Z, np.log(density(z0)) + np.log(2 * np.pi / A) / 2, rtol=1e-12)
    printed = np.exp(density(z0)) * np.sqrt(2 * np.pi / A)
    assert printed == pytest.approx(4.24, abs=0.01)
    assert quad(density, -10, 10)[0] == pytest.approx(1.4511894, abs=1e-7)  # the truth is near neither by accident


def test_e11_the_second_derivative_of_the_log_density_is_negative():
    """A = -d² ln f > 0; printed: "the second derivative is positive"."""
    A = figure_4_14().q.precision.matrix[0, 0]
    assert_allclose(A, 2.543589, atol=5e-7)
    z, h = 0.0774796, 1e-4  # second differences: h⁴ rounding and truncation meet near 1e-4
    second = (np.log(density(z + h)) - 2 * np.log(density(z)) + np.log(density(z - h))) / h**2
    assert_allclose(second, -A, rtol=1e-5)


def test_e31_the_normaliser_integrates_a_falling_exponential():
    """Z ≈ f(z₀) ∫ exp{-½ A (z - z₀)²} dz; printed with a plus, which has no value."""
    result = figure_4_14()
    z0, A = result.q.mean[0] - 0.2, result.q.precision.matrix[0, 0]
    falling = quad(lambda z: np.exp(-A * (z - z0) ** 2 / 2), -20, 20)[0]
    assert_allclose(result.log_evidence + LOG_2PI / 2, np.log(density(z0) * falling), rtol=1e-10)
    rising = [quad(lambda z: np.exp(A * (z - z0) ** 2 / 2), z0 - width, z0 + width)[0] for width in (2, 3, 4)]
    assert rising[1] > 100 * rising[0]
    assert rising[2] > 100 * rising[1]


def test_e32_the_curvature_is_that_of_the_logarithm():
    """A = -∇∇ ln[p(D|θ)p(θ)]; printed -∇∇ p(D|θ)p(θ), which has another unit and another value."""
    A, z, h = figure_4_14().q.precision.matrix[0, 0], 0.0774796, 1e-4  # as for E-11
    printed = -(density(z + h) - 2 * density(z) + density(z - h)) / h**2
    assert_allclose(printed, density(z) * A, rtol=1e-5)  # at the mode: off by the factor f(z₀)
    assert abs(printed / A - 1) > 0.005  # 0.7 %; were the density not normalised, any factor


def test_e12_and_e37_the_prior_pulls_towards_its_mean_from_both_sides():
    """ln p(w) = … - ½(w - m₀)ᵀS₀⁻¹(w - m₀); printed once with m for m₀, once with a plus."""
    X, y = rows_of()
    m0, S0 = np.array([1.0, -2.0, 0.5]), np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
    model = BayesianLogisticRegression(prior=Normal(mean=m0, cov=S0), inference="laplace").fit(X, y)
    w, Phi = model.posterior_.mean, with_ones(X)
    score = Phi.T @ (y - expit(Phi @ w))
    assert_allclose(np.linalg.solve(S0, w - m0), score, atol=1e-8)  # the gradient of the right log posterior is zero
    assert differ(np.linalg.solve(S0, w), score, by=0.1)
    assert differ(-np.linalg.solve(S0, w - m0), score, by=0.1)

    log_joint = objective(BernoulliLogit(), Phi, y.astype(float), m0, np.linalg.solve(S0, np.eye(3)))
    far = w + np.array([200.0, 0.0, 0.0])
    gap = far - m0
    log_likelihood = log_expit((2 * y - 1) * (Phi @ far)).sum()
    right = log_likelihood + multivariate_normal(m0, S0).logpdf(far)
    assert_allclose(-log_joint.expand(far).value, right, rtol=1e-12)
    printed = right + gap @ np.linalg.solve(S0, gap)
    assert printed > 0 > right  # the printed objective grows without bound


# --- MAP and penalties --------------------------------------------------------------------------------------


def test_e21_the_penalty_of_a_normal_prior_is_one_over_twice_its_variance():
    """argmin NLL + λwᵀw with λ = 1/(2 s₀²); the gradient that vanishes is that of the log posterior."""
    X, y = rows_of(n=15)
    model = BayesianLogisticRegression(prior=Normal(scale=2.0), fit_intercept=False, inference="laplace").fit(X, y)

    def penalised(penalty: float) -> np.ndarray:
        def loss(w):
            return -log_expit((2 * y - 1) * (X @ w)).sum() + penalty * w @ w

        return minimize(loss, np.zeros(2), tol=1e-12).x

    assert_allclose(model.coef_[0], penalised(1 / 8), atol=1e-5)  # the optimiser's own accuracy
    assert differ(model.coef_[0], penalised(1 / 4), by=0.01)
    w = model.coef_[0]
    of_likelihood = X.T @ (expit(X @ w) - y)
    assert_allclose(of_likelihood + w / 4, 0, atol=1e-9)
    assert differ(of_likelihood, 0, by=0.01)


def test_e22_two_classes_at_equal_costs_are_decided_as_at_the_mode():
    X, y = rows_of()
    for kind, likelihood in (
        (BayesianLogisticRegression, BernoulliLogit()),
        (BayesianProbitRegression, BernoulliProbit()),
    ):
        model = kind(prior=Normal(), inference="laplace").fit(X, y)
        score, variance = model.predict_latent(X)
        assert (variance > 0).all()
        assert ((model.predict_proba(X)[:, 1] > 0.5) == (score > 0)).all()
        assert ((model.decide(X, 1 - np.eye(2)) == 1) == (likelihood.mean(score) > 0.5)).all()


def test_e22_three_classes_are_not():
    mean, V = np.array([[0.0, -0.3, 0.0]]), np.diag([0.0, 16.0, 0.0])[None]
    plug_in, averaged = Categorical(3).mean(mean)[0], softmax_averages.softmax(mean, V)[0]
    assert_allclose(plug_in, [0.365, 0.270, 0.365], atol=5e-4)  # as stored, to three digits
    assert_allclose(averaged, [0.295, 0.410, 0.295], atol=6e-4)  # and the library's 1e-4
    assert plug_in.argmax() != averaged.argmax()


def test_e22_two_classes_at_unequal_costs_are_not():
    X, y = rows_of()
    model = BayesianLogisticRegression(prior=Normal(), inference="laplace").fit(X, y)
    grid = np.array(list(itertools.product(np.linspace(-8, 8, 41), repeat=2)))
    costs = np.array([[0.0, 1.0], [9.0, 0.0]])  # act on class 1 from a probability of a tenth
    at_mode = expit(model.predict_latent(grid)[0]) > 0.1
    averaged = model.decide(grid, costs) == 1
    assert (averaged != at_mode).any()
    assert (averaged >= at_mode).all()  # averaging moves every probability towards a half


# --- evidence -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    X, y = rows_of()
    return BayesianLogisticRegression(prior=Normal(scale=1.5), inference="laplace").fit(X, y), X, y


def test_e23_the_occam_factor_is_the_last_three_terms(fitted):
    """ln p(ŵ) + M/2 ln 2π - ½ ln det A; "the second two terms" leave the prior out."""
    model, _, _ = fitted
    w, cov = model.posterior_.mean, model.posterior_.cov
    log_prior = multivariate_normal(model.prior_.mean, model.prior_.cov).logpdf(w)
    two = len(w) / 2 * LOG_2PI + np.linalg.slogdet(cov)[1] / 2
    assert_allclose(model.occam_factor_, log_prior + two, rtol=1e-10)
    assert abs(model.occam_factor_ - two) > 1


def test_e24_at_equal_fit_a_wider_posterior_raises_the_evidence():
    """-½ ln det H = +½ ln det S_N. All targets are zero, so that mode, fit and prior density are the same."""

    def result(spread: float):
        X = spread * np.ones((5, 1))
        return laplace(objective(UnitGaussian(), X, np.zeros(5), [0.0], [[1.0]]), np.zeros(1))

    wide, narrow = result(0.1), result(2.0)
    assert wide.log_likelihood == narrow.log_likelihood
    assert wide.q.precision.logdet < narrow.q.precision.logdet
    assert wide.log_evidence > narrow.log_evidence
    for at, spread in ((wide, 0.1), (narrow, 2.0)):
        exact = multivariate_normal(np.zeros(5), np.eye(5) + spread**2 * np.ones((5, 5))).logpdf(np.zeros(5))
        assert_allclose(at.log_evidence, exact, rtol=1e-12)


@pytest.mark.parametrize("M", [2, 10])
def test_e25_the_evidence_keeps_a_constant_that_grows_with_the_number_of_weights(M):
    """(M/2) ln 2π: 1.8 for 2 weights, 9.2 for 10; the flat-prior form drops it."""
    X, y = rows_of(d=M)
    model = BayesianLogisticRegression(prior=Normal(scale=1.5), fit_intercept=False, inference="laplace").fit(X, y)
    w, cov = model.posterior_.mean, model.posterior_.cov
    without = model.log_likelihood_ + norm.logpdf(w, 0, 1.5).sum() + np.linalg.slogdet(cov)[1] / 2
    assert_allclose(model.log_evidence_ - without, M / 2 * LOG_2PI, rtol=1e-9)


def test_e25_a_flat_prior_has_no_evidence():
    X, y = rows_of()
    model = BayesianLogisticRegression(prior=None).fit(X, y)
    with pytest.raises(NoEvidenceError, match="flat prior"):
        model.log_evidence_  # noqa: B018


def test_e26_bic_differs_from_the_evidence_by_a_constant_that_depends_on_the_model():
    """As rows repeat, ln p(D) + bic/2 → ln p(ŵ) + M/2 ln 2π - ½ ln det(H/n): bounded, not zero, not free of M."""
    X, y = rows_of(d=3)

    def gap(columns: int, copies: int) -> float:
        rows, labels = np.tile(X[:, :columns], (copies, 1)), np.tile(y, copies)
        model = BayesianLogisticRegression(prior=Normal(scale=1.5), fit_intercept=False, inference="laplace")
        model.fit(rows, labels)
        return model.log_evidence_ + model.bic_ / 2

    def limit(columns: int) -> float:
        rows = X[:, :columns]
        w = BayesianLogisticRegression(prior=None, fit_intercept=False).fit(rows, y).coef_[0]
        p = expit(rows @ w)
        H = (rows.T * (p * (1 - p))) @ rows / len(y)
        return norm.logpdf(w, 0, 1.5).sum() + columns / 2 * LOG_2PI - np.linalg.slogdet(H)[1] / 2

    for columns in (1, 3):
        far, near = (abs(gap(columns, copies) - limit(columns)) for copies in (2, 200))
        assert near < far / 20  # theory: falls like one over n, a hundredfold
        assert abs(limit(columns)) > 0.05
    assert abs(limit(3) - limit(1)) > 0.1


def test_e33_r_is_the_variance_of_the_label_and_the_inverse_variance_of_the_working_response():
    for f in (-2.0, 0.3, 1.5):
        p = expit(f)
        labels, chance = np.array([0.0, 1.0]), np.array([1 - p, p])
        grad, R = BernoulliLogit().slopes(labels, np.full(2, f))
        working = f + grad / R
        assert_allclose(R, chance @ (labels - p) ** 2, rtol=1e-12)
        assert_allclose(chance @ (working - f) ** 2, 1 / R[0], rtol=1e-12)
        assert abs(1 / R[0] - R[0]) > 1


def test_e34_the_evidence_is_a_distribution_of_labels_given_the_rows():
    """p(y | X): over all labellings it sums to one, up to Laplace's error, which fades with a tight prior."""
    X = np.array([[0.5, 1.0], [-1.0, 0.3], [0.8, -0.6]])

    def total(precision: float) -> float:
        return sum(
            np.exp(
                laplace(
                    objective(BernoulliLogit(), X, np.array(y), np.zeros(2), precision * np.eye(2)), np.zeros(2)
                ).log_evidence
            )
            for y in itertools.product([0.0, 1.0], repeat=3)
        )

    errors = [abs(total(precision) - 1) for precision in (1.0, 10.0, 100.0)]
    assert errors[0] < 0.05
    assert errors[2] < errors[1] / 20 < errors[0] / 200


def test_e35_the_hessian_has_the_weights_on_a_diagonal_between_the_rows():
    """Xᵀ diag(σ(1-σ)) X at the mode; the printed product of XXᵀ and a vector has a shape only when n = M."""
    X, _ = rows_of(n=3, d=3)
    model = BayesianLogisticRegression(prior=Normal(scale=1.0), fit_intercept=False, inference="laplace")
    model.fit(X, [0, 1, 0])
    p = expit(X @ model.posterior_.mean)
    precision = np.linalg.solve(model.posterior_.cov, np.eye(3))
    assert_allclose(precision, (X.T * (p * (1 - p))) @ X + np.eye(3), rtol=1e-8, atol=1e-10)
    assert differ(precision, X @ X.T * (p * (1 - p)) + np.eye(3), by=0.01)


def test_e36_the_posterior_density_falls_away_from_its_mode_and_counts_weights():
    """(2π)^(-M/2) |P|^½ exp(-½ …): printed with a plus, and with M and N mixed."""
    X, y = rows_of()
    q = BayesianLogisticRegression(prior=Normal()).fit(X, y).posterior_
    P = np.linalg.solve(q.cov, np.eye(3))
    step = np.array([0.3, -0.2, 0.1])
    at_mode = np.linalg.slogdet(P)[1] / 2 - 3 / 2 * LOG_2PI
    assert_allclose(q.logpdf(q.mean), at_mode, rtol=1e-9)
    assert_allclose(q.logpdf(q.mean + step), at_mode - step @ P @ step / 2, rtol=1e-9)
    assert q.logpdf(q.mean + step) < q.logpdf(q.mean)


def test_e38_the_evidence_counts_weights_and_not_rows(fitted):
    """(2π)^(M/2), M weights; printed (2π)^(N/2), N rows: here 3 and 40."""
    model, X, y = fitted
    w, M, N = model.posterior_.mean, 3, len(y)
    log_joint = log_expit((2 * y - 1) * (with_ones(X) @ w)).sum()
    log_joint += multivariate_normal(model.prior_.mean, model.prior_.cov).logpdf(w)
    log_det = np.linalg.slogdet(model.posterior_.cov)[1] / 2
    assert_allclose(model.log_evidence_, log_joint + M / 2 * LOG_2PI + log_det, rtol=1e-10)
    assert model.log_evidence_ < 0 < log_joint + N / 2 * LOG_2PI + log_det  # a probability of labels above one


# --- Gaussian processes (E-40 … E-46) -----------------------------------------------------------------------


def close_rows(n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(0, 1, n)[:, None]
    return x, (np.sin(5 * x[:, 0]) > 0).astype(float)


def inverse_of(A: np.ndarray) -> np.ndarray:
    return np.linalg.solve(A, np.eye(len(A)))


def test_e40_the_prior_of_weights_has_the_inverse_of_their_covariance():
    """-½ wᵀΣ⁻¹w: for Σ = 4 and w = 1 that is -.125, and not -½ wᵀΣw = -2. A linear kernel has it from the rows."""
    x, w, variance = np.array([[1.0]]), 1.0, 4.0
    K = (Constant(variance) * Linear())(x)
    problem = Latents(K, np.ones(1), BernoulliLogit())
    f = K @ np.array([w / variance])  # the latent of a weight of one
    penalty = Point(np.array([w / variance]), f, problem.expand(f)).value + log_expit(w)
    assert_allclose(penalty, 0.125, rtol=1e-14)
    assert differ(penalty, 0.5 * w * variance * w, 1)
    weights = Gaussian(np.zeros(1), PSD.diagonal(np.array([1 / variance])))
    assert_allclose(weights.logpdf(np.ones(1)) - weights.logpdf(np.zeros(1)), -0.125, rtol=1e-14)


def test_e41_the_covariance_of_laplace_is_the_inverse_of_the_hessian():
    x, y = close_rows()
    kernel = Constant(2.0) * RBF(0.3) + White(1e-4)
    model = GaussianProcessClassifier(kernel, inference="laplace", optimize=False).fit(x, y)
    K, f = kernel(x), model.posterior_.mean
    minus_hessian = inverse_of(K) + np.diag(expit(f) * expit(-f))
    assert_allclose(model.posterior_.var, np.diag(inverse_of(minus_hessian)), rtol=1e-8)
    assert differ(model.posterior_.var, np.diag(minus_hessian), 1000)


def test_e42_minus_log_of_one_plus_the_exponential_is_the_logarithm_of_the_probability():
    f = np.array([-3.0, 0.0, 2.0])
    for y in (0.0, 1.0):
        printed = -np.log1p(np.exp(-(2 * y - 1) * f))
        assert_allclose(BernoulliLogit().log_prob(y, f), printed, rtol=1e-14)
        assert (printed < 0).all()  # no probability
    assert_allclose(sum(np.exp(BernoulliLogit().log_prob(y, f)) for y in (0.0, 1.0)), 1.0, rtol=1e-15)


def test_e43_the_cavity_is_normalised_and_so_is_the_evidence():
    """The integral of prior and other sites is a number times the cavity; masses and log Z are with the latter."""
    x, y = close_rows(5)
    K = (Constant(2.0) * RBF(0.3) + White(0.01))(x)
    result = expectation_propagation(Latents(K, y, BernoulliProbit()))
    (tau, nu), cavity, rest = result.sites, result.cavities(), np.arange(5) != 0
    # ∫ N(f | 0, K) Π_{j≠0} exp(-½τf² + νf) df, all of it
    A = inverse_of(K) + np.diag(np.where(rest, tau, 0.0))
    b = np.where(rest, nu, 0.0)
    printed_mass = np.exp(0.5 * b @ np.linalg.solve(A, b) - 0.5 * np.linalg.slogdet(K @ A)[1])
    assert_allclose([cavity.mean[0], 1 / cavity.tau[0]], [inverse_of(A)[0] @ b, inverse_of(A)[0, 0]], rtol=1e-8)
    assert differ(printed_mass, 1.0, 0.1)
    masses = [BernoulliProbit().tilted(np.array(c), cavity.mean, 1 / cavity.tau).log_mass for c in (0.0, 1.0)]
    assert_allclose(np.exp(masses).sum(axis=0), 1.0, rtol=1e-12)  # one of both labels; with the printed one not
    # Z_EP = ∫ N(f | 0, K) Π Z̃_i t_i df, the constants of the sites included; without them it is another number
    log_constants = result.tilted().log_mass - [
        np.log(quad(lambda f, m=m, v=v, t=t, n=n: norm.pdf(f, m, v**0.5) * np.exp(-0.5 * t * f**2 + n * f), -30, 30)[0])
        for m, v, t, n in zip(cavity.mean, 1 / cavity.tau, tau, nu, strict=True)
    ]
    A = inverse_of(K) + np.diag(tau)
    log_integral = 0.5 * nu @ np.linalg.solve(A, nu) - 0.5 * np.linalg.slogdet(K @ A)[1]
    assert_allclose(result.log_evidence, log_integral + log_constants.sum(), rtol=1e-8)
    assert differ(result.log_evidence, log_integral, 0.1)


def test_e44_the_sign_of_the_label_multiplies_the_score_and_not_its_code():
    """With y = 0 in σ(yf) a label of class zero would be σ(0) = ½ whatever f, and teach nothing."""
    x, y = close_rows()
    kernel = Constant(2.0) * RBF(0.3)
    codes, signs = (GaussianProcessClassifier(kernel, optimize=False).fit(x, it) for it in (y, 2 * y - 1))
    assert_allclose(codes.log_evidence_, signs.log_evidence_, rtol=1e-14)
    assert_allclose(codes.predict_proba(x), signs.predict_proba(x), rtol=1e-12)
    f = codes.posterior_.mean
    assert_allclose(codes.log_likelihood_, log_expit((2 * y - 1) * f).sum(), rtol=1e-12)
    assert differ(codes.log_likelihood_, log_expit(y * f).sum(), 1)
    assert (f[y == 0] < 0).any()  # as it could never be if those rows taught nothing


def test_e45_the_two_terms_of_the_latent_variance_add_because_they_are_uncorrelated():
    """Var f* = Var E[f* | f] + E Var[f* | f] holds for any f; the two parts of f* need not be independent for it."""
    f = np.array([-1.0, -1.0, 0.0, 0.0, 2.0, 2.0])  # six outcomes, all alike
    rest = f * np.array([1.0, -1.0] * 3)  # of mean zero and variance f² given f
    assert_allclose(np.mean(f * rest), 0.0)
    assert_allclose(np.var(f + rest), np.var(f) + np.mean(f**2), rtol=1e-15)
    assert differ(np.mean(f**2 * rest**2), np.mean(f**2) * np.mean(rest**2), 1)  # not independent
    x, y = close_rows()
    kernel, z = Constant(2.0) * RBF(0.3) + White(0.01), np.array([[0.05], [1.4]])
    model = GaussianProcessClassifier(kernel, inference="laplace", optimize=False).fit(x, y)
    K, cross, means = kernel(x), kernel(x, z), model.posterior_.mean
    weights = np.linalg.solve(K, cross)
    posterior = inverse_of(inverse_of(K) + np.diag(expit(means) * expit(-means)))
    of_mean, rest_variance = weights.T @ posterior @ weights, kernel.diag(z) - np.diag(cross.T @ weights)
    assert_allclose(model.predict_latent(z).variance, np.diag(of_mean) + rest_variance, rtol=1e-8)


def test_e46_the_kernel_matrix_is_never_inverted():
    """Twelve close rows: K has a condition number of 1e15, B = I + √W K √W one of a few, and only B is factorised."""
    x, _ = close_rows()
    K, W = (Constant(2.0) * RBF(0.3))(x), np.full(12, 0.2)
    B = np.eye(12) + np.sqrt(W)[:, None] * K * np.sqrt(W)
    assert np.linalg.cond(K) > 4e8 and np.linalg.cond(B) < 10
    with mp.workdps(60):
        exact_K = mp.matrix(K.tolist())
        exact = exact_K - exact_K * mp.inverse(exact_K + 5 * mp.eye(12)) * exact_K
        variances = np.array([float(exact[i, i]) for i in range(12)])
    ours = Precision.of(K, W).variances(K)
    printed = np.diag(inverse_of(inverse_of(K) + np.diag(W)))
    assert_allclose(ours, variances, rtol=1e-13)
    assert differ(printed / variances, 1.0, 1e-10)


# --- claims of the notes ------------------------------------------------------------------------------------


def test_bic_penalises_more_than_aic_from_eight_rows_on():
    for n in (7, 8):
        X, y = np.arange(float(n))[:, None], np.arange(n) % 2
        model = BayesianLogisticRegression().fit(X, y)
        assert (model.bic_ > model.aic_) == (n >= 8)
        assert_allclose(model.bic_ - model.aic_, 2 * (np.log(n) - 2), rtol=1e-9)


@pytest.mark.parametrize("kind", [BayesianLogisticRegression, BayesianProbitRegression])
@pytest.mark.parametrize("prior", ["empirical", "ard", Normal()], ids=repr)
def test_separable_data_have_finite_weights_under_a_prior(kind, prior):
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    model = kind(prior=prior).fit(X, y)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.log_evidence_)
    assert (model.posterior_.std > 0).all()
    assert 0 < model.predict_proba(X).min()
    with pytest.raises(ValueError, match="separated"):
        kind(prior=None).fit(X, y)


def test_a_longer_weight_vector_makes_a_steeper_slope():
    f = np.linspace(-1, 1, 5)
    for likelihood in (BernoulliLogit(), BernoulliProbit()):
        slopes = [np.diff(likelihood.mean(length * f))[1:3].mean() for length in (1.0, 2.0, 4.0)]
        assert slopes[0] < slopes[1] < slopes[2]


def test_basis_functions_do_not_remove_the_overlap_of_classes():
    """The same x with both labels: whatever the basis, the two rows cost at least 2 ln 2 and one of them is wrong."""
    x = np.repeat(np.linspace(-2, 2, 10), 2)[:, None]
    y = np.tile([0, 1], 10)
    plain = BayesianLogisticRegression(prior=Normal(scale=100.0))
    for model in (plain, make_pipeline(GaussianBasis(centers=8), plain)):
        log_proba = model.fit(x, y).predict_log_proba(x)
        of_pairs = log_proba[np.arange(20), y].reshape(10, 2).sum(axis=1)
        assert (of_pairs <= -2 * np.log(2) + 1e-12).all()
        assert model.score(x, y) == 0.5
