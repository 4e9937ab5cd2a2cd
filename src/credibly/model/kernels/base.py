"""k(x, z): the covariance of a latent function at two rows.

A kernel is a frozen dataclass: hyperparameters, the columns it looks at, nothing about data. It evaluates, and it sums
its derivatives against a matrix, which is all that an evidence gradient asks for.

Notation
--------
=====  ================================================================
X, Z   rows, (n, d) and (m, d)
K      kernel matrix, K_ij = k(x_i, z_j)
M      weights of pairs of rows, (n, n)
θ      natural logarithms of the free hyperparameters, (p,)
=====  ================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.model.kernels.hyperparameters import Adjustable, changed
from credibly.numerics.arrays import Array

if TYPE_CHECKING:
    from credibly.model.kernels.combine import Product, Sum

Columns: TypeAlias = Sequence[int | str] | None
MOST_SHOWN = 8  # numbers in a repr


class Kernel(Adjustable, ABC):
    r"""A covariance function with hyperparameters θ, held as natural logarithms.

    .. math:: K_{ij} = k(x_i, z_j)

    Sums and products of kernels are kernels: ``Constant(2.0) * RBF() + White(0.1)``, and a positive number stands for a
    `Constant`. To write one, make a frozen dataclass with three methods and list its hyperparameters in `numbers`
    (CONTRIBUTING.md has a skeleton); set `positive_definite` if the equation is known to be so, otherwise the
    classifier checks the matrix.

    Examples
    --------
    >>> from credibly.kernels import RBF
    >>> kernel = 2.0 * RBF(length_scale=0.5)
    >>> kernel(np.array([[0.0], [1.0]])).round(3)
    array([[2.   , 0.271],
           [0.271, 2.   ]])
    >>> kernel.with_theta(np.log([1.0, 0.5])).diag(np.zeros((1, 1)))
    array([1.])
    """

    positive_definite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if hasattr(self, "columns"):
            object.__setattr__(self, "columns", checked_columns(self.columns, type(self).__name__))

    @abstractmethod
    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """The kernel matrix between the rows of X and of Z, or of X and itself: a new (n, m) array."""

    @abstractmethod
    def diag(self, X: Array) -> Array:
        """The diagonal of k(X), (n,)."""

    @abstractmethod
    def gradient_sums(self, X: Array, M: Array, K: Array | None = None) -> Array:
        """Sums of ∂K/∂θ against a matrix, Σᵢⱼ Mᵢⱼ ∂Kᵢⱼ/∂θₚ, (p,), no n×n×p array in between.

        Parameters
        ----------
        X : (n, d) array
        M : (n, n) array
            Any, symmetric or not.
        K : (n, n) array, optional
            k(X), if it is at hand: it is used where that saves work, and never changed.
        """

    def resolved(self, names: Sequence[str]) -> Self:
        """The same kernel with names of columns replaced by their positions in `names`."""
        columns = getattr(self, "columns", None)
        return self if columns is None else changed(self, columns=positions(columns, list(names)))

    def __add__(self, other: Kernel | float) -> Sum:
        from credibly.model.kernels.combine import summed

        return summed(self, other)

    def __radd__(self, other: float) -> Sum:
        from credibly.model.kernels.combine import summed

        return summed(other, self)

    def __mul__(self, other: Kernel | float) -> Product:
        from credibly.model.kernels.combine import multiplied

        return multiplied(self, other)

    def __rmul__(self, other: float) -> Product:
        from credibly.model.kernels.combine import multiplied

        return multiplied(other, self)


class Tables(NamedTuple):
    """What a kernel looks at: the chosen columns of X and of Z (None: of X again)."""

    X: Array
    Z: Array | None

    @property
    def shape(self) -> tuple[int, int]:
        """Of the kernel matrix."""
        return len(self.X), len(self.X if self.Z is None else self.Z)


def tables(X: ArrayLike, Z: ArrayLike | None, columns: Columns = None) -> Tables:
    """The chosen columns of one or two tables, which must have the same number of them."""
    x = rows(X, columns)
    if Z is None:
        return Tables(x, None)
    z = rows(Z, columns)
    if x.shape[1] != z.shape[1]:
        raise InputError(f"X and Z must have the same columns; got {x.shape[1]} and {z.shape[1]}.")
    return Tables(x, z)


def rows(X: ArrayLike, columns: Columns = None) -> Array:
    """The chosen columns of a table of numbers."""
    try:
        table = np.asarray(X, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError("A kernel takes a table of numbers, (n, d); encode what is not a number first.") from error
    if table.ndim != 2:
        raise InputError(f"A kernel takes a table, (n, d); got shape {table.shape}. For one column use X[:, None].")
    return table if columns is None else table[:, indices(columns, table.shape[1])]


def indices(columns: Sequence[int | str], n_columns: int) -> list[int]:
    """Positions of columns, all of them within the table."""
    unresolved = [it for it in columns if isinstance(it, str)]
    if unresolved:
        raise InputError(
            f"The kernel looks at columns by name, {unresolved}, and an array has no names; call "
            "resolved(names) first, or fit the classifier with a table that has them."
        )
    found = [it for it in columns if isinstance(it, int)]
    if max(found) >= n_columns:
        raise InputError(f"The kernel looks at column {max(found)}, counted from 0; the table has {n_columns} columns.")
    return found


def positions(columns: Sequence[int | str], names: list[str]) -> tuple[int, ...]:
    """Columns as integers, names looked up."""
    unknown = [it for it in columns if isinstance(it, str) and it not in names]
    if unknown:
        raise InputError(f"The kernel looks at columns {unknown} that are not there; the table has {names}.")
    return tuple(indices([names.index(it) if isinstance(it, str) else it for it in columns], len(names)))


def checked_columns(columns: Columns, kind: str) -> tuple[int | str, ...] | None:
    """None, or the positions and names of at least one column, none of them twice."""
    if columns is None:
        return None
    expected = f"columns of {kind} must be a list of names or of positions from 0 on, each once"
    if isinstance(columns, str) or not np.iterable(columns):
        raise InputError(f"{expected}; got {columns!r}. Write columns=[{columns!r}].")
    found = tuple(it if isinstance(it, str) else position(it, expected) for it in columns)
    if not found or len(set(found)) < len(found):
        raise InputError(f"{expected}; got {columns!r}.")
    return found


def position(column: object, expected: str) -> int:
    """A position of a column: an integer from 0 on."""
    if isinstance(column, bool | np.bool) or not isinstance(column, int | np.integer) or column < 0:
        raise InputError(f"{expected}; got the entry {column!r}.")
    return int(column)


def square_matrix(M: ArrayLike, n: int) -> Array:
    """Weights of all pairs of n rows."""
    found = np.asarray(M, dtype=float)
    if found.shape != (n, n):
        raise InputError(f"M must have an entry for every pair of the {n} rows, ({n}, {n}); got shape {found.shape}.")
    return found


def shown(value: float | Sequence[float]) -> str:
    """A number, or several, to four digits."""
    if isinstance(value, Sequence):
        return f"[{_some([shown(it) for it in value])}]"
    return f"{value:.4g}"


def _some(words: Sequence[str]) -> str:
    """All of a few, or the first of many and how many more there are."""
    more = len(words) - MOST_SHOWN
    return ", ".join(words) if more <= 1 else f"{', '.join(words[:MOST_SHOWN])}, … {more} more"


def shown_columns(columns: Columns) -> str:
    """The columns a kernel looks at, as the end of its arguments."""
    return "" if columns is None else f", columns=[{_some([repr(it) for it in columns])}]"
