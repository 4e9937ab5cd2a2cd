"""The line about a pass: silent where nobody looks, and while passes are quick."""

import io
import sys

import pytest

from credibly.data.progress import QUIET, RowProgress, text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def one_pass(progress: RowProgress, clock: Clock, seconds: float, steps: int = 10) -> None:
    with progress.one_pass(1000) as advance:
        for _ in range(steps):
            clock.now += seconds / steps
            advance(1000 // steps)


def test_a_slow_pass_on_a_terminal_is_shown_and_wiped():
    stream, clock = Terminal(), Clock()
    one_pass(RowProgress(None, stream, clock), clock, 20.0)
    lines = stream.getvalue().split("\r")
    assert "pass 1 [██" in lines[1]
    assert "200 of 1,000 rows, 50 rows/s, 16 s left" in stream.getvalue()
    assert lines[-1] == "" and lines[-2].strip() == ""
    assert len(lines[-2]) >= len(lines[-3].rstrip())


def test_passes_are_counted_also_where_they_are_not_shown():
    stream, clock = Terminal(), Clock()
    progress = RowProgress(None, stream, clock)
    one_pass(progress, clock, 0.9 * QUIET)
    assert stream.getvalue() == ""
    one_pass(progress, clock, 9.0)
    assert "pass 2 [" in stream.getvalue()
    assert progress.passes == 2


@pytest.mark.parametrize(
    ("shown", "stream", "seen"), [(None, io.StringIO, 0), (False, Terminal, 0), (True, io.StringIO, 1)]
)
def test_elsewhere_it_is_silent_unless_asked_for(shown, stream, seen):
    where, clock = stream(), Clock()
    one_pass(RowProgress(shown, where, clock), clock, 20.0)
    assert bool(where.getvalue()) == bool(seen)


def test_a_program_without_an_error_stream(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    clock = Clock()
    one_pass(RowProgress(True, None, clock), clock, 20.0)


def test_updates_are_paced():
    stream, clock = Terminal(), Clock()
    one_pass(RowProgress(None, stream, clock), clock, 2.0, steps=1000)
    assert stream.getvalue().count("pass 1") <= 7  # one second, five times a second, and the edges


def test_an_error_wipes_the_line():
    stream, clock = Terminal(), Clock()
    with pytest.raises(KeyError), RowProgress(None, stream, clock).one_pass(10) as advance:
        clock.now += 5.0
        advance(1)
        raise KeyError
    assert stream.getvalue().endswith("\r")


@pytest.mark.parametrize(
    ("seconds", "left"), [(10.0, "10 s left"), (150.0, "2 min 30 s left"), (3 * 3600.0, "3 h 00 min left")]
)
def test_the_time_left_is_readable(seconds, left):
    assert text(1, 50, 100, seconds).endswith(left)


@pytest.mark.parametrize("width", [79, 70, 60, 40])
def test_on_a_narrow_screen_the_bar_goes_before_the_time_left(width):
    line = text(1, 800_000, 1_600_000, 1.3, width)
    assert len(line) <= width
    if width >= 60:
        assert line.endswith("615,385 rows/s, 1 s left")
    assert ("[" in line) == (width > 64)
