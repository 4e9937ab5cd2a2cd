"""Objects as named fields and back, for the classes of the table and no others.

An object is made by ``object.__new__`` and given its fields: no constructor, no ``__setstate__`` and no ``__reduce__``
runs. Fields are those of a dataclass or a named tuple; of other classes, the parameters of the constructor (which they
all keep under the same names) and attributes that shadow nothing the class defines.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np

from credibly.errors import ModelFileError
from credibly.numerics.caching import cached_property
from credibly.persistence.refusals import Unsavable
from credibly.persistence.table import CLASSES, FIXED

_REQUIRED = inspect.Parameter.empty
_ATTRIBUTE = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_OTHERS_MARK = "_sklearn_version"  # that scikit-learn adds to its own objects' state; the header has it


Function = TypeVar("Function", bound=Callable[..., Any])


def once(function: Function) -> Function:
    """`functools.cache`, by which a function keeps its signature."""
    return cast(Function, cache(function))


# --- names -------------------------------------------------------------------------------------------------------


@once
def class_named(name: str) -> type[Any] | None:
    """The class that a file means by a name; None if the table has no such name."""
    if name not in CLASSES:
        return None
    module, _, attribute = CLASSES[name].partition(":")
    found: type[Any] = getattr(import_module(module), attribute)
    return found


@once
def name_of(cls: type[Any]) -> str | None:
    """The name of a class in files; None if it has none. A class derived from one in the table is another class."""
    for name in _names().get(cls.__qualname__, ()):
        if class_named(name) is cls:
            return name
    return None


@once
def _names() -> Mapping[str, list[str]]:
    """Names in files by names of classes, of which there may be several alike."""
    found: dict[str, list[str]] = {}
    for name, place in CLASSES.items():
        found.setdefault(place.partition(":")[2], []).append(name)
    return MappingProxyType(found)


# --- an object as fields -----------------------------------------------------------------------------------------


def fields_of(value: Any) -> dict[str, Any]:
    """What is to be saved of an object: all that it is made of, but not what it can compute again."""
    cls = type(value)
    if hasattr(cls, "_fields"):
        return _right(cls, dict(zip(cls._fields, value, strict=True)))
    state = {name: it for name, it in _state(value).items() if not _is_cached(cls, name) and name != _OTHERS_MARK}
    declared = _declared(cls)
    lacking, unknown = declared.keys() - state.keys(), [name for name in state if not _may_have(cls, name)]
    if lacking or unknown:
        raise Unsavable(
            f"a {cls.__name__} has {_listed(unknown) or 'no attribute'} beside what its class declares, and lacks "
            f"{_listed(lacking) or 'nothing'}; it cannot be saved like that"
        )
    return _right(cls, {name: state[name] for name in [*declared, *sorted(state.keys() - declared.keys())]})


def _right(cls: type[Any], fields: dict[str, Any]) -> dict[str, Any]:
    if wrong := _wrong(cls, fields):
        raise Unsavable(f"{wrong}; change that before saving")
    return fields


def _state(value: Any) -> dict[str, Any]:
    """What pickle would keep: there rows of the fit are left out."""
    state = value.__getstate__()
    if isinstance(state, list):  # of a frozen dataclass with slots
        return dict(zip((field.name for field in dataclasses.fields(value)), state, strict=True))
    if isinstance(state, tuple):  # attributes, and slots
        return {**(state[0] or {}), **(state[1] or {})}
    return dict(state or {})


# --- an object from fields ---------------------------------------------------------------------------------------


def make(cls: type[Any], fields: dict[str, Any], *, older: bool) -> Any:
    """The object with these fields, or a ModelFileError where they are not those of the class.

    `older` says that another release has written them: fields with a default may then be missing, as they are when a
    class has got a new one since.
    """
    declared = _declared(cls)
    if unknown := [name for name in fields if not _may_have(cls, name)]:
        raise ModelFileError(f"a {cls.__name__} has no field {_listed(unknown)}")
    for name, default in declared.items():
        if name not in fields:
            if default is _REQUIRED or not older:
                raise ModelFileError(f"a {cls.__name__} lacks its field {name!r}")
            fields[name] = default() if isinstance(default, _Factory) else default
    if wrong := _wrong(cls, fields):
        raise ModelFileError(wrong)
    if hasattr(cls, "_fields"):
        return cls._make(fields[name] for name in cls._fields)
    made = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


class _Factory:
    """A default that is made anew each time."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self) -> Any:
        return self._make()


@once
def _declared(cls: type[Any]) -> Mapping[str, Any]:
    """Fields that every object of a class has, with their defaults."""
    if hasattr(cls, "_fields"):
        return MappingProxyType({name: cls._field_defaults.get(name, _REQUIRED) for name in cls._fields})
    if dataclasses.is_dataclass(cls):
        return MappingProxyType({field.name: _default(field) for field in dataclasses.fields(cls)})
    parameters = inspect.signature(cls.__init__).parameters.values()
    named = [it for it in parameters if it.name != "self" and it.kind not in (it.VAR_POSITIONAL, it.VAR_KEYWORD)]
    return MappingProxyType({it.name: it.default for it in named})


def _default(field: Any) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return _Factory(field.default_factory)
    return _REQUIRED if field.default is dataclasses.MISSING else field.default


def _may_have(cls: type[Any], name: str) -> bool:
    """Whether a field may be set: one that is declared, or else an attribute that hides nothing of the class."""
    if name in _declared(cls):
        return True
    if hasattr(cls, "_fields") or dataclasses.is_dataclass(cls) or not _ATTRIBUTE.fullmatch(name):
        return False
    hidden = inspect.getattr_static(cls, name, None)
    return not callable(hidden) and not hasattr(type(hidden), "__get__")


def _wrong(cls: type[Any], fields: dict[str, Any]) -> str:
    """What is wrong with the values of fields; nothing mostly."""
    for name in flags(cls):
        if not isinstance(fields[name], bool | np.bool_):
            return f"{name} of a {cls.__name__} is neither True nor False"
    for name, value in FIXED.get(name_of(cls) or "", {}).items():
        if fields[name] is not value:
            return f"{name} of a {cls.__name__} is not {value!r}, the only value that it can have in a file"
    return ""


@once
def flags(cls: type[Any]) -> list[str]:
    """Fields declared to be True or False. They add to lengths that compiled code relies on, so a 7 would not do."""
    if not (hasattr(cls, "_fields") or dataclasses.is_dataclass(cls)):
        return []
    annotations = {name: it for base in reversed(cls.__mro__) for name, it in inspect.get_annotations(base).items()}
    return [name for name in _declared(cls) if _text(annotations.get(name)) in (bool, "bool")]


def _text(annotation: Any) -> Any:
    """An annotation that has not been evaluated, as text."""
    return getattr(annotation, "__forward_arg__", annotation)


def _is_cached(cls: type[Any], name: str) -> bool:
    """What is computed on demand is computed again."""
    return isinstance(inspect.getattr_static(cls, name, None), cached_property)


def member(cls: type[Enum], name: Any) -> Enum:
    """The member of an enumeration by its name, or a ModelFileError."""
    if not isinstance(name, str) or name not in cls.__members__:
        raise ModelFileError(f"{cls.__name__} has no member {name!r:.40}")
    return cls.__members__[name]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name)[:60] for name in sorted(names)[:5])
