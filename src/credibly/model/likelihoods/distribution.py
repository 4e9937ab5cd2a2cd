r"""Any continuous distribution of SciPy as a noisy threshold.

Notation
--------
=======  =====================================================================
F, p     distribution function and density of the threshold
ψ, ψ'    score d log p / df and its slope, by differences of SciPy's logpdf
b, a     place and scale of a threshold: p(y | f) of the standard one at (f − b)/a
=======  =====================================================================

A distribution whose derivatives are known in closed form gets that closed form, moved and stretched: `from_scipy`.
"""

from typing import Any

import numpy as np
from scipy import stats

from credibly.errors import InputError
from credibly.model.likelihoods.base import Averaged, Expansion, Likelihood, Slopes
from credibly.model.likelihoods.density import DensityThreshold, Score
from credibly.model.likelihoods.thresholds import (
    BernoulliCauchit,
    BernoulliCloglog,
    BernoulliLogit,
    BernoulliLoglog,
    BernoulliProbit,
)
from credibly.numerics.arrays import Array
from credibly.numerics.averages import LabelAverages, Tilted
from credibly.numerics.special import log_sum_exp

_EPS = float(np.finfo(float).eps)
# Five-point differences: truncation h⁴ meets rounding eps/h at eps^(1/5), and eps/h² at eps^(1/6).
_STEP_FIRST, _STEP_SECOND = _EPS ** (1 / 5), _EPS ** (1 / 6)
_TAIL_NODES, _TAIL_WEIGHTS = np.polynomial.laguerre.laggauss(32)


class LocationScale(Likelihood):
    r"""A threshold moved and stretched.

    .. math:: p(y \mid f) = p_0(y \mid (f - b) / a)

    Parameters
    ----------
    likelihood : Likelihood
        The standard threshold p₀.
    loc, scale : float
        Place b and scale a > 0.

    Examples
    --------
    >>> float(LocationScale(BernoulliProbit(), 3.0, 2.0).mean(np.array(3.0)))
    0.5
    """

    def __init__(self, likelihood: Likelihood, loc: float = 0.0, scale: float = 1.0) -> None:
        if not (np.isfinite(loc) and 0 < scale < np.inf):
            raise InputError(f"a threshold needs a finite loc and a positive scale, not {loc!r} and {scale!r}")
        self.likelihood, self.loc, self.scale = likelihood, float(loc), float(scale)
        # A wrapper is log-concave if what it wraps is; the class attribute is only the default.
        self.log_concave = likelihood.log_concave  # type: ignore[misc]
        self.center, self.width = self.loc + self.scale * likelihood.center, self.scale * likelihood.width
        self.refinement = likelihood.refinement

    def log_prob(self, y: Array, f: Array) -> Array:
        return self.likelihood.log_prob(y, self._standard(f))

    def slopes(self, y: Array, f: Array) -> Slopes:
        grad, curvature = self.likelihood.slopes(y, self._standard(f))
        return Slopes(grad / self.scale, curvature / self.scale**2)

    def third(self, y: Array, f: Array) -> Array:
        return self.likelihood.third(y, self._standard(f)) / self.scale**3

    def mean(self, f: Array) -> Array:
        return self.likelihood.mean(self._standard(f))

    def expand(self, y: Array, f: Array) -> Expansion:
        log_prob, grad, curvature = self.likelihood.expand(y, self._standard(f))
        return Expansion(log_prob, grad / self.scale, curvature / self.scale**2)

    def tilted(self, y: Array, m: Array, v: Array) -> Tilted:
        log_mass, mean, var = self.likelihood.tilted(y, self._standard(m), np.asarray(v) / self.scale**2)
        return Tilted(log_mass, self.loc + self.scale * mean, self.scale**2 * var)

    def label_averages(self, m: Array, v: Array) -> LabelAverages:
        return self.likelihood.label_averages(self._standard(m), np.asarray(v) / self.scale**2)

    def averaged(self, y: Array, m: Array, v: Array) -> Averaged:
        log_prob, grad, curvature = self.likelihood.averaged(y, self._standard(m), np.asarray(v) / self.scale**2)
        return Averaged(log_prob, grad / self.scale, curvature / self.scale**2)

    def information(self, f: Array) -> Array:
        return self.likelihood.information(self._standard(f)) / self.scale**2

    def information_slope(self, f: Array) -> Array:
        return self.likelihood.information_slope(self._standard(f)) / self.scale**3

    def __repr__(self) -> str:
        return f"LocationScale({self.likelihood!r}, loc={self.loc!r}, scale={self.scale!r})"

    def _standard(self, f: Array) -> Array:
        return (np.asarray(f, dtype=float) - self.loc) / self.scale


class BernoulliDistribution(DensityThreshold):
    r"""A threshold with any continuous distribution that SciPy knows.

    .. math:: p(y = 1 \mid f) = F(f) = \texttt{dist.cdf}(f)

    Parameters
    ----------
    dist : frozen continuous distribution of `scipy.stats`
        Positive density on the whole line.

    Notes
    -----
    The log probability is as good as SciPy's logcdf and logsf; where those underflow it is the log density plus the
    logarithm of a Gauss–Laguerre integral of the tail, which is light there. The score of the density is a five-point
    difference of logpdf, to about 1e-11 relative to 1/width, its slope to about 1e-9; both are wrong within two steps
    (0.2 %, 0.5 % of the width) of a kink. The slope is an exponential of log density minus log probability and loses
    digits where these are large; so does the curvature, in which slope and score nearly cancel in light tails. Where a
    closed form exists, `from_scipy` prefers it. The speed is SciPy's: an average takes some 300 values of logcdf, of
    0.2 µs each for most distributions, but of 0.2 ms for skewnorm and 2 ms for exponnorm, which SciPy integrates.

    Examples
    --------
    >>> from scipy import stats
    >>> round(float(BernoulliDistribution(stats.laplace()).mean(np.array(0.0))), 12)
    0.5
    """

    def __init__(self, dist: Any) -> None:
        loc = check_distribution(dist)["loc"]
        self.dist = dist
        low, quarter, median, three_quarters, high = (float(it) for it in dist.ppf([0.01, 0.25, 0.5, 0.75, 0.99]))
        self.center = loc if low < loc < high else median  # a kink, if there is one, is at loc
        self.width = 0.5 * (three_quarters - quarter)

    @property
    def heavy_tailed(self) -> bool:
        """Whether a tail falls less than exponentially: then log p is not concave, and rows far out make modes."""
        steps = self.width * np.array([0.0, 10.0, 100.0])
        falls = [self._ask("logpdf", self.center + side * steps) for side in (1.0, -1.0)]
        # Of a concave function a step ten times as long falls at least ten times as far; eight spares what nearly is.
        return any(bool(there > -np.inf and here - there < 8 * (here - near)) for here, near, there in falls)

    def log_prob(self, y: Array, f: Array) -> Array:
        one, f = np.broadcast_arrays(np.asarray(y) > 0.5, np.asarray(f, dtype=float))
        out = np.empty(f.shape)
        for side, own in ((1.0, one), (-1.0, ~one)):
            log_own = self._log_side(f[own], side)
            likely = log_own > np.log(0.5)  # near one, what is missing to one has the digits
            log_own[likely] = np.log1p(-np.exp(self._log_side(f[own][likely], -side)))
            out[own] = log_own
        return out[()]

    def grad(self, y: Array, f: Array) -> Array:
        side = np.where(np.asarray(y) > 0.5, 1.0, -1.0)
        with np.errstate(invalid="ignore"):  # where SciPy's log density and log probability are both -inf: nan
            return np.asarray(side * np.exp(self._ask("logpdf", f) - self.log_prob(y, f)))

    def score(self, f: Array) -> Score:
        f = np.asarray(f, dtype=float)
        # tails vary on the scale of the distance from the center, so the step grows with it
        local = self.width + np.abs(f - self.center) / 16.0
        first, second = _STEP_FIRST * local, _STEP_SECOND * local
        here = 2.0 * self._ask("logpdf", f)
        steps = [self._ask("logpdf", f + k * step) for step in (first, second) for k in (1, -1, 2, -2)]
        with np.errstate(invalid="ignore"):  # so far out that SciPy's log density is -inf: nan
            near, far = steps[0] - steps[1], steps[2] - steps[3]
            bend, wide = steps[4] + steps[5] - here, steps[6] + steps[7] - here
            return Score((8.0 * near - far) / (12.0 * first), (16.0 * bend - wide) / (12.0 * second) / second)

    def mean(self, f: Array) -> Array:
        return self._ask("cdf", f)

    def __repr__(self) -> str:
        given = [f"{it!r}" for it in self.dist.args] + [f"{name}={it!r}" for name, it in self.dist.kwds.items()]
        return f"BernoulliDistribution({self.dist.dist.name}({', '.join(given)}))"

    def _ask(self, what: str, f: Array) -> Array:
        with np.errstate(all="ignore"):  # SciPy's formulas may overflow on their way to a correct limit
            return np.asarray(getattr(self.dist, what)(f), dtype=float)

    def _log_side(self, f: Array, side: float) -> Array:
        """log F(f) or log(1 − F(f)), also where the probability underflows but the density does not."""
        out = np.array(self._ask("logcdf" if side > 0 else "logsf", f))
        lost = ~np.isfinite(out)  # −inf, or the logarithm of a probability that SciPy rounds to below zero
        lost[lost] = np.isfinite(self._ask("logpdf", f[lost]))
        if lost.any():
            out[lost] = self._log_tail(f[lost], side)
        return out

    def _log_tail(self, f: Array, side: float) -> Array:
        """log ∫ p(f ∓ u) du over u > 0, in units of the slope of log p, in which it falls like e^−u."""
        slope = np.abs(self.score(f).first)[:, None]
        log_density = self._ask("logpdf", f)
        drop = self._ask("logpdf", f[:, None] - side * _TAIL_NODES / slope) - log_density[:, None]
        terms = np.log(_TAIL_WEIGHTS) + _TAIL_NODES + drop - np.log(slope)
        return np.asarray(log_density + log_sum_exp(terms))


def check_distribution(dist: Any) -> dict[str, float]:
    """Refuse what cannot be the distribution of a threshold, with the reason; return its parameters by name."""
    if isinstance(dist, stats.rv_continuous | stats.rv_discrete):
        raise InputError(f"{dist.name} of scipy.stats has no parameters yet; freeze it by calling it: {dist.name}()")
    if not is_frozen(dist):
        raise InputError(f"a threshold needs a frozen continuous distribution of scipy.stats, not {dist!r}")
    name = dist.dist.name
    if not isinstance(dist.dist, stats.rv_continuous):
        raise InputError(f"{name} is discrete: its distribution function has steps and no slope; use a continuous one")
    values = parameters(dist)
    if any(np.ndim(value) for value in values.values()):
        raise InputError(f"each parameter of {name} must be one number, not {values}")
    if not np.isfinite(dist.support()).any():
        _check_density(dist, name)
        return values
    low, high = dist.support()
    raise InputError(
        f"{name} has density on [{low:g}, {high:g}] only: outside p(y | f) is exactly 0 for one label, its logarithm "
        "-inf, and no Newton step can be made; use a distribution on the whole line"
    )


def _check_density(dist: Any, name: str) -> None:
    quartiles = dist.ppf([0.25, 0.5, 0.75])
    reach = 5.0 * (quartiles[2] - quartiles[0])
    points = np.array([quartiles[1] - reach, *quartiles, quartiles[1] + reach])
    with np.errstate(all="ignore"):
        values = np.array([dist.logpdf(points), dist.logcdf(points), dist.logsf(points)])
    if not (np.isfinite(points).all() and np.isfinite(values).all()):
        raise InputError(
            f"{name} with {parameters(dist)} has no usable density: at {points.round(3).tolist()} its log density is "
            f"{values[0].round(3).tolist()} and the log probabilities of the two sides {values[1:].round(3).tolist()}"
        )


def is_frozen(choice: object) -> bool:
    """Whether this is a frozen univariate distribution of SciPy."""
    return isinstance(choice, stats.distributions.rv_frozen)


def parameters(dist: Any) -> dict[str, float]:
    """Shape parameters, loc and scale of a frozen distribution, by name."""
    shapes = dist.dist.shapes.split(", ") if dist.dist.shapes else []
    given = dict(zip([*shapes, "loc", "scale"], dist.args, strict=False))
    values: dict[str, float] = {"loc": 0.0, "scale": 1.0} | given | dist.kwds
    return values


_CLOSED: dict[type, type[Likelihood]] = {
    type(stats.norm): BernoulliProbit,
    type(stats.logistic): BernoulliLogit,
    type(stats.cauchy): BernoulliCauchit,
    type(stats.gumbel_l): BernoulliCloglog,
    type(stats.gumbel_r): BernoulliLoglog,
}


def from_scipy(dist: Any) -> Likelihood:
    """The likelihood of a frozen distribution: in closed form if there is one, else by SciPy's functions.

    Examples
    --------
    >>> from scipy import stats
    >>> from_scipy(stats.norm(loc=1.0))
    LocationScale(BernoulliProbit(), loc=1.0, scale=1.0)
    >>> from_scipy(stats.cauchy())
    BernoulliCauchit()
    """
    values = check_distribution(dist)
    closed = _CLOSED.get(type(dist.dist))
    if closed is None:
        return BernoulliDistribution(dist)
    standard = closed()
    if values["loc"] == 0 and values["scale"] == 1:
        return standard
    return LocationScale(standard, values["loc"], values["scale"])
