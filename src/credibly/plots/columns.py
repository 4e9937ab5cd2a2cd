"""One column at a time: its effect on the probability, and the latent function along it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from credibly.diagnostics.inputs import check_level
from credibly.errors import InputError
from credibly.numerics.arrays import Array, Codes
from credibly.plots.asking import (
    Said,
    ask,
    asked_classes,
    can,
    classes_of,
    codes_of,
    has_interval,
    last_step,
    needs,
    probabilities,
)
from credibly.plots.rows import Rows, level_columns, matrix_of
from credibly.plots.style import (
    BAND,
    BLUE,
    GREY,
    axes_for,
    colour_of,
    entry,
    headline,
    legend_below,
    line_of,
    marker_of,
    percent,
    quiet,
    shown,
    shown_all,
)
from credibly.plots.weight_tables import score_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = 101  # points along a column
AVERAGED_GRID, AVERAGED_ROWS, AVERAGED_DRAWS = 41, 200, 200  # where other columns are averaged over rows
JOINT_DRAWS = 1_000  # rows whose function values a Gaussian process draws together in a second or so
FEW_ROWS = 300  # up to which every row gets a tick
OTHERS = {"median": "other columns at their medians", "average": "averaged over the rows"}
OTHERS_AT_MEDIAN = f"; {OTHERS['median']}"


class Path(NamedTuple):
    """Values along a column."""

    x: Array  # (m,), positions on the axis
    names: list[Any] | None  # of the positions; None for numbers
    rows: Codes | None  # that have these cells; None for numbers


def effect(  # noqa: PLR0913 -- a user's choices, by name
    model: Any,
    X: Any,
    column: Any,
    *,
    label: Any = None,
    others: str = "median",
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """The probability of a class along one column, with its credible band.

    What the model says, not what would happen: if the column is changed in the world, others may change with it.

    Parameters
    ----------
    model : fitted classifier of any kind, a GLM (then of the mean of its target), or a pipeline
    X : (n, d) array or frame
        Rows that show where the data are; those of the fit, say.
    column : str or int
        Name or number. Numbers are drawn as a line, words and pairs of numbers (0 and 1) as points. The name of a
        category whose levels are columns of 0 and 1 (``"sex"`` for ``sex=f`` and ``sex=m``) draws its levels.
    label : optional
        The class. If None: the second of two; of more, all.
    others : "median" (default) or "average"
        Other columns are held at their medians (words at the most frequent), or the probability is averaged over the
        rows of X (at most 200 of them), each with the column's value replaced: a partial dependence.
    level : float
        Mass of the band.
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
    >>> ax = plots.effect(BayesianLogisticRegression().fit(X, y == 2), X, "petal width (cm)")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('petal width (cm)', 'P(True)')
    """
    rows = Rows.of(X)
    places, classes = _places(rows, column), classes_of(model)
    chosen = _chosen(classes, label)
    if others not in OTHERS:
        raise InputError(f"others must be one of {', '.join(map(repr, OTHERS))}; got {others!r}.")
    path = _path(rows, places, AVERAGED_GRID if others == "average" else GRID)
    said = (_averaged if others == "average" else _at_median)(model, rows, places, path, level)
    ax = axes_for(ax)
    for place, k in enumerate(chosen):
        name = "" if classes is None or len(chosen) == 1 else entry(classes[k])
        _draw(ax, path, said, k, (place, len(chosen), name))
    what = "mean of the target" if classes is None else f"P({shown(classes[chosen[0]])})"
    what = what if len(chosen) == 1 else "probability"
    _finish(ax, rows, places, path, classes is not None)
    along = column if len(places) > 1 else rows.names[places[0]]
    ax.set(xlabel=shown(along, 60), ylabel=what)
    band = f"{percent(level)} credible interval" if said.low is not None else "no interval: this model has none"
    headline(ax, f"{what[:1].upper()}{what[1:]} along {shown(along)}", f"{band}; {OTHERS[others]}")
    if len(chosen) > 1:
        legend_below(ax)
    return ax


def _chosen(classes: list[Any] | None, label: Any) -> list[int]:
    if classes is not None:
        return asked_classes(classes, label)
    if label is not None:
        raise InputError(f"label={label!r} chooses a class, and this is a model of a target that is no label.")
    return [0]


def _places(rows: Rows, column: Any) -> list[int]:
    """The column; of a category, the columns of its levels."""
    if isinstance(column, str) and column not in rows.names:
        groups = level_columns(rows)
        if column in groups:
            return groups[column]
    return [rows.find(column)]


def _path(rows: Rows, places: list[int], size: int) -> Path:
    if len(places) > 1:
        cells = matrix_of(rows, places)
        seen = np.flatnonzero(cells.any(axis=0))
        names = [str(rows.names[places[i]]).partition("=")[2] for i in seen]
        return Path(np.arange(len(names), dtype=float), names, cells[:, seen].argmax(axis=0))  # a row of each level
    levels, numbers = rows.levels(places[0]), rows.numbers(places[0])
    if levels is not None:
        names = [f"{name:g}" if isinstance(name, float) else name for name in levels.names]
        return Path(np.arange(len(names), dtype=float), names, levels.rows)
    assert numbers is not None
    return Path(np.linspace(np.nanmin(numbers), np.nanmax(numbers), size), None, None)


def _put(rows: Rows, table: Any, places: list[int], path: Path, times: int) -> Any:
    """A table with the values of the path in a column (or those of a category), each so many times."""
    if path.rows is None:
        return rows.put(table, places[0], np.repeat(path.x, times))
    for j in places:
        table = rows.put(table, j, rows.cells(j, np.repeat(path.rows, times)))
    return table


def _at_median(model: Any, rows: Rows, places: list[int], path: Path, level: float) -> Said:
    return probabilities(model, _put(rows, rows.typical(len(path.x)), places, path, 1), level)


def _averaged(model: Any, rows: Rows, places: list[int], path: Path, level: float) -> Said:
    """Averages over rows; their band by draws that all rows share."""
    m = len(path.x)
    most = AVERAGED_ROWS if not hasattr(last_step(model), "kernel_") else max(1, JOINT_DRAWS // m)
    positions = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.intp))
    table = _put(rows, rows.take(np.tile(positions, m)), places, path, len(positions))
    mean = probabilities(model, table, level, band=False).mean
    mean = mean.reshape(m, len(positions), -1).mean(axis=1)
    if not (can(model, "sample_proba") and has_interval(model)):
        return Said(mean, None, None)
    draws = np.asarray(ask(model, "sample_proba", table, AVERAGED_DRAWS, 0))
    averages = draws.reshape(len(draws), m, len(positions), -1).mean(axis=2)
    low, high = np.quantile(averages, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    return Said(mean, low, high)


def _draw(ax: Axes, path: Path, said: Said, k: int, place: tuple[int, int, str]) -> None:
    """A line with its band for numbers, points with bars for levels."""
    i, n, name = place
    colour = colour_of(k) if n > 1 else BLUE
    mean = said.mean[:, k]
    if path.names is None:
        if said.low is not None and said.high is not None:
            ax.fill_between(path.x, said.low[:, k], said.high[:, k], color=colour, alpha=BAND / min(n, 2), lw=0)
        ax.plot(path.x, mean, color=colour, ls=line_of(k if n > 1 else 0), lw=2, label=name)
        return
    x = path.x + (0.0 if n == 1 else 0.3 * (i / (n - 1) - 0.5))
    if said.low is not None and said.high is not None:
        ax.vlines(x, said.low[:, k], said.high[:, k], color=colour, lw=2, alpha=0.6)
    ax.plot(x, mean, marker_of(k if n > 1 else 0), color=colour, ms=7, label=name)


def _finish(ax: Axes, rows: Rows, places: list[int], path: Path, probability: bool) -> None:
    """Limits, and where the data are."""
    quiet(ax, "y")
    if probability:
        ax.set_ylim(-0.1, 1.03)
        ax.set_yticks(np.linspace(0, 1, 6))
    if path.names is not None:
        count = _counts(rows, places, path)
        names = [f"{name}\n{n} rows" for name, n in zip(shown_all(path.names, 16), count, strict=True)]
        ax.set_xticks(path.x, names)
        ax.set_xlim(-0.6, len(path.x) - 0.4)
        return
    numbers = rows.numbers(places[0])
    assert numbers is not None
    _where(ax, numbers[~np.isnan(numbers)])


def _counts(rows: Rows, places: list[int], path: Path) -> list[int]:
    if len(places) > 1:
        return [int(n) for n in matrix_of(rows, places).sum(axis=0) if n]
    j = places[0]
    values = np.asarray(rows.column(j), dtype=object)[~rows.missing(j)]
    assert path.rows is not None
    cells = np.asarray(rows.column(j), dtype=object)
    return [int(sum(value == cells[i] for value in values)) for i in path.rows]


def _where(ax: Axes, x: Array) -> None:
    """Ticks for few rows, a histogram for many, along the lower edge."""
    edge = ax.get_xaxis_transform()
    if len(x) <= FEW_ROWS:
        ax.plot(x, np.full(len(x), 0.03), "|", color=GREY, ms=8, mew=0.8, alpha=0.6, transform=edge)
        return
    count, edges = np.histogram(x, bins=40)
    ax.bar(edges[:-1], 0.075 * count / count.max(), np.diff(edges), align="edge", color=GREY, alpha=0.5, transform=edge)


def latent_function(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    column: Any = 0,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """The latent function along one column: mean, credible band, and the data.

    Parameters
    ----------
    model : fitted Gaussian process, linear classifier or GLM, or a pipeline
    X : (n, d) array or frame
    y : (n,) labels, optional
        Draws the rows of each class as ticks.
    column : str or int
        Name or number of a column of numbers; others are held at their medians.
    level : float
        Mass of the band.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import GaussianProcessClassifier, plots
    >>> x = np.linspace(-3, 3, 40)[:, None]
    >>> y = np.abs(x[:, 0]) < 1.5
    >>> ax = plots.latent_function(GaussianProcessClassifier().fit(x, y), x, y)
    >>> len(ax.lines[0].get_xdata())
    101
    """
    check_level(level)
    classes = classes_of(model) if y is not None and hasattr(last_step(model), "predict_proba") else None
    needs(
        model, "predict_latent", "A latent function belongs to Gaussian processes and linear models; try plots.effect"
    )
    rows = Rows.of(X)
    j = rows.find(column)
    numbers = rows.numbers(j)
    if numbers is None:
        raise InputError(f"column {rows.names[j]!r} holds no numbers; a latent function is drawn along numbers.")
    x = np.linspace(np.nanmin(numbers), np.nanmax(numbers), GRID)
    mean, half = _latent(model, rows.put(rows.typical(GRID), j, x), level)
    ax = axes_for(ax)
    outputs = list(np.asarray(last_step(model).classes_).tolist()) if mean.shape[1] > 1 else [None]
    for k, name in enumerate(outputs):
        colour = colour_of(k) if len(outputs) > 1 else BLUE
        words = f"score of {shown(name)}" if len(outputs) > 1 else ""
        ax.plot(x, mean[:, k], color=colour, ls=line_of(k), lw=2, label=words)
        ax.fill_between(x, mean[:, k] - half[:, k], mean[:, k] + half[:, k], color=colour, alpha=BAND, lw=0)
    ax.axhline(0, color=GREY, lw=1, ls="--")
    if classes is None:
        _where(ax, numbers[~np.isnan(numbers)])
    else:
        _class_ticks(ax, numbers, codes_of(y, classes, len(rows)), classes, len(outputs) > 1)
    ax.set(xlabel=shown(rows.names[j], 60), ylabel=score_name(last_step(model), len(outputs)))
    note = f"line: mean; band: {percent(level)} credible interval"
    headline(ax, f"Latent function along {shown(rows.names[j])}", note + OTHERS_AT_MEDIAN * (len(rows.names) > 1))
    quiet(ax, "y")
    if classes is not None or len(outputs) > 1:
        legend_below(ax)
    return ax


def _latent(model: Any, table: Any, level: float) -> tuple[Array, Array]:
    """Mean and half the band of every score, (m, K); what all classes share is taken out."""
    mean, variance = (np.asarray(it) for it in ask(model, "predict_latent", table))
    if mean.ndim == 1:
        mean, variance = mean[:, None], variance[:, None, None]
    K = mean.shape[1]
    # One class against the rest has K functions of their own; in a softmax a constant added to all changes nothing.
    if K > 1 and not hasattr(last_step(model), "one_vs_rest_log_evidence_"):
        contrast = np.eye(K) - 1 / K
        mean, variance = mean @ contrast, contrast @ variance @ contrast
    sd = np.sqrt(np.diagonal(variance, axis1=1, axis2=2))
    return mean, float(ndtri(0.5 + level / 2)) * sd


def _class_ticks(ax: Axes, x: Array, codes: Codes, classes: list[Any], stacked: bool) -> None:
    """A tick for every row: of two classes the second along the upper edge; more in lines above the lower one."""
    for k, name in enumerate(classes):
        height = 0.025 + 0.045 * k if stacked or len(classes) > 2 else (0.025, 0.975)[k]
        ax.plot(
            x[codes == k], np.full((codes == k).sum(), height), "|", transform=ax.get_xaxis_transform(), ms=8, mew=0.9
        )[0].set(color=colour_of(k), alpha=0.7, label=f"rows of {shown(name)}")
