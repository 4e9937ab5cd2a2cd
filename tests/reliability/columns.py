"""Columns of data frames: types that are numbers, with gaps or without, and types that are none."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from reliability.containers import frame
from reliability.estimators import Problem
from reliability.inputs import FITS, SAME, Answer, Change, Fits, Input, Refused, missing

NOT_NUMBERS = "not numbers: 'b'"
CATEGORIES: dict[str, Answer] = {
    "every": Refused(f"{NOT_NUMBERS}.*OneHotEncoder"),
    "bayes": Refused("Column 'b' holds text.*'categorical'"),
    "NaiveBayes": FITS,
    "categories": FITS,
}
TIMES: dict[str, Answer] = {
    "every": Refused(f"{NOT_NUMBERS}.*days since a start"),
    "bayes": Refused("'b' holds dates.*turn it into numbers first"),
}


def column(make: Callable[[pd.Series], Any]) -> Change:
    """The middle column as another one."""
    return lambda p: p.but(X=frame(p.X).assign(b=lambda it: make(it["b"])))


def by_class(make: Callable[[np.ndarray], Any]) -> Change:
    """The middle column by class: u or v."""
    return lambda p: p.but(X=frame(p.X).assign(b=make(np.where(p.codes, "u", "v"))))


def gap(values: Any) -> pd.Series:
    return pd.Series(values).where(np.arange(len(values)) != 3)


def above(p: Problem) -> Problem:
    """What a column of booleans says, as numbers."""
    X = p.X.copy()
    X[:, 1] = X[:, 1] > np.median(X[:, 1])
    return p.but(X=X)


def rounded(p: Problem) -> Problem:
    X = p.X.copy()
    X[:, 1] = X[:, 1].round()
    return p.but(X=X)


def days(n: int) -> pd.Series:
    return pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n), "D"))


def gaps() -> dict[str, Answer]:
    return missing("NaN in column 'b'.*drop or impute")


def numbers(name: str, dtype: str, says: str = "…") -> Input:
    return Input(name, says, column(lambda b: b.astype(dtype)), {"every": SAME})


def whole(name: str, dtype: str) -> Input:
    return Input(name, "…", column(lambda b: b.round().astype(dtype)), {"every": SAME}, plain=rounded)


def yes_no(name: str, dtype: str) -> Input:
    return Input(name, "0 and 1.", column(lambda b: (b > b.median()).astype(dtype)), {"every": SAME}, plain=above)


def with_gap(name: str, make: Callable[[pd.Series], Any]) -> Input:
    return Input(name, "A missing cell, as NaN.", column(lambda b: gap(make(b))), gaps())


def polars(make: Callable[[np.ndarray], pl.Series | list[Any]]) -> Change:
    return lambda p: p.but(X=pl.DataFrame({"a": p.X[:, 0], "b": make(p.X[:, 1]), "c": p.X[:, 2]}))


COLUMNS = [
    numbers("Float64", "Float64", "Nullable and Arrow types are the numbers they hold."),
    whole("Int64", "Int64"),
    yes_no("bool", "bool"),
    yes_no("boolean", "boolean"),
    with_gap("Float64 with NA", lambda b: b.astype("Float64")),
    with_gap("Int64 with NA", lambda b: b.round().astype("Int64")),
    with_gap("boolean with NA", lambda b: (b > b.median()).astype("boolean")),
    numbers("Arrow double", "double[pyarrow]"),
    whole("Arrow int64", "int64[pyarrow]"),
    yes_no("Arrow bool", "bool[pyarrow]"),
    with_gap("Arrow int64 with null", lambda b: b.round().astype("int64[pyarrow]")),
    with_gap("Arrow bool with null", lambda b: (b > b.median()).astype("bool[pyarrow]")),
    Input(
        "Arrow decimal",
        "Decimals are numbers.",
        column(lambda b: pd.Series([Decimal(int(v)) for v in b.round()], dtype=pd.ArrowDtype(pa.decimal128(10, 0)))),
        {"every": SAME},
        plain=rounded,
    ),
    numbers("objects that are numbers in a frame", "object"),
    Input(
        "pandas' sparse columns",
        "Numbers; scikit-learn warns that they become dense.",
        column(pd.arrays.SparseArray),
        {"every": Fits(warns="sparse columns found"), "bayes": SAME},
    ),
    Input(
        "text",
        "Refused with the columns and a way to encode them; categories to NaiveBayes.",
        by_class(list),
        CATEGORIES,
    ),
    Input("Arrow strings", "As text.", by_class(lambda u: pd.Series(u, dtype="string[pyarrow]")), CATEGORIES),
    Input("categories", "As text, even where the categories are numbers.", by_class(pd.Categorical), CATEGORIES),
    Input(
        "ordered categories with an unused level",
        "As text; the unused level is known to NaiveBayes.",
        by_class(lambda u: pd.Categorical(u, categories=["u", "v", "w"], ordered=True)),
        CATEGORIES,
    ),
    Input("intervals", "As text.", column(lambda b: pd.cut(b.rank(), 3).astype("interval")), CATEGORIES),
    Input(
        "dates in a frame", "Refused: counts of days are numbers, dates are not.", column(lambda b: days(len(b))), TIMES
    ),
    Input("dates with a time zone", "…", column(lambda b: days(len(b)).dt.tz_localize("UTC")), TIMES),
    Input("Arrow timestamps", "…", column(lambda b: days(len(b)).astype("timestamp[ns][pyarrow]")), TIMES),
    Input("timedeltas", "…", column(lambda b: days(len(b)) - days(len(b))[0]), TIMES),
    Input("periods", "…", column(lambda b: pd.period_range("2020-01", periods=len(b), freq="M")), TIMES),
    Input(
        "Python's dates",
        "…",
        column(lambda b: [datetime.date(2020, 1, 1)] * len(b)),
        {**TIMES, "every": Refused("no number.*datetime.date.*days since a start")},
    ),
    Input(
        "complex numbers in a frame",
        "Refused with the column.",
        column(lambda b: b + 0j),
        {"every": Refused("Complex data not supported: column 'b'")},
    ),
    Input("polars strings", "As text.", polars(lambda b: ["u", "v"] * (len(b) // 2)), CATEGORIES),
    Input(
        "polars categories",
        "As text.",
        polars(lambda b: pl.Series(["u", "v"] * (len(b) // 2)).cast(pl.Categorical)),
        CATEGORIES,
    ),
    Input("polars dates", "As dates.", polars(lambda b: pl.Series([datetime.date(2020, 1, 1)] * len(b))), TIMES),
    Input("polars durations", "As dates.", polars(lambda b: pl.Series([datetime.timedelta(1)] * len(b))), TIMES),
    Input(
        "polars decimals",
        "Decimals are numbers.",
        polars(lambda b: pl.Series(b.round()).cast(pl.Decimal(10, 0))),
        {"every": SAME},
        plain=rounded,
    ),
    Input(
        "polars lists",
        "Refused: a cell is one number.",
        polars(lambda b: [[1.0, 2.0]] * len(b)),
        {
            "every": Refused("lists or arrays in its cells"),
            "bayes": Refused("'b' holds .*must be a string or a number"),
        },
    ),
]
