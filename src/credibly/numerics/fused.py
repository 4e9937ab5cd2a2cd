"""Sums over a block of rows for the hot likelihoods, in one compiled walk: value, score and information.

They are what the likelihood's `expand` and weighted Gram matrices give, without the arrays in between: a block is
standardised, scored and summed in tiles that stay in cache. Where the compiler is missing NumPy does the same.
"""

import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha1
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np

from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.fused_arguments import CODED, Frame, Rows, as_compiled, block_of, frame_of, weights_of

KINDS = {"logit": 0, "probit": 1, "poisson": 2}  # the numbers of `_fused_rows`
SOFTMAX = CODED
COLUMNS = "columns"

FEWEST_ACROSS = 4  # columns that make a vector: fewer are described one by one

FOR_EVER = 2**62
AT_ONCE = 16  # parts done without the interpreter: some ten milliseconds, after which Ctrl-C is heard
ROUNDS = 10_000  # of asking whether there is more to do, or others are done: a quarter of a millisecond

WORTH_CALLING = 10_000  # numbers in a pass, once the kernels are loaded
WORTH_LOADING = 1_500_000  # numbers walked by NumPy so far: somebody is fitting tables that profit; loading takes 0.4 s
WORTH_COMPILING = 20_000_000  # numbers in one pass: compiling takes some twenty seconds, once for an installation
WALKED_LONG = 1_000_000_000  # numbers walked by NumPy so far, which took about as long as compiling


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
        self.told = False  # that compiling takes a while

    def pays(self, kind: str, numbers: int) -> bool:
        if numbers < WORTH_CALLING:
            return False
        module = _module_of(kind)
        if module not in self.loaded:
            self.walked[module] = self.walked.get(module, 0) + numbers
            if not self._worth_loading(module, numbers):
                return False
            self.loaded.add(module)
            if available() and not compiled_before(module):
                self._compile(kind)
        return available()

    def _worth_loading(self, module: str, numbers: int) -> bool:
        walked = WORTH_LOADING if compiled_before(module) else WALKED_LONG
        return numbers >= WORTH_COMPILING or self.walked[module] >= walked

    def _compile(self, kind: str) -> None:
        """All of a module, so that later processes find it whole, whatever they read rows from."""
        if not self.told:
            logging.getLogger("credibly").warning(
                "credibly compiles its kernels for large tables, once for this installation: some twenty seconds"
            )
        self.told = True
        load(kind)


@cache
def compiled_before(module: str) -> bool:
    """Whether an earlier process has left this module, compiled, newer than the sources."""
    changed = _last_changed()
    left = _compiled_folder().glob(f"{module}.take_up-*.nbi")  # which is made of the others
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
            _walk(Columns(np.ones((2, 4)), np.array([0, 2])))
            continue
        rows, frame = _Row(np.ones((1, 1)), np.ones(1), None, None), _Unit(np.zeros(1), np.ones(1), False)
        W = np.zeros((2 if kind == SOFTMAX else 1, 1))
        for call in (sums, gradient):
            call(kind, rows, frame, W)
        _walk(Table(kind, rows, frame, np.array([0, 1]), W.shape))


def _walk(parts: "Parts") -> None:
    """A pass from beginning to end."""
    parts.begin()
    while parts.some() or not parts.ended():
        pass


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
    arguments = block_of(kind, rows), *frame_of(rows.X.shape[1], frame, W)
    if kind == SOFTMAX:
        value, score, information = _kernels(kind).sums(*arguments)
        return Sums(value, score.reshape(-1), information.reshape(K * D, K * D))
    value, score, information = _kernels(kind).sums(KINDS[kind], *arguments)
    return Sums(value, score[:D], information[:D, :D].copy())


def gradient(kind: str, rows: Rows, frame: Frame, W: Array) -> Array:
    """The score of the weights W: the second of `sums`, for less."""
    arguments = block_of(kind, rows), *frame_of(rows.X.shape[1], frame, W)
    score: Array
    if kind == SOFTMAX:
        score = _kernels(kind).gradient(*arguments)
        return score.reshape(-1)
    score = _kernels(kind).gradient(KINDS[kind], *arguments)[: W.shape[1]]
    return score


class Parts(ABC):
    """Passes over rows that are cut into parts, which threads take up one after the other without the interpreter.

    What comes out does not depend on who took which: every part has its own row of `out`.

    Parameters
    ----------
    cuts : (parts + 1,) int array
        Where rows are cut.
    """

    rounds = ROUNDS  # that a helper waits for the next pass

    def __init__(self, cuts: Codes) -> None:
        self.cuts, self.count = cuts, len(cuts) - 1
        self._make_room()

    def _make_room(self) -> None:
        self._turn = np.zeros(_parts().COUNTERS, dtype=np.int64)
        self._turn[_parts().BEGUN] = self.count  # all
        self._take_up, self.out = self._work()

    @abstractmethod
    def _work(self) -> tuple[Callable[..., None], Array]:
        """The compiled function of (patience, out) that takes up parts by the counters, and an array for results."""

    def begin(self, asked: int = 0) -> None:
        """Begin a pass for what is asked."""
        _parts().begin(self._turn, asked)

    def some(self) -> bool:
        """Do some parts that nobody has begun; whether there may be more."""
        self._take_up((AT_ONCE, 1), self.out)
        return bool(self._turn[_parts().BEGUN] < self.count)

    def attend(self) -> None:
        """Do parts that nobody has begun, of this pass and of those that follow soon."""
        self._take_up((FOR_EVER, self.rounds), self.out)

    @property
    def gone(self) -> int:
        """How many of those who attended have gone again."""
        return int(self._turn[_parts().GONE])

    def ended(self) -> bool:
        """Whether all are done; waits for others, for a fraction of a millisecond at most."""
        done: bool = _parts().all_done(self._turn, self.count, ROUNDS)
        return done

    def stop(self) -> None:
        """Begin nothing more; whoever is still at work on a part does no harm to later passes."""
        self._turn[_parts().BEGUN] = self.count
        self._make_room()


class Table(Parts):
    """Rows and a frame, made ready once for all passes of a search, each with its own weights.

    Parameters
    ----------
    kind, rows, frame
        As for `sums`.
    cuts : (parts + 1,) int array
    shape : tuple of int
        That of W.
    """

    def __init__(self, kind: str, rows: Rows, frame: Frame, cuts: Codes, shape: tuple[int, int]) -> None:
        self._kind, self._block, self._shape = kind, block_of(kind, rows), shape
        self._columns, self._width = frame_of(rows.X.shape[1], frame, np.zeros(shape))[:2], 0
        super().__init__(cuts)

    def _work(self) -> tuple[Callable[..., None], Array]:
        M, self._W = self._shape[0] * self._shape[1], np.zeros(self._shape)
        asked = self._block, (*self._columns, weights_of(self._W)), self.cuts, self._turn
        named = asked if self._kind == SOFTMAX else (KINDS[self._kind], *asked)
        return partial(_kernels(self._kind).take_up, *named), np.empty((self.count, 1 + M + M**2))

    def ask_sums(self, W: Array) -> None:
        """Begin a pass for `sums`: a value, a score and an information, one behind the other."""
        self._ask(W, _parts().SUMS, 1 + W.size + W.size**2)

    def ask_gradient(self, W: Array) -> None:
        """Begin a pass for `gradient`."""
        self._ask(W, _parts().SCORES, W.size)

    def _ask(self, W: Array, what: int, width: int) -> None:
        if W.shape != self._shape:
            raise ValueError(f"weights {W.shape} were announced as {self._shape}.")
        self._W[:], self._width = W, width
        self.begin(what)

    @property
    def total(self) -> Array:
        """The sum of all parts, in their order."""
        found = self.out[:, : self._width]
        return np.asarray(found.sum(axis=0) if self.count > 1 else found[0].copy())


class Columns(Parts):
    """Columns of a table with contiguous rows, described part by part: `out` is (parts, 4, d), as `describe` has it."""

    rounds = 2  # there is no next one

    def __init__(self, X: Array, cuts: Codes) -> None:
        self._X = as_compiled(X)
        super().__init__(cuts)

    def _work(self) -> tuple[Callable[..., None], Array]:
        out = np.empty((self.count, 4, self._X.shape[1]))
        return partial(_kernels(COLUMNS).take_up, self._X, self.cuts, self._turn), out


def describe(X: AnyArray) -> tuple[Array, Array, Array, Array]:
    """Means, sums of squared deviations from them, minima and maxima of columns; NaN shows in the first two only.

    Examples
    --------
    >>> describe(np.array([[1.0, 5.0], [3.0, 5.0]]))[:2]
    (array([2., 5.]), array([2., 0.]))
    """
    down = X.shape[1] < FEWEST_ACROSS or (X.flags.f_contiguous and not X.flags.c_contiguous)
    kernels = _kernels(COLUMNS)
    mean, scatter, low, high = kernels.sums_down(as_compiled(X.T)) if down else kernels.sums(as_compiled(X))
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


def _compiled_folder() -> Path:
    """Where numba keeps what it compiled: as told by NUMBA_CACHE_DIR, beside the sources, or else with a user's caches.

    Asking numba would import it, which takes longer than most fits.
    """
    here = Path(__file__).absolute().parent
    beside = here / "__pycache__"
    kept = os.environ.get("NUMBA_CACHE_DIR") or None
    if kept is None and os.access(beside if beside.exists() else here, os.W_OK):
        return beside
    own = f"{here.name}_{sha1(str(here).encode(), usedforsecurity=False).hexdigest()}"
    return (_user_caches() if kept is None else Path(kept)) / own


def _user_caches() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "numba" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "numba"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "numba"


@cache
def _forget_stale() -> None:
    """Remove compiled code that is older than any of its sources: numba looks only at the file of the function."""
    for index in _compiled_folder().glob("_fused_*.nbi"):
        try:
            if index.stat().st_mtime < _last_changed():
                index.unlink()
        except FileNotFoundError:  # another process was first
            continue
