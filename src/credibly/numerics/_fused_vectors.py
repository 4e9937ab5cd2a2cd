"""Vectors of four numbers in LLVM's own words: what numba's compiler does not make of a loop by itself.

A table is read where it lies, in groups of four columns; the last group overlaps the one before it where their number
is no multiple of four.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

WIDTH = 4
LINE = 8  # numbers in a line of memory
WORD, LANE, NUMBER, BYTE = ir.IntType(64), ir.IntType(32), ir.DoubleType(), ir.IntType(8)
VECTOR = ir.VectorType(NUMBER, WIDTH)
LANES = ir.VectorType(LANE, WIDTH)
ZERO = ir.Constant(VECTOR, [0.0] * WIDTH)
FUSED = ("contract",)  # a product and a sum may be rounded once


class Vectors:
    """Loads, stores and shuffles while one function is generated.

    Parameters
    ----------
    context, builder, signature, args
        What numba gives to the generator of an intrinsic.
    """

    def __init__(self, context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> None:
        self.builder = builder
        self.args = [
            context.make_array(kind)(context, builder, arg) if isinstance(kind, types.Array) else arg
            for kind, arg in zip(signature.args, args, strict=True)
        ]

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
        """Ask for the line of memory there, which may lie past the end, to be in the second-level cache.

        The first-level one is no larger than what is being worked on: lines sent there would push that out.
        """
        address = BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [address, LANE, LANE, LANE])
        fetch = self.builder.module.declare_intrinsic("llvm.prefetch", [address], kind)
        read, second_level, data = LANE(0), LANE(2), LANE(1)
        self.builder.call(fetch, [self.at(array, offset, BYTE), read, second_level, data])

    def in_row(self, array: Any, i: Any, j: Any) -> Any:
        """The offset of array[i, j]; rows of the array are contiguous."""
        return self.builder.add(self.builder.mul(i, self.builder.extract_value(array.shape, 1)), j)

    def rows(self, start: Any, step: Any, count: int) -> list[Any]:
        """Offsets of this many rows."""
        return [self.builder.add(start, self.builder.mul(step, WORD(r))) for r in range(count)]

    def pick(self, a: Any, b: Any, *lanes: int) -> Any:
        """A vector of lanes of a (0 … 3) and b (4 … 7)."""
        return self.builder.shuffle_vector(a, b, LANES(lanes))

    def across(self, a: Any, b: Any, c: Any, d: Any) -> Any:
        """The sums of the lanes of four vectors."""
        add, pick = self.builder.fadd, self.pick
        halves = [add(pick(p, q, 0, 4, 2, 6), pick(p, q, 1, 5, 3, 7)) for p, q in ((a, b), (c, d))]
        return add(pick(*halves, 0, 1, 4, 5), pick(*halves, 2, 3, 6, 7))

    def spread(self, array: Any, offset: Any) -> Any:
        """One number in all four lanes."""
        one = self.builder.load(self.at(array, offset, NUMBER), align=8)
        first = self.builder.insert_element(ir.Constant(VECTOR, ir.Undefined), one, LANE(0))
        return self.pick(first, first, 0, 0, 0, 0)

    def plus_product(self, total: Any, a: Any, b: Any) -> Any:
        """Return total + a b, lane by lane."""
        return self.builder.fadd(total, self.builder.fmul(a, b, flags=FUSED), flags=FUSED)

    def variable(self, first: Any = ZERO) -> Any:
        """Where a vector that changes in a loop is kept (in a register, after all), and what it is at first."""
        with self.builder.goto_entry_block():  # room on the stack once, not once in every round of a loop
            place = self.builder.alloca(first.type)
        self.builder.store(first, place)
        return place


def load_first(v: Vectors, array: Any, offset: Any, count: Any) -> Any:
    """The first `count` of the four numbers from there on, zeros after them; what lies further on is not read."""
    build, bits = v.builder, ir.VectorType(ir.IntType(1), WIDTH)
    one = build.insert_element(ir.Constant(LANES, ir.Undefined), build.trunc(count, LANE), LANE(0))
    counts = build.shuffle_vector(one, one, LANES([0] * WIDTH))
    wanted = build.icmp_signed("<", LANES(list(range(WIDTH))), counts)
    place = v.at(array, offset)
    kind = ir.FunctionType(VECTOR, [place.type, LANE, bits, VECTOR])
    name = "llvm.masked.load.v4f64.p0"  # llvmlite cannot spell the names of vectors itself
    load = build.module.globals.get(name) or ir.Function(build.module, kind, name)
    return build.call(load, [place, LANE(8), wanted, ZERO])


def turned(v: Vectors, z: Sequence[Any]) -> list[Any]:
    """Four vectors as the rows of a table: its columns."""
    even = [v.pick(z[r], z[r + 1], 0, 4, 2, 6) for r in (0, 2)]
    odd = [v.pick(z[r], z[r + 1], 1, 5, 3, 7) for r in (0, 2)]
    return [v.pick(*pair, *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for pair in (even, odd)]


def picked(v: Vectors, sign: str, a: Any, b: Any) -> Any:
    """Lane by lane, a where "a sign b" holds, else b: the smaller of the two, or the larger."""
    return v.builder.select(v.builder.fcmp_ordered(sign, a, b), a, b)


def row_of(v: Vectors, array: Any, i: Any) -> tuple[Any, Any]:
    """Where row i of the array starts, and the step from a row to the next; rows are contiguous."""
    step = v.builder.extract_value(array.shape, 1)
    return v.builder.mul(i, step), step


def groups(builder: Any, d: Any) -> Any:
    """How many groups of four there are in d columns."""
    return builder.udiv(builder.add(d, WORD(WIDTH - 1)), WORD(WIDTH))


def group(builder: Any, g: Any, d: Any) -> tuple[Any, Any]:
    """The first column of group g among d of them, and where its four lanes are in an array padded to groups."""
    lanes, last = builder.mul(g, WORD(WIDTH)), builder.sub(d, WORD(WIDTH))
    return builder.select(builder.icmp_signed("<", lanes, last), lanes, last), lanes


def intrinsic(generate: Callable[[Vectors], None], *arguments: Any) -> tuple[Any, Callable[..., Any]]:
    """What numba asks of an intrinsic that returns nothing: its signature and its generator."""

    def whole(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        generate(Vectors(context, builder, signature, args))
        return context.get_dummy_value()

    return types.void(*arguments), whole
