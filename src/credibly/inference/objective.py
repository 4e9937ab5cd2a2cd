"""Minus the log posterior of the weights as a sum over rows: value, gradient and Hessian in one pass.

Notation
--------
====  ==============================================================  ==================
Z     rows of the design                                              (n, D)
W     weight vectors, one per class (one in all for two classes)      (K, D)
x     free weights: W flattened, or what W is a combination of        (M,)
f     scores ZWᵀ                                                      (n,) or (n, K)
====  ==============================================================  ==================
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import NamedTuple

import numpy as np

from credibly.data.source import WORTH_THREADS, Block, MemoryRows, Rows, Sums, add
from credibly.errors import NotPositiveDefinite
from credibly.inference.contrasts import CANCELLED, ROUGH, ClassWeights, Contrast
from credibly.inference.first_step import stretch_from_zero
from credibly.inference.frame import Frame
from credibly.inference.prior_density import PriorDensity
from credibly.inference.shared_table import SharedTable
from credibly.model.likelihoods import BernoulliLogit, BernoulliProbit, Categorical, Likelihood
from credibly.model.likelihoods.families import Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood, ThresholdForm
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical, NoisyExpansion
from credibly.model.likelihoods.links import Log
from credibly.model.likelihoods.proportions import Bernoulli
from credibly.numerics import fused
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.linalg import PSD, DesignMatrix, is_sparse, softmax_information, weighted_gram
from credibly.numerics.newton import Local

MOST_FUSED_COLUMNS = 256  # beyond that a tile of the kernel leaves the cache, and BLAS is as fast
MOST_FUSED_WEIGHTS = 2048  # of all classes: a block's information is held for each thread, and added to the others'
FUSED_NUMBERS = 250_000  # in a block, which the kernel cuts into tiles of its own: a third of a millisecond
STORED_NUMBERS = 1_000_000  # of rows elsewhere, whose partitions are shared out, not their blocks
FEWEST_FUSED_ROWS = 2048


class Raw(NamedTuple):
    """Rows as they came, and the frame that makes a design of them: what a compiled kernel walks over itself."""

    rows: Rows
    frame: Frame

    @classmethod
    def of(cls, rows: Rows, frame: Frame) -> "Raw":
        """Rows in blocks that suit the kernel."""
        numbers = FUSED_NUMBERS if isinstance(rows, MemoryRows) else STORED_NUMBERS
        return cls(rows.in_blocks(max(FEWEST_FUSED_ROWS, numbers // (frame.center.size + 1))), frame)


class RowSlopes(NamedTuple):
    """log p(y | f) of some rows, its gradient in f, and what its curvature is made of, weights multiplied in."""

    log_prob: Array  # (b,)
    grad: Array  # (b,) or (b, K)
    curvature: Array | NoisyExpansion  # (b,), or the K probabilities (b, K), or what else K scores need


def scores(rows: Block, W: Array) -> Array:
    """The score of every row of a block for one weight vector."""
    f = np.asarray(rows.X @ W[0])
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
    at = likelihood.expand(rows.y, rows.X @ W.T)
    if rows.weight is None:
        return RowSlopes(*at)
    return RowSlopes(at.log_prob * rows.weight, at.grad * rows.weight[:, None], at.proba)


@row_slopes.register
def _(likelihood: NoisyCategorical, rows: Block, W: Array) -> RowSlopes:
    at = likelihood.expand(rows.y, rows.X @ W.T)
    if rows.weight is None:
        return RowSlopes(at.log_prob, at.grad, at)
    return RowSlopes(at.log_prob * rows.weight, at.grad * rows.weight[:, None], at)


@singledispatch
def information(likelihood: AnyLikelihood, rows: Block, slopes: RowSlopes) -> Array:
    """Minus the Hessian of a block's log likelihood in the flattened weights."""
    raise TypeError(f"no information matrix is known for {likelihood!r}")


@information.register
def _(likelihood: Likelihood, rows: Block, slopes: RowSlopes) -> Array:
    return weighted_gram(rows.X, np.asarray(slopes.curvature))


@information.register
def _(likelihood: Categorical, rows: Block, slopes: RowSlopes) -> Array:
    K, proba = likelihood.n_classes, np.asarray(slopes.curvature)
    products = (proba[:, j] * proba[:, k] for j in range(K) for k in range(j))
    weighted = products if rows.weight is None else (product * rows.weight for product in products)
    return softmax_information((weighted_gram(rows.X, weight) for weight in weighted), K, rows.X.shape[1])


@information.register
def _(likelihood: NoisyCategorical, rows: Block, slopes: RowSlopes) -> Array:
    assert isinstance(slopes.curvature, NoisyExpansion)
    return block_gram(rows, likelihood.curvature(slopes.curvature))


def block_gram(rows: Block, C: Array) -> Array:
    """Σ_n C_n ⊗ zzᵀ for symmetric K×K matrices C_n, one per row, of either sign."""
    K, D = C.shape[-1], rows.X.shape[1]
    total = np.zeros((K, D, K, D))
    for j in range(K):
        for k in range(j + 1):
            weight = C[:, j, k] if rows.weight is None else C[:, j, k] * rows.weight
            total[j, :, k] = total[k, :, j] = weighted_gram(rows.X, weight)
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
    return block_gram(rows, likelihood.information(np.asarray(rows.X @ W.T)))


def score(Z: DesignMatrix, grad: Array) -> Array:
    """Gradient of the log likelihood in the flattened weights, from that in the scores."""
    return np.asarray((Z.T @ grad).T).reshape(-1)


def _generic(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    rows = block.counted
    slopes = row_slopes(likelihood, rows, W)
    with np.errstate(invalid="ignore"):  # a score without a mean shows in the value
        return float(slopes.log_prob.sum()), score(rows.X, slopes.grad), information(likelihood, rows, slopes)


def _generic_gradient(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    rows = block.counted
    return (score(rows.X, row_slopes(likelihood, rows, W).grad),)


def _fused(block: Block, kind: str, frame: Frame, W: Array) -> Sums:
    return fused.sums(kind, block.counted, frame, W)


def _fused_gradient(block: Block, kind: str, frame: Frame, W: Array) -> Sums:
    return (fused.gradient(kind, block.counted, frame, W),)


class Pass(NamedTuple):
    """A sum over rows, by a compiled kernel and by NumPy."""

    compiled: Callable[..., Sums]
    generic: Callable[..., Sums]
    shared: Callable[[SharedTable, Array], Sums]  # the compiled one over a table in memory
    in_place: bool  # whether the compiled one may read wide rows where they lie


EXPANSION = Pass(_fused, _generic, SharedTable.sums, in_place=False)
GRADIENT = Pass(_fused_gradient, _generic_gradient, SharedTable.gradient, in_place=True)


@singledispatch
def compiled_kind(likelihood: AnyLikelihood) -> str | None:
    """The name of the compiled kernel that gives what this likelihood's `expand` gives, if there is one."""
    return None


compiled_kind.register(BernoulliLogit, lambda likelihood: "logit")
compiled_kind.register(BernoulliProbit, lambda likelihood: "probit")
compiled_kind.register(Categorical, lambda likelihood: fused.SOFTMAX)


@compiled_kind.register
def _(likelihood: FamilyLikelihood) -> str | None:
    family, form = likelihood.family, likelihood.form
    if isinstance(family, Bernoulli) and isinstance(form, ThresholdForm):  # not the binomial: shares have two sides
        return compiled_kind(form.threshold)
    return "poisson" if isinstance(family, Poisson) and isinstance(likelihood.link, Log) else None


def stretch(likelihood: AnyLikelihood, x: Array, log_likelihood: float) -> Callable[[float], float] | None:
    """How much longer a Newton step from x should be than it is, by δ², where that is known."""
    known = compiled_kind(likelihood) == "logit" and not x.any()
    return partial(stretch_from_zero, log_likelihood) if known else None


def read_in_place(kind: str, rows: Rows) -> bool:
    """Whether a compiled gradient makes no tiles of these rows, so that any number of columns will do."""
    X = rows.X if isinstance(rows, MemoryRows) else None
    return kind != fused.SOFTMAX and isinstance(X, np.ndarray) and bool(X.flags.c_contiguous)


def compiled_pays(kind: str, rows: Rows, W: Array, walk: Pass = EXPANSION) -> bool:
    """Whether the compiled kernel can walk these rows, and is worth it."""
    with_offset = isinstance(rows, MemoryRows) and not is_sparse(rows.X)  # kernels of one score add offsets
    dense = rows.plain or (with_offset and kind != fused.SOFTMAX)
    narrow = W.shape[1] <= MOST_FUSED_COLUMNS or (walk.in_place and read_in_place(kind, rows))
    small = narrow and W.size <= MOST_FUSED_WEIGHTS
    return dense and small and fused.pays(kind, rows.n_rows * W.size)


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
    raw : Raw, optional
        The same rows before the design was made of them, for likelihoods that have a compiled kernel.
    least_pivot : float
        Of Cholesky's factor of a Hessian, below which classes that are shifted alike get a factorisation of their own.
    """

    likelihood: AnyLikelihood
    rows: Rows
    prior: PriorDensity | None
    contrast: Array
    raw: Raw | None = None
    least_pivot: float = CANCELLED

    def sample(self, rng: np.random.Generator, size: int) -> "Objective":
        """The objective estimated from a random part of the rows; rare classes have their share of it."""
        likelihood = self.likelihood
        n_classes = 2 * likelihood.two_labels if isinstance(likelihood, Likelihood) else likelihood.n_classes
        if self.raw is None:
            return replace(self, rows=self.rows.sample(rng, size, n_classes), least_pivot=ROUGH)
        rows, frame = self.raw.rows.sample(rng, size, n_classes), self.raw.frame
        if rows.X.size < WORTH_THREADS:
            rows = rows.on_threads(1)  # looked at a few times only: helpers would come too late
        return replace(self, rows=rows.through(frame.design), raw=Raw.of(rows, frame), least_pivot=ROUGH)

    def expand(self, x: Array) -> Local:
        """Value, gradient and Hessian at x: one pass over the rows."""
        log_likelihood, gradient, hessian = self._sum(EXPANSION, self.chain.weights(x))
        value = -float(log_likelihood) - self.log_prior(x)
        grad = self._prior_pull(x) - self.chain.free(np.asarray(gradient))
        information = self.chain.free_both(np.asarray(hessian))
        precision = partial(self.chain.precision, information, self.prior, x, self.least_pivot)
        if self.log_concave:
            return Local(value, grad, precision(), stretch=stretch(self.likelihood, x, float(log_likelihood)))
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
        (grad,) = self._sum(GRADIENT, self.chain.weights(x))
        return self._prior_pull(x) - self.chain.free(np.asarray(grad))

    def _sum(self, walk: Pass, W: Array) -> Sums:
        """A sum over rows by a compiled kernel, where the likelihood has one and it pays, else by NumPy."""
        kind, raw = compiled_kind(self.likelihood), self.raw
        if kind is not None and raw is not None and compiled_pays(kind, raw.rows, W, walk):
            if self._table is not None:
                return walk.shared(self._table, W)
            return raw.rows.sum(partial(walk.compiled, kind=kind, frame=raw.frame, W=W), add)
        return self.rows.sum(partial(walk.generic, likelihood=self.likelihood, W=W), add)

    @cached_property
    def _table(self) -> SharedTable | None:
        """The rows, where they are one table in memory that threads can share."""
        kind, raw = compiled_kind(self.likelihood), self.raw
        return None if kind is None or raw is None else SharedTable.of(kind, raw.rows, raw.frame, len(self.contrast))

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
