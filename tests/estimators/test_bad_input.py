"""Every bad input has a decided answer: an error that says what came and what to change, or a defined result."""

import os
import signal
import threading
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import expit

from credibly import BayesianLogisticRegression, BayesianProbitRegression, NoisyThresholdClassifier, Normal, Status
from credibly.errors import (
    CollinearityError,
    ConvergenceWarning,
    CrediblyError,
    InputError,
    NewClassError,
    NoEvidenceError,
    SeparationError,
)

BOTH = pytest.mark.parametrize("model", [BayesianLogisticRegression, BayesianProbitRegression])
NAMES = ["age", "dose", "bmi"]


def table(n=60):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=NAMES)
    y = (X["age"] + rng.logistic(size=n) > 0).to_numpy().astype(int)
    return X, y


X, Y = table()


def fitted(model=BayesianLogisticRegression, **choices):
    return model(**choices).fit(X, Y)


def broken(value, column="dose"):
    return X.assign(**{column: np.where(np.arange(len(X)) == 3, value, X[column])})


def test_every_input_error_is_a_value_error_too():
    assert issubclass(InputError, ValueError)
    assert issubclass(InputError, CrediblyError)
    assert issubclass(NoEvidenceError, AttributeError)
    assert issubclass(SeparationError, InputError)


@BOTH
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_a_cell_that_is_not_finite_is_refused_by_column_with_the_models_that_would_take_it(model, value, word):
    message = rf"{word}.*'dose'.*Generative models"
    with pytest.raises(InputError, match=message):
        model().fit(broken(value), Y)
    with pytest.raises(InputError, match=message):
        model().fit(X, Y).predict(broken(value))


def test_a_sparse_cell_that_is_not_finite_is_refused_by_column():
    with pytest.raises(InputError, match="NaN in column 'x1'"):
        BayesianLogisticRegression().fit(csr_array(broken(np.nan).to_numpy()), Y)


@BOTH
def test_one_class_is_refused_and_partial_fit_is_named_as_the_way_out(model):
    with pytest.raises(InputError, match=r"only one class, 1;.*partial_fit with classes"):
        model().fit(X, np.ones(len(X), dtype=int))


def test_classes_that_are_absent_from_the_first_batch_may_be_named():
    model = BayesianLogisticRegression().partial_fit(X, Y, classes=[0, 1, 2])
    assert_array_equal(model.classes_, [0, 1, 2])
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    one = BayesianLogisticRegression(prior=Normal()).partial_fit(X, np.ones(len(X), dtype=int), classes=[0, 1])
    assert (one.predict(X) == 1).all()


@BOTH
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (X[["dose", "age", "bmi"]], "same order"),
        (X.rename(columns={"bmi": "height"}), "unseen at fit time"),
        (X[["age", "dose"]], "now missing"),
        (X.to_numpy()[:, :2], "2 features"),
    ],
)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_other_columns_than_those_of_the_fit_are_refused(model, columns, message):
    with pytest.raises(ValueError, match=message):
        model().fit(X, Y).predict(columns)


@pytest.mark.parametrize(
    "columns",
    [
        X.assign(sex=["m", "f"] * 30),
        X.assign(sex=pd.Categorical(["m", "f"] * 30)),
        X.assign(sex=pd.Timestamp("2020-01-01")),
        pl.DataFrame({"age": X["age"].to_numpy(), "sex": ["m", "f"] * 30}),
    ],
    ids=["strings", "categories", "dates", "polars strings"],
)
def test_columns_that_are_not_numbers_are_named_with_a_way_to_encode_them(columns):
    with pytest.raises(InputError, match=r"not numbers: 'sex'.*OneHotEncoder"):
        BayesianLogisticRegression().fit(columns, Y)


@pytest.mark.parametrize("cells", [np.array([["a", "b"]] * 60), np.array([["a", 1.0]] * 60, dtype=object)])
def test_an_array_of_text_is_refused_with_a_way_to_encode_it(cells):
    with pytest.raises(InputError, match=r"(strings|text).*OneHotEncoder"):
        BayesianLogisticRegression().fit(cells, Y)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.where(Y == 1, np.nan, 0.0), "missing labels.*in 26 of 60 rows, the first in row"),
        ([None if label else "a" for label in Y], "missing labels.*first in row"),
        (pd.array([1] * 30 + [0] * 29 + [pd.NA], dtype="Int64"), "NaN|missing labels"),
        (X["age"], "continuous"),
        (Y[:10], "inconsistent numbers of samples"),
        (np.column_stack([Y, Y]), "1d array"),
    ],
    ids=["NaN", "None", "pd.NA", "continuous", "too short", "two columns"],
)
def test_labels_that_cannot_be_used_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        BayesianLogisticRegression().fit(X, labels)


def test_empty_input_is_refused():
    with pytest.raises(ValueError, match="0 sample"):
        BayesianLogisticRegression().fit(np.empty((0, 3)), [])
    with pytest.raises(ValueError, match="0 feature"):
        BayesianLogisticRegression().fit(np.empty((60, 0)), Y)
    with pytest.raises(ValueError, match="0 sample"):
        fitted().predict(X.iloc[:0])


@BOTH
@pytest.mark.parametrize("prior", ["empirical", "ard", Normal(scale=2.5)])
def test_a_constant_column_is_harmless_with_a_prior(model, prior):
    flat = model(prior=prior).fit(X.assign(dose=7.0), Y)
    without = model(prior=prior).fit(X.drop(columns="dose"), Y)
    assert flat.status_.good
    if prior == "empirical":  # its coefficient is the prior's, and no prediction at that constant changes
        assert_allclose(flat.coef_[0, 1], 0, atol=1e-10)
        there, expected = flat.predict_proba(X.assign(dose=7.0)), without.predict_proba(X.drop(columns="dose"))
        assert_allclose(there, expected, rtol=1e-7)


@BOTH
def test_without_a_prior_a_constant_column_is_refused_by_name(model):
    with pytest.raises(CollinearityError, match=r"Constant columns.*'dose'.*prior"):
        model(prior=None).fit(X.assign(dose=7.0), Y)


def test_without_a_prior_dependent_columns_are_named_and_others_are_not():
    with pytest.raises(CollinearityError, match="'age', 'dose', 'sum' are linearly dependent") as caught:
        BayesianLogisticRegression(prior=None).fit(X.assign(sum=X["age"] + 2 * X["dose"]), Y)
    assert "bmi" not in str(caught.value)


def test_fewer_rows_than_columns_need_a_prior():
    rng = np.random.default_rng(1)
    wide, labels = rng.normal(size=(10, 50)), np.arange(10) % 2
    for prior in ("empirical", "ard", Normal()):
        model = BayesianLogisticRegression(prior=prior).fit(wide, labels)
        assert model.status_.good
        assert np.isfinite(model.log_evidence_)
    with pytest.raises(CollinearityError, match=r"fewer rows \(10\) than weights \(51\)"):
        BayesianLogisticRegression(prior=None).fit(wide, labels)


@BOTH
def test_separated_classes_without_a_prior_are_refused_by_column(model):
    with pytest.raises(SeparationError, match=r"separated \(complete\) by 'bmi'.*infinite.*prior"):
        model(prior=None).fit(X, (X["bmi"] > 0.1).astype(int))


@BOTH
@pytest.mark.parametrize("prior", ["empirical", "ard", Normal(scale=2.5)])
@pytest.mark.parametrize("inference", ["laplace", "auto"])
def test_separated_classes_with_a_prior_give_a_finite_converged_answer(model, prior, inference):
    y = (X["bmi"] > 0.1).astype(int)
    separated = model(prior=prior, inference=inference).fit(X, y)
    assert separated.status_.good
    assert np.isfinite(separated.log_evidence_)
    # One column tells the classes: the evidence of EP, as the exact one, rises with its scale up to the bound of 1000.
    at_bound = separated.status_ is Status.SCALE_AT_BOUND
    assert at_bound is (prior == "ard" and (inference == "auto" or at_bound))
    assert np.abs(separated.coef_).max() < (5e3 if inference == "auto" else 1e3)


def test_three_separated_classes_without_a_prior_are_refused():
    with pytest.raises(SeparationError, match="'bmi'"):
        BayesianLogisticRegression(prior=None).fit(X[["bmi"]], np.digitize(X["bmi"], [-0.5, 0.5]))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 2], r"\(2,\), expected \(60,\)"),
        (np.where(Y == 1, 1.0, -1.0), "must not be negative"),
        (np.zeros(60), "zero"),
        (np.full(60, np.nan), "NaN"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        BayesianLogisticRegression().fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (Normal(mean=[1, 2], cov=np.eye(2)), r"\(2,\).*slopes"),
        (Normal(cov=np.eye(2)), r"\(2, 2\).*3×3 \(the slopes\)"),
        (Normal(cov=[[1, 2, 0], [2, 1, 0], [0, 0, 1]]), "not positive definite"),
        (Normal(cov=[[1, 2, 0], [0, 1, 0], [0, 0, 1]]), "symmetric"),
        (Normal(cov=np.ones((3, 4))), "square"),
        (Normal(scale=[1, 2]), r"one number or one per column, \(3,\)"),
        (Normal(scale=-1), "must be positive"),
        (Normal(scale=0), "must be positive"),
        (Normal(intercept_scale=np.nan), "must be finite"),
        (Normal(scale="wide"), "made of numbers"),
        ("ridge", '"empirical", "ard".*\'ridge\''),
        (1.0, '"empirical", "ard".*1.0'),
    ],
)
def test_a_prior_that_cannot_be_used_is_refused_with_the_choices(prior, message):
    with pytest.raises(InputError, match=message):
        BayesianLogisticRegression(prior=prior).fit(X, Y)


@pytest.mark.parametrize(("factor", "message"), [(1e200, "beyond 1e100"), (1e-300, "less than 1e-100")])
def test_magnitudes_whose_squares_leave_floating_point_are_refused_by_column(factor, message):
    with pytest.raises(InputError, match=rf"{message} in column 'dose'.*unit"):
        BayesianLogisticRegression().fit(X.assign(dose=X["dose"] * factor), Y)


@pytest.mark.parametrize("factor", [1e-90, 1e-9, 1e9, 1e90])
def test_magnitudes_inside_floating_point_change_nothing(factor):
    scaled = X.assign(dose=X["dose"] * factor)
    model = BayesianLogisticRegression().fit(scaled, Y)
    assert_allclose(model.predict_proba(scaled), fitted().predict_proba(X), rtol=1e-8)
    assert_allclose(model.log_evidence_, fitted().log_evidence_, rtol=1e-8)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"inference": "mcmc"}, "'laplace'"),
        ({"solver": "lbfgs"}, "'newton', 'sgd'"),
        ({"multi_class": "ovr"}, "'auto', 'softmax'"),
        ({"label_noise": 0.5}, "label_noise"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": "tight"}, "tol"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_choices_that_do_not_exist_are_refused_with_those_that_do(choices, message):
    with pytest.raises(InputError, match=message):
        fitted(**choices)


def test_more_than_two_classes_send_probit_users_to_softmax():
    with pytest.raises(InputError, match="BayesianLogisticRegression"):
        BayesianProbitRegression().fit(X, np.arange(60) % 3)


@BOTH
def test_a_new_class_in_an_update_is_refused_with_what_to_do(model):
    with pytest.raises(NewClassError, match=r"\[2\].*fit again on all rows.*classes="):
        model().fit(X, Y).partial_fit(X, Y + 1)


def test_a_flat_prior_has_no_evidence_and_says_why():
    model = fitted(prior=None)
    with pytest.raises(NoEvidenceError, match=r"flat prior.*bic_"):
        _ = model.log_evidence_
    assert not hasattr(model, "log_evidence_")
    assert not hasattr(model, "occam_factor_")
    assert np.isfinite([model.bic_, model.aic_]).all()


def test_levels_and_costs_that_make_no_sense_are_refused():
    for level in (0, 1, 1.5, -1):
        with pytest.raises(InputError, match="level must lie between 0 and 1"):
            fitted().predict_interval(X, level=level)
    with pytest.raises(InputError, match="2×2 table"):
        fitted().decide(X, [[0, 1]])
    with pytest.raises(InputError, match="finite"):
        fitted().decide(X, [[0, np.inf], [1, 0]])


@pytest.mark.parametrize("inference", ["laplace", "variational", "ep", "auto"])
def test_too_few_steps_give_one_warning_with_the_status_as_its_text(inference):
    with pytest.warns(ConvergenceWarning, match="limit|max_iter") as caught:
        model = fitted(prior=Normal(), max_iter=1, inference=inference)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert model.status_ is (Status.SWEEP_LIMIT if model.rung_ == "ep" else Status.STEP_LIMIT)
    assert str(caught[0].message) == model.status_.value


@BOTH
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_no_input_array_is_modified_and_read_only_arrays_do(model, order, kind):
    frozen = np.array(X, dtype=kind, order=order)
    labels, weight = Y.copy(), np.ones(len(Y))
    copies = [array.copy() for array in (frozen, labels, weight)]
    for array in (frozen, labels, weight):
        array.flags.writeable = False
    model().fit(frozen, labels, sample_weight=weight).predict_interval(frozen)
    for array, copy in zip((frozen, labels, weight), copies, strict=True):
        assert_array_equal(array, copy)


def state(model):
    return {name: id(value) for name, value in vars(model).items()}


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
@pytest.mark.parametrize("rows", [broken(np.nan), X.rename(columns={"bmi": "height"}).assign(age=np.nan)])
def test_a_fit_that_fails_leaves_the_model_as_it_was(call, rows):
    model = fitted()
    before = state(model)
    with pytest.raises(ValueError, match=r"NaN|feature names"):
        getattr(model, call)(rows, Y)
    assert state(model) == before


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_an_interrupted_fit_leaves_the_model_as_it_was(call, monkeypatch):
    """Ctrl-C while progress is printed."""
    model = fitted().set_params(verbose=True)
    before, answer = state(model), model.predict_proba(X)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.print", interrupted)
    with pytest.raises(KeyboardInterrupt):
        getattr(model, call)(X + 1, Y)
    assert state(model) == before
    assert_array_equal(model.predict_proba(X), answer)


@pytest.fixture
def interruptible():
    """Python's own answer to Ctrl-C, also where tests run in the background and a shell has switched it off."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interrupting(stats.rv_continuous):
    """The logistic distribution, which once presses Ctrl-C from a thread of the pool."""

    armed, pressed = False, threading.Lock()

    def _cdf(self, x):
        if self.armed and threading.current_thread() is not threading.main_thread():
            if self.pressed.acquire(blocking=False):
                os.kill(os.getpid(), signal.SIGINT)
        return expit(x)

    def _pdf(self, x):
        return expit(x) * expit(-x)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_blocks_run_on_threads_leaves_the_model_as_it_was(monkeypatch):
    """A real signal, sent while a thread of the pool computes with some rows."""
    threshold = Interrupting(name="interrupting")
    model = NoisyThresholdClassifier(threshold(), prior=Normal(), inference="laplace", n_jobs=2).fit(X, Y)
    before, answer = state(model), model.predict_proba(X)
    rng = np.random.default_rng(0)
    many, labels = pd.DataFrame(rng.normal(size=(400_000, 3)), columns=NAMES), rng.integers(2, size=400_000)
    monkeypatch.setattr(Interrupting, "armed", True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(many, labels)
    assert Interrupting.pressed.locked()
    assert state(model) == before
    assert_array_equal(model.predict_proba(X), answer)  # threads and BLAS are usable again


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_a_cell_whose_square_is_infinite_is_refused_in_prediction_too(form):
    """It would give a variance that is infinite, and a probability that is not a number."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = BayesianLogisticRegression(prior=Normal()).fit(X, X[:, 0] > 0)
    X[7, 1] = -1e160
    for method in (model.predict, model.predict_proba, model.predict_interval, model.predict_latent):
        with pytest.raises(InputError, match="beyond 1e100 in column 'x1'"):
            method(form(X))


def test_numbers_too_large_to_be_squared_are_refused_in_large_tables_too():
    """There threads describe the columns; whatever overflows, the error comes and no warning."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60_000, 5)), rng.integers(0, 2, 60_000)
    X[:, 2] *= 1e160
    with pytest.raises(InputError, match="beyond 1e100"):
        BayesianLogisticRegression(prior=Normal(scale=1.0)).fit(X, y)


def test_one_row_that_weighs_more_than_all_others_together_is_no_arithmetic_error():
    """Squares of squared distances are infinite on the way. Where the search stalls, it says so."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(30_000, 10)), np.ones(30_000)
    y = (X[:, 0] + rng.logistic(size=len(X)) > 0).astype(int)
    for heavy in (1e80, 1e100):
        weight[3] = heavy
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                model = BayesianLogisticRegression(prior=Normal(scale=1.0)).fit(X, y, sample_weight=weight)
            except InputError:
                continue  # the prior is lost beside that row, which is said
        assert model.predict_proba(X[3:4])[0, y[3]] > 0.9 or not model.status_.good
