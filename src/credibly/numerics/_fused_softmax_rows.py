"""Row by row: probabilities of classes, slopes and log probabilities of softmax, compiled, WIDTH rows at a time.

Notation
--------
====  ==============================================================  ================
F     scores of the rows, class by class                              (≥ K, ≥ n)
P     probabilities                                                   (≥ K, ≥ n)
G     slopes 1[y = k] - p_k                                           (≥ K, ≥ n)
====  ==============================================================  ================
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from numba.core import cgutils, types

from credibly.numerics._fused_base import (
    LN2_HIGH,
    LN2_LOW,
    ROUNDER,
    exact,
    exponent,
    log_of_quotient,
    machine_code,
    mantissa,
)
from credibly.numerics._fused_softmax_vectors import CODES, ZERO, WideVectors, everywhere, exponential, wide_intrinsic
from credibly.numerics._fused_vectors import WORD
from credibly.numerics.arrays import Array


class _Powers(NamedTuple):
    """Of WIDTH rows, once e^f is stored for every class; f is less the largest score."""

    total: Any  # Σ e^f
    others: Any  # the same without the label's
    at: Any  # the label's f


def _is(v: WideVectors, label: Any, k: Any) -> Any:
    """Which of WIDTH labels are class k."""
    return v.builder.icmp_signed("==", label, v.in_all_lanes(k, CODES))


def _raise(v: WideVectors, F: Any, K: Any, label: Any, E: Any, r: Any) -> _Powers:
    """E[k, r + i] = e^(F[k, r + i] - the largest), which can only underflow; NaN where a score is."""
    build, one = v.builder, WORD(1)
    top, total, others, at = (v.variable() for _ in range(4))
    build.store(v.load(F, r), top)
    with cgutils.for_range_slice(build, one, K, one, inc=True) as (k, _):
        f, largest = v.load(F, v.in_row(F, k, r)), build.load(top)
        build.store(build.select(build.fcmp_ordered(">", f, largest), f, largest), top)
    with cgutils.for_range(build, K) as loop:
        f = build.fsub(v.load(F, v.in_row(F, loop.index, r)), build.load(top))
        power, is_label = exponential(v, f), _is(v, label, loop.index)
        v.store(power, E, v.in_row(E, loop.index, r))
        build.store(build.fadd(build.load(total), power), total)
        build.store(build.fadd(build.load(others), build.select(is_label, ZERO, power)), others)
        build.store(build.select(is_label, f, build.load(at)), at)
    return _Powers(build.load(total), build.load(others), build.load(at))


@machine_code
def slopes(  # noqa: PLR0913, PLR0917 - an instruction in all but name
    typing: Any, F: Any, K: Any, y: Any, at: Any, G: Any, r: Any
) -> tuple[Any, Callable[..., Any]]:
    """G[k, r + i] = 1[y[at + i] = k] - p_k at the scores F[:K, r + i], i < WIDTH: for the label the others' share."""

    def generate(v: WideVectors) -> None:
        F, K, y, at, G, r = v.args
        build, label = v.builder, v.load_codes(y, at)
        powers = _raise(v, F, K, label, G, r)
        inverse = build.fdiv(everywhere(1.0), powers.total)
        with cgutils.for_range(build, K) as loop:
            place = v.in_row(G, loop.index, r)
            share = build.select(_is(v, label, loop.index), powers.others, build.fneg(v.load(G, place)))
            v.store(build.fmul(share, inverse), G, place)

    return wide_intrinsic(generate, F, types.intp, y, types.intp, G, types.intp)


@machine_code
def expansion(  # noqa: PLR0913, PLR0917 - an instruction in all but name
    typing: Any, F: Any, K: Any, y: Any, beside: Any, P: Any, G: Any, r: Any
) -> tuple[Any, Callable[..., Any]]:
    """Probabilities and slopes, times the weights, of the rows from r on; what `log_one_plus` makes log p of.

    `beside` has a row of weights, and takes the label's score less the largest, and Σ e^f - 1, from the other classes
    alone where the label's score is the largest.
    """

    def generate(v: WideVectors) -> None:
        F, K, y, beside, P, G, r = v.args
        build = v.builder
        label, weight = v.load_codes(y, r), v.load(beside, r)
        powers, one = _raise(v, F, K, label, P, r), everywhere(1.0)
        inverse = build.fdiv(one, powers.total)
        with cgutils.for_range(build, K) as loop:
            place = v.in_row(P, loop.index, r)
            p = build.fmul(v.load(P, place), inverse)
            share = build.select(_is(v, label, loop.index), build.fmul(powers.others, inverse), build.fneg(p))
            v.store(p, P, place)
            v.store(build.fmul(share, weight), G, v.in_row(G, loop.index, r))
        largest = build.fcmp_ordered("==", powers.at, ZERO)
        rest = build.select(largest, powers.others, build.fsub(powers.total, one))
        for row, vector in ((1, powers.at), (2, rest)):
            v.store(vector, beside, v.in_row(beside, WORD(row), r))

    return wide_intrinsic(generate, F, types.intp, y, beside, P, G, types.intp)


@exact
def log_one_plus(x: Array, out: Array) -> None:
    """out -= log(1 + x), x ≥ 0; digits of tiny x are kept."""
    for r in range(x.size):
        whole = 1.0 + x[r]
        k, m = exponent(whole) - ROUNDER, mantissa(whole)
        num, den = (x[r], 2.0 + x[r]) if whole < 1.4 else (m - 1.0, m + 1.0)
        out[r] -= (k * LN2_HIGH if whole >= 1.4 else 0.0) + (
            log_of_quotient(num, den) + (k * LN2_LOW if whole >= 1.4 else 0.0)
        )
