"""Cells: numbers at the ends of floating point, types of numbers, and what is no number at all."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from reliability.estimators import Problem
from reliability.inputs import (
    FITS,
    NO_COUNTS,
    SAME,
    UNSETTLED,
    Answer,
    Change,
    Fits,
    Input,
    Refused,
    generative,
    missing,
)

ENDS = "1e100"
BEYOND: dict[str, Answer] = {
    "every": Refused("values beyond 1e100 in column 'x1'.*Change the unit"),
    **generative(Refused("beyond 1e100, in column 'x1'.*change the unit")),
}
TINY = Refused("differ by less than 1e-100 in column 'x1'.*Change the unit")
INFINITE: dict[str, Answer] = {
    "every": Refused(r"infinity \(inf\) in column 'x1'.*drop or impute"),
    **generative(Refused(r"infinity \(inf\).* in column 'x1'.*missing cell is NaN")),
}
COUNTS_LIKE = Fits(warns="holds whole numbers and is read as Poisson counts")
DATES = Refused("X holds .*turn them into numbers first")
DATE_CELLS: dict[str, Answer] = {
    "every": Refused("X holds (dates|what is no number).*days since a start"),
    "bayes": Refused("Column 'x1' holds dates.*turn it into numbers first"),
}


def cell(value: Any, kind: Any = float) -> Change:
    def change(problem: Problem) -> Problem:
        X = problem.X.astype(kind)
        X[3, 1] = value
        return problem.but(X=X)

    return change


def column(make: Callable[[np.ndarray], np.ndarray]) -> Change:
    def change(problem: Problem) -> Problem:
        X = problem.X.copy()
        X[:, 1] = make(X[:, 1])
        return problem.but(X=X)

    return change


def table(make: Callable[[np.ndarray], Any]) -> Change:
    return lambda problem: problem.but(X=make(problem.X))


def alternating(low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.where(np.arange(len(x)) % 2, low, high)


def whole(X: np.ndarray) -> np.ndarray:
    return np.minimum(np.round(X * 30), 127)


INT = np.iinfo(np.int64)
WHOLE: dict[str, Answer] = {"every": SAME, "yes and no": Refused("holds 0 or 1")}

CELLS = [
    Input("NaN", "Refused with the column, but by models that take missing cells.", cell(np.nan), missing()),
    Input("+inf", "Refused with the column; the message says what a missing cell is.", cell(np.inf), INFINITE),
    Input("-inf", "As +inf.", cell(-np.inf), INFINITE),
    Input(
        "subnormal number (5e-324)",
        "A number like others, next to zero.",
        cell(5e-324),
        {"every": FITS, **NO_COUNTS},
    ),
    Input("1e-300", "A number like others, next to zero.", cell(1e-300), {"every": FITS, **NO_COUNTS}),
    Input("1e300", "Refused with the column: its square is no number.", cell(1e300), BEYOND),
    Input("a column times 1e300", "As 1e300.", column(lambda x: x * 1e300), BEYOND),
    Input(
        "a column from -1.7e308 to 1.7e308",
        "As 1e300; even the difference overflows.",
        column(alternating(-1.7e308, 1.7e308)),
        BEYOND,
    ),
    Input(
        "a column times 1e-300",
        "Refused with the column: variances underflow.",
        column(lambda x: x * 1e-300),
        {"every": TINY},
    ),
    Input("a column of subnormals", "As times 1e-300.", column(lambda x: x * 1e-310), {"every": TINY}),
    Input(
        "columns of scale 1e-12, 1 and 1e12",
        "Fits; with default priors the unit of a column changes nothing.",
        table(lambda X: X * [1e-12, 1.0, 1e12]),
        {"every": FITS, **NO_COUNTS},
    ),
    Input(
        "int8 up to its limits",
        "Whole numbers of any width are read as float64 before anything is added up.",
        table(lambda X: np.maximum(whole(X), -128).astype(np.int8)),
        WHOLE,
        plain=table(lambda X: np.maximum(whole(X), -128)),
    ),
    Input(
        "int64 at its limits",
        "Numbers like others; a Normal prior, in such units all but flat, may leave EP and variational inference "
        "unsettled.",
        table(lambda X: np.where(X > np.median(X), INT.max, INT.min)),
        {
            "every": FITS,
            **dict.fromkeys(("BayesianLogisticRegression", "BayesianProbitRegression"), UNSETTLED),
            **dict.fromkeys(("NoisyThresholdClassifier", "BayesianGLM, binomial"), UNSETTLED),
            **NO_COUNTS,
        },
    ),
    Input(
        "uint64 beyond 2^63",
        "As int64; NaiveBayes warns of whole numbers that are no counts.",
        table(lambda X: np.uint64(2**63) + np.abs(whole(X)).astype(np.uint64) * np.uint64(10**16)),
        {"every": FITS, "NaiveBayes": COUNTS_LIKE, "yes and no": Refused("holds 0 or 1")},
    ),
    Input(
        "booleans",
        "0 and 1.",
        table(lambda X: X > np.median(X)),
        {"every": SAME},
        plain=table(lambda X: (X > np.median(X)).astype(float)),
    ),
    Input(
        "float32",
        "The numbers that float64 rows of the same values give.",
        table(lambda X: X.astype(np.float32)),
        {"every": SAME},
        plain=table(lambda X: X.astype(np.float32).astype(float)),
    ),
    Input(
        "float16",
        "As float32.",
        table(lambda X: X.astype(np.float16)),
        {"every": SAME},
        plain=table(lambda X: X.astype(np.float16).astype(float)),
    ),
    Input("longdouble", "Read as float64.", table(lambda X: X.astype(np.longdouble)), {"every": SAME}),
    Input(
        "longdouble beyond float64",
        "Infinity in float64, refused as such.",
        table(lambda X: np.where(np.arange(3) == 1, X * np.longdouble("1e400"), X)),
        INFINITE,
    ),
    Input(
        "complex", "Refused.", table(lambda X: X + 0j), {"every": Refused("Complex data not supported.*two columns")}
    ),
    Input("objects that are numbers", "Read as numbers.", table(lambda X: X.astype(object)), {"every": SAME}),
    Input("None among objects", "A missing cell, as NaN.", cell(None, object), missing()),
    Input("pd.NA among objects", "A missing cell, as NaN.", cell(pd.NA, object), missing()),
    Input(
        "Decimal among objects",
        "A number.",
        cell(Decimal(1), object),
        {"every": SAME},
        plain=cell(1.0),
    ),
    Input(
        "10**400 among objects",
        "Refused: no float64 is that large.",
        cell(10**400, object),
        {"every": Refused("beyond the range of float64.*unit")},
    ),
    Input(
        "lists in cells",
        "Refused: a cell is one number.",
        lambda p: p.but(X=np.array([[[1.0, 2.0] if j == 1 else v for j, v in enumerate(row)] for row in p.X], object)),
        {
            "every": Refused("lists or arrays in its cells.*one number"),
            "bayes": Refused("must be a string or a number"),
        },
    ),
    Input(
        "text among objects",
        "Refused with a way to encode it; a category to NaiveBayes.",
        lambda p: p.but(X=np.column_stack([p.X.astype(object), np.where(p.codes, "u", "v")])),
        {
            "every": Refused("text where numbers are expected.*OneHotEncoder"),
            "bayes": Refused("Column 'x3' holds text.*'categorical'"),
            "NaiveBayes": FITS,
            "categories": FITS,
        },
    ),
    Input(
        "text that reads like a number among objects",
        "As other text: it is not read.",
        cell("1", object),
        {
            "every": Refused("text where numbers are expected, such as '1'.*OneHotEncoder"),
            "bayes": Refused("Column 'x1' holds text.*'categorical'"),
            "NaiveBayes": FITS,
            "categories": FITS,
        },
    ),
    Input(
        "an array of strings",
        "Refused with a way to encode it, even where the text reads like numbers; categories to NaiveBayes.",
        table(lambda X: X.round(1).astype(str)),
        {
            "every": Refused("array of strings; expected numbers.*OneHotEncoder"),
            "bayes": Refused("Column 'x0' holds text.*'categorical'"),
            "NaiveBayes": FITS,
            "categories": FITS,
        },
    ),
    Input(
        "dates (datetime64)",
        "Refused, never read as counts.",
        table(lambda X: (X * 9).astype("M8[D]")),
        {"every": DATES},
    ),
    Input("datetime64 among objects", "…", cell(np.datetime64("2020-01-01"), object), DATE_CELLS),
    Input("a Python date among objects", "…", cell(datetime.date(2020, 1, 1), object), DATE_CELLS),
    Input("masked dates", "…", table(lambda X: np.ma.masked_array((X * 9).astype("M8[D]"), X > 1)), {"every": DATES}),
    Input("spans of time (timedelta64)", "As dates.", table(lambda X: (X * 9).astype("m8[D]")), {"every": DATES}),
    Input(
        "a structured array",
        "Refused with two ways to make it a table.",
        table(lambda X: np.array([tuple(row) for row in X], dtype=[("a", float), ("b", float), ("c", float)])),
        {"every": Refused("structured array with the fields 'a', 'b', 'c'.*pandas.DataFrame")},
    ),
]
