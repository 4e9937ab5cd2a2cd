import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from credibly.errors import InputError
from credibly.plots.rows import Rows

FRAME = pd.DataFrame(
    {
        "age": [20, 30, 70, 40],
        "sex": pd.Categorical(["f", "m", "m", None]),
        "smoker": [True, False, True, True],
        "code": ["1", "2", "2", "3"],
        "dose": pd.array([1.5, None, 2.5, 9.0], dtype="Float64"),
        7: [0.0, 0.0, 1.0, np.nan],
    }
)


def test_a_typical_row_has_medians_and_what_is_most_frequent():
    typical = Rows.of(FRAME).typical(2)
    assert list(typical.columns) == list(FRAME.columns)
    assert typical.iloc[1].tolist() == [35.0, "m", True, "2", 2.5, 0.0]
    kept = ["sex", "smoker", "code"]
    assert (typical.dtypes[kept] == FRAME.dtypes[kept]).all()


def test_columns_of_words_and_pairs_have_levels():
    rows = Rows.of(FRAME)
    found = [rows.levels(j) for j in range(6)]
    assert [None if it is None else it.names for it in found] == [
        None,
        ["f", "m"],
        [0.0, 1.0],
        ["1", "2", "3"],
        None,
        [0.0, 1.0],
    ]
    assert found[1].rows.tolist() == [0, 1] and found[5].rows.tolist() == [0, 2]
    assert rows.numbers(3) is None  # words, although they look like numbers
    assert_array_equal(rows.numbers(4), [1.5, np.nan, 2.5, 9.0])


def test_columns_are_found_by_name_first_then_by_number():
    rows = Rows.of(FRAME)
    assert [rows.find(which) for which in ("dose", 0, -1, 7)] == [4, 0, 5, 5]
    with pytest.raises(InputError, match=r"no column 'smokers'.*Did you mean 'smoker'"):
        rows.find("smokers")
    with pytest.raises(InputError, match=r"no column 6.*The columns are 'age', 'sex'"):
        rows.find(6)


def test_arrays_of_mixed_cells():
    rows = Rows.of(np.array([["a", 1.0], ["b", None], ["b", 3.0], ["b", 8.0]], dtype=object))
    assert rows.typical(1).tolist() == [["b", 3.0]]
    assert rows.levels(0).names == ["a", "b"] and rows.levels(1) is None


def test_other_frames_become_pandas_frames():
    polars = pytest.importorskip("polars")
    rows = Rows.of(polars.DataFrame({"a": [1.0, 2.0, 9.0], "b": ["x", "y", "y"]}))
    assert rows.typical(1).iloc[0].tolist() == [2.0, "y"]


def test_tables_that_are_none_are_refused():
    from scipy.sparse import csr_array

    for wrong in ([1.0, 2.0], np.empty((0, 2)), pd.Series([1.0]), "words"):
        with pytest.raises(InputError, match="X must be a table"):
            Rows.of(wrong)
    with pytest.raises(InputError, match=r"sparse.*toarray"):
        Rows.of(csr_array(np.eye(2)))
    with pytest.raises(InputError, match="'a' has no cell that is not missing"):
        Rows.of(pd.DataFrame({"a": [np.nan, np.nan]})).typical(1)
