"""Models of Parquet files, from the first pass to the file of predictions; and what happens when they are killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    Jeffreys,
    LeastSquaresClassifier,
    LinearDiscriminant,
    NaiveBayes,
    Normal,
    ParquetRows,
)
from credibly.errors import DataWarning, InputError

N = 12_000


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(N, 4)) * [1, 10, 0.1, 1], columns=list("abcd"))
    frame["kind"] = rng.choice(["red", "green", "blue"], N)
    scores = frame["a"] - 0.1 * frame["b"] + (frame["kind"] == "red")
    frame["label"] = np.where(scores + rng.logistic(size=N) > 0, "yes", "no")
    frame["count"] = rng.poisson(np.exp(0.3 * frame["a"]))
    frame["trust"] = rng.choice([1.0, 2.0], N)
    return frame


@pytest.fixture
def files(frame: pd.DataFrame, tmp_path: Path) -> str:
    for part in range(3):
        frame[part * N // 3 : (part + 1) * N // 3].to_parquet(tmp_path / f"part-{part}.parquet", row_group_size=1500)
    return str(tmp_path / "part-*.parquet")


def design(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    dummies = pd.get_dummies(frame[["kind"]], prefix_sep="=", dtype=float)
    return frame[list("abcd")].join(dummies)[names]


FEATURES = ["a", "b", "c", "d", "kind"]


@pytest.mark.parametrize("model", [BayesianLogisticRegression(), NaiveBayes()], ids=repr)
def test_classifiers_learn_from_files(model: Any, frame: pd.DataFrame, files: str, tmp_path: Path) -> None:
    rows = ParquetRows(files, target="label", features=FEATURES, weight="trust")
    stored = type(model)().fit(rows)
    X = design(frame, rows.names)
    memory = type(model)().fit(X, frame["label"], sample_weight=frame["trust"])
    np.testing.assert_allclose(stored.log_evidence_, memory.log_evidence_, rtol=1e-10)
    assert stored.predict_to(ParquetRows(files), tmp_path / "out.parquet") == N
    found = pd.read_parquet(tmp_path / "out.parquet")
    np.testing.assert_allclose(found["p_yes"], memory.predict_proba(X)[:, 1], rtol=1e-8)


def test_a_regression_learns_counts_with_an_offset(frame: pd.DataFrame, files: str) -> None:
    rows = ParquetRows(files, target="count", features=["a", "b"], offset="c")
    stored = BayesianGLM("poisson").fit(rows)
    memory = BayesianGLM("poisson").fit(frame[["a", "b"]], frame["count"], offset=frame["c"])
    np.testing.assert_allclose(stored.coef_, memory.coef_, rtol=1e-9)
    np.testing.assert_allclose(stored.deviance_, memory.deviance_, rtol=1e-12)


def test_offsets_count_in_predictions_and_only_in_regressions(frame: pd.DataFrame, files: str, tmp_path: Path) -> None:
    model = BayesianGLM("poisson").fit(ParquetRows(files, target="count", features=["a", "b"], offset="c"))
    model.predict_to(ParquetRows(files, features=["a", "b"], offset="c"), tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")
    np.testing.assert_allclose(found["prediction"], model.predict(frame[["a", "b"]], offset=frame["c"]), rtol=1e-12)
    for other in (BayesianLogisticRegression(), NaiveBayes(), LeastSquaresClassifier()):
        with pytest.raises(InputError, match="leave out offset="):
            other.fit(ParquetRows(files, target="label", features=["a"], offset="c"))


@pytest.mark.parametrize("prior", [None, Jeffreys()], ids=repr)
def test_without_a_prior_the_first_level_is_the_reference(
    prior: Any, frame: pd.DataFrame, files: str, tmp_path: Path
) -> None:
    rows = ParquetRows(files, target="label", features=["a", "kind"])
    stored = BayesianLogisticRegression(prior=prior).fit(rows)
    assert stored.feature_names_in_.tolist() == ["a", "kind=green", "kind=red"]
    X = design(frame, ["a", "kind=green", "kind=red"])
    memory = BayesianLogisticRegression(prior=prior).fit(X, frame["label"])
    np.testing.assert_allclose(stored.posterior_.cov, memory.posterior_.cov, rtol=1e-9)
    stored.predict_to(ParquetRows(files), tmp_path / "out.parquet")  # without a warning: blue is known
    found = pd.read_parquet(tmp_path / "out.parquet")["p_yes"]
    np.testing.assert_allclose(found, memory.predict_proba(X)[:, 1], rtol=1e-9)
    news = frame[:5].assign(kind=["red", "blue", "violet", "green", "red"])
    news.to_parquet(tmp_path / "news.parquet")
    with pytest.warns(DataWarning, match=r"violet.*count as missing"):
        stored.predict_to(ParquetRows(tmp_path / "news.parquet"), tmp_path / "few.parquet")
    assert pd.read_parquet(tmp_path / "few.parquet")["p_yes"].isna().tolist() == [False, False, True, False, False]


def test_whole_numbers_that_were_categories_are_so_in_predictions(files: str, tmp_path: Path) -> None:
    rows = ParquetRows(files, target="label", features=["a", "trust"], categories=["trust"])
    model = BayesianLogisticRegression(prior=Normal()).fit(rows)
    model.predict_to(rows, tmp_path / "one.parquet")
    model.predict_to(ParquetRows(files), tmp_path / "two.parquet")
    assert pd.read_parquet(tmp_path / "one.parquet").equals(pd.read_parquet(tmp_path / "two.parquet"))


def test_a_missing_cell_is_named_with_file_and_row(frame: pd.DataFrame, tmp_path: Path) -> None:
    holes = frame.copy()
    holes.loc[7000, "b"] = np.nan
    holes.to_parquet(tmp_path / "holes.parquet", row_group_size=1500)
    rows = ParquetRows(tmp_path / "holes.parquet", target="label", features=["a", "b"])
    with pytest.raises(InputError, match=r"NaN in column 'b' \(.*holes\.parquet; first in row 7000 of the"):
        BayesianLogisticRegression().fit(rows)
    with pytest.raises(InputError, match=r"holes\.parquet: cells are missing, first in row 7000 of the file"):
        LinearDiscriminant().fit(rows)


def test_a_missing_label_is_named_with_file_and_row(frame: pd.DataFrame, tmp_path: Path) -> None:
    for name, model in (("label", BayesianLogisticRegression()), ("count", BayesianGLM("poisson"))):
        holes = frame.astype({"count": float})
        holes.loc[7000, name] = None
        holes.to_parquet(tmp_path / "holes.parquet", row_group_size=1500)
        rows = ParquetRows(tmp_path / "holes.parquet", target=name, features=["a", "b"])
        with pytest.raises(InputError, match=r"holes\.parquet: .* first in row 7000 of the file"):
            model.fit(rows)


def test_a_level_that_the_fit_did_not_see_is_told(frame: pd.DataFrame, files: str, tmp_path: Path) -> None:
    model = BayesianLogisticRegression().fit(ParquetRows(files, target="label", features=["a", "kind"]))
    news = frame[:5].assign(kind="violet")
    news.to_parquet(tmp_path / "news.parquet")
    with pytest.warns(DataWarning, match="violet"):
        model.predict_to(ParquetRows(tmp_path / "news.parquet"), tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")["p_yes"]
    X = pd.DataFrame(0.0, index=news.index, columns=model.feature_names_in_).assign(a=news["a"])
    np.testing.assert_allclose(found, model.predict_proba(X)[:, 1], rtol=1e-10)


FIT = """
import pathlib, sys, time
from credibly import BayesianLogisticRegression, ParquetRows
class Slow(ParquetRows):
    passes = 0
    def sum(self, block, merge=None):
        Slow.passes += 1
        if Slow.passes > 4:
            pathlib.Path(sys.argv[2] + ".ready").touch()
            time.sleep(300)
        return super().sum(block, merge)
rows = Slow(sys.argv[1], target="label", features=["a", "b", "c", "d"], batch_rows=200)
BayesianLogisticRegression(n_jobs=1).fit(rows, resume=sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal here")
def test_a_fit_that_was_killed_goes_on(files: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "fit.checkpoint"
    with subprocess.Popen([sys.executable, "-c", FIT, files, str(checkpoint)]) as process:
        deadline = time.monotonic() + 60
        while not Path(f"{checkpoint}.ready").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert checkpoint.exists()
    rows = ParquetRows(files, target="label", features=["a", "b", "c", "d"], batch_rows=200)
    whole = BayesianLogisticRegression(n_jobs=1).fit(rows)
    resumed = BayesianLogisticRegression(n_jobs=1).fit(rows, resume=checkpoint)
    np.testing.assert_allclose(resumed.posterior_.cov, whole.posterior_.cov, rtol=1e-10)
    assert not checkpoint.exists()


def test_a_checkpoint_of_files_that_changed_is_refused(frame: pd.DataFrame, files: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "fit.checkpoint"

    class Stop(Exception):
        pass

    class Impatient(ParquetRows):
        passes = 0

        def sum(self, block: Any, merge: Any = None) -> Any:
            type(self).passes += 1
            if self.passes > 2:
                raise Stop
            return super().sum(block, merge)

    with pytest.raises(Stop):
        BayesianLogisticRegression(prior=Normal()).fit(
            Impatient(files, target="label", features=["a", "b"]), resume=checkpoint
        )
    frame[:100].to_parquet(Path(files).parent / "part-0.parquet")
    with pytest.raises(InputError, match="another fit: rows"):
        BayesianLogisticRegression(prior=Normal()).fit(
            ParquetRows(files, target="label", features=["a", "b"]), resume=checkpoint
        )


def test_nothing_is_left_of_predictions_that_failed(frame: pd.DataFrame, files: str, tmp_path: Path) -> None:
    model = BayesianLogisticRegression(prior=Normal()).fit(ParquetRows(files, target="label", features=["a", "b"]))
    damaged = Path(files).parent / "part-2.parquet"
    content = bytearray(damaged.read_bytes())
    content[4:60] = bytes(56)  # the header of the first page
    damaged.write_bytes(content)
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match=r"part-2\.parquet is damaged or cut off"):
        model.predict_to(ParquetRows(files), tmp_path / "out" / "out.parquet")
    assert list((tmp_path / "out").iterdir()) == []


def test_files_that_come_one_after_the_other_update_as_tables_do(frame: pd.DataFrame, files: str) -> None:
    stored, memory = (BayesianLogisticRegression(prior=Normal()) for _ in range(2))
    for part in range(3):
        path = Path(files).with_name(f"part-{part}.parquet")
        stored.partial_fit(ParquetRows(path, target="label", features=["a", "b"]))
        rows = frame[part * N // 3 : (part + 1) * N // 3]
        memory.partial_fit(rows[["a", "b"]], rows["label"])
    np.testing.assert_allclose(stored.posterior_.mean, memory.posterior_.mean, rtol=1e-8)  # two ways to one mode
    np.testing.assert_allclose(stored.posterior_.cov, memory.posterior_.cov, rtol=1e-6)  # by sums in another order


@pytest.mark.parametrize("likelihood", ["logit", "Poisson", "softmax"])
def test_covariances_of_files_are_those_of_memory(likelihood: str, tmp_path: Path) -> None:
    """Samples differ, and with them the ways to the mode; what is found there is to be the same to 1e-10."""
    rng = np.random.default_rng(0)
    X, trust = rng.normal(size=(60_000, 8)), rng.uniform(0.2, 3, 60_000)
    score = X @ rng.normal(size=8) / 3
    target = {
        "logit": (score + rng.logistic(size=len(X)) > 0).astype(int),
        "Poisson": rng.poisson(np.exp(score / 2)),
        "softmax": np.argmax(np.stack([0 * score, score, -score], 1) + rng.gumbel(size=(len(X), 3)), axis=1),
    }[likelihood]
    table = pd.DataFrame(X, columns=list("abcdefgh")).assign(y=target, trust=trust)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=13_000)

    def model() -> Any:
        return BayesianGLM("poisson", prior=None) if likelihood == "Poisson" else BayesianLogisticRegression(prior=None)

    here = model().fit(X, target, sample_weight=trust).posterior_
    there = model().fit(ParquetRows(tmp_path, target="y", weight="trust")).posterior_
    np.testing.assert_allclose((there.mean - here.mean) / here.std, 0, atol=1e-10)
    np.testing.assert_allclose(there.std**2, here.std**2, rtol=1e-10)
