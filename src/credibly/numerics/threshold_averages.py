"""Averages of any noisy threshold over a normal score: one rule for every mean and variance, in log space.

Notation
--------
===========  ==============================================================================
c, ω         where the link has its transition, and how wide it is
m, s         mean and standard deviation of the score, in units of the link: (m − c)/ω and √v/ω
u            the score in units of the link, (f − c)/ω = sinh t
x            the score in units of its normal distribution, (u − m)/s; ξ = x − x₀ is the distance to a reference
τ            t − t₀, the distance to the reference in the coordinate of the trapezoidal rule
Λ            log p(y | f) − (x² − x₀²)/2 + log cosh t, the log integrand in t
===========  ==============================================================================

The integrand p(y | f) N(f | m, v) has two lengths: that of the link, near c, and that of the normal. In t = asinh u
the nodes are dense at the link and thin out with the distance from it, so that one trapezoidal rule serves both.
The integrand is analytic in a strip around the real axis; there the rule converges geometrically, and halving the step
squares the error. Hence the stopping rule: when two steps agree to 1e-9, the finer is exact to rounding. A link with a
kink at c (a density that is only continuous there) has c as a node and converges like the fourth power.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credibly.numerics.arrays import Array, Codes
from credibly.numerics.logistic_averages import Tilted, broadcast_scores
from credibly.numerics.quadrature import row_chunks
from credibly.numerics.special import LOG_2PI, log_normal_cdf
from credibly.numerics.truncated_normals import cut_normal

__all__ = ["Link", "log_threshold", "tilted_threshold"]

Mask = NDArray[np.bool_]

_FAR = 1e13  # widths of the link: nodes there are too far apart to see it
_DROP = 42.0  # e^-42 is 6e-19: what is farther below the peak does not count
_REACH = 9.0  # standard deviations that hold a normal but for 1e-19
_NOISE = 4e-12  # from log Z = -1e13 on, sums of e^Λ would be sums of rounding errors
_CELLS, _HALVINGS = 32, 7  # the coarsest rule, and how often its step may be halved
_AGREE = 1e-9  # two rules that agree this well: the finer one is right to the square of it
_WORTHWHILE, _ROUNDS = 0.7, 60  # a window is narrowed while that takes off a third; 0.7⁶⁰ is 5e-10


class Link(NamedTuple):
    """A noisy threshold as the averages see it: log p(y | f) monotone in f, its transition, and its width."""

    log_prob: Callable[[Array, Array], Array]  # (y, f), element-wise
    center: float = 0.0
    width: float = 1.0


class _Rows(NamedTuple):
    """Rows to be averaged, in units of the link; all (n, 1)."""

    link: Link
    y: Array
    m: Array
    s: Array

    def take(self, rows: Codes | Mask) -> "_Rows":
        return _Rows(self.link, self.y[rows], self.m[rows], self.s[rows])

    def log_prob(self, u: Array) -> Array:
        return self.link.log_prob(self.y, self.link.center + self.link.width * u)


class _Window(NamedTuple):
    """A reference point (t₀, u₀, x₀) and the range of τ that holds the mass; all (n, 1)."""

    t: Array
    u: Array
    x: Array
    low: Array
    high: Array
    top: Array  # Λ at its peak

    def take(self, rows: Codes | Mask) -> "_Window":
        return _Window(*(part[rows] for part in self))


class _Nodes(NamedTuple):
    """The integrand at some nodes; all (n, nodes)."""

    xi: Array
    log_density: Array  # log p(y | f) − (x² − x₀²)/2
    slope: Array  # du/dt = cosh t


def log_threshold(link: Link, y: ArrayLike, m: ArrayLike, v: ArrayLike) -> Array:
    r"""Logarithm of the average of a noisy threshold over a normal score.

    .. math:: \log \int p(y \mid f)\, N(f \mid m, v)\, df

    Parameters
    ----------
    link : Link
        log p(y | f), where it has its transition, and how wide that is.
    y : 0 or 1, broadcast with m and v
        The label.
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    float array, the broadcast shape

    Notes
    -----
    It is the less probable label that is integrated. The other follows by log1p, so that log Z keeps its digits when Z
    is one to rounding.

    References
    ----------
    Trefethen, Weideman (2014), The exponentially convergent trapezoidal rule, theorem 5.1.

    Examples
    --------
    >>> from credibly.numerics.special_links import log_cauchy_cdf
    >>> cauchit = Link(lambda y, f: log_cauchy_cdf((2 * y - 1) * f))
    >>> float(log_threshold(cauchit, 1, 0.0, 1e6))
    -0.69314718055994...
    """
    y, m, s = _broadcast(y, m, v)
    likely = _likely(link, y, m)
    log_mass = _moments(link, np.where(likely, 1.0 - y, y), m, s).log_mass
    return _complement(likely, log_mass, log_mass)


def tilted_threshold(link: Link, y: ArrayLike, m: ArrayLike, v: ArrayLike) -> Tilted:
    r"""Moments of a noisy threshold times a normal density.

    .. math:: p(y \mid f)\, N(f \mid m, v) / Z

    Parameters
    ----------
    link : Link
        log p(y | f), where it has its transition, and how wide that is.
    y : 0 or 1, broadcast with m and v
        The label.
    m, v : float arrays, broadcast together
        Mean and variance of the normal factor; v ≥ 0.

    Returns
    -------
    Tilted
        log Z (the same number as `log_threshold`), mean and variance, each of the broadcast shape.

    Examples
    --------
    >>> from credibly.numerics.special_links import log_cauchy_cdf
    >>> cauchit = Link(lambda y, f: log_cauchy_cdf((2 * y - 1) * f))
    >>> log_mass, mean, var = tilted_threshold(cauchit, 1, 4.0, 1.0)
    >>> round(float(mean), 6), round(float(var), 6)
    (4.024886, 0.985321)
    """
    y, m, s = _broadcast(y, m, v)
    own = _moments(link, y, m, s)
    likely = _likely(link, y, m)
    other = np.array(own.log_mass)
    if likely.any():
        other[likely] = _moments(link, 1.0 - y[likely], m[likely], s[likely]).log_mass
    return Tilted(_complement(likely, other, own.log_mass), own.mean[()], own.var[()])


def _broadcast(y: ArrayLike, m: ArrayLike, v: ArrayLike) -> tuple[Array, Array, Array]:
    m, s = broadcast_scores(m, v)
    y, m, s = np.broadcast_arrays(np.asarray(y, dtype=float), m, s)
    return y, m, s


def _likely(link: Link, y: Array, m: Array) -> Mask:
    """Where the label is the more probable one at the mean; its average is then above 1/4."""
    return np.asarray(link.log_prob(y, m) > link.log_prob(1.0 - y, m))


def _complement(likely: Mask, log_other: Array, log_own: Array) -> Array:
    out = np.array(log_own)
    out[likely] = np.log1p(-np.exp(log_other[likely]))
    return out[()]


def _moments(link: Link, y: Array, m: Array, s: Array) -> Tilted:
    """Log mass, mean and variance of each row, by the trapezoidal rule; a score without spread is not averaged."""
    rows = _Rows(link, *(part.reshape(-1, 1) for part in (y, (m - link.center) / link.width, s / link.width)))
    out = np.stack([link.log_prob(y, m).ravel(), m.ravel(), np.zeros(m.size)])
    near = np.maximum(np.abs(rows.m), rows.s) <= _FAR
    far = np.flatnonzero(~near & (rows.s > 0))
    if far.size:
        out[:, far] = _step_moments(link, y.ravel()[far], m.ravel()[far], s.ravel()[far])
    bound = np.full(rows.m.shape, np.inf)
    bound[near] = _bound(rows.take(near[:, 0]))[:, 0]
    spread = np.flatnonzero((rows.s > 0) & (bound < np.inf))
    for some in row_chunks(spread, 2 * _CELLS):
        log_mass, x, var = _standard_moments(rows.take(some), bound[some])
        scale = s.ravel()[some]
        out[:, some] = log_mass, out[1, some] + scale * x, scale**2 * var
    return Tilted(*(part.reshape(m.shape) for part in out))


def _step_moments(link: Link, y: Array, m: Array, s: Array) -> Array:
    """Log mass, mean and variance where the score is so far, or so wide, that the transition is a step; (3, n).

    The normal beyond the step, and the link as far from it as the mean, or as scores usually are, where the mean is on
    the wrong side: a heavy tail has more.
    """
    side = 2.0 * y - 1.0
    z, moved, within = cut_normal(m, s, link.center, 0.0, side)
    away = link.center - side * np.maximum(np.abs(m - link.center), s)
    beyond, here = log_normal_cdf(z), np.where(z > 0, -np.inf, link.log_prob(y, away))
    log_mass = np.logaddexp(beyond, here)
    with np.errstate(invalid="ignore"):
        share = np.where(np.isneginf(log_mass), 1.0, np.exp(beyond - log_mass))  # no number for either: the step's
    with np.errstate(over="ignore"):  # two places 1e300 apart, each with a share: their variance is inf
        apart = np.where((share > 0) & (share < 1), np.sqrt(share * (1 - share)) * (moved - m), 0.0) ** 2
        var = share * within + (1 - share) * s**2 + apart
    return np.stack([log_mass, share * moved + (1 - share) * m, var])


def _standard_moments(rows: _Rows, bound: Array) -> Array:
    """Log mass, and mean and variance in x; (3, n)."""
    drop = np.maximum(_DROP, _NOISE * bound)
    window = _zoom(rows, _first_window(rows, bound), drop)
    out = _at_the_peak(rows, window, drop)
    clear = np.flatnonzero(drop == _DROP)
    out[:, clear] = _summary(window.take(clear), _trapezoid(rows.take(clear), window.take(clear)))
    return out


def _bound(rows: _Rows) -> Array:
    """An upper bound of −log Z: from the link at the mean, or from the normal beyond the transition."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # without spread the second bound is inf
        x = np.abs(rows.m / rows.s)
        beyond = 0.5 * x**2 + np.log1p(x) - rows.log_prob(np.zeros_like(rows.m))
    return np.fmin(-rows.log_prob(rows.m), beyond)


def _first_window(rows: _Rows, bound: Array) -> _Window:
    """A window around the mean that holds all mass.

    Where log p falls, away from the mean, the integrand is below that at the mean times a normal. Where it rises, it is
    below the normal itself, which is negligible as soon as its exponent is below −log Z.
    """
    falling, rising = _REACH, np.sqrt(2.0 * (bound + _DROP))
    below, above = np.where(rows.y > 0.5, falling, rising), np.where(rows.y > 0.5, rising, falling)
    low, high = _gap(rows.m, -rows.s * below), _gap(rows.m, rows.s * above)
    return _Window(np.arcsinh(rows.m), rows.m, np.zeros_like(rows.m), low, high, np.zeros_like(rows.m))


def _gap(u: Array, step: Array) -> Array:
    """asinh(u + step) − asinh(u), without cancellation."""
    end = u + step
    here, there = end * np.hypot(1.0, u), u * np.hypot(1.0, end)
    same_side = u * end > 0
    total = np.where(same_side, here + there, 1.0)
    return np.arcsinh(np.where(same_side, step * (u + end) / total, here - there))


def _integrand(rows: _Rows, window: _Window, tau: Array) -> _Nodes:
    """The integrand at some τ. The products below are sinh(t₀ + τ) − sinh(t₀) and cosh(t₀ + τ), by one exponential."""
    grow = np.expm1(0.5 * tau)  # e^(τ/2) − 1, so that ξ is right for any s
    lift, fall = np.exp(window.t) * (1.0 + grow), np.exp(-window.t) / (1.0 + grow)
    step = 0.5 * (lift + fall) * (grow + grow / (1.0 + grow))
    xi = step / rows.s
    log_density = rows.log_prob(window.u + step) - xi * (window.x + 0.5 * xi)
    return _Nodes(xi, log_density, 0.5 * (lift * (1.0 + grow) + fall / (1.0 + grow)))


def _zoom(rows: _Rows, window: _Window, drop: Array) -> _Window:
    """Narrow the windows to where Λ has not dropped by more than that below its peak; refer to the peak."""
    low, high, peak = window.low.copy(), window.high.copy(), np.zeros((3, len(drop), 1))
    active = np.arange(len(low))
    for _ in range(_ROUNDS):
        width = high[active] - low[active]
        grid = low[active] + width * np.linspace(0.0, 1.0, _CELLS + 1)
        xi, log_density, slope = _integrand(rows.take(active), window.take(active), grid)
        value = log_density + np.log(slope)
        best = value.argmax(axis=1)[:, None]
        peak[:, active] = [np.take_along_axis(part, best, axis=1) for part in (grid, xi, value)]
        counts = value > peak[2, active] - drop[active]
        first, last = counts.argmax(axis=1)[:, None], _CELLS - counts[:, ::-1].argmax(axis=1)[:, None]
        low[active] = np.take_along_axis(grid, np.maximum(first - 1, 0), axis=1)
        high[active] = np.take_along_axis(grid, np.minimum(last + 1, _CELLS), axis=1)
        active = active[(high[active] - low[active] < _WORTHWHILE * width)[:, 0]]
        if not active.size:
            break
    return _refer(rows, window._replace(low=low, high=high), *peak)


def _refer(rows: _Rows, window: _Window, tau: Array, x: Array, top: Array) -> _Window:
    """Move the reference from the mean to the transition if the window holds it, else to the peak."""
    inside = (window.low < -window.t) & (-window.t < window.high)
    tau = np.where(inside, -window.t, tau)
    x = np.where(inside, -rows.m / rows.s, x)
    u = np.where(inside, 0.0, rows.m + rows.s * x)
    t = np.where(inside, 0.0, window.t + tau)
    return _Window(t, u, x, window.low - tau, window.high - tau, top + 0.5 * x**2)


def _sums(rows: _Rows, window: _Window, h: Array, k: Array) -> Array:
    """Moments of order 0, 1, 2 of the integrand in ξ, relative to its peak, at the nodes kh; (3, n)."""
    xi, log_density, slope = _integrand(rows, window, h * k)
    term = h / rows.s * slope * np.exp(log_density - window.top)
    return np.stack([term.sum(axis=1), (term * xi).sum(axis=1), (term * xi**2).sum(axis=1)])


def _trapezoid(rows: _Rows, window: _Window) -> Array:
    """Moments of order 0, 1, 2 by halving the step until they stand still; (3, n)."""
    h = (window.high - window.low) / _CELLS
    first = np.floor(window.low / h)
    cells = _CELLS + 2
    coarse = _sums(rows, window, h, first + np.arange(cells))
    out, active = coarse.copy(), np.arange(len(h))
    for _ in range(_HALVINGS):
        fine = 0.5 * (coarse + _sums(rows, window, h, first + 0.5 + np.arange(cells)))
        out[:, active] = fine
        moving = ~_agree(coarse, fine)
        if not moving.any():
            break
        active, rows, window = active[moving], rows.take(moving), window.take(moving)
        coarse, h, first, cells = fine[:, moving], 0.5 * h[moving], 2.0 * first[moving], 2 * cells
    return out


def _agree(coarse: Array, fine: Array) -> Mask:
    """Whether mass, mean and mean square stood still when the step was halved."""
    allowed = _AGREE * np.stack([fine[0], np.sqrt(fine[0] * fine[2]), fine[2]])
    return np.asarray((np.abs(coarse - fine) <= allowed).all(axis=0))


def _summary(window: _Window, sums: Array) -> Array:
    """Log mass, and mean and variance in x; (3, n)."""
    mass, mean, square = sums[0], sums[1] / sums[0], sums[2] / sums[0]
    x, top = window.x[:, 0], window.top[:, 0]
    return np.stack([top - 0.5 * x**2 + np.log(mass) - 0.5 * LOG_2PI, x + mean, square - mean**2])


def _at_the_peak(rows: _Rows, window: _Window, drop: Array) -> Array:
    """What is left to say when log Z is below −1e13 and rounding hides the shape of the integrand; (3, n).

    The logarithm of the mass is that of the peak to all digits; the spread is that of the normal with this window.
    """
    reach = 0.5 * np.cosh(window.t) / rows.s * (window.high - window.low)
    parts = window.top - 0.5 * window.x**2, window.x, 0.5 * reach**2 / drop
    return np.stack([part[:, 0] for part in parts])
