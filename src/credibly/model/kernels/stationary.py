"""Kernels that fall with the distance between rows: smooth, rough, and of many length scales at once.

Notation
--------
======  ==================================================================
U       columns in units of their length scales, (n, d)
r²      squared distance between rows of U
g       the kernel as a function of r²
G       M ∘ K, and M ∘ (-2 g′(r²)), which multiplies (u_id - u_jd)² in ∂K/∂log ℓ_d
======  ==================================================================
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from credibly.errors import InputError
from credibly.model.kernels.base import (
    Columns,
    Kernel,
    Tables,
    shown,
    shown_columns,
    square_matrix,
    tables,
)
from credibly.model.kernels.hyperparameters import DEFAULT_BOUNDS, Bounds, Number, Prior, is_free
from credibly.numerics.arrays import Array, row_blocks

SMOOTHNESS = (0.5, 1.5, 2.5)  # of Matérn kernels: those without Bessel functions
MANY_COLUMNS = 20  # from here on one matrix product and its checks are faster than SciPy's loops (measured)
CANCELLED = 1e-2  # a squared distance that is smaller than this part of |x|² + |z|² has lost two digits
CLOSE = 1e-4  # of the largest |z|²: below, a weight times a squared difference is computed pair by pair
BLOCK = 2**18  # entries of a temporary: two megabytes stay in the cache, and products are few enough to be fast
WIDEST = 100.0  # in length scales: beyond, close pairs need to be taken out of the product (1e4 ε is lost before)


class Stationary(Kernel):
    r"""A kernel that is a function of the distance in units of the length scales.

    .. math:: k(x, z) = g(r^2), \qquad r^2 = \sum_d (x_d - z_d)^2 / \ell_d^2
    """

    length_scale: float | Sequence[float]
    columns: Columns
    positive_definite: ClassVar[bool] = True

    @abstractmethod
    def profile(self, r2: Array) -> Array:
        """g(r²); may overwrite its argument."""

    @abstractmethod
    def steepness(self, r2: Array) -> Array:
        """-2 g′(r²) / g(r²), or zero where it is infinite (at r = 0, which no length scale changes)."""

    @property
    def kinked(self) -> bool:
        """Whether `steepness` is unbounded, at r = 0."""
        return False

    def other_sums(self, G: Array, r2: Array) -> list[float]:
        """Σᵢⱼ Gᵢⱼ ∂log g/∂θ for what is learnt beside the length scales: nothing, unless overridden."""
        return []

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        return self.profile(squared_distances(*in_length_scales(self, X, Z)))

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))

    def gradient_sums(self, X: Array, M: Array, K: Array | None = None) -> Array:
        U, M = in_length_scales(self, X, None).X, square_matrix(M, len(X))
        K = self(X) if K is None else K
        total = np.zeros(len(self.theta))
        if total.size and len(U):
            cancels = self.kinked or bool(np.ptp(U, axis=0).max() > WIDEST)
            for block in row_blocks(len(K), K.shape[1], BLOCK):  # so that nothing of the size of K is allocated
                total += block_sums(self, M[block] * K[block], U[block], U, cancels)
        return total


@dataclass(frozen=True, repr=False)
class RBF(Stationary):
    r"""Very smooth functions, all derivatives of which exist.

    .. math:: k(x, z) = \exp\Big(-\frac12 \sum_d (x_d - z_d)^2 / \ell_d^2\Big)

    Parameters
    ----------
    length_scale : float or sequence of floats
        How far one must go for the function to change: one ℓ for all columns, or one for each.
    columns : sequence of ints or names, optional
        The columns it looks at; all of them if not given.
    length_scale_bounds : (float, float), a pair for each, or "fixed"
        Between which values it is searched for.
    length_scale_prior : LogNormal, one for each, or None
        A belief about it.

    References
    ----------
    RW06, eq. 4.9 and 5.1.

    Examples
    --------
    >>> 1.44 * RBF([0.7, 3.1])
    1.2² · RBF(ℓ=[0.7, 3.1])
    >>> RBF(length_scale=2.0)(np.array([[0.0], [2.0]]))
    array([[1.        , 0.60653066],
           [0.60653066, 1.        ]])
    """

    length_scale: float | Sequence[float] = 1.0
    _: KW_ONLY
    columns: Columns = None
    length_scale_bounds: Bounds = DEFAULT_BOUNDS
    length_scale_prior: Prior = None

    numbers: ClassVar = (Number("length_scale", per_column=True),)

    def profile(self, r2: Array) -> Array:
        r2 *= -0.5
        return np.asarray(np.exp(r2, out=r2))

    def steepness(self, r2: Array) -> Array:
        return np.ones_like(r2)

    def __repr__(self) -> str:
        return f"RBF(ℓ={shown(self.length_scale)}{shown_columns(self.columns)})"


@dataclass(frozen=True, repr=False)
class Matern(Stationary):
    r"""Functions of limited smoothness: ν - ½ derivatives exist.

    .. math::
        k(x, z) = \begin{cases}
            e^{-r} & ν = 1/2 \\
            (1 + \sqrt3 r)\, e^{-\sqrt3 r} & ν = 3/2 \\
            (1 + \sqrt5 r + 5 r^2 / 3)\, e^{-\sqrt5 r} & ν = 5/2
        \end{cases}
        \qquad r^2 = \sum_d (x_d - z_d)^2 / \ell_d^2

    Parameters
    ----------
    length_scale : float or sequence of floats
        How far one must go for the function to change: one ℓ for all columns, or one for each.
    nu : {0.5, 1.5, 2.5}
        Smoothness ν; never learnt. For ν = ∞ use `RBF`.
    columns : sequence of ints or names, optional
        The columns it looks at; all of them if not given.
    length_scale_bounds : (float, float), a pair for each, or "fixed"
        Between which values it is searched for.
    length_scale_prior : LogNormal, one for each, or None
        A belief about it.

    References
    ----------
    RW06, eq. 4.14, 4.17 and 4.18.

    Examples
    --------
    >>> Matern(0.7, nu=2.5)
    Matern(ℓ=0.7, ν=5/2)
    >>> Matern(nu=0.5)(np.array([[0.0]]), np.array([[1.0]]))
    array([[0.36787944]])
    """

    length_scale: float | Sequence[float] = 1.0
    nu: float = 1.5
    _: KW_ONLY
    columns: Columns = None
    length_scale_bounds: Bounds = DEFAULT_BOUNDS
    length_scale_prior: Prior = None

    numbers: ClassVar = (Number("length_scale", per_column=True),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in SMOOTHNESS:
            raise InputError(f"nu of Matern must be 0.5, 1.5 or 2.5; got {self.nu!r}. For nu = inf use RBF.")
        object.__setattr__(self, "nu", float(self.nu))

    def profile(self, r2: Array) -> Array:
        s = self._scaled(r2)
        K = np.exp(-s)
        if self.nu == 1.5:
            s += 1.0
            K *= s
        elif self.nu == 2.5:
            K *= 1.0 + s * (1.0 + s / 3.0)
        return K

    def steepness(self, r2: Array) -> Array:
        s = self._scaled(r2.copy())
        if self.nu == 0.5:
            return np.divide(1.0, s, out=np.zeros_like(s), where=s > 0)
        if self.nu == 1.5:
            return np.asarray(3.0 / (1.0 + s))
        return np.asarray(5.0 * (1.0 + s) / (3.0 + s * (3.0 + s)))

    @property
    def kinked(self) -> bool:
        return self.nu == 0.5

    def _scaled(self, r2: Array) -> Array:
        """√(2ν) r, in the place of r²."""
        r2 *= 2.0 * self.nu
        return np.sqrt(r2, out=r2)

    def __repr__(self) -> str:
        return f"Matern(ℓ={shown(self.length_scale)}, ν={2 * self.nu:.0f}/2{shown_columns(self.columns)})"


@dataclass(frozen=True, repr=False)
class RationalQuadratic(Stationary):
    r"""Functions that vary on many length scales at once: a mixture of `RBF`, its ℓ⁻² gamma distributed.

    .. math:: k(x, z) = \Big(1 + \frac{r^2}{2α}\Big)^{-α}, \qquad r^2 = \sum_d (x_d - z_d)^2 / \ell_d^2

    Parameters
    ----------
    length_scale : float or sequence of floats
        A typical ℓ, for all columns or one for each.
    alpha : float
        How alike the length scales are: α → ∞ is `RBF`.
    columns : sequence of ints or names, optional
        The columns it looks at; all of them if not given.
    length_scale_bounds, alpha_bounds : (float, float), a pair for each, or "fixed"
        Between which values they are searched for.
    length_scale_prior, alpha_prior : LogNormal, one for each, or None
        A belief about them.

    Notes
    -----
    In θ, α comes first, as in scikit-learn.

    References
    ----------
    RW06, eq. 4.19.

    Examples
    --------
    >>> RationalQuadratic(alpha=2.0).hyperparameters
    ('alpha', 'length_scale')
    >>> RationalQuadratic(alpha=0.5)(np.array([[0.0]]), np.array([[1.0]]))
    array([[0.70710678]])
    """

    length_scale: float | Sequence[float] = 1.0
    alpha: float = 1.0
    _: KW_ONLY
    columns: Columns = None
    length_scale_bounds: Bounds = DEFAULT_BOUNDS
    alpha_bounds: Bounds = DEFAULT_BOUNDS
    length_scale_prior: Prior = None
    alpha_prior: Prior = None

    numbers: ClassVar = (Number("alpha"), Number("length_scale", per_column=True))

    def profile(self, r2: Array) -> Array:
        r2 /= 2.0 * self.alpha
        np.log1p(r2, out=r2)
        r2 *= -self.alpha
        return np.asarray(np.exp(r2, out=r2))

    def steepness(self, r2: Array) -> Array:
        return np.asarray(1.0 / (1.0 + r2 / (2.0 * self.alpha)))

    def other_sums(self, G: Array, r2: Array) -> list[float]:
        if not is_free(self, "alpha"):
            return []
        q = r2 / (2.0 * self.alpha)
        return [self.alpha * np.einsum("ij,ij->", G, q / (1.0 + q) - np.log1p(q))]

    def __repr__(self) -> str:
        arguments = f"ℓ={shown(self.length_scale)}, α={shown(self.alpha)}{shown_columns(self.columns)}"
        return f"RationalQuadratic({arguments})"


def in_length_scales(kernel: Stationary, X: Array, Z: Array | None) -> Tables:
    """The kernel's columns in units of their length scales."""
    x, z = tables(X, Z, kernel.columns)
    scale = np.asarray(kernel.length_scale, dtype=float)
    if scale.ndim and scale.size != x.shape[1]:
        raise InputError(
            f"The kernel has {scale.size} length scales and looks at {x.shape[1]} columns; give one length_scale "
            "for all columns or one for each, or choose columns=[…]."
        )
    center = offset(x)
    return Tables((x - center) / scale, None if z is None else (z - center) / scale)


def offset(x: Array) -> Array:
    """The first row, in columns whose numbers all lie within a factor of two of it; zero in others.

    Such differences are exact, and stay so when they are divided by a length scale; 1e9 + 0.1 divided is not.
    """
    if not len(x):
        return np.zeros(x.shape[1])
    alike = (np.abs(x - x[0]) <= 0.5 * np.abs(x[0])).all(axis=0)
    return np.where(alike, x[0], 0.0)


def block_sums(kernel: Stationary, G: Array, u: Array, z: Array, cancels: bool) -> Array:
    """Σᵢⱼ Mᵢⱼ ∂k(uᵢ, zⱼ)/∂θ, from G = M ∘ K there, which is overwritten; rows in units of the length scales."""
    others, close = [], np.zeros(u.shape[1])
    if cancels or not isinstance(kernel, RBF):  # of which the steepness is one everywhere
        r2 = squared_distances(u, z)
        others = kernel.other_sums(G, r2)
        G *= kernel.steepness(r2)
        close = take_close_pairs(G, r2, u, z) if cancels else close
    if not is_free(kernel, "length_scale"):
        return np.array(others)
    sums = close + weighted_squares(G, u, z)
    return np.append(others, sums if isinstance(kernel.length_scale, tuple) else sums.sum())


# --- squared distances, and sums of squared differences -----------------------------------------------------


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
    others = X if Z is None else Z
    if not (len(X) and len(others)):
        return np.zeros((len(X), len(others)))
    return _by_product(X, others) if X.shape[1] >= MANY_COLUMNS else np.asarray(cdist(X, others, "sqeuclidean"))


def _by_product(X: Array, Z: Array) -> Array:
    center = X.mean(axis=0)
    x = X - center
    z = x if Z is X else Z - center
    x_squares, z_squares = np.einsum("id,id->i", x, x), np.einsum("id,id->i", z, z)
    result = np.asarray(x @ z.T)  # of one array with itself BLAS computes one triangle: exactly symmetric
    for block in row_blocks(len(X), len(Z), BLOCK):
        sums = np.add.outer(x_squares[block], z_squares)
        part = result[block]
        part *= -2.0
        part += sums
        sums *= CANCELLED
        i, j = np.nonzero(part <= sums)
        if len(i) > part.size // 16:  # pair by pair, SciPy is faster
            return np.asarray(cdist(X, Z, "sqeuclidean"))
        for chunk in row_blocks(len(i), X.shape[1], BLOCK):
            gap = X[block][i[chunk]] - Z[j[chunk]]
            part[i[chunk], j[chunk]] = np.einsum("pd,pd->p", gap, gap)
    return result


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
    for chunk in row_blocks(len(i), X.shape[1], BLOCK):
        total += G[i[chunk], j[chunk]] @ (X[i[chunk]] - Z[j[chunk]]) ** 2
    G[i, j] = 0.0
    return total
