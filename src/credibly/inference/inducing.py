r"""Latents of many rows that hang together through the function's values at a few points (FITC).

Notation
--------
======  ==============================================================================  =======
Z       inducing points                                                                 (m, d)
L       Cholesky factor of k(Z, Z)                                                      (m, m)
V       k(X, Z) L⁻ᵀ, so that V Vᵀ = k(X, Z) k(Z, Z)⁻¹ k(Z, X)                           (n, m)
D       k(x, x) - |v|²: what the points leave open of every latent                      (n,)
P       prior covariance of the latents, diag(D) + V Vᵀ; never formed                   (n, n)
W       curvatures of the likelihood (Laplace) or precisions of the sites (EP)          (n,)
S       W / (1 + D W), what rows say about V Vᵀ alone                                   (n,)
A       I + Vᵀ S V, eigenvalues at least one                                            (m, m)
R       (P + W⁻¹)⁻¹ = S - S V A⁻¹ Vᵀ S                                                  never formed
h       vᵀ A⁻¹ v of every row                                                           (n,)
======  ==============================================================================  =======

Everything is a pass over blocks of rows: O(n m²) time. V is held where it has at most `HELD_NUMBERS` numbers; else its
blocks are made anew in every pass, and the memory is that of a few blocks and of m × m matrices.

References: Snelson & Ghahramani 2006; Naish-Guzman & Holden 2007 (FITC for classification).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from credibly.data.rows import Block, MemoryRows, Sums, add
from credibly.errors import NotPositiveDefinite
from credibly.inference.inducing_points import independent_points
from credibly.model.kernels import Kernel
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD, scratch, weighted_gram

HELD_NUMBERS = 150_000_000  # of V: 1.2 gigabytes
BLOCK_NUMBERS = 2**18  # of V in a block: two megabytes, and enough blocks for several threads
FEWEST_ROWS = 256
LEFT = 1e-12  # of a prior variance: less is rounding
LOST = 1e-6  # of it: more below zero cannot be overlooked


@dataclass(frozen=True)
class Whitening:
    """From rows to the white coordinates of the function's values at the points: V, one row for each row."""

    kernel: Kernel
    points: Array  # Z
    factor: PSD  # of k(Z, Z)

    @classmethod
    def of(cls, kernel: Kernel, points: Array) -> "Whitening":
        """With those of the points that are independent in floating point for this kernel."""
        some = independent_points(kernel, points)
        Z = points if len(some) == len(points) else points[some]
        return cls(kernel, Z, PSD.of(kernel(Z, Z), "the kernel matrix of the inducing points"))

    def __call__(self, X: Array) -> Array:
        """V, (n, m)."""
        return self.whitened(self.kernel(X, self.points))

    def whitened(self, K: Array) -> Array:
        """V of rows whose k(X, Z) is at hand."""
        return np.asarray(K @ self.factor.inverse_root.T)


class Part(NamedTuple):
    """Some rows, seen from the points."""

    X: Array  # (b, d)
    V: Array  # (b, m)
    columns: Array  # numbers that belong to the rows, (·, b)


@dataclass(frozen=True)
class InducingPrior:
    """N(0, diag(D) + V Vᵀ) of the latents at n rows.

    Parameters
    ----------
    whitening : Whitening
    rows : MemoryRows
        Of X, handed out in blocks.
    V : (n, m) array or None
        Where it is held.
    D : (n,) array
    """

    whitening: Whitening
    rows: MemoryRows
    V: Array | None
    D: Array

    @classmethod
    def of(cls, kernel: Kernel, rows: MemoryRows, points: Array) -> "InducingPrior":
        """The prior of these rows; raises NotPositiveDefinite where the kernel gives no covariance."""
        whitening = Whitening.of(kernel, points)
        n, m = rows.n_rows, len(whitening.points)
        rows = rows.in_blocks(max(FEWEST_ROWS, BLOCK_NUMBERS // m))
        held = np.empty((n, m)) if n * m <= HELD_NUMBERS else None
        made = cls(whitening, rows, None, np.zeros(0))

        def block(part: Part) -> Array:
            if held is not None:
                held[_places(part.columns[-1])] = part.V
            return left_open(kernel.diag(part.X), part.V)

        return cls(whitening, rows, held, made.map(block))

    @property
    def m(self) -> int:
        """How many points are used."""
        return len(self.whitening.points)

    def sum(self, block: Callable[[Part], Sums], *columns: Array) -> Sums:
        """Sums over blocks of rows."""
        return self._with(columns).sum(lambda it: block(self._part(it)), add)

    def map(self, block: Callable[[Part], Array], *columns: Array) -> Array:
        """A function of every block, one row for each row."""
        return self._with(columns).map(lambda it: block(self._part(it)))

    def _with(self, columns: tuple[Array, ...]) -> MemoryRows:
        return self.rows.relabelled(np.column_stack([*columns, np.arange(self.rows.n_rows)]))

    def _part(self, block: Block) -> Part:
        X, columns = np.asarray(block.X), np.asarray(block.y).T
        return Part(X, self.whitening(X) if self.V is None else self.V[_places(columns[-1])], columns)

    def onto_points(self, *columns: Array) -> list[Array]:
        """Vᵀu for each column u."""
        (sums,) = self.sum(lambda part: (part.columns[:-1] @ part.V,), *columns)
        return list(np.asarray(sums))

    def from_points(self, c: Array) -> Array:
        """V c."""
        return self.map(lambda part: part.V @ c)

    def times(self, u: Array) -> Array:
        """P u."""
        return self.D * u + self.from_points(self.onto_points(u)[0])


def _places(numbers: Array) -> slice:
    """Where rows are that follow each other."""
    return slice(int(numbers[0]), int(numbers[-1]) + 1)


def left_open(prior: Array, V: Array) -> Array:
    """k(x, x) - |v|², zero where that is nothing but rounding."""
    left = prior - np.einsum("nm,nm->n", V, V)
    if not (left >= -LOST * prior).all():  # where the prior is zero, nothing is left and nothing is lost
        raise NotPositiveDefinite("the kernel gives no covariance between these rows and the inducing points.")
    return np.where(left > LEFT * prior, left, 0.0)


def squared_lengths(inverse_root: Array, V: Array) -> Array:
    """|L⁻¹ v|² of every row v."""
    half = np.matmul(V, inverse_root.T, out=scratch(*V.shape))
    return np.asarray(np.einsum("nm,nm->n", half, half))


class Pulled(NamedTuple):
    """a = (I + W P)⁻¹ b and P a."""

    a: Array
    f: Array


@dataclass(frozen=True)
class InducingPrecision:
    """P⁻¹ + W for a diagonal W, held by one m × m factor.

    Examples
    --------
    >>> from credibly.kernels import RBF
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> prior = InducingPrior.of(RBF(), MemoryRows(X, np.zeros(3)), X)  # all rows: nothing is left open
    >>> W = np.array([0.2, 0.1, 0.25])
    >>> R = np.linalg.solve(np.eye(3) + W[:, None] * RBF()(X), np.diag(W))
    >>> bool(np.allclose(InducingPrecision.of(prior, W).weigh(np.ones(3)), R.sum(axis=1)))
    True
    """

    prior: InducingPrior
    W: Array
    A: PSD
    projected: Array  # Vᵀ(b / (1 + D W)) of a column that was summed in the same pass, (m,)

    @classmethod
    def of(cls, prior: InducingPrior, W: Array, b: Array | None = None) -> "InducingPrecision":
        """Factorise; raises NotPositiveDefinite where P⁻¹ + W is not positive definite."""
        own = 1.0 + prior.D * W
        if not (own > 0).all():
            raise NotPositiveDefinite("P⁻¹ + W is not positive definite.")
        b = np.zeros_like(W) if b is None else b

        def block(part: Part) -> Sums:
            return weighted_gram(part.V, part.columns[0]), part.columns[1] @ part.V

        gram, projected = prior.sum(block, W / own, b / own)
        gram = np.asarray(gram)
        gram.flat[:: prior.m + 1] += 1.0
        return cls(prior, W, PSD.of(gram, "the precision at the inducing points"), np.asarray(projected))

    @property
    def own(self) -> Array:
        """1 + D W."""
        return 1.0 + self.prior.D * self.W

    @property
    def S(self) -> Array:
        """W / (1 + D W)."""
        return self.W / self.own

    @cached_property
    def logdet(self) -> float:
        """Log determinant of I + P W."""
        return float(np.log1p(self.prior.D * self.W).sum() + self.A.logdet)

    def weigh(self, u: Array) -> Array:
        """R u."""
        Su = self.S * u
        (c,) = self.prior.onto_points(Su)
        return Su - self.S * self.prior.from_points(self.A.solve(c))

    def pulled(self, b: Array, projected: Array | None = None) -> Pulled:
        """(I + W P)⁻¹ b, and P times that, from Vᵀ(b / (1 + D W)) where it is at hand: a pass over the rows less."""
        if projected is None:
            (projected,) = self.prior.onto_points(b / self.own)
        return self._pulled(b, self.prior.from_points(self.A.solve(projected)))

    def _pulled(self, b: Array, Vt: Array) -> Pulled:
        a = (b - self.W * Vt) / self.own
        return Pulled(a, self.prior.D * a + Vt)

    def pulled_with_leverage(self, b: Array) -> Pulled:
        """`pulled` by the column that was summed with the factor, finding `leverage` in the same pass."""
        t, root = self.A.solve(self.projected), self.A.inverse_root

        Vt, h = self.prior.map(lambda part: np.column_stack([part.V @ t, squared_lengths(root, part.V)])).T
        vars(self)["leverage"] = h  # what the cached property would find in a pass of its own
        return self._pulled(b, Vt)

    @cached_property
    def leverage(self) -> Array:
        """h."""
        root = self.A.inverse_root
        return self.prior.map(lambda part: squared_lengths(root, part.V))

    def variances(self) -> Array:
        """diag((P⁻¹ + W)⁻¹): what is left of a row's own share, and of that of the points. Nothing cancels."""
        own = self.own
        return np.asarray(self.prior.D / own + self.leverage / own**2)

    def diagonal(self) -> Array:
        """diag(R)."""
        return np.asarray(self.S - self.S**2 * self.leverage)
