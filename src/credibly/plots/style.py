"""How every figure looks: colours that colour-blind readers tell apart, names that are safe to draw, quiet axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from credibly.diagnostics.inputs import whole
from credibly.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

# Okabe & Ito (2008): eight colours that differ for every common kind of colour vision, and in a grey print.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
GREY, PALE = "#666666", "#BBBBBB"
COLOURS = (BLUE, VERMILION, GREEN, SKY, PURPLE, ORANGE)  # of classes: the first four differ most for all readers
MARKERS = ("o", "^", "s", "D", "v", "P", "X")  # as many as are prime to the colours: 42 pairs before one comes again
BAND = 0.2  # how opaque a band is

LONGEST_NAME = 28  # letters of a name beside an axis
SMALL = 8.5  # points, for legends and notes
LETTERS_BELOW = 90  # of a legend under the axes, side by side


def colour_of(k: int) -> str:
    """The colour of class number k."""
    return COLOURS[k % len(COLOURS)]


def marker_of(k: int) -> str:
    """The marker of class number k."""
    return MARKERS[k % len(MARKERS)]


def line_of(k: int) -> str:
    """How the line of class number k is dashed: whole, until the colours come again."""
    return ("-", "--", ":", "-.")[k // len(COLOURS) % 4]


def axes_for(ax: Axes | None, width: float = 6.4, height: float = 4.0) -> Axes:
    """The axes given, or those of a new figure; without the two lines that frame nothing."""
    if ax is None:
        ax = pyplot().subplots(figsize=(width, height), layout="constrained")[1]
    elif not (hasattr(ax, "set_xlabel") and hasattr(ax, "figure")):
        raise InputError(
            f"ax must be one matplotlib Axes or None; got {type(ax).__name__}. plt.subplots with several panels "
            "returns an array of Axes: choose one of them."
        )
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def pyplot() -> Any:
    """matplotlib.pyplot, which is imported when the first figure is drawn."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'credibly[plots]'") from error
    return plt


def shown(name: Any, most: int | None = LONGEST_NAME) -> str:
    r"""A name as it can be drawn: one line, not too long, and a dollar sign that begins no formula.

    Examples
    --------
    >>> shown("income in $")
    'income in \\$'
    >>> shown("the standard error of the fractal dimension")
    'the standard error…dimension'
    """
    text = " ".join(str(name).split())
    if most is not None and len(text) > most:
        end = most // 3
        text = f"{text[: most - end - 1].rstrip()}…{text[-end:].lstrip()}"
    return text.replace("$", r"\$")


def entry(name: Any) -> str:
    """A name as it can stand in a legend, from which matplotlib leaves out what begins with an underscore."""
    text = shown(name)
    return f" {text}" if text.startswith("_") else text


def shown_all(names: Sequence[Any], most: int = LONGEST_NAME) -> list[str]:
    """Names as they can be drawn, in full where shortened ones would be the same."""
    short = [shown(name, most) for name in names]
    return [text if short.count(text) == 1 else shown(name, None) for name, text in zip(names, short, strict=True)]


def percent(level: float) -> str:
    """A level as people write it.

    Examples
    --------
    >>> percent(0.9), percent(0.995)
    ('90 %', '99.5 %')
    """
    return f"{100 * level:.6g} %"


def headline(ax: Axes, title: str, note: str = "") -> None:
    """What the figure shows, and in small letters under it how to read it."""
    ax.set_title(title, loc="left", fontsize=11, pad=20 if note else 8)
    if note:
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        # Not in the layout: the title above it keeps its room, and a long note shall not squeeze the axes.
        ax.annotate(note, (0, 1), (0, 6), **place, fontsize=SMALL, color=GREY).set_in_layout(False)


def legend(ax: Axes, **choices: Any) -> Legend:
    """A legend without a frame."""
    return ax.legend(**({"frameon": False, "fontsize": SMALL} | choices))


def legend_below(ax: Axes, handles: Sequence[Any] | None = None, labels: Sequence[str] | None = None) -> Legend:
    """A legend under the label of the horizontal axis, where no data are, in as many columns as there is room for."""
    from matplotlib.transforms import ScaledTranslation

    if handles is None:
        handles, labels = ax.get_legend_handles_labels()
    texts = [str(handle.get_label()) for handle in handles] if labels is None else list(labels)
    columns = max(1, min(len(texts), LETTERS_BELOW // (6 + max(len(text) for text in texts))))
    figure: Any = ax.figure
    # Down by the numbers and the label of the axis, whatever the size of the figure.
    down = ScaledTranslation(0, -(40 + 13 * ax.get_xlabel().count("\n")) / 72, figure.dpi_scale_trans)
    where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": ax.transAxes + down}
    return legend(ax, handles=handles, labels=texts, ncols=columns, borderaxespad=0.0, columnspacing=1.5, **where)


def quiet(ax: Axes, axis: Any = "both") -> None:
    """Faint lines to read values from, behind everything."""
    ax.grid(True, axis=axis, color="#E6E6E6", lw=0.8)
    ax.set_axisbelow(True)


def how_many(most: Any) -> int:
    """A checked limit on what is shown."""
    return whole(most, "most")
