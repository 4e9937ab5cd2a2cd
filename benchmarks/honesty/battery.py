"""Five folds of every model on every set, kept as JSON lines, so that a run goes on where the last one ended.

Notation
--------
log_loss    mean over rows of −log p(y_n | x_n), each row held out once
rows        its n terms, in the order of the data: the paired difference of two models is a mean of n differences
brier       mean over rows of Σ_k (p_nk − [y_n = k])²
calibration expected calibration error of the likeliest class: |mean p − frequency| in ten bins, weighed by their rows
"""

import hashlib
import json
import os
import signal
import subprocess
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
from sklearn.model_selection import StratifiedKFold

import credibly
from benchmarks.honesty import data
from benchmarks.honesty.models import MODELS

CACHE = Path(__file__).parents[1] / "results" / "honesty"  # git does not look into it
SCORES = CACHE / "scores.jsonl"
SMALLEST = 1e-15  # scikit-learn's probabilities are clipped here, as its `log_loss` did; ours are never clipped
PATIENCE = 900  # seconds for the five folds of one model on one set

Record = dict[str, Any]


# --- scores -------------------------------------------------------------------------------------------------------


def log_probabilities(model: Any, X: np.ndarray, ours: bool) -> np.ndarray:
    if ours:
        return np.asarray(model.predict_log_proba(X))
    return np.log(np.clip(model.predict_proba(X), SMALLEST, 1.0))


def calibration_error(y: np.ndarray, p: np.ndarray, bins: int = 10) -> float:
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    where = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs((confidence - right)[where == b].sum()) for b in range(bins)]
    return float(sum(gaps) / len(y))


def cross_validated(name: str, X: np.ndarray, y: np.ndarray) -> Record:
    """Held-out scores of a model: stratified five folds, shuffled, random_state=0."""
    model = MODELS[name]
    log_p, rungs, told, seconds = np.empty((len(y), y.max() + 1)), [], set(), 0.0
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = model.make().fit(X[train], y[train])
            log_p[test] = log_probabilities(fitted, X[test], model.ours)
        seconds += time.perf_counter() - start
        told |= {warning.category.__name__ for warning in caught}
        rungs.append(getattr(fitted, "rung_", None))
    rows, p = -log_p[np.arange(len(y)), y], np.exp(log_p)
    if not np.isfinite(rows).all():
        raise FloatingPointError(f"{(~np.isfinite(rows)).sum()} rows have an infinite or undefined log loss")
    return {
        "log_loss": float(rows.mean()),
        "brier": float(((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean()),
        "calibration": calibration_error(y, p),
        "seconds": round(seconds, 3),
        "rungs": rungs if any(rungs) else None,
        "warnings": sorted(told),
        "rows": [float(f"{row:.6g}") for row in rows],
    }


class Difference(NamedTuple):
    mean: float  # of ours − theirs: negative is better
    error: float  # standard error of that mean, rows taken as independent


def paired(ours: Iterable[float], theirs: Iterable[float]) -> Difference:
    d = np.asarray(list(ours)) - np.asarray(list(theirs))
    return Difference(float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d))))


# --- one job, and many --------------------------------------------------------------------------------------------


class Job(NamedTuple):
    set: str
    model: str
    version: str
    checksum: int

    @classmethod
    def of(cls, record: Record) -> "Job":
        return cls(*(record[field] for field in cls._fields))


def source_version() -> str:
    """The commit that last changed the library, and a digest of the sources where they are not committed."""
    folder = Path(credibly.__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words, "."], cwd=folder, capture_output=True, text=True, check=False).stdout

    commit = git("log", "-1", "--format=%h").strip() or credibly.__version__
    if not git("status", "--porcelain"):
        return commit
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py"))))
    return f"{commit}+{digest.hexdigest()[:6]}"


def checksum(found: data.DataSet) -> int:
    return zlib.crc32(found.y.astype(np.int64).tobytes(), zlib.crc32(found.X.tobytes()))


def out_of_time(*_: Any) -> None:
    raise TimeoutError(f"more than {PATIENCE} seconds")


def run(job: Job) -> Record:
    """The scores of one job; a model that raises is recorded with its error."""
    found = data.load(job.set)
    record = job._asdict() | dict(zip("ndK", found.shape, strict=True))
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(PATIENCE)
    try:
        return record | cross_validated(job.model, found.X, found.y)
    except Exception as error:  # any error of a model is a result of the benchmark
        return record | {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    finally:
        signal.alarm(0)


def known(path: Path = SCORES) -> Iterator[Record]:
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def remember(record: Record, path: Path = SCORES) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def measure(models: Sequence[str], sets: tuple[str, ...] = (), processes: int = 2, path: Path = SCORES) -> None:
    """Run what the cache does not hold at this version; cheap sets first."""
    version = {True: source_version(), False: f"scikit-learn {sklearn.__version__}"}
    done = {Job.of(record) for record in known(path)}
    jobs = []
    for found in sorted(data.available(sets), key=lambda found: found.X.size * found.shape[2]):
        n, _, classes = found.shape
        for model in (model for model in models if MODELS[model].takes(n, classes)):
            job = Job(found.name, model, version[MODELS[model].ours], checksum(found))
            jobs += [job] * (job not in done)
    for record in results(jobs, processes):
        remember(record, path)


def results(jobs: list[Job], processes: int) -> Iterator[Record]:
    """Records as they come; one process means this one, without a progress bar."""
    if processes == 1 or not jobs:
        yield from map(run, jobs)
        return
    from tqdm import tqdm

    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # inherited by the processes
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        bar = tqdm(as_completed([pool.submit(run, job) for job in jobs]), total=len(jobs), desc="five folds")
        for future in bar:
            record = future.result()
            bar.set_postfix_str(f"{record['set']} {record['model']}", refresh=False)
            yield record


def latest(path: Path = SCORES) -> dict[tuple[str, str], Record]:
    """The last record of every set and model: (set, model) -> record."""
    return {(record["set"], record["model"]): record for record in known(path)}
