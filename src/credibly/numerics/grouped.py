"""Weighted sums, means and scatters of rows by group, merged and taken apart without cancellation.

Notation
--------
=====  ======================================================  =================
codes  group of every row, 0 … K-1                             (n,)
n, m   total weight and mean of a group                        (K,), (K, d)
S      scatter, the weighted sum of (z - m)(z - m)ᵀ            (d, d), (K, d, d)
=====  ======================================================  =================

A group without weight has mean and scatter zero, so that equal data give equal sums on every road.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array

from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import DesignMatrix, is_sparse, scratch

WEIGHT_ROUNDING = 1e-13  # relative: how well a sum of weights is known
REMOVAL_ROUNDING = 1e-9  # relative: what removing rows may leave behind of the sums they were part of


class Together(NamedTuple):
    """Weight and mean of two sets of rows together, and what their means add to the scatter: factor · gap gapᵀ."""

    weight: Array
    mean: Array
    gap: Array
    factor: Array


def together(weight_a: Array, mean_a: Array, weight_b: Array, mean_b: Array) -> Together:
    """Chan, Golub & LeVeque 1983, eq. 2.1: weights are of shape (…, 1) or that of the means.

    Examples
    --------
    >>> both = together(np.array([2.0]), np.array([1.0]), np.array([1.0]), np.array([4.0]))
    >>> float(both.mean[0]), float(both.factor[0] * both.gap[0] ** 2)
    (2.0, 6.0)
    """
    weight = weight_a + weight_b
    share = np.divide(weight_b, weight, out=np.zeros_like(weight), where=weight != 0)
    gap = mean_b - mean_a
    return Together(weight, mean_a + share * gap, gap, weight_a * share)


def apart(weight: Array, mean: Array, weight_b: Array, mean_b: Array) -> Together:
    """Weight and mean of what is left when b is taken away, and what the means had added to the scatter."""
    left = weight - weight_b
    some = left > WEIGHT_ROUNDING * weight
    ratio = np.divide(weight_b, left, out=np.zeros_like(left), where=some)
    mean_a = np.where(some, mean + ratio * (mean - mean_b), 0.0)
    share = np.divide(weight_b, weight, out=np.zeros_like(weight), where=weight != 0)
    return Together(np.where(some, left, 0.0), mean_a, np.where(some, mean_b - mean_a, 0.0), left * share)


def removal_rounding(scatter: Array, left: Together, mean: Array, mean_b: Array) -> Array:
    """What is noise in a scatter that rows were taken out of: its own rounding, and that of means far from zero."""
    offset = left.factor * np.abs(left.gap) * (np.abs(mean) + np.abs(mean_b))
    return np.asarray(1000 * np.finfo(float).eps * (scatter + offset))


def membership(codes: Codes, weight: Array | None, n_groups: int) -> csc_array:
    """(K, n): the weight of every row in its group; a product with it is a sum over groups.

    Examples
    --------
    >>> membership(np.array([0, 1, 0]), None, 2) @ np.array([1.0, 10.0, 100.0])
    array([101.,  10.])
    """
    n = len(codes)
    weights = np.ones(n) if weight is None else weight
    return csc_array((weights, codes, np.arange(n + 1)), shape=(n_groups, n))


def dense(X: DesignMatrix) -> Array:
    """A block of rows as an ordinary array of float64."""
    return np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)


def group_sums(member: csc_array, Z: DesignMatrix) -> Array:
    """Sums of rows by group, (K, d)."""
    total = member @ Z
    return np.asarray(total.toarray() if is_sparse(total) else total, dtype=float)


def group_means(member: csc_array, Z: Array, weight: Array) -> Array:
    """Means of rows by group, (K, d); `weight` is (K, 1) or (K, d)."""
    sums = group_sums(member, Z)
    return np.divide(sums, weight, out=np.zeros_like(sums), where=weight != 0)


def refined_means(member: csc_array, Z: Array, weight: Array, codes: Codes) -> Array:
    """Means of rows by group, (K, d), to the rounding of the mean itself: a second look at what the first left over."""
    mean = group_means(member, Z, weight)
    return mean + group_means(member, deviations(Z, mean, codes), weight)


def deviations(Z: Array, mean: Array, codes: Codes) -> Array:
    """Rows less the means of their groups, in scratch memory: to be used up at once."""
    out = scratch(*Z.shape)
    np.take(mean, codes, axis=0, out=out, mode="clip")
    return np.subtract(Z, out, out=out)


def gram(D: Array, weight: Array | None) -> Array:
    """Dᵀ diag(weight) D; `D` is overwritten."""
    if weight is not None:
        D *= np.sqrt(weight)[:, None]
    return np.asarray(D.T @ D)


def taken(values: Array, order: Codes) -> Array:
    """Entries along the first axis in this order, zeros where it says -1."""
    out = np.zeros((len(order), *values.shape[1:]))
    known = order >= 0
    out[known] = values[order[known]]
    return out


class Pattern(NamedTuple):
    """Rows that lack the same cells."""

    rows: Codes
    observed: Codes  # columns


def patterns(X: Array) -> list[Pattern]:
    """The rows of a table, grouped by which of their cells are observed.

    Examples
    --------
    >>> [p.observed.tolist() for p in patterns(np.array([[1.0, np.nan], [2.0, 3.0]]))]
    [[0], [0, 1]]
    """
    seen: AnyArray = ~np.isnan(X)
    if seen.all():
        return [Pattern(np.arange(len(X)), np.arange(X.shape[1]))]
    packed = np.ascontiguousarray(np.packbits(seen, axis=1))
    keys = packed.view([("", packed.dtype)] * packed.shape[1]).reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which))
    parts = np.split(order, ends[:-1])
    return [Pattern(rows, np.flatnonzero(seen[i])) for rows, i in zip(parts, first, strict=True)]
