"""What several tests need. Import it as ``from helpers import SHARED, needs_shared``."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import sklearn
from scipy.stats import norm
from sklearn.utils.fixes import parse_version

from credibly.model.likelihoods import Likelihood, Slopes

REPOSITORY = Path(__file__).parents[1]
SHARED = REPOSITORY.parent / "shared"
SHARED_IS_HERE = (SHARED / "reference" / "refload.py").is_file()
WITHOUT_SHARED = "the reference numbers in ../shared are not beside this clone"

SKLEARN_1_6 = parse_version(sklearn.__version__) < parse_version("1.7")
"""Whether this is the oldest scikit-learn supported, whose checks differ in places from those of later ones."""

needs_shared = pytest.mark.needs_shared
"""Marks a test (or, as ``pytestmark = needs_shared``, a file of them) that reads ``../shared``."""


def load_by_path(path: Path) -> ModuleType:
    """Import one file that is not part of any package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_refload() -> ModuleType:
    """``shared/reference/refload.py``, for reference cases that are wanted while tests are collected."""
    return load_by_path(SHARED / "reference" / "refload.py")


class UnitGaussian(Likelihood):
    """y ~ N(f, 1): for this one Laplace is exact, and the evidence is known."""

    def log_prob(self, y, f):
        return norm.logpdf(y, f)

    def slopes(self, y, f):
        return Slopes(y - f, np.ones_like(f))

    def third(self, y, f):
        return np.zeros_like(f)

    def mean(self, f):
        return f
