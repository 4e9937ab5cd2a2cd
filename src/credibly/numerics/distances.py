"""Squared distances between rows, and sums of squared differences against a matrix of weights.

Notation
--------
=======  ====================================================
X, Z     rows, (n, d) and (m, d)
G        weights of pairs of rows, (n, m)
=======  ====================================================
"""

from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import cdist, pdist, squareform

from credibly.numerics.arrays import Array, Codes

MANY_COLUMNS = 20  # from here on one matrix product and its checks are faster than SciPy's loops (measured)
CANCELLED = 1e-2  # a squared distance that is smaller than this part of |x|² + |z|² has lost two digits
CLOSE = 1e-4  # of the largest |z|²: below, a weight times a squared difference is computed pair by pair
CROWDED = 1 / 16  # where so many pairs of a block have cancelled, all pairs are summed as they stand
BLOCK = 2**18  # entries of a temporary: two megabytes stay in the cache, and products are few enough to be fast


def squared_distances(X: Array, Z: Array | None = None) -> Array:
    r"""Squared Euclidean distances between the rows of X and of Z (of X itself if there is no Z), (n, m).

    .. math:: r^2_{ij} = \sum_d (x_{id} - z_{jd})^2

    Identical rows have distance zero, exactly, and without Z the matrix is exactly symmetric.

    Parameters
    ----------
    X : (n, d) array
    Z : (m, d) array, optional

    Notes
    -----
    Few columns: the sum above as it stands, relative error at most (d/2 + 2) ε, ε = 2.2e-16. From 20 columns on
    |x|² + |z|² - 2 x·z of centred columns, by one matrix product. Where that difference is below a hundredth of
    |x|² + |z|² it has cancelled, and the pair is computed again from differences. What is left has a relative error of
    at most 100 (d + 2) ε, which is 6e-12 for 256 columns; rounding errors are random, and 1e-13 is what is seen.

    Examples
    --------
    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 4.0]]))
    array([[ 0., 25.],
           [25.,  0.]])
    """
    if 0 in (len(X), len(X if Z is None else Z)):
        return np.zeros((len(X), len(X if Z is None else Z)))
    return _by_sums(X, Z) if X.shape[1] < MANY_COLUMNS else _by_product(X, Z)


def weighted_squares(G: Array, X: Array, Z: Array) -> Array:
    r"""Sums of squared differences of every column against weights of pairs, (d,), by one product G Z.

    .. math:: s_d = \sum_{ij} G_{ij} (x_{id} - z_{jd})^2
                  = \sum_{ij} G_{ij} x_{id}^2 + \sum_{ij} G_{ij} z_{jd}^2 - 2\, x_d^\top G\, z_d

    Columns are centred first. The right-hand side cancels where a weight sits on a pair that is close beside the spread
    of the columns: `take_close_pairs` takes those out.

    Parameters
    ----------
    G : (n, m) array
        Of any sign.
    X : (n, d) array
    Z : (m, d) array

    Examples
    --------
    >>> rows = np.array([[0.0, 1.0], [3.0, 1.0]])
    >>> weighted_squares(np.ones((2, 2)), rows, rows)
    array([18.,  0.])
    """
    center = Z.mean(axis=0)
    x, z = X - center, Z - center
    squares = G.sum(axis=1) @ x**2 + G.sum(axis=0) @ z**2
    return np.asarray(squares - 2.0 * np.einsum("id,id->d", x, G @ z))


def take_close_pairs(G: Array, r2: Array, X: Array, Z: Array) -> Array:
    """The share of close pairs in `weighted_squares`, (d,), pair by pair; their weights in G become zero.

    Close is a squared distance r² below 1e-4 of the largest |z|² of centred rows. The product form of what is left then
    has a relative error of at most 1e4 (d + 2) ε for every pair, as in `squared_distances`.

    Examples
    --------
    >>> rows = np.array([[0.0], [1e-9], [1.0]])
    >>> G = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    >>> take_close_pairs(G, squared_distances(rows), rows, rows)
    array([1.e-18])
    >>> G[0]
    array([0., 0., 0.])
    """
    centred = Z - Z.mean(axis=0)
    i, j = np.nonzero(r2 < CLOSE * np.einsum("id,id->i", centred, centred).max())
    total = np.zeros(X.shape[1])
    for chunk in row_blocks(len(i), X.shape[1]):
        total += G[i[chunk], j[chunk]] @ (X[i[chunk]] - Z[j[chunk]]) ** 2
    G[i, j] = 0.0
    return total


def row_blocks(n: int, m: int) -> Iterator[slice]:
    """The rows of an (n, m) matrix in blocks that stay in the cache."""
    size = max(1, BLOCK // max(m, 1))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _by_sums(X: Array, Z: Array | None) -> Array:
    if Z is None:
        return np.asarray(squareform(pdist(X, "sqeuclidean"), checks=False), dtype=float)
    return np.asarray(cdist(X, Z, "sqeuclidean"))


def _by_product(X: Array, Z: Array | None) -> Array:
    center = X.mean(axis=0)
    x = X - center
    z = x if Z is None else Z - center
    x_squares, z_squares = np.einsum("id,id->i", x, x), np.einsum("id,id->i", z, z)
    result = x @ z.T  # of one array with itself BLAS computes one triangle: exactly symmetric
    for block in row_blocks(*result.shape):
        sums = np.add.outer(x_squares[block], z_squares)
        part = result[block]
        part *= 2.0
        np.subtract(sums, part, out=part)
        sums *= CANCELLED
        cancelled = part <= sums
        if Z is None:
            np.fill_diagonal(cancelled[:, block], False)
            np.fill_diagonal(part[:, block], 0.0)
        if (crowd := np.count_nonzero(cancelled)) > CROWDED * cancelled.size:
            return _by_sums(X, Z)
        if crowd:
            i, j = np.nonzero(cancelled)
            part[i, j] = _by_differences(X, X if Z is None else Z, i + block.start, j)
    return np.asarray(result)


def _by_differences(X: Array, Z: Array, i: Codes, j: Codes) -> Array:
    """Squared distances of the pairs (i, j), in chunks."""
    differences = (X[i[chunk]] - Z[j[chunk]] for chunk in row_blocks(len(i), X.shape[1]))
    return np.concatenate([np.einsum("pd,pd->p", it, it) for it in differences])
