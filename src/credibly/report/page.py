"""The page itself: what was found, put into a template in which every text is escaped."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from credibly.data.files import write_errors, written_whole

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page.

    Attributes
    ----------
    title : str
    html : str
        The whole page; it needs no network, and no other file.
    headline : str
        What it says at the top: how well the model predicts, and how far it can be trusted.

    Examples
    --------
    >>> Report("A title", "<!doctype html><p>A page").html
    '<!doctype html><p>A page'
    """

    title: str
    html: str = field(repr=False)
    headline: str = ""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
        """Write the page, whole or not at all.

        Parameters
        ----------
        path : path
        overwrite : bool, default True
            False: refuse a name that is taken.

        Returns
        -------
        Path
        """
        with written_whole(path, overwrite=overwrite) as part, write_errors(path):
            part.write_text(self.html, encoding="utf-8", newline="\n")
        return Path(path)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that it and a notebook leave each other alone."""
        return (
            f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.html)}" sandbox="allow-scripts" '
            'style="width:100%;height:48rem;border:1px solid #ccc"></iframe>'
        )


def rendered(parts: dict[str, Any]) -> str:
    """The page of these parts. Templates escape every text; figures come as markup that was made here."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise ImportError("Reports need jinja2: pip install 'credibly[report]'") from error

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8").strip()
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("page.html.j2").render(
        script=script, style=style, script_digest=f"sha256-{digest}", **parts
    )
    # What cannot be written as UTF-8 (half a surrogate pair in a name) becomes a question mark; NUL is no character.
    return page.replace("\x00", "").encode("utf-8", "replace").decode("utf-8") + "\n"
