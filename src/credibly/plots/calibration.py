"""Whether events happen as often as they were said to: the reliability diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from credibly.diagnostics.calibration import reliability_curve
from credibly.diagnostics.inputs import event_or_second, read
from credibly.diagnostics.reliability import ReliabilityCurve
from credibly.numerics.arrays import Array
from credibly.plots.style import BLUE, GREY, PALE, VERMILION, axes_for, headline, legend, percent, quiet, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTOGRAM_BINS = 20


def reliability(  # noqa: PLR0913 -- a user's choices, by name
    y: ArrayLike,
    proba: ArrayLike,
    ax: Axes | None = None,
    bins: int = 10,
    *,
    level: float = 0.9,
    strategy: str = "quantile",
    label: Any = None,
    labels: ArrayLike | None = None,
) -> Axes:
    """The reliability diagram: how often it happened against how probable it was, with a histogram beneath.

    On the diagonal events happen as often as they were said to. The grey band is where the points lie, each with
    probability `level`, if the probabilities are right; points outside it are drawn in another colour. The bar of each
    point is the interval of the frequency that such rows would have in the long run.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
        For rows that the model has not seen.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    bins : int
        How many groups of rows.
    level : float
        Mass of both bands.
    strategy : "quantile" or "uniform"
        Groups of about equal count, or of equal width.
    label : optional
        The class whose probability is looked at. If None: the second of two; of more, the most probable class of each
        row, whichever that is.
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Returns
    -------
    matplotlib Axes
        Of the diagram; the histogram is the first of its `child_axes`.

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import plots
    >>> p = np.linspace(0.02, 0.98, 200)
    >>> ax = plots.reliability(np.random.default_rng(0).random(200) < p, p, bins=5)
    >>> ax.get_xlabel(), len(ax.child_axes)
    ('', 1)
    """
    choices: dict[str, Any] = {"level": level, "strategy": strategy, "label": label, "labels": labels}
    curve = reliability_curve(y, proba, bins, **choices)
    ax = draw_reliability(curve, ax)
    _histogram(ax, event_or_second(read(y, proba, labels), label).proba, curve.what)
    return ax


def draw_reliability(curve: ReliabilityCurve, ax: Axes | None = None) -> Axes:
    """The diagram of a curve that is known already."""
    ax = axes_for(ax, 5.2, 6.0)
    ax.fill_between(
        curve.predicted,
        curve.band_low,
        curve.band_high,
        color=PALE,
        alpha=0.5,
        lw=0,
        label=f"where points lie if it is right ({percent(curve.level)})",
    )
    ax.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    for inside, colour, words in ((True, BLUE, "inside"), (False, VERMILION, "outside: not as often as said")):
        which = curve.inside == inside
        if which.any():
            _points(ax, curve, which, colour, words if not inside else "observed, with its interval")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set(xlabel=f"said: {shown(curve.what, 40)}", ylabel="happened: share of the rows")
    count = f"{int(curve.inside.sum())} of {len(curve.count)} points are inside the band"
    headline(ax, "Do probabilities mean what they say?", count)
    quiet(ax)
    legend(ax, loc="upper left")
    return ax


def _points(ax: Axes, curve: ReliabilityCurve, which: Array, colour: str, words: str) -> None:
    p, o = curve.predicted[which], curve.observed[which]
    ends = np.array([o - curve.low[which], curve.high[which] - o])
    ax.errorbar(p, o, yerr=ends, fmt="o", color=colour, ms=5, lw=1.2, capsize=0, label=words)


def _histogram(ax: Axes, proba: Array, what: str) -> None:
    """How often each probability was said, under the diagram and on its axis."""
    ax.set_xlabel("")
    ax.tick_params(labelbottom=False)
    below = ax.inset_axes((0.0, -0.26, 1.0, 0.2), sharex=ax)
    below.hist(proba, bins=np.linspace(0, 1, HISTOGRAM_BINS + 1).tolist(), color=BLUE, alpha=0.7, rwidth=0.9)
    below.spines[["top", "right"]].set_visible(False)
    below.set(xlabel=f"said: {shown(what, 40)}", ylabel="rows")
