"""Blocks of rows on a thread pool, with BLAS held at one thread each.

NumPy releases the interpreter lock, so element-wise work and products scale over threads that each own a block in
their cache. BLAS's own threads split every small product instead, and collapse when another process is busy.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from time import sleep
from typing import Generic, NamedTuple, Protocol, TypeVar

from threadpoolctl import ThreadpoolController

A_MOMENT = 1e-4  # seconds
WAITING_PER_THREAD = 4  # results held at a time: enough that no thread idles, few enough for memory

Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def blas_counts() -> dict[str, int]:
    """How many threads every BLAS that is loaded may use, by its file."""
    return {
        library.filepath: library.num_threads for library in _controller().lib_controllers if library.user_api == "blas"
    }


def set_blas_counts(counts: Mapping[str, int]) -> None:
    """Let every BLAS use so many threads."""
    for library in _controller().lib_controllers:
        if library.filepath in counts:
            library.set_num_threads(counts[library.filepath])
            # Since 3.8 threadpoolctl obeys only the thread that set a number first; here another may give it back.
            release = getattr(library, "clear_controlling_thread", None)
            if release is not None:
                release()


def _most(counts: Mapping[str, int]) -> int:
    """The largest of these numbers of threads; without a BLAS, one for each core."""
    return max(counts.values()) if counts else os.cpu_count() or 1


class _Entry:
    """One entry of one thread, which may have several."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()


class _SingleThreadedBlas:
    """Holds BLAS at one thread, for the whole process, from when the first enters until the last has left.

    Those who enter meanwhile only sign in: were each to restore what it found, the last of overlapping fits would leave
    BLAS at one thread for good.
    """

    def __init__(self) -> None:
        self._inside: list[_Entry] = []
        self._found: dict[str, int] = {}
        self.forget()

    def forget(self) -> None:
        """In a forked child only the thread that forked lives on; it has one thread, as it had inside."""
        self._lock = threading.Lock()
        self._inside = [entry for entry in self._inside if entry.thread == threading.get_ident()]
        self._allowed = 1

    @contextmanager
    def __call__(self) -> Iterator[None]:
        entry = _Entry()
        try:
            self._enter(entry)
            yield
        finally:
            try:
                self._leave(entry)
            finally:  # Ctrl-C may have come on the way; to leave twice changes nothing
                self._leave(entry)

    def _enter(self, entry: "_Entry") -> None:
        with self._lock:
            if not self._inside:
                self._found = blas_counts()
                self._allowed = _most(self._found)
                self._inside.append(entry)  # first, so that whoever is stopped on the next line gives back
                set_blas_counts(dict.fromkeys(self._found, 1))
            else:
                self._inside.append(entry)

    def _leave(self, entry: "_Entry") -> None:
        with self._lock:
            if entry in self._inside:
                self._inside.remove(entry)
            if not self._inside and self._found:
                self._give_back()

    def _give_back(self) -> None:
        """Restore what is as we left it: what somebody else has set meanwhile is theirs to restore."""
        now = blas_counts()
        set_blas_counts({file: count for file, count in self._found.items() if now.get(file) == 1})
        self._found = {}

    @property
    def allowed(self) -> int:
        """How many threads BLAS may use outside."""
        with self._lock:
            return self._allowed if self._inside else _most(blas_counts())


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


THREAD = Path("/proc/thread-self/stat")  # on Linux; what it says of the thread that reads it
PROCESSOR = 36  # where the processor stands among the fields after the name


def _processor_here() -> int | None:
    """On which processor the calling thread runs, where others can be kept off it."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    try:
        return int(THREAD.read_bytes().rpartition(b")")[2].split()[PROCESSOR])
    except (OSError, ValueError, IndexError):  # a sandbox without /proc, or with one of its own
        return None


class _Pool:
    """Threads for the life of the process: starting them costs as much as a pass over a small table.

    Before they are woken they are kept off the processor of whoever wakes them. Linux likes to put them there, above
    all in virtual machines, where an idle processor looks like one that the host has taken away; the two then share
    one for some milliseconds.

    Not those of `concurrent.futures`: Ctrl-C at a wrong moment leaves a lock of a Future held for good, and with it a
    thread, for which the interpreter then waits at its end. A `SimpleQueue` has none.
    """

    def __init__(self, threads: int) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._to_start, self._starting = threads, threading.Lock()
        self._numbers: list[int] = []  # of the threads, as the system knows them
        self._allowed: set[int] = set()  # processors that all of them were last told to use
        self._told = 0  # how many were

    def submit(self, work: Callable[[], None]) -> None:
        """Have some work, which raises nothing, done by one of the threads."""
        with self._starting:
            while self._to_start:
                self._to_start -= 1
                threading.Thread(target=self._serve, name="credibly", daemon=True).start()
        self._make_way()
        self._work.put(work)

    def _serve(self) -> None:
        self._numbers.append(threading.get_native_id())
        while True:
            self._work.get()()

    def _make_way(self) -> None:
        """Keep the threads off the processor of the caller, if it may use another."""
        here = _processor_here()
        others = set() if here is None else os.sched_getaffinity(0) - {here}
        if not others or (others == self._allowed and self._told == len(self._numbers)):
            return
        self._allowed, self._told = others, len(self._numbers)
        with suppress(OSError):  # a sandbox that forbids it: only slower
            for number in self._numbers[: self._told]:
                os.sched_setaffinity(number, others)


@cache
def _pool(threads: int) -> _Pool:
    return _Pool(threads)


def _start_anew() -> None:
    """A forked child has the pool but not its threads, and perhaps a lock that a thread of its parent held."""
    _pool.cache_clear()
    single_threaded_blas.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def in_order(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> Iterator[Result]:
    """work(item) for every item, computed on threads, handed out in order, few of them waiting at a time.

    The caller is one of the threads: while an item is not done it takes up a later one. So a thread that another
    process keeps from running costs no more than the item it holds.
    """
    if threads == 1 or len(items) == 1:
        yield from map(work, items)
        return
    crew = _Crew(work, items, WAITING_PER_THREAD * threads)
    try:
        for _ in items:
            crew.ask_for_help(min(threads, len(items)) - 1, threads - 1)
            yield crew.next_result()
    finally:
        crew.stop()  # after an error or Ctrl-C: do not start what nobody will read


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


class _Crew(Generic[Item, Result]):
    """Items that a caller and its helpers take up one after the other, each when it has done the one before.

    A helper is handed to the pool once, not once for every item: that would take as long as a small block.
    """

    def __init__(self, work: Callable[[Item], Result], items: Sequence[Item], ahead: int) -> None:
        self._work, self._items, self._ahead = work, items, ahead
        self._begun = self._handed = 0  # items taken up, results handed out
        self._outcomes: dict[int, Outcome[Result]] = {}  # the caller's
        self._by_helpers: SimpleQueue[tuple[int, Outcome[Result]]] = SimpleQueue()
        self._came = self._gone = 0  # helpers
        self._lock = threading.Lock()  # not a Condition, whose own functions Ctrl-C may leave half done

    def ask_for_help(self, wanted: int, pool: int) -> None:
        """Have so many helpers at work, if there is anything left to begin; they leave where too much is waiting."""
        while self._begun < len(self._items) and self._came - self._gone < wanted:
            self._came += 1
            _pool(pool).submit(self._help)

    def next_result(self) -> Result:
        """The result of the first item that was not handed out; until it is there, later ones are computed."""
        index = self._handed
        while index not in self._outcomes:
            mine = self._taken()
            if mine is not None:
                self._outcomes[mine] = self._computed(mine, Exception)  # Ctrl-C is not kept for later
            if mine is None or not self._by_helpers.empty():
                self._outcomes.update([self._by_helpers.get()])
        with self._lock:
            self._handed += 1
        return self._outcomes.pop(index).result()

    def stop(self) -> None:
        """Begin nothing more."""
        with self._lock:
            self._begun = len(self._items)

    def _help(self) -> None:
        while (index := self._taken()) is not None:
            self._by_helpers.put((index, self._computed(index, BaseException)))
        with self._lock:
            self._gone += 1

    def _taken(self) -> int | None:
        """The next item that nobody has begun; None if there is none, or too many results are waiting."""
        with self._lock:
            if self._begun >= min(len(self._items), self._handed + self._ahead):
                return None
            self._begun += 1
            return self._begun - 1

    def _computed(self, index: int, kept: type[BaseException]) -> Outcome[Result]:
        return Outcome.of(lambda: self._work(self._items[index]), kept)


class Shared(Protocol):
    """Work in passes, each in parts that any number of threads take up."""

    @property
    def count(self) -> int:
        """Number of parts."""

    def some(self) -> bool:
        """Do some parts that nobody has begun; whether there may be more."""

    def attend(self) -> None:
        """Do parts that nobody has begun, of this pass and of those that follow soon."""

    @property
    def gone(self) -> int:
        """How many of those who attended have gone again."""

    def ended(self) -> bool:
        """Whether all are done; waits for others, but not for long."""

    def stop(self) -> None:
        """Begin nothing more."""


class Helpers:
    """Threads that help with some work, and stay with it from one pass to the next while those follow closely.

    Nobody is waited for who has not begun: on a busy machine the caller does it all.
    """

    def __init__(self, work: Shared, threads: int) -> None:
        self._work, self._wanted, self._threads = work, min(threads, work.count) - 1, threads
        self._came = 0  # or are on their way
        self._errors: list[BaseException] = []

    def finish(self) -> None:
        """All parts of a pass that was begun, done by the caller and whoever helps."""
        work = self._work
        try:
            while self._came - work.gone < self._wanted:
                self._came += 1
                _pool(self._threads - 1).submit(self._help)
            while work.some():
                pass
            while not work.ended():
                if self._errors:
                    raise self._errors.pop()
                sleep(A_MOMENT)
        except BaseException:  # Ctrl-C, too: do not begin what nobody will read
            work.stop()
            self._came = 0
            raise

    def _help(self) -> None:
        try:
            self._work.attend()
        except BaseException as error:  # told to the caller
            self._errors.append(error)
