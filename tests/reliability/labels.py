"""Labels: everything that can name a class, in every container, and what cannot."""

import datetime
import enum
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

from reliability.estimators import Problem
from reliability.inputs import FITS, SAME, UNSETTLED, Answer, Fits, Input, NoArgument, Refused, generative

WORDS = ["a", "b", "c"]
NO_NUMBER = Refused("y holds text, or what is no number.*use a classifier")
NAMED: dict[str, Answer] = {"every": SAME, "glm": NO_NUMBER}
STRANGE: dict[str, Answer] = {"every": Refused(r"objects of type .*str\(label\) for label in y"), "glm": NO_NUMBER}
NO_ORDER: dict[str, Answer] = {"every": Refused("cannot be put in order.*one type"), "glm": NO_NUMBER}
UNLABELLED: dict[str, Answer] = {
    "every": Refused("missing labels.*1 of 36 rows, the first in row 3.*drop"),
    "glm": Refused("y contains NaN in 1 rows, the first in row 3; drop"),
    **generative(FITS),
}
NO_VECTOR = "y should be a 1d array or a list"
ANY_TARGET = "BayesianGLM, gaussian"
Colour = enum.Enum("Colour", "RED GREEN BLUE")


def things(labels: list[Any], codes: np.ndarray) -> np.ndarray:
    found = np.empty(len(codes), dtype=object)
    for i, code in enumerate(codes):
        found[i] = labels[code]
    return found


def y(name: str, says: str, make: Callable[[Problem], Any], answers: dict[str, Answer]) -> Input:
    return Input(name, says, lambda p: p.but(y=make(p)), answers)


def coded(name: str, says: str, make: Callable[[np.ndarray], Any], answers: dict[str, Answer]) -> Input:
    """Labels from codes."""
    return y(name, says, lambda p: make(p.codes), answers)


def words(name: str, says: str, make: Callable[[np.ndarray], Any]) -> Input:
    return coded(name, says, lambda codes: make(np.array(WORDS)[codes]), NAMED)


def objects(name: str, says: str, labels: list[Any], answers: dict[str, Answer]) -> Input:
    return coded(name, says, lambda codes: things(labels, codes), answers)


def third(codes: np.ndarray, gone: Any) -> np.ndarray:
    """Codes as objects, one of them missing."""
    found = codes.astype(object)
    found[3] = gone
    return found


def numbers(labels: list[Any], dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda codes: np.array(labels, dtype=dtype)[codes]


OFF_RANGE: dict[str, Answer] = {
    "every": SAME,
    "glm": FITS,
    "BayesianGLM, binomial": Refused("proportions between 0 and 1"),
    "BayesianGLM, poisson": Refused("counts, 0 or more"),
}
SAME_NUMBERS: dict[str, Answer] = {"every": SAME}

LABELS = [
    words("text in a list", "Labels of a classifier; a GLM wants numbers.", list),
    words("an array of text", "…", np.asarray),
    words("text among objects", "…", lambda u: u.astype(object)),
    words("a Series of text", "…", pd.Series),
    words("Arrow strings", "…", lambda u: pd.Series(u, dtype="string[pyarrow]")),
    words("a polars Series of text", "…", pl.Series),
    words("polars categories", "…", lambda u: pl.Series(u).cast(pl.Categorical)),
    words(
        "a Categorical with unused levels",
        "Classes are those that rows have, in sorted order.",
        lambda u: pd.Categorical(u, categories=["z", "c", "b", "a"], ordered=True),
    ),
    coded('text like "" and "nan"', "Text is never missing.", lambda c: np.array(["", "nan", "ü"])[c].tolist(), NAMED),
    coded("bytes", "Labels.", lambda c: np.array([b"a", b"b", b"c"])[c], NAMED),
    objects("bytes among objects", "Refused, with how to write them.", [b"a", b"b", b"c"], STRANGE),
    coded(
        "booleans",
        "Labels; 0 and 1 to a GLM.",
        lambda c: c > 0,
        {"every": SAME, "… softmax": FITS, "gp": FITS, "glm": FITS, "bayes": FITS},
    ),
    coded(
        "booleans among objects",
        "…",
        lambda c: pd.Series(c > 0, dtype=object),
        {"every": SAME, "… softmax": FITS, "gp": FITS, "glm": FITS, "bayes": FITS},
    ),
    coded("whole floats", "Labels.", lambda c: c.astype(float), SAME_NUMBERS),
    coded("whole numbers among objects", "…", lambda c: c.astype(object), SAME_NUMBERS),
    coded("int8", "…", lambda c: c.astype(np.int8), SAME_NUMBERS),
    coded("int8 at its limits", "…", numbers([-128, 0, 127], np.int8), OFF_RANGE),
    coded(
        "int64 at its limits", "…", numbers([np.iinfo(np.int64).min, 0, np.iinfo(np.int64).max], np.int64), OFF_RANGE
    ),
    coded(
        "uint64 beyond 2^63",
        "Labels; as numbers they differ by less than float64 can tell.",
        numbers([2**63, 2**63 + 1, 2**64 - 1], np.uint64),
        {
            "every": SAME,
            "BayesianGLM, binomial": Refused("proportions between 0 and 1"),
            "BayesianGLM, poisson": FITS,
            ANY_TARGET: Refused("all alike no dispersion"),
        },
    ),
    coded("a list of NumPy's numbers", "Labels.", list, SAME_NUMBERS),
    coded("whole numbers and floats in a list", "…", lambda c: [float(v) if v else int(v) for v in c], SAME_NUMBERS),
    coded(
        "datetime64",
        "Labels; a GLM refuses dates.",
        numbers(["2020", "2021", "2022"], "M8[D]"),
        {"every": SAME, "glm": Refused("y holds dates")},
    ),
    coded("timedelta64", "…", numbers([1, 2, 3], "m8[D]"), {"every": SAME, "glm": Refused("y holds spans of time")}),
    coded("a Series", "Labels.", pd.Series, SAME_NUMBERS),
    coded(
        "a Series in another index",
        "The index is not looked at.",
        lambda c: pd.Series(c, index=np.arange(36)[::-1]),
        SAME_NUMBERS,
    ),
    coded("Int64", "Labels.", lambda c: pd.Series(c, dtype="Int64"), SAME_NUMBERS),
    coded("Arrow int64", "…", lambda c: pd.Series(c, dtype="int64[pyarrow]"), SAME_NUMBERS),
    coded("a polars Series", "…", pl.Series, SAME_NUMBERS),
    coded("a masked array, nothing masked", "…", np.ma.array, SAME_NUMBERS),
    coded("not contiguous", "…", lambda c: np.repeat(c, 2)[::2], SAME_NUMBERS),
    # --- what cannot be a label
    objects("tuples", "Refused with their type, and how to write them.", [(0, 1), (1, 0), (1, 1)], STRANGE),
    objects("Python's dates", "…", [datetime.date(2020, 1, day) for day in (1, 2, 3)], STRANGE),
    objects("frozensets", "…", [frozenset("a"), frozenset("ab"), frozenset("abc")], STRANGE),
    objects(
        "Decimals",
        "…",
        [Decimal(0), Decimal(1), Decimal(2)],
        {"every": STRANGE["every"], "glm": SAME},
    ),
    objects(
        "whole numbers beyond 64 bits",
        "…",
        [10**30, 10**31, 10**32],
        {"every": STRANGE["every"], "glm": FITS, "BayesianGLM, binomial": Refused("proportions")},
    ),
    objects("members of an Enum", "Refused: they have no order.", list(Colour), NO_ORDER),
    objects("numbers and text", "Refused: they have no order, and 1 never becomes '1'.", [0, "a", "b"], NO_ORDER),
    coded("numbers and text in a list", "…", lambda c: [[0, "a", "b"][v] for v in c], NO_ORDER),
    objects("numbers, text and tuples", "…", [0, "a", (1,)], NO_ORDER),
    objects("lists", "Refused.", [[0], [1], [2]], STRANGE),
    coded("complex numbers", "Refused.", lambda c: c + 0j, {"every": Refused("Complex data not supported: y")}),
    y(
        "continuous numbers",
        "Refused by classifiers, and by a GLM whose family they are not of.",
        lambda p: np.linspace(0.1, 0.9, 36),
        {"every": Refused("class labels.*continuous"), "glm": Refused("whole numbers"), ANY_TARGET: FITS},
    ),
    coded(
        "infinity",
        "Refused.",
        lambda c: np.where(np.arange(36) == 3, np.inf, c),
        {"every": Refused("y contains infinity")},
    ),
    # --- missing
    coded(
        "NaN",
        "A missing label: generative models learn from the row, others refuse it by number.",
        lambda c: np.where(np.arange(36) == 3, np.nan, c),
        UNLABELLED,
    ),
    coded("None", "…", lambda c: third(c, None).tolist(), UNLABELLED),
    coded("pd.NA", "…", lambda c: pd.Series(third(c, pd.NA), dtype="Int64"), UNLABELLED),
    coded("null of polars", "…", lambda c: pl.Series(third(c, None).tolist()), UNLABELLED),
    coded("a masked label", "…", lambda c: np.ma.array(c, mask=np.arange(36) == 3), UNLABELLED),
    coded(
        "NaT",
        "…",
        lambda c: np.where(np.arange(36) == 3, np.datetime64("NaT"), numbers(["2020", "2021", "2022"], "M8[D]")(c)),
        {**UNLABELLED, "glm": Refused("y holds dates")},
    ),
    coded(
        "a Categorical with a gap",
        "…",
        lambda c: pd.Categorical(third(c, None)),
        UNLABELLED,
    ),
    coded(
        "no label at all",
        "Refused.",
        lambda c: np.full(36, np.nan),
        {
            "every": Refused("missing labels.*36 of 36"),
            "glm": Refused("y contains NaN in 36 rows"),
            **generative(Refused("no label at all")),
            "average": Refused("no class"),
        },
    ),
]

COLUMN: dict[str, Answer] = {
    "every": Fits(warns="column-vector y was passed"),
    "BayesianGLM, binomial": Refused(r"\(n, 2\), successes and failures.*got \(36, 1\)"),
}
TWO: dict[str, Answer] = {"every": Refused(r"1d array.*\(36, 2\)"), "BayesianGLM, binomial": FITS}
LENGTH: dict[str, Answer] = {
    "every": Refused("inconsistent numbers of samples"),
    **generative(Refused("labels for 36 rows")),
}


def no_vector(got: str) -> dict[str, Answer]:
    return {"every": Refused(f"{NO_VECTOR}.*got {got}")}


LABEL_SHAPES = [
    y("too few labels", "Refused with both numbers.", lambda p: p.y[:10], LENGTH),
    y("too many labels", "…", lambda p: np.tile(p.y, 2), LENGTH),
    y("a column of labels", "Fits, with scikit-learn's warning.", lambda p: p.y[:, None], COLUMN),
    y("a frame of one column", "…", lambda p: pd.DataFrame({"y": p.y}), COLUMN),
    y(
        "two columns of labels",
        "Refused; successes and failures to a binomial GLM.",
        lambda p: np.column_stack([p.y, 1 - p.y % 2]),
        TWO,
    ),
    y("3-D labels", "Refused.", lambda p: p.y[:, None, None], {"every": Refused("dim 3, while dim <= 2 is required")}),
    y("one number as y", "Refused: what is expected is said.", lambda p: 1, no_vector("int 1")),
    y("text as y", "… (a column's name belongs into a formula)", lambda p: "target", no_vector("str 'target'")),
    y("a generator of labels", "…", lambda p: iter(p.y), no_vector(".*iterator")),
    y("a dict of labels", "…", lambda p: {"y": p.y}, no_vector("dict")),
    y(
        "sparse labels",
        "Refused with how to make them dense.",
        lambda p: sp.csr_array(p.y[:, None]),
        {"every": Refused(r"y is sparse.*toarray\(\)\.ravel\(\)")},
    ),
    y(
        "ragged lists of labels",
        "Refused.",
        lambda p: [[1] * (1 + i % 2) for i in range(36)],
        {"every": Refused("y mixes entries of different lengths")},
    ),
    y("y=None", "Refused.", lambda p: None, {"every": Refused("requires y to be passed, but the target y is None")}),
]

# --- weights ----------------------------------------------------------------------------------------------------


def weights(name: str, says: str, make: Callable[[Problem], Any], answers: dict[str, Answer] | str) -> Input:
    decided = {"every": Refused(answers)} if isinstance(answers, str) else answers
    return Input(name, says, lambda p: p.but(weight=make(p)), {**decided, "gp": NoArgument(), "average": NoArgument()})


def but_third(value: float) -> Callable[[Problem], np.ndarray]:
    return lambda p: np.where(np.arange(36) == 3, value, 1.0)


WEIGHTS = [
    weights("ones", "As no weights.", lambda p: np.ones(36), SAME_NUMBERS),
    weights("a list of whole numbers", "…", lambda p: [1] * 36, SAME_NUMBERS),
    weights("a Series", "…", lambda p: pd.Series(np.ones(36), index=np.arange(36)[::-1]), SAME_NUMBERS),
    weights("one number for all rows", "Every row so many times.", lambda p: 2.0, {"every": FITS}),
    weights("zero on a row", "As if the row were not there.", but_third(0.0), {"every": FITS}),
    weights(
        "zero on a class",
        "As if the class were not there: one of two is refused.",
        lambda p: (p.codes != 1).astype(float),
        {
            "every": Refused("only one class, 0"),
            **dict.fromkeys(
                ("… softmax", "NaiveBayes, gaussian", "BayesianGLM, binomial", "BayesianGLM, poisson"), FITS
            ),
            ANY_TARGET: Refused("all alike no dispersion"),
        },
    ),
    weights("zero on all rows", "Refused.", lambda p: np.zeros(36), "(at least one non-zero|zero for every row)"),
    weights("a negative weight", "Refused with the row.", but_third(-1.0), "must not be negative.*row 3"),
    weights("a weight that is NaN", "Refused.", but_third(np.nan), "sample_weight contains NaN"),
    weights("an infinite weight", "Refused.", but_third(np.inf), "sample_weight contains infinity"),
    weights(
        "weights of 1e300",
        "Refused: their sums of squares are no numbers.",
        lambda p: np.full(36, 1e300),
        "from 1e-100 to 1e100.*Divide",
    ),
    weights("weights of 1e-300", "…", lambda p: np.full(36, 1e-300), "from 1e-100 to 1e100.*Divide"),
    weights(
        "weights from 1e-12 to 1e12",
        "Fits; a binomial GLM wants whole numbers of trials.",
        lambda p: np.where(np.arange(36) % 2, 1e-12, 1e12),
        {
            "every": FITS,
            "… empirical prior": UNSETTLED,
            "BayesianGLM, binomial": Refused("trials.*whole numbers"),
        },
    ),
    weights("too few weights", "Refused with both shapes.", lambda p: np.ones(10), r"\(10,\), expected \(36,\)"),
    weights("2-D weights", "Refused.", lambda p: np.ones((36, 1)), "1D array or scalar, got 2D"),
    weights("a dict as weights", "Refused.", lambda p: {0: 1.0, 1: 2.0}, "one number for every row; got dict"),
    weights(
        "a masked weight",
        "Refused.",
        lambda p: np.ma.masked_array(np.ones(36), np.arange(36) == 3),
        "masked.*0 for those",
    ),
    weights("a weight of 10**400", "Refused.", lambda p: [10**400] + [1] * 35, "one number for every row.*too large"),
    weights(
        "text among objects as weights", "Refused.", lambda p: np.array(["1"] * 36, object), "one number for every row"
    ),
    weights("weights of text", "Refused.", lambda p: np.array(["1"] * 36), "one number for every row.*<U1"),
    weights(
        "weights that are dates",
        "Refused.",
        lambda p: np.full(36, np.datetime64("2020-01-01")),
        "one number for every row.*datetime64",
    ),
    Input(
        "NaN in a row of weight zero",
        "Refused by models that refuse NaN: a row that does not count is still read.",
        lambda p: p.but(X=np.where((np.arange(36) == 3)[:, None], np.nan, p.X), weight=but_third(0.0)(p)),
        {"every": Refused("NaN in column"), **generative(FITS), "gp": NoArgument(), "average": NoArgument()},
    ),
]
