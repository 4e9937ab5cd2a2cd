"""Settings and fixtures for every test; plain helpers are in ``helpers.py``."""

import os
import shutil
from types import ModuleType

import pytest
from hypothesis import settings

from helpers import SHARED_IS_HERE, WITHOUT_SHARED, load_refload

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in BROWSERS if (path := shutil.which(name))), None)
WITHOUT_CHROMIUM = "Chromium is not on this machine (on Debian: apt-get install chromium)"

os.environ.setdefault("MPLBACKEND", "Agg")  # no window, whatever the machine has

# The same examples on every run, so that a failure on one machine is a failure on all;
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not SHARED_IS_HERE and item.get_closest_marker("needs_shared"):
        pytest.skip(WITHOUT_SHARED)
    if CHROMIUM is None and item.get_closest_marker("browser"):
        pytest.skip(WITHOUT_CHROMIUM)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser."""
    if CHROMIUM is None:
        pytest.skip(WITHOUT_CHROMIUM)
    return CHROMIUM


@pytest.fixture(scope="session")
def refload() -> ModuleType:
    """The loader of the reference files: ``refload.load(name)``, ``refload.design(spec)``."""
    if not SHARED_IS_HERE:
        pytest.skip(WITHOUT_SHARED)
    return load_refload()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out for want of reference numbers or a browser; an empty family of cases counts once."""
    skipped = terminalreporter.stats.get("skipped", [])
    reference = sum(it.nodeid.startswith("tests/reference/") or WITHOUT_SHARED in str(it.longrepr) for it in skipped)
    browser = sum(WITHOUT_CHROMIUM in str(it.longrepr) for it in skipped)
    if reference and not SHARED_IS_HERE:
        line = f"At least {reference} reference tests were left out: {WITHOUT_SHARED}."
        terminalreporter.write_line(line, yellow=True)
    if browser:
        line = f"{browser} tests of reports in a browser were left out: {WITHOUT_CHROMIUM}."
        terminalreporter.write_line(line, yellow=True)
