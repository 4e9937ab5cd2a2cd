"""Sums of a kernel's derivatives between the rows of two tables, and along its diagonal.

Notation
--------
====  ================================================
X, Z  rows, (n, d) and (m, d)
M     weights of pairs of rows, (n, m)
K     k(X, Z)
H     M ∘ (-2 g′(r²)), as in `stationary`
====  ================================================

A `Kernel` sums its derivatives over the pairs of one table; evidence gradients with inducing points need those of two.
A kernel that is not known here is asked for the pairs of both tables stacked, with weights that are zero elsewhere.
"""

import numpy as np

from credibly.model.kernels import Constant, Kernel, White
from credibly.model.kernels.combine import Pair, Product, Sum
from credibly.model.kernels.hyperparameters import is_free
from credibly.model.kernels.stationary import BLOCK, WIDEST, Stationary, block_sums, in_length_scales, squared_distances
from credibly.numerics.arrays import Array, row_blocks

ON_DIAGONAL = 64  # rows whose pairs are weighted at a time where only those of a row with itself count


def cross_sums(kernel: Kernel, X: Array, Z: Array, M: Array, K: Array | None = None) -> Array:
    """Σᵢⱼ Mᵢⱼ ∂k(xᵢ, zⱼ)/∂θ, (p,).

    Parameters
    ----------
    kernel : Kernel
    X, Z : (n, d) and (m, d) arrays
    M : (n, m) array
    K : (n, m) array, optional
        k(X, Z), if it is at hand.

    Examples
    --------
    >>> from credibly.kernels import RBF
    >>> X, Z = np.array([[0.0], [1.0]]), np.array([[2.0]])
    >>> cross_sums(3.0 * RBF(2.0), X, Z, np.array([[1.0], [0.0]]))  # K, and K r²
    array([1.81959198, 1.81959198])
    """
    if not len(kernel.theta):
        return np.zeros(0)
    if isinstance(kernel, Pair):
        return _of_pair(kernel, X, Z, M, K)
    if isinstance(kernel, Stationary):
        return _stationary(kernel, X, Z, M, kernel(X, Z) if K is None else K)
    if isinstance(kernel, Constant | White):  # rows of two tables have no noise in common
        return np.array([kernel.variance * M.sum() if isinstance(kernel, Constant) else 0.0])
    return _stacked(kernel, X, Z, M)


def _of_pair(kernel: Pair, X: Array, Z: Array, M: Array, K: Array | None) -> Array:
    left, right = kernel.left, kernel.right
    if not isinstance(kernel, Product):
        return np.concatenate([cross_sums(part, X, Z, M) for part in (left, right)])
    if isinstance(right, Constant):
        return np.concatenate(_scaled(right, left, X, Z, M, K)[::-1])
    if isinstance(left, Constant):
        return np.concatenate(_scaled(left, right, X, Z, M, K))
    K_left, K_right = left(X, Z), right(X, Z)
    return np.concatenate([cross_sums(left, X, Z, M * K_right, K_left), cross_sums(right, X, Z, M * K_left, K_right)])


def _scaled(scale: Constant, part: Kernel, X: Array, Z: Array, M: Array, K: Array | None) -> tuple[Array, Array]:
    own = part(X, Z) if K is None else K / scale.variance
    by_scale = [scale.variance * np.einsum("ij,ij->", M, own)] if is_free(scale, "variance") else []
    return np.array(by_scale), scale.variance * cross_sums(part, X, Z, M, own)


def _stationary(kernel: Stationary, X: Array, Z: Array, M: Array, K: Array) -> Array:
    u, z = in_length_scales(kernel, X, Z)
    assert z is not None
    cancels = kernel.kinked or bool(max(np.ptp(u, axis=0).max(), np.ptp(z, axis=0).max()) > WIDEST)
    total = np.zeros(len(kernel.theta))
    for block in row_blocks(len(K), K.shape[1], BLOCK):
        total += block_sums(kernel, M[block] * K[block], u[block], z, cancels)
    return total


def _stacked(kernel: Kernel, X: Array, Z: Array, M: Array) -> Array:
    total, m = np.zeros(len(kernel.theta)), len(Z)
    for start in range(0, len(X), m):  # as many rows as points: least is wasted
        x, weights = X[start : start + m], M[start : start + m]
        both = np.zeros((len(x) + m, len(x) + m))
        both[: len(x), len(x) :] = weights
        total += kernel.gradient_sums(np.vstack([x, Z]), both)
    return total


def fixed_places(kernel: Kernel) -> list[str]:
    """Parts of a kernel that have no slope by the places of points here: not stationary, or with a kink at r = 0."""
    moving = [isinstance(leaf, Constant | White | Stationary) and not _kinked(leaf) for leaf in kernel.leaves]
    return [repr(leaf) for leaf, moves in zip(kernel.leaves, moving, strict=True) if not moves]


def _kinked(leaf: object) -> bool:
    return isinstance(leaf, Stationary) and leaf.kinked


def place_sums(kernel: Kernel, X: Array, Z: Array, M: Array) -> Array:
    r"""Σᵢ Mᵢⱼ ∂k(xᵢ, zⱼ)/∂zⱼ, (m, d), for sums and products of stationary kernels and constants.

    .. math:: \frac{\partial k(x, z)}{\partial z_d} = -2 g'(r^2) \, \frac{x_d - z_d}{\ell_d^2}

    Examples
    --------
    >>> from credibly.kernels import RBF
    >>> place_sums(RBF(2.0), np.array([[0.0]]), np.array([[2.0]]), np.ones((1, 1)))  # falls as z moves away
    array([[-0.30326533]])
    """
    if isinstance(kernel, Sum):
        return place_sums(kernel.left, X, Z, M) + place_sums(kernel.right, X, Z, M)
    if isinstance(kernel, Product):
        by_left = place_sums(kernel.left, X, Z, M * kernel.right(X, Z))
        return by_left + place_sums(kernel.right, X, Z, M * kernel.left(X, Z))
    total = np.zeros_like(Z)
    if isinstance(kernel, Stationary):
        u, z = in_length_scales(kernel, X, Z)
        assert z is not None
        r2 = squared_distances(u, z)
        H = kernel.steepness(r2) * M
        H *= kernel.profile(r2)
        seen = slice(None) if kernel.columns is None else np.asarray(kernel.columns, dtype=np.intp)
        total[:, seen] = (H.T @ u - H.sum(axis=0)[:, None] * z) / np.asarray(kernel.length_scale, dtype=float)
    return total


def diagonal_sums(kernel: Kernel, X: Array, weight: Array) -> Array:
    """Σᵢ weightᵢ ∂k(xᵢ, xᵢ)/∂θ, (p,), a row's own noise included."""
    if isinstance(kernel, Sum):
        return np.concatenate([diagonal_sums(part, X, weight) for part in (kernel.left, kernel.right)])
    if isinstance(kernel, Product):
        left, right = kernel.left, kernel.right
        by_left = diagonal_sums(left, X, weight * right.diag(X))
        return np.concatenate([by_left, diagonal_sums(right, X, weight * left.diag(X))])
    total = np.zeros(len(kernel.theta))
    if isinstance(kernel, Constant | White):
        total += kernel.variance * weight.sum()
    elif not isinstance(kernel, Stationary) and total.size:
        for start in range(0, len(X), ON_DIAGONAL):
            part = slice(start, start + ON_DIAGONAL)
            total += kernel.gradient_sums(X[part], np.diag(weight[part]))
    return total
