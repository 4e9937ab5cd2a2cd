"""Sums over a block of rows for the hot likelihoods, in one compiled walk: value, score and information.

They are what the likelihood's `expand` and weighted Gram matrices give, without the arrays in between: a block is
standardised, scored and summed in tiles that stay in cache. Where the compiler is missing NumPy does the same.
"""

import logging
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol

import numpy as np

from credibly.numerics.arrays import AnyArray, Array, Codes

NOTHING = np.empty(0)

KINDS = {"logit": 0, "probit": 1, "poisson": 2}  # the numbers of `_fused_rows`
SOFTMAX = "softmax"
COLUMNS = "columns"

FEWEST_ACROSS = 4  # columns that make a vector: fewer are described one by one

COUNTERS = 16  # room for those of `_fused_parts`
AT_ONCE = 16  # parts done without the interpreter: some ten milliseconds, after which Ctrl-C is heard
ROUNDS = 100_000  # of asking whether others are done: a fraction of a millisecond, less than being woken takes

WORTH_CALLING = 10_000  # numbers in a pass, once the kernels are loaded
WORTH_LOADING = 1_500_000  # numbers walked by NumPy so far: somebody is fitting tables that profit; loading takes 0.4 s
WORTH_COMPILING = 20_000_000  # numbers in one pass: compiling takes some twenty seconds, once for an installation
WALKED_LONG = 1_000_000_000  # numbers walked by NumPy so far, which took about as long as compiling


class Rows(Protocol):
    """A block of rows; `Block` of the data room is one."""

    @property
    def X(self) -> AnyArray:
        """(b, d); read where it lies if it is float64 with contiguous rows or columns, else copied to that."""

    @property
    def y(self) -> AnyArray:
        """(b,) targets: labels 0 and 1, counts, or class codes 0 … K-1."""

    @property
    def weight(self) -> Array | None:
        """(b,) weights ≥ 0; None is one everywhere."""

    @property
    def offset(self) -> Array | None:
        """(b,), added to the scores; None is zero everywhere."""


class Frame(Protocol):
    """How a design z = ((x - center) / scale, 1) is made of rows; `Frame` of the inference room is one."""

    @property
    def center(self) -> Array:
        """(d,)."""

    @property
    def scale(self) -> Array:
        """(d,)."""

    @property
    def intercept(self) -> bool:
        """Whether z ends with a one."""


class _Row(NamedTuple):
    X: Array
    y: Array
    weight: None
    offset: None


class _Unit(NamedTuple):
    center: Array
    scale: Array
    intercept: bool


# --- Whether it pays ------------------------------------------------------------------------------


@cache
def available() -> bool:
    """Whether numba can be imported; asking does import it, which takes a third of a second the first time."""
    try:
        _kernels("")
    except ImportError:
        return False
    return True


class _Ledger:
    """What NumPy has walked over in this process, to judge when loading a kernel pays: renting against buying."""

    def __init__(self) -> None:
        self.walked: dict[str, int] = {}
        self.loaded: set[str] = set()

    def pays(self, kind: str, numbers: int) -> bool:
        if numbers < WORTH_CALLING:
            return False
        module = _module_of(kind)
        if module not in self.loaded:
            self.walked[module] = self.walked.get(module, 0) + numbers
            if not self._worth_loading(module, numbers):
                return False
            self.loaded.add(module)
        return available()

    def _worth_loading(self, module: str, numbers: int) -> bool:
        before = compiled_before(module)
        if numbers < WORTH_COMPILING and self.walked[module] < (WORTH_LOADING if before else WALKED_LONG):
            return False
        if not before:
            logging.getLogger("credibly").warning(
                "credibly compiles its kernels for large tables, once for this installation: some twenty seconds"
            )
        return True


@cache
def compiled_before(module: str) -> bool:
    """Whether an earlier process has left this module, compiled, beside the sources, newer than those."""
    changed = _last_changed()
    last = "sums" if module == _module_of(COLUMNS) else "some_sums"  # made of the others
    left = Path(__file__).parent.glob(f"__pycache__/{module}.{last}-*.nbi")
    return any(index.stat().st_mtime >= changed for index in left)


_LEDGER = _Ledger()
pays = _LEDGER.pays


def load(*kinds: str) -> None:
    """Load these kernels (all, if none is named), or compile them, now: so that no later call has to wait.

    Examples
    --------
    >>> load("logit")  # before a service answers, or a clock runs
    """
    for kind in kinds or (*KINDS, SOFTMAX, COLUMNS):
        _LEDGER.loaded.add(_module_of(kind))
        if kind == COLUMNS:
            describe(np.ones((2, 4)))
            describe(np.ones((2, 4), order="F"))
            continue
        rows, frame = _Row(np.ones((1, 1)), np.ones(1), None, None), _Unit(np.zeros(1), np.ones(1), False)
        W = np.zeros((2 if kind == SOFTMAX else 1, 1))
        for call in (sums, gradient):
            call(kind, rows, frame, W)
        table = Table(kind, rows, frame)
        for in_parts in (table.sums_in_parts, table.gradient_in_parts):
            in_parts(W, np.array([0, 1])).some()


# --- The sums -------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """A block's log likelihood, its gradient, and minus its Hessian, in the flattened weights."""

    value: float
    score: Array  # (K·D,)
    information: Array  # (K·D, K·D), symmetric to the last bit


def sums(kind: str, rows: Rows, frame: Frame, W: Array) -> Sums:
    r"""Log likelihood of the weights W, its score, and minus its Hessian.

    .. math:: \sum_n w_n \log p(y_n \mid f_n), \quad \sum_n w_n (\log p)'(f_n) z_n, \quad
              -\sum_n w_n (\log p)''(f_n) z_n z_n^\top, \quad f_n = z_n^\top W + \mathrm{offset}_n

    Holds no lock while it runs, and starts no threads: callers run blocks on their own. The first call in an
    environment compiles, for some seconds; later processes load the result from disk.

    Parameters
    ----------
    kind : "logit", "probit", "poisson" or "softmax"
        Labels 0 and 1 with either threshold; counts with the log link; class codes (without offsets).
    rows : Rows
    frame : Frame
    W : (K, D) array
        Weights in the frame, K = 1 unless softmax, D = d, or d + 1 with an intercept.

    Returns
    -------
    Sums

    Notes
    -----
    Every exponential can only underflow, except a count's mean, which is inf where it is; no probability near one
    is subtracted from one, and log Φ is good to all digits in either tail. Row by row the numbers are those of the
    likelihood's own `expand`, to rounding.

    Examples
    --------
    >>> from collections import namedtuple
    >>> rows = namedtuple("Rows", "X y weight offset")(np.array([[14.0], [8.0]]), np.array([1.0, 0.0]), None, None)
    >>> frame = namedtuple("Frame", "center scale intercept")(np.array([10.0]), np.array([2.0]), True)
    >>> value, score, information = sums("logit", rows, frame, np.zeros((1, 2)))
    >>> round(value, 6)
    -1.386294
    >>> score
    array([1.5, 0. ])
    >>> information
    array([[1.25, 0.25],
           [0.25, 0.5 ]])
    """
    K, D = W.shape
    arguments = _block(kind, rows), *_frame(rows.X.shape[1], frame, W)
    if kind == SOFTMAX:
        value, score, information = _kernels(kind).sums(*arguments)
        return Sums(value, score.reshape(-1), information.reshape(K * D, K * D))
    value, score, information = _kernels(kind).sums(KINDS[kind], *arguments)
    return Sums(value, score[:D], information[:D, :D].copy())


def gradient(kind: str, rows: Rows, frame: Frame, W: Array) -> Array:
    """The score of the weights W: the second of `sums`, for less."""
    arguments = _block(kind, rows), *_frame(rows.X.shape[1], frame, W)
    score: Array
    if kind == SOFTMAX:
        score = _kernels(kind).gradient(*arguments)
        return score.reshape(-1)
    score = _kernels(kind).gradient(KINDS[kind], *arguments)[: W.shape[1]]
    return score


class Parts:
    """A pass over a table in parts, which any number of threads take up one after the other without the interpreter.

    What comes out does not depend on who took which: parts are added up in their order.

    Parameters
    ----------
    count : int
        Number of parts.
    work : function of (turn, most, out)
        Does up to `most` parts that nobody has begun, by the counters in `turn`, into their rows of `out`.
    width : int
        Numbers that come of a part.
    """

    def __init__(self, count: int, work: Callable[..., None], width: int) -> None:
        self.count, self._work = count, work
        self._turn, self._out = np.zeros(COUNTERS, dtype=np.int64), np.empty((count, width))

    def some(self) -> bool:
        """Do some parts that nobody has begun; whether there may be more."""
        self._work(self._turn, AT_ONCE, self._out)
        return bool(self._turn[0] < self.count)

    def ended(self) -> bool:
        """Whether all are done; waits for others, for a fraction of a millisecond at most."""
        done: bool = _parts().all_done(self._turn, self.count, ROUNDS)
        return done

    def stop(self) -> None:
        """Begin nothing more."""
        self._turn[0] = self.count

    @property
    def total(self) -> Array:
        """The sum of all parts."""
        return np.asarray(self._out.sum(axis=0) if self.count > 1 else self._out[0])


class Table:
    """Rows and a frame, given as for `sums`, made ready once for all passes of a search."""

    def __init__(self, kind: str, rows: Rows, frame: Frame) -> None:
        self._kind, self._frame = kind, frame
        self._block, self._columns = _block(kind, rows), (_as_compiled(frame.center), _as_compiled(frame.scale))
        self._n_columns = rows.X.shape[1]

    def sums_in_parts(self, W: Array, cuts: Codes) -> Parts:
        """`sums` of the rows, cut at these: a value, a score and an information, one behind the other."""
        return self._in_parts("some_sums", W, cuts, 1 + W.size + W.size**2)

    def gradient_in_parts(self, W: Array, cuts: Codes) -> Parts:
        """`gradient` of the rows, cut at these."""
        return self._in_parts("some_gradients", W, cuts, W.size)

    def _in_parts(self, name: str, W: Array, cuts: Codes, width: int) -> Parts:
        _check_weights(self._n_columns, self._frame, W)
        columns = *self._columns, _weights(W)
        asked = (
            (self._block, columns, cuts) if self._kind == SOFTMAX else (KINDS[self._kind], self._block, columns, cuts)
        )
        return Parts(len(cuts) - 1, partial(getattr(_kernels(self._kind), name), *asked), width)


def describe(X: AnyArray) -> tuple[Array, Array, Array, Array]:
    """Means, sums of squared deviations from them, minima and maxima of columns; NaN shows in the first two only.

    Examples
    --------
    >>> describe(np.array([[1.0, 5.0], [3.0, 5.0]]))[:2]
    (array([2., 5.]), array([2., 0.]))
    """
    down = X.shape[1] < FEWEST_ACROSS or (X.flags.f_contiguous and not X.flags.c_contiguous)
    kernels = _kernels(COLUMNS)
    mean, scatter, low, high = kernels.sums_down(_as_compiled(X.T)) if down else kernels.sums(_as_compiled(X))
    return mean, scatter, low, high


# --- The compiled modules -------------------------------------------------------------------------


def _module_of(kind: str) -> str:
    return {SOFTMAX: "_fused_softmax", COLUMNS: "_fused_columns"}.get(kind, "_fused_kernels")


@cache
def _kernels(kind: str) -> ModuleType:
    _forget_stale()
    return import_module(f"credibly.numerics.{_module_of(kind)}")


@cache
def _parts() -> ModuleType:
    return import_module("credibly.numerics._fused_parts")


@cache
def _last_changed() -> float:
    return max(source.stat().st_mtime for source in Path(__file__).parent.glob("_fused_*.py"))


@cache
def _forget_stale() -> None:
    """Remove compiled code that is older than any of its sources: numba looks only at the file of the function."""
    for index in Path(__file__).parent.glob("__pycache__/_fused_*.nbi"):
        try:
            if index.stat().st_mtime < _last_changed():
                index.unlink()
        except FileNotFoundError:  # another process was first
            continue


# --- Arguments as the compiled code wants them, which trusts the shapes it is given ---------------


def _block(kind: str, rows: Rows) -> tuple[Array | tuple[int, int], ...]:
    X, y, weight, offset = rows.X, rows.y, rows.weight, rows.offset
    beside = {"y": y, "weight": weight, "offset": offset}
    if X.ndim != 2 or any(part is not None and part.shape != X.shape[:1] for part in beside.values()):
        shapes = ", ".join(f"{name} {part.shape}" for name, part in beside.items() if part is not None)
        raise ValueError(f"X {X.shape}, {shapes} are not of one block.")
    weights = _as_compiled(NOTHING if weight is None else weight)
    if kind != SOFTMAX:
        return *_flat(X), _as_compiled(y), weights, _as_compiled(NOTHING if offset is None else offset)
    if offset is not None:
        raise ValueError("offsets of softmax scores are not known to the kernel.")
    return *_flat(X), _as_compiled(y, np.int64), weights


def _frame(d: int, frame: Frame, W: Array) -> tuple[Array, Array, Array]:
    _check_weights(d, frame, W)
    return _as_compiled(frame.center), _as_compiled(frame.scale), _weights(W)


def _check_weights(d: int, frame: Frame, W: Array) -> None:
    if not frame.center.shape == frame.scale.shape == (d,) or W.ndim != 2 or W.shape[1] != d + frame.intercept:
        raise ValueError(
            f"{d} columns, centres {frame.center.shape}, scales {frame.scale.shape} and weights {W.shape} do not fit "
            f"together {'with' if frame.intercept else 'without'} an intercept."
        )


def _weights(W: Array) -> Array:
    """A matrix for several classes, a vector for one score."""
    return _as_compiled(W if len(W) > 1 else W[0])


def _flat(X: AnyArray) -> tuple[Array, tuple[int, int]]:
    """The table as one stretch of memory and the steps from row to row and column to column; copied only if need be."""
    (b, d), item = X.shape, 8
    down, across = X.strides
    native = X.dtype == np.float64 and X.flags.aligned and min(down, across) > 0
    if X.flags.c_contiguous or not native or item not in (down, across) or (down | across) % item:
        return _as_compiled(X).reshape(-1), (d, 1)
    length = (b - 1) * (down // item) + (d - 1) * (across // item) + 1
    flat = np.lib.stride_tricks.as_strided(X, (length,), (item,), writeable=False)
    return flat, (down // item, across // item)


def _as_compiled(array: AnyArray, kind: type[np.generic] = np.float64) -> AnyArray:
    """A view of contiguous, aligned numbers that may not be written to: numba compiles once per kind of array."""
    rows = np.ascontiguousarray(array, dtype=kind)
    view = rows.view() if rows.flags.aligned else rows.copy()
    view.flags.writeable = False
    return view
