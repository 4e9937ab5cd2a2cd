"""The weighted Gram matrices of all pairs of classes over a tile, compiled: several pairs at a time.

A column of the design is multiplied by the weights of some pairs; the products of those with every column before it are
what the matrices of these pairs have in that row. So nothing is computed twice, and but for the last column of a row
nothing above the diagonal.

Notation
--------
====  ==============================================================  ================
Z     a tile of the design, as in `_fused_tile`                       (≥ D, TILE)
S     weights of the rows, one for each pair of classes               (≥ pairs, TILE)
A     column i of Z times some of these weights                       (MOST, TILE)
H     sums, in the order in which they are made, a slot for each      (slots · SLOT,)
      some pairs, column i and SPAN columns j
====  ==============================================================  ================
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import cgutils, types

from credibly.numerics._fused_base import fast, machine_code
from credibly.numerics._fused_lines import send_for
from credibly.numerics._fused_softmax_lines import FEWEST, MOST, group_size
from credibly.numerics._fused_softmax_vectors import AVX512, WIDTH, WideVectors, totals, wide_intrinsic
from credibly.numerics._fused_vectors import LINE, WORD
from credibly.numerics.arrays import Array

SPAN = 4 if AVX512 else 2  # columns j at a time: the sums for six pairs fit the registers
SLOT = -(-MOST * SPAN // WIDTH) * WIDTH

Coming = tuple[Array, int, int]  # rows that come next: where they lie, from where on, and lines of memory at a time


def _accumulate(  # noqa: PLR0913
    v: WideVectors,
    scaled: Callable[[Any, int], Any],
    pairs: int,
    columns: int,
    *,
    Z: Any,
    j: Any,
    n: Any,
    H: Any,
    to: Any,
) -> None:
    """H[to + pairs·q + m] += Σ_r scaled(r, m) Z[j + q, r], m < pairs, q < columns, r < n (a multiple of WIDTH)."""
    build = v.builder
    sums = [[v.variable() for _ in range(pairs)] for _ in range(columns)]
    rows = [v.in_row(Z, build.add(j, WORD(q)), WORD(0)) for q in range(columns)]
    with cgutils.for_range_slice(build, WORD(0), n, WORD(WIDTH), inc=True) as (r, _):
        z = [v.load(Z, build.add(row, r)) for row in rows]
        for m in range(pairs):
            a = scaled(r, m)
            for q in range(columns):
                build.store(v.plus_product(build.load(sums[q][m]), a, z[q]), sums[q][m])
    for t, total in enumerate(totals(v, [build.load(total) for column in sums for total in column])):
        at = build.add(to, WORD(t * WIDTH))
        v.store(build.fadd(v.load(H, at), total), H, at)


def _sums(pairs: int, columns: int) -> Callable[..., Any]:
    """H[to + pairs·q + m] += Σ_r A[m, r] Z[j + q, r], m < pairs, q < columns, r < n."""

    def build(  # noqa: PLR0913, PLR0917 - an instruction in all but name
        typing: Any, A: Any, Z: Any, j: Any, n: Any, H: Any, to: Any
    ) -> tuple[Any, Callable[..., Any]]:
        def generate(v: WideVectors) -> None:
            A, Z, j, n, H, to = v.args
            rows = [v.in_row(A, WORD(m), WORD(0)) for m in range(pairs)]

            def scaled(r: Any, m: int) -> Any:
                return v.load(A, v.builder.add(rows[m], r))

            _accumulate(v, scaled, pairs, columns, Z=Z, j=j, n=n, H=H, to=to)

        return wide_intrinsic(generate, A, Z, types.intp, types.intp, H, types.intp)

    build.__name__ = f"_sums_{pairs}_{columns}"
    return machine_code(build)


def _first(pairs: int) -> Callable[..., Any]:
    """A[m, r] = Z[i, r] S[first + m, r], m < pairs, r < n; then the same sums with the first SPAN columns.

    Written while they are first needed: a loop that only wrote them would wait for memory.
    """

    def build(  # noqa: PLR0913, PLR0917 - an instruction in all but name
        typing: Any, S: Any, first: Any, Z: Any, i: Any, A: Any, n: Any, H: Any, to: Any
    ) -> tuple[Any, Callable[..., Any]]:
        def generate(v: WideVectors) -> None:
            S, first, Z, i, A, n, H, to = v.args
            build, own = v.builder, v.in_row(Z, i, WORD(0))
            weights = [v.in_row(S, build.add(first, WORD(m)), WORD(0)) for m in range(pairs)]

            def scaled(r: Any, m: int) -> Any:
                a = build.fmul(v.load(Z, build.add(own, r)), v.load(S, build.add(weights[m], r)))
                v.store(a, A, build.add(v.in_row(A, WORD(m), WORD(0)), r))
                return a

            _accumulate(v, scaled, pairs, SPAN, Z=Z, j=WORD(0), n=n, H=H, to=to)

        whole = types.intp
        return wide_intrinsic(generate, S, whole, Z, whole, A, whole, H, whole)

    build.__name__ = f"_first_{pairs}"
    return machine_code(build)


_sums_3, _sums_4, _sums_5, _sums_6 = (_sums(pairs, SPAN) for pairs in range(FEWEST, MOST + 1))
_half_3, _half_4, _half_5, _half_6 = (_sums(pairs, 2) for pairs in range(FEWEST, MOST + 1))
_first_3, _first_4, _first_5, _first_6 = map(_first, range(FEWEST, MOST + 1))


@fast
def _first_slot(S: Array, m: int, size: int, Z: Array, i: int, A: Array, n: int, H: Array, to: int) -> None:  # noqa: PLR0913, PLR0917
    """The first slot of column i, for `size` pairs from m on."""
    if size == 6:
        _first_6(S, m, Z, i, A, n, H, to)
    elif size == 5:
        _first_5(S, m, Z, i, A, n, H, to)
    elif size == 4:
        _first_4(S, m, Z, i, A, n, H, to)
    else:
        _first_3(S, m, Z, i, A, n, H, to)


@fast
def _add_slot(size: int, half: bool, A: Array, Z: Array, j: int, n: int, H: Array, to: int) -> None:  # noqa: PLR0913, PLR0917
    """One slot: `size` pairs, SPAN columns from j on, or two."""
    if half:
        if size == 6:
            _half_6(A, Z, j, n, H, to)
        elif size == 5:
            _half_5(A, Z, j, n, H, to)
        elif size == 4:
            _half_4(A, Z, j, n, H, to)
        else:
            _half_3(A, Z, j, n, H, to)
    elif size == 6:
        _sums_6(A, Z, j, n, H, to)
    elif size == 5:
        _sums_5(A, Z, j, n, H, to)
    elif size == 4:
        _sums_4(A, Z, j, n, H, to)
    else:
        _sums_3(A, Z, j, n, H, to)


@fast
def slots(pairs: int, D: int) -> int:
    """How many slots the matrices fill."""
    columns = 0
    for i in range(D):
        columns += i // SPAN + 1
    return -(-pairs // MOST) * columns


@fast
def add_score(Z: Array, D: int, G: Array, K: int, n: int, H: Array) -> None:
    """Add Z Gᵀ to sums in slots of their own."""
    to, k = 0, 0
    while k < K:
        size = group_size(K, k)
        for j in range(0, D, SPAN):
            _add_slot(size, False, G[k : k + size], Z, j, n, H, to)
            to += SLOT
        k += size


@fast
def by_class(H: Array, score: Array) -> None:
    """Add those sums to a score, (K, D)."""
    K, D = score.shape
    to, k = 0, 0
    while k < K:
        size = group_size(K, k)
        for j in range(0, D, SPAN):
            for q in range(min(SPAN, D - j)):
                for p in range(min(size, K - k)):
                    score[k + p, j + q] += H[to + size * q + p]
            to += SLOT
        k += size


@fast
def add_grams(Z: Array, D: int, S: Array, pairs: int, n: int, A: Array, H: Array, coming: Coming) -> None:  # noqa: PLR0913, PLR0917
    """Add Z diag(s) Zᵀ for every pair's weights s; meanwhile the rows that come next are sent for."""
    X, ahead, lines = coming
    to, m = 0, 0
    while m < pairs:
        size = group_size(pairs, m)
        for i in range(D):
            for j in range(0, i + 1, SPAN):
                send_for(X, ahead, lines)
                ahead += LINE * lines
                if j == 0:
                    _first_slot(S, m, size, Z, i, A, n, H, to)
                else:
                    _add_slot(size, i - j < 2, A, Z, j, n, H, to)
                to += SLOT
        m += size


@fast
def _by_pair(H: Array, pairs: int, D: int) -> Array:
    """The matrices, (pairs, D, D), out of their slots."""
    grams = np.empty((pairs, D, D))
    to, m = 0, 0
    while m < pairs:
        size = group_size(pairs, m)
        for i in range(D):
            for j in range(0, i + 1, SPAN):
                for q in range(min(SPAN, i + 1 - j)):
                    for p in range(min(size, pairs - m)):
                        grams[m + p, i, j + q] = grams[m + p, j + q, i] = H[to + size * q + p]
                to += SLOT
        m += size
    return grams


@fast
def information(H: Array, pairs: int, K: int, D: int) -> Array:
    """What `softmax_information` makes of the matrices, (K, D, K, D), of all pairs or of one like all others."""
    grams, total, m = _by_pair(H, pairs, D), np.zeros((K, D, K, D)), 0
    for j in range(K):
        for k in range(j):
            for a in range(D):
                gram, jj, jk, kj, kk = grams[m, a], total[j, a, j], total[j, a, k], total[k, a, j], total[k, a, k]
                for b in range(D):
                    jk[b] = -gram[b]
                    kj[b] = -gram[b]
                    jj[b] += gram[b]
                    kk[b] += gram[b]
            m += pairs > 1
    return total
