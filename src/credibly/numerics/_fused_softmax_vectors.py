"""Vectors as wide as the machine has them, in LLVM's own words: eight numbers and 32 of them, or four and 16."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target

from credibly.numerics._fused_base import EXP, LN2_HIGH, LN2_LOW, LOG2_E, LOWEST, ROUNDER, fast
from credibly.numerics._fused_vectors import LANE, LINE, NUMBER, WORD, Vectors
from credibly.numerics.arrays import Array

# What numba compiles for, which is also what it keeps compiled code by
AVX512 = "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2]
WIDTH = 8 if AVX512 else 4
VECTOR = ir.VectorType(NUMBER, WIDTH)
CODES = ir.VectorType(WORD, WIDTH)


@fast
def aligned(rows: int, columns: int) -> Array:
    """A matrix of zeros that starts with a line of memory: a vector across two lines takes twice as long to load."""
    flat = np.zeros(rows * columns + LINE)
    skip = -flat.ctypes.data % (8 * LINE) // 8
    return flat[skip : skip + rows * columns].reshape(rows, columns)


def everywhere(x: float) -> Any:
    """A number in all lanes."""
    return ir.Constant(VECTOR, [x] * WIDTH)


ZERO = everywhere(0.0)


class WideVectors(Vectors):
    """`Vectors` of WIDTH numbers."""

    def load(self, array: Any, offset: Any) -> Any:
        """WIDTH numbers from there on."""
        return self.builder.load(self.at(array, offset, VECTOR), align=8)

    def load_codes(self, array: Any, offset: Any) -> Any:
        """WIDTH whole numbers from there on."""
        return self.builder.load(self.at(array, offset, CODES), align=8)

    def gap(self, array: Any, offset: Any, center: Any, ahead: Any) -> Any:
        """The numbers there less the centre; what lies ahead of them is sent for."""
        self.prefetch(array, self.builder.add(offset, ahead))
        return self.builder.fsub(self.load(array, offset), center)

    def store(self, vector: Any, array: Any, offset: Any) -> None:
        """As many numbers as it has to there."""
        self.builder.store(vector, self.at(array, offset, vector.type), align=8)

    def pick(self, a: Any, b: Any, *lanes: int) -> Any:
        """A vector of lanes of a, then b."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(LANE, len(lanes)), list(lanes)))

    def spread(self, array: Any, offset: Any) -> Any:
        """One number in all lanes."""
        return self.in_all_lanes(self.builder.load(self.at(array, offset, NUMBER), align=8), VECTOR)

    def in_all_lanes(self, one: Any, kind: Any) -> Any:
        """The same of a number that is at hand."""
        first = self.builder.insert_element(ir.Constant(kind, ir.Undefined), one, LANE(0))
        return self.pick(first, first, *[0] * WIDTH)

    def variable(self, first: Any = ZERO) -> Any:
        """Where a vector that changes in a loop is kept, and what it is at first."""
        return super().variable(first)


def exponential(v: WideVectors, x: Any) -> Any:
    """e^x, x ≤ 0, by the steps of `exponential` in `_fused_base`; 0 where no normal number."""
    build = v.builder
    rounded = v.plus_product(everywhere(ROUNDER), x, everywhere(LOG2_E))
    k = build.fsub(rounded, everywhere(ROUNDER))
    t = v.plus_product(v.plus_product(x, k, everywhere(-LN2_HIGH)), k, everywhere(-LN2_LOW))
    p = everywhere(EXP[-1])
    for c in EXP[-2::-1]:
        p = v.plus_product(everywhere(c), p, t)
    bits = build.add(build.bitcast(rounded, CODES), ir.Constant(CODES, [1023] * WIDTH))
    power = build.bitcast(build.shl(bits, ir.Constant(CODES, [52] * WIDTH)), VECTOR)
    return build.select(build.fcmp_ordered("<", x, everywhere(LOWEST)), ZERO, build.fmul(p, power))


def _halved(v: WideVectors, vectors: Sequence[Any], step: int) -> list[Any]:
    """Half as many vectors, of sums of lanes that are `step` apart: those of the second where that bit is set."""
    lower = [lane if not lane & step else WIDTH + lane - step for lane in range(WIDTH)]
    upper = [lane + step if not lane & step else WIDTH + lane for lane in range(WIDTH)]
    pairs = zip(vectors[::2], vectors[1::2], strict=True)
    return [v.builder.fadd(v.pick(a, b, *lower), v.pick(a, b, *upper)) for a, b in pairs]


def across(v: WideVectors, vectors: Sequence[Any]) -> Any:
    """The sums of the lanes of a power of two of vectors, WIDTH at most, in a vector that has as many lanes."""
    few, step, width = list(vectors), 1, WIDTH
    while len(few) > 1:
        few, step = _halved(v, few, step), 2 * step
    total = few[0]
    while width > step:
        width //= 2
        total = v.builder.fadd(*(v.pick(total, total, *range(k, k + width)) for k in (0, width)))
    return total


def totals(v: WideVectors, vectors: Sequence[Any]) -> list[Any]:
    """The sums of the lanes of each of any number of vectors, in as few; zeros past the last."""
    padded = [*vectors, *[ZERO] * (-len(vectors) % WIDTH)]
    return [across(v, padded[k : k + WIDTH]) for k in range(0, len(padded), WIDTH)]


def wide_intrinsic(generate: Callable[[WideVectors], None], *arguments: Any) -> tuple[Any, Callable[..., Any]]:
    """What numba asks of an intrinsic that returns nothing: its signature and its generator."""

    def whole(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        generate(WideVectors(context, builder, signature, args))
        return context.get_dummy_value()

    return types.void(*arguments), whole
