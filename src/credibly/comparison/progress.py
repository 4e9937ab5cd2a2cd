"""A line on a terminal that says how far a long piece of work is; silent elsewhere, and while work is quick."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self, TextIO

QUIET = 1.0  # seconds before anything is shown
PACE = 0.5  # seconds between updates
WIDTH = 24


class Progress:
    """Shows `done` of `total` on the error stream while it is entered, and wipes the line at the end."""

    def __init__(self, total: int, what: str, stream: TextIO | None = None) -> None:
        self.total, self.what = total, what
        self.done = 0
        self._stream = sys.stderr if stream is None else stream
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._stream is not None and self._stream.isatty():  # a windowed program has no error stream
            self._start = time.monotonic()
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        shown = 0
        pause = QUIET
        while not self._ended.wait(pause):
            full = WIDTH * self.done // self.total
            seconds = time.monotonic() - self._start
            left = f", about {seconds * (self.total / self.done - 1):.0f} s left" if self.done else ""
            line = (
                f"[{'█' * full}{'·' * (WIDTH - full)}] {self.done} of {self.total} {self.what}, {seconds:.0f} s{left}"
            )
            line = line.ljust(shown)  # so that a shorter line wipes a longer one
            self._stream.write(f"\r{line}")
            self._stream.flush()
            shown, pause = len(line), PACE
        if shown:
            self._stream.write(f"\r{' ' * shown}\r")
            self._stream.flush()
