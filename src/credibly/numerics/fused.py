"""Sums over a block of rows for the logit likelihood, in one compiled walk: value, score and information.

They are what `BernoulliLogit.expand` and `weighted_gram` give, without the arrays in between: a block is standardised,
scored and summed in tiles that stay in cache. `available` says whether the compiler is there; where it is not,
NumPy does the same.
"""

import logging
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

from credibly.numerics.arrays import AnyArray, Array

NO_WEIGHT = np.empty(0)

WORTH_CALLING = 20_000  # numbers in a pass, once the kernels are loaded
WORTH_LOADING = 1_500_000  # numbers walked by NumPy so far: somebody is fitting tables that profit; loading takes 0.4 s
WORTH_COMPILING = 20_000_000  # numbers in one pass: compiling takes some ten seconds, once for an installation


@cache
def available() -> bool:
    """Whether numba can be imported; asking does import it, which takes a third of a second the first time."""
    try:
        _kernels()
    except ImportError:
        return False
    return True


class _Ledger:
    """What NumPy has walked over in this process, to judge when loading the kernels pays: renting against buying."""

    def __init__(self) -> None:
        self.walked = 0

    def pays(self, numbers: int) -> bool:
        if numbers < WORTH_CALLING:
            return False
        if _kernels.cache_info().currsize == 0:
            self.walked += numbers
            if numbers < WORTH_COMPILING and (self.walked < WORTH_LOADING or not compiled_before()):
                return False
            if not compiled_before():
                logging.getLogger("credibly").warning(
                    "credibly compiles its kernels for large tables, once for this installation: some ten seconds"
                )
        return available()


@cache
def compiled_before() -> bool:
    """Whether an earlier process has left compiled kernels beside the sources, newer than those."""
    source = Path(__file__).with_name("_fused_kernels.py")
    left = source.parent.glob("__pycache__/_fused_kernels.sums-*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in left)


pays = _Ledger().pays


def logit_sums(  # noqa: PLR0913 - a block and a frame
    X: AnyArray, y: Array, weight: Array | None, center: Array, scale: Array, u: Array, *, intercept: bool
) -> tuple[float, Array, Array]:
    r"""Log likelihood of the weights u, its score, and minus its Hessian.

    .. math:: \sum_n w_n \log \sigma((2y_n - 1) f_n), \quad \sum_n w_n (y_n - \sigma(f_n)) z_n, \quad
              \sum_n w_n \sigma(f_n) \sigma(-f_n) z_n z_n^\top, \quad f_n = z_n^\top u

    Holds no lock while it runs, and starts no threads: callers run blocks on their own. The first call in an
    environment compiles, for some seconds; later processes load the result from disk.

    Parameters
    ----------
    X : (b, d) array
        Rows; converted to contiguous float64 rows if they are something else.
    y : (b,) array
        Class codes, 0 or 1.
    weight : (b,) array or None
        Weights ≥ 0 of the rows; None is one everywhere.
    center, scale : (d,) arrays
        The frame: z = ((x - center) / scale, 1).
    u : (D,) array
        Weights in the frame, D = d, or d + 1 with an intercept.
    intercept : bool
        Whether z ends with a one.

    Returns
    -------
    value : float
    score : (D,) array
    information : (D, D) array, symmetric to the last bit

    Notes
    -----
    One exponential e^-|f| serves all three and can only underflow: σ(-|f|) is e^-|f| / (1 + e^-|f|), never 1 - σ(|f|),
    and is 0 only where |f| > 708.

    Examples
    --------
    >>> X, y, u = np.array([[14.0], [8.0]]), np.array([1.0, 0.0]), np.zeros(2)
    >>> value, score, information = logit_sums(X, y, None, np.array([10.0]), np.array([2.0]), u, intercept=True)
    >>> round(value, 6)
    -1.386294
    >>> score
    array([1.5, 0. ])
    >>> information
    array([[1.25, 0.25],
           [0.25, 0.5 ]])
    """
    arguments = *_block(X, y, weight), *_frame(X.shape[1], center, scale, u, intercept=intercept)
    value, score, information = _kernels().sums(*arguments)
    return value, score[: u.size], information[: u.size, : u.size].copy()


def logit_gradient(  # noqa: PLR0913 - a block and a frame
    X: AnyArray, y: Array, weight: Array | None, center: Array, scale: Array, u: Array, *, intercept: bool
) -> tuple[float, Array]:
    """Log likelihood of the weights u and its score: the first two of `logit_sums`."""
    arguments = *_block(X, y, weight), *_frame(X.shape[1], center, scale, u, intercept=intercept)
    value, score = _kernels().gradient(*arguments)
    return value, score[: u.size]


@cache
def _kernels() -> ModuleType:
    from credibly.numerics import _fused_kernels

    return _fused_kernels


def _block(X: AnyArray, y: Array, weight: Array | None) -> tuple[Array, Array, Array]:
    """The block as the compiled code wants it, which trusts the shapes it is given."""
    if X.ndim != 2 or y.shape != X.shape[:1] or (weight is not None and weight.shape != y.shape):
        shape = "no weight" if weight is None else f"weight {weight.shape}"
        raise ValueError(f"X {X.shape}, y {y.shape} and {shape} are not of one block.")
    return _as_compiled(X), _as_compiled(y), _as_compiled(NO_WEIGHT if weight is None else weight)


def _frame(d: int, center: Array, scale: Array, u: Array, *, intercept: bool) -> tuple[Array, Array, Array]:
    """The frame and the weights in it, likewise."""
    if not center.shape == scale.shape == (d,) or u.shape != (d + intercept,):
        raise ValueError(
            f"{d} columns, centres {center.shape}, scales {scale.shape} and weights {u.shape} do not fit together "
            f"{'with' if intercept else 'without'} an intercept."
        )
    return _as_compiled(center), _as_compiled(scale), _as_compiled(u)


def _as_compiled(array: AnyArray) -> Array:
    """A view of contiguous, aligned float64 that may not be written to: numba compiles once per kind of array."""
    rows = np.ascontiguousarray(array, dtype=np.float64)
    view = rows.view() if rows.flags.aligned else rows.copy()
    view.flags.writeable = False
    return view
