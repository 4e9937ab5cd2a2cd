"""Every generative classifier is a scikit-learn classifier and keeps CONTRACT.md: shapes, units, copies, threads."""

import copy
import pickle
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from credibly import GenerativeClassifier, LinearDiscriminant, NaiveBayes, QuadraticDiscriminant, Status
from credibly.class_conditionals import Gamma, Gaussian, Independent, MultivariateGaussian
from credibly.errors import NoEvidenceError
from credibly.priors import NormalInverseWishart

DEFAULTS = [LinearDiscriminant(), QuadraticDiscriminant(), NaiveBayes(), GenerativeClassifier()]
VARIANTS = [
    GenerativeClassifier(MultivariateGaussian("spherical")),
    GenerativeClassifier(MultivariateGaussian("diagonal"), class_prior="uniform"),
    LinearDiscriminant(parameters="plugin", shrinkage=0.2),
    NaiveBayes(features="gaussian", n_jobs=2),
]


# --- data ---------------------------------------------------------------------------------------------------


def table(n_classes: int = 2, n: int = 90, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(n_classes, size=n)
    X = rng.normal(size=(n, d)) * [1.0, 10.0, 0.1][:d] + [0.0, 5.0, 1.0][:d]
    X[:, 0] += codes
    return X, np.array(["ham", "spam", "tofu"])[codes]


class Fitted(NamedTuple):
    model: object
    X: np.ndarray
    y: np.ndarray
    K: int


@pytest.fixture(params=[(model, K) for model in [*DEFAULTS, *VARIANTS] for K in (2, 3)], ids=str)
def fitted(request):
    model, K = request.param
    X, y = table(K)
    return Fitted(clone(model).fit(X, y), X, y, K)


# --- shapes ---------------------------------------------------------------------------------------------------


def test_predictions_have_the_shapes_of_the_contract(fitted):
    model, X, K = fitted.model, fitted.X[:5], fitted.K
    log_proba = model.predict_log_proba(X)
    assert log_proba.shape == (5, K)
    assert_array_equal(model.predict_proba(X), np.exp(log_proba))
    assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-12)
    assert set(model.predict(X)) <= set(model.classes_)
    assert model.score_samples(X).shape == (5,)
    assert model.class_prior_.shape == model.class_count_.shape == (K,)
    assert set(model.decide(X, 1 - np.eye(K), reject_cost=0.1, reject_label="?")) <= {*model.classes_, "?"}


def test_numbers_are_floats_and_the_status_a_sentence(fitted):
    model = fitted.model
    for name in ("log_likelihood_", "bic_", "aic_"):
        assert isinstance(getattr(model, name), float), name
    assert model.status_ is Status.CONVERGED
    assert model.n_iter_ == 1
    if model.parameters == "integrated":
        assert isinstance(model.log_evidence_, float)
        assert_allclose(model.occam_factor_, model.log_evidence_ - model.log_likelihood_)


def test_draws_have_the_shapes_of_the_contract(fitted):
    model, X, K = fitted.model, fitted.X[:5], fitted.K
    drawn = model.sample(4, y="spam", random_state=0)
    assert drawn.shape == (4, 3)
    rows, labels = model.sample(4, random_state=0)
    assert rows.shape == (4, 3)
    assert set(labels) <= set(model.classes_)
    if model.parameters == "integrated":
        assert model.sample_proba(X, size=6, random_state=0).shape == (6, 5, K)
        assert model.predict_interval(X, level=0.8).shape == ((5, 2) if K == 2 else (5, K, 2))


def test_what_needs_a_posterior_is_refused_without_one():
    X, y = table()
    model = LinearDiscriminant(parameters="plugin").fit(X, y)
    for ask in (model.predict_interval, model.sample_proba):
        with pytest.raises(ValueError, match="parameters='integrated'"):
            ask(X)
    assert not hasattr(model, "log_evidence_")
    assert not hasattr(model, "posterior_")
    assert model.prior_ is None


def test_a_reference_prior_has_no_evidence_and_predicts():
    X, y = table()
    for model in (LinearDiscriminant, QuadraticDiscriminant, NaiveBayes):
        reference = model(prior="reference").fit(X, y)
        with pytest.raises(NoEvidenceError, match="reference"):
            reference.log_evidence_  # noqa: B018
        assert np.isfinite(reference.predict_log_proba(X)).all()


def test_the_interval_brackets_the_probability_and_shrinks_with_more_rows():
    X, y = table(n=60)
    few = LinearDiscriminant().fit(X, y)
    many = LinearDiscriminant(prior=few.prior_).fit(np.tile(X, (20, 1)), np.tile(y, 20))
    p, limits = few.predict_proba(X)[:, 1], few.predict_interval(X)
    middling = (p > 0.1) & (p < 0.9)  # in a tail a mean can lie outside its quantiles
    assert ((limits[:, 0] < p) & (p < limits[:, 1]))[middling].all()
    # Twenty times the rows: intervals shrink by √20 = 4.5, most rows by more than 3.
    assert np.median(np.diff(limits) / np.diff(many.predict_interval(X))) > 3


def test_the_interval_is_the_same_at_every_call():
    X, y = table()
    model = QuadraticDiscriminant().fit(X, y)
    assert_array_equal(model.predict_interval(X[:3]), model.predict_interval(X[:3]))


def test_draws_average_to_the_prediction_as_rows_grow():
    X, y = table()

    def gap(times):
        model = NaiveBayes().fit(np.tile(X, (times, 1)), np.tile(y, times))
        draws = model.sample_proba(X[:6], size=4000, random_state=0)[:, :, 1]
        error = 5 * draws.std(axis=0).max() / np.sqrt(4000)  # five standard errors
        return np.abs(draws.mean(axis=0) - model.predict_proba(X[:6])[:, 1]).max(), error

    # p(c | x, data) weights parameters by p(x | θ), the average of draws does not: that fades like 1 / rows.
    (few, _), (many, error) = gap(1), gap(20)
    assert many < few / 5 + error
    assert few < 0.05


# --- the same rows in another dress ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", [*DEFAULTS, *VARIANTS], ids=repr)
def test_frames_sparse_tables_and_memory_order_change_no_number(model):
    X, y = table()
    want = clone(model).fit(X, y).predict_log_proba(X)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for other in (
        np.asfortranarray(X),
        X[:, ::-1][:, ::-1],
        csr_array(X),
        frame,
        pl.DataFrame(X, schema=["a", "b", "c"]),
    ):
        assert_allclose(clone(model).fit(other, y).predict_log_proba(other), want, rtol=1e-10, atol=1e-12)
    single = clone(model).fit(X.astype(np.float32), y).predict_log_proba(X.astype(np.float32))
    double = (
        clone(model).fit(X.astype(np.float32).astype(float), y).predict_log_proba(X.astype(np.float32).astype(float))
    )
    assert_allclose(single, double, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("model", [*DEFAULTS, *VARIANTS], ids=repr)
def test_copies_predict_the_same(model):
    X, y = table(3)
    here = clone(model).fit(X, y)
    for there in (pickle.loads(pickle.dumps(here)), copy.deepcopy(here), clone(here).fit(X, y)):
        assert_array_equal(there.predict_log_proba(X), here.predict_log_proba(X))


@pytest.mark.parametrize("model", DEFAULTS, ids=repr)
def test_input_is_left_as_it_was(model):
    X, y = table()
    X[3, 1] = np.nan
    before = X.copy()
    X.setflags(write=False)
    clone(model).fit(X, y).predict_proba(X)
    assert_array_equal(X, before)


def test_it_works_inside_scikit_learns_tools():
    X, y = table(3, n=150)
    pipe = make_pipeline(StandardScaler(), LinearDiscriminant())
    assert cross_val_score(pipe, X, y, cv=3).mean() > 1 / 3
    search = GridSearchCV(NaiveBayes(), {"parameters": ["integrated", "plugin"]}, cv=3).fit(X, y)
    assert search.best_params_["parameters"] in {"integrated", "plugin"}
    assert CalibratedClassifierCV(QuadraticDiscriminant(), cv=3).fit(X, y).predict_proba(X).shape == (150, 3)
    axes = make_pipeline(LinearDiscriminant(), LinearDiscriminant()).fit(X, y)
    assert axes.score(X, y) > 1 / 3


# --- what is told ---------------------------------------------------------------------------------------------


def test_the_summary_has_a_row_for_every_class_and_quantity():
    frame = pd.DataFrame({"age": [20.5, 30.1, 41.7, 52.2], "sex": ["m", "f", "f", "m"], "visits": [0, 3, 1, 2]})
    summary = NaiveBayes().fit(frame, [0, 0, 1, 1]).summary()
    rows = summary.to_frame()
    assert list(rows.index) == [(c, name) for c in (0, 1) for name in ("age", "sex=f", "sex=m", "visits")]
    assert list(rows.columns) == ["mean", "sd", "lower", "upper", "spread"]
    assert ((rows["lower"] < rows["mean"]) & (rows["mean"] < rows["upper"])).all()
    assert rows.loc[(0, "sex=f"), "mean"] == 0.5  # (1 + 1) / (2 + 2)
    assert "log evidence (joint)" in str(summary)
    plain = NaiveBayes(parameters="plugin").fit(frame, [0, 0, 1, 1]).summary().to_frame()
    assert list(plain.columns) == ["mean", "spread"]


def test_the_families_of_columns_are_inferred_as_the_contract_says():
    frame = pd.DataFrame(
        {
            "yes": [True, False, True, True],
            "two": [1.5, 2.5, 1.5, 2.5],
            "zero_one": [0, 1, 1, 0],
            "text": ["a", "b", None, "c"],
            "category": pd.Categorical(["u", "v", "u", "u"]),
            "count": [0, 7, 2, 3],
            "gaps": [0.0, np.nan, 2.0, 3.0],
            "negative": [-1, 7, 2, 3],
            "number": [0.5, 7.25, 2.0, 3.0],
            "nullable": pd.array([1, 2, None, 4], dtype="Int64"),
        }
    )
    kinds = NaiveBayes().fit(frame, [0, 0, 1, 1]).features_
    assert dict(zip(frame.columns, kinds, strict=True)) == {
        "yes": "bernoulli",
        "two": "bernoulli",
        "zero_one": "bernoulli",
        "text": "categorical",
        "category": "categorical",
        "count": "poisson",
        "gaps": "poisson",
        "negative": "gaussian",
        "number": "gaussian",
        "nullable": "poisson",
    }
    assert NaiveBayes().fit(np.ones((4, 2), dtype=bool), [0, 0, 1, 1]).features_ == ["bernoulli", "bernoulli"]
    chosen = NaiveBayes(features=["gaussian", "categorical"]).fit([[1, 2], [3, 2], [4, 3], [7, 2]], [0, 0, 1, 1])
    assert chosen.features_ == ["gaussian", "categorical"]


def test_the_empirical_prior_is_the_one_of_the_contract():
    X, y = table()
    counts = np.random.default_rng(1).poisson(3.0, size=(len(X), 1)).astype(float)
    model = LinearDiscriminant().fit(X, y)
    assert_allclose(model.prior_.mean, X.mean(axis=0), rtol=1e-12)
    assert_allclose(model.prior_.scale, np.diag(X.var(axis=0)), rtol=1e-12)
    assert (model.prior_.mean_strength, model.prior_.dof) == (0.01, 5)
    one, rate, long, wait = (
        NaiveBayes(features=["gaussian", "poisson", "exponential", Gamma(2.0)])
        .fit(np.column_stack([X[:, 0], counts, np.exp(X[:, 0]), np.exp(X[:, 0])]), y)
        .prior_
    )
    assert one == NormalInverseWishart(one.mean, 0.01, one.scale, 3.0)
    assert_allclose([one.mean, one.scale], [X[:, 0].mean(), X[:, 0].var()], rtol=1e-12)
    assert_allclose([rate.shape, rate.rate], [1, 1 / counts.mean()], rtol=1e-12)
    assert_allclose([long.shape, long.rate], [1, np.exp(X[:, 0]).mean()], rtol=1e-12)
    assert_allclose([wait.shape, wait.rate], [1, np.exp(X[:, 0]).mean() / 2], rtol=1e-12)


def test_a_shared_prior_is_used_as_it_is():
    X, y = table()
    first = QuadraticDiscriminant().fit(X, y)
    again = QuadraticDiscriminant(prior=first.prior_).fit(X, y)
    assert_array_equal(again.predict_log_proba(X), first.predict_log_proba(X))
    assert first.prior_ == again.prior_


def test_a_gaussian_classifier_by_any_name_is_the_same():
    X, y = table(3)
    pairs = [
        (LinearDiscriminant(), GenerativeClassifier(MultivariateGaussian("shared"))),
        (QuadraticDiscriminant(), GenerativeClassifier()),
        (NaiveBayes(features="gaussian"), GenerativeClassifier(MultivariateGaussian("diagonal"))),
        (NaiveBayes(features="gaussian"), GenerativeClassifier(Gaussian())),
        (NaiveBayes(features="gaussian"), GenerativeClassifier(Independent([Gaussian(), "gaussian", Gaussian()]))),
    ]
    for a, b in pairs:
        assert_array_equal(a.fit(X, y).predict_log_proba(X), b.fit(X, y).predict_log_proba(X))
        assert a.log_evidence_ == b.log_evidence_


def test_threads_and_blocks_change_no_number(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 4)), rng.integers(3, size=3000)
    want = [clone(model).fit(X, y).predict_log_proba(X) for model in DEFAULTS]
    monkeypatch.setattr("credibly.estimators.generative_learning.BLOCK_NUMBERS", 2000)
    for threads in (1, 2):
        for model, numbers in zip(DEFAULTS, want, strict=True):
            small = clone(model).set_params(n_jobs=threads).fit(X, y)
            assert_allclose(small.predict_log_proba(X), numbers, rtol=1e-10, atol=1e-12)
