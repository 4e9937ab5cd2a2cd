"""How well each label was predicted from the rows before it: a generative model on the scale of log p(y | X)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from credibly.inference.conjugate import JointSums, Rule
from credibly.inference.em import completed
from credibly.model.class_conditionals.base import ClassConditional
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.special import log_softmax


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
