"""What models say of rows that are not in memory, where they need some that are."""

from typing import Any, NoReturn

from numpy.typing import ArrayLike

from credibly.data.rows import OutOfCoreRows, is_dask
from credibly.errors import InputError

BY_SUMS = "Models that learn by sums (linear models, GLMs, generative models) take it in fit as it is"


def is_stored(X: Any) -> bool:
    """Whether these rows are not in memory."""
    return isinstance(X, OutOfCoreRows) or is_dask(X)


def refuse_stored(X: Any) -> NoReturn:
    """The error of rows that are not in memory, with what can be done."""
    if is_dask(X):
        raise InputError(
            f"X is a Dask {type(X).__name__}, which is not in memory, as it must be here. {BY_SUMS}; otherwise use "
            "X.compute() if it fits into memory, or compute() a sample of its rows."
        )
    raise InputError(
        f"{type(X).__name__} is not in memory, as rows must be here. {BY_SUMS}; otherwise read a sample of the rows, "
        "e.g. with pandas.read_parquet. Predictions of files go to a file, predict_to(rows, path)."
    )


def refuse_resume(resume: object, model: object) -> None:
    """The error of asking for a checkpoint where there is nothing to go on with."""
    if resume is not None:
        raise InputError(
            f"resume= is for linear classifiers and GLMs, which take many passes over the rows. "
            f"{type(model).__name__} needs a pass or two, with nothing to go on from in between: leave it out."
        )


class ScoreMixin:
    """scikit-learn's `score`, with an error that helps for rows that bring their labels along."""

    def score(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """How good predictions are: the accuracy of a classifier, R² of a regression.

        Parameters
        ----------
        X : (n, d) array or data frame; Dask array or frame
        y : (n,) labels or targets
        sample_weight : (n,) array, optional

        Returns
        -------
        float
        """
        if isinstance(X, OutOfCoreRows):
            refuse_stored(X)
        if y is None:
            raise InputError("y is missing: score(X, y) compares predictions with it.")
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]
