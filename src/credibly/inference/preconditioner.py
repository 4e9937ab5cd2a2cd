"""Conjugate gradients, and what makes them short: the curvature's diagonal, or a block for every class of dense rows.

Notation as in `curvature`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from credibly.data.source import Block
from credibly.data.threads import single_threaded_blas
from credibly.inference.curvature import Expanded, RowPasses, score_curvature
from credibly.numerics.arrays import Array
from credibly.numerics.conjugate_gradients import OwnTerm, Solved, conjugate_gradients
from credibly.numerics.linalg import PSD, weighted_gram

LARGEST_BLOCK = 2_000  # weights of a class: beyond that a block costs more than the steps that it saves
MOST_PRODUCTS = 500  # for one solution


class Preconditioner(ABC):
    """P, a positive definite matrix near I + H."""

    @property
    @abstractmethod
    def logdet(self) -> float:
        """Log determinant of P."""

    @abstractmethod
    def solve(self, r: Array) -> Array:
        """P⁻¹r for vectors r (m, K·D)."""

    @abstractmethod
    def colour(self, white: Array) -> Array:
        """A root of P times vectors (m, K·D)."""


@dataclass(frozen=True)
class DiagonalPreconditioner(Preconditioner):
    """The diagonal of I + H."""

    entries: Array  # (K·D,)

    @property
    def logdet(self) -> float:
        """Log determinant of P."""
        return float(np.log(self.entries).sum())

    def solve(self, r: Array) -> Array:
        """P⁻¹r."""
        return np.asarray(r / self.entries)

    def colour(self, white: Array) -> Array:
        """P^(1/2) times vectors."""
        return np.asarray(white * np.sqrt(self.entries))


@dataclass(frozen=True)
class BlockPreconditioner(Preconditioner):
    """One block for every class."""

    blocks: list[PSD]

    @property
    def logdet(self) -> float:
        """Log determinant of P."""
        return sum(block.logdet for block in self.blocks)

    def solve(self, r: Array) -> Array:
        """P⁻¹r."""
        return self._each(r, lambda block, columns: block.solve(columns))

    def colour(self, white: Array) -> Array:
        """The Cholesky factor of P times vectors."""
        return self._each(white, lambda block, columns: block.factor @ columns)

    def _each(self, r: Array, change: Callable[[PSD, Array], Array]) -> Array:
        by_class = r.reshape(len(r), len(self.blocks), -1)
        parts = [change(block, by_class[:, k].T).T for k, block in enumerate(self.blocks)]
        return np.stack(parts, axis=1).reshape(r.shape)


def preconditioner(passes: RowPasses, at: Expanded, diagonal: Array) -> Preconditioner:
    """P by the kind of rows; `diagonal` (K, D) is that of H.

    Dense columns go together, so that the diagonal of H says little: there P has the block I + s_k Σ_n c_n z̃z̃ᵀ for
    every class, with a row's mean curvature c_n over classes and the share s_k of a class: one weighted Gram matrix
    serves all classes.
    """
    K, D = passes.shape
    if D > LARGEST_BLOCK or not isinstance(passes.parts.blocks[0].X, np.ndarray):
        return DiagonalPreconditioner(1 + diagonal.reshape(-1))
    c = score_curvature(passes, at)
    mean = c.mean(axis=1)

    def gram(part: Block, cut: slice) -> tuple[Array, ...]:
        return (weighted_gram(passes.prior.arrow.whiten(passes.frame.design(part.X)), mean[cut]),)

    total = passes.parts.sum(gram)[0]
    shares = c.sum(axis=0) / mean.sum() if mean.any() else np.zeros(K)
    return BlockPreconditioner([PSD.of(share * total + np.eye(D), "the preconditioner") for share in shares])


def solved(
    passes: RowPasses, at: Expanded, near: Preconditioner, b: Array, tol: float | Array, own: OwnTerm | None = None
) -> Solved:
    """(I + H)⁻¹b for vectors b (m, K·D), until bᵀ(I + H)⁻¹b is known to the relative accuracy `tol`.

    `own` is what is added to H for single ones of them.
    """

    def apply(v: Array) -> Array:
        return v + passes.product(at, v.reshape(-1, *passes.shape)).reshape(v.shape)

    with single_threaded_blas():  # else its threads would still be spinning when ours walk over the rows
        return conjugate_gradients(apply, b, near.solve, tol=tol, most=MOST_PRODUCTS, own=own)
