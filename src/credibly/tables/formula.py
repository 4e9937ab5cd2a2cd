"""Formulas such as ``y ~ age + C(sex) + poly(dose, 2)``: which columns a model gets from a table.

The package formulaic expands the algebra of a formula (``a * b``, ``(a + b + c)**2``, ``- 1``) into terms. It sees
stand-ins for the factors only: ``y ~ poly(dose, 2) * C(sex)`` reaches it as ``t0 * t1``, because formulaic evaluates
Python, for the left-hand side even while it parses. Factors are read by `formula_safety` and evaluated by
`formula_values`; what they learn is plain numbers and text, so a design can be saved, loaded and applied without
formulaic, and a row gets the same cells to the last bit whichever rows come with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credibly.errors import TableError
from credibly.tables.columns import Column, cells, check_names, column_of, refuse_dates
from credibly.tables.design import check_sources, refuse_new_levels, tell_new_levels
from credibly.tables.formula_coding import (
    Factors,
    Product,
    check_one_spelling,
    coded,
    crossed,
    indicated,
    labels,
    learn,
)
from credibly.tables.formula_functions import Learnt
from credibly.tables.formula_safety import Piece, columns_of, parsed, pieces, quoted, refuse, unknown
from credibly.tables.formula_values import Values, function_name

if TYPE_CHECKING:
    import pandas as pd

    from credibly.numerics.arrays import AnyArray, Array

__all__ = ["FormulaDesign", "target_of"]

MOST_TERMS = 5_000
MOST_COLUMNS = 10_000
HIGHEST_POWER = 9


@dataclass(frozen=True)
class FormulaDesign:
    """The columns that a formula asks for, as the training table fixed them. Made by `of`.

    Attributes
    ----------
    formula : str
        As it was given.
    target : str or None
        The column on the left-hand side.
    has_intercept : bool
        False for ``y ~ 0 + a`` and ``y ~ a - 1``. The intercept is not among the columns: models have their own.
    reference : bool
        Whether categories lack a reference level, for models without a prior.
    kinds : tuple of (column, kind)
        Columns of the table that are needed; a kind is "number", "flag" or "category".
    levels : tuple of (factor, levels)
        Of categories, in order.
    learnt : tuple of (call, numbers)
        What ``poly``, ``bs``, ``ns``, ``center`` and ``scale`` remember.
    products : tuple
        Blocks of columns: (factor, whether all levels) for each factor of a product.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"ill": [0, 1, 1], "age": [30.0, 40.0, 50.0], "sex": ["f", "m", "m"]})
    >>> design = FormulaDesign.of("ill ~ center(age) * sex", table)
    >>> design.target, design.sources
    ('ill', ('age', 'sex'))
    >>> design.matrix(pd.DataFrame({"age": [41.0], "sex": ["m"]})).T
                             0
    center(age)            1.0
    sex=f                  0.0
    sex=m                  1.0
    center(age):sex=f      0.0
    center(age):sex=m      1.0
    """

    formula: str
    target: str | None
    has_intercept: bool
    reference: bool
    kinds: tuple[tuple[str, str], ...]
    levels: tuple[tuple[str, tuple[str, ...]], ...]
    learnt: tuple[tuple[str, Learnt], ...]
    products: tuple[Product, ...]

    @classmethod
    def of(cls, formula: str, frame: pd.DataFrame, *, reference: bool = False) -> FormulaDesign:
        """Read a formula, and learn from a table what its columns are.

        Parameters
        ----------
        formula : str
            ``"y ~ a + b"``, or ``"~ a + b"`` without a target.
        frame : DataFrame
            The training table. Rows with missing cells are allowed; what is learnt comes from the cells that are there.
        reference : bool, default False
            Leave one level out where a category's indicators would add up to other columns, as R does: for models
            without a prior.

        Returns
        -------
        FormulaDesign

        Raises
        ------
        TableError
            If the formula cannot be read, holds what is not allowed, or does not fit the table.
        """
        _check_frame(frame)
        target, right = _sides(formula)
        names = [str(name) for name in frame.columns]
        if target is not None and target not in names:
            unknown(target, names)
        right = list(_known_factors(right, frame, target))
        has_intercept, terms = _terms(right, formula)
        factors = list(dict.fromkeys(chain.from_iterable(terms)))
        sources = dict.fromkeys(chain.from_iterable(columns_of(parsed(factor)) for factor in factors))
        if target in sources:
            raise TableError(f"The target {target!r} stands on both sides of the formula {formula!r}.")
        kinds = {name: column_of(frame[name]).kind for name in sources}
        values = Values(frame, kinds)
        levels = {factor: learn(factor, values) for factor in factors}
        categories = {factor: found for factor, found in levels.items() if found is not None}
        check_one_spelling(categories)
        products = tuple(coded(terms, set(categories), has_intercept) if reference else indicated(terms))
        state = tuple(kinds.items()), tuple(categories.items()), tuple(values.learnt.items())
        design = cls(formula, target, has_intercept, reference, *state, products)
        design._check_size()
        return design

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the table that are needed."""
        return tuple(name for name, _ in self.kinds)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the model, without intercept: ``age``, ``sex=male``, ``poly(dose, 2)[1]``, ``age:sex=male``."""
        known = self._labels()
        parts = ([known[factor][0 if whole else 1 :] for factor, whole in block] for block in self.products)
        # The first factor's columns change fastest, as in R.
        return tuple(":".join(reversed(crossed)) for it in parts for crossed in product(*reversed(it)))

    def matrix(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The model's columns of any table.

        Parameters
        ----------
        frame : DataFrame
            With the columns named in `sources`; others are not looked at.

        Returns
        -------
        DataFrame
            Of float64, columns `names`, rows as in `frame`; NaN where a cell that is needed is missing.

        Warns
        -----
        DataWarning
            If a category has levels that were not in the training table (with `reference`, that is an error).
        """
        import pandas as pd

        _check_frame(frame)
        check_sources(frame, self.sources)
        values = Values(frame, dict(self.kinds), dict(self.learnt))
        levels = dict(self.levels)
        factors = dict.fromkeys(factor for block in self.products for factor, _ in block)
        found = {}
        for factor in factors:  # no comprehension: a warning counts the calls between it and the user
            known = factor in levels
            found[factor] = (
                self._indicators(factor, values, levels[factor]) if known else values.columns(parsed(factor))
            )
        blocks = [crossed([found[factor][:, 0 if whole else 1 :] for factor, whole in it]) for it in self.products]
        return pd.DataFrame(np.hstack(blocks), index=frame.index, columns=list(self.names))

    def missing(self, frame: pd.DataFrame) -> AnyArray:
        """Which rows lack a cell that the formula needs, (n,) bool."""
        check_sources(frame, self.sources)
        return np.asarray(frame[list(self.sources)].isna().any(axis=1).to_numpy(dtype=bool))

    # --- parts -------------------------------------------------------------------------------------------------

    def _labels(self) -> dict[str, list[str]]:
        levels, learnt = dict(self.levels), dict(self.learnt)
        factors = dict.fromkeys(factor for block in self.products for factor, _ in block)
        return {factor: labels(factor, levels.get(factor), learnt) for factor in factors}

    def _indicators(self, factor: str, values: Values, levels: tuple[str, ...]) -> Array:
        cell = values.category(parsed(factor))
        column = Column(str(cell.name), "category", levels)
        if self.reference:
            refuse_new_levels(cell, column)
        else:
            tell_new_levels(cell, column, "no level's effect is added there, and intervals do not know the new one's")
        text, missing = cells(cell).to_numpy(dtype=object), cell.isna().to_numpy()
        shown = np.stack([(text == level).astype(np.float64) for level in levels], axis=1)
        return np.where(missing[:, None], np.nan, shown)

    def _check_size(self) -> None:
        known = self._labels()
        count = sum(
            reduce(lambda n, part: n * (len(known[part[0]]) - (not part[1])), block, 1) for block in self.products
        )
        if count > MOST_COLUMNS:
            largest = max(known, key=lambda factor: len(known[factor]))
            raise TableError(
                f"The formula {self.formula!r} gives {count} columns, more than {MOST_COLUMNS}; {largest} alone has "
                f"{len(known[largest])}. Use fewer levels or fewer products."
            )
        if not count:
            raise TableError(f"The formula {self.formula!r} names no column to learn from.")
        doubled = [name for name, times in Counter(self.names).items() if times > 1]
        if doubled:
            raise TableError(f"The formula {self.formula!r} gives column {doubled[0]!r} more than once; name it once.")


def target_of(formula: str) -> str | None:
    """The column left of a formula's tilde, without looking at a table.

    Parameters
    ----------
    formula : str

    Returns
    -------
    str or None

    Examples
    --------
    >>> target_of("ill ~ age + C(sex)")
    'ill'
    """
    return _sides(formula).target


# --- Reading --------------------------------------------------------------------------------------------------------


def _check_frame(frame: Any) -> None:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise TableError(f"A formula needs a pandas DataFrame; got {type(frame).__name__}.")
    check_names(frame)


class Sides(NamedTuple):
    """A formula taken apart: the target's name, and what stands right of the tilde."""

    target: str | None
    right: list[Piece]


def _sides(formula: str) -> Sides:
    found = pieces(formula)
    tildes = [at for at, piece in enumerate(found) if piece == ("operator", "~")]
    if len(tildes) != 1:
        raise TableError(
            f"A formula has one tilde, as in 'y ~ a + b', or '~ a + b' without a target; {formula!r} has {len(tildes)}."
        )
    left, right = found[: tildes[0]], found[tildes[0] + 1 :]
    if not left:
        return Sides(None, right)
    names = list(columns_of(parsed(left[0].text))) if left[0].kind == "factor" else []
    if len(left) > 1 or names != [left[0].text.strip("`")]:
        raise TableError(
            f"Left of the tilde stands the name of one column; got {' '.join(it.text for it in left)!r}. Compute a "
            "target in the table first; a name with spaces or symbols stands in backticks."
        )
    return Sides(names[0], right)


def _known_factors(right: Sequence[Piece], frame: pd.DataFrame, target: str | None) -> Iterator[Piece]:
    """The right-hand side with columns that exist, categories as ``C(...)``, and the dot written out."""
    columns = [str(name) for name in frame.columns]
    for piece in right:
        if piece.kind == "dot":
            others = [_known_factor(quoted(name), frame, columns) for name in columns if name != target]
            if not others:
                raise TableError("The dot in a formula stands for all other columns; the table has none.")
            yield Piece("operator", "(")
            for at, factor in enumerate(others):
                yield from [Piece("operator", "+")] * (at > 0)
                yield Piece("factor", factor)
            yield Piece("operator", ")")
        elif piece.kind == "factor":
            yield Piece("factor", _known_factor(piece.text, frame, columns))
        else:
            yield piece


def _known_factor(factor: str, frame: pd.DataFrame, columns: list[str]) -> str:
    """A factor whose columns are in the table and hold something; ``sex`` and ``C(sex)`` become one."""
    tree = parsed(factor)
    for name in columns_of(tree):
        if name not in frame.columns:
            unknown(name, columns)
        if frame[name].isna().all():
            raise TableError(f"Column {name!r} has no values.")
        refuse_dates(frame[name])
    plain = not function_name(tree)
    return f"C({factor})" if plain and column_of(frame[factor.strip("`")]).kind == "category" else factor


# --- The algebra of a formula ---------------------------------------------------------------------------------------


class Terms(NamedTuple):
    """Products of factors that are summed, short ones first, and whether there is an intercept."""

    has_intercept: bool
    terms: list[Factors]


def _terms(right: Sequence[Piece], formula: str) -> Terms:
    """Let formulaic multiply out, with stand-ins for factors."""
    stand_in = {
        factor: f"t{at}" for at, factor in enumerate(dict.fromkeys(it.text for it in right if it.kind == "factor"))
    }
    algebra = " ".join(stand_in.get(it.text, it.text) if it.kind == "factor" else it.text for it in right)
    for before, piece in zip([None, *right], right, strict=False):
        power = before is not None and before.text in ("**", "^")
        if piece.kind == "number" and not (power or piece.text in ("0", "1")):
            refuse(piece.text, "a number can only be 0, 1 or an exponent")
    factor_of = {name: factor for factor, name in stand_in.items()}
    found = [
        tuple(factor_of[name] for name in term if name in factor_of)
        for term in _multiplied_out(algebra, factor_of, formula)
    ]
    terms = sorted((term for term in dict.fromkeys(found) if term), key=len)
    return Terms(() in found, terms)


def _multiplied_out(algebra: str, factor_of: dict[str, str], formula: str) -> list[Factors]:
    try:
        from formulaic.errors import FormulaicError
        from formulaic.parser import DefaultFormulaParser
    except ImportError as error:
        raise TableError("Formulas need the package formulaic: pip install 'credibly[formula]'.") from error
    parser = DefaultFormulaParser()
    try:
        tree = parser.get_ast(f"~ {algebra}")
        _check_count(tree)
        terms = tree.to_terms(context={})
    except FormulaicError as error:
        reason = re.sub(r"\bt\d+\b", lambda it: factor_of.get(it.group(), it.group()), str(error).splitlines()[0])
        raise TableError(
            f"The formula {formula!r} cannot be read: {reason} A name with spaces or symbols stands in backticks."
        ) from None
    return [tuple(factor.expr for factor in term.factors) for term in terms]


def _check_count(tree: Any) -> None:
    """Bound the number of terms before they are made: (a + b + c)**9 is two characters longer than it looks."""
    order, waiting = [], [tree]
    while waiting:
        order.append(node := waiting.pop())
        waiting += getattr(node, "args", [])
    counts: dict[int, int] = {}
    for node in reversed(order):  # arguments before what uses them
        counts[id(node)] = _count(node, [counts[id(it)] for it in getattr(node, "args", [])])
        if counts[id(node)] > MOST_TERMS:
            raise TableError(f"The formula multiplies out to more than {MOST_TERMS} terms. Write fewer products.")


def _count(node: Any, of: list[int]) -> int:
    symbol = node.operator.symbol if of else ""
    if symbol == "*":
        return of[0] + of[1] + of[0] * of[1]
    if symbol == ":":
        return of[0] * of[1]
    if symbol in ("**", "^"):
        power = str(node.args[1])
        if not (len(power) == 1 and power.isdigit() and 1 <= int(power) <= HIGHEST_POWER) or of[0] == 1:
            raise TableError(
                f"In a formula (a + b)**2 means all products of columns, with an exponent from 1 to {HIGHEST_POWER} "
                "that is written out. Powers of one column are I(a**2), or poly(a, 2)."
            )
        return int(of[0] ** int(power))
    return sum(of) or 1
