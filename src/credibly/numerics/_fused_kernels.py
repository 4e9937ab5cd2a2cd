"""The compiled walk over a block for likelihoods of one score per row: value, score and information.

Importing this module imports numba, which is slow: `fused` does so when it is first asked for a sum. The parts are in
`_fused_base` (exponential and logarithm), `_fused_rows` (the likelihoods), `_fused_lines` (rows that are read where
they lie) and `_fused_design` (rows of the design, and their products).
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from credibly.numerics._fused_base import fast
from credibly.numerics._fused_design import add_gram, fill, mirror, new_rows, pull, table_rows
from credibly.numerics._fused_lines import Lines, add_lines, by_column, fill_groups, line_scores, row_counts
from credibly.numerics._fused_parts import ASKED, DONE, SCORES, count_up, counted, keep, next_part
from credibly.numerics._fused_rows import expand_rows, row_slopes
from credibly.numerics._fused_tile import Steps, new_frame
from credibly.numerics._fused_vectors import WIDTH
from credibly.numerics.arrays import Array, Codes

Block = tuple[Array, Steps, Array, Array, Array]  # X flat, its steps, y, weight and offset (or nothing)
Columns = tuple[Array, Array, Array]  # centres, scales, weights


class Scratch(NamedTuple):
    """Room for some rows of the design, and for what is made of their scores."""

    Z: Array  # (rows, D)
    f: Array  # (rows,)
    work: Array  # (4, rows)
    at: Array  # (3, rows): log probability, its slope and its curvature


class Weights(NamedTuple):
    """Where they are looked at from, and the weights."""

    frame: Array  # (2, d): centres and inverse scales
    u: Array  # (D,)


@fast
def new_scratch(D: int) -> Scratch:
    """Room for some rows of D weights."""
    rows = table_rows(D)
    return Scratch(np.empty((rows, D)), np.empty(rows), np.empty((4, rows)), np.empty((3, rows)))


@fast
def add_offset(offset: Array, start: int, f: Array) -> None:
    """Add the offsets from this row on, if there are any."""
    for r in range(min(f.size, offset.size - start)):
        f[r] += offset[start + r]


@fast
def multiply(values: Array, weight: Array, start: int) -> None:
    """Multiply by the weights from this row on, if there are any."""
    for r in range(min(values.size, weight.size - start)):
        values[r] *= weight[start + r]


@fast
def total_of(values: Array) -> float:
    """Their sum."""
    total = 0.0
    for r in range(values.size):
        total += values[r]
    return total


@fast
def take_roots(values: Array) -> None:
    """Their square roots, in their place."""
    for r in range(values.size):
        values[r] = sqrt(values[r])


@fast
def gradient(kind: int, block: Block, center: Array, scale: Array, u: Array) -> Array:
    """Score of a block."""
    X, steps, y, weight, offset = block
    rows = new_rows(X, steps, center, scale, u)
    room = new_scratch(rows.P.shape[1])
    score, ones = np.zeros(room.Z.shape[1]), np.ones(room.f.size)
    done = add_score_of_lines(kind, block, Weights(new_frame(center, scale), u), room, score)
    for start in range(done, y.size, room.f.size):
        n = min(room.f.size, y.size - start)
        f, grad = room.f[:n], room.at[1, :n]
        fill(rows, start, room.Z, f)
        add_offset(offset, start, f)
        row_slopes(kind, f, y[start : start + n], room.work, grad)
        multiply(grad, weight, start)
        pull(room.Z, grad, ones, score)
    return score


@fast
def add_score_of_lines(kind: int, block: Block, weights: Weights, room: Scratch, score: Array) -> int:
    """Add the score of the rows that can be read where they lie; how many that are."""
    X, steps, y, weight, offset = block
    (frame, u), d = weights, weights.frame.shape[1]
    whole, at_once = row_counts(y.size, d, steps)
    at_once = min(at_once, room.f.size)
    lines = Lines(X, steps[0], d, np.empty((2, -(-d // WIDTH) * WIDTH)))
    fill_groups(frame, u, lines.G)
    total, ones, intercept = np.zeros(lines.G.shape[1]), 0.0, float(u[d]) if u.size > d else 0.0
    for start in range(0, whole, at_once):
        n = min(at_once, whole - start)
        few, f, grad = (start, n), room.f[:n], room.at[1, :n]
        line_scores(lines, few, intercept, f)
        add_offset(offset, start, f)
        row_slopes(kind, f, y[start : start + n], room.work, grad)
        multiply(grad, weight, start)
        ones += add_lines(lines, few, grad, total)
    by_column(total, frame, score)
    if u.size > d:
        score[d] += ones
    return whole


@fast
def sums(kind: int, block: Block, center: Array, scale: Array, u: Array) -> tuple[float, Array, Array]:
    """Log likelihood, score and information of a block; beyond the D weights there are zeros."""
    X, steps, y, weight, offset = block
    rows = new_rows(X, steps, center, scale, u)
    room = new_scratch(rows.P.shape[1])
    D = room.Z.shape[1]
    value, score, H = 0.0, np.zeros(D), np.zeros((D, D))
    for start in range(0, y.size, room.f.size):
        n = min(room.f.size, y.size - start)
        f, log_prob, grad, curvature = room.f[:n], room.at[0, :n], room.at[1, :n], room.at[2, :n]
        fill(rows, start, room.Z, f)
        add_offset(offset, start, f)
        expand_rows(kind, f, y[start : start + n], room.work, room.at)
        for values in (log_prob, grad, curvature):
            multiply(values, weight, start)
        value += total_of(log_prob)
        take_roots(curvature)
        pull(room.Z, grad, curvature, score)
        add_gram(room.Z, n, H)
    mirror(H)
    return value, score, H


# --- In parts, by whoever has time ----------------------------------------------------------------


@fast
def part_of(block: Block, start: int, stop: int) -> Block:
    """Some rows of a block."""
    X, steps, y, weight, offset = block
    return X[start * steps[0] :], steps, y[start:stop], weight[start:stop], offset[start:stop]


@fast
def take_up(  # noqa: PLR0913, PLR0917 - a pass, and what is known of it
    kind: int, block: Block, weights: Columns, cuts: Codes, turn: Codes, patience: tuple[int, int], out: Array
) -> None:
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
            keep(gradient(kind, rows, *weights)[:M], out[i])
        else:
            value, score, H = sums(kind, rows, *weights)
            out[i, 0] = value
            keep(score[:M], out[i, 1:])
            for j in range(M):
                keep(H[j, :M], out[i, 1 + M + j * M :])
        count_up(turn, DONE)
