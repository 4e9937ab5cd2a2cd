"""Priors of the free weights: what a user gives in data units, or what is learnt, in the coordinates of a fit.

Notation
--------
====  ========================================================================  =======
u     weight vector of standardized columns                                     (D,)
w     the same in data units, w = axesᵀu                                        (D,)
x     free weights: J stacked vectors (see `design`)                            (M,)
s     prior scales of coefficients of standardized columns                      (d,)
τ     their precisions, s⁻²                                                     (d,)
====  ========================================================================  =======
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import gammaln

from credibly.data.columns import Columns
from credibly.errors import NotPositiveDefinite, SingularPriorError
from credibly.inference.gaussian import Expected, Gaussian
from credibly.inference.linear.design import ClassMap, Design, Standardization
from credibly.model.centred_prior import CentredNormal, IndependentPrior
from credibly.model.priors import Normal, StudentT, WeightShape, one_vector_scales
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.averages import Transition, averaged_expansion
from credibly.numerics.linalg import PSD, Roots, block_diagonal, from_root

INTERCEPT_SCALE = 10.0  # of the intercept at the column means, under learnt priors: a log odds of 10 is no surprise

BESIDE_COLUMNS = (
    "This prior, in the units of the data, is numerically singular beside these columns ({}) Some column's mean is "
    "huge against its spread, or its unit against the prior's scale: centre and scale the columns, or use "
    'prior="empirical", which does not depend on units.'
)


class PriorDensity(Protocol):
    """What inference asks of a prior over the free weights; derivatives are of minus the log density."""

    @property
    def mean(self) -> Array:
        """Where searches start."""

    @property
    def log_concave(self) -> bool:
        """Whether `hessian` is positive definite everywhere."""

    def logpdf(self, x: Array, /) -> Array:
        """Log density at x."""

    def sample(self, rng: np.random.Generator, size: int, /) -> Array:
        """`size` draws, (size, M)."""

    def gradient(self, x: Array, /) -> Array:
        """First derivative."""

    def hessian(self, x: Array, /) -> Array:
        """Second derivatives."""

    def hessian_roots(self, x: Array, /) -> Roots:
        """The same, with all digits of its small directions."""

    def stand_in(self, x: Array, /) -> Array:
        """A positive definite matrix to use where `hessian` is not."""

    def expected(self, q: Gaussian, /) -> Expected:
        """Averages over q."""


@dataclass(frozen=True)
class IndependentStudent:
    r"""Every weight Student-t in data units, as a density of the free weights.

    .. math:: p(w) = \prod_j t_ν(w_j / s_j) / s_j, \qquad -\log t_ν(z) = \tfrac{ν + 1}{2} \log(1 + z^2/ν) + …

    Not log-concave: beyond :math:`s\sqrt{ν}` the curvature is negative, and that of the Gaussian with the same gradient
    takes its place.

    Parameters
    ----------
    df : float
    scale : (M,) array
    axes : (M, M) array
        Rows are the unit vectors of the coordinates x in data units.
    log_volume : float
        log |det dw/dx|.

    Examples
    --------
    >>> prior = IndependentStudent(1.0, np.array([2.0]), np.eye(1), 0.0)
    >>> round(float(np.exp(prior.logpdf(np.array([2.0])))) * 4 * np.pi, 12)  # the Cauchy density 1 / (2π(1 + 1))
    1.0
    """

    df: float
    scale: Array
    axes: Array
    log_volume: float

    @property
    def mean(self) -> Array:
        """The centre of the density, where searches start."""
        return np.zeros(len(self.scale))

    @property
    def log_concave(self) -> bool:
        """A Student-t density never is."""
        return False

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of the free weights, (size, M)."""
        w = self.scale * rng.standard_t(self.df, (size, len(self.scale)))
        return np.asarray(np.linalg.solve(self.axes.T, w.T).T, dtype=float)

    def logpdf(self, x: Array) -> Array:
        """Log density of the free weights, (M,) or (size, M)."""
        z = (x @ self.axes) / self.scale
        return np.asarray((self._expand(z, z)[0] - np.log(self.scale)).sum(axis=-1) + self.log_volume)

    def gradient(self, x: Array) -> Array:
        """Gradient of minus the log density, (M,) or (size, M)."""
        w = x @ self.axes
        return np.asarray(((self.df + 1) * w / self._spread(w)) @ self.axes.T)

    def hessian(self, x: Array) -> Array:
        """Hessian of minus the log density; indefinite where a weight is far out."""
        return self._mapped(self._curvature(x @ self.axes))

    def hessian_roots(self, x: Array) -> Roots:
        """The same by roots."""
        return Roots.of_diagonal(self.axes, self._curvature(x @ self.axes))

    def stand_in(self, x: Array) -> Array:
        """Hessian of the Gaussian that has the same gradient: always positive."""
        return self._mapped((self.df + 1) / self._spread(x @ self.axes))

    def expected(self, q: Gaussian) -> Expected:
        """Averages over q: one average for every weight, in units of its scale."""
        m, v, s = q.mean @ self.axes, ((q.root @ self.axes) ** 2).sum(axis=0), self.scale
        turn = Transition(0.0, float(np.sqrt(self.df)), 1)  # log t has its singularities at ±i√ν
        value, gradient, curvature = averaged_expansion(self._expand, turn, np.zeros_like(m), m / s, v / s**2)
        return Expected(
            float(np.log(s).sum() - value.sum()) - self.log_volume,
            np.asarray(self.axes @ (-gradient / s)),
            self._mapped(curvature / s**2),
            Roots.of_diagonal(self.axes, curvature / s**2),
        )

    def _expand(self, y: Array, z: Array) -> tuple[Array, Array, Array]:
        """log t_ν(z), its gradient and its curvature; y has no meaning here."""
        df, half = self.df, (self.df + 1) / 2
        constant = gammaln(half) - gammaln(df / 2) - 0.5 * np.log(df * np.pi)
        spread = df + z**2
        return constant - half * np.log1p(z**2 / df), -(df + 1) * z / spread, (df + 1) * (df - z**2) / spread**2

    def _spread(self, w: Array) -> Array:
        return np.asarray(self.df * self.scale**2 + w**2)

    def _curvature(self, w: Array) -> Array:
        return (self.df + 1) * (self.df * self.scale**2 - w**2) / self._spread(w) ** 2

    def _mapped(self, diagonal: Array) -> Array:
        return np.asarray((self.axes * diagonal) @ self.axes.T)


# --- priors that a user gives -------------------------------------------------------------------------------


class FreePrior(NamedTuple):
    """A prior as inference uses it."""

    free: PriorDensity  # of the free weights
    shared: Gaussian | None  # of the mean over classes, times √K, where only contrasts are free
    resolved: Normal | StudentT  # in data units, as it was used


def treats_classes_alike(prior: object, shape: WeightShape) -> bool:
    """Whether classes may be exchanged, and turned into contrasts, without a change of the prior."""
    if not isinstance(prior, Normal):
        return not isinstance(prior, StudentT)
    given = [np.atleast_1d(np.asarray(it)) for it in (prior.mean, prior.cov) if it is not None]
    return all(len(it) <= shape.per_output for it in given)


def given_prior(prior: Normal | StudentT, design: Design, shape: WeightShape) -> FreePrior:
    """A prior in data units, or on standardized columns where it says so, as a density of the free weights."""
    if isinstance(prior, StudentT):
        return FreePrior(_student(prior, design, shape), None, prior)
    prior = in_data_units(prior, design.columns, shape)
    if isinstance(prior, CentredNormal):
        return _independent(prior, design, shape)
    moments, standard, K = prior.moments(shape), design.standardization, shape.n_outputs
    resolved = Normal(mean=moments.mean, cov=moments.cov)
    axes = standard.to_data(np.eye(shape.per_output))
    try:
        if design.classes.identity:
            mean = standard.from_data(moments.mean.reshape(K, -1)).reshape(-1)
            whole = Gaussian.from_mapped_moments(mean, moments.cov, block_diagonal(axes, K), "the prior")
            return FreePrior(whole, None, resolved)
        D = shape.per_output
        mean, cov = standard.from_data(moments.mean[:D]), moments.cov[:D, :D]
        return _contrasted(Gaussian.from_mapped_moments(mean, cov, axes, "the prior"), design.classes, resolved)
    except NotPositiveDefinite as error:
        raise SingularPriorError(BESIDE_COLUMNS.format(error)) from error


def in_data_units(prior: Normal, columns: Columns, shape: WeightShape) -> Normal:
    """A normal prior in data units, whatever units it was given in."""
    if not prior.standardized:
        return prior
    scale = one_vector_scales(prior.scale, prior.intercept_scale, shape)[: shape.n_features]
    return CentredNormal(scale / columns.scale, prior.intercept_scale, columns.mean)


def _student(prior: StudentT, design: Design, shape: WeightShape) -> IndependentStudent:
    standard, columns = design.standardization, design.columns
    axes, log_volume = standard.to_data(np.eye(shape.per_output)), -standard.log_volume
    if prior.standardized:  # the prior's own units: standardized columns, the intercept at their means
        units = Standardization(columns.mean, columns.scale, standard.intercept)
        axes, log_volume = units.from_data(axes), log_volume + units.log_volume
    K = shape.n_outputs
    return IndependentStudent(prior.degrees, prior.scales(shape), block_diagonal(axes, K), K * log_volume)


def _independent(prior: CentredNormal, design: Design, shape: WeightShape) -> FreePrior:
    one, standard = IndependentPrior.of(prior, shape), design.standardization
    precision = from_root(one.whiten(standard.to_data(np.eye(shape.per_output))))
    mean = standard.from_data(one.mean)
    if design.classes.identity:
        factor = np.asfortranarray(block_diagonal(precision.factor, shape.n_outputs))
        return FreePrior(Gaussian(mean.reshape(-1), PSD(factor)), None, prior)
    return _contrasted(Gaussian(mean[0], precision), design.classes, prior)


def _contrasted(one: Gaussian, classes: ClassMap, resolved: Normal) -> FreePrior:
    """The prior that K classes share, of their contrasts and of their mean."""
    factor = np.sqrt(classes.precision) * block_diagonal(one.precision.factor, classes.n_free)
    free = Gaussian(np.zeros(len(factor)), PSD(np.asfortranarray(factor)))
    return FreePrior(free, Gaussian(np.sqrt(classes.n_classes) * one.mean, one.precision), resolved)


# --- priors whose scales are learnt -------------------------------------------------------------------------


@dataclass(frozen=True)
class ScaledPriors:
    """Normal priors on the coefficients of standardized columns, by their log scales θ.

    Parameters
    ----------
    design : Design
    group : (d,) int array
        Which scale each column has: all zeros for one common scale, 0 … d-1 for one each.
    unit : float
        Of coefficients: scales are multiples of it.
    intercept_scale : float
        Of the intercept at the column means.
    """

    design: Design
    group: Codes
    unit: float = 1.0
    intercept_scale: float = INTERCEPT_SCALE

    @property
    def n_scales(self) -> int:
        """Number of scales to learn."""
        return int(self.group.max()) + 1 if self.group.size else 0

    def column_precision(self, theta: Array) -> Array:
        """Prior precision of every coefficient of a free vector, (d,)."""
        return np.asarray((np.exp(-2 * theta) / self.unit**2)[self.group]) * self.design.classes.precision

    def at(self, theta: Array) -> Gaussian:
        """The prior of the free weights at log scales θ."""
        precision = np.diag(self.column_precision(theta))
        standard = self.design.standardization
        if standard.intercept:  # the intercept at the column means is a combination of the coordinates
            row = standard.rows_from_data(np.append(self.design.columns.mean, 1.0))
            share = self.design.classes.precision / self.intercept_scale**2
            precision = np.pad(precision, (0, 1)) + share * np.outer(row, row)
        stacked = block_diagonal(precision, self.design.classes.n_free)
        return Gaussian(np.zeros(len(stacked)), PSD.of(stacked, "the prior precision"))

    def shared(self, theta: Array) -> Gaussian | None:
        """The prior of the mean over classes, times √K."""
        classes = self.design.classes
        if classes.identity:
            return None
        free, D = self.at(theta), self.design.standardization.size
        return Gaussian(np.zeros(D), PSD(np.asfortranarray(free.precision.factor[:D, :D] / np.sqrt(classes.precision))))

    def columns_of(self, x: Array) -> Array:
        """The coefficients' part of a flat vector of free weights, (J, d)."""
        return x.reshape(self.design.classes.n_free, -1)[:, : self.group.size]

    def growth(self, x: Array, other: Array) -> float:
        """By how much, in logarithms, coefficients are larger at one point than at another."""
        return float(0.5 * np.log((self.columns_of(other) ** 2).sum() / (self.columns_of(x) ** 2).sum()))

    def resolved(self, theta: Array) -> Normal:
        """The prior in data units: coefficients s/spread, the intercept at the column means with its own scale."""
        columns = self.design.columns
        scale = self.unit * np.exp(theta)[self.group] / columns.scale
        if not self.design.standardization.intercept:
            return Normal(mean=np.zeros(len(scale)), cov=np.diag(scale**2))
        root = np.diag(np.append(scale, self.intercept_scale))
        root[-1, :-1] = -scale * columns.mean
        return Normal(mean=np.zeros(len(root)), cov=root @ root.T)
