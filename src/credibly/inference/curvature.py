"""Gradients and curvature products over all rows, for very many weights in the metric of their prior.

Notation
--------
====  ===================================================================================  =========
x     weights whitened by the prior: u = m₀ + T G⁻¹x in the frame                          (K, D)
T     turns classes such that the first coordinate is their mean, which has no curvature   (K, K)
f     scores                                                                               (n, K)
W     curvature of the likelihood in the scores of a row: a number, or diag(p) - ppᵀ       (n, …)
H     Σ_n W ⊗ z̃z̃ᵀ with z̃ = G⁻ᵀz: the likelihood's curvature in x                            never formed
====  ===================================================================================  =========

Rows are never whitened or scaled: the vectors are. Sparse rows stay as they came.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.sparse import csr_array

from credibly.data.source import Block, MemoryRows, Rows
from credibly.data.threads import default_threads, in_order, single_threaded_blas
from credibly.inference.frame import Frame
from credibly.inference.wide_prior import WidePrior
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import DesignMatrix
from credibly.numerics.sparse_views import rows_view, transposed

BLOCK_NUMBERS = 1_000_000  # of a dense block
PARTS_PER_THREAD = 2  # of a sparse table: every part returns a vector of all weights

Result = TypeVar("Result")
Arrays = tuple[Array, ...]


class Expanded(NamedTuple):
    """The log likelihood of all rows at some scores."""

    log_prob: float
    grad: Array  # (n, K), rows weighted
    curvature: Array  # (n, 1): W; (n, K): the class probabilities
    weight: Array  # (n,): what multiplies a curvature made of class probabilities


class RowParts:
    """All rows, in few parts that stay where they are."""

    def __init__(self, rows: Rows, n_columns: int) -> None:
        self.threads = (rows.threads if isinstance(rows, MemoryRows) else None) or default_threads()
        self.blocks = list(_parts(rows, self.threads, n_columns))
        ends = np.cumsum([0, *(len(part.y) for part in self.blocks)]).tolist()
        self.cuts = [slice(start, end) for start, end in pairwise(ends)]

    def each(self, block: Callable[[Block, slice], Result]) -> list[Result]:
        """A function of every part and of its place among the rows, on threads."""
        with single_threaded_blas():
            return list(self._walk(block))

    def sum(self, block: Callable[[Block, slice], Arrays]) -> Arrays:
        """The same, added up as it comes."""
        with single_threaded_blas():
            return reduce(_add, self._walk(block))

    def _walk(self, block: Callable[[Block, slice], Result]) -> Iterator[Result]:
        return in_order(lambda i: block(self.blocks[i], self.cuts[i]), range(len(self.cuts)), self.threads)


class RowPasses:
    """Sums over all rows that a fit by conjugate gradients needs.

    Parameters
    ----------
    likelihood : Likelihood or Categorical
    parts : RowParts
        Before the frame.
    frame : Frame
    prior : WidePrior
    """

    def __init__(self, likelihood: Likelihood | Categorical, parts: RowParts, frame: Frame, prior: WidePrior) -> None:
        self.likelihood, self.parts, self.frame, self.prior = likelihood, parts, frame, prior
        self.shape = (int(prior.mean.shape[0]), int(prior.mean.shape[1]))  # (K, D)
        K = self.shape[0]
        self.turn = np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, 1:]]))[0] if K > 1 else np.eye(1)

    def with_prior(self, prior: WidePrior) -> "RowPasses":
        """The same rows under another prior."""
        return RowPasses(self.likelihood, self.parts, self.frame, prior)

    def weights(self, x: Array) -> Array:
        """Whitened weights in the frame, (K, D)."""
        return np.asarray(self.prior.mean + self.turn @ self.prior.arrow.solve(x))

    def scores(self, x: Array) -> Array:
        """Scores at whitened weights x (K, D), (n, K); without offsets."""
        return self._scores(self.weights(x))

    def directions(self, x: Array) -> Array:
        """How scores move along x (K, D), (n, K)."""
        return self._scores(self.turn @ self.prior.arrow.solve(x))

    def expand(self, f: Array) -> Expanded:
        """The likelihood at scores f, to second order."""
        found = self.parts.each(lambda part, cut: _expand(self.likelihood, part, f[cut]))
        arrays = (np.concatenate(each) for each in zip(*(part[1:] for part in found), strict=True))
        return Expanded(sum(part.log_prob for part in found), *arrays)

    def pull(self, grad: Array) -> Array:
        """Σ_n grad_n ⊗ z̃_n, (K, D)."""
        return np.asarray(self.turn.T @ self._whitened(self.parts.sum(lambda part, cut: _pull(part, grad[cut]))))

    def product(self, at: Expanded, x: Array) -> Array:
        """H x for vectors x (m, K, D), in one walk over the rows."""
        m, (K, D) = len(x), self.shape
        slopes, intercept = _split(self.frame, (self.turn @ self.prior.arrow.solve(x)).reshape(m * K, D))

        def block(part: Block, cut: slice) -> Arrays:
            f = _scores(part, slopes, intercept).reshape(-1, m, K)
            return _pull(part, _curved(self.likelihood, at, cut, f).reshape(len(f), m * K))

        return np.asarray(self.turn.T @ self._whitened(self.parts.sum(block)).reshape(m, K, D))

    def diagonal(self, at: Expanded) -> Array:
        """The diagonal of H, (K, D)."""
        c = score_curvature(self, at)
        arrow, frame, d = self.prior.arrow, self.frame, self.frame.scale.size
        point = frame.center + frame.scale * arrow.last[:d] / arrow.diagonal[-1] if frame.intercept else frame.center
        squares, total = self.parts.sum(lambda part, cut: _second_moments(part.X, c[cut], point))
        out = np.empty((len(total), len(arrow.diagonal)))
        out[:, :d] = squares.T / (frame.scale * arrow.diagonal[:d]) ** 2
        if frame.intercept:
            out[:, -1] = total / arrow.diagonal[-1] ** 2
        return out

    def whitened_rows(self, chosen: Codes) -> Array:
        """z̃ of some rows, by their numbers in ascending order: (m, D)."""
        places = [chosen[(chosen >= cut.start) & (chosen < cut.stop)] - cut.start for cut in self.parts.cuts]
        tables = [part.X[place] for part, place in zip(self.parts.blocks, places, strict=True) if len(place)]
        return np.concatenate([self.prior.arrow.whiten(self.frame.design(table)) for table in tables])

    def _scores(self, u: Array) -> Array:
        slopes, intercept = _split(self.frame, u)
        return np.concatenate(self.parts.each(lambda part, cut: _scores(part, slopes, intercept)))

    def _whitened(self, sums: Arrays) -> Array:
        """What rows in data units were multiplied with, as if they had been whitened: (m, D)."""
        pull, total = sums
        slopes = (pull.T - total[:, None] * self.frame.center) / self.frame.scale
        return self.prior.arrow.whiten(np.column_stack([slopes, total]) if self.frame.intercept else slopes)


def score_curvature(passes: RowPasses, at: Expanded) -> Array:
    """The diagonal of W, classes turned: (n, K)."""
    p, T = at.curvature, passes.turn
    if not isinstance(passes.likelihood, Categorical):
        return p
    mean = p @ T
    spread = [np.einsum("nk,nk->n", p, (T[:, j] - mean[:, [j]]) ** 2) for j in range(len(T))]
    return np.asarray(at.weight[:, None] * np.column_stack(spread))


def curvature_of(passes: RowPasses, at: Expanded, chosen: Codes) -> Array:
    """W of some rows, classes turned: (m, K, K)."""
    c = at.curvature[chosen]
    if not isinstance(passes.likelihood, Categorical):
        return c[:, :, None]
    turned = passes.turn.T @ passes.likelihood.curvature(c) @ passes.turn
    return np.asarray(at.weight[chosen][:, None, None] * turned)


def curvature_moves(passes: RowPasses, at: Expanded, f: Array, moved: Array, pairs: Array) -> float:
    """Σ_n tr(pairs_n dW_n) where the scores f move by `moved` (n, K), for symmetric pairs (n, K, K)."""
    if isinstance(passes.likelihood, Categorical):
        slopes = passes.likelihood.curvature_slope(at.curvature, pairs) * at.weight[:, None]
    else:
        y = np.concatenate([part.y for part in passes.parts.blocks])
        offset = np.concatenate([np.zeros(len(it.y)) if it.offset is None else it.offset for it in passes.parts.blocks])
        slopes = passes.likelihood.curvature_slope(y, f[:, 0] + offset, pairs[:, 0, 0])[:, None] * at.weight[:, None]
    return float(np.vdot(slopes, moved))


def _curved(likelihood: Likelihood | Categorical, at: Expanded, cut: slice, f: Array) -> Array:
    """W f, row by row, for scores f (b, m, K)."""
    if not isinstance(likelihood, Categorical):
        return np.asarray(at.curvature[cut][:, None] * f)
    p = at.curvature[cut][:, None]
    return np.asarray(at.weight[cut][:, None, None] * p * (f - (p * f).sum(axis=-1, keepdims=True)))


def _split(frame: Frame, u: Array) -> tuple[Array, Array]:
    """Slopes (d, m), and intercepts (m,), in data units, of weights in the frame (m, D)."""
    w, d = frame.to_data(u), frame.scale.size
    return np.ascontiguousarray(w[:, :d].T), w[:, -1] if frame.intercept else np.zeros(len(w))


def _add(a: Arrays, b: Arrays) -> Arrays:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _parts(rows: Rows, threads: int, n_columns: int) -> Iterator[Block]:
    """The rows in few parts: views of a table in memory."""
    if not isinstance(rows, MemoryRows) or not isinstance(rows.X, csr_array) or rows.changes:
        yield from rows.in_blocks(max(256, BLOCK_NUMBERS // n_columns)).each(lambda block: block)
        return
    X = rows.X
    ends = np.linspace(0, rows.n_rows, PARTS_PER_THREAD * threads + 1).astype(int).tolist()
    for start, end in pairwise(ends):
        weight, offset = (None if held is None else held[start:end] for held in (rows.weight, rows.offset))
        yield Block(rows_view(X, start, end), rows.y[start:end], weight, offset)


def _scores(part: Block, slopes: Array, intercept: Array) -> Array:
    if slopes.shape[1] == 1:
        return np.asarray(part.X @ slopes[:, 0] + intercept[0])[:, None]
    return np.asarray(part.X @ slopes + intercept)


def _pull(part: Block, grad: Array) -> Arrays:
    if grad.shape[1] == 1:
        return np.asarray(transposed(part.X) @ grad[:, 0])[:, None], grad.sum(axis=0)
    return np.asarray(transposed(part.X) @ grad), grad.sum(axis=0)


def _second_moments(X: DesignMatrix, c: Array, point: Array) -> Arrays:
    """Σ_n c_n (x_n - point)² of every column (d, K), and Σ_n c_n: never a difference of sums that are far larger."""
    total = c.sum(axis=0)
    if isinstance(X, np.ndarray):
        return ((X - point) ** 2).T @ c, total
    centred = point.any()
    squares = csr_array(((X.data - point[X.indices] if centred else X.data) ** 2, X.indices, X.indptr), X.shape)
    zeros = point[:, None] ** 2 * _not_stored(X, c, total) if centred else 0.0
    return np.asarray(squares.T @ c + zeros), total


def _not_stored(X: csr_array, c: Array, total: Array) -> Array:
    """Σ c over the rows in which a column has no cell, (d, K).

    That is the total less the rows with a cell, but where those are the larger part: there the digits would be lost,
    and the rows without are added up themselves. Few columns can be so full.
    """
    stored = csr_array((np.ones_like(X.data), X.indices, X.indptr), X.shape)
    out = np.asarray(total - stored.T @ c)
    full = np.flatnonzero((2 * out < total).any(axis=1))
    columns = stored[:, full].tocsc()
    for j, (start, end) in zip(full, pairwise(columns.indptr), strict=True):
        out[j] = np.delete(c, columns.indices[start:end], axis=0).sum(axis=0)
    return out


def _expand(likelihood: Likelihood | Categorical, part: Block, f: Array) -> Expanded:
    weight = part.weights
    if isinstance(likelihood, Categorical):
        classes = likelihood.expand(part.y, f)
        return Expanded(float(classes.log_prob @ weight), classes.grad * weight[:, None], classes.proba, weight)
    at = likelihood.expand(part.y, f[:, 0] if part.offset is None else f[:, 0] + part.offset)
    grad, curvature = (it * weight for it in (at.grad, at.curvature))
    return Expanded(float(at.log_prob @ weight), grad[:, None], curvature[:, None], weight)
