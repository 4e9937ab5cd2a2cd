"""The house rules as a test: who may import whom.

Arrows between rooms are read from imports that run when a module is imported: an import inside a function
may point upwards (``model.report()`` fetches the room above it when it is called). Rules about other packages
hold everywhere, inside functions too. The checks are functions of a folder, so that the tests at the end can
show, on small packages made for the purpose, that they bite.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SRC = Path(__file__).parents[1] / "src" / "credibly"

# --- The table ------------------------------------------------------------------------------------

MATHS = {"errors", "numerics", "wording"}
MODELS = MATHS | {"data", "model", "inference", "predictive", "decisions", "diagnostics", "estimators"}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "wording": set(),
    "numerics": {"errors"},
    "data": MATHS,
    "model": MATHS,
    "inference": MATHS | {"data", "model"},
    "predictive": MATHS | {"data", "model", "inference"},
    "decisions": MATHS,
    "diagnostics": MATHS,
    "estimators": MODELS - {"estimators"},
    "comparison": MODELS,
    "plots": MATHS | {"diagnostics"},
    "tables": MODELS | {"comparison"},
    "persistence": MODELS | {"comparison", "tables"},
    "export": MODELS | {"comparison", "tables"},
    "report": MODELS | {"comparison", "plots", "tables", "persistence", "façade"},
    "cli": MODELS | {"comparison", "plots", "tables", "persistence", "export", "report", "façade"},
}

# Files that only re-export names for the user; `_version` is a constant that anybody may read.
FACADE = {"__init__", "__main__", "averages", "basis", "class_conditionals", "families", "links", "priors", "kernels"}
FREE = {"_version"}

# Which files may mention another package, as prefixes of their path inside src/credibly.
THIRD_PARTY = {
    "sklearn": ("estimators/", "comparison/", "model/basis.py", "diagnostics/"),
    "sklearn.exceptions.ConvergenceWarning": ("errors.py",),
    "sklearn.datasets": ("cli/demo.py",),  # the demo's data; no modelling there
    "dask": ("data/dask.py",),
    "distributed": ("data/dask.py",),
    "pyarrow": ("data/parquet.py", "data/table_files.py", "data/categories.py", "cli/"),
    "matplotlib": ("plots/",),
    "arviz": ("export/",),
    "xarray": ("export/",),
    "formulaic": ("tables/formula.py",),
    "jinja2": ("report/",),
    "typer": ("cli/",),
    "tqdm": ("data/progress.py",),
}


# --- Reading the sources --------------------------------------------------------------------------


class Import(NamedTuple):
    """One imported name in full: ``from ..numerics import special`` is credibly.numerics.special."""

    target: str
    line: int
    at_import_time: bool


def imports_of(path: Path, src: Path) -> list[Import]:
    """Every import of a file, relative ones resolved."""
    package = (src.name, *path.relative_to(src).parent.parts)
    found = []
    for node, at_import_time in walk(ast.parse(path.read_text(encoding="utf-8")), True):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno, at_import_time) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            anchor = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*anchor, *([node.module] if node.module else [])])
            found += [Import(f"{base}.{alias.name}", node.lineno, at_import_time) for alias in node.names]
    return found


def walk(node: ast.AST, at_import_time: bool) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes below, and whether each runs when the module is imported (functions and types for a checker do not)."""
    for child in ast.iter_child_nodes(node):
        later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or for_checkers(child)
        runs = at_import_time and not later
        yield child, runs
        yield from walk(child, runs)


def for_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def modules(src: Path) -> list[Path]:
    return sorted(src.rglob("*.py"))


def room_of(path: Path, src: Path) -> str:
    return path.relative_to(src).parts[0].removesuffix(".py")


def room_named(target: str) -> str:
    """The room that an import from this package reaches; what is at the top but no room is façade."""
    parts = target.split(".")
    room = parts[1] if len(parts) > 1 else ""
    return room if room in MAY_IMPORT.keys() | FREE else "façade"


# --- The checks -----------------------------------------------------------------------------------


def unknown_rooms(src: Path) -> list[str]:
    rooms = {room_of(path, src) for path in modules(src)}
    return sorted(rooms - MAY_IMPORT.keys() - FACADE - FREE)


def upward_imports(src: Path) -> list[str]:
    complaints = []
    for path in modules(src):
        room = room_of(path, src)
        if room not in MAY_IMPORT:
            continue
        for target, line, at_import_time in imports_of(path, src):
            if not at_import_time or target.split(".")[0] != src.name:
                continue
            other = room_named(target)
            if other not in MAY_IMPORT[room] | {room} | FREE:
                complaints.append(f"{path.relative_to(src).as_posix()}:{line}: {room} must not import {other}")
    return complaints


def may_mention(name: str, target: str) -> bool:
    """Whether a rule about the target, or about a package it is part of, admits this file; no rule, no limit."""
    rules = [files for package, files in THIRD_PARTY.items() if f"{target}.".startswith(f"{package}.")]
    return not rules or any(name.startswith(files) for files in rules)


def misplaced_packages(src: Path) -> list[str]:
    complaints = []
    for path in modules(src):
        name = path.relative_to(src).as_posix()
        for target, line, _ in imports_of(path, src):
            if not may_mention(name, target):
                complaints.append(f"{name}:{line}: {target} does not belong here")
    return complaints


# --- The library keeps them -----------------------------------------------------------------------


def test_every_room_is_in_the_table():
    assert unknown_rooms(SRC) == []


def test_arrows_point_downwards():
    assert upward_imports(SRC) == []


def test_other_packages_stay_in_their_rooms():
    assert misplaced_packages(SRC) == []


def test_the_table_has_no_circles():
    """Rooms can be put in an order in which each imports only earlier ones."""
    placed: set[str] = {"façade"}
    rooms = set(MAY_IMPORT)
    while rooms:
        ready = {room for room in rooms if MAY_IMPORT[room] <= placed}
        assert ready, f"these rooms import each other: {sorted(rooms)}"
        placed |= ready
        rooms -= ready


# --- The checks bite ------------------------------------------------------------------------------


@pytest.fixture
def build(tmp_path):
    """A package called credibly made of the given files."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "credibly" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path / "credibly"

    return make


@pytest.mark.parametrize(
    "line",
    [
        "import credibly.estimators",
        "import numpy, credibly.estimators.linear as linear",
        "from credibly import estimators",
        "from credibly.estimators import linear",
        "from credibly.estimators.linear import x",
        "from .. import estimators",
        "from ..estimators import linear",
        "from ..estimators.linear import x as y",
        "if True:\n    from credibly.estimators import x",
        "try:\n    import credibly.estimators\nexcept ImportError:\n    pass",
        "class A:\n    from credibly.estimators import x",
    ],
)
def test_an_upward_import_is_found_however_it_is_spelt(build, line):
    src = build({"inference/laplace.py": line})
    (complaint,) = upward_imports(src)
    assert complaint.startswith("inference/laplace.py:")
    assert complaint.endswith("inference must not import estimators")


@pytest.mark.parametrize("line", ["from . import estimators", "from .estimators import linear"])
def test_relative_imports_count_from_the_files_own_package(build, line):
    assert upward_imports(build({"predictive.py": line})) == ["predictive.py:1: predictive must not import estimators"]
    assert upward_imports(build({"predictive.py": "", "cli/__init__.py": "from ..estimators import linear"})) == []


@pytest.mark.parametrize("line", ["import credibly", "from credibly import Normal", "from credibly.priors import Beta"])
def test_rooms_do_not_import_the_facade_but_the_command_may(build, line):
    assert upward_imports(build({"data/source.py": line})) == ["data/source.py:1: data must not import façade"]
    assert upward_imports(build({"data/source.py": "", "cli/demo.py": line})) == []


def test_imports_inside_functions_may_point_upwards(build):
    lines = "class Model:\n    def report(self):\n        from credibly.report import page\n"
    assert upward_imports(build({"estimators/linear.py": lines})) == []


def test_downward_imports_neighbours_and_the_version_are_fine(build):
    lines = "import numpy\nfrom ..errors import InputError\nfrom . import b\nfrom credibly.model import priors\n"
    src = build({"inference/a.py": lines, "persistence.py": "from credibly._version import __version__"})
    assert upward_imports(src) == []


def test_an_unknown_room_is_found(build):
    src = build({"utils/helpers.py": "", "misc.py": "", "numerics/special.py": "", "__init__.py": ""})
    assert unknown_rooms(src) == ["misc", "utils"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("inference/laplace.py", "from sklearn.cluster import KMeans"),
        ("model/priors.py", "import sklearn"),
        ("cli/demo.py", "from sklearn.linear_model import LogisticRegression"),
        ("errors.py", "from sklearn.exceptions import NotFittedError"),
        ("data/source.py", "import dask.array as da"),
        ("estimators/linear.py", "import pyarrow.parquet"),
        ("diagnostics/scores.py", "def plot():\n    import matplotlib.pyplot as plt"),
    ],
)
def test_a_package_in_the_wrong_room_is_found_even_inside_a_function(build, name, line):
    (complaint,) = misplaced_packages(build({name: line}))
    assert complaint.startswith(f"{name}:") and complaint.endswith("does not belong here")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("estimators/linear.py", "from sklearn.base import BaseEstimator"),
        ("model/basis.py", "from sklearn.base import BaseEstimator"),
        ("errors.py", "from sklearn.exceptions import ConvergenceWarning"),
        ("cli/demo.py", "from sklearn import datasets"),
        ("data/dask.py", "import dask"),
        ("data/parquet.py", "import pyarrow"),
        ("cli/fit.py", "import pyarrow.csv"),
        ("plots/curves.py", "import matplotlib.pyplot as plt"),
    ],
)
def test_a_package_in_its_own_room_is_fine(build, name, line):
    assert misplaced_packages(build({name: line})) == []
