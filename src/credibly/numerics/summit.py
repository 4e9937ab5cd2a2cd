"""The maximum of a function of one number, by the sign of its slope alone."""

import math
from collections.abc import Callable

CLOSE = 1e-12  # of the place, or of one where that is larger
REACH = 2.0**40  # how far from the start a domain is looked for


def summit(slope: Callable[[float], float], x: float) -> float:
    """Where the slope of a function, uphill of x, changes its sign: steps that double, then halve.

    For a function that is flat, or straight between kinks, but for rounding: where curvature vanishes no Newton step
    exists, and the sign of the slope is all that is left. A concave function has one summit, others have the one found.

    Parameters
    ----------
    slope : function of a number
        NaN outside of the domain, which is an interval; a summit at its edge is found from inside.
    x : float
        Where to start; outside, the domain is looked for on both sides, in steps that double.

    Returns
    -------
    float
        x itself where the function is flat, NaN where it has no slope anywhere.

    Examples
    --------
    >>> round(summit(lambda x: -1.0 if x > 700 else 1.0, 0.0), 9)
    700.0
    >>> summit(lambda x: 0.0, 3.0)
    3.0
    """
    x, first = _inside(slope, x)
    if not abs(first) > 0:
        return x
    step = math.copysign(1.0, first)

    def rising(at: float) -> bool:
        return slope(at) * first > 0  # not so where there is no slope

    while rising(x + step):
        x, step = x + step, 2 * step
    while abs(step) > CLOSE * max(1.0, abs(x)):
        step /= 2
        if rising(x + step):
            x += step
    return x


def _inside(slope: Callable[[float], float], x: float) -> tuple[float, float]:
    """The start, or a place near it that has a slope, and the slope there; NaN if there is none."""
    places, step = [x], 1.0
    while step < REACH:
        for place in places:
            if not math.isnan(here := slope(place)):
                return place, here
        places, step = [x + step, x - step], 2 * step
    return math.nan, math.nan
