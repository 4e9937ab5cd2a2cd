"""Which density naive Bayes gives to columns of whole numbers: counts, or rounded measurements."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from credibly import NaiveBayes
from credibly.tables.columns import Column, numbers

if TYPE_CHECKING:
    import pandas as pd

    from credibly.numerics.arrays import AnyArray


def column_families(frame: pd.DataFrame, columns: tuple[Column, ...], y: AnyArray) -> dict[str, str]:
    """Gaussian or Poisson for every column of whole numbers, whichever has the larger evidence.

    A density of measurements that were rounded to whole numbers is, over steps of one, a probability; so the evidences
    of the two are on one scale.
    """
    found = {}
    for column in columns:
        if column.kind != "number":
            continue
        values = numbers(frame[column.name], column)[:, None]
        known = values[values == values]  # noqa: PLR0124 — not NaN
        if len(set(known[:1000])) > 2 and (known >= 0).all() and (known % 1 == 0).all():
            found[column.name] = max(("poisson", "gaussian"), key=lambda family: _evidence(family, values, y))
    return found


def _evidence(family: str, values: AnyArray, y: AnyArray) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one column at a time; the model itself says what there is to say
        model: Any = NaiveBayes(features=family).fit(values, y)
    return float(model.log_evidence_)
