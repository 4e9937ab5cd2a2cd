"""What the compiled code behind `fused` is made of: numba's decorators, an exponential and a logarithm.

Loops over a tile's rows are written so that LLVM vectorises them: no branches, sums that may be reassociated where a
function is `fast` (the only licence given beyond fused multiply-add: NaN and infinity keep their meaning), and few
enough arrays per loop for its check that they do not overlap. What rounds on purpose is `exact`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import factorial
from typing import Any, TypeVar, cast

import numba
import numba.extending
from llvmlite import ir
from numba.core import types

Function = TypeVar("Function", bound=Callable[..., Any])

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # k·LN2_HIGH is exact for |k| < 2²¹
ROUNDER = 1.5 * 2.0**52  # x + ROUNDER has x, rounded, in its lowest bits
LOWEST = -708.396418532264  # log of the smallest normal number
EXP = tuple(1 / factorial(k) for k in range(14))  # |t| ≤ log(2)/2: the next term is 4e-18
# (artanh(q) / q - 1) / q² as a polynomial in q² ≤ 1/9: of the Chebyshev series of artanh(q) / q to degree 10, computed
# with 60 digits. The next term is 1e-18.
ARTANH = (
    0.3333333333333307, 0.20000000000094656, 0.14285714272520955, 0.11111112052466518, 0.09090870008906127,
    0.07693315371624586, 0.06650081100282697, 0.060558960079100006, 0.041588104702145766, 0.08528287251473514,
)  # fmt: skip
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # of √½: mantissas are taken from there to √2
ROUNDER_BITS = 0x4338000000000000


def compiled(fastmath: set[str]) -> Callable[[Function], Function]:
    """Numba's decorator, typed; the result is kept on disk where the disk can be written to."""
    # NumPy's division by zero: Python's is a branch, and a loop with a branch is not vectorised
    njit = partial(numba.njit, nogil=True, fastmath=fastmath, error_model="numpy")

    def decorate(function: Function) -> Function:
        try:
            return cast(Function, njit(cache=True)(function))
        except RuntimeError:  # "cannot cache function: no locator available": a read-only installation
            return cast(Function, njit()(function))

    return decorate


def machine_code(build: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's decorator for functions written in LLVM, whose first argument only the compiler sees."""
    return cast(Callable[..., Any], numba.extending.intrinsic(build))


exact = compiled({"contract"})
fast = compiled({"contract", "reassoc"})


def _on_bits(change: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """A function of one number that works on its 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        word = ir.IntType(64)
        return builder.bitcast(change(builder, word, builder.bitcast(args[0], word)), ir.DoubleType())

    return generate


@machine_code
def power_of_two(typing: Any, rounded: Any) -> tuple[Any, Callable[..., Any]]:
    """2^k from k + ROUNDER, -1023 < k < 1024: the lowest bits, biased, moved to where the exponent is."""

    def change(builder: Any, word: Any, bits: Any) -> Any:
        return builder.shl(builder.add(bits, word(1023)), word(52))

    return types.float64(types.float64), _on_bits(change)


def _exponent_bits(builder: Any, word: Any, bits: Any) -> Any:
    return builder.ashr(builder.sub(bits, word(ROOT_HALF_BITS)), word(52))


@machine_code
def exponent(typing: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    """k + ROUNDER for x = 2^k m with √½ ≤ m < √2; x must be a positive normal number."""

    def change(builder: Any, word: Any, bits: Any) -> Any:
        return builder.add(_exponent_bits(builder, word, bits), word(ROUNDER_BITS))

    return types.float64(types.float64), _on_bits(change)


@machine_code
def mantissa(typing: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    """That m."""

    def change(builder: Any, word: Any, bits: Any) -> Any:
        return builder.sub(bits, builder.shl(_exponent_bits(builder, word, bits), word(52)))

    return types.float64(types.float64), _on_bits(change)


@exact
def exponential(x: float, rest: float) -> float:
    """e^(x + rest), x ≤ 709 and |rest| of order one, to about one unit in the last place; 0 where no normal number."""
    rounded = (x + rest) * LOG2_E + ROUNDER
    k = rounded - ROUNDER
    t = ((x - k * LN2_HIGH) - k * LN2_LOW) + rest
    p = EXP[13]
    for c in EXP[12::-1]:
        p = p * t + c
    raised: float = p * power_of_two(rounded)
    return 0.0 if x < LOWEST else raised


@exact
def log_of_quotient(num: float, den: float) -> float:
    """log((den + num) / (den - num)) = 2 artanh(num / den), |num| ≤ den / 3: no reduction, nothing lost to tiny num."""
    q = num / den
    x = q * q
    y = x * x
    even, odd = ARTANH[8], ARTANH[9]
    for c in ARTANH[6::-2]:
        even = even * y + c
    for c in ARTANH[7::-2]:
        odd = odd * y + c
    return 2.0 * q + 2.0 * q * x * (even + x * odd)


@exact
def logarithm(x: float) -> float:
    """log x of a positive normal number."""
    k, m = exponent(x) - ROUNDER, mantissa(x)
    log_x: float = k * LN2_HIGH + (log_of_quotient(m - 1.0, m + 1.0) + k * LN2_LOW)
    return log_x
