"""Work on a pool of threads, with BLAS held at one thread each.

NumPy releases the interpreter lock, so element-wise work and products scale over threads that each own a block in
their cache. BLAS's own threads split every small product instead, and collapse when another process is busy.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import TypeVar

from threadpoolctl import LibController, ThreadpoolController

WAITING_PER_THREAD = 2  # results held at a time: enough that no thread idles, few enough for memory
FEW_ROWS = 1500  # of an n × n matrix: below that BLAS's threads bring little, and cost much on a busy machine

Item = TypeVar("Item")
Result = TypeVar("Result")


# --- BLAS -----------------------------------------------------------------------------------------


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _set_threads(library: LibController, threads: int) -> None:
    library.set_num_threads(threads)
    # Since 3.8 threadpoolctl obeys only the thread that set a number first; here another one may restore it.
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release()


class _SingleThreadedBlas:
    """Holds BLAS at one thread, for the whole process, from when the first enters until the last has left.

    Entries are counted: were each to restore what it found, the last of overlapping fits would leave BLAS at one
    thread for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = threading.local()  # how often this thread has
        self._count = 0
        self._before: list[int] = []  # threads of every library before the first entered

    @contextmanager
    def __call__(self) -> Iterator[None]:
        libraries = _blas().lib_controllers
        with self._lock:
            if self._count == 0:
                self._before = [library.num_threads for library in libraries]
                for library in libraries:
                    _set_threads(library, 1)
            self._count += 1
        self._entered.times = self._times + 1
        try:
            yield
        finally:
            self._entered.times -= 1
            with self._lock:
                self._count -= 1
                if self._count == 0:
                    for library, threads in zip(libraries, self._before, strict=True):
                        if library.num_threads == 1:  # what somebody else has set meanwhile is theirs to restore
                            _set_threads(library, threads)

    @property
    def _times(self) -> int:
        return getattr(self._entered, "times", 0)

    def after_fork(self) -> None:
        """In a forked child only the thread that forked lives on."""
        self._lock, self._count = threading.Lock(), self._times

    @property
    def allowed(self) -> int:
        """How many threads BLAS may use outside; without a BLAS, one for each core."""
        with self._lock:
            counts = self._before if self._count else [library.num_threads for library in _blas().lib_controllers]
            return max(counts) if counts else os.cpu_count() or 1


single_threaded_blas = _SingleThreadedBlas()


@contextmanager
def blas_threads(n_rows: int, threads: int | None) -> Iterator[None]:
    """BLAS on so many threads while n × n matrices are factorised; None: as many as it may, one for few rows."""
    if threads is None and n_rows < FEW_ROWS:
        with single_threaded_blas():
            yield
    elif threads is None:
        yield
    else:
        with _blas().limit(limits=threads):
            yield


def default_threads() -> int:
    """As many threads as BLAS was allowed: so nested parallelism (n_jobs, OMP_NUM_THREADS) is respected."""
    return single_threaded_blas.allowed


# --- the pool -------------------------------------------------------------------------------------

_thread = threading.local()


def _mark_thread() -> None:
    _thread.in_pool = True


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads for the life of the process: starting them costs as much as a pass over a small table."""
    return ThreadPoolExecutor(threads, thread_name_prefix="credibly", initializer=_mark_thread)


def _after_fork() -> None:
    """A forked child has the pool but not its threads."""
    _pool.cache_clear()
    _thread.in_pool = False
    single_threaded_blas.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def in_order(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Generator[Result, None, None]:
    """work(item) for every item, computed on threads, handed out in order, few of them waiting at a time.

    After an error, or Ctrl-C, nothing new is begun, and what is at work is waited for: nothing runs on once the caller
    has left. Work that itself asks for threads is done on the one it has: a pool that waits for itself waits for ever.

    Examples
    --------
    >>> list(in_order(lambda number: number**2, range(5), threads=2))
    [0, 1, 4, 9, 16]
    """
    alone = isinstance(items, list | range) and len(items) == 1
    if threads == 1 or alone or getattr(_thread, "in_pool", False):
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            # a copy of the context, so that NumPy's settings for floating-point errors hold there too
            waiting.append(_pool(threads).submit(copy_context().run, work, item))
            if len(waiting) == WAITING_PER_THREAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        wait(waiting)
