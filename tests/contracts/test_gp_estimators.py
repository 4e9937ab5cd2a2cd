"""The Gaussian process classifier is a scikit-learn classifier and keeps CONTRACT.md: shapes, copies, frames."""

import copy
import pickle
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.gaussian_process.kernels as theirs
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from credibly import GaussianProcessClassifier, Status
from credibly.errors import NoEvidenceError
from credibly.kernels import RBF, Linear, Matern, White

FIXED = 4.0 * RBF(2.0)


# --- data -----------------------------------------------------------------------------------------------------


def table(n_classes: int = 2, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)) * [1.0, 10.0] + [0.0, 5.0]
    angle = np.linspace(0, 2 * np.pi, n_classes, endpoint=False)
    wave = np.column_stack([np.sin(1.5 * X[:, 0]), (X[:, 1] - 5.0) / 10.0])
    score = 3 * wave @ np.array([np.cos(angle), np.sin(angle)]) + rng.gumbel(size=(n, n_classes))
    return X, np.array(["blue", "green", "red"])[score.argmax(axis=1)]


KERNEL = 4.0 * RBF([1.0, 10.0])
FEW = 4.0 * RBF([1.0, 10.0], length_scale_bounds="fixed")  # slopes of ADF are found by differences, one by one
BINARY = {
    "laplace": {},
    "softmax": {"likelihood": "softmax"},
    "probit": {"likelihood": "probit"},
    "cauchy": {"likelihood": "cauchy"},
    "gumbel": {"likelihood": "gumbel"},
    "noise": {"label_noise": 0.05},
    "ep": {"inference": "ep"},
    "ep-probit": {"inference": "ep", "likelihood": "probit"},
    "adf": {"inference": "adf", "kernel": FEW},
}
SEVERAL = {
    "laplace": {},
    "kernels": {"kernel": [KERNEL, Matern(5.0), KERNEL + White(0.1)]},
    "ep": {"inference": "ep"},
    "ep-probit": {"inference": "ep", "likelihood": "probit"},
    "adf": {"inference": "adf", "kernel": FEW},
    "ep-kernels": {"inference": "ep", "kernel": [KERNEL, Matern(5.0), KERNEL]},
}


def model_of(options: dict) -> GaussianProcessClassifier:
    return GaussianProcessClassifier(**{"kernel": KERNEL, "optimize": False} | options)


class Fitted(NamedTuple):
    model: GaussianProcessClassifier
    X: np.ndarray
    y: np.ndarray
    K: int
    functions: int


@cache
def fitted_model(name: str, K: int) -> Fitted:
    options = (BINARY if K == 2 else SEVERAL)[name]
    X, y = table(K)
    return Fitted(model_of(options).fit(X, y), X, y, K, K if K > 2 or name == "softmax" else 1)


CASES = [(name, 2) for name in BINARY] + [(name, 3) for name in SEVERAL]


@pytest.fixture(params=CASES, ids=[f"{name}-{K}" for name, K in CASES])
def fitted(request):
    return fitted_model(*request.param)


# --- shapes ---------------------------------------------------------------------------------------------------


def test_predictions_have_the_shapes_of_the_contract(fitted):
    model, X, K = fitted.model, fitted.X[:5], fitted.K
    log_proba = model.predict_log_proba(X)
    assert log_proba.shape == (5, K)
    assert_array_equal(model.predict_proba(X), np.exp(log_proba))
    assert_array_equal(model.predict(X), model.classes_[log_proba.argmax(axis=1)])
    limits = model.predict_interval(X, level=0.8)
    assert limits.shape == ((5, 2) if K == 2 else (5, K, 2))
    assert (limits[..., 0] < limits[..., 1]).all()
    assert ((limits >= 0) & (limits <= 1)).all()
    mean, variance = model.predict_latent(X)
    if fitted.functions == 1:
        assert mean.shape == variance.shape == (5,)
        assert (variance > 0).all()
    else:
        assert mean.shape == (5, K)
        assert variance.shape == (5, K, K)
        assert_allclose(variance, variance.transpose(0, 2, 1), atol=1e-12)
        assert (np.linalg.eigvalsh(variance) > 0).all()
    draws = model.sample_proba(X, size=6, random_state=0)
    assert draws.shape == (6, 5, K)
    assert_allclose(draws.sum(axis=2), 1, rtol=1e-12)
    assert model.sample_proba(X).shape == (1, 5, K)
    assert model.predict_recorded_proba(X).shape == (5, K)
    assert model.flip_probability(X, fitted.y[:5]).shape == (5,)


def test_probabilities_sum_to_one(fitted):
    far = np.array([[100.0, -3000.0], [0.0, 5.0]])
    for X in (fitted.X, far):
        assert_allclose(fitted.model.predict_proba(X).sum(axis=1), 1, rtol=0, atol=1e-12)
        assert_allclose(fitted.model.predict_recorded_proba(X).sum(axis=1), 1, rtol=0, atol=1e-12)


def test_fitted_attributes_have_the_shapes_of_the_contract(fitted):
    model, n = fitted.model, len(fitted.X)
    shape = (n,) if fitted.functions == 1 else (n, fitted.K)
    assert model.posterior_.mean.shape == model.posterior_.var.shape == shape
    assert (model.posterior_.var > 0).all()
    assert model.loo_log_proba_.shape == (n,)
    assert (model.loo_log_proba_ < 0).all()
    kernels = model.kernel_ if isinstance(model.kernel_, list) else [model.kernel_]
    assert model.log_evidence_gradient_.shape == (sum(len(kernel.theta) for kernel in kernels),)
    assert isinstance(model.n_iter_, int) and model.n_iter_ >= 1
    assert model.status_ is Status.CONVERGED
    assert isinstance(model.log_likelihood_, float)
    assert 0 < model.effective_parameters_ < n * fitted.functions
    assert model.n_features_in_ == 2
    assert list(model.classes_) == ["blue", "green", "red"][: fitted.K]
    assert isinstance(model.label_noise_, float) and model.label_noise_std_ == 0.0


def test_what_is_handed_out_can_be_changed_without_harm(fitted):
    model, X = fitted.model, fitted.X
    before = model.predict_log_proba(X)
    for name in ("loo_log_proba_", "log_evidence_gradient_"):
        want = getattr(model, name).copy()
        getattr(model, name)[:] = np.nan
        assert_array_equal(getattr(model, name), want)
    assert_array_equal(model.predict_log_proba(X), before)


def test_evidence_is_a_float_or_refused_with_the_reason(fitted):
    model = fitted.model
    if fitted.K > 2 and model.inference != "laplace":
        assert not hasattr(model, "log_evidence_")
        assert not hasattr(model, "occam_factor_")
        with pytest.raises(NoEvidenceError, match=r"against the rest.*one_vs_rest_log_evidence_.*'laplace' is joint"):
            model.log_evidence_  # noqa: B018
        assert issubclass(NoEvidenceError, AttributeError)
        assert model.one_vs_rest_log_evidence_.shape == (3,)
        assert (model.one_vs_rest_log_evidence_ < 0).all()
    else:
        assert isinstance(model.log_evidence_, float) and model.log_evidence_ < 0
        assert_allclose(model.occam_factor_, model.log_evidence_ - model.log_likelihood_, rtol=1e-12)
        assert not hasattr(model, "one_vs_rest_log_evidence_")


def test_the_function_at_training_rows_is_the_posterior_there(fitted):
    mean, variance = fitted.model.predict_latent(fitted.X)
    own = variance if variance.ndim == 1 else np.einsum("ncc->nc", variance)
    posterior = fitted.model.posterior_
    noisy = np.array(["White" in repr(kernel) for kernel in posterior.kernels])
    if noisy.any():  # noise belongs to its own row: the same place again has another
        assert (own[:, noisy] > posterior.var[:, noisy]).all()
        mean, own = mean[:, ~noisy], own[:, ~noisy]
        assert_allclose(mean, posterior.mean[:, ~noisy], rtol=1e-7, atol=1e-8)
        assert_allclose(own, posterior.var[:, ~noisy], rtol=1e-7)
        return
    assert_allclose(mean, posterior.mean, rtol=1e-7, atol=1e-8)
    assert_allclose(own, posterior.var, rtol=1e-7)


def test_decisions_follow_costs_and_decline_where_that_is_cheaper(fitted):
    model, X, K = fitted.model, fitted.X, fitted.K
    assert_array_equal(model.decide(X, 1 - np.eye(K)), model.predict(X))
    costs = np.ones((K, K)) - np.eye(K)
    costs[1] *= 10.0  # missing the second class is ten times as bad
    expected = model.predict_proba(X) @ costs
    assert_array_equal(model.decide(X, costs), model.classes_[expected.argmin(axis=1)])
    declined = model.decide(X, costs, reject_cost=0.5, reject_label="?")
    assert_array_equal(declined == "?", expected.min(axis=1) > 0.5)
    assert model.decide(X, costs, reject_cost=0.5).dtype == object


def test_the_summary_has_a_row_for_every_hyperparameter(fitted):
    summary = fitted.model.summary(level=0.8)
    frame = summary.to_frame()
    kernels = fitted.model.kernel_ if isinstance(fitted.model.kernel_, list) else [fitted.model.kernel_]
    assert list(frame.columns) == ["value", "lower", "upper", "sd_log"]
    assert_allclose(frame["value"], np.exp(np.concatenate([kernel.theta for kernel in kernels])), rtol=1e-12)
    assert frame.index.is_unique
    known = frame["sd_log"].notna()
    assert (frame["lower"] < frame["value"])[known].all() and (frame["value"] < frame["upper"])[known].all()
    assert fitted.model.status_.value in str(summary)
    assert "80%" in str(summary)
    assert ("none (one against the rest)" in str(summary)) == (not hasattr(fitted.model, "log_evidence_"))
    assert summary._repr_html_().startswith("<table>")


# --- classes: permutations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["laplace", "probit", "cauchy", "ep", "noise"])
def test_swapping_two_labels_swaps_their_probabilities(name):
    X, y = table()
    there, back = model_of(BINARY[name]).fit(X, y == "blue"), model_of(BINARY[name]).fit(X, y != "blue")
    assert_allclose(there.predict_log_proba(X), back.predict_log_proba(X)[:, ::-1], rtol=1e-7)
    assert_allclose(there.log_evidence_, back.log_evidence_, rtol=1e-9)


@pytest.mark.parametrize("name", ["laplace", "ep"])
def test_permuting_three_labels_permutes_their_probabilities(name):
    X, y = table(3)
    codes, order = np.searchsorted(["blue", "green", "red"], y), np.array([2, 0, 1])
    plain, mixed = model_of(SEVERAL[name]).fit(X, codes), model_of(SEVERAL[name]).fit(X, order[codes])
    # Averages over three joint scores are good to 1e-4 (predict_log_proba says so), whatever the order.
    assert_allclose(mixed.predict_proba(X)[:, order], plain.predict_proba(X), rtol=0, atol=2e-4)
    assert_allclose(mixed.posterior_.mean[:, order], plain.posterior_.mean, rtol=1e-7, atol=1e-8)


LABELS = {
    "text": ["no", "yes"],
    "booleans": [False, True],
    "floats": [0.0, 1.0],
    "negative": [-1, 1],
    "small": np.array([3, 200], dtype=np.uint8),
    "objects": np.array(["a", "b"], dtype=object),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=list(LABELS))
def test_labels_of_any_kind_come_back_as_they_were(labels):
    X, y = table()
    names = np.asarray(labels)
    model = model_of({}).fit(X, names[(y == "green").astype(int)])
    assert_array_equal(model.classes_, names)
    assert model.classes_.dtype == names.dtype == model.predict(X).dtype
    assert_array_equal(model.predict_log_proba(X), fitted_model("laplace", 2).model.predict_log_proba(X))


def test_labels_may_be_a_column_of_a_frame():
    X, y = table()
    want = fitted_model("laplace", 2).model.predict_log_proba(X)
    for column in (pd.Series(y), pd.Series(y, dtype="category"), pl.Series(y), y.tolist()):
        assert_array_equal(model_of({}).fit(X, column).predict_log_proba(X), want)


# --- the same rows in another dress ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["laplace", "ep", "adf"])
def test_frames_and_memory_order_change_no_number(name):
    X, y = table()
    want = fitted_model(name, 2).model.predict_log_proba(X)
    frozen = X.copy()
    frozen.setflags(write=False)
    dresses = {
        "fortran": np.asfortranarray(X),
        "reversed twice": X[:, ::-1][:, ::-1],
        "every other": np.repeat(X, 2, axis=0)[::2],
        "read-only": frozen,
        "list": X.tolist(),
        "object": X.astype(object),
        "pandas": pd.DataFrame(X, columns=["a", "b"]),
        "polars": pl.DataFrame(X, schema=["a", "b"]),
    }
    for dress, other in dresses.items():
        there = model_of(BINARY[name]).fit(other, y)
        assert_allclose(there.predict_log_proba(other), want, rtol=1e-9, atol=1e-12, err_msg=dress)


def test_single_precision_is_read_as_the_double_of_the_same_value():
    X, y = table(3)
    single = X.astype(np.float32)
    here, there = model_of({}).fit(single, y), model_of({}).fit(single.astype(float), y)
    assert_array_equal(here.predict_log_proba(single), there.predict_log_proba(single.astype(float)))
    assert here.predict_log_proba(single).dtype == np.float64
    whole = np.round(X).astype(int)
    assert_array_equal(
        model_of({}).fit(whole, y).predict_log_proba(whole),
        model_of({}).fit(whole.astype(float), y).predict_log_proba(whole.astype(float)),
    )


def test_input_is_left_as_it_was_and_may_be_changed_afterwards():
    X, y = table()
    rows, labels = X.copy(), y.copy()
    model = GaussianProcessClassifier().fit(rows, labels)
    model.predict_interval(rows)
    model.sample_proba(rows, size=2, random_state=0)
    model.flip_probability(rows, labels)
    assert_array_equal(rows, X)
    assert_array_equal(labels, y)
    want = model.predict_log_proba(X)
    rows[:], labels[:] = np.nan, "blue"
    assert_array_equal(model.predict_log_proba(X), want)
    assert np.isfinite(model.loo_log_proba_).all()


def test_names_of_columns_are_kept_and_checked():
    X, y = table()
    frame = pd.DataFrame(X, columns=["age", "dose"])
    model = model_of({}).fit(frame, y)
    assert list(model.feature_names_in_) == ["age", "dose"]
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[["dose", "age"]])
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*weight.*now missing.*dose"):
        model.predict(frame.rename(columns={"dose": "weight"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


def test_a_kernel_may_look_at_columns_by_name():
    X, y = table()
    frame = pd.DataFrame(X, columns=["age", "dose"])
    by_name = GaussianProcessClassifier(RBF(2.0, columns=["dose"]), optimize=False).fit(frame, y)
    alone = GaussianProcessClassifier(RBF(2.0), optimize=False).fit(X[:, 1:], y)
    assert_allclose(by_name.predict_log_proba(frame), alone.predict_log_proba(X[:, 1:]), rtol=1e-12)
    for table_ in (frame.assign(age=1e6), pl.DataFrame(frame.assign(age=1e6))):
        assert_array_equal(by_name.predict_log_proba(table_), by_name.predict_log_proba(frame))


def test_threads_change_no_number():
    X, y = table(3)
    want = model_of({}).fit(X, y)
    for n_jobs in (1, 2, -1):
        model = model_of({"n_jobs": n_jobs}).fit(X, y)
        assert_allclose(model.predict_log_proba(X), want.predict_log_proba(X), rtol=1e-9)
        assert_allclose(model.log_evidence_, want.log_evidence_, rtol=1e-12)


# --- copies ---------------------------------------------------------------------------------------------------


def test_copies_tell_the_same(fitted):
    model, X = fitted.model, fitted.X
    for there in (
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        copy.copy(model),
        clone(model).fit(X, fitted.y),
    ):
        assert_array_equal(there.predict_log_proba(X), model.predict_log_proba(X))
        assert_array_equal(there.loo_log_proba_, model.loo_log_proba_)
        assert_array_equal(there.log_evidence_gradient_, model.log_evidence_gradient_)
        assert_array_equal(there.sample_proba(X[:3], 2, random_state=1), model.sample_proba(X[:3], 2, random_state=1))
        assert str(there.summary()) == str(model.summary())


def test_a_pickle_from_before_the_first_question_answers_it():
    X, y = table()
    fresh = model_of({}).fit(X, y)
    there = pickle.loads(pickle.dumps(fresh))
    assert_array_equal(there.loo_log_proba_, fresh.loo_log_proba_)


def test_parameters_are_kept_as_given_and_can_be_set():
    kernel = [RBF(), Linear(), theirs.RBF()]
    options = {"kernel": kernel, "likelihood": "probit", "inference": "ep", "label_noise": (0.1, "estimate")}
    options |= {
        "optimize": False,
        "n_restarts": 3,
        "inducing": 7,
        "optimize_inducing": True,
        "max_n": 5,
        "tol": 1e-3,
        "max_iter": 7,
    }
    options |= {"n_jobs": 2, "random_state": 4, "verbose": True}
    model = GaussianProcessClassifier(**options)
    for name, value in options.items():
        assert model.get_params(deep=False)[name] is value
    assert GaussianProcessClassifier().set_params(**options).get_params(deep=False) == model.get_params(deep=False)
    assert clone(model).get_params(deep=False).keys() == options.keys()
    with pytest.raises(ValueError, match="Invalid parameter 'kernels'"):
        model.set_params(kernels=RBF())
    with pytest.raises(TypeError, match="positional"):
        GaussianProcessClassifier(RBF(), "logit")


def test_fitting_leaves_the_parameters_alone():
    X, y = table()
    kernel = theirs.RBF(2.0)
    model = GaussianProcessClassifier(kernel).fit(X, y)
    assert model.kernel is kernel
    assert kernel.length_scale == 2.0
    assert model.kernel_.length_scale != 2.0


def test_a_second_fit_leaves_nothing_of_the_first():
    (X, y), (X3, y3) = table(), table(3)
    model = GaussianProcessClassifier(KERNEL, optimize=False, inference="ep").fit(X3, y3)
    assert hasattr(model, "one_vs_rest_log_evidence_")
    assert model.loo_log_proba_.shape == (40,)
    model.fit(X[:30], y[:30])
    fresh = clone(model).fit(X[:30], y[:30])
    assert not hasattr(model, "one_vs_rest_log_evidence_")
    assert_array_equal(model.loo_log_proba_, fresh.loo_log_proba_)
    assert_array_equal(model.log_evidence_gradient_, fresh.log_evidence_gradient_)
    assert_array_equal(model.predict_log_proba(X), fresh.predict_log_proba(X))
    assert model.log_evidence_ == fresh.log_evidence_


# --- company --------------------------------------------------------------------------------------------------


def test_it_works_inside_scikit_learns_tools():
    X, y = table(3, n=90)
    pipe = make_pipeline(StandardScaler(), GaussianProcessClassifier(4.0 * RBF(), optimize=False))
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.5
    log_loss = -cross_val_score(pipe, X, y, cv=3, scoring="neg_log_loss").mean()
    assert log_loss < np.log(3)
    kernels = {"wavy": 4.0 * RBF([1.0, 10.0]), "straight": Linear(), "theirs": theirs.Matern([1.0, 10.0])}
    search = GridSearchCV(model_of({}), {"kernel": list(kernels.values()), "inference": ["laplace", "ep"]}, cv=3)
    assert search.fit(X, y).best_params_["kernel"] is not kernels["straight"]
    calibrated = CalibratedClassifierCV(model_of({}), cv=3).fit(X, y)
    assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1, rtol=1e-12)


def test_parallel_cross_validation_gives_the_same_scores():
    X, y = table()
    with parallel_config("threading"):  # starting processes takes longer than all else here
        scores = cross_val_score(model_of({}), X, y, cv=3, n_jobs=2)
    assert_array_equal(scores, cross_val_score(model_of({}), X, y, cv=3))
