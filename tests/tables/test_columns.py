"""Which columns are used, as what, and what is said of the others."""

import numpy as np
import pandas as pd
import pytest

from credibly.errors import TableError
from credibly.tables.columns import Column, cells, choose, numbers

N = 40


def table(**columns):
    return pd.DataFrame({"y": ["a", "b"] * (N // 2), **columns})


def kinds(frame, **options):
    used = choose(frame, "y", options.get("features"), options.get("exclude", ()))
    return {column.name: column.kind for column in used.columns}, used.dropped


def test_numbers_flags_and_categories_are_told_apart():
    frame = table(
        age=np.linspace(20, 60, N),
        count=[1, 2, 3, 4] * 10,
        ill=[True, False] * (N // 2),
        sex=["f", "m"] * (N // 2),
        typed=pd.Categorical([1, 2, 3, 2] * 10),
        gappy=pd.array([1, None] * (N // 2), dtype="Int64"),
        more=[1.5, 2.5, np.nan, 4.5] * 10,
    )
    frame["gappy"] = pd.array([1, None, 3, 4] * 10, dtype="Int64")
    found, dropped = kinds(frame)
    assert found == {
        "age": "number",
        "count": "number",
        "ill": "flag",
        "sex": "category",
        "typed": "category",
        "gappy": "number",
        "more": "number",
    }
    assert dropped == {}


def test_levels_are_text_in_order_and_whole_numbers_have_no_point():
    used = choose(table(c=pd.Categorical([3.0, 1.0, 2.0, 10.0] * 10)), "y", None, ())
    assert used.columns[0].levels == ("1", "2", "3", "10")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([np.nan] * N, "has no values"),
        ([3.0] * N, "is constant (3 in every row"),
        (["x"] * N, "is constant (x in every row"),
        (list(range(1, N + 1)), "identifier or a row number"),
        ([f"text {i}" for i in range(N)], "identifier or free text (40 different values;"),
    ],
    ids=["empty", "constant", "constant text", "row number", "free text"],
)
def test_useless_columns_are_left_out_with_the_reason(values, reason):
    found, dropped = kinds(table(x=np.arange(N) * 0.37, bad=values))
    assert found == {"x": "number"}
    assert reason in dropped["bad"]


def test_numbers_that_differ_everywhere_are_no_identifier_without_a_name_that_says_so():
    values = (np.arange(N) * 7919) % 10007
    assert kinds(table(weight=values))[0] == {"weight": "number"}
    for name in ("id", "patient_id", "Id", "row"):
        assert name in kinds(table(x=np.arange(N) * 0.37, **{name: values}))[1]
    assert kinds(table(humid=values, paid=values))[1] == {}


def test_a_column_that_is_asked_for_stays():
    found, dropped = kinds(table(id=range(N), x=np.arange(N) * 0.1), features=["id"])
    assert found == {"id": "number"}
    assert dropped == {}


def test_many_levels_are_left_out_unless_asked_for():
    frame = pd.DataFrame({"y": ["a", "b"] * 100, "x": np.arange(200) * 0.1, "town": [f"t{i % 70}" for i in range(200)]})
    assert "70 levels" in kinds(frame)[1]["town"]
    assert kinds(frame, features=["town"])[0] == {"town": "category"}


@pytest.mark.parametrize(
    "values",
    [
        pd.date_range("2020-01-01", periods=N),
        [f"2020-01-{i % 28 + 1:02d}" for i in range(N)],
        [f"{i % 28 + 1}/3/2021" for i in range(N)],
        pd.period_range("2020-01", periods=N, freq="M"),
        pd.to_timedelta(np.arange(N), unit="D"),
    ],
    ids=["dates", "text", "text with slashes", "periods", "spans"],
)
def test_dates_are_refused_with_advice(values):
    with pytest.raises(TableError, match=r"'when' holds dates .*--exclude"):
        kinds(table(when=values, x=np.arange(N) * 0.1))
    assert kinds(table(when=values, x=np.arange(N) * 0.1), exclude=["when"])[0] == {"x": "number"}


def test_wrong_names_get_a_suggestion():
    frame = table(glucose=np.arange(N) * 0.3)
    with pytest.raises(TableError, match=r"no column 'glucos'\. Did you mean 'glucose'"):
        kinds(frame, features=["glucos"])
    with pytest.raises(TableError, match=r"no column 'zzz'\. It has y, glucose"):
        kinds(frame, exclude=["zzz"])
    with pytest.raises(TableError, match="is the target"):
        kinds(frame, features=["y", "glucose"])
    with pytest.raises(TableError, match="No column is left"):
        kinds(frame, exclude=["glucose"])


def test_names_are_strings_and_differ():
    doubled = pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"])
    with pytest.raises(TableError, match="more than once: a"):
        choose(doubled, "a", None, ())
    with pytest.raises(TableError, match="must be strings"):
        choose(pd.DataFrame(np.zeros((3, 2))), "0", None, ())


def test_cells_that_are_no_number_are_named_with_their_row():
    with pytest.raises(TableError, match=r"1 of 3 rows do not, the first is row 2: 'two'"):
        numbers(pd.Series([1, "two", 3.0], name="x"), Column("x", "number"))
    with pytest.raises(TableError, match="up to 1e"):
        numbers(pd.Series([1, np.inf], name="x"), Column("x", "number"))
    with pytest.raises(TableError, match=r"true or false .* 'perhaps'"):
        numbers(pd.Series(["true", "perhaps"], name="x"), Column("x", "flag"))


def test_numbers_as_text_and_gaps_are_read():
    out = numbers(pd.Series(["1", None, "2.5"], name="x", dtype=object), Column("x", "number"))
    assert out[0] == 1.0
    assert np.isnan(out[1])
    assert out[2] == 2.5


def test_flags_are_read_in_every_spelling():
    values = pd.Series([True, "True", "false", 1, 0.0, None], name="x", dtype=object)
    np.testing.assert_array_equal(numbers(values, Column("x", "flag")), [1, 1, 0, 1, 0, np.nan])


def test_cells_of_a_category_keep_their_gaps():
    assert cells(pd.Series([1.0, None, "b"], dtype=object)).tolist()[0] == "1"
    assert cells(pd.Series([1.0, None, "b"], dtype=object)).isna().tolist() == [False, True, False]


def test_numbers_as_people_write_them_get_a_hint():
    for cells_ in ([f"{i},5" for i in range(N)], [f"{i}%" for i in range(N)], [f"1,{i:03d}" for i in range(N)]):
        assert "--decimal ," in kinds(table(x=np.arange(N) * 0.37, odd=cells_))[1]["odd"]
