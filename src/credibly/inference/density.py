"""The Laplace approximation of any density: a Gaussian at each mode, and what it weighs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.inference.free_density import Target, agrees_with_complex, check_given, number, shown
from credibly.inference.gaussian import Gaussian
from credibly.inference.mode_search import Search, axes, find_modes
from credibly.numerics.arrays import Array
from credibly.numerics.caching import cached_property
from credibly.numerics.special import log_sum_exp
from credibly.numerics.transforms import Box

__all__ = ["LaplaceApproximation", "Mode", "laplace_approximation"]

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Mode:
    r"""One mode of a density and the Gaussian there, in unbounded coordinates u.

    .. math:: q(u) = N(u \mid u_0, A^{-1}), \qquad A = -\nabla\nabla \log g(u_0), \qquad g(u) = f(z(u))\,|dz/du|
    """

    gaussian: Gaussian
    log_normalizer: float  # log of the mass
    weight: float  # its share of the mass of all modes kept
    box: Box

    def __repr__(self) -> str:
        return f"Mode(z={shown(self.mode)}, log Z={self.log_normalizer:.4g}, weight={self.weight:.3g})"

    @property
    def mode(self) -> Array:
        """The point in the coordinates of the log density, (M,); `mean` where there are no bounds."""
        return np.asarray(self.box.bounded(self.gaussian.mean))

    @property
    def mean(self) -> Array:
        """Where g is highest, in unbounded coordinates, (M,)."""
        return self.gaussian.mean

    @property
    def precision(self) -> Array:
        """A, in unbounded coordinates, (M, M)."""
        return self.gaussian.precision.matrix

    @property
    def cov(self) -> Array:
        """Inverse of A, in unbounded coordinates, (M, M)."""
        root = self.gaussian.precision.inverse_root
        return np.asarray(root.T @ root)


@dataclass(frozen=True)
class LaplaceApproximation:
    r"""What `laplace_approximation` returns: a Gaussian, or a mixture with a Gaussian for each mode.

    .. math:: q(u) = \sum_m \pi_m N(u \mid u_m, A_m^{-1}), \qquad \pi_m = Z_m / \sum_k Z_k

    `mean` and `cov` are in the unbounded coordinates u; `sample`, `logpdf`, `log_normalizer` and `mode` in those of the
    log density, z. Without bounds u = z.
    """

    modes: list[Mode]
    status: str

    def __repr__(self) -> str:
        several = f", modes={len(self.modes)}" if len(self.modes) > 1 else ""
        return f"LaplaceApproximation(M={self.mean.size}{several}, log Z={self.log_normalizer:.4g})"

    @cached_property
    def log_normalizer(self) -> float:
        """log Σ Z_m, an approximation of log ∫ f(z) dz; where modes overlap, that mass counts twice."""
        return float(log_sum_exp(np.array([mode.log_normalizer for mode in self.modes])))

    @property
    def mode(self) -> Array:
        """The heaviest mode in the coordinates of the log density, (M,); without bounds, its highest point nearby."""
        return self.modes[0].mode

    @property
    def _weights(self) -> Array:
        return np.array([mode.weight for mode in self.modes])

    @property
    def mean(self) -> Array:
        """Mean of q in unbounded coordinates, (M,): for one mode, the mode."""
        return np.asarray(self._weights @ np.array([mode.mean for mode in self.modes]))

    @property
    def cov(self) -> Array:
        """Covariance of q in unbounded coordinates, (M, M): for one mode, the inverse of A."""
        apart = np.array([mode.mean for mode in self.modes]) - self.mean
        within = np.einsum("m,mij->ij", self._weights, np.array([mode.cov for mode in self.modes]))
        return np.asarray(within + (apart.T * self._weights) @ apart)

    def logpdf(self, z: ArrayLike) -> Array:
        """Log density of q at z, (M,) or (size, M), with respect to z; -inf outside the bounds."""
        points, box, M = _real(z, "z"), self.modes[0].box, self.mean.size
        points = points.reshape(1) if points.ndim == 0 and M == 1 else points
        if points.ndim not in (1, 2) or points.shape[-1] != M:
            raise InputError(f"z must have shape ({M},) or (size, {M}); got {points.shape}.")
        rows = points.reshape(-1, M)
        out = np.full(len(rows), -np.inf)
        inside = box.contains(rows)
        u = box.free(rows[inside])
        each = [mode.log_normalizer + mode.gaussian.logpdf(u) for mode in self.modes]  # a weight may underflow
        out[inside] = log_sum_exp(np.array(each), axis=0) - self.log_normalizer - box.log_jacobian(u)
        return np.asarray(out.reshape(points.shape[:-1]))

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """`size` draws of z from q, (size, M)."""
        if not isinstance(rng, np.random.Generator):
            raise InputError(f"rng must be a numpy.random.Generator, such as np.random.default_rng(0); got {rng!r}.")
        u = np.empty((size, self.mean.size))
        which = rng.choice(len(self.modes), size=size, p=self._weights)
        for m, mode in enumerate(self.modes):
            rows = which == m
            u[rows] = mode.gaussian.sample(rng, int(rows.sum()))
        return np.asarray(self.modes[0].box.bounded(u))


def laplace_approximation(  # noqa: PLR0913 - the user's choices
    log_density: Function,
    start: ArrayLike,
    *,
    grad: Function | None = None,
    hess: Function | None = None,
    modes: int = 1,
    bounds: Any = None,
    random_state: Any = None,
) -> LaplaceApproximation:
    r"""Approximate any density by a Gaussian at its mode, and its normaliser by that Gaussian's mass.

    .. math::

        \log \int f(z)\, dz \approx \log f(z_0) + \tfrac M2 \log 2\pi - \tfrac12 \log\det A,
        \qquad A = -\nabla\nabla \log f(z_0)

    The mode is found by damped Newton. A must be positive definite: a saddle, a flat direction or a density without a
    maximum is an error that names the direction. Only what happens at the mode counts; compare with draws
    (`logpdf` has the density of q) where tails matter.

    Parameters
    ----------
    log_density : function of an (M,) array, returning a number
        log f(z), up to a constant that then is part of `log_normalizer`. -inf outside the support.
    start : number, (M,) array or (s, M) array
        Where to start; a number is M = 1. Rows are several starts.
    grad, hess : functions of an (M,) array, returning (M,) and (M, M) arrays, optional
        Derivatives of log f with respect to z. What is not given is taken by complex steps where `log_density` takes
        complex points, else by differences; that needs some 4 M² values, with `grad` 4 M gradients.
    modes : int, default 1
        How many modes to keep. With more than one, 10 further searches for each start at draws around the modes
        found so far, 3, 10 and 30 standard deviations wide in turn; the heaviest modes are kept, and
        `status` says if there were fewer, or more.
    bounds : list of (lower, upper), optional
        One pair for each coordinate; None or an infinity for an open end. With a bound the Gaussian is one of
        u = log(z - lower), log(upper - z), or logit((z - lower)/(upper - lower)), and f is multiplied by ``|dz/du|``.
    random_state : int, Generator or None
        For the further starts.

    Returns
    -------
    LaplaceApproximation
        With `mean` (M,), `cov` (M, M), `log_normalizer`, `sample(rng, size)`, `logpdf(z)`, `mode` (M,), `modes` (a
        list, heaviest first, each with `mean`, `cov`, `precision`, `log_normalizer`, `weight`, `mode`) and `status`,
        a sentence. With bounds `mean`, `cov` and `precision` are those of u, all else is about z.

    Raises
    ------
    NoModeError
        A saddle, a flat direction, or no maximum; `direction` has the unit vector.
    InputError
        Anything that cannot be used as given; a `grad` or `hess` that is not that of `log_density`.

    References
    ----------
    PRML, eq. 4.125 to 4.138.

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import laplace_approximation
    >>> q = laplace_approximation(lambda z: -(z[0] ** 2) / 2 - np.log1p(np.exp(-(20 * z[0] + 4))), start=0.0)
    >>> q.mean.round(4), q.cov.round(4), round(q.log_normalizer, 4)
    (array([0.0775]), array([[0.3931]]), 0.4453)

    A Gamma(3.5, 2) density, which is close to a Gaussian in log z:

    >>> q = laplace_approximation(lambda z: 2.5 * np.log(z[0]) - 2 * z[0], start=1.0, bounds=[(0, None)])
    >>> q.mode.round(6), q.modes[0].precision.round(6), round(q.log_normalizer, 4)  # exactly -1.2250
    (array([1.75]), array([[3.5]]), -1.2488)
    """
    _check_choices(modes, {"log_density": log_density, "grad": grad, "hess": hess})
    starts = _starts(start)
    box = _box(bounds, starts.shape[1])
    with np.errstate(all="ignore"):  # points far out are our doing: what overflows there is no news
        target, u = _target(log_density, grad, hess, box, starts)
        found = find_modes(_generator(random_state), target, u, modes)
    return LaplaceApproximation(_kept(found, modes, box), _status(found, modes))


def _kept(found: Search, modes: int, box: Box) -> list[Mode]:
    peaks = found.peaks[:modes]
    log_masses = np.array([peak.log_normalizer for peak in peaks])
    weights = np.exp(log_masses - log_sum_exp(log_masses))
    return [
        Mode(peak.gaussian, peak.log_normalizer, float(weight), box)
        for peak, weight in zip(peaks, weights / weights.sum(), strict=True)
    ]


def _status(found: Search, modes: int) -> str:
    n, searches = len(found.peaks), f"{found.starts} search{'es' if found.starts > 1 else ''}"
    if n < modes:
        return (
            f"Converged; only {n} of the {modes} modes asked for {'was' if n == 1 else 'were'} found in {searches}. "
            "There may be no more; give start= as rows near others."
        )
    more = f" {n} modes were found; the heaviest {'is' if modes == 1 else f'{modes} are'} kept." if n > modes else ""
    return f"Converged.{more}"


# --- reading what was given ---------------------------------------------------------------------------------


def _check_choices(modes: Any, functions: dict[str, Any]) -> None:
    if isinstance(modes, bool) or not isinstance(modes, int | np.integer) or modes < 1:
        raise InputError(f"modes must be a whole number of at least 1; got {modes!r}.")
    for what, function in functions.items():
        if not (callable(function) or (function is None and what != "log_density")):
            raise InputError(f"{what} must be a function of an (M,) array; got {function!r}.")


def _real(values: Any, what: str) -> Array:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiuO":
            raise TypeError
        return array.astype(float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be made of real numbers; got {values!r}.") from error


def _starts(start: Any) -> Array:
    starts = _real(start, "start")
    if starts.ndim > 2 or starts.size == 0:
        raise InputError(
            f"start must be a number, a point of shape (M,), or several as rows (s, M); got shape {starts.shape}."
        )
    if not np.isfinite(starts).all():
        raise InputError(f"start must be finite; got {starts.tolist()}.")
    return np.atleast_2d(starts)


def _box(bounds: Any, M: int) -> Box:
    lower, upper = np.full(M, -np.inf), np.full(M, np.inf)
    if bounds is None:
        return Box(lower, upper)
    expected = f"bounds must be one (lower, upper) pair for each of the {M} coordinates, None for an open end"
    try:
        pairs = [(low, high) for low, high in bounds]
    except (TypeError, ValueError) as error:
        raise InputError(f"{expected}; got {bounds!r}.") from error
    if len(pairs) != M:
        raise InputError(f"{expected}; got {len(pairs)} pair{'s' if len(pairs) != 1 else ''}.")
    for j, (low, high) in enumerate(pairs):
        lower[j] = -np.inf if low is None else _real(low, "a bound")
        upper[j] = np.inf if high is None else _real(high, "a bound")
        if not lower[j] < upper[j]:
            raise InputError(f"bounds[{j}] must have lower < upper; got ({low}, {high}).")
    return Box(lower, upper)


def _generator(random_state: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state must be a whole number, a numpy.random.Generator or None; got {random_state!r}."
        ) from error


def _target(
    log_density: Function, grad: Function | None, hess: Function | None, box: Box, starts: Array
) -> tuple[Target, Array]:
    """The density in unbounded coordinates, and the starts there; derivatives that were given are compared once."""
    for z in starts:
        if not box.contains(z):
            raise InputError(f"start must lie strictly inside the bounds; got {shown(z)}.")
        _check_value(number(log_density(z.copy())), z)
    first = np.asarray(log_density(starts[0].copy())).dtype
    eps = float(np.finfo(first).eps) if first.kind == "f" else float(np.finfo(float).eps)
    target, u = Target(log_density, grad, hess, box, eps), box.free(starts)
    frame = axes(target, u[0])
    check_given(target, u[0], frame)
    if grad is None:
        target = Target(log_density, grad, hess, box, eps, agrees_with_complex(target, u[0], frame))
    return target, u


def _check_value(value: Any, z: Array) -> None:
    if np.isnan(value):
        raise InputError(
            f"log_density is NaN at the start, z = {shown(z)}. Start where it is defined, return -inf outside its "
            "support, or give bounds=."
        )
    if np.isinf(value):
        raise InputError(
            f"log_density is {float(value)} at the start, z = {shown(z)}. Start where the density is positive, "
            "and finite."
        )
