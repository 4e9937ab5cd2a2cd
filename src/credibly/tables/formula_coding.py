"""How the categories of a formula become columns: their levels, the names of columns, and which level is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING

from credibly.errors import TableError
from credibly.tables.columns import cells, levels_of
from credibly.tables.formula_functions import Learnt
from credibly.tables.formula_safety import parsed, spelt
from credibly.tables.formula_values import Values, function_name, is_transform, options_of, transform_of

if TYPE_CHECKING:
    from credibly.numerics.arrays import Array

MOST_CROSSED = 6  # categories in one product

Factors = tuple[str, ...]
Product = tuple[tuple[str, bool], ...]  # factors of a block of columns, and whether a category has all its levels there


def learn(factor: str, values: Values) -> tuple[str, ...] | None:
    """Evaluate a factor on the training table, so that it learns; the levels if it is a category."""
    tree = parsed(factor)
    if function_name(tree) != "C":
        values.columns(tree)
        return None
    cell = values.category(tree)
    levels = levels_of(cell)
    if len(levels) < 2:
        raise TableError(f"{factor} has one level only ({levels[0]!r}); it says nothing. Leave it out of the formula.")
    return _with_reference_first(tree, levels)


def _with_reference_first(tree: ast.expr, levels: tuple[str, ...]) -> tuple[str, ...]:
    import pandas as pd

    assert isinstance(tree, ast.Call)
    options = options_of(tree, ("reference",))
    if not options:
        return levels
    first = str(cells(pd.Series([options["reference"]], dtype=object)).iloc[0])
    if first not in levels:
        raise TableError(f"{spelt(tree)} in the formula: {first!r} is no level; there are {', '.join(levels[:8])}.")
    return (first, *(level for level in levels if level != first))


def labels(factor: str, levels: tuple[str, ...] | None, learnt: dict[str, Learnt]) -> list[str]:
    """Names of a factor's columns."""
    tree = parsed(factor)
    if levels is not None:
        return [f"{_label(factor)}={level}" for level in levels]
    if is_transform(tree) and (transform := transform_of(tree)).several:
        return [f"{factor}[{at + 1}]" for at in range(transform.width(learnt[factor]))]
    return [factor.strip("`") if isinstance(tree, ast.Name) else factor]


def check_one_spelling(categories: Iterable[str]) -> None:
    """A column is divided into levels in one way."""
    seen: dict[str, str] = {}
    for factor in categories:
        before = seen.setdefault(_label(factor), factor)
        if before != factor:
            raise TableError(f"The formula has {before} and {factor}; write it in the same way everywhere.")


def _label(factor: str) -> str:
    """What stands before the = in the name of a category's columns."""
    tree = parsed(factor)
    assert isinstance(tree, ast.Call)
    return tree.args[0].id.strip("`") if isinstance(tree.args[0], ast.Name) else factor


def indicated(terms: Sequence[Factors]) -> Iterator[Product]:
    """All levels everywhere."""
    return (tuple((factor, True) for factor in term) for term in terms)


def coded(terms: Sequence[Factors], categories: set[str], has_intercept: bool) -> Iterator[Product]:
    """Leave levels out exactly where their columns would be sums of earlier ones.

    A category crossed with others spans what its own term and all shorter ones span. Products of categories that
    earlier terms (with the same numbers) have covered are left out; the rest is written with as few blocks as
    possible, as patsy does.
    """
    covered: dict[frozenset[str], set[frozenset[str]]] = {frozenset(): {frozenset()} if has_intercept else set()}
    for term in terms:
        crossed = [factor for factor in term if factor in categories]
        if len(crossed) > MOST_CROSSED:
            raise TableError(f"{':'.join(term)} crosses {len(crossed)} categories; at most {MOST_CROSSED} can be.")
        seen = covered.setdefault(frozenset(term) - categories, set())
        parts = [frozenset(it) for size in range(len(crossed) + 1) for it in combinations(crossed, size)]
        fresh = [frozenset((factor, False) for factor in part) for part in parts if part not in seen]
        seen.update(parts)
        for block in _joined(fresh):
            coding = dict(block)
            yield tuple(
                (factor, coding.get(factor, True)) for factor in term if factor in coding or factor not in categories
            )


def _joined(blocks: list[frozenset[tuple[str, bool]]]) -> list[frozenset[tuple[str, bool]]]:
    """Join blocks: one without a factor, and one that has it less a level, are one that has it with all levels."""
    for short, long in combinations(blocks, 2):
        extra = long - short
        if len(extra) == 1 and short < long and not next(iter(extra))[1]:
            factor = next(iter(extra))[0]
            both = short | {(factor, True)}
            return _joined([both if it == long else it for it in blocks if it != short])
    return blocks


def crossed(parts: Sequence[Array]) -> Array:
    """Products of columns, those of the first part changing fastest."""

    def by(left: Array, right: Array) -> Array:
        both = right[:, :, None] * left[:, None, :] + 0.0  # so that no zero has a minus
        return both.reshape(len(left), left.shape[1] * right.shape[1])

    return reduce(by, parts)
