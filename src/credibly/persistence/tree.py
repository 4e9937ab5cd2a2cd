"""Walking through a model: every value into JSON and a list of arrays, and back."""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from credibly.errors import InputError, ModelFileError
from credibly.numerics.arrays import AnyArray
from credibly.persistence import npy, strict_json
from credibly.persistence.classes import class_named, fields_of, make, member, name_of
from credibly.persistence.codecs import CODECS, tag_of
from credibly.persistence.refusals import Unsavable

_PLAIN = (type(None), bool, str)
_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, partial, np.ufunc)
MOST_NESTED = strict_json.MOST_DEPTH // 2  # objects inside each other; each takes two levels of brackets or more
_LARGEST = 10**19  # integers below are written as they are
# What decoding text from a stranger may raise, besides what was looked for.
_ODD = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, NotImplementedError)


def _is_shared(value: Any) -> bool:
    """Whether it matters that two references are to one thing; both sides must agree, for things are numbered."""
    if isinstance(value, list | dict | set | np.ndarray | np.random.RandomState | np.random.Generator):
        return True
    if isinstance(value, tuple | frozenset):
        return len(value) > 0
    return not isinstance(value, Enum) and name_of(type(value)) is not None


# --- encoding ----------------------------------------------------------------------------------------------------


class Encoder:
    """Turns one model into JSON; `arrays` collects what goes into files of its own."""

    def __init__(self) -> None:
        self.arrays: list[AnyArray] = []
        self._done: dict[int, int] = {}  # the number of everything that is complete, by identity
        self._open: set[int] = set()
        self._kept: list[Any] = []  # so that no identity is used twice

    def encode(self, value: Any, path: str) -> Any:
        """JSON for a value; `path` says where it is, for messages."""
        cls = type(value)
        if cls in _PLAIN:
            return value
        if cls is int and abs(value) < _LARGEST:
            return value
        if cls is float and np.isfinite(value):
            return value
        if not _is_shared(value):
            return self._encode(value, path)
        if id(value) in self._done:
            return {"again": self._done[id(value)]}
        if id(value) in self._open:
            raise InputError(f"Cannot save {path}: it holds itself.")
        self._open.add(id(value))
        self._kept.append(value)
        encoded = self._encode(value, path)
        self._open.discard(id(value))
        self._done[id(value)] = len(self._done)
        return encoded

    def _encode(self, value: Any, path: str) -> Any:
        if len(self._open) > MOST_NESTED:
            raise InputError(f"Cannot save {path[:200]}…: more than {MOST_NESTED} objects are nested in each other.")
        if type(value) is list:
            return [self.encode(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if type(value) in (np.ndarray, np.memmap) and npy.is_storable(value.dtype):
            self.arrays.append(np.asarray(value))
            return {"array": len(self.arrays) - 1}
        if (name := name_of(type(value))) is not None:
            return {name: value.name if isinstance(value, Enum) else self._fields(value, path)}
        return self._by_codec(value, path)

    def _fields(self, value: Any, path: str) -> Any:
        fields = _told(path, lambda: fields_of(value))
        return {name: self.encode(it, f"{path}.{name}") for name, it in fields.items()}

    def _by_codec(self, value: Any, path: str) -> Any:
        tag = _tag(value)
        if tag is None:
            refuse(value, path)
        items = sorted(value, key=_order) if tag in ("set", "frozenset") else value  # sets have no order, files have
        return {tag: _told(path, lambda: CODECS[tag].encode(items, lambda step, part: self.encode(part, path + step)))}


def _told(path: str, work: Callable[[], Any]) -> Any:
    """What some work gives, or its reason for refusing with the place where it refused."""
    try:
        return work()
    except Unsavable as error:
        raise InputError(f"Cannot save {path}: {error}.") from error


def _tag(value: Any) -> str | None:
    if type(value) in (int, float):
        return type(value).__name__
    return tag_of(value)


def _order(item: Any) -> bytes:
    return strict_json.dump(Encoder().encode(item, "an item of a set"))


def refuse(value: Any, path: str) -> NoReturn:
    """Say what cannot be saved, where it is, and what to do."""
    cls = type(value)
    what = f"{cls.__module__}.{cls.__qualname__}"
    if isinstance(value, _CODE):
        why = "functions and classes are code, and model files hold none"
    elif isinstance(value, np.ndarray):
        why = f"arrays of type {value.dtype} have no place in a model file"
    else:
        why = "model files hold objects of credibly's own classes, and plain values"
    raise InputError(
        f"Cannot save {path}, a {what}: {why}. Use one of the library's own choices or plain numbers, text, lists and "
        "NumPy arrays there; or use pickle, if everybody who opens the file trusts where it came from."
    )


# --- decoding ----------------------------------------------------------------------------------------------------


class Decoder:
    """Turns JSON into a model; `older` says that another release has written it."""

    def __init__(self, arrays: Sequence[AnyArray], *, older: bool) -> None:
        self._arrays, self._older = arrays, older
        self._next = 0
        self._done: list[Any] = []

    def decode(self, encoded: Any, path: str) -> Any:
        """The value of some JSON, or a ModelFileError that says where it is wrong."""
        if encoded is None or isinstance(encoded, bool | int | float | str):
            return encoded
        if isinstance(encoded, list):
            value: Any = [self.decode(item, f"{path}[{i}]") for i, item in enumerate(encoded)]
        elif len(encoded) != 1:
            raise ModelFileError(f"{path} is not written as one kind of thing")
        else:
            ((tag, payload),) = encoded.items()
            if tag == "again":
                return self._again(payload)
            value = self._tagged(tag, payload, path)
        if _is_shared(value):
            self._done.append(value)
        return value

    def finish(self) -> None:
        """Everything that the file holds must have been used."""
        if self._next != len(self._arrays):
            raise ModelFileError("it holds arrays that no object has")

    def _again(self, number: Any) -> Any:
        if type(number) is not int or not 0 <= number < len(self._done):
            raise ModelFileError("it refers to something that it has not shown before")
        return self._done[number]

    def _tagged(self, tag: str, payload: Any, path: str) -> Any:
        if tag == "array":
            return self._array(payload)
        try:
            if tag in CODECS:
                return CODECS[tag].decode(payload, lambda step, part: self.decode(part, path + step))
            return self._object(tag, payload, path)
        except ModelFileError:
            raise
        except _ODD as error:
            raise ModelFileError(f"{path} makes no sense ({type(error).__name__}: {error})") from error

    def _array(self, number: Any) -> AnyArray:
        if number != self._next or type(number) is not int or number >= len(self._arrays):
            raise ModelFileError("its objects do not use its arrays in order")
        self._next += 1
        return self._arrays[number]

    def _object(self, name: str, payload: Any, path: str) -> Any:
        cls = class_named(name)
        if cls is None:
            raise ModelFileError(
                f"{path} is a {name!r:.60}, which this release does not know. Either a newer one has written it "
                "(upgrade credibly), or the file is damaged"
            )
        if issubclass(cls, Enum):
            return member(cls, payload)
        fields = {field: self.decode(it, f"{path}.{field}") for field, it in payload.items()}
        return make(cls, fields, older=self._older)
