"""What comes in as plain arrays takes a short way, which must end where scikit-learn's long one does."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils.validation import validate_data

from credibly import BayesianLogisticRegression
from credibly.errors import InputError
from credibly.estimators.validation import read_numbers, sorted_labels

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 1, 0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("labels", [bool, np.int8, np.uint64])
def test_plain_arrays_come_back_as_scikit_learn_hands_them_back(dtype, labels):
    table, y = X.astype(dtype, order="F"), Y.astype(labels)
    long, short = BayesianLogisticRegression(), BayesianLogisticRegression()
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": False}
    want = validate_data(long, table, y, **options)
    got = read_numbers(short, table, y, reset=True)
    assert got[0] is want[0] is table
    assert_array_equal(got[1], want[1])
    assert vars(short) == vars(long)
    assert read_numbers(short, table, reset=False) is table


@pytest.mark.parametrize(
    ("table", "y", "message"),
    [
        (X[:0], Y[:0], "0 sample"),
        (X[:, :0], Y, "0 feature"),
        (X[0], Y, "Expected 2D array"),
        (X, Y[:5], "inconsistent numbers of samples"),
        (X, Y[:, None] * np.ones(2, int), "y should be a 1d array"),
    ],
)
def test_what_is_wrong_is_still_said_by_scikit_learn(table, y, message):
    with pytest.raises(InputError, match=message):
        read_numbers(BayesianLogisticRegression(), table, y, reset=True)


@pytest.mark.parametrize("dtype", [int, ">f8", np.float16, object])
def test_other_types_become_numbers_as_before(dtype):
    table, y = read_numbers(BayesianLogisticRegression(), X.astype(dtype), Y, reset=True)
    assert table.dtype in (np.float64, np.float32) and table.dtype.isnative
    assert_array_equal(table, X)
    assert_array_equal(y, Y)


def test_names_of_an_earlier_fit_are_forgotten_and_columns_are_counted():
    pd = pytest.importorskip("pandas")
    model = BayesianLogisticRegression().fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    model.fit(X, Y)
    assert not hasattr(model, "feature_names_in_")
    model.predict(X)
    with pytest.raises(InputError, match="X has 1 features, but BayesianLogisticRegression is expecting 2"):
        model.predict(X[:, :1])


@pytest.mark.parametrize(
    "labels",
    [[0, 1], [1, 0, 1], [4], [-1, 1], [5, 6], [7, 3, 3, 5], [0, 999], [0, 1000], [True, False], [-3, -2, -1]],
    ids=str,
)
@pytest.mark.parametrize("dtype", [None, np.int8, np.uint8])
def test_labels_are_sorted_and_coded_as_numpy_does(labels, dtype):
    if dtype is not None and not (np.iinfo(dtype).min <= min(labels) and max(labels) <= np.iinfo(dtype).max):
        return
    y = np.array(labels, dtype=dtype)
    found, codes = sorted_labels(y)
    want, places = np.unique(y, return_inverse=True)
    assert found.dtype == want.dtype
    assert_array_equal(found, want)
    assert_array_equal(codes, places)
    assert not np.shares_memory(codes, y)
