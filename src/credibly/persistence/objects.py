"""Models as JSON and arrays, and back, without running anything that a file says.

===========================  ==================================================================================
in Python                    in JSON
===========================  ==================================================================================
None, bool, int, str, list   as they are; so are finite floats (the shortest digits that read back exactly)
tuple, set, dict             ``{"tuple": [1, 2]}``, ``{"set": [1, 2]}``, ``{"dict": [[key, value], …]}``
NaN, dates, …                ``{"float": ["nan"]}``, ``{"date": ["2024-02-29"]}``: see `KINDS`
arrays                       ``{"array": 3}``: arrays[3], counted from 0, as in ``arrays/3.npy``;
                             of objects ``{"objects": [shape, …]}``
an object                    ``{"credibly.model.priors:Normal": {"scale": 2.5, …}}``: its class, and its fields
a member of an enumeration   ``{"credibly.numerics.status:Status": "CONVERGED"}``
an object once more          ``{"again": 7}``: the object completed as number 7, counted from 0, so that what was
                             shared still is
===========================  ==================================================================================

The classes that a file may name follow from a rule: those defined in the rooms of credibly where models are made
(`ROOMS`) that are a dataclass, a named tuple, an enumeration or an estimator, or belong to ``credibly.model``; and
those of scikit-learn in `FOREIGN`. An object is made by ``object.__new__`` and given its fields: no constructor, no
``__setstate__`` and no ``__reduce__`` runs. A field is one that the class declares, or else hides nothing of the class.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cached_property
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from credibly.data.archive import STORABLE
from credibly.errors import InputError, ModelFileError
from credibly.numerics.arrays import AnyArray

ROOMS = ("model", "inference", "estimators", "comparison", "tables", "numerics", r"data\.columns")
FOREIGN = {
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": ("MinMaxScaler", "PolynomialFeatures", "StandardScaler"),
    "sklearn.gaussian_process.kernels": (
        *("ConstantKernel", "DotProduct", "ExpSineSquared", "Exponentiation", "Matern", "Product", "RBF"),
        *("RationalQuadratic", "Sum", "WhiteKernel"),
    ),
}
OWN_CLASS = re.compile(rf"credibly\.({'|'.join(ROOMS)})(\.[a-z][a-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
ATTRIBUTE = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
SCALAR_TYPE = re.compile(r"[<>|][biufcmM]\d{1,2}(\[\d{0,9}[a-zA-Zμ]+\])?", re.ASCII)
MOST_NUMBERS = 10_000  # keys of one dict, or items of one set, that are no text: so many that hash alike take a second
MALFORMED = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError)  # raised by parts of the wrong kind


# --- which classes -----------------------------------------------------------------------------------------------


def class_named(name: str) -> type[Any] | None:
    """The class that a file means by ``module:Class``; None if files may not hold such a class."""
    module, _, attribute = name.partition(":")
    foreign = attribute in FOREIGN.get(module, ())
    if not foreign and not OWN_CLASS.fullmatch(name):
        return None
    try:
        cls = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("credibly"):
            return None
        raise ModelFileError(f"it needs {error.name}, which is not installed: pip install {error.name}") from error
    if not isinstance(cls, type) or inspect.isabstract(cls):
        return None
    return cls if foreign or (cls.__module__ == module and _is_value(cls)) else None


def name_of(cls: type[Any]) -> str | None:
    """The name of a class in files; None if it has none. A class derived from one that has a name is another class."""
    names = [f"{cls.__module__}:{cls.__qualname__}"]
    names += [f"{module}:{cls.__name__}" for module, classes in FOREIGN.items() if cls.__name__ in classes]
    return next((name for name in names if class_named(name) is cls), None)


def _is_value(cls: type[Any]) -> bool:
    by_fields = is_dataclass(cls) or _is_named_tuple(cls) or issubclass(cls, Enum)
    return by_fields or _is_estimator(cls) or cls.__module__.startswith("credibly.model.")


def _is_named_tuple(cls: type[Any]) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _is_estimator(cls: type[Any]) -> bool:
    return hasattr(cls, "get_params")


def _declared_fields(cls: type[Any]) -> list[str]:
    """The fields that every object of a class has."""
    if _is_named_tuple(cls):
        return list(cls._fields)
    if is_dataclass(cls):
        return [field.name for field in fields(cls)]
    parameters = inspect.signature(cls.__init__).parameters.values() if _is_estimator(cls) else ()
    return [it.name for it in parameters if it.name != "self" and it.kind not in (it.VAR_POSITIONAL, it.VAR_KEYWORD)]


def _may_hold(cls: type[Any], name: str) -> bool:
    """True for an attribute that hides nothing of the class: an object may have it, though it is not declared."""
    if is_dataclass(cls) or _is_named_tuple(cls) or not ATTRIBUTE.fullmatch(name):
        return False
    hidden = inspect.getattr_static(cls, name, None)
    return not callable(hidden) and not hasattr(type(hidden), "__get__")


def _fields_of(value: Any) -> dict[str, Any]:
    """The parts of an object: what pickle would take (no rows of the fit), less what is computed on demand."""
    cls = type(value)
    if _is_named_tuple(cls):
        return dict(value._asdict())
    state, declared = value.__getstate__(), _declared_fields(cls)
    if is_dataclass(cls):
        return {name: state[name] if isinstance(state, dict) else getattr(value, name) for name in declared}
    state = {name: it for name, it in (state or {}).items() if name != "_sklearn_version" and not _is_cached(cls, name)}
    return {name: state[name] for name in sorted(state, key=lambda name: (name not in declared, name))}


def _is_cached(cls: type[Any], name: str) -> bool:
    return isinstance(inspect.getattr_static(cls, name, None), cached_property)


# --- values that are not objects of these classes ----------------------------------------------------------------


class Kind(NamedTuple):
    """Functions that take values of one type apart into simpler ones, and build them again."""

    type: type[Any] | None  # None: a type of pandas, which may not be installed
    parts: Callable[[Any], Sequence[Any]]
    build: Callable[..., Any]


def _build_float(text: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"{text!r:.40} is none of nan, inf, -inf")
    return float(text)


def _build_scalar(dtype: str, digits: str) -> Any:
    if not SCALAR_TYPE.fullmatch(dtype):
        raise ValueError(f"{dtype!r:.40} is not the type of a number or a date")
    (value,) = np.frombuffer(bytes.fromhex(digits), dtype)
    return value


def _objects_parts(array: AnyArray) -> list[Any]:
    return [list(array.shape), *array.reshape(-1).tolist()]


def _build_objects(shape: Any, *items: Any) -> AnyArray:
    flat = np.empty(len(items), dtype=object)
    for number, item in enumerate(items):
        flat[number] = item
    return flat.reshape(shape)


def _distribution_parts(frozen: Any) -> list[Any]:
    name = str(frozen.dist.name)
    if type(getattr(stats, name, None)) is not type(frozen.dist):
        raise InputError(f"the distribution {name!r} is not one of scipy.stats")
    return [name, list(frozen.args), dict(frozen.kwds)]


def _build_distribution(name: str, args: list[Any], kwds: dict[str, Any]) -> Any:
    distribution: Any = getattr(stats, name, None)
    if not isinstance(distribution, stats.rv_continuous):
        raise ValueError(f"scipy.stats has no continuous distribution {name!r:.40}")
    numbers = [*args, *kwds.values()]
    if not all(np.ndim(it) == 0 and np.asarray(it).dtype.kind in "iuf" for it in numbers):
        raise ValueError(f"the parameters of the distribution {name} are not single numbers")
    return distribution(*args, **kwds)


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ModelFileError("it needs pandas, which is not installed: pip install pandas") from error
    return pd


def _build_interval(left: Any, right: Any, closed: str) -> Any:
    if not all(isinstance(end, int | float | np.generic | date) for end in (left, right)):
        raise ValueError("an interval does not go from a number to a number")
    return _pandas().Interval(left, right, closed)


def _build_timestamp(moment: Any) -> Any:
    if not isinstance(moment, np.datetime64):
        raise ValueError("a Timestamp is not made of a date")
    return _pandas().Timestamp(moment)


def _naive(moment: Any) -> Any:
    if moment.tzinfo is not None:
        raise InputError("moments with a time zone have no place in a model file; use tz_convert(None)")
    return moment


def _check_keys(keys: Sequence[Any]) -> None:
    """Keys are plain values, or tuples of them: those of nested objects could take for ever to hash."""
    plain = (type(None), bool, int, str, float, date, np.generic, Enum)
    for key in keys:
        if not all(isinstance(part, plain) for part in (key if type(key) is tuple else (key,))):
            raise ValueError(f"a key of a dict or an item of a set is a {type(key).__name__}, not a plain value")
    if too_many := _too_many(keys):
        raise ValueError(too_many)


def _too_many(keys: Iterable[Any]) -> str:
    """Numbers may be chosen so that all have one hash; text is hashed by a secret of the process."""
    if sum(type(key) is not str for key in keys) <= MOST_NUMBERS:
        return ""
    return f"more than {MOST_NUMBERS:,} keys of a dict, or items of a set, are not text"


def _set_parts(items: set[Any]) -> list[Any]:
    if too_many := _too_many(items):
        raise InputError(too_many)
    return sorted(items, key=lambda item: (type(item).__name__, repr(item)))


def _dict_parts(value: dict[Any, Any]) -> list[Any]:
    if too_many := _too_many(value):
        raise InputError(too_many)
    return [[key, it] for key, it in value.items()]


def _build_set(*items: Any) -> set[Any]:
    _check_keys(items)
    return set(items)


def _build_dict(*pairs: Any) -> dict[Any, Any]:
    _check_keys([key for key, _ in pairs])
    return dict(pairs)


KINDS = {
    "float": Kind(float, lambda value: [repr(value)], _build_float),
    "date": Kind(date, lambda value: [value.isoformat()], date.fromisoformat),
    "scalar": Kind(np.generic, lambda value: [value.dtype.str, value.tobytes().hex()], _build_scalar),
    "tuple": Kind(tuple, list, lambda *items: items),
    "set": Kind(set, _set_parts, _build_set),
    "dict": Kind(dict, _dict_parts, _build_dict),
    "objects": Kind(np.ndarray, _objects_parts, _build_objects),
    "distribution": Kind(type(stats.norm()), _distribution_parts, _build_distribution),
    "timestamp": Kind(None, lambda moment: [_naive(moment).to_datetime64()], _build_timestamp),
    "interval": Kind(None, lambda interval: [interval.left, interval.right, interval.closed], _build_interval),
}


def _kind_of(value: Any) -> str | None:
    """The entry of `KINDS` for a value that is neither plain nor an object of credibly."""
    cls = type(value)
    if cls.__module__.partition(".")[0] == "pandas":
        return {"Timestamp": "timestamp", "Interval": "interval"}.get(cls.__name__)
    if isinstance(value, np.generic):
        return "scalar" if SCALAR_TYPE.fullmatch(value.dtype.str) else None
    if isinstance(value, np.ndarray) and value.dtype != object:
        return None
    return next((name for name, kind in KINDS.items() if kind.type is cls), None)


# --- encoding ----------------------------------------------------------------------------------------------------


class Encoder:
    """Turns one model into JSON; `arrays` collects what goes into members of their own."""

    def __init__(self) -> None:
        self.arrays: list[AnyArray] = []
        self._numbers: dict[int, int] = {}  # of arrays, and of objects that are complete, by identity
        self._objects: list[Any] = []  # so that no identity is used twice

    def encode(self, value: Any, path: str) -> Any:
        """JSON for a value; `path` says where it is, for messages."""
        value = value.item() if isinstance(value, np.str_) else value
        cls = type(value)
        if value is None or cls in (bool, int, str) or (cls is float and np.isfinite(value)):
            return value
        if cls is list:
            return [self.encode(item, f"{path}[{number}]") for number, item in enumerate(value)]
        if cls in (np.ndarray, np.memmap) and value.dtype.kind in STORABLE:
            return self._array(np.asarray(value))
        if isinstance(value, Enum) and (name := name_of(cls)) is not None:
            return {name: value.name}
        if (kind := _kind_of(value)) is not None:
            return {kind: self._parts(KINDS[kind], value, path)}
        return self._object(value, path)

    def _array(self, array: AnyArray) -> Any:
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return {"array": self._numbers[id(array)]}

    def _parts(self, kind: Kind, value: Any, path: str) -> Any:
        try:
            parts = kind.parts(value)
        except InputError as error:
            raise InputError(f"Cannot save {path}: {error}.") from error
        if kind.type is dict:
            return [[self.encode(key, path), self.encode(it, f"{path}[{key!r:.40}]")] for key, it in parts]
        return self.encode(list(parts), path)

    def _object(self, value: Any, path: str) -> Any:
        name = name_of(type(value))
        if name is None:
            raise InputError(_refusal(value, path))
        if id(value) not in self._numbers:
            encoded = {key: self.encode(it, f"{path}.{key}") for key, it in _fields_of(value).items()}
            self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
            return {name: encoded}
        return {"again": self._numbers[id(value)]}


def _refusal(value: Any, path: str) -> str:
    cls = type(value)
    advice = "Use one of the library's own choices or plain numbers, text, lists and NumPy arrays there"
    if isinstance(value, np.random.Generator | np.random.RandomState):
        why, advice = "model files hold no random generators", "Use an integer or None there"
    elif isinstance(value, type | FunctionType | BuiltinFunctionType | MethodType | np.ufunc):
        why = "functions and classes are code, and model files hold none"
    elif isinstance(value, np.ndarray):
        why = f"arrays of type {value.dtype} have no place in a model file"
    else:
        why = "model files hold objects of credibly's own classes, and plain values"
    return (
        f"Cannot save {path}, a {cls.__module__}.{cls.__qualname__}: {why}. {advice}; or use pickle, if everybody who "
        "opens the file trusts where it came from."
    )


# --- decoding ----------------------------------------------------------------------------------------------------


class Decoder:
    """Turns JSON into a model, or raises a ModelFileError that says where it is wrong."""

    def __init__(self, arrays: Sequence[AnyArray]) -> None:
        self._arrays = arrays
        self._objects: list[Any] = []

    def decode(self, encoded: Any, path: str) -> Any:
        """The value of some JSON."""
        if encoded is None or isinstance(encoded, bool | int | float | str):
            return encoded
        if isinstance(encoded, list):
            return [self.decode(item, f"{path}[{number}]") for number, item in enumerate(encoded)]
        if len(encoded) != 1:
            raise ModelFileError(f"{path} is not written as one kind of value")
        ((tag, payload),) = encoded.items()
        if tag in ("array", "again"):
            return self._known(self._arrays if tag == "array" else self._objects, payload, path)
        try:
            if tag in KINDS and isinstance(payload, list):
                return KINDS[tag].build(*self.decode(payload, path))
            return self._object(tag, payload, path)
        except MALFORMED as error:
            if isinstance(error, ModelFileError):  # of a part
                raise
            raise ModelFileError(f"{path} cannot be read: {error!s:.200}") from error

    def _known(self, values: Sequence[Any], number: Any, path: str) -> Any:
        if type(number) is not int or not 0 <= number < len(values):
            raise ModelFileError(f"{path} refers to something that the file has not shown before")
        return values[number]

    def _object(self, name: str, payload: Any, path: str) -> Any:
        cls = class_named(name)
        if cls is None:
            raise ModelFileError(f"{path} is a {name!r:.60}, which this release does not know")
        if issubclass(cls, Enum):
            return cls.__members__[payload]
        held = {field: self.decode(it, f"{path}.{field:.40}") for field, it in payload.items()}
        self._objects.append(_make(cls, held))
        return self._objects[-1]


def _make(cls: type[Any], held: dict[str, Any]) -> Any:
    """The object with these fields, or a ValueError where they are not those of the class."""
    declared = _declared_fields(cls)
    if unknown := [name for name in held if name not in declared and not _may_hold(cls, name)]:
        raise ValueError(f"a {cls.__name__} has no field {unknown[0]!r:.60}")
    if lacking := [name for name in declared if name not in held]:
        raise ValueError(f"a {cls.__name__} lacks its field {lacking[0]!r}")
    if cls.__name__ == "Pipeline" and held.get("memory") is not None:
        raise ValueError("memory of a Pipeline is not None: that is a folder of pickles, which are never opened")
    if _is_named_tuple(cls):
        return tuple.__new__(cls, [held[name] for name in declared])
    made = object.__new__(cls)
    for name, value in held.items():
        object.__setattr__(made, name, value)
    return made
