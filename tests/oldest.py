"""The oldest versions that pyproject.toml allows, as constraints for pip.

``python tests/oldest.py > constraints.txt``, then ``pip install --constraint constraints.txt --editable '.[test]'``:
what ``make test-oldest`` does. Every ``name>=1.2`` becomes ``name==1.2``, so that a bound is a release that was run.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
LEFT_OUT = {"dev", "docs"}  # tools that no user of the library and no test needs
LOWER_BOUND = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(\[[^]]*\])?>=(?P<version>[0-9.]+)")


def requirements(pyproject: Path = PYPROJECT) -> list[str]:
    """What the library, its extras and its tests ask for."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(one for name, them in extras.items() if name not in LEFT_OUT for one in them)]
    return [one for one in asked if not one.startswith(f"{project['name']}[")]


def constraints(asked: Iterable[str]) -> list[str]:
    """Each lower bound as the version itself.

    Examples
    --------
    >>> constraints(["dask[array]>=2024.8", "numpy>=2.1", "numpy>=2.1"])
    ['dask==2024.8', 'numpy==2.1']
    """
    found: dict[str, str] = {}
    for one in asked:
        bound = LOWER_BOUND.fullmatch(one)
        if bound is None:
            raise ValueError(f"{one!r} must be a name and one lower bound (name>=1.2), so that the oldest can be tried")
        if found.setdefault(bound["name"], bound["version"]) != bound["version"]:
            raise ValueError(f"{bound['name']} has two lower bounds: {found[bound['name']]} and {bound['version']}")
    return [f"{name}=={version}" for name, version in sorted(found.items())]


if __name__ == "__main__":
    sys.stdout.write("\n".join(constraints(requirements())) + "\n")
