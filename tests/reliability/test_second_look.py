"""What a second look at the promise found beside the table: partial fits, stored rows, Dask, certificates, averages."""

import copy
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from credibly import (
    BayesianGLM,
    BayesianLogisticRegression,
    GaussianProcessClassifier,
    LinearDiscriminant,
    ModelAverage,
    NaiveBayes,
    Normal,
    ParquetRows,
    save,
)
from credibly.cli.main import app
from credibly.errors import DataWarning, InputError, UnreliableWarning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] + RNG.normal(size=60) > 0).astype(int)
NAN_CELL = np.where(np.arange(60)[:, None] == 33, np.nan, X)


def fixed() -> BayesianLogisticRegression:
    return BayesianLogisticRegression(prior=Normal())


# --- certificates and averages ------------------------------------------------------------------------------------


def test_rows_that_the_model_holds_impossible_are_not_those_of_the_fit() -> None:
    model = BayesianGLM("poisson").fit(X, Y)
    other = X.copy()
    other[3, 1] = 1e99
    with pytest.warns(DataWarning, match="their log likelihood is -inf"):
        model.certify(other, Y)


@pytest.mark.parametrize("model", [fixed(), GaussianProcessClassifier(optimize=False), BayesianGLM("poisson")])
def test_draws_beyond_the_memory_are_refused(model: Any) -> None:
    with pytest.raises(InputError, match=r"not enough memory: 100,000,000,000 draws of .* Ask for fewer"):
        model.fit(X, Y).certify(X, Y, draws=10**11)


def test_an_average_says_which_models_it_lacks() -> None:
    average = ModelAverage({"good": fixed(), "bad": BayesianLogisticRegression(prior="nonsense")})
    with pytest.warns(UnreliableWarning, match=r"without the models that failed. 'bad': prior must be"):
        average.fit(X, Y)
    assert average.weights_ == {"good": 1.0}


# --- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [fixed(), LinearDiscriminant(), BayesianGLM("poisson")])
@pytest.mark.parametrize("weight", [np.nan, np.inf])
def test_one_weight_for_all_rows_must_be_a_number(model: Any, weight: float) -> None:
    with pytest.raises(InputError, match="sample_weight must be a finite number"):
        model.fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize("model", [fixed(), LinearDiscriminant()])
@pytest.mark.parametrize("classes", [5, "ab", [[0, 1]], [0, np.nan], [None, 1], [0.5, 1.5], [0, np.inf], [[0], [1, 2]]])
def test_classes_are_labels(model: Any, classes: Any) -> None:
    before = dict(vars(model))
    with pytest.raises(InputError, match=r"^classes"):
        model.partial_fit(X, Y, classes=classes)
    assert vars(model) == before


@pytest.mark.parametrize("label", [np.nan, None, pd.NA, [9], (9, 9), -1])
def test_a_class_that_is_added_has_a_label(label: Any) -> None:
    model = LinearDiscriminant(unlabelled=-1).fit(X, Y)
    with pytest.raises(InputError, match="label must be one label"):
        model.add_class(label, X[:3])
    assert copy.copy(model).add_class(9, X[:3]).classes_.tolist() == [0, 1, 9]


def test_a_missing_label_is_not_compared_with_the_marker() -> None:
    labels = np.where(Y == 1, "yes", "no").astype(object)
    with_na, with_none = labels.copy(), labels.copy()
    with_na[3], with_none[3] = pd.NA, None
    one, other = (LinearDiscriminant(unlabelled="?").fit(X, it).predict_proba(X) for it in (with_na, with_none))
    assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("model", [fixed(), BayesianLogisticRegression(inference="exact"), LinearDiscriminant()])
def test_draws_are_counted_and_levels_lie_between_zero_and_one(model: Any) -> None:
    model.fit(X, Y)
    for size in (0, -1, 1.5, "a", None, True):
        with pytest.raises(InputError, match="size must be a whole number of draws"):
            model.sample_proba(X, size=size)
    for level in (None, "a", [0.9], 0.0):
        with pytest.raises(InputError, match="level must lie between 0 and 1"):
            model.summary(level)


def test_names_of_columns_and_files_are_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"a": X[:, 0], "y": Y}).to_parquet(path)
    for choices in ({"target": 5}, {"features": [1]}, {"weight": 2.0}):
        with pytest.raises(InputError, match="must be strings"):
            ParquetRows(path, **choices)
    for rows in ("a", 1.5, 0):
        with pytest.raises(InputError, match="batch_rows must be a positive number"):
            ParquetRows(path, batch_rows=rows)
    for no_path in (None, 5, b"rows.parquet"):
        with pytest.raises(InputError, match="Expected a path"):
            ParquetRows(no_path)
    model = fixed().fit(X, Y)
    for no_path in (None, 5):
        with pytest.raises(InputError, match="Expected the name of a file"):
            model.predict_to(X, no_path)
    with pytest.raises(InputError, match="null character"):
        save(model, tmp_path / "a\0b")


# --- rows in files ------------------------------------------------------------------------------------------------


def stored(folder: Path, table: Any, labels: Any) -> ParquetRows:
    pd.DataFrame(table, columns=list("abc")).assign(y=labels).to_parquet(folder / "rows.parquet")
    return ParquetRows(folder / "rows.parquet", target="y")


@pytest.mark.parametrize("model", [LinearDiscriminant(), NaiveBayes()])
@pytest.mark.parametrize(
    ("labels", "told"), [(X[:, 0], "continuous"), (0.5 * Y, "continuous"), (np.where(Y, np.inf, 0.0), "infinity")]
)
def test_measurements_in_files_are_no_labels(tmp_path: Path, model: Any, labels: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        model.fit(stored(tmp_path, X, labels))


@pytest.mark.parametrize("model", [LinearDiscriminant(), NaiveBayes()])
def test_columns_in_files_whose_variances_underflow_are_refused(tmp_path: Path, model: Any) -> None:
    with pytest.raises(InputError, match="differ by less than 1e-100 in column 'b'"):
        model.fit(stored(tmp_path, X * [1, 1e-300, 1], Y))


@pytest.mark.parametrize("model", [fixed(), LinearDiscriminant()])
def test_labels_in_files_may_be_whole_numbers_of_any_size(tmp_path: Path, model: Any) -> None:
    model.fit(stored(tmp_path, X, Y.astype(np.uint64) + np.uint64(2**63)))
    assert model.classes_.tolist() == [2**63, 2**63 + 1]


# --- a fit that may be resumed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [fixed(), BayesianLogisticRegression(prior=None), BayesianGLM("poisson")])
@pytest.mark.parametrize(("cell", "told"), [(np.nan, "NaN in column 'x1'"), (np.inf, "infinity .inf. in column 'x1'")])
def test_a_refused_fit_says_why_and_leaves_no_record(tmp_path: Path, model: Any, cell: float, told: str) -> None:
    table, record = X.copy(), tmp_path / "record"
    table[3, 1] = cell
    with pytest.raises(InputError, match=told):
        model.fit(table, Y, resume=record)
    assert not record.exists()
    assert_allclose(model.fit(X, Y, resume=record).posterior_.mean, model.fit(X, Y).posterior_.mean, rtol=1e-12)


def test_a_refused_fit_leaves_the_record_of_another(tmp_path: Path) -> None:
    record = tmp_path / "record"
    record.write_bytes(b"of somebody else")
    with pytest.raises(InputError, match="not a checkpoint"):
        fixed().fit(X, Y, resume=record)
    assert record.read_bytes() == b"of somebody else"


# --- rows on a cluster --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["datetime64[D]", "timedelta64[s]", "complex128", "object", "U8"])
def test_dask_arrays_that_are_no_numbers_are_refused(kind: str) -> None:
    da = pytest.importorskip("dask.array")
    table = (100 * X).astype(np.int64).astype(kind)
    for model in (fixed(), LinearDiscriminant()):
        with pytest.raises(InputError, match="expected numbers"):
            model.fit(da.from_array(table, chunks=(20, 3)), Y)
    told_otherwise = da.from_array(X, chunks=(20, 3)).map_blocks(lambda part: part.astype(kind), dtype=float)
    if kind != "datetime64[D]":  # NumPy makes no dates of fractions
        with pytest.raises(InputError, match=r"partition \d: X holds"):
            fixed().fit(told_otherwise, Y)


def test_masked_cells_labels_and_weights_of_dask_are_missing() -> None:
    da = pytest.importorskip("dask.array")
    table, labels = da.from_array(X, chunks=(20, 3)), da.from_array(Y, chunks=20)

    def hidden(values: Any) -> Any:
        return da.from_array(
            np.ma.masked_array(values, mask=np.arange(values.size).reshape(values.shape) == 2), chunks=20
        )

    with pytest.raises(InputError, match="NaN in column 'x2'"):
        fixed().fit(hidden(X), labels)
    with pytest.raises(InputError, match="missing labels"):
        fixed().fit(table, hidden(Y))
    with pytest.raises(InputError, match="sample_weight is nan in row 2"):
        fixed().fit(table, labels, sample_weight=hidden(np.ones(60)))


def test_labels_and_weights_of_dask_are_refused_in_words() -> None:
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    table = da.from_array(X, chunks=(20, 3))
    mixed, tuples = (np.empty(60, dtype=object) for _ in range(2))
    mixed[:], tuples[:] = ["a" if label else 1 for label in Y], [(int(label),) for label in Y]
    for labels, told in ((mixed, "cannot be put in order"), (tuples, "objects of type tuple")):
        with pytest.raises(InputError, match=told):
            LinearDiscriminant().fit(table, da.from_array(labels, chunks=20))
    with pytest.raises(InputError, match="what is no number"):
        BayesianGLM("poisson").fit(table, da.from_array(Y.astype(str), chunks=20))
    with pytest.raises(InputError, match="sample_weight must have one dimension"):
        fixed().fit(table, Y, sample_weight=2.0)
    with pytest.raises(InputError, match=r"sample_weight must hold numbers.*datetime64"):
        fixed().fit(table, Y, sample_weight=np.ones(60).astype("datetime64[D]"))
    with pytest.raises(InputError, match="column 'a' more than once"):
        fixed().fit(dd.from_pandas(pd.DataFrame(X, columns=list("aab")), npartitions=2), Y)


# --- units --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["empirical", "ard", None])
@pytest.mark.parametrize("unit", [1e-80, 1e-12, 1e5, 1e80])
def test_the_unit_of_a_target_changes_nothing(prior: Any, unit: float) -> None:
    target = 300 + X @ [1.0, 0.5, 0.0] + 2 * RNG.normal(size=60)
    one, other = (BayesianGLM(prior=prior).fit(X, scale * target) for scale in (1.0, unit))
    # the dispersion, and with it the scales, is known as well as a flat maximum can be: 1e-7, and where single columns
    # have scales, of which some say little, to what moves no mean by a thousandth of its standard deviation
    assert_allclose(other.predict(X) / unit, one.predict(X), rtol=1e-7 if prior == "ard" else 1e-9)
    if prior is not None:
        assert_allclose(other.log_evidence_, one.log_evidence_ - 60 * np.log(unit), rtol=1e-11)
    assert_allclose(other.dispersion_ / unit**2, one.dispersion_, rtol=1e-6)
    assert_allclose(other.posterior_.std / unit, one.posterior_.std, rtol=1e-5 if prior == "ard" else 1e-6)


def test_the_unit_of_a_target_changes_nothing_on_the_inverse_link() -> None:
    target = np.random.default_rng(1).gamma(5.0, 1 / (1 + 0.1 * np.abs(X[:, 0])))
    one, other = (BayesianGLM("gamma", "inverse").fit(X, scale * target) for scale in (1.0, 1e-8))
    assert_allclose(other.predict(X) * 1e8, one.predict(X), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:partial_fit has drifted")  # as it should say of such a batch
@pytest.mark.parametrize("scale", [1e10, 1e60, 1e90])
def test_ep_after_a_batch_in_other_units_ends_without_a_warning(scale: float) -> None:
    model = BayesianLogisticRegression(prior=Normal(), inference="ep").partial_fit(X, Y)
    model.partial_fit(X * [scale, 1 / scale, 1], Y)
    assert np.isfinite(model.posterior_.mean).all()


def test_a_poisson_model_refuses_a_batch_in_other_units_without_a_warning() -> None:
    model = BayesianGLM("poisson").partial_fit(X, Y)
    with warnings.catch_warnings(), pytest.raises(InputError, match="numerically singular"):
        warnings.simplefilter("error")
        model.partial_fit(X * [1e90, 1e-90, 1], Y)


# --- the command --------------------------------------------------------------------------------------------------

STOPPED_IN_CODE_OF_TEXT = """
import sys

class Stop:
    def find_spec(self, name, *where):
        if name == "typer":
            exec("raise KeyboardInterrupt")

sys.meta_path.insert(0, Stop())
sys.argv = ["credibly", "--version"]
import runpy
runpy.run_module("credibly", run_name="__main__")
"""


def test_ctrl_c_in_code_that_is_made_of_text_ends_with_its_number() -> None:
    ran = subprocess.run([sys.executable, "-c", STOPPED_IN_CODE_OF_TEXT], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "credibly: Interrupted. No file was left half-written.\n")


def test_no_features_is_not_all_features_and_a_long_cell_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": np.where(Y, "yes", "no")}).to_csv(path, index=False)
    ran = CliRunner().invoke(app, ["fit", str(path), "-t", "y", "--features", ""])
    assert (ran.exit_code, ran.stderr) == (2, "credibly fit: Expected names separated by commas; got ''.\n")
    pd.DataFrame({"a": [1e300, *X[1:, 0]], "y": np.where(Y, "yes", "no")}).to_csv(path, index=False)
    ran = CliRunner().invoke(app, ["fit", str(path), "-t", "y"])
    assert ran.exit_code == 2
    assert "the first is row 1: '1000" in ran.stderr
    assert len(ran.stderr) < 250
