"""Values as JSON and back.

===========================  =================================================================================
in Python                    in ``header.json``
===========================  =================================================================================
None, bool, str, list        as they are; so are finite floats (shortest digits that read back exactly) and integers
                             of up to 19 digits
NaN, ±inf; larger integers   ``{"float": "nan"}``, ``{"int": "0x1f…"}``
bytes, tuple, set, …         ``{"bytes": "00ff"}``, ``{"tuple": [1, 2]}``, ``{"dict": [[key, value], …]}``
arrays                       ``{"array": 3}``, the number of a ``.npy`` file; of objects ``{"objects": [shape, items]}``
objects of credibly          ``{"prior.Normal": {"scale": 2.5, …}}``: a name of `table`, and the fields
members of enumerations      ``{"numerics.Status": "CONVERGED"}``
something once more          ``{"again": 7}``, the seventh thing that was complete, so that what was shared still is
===========================  =================================================================================

Every kind has a pair of functions here. Those that decode are given text from a stranger: they check first and make
later, call no constructor that does more than hold its arguments, and leave other errors (a TypeError where a number
was expected) to the decoder, which reports them as damage.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import ModelFileError
from credibly.persistence import npy, random_states, scipy_objects
from credibly.persistence.refusals import Unsavable

LONGEST_INTEGER = 5000  # hexadecimal digits: arithmetic with millions of them could take hours
Down = Callable[[str, Any], Any]
"""Encode or decode a part; the text says where it is, as in ``.scale`` or ``[3]``."""


class Codec(NamedTuple):
    """How values of one kind are written and read."""

    encode: Callable[[Any, Down], Any]
    decode: Callable[[Any, Down], Any]


# --- numbers and text ----------------------------------------------------------------------------------------------

MOST_HASHED = 10_000  # parts of one key or item of a set, shared ones counted as often as they occur


def _decode_float(text: Any, _: Down) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ModelFileError(f"{text!r:.40} is none of nan, inf, -inf")
    return float(text)


def _encode_int(value: int, _: Down) -> str:
    if len(hex(value)) > LONGEST_INTEGER:
        raise Unsavable(f"an integer of more than {LONGEST_INTEGER} hexadecimal digits has no place in a model file")
    return hex(value)


def _decode_int(text: Any, _: Down) -> int:
    if text[:2] not in ("0x", "-0") or len(text) > LONGEST_INTEGER:
        raise ModelFileError(f"a large integer is not in up to {LONGEST_INTEGER} hexadecimal digits")
    return int(text, 16)


def _encode_number(value: Any, _: Down) -> Any:
    if not npy.is_storable(value.dtype):
        raise Unsavable(f"a NumPy scalar of type {value.dtype} has no place in a model file")
    return [value.dtype.str, value.tobytes().hex()]


def _decode_number(payload: Any, _: Down) -> Any:
    name, digits = payload
    dtype, raw = npy.checked_dtype(name), bytes.fromhex(digits)
    if dtype.kind in "SU" or len(raw) != dtype.itemsize:
        raise ModelFileError("a NumPy number has not the size of its type")
    return np.frombuffer(raw, dtype)[0]


# --- containers ----------------------------------------------------------------------------------------------------


def _encode_items(value: Any, down: Down) -> Any:
    return [down(f"[{i}]", item) for i, item in enumerate(value)]


def _decode_items(payload: Any, down: Down) -> list[Any]:
    if not isinstance(payload, list):
        raise ModelFileError("a sequence is not written as a list")
    return [down(f"[{i}]", item) for i, item in enumerate(payload)]


def check_hashed(items: list[Any]) -> None:
    """Refuse keys so nested that hashing them never ends: a tuple that holds another twice, and so on."""
    for item in items:
        if _expanded(item, MOST_HASHED) < 0:
            raise ModelFileError("a key of a dict or an item of a set is nested too deeply")


def _expanded(item: Any, left: int) -> int:
    """How many steps of hashing are left after this item; negative where there were too few."""
    left -= 1
    if isinstance(item, tuple | frozenset):
        for part in item:
            if left < 0:
                break
            left = _expanded(part, left)
    return left


def _distinct(kind: type[Any]) -> Callable[[Any, Down], Any]:
    def decode(payload: Any, down: Down) -> Any:
        items = _decode_items(payload, down)
        check_hashed(items)
        made = kind(items)
        if len(made) != len(items):
            raise ModelFileError("an item of a set occurs twice")
        return made

    return decode


def _encode_dict(value: dict[Any, Any], down: Down) -> Any:
    return [[down(f", key {i}", key), down(f"[{key!r:.40}]", it)] for i, (key, it) in enumerate(value.items())]


def _decode_dict(payload: Any, down: Down) -> dict[Any, Any]:
    pairs = [(down(f", key {i}", key), down(f"[{i}]", it)) for i, (key, it) in enumerate(payload)]
    check_hashed([key for key, _ in pairs])
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ModelFileError("a key of a dict occurs twice")
    return made


def _encode_objects(value: Any, down: Down) -> Any:
    return [list(value.shape), [down(f"[{i}]", item) for i, item in enumerate(value.reshape(-1).tolist())]]


def _decode_objects(payload: Any, down: Down, dtype: Any = object) -> Any:
    shape, items = payload
    lengths = npy.checked_shape(shape)
    if not isinstance(items, list) or npy.count(lengths) != len(items):
        raise ModelFileError("an array of objects has not as many items as its shape says")
    flat = np.empty(len(items), dtype=dtype)
    for i, item in enumerate(items):
        flat[i] = down(f"[{i}]", item)
    return flat.reshape(lengths)


def _encode_strings(value: Any, down: Down) -> Any:
    if value.dtype != np.dtypes.StringDType():
        raise Unsavable(f"an array of type {value.dtype} has no place in a model file; use str")
    return _encode_objects(value, down)


def _decode_strings(payload: Any, down: Down) -> Any:
    return _decode_objects(payload, lambda step, item: _text(down(step, item)), np.dtypes.StringDType())


# --- pandas, which may not be installed ----------------------------------------------------------------------------


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ModelFileError("it holds labels of pandas, which is not installed: pip install pandas") from error
    return pd


def _decode_interval(payload: Any, down: Down) -> Any:
    left, right, closed = _decode_items(payload, down)
    return _pandas().Interval(left, right, closed)


def _encode_timestamp(value: Any, down: Down) -> Any:
    if value.tz is not None:
        raise Unsavable("a Timestamp with a time zone has no place in a model file; use tz_convert(None) first")
    return [down("", value.to_datetime64())]


def _decode_timestamp(payload: Any, down: Down) -> Any:
    (moment,) = _decode_items(payload, down)
    if not isinstance(moment, np.datetime64):
        raise ModelFileError("a Timestamp is not written as a date")
    return _pandas().Timestamp(moment)


# --- the table -----------------------------------------------------------------------------------------------------


def _by_text(write: Callable[[Any], str], read: Callable[[Any], Any]) -> Codec:
    return Codec(lambda value, _: write(value), lambda text, _: read(text))


def _naive(value: datetime) -> str:
    if value.tzinfo is not None:
        raise Unsavable("a datetime with a time zone has no place in a model file; drop it, as in replace(tzinfo=None)")
    return value.isoformat()


CODECS: dict[str, Codec] = {
    "float": Codec(lambda value, _: repr(value), _decode_float),
    "int": Codec(_encode_int, _decode_int),
    "bytes": _by_text(bytes.hex, bytes.fromhex),
    "numpy_str": _by_text("".join, lambda text: np.str_(_text(text))),
    "numpy_bytes": _by_text(bytes.hex, lambda text: np.bytes_(bytes.fromhex(text))),
    "numpy_number": Codec(_encode_number, _decode_number),
    "dtype": _by_text(lambda value: _storable(value).str, npy.checked_dtype),
    "tuple": Codec(_encode_items, lambda payload, down: tuple(_decode_items(payload, down))),
    "set": Codec(_encode_items, _distinct(set)),
    "frozenset": Codec(_encode_items, _distinct(frozenset)),
    "dict": Codec(_encode_dict, _decode_dict),
    "slice": Codec(
        lambda value, down: _encode_items((value.start, value.stop, value.step), down),
        lambda payload, down: slice(*_decode_items(payload, down)),
    ),
    "range": Codec(
        lambda value, down: _encode_items((value.start, value.stop, value.step), down),
        lambda payload, down: range(*_decode_items(payload, down)),
    ),
    "objects": Codec(_encode_objects, _decode_objects),
    "strings": Codec(_encode_strings, _decode_strings),
    "date": _by_text(date.isoformat, date.fromisoformat),
    "datetime": _by_text(_naive, datetime.fromisoformat),
    "timedelta": Codec(
        lambda value, _: [value.days, value.seconds, value.microseconds], lambda payload, _: timedelta(*payload)
    ),
    "Decimal": _by_text(str, lambda text: Decimal(_text(text))),
    "Fraction": Codec(
        lambda value, down: _encode_items((value.numerator, value.denominator), down),
        lambda payload, down: Fraction(*_decode_items(payload, down)),
    ),
    "pandas_NA": Codec(lambda value, _: None, lambda payload, _: _pandas().NA),
    "pandas_NaT": Codec(lambda value, _: None, lambda payload, _: _pandas().NaT),
    "pandas_Timestamp": Codec(_encode_timestamp, _decode_timestamp),
    "pandas_Interval": Codec(
        lambda value, down: _encode_items((value.left, value.right, value.closed), down), _decode_interval
    ),
    "RandomState": Codec(random_states.encode_legacy, random_states.decode_legacy),
    "Generator": Codec(random_states.encode_generator, random_states.decode_generator),
    "distribution": Codec(scipy_objects.encode_distribution, scipy_objects.decode_distribution),
    "csr_array": Codec(scipy_objects.encode_csr, scipy_objects.decode_csr),
}

TAGS: dict[type[Any], str] = {
    bytes: "bytes",
    np.str_: "numpy_str",
    np.bytes_: "numpy_bytes",
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
    dict: "dict",
    slice: "slice",
    range: "range",
    date: "date",
    datetime: "datetime",
    timedelta: "timedelta",
    Decimal: "Decimal",
    Fraction: "Fraction",
    np.random.RandomState: "RandomState",
    np.random.Generator: "Generator",
    scipy_objects.FROZEN: "distribution",
    scipy_objects.CSR: "csr_array",
}


def tag_of(value: Any) -> str | None:
    """The kind of a value that is neither plain JSON, an array of numbers, nor an object of the table."""
    cls = type(value)
    if cls in TAGS:
        return TAGS[cls]
    if isinstance(value, np.generic):
        return "numpy_number"
    if isinstance(value, np.dtype):
        return "dtype"
    if isinstance(value, np.ndarray):
        return {"O": "objects", "T": "strings"}.get(value.dtype.kind)
    return _pandas_tag(value) if cls.__module__.partition(".")[0] == "pandas" else None


def _pandas_tag(value: Any) -> str | None:
    pd = _pandas()
    if value is pd.NA or value is pd.NaT:
        return "pandas_NA" if value is pd.NA else "pandas_NaT"
    return {pd.Timestamp: "pandas_Timestamp", pd.Interval: "pandas_Interval"}.get(type(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ModelFileError("text was expected")
    return value


def _storable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if not npy.is_storable(dtype):
        raise Unsavable(f"the NumPy type {dtype} has no place in a model file")
    return dtype
