r"""Fewer rows than weights: the posterior in the space that the rows span, and the prior outside of it.

Notation
--------
====  ======================================================================================  ===========
w, b  weights of one class in data units                                                      (d,), number
x     slopes whitened by their prior: w = τ ∘ x with standard deviations τ                     (d,)
V     rows that multiply x: (X - center) ∘ τ                                                  (n, d)
Q     an orthonormal basis of the rows of V, V = A Qᵀ                                         (d, r)
a     coordinates of x in that basis, x = Q a + rest                                          (r,)
e     what rows outside of the space have: a score ρ e, ρ the length of v - Q Qᵀ v             number
====  ======================================================================================  ===========

A row of the data has the score A a + b and no more: of what lies outside the labels say nothing, and there the
posterior *is* the prior. So a fit with d columns is one with the columns (A, 0) of which there are at most as many as
rows, exactly, whatever the inference; and since each new row has just one score outside, ρe with e as variable as any
coordinate of a before the data, one more column ρ makes its predictions exact, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import qr
from scipy.sparse import csr_array

from credibly.data.threads import blas_threads, interruptible
from credibly.errors import InputError
from credibly.inference.contrasts import centring
from credibly.inference.frame import Frame
from credibly.inference.posterior import Gaussian, WeightPosterior
from credibly.model.centred_prior import IndependentPrior
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import PSD, DesignMatrix
from credibly.numerics.settings import MANY_WEIGHTS, ManyWeights
from credibly.numerics.special import LOG_2PI

LONG_NUMBERS = 10_000_000  # in a basis whose making takes seconds: Ctrl-C is not to wait for it
DENSE_NUMBERS = 4_000_000  # of sparse rows, or of columns, held densely at a time: 32 megabytes
DEPENDENT = 1e-12  # of a row's length: what is left of it outside a space to which it belongs, but for rounding


class Spanned(NamedTuple):
    """The space of some rows, and their coordinates in it."""

    space: "RowSpace"
    coordinates: Array  # A, (n, r)


@dataclass(frozen=True)
class RowSpace(Frame):
    """Coordinates (a, e, b) of a weight vector: along the rows of a fit, outside of them, and the intercept.

    Examples
    --------
    >>> frame = Frame(center=np.zeros(3), scale=np.ones(3), intercept=False)
    >>> prior = IndependentPrior(np.zeros((1, 3)), np.ones(3), 1.0, np.zeros(3))
    >>> space = RowSpace.of(np.array([[0.0, 2.0, 0.0]]), frame, prior).space
    >>> np.abs(space.design(np.array([[0.0, 2.0, 0.0], [3.0, 1.0, 4.0]])))
    array([[2., 0.],
           [1., 5.]])
    """

    spread: Array  # τ, (d,)
    columns: Codes  # of the basis, (c,): others are zero in all rows
    basis: Array  # Q, (c, r)

    @classmethod
    def of(cls, X: DesignMatrix, frame: Frame, prior: IndependentPrior) -> Spanned:  # type: ignore[override]
        """The space of rows X (n, d), of the prior's mean, and of where its intercept is; coordinates of the rows."""
        extra = [prior.mean[:, : len(prior.scale)] / prior.scale]
        if frame.intercept:
            extra.append(((prior.point - frame.center) * prior.scale)[None])
        directions = np.concatenate(extra)
        directions = directions[directions.any(axis=1)]
        plain = cls(
            frame.center, frame.scale, frame.intercept, prior.scale, np.empty(0, dtype=np.intp), np.empty((0, 0))
        )
        columns = np.union1d(plain._occurring(X), np.flatnonzero(directions.any(axis=0)))
        vectors = np.concatenate([plain._whitened(X, columns), directions[:, columns]])
        with blas_threads(len(vectors), None):
            factorise = partial(qr, vectors.T, mode="economic", overwrite_a=True, check_finite=False)
            Q, R = interruptible(factorise) if vectors.size >= LONG_NUMBERS else factorise()
        space = replace(plain, columns=columns, basis=np.asarray(Q, dtype=np.float64))
        return Spanned(space, np.ascontiguousarray(R[:, : X.shape[0]].T))

    @property
    def rank(self) -> int:
        """r, the number of coordinates a."""
        return int(self.basis.shape[1])

    @property
    def full(self) -> Frame:
        """The frame of all columns."""
        return Frame(self.center, self.scale, self.intercept)

    @property
    def log_volume(self) -> float:
        """log |det dx/dw| of one weight vector."""
        return float(-np.log(self.spread).sum())

    # --- rows ------------------------------------------------------------------------------------------------

    def design(self, X: DesignMatrix) -> Array:
        """(A, ρ, 1) for rows X."""
        if isinstance(X, csr_array) and self.center.any():
            X = np.asarray(X.toarray())
        rows = max(1, DENSE_NUMBERS // max(1, X.shape[1]))
        every = np.arange(len(self.spread))
        parts = [self._coordinates(self._whitened(X[at : at + rows], every)) for at in range(0, X.shape[0], rows)]
        return self._with_ones(np.concatenate(parts), np.ones((X.shape[0], 1)))

    def rows_to_frame(self, Phi: Array) -> Array:
        """Rows Φ in data units (a ones column last, or anything in its place) as rows that multiply (a, e, b)."""
        rows = np.atleast_2d(Phi)
        ones = rows[:, -1:] if self.intercept else np.zeros((len(rows), 1))
        slopes = (rows[:, : len(self.spread)] - ones * self.center) * self.spread
        return self._with_ones(self._coordinates(slopes), ones).reshape(*Phi.shape[:-1], -1)

    def _with_ones(self, coordinates: Array, ones: Array) -> Array:
        return np.hstack([coordinates, ones]) if self.intercept else coordinates

    def _coordinates(self, V: Array) -> Array:
        """(A, ρ) for whitened rows V, (n, r + 1). V is overwritten."""
        A = V[:, self.columns] @ self.basis
        V[:, self.columns] -= A @ self.basis.T  # not a difference of squares, which could be negative
        return np.column_stack([A, np.linalg.norm(V, axis=1)])

    def _whitened(self, X: DesignMatrix, columns: Codes) -> Array:
        """Some columns of V, densely."""
        if isinstance(X, csr_array):
            return np.asarray(X[:, columns].toarray() * self.spread[columns])
        V: Array = (X if len(columns) == X.shape[1] else X[:, columns]) - self.center[columns]
        V *= self.spread[columns]
        return V

    def _occurring(self, X: DesignMatrix) -> Codes:
        """Columns in which some row is not zero."""
        return np.unique(X.indices) if isinstance(X, csr_array) else np.arange(X.shape[1])

    # --- weights ---------------------------------------------------------------------------------------------

    def to_data(self, u: Array) -> Array:
        """w for coordinates (a, e, b): the part inside the space."""
        x = np.zeros((*u.shape[:-1], len(self.spread)))
        x[..., self.columns] = u[..., : self.rank] @ self.basis.T
        return self._in_data_units(x, u[..., -1:])

    def to_frame(self, w: Array) -> Array:
        """Coordinates (a, 0, b) of weights w."""
        slopes = w[..., : len(self.spread)]
        a = (slopes / self.spread)[..., self.columns] @ self.basis
        inside = np.concatenate([a, np.zeros_like(w[..., :1])], axis=-1)
        if not self.intercept:
            return inside
        return np.concatenate([inside, w[..., -1:] + (slopes @ self.center)[..., None]], axis=-1)

    def outside(self, x: Array) -> Array:
        """(I - QQᵀ) x, for whitened slopes (…, d). They are overwritten."""
        x[..., self.columns] -= (x[..., self.columns] @ self.basis) @ self.basis.T
        return x

    def outside_to_data(self, x: Array) -> Array:
        """Weights in data units that have the whitened slopes (I - QQᵀ) x. These are overwritten."""
        return self._in_data_units(self.outside(x), np.zeros((*x.shape[:-1], 1)))

    def _in_data_units(self, x: Array, b: Array) -> Array:
        slopes = x * self.spread
        return np.concatenate([slopes, b - (slopes @ self.center)[..., None]], axis=-1) if self.intercept else slopes

    # --- more rows -------------------------------------------------------------------------------------------

    def grown(self, X: DesignMatrix) -> "RowSpace":
        """The space of these rows, too; coordinates that there were stay, and new ones follow them."""
        columns = np.union1d(self.columns, self._occurring(X))
        basis = np.zeros((len(columns), self.rank))
        basis[np.searchsorted(columns, self.columns)] = self.basis
        V = self._whitened(X, columns)
        length = np.linalg.norm(V)
        for _ in range(2):  # what the first time leaves inside, for rounding, is gone after the second
            V -= (V @ basis) @ basis.T
        Q, R, _ = qr(V.T, mode="economic", pivoting=True, check_finite=False)
        new = np.abs(np.diag(R)) > DEPENDENT * length
        return replace(self, columns=columns, basis=np.hstack([basis, Q[:, new]]))

    def embed(self, q: Gaussian, smaller: "RowSpace") -> Gaussian:
        """A distribution over the coordinates of a smaller space over those of this one: the rest is as e is."""
        new = self.new_places(smaller, q.mean.size)
        old = np.setdiff1d(np.arange(q.mean.size + len(new)), new)
        factor = np.zeros((len(old) + len(new),) * 2, order="F")
        factor[np.ix_(old, old)] = q.precision.factor
        factor[new, new] = q.precision.factor[smaller.rank, smaller.rank]  # lower triangular it stays
        return Gaussian(self.embed_vector(q.mean, smaller), PSD(factor))

    def embed_vector(self, u: Array, smaller: "RowSpace") -> Array:
        """Coordinates of weights in a smaller space, of all classes, as coordinates in this one."""
        new = self.new_places(smaller, len(u))
        out = np.zeros(len(u) + len(new))
        out[np.setdiff1d(np.arange(len(out)), new)] = u
        return out

    def new_places(self, smaller: "RowSpace", size: int) -> Codes:
        """Where, among the coordinates of all classes, those stand that a smaller space has not."""
        n_classes = size // (smaller.rank + 1 + self.intercept)
        first = np.arange(n_classes)[:, None] * (self.rank + 1 + self.intercept) + smaller.rank
        return np.asarray((first + np.arange(self.rank - smaller.rank)).reshape(-1))


@dataclass(frozen=True, repr=False)
class RowSpacePosterior(WeightPosterior):
    """The posterior over all weights: a Gaussian inside the row space, independent of the prior outside of it."""

    frame: RowSpace

    def __repr__(self) -> str:
        return f"RowSpacePosterior(M={self.mean.size}, {self.frame.rank} directions in the rows)"

    @property
    def _outside_variance(self) -> float:
        """Of a whitened slope, before the data and after them: the variance of e."""
        return float((self.gaussian.root[:, self.frame.rank] ** 2).sum())

    @property
    def cov(self) -> Array:
        """Posterior covariance, (M, M)."""
        refuse_covariance(self.mean.size)
        root, K = self.to_data(self.gaussian.root), len(self.contrast)
        prior = self.frame.outside_to_data(np.eye(len(self.frame.spread)))
        return np.asarray(root.T @ root + self._outside_variance * np.kron(np.eye(K), prior.T @ prior))

    @property
    def std(self) -> Array:
        """Posterior standard deviations, (M,)."""
        return np.sqrt(self._variances(np.eye(len(self.contrast)))).reshape(-1)

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation of what is determined of the weights, (M,) each."""
        K = len(self.contrast)
        combinations = np.eye(1) if K == 1 else centring(K)
        return self.determined(self.mean), np.sqrt(self._variances(combinations)).reshape(-1)

    def _variances(self, combinations: Array) -> Array:
        """Variances of combinations (K, K) of the weight vectors, (K, D)."""
        frame, K = self.frame, len(combinations)
        root = combinations @ self.gaussian.root.reshape(-1, K, frame.rank + 1 + frame.intercept)
        variance = self._outside_variance * (combinations**2).sum(axis=1)
        slopes = np.repeat(variance[:, None], len(frame.spread), axis=1)
        for part in _slices(len(frame.columns), DENSE_NUMBERS // root.size * frame.rank + 1):
            along = frame.basis[part]
            inside = ((root[..., : frame.rank] @ along.T) ** 2).sum(axis=0)
            slopes[:, frame.columns[part]] = inside + variance[:, None] * (1 - (along**2).sum(axis=1))
        slopes *= frame.spread**2
        if not frame.intercept:
            return slopes
        zero = frame.rows_to_frame(np.append(np.zeros(len(frame.spread)), 1.0))
        return np.column_stack([slopes, ((root @ zero) ** 2).sum(axis=0)])

    def logpdf(self, w: Array) -> Array:
        """Log density at weights w, (M,) or (size, M), in data units."""
        frame, K = self.frame, len(self.contrast)
        w = np.asarray(w, dtype=float)
        slopes = w.reshape(*w.shape[:-1], K, -1)[..., : len(frame.spread)]
        squares = (frame.outside(slopes / frame.spread) ** 2).sum(axis=(-2, -1))
        variance = self._outside_variance
        dimensions = len(frame.spread) - frame.rank - 1  # e = 0 is counted by the Gaussian inside
        outside = squares / variance + K * dimensions * (LOG_2PI + np.log(variance))
        return np.asarray(self.gaussian.logpdf(self.to_frame(w)) - 0.5 * outside + K * frame.log_volume)

    def to_frame(self, w: Array) -> Array:
        """Weights in data units (…, K·D) to the coordinates of the space."""
        w = np.asarray(w, dtype=float)
        return self.frame.to_frame(w.reshape(*w.shape[:-1], len(self.contrast), -1)).reshape(*w.shape[:-1], -1)

    def data_draws(self, rng: np.random.Generator, u: Array) -> Array:
        """Draws of the coordinates (size, …) in data units, each with a draw of what lies outside, (size, M)."""
        white = rng.standard_normal((len(u), len(self.contrast), len(self.frame.spread)))
        outside = np.sqrt(self._outside_variance) * self.frame.outside_to_data(white)
        return np.asarray(self.to_data(u) + outside.reshape(len(u), -1))

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the weights, (size, M)."""
        return self.data_draws(rng, self.gaussian.sample(rng, size))

    def frame_draws(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the weight vectors in the frame of all columns, (size, K, D)."""
        draws = self.sample(rng, size)
        return self.frame.full.to_frame(draws.reshape(size, len(self.contrast), -1))

    def extended(self, X: DesignMatrix) -> Self:
        """The same distribution in coordinates that new rows have, too."""
        frame = self.frame.grown(X)
        return replace(self, gaussian=frame.embed(self.gaussian, self.frame), frame=frame)


def refuse_covariance(n_weights: int, limits: ManyWeights = MANY_WEIGHTS) -> None:
    """Raise where a matrix of all pairs of weights is too large to look at."""
    if n_weights > limits.largest_matrix:
        raise InputError(
            f"The covariance of {n_weights:,} weights would be a matrix of {8e-9 * n_weights**2:.1f} GB; it is formed "
            f"up to {limits.largest_matrix:,} weights. posterior_.std, .interval, .sample and .project(rows), and all "
            "predictions, do without it."
        )


def _slices(size: int, step: int) -> Iterator[slice]:
    return (slice(at, at + step) for at in range(0, size, step))
