"""`import credibly` imports no model; every public name is found when it is asked for."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import credibly

MODELS_APART = """
import sys
import credibly
from credibly import BayesianLogisticRegression
loaded = [name for name in sys.modules if name.startswith("credibly.")]
print([name for name in loaded if "gaussian_process" in name or "generative" in name or "comparison" in name])
"""


AT_ONCE = """
import credibly
from threading import Thread

found, wrong = set(), []

def ask(first):
    try:
        for name in credibly.__all__[first:] + credibly.__all__[:first]:
            getattr(credibly, name)
        found.add(credibly.ModelAverage)
    except BaseException as error:
        wrong.append(error)

threads = [Thread(target=ask, args=(first,)) for first in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found), wrong)
"""


@pytest.mark.parametrize("name", sorted(set(credibly.__all__) - {"__version__"}))
def test_a_public_name_is_that_of_its_module(name: str) -> None:
    found = getattr(credibly, name)
    assert found.__name__ == name
    assert getattr(import_module(found.__module__), name) is found
    assert name in dir(credibly)


def test_star_gives_all_names() -> None:
    names: dict[str, object] = {}
    exec("from credibly import *", names)
    assert set(credibly.__all__) <= set(names)


def test_one_model_is_imported_without_the_others() -> None:
    ran = subprocess.run([sys.executable, "-c", MODELS_APART], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'LogisticRegresion'"):
        credibly.LogisticRegresion  # noqa: B018


@pytest.mark.parametrize("name", sorted(credibly._SUBMODULES | credibly._ROOMS))
def test_a_module_is_an_attribute_whether_or_not_it_was_imported(name: str) -> None:
    assert getattr(credibly, name) is import_module(f"credibly.{name}")
    assert name in dir(credibly)


def test_threads_that_ask_at_once_find_the_same() -> None:
    ran = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=True)
    assert ran.stdout == "1 []\n"


def test_no_room_asks_the_package_for_names_while_it_is_imported() -> None:
    """A thread that imports the room would wait for one that asks the package, which waits for the room."""
    package = Path(credibly.__file__).parent
    sources = [path for path in package.rglob("*.py") if "cli" not in path.relative_to(package).parts]
    assert [path.name for path in sources if re.search(r"^from credibly import", path.read_text(), re.M)] == []
