"""The table that `summary()` returns: text in a terminal, HTML in a notebook, a data frame on request."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from credibly.inference.linear.posterior import WeightPosterior
from credibly.numerics.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 200  # shown; a text model has thousands


@dataclass(frozen=True)
class Summary:
    """One row per weight: estimate, standard deviation, interval, probability of being positive.

    Attributes
    ----------
    title : str
    notes : list of str
        Lines printed under the table: evidence, status.
    names : list of str
        Feature names, then ``intercept``.
    classes : list of str or None
        One block of rows per class; None for two classes with one weight vector.
    columns : dict of str to (M,) array
        ``estimate, sd, lower, upper, p_positive`` and without a prior ``z, p``.
    """

    title: str
    notes: list[str]
    names: list[str]
    classes: list[Any] | None
    columns: dict[str, Array]

    def _labels(self) -> list[tuple[str, ...]]:
        if self.classes is None:
            return [(name,) for name in self.names]
        return [(str(label), name) for label in self.classes for name in self.names]

    def _cells(self) -> list[list[str]]:
        rows = zip(*(values for values in self.columns.values()), strict=True)
        return [[f"{value:.4g}" for value in row] for row in rows]

    def __str__(self) -> str:
        head = [*(["class"] if self.classes is not None else []), "", *self.columns]
        body = [[*label, *cells] for label, cells in zip(self._labels(), self._cells(), strict=True)]
        n_text = len(head) - len(self.columns)
        widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
        lines = [aligned(row, widths, n_text) for row in [head, *body[:MOST_ROWS]]]
        rule = "─" * len(lines[0])
        more = [f"… and {len(body) - MOST_ROWS} more rows: to_frame() has all"] if len(body) > MOST_ROWS else []
        return "\n".join([self.title, rule, lines[0], rule, *lines[1:], *more, rule, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        corner = "<th></th>" * (1 if self.classes is None else 2)
        body = "".join(
            "<tr>"
            + "".join(f"<th>{escape(part)}</th>" for part in label)
            + "".join(f"<td>{c}</td>" for c in cells)
            + "</tr>"
            for label, cells in list(zip(self._labels(), self._cells(), strict=True))[:MOST_ROWS]
        )
        hidden = len(self._labels()) - MOST_ROWS
        more = [f"… and {hidden} more rows: to_frame() has all"] if hidden > 0 else []
        notes = "<br>".join(escape(note) for note in [*more, *self.notes])
        caption = f"<caption>{escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{corner}{head}</tr></thead><tbody>{body}</tbody></table><p>{notes}</p>"

    def to_frame(self) -> "pd.DataFrame":
        """A pandas frame indexed by feature name (K classes: by class and feature name)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("summary().to_frame() needs pandas: pip install 'credibly[data]'") from error

        if self.classes is None:
            index: pd.Index[Any] = pd.Index(self.names)
        else:
            index = pd.MultiIndex.from_product([self.classes, self.names], names=["class", None])
        return pd.DataFrame(self.columns, index=index)


def aligned(row: Sequence[str], widths: Sequence[int], n_text: int) -> str:
    """Cells side by side: the first ones, which are text, to the left, numbers to the right."""
    return "  ".join(
        cell.ljust(width) if i < n_text else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    )


def weight_columns(posterior: WeightPosterior, level: float, errors: Array | None = None) -> dict[str, Array]:
    """The columns of a weight table; standard errors add Wald's z and two-sided p."""
    estimate, sd, interval = posterior.mean, posterior.std, posterior.interval(level)
    columns = {
        "estimate": estimate,
        "sd": sd,
        "lower": interval[:, 0],
        "upper": interval[:, 1],
        "p_positive": posterior.positive,
    }
    if errors is not None:
        z = estimate / errors
        columns |= {"z": z, "p": 2 * ndtr(-np.abs(z))}
    return columns
