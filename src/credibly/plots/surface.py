"""Two columns at a time: probabilities as colours, and how far they are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.numerics.arrays import AnyArray, Array
from credibly.plots.asking import classes_of, codes_of, has_interval, probabilities
from credibly.plots.rows import Rows
from credibly.plots.style import (
    BLACK,
    SMALL,
    axes_for,
    colour_of,
    entry,
    headline,
    legend,
    legend_below,
    marker_of,
    percent,
    pyplot,
    shown,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FINE, COARSE = 90, 45  # points along an edge, for probabilities and for intervals
LINES = (0.1, 0.25, 0.5, 0.75, 0.9)  # of equal probability
MARGIN = 0.06  # of the data's range, on every side
MOST_INSIDE = 4  # classes in a legend that lies on the colours
SHOWN = ("probability", "width")


class Grid(NamedTuple):
    """Points in the plane of two columns."""

    x: Array  # (m,)
    y: Array  # (m,)
    table: Any  # (m², d), rows that run along x first


def decision_surface(  # noqa: PLR0913 -- a user's choices, by name
    model: Any,
    X: Any,
    y: ArrayLike,
    columns: tuple[Any, Any] = (0, 1),
    *,
    show: str | None = None,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """The averaged probability in the plane of two columns, beside it how uncertain it is, and the data on both.

    Two classes: colours go from the first to the second, with lines of equal probability. More: the colour is that of
    the most probable class, the stronger the more probable, with lines where the most probable class changes. The
    other panel has the width of the probability's credible interval (of the most probable class).

    Parameters
    ----------
    model : fitted classifier of any kind, or a pipeline
    X : (n, d) array or frame
        Rows, drawn as points; columns other than the two are held at their medians.
    y : (n,) labels
    columns : pair of str or int
        Names or numbers of two columns of numbers: across, and up.
    show : "probability", "width" or None
        One panel, or (None) both in a new figure; in axes that are given, None is "probability".
    level : float
        Mass of the interval.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Of the probability, or the panel asked for.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import LinearDiscriminant, plots
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = LinearDiscriminant().fit(X, y)
    >>> ax = plots.decision_surface(model, X, y, ("petal length (cm)", "petal width (cm)"), show="probability")
    >>> ax.get_ylabel()
    'petal width (cm)'
    """
    classes = classes_of(model)
    if classes is None:
        raise InputError(f"A decision surface is that of a classifier; {type(model).__name__} has no classes.")
    if show is not None and show not in SHOWN:
        raise InputError(f"show must be None or one of {', '.join(map(repr, SHOWN))}; got {show!r}.")
    if show == "width" and not has_interval(model):
        raise InputError(f"{type(model).__name__} has no intervals of its probabilities; use show='probability'.")
    rows = Rows.of(X)
    codes, pair = codes_of(y, classes, len(rows)), _pair(rows, columns)
    both = show is None and ax is None and has_interval(model)
    panels = _panels() if both else [axes_for(ax, 5.6, 4.4)]
    for panel, what in zip(panels, SHOWN if both else [show or SHOWN[0]], strict=True):
        (_probability if what == SHOWN[0] else _width)(panel, model, _grid(rows, pair, what), classes, level)
        _points(panel, rows, pair, codes, classes)
    if both:
        panels[1].set_ylabel("")
    if len(classes) <= MOST_INSIDE:
        legend(panels[0], loc="best", frameon=True, framealpha=0.85, edgecolor="none")
    else:
        legend_below(panels[0])
    return panels[0]


def _panels() -> list[Axes]:
    _, panels = pyplot().subplots(1, 2, figsize=(9.6, 4.2), sharex=True, sharey=True, layout="constrained")
    return [axes_for(panel) for panel in panels]


def _pair(rows: Rows, columns: Any) -> tuple[int, int]:
    if isinstance(columns, str) or np.ndim(columns) != 1 or len(columns) != 2:
        raise InputError(f"columns must be a pair, names or numbers of two columns; got {columns!r}.")
    i, j = (rows.find(which) for which in columns)
    if i == j:
        raise InputError(f"columns must be two different ones; got {columns!r}.")
    for k in (i, j):
        numbers = rows.numbers(k)
        if numbers is None or not np.ptp(numbers[~np.isnan(numbers)]) > 0:
            raise InputError(f"column {rows.names[k]!r} is not made of different numbers; plots.effect draws levels.")
    return i, j


def _edge(numbers: Array | None, size: int) -> Array:
    assert numbers is not None
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    margin = MARGIN * (high - low)
    return np.linspace(low - margin, high + margin, size)


def _grid(rows: Rows, pair: tuple[int, int], what: str) -> Grid:
    size = FINE if what == SHOWN[0] else COARSE
    x, y = (_edge(rows.numbers(j), size) for j in pair)
    table = rows.put(rows.typical(size * size), pair[0], np.tile(x, size))
    return Grid(x, y, rows.put(table, pair[1], np.repeat(y, size)))


def _probability(ax: Axes, model: Any, grid: Grid, classes: list[Any], level: float) -> None:
    proba = probabilities(model, grid.table, level, band=False).mean.reshape(len(grid.y), len(grid.x), -1)
    if len(classes) > 2:
        _several(ax, grid, proba)
        headline(ax, "Most probable class", "the stronger the colour, the more probable")
        return
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("classes", [colour_of(0), "white", colour_of(1)])
    p = proba[..., 1]
    field = ax.contourf(grid.x, grid.y, p, levels=np.linspace(0, 1, 21), cmap=colours, alpha=0.75, vmin=0, vmax=1)
    name = f"P({shown(classes[1])})"
    ax.figure.colorbar(field, ax=ax, label=name, ticks=np.linspace(0, 1, 6))
    lines = ax.contour(
        grid.x, grid.y, p, levels=LINES, colors=BLACK, linewidths=[1.8 if at == 0.5 else 0.7 for at in LINES]
    )
    ax.clabel(lines, fmt="%g", fontsize=7)
    headline(ax, name, "averaged over the posterior; lines of equal probability")


def _several(ax: Axes, grid: Grid, proba: Array) -> None:
    """The colour of the most probable class, mixed with white as it gets less probable; lines between classes."""
    from matplotlib.colors import to_rgb

    K = proba.shape[2]
    best = proba.argmax(axis=2)
    strength = (proba.max(axis=2) - 1 / K) / (1 - 1 / K)
    full = np.array([to_rgb(colour_of(k)) for k in range(K)])[best]
    image: AnyArray = 1 - 0.75 * strength[..., None] * (1 - full)
    step = [(edge[1] - edge[0]) / 2 for edge in (grid.x, grid.y)]
    extent = (grid.x[0] - step[0], grid.x[-1] + step[0], grid.y[0] - step[1], grid.y[-1] + step[1])
    ax.imshow(image, origin="lower", extent=extent, aspect="auto", interpolation="bilinear")
    for k in np.unique(best):
        others = np.delete(proba, k, axis=2).max(axis=2)
        lead = proba[..., k] - others
        if lead.min() < 0 < lead.max():
            ax.contour(grid.x, grid.y, lead, levels=[0.0], colors=BLACK, linewidths=1.0)


def _width(ax: Axes, model: Any, grid: Grid, classes: list[Any], level: float) -> None:
    said = probabilities(model, grid.table, level)
    assert said.low is not None and said.high is not None
    best = np.full(len(said.mean), 1) if len(classes) == 2 else said.mean.argmax(axis=1)
    rows = np.arange(len(best))
    width = (said.high - said.low)[rows, best].reshape(len(grid.y), len(grid.x))
    field = ax.contourf(grid.x, grid.y, width, levels=np.linspace(0, 1, 11), cmap="Greys", alpha=0.8)
    ax.figure.colorbar(field, ax=ax, label="width of the interval", ticks=np.linspace(0, 1, 6))
    of = f"of P({shown(classes[1])})" if len(classes) == 2 else "of the most probable class"
    headline(ax, "How uncertain it is", f"width of the {percent(level)} interval {of}")


def _points(ax: Axes, rows: Rows, pair: tuple[int, int], codes: Any, classes: list[Any]) -> None:
    across, up = (rows.numbers(j) for j in pair)
    assert across is not None and up is not None
    size = 5 if len(rows) <= 300 else 3.5
    for k, name in enumerate(classes):
        which = codes == k
        style: dict[str, Any] = {"color": colour_of(k), "ms": size, "mec": "white", "mew": 0.6}
        ax.plot(across[which], up[which], marker_of(k), label=entry(name), **style)
    ax.set(xlabel=shown(rows.names[pair[0]], 40), ylabel=shown(rows.names[pair[1]], 40))
    ax.tick_params(labelsize=SMALL)
