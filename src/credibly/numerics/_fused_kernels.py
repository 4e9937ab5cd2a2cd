"""The compiled code behind `fused`: a walk over a block in tiles, everything vectorised along the rows of a tile.

Importing this module imports numba, which is slow: `fused` does so when it is first asked for a sum.

Notation
--------
====  ==============================================================  ================
X     rows as they came                                               (b, d)
Z     a tile of the design: standardised columns, then the ones       (≥ D, TILE)
u     weights in the frame                                            (D,)
f     scores zᵀu of the rows of a tile                                (TILE,)
e     e^-|f|, which can only underflow                                (TILE,)
s     (2y - 1) times the row's weight; 0 past the end of the block    (TILE,)
H     Σ |s| σ(f) σ(-f) zzᵀ, built in its lower triangle               (≥ D, ≥ D)
====  ==============================================================  ================

Loops over a tile's rows are written so that LLVM vectorises them: no branches, sums that may be reassociated (the only
licence given beyond fused multiply-add: NaN and infinity keep their meaning), and few enough arrays per loop for
its check that they do not overlap. Numba leaves the vectorising of straight-line code switched off, hence the one piece
of LLVM written by hand, a 4 by 4 transposition.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import factorial, sqrt
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numba.extending
import numpy as np
from llvmlite import ir
from numba.core import types

from credibly.numerics.arrays import Array

Function = TypeVar("Function", bound=Callable[..., Any])

# Rows of a tile. Long, so that the sums across vector lanes at the end of each dot product cost little; 240 rows of
# D = 200 still fit in half a megabyte of L2; and no power of two, whose columns would compete for the same cache lines.
TILE = 240
LANES = 16  # the last tile is as long as its rows, rounded up to this: what an unrolled vector loop eats in one bite

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # k·LN2_HIGH is exact for |k| < 2²¹
ROUNDER = 1.5 * 2.0**52  # x + ROUNDER has x, rounded, in its lowest bits
LOWEST = -708.396418532264  # log of the smallest normal number
EXP = tuple(1 / factorial(k) for k in range(14))  # |r| ≤ log(2)/2: the next term is 4e-18
ATANH = tuple(1 / (2 * k + 1) for k in range(17))  # q² ≤ 1/9: the next term is 2e-18


def compiled(fastmath: set[str]) -> Callable[[Function], Function]:
    """Numba's decorator, typed; the result is kept on disk where the disk can be written to."""
    # NumPy's division by zero: Python's is a branch, and a loop with a branch is not vectorised
    njit = partial(numba.njit, nogil=True, fastmath=fastmath, error_model="numpy")

    def decorate(function: Function) -> Function:
        try:
            return cast(Function, njit(cache=True)(function))
        except RuntimeError:  # "cannot cache function: no locator available": a read-only installation
            return cast(Function, njit()(function))

    return decorate


def machine_code(build: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's decorator for functions written in LLVM, whose first argument only the compiler sees."""
    return cast(Callable[..., Any], numba.extending.intrinsic(build))


exact = compiled({"contract"})
fast = compiled({"contract", "reassoc"})


# --- Row by row: the exponential, the logarithm, the slopes ---------------------------------------


@machine_code
def _power_of_two(typing: Any, rounded: Any) -> tuple[Any, Callable[..., Any]]:
    """2^k from k + ROUNDER, -1023 < k < 1024: the lowest bits, biased, moved to where the exponent is."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        word = ir.IntType(64)
        biased = builder.add(builder.bitcast(args[0], word), word(1023))
        return builder.bitcast(builder.shl(biased, word(52)), ir.DoubleType())

    return types.float64(types.float64), generate


@exact
def exp_minus_abs(f: Array, e: Array) -> None:
    """e^-|f| to about one unit in the last place; 0 where that is no normal number."""
    for r in range(f.size):
        x = -abs(f[r])
        rounded = x * LOG2_E + ROUNDER
        k = rounded - ROUNDER
        t = (x - k * LN2_HIGH) - k * LN2_LOW
        p = EXP[13]
        for c in EXP[12::-1]:
            p = p * t + c
        e[r] = 0.0 if x < LOWEST else p * _power_of_two(rounded)


@fast
def log_likelihood(f: Array, e: Array, s: Array) -> float:
    """Σ |s| log σ(±f), the sign that of s: min(sf, 0) - |s| log(1 + e).

    The logarithm is 2 atanh(e / (2 + e)), whose series needs no reduction and loses nothing to tiny e.
    """
    total = 0.0
    for r in range(f.size):
        q = e[r] / (2.0 + e[r])
        x = q * q
        even, odd = ATANH[16], ATANH[15]
        for c in ATANH[14::-2]:
            even = even * (x * x) + c
        for c in ATANH[13::-2]:
            odd = odd * (x * x) + c
        z = s[r] * f[r]
        total += (z if z < 0.0 else 0.0) - abs(s[r]) * (2.0 * q * (even + x * odd))
    return total


@fast
def slopes(f: Array, e: Array, s: Array, grad: Array) -> None:
    """s σ(∓f): the gradient in f, times the weight."""
    for r in range(f.size):
        larger = 1.0 / (1.0 + e[r])  # σ(|f|)
        grad[r] = s[r] * (e[r] * larger if s[r] * f[r] > 0.0 else larger)


@fast
def curvature_roots(e: Array, s: Array, root: Array) -> None:
    """The root of |s| σ(f) σ(-f)."""
    for r in range(e.size):
        root[r] = sqrt(abs(s[r]) * e[r]) / (1.0 + e[r])


# --- The tile -------------------------------------------------------------------------------------


@machine_code
def _turn(  # noqa: PLR0913, PLR0917 - an instruction in all but name
    typing: Any, X: Any, row: Any, column: Any, frame: Any, Z: Any, to: Any
) -> tuple[Any, Callable[..., Any]]:
    """Z[column + i, to + r] = (X[row + r, column + i] - frame[0, column + i]) · frame[1, column + i], i and r < 4."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        word, half, four = ir.IntType(64), ir.VectorType(ir.IntType(32), 4), ir.VectorType(ir.DoubleType(), 4)
        X, _, _, frame, Z, _ = (
            context.make_array(kind)(context, builder, arg) if isinstance(kind, types.Array) else None
            for kind, arg in zip(signature.args, args, strict=True)
        )
        _, row, column, _, _, to = args

        def at(array: Any, i: Any, step: int, j: Any) -> Any:
            """Where the four numbers array[i + step, j : j + 4] are; rows of the array are contiguous."""
            width = builder.extract_value(array.shape, 1)
            offset = builder.add(builder.mul(builder.add(i, word(step)), width), j)
            return builder.bitcast(builder.gep(array.data, [offset]), four.as_pointer())

        def load(array: Any, i: Any, step: int) -> Any:
            return builder.load(at(array, i, step, column), align=8)

        def pick(a: Any, b: Any, *lanes: int) -> Any:
            return builder.shuffle_vector(a, b, half(lanes))

        center, inverse = (load(frame, word(0), k) for k in range(2))
        z = [builder.fmul(builder.fsub(load(X, row, r), center), inverse) for r in range(4)]
        even = [pick(z[r], z[r + 1], 0, 4, 2, 6) for r in (0, 2)]
        odd = [pick(z[r], z[r + 1], 1, 5, 3, 7) for r in (0, 2)]
        turned = [pick(*pair, *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for pair in (even, odd)]
        for i, vector in enumerate(turned):
            builder.store(vector, at(Z, column, i, to), align=8)
        return context.get_dummy_value()

    return types.void(X, types.intp, types.intp, frame, Z, types.intp), generate


@fast
def standardise(X: Array, start: int, frame: Array, Z: Array) -> None:
    """The columns of X, centred and scaled, as rows of Z; four by four where four fit."""
    b, d = X.shape
    n = min(TILE, b - start)
    whole = n - n % 4 if d >= 4 else 0
    for i in range(0, d, 4) if whole else range(0):
        column = min(i, d - 4)  # the last four overlap those before: the same numbers are written again
        for r in range(0, whole, 4):
            _turn(X, start + r, column, frame, Z, r)
    for i in range(d):
        for r in range(whole, n):
            Z[i, r] = (X[start + r, i] - frame[0, i]) * frame[1, i]


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
def scale_rows(Z: Array, i: int, root: Array) -> None:
    """Z[i : i + 4] ← Z[i : i + 4] diag(root)."""
    for k in range(i, i + 4):
        z = Z[k]
        for r in range(root.size):
            z[r] *= root[r]


@fast
def add_products(Z: Array, n: int, i: int, j: int, H: Array) -> None:
    """H[i : i + 4, j : j + 3] += Z[i : i + 4, :n] Z[j : j + 3, :n]ᵀ: twelve sums fill the 16 registers."""
    a0, a1, a2, a3 = Z[i], Z[i + 1], Z[i + 2], Z[i + 3]
    b0, b1, b2 = Z[j], Z[j + 1], Z[j + 2]
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
            H[i + k, j + m] += rows[k][m]


@fast
def add_score_and_gram(Z: Array, grad: Array, root: Array, score: Array, H: Array) -> None:
    """Add Z grad to the score, and Z diag(root²) Zᵀ to H in blocks that touch its lower triangle; Z is left scaled."""
    for i in range(0, score.size, 4):
        add_score(Z, i, grad, score)
        scale_rows(Z, i, root)
        for j in range(0, i + 4, 3):  # rows of Z past i + 4 are not scaled yet: that is above the diagonal
            add_products(Z, root.size, i, j, H)


# --- The walk -------------------------------------------------------------------------------------


class Tile(NamedTuple):
    """The weights and the scratch for one tile; D is rounded up to a multiple of four, padding is zero."""

    frame: Array  # (2, d): centres and inverse scales
    u: Array  # (D,)
    ones: int  # rows of Z that are one: the intercept's, or none
    Z: Array  # (D + 2, TILE); blocks of three columns may reach two past the end
    f: Array  # (TILE,)
    e: Array  # (TILE,)
    s: Array  # (TILE,)
    grad: Array  # (TILE,)


@fast
def new_tile(center: Array, scale: Array, u: Array) -> Tile:
    """A tile for weights u."""
    D = -(-u.size // 4) * 4
    frame, padded, Z = np.empty((2, center.size)), np.zeros(D), np.zeros((D + 2, TILE))
    for i in range(center.size):  # an assignment of whole arrays would take seconds to compile, for its error messages
        frame[0, i], frame[1, i] = center[i], 1.0 / scale[i]
    for i in range(u.size):
        padded[i] = u[i]
    f, e, s, grad = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    return Tile(frame, padded, u.size - center.size, Z, f, e, s, grad)


@fast
def signed_weights(y: Array, weight: Array, start: int, s: Array) -> int:
    """(2y - 1) · weight from this row on; returns the length of the tile. An empty `weight` is one everywhere."""
    n = min(TILE, y.size - start)
    s[n:] = 0.0
    for r in range(n):
        s[r] = 2.0 * y[start + r] - 1.0
    if weight.size:
        for r in range(n):
            s[r] *= weight[start + r]
    return min(TILE, -(-n // LANES) * LANES)


@fast
def expand(X: Array, y: Array, weight: Array, start: int, tile: Tile) -> tuple[int, float]:
    """Fill the tile from this row on, up to the gradient in f; its length and log likelihood."""
    standardise(X, start, tile.frame, tile.Z)
    for i in range(X.shape[1], X.shape[1] + tile.ones):
        tile.Z[i] = 1.0
    n = signed_weights(y, weight, start, tile.s)
    f, e, s = tile.f[:n], tile.e[:n], tile.s[:n]
    scores(tile.Z, tile.u, f)
    exp_minus_abs(f, e)
    slopes(f, e, s, tile.grad[:n])
    return n, log_likelihood(f, e, s)


@fast
def gradient(X: Array, y: Array, weight: Array, center: Array, scale: Array, u: Array) -> tuple[float, Array]:
    """Log likelihood and score of a block."""
    tile = new_tile(center, scale, u)
    value, score = 0.0, np.zeros(tile.u.size)
    for start in range(0, y.size, TILE):
        n, log_prob = expand(X, y, weight, start, tile)
        value += log_prob
        for i in range(0, score.size, 4):
            add_score(tile.Z, i, tile.grad[:n], score)
    return value, score


@fast
def sums(X: Array, y: Array, weight: Array, center: Array, scale: Array, u: Array) -> tuple[float, Array, Array]:
    """Log likelihood, score and information of a block; beyond the D weights there is nothing of use."""
    tile = new_tile(center, scale, u)
    D = tile.u.size
    value, score, H = 0.0, np.zeros(D), np.zeros((D, D + 2))
    root = tile.f  # the scores are not needed once the slopes are known
    for start in range(0, y.size, TILE):
        n, log_prob = expand(X, y, weight, start, tile)
        value += log_prob
        curvature_roots(tile.e[:n], tile.s[:n], root[:n])
        add_score_and_gram(tile.Z, tile.grad[:n], root[:n], score, H)
    for i in range(D):
        for j in range(i):
            H[j, i] = H[i, j]
    return value, score, H
