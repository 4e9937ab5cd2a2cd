"""A table with a title and notes, as text and as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from credibly.estimators.summary import aligned


@dataclass(frozen=True)
class TextTable:
    """Cells that are text already; the first row is the head."""

    title: str
    cells: list[list[str]]
    n_text: int  # columns, from the left, that are no numbers
    notes: list[str]

    def __str__(self) -> str:
        widths = [max(len(row[i]) for row in self.cells) for i in range(len(self.cells[0]))]
        head, *body = [aligned(row, widths, self.n_text) for row in self.cells]
        rule = "─" * len(head)
        return "\n".join([self.title, rule, head, rule, *body, rule, *self.notes])

    def html(self) -> str:
        """The same for a notebook; names are escaped."""
        head, *body = self.cells
        top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        rows = "".join(
            f"<tr><th>{escape(name)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
            for name, *cells in body
        )
        notes = "<br>".join(escape(note) for note in self.notes)
        caption = f"<caption>{escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table><p>{notes}</p>"
