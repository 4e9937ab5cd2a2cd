"""BayesianGLM: exact cases, laws between models, other packages, prediction, bad input."""

import warnings

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import comb, digamma, polygamma
from scipy.stats import gamma, multivariate_normal, nbinom, norm, poisson
from sklearn.exceptions import ConvergenceWarning

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    NoisyThresholdClassifier,
    Normal,
    Status,
)
from credibly.errors import DataWarning, InputError, NoEvidenceError, SeparationError
from credibly.model.likelihoods.families import NegativeBinomial, Poisson
from credibly.model.likelihoods.family_likelihood import deviance


def rows_of(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 10.0] + [0.0, 5.0]
    return X, 0.5 + X @ [0.4, -0.05], rng


def targets(family, seed=0, n=60):
    X, f, rng = rows_of(n, seed)
    mu = np.exp(f)
    draw = {
        "gaussian": lambda: f + 0.7 * rng.normal(size=n),
        "bernoulli": lambda: (rng.random(n) < 1 / (1 + np.exp(-f))).astype(int),
        "poisson": lambda: rng.poisson(mu),
        "gamma": lambda: rng.gamma(3.0, mu / 3.0),
        "inverse_gaussian": lambda: rng.wald(mu, 5.0),
        "negative_binomial": lambda: rng.negative_binomial(2, 2 / (2 + mu)),
    }
    return X, draw[family]()


# --- exact cases --------------------------------------------------------------------------------------------


def test_least_squares_by_newton_is_exact_in_one_step():
    X, y = targets("gaussian")
    model = BayesianGLM(prior=None).fit(X, y)
    Z = np.column_stack([X, np.ones(len(X))])
    w, rss, *_ = np.linalg.lstsq(Z, y)
    assert_allclose(model.posterior_.mean, w, rtol=1e-11)
    assert_allclose(model.dispersion_, rss[0] / (len(y) - 3), rtol=1e-11)
    assert model.n_iter_ <= 3  # the start, the minimum, and the minimum again where the first step rounded


def test_the_gaussian_evidence_is_that_of_the_targets_themselves():
    X, y = targets("gaussian")
    prior = Normal(mean=[0.1, 0.2, 0.3], cov=[[2.0, 0.1, 0.0], [0.1, 1.0, 0.0], [0.0, 0.0, 4.0]])
    model = BayesianGLM(prior=prior, dispersion=0.5).fit(X, y)
    Z = np.column_stack([X, np.ones(len(X))])
    exact = multivariate_normal(Z @ prior.mean, 0.5 * np.eye(len(y)) + Z @ prior.cov @ Z.T).logpdf(y)
    assert_allclose(model.log_evidence_, exact, rtol=1e-10)
    assert_allclose(model.occam_factor_ + model.log_likelihood_, exact, rtol=1e-10)


@pytest.mark.parametrize("prior", ["empirical", "ard", Normal(scale=0.5)], ids=repr)
def test_the_dispersion_of_highest_evidence_spares_the_weights_that_were_determined(prior):
    """RSS / (n - γ), not RSS / n: the notes' constant is constant in w, not in s."""
    X, y = targets("gaussian")
    model = BayesianGLM(prior=prior).fit(X, y)
    rss = ((y - X @ model.coef_ - model.intercept_) ** 2).sum()
    assert_allclose(model.dispersion_, rss / (len(y) - model.effective_parameters_), rtol=1e-9)


def test_the_most_likely_dispersion_of_a_negative_binomial_has_no_slope():
    """By log α; a search by values alone would end 1e-8 away, and so would standard errors."""
    X, y = targets("negative_binomial")
    model = BayesianGLM("negative_binomial", prior=None).fit(X, y)
    mu, r = np.exp(X @ model.coef_ + model.intercept_), 1 / model.dispersion_
    slope = -r * (digamma(y + r) - digamma(r) - np.log1p(mu / r) + (mu - y) / (r + mu)).sum()
    curvature = r * (r * polygamma(1, r) - r * polygamma(1, y + r)).sum()  # its order of magnitude
    assert abs(slope / curvature) < 1e-10


@pytest.mark.parametrize("family", ["gamma", "inverse_gaussian", "negative_binomial"])
def test_the_dispersion_found_has_the_highest_evidence(family):
    X, y = targets(family)
    best = BayesianGLM(family, "log", prior=Normal()).fit(X, y)
    for factor in (0.9, 1.1):
        other = BayesianGLM(family, "log", prior=Normal(), dispersion=factor * best.dispersion_).fit(X, y)
        assert other.log_evidence_ < best.log_evidence_


def test_the_evidence_of_a_poisson_mean_approaches_the_exact_integral():
    """One weight, no column: ∫ Π Poisson(y | e^b) N(b | 0, 1) db; Laplace is off by O(1/Σy)."""

    def gap(y):
        y = np.asarray(y)
        model = BayesianGLM("poisson", prior=Normal(scale=1.0), fit_intercept=False).fit(np.ones((len(y), 1)), y)

        def log_f(b):
            return poisson.logpmf(y, np.exp(b)).sum() + norm.logpdf(b)

        top = log_f(model.coef_[0])
        return model.log_evidence_ - top - np.log(quad(lambda b: np.exp(log_f(b) - top), -6, 6, epsabs=0)[0])

    small, large = gap([2, 3, 1, 2]), gap([2, 3, 1, 2] * 16)
    assert abs(small) < 0.05
    assert abs(large) < abs(small) / 8  # sixteen times the rows; the prior keeps it from being exactly that


# --- laws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["empirical", Normal(), None], ids=repr)
@pytest.mark.parametrize(
    ("link", "classifier"),
    [
        ("logit", BayesianLogisticRegression()),
        ("probit", BayesianProbitRegression()),
        ("cloglog", NoisyThresholdClassifier("gumbel")),
        ("cauchit", NoisyThresholdClassifier("cauchy")),
    ],
)
def test_a_bernoulli_glm_is_the_classifier(prior, link, classifier):
    X, y = targets("bernoulli", n=120)
    glm = BayesianGLM("bernoulli", link, prior=prior).fit(X, y)
    model = classifier.set_params(prior=prior).fit(X, y)
    assert_allclose(glm.posterior_.mean, model.posterior_.mean, rtol=1e-6)  # "empirical": a search ends at 1e-9 of θ
    assert_allclose(glm.posterior_.cov, model.posterior_.cov, rtol=1e-6, atol=1e-12)
    assert_allclose(glm.predict(X), model.predict_proba(X)[:, 1], rtol=1e-6)
    assert_allclose(glm.log_likelihood_, model.log_likelihood_, rtol=1e-9)
    if prior is not None:
        assert glm.rung_ == model.rung_
        assert_allclose(glm.log_evidence_, model.log_evidence_, rtol=1e-9)


@pytest.mark.parametrize("inference", ["ep", "adf", "variational"])
def test_a_bernoulli_glm_is_the_classifier_in_every_rung(inference):
    X, y = targets("bernoulli", n=40)
    glm = BayesianGLM("bernoulli", "probit", prior=Normal(scale=0.5), inference=inference).fit(X, y)
    model = BayesianProbitRegression(prior=Normal(scale=0.5), inference=inference).fit(X, y)
    assert_allclose(glm.posterior_.mean, model.posterior_.mean, rtol=1e-6, atol=1e-9)
    assert_allclose(glm.log_evidence_, model.log_evidence_, rtol=1e-9)


def test_counts_and_proportions_are_the_same_binomial():
    X, f, rng = rows_of()
    totals = rng.integers(1, 12, size=60)
    successes = rng.binomial(totals, 1 / (1 + np.exp(-f)))
    counts = np.column_stack([successes, totals - successes])
    a = BayesianGLM("binomial", prior=Normal()).fit(X, counts)
    b = BayesianGLM("binomial", prior=Normal()).fit(X, successes / totals, sample_weight=totals)
    rows = np.repeat(np.arange(60), totals)
    labels = np.concatenate([np.r_[np.ones(k), np.zeros(m - k)] for k, m in zip(successes, totals, strict=True)])
    c = BayesianGLM("bernoulli", prior=Normal()).fit(X[rows], labels)
    for other in (b, c):
        assert_allclose(a.posterior_.mean, other.posterior_.mean, rtol=1e-8)
        assert_allclose(a.posterior_.cov, other.posterior_.cov, rtol=1e-8, atol=1e-14)
    assert_allclose(a.log_evidence_, b.log_evidence_, rtol=1e-12)
    assert_allclose(a.log_evidence_ - c.log_evidence_, np.log(comb(totals, successes)).sum(), rtol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma", "negative_binomial"])
@pytest.mark.parametrize("prior", [Normal(), None], ids=repr)
def test_doubling_the_weights_is_doubling_the_rows(family, prior):
    X, y = targets(family)
    twice = BayesianGLM(family, "log" if family != "gaussian" else None, prior=prior)
    a = twice.fit(np.tile(X, (2, 1)), np.tile(y, 2)).posterior_
    s, ll = twice.dispersion_, twice.log_likelihood_
    b = twice.fit(X, y, sample_weight=np.full(len(y), 2.0)).posterior_
    assert_allclose(a.mean, b.mean, rtol=1e-9)
    assert_allclose(a.std, b.std, rtol=1e-9)
    assert_allclose([twice.dispersion_, twice.log_likelihood_], [s, ll], rtol=1e-9)


def test_an_offset_is_a_column_whose_coefficient_is_one_and_an_exposure_its_logarithm():
    X, y = targets("poisson")
    time = np.random.default_rng(5).uniform(0.5, 3, size=60)
    a = BayesianGLM("poisson", prior=None).fit(X, y, offset=np.log(time))
    b = BayesianGLM("poisson", prior=None).fit(X, y, exposure=time)
    assert_allclose(a.posterior_.mean, b.posterior_.mean, rtol=1e-12)
    reference = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson(), offset=np.log(time)).fit(tol=1e-12)
    assert_allclose(np.append(a.intercept_, a.coef_), reference.params, rtol=1e-7)
    assert_allclose(a.null_deviance_, reference.null_deviance, rtol=1e-7)
    assert_allclose(a.predict(X, exposure=time), reference.fittedvalues, rtol=1e-7)
    assert_allclose(a.predict(X, offset=np.log(time)), reference.fittedvalues, rtol=1e-7)


def test_without_an_intercept_the_null_model_is_the_offset_alone():
    X, y = targets("poisson")
    model = BayesianGLM("poisson", prior=None, fit_intercept=False).fit(X, y)
    reference = sm.GLM(y, X, family=sm.families.Poisson()).fit(tol=1e-12)
    assert_allclose(model.coef_, reference.params, rtol=1e-7)
    assert_allclose(model.null_deviance_, 2 * (poisson.logpmf(y, y) - poisson.logpmf(y, 1)).sum())


# --- offsets that say all, or nothing ------------------------------------------------------------------------


@pytest.mark.parametrize("n", [50, 60_000])  # Newton; a sample first
@pytest.mark.parametrize(("link", "sure"), [("logit", 800.0), ("logit", 1e100), ("probit", 40.0), ("cloglog", 1e4)])
def test_offsets_that_fit_every_label_leave_the_prior_as_it_was(link, sure, n):
    """As many labels of one kind as of the other: the search for an intercept alone starts where nothing bends."""
    X, y = np.random.default_rng(0).normal(size=(n, 5)), np.arange(n) % 2
    model = BayesianGLM("bernoulli", link, prior=Normal(scale=2.0, intercept_scale=3.0)).fit(
        X, y, offset=sure * (2 * y - 1)
    )
    assert model.status_ is Status.CONVERGED
    assert_allclose(model.posterior_.mean, 0, atol=1e-9)
    assert_allclose(model.posterior_.cov, np.diag([4.0] * 5 + [9.0]), atol=1e-9)
    assert_allclose([model.log_evidence_, model.deviance_, model.null_deviance_], 0, atol=1e-9)


def test_without_a_prior_offsets_that_fit_every_label_are_refused_by_name():
    X, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2
    with pytest.raises(SeparationError, match="offsets alone predict every target"):
        BayesianGLM("bernoulli", prior=None).fit(X, y, offset=800.0 * (2 * y - 1))


@pytest.mark.parametrize("miss", [100.0, 800.0, 1e4])
def test_the_null_deviance_of_offsets_that_miss_every_label_is_that_of_the_kink(miss):
    """The loss of an intercept is straight up to c = miss + t, where n₁σ(-t) = n₀ rows outweigh each other."""
    n1, n0 = 30, 20
    y = np.repeat([1, 0], [n1, n0])
    X = np.random.default_rng(0).normal(size=(n1 + n0, 2))
    model = BayesianGLM("bernoulli", prior=Normal()).fit(X, y, offset=-miss * (2 * y - 1))
    r = n0 / n1
    least = -n1 * np.log1p(-r) + n0 * (2 * miss - np.log(r / (1 - r)))
    assert_allclose(model.null_deviance_, 2 * least, rtol=1e-9)


ENDS = [
    *(("bernoulli", link, y) for link in ("logit", "probit", "cloglog", "cauchit") for y in (0.0, 1.0)),
    ("poisson", "log", 0.0),
    ("negative_binomial", "log", 0.0),
]


@pytest.mark.parametrize("offset", [None, np.linspace(-1, 1, 50)])
@pytest.mark.parametrize(("family", "link", "y"), ENDS)
def test_targets_that_are_all_at_one_end_are_fitted_exactly_by_an_infinite_intercept(family, link, y, offset):
    X, weight = np.random.default_rng(0).normal(size=(2, 50, 1))
    dispersion = 0.5 if family == "negative_binomial" else None
    model = BayesianGLM(family, link, prior=Normal(), dispersion=dispersion, inference="laplace")
    model.fit(X, np.full(50, y), np.abs(weight[:, 0]), offset=offset)
    assert model.null_deviance_ == 0
    assert 0 < model.deviance_ < 5


def test_a_null_model_that_cannot_be_started_is_not_a_number():
    """The mean target is negative, and no mean of the log link is."""
    X, rng = np.random.default_rng(0).normal(size=(40, 1)), np.random.default_rng(1)
    model = BayesianGLM("gaussian", "log", prior=Normal(), dispersion=1.0, inference="laplace")
    model.fit(X, rng.normal(size=40) - 1, offset=rng.random(40))
    assert np.isnan(model.null_deviance_)


def test_sparse_rows_are_dense_rows():
    X, y = targets("poisson")
    X = np.where(np.abs(X) < 1, 0.0, X)
    dense, sparse = (BayesianGLM("poisson").fit(rows, y) for rows in (X, csr_array(X)))
    assert_allclose(dense.posterior_.mean, sparse.posterior_.mean, rtol=1e-6)
    assert_allclose(dense.predict(csr_array(X)), dense.predict(X), rtol=1e-10)


def test_two_batches_multiply_to_the_evidence_of_all_rows():
    X, y = targets("gaussian")
    model = BayesianGLM(prior=Normal(), dispersion=0.5)
    whole = model.fit(X, y).log_evidence_, model.posterior_.mean
    parts = BayesianGLM(prior=Normal(), dispersion=0.5).partial_fit(X[:25], y[:25]).partial_fit(X[25:], y[25:])
    assert_allclose(parts.log_evidence_, whole[0], rtol=1e-9)
    assert_allclose(parts.posterior_.mean, whole[1], rtol=1e-7)
    with pytest.raises(InputError, match="partial_fit"):
        _ = parts.deviance_


# --- other packages -----------------------------------------------------------------------------------------


def test_the_negative_binomial_is_statsmodels():
    X, y = targets("negative_binomial", n=200)
    model = BayesianGLM("negative_binomial", prior=None).fit(X, y)
    reference = sm.NegativeBinomial(y, sm.add_constant(X)).fit(disp=0, method="newton")
    assert_allclose(model.log_likelihood_, reference.llf, rtol=1e-9)
    assert_allclose(np.append(model.intercept_, model.coef_), reference.params[:-1], rtol=1e-4)  # BFGS stops there
    assert_allclose(model.dispersion_, reference.params[-1], rtol=1e-4)
    assert_allclose(model.aic_, reference.aic, rtol=1e-8)


@pytest.mark.parametrize(
    ("family", "link", "theirs"),
    [
        ("gamma", "inverse", sm.families.Gamma()),
        ("inverse_gaussian", "inverse_square", sm.families.InverseGaussian()),
        ("gaussian", "log", sm.families.Gaussian(sm.families.links.Log())),
        ("poisson", "sqrt", sm.families.Poisson(sm.families.links.Sqrt())),
    ],
)
def test_canonical_and_other_links_are_statsmodels(family, link, theirs):
    X, f, rng = rows_of()  # means between 1 and 3, so that statsmodels' first steps stay in the domain
    mean = 2 + np.tanh(f)
    y = rng.poisson(mean) if family == "poisson" else rng.gamma(9.0, mean / 9.0)
    Z = sm.add_constant(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statsmodels warns of domains that it may leave
        reference = sm.GLM(y, Z, family=theirs).fit(tol=1e-13, maxiter=200)
    model = BayesianGLM(family, link, prior=None).fit(X, y)
    assert_allclose(model.deviance_, reference.deviance, rtol=1e-8)
    assert_allclose(np.append(model.intercept_, model.coef_), reference.params, rtol=1e-4, atol=1e-8)


# --- prediction ---------------------------------------------------------------------------------------------


def test_the_averaged_mean_is_that_of_the_posterior():
    X, y = targets("poisson")
    model = BayesianGLM("poisson").fit(X, y)
    m, v = model.predict_latent(X)
    assert_allclose(model.predict(X), np.exp(m + v / 2), rtol=1e-12)
    plug_in = BayesianGLM("poisson", prior=None).fit(X, y)
    assert_allclose(plug_in.predict(X), np.exp(plug_in.predict_latent(X).mean), rtol=1e-12)
    inverse = BayesianGLM("gamma", prior=Normal()).fit(X / 50, targets("gamma")[1])
    assert_allclose(inverse.predict(X / 50), 1 / inverse.predict_latent(X / 50).mean, rtol=1e-12)


def test_intervals_of_the_mean_are_quantiles_in_the_right_order():
    X, y = targets("gamma")
    for link in ("log", "inverse"):
        model = BayesianGLM("gamma", link, prior=Normal()).fit(X / 50, y)
        m, v = model.predict_latent(X / 50)
        low, high = model.predict_interval(X / 50, 0.8).T
        ends = [model.link_.mean(m + z * np.sqrt(v)) for z in norm.ppf([0.1, 0.9])]
        assert_allclose(low, np.minimum(*ends), rtol=1e-12)
        assert_allclose(high, np.maximum(*ends), rtol=1e-12)
        assert (low < high).all()


def test_a_mean_beyond_the_links_domain_is_unbounded():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [1.0, 2.0, 5.0, 30.0]
    model = BayesianGLM("gamma", prior=None).fit(X, y)
    low, high = model.predict_interval([[3.05]], 0.999)[0]
    assert 0 < low < 100 and high == np.inf


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma", "negative_binomial"])
def test_intervals_of_a_new_observation_hold_their_mass(family):
    """The distribution function of the mixture over the score, by an independent quadrature, at both ends."""
    X, y = targets(family)
    model = BayesianGLM(family, None if family == "gaussian" else "log").fit(X, y)
    ends = model.predict_interval(X[:4], 0.9, kind="observation")
    m, v = model.predict_latent(X[:4])
    s = model.dispersion_
    cdf = {
        "gaussian": lambda t, f: norm.cdf(t, f, np.sqrt(s)),
        "poisson": lambda t, f: poisson.cdf(t, np.exp(f)),
        "gamma": lambda t, f: gamma.cdf(t, 1 / s, scale=s * np.exp(f)),
        "negative_binomial": lambda t, f: nbinom.cdf(t, 1 / s, 1 / (1 + s * np.exp(f))),
    }[family]
    z = np.linspace(-9, 9, 2001)
    weight = norm.pdf(z) * (z[1] - z[0])
    for row in range(4):
        f = m[row] + np.sqrt(v[row]) * z
        mass = [weight @ cdf(t, f) for t in ends[row]]
        if family in {"poisson", "negative_binomial"}:  # the least count that has the mass
            below = [weight @ cdf(t - 1, f) for t in ends[row]]
            assert below[0] < 0.05 <= mass[0] and below[1] < 0.95 <= mass[1]
        else:
            assert_allclose(mass, [0.05, 0.95], atol=1e-9)


@pytest.mark.parametrize(
    ("family", "link"),
    [("poisson", "identity"), ("gamma", "identity"), ("bernoulli", "log"), ("bernoulli", "identity")],
)
def test_links_with_a_domain_have_intervals_of_a_new_observation(family, link):
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 60)[:, None]
    mean = 2 + 2 * x[:, 0]
    y = {"poisson": rng.poisson(mean), "gamma": rng.gamma(3, mean / 3), "bernoulli": (rng.random(60) < 0.3) * 1}[family]
    model = BayesianGLM(family, link, prior=None).fit(x, y)
    low, high = model.predict_interval([[0.0], [1.0]], kind="observation").T
    assert (low >= 0).all() and (low < high).all() and np.isfinite(high).all()
    if family == "bernoulli":
        assert_allclose([*low, *high], [0, 0, 1, 1])


def test_a_score_without_a_mean_is_nan_and_told_by_every_method():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 60)[:, None]
    model = BayesianGLM("poisson", "identity", prior=None).fit(x, rng.poisson(2 + 2 * x[:, 0]))
    far = [[0.5], [-9.0]]  # a mean of about -15
    calls = [model.predict, model.predict_interval, lambda X: model.predict_interval(X, kind="observation")]
    for call in calls:
        with pytest.warns(DataWarning, match="1 of 2 rows"):
            answer = np.atleast_2d(call(far).T).T
        assert np.isfinite(answer[0]).all() and np.isnan(answer[1]).all()


# --- large counts, many columns, extremes --------------------------------------------------------------------


@pytest.mark.parametrize(
    "y, mu", [(0.0, 2.5), (3.0, 2.5), (1e4, 1.005e4), (1e9, 1.00003e9), (100.0, 81.7), (5.0, 500.0)]
)
def test_the_log_density_of_large_counts_does_not_cancel(y, mu):
    with mp.workdps(50):
        exact = float(y * mp.log(mu) - mp.mpf(mu) - mp.loggamma(mp.mpf(y) + 1))
    assert_allclose(Poisson().log_density(np.array(y), np.array(mu)), exact, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 0.5, 1e4])
@pytest.mark.parametrize("y, mu", [(0.0, 2.5), (3.0, 2.5), (1e4, 1.005e4), (1e8, 1.001e8), (5.0, 500.0), (7.0, 1e-300)])
def test_the_log_density_and_the_deviance_of_overdispersed_counts_do_not_cancel(y, mu, alpha):
    with mp.workdps(60):
        a, k = mp.mpf(alpha), 1 / mp.mpf(alpha)

        def log_density(m):
            odds = a * m
            at_zero = -k * mp.log1p(odds)
            ratio = mp.loggamma(y + k) - mp.loggamma(k) - mp.loggamma(mp.mpf(y) + 1)
            return at_zero + (ratio + y * mp.log(odds / (1 + odds)) if y else 0)

        exact, twice = log_density(mp.mpf(mu)), 2 * (log_density(mp.mpf(y)) - log_density(mp.mpf(mu)))
    family = NegativeBinomial(alpha)
    assert_allclose(family.log_density(np.array(y), np.array(mu)), float(exact), rtol=1e-12, atol=1e-14)
    assert_allclose(family.unit_deviance(np.array(y), np.array(mu)), float(twice), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("prior", ["empirical", Normal(), None], ids=repr)
@pytest.mark.parametrize("size", [3e4, 1e9, 1e12])
def test_large_counts_converge_without_a_warning(size, prior):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    model = BayesianGLM("poisson", prior=prior).fit(X, rng.poisson(size * np.exp(X @ [0.3, -0.2])))
    assert model.status_ is Status.CONVERGED
    assert_allclose(model.coef_, [0.3, -0.2], atol=10 / np.sqrt(50 * size))  # ten standard errors


@pytest.mark.parametrize("family", ["poisson", "gaussian"])
@pytest.mark.parametrize("seed", range(3))
def test_one_scale_per_column_is_found_where_rows_are_many(family, seed):
    """No scale moved by a tenth, or let in again, has a higher evidence."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 6))
    f = 0.5 * X[:, 0]
    y = rng.poisson(np.exp(f)) if family == "poisson" else f + rng.normal(size=500)
    known = None if family == "poisson" else 1.0
    model = BayesianGLM(family, prior="ard", dispersion=known).fit(X, y)
    assert model.status_.good
    spread = X.std(axis=0)
    center = X.mean(axis=0)
    of_intercept = 10.0 if family == "poisson" else 10.0 * np.sqrt((y**2).mean())
    for j in range(6):
        for scale in (1.1 * model.prior_scale_[j], 0.9 * model.prior_scale_[j], 0.05):
            scales = model.prior_scale_.copy()
            scales[j] = max(scale, 1e-3)
            root = np.diag(np.append(scales / spread, of_intercept))
            root[-1, :-1] = -scales / spread * center
            other = BayesianGLM(family, prior=Normal(mean=np.zeros(7), cov=root @ root.T), dispersion=known).fit(X, y)
            # a scale that is switched off lies on a plateau, whose slope is below 1e-3 nats per unit of log scale
            assert other.log_evidence_ <= model.log_evidence_ + 1e-4


@pytest.mark.parametrize("family", ["gaussian", "negative_binomial"])
@pytest.mark.parametrize("prior", ["empirical", Normal()], ids=repr)
def test_a_dispersion_that_runs_to_its_bound_is_told_and_leaves_a_fit(family, prior):
    """Targets on a line, and counts that vary less than a Poisson's: the evidence rises to the end."""
    x = np.linspace(0, 1, 30)[:, None]
    y = 1 + 2 * x[:, 0] if family == "gaussian" else np.rint(np.exp(1 + x[:, 0]))
    with pytest.warns(ConvergenceWarning, match="dispersion"):
        model = BayesianGLM(family, prior=prior).fit(x, y)
    assert model.status_ is Status.DISPERSION_AT_BOUND
    assert np.isfinite(model.posterior_.std).all() and np.isfinite(model.integrated_log_evidence_)


def test_little_extra_variance_of_large_counts_is_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = rng.poisson(rng.gamma(1e6, 1e8 * np.exp(X @ [0.3, 0.2]) / 1e6))
    model = BayesianGLM("negative_binomial", prior=None).fit(X, y)
    assert model.status_.good
    assert_allclose(model.dispersion_, 1e-6, rtol=0.3)  # α has a relative error of √(2/300) = 8 %


def test_a_maximum_at_the_edge_of_the_domain_is_told():
    with pytest.warns(ConvergenceWarning, match="edge of the link's domain"):
        model = BayesianGLM("poisson", "identity", prior=None).fit(np.arange(6.0)[:, None], [0, 0, 0, 1, 5, 9])
    assert model.status_ is Status.EDGE_OF_DOMAIN


@pytest.mark.parametrize("factor", [1e-200, 1e150])
def test_targets_whose_squares_leave_floating_point_are_refused(factor):
    X, y = targets("gamma")
    with pytest.raises(InputError, match="unit of the target"):
        BayesianGLM("gamma", "log").fit(X, y * factor)


def test_z_and_p_of_a_summary_are_those_of_the_standard_errors():
    X, y = targets("gamma")
    model = BayesianGLM("gamma", "log", prior=None).fit(X, y)
    table = model.summary().to_frame()
    assert_allclose(table["z"], model.posterior_.mean / model.standard_errors_, rtol=1e-12)
    assert_allclose(table["z"].iloc[0] ** 2, model.wald_test(["x0"]).statistic, rtol=1e-9)
    assert "as R" in str(model.summary())


# --- what a person sees, and bad input ----------------------------------------------------------------------


def test_the_summary_tells_the_family_the_dispersion_and_the_deviance():
    X, y = targets("gamma")
    model = BayesianGLM("gamma", "log", prior=None).fit(pd.DataFrame(X, columns=["age", "dose"]), y)
    text = str(model.summary())
    assert "gamma family, log link" in text and "dispersion" in text and "deviance" in text
    assert list(model.summary().to_frame().index) == ["age", "dose", "intercept"]
    assert model.wald_test("age = 0, dose = 0").df == 2
    with pytest.raises(InputError, match="dosis"):
        model.wald_test("dosis = 0")
    with pytest.raises(NoEvidenceError):
        _ = model.log_evidence_


def test_a_perfect_fit_has_unknown_standard_deviations_rather_than_none():
    X = np.arange(6.0)[:, None]
    with pytest.warns(ConvergenceWarning, match="exactly"):
        model = BayesianGLM(prior=None).fit(X, 2 * X[:, 0] + 1)
    assert model.status_ is Status.FITTED_EXACTLY
    assert np.isnan(model.posterior_.std).all() and np.isnan(model.dispersion_)
    assert np.isnan(model.lr_test().statistic)
    assert_allclose(model.predict(X), 2 * X[:, 0] + 1, rtol=1e-12)


@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_zero_counts_that_a_column_rules_out_are_separated(family):
    X = np.column_stack([np.r_[np.zeros(10), np.ones(5)], np.arange(15.0) % 4])
    y = np.r_[2, 3, 1, 0, 4, 2, 2, 1, 3, 0, np.zeros(5)]
    known = None if family == "poisson" else 0.5
    with pytest.raises(SeparationError, match="x0"):
        BayesianGLM(family, prior=None, dispersion=known).fit(X, y)
    assert np.isfinite(BayesianGLM(family, dispersion=known).fit(X, y).coef_).all()


def test_separated_proportions_are_refused_without_a_prior():
    X = np.arange(6.0)[:, None]
    with pytest.raises(SeparationError, match="x0"):
        BayesianGLM("binomial", prior=None).fit(X, np.column_stack([[0, 0, 0, 3, 4, 5], [3, 4, 5, 0, 0, 0]]))


@pytest.mark.parametrize(
    ("choices", "y", "message"),
    [
        ({"family": "poisson"}, [1.5, 2.0, 1.0], "whole numbers|integer"),
        ({"family": "poisson"}, [1, -2, 1], "counts, 0 or more"),
        ({"family": "gamma"}, [1.0, -2.0, 1.0], "positive"),
        ({"family": "inverse_gaussian"}, [1.0, 0.0, 1.0], "positive"),
        ({"family": "bernoulli"}, [0, 2, 1], "0"),
        ({"family": "binomial"}, [0.5, 1.2, 0.1], "between 0 and 1"),
        ({"family": "binomial"}, [[3, 1], [2, -1], [0, 1]], "negative"),
        ({"family": "binomial"}, [[3, 1.5], [2, 1], [0, 1]], "whole"),
        ({"family": "binomial"}, [[3, 1, 2], [2, 1, 1], [0, 1, 1]], "successes and failures"),
        ({"family": "gaussian"}, [1.0, np.nan, 1.0], "NaN"),
        ({"family": "poison"}, [1, 2, 1], "poisson"),
        ({"family": "poisson", "link": "probit"}, [1, 2, 1], "log"),
        ({"family": "poisson", "dispersion": 2.0}, [1, 2, 1], "negative_binomial"),
        ({"family": "gamma", "dispersion": -2.0}, [1.0, 2.0, 1.0], "positive"),
        ({"family": "gaussian"}, [2.0, 2.0, 2.0], "dispersion"),
        ({"family": "gaussian"}, ["yes", "no", "yes"], "use a classifier"),
        ({"family": "gamma", "dispersion": np.ones(3)}, [1.0, 2.0, 1.0], "dispersion must be"),
        ({"family": ["gamma"]}, [1.0, 2.0, 1.0], "is not known"),
    ],
)
def test_targets_and_choices_that_make_no_sense_are_refused(choices, y, message):
    with pytest.raises(InputError, match=message):
        BayesianGLM(**choices).fit(np.array([[0.0], [1.0], [3.0]]), y)


def test_proportions_whose_trials_are_not_whole_are_refused():
    X = np.arange(3.0)[:, None]
    with pytest.raises(InputError, match="whole"):
        BayesianGLM("binomial").fit(X, [0.5, 0.25, 0.3], sample_weight=[2, 3, 10])


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"exposure": [1.0, 0.0, 2.0]}, "positive"),
        ({"offset": [1.0, 2.0]}, "2 entries for 3 rows"),
        ({"offset": [1.0, np.inf, 2.0]}, "finite"),
        ({"offset": [1.0, 2.0, -1e101]}, "at most 1e100 in size; row 2 is not"),
        ({"offset": ["a", "b", "c"]}, "one number per row"),
    ],
)
def test_offsets_that_make_no_sense_are_refused(extra, message):
    with pytest.raises(InputError, match=message):
        BayesianGLM("poisson").fit(np.array([[0.0], [1.0], [3.0]]), [1, 2, 4], **extra)


def test_an_exposure_needs_the_log_link():
    with pytest.raises(InputError, match="log link"):
        BayesianGLM().fit(np.array([[0.0], [1.0], [3.0]]), [1.0, 2.5, 4.0], exposure=[1.0, 1.0, 2.0])


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_the_deviance_of_labels_is_minus_twice_the_log_likelihood_however_sure_the_means_are(link):
    rng = np.random.default_rng(0)
    x = rng.standard_t(1.5, size=2000)  # scores beyond 40: means that round to 0 and 1
    y = (rng.random(2000) < 1 / (1 + np.exp(-x))).astype(float)
    model = BayesianGLM("bernoulli", link, prior=Normal(scale=2.0)).fit(x[:, None], y)
    assert_allclose(model.deviance_, -2 * model.log_likelihood_, rtol=1e-12)


@pytest.mark.parametrize(
    ("family", "link", "sentinel"),
    [("poisson", "log", 9999), ("gamma", "log", -9999), ("gaussian", "log", 9999), ("bernoulli", "probit", 9999)],
)
@pytest.mark.parametrize("prior", [None, Normal(scale=2.0)], ids=repr)
@pytest.mark.parametrize("n", [500, 20_000])
def test_a_row_of_weight_zero_does_nothing_whatever_it_holds(family, link, sentinel, prior, n):
    """Infinity times zero is not a number: such rows must not be computed with."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    mu = np.exp(0.5 + 0.5 * x)
    y = {"poisson": rng.poisson(mu), "gamma": rng.gamma(2.0, mu / 2), "gaussian": mu + rng.normal(size=n)}.get(
        family, rng.random(n) < 0.5
    ) * 1.0
    weight = np.ones(n)
    x[0], weight[0] = sentinel, 0.0
    with_row = BayesianGLM(family, link, prior=prior).fit(x[:, None], y, sample_weight=weight)
    without = BayesianGLM(family, link, prior=prior).fit(x[1:, None], y[1:])
    assert_allclose(with_row.coef_, without.coef_, rtol=1e-7)
    assert_allclose(with_row.deviance_, without.deviance_, rtol=1e-9)


OUTSIDE = {  # family, link, targets, the last row's offset, which leaves link(mean target) without a mean there
    "gamma, inverse": ("gamma", "inverse", (1, 2, 3, 2, 1, 3), -0.9),
    "Poisson, identity": ("poisson", "identity", (1, 2, 3, 2, 1, 3), -3.0),
    "Poisson, square root": ("poisson", "sqrt", (1, 2, 3, 2, 1, 3), -3.0),
    "Bernoulli, log": ("bernoulli", "log", (1, 0, 0, 1, 0, 0), 1.5),
}


@pytest.mark.parametrize(("family", "link", "target", "last"), OUTSIDE.values(), ids=OUTSIDE.keys())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_null_deviance_is_found_where_the_mean_score_is_outside_the_domain(family, link, target, last):
    y, offset = np.array(target, dtype=float), np.array([0, 0, 0, 0, 0, last])
    model = BayesianGLM(family, link, prior=Normal()).fit(np.arange(6.0)[:, None], y, offset=offset)

    def null_deviance(b):
        return deviance(model.family_, y, model.link_.mean(b + offset))

    edge, beyond = -last, -last + (-30 if link == "log" else 30)  # intercepts that leave every row a mean
    best = minimize_scalar(null_deviance, bounds=sorted((edge, beyond)), method="bounded", options={"xatol": 1e-10})
    assert_allclose(model.null_deviance_, best.fun, rtol=1e-8)


@pytest.mark.parametrize("choices", [{"tol": 10.0}, {"max_iter": 1}], ids=["loose", "few steps"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_how_the_fit_is_stopped_does_not_move_the_null_deviance(choices):
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(300, 2)), rng.normal(scale=2, size=300)
    y = rng.poisson(np.exp(0.3 * X[:, 0] + offset / 2))
    exact = BayesianGLM("poisson", prior=Normal()).fit(X, y, offset=offset).null_deviance_
    found = BayesianGLM("poisson", prior=Normal(), **choices).fit(X, y, offset=offset).null_deviance_
    assert_allclose(found, exact, rtol=1e-12)
