"""The tables that came with the task are read with sensible types."""

import re

import pandas as pd
import pytest
from pandas.api import types

from credibly.cli.reading import columns_of, read_batches, read_table
from credibly.errors import TableError
from helpers import SHARED, needs_shared

pytestmark = needs_shared

FOLDER = SHARED / "data"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.csv*")) if FOLDER.is_dir() else []
ONE_COLUMN = [name for name in FILES if name.endswith("_split1.csv.gz")]


@pytest.mark.parametrize("name", [name for name in FILES if name not in ONE_COLUMN])
def test_a_table_is_what_pandas_reads_too(name):
    """Pandas takes 'None' for a missing cell, which is a level in some of these; nothing else differs."""
    frame, notes = read_table(FOLDER / name)
    other = pd.read_csv(FOLDER / name, na_values=["?"], keep_default_na=False).replace({"NA": None})
    assert list(frame) == list(other) == columns_of(FOLDER / name) and len(frame) == len(other)
    for column in frame:
        numbers = pd.to_numeric(other[column], errors="coerce")
        if types.is_numeric_dtype(frame[column].dtype):
            pd.testing.assert_series_equal(frame[column], numbers, check_dtype=False)
        else:
            assert numbers[other[column].notna()].isna().any(), f"{column} holds numbers"
            stripped = other[column].astype(object).map(str.strip, na_action="ignore")
            assert (frame[column].astype(object).fillna("") == stripped.fillna("")).all()
    assert all(re.match("These cells count|Column '(ptl|ftv)' has 'None'|Spaces around cells", note) for note in notes)


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_a_single_column_is_read_when_it_is_named(name):
    with pytest.raises(TableError, match="has one column only"):
        read_table(FOLDER / name)
    (column,) = columns_of(FOLDER / name)
    assert (read_table(FOLDER / name, columns=[column]).frame[column] == pd.read_csv(FOLDER / name)[column]).all()


def test_the_parquet_table_is_what_pandas_reads_too():
    path = FOLDER / "nycflights13.parquet"
    frame, notes = read_table(path)
    other = pd.read_parquet(path)
    assert list(frame) == list(other) and notes == ()
    for column in frame:
        if types.is_numeric_dtype(frame[column].dtype):
            pd.testing.assert_series_equal(frame[column], other[column])
        else:
            assert (frame[column].astype(str) == other[column].astype(str)).all()
    batches = pd.concat([batch["distance"] for batch in read_batches(path, columns=["distance"])])
    assert (batches == other["distance"]).all()
