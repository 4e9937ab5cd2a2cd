"""Priors of linear models: independent optimisation, limits, units, separated data, standardized columns, searches."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    Jeffreys,
    LeastSquaresClassifier,
    NoisyThresholdClassifier,
    Normal,
    ParquetRows,
    StudentT,
)
from credibly.errors import InputError, NoEvidenceError
from credibly.model.priors import WeightShape

LOGIT, PROBIT = BayesianLogisticRegression, BayesianProbitRegression
SEPARATED = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 2.0], [7.0, 1.5], [8.0, 0.0], [9.0, 1.0]]), [0, 0, 0, 1, 1, 1]


def rows_of(n=60, K=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 20.0] + [3.0, -50.0]
    y = (((X - X.mean(axis=0)) / X.std(axis=0)) @ rng.normal(size=(2, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)
    return X, y


def minus_log_joint(w, X, y, df, scale):
    f = X @ w[:-1] + w[-1]
    return -(y * f - np.logaddexp(0, f)).sum() - student.logpdf(w / scale, df).sum() + np.log(scale).sum()


@pytest.mark.parametrize("df", [1.0, 7.0])
@pytest.mark.parametrize("data", [rows_of(), SEPARATED], ids=["overlapping", "separated"])
def test_the_mode_is_that_of_an_independent_optimiser(df, data):
    X, y = np.asarray(data[0]), np.asarray(data[1])
    model = LOGIT(prior=StudentT(df=df, scale=[2.5, 0.5]), inference="laplace").fit(X, y)
    scale = np.array([2.5, 0.5, 10.0])
    best = min(
        (minimize(minus_log_joint, start, (X, y, df, scale), "BFGS", options={"gtol": 1e-9}) for start in np.eye(3)),
        key=lambda found: found.fun,
    )
    here = minus_log_joint(model.posterior_.mean, X, y, df, scale)
    assert here <= best.fun + 1e-9
    # no optimiser that compares values sees steps below sqrt(eps); the gradient does
    w, h = model.posterior_.mean, 1e-4  # in standard deviations: truncation h² times third derivatives
    ends = [[minus_log_joint(w + s * h * e, X, y, df, scale) for s in (1, -1)] for e in np.diag(model.posterior_.std)]
    assert_allclose(np.subtract(*np.transpose(ends)) / (2 * h), 0, atol=1e-7)


@pytest.mark.parametrize("inference", ["laplace", "variational"])
def test_many_degrees_of_freedom_are_a_normal_prior(inference):
    X, y = rows_of()
    heavy, light = (LOGIT(prior=prior, inference=inference).fit(X, y) for prior in (StudentT(df=1e9), Normal()))
    assert_allclose(heavy.posterior_.mean, light.posterior_.mean, rtol=1e-6)  # the densities differ by some 1/ν
    assert_allclose(heavy.log_evidence_, light.log_evidence_, rtol=1e-7)
    assert_allclose(heavy.effective_parameters_, light.effective_parameters_, rtol=1e-6)


def test_the_evidence_of_a_student_prior_does_not_depend_on_units():
    X, y = rows_of()
    one = LOGIT(prior=StudentT(df=4, scale=[2.0, 0.3])).fit(X, y)
    other = LOGIT(prior=StudentT(df=4, scale=[2.0e3, 0.3e-3])).fit(X / [1e3, 1e-3], y)
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-10)
    assert_allclose(one.predict_proba(X), other.predict_proba(X / [1e3, 1e-3]), rtol=1e-8)


@pytest.mark.filterwarnings("ignore:partial_fit has drifted:credibly.errors.UnreliableWarning")
def test_an_update_starts_from_the_posterior_of_a_student_prior():
    X, y = rows_of()
    model = LOGIT(prior=StudentT()).fit(X[:40], y[:40])
    before = model.log_evidence_
    model.partial_fit(X[40:], y[40:])
    assert model.log_evidence_ < before
    assert model.prior_ == StudentT()


# --- Jeffreys -----------------------------------------------------------------------------------------------


def minus_penalised(W, X, y, K):
    """Softmax with class 0 as the reference, for which the information is (K-1)(d+1) square."""
    Z = np.column_stack([X, np.ones(len(X))])
    f = np.column_stack([np.zeros(len(X)), Z @ W.reshape(K - 1, -1).T])
    log_p = f - np.logaddexp.reduce(f, axis=1, keepdims=True)
    p = np.exp(log_p[:, 1:])
    C = p[:, :, None] * (np.eye(K - 1) - p[:, None, :])
    information = np.einsum("njk,na,nb->jakb", C, Z, Z).reshape(W.size, W.size)
    return -log_p[np.arange(len(y)), y].sum() - 0.5 * np.linalg.slogdet(information)[1]


@pytest.mark.parametrize("K", [2, 3])
def test_jeffreys_is_the_maximum_of_the_penalised_likelihood(K):
    X, y = rows_of(n=40, K=K, seed=3)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LOGIT(prior=Jeffreys(), multi_class="softmax").fit(X, y)
    W = np.column_stack([model.coef_, model.intercept_])
    W = (W[1:] - W[0]).ravel()
    found = minimize(minus_penalised, W + 0.3, (X, y, K), "BFGS", options={"gtol": 1e-8})
    assert minus_penalised(W, X, y, K) <= found.fun + 1e-10
    assert_allclose(W, found.x, atol=2e-6)  # differences of values: sqrt(eps)


@pytest.mark.parametrize("model", [LOGIT, PROBIT])
def test_jeffreys_does_not_depend_on_units_and_origins(model):
    X, y = rows_of()
    one = model(prior=Jeffreys()).fit(X, y)
    other = model(prior=Jeffreys()).fit((X - 7) * [100.0, 0.01], y)
    assert_allclose(one.predict_proba(X), other.predict_proba((X - 7) * [100.0, 0.01]), rtol=1e-7)


def test_jeffreys_of_the_probit_uses_its_own_information():
    """Half the log determinant of Σ φ²/(Φ(1-Φ)) zzᵀ, differentiated numerically."""
    from scipy.stats import norm

    X, y = rows_of(n=30)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    Z, s = np.column_stack([X, np.ones(len(X))]), 2 * y - 1

    def objective(w):
        f = Z @ w
        weight = norm.pdf(f) ** 2 / (norm.cdf(f) * norm.sf(f))
        return -norm.logcdf(s * f).sum() - 0.5 * np.linalg.slogdet((Z * weight[:, None]).T @ Z)[1]

    w = PROBIT(prior=Jeffreys()).fit(X, y).posterior_.mean
    h = 1e-5
    gradient = [(objective(w + h * e) - objective(w - h * e)) / (2 * h) for e in np.eye(3)]
    assert_allclose(gradient, 0, atol=1e-7)


@pytest.mark.parametrize("seed", [0, 17, 28, 50])
def test_jeffreys_finds_the_higher_mode_where_rows_lie_far_out(seed):
    """Heavy-tailed, separated columns: the search from zero ends ten nats below for the last three."""
    rng = np.random.default_rng(seed)
    n = rng.integers(8, 40)
    X = rng.standard_t(1.2, size=(n, 1)) * rng.choice([1, 10])
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    model = LOGIT(prior=Jeffreys()).fit(X, y)
    w = np.array([model.coef_[0, 0], model.intercept_[0]])
    starts = [np.zeros(2), np.array([1.0, 0.0]), np.array([0.1, 0.0]), w]
    best = min(minimize(minus_penalised, s, (X, y, 2), "Nelder-Mead", options={"fatol": 1e-12}).fun for s in starts)
    assert model.status_.good
    assert minus_penalised(w, X, y, 2) <= best + 1e-7


def test_jeffreys_converges_on_the_counterexample_of_least_squares():
    x, y = np.array([[0.0], [1.0], [2.0], [3.0], [50.0]]), np.array([0, 0, 1, 1, 1])
    model = LOGIT(prior=Jeffreys()).fit(x, y)
    w = np.array([model.coef_[0, 0], model.intercept_[0]])
    best = minimize(minus_penalised, w + 0.1, (x, y, 2), "Nelder-Mead", options={"fatol": 1e-12, "maxiter": 4000})
    assert model.status_.good
    assert_allclose(minus_penalised(w, x, y, 2), best.fun, atol=1e-9)


@pytest.mark.parametrize("threshold", ["cauchy", StudentT(df=3)], ids=repr)
def test_jeffreys_of_other_thresholds_converges_on_separated_classes(threshold):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(25, 2))
    y = (X[:, 0] > 0).astype(int)
    Z = np.column_stack([X, np.ones(25)])
    F = student(1 if threshold == "cauchy" else 3)

    def loss(w):
        f = Z @ w
        weight = F.pdf(f) ** 2 / (F.cdf(f) * F.sf(f))
        information = (Z * weight[:, None]).T @ Z
        return -np.where(y == 1, F.logcdf(f), F.logsf(f)).sum() - 0.5 * np.linalg.slogdet(information)[1]

    model = NoisyThresholdClassifier(threshold, prior=Jeffreys()).fit(X, y)
    best = minimize(loss, model.posterior_.mean + 0.2, method="Nelder-Mead", options={"fatol": 1e-12, "maxiter": 8000})
    assert model.status_.good
    assert loss(model.posterior_.mean) <= best.fun + 1e-7


def test_jeffreys_has_no_evidence_and_says_why():
    X, y = rows_of()
    with pytest.raises(NoEvidenceError, match="Jeffreys"):
        _ = LOGIT(prior=Jeffreys()).fit(X, y).log_evidence_


def test_jeffreys_of_a_poisson_is_a_half_count_for_a_single_group():
    """The Jeffreys prior of a rate μ is μ^(-1/2), in f = log μ: e^(f/2): the mode is at (Σy + 1/2)/n."""
    y = np.array([0, 2, 1, 0, 3])
    model = BayesianGLM("poisson", prior=Jeffreys(), fit_intercept=False).fit(np.ones((5, 1)), y)
    assert_allclose(np.exp(model.coef_[0]), (y.sum() + 0.5) / 5, rtol=1e-10)


def test_jeffreys_of_a_binomial_is_a_half_success_and_a_half_failure():
    y = np.array([1, 0, 0, 1, 0, 0, 0])
    model = LOGIT(prior=Jeffreys(), fit_intercept=False).fit(np.ones((7, 1)), y)
    assert_allclose(expit(model.coef_[0, 0]), 2.5 / 8, rtol=1e-10)


@pytest.mark.parametrize("prior", ["empirical", "ard", Normal(), StudentT(), StudentT(df=1), Jeffreys()], ids=repr)
@pytest.mark.parametrize("model", [LOGIT, PROBIT])
def test_every_prior_gives_a_finite_converged_answer_on_separated_classes(model, prior):
    fitted = model(prior=prior).fit(*SEPARATED)
    assert fitted.status_.good
    assert np.isfinite(fitted.posterior_.mean).all() and np.isfinite(fitted.posterior_.std).all()


@pytest.mark.parametrize("prior", [Normal(), StudentT(), StudentT(df=1), Jeffreys()], ids=repr)
def test_every_prior_gives_a_finite_converged_answer_on_iris(prior):
    fitted = LOGIT(prior=prior).fit(*load_iris(return_X_y=True))
    assert fitted.status_.good
    assert np.isfinite(fitted.posterior_.mean).all()


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (StudentT(df=0), "df of StudentT must be positive"),
        (StudentT(df=[1.0, 2.0]), "one number"),
        (StudentT(scale=-1), "prior scale must be positive"),
        (StudentT(scale=[1.0, 2.0, 3.0]), "one per column"),
        ("cauchy", "StudentT"),
    ],
)
def test_a_prior_that_cannot_be_used_is_refused(prior, message):
    with pytest.raises(InputError, match=message):
        LOGIT(prior=prior).fit(*rows_of())


def test_stochastic_gradient_cannot_follow_jeffreys():
    with pytest.raises(InputError, match="sgd"):
        LOGIT(prior=Jeffreys(), solver="sgd").fit(*rows_of())


# --- scales of standardized columns ---------------------------------------------------------------------------


def in_data_units(prior, X):
    """N(m, S) of the weights in data units: slopes s/sd, and at the means of the columns an intercept of its own."""
    spread, d = X.std(axis=0), X.shape[1]
    root = np.diag(np.append(prior.scale / spread, prior.intercept_scale))
    root[-1, :-1] = -prior.scale / spread * X.mean(axis=0)
    return Normal(mean=np.zeros(d + 1), cov=root @ root.T)


def same_posterior(a, b):
    assert a.rung_ == b.rung_
    assert_allclose(a.log_evidence_, b.log_evidence_, rtol=1e-9)
    assert_allclose(a.posterior_.mean, b.posterior_.mean, rtol=1e-6, atol=1e-8)
    assert_allclose(a.posterior_.cov, b.posterior_.cov, rtol=1e-6, atol=1e-8)
    assert_allclose(a.effective_parameters_, b.effective_parameters_, rtol=1e-6)


def data_of(kind):
    """Rows with targets for one of the models below, in inconvenient units."""
    X, y = rows_of(K=3 if kind == "softmax" else 2)
    if kind == "counts":
        y = np.random.default_rng(1).poisson(np.exp((X[:, 0] - 3) / 2))
    return X, y


STANDARD = {
    "logit": LOGIT(),
    "probit by Laplace": PROBIT(inference="laplace"),
    "logit by EP": LOGIT(inference="ep"),
    "logit by ADF": LOGIT(inference="adf"),
    "variational": LOGIT(inference="variational"),
    "softmax": LOGIT(),
    "counts": BayesianGLM("poisson"),
    "regression": BayesianGLM(),
    "least squares": LeastSquaresClassifier(),
}
BY_MOMENTS = {"logit by EP", "logit by ADF"}


@pytest.mark.parametrize("kind", STANDARD)
def test_a_normal_prior_on_standardized_columns_is_that_in_data_units(kind):
    X, y = data_of(kind)
    prior = Normal(scale=np.array([1.5, 0.5]), intercept_scale=4.0, standardized=True)
    one, other = (clone(STANDARD[kind]).set_params(prior=it).fit(X, y) for it in (prior, in_data_units(prior, X)))
    same_posterior(one, other)
    shape = WeightShape(2, 3 if kind == "softmax" else 1, True)
    for mine, theirs in zip(one.prior_.moments(shape), other.prior_.moments(shape), strict=True):
        assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in STANDARD if kind not in BY_MOMENTS])
def test_a_student_prior_on_standardized_centred_columns_is_that_in_data_units(kind):
    X, y = data_of(kind)
    X, spread = X - X.mean(axis=0), X.std(axis=0)
    prior = StudentT(df=4, scale=[1.5, 0.5], standardized=True)
    same_posterior(
        clone(STANDARD[kind]).set_params(prior=prior).fit(X, y),
        clone(STANDARD[kind]).set_params(prior=StudentT(df=4, scale=prior.scale / spread)).fit(X, y),
    )


PAIR = pytest.mark.parametrize(
    "prior", [Normal(scale=1.0, standardized=True), StudentT(df=4, scale=1.0, standardized=True)], ids=repr
)


@PAIR
@pytest.mark.parametrize("kind", ["logit", "softmax", "counts"])
def test_under_scales_of_standardized_columns_units_and_origins_change_nothing(kind, prior):
    X, y = data_of(kind)
    moved = (X - [7.0, 1e3]) * [1e3, 1e-3]
    one, other = clone(STANDARD[kind]).set_params(prior=prior).fit(X, y), clone(STANDARD[kind]).set_params(prior=prior)
    other.fit(moved, y)
    assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-9)
    assert_allclose(one.coef_, other.coef_ * [1e3, 1e-3], rtol=1e-6)


@PAIR
def test_without_an_intercept_columns_are_scaled_but_not_centred(prior):
    X, y = rows_of()
    data = type(prior)(scale=1.0 / X.std(axis=0), **({"df": 4} if isinstance(prior, StudentT) else {}))
    same_posterior(*(LOGIT(prior=it, fit_intercept=False).fit(X, y) for it in (prior, data)))


@PAIR
@pytest.mark.parametrize("kind", ["logit", "softmax", "counts"])
def test_standardized_columns_of_files_and_clusters_are_those_of_memory(kind, prior, tmp_path):
    X, y = data_of(kind)
    model = clone(STANDARD[kind]).set_params(prior=prior, inference="laplace")
    here = clone(model).fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=17)
    file = clone(model).fit(ParquetRows(str(tmp_path / "rows.parquet"), target="y", features=["a", "b"]))
    with dask.config.set(scheduler="synchronous"):
        cluster = clone(model).fit(da.from_array(X, chunks=(23, 2)), da.from_array(y, chunks=23))
    for other in (file, cluster):
        assert_allclose(other.posterior_.mean, here.posterior_.mean, rtol=1e-8)
        assert_allclose(other.posterior_.cov, here.posterior_.cov, rtol=1e-8, atol=1e-12)
        assert_allclose(other.log_evidence_, here.log_evidence_, rtol=1e-10)


def test_a_prior_on_standardized_columns_reaches_a_model_of_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1200)) * rng.uniform(0.1, 10, size=1200) + 3
    y = (X[:, 0] / X[:, 0].std() + rng.normal(size=40) > 3 / X[:, 0].std()).astype(int)
    one = LOGIT(prior=Normal(scale=0.05, standardized=True), inference="laplace").fit(X, y)
    centred = LOGIT(prior=Normal(scale=0.05 / X.std(axis=0)), inference="laplace").fit(X - X.mean(axis=0), y)
    assert_allclose(one.log_evidence_, centred.log_evidence_, rtol=1e-9)
    assert_allclose(one.coef_, centred.coef_, rtol=1e-6, atol=1e-9)
    assert not one.prior_.standardized  # in data units
    assert_allclose(one.prior_.scale, 0.05 / X.std(axis=0), rtol=1e-12)


def test_mean_and_covariance_are_in_data_units_and_not_for_standardized_columns():
    for given in ({"mean": np.zeros(2)}, {"cov": np.eye(2)}):
        with pytest.raises(InputError, match="standardized"):
            LOGIT(prior=Normal(**given, standardized=True)).fit(*rows_of())


@PAIR
@pytest.mark.filterwarnings("ignore:partial_fit has drifted:credibly.errors.UnreliableWarning")
def test_an_update_keeps_the_standardization_of_the_first_rows(prior):
    X, y = rows_of(n=200)
    X = X - X[:120].mean(axis=0)
    data = type(prior)(**prior.get_params() | {"scale": 1.0 / X[:120].std(axis=0), "standardized": False})
    models = [LOGIT(prior=it, inference="laplace").fit(X[:120], y[:120]) for it in (prior, data)]
    same_posterior(*(model.partial_fit(X[120:], y[120:]) for model in models))


# --- priors are searched over like any argument ---------------------------------------------------------------


@pytest.mark.parametrize("prior", [Normal(), StudentT(df=3, standardized=True)], ids=repr)
def test_a_grid_over_the_scale_of_a_prior_is_searched(prior):
    X, y = load_iris(return_X_y=True)
    before = repr(prior)
    search = GridSearchCV(LOGIT(prior=prior, inference="laplace"), {"prior__scale": [1e-4, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"prior__scale": 1.0}
    assert search.best_estimator_.prior == type(prior)(**prior.get_params() | {"scale": 1.0})
    assert repr(prior) == before  # it is the clones' that were set
    tiny = LOGIT(prior=type(prior)(**prior.get_params() | {"scale": 1e-4}), inference="laplace")
    assert_allclose(search.cv_results_["mean_test_score"][0], cross_val_score(tiny, X, y, cv=3).mean())


@pytest.mark.parametrize("prior", [Normal(), Normal(mean=[1.0], cov=[[2.0]]), StudentT(), Jeffreys()], ids=repr)
def test_a_prior_is_made_again_from_its_parameters(prior):
    again = clone(prior)
    assert again is not prior and again == prior and type(prior)(**prior.get_params()) == prior
    with pytest.raises(InputError, match="skale"):
        prior.set_params(skale=1.0)


def test_a_fit_does_not_change_with_its_prior_object():
    X, y = rows_of()
    model = LOGIT(prior=StudentT(scale=1.0), inference="laplace").fit(X[:40], y[:40])
    model.set_params(prior__scale=9.0)
    assert model.prior == StudentT(scale=9.0) and model.prior_ == StudentT(scale=1.0)
