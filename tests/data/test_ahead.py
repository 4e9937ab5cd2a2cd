"""Work on the threads of one pass."""

import gc
import os
import signal
import threading
import time
import weakref
from contextlib import suppress
from itertools import islice

import numpy as np
import pytest
from credibly.data.ahead import Crew, one_ahead

from helpers import ended, pass_threads


def test_results_come_in_order_whatever_they_take():
    pauses = np.random.default_rng(0).random(30) / 500

    def work(k: int) -> int:
        time.sleep(pauses[k])
        return k

    for threads in (1, 2, 4):
        assert list(Crew(threads).in_order(work, range(30))) == list(range(30))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_more_compute_at_a_time_than_allowed_while_one_more_reads(threads):
    crew, lock, all_reading = Crew(threads), threading.Lock(), threading.Barrier(threads + 1)
    computing, most, working, widest = 0, 0, 0, 0

    def work(k: int) -> None:
        nonlocal computing, most, working, widest
        with lock:
            working += 1
            widest = max(widest, working)
        if k <= threads:  # the first go on when so many have begun, or the test fails
            all_reading.wait(30)
        with crew.computing():
            with lock:
                computing += 1
                most = max(most, computing)
            time.sleep(0.002)
            with lock:
                computing -= 1
        with lock:
            working -= 1

    list(crew.in_order(work, range(40)))
    assert most <= threads
    assert widest == threads + 1


def test_few_results_wait_at_a_time():
    begun = []

    def work(k: int) -> int:
        begun.append(k)
        return k

    results = Crew(2).in_order(work, range(100))
    assert next(results) == 0
    time.sleep(0.1)
    assert max(begun) <= 3
    results.close()


def test_work_that_nobody_will_read_is_not_begun():
    crew, done = Crew(1), []

    def work(k: int) -> int:
        if k == 0:
            raise KeyError
        for _ in range(1000):
            with crew.computing():
                time.sleep(0.005)
        done.append(k)
        return k

    with pytest.raises(KeyError):
        list(crew.in_order(work, range(5)))
    assert done == []


def test_the_next_item_is_made_while_the_last_is_used():
    made = threading.Event()

    def items():
        yield 0
        made.set()
        yield 1

    ahead = one_ahead(items())
    assert next(ahead) == 0
    assert made.wait(5)
    assert list(ahead) == [1]


def test_floating_point_errors_are_treated_there_as_here():
    def items():
        with np.errstate(over="ignore"):  # set back where it was set, when the iterator ends
            for _ in range(2):
                np.float64(1e308) * np.full(1, 10.0)
                yield np.geterr()["divide"]
        yield np.geterr()["over"]

    with np.errstate(divide="ignore", over="raise"):
        assert list(one_ahead(items())) == ["ignore", "ignore", "raise"]


def test_an_iterator_that_is_left_is_closed():
    closed = []

    def items():
        try:
            yield from range(10)
        finally:
            closed.append(threading.current_thread().name)

    ahead = one_ahead(items())
    next(ahead)
    ahead.close()
    assert len(closed) == 1


def test_an_error_comes_when_its_item_is_asked_for():
    def items():
        yield 0
        raise KeyError

    ahead = one_ahead(items())
    assert next(ahead) == 0
    with pytest.raises(KeyError):
        next(ahead)


def test_passes_within_and_beside_one_another_do_not_wait_for_one_another():
    def work(k: int) -> int:
        return sum(Crew(2).in_order(lambda i: i * k, range(5)))

    beside = zip(Crew(2).in_order(work, range(20)), one_ahead(work(k) for k in range(20)), strict=True)
    assert list(beside) == [(10 * k, 10 * k) for k in range(20)]


# --- What is left -------------------------------------------------------------------------------------------------


class Result:
    """Something that is known to be gone."""


def test_what_was_handed_out_is_not_held():
    held: list[weakref.ref] = []

    def work(k: int) -> Result:
        result = Result()
        held.append(weakref.ref(result))
        return result

    for results in (Crew(1).in_order(work, range(6)), one_ahead(work(k) for k in range(6))):
        held.clear()
        for _ in islice(results, 4):
            pass
        assert sum(it() is not None for it in held) <= 3  # that which `_` is, and two
        results.close()


def test_an_error_does_not_hold_on_to_what_was_read():
    """Not even until the next look for circles: it may be a file."""
    held: list[weakref.ref] = []

    def work(k: int) -> None:
        file = Result()
        held.append(weakref.ref(file))
        raise KeyError(k)

    gc.disable()
    try:
        for make in (lambda: Crew(2).in_order(work, range(6)), lambda: one_ahead(work(k) for k in range(6))):
            with suppress(KeyError):  # pytest.raises makes a circle of its own
                list(make())
            assert pass_threads() == 0
            assert held and [it() for it in held if it() is not None] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("make", [lambda: Crew(3).in_order(abs, range(50)), lambda: one_ahead(k for k in range(50))])
def test_threads_end_with_their_pass(make):
    assert list(make()) == list(range(50))
    assert pass_threads() == 0
    left = make()
    assert (next(left), next(left)) == (0, 1)
    left.close()
    assert pass_threads() == 0


@pytest.mark.parametrize("make", [lambda work: Crew(2).in_order(work, range(9)), lambda work: one_ahead(map_of(work))])
def test_nobody_is_at_work_when_a_pass_was_left(make):
    working = []

    def work(k: int) -> int:
        working.append(k)
        time.sleep(0.05)
        working.remove(k)
        return k

    left = make(work)
    assert next(left) == 0
    left.close()
    assert working == []


def map_of(work):
    return (work(k) for k in range(9))


LEFT = """
import time
from credibly.data.ahead import Crew, one_ahead

def slow(k):
    time.sleep(0.02)
    return k

crew = Crew(2)
results, ahead = crew.in_order(slow, range(10**6)), one_ahead(slow(k) for k in range(10**6))
next(results), next(ahead)
print("well")
"""


def test_a_process_ends_although_a_pass_was_left_as_it_was():
    assert ended(LEFT).stderr == ""


FORKED = """
import os, sys, time
from credibly.data.ahead import Crew, one_ahead

def slow(k):
    time.sleep(0.1)
    return k

results, ahead = Crew(2).in_order(slow, range(6)), one_ahead(slow(k) for k in range(6))
next(results), next(ahead)
if (child := os.fork()) == 0:
    for begun in (results, ahead):
        try:
            next(begun)
        except RuntimeError as error:  # not to wait for threads that are the parent's
            assert "forked process" in str(error)
        else:
            sys.exit("a child has a result of its parent's threads")
    results.close(), ahead.close()
    assert list(Crew(2).in_order(slow, range(3))) == list(one_ahead(slow(k) for k in range(3))) == [0, 1, 2]
    sys.exit(7)  # with all that is done at the end of a process
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert list(results) == list(ahead) == [1, 2, 3, 4, 5]
print("well")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_child_that_is_forked_in_the_middle_ends_as_does_its_parent():
    ended(FORKED)


# --- Ctrl-C ---------------------------------------------------------------------------------------

INTERRUPTED = """
from credibly.data.ahead import Crew, one_ahead
from helpers import interrupted, pass_threads

def work(k):
    with crew.computing():
        return k

def passes():
    global crew
    crew = Crew(2)
    list(crew.in_order(work, range(8)))
    list(one_ahead(k for k in range(8)))

hit = interrupted(passes, 3000, 1e-3)
assert pass_threads() == 0, "threads are left"
assert hit > 1000, hit
print("well")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_interruptions_at_any_moment_leave_no_thread_and_the_process_able_to_end():
    """With futures, a thousand of them left a lock held for which somebody then waited for good."""
    ended(INTERRUPTED)
