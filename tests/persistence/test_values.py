"""Every kind of value comes back as it was, and what has no place in a file is refused by its place."""

import datetime
import math
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from credibly import LinearDiscriminant, Normal, Status, load, save
from credibly.errors import InputError
from credibly.model.kernels import RBF

MODEL = LinearDiscriminant().fit([[0.0], [1.0], [2.0], [3.5]], [0, 0, 1, 1])


@pytest.fixture(scope="module")
def there_and_back(tmp_path_factory):
    """A value as an attribute of a model that is saved and loaded."""
    path = tmp_path_factory.mktemp("values") / "model.credibly"

    def save_and_load(value: Any) -> Any:
        MODEL.extra_ = value
        save(MODEL, path)
        return load(path).extra_

    return save_and_load


def same(left: Any, right: Any) -> bool:
    """Whether two values are of the same types and the same bits all through."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same([*left.items()], [*right.items()])
    if isinstance(left, np.ndarray):
        alike = left.dtype == right.dtype and left.shape == right.shape and right.flags.writeable
        order = not left.flags.forc or left.flags.fnc == right.flags.fnc
        plain = same(left.tolist(), right.tolist()) if left.dtype == object else left.tobytes() == right.tobytes()
        return bool(alike and order and plain)
    if isinstance(left, float | np.generic):
        return np.asarray(left).tobytes() == np.asarray(right).tobytes() or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


VALUES = {
    "none": None,
    "booleans": [True, False],
    "integers": [0, -1, 2**53 + 1, 10**19, -(10**400)],
    "floats": [0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan, 1 / 3],
    "text": ["", "a", "ø日本\U0001f600", '"\\\n\x00', "\ud800", "</script>"],
    "containers": [[], (), {}, set(), [1, (2, [3])], {"a": 1, 2: "b", (1, "x"): None, None: (), 0.5: []}],
    "sets": [{3, 1, 2}, {(1, 2), (1, 3)}, {None, 1, "1"}],
    "numpy scalars": [np.float64(0.1), np.float32(0.1), np.float16(3), np.int8(-3), np.uint64(2**63), np.bool_(True)],
    "numpy dates": [np.datetime64("2024-02-29T12:00", "ns"), np.timedelta64(3, "D"), np.complex128(1 + 2j)],
    "dates": [datetime.date(2024, 2, 29)],
    "pandas": [pd.Timestamp("2024-01-01T00:00:00.123456789"), pd.Interval(0.0, 1.5, "left")],
    "enumeration": Status.CONVERGED,
    "empty array": np.empty((0, 3)),
    "array of zero dimensions": np.array(1.5),
    "fortran array": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big endian array": np.arange(3, dtype=">f8"),
    "array of booleans": np.array([[True], [False]]),
    "array of text": np.array(["a", "ø日本", ""]),
    "array of bytes": np.array([b"a\x00b", b""]),
    "array of dates": np.array(["2024-01-01", "NaT"], dtype="datetime64[s]"),
    "array of fortnights": np.array([1, 2], dtype="timedelta64[14D]"),
    "NaN with a payload": np.array([0x7FF8DEADBEEF0001], dtype="u8").view("f8"),
    "array of objects": np.array([[None, "a"], [1.5, (1, 2)]], dtype=object),
    "strided array": np.arange(10.0)[::3],
    "transposed array": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_values_come_back_as_they_were(kind, there_and_back):
    assert same(VALUES[kind], there_and_back(VALUES[kind]))


KEYS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5))
NUMBERS = st.one_of(
    hnp.floating_dtypes(), hnp.integer_dtypes(), hnp.boolean_dtypes(), hnp.datetime64_dtypes(), st.just("<U3")
)
ARRAYS = hnp.arrays(NUMBERS, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
ANYTHING = st.recursive(
    st.one_of(KEYS, st.floats(), st.dates(), ARRAYS),
    lambda inside: st.one_of(
        st.lists(inside, max_size=4), st.lists(inside, max_size=3).map(tuple), st.dictionaries(KEYS, inside, max_size=4)
    ),
    max_leaves=12,
)


@given(ANYTHING)
@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_nested_values_come_back_as_they_were(there_and_back, value):
    assert same(value, there_and_back(value))


def test_objects_of_credibly_come_back(there_and_back):
    objects = [Normal(scale=np.array([1.0, 2.0])), RBF([1.0, 2.0], columns=["a", "b"])]
    back = there_and_back(objects)
    assert repr(back) == repr(objects) and [type(it) for it in back] == [Normal, RBF]


def test_text_of_numpy_comes_back_as_pythons(there_and_back):
    assert same(there_and_back([np.str_("ø")]), ["ø"])


def test_a_memory_map_comes_back_as_the_array_it_shows(tmp_path, there_and_back):
    np.save(tmp_path / "x.npy", np.arange(3.0))
    assert same(there_and_back(np.load(tmp_path / "x.npy", mmap_mode="r")), np.arange(3.0))


def test_an_array_that_is_there_twice_is_stored_once(there_and_back):
    array = np.arange(4.0)
    first, inside, (last,) = there_and_back([array, {"again": array}, (array,)])
    assert first is inside["again"] is last


def test_distributions_of_scipy_come_back(there_and_back):
    for frozen in (scipy.stats.t(4), scipy.stats.norm(loc=1.0, scale=2), scipy.stats.genlogistic(2.5, loc=-1)):
        back = there_and_back(frozen)
        assert back.logpdf(0.3) == frozen.logpdf(0.3) and (back.args, back.kwds) == (frozen.args, frozen.kwds)


# --- what is refused ---------------------------------------------------------------------------------------------


class Own(Normal):
    """A prior of a user's own."""


class Mine(Enum):
    """An enumeration of a user's own."""

    ONE = 1


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    return nested


def loop() -> list[Any]:
    values: list[Any] = [1]
    values.append(values)
    return values


REFUSED = {
    "a function": (len, "code"),
    "a lambda": (lambda x: x, "code"),
    "a class": (Normal, "code"),
    "a module": (math, "objects of credibly's own classes"),
    "a class of one's own": (Own(), "objects of credibly's own classes"),
    "an enumeration of one's own": (Mine.ONE, "objects of credibly's own classes"),
    "an object": (object(), "objects of credibly's own classes"),
    "an exact number": (Decimal("0.1"), "objects of credibly's own classes"),
    "a frame": (pd.DataFrame({"a": [1]}), "objects of credibly's own classes"),
    "a generator": (np.random.default_rng(0), "no random generators.*an integer or None"),
    "an old generator": (np.random.RandomState(0), "no random generators.*an integer or None"),
    "a masked array": (np.ma.masked_array([1.0], [True]), "arrays of type"),
    "records": (np.zeros(2, dtype=[("a", float)]), "arrays of type"),
    "a record": (np.zeros(2, dtype=[("a", float)])[0], "own classes"),
    "variable text": (np.array(["a"], dtype=np.dtypes.StringDType()), "arrays of type StringDType"),
    "a discrete distribution": (scipy.stats.poisson(3), "own classes"),
    "a distribution of many": (scipy.stats.norm(np.zeros(3)), "not single numbers"),
    "a distribution of one's own": (scipy.stats.rv_histogram((np.array([1, 2]), np.arange(3)))(), "not one of scipy"),
    "a moment in a time zone": (pd.Timestamp("2024-01-01", tz="Europe/Berlin"), "time zone"),
    "a moment": (datetime.datetime(2024, 1, 1), "a datetime.datetime: .*own classes"),
    "bytes": (b"no", "a builtins.bytes: .*own classes"),
    "bytes of NumPy": (np.bytes_(b"no"), "a numpy.bytes_: .*own classes"),
    "sparse rows": (csr_array(np.eye(2)), "csr_array: .*own classes"),
    "a set of objects": ({Status}, "code"),
    "nested keys": ({((1, 2), 3): 4}, "not a plain value"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_place_in_a_file_is_refused_by_its_place(what, there_and_back):
    value, why = REFUSED[what]
    with pytest.raises(InputError, match=rf"Cannot save .*LinearDiscriminant\.extra_\[1\].*{why}"):
        there_and_back([0, value])


@pytest.mark.parametrize("value", [deep(), loop()], ids=["deep", "loop"])
def test_what_is_nested_too_deep_or_holds_itself_is_refused(value, there_and_back):
    with pytest.raises(InputError, match="nested too deeply, or hold themselves"):
        there_and_back(value)


def test_the_message_says_where_and_what_to_do(there_and_back):
    with pytest.raises(InputError) as caught:
        there_and_back({"seeds": [1, len]})
    said = str(caught.value)
    assert said.startswith("Cannot save LinearDiscriminant.extra_['seeds'][1], a builtins.builtin_function")
    assert "code" in said and "pickle" in said


def test_an_attribute_that_hides_a_method_is_refused(tmp_path):
    model = LinearDiscriminant().fit([[0.0], [1.0], [2.0], [3.5]], [0, 0, 1, 1])
    model.predict = 5
    with pytest.raises(InputError, match="has no field 'predict'"):
        save(model, tmp_path / "model")
