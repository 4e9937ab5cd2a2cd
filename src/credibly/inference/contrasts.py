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
from credibly.numerics.linalg import PSD, definite_or_none, from_root, semidefinite_root, smallest_pivot

CANCELLED = 1e-5  # the pivot below which Cholesky's factor of a sum is not right to 5e-11,
ROUGH = 1e-10  # that below which it does not even show the way,
LOST = 1e-26  # and that below which one from roots is not right to 1e-5
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
        return np.asarray(self.contrast.T @ per_class).reshape(-1, *by_weight.shape[1:])

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
        """By roots, if there are any, where Cholesky's factor has a smaller pivot than is asked for."""
        if prior is None or (root := prior.root(x)) is None:
            return super().precision(information, prior, x, least_pivot)
        plain = definite_or_none(total := information + prior.curvature(x))
        if plain is not None and smallest_pivot(plain) > least_pivot:
            return plain
        with blas_threads(x.size, None):  # woken for little they keep a processor busy for long
            known = information_root(information, len(self.contrast))
            return PSD.of(total, WHAT) if known is None else precision_of_roots(known, root, WHAT)


def sum_to_zero(n_outputs: int) -> Array:
    """Orthonormal columns that span the weight vectors adding to zero over classes, (K, K-1); [[1]] for one."""
    if n_outputs == 1:
        return np.eye(1)
    return np.linalg.qr(centring(n_outputs)[:, :-1])[0]


def centring(n_outputs: int) -> Array:
    """The matrix that takes their mean off K numbers, (K, K)."""
    return np.eye(n_outputs) - 1.0 / n_outputs


def information_root(information: Array, n_classes: int) -> Array | None:
    """S with S Sᵀ the information of K weight vectors that rows know up to a shift of all of them alike.

    Taken in contrasts, so that nothing is left of a shift: I (1 ⊗ v) = 0, whatever rounding says. What is small is so
    beside its own diagonal. None where the information is not positive semi-definite.
    """
    contrasts = sum_to_zero(n_classes)
    known = Contrast(contrasts).free_both(information)
    scale = np.sqrt(np.where(np.diag(known) > 0, np.diag(known), 1.0))
    try:
        root = semidefinite_root(known / np.outer(scale, scale), "the information in contrasts")
    except NotPositiveDefinite:
        return None
    return Contrast(contrasts.T).free(scale[:, None] * root)


def precision_of_roots(known: Array, prior_root: Array, what: str) -> PSD:
    r"""S Sᵀ + B Bᵀ, where information S Sᵀ and prior precision B Bᵀ may differ in size by any power of ten.

    Parameters
    ----------
    known : (M, r) array
        S: of classes, the `information_root`.
    prior_root : (M, M) array
        B.
    what : str
        Names the matrix in an error.

    Notes
    -----
    Where classes may be shifted alike without telling rows, Cholesky of the sum gets the prior's part along a shift,
    which is all there is, as a difference of entries of the information, and loses it where it is a billionth of
    those. Here [S B] is made triangular by QR, which keeps small rows that come after large ones (Cox & Higham 1998):
    a relative error of eps · I/P becomes one of eps · √(I/P) at most, and the prior's precision is not formed, whose
    own directions may be as different in size.

    Examples
    --------
    >>> S = information_root(1e12 * np.array([[1.0, -1.0], [-1.0, 1.0]]), 2)
    >>> precision_of_roots(S, 1e-6 * np.eye(2), "an example").inverse_diagonal()  # half of the prior's variances, 1e12
    array([5.e+11, 5.e+11])
    """
    precision = from_root(np.hstack([known, prior_root]))
    if not smallest_pivot(precision) > LOST:
        raise NotPositiveDefinite(f"{what} is numerically singular where all classes are shifted alike.")
    return precision
