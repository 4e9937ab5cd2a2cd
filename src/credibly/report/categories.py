"""Categories that became columns of 0 and 1: which belong together, and which level the others are told against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from credibly.numerics.arrays import Array
from credibly.plots.indicators import indicator_groups


class Category(NamedTuple):
    """A column of a table that a model sees as several, one for each level.

    Attributes
    ----------
    column : str
        Its name.
    names : tuple of str
        Of the model's columns, ``column=level``.
    left_out : str, optional
        The level without a column of its own, as ``column=level``: the others are read against it. None where all
        levels have one.

    Examples
    --------
    >>> Category("sex", ("sex=f", "sex=m")).left_out is None
    True
    """

    column: str
    names: tuple[str, ...]
    left_out: str | None = None


class Group(NamedTuple):
    """A category among the columns of a model."""

    column: str
    places: tuple[int, ...]
    base: int | None  # the column of the level that others are told against; None where it has no column
    base_name: str

    def level(self, name: str) -> str:
        """The level in a name such as ``column=level``."""
        return name.removeprefix(f"{self.column}=")


def groups_of(categories: Sequence[Category], names: Sequence[str], matrix: Array | None) -> tuple[Group, ...]:
    """The categories that are told of, and those that show themselves in the names and cells."""
    if matrix is None:
        return ()
    place = {name: j for j, name in enumerate(names)}
    known = [it for it in categories if it.names and all(name in place for name in it.names)]
    found = [_group(it.column, [place[name] for name in it.names], it.left_out, names, matrix) for it in known]
    taken = {j for group in found for j in group.places}
    for column, places in indicator_groups(names, matrix).items():
        if not taken & set(places):
            found.append(_group(column, places, None, names, matrix))
    return tuple(found)


def _group(column: str, places: list[int], left_out: str | None, names: Sequence[str], matrix: Array) -> Group:
    if left_out is not None:
        return Group(column, tuple(places), None, left_out)
    base = places[int(np.nansum(matrix[:, places], axis=0).argmax())]  # the commonest
    return Group(column, tuple(places), base, names[base])


def categories_of(design: Any) -> tuple[Category, ...]:
    """The categories of a table's design that stand alone; products of them are left as they are."""
    from credibly.tables.design import ColumnsDesign
    from credibly.tables.formula import FormulaDesign

    if isinstance(design, ColumnsDesign) and design.encoding != "as they are":
        return tuple(
            _category(it.name, it.levels, design.encoding != "reference")
            for it in design.columns
            if it.kind == "category"
        )
    if isinstance(design, FormulaDesign):
        from credibly.tables.formula_coding import labels

        levels, found = dict(design.levels), []
        for block in design.products:
            factor, whole = block[0]
            if len(block) == 1 and factor in levels:
                column = labels(factor, levels[factor], {})[0].removesuffix(f"={levels[factor][0]}")
                found.append(_category(column, levels[factor], whole))
        return tuple(found)
    return ()


def _category(column: str, levels: Sequence[str], whole: bool) -> Category:
    names = tuple(f"{column}={level}" for level in levels)
    return Category(column, names) if whole else Category(column, names[1:], names[0])


def bent_terms(design: Any) -> tuple[str, ...]:
    """What a formula bends or multiplies: ``poly(age, 2)``, ``age:sex``."""
    from credibly.tables.formula import FormulaDesign
    from credibly.tables.formula_safety import parsed
    from credibly.tables.formula_values import function_name

    if not isinstance(design, FormulaDesign):
        return ()
    straight = {"", "C", "center", "scale"}  # functions; no function is a column as it is
    return tuple(
        ":".join(factor for factor, _ in block)
        for block in design.products
        if len(block) > 1 or function_name(parsed(block[0][0])) not in straight
    )
