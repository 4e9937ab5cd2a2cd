"""From rows of a generative model to sums, and from sums to a joint model; rows that lack something are completed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from credibly.data.memory import refuse_beyond_memory
from credibly.data.rows import FEWEST_ROWS, Block, MemoryRows
from credibly.errors import InputError, NotPositiveDefinite
from credibly.inference.conjugate import Integrate, Joint, JointSums, PlugIn, Rule
from credibly.inference.em import RUNAWAY, UNLABELLED, Completion, Limits, complete, completed
from credibly.model.class_conditionals.base import ClassConditional, NotDetermined, Prior
from credibly.model.class_conditionals.gaussian import Gaussian
from credibly.model.class_conditionals.multivariate import FullGaussian, first_filling
from credibly.model.class_conditionals.probabilities import refuse_empty
from credibly.model.class_weights import LearnedWeights
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import DesignMatrix, is_sparse
from credibly.numerics.status import Status

BLOCK_NUMBERS = 400_000
COPIES = 3  # of the statistics that a fit holds at the same time, at the least: sums, what is believed, and one at work


class GenerativeRows(NamedTuple):
    """Clean columns, class codes (`UNLABELLED` without a label) and weights."""

    X: DesignMatrix
    codes: Codes
    weight: Array | None
    threads: int | None

    def rows(self) -> MemoryRows:
        """Rows to walk over."""
        return in_long_blocks(MemoryRows(self.X, self.codes, self.weight, threads=self.threads))

    def only(self, chosen: AnyArray) -> GenerativeRows:
        """Some of the rows; all of them without a copy."""
        if chosen.all():
            return self
        weight = None if self.weight is None else self.weight[chosen]
        return GenerativeRows(self.X[chosen], self.codes[chosen], weight, self.threads)

    def says_something(self) -> AnyArray:
        """Which rows are data: one with neither label nor cells is none."""
        unlabelled = self.codes == UNLABELLED
        if is_sparse(self.X) or not unlabelled.any():
            return np.ones(len(self.codes), dtype=bool)
        return np.asarray(~unlabelled | ~np.isnan(self.X).all(axis=1))

    def lacking(self, family: ClassConditional[Any]) -> AnyArray:
        """Which rows lack a label, or cells that the family cannot skip."""
        unlabelled = np.asarray(self.codes == UNLABELLED)
        if family.skips_missing or is_sparse(self.X):
            return unlabelled
        with np.errstate(over="ignore"):
            suspicious = np.isnan(self.X.sum(dtype=np.float64))
        return unlabelled | np.isnan(self.X).any(axis=1) if suspicious else unlabelled


def refuse_large(family: ClassConditional[Any], n_columns: int, n_classes: int) -> None:
    """Raise where the statistics of the classes do not fit into memory."""
    sums = n_columns * n_classes
    if isinstance(family, FullGaussian):
        sums += n_columns**2 * (1 if family.shared else n_classes)
    refuse_beyond_memory(
        COPIES * sums,
        f"what is learnt of {n_columns:,} columns in {n_classes:,} classes",
        "Use fewer columns, or independent ones (NaiveBayes), which need no matrix of all pairs of columns.",
    )


def in_long_blocks(rows: MemoryRows) -> MemoryRows:
    """Longer blocks than those of a fit by Newton: NumPy calls that are too short make threads queue."""
    return rows.in_blocks(max(FEWEST_ROWS, BLOCK_NUMBERS // max(1, rows.X.shape[1])))


class Learnt(NamedTuple):
    """What rows taught: sums, the model they give, and what completing them took."""

    sums: JointSums
    joint: Joint
    entropy: float
    path: Array
    status: Status


def print_step(step: int, value: float, change: float) -> None:
    """What `verbose` shows of every step."""
    print(f"step {step:3d}  value {value:.10g}  change of sums {change:.2e}")


def sum_rows(family: ClassConditional[Any], rows: MemoryRows, n_classes: int) -> JointSums:
    """The sums of rows that lack nothing, in one pass."""
    return rows.sum(lambda block: class_sums(block, family, n_classes), JointSums.merge)


def class_sums(block: Block, family: ClassConditional[Any], n_classes: int) -> JointSums:
    """The sums of one block."""
    codes = np.asarray(block.y)
    counts = np.bincount(codes, weights=block.weight, minlength=n_classes).astype(float)
    return JointSums(counts, family.summarise(block.X, codes, block.weight, n_classes))


def describe_all(family: ClassConditional[Any], rows: MemoryRows) -> Any:
    """Statistics of all rows as one class, missing cells skipped."""
    kind = family.describing

    def block(part: Block) -> Any:
        return kind.summarise(part.X, np.zeros(len(part.y), dtype=np.intp), part.weight, 1)

    return rows.sum(block, lambda a, b: a.merge(b))


def learn(
    family: ClassConditional[Any], rule: Rule, sums: JointSums, data: GenerativeRows, lacking: AnyArray, limits: Limits
) -> Learnt:
    """A model of rows that lack nothing, by their sums, and of those that do."""
    if not lacking.any():
        joint = rule.learn(family, sums)
        return Learnt(sums, joint, 0.0, np.array([joint.value]), Status.CONVERGED)
    rest = data.only(lacking)
    try:
        start = _start(family.while_completing, rule, sums, data)
        done: Completion = complete(family, rule, sums, start, rest.only(rest.says_something()).rows(), limits)
    except NotPositiveDefinite as error:
        raise NotDetermined(RUNAWAY) from error
    return Learnt(done.sums, done.joint, done.entropy, done.path, done.status)


def _start(family: ClassConditional[Any], rule: Rule, sums: JointSums, data: GenerativeRows) -> Joint:
    """A model of the labelled rows alone, their missing cells filled in without regard to other columns."""
    K, steps = len(sums.counts), rule.while_completing
    labelled = data.only(data.codes != UNLABELLED)
    holes = labelled.only(labelled.lacking(family))
    if isinstance(family, FullGaussian) and len(holes.codes):
        moments = sum_rows(Gaussian(), labelled.rows(), K).statistics
        if isinstance(rule, PlugIn):
            refuse_empty(moments.weight)
        weight = np.ones(len(holes.codes)) if holes.weight is None else holes.weight
        filled = completed(family, holes.X, holes.codes, weight, K, first_filling(moments, family.shared))
        sums = sums.merge(filled.sums)
    if len(labelled.codes) == len(data.codes):
        return steps.learn(family, sums)
    # With a weak prior no unlabelled row is impossible to begin with: a zero would stay one for ever.
    prior: Prior = family.empirical_prior(describe_all(family, data.rows()))
    return Integrate(prior, LearnedWeights()).learn(family, sums)


def refuse_completed(what: str) -> None:
    """The error of taking apart what was put together by EM."""
    raise InputError(
        f"{what} is not possible here: the model learnt from unlabelled rows, or from missing cells of Gaussian "
        "columns that depend on each other, and sums of such rows depend on all others. Fit again on the rows you want "
        "(NaiveBayes skips missing cells, so that its sums do not)."
    )
