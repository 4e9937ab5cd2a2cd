"""Every public name says what it is, shows how it is used, and is in the reference."""

import doctest
import enum
import importlib
import inspect
import re
from importlib.util import find_spec
from types import ModuleType

import pytest

import credibly
from helpers import REPOSITORY

PUBLIC = [
    "averages",
    "basis",
    "class_conditionals",
    "diagnostics",
    "errors",
    "export",
    "families",
    "kernels",
    "links",
    "persistence",
    "plots",
    "priors",
    "report",
    "tables",
]
MODULES = ["credibly", *(f"credibly.{name}" for name in PUBLIC if find_spec(f"credibly.{name}"))]
REFERENCE = REPOSITORY / "docs" / "api.md"
DIRECTIVE = re.compile(r"^\.\. auto(?P<kind>module|class|function):: (?P<name>\S+)\n(?P<options>(?: {3}.*\n)*)", re.M)


def names_of(module: ModuleType) -> list[str]:
    """What a module offers: its `__all__`, or else what it defines without an underscore."""
    defined = [name for name, it in vars(module).items() if getattr(it, "__module__", None) == module.__name__]
    return list(getattr(module, "__all__", [name for name in defined if name[0] != "_"]))


def public_names() -> list[tuple[str, object]]:
    found = []
    for module in map(importlib.import_module, MODULES):
        found += [(f"{module.__name__}.{name}", getattr(module, name)) for name in names_of(module)]
    return [(name, thing) for name, thing in found if not isinstance(thing, str)]


EVERY = pytest.mark.parametrize(("name", "thing"), public_names(), ids=lambda it: it if isinstance(it, str) else "")


def test_every_submodule_that_users_import_is_looked_at():
    assert sorted(credibly._SUBMODULES - set(PUBLIC)) == []


# --- documented ---------------------------------------------------------------------------------------------


def undocumented(name: str, thing: object) -> list[str]:
    """The thing and its public members that have no docstring, their own or inherited."""
    members = {name: thing}
    if inspect.isclass(thing) and not issubclass(thing, enum.Enum | BaseException):
        own = [base for base in thing.__mro__ if base.__module__.startswith("credibly.")]
        members |= {f"{name}.{it}": getattr(thing, it) for base in own for it in vars(base) if it[0] != "_"}
    needy = {where: it for where, it in members.items() if callable(it) or isinstance(it, property) or where == name}
    return [where for where, it in needy.items() if not (inspect.getdoc(it) or "").strip()]


@EVERY
def test_a_public_name_is_documented(name, thing):
    assert undocumented(name, thing) == []


def test_a_missing_docstring_is_found():
    class Bare:
        __module__ = "credibly.example"

        def method(self): ...

    assert undocumented("credibly.Bare", Bare) == ["credibly.Bare", "credibly.Bare.method"]


# --- shown --------------------------------------------------------------------------------------------------


def examples(text: str | None) -> list[doctest.Example]:
    """The examples of a docstring that are run (by `pytest src`)."""
    found = doctest.DocTestParser().get_examples(text or "")
    return [example for example in found if not example.options.get(doctest.SKIP, False)]


def is_shown(name: str, thing: object, module_text: str | None) -> bool:
    """Whether a thing has an example of its own, or one in its public module that uses it by name."""
    if isinstance(thing, ModuleType):
        return True  # looked at by itself
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return True  # met when raised; the guide shows the messages
    word = re.compile(rf"\b{re.escape(name.rpartition('.')[2])}\b")
    return bool(examples(thing.__doc__)) or any(word.search(example.source) for example in examples(module_text))


@EVERY
def test_a_public_name_has_an_example_that_is_run(name, thing):
    module = importlib.import_module(name.rpartition(".")[0])
    assert is_shown(name, thing, module.__doc__), f"{name} needs an Examples section in its docstring"


def test_an_example_that_is_missing_or_skipped_is_found():
    def bare():
        """Nothing to see."""

    def skipped():
        """Not run.

        >>> 1 / 0  # doctest: +SKIP
        """

    def shown():
        """Run.

        >>> 1 + 1
        2
        """

    of_module = ">>> bare()\n"
    assert [is_shown("m.f", it, None) for it in (bare, skipped, shown)] == [False, False, True]
    assert [is_shown(name, bare, of_module) for name in ("m.bare", "m.bar", "m.bare_feet")] == [True, False, False]


# --- listed -------------------------------------------------------------------------------------------------


def listed(text: str) -> list[object]:
    """The objects that the reference shows: autodoc's rules for the options used there."""
    found = []
    for directive in DIRECTIVE.finditer(text):
        if directive["kind"] != "module":
            module, _, name = directive["name"].rpartition(".")
            found.append(getattr(importlib.import_module(module), name))
            continue
        module = importlib.import_module(directive["name"])
        options = dict(re.findall(r":([\w-]+): *(.*)", directive["options"]))
        members = options["members"].split(", ") if options.get("members") else names_of(module)
        things = [getattr(module, name) for name in members if "members" in options]
        imported = "imported-members" in options
        found += [it for it in things if imported or getattr(it, "__module__", None) == module.__name__]
    return found


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_lists_the_module(module):
    assert f".. automodule:: {module}\n" in REFERENCE.read_text(encoding="utf-8")


@EVERY
def test_a_public_name_is_in_the_reference(name, thing):
    shown = listed(REFERENCE.read_text(encoding="utf-8"))
    assert any(thing is it for it in shown), f"{name} is not in docs/api.md"


SINGLE = [it["name"] for it in DIRECTIVE.finditer(REFERENCE.read_text("utf-8")) if it["kind"] != "module"]


@pytest.mark.parametrize("name", SINGLE)
def test_what_the_reference_shows_by_itself_is_documented_and_has_an_example(name):
    module, _, short = name.rpartition(".")
    thing = getattr(importlib.import_module(module), short)
    assert undocumented(name, thing) == []
    assert is_shown(name, thing, None)


def test_a_name_that_autodoc_would_leave_out_is_found():
    averages = importlib.import_module("credibly.averages")
    head = "```{eval-rst}\n.. automodule:: credibly.averages\n"
    whole, own, none = (
        listed(f"{head}{rest}```\n") for rest in ("   :members:\n   :imported-members:\n", "   :members:\n", "")
    )
    assert averages.sigmoid in whole
    assert averages.sigmoid not in own  # defined in a room below
    assert none == []
    assert listed(f"{head}   :members: softmax\n   :imported-members:\n") == [averages.softmax]
