"""From probabilities to decisions: least expected cost, with the option to decline.

Notation
--------
=====  =====================================================  ========
p      class probabilities                                    (n, K)
costs  costs[i, j], of deciding j when the truth is i         (K, K)
=====  =====================================================  ========
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.numerics.arrays import Array, Codes

REJECT = -1


def least_cost(proba: Array, costs: ArrayLike, reject_cost: float | None = None) -> Codes:
    r"""The class of least expected cost for every row, or `REJECT` where declining is cheaper.

    .. math:: \arg\min_j \sum_i p_i \, \mathrm{costs}_{ij}

    Equal costs give the most probable class; ties go to the first class, and to deciding when declining costs the same.

    Parameters
    ----------
    proba : (n, K) float array
    costs : (K, K) array
        costs[i, j] is the cost of deciding class j when the truth is class i.
    reject_cost : float, optional
        Cost of declining to decide.

    Returns
    -------
    (n,) int array
        Class codes, `REJECT` for rows that are declined.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.6, 0.4]])
    >>> least_cost(p, [[0, 1], [10, 0]])  # missing class 1 is ten times worse
    array([1, 1])
    >>> least_cost(p, [[0, 1], [1, 0]], reject_cost=0.3)
    array([ 0, -1])
    """
    expected: Array = proba @ _checked(costs, proba.shape[1])
    choice: Codes = expected.argmin(axis=1)
    if reject_cost is None:
        return choice
    return np.where(_checked_number(reject_cost) < expected.min(axis=1), REJECT, choice)


def _checked_number(reject_cost: Any) -> float:
    if not isinstance(reject_cost, int | float | np.number) or not np.isfinite(reject_cost):
        raise InputError(f"reject_cost must be a finite number, or None to decide always; got {reject_cost!r}.")
    return float(reject_cost)


def _checked(costs: ArrayLike, n_classes: int) -> Array:
    try:
        matrix = np.asarray(costs, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"costs must be a table of numbers, costs[i, j]; got {costs!r:.60}.") from error
    if matrix.shape != (n_classes, n_classes):
        raise InputError(
            f"costs must be a {n_classes}×{n_classes} table, costs[i, j] for deciding class j when the truth is "
            f"class i in the order of classes_; got shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        raise InputError("costs must be finite numbers.")
    return matrix
