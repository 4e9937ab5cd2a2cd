"""Identities that tie Gaussian processes to linear models, to each other, and to what must not matter."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from credibly import BayesianLogisticRegression, BayesianProbitRegression, GaussianProcessClassifier, Normal
from credibly.kernels import RBF, Constant, Linear, Matern, White
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, threshold_likelihood

LINEAR = {"logit": BayesianLogisticRegression, "probit": BayesianProbitRegression}
LIKELIHOODS = {"logit": BernoulliLogit(), "probit": BernoulliProbit()}
links = pytest.mark.parametrize("link", LINEAR)
inferences = pytest.mark.parametrize("inference", ["laplace", "ep", "adf"])
settled = pytest.mark.parametrize("inference", ["laplace", "ep"])
SCALE, BIAS = 0.8, 1.5
EP_TOL = 1e-8  # EP stops when no marginal moves by 1e-9 of its standard deviation


def toy(n: int = 30, d: int = 2, K: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K)) + np.sin(2 * X[:, :1]) + rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y


def elsewhere(m: int = 9, d: int = 2) -> np.ndarray:
    return 2 * np.random.default_rng(1).normal(size=(m, d))


def fitted(kernel, X, y, **options) -> GaussianProcessClassifier:
    """At the kernel's own hyperparameters."""
    return GaussianProcessClassifier(kernel, optimize=False, **options).fit(X, y)


def same(one, other, Z, tol: float = 1e-9, Z_other=None) -> None:
    """Evidence, log probabilities and latents agree."""
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=tol)
    Z_other = Z if Z_other is None else Z_other
    assert_allclose(one.predict_log_proba(Z), other.predict_log_proba(Z_other), rtol=tol, atol=tol)
    for ours, theirs in zip(one.predict_latent(Z), other.predict_latent(Z_other), strict=True):
        assert_allclose(ours, theirs, rtol=tol, atol=tol)


# --- a linear kernel is a linear model ----------------------------------------------------------------------


@links
def test_laplace_with_a_linear_kernel_is_the_linear_model(link):
    X, y = toy()
    Z = elsewhere()
    process = fitted(Constant(SCALE**2) * Linear(bias=BIAS), X, y, likelihood=link, inference="laplace")
    weights = LINEAR[link](prior=Normal(scale=SCALE, intercept_scale=SCALE * BIAS), inference="laplace").fit(X, y)
    assert_allclose(process.log_evidence_, weights.log_evidence_, rtol=1e-10)
    assert_allclose(process.log_likelihood_, weights.log_likelihood_, rtol=1e-8)
    assert_allclose(process.predict_log_proba(Z), weights.predict_log_proba(Z), rtol=1e-8)
    assert_allclose(process.predict_interval(Z), weights.predict_interval(Z), rtol=1e-8)
    assert_allclose(process.predict_latent(Z).mean, weights.predict_latent(Z).mean, rtol=1e-8, atol=1e-10)


def test_the_joint_softmax_with_a_linear_kernel_is_the_softmax_model():
    X, y = toy(40, K=3)
    Z = elsewhere()
    process = fitted(Constant(SCALE**2) * Linear(bias=BIAS), X, y, inference="laplace")
    prior = Normal(scale=SCALE, intercept_scale=SCALE * BIAS)
    weights = BayesianLogisticRegression(prior=prior, inference="laplace").fit(X, y)
    assert_allclose(process.log_evidence_, weights.log_evidence_, rtol=1e-10)
    assert_allclose(process.predict_latent(Z).mean, weights.predict_latent(Z).mean, rtol=1e-8, atol=1e-9)
    assert_allclose(process.predict_latent(Z).variance, weights.predict_latent(Z).variance, rtol=1e-8, atol=1e-9)
    assert_allclose(process.predict_proba(Z), weights.predict_proba(Z), atol=1e-7)


def weight_space_ep(likelihood, F, t, prior_precision) -> tuple[float, np.ndarray, np.ndarray]:
    """EP over weights by sequential sweeps; log Z = Φ(q) - Φ(prior) + Σ [log Ẑ + Φ(cavity) - Φ(marginal)]."""
    n = len(F)
    tau, nu = np.zeros(n), np.zeros(n)

    def posterior():
        precision = np.diag(prior_precision) + F.T @ (tau[:, None] * F)
        return precision, np.linalg.solve(precision, F.T @ nu)

    def cavity(i):
        precision, mean = posterior()
        v = F[i] @ np.linalg.solve(precision, F[i])
        own = 1 / v, F[i] @ mean / v
        return own, (own[0] - tau[i], own[1] - nu[i])

    for _ in range(60):
        for i in range(n):
            _, (c_tau, c_nu) = cavity(i)
            _, m, v = likelihood.tilted(t[i], np.array(c_nu / c_tau), np.array(1 / c_tau))
            tau[i], nu[i] = 1 / v - c_tau, m / v - c_nu

    def log_partition(precision, natural):
        return 0.5 * natural**2 / precision - 0.5 * np.log(precision)

    precision, mean = posterior()
    log_Z = 0.5 * mean @ precision @ mean - 0.5 * np.linalg.slogdet(precision)[1] + 0.5 * np.log(prior_precision).sum()
    for i in range(n):
        own, left = cavity(i)
        log_mass = likelihood.log_average(t[i], np.array(left[1] / left[0]), np.array(1 / left[0]))
        log_Z += log_mass + log_partition(*left) - log_partition(*own)
    return float(log_Z), mean, precision


@links
def test_ep_with_a_linear_kernel_is_ep_over_weights(link):
    X, y = toy(15)
    Z = elsewhere()
    process = fitted(Constant(SCALE**2) * Linear(bias=BIAS), X, y, likelihood=link, inference="ep")
    prior = np.array([SCALE, SCALE, SCALE * BIAS]) ** -2.0
    F, G = (np.column_stack([rows, np.ones(len(rows))]) for rows in (X, Z))
    log_Z, mean, precision = weight_space_ep(LIKELIHOODS[link], F, y.astype(float), prior)
    assert_allclose(process.log_evidence_, log_Z, rtol=1e-9)
    latent = process.predict_latent(Z)
    assert_allclose(latent.mean, G @ mean, atol=EP_TOL)
    assert_allclose(latent.variance, np.einsum("ij,ji->i", G, np.linalg.solve(precision, G.T)), rtol=EP_TOL)


@links
def test_adf_with_a_linear_kernel_is_adf_over_weights(link):
    X, y = toy()
    Z = elsewhere()
    process = fitted(Constant(SCALE**2) * Linear(bias=BIAS), X, y, likelihood=link, inference="adf")
    weights = LINEAR[link](prior=Normal(scale=SCALE, intercept_scale=SCALE * BIAS), inference="adf").fit(X, y)
    assert_allclose(process.log_evidence_, weights.log_evidence_, rtol=1e-8)
    assert_allclose(process.predict_log_proba(Z), weights.predict_log_proba(Z), rtol=1e-8)


@links
def test_the_evidence_gradient_of_a_linear_kernel_by_differences_of_the_linear_model(link):
    """Fourth order, h = 1e-2 of a logarithm: 3e-10 of a fifth derivative and 1e-10 of an evidence over h."""
    X, y = toy()
    process = fitted(Constant(SCALE**2) * Linear(bias=BIAS), X, y, likelihood=link, inference="laplace")
    h = 1e-2

    def height(log_variance, log_bias):
        scale = SCALE * np.exp(log_variance / 2)
        prior = Normal(scale=scale, intercept_scale=scale * BIAS * np.exp(log_bias))
        return LINEAR[link](prior=prior, inference="laplace").fit(X, y).log_evidence_

    for slope, (a, b) in zip(process.log_evidence_gradient_, np.eye(2), strict=True):
        heights = np.array([height(a * k * h, b * k * h) for k in (-2, -1, 1, 2)])
        assert_allclose(slope, np.array([1, -8, 8, -1]) @ heights / (12 * h), atol=1e-7)


# --- softmax with two classes is the logit ------------------------------------------------------------------


def test_softmax_with_two_classes_is_the_logit_with_twice_the_variance():
    X, y = toy()
    Z = elsewhere()
    softmax = fitted(Constant(1.5) * RBF((0.8, 1.4)), X, y, likelihood="softmax")
    logit = fitted(Constant(3.0) * RBF((0.8, 1.4)), X, y, likelihood="logit")
    assert_allclose(softmax.log_evidence_, logit.log_evidence_, rtol=1e-10)
    assert_allclose(softmax.log_evidence_gradient_, logit.log_evidence_gradient_, rtol=1e-7, atol=1e-8)
    assert_allclose(softmax.predict_proba(Z), logit.predict_proba(Z), rtol=1e-8)
    m, V = softmax.predict_latent(Z)
    assert_allclose(m[:, 1] - m[:, 0], logit.predict_latent(Z).mean, rtol=1e-8, atol=1e-9)
    assert_allclose(V[:, 0, 0] + V[:, 1, 1] - 2 * V[:, 0, 1], logit.predict_latent(Z).variance, rtol=1e-8)
    assert_allclose(softmax.loo_log_proba_, logit.loo_log_proba_, rtol=1e-6)


def test_softmax_with_a_kernel_for_either_class_is_the_logit_with_their_sum():
    """f₁ - f₀ of independent functions has the covariance k₀ + k₁."""
    X, y = toy()
    Z = elsewhere()
    one, other = Constant(1.5) * RBF(0.8), Matern(1.4, 2.5)
    softmax, logit = fitted([one, other], X, y, likelihood="softmax"), fitted(one + other, X, y)
    assert_allclose(softmax.log_evidence_, logit.log_evidence_, rtol=1e-10)
    assert_allclose(softmax.log_evidence_gradient_, logit.log_evidence_gradient_, rtol=1e-7, atol=1e-8)
    assert_allclose(softmax.predict_proba(Z), logit.predict_proba(Z), rtol=1e-8)


# --- rows ---------------------------------------------------------------------------------------------------


@links
@settled
def test_the_order_of_rows_does_not_matter(link, inference):
    X, y = toy()
    order = np.random.default_rng(2).permutation(len(y))
    kernel, options = Constant(3.0) * RBF(0.9), {"likelihood": link, "inference": inference}
    same(fitted(kernel, X, y, **options), fitted(kernel, X[order], y[order], **options), elsewhere(), EP_TOL)


@links
def test_the_order_of_rows_matters_for_a_single_pass(link):
    X, y = toy()
    kernel, options = Constant(3.0) * RBF(0.9), {"likelihood": link, "inference": "adf"}
    one, other = fitted(kernel, X, y, **options), fitted(kernel, X[::-1], y[::-1], **options)
    assert abs(one.log_evidence_ - other.log_evidence_) > 1e-3
    assert np.abs(one.predict_proba(elsewhere()) - other.predict_proba(elsewhere())).max() > 1e-3


@inferences
@pytest.mark.parametrize("link", ["logit", "probit", "cauchy"])
def test_fifty_identical_rows_do_not_break_anything(link, inference):
    X, y = toy()
    X = np.vstack([np.repeat(X[:1], 50, axis=0), X])
    y = np.concatenate([np.arange(50) % 2, y])
    model = fitted(Constant(4.0) * RBF(1.0), X, y, likelihood=link, inference=inference)
    assert np.isfinite(model.log_evidence_) and np.isfinite(model.log_evidence_gradient_).all()
    p = model.predict_proba(X)
    # fifty times the same row; digits as of the Cholesky factor of B
    assert_allclose(p[:50], np.broadcast_to(p[0], (50, 2)), rtol=1e-10)
    assert (model.posterior_.var > 0).all()


def test_fifty_identical_rows_do_not_break_the_softmax():
    X, y = toy(K=3)
    X, y = np.vstack([np.repeat(X[:1], 50, axis=0), X]), np.concatenate([np.arange(50) % 3, y])
    model = fitted(Constant(4.0) * RBF(1.0), X, y)
    assert np.isfinite(model.log_evidence_) and np.isfinite(model.log_evidence_gradient_).all()


@inferences
@links
def test_far_from_the_data_the_prior_comes_back(link, inference):
    X, y = toy()
    model = fitted(Constant(3.0) * RBF(0.9), X, y, likelihood=link, inference=inference)
    far = np.array([[1e3, 0.0], [0.0, -1e3]])
    mean, variance = model.predict_latent(far)
    assert_allclose(mean, 0.0, atol=1e-15)
    assert_allclose(variance, 3.0, rtol=1e-14)
    assert_allclose(model.predict_proba(far), 0.5, rtol=1e-12)


def test_far_from_the_data_all_classes_are_alike():
    X, y = toy(K=3)
    far = np.array([[1e3, 0.0]])
    for inference in ("laplace", "ep"):
        model = fitted(Constant(3.0) * RBF(0.9), X, y, inference=inference)
        assert_allclose(model.predict_proba(far), 1 / 3, atol=1e-6)  # averages of the softmax are good to 1e-6 here
        assert_allclose(model.predict_latent(far).variance[0], 3.0 * np.eye(3), atol=1e-12)


# --- Nickisch & Rasmussen 2008: limits of the length scale --------------------------------------------------


@pytest.mark.parametrize("link", ["logit", "probit", "cauchy"])
@pytest.mark.parametrize("inference", ["ep", "adf"])
def test_as_the_length_scale_vanishes_the_evidence_is_that_of_coins(link, inference):
    """K = v I: every label has the probability E[σ(f)] = ½, whatever v, and EP is exact."""
    X, y = np.arange(12.0)[:, None], np.arange(12) % 3 == 0
    for variance in (0.1, 1.0, 50.0):
        model = fitted(Constant(variance) * RBF(1e-3), X, y, likelihood=link, inference=inference)
        assert_allclose(model.log_evidence_, -12 * np.log(2), rtol=1e-12)
        assert_allclose(model.predict_proba([[0.5]]), 0.5, rtol=1e-12)
        assert_allclose(model.loo_log_proba_, -np.log(2), rtol=1e-9)


@links
def test_as_the_length_scale_grows_there_is_one_latent_for_all_rows(link):
    """The limit is ∫ Π p(y_i | f) N(f | 0, v) df. EP's gap to it fades with v, and K's to 11ᵀ as ℓ⁻²."""
    X, y, likelihood = np.linspace(-1, 1, 5)[:, None], np.array([1, 1, 0, 1, 1]), LIKELIHOODS[link]

    def exact(v):
        def joint(z):
            return np.exp(likelihood.log_prob(y, np.full(5, v**0.5 * z)).sum()) * norm.pdf(z)

        return np.log(quad(joint, -12, 12, epsabs=1e-14)[0])

    def ep(v, length):
        kernel = Constant(v) * RBF(length, length_scale_bounds="fixed")
        return fitted(kernel, X, y, likelihood=link, inference="ep").log_evidence_

    limit = ep(1.0, 1e7)  # K is 11ᵀ to all digits
    gaps = [abs(ep(1.0, length) - limit) for length in (10.0, 100.0, 1000.0)]
    assert_allclose(gaps[0] / gaps[1], 100, rtol=0.05)
    assert_allclose(gaps[1] / gaps[2], 100, rtol=0.05)
    errors = [abs(ep(v, 1e7) - exact(v)) for v in (1 / 4, 1 / 16, 1 / 64)]
    assert 2e-4 > errors[0] > 16 * errors[1] > 16**2 * errors[2]  # all of second order in v is matched


# --- kernels ------------------------------------------------------------------------------------------------


@settled
def test_a_sum_of_linear_kernels_on_the_columns_is_the_linear_kernel(inference):
    X, y = toy()
    parts = Linear(columns=[0]) + Linear(columns=[1])
    same(fitted(parts, X, y, inference=inference), fitted(Linear(), X, y, inference=inference), elsewhere(), EP_TOL)


@settled
def test_a_product_of_rbf_on_the_columns_is_rbf_with_a_length_scale_for_each(inference):
    X, y = toy()
    parts = Constant(2.0) * (RBF(0.7, columns=[0]) * RBF(1.9, columns=[1]))
    one = fitted(parts, X, y, inference=inference)
    other = fitted(Constant(2.0) * RBF((0.7, 1.9)), X, y, inference=inference)
    same(one, other, elsewhere(), EP_TOL)
    assert_allclose(one.log_evidence_gradient_, other.log_evidence_gradient_, rtol=1e-7, atol=1e-8)


def test_a_sum_of_the_same_kernel_twice_is_twice_the_variance():
    X, y = toy()
    one = fitted(Constant(1.0) * RBF(0.8) + Constant(2.0) * RBF(0.8), X, y)
    same(one, fitted(Constant(3.0) * RBF(0.8), X, y), elsewhere())


@inferences
def test_an_endless_length_scale_drops_its_column(inference):
    X, y = toy(d=3)
    Z = elsewhere(d=3)
    endless = Constant(2.0) * RBF((0.7, 1e9, 1.2), length_scale_bounds="fixed")
    without = Constant(2.0) * RBF((0.7, 1.2))
    keep = [0, 2]
    one, other = fitted(endless, X, y, inference=inference), fitted(without, X[:, keep], y, inference=inference)
    same(one, other, Z, EP_TOL, Z[:, keep])


@inferences
def test_a_column_twice_is_a_shorter_length_scale(inference):
    """r² counts it twice: ℓ becomes ℓ/√2."""
    X, y = toy(d=1)
    Z = elsewhere(d=1)
    twice = fitted(Constant(2.0) * RBF(0.9), np.hstack([X, X]), y, inference=inference)
    once = fitted(Constant(2.0) * RBF(0.9 / np.sqrt(2)), X, y, inference=inference)
    same(twice, once, np.hstack([Z, Z]), EP_TOL, Z)


@inferences
def test_a_column_and_its_length_scale_in_other_units(inference):
    X, y = toy()
    units = np.array([1e3, 1e-4])
    other = RBF(tuple(np.array([0.8, 1.7]) * units))
    one = fitted(Constant(2.0) * RBF((0.8, 1.7)), X, y, inference=inference)
    same(
        one, fitted(Constant(2.0) * other, X * units, y, inference=inference), elsewhere(), EP_TOL, elsewhere() * units
    )


def test_shifting_a_column_changes_nothing_for_stationary_kernels():
    X, y = toy()
    kernel = Constant(2.0) * Matern(0.8, 1.5)
    same(fitted(kernel, X, y), fitted(kernel, X + 64.0, y), elsewhere(), 1e-8, elsewhere() + 64.0)


# --- classes ------------------------------------------------------------------------------------------------


@links
@inferences
def test_exchanging_the_two_labels_exchanges_the_probabilities(link, inference):
    X, y = toy()
    kernel, options = Constant(3.0) * RBF(0.9), {"likelihood": link, "inference": inference}
    one, other = fitted(kernel, X, y, **options), fitted(kernel, X, 1 - y, **options)
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-11)
    assert_allclose(one.predict_log_proba(elsewhere()), other.predict_log_proba(elsewhere())[:, ::-1], rtol=1e-9)


def test_relabelling_classes_permutes_the_probabilities():
    X, y = toy(40, K=3)
    new = np.array([2, 0, 1])
    for inference in ("laplace", "ep"):
        one = fitted(Constant(3.0) * RBF(0.9), X, y, inference=inference)
        other = fitted(Constant(3.0) * RBF(0.9), X, new[y], inference=inference)
        assert_allclose(other.predict_latent(elsewhere()).mean[:, new], one.predict_latent(elsewhere()).mean, atol=1e-9)
        # the average over the softmax is a quadrature of 1e-4 at worst whose points know an order of classes
        assert_allclose(other.predict_proba(elsewhere())[:, new], one.predict_proba(elsewhere()), atol=1e-5)
        assert_allclose(other.loo_log_proba_, one.loo_log_proba_, rtol=1e-5)
    softmax = [fitted(Constant(3.0) * RBF(0.9), X, codes).log_evidence_ for codes in (y, new[y])]
    assert_allclose(softmax[0], softmax[1], rtol=1e-11)


@settled
def test_one_kernel_for_each_class_all_alike_is_a_shared_kernel(inference):
    X, y = toy(K=3)
    kernel = Constant(3.0) * RBF((0.9, 1.5))
    own, shared = fitted([kernel] * 3, X, y, inference=inference), fitted(kernel, X, y, inference=inference)
    assert_allclose(own.predict_log_proba(elsewhere()), shared.predict_log_proba(elsewhere()), rtol=1e-9)
    by_class = own.log_evidence_gradient_.reshape(3, 3).sum(axis=0)
    assert_allclose(by_class, shared.log_evidence_gradient_, rtol=1e-9, atol=1e-10)
    if inference == "laplace":
        assert_allclose(own.log_evidence_, shared.log_evidence_, rtol=1e-12)
    else:
        assert_allclose(own.one_vs_rest_log_evidence_, shared.one_vs_rest_log_evidence_, rtol=1e-12)


# --- label noise --------------------------------------------------------------------------------------------


@inferences
@links
def test_without_flips_label_noise_changes_nothing(link, inference):
    """The evidence is differentiable in ε: its difference is proportional to ε, and nothing at ε = 0."""
    X, y = toy()
    Z, kernel, options = elsewhere(), Constant(3.0) * RBF(0.9), {"likelihood": link, "inference": inference}
    plain = fitted(kernel, X, y, **options)
    gaps = [
        abs(fitted(kernel, X, y, label_noise=eps, **options).log_evidence_ - plain.log_evidence_)
        for eps in (1e-3, 1e-4, 1e-5)
    ]
    assert_allclose(gaps[0] / gaps[1], 10, rtol=0.1)
    assert_allclose(gaps[1] / gaps[2], 10, rtol=0.01)
    noisy = fitted(kernel, X, y, label_noise=1e-12, **options)
    same(noisy, plain, Z, EP_TOL)
    same(fitted(kernel, X, y, label_noise=0.0, **options), plain, Z, 1e-15)


# --- MISSION 1.11, through the front door -------------------------------------------------------------------


@pytest.mark.parametrize("link", ["logit", "probit", "cauchy", "gumbel"])
@inferences
def test_the_averaged_prediction_is_the_integral_over_the_latent(link, inference):
    """∫ σ(f*) q(f*) df*, by adaptive quadrature; "other sigmoids possible"."""
    X, y = toy()
    Z = elsewhere(4)
    model = fitted(Constant(3.0) * RBF(0.9), X, y, likelihood=link, inference=inference)
    likelihood = threshold_likelihood(link)
    for p, m, v in zip(model.predict_proba(Z)[:, 1], *model.predict_latent(Z), strict=True):
        integrand = lambda z, m=m, v=v: float(likelihood.mean(np.array(m + v**0.5 * z))) * norm.pdf(z)  # noqa: E731
        assert_allclose(p, quad(integrand, -12, 12, epsabs=1e-13, limit=200)[0], rtol=1e-9)


def test_in_what_sense_q_is_close_has_an_answer_in_the_exact_evidence():
    """Two rows, probit: the truth is an arcsine, and both roads approach it as the prior tightens, EP much nearer."""
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])

    def errors(v):
        kernel = Constant(v) * RBF(1.0)
        C = kernel(X) + np.eye(2)
        exact = np.log(0.25 - np.arcsin(C[0, 1] / C[0, 0]) / (2 * np.pi))
        return [
            abs(fitted(kernel, X, y, likelihood="probit", inference=it).log_evidence_ - exact)
            for it in ("ep", "laplace")
        ]

    found = np.array([errors(v) for v in (1.0, 1 / 4, 1 / 16)])
    assert (found[:, 0] < found[:, 1] / 20).all()
    assert (found[:-1] > 4 * found[1:]).all()


def test_latents_at_the_training_rows_are_nuisance_parameters():
    """White noise on the latents of the training rows is integrated out with them, and is not in predictions."""
    X, y = toy()
    noise = 0.5
    model = fitted(Constant(2.0) * RBF(0.9) + White(noise), X, y, likelihood="probit", inference="ep")
    # Φ(f + ε) with ε ~ N(0, s²) is Φ(f/√(1 + s²)): the same model with scaled latents
    scaled = fitted(Constant(2.0 / (1 + noise)) * RBF(0.9), X, y, likelihood="probit", inference="ep")
    assert_allclose(model.log_evidence_, scaled.log_evidence_, rtol=1e-10)
