"""Writes the table into docs/reliability.md: ``PYTHONPATH=src:tests python -m reliability.page``."""

from pathlib import Path

from reliability.estimators import KINDS, SUBJECTS
from reliability.inputs import Answer, Fits, Input, NoArgument, Refused, Same
from reliability.table import SECTIONS

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- begin: python -m reliability.page -->", "<!-- end -->"


def verdict(answer: Answer) -> str:
    if isinstance(answer, Refused):
        return "refused"
    if isinstance(answer, NoArgument):
        return "–"
    assert isinstance(answer, Fits)
    if answer.warns:
        return "fits, warns"
    return "same" if isinstance(answer, Same) else "fits"


def cell(given: Input, kind: str) -> str:
    """What most models of a kind do, and which of them do otherwise."""
    found: dict[str, list[str]] = {}
    for subject in SUBJECTS:
        if subject.kind == kind:
            found.setdefault(verdict(given.answer(subject)), []).append(subject.short)
    most = max(found, key=lambda word: len(found[word]))
    others = [f"{word}: {', '.join(names)}" for word, names in found.items() if word != most]
    return "; ".join([most, *others])


def row(given: Input) -> str:
    words = [given.name, *(cell(given, kind) for kind in KINDS), given.says]
    return "| " + " | ".join(word.replace("|", "\\|").replace("*", "\\*") for word in words) + " |"


def section(title: str, inputs: list[Input]) -> list[str]:
    head = ["input", *KINDS.values(), "what happens"]
    lines = [f"### {title}", "", "| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return [*lines, *map(row, inputs), ""]


def written() -> str:
    """The table as Markdown."""
    n_inputs, n_pairs = sum(map(len, SECTIONS.values())), sum(map(len, SECTIONS.values())) * len(SUBJECTS)
    counted = f"{n_inputs} inputs, {len(SUBJECTS)} estimators, {n_pairs:,} pairs."
    lines = [line for title, inputs in SECTIONS.items() for line in section(title, inputs)]
    return "\n".join([BEGIN, "", counted, "", *lines, END])


def with_table(page: str) -> str:
    """The page with the table as it is declared now."""
    before, rest = page.split(BEGIN)
    return before + written() + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
