"""Precisions of very many weights: a diagonal and a few directions, in the metric of the prior.

Notation
--------
====  ======================================================================  ===========
Λ     the precision, Gᵀ N⁻ᵀ (Δ + V Vᵀ) N⁻¹ G                                  never formed
G     whitens the prior, the same for every class (which may be turned)       (D, D)
N     puts in what is known exactly (see `anchors`); mostly the identity      (M, M)
Δ     a positive diagonal                                                     (M,), M = K·D
V     directions along which the data determine more than Δ says              (M, r)
S     Δ^(-1/2) V                                                              (M, r)
C     I + SᵀS = L Lᵀ, so that (Δ + VVᵀ)⁻¹ = Δ^(-1/2) (I - S C⁻¹Sᵀ) Δ^(-1/2)   (r, r)
====  ======================================================================  ===========

Woodbury's identity with one Cholesky factor of r × r: nothing of size M × M, and no inverse.
R = I - S L⁻ᵀ(I + L)⁻¹Sᵀ is a root of the matrix in brackets, R Rᵀ = I - S C⁻¹Sᵀ.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, eye_array

from credibly.errors import InputError
from credibly.numerics.anchors import Anchors
from credibly.numerics.arrays import Array
from credibly.numerics.arrow import Arrow
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD, Definite, DesignMatrix

LARGEST_FULL = 5_000  # weights: up to here a matrix of all pairs of them is formed (200 MB)
BLOCK_NUMBERS = 4_000_000  # held at a time


class Directions(ABC):
    """G, N, Δ, S and C: two kinds of them, below."""

    arrow: Arrow
    turn: Array  # (K, K), orthogonal: class coordinates are turn times those of Δ and S
    outputs: int  # K, the number of weight vectors
    root: Array  # Δ^(1/2), (K, D)
    core: PSD  # C
    anchors: Anchors

    @abstractmethod
    def down(self, x: Array) -> Array:
        """Sᵀx for vectors x (m, K, D): (m, r)."""

    @abstractmethod
    def up(self, t: Array) -> Array:
        """S t for vectors t (m, r): (m, K, D)."""

    @abstractmethod
    def spread(self, Z: DesignMatrix) -> Array:
        """Sᵀ Δ^(-1/2) G⁻ᵀ z for rows z of every class, (b, K, r)."""

    @cached_property
    def shifted(self) -> PSD:
        """I + L, for its triangle."""
        return PSD(np.asfortranarray(self.core.factor + np.eye(len(self.core.factor))))

    def white(self, b: Array) -> Array:
        """Δ^(-1/2) Nᵀ G⁻ᵀ b for columns b (M, m), as (m, K, D)."""
        x = self.turn.T @ self.arrow.whiten(_as_rows(b, self.outputs))
        return np.asarray(self._flat(self.anchors.times_transposed, x) / self.root)

    def unwhitened(self, x: Array) -> Array:
        """G⁻¹ N Δ^(-1/2) x: (m, K, D)."""
        return self.arrow.solve(self.turn @ self._flat(self.anchors.times, x / self.root))

    def scaled(self, w: Array) -> Array:
        """Δ^(1/2) N⁻¹ G w for vectors w (…, M), as (m, K, D)."""
        x = self.turn.T @ self.arrow.times(w.reshape(-1, *self.root.shape))
        return np.asarray(self.root * self._flat(self.anchors.solve, x))

    def unscaled(self, x: Array) -> Array:
        """Gᵀ N⁻ᵀ Δ^(1/2) x: (m, K, D)."""
        return self.arrow.transposed(self.turn @ self._flat(self.anchors.solve_transposed, self.root * x))

    def _flat(self, change: Callable[[Array], Array], x: Array) -> Array:
        return change(x.reshape(len(x), -1)).reshape(x.shape) if self.anchors.ends.size else x

    @property
    @abstractmethod
    def kept(self) -> float:
        """tr(N(Δ + VVᵀ)⁻¹Nᵀ): of M units of prior precision, those that the data added nothing to."""

    def covariances(self, Z: DesignMatrix) -> Array:
        """Covariance of the K scores of each of some rows, (b, K, K)."""
        low = self.spread(Z)
        n, K, r = low.shape
        white = self.core.half_solve(np.asfortranarray(low.reshape(n * K, r).T)).T.reshape(n, K, r)
        cov = -(white @ white.transpose(0, 2, 1))
        for k, share in enumerate(self.root**-2):
            cov[:, k, k] += self.arrow.squares(Z, share)
        if self.anchors.ends.size:
            held, exact = (np.asarray(Z @ axes).reshape(n, K, -1) for axes in self._anchor_axes)
            cov += exact @ exact.transpose(0, 2, 1) - held @ held.transpose(0, 2, 1)
        return np.asarray(self.turn @ cov @ self.turn.T)

    @cached_property
    def _anchor_axes(self) -> tuple[Array, Array]:
        """G⁻¹a and G⁻¹f, (D, K·m): what multiplies rows."""
        held, exact = (x.reshape(*self.root.shape, -1) for x in (self.anchors.held, self.anchors.exact))
        return _axes(self.arrow, held), _axes(self.arrow, exact)


@dataclass(frozen=True, repr=False)
class WidePrecision(Definite):
    """Λ, asked like a matrix that is held by its Cholesky factor; what would be M × M is formed up to a size only.

    Examples
    --------
    >>> G = Arrow(np.ones(3), np.zeros(3))
    >>> A = WidePrecision(RowDirections.of(G, np.array([[1.0, 2.0, 2.0]]), np.array([[[2.0]]])))
    >>> A
    WidePrecision(M=3, rank=1)
    >>> A.solve(np.array([37.0, 0.0, 0.0])).round(12)
    array([33., -8., -8.])
    """

    low: Directions

    def __repr__(self) -> str:
        return f"WidePrecision(M={self.size}, rank={len(self.low.core.factor)})"

    @property
    def size(self) -> int:
        """M."""
        return int(self.low.root.size)

    @cached_property
    def logdet(self) -> float:
        """Log determinant of Λ."""
        low = self.low
        own = float(2 * np.log(low.root).sum()) + low.core.logdet
        return low.outputs * low.arrow.logdet + own - 2 * low.anchors.logdet

    def solve(self, b: Array) -> Array:
        """Λ⁻¹ b."""
        low, x = self.low, self.low.white(b)
        return _as_columns(low.unwhitened(x - low.up(low.core.solve(low.down(x).T).T)), b)

    def half_solve(self, b: Array) -> Array:
        """Rᵀ Δ^(-1/2) Nᵀ G⁻ᵀ b, so that bᵀ Λ⁻¹ b is its squared length."""
        low, x = self.low, self.low.white(b)
        x = x - low.up(low.shifted.half_solve_transposed(low.core.half_solve(low.down(x).T)).T)
        return _as_columns(x, b)

    def half_solve_transposed(self, b: Array) -> Array:
        """G⁻¹ N Δ^(-1/2) R b: white noise b becomes noise of covariance Λ⁻¹."""
        low, x = self.low, _as_rows(b, self.low.outputs)
        x = x - low.up(low.core.half_solve_transposed(low.shifted.half_solve(low.down(x).T)).T)
        return _as_columns(low.unwhitened(x), b)

    def times(self, w: Array) -> Array:
        """Λ w for vectors w (…, M)."""
        x = self.low.scaled(w)
        return self.low.unscaled(x + self.low.up(self.low.down(x))).reshape(w.shape)

    def row_covariances(self, Z: DesignMatrix) -> Array:
        """Covariance of the K scores of every row of Z, (n, K, K)."""
        K, D = self.low.root.shape
        held = D if isinstance(Z, np.ndarray) else self.low.arrow.n_dense  # of a row while it is whitened
        size = max(1, BLOCK_NUMBERS // max(K * len(self.low.core.factor), held))
        parts = [self.low.covariances(Z[start : start + size]) for start in range(0, Z.shape[0], size)]
        return np.concatenate(parts) if parts else np.empty((0, K, K))

    def inverse_diagonal(self) -> Array:
        """diag(Λ⁻¹), (M,)."""
        units = csr_array(eye_array(self.low.root.shape[1], format="csr"))
        return np.asarray(np.einsum("dkk->kd", self.row_covariances(units))).reshape(-1)

    @cached_property
    def matrix(self) -> Array:
        """Λ itself, up to a size."""
        refuse_full(self.size, "precision")
        x = self.low.scaled(np.eye(self.size))
        flat, low = x.reshape(len(x), -1), self.low.down(x)
        return np.asarray(flat @ flat.T + low @ low.T)

    @cached_property
    def factor(self) -> Array:
        """The Cholesky factor of Λ, up to a size."""
        return PSD.of(self.matrix, "the posterior precision").factor

    @cached_property
    def inverse_root(self) -> Array:
        """W with Λ⁻¹ = WᵀW, up to a size."""
        refuse_full(self.size, "covariance")
        return self.half_solve(np.eye(self.size))


def refuse_full(size: int, what: str) -> None:
    """Raise where a matrix of all pairs of weights would be too large to be useful."""
    if size > LARGEST_FULL:
        raise InputError(
            f"The {what} of {size:,} weights would be a matrix of {size**2 * 8 / 1e9:.1f} GB; it is formed up to "
            f"{LARGEST_FULL:,} weights. posterior_.std, .interval, .sample and .project(rows), and all predictions, do "
            "without. partial_fit, tests of weights and other ways of inference need it: use fewer columns for them."
        )


def _as_rows(b: Array, outputs: int) -> Array:
    """Columns (M, m), or one vector, as (m, K, D)."""
    return np.asarray(b.reshape(len(b), -1).T.reshape(-1, outputs, len(b) // outputs))


def _axes(arrow: Arrow, x: Array) -> Array:
    """G⁻¹x for vectors x (K, D, m), as (D, K·m)."""
    K, D, m = x.shape
    return np.ascontiguousarray(arrow.solve(np.moveaxis(x, 1, 2)).reshape(K * m, D).T)


def _as_columns(x: Array, like: Array) -> Array:
    return np.asarray(x.reshape(len(x), -1).T.reshape(like.shape))


@dataclass(frozen=True)
class RowDirections(Directions):
    """Exact, for fewer rows than weights: Δ = I, and V is the rows themselves, whitened and weighted.

    Parameters
    ----------
    arrow : Arrow
    rows : (n, D) array or csr_array
        Of the design.
    weights : (n, K, J) array
        Roots of the curvature of every row, B_n B_nᵀ: one number √W where there is one score.
    core : PSD
        C, (n·J, n·J).
    """

    arrow: Arrow
    rows: DesignMatrix
    weights: Array
    core: PSD

    @classmethod
    def of(cls, arrow: Arrow, rows: DesignMatrix, weights: Array) -> "RowDirections":
        """Factorise."""
        return cls(arrow, rows, weights, rows_core(arrow.products(rows, rows), weights))

    @property
    def outputs(self) -> int:  # type: ignore[override]  # derived here
        """K."""
        return int(self.weights.shape[1])

    @cached_property
    def turn(self) -> Array:  # type: ignore[override]  # derived here
        """The identity."""
        return np.eye(self.outputs)

    @cached_property
    def root(self) -> Array:  # type: ignore[override]  # derived here
        """Ones."""
        return np.ones((self.outputs, len(self.arrow.diagonal)))

    @cached_property
    def anchors(self) -> Anchors:  # type: ignore[override]  # derived here
        """None: all is exact."""
        return Anchors.none(self.root.size)

    def down(self, x: Array) -> Array:
        """Sᵀx."""
        u = self.arrow.solve(x)
        scores = np.asarray(self.rows @ u.reshape(-1, u.shape[-1]).T).reshape(-1, len(x), self.outputs)
        return np.asarray(np.einsum("nmk,nkj->mnj", scores, self.weights)).reshape(len(x), -1)

    def up(self, t: Array) -> Array:
        """S t."""
        n, K, J = self.weights.shape
        pull = np.einsum("mnj,nkj->mkn", t.reshape(-1, n, J), self.weights).reshape(-1, n)
        return self.arrow.whiten(np.asarray((self.rows.T @ pull.T).T)).reshape(len(t), K, -1)

    @property
    def kept(self) -> float:
        """M - tr(C⁻¹(C - I))."""
        return float(self.root.size - len(self.core.factor) + self.core.inverse_diagonal().sum())

    def spread(self, Z: DesignMatrix) -> Array:
        """Sᵀ G⁻ᵀ z for every row and class."""
        inner = self.arrow.products(Z, self.rows)
        return np.asarray(np.einsum("bn,nkj->bknj", inner, self.weights)).reshape(len(inner), self.outputs, -1)


def rows_core(K: Array, weights: Array) -> PSD:
    """C = I + Bᵀ (K ⊗ I) B from the inner products K of the rows and the roots B (n, K, J) of their curvature."""
    n, _, J = weights.shape
    if J == 1:
        return PSD.identity_plus(K, weights[:, 0, 0])
    inner = np.tensordot(weights, weights, axes=(1, 1)) * K[:, None, :, None]
    total = inner.reshape(n * J, n * J)
    total.flat[:: n * J + 1] += 1.0
    return PSD.of(total, "the precision of the rows' scores")


@dataclass(frozen=True)
class ChosenDirections(Directions):
    """A diagonal and r directions.

    Parameters
    ----------
    arrow : Arrow
    turn : (K, K) array
        Orthogonal: class coordinates are turn times those in which Δ and S are given.
    root : (K, D) array
        Δ^(1/2).
    directions : (K, D, r) array
        S.
    core : PSD
        C, (r, r).
    anchors : Anchors
        In the coordinates of Δ and S.
    """

    arrow: Arrow
    turn: Array
    root: Array
    directions: Array
    core: PSD
    anchors: Anchors

    @classmethod
    def of(
        cls, arrow: Arrow, turn: Array, root: Array, directions: Array, anchors: Anchors | None = None
    ) -> "ChosenDirections":
        """Factorise."""
        flat = directions.reshape(-1, directions.shape[-1])
        core = PSD.of(flat.T @ flat + np.eye(flat.shape[1]), "the low-rank core")
        return cls(arrow, turn, root, directions, core, Anchors.none(root.size) if anchors is None else anchors)

    @property
    def outputs(self) -> int:  # type: ignore[override]  # derived here
        """K."""
        return len(self.root)

    def down(self, x: Array) -> Array:
        """Sᵀx."""
        return np.asarray(x.reshape(len(x), -1) @ self.directions.reshape(-1, self.directions.shape[-1]))

    def up(self, t: Array) -> Array:
        """S t."""
        return np.asarray(t @ self.directions.reshape(-1, self.directions.shape[-1]).T).reshape(-1, *self.root.shape)

    @property
    def kept(self) -> float:
        """Σ 1/Δ - |L⁻¹ Sᵀ Δ^(-1/2)|², and what the anchors add."""
        scaled = (self.directions / self.root[:, :, None]).reshape(self.root.size, -1)
        own = (self.root**-2).sum() - (self.core.half_solve(np.asfortranarray(scaled.T)) ** 2).sum()
        return float(own) + self.anchors.trace

    @cached_property
    def _axes(self) -> Array:
        """G⁻¹ Δ^(-1/2) S, (D, K·r): what multiplies rows."""
        return _axes(self.arrow, self.directions / self.root[:, :, None])

    def spread(self, Z: DesignMatrix) -> Array:
        """Sᵀ Δ^(-1/2) G⁻ᵀ z for every row and class."""
        return np.asarray(Z @ self._axes).reshape(Z.shape[0], self.outputs, -1)
