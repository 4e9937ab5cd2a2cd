"""Tests, covariances and profile intervals of fitted models: direct formulas, laws, statsmodels, what is refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit, ndtr
from scipy.stats import chi2, norm, t

from credibly import BayesianLogisticRegression, BayesianProbitRegression, Jeffreys, NoisyThresholdClassifier, Normal
from credibly.errors import CollinearityError, ConvergenceWarning, InputError

MODELS = pytest.mark.parametrize("model", [BayesianLogisticRegression, BayesianProbitRegression])
LINKS = {BayesianLogisticRegression: sm.families.links.Logit(), BayesianProbitRegression: sm.families.links.Probit()}


def table(n=80, seed=3):
    """Rows whose columns differ in unit and are far from zero."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    X = Z * [1.0, 20.0, 0.05] + [0.0, 300.0, 1.0]
    y = (Z @ [0.8, -0.5, 0.3] + rng.logistic(size=n) > 0.2).astype(int)
    return X, y, rng.integers(1, 4, size=n).astype(float), rng.integers(0, 9, size=n)


def fit(model, X, y, weight=None, **choices):
    return model(**({"prior": None} | choices)).fit(X, y, sample_weight=weight)


def three_classes(n=150, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) + np.array([0.0, 5.0, 0.0])
    W = np.array([[0.5, 0.0, 0.2], [-0.5, 0.4, 0.0], [0.0, -0.3, 0.3]])
    return X, (X @ W.T + rng.gumbel(size=(n, 3))).argmax(axis=1)


def sm_glm(model, X, y, weight=None):
    family = sm.families.Binomial(LINKS[model])
    return sm.GLM(y, np.column_stack([X, np.ones(len(X))]), family, freq_weights=weight)


# --- covariances --------------------------------------------------------------------------------------------


@MODELS
def test_the_model_covariance_is_the_inverse_expected_information(model):
    X, y, weight, _ = table()
    fitted = fit(model, X, y, weight)
    Phi = np.column_stack([X, np.ones(len(X))])
    f = Phi @ fitted.posterior_.mean
    p = expit(f) if model is BayesianLogisticRegression else ndtr(f)
    slope = p * (1 - p) if model is BayesianLogisticRegression else norm.pdf(f)
    information = Phi.T @ (Phi * (weight * slope**2 / (p * (1 - p)))[:, None])
    # inverted in data units, where the condition number is 1e9
    assert_allclose(fitted.covariance(), np.linalg.solve(information, np.eye(4)), rtol=1e-6)
    assert_allclose(fitted.standard_errors_, np.sqrt(np.diag(fitted.covariance())), rtol=1e-15)
    assert_allclose(fitted.standard_errors_, sm_glm(model, X, y, weight).fit(tol=1e-14).bse, rtol=1e-6)


def test_expected_and_observed_information_differ_for_the_probit_and_agree_for_the_logit():
    X, y, _, _ = table()
    logit, probit = (fit(model, X, y) for model in (BayesianLogisticRegression, BayesianProbitRegression))
    assert_allclose(logit.covariance(), logit.posterior_.cov, rtol=1e-10)
    assert np.abs(probit.covariance() / probit.posterior_.cov - 1).max() > 1e-3


@MODELS
def test_with_a_proper_prior_it_is_that_of_the_posterior(model):
    X, y, _, _ = table()
    fitted = fit(model, X, y, prior=Normal(scale=1.0))
    assert_allclose(fitted.covariance(), fitted.posterior_.cov, rtol=1e-10)


def test_with_the_jeffreys_prior_it_is_the_inverse_fisher_information():
    X, y, _, _ = table()
    fitted = fit(BayesianProbitRegression, X, y, prior=Jeffreys())
    assert_allclose(fitted.covariance(), fitted.posterior_.cov, rtol=1e-10)


@MODELS
def test_the_robust_covariance_is_statsmodels(model):
    X, y, _, _ = table()
    fitted, other = fit(model, X, y), sm_glm(model, X, y)
    theirs = other.fit(tol=1e-14, cov_type="HC0").cov_params()
    if model is BayesianProbitRegression:  # statsmodels has the observed information for bread, R the expected one
        bread = fitted.covariance() @ np.linalg.solve(fitted.posterior_.cov, np.eye(4))
        theirs = bread @ theirs @ bread.T
    assert_allclose(fitted.covariance("robust"), theirs, rtol=1e-6)


@MODELS
def test_the_clustered_covariance_is_a_sum_over_groups(model):
    X, y, weight, groups = table()
    fitted = fit(model, X, y, weight)
    Phi = np.column_stack([X, np.ones(len(X))])
    f = Phi @ fitted.posterior_.mean
    p = expit(f) if model is BayesianLogisticRegression else ndtr(f)
    ratio = 1.0 if model is BayesianLogisticRegression else norm.pdf(f) / (p * (1 - p))
    score = Phi * (weight * (y - p) * ratio)[:, None]
    S = np.array([score[groups == g].sum(axis=0) for g in np.unique(groups)])
    B, G = fitted.covariance(), len(S)
    got = fitted.covariance("cluster", groups=np.array([f"clinic {g}" for g in groups]))
    assert_allclose(got, G / (G - 1) * B @ S.T @ S @ B, rtol=1e-6)  # formed in data units, condition number 1e9


def test_the_clustered_covariance_is_statsmodels():
    X, y, _, groups = table()
    fitted = fit(BayesianLogisticRegression, X, y)
    options = {"groups": groups, "use_correction": False}
    theirs = sm_glm(BayesianLogisticRegression, X, y).fit(tol=1e-14, cov_type="cluster", cov_kwds=options)
    G = len(np.unique(groups))
    assert_allclose(fitted.covariance("cluster", groups), theirs.cov_params() * G / (G - 1), rtol=1e-6)


@MODELS
def test_a_weight_is_a_number_of_rows(model):
    X, y, weight, groups = table()
    each = weight.astype(int)
    counted, repeated = fit(model, X, y, weight), fit(model, np.repeat(X, each, axis=0), np.repeat(y, each))
    for kind, by, by_repeated in (("robust", None, None), ("cluster", groups, np.repeat(groups, each))):
        assert_allclose(counted.covariance(kind, by), repeated.covariance(kind, by_repeated), rtol=1e-8)


def test_rows_of_weight_zero_are_no_rows():
    X, y, weight, groups = table()
    weight[groups == 4] = 0.0
    zero, gone = fit(BayesianLogisticRegression, X, y, weight), weight > 0
    without = fit(BayesianLogisticRegression, X[gone], y[gone], weight[gone])
    assert_allclose(zero.covariance("cluster", groups), without.covariance("cluster", groups[gone]), rtol=1e-9)
    assert_allclose(zero.covariance("robust"), without.covariance("robust"), rtol=1e-9)


@MODELS
def test_every_row_a_group_is_the_robust_covariance_but_for_the_factor(model):
    X, y, _, _ = table()
    fitted, n = fit(model, X, y), len(y)
    assert_allclose(fitted.covariance("cluster", np.arange(n)), fitted.covariance("robust") * n / (n - 1), rtol=1e-9)


@pytest.mark.parametrize("prior", [None, Normal(scale=1.0)])
def test_two_softmax_classes_are_the_logit(prior):
    """Weights of the two classes that add to zero are half the logit's, whatever the covariance."""
    X, y, _, groups = table()
    logit_prior = prior and Normal(scale=np.sqrt(2), intercept_scale=np.sqrt(2) * 10)
    logit = fit(BayesianLogisticRegression, X, y, prior=logit_prior)
    softmax = fit(BayesianLogisticRegression, X, y, prior=prior, multi_class="softmax")
    difference = np.hstack([-np.eye(4), np.eye(4)])
    for kind, by in (("model", None), ("robust", None), ("cluster", groups)):
        got = difference @ softmax.covariance(kind, by) @ difference.T
        assert_allclose(got, logit.covariance(kind, by), rtol=1e-6, atol=1e-8 * np.abs(got).max())
    assert_allclose(softmax.wald_test(["x0", "x2"]).statistic, logit.wald_test(["x0", "x2"]).statistic, rtol=1e-8)


def test_sparse_and_single_precision_tables_give_the_same():
    X, y, _, groups = table()
    X = np.where(np.abs(X - X.mean(axis=0)) < X.std(axis=0), 0.0, X).astype(np.float32)
    dense, sparse, single = (
        fit(BayesianLogisticRegression, it, y) for it in (X.astype(float), csr_array(X.astype(float)), X)
    )
    for kind, by in (("robust", None), ("cluster", groups)):
        want = dense.covariance(kind, by)
        for other in (sparse, single):
            assert_allclose(other.covariance(kind, by), want, rtol=1e-6, atol=1e-9 * np.abs(want).max())
    assert_allclose(sparse.profile_interval(), dense.profile_interval(), rtol=1e-7)


def test_softmax_without_a_prior_is_robust_in_the_weights_that_sum_to_zero():
    X, y = three_classes()
    fitted = fit(BayesianLogisticRegression, X, y)
    Phi, K = np.column_stack([X, np.ones(len(X))]), 3
    grad = np.eye(K)[y] - fitted.predict_proba(X)
    S = (grad[:, :, None] * Phi[:, None, :]).reshape(len(X), -1)
    B = fitted.covariance()
    assert_allclose(fitted.covariance("robust"), B @ S.T @ S @ B, rtol=1e-8, atol=1e-12)
    assert_allclose(fitted.covariance("robust").reshape(K, 4, K, 4).sum(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "groups", "message"),
    [
        ("HC0", None, "must be one of"),
        ("cluster", None, "needs one label"),
        ("robust", np.zeros(80), "needs one label"),
        ("cluster", np.arange(79), "79 labels for 80 rows"),
        ("cluster", np.zeros(80), "at least two"),
        ("cluster", np.zeros((80, 2)), "one label for each row"),
        ("cluster", np.array([None, "a"] * 40, dtype=object), "one type"),
    ],
)
def test_covariances_that_make_no_sense_are_refused(kind, groups, message):
    X, y, _, _ = table()
    with pytest.raises(InputError, match=message):
        fit(BayesianLogisticRegression, X, y).covariance(kind, groups)


# --- Wald ---------------------------------------------------------------------------------------------------


@MODELS
@pytest.mark.parametrize("kind", ["model", "robust", "cluster"])
def test_walds_statistic_is_the_quadratic_form(model, kind):
    X, y, _, groups = table()
    fitted = fit(model, pd.DataFrame(X, columns=["age", "dose (mg)", "x"]), y)
    by = groups if kind == "cluster" else None
    V, w = fitted.covariance(kind, by), fitted.posterior_.mean
    R, r = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, -2.0, 1.0, 0.0]]), np.array([0.0, 0.5])
    gap = R @ w - r
    want = gap @ np.linalg.solve(R @ V @ R.T, gap)
    for found in (
        fitted.wald_test("age = 0, x - 2*`dose (mg)` = 0.5", covariance=kind, groups=by),
        fitted.wald_test(R, r, covariance=kind, groups=by),
        fitted.wald_test(R, r, covariance=V),
    ):
        assert_allclose(found.statistic, want, rtol=1e-8)
        assert (found.df, found.pvalue) == (2, pytest.approx(chi2.sf(want, 2), rel=1e-7))


@MODELS
def test_one_weight_at_a_time_is_z_squared(model):
    X, y, _, _ = table()
    fitted = fit(model, X, y)
    z = fitted.posterior_.mean / fitted.standard_errors_
    names = ["x0", "x1", "x2", "intercept"]
    assert_allclose([fitted.wald_test(name).statistic for name in names], z**2, rtol=1e-9)


@MODELS
@pytest.mark.parametrize("kind", ["model", "robust"])
def test_units_and_origins_of_other_columns_do_not_matter(model, kind):
    X, y, _, _ = table()
    one, other = fit(model, X, y), fit(model, X * [1e3, 1e-4, 7.0] + [5.0, -80.0, 3.0], y)
    for names in ("x0", ["x0", "x2"]):
        a, b = (fitted.wald_test(names, covariance=kind).statistic for fitted in (one, other))
        assert_allclose(a, b, rtol=1e-8)


def test_no_effect_of_a_column_on_any_class_does_not_depend_on_the_class_left_out():
    X, y = three_classes()
    fitted = fit(BayesianLogisticRegression, X, y)
    theirs = sm.MNLogit(y, np.column_stack([X, np.ones(len(X))])).fit(method="newton", tol=1e-14, disp=False)
    R = np.zeros((2, 8))
    R[0, 1] = R[1, 5] = 1.0
    want = theirs.wald_test(R, use_f=False, scalar=True).statistic
    found = fitted.wald_test("x1")
    assert_allclose(found.statistic, want, rtol=1e-8)
    assert found.df == 2
    for text in ("0:x1 = 1:x1 = 2:x1", "2:x1 = 0:x1, 2:x1 = 1:x1", "0:x1 = 0, 1:x1 = 0"):
        assert_allclose(fitted.wald_test(text).statistic, want, rtol=1e-8)
    assert_allclose(fitted.wald_test("x1", covariance=fitted.covariance()).statistic, want, rtol=1e-8)


def test_hypotheses_that_cannot_be_tested_are_refused():
    X, y = three_classes()
    softmax, logit = fit(BayesianLogisticRegression, X, y), fit(BayesianLogisticRegression, *table()[:2])
    with pytest.raises(InputError, match="says nothing"):
        softmax.wald_test("0:x1 + 1:x1 + 2:x1 = 0")
    with pytest.raises(InputError, match="follows from"):
        softmax.wald_test("0:x1 = 0, 1:x1 = 0, 2:x1 = 0")
    with pytest.raises(InputError, match="follows from"):
        logit.wald_test("x0 = 0, x1 = 0, x0 = x1")
    with pytest.raises(InputError, match="each of 4 weights"):
        logit.wald_test(np.eye(3))
    with pytest.raises(InputError, match="'age'"):
        logit.wald_test("age = 0")
    with pytest.raises(InputError, match="singular"):  # the scores of three groups add to zero: rank two
        logit.wald_test(["x0", "x1", "x2"], covariance="cluster", groups=np.arange(80) % 3)
    for wrong in (np.eye(3), np.triu(np.ones((4, 4))), np.full((4, 4), np.nan), object()):
        with pytest.raises(InputError, match="covariance must be"):
            logit.wald_test("x0", covariance=wrong)


# --- likelihood ratio ---------------------------------------------------------------------------------------


def test_the_likelihood_ratio_test_of_softmax_models_is_statsmodels():
    X, y = three_classes()
    full, reduced = fit(BayesianLogisticRegression, X, y), fit(BayesianLogisticRegression, X[:, 1:], y)
    designs = (np.column_stack([part, np.ones(len(X))]) for part in (X, X[:, 1:]))
    l1, l0 = (sm.MNLogit(y, Phi).fit(method="newton", tol=1e-14, disp=False).llf for Phi in designs)
    found = full.lr_test(reduced)
    assert_allclose(found.statistic, 2 * (l1 - l0), rtol=1e-10)
    assert (found.df, found.pvalue) == (2, pytest.approx(chi2.sf(2 * (l1 - l0), 2)))


def test_a_reduced_model_may_be_any_combination_of_columns():
    X, y, weight, _ = table()
    full = fit(BayesianLogisticRegression, X, y, weight)
    summed = fit(BayesianLogisticRegression, (X[:, :1] + X[:, 2:]), y, weight)
    assert full.lr_test(summed).df == 2
    assert full.lr_test(fit(BayesianLogisticRegression, X, y, weight, fit_intercept=False)).df == 1
    shifted = fit(BayesianLogisticRegression, X[:, :1] + 7.0, y, weight, fit_intercept=False)
    assert full.lr_test(shifted).df == 3


def test_models_that_are_not_comparable_are_refused():
    X, y, weight, _ = table()
    full = fit(BayesianLogisticRegression, X, y)
    rng = np.random.default_rng(0)
    for other, message in (
        (fit(BayesianProbitRegression, X[:, 1:], y), "of one kind"),
        (fit(BayesianLogisticRegression, X[:, 1:], y, prior=Normal(scale=1.0)), "needs prior=None"),
        (fit(BayesianLogisticRegression, X[:, 1:], y, prior=Jeffreys()), "needs prior=None"),
        (fit(BayesianLogisticRegression, X[:, 1:], y, weight), "not fitted on the same rows"),
        (fit(BayesianLogisticRegression, X[1:, 1:], y[1:]), "not fitted on the same rows"),
        (fit(BayesianLogisticRegression, X[::-1, 1:], y[::-1]), "not fitted on the same rows"),
        (fit(BayesianLogisticRegression, X[:, 1:], np.array(["no", "yes"])[y]), "not fitted on the same rows"),
        (fit(BayesianLogisticRegression, X, y), "larger model"),
        (fit(BayesianLogisticRegression, rng.normal(size=(80, 1)), y), "'x0' is no combination"),
        (fit(BayesianLogisticRegression, X[:, 1:], y, label_noise=0.1), "of one kind"),
        (fit(BayesianLogisticRegression, X[:, 1:], y, multi_class="softmax"), "of one kind"),
        (pickle.loads(pickle.dumps(fit(BayesianLogisticRegression, X[:, 1:], y))), "no longer has"),
        (BayesianLogisticRegression(prior=None), "of one kind"),
        (object(), "of one kind"),
    ):
        with pytest.raises(InputError, match=message):
            full.lr_test(other)
    ones = fit(BayesianLogisticRegression, X[:, 1:], y, np.ones(80))
    assert full.lr_test(ones).df == 1  # weights of one are no weights


def test_thresholds_must_be_the_same():
    X, y, _, _ = table()
    full, same, other = (
        NoisyThresholdClassifier(threshold, prior=None).fit(columns, y)
        for threshold, columns in ((t(4), X), (t(4), X[:, 1:]), (t(5), X[:, 1:]))
    )
    assert full.lr_test(same).df == 1
    with pytest.raises(InputError, match="of one kind"):
        full.lr_test(other)


def test_a_search_that_ended_early_is_noticed():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    y = (20 * X[:, 0] + rng.logistic(size=300) > 0).astype(int)  # so steep that one Newton step falls short
    with pytest.warns(ConvergenceWarning):
        full = fit(BayesianLogisticRegression, X, y, max_iter=1)
    with pytest.raises(InputError, match="not at its maximum"):
        full.lr_test(fit(BayesianLogisticRegression, X[:, :1], y))


# --- score --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_the_score_test_of_softmax_columns_is_raos_formula(sparse):
    X, y = three_classes()
    reduced = fit(BayesianLogisticRegression, csr_array(X[:, 1:]) if sparse else X[:, 1:], y)
    found = reduced.score_test(X[:, 0], csr_array(X[:, 1:]) if sparse else X[:, 1:], y)
    p, Phi = reduced.predict_proba(X[:, 1:])[:, 1:], np.column_stack([X, np.ones(len(X))])
    U = ((np.eye(3)[y][:, 1:] - p).T @ Phi).reshape(-1)
    weights = p[:, :, None] * (np.eye(2) - p[:, None, :])
    information = np.einsum("njk,na,nb->jakb", weights, Phi, Phi).reshape(8, 8)
    assert_allclose(found.statistic, U @ np.linalg.solve(information, U), rtol=1e-8)
    assert found.df == 2


@MODELS
def test_the_score_test_counts_weights_and_does_not_mind_units(model):
    X, y, weight, _ = table()
    each, old, extra = weight.astype(int), X[:, 1:], X[:, :1]
    want = fit(model, np.repeat(old, each, axis=0), np.repeat(y, each)).score_test(
        np.repeat(extra, each, axis=0), np.repeat(old, each, axis=0), np.repeat(y, each)
    )
    reduced = fit(model, old, y, weight)
    assert_allclose(reduced.score_test(extra * 1e6 + 5e7, old, y, weight).statistic, want.statistic, rtol=1e-8)
    assert_allclose(reduced.score_test(csr_array(extra), old, y, weight).statistic, want.statistic, rtol=1e-8)
    saved = pickle.loads(pickle.dumps(reduced))
    assert_allclose(saved.score_test(extra, old, y, weight).statistic, want.statistic, rtol=1e-8)


def test_the_score_test_of_one_column_without_others_is_the_cochran_armitage_trend_test():
    """Intercept alone: U²/I = n (Σ (x - x̄)(y - ȳ))² / (Σ (x - x̄)² · n ȳ (1 - ȳ)), for every link."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=50), rng.integers(0, 2, size=50)
    nothing = rng.normal(size=(50, 1))
    nothing -= (
        np.column_stack([x - x.mean(), y - y.mean()])
        @ np.linalg.lstsq(np.column_stack([x - x.mean(), y - y.mean()]), nothing, rcond=None)[0]
    )
    nothing -= nothing.mean()  # a column without effect on y, and without relation to x
    reduced = fit(BayesianLogisticRegression, nothing, y)
    assert_allclose(reduced.coef_, 0, atol=1e-10)
    want = ((x - x.mean()) @ y) ** 2 / (((x - x.mean()) ** 2).sum() * y.mean() * (1 - y.mean()))
    assert_allclose(reduced.score_test(x, nothing, y).statistic, want, rtol=1e-8)


def test_score_tests_that_make_no_sense_are_refused():
    X, y, weight, _ = table()
    old, extra = X[:, 1:], X[:, 0]
    reduced = fit(BayesianLogisticRegression, old, y)
    frame = pd.DataFrame({"a": extra, "b": 2 * extra, "c": X[:, 1] - X[:, 2]})
    for call, message in (
        (lambda: reduced.score_test(extra, old, 1 - y), "not those of the fit"),
        (lambda: reduced.score_test(extra, old, y, weight), "not those of the fit"),
        (lambda: reduced.score_test(extra[1:], old, y), "79 rows, X has 80"),
        (lambda: reduced.score_test(np.where(extra > 0, np.nan, 1.0), old, y), "NaN"),
        (lambda: reduced.score_test(np.ones(80), old, y), "cannot be tested"),
        (lambda: reduced.score_test(np.zeros(80), old, y), "cannot be tested"),
        (lambda: reduced.score_test(frame[["a", "b"]], old, y), "'a', 'b' cannot be tested"),
        (lambda: reduced.score_test(frame[["a", "c"]], old, y), "'c' cannot be tested"),
        (lambda: reduced.score_test(extra, old, y, offset=extra), "no offset"),
        (lambda: fit(BayesianLogisticRegression, old, y, prior=Normal()).score_test(extra, old, y), "prior=None"),
    ):
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(CollinearityError):
        reduced.score_test(old, old, y)


# --- profiles -----------------------------------------------------------------------------------------------


@MODELS
def test_at_a_profile_limit_the_best_restricted_fit_is_as_low_as_asked(model):
    """By another road: the weight is fixed, and SciPy finds the best of the others."""
    X, y, weight, _ = table()
    X = (X - X.mean(axis=0)) / X.std(axis=0) + [0.0, 3.0, 0.0]
    fitted = fit(model, X, y, weight)
    Phi, s = np.column_stack([X, np.ones(len(X))]), 2 * y - 1
    log_p = (lambda f: -np.logaddexp(0, -f)) if model is BayesianLogisticRegression else norm.logcdf

    def loss(rest, j, value):
        return -weight @ log_p(s * (Phi @ np.insert(rest, j, value)))

    for j, limits in enumerate(fitted.profile_interval(0.9)):
        for value in limits:
            start = np.delete(fitted.posterior_.mean, j)
            best = minimize(loss, start, args=(j, value), method="BFGS", options={"gtol": 1e-6})
            drop = 2 * (best.fun + fitted.log_likelihood_)
            assert_allclose(drop, chi2.isf(0.1, 1), rtol=1e-8)  # BFGS is off by gtol² only


def test_under_the_jeffreys_prior_the_profile_is_that_of_the_penalised_likelihood():
    """By another road: SciPy maximises l + ½ log det I, the determinant of all weights, over the others."""
    X, y, _, _ = table(n=40)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    fitted = fit(BayesianLogisticRegression, X, y, prior=Jeffreys())
    Phi = np.column_stack([X, np.ones(len(X))])

    def loss(w):
        p = expit(Phi @ w)
        return (
            np.logaddexp(0, -(2 * y - 1) * (Phi @ w)).sum() - 0.5 * np.linalg.slogdet((Phi.T * (p * (1 - p))) @ Phi)[1]
        )

    for j, limits in enumerate(fitted.profile_interval(0.9)):
        for value in limits:
            start = np.delete(fitted.posterior_.mean, j)
            best = minimize(lambda rest, j=j, v=value: loss(np.insert(rest, j, v)), start, options={"gtol": 1e-6})
            assert_allclose(2 * (best.fun - loss(fitted.posterior_.mean)), chi2.isf(0.1, 1), rtol=1e-8)


@pytest.mark.parametrize("threshold", ["cauchit", "cloglog"])
def test_thresholds_that_are_not_symmetric_or_not_concave_have_profiles_too(threshold):
    X, y, _, _ = table(n=200)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    fitted = NoisyThresholdClassifier(threshold, prior=None).fit(X, y)
    Phi = np.column_stack([X, np.ones(len(X))])

    def loss(w):
        f = Phi @ w
        p = 0.5 + np.arctan(f) / np.pi if threshold == "cauchit" else -np.expm1(-np.exp(f))
        return -np.log(np.where(y == 1, p, 1 - p)).sum()

    for j, limits in enumerate(fitted.profile_interval(0.9)):
        for value in limits:
            start = np.delete(fitted.posterior_.mean, j)
            best = minimize(lambda rest, j=j, v=value: loss(np.insert(rest, j, v)), start, options={"gtol": 1e-6})
            assert_allclose(2 * (best.fun - loss(fitted.posterior_.mean)), chi2.isf(0.1, 1), rtol=1e-7)


def test_intervals_of_softmax_weights_follow_the_labels_and_hold_differences():
    """Two softmax classes: the sum-to-zero weights are half the logit's."""
    X, y, _, _ = table()
    logit = fit(BayesianLogisticRegression, X, y).profile_interval()
    softmax = fit(BayesianLogisticRegression, X, y, multi_class="softmax").profile_interval()
    assert_allclose(softmax[4:], logit / 2, rtol=1e-8)
    assert_allclose(softmax[:4], -logit[:, ::-1] / 2, rtol=1e-8)


def test_units_of_columns_scale_profile_limits():
    X, y, _, _ = table()
    factor = np.array([1e-3, 1e4, 2.0])
    one, other = (fit(BayesianProbitRegression, it, y).profile_interval() for it in (X, X * factor))
    assert_allclose(other[:3] * factor[:, None], one[:3], rtol=1e-8)
    assert_allclose(other[3], one[3], rtol=1e-8)


def test_a_model_with_one_weight_has_a_profile_too():
    X, y, _, _ = table()
    fitted = fit(BayesianLogisticRegression, X[:, :1], y, fit_intercept=False)
    f = X[:, 0] * fitted.profile_interval()[0, 0]
    log_likelihood = (y * f - np.logaddexp(0, f)).sum()
    assert_allclose(2 * (fitted.log_likelihood_ - log_likelihood), chi2.isf(0.05, 1), rtol=1e-9)


def test_stochastic_gradient_leaves_the_same_profile():
    X, y, _, _ = table()
    near = fit(BayesianLogisticRegression, X, y, solver="sgd", max_iter=400, random_state=0)
    assert_allclose(near.profile_interval(), fit(BayesianLogisticRegression, X, y).profile_interval(), rtol=1e-7)


def test_profiles_that_make_no_sense_are_refused():
    X, y, _, _ = table()
    with pytest.raises(InputError, match=r"posterior_\.interval"):
        fit(BayesianLogisticRegression, X, y, prior=Normal(scale=1.0)).profile_interval()
    with pytest.raises(InputError, match="between 0 and 1"):
        fit(BayesianLogisticRegression, X, y).profile_interval(95)
    with pytest.raises(InputError, match="not for label noise"):
        fit(BayesianLogisticRegression, X, y, label_noise=0.1).profile_interval()
    held = X.copy()
    changed = fit(BayesianLogisticRegression, held, y)
    held[:, 0] = held[::-1, 0]
    with pytest.raises(InputError, match="changed since"):
        changed.profile_interval()


# --- without the rows ---------------------------------------------------------------------------------------


def test_what_a_model_without_its_rows_can_and_cannot_do():
    X, y, _, groups = table()
    logit, probit = (fit(model, X, y) for model in (BayesianLogisticRegression, BayesianProbitRegression))
    saved = [pickle.loads(pickle.dumps(model)) for model in (logit, probit)]
    assert_allclose(saved[0].standard_errors_, logit.standard_errors_, rtol=1e-12)
    assert_allclose(saved[0].wald_test("x0").statistic, logit.wald_test("x0").statistic, rtol=1e-12)
    updated = fit(BayesianLogisticRegression, X, y).partial_fit(X, y)
    assert_allclose(updated.covariance(), updated.posterior_.cov, rtol=1e-10)
    for model in (saved[0], updated):
        for call in (
            lambda model=model: model.covariance("robust"),
            lambda model=model: model.covariance("cluster", groups),
            lambda model=model: model.lr_test(fit(BayesianLogisticRegression, X[:, 1:], y)),
            model.profile_interval,
        ):
            with pytest.raises(InputError, match="Fit again"):
                call()
    with pytest.raises(InputError, match="Fit again"):
        saved[1].covariance()


def test_a_model_that_was_not_fitted_says_so():
    from sklearn.exceptions import NotFittedError

    model = BayesianLogisticRegression(prior=None)
    for call in (model.covariance, lambda: model.wald_test("x0"), lambda: model.lr_test(model), model.profile_interval):
        with pytest.raises(NotFittedError):
            call()
    assert not hasattr(model, "standard_errors_")


def test_without_an_argument_the_likelihood_ratio_is_against_the_intercept_alone():
    """Twice the gain over the entropy of the labels; for three classes against statsmodels' MNLogit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    for K in (2, 3):
        y = (X @ rng.normal(size=(2, K)) + rng.gumbel(size=(90, K))).argmax(axis=1)
        found = BayesianLogisticRegression(prior=None).fit(X, y).lr_test()
        peer = sm.MNLogit(y, sm.add_constant(X)).fit(disp=0)
        assert_allclose(found.statistic, peer.llr, rtol=1e-8)
        assert found.df == peer.df_model == (K - 1) * 2
    with pytest.raises(InputError, match="intercept alone"):
        BayesianLogisticRegression(prior=None, fit_intercept=False).fit(X, y).lr_test()
