"""The compiled walk over a block for softmax, which has one score per class and row.

The information Σ (diag(p) - ppᵀ) ⊗ zzᵀ is made of the K(K-1)/2 sums of p_j p_k zzᵀ, j > k, each half a matrix: its
diagonal blocks are what their rows lack. Nothing cancels, and no other arrangement does less work.

Notation
--------
====  ==============================================================  ================
W     weights in the frame, one row per class                         (K, D)
F     scores of the rows of a tile, then less the largest             (K, TILE)
P     probabilities                                                   (≥ K, TILE)
G     slopes 1[y = k] - p_k, times the weight of the row              (≥ K, TILE)
H     Σ p_j p_k zzᵀ, for the pairs (1, 0), (2, 0), (2, 1), (3, 0), …  (pairs, ≥ D, ≥ D)
====  ==============================================================  ================
"""

from typing import NamedTuple

import numpy as np

from credibly.numerics._fused_base import LN2_HIGH, LN2_LOW, ROUNDER, exact, exponent, fast, log_of_quotient, mantissa
from credibly.numerics._fused_rows import exp_minus_abs
from credibly.numerics._fused_lines import LINE
from credibly.numerics._fused_softmax_grams import SLOT, add_grams, by_pair, slots
from credibly.numerics._fused_softmax_lines import (
    FEWEST,
    MOST,
    Lines,
    add_each,
    add_lines,
    add_totals,
    by_column,
    line_scores,
    line_slopes,
    new_columns,
    row_counts,
)
from credibly.numerics._fused_tile import TILE, Steps, add_products, fill, new_frame, part, scores
from credibly.numerics.arrays import Array

Block = tuple[Array, Steps, Array, Array]  # X flat, its steps, y, weight (or nothing)


class Tile(NamedTuple):
    """Weights and scratch for one tile; D is rounded up to a multiple of four, K of three, padding is zero."""

    frame: Array  # (2, d)
    W: Array  # (K, D)
    ones: int  # rows of Z that are one
    Z: Array  # (D + 2, TILE)
    y: Array  # (TILE,)
    weight: Array  # (TILE,); zero past the end of the block
    F: Array  # (K, TILE)
    P: Array  # (K, TILE)
    G: Array  # (K, TILE)
    work: Array  # (4, TILE)


@fast
def new_tile(center: Array, scale: Array, W: Array) -> Tile:
    """A tile for weights W."""
    K, D = W.shape[0], -(-W.shape[1] // 4) * 4
    padded = np.zeros((K, D))
    for k in range(K):
        for i in range(W.shape[1]):
            padded[k, i] = W[k, i]
    y, weight, work, Z = np.empty(TILE), np.empty(TILE), np.empty((4, TILE)), np.zeros((D + 2, TILE))
    F, P, G = np.empty((K, TILE)), np.empty((K, TILE)), np.zeros((-(-K // 3) * 3, TILE))
    return Tile(new_frame(center, scale), padded, W.shape[1] - center.size, Z, y, weight, F, P, G, work)


# --- Row by row -----------------------------------------------------------------------------------


@exact
def largest(F: Array, top: Array) -> None:
    """The largest score of every row; NaN where the first is."""
    for r in range(top.size):
        top[r] = F[0, r]
    for k in range(1, F.shape[0]):
        f = F[k]
        for r in range(top.size):
            top[r] = f[r] if f[r] > top[r] else top[r]


@exact
def clear(work: Array, n: int) -> None:
    """Sums start at zero; that of all but one of the largest at -1, since each of those is counted in full."""
    for r in range(n):
        work[1, r] = -1.0
    for k in range(2, 4):
        for r in range(n):
            work[k, r] = 0.0


@exact
def add_class(k: int, f: Array, e: Array, y: Array, work: Array) -> None:
    """Raise f, less the largest score, to e^f, and add that to the sums it belongs to."""
    n = f.size
    top, rest, others, at = work[0, :n], work[1, :n], work[2, :n], work[3, :n]
    for r in range(n):
        f[r] -= top[r]
    exp_minus_abs(f, e)
    for r in range(n):
        rest[r] += e[r] if f[r] < 0.0 else 1.0
    for r in range(n):
        others[r] += 0.0 if y[r] == k else e[r]
    for r in range(n):
        at[r] = f[r] if y[r] == k else at[r]


@exact
def log_one_plus(x: Array, out: Array) -> None:
    """out -= log(1 + x), x ≥ 0; digits of tiny x are kept."""
    for r in range(x.size):
        whole = 1.0 + x[r]
        k, m = exponent(whole) - ROUNDER, mantissa(whole)
        num, den = (x[r], 2.0 + x[r]) if whole < 1.4 else (m - 1.0, m + 1.0)
        out[r] -= (k * LN2_HIGH if whole >= 1.4 else 0.0) + (
            log_of_quotient(num, den) + (k * LN2_LOW if whole >= 1.4 else 0.0)
        )


@exact
def slopes(k: int, y: Array, weight: Array, inverse: Array, others: Array, p: Array, g: Array) -> None:  # noqa: PLR0913, PLR0917
    """p_k = e^f_k / Σ e^f, and the weight times 1[y = k] - p_k: for the label the others' share, no difference."""
    for r in range(y.size):
        p[r] *= inverse[r]
    for r in range(y.size):
        g[r] = weight[r] * (others[r] * inverse[r] if y[r] == k else -p[r])


@exact
def softmax(tile: Tile, n: int) -> None:
    """From the scores in F: probabilities and slopes; leaves what `log_likelihood` needs."""
    y, top, rest = tile.y[:n], tile.work[0, :n], tile.work[1, :n]
    largest(tile.F, top)
    clear(tile.work, n)
    for k in range(tile.F.shape[0]):
        add_class(k, tile.F[k, :n], tile.P[k, :n], y, tile.work)
    inverse = top
    for r in range(n):
        inverse[r] = 1.0 / (1.0 + rest[r])
    for k in range(tile.F.shape[0]):
        slopes(k, y, tile.weight[:n], inverse, tile.work[2, :n], tile.P[k, :n], tile.G[k, :n])


# --- The walk -------------------------------------------------------------------------------------


@fast
def log_likelihood(tile: Tile, n: int) -> float:
    """Σ weight · log p of the labels, of which `softmax` has left the scores less the largest, and the others' sum."""
    weight, log_prob, total = tile.weight[:n], tile.work[3, :n], 0.0
    log_one_plus(tile.work[1, :n], log_prob)
    for r in range(n):
        total += weight[r] * log_prob[r]
    return total


@fast
def expand(block: Block, start: int, tile: Tile) -> int:
    """Fill the tile from this row on; its length."""
    X, steps, y, weight = block
    rows = (start, min(TILE, y.size - start))
    n = fill(X, steps, rows, tile.frame, tile.Z)
    for i in range(tile.frame.shape[1], tile.frame.shape[1] + tile.ones):
        tile.Z[i] = 1.0
    part(y, 0.0, rows, tile.y)
    part(weight, 1.0, rows, tile.weight)
    for k in range(tile.W.shape[0]):
        scores(tile.Z, tile.W[k], tile.F[k, :n])
    softmax(tile, n)
    return n


@fast
def add_score(tile: Tile, n: int, score: Array) -> None:
    """Add Z Gᵀ, (D, K)."""
    for i in range(0, score.shape[0], 4):
        for k in range(0, score.shape[1], 3):
            add_products(tile.Z, i, tile.G, k, n, score, i)


@fast
def gradient(block: Block, center: Array, scale: Array, W: Array) -> Array:
    """Score of a block, (≥ D, ≥ K)."""
    tile = new_tile(center, scale, W)
    score = np.zeros((tile.W.shape[1], tile.G.shape[0]))
    done = add_score_of_lines(block, tile, score)
    for start in range(done, block[2].size, TILE):
        n = expand(block, start, tile)
        add_score(tile, n, score)
    return score


@fast
def add_score_of_lines(block: Block, tile: Tile, score: Array) -> int:
    """Add the score of the rows that can be read where they lie; how many that are."""
    X, steps, y, weight = block
    K, d = tile.W.shape[0], tile.frame.shape[1]
    whole, at_once = row_counts(y.size, d, steps)
    if not whole:
        return 0
    lines = Lines(X, steps[0], d, new_columns(tile.frame, tile.W))
    F, G = np.empty((lines.C.shape[0], at_once)), np.zeros((lines.C.shape[0], at_once))
    T, ones = np.zeros(lines.C.shape), np.zeros(K)
    for start in range(0, whole, at_once):
        rows = (start, min(at_once, whole - start))
        line_scores(lines, rows, K, F)
        if tile.ones:
            add_each(tile.W[:, d], K, rows[1], F)
        line_slopes(F, K, (y, weight), rows, G)
        add_lines(lines, rows, K, G, T)
        add_totals(G, K, rows[1], ones)
    by_column(T, tile.frame, K, score)
    for k in range(K if tile.ones else 0):
        score[d, k] += ones[k]
    return whole


@fast
def products(tile: Tile, n: int, pairs: Array) -> None:
    """Weight · p_j p_k for every pair j > k."""
    weight, m = tile.weight, 0
    for j in range(tile.W.shape[0]):
        for k in range(j):
            p, q, out = tile.P[j], tile.P[k], pairs[m]
            for r in range(n):
                out[r] = p[r] * q[r] * weight[r]
            m += 1


@fast
def sums(block: Block, center: Array, scale: Array, W: Array) -> tuple[float, Array, Array]:
    """Log likelihood of a block, its score (≥ D, ≥ K) and the grams of all pairs of classes."""
    tile = new_tile(center, scale, W)
    K, D, step = W.shape[0], W.shape[1], block[1][0] if block[1][1] == 1 else 0
    pairs = K * (K - 1) // 2
    S, A, H = np.zeros((max(pairs, FEWEST), TILE)), np.empty((MOST, TILE)), np.zeros(slots(pairs, D) * SLOT)
    lines = -(-TILE * step * SLOT // (LINE * H.size))  # all of the next tile
    value, score = 0.0, np.zeros((tile.W.shape[1], tile.G.shape[0]))
    for start in range(0, block[2].size, TILE):
        n = expand(block, start, tile)
        value += log_likelihood(tile, n)
        add_score(tile, n, score)
        products(tile, n, S)
        add_grams(tile.Z, D, S, pairs, n, A, H, (block[0], (start + TILE) * step, lines))
    return value, score, by_pair(H, pairs, D)
