"""Which thresholds tell classes apart: ROC and precision–recall curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from credibly.diagnostics.curves import precision_recall_curve, roc_curve
from credibly.diagnostics.inputs import read
from credibly.diagnostics.scores import auc
from credibly.errors import InputError
from credibly.plots.asking import asked_classes
from credibly.plots.style import BLUE, GREY, axes_for, colour_of, headline, legend, line_of, percent, quiet, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CURVES = 10


def roc(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    label: Any = None,
    labels: ArrayLike | None = None,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """The ROC curve, with the area under it and DeLong's interval of the area in the legend.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
        For rows that the model has not seen: on its own rows a model looks better than it is.
    label : optional
        The class that is set against the rest. If None: the second of two; of more, every class in turn.
    labels : (K,) array, optional
        What the columns stand for, in their order.
    level : float
        Mass of the area's interval.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from credibly import plots
    >>> ax = plots.roc([0, 0, 1, 1, 0, 1], [0.1, 0.4, 0.35, 0.8, 0.2, 0.7])
    >>> ax.get_legend().get_texts()[0].get_text()
    'P(1): area 0.889 (90 %: 0.369 to 0.991)'
    """
    chosen = _chosen(y, proba, label, labels)
    ax = axes_for(ax, 5.0, 5.0)
    for k, name in chosen.items():
        curve = roc_curve(y, proba, label=name, labels=labels)
        area = auc(y, proba, label=name, level=level, labels=labels)
        said = f"P({shown(name)}): area {area.value:.3f} ({percent(level)}: {area.low:.3f} to {area.high:.3f})"
        ax.plot(curve.false_positive, curve.true_positive, color=_colour(k, chosen), ls=line_of(k), lw=2, label=said)
    ax.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--", label="guessing: area 0.5")
    one = f"of class {shown(*chosen.values())}" if len(chosen) == 1 else "of the class"
    ax.set(xlabel=f"false alarms: share of the rows not {one}", ylabel=f"found: share of the rows {one}")
    headline(ax, "ROC curve", "each point is a threshold on the probability")
    _square(ax)
    legend(ax, loc="lower right")
    return ax


def precision_recall(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    label: Any = None,
    labels: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Precision against recall, with the average precision in the legend.

    Of the two curves it is the one to look at where the class is rare: it shows how many alarms are false.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
        For rows that the model has not seen.
    label : optional
        The class that is set against the rest. If None: the second of two; of more, every class in turn.
    labels : (K,) array, optional
        What the columns stand for, in their order.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from credibly import plots
    >>> ax = plots.precision_recall([0, 0, 1, 1, 0, 1], [0.1, 0.4, 0.35, 0.8, 0.2, 0.7])
    >>> ax.get_legend().get_texts()[0].get_text()
    'P(1): average precision 0.917 (guessing: 0.5)'
    """
    chosen = _chosen(y, proba, label, labels)
    ax = axes_for(ax, 5.0, 5.0)
    for k, name in chosen.items():
        curve = precision_recall_curve(y, proba, label=name, labels=labels)
        area = f"average precision {curve.average_precision:.3f} (guessing: {curve.share:.3g})"
        said = f"P({shown(name)}): {area}"
        ax.plot(
            curve.recall,
            curve.precision,
            color=_colour(k, chosen),
            ls=line_of(k),
            lw=2,
            drawstyle="steps-post",
            label=said,
        )
        ax.axhline(curve.share, color=_colour(k, chosen), lw=1, ls="--")
    one = f"of class {shown(*chosen.values())}" if len(chosen) == 1 else "of the class"
    ax.set(xlabel=f"recall: share of the rows {one} that are found", ylabel=f"precision: share of the alarms {one}")
    headline(ax, "Precision and recall", "dashed: the precision of guessing, the share of the class")
    _square(ax)
    legend(ax, loc="lower left")
    return ax


def _chosen(y: ArrayLike, proba: ArrayLike, label: Any, labels: ArrayLike | None) -> dict[int, Any]:
    """The classes to draw, by their numbers."""
    classes = read(y, proba, labels).classes.tolist()
    numbers = asked_classes(classes, label)
    if len(numbers) > MOST_CURVES:
        raise InputError(f"{len(classes)} curves cannot be told apart; choose a class with label=, one of {classes}.")
    return {k: classes[k] for k in numbers}


def _colour(k: int, chosen: dict[int, Any]) -> str:
    """Of the class; a curve that is alone has the colour of everything that is."""
    return colour_of(k) if len(chosen) > 1 else BLUE


def _square(ax: Axes) -> None:
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    quiet(ax)
