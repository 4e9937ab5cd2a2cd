"""A figure as markup that can stand inside a page: no script, no style for all, ids of its own."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from credibly.plots.style import pyplot

MANY_POINTS = 400  # from which on a cloud is drawn as a picture: each point would be some sixty letters
SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched, copied
    "svg.hashsalt": "credibly",  # the same figure has the same ids
    "font.family": "sans-serif",
    "font.size": 10,
    "figure.facecolor": "none",  # the page shows through, by day and by night
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "text.usetex": False,
    "savefig.dpi": 110,  # of clouds drawn as pictures
}
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
REFERENCE = re.compile(r"url\(#([^)]+)\)")
DROPPED = {"metadata", "style", "script", "foreignObject"}
LINK = "{http://www.w3.org/1999/xlink}href"


@contextmanager
def page_style() -> Iterator[Any]:
    """matplotlib's settings for figures of a page; other figures of the session are left alone."""
    plt = pyplot()
    with plt.rc_context():
        plt.rcdefaults()  # a page looks the same whatever the session's settings
        plt.rcParams.update(SETTINGS)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
            # releases before 3.11 draw surfaces as curves instead: more letters, the same figure
            warnings.filterwarnings("ignore", message="Rasterization of .* will be ignored", category=UserWarning)
            yield plt


def small_axes() -> Any:
    """For a figure that stands beside another: smaller, so that its letters are not."""
    return pyplot().subplots(figsize=(4.8, 3.3), layout="constrained")[1]


def drawn(draw: Callable[[], Any], key: str, alt: Callable[[Any], str]) -> str:
    """The markup of what `draw` draws; `alt` says in words what is seen, from the axes."""
    with page_style() as plt:
        before = set(plt.get_fignums())
        try:
            ax = draw()
            _lighten(ax.figure)
            file = io.StringIO()
            ax.figure.savefig(
                file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
            )
            return inline(file.getvalue(), key, alt(ax))
        finally:
            for number in set(plt.get_fignums()) - before:
                plt.close(number)


def _lighten(figure: Any) -> None:
    """Draw clouds of many points, and surfaces, as pictures."""
    for artist in figure.findobj(lambda it: hasattr(it, "get_offsets") or hasattr(it, "get_xydata")):
        points = artist.get_offsets() if hasattr(artist, "get_offsets") else artist.get_xydata()
        marked = hasattr(artist, "get_offsets") or artist.get_marker() not in {None, "None", "", " "}
        if marked and len(points) > MANY_POINTS:
            artist.set_rasterized(True)
    for artist in figure.findobj(lambda it: type(it).__name__ in {"QuadMesh", "QuadContourSet"}):
        if getattr(artist, "filled", True):
            artist.set_rasterized(True)


def inline(svg: str, key: str, alt: str) -> str:
    """Markup for the inside of an HTML page.

    Examples
    --------
    >>> inline(
    ...     '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" viewBox="0 0 9 9"><g id="a"/></svg>', "k", "A <dot>"
    ... )
    '<svg viewBox="0 0 9 9" role="img" aria-label="A &lt;dot&gt;"><g id="k-a" /></svg>'
    """
    root = ElementTree.fromstring(NOT_XML.sub("", svg))
    _strip(root)
    for element in root.iter():
        element.tag = str(element.tag).rpartition("}")[2]
        element.tail = None if not (element.tail or "").strip() else element.tail
        if element.tag not in {"text", "tspan"}:
            element.text = None if not (element.text or "").strip() else element.text
        element.attrib = _attributes(element.attrib, key)
    box = root.attrib.get("viewBox", "0 0 1 1")
    root.attrib = {"viewBox": box, "role": "img", "aria-label": NOT_XML.sub("", alt)}
    return ElementTree.tostring(root, encoding="unicode")


def _strip(element: ElementTree.Element) -> None:
    for child in list(element):
        if str(child.tag).rpartition("}")[2] in DROPPED:
            element.remove(child)
        else:
            _strip(child)


def _attributes(given: dict[str, str], key: str) -> dict[str, str]:
    """With ids that no other figure has, and without handlers or links to other places."""
    kept = {}
    for name, value in given.items():
        if name == "id":
            kept["id"] = f"{key}-{value}"
        elif name in {LINK, "href"}:
            if value.startswith("#"):
                kept["href"] = f"#{key}-{value[1:]}"
            elif value.startswith("data:image/png;base64,"):
                kept["href"] = value
        elif not name.lower().startswith("on") and not name.startswith("{"):
            kept[name] = REFERENCE.sub(rf"url(#{key}-\1)", value)
    return kept
