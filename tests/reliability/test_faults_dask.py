"""A Dask worker that dies at any stage of a fit or a prediction changes nothing; workers that always die are told."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from numpy.testing import assert_allclose
from sklearn.base import clone

from credibly import BayesianGLM, BayesianLogisticRegression, LinearDiscriminant, NaiveBayes, Normal

pytestmark = pytest.mark.slow  # a cluster, and a new process for every worker that died

CHUNKS = (300, 200, 250, 250)
SAME = 1e-10
rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 4)) * [1, 10, 0.1, 3]
Y = ((X[:, :3] / [1, 10, 0.1]) + rng.gumbel(size=(1000, 3))).argmax(axis=1)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test


@contextmanager
def cluster(**settings: Any) -> Iterator[Client]:
    options = {"processes": True, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=2, threads_per_worker=1, **options) as workers,
        Client(workers) as client,
    ):
        yield client


def doomed(calls: Path, dies: Callable[[int], bool]) -> da.Array:
    """A table whose third partition is made anew in every pass; its process dies at the calls that are said."""
    name = str(calls)

    def part(block: np.ndarray, block_id: tuple[int, int] = (0, 0)) -> np.ndarray:
        if block_id[0] == 2 and block.size:
            with open(name, "a") as file:
                file.write("x")
            if dies(os.path.getsize(name)):
                os.kill(os.getpid(), signal.SIGKILL)
        return block

    return da.from_array(X, chunks=(CHUNKS, 4)).map_blocks(part, dtype=float, meta=np.empty((0, 0)))


def labels(y: np.ndarray) -> da.Array:
    return da.from_array(y, chunks=(CHUNKS,))


MODELS: dict[str, tuple[Any, np.ndarray]] = {
    "two classes": (BayesianLogisticRegression(prior=Normal()), Y > 0),
    "three classes, learnt scale": (BayesianLogisticRegression(), Y),
    "counts": (BayesianGLM("poisson", prior=Normal()), Y),
    "discriminant": (LinearDiscriminant(), Y),
    "naive Bayes": (NaiveBayes(features="gaussian"), Y),
}


def say(model: Any, table: Any) -> np.ndarray:
    return model.predict_proba(table) if hasattr(model, "predict_proba") else model.predict(table)


@pytest.mark.parametrize("name", MODELS)
def test_a_worker_killed_at_any_pass_changes_nothing(name, tmp_path):
    """Labels, description, gradients, Hessians, prediction: every pass makes the partition once."""
    model, y = MODELS[name]
    here = clone(model).fit(X, y)
    counted = doomed(tmp_path / "calls", lambda _: False)
    with dask.config.set(scheduler="synchronous"):
        there = clone(model).fit(counted, labels(y))
        passes = (tmp_path / "calls").stat().st_size
        say(there, counted).compute()
        total = (tmp_path / "calls").stat().st_size
    assert total > passes >= 2
    for stage in sorted({1, 2, (passes + 2) // 2, passes, total}):
        killed_at(stage, total, here, y, tmp_path / f"calls-{stage}")


def killed_at(stage: int, total: int, here: Any, y: np.ndarray, calls: Path) -> None:
    table = doomed(calls, lambda call: call == stage)
    with cluster():  # a new one: a nanny does not restart its worker for ever
        there = clone(here).fit(table, labels(y))
        found = say(there, table).compute()
    assert calls.stat().st_size > total, stage  # it died, and that pass was made again
    assert_allclose(found, np.asarray(say(here, X)), rtol=1e-9, atol=SAME, err_msg=f"stage {stage}")
    if hasattr(here, "log_evidence_"):
        assert_allclose(there.log_evidence_, here.log_evidence_, rtol=SAME)


def ends(work: Callable[[], Any], seconds: float = 120) -> BaseException | None:
    """The error of some work that must end."""
    found: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it waits for ever"
    return found[0] if found else None


def test_a_partition_that_kills_every_worker_is_an_error(tmp_path):
    with cluster(**{"distributed.scheduler.allowed-failures": 1}):
        table = doomed(tmp_path / "calls", lambda _: True)
        error = ends(lambda: BayesianLogisticRegression(prior=Normal()).fit(table, labels(Y)))
    assert type(error).__name__ == "KilledWorker", error
    assert "on 2 different workers" in str(error)


def test_workers_that_never_come_back_are_an_error_where_dask_is_told_how_long_to_wait():
    """Dask itself waits for ever unless it is told so."""
    with cluster(**{"distributed.scheduler.no-workers-timeout": "3s"}) as client:
        client.cluster.scale(0)
        table = da.from_array(X, chunks=(CHUNKS, 4))
        error = ends(lambda: BayesianLogisticRegression(prior=Normal()).fit(table, labels(Y)))
    assert type(error).__name__ in {"NoWorkerError", "NoValidWorkerError"}, error  # the second: older releases
