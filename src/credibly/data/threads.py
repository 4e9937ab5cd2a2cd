"""Blocks of rows on a thread pool, with BLAS held at one thread each.

NumPy releases the interpreter lock, so element-wise work and products scale over threads that each own a block in
their cache. BLAS's own threads split every small product instead, and collapse when another process is busy.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

WAITING_PER_THREAD = 4  # results held at a time: enough that no thread idles, few enough for memory

Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def _blas_threads() -> int:
    counts = [library.num_threads for library in _controller().lib_controllers if library.user_api == "blas"]
    return max(counts, default=os.cpu_count() or 1)


class _SingleThreadedBlas:
    """Holds BLAS at one thread while anybody is inside; counted, so that overlapping fits restore it rightly."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._allowed = 1
        self._limit: AbstractContextManager[object] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @property
    def allowed(self) -> int:
        """How many threads BLAS may use outside."""
        with self._lock:
            return self._allowed if self._inside else _blas_threads()

    def _enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._allowed = _blas_threads()
                self._limit = _controller().limit(limits=1, user_api="blas")

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._limit is not None:
                self._limit.__exit__(None, None, None)
                self._limit = None


single_threaded_blas = _SingleThreadedBlas()


def default_threads() -> int:
    """As many threads as BLAS was allowed: so nested parallelism (joblib, OMP_NUM_THREADS) is respected."""
    return single_threaded_blas.allowed


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """One pool for the life of the process: starting threads costs as much as a pass over a small table."""
    return ThreadPoolExecutor(threads, thread_name_prefix="credibly")


if hasattr(os, "register_at_fork"):  # a forked child has the pool but not its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def in_order(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> Iterator[Result]:
    """work(item) for every item, computed on threads, handed out in order, few of them waiting at a time."""
    if threads == 1 or len(items) == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(_pool(threads).submit(work, item))
            if len(waiting) >= WAITING_PER_THREAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:  # after an error or Ctrl-C: do not start what nobody will read
            future.cancel()
