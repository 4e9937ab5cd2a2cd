"""Parts of a table that threads take up one after the other, compiled: counters that several may change at once.

Whoever helps stays for the next pass without the interpreter: to be woken takes longer than a pass over a small table.
"""

from collections.abc import Callable
from platform import machine
from typing import Any

from llvmlite import ir
from numba.core import types

from credibly.numerics._fused_base import fast, machine_code
from credibly.numerics._fused_vectors import WORD
from credibly.numerics.arrays import Array, Codes

BEGUN, DONE, ASKED, GONE = 0, 8, 16, 24  # places of counters, a line of memory apart: they do not wait for each other
COUNTERS = 32  # room for them
SCORES, SUMS = 0, 1  # what can be asked for
PAUSES = {"x86_64": "llvm.x86.sse2.pause", "AMD64": "llvm.x86.sse2.pause"}  # processors that can be told to wait


def _counter(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    turn = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(turn.data, [args[1]])


@machine_code
def count_up(typing: Any, turn: Any, place: Any) -> tuple[Any, Callable[..., Any]]:
    """Add one to turn[place], at once for all threads; what it was before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _counter(context, builder, signature, args), WORD(1), "seq_cst")

    return types.int64(turn, types.intp), generate


@machine_code
def counted(typing: Any, turn: Any, place: Any) -> tuple[Any, Callable[..., Any]]:
    """What is at turn[place] now, whichever thread has changed it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_counter(context, builder, signature, args), "seq_cst", 8)

    return types.int64(turn, types.intp), generate


@machine_code
def put(typing: Any, turn: Any, place: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    """turn[place] = number, after everything that was written before, for all threads."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _counter(context, builder, signature, args), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(turn, types.intp, types.int64), generate


@machine_code
def breathe(typing: Any) -> tuple[Any, Callable[..., Any]]:
    """Tell the processor that this thread only waits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if machine() in PAUSES:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic(PAUSES[machine()], [], kind), [])
        return context.get_dummy_value()

    return types.void(), generate


@fast
def begin(turn: Codes, asked: int) -> None:
    """Let parts be taken up, for this kind of sum; those of the pass before are all done."""
    put(turn, ASKED, asked)
    put(turn, DONE, 0)
    put(turn, BEGUN, 0)


@fast
def next_part(turn: Codes, count: int, rounds: int) -> int:
    """A part that nobody has begun, asked for up to so many times; -1 if there is none, and helpers go."""
    for _ in range(rounds):
        if counted(turn, BEGUN) < count:
            part: int = count_up(turn, BEGUN)
            if part < count:
                return part
        breathe()
    if rounds > 1:  # a helper; before it waits for the interpreter, so that the next pass does not count on it
        count_up(turn, GONE)
    return -1


@fast
def all_done(turn: Codes, count: int, rounds: int) -> bool:
    """Whether so many parts are done; asked again up to so many times, without the interpreter."""
    for _ in range(rounds):
        if counted(turn, DONE) >= count:
            return True
        breathe()
    return False


@fast
def keep(numbers: Array, out: Array) -> None:
    """Copy as many as there are."""
    for i in range(numbers.size):
        out[i] = numbers[i]
