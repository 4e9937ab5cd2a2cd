"""What goes wrong with files, and what is said about it."""

import io
import json
import os
import pickle
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline

from credibly import BayesianLogisticRegression, GaussianProcessClassifier, LinearDiscriminant, ModelAverage, Normal
from credibly.errors import FileWriteError, InputError, ModelFileError
from credibly.kernels import RBF, Kernel
from credibly.persistence import header, load, save
from persistence.cases import CASES
from persistence.forge import archive_of, contents_of, edited, written

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.5], [3.0, 0.5], [4.0, 1.0], [5.0, 2.0]])
Y = np.array(["no", "yes", "no", "yes", "no", "yes"])
LOGISTIC = "credibly.estimators.linear:BayesianLogisticRegression"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "model.credibly"
    save(BayesianLogisticRegression(prior=Normal(1.0)).fit(X, Y), path)
    return path.read_bytes()


def said(path):
    """The one error that both readers give."""
    messages = []
    for read in (load, header):
        with pytest.raises(ModelFileError) as caught:
            read(path)
        messages.append(str(caught.value))
    assert messages[0] == messages[1] and messages[0].startswith(f"Cannot load {path}: ")
    return messages[0]


# --- loading -----------------------------------------------------------------------------------------------------


def test_what_is_no_model_file_is_named(tmp_path):
    np.savez(tmp_path / "arrays.npz", a=np.arange(3))
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "text")
    assert "there is no such file" in said(tmp_path / "nothing.credibly")
    assert "it is not a file" in said(tmp_path)
    assert "it is empty" in said(written(tmp_path, b""))
    assert "it is a pickle, which is never opened" in said(written(tmp_path, pickle.dumps({"a": 1})))
    for name in ("arrays.npz", "other.zip"):
        assert "it is not a model file of credibly, or it has been damaged" in said(tmp_path / name)
    for data in (b"a,b\n1,2\n", b"\x00", b"PK", b"0" * 64, bytes(range(256)) * 20):
        assert "it is not a model file" in said(written(tmp_path, data))


def test_every_file_that_is_cut_off_is_damaged(tmp_path, good):
    for end in {1, 30, 100, len(good) // 2, *range(len(good) - 300, len(good))}:
        assert "damaged" in said(written(tmp_path, good[:end])) or end == 1


@pytest.mark.parametrize("path", [it for it in ("/dev/zero", "/dev/null", "/dev/random") if os.path.exists(it)])
def test_a_device_is_not_read_for_ever(path):
    assert "it is not a file" in said(path)


def test_a_file_that_may_not_be_read(tmp_path, good, monkeypatch):
    path = written(tmp_path, good)

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)
    assert "Permission denied" in said(path)


def test_a_newer_format_asks_for_an_upgrade(tmp_path, good):
    message = said(written(tmp_path, archive_of(contents_of(good), version=12)))
    assert "newer release" in message and "format 12" in message and "pip install --upgrade credibly" in message


def test_what_another_release_wrote_is_loaded_or_its_release_is_named(tmp_path, good):
    def renamed(whole):
        whole["versions"]["credibly"] = "9.0"
        whole["object"] = {"credibly.estimators.oracles:Oracle": {}}

    def lacking(whole):
        whole["versions"]["credibly"] = "0.0.9"
        del whole["object"][LOGISTIC]["verbose"]

    assert (
        load(written(tmp_path, edited(good, lambda whole: whole["versions"].update(credibly="9.0")))).classes_[0]
        == "no"
    )
    with pytest.raises(
        ModelFileError, match=r"oracles:Oracle', which this release does not know; credibly 9.0 wrote it"
    ):
        load(written(tmp_path, edited(good, renamed)))
    with pytest.raises(ModelFileError, match=r"lacks its field 'verbose'; credibly 0.0.9 wrote it, and this is"):
        load(written(tmp_path, edited(good, lacking)))


@pytest.mark.parametrize("part", ["class", "versions", "object"])
def test_a_header_without_a_part(tmp_path, good, part):
    assert "lacks what save() writes" in said(written(tmp_path, edited(good, lambda whole: whole.pop(part))))


def test_a_file_with_labels_of_pandas_asks_for_pandas(tmp_path, monkeypatch):
    save(CASES["NaiveBayes on a mixed frame"]().model, tmp_path / "model")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModelFileError, match="pip install pandas"):
        load(tmp_path / "model")


# --- saving ------------------------------------------------------------------------------------------------------


class Strange(RBF):
    """A kernel of one's own."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BayesianLogisticRegression(), "has not been fitted"),
        (make_pipeline(BayesianLogisticRegression()), "has not been fitted"),
        (ModelAverage([]), "has not been fitted"),
        (np.zeros(3), "takes a fitted model.*numpy.ndarray"),
        ({"model": 1}, "takes a fitted model.*builtins.dict"),
        (KMeans(), "takes a fitted model.*sklearn.cluster"),
        (BayesianLogisticRegression, "got the class credibly.*BayesianLogisticRegression"),
        (pd.DataFrame(), "takes a fitted model.*pandas"),
    ],
)
def test_what_is_no_fitted_model_is_refused(tmp_path, model, message):
    with pytest.raises(InputError, match=message):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_class_of_ones_own_is_refused_by_its_place(tmp_path):
    model = GaussianProcessClassifier(Strange(), optimize=False).fit(X, Y)
    assert isinstance(model.kernel, Kernel)
    with pytest.raises(InputError, match=r"Cannot save GaussianProcessClassifier\.kernel, a .*Strange: .*pickle"):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_pipeline_with_a_cache_or_a_foreign_step_is_refused(tmp_path):
    model = make_pipeline(LinearDiscriminant(), memory=str(tmp_path)).fit(X, Y)
    with pytest.raises(InputError, match=r"memory of a Pipeline is not None"):
        save(model, tmp_path / "model")
    model = make_pipeline(KMeans(2, random_state=0, n_init=1), LinearDiscriminant()).fit(X, Y)
    with pytest.raises(InputError, match=r"Cannot save Pipeline\.steps\[0\]\[1\], a sklearn\.cluster"):
        save(model, tmp_path / "model")


def test_names_that_are_taken_and_folders_that_are_not_there(tmp_path):
    model, path = CASES["LinearDiscriminant, default"]().model, tmp_path / "model"
    save(model, path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="exists already"):
        save(model, path, overwrite=False)
    save(model, path)
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="does not exist"):
        save(model, tmp_path / "no folder" / "model")
    with pytest.raises(InputError, match="is a folder"):
        save(model, tmp_path)


def test_a_full_disk_is_an_oserror_and_leaves_the_old_file(tmp_path, monkeypatch):
    """Here a writer that fails; tests/reliability fills a real disk, and kills the writer at every line."""
    path = tmp_path / "model"
    save(CASES["LinearDiscriminant, default"]().model, path)
    before = path.read_bytes()

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.lib.format.write_array", full)
    with pytest.raises(FileWriteError, match=f"Cannot write {path}: No space left.*Free some space") as caught:
        save(CASES["QuadraticDiscriminant, default"]().model, path)
    assert isinstance(caught.value, OSError) and isinstance(caught.value, ValueError)
    assert path.read_bytes() == before and [it.name for it in tmp_path.iterdir()] == ["model"]


# --- the file, with other tools ----------------------------------------------------------------------------------


def test_any_zip_tool_and_numpy_read_a_file(tmp_path, good):
    path = written(tmp_path, good)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        whole = json.loads(archive.read("header.json"))
    assert whole["object"][LOGISTIC]["prior"]["credibly.model.priors:Normal"]["scale"] == 1.0
    with np.load(path, allow_pickle=False) as arrays:
        assert [name for name in arrays.files if name != "header.json"] == [
            f"arrays/{k}" for k in range(len(arrays) - 1)
        ]
        assert all(arrays[name].dtype != object for name in arrays.files if name != "header.json")


def test_the_checksum_is_the_one_that_others_compute(good):
    assert zipfile.ZipFile(io.BytesIO(archive_of(contents_of(good)))).comment in good
