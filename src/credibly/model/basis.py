"""φ(x): fixed nonlinear functions of the columns, so that a model linear in φ is curved in x.

Gaussian bumps and sigmoidal steps, as scikit-learn transformers. Polynomials, splines and random features
are scikit-learn's own (``PolynomialFeatures``, ``SplineTransformer``, ``RBFSampler``, ``Nystroem``) and take
the same place in a pipeline. φ₀ = 1 is not among the outputs: the model behind has its own intercept.

Notation
--------
======== ============================================= ================
symbol   meaning                                       shape
======== ============================================= ================
X        rows                                          (n, d)
centers  where a bump peaks, or a step is half way up  (m, d)
width    radius of the bumps, one per column           (d,)
slope    steepness of the steps, one per column        (d,)
======== ============================================= ================
"""

from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array

__all__ = ["GaussianBasis", "SigmoidBasis"]


class GaussianBasis(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Bumps around centres: a column per centre, near one at the centre and near zero far from it.

    .. math:: \phi_j(x) = \exp\Bigl(-\tfrac12 \sum_i (x_i - c_{ji})^2 / \mathrm{width}_i^2\Bigr)

    With one width for all columns this is :math:`\exp(-\|x - c_j\|^2 / 2\,\mathrm{width}^2)`. Use it where
    the classes form islands or rings. Far from every centre all outputs vanish, and a model falls back on its
    intercept: it does not extrapolate.

    Parameters
    ----------
    centers : int or (m, d) array, default 10
        How many centres to take from the data, or the centres themselves, (m,) being enough for one column.
        Those from the data are quantiles of the distinct values for one column, and k-means centres of the
        standardised columns for several.
    width : "auto", float or (d,) array, default "auto"
        The radius, in the units of the data, for all columns or for each. "auto" measures each column in its
        own standard deviations and takes the mean distance from a centre to its nearest neighbour, so that
        bumps overlap and the result does not change when a column is shifted or scaled (one centre: one
        standard deviation). A number is not rescaled: put a ``StandardScaler`` before it if units differ.
    random_state : int, RandomState or None, default None
        For the starts of k-means; unused with one column or given centres.

    Attributes
    ----------
    centers_ : (m, d) array
        The centres, in the units of the data.
    width_ : (d,) array
        The radius along each column, in its units.

    Notes
    -----
    Squared distances are sums of squared differences. The expansion ‖x‖² − 2x·c + ‖c‖² would be a matrix
    product, but it cancels when columns lie far from zero: at x ≈ 10⁸ nothing is left of a distance of one.

    References
    ----------
    PRML, eq. 3.4. The width is the global first-nearest-neighbour rule of Moody and Darken (1989).

    Examples
    --------
    >>> import numpy as np
    >>> GaussianBasis(centers=[0.0, 2.0], width=1.0).fit_transform(np.array([[0.0], [1.0], [2.0]]))
    array([[1.        , 0.13533528],
           [0.60653066, 0.60653066],
           [0.13533528, 1.        ]])
    """

    def __init__(
        self, *, centers: int | ArrayLike = 10, width: str | ArrayLike = "auto", random_state: Any = None
    ) -> None:
        self.centers = centers
        self.width = width
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Place the centres and measure the width.

        Parameters
        ----------
        X : (n, d) array or frame
            The rows.
        y : ignored

        Returns
        -------
        GaussianBasis
            Itself.
        """
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        columns = _standardisation(X)
        if _is_count(self.centers):
            self.centers_ = self._centers_from(X, columns)
        else:
            self.centers_ = _given_centers(self.centers, X.shape[1])
        if _is_auto(self.width, "width"):
            self.width_ = columns.std * _nearest_neighbour_distance(self.centers_, columns.std)
        else:
            self.width_ = _per_column(self.width, X.shape[1], "width")
        return self

    def _centers_from(self, X: Array, columns: "_Standardisation") -> Array:
        count = _checked_count(self.centers, X)
        if X.shape[1] == 1:
            return _quantile_centers(X[:, 0], count)[:, None]
        from sklearn.cluster import KMeans

        found = KMeans(count, random_state=self.random_state).fit((X - columns.mean) / columns.std)
        return np.asarray(found.cluster_centers_ * columns.std + columns.mean)

    def transform(self, X: Any) -> Array:
        """Evaluate every bump at every row.

        Parameters
        ----------
        X : (n, d) array or frame
            The rows.

        Returns
        -------
        (n, m) array
            One column per centre, in the order of ``centers_``.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.exp(-0.5 * _distances(X, self.centers_, self.width_) ** 2)

    @property
    def _n_features_out(self) -> int:
        return len(self.centers_)


class SigmoidBasis(TransformerMixin, BaseEstimator):
    r"""Smooth steps along each column: from zero to one, half way up at the centre.

    .. math:: \phi_{ij}(x) = \sigma(\mathrm{slope}_i\,(x_i - c_{ji})), \qquad \sigma(a) = 1/(1 + e^{-a})

    Every column is treated by itself, so there are d·m outputs: column by column, centre by centre. Weighted
    sums of steps follow any smooth curve of one column and are level beyond the outermost centres: calm when
    extrapolating. What two columns do only together they cannot follow.

    Parameters
    ----------
    centers : int or (m, d) array, default 10
        How many centres per column to take from the data (quantiles of the column's distinct values; a column
        with fewer values than that, such as a dummy, has one centre per value), or the centres: column i of
        the array belongs to column i of the data; (m,) is enough for one column.
    slope : "auto", float or (d,) array, default "auto"
        The steepness, per unit of the data, for all columns or for each; it is 1/s in the notation of PRML.
        "auto" is one over the mean distance from a centre of the column to its nearest neighbour, so that
        steps overlap and the result does not change when a column is shifted or scaled (one centre: one over
        the standard deviation).

    Attributes
    ----------
    centers_ : list of d arrays
        The centres of each column, in its units.
    slope_ : (d,) array
        The steepness along each column.

    References
    ----------
    PRML, eq. 3.5 and 3.6.

    Examples
    --------
    >>> import numpy as np
    >>> SigmoidBasis(centers=[0.0, 2.0], slope=1.0).fit_transform(np.array([[0.0], [1.0], [2.0]]))
    array([[0.5       , 0.11920292],
           [0.73105858, 0.26894142],
           [0.88079708, 0.5       ]])
    """

    def __init__(self, *, centers: int | ArrayLike = 10, slope: str | ArrayLike = "auto") -> None:
        self.centers = centers
        self.slope = slope

    def fit(self, X: Any, y: Any = None) -> Self:
        """Place the centres and measure the slopes.

        Parameters
        ----------
        X : (n, d) array or frame
            The rows.
        y : ignored

        Returns
        -------
        SigmoidBasis
            Itself.
        """
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        if _is_count(self.centers):
            count = _checked_count(self.centers, X)
            self.centers_ = [_quantile_centers(column, count) for column in X.T]
        else:
            self.centers_ = list(_given_centers(self.centers, X.shape[1]).T)
        if _is_auto(self.slope, "slope"):
            std = _standardisation(X).std
            columns = zip(self.centers_, std, strict=True)
            spacing = [_nearest_neighbour_distance(centers[:, None], unit) for centers, unit in columns]
            self.slope_ = 1 / (std * np.array(spacing))
        else:
            self.slope_ = _per_column(self.slope, X.shape[1], "slope")
        return self

    def transform(self, X: Any) -> Array:
        """Evaluate every step at every row.

        Parameters
        ----------
        X : (n, d) array or frame
            The rows.

        Returns
        -------
        (n, d·m) array
            The steps of the first column, then those of the second, and so on.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        columns = zip(X.T, self.centers_, self.slope_, strict=True)
        return np.hstack([expit(slope * (x[:, None] - centers)) for x, centers, slope in columns])

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Names of the outputs: ``<column>_sigmoid_<centre>``.

        Parameters
        ----------
        input_features : array of str, optional
            Names of the columns, if the model was fitted without any.

        Returns
        -------
        (d·m,) array of str
            In the order of the outputs.
        """
        check_is_fitted(self)
        names = self._column_names() if input_features is None else [str(name) for name in input_features]
        if len(names) != self.n_features_in_:
            raise InputError(
                f"input_features should have length equal to the number of columns fitted, "
                f"{self.n_features_in_}, and has {len(names)}."
            )
        if input_features is not None and names != self._column_names(names):
            raise InputError("input_features is not equal to feature_names_in_, the names seen when fitting.")
        columns = zip(names, self.centers_, strict=True)
        return np.array([f"{name}_sigmoid_{j}" for name, centers in columns for j in range(len(centers))], object)

    def _column_names(self, otherwise: list[str] | None = None) -> list[str]:
        unnamed = otherwise or [f"x{i}" for i in range(self.n_features_in_)]
        return list(getattr(self, "feature_names_in_", unnamed))


class _Standardisation(NamedTuple):
    """Where each column lies and how wide it is; a constant column counts as one wide."""

    mean: Array  # (d,)
    std: Array  # (d,)


def _standardisation(X: Array) -> _Standardisation:
    largest = np.abs(X).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # the square of 1e200 overflows, that of 1e-300 vanishes
    std = (X / unit).std(axis=0) * unit
    return _Standardisation((X / unit).mean(axis=0) * unit, np.where(np.ptp(X, axis=0) > 0, std, 1.0))


def _is_count(centers: object) -> bool:
    return np.ndim(centers) == 0  # type: ignore[arg-type]


def _checked_count(centers: Any, X: Array) -> int:
    if isinstance(centers, bool) or not isinstance(centers, Integral) or int(centers) < 1:
        raise InputError(f"centers must be a whole number from 1, or an array of centres; got {centers!r}.")
    count = int(centers)
    if (distinct := _count_distinct_rows(X, count)) < count:
        raise InputError(
            f"centers={count} asks for more centres than there are distinct rows ({distinct}); "
            f"lower centers to at most {distinct}, or give the centres themselves."
        )
    return count


def _given_centers(centers: object, d: int) -> Array:
    given = _numbers(centers, "centers")
    if given.ndim == 1 and d == 1:
        given = given[:, None]
    if given.ndim != 2 or given.shape[1] != d or len(given) == 0:
        raise InputError(f"centers has shape {np.shape(given)}; the data have {d} column(s), so (m, {d}) was expected.")
    return given


def _quantile_centers(column: Array, count: int) -> Array:
    """The middles of `count` parts with equally many distinct values each, or of as many parts as values."""
    values = np.unique(column)  # quantiles of tied values would be tied, and their basis functions equal
    count = min(count, len(values))
    return np.quantile(values, (np.arange(count) + 0.5) / count)


def _count_distinct_rows(X: Array, enough: int) -> int:
    """The number of distinct rows, or any number ≥ `enough` once so many are seen."""
    first = len(np.unique(X[: 10 * enough], axis=0))
    return first if first >= enough else len(np.unique(X, axis=0))


def _distances(X: Array, centers: Array, unit: Array) -> Array:
    """Distance of every row to every centre, each column measured in its unit."""
    origin = centers[0]  # differences first: they are exact where a quotient of large numbers is not
    return cdist((X - origin) / unit, (centers - origin) / unit)


def _nearest_neighbour_distance(centers: Array, unit: Array) -> float:
    """Mean over the centres of the distance to the nearest other one; 1 for a single centre."""
    if len(centers) == 1:
        return 1.0
    distance = _distances(centers, centers, unit)
    np.fill_diagonal(distance, np.inf)
    mean = float(distance.min(axis=1).mean())
    if mean == 0:
        raise InputError("all centres coincide with another one, so 'auto' finds no distance; give distinct ones.")
    return mean


def _is_auto(value: object, what: str) -> bool:
    if isinstance(value, str) and value != "auto":
        raise InputError(f"{what} must be 'auto', a positive number, or one per column; got {value!r}.")
    return isinstance(value, str)


def _per_column(value: object, d: int, what: str) -> Array:
    numbers = _numbers(value, what)
    if numbers.shape not in {(), (d,)}:
        raise InputError(f"{what} has shape {numbers.shape}; expected one number, or one per column, ({d},).")
    if not (numbers > 0).all():
        raise InputError(f"{what} must be positive; got {value!r}.")
    return np.broadcast_to(numbers, (d,)).copy()


def _numbers(value: object, what: str) -> Array:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be made of numbers; got {value!r}.") from error
    if not np.isfinite(numbers).all():
        raise InputError(f"{what} must be finite; got {value!r}.")
    return numbers
