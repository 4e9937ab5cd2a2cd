"""What is said of rows that are not in memory, where that helps."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    GaussianProcessClassifier,
    LeastSquaresClassifier,
    LinearDiscriminant,
    Normal,
    ParquetRows,
)
from credibly.errors import InputError, TableError

N = 60
FEATURES = ["a", "b"]


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 2)), columns=FEATURES)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N) % 3, "D")
    return frame.assign(y=np.arange(N) % 2, day=days, raw=[b"no", b"yes"] * (N // 2))


@pytest.fixture
def path(frame: pd.DataFrame, tmp_path: Path) -> Path:
    frame.to_parquet(tmp_path / "data.parquet")
    return tmp_path / "data.parquet"


def fitted(frame: pd.DataFrame) -> BayesianLogisticRegression:
    return BayesianLogisticRegression(prior=Normal()).fit(frame[FEATURES], frame["y"])


def test_a_gaussian_process_of_files_or_clusters_is_refused_with_what_to_do(frame: pd.DataFrame, path: Path) -> None:
    with pytest.raises(InputError, match=r"ParquetRows is not in memory.* learn by sums .*a sample of the rows"):
        GaussianProcessClassifier().fit(ParquetRows(path, "y", FEATURES))
    with pytest.raises(InputError, match=r"Dask Array, which is not in memory.*X\.compute\(\)") as told:
        GaussianProcessClassifier().fit(da.from_array(frame[FEATURES].to_numpy(), chunks=(20, 2)), frame["y"])
    assert "file" not in str(told.value)
    with pytest.raises(ValueError, match="requires y to be passed"):
        GaussianProcessClassifier().fit(frame[FEATURES])


@pytest.mark.parametrize(
    "model",
    [
        BayesianLogisticRegression(prior=Normal()),
        BayesianGLM("bernoulli", prior=Normal()),
        LeastSquaresClassifier(),
        LinearDiscriminant(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_score_of_files_is_refused_with_what_to_do(model: Any, frame: pd.DataFrame, path: Path) -> None:
    rows = ParquetRows(path, "y", FEATURES)
    model.fit(rows)
    with pytest.raises(InputError, match=r"ParquetRows is not in memory.*predict_to"):
        model.score(rows)
    with pytest.raises(InputError, match=r"y is missing: score\(X, y\)"):
        model.score(frame[FEATURES])
    assert model.score(frame[FEATURES], frame["y"]) == pytest.approx(
        model.score(frame[FEATURES], frame["y"], np.ones(N)), rel=1e-12
    )


@pytest.mark.parametrize("model", [LinearDiscriminant(), LeastSquaresClassifier()], ids=lambda it: type(it).__name__)
def test_a_model_of_few_passes_has_nothing_to_resume(model: Any, path: Path) -> None:
    with pytest.raises(InputError, match=r"resume= is for linear classifiers and GLMs.*needs a pass or two"):
        model.fit(ParquetRows(path, "y", FEATURES), resume="record")


@pytest.mark.parametrize("name", ["day", "raw"])
def test_a_column_that_can_only_be_the_target_is_advised_to_be_it(path: Path, name: str) -> None:
    with pytest.raises(TableError, match=rf"if it is the target, say so: target='{name}'"):
        ParquetRows(path, features=[*FEATURES, name])
    assert len(LinearDiscriminant().fit(ParquetRows(path, name, FEATURES)).classes_) > 1


def test_dates_are_no_targets_of_a_regression(path: Path) -> None:
    with pytest.raises(InputError, match="The target holds dates or times"):
        BayesianGLM("gaussian").fit(ParquetRows(path, "day", FEATURES))


def test_a_path_in_the_place_of_rows_is_told_how_to_become_them(frame: pd.DataFrame, path: Path) -> None:
    for given in (path, str(path)):
        with pytest.raises(
            InputError, match=r"expected rows. For Parquet files: predict_to\(ParquetRows\('.*data.parq"
        ):
            fitted(frame).predict_to(given, path.with_name("out.parquet"))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("level", [None, 0.9])
def test_predictions_of_no_rows_are_a_file_with_columns(
    frame: pd.DataFrame, path: Path, ending: str, level: float | None
) -> None:
    model, out = fitted(frame), path.with_name(f"out.{ending}")
    frame[:0].to_parquet(path.with_name("none.parquet"))
    read = pd.read_parquet if ending == "parquet" else pd.read_csv
    assert model.predict_to(ParquetRows(path.with_name("none.parquet"), features=FEATURES), out, level=level) == 0
    none = read(out)
    assert model.predict_to(ParquetRows(path, features=FEATURES), out, level=level, overwrite=True) == N
    assert len(none) == 0
    assert none.columns.tolist() == read(out).columns.tolist()
    assert ending == "csv" or none.dtypes.tolist() == read(out).dtypes.tolist()
