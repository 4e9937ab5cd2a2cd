"""Averages over a normal score f ~ N(m, v): of inverse links, of any likelihood of one score, and their tilted moments.

Notation
--------
===========  ==============================================================================
m, v, s      mean, variance and standard deviation of the score; v = 0 is allowed
Z            the average E[p(y | f)]
tilted       the density p(y | f) N(f | m, v) / Z, whose moments EP and ADF need
c, ω         where a likelihood has its transition, and how wide it is
x            the score in units of its normal distribution, (f − m)/s
t            asinh((f − c)/ω), the coordinate of the trapezoidal rule; τ = t − t(m)
===========  ==============================================================================

The normal link has closed forms. Every other likelihood is averaged by one rule. The integrand p(y | f) N(f | m, v) has
two lengths: that of the likelihood, near c, and that of the normal. In t the nodes are dense at c and thin out with the
distance from it, so that evenly spaced nodes serve both; a coarse grid first finds the window that holds the mass. The
integrand is analytic in a strip around the real axis, where the trapezoidal rule converges geometrically. Narrow scores
of the logit, which most predictions are, have fixed nodes instead, and are fifty times as fast.

Everything is computed in log space: probabilities are exponentials of what is computed, and the more probable of two
labels is log1p(−Z) of the other.

References
----------
Trefethen, Weideman (2014), The exponentially convergent trapezoidal rule, theorem 5.1.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.numerics import special
from credibly.numerics.arrays import Array, Codes, row_blocks
from credibly.numerics.quadrature import Rule, gauss_hermite, trapezoid

_DROP = 34.0  # e⁻³⁴ is 2e-15: what is farther below the peak of an integrand does not count
_WINDOW_CELLS = 16  # of the grid that finds the window
_LEAST_GAIN, _ROUNDS = 0.2, 80  # a window is narrowed while that takes off a fifth; 0.8⁸⁰ is 2e-8
# Nodes that make averages and tilted moments right to 1e-12, by the largest s/ω that they serve (the last up to _FAR):
# measured for logistic, Cauchy, Student-t and Gumbel thresholds and every mean.
_WIDTHS, _NODES = (1.0, 4.0, 1e3), (64, 128, 384, 1024)
_REACH = float(np.sqrt(2.0 * _DROP))  # standard deviations that hold a normal but for as much
_HIGHEST = 710.0  # no density exceeds e^710, the largest number
_UNDERFLOWS = 1e300  # −log Z of rows whose squares are beyond all numbers: they are not averaged
_FAR = 1e13  # widths of the likelihood: from there on its transition is a step
_NARROW, _NARROW_NODES = 0.1, 10  # expectations of scores so narrow need only so many Gauss–Hermite nodes


class Tilted(NamedTuple):
    """Log mass, mean and variance of a likelihood times a normal density, normalized."""

    log_mass: Array
    mean: Array
    var: Array


class LabelAverages(NamedTuple):
    """Log probabilities of the labels 0 and 1 when the score is uncertain."""

    zero: Array
    one: Array

    def of(self, y: ArrayLike) -> Array:
        """The one of label y."""
        return np.where(np.asarray(y) > 0.5, self.one, self.zero)[()]


def _standard_deviations(m: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """m and s = √v in one shape; a negative variance is refused."""
    m, v = np.broadcast_arrays(np.asarray(m, dtype=float), np.asarray(v, dtype=float))
    if (v < 0).any():
        raise InputError(f"a variance must not be negative; the smallest is {v.min():.3g}")
    return m, np.sqrt(v)


# --- the normal distribution function: closed forms ---------------------------------------------------------


def log_normal_cdf(m: ArrayLike, v: ArrayLike) -> Array:
    r"""Logarithm of the average of the normal distribution function over a normal score.

    .. math:: \log E[\Phi(f)] = \log \Phi\!\left(\frac{m}{\sqrt{1 + v}}\right)

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    float array, the broadcast shape of m and v

    References
    ----------
    RW06, eq. 3.82; PRML, eq. 4.152.

    Examples
    --------
    >>> float(log_normal_cdf(-100.0, 0.0))
    -5005.5242086942...
    """
    m, s = _standard_deviations(m, v)
    return special.log_normal_cdf(m / np.hypot(1.0, s))


def normal_cdf(m: ArrayLike, v: ArrayLike) -> Array:
    r"""Average of the normal distribution function over a normal score.

    .. math:: E[\Phi(f)] = \Phi\!\left(\frac{m}{\sqrt{1 + v}}\right)

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    float array, the broadcast shape of m and v

    Examples
    --------
    >>> round(float(normal_cdf(2.0, 3.0)), 6)  # Φ(1)
    0.841345
    """
    return np.exp(log_normal_cdf(m, v))


def tilted_normal_cdf(m: ArrayLike, v: ArrayLike) -> Tilted:
    r"""Moments of the normal distribution function times a normal density.

    .. math:: \Phi(f)\, N(f \mid m, v) / Z, \qquad z = m / \sqrt{1 + v}

    with mean :math:`m + v\,r(z)/\sqrt{1 + v}` and variance :math:`v - v^2\, r(z)\{z + r(z)\}/(1 + v)`, r = φ/Φ.

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the normal factor; v ≥ 0. For class 0 use −m, and negate the mean.

    Returns
    -------
    Tilted
        log Z, mean and variance, each of the broadcast shape.

    References
    ----------
    RW06, eq. 3.82 to 3.85.

    Examples
    --------
    >>> log_mass, mean, var = tilted_normal_cdf(0.0, 1.0)
    >>> round(float(mean), 6), round(float(var), 6)  # 1/√π and 1 − 1/π
    (0.56419, 0.68169)
    """
    m, s = _standard_deviations(m, v)
    z, mean, var = tilted_probit(m, s)
    return Tilted(special.log_normal_cdf(z), mean, var)


class ProbitTilted(NamedTuple):
    """z, of which Φ is the mass of the product, and its mean and variance."""

    z: Array
    mean: Array
    var: Array


def tilted_probit(
    m: Array, s: Array, place: Array | float = 0.0, width: Array | float = 1.0, side: Array | float = 1.0
) -> ProbitTilted:
    r"""Moments of a normal density times a normal distribution function.

    .. math:: \Phi\{\pm (f - b)/a\}\, N(f \mid m, s^2), \qquad E[f] = m \pm \frac{s^2}{\sqrt{a^2 + s^2}}\, r(z), \qquad
              z = \pm \frac{m - b}{\sqrt{a^2 + s^2}}

    Parameters
    ----------
    m, s : float arrays, broadcast together
        Mean and standard deviation of the normal; s ≥ 0.
    place, width : float arrays
        b and a ≥ 0, not zero where s is; a = 0 is a step.
    side : +1 or −1
        Which side of b counts.

    Returns
    -------
    ProbitTilted
        z, mean and variance.

    Notes
    -----
    On the wrong side of a cut that is narrow beside s, m ± … is a difference of numbers of size m. There the mean is
    between m and b, by the shares of variance α = a²/(a² + s²) and 1 − α, plus what is cut: αm + (1 − α)b ± K₁ s²/√…,
    with the ratio K₁ of `special.mills_ratios` at −z.

    References
    ----------
    RW06, eq. 3.85 to 3.87.

    Examples
    --------
    >>> z, mean, var = tilted_probit(np.array(-1e8), np.array(1e2))
    >>> round(float(mean), 3), round(float(var), 3)  # almost m/(1 + s²)
    (-9999.0, 1.0)
    """
    s = np.asarray(s, dtype=float)
    wide = np.hypot(width, s)
    own, given = width / wide, s / wide
    with np.errstate(over="ignore"):  # more than 1e308 widths away is as good as infinitely far
        z = np.asarray(side * (np.asarray(m) - place) / wide)
    far = (z < 0) & (given > own)
    between = m * own**2 + place * given**2 + side * s * given * special.mills_ratios(np.where(far, -z, 0.0)).first
    mean = np.where(far, between, m + side * s * given * special.normal_hazard(np.where(far, 0.0, z)))
    var = s**2 * (own**2 + given**2 * special.truncated_normal_variance(z))
    return ProbitTilted(z[()], mean[()], var[()])


# --- the logistic function ----------------------------------------------------------------------------------

# Nodes that make the average of σ and its tilted moments right to 1e-12 for every m, by the largest s that they serve.
# Wider scores have the rule of all likelihoods. The poles of σ are at ±iπ, a = π/s in units of s: evenly spaced nodes,
# h = 0.2 apart, leave an error of e^(a²/2 − 2πa/h); eleven deviations hold the mass, which tilting moves by s of them.
_LOGIT_WIDTHS = (0.09, 0.38, 0.87, 3.0)
_LOGIT_RULES = (gauss_hermite(6), gauss_hermite(12), gauss_hermite(32), trapezoid(112, reach=11.0))
_LOGIT_CELLS = [len(rule.nodes) for rule in _LOGIT_RULES]

LOGISTIC_NORMALS = (
    np.array(
        [
            0.0028722011946605646,
            0.046727322561286894,
            0.18242067759760705,
            0.30663707467878154,
            0.28080256253978253,
            0.14434457626640215,
            0.03417590738913849,
            0.002019677772340761,
        ]
    ),
    np.array(
        [
            0.7273283166236646,
            0.9339715183016577,
            1.186803129095106,
            1.5088376609960932,
            1.9253356610291685,
            2.463482059591567,
            3.1610969648756724,
            4.112262921011348,
        ]
    ),
)
"""The logistic distribution as eight zero-mean normals, weights and standard deviations; their distribution functions
differ by 5e-9 at most.

The fit, to the largest difference, is made again by a slow test of ``tests/model/test_thresholds.py``."""


def sigmoid_averages(m: ArrayLike, v: ArrayLike) -> LabelAverages:
    r"""Log averages of both labels' logistic functions over a normal score, for little more than the price of one.

    .. math:: \log E[\sigma(-f)], \quad \log E[\sigma(f)], \qquad f \sim N(m, v)

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    LabelAverages
        Two arrays of the broadcast shape.

    Notes
    -----
    Relative error 1e-12 of both probabilities, tested for |m| ≤ 10⁶ and s from 10⁻³ to 10³, and designed for s ≤ 10¹³
    and any m. For s ≤ 3 fixed nodes, with e^m taken out so that nothing underflows; for wider scores the rule of
    `tilted`.

    Examples
    --------
    >>> zero, one = sigmoid_averages(40.0, 4.0)
    >>> float(zero)  # the tail is log-normal: −m + v/2
    -38.0
    """
    m, s = _standard_deviations(m, v)
    (less,) = _logit_rows(-np.abs(m), s, _log_tail, slice(0, 1))
    more = np.log1p(-np.exp(less))
    return LabelAverages(np.where(m > 0, less, more)[()], np.where(m > 0, more, less)[()])


def log_sigmoid(m: ArrayLike, v: ArrayLike) -> Array:
    r"""Logarithm of the average of the logistic function over a normal score.

    .. math:: \log E[\sigma(f)], \qquad f \sim N(m, v)

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    float array, the broadcast shape of m and v

    See Also
    --------
    sigmoid_averages : both labels together, with the method and its error.

    Examples
    --------
    >>> float(log_sigmoid(0.0, 100.0))
    -0.6931471805599...
    """
    return sigmoid_averages(m, v).one


def sigmoid(m: ArrayLike, v: ArrayLike) -> Array:
    r"""Average of the logistic function over a normal score: the predictive probability of class 1.

    .. math:: E[\sigma(f)] = \int \frac{1}{1 + e^{-f}}\, N(f \mid m, v)\, df

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    float array, the broadcast shape of m and v

    See Also
    --------
    sigmoid_averages : both labels in log space, with the method and its error.
    mackay_sigmoid : a famous approximation.

    Examples
    --------
    >>> round(float(sigmoid(2.0, 1.0)), 4)
    0.8445
    """
    return np.exp(log_sigmoid(m, v))


def tilted_sigmoid(m: ArrayLike, v: ArrayLike) -> Tilted:
    r"""Moments of the logistic function times a normal density.

    .. math:: \sigma(f)\, N(f \mid m, v) / Z

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the normal factor; v ≥ 0. For class 0 use −m, and negate the mean.

    Returns
    -------
    Tilted
        log Z, mean and variance, each of the broadcast shape.

    References
    ----------
    RW06, sec. 3.6.2, needs these moments for EP.

    Examples
    --------
    >>> log_mass, mean, var = tilted_sigmoid(0.0, 1.0)
    >>> round(float(mean), 6), round(float(var), 6)
    (0.413242, 0.829231)
    """
    m, s = _standard_deviations(m, v)
    mean, var = _logit_rows(m, s, _narrow_moments, slice(1, 3))
    return Tilted(log_sigmoid(m, v), mean[()], var[()])


def _logit_rows(m: Array, s: Array, narrow: Callable[[Rule, Array, Array], Array], parts: slice) -> Array:
    """Some of log mass, mean and variance: by `narrow` and a fixed rule where s is small, else as any likelihood."""
    shape, m, s = m.shape, m.ravel(), s.ravel()
    out = np.empty((parts.stop - parts.start, m.size))
    for k, rows in _by_width(s, _LOGIT_WIDTHS, _LOGIT_CELLS):
        if k < len(_LOGIT_RULES):
            out[:, rows] = narrow(_LOGIT_RULES[k], m[rows], s[rows])
        else:
            out[:, rows] = _moments(_LOGIT, np.ones_like(m[rows]), m[rows], s[rows])[parts]
    return out.reshape(len(out), *shape)


def _positive_half(rule: Rule) -> tuple[Array, Array]:
    """Positive nodes of a rule of an even number, and their weights, as columns."""
    half = len(rule.nodes) // 2
    return rule.nodes[half:, None], np.exp(rule.log_weights[half:, None])


def _log_tail(rule: Rule, m: Array, s: Array) -> Array:
    """log E[σ(f)] for m ≤ 0."""
    x, w = _positive_half(rule)
    lift, a = np.exp(s * x), np.exp(m)
    # e^{-m} σ(m ± sx) is 1/(e^{∓sx} + e^m): one exponential serves both nodes of a pair
    terms = w * (lift / (1.0 + a * lift) + 1.0 / (lift + a))
    return np.asarray(m + np.log(terms.sum(axis=0)))


def _narrow_moments(rule: Rule, m: Array, s: Array) -> Array:
    """Tilted mean and variance of the logistic function, the variance around the mean; (2, n)."""
    x, w = _positive_half(rule)
    lift = np.exp(s * x)
    p, q = np.exp(-np.maximum(m, 0.0)), np.exp(np.minimum(m, 0.0))
    up, down = w * lift / (p + q * lift), w / (p * lift + q)  # ∝ σ(m ± sx), scaled to stay in range
    mass = (up + down).sum(axis=0)
    center = ((up - down) * x).sum(axis=0) / mass
    spread = (up * (x - center) ** 2 + down * (x + center) ** 2).sum(axis=0) / mass
    return np.stack([m + s * center, s**2 * spread])


def mackay_sigmoid(m: ArrayLike, v: ArrayLike) -> Array:
    r"""MacKay's closed-form approximation to the averaged logistic function.

    .. math:: \sigma(\kappa(v)\, m), \qquad \kappa(v) = (1 + \pi v / 8)^{-1/2}

    The logistic function is replaced by Φ(λf) with the same slope 1/4 at zero, λ = √(π/8), averaged exactly,
    and replaced back. It is here for comparison with the literature: `sigmoid` is exact at a similar cost.

    Parameters
    ----------
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0 is the *variance*, not the standard deviation.

    Returns
    -------
    float array, the broadcast shape of m and v

    Notes
    -----
    The absolute error stays below 0.02, but the relative error in the tail reaches a factor of 33 and more.

    References
    ----------
    PRML, eq. 4.153 and 4.154; MacKay (1992), The evidence framework applied to classification networks.

    Examples
    --------
    >>> round(float(mackay_sigmoid(2.0, 1.0)), 3)
    0.845
    """
    m, s = _standard_deviations(m, v)
    return special.sigmoid(m / np.sqrt(1.0 + np.pi * s**2 / 8.0))


# --- any likelihood of one score ----------------------------------------------------------------------------


class Transition(NamedTuple):
    """The place and the width of a likelihood's transition."""

    center: float = 0.0
    width: float = 1.0  # about the distance of the nearest singularity of log p from the real line
    refinement: int = 1  # times as many nodes in averages of log p: more than one where it turns in other places too


class Factor(NamedTuple):
    """A likelihood of one score as the averages see it."""

    log_prob: Callable[[Array, Array], Array]  # log p(y | f) of (y, f), element-wise
    transition: Transition = Transition()
    two_labels: bool = True  # y is 0 or 1, and p(0 | f) + p(1 | f) = 1


_LOGIT = Factor(lambda y, f: special.log_sigmoid((2.0 * y - 1.0) * f), Transition(width=np.pi))


def tilted(factor: Factor, y: ArrayLike, m: ArrayLike, v: ArrayLike) -> Tilted:
    r"""Moments of a likelihood of one score times a normal density.

    .. math:: p(y \mid f)\, N(f \mid m, v) / Z

    Parameters
    ----------
    factor : Factor
        log p(y | f), where it has its transition, and how wide that is.
    y : array, broadcast with m and v
        The target.
    m, v : float arrays, broadcast together
        Mean and variance of the normal factor; v ≥ 0. A score without variance is not averaged.

    Returns
    -------
    Tilted
        log Z, mean and variance, each of the broadcast shape.

    Notes
    -----
    For |m| and s up to 1e13 widths of the likelihood (tested for |m| ≤ 10⁶ and s from 10⁻³ to 10³) errors are
    1e-12 · (1 + |log Z|), relative for Z and the variance and in standard deviations for the mean: 1e-16 · |log Z| is
    the rounding of an exponent. A likelihood whose second derivative jumps at the center has that as a node, and is
    integrated to 1e-7.

    Examples
    --------
    >>> cauchy = Factor(lambda y, f: special.log_cauchy_cdf((2 * y - 1) * f))
    >>> log_mass, mean, var = tilted(cauchy, 1, 4.0, 1.0)
    >>> round(float(mean), 6), round(float(var), 6)
    (4.024886, 0.985321)
    """
    shape, y, m, s = _flat_rows(y, m, v)
    out = _moments(factor, y, m, s)
    if factor.two_labels:
        likely = factor.log_prob(y, m) > factor.log_prob(1.0 - y, m)
        out[0, likely] = np.log1p(-np.exp(_moments(factor, 1.0 - y[likely], m[likely], s[likely])[0]))
    return Tilted(*(part.reshape(shape)[()] for part in out))


def label_averages(factor: Factor, m: ArrayLike, v: ArrayLike) -> LabelAverages:
    r"""Log probabilities of both labels, averaged over a normal score.

    .. math:: \log \int p(y \mid f)\, N(f \mid m, v)\, df, \qquad y = 0, 1

    Parameters
    ----------
    factor : Factor
        A likelihood of two labels.
    m, v : float arrays, broadcast together
        Mean and variance of the latent score; v ≥ 0.

    Returns
    -------
    LabelAverages
        Two arrays of the broadcast shape.

    Notes
    -----
    It is the label that is less probable at the mean that is integrated. The other follows by log1p, so that log Z has
    its digits when Z is one to rounding.

    Examples
    --------
    >>> cauchy = Factor(lambda y, f: special.log_cauchy_cdf((2 * y - 1) * f))
    >>> float(label_averages(cauchy, 0.0, 1e4).one)
    -0.6931471805599...
    """
    shape, one, m, s = _flat_rows(1.0, m, v)
    rarer = np.where(factor.log_prob(one, m) > factor.log_prob(1.0 - one, m), 0.0, 1.0)
    less = _moments(factor, rarer, m, s)[0]
    more = np.log1p(-np.exp(less))
    zero, one = np.where(rarer == 0, less, more), np.where(rarer == 1, less, more)
    return LabelAverages(zero.reshape(shape)[()], one.reshape(shape)[()])


def averaged_expansion(
    expand: Callable[[Array, Array], Sequence[Array]], transition: Transition, y: ArrayLike, m: ArrayLike, v: ArrayLike
) -> Array:
    r"""Averages of log p(y | f), its slope and minus its second derivative over a normal score.

    .. math:: E[\log p(y \mid f)], \quad E\!\left[\frac{d}{df} \log p(y \mid f)\right], \quad
              -E\!\left[\frac{d^2}{df^2} \log p(y \mid f)\right], \qquad f \sim N(m, v)

    Parameters
    ----------
    expand : callable
        Given arrays (n, 1) of targets and (n, nodes) of scores, returns the three functions at them, (n, nodes) each.
    transition : Transition
        Where log p has its transition, and how wide that is.
    y : array, broadcast with m and v
        The target.
    m, v : float arrays, broadcast together
        Mean and variance of the score; v ≥ 0.

    Returns
    -------
    (3, …) float array
        The last axes are of the broadcast shape.

    Notes
    -----
    For scores up to a tenth as wide as the likelihood ten Gauss–Hermite nodes, else the trapezoidal rule of `tilted` on
    m ± 8.2 s. Errors are 1e-12 · (1 + |value|) while s is at most 1e13 widths, log p grows no faster than a polynomial
    and turns at the center only.

    Examples
    --------
    >>> def expand(y, f):
    ...     return -(f**2) / 2, -f, 1 + 0 * f
    >>> value, slope, curvature = averaged_expansion(expand, Transition(), 0.0, 3.0, 4.0)
    >>> round(float(value), 12), round(float(slope), 12), round(float(curvature), 12)  # −(m² + v)/2, −m, 1
    (-6.5, -3.0, 1.0)
    """
    shape, y, m, s = _flat_rows(y, m, v)
    out = np.empty((3, m.size))
    sizes = [_NARROW_NODES, *(transition.refinement * n for n in _NODES)]
    for k, rows in _by_width(s / transition.width, (_NARROW, *_WIDTHS), sizes):
        mean, spread = m[rows, None], s[rows, None]
        if k == 0:
            x, log_weights = gauss_hermite(_NARROW_NODES)
            weights = np.exp(log_weights)
        else:
            line = _Line.of(mean, spread, transition)
            x, weights = line.nodes(sizes[k], *line.window(_REACH))
            weights *= np.exp(-0.5 * x**2)
            weights /= weights.sum(axis=1, keepdims=True)
        for part, values in zip(out, expand(y[rows, None], mean + spread * x), strict=True):
            part[rows] = (weights * values).sum(axis=1)
    return out.reshape(3, *shape)


def _flat_rows(y: ArrayLike, m: ArrayLike, v: ArrayLike) -> tuple[tuple[int, ...], Array, Array, Array]:
    """The broadcast shape, and y, m and s = √v as vectors of its size."""
    m, s = _standard_deviations(m, v)
    y, m, s = np.broadcast_arrays(np.asarray(y, dtype=float), m, s)
    return m.shape, y.ravel(), m.ravel(), s.ravel()


def _by_width(s: Array, edges: Sequence[float], cells: Sequence[int]) -> Iterator[tuple[int, slice | Codes]]:
    """Numbers of edges that s exceeds, with the rows for which it does, in blocks of so many numbers for each row."""
    for block in row_blocks(len(s), cells[0]):
        exceeded = np.searchsorted(edges, s[block])
        least, most = int(exceeded.min()), int(exceeded.max())
        if least == most:  # the commonest case, without copying
            for part in row_blocks(block.stop - block.start, cells[min(most, len(cells) - 1)]):
                yield most, slice(block.start + part.start, block.start + part.stop)
            continue
        for k in range(least, most + 1):
            rows = block.start + np.flatnonzero(exceeded == k)
            for part in row_blocks(len(rows), cells[min(k, len(cells) - 1)]):
                yield k, rows[part]


def _moments(factor: Factor, y: Array, m: Array, s: Array) -> Array:
    """Log mass, mean and variance of vectors of rows; (3, n). A score without spread is not averaged."""
    out = np.stack([factor.log_prob(y, m), m, np.zeros(len(m))])
    center, width, _ = factor.transition
    far = (np.maximum(np.abs(m - center), s) > _FAR * width) & (s != 0)
    out[:, far] = _step_moments(factor, y[far], m[far], s[far])
    below = _below_peak(factor, y, m, s)
    near = np.flatnonzero(~far & (s != 0) & ~(below > _UNDERFLOWS))
    for k, rows in _by_width(s[near] / width, _WIDTHS, _NODES):
        some = near[rows]
        out[:, some] = _trapezoid_moments(factor, _NODES[k], *(part[some, None] for part in (y, m, s, below)))
    return out


def _step_moments(factor: Factor, y: Array, m: Array, s: Array) -> Array:
    """The same where a transition is a step: the normal beyond it, or the likelihood at the mean if that is more."""
    z, mean, var = tilted_probit(m, s, factor.transition.center, 0.0, 2.0 * y - 1.0)
    beyond, here = special.log_normal_cdf(z), factor.log_prob(y, m)
    return np.where(beyond > here - 1.0, np.stack([beyond, mean, var]), np.stack([here, m, s**2]))


def _below_peak(factor: Factor, y: Array, m: Array, s: Array) -> Array:
    """A bound on x²/2 where the integrand is at its peak: what log p can gain, at most.

    The peak is no lower than the integrand at the mean, or at the transition.
    """
    center = np.full(m.shape, factor.transition.center)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # a value that is no number is no bound
        at_center = 0.5 * ((m - center) / s) ** 2 - factor.log_prob(y, center)
        below: Array = np.fmin(-factor.log_prob(y, m), at_center)
    return below if factor.two_labels else below + _HIGHEST


def _trapezoid_moments(factor: Factor, n: int, y: Array, m: Array, s: Array, below: Array) -> Array:
    """Log mass, mean and variance by n nodes on the window that holds the mass; columns (rows, 1) to (3, rows)."""
    line = _Line.of(m, s, factor.transition)
    x, slope = line.nodes(n, *_window(factor, y, m, s, line, np.sqrt(2.0 * (below + _DROP))))
    log_prob = factor.log_prob(y, m + s * x)
    best = (log_prob - 0.5 * x**2).argmax(axis=1)[:, None]
    top, x_top = (np.take_along_axis(part, best, axis=1) for part in (log_prob, x))
    # differences first: a log probability of −1e8 hides the digits of what is added to it
    share = slope * np.exp((log_prob - top) - 0.5 * (x - x_top) * (x + x_top))
    mass = share.sum(axis=1, keepdims=True)
    share /= mass
    mean = (share * x).sum(axis=1, keepdims=True)
    var = (share * (x - mean) ** 2).sum(axis=1, keepdims=True)
    log_mass = top - 0.5 * x_top**2 + np.log(mass) - 0.5 * special.LOG_2PI
    return np.stack([part[:, 0] for part in (log_mass, m + s * mean, s**2 * var)])


def _window(factor: Factor, y: Array, m: Array, s: Array, line: "_Line", reach: Array) -> tuple[Array, Array]:
    """The range of τ in which the integrand is within e^_DROP of its peak, and at most a cell on either side.

    It starts from |x| ≤ reach. A grid on the window finds a narrower one, again and again, while that is worth it.
    """
    low, high = line.window(reach)
    grid = np.linspace(0.0, 1.0, _WINDOW_CELLS + 1)
    for _ in range(_ROUNDS):
        width = high - low
        x, slope = line.at(low + width * grid)
        value = factor.log_prob(y, m + s * x) - 0.5 * x**2 + np.log(slope)
        counts = value > value.max(axis=1, keepdims=True) - _DROP
        first, last = counts.argmax(axis=1)[:, None] - 1, _WINDOW_CELLS + 1 - counts[:, ::-1].argmax(axis=1)[:, None]
        first, last = np.maximum(first, 0), np.minimum(last, _WINDOW_CELLS)
        narrower = last - first <= (1.0 - _LEAST_GAIN) * _WINDOW_CELLS
        if not narrower.any():
            break
        low, high = (np.where(narrower, low + width * grid[k], end) for k, end in ((first, low), (last, high)))
    return low, high


class _Line(NamedTuple):
    """The coordinate τ = asinh((f − c)/ω) − asinh((m − c)/ω) of some rows; all (n, 1)."""

    u: Array  # (m − c)/ω
    t: Array  # asinh u
    scale: Array  # s/ω

    @classmethod
    def of(cls, m: Array, s: Array, transition: Transition) -> "_Line":
        u = (m - transition.center) / transition.width
        return cls(u, np.arcsinh(u), s / transition.width)

    def at(self, tau: Array) -> tuple[Array, Array]:
        """x and dx/dτ; no difference is taken of two values of sinh."""
        x = 2.0 * np.cosh(self.t + 0.5 * tau) * np.sinh(0.5 * tau) / self.scale
        return x, np.cosh(self.t + tau) / self.scale

    def window(self, reach: Array | float) -> tuple[Array, Array]:
        """The τ of x = ±reach."""
        return self._tau(-self.scale * reach), self._tau(self.scale * reach)

    def nodes(self, n: int, low: Array, high: Array) -> tuple[Array, Array]:
        """x at n evenly spaced nodes, one of them at the center if that is inside, and their weights dx."""
        h = (high - low) / n
        inside = (low < -self.t) & (-self.t < high)
        with np.errstate(invalid="ignore"):
            first = np.where(inside, (-self.t - low) / h % 1.0, 0.5)
        x, slope = self.at(low + h * (first + np.arange(n)))
        return x, slope * h

    def _tau(self, step: Array) -> Array:
        """asinh(u + step) − asinh(u), without cancellation."""
        end = self.u + step
        here, there = end * np.hypot(1.0, self.u), self.u * np.hypot(1.0, end)
        same_side = self.u * end > 0
        total = np.where(same_side, here + there, 1.0)
        return np.arcsinh(np.where(same_side, step * (self.u + end) / total, here - there))
