"""Scores of probabilistic predictions, for any classifier's arrays.

Arguments are in scikit-learn's order: true labels, then probabilities with a column per sorted label (or, for two
classes, the probability of the second label alone).
"""

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.numerics.arrays import Array, Codes


def log_score(y: ArrayLike, proba: ArrayLike) -> float:
    r"""Mean log probability of what happened; larger is better.

    .. math:: \frac1n \sum_i \log p_i(y_i)

    Examples
    --------
    >>> round(log_score([0, 1], [0.2, 0.8]), 4)
    -0.2231
    """
    codes, table = _codes_and_table(y, proba)
    with np.errstate(divide="ignore"):  # a probability of zero for what happened scores minus infinity, rightly
        return float(np.log(table[np.arange(len(codes)), codes]).mean())


def brier_score(y: ArrayLike, proba: ArrayLike) -> float:
    r"""Mean squared distance between probabilities and outcome, summed over classes; smaller is better.

    .. math:: \frac1n \sum_i \sum_k (p_{ik} - 1[y_i = k])^2

    Examples
    --------
    >>> round(brier_score([0, 1], [0.2, 0.8]), 4)
    0.08
    """
    codes, table = _codes_and_table(y, proba)
    return float(((table - np.eye(table.shape[1])[codes]) ** 2).sum(axis=1).mean())


def calibration_error(y: ArrayLike, proba: ArrayLike, bins: int = 10) -> float:
    r"""Expected calibration error of the most probable class, over bins of equal count.

    .. math:: \sum_b \frac{n_b}{n} | \text{accuracy}_b - \text{confidence}_b |

    Biased upwards by noise of the order of one over the root of the bin count: a perfectly calibrated model does not
    score zero.

    Examples
    --------
    >>> round(calibration_error([0, 1, 1, 1], [[0.25, 0.75]] * 4, bins=1), 12)
    0.0
    """
    codes, table = _codes_and_table(y, proba)
    confidence, right = table.max(axis=1), table.argmax(axis=1) == codes
    order = np.argsort(confidence, kind="stable")
    parts = np.array_split(order, min(bins, len(order)))
    return float(sum(len(part) * abs(right[part].mean() - confidence[part].mean()) for part in parts) / len(order))


def _codes_and_table(y: ArrayLike, proba: ArrayLike) -> tuple[Codes, Array]:
    labels, table = np.asarray(y), np.asarray(proba, dtype=float)
    if table.ndim == 1:
        table = np.column_stack([1 - table, table])
    classes, codes = np.unique(labels, return_inverse=True)
    if len(labels) != len(table) or len(labels) == 0:
        raise InputError(
            f"expected one row of probabilities per label; got {len(labels)} labels and {len(table)} rows."
        )
    if len(classes) != table.shape[1]:
        codes = _integer_codes(labels, table.shape[1])
    return codes, table


def _integer_codes(labels: Array, n_classes: int) -> Codes:
    """A class may be absent from a small sample: then labels must say which column they mean."""
    if np.issubdtype(labels.dtype, np.integer) and labels.min() >= 0 and labels.max() < n_classes:
        return labels.astype(np.intp)
    raise InputError(
        f"{len(np.unique(labels))} distinct labels but {n_classes} columns of probabilities; pass labels as integers "
        f"0 … {n_classes - 1} when a class is absent."
    )
