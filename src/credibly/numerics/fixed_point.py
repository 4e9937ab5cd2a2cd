"""Fixed points x = g(x), faster than by repeating g.

Notation
--------
====  ============================================  ======
x     where we are                                  (d,)
f     the residual g(x) - x                         (d,)
====  ============================================  ======
"""

import numpy as np

from credibly.numerics.arrays import Array

DEPTH = 5
SMALLEST_SHARE = 1e-10  # singular value, relative to the largest, from which on directions count as the same


class Anderson:
    r"""Anderson mixing: the next point is where the residuals seen last, taken as linear in x, cancel best.

    .. math:: x_+ = x + βf - (ΔX + βΔF)γ, \qquad γ = \arg\min \|s(f - ΔFγ)\|

    with the differences of the last points and residuals as columns of ΔX and ΔF and a weight s for each coordinate.
    The caller decides whether the point is admissible, and forgets the past after a step that did not help.

    References
    ----------
    Walker & Ni 2011, SIAM J. Numer. Anal. 49:1715, eq. 2.1–2.2.

    Examples
    --------
    >>> mixing, x = Anderson(), np.array([1.0, 1.0])
    >>> for _ in range(4):
    ...     x = mixing.next_point(x, np.array([-0.9, 0.5]) * x - x, np.ones(2))
    >>> bool(np.abs(x).max() < 1e-12)
    True
    """

    def __init__(self, depth: int = DEPTH) -> None:
        self.depth = depth
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self._points: list[Array] = []
        self._residuals: list[Array] = []

    def next_point(self, x: Array, residual: Array, scale: Array, step: float = 1.0) -> Array:
        """The next point to try, from this one and those before it."""
        self._points = [*self._points[-self.depth :], x]
        self._residuals = [*self._residuals[-self.depth :], residual]
        plain: Array = x + step * residual
        if len(self._points) == 1:
            return plain
        dX, dF = (np.diff(np.array(seen), axis=0) for seen in (self._points, self._residuals))
        share = np.linalg.lstsq((dF * scale).T, residual * scale, rcond=SMALLEST_SHARE)[0]
        return np.asarray(plain - share @ (dX + step * dF))
