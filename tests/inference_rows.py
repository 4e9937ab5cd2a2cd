"""Rows in memory as `fit_linear` takes them. Import it as ``from inference_rows import data``."""

import numpy as np

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.inference.linear.spec import Data


def data(X, y, weight=None, offset=None) -> Data:
    rows = MemoryRows(np.asarray(X, dtype=float), np.asarray(y), weight, offset)
    counted = len(rows.y) if weight is None else int((np.asarray(weight) > 0).sum())
    return Data(rows, describe(rows), tuple(f"x{j}" for j in range(rows.X.shape[1])), counted)
