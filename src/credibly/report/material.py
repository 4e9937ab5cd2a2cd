"""What a report is made of: the model, its rows, and what the user says about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import InputError
from credibly.estimators.gaussian_process_results import GaussianProcessResults
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.estimators.glm import BayesianGLM
from credibly.estimators.linear_classifier import LinearClassifier
from credibly.estimators.model_average import ModelAverage
from credibly.estimators.validation import read_labels
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.report.categories import Category, Group, groups_of

BARE = {"yes", "no", "true", "false", "y", "n", "t", "f", "+", "-"}  # labels that say nothing by themselves
DENSE_CELLS = 50_000_000  # of a sparse matrix that is still written out
SUPPORTED = (
    "the classifiers of credibly (BayesianLogisticRegression, BayesianProbitRegression, NoisyThresholdClassifier, "
    "LinearDiscriminant, QuadraticDiscriminant, NaiveBayes, GenerativeClassifier, GaussianProcessClassifier, "
    "ModelAverage) and BayesianGLM(family='bernoulli')"
)


class About(NamedTuple):
    """What a report says besides what it finds: texts of the user's, and where the rows come from.

    Attributes
    ----------
    title : str, optional
        The heading of the page.
    question : str, optional
        What was asked, in the user's words.
    target : str, optional
        What the labels are of: the name of a column.
    notes : sequence of str
        What was dropped, imputed or left out before the model saw the rows.
    command, code : str, optional
        How to make the report again, in a terminal and in Python.
    fingerprint : str, optional
        SHA-256 of the data; by default one is made of the rows.
    table : DataFrame, optional
        The table that the model's columns were made of, which is described in their place.
    comparison : Comparison, optional
        Of this model with others.
    groups : sequence of Category
        Columns of the table that became several of the model's, one for each level. Without it, columns named
        ``category=level`` are taken for one category where one of them is 1 in every row.
    bent : sequence of str
        What a formula bends or multiplies, such as ``poly(age, 2)``.

    Examples
    --------
    >>> About(title="Diabetes", target="diabetes").title
    'Diabetes'
    """

    title: str | None = None
    question: str | None = None
    target: str | None = None
    notes: tuple[str, ...] = ()
    command: str | None = None
    code: str | None = None
    fingerprint: str | None = None
    table: Any = None
    comparison: Any = None
    groups: tuple[Category, ...] = ()
    bent: tuple[str, ...] = ()


class Settings(NamedTuple):
    """How a report is made.

    Attributes
    ----------
    level : float, default 0.9
        Mass of all intervals.
    random_state : int or None
        Of the folds and draws; None is always the same.
    folds : int or None
        Of the cross-validation; None: ten for up to 500 rows, five for more.
    most_rows : int, default 20,000
        Most rows that are cross-validated; more are sampled, and the page says so. (Gaussian processes: 1,000,
        averages of models: 2,000.)
    overwrite : bool, default True
        Whether a file that exists may be replaced.

    Examples
    --------
    >>> Settings(level=0.95).folds is None
    True
    """

    level: float = 0.9
    random_state: int | None = None
    folds: int | None = None
    most_rows: int = 20_000
    overwrite: bool = True

    @property
    def seed(self) -> int:
        """A seed also where none was given."""
        return 0 if self.random_state is None else int(self.random_state)


@dataclass(frozen=True)
class Material:
    """A fitted model with the rows that it is reported on."""

    model: Any
    X: Any
    y: AnyArray
    codes: Codes
    classes: AnyArray
    names: list[str]
    matrix: Array | None  # (n, d); None where columns hold categories
    about: About
    settings: Settings
    groups: tuple[Group, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The classes as text."""
        return [str(label) for label in self.classes.tolist()]

    @property
    def target(self) -> str:
        """What the labels are of."""
        return self.about.target or "the label"

    def event(self, k: int) -> str:
        """A class in a sentence; a bare number or a yes needs to say what it is of."""
        label = self.labels[k]
        if label.lower() not in BARE and not label.replace(".", "").replace("-", "").isdigit():
            return label
        return f"{self.about.target} = {label}" if self.about.target else f"class {label}"

    @property
    def sources(self) -> list[str]:
        """Columns of the table; those of the model where there is no other table."""
        return self.names if self.about.table is None else names_of(self.about.table)

    @property
    def two_classes(self) -> bool:
        """Whether there are two."""
        return len(self.classes) == 2

    @property
    def complete(self) -> Array | None:
        """The columns as numbers where none is missing."""
        return None if self.matrix is None or np.isnan(self.matrix).any() else self.matrix

    def rows_like(self, values: Array) -> Any:
        """Rows of numbers in the form of the table, with names where it has them."""
        if not hasattr(self.X, "columns"):
            return values
        import pandas as pd

        return pd.DataFrame(values, columns=self.X.columns)


def gather(model: Any, X: Any, y: Any, about: About, settings: Settings) -> Material:
    """Check that a report can be made, and bring everything together."""
    classes = classes_of(model)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if not n_rows:
        raise InputError("There are no rows to report on.")
    if not hasattr(X, "columns") and not hasattr(X, "toarray"):
        X = np.asarray(X)
    codes = read_labels(y, classes, n_rows)
    matrix, names = numbers_of(X), names_of(X)
    groups = groups_of(about.groups, names, matrix)
    return Material(model, X, np.asarray(y), codes, classes, names, matrix, about, settings, groups)


def classes_of(model: Any) -> AnyArray:
    """The classes of a fitted model, or an error that says of which models there are reports."""
    if isinstance(model, type):
        raise InputError(f"{model.__name__} is a class: make a model of it, and fit it.")
    if isinstance(model, BayesianGLM):
        family = getattr(model, "family_", None)
        if family is not None and family.name == "bernoulli":
            return np.array([0, 1])
        if family is not None:
            raise InputError(
                f"There are no reports of the {family.name} family: a report is about classes. Supported are "
                f"{SUPPORTED}."
            )
    elif not isinstance(model, LinearClassifier | GaussianProcessResults | GenerativeClassifierBase | ModelAverage):
        raise InputError(
            f"A report needs class probabilities with a posterior behind them; {type(model).__name__} has none here. "
            f"Supported are {SUPPORTED}."
        )
    if not hasattr(model, "classes_"):
        raise InputError(f"This {type(model).__name__} is not fitted yet: call fit(X, y) first.")
    return np.asarray(model.classes_)


def names_of(X: Any) -> list[str]:
    """Names of the columns; x0 … where they have none."""
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns]
    return [f"x{j}" for j in range(X.shape[1])]


def numbers_of(X: Any) -> Array | None:
    """The table as numbers, NaN where a cell is missing; None where it holds anything else."""
    if hasattr(X, "toarray") and X.shape[0] * X.shape[1] > DENSE_CELLS:
        return None
    table = X.toarray() if hasattr(X, "toarray") else X
    try:
        if hasattr(table, "to_numpy") and hasattr(table, "isna"):
            if any(str(kind) == "category" for kind in table.dtypes):
                return None
            return np.asarray(table.to_numpy(dtype=float, na_value=np.nan))
        return np.asarray(table, dtype=float)
    except (TypeError, ValueError):
        return None
