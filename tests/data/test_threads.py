"""Threads, BLAS and processes: what is borrowed is given back, and nothing waits for ever."""

import multiprocessing
import os
import signal
import threading
import time
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from credibly import BayesianLogisticRegression, Normal
from credibly.data.threads import (
    WAITING_PER_THREAD,
    _blas,
    _held,
    _set_threads,
    blas_threads,
    default_threads,
    in_order,
    interruptible,
    single_threaded_blas,
)
from helpers import ended

HERE = 3  # threads of BLAS while these tests run, on any machine: one cannot be told from one


@pytest.fixture(autouse=True)
def several():
    before = threads_of_blas()
    set_blas(HERE)
    yield
    assert set(threads_of_blas()) == {HERE}
    set_blas(before[0])


def set_blas(threads: int) -> None:
    for library in _blas().lib_controllers:
        _set_threads(library, threads)


def threads_of_blas():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_is_held_at_one_thread_inside_and_given_back_outside():
    before = threads_of_blas()
    with single_threaded_blas():
        assert set(threads_of_blas()) == {1}
        with single_threaded_blas():
            assert set(threads_of_blas()) == {1}
        assert set(threads_of_blas()) == {1}  # the inner one must not give back what the outer one holds
    assert threads_of_blas() == before


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
                    seen.append(max(threads_of_blas()))
                looked.wait(30)
        for _ in range(n + i, 2 * n):
            stepped.wait(30)
            looked.wait(30)

    in_threads(stay, n)
    assert seen == [1] * n * n
    assert set(threads_of_blas()) == {HERE}


def test_an_error_inside_gives_blas_back_but_not_before_the_others_have_left():
    with pytest.raises(KeyError), single_threaded_blas():
        raise KeyError
    assert set(threads_of_blas()) == {HERE}
    n = 4
    inside, failed, seen = threading.Barrier(n), threading.Event(), []

    def stay(i: int) -> None:
        with suppress(KeyError), single_threaded_blas():
            if inside.wait(30) == 0:
                raise KeyError
            assert failed.wait(30)
            seen.append(max(threads_of_blas()))
            return
        failed.set()

    in_threads(stay, n)
    assert seen == [1] * (n - 1)
    assert set(threads_of_blas()) == {HERE}


def test_what_somebody_else_has_set_meanwhile_stays():
    with single_threaded_blas():
        set_blas(2)
    assert set(threads_of_blas()) == {2}
    set_blas(HERE)


def test_overlapping_holders_on_two_threads_give_blas_back():
    before, entered, leave = threads_of_blas(), threading.Event(), threading.Event()

    def hold():
        with single_threaded_blas():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=hold)
    with single_threaded_blas():
        other.start()
        assert entered.wait(10)
        assert set(threads_of_blas()) == {1}
    leave.set()
    other.join()
    assert threads_of_blas() == before
    with single_threaded_blas():
        assert set(threads_of_blas()) == {1}
    assert threads_of_blas() == before


@pytest.mark.parametrize("one_leaves_first", [True, False])
def test_blas_is_given_back_when_holders_of_one_and_of_several_threads_overlap(one_leaves_first):
    """One thread for rows beside two for a matrix, whoever leaves first."""
    several_inside, leave, seen = threading.Event(), threading.Event(), []

    def several_threads():
        with blas_threads(3000, 2):
            several_inside.set()
            assert leave.wait(30)
            seen.append(set(threads_of_blas()))

    other = threading.Thread(target=several_threads)
    with single_threaded_blas():
        other.start()
        assert several_inside.wait(30)
        assert set(threads_of_blas()) == {2}
        if not one_leaves_first:
            leave.set()
            other.join(30)
            assert set(threads_of_blas()) == {1}
    leave.set()
    other.join(30)
    assert seen == [{2}]
    assert set(threads_of_blas()) == {HERE}


def test_one_thread_for_a_pass_inside_of_several_for_a_matrix():
    with blas_threads(3000, 2):
        with single_threaded_blas():
            assert set(threads_of_blas()) == {1} and default_threads() == 2
        assert set(threads_of_blas()) == {2} and default_threads() == 2
    assert default_threads() == HERE


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


def test_settings_of_floating_point_errors_hold_on_every_thread():
    with np.errstate(divide="ignore"):
        assert list(in_order(lambda i: np.float64(i) / 0.0, range(1, 9), 3)) == [np.inf] * 8


def test_items_may_be_made_as_they_are_needed():
    made = []
    results = in_order(lambda i: i, (made.append(i) or i for i in range(100)), 2)
    assert next(results) == 0
    assert len(made) <= 2 * WAITING_PER_THREAD
    results.close()
    assert len(made) <= 2 * WAITING_PER_THREAD


INTERRUPTED = """
import os, signal, threading, time
import numpy as np
from credibly.data.rows import MemoryRows

began = threading.Lock()

def slow(block):
    if began.acquire(blocking=False):
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
    return (block.y.sum(),)

rows = MemoryRows(np.zeros((1000, 1)), np.ones(1000), threads=2)
try:
    rows.in_blocks(1).sum(slow)  # 25 seconds, if it were to end by itself
except KeyboardInterrupt:
    assert rows.in_blocks(10).sum(lambda block: (block.y.sum(),)) == (1000.0,)
    print("well")
"""


def test_ctrl_c_ends_a_pass_and_the_pool_works_on():
    """A real signal, in a process of its own: there the main thread is the one that asks for the sum."""
    began = time.monotonic()
    ended(INTERRUPTED)
    assert time.monotonic() - began < 20


# --- processes ------------------------------------------------------------------------------------


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
    there = queue.get(timeout=60)
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
    queue.put((inside, set(threads_of_blas())))


def hold():
    with single_threaded_blas():
        yield


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_inside_restores_blas_when_it_leaves():
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
    assert queue.get(timeout=30) == (HERE, {HERE})
    child.join(30)
    assert child.exitcode == 0
    assert set(threads_of_blas()) == {1} and default_threads() == HERE  # here nobody has left
    go.set()
    beside.join(30)
    assert set(threads_of_blas()) == {1}
    holder.close()


def enter(queue):
    with single_threaded_blas():
        queue.put(True)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_forked_while_another_thread_holds_the_lock_does_not_wait_for_it():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=enter, args=(queue,))
    with _held._lock:
        child.start()
    assert queue.get(timeout=30)
    child.join(30)
    assert child.exitcode == 0


def test_ctrl_c_does_not_wait_for_the_end_of_a_long_call():
    assert interruptible(lambda: 5) == 5
    ctrl_c = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    started = threading.Event()

    def work():
        started.set()
        time.sleep(3.0)

    ctrl_c.start()
    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        interruptible(work)
    assert started.is_set()
    assert time.perf_counter() - begin < 2.0
