"""The compiled walk over a table that describes its columns: means, scatters and extremes in one pass.

Where rows are contiguous everything is vectorised along a row, sixteen columns at a time down a tile of rows; where
columns are, a stretch of one column at a time, along which everything is vectorised.

Notation
--------
=======  ==============================================================  ==============
X        rows, contiguous, d ≥ 4; or columns, contiguous                 (n, d); (d, n)
total    sums, then means, of the first tile                             (d,)
scatter  sums of squared deviations from the mean                        (d,)
A        for every column, group by group (`_fused_lines`): the mean of  (5, 4⌈d/4⌉)
         the rows before a tile; sums of deviations from it over the
         tile, and of their squares; minima and maxima so far
=======  ==============================================================  ==============
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import cgutils, types

from credibly.numerics._fused_base import fast, machine_code
from credibly.numerics._fused_lines import AHEAD, lane_column
from credibly.numerics._fused_parts import DONE, count_up, keep, next_part
from credibly.numerics._fused_vectors import WIDTH, WORD, Vectors, group, groups, intrinsic, picked
from credibly.numerics.arrays import Array, Codes

TILE = 64  # rows: what is read of a line of memory by one batch of columns is still cached for the next
BATCH = 4  # groups of columns at a time: what is kept of them fills the registers
BEFORE, TOTAL, SQUARE, LOW, HIGH = range(5)  # rows of A
STRETCH = 480  # of a column: as long as the least and the largest numbers, which are kept for every place in it


@fast
def add_sums(X: Array, total: Array) -> None:
    """Add the rows to the total."""
    n, d = X.shape
    for r in range(0, n - 3, 4):
        x0, x1, x2, x3 = X[r], X[r + 1], X[r + 2], X[r + 3]
        for j in range(d):
            total[j] += (x0[j] + x1[j]) + (x2[j] + x3[j])
    for r in range(n - n % 4, n):
        for j in range(d):
            total[j] += X[r, j]


@fast
def lower(X: Array, low: Array) -> None:
    """The smaller of what is there and what the rows hold; NaN is passed over."""
    n, d = X.shape
    for r in range(0, n - 1, 2):
        x0, x1 = X[r], X[r + 1]
        for j in range(d):
            least = x0[j] if x0[j] < x1[j] else x1[j]
            low[j] = least if least < low[j] else low[j]
    for r in range(n - n % 2, n):
        for j in range(d):
            low[j] = X[r, j] if X[r, j] < low[j] else low[j]


@fast
def upper(X: Array, high: Array) -> None:
    """The larger of what is there and what the rows hold; NaN is passed over."""
    n, d = X.shape
    for r in range(0, n - 1, 2):
        x0, x1 = X[r], X[r + 1]
        for j in range(d):
            most = x0[j] if x0[j] > x1[j] else x1[j]
            high[j] = most if most > high[j] else high[j]
    for r in range(n - n % 2, n):
        for j in range(d):
            high[j] = X[r, j] if X[r, j] > high[j] else high[j]


@fast
def add_squares(X: Array, mean: Array, scatter: Array) -> None:
    """Add the squared deviations of the rows from the mean."""
    n, d = X.shape
    for r in range(0, n - 3, 4):
        x0, x1, x2, x3 = X[r], X[r + 1], X[r + 2], X[r + 3]
        for j in range(d):
            m = mean[j]
            scatter[j] += ((x0[j] - m) ** 2 + (x1[j] - m) ** 2) + ((x2[j] - m) ** 2 + (x3[j] - m) ** 2)
    for r in range(n - n % 4, n):
        for j in range(d):
            scatter[j] += (X[r, j] - mean[j]) ** 2


@machine_code
def _add_rows(  # noqa: PLR0913, PLR0917 - an instruction in all but name
    typing: Any, X: Any, start: Any, d: Any, n: Any, first: Any, A: Any
) -> tuple[Any, Callable[..., Any]]:
    """Add n rows from X[start] on to A, for `BATCH` groups of columns from `first` on; rows further on are sent for."""

    def generate(v: Vectors) -> None:
        X, start, d, n, first, A = v.args
        build, last = v.builder, v.builder.sub(groups(v.builder, d), WORD(1))
        columns, before, kept = [], [], []
        for k in range(BATCH):
            at = build.add(first, WORD(k))
            column, lanes = group(build, build.select(build.icmp_signed("<", at, last), at, last), d)
            places = [v.in_row(A, WORD(row), lanes) for row in range(5)]
            columns.append(column)
            before.append(v.load(A, places[BEFORE]))
            kept.append([(place, v.variable(v.load(A, place))) for place in places[TOTAL:]])
        ahead = build.mul(d, WORD(AHEAD))
        with cgutils.for_range(build, n) as loop:
            row = build.add(start, build.mul(loop.index, d))
            for column, mean, ((_, total), (_, square), (_, low), (_, high)) in zip(columns, before, kept, strict=True):
                here = build.add(row, column)
                v.prefetch(X, build.add(here, ahead))
                x = v.load(X, here)
                gap = build.fsub(x, mean)
                build.store(build.fadd(build.load(total), gap), total)
                build.store(v.plus_product(build.load(square), gap, gap), square)
                build.store(picked(v, "<", x, build.load(low)), low)
                build.store(picked(v, ">", x, build.load(high)), high)
        for place, held in (pair for pairs in kept for pair in pairs):
            v.store(build.load(held), A, place)

    return intrinsic(generate, X, types.intp, types.intp, types.intp, types.intp, A)


@fast
def first_tile(X: Array) -> tuple[Array, Array, Array, Array]:
    """Means, scatters, minima and maxima of a few rows, which are read twice."""
    n, d = X.shape
    mean, scatter, low, high = np.zeros(d), np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
    add_sums(X, mean)
    lower(X, low)
    upper(X, high)
    for j in range(d):
        mean[j] /= n
    add_squares(X, mean, scatter)
    return mean, scatter, low, high


@fast
def merge_tile(total: float, square: float, n: int, mean: float, scatter: float) -> tuple[float, float]:
    """Mean and scatter of n rows in all, from sums over the last ones of deviations from the mean of those before.

    That is Chan, Golub & LeVeque 1983, eq. 2.1. As no tile is larger than what came before it, at most half of the
    squares is taken off again.
    """
    return mean + total / n, scatter + (square - total * total / n)


@fast
def sums(X: Array) -> tuple[Array, Array, Array, Array]:
    """Means, scatters, minima and maxima of the columns, at least four, tile by tile."""
    n, d = X.shape
    mean, scatter, low, high = first_tile(X[: min(n, TILE)])
    A = np.empty((5, -(-d // WIDTH) * WIDTH))
    for lane in range(A.shape[1]):
        A[LOW, lane], A[HIGH, lane] = low[lane_column(lane, d)], high[lane_column(lane, d)]
    for start in range(TILE, n, TILE):
        stop = min(n, start + TILE)
        for lane in range(A.shape[1]):
            A[BEFORE, lane], A[TOTAL, lane], A[SQUARE, lane] = mean[lane_column(lane, d)], 0.0, 0.0
        for first in range(0, A.shape[1] // WIDTH, BATCH):
            _add_rows(X, start * d, d, stop - start, first, A)
        for lane in range(A.shape[1]):
            j = lane_column(lane, d)
            if j >= lane - lane % WIDTH:
                mean[j], scatter[j] = merge_tile(A[TOTAL, lane], A[SQUARE, lane], stop, mean[j], scatter[j])
    for lane in range(A.shape[1]):
        low[lane_column(lane, d)], high[lane_column(lane, d)] = A[LOW, lane], A[HIGH, lane]
    return mean, scatter, low, high


@fast
def take_up(X: Array, cuts: Codes, turn: Codes, patience: tuple[int, int], out: Array) -> None:
    """What `sums` gives of parts that nobody has begun, into their places in `out`; patience as in `_fused_kernels`."""
    for _ in range(patience[0]):
        i = next_part(turn, cuts.size - 1, patience[1])
        if i < 0:
            return
        for k, numbers in enumerate(sums(X[cuts[i] : cuts[i + 1]])):
            keep(numbers, out[i, k])
        count_up(turn, DONE)


# --- Contiguous columns ---------------------------------------------------------------------------


@fast
def total_of(x: Array) -> float:
    """The sum of a stretch."""
    total = 0.0
    for r in range(x.size):
        total += x[r]
    return total


@fast
def squares_of(x: Array, mean: float) -> float:
    """The sum of squared deviations of a stretch."""
    total = 0.0
    for r in range(x.size):
        total += (x[r] - mean) ** 2
    return total


@fast
def widen(x: Array, low: Array, high: Array) -> None:
    """The extremes at every place of a stretch; NaN is passed over."""
    for r in range(x.size):
        low[r] = x[r] if x[r] < low[r] else low[r]
    for r in range(x.size):
        high[r] = x[r] if x[r] > high[r] else high[r]


@fast
def sums_down(X: Array) -> tuple[Array, Array, Array, Array]:
    """What `sums` gives, for columns that are contiguous, (d, n)."""
    d, n = X.shape
    mean, scatter, low, high = np.zeros(d), np.zeros(d), np.empty(d), np.empty(d)
    lows, highs = np.empty(STRETCH), np.empty(STRETCH)
    for j in range(d):
        lows[:], highs[:] = np.inf, -np.inf
        for start in range(0, n, STRETCH):
            x = X[j, start : min(n, start + STRETCH)]
            share = x.size / (start + x.size)
            own = total_of(x) / x.size
            gap = own - mean[j]
            mean[j] += share * gap
            scatter[j] += squares_of(x, own) + gap * gap * start * share
            widen(x, lows, highs)
        low[j], high[j] = lows.min(), highs.max()
    return mean, scatter, low, high
