"""The compiled walk over a block for softmax, which has one score per class and row.

The information Σ (diag(p) - ppᵀ) ⊗ zzᵀ is made of the K(K-1)/2 sums of p_j p_k zzᵀ, j > k, each half a matrix: its
diagonal blocks are what their rows lack. Nothing cancels, and no other arrangement does less work.

Notation
--------
====  ==============================================================  ================
W     weights in the frame, one row per class                         (K, D)
Z     a tile of the design, as in `_fused_tile`                       (≥ D, TILE)
F     scores of the rows of a tile                                    (≥ K, TILE)
P     probabilities                                                   (≥ K, TILE)
G     slopes 1[y = k] - p_k, times the weight of the row              (≥ K, TILE)
S     p_j p_k times the weight, for (1, 0), (2, 0), (2, 1), (3, 0), … (≥ pairs, TILE)
====  ==============================================================  ================
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types

from credibly.numerics._fused_base import fast, machine_code
from credibly.numerics._fused_parts import ASKED, DONE, SCORES, count_up, counted, keep, next_part
from credibly.numerics._fused_softmax_grams import SLOT, SPAN, add_grams, add_score, by_class, information, slots
from credibly.numerics._fused_softmax_lines import (
    FEWEST,
    MOST,
    Lines,
    add_each,
    add_lines,
    add_totals,
    by_column,
    group_size,
    line_scores,
    line_slopes,
    new_columns,
    row_counts,
)
from credibly.numerics._fused_softmax_rows import expansion, log_one_plus
from credibly.numerics._fused_softmax_vectors import WIDTH, WideVectors, aligned, wide_intrinsic
from credibly.numerics._fused_tile import TILE, Steps, fill, new_frame, part
from credibly.numerics._fused_vectors import LINE, WORD
from credibly.numerics.arrays import Array, Codes

Block = tuple[Array, Steps, Codes, Array]  # X flat, its steps, y, weight (or nothing)
Columns = tuple[Array, Array, Array]  # centres, scales, weights (K, D)


class Tile(NamedTuple):
    """Weights and scratch for one tile; D is rounded up to a multiple of four, K to three at least; padding is zero."""

    frame: Array  # (2, d)
    W: Array  # (≥ K, ≥ D)
    K: int
    ones: int  # rows of Z that are one
    Z: Array  # (≥ D, TILE)
    y: Codes  # (TILE,); zero past the end of the block,
    beside: Array  # (3, TILE): as are the weights; what `expansion` leaves
    F: Array  # (≥ K, TILE)
    P: Array  # (≥ K, TILE)
    G: Array  # (≥ K, TILE)


@fast
def new_tile(center: Array, scale: Array, W: Array) -> Tile:
    """A tile for weights W."""
    K, most, D = W.shape[0], max(W.shape[0], FEWEST), -(-W.shape[1] // 4) * 4
    padded = np.zeros((most, D))
    for k in range(K):
        for i in range(W.shape[1]):
            padded[k, i] = W[k, i]
    Z, y, beside = aligned(D, TILE), np.empty(TILE, np.int64), aligned(3, TILE)
    F, P, G = aligned(most, TILE), aligned(most, TILE), aligned(most, TILE)
    return Tile(new_frame(center, scale), padded, K, W.shape[1] - center.size, Z, y, beside, F, P, G)


# --- The walk -------------------------------------------------------------------------------------


def _scores(classes: int) -> Callable[..., Any]:
    """F[k + m, r + i] = Σ_j W[k + m, j] Z[j, r + i], m < classes, i < 2 WIDTH."""

    def build(  # noqa: PLR0913, PLR0917 - an instruction in all but name
        typing: Any, Z: Any, W: Any, D: Any, k: Any, F: Any, r: Any
    ) -> tuple[Any, Callable[..., Any]]:
        def generate(v: WideVectors) -> None:
            Z, W, D, k, F, r = v.args
            build = v.builder
            rows = [build.add(r, WORD(i)) for i in range(0, 2 * WIDTH, WIDTH)]
            sums = [[v.variable() for _ in rows] for _ in range(classes)]
            with cgutils.for_range(build, D) as loop:
                z = [v.load(Z, v.in_row(Z, loop.index, row)) for row in rows]
                for m, totals in enumerate(sums):
                    weight = v.spread(W, v.in_row(W, build.add(k, WORD(m)), loop.index))
                    for column, total in zip(z, totals, strict=True):
                        build.store(v.plus_product(build.load(total), column, weight), total)
            for m, totals in enumerate(sums):
                for row, total in zip(rows, totals, strict=True):
                    v.store(build.load(total), F, v.in_row(F, build.add(k, WORD(m)), row))

        return wide_intrinsic(generate, Z, W, types.intp, types.intp, F, types.intp)

    build.__name__ = f"_scores_{classes}"
    return machine_code(build)


_scores_3, _scores_4, _scores_5, _scores_6 = map(_scores, range(FEWEST, MOST + 1))


@fast
def tile_scores(tile: Tile, D: int, n: int) -> None:
    """F = W Z over the first n rows of the tile."""
    k = 0
    while k < tile.K:
        size = group_size(tile.K, k)
        for r in range(0, n, 2 * WIDTH):
            if size == 6:
                _scores_6(tile.Z, tile.W, D, k, tile.F, r)
            elif size == 5:
                _scores_5(tile.Z, tile.W, D, k, tile.F, r)
            elif size == 4:
                _scores_4(tile.Z, tile.W, D, k, tile.F, r)
            else:
                _scores_3(tile.Z, tile.W, D, k, tile.F, r)
        k += size


@fast
def log_likelihood(beside: Array) -> float:
    """Σ weight · log p of the labels, from what `expansion` has left."""
    weight, log_prob, total = beside[0], beside[1], 0.0
    log_one_plus(beside[2], log_prob)
    for r in range(weight.size):
        total += weight[r] * log_prob[r]
    return total


@fast
def expand(block: Block, start: int, tile: Tile) -> int:
    """Fill the tile from this row on; its length."""
    X, steps, y, weight = block
    rows, d = (start, min(TILE, y.size - start)), tile.frame.shape[1]
    n = fill(X, steps, rows, tile.frame, tile.Z)
    for i in range(d, d + tile.ones):
        tile.Z[i] = 1.0
    for r in range(TILE):
        tile.y[r] = y[start + r] if r < rows[1] else 0
    part(weight, 1.0, rows, tile.beside[0])
    tile_scores(tile, d + tile.ones, n)
    for r in range(0, n, WIDTH):
        expansion(tile.F, tile.K, tile.y, tile.beside, tile.P, tile.G, r)
    return n


@fast
def gradient(block: Block, center: Array, scale: Array, W: Array) -> Array:
    """Score of a block, (K, D)."""
    tile, score = new_tile(center, scale, W), np.zeros(W.shape)
    done, H = add_score_of_lines(block, tile, score), new_score_slots(W)
    for start in range(done, block[2].size, TILE):
        n = expand(block, start, tile)
        add_score(tile.Z, W.shape[1], tile.G, tile.K, n, H)
    by_class(H, score)
    return score


@fast
def new_score_slots(W: Array) -> Array:
    """Where `add_score` adds."""
    return np.zeros(-(-W.shape[0] // MOST) * -(-W.shape[1] // SPAN) * SLOT)


@fast
def add_score_of_lines(block: Block, tile: Tile, score: Array) -> int:
    """Add the score of the rows that can be read where they lie; how many that are."""
    X, steps, y, weight = block
    K, d = tile.K, tile.frame.shape[1]
    whole, at_once = row_counts(y.size, d, steps)
    if not whole:
        return 0
    lines = Lines(X, steps[0], d, new_columns(tile.frame, tile.W[:K]), at_once * steps[0])
    F, G = aligned(lines.C.shape[0], at_once), aligned(lines.C.shape[0], at_once)
    T, ones = aligned(*lines.C.shape), np.zeros(K)
    for start in range(0, whole, at_once):
        rows = (start, min(at_once, whole - start))
        line_scores(lines, rows, K - 1, F)  # that of the last class, which is not touched, is zero
        if tile.ones:
            add_each(tile.W[:, d], K, rows[1], F)
        line_slopes(F, K, (y, weight), rows, G)
        add_lines(lines, rows, K, G, T)
        add_totals(G, K, rows[1], ones)
    by_column(T, tile.frame, score)
    for k in range(K if tile.ones else 0):
        score[k, d] += ones[k]
    return whole


@fast
def products(tile: Tile, n: int, S: Array) -> None:
    """Weight · p_j p_k for every pair j > k."""
    weight, m = tile.beside[0], 0
    for j in range(tile.K):
        for k in range(j):
            p, q, out = tile.P[j], tile.P[k], S[m]
            for r in range(n):
                out[r] = p[r] * q[r] * weight[r]
            m += 1


@fast
def alike(W: Array) -> bool:
    """Whether all classes have the same weights, as where searches start: then so have all pairs of them."""
    for k in range(1, W.shape[0]):
        for i in range(W.shape[1]):
            if W[k, i] != W[0, i]:
                return False
    return True


@fast
def sums(block: Block, center: Array, scale: Array, W: Array) -> tuple[float, Array, Array]:
    """Log likelihood, score (K, D) and information (K, D, K, D) of a block."""
    tile = new_tile(center, scale, W)
    (K, D), step = W.shape, block[1][0] if block[1][1] == 1 else 0
    pairs = 1 if alike(W) else K * (K - 1) // 2
    S, A, H = aligned(max(K * (K - 1) // 2, FEWEST), TILE), aligned(MOST, TILE), np.zeros(slots(pairs, D) * SLOT)
    lines = -(-TILE * step * SLOT // (LINE * max(H.size, 1)))  # all of the next tile
    value, score, slopes = 0.0, np.zeros(W.shape), new_score_slots(W)
    for start in range(0, block[2].size, TILE):
        n = expand(block, start, tile)
        value += log_likelihood(tile.beside[:, :n])
        add_score(tile.Z, D, tile.G, K, n, slopes)
        products(tile, n, S)
        add_grams(tile.Z, D, S, pairs, n, A, H, (block[0], (start + TILE) * step, lines))
    by_class(slopes, score)
    return value, score, information(H, pairs, K, D)


# --- In parts, by whoever has time ----------------------------------------------------------------


@fast
def part_of(block: Block, start: int, stop: int) -> Block:
    """Some rows of a block."""
    X, steps, y, weight = block
    return X[start * steps[0] :], steps, y[start:stop], weight[start:stop]


@fast
def take_up(block: Block, weights: Columns, cuts: Codes, turn: Codes, patience: tuple[int, int], out: Array) -> None:
    """Parts that nobody has begun, into their rows of `out`: scores, or log likelihoods, scores and informations.

    Up to patience[0] of them, until there was none for patience[1] rounds of asking.
    """
    M = weights[2].size
    for _ in range(patience[0]):
        i = next_part(turn, cuts.size - 1, patience[1])
        if i < 0:
            return
        rows = part_of(block, cuts[i], cuts[i + 1])
        if counted(turn, ASKED) == SCORES:
            keep(gradient(rows, *weights).reshape(-1), out[i])
        else:
            value, score, H = sums(rows, *weights)
            out[i, 0] = value
            keep(score.reshape(-1), out[i, 1:])
            keep(H.reshape(-1), out[i, 1 + M :])
        count_up(turn, DONE)
