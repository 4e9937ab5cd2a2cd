"""Some rows of the design and the sums over them, compiled: what a Hessian is made of.

A Hessian needs every number of a row D times over. So a few rows are standardised into a table that stays in the
first-level cache, and the products of a row with itself are added up in registers, four weights by twelve at a time.

Notation
--------
====  =======================================================================  ================
X     rows as they came, in one flat stretch of memory with steps              (b, d)
D     weights, rounded up to a multiple of four
Z     a few rows of the design: standardised columns, then the one of the      (≥ n, D)
      intercept, then zeros
P     what belongs to the columns: centres, inverse scales and weights; the    (3, D)
      intercept is a column of zeros with the centre -1
f     scores of the rows of Z                                                  (≥ n,)
H     Σ zzᵀ of the rows of Z, built in its lower triangle                      (D, D)
====  =======================================================================  ================
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types

from credibly.numerics._fused_base import fast, machine_code
from credibly.numerics._fused_lines import AHEAD
from credibly.numerics._fused_tile import Steps
from credibly.numerics._fused_vectors import WIDTH, WORD, ZERO, Vectors, intrinsic, load_first, row_of, turned
from credibly.numerics.arrays import Array

ROOM = 4096  # numbers in Z: the first-level cache holds them
LANES = 16  # a full table has a multiple of so many rows: what an unrolled vector loop eats in one bite
MOST_ROWS = 240
CENTER, INVERSE, WEIGHT = range(3)  # rows of P


@fast
def table_rows(D: int) -> int:
    """How many rows Z has."""
    return max(LANES, min(MOST_ROWS, ROOM // D // LANES * LANES))


class Rows(NamedTuple):
    """Rows as they came, and what makes a design and scores of them."""

    X: Array
    steps: Steps
    d: int
    P: Array


@fast
def new_rows(X: Array, steps: Steps, center: Array, scale: Array, u: Array) -> Rows:
    """Rows with weights, of which the last is the intercept's if there is one more than columns."""
    d, D = center.size, -(-u.size // WIDTH) * WIDTH
    P = np.zeros((3, D))
    for i in range(u.size):
        P[CENTER, i], P[INVERSE, i] = (center[i], 1.0 / scale[i]) if i < d else (-1.0, 1.0)
        P[WEIGHT, i] = u[i]
    return Rows(X, steps, d, P)


# --- Filling --------------------------------------------------------------------------------------


Group = Callable[[Any], Sequence[Any]]  # four columns, from this one on, of four rows: a vector for each row


def _placing(groups_of: Callable[[Vectors], tuple[Group, Group]]) -> Callable[[Vectors], None]:
    """Z[to + r] = the design of row r, f[to + r] = its score, r < 4, by groups of columns: whole ones, then others."""

    def generate(v: Vectors) -> None:
        _, _, _, d, P, Z, f, to = v.args
        build, totals = v.builder, [v.variable() for _ in range(WIDTH)]
        places, (whole, last) = v.rows(*row_of(v, Z, to), WIDTH), groups_of(v)
        full = build.and_(d, WORD(-WIDTH))

        def place(lanes: Any, group: Group) -> None:
            center, inverse, weight = (v.load(P, v.in_row(P, WORD(k), lanes)) for k in range(3))
            for x, at, total in zip(group(lanes), places, totals, strict=True):
                z = build.fmul(build.fsub(x, center), inverse)
                v.store(z, Z, build.add(at, lanes))
                build.store(v.plus_product(build.load(total), z, weight), total)

        with cgutils.for_range(build, build.udiv(d, WORD(WIDTH))) as loop:
            place(build.mul(loop.index, WORD(WIDTH)), whole)
        with build.if_then(build.icmp_signed("<", full, build.extract_value(P.shape, 1))):
            place(full, last)
        v.store(v.across(*map(build.load, totals)), f, to)

    return generate


def _across(v: Vectors) -> tuple[Group, Group]:
    """Rows that are contiguous, each `step` after the one before; later ones are sent for."""
    X, start, step, d, *_ = v.args
    build, rows = v.builder, v.rows(start, step, WIDTH)
    ahead = build.mul(step, WORD(AHEAD))

    def whole(lanes: Any) -> Sequence[Any]:
        here = [build.add(row, lanes) for row in rows]
        for place in here:
            v.prefetch(X, build.add(place, ahead))
        return [v.load(X, place) for place in here]

    def last(lanes: Any) -> Sequence[Any]:
        return [load_first(v, X, build.add(row, lanes), build.sub(d, lanes)) for row in rows]

    return whole, last


def _down(v: Vectors) -> tuple[Group, Group]:
    """Columns that are contiguous, each `step` after the one before; zeros beyond the last, later rows are sent for."""
    X, start, step, d, *_ = v.args
    build = v.builder

    def whole(lanes: Any) -> Sequence[Any]:
        first = build.add(start, build.mul(lanes, step))
        columns = v.rows(first, step, WIDTH)
        for column in columns:
            v.prefetch(X, build.add(column, WORD(AHEAD)))
        return turned(v, [v.load(X, column) for column in columns])

    def last(lanes: Any) -> Sequence[Any]:
        cells = []
        for k in range(WIDTH):
            column = build.add(lanes, WORD(k))
            there = build.icmp_signed("<", column, d)
            cell = v.load(X, build.add(start, build.select(there, build.mul(column, step), WORD(0))))
            cells.append(build.select(there, cell, ZERO))
        return turned(v, cells)

    return whole, last


@machine_code
def _place(  # noqa: PLR0913, PLR0917 - an instruction in all but name
    typing: Any, X: Any, start: Any, step: Any, d: Any, P: Any, Z: Any, f: Any, to: Any
) -> tuple[Any, Callable[..., Any]]:
    """Z[to + r] = the design of the row at X[start + r·step], f[to + r] = its score, r < 4; later rows are sent for."""
    return intrinsic(_placing(_across), X, types.intp, types.intp, types.intp, P, Z, f, types.intp)


@machine_code
def _place_down(  # noqa: PLR0913, PLR0917 - an instruction in all but name
    typing: Any, X: Any, start: Any, step: Any, d: Any, P: Any, Z: Any, f: Any, to: Any
) -> tuple[Any, Callable[..., Any]]:
    """Z[to + r] = the design of the row at X[start + r + i·step], i < d, f[to + r] = its score, r < 4."""
    return intrinsic(_placing(_down), X, types.intp, types.intp, types.intp, P, Z, f, types.intp)


@fast
def place_singly(rows: Rows, start: int, done: int, n: int, Z: Array) -> None:
    """The design of rows `done` … n-1 of Z, number by number; columns outside, along which memory may lie."""
    down, across = rows.steps
    for i in range(Z.shape[1]):
        center, inverse = rows.P[CENTER, i], rows.P[INVERSE, i]
        for r in range(done, n):
            x = rows.X[(start + r) * down + i * across] if i < rows.d else 0.0
            Z[r, i] = (x - center) * inverse


@fast
def fill(rows: Rows, start: int, Z: Array, f: Array) -> None:
    """The design of as many rows from `start` on as there is room for in f, and their scores.

    Scores are added up in one order, however the rows lie.
    """
    whole, (down, across), D = f.size - f.size % WIDTH, rows.steps, Z.shape[1]
    place_singly(rows, start, whole, f.size, Z)
    for r in range(0, whole, WIDTH):
        if across == 1:
            _place(rows.X, (start + r) * down, down, rows.d, rows.P, Z, f, r)
        else:
            _place_down(rows.X, start + r, across, rows.d, rows.P, Z, f, r)
    for r in range(whole, f.size):
        f[r] = 0.0
        for i in range(D):
            f[r] += Z[r, i] * rows.P[WEIGHT, i]


# --- Sums -----------------------------------------------------------------------------------------


@machine_code
def _pull(typing: Any, Z: Any, to: Any, grad: Any, root: Any, score: Any) -> tuple[Any, Callable[..., Any]]:
    """score += Σ_r grad[to + r] Z[to + r], then Z[to + r] *= root[to + r], r < 4."""

    def generate(v: Vectors) -> None:
        Z, to, grad, root, score = v.args
        build, at = v.builder, [v.builder.add(to, WORD(r)) for r in range(WIDTH)]
        slopes, roots = ([v.spread(array, row) for row in at] for array in (grad, root))
        places = v.rows(*row_of(v, Z, to), WIDTH)
        groups = build.udiv(build.extract_value(Z.shape, 1), WORD(WIDTH))
        with cgutils.for_range(build, groups) as loop:
            lanes = build.mul(loop.index, WORD(WIDTH))
            total = v.load(score, lanes)
            for place, slope, factor in zip(places, slopes, roots, strict=True):
                here = build.add(place, lanes)
                z = v.load(Z, here)
                total = v.plus_product(total, z, slope)
                v.store(build.fmul(z, factor), Z, here)
            v.store(total, score, lanes)

    return intrinsic(generate, Z, types.intp, grad, root, score)


@fast
def pull(Z: Array, grad: Array, root: Array, score: Array) -> None:
    """Add Zᵀgrad of the first rows to the score; they are left multiplied by their roots."""
    n = grad.size
    done = n - n % WIDTH
    for r in range(0, done, WIDTH):
        _pull(Z, r, grad, root, score)
    for r in range(done, n):
        z = Z[r]
        for i in range(score.size):
            score[i] += grad[r] * z[i]
            z[i] *= root[r]


def _add_gram(count: int) -> Callable[..., Any]:
    """H[i : i + 4, j : j + 4·count] += Σ_r Z[r, i : i + 4] Z[r, j : j + 4·count]ᵀ over the first n rows."""

    def generate(v: Vectors) -> None:
        Z, n, i, j, H = v.args
        build, D = v.builder, v.builder.extract_value(Z.shape, 1)
        right = [build.add(j, WORD(WIDTH * m)) for m in range(count)]
        cells = [v.in_row(H, build.add(i, WORD(k)), lanes) for k in range(WIDTH) for lanes in right]
        sums = [v.variable(v.load(H, cell)) for cell in cells]
        with cgutils.for_range(build, n) as loop:
            row = build.mul(loop.index, D)
            across = [v.load(Z, build.add(row, lanes)) for lanes in right]
            for k in range(WIDTH):
                one = v.spread(Z, build.add(row, build.add(i, WORD(k))))
                for total, z in zip(sums[k * count : (k + 1) * count], across, strict=True):
                    build.store(v.plus_product(build.load(total), one, z), total)
        for cell, total in zip(cells, sums, strict=True):
            v.store(build.load(total), H, cell)

    def build(typing: Any, Z: Any, n: Any, i: Any, j: Any, H: Any) -> tuple[Any, Callable[..., Any]]:
        return intrinsic(generate, Z, types.intp, types.intp, types.intp, H)

    build.__name__ = f"_add_gram_{count}"
    return machine_code(build)


_add_gram_1, _add_gram_2, _add_gram_3 = _add_gram(1), _add_gram(2), _add_gram(3)


@fast
def add_gram(Z: Array, n: int, H: Array) -> None:
    """Add ZᵀZ of the first n rows to the lower triangle of H, and a little beyond."""
    for i in range(0, Z.shape[1], WIDTH):
        left, j = i // WIDTH + 1, 0
        while left > 0:
            count = 1 if left == 1 else 2 if left in (2, 4) else 3  # four are two and two
            if count == 3:
                _add_gram_3(Z, n, i, j, H)
            elif count == 2:
                _add_gram_2(Z, n, i, j, H)
            else:
                _add_gram_1(Z, n, i, j, H)
            left, j = left - count, j + count * WIDTH


@fast
def mirror(H: Array) -> None:
    """Copy the lower triangle to the upper."""
    for i in range(H.shape[0]):
        for j in range(i):
            H[j, i] = H[i, j]
