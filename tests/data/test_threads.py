"""Threads, BLAS and processes: what is borrowed is given back, and nothing waits for ever."""

import multiprocessing
import os
import signal
import threading
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from credibly import BayesianLogisticRegression, Normal
from credibly.data import threads
from credibly.data.threads import (
    WAITING_PER_THREAD,
    Helpers,
    _Pool,
    blas_counts,
    default_threads,
    in_order,
    set_blas_counts,
    single_threaded_blas,
)
from helpers import ended

HERE = 3  # threads of BLAS while these tests run, on any machine: one cannot be told from one


@pytest.fixture(autouse=True)
def several():
    before = blas_counts()
    set_blas_counts(dict.fromkeys(before, HERE))
    yield
    assert set(blas_counts().values()) == {HERE}
    set_blas_counts(before)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_is_held_at_one_thread_inside_and_given_back_outside():
    before = blas_threads()
    with single_threaded_blas():
        assert set(blas_threads()) == {1}
        with single_threaded_blas():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}  # the inner one must not give back what the outer one holds
    assert blas_threads() == before


def in_threads(work, n: int) -> None:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_blas_is_held_until_the_last_of_overlapping_threads_has_left():
    """Four enter one after the other and leave in the same order; all who are inside look after every step."""
    n = 4
    stepped, looked, seen = threading.Barrier(n), threading.Barrier(n), []

    def stay(i: int) -> None:
        with ExitStack() as inside:
            for step in range(n + i):
                if step == i:
                    inside.enter_context(single_threaded_blas())
                stepped.wait(30)
                if step >= i:
                    seen.append(max(blas_threads()))
                looked.wait(30)
        for _ in range(n + i, 2 * n):
            stepped.wait(30)
            looked.wait(30)

    in_threads(stay, n)
    assert seen == [1] * n * n
    assert set(blas_threads()) == {HERE}


def test_an_error_inside_gives_blas_back_but_not_before_the_others_have_left():
    with pytest.raises(KeyError), single_threaded_blas():
        raise KeyError
    assert set(blas_threads()) == {HERE}
    n = 4
    inside, failed, seen = threading.Barrier(n), threading.Event(), []

    def stay(i: int) -> None:
        with suppress(KeyError), single_threaded_blas():
            if inside.wait(30) == 0:
                raise KeyError
            assert failed.wait(30)
            seen.append(max(blas_threads()))
            return
        failed.set()

    in_threads(stay, n)
    assert seen == [1] * (n - 1)
    assert set(blas_threads()) == {HERE}


def test_what_somebody_else_has_set_meanwhile_stays():
    with single_threaded_blas():
        set_blas_counts(dict.fromkeys(blas_counts(), 2))
    assert set(blas_threads()) == {2}
    set_blas_counts(dict.fromkeys(blas_counts(), HERE))


def test_overlapping_holders_on_two_threads_give_blas_back():
    before, entered, leave = blas_threads(), threading.Event(), threading.Event()

    def hold():
        with single_threaded_blas():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=hold)
    with single_threaded_blas():
        other.start()
        assert entered.wait(10)
        assert set(blas_threads()) == {1}
    leave.set()
    other.join()
    assert blas_threads() == before
    with single_threaded_blas():
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_the_default_is_what_blas_may_use_even_while_it_is_held():
    with threadpool_limits(limits=1, user_api="blas"):
        assert default_threads() == 1
    outside = default_threads()
    with single_threaded_blas():
        assert default_threads() == outside


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_whatever_the_threads(threads):
    assert list(in_order(lambda i: i * i, range(50), threads)) == [i * i for i in range(50)]


def test_after_an_error_the_pool_works_on():
    def fail(i):
        if i == 3:
            raise ValueError("three")
        return i

    with pytest.raises(ValueError, match="three"):
        list(in_order(fail, range(100), 2))
    assert list(in_order(lambda i: i, range(10), 2)) == list(range(10))


def test_of_several_errors_the_first_in_order_is_raised():
    def fail(i):
        if i in (3, 4):
            raise ValueError(f"item {i}")
        return i

    results = in_order(fail, range(100), 3)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="item 3"):
        next(results)


@pytest.mark.parametrize("threads", [2, 3])
def test_few_results_wait_and_what_nobody_reads_is_not_begun(threads):
    begun = []
    results = in_order(lambda i: begun.append(i) or i, range(1000), threads)
    for i in range(5):
        assert next(results) == i
        assert len(begun) <= i + 1 + WAITING_PER_THREAD * threads
    results.close()
    at_the_end = len(begun)
    assert list(in_order(lambda i: i, range(100), threads)) == list(range(100))  # helpers are free for others
    assert len(begun) <= at_the_end + threads  # those that were under way


def test_work_that_hands_out_work_itself_does_not_wait_for_ever():
    inner = lambda i: sum(in_order(lambda j: i * j, range(20), 2))  # noqa: E731
    assert list(in_order(inner, range(20), 2)) == [190 * i for i in range(20)]


def test_a_helper_that_is_told_to_exit_tells_the_caller():
    caller = threading.get_ident()
    helped = threading.Event()

    def leave(i):
        if threading.get_ident() != caller:
            helped.set()
            raise SystemExit(i)
        assert helped.wait(30)
        return i

    with pytest.raises(SystemExit):
        list(in_order(leave, range(10), 2))
    assert list(in_order(lambda i: i, range(10), 2)) == list(range(10))


def large():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 5))
    return X, (X[:, 0] + rng.logistic(size=60_000) > 0).astype(int)


def coefficients(queue):
    queue.put(BayesianLogisticRegression(prior=Normal(), n_jobs=2).fit(*large()).coef_)


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_process_can_fit_after_its_parent_has_used_threads(start):
    here = BayesianLogisticRegression(prior=Normal(), n_jobs=2).fit(*large()).coef_
    context = multiprocessing.get_context(start)
    queue = context.Queue()
    child = context.Process(target=coefficients, args=(queue,))
    child.start()
    there = queue.get(timeout=300)  # on a new installation it may be the child that compiles, beside other work
    child.join(60)
    assert child.exitcode == 0
    assert_allclose(there, here, rtol=1e-10)


def test_fits_in_many_threads_at_once_agree():
    X, y = large()
    X, y = X[:20_000], y[:20_000]
    alone = BayesianLogisticRegression(prior=Normal()).fit(X, y)
    found = [None] * 6

    def fit(i):
        found[i] = BayesianLogisticRegression(prior=Normal(), n_jobs=2).fit(X, y).predict_proba(X[:100])

    threads = [threading.Thread(target=fit, args=(i,)) for i in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for proba in found:
        assert_allclose(proba, alone.predict_proba(X[:100]), rtol=1e-10)
    assert_array_equal(np.shape(found), (6, 100, 2))


def leave(queue, holder):
    inside = default_threads()
    holder.close()
    queue.put((inside, set(blas_threads())))


def hold():
    with single_threaded_blas():
        yield


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_inside_has_one_thread_until_it_leaves():
    """Though others were inside, whose threads do not live there."""
    context = multiprocessing.get_context("fork")
    queue, inside, go = context.Queue(), threading.Event(), threading.Event()

    def other():
        with single_threaded_blas():
            inside.set()
            go.wait(60)

    beside = threading.Thread(target=other)
    beside.start()
    assert inside.wait(30)
    holder = hold()
    next(holder)
    child = context.Process(target=leave, args=(queue, holder))
    child.start()
    assert queue.get(timeout=30) == (1, {HERE})
    child.join(30)
    assert child.exitcode == 0
    assert set(blas_threads()) == {1} and default_threads() == HERE  # here nobody has left
    go.set()
    beside.join(30)
    assert set(blas_threads()) == {1}
    holder.close()


def enter(queue):
    with single_threaded_blas():
        queue.put(True)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_while_another_thread_holds_the_lock_does_not_wait_for_it():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=enter, args=(queue,))
    with single_threaded_blas._lock:
        child.start()
    assert queue.get(timeout=30)
    child.join(30)
    assert child.exitcode == 0


def test_the_caller_computes_while_a_thread_is_held_up():
    """A thread that cannot run keeps only the item it holds; results still come in order."""
    by_caller, enough = [], threading.Event()

    def work(item: int) -> int:
        if threading.current_thread() is not threading.main_thread():
            assert enough.wait(timeout=60)
        else:
            by_caller.append(item)
            if len(by_caller) == 5:
                enough.set()
        return item**2

    assert list(in_order(work, range(7), 2)) == [item**2 for item in range(7)]
    assert len(by_caller) >= 5


def test_an_error_of_a_later_item_waits_for_its_turn():
    def work(item: int) -> int:
        if item == 3:
            raise ZeroDivisionError
        return item

    results = in_order(work, range(6), 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        next(results)


class Counted:
    """Parts that are counted, and who did them; whoever attends goes at the end of a pass."""

    def __init__(self, count: int) -> None:
        self.count, self.begun, self.done, self.gone, self.lock = count, 0, [], 0, threading.Lock()

    def begin(self) -> None:
        self.begun, self.done = 0, []

    def some(self) -> bool:
        with self.lock:
            mine, self.begun = self.begun, self.begun + 1
        if mine < self.count:
            self.part(mine)
            self.done.append(mine)
        return mine < self.count

    def attend(self) -> None:
        while self.some():
            pass
        with self.lock:
            self.gone += 1

    def part(self, number: int) -> None:
        pass

    def ended(self) -> bool:
        return len(self.done) == self.count

    def stop(self) -> None:
        self.begun = self.count


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 3, 100])
def test_every_part_is_done_once_by_whoever_is_there(count, threads):
    work = Counted(count)
    helpers = Helpers(work, threads)
    for _ in range(3):
        work.begin()
        helpers.finish()
        assert sorted(work.done) == list(range(count))


def test_helpers_are_called_again_only_when_they_have_gone():
    """Those who stay for the next pass are counted on."""
    came = []

    class Staying(Counted):
        def attend(self) -> None:
            came.append(threading.get_ident())

    work = Staying(4)
    helpers = Helpers(work, 3)
    for expected, gone in ((2, 0), (2, 1), (3, 1), (3, 3), (5, 3)):
        work.begin()
        helpers.finish()
        for _ in range(1000):
            if len(came) == expected:
                break
            threading.Event().wait(0.01)
        assert len(came) == expected
        work.gone = gone


def test_a_helper_that_is_late_is_waited_for():
    late, main = threading.Event(), threading.get_ident()

    class Late(Counted):
        def part(self, number: int) -> None:
            if threading.get_ident() == main:
                assert late.wait(60)  # a helper has begun
            else:
                late.set()
                threading.Event().wait(0.05)  # and takes longer than anybody asks

    work = Late(2)
    Helpers(work, 2).finish()
    assert sorted(work.done) == [0, 1]


def test_the_error_of_a_helper_is_raised():
    begun, main = threading.Event(), threading.get_ident()

    class Failing(Counted):
        def part(self, number: int) -> None:
            if threading.get_ident() == main:
                assert begun.wait(60)
            else:
                begun.set()
                raise MemoryError("no room for a part")

    with pytest.raises(MemoryError, match="no room"):
        Helpers(Failing(2), 2).finish()


def test_nothing_more_is_begun_after_an_interruption():
    class Stopped(Counted):
        def part(self, number: int) -> None:
            raise KeyboardInterrupt

    work = Stopped(1000)
    with pytest.raises(KeyboardInterrupt):
        Helpers(work, 1).finish()
    assert work.begun == 1000 and not work.done


# --- Processors -----------------------------------------------------------------------------------

on_linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processors cannot be chosen here")


@pytest.fixture
def one_helper():
    """A pool of its own, with one thread that has begun, and its number."""
    pool = _Pool(1)
    done_by(pool)
    (number,) = pool._numbers
    return pool, number


def done_by(pool: _Pool) -> None:
    """Some work, which is waited for."""
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(60)


@on_linux
@pytest.mark.skipif(os.cpu_count() == 1, reason="there is one processor")
def test_a_helper_is_kept_off_the_processor_of_whoever_wakes_it(one_helper, monkeypatch):
    (pool, number), allowed = one_helper, os.sched_getaffinity(0)
    for here in sorted(allowed)[:2]:
        monkeypatch.setattr(threads, "_processor_here", lambda here=here: here)
        done_by(pool)
        assert os.sched_getaffinity(number) == allowed - {here}
        assert os.sched_getaffinity(0) == allowed  # the caller goes where it likes


@on_linux
def test_a_thread_knows_its_processor():
    allowed, found = os.sched_getaffinity(0), []

    def look() -> None:
        for processor in allowed:
            os.sched_setaffinity(0, {processor})  # of this thread
            found.append(threads._processor_here())

    in_threads(lambda i: look(), 1)
    assert found == list(allowed)


@on_linux
def test_where_there_is_one_processor_everybody_uses_it(one_helper, monkeypatch):
    pool, number = one_helper
    before = os.sched_getaffinity(number)
    monkeypatch.setattr(os, "sched_getaffinity", lambda who: {0})
    monkeypatch.setattr(threads, "_processor_here", lambda: 0)
    done_by(pool)
    monkeypatch.undo()
    assert os.sched_getaffinity(number) == before


@on_linux
def test_where_processors_may_not_be_chosen_work_is_done_all_the_same(one_helper, monkeypatch):
    def forbidden(who: int, processors: set[int]) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbidden)
    monkeypatch.setattr(threads, "_processor_here", lambda: -1)
    done_by(one_helper[0])


def test_where_nobody_can_tell_the_processor_work_is_done_all_the_same(one_helper, monkeypatch, tmp_path):
    for odd in (None, b"", b"1 (python) R 1", b"1 (python) " + 40 * b"x "):
        path = tmp_path / "stat"
        if odd is not None:
            path.write_bytes(odd)
        monkeypatch.setattr(threads, "THREAD", path)
        assert threads._processor_here() is None
    done_by(one_helper[0])


def test_a_pool_has_so_many_threads_however_many_ask_at_once():
    pool, asked = _Pool(3), threading.Barrier(8)

    def ask(i: int) -> None:
        asked.wait(30)
        for _ in range(20):
            done_by(pool)

    in_threads(ask, 8)
    assert len(set(pool._numbers)) == len(pool._numbers) == 3


# --- Ctrl-C ---------------------------------------------------------------------------------------

INTERRUPTED = """
from credibly.data import threads
from helpers import interrupted

class Work:
    count, gone = 40, 0
    def __init__(self): self.begun, self.done = 0, []
    def some(self):
        mine, self.begun = self.begun, self.begun + 1
        if mine < self.count:
            self.done.append(mine)
        return mine < self.count
    def attend(self):
        while self.some():
            pass
        self.gone += 1
    def ended(self): return len(self.done) >= self.count
    def stop(self): self.begun = self.count

def passes():
    threads.Helpers(Work(), 2).finish()
    list(threads.in_order(lambda i: i, range(8), 2))

hit = interrupted(passes, 4000, 3e-4)
import threading
alive = threading.Event()
threads._pool(1).submit(alive.set)
assert alive.wait(60), "the thread of the pool is gone"
assert hit > 1000, hit
print("well")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_interruptions_at_any_moment_leave_the_pool_alive_and_the_process_able_to_end():
    """A lock of a Future that was left held kept one in some hundred processes from ending."""
    ended(INTERRUPTED)
