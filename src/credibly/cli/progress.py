"""Bars and spinners on the error stream: only on a terminal, gone at the end, so that they never mix with results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from credibly.cli.printable import printable

WHAT = TextColumn("{task.description}", markup=False)  # names of files may look like rich's own markup


def _shown(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """A spinner with the time, for work of unknown length."""
    columns = (SpinnerColumn(), WHAT, TimeElapsedColumn())
    with _shown(*columns) as progress:
        progress.add_task(printable(what), total=None)
        yield


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time left; it is told how much of how much is done."""
    columns = (
        WHAT,
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with _shown(*columns) as progress:
        task = progress.add_task(printable(what), total=None)

        def update(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield update
