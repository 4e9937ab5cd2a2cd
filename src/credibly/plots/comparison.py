"""A figure of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    """
    if ax is None:
        from matplotlib import pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 1.0 + 0.4 * len(names)), layout="constrained")
    lengths, half = np.asarray(values, dtype=float), np.asarray(errors, dtype=float)
    places = np.arange(len(names))
    ax.barh(places, lengths, color="#4c72b0", height=0.6)
    known = ~np.isnan(half)
    ax.errorbar(lengths[known], places[known], xerr=half[known], fmt="none", ecolor="black", capsize=3)
    ax.set_yticks(places, [name.replace("$", r"\$") for name in names])
    ax.invert_yaxis()
    ax.set_xlabel(label)
    return ax
