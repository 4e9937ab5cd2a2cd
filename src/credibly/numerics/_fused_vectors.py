"""Vectors of four numbers in LLVM's own words: what numba's compiler does not make of a loop by itself.

A table is read where it lies, in groups of four columns; the last group overlaps the one before it where their number
is no multiple of four.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

WIDTH = 4
WORD, LANE, NUMBER = ir.IntType(64), ir.IntType(32), ir.DoubleType()
VECTOR = ir.VectorType(NUMBER, WIDTH)
LANES = ir.VectorType(LANE, WIDTH)
FUSED = ("contract",)  # a product and a sum may be rounded once


class Vectors:
    """Loads, stores and shuffles while one function is generated.

    Parameters
    ----------
    context, builder, signature, args
        What numba gives to the generator of an intrinsic.
    """

    zero = ir.Constant(VECTOR, [0.0] * WIDTH)

    def __init__(self, context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> None:
        self.builder = builder
        self.args = [
            context.make_array(kind)(context, builder, arg) if isinstance(kind, types.Array) else arg
            for kind, arg in zip(signature.args, args, strict=True)
        ]

    def plus(self, a: Any, b: Any) -> Any:
        """Sum of two offsets."""
        return self.builder.add(a, b)

    def at(self, array: Any, offset: Any, kind: Any = VECTOR) -> Any:
        """Where a vector is, counted from the array's first number."""
        return self.builder.bitcast(self.builder.gep(array.data, [offset]), kind.as_pointer())

    def load(self, array: Any, offset: Any) -> Any:
        """Four numbers from there on."""
        return self.builder.load(self.at(array, offset), align=8)

    def store(self, vector: Any, array: Any, offset: Any) -> None:
        """Four numbers to there."""
        self.builder.store(vector, self.at(array, offset), align=8)

    def prefetch(self, array: Any, offset: Any) -> None:
        """Ask for the line of memory there, which may lie past the end."""
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, LANE, LANE, LANE])
        fetch = self.builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, soon, data = LANE(0), LANE(3), LANE(1)
        self.builder.call(fetch, [self.at(array, offset, ir.IntType(8)), read, soon, data])

    def in_row(self, array: Any, i: Any, j: Any) -> Any:
        """The offset of array[i, j]; rows of the array are contiguous."""
        return self.plus(self.builder.mul(i, self.builder.extract_value(array.shape, 1)), j)

    def pick(self, a: Any, b: Any, *lanes: int) -> Any:
        """A vector of lanes of a (0 … 3) and b (4 … 7)."""
        return self.builder.shuffle_vector(a, b, LANES(lanes))

    def across(self, a: Any, b: Any, c: Any, d: Any) -> Any:
        """The sums of the lanes of four vectors."""
        halves = [self.add(self.pick(p, q, 0, 4, 2, 6), self.pick(p, q, 1, 5, 3, 7)) for p, q in ((a, b), (c, d))]
        return self.add(self.pick(*halves, 0, 1, 4, 5), self.pick(*halves, 2, 3, 6, 7))

    def spread(self, array: Any, offset: Any) -> Any:
        """One number in all four lanes."""
        one = self.builder.load(self.at(array, offset, NUMBER), align=8)
        first = self.builder.insert_element(ir.Constant(VECTOR, ir.Undefined), one, LANE(0))
        return self.pick(first, first, 0, 0, 0, 0)

    def minus(self, a: Any, b: Any) -> Any:
        """Difference of vectors."""
        return self.builder.fsub(a, b, flags=FUSED)

    def add(self, a: Any, b: Any) -> Any:
        """Sum of vectors."""
        return self.builder.fadd(a, b, flags=FUSED)

    def times(self, a: Any, b: Any) -> Any:
        """Product of vectors, lane by lane."""
        return self.builder.fmul(a, b, flags=FUSED)

    def variable(self, start: Any) -> Any:
        """A vector that changes in a loop."""
        with self.builder.goto_entry_block():  # room on the stack once, not once in every round of a loop
            place = self.builder.alloca(VECTOR)
        self.set(place, start)
        return place

    def get(self, variable: Any) -> Any:
        """What it holds."""
        return self.builder.load(variable)

    def set(self, variable: Any, vector: Any) -> None:
        """Let it hold this."""
        self.builder.store(vector, variable)

    def rows(self, start: Any, step: Any, count: int) -> list[Any]:
        """Offsets of this many rows."""
        return [self.plus(start, self.builder.mul(step, WORD(r))) for r in range(count)]

    def groups(self, d: Any) -> Any:
        """How many groups of four there are in d columns."""
        return self.builder.udiv(self.plus(d, WORD(WIDTH - 1)), WORD(WIDTH))

    def group(self, g: Any, d: Any) -> tuple[Any, Any]:
        """The first column of group g among d of them, and where its four lanes are in an array padded to groups."""
        lanes, last = self.builder.mul(g, WORD(WIDTH)), self.builder.sub(d, WORD(WIDTH))
        inside = self.builder.icmp_signed("<", lanes, last)
        return self.builder.select(inside, lanes, last), lanes


def intrinsic(generate: Callable[[Vectors], None], *arguments: Any) -> tuple[Any, Callable[..., Any]]:
    """What numba asks of an intrinsic that returns nothing: its signature and its generator."""

    def whole(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        generate(Vectors(context, builder, signature, args))
        return context.get_dummy_value()

    return types.void(*arguments), whole
