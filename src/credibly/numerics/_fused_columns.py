"""The compiled walk over a table that describes its columns: means, scatters and extremes in one pass.

Where rows are contiguous they are taken four at a time, and everything is vectorised along a row; where columns are,
a stretch of one column at a time, along which everything is vectorised.

Notation
--------
=======  ======================================================  =======
X        rows, contiguous; or columns, contiguous                (n, d); (d, n)
total    sums, then means, of a tile                             (d,)
scatter  sums of squared deviations from the mean                (d,)
=======  ======================================================  =======
"""

import numpy as np

from credibly.numerics._fused_base import fast
from credibly.numerics.arrays import Array

TILE = 128  # rows: read twice, the second time from the cache
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


@fast
def sums(X: Array) -> tuple[Array, Array, Array, Array]:
    """Means, scatters, minima and maxima of the columns; tiles are merged as Chan, Golub & LeVeque 1983, eq. 2.1."""
    n, d = X.shape
    mean, scatter, total, part = np.zeros(d), np.zeros(d), np.empty(d), np.empty(d)
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        tile = X[start:stop]
        for j in range(d):
            total[j] = part[j] = 0.0
        add_sums(tile, total)
        lower(tile, low)
        upper(tile, high)
        for j in range(d):
            total[j] /= stop - start
        add_squares(tile, total, part)
        share = (stop - start) / stop
        for j in range(d):
            gap = total[j] - mean[j]
            mean[j] += share * gap
            scatter[j] += part[j] + gap * gap * start * share
    return mean, scatter, low, high


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
