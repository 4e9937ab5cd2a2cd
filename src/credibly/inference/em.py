"""Rows that lack a label, or cells that cannot be skipped: expected sums, until they agree with the model they give.

One loop serves two ends. With estimated parameters it is EM, and the observed-data log likelihood never falls; with
parameters integrated out it is variational Bayes (the posterior of the parameters and that of what is missing are
taken as independent), and a lower bound on the log evidence never falls. In both cases, with q the distribution of
what is missing, the value after a step is

    value = log p(expected sums) + H(q)

where log p(·) is the maximised log likelihood, or the closed-form marginal likelihood, of complete rows.

References: Dempster, Laird & Rubin 1977; Ghahramani & Jordan 1994 for missing cells; Beal 2003, sec. 2.4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from credibly.data.rows import Block, Rows
from credibly.inference.conjugate import Joint, JointSums, Rule
from credibly.model.class_conditionals.base import ClassConditional, Density, NotDetermined
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.linalg import dense, is_sparse
from credibly.numerics.special import log_softmax
from credibly.numerics.status import Report, Status

FALL = 1e-8  # relative: a value that falls by more than that says that a covariance has become singular
RUNAWAY = "have a covariance that becomes singular while missing cells or labels are filled in"
UNLABELLED = -1  # class code of a row without a label


class Expected(NamedTuple):
    """Expected sums of incomplete rows, and the entropy of what they lack."""

    sums: JointSums
    entropy: float


class Completion(NamedTuple):
    """How the search for what is missing ended."""

    sums: JointSums  # of all rows, expected ones included
    joint: Joint
    entropy: float
    path: Array  # values, step by step
    status: Status


class Limits(NamedTuple):
    """When to stop: a step that changes expected sums by less than `tol`, relatively, or so many steps."""

    tol: float
    max_iter: int
    report: Report


def expect(family: ClassConditional[Any], rows: Rows, joint: Joint, n_classes: int) -> Expected:
    """Sums of incomplete rows, expected under the model: one pass (the E-step)."""
    filling = joint.filling

    def block(part: Block) -> Expected:
        return _expected_block(family, part, joint, filling, n_classes)

    return rows.sum(block, lambda a, b: Expected(a.sums.merge(b.sums), a.entropy + b.entropy))


def _expected_block(
    family: ClassConditional[Any], part: Block, joint: Joint, filling: Density[Any], n_classes: int
) -> Expected:
    codes, weight = np.asarray(part.y), part.weights
    free = codes == UNLABELLED
    log_share = log_softmax(joint.log_complete(part.X[free])) if free.any() else np.zeros((0, n_classes))
    share = np.exp(log_share)
    uncertainty = (weight[free] @ entr(share)).sum()
    # A row of unknown class is K rows of known class whose weights add up to one.
    rows = np.concatenate([np.flatnonzero(~free), np.repeat(np.flatnonzero(free), n_classes)])
    classes = np.concatenate([codes[~free], np.tile(np.arange(n_classes), int(free.sum()))])
    weights = np.concatenate([weight[~free], (weight[free][:, None] * share).reshape(-1)])
    kept = weights > 0
    expected = completed(family, part.X[rows[kept]], classes[kept], weights[kept], n_classes, filling)
    return expected._replace(entropy=expected.entropy + float(uncertainty))


def completed(
    family: ClassConditional[Any], X: Any, codes: Codes, weight: Array, n_classes: int, filling: Density[Any]
) -> Expected:
    """Expected sums of rows of known class; a row without any observed cell counts for its class only."""
    counts = np.bincount(codes, weights=weight, minlength=n_classes).astype(float)
    every = family.skips_missing or is_sparse(X)
    seen = np.ones(len(codes), dtype=bool) if every else np.asarray(~np.isnan(dense(X)).all(axis=1))
    statistics, entropy = family.complete(X[seen], codes[seen], weight[seen], n_classes, filling)
    return Expected(JointSums(counts, statistics), entropy)


def complete(
    family: ClassConditional[Any], rule: Rule, base: JointSums, start: Joint, rows: Rows, limits: Limits
) -> Completion:
    """Iterate expectation and learning from `start` until sums and value stand still.

    Parameters
    ----------
    family : ClassConditional
    rule : Rule
        How sums become a model.
    base : JointSums
        Of the rows that lack nothing.
    start : Joint
        A model to begin with.
    rows : Rows
        Those that lack a label (code `UNLABELLED`) or cells.
    limits : Limits
    """
    K, steps, meanwhile = len(base.counts), rule.while_completing, family.while_completing
    joint, path, status = start, [], Status.STEP_LIMIT
    before: JointSums | None = None
    for step in range(limits.max_iter):
        extra = expect(meanwhile, rows, joint, K)
        sums = base.merge(extra.sums)
        joint = steps.learn(meanwhile, sums)
        path.append(joint.value + extra.entropy)
        if step and path[-2] - path[-1] > FALL * (1 + abs(path[-1])):  # impossible but for a matrix without digits
            raise NotDetermined(RUNAWAY)
        change = np.inf if before is None else _change(before, sums)
        limits.report(step + 1, path[-1], change)
        # Sums hardly move, too, while a covariance shrinks towards a singular one: then the value goes on rising.
        if change <= limits.tol and path[-1] - path[-2] <= max(FALL, limits.tol) * (1 + abs(path[-1])):
            status = Status.CONVERGED
            break
        before = sums
    if steps != rule or meanwhile != family:
        joint = rule.learn(family, sums)
    return Completion(sums, joint, extra.entropy, np.array(path), status)


def _change(a: JointSums, b: JointSums) -> float:
    """The largest change of an expected sum, in units that suit it.

    The value itself is no measure: near the end it moves by the square of a step, and is lost in rounding first.
    """
    labels = np.abs(a.counts - b.counts).max() / b.counts.max()
    return float(max(labels, b.statistics.change(a.statistics)))
