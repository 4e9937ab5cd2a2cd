"""Properties that are computed once, and hold no lock meanwhile."""

import multiprocessing
import threading

import pytest

from credibly.numerics.caching import cached_property


class Slow:
    """Its value is there when somebody says so."""

    def __init__(self, go):
        self.go, self.calls = go, 0

    @cached_property
    def value(self):
        """Forty-two."""
        self.calls += 1
        assert self.go.wait(60)
        return 42


def ready():
    go = threading.Event()
    go.set()
    return Slow(go)


def test_a_value_is_computed_once_for_each_object():
    first, second = ready(), ready()
    assert (first.value, first.value, second.value) == (42, 42, 42)
    assert (first.calls, second.calls) == (1, 1)
    assert vars(first)["value"] == 42
    assert isinstance(Slow.value, cached_property) and Slow.value.__doc__ == "Forty-two."


def ask(queue):
    queue.put(ready().value)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_is_forked_while_another_thread_computes_does_not_wait_for_it():
    go, context = threading.Event(), multiprocessing.get_context("fork")
    slow, queue = Slow(go), context.Queue()
    computing = threading.Thread(target=lambda: slow.value)
    computing.start()
    child = context.Process(target=ask, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == 42
    child.join(60)
    go.set()
    computing.join(60)
    assert slow.value == 42
