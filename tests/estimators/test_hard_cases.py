"""Cases that once gave a wrong number or a wrong word, found by people who set out to break the models."""

import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

import credibly
from credibly import BayesianLogisticRegression, BayesianProbitRegression, Normal, Status, separation
from credibly.errors import CollinearityError, ConvergenceWarning, InputError, SeparationError
from credibly.numerics.settings import COSTS

LOGIT, PROBIT = BayesianLogisticRegression, BayesianProbitRegression
BOTH = pytest.mark.parametrize("model", [LOGIT, PROBIT])


def rows_of(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (rng.random(n) < expit(X.sum(axis=1))).astype(int)


# --- separation without a prior -----------------------------------------------------------------------------


def test_a_class_that_never_occurs_on_one_side_separates_although_no_row_is_certain():
    X = np.repeat([[0.0], [1.0]], 6, axis=0)
    y = [0, 1, 0, 1, 0, 1, 0, 1, 2, 0, 1, 2]  # class 2 never at x = 0
    with pytest.raises(SeparationError, match="rules out some class"):
        LOGIT(prior=None).fit(X, y)


def test_a_class_without_rows_has_no_finite_estimate():
    X, y = rows_of(60)
    with pytest.raises(SeparationError, match="2 of 3 classes"):
        LOGIT(prior=None).partial_fit(X, y, classes=[0, 1, 2])
    y[:20] = 2
    with pytest.raises(SeparationError, match="2 of 3 classes"):
        LOGIT(prior=None).fit(X, y, sample_weight=(y != 2).astype(float))


@pytest.mark.parametrize("weight", [1.0, 1e9, 1e-12])
@pytest.mark.parametrize("tol", [1e-20, 1e-2])
def test_neither_weights_nor_a_loose_tolerance_hide_separation(weight, tol):
    X, y = rows_of(200)
    rare = np.isin(np.arange(200), np.flatnonzero(y)[:5]).astype(float)  # 1 only in rows of class 1
    with pytest.raises(SeparationError, match="'x2'"):
        LOGIT(prior=None, tol=tol).fit(np.column_stack([X, rare]), y, sample_weight=np.where(rare == 1, 1.0, weight))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_outlying_row_on_its_own_side_is_no_separation():
    X, y = rows_of(200)
    X, y = np.vstack([X, [1e10, 0]]), np.append(y, 1)
    assert separation(X, y).kind == "none"
    assert np.isfinite(LOGIT(prior=None).fit(X, y).coef_).all()


@pytest.mark.parametrize("value", [10.0, 1e3, 1e5])
def test_a_column_that_few_of_many_rows_carry_is_known_as_well_as_newton_finds(value):
    """No sample of the rows holds them, and the curvature near the prior's centre does not show what is to come."""
    rng = np.random.default_rng(0)
    n, prior_precision = 100_000, np.array([2.5, 2.5, 10.0]) ** -2
    X = np.column_stack([np.zeros(n), rng.normal(size=n)])
    y = (rng.random(n) < 1 / (1 + np.exp(1 - X[:, 1]))).astype(int)
    rare = rng.choice(n, 3, replace=False)
    X[rare, 0], y[rare] = value, 1
    model = LOGIT(prior=Normal(), inference="laplace").fit(X, y)
    Z, w = np.column_stack([X, np.ones(n)]), model.posterior_.mean
    for _ in range(60):
        p = 1 / (1 + np.exp(-Z @ w))
        H = (Z * (p * (1 - p))[:, None]).T @ Z + np.diag(prior_precision)
        w = w - np.linalg.solve(H, Z.T @ (p - y) + prior_precision * w)
    sd = np.sqrt(np.diag(np.linalg.solve(H, np.eye(3))))
    assert_allclose(model.posterior_.mean, w, rtol=0, atol=1e-5 * sd.min())  # tol, squared
    assert_allclose(model.posterior_.std, sd, rtol=1e-4)  # COSTS.hessian_error


def test_classes_that_overlap_by_a_hair_are_not_separated():
    x = np.linspace(-2, 2, 40)
    y = (x > 0).astype(int)
    x[19], x[20] = 1e-8, -1e-8
    assert separation(x[:, None], y).kind == "none"


# --- units, offsets, many rows ------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("unit", [1e-8, 1e-3, 1e4, 1e8, 1e50])
def test_a_prior_in_other_units_is_the_same_prior(model, unit):
    """Columns times u with scale s, and columns with scale s·u, are one model."""
    X, y = rows_of(30)
    scaled, plain = model(prior=Normal(scale=2.5)).fit(X * unit, y), model(prior=Normal(scale=2.5 * unit)).fit(X, y)
    assert_allclose(scaled.log_evidence_, plain.log_evidence_, rtol=1e-9)
    assert_allclose(scaled.predict_log_proba(X * unit), plain.predict_log_proba(X), rtol=1e-7)


def test_a_prior_that_is_singular_beside_the_columns_is_refused_with_what_to_do():
    X, y = rows_of(30)
    with pytest.raises(InputError, match=r"numerically singular.*empirical"):
        LOGIT(prior=Normal()).fit(np.column_stack([X, X[:, 0]]) * 1e50, y)


@pytest.mark.parametrize(("n", "d"), [(5000, 2), (60_000, 5)])
def test_covariance_and_evidence_of_many_rows_are_those_of_the_mode(n, d):
    X, y = rows_of(n, d)
    model = LOGIT(prior=Normal(), inference="laplace").fit(X, y)
    design = np.column_stack([X, np.ones(n)])
    p = expit(design @ model.posterior_.mean)
    prior = np.append(np.full(d, 2.5**-2), 0.01)
    precision = (design * (p * (1 - p))[:, None]).T @ design + np.diag(prior)
    error = 1e-8 if n < 20_000 else COSTS.hessian_error  # of many rows the curvature is taken a step before the mode
    assert_allclose(model.posterior_.cov @ precision, np.eye(d + 1), atol=error)
    order = np.random.default_rng(1).permutation(n)
    mixed = LOGIT(prior=Normal(), inference="laplace").fit(X[order], y[order])
    assert_allclose(mixed.log_evidence_, model.log_evidence_, rtol=1e-12, atol=(d + 1) * error)
    assert_allclose(mixed.posterior_.std, model.posterior_.std, rtol=error)


# --- the search for scales ----------------------------------------------------------------------------------


def test_the_empirical_scale_is_the_best_of_several_maxima():
    rng = np.random.default_rng(19)
    X = rng.normal(size=(50, 3)) + 10  # without an intercept a second maximum, lower by 1.3 nats, is at 0.4
    y = rng.random(50) < expit(X[:, 0] - 10)
    model = LOGIT(fit_intercept=False, inference="laplace").fit(X, y)
    for scale in np.geomspace(1e-3, 1e3, 25):
        prior = Normal(scale=scale / X.std(axis=0))
        there = LOGIT(prior=prior, fit_intercept=False, inference="laplace").fit(X, y)
        assert model.log_evidence_ >= there.log_evidence_ - 1e-9


@BOTH
def test_constant_and_repeated_columns_do_not_stop_the_search_for_scales(model):
    X, y = rows_of(300, 6, seed=5)
    for column in (np.zeros(300), X[:, 1]):
        X[:, 4] = column
        assert model(prior="ard").fit(X, y).status_.good


@BOTH
@pytest.mark.parametrize("prior", ["empirical", "ard"])
@pytest.mark.parametrize("inference", ["laplace", "variational", "ep"])
def test_a_search_led_by_unfinished_fits_says_so_or_ends_where_others_do(model, prior, inference):
    """Every fit starts from the last one: one step each may be enough, and then the status is true."""
    X, y = rows_of(60)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ConvergenceWarning)
        short = model(prior=prior, max_iter=1, inference=inference).fit(X, y)
    assert short.status_.good is not bool(told)
    if not told:
        whole = model(prior=prior, inference=inference).fit(X, y)
        assert short.status_ is Status.CONVERGED
        assert_allclose(short.log_evidence_, whole.log_evidence_, atol=1e-6 if inference == "laplace" else 1e-3)


# --- words --------------------------------------------------------------------------------------------------


def test_what_would_be_ignored_is_refused():
    X, y = rows_of(40)
    with pytest.raises(InputError, match="either scale or cov"):
        LOGIT(prior=Normal(scale=100, cov=np.eye(2))).fit(X, y)
    with pytest.raises(InputError, match="differ from those of the first call"):
        LOGIT().fit(X, y).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(InputError, match="only one class"):
        LOGIT().fit(X, y, sample_weight=(y == 1).astype(float))
    with pytest.raises(InputError, match="fit_intercept"):
        LOGIT(fit_intercept="no").fit(X, y)
    with pytest.raises(InputError, match="n_jobs"):
        LOGIT(n_jobs="a").fit(X, y)
    with pytest.raises(InputError, match="labels of one type"):
        LOGIT().fit(X, np.array([1, "a"] * 20, dtype=object))


def test_nan_and_infinity_are_named_apart():
    X, y = rows_of(40, 3)
    X[0, 0], X[1, 2] = np.nan, np.inf
    with pytest.raises(InputError, match=r"NaN in column 'x0' and infinity \(inf\) in column 'x2'"):
        LOGIT().fit(X, y)


def test_rows_of_weight_zero_count_for_nothing():
    X, y = rows_of(60)
    weight = (np.arange(60) < 50).astype(float)
    whole, part = LOGIT(prior=Normal()).fit(X, y, sample_weight=weight), LOGIT(prior=Normal()).fit(X[:50], y[:50])
    assert_allclose([whole.bic_, whole.aic_], [part.bic_, part.aic_], rtol=1e-10)


def test_draws_take_a_generator_as_well_as_a_seed():
    X, y = rows_of(40)
    model = LOGIT().fit(X, y)
    one, two = (model.sample_proba(X, 3, random_state=np.random.default_rng(7)) for _ in range(2))
    assert_array_equal(one, two)
    assert_array_equal(model.sample_proba(X, 3, random_state=7), model.sample_proba(X, 3, random_state=7))


def test_public_submodules_are_there_without_being_imported_by_name():
    assert credibly.averages.sigmoid(0.0, 1.0) == pytest.approx(0.5, rel=1e-12)
    assert issubclass(credibly.errors.InputError, ValueError)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = credibly.nothing


def test_steep_probit_fits_pass_the_edge_of_the_number_range_without_a_warning():
    """Scores near -37 made a product in a denominator overflow; warnings are errors here."""
    Z = np.random.default_rng(0).normal(size=(20_000, 1))
    y = np.random.default_rng(1).random(20_000) < expit(30 * Z[:, 0])
    for prior in (Normal(), "empirical"):
        assert PROBIT(prior=prior).fit(Z, y).status_.good


def large(n=40_000, d=20):
    """So many rows that a sample of them is asked first whether the estimate is determined."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] - X[:, 1] + rng.logistic(size=n) > 0).astype(int)


def test_many_rows_of_which_a_sample_shows_no_overlap_are_judged_by_all():
    X, y = large()
    X[:, 2] = 0.0
    X[17, 2] = 1.0  # hardly any sample has this row, and it is the only one that says something of its column
    with pytest.raises(SeparationError, match=r"quasi-complete.*'x2'.*predicts 1 of 40000 rows"):
        BayesianLogisticRegression(prior=None).fit(X, y)
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(SeparationError, match=r"complete.*'x0'"):
        BayesianLogisticRegression(prior=None).fit(X, y)


def test_many_rows_with_dependent_columns_are_refused_by_name():
    X, y = large()
    X[:, 3] = X[:, 4] + 2 * X[:, 5]
    with pytest.raises(CollinearityError, match=r"'x3', 'x4', 'x5' are linearly dependent"):
        BayesianProbitRegression(prior=None).fit(X, y)


def test_many_rows_that_a_strong_signal_nearly_separates_have_an_estimate():
    X, _ = large()
    y = (30 * X[:, 0] + np.random.default_rng(1).logistic(size=len(X)) > 0).astype(int)
    model = BayesianLogisticRegression(prior=None).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert_allclose(model.coef_[0, 0], 30, rtol=0.2)
    X0 = np.column_stack([X, np.ones(len(X))])
    assert_allclose(X0.T @ (y - model.predict_proba(X)[:, 1]), 0, atol=1e-6)  # the score equation


# --- what random problems found -----------------------------------------------------------------------------


def test_the_evidence_of_a_wide_prior_beside_a_tight_intercept_keeps_its_digits():
    """Scales 1e12 apart: reflections lost five digits of the prior's determinant, rotations lose none."""
    x = np.array([-3e7, -1e7, 2e6, 2e7])
    y = np.array([0, 1, 0, 1])
    model = LOGIT(prior=Normal(scale=400.0, intercept_scale=3e-3), inference="laplace").fit(x[:, None], y)
    w = model.posterior_.mean
    p = expit(x * w[0] + w[1])
    curvature = p * (1 - p)
    a, b, c = (curvature * x**2).sum() + 400.0**-2, (curvature * x).sum(), curvature.sum() + 3e-3**-2
    log_likelihood = np.log(np.where(y == 1, p, 1 - p)).sum()
    log_prior = -0.5 * (w[0] / 400) ** 2 - 0.5 * (w[1] / 3e-3) ** 2 - np.log(400 * 3e-3)
    assert_allclose(model.log_evidence_, log_likelihood + log_prior - 0.5 * np.log(a * c - b**2), rtol=1e-12)


def test_rows_of_little_weight_are_followed_to_the_mode():
    """Far out on a row of weight 1e-6, δ² is below the rounding of the objective long before the curvature is right."""
    X = np.eye(5)[[3, 1, 0, 0, 0]]
    y, weight = np.array([1, 0, 0, 1, 0]), np.array([1e-6, 4.6e5, 2.5e3, 1.9e5, 0.44])
    model = LOGIT(inference="laplace").fit(X, y, sample_weight=weight)
    assert model.status_.good  # the evidence jumped by two nats between neighbouring scales, and had no maximum


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_whatever_is_singular_is_explained(inference):
    X, y = rows_of(30)
    with pytest.raises(InputError, match=r"numerically singular beside.*centre"):
        LOGIT(prior=Normal(scale=1e6), inference=inference).fit(np.column_stack([X, X[:, 0]]) + 1e12, y)


@pytest.mark.parametrize("seed", range(5))
def test_columns_far_from_zero_without_an_intercept_are_refused_or_warned_of(seed):
    """What differs between the columns is the rounding of their sums: chance decides how it is noticed.

    Where nothing fails, the smallest scale is the right answer: a weight of 1e-9 is then the least improbable.
    """
    X, y = rows_of(30, seed=seed)
    try:
        model = LOGIT(fit_intercept=False).fit(X + 1e9, y)
    except (InputError, ConvergenceWarning) as error:
        assert re.search(r"numerically singular.*fit_intercept=True|limit|flat", str(error))
    else:
        assert model.status_ is Status.SCALE_AT_BOUND and model.prior_scale_ == pytest.approx(1e-3)
