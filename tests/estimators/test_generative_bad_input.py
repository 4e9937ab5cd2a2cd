"""Every bad input of a generative classifier has a decided answer: an error, a warning, or a defined result."""

import signal
import threading

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone

from credibly import GenerativeClassifier, LinearDiscriminant, NaiveBayes, QuadraticDiscriminant, Status
from credibly.class_conditionals import Bernoulli, Categorical, Gamma, Independent, MultivariateGaussian, Poisson
from credibly.errors import ConvergenceWarning, CrediblyError, DataWarning, InputError, NewClassError, NoEvidenceError
from credibly.estimators import generative_base
from credibly.priors import Beta, Dirichlet, NormalInverseWishart

NAMES = ["age", "dose", "bmi"]


def table(n=60):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=NAMES)
    return X, (X["age"] + rng.normal(size=n) > 0).to_numpy().astype(int)


X, Y = table()
EVERY = pytest.mark.parametrize(
    "model",
    [
        LinearDiscriminant(),
        QuadraticDiscriminant(),
        NaiveBayes(),
        GenerativeClassifier(MultivariateGaussian("spherical")),
    ],
    ids=lambda model: type(model).__name__,
)
ESTIMATES = pytest.mark.parametrize("parameters", ["plugin", "moment"])


def broken(value, column="dose"):
    return X.assign(**{column: np.where(np.arange(len(X)) == 3, value, X[column])})


# --- cells ---------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e101, -1e200])
def test_infinity_and_magnitudes_that_cannot_be_squared_are_refused_by_column(model, value):
    with pytest.raises(InputError, match=r"inf.*'dose'.*missing cell is NaN"):
        clone(model).fit(broken(value), Y)
    with pytest.raises(InputError, match=r"inf.*'dose'"):
        clone(model).fit(X, Y).predict(broken(value))


@EVERY
def test_a_row_without_any_cell_counts_for_its_class_and_is_predicted_by_the_class_prior(model):
    holes = X.copy()
    holes.iloc[5] = np.nan
    fitted = clone(model).fit(holes, Y)
    assert_array_equal(fitted.class_count_, np.bincount(Y))
    assert_allclose(fitted.predict_proba(holes.iloc[[5]])[0], fitted.class_prior_, rtol=1e-12)


@EVERY
@pytest.mark.filterwarnings("ignore:.*is left out of the model")
def test_a_column_without_any_cell_is_as_if_it_were_not_there(model):
    empty = X.assign(dose=np.nan)
    fitted, without = clone(model).fit(empty, Y), clone(model).fit(X[["age", "bmi"]], Y)
    assert_allclose(fitted.predict_log_proba(empty), without.predict_log_proba(X[["age", "bmi"]]), rtol=1e-10)
    assert_allclose(fitted.log_evidence_, without.log_evidence_, rtol=1e-12)


@pytest.mark.parametrize("model", [LinearDiscriminant(), QuadraticDiscriminant()])
def test_a_column_left_out_for_want_of_values_is_told_and_cannot_come_back(model):
    with pytest.warns(DataWarning, match="'dose' has no values"):
        fitted = clone(model).fit(X.assign(dose=np.nan), Y)
    with pytest.raises(InputError, match=r"'dose' was left out.*Fit again"):
        fitted.partial_fit(X, Y)
    assert fitted.sample(2, y=1, random_state=0).shape == (2, 3)


def test_nothing_but_missing_cells_is_refused():
    with pytest.raises(InputError, match="every cell is missing"):
        LinearDiscriminant().fit(np.full((6, 2), np.nan), [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("model", [QuadraticDiscriminant(), NaiveBayes()])
def test_a_constant_column_is_told_left_out_and_changes_nothing(model):
    rare = np.arange(len(X)) < 50  # classes of 50 and 10 rows: a variance of one value would speak for the larger
    with pytest.warns(DataWarning, match="'dose' has one value only"):
        fitted = clone(model).fit(X.assign(dose=2.5), rare)
    without = clone(model).fit(X[["age", "bmi"]], rare)
    for other in (2.5, -100.0, np.nan):
        assert_allclose(
            fitted.predict_log_proba(X.assign(dose=other)), without.predict_log_proba(X[["age", "bmi"]]), rtol=1e-10
        )
    assert fitted.features_[1] == "constant"
    assert (np.asarray(fitted.sample(3, random_state=0)[0])[:, 1] == 2.5).all()
    with pytest.raises(InputError, match=r"'dose' was left out.*explicit prior"):
        fitted.partial_fit(X, rare)
    fitted.partial_fit(X.assign(dose=2.5), rare)


def test_a_constant_column_does_not_matter_to_a_shared_covariance():
    fitted, without = LinearDiscriminant().fit(X.assign(dose=2.5), Y), LinearDiscriminant().fit(X[["age", "bmi"]], Y)
    # The column's part of the Student-t's degrees of freedom is all that differs: of order 1 / rows.
    here, there = fitted.predict_proba(X.assign(dose=2.5)), without.predict_proba(X[["age", "bmi"]])
    assert_allclose(here, there, atol=1 / len(X))


@pytest.mark.parametrize("model", [LinearDiscriminant(), QuadraticDiscriminant(), NaiveBayes()])
@pytest.mark.parametrize("scale", [1e6, 1e-6, 1e40, 1e-40])
def test_units_of_a_column_do_not_matter(model, scale):
    there, here = clone(model).fit(X.assign(dose=X["dose"] * scale), Y), clone(model).fit(X, Y)
    moved = there.predict_log_proba(X.assign(dose=X["dose"] * scale))
    assert_allclose(moved, here.predict_log_proba(X), rtol=1e-8, atol=1e-10)


@EVERY
def test_fewer_rows_than_columns_are_enough_for_the_prior(model):
    rng = np.random.default_rng(1)
    wide, y = rng.normal(size=(8, 30)), np.arange(8) % 2
    fitted = clone(model).fit(wide, y)
    assert np.isfinite(fitted.predict_log_proba(wide)).all()
    assert np.isfinite(fitted.log_evidence_)


@ESTIMATES
def test_fewer_rows_than_columns_are_refused_without_a_prior_with_the_way_out(parameters):
    rng = np.random.default_rng(1)
    wide, y = rng.normal(size=(8, 30)), np.array(["a", "b"])[np.arange(8) % 2]
    with pytest.raises(
        InputError, match=r"Class 'a' has a singular covariance \(4 rows for 30.*'integrated'.*shrinkage"
    ):
        QuadraticDiscriminant(parameters=parameters).fit(wide, y)
    with pytest.raises(InputError, match=r"classes together have a singular covariance.*shrinkage"):
        LinearDiscriminant(parameters=parameters).fit(wide, y)
    for shrinkage in (0.5, "ledoit_wolf", "oas"):
        shrunk = LinearDiscriminant(parameters=parameters, shrinkage=shrinkage).fit(wide, y)
        assert np.isfinite(shrunk.predict_log_proba(wide)).all()


@ESTIMATES
def test_columns_that_are_collinear_to_all_digits_are_refused_without_a_prior(parameters):
    both = X.assign(sum=X["age"] + X["dose"])
    for model in (LinearDiscriminant, QuadraticDiscriminant):
        with pytest.raises(
            InputError, match=r"singular covariance \(\d+ rows for 4 columns\) in column '(age|dose|sum)'"
        ):
            model(parameters=parameters).fit(both, Y)
        assert np.isfinite(model().fit(both, Y).predict_log_proba(both)).all()


@ESTIMATES
def test_a_class_without_values_or_variance_in_a_column_is_named(parameters):
    y = np.array(["no", "yes"])[Y]
    gone, flat = X.assign(dose=X["dose"].where(Y == 0)), X.assign(dose=X["dose"].where(Y == 0, 1.0))
    for model in (LinearDiscriminant, QuadraticDiscriminant, NaiveBayes):
        with pytest.raises(InputError, match="Class 'yes' has no values in column 'dose'"):
            model(parameters=parameters).fit(gone, y)
        assert np.isfinite(model().fit(gone, y).predict_log_proba(X)).all()
    with pytest.raises(InputError, match=r"Class 'yes' has one value only.*'dose'"):
        NaiveBayes(parameters=parameters).fit(flat, y)


def test_too_few_rows_under_the_reference_prior_are_refused():
    with pytest.raises(InputError, match=r"Class 1 has too few rows for 3 columns under prior='reference'"):
        QuadraticDiscriminant(prior="reference").fit(X[:30], [0] * 27 + [1] * 3)
    with pytest.raises(InputError, match="too few rows"):
        LinearDiscriminant(prior="reference").fit(X[:4], [0, 0, 1, 1])


# --- kinds of columns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "values", "message"),
    [
        ("poisson", [1.0, -2.0, 3.0, 0.0], r"Poisson column holds counts.*'x0' has -2 in row 1"),
        ("poisson", [1.0, 2.5, 3.0, 0.0], r"Poisson.*2\.5 in row 1"),
        ("multinomial", [1.0, 2.5, 3.0, 0.0], "multinomial column holds counts"),
        ("exponential", [1.0, 2.5, -3.0, 0.0], "exponential column holds numbers that are not negative"),
        ("gamma", [1.0, 2.5, 0.0, 1.0], "gamma column holds positive numbers"),
        ("bernoulli", [0.0, 2.0, 1.0, 1.0], r"Bernoulli column holds 0 or 1"),
        (Bernoulli((1, 2)), [0.0, 2.0, 1.0, 1.0], r"Bernoulli column holds 1 or 2"),
    ],
)
def test_values_outside_a_familys_support_are_refused(features, values, message):
    with pytest.raises(InputError, match=message):
        NaiveBayes(features=features).fit(np.array(values)[:, None], [0, 0, 1, 1])


def test_values_outside_the_support_are_refused_in_prediction_and_in_sparse_tables_too():
    counts = np.random.default_rng(0).poisson(3, size=(20, 2))
    model = NaiveBayes().fit(counts, np.arange(20) % 2)
    with pytest.raises(InputError, match=r"counts.*-1 in row 0"):
        model.predict([[-1, 2]])
    with pytest.raises(InputError, match=r"counts.*'x1' has -4 in row 2"):
        NaiveBayes(features="poisson").fit(csr_array([[1.0, 0.0], [0.0, 2.0], [0.0, -4.0]]), [0, 1, 1])


def test_a_category_that_was_not_seen_has_the_probability_of_a_level_without_a_count():
    X = pd.DataFrame({"sex": ["f", "f", "m", "m", "m"]})
    model = NaiveBayes().fit(X, [0, 0, 0, 1, 1])
    # α / (n + (L + 1) α) with α = 1 and two levels: 1/6 in the class of three rows, 1/5 in that of two.
    joint = np.array([4 / 7 / 6, 3 / 7 / 5])
    assert_allclose(model.predict_proba(pd.DataFrame({"sex": ["x"]}))[0], joint / joint.sum(), rtol=1e-12)
    estimate = NaiveBayes(parameters="plugin").fit(X, [0, 0, 0, 1, 1])
    assert_allclose(estimate.predict_proba(pd.DataFrame({"sex": ["x"]}))[0], estimate.class_prior_, rtol=1e-12)


def test_what_is_impossible_in_every_class_is_refused_not_guessed():
    model = NaiveBayes(parameters="plugin").fit([["a", "x"], ["a", "x"], ["b", "y"], ["b", "y"]], [0, 0, 1, 1])
    with pytest.raises(InputError, match=r"1 rows have probability zero in every class, the first is row 1"):
        model.predict([["a", "x"], ["a", "y"]])
    assert_array_equal(model.predict_log_proba([["a", "x"]]), [[0.0, -np.inf]])


def test_columns_that_cannot_be_read_are_named():
    with pytest.raises(InputError, match="'when' holds dates"):
        NaiveBayes().fit(X.assign(when=pd.Timestamp("2020-01-01")), Y)
    with pytest.raises(InputError, match=r"not numbers: 'sex'.*Encode"):
        LinearDiscriminant().fit(X.assign(sex="m"), Y)
    with pytest.raises(InputError, match=r"'x1' holds text.*'categorical'"):
        NaiveBayes(features="gaussian").fit([[1.0, "a"], [2.0, "b"]], [0, 1])
    with pytest.raises(TypeError, match=r"'x0' holds \{\}"):
        NaiveBayes().fit(np.array([[{}, 1], [2, 3]], dtype=object), [0, 1])


def test_missing_counts_of_a_multinomial_are_refused_in_learning_and_left_out_in_prediction():
    counts = np.random.default_rng(0).poisson(3.0, size=(20, 4)).astype(float)
    y = np.arange(20) % 2
    holes = np.where((np.arange(4) == 2) & (np.arange(20) > 0)[:, None], np.nan, counts)
    with pytest.raises(InputError, match="must not have missing cells"):
        NaiveBayes(features="multinomial").fit(holes, y)
    model = NaiveBayes(features="multinomial", parameters="plugin").fit(counts, y)
    fewer = NaiveBayes(features="multinomial", parameters="plugin").fit(counts[:, [0, 1, 3]], y)
    assert_allclose(model.predict_proba(holes[1:]), fewer.predict_proba(counts[1:, [0, 1, 3]]), rtol=1e-10)


# --- labels ------------------------------------------------------------------------------------------------------


@EVERY
def test_one_class_is_refused_by_fit_and_taken_by_partial_fit(model):
    with pytest.raises(InputError, match=r"only one class, 1;.*partial_fit"):
        clone(model).fit(X, np.ones(len(X), dtype=int))
    one = clone(model).partial_fit(X[Y == 1], Y[Y == 1])
    assert_array_equal(one.predict_proba(X), np.ones((len(X), 1)))
    both = one.partial_fit(X[Y == 0], Y[Y == 0])
    assert_array_equal(both.classes_, [0, 1])


@EVERY
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "target y is None"),
        (Y[:10], "10 labels for 60 rows"),
        ([None] * 60, "no label at all"),
        (np.where(Y == 1, np.inf, 0.0), "infinity"),
        (np.linspace(0.1, 0.9, 60), "continuous"),
        (np.array([1, "a"] * 30, dtype=object), "one type"),
    ],
)
def test_targets_that_are_no_labels_are_refused(model, y, message):
    with pytest.raises(InputError, match=message):
        clone(model).fit(X, y)


@EVERY
@pytest.mark.parametrize(
    "y",
    [
        [None if i % 3 == 0 else int(c) for i, c in enumerate(Y)],
        np.where(np.arange(60) % 3 == 0, np.nan, Y),
        pd.Series(Y, dtype="Int64").where(np.arange(60) % 3 != 0),
        np.array([None if i % 3 == 0 else int(c) for i, c in enumerate(Y)], dtype=object),
    ],
    ids=["None", "NaN", "pd.NA", "objects"],
)
def test_a_missing_label_may_be_written_in_many_ways(model, y):
    marked = clone(model).set_params(unlabelled=-1).fit(X, np.where(np.arange(60) % 3 == 0, -1, Y))
    fitted = clone(model).fit(X, y)
    assert_array_equal(fitted.classes_, [0, 1])
    assert_array_equal(fitted.predict_log_proba(X), marked.predict_log_proba(X))
    assert fitted.n_iter_ > 1


def test_labels_of_another_type_cannot_join():
    model = LinearDiscriminant().fit(X, Y)
    with pytest.raises(InputError, match="cannot be put in order"):
        model.partial_fit(X, np.array(["a", "b"])[Y])
    with pytest.raises(InputError, match="knows the class 1 already"):
        model.add_class(1, X[:3])


# --- merging and forgetting ----------------------------------------------------------------------------------------


@EVERY
def test_models_that_do_not_fit_together_are_not_merged(model):
    first = clone(model).fit(X, Y)
    with pytest.raises(InputError, match=r"different priors.*prior=first\.prior_"):
        first.merge(clone(model).fit(X + 1, Y))
    with pytest.raises(InputError, match="different columns"):
        first.merge(clone(model).set_params(prior="reference").fit(X.rename(columns={"age": "years"}), Y))
    with pytest.raises(InputError, match="different parameters"):
        first.merge(clone(model).set_params(parameters="plugin").fit(X, Y))
    with pytest.raises(InputError, match="merge takes another"):
        first.merge(object())


def test_columns_read_as_different_families_are_not_merged():
    counts = np.random.default_rng(0).poisson(2, size=(20, 1))
    a, b = NaiveBayes(parameters="plugin"), NaiveBayes(parameters="plugin")
    with pytest.raises(InputError, match=r"different families: \[Poisson\(\)\] and \[Gaussian\(\)\]"):
        a.fit(counts, np.arange(20) % 2).merge(b.fit(counts - 5, np.arange(20) % 2))


@EVERY
def test_rows_that_were_not_learnt_are_not_forgotten(model):
    fitted = clone(model).fit(X, Y)
    before = fitted.predict_log_proba(X)
    with pytest.raises(InputError, match="cannot be forgotten"):
        fitted.forget(X[:30] * 100, Y[:30])
    with pytest.raises(InputError, match="cannot be forgotten"):
        fitted.forget(X.iloc[np.r_[0:60, 0:5]], Y[np.r_[0:60, 0:5]])
    with pytest.raises(NewClassError, match="not learnt any row"):
        fitted.forget(X[:2], [7, 7])
    with pytest.raises(InputError, match="nothing would be left"):
        fitted.forget(X, Y)
    assert_array_equal(fitted.predict_log_proba(X), before)  # nothing was lost on the way


@pytest.mark.parametrize("model", [LinearDiscriminant(), QuadraticDiscriminant()])
def test_completed_rows_cannot_be_taken_apart(model):
    holes = broken(np.nan)
    for fitted in (clone(model).fit(holes, Y), clone(model).fit(X, np.where(np.arange(60) == 3, np.nan, Y))):
        with pytest.raises(InputError, match=r"forget is not possible.*depend on all others"):
            fitted.forget(X[:2], Y[:2])
        with pytest.raises(InputError, match="merge is not possible"):
            clone(model).set_params(prior=fitted.prior_).fit(X, Y).merge(fitted)
        fitted.partial_fit(holes, Y)  # more rows are fine
        assert np.isfinite(fitted.log_evidence_)


@pytest.mark.parametrize("shrinkage", ["ledoit_wolf", "oas"])
def test_shrinkage_that_needs_every_row_refuses_what_has_none(shrinkage):
    model = LinearDiscriminant(shrinkage=shrinkage).fit(X, Y)
    for act in (
        lambda: model.merge(clone(model).fit(X, Y)),
        lambda: model.partial_fit(X, Y),
        lambda: model.forget(X, Y),
    ):
        with pytest.raises(InputError, match="depends on every single row"):
            act()
    with pytest.raises(InputError, match="needs complete, labelled rows"):
        clone(model).fit(broken(np.nan), Y)
    with pytest.raises(NoEvidenceError, match="shrinkage"):
        model.log_evidence_  # noqa: B018


def test_a_category_never_seen_is_not_forgotten():
    model = NaiveBayes().fit(pd.DataFrame({"town": ["u", "v"] * 4}), [0, 1] * 4)
    with pytest.raises(InputError, match=r"category that was never seen"):
        model.forget(pd.DataFrame({"town": ["w"]}), [0])
    assert_array_equal(model.class_count_, [4, 4])


def test_a_row_with_fewer_cells_than_the_one_learnt_is_not_forgotten():
    model = NaiveBayes(features="gaussian").fit([[1.0], [2.0], [3.0], [4.5]], [0, 0, 1, 1])
    with pytest.raises(InputError, match="more values in a column than rows"):
        model.forget([[np.nan]], [0])


def test_a_row_forgotten_under_another_label_is_noticed_where_it_cannot_be():
    from sklearn.datasets import load_iris

    flowers, species = load_iris(return_X_y=True)
    for model in (LinearDiscriminant(), QuadraticDiscriminant()):
        with pytest.raises(InputError, match="cannot be forgotten"):
            model.fit(flowers, species).forget(flowers[:1], [2])


@EVERY
def test_unlabelled_rows_alone_may_follow_a_fit(model):
    fitted = clone(model).fit(X[:40], Y[:40])
    fitted.partial_fit(X[40:], [None] * 20)
    assert_array_equal(fitted.classes_, [0, 1])
    assert_allclose(fitted.class_count_.sum(), 60)
    with pytest.raises(InputError, match="no label at all"):
        clone(model).partial_fit(X, [None] * 60)


def test_discriminant_axes_take_missing_cells_at_their_expectation_and_have_names():
    model = LinearDiscriminant(parameters="plugin").fit(X, Y)
    cov, row = model.covariance_, X.iloc[[3]].to_numpy()[0]
    slopes = np.linalg.solve(cov[np.ix_([0, 2], [0, 2])], cov[[0, 2], 1])
    guesses = [m[1] + slopes @ (row[[0, 2]] - m[[0, 2]]) for m in model.means_]
    expected = model.predict_proba(broken(np.nan).iloc[[3]])[0] @ guesses
    whole = model.transform(X.iloc[[3]].assign(dose=expected))
    assert_allclose(model.transform(broken(np.nan).iloc[[3]]), whole, rtol=1e-10)
    assert list(model.get_feature_names_out()) == ["lineardiscriminant0"]
    assert list(model.set_output(transform="pandas").transform(X).columns) == ["lineardiscriminant0"]


def test_a_posterior_that_missing_cells_leave_improper_is_refused():
    n = np.nan
    rows = [[1.3, n], [0.0, n], [-0.7, n], [n, n], [n, -0.1], [0.9, 0.9], [1.0, n], [n, n], [n, 1.0], [0.3, n]]
    with pytest.raises(InputError, match="cannot be estimated"):
        QuadraticDiscriminant(prior="reference").fit(rows, [0, 1] * 5)
    assert np.isfinite(QuadraticDiscriminant().fit(rows, [0, 1] * 5).predict_log_proba(rows)).all()


@pytest.mark.slow
@ESTIMATES
def test_estimates_that_run_away_while_cells_are_filled_in_are_refused_by_name(parameters):
    ends = set()
    for seed in range(12):  # few rows, two cells in three missing: likelihoods are unbounded
        rng = np.random.default_rng(seed)
        holes = np.where(rng.random((25, 4)) < 0.6, np.nan, rng.normal(size=(25, 4)))
        try:
            QuadraticDiscriminant(parameters=parameters, max_iter=300).fit(holes, np.arange(25) % 2)
            ends.add("fitted")
        except InputError as error:
            ends.add("refused")
            assert "cannot be estimated" in str(error)
        except ConvergenceWarning:
            ends.add("slow")
    assert ends == {"refused", "slow"}


@pytest.mark.parametrize("model", [LinearDiscriminant(shrinkage=0.3), QuadraticDiscriminant(shrinkage=0.3)])
def test_shrinkage_by_a_number_waits_until_rows_are_complete(model):
    fitted = clone(model).fit(broken(np.nan), Y)
    assert np.diff(fitted.objective_path_).min() > -1e-9


@pytest.mark.parametrize("weight", [1e-12, 1e12])
def test_tiny_and_huge_weights_do_not_end_completing_early(weight):
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.3)
    labels = np.where(np.arange(60) % 3 == 0, np.nan, Y)
    for model in (LinearDiscriminant(parameters="plugin"), NaiveBayes(parameters="plugin")):
        plain = clone(model).fit(holes, labels).predict_log_proba(X)
        scaled = clone(model).fit(holes, labels, sample_weight=np.full(60, weight)).predict_log_proba(X)
        # Estimates do not depend on the unit of the weights; the start does a little, and steps stop at 1e-10.
        assert_allclose(scaled, plain, rtol=1e-5, atol=1e-7)


def test_weights_of_zero_on_every_labelled_row_are_refused():
    with pytest.raises(InputError, match="no class among the rows of positive weight"):
        LinearDiscriminant().fit([[1.0], [2.0], [3.0]], [0, 1, None], sample_weight=[0, 0, 1.0])


def test_single_precision_with_gaps_warns_of_nothing():
    table = np.array([[1, 2], [2, np.nan], [3, 1], [5, 2]], dtype=np.float32)
    assert np.isfinite(LinearDiscriminant().fit(table, [0, 0, 1, 1]).predict_log_proba(table)).all()


def test_light_rows_stay_when_heavy_ones_are_forgotten():
    model = NaiveBayes(prior=NormalInverseWishart(0.0, 1.0, 1.0, 3.0)).fit(X, Y)
    heavy = np.full(len(X), 1e10)
    model.partial_fit(X, Y, sample_weight=heavy).forget(X, Y, sample_weight=heavy)
    assert_array_equal(model.classes_, [0, 1])
    assert_allclose(model.class_count_, np.bincount(Y), rtol=1e-3)  # 16 digits, of which 11 were covered


def test_digits_do_not_fade_with_the_number_of_rows():
    counts = np.random.default_rng(0).poisson(3.0, size=(20, 2)).astype(float)
    y, row = np.arange(20) % 2, [[50.0, 0.0]]
    limit = NaiveBayes(features="poisson", parameters="plugin").fit(counts, y).predict_log_proba(row)
    for weight in (1e9, 1e12):  # the averaged density is then the plug-in one to 1e-7 and better
        many = NaiveBayes(features="poisson").fit(counts, y, sample_weight=np.full(20, weight))
        assert_allclose(many.predict_log_proba(row), limit, rtol=1e-6)


# --- what "auto" guesses ---------------------------------------------------------------------------------------------


def test_a_third_value_where_two_were_seen_counts_as_missing_and_is_told():
    kids = pd.DataFrame({"kids": [0, 1, 0, 1, 1, 0], "age": X["age"][:6]})
    model = NaiveBayes().fit(kids, [0, 0, 0, 1, 1, 1])
    with pytest.warns(DataWarning, match=r"'kids' had two values.*features="):
        third = model.predict_proba(kids.assign(kids=2))
    assert_array_equal(third, model.predict_proba(kids.assign(kids=np.nan)))
    with pytest.raises(InputError, match=r"0 or 1.*features='auto' chose"):
        model.partial_fit(kids.assign(kids=2), [0, 0, 0, 1, 1, 1])
    with pytest.raises(InputError, match="0 or 1"):  # a family that was named means it
        NaiveBayes(features={"kids": "bernoulli"}).fit(kids, [0, 0, 0, 1, 1, 1]).predict(kids.assign(kids=2))


def test_measurements_rounded_to_whole_numbers_are_told_from_counts():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"glucose": rng.normal(120, 30, 200).round(), "visits": rng.poisson(4, 200)})
    with pytest.warns(DataWarning, match=r"Column 'glucose' holds whole numbers.*'gaussian'"):
        NaiveBayes().fit(frame, np.arange(200) % 2)
    assert NaiveBayes(features={"glucose": "gaussian"}).fit(frame, np.arange(200) % 2).features_ == [
        "gaussian",
        "poisson",
    ]
    assert NaiveBayes(features=["gaussian", "auto"]).fit(frame, np.arange(200) % 2).features_ == ["gaussian", "poisson"]
    with pytest.raises(InputError, match="not there: 'sugar'"):
        NaiveBayes(features={"sugar": "gaussian"}).fit(frame, np.arange(200) % 2)


def test_long_tables_are_cut_in_print_and_whole_in_the_frame():
    counts = np.random.default_rng(0).poisson(1.0, size=(20, 150))
    summary = NaiveBayes(features="multinomial").fit(counts, np.arange(20) % 2).summary()
    assert "… and 100 more rows" in str(summary)
    assert "… and 100 more rows" in summary._repr_html_()
    assert len(summary.to_frame()) == 300


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_numbers_of_draws_and_orders_are_at_least_one(wrong):
    model = NaiveBayes().fit(X, Y)
    for act in (lambda: model.sample(wrong), lambda: model.prequential_score(X, Y, permutations=wrong)):
        with pytest.raises(InputError, match="whole number of at least 1"):
            act()


# --- choices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"parameters": "ml"}, "'integrated', 'plugin', 'moment'"),
        ({"class_prior": "flat"}, "'learned', 'uniform'"),
        ({"class_prior": [0.5, 0.6]}, "sum to one"),
        ({"class_prior": [1.0]}, "2 positive probabilities"),
        ({"prior": "flat"}, "'empirical', 'reference'"),
        ({"prior": 3}, "NormalInverseWishart"),
        ({"prior": Beta(1, 1)}, "prior of Gaussian classes is NormalInverseWishart"),
        ({"prior": NormalInverseWishart(0.0, 1.0, np.eye(2), 5)}, r"expected \(3, 3\)"),
        ({"prior": NormalInverseWishart([0.0, 0.0], 1.0, np.eye(3), 5)}, r"expected \(3,\)"),
        ({"prior": NormalInverseWishart(0.0, 1.0, np.eye(3), 1)}, "must exceed d - 1 = 2"),
        ({"shrinkage": 2}, "from 0 to 1"),
        ({"shrinkage": "lw"}, "'ledoit_wolf'"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_choices_that_are_none_list_those_that_are(choice, message):
    with pytest.raises(InputError, match=message):
        LinearDiscriminant(**choice).fit(X, Y)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"features": "gausian"}, "'gaussian', 'bernoulli'"),
        ({"features": ["gaussian", "poisson"]}, "2 families for 3 columns"),
        ({"features": Poisson()}, "holds counts"),
        ({"prior": [Beta(1, 1)]}, "1 entries for 3 columns"),
        ({"prior": Dirichlet(1)}, "NormalInverseWishart"),
    ],
)
def test_choices_of_naive_bayes_that_are_none_list_those_that_are(choice, message):
    with pytest.raises(InputError, match=message):
        NaiveBayes(**choice).fit(X, Y)


def test_objects_of_the_user_are_checked_when_they_are_made():
    for make, message in (
        (lambda: MultivariateGaussian("full"), "shared, per_class, diagonal, spherical"),
        (lambda: Gamma(shape=-1), "must be positive"),
        (lambda: Bernoulli((1, 1)), "two different"),
        (lambda: repr(Independent(["gaussian", "normal"])), "'gaussian'"),
    ):
        with pytest.raises(InputError, match=message):
            make()
    assert Categorical() == Categorical()


# --- faults --------------------------------------------------------------------------------------------------------


def test_a_search_that_is_stopped_early_warns_once_and_keeps_what_it_has():
    with pytest.warns(ConvergenceWarning, match="step limit") as caught:
        model = LinearDiscriminant(max_iter=2).fit(broken(np.nan), Y)
    assert len(caught) == 1
    assert model.status_ is Status.STEP_LIMIT
    assert np.isfinite(model.predict_log_proba(X)).all()


@EVERY
def test_a_failed_fit_leaves_the_model_as_it_was(model):
    fitted = clone(model).fit(X, Y)
    before = fitted.predict_log_proba(X)
    for act in (fitted.fit, fitted.partial_fit):
        with pytest.raises(CrediblyError):
            act(broken(np.inf), Y)
        assert_array_equal(fitted.predict_log_proba(X), before)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_an_interrupted_update_leaves_the_model_as_it_was(monkeypatch):
    fitted = LinearDiscriminant().fit(X, Y)
    before = fitted.predict_log_proba(X)
    original = generative_base.learn

    def interrupted(*arguments):
        original(*arguments)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(generative_base, "learn", interrupted)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fitted.partial_fit(X, Y)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert_array_equal(fitted.predict_log_proba(X), before)


def test_verbose_prints_the_steps_of_completing(capsys):
    LinearDiscriminant(verbose=True).fit(broken(np.nan), Y)
    assert "step   1  value" in capsys.readouterr().out
    NaiveBayes(verbose=True).prequential_score(X, Y, permutations=2, random_state=0)
    assert "order 2 of 2" in capsys.readouterr().out
