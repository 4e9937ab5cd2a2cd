"""Columns of 0 and 1 that are the levels of one category: ``sex=f``, ``sex=m``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from credibly.numerics.arrays import Array


def indicator_groups(names: Sequence[str], matrix: Array) -> dict[str, list[int]]:
    """Which columns are the levels of one category: named ``category=level``, one of them 1 in every row.

    Parameters
    ----------
    names : sequence of str
    matrix : (n, d) array

    Returns
    -------
    dict of str to list of int
        For every category the places of its columns.

    Examples
    --------
    >>> indicator_groups(["age", "sex=f", "sex=m"], np.array([[31.0, 0.0, 1.0], [44.0, 1.0, 0.0]]))
    {'sex': [1, 2]}
    """
    found: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        category, equals, _ = name.partition("=")
        if category and equals:
            found.setdefault(category, []).append(j)
    return {category: places for category, places in found.items() if len(places) > 1 and _one_each(matrix[:, places])}


def _one_each(cells: Array) -> bool:
    return bool(np.isin(cells, (0.0, 1.0)).all() and (cells.sum(axis=1) == 1).all())
