"""A tile of the design, compiled: rows side by side, so that what follows is vectorised along them.

Numba leaves the vectorising of straight-line code switched off, hence a 4 by 4 transposition in LLVM's own words.

Notation
--------
====  ==============================================================  ================
X     rows as they came, in one flat stretch of memory with steps     (b, d)
Z     a tile of the design: standardised columns, then the ones       (≥ D, TILE)
====  ==============================================================  ================
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types

from credibly.numerics._fused_base import fast, machine_code
from credibly.numerics._fused_vectors import WIDTH, WORD, Vectors, intrinsic, turned
from credibly.numerics.arrays import Array

# Rows of a tile. Long, so that the sums across vector lanes at the end of each dot product cost little; 240 rows of
# D = 200 still fit in half a megabyte of L2; and no power of two, whose columns would compete for the same cache lines.
TILE = 240
LANES = 16  # the last tile is as long as its rows, rounded up to this: what an unrolled vector loop eats in one bite

Steps = tuple[int, int]  # from a row to the next, and from a column to the next; one of them is 1


@machine_code
def _turn(  # noqa: PLR0913, PLR0917 - an instruction in all but name
    typing: Any, X: Any, start: Any, step: Any, column: Any, frame: Any, Z: Any, to: Any
) -> tuple[Any, Callable[..., Any]]:
    """Z[column + i, to + r] = (X[start + r·step + i] - frame[0, column + i]) · frame[1, column + i], i and r < 4."""

    def generate(v: Vectors) -> None:
        X, start, step, column, frame, Z, to = v.args
        center, inverse = (v.load(frame, v.in_row(frame, WORD(k), column)) for k in range(2))
        build = v.builder
        z = [build.fmul(build.fsub(v.load(X, row), center), inverse) for row in v.rows(start, step, WIDTH)]
        for i, vector in enumerate(turned(v, z)):
            v.store(vector, Z, v.in_row(Z, build.add(column, WORD(i)), to))

    return intrinsic(generate, X, types.intp, types.intp, types.intp, frame, Z, types.intp)


@fast
def new_frame(center: Array, scale: Array) -> Array:
    """Centres and inverse scales, (2, d)."""
    frame = np.empty((2, center.size))
    for i in range(center.size):  # an assignment of whole arrays would take seconds to compile, for its error messages
        frame[0, i], frame[1, i] = center[i], 1.0 / scale[i]
    return frame


@fast
def fill(X: Array, steps: Steps, rows: tuple[int, int], frame: Array, Z: Array) -> int:
    """The design of the tile whose first row and number of rows these are; its length, past rows padded with zeros."""
    start, n = rows
    d = frame.shape[1]
    if steps[0] == 1:
        _straight(X, steps[1], start, n, frame, Z)
    else:
        _turned(X, steps, start, n, frame, Z)
    length = min(TILE, -(-n // LANES) * LANES)
    for i in range(d):
        for r in range(n, length):
            Z[i, r] = 0.0
    return length


@fast
def _straight(X: Array, step: int, start: int, n: int, frame: Array, Z: Array) -> None:
    """Columns of X that are contiguous, centred and scaled, as rows of Z."""
    for i in range(frame.shape[1]):
        center, inverse = frame[0, i], frame[1, i]
        column, z = X[i * step + start : i * step + start + n], Z[i]
        for r in range(n):
            z[r] = (column[r] - center) * inverse


@fast
def _turned(X: Array, steps: Steps, start: int, n: int, frame: Array, Z: Array) -> None:
    """The same where rows are contiguous (or d is 1); four by four where four fit."""
    d, step, across = frame.shape[1], steps[0], steps[1]
    whole = n - n % 4 if d >= 4 and across == 1 else 0
    for r in range(0, whole, 4):  # rows outside, so that memory is read as it lies
        for i in range(0, d, 4):
            column = min(i, d - 4)  # the last four overlap those before: the same numbers are written again
            _turn(X, (start + r) * step + column, step, column, frame, Z, r)
    for i in range(d):
        for r in range(whole, n):
            Z[i, r] = (X[(start + r) * step + i * across] - frame[0, i]) * frame[1, i]


@fast
def part(values: Array, otherwise: float, rows: tuple[int, int], out: Array) -> None:
    """These rows of `values` (all alike, where it is empty), zeros past them."""
    start, n = rows
    out[n:] = 0.0
    for r in range(n):
        out[r] = otherwise
    if values.size:
        for r in range(n):
            out[r] = values[start + r]
