"""A fingerprint tells tables apart by what they hold, and by nothing else."""

import numpy as np
import pandas as pd
import pytest

from credibly.cli.reading import read_table
from credibly.data.table_files import TableWriter
from credibly.tables.fingerprint import Fingerprint

FRAME = pd.DataFrame(
    {
        "age": [31, 28, 44, 28],
        "dose": [1.5, np.nan, 0.1 + 0.2, -3.0],
        "sex": ["m", "f", None, "f"],
        "flag": [True, False, True, True],
    }
)


def changed(**columns):
    return FRAME.assign(**columns)


def test_rows_and_columns_are_counted():
    print_ = Fingerprint.of(FRAME)
    assert (print_.rows, print_.columns, len(print_.sha256)) == (4, 4, 64)


def test_it_does_not_change_between_releases():
    """A golden master: a saved model must recognise its data later."""
    expected = "6388e8a48d74f454e9b1f1abd88334d28188106da3ae985b2ff9f2f86afca030"
    assert Fingerprint.of(FRAME).sha256 == expected


@pytest.mark.parametrize(
    "other",
    [
        FRAME.astype({"age": "int8"}),
        FRAME.astype({"age": float}),
        FRAME.astype({"age": "category"}),
        FRAME.astype({"dose": "Float64", "age": "Int64", "flag": "boolean", "sex": "string"}),
        FRAME.astype({"sex": "category"}),
        FRAME.astype({"sex": pd.CategoricalDtype(["unused", "m", "f"])}),
        FRAME.astype({"sex": object, "flag": object}),
        FRAME.set_axis([9, 8, 7, 6]),
    ],
)
def test_the_same_content_in_other_types_is_the_same(other):
    assert Fingerprint.of(other) == Fingerprint.of(FRAME)


@pytest.mark.parametrize(
    "other",
    [
        FRAME[::-1],
        FRAME[["dose", "age", "sex", "flag"]],
        FRAME.rename(columns={"age": "Age"}),
        FRAME.iloc[:3],
        changed(dose=[1.5, np.nan, 0.3, -3.0]),
        changed(dose=[1.5, 0.0, 0.1 + 0.2, -3.0]),
        changed(sex=["m", "f", "None", "f"]),
        changed(sex=["f", "m", None, "m"]),
        changed(flag=["True", "False", "True", "True"]),
        changed(age=["31", "28", "44", "28"]),
    ],
)
def test_other_content_is_another(other):
    assert Fingerprint.of(other) != Fingerprint.of(FRAME)


def test_texts_are_kept_apart():
    one, two = pd.DataFrame({"a": ["ab", "c"]}), pd.DataFrame({"a": ["a", "bc"]})
    assert Fingerprint.of(one) != Fingerprint.of(two)
    assert Fingerprint.of(pd.DataFrame({"ab": [1], "c": [1]})) != Fingerprint.of(pd.DataFrame({"a": [1], "bc": [1]}))


def test_numbers_that_are_equal_are_the_same_whatever_their_bits():
    zeros = [pd.DataFrame({"a": [0.0, value]}) for value in (np.nan, -np.nan)] + [pd.DataFrame({"a": [-0.0, np.nan]})]
    assert len({Fingerprint.of(frame) for frame in zeros}) == 1


def test_whole_numbers_beyond_float64_are_told_apart():
    one, two = pd.DataFrame({"id": [2**60, 1]}), pd.DataFrame({"id": [2**60 + 1, 1]})
    assert Fingerprint.of(one) != Fingerprint.of(two)


def test_dates_count_by_the_moment():
    days = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", None])})
    assert Fingerprint.of(days) == Fingerprint.of(days.astype("datetime64[ns]"))
    assert Fingerprint.of(days) != Fingerprint.of(days + pd.Timedelta("1us"))
    assert Fingerprint.of(days) != Fingerprint.of(days - pd.Timestamp("1970-01-01"))


def test_csv_and_parquet_of_the_same_table_have_the_same(tmp_path):
    for name in ("data.csv", "data.parquet"):
        with TableWriter(tmp_path / name) as table:
            table.write(FRAME)
    read = [Fingerprint.of(read_table(tmp_path / name).frame) for name in ("data.csv", "data.parquet")]
    assert read[0] == read[1] == Fingerprint.of(FRAME)


@pytest.mark.parametrize("frame", [pd.DataFrame(), pd.DataFrame({"a": []}), pd.DataFrame({"a": [None, None]})])
def test_little_is_fine(frame):
    assert Fingerprint.of(frame).columns == frame.shape[1]
