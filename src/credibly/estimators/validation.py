"""What comes in from a user, checked once: below the estimators there are only clean arrays and class codes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    column_or_1d,
    validate_data,
)

from credibly.data.columns import Columns, describe
from credibly.data.rows import LARGEST, SMALLEST, Code, MemoryRows, RowPosition, Rows
from credibly.errors import CellTypeError, InputError, NewClassError
from credibly.estimators.containers import (
    ENCODE,
    as_numeric,
    as_table,
    as_vector,
    named,
    note_plain,
    refuse_weight_types,
)
from credibly.estimators.not_in_memory import is_stored, refuse_stored
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.numerics.arrays import AnyArray, Array, Codes, row_blocks
from credibly.numerics.linalg import DesignMatrix, is_sparse
from credibly.numerics.settings import BLOCK_SIZES

FEW_LABELS, LARGEST_LABEL = 1000, 2.0**63
NO_WEIGHT = "sample_weight is zero for every row; give at least one row a positive weight."


class Training(NamedTuple):
    """Rows as models learn from them: a reference to what came, no copy."""

    X: DesignMatrix
    y: AnyArray
    weight: Array | None
    offset: Array | None

    def rows(self, n_jobs: int | None) -> MemoryRows:
        """Rows to walk over."""
        return MemoryRows(self.X, self.y, self.weight, threads=n_threads(n_jobs), offset=self.offset)

    def described(self, rows: Rows, names: Sequence[str]) -> Columns:
        """Means, spreads and extremes of the columns, checked."""
        columns = describe(rows)
        check_columns(columns, self.X, names)
        return columns

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def sparse(self) -> bool:
        """Whether zeros must stay zeros."""
        return is_sparse(self.X)

    @property
    def n_counted(self) -> int:
        """How many rows count."""
        return len(self.y) if self.weight is None else int(np.count_nonzero(self.weight))


class Table(NamedTuple):
    """Training rows: clean columns, class codes, weights."""

    X: DesignMatrix
    codes: Codes
    classes: AnyArray
    weight: Array | None

    def training(self, likelihood: AnyLikelihood) -> Training:
        """Rows to learn from, with codes as the likelihood reads them: numbers 0 and 1, or indices of classes."""
        y = self.codes.astype(float) if isinstance(likelihood, Likelihood) else self.codes
        return Training(self.X, y, self.weight, None)

    def recoded(self, code: Code) -> Training:
        """Rows to learn from, with numbers made of the codes."""
        return Training(self.X, code(self.codes), self.weight, None)


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Leave the estimator as it was when fitting fails or is interrupted."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def unfitted(estimator: BaseEstimator) -> Any:
    """The same choices, nothing learnt."""
    return clone(estimator)


def check_limits(estimator: Any) -> None:
    """Refuse values of n_jobs, tol and max_iter that mean nothing."""
    n_threads(estimator.n_jobs)
    for argument, least in (("tol", 0.0), ("max_iter", 1)):
        value = getattr(estimator, argument)
        if isinstance(value, bool) or not np.isreal(value) or not value >= least:
            raise InputError(f"{argument} must be a number of at least {least}; got {value!r}.")
    if not isinstance(estimator.max_iter, int | np.integer):
        raise InputError(f"max_iter must be a whole number; got {estimator.max_iter!r}.")


def check_draws(size: Any) -> int:
    """How many draws are wanted: a whole number of at least one."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise InputError(f"size must be a whole number of draws, at least 1; got {size!r}.")
    return int(size)


def forget_fit(estimator: BaseEstimator) -> None:
    """Remove what an earlier fit has left."""
    for name in [name for name in vars(estimator) if name.endswith("_") and not name.endswith("_in_")]:
        delattr(estimator, name)


def read_training(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    *,
    classes: ArrayLike | None = None,
    reset: bool = True,
    sparse: bool = True,
) -> Table:
    """Columns, codes and weights of a training table, or an error that says what to change."""
    y = as_vector(y)
    refuse_missing_labels(y)
    X, y = read_numbers(estimator, X, y, reset=reset, sparse=sparse)
    check_labels(y)
    known, codes = encode(y, classes, updatable=hasattr(estimator, "partial_fit"))
    table, weight = canonical(X), read_weights(sample_weight, X)
    if classes is None and weight is not None:
        refuse_one_class(known[np.unique(codes[weight > 0])])
    if weight is not None and not weight.all():  # rows that do not count are not described, yet a NaN there spreads
        check_finite(table, feature_names(estimator))
    return Table(table, codes, known, weight)


def check_labels(y: AnyArray) -> None:
    """Refuse targets that are no labels."""
    if y.dtype.kind in "biuUS":  # whole numbers and strings are labels by their type
        return
    if y.dtype.kind == "f" and not float(np.abs(y).max(initial=0.0)) < LARGEST_LABEL:  # NaN is not, either
        raise InputError("y contains infinity or a value too large for a label; drop those rows.")
    try:
        np.unique(y)
    except TypeError as error:
        raise InputError(f"y mixes labels that cannot be put in order ({error}); use labels of one type.") from error
    try:
        check_classification_targets(y)
    except (TypeError, ValueError) as error:
        if y.dtype != object or "label type: continuous" in str(error):
            raise InputError(f"y cannot be used as class labels: {error}") from error
        raise InputError(
            f"Unknown label type: y holds objects of type {type(y[0]).__name__}; expected text, or an array of whole "
            "numbers or booleans. Write them as text, e.g. [str(label) for label in y]."
        ) from error


def refuse_one_class(found: AnyArray, *, updatable: bool = True) -> None:
    """A classifier needs two classes among the rows that count."""
    if not len(found):
        raise InputError("y holds no class among the rows of positive weight; a classifier needs at least two.")
    if len(found) < 2:
        raise InputError(
            f"y holds only one class, {found.tolist()[0]!r}; a classifier needs at least two classes."
            + (" If others exist but are absent from these rows, use partial_fit with classes=[...]." * updatable)
        )


def read_columns(estimator: BaseEstimator, X: Any, *, sparse: bool = True) -> DesignMatrix:
    """Columns to predict from, in the order of the fit."""
    table = canonical(read_numbers(estimator, X, reset=False, sparse=sparse))
    check_finite(table, feature_names(estimator))
    return table


def check_finite(X: DesignMatrix, names: Sequence[str]) -> None:
    """Refuse NaN, infinity, and numbers so large that squares of them are infinite; the extremes show all three."""
    values = X.data if isinstance(X, csr_array) else X
    if not values.size:
        return
    blocks = (values[rows] for rows in row_blocks(len(values), values.size // len(values), BLOCK_SIZES.table_numbers))
    extreme = float(np.max([(-block.min(), block.max()) for block in blocks]))  # NaN spreads
    if not np.isfinite(extreme):
        refuse_not_finite(X, names)
    if extreme > LARGEST:
        beyond = [j for j in range(X.shape[1]) if np.abs(X[:, [j]]).max() > LARGEST]
        raise InputError(
            f"X has values beyond 1e100 in column {named(np.asarray(names)[beyond])}: their squares, and so variances, "
            "cannot be represented. Are those cells damaged, or marks for missing ones? Drop these rows."
        )


def read_numbers(estimator: BaseEstimator, X: Any, *y: Any, reset: bool, sparse: bool = True, **more: Any) -> Any:
    """scikit-learn's validation; what is not finite is found later, while columns are described, and named."""
    if is_stored(X):
        refuse_stored(X)
    X = as_numeric(as_table(X))
    if issparse(X) and not sparse:
        raise InputError(
            f"X is sparse, which {type(estimator).__name__} does not take: its kernels look at every column. Use "
            "X.toarray() if it fits into memory, or a linear model, which takes sparse rows."
        )
    if not more and note_plain(estimator, X, *y, reset=reset):
        return (X, *y) if y else X
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": False}
    try:
        return validate_data(estimator, X, *y, reset=reset, **options, **more)
    except ValueError as error:
        if "could not convert string to float" in str(error):
            raise InputError(f"X holds text where numbers are expected ({error}). {ENCODE}") from error
        if "with a sequence" in str(error):
            raise InputError(f"X holds lists or arrays in its cells ({error}); a cell is one number.") from error
        raise InputError(str(error)) from error
    except OverflowError as error:
        raise InputError(f"X holds whole numbers beyond the range of float64 ({error}); change the unit.") from error
    except TypeError as error:
        if "eature names" in str(error):
            raise InputError(str(error)) from error
        raise CellTypeError(f"X holds what is no number ({error}). {ENCODE}") from error


def canonical(X: Any) -> DesignMatrix:
    """Sparse tables as CSR arrays without duplicates; dense ones as they are."""
    if not issparse(X):
        return np.asarray(X)
    rows = csr_array(X).astype(np.float64, copy=False)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def encode(y: AnyArray, classes: ArrayLike | None, *, updatable: bool = True) -> tuple[AnyArray, Codes]:
    """Labels as codes 0 … K-1 into sorted classes; given classes, only those are allowed."""
    found, codes = sorted_labels(y)
    if classes is None:
        refuse_one_class(found, updatable=updatable)
        return found, codes
    known = np.unique(column_or_1d(classes))
    new = [label for label in found.tolist() if label not in set(known.tolist())]
    if new:
        raise NewClassError(
            f"y holds labels that the model was not built for: {new}; it knows {known.tolist()}. It cannot grow a "
            "class: fit again on all rows (models with partial_fit: name all classes at the first, by classes=[...])."
        )
    return known, np.searchsorted(known, y)


def read_labels(y: ArrayLike, classes: AnyArray, n_rows: int) -> Codes:
    """Labels of rows that come after the fit as codes; one for every row, and none that is new."""
    refuse_missing_labels(y)
    labels = column_or_1d(y)
    if len(labels) != n_rows:
        raise InputError(f"y has {len(labels)} labels for {n_rows} rows of X.")
    return encode(labels, classes)[1]


def sorted_labels(y: AnyArray) -> tuple[AnyArray, Codes]:
    """np.unique with codes, by counting where labels are small whole numbers (ten times faster)."""
    if y.dtype.kind in "biu" and y.size:
        whole = y.astype(np.int64, copy=False)
        low, high = int(whole.min()), int(whole.max())
        if high - low < FEW_LABELS:
            above = whole - low
            # Of two neighbours both are there.
            present = np.bincount(above) > 0 if high - low > 1 else np.ones(high - low + 1, dtype=bool)
            labels = (np.flatnonzero(present) + low).astype(y.dtype)
            return labels, above if present.all() else (np.cumsum(present) - 1)[above]
    return np.unique(y, return_inverse=True)


def read_weights(sample_weight: ArrayLike | None, X: DesignMatrix) -> Array | None:
    """Weights as float64, None for all ones."""
    if sample_weight is None:
        return None
    refuse_weight_types(sample_weight)
    try:
        weight = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
    except ValueError as error:
        raise InputError(str(error)) from error
    except (TypeError, OverflowError) as error:
        raise InputError(f"sample_weight must hold one number for every row ({error}).") from error
    if not np.isfinite(weight).all():  # one number for all rows, which scikit-learn does not look at
        raise InputError(
            f"sample_weight must be a finite number, or hold one for every row; got {sample_weight!r:.40}."
        )
    if (weight < 0).any():
        raise InputError(
            f"sample_weight must not be negative; {int((weight < 0).sum())} of {len(weight)} are, the first in row "
            f"{int(np.flatnonzero(weight < 0)[0])}."
        )
    if not weight.any():
        raise InputError(NO_WEIGHT)
    if weight.max() > LARGEST or weight[weight > 0].min() < SMALLEST:
        raise InputError(
            f"sample_weight must be 0, or from 1e-100 to 1e100, so that sums of squares can be represented; got "
            f"{weight.min():.3g} to {weight.max():.3g}. Divide all weights by their mean."
        )
    return weight


def refuse_missing_labels(y: ArrayLike, start: RowPosition | None = None) -> None:
    """A missing label is an error for a discriminative model; `start` says which rows those of a part are."""
    values = y if isinstance(y, np.ndarray) or hasattr(y, "__array__") else np.asarray(y, dtype=object)
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "OfmM":
        return
    missing = np.flatnonzero([is_missing(label) for label in array] if array.dtype == object else np.isnan(array))
    if missing.size:
        few = f" in {missing.size} of {len(array)} rows" if start is None else ""
        first = f"row {missing[0]}" if start is None else start.describe(int(missing[0]))
        raise InputError(
            f"y has missing labels (None or NaN){few}, the first in {first}: drop those rows. (Generative models can "
            "learn from unlabelled rows; this one cannot.)"
        )


def is_missing(label: Any) -> bool:
    """None, NaN, NaT or pandas' NA."""
    return label is None or (str(label) in {"nan", "<NA>", "NaT"} and not isinstance(label, str))


def check_columns(columns: Columns, X: DesignMatrix | None, names: Sequence[str]) -> None:
    """Refuse what is not finite (if that is not known yet: X), and magnitudes whose squares leave floating point."""
    extreme = np.maximum(np.abs(columns.low), np.abs(columns.high))
    if X is not None and not np.isfinite(extreme).all():
        refuse_not_finite(X, names)
    tiny = ~columns.constant & (
        columns.high / 2 - columns.low / 2 < SMALLEST / 2
    )  # halves: the difference may overflow
    for wrong, what in (
        (extreme > LARGEST, "values beyond 1e100"),
        (tiny, "values that differ by less than 1e-100"),
    ):
        if wrong.any():
            raise InputError(
                f"X has {what} in column {named(np.asarray(names)[wrong])}: variances of that size cannot be "
                "represented. Change the unit of the column."
            )


def refuse_not_finite(X: DesignMatrix, names: Sequence[str], where: str = "", start: RowPosition | None = None) -> None:
    """Raise with the names of the columns that hold NaN or infinity, and the part of the data, if any does."""
    found = []
    for what, is_bad in (("NaN", np.isnan), ("infinity (inf)", np.isinf)):
        if isinstance(X, csr_array):
            bad: AnyArray = np.zeros(X.shape[1], dtype=bool)
            bad[X.indices[is_bad(X.data)]] = True
        else:
            bad = np.asarray(is_bad(X).any(axis=0))
        if bad.any():
            found.append(f"{what} in column {named(np.asarray(names)[bad])}")
    if found:
        row = "" if start is None else f"; first in {start.describe(first_row(~np.isfinite(X)))}"
        place = f" ({where}{row})" if where else ""
        raise InputError(
            f"X contains {' and '.join(found)}{place}. This model needs finite numbers: drop or impute those cells. "
            f"({'NaiveBayes takes' if where else 'Generative models, NaiveBayes and LinearDiscriminant, take'} NaN as "
            "it is.)"
        )


def first_row(marked: AnyArray) -> int:
    """The first row of a table of flags in which one is set."""
    return int(np.argmax(marked.any(axis=1)))


def feature_names(estimator: BaseEstimator) -> list[str]:
    """Names of the columns, x0 … where they have none."""
    names = getattr(estimator, "feature_names_in_", getattr(estimator, "_told_names", None))
    return [f"x{j}" for j in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]


def n_threads(n_jobs: Any) -> int | None:
    """scikit-learn's n_jobs as a number of threads; None lets BLAS's allowance decide."""
    if n_jobs is None or n_jobs == -1:
        return None
    if not isinstance(n_jobs, int | np.integer) or n_jobs < 1:
        raise InputError(f"n_jobs must be None, -1 or at least 1; got {n_jobs!r}.")
    return int(n_jobs)
