"""Sums over rows that are read where they lie, line by line, compiled: scores, their pull, a description of columns.

A gradient needs every number of a row twice and nothing of a transposed tile, so that there is nothing to write: a few
rows stay in the first-level cache between the two.

Notation
--------
====  =======================================================================  ================
X     rows with contiguous columns, in one flat stretch of memory              (b, d), d ≥ 4
g     a group of four columns; the last one overlaps that before it            ⌈d/4⌉ of them
G     what belongs to the columns, group by group: centres, then weights       (2, 4⌈d/4⌉)
f     scores Σ_i (x_i - center_i) v_i                                          (≥ n,)
====  =======================================================================  ================
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from numba.core import cgutils, types

from credibly.numerics._fused_base import fast, machine_code
from credibly.numerics._fused_tile import TILE, Steps
from credibly.numerics._fused_vectors import LINE, WIDTH, WORD, Vectors, group, groups, intrinsic
from credibly.numerics.arrays import Array

SCORED = 4  # rows taken at a time where they are scored,
PULLED = 8  # and where they are added up: the totals are loaded and stored once for so many
CACHED = 3072  # numbers that are read twice, the second time from the first-level cache: half of that
AHEAD = 128  # rows from those being scored to those sent for: memory is read while the cache is computed with


class Lines(NamedTuple):
    """Rows where they lie, and what belongs to their columns."""

    X: Array
    step: int  # from a row to the next
    d: int
    G: Array


@machine_code
def _dots(  # noqa: PLR0913, PLR0917 - an instruction in all but name
    typing: Any, X: Any, start: Any, step: Any, d: Any, G: Any, f: Any, to: Any
) -> tuple[Any, Callable[..., Any]]:
    """f[to + r] = Σ_i (X[start + r·step + i] - G[0, i]) G[1, i], r < 4; rows further on are sent for."""

    def generate(v: Vectors) -> None:
        X, start, step, d, G, f, to = v.args
        build, sums = v.builder, [v.variable() for _ in range(SCORED)]
        rows, ahead = v.rows(start, step, SCORED), build.mul(step, WORD(AHEAD))
        with cgutils.for_range(build, groups(build, d)) as loop:
            column, lanes = group(build, loop.index, d)
            center, weight = (v.load(G, v.in_row(G, WORD(k), lanes)) for k in range(2))
            for row, total in zip(rows, sums, strict=True):
                here = build.add(row, column)
                v.prefetch(X, build.add(here, ahead))
                gap = build.fsub(v.load(X, here), center)
                build.store(v.plus_product(build.load(total), gap, weight), total)
        v.store(v.across(*map(build.load, sums)), f, to)

    return intrinsic(generate, X, types.intp, types.intp, types.intp, G, f, types.intp)


@machine_code
def _pulls(  # noqa: PLR0913, PLR0917 - an instruction in all but name
    typing: Any, X: Any, start: Any, step: Any, d: Any, G: Any, grad: Any, at: Any, total: Any
) -> tuple[Any, Callable[..., Any]]:
    """total[i] += Σ_r (X[start + r·step + i] - G[0, i]) grad[at + r], r < 8."""

    def generate(v: Vectors) -> None:
        X, start, step, d, G, grad, at, total = v.args
        build, rows = v.builder, v.rows(start, step, PULLED)
        slopes = [v.spread(grad, build.add(at, WORD(r))) for r in range(PULLED)]
        with cgutils.for_range(build, groups(build, d)) as loop:
            column, lanes = group(build, loop.index, d)
            center, pulled = v.load(G, lanes), v.load(total, lanes)
            for row, slope in zip(rows, slopes, strict=True):
                pulled = v.plus_product(pulled, build.fsub(v.load(X, build.add(row, column)), center), slope)
            v.store(pulled, total, lanes)

    return intrinsic(generate, X, types.intp, types.intp, types.intp, G, grad, types.intp, total)


@machine_code
def send_for(typing: Any, X: Any, start: Any, lines: Any) -> tuple[Any, Callable[..., Any]]:
    """Ask for so many lines of memory from X[start] on, which may lie past the end."""

    def generate(v: Vectors) -> None:
        X, start, lines = v.args
        with cgutils.for_range(v.builder, lines) as loop:
            v.prefetch(X, v.builder.add(start, v.builder.mul(loop.index, WORD(LINE))))

    return intrinsic(generate, X, types.intp, types.intp)


@fast
def row_counts(n: int, d: int, steps: Steps) -> tuple[int, int]:
    """How many of n rows can be read where they lie, and how many at a time."""
    whole = n - n % PULLED if d >= WIDTH and steps[1] == 1 else 0
    return whole, max(PULLED, min(TILE, CACHED // d) // PULLED * PULLED)


@fast
def lane_column(lane: int, d: int) -> int:
    """The column that a lane of the groups holds; below the lane's own group where the last one overlaps."""
    return min(lane - lane % WIDTH, d - WIDTH) + lane % WIDTH


@fast
def fill_groups(frame: Array, u: Array, G: Array) -> None:
    """Centres, and weights over scales, by groups; lanes that the last group shares with another weigh nothing."""
    d = frame.shape[1]
    for lane in range(G.shape[1] if d >= WIDTH else 0):
        column = lane_column(lane, d)
        G[0, lane] = frame[0, column]
        G[1, lane] = u[column] * frame[1, column] if column >= lane - lane % WIDTH else 0.0


@fast
def line_scores(lines: Lines, rows: tuple[int, int], b: float, f: Array) -> None:
    """Scores, b added, of so many rows (a multiple of four) from the first on."""
    start, n = rows
    for r in range(0, n, 4):
        _dots(lines.X, (start + r) * lines.step, lines.step, lines.d, lines.G, f, r)
    for r in range(n):
        f[r] += b


@fast
def add_lines(lines: Lines, rows: tuple[int, int], grad: Array, total: Array) -> float:
    """total += Σ_r grad_r (x_r - center), by groups, over a multiple of eight rows; Σ_r grad_r."""
    start, n = rows
    for r in range(0, n, 8):
        _pulls(lines.X, (start + r) * lines.step, lines.step, lines.d, lines.G, grad, r, total)
    ones = 0.0
    for r in range(n):
        ones += grad[r]
    return ones


@fast
def by_column(total: Array, frame: Array, out: Array) -> None:
    """Add totals by groups to those of columns, in units of the frame."""
    d = frame.shape[1]
    for lane in range(total.size if d >= WIDTH else 0):
        column = lane_column(lane, d)
        if column >= lane - lane % WIDTH:
            out[column] += total[lane] * frame[1, column]
