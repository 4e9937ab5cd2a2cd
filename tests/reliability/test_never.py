"""What is never done: no network, no foreign files, and nothing of the process left other than it was."""

import locale
import os
import socket
import sys
import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from credibly.errors import InputError
from credibly.persistence import load, save
from reliability.estimators import SUBJECTS

EVERY = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)


def use(subject, path=None):
    """Fit, ask, and if there is a path, save and load."""
    problem = subject.problem()
    model = subject.make().fit(problem.X, problem.y)
    if path is not None:
        save(model, path)
        model = load(path)
    return model.predict(problem.X)


def of_the_process() -> dict[str, object]:
    """What belongs to all code in a process."""
    _, keys, position, *rest = np.random.get_state()  # noqa: NPY002, TID251  # the global generator is what is watched
    return {
        "generator": (keys.tobytes(), position, rest),
        "floating point": np.geterr(),
        "print options": str(np.get_printoptions()),
        "warnings": list(warnings.filters),
        "environment": dict(os.environ),
        "threads": [(library["filepath"], library["num_threads"]) for library in threadpool_info()],
        "locale": locale.setlocale(locale.LC_ALL),
        "folder": os.getcwd(),
        "recursion": sys.getrecursionlimit(),
        "hooks": (sys.excepthook, sys.displayhook),
    }


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a socket was asked for")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@EVERY
@pytest.mark.usefixtures("no_network")
def test_no_socket_is_opened(subject, tmp_path):
    use(subject, tmp_path / "model.credibly")


@pytest.mark.usefixtures("no_network")
def test_the_watch_on_sockets_bites():
    with pytest.raises(AssertionError, match="socket"):
        socket.create_connection(("localhost", 1))


@EVERY
def test_nothing_of_the_process_is_changed(subject, tmp_path):
    use(subject)  # libraries are loaded by the first
    before = of_the_process()
    use(subject, tmp_path / "model.credibly")
    assert of_the_process() == before


@EVERY
def test_nothing_of_the_process_is_changed_by_a_fit_that_is_refused(subject):
    problem, before = subject.problem(), of_the_process()
    with pytest.raises(InputError):
        subject.make().fit(problem.X.astype(complex), problem.y)
    assert of_the_process() == before


@EVERY
def test_no_file_is_written_but_the_one_that_was_asked_for(subject, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    use(subject, tmp_path / "model.credibly")
    assert [path.name for path in tmp_path.iterdir()] == ["model.credibly"]


@EVERY
def test_predictions_do_not_depend_on_the_global_generator(subject):
    state = np.random.get_state()  # noqa: NPY002, TID251
    found = []
    for seed in (5, 6):
        np.random.seed(seed)  # noqa: NPY002, TID251  # that this does not matter is the point
        found.append(use(subject))
    np.random.set_state(state)  # noqa: NPY002, TID251
    np.testing.assert_array_equal(*found)
