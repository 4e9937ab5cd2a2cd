"""Questions to a fitted model: rows that are not quite those of the fit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

from reliability.containers import NO_SPARSE, frame
from reliability.inputs import FITS, SAME, Answer, Fits, Input, Refused, generative

UNNAMED = Fits(warns="X does not have valid feature names")


def by_predict(words: str) -> Refused:
    return Refused(words, by="predict")


def ask(name: str, says: str, make: Callable[[np.ndarray], Any], answers: dict[str, Answer] | Answer) -> Input:
    decided = answers if isinstance(answers, dict) else {"every": answers}
    return Input(name, says, lambda p: p.but(ask=make(p.X)), decided)


def ask_frame(name: str, says: str, make: Callable[[pd.DataFrame], Any], answers: dict[str, Answer] | Answer) -> Input:
    decided = answers if isinstance(answers, dict) else {"every": answers}
    return Input(name, says, lambda p: p.but(X=frame(p.X), ask=make(frame(p.X))), decided)


def with_cell(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda X: np.where((np.arange(len(X)) == 3)[:, None] & (np.arange(3) == 1), value, X)


INFINITE: dict[str, Answer] = {
    "every": by_predict(r"infinity \(inf\) in column 'x1'"),
    **generative(by_predict(r"infinity \(inf\).*in column 'x1'")),
}

QUESTIONS = [
    ask("one row", "Answered; an answer does not depend on the rows beside it.", lambda X: X[:1], FITS),
    ask("0 rows", "Refused, as by scikit-learn.", lambda X: X[:0], by_predict("0 sample.*minimum of 1")),
    ask(
        "NaN",
        "Refused by models that refuse it in fit.",
        with_cell(np.nan),
        {"every": by_predict("NaN in column 'x1'"), **generative(FITS)},
    ),
    ask("infinity", "Refused with the column.", with_cell(np.inf), INFINITE),
    ask("1e300", "Refused with the column.", with_cell(1e300), by_predict("beyond 1e100,? in column 'x1'")),
    ask(
        "1e90",
        "Answered. The mean of a Poisson there is beyond float64, and infinite.",
        with_cell(1e90),
        {"every": FITS, "yes and no": by_predict("holds 0 or 1")},
    ),
    ask("fewer columns", "Refused with both numbers.", lambda X: X[:, :2], by_predict("2 features.*expecting 3")),
    ask("more columns", "…", lambda X: np.hstack([X, X]), by_predict("6 features.*expecting 3")),
    ask("1-D", "Refused with how to reshape it.", lambda X: X[0], by_predict("(?s)2D array.*reshape")),
    ask(
        "float32, Fortran order",
        "The same answers, to the seven digits that came.",
        lambda X: np.asfortranarray(X, np.float32),
        FITS,
    ),
    ask("a list of lists", "The same answers.", lambda X: X.tolist(), SAME),
    ask(
        "CSR",
        "The same answers; a Gaussian process refuses it.",
        sp.csr_array,
        {"every": SAME, "gp": by_predict(NO_SPARSE.words)},
    ),
    ask("complex numbers", "Refused.", lambda X: X + 0j, by_predict("Complex data not supported")),
    ask("a generator", "Refused.", iter, by_predict("X must be a table")),
    ask(
        "text",
        "Refused; categories that are new to a NaiveBayes of categories.",
        lambda X: X.astype(str),
        {
            "every": by_predict("array of strings; expected numbers"),
            "bayes": by_predict("holds text.*reads it as numbers"),
            "categories": FITS,
        },
    ),
    ask_frame("a polars frame after a pandas one", "The same answers.", pl.from_pandas, SAME),
    ask_frame(
        "columns in another order",
        "Refused: they are not sorted in secret.",
        lambda X: X[["b", "a", "c"]],
        by_predict("(?s)feature names.*same order"),
    ),
    ask_frame(
        "a column of another name",
        "Refused with the names.",
        lambda X: X.rename(columns={"b": "z"}),
        by_predict("(?s)unseen at fit time.*z.*now missing.*b"),
    ),
    ask_frame("a column that is not there", "…", lambda X: X[["a", "c"]], by_predict("(?s)now missing.*b")),
    ask_frame("a column too many", "…", lambda X: X.assign(z=1.0), by_predict("(?s)unseen at fit time.*z")),
    ask_frame(
        "duplicate names",
        "Refused with the name.",
        lambda X: X.set_axis(["a", "b", "a"], axis=1),
        by_predict("(?s)unique column names.*'a' 2 times"),
    ),
    ask_frame("an array after a frame", "Answered, with scikit-learn's warning.", lambda X: X.to_numpy(), UNNAMED),
    ask("a frame after an array", "Answered, with scikit-learn's warning.", frame, Fits(warns="X has feature names")),
    Input(
        "a category that was not in the fit",
        "A NaiveBayes that learnt categories has a probability for what it has not seen.",
        lambda p: p.but(X=frame(p.X).assign(b=np.where(p.codes, "u", "v")), ask=frame(p.X).assign(b="w")),
        {
            "every": Refused("not numbers: 'b'.*OneHotEncoder"),
            "bayes": Refused("Column 'b' holds text"),
            "NaiveBayes": FITS,
            "categories": FITS,
        },
    ),
]
