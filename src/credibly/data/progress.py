"""One progress bar for everything that may take long; it never mixes with results."""

import sys
from typing import Any

from tqdm import tqdm

DELAY = 1.0  # seconds before anything is shown
TERMINAL_INTERVAL = 0.2  # seconds between updates on a terminal
LOG_INTERVAL = 30.0  # seconds between lines where nobody watches: in a log


class Progress(tqdm):  # type: ignore[type-arg]
    """A bar on the error stream: shown once work has taken a second, gone at its end.

    Parameters
    ----------
    total : int or None
        None: work of unknown length, of which a terminal shows only what it is.
    what : str
    unit : str
    shown : bool or None
        None: on a terminal only. True: elsewhere, too, as a line every half minute. False: never.

    Examples
    --------
    >>> with Progress(3, "reading", " files", shown=False) as bar:
    ...     for _ in range(3):
    ...         _ = bar.update()
    """

    monitor_interval = 0  # no thread that looks after slow bars: a process that forks should have none

    def __init__(self, total: int | None, what: str, unit: str = "", shown: bool | None = None) -> None:
        stream: Any = sys.stderr  # None in a windowed program
        watched = stream is not None and stream.isatty()
        hidden = stream is None or shown is False or (not watched and (shown is None or total is None))
        super().__init__(
            total=total,
            desc=what,
            unit=unit,
            unit_scale=True,
            file=stream,
            disable=hidden,
            leave=False,
            delay=0 if total is None else DELAY if watched else LOG_INTERVAL,
            mininterval=TERMINAL_INTERVAL if watched else LOG_INTERVAL,
            miniters=1,
            dynamic_ncols=True,
            bar_format="{desc} …" if total is None else None,
        )

    def reach(self, done: float, total: float) -> None:
        """Show that so much of so much is done."""
        self.total = total
        self.update(done - self.n)
