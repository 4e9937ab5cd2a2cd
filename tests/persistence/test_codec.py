"""Every kind of value comes back as it was, and what has no place in a file is refused by name."""

import datetime
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from credibly import BayesianLogisticRegression, Normal, Status
from credibly.errors import InputError, ModelFileError
from credibly.inference.frame import Frame
from credibly.model.kernels import RBF
from credibly.model.priors import WeightShape
from credibly.persistence import strict_json
from credibly.persistence.classes import flags
from credibly.persistence.tree import MOST_NESTED, Decoder, Encoder
from persistence.comparing import same


def there_and_back(value):
    encoder = Encoder()
    text = strict_json.dump(encoder.encode(value, "value"))
    decoder = Decoder([array.copy(order="K") for array in encoder.arrays], older=False)
    back = decoder.decode(strict_json.parse(text), "value")
    decoder.finish()
    return back


VALUES = {
    "none": None,
    "booleans": [True, False],
    "integers": [0, -1, 2**53 + 1, 10**19 - 1, 1 - 10**19, 10**19, -(10**19), 2**1000 + 7, -(2**16000)],
    "floats": [0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan, 1 / 3],
    "text": ["", "a", "ø日本\U0001f600", '"\\\n\x00', "\ud800", "</script>"],
    "bytes": [b"", b"\x00\xff"],
    "containers": [[], (), {}, set(), frozenset(), [1, (2, [3])], {"a": 1, 2: "b", (1, "x"): None, None: (), 0.5: []}],
    "sets": [{3, 1, 2}, frozenset({"b", "a"}), {(1, 2), (1, 3)}, {None, 1, "1"}],
    "slices": [slice(None), slice(1, None, -2), range(3, 20, 4)],
    "numpy scalars": [np.float64(0.1), np.float32(0.1), np.float16(3), np.int8(-3), np.uint64(2**63), np.bool_(True)],
    "numpy odd scalars": [np.complex128(1 + 2j), np.float64("nan"), np.str_("aø\x00"), np.bytes_(b"a\x00b")],
    "numpy dates": [np.datetime64("2024-02-29T12:00", "ns"), np.timedelta64(3, "D"), np.datetime64("NaT", "ns")],
    "dtypes": [np.dtype(float), np.dtype(">i4"), np.dtype("<U7")],
    "dates": [datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3, 4), datetime.timedelta(-1, 5, 6)],
    "exact numbers": [Decimal("0.10"), Decimal("1E+999"), Decimal("-Infinity"), Fraction(-2, 3)],
    "pandas": [pd.NA, pd.Timestamp("2024-01-01T00:00:00.123456789"), pd.Interval(0.0, 1.5, "left")],
    "enumeration": Status.CONVERGED,
    "objects": [Normal(scale=np.array([1.0, 2.0])), RBF([1.0, 2.0], columns=["a", "b"])],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_come_back_as_they_were(kind):
    same(VALUES[kind], there_and_back(VALUES[kind]), kind, set())


def test_not_a_time_and_not_a_number_come_back():
    assert there_and_back(pd.NaT) is pd.NaT
    assert there_and_back(pd.NA) is pd.NA
    assert math.isnan(there_and_back(math.nan))


def test_minus_zero_keeps_its_sign():
    assert math.copysign(1.0, there_and_back(-0.0)) == -1.0


ARRAYS = {
    "empty": np.empty((0, 3)),
    "zero dimensions": np.array(1.5),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big endian": np.arange(3, dtype=">f8"),
    "booleans": np.array([[True], [False]]),
    "small integers": np.arange(5, dtype=np.uint8),
    "text": np.array(["a", "ø日本", ""]),
    "bytes": np.array([b"a\x00b", b""]),
    "dates": np.array(["2024-01-01", "NaT"], dtype="datetime64[s]"),
    "durations of a fortnight": np.array([1, 2], dtype="timedelta64[14D]"),
    "NaN with a payload": np.array([0x7FF8DEADBEEF0001], dtype="u8").view("f8"),
    "complex": np.array([1 + 2j, np.inf]),
    "half": np.array([1.5, np.nan], dtype=np.float16),
    "objects": np.array([None, "a", 1.5, (1, 2)], dtype=object),
    "a grid of objects": np.array([[1, "a"], [None, 2.5]], dtype=object),
    "variable text": np.array(["a", "much longer text than eight bytes"], dtype=np.dtypes.StringDType()),
    "strided": np.arange(10.0)[::3],
    "transposed": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    "broadcast": np.broadcast_to(np.arange(3.0), (2, 3)),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_come_back_as_they_were(kind):
    array, back = ARRAYS[kind], there_and_back(ARRAYS[kind])
    assert back.dtype == array.dtype and back.dtype.byteorder == array.dtype.byteorder
    assert back.shape == array.shape and back.flags.writeable
    assert back.tolist() == array.tolist() or np.isnan(array.astype(complex)).any() or array.dtype.kind == "M"
    if array.dtype.kind not in "OT":
        assert back.tobytes() == array.tobytes()
    if array.flags.forc:
        assert back.flags.f_contiguous == array.flags.f_contiguous


def test_an_array_that_is_there_twice_is_stored_once():
    array = np.arange(4.0)
    encoder = Encoder()
    encoder.encode([array, {"again": array}, (array,)], "value")
    assert len(encoder.arrays) == 1
    first, inside, (last,) = there_and_back([array, {"again": array}, (array,)])
    assert first is inside["again"] is last


def test_a_mutable_thing_that_is_shared_stays_shared():
    names, prior = ["a"], Normal()
    left, right, one, other = there_and_back([names, names, prior, prior])
    left.append("b")
    assert right == ["a", "b"] and one is other and one == Normal()


def test_a_memory_map_is_saved_as_the_array_it_shows(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3.0))
    back = there_and_back(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert type(back) is np.ndarray and back.tolist() == [0.0, 1.0, 2.0]


def test_sparse_rows_come_back():
    rows = csr_array(np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    back = there_and_back(rows)
    assert type(back) is csr_array and back.shape == (3, 3)
    assert back.toarray().tolist() == rows.toarray().tolist()


@pytest.mark.parametrize("bits", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_random_generators_go_on_where_they_were(bits):
    rng = np.random.Generator(getattr(np.random, bits)(5))
    legacy = np.random.RandomState(getattr(np.random, bits)(6))
    rng.integers(0, 9, size=3, dtype=np.int32)  # leaves half a draw over
    legacy.normal(size=3)  # leaves a normal draw over
    back, back_legacy = there_and_back([rng, legacy])
    assert back.normal(size=700).tolist() == rng.normal(size=700).tolist()
    assert back.integers(0, 9, size=3, dtype=np.int32).tolist() == rng.integers(0, 9, size=3, dtype=np.int32).tolist()
    assert back_legacy.normal(size=701).tolist() == legacy.normal(size=701).tolist()


def test_distributions_of_scipy_come_back():
    for frozen in (scipy.stats.t(4), scipy.stats.norm(loc=1.0, scale=2), scipy.stats.genlogistic(2.5, loc=-1)):
        back = there_and_back(frozen)
        assert back.logpdf(0.3) == frozen.logpdf(0.3) and (back.args, back.kwds) == (frozen.args, frozen.kwds)


def test_flags_are_found_in_dataclasses_and_named_tuples():
    assert flags(Frame) == ["intercept"] and flags(WeightShape) == ["intercept"]


# --- anything, by Hypothesis -------------------------------------------------------------------------------------

KEYS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.binary())
ITEMS = st.one_of(
    KEYS,
    st.floats(),
    st.dates(),
    st.datetimes(),
    st.decimals(allow_nan=False),
    st.fractions(),
    hnp.arrays(
        st.one_of(
            hnp.floating_dtypes(), hnp.integer_dtypes(), hnp.boolean_dtypes(), hnp.datetime64_dtypes(), st.just("<U3")
        ),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    ),
)
ANYTHING = st.recursive(
    ITEMS,
    lambda inside: st.one_of(
        st.lists(inside, max_size=4),
        st.lists(inside, max_size=3).map(tuple),
        st.dictionaries(KEYS, inside, max_size=4),
        st.frozensets(KEYS, max_size=4),
    ),
    max_leaves=12,
)


@given(ANYTHING)
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_nested_values_come_back_as_they_were(value):
    same(value, there_and_back(value), "value", set())


# --- what is refused ---------------------------------------------------------------------------------------------


class Own(Normal):
    """A prior of a user's own."""


REFUSED = {
    "an integer of ten thousand digits": 10**10_000,
    "a function": len,
    "a lambda": lambda x: x,
    "a class": Normal,
    "a module": math,
    "a class of one's own": Own(),
    "an object": object(),
    "a frame": pd.DataFrame({"a": [1]}),
    "a masked array": np.ma.masked_array([1.0], [True]),
    "records": np.zeros(2, dtype=[("a", float)]),
    "a record": np.zeros(2, dtype=[("a", float)])[0],
    "a discrete distribution": scipy.stats.poisson(3),
    "a distribution of many": scipy.stats.norm(np.zeros(3)),
    "a distribution of one's own": scipy.stats.rv_histogram((np.array([1, 2]), np.array([0, 1, 2])))(),
    "a moment in a time zone": pd.Timestamp("2024-01-01", tz="Europe/Berlin"),
    "a date in a time zone": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    "text with a marker for missing": np.array(["a"], dtype=np.dtypes.StringDType(na_object=None)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_place_in_a_file_is_refused_by_its_place(what):
    with pytest.raises(InputError, match=r"Cannot save model\.prior\[1\]"):
        Encoder().encode({"x": REFUSED[what]}["x"], "model.prior[1]")


def test_the_message_says_where_and_what_to_do():
    model = BayesianLogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    model.random_state = {"seeds": [1, len]}
    with pytest.raises(InputError) as caught:
        Encoder().encode(model, "BayesianLogisticRegression")
    said = str(caught.value)
    assert said.startswith(
        "Cannot save BayesianLogisticRegression.random_state['seeds'][1], a builtins.builtin_function"
    )
    assert "code" in said and "pickle" in said


def test_what_holds_itself_is_refused():
    loop = [1]
    loop.append(loop)
    with pytest.raises(InputError, match="holds itself"):
        Encoder().encode(loop, "value")


def test_what_is_nested_too_deep_is_refused_before_the_stack_ends():
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InputError, match="nested in each other"):
        Encoder().encode(deep, "value")


def test_what_is_nested_as_deep_as_allowed_comes_back():
    """Dicts take the most brackets of all."""
    deep: object = 1.0
    for _ in range(MOST_NESTED // 2):
        deep = {"a": deep}
    assert there_and_back(deep) == deep


# --- text that is not what save() writes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[1,]",
        b"NaN",
        b"[Infinity]",
        b"[1e999]",
        b'{"a": 1, "a": 2}',
        b"\xff\xfe",
        '"ø"'.encode(),
        b"9" * 30,
        b"[" * 100_000,
        b"[" * 500 + b"]" * 500,
        b'{"a":' * 500 + b"1" + b"}" * 500,
        b'["\\',
    ],
)
def test_json_that_is_none_or_dangerous_is_one_error(text):
    with pytest.raises(ModelFileError):
        strict_json.parse(text)


def test_brackets_in_strings_do_not_count():
    assert strict_json.parse(b'["' + b"[" * 500 + b'\\"[[["]') == ["[" * 500 + '"[[[']
