"""Minus the log posterior of the weights as a sum over rows: value, gradient and Hessian in one pass.

A pass reads rows as they came: weights are brought to data units before it, and its sums to standardized columns after
it, so that no standardized copy of a table is made.

Notation
--------
====  ==============================================================  ==================
X     rows as they came                                               (n, d)
W     weight vectors, one per class (one in all for two classes)      (K, D)
x     free weights, W = C x (see `design`)                            (M,)
f     scores X W + intercept + offset                                 (n,) or (n, K)
R     root of a Gaussian's covariance over x, Σ = RᵀR                 (M, M)
====  ==============================================================  ==================

Functions of a block take rows X and weights W with as many columns, or with one more: the intercepts, last.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from credibly.data.rows import Block, Rows, Sums, add
from credibly.errors import NotPositiveDefinite
from credibly.inference.gaussian import Expected, Gaussian
from credibly.inference.linear.design import Design, Standardization, centring
from credibly.inference.linear.priors import PriorDensity
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import (
    PSD,
    DesignMatrix,
    Roots,
    bordered_gram,
    from_root,
    pivots_above,
    softmax_gram,
    weighted_gram,
)
from credibly.numerics.softmax_averages import POINTS
from credibly.numerics.status import Local

CACHED_SCORES = 2**15  # of a block at many weights, held at a time: with their temporaries they fit the cache
SAFE_PIVOT = 1e-4  # what Cholesky has to leave of a diagonal entry for a factor that is right to 1e-11,
LOST_PIVOT = 1e-26  # and QR, for variances that are right to 1e-5
ROOT_NUMBERS = 2_000_000  # of whitened class scores held at a time in an averaged pass: 16 megabytes


# --- one block of rows --------------------------------------------------------------------------------------


def scores(rows: Block, W: Array) -> Array:
    """The score of every row for one weight vector, offsets added, (b,)."""
    d = rows.X.shape[1]
    f = np.asarray(rows.X @ W[0, :d])
    if W.shape[1] > d:
        f += W[0, d]
    return f if rows.offset is None else f + rows.offset


def class_scores(X: DesignMatrix, W: Array) -> Array:
    """The K scores of every row, (b, K)."""
    d = X.shape[1]
    f = np.asarray(W[:, :d] @ X.T).T  # columns contiguous: what is done to all classes of a row is then faster
    if W.shape[1] > d:
        f += W[:, d]
    return f


def scores_at(rows: Block, W: Array) -> Array:
    """Scores of every row at C weights (C, K, D), offsets added: (b, C, K)."""
    (C, K, D), d = W.shape, rows.X.shape[1]
    f = np.asarray(rows.X @ W[..., :d].reshape(-1, d).T).reshape(-1, C, K)
    if D > d:
        f += W[..., d]
    return f if rows.offset is None else f + rows.offset[:, None, None]


def log_probs(likelihood: AnyLikelihood, y: AnyArray, f: Array) -> Array:
    """log p(y | f) at scores f (…, K) of any likelihood, for labels of shape (…,) or one that broadcasts to it."""
    if isinstance(likelihood, Likelihood):
        with np.errstate(all="ignore"):  # weights so far out that scores overflow show in the value
            return likelihood.log_prob(y, f[..., 0])
    return likelihood.log_prob(np.broadcast_to(y, f.shape[:-1]), f)


def by_weights(X: DesignMatrix, grad: Array, *, intercept: bool) -> Array:
    """A gradient in the scores, (b,) or (b, K), as one in the flattened weights, (K·D,)."""
    by_column = np.atleast_2d(np.asarray((X.T @ grad).T))
    if intercept:
        by_column = np.column_stack([by_column, np.atleast_1d(grad.sum(axis=0))])
    return by_column.reshape(-1)


def class_gram(X: DesignMatrix, C: Array, *, intercept: bool) -> Array:
    """Σ_n C_n ⊗ zzᵀ for symmetric matrices C_n (b, J, J), one per row, of either sign."""
    J, D, gram = C.shape[-1], X.shape[1] + intercept, bordered_gram if intercept else weighted_gram
    total = np.zeros((J, D, J, D))
    for j in range(J):
        for k in range(j + 1):
            total[j, :, k] = total[k, :, j] = gram(X, C[:, j, k])
    return total.reshape(J * D, J * D)


def _weighted(values: Array, weight: Array | None) -> Array:
    """What belongs to every row, times its weight."""
    return values if weight is None else values * weight.reshape(-1, *(1 for _ in values.shape[1:]))


def expanded_block(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    """Log likelihood of a block, its gradient, and minus its Hessian, in the flattened weights of K classes."""
    rows, intercept = block.counted, W.shape[1] > block.X.shape[1]
    with np.errstate(invalid="ignore"):  # a score without a mean shows in the value
        if isinstance(likelihood, Likelihood):
            one = likelihood.expand(rows.y, scores(rows, W))
            log_prob, grad, curvature = (_weighted(part, rows.weight) for part in one)
            information = (bordered_gram if intercept else weighted_gram)(rows.X, curvature)
        elif isinstance(likelihood, Categorical):
            several = likelihood.expand(rows.y, class_scores(rows.X, W))
            log_prob, grad = (_weighted(part, rows.weight) for part in several[:2])
            information = softmax_gram(rows.X, several.proba, rows.weight, intercept=intercept)
        else:
            noisy = likelihood.expand(rows.y, class_scores(rows.X, W))
            log_prob, grad = (_weighted(part, rows.weight) for part in noisy[:2])
            curvature = _weighted(likelihood.curvature(noisy), rows.weight)
            information = class_gram(rows.X, curvature, intercept=intercept)
        return float(log_prob.sum()), by_weights(rows.X, grad, intercept=intercept), information


def gradient_block(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    """Gradient of a block's log likelihood alone."""
    rows, intercept = block.counted, W.shape[1] > block.X.shape[1]
    one = isinstance(likelihood, Likelihood)
    grad = likelihood.grad(rows.y, scores(rows, W) if one else class_scores(rows.X, W))
    with np.errstate(invalid="ignore"):  # an infinite gradient of a row: the search steps back from where it is
        return (by_weights(rows.X, _weighted(grad, rows.weight), intercept=intercept),)


def expected_block(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    """Fisher information of a block in the flattened weights: minus the Hessian, expected over labels."""
    rows, intercept = block.counted, W.shape[1] > block.X.shape[1]
    if isinstance(likelihood, Likelihood):
        information = _weighted(likelihood.information(scores(rows, W)), rows.weight)
        return ((bordered_gram if intercept else weighted_gram)(rows.X, information),)
    f = class_scores(rows.X, W)
    if isinstance(likelihood, Categorical):  # the curvature does not depend on labels
        return (softmax_gram(rows.X, likelihood.mean(f), rows.weight, intercept=intercept),)
    return (class_gram(rows.X, _weighted(likelihood.information(f), rows.weight), intercept=intercept),)


def averaged_block(block: Block, likelihood: AnyLikelihood, at: "DataGaussian", points: int) -> Sums:
    """Log likelihood of a block, its gradient and minus its Hessian, averaged over a Gaussian, in the free weights."""
    rows, intercept = block.counted, at.intercept
    if isinstance(likelihood, Likelihood):
        m, v = scores(rows, at.mean), at.variance(rows.X)
        averaged = likelihood.averaged(rows.y, m, v)
        with np.errstate(invalid="ignore"):  # an average that overflows shows in the value
            log_prob, grad, curvature = (_weighted(part, rows.weight) for part in averaged)
            information = (bordered_gram if intercept else weighted_gram)(rows.X, curvature)
            return float(log_prob.sum()), by_weights(rows.X, grad, intercept=intercept), information
    total: Sums | None = None
    step = max(1, ROOT_NUMBERS // at.root.size * rows.X.shape[1])
    for i in range(0, len(rows.y), step):
        part = rows.taken(np.arange(i, min(i + step, len(rows.y))))
        averaged = likelihood.averaged(part.y, class_scores(part.X, at.mean), at.class_covariance(part.X), points)
        log_prob, grad, curvature = (_weighted(it, part.weight) for it in averaged)
        C = at.class_map
        sums = (
            float(log_prob.sum()),
            by_weights(part.X, grad @ C, intercept=intercept),
            class_gram(part.X, C.T @ curvature @ C, intercept=intercept),
        )
        total = sums if total is None else add(total, sums)
    assert total is not None
    return total


def log_likelihood_block(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    """Log likelihoods of a block at S weights (S, K, D): (S,)."""
    rows, some = block.counted, max(1, CACHED_SCORES // (len(block.y) * W.shape[1]))
    total = np.empty(len(W))
    for start in range(0, len(W), some):
        log_prob = log_probs(likelihood, rows.y[:, None], scores_at(rows, W[start : start + some]))
        total[start : start + some] = _weighted(log_prob, rows.weight).sum(axis=0)
    return (total,)


class DataGaussian(NamedTuple):
    """A Gaussian over the free weights, in data units: what an averaged pass multiplies raw rows with."""

    mean: Array  # (K, D)
    root: Array  # (M, J, D): rows of R
    class_map: Array  # C, (K, J)
    intercept: bool

    @classmethod
    def of(cls, q: Gaussian, design: Design, standard: Standardization) -> "DataGaussian":
        """From the coordinates of a fit."""
        J = design.classes.n_free
        root = standard.to_data(q.root.reshape(len(q.root), J, -1))
        return cls(standard.to_data(design.score_weights(q.mean)), root, design.classes.of_scores, standard.intercept)

    def variance(self, X: DesignMatrix) -> Array:
        """Variances of the one score of every row, (b,)."""
        white = self._white(X, 0)
        return np.asarray(np.einsum("bm,bm->b", white, white))

    def class_covariance(self, X: DesignMatrix) -> Array:
        """Covariances of the K scores of every row, (b, K, K)."""
        white = np.stack([self._white(X, j) for j in range(self.root.shape[1])], axis=1)  # (b, J, M)
        free = white @ white.swapaxes(1, 2)
        return np.asarray(self.class_map @ free @ self.class_map.T)

    def _white(self, X: DesignMatrix, j: int) -> Array:
        root, d = self.root[:, j], X.shape[1]
        white = np.asarray(X @ np.ascontiguousarray(root[:, :d].T))
        return np.asarray(white + root[:, d]) if self.intercept else white


# --- what rows and prior know together ----------------------------------------------------------------------


def separate_precision(information: Array, prior: Array, roots: Roots, n_classes: int, what: str) -> PSD:
    r"""Information and a prior's Hessian together, where K classes have weights of their own.

    Rows tell nothing of a shift of all classes alike. What the prior says of it is a difference of large entries of the
    sum, which Cholesky rounds away where the prior is wide. Its root beside one of the information, made triangular by
    QR, keeps it: a relative error of eps I/P becomes one of eps √(I/P) (Cox & Higham 1998). Directions in which the
    prior curves the other way (a Student-t far out) are then taken off where the rest is the identity.

    Parameters
    ----------
    information, prior : (M, M) arrays
    roots : Roots
        Of `prior`.
    n_classes : int
    what : str
        What an error calls it.
    """
    total = information + prior
    try:
        plain = PSD.of(total, what)
        if pivots_above(plain, SAFE_PIVOT):
            return plain
    except NotPositiveDefinite:
        if not np.isfinite(total).all():
            raise
    known = _contrast_roots(information, n_classes)
    plus = np.hstack([known.plus, roots.plus])
    base = from_root(plus)
    if plus.shape[1] < len(plus) or not pivots_above(base, LOST_PIVOT):
        raise NotPositiveDefinite(f"{what} is numerically singular where all classes are shifted alike.")
    minus = np.hstack([known.minus, roots.minus])
    if not minus.size:
        return base
    taken = base.half_solve(np.asfortranarray(minus))
    with np.errstate(over="ignore", invalid="ignore"):  # next to nothing is left of that: there is no precision
        left = np.eye(len(taken)) - taken @ taken.T
    return PSD(np.asfortranarray(base.factor @ PSD.of(left, what).factor))


def _contrast_roots(information: Array, n_classes: int) -> Roots:
    """The information of K weight vectors by contrasts of classes, so that nothing is left of a shift of all alike."""
    C = np.kron(np.linalg.qr(centring(n_classes)[:, :-1])[0], np.eye(len(information) // n_classes))
    known = C.T @ information @ C
    scale = np.sqrt(np.maximum(np.abs(np.diag(known)), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(known / scale / scale[:, None])
    values[np.abs(values) <= len(known) * np.finfo(float).eps * np.abs(values).max()] = 0.0
    return Roots.of_diagonal((C @ (scale[:, None] * vectors))[:, ::-1], values[::-1])  # large ones first, for QR's sake


# --- all rows -----------------------------------------------------------------------------------------------


class Averages(NamedTuple):
    """The log likelihood averaged over a Gaussian q: value, gradient and minus the Hessian in the free weights."""

    log_likelihood: float
    gradient: Array  # (M,)
    information: Array  # (M, M)


@dataclass(frozen=True)
class Objective:
    """Minus log p(y | w) p(w) over the free weights, up to the evidence.

    Parameters
    ----------
    rows : Rows
        As they came, labels as codes.
    design : Design
        The coordinates of the free weights.
    likelihood : Likelihood, Categorical or NoisyCategorical
    prior : PriorDensity of the free weights, or None for a flat one
    """

    rows: Rows
    design: Design
    likelihood: AnyLikelihood
    prior: PriorDensity | None

    @cached_property
    def raw(self) -> tuple[Rows, Standardization]:
        """Rows for a pass over raw values, and the standardization to fold into the weights."""
        return self.design.standardization.over(self.rows)

    def centred(self) -> "Objective":
        """The same, of rows that are centred before any pass: sums of raw ones lose digits that a slow search needs."""
        standard = self.design.standardization
        if not isinstance(standard, Standardization):
            return self
        design = replace(self.design, standardization=replace(standard, center=np.zeros_like(standard.center)))
        return replace(self, rows=self.rows.through(standard.centred), design=design) if standard.center.any() else self

    def in_data_units(self, q: Gaussian) -> DataGaussian:
        """A Gaussian over the free weights as a pass over the rows of `raw` multiplies it."""
        return DataGaussian.of(q, self.design, self.raw[1])

    def sample(self, rng: np.random.Generator, size: int) -> "Objective":
        """The objective estimated from a random part of the rows; rare classes have their share of it."""
        likelihood = self.likelihood
        n_classes = 2 * likelihood.two_labels if isinstance(likelihood, Likelihood) else likelihood.n_classes
        return replace(self, rows=self.rows.sample(rng, size, n_classes))

    def expand(self, x: Array) -> Local:
        """Value, gradient and Hessian at x: one pass over the rows."""
        log_likelihood, gradient, information = self._sum(expanded_block, x)
        value = -float(log_likelihood) - self.log_prior(x)
        grad = self._prior_gradient(x) - self.free(gradient)
        information = self._free_both(information)
        if self.log_concave:
            return Local(value, grad, self._precision(information, x))
        stand_in = partial(self.stand_in, x)
        try:
            return Local(value, grad, self._precision(information, x), stand_in=stand_in)
        except NotPositiveDefinite:
            return Local(value, grad, stand_in(), replaced=True)

    def _precision(self, information: Array, x: Array) -> PSD:
        """The Hessian at x, where it is positive definite."""
        if self.prior is None:
            return PSD.of(information, "the observed information")
        return self.precision(
            information, self.prior.hessian(x), self.prior.hessian_roots(x), "the posterior precision"
        )

    def precision(self, information: Array, prior: Array, roots: Roots, what: str) -> PSD:
        """Information of the rows and a Hessian of the prior, which has these roots, together."""
        classes = self.design.classes
        if classes.n_classes == 1 or not classes.identity:
            return PSD.of(information + prior, what)
        return separate_precision(information, prior, roots, classes.n_classes, what)

    @property
    def log_concave(self) -> bool:
        """Whether there is one mode, and every Hessian is positive definite."""
        return self.likelihood.log_concave and (self.prior is None or self.prior.log_concave)

    def stand_in(self, x: Array) -> PSD:
        """What takes the Hessian's place where it is not positive definite: the one expected over labels."""
        prior = 0.0 if self.prior is None else self.prior.stand_in(x)
        return PSD.of(self.expected_information(x) + prior, "the expected information")

    def expected_information(self, x: Array) -> Array:
        """The Fisher information of the free weights at x."""
        return self._free_both(self._sum(expected_block, x)[0])

    def gradient(self, x: Array) -> Array:
        """The gradient at x alone: a cheaper pass over the rows."""
        return self._prior_gradient(x) - self.free(self._sum(gradient_block, x)[0])

    def averages(self, q: Gaussian, points: int = POINTS) -> Averages:
        """The log likelihood averaged over q, with derivatives: one pass over the rows.

        `points` are those of the rule for many classes (`numerics.softmax_averages`).
        """
        (rows, standard), at = self.raw, self.in_data_units(q)
        block = partial(averaged_block, likelihood=self.likelihood, at=at, points=points)
        value, gradient, information = rows.sum(block, add)
        J = self.design.classes.n_free

        def free(sums: Array | float) -> Array:
            by_free = standard.gradient(np.asarray(sums), J)
            return self.design.classes.free(by_free) if self.design.classes.identity else by_free

        with np.errstate(invalid="ignore"):  # of averages that overflow
            return Averages(float(value), free(gradient), free(free(information).T))

    def expected_prior(self, q: Gaussian) -> Expected:
        """Minus the log prior averaged over q."""
        assert self.prior is not None
        return self.prior.expected(q)

    def log_likelihood(self, x: Array) -> float:
        """log p(y | x): one pass."""
        return float(self.log_likelihoods(x[None])[0])

    def log_likelihoods(self, x: Array) -> Array:
        """log p(y | x) at many points x (S, M), in one pass: (S,)."""
        return np.asarray(self._sum(log_likelihood_block, x)[0])

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Block]:
        """All rows once, in random order, `size` at a time."""
        return self.raw[0].batches(rng, size)

    def batch_gradient(self, batch: Block, x: Array, share: float) -> Array:
        """The gradient at x estimated from a batch that is this share of all rows."""
        _, standard = self.raw
        W = standard.to_data(self.design.score_weights(x))
        (gradient,) = gradient_block(batch, self.likelihood, W)
        return self._prior_gradient(x) - self.free(gradient) / share

    def log_prior(self, x: Array) -> float:
        """log p(x); zero for a flat prior."""
        return 0.0 if self.prior is None else float(self.prior.logpdf(x))

    def _prior_gradient(self, x: Array) -> Array | float:
        return 0.0 if self.prior is None else self.prior.gradient(x)

    def _sum(self, block: Callable[..., Sums], x: Array) -> Sums:
        rows, standard = self.raw
        W = standard.to_data(self.design.score_weights(x))
        return rows.sum(partial(block, likelihood=self.likelihood, W=W), add)

    def free(self, by_weight: Array | float) -> Array:
        """The chain rule on the first axis of what a pass has summed up, from weights in data units to free ones."""
        classes, (_, standard) = self.design.classes, self.raw
        with np.errstate(invalid="ignore"):  # of sums that overflow, which shows in the value
            return classes.free(standard.gradient(np.asarray(by_weight), len(classes.of_scores)))

    def _free_both(self, by_weights_: Array | float) -> Array:
        return self.free(self.free(by_weights_).T)
