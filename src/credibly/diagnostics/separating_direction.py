"""Linear programmes that find a separating direction, and the plainest one.

Notation
--------
=======  ==========================================================================  =============
B        a direction: one weight vector per class but the first (see `overlap`)      (K-1, D)
gap      (B_y - B_k)ᵀz of a pair (row, other class)                                  one per pair
strict   the pairs with a positive gap for some separating direction                 (n, K), bool
=======  ==========================================================================  =============

If B₁ and B₂ separate, so does B₁ + B₂, with a positive gap wherever one of them has one: there is one largest set of
strict pairs. It is found by peeling: find a direction, set its strict pairs aside, go on with the others (a large
multiple of the first direction makes up for what the next one does to them) until those overlap.

Everything is tried on few rows first. Rows that object to the answer are added until none does. Few rows that overlap,
or a programme without a solution for few rows, settle the matter for all.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack

from credibly.diagnostics.overlap import ON_THE_LINE, Mask, Pairs, climb, few_of_each_class, span_and_null
from credibly.errors import CrediblyError
from credibly.numerics.arrays import Array, Codes

FOUND = 0  # status of scipy.optimize.linprog
FEASIBLE = 1e-9  # the solver's tolerance, for rows scaled to one
LINE = 1e-7  # gaps of a programme's answer, rows scaled to one, that may be on the line
ROUNDING = 1e-11  # of a gap, beside the lengths of its row and of the weights
NEGLIGIBLE = 1e-7  # coefficients, beside the largest one on scaled columns
NEARLY_ONE = 0.5  # a gap that is required to be one: good enough, as a direction has no length
ROUNDS = 200  # of adding rows; each adds at least one, in practice ten settle it
FEW_COLUMNS = 12  # among which each is tried whether it can be spared
REWEIGHTINGS = 4  # of the absolute sum, to find fewer columns


class Separated(NamedTuple):
    """A direction with no gap below zero, and where its gaps are positive."""

    B: Array  # (K-1, D)
    strict: Mask  # (n, K)


def separated_pairs(pairs: Pairs) -> Separated | None:
    """The largest set of strict pairs, with a direction for it; None if the classes overlap.

    The columns of `pairs.Z` must be linearly independent, and every class must occur.
    """
    found, rank = None, pairs.shape[0] * pairs.shape[1]
    while pairs.open.any():
        step = _one_direction(pairs, rank)
        if step is None:
            break
        found = step if found is None else _both(pairs, found, step)
        pairs = pairs._replace(open=pairs.open & ~found.strict)
        rank = span_and_null(pairs)[0].shape[1]
    return found


def _one_direction(pairs: Pairs, rank: int) -> Separated | None:
    """A direction that separates, found on some rows and tried on all; None if there is none.

    If some rows overlap, a direction that separates all rows has no gap among them; if their gaps have the rank of all
    gaps, it has no gap at all. So a few rows can settle the matter either way, and those that object are added.
    """
    looked_at = _sample(pairs)
    while True:
        part = pairs.at(looked_at)
        span, null = span_and_null(part)
        step = _on_these_rows(part, span)
        if looked_at.all():
            return step
        if step is None and span.shape[1] == rank:
            return None
        if step is not None and (everywhere := verified(pairs, step.B, LINE)) is not None:
            return everywhere
        objection = _variation(pairs, null) if step is None else -pairs.gaps(step.B)
        worst = np.where(pairs.open, objection, -np.inf).max(axis=1)
        worst[looked_at] = -np.inf
        looked_at[_smallest(-worst, int(looked_at.sum()))] = True


def _sample(pairs: Pairs) -> Mask:
    """Rows to begin with, among those that have an open pair."""
    rows = np.flatnonzero(pairs.open.any(axis=1))
    chosen = np.zeros(len(pairs.Z), dtype=bool)
    chosen[rows[few_of_each_class(pairs.codes[rows], pairs.shape)]] = True
    return chosen


def _on_these_rows(pairs: Pairs, span: Array) -> Separated | None:
    """A direction that separates these rows; None if there is none."""
    walked = climb(pairs, span)
    if walked.overlap:
        return None
    step = None if walked.endless is None else verified(pairs, walked.endless, ON_THE_LINE)
    return step or _programme(pairs, walked.B)


def _variation(pairs: Pairs, directions: Array) -> Array:
    """The largest gap, of either sign, along some directions, (n, K)."""
    return np.asarray(np.max([np.abs(pairs.gaps(B.reshape(pairs.shape))) for B in directions.T], axis=0))


def verified(pairs: Pairs, B: Array, line: float) -> Separated | None:
    """B with its strict pairs, moved so that gaps up to `line` are zero to the last digit if they are not yet.

    None if that is impossible: then some pairs are on the wrong side.
    """
    if (plain := _as_it_is(pairs, B)) is not None:
        return plain
    gaps = np.where(pairs.open, pairs.gaps(B), np.inf)
    if gaps.min() < -line:
        return None
    _, null = span_and_null(pairs._replace(open=gaps <= line))
    return _as_it_is(pairs, (null @ (null.T @ B.reshape(-1))).reshape(pairs.shape))


def _as_it_is(pairs: Pairs, B: Array) -> Separated | None:
    gaps, rounding = pairs.gaps(B), _rounding(pairs, B)
    strict = pairs.open & (gaps > rounding)
    return Separated(B, strict) if strict.any() and (gaps >= -rounding)[pairs.open].all() else None


def _rounding(pairs: Pairs, B: Array) -> Array:
    """Of the gaps of each row: a share of |z| max |B_k|, (n, 1)."""
    return np.asarray(ROUNDING * np.linalg.norm(B, axis=1).max() * np.linalg.norm(pairs.Z, axis=1, keepdims=True))


def _both(pairs: Pairs, first: Separated, then: Separated) -> Separated:
    """first · t + then, with t so large that no pair of the first is lost."""
    strength, harm = pairs.gaps(first.B)[first.strict].min(), -pairs.gaps(then.B)[first.strict].min()
    B = then.B + first.B * max(1.0, 2 * harm / strength)
    return Separated(B, first.strict | then.strict)


def _programme(pairs: Pairs, start: Array) -> Separated | None:
    """max Σ gap subject to gap ≥ 0 and |B| ≤ 1 for every weight (Konis 2007): zero exactly when classes overlap."""
    towards = pairs.total(np.ones(pairs.open.shape)).reshape(-1) / pairs.open.sum()
    chosen = _Chosen(pairs, pairs.open, start)
    for _ in range(ROUNDS):
        weights = _solve(-towards, chosen.rows(), 0.0, np.zeros((0, towards.size)), bounds=(-1.0, 1.0))
        if weights is None:
            break
        if not towards @ weights > ROUNDING:
            return None
        B = weights.reshape(pairs.shape)
        if not chosen.add(B, least=-LINE / 10):
            return verified(pairs, B, LINE)
    raise CrediblyError("The linear programme that looks for separated classes did not settle.")


def _solve(
    cost: Array, rows: csr_array, least: float, equal: Array, bounds: tuple[float, float | None]
) -> Array | None:
    """min cost · w subject to rows · w ≥ least, equal · w = 0 and the bounds; None if the solver finds nothing."""
    from scipy.optimize import linprog

    answer = linprog(
        cost,
        A_ub=-rows,
        b_ub=np.full(rows.shape[0], -least),
        A_eq=equal if len(equal) else None,
        b_eq=np.zeros(len(equal)) if len(equal) else None,
        bounds=bounds,
        method="highs",
        options={"primal_feasibility_tolerance": FEASIBLE, "dual_feasibility_tolerance": FEASIBLE},
    )
    return np.asarray(answer.x) if answer.status == FOUND else None


class _Chosen:
    """The pairs that a programme knows of."""

    def __init__(self, pairs: Pairs, wanted: Mask, start: Array) -> None:
        self.pairs, self.wanted = pairs, wanted
        self.row, self.other = np.nonzero(wanted)
        self.batch = 2 * start.size + 20
        gaps = pairs.gaps(start)[wanted]
        self.known = np.zeros(len(self.row), dtype=bool)
        self.known[_smallest(gaps, 2 * self.batch)] = True

    def add(self, B: Array, least: float) -> bool:
        """Add the pairs whose gap is furthest below `least`; False if there is none."""
        gaps = self.pairs.gaps(B)[self.wanted]
        gaps[self.known] = np.inf
        worst = _smallest(gaps, self.batch)
        worst = worst[gaps[worst] < least]
        self.known[worst] = True
        return len(worst) > 0

    def rows(self) -> csr_array:
        """One row (e_y - e_k) ⊗ z per known pair, classes but the first, (m, (K-1)D)."""
        return self.rows_of_all_classes()[:, self.pairs.shape[1] :]

    def rows_of_all_classes(self) -> csr_array:
        """The same with weights for the first class too, (m, K·D)."""
        return gap_rows(self.pairs, self.row[self.known], self.other[self.known])


def _smallest(values: Array, count: int) -> Codes:
    return np.argpartition(values, count)[:count] if count < len(values) else np.arange(len(values))


def gap_rows(pairs: Pairs, row: Codes, other: Codes) -> csr_array:
    """(e_y - e_k) ⊗ z for some pairs, all classes, (m, K·D)."""
    D, m = pairs.shape[1], len(row)
    columns = np.stack([pairs.codes[row], other], axis=1)[:, :, None] * D + np.arange(D)
    values = np.stack([pairs.Z[row], -pairs.Z[row]], axis=1)
    shape = (m, (pairs.shape[0] + 1) * D)
    return csr_array((values.reshape(-1), columns.reshape(-1), np.arange(m + 1) * 2 * D), shape=shape)


def plainest(pairs: Pairs, found: Separated, held: Array, cost: Array) -> Array:
    """A direction with the strict pairs of `found` that uses few columns; weights for every class, (K, D).

    min Σ cost_j |B_kj| subject to gap ≥ 1 for strict pairs and held · (B_k - B_0) = 0, again with the cost of a column
    divided by its weight in the last answer while that saves columns (Candès, Wakin & Boyd 2008). If few are left,
    none of them can be spared.

    Parameters
    ----------
    held : (m, (K-1)D) float array
        Rows that span those of the pairs on the line.
    cost : (D,) float array
        Zero for the intercept.
    """
    best, used = np.vstack([np.zeros(pairs.shape[1]), found.B]), np.full(len(cost), True)
    chosen, price = _Chosen(pairs, found.strict, found.B), cost
    for round_ in range(REWEIGHTINGS + 1):
        B = _least_sum(chosen, held, np.where(used, price, np.inf))
        if B is None:
            return best
        size = np.abs(B).max(axis=0)
        needed = (size > NEGLIGIBLE * size.max()) | (cost == 0)
        settled, best, used = round_ > 0 and needed.sum() == used.sum(), B, needed
        if settled:
            break
        price = np.divide(cost, size, out=np.zeros_like(cost), where=needed & (cost > 0))
    return _without_spare_columns(chosen, held, cost, best)


def _without_spare_columns(chosen: _Chosen, held: Array, cost: Array, B: Array) -> Array:
    """The direction with one column less, as long as that is possible; tried when there are few."""
    size = np.abs(B).max(axis=0) * (cost > 0)
    price = np.where((size > NEGLIGIBLE * size.max()) | (cost == 0), cost, np.inf)
    used = [j for j in np.argsort(size) if 0 < price[j] < np.inf]
    for j in used if len(used) <= FEW_COLUMNS else []:
        fewer = _least_sum(chosen, held, np.where(np.arange(len(cost)) == j, np.inf, price))
        if fewer is not None:
            B, price = fewer, np.where(np.abs(fewer).max(axis=0) > 0, price, np.where(cost > 0, np.inf, 0.0))
    return B


def _least_sum(chosen: _Chosen, held: Array, price: Array) -> Array | None:
    """The programme of `plainest` for columns of finite price; None if it has no answer that can be verified."""
    pairs, (others, D) = chosen.pairs, chosen.pairs.shape
    skipped = D if others == 1 else 0  # two classes: only the difference counts
    kept = np.flatnonzero(np.isfinite(np.tile(price, others + 1)))
    kept = kept[kept >= skipped]
    if not len(kept):
        return None
    equal = np.hstack([-held.reshape(len(held), others, D).sum(axis=1), held])[:, kept]
    for _ in range(ROUNDS):
        weights = _cheapest(chosen.rows_of_all_classes()[:, kept], equal, np.tile(price, others + 1)[kept])
        if weights is None:
            return None
        B = np.zeros((others + 1, D))
        B.reshape(-1)[kept] = _exactly(equal, weights)
        if not chosen.add(B[1:] - B[0], least=NEARLY_ONE):
            return B if _keeps(pairs, B[1:] - B[0], chosen.wanted) else None
    return None


def _cheapest(rows: csr_array, equal: Array, price: Array) -> Array | None:
    """min Σ price |w| subject to rows · w ≥ 1 and equal · w = 0."""
    both, size = hstack([rows, -rows]), rows.shape[1]  # w = positive part - negative part
    found = _solve(np.tile(price, 2), both, 1.0, np.hstack([equal, -equal]), bounds=(0.0, None))
    return None if found is None else found[:size] - found[size:]


def _exactly(equal: Array, weights: Array) -> Array:
    """The nearest weights on the line to the last digit, those that are zero left alone."""
    used = np.abs(weights) > NEGLIGIBLE * np.abs(weights).max(initial=0.0)
    weights = np.where(used, weights, 0.0)
    if len(equal):
        _, values, across = np.linalg.svd(equal[:, used], full_matrices=False)
        across = across[values > LINE]  # the rows of `equal` have length one
        weights[used] -= across.T @ (across @ weights[used])
    return weights


def _keeps(pairs: Pairs, B: Array, strict: Mask) -> bool:
    """Whether strict pairs are on their side, and all others not on the wrong one, up to rounding."""
    gaps, rounding = pairs.gaps(B), _rounding(pairs, B)
    return bool((gaps > rounding)[strict].all() and (gaps >= -rounding).all())
