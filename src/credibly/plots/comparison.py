"""Figures of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.numerics.arrays import Array
from credibly.plots.style import BLACK, BLUE, GREY, SMALL, axes_for, colour_of, headline, legend_below, quiet, shown_all

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_MODEL_NAME = 36


def ranked_bars(names: Sequence[str], values: ArrayLike, errors: ArrayLike, label: str, ax: Axes | None = None) -> Axes:
    """Horizontal bars, the first name on top, with error bars where there are errors.

    Parameters
    ----------
    names : sequence of str
    values, errors : (k,) arrays
        Lengths of the bars, and their standard errors (NaN: none).
    label : str
        Of the axis.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from credibly import plots
    >>> ax = plots.ranked_bars(["line", "curve"], [0.0, -4.1], [0.1, float("nan")], "log evidence, from the best")
    >>> [float(bar.get_width()) for bar in ax.patches]
    [0.0, -4.1]
    """
    ax = axes_for(ax, 6.4, 1.4 + 0.4 * len(names))
    lengths, half = np.asarray(values, dtype=float), np.asarray(errors, dtype=float)
    if lengths.shape != (len(names),) or half.shape != lengths.shape:
        raise InputError(
            f"expected a value and an error for each of {len(names)} names; got shapes {lengths.shape}, {half.shape}."
        )
    places = np.arange(len(names))
    ax.barh(places, lengths, color=BLUE, height=0.6)
    known = ~np.isnan(half)
    ax.errorbar(lengths[known], places[known], xerr=half[known], fmt="none", ecolor=BLACK, capsize=3, lw=1)
    ax.set_yticks(places, shown_all(names, LONGEST_MODEL_NAME))
    ax.invert_yaxis()
    ax.set_xlabel(label)
    quiet(ax, "x")
    return ax


def evidence(comparison: Any, ax: Axes | None = None) -> Axes:
    """How far each model of a comparison is behind the best, with error bars and probabilities.

    Bars are differences of what the models are ranked by (the log evidence unless asked otherwise) from the best; a
    difference of -3 means one twentieth of its probability. Models that have no such number are left out. A name with
    † has an evidence that is not to be relied on; the comparison's notes say why.

    Parameters
    ----------
    comparison : Comparison
        What `credibly.compare` returns.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import BayesianLogisticRegression, BayesianProbitRegression, compare, plots
    >>> X, y = np.arange(12.0)[:, None], [0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 1]
    >>> found = compare([BayesianLogisticRegression(), BayesianProbitRegression()], X, y, random_state=0)
    >>> ax = plots.evidence(found)
    >>> len(ax.patches)
    2
    """
    from credibly.comparison.result import SCORES, UNRELIABLE  # upwards, when it is needed

    if not (hasattr(comparison, "rows") and hasattr(comparison, "by")):
        raise InputError(f"evidence draws what credibly.compare returns; got {type(comparison).__name__}.")
    by = comparison.by
    rows = {i: row for i, row in enumerate(comparison.rows) if not np.isnan(row.score(by))}
    if not rows:
        raise InputError(f"No model of this comparison has a number to be ranked by ({by!r}): see its notes.")
    scores = np.array([row.score(by) for row in rows.values()])
    errors = np.array([np.nan if by in SCORES else row.evidence.se for row in rows.values()])
    names = [f"{row.name} {UNRELIABLE}" if row.evidence.doubt else row.name for row in rows.values()]
    told = f"{SCORES.get(by, 'log evidence')}, from that of the best"
    if any(row.evidence.doubt for row in rows.values()):
        told += f"\n{UNRELIABLE} not to be relied on: the comparison's notes say why"
    ax = ranked_bars(names, scores - scores.max(), errors, told, ax)
    _numbers(ax, scores - scores.max(), np.array([comparison.columns["probability"][i] for i in rows]))
    if by not in SCORES:
        _kinds(ax, [row.kind for row in rows.values()])
    headline(ax, "Which model do the data support?", _note(by in SCORES, len(comparison.rows) - len(rows)))
    return ax


def _note(weighted: bool, left: int) -> str:
    """How to read the numbers on the right."""
    share = "weight" if weighted else "probability (all equal before)"
    return f"right: difference, and {share}" + (f"; {left} left out: no number" if left else "")


def _numbers(ax: Axes, behind: Array, probability: Array) -> None:
    """The difference and the probability of every model, at the end of its line."""
    for place, (difference, share) in enumerate(zip(behind, probability, strict=True)):
        said = "best" if difference == 0 else f"{difference:.3g}".replace("-", "−")
        words = f"{said},  {_share(share)}"
        ax.annotate(
            words, (1, place), (6, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center"
        ).set(fontsize=SMALL, color=GREY)


def _share(p: float) -> str:
    """A probability that is never rounded to zero or one.

    Examples
    --------
    >>> _share(0.9999), _share(0.934), _share(2e-7)
    ('> 0.999', '0.93', '< 0.001')
    """
    if p > 0.999 or p < 0.001:
        return "> 0.999" if p > 0.5 else "< 0.001"
    return f"{p:.2g}" if p < 0.99 else f"{p:.3f}"


def _kinds(ax: Axes, kinds: list[str]) -> None:
    """Colours for what stands in the evidence, where it is not the same for all."""
    known = list(dict.fromkeys(kinds))
    if len(known) == 1:
        return
    for bar, kind in zip(ax.patches, kinds, strict=True):
        bar.set_facecolor(colour_of(known.index(kind)))
    handles = [ax.patches[kinds.index(kind)] for kind in known]
    legend_below(ax, handles, known)
