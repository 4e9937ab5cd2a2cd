"""What a formula may say. It is read here, never run: a formula may come from a file or a web form.

A formula is sums and products of *factors*: column names, and calls such as ``poly(dose, 2)``. `pieces` cuts the text
into factors and operators, `parsed` turns a factor into a tree that holds nothing but columns, numbers, strings,
arithmetic, comparisons and calls of the functions named here. Everything else is an error that says what is allowed.
The rooms above walk over these trees themselves; no text of a formula ever reaches Python's ``eval``, nor a package
that would hand it there.
"""

import ast
import keyword
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, NoReturn

from credibly.errors import TableError
from credibly.wording import close_names

LONGEST_FORMULA = 20_000  # characters
LONGEST_FACTOR = 500  # characters
DEEPEST_FACTOR = 50  # operators and calls inside each other

ARITHMETIC = ("I", "log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "abs")
LEARNING = ("center", "scale", "standardize", "poly", "bs", "ns")
FUNCTIONS = ("C", *ARITHMETIC, *LEARNING)

ALLOWED = (
    "A formula may hold column names (in backticks if they have spaces or symbols), + - * : / ** ^ . and parentheses, "
    f"and calls of {', '.join(FUNCTIONS)}; inside a call: column names, numbers, strings, + - * / ** %, comparisons, "
    "and the other calls"
)

# A quoted name, a quoted string, a word (dots allowed, as in Sepal.Length), a number, an operator, anything else.
PIECES = re.compile(
    r"""(?P<space>\s+)|(?P<quoted>`[^`]*`)|(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<name>[^\W\d][\w.]*)|(?P<number>\d[\w.]*)|(?P<operator>\*\*|[-+*/:^~()])|(?P<dot>\.)|(?P<other>.)""",
    re.DOTALL,
)

INSTEAD = {  # what people write from habit, and what to write here
    "{": "I(...) is the way to write arithmetic",
    "%": "%in% is not known here, write a:b; the remainder of a division goes into I(...)",
    "|": "a formula has one part only",
    "[": "nothing can be picked out of a column",
    "<": "put a comparison into I(...)",
    ">": "put a comparison into I(...)",
    "=": "put a comparison into I(...); the target is divided from the columns by ~",
    "Q": "a name with spaces or symbols stands in backticks",
    "Treatment": 'the reference level is chosen by C(column, reference="level")',
    "contr": 'the reference level is chosen by C(column, reference="level")',
    "Sum": "the only contrasts are indicators of levels",
    "np": "functions stand without np. in front",
    "cr": "natural cubic splines are ns(column, df)",
    "cs": "natural cubic splines are ns(column, df)",
    "cc": "periodic splines are not known here",
    "lag": "rows do not know their neighbours",
    "hashed": "levels are kept as they are",
}


class Piece(NamedTuple):
    """A part of a formula: "factor" (its text in one spelling), "operator", "number" or "dot"."""

    kind: str
    text: str


# --- A formula ------------------------------------------------------------------------------------------------------


def pieces(formula: str) -> list[Piece]:
    """Cut a formula into factors and operators.

    Parameters
    ----------
    formula : str

    Returns
    -------
    list of Piece

    Examples
    --------
    >>> [piece.text for piece in pieces("ill ~ age + poly(dose,2) : `blood pressure`")]
    ['ill', '~', 'age', '+', 'poly(dose, 2)', ':', '`blood pressure`']
    """
    if not isinstance(formula, str):
        raise TableError(f"A formula is text such as 'ill ~ age + C(sex)'; got {type(formula).__name__}.")
    if len(formula) > LONGEST_FORMULA:
        raise TableError(f"A formula may have at most {LONGEST_FORMULA} characters; this one has {len(formula)}.")
    found = [match for match in PIECES.finditer(formula) if match.lastgroup != "space"]
    out, at = [], 0
    while at < len(found):
        end = _end_of_call(found, at)
        out.append(_piece(formula[found[at].start() : found[end].end()], found[at], is_call=end > at))
        at = end + 1
    return out


def _end_of_call(found: list[re.Match[str]], at: int) -> int:
    """Where the call that starts here ends: at its closing parenthesis; no call, no way."""
    if found[at].lastgroup != "name" or at + 1 == len(found) or found[at + 1].group() != "(":
        return at
    depth = 0
    for end in range(at + 1, len(found)):
        depth += {"(": 1, ")": -1}.get(found[end].group(), 0)
        if depth == 0:
            return end
    raise TableError(f"The parenthesis after {found[at].group()!r} is never closed.")


def _piece(text: str, match: re.Match[str], *, is_call: bool) -> Piece:
    kind = match.lastgroup or ""
    if is_call:
        return Piece("factor", spelt(parsed(text)))
    if kind in ("name", "quoted"):
        name = text.strip("`")
        if kind == "name" and name.startswith("__"):
            refuse(text, "names that begin with __ stand in backticks")
        return Piece("factor", quoted(name))
    if kind == "number" and text.isascii() and text.isdigit():
        return Piece("number", text)
    if kind in ("operator", "dot"):
        return Piece(kind, text)
    refuse(text, "a number can only be 0, 1 or an exponent" if kind == "number" else INSTEAD.get(text[0], ""))


# --- Names ----------------------------------------------------------------------------------------------------------


def quoted(name: str) -> str:
    """A column's name as a formula spells it: bare where Python would read it back unchanged, else in backticks."""
    bare = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")
    return name if bare and unicodedata.normalize("NFKC", name) == name else f"`{name}`"


def unknown(name: str, columns: Iterable[str]) -> NoReturn:
    """Say that there is no such column, and which it may be."""
    known = list(columns)
    parts = [it for it in known if name in re.split(r"\W+", it)]  # x-ray is read as x minus ray
    near = list(dict.fromkeys([*parts, *close_names(name, known)]))[:3]
    hint = f" Did you mean {' or '.join(map(quoted, near))}?" if near else ""
    listed = ", ".join(map(quoted, known[:8])) + (f" … ({len(known)} in all)" if len(known) > 8 else "")
    raise TableError(
        f"The formula names {name!r}, and the table has no such column.{hint} It has {listed}. "
        "A name with spaces or symbols stands in backticks."
    )


def refuse(text: str, why: str = "") -> NoReturn:
    """Say that this has no place in a formula, and what has."""
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    raise TableError(f"{shown!r} cannot stand in a formula{': ' if why else ''}{why}. {ALLOWED}.")


# --- A factor -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def parsed(factor: str) -> ast.expr:
    """The tree of a factor, which holds nothing that is not allowed.

    Parameters
    ----------
    factor : str
        A column name or a call.

    Returns
    -------
    ast.expr
        Names that need backticks have them in the ``id`` of their nodes.

    Examples
    --------
    >>> parsed("log(`blood pressure`)").args[0].id
    '`blood pressure`'
    >>> parsed("C(__import__('os'))")
    Traceback (most recent call last):
        ...
    credibly.errors.TableError: "__import__('os')" cannot stand in a formula: only the functions named here ...
    """
    if len(factor) > LONGEST_FACTOR:
        raise TableError(
            f"A factor of a formula may have at most {LONGEST_FACTOR} characters; {factor[:40]!r}… has {len(factor)}. "
            "Compute such a column in the table itself."
        )
    code, names = _without_backticks(factor)
    tree = _python(code, factor)
    _check_depth(tree, factor)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = quoted(names[node.id])
    _check(tree)
    return tree


def spelt(node: ast.expr) -> str:
    """A tree as text, in one spelling."""
    return ast.unparse(node)


def columns_of(node: ast.expr) -> Iterator[str]:
    """The columns that a factor needs, in order."""
    if isinstance(node, ast.Name):
        yield node.id.strip("`")
    children = [*node.args, *(it.value for it in node.keywords)] if isinstance(node, ast.Call) else operands(node)
    for child in children:
        yield from columns_of(child)


def operands(node: ast.expr) -> list[ast.expr]:
    """What an operator works on."""
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _without_backticks(factor: str) -> tuple[str, dict[str, str]]:
    """The text with stand-ins for names in backticks, and what they stand for."""
    names: dict[str, str] = {}
    prefix = "q"
    while prefix in factor:
        prefix += "q"
    parts = []
    for match in PIECES.finditer(factor):
        if match.lastgroup == "quoted":
            stand_in = f"{prefix}{len(names)}"
            names[stand_in] = match.group().strip("`")
            parts.append(f" {stand_in} ")
        else:
            parts.append(match.group())
    return "".join(parts).strip(), names


def _python(code: str, factor: str) -> ast.expr:
    try:
        with warnings.catch_warnings():  # of odd escapes in strings, which are Python's business and not the user's
            warnings.simplefilter("ignore")
            return ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise TableError(f"{factor!r} in the formula cannot be read: {reason}. {ALLOWED}.") from None


def _check_depth(tree: ast.expr, factor: str) -> None:
    """Level by level, not by recursion: whatever walks over the tree later can do so without running out of stack."""
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST_FACTOR):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise TableError(
            f"{factor[:40]!r}… in the formula is nested more than {DEEPEST_FACTOR} deep. Compute such a column in the "
            "table itself."
        )


OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def _check(node: ast.expr) -> None:
    """Let through what is on the list; what Python may invent next is not."""
    match node:
        case ast.Name(id=name):
            if name.startswith("__"):
                refuse(name, "names that begin with __ stand in backticks")
            return
        case ast.Constant(value=value):
            _check_constant(value)
            return
        case ast.Call():
            _check_call(node)
            return
        case ast.BinOp(op=op) if isinstance(op, OPERATORS):
            pass
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            pass
        case ast.Compare(ops=ops) if all(isinstance(op, COMPARISONS) for op in ops):
            pass
        case ast.Attribute():
            refuse(spelt(node), f"no dots: {INSTEAD['np']}, a column with a dot in its name stands in backticks")
        case _:
            refuse(spelt(node))
    for child in operands(node):
        _check(child)


def _check_call(node: ast.Call) -> None:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in FUNCTIONS:
        near = close_names(name, FUNCTIONS, 1)
        root = next((it.id for it in ast.walk(node.func) if isinstance(it, ast.Name)), "")
        hint = (
            f"perhaps {near[0]} is meant" if near else INSTEAD.get(root, "only the functions named here can be called")
        )
        refuse(spelt(node), hint)
    if any(option.arg is None for option in node.keywords) or not node.args:
        refuse(spelt(node), f"{name} takes a column first, then options")
    for value in (*node.args, *(option.value for option in node.keywords)):
        if isinstance(value, ast.List | ast.Tuple):  # knots=[1, 2, 3]
            for item in value.elts:
                _check_number(item)
        else:
            _check(value)


def _check_number(node: ast.expr) -> None:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    if not isinstance(inner, ast.Constant) or isinstance(inner.value, str | bool):
        refuse(spelt(node), "a list holds numbers")
    _check(node)


def _check_constant(value: object) -> None:
    if isinstance(value, str | bool):
        return
    if not isinstance(value, int | float) or not abs(value) <= 1e300:
        refuse(repr(value), "it is no number of ordinary size, and no string")
