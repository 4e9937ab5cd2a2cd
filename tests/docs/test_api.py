"""Every public name says what it is, and the reference lists it."""

import enum
import importlib
import inspect
from importlib.util import find_spec

import pytest

from helpers import REPOSITORY

PUBLIC = [
    "averages",
    "basis",
    "class_conditionals",
    "diagnostics",
    "errors",
    "families",
    "kernels",
    "links",
    "plots",
    "priors",
]
MODULES = ["credibly", *(f"credibly.{name}" for name in PUBLIC if find_spec(f"credibly.{name}"))]


def public_names() -> list[tuple[str, object]]:
    found = []
    for module in map(importlib.import_module, MODULES):
        found += [(f"{module.__name__}.{name}", getattr(module, name)) for name in module.__all__]
    return [(name, thing) for name, thing in found if not isinstance(thing, str)]


def undocumented(name: str, thing: object) -> list[str]:
    """The thing and its public members that have no docstring, their own or inherited."""
    members = {name: thing}
    if inspect.isclass(thing) and not issubclass(thing, enum.Enum | BaseException):
        own = [base for base in thing.__mro__ if base.__module__.startswith("credibly.")]
        members |= {f"{name}.{it}": getattr(thing, it) for base in own for it in vars(base) if it[0] != "_"}
    needy = {where: it for where, it in members.items() if callable(it) or isinstance(it, property) or where == name}
    return [where for where, it in needy.items() if not (inspect.getdoc(it) or "").strip()]


@pytest.mark.parametrize(("name", "thing"), public_names(), ids=lambda it: it if isinstance(it, str) else "")
def test_a_public_name_is_documented(name, thing):
    assert undocumented(name, thing) == []


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_lists_the_module(module):
    assert f".. automodule:: {module}\n" in (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")


def test_a_missing_docstring_is_found():
    class Bare:
        __module__ = "credibly.example"

        def method(self): ...

    assert undocumented("credibly.Bare", Bare) == ["credibly.Bare", "credibly.Bare.method"]
