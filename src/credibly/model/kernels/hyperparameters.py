"""The numbers of a kernel that can be learnt: their values, bounds and priors, all on the scale of natural logarithms.

Notation
--------
=====  ================================================================
θ      natural logarithms of the free hyperparameters, (p,)
=====  ================================================================
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.numerics.arrays import Array

Bounds: TypeAlias = tuple[float, float] | Sequence[tuple[float, float]] | Literal["fixed"]
DEFAULT_BOUNDS = (1e-5, 1e5)
LARGEST_LOG = 700.0  # e^±700 are the last round powers that are neither zero nor infinite
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)

T = TypeVar("T")
L = TypeVar("L", bound="Adjustable")


@dataclass(frozen=True)
class LogNormal:
    r"""A belief about a positive number: its logarithm is normal.

    .. math:: p(\log θ) = N(\log θ \mid \log \mathrm{median}, \mathrm{sigma}^2)

    Parameters
    ----------
    median : float
        As probably too large as too small; positive.
    sigma : float
        Standard deviation of the logarithm; 0.7 says "within a factor of two, give or take", positive.

    Examples
    --------
    >>> round(LogNormal(median=2.0, sigma=0.5).log_density(np.log(2.0)), 4)
    -0.2258
    """

    median: float
    sigma: float

    def __post_init__(self) -> None:
        for name in ("median", "sigma"):
            object.__setattr__(self, name, positive_number(getattr(self, name), f"{name} of LogNormal"))

    def log_density(self, log_value: float) -> float:
        """Log density of the logarithm."""
        z = (log_value - np.log(self.median)) / self.sigma
        return float(-0.5 * z**2 - np.log(self.sigma) - HALF_LOG_2PI)

    def slope(self, log_value: float) -> float:
        """Derivative of `log_density`."""
        return float((np.log(self.median) - log_value) / self.sigma**2)


Prior: TypeAlias = LogNormal | Sequence[LogNormal | None] | None


class Number(NamedTuple):
    """A hyperparameter that a kernel declares: the fields ``<name>``, ``<name>_bounds`` and ``<name>_prior``.

    Examples
    --------
    >>> from credibly.kernels import RBF
    >>> RBF.numbers
    (Number(name='length_scale', per_column=True, may_vanish=False),)
    """

    name: str
    per_column: bool = False  # may be a sequence with one value for each column
    may_vanish: bool = False  # zero is allowed, and then never free: it has no logarithm


class Free(NamedTuple):
    """One entry of θ."""

    label: str
    value: float
    bounds: tuple[float, float]
    prior: LogNormal | None


class Adjustable:
    """Something with hyperparameters: a frozen dataclass that lists them in `numbers`, or is made of such `leaves`.

    For every `Number` in `numbers` it has a field of that name and, where the user shall have the choice, fields
    ``<name>_bounds`` (a pair, one pair for each value, or "fixed") and ``<name>_prior`` (`LogNormal`, one for each
    value, or None). It holds nothing but its fields.
    """

    numbers: ClassVar[tuple[Number, ...]] = ()

    def __post_init__(self) -> None:
        for number in self.numbers:
            settle(self, number)

    @property
    def leaves(self) -> tuple[Adjustable, ...]:
        """The parts that have hyperparameters of their own, left to right; itself unless it is a sum or product."""
        return (self,)

    @property
    def theta(self) -> Array:
        """Natural logarithms of the free hyperparameters, (p,)."""
        return np.log([it.value for it in free(self)])

    @property
    def bounds(self) -> Array:
        """Natural logarithms of the bounds within which they are searched for, (p, 2)."""
        return np.log([it.bounds for it in free(self)]).reshape(-1, 2)

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """Names of the free hyperparameters, (p,), all different."""
        return names(self.leaves)

    def with_theta(self, theta: ArrayLike) -> Self:
        """The same kernel with other hyperparameters; `bounds` limit a search, not this."""
        return with_values(self, checked_theta(theta, self.hyperparameters))

    @property
    def log_prior(self) -> float:
        """Log density of θ under the priors; those without one add nothing."""
        return sum((it.prior.log_density(np.log(it.value)) for it in free(self) if it.prior is not None), 0.0)

    @property
    def log_prior_gradient(self) -> Array:
        """Derivative of `log_prior` by θ, (p,)."""
        return np.array([0.0 if it.prior is None else it.prior.slope(np.log(it.value)) for it in free(self)])


# --- reading ------------------------------------------------------------------------------------------------


def is_free(leaf: Adjustable, name: str) -> bool:
    """Whether a declared number is learnt: not fixed, and not zero (which has no logarithm)."""
    return bool(getattr(leaf, f"{name}_bounds", DEFAULT_BOUNDS) != "fixed" and getattr(leaf, name) != 0)


def free(thing: Adjustable) -> list[Free]:
    """The entries of θ, in order."""
    return [it for leaf in thing.leaves for number in leaf.numbers for it in entries(leaf, number.name)]


def entries(leaf: Adjustable, name: str) -> list[Free]:
    """The entries of θ that one declared number has: none, one, or one for each column."""
    if not is_free(leaf, name):
        return []
    value, prior = getattr(leaf, name), getattr(leaf, f"{name}_prior", None)
    bounds = getattr(leaf, f"{name}_bounds", DEFAULT_BOUNDS)
    columns = getattr(leaf, "columns", None)
    if not isinstance(value, tuple):
        one = (
            columns is not None and len(columns) == 1 and any(it.name == name and it.per_column for it in leaf.numbers)
        )
        return [Free(f"{name}[{columns[0]}]" if columns is not None and one else name, value, bounds, prior)]
    every = bounds if isinstance(bounds[0], tuple) else (bounds,) * len(value)
    priors = prior if isinstance(prior, tuple) else (prior,) * len(value)
    shown = range(len(value)) if columns is None else columns
    return [Free(f"{name}[{column}]", *it) for column, *it in zip(shown, value, every, priors, strict=False)]


def names(leaves: tuple[Adjustable, ...]) -> tuple[str, ...]:
    """Labels of θ: plain where only one leaf has the name, else after its kind, numbered where the kind repeats."""
    owned = [[number.name for number in leaf.numbers if is_free(leaf, number.name)] for leaf in leaves]
    owners = Counter(name for own in owned for name in own)
    kinds = [type(leaf).__name__ for leaf in leaves]
    found = []
    for i, leaf in enumerate(leaves):
        rank = f"{kinds[: i + 1].count(kinds[i])}" if kinds.count(kinds[i]) > 1 else ""
        for name in owned[i]:
            prefix = f"{kinds[i]}{rank}." if owners[name] > 1 else ""
            found += [prefix + it.label for it in entries(leaf, name)]
    return tuple(found)


# --- changing -----------------------------------------------------------------------------------------------


def changed(thing: T, **values: object) -> T:
    """A copy with some fields replaced and no check repeated, since θ may lie outside the bounds."""
    new = copy.copy(thing)
    for name, value in values.items():
        object.__setattr__(new, name, value)
    return new


def checked_theta(theta: ArrayLike, labels: tuple[str, ...]) -> Array:
    """θ as an array of the right length whose exponentials are positive and finite."""
    found = np.asarray(theta, dtype=float)
    if found.shape != (len(labels),):
        raise InputError(
            f"theta must hold {len(labels)} natural logarithms, of ({', '.join(labels)}); got shape {found.shape}."
        )
    if not (np.abs(found) < LARGEST_LOG).all():
        raise InputError(f"theta must hold natural logarithms of positive numbers; got {found.tolist()}.")
    return found


def with_values(leaf: L, theta: Array) -> L:
    """A leaf with other hyperparameters; one whose logarithm is the present one keeps its value to the last digit."""
    values, start = {}, 0
    for number in leaf.numbers:
        if is_free(leaf, number.name):
            old = getattr(leaf, number.name)
            size = len(old) if isinstance(old, tuple) else 1
            logs = theta[start : start + size]
            new = np.where(logs == np.log(old), old, np.exp(logs)).tolist()
            values[number.name] = tuple(new) if isinstance(old, tuple) else new[0]
            start += size
    return changed(leaf, **values)


# --- checking -----------------------------------------------------------------------------------------------


def settle(leaf: Adjustable, number: Number) -> None:
    """Check one declared number with its bounds and prior, and hold them as floats and tuples."""
    name, kind = number.name, type(leaf).__name__
    value = checked_value(getattr(leaf, name), number, kind)
    fields: dict[str, object] = {name: value}
    size = len(value) if isinstance(value, tuple) else None
    if hasattr(leaf, f"{name}_bounds"):
        bounds = checked_bounds(getattr(leaf, f"{name}_bounds"), size, f"{name}_bounds of {kind}")
        refuse_outside(value, bounds, f"{name} of {kind}")
        fields[f"{name}_bounds"] = bounds
    if hasattr(leaf, f"{name}_prior"):
        fields[f"{name}_prior"] = checked_prior(getattr(leaf, f"{name}_prior"), size, f"{name}_prior of {kind}")
    for field, it in fields.items():
        object.__setattr__(leaf, field, it)


def positive_number(value: object, what: str, *, or_zero: bool = False) -> float:
    """One finite positive number as a float, or an error that names it."""
    expected = "zero or a positive finite number" if or_zero else "a positive finite number"
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be {expected}; got {value!r}.") from error
    if (
        array.ndim
        or isinstance(value, bool | str)
        or not np.isfinite(array)
        or array < 0
        or (array == 0 and not or_zero)
    ):
        raise InputError(f"{what} must be {expected}; got {value!r}.")
    return float(array)


def checked_value(value: Any, number: Number, kind: str) -> float | tuple[float, ...]:
    """A float, or a tuple of them where there may be one for each column."""
    what = f"{number.name} of {kind}"
    if np.ndim(value) == 0 or isinstance(value, str):
        return positive_number(value, what, or_zero=number.may_vanish)
    if not number.per_column:
        raise InputError(f"{what} must be one number; got {value!r}.")
    if np.ndim(value) != 1 or len(value) == 0:
        raise InputError(f"{what} must be one number or one for each column; got {value!r}.")
    return tuple(positive_number(it, f"{what}, entry {i},") for i, it in enumerate(value))


def checked_bounds(bounds: Any, size: int | None, what: str) -> Any:
    """A pair of floats, a tuple of such pairs, or "fixed"."""
    if isinstance(bounds, str) and bounds == "fixed":
        return bounds
    try:
        array = np.asarray(bounds, dtype=float)
    except (TypeError, ValueError):
        array = np.empty(0)
    several = "" if size is None else f", {size} such pairs"
    if array.shape != (2,) and (size is None or array.shape != (size, 2)):
        raise InputError(f'{what} must be a pair (lower, upper){several} or "fixed"; got {bounds!r}.')
    lower, upper = array.T
    if not (np.isfinite(array).all() and (lower > 0).all() and (lower <= upper).all()):
        raise InputError(f"{what} must be positive and finite, the lower one first; got {bounds!r}.")
    return tuple(array.tolist()) if array.ndim == 1 else tuple(map(tuple, array.tolist()))


def checked_prior(prior: Any, size: int | None, what: str) -> LogNormal | tuple[LogNormal | None, ...] | None:
    """`LogNormal`, a tuple with one for each value, or None."""
    if prior is None or isinstance(prior, LogNormal):
        return prior
    fits = isinstance(prior, Sequence) and len(prior) == size
    if not fits or not all(it is None or isinstance(it, LogNormal) for it in prior):
        several = "" if size is None else f", {size} of them"
        raise InputError(f"{what} must be LogNormal(median, sigma){several} or None; got {prior!r}.")
    return tuple(prior)


def refuse_outside(value: float | tuple[float, ...], bounds: Any, what: str) -> None:
    """Refuse a value from which a search within its bounds cannot start."""
    if bounds == "fixed" or value == 0:
        return
    lower, upper = np.asarray(bounds).T
    if not ((lower <= value) & (value <= upper)).all():
        name = what.split(maxsplit=1)[0]
        raise InputError(
            f"{what} is {value!r}, outside its bounds {bounds!r}; start inside, widen {name}_bounds, "
            f'or hold it by {name}_bounds="fixed".'
        )
