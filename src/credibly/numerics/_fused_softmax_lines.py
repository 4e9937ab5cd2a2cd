"""The gradient of softmax over rows that are read where they lie, compiled: several classes at a time.

As in `_fused_lines` every number of a row is read twice, the second time from the first-level cache; here each time for
three to six classes at once, in vectors as wide as the machine's.

Notation
--------
====  =======================================================================  ================
X     rows with contiguous columns, in one flat stretch of memory              (b, d), d ≥ WIDTH
g     a group of WIDTH columns; the last overlaps those before it              an even number
C     what belongs to the columns, group by group: centres, then weights over  (1 + K, lanes)
      scales of every class, less those of the last
F     scores Σ_i (x_i - center_i) v_ki, less that of the last class            (K, ≥ n)
G     slopes                                                                   (K, ≥ n)
====  =======================================================================  ================

K is rounded up to what `class_groups` makes of it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from numba.core import cgutils, types

from credibly.numerics._fused_base import fast, machine_code
from credibly.numerics._fused_softmax_rows import slopes
from credibly.numerics._fused_softmax_vectors import AVX512, WIDTH, WideVectors, across, aligned, wide_intrinsic
from credibly.numerics._fused_tile import TILE, Steps
from credibly.numerics._fused_vectors import WORD
from credibly.numerics.arrays import Array, Codes

FEWEST, MOST = 3, 6  # classes, or pairs of them, at a time
SCORED = 4 if AVX512 else 2  # rows at a time, so that their sums for six classes fit the registers
BITE = 2 * WIDTH  # columns at a time where rows are added up
EVEN = 8  # rows are taken in multiples of this
CACHED = 2048  # numbers that are read twice, the second time from the first-level cache: half of that


class Lines(NamedTuple):
    """Rows where they lie, and what belongs to their columns."""

    X: Array
    step: int  # from a row to the next
    d: int
    C: Array
    ahead: int  # from a number to that sent for: memory is read while the cache is computed with


def _first_column(v: WideVectors, lane: Any, d: Any) -> Any:
    """The first column of the group whose first lane this is."""
    last = v.builder.sub(d, WORD(WIDTH))
    return v.builder.select(v.builder.icmp_signed("<", lane, last), lane, last)


def _dots(classes: int) -> Callable[..., Any]:
    """F[k + m, to + r] = Σ_i (X[start + r·step + i] - C[0, i]) C[1 + k + m, i], m < classes, r < SCORED."""

    def build(  # noqa: PLR0913, PLR0917 - an instruction in all but name
        typing: Any, X: Any, start: Any, step: Any, d: Any, C: Any, ahead: Any, k: Any, F: Any, to: Any
    ) -> tuple[Any, Callable[..., Any]]:
        def generate(v: WideVectors) -> None:
            X, start, step, d, C, ahead, k, F, to = v.args
            build = v.builder
            sums = [[v.variable() for _ in range(SCORED)] for _ in range(classes)]
            rows = v.rows(start, step, SCORED)
            with cgutils.for_range_slice(build, WORD(0), d, WORD(WIDTH), inc=True) as (lane, _):
                column, center = _first_column(v, lane, d), v.load(C, lane)
                gaps = [v.gap(X, build.add(row, column), center, ahead) for row in rows]
                for m, totals in enumerate(sums):
                    weight = v.load(C, v.in_row(C, build.add(k, WORD(1 + m)), lane))
                    for gap, total in zip(gaps, totals, strict=True):
                        build.store(v.plus_product(build.load(total), gap, weight), total)
            for m, totals in enumerate(sums):
                v.store(across(v, [build.load(total) for total in totals]), F, v.in_row(F, build.add(k, WORD(m)), to))

        whole = types.intp
        return wide_intrinsic(generate, X, whole, whole, whole, C, whole, whole, F, whole)

    build.__name__ = f"_dots_{classes}"
    return machine_code(build)


def _pulls(classes: int) -> Callable[..., Any]:
    """T[k + m, lane] += Σ_r (X[start + r·step + column] - C[0, lane]) G[k + m, r], m < classes, r < n; BITE lanes."""

    def build(  # noqa: PLR0913, PLR0917 - an instruction in all but name
        typing: Any,
        X: Any,
        start: Any,
        step: Any,
        d: Any,
        C: Any,
        ahead: Any,
        G: Any,
        k: Any,
        n: Any,
        T: Any,
        lane: Any,
    ) -> tuple[Any, Callable[..., Any]]:
        def generate(v: WideVectors) -> None:
            X, start, step, d, C, ahead, G, k, n, T, lane = v.args
            build = v.builder
            lanes = [build.add(lane, WORD(q * WIDTH)) for q in range(BITE // WIDTH)]
            columns = [build.add(start, _first_column(v, at, d)) for at in lanes]
            centers = [v.load(C, at) for at in lanes]
            slopes = [v.in_row(G, build.add(k, WORD(m)), WORD(0)) for m in range(classes)]
            sums = [[v.variable() for _ in lanes] for _ in range(classes)]
            with cgutils.for_range(build, n) as loop:
                row = build.mul(loop.index, step)
                places = zip(columns, centers, strict=True)
                gaps = [v.gap(X, build.add(row, column), center, ahead) for column, center in places]
                for slope, totals in zip(slopes, sums, strict=True):
                    spread = v.spread(G, build.add(slope, loop.index))
                    for gap, total in zip(gaps, totals, strict=True):
                        build.store(v.plus_product(build.load(total), gap, spread), total)
            for m, totals in enumerate(sums):
                for at, total in zip(lanes, totals, strict=True):
                    place = v.in_row(T, build.add(k, WORD(m)), at)
                    v.store(build.fadd(v.load(T, place), build.load(total)), T, place)

        whole = types.intp
        return wide_intrinsic(generate, X, whole, whole, whole, C, whole, G, whole, whole, T, whole)

    build.__name__ = f"_pulls_{classes}"
    return machine_code(build)


_dots_3, _dots_4, _dots_5, _dots_6 = map(_dots, range(FEWEST, MOST + 1))
_pulls_3, _pulls_4, _pulls_5, _pulls_6 = map(_pulls, range(FEWEST, MOST + 1))


@fast
def line_slopes(F: Array, K: int, beside: tuple[Codes, Array], rows: tuple[int, int], G: Array) -> None:
    """Slopes at the scores F of these rows, times their weights, if there are any."""
    start, n = rows
    y, weight = beside
    for r in range(0, n, WIDTH):
        slopes(F, K, y, start + r, G, r)
    for k in range(K if weight.size else 0):
        g = G[k]
        for r in range(n):
            g[r] *= weight[start + r]


@fast
def add_each(b: Array, K: int, n: int, F: Array) -> None:
    """Add b_k to the scores of class k, less that of the last."""
    for k in range(K - 1):
        f, more = F[k], b[k] - b[K - 1]
        for r in range(n):
            f[r] += more


@fast
def add_totals(G: Array, K: int, n: int, ones: Array) -> None:
    """Add the sum of a class's slopes to its total."""
    for k in range(K):
        total, g = 0.0, G[k]
        for r in range(n):
            total += g[r]
        ones[k] += total


@fast
def row_counts(n: int, d: int, steps: Steps) -> tuple[int, int]:
    """How many of n rows can be read where they lie, and how many at a time."""
    whole = n - n % EVEN if d >= WIDTH and steps[1] == 1 else 0
    return whole, max(EVEN, min(TILE, CACHED // d) // EVEN * EVEN)


@fast
def new_columns(frame: Array, W: Array) -> Array:
    """Centres, and weights less the last class's over scales; lanes that groups share with others weigh nothing."""
    d, K = frame.shape[1], len(W)
    C = aligned(1 + max(K, FEWEST), -(-d // BITE) * BITE)
    for lane in range(C.shape[1] if d >= WIDTH else 0):
        group = lane - lane % WIDTH
        column = min(group, d - WIDTH) + lane % WIDTH
        C[0, lane] = frame[0, column]
        for k in range(K - 1 if column >= group else 0):
            C[1 + k, lane] = (W[k, column] - W[K - 1, column]) * frame[1, column]
    return C


@fast
def by_column(T: Array, frame: Array, score: Array) -> None:
    """Add totals by groups to those of columns, (K, D), in units of the frame."""
    d = frame.shape[1]
    for lane in range(T.shape[1] if d >= WIDTH else 0):
        group = lane - lane % WIDTH
        column = min(group, d - WIDTH) + lane % WIDTH
        for k in range(score.shape[0] if column >= group else 0):
            score[k, column] += T[k, lane] * frame[1, column]


@fast
def group_size(K: int, k: int) -> int:
    """How many of K classes are taken at a time from class k on: three to six, as even as can be."""
    left = K - k
    return max(FEWEST, -(-left // -(-left // MOST)))


@fast
def line_scores(lines: Lines, rows: tuple[int, int], K: int, F: Array) -> None:
    """Scores, without intercepts, of so many rows (a multiple of EVEN) from the first on."""
    start, n = rows
    X, step, d, C, ahead = lines
    k = 0
    while k < K:
        size = group_size(K, k)
        for r in range(0, n, SCORED):
            if size == 6:
                _dots_6(X, (start + r) * step, step, d, C, ahead, k, F, r)
            elif size == 5:
                _dots_5(X, (start + r) * step, step, d, C, ahead, k, F, r)
            elif size == 4:
                _dots_4(X, (start + r) * step, step, d, C, ahead, k, F, r)
            else:
                _dots_3(X, (start + r) * step, step, d, C, ahead, k, F, r)
        k += size


@fast
def add_lines(lines: Lines, rows: tuple[int, int], K: int, G: Array, T: Array) -> None:
    """T += Σ_r G_r (x_r - center), by groups."""
    start, n = rows
    X, step, d, C, ahead = lines
    for lane in range(0, C.shape[1], BITE):
        k = 0
        while k < K:
            size = group_size(K, k)
            if size == 6:
                _pulls_6(X, start * step, step, d, C, ahead, G, k, n, T, lane)
            elif size == 5:
                _pulls_5(X, start * step, step, d, C, ahead, G, k, n, T, lane)
            elif size == 4:
                _pulls_4(X, start * step, step, d, C, ahead, G, k, n, T, lane)
            else:
                _pulls_3(X, start * step, step, d, C, ahead, G, k, n, T, lane)
            k += size
