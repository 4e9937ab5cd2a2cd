"""Work that waits for a disk and computes in turn, on threads that live for one pass.

One thread more than may compute takes up the next piece, so that reading and decoding overlap with computing. When a
pass ends, by an error or by Ctrl-C too, its threads end with it.
"""

import _thread
import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from inspect import GEN_RUNNING, getgeneratorstate
from itertools import repeat
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Outcome(NamedTuple, Generic[Result]):
    """What came of some work that another thread did."""

    value: Result | None
    error: BaseException | None

    @classmethod
    def of(cls, work: Callable[[], Result], kept: type[BaseException]) -> "Outcome[Result]":
        """Do the work; an error of this kind is kept for whoever asks for the result."""
        try:
            return Outcome(work(), None)
        except kept as error:
            return Outcome(None, error)

    def result(self) -> Result:
        """The value, or the error."""
        try:
            if self.error is not None:
                raise self.error
            return self.value  # type: ignore[return-value]
        finally:
            del self  # or the error would hold on to itself, and to all that is in its frames


class Stopped(Exception):
    """The pass has ended, and nobody will read what this thread would compute."""


class Crew:
    """The threads of one pass, of which so many compute at a time.

    Neither those of `concurrent.futures`, which Ctrl-C may leave waiting for good, as may `Thread.start`, nor those of
    the pool in `threads`: of those there may be none left for a pass within a pass.

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
        self._permits = threading.Semaphore(threads)  # taken by threads of the pass alone, where Ctrl-C does not come
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._at_work: list[threading.Lock] = []  # one for each thread that has begun, held until it ends
        self._stopped, self._process = False, os.getpid()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """What a thread computes, as opposed to what it reads."""
        with self._permits:
            if self._stopped:
                raise Stopped
            yield

    def in_order(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
        """work(item) for every item, handed out in order; at most two per thread are begun and not yet handed out."""
        # a copy of the context, so that NumPy's settings for floating-point errors hold there too
        return self._made((partial(copy_context().run, work, item) for item in items), self.threads + 1)

    def _made(self, calls: Iterable[Callable[[], Result]], threads: int) -> Generator[Result, None, None]:
        waiting: deque[SimpleQueue[Outcome[Result]]] = deque()
        try:
            atexit.register(self._end)  # of a pass that is left as it is: later, nobody can be waited for
            # No `if` or `while` ends a loop here: Python 3.13 would look for Ctrl-C beyond `finally` (gh-130279).
            for outcome in self._begun(calls, threads, waiting):
                yield self._result(outcome)
        finally:
            try:
                self._end()
            finally:  # Ctrl-C may have come on the way; to end twice changes nothing
                self._end()
                atexit.unregister(self._end)
                for outcome in waiting:  # an error in it would hold on to itself by the frames of its thread
                    if not outcome.empty():
                        outcome.get()

    def _begun(
        self, calls: Iterable[Callable[[], Result]], threads: int, waiting: deque[SimpleQueue[Outcome[Result]]]
    ) -> Iterator[SimpleQueue[Outcome[Result]]]:
        """Where the outcomes will be; enough calls are begun when one is handed out."""
        for call in calls:
            waiting.append(self._submit(call))
            if threads:
                threads -= 1
                _thread.start_new_thread(self._serve, ())
            if len(waiting) == 2 * self.threads:
                yield waiting.popleft()
        yield from waiting

    def _submit(self, call: Callable[[], Result]) -> SimpleQueue[Outcome[Result]]:
        outcome: SimpleQueue[Outcome[Result]] = SimpleQueue()
        self._calls.put(lambda: outcome.put(Outcome.of(call, BaseException)))
        return outcome

    def _result(self, outcome: SimpleQueue[Outcome[Result]]) -> Result:
        if os.getpid() != self._process:
            raise RuntimeError("A forked process cannot go on with a pass of its parent; begin one of its own there.")
        return outcome.get().result()

    def _serve(self) -> None:
        sys.settrace(threading.gettrace())  # as in every Thread: for debuggers, and whoever counts lines
        with (at_work := threading.Lock()):
            self._at_work.append(at_work)
            while (call := self._calls.get()) is not None and not self._stopped:
                call()

    def _end(self) -> None:
        """Begin nothing more, and wait for those at work; a forked child has none."""
        self._stopped = True
        for _ in range(self.threads + 1):
            self._calls.put(None)
        if os.getpid() == self._process:
            for at_work in self._at_work:
                with at_work:
                    pass


def one_ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """The same items, the next of them made on a thread while the last is used.

    Examples
    --------
    >>> list(one_ahead(number**2 for number in range(4)))
    [0, 1, 4, 9]
    """
    end = object()
    there = copy_context()  # one for all items: what the iterator sets in it, it sets back in it
    made = Crew(1)._made(repeat(partial(there.run, next, items, end)), 1)
    try:
        for item in made:
            if item is end:
                return
            yield item  # type: ignore[misc]
    finally:
        try:
            made.close()
        finally:
            if getgeneratorstate(items) != GEN_RUNNING:  # as in a forked child, or where Ctrl-C was pressed twice
                there.run(items.close)
