"""What is worth telling about columns that were read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from credibly.cli.reading.columns import Column
from credibly.cli.reading.options import MISSING_AMONG_NUMBERS
from credibly.numerics.arrays import AnyArray
from credibly.wording import shortened

CODES = (-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999)
PLAIN = "write 1234567 without them"
LOOKS = (
    (re.compile(r"[+-]?\d{1,3},\d{3}"), "have thousands separators (write 1234) or a decimal comma (--decimal ,)"),
    (re.compile(r"[+-]?\d{1,3}([, '\u00a0\u202f]\d{3})+(\.\d+)?"), f"have thousands separators: {PLAIN}"),
    (re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?"), f"have thousands separators: {PLAIN}"),
    (re.compile(r"[+-]?\d+,\d+"), "have a decimal comma: give --decimal ,"),
    (re.compile(r"[$€£]\s*[+-]?[\d.,]+|[+-]?[\d.,]+\s*[%$€£]"), "carry a sign: leave % and currencies out"),
)
# These are categories as often as numbers ("<= 60", "> 60"), and told only among numbers.
LIMITS = re.compile(r"[<>≤≥]=?\s*[\d.,]+")

Lines = Callable[[Iterable[int]], list[str]]  # rows to "line 7"


def table_notes(columns: list[Column]) -> list[str]:
    """What was done in several columns alike."""
    notes = []
    markers, where = Counter[str](), []
    for column in columns:
        if column.markers:
            markers.update(column.markers)
            where.append(column.name)
    if markers:
        counted = shortened([f"{text!r} ({count})" for text, count in markers.most_common()])
        notes.append(f"These cells count as missing: {counted}, in {shortened(where)}.")
    stripped = [column.name for column in columns if column.was_stripped]
    if stripped:
        notes.append(f"Spaces around cells were left out in {shortened(stripped)}.")
    return notes


def why_text(column: Column, lines: Lines) -> list[str]:
    """Why a column that holds many numbers, or what a person would call so, is text."""
    n_numbers, n_others, examples = column.spoilt
    cells = [cell for _, cell in examples]
    looks = next((advice for pattern, advice in LOOKS if cells and all(map(pattern.fullmatch, cells))), None)
    if not n_others or (n_numbers < n_others and looks is None):
        return []
    if looks is None and all(map(LIMITS.fullmatch, cells)):
        looks = "are limits of what could be measured: say as which number they shall count"
    shown = ", ".join(f"{cell!r} ({line})" for cell, line in zip(cells, lines(row for row, _ in examples), strict=True))
    if looks is None:
        advice = "Correct what is wrong; what means a missing cell can be named with --missing-marker."
    else:
        advice = f"They {looks}."
    share = f"{n_others} of {n_numbers + n_others} cells {'is no number' if n_others == 1 else 'are no numbers'}"
    return [f"Column {column.name!r} is read as text, because {share}: {shown}. {advice}"]


def levels_that_may_be_gaps(name: str, values: Any) -> list[str]:
    """Levels of text that mean a missing cell elsewhere."""
    import pandas as pd

    if not isinstance(values, pd.Categorical):
        return []
    found = [text for text in MISSING_AMONG_NUMBERS if text in values.categories]
    return [
        f"Column {name!r} has {text!r} as one of its levels; if it means a missing cell, say --missing-marker {text}."
        for text in found
    ]


def odd_numbers(name: str, values: Any) -> list[str]:
    """Numbers that may be codes, and numbers of too many digits."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "if" or not len(values):
        return []
    known = values if values.dtype.kind == "i" else values[np.isfinite(values)]
    if not len(known):
        return []
    low, high = known.min(), known.max()
    notes = [_code_note(name, known, code) for code in CODES if code in (low, high) and _stands_apart(known, code)]
    if values.dtype.kind == "f" and max(-low, high) >= 2.0**53:
        notes.append(f"Column {name!r} has numbers of more than 15 digits, which are rounded. Is it an identifier?")
    return notes


def _code_note(name: str, known: AnyArray, code: int) -> str:
    count = int((known == code).sum())
    return (
        f"Column {name!r} has the value {code} in {count} of {len(known)} cells, far from all others. "
        f"If it stands for a missing cell, say --missing-marker {code}."
    )


def _stands_apart(known: AnyArray, code: int) -> bool:
    """A value that is farther from the others than they are from each other, or negative where no other is."""
    others = known[known != code]
    if not len(others):
        return False
    low, high = others.min(), others.max()
    gap = low - code if code < low else code - high
    return bool(low < high and (gap > high - low or (code < 0 <= low)))
