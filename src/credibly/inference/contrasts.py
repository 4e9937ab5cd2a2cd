"""Combinations of the weight vectors of several classes: what rows tell of them, and what they do not.

Notation
--------
====  ======================================================================  ================
W     weight vectors, one per class                                           (K, D)
x     free weights: W flattened, or what W is a combination of                (J·D,)
I     information: minus the Hessian of a log likelihood of W flattened       (K·D, K·D)
P     Hessian of minus the log prior                                          (K·D, K·D)
====  ======================================================================  ================
"""

import numpy as np

from credibly.data.threads import blas_threads
from credibly.errors import NotPositiveDefinite
from credibly.inference.prior_density import PriorDensity
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, Roots, definite_or_none, from_root, pivots_above, semidefinite_root

CANCELLED = 1e-4  # the pivot below which Cholesky's factor of a sum is not right to 1e-11,
ROUGH = 1e-10  # that below which it does not even show the way,
LOST = 1e-26  # and that below which variances by roots may be off by more than 1e-5 (seen: 4e-8 at 2e-24, as 1/pivot)
WHAT = "the posterior precision"


class Contrast:
    """Weight vector k is Σ_j contrast[k, j] x_j; gradients and Hessians go the other way."""

    def __init__(self, contrast: Array) -> None:
        self.contrast = contrast
        self.identity = bool(np.array_equal(contrast, np.eye(len(contrast))))

    def weights(self, x: Array) -> Array:
        """One weight vector per class, (…, K, D), from the free ones, (…, J·D)."""
        free = x.reshape(*x.shape[:-1], self.contrast.shape[1], -1)
        return free if self.identity else self.contrast @ free

    def free(self, by_weight: Array) -> Array:
        """The chain rule on the first axis."""
        if self.identity:
            return by_weight
        per_class = by_weight.reshape(len(self.contrast), -1)
        size = by_weight.shape[0] // len(self.contrast) * self.contrast.shape[1]
        return np.asarray(self.contrast.T @ per_class).reshape(size, *by_weight.shape[1:])

    def free_both(self, by_weights: Array) -> Array:
        """The chain rule on both axes of a matrix."""
        return by_weights if self.identity else self.free(self.free(by_weights).T)

    def precision(self, information: Array, prior: PriorDensity | None, x: Array, least_pivot: float) -> PSD:
        """Information and the prior's curvature at x together; a default, for weights of which rows tell everything."""
        if prior is None:
            return PSD.of(information, "the observed information")
        return PSD.of(information + prior.curvature(x), WHAT)


class ClassWeights(Contrast):
    r"""The free weights are those of K classes, of which rows tell nothing about a shift of all of them alike.

    .. math:: I\,(1 \otimes v) = 0 \quad \text{for every } v \in \mathbb{R}^D

    Along 1 ⊗ v there is the prior alone.

    Examples
    --------
    >>> ClassWeights(np.eye(3)).free(np.array([3.0, -1.0, -1.0]))
    array([ 2.66666667, -1.33333333, -1.33333333])
    """

    def free(self, by_weight: Array) -> Array:
        """What rounding left of a shift is taken off."""
        by_class = by_weight.reshape(len(self.contrast), -1)
        return np.asarray(by_class - by_class.mean(axis=0)).reshape(by_weight.shape)

    def precision(self, information: Array, prior: PriorDensity | None, x: Array, least_pivot: float) -> PSD:
        """By roots where Cholesky's factor has smaller pivots than are asked for."""
        if prior is None:
            return super().precision(information, prior, x, least_pivot)
        plain = definite_or_none(total := information + prior.curvature(x))
        if plain is not None and pivots_above(plain, least_pivot):
            return plain
        if not np.isfinite(total).all():
            return PSD.of(total, WHAT)  # which says so
        with blas_threads(x.size, None):  # woken for little they keep a processor busy for long
            return precision_of_roots(information_roots(information, len(self.contrast)), prior.roots(x), WHAT)


def sum_to_zero(n_outputs: int) -> Array:
    """Orthonormal columns that span the weight vectors adding to zero over classes, (K, K-1); [[1]] for one."""
    if n_outputs == 1:
        return np.eye(1)
    return np.linalg.qr(centring(n_outputs)[:, :-1])[0]


def centring(n_outputs: int) -> Array:
    """The matrix that takes their mean off K numbers, (K, K)."""
    return np.eye(n_outputs) - 1.0 / n_outputs


def information_roots(information: Array, n_classes: int) -> Roots:
    r"""The information of K weight vectors that rows know up to a shift of all of them alike, by its directions.

    .. math:: I = \sum_{j > k} (e_j - e_k)(e_j - e_k)^\top \otimes G_{jk}

    with minus its blocks off the diagonal, G. Of a softmax those are positive semi-definite, and each has a root, so
    that two classes of which much is known do not round away what is known of a third. Other likelihoods are taken
    apart in contrasts of all classes. Nothing is left of a shift either way: I (1 ⊗ v) = 0, whatever rounding says.
    """
    try:
        return Roots.positive(_pair_roots(information, n_classes))
    except NotPositiveDefinite:
        return _contrast_roots(information, n_classes)


def _pair_roots(information: Array, K: int) -> Array:
    blocks = -information.reshape(K, len(information) // K, K, -1)
    found = []
    for j in range(K):
        for k in range(j):
            G = blocks[j, :, k]
            scale = _root_of_diagonal(G)
            root = scale[:, None] * semidefinite_root(G / np.outer(scale, scale), "the information of two classes")
            column = np.zeros((K, *root.shape))
            column[j], column[k] = root, -root
            found.append(column.reshape(len(information), -1))
    found.sort(key=np.linalg.norm, reverse=True)  # large ones first, for QR's sake
    return np.hstack(found)


def _contrast_roots(information: Array, K: int) -> Roots:
    contrasts = sum_to_zero(K)
    known = Contrast(contrasts).free_both(information)
    scale = _root_of_diagonal(known)
    values, vectors = np.linalg.eigh(known / np.outer(scale, scale))
    rounding = len(known) * np.finfo(float).eps * np.abs(values).max()
    along = Contrast(contrasts.T).free(scale[:, None] * vectors * np.sqrt(np.abs(values)))
    return Roots(along[:, values > rounding], along[:, values < -rounding])


def _root_of_diagonal(A: Array) -> Array:
    """√|a_ii|, and 1 for zeros: beside it, what is small in a matrix is so beside its own diagonal."""
    diagonal = np.abs(np.diag(A))
    return np.asarray(np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))


def precision_of_roots(information: Roots, prior: Roots, what: str) -> PSD:
    """The sum of two matrices that may differ in size by any power of ten.

    Notes
    -----
    Where classes may be shifted alike without telling rows, Cholesky of the sum gets the prior's part along a shift,
    which is all there is, as a difference of entries of the information, and loses it where it is a billionth of
    those. Here the roots, side by side, are made triangular by QR, which keeps small rows that come after large ones
    (Cox & Higham 1998): a relative error of eps · I/P becomes one of eps · √(I/P) at most, and the prior's curvature
    is not formed, whose own directions may be as different in size. Directions of negative curvature (a Student-t
    prior far out) are then taken off in the coordinates where the rest is the identity.

    Examples
    --------
    >>> I = information_roots(1e12 * np.array([[1.0, -1.0], [-1.0, 1.0]]), 2)
    >>> P = Roots.positive(1e-6 * np.eye(2))
    >>> precision_of_roots(I, P, "an example").inverse_diagonal()  # half of the prior's variances, 1e12
    array([5.e+11, 5.e+11])
    """
    plus, minus = np.hstack([information.plus, prior.plus]), np.hstack([information.minus, prior.minus])
    if plus.shape[1] < len(plus):
        raise NotPositiveDefinite(f"{what} is not positive definite: weights of every class are far out.")
    base = from_root(plus)
    if not pivots_above(base, LOST):
        raise NotPositiveDefinite(f"{what} is numerically singular where all classes are shifted alike.")
    if not minus.size:
        return base
    taken = base.half_solve(np.asfortranarray(minus))
    with np.errstate(over="ignore", invalid="ignore"):  # next to nothing is left of that: there is no precision
        left = np.eye(len(taken)) - taken @ taken.T
    return PSD(np.asfortranarray(base.factor @ PSD.of(left, what).factor))
