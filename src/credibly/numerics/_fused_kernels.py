"""The compiled walk over a block for likelihoods of one score per row: value, score and information.

Importing this module imports numba, which is slow: `fused` does so when it is first asked for a sum. The parts are in
`_fused_base` (exponential and logarithm), `_fused_rows` (the likelihoods) and `_fused_tile` (the sums).
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from credibly.numerics._fused_base import fast
from credibly.numerics._fused_lines import (
    LINE,
    Lines,
    add_lines,
    by_column,
    fill_groups,
    line_scores,
    row_counts,
    send_for,
)
from credibly.numerics._fused_rows import expand_rows, row_slopes
from credibly.numerics._fused_tile import (
    TILE,
    Steps,
    add_products,
    add_score,
    fill,
    mirror,
    new_frame,
    part,
    scale_rows,
    scores,
)
from credibly.numerics.arrays import Array

Block = tuple[Array, Steps, Array, Array, Array]  # X flat, its steps, y, weight and offset (or nothing)


class Tile(NamedTuple):
    """The weights and the scratch for one tile; D is rounded up to a multiple of four, padding is zero."""

    frame: Array  # (2, d): centres and inverse scales
    u: Array  # (D,)
    ones: int  # rows of Z that are one: the intercept's, or none
    Z: Array  # (D + 2, TILE); blocks of three columns may reach two past the end
    f: Array  # (TILE,)
    y: Array  # (TILE,)
    weight: Array  # (TILE,); zero past the end of the block
    work: Array  # (4, TILE)
    at: Array  # (3, TILE): log probability, its slope and its curvature


@fast
def new_tile(center: Array, scale: Array, u: Array) -> Tile:
    """A tile for weights u."""
    D = -(-u.size // 4) * 4
    padded = np.zeros(D)
    for i in range(u.size):
        padded[i] = u[i]
    f, y, weight, work, at = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    Z = np.zeros((D + 2, TILE))
    return Tile(new_frame(center, scale), padded, u.size - center.size, Z, f, y, weight, work, at)


@fast
def add_offset(offset: Array, start: int, f: Array) -> None:
    """Add the offsets from this row on."""
    for r in range(min(f.size, offset.size - start)):
        f[r] += offset[start + r]


@fast
def multiply(grad: Array, weight: Array, start: int) -> None:
    """Multiply the slopes by the weights from this row on, if there are any."""
    for r in range(min(grad.size, weight.size - start)):
        grad[r] *= weight[start + r]


@fast
def weigh(weight: Array, log_prob: Array, grad: Array) -> float:
    """Multiply the slopes by the weights; the weighted sum of log probabilities."""
    total = 0.0
    for r in range(weight.size):
        grad[r] *= weight[r]
        total += weight[r] * log_prob[r]
    return total


@fast
def curvature_roots(weight: Array, curvature: Array) -> None:
    """The roots of the weighted curvatures, in their place."""
    for r in range(weight.size):
        curvature[r] = sqrt(weight[r] * curvature[r])


@fast
def score_tile(block: Block, start: int, tile: Tile) -> int:
    """Fill the tile from this row on, with scores; its length."""
    X, steps, y, weight, offset = block
    rows = (start, min(TILE, y.size - start))
    n = fill(X, steps, rows, tile.frame, tile.Z)
    for i in range(tile.frame.shape[1], tile.frame.shape[1] + tile.ones):
        tile.Z[i] = 1.0
    part(y, 0.0, rows, tile.y)
    part(weight, 1.0, rows, tile.weight)
    scores(tile.Z, tile.u, tile.f[:n])
    add_offset(offset, start, tile.f[:n])
    return n


@fast
def expand(kind: int, block: Block, start: int, tile: Tile) -> tuple[int, float]:
    """Fill the tile from this row on; its length and log likelihood."""
    n = score_tile(block, start, tile)
    expand_rows(kind, tile.f[:n], tile.y[:n], tile.work, tile.at)
    return n, weigh(tile.weight[:n], tile.at[0, :n], tile.at[1, :n])


@fast
def gradient(kind: int, block: Block, center: Array, scale: Array, u: Array) -> Array:
    """Score of a block."""
    tile = new_tile(center, scale, u)
    score = np.zeros(tile.u.size)
    done = add_score_of_lines(kind, block, tile, score)
    for start in range(done, block[2].size, TILE):
        n = score_tile(block, start, tile)
        grad = tile.at[1, :n]
        row_slopes(kind, tile.f[:n], tile.y[:n], tile.work, grad)
        multiply(grad, tile.weight, 0)
        for i in range(0, score.size, 4):
            add_score(tile.Z, i, grad, score)
    return score


@fast
def add_score_of_lines(kind: int, block: Block, tile: Tile, score: Array) -> int:
    """Add the score of the rows that can be read where they lie; how many that are."""
    X, steps, y, weight, offset = block
    d = tile.frame.shape[1]
    whole, at_once = row_counts(y.size, d, steps)
    lines = Lines(X, steps[0], d, np.empty((2, -(-d // 4) * 4)))
    fill_groups(tile.frame, tile.u, lines.G)
    total, ones, intercept = np.zeros(lines.G.shape[1]), 0.0, float(tile.u[d]) if tile.ones else 0.0
    for start in range(0, whole, at_once):
        n = min(at_once, whole - start)
        rows, f, grad = (start, n), tile.f[:n], tile.at[1, :n]
        line_scores(lines, rows, intercept, f)
        add_offset(offset, start, f)
        row_slopes(kind, f, y[start : start + n], tile.work, grad)
        multiply(grad, weight, start)
        ones += add_lines(lines, rows, grad, total)
    by_column(total, tile.frame, score)
    if tile.ones:
        score[d] += ones
    return whole


@fast
def add_score_and_gram(tile: Tile, n: int, score: Array, H: Array, coming: tuple[Array, int, int]) -> None:
    """Add Z grad to the score, and Z diag(root²) Zᵀ to H in blocks that touch its lower triangle; Z is left scaled.

    Meanwhile the rows that come next are sent for, a few lines of memory at a time.
    """
    Z, grad, root = tile.Z, tile.at[1, :n], tile.at[2, :n]
    X, at, lines = coming
    for i in range(0, score.size, 4):
        add_score(Z, i, grad, score)
        scale_rows(Z, i, root)
        for j in range(0, i + 4, 3):  # rows of Z past i + 4 are not scaled yet: that is above the diagonal
            send_for(X, at, lines)
            at += LINE * lines
            add_products(Z, i, Z, j, root.size, H, i)


@fast
def sums(kind: int, block: Block, center: Array, scale: Array, u: Array) -> tuple[float, Array, Array]:
    """Log likelihood, score and information of a block; beyond the D weights there is nothing of use."""
    tile = new_tile(center, scale, u)
    D, step = tile.u.size, block[1][0] if block[1][1] == 1 else 0
    lines = -(-24 * TILE * step // (LINE * D * D))  # there are more than D²/24 blocks of products: all of the next tile
    value, score, H = 0.0, np.zeros(D), np.zeros((D, D + 2))
    for start in range(0, block[2].size, TILE):
        n, log_prob = expand(kind, block, start, tile)
        value += log_prob
        curvature_roots(tile.weight[:n], tile.at[2, :n])
        add_score_and_gram(tile, n, score, H, (block[0], (start + TILE) * step, lines))
    mirror(H)
    return value, score, H
