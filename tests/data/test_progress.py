"""The bar: silent where nobody looks, and while work is quick; it leaves nothing behind."""

import io
import sys

import pytest

from credibly.data import progress as module
from credibly.data.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch, stream: io.StringIO | None, total: int | None = 4, quiet: float = 0.0, **choices) -> str:
    """What a stream has seen of some work in four steps."""
    monkeypatch.setattr(module, "DELAY", quiet)
    monkeypatch.setattr(module, "TERMINAL_INTERVAL", 0.0)
    monkeypatch.setattr(module, "LOG_INTERVAL", quiet)
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress(total, "pass 1", " rows", **choices) as bar:
        for _ in range(4):
            bar.update()
    return "" if stream is None else stream.getvalue()


def test_long_work_on_a_terminal_is_shown_and_wiped(monkeypatch):
    seen = shown(monkeypatch, Terminal())
    assert "pass 1" in seen and "2.00/4.00" in seen
    assert seen.endswith("\r") and seen.split("\r")[-2].strip() == ""


def test_work_of_unknown_length_is_named(monkeypatch):
    assert "pass 1 …" in shown(monkeypatch, Terminal(), total=None)
    assert shown(monkeypatch, io.StringIO(), total=None, shown=True) == ""


def test_quick_work_is_not_shown(monkeypatch):
    assert shown(monkeypatch, Terminal(), quiet=60.0) == ""


@pytest.mark.parametrize(
    ("choice", "stream", "seen"), [(None, io.StringIO, 0), (False, Terminal, 0), (True, io.StringIO, 1)]
)
def test_elsewhere_it_is_silent_unless_asked_for(monkeypatch, choice, stream, seen):
    assert bool(shown(monkeypatch, stream(), shown=choice)) == bool(seen)


def test_a_program_without_an_error_stream(monkeypatch):
    assert shown(monkeypatch, None, shown=True) == ""


def test_what_is_done_may_be_said_in_all(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(module, "DELAY", 0.0)
    monkeypatch.setattr(module, "TERMINAL_INTERVAL", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress(1, "reading", "B") as bar:
        bar.reach(500, 2000)
    assert "25%" in stream.getvalue()
