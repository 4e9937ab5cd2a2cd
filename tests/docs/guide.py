"""Run the Python blocks of one Markdown file, in order and in one namespace.

    python -W error tests/docs/guide.py docs/start.md

A fenced block marked ``output`` right after a ``python`` one is what that block must print, compared as a
docstring example would be (``...`` stands for anything, spaces are not counted). Each file has a process of
its own: a guide may define a likelihood, and the contract tests must not find it among the library's.
"""

import contextlib
import doctest
import io
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Example(NamedTuple):
    """A block of code, the number of lines above it, and what it should print (None: not stated)."""

    code: str
    above: int
    printed: str | None


def examples(text: str) -> Iterator[Example]:
    """The Python blocks of a Markdown text, each with the output stated right after it."""
    blocks = list(FENCE.finditer(text))
    for block, following in pairwise([*blocks, None]):
        if block and block["language"].strip() == "python":
            stated = (
                following is not None
                and following["language"].strip() == "output"
                and not text[block.end() : following.start()].strip()
            )
            above = text.count("\n", 0, block.start("body"))
            yield Example(block["body"], above, following["body"] if following and stated else None)


def run(path: Path) -> None:
    """Run every block; the first that fails, or prints something else than stated, raises."""
    names: dict[str, object] = {"__name__": "__main__"}
    for code, above, printed in examples(path.read_text(encoding="utf-8")):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * above + code, str(path), "exec"), names)
        if printed is not None and not doctest.OutputChecker().check_output(printed, out.getvalue(), FLAGS):
            raise SystemExit(f"{path}:{above + 1}: stated\n\n{printed}\nbut printed\n\n{out.getvalue()}")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
