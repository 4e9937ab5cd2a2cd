r"""A proof, from a logistic or softmax fit, that no direction separates the classes.

Notation
--------
=======  =============================================================================  =============
Z        rows                                                                           (n, D)
y        class codes 0 … K-1                                                            (n,)
B        one weight vector per class but the first, whose weights are zero              (K-1, D)
open     the pairs (row i, class k ≠ y_i) that are looked at                            (n, K), bool
g_ik     (e_y - e_k) ⊗ z_i, so that the gap of a pair is (B_y - B_k)ᵀz_i = g_ikᵀB       ((K-1)D,)
λ_ik     a positive multiplier per open pair; here the fitted probability of k ≠ y_i    (n, K)
=======  =============================================================================  =============

A direction B separates when no gap is negative and some gap is positive. Then Σ λ_ik gap_ik > 0 for any positive λ, so

.. math:: \sum_{ik} λ_{ik}\, g_{ik} = 0 \quad\text{with all } λ_{ik} > 0

proves that there is none (Stiemke 1915). Without separation such λ exist: the likelihood equations say that the fitted
probabilities are such numbers. Probabilities near the fit are put right by the least relative change: with rows
a_ik = λ_ik g_ik of a matrix A, e = 1 - A(AᵀA)⁻¹Aᵀ1 gives Σ λ_ik e_ik g_ik = Aᵀe = 0, and all e_ik > 0 is the proof.
It asks neither for a converged fit nor for exact probabilities.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import weighted_gram

DEPENDENT = 1e-11  # singular values below that share of the largest are zero
UNCLEAR = 3e-5  # singular values below that share of the largest need another look than the Gram matrix's
SINGULAR = 1e-13  # eigenvalues of a Gram matrix below that share of the largest are its rounding
TRUSTED = 1e-11  # smallest eigenvalue, beside a diagonal of ones, of a matrix whose solutions can be trusted
POSITIVE = 1e-3  # share of a multiplier that the correction must leave; rounding is far below
SMALLEST = 1e-200  # of a multiplier: probabilities may underflow, but multipliers are ours to choose
BLOCK_ROWS = 16_384
FEW_ROWS = 10  # per weight: enough that classes which overlap usually do so there too
ASK, STEPS, HALVINGS = 2.0, 40, 30  # Newton's squared decrement at which the proof is tried; its limits
ON_ITS_SIDE, ON_THE_LINE = 1e-2, 1e-5  # gaps of a Newton step that will go on for ever


Mask = NDArray[np.bool_]


class Pairs(NamedTuple):
    """Rows with their classes, and the pairs (row, other class) to look at."""

    Z: Array  # (n, D)
    codes: Codes  # (n,)
    open: Mask  # (n, K); never the row's own class

    @classmethod
    def of(cls, Z: Array, codes: Codes, n_classes: int) -> "Pairs":
        """All pairs."""
        return cls(Z, codes, np.arange(n_classes) != codes[:, None])

    def at(self, rows: Mask | Codes) -> "Pairs":
        """Some of the rows."""
        return Pairs(self.Z[rows], self.codes[rows], self.open[rows])

    @property
    def shape(self) -> tuple[int, int]:
        """(K-1, D), of a direction."""
        return self.open.shape[1] - 1, self.Z.shape[1]

    def scores(self, B: Array) -> Array:
        """B_kᵀz, (n, K)."""
        return np.column_stack([np.zeros(len(self.Z)), self.Z @ B.T])

    def gaps(self, B: Array) -> Array:
        """(B_y - B_k)ᵀz, (n, K); zero for the row's own class."""
        F = self.scores(B)
        return np.asarray(F[np.arange(len(F)), self.codes][:, None] - F)

    def total(self, weight: Array) -> Array:
        """Σ weight_ik g_ik over open pairs, (K-1, D)."""
        pull = np.where(self.open, -weight, 0.0)
        pull[np.arange(len(pull)), self.codes] = -pull.sum(axis=1)
        return np.asarray(pull[:, 1:].T @ self.Z)

    def gram(self, weight: Array) -> Array:
        """Σ weight_ik g_ik g_ikᵀ over open pairs, ((K-1)D, (K-1)D)."""
        weight = np.where(self.open, weight, 0.0)

        def tie(k: int, other: int) -> Array:
            mine, theirs = self.codes == k, self.codes == other
            return np.asarray(weight[:, other] * mine + weight[:, k] * theirs)

        return self._laplacian(tie)

    def information(self, proba: Array) -> Array:
        """Σ (diag(p_i) - p_i p_iᵀ) ⊗ z_i z_iᵀ, ((K-1)D, (K-1)D)."""
        return self._laplacian(lambda k, other: proba[:, k] * proba[:, other])

    def _laplacian(self, tie: Callable[[int, int], Array]) -> Array:
        """Σ_i tie_i(k, l) (e_k - e_l)(e_k - e_l)ᵀ ⊗ z_i z_iᵀ over pairs of classes, the first class left out."""
        K, D = self.shape[0] + 1, self.shape[1]
        total = np.zeros((K, D, K, D))
        for k in range(K):
            for other in range(k):
                gram = _gram(self.Z, tie(k, other))
                total[k, :, other] = total[other, :, k] = -gram
                total[k, :, k] += gram
                total[other, :, other] += gram
        return total[1:, :, 1:].reshape((K - 1) * D, (K - 1) * D)


def _gram(Z: Array, weight: Array) -> Array:
    """Zᵀ diag(weight) Z from the rows that have a weight, block by block: copies stay small."""
    total = np.zeros((Z.shape[1], Z.shape[1]))
    rows = np.flatnonzero(weight)
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        total += weighted_gram(Z[block], weight[block])
    return total


def overlap_is_certain(Z: Array, codes: Codes, proba: Array, weight: Array | None = None) -> bool:
    """Whether fitted probabilities prove that no direction separates the classes.

    True is a proof, so that no linear programme is needed; False means that these probabilities do not show it: the
    classes are separated, or nearly, or the fit is not close enough, or the columns of Z are linearly dependent.
    A few hundred rows often are enough: if they overlap, and determine all weights, then so do all. Otherwise it takes
    one pass over the rows, O(n D² K).

    Parameters
    ----------
    Z : (n, D) float array
        Rows of the design, the column of ones included if there is an intercept.
    codes : (n,) int array
        Class codes 0 … K-1; every class must occur.
    proba : (n, K) or (n,) float array
        Probabilities of the classes at (or near) the maximum-likelihood fit; one column means those of class 1.
        Those of a logit or softmax fit solve the equation above; those of another link come near it, which often
        is enough.
    weight : (n,) float array, optional
        Positive weights of the rows in the fit.

    Examples
    --------
    >>> Z = np.column_stack([[0.0, 1.0, 2.0, 3.0], np.ones(4)])
    >>> overlap_is_certain(Z, np.array([0, 1, 0, 1]), np.array([0.2, 0.4, 0.6, 0.8]))
    True
    >>> overlap_is_certain(Z, np.array([0, 0, 1, 1]), np.array([1e-9, 1e-5, 1 - 1e-5, 1 - 1e-9]))
    False
    """
    from credibly.data.threads import single_threaded_blas

    table = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
    if weight is not None:
        table = table * weight[:, None]
    if len(np.unique(codes)) < table.shape[1]:
        return False
    pairs = Pairs.of(Z, codes, table.shape[1])
    few, span = few_of_each_class(codes, pairs.shape), np.eye(pairs.shape[0] * pairs.shape[1])
    with single_threaded_blas():  # many small products: BLAS's own threads only get in each other's way
        return proves_overlap(pairs.at(few), table[few], span) or proves_overlap(pairs, table, span)


def few_of_each_class(codes: Codes, shape: tuple[int, int]) -> Codes:
    """Some rows, evenly from all classes; `shape` is that of a direction, (K-1, D)."""
    wanted = FEW_ROWS * shape[0] * (shape[1] + 1) // (shape[0] + 1)
    shuffled = np.random.default_rng(0).permutation(len(codes))
    return np.concatenate([shuffled[codes[shuffled] == k][:wanted] for k in range(shape[0] + 1)])


def proves_overlap(pairs: Pairs, proba: Array, span: Array) -> bool:
    """Whether these probabilities, corrected, are multipliers that prove overlap; `span` holds where gaps can differ.

    With M = AᵀA in the basis `span`, M a = Aᵀ1 and e = 1 - A a. What rounding left, Aᵀe, would change no e_ik by more
    than √(eᵀA M⁻¹ Aᵀe), because every leverage a_ikᵀM⁻¹a_ik is at most one.
    """
    multiplier = np.where(pairs.open, proba + SMALLEST, 0.0)
    M = span.T @ pairs.gram(multiplier**2) @ span
    unit = np.sqrt(M.diagonal())
    if not (unit > 0).all():
        return False
    values, vectors = np.linalg.eigh(M / unit / unit[:, None])
    if values.size and values[0] <= TRUSTED:
        return False
    root = vectors / np.sqrt(values) / unit[:, None]  # root rootᵀ = M⁻¹
    e, left = np.ones_like(multiplier), 0.0
    for _ in range(2):  # the second time is iterative refinement
        a = root @ (root.T @ (span.T @ pairs.total(multiplier * e).reshape(-1)))
        e = e - multiplier * pairs.gaps((span @ a).reshape(pairs.shape))
        left = float(np.linalg.norm(root.T @ (span.T @ pairs.total(multiplier * e).reshape(-1))))
    return bool(e[pairs.open].min(initial=1.0) - left > POSITIVE)


def span_and_null(pairs: Pairs) -> tuple[Array, Array]:
    """Orthonormal bases of the directions along which some gap of an open pair changes, and of the others.

    A Gram matrix has lost half of the digits; what it says of directions that seem to change nothing is therefore
    looked up in the gaps themselves.
    """
    values, vectors = np.linalg.eigh(pairs.gram(np.ones(pairs.open.shape)))
    top = np.sqrt(values.max(initial=0.0))
    small = values <= UNCLEAR**2 * top**2
    if not small.any():
        return vectors, vectors[:, :0]
    doubtful = vectors[:, small]
    gaps = np.stack([pairs.gaps(column.reshape(pairs.shape))[pairs.open] for column in doubtful.T], axis=1)
    _, size, turn = np.linalg.svd(np.linalg.qr(gaps, mode="r"))
    size = np.append(size, np.zeros(len(turn) - len(size)))
    turned = doubtful @ turn.T
    nothing = size <= DEPENDENT * top
    return np.hstack([turned[:, ~nothing], vectors[:, ~small]]), turned[:, nothing]


class Climb(NamedTuple):
    """Where a few Newton steps up the likelihood led."""

    overlap: bool  # proven
    B: Array  # (K-1, D), the last point
    endless: Array | None  # (K-1, D), a direction that seems to separate


def climb(pairs: Pairs, span: Array) -> Climb:
    """Newton steps on the log-likelihood of the open pairs until they prove overlap, or seem to go on for ever."""
    B = np.zeros(pairs.shape)
    here = _expand(pairs, B)
    for _ in range(STEPS):
        score = span.T @ pairs.total(here.proba).reshape(-1)
        values, vectors = np.linalg.eigh(span.T @ pairs.information(here.proba) @ span)
        kept = values > SINGULAR * values.max(initial=0.0)
        along = (vectors[:, kept].T @ score) / values[kept]
        step = (span @ (vectors[:, kept] @ along)).reshape(pairs.shape)
        decrement = float(along**2 @ values[kept])
        if decrement < ASK and proves_overlap(pairs, here.proba, span):
            return Climb(True, B, None)
        endless = _endless(pairs, B, step)
        if endless is not None:
            return Climb(False, B, endless)
        moved = _uphill(pairs, B, step, here.log_lik)
        if moved is None:
            break
        B, here = moved
    return Climb(False, B, None)


class Fitted(NamedTuple):
    """The likelihood at one point."""

    log_lik: float
    proba: Array  # (n, K), zero where a pair is not open


def _expand(pairs: Pairs, B: Array) -> Fitted:
    """Each row's softmax over its own class and the open ones."""
    gaps = pairs.gaps(B)
    own = np.arange(gaps.shape[1]) == pairs.codes[:, None]
    log_proba = log_softmax(np.where(pairs.open | own, -gaps, -np.inf), axis=1)
    return Fitted(float(log_proba[own].sum()), np.exp(log_proba))


def _uphill(pairs: Pairs, B: Array, step: Array, log_lik: float) -> tuple[Array, Fitted] | None:
    for t in 0.5 ** np.arange(HALVINGS):
        there = _expand(pairs, B + t * step)
        if there.log_lik > log_lik:
            return B + t * step, there
    return None


def _endless(pairs: Pairs, B: Array, step: Array) -> Array | None:
    """The point itself if all open pairs are on their side; the step if all are on their side or on the line."""
    if (pairs.gaps(B)[pairs.open] > 0).all():
        return B
    gaps = pairs.gaps(step)[pairs.open]
    aside, on_line = gaps > ON_ITS_SIDE, np.abs(gaps) < ON_THE_LINE
    return step if aside.any() and (aside | on_line).all() else None
