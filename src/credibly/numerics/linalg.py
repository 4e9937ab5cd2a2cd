"""Positive definite matrices held by their Cholesky factor, and weighted Gram matrices.

Notation
--------
====  ==========================================  =======
A     a symmetric positive definite matrix        (d, d)
L     its lower Cholesky factor, A = L Lᵀ         (d, d)
Z     rows                                        (n, d)
====  ==========================================  =======

No other module calls a Cholesky routine or forms an inverse, but for the pivoted Cholesky by which
`model.class_conditionals.multivariate` finds dependent columns.
"""

import threading
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import csr_array, sparray, spmatrix

from credibly.errors import NotPositiveDefinite
from credibly.numerics.arrays import Array, row_blocks
from credibly.numerics.caching import cached_property
from credibly.numerics.settings import BLOCK_SIZES

MIRRORED = 256  # rows of a triangle mirrored at a time, so that both sides stay in the cache
LARGEST_SCRATCH = 1_000_000  # numbers kept by a thread
# Columns from which on rows are scaled one by one. Measured beside scaling along the columns: 1.6 times the time with 2
# columns, the same with 6, four fifths with 10, three quarters with 20.
LONG_ROW = 10

DesignMatrix: TypeAlias = Array | csr_array


@dataclass(frozen=True)
class PSD:
    """A positive definite matrix A = L Lᵀ, held by L.

    Examples
    --------
    >>> A = PSD.of(np.array([[4.0, 2.0], [2.0, 3.0]]), "an example")
    >>> A.solve(np.array([8.0, 7.0]))
    array([1.25, 1.5 ])
    >>> round(float(np.exp(A.logdet)), 12)
    8.0
    """

    factor: Array  # L, lower triangular, Fortran order so that LAPACK reads it as it is

    @classmethod
    def of(cls, matrix: Array, what: str) -> Self:
        """Factorize a matrix of which only the lower triangle is read; `what` names it in the error."""
        factor, info = lapack.dpotrf(matrix, lower=1, clean=1)
        if info != 0 or not np.isfinite(factor.trace()):  # NaN passes LAPACK unnoticed
            raise NotPositiveDefinite(f"{what} is not positive definite ({_smallest_eigenvalue(matrix)}).")
        return cls(factor)

    @classmethod
    def identity_plus(cls, K: Array, s: Array) -> Self:
        """I + diag(s) K diag(s) for a symmetric K: the well-conditioned matrix of every Gaussian process (E-46).

        Its eigenvalues are at least one where K is positive semi-definite, however singular K is.
        """
        scaled = np.multiply(K, s)
        scaled *= s[:, None]
        scaled.flat[:: len(K) + 1] += 1.0
        factor, info = lapack.dpotrf(scaled.T, lower=1, clean=1, overwrite_a=1)  # Fortran order: no copy
        if info != 0 or not np.isfinite(factor.trace()):
            raise NotPositiveDefinite(f"the kernel matrix is not positive semi-definite ({_smallest_eigenvalue(K)}).")
        return cls(factor)

    @classmethod
    def diagonal(cls, entries: Array) -> Self:
        """The matrix with these positive entries on its diagonal."""
        return cls(np.asfortranarray(np.diag(np.sqrt(entries))))

    def solve(self, b: Array) -> Array:
        """A⁻¹ b."""
        return np.asarray(lapack.dpotrs(self.factor, b, lower=1)[0]).reshape(b.shape)

    def half_solve(self, b: Array) -> Array:
        """L⁻¹ b, so that bᵀ A⁻¹ b is its squared length."""
        if not b.size:  # of which LAPACK complains on the terminal
            return np.zeros(b.shape)
        return np.asarray(lapack.dtrtrs(self.factor, b, lower=1)[0]).reshape(b.shape)

    def half_solve_scaled(self, s: Array, b: Array) -> Array:
        """L⁻¹ diag(s) b for many columns b, without a copy beside the result."""
        scaled = (b.T * s).T  # Fortran order, which LAPACK overwrites
        return np.asarray(lapack.dtrtrs(self.factor, scaled, lower=1, overwrite_b=1)[0])

    def half_solve_transposed(self, b: Array) -> Array:
        """L⁻ᵀ b: white noise b becomes noise of covariance A⁻¹."""
        return np.asarray(lapack.dtrtrs(self.factor, b, lower=1, trans=1)[0]).reshape(b.shape)

    def inverse_diagonal(self) -> Array:
        """diag(A⁻¹), (d,), at a third of what a solution for every column costs."""
        root = lapack.dtrtri(self.factor, lower=1)[0]
        return np.asarray(np.einsum("ij,ij->j", root, root))

    def scaled_inverse(self, s: Array) -> Array:
        """diag(s) A⁻¹ diag(s), where all its elements are wanted (evidence gradients); A must be well conditioned."""
        upper = np.asarray(lapack.dpotri(self.factor, lower=1)[0].T)  # LAPACK's lower triangle, read in C order
        n = len(upper)
        for i in range(0, n, MIRRORED):
            j = min(i + MIRRORED, n)
            upper[i:j, :i] = upper[:i, i:j].T
            upper[i:j, i:j] += np.triu(upper[i:j, i:j], 1).T
        upper *= s
        upper *= s[:, None]
        return upper

    @cached_property
    def inverse_root(self) -> Array:
        """L⁻¹, the whitening matrix: Σ = (L⁻¹)ᵀ L⁻¹ for covariances that a user asks to see.

        Many rows B are whitened by B @ inverse_root.T: a triangular solve of SciPy holds the interpreter's lock, so
        that threads with a block of rows each would take turns.
        """
        return self.half_solve(np.eye(len(self.factor)))

    @cached_property
    def matrix(self) -> Array:
        """A itself."""
        return np.asarray(self.factor @ self.factor.T)

    @cached_property
    def logdet(self) -> float:
        """Log determinant of A."""
        return float(2 * np.log(np.diag(self.factor)).sum())


def from_upper(R: Array) -> PSD:
    """RᵀR for an upper triangular R, whose diagonal may have either sign."""
    return PSD(np.asfortranarray((R * np.sign(np.diag(R))[:, None]).T))


def from_root(M: Array) -> PSD:
    """M Mᵀ for an M of full row rank, by QR: to form the product would square the condition number.

    Examples
    --------
    >>> from_root(np.array([[3.0, 4.0]])).factor
    array([[5.]])
    """
    return from_upper(np.asarray(np.linalg.qr(M.T, mode="r")))


def pivots_above(A: PSD, share: float) -> bool:
    """True where the entries before it leave more than this share of every diagonal entry of A.

    Examples
    --------
    >>> A = PSD(np.array([[1.0, 0.0], [3.0, 4.0]]))
    >>> pivots_above(A, 0.6), pivots_above(A, 0.7)
    (True, False)
    """
    squares = A.factor**2
    return bool((np.diag(squares) > share * squares.sum(axis=1)).all())


class Roots(NamedTuple):
    """A symmetric matrix as plus·plusᵀ - minus·minusᵀ: with all digits, whatever the sizes of its directions."""

    plus: Array  # (M, r)
    minus: Array  # (M, s)

    @classmethod
    def of_diagonal(cls, axes: Array, entries: Array) -> Self:
        """Of axes diag(entries) axesᵀ."""
        root = axes * np.sqrt(np.abs(entries))
        return cls(root[:, entries > 0], root[:, entries < 0])


def semidefinite_root(A: Array, what: str, noise: float = 0.0) -> Array:
    """S with S Sᵀ = A for a positive semi-definite A, by Cholesky with pivots; one column per unit of rank.

    `noise` is how large the rounding errors of A are, where A is a difference of larger matrices: what is below that
    counts as zero.

    Examples
    --------
    >>> S = semidefinite_root(np.ones((3, 3)), "ones")
    >>> S.shape, bool(np.allclose(S @ S.T, 1.0))
    ((3, 1), True)
    """
    largest = np.abs(A).max(initial=0.0)
    L, pivots, rank, _ = lapack.dpstrf(A, lower=1, tol=max(noise, len(A) * np.finfo(float).eps * largest))
    S = np.zeros((len(A), rank))
    S[pivots - 1] = np.tril(L)[:, :rank]
    left = np.abs(A - S @ S.T).max(initial=0.0)
    if not left <= np.sqrt(np.finfo(float).eps) * largest + len(A) * noise:
        raise NotPositiveDefinite(f"{what} is not positive semi-definite ({_smallest_eigenvalue(A)}).")
    return S


def upper_factor(G: Array) -> Array:
    """R of G = QR, for a lower triangular G: by rotations where few are needed.

    Reflections leave an error of eps times the longest column everywhere, and so lose the small entries of R's
    diagonal, and with them its determinant. A rotation of a row with one that is zero beyond its diagonal only scales.

    Examples
    --------
    >>> G = np.array([[1e-12, 0.0], [3e4, 1.0]])
    >>> float(np.prod(np.diag(upper_factor(G))))
    1e-12
    """
    R, left = np.array(G), len(G)
    if not np.tril(G, -1).any():  # scales alone
        return R
    for column in range(len(G)):
        below = column + 1 + np.flatnonzero(R[column + 1 :, column])  # some of them put there by earlier rotations
        for row in below.tolist():
            if not left:
                return np.asarray(np.linalg.qr(G, mode="r"))
            left -= 1
            length = np.hypot(R[column, column], R[row, column])
            c, s = R[column, column] / length, R[row, column] / length
            R[[column, row]] = np.array([[c, s], [-s, c]]) @ R[[column, row]]
            R[row, column] = 0.0
    return R


def _smallest_eigenvalue(matrix: Array) -> str:
    if not np.isfinite(matrix).all():
        return "it has entries that are not finite"
    return f"smallest eigenvalue {np.linalg.eigvalsh(matrix)[0]:.1e}"


def block_diagonal(block: Array, times: int) -> Array:
    """The same square block, so many times down the diagonal."""
    return block if times == 1 else np.kron(np.eye(times), block).astype(float, copy=False)


def dense(X: DesignMatrix) -> Array:
    """A block of rows as an ordinary array of float64."""
    return np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)


def is_sparse(Z: object) -> bool:
    """True for rows in a SciPy sparse container."""
    return isinstance(Z, sparray | spmatrix)


_THREAD = threading.local()


def scratch(n_rows: int, n_columns: int, slot: str = "first") -> Array:
    """An array with arbitrary contents, to be used up before the same thread asks again (for the same slot).

    Half a megabyte fresh from the system for every block costs more in page faults than the work done in it, and
    threads queue for them.
    """
    size = n_rows * n_columns
    held = getattr(_THREAD, slot, None)
    if held is None or held.size < size:
        held = np.empty(size)
        if size <= LARGEST_SCRATCH:
            setattr(_THREAD, slot, held)
    return np.asarray(held[:size].reshape(n_rows, n_columns))


def weighted_gram(Z: DesignMatrix, weight: Array) -> Array:
    """Zᵀ diag(weight) Z.

    Written as (√weight Z)ᵀ(√weight Z): NumPy hands a matrix times its own transpose to BLAS's `syrk`, which
    does half the work of a product, and the result is symmetric to the last bit. Weights run along the rows of Zᵀ,
    which are contiguous when Z is in Fortran order; long rows of Z are scaled one by one, to be read as they lie. Rows
    of negative weight are taken off in a second product.

    Examples
    --------
    >>> weighted_gram(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 0.5]))
    array([[ 5.5,  8. ],
           [ 8. , 12. ]])
    """
    negative = weight < 0
    if negative.any():
        return weighted_gram(Z[~negative], weight[~negative]) - weighted_gram(Z[negative], -weight[negative])
    if isinstance(Z, csr_array):
        scaled = csr_array((Z.data * np.repeat(np.sqrt(weight), np.diff(Z.indptr)), Z.indices, Z.indptr), Z.shape)
        return np.asarray((scaled.T @ scaled).toarray())
    if Z.flags.c_contiguous and Z.shape[1] >= LONG_ROW:
        rooted = np.multiply(Z, np.sqrt(weight)[:, None], out=scratch(*Z.shape))
        return np.asarray(rooted.T @ rooted)
    rooted = np.multiply(Z.T, np.sqrt(weight), out=scratch(Z.shape[1], Z.shape[0]))
    return np.asarray(rooted @ rooted.T)


def bordered_gram(X: DesignMatrix, weight: Array) -> Array:
    """Zᵀ diag(weight) Z for Z = (X, 1): the Gram matrix of X and a column of ones.

    Examples
    --------
    >>> bordered_gram(np.array([[1.0], [3.0]]), np.array([1.0, 0.5]))
    array([[5.5, 2.5],
           [2.5, 1.5]])
    """
    d = X.shape[1]
    total = np.empty((d + 1, d + 1))
    total[:d, :d] = weighted_gram(X, weight)
    total[:d, d] = total[d, :d] = X.T @ weight
    total[d, d] = weight.sum()
    return total


def softmax_gram(X: DesignMatrix, proba: Array, weight: Array | None, *, intercept: bool) -> Array:
    r"""The information of K weight vectors in rows of K class probabilities.

    .. math:: \sum_n w_n (\operatorname{diag}(p_n) - p_n p_n^\top) \otimes z_n z_n^\top

    Blocks of two classes come from one product of all (p_k z)_k with themselves. A block of one class is what its row
    lacks: p_j (1 - p_j) is Σ_k p_j p_k over the others, and nothing cancels.

    Parameters
    ----------
    X : (n, d) array
    proba : (n, K) array
    weight : (n,) array or None
    intercept : bool
        Whether z is (x, 1), and not x.

    Returns
    -------
    (K·D, K·D) array

    Examples
    --------
    >>> softmax_gram(np.array([[2.0]]), np.array([[0.5, 0.5]]), None, intercept=False)
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    K, D = proba.shape[1], X.shape[1] + intercept
    if weight is not None:
        proba = proba * np.sqrt(weight)[:, None]
    total = np.zeros((K, D, K, D))
    if isinstance(X, csr_array):  # a product of a sparse matrix for every two classes
        for j in range(K):
            for k in range(j):
                pair = proba[:, j] * proba[:, k]
                total[j, :, k] = total[k, :, j] = -(bordered_gram if intercept else weighted_gram)(X, pair)
    else:
        _subtract_products(total.reshape(K * D, K * D), X, proba, intercept)
    for k in range(K):
        total[k, :, k] = 0.0
        total[k, :, k] = -total[k].sum(axis=1)
    return total.reshape(K * D, K * D)


def _subtract_products(total: Array, X: Array, proba: Array, intercept: bool) -> None:
    """Take the products of all (p_k z)_k with themselves off a (K·D, K·D) array, some rows at a time."""
    (K, d), D = (proba.shape[1], X.shape[1]), X.shape[1] + intercept
    for rows in row_blocks(len(proba), K * D, BLOCK_SIZES.softmax_numbers):
        p = np.ascontiguousarray(proba[rows].T)
        flat = scratch(K * D, p.shape[1])  # along rows of X, which are many: loops over its columns would be short
        pz = flat.reshape(K, D, -1)
        np.multiply(p[:, None, :], np.ascontiguousarray(X[rows].T), out=pz[:, :d])
        if intercept:
            pz[:, d] = p
        total -= flat @ flat.T
