"""Averaged stochastic gradient descent with decreasing steps.

Notation
--------
====  =======================================================
x     where we are
x̄     average of the iterates of one sweep
η_t   step length, η₀ / (1 + t)^0.6
====  =======================================================
"""

from collections.abc import Callable, Iterable

import numpy as np

from credibly.numerics.arrays import Array

DECAY = (
    0.6  # between 1/2 and 1, as Robbins & Monro require; averaging then gives the best rate (Polyak & Juditsky 1992)
)

MiniBatch = Callable[[Array], Array]


def averaged_sweep(batches: Iterable[MiniBatch], x: Array, *, first_step: float, t: int) -> tuple[Array, Array, int]:
    r"""Walk once over gradient estimates and average the way.

    .. math:: x_{t+1} = x_t - \eta_t \hat g_t(x_t), \qquad \eta_t = \eta_0 (1+t)^{-0.6}

    Steps decrease so that the walk settles (a fixed step would hover); averaging the iterates removes most of the
    noise that is left.

    Parameters
    ----------
    batches : iterable of functions
        Each maps x to an unbiased estimate of the gradient, in units in which the curvature is about one.
    x : (d,) float array
        Where to start.
    first_step : float
        η₀, at most one.
    t : int
        Number of steps taken in earlier sweeps.

    Returns
    -------
    (x, mean, t)
        The last iterate, the average of this sweep's iterates, and the number of steps so far.

    Examples
    --------
    >>> noise = [0.5, -0.5, 0.25, -0.25]
    >>> _, mean, t = averaged_sweep([lambda x, e=e: x - 1 + e for e in noise], np.zeros(1), first_step=1.0, t=0)
    >>> round(float(mean[0]), 2), t
    (0.92, 4)
    """
    total, count = np.zeros_like(x), 0
    for batch in batches:
        x = x - first_step * (1 + t) ** -DECAY * batch(x)
        total, count, t = total + x, count + 1, t + 1
    return x, total / count, t
