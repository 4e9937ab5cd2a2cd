"""Derivatives of a function of which only values (or only gradients) can be had.

Notation
--------
====  =================================================================  =======
x     where derivatives are wanted                                       (M,)
B     directions b₁ … b_M as *rows*, each as long as the function's      (M, M)
      natural unit in that direction (`natural_scale`)
h     step, in those units                                               scalar
σ     noise: how far a value of the function is off by rounding          scalar
L     number of steps h, 2h, 4h, … combined by Richardson                scalar
====  =================================================================  =======

Derivatives are along B: gradient_j = d f(x + t b_j) / dt, hessian_jk = d² f(x + s b_j + t b_k) / ds dt.

The step. A symmetric difference of order p (1: gradient, 2: Hessian) of values known to σ is off by about σ / hᵖ from
rounding and, with L steps combined, by about h^(2L) times a higher derivative from curvature. In natural units that
derivative is of order one, so the sum is least near h = σ^(1 / (2L + p)), where the error is σ^(2L / (2L + p)):
the familiar eps^(1/3) for gradients and eps^(1/4) for Hessians at L = 1 (errors 4e-11 and 1.5e-8), and for Hessians at
L = 3 eps^(1/8) with an error of 2e-12, which is why it pays to combine.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from credibly.numerics.arrays import Array

EPS = float(np.finfo(float).eps)
_IMAGINARY = 1e-20  # its square is lost beside one, so a complex step has no truncation error
_SAMPLES, _SPACING = 9, 1e-4  # fourth differences of a smooth function at this spacing are 1e-16 natural units
_FURTHEST = 1e150  # beyond, squares overflow
# Tries of a scale: by steps of `_LONGEST_STEP` these cross all numbers, and bisection halves 1e300 as often.
_MOST_TRIES = 200
_LONGEST_STEP = 1e3  # factor from one try to the next: farther away a parabola through three values is no guide
_LEAST_STEP = 1.02  # factor that a try keeps from the ends of its bracket, or that would not shrink
_NARROW_BRACKET = 1.1  # ratio of its ends: a scale is wanted to a factor of two
_ABOVE_ROUNDING = 1e3  # times the rounding of values: a second difference of that has three digits

Scalar = Callable[[Any], Any]  # of an (M,) array, real or complex; a number
Gradient = Callable[[Array, int], Array]  # derivatives along b_k, b_(k+1), …, at x


class Estimate(NamedTuple):
    """A derivative, and how much the last refinement changed it at most."""

    value: Array
    change: float


def best_step(noise: float, order: int, levels: int) -> float:
    """h = σ^(1 / (2L + p)): see the head of this module."""
    return float(noise ** (1.0 / (2 * levels + order)))


def richardson(estimate: Callable[[float], Array], h: float, levels: int) -> Estimate:
    """Cancel the errors h², h⁴, … of a symmetric difference by combining steps h, 2h, 4h and so on.

    Examples
    --------
    >>> slope = lambda h: (np.exp([h]) - np.exp([-h])) / (2 * h)  # of exp at 0
    >>> [f"{float(richardson(slope, 0.1, levels).value[0] - 1):.0e}" for levels in (1, 2, 3)]
    ['2e-03', '-3e-06', '1e-08']
    """
    table = [estimate(h * 2.0**k) for k in range(levels)]
    change = np.inf
    for m in range(1, levels):
        refined = [(4**m * fine - coarse) / (4**m - 1) for fine, coarse in pairwise(table)]
        change, table = float(np.abs(refined[0] - table[0]).max()), refined
    return Estimate(table[0], change)


def central_gradient(f: Scalar, x: Array, B: Array, h: float) -> Array:
    """Derivatives along B by (f(x + hb) - f(x - hb)) / 2h."""
    return np.array([(f(x + h * b) - f(x - h * b)) / (2 * h) for b in B])


def complex_gradient(f: Scalar, x: Array, B: Array, first: int = 0) -> Array:
    """Derivatives along B by Im f(x + ih b) / h, right to rounding where f is analytic (Squire and Trapp 1998).

    Examples
    --------
    >>> complex_gradient(lambda z: np.exp(z[0]) * z[1], np.array([0.0, 3.0]), np.eye(2))
    array([3., 1.])
    """
    return np.array([np.imag(f(x + 1j * _IMAGINARY * b)) / _IMAGINARY for b in B[first:]])


def hessian_of_values(f: Scalar, x: Array, B: Array, h: float) -> Array:
    """Hessian of M² + M + 1 values; its error is even in h, so that it may be refined by Richardson."""
    middle = f(x)
    sides = np.array([f(x + h * b) + f(x - h * b) - 2 * middle for b in B])
    H = np.diag(sides)
    for j in range(len(B)):
        for k in range(j):
            both = h * (B[j] + B[k])
            H[j, k] = H[k, j] = (f(x + both) + f(x - both) - 2 * middle - sides[j] - sides[k]) / 2
    return H / h**2


def hessian_of_gradients(gradient: Gradient, x: Array, B: Array, h: float) -> Array:
    """Hessian of 2M gradients, of which only components k, k + 1, … are asked for at the k-th."""
    H = np.empty((len(B), len(B)))
    for k, b in enumerate(B):
        H[k, k:] = H[k:, k] = (gradient(x + h * b, k) - gradient(x - h * b, k)) / (2 * h)
    return H


def noise_level(f: Scalar, x: Array, b: Array, eps: float = EPS) -> float:
    """σ: at least a unit in the last place, and more where values scatter about a smooth curve.

    Fourth differences at a tiny spacing leave nothing of a smooth function; of independent errors σ they leave
    σ√70 (Moré and Wild 2011, section 3).

    Examples
    --------
    >>> bool(noise_level(lambda x: float(x @ x), np.ones(1), np.ones(1)) < 1e-15)
    True
    >>> six_digits = lambda x: round(1e6 * float(np.sin(np.e * x[0]))) / 1e6
    >>> print(f"{noise_level(six_digits, np.zeros(1), np.ones(1)):.0e}")
    2e-07
    """
    values = np.array([f(x + (k - _SAMPLES // 2) * _SPACING * b) for k in range(_SAMPLES)])
    scatter = np.sqrt(np.mean(np.diff(values, n=4) ** 2) / 70)
    floor = eps * max(1.0, abs(float(values[_SAMPLES // 2])))
    return float(max(scatter, floor)) if np.isfinite(scatter) else floor


def natural_scale(f: Scalar, x: Array, d: Array, guess: float = 1.0) -> float | None:
    """The s over which f curves by about one: |f(x + sd) - 2f(x) + f(x - sd)| between 1/4 and 4.

    For a log density that is a distance over which it falls by a nat or so: a standard deviation along d where
    it is Gaussian, however far x is from the mode. Where values are so large that their rounding hides a change of one
    the goal is a thousand times that rounding. None if f is straight at any distance.

    Examples
    --------
    >>> natural_scale(lambda x: -0.5 * float(x @ x) / 1e12, np.zeros(1), np.ones(1))
    1000000.0
    >>> natural_scale(lambda x: float(x[0]), np.zeros(1), np.ones(1)) is None
    True
    """
    low, high, s, middle = 0.0, np.inf, guess, f(x)
    for _ in range(_MOST_TRIES):
        ends = np.array([f(x + s * d), f(x - s * d)])
        curve = abs(ends.sum() - 2 * middle)
        goal = max(1.0, _ABOVE_ROUNDING * EPS * (np.abs(ends).sum() + 2 * abs(middle)))
        if not (np.isfinite(curve) and curve <= 4 * goal):
            high = s
        elif curve < goal / 4:
            low = s
        else:
            return s
        if not 1 / _FURTHEST < s * np.abs(d).max() < _FURTHEST:
            return None
        if high <= _NARROW_BRACKET * low:  # the edge of the support lies between
            return low
        s = _next_scale(s, curve / goal if np.isfinite(curve) else np.inf, low, high)
    return None


def _next_scale(s: float, ratio: float, low: float, high: float) -> float:
    """The place where a parabola has a ratio of one, if that is believable; else the middle of the bracket."""
    guess = s / np.sqrt(ratio) if 0 < ratio < np.inf else np.nan
    least, most = max(low * _LEAST_STEP, s / _LONGEST_STEP), min(high / _LEAST_STEP, s * _LONGEST_STEP)
    if least <= guess <= most:
        return float(guess)
    return float(np.sqrt(low * high)) if low > 0 and high < np.inf else (most if high == np.inf else least)
