"""Coefficients with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credibly.numerics.arrays import Array, Codes
from credibly.plots.style import (
    BLUE,
    GREY,
    SMALL,
    axes_for,
    colour_of,
    entry,
    headline,
    how_many,
    legend_below,
    marker_of,
    percent,
    quiet,
    shown_all,
)
from credibly.plots.weight_tables import Table, table_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FACTORS = np.array([1 / 1000, 1 / 100, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100, 1000])  # of odds, on an axis
WIDEST = 12.0  # log odds on an axis, beyond which factors would stand too close


def coefficients(
    model: Any,
    level: float = 0.9,
    *,
    standardized: bool = True,
    most: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """Coefficients with credible intervals, the strongest on top: a forest plot.

    A filled point has an interval that leaves out zero. The intercept is not drawn: `summary()` has it. For K classes
    each column has a point for each class, and the coefficients of a column sum to zero over classes (what they share
    changes no probability, and its uncertainty is not in the intervals). A generative model has no coefficients in
    general; its class means are drawn, from the average of the classes.

    Parameters
    ----------
    model : fitted linear model, GLM or generative model, or a pipeline that ends in one
    level : float
        Mass of the intervals.
    standardized : bool
        For a step of one standard deviation of the column (True), so that columns can be compared, or of one unit of
        it. (The deviation is that of the rows of the fit; of class means it is the one within classes.)
    most : int
        How many columns are drawn at most; a note tells when some are left out.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import BayesianLogisticRegression, plots
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> ax = plots.coefficients(BayesianLogisticRegression().fit(X, y == 2))
    >>> [label.get_text() for label in ax.get_yticklabels()][:2]
    ['petal length (cm)', 'petal width (cm)']
    """
    return forest(table_of(model, level, standardized=standardized), level, most=most, ax=ax)


def forest(table: Table, level: float, *, most: int = 30, ax: Axes | None = None) -> Axes:
    """The picture of any table of numbers with intervals."""
    order = table.by_strength[: how_many(most)]
    K, n = len(table.mean), len(order)
    ax = axes_for(ax, 6.6, 1.7 + 0.25 * (K > 1) + n * (0.27 + 0.16 * (K - 1)))
    places = np.arange(n, dtype=float)
    for k in range(K):
        _forest(ax, table, k, order, places + (0.0 if K == 1 else 0.6 * (k / (K - 1) - 0.5)))
    ax.axvline(0, color=GREY, lw=1)
    ax.set_yticks(places, shown_all([table.names[j] for j in order]))
    ax.set_ylim(n - 0.4, -0.6)
    ax.set_xlabel(table.axis)
    quiet(ax, "x")
    if table.odds:
        _factors(ax)
    left = len(table.names) - n
    headline(ax, table.title + (f": the {n} strongest of {len(table.names)}" if left else ""))
    _explain(ax, table, level)
    return ax


def _forest(ax: Axes, table: Table, k: int, order: Codes, places: Array) -> None:
    """Points and intervals of one class."""
    mean, colour = table.mean[k, order], colour_of(k)
    filled = np.ones(len(order), dtype=bool)
    if table.low is not None and table.high is not None:
        low, high = table.low[k, order], table.high[k, order]
        ax.hlines(places, low, high, color=colour, lw=1.6)
        filled = (low > 0) | (high < 0)
    faces = np.where(filled, colour, "white").tolist()
    ax.scatter(mean, places, s=26, c=faces, edgecolors=colour, marker=marker_of(k), linewidths=1.3, zorder=3)


def _factors(ax: Axes) -> None:
    """A second axis on top: by what the odds are multiplied."""
    low, high = ax.get_xlim()
    kept = FACTORS[(np.log(FACTORS) > low) & (np.log(FACTORS) < high)]
    if len(kept) < 3 or high - low > WIDEST:
        return
    top = ax.secondary_xaxis("top")
    top.set_xticks(np.log(kept), [f"×{f:.3g}" if f >= 1 else f"÷{1 / f:.3g}" for f in kept])
    top.set_xlabel("times the odds", fontsize=SMALL, color=GREY)
    top.tick_params(labelsize=SMALL, colors=GREY, length=2)
    top.spines["top"].set_visible(False)


def _explain(ax: Axes, table: Table, level: float) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour_of(k), marker=marker_of(k), ms=5, lw=1.6, label=entry(name))
        for k, name in enumerate(table.classes or [])
    ]
    if table.low is not None:
        style: dict[str, Any] = {"marker": "o", "ms": 5, "lw": 1.6, "color": BLUE if table.classes is None else GREY}
        handles.append(Line2D([], [], label=f"{percent(level)} interval leaves out zero", **style))
        handles.append(Line2D([], [], label="interval contains zero", markerfacecolor="white", **style))
    if handles:
        legend_below(ax, handles)
