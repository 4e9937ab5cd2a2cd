"""What fresh eyes found wrong with certificates, each as a test."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import betaln, expit, log_expit, logsumexp
from scipy.stats import norm
from scipy.stats import t as student

from credibly import BayesianGLM, BayesianLogisticRegression, Normal, StudentT, compare
from credibly.errors import InputError

LOGIT = BayesianLogisticRegression
STANDARD_ERRORS = 3.0


def test_a_plateau_of_label_noise_beside_the_mode_is_met():
    """Six rows, three of each label: the likelihood levels off, and the posterior is twice as wide as q."""
    x, y = np.full((6, 1), 3.0), np.array([1, 1, 1, 0, 0, 0])

    def joint(w):
        p = 0.05 + 0.9 * expit(3.0 * w)
        return p**3 * (1 - p) ** 3 * norm.pdf(w, 0, 2.5)

    total = quad(joint, -15, 15, epsabs=0, epsrel=1e-11, limit=400)[0]
    std = np.sqrt(quad(lambda w: w**2 * joint(w), -15, 15, epsabs=0, epsrel=1e-11, limit=400)[0] / total)
    model = LOGIT(prior=Normal(scale=2.5), fit_intercept=False, label_noise=0.05).fit(x, y)
    certificate = model.certify(x, y)
    assert model.posterior_.std[0] < 0.5 * std
    assert_allclose(certificate.log_evidence, np.log(total), atol=0.02)
    assert certificate.widening > 1.5
    assert certificate.verdict.startswith("Use the corrected numbers")
    assert "standard deviation wrong by a factor" in certificate.verdict


def test_a_posterior_that_goes_on_beyond_both_gaussians_is_not_called_close():
    x, y = np.full((6, 1), 3.0), np.array([1, 1, 1, 0, 0, 0])
    model = LOGIT(prior=Normal(scale=50.0), fit_intercept=False, label_noise=0.05).fit(x, y)
    assert not model.certify(x, y).verdict.startswith("You can use")


def test_widths_count_in_the_verdict():
    """A Student-t prior and one count: the mean hardly moves, the standard deviation is nearly twice as large."""
    X = np.ones((1, 1))

    def joint(w):
        return np.exp(w - np.exp(w)) * student.pdf(w / 0.3, 2) / 0.3

    moments = [quad(lambda w, k=k: w**k * joint(w), -60, 10, limit=500, points=[0.0])[0] for k in range(3)]
    std = np.sqrt(moments[2] / moments[0] - (moments[1] / moments[0]) ** 2)
    model = BayesianGLM("poisson", prior=StudentT(df=2, scale=0.3), fit_intercept=False).fit(X, [1])
    certificate = model.certify(X, [1])
    assert model.posterior_.std[0] < 0.7 * std and certificate.shift < 0.25
    assert not certificate.verdict.startswith("You can use")
    assert certificate.predict_khat(X).shape == (1,)


def test_softmax_of_two_classes_has_the_verdict_of_the_logit():
    """One model, written twice: what moves the classes together is the prior's and dilutes nothing."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = (X @ [1.5, -1.0, 0.5] + rng.logistic(size=60) > 1).astype(int)
    logit = LOGIT(prior=Normal(scale=1.0, intercept_scale=4.0)).fit(X, y)
    half = Normal(scale=2**-0.5, intercept_scale=4 * 2**-0.5)
    softmax = LOGIT(prior=half, multi_class="softmax").fit(X, y)
    one, two = logit.certify(X, y, draws=8192), softmax.certify(X, y, draws=8192)
    # two weights that mirror each other; either estimate of the mean has its Monte Carlo error
    assert_allclose(two.shift, one.shift, atol=0.05)
    assert_allclose(two.log_evidence, one.log_evidence, atol=STANDARD_ERRORS * 2 * one.log_evidence_se)
    assert one.verdict.split(":")[0] == two.verdict.split(":")[0]


@pytest.mark.parametrize("inference", ["skew", "auto"])
def test_leave_one_out_by_draws_is_that_of_the_posterior(inference):
    """Against exact refits on a grid, where Laplace's cavities are a nat off: separated classes, one weight."""
    x = np.random.default_rng(0).normal(size=20)
    y = (x > 0).astype(int)
    grid = np.linspace(-60, 60, 24_001)
    log_prior = norm.logpdf(grid, 0, 10)
    rows = log_expit(np.where(y == 1, 1, -1)[:, None] * x[:, None] * grid)
    exact = [
        logsumexp(log_prior + rows.sum(axis=0)) - logsumexp(log_prior + np.delete(rows, i, 0).sum(axis=0))
        for i in range(20)
    ]
    model = LOGIT(prior=Normal(scale=10.0), fit_intercept=False, inference=inference).fit(x[:, None], y)
    laplace = LOGIT(prior=Normal(scale=10.0), fit_intercept=False).fit(x[:, None], y)
    off, worst = (abs(it.loo_log_proba_.sum() - np.sum(exact)) for it in (model, laplace))
    assert off < 0.25 * worst


def test_estimated_label_noise_is_integrated_with_the_weights():
    """Against quadrature over one weight and the flip probability, with its Beta(1, 9) belief about 2ε."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=60)
    y = ((rng.random(60) < expit(2.5 * x)) ^ (rng.random(60) < 0.1)).astype(int)
    w, u = np.linspace(-3, 15, 901), (np.arange(800) + 0.5) / 800  # u = 2ε, uniform cells
    p = expit(x[:, None] * w)
    log_prior = norm.logpdf(w, 0, 2.5)[:, None] + (8 * np.log1p(-u) - betaln(1, 9))[None]
    log_joint = log_prior.copy()
    for row, label in zip(p, y, strict=True):
        q = u / 2 + (1 - u) * row[:, None]
        log_joint += np.log(q if label else 1 - q)
    exact = logsumexp(log_joint) + np.log((w[1] - w[0]) / 800)
    model = LOGIT(prior=Normal(scale=2.5), fit_intercept=False, label_noise="estimate").fit(x[:, None], y)
    certificate = model.certify(x[:, None], y)
    assert abs(certificate.log_evidence - exact) < STANDARD_ERRORS * certificate.log_evidence_se + 0.005  # the grid


def test_a_constant_in_the_likelihood_does_not_switch_k_hat_off():
    """A row at zero has probability one half whatever the weight: any number of them changes nothing."""
    X, y = np.array([[1.0], [2.0], [3.0], [-1.0], [-2.0], [0.0]]), [1, 1, 1, 0, 0, 1]
    khat = []
    for many in (1.0, 1e10):
        weight = np.array([1.0] * 5 + [many])
        model = LOGIT(prior=Normal(scale=20.0), fit_intercept=False).fit(X, y, sample_weight=weight)
        khat.append(model.certify(X, y, sample_weight=weight).khat)
    assert_allclose(khat[1], khat[0], atol=1e-3)


def test_comparisons_are_the_same_twice():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 2))
    y = (X[:, 0] + rng.logistic(size=40) > 0).astype(int)
    one, two = (compare({"a": LOGIT(prior=Normal())}, X, y).to_frame()["log_evidence"].iloc[0] for _ in range(2))
    assert one == two


def test_a_reject_label_that_is_a_class_is_refused():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "yes", "no", "yes"]
    model = LOGIT(prior=Normal()).fit(X, y)
    with pytest.raises(InputError, match="is a class"):
        model.decide(X, [[0, 1], [1, 0]], reject_cost=0.1, reject_label="no")
