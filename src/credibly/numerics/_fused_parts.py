"""Parts of a table that threads take up one after the other, compiled: counters that several may change at once."""

from collections.abc import Callable
from typing import Any

from numba.core import types

from credibly.numerics._fused_base import fast, machine_code
from credibly.numerics._fused_vectors import WORD
from credibly.numerics.arrays import Codes

BEGUN, DONE = 0, 8  # places of the counters: a line of memory apart, so that they do not wait for each other


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


@fast
def all_done(turn: Codes, count: int, rounds: int) -> bool:
    """Whether so many parts are done; asked again up to so many times, without the interpreter."""
    for _ in range(rounds):
        if counted(turn, DONE) >= count:
            return True
    return False
