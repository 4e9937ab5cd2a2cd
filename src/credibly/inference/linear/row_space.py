r"""Fewer rows than weights: the posterior in the space that the rows span, and the prior outside of it.

Notation
--------
====  ======================================================================================  ===========
w, b  weights of one class in data units                                                      (d,), number
x     coefficients whitened by their prior: w = τ ∘ x with standard deviations τ               (d,)
V     rows that multiply x: (X - center) ∘ τ                                                  (n, d)
Q     an orthonormal basis of the rows of V, V = A Qᵀ                                         (d, r)
a     coordinates of x in that basis, x = Q a + rest                                          (r,)
e     what rows outside of the space have: a score ρ e, ρ the length of v - Q Qᵀ v             number
s     prior standard deviation of x, where it is learnt; else one                             number
====  ======================================================================================  ===========

A row of the data has the score A a + b and no more: of what lies outside the labels say nothing, and there the
posterior *is* the prior. So a fit with d columns is one with the columns (A, 0) of which there are at most as many as
rows, exactly, whatever the inference; and since each new row has just one score outside, ρe with e as variable as any
coordinate of a before the data, one more column ρ makes its predictions exact, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.sparse import csr_array

from credibly.data.columns import Columns
from credibly.data.memory import refuse_beyond_memory
from credibly.data.rows import Block, MemoryRows, Rows, joined
from credibly.data.threads import blas_threads, interruptible
from credibly.errors import InputError
from credibly.inference.gaussian import Gaussian
from credibly.inference.linear.design import Standardization
from credibly.inference.linear.priors import in_data_units
from credibly.inference.linear.spec import Data, LinearSpec, PriorChoice
from credibly.model.centred_prior import CentredNormal, IndependentPrior
from credibly.model.priors import Normal
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import PSD, DesignMatrix
from credibly.numerics.special import LOG_2PI

LONG_NUMBERS = 10_000_000  # in a basis whose making takes seconds: Ctrl-C is not to wait for it
DENSE_NUMBERS = 4_000_000  # of sparse rows, or of columns, held densely at a time: 32 megabytes
DEPENDENT = 1e-12  # of a row's length: what is left of it outside a space to which it belongs, but for rounding
BASIS_ARRAYS = 2  # as large as the basis, while it is made: the rows whitened, and itself


@dataclass(frozen=True)
class RowSpace:
    """Coordinates (a, e, b) of a weight vector: along the rows of a fit, outside of them, and the intercept.

    It stands in the place of a `Standardization`.

    Examples
    --------
    >>> prior = IndependentPrior(np.zeros((1, 3)), np.ones(3), 1.0, np.zeros(3))
    >>> space, _ = spanned(np.array([[0.0, 2.0, 0.0]]), np.zeros(3), prior, intercept=False)
    >>> np.abs(space.design(np.array([[0.0, 2.0, 0.0], [3.0, 1.0, 4.0]])))
    array([[2., 0.],
           [1., 5.]])
    """

    center: Array  # (d,)
    spread: Array  # τ, (d,)
    intercept: bool
    columns: Codes  # of the basis, (c,): others are zero in all rows
    basis: Array  # Q, (c, r)
    prior_sd: float = 1.0  # s

    @property
    def rank(self) -> int:
        """r, the number of coordinates a."""
        return int(self.basis.shape[1])

    @property
    def size(self) -> int:
        """The length of one weight vector (a, e, b)."""
        return self.rank + 1 + self.intercept

    @property
    def log_volume(self) -> float:
        """log |det dx/dw| of one weight vector."""
        return float(-np.log(self.spread).sum())

    @property
    def _unit(self) -> Standardization:
        d = self.rank + 1
        return Standardization(np.zeros(d), np.ones(d), self.intercept)

    # --- rows ------------------------------------------------------------------------------------------------

    def over(self, rows: Rows) -> tuple[Rows, Standardization]:
        """Rows as (A, ρ), and the standardization that is left to fold into the weights: none."""
        return rows.through(self.coordinates), self._unit

    def design(self, X: DesignMatrix) -> DesignMatrix:
        """(A, ρ, 1) for rows X."""
        return self._unit.design(self.coordinates(X))

    def coordinates(self, X: DesignMatrix) -> Array:
        """(A, ρ) for rows X."""
        rows = max(1, DENSE_NUMBERS // max(1, X.shape[1]))
        every = np.arange(len(self.spread))
        parts = [self._split(self._whitened(X[at : at + rows], every)) for at in range(0, X.shape[0], rows)]
        return np.concatenate(parts) if parts else np.empty((0, self.rank + 1))

    def rows_from_data(self, Phi: Array) -> Array:
        """Rows Φ in data units (a column of ones last, or anything in its place) as rows that multiply (a, e, b)."""
        rows = np.atleast_2d(Phi)
        ones = rows[:, -1:] if self.intercept else np.zeros((len(rows), 1))
        split = self._split((rows[:, : len(self.spread)] - ones * self.center) * self.spread)
        return (np.hstack([split, ones]) if self.intercept else split).reshape(*Phi.shape[:-1], -1)

    def _split(self, V: Array) -> Array:
        """(A, ρ) for whitened rows V, (n, r + 1). V is overwritten."""
        A = V[:, self.columns] @ self.basis
        V[:, self.columns] -= A @ self.basis.T  # not a difference of squares, which could be negative
        return np.column_stack([A, np.linalg.norm(V, axis=1)])

    def _whitened(self, X: DesignMatrix, columns: Codes) -> Array:
        """Some columns of V, densely."""
        every = len(columns) == X.shape[1]
        chosen = X[:, columns].toarray() if isinstance(X, csr_array) else X if every else X[:, columns]
        V: Array = chosen - self.center[columns]
        V *= self.spread[columns]
        return V

    # --- weights ---------------------------------------------------------------------------------------------

    def to_data(self, u: Array) -> Array:
        """(w, b) for coordinates (a, e, b): the part inside the space."""
        x = np.zeros((*u.shape[:-1], len(self.spread)))
        x[..., self.columns] = u[..., : self.rank] @ self.basis.T
        return self._in_data_units(x, u[..., -1:])

    def from_data(self, w: Array) -> Array:
        """Coordinates (a, 0, b) of weights (w, b)."""
        slopes = w[..., : len(self.spread)]
        a = (slopes / self.spread)[..., self.columns] @ self.basis
        inside = np.concatenate([a, np.zeros_like(w[..., :1])], axis=-1)
        if not self.intercept:
            return inside
        return np.concatenate([inside, w[..., -1:] + (slopes @ self.center)[..., None]], axis=-1)

    def _in_data_units(self, x: Array, b: Array) -> Array:
        slopes = x * self.spread
        return np.concatenate([slopes, b - (slopes @ self.center)[..., None]], axis=-1) if self.intercept else slopes

    # --- outside ---------------------------------------------------------------------------------------------

    def outside(self, x: Array) -> Array:
        """(I - QQᵀ) x, for whitened coefficients (…, d). They are overwritten."""
        x[..., self.columns] -= (x[..., self.columns] @ self.basis) @ self.basis.T
        return x

    def outside_draws(self, rng: np.random.Generator, size: int, n_classes: int) -> Array:
        """Draws of what the prior says outside of the space, in data units: (size, K, D)."""
        white = self.prior_sd * rng.standard_normal((size, n_classes, len(self.spread)))
        return self._in_data_units(self.outside(white), np.zeros((size, n_classes, 1)))

    def outside_cov(self) -> Array:
        """The covariance of that, of one class: (D, D)."""
        root = self._in_data_units(self.outside(np.eye(len(self.spread))), np.zeros((len(self.spread), 1)))
        return np.asarray(self.prior_sd**2 * root.T @ root)

    def outside_logpdf(self, w: Array) -> Array:
        """The log density of that, in whitened coordinates, for weights in data units (…, K, D)."""
        squares = (self.outside(w[..., : len(self.spread)] / self.spread) ** 2).sum(axis=(-2, -1))
        dimensions = w.shape[-2] * (len(self.spread) - self.rank - 1)  # e = 0 is counted inside
        return np.asarray(-0.5 * (squares / self.prior_sd**2 + dimensions * (LOG_2PI + 2 * np.log(self.prior_sd))))

    def variances(self, root: Array, outside: Array) -> Array:
        """Variances of weights in data units (K, D), inside by a root (·, K, size), outside (K,) times the prior's."""
        variance = self.prior_sd**2 * outside
        slopes = np.repeat(variance[:, None], len(self.spread), axis=1)
        for part in _slices(len(self.columns), max(1, DENSE_NUMBERS // max(1, root[..., 0].size))):
            along = self.basis[part]
            inside = ((root[..., : self.rank] @ along.T) ** 2).sum(axis=0)
            slopes[:, self.columns[part]] = inside + variance[:, None] * (1 - (along**2).sum(axis=1))
        slopes *= self.spread**2
        if not self.intercept:
            return slopes
        zero = self.rows_from_data(np.append(np.zeros(len(self.spread)), 1.0))
        return np.column_stack([slopes, ((root @ zero) ** 2).sum(axis=0)])

    # --- more rows -------------------------------------------------------------------------------------------

    def grown(self, X: DesignMatrix) -> "RowSpace":
        """The space of these rows, too; coordinates that there were stay, and new ones follow them."""
        columns = np.union1d(self.columns, occurring(X))
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
        old = self.places_of(smaller, q.mean.size)
        size = q.mean.size // smaller.size * self.size
        new = np.setdiff1d(np.arange(size), old)
        mean, factor = np.zeros(size), np.zeros((size, size), order="F")
        mean[old] = q.mean
        factor[np.ix_(old, old)] = q.precision.factor
        factor[new, new] = q.precision.factor[smaller.rank, smaller.rank]  # lower triangular it stays
        return Gaussian(mean, PSD(factor))

    def places_of(self, smaller: "RowSpace", size: int) -> Codes:
        """Where the coordinates of so many weights in a smaller space are among those in this one."""
        vectors, more = np.arange(size // smaller.size)[:, None], self.rank - smaller.rank
        one = np.concatenate([np.arange(smaller.rank), np.arange(smaller.rank, smaller.size) + more])
        return np.asarray(vectors * self.size + one, dtype=np.intp).reshape(-1)


class Spanned(NamedTuple):
    """The space of some rows, and their coordinates in it."""

    space: RowSpace
    coordinates: Array  # A, (n, r)


def spanned(X: DesignMatrix, center: Array, prior: IndependentPrior, *, intercept: bool) -> Spanned:
    """The space of rows X (n, d), of the prior's mean, and of where its intercept is; coordinates of the rows."""
    extra = [prior.mean[:, : len(prior.scale)] / prior.scale]
    if intercept:
        extra.append(((prior.point - center) * prior.scale)[None])
    directions = np.concatenate(extra)
    directions = directions[directions.any(axis=1)]
    plain = RowSpace(center, prior.scale, intercept, np.empty(0, dtype=np.intp), np.empty((0, 0)))
    columns = np.union1d(occurring(X), np.flatnonzero(directions.any(axis=0) | (center != 0)))
    vectors = np.concatenate([plain._whitened(X, columns), directions[:, columns]])
    with blas_threads(len(vectors), None):
        factorise = partial(qr, vectors.T, mode="economic", overwrite_a=True, check_finite=False)
        Q, R = interruptible(factorise) if vectors.size >= LONG_NUMBERS else factorise()
    basis = np.asarray(Q, dtype=np.float64)
    return Spanned(replace(plain, columns=columns, basis=basis), np.ascontiguousarray(R[:, : X.shape[0]].T))


def occurring(X: DesignMatrix) -> Codes:
    """Columns in which some row is not zero."""
    return np.unique(X.indices) if isinstance(X, csr_array) else np.arange(X.shape[1])


def _slices(size: int, step: int) -> Iterator[slice]:
    return (slice(at, at + step) for at in range(0, size, step))


# --- a problem in the space of its rows -----------------------------------------------------------------------


class Reduced(NamedTuple):
    """A problem in the space of its rows: an ordinary one of fewer columns."""

    space: RowSpace
    data: Data
    prior: PriorChoice


def worth_reducing(data: Data, spec: LinearSpec) -> bool:
    """Whether the space of the rows is worth looking for: a matrix of its coordinates is far smaller."""
    limits, shape, n = spec.limits, spec.shape(data), data.rows.n_rows
    if not (shape.total > limits.narrow and has_independent_slopes(spec.prior)) or spec.inference == "adf_spherical":
        return False  # one variance for all weights is the mean over all of them
    fewer = n < shape.per_output if shape.total > limits.largest_matrix else n <= limits.few_rows * shape.per_output
    if not fewer or shape.n_outputs * (n + 2) > limits.largest_matrix:
        return False
    return (
        n * shape.n_features <= limits.largest_basis
        or n * len(occurring(all_rows(data.rows).X)) <= limits.largest_basis
    )


def has_independent_slopes(prior: PriorChoice) -> bool:
    """Whether a prior is known by scales alone, so that it looks the same from all sides once it is whitened."""
    return prior == "empirical" or (isinstance(prior, Normal) and prior.cov is None)


def in_row_space(data: Data, spec: LinearSpec) -> Reduced:
    """The problem in the space of its rows."""
    shape, table = spec.shape(data), all_rows(data.rows)
    numbers = BASIS_ARRAYS * data.rows.n_rows * len(occurring(table.X))
    refuse_beyond_memory(numbers, "a basis of the rows", "Use fewer columns, or a machine with more memory.")
    given = unit_prior(data) if isinstance(spec.prior, str) else spec.prior
    assert isinstance(given, Normal)
    prior = IndependentPrior.of(in_data_units(given, data.columns, shape), shape)
    center = data.columns.mean if spec.intercept else np.zeros(shape.n_features)
    space, A = spanned(table.X, center, prior, intercept=spec.intercept)
    d, weight = space.rank + 1, data.columns.weight
    threads = data.rows.threads
    rows = MemoryRows(np.column_stack([A, np.zeros(len(A))]), table.y, table.weight, table.offset, threads)
    columns = Columns(weight, np.zeros(d), np.full(d, weight), np.zeros(d), np.ones(d))
    names = tuple(f"direction {i}" for i in range(d))
    reduced = replace(data, rows=rows, columns=columns, names=names, sparse=False)
    if isinstance(spec.prior, str):
        return Reduced(space, reduced, spec.prior)
    mean = space.from_data(prior.mean)
    mean = mean[0] if (mean == mean[0]).all() else mean.reshape(-1)
    point = ((prior.point - center) * space.spread)[space.columns] @ space.basis
    turned = CentredNormal(np.ones(d), prior.intercept_scale, np.append(point, 0.0), mean=mean if mean.any() else None)
    return Reduced(space, reduced, turned)


def unit_prior(data: Data) -> CentredNormal:
    """The prior of standardized columns with a scale of one, in data units, without a matrix."""
    return scaled_prior(data, 1.0)


def scaled_prior(data: Data, scale: float, intercept_scale: float = 10.0) -> CentredNormal:
    """The prior of standardized columns with one scale, in data units, without a matrix."""
    return CentredNormal(scale / data.columns.scale, intercept_scale, data.columns.mean)


def refuse_growth(space: RowSpace, n_outputs: int, largest: int) -> None:
    """Refuse an update after which there would be too many coordinates."""
    if n_outputs * (space.rank + 2) > largest:
        raise InputError(
            f"With these rows the posterior would have {n_outputs * (space.rank + 2):,} coordinates; a model of so "
            f"many weights is updated up to {largest:,} (rows so far, times classes). Fit to all rows at once."
        )


def all_rows(rows: Rows) -> Block:
    """All rows, as one block."""
    if isinstance(rows, MemoryRows):
        return rows.block(slice(0, rows.n_rows))
    return joined(list(rows.each(lambda block: block)))
