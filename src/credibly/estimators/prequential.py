"""How well labels are predicted from rows before them, or from all others: generative models by log p(y | X)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import NotPositiveDefinite
from credibly.inference.conjugate import JointSums, Rule
from credibly.inference.em import completed
from credibly.model.class_conditionals.base import ClassConditional, NotDetermined
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.special import log_softmax
from credibly.predictive import GenerativePredictive


class PrequentialScore(NamedTuple):
    """Σ_i log p(y_i | x_i, rows before i), over several orders of the rows.

    Attributes
    ----------
    mean : float
        Average over orders.
    std : float
        Spread over orders (divisor: orders - 1; NaN for one).
    values : (permutations,) array
    """

    mean: float
    std: float
    values: Array


class Learner(NamedTuple):
    """A generative model before any row."""

    family: ClassConditional[Any]
    rule: Rule
    n_classes: int


def prequential(
    rng: np.random.Generator,
    learner: Learner,
    X: Array,
    codes: Codes,
    permutations: int,
    report: Callable[[int, float], None],
) -> PrequentialScore:
    """Predict every label, then learn it, in random orders."""
    values = []
    for k in range(permutations):
        values.append(_one_order(learner, X, codes, rng.permutation(len(codes))))
        report(k + 1, values[-1])
    std = float(np.std(values, ddof=1)) if permutations > 1 else np.nan
    return PrequentialScore(float(np.mean(values)), std, np.array(values))


def _one_order(learner: Learner, X: Array, codes: Codes, order: Codes) -> float:
    family, rule, K = learner
    one = np.ones(1)
    sums = JointSums(np.zeros(K), family.summarise(X[:0], codes[:0], None, K))
    total = 0.0
    for i in order:
        joint = rule.learn(family, sums)
        row = X[i : i + 1]
        total += float(log_softmax(joint.log_joint(row))[0, codes[i]])
        sums = sums.merge(completed(family, row, codes[i : i + 1], one, K, joint.filling).sums)
    return total


def leave_one_out(learner: Learner, sums: JointSums, X: Array, codes: Codes) -> Array:
    """log p(y_i | x_i, all other rows), (n,), exactly: every row is taken off the sums, which are of all of them.

    NaN where the other rows do not determine the model, or make the row impossible in every class.
    """
    family, rule, K = learner
    one, filling, out = np.ones(1), rule.learn(family, sums).filling, np.full(len(codes), np.nan)
    for i, code in enumerate(codes):
        row, label = X[i : i + 1], codes[i : i + 1]
        rest = sums.remove(completed(family, row, label, one, K, filling).sums)
        try:
            out[i] = GenerativePredictive(rule.learn(family, rest)).log_proba(row)[0, code]
        except (NotDetermined, NotPositiveDefinite):
            continue
    return out
