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
from credibly.numerics._fused_tile import TILE, Steps, add_products, fill, mirror, new_frame, part, scaled_rows, scores
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
    """From the scores in F: probabilities, slopes, and the log probabilities of the labels in work[3]."""
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
    log_one_plus(rest, tile.work[3, :n])


# --- The walk -------------------------------------------------------------------------------------


@fast
def weighted_total(weight: Array, values: Array) -> float:
    """Σ weight · values."""
    total = 0.0
    for r in range(weight.size):
        total += weight[r] * values[r]
    return total


@fast
def expand(block: Block, start: int, tile: Tile) -> tuple[int, float]:
    """Fill the tile from this row on; its length and log likelihood."""
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
    return n, weighted_total(tile.weight[:n], tile.work[3, :n])


@fast
def add_score(tile: Tile, n: int, score: Array) -> None:
    """Add Z Gᵀ, (D, K)."""
    for i in range(0, score.shape[0], 4):
        for k in range(0, score.shape[1], 3):
            add_products(tile.Z, i, tile.G, k, n, score, i)


@fast
def gradient(block: Block, center: Array, scale: Array, W: Array) -> tuple[float, Array]:
    """Log likelihood of a block and its score, (≥ D, ≥ K)."""
    tile = new_tile(center, scale, W)
    value, score = 0.0, np.zeros((tile.W.shape[1], tile.G.shape[0]))
    for start in range(0, block[2].size, TILE):
        n, log_prob = expand(block, start, tile)
        value += log_prob
        add_score(tile, n, score)
    return value, score


@fast
def add_grams(tile: Tile, n: int, pairs: Array, four: Array, H: Array) -> None:
    """Add Z diag(pair) Zᵀ for every pair of classes, in blocks that touch the lower triangle."""
    for i in range(0, tile.W.shape[1], 4):
        for m in range(pairs.shape[0]):
            scaled_rows(tile.Z, i, pairs[m, :n], four)
            for j in range(0, i + 4, 3):
                add_products(four, 0, tile.Z, j, n, H[m], i)


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
    K, D = tile.W.shape
    pairs, four = np.empty((K * (K - 1) // 2, TILE)), np.empty((4, TILE))
    value, score, H = 0.0, np.zeros((D, tile.G.shape[0])), np.zeros((pairs.shape[0], D, D + 2))
    for start in range(0, block[2].size, TILE):
        n, log_prob = expand(block, start, tile)
        value += log_prob
        add_score(tile, n, score)
        products(tile, n, pairs)
        add_grams(tile, n, pairs, four, H)
    for m in range(pairs.shape[0]):
        mirror(H[m])
    return value, score, H
