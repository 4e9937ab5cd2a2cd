"""What several tests need. Import it as ``from helpers import SHARED, needs_shared``."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.stats import norm
from sklearn.utils.fixes import parse_version

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.inference.linear.design import ClassMap, Design, Standardization
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.priors import PriorDensity
from credibly.model.likelihoods import Likelihood, Slopes
from credibly.model.likelihoods.kinds import AnyLikelihood, n_outputs

REPOSITORY = Path(__file__).parents[1]
SHARED = REPOSITORY.parent / "shared"
SHARED_IS_HERE = (SHARED / "reference" / "refload.py").is_file()
WITHOUT_SHARED = "the reference numbers in ../shared are not beside this clone"

SKLEARN_1_6 = parse_version(sklearn.__version__) < parse_version("1.7")
"""Whether this is the oldest scikit-learn supported, whose checks differ in places from those of later ones."""

needs_shared = pytest.mark.needs_shared
"""Marks a test (or, as ``pytestmark = needs_shared``, a file of them) that reads ``../shared``."""


def some(cases: Iterable[Any], *always: Any) -> list[Any]:
    """Cases of a test: these always, the others with the slow ones (make test-slow)."""
    return [case if case in always else pytest.param(case, marks=pytest.mark.slow) for case in cases]


def load_by_path(path: Path) -> ModuleType:
    """Import one file that is not part of any package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ended(script: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, which is to say that all is well, and to end."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "well\n", done.stderr
    assert done.returncode == 0, done.stderr
    return done


def interrupted(work: Callable[[], None], trials: int, longest: float) -> int:
    """Do some work over and over, so many times until Ctrl-C comes at a random moment; how often it was heard."""
    moments, heard = np.random.default_rng(0).uniform(1e-6, longest, trials).tolist(), 0
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    for moment in moments:
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, moment)
                for _ in range(20):
                    work()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            heard += 1
    return heard


def load_refload() -> ModuleType:
    """``shared/reference/refload.py``, for reference cases that are wanted while tests are collected."""
    return load_by_path(SHARED / "reference" / "refload.py")


class UnitGaussian(Likelihood):
    """y ~ N(f, 1): for this one Laplace is exact, and the evidence is known."""

    two_labels = False

    def log_prob(self, y, f):
        return norm.logpdf(y, f)

    def slopes(self, y, f):
        return Slopes(y - f, np.ones_like(f))

    def third(self, y, f):
        return np.zeros_like(f)

    def mean(self, f):
        return f


def raw_objective(likelihood: AnyLikelihood, rows: MemoryRows, prior: PriorDensity | None) -> Objective:
    """An objective whose free weights multiply the columns as they are, one weight vector for each class."""
    d = rows.X.shape[1]
    standard = Standardization(np.zeros(d), np.ones(d), intercept=False)
    design = Design(standard, ClassMap.separate(n_outputs(likelihood)), describe(rows))
    return Objective(rows, design, likelihood, prior)
