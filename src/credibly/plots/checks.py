"""Pictures for doubters: how far predictions can be trusted, and which labels to look at again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from credibly.errors import InputError
from credibly.numerics.arrays import Array
from credibly.numerics.weighted_draws import CLOSE, RELIABLE
from credibly.plots.asking import ask, can, classes_of, codes_of, last_step
from credibly.plots.rows import Rows
from credibly.plots.style import (
    BLUE,
    ORANGE,
    SMALL,
    VERMILION,
    axes_for,
    colour_of,
    headline,
    how_many,
    legend,
    legend_below,
    marker_of,
    quiet,
    shown,
    shown_all,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def khat(certificate: Any, X: Any = None, ax: Axes | None = None) -> Axes:
    """k-hat of predictions in increasing order, with the limits 0.5 and 0.7.

    Up to 0.5 an approximation is close to the posterior, up to 0.7 it can be corrected by weighted draws; above,
    neither it nor the correction is to be relied on. What is infinite is drawn as an arrow at the top.

    Parameters
    ----------
    certificate : Certificate, or (n,) array
        What `certify` returns, or the values themselves.
    X : (n, d) array or frame
        The rows to predict, for a certificate.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from credibly import plots
    >>> ax = plots.khat([0.1, 0.62, 0.3, 0.9])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['close: 2 rows', 'can be corrected: 1 row', 'not reliable: 1 row']
    """
    values = _khat_values(certificate, X)
    ax = axes_for(ax, 6.4, 3.8)
    ordered, places = np.sort(values), np.arange(1, len(values) + 1)
    finite = np.isfinite(ordered)
    top = max(1.0, float(ordered[finite].max(initial=0.0)) * 1.1)
    bounds = ((-np.inf, CLOSE, BLUE, "close", "o"), (CLOSE, RELIABLE, ORANGE, "can be corrected", "D"))
    for low, high, colour, words, marker in (*bounds, (RELIABLE, np.inf, VERMILION, "not reliable", "s")):
        which = (ordered > low) & (ordered <= high)
        said = f"{words}: {int(which.sum())} {'row' if which.sum() == 1 else 'rows'}"
        ax.plot(places[which & finite], ordered[which & finite], marker, color=colour, ms=4, mew=0, label=said)
    ax.plot(places[~finite], np.full((~finite).sum(), top), "^", color=VERMILION, ms=6, mew=0, clip_on=False)
    for limit, colour in ((CLOSE, ORANGE), (RELIABLE, VERMILION)):
        ax.axhline(limit, color=colour, lw=1, ls="--")
        ax.annotate(f"{limit}", (1, limit), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points").set(
            color=colour, fontsize=SMALL, va="center"
        )
    ax.set(xlabel="rows, in the order of their k-hat", ylabel="k-hat of the prediction")
    ax.set_ylim(min(0.0, float(ordered[finite].min(initial=0.0))) - 0.03, top)
    headline(
        ax,
        "Can the predictions be trusted?",
        "up to 0.5 the approximation is close, up to 0.7 it can be corrected; above, neither",
    )
    legend_below(ax)
    return ax


def _khat_values(certificate: Any, X: Any) -> Array:
    if hasattr(certificate, "predict_khat"):
        if X is None:
            raise InputError("Say of which rows: khat(certificate, X) draws certificate.predict_khat(X).")
        if np.isnan(certificate.khat):
            raise InputError('Draws of inference="exact" need no weights, so their predictions have no k-hat.')
        certificate = certificate.predict_khat(X)
    try:
        values = np.asarray(certificate, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"khat takes a certificate (model.certify(X, y)) and rows, or an array of values; got "
            f"{type(certificate).__name__}."
        ) from error
    if values.ndim != 1 or not len(values) or np.isnan(values).any():
        raise InputError(f"k-hat values must be an (n,) array without NaN, and not empty; got shape {values.shape}.")
    return values


def label_noise(model: Any, X: Any, y: ArrayLike, most: int = 20, ax: Axes | None = None) -> Axes:
    """The rows whose recorded label is most probably wrong, the most suspect on top.

    Parameters
    ----------
    model : classifier fitted with `label_noise`
    X : (n, d) array or frame
        Rows; a frame's index gives them names.
    y : (n,) labels as recorded
    most : int
        How many rows.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from credibly import BayesianLogisticRegression, plots
    >>> x = np.linspace(-3, 3, 40)
    >>> y = (x > 0).astype(int)
    >>> y[3] = 1
    >>> model = BayesianLogisticRegression(label_noise=0.05).fit(x[:, None], y)
    >>> ax = plots.label_noise(model, x[:, None], y, most=3)
    >>> ax.get_yticklabels()[0].get_text()
    'row 3'
    """
    classes = classes_of(model)
    if classes is None or not can(model, "flip_probability"):
        raise InputError(
            f"{type(last_step(model)).__name__} has no model of wrong labels; use a linear classifier or a Gaussian "
            'process with label_noise="estimate".'
        )
    if not np.any(last_step(model).label_noise_):
        raise InputError('This model takes labels at their word: fit it with label_noise="estimate", or a number.')
    rows = Rows.of(X)
    codes = codes_of(y, classes, len(rows))
    flipped = np.asarray(ask(model, "flip_probability", X, y))
    order = np.argsort(-flipped, kind="stable")[: how_many(most)]
    ax = axes_for(ax, 6.4, 1.7 + 0.25 * len(order))
    places = np.arange(len(order))
    ax.hlines(places, 0, flipped[order], color="#DDDDDD", lw=2)
    for k, name in enumerate(classes):
        which = codes[order] == k
        if which.any():
            ax.plot(
                flipped[order][which],
                places[which],
                marker_of(k),
                color=colour_of(k),
                ms=6,
                label=f"recorded as {shown(name)}",
            )
    ax.set_yticks(places, shown_all([_row_name(rows.table, i) for i in order]))
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set(xlim=(0, 1.02), xlabel="probability that the recorded label is wrong")
    quiet(ax, "x")
    expected = f"{flipped.sum():.1f} of {len(rows)} labels are expected to be wrong"
    headline(ax, "Which labels to look at again?", expected)
    legend(ax, loc="lower right")
    return ax


def _row_name(table: Any, i: int) -> str:
    """What a row is called: by a frame's index where it has words, else by its number."""
    name = table.index[i] if hasattr(table, "index") else i
    return name if isinstance(name, str) else f"row {name}"
