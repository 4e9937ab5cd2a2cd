"""Work on the threads of one pass."""

import threading
import time

import numpy as np
import pytest

from credibly.data.ahead import Crew, one_ahead


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
