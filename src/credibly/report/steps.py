"""A change of a column that a reader can picture: one standard deviation, from no to yes, or one level for another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.numerics.arrays import Array
from credibly.report.categories import Group
from credibly.report.material import Material
from credibly.report.words import number


class Step(NamedTuple):
    """A column, and by how much it is changed."""

    name: str
    place: int  # of the column
    size: float
    indicator: bool  # 0 or 1
    middle: float  # of the column
    constant: bool
    group: Group | None = None  # the category whose level this is

    @property
    def subject(self) -> str:
        """The beginning of a sentence, to be followed by a verb."""
        if self.group is not None:
            return f"{self.name} instead of {self.group.base_name}"
        if self.indicator:
            return f"{self.name} (1 instead of 0)"
        return f"An increase of one standard deviation in {self.name} ({number(self.size)})"

    @property
    def short(self) -> str:
        """The change, for a cell."""
        if self.group is not None:
            return f"instead of {self.group.level(self.group.base_name)}"
        return "0 → 1" if self.indicator else f"+{number(self.size)}"

    @property
    def parts(self) -> list[tuple[int, float]]:
        """Columns that change, and by how much: a level takes the place of another."""
        own = [(self.place, self.size)]
        return own if self.group is None or self.group.base is None else [*own, (self.group.base, -1.0)]

    def put(self, rows: Array, value: float) -> Array:
        """Rows with this value in the column; of a category, 0 stands for the level that others are told against."""
        new = rows.copy()
        if self.group is not None:
            new[:, list(self.group.places)] = 0.0
            if self.group.base is not None:
                new[:, self.group.base] = 1.0 - value
        new[:, self.place] = value
        return new


def steps(material: Material) -> list[Step]:
    """A step for every column; of a category, for every level but the one that others are told against."""
    if material.matrix is None:
        return _sparse_steps(material)
    X = material.matrix
    group = {j: it for it in material.groups for j in it.places}
    bases = {it.base for it in material.groups}
    found = []
    for j, name in enumerate(material.names):
        if j in bases:
            continue
        known = X[:, j][~np.isnan(X[:, j])]
        sd, indicator = float(known.std()), bool(np.isin(known, (0.0, 1.0)).all()) and len(np.unique(known)) == 2
        middle = 0.0 if indicator else float(known.mean())
        found.append(Step(name, j, 1.0 if indicator else sd, indicator, middle, sd == 0, group.get(j)))
    return found


def _sparse_steps(material: Material) -> list[Step]:
    """The same for a sparse matrix that is too large to be written out."""
    found = describe(MemoryRows(csr_array(material.X, dtype=np.float64), material.codes))
    mean, sd = found.mean, np.where(found.constant, 0.0, found.scale)
    return [
        Step(name, j, float(s), False, float(m), bool(s == 0))
        for j, (name, m, s) in enumerate(zip(material.names, mean, sd, strict=True))
    ]
