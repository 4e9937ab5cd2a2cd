"""Labels and probabilities as other code may give them, read into codes and a table, or refused."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array, Codes

SUM_ROUNDING = 1e-6  # of probabilities that should add up to one; single precision has its own
STRATEGIES = ("quantile", "uniform")


class Predictions(NamedTuple):
    """Labels as codes, probabilities as a table."""

    codes: Codes  # (n,)
    table: Array  # (n, K)
    classes: AnyArray  # (K,), what the columns stand for

    @property
    def own(self) -> Array:
        """The probability of what happened, (n,)."""
        return self.table[np.arange(len(self.codes)), self.codes]


@dataclass(frozen=True)
class Events:
    """One yes-or-no question about every row: its probability, and what happened."""

    proba: Array  # (n,)
    happened: Array  # (n,), 0 or 1
    what: str


@dataclass(frozen=True)
class Bins:
    """Rows grouped by their probability; bins without rows are left out."""

    of_row: Codes  # (n,), 0 … B-1
    count: Array  # (B,)

    def total(self, values: Array) -> Array:
        """Sums over the rows of every bin, (B,)."""
        return np.bincount(self.of_row, weights=values, minlength=len(self.count)).astype(float)

    def mean(self, values: Array) -> Array:
        """Means over the rows of every bin, (B,)."""
        return np.asarray(self.total(values) / self.count)

    def variance_of_mean(self, values: Array) -> Array:
        """An unbiased estimate of the variance of every bin's mean, (B,)."""
        centred = values - self.mean(values)[self.of_row]
        return np.asarray(self.total(centred**2) / (self.count * (self.count - 1)))


def read(y: ArrayLike, proba: ArrayLike, labels: ArrayLike | None = None) -> Predictions:
    """Check labels and probabilities, and bring them together."""
    table = read_table(proba)
    given = np.asarray(y)
    if given.ndim != 1 or len(given) != len(table) or len(given) == 0:
        raise InputError(
            f"expected one row of probabilities per label, and at least one; got labels of shape {given.shape} and "
            f"probabilities of shape {np.shape(proba)}."
        )
    classes, codes = _classes_and_codes(given, labels, table.shape[1])
    return Predictions(codes, table, classes)


def read_table(proba: ArrayLike) -> Array:
    """Probabilities with a column for each class; one column alone is that of the second of two."""
    try:
        given = np.asarray(proba)
        table: Array = given.astype(float)
    except (TypeError, ValueError) as error:
        raise InputError(f"probabilities must be an array of numbers; got {proba!r:.60}.") from error
    if table.ndim not in {1, 2} or (table.ndim == 2 and table.shape[1] < 2):
        raise InputError(
            "probabilities must be an (n, K) table with a column for each of two classes or more, or (n,) numbers, "
            f"those of the second of two classes; got shape {table.shape}."
        )
    check_probabilities(table, given.dtype, "probabilities")
    if table.ndim == 1:
        return np.column_stack([1 - table, table])
    check_sums(table, given.dtype, "probabilities")
    return table


def rounding_of(dtype: np.dtype[Any]) -> float:
    """By how much probabilities of this precision may miss one."""
    return max(SUM_ROUNDING, float(np.sqrt(np.finfo(dtype).eps)) if dtype.kind == "f" else 0.0)


def check_probabilities(values: Array, dtype: np.dtype[Any], what: str) -> None:
    """Refuse numbers outside [0, 1], up to rounding at one, and NaN."""
    if np.isnan(values).any():
        raise InputError(f"{what} have {int(np.isnan(values).sum())} NaN among them; leave those rows out.")
    if (values < 0).any() or (values > 1 + rounding_of(dtype)).any():
        raise InputError(
            f"{what} must lie between 0 and 1; they range from {values.min():.6g} to {values.max():.6g}. "
            "Scores and log probabilities are something else."
        )


def check_sums(table: Array, dtype: np.dtype[Any], what: str) -> None:
    """Refuse rows that do not add up to one, as far as their precision goes."""
    off = np.abs(table.sum(axis=-1) - 1)
    if off.size and off.max() > rounding_of(dtype):
        worst = np.unravel_index(int(off.argmax()), off.shape)
        raise InputError(
            f"{what} must add up to 1 over the classes; row {worst[-1]} adds up to {table.sum(axis=-1)[worst]:.6g}. "
            "Divide each row by its sum if that is what they mean."
        )


def _classes_and_codes(given: AnyArray, labels: ArrayLike | None, n_columns: int) -> tuple[AnyArray, Codes]:
    if given.dtype.kind == "f" and np.isnan(given).any():
        raise InputError("labels have NaN among them; leave those rows out.")
    if labels is not None:
        return _named(given, np.asarray(labels), n_columns)
    try:
        classes, codes = np.unique(given, return_inverse=True)
    except TypeError as error:
        raise InputError(f"labels must be of one kind, so that they can be sorted: {error}") from error
    if len(classes) == n_columns:
        return classes, codes.astype(np.intp)
    # A class may be absent from a small sample: then labels must say which column they mean.
    if given.dtype.kind in "biu" and given.min() >= 0 and given.max() < n_columns:
        return np.arange(n_columns), given.astype(np.intp)
    raise InputError(
        f"{len(classes)} distinct labels but {n_columns} columns of probabilities; say what the columns stand for, "
        f"labels=model.classes_, or pass labels as integers 0 … {n_columns - 1}."
    )


def _named(given: AnyArray, classes: AnyArray, n_columns: int) -> tuple[AnyArray, Codes]:
    """Codes of labels whose classes are stated, in the order of the columns."""
    names = classes.tolist()
    if classes.ndim != 1 or len(names) != n_columns or len(set(names)) != n_columns:
        raise InputError(
            f"labels must be {n_columns} different ones, one for each column of probabilities; got {names!r:.80}."
        )
    place = {name: k for k, name in enumerate(names)}
    unknown = [label for label in dict.fromkeys(given.tolist()) if label not in place]
    if unknown:
        raise InputError(f"y has labels that no column of probabilities stands for: {unknown[:5]!r}; labels={names}.")
    return classes, np.array([place[label] for label in given.tolist()], dtype=np.intp)


def one_class(predictions: Predictions, label: Any, what: str) -> Events:
    """One class against the rest, with rows on both sides; the second of two where no label is given."""
    names = predictions.classes.tolist()
    if label is None and len(names) > 2:
        raise InputError(f"{what} sets one class against the rest; say which with label=, one of {names}.")
    events = event_of(predictions, names[1] if label is None else label)
    inside = int(events.happened.sum())
    if inside in {0, len(events.happened)}:
        raise InputError(
            f"{what} compares rows of the class with others: {inside} rows are of it and "
            f"{len(events.happened) - inside} are not."
        )
    return events


def event_of(predictions: Predictions, label: Any) -> Events:
    """Whether a row is of this class."""
    names = predictions.classes.tolist()
    if label not in names:
        raise InputError(f"label={label!r} is none of the classes {names}.")
    k = names.index(label)
    return Events(predictions.table[:, k], (predictions.codes == k).astype(float), f"P({label})")


def most_probable(predictions: Predictions) -> Events:
    """Whether a row is of the class that was thought most probable."""
    guess = predictions.table.argmax(axis=1)
    return Events(predictions.table.max(axis=1), (guess == predictions.codes).astype(float), "P(most probable class)")


def event_or_second(predictions: Predictions, label: Any) -> Events:
    """The class asked for; else the second of two, else the most probable one."""
    if label is not None:
        return event_of(predictions, label)
    if len(predictions.classes) == 2:
        return event_of(predictions, predictions.classes.tolist()[1])
    return most_probable(predictions)


def check_level(level: Any) -> float:
    """The mass of an interval, strictly between zero and one."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise InputError(f"level must be a number strictly between 0 and 1; got {level!r}.")
    return float(level)


def whole(value: Any, what: str, least: int = 1) -> int:
    """A whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{what} must be a whole number, {least} or more; got {value!r}.")
    return int(value)


def bins_of(proba: Array, bins: Any, strategy: str) -> Bins:
    """Rows by their probability alone, so that equal ones share a bin; edges are those of scikit-learn."""
    n_bins = whole(bins, "bins")
    if strategy not in STRATEGIES:
        raise InputError(f"strategy must be one of {', '.join(map(repr, STRATEGIES))}; got {strategy!r}.")
    shares = np.linspace(0.0, 1.0, n_bins + 1)
    edges = np.percentile(proba, shares * 100) if strategy == "quantile" else shares
    _, of_row, count = np.unique(np.searchsorted(edges[1:-1], proba), return_inverse=True, return_counts=True)
    return Bins(of_row.astype(np.intp), count.astype(float))


def check_pairs(bins: Bins) -> None:
    """Refuse bins from whose rows no variance can be estimated."""
    alone = int((bins.count < 2).sum())
    if alone:
        raise InputError(
            f"{alone} of {len(bins.count)} bins hold a single row, whose noise cannot be estimated; use fewer bins or "
            "strategy='quantile'."
        )


def wilson_interval(share: Array, count: Array, z: float) -> tuple[Array, Array]:
    """The shares from which the observed one is at most z of their standard deviations away."""
    spread = z * np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    middle, size = share + z**2 / (2 * count), 1 + z**2 / count
    # At a share of 0 or 1 one end is exactly that share, which rounding must not overstep.
    low = np.where(share == 0, 0.0, (middle - spread) / size)
    return low, np.where(share == 1, 1.0, (middle + spread) / size)


def generator(random_state: Any) -> np.random.Generator:
    """scikit-learn's random_state, or a NumPy Generator, as a Generator."""
    from sklearn.utils import check_random_state

    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        return np.random.default_rng(check_random_state(random_state).randint(2**31))
    except ValueError as error:
        raise InputError(f"random_state must be an int, a RandomState, a Generator or None: {error}") from error
