"""What a formula asks for is what the model gets: names, cells, levels, gaps, and errors that help."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from credibly.errors import DataWarning, TableError
from credibly.tables.formula import MOST_COLUMNS, FormulaDesign, target_of

ROWS = 240


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "y": rng.integers(0, 2, ROWS),
            "age": rng.normal(40, 10, ROWS),
            "dose": rng.uniform(1, 5, ROWS),
            "sex": rng.choice(["female", "male"], ROWS),
            "race": rng.integers(1, 4, ROWS),
            "site": pd.Categorical(rng.choice(list("xyz"), ROWS), categories=["z", "y", "x", "w"]),
            "smokes": rng.choice([True, False], ROWS),
            "blood pressure": rng.normal(100, 10, ROWS),
            "Sepal.Length": rng.normal(5, 1, ROWS),
            "µg": rng.uniform(1, 2, ROWS),
        },
        index=[f"row {i}" for i in range(ROWS)],
    )


def names(formula: str, table: pd.DataFrame, *, reference: bool = False) -> list[str]:
    return list(FormulaDesign.of(formula, table, reference=reference).names)


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("y ~ age", ["age"]),
        ("y ~ C(sex)", ["sex=female", "sex=male"]),
        ("y ~ sex", ["sex=female", "sex=male"]),
        ("y ~ sex + C(sex)", ["sex=female", "sex=male"]),
        ("y ~ C(race)", ["race=1", "race=2", "race=3"]),
        ("y ~ race", ["race"]),
        ("y ~ site", ["site=z", "site=y", "site=x"]),  # in the order of the type, without the level that nobody has
        ("y ~ smokes", ["smokes"]),
        ("y ~ C(smokes)", ["smokes=False", "smokes=True"]),
        ("y ~ poly(dose,2)", ["poly(dose, 2)[1]", "poly(dose, 2)[2]"]),
        ("y ~ age:dose", ["age:dose"]),
        ("y ~ sex:age", ["sex=female:age", "sex=male:age"]),
        ("y ~ `blood pressure`:log(`Sepal.Length`)", ["blood pressure:log(`Sepal.Length`)"]),
        ("y ~ Sepal.Length + µg + log(`µg`)", ["Sepal.Length", "µg", "log(`µg`)"]),
        ("y ~ I( age**2 ) + I(sex=='male')", ["I(age ** 2)", "I(sex == 'male')"]),
        ("y ~ C(age>40)", ["C(age > 40)=0", "C(age > 40)=1"]),
        ("y ~ age*1 + dose/1 + 1:race", ["age", "dose", "race"]),
        ("y ~ age:dose + dose + age", ["dose", "age", "age:dose"]),  # short terms first
        ("y ~ age*dose - dose", ["age", "age:dose"]),
        ("y ~ (age + dose + race)**2 - age:race", ["age", "dose", "race", "age:dose", "dose:race"]),
        ("y ~ race/age", ["race", "race:age"]),
        ("y ~ bs(age, df=4)", [f"bs(age, df=4)[{j}]" for j in (1, 2, 3, 4)]),
        ("y ~ ns(age, 3)", [f"ns(age, 3)[{j}]" for j in (1, 2, 3)]),
        ("y ~ site:sex", [f"site={i}:sex={j}" for j in ("female", "male") for i in "zyx"]),
        ("y ~ . - site - C(sex)", ["age", "dose", "race", "smokes", "blood pressure", "Sepal.Length", "µg"]),
    ],
)
def test_columns_are_named_after_what_they_hold(table, formula, expected):
    assert names(formula, table) == expected


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("~ sex", ["sex=male"]),
        ("~ 0 + sex", ["sex=female", "sex=male"]),
        ("~ sex - 1", ["sex=female", "sex=male"]),
        ("~ C(sex, reference='male')", ["sex=female"]),
        ("~ C(race, reference=2)", ["race=1", "race=3"]),
        ("~ sex*age", ["sex=male", "age", "sex=male:age"]),
        ("~ sex:age", ["sex=female:age", "sex=male:age"]),
        ("~ age + sex:age", ["age", "sex=male:age"]),
        ("~ 0 + sex + site", ["sex=female", "sex=male", "site=y", "site=x"]),
        ("~ sex + sex:site", ["sex=male", *(f"sex={i}:site={j}" for j in "yx" for i in ("female", "male"))]),
        ("~ sex:site", ["site=y", "site=x", *(f"sex=male:site={i}" for i in "zyx")]),
    ],
)
def test_a_reference_level_is_left_out_exactly_where_columns_would_repeat(table, formula, expected):
    assert names(formula, table, reference=True) == expected


@pytest.mark.parametrize(
    "formula",
    [
        "~ sex", "~ 0 + sex + site", "~ sex*site*C(race)", "~ sex:site:age", "~ site/sex + poly(age, 2):sex",
        "~ 0 + sex:site + sex:age", "~ (sex + site + age)**3 - sex", "~ site*ns(age, 3)", "~ bs(age, 5) + C(race):dose",
    ],
)  # fmt: skip
def test_without_a_level_columns_are_independent_and_span_what_all_levels_span(table, formula):
    def with_intercept(design: FormulaDesign) -> np.ndarray:
        X = design.matrix(table).to_numpy()
        return np.column_stack([np.ones(ROWS), X]) if design.has_intercept else X

    every, fewer = (with_intercept(FormulaDesign.of(formula, table, reference=it)) for it in (False, True))
    rank = np.linalg.matrix_rank(fewer)
    assert rank == fewer.shape[1]
    assert np.linalg.matrix_rank(every) == rank == np.linalg.matrix_rank(np.column_stack([every, fewer]))


@pytest.mark.parametrize(("formula", "expected"), [("~ age", True), ("~ 0 + age", False), ("~ age - 1", False),
                                                   ("~ 1 + age", True), ("~ age + 0 + 1", True)])  # fmt: skip
def test_the_intercept_is_told_and_never_a_column(table, formula, expected):
    design = FormulaDesign.of(formula, table)
    assert design.has_intercept is expected
    assert design.names == ("age",)


@pytest.mark.parametrize(
    ("formula", "target"), [("y ~ age", "y"), ("~age", None), ("`blood pressure` ~ age", "blood pressure")]
)
def test_the_target_is_the_left_hand_side(table, formula, target):
    assert FormulaDesign.of(formula, table).target == target


def test_sources_are_the_columns_of_the_right_hand_side(table):
    design = FormulaDesign.of("y ~ poly(log(dose), 2)*sex + I(age/race) + C(sex):age", table)
    assert design.sources == ("dose", "sex", "age", "race")
    FormulaDesign.of("y ~ age", table).matrix(table[["age"]])  # the target is not asked for


# --- cells ------------------------------------------------------------------------------------------------------------


def test_cells_are_what_the_expressions_say(table):
    design = FormulaDesign.of(
        "~ I(age**2 % 7) + log(dose) + I(-age + dose*2) + center(age) + scale(age) + I(20 < age <= 40)"
        " + I(sex != 'male') + smokes + sqrt(abs(age)) + age:sex + I(center(age)**2)",
        table,
    )
    age, dose, male = table["age"], table["dose"], table["sex"] == "male"
    expected = {
        "I(age ** 2 % 7)": age**2 % 7,
        "log(dose)": np.log(dose),
        "I(-age + dose * 2)": -age + dose * 2,
        "center(age)": age - age.mean(),
        "scale(age)": (age - age.mean()) / age.std(),
        "I(20 < age <= 40)": (age > 20) & (age <= 40),
        "I(sex != 'male')": ~male,
        "smokes": table["smokes"],
        "sqrt(abs(age))": np.sqrt(np.abs(age)),
        "I(center(age) ** 2)": (age - age.mean()) ** 2,
        "age:sex=female": age * ~male,
        "age:sex=male": age * male,
    }
    X = design.matrix(table)
    assert list(X.columns) == list(expected)
    assert (X.dtypes == np.float64).all()
    assert X.index.equals(table.index)
    np.testing.assert_allclose(X, pd.DataFrame(expected).astype(float), rtol=1e-14, atol=1e-13)


EVERYTHING = (
    "y ~ poly(dose, 3)*sex + bs(age, df=5) + ns(log(dose), 4) + scale(age):C(race) + exp(age/50) + I(dose**1.5)"
    " + log1p(dose) + site + log10(dose) + expm1(dose) + log2(dose) + sqrt(dose)"
)


@pytest.mark.parametrize("reference", [False, True])
def test_a_row_has_the_same_cells_to_the_last_bit_whatever_rows_come_with_it(table, reference):
    design = FormulaDesign.of(EVERYTHING, table, reference=reference)
    X = design.matrix(table)
    alone = pd.concat([design.matrix(table.iloc[[i]]) for i in range(ROWS)])
    assert_array_equal(alone, X)
    assert_array_equal(design.matrix(table.iloc[::-3]), X.iloc[::-3])
    many = design.matrix(pd.concat([table] * 40))
    assert_array_equal(many, pd.concat([X] * 40))


def test_a_design_is_plain_data_and_rebuilt_from_it_does_the_same(table):
    def plain(value: object) -> bool:
        return all(map(plain, value)) if isinstance(value, tuple) else type(value) in (str, float, bool, type(None))

    design = FormulaDesign.of(EVERYTHING, table, reference=True)
    assert plain(tuple(vars(design).values()))
    again = FormulaDesign(**vars(design))
    assert again == design
    assert_array_equal(again.matrix(table), design.matrix(table))
    assert hash(again) == hash(design)


def test_new_tables_are_measured_by_the_training_table(table):
    design = FormulaDesign.of("~ center(age) + poly(dose, 2) + sex", table)
    new = pd.DataFrame({"sex": ["male"], "dose": [100.0], "age": [table["age"].mean() + 3], "other": ["x"]})
    row = design.matrix(new).iloc[0]
    assert row["center(age)"] == pytest.approx(3.0, rel=1e-12)
    assert (row["sex=female"], row["sex=male"]) == (0.0, 1.0)
    assert row["poly(dose, 2)[1]"] > 1  # of unit length on the training table, so no cell of it can be that large


def test_no_rows_give_no_rows(table):
    design = FormulaDesign.of("~ poly(dose, 2) + sex + bs(age, 4) + ns(age, 2)", table)
    assert design.matrix(table.iloc[:0]).shape == (0, 2 + 2 + 4 + 2)


# --- gaps -------------------------------------------------------------------------------------------------------------


def test_missing_cells_are_missing_in_the_columns_they_touch_and_nowhere_else(table):
    gappy = table.copy()
    gappy.loc["row 3", "dose"] = np.nan
    gappy.loc["row 5", "sex"] = None
    design = FormulaDesign.of(
        "~ age + poly(dose, 2) + sex + I(dose**0) + I(dose > 2) + I(sex == 'male') + ns(dose, 2)", gappy
    )
    X = design.matrix(gappy)
    by_dose = [name for name in X.columns if "dose" in name]
    by_sex = [name for name in X.columns if "sex" in name]
    expected = pd.DataFrame(False, index=X.index, columns=X.columns)
    expected.loc["row 3", by_dose] = True
    expected.loc["row 5", by_sex] = True
    assert_array_equal(X.isna(), expected)
    assert_array_equal(design.missing(gappy), X.index.isin(["row 3", "row 5"]))


def test_what_is_learnt_comes_from_the_cells_that_are_there(table):
    gappy = table.copy()
    gappy.loc["row 3":"row 20", ["dose", "age"]] = np.nan
    formula = "~ poly(dose, 2) + bs(age, 5) + scale(age) + sex"
    part = gappy.dropna()
    assert_array_equal(FormulaDesign.of(formula, gappy).matrix(part), FormulaDesign.of(formula, part).matrix(part))


# --- levels and kinds -------------------------------------------------------------------------------------------------


def test_new_levels_are_told_and_belong_to_no_indicator(table):
    design = FormulaDesign.of("~ sex*age", table)
    new = table.iloc[:3].assign(sex=["male", "other", "unknown"])
    with pytest.warns(DataWarning, match=r"Column 'sex' .* 'other', 'unknown' \(2 of 3 rows\)") as told:
        X = design.matrix(new)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert_array_equal(X[["sex=female", "sex=male"]], [[0, 1], [0, 0], [0, 0]])
    assert_array_equal(X["sex=male:age"], [new["age"].iloc[0], 0, 0])


def test_without_a_prior_new_levels_are_refused_because_zeros_would_mean_the_reference(table):
    design = FormulaDesign.of("~ sex", table, reference=True)
    with pytest.raises(TableError, match="'sex' has levels that were not in the training table: 'other'"):
        design.matrix(table.assign(sex="other"))


def test_levels_are_the_same_whether_a_file_gave_numbers_with_or_without_gaps(table):
    design = FormulaDesign.of("~ C(race)", table.assign(race=table["race"].where(table["age"] > 30)))  # now floats
    assert design.names == ("race=1", "race=2", "race=3")
    with warnings.catch_warnings(action="error"):
        X = design.matrix(table)
    assert_array_equal(X["race=2"], table["race"] == 2)


def test_levels_that_are_numbers_are_in_the_order_of_numbers(table):
    assert names("~ C(n)", table.assign(n=np.arange(ROWS) % 12)) == [f"n={i}" for i in range(12)]


def test_a_column_of_numbers_that_holds_text_now_is_refused(table):
    design = FormulaDesign.of("~ age + sex", table)
    bad = table.astype({"age": object})
    bad.loc["row 4", "age"] = "forty"
    with pytest.raises(TableError, match=r"'age' .*row 5: 'forty'"):
        design.matrix(bad)


def test_columns_that_are_missing_are_named(table):
    design = FormulaDesign.of("~ age + sex + dose", table)
    with pytest.raises(TableError, match=r"lacks 2 of the 3 columns .*'sex', 'dose'.* Is 'Dose' what"):
        design.matrix(table[["age"]].assign(Dose=1.0))


def test_values_outside_the_knots_of_b_splines_are_told_and_natural_splines_go_on_straight(table):
    far = table.iloc[:3].assign(age=[200.0, 300.0, 400.0])
    with pytest.warns(DataWarning, match=r"bs\(age, df=4\) in the formula: 3 of 3 values are outside"):
        FormulaDesign.of("~ bs(age, df=4)", table).matrix(far)
    X = FormulaDesign.of("~ ns(age, 4)", table).matrix(far).to_numpy()
    np.testing.assert_allclose(X[2] - X[1], X[1] - X[0], rtol=1e-10)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("y ~ agee", "'agee', and the table has no such column. Did you mean age"),
        ("y ~ blood pressure", "Did you mean `blood pressure`"),
        ("y ~ Age", "Did you mean age"),
        ("ages ~ dose", "Did you mean age"),
        ("y ~ log(Sepal.Length)", "stands in backticks"),
        ("y ~ age dose", "Missing operator between `age` and `dose`"),
        ("y ~ age +", "cannot be read"),
        ("y ~ (age", "cannot be read"),
        ("y ~ log(age", "never closed"),
        ("y age", "one tilde"),
        ("y ~ age ~ dose", "one tilde"),
        ("log(y) ~ age", "name of one column; got 'log\\(y\\)'"),
        ("y + dose ~ age", "name of one column"),
        ("y ~ y + age", "both sides"),
        ("y ~ 1", "no column to learn from"),
        ("y ~", "no column to learn from"),
        ("y ~ age + age**2", "I\\(a\\*\\*2\\)"),  # R and formulaic silently make it: age
        ("y ~ age > 40", "comparison into I"),
        ("y ~ age + 2", "0, 1 or an exponent"),
        ("y ~ log(sex)", "'sex' holds text"),
        ("y ~ I(sex == 1)", "'sex' holds text"),
        ("y ~ I(age == 'old')", "only a column of text"),
        ("y ~ I(sex < 'm')", "only a column of text"),
        ("y ~ I('a' * 3)", "is text"),
        ("y ~ log(age - 100)", r"log\(age - 100\) .* in 240 of 240 rows; the first is row 1, where age = "),
        ("y ~ poly(log(age - 100), 2)", r"log\(age - 100\) .* no finite number"),
        ("y ~ I(1 / (race - 2))", "no finite number"),
        ("y ~ I(2 * 3)", "names no column"),
        ("y ~ I(poly(age, 2)**2)", "several columns"),
        ("y ~ C(poly(age, 2))", "several columns"),
        ("y ~ log(C(sex))", "category"),
        ("y ~ C(sex, reference='x')", "'x' is no level; there are female, male"),
        ("y ~ C(sex, reference='male') + C(sex):age", "same way everywhere"),
        ("y ~ C(sex, Treatment('male'))", 'C\\(column, reference="level"\\)'),
        ("y ~ C(sex, contr.treatment('male'))", 'C\\(column, reference="level"\\)'),
        ("y ~ np.log(age)", "without np. in front"),
        ("y ~ loq(age)", "perhaps log is meant"),
        ("y ~ log(age, 2)", "one column or expression"),
        ("y ~ poly(age)", "lacks an option"),
        ("y ~ poly(age, 2, deg=3)", "takes a column, then degree, raw"),
        ("y ~ poly(age, 2.5)", "whole number from 1 to 10"),
        ("y ~ poly(age, race)", "written out as numbers"),
        ("y ~ poly(race, 3)", "4 different values are needed; the table has 3"),
        ("y ~ bs(race, 8)", "coincide"),
        ("y ~ bs(age, df=4, knots=[30])", "not both"),
        ("y ~ ns(age, knots=[1000])", "lie between"),
        ("y ~ scale(one)", "2 different values"),
        ("y ~ C(one)", "one level only"),
        ("y ~ nothing", "'nothing' has no values"),
        ("y ~ day", "dates"),
        ("y ~ I(age) + I(age,)", None),
    ],
)  # fmt: skip
def test_errors_say_what_to_change(table, formula, says):
    table = table.assign(one=1.0, nothing=np.nan, day=pd.Timestamp("2020-01-01"))
    if says is None:
        assert names(formula, table) == ["I(age)"]
        return
    with pytest.raises(TableError, match=says):
        FormulaDesign.of(formula, table)


def test_a_table_is_a_table(table):
    with pytest.raises(TableError, match="pandas DataFrame; got ndarray"):
        FormulaDesign.of("~ a", np.ones((3, 2)))
    with pytest.raises(TableError, match="more than once: age"):
        FormulaDesign.of("~ age", pd.concat([table, table[["age"]]], axis=1))
    with pytest.raises(TableError, match="A formula is text"):
        FormulaDesign.of(["age"], table)


def test_too_many_columns_are_refused_before_they_are_made():
    n = 300
    wide = pd.DataFrame({"a": [f"{i}" for i in range(n)], "b": [f"{i}" for i in range(n)], "c": np.arange(n)})
    with pytest.raises(TableError, match=rf"gives 90600 columns, more than {MOST_COLUMNS}; C\(a\) alone has 300"):
        FormulaDesign.of("~ a*b", wide)


def test_a_dot_stands_for_all_other_columns_and_a_wide_table_is_no_trouble():
    wide = pd.DataFrame(np.ones((2, 1500)) * [[0.0], [1.0]], columns=[f"x{i}" for i in range(1500)])
    assert len(names("x0 ~ .", wide)) == 1499


# --- without formulaic ------------------------------------------------------------------------------------------------


def test_formulaic_is_needed_to_read_a_formula_and_not_to_apply_one(table, monkeypatch):
    design = FormulaDesign.of(EVERYTHING, table)
    X = design.matrix(table)
    for name in [name for name in sys.modules if name.partition(".")[0] == "formulaic"]:
        monkeypatch.setitem(sys.modules, name, None)  # an import is now an ImportError
    assert_array_equal(design.matrix(table), X)
    with pytest.raises(TableError, match=r"pip install 'credibly\[formula\]'"):
        FormulaDesign.of("y ~ age", table)


def test_the_target_is_known_without_a_table():
    assert target_of("`blood pressure` ~ age + log(dose)") == "blood pressure"
    assert target_of("~ age") is None
    with pytest.raises(TableError, match="one tilde"):
        target_of("age")
