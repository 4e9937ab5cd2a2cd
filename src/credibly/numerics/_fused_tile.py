"""A tile of the design and the sums over it, compiled; everything is vectorised along the rows of the tile.

Numba leaves the vectorising of straight-line code switched off, hence a 4 by 4 transposition in LLVM's own words.

Notation
--------
====  ==============================================================  ================
X     rows as they came, in one flat stretch of memory with steps     (b, d)
Z     a tile of the design: standardised columns, then the ones       (≥ D, TILE)
u     weights in the frame                                            (D,)
f     scores zᵀu of the rows of a tile                                (TILE,)
H     Σ c zzᵀ for weights c, built in its lower triangle              (≥ D, ≥ D)
====  ==============================================================  ================
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types

from credibly.numerics._fused_base import fast, machine_code
from credibly.numerics._fused_vectors import WIDTH, WORD, Vectors, intrinsic
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
        even = [v.pick(z[r], z[r + 1], 0, 4, 2, 6) for r in (0, 2)]
        odd = [v.pick(z[r], z[r + 1], 1, 5, 3, 7) for r in (0, 2)]
        turned = [v.pick(*pair, *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for pair in (even, odd)]
        for i, vector in enumerate(turned):
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


@fast
def scores(Z: Array, u: Array, f: Array) -> None:
    """Set f = uᵀZ over the first f.size rows of the tile, four columns at a time."""
    f[:] = 0.0
    for i in range(0, u.size, 4):
        z0, z1, z2, z3 = Z[i], Z[i + 1], Z[i + 2], Z[i + 3]
        u0, u1, u2, u3 = u[i], u[i + 1], u[i + 2], u[i + 3]
        for r in range(f.size):
            f[r] += (z0[r] * u0 + z1[r] * u1) + (z2[r] * u2 + z3[r] * u3)


@fast
def add_score(Z: Array, i: int, grad: Array, total: Array) -> None:
    """total[i : i + 4] += Z[i : i + 4] grad."""
    z0, z1, z2, z3 = Z[i], Z[i + 1], Z[i + 2], Z[i + 3]
    t0 = t1 = t2 = t3 = 0.0
    for r in range(grad.size):
        g = grad[r]
        t0, t1, t2, t3 = t0 + z0[r] * g, t1 + z1[r] * g, t2 + z2[r] * g, t3 + z3[r] * g
    total[i] += t0
    total[i + 1] += t1
    total[i + 2] += t2
    total[i + 3] += t3


@fast
def scale_rows(Z: Array, i: int, factor: Array) -> None:
    """Z[i : i + 4] ← Z[i : i + 4] diag(factor)."""
    for k in range(i, i + 4):
        z = Z[k]
        for r in range(factor.size):
            z[r] *= factor[r]


@fast
def scaled_rows(Z: Array, i: int, factor: Array, out: Array) -> None:
    """out = Z[i : i + 4] diag(factor); not for `out` inside Z, where a vector loop would not dare."""
    for k in range(4):
        z, scaled = Z[i + k], out[k]
        for r in range(factor.size):
            scaled[r] = z[r] * factor[r]


@fast
def add_products(A: Array, i: int, B: Array, j: int, n: int, H: Array, to: int) -> None:  # noqa: PLR0913, PLR0917
    """H[to : to + 4, j : j + 3] += A[i : i + 4, :n] B[j : j + 3, :n]ᵀ: twelve sums fill the 16 registers."""
    a0, a1, a2, a3 = A[i], A[i + 1], A[i + 2], A[i + 3]
    b0, b1, b2 = B[j], B[j + 1], B[j + 2]
    h00 = h01 = h02 = h10 = h11 = h12 = h20 = h21 = h22 = h30 = h31 = h32 = 0.0
    for r in range(n):
        x0, x1, x2 = b0[r], b1[r], b2[r]
        y0, y1, y2, y3 = a0[r], a1[r], a2[r], a3[r]
        h00, h01, h02 = h00 + y0 * x0, h01 + y0 * x1, h02 + y0 * x2
        h10, h11, h12 = h10 + y1 * x0, h11 + y1 * x1, h12 + y1 * x2
        h20, h21, h22 = h20 + y2 * x0, h21 + y2 * x1, h22 + y2 * x2
        h30, h31, h32 = h30 + y3 * x0, h31 + y3 * x1, h32 + y3 * x2
    rows = ((h00, h01, h02), (h10, h11, h12), (h20, h21, h22), (h30, h31, h32))
    for k in range(4):
        for m in range(3):
            H[to + k, j + m] += rows[k][m]


@fast
def mirror(H: Array) -> None:
    """Copy the lower triangle to the upper."""
    for i in range(H.shape[0]):
        for j in range(i):
            H[j, i] = H[i, j]
