"""Minus the log posterior of the weights as a sum over rows: value, gradient and Hessian in one pass.

A pass reads rows as they came: weights are brought to data units before it, and its sums to standardized columns
after it, so that no standardized copy of a table is ever made.

Notation
--------
====  ==============================================================  ==================
X     rows as they came                                               (n, d)
Z     rows of the design: standardized columns, ones last             (n, D)
W     weight vectors, one per class (one in all for two classes)      (K, D)
x     free weights: W flattened, or what W is a combination of        (M,)
f     scores ZWᵀ                                                      (n,) or (n, K)
====  ==============================================================  ==================

Functions of a block take rows X and weights W with as many columns, or with one more: the intercepts, last.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import NamedTuple

import numpy as np

from credibly.data.rows import Block, Rows, Sums, add
from credibly.errors import NotPositiveDefinite
from credibly.inference.contrasts import CANCELLED, ROUGH, ClassWeights, Contrast
from credibly.inference.frame import Frame
from credibly.inference.prior_density import PriorDensity
from credibly.model.likelihoods import Categorical, Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical, NoisyExpansion
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD, DesignMatrix, bordered_gram, softmax_gram, weighted_gram
from credibly.numerics.status import Local

FARTHEST = 100.0  # spreads between a column's mean and zero: squares then lose four digits of sixteen

# --- one block of rows ----------------------------------------------------------------------------


class RowSlopes(NamedTuple):
    """log p(y | f) of some rows, its gradient in f, and what its curvature is made of, weights multiplied in."""

    log_prob: Array  # (b,)
    grad: Array  # (b,) or (b, K)
    curvature: Array | NoisyExpansion  # (b,), or the K probabilities (b, K), or what else K scores need


def class_scores(X: DesignMatrix, W: Array) -> Array:
    """The K scores of every row, (b, K)."""
    d = X.shape[1]
    f = np.asarray(W[:, :d] @ X.T).T  # columns contiguous: what is done to all classes of a row is then faster
    if W.shape[1] > d:
        f += W[:, d]
    return f


def scores(rows: Block, W: Array) -> Array:
    """The score of every row of a block for one weight vector, offsets added, (b,)."""
    d = rows.X.shape[1]
    f = np.asarray(rows.X @ W[0, :d])
    if W.shape[1] > d:
        f += W[0, d]
    return f if rows.offset is None else f + rows.offset


@singledispatch
def row_slopes(likelihood: AnyLikelihood, rows: Block, W: Array) -> RowSlopes:
    """The likelihood of a block of rows to second order."""
    raise TypeError(f"no expansion is known for {likelihood!r}")


@row_slopes.register
def _(likelihood: Likelihood, rows: Block, W: Array) -> RowSlopes:
    at = likelihood.expand(rows.y, scores(rows, W))
    if rows.weight is None:
        return RowSlopes(*at)
    return RowSlopes(at.log_prob * rows.weight, at.grad * rows.weight, at.curvature * rows.weight)


@row_slopes.register
def _(likelihood: Categorical, rows: Block, W: Array) -> RowSlopes:
    at = likelihood.expand(rows.y, class_scores(rows.X, W))
    if rows.weight is None:
        return RowSlopes(*at)
    return RowSlopes(at.log_prob * rows.weight, at.grad * rows.weight[:, None], at.proba)


@row_slopes.register
def _(likelihood: NoisyCategorical, rows: Block, W: Array) -> RowSlopes:
    at = likelihood.expand(rows.y, class_scores(rows.X, W))
    if rows.weight is None:
        return RowSlopes(at.log_prob, at.grad, at)
    return RowSlopes(at.log_prob * rows.weight, at.grad * rows.weight[:, None], at)


def score(X: DesignMatrix, grad: Array, *, intercept: bool = False) -> Array:
    """Gradient of the log likelihood in the flattened weights, from that in the scores."""
    by_column = np.atleast_2d(np.asarray((X.T @ grad).T))
    if intercept:
        by_column = np.column_stack([by_column, np.atleast_1d(grad.sum(axis=0))])
    return by_column.reshape(-1)


@singledispatch
def information(likelihood: AnyLikelihood, rows: Block, slopes: RowSlopes, *, intercept: bool = False) -> Array:
    """Minus the Hessian of a block's log likelihood in the flattened weights."""
    raise TypeError(f"no information matrix is known for {likelihood!r}")


@information.register
def _(likelihood: Likelihood, rows: Block, slopes: RowSlopes, *, intercept: bool = False) -> Array:
    return (bordered_gram if intercept else weighted_gram)(rows.X, np.asarray(slopes.curvature))


@information.register
def _(likelihood: Categorical, rows: Block, slopes: RowSlopes, *, intercept: bool = False) -> Array:
    return softmax_gram(rows.X, np.asarray(slopes.curvature), rows.weight, intercept=intercept)


@information.register
def _(likelihood: NoisyCategorical, rows: Block, slopes: RowSlopes, *, intercept: bool = False) -> Array:
    assert isinstance(slopes.curvature, NoisyExpansion)
    return block_gram(rows, likelihood.curvature(slopes.curvature), intercept=intercept)


def block_gram(rows: Block, C: Array, *, intercept: bool = False) -> Array:
    """Σ_n C_n ⊗ zzᵀ for symmetric K×K matrices C_n, one per row, of either sign."""
    K, D, gram = C.shape[-1], rows.X.shape[1] + intercept, bordered_gram if intercept else weighted_gram
    total = np.zeros((K, D, K, D))
    for j in range(K):
        for k in range(j + 1):
            weight = C[:, j, k] if rows.weight is None else C[:, j, k] * rows.weight
            total[j, :, k] = total[k, :, j] = gram(rows.X, weight)
    return total.reshape(K * D, K * D)


@singledispatch
def expected_information(likelihood: AnyLikelihood, rows: Block, W: Array) -> Array:
    """The Fisher information of a block in the flattened weights: the Hessian expected over labels."""
    raise TypeError(f"no expected information is known for {likelihood!r}")


@expected_information.register
def _(likelihood: Likelihood, rows: Block, W: Array) -> Array:
    weight = likelihood.information(scores(rows, W))
    return weighted_gram(rows.X, weight if rows.weight is None else weight * rows.weight)


@expected_information.register
def _(likelihood: Categorical, rows: Block, W: Array) -> Array:
    return information(likelihood, rows, row_slopes(likelihood, rows, W))  # the curvature does not depend on labels


@expected_information.register
def _(likelihood: NoisyCategorical, rows: Block, W: Array) -> Array:
    return block_gram(rows, likelihood.information(class_scores(rows.X, W)))


def expanded_block(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    """Log likelihood of a block, its score, and minus its Hessian, in the flattened weights."""
    rows, intercept = block.counted, W.shape[1] > block.X.shape[1]
    slopes = row_slopes(likelihood, rows, W)
    with np.errstate(invalid="ignore"):  # a score without a mean shows in the value
        return (
            float(slopes.log_prob.sum()),
            score(rows.X, slopes.grad, intercept=intercept),
            information(likelihood, rows, slopes, intercept=intercept),
        )


def gradient_block(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    """The score of a block alone."""
    rows, intercept = block.counted, W.shape[1] > block.X.shape[1]
    one = isinstance(likelihood, Likelihood)
    grad = likelihood.grad(rows.y, scores(rows, W) if one else class_scores(rows.X, W))
    if rows.weight is not None:
        grad = grad * (rows.weight if one else rows.weight[:, None])
    with np.errstate(invalid="ignore"):  # an infinite gradient of a row: the search steps back from where it is
        return (score(rows.X, grad, intercept=intercept),)


# --- all rows -------------------------------------------------------------------------------------


class RawRows(NamedTuple):
    """Rows as they came, and the frame that makes a design of them."""

    rows: Rows
    frame: Frame

    @classmethod
    def of(cls, rows: Rows, frame: Frame) -> "RawRows":
        """Columns far from zero are centred in every block: sums of squares would lose the digits of their spread."""
        if (np.abs(frame.center) <= FARTHEST * frame.scale).all():
            return cls(rows, frame)
        return cls(rows.through(frame.centred), replace(frame, center=np.zeros_like(frame.center)))


@dataclass(frozen=True)
class Objective:
    """Minus log p(y | w) p(w), up to the evidence.

    Parameters
    ----------
    likelihood : Likelihood or Categorical
    rows : Rows of the design
    prior : PriorDensity of the free weights (a Gaussian mostly), or None for a flat one
    contrast : (K, J) array
        Weight vector k is Σ_j contrast[k, j] x_j: the identity, unless softmax is to be fitted without a prior, where
        only K - 1 combinations of the K vectors are determined.
    raw : RawRows, optional
        The same rows before the design was made of them: passes over those are faster.
    least_pivot : float
        Of Cholesky's factor of a Hessian, below which classes that are shifted alike get a factorisation of their own.
    """

    likelihood: AnyLikelihood
    rows: Rows
    prior: PriorDensity | None
    contrast: Array
    raw: RawRows | None = None
    least_pivot: float = CANCELLED

    def sample(self, rng: np.random.Generator, size: int) -> "Objective":
        """The objective estimated from a random part of the rows; rare classes have their share of it."""
        likelihood = self.likelihood
        n_classes = 2 * likelihood.two_labels if isinstance(likelihood, Likelihood) else likelihood.n_classes
        if self.raw is None:
            return replace(self, rows=self.rows.sample(rng, size, n_classes), least_pivot=ROUGH)
        rows = self.raw.rows.sample(rng, size, n_classes)
        raw = self.raw._replace(rows=rows)
        return replace(self, rows=rows.through(raw.frame.design), raw=raw, least_pivot=ROUGH)

    def expand(self, x: Array) -> Local:
        """Value, gradient and Hessian at x: one pass over the rows."""
        log_likelihood, gradient, hessian = self._sum(expanded_block, x)
        value = -float(log_likelihood) - self.log_prior(x)
        grad = self._prior_pull(x) - self.chain.free(self._in_frame(gradient))
        information = self.chain.free_both(self._in_frame(self._in_frame(hessian).T))
        precision = partial(self.chain.precision, information, self.prior, x, self.least_pivot)
        if self.log_concave:
            return Local(value, grad, precision())
        stand_in = partial(self.stand_in, x)
        try:
            return Local(value, grad, precision(), stand_in=stand_in)
        except NotPositiveDefinite:
            return Local(value, grad, stand_in(), replaced=True)

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
        W, likelihood = self.chain.weights(x), self.likelihood
        total = self.rows.sum(lambda block: (expected_information(likelihood, block.counted, W),), add)[0]
        return self.chain.free_both(np.asarray(total))

    def gradient(self, x: Array) -> Array:
        """The gradient at x alone: a cheaper pass over the rows."""
        (grad,) = self._sum(gradient_block, x)
        return self._prior_pull(x) - self.chain.free(self._in_frame(grad))

    def _sum(self, block: Callable[..., Sums], x: Array) -> Sums:
        W = self.chain.weights(x)
        if self.raw is None:
            return self.rows.sum(partial(block, likelihood=self.likelihood, W=W), add)
        return self.raw.rows.sum(partial(block, likelihood=self.likelihood, W=self.raw.frame.to_data(W)), add)

    def _in_frame(self, by_weight: Array | float) -> Array:
        """The chain rule on the first axis of what a pass has summed up, from its weights to those of the frame."""
        by_weight = np.asarray(by_weight)
        return by_weight if self.raw is None else self.raw.frame.gradient(by_weight, len(self.contrast))

    def batch_gradient(self, batch: Block, x: Array, share: float) -> Array:
        """The gradient at x estimated from a batch that is this share of all rows."""
        rows = batch.counted
        slopes = row_slopes(self.likelihood, rows, self.chain.weights(x))
        return self._prior_pull(x) - self.chain.free(score(rows.X, slopes.grad)) / share

    def log_prior(self, x: Array) -> float:
        """log p(x); zero for a flat prior."""
        return 0.0 if self.prior is None else float(self.prior.logpdf(x))

    def _prior_pull(self, x: Array) -> Array | float:
        return 0.0 if self.prior is None else self.prior.pull(x)

    @cached_property
    def chain(self) -> Contrast:
        """How weight vectors depend on the free weights."""
        chain = Contrast(self.contrast)
        return chain if isinstance(self.likelihood, Likelihood) or not chain.identity else ClassWeights(self.contrast)
