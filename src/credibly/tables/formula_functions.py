r"""The functions of a formula that learn something from the training table, and what they then do to a column.

What is learnt is a tuple of numbers, so that it can be saved as it is. Each output cell depends on its own input cell
and on those numbers alone: no matrix products, whose rounding would depend on how many rows come together.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.interpolate import BSpline, CubicSpline

from credibly.errors import TableError
from credibly.numerics.arrays import Array

Learnt = tuple[float, ...]

HIGHEST_DEGREE = 10  # of a polynomial
MOST_KNOTS = 50


@dataclass(frozen=True)
class Transform(ABC):
    """A function of one column with a memory."""

    several: ClassVar[bool] = False  # whether it gives several columns, which then cannot be part of an expression

    @abstractmethod
    def learn(self, x: Array) -> Learnt:
        """What to remember of the training table's values, (n,), none of them missing."""

    @abstractmethod
    def columns(self, x: Array, learnt: Learnt) -> Array:
        """The result for any values: (n,), or (n, k) if there are several columns."""

    def doubt(self, x: Array, learnt: Learnt) -> str:
        """A sentence on values for which the result is doubtful; nothing where it is not."""
        return ""

    def width(self, learnt: Learnt) -> int:
        """How many columns there are."""
        return self.columns(np.zeros(1), learnt).size


@dataclass(frozen=True)
class Centred(Transform):
    """``center(x)``: x minus the mean of the training table."""

    def learn(self, x: Array) -> Learnt:
        return (float(x.mean()),)

    def columns(self, x: Array, learnt: Learnt) -> Array:
        return x - learnt[0]


@dataclass(frozen=True)
class Scaled(Transform):
    """``scale(x)``, ``standardize(x)``: x in standard deviations (divisor n - 1) from its mean."""

    def learn(self, x: Array) -> Learnt:
        _need_different(x, 2)
        return float(x.mean()), float(x.std(ddof=1))

    def columns(self, x: Array, learnt: Learnt) -> Array:
        mean, sd = learnt
        return np.asarray((x - mean) / sd)


@dataclass(frozen=True)
class Polynomial(Transform):
    r"""``poly(x, degree)``: polynomials that are orthogonal and of length one on the training table, as R's ``poly``.

    .. math:: p_{k+1} = (x - \alpha_k)\, p_k - \frac{\nu_k}{\nu_{k-1}}\, p_{k-1}, \qquad
        \alpha_k = \frac{\sum x p_k^2}{\nu_k}, \quad \nu_k = \sum p_k^2

    The columns are :math:`p_k/\sqrt{\nu_k}`, k = 1 … degree. With ``raw=True``: x, x², ….
    """

    degree: int
    raw: bool = False
    several: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_whole("degree", self.degree, 1, HIGHEST_DEGREE)
        if not isinstance(self.raw, bool):
            raise TableError(f"raw must be True or False; got {self.raw!r}.")

    def learn(self, x: Array) -> Learnt:
        _need_different(x, self.degree + 1)
        if self.raw:
            return ()
        alphas: list[float] = []
        norms = [float(len(x))]
        before, now = np.zeros_like(x), np.ones_like(x)
        for k in range(self.degree):
            alphas.append(float((x * now**2).sum()) / norms[k])
            ratio = norms[k] / norms[k - 1] if k else 0.0
            before, now = now, (x - alphas[k]) * now - ratio * before
            norms.append(float((now**2).sum()))
        return (*alphas, *norms)

    def columns(self, x: Array, learnt: Learnt) -> Array:
        if self.raw:
            return np.stack([x**k for k in range(1, self.degree + 1)], axis=1)
        alphas, norms = learnt[: self.degree], learnt[self.degree :]
        out = []
        before, now = np.zeros_like(x), np.ones_like(x)
        for k in range(self.degree):
            ratio = norms[k] / norms[k - 1] if k else 0.0
            before, now = now, (x - alphas[k]) * now - ratio * before
            out.append(now / np.sqrt(norms[k + 1]))
        return np.stack(out, axis=1)


@dataclass(frozen=True)
class BSplines(Transform):
    """``bs(x, df)``: B-splines with knots at quantiles, as R's and patsy's ``bs`` without intercept.

    `df` columns have `df` - `degree` inner knots, or give the inner `knots` themselves. Outside the training range the
    outer polynomials are continued, with a warning: they run away fast (``ns`` continues straight).
    """

    df: int | None = None
    knots: tuple[float, ...] | None = None
    degree: int = 3
    several: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_whole("degree", self.degree, 1, 5)
        _check_knots(self.df, self.knots, self.degree)

    def learn(self, x: Array) -> Learnt:
        inner = _inner_knots(x, (self.df or self.degree) - self.degree, self.knots)
        return (*[float(x.min())] * (self.degree + 1), *inner, *[float(x.max())] * (self.degree + 1))

    def columns(self, x: Array, learnt: Learnt) -> Array:
        weights = np.eye(len(learnt) - self.degree - 1)[:, 1:]  # without the first, which the intercept makes up for
        return np.asarray(BSpline(np.array(learnt), weights, self.degree)(x, extrapolate=True))

    def doubt(self, x: Array, learnt: Learnt) -> str:
        low, high = learnt[0], learnt[-1]
        outside = int(((x < low) | (x > high)).sum())
        if not outside:
            return ""
        return (
            f"{outside} of {len(x)} values are outside the training table's range, {low:.6g} to {high:.6g}; the outer "
            "polynomials are continued there, and run away fast. ns(...) would continue along straight lines."
        )

    def width(self, learnt: Learnt) -> int:
        return len(learnt) - self.degree - 2


@dataclass(frozen=True)
class NaturalSpline(Transform):
    """``ns(x, df)``: natural cubic splines, which continue along straight lines outside the training range.

    `df` + 1 knots at quantiles from the smallest to the largest value, or inner `knots` given. Column j is the spline
    that is one at knot j and zero at all others; the first knot has no column, so a weight is the height of the curve
    at its knot above the curve at the first. With an intercept they span what R's ``ns`` spans.
    """

    df: int | None = None
    knots: tuple[float, ...] | None = None
    several: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.df is None and self.knots is None:
            raise TableError("ns needs the number of its columns, as in ns(age, 4), or its inner knots.")
        _check_knots(self.df, self.knots, 1)

    def learn(self, x: Array) -> Learnt:
        inner = _inner_knots(x, (self.df or 1) - 1, self.knots)
        return (float(x.min()), *inner, float(x.max()))

    def columns(self, x: Array, learnt: Learnt) -> Array:
        knots = np.array(learnt)
        spline = CubicSpline(knots, np.eye(len(knots))[:, 1:], bc_type="natural")
        slope = spline.derivative()
        inside = np.minimum(np.maximum(x, knots[0]), knots[-1])
        return np.asarray(spline(inside) + (x - inside)[:, None] * slope(inside))

    def width(self, learnt: Learnt) -> int:
        return len(learnt) - 1


TRANSFORMS: dict[str, type[Transform]] = {
    "center": Centred,
    "scale": Scaled,
    "standardize": Scaled,
    "poly": Polynomial,
    "bs": BSplines,
    "ns": NaturalSpline,
}


# --- Checks ---------------------------------------------------------------------------------------------------------


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise TableError(f"{name} must be a whole number from {low} to {high}; got {value!r}.")


def _check_knots(df: object, knots: object, fewest: int) -> None:
    if df is not None and knots is not None:
        raise TableError("Give df or knots, not both: the number of columns follows from the knots.")
    if df is not None:
        _check_whole("df", df, fewest, MOST_KNOTS)
    if knots is not None and not (isinstance(knots, tuple) and len(knots) <= MOST_KNOTS):
        raise TableError(f"knots must be a list of at most {MOST_KNOTS} numbers, as in knots=[20, 30]; got {knots!r}.")


def _inner_knots(x: Array, count: int, given: tuple[float, ...] | None) -> list[float]:
    """Quantiles, or what was given; between the extremes, each larger than the one before."""
    _need_different(x, 2)
    found = np.quantile(x, np.linspace(0, 1, count + 2)[1:-1]) if given is None else np.array(given, dtype=float)
    low, high = x.min(), x.max()
    if (np.diff([low, *found, high]) > 0).all():
        return [float(knot) for knot in found]
    if given is not None:
        raise TableError(f"knots must increase and lie between {low:.6g} and {high:.6g}; got {list(given)}.")
    raise TableError(
        "Knots at quantiles coincide, because many values are equal. Ask for fewer columns, or name knots."
    )


def _need_different(x: Array, count: int) -> None:
    different = len(np.unique(x))
    if different < count:
        raise TableError(f"At least {count} different values are needed; the table has {different}.")
