"""`import credibly` imports no model; every public name is found when it is asked for."""

import subprocess
import sys
from importlib import import_module

import pytest

import credibly

MODELS_APART = """
import sys
import credibly
from credibly import BayesianLogisticRegression
loaded = [name for name in sys.modules if name.startswith("credibly.")]
print([name for name in loaded if "gaussian_process" in name or "generative" in name or "comparison" in name])
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
