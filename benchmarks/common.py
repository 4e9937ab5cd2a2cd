"""What the scripts beside the harness share."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def logistic_table(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent Gaussian columns, and labels from a logistic model."""
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d))
    f = X @ rng.normal(size=d)
    return X, (rng.random(n) < 1 / (1 + np.exp(-f * 1.5 / f.std()))).astype(int)
