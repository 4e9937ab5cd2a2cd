"""A change of a column that a reader can picture: one standard deviation, or from no to yes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from credibly.numerics.arrays import Array
from credibly.report.material import Material
from credibly.report.words import number


class Step(NamedTuple):
    """A column, and by how much it is changed."""

    name: str
    size: float
    indicator: bool  # 0 or 1
    middle: float  # of the column
    constant: bool

    @property
    def subject(self) -> str:
        """The beginning of a sentence, to be followed by a verb."""
        if self.indicator:
            return f"{self.name} (1 instead of 0)"
        return f"An increase of one standard deviation in {self.name} ({number(self.size)})"

    @property
    def short(self) -> str:
        """The change, for a cell."""
        return "0 → 1" if self.indicator else f"+{number(self.size)}"


def steps(material: Material) -> list[Step]:
    """A step for every column."""
    if material.matrix is None:
        return _sparse_steps(material)
    X = material.matrix
    found = []
    for j, name in enumerate(material.names):
        known = X[:, j][~np.isnan(X[:, j])]
        sd, indicator = float(known.std()), bool(np.isin(known, (0.0, 1.0)).all()) and len(np.unique(known)) == 2
        middle = 0.0 if indicator else float(known.mean())
        found.append(Step(name, 1.0 if indicator else sd, indicator, middle, sd == 0))
    return found


def _sparse_steps(material: Material) -> list[Step]:
    """The same for a sparse matrix that is too large to be written out."""
    X = material.X.astype(float)
    mean = np.asarray(X.mean(axis=0)).ravel()
    # The difference of two sums may round to less than nothing.
    sd: Array = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2, 0.0))
    return [
        Step(name, float(s), False, float(m), bool(s == 0)) for name, m, s in zip(material.names, mean, sd, strict=True)
    ]
