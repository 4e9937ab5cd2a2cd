"""Separated data: directions in which the likelihood never stops growing.

Notation
--------
====  ===========================================================================  ==========
B     one weight vector per class                                                  (K, D)
Z     rows, ones last                                                              (n, D)
gap   (B_y - B_k)ᵀz for every row and every class k other than its own             (n·(K-1),)
====  ===========================================================================  ==========

A direction with all gaps ≥ 0 and some > 0 separates: moving along it never lowers the likelihood. With all gaps > 0
separation is complete, otherwise quasi-complete (Albert & Anderson 1984; as linear programmes, Konis 2007).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, hstack, issparse, vstack

from credibly.errors import CrediblyError, InputError
from credibly.numerics.arrays import Array, Codes

FOUND, INFEASIBLE = 0, 2  # of scipy.optimize.linprog
ROUNDING = 1e-9  # of a gap, against the terms it is a sum of
STRICT = 1e-7  # gaps below that, on columns scaled to one and a mean gap of one, are the solver's rounding


@dataclass(frozen=True)
class Separation:
    """What `separation` found; truthy when the classes are separated."""

    kind: str  # "none", "quasi-complete" or "complete"
    columns: list[Any]  # names, or indices where there are none
    rows: Codes  # rows on the right side by a margin
    direction: Array  # (D,) for two classes, (K, D) for more; intercept last

    def __bool__(self) -> bool:
        return self.kind != "none"

    def __str__(self) -> str:
        if not self:
            return "The classes overlap: the maximum-likelihood estimate is finite."
        names = ", ".join(map(repr, self.columns)) or "the intercept alone"
        return (
            f"{self.kind} separation: a combination of {names} splits the classes "
            f"({len(self.rows)} rows strictly on their side), so the likelihood has no finite maximum."
        )


def separation(X: Any, y: ArrayLike, fit_intercept: bool = True) -> Separation:
    """Decide by linear programming whether the classes are separated, and by which columns.

    Among all separating directions the one of least absolute sum on scaled columns is named, which involves few
    columns.

    Parameters
    ----------
    X : (n, d) array or frame
    y : (n,) labels
    fit_intercept : bool

    Examples
    --------
    >>> separation([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).kind
    'complete'
    >>> separation([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]).kind
    'none'
    """
    names = [str(name) for name in getattr(X, "columns", [])]
    table: Array = np.asarray(X.toarray() if issparse(X) else X, dtype=float)
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if table.ndim != 2 or len(table) != len(codes) or len(classes) < 2 or not np.isfinite(table).all():
        raise InputError(
            f"separation needs a finite table with one row per label and at least two classes; got a table of shape "
            f"{table.shape}, {len(codes)} labels and {len(classes)} classes."
        )
    return _separate(table, codes, len(classes), fit_intercept, names)


def _separate(table: Array, codes: Codes, n_classes: int, intercept: bool, names: Sequence[str]) -> Separation:
    center = np.median(table, axis=0) if intercept else np.zeros(table.shape[1])
    scale = _typical(np.abs(table - center))
    Z = (table - center) / scale
    Z = np.column_stack([Z, np.ones(len(Z))]) if intercept else Z
    gaps = _gap_matrix(Z, codes, n_classes)
    kind, B = "complete", _one_column(Z, codes) if n_classes == 2 and intercept else None
    if B is None:
        B = _all_gaps_positive(gaps)
    if B is None:
        kind, B = "quasi-complete", _no_gap_negative(gaps)
    if B is None:
        return Separation("none", [], np.array([], dtype=np.intp), np.zeros(Z.shape[1]))
    B = B.reshape(-1, Z.shape[1])
    margins = (gaps @ B.reshape(-1)).reshape(-1, len(Z))
    strict = np.flatnonzero(margins.min(axis=0) > STRICT)
    involved = np.flatnonzero(np.abs(B[:, : table.shape[1]]).max(axis=0) > STRICT * np.abs(B).max())
    columns = [names[int(j)] for j in involved] if names else [int(j) for j in involved]
    return Separation(kind, columns, strict, _in_data_units(B, center, scale, intercept))


def _typical(deviation: Array) -> Array:
    """A spread that one outlying row does not set: the median deviation, or the mean where most are zero."""
    scale = np.median(deviation, axis=0)
    scale = np.where(scale > 0, scale, deviation.mean(axis=0))
    return np.where(scale > 0, scale, 1.0)


def _keeps_its_side(gaps: csr_array, B: Array) -> bool:
    """Whether no gap is negative beyond rounding: the solver's own tolerance is far coarser than the data's digits."""
    return bool((gaps @ B >= -ROUNDING * (abs(gaps) @ np.abs(B))).all())


def _one_column(Z: Array, codes: Codes) -> Array | None:
    """A threshold on one column that splits two classes, if there is one: the plainest explanation."""
    low, high = Z[codes == 0, :-1], Z[codes == 1, :-1]
    rising, falling = high.min(axis=0) - low.max(axis=0), low.min(axis=0) - high.max(axis=0)
    widest = np.maximum(rising, falling)
    j = int(widest.argmax())
    if widest[j] <= STRICT:
        return None
    B = np.zeros(Z.shape[1])
    B[j] = 2.0 / widest[j] * (1 if rising[j] > falling[j] else -1)  # so that the smallest gap is one
    middle = (high[:, j].min() + low[:, j].max()) / 2 if B[j] > 0 else (low[:, j].min() + high[:, j].max()) / 2
    B[-1] = -B[j] * middle
    return B


def _gap_matrix(Z: Array, codes: Codes, n_classes: int) -> csr_array:
    """G with G vec(B) = gaps; for two classes B is their difference."""
    if n_classes == 2:
        return csr_array(Z * (2.0 * codes - 1.0)[:, None])
    rows = csr_array(Z)
    blocks = []
    for shift in range(1, n_classes):
        contrast = np.zeros((len(codes), n_classes))
        contrast[np.arange(len(codes)), codes] = 1.0
        contrast[np.arange(len(codes)), (codes + shift) % n_classes] = -1.0
        blocks.append(hstack([rows.multiply(contrast[:, [k]]) for k in range(n_classes)]))
    return csr_array(vstack(blocks))


def _all_gaps_positive(gaps: csr_array) -> Array | None:
    """The sparsest direction with every gap at least one (a direction has no length of its own)."""
    return _sparsest(gaps, least_gap=1.0)


def _no_gap_negative(gaps: csr_array) -> Array | None:
    """The sparsest direction with no gap below zero and a mean gap of one."""
    return _sparsest(gaps, least_gap=0.0, mean_gap=1.0)


def _sparsest(gaps: csr_array, least_gap: float, mean_gap: float | None = None) -> Array | None:
    """min |B|₁ under these bounds on the gaps; None when no B keeps them."""
    from scipy.optimize import linprog

    n, size = gaps.shape
    both = hstack([gaps, -gaps])  # B = positive part - negative part
    mean = None if mean_gap is None else np.asarray(both.sum(axis=0)).reshape(1, -1) / n
    found = linprog(
        np.ones(2 * size),
        A_ub=-both,
        b_ub=np.full(n, -least_gap),
        A_eq=mean,
        b_eq=None if mean_gap is None else [mean_gap],
    )
    if found.status not in {FOUND, INFEASIBLE}:
        raise CrediblyError(f"The linear programme that looks for separated classes failed: {found.message}")
    if found.status == INFEASIBLE or found.x is None:
        return None
    B = np.asarray(found.x[:size] - found.x[size:])
    return B if _keeps_its_side(gaps, B) else None


def _in_data_units(B: Array, center: Array, scale: Array, intercept: bool) -> Array:
    slopes = B[:, : len(scale)] / scale
    if intercept:
        slopes = np.column_stack([slopes, B[:, -1] - slopes @ center])
    return slopes[0] if len(slopes) == 1 else slopes
