r"""Hypotheses about the weights: how they are written, and Wald's test.

Notation
--------
====  ======================================================================  ================
w     weights in data units, coefficients then intercept, class by class      (M,)
u     coordinates in which they are known, w = T u (see `covariance`)         (Q,)
R, r  a hypothesis R w = r of q equations                                     (q, M), (q,)
A     R T: the same hypothesis about u                                        (q, Q)
C     covariance of u                                                         (Q, Q)
====  ======================================================================  ================
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.special import chdtrc

from credibly.errors import InputError
from credibly.inference.linear.covariance import axes, refuse_row_space
from credibly.inference.linear.fit import LinearFit
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import PSD
from credibly.wording import did_you_mean

NOTHING = 1e-12  # of what its terms could add up to: a combination that cancels
SINGULAR = 1e-14  # of the largest eigenvalue
MOST_SHOWN = 20  # names in a message


@dataclass(frozen=True, repr=False)
class HypothesisResult:
    """A statistic that has a χ² distribution of `df` degrees of freedom if the hypothesis is true.

    Examples
    --------
    >>> HypothesisResult("Wald test", 3.841458820694124, 1)
    Wald test: χ² = 3.841 on 1 df, p = 0.05
    """

    test: str
    statistic: float
    df: int

    @property
    def pvalue(self) -> float:
        """P(χ² ≥ statistic)."""
        return float(chdtrc(self.df, self.statistic))

    def __repr__(self) -> str:
        return f"{self.test}: χ² = {self.statistic:.4g} on {self.df} df, p = {self.pvalue:.4g}"


# --- reading a hypothesis -------------------------------------------------------------------------------------


class Constraints(NamedTuple):
    """R w = r, and the words each equation came from."""

    R: Array  # (q, M)
    r: Array  # (q,)
    texts: list[str]


COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")  # not between backticks
# A name, or class:name; what is not made of letters, digits, _ and . stands between backticks.
TERM = re.compile(r"(?:(?P<label>`[^`]*`|(?<![\w.])[\w.]+)\s*:\s*)?(?P<name>`[^`]*`|(?<![\w.])[^\W\d][\w.]*)")


@dataclass(frozen=True)
class WeightNames:
    """Names of the weights: by column, and with K weight vectors by class and column.

    A linear form is held as a vector: D coefficients of names without a class, K·D of those with one, a constant.
    """

    names: Sequence[str]  # of one weight vector, the intercept's last
    classes: Sequence[str] = ()  # empty for one weight vector

    @property
    def n_weights(self) -> int:
        """M."""
        return len(self.names) * max(1, len(self.classes))

    @property
    def constant(self) -> Array:
        """The linear form that is 1."""
        return np.append(np.zeros(len(self.names) * (1 + len(self.classes))), 1.0)

    def form(self, label: str | None, name: str) -> Array:
        """The linear form that is one weight."""
        place = _place(name, self.names, "column")
        if label is not None and not self.classes:
            raise InputError(f"`{label}:{name}` names a class, but this model has one weight vector; write `{name}`.")
        if label is not None:
            place += len(self.names) * (1 + _place(label, self.classes, "class"))
        form = np.zeros_like(self.constant)
        form[place] = 1.0
        return form

    def equations(self, form: Array, text: str) -> tuple[Array, Array]:
        """Rows of R and entries of r for form = 0.

        One weight vector: one equation. Of K classes, a form without class names says that it is the same for all of
        them, which is K - 1 equations.
        """
        D, K = len(self.names), len(self.classes)
        shared, by_class, constant = form[:D], form[D:-1], form[-1]
        if K == 0:
            return shared[None, :], np.array([-constant])
        if not shared.any():
            return by_class[None, :], np.array([-constant])
        if by_class.any() or constant:
            raise InputError(
                f"{text!r}: of {K} classes a column without a class can only be without effect (= 0). Name the class "
                f"of every column, such as {self.classes[-1]}:{self.names[0]}."
            )
        return np.kron(np.eye(K)[1:] - np.eye(K)[0], shared), np.zeros(K - 1)


def read_hypothesis(hypothesis: object, r: ArrayLike, names: WeightNames) -> Constraints:
    """A hypothesis as equations about the weights.

    Parameters
    ----------
    hypothesis : str, list of str, or (q, M) or (M,) array
        Text: linear equations such as ``"age = 0, dose = 2*weight, 3*x1 - x2 = 1"``; without "=" they are "= 0".
        A list: one text for each entry; an entry that is a column's name is that column, whatever its characters.
        An array: R.
    r : number or (q,) array
        Right-hand sides, for an array only.
    names : WeightNames

    Examples
    --------
    >>> read_hypothesis("age = 2*`dose (mg)` + 1", 0, WeightNames(["age", "dose (mg)", "intercept"]))
    Constraints(R=array([[ 1., -2.,  0.]]), r=array([1.]), texts=['age = 2*`dose (mg)` + 1'])
    """
    given = [hypothesis] if isinstance(hypothesis, str) else hypothesis
    if not (isinstance(given, Sequence) and len(given) and all(isinstance(it, str) for it in given)):
        return _read_matrix(hypothesis, r, names.n_weights)
    if np.any(r):
        raise InputError("r goes with a matrix; in words, write the right-hand side into the equation: 'age = 1'.")
    R, sides, texts = [], [], []
    for text, form in (pair for words in given for pair in _forms(words, names)):
        rows, side = names.equations(form, text)
        R.append(rows)
        sides.append(side)
        texts += [text] * len(side)
    return Constraints(np.vstack(R), np.concatenate(sides), texts)


def _read_matrix(hypothesis: object, r: ArrayLike, M: int) -> Constraints:
    try:
        R, side = np.atleast_2d(np.asarray(hypothesis, dtype=float)), np.asarray(r, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"A hypothesis is text, a list of column names or a matrix; got {hypothesis!r}.") from error
    if R.ndim != 2 or R.shape[1] != M or not len(R):
        raise InputError(f"The matrix of a hypothesis has one column for each of {M} weights; got shape {R.shape}.")
    if side.shape not in ((), (len(R),)) or not (np.isfinite(R).all() and np.isfinite(side).all()):
        raise InputError(f"r must be a number or {len(R)} numbers, and all entries finite; got r = {r!r}.")
    return Constraints(R, np.broadcast_to(side, len(R)), [f"row {i}" for i in range(len(R))])


def _forms(text: str, names: WeightNames) -> list[tuple[str, Array]]:
    """The equations in a text, each with the linear form that it says is zero."""
    if text in names.names:
        return [(text, names.form(None, text))]
    return [
        (equation.strip(), left - right)
        for equation in COMMA.split(text)
        for left, right in pairwise(_sides(equation, names))
    ]


def _sides(equation: str, names: WeightNames) -> list[Array]:
    """Linear forms that an equation says are equal."""
    terms: dict[str, Array] = {}

    def stand_in(match: re.Match[str]) -> str:
        label, name = match["label"], match["name"]
        key = f"v{len(terms)}"  # a name that Python's parser takes, whatever the column is called
        terms[key] = names.form(None if label is None else label.strip("`"), name.strip("`"))
        return key

    try:
        sides = [ast.parse(side.strip(), mode="eval").body for side in re.split("==?", TERM.sub(stand_in, equation))]
    except SyntaxError as error:
        raise InputError(
            f"{equation.strip()!r} cannot be read as a linear equation such as 'age = 0' or '2*x1 - x2 = 1'. Names "
            "with other characters than letters, digits, _ and . go between backticks."
        ) from error
    forms = [_linear(side, terms, names.constant, equation.strip()) for side in sides]
    return forms if len(forms) > 1 else [*forms, 0.0 * names.constant]


def _linear(node: ast.expr, terms: dict[str, Array], one: Array, text: str) -> Array:
    """The linear form that an expression is, or an error."""
    match node:
        case ast.Constant(value=int() | float() as number) if np.isfinite(number):
            return float(number) * one
        case ast.Name(id=key):
            return terms[key]
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=inner):
            return _linear(inner, terms, one, text) * (-1.0 if isinstance(sign, ast.USub) else 1.0)
        case ast.BinOp(left=left, op=operation, right=right):
            form = _combined(operation, _linear(left, terms, one, text), _linear(right, terms, one, text))
            if form is not None:
                return form
    raise InputError(f"{text!r} is not linear in the weights; use +, - and products or quotients with numbers.")


def _combined(operation: ast.operator, a: Array, b: Array) -> Array | None:
    """A sum, a product or a quotient of linear forms; None where it is not linear."""
    a_is_number, b_is_number = not a[:-1].any(), not b[:-1].any()
    match operation:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult() if a_is_number or b_is_number:
            return np.asarray(a * b[-1] if b_is_number else b * a[-1])
        case ast.Div() if b_is_number and b[-1]:
            return np.asarray(a / b[-1])
    return None


def _place(name: str, names: Sequence[str], what: str) -> int:
    known = list(names)
    if known.count(name) == 1:
        return known.index(name)
    if name in known:
        raise InputError(f"There are {known.count(name)} weights called {name!r}; use a matrix instead of names.")
    hint = did_you_mean(name, known, most=1)
    more = f" and {len(known) - MOST_SHOWN} more" if len(known) > MOST_SHOWN else ""
    raise InputError(
        f"No {what} is called {name!r}.{hint and f' {hint}'} There are: "
        f"{', '.join(known[:MOST_SHOWN])}{more}. Names with spaces or signs go in backticks: `mean radius` = 0."
    )


# --- Wald's test ----------------------------------------------------------------------------------------------


def wald_test(fit: LinearFit, constraints: Constraints, C: Array) -> HypothesisResult:
    r"""Wald's test of linear equations about the weights.

    .. math:: (R w - r)^T (R V R^T)^{-1} (R w - r) \sim χ^2_q

    Parameters
    ----------
    fit : LinearFit
    constraints : Constraints
        R w = r.
    C : (Q, Q) array
        Covariance of the coordinates: `coordinate_covariance`, or `given_covariance`.
    """
    refuse_row_space(fit, "wald_test")
    q, shared = fit.posterior.free, fit.posterior.shared
    u = q.mean if shared is None else np.concatenate([q.mean, shared.mean])
    return wald(u, C, in_coordinates(constraints, axes(fit.posterior)))


def in_coordinates(constraints: Constraints, T: Array) -> Constraints:
    """The hypothesis R T u = r, rows of unit length, refused unless every row says something new."""
    R, r, texts = constraints
    A = R @ T
    size, possible = np.linalg.norm(A, axis=1), np.abs(R) @ np.linalg.norm(T, axis=1)
    empty = [text for text, nothing in zip(texts, size <= NOTHING * possible, strict=True) if nothing]
    if empty:
        raise InputError(
            f"The hypothesis {empty[0]!r} says nothing about the model: no weight is in it, or (K classes without a "
            "prior) only a sum over all classes, which the data do not determine."
        )
    A, r = A / size[:, None], r / size
    for i in range(1, len(A)):
        if np.linalg.matrix_rank(A[: i + 1]) <= i:
            raise InputError(f"The hypothesis {texts[i]!r} follows from those before it, or contradicts them; drop it.")
    return Constraints(A, r, texts)


def wald(u: Array, C: Array, constraints: Constraints) -> HypothesisResult:
    r"""Wald's test of A u = r.

    .. math:: (A u - r)^T (A C A^T)^{-1} (A u - r)

    Notes
    -----
    With Aᵀ = Q B the hypothesis is Qᵀu = B⁻ᵀr, which is tested: two rows that are nearly the same direction (a
    coefficient, and the intercept of a column far from zero) would leave a matrix A C Aᵀ that is singular to rounding.
    """
    A, r, _ = constraints
    Q, B = np.linalg.qr(A.T)
    gap = Q.T @ u - solve_triangular(B, r, trans="T")
    V = Q.T @ C @ Q
    values = np.linalg.eigvalsh(V)
    if not values[0] > SINGULAR * values[-1]:
        raise InputError(
            f"The covariance of these {len(r)} combinations is singular, so they cannot be tested together. A robust "
            "covariance has no more rank than there are groups (or rows) less one: test fewer at a time."
        )
    return HypothesisResult("Wald test", float(gap @ PSD.of(V, "a covariance").solve(gap)), len(r))
