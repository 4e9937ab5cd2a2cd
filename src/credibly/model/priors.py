"""p(w): what is believed about the weights before the data.

Layout of weights: one vector per class (one in all for two classes), slopes first, intercept last; K vectors are
stacked class by class. All numbers are in the units of the data, or of standardized columns where a prior says so.
"""

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError, NotPositiveDefinite
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD, block_diagonal

DEFAULT_SCALE = 2.5
DEFAULT_INTERCEPT_SCALE = 10.0


class WeightShape(NamedTuple):
    """How many weights there are: K vectors of d slopes and perhaps an intercept."""

    n_features: int
    n_outputs: int
    intercept: bool

    @property
    def per_output(self) -> int:
        """Length of one weight vector."""
        return self.n_features + self.intercept

    @property
    def total(self) -> int:
        """Number of weights in all."""
        return self.n_outputs * self.per_output


class Moments(NamedTuple):
    """Mean and covariance of all weights, flattened class by class."""

    mean: Array  # (M,)
    cov: Array  # (M, M)


class WeightPrior:
    """What a user believes about weights: arguments as scikit-learn reads and sets them, such as ``prior__scale``.

    Examples
    --------
    >>> StudentT(df=3).set_params(scale=1.0).get_params()
    {'df': 3, 'scale': 1.0, 'intercept_scale': 10.0, 'standardized': False}
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments by name; `deep` has no meaning here."""
        return {name: getattr(self, name) for name in _arguments(type(self))}

    def set_params(self, **arguments: Any) -> Self:
        """Change some of the arguments, in place."""
        known = _arguments(type(self))
        for name, value in arguments.items():
            if name not in known:
                raise InputError(
                    f"{type(self).__name__} has no argument {name!r}; it has {', '.join(known) or 'none'}."
                )
            setattr(self, name, value)
        return self

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _same_arguments(self, other)

    __hash__ = None  # type: ignore[assignment]  # may hold arrays


@dataclass(eq=False, repr=False)
class Normal(WeightPrior):
    r"""A Gaussian prior on the weights, in the units of the data.

    .. math:: p(w) = N(w \mid m_0, S_0)

    Either independent weights of mean zero, by `scale` and `intercept_scale`, or any mean and covariance. The
    intercept never shares the slopes' scale.

    Parameters
    ----------
    scale : float or (d,) array
        Standard deviation of every slope, or one for each column.
    intercept_scale : float
        Standard deviation of the intercept.
    mean : array, optional
        Prior mean: of the slopes (d,), of slopes and intercept (d+1,), or of all K classes, K·(d+1).
    cov : array, optional
        Prior covariance of the same three sizes; d×d leaves the intercept to `intercept_scale`; what is given for
        one weight vector is shared by all K classes. Takes the place of `scale`.
    standardized : bool
        Whether `scale` is for standardized columns, and `intercept_scale` for the intercept at their means, instead of
        data units. `mean` and `cov` are always in data units, and do not go together with it.

    References
    ----------
    PRML eq. 4.140.

    Examples
    --------
    >>> Normal(scale=2.5)
    Normal(scale=2.5, intercept_scale=10.0)
    >>> Normal(mean=[1.0], cov=[[4.0]]).moments(WeightShape(1, 1, True)).cov
    array([[  4.,   0.],
           [  0., 100.]])
    """

    scale: ArrayLike = DEFAULT_SCALE
    intercept_scale: float = DEFAULT_INTERCEPT_SCALE
    _: KW_ONLY
    mean: ArrayLike | None = None
    cov: ArrayLike | None = None
    standardized: bool = False

    def __repr__(self) -> str:
        if self.cov is not None or self.mean is not None:
            size = np.size(self.mean) if self.mean is not None else len(np.atleast_1d(np.asarray(self.cov)))
            return f"Normal(mean=…, cov=…, {size} weights)"
        more = ", standardized=True" if self.standardized else ""
        return f"Normal(scale={_shown(self.scale)}, intercept_scale={self.intercept_scale}{more})"

    def moments(self, shape: WeightShape) -> Moments:
        """Mean and covariance of all weights of a model of this shape.

        Raises
        ------
        InputError
            If a size does not fit, or the covariance is not positive definite; the message says which sizes do.
        """
        return Moments(self.full_mean(shape), self._full_cov(shape))

    def full_mean(self, shape: WeightShape) -> Array:
        """The mean of all weights of a model of this shape, (M,)."""
        if self.mean is None:
            return np.zeros(shape.total)
        mean = finite(self.mean, "prior mean")
        if mean.shape == (shape.total,):
            return mean
        if mean.shape == (shape.n_features,):
            mean = np.append(mean, np.zeros(shape.per_output - shape.n_features))
        if mean.shape != (shape.per_output,):
            raise InputError(f"prior mean has shape {np.shape(self.mean)}; {_sizes(shape, '{0}', ' or ')}.")
        return np.tile(mean, shape.n_outputs)

    def _full_cov(self, shape: WeightShape) -> Array:
        if self.cov is None:
            return block_diagonal(
                np.diag(one_vector_scales(self.scale, self.intercept_scale, shape) ** 2), shape.n_outputs
            )
        if np.ndim(self.scale) > 0 or self.scale != DEFAULT_SCALE:
            raise InputError(f"Normal takes either scale or cov; got both (scale={self.scale!r}).")
        cov = np.atleast_2d(finite(self.cov, "prior covariance"))
        check_definite(cov, "prior covariance")
        if cov.shape == (shape.n_features, shape.n_features) and shape.intercept:
            slopes, cov = cov, np.zeros((shape.per_output, shape.per_output))
            cov[:-1, :-1], cov[-1, -1] = slopes, positive(self.intercept_scale, "intercept_scale") ** 2
        if cov.shape == (shape.per_output, shape.per_output):
            return block_diagonal(cov, shape.n_outputs)
        if cov.shape == (shape.total, shape.total):
            return cov
        raise InputError(f"prior covariance has shape {np.shape(self.cov)}; {_sizes(shape, '{0}×{0}', ' or ')}.")


@dataclass(eq=False, repr=False)
class StudentT(WeightPrior):
    r"""Independent Student-t beliefs about the weights, in the units of the data: large weights are rare, not excluded.

    .. math:: p(w_j) = t_ν(w_j / s_j) / s_j

    `StudentT(df=7, scale=2.5)` is the weakly informative default of Gelman et al. (2008) for columns scaled to a
    standard deviation of about one half to one; `df=1` is the Cauchy prior.

    Parameters
    ----------
    df : float
        Degrees of freedom, positive.
    scale : float or (d,) array
        Scale of every slope, or one for each column.
    intercept_scale : float
        Scale of the intercept.
    standardized : bool
        Whether scales are for standardized columns, with the intercept at their means, instead of data units.

    References
    ----------
    Gelman, Jakulin, Pittau & Su 2008.

    Examples
    --------
    >>> StudentT(df=1, scale=2.5)
    StudentT(df=1, scale=2.5, intercept_scale=10.0)
    >>> StudentT().scales(WeightShape(2, 1, True))
    array([ 2.5,  2.5, 10. ])
    """

    df: float = 7.0
    scale: ArrayLike = DEFAULT_SCALE
    intercept_scale: float = DEFAULT_INTERCEPT_SCALE
    _: KW_ONLY
    standardized: bool = False

    def __repr__(self) -> str:
        more = ", standardized=True" if self.standardized else ""
        return f"StudentT(df={self.df}, scale={_shown(self.scale)}, intercept_scale={self.intercept_scale}{more})"

    @property
    def degrees(self) -> float:
        """The degrees of freedom, checked."""
        df = positive(self.df, "df of StudentT")
        if df.ndim:
            raise InputError(f"df of StudentT must be one number; got {self.df!r}.")
        return float(df)

    def scales(self, shape: WeightShape) -> Array:
        """The scale of every weight of a model of this shape, (M,)."""
        return np.tile(one_vector_scales(self.scale, self.intercept_scale, shape), shape.n_outputs)


@dataclass(eq=False, repr=False)
class Jeffreys(WeightPrior):
    r"""The Jeffreys prior of the likelihood used: Firth's bias reduction for the logit.

    .. math:: p(w) \propto \sqrt{\det I(w)}

    with the Fisher information I. Estimates are finite on separated data and hardly moved elsewhere. It does not depend
    on the units of the columns, and it is no distribution one could integrate a likelihood over in general: there is no
    evidence.

    References
    ----------
    Firth 1993; Heinze & Schemper 2002.

    Examples
    --------
    >>> Jeffreys()
    Jeffreys()
    """

    def __repr__(self) -> str:
        return "Jeffreys()"

    def __hash__(self) -> int:  # type: ignore[override]  # others may hold arrays
        return hash(Jeffreys)  # without arguments all are the same


@dataclass(frozen=True)
class Beta:
    r"""Beliefs about a probability: p(u) ∝ u^(a-1) (1-u)^(b-1).

    Examples
    --------
    >>> Beta(1, 9)
    Beta(a=1, b=9)
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            positive(getattr(self, name), f"{name} of Beta")


def one_vector_scales(scale: ArrayLike, intercept_scale: float, shape: WeightShape) -> Array:
    """The scales of one weight vector, slopes first, from one number or one per column."""
    given = positive(scale, "prior scale")
    if given.ndim > 1 or (given.ndim == 1 and given.shape != (shape.n_features,)):
        raise InputError(
            f"prior scale has shape {given.shape}; expected one number or one per column, ({shape.n_features},)."
        )
    scales = np.broadcast_to(given, (shape.n_features,))
    if not shape.intercept:
        return np.array(scales)
    return np.append(scales, positive(intercept_scale, "intercept_scale"))


def _shown(scale: ArrayLike) -> Any:
    return scale if np.ndim(scale) == 0 else np.asarray(scale).tolist()


def _arguments(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind)]


def _same_arguments(mine: object, yours: object) -> bool:
    pairs = ((getattr(mine, name), getattr(yours, name)) for name in _arguments(type(mine)))
    return all(np.array_equal(np.asarray(a, dtype=object), np.asarray(b, dtype=object)) for a, b in pairs)


def _sizes(shape: WeightShape, form: str, join: str) -> str:
    slopes, one, every = shape.n_features, shape.per_output, shape.total
    meaning = {every: "all classes", one: "slopes and intercept", slopes: "the slopes"}
    return "expected " + join.join(f"{form.format(size)} ({what})" for size, what in meaning.items())


def finite(value: ArrayLike, what: str) -> Array:
    """Numbers that are finite, or an error that names them."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be made of numbers; got {value!r}.") from error
    if not np.isfinite(array).all():
        raise InputError(f"{what} must be finite; got {value!r}.")
    return array


def positive(value: ArrayLike, what: str) -> Array:
    """Numbers that are positive, or an error that names them."""
    array = finite(value, what)
    if not (array > 0).all():
        raise InputError(f"{what} must be positive; got {value!r}.")
    return array


def check_definite(matrix: Array, what: str) -> None:
    """Refuse a matrix that is not square, symmetric and positive definite."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{what} must be a square matrix; got shape {matrix.shape}.")
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0):
        raise InputError(f"{what} must be symmetric; it differs from its transpose.")
    try:
        PSD.of(matrix, what)
    except NotPositiveDefinite as error:
        raise InputError(f"{error} Give every direction a positive variance.") from error
