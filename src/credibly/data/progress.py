"""A line on a terminal that says how far a pass over many rows is; silent elsewhere, and while passes are quick."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

QUIET = 1.0  # seconds of a pass before anything is shown
PACE = 0.2  # seconds between updates
WIDTH = 24

Advance = Callable[[int], None]


class RowProgress:
    """Shows rows done, their rate and the time left of every pass, and wipes the line at its end.

    Parameters
    ----------
    shown : bool or None, default None
        None: on a terminal only.
    stream : text stream, default: the error stream
    clock : function that tells seconds
    """

    def __init__(
        self, shown: bool | None = None, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shown, self._stream, self._clock = shown, stream, clock
        self._lock = threading.Lock()
        self.passes = 0

    @contextmanager
    def one_pass(self, total: int) -> Iterator[Advance]:
        """A pass over so many rows; it is told how many more are done."""
        with self._lock:
            self.passes += 1
            number = self.passes
        stream = sys.stderr if self._stream is None else self._stream
        if stream is None or not (_is_terminal(stream) if self._shown is None else self._shown):
            yield lambda rows: None  # a windowed program has no error stream
            return
        line = _Line(stream, number, total, self._clock)
        try:
            yield line.advance
        finally:
            line.wipe()


def _is_terminal(stream: TextIO) -> bool:
    return hasattr(stream, "isatty") and stream.isatty()


class _Line:
    """What is on the screen of one pass."""

    def __init__(self, stream: TextIO, number: int, total: int, clock: Callable[[], float]) -> None:
        self._stream, self._number, self._total, self._clock = stream, number, total, clock
        self._start = clock()
        self._next = self._start + QUIET
        self._done = self._length = 0

    def advance(self, rows: int) -> None:
        """So many rows more are done."""
        self._done += rows
        now = self._clock()
        if now < self._next:
            return
        self._next = now + PACE
        width = shutil.get_terminal_size().columns - 1
        self._write(text(self._number, self._done, self._total, now - self._start, width))

    def wipe(self) -> None:
        """Leave an empty line."""
        if self._length:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()

    def _write(self, line: str) -> None:
        self._stream.write(f"\r{line.ljust(self._length)}")  # so that a shorter line wipes a longer one
        self._stream.flush()
        self._length = len(line)


def text(number: int, done: int, total: int, seconds: float, width: int = 120) -> str:
    """The line; on a narrow screen the bar gets shorter, and goes before the time that is left does.

    Examples
    --------
    >>> text(2, 250_000, 1_000_000, 2.0)
    'pass 2 [██████··················] 250,000 of 1,000,000 rows, 125,000 rows/s, 6 s left'
    """
    rate = done / seconds
    left = f", {_duration((total - done) / rate)} left" if done else ""
    head, tail = f"pass {number} ", f"{done:,} of {total:,} rows, {rate:,.0f} rows/s{left}"
    size = min(WIDTH, width - len(head) - len("[] ") - len(tail))
    full = size * done // max(1, total)
    bar = f"[{'█' * full}{'·' * (size - full)}] " if size > 0 else ""
    return f"{head}{bar}{tail}"[:width]


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
