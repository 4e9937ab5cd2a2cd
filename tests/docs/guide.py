"""Run the code of one Markdown file, in order: Python in one namespace, commands in one folder.

    python -W error tests/docs/guide.py docs/start.md

A fenced block marked ``output`` right after a ``python`` one is what that block must print, compared as a
docstring example would be (``...`` stands for anything, spaces are not counted). In a block marked ``console``
lines that begin with ``$ credibly`` are run as in a shell, and what stands below them, if anything, is what they
must print; without that they must succeed. Other commands are for the reader, but for those in SHELL. Each file
has a process of its own: a guide may define a likelihood, and the contract tests must not find it among the
library's.
"""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^\$ (?P<line>(?:.*\\\n)*.*)\n(?P<printed>(?:(?!\$ ).*\n)*)", re.MULTILINE)
SHELL = {"credibly", "cat", "head"}  # first words of commands that are run
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Example(NamedTuple):
    """A block of code, the number of lines above it, and what it should print (None: not stated)."""

    code: str
    above: int
    printed: str | None


class Command(NamedTuple):
    """A line of a shell, the number of lines above it, and what it should print (None: not stated)."""

    line: str
    above: int
    printed: str | None


def examples(text: str) -> Iterator[Example | Command]:
    """The Python blocks of a Markdown text, each with the output stated right after it, and its commands."""
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
        if block and block["language"].strip() == "console":
            yield from commands(block["body"], text.count("\n", 0, block.start("body")))


def commands(body: str, above: int) -> Iterator[Command]:
    """The commands of a console block that are to be run."""
    for found in PROMPT.finditer(body):
        if found["line"].split(maxsplit=1)[0] in SHELL:
            yield Command(found["line"], above + body.count("\n", 0, found.start()), found["printed"].strip() or None)


def run_code(path: Path, example: Example, names: dict[str, object]) -> str:
    """What a block prints; what it raises goes on to the caller."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile("\n" * example.above + example.code, str(path), "exec"), names)
    return out.getvalue()


def run_command(path: Path, command: Command) -> str:
    """What a command prints, both streams as a terminal shows them; one that fails must say so on the page."""
    script = f'credibly() {{ "{sys.executable}" -W error -m credibly "$@"; }}\n{command.line}'
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"COLUMNS": "120", "NO_COLOR": "1"},
        check=False,
    )
    if done.returncode and command.printed is None:
        raise SystemExit(f"{path}:{command.above + 1}: {command.line}\nfailed with\n\n{done.stdout}")
    return done.stdout


def run(path: Path) -> None:
    """Run everything; the first that fails, or prints something else than stated, raises."""
    names: dict[str, object] = {"__name__": "__main__"}
    for example in examples(path.read_text(encoding="utf-8")):
        got = run_code(path, example, names) if isinstance(example, Example) else run_command(path, example)
        stated = example.printed
        if stated is not None and not same(stated, got):
            raise SystemExit(f"{path}:{example.above + 1}: stated\n\n{stated}\nbut printed\n\n{got}")


def same(stated: str, got: str) -> bool:
    """Whether a text is what was stated; a space that does not break ("90 %") is a space."""
    return doctest.OutputChecker().check_output(*(text.replace("\xa0", " ") for text in (stated, got)), FLAGS)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
