"""A model that takes tables: the same numbers as the estimator on hand-made columns, whatever the table looks like."""

import numpy as np
import pandas as pd
import pytest

from credibly import (
    BayesianLogisticRegression,
    GaussianProcessClassifier,
    Jeffreys,
    LinearDiscriminant,
    NaiveBayes,
    Normal,
)
from credibly.errors import DataWarning, NotDefinedError, TableError
from credibly.tables import Choices, ColumnsDesign, TableModel, compare_table
from credibly.tables.model import fingerprint_of

PRIOR = Normal(scale=2.0)


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    n = 120
    age, sex, dose = rng.normal(50, 10, n), rng.choice(["f", "m"], n), rng.choice(["high", "low", "none"], n)
    score = 0.05 * (age - 50) + (sex == "m") - (dose == "none")
    ill = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    return pd.DataFrame({"row": np.arange(n), "age": age, "sex": sex, "dose": dose, "ill": ill})


def by_hand(frame):
    columns = {"age": frame["age"]}
    columns |= {f"sex={level}": (frame["sex"] == level).astype(float) for level in ("f", "m")}
    columns |= {f"dose={level}": (frame["dose"] == level).astype(float) for level in ("high", "low", "none")}
    return pd.DataFrame(columns)


def test_indicators_of_all_levels_and_the_numbers_of_the_estimator(table):
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), table, "ill")
    plain = BayesianLogisticRegression(prior=PRIOR).fit(by_hand(table), table["ill"].to_numpy())
    assert model.design.names == ("age", "sex=f", "sex=m", "dose=high", "dose=low", "dose=none")
    np.testing.assert_array_equal(model.predict_log_proba(table), plain.predict_log_proba(by_hand(table)))
    np.testing.assert_array_equal(model.predict_interval(table, 0.8), plain.predict_interval(by_hand(table), 0.8))
    assert str(model.summary()) == str(plain.summary())
    (note,) = model.notes
    assert note.startswith("Not used: row, which looks like an identifier or a row number; name it among the features")


def test_without_a_prior_the_first_level_is_the_reference(table):
    model = TableModel.fit(BayesianLogisticRegression(prior=None), table, "ill")
    assert model.design.names == ("age", "sex=m", "dose=low", "dose=none")
    other = table.assign(dose="new")
    with pytest.raises(TableError, match=r"without a prior nothing is known"):
        model.predict(other)


def test_order_of_columns_and_further_ones_do_not_matter(table):
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), table, "ill")
    shuffled = table[["dose", "ill", "sex", "age"]].assign(extra="x")
    np.testing.assert_array_equal(model.predict_proba(shuffled), model.predict_proba(table))


def test_a_missing_column_is_named_with_a_suggestion(table):
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), table, "ill")
    with pytest.raises(TableError, match=r"lacks 2 of the 3 .*'age', 'dose'.*Is 'Age' what the model calls 'age'"):
        model.predict(table.drop(columns="dose").rename(columns={"age": "Age"}))


def test_new_levels_are_told_and_have_no_effect(table):
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), table, "ill")
    with pytest.warns(DataWarning, match=r"'sex' has levels .*'x' \(120 of 120 rows\)"):
        found = model.predict_proba(table.assign(sex="x"))
    X = by_hand(table).assign(**{"sex=f": 0.0, "sex=m": 0.0})
    np.testing.assert_array_equal(found, model.model.predict_proba(X))


@pytest.fixture
def gappy(table):
    frame = table.copy()
    frame.loc[::7, "age"] = np.nan
    frame.loc[3::11, "sex"] = None
    return frame


def test_gaps_are_refused_with_what_to_do(gappy):
    with pytest.raises(TableError, match=r"missing in 27 of 120 rows: age \(18\), sex \(11\).*naive-bayes.*impute"):
        TableModel.fit(BayesianLogisticRegression(prior=PRIOR), gappy, "ill")


def test_dropping_gaps_is_fitting_to_complete_rows(gappy):
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), gappy, "ill", Choices(missing="drop"))
    whole = gappy.dropna()
    same = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), whole, "ill")
    np.testing.assert_array_equal(model.predict_proba(whole), same.predict_proba(whole))
    assert "27 of 120 rows lack a cell and were left out." in model.notes
    with pytest.raises(TableError, match="27 of 120 rows"):
        model.predict(gappy)
    found = model.predict_table(gappy)
    assert found["prediction"].isna().to_numpy().tolist() == gappy.isna().any(axis=1).tolist()
    np.testing.assert_array_equal(found["p_yes"].dropna(), model.predict_proba(whole)[:, 1])


def test_imputing_is_fitting_to_a_filled_table_and_fills_later_tables_alike(gappy):
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), gappy, "ill", Choices(missing="impute"))
    age, sex = gappy["age"].mean(), gappy["sex"].mode()[0]
    filled = gappy.fillna({"age": age, "sex": sex})
    same = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), filled, "ill")
    np.testing.assert_allclose(model.predict_proba(gappy), same.predict_proba(filled), rtol=1e-12)
    one = pd.DataFrame({"age": [None], "sex": [None], "dose": ["low"]})
    expected = same.predict_proba(pd.DataFrame({"age": [age], "sex": [sex], "dose": ["low"]}))
    np.testing.assert_allclose(model.predict_proba(one), expected, rtol=1e-12)


def test_models_of_the_columns_take_gaps_and_categories_as_they_are(gappy):
    model = TableModel.fit(NaiveBayes(features={"age": "gaussian"}), gappy, "ill")
    assert model.design.names == ("age", "sex", "dose")
    plain = NaiveBayes(features={"age": "gaussian"}).fit(gappy[["age", "sex", "dose"]], gappy["ill"].to_numpy())
    np.testing.assert_array_equal(model.predict_proba(gappy), plain.predict_proba(gappy[["age", "sex", "dose"]]))
    assert model.predict_table(gappy).notna().all(axis=None)
    gaussian = TableModel.fit(LinearDiscriminant(), gappy, "ill")
    assert gaussian.predict_table(gappy).notna().all(axis=None)


def test_predictions_as_a_table(table):
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), table, "ill")
    found = model.predict_table(table.iloc[::-1], level=0.5)
    assert list(found.columns) == ["prediction", "p_no", "p_yes", "lower", "upper"]
    assert found.index.tolist() == table.index[::-1].tolist()
    np.testing.assert_array_equal(found["prediction"], model.predict(table.iloc[::-1]))
    np.testing.assert_array_equal(found[["lower", "upper"]], model.predict_interval(table.iloc[::-1], 0.5))
    assert list(model.predict_table(table, level=None).columns) == ["prediction", "p_no", "p_yes"]


def test_three_classes_have_an_interval_each(table):
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), table, "dose", Choices(features=["age", "sex"]))
    found = model.predict_table(table, level=0.8)
    expected = [f"{side}_{label}" for label in ("high", "low", "none") for side in ("lower", "upper")]
    assert list(found.columns) == ["prediction", "p_high", "p_low", "p_none", *expected]
    interval = model.predict_interval(table, 0.8)
    np.testing.assert_array_equal(found["lower_low"], interval[:, 1, 0])
    np.testing.assert_array_equal(found["upper_none"], interval[:, 2, 1])


def test_rows_without_a_label_are_left_out_and_told(table):
    table.loc[:4, "ill"] = None
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), table, "ill")
    assert "5 of 120 rows have no value of the target 'ill'" in model.notes[0]
    same = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), table[5:], "ill")
    np.testing.assert_array_equal(model.predict_proba(table), same.predict_proba(table))


def test_certificate_of_the_rows_it_was_fitted_on(gappy):
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), gappy, "ill", Choices(missing="drop"))
    assert model.certify(gappy).reliable
    with pytest.raises(NotDefinedError, match="no certificate"):
        TableModel.fit(LinearDiscriminant(), gappy, "ill").certify(gappy)


def test_the_estimator_is_left_alone(table):
    estimator = BayesianLogisticRegression(prior=PRIOR)
    TableModel.fit(estimator, table, "ill")
    assert not hasattr(estimator, "posterior_")


def test_comparison_gives_every_model_its_own_columns(gappy):
    models = {
        "line": BayesianLogisticRegression(prior=PRIOR),
        "bayes": NaiveBayes(features={"age": "gaussian"}),
        "curve": GaussianProcessClassifier(optimize=False),
    }
    found = compare_table(models, gappy, "ill", Choices(missing="drop"), by="loo")
    assert set(found.models) == set(models)
    assert found.models["bayes"].design.encoding == "as they are"
    assert found.models["line"].design.encoding == "indicators"
    alone = TableModel.fit(models["line"], gappy, "ill", Choices(missing="drop"))
    whole = gappy.dropna()
    np.testing.assert_array_equal(found.models["line"].predict_proba(whole), alone.predict_proba(whole))
    assert found.best is found.models[found.comparison.best_]
    frame = found.comparison.to_frame()
    assert frame["error"].isna().all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([None] * 6, "has no values"),
        (["a"] * 6, r"is constant \(a in all 6 rows"),
        ([1.5, 2.5, 3.5, 4.5, 5.5, 6.5], "different in every row"),
        (["a", "b", "c", "d", "e", "f"], "different in every row"),
        (pd.date_range("2020-01-01", periods=3).repeat(2), "holds dates"),
    ],
    ids=["empty", "constant", "measurement", "names", "dates"],
)
def test_targets_that_are_none(values, message):
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4, 5, 7], "y": values})
    with pytest.raises(TableError, match=message):
        TableModel.fit(BayesianLogisticRegression(), frame, "y")


def test_a_measured_target_is_recognised():
    x = np.arange(200.0)
    with pytest.raises(TableError, match=r"takes 100 different numbers .*looks like a measurement"):
        TableModel.fit(BayesianLogisticRegression(), pd.DataFrame({"x": x, "y": x % 100 + 0.5}), "y")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0.0, 1.0, None, 1.0, 0.0, 1.0], [0, 1]),
        ([True, False, True, True, False, None], [False, True]),
        ([0.5, 1.5, 0.5, 1.5, 0.5, None], ["0.5", "1.5"]),
        (["b", "a", "b", "a", "b", None], ["a", "b"]),
    ],
    ids=["whole numbers", "booleans", "fractions", "text"],
)
def test_labels_are_booleans_whole_numbers_or_text(labels, expected):
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4, 5, 7], "y": pd.Series(labels, dtype=object)})
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), frame, "y")
    assert model.classes_.tolist() == expected
    assert [type(label) for label in model.classes_.tolist()] == [type(label) for label in expected]


def test_a_design_is_plain_data(table):
    design = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), table, "ill").design
    assert isinstance(design, ColumnsDesign)
    assert eval(repr(design), {"ColumnsDesign": ColumnsDesign, "Column": type(design.columns[0])}) == design


def test_a_single_row_with_a_missing_flag_is_left_empty(table):
    table["smokes"] = table["age"] > 50
    model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), table, "ill")
    row = pd.DataFrame({"age": [40.0], "sex": ["f"], "dose": ["low"], "smokes": [None]})
    assert model.predict_table(row).isna().all(axis=None)


def test_levels_that_only_incomplete_rows_have_are_dropped_with_them(gappy):
    gappy.loc[gappy["age"].isna(), "dose"] = "only there"
    for choices in (Choices(missing="drop"), Choices(missing="drop", formula="ill ~ age + sex + dose")):
        model = TableModel.fit(BayesianLogisticRegression(prior=None), gappy, "ill", choices)
        assert model.design.names == ("age", "sex=m", "dose=low", "dose=none")


def test_a_formula_names_the_target_or_the_caller_does(table):
    estimator = BayesianLogisticRegression(prior=PRIOR)
    one = TableModel.fit(estimator, table, None, Choices(formula="ill ~ age + sex + dose"))
    other = TableModel.fit(estimator, table, "ill", Choices(formula="~ age + sex + dose"))
    plain = TableModel.fit(estimator, table, "ill")
    for model in (one, other):
        assert model.design.names == plain.design.names
        np.testing.assert_array_equal(model.predict_proba(table), plain.predict_proba(table))
    assert BayesianLogisticRegression.from_formula("ill ~ 0 + age", table, prior=PRIOR).model.intercept_ == 0.0
    with pytest.raises(TableError, match="names no target"):
        TableModel.fit(estimator, table, None, Choices(formula="~ age"))
    with pytest.raises(TableError, match="'ill', but 'sex' was named"):
        TableModel.fit(estimator, table, "sex", Choices(formula="ill ~ age"))
    with pytest.raises(TableError, match="leave features and exclude out"):
        TableModel.fit(estimator, table, "ill", Choices(formula="ill ~ age", features=["age"]))


def test_levels_of_an_ordered_category_keep_its_order_by_every_door(table):
    table["dose"] = pd.Categorical(table["dose"], ["none", "low", "high"], ordered=True)
    columns = TableModel.fit(BayesianLogisticRegression(prior=None), table, "ill")
    formula = BayesianLogisticRegression.from_formula("ill ~ age + sex + dose", table, prior=None)
    assert columns.design.names == formula.design.names == ("age", "sex=m", "dose=low", "dose=high")


def test_jeffreys_prior_needs_a_reference_level(table):
    model = TableModel.fit(BayesianLogisticRegression(prior=Jeffreys()), table, "ill")
    assert model.design.encoding == "reference"


def test_what_was_dropped_in_training_is_dropped_in_a_certificate_or_report(gappy):
    model = TableModel.fit(LinearDiscriminant(), gappy, "ill", Choices(missing="drop"))
    assert len(model.training_rows(gappy).y) == len(gappy.dropna())
    assert len(TableModel.fit(LinearDiscriminant(), gappy, "ill").training_rows(gappy).y) == len(gappy)


def test_a_model_that_shrinks_takes_no_gaps(gappy):
    shrinking = LinearDiscriminant(shrinkage="ledoit_wolf")
    with pytest.raises(TableError, match="needs every cell"):
        TableModel.fit(shrinking, gappy, "ill")
    TableModel.fit(shrinking, gappy, "ill", Choices(missing="impute"))


def test_the_fingerprint_of_the_training_table_is_found_again(gappy):
    for choices in (Choices(missing="drop"), Choices(missing="impute")):
        model = TableModel.fit(BayesianLogisticRegression(prior=PRIOR), gappy, "ill", choices)
        assert fingerprint_of(model, gappy) == model.data
        assert fingerprint_of(model, gappy[10:]) != model.data
