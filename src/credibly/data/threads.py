"""Blocks of rows on a thread pool, with BLAS held at one thread each.

NumPy releases the interpreter lock, so element-wise work and products scale over threads that each own a block in
their cache. BLAS's own threads split every small product instead, and collapse when another process is busy.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
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
    """Holds BLAS at one thread, for the whole process, from when a thread enters until that same thread leaves.

    Threads that enter meanwhile change nothing: were each to restore what it found, the last of overlapping fits would
    leave BLAS at one thread for good. (After the first has left, the others run on, with BLAS's own threads.)
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nobody is inside."""
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._allowed = 1

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            owning = self._owner is None
            if owning:
                self._owner, self._allowed = threading.get_ident(), _blas_threads()
        if not owning:
            yield
            return
        try:
            with _controller().limit(limits=1, user_api="blas"):
                yield
        finally:
            with self._lock:
                self._owner = None

    @property
    def allowed(self) -> int:
        """How many threads BLAS may use outside."""
        with self._lock:
            return _blas_threads() if self._owner is None else self._allowed


single_threaded_blas = _SingleThreadedBlas()


FEW_ROWS = 1500  # below that its own threads bring little, and cost much where another process is busy


@contextmanager
def blas_threads(n_rows: int, threads: int | None) -> Iterator[None]:
    """BLAS on so many threads while n × n matrices are factorised; None: as many as it may, one for few rows."""
    if threads is None and n_rows < FEW_ROWS:
        with single_threaded_blas():
            yield
    elif threads is None:
        yield
    else:
        with _controller().limit(limits=threads, user_api="blas"):
            yield


def default_threads() -> int:
    """As many threads as BLAS was allowed: so nested parallelism (joblib, OMP_NUM_THREADS) is respected."""
    return single_threaded_blas.allowed


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """One pool for the life of the process: starting threads costs as much as a pass over a small table."""
    return ThreadPoolExecutor(threads, thread_name_prefix="credibly")


def _start_anew() -> None:
    """A forked child has the pool but not its threads, and perhaps a lock that a thread of its parent held."""
    _pool.cache_clear()
    single_threaded_blas.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


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
