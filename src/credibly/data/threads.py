"""Work on a pool of threads, with BLAS held at one thread each.

NumPy releases the interpreter lock, so element-wise work and products scale over threads that each own a block in
their cache. BLAS's own threads split every small product instead, and collapse when another process is busy.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import cache
from typing import NamedTuple, TypeVar

from threadpoolctl import LibController, ThreadpoolController

WAITING_PER_THREAD = 2  # results held at a time: enough that no thread idles, few enough for memory
# Of an n × n matrix. Measured: a second thread of BLAS takes a third off a Cholesky factor of 1,500 to 4,000 rows on an
# idle machine, and on a busy one makes it ten times slower.
FEW_ROWS = 3000

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


class _Request(NamedTuple):
    """A number of threads that somebody inside wants BLAS to have."""

    threads: int
    limit: bool  # True where a user allows no more; False where one thread of ours computes beside others
    thread: int  # who asks


class _HeldBlas:
    """Holds BLAS at a number of threads, for the whole process: that of whoever entered last and is still inside.

    The last to leave restores what was before the first. Were each to restore what it found, the last of overlapping
    fits would leave BLAS at the number of another for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[object, _Request] = {}  # of all inside, in the order in which they entered
        self._before: list[int] = []  # threads of every library before the first entered
        self._set: list[int] = []  # threads of every library as set here last

    @contextmanager
    def __call__(self, threads: int = 1, *, limit: bool = False) -> Iterator[None]:
        key = object()
        try:
            with self._lock:
                self._enter(key, _Request(threads, limit, threading.get_ident()))
            yield
        finally:
            try:
                self._leave(key)
            finally:  # Ctrl-C may have come on the way
                self._leave(key)

    def _enter(self, key: object, request: _Request) -> None:
        libraries = _blas().lib_controllers
        if not self._requests:
            self._before = [library.num_threads for library in libraries]
            self._set = list(self._before)
        elif self._last.threads == request.threads:  # a pass within a fit: nothing to set
            self._requests[key] = request
            return
        self._requests[key] = request
        for k, library in enumerate(libraries):
            _set_threads(library, request.threads)
            self._set[k] = library.num_threads  # which may be fewer: a library has a largest number

    def _leave(self, key: object) -> None:
        """Set what the last of the others inside wants, or what was before; nothing for one who has left already."""
        with self._lock:
            if key not in self._requests:
                return
            last, ours = self._last, {it.threads for it in self._requests.values()}
            others = [it for other, it in self._requests.items() if other is not key]
            if not others or others[-1].threads != last.threads:
                for k, library in enumerate(_blas().lib_controllers):
                    if library.num_threads in {*ours, self._set[k]}:  # what somebody else has set is theirs to restore
                        _set_threads(library, others[-1].threads if others else self._before[k])
                        self._set[k] = library.num_threads
            del self._requests[key]

    @property
    def _last(self) -> _Request:
        """What whoever entered last and is still inside wants."""
        return next(reversed(self._requests.values()))

    def after_fork(self) -> None:
        """In a forked child only the thread that forked lives on."""
        self._lock, here = threading.Lock(), threading.get_ident()
        self._requests = {key: it for key, it in self._requests.items() if it.thread == here}

    @property
    def allowed(self) -> int:
        """Threads that BLAS may use outside, or that a user allows inside; without a BLAS, one for each core."""
        with self._lock:
            limits = [it.threads for it in self._requests.values() if it.limit]
            if limits:
                return limits[-1]
            held = self._before if self._requests else [library.num_threads for library in _blas().lib_controllers]
            return max(held) if held else os.cpu_count() or 1


_held = _HeldBlas()


def single_threaded_blas() -> AbstractContextManager[None]:
    """BLAS on one thread: others compute beside it, each with a block of rows."""
    return _held()


@contextmanager
def blas_threads(n_rows: int, threads: int | None) -> Iterator[None]:
    """BLAS on so many threads while n × n matrices are factorized; None: as many as it may, one for few rows."""
    if threads is not None:
        with _held(threads, limit=True):
            yield
    elif n_rows < FEW_ROWS:
        with single_threaded_blas():
            yield
    else:
        yield


def default_threads() -> int:
    """As many threads as BLAS was allowed: so nested parallelism (n_jobs, OMP_NUM_THREADS) is respected."""
    return _held.allowed


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
    _held.after_fork()


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


def interruptible(work: Callable[[], Result]) -> Result:
    """work(), a call of many seconds that has no side effects, on a thread of the pool.

    Python sees Ctrl-C between two calls only. The thread that asks merely waits, a tenth of a second at a time, which
    Ctrl-C ends; the call goes on unheard.
    """
    if getattr(_thread, "in_pool", False):
        return work()
    future = _pool(default_threads()).submit(copy_context().run, work)
    while not wait([future], timeout=0.1).done:
        pass
    return future.result()
