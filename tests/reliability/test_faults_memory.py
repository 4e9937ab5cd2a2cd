"""Fits that would not fit into memory are refused before they take it; others are not, and where nothing is known."""

import tracemalloc
from pathlib import Path

import dask.array as da
import numpy as np
import pytest

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    Jeffreys,
    LeastSquaresClassifier,
    LinearDiscriminant,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    QuadraticDiscriminant,
    StudentT,
    compare,
)
from credibly.data import memory
from credibly.data.memory import available_bytes, refuse_beyond_memory
from credibly.errors import InputError

MESSAGE = r"There is not enough memory: .* would take at least [\d,.]+ GB, and [\d,.]+ GB are available\. Use "


def zeros(n: int, d: int) -> np.ndarray:
    """Rows that take no memory themselves; two of them differ in every column."""
    X = np.zeros((n, d), dtype=np.float32)
    X[::2] = 1.0
    return X


def taken_before_refusal(model, X, y, **options) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=MESSAGE):
            model.fit(X, y, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


TERABYTES = {
    "exact process": (GaussianProcessClassifier(max_n=10**6), 200_000, 1, 2),
    "process of five classes": (GaussianProcessClassifier(max_n=10**6), 200_000, 1, 5),
    "linear discriminant": (LinearDiscriminant(), 6, 100_000, 2),
    "quadratic discriminant": (QuadraticDiscriminant(), 6, 100_000, 3),
    "plug-in discriminant": (QuadraticDiscriminant(parameters="plugin"), 6, 100_000, 3),
    "least squares": (LeastSquaresClassifier(), 6, 200_000, 2),
    "least squares with a prior": (LeastSquaresClassifier(prior=Normal()), 6, 200_000, 2),
    "least squares of many classes": (LeastSquaresClassifier(prior=Normal()), 3000, 300, 1500),
}


@pytest.mark.parametrize("case", TERABYTES)
def test_what_needs_terabytes_is_refused_on_any_machine_before_it_takes_them(case):
    model, n, d, n_classes = TERABYTES[case]
    X = zeros(n, d)
    assert taken_before_refusal(model, X, np.arange(n) % n_classes) < 3e8  # copies of the table, and what blocks need


def test_rows_of_dask_are_refused_likewise(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**8)
    X, y = da.from_array(zeros(40, 3000), chunks=(20, 3000)), da.from_array(np.arange(40) % 2, chunks=20)
    for model in (LinearDiscriminant(), QuadraticDiscriminant()):
        with pytest.raises(InputError, match=MESSAGE):
            model.fit(X, y)


ONE_MATRIX = 1320  # weights of which five matrices of all pairs take 70 MB
FULL = {
    "logit": (BayesianLogisticRegression(prior=Normal()), ONE_MATRIX, 2),
    "softmax": (BayesianLogisticRegression(prior=Normal()), ONE_MATRIX // 4, 4),
    "empirical": (BayesianLogisticRegression(), ONE_MATRIX, 2),
    "ard": (BayesianLogisticRegression(prior="ard"), ONE_MATRIX // 3, 3),
    "no prior": (BayesianLogisticRegression(prior=None), ONE_MATRIX, 2),
    "Jeffreys": (BayesianLogisticRegression(prior=Jeffreys()), ONE_MATRIX // 3, 3),
    "Student": (BayesianLogisticRegression(prior=StudentT()), ONE_MATRIX, 2),
    "EP": (BayesianProbitRegression(inference="ep"), ONE_MATRIX, 2),
    "ADF": (BayesianProbitRegression(inference="adf"), ONE_MATRIX, 2),
    "auto": (BayesianLogisticRegression(inference="auto"), ONE_MATRIX, 2),
    "label noise": (BayesianLogisticRegression(label_noise="estimate"), ONE_MATRIX, 2),
    "cauchit": (NoisyThresholdClassifier("cauchy"), ONE_MATRIX, 2),
    "counts": (BayesianGLM("poisson"), ONE_MATRIX, 2),
    "least squares": (LeastSquaresClassifier(prior=Normal()), 2100, 2),
    "least squares of four classes": (LeastSquaresClassifier(prior=Normal()), 2100 // 4, 4),
    "linear discriminant": (LinearDiscriminant(), 1700, 4),
    "quadratic discriminant": (QuadraticDiscriminant(), 850, 4),
}


@pytest.mark.parametrize("name", FULL)
def test_matrices_of_all_pairs_are_refused_where_memory_is_small(name, monkeypatch):
    """On a machine that has 50 MB left."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 50_000_000)
    model, d, n_classes = FULL[name]
    X = np.random.default_rng(0).random(size=(d + 20, d), dtype=np.float32)
    taken_before_refusal(model, X, np.arange(d + 20) % n_classes)


def test_many_weights_without_such_matrices_are_refused_where_even_vectors_are_too_many(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 100_000_000)
    X, y = zeros(40, 200_000), np.arange(40) % 20
    with pytest.raises(InputError, match=r"a basis of the rows would take at least 0\.1 GB"):
        BayesianLogisticRegression(prior=Normal()).fit(X, y)
    X, y = zeros(400, 25_000), np.arange(400) % 200
    with pytest.raises(InputError, match=r"25,000 columns in 200 classes would take at least 0\.1 GB"):
        NaiveBayes(features="gaussian").fit(X, y)


def test_a_comparison_says_what_does_not_fit(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 50_000_000)
    X, y = np.random.default_rng(0).normal(size=(1800, 2)), np.arange(1800) % 2
    with pytest.raises(InputError, match=MESSAGE):
        compare({"one": GaussianProcessClassifier(), "other": GaussianProcessClassifier(inference="ep")}, X, y)


def test_the_message_has_the_estimate_what_is_there_and_advice(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 16 * 10**9)
    with pytest.raises(InputError) as refused:
        GaussianProcessClassifier(max_n=10**6).fit(zeros(200_000, 1), np.arange(200_000) % 2)
    assert str(refused.value) == (
        "There is not enough memory: a Gaussian process of 200,000 rows would take at least 960.0 GB, and 16.0 GB are "
        "available. Use inducing points (inducing=500), a random subset of the rows, or a linear model on a basis "
        "(credibly.basis.GaussianBasis with BayesianLogisticRegression)."
    )


# --- what fits is not refused ---------------------------------------------------------------------------------------

FITTING = {
    "logit": (BayesianLogisticRegression(prior=Normal()), 1500, 1300, 2),
    "softmax": (BayesianLogisticRegression(prior=Normal()), 1500, 340, 4),
    "linear discriminant": (LinearDiscriminant(), 600, 1700, 2),
    "quadratic discriminant": (QuadraticDiscriminant(), 600, 1000, 3),
    "least squares": (LeastSquaresClassifier(prior=Normal()), 600, 420, 5),
    "exact process": (GaussianProcessClassifier(optimize=False), 1700, 2, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", FITTING)
def test_the_estimate_is_no_more_than_what_a_fit_takes(case, monkeypatch):
    """So nothing that fits is refused: with as much memory as the fit takes at its peak it is not."""
    model, n, d, n_classes = FITTING[case]
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), np.arange(n) % n_classes
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    monkeypatch.setattr(memory, "available_bytes", lambda: peak)
    model.fit(X, y)
    monkeypatch.setattr(memory, "available_bytes", lambda: peak // 10)
    with pytest.raises(InputError, match=MESSAGE):  # the estimate is of that size
        model.fit(X, y)


def test_small_fits_do_not_look(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: pytest.fail("it was looked up"))
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    for model in (BayesianLogisticRegression(prior=Normal()), LinearDiscriminant(), GaussianProcessClassifier()):
        model.fit(X, y)


def test_where_memory_cannot_be_read_nothing_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    assert available_bytes() is None
    refuse_beyond_memory(1e18, "anything", "Use less.")


# --- what is available ----------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with 8 GB free and 1 GB of swap, to which control groups can be added."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
    (tmp_path / "proc" / "self").mkdir(parents=True)
    lines = "MemTotal:  16000000 kB\nMemAvailable:  8000000 kB\nSwapFree: 1000000 kB\nHugePages_Total: 0\n"
    (tmp_path / "proc" / "meminfo").write_text(lines)
    return tmp_path


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"memory.{name}").write_text(content)


def test_of_a_machine_without_groups(machine):
    assert available_bytes() == 9_000_000 * 1024


STAT = "anon 750000000\ninactive_file 200000000\nactive_file 50000000\n"


@pytest.mark.parametrize("folder", ["a/b", "."], ids=["of its own", "seen as the root, from inside"])
def test_of_a_container_with_a_limit(machine, folder):
    """4 GB, 1 GB used, of which 0.25 GB are copies of files."""
    (machine / "proc" / "self" / "cgroup").write_text("0::/a/b\n")
    group(machine / "groups" / folder, max="4000000000\n", current="1000000000\n", stat=STAT)
    assert available_bytes() == 3_250_000_000


@pytest.mark.parametrize(("most", "now"), [("max\n", "1\n"), ("1000\n", "many\n"), ("", "")])
def test_a_group_without_a_limit_or_with_nonsense_limits_nothing(machine, most, now):
    (machine / "proc" / "self" / "cgroup").write_text("4:memory:/\n0::/\nnonsense\n")
    group(machine / "groups", max=most, current=now, stat="")
    assert available_bytes() == 9_000_000 * 1024
