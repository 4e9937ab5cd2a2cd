"""Settings and fixtures for every test; plain helpers are in ``helpers.py``."""

import os
from types import ModuleType

import pytest
from hypothesis import settings

from helpers import SHARED_IS_HERE, WITHOUT_SHARED, load_refload

os.environ.setdefault("MPLBACKEND", "Agg")  # no window, whatever the machine has

# The same examples on every run, so that a failure on one machine is a failure on all;
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not SHARED_IS_HERE and item.get_closest_marker("needs_shared"):
        pytest.skip(WITHOUT_SHARED)


@pytest.fixture(scope="session")
def refload() -> ModuleType:
    """The loader of the reference files: ``refload.load(name)``, ``refload.design(spec)``."""
    if not SHARED_IS_HERE:
        pytest.skip(WITHOUT_SHARED)
    return load_refload()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what a clone without the reference numbers did not test; a family of cases that is empty counts once."""
    if SHARED_IS_HERE:
        return
    skipped = terminalreporter.stats.get("skipped", [])
    left_out = sum(it.nodeid.startswith("tests/reference/") or WITHOUT_SHARED in str(it.longrepr) for it in skipped)
    if left_out:
        line = f"At least {left_out} reference tests were left out: {WITHOUT_SHARED}."
        terminalreporter.write_line(line, yellow=True)
