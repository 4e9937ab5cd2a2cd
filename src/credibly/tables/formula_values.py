"""The factors of a formula on one table: a walk over their trees, with what the training table taught.

Missing cells are NaN from beginning to end, and nothing else is: where a function has no finite value (the logarithm
of zero), that is an error which names the row.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from credibly.errors import DataWarning, TableError
from credibly.numerics.arrays import AnyArray, Array
from credibly.tables.columns import Column, cells, numbers
from credibly.tables.formula_functions import TRANSFORMS, Learnt, Transform
from credibly.tables.formula_safety import columns_of, quoted, spelt

if TYPE_CHECKING:
    import pandas as pd

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "I": np.positive,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "exp": np.exp,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "abs": np.abs,
}
OPERATORS: dict[type[ast.operator] | type[ast.unaryop], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.Mod: np.mod,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}
COMPARISONS: dict[type[ast.cmpop], Callable[..., Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


class Values:
    """Factors evaluated on one table.

    Parameters
    ----------
    frame : DataFrame
    kinds : mapping
        Of the columns: "number", "flag" or "category".
    learnt : dict, optional
        What calls such as ``center(age)`` remember of the training table, by their text. None: this is that table,
        and `learnt` fills as calls are met.
    """

    def __init__(
        self, frame: pd.DataFrame, kinds: Mapping[str, str], learnt: Mapping[str, Learnt] | None = None
    ) -> None:
        self.frame = frame
        self.kinds = kinds
        self.learnt = dict(learnt or {})
        self.learning = learnt is None
        self.known: dict[str, Array] = {}

    def columns(self, factor: ast.expr) -> Array:
        """The columns of a factor that is no category, (n, k)."""
        several = transform_of(factor) if is_transform(factor) else None
        if isinstance(factor, ast.Call) and several is not None and several.several:
            values = self._transformed(factor, several)
        else:
            values = self._value(factor)
        if not values.ndim:
            raise TableError(f"{spelt(factor)} in the formula names no column: it is the same in every row.")
        return values if values.ndim == 2 else values[:, None]

    def category(self, factor: ast.expr) -> pd.Series:
        """The cells that ``C(...)`` divides into levels."""
        import pandas as pd

        assert isinstance(factor, ast.Call)
        if isinstance(factor.args[0], ast.Name):
            return self.frame[factor.args[0].id.strip("`")]
        values = np.broadcast_to(self._value(factor.args[0]), len(self.frame))
        return pd.Series(values, index=self.frame.index, name=spelt(factor))

    # --- numbers -----------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Array:
        """The value of an expression: (n,), or () if it is the same in every row."""
        match node:
            case ast.Constant(value=str()):
                raise TableError(
                    f"{spelt(node)} is text; in a formula text can be compared with a column of text only."
                )
            case ast.Constant(value=value):
                return np.asarray(float(value))  # type: ignore[arg-type] # formula_safety let numbers through only
            case ast.Name(id=name):
                return self._numbers(name.strip("`"))
            case ast.BinOp(left=left, op=op, right=right):
                return self._finite(node, OPERATORS[type(op)], self._value(left), self._value(right))
            case ast.UnaryOp(op=sign, operand=operand):
                return self._finite(node, OPERATORS[type(sign)], self._value(operand))
            case ast.Compare():
                return self._compared(node)
            case ast.Call():
                return self._called(node)
        raise TableError(f"{spelt(node)} in the formula is neither a column nor a number.")

    def _numbers(self, name: str) -> Array:
        if name not in self.known:
            kind = self.kinds[name]
            if kind == "category":
                shown = quoted(name)
                raise TableError(
                    f"Column {name!r} holds text, and the formula calculates with it. Use it as it is, as C({shown}), "
                    f'or compare it, as in I({shown} == "level").'
                )
            values = numbers(self.frame[name], Column(name, kind))
            self.known[name] = np.ascontiguousarray(values, dtype=np.float64)
        return self.known[name]

    def _called(self, node: ast.Call) -> Array:
        name = function_name(node)
        if name == "C":
            raise TableError(f"{spelt(node)} is a category and cannot be part of an expression.")
        if name in TRANSFORMS:
            transform = transform_of(node)
            if transform.several:
                raise TableError(f"{spelt(node)} is several columns and cannot be part of an expression.")
            return self._transformed(node, transform)
        if len(node.args) != 1 or node.keywords:
            raise TableError(f"{spelt(node)} in the formula: {name} takes one column or expression, nothing else.")
        return self._finite(node, ELEMENTWISE[name], self._value(node.args[0]))

    def _transformed(self, node: ast.Call, transform: Transform) -> Array:
        text = spelt(node)
        x = np.broadcast_to(self._value(node.args[0]), len(self.frame))
        present = x[~np.isnan(x)]
        try:
            if self.learning and text not in self.learnt:
                if not len(present):
                    raise TableError("There are no values to learn from.")
                self.learnt[text] = transform.learn(present)
            if doubt := transform.doubt(present, self.learnt[text]):
                warnings.warn(f"{text} in the formula: {doubt}", DataWarning, stacklevel=4)
            return self._finite(node, lambda values: transform.columns(values, self.learnt[text]), x)
        except TableError as error:
            raise TableError(f"{text} in the formula: {error}") from None

    def _finite(self, node: ast.expr, function: Callable[..., Any], *arguments: Array) -> Array:
        """Apply a function where no argument is missing; elsewhere the result is missing."""
        with np.errstate(all="ignore"):  # what goes wrong is looked for below
            out = np.asarray(function(*arguments), dtype=np.float64)
        gaps = np.isnan(arguments[0]) if len(arguments) == 1 else np.isnan(arguments[0]) | np.isnan(arguments[1])
        bad = ~(np.isfinite(out) if out.ndim < 2 else np.isfinite(out).all(axis=1)) & ~gaps
        if bad.any():
            self._refuse(node, np.broadcast_to(bad, len(self.frame)))
        return np.where(gaps if out.ndim < 2 else gaps[:, None], np.nan, out)

    def _refuse(self, node: ast.expr, bad: AnyArray) -> None:
        row = int(np.argmax(bad))
        there = ", ".join(f"{name} = {self.frame[name].iloc[row]!s:.9}" for name in dict.fromkeys(columns_of(node)))
        raise TableError(
            f"{spelt(node)} in the formula is no finite number in {int(bad.sum())} of {len(bad)} rows; the first is "
            f"row {row + 1}{f', where {there}' if there else ''}."
        )

    # --- comparisons -------------------------------------------------------------------------------------------

    def _compared(self, node: ast.Compare) -> Array:
        """One where true, zero where not; a < b < c is both."""
        out = np.ones(())
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            words = [side for side in (left, right) if isinstance(side, ast.Constant) and isinstance(side.value, str)]
            if words:
                other = right if words[0] is left else left
                truth = self._compared_with_text(node, other, op, str(words[0].value))
            else:
                truth = self._finite(node, COMPARISONS[type(op)], self._value(left), self._value(right))
            out = out * truth
        return out

    def _compared_with_text(self, node: ast.Compare, side: ast.expr, op: ast.cmpop, word: str) -> Array:
        name = side.id.strip("`") if isinstance(side, ast.Name) else ""
        if self.kinds.get(name) != "category" or not isinstance(op, ast.Eq | ast.NotEq):
            raise TableError(
                f"{spelt(node)} in the formula: only a column of text can be compared with text, by == or !=."
            )
        values = self.frame[name]
        same = (cells(values) == word).to_numpy(dtype=bool, na_value=False)
        truth = same if isinstance(op, ast.Eq) else ~same
        return np.where(values.isna().to_numpy(), np.nan, truth.astype(np.float64))


# --- Calls ----------------------------------------------------------------------------------------------------------


def function_name(node: ast.expr) -> str:
    """The name of the function that is called, or nothing."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def is_transform(node: ast.expr) -> bool:
    """Whether this calls a function that learns."""
    return function_name(node) in TRANSFORMS


def transform_of(node: ast.expr) -> Transform:
    """The function that a call means, with its options."""
    assert isinstance(node, ast.Call)
    kind = TRANSFORMS[function_name(node)]
    options = options_of(node, tuple(field.name for field in fields(kind)))
    try:
        return kind(**options)
    except TypeError:
        needed = ", ".join(field.name for field in fields(kind))
        raise TableError(f"{spelt(node)} in the formula lacks an option; it takes a column, then {needed}.") from None
    except TableError as error:
        raise TableError(f"{spelt(node)} in the formula: {error}") from None


def options_of(node: ast.Call, names: tuple[str, ...]) -> dict[str, Any]:
    """The options of a call, by name."""
    given = [*zip(names, node.args[1:], strict=False), *((str(it.arg), it.value) for it in node.keywords)]
    strange = [name for name, _ in given if name not in names]
    if strange or len(node.args) - 1 > len(names) or len({name for name, _ in given}) < len(given):
        takes = ", ".join(names) or "no options"
        raise TableError(f"{spelt(node)} in the formula: {function_name(node)} takes a column, then {takes}.")
    return {name: _constant(value, node) for name, value in given}


def _constant(node: ast.expr, call: ast.Call) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return tuple(_constant(item, call) for item in items)
    raise TableError(f"{spelt(call)} in the formula: options are written out as numbers or text; got {spelt(node)}.")
