"""Work that waits for a disk and computes in turn, on threads that live for one pass.

One thread more than may compute takes up the next piece, so that reading and decoding overlap with computing. When a
pass ends, by an error or by Ctrl-C too, its threads end with it.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stopped(Exception):
    """The pass has ended, and nobody will read what this thread would compute."""


class Crew:
    """The threads of one pass, of which so many compute at a time.

    Parameters
    ----------
    threads : int

    Examples
    --------
    >>> def work(number: int) -> int:
    ...     with crew.computing():
    ...         return number**2
    >>> crew = Crew(2)
    >>> list(crew.in_order(work, range(5)))
    [0, 1, 4, 9, 16]
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._permits = threading.Semaphore(threads)
        self._stopped = threading.Event()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """What a thread computes, as opposed to what it reads."""
        with self._permits:
            if self._stopped.is_set():
                raise Stopped
            yield

    def in_order(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
        """work(item) for every item, handed out in order; at most two per thread are begun and not yet handed out."""
        pool = ThreadPoolExecutor(self.threads + 1, thread_name_prefix="credibly-pass")
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                # a copy of the context, so that NumPy's settings for floating-point errors hold there too
                waiting.append(pool.submit(copy_context().run, work, item))
                if len(waiting) == 2 * self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            self._stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)


def one_ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """The same items, the next of them made on a thread while the last is used.

    Examples
    --------
    >>> list(one_ahead(number**2 for number in range(4)))
    [0, 1, 4, 9]
    """
    end = object()

    def following() -> object:
        return next(items, end)

    there = copy_context()  # one for all items: what the iterator sets in it, it sets back in it
    with ThreadPoolExecutor(1, thread_name_prefix="credibly-pass") as pool:
        try:
            coming = pool.submit(there.run, following)
            while (item := coming.result()) is not end:
                coming = pool.submit(there.run, following)
                yield item  # type: ignore[misc]
        finally:
            coming.cancel()
            pool.submit(there.run, items.close).result()
