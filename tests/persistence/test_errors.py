"""What goes wrong with files, and what is said about it."""

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
from credibly.errors import InputError, ModelFileError
from credibly.kernels import RBF, Kernel
from credibly.persistence import header, load, save
from persistence.cases import CASES
from persistence.forge import SEAL, archive_of, edited, members, resealed, written

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.5], [3.0, 0.5], [4.0, 1.0], [5.0, 2.0]])
Y = np.array(["no", "yes", "no", "yes", "no", "yes"])


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


def test_a_file_that_is_not_there(tmp_path):
    assert "no such file" in said(tmp_path / "nothing.credibly")


def test_a_folder(tmp_path):
    assert "folder" in said(tmp_path)


def test_an_empty_file(tmp_path):
    assert "empty" in said(written(tmp_path, b""))


@pytest.mark.parametrize("data", [b"a,b\n1,2\n", b"\x00", b"PK", SEAL, b"0" * 64, os.urandom(5000)])
def test_something_else(tmp_path, data):
    assert "not a model file" in said(written(tmp_path, data))


def test_a_pickle_is_named_and_not_opened(tmp_path):
    assert "pickle" in said(written(tmp_path, pickle.dumps({"a": 1})))


def test_another_zip_archive(tmp_path):
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")
    assert "not a model file, or it has been damaged or cut off" in said(path)


def test_an_archive_of_numpy(tmp_path):
    np.savez(tmp_path / "arrays.npz", a=np.arange(3))
    assert "not a model file" in said(tmp_path / "arrays.npz")


@pytest.mark.parametrize("length", [1, 30, 100, -1, -64, -65, -100, 0.5])
def test_a_file_cut_off(tmp_path, good, length):
    end = int(len(good) * length) if isinstance(length, float) else length
    assert "cut off" in said(written(tmp_path, good[:end])) or length == 1


def test_a_file_with_something_appended(tmp_path, good):
    assert "cut off" in said(written(tmp_path, good + b"\n"))


def test_a_flipped_bit_anywhere(tmp_path, good):
    for at in (0, 7, 40, len(good) // 2, len(good) - 100, len(good) - 70, len(good) - 1):
        damaged = bytearray(good)
        damaged[at] ^= 1
        message = said(written(tmp_path, bytes(damaged)))
        assert "checksum is wrong" in message or "damaged" in message


def test_a_file_that_may_not_be_read(tmp_path, good, monkeypatch):
    path = written(tmp_path, good)

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)
    assert "Permission denied" in said(path)


@pytest.mark.parametrize("where", ["seal", "header"])
def test_a_newer_format_asks_for_an_upgrade(tmp_path, good, where):
    if where == "seal":
        data = archive_of(list(members(good).items()), seal=b"credibly model 12 sha256 ")
    else:
        data = edited(good, lambda whole: whole.update(format=12))
    message = said(written(tmp_path, data))
    assert "newer release" in message and "format 12" in message and "pip install --upgrade credibly" in message


def test_a_class_of_the_future_asks_for_an_upgrade(tmp_path, good):
    def rename(whole):
        whole["object"] = {"model.Oracle": {}}

    path = written(tmp_path, edited(good, rename))
    with pytest.raises(ModelFileError, match=r"'model.Oracle', which this release does not know.*upgrade"):
        load(path)


def test_a_failed_checksum_comes_before_the_format(tmp_path, good):
    damaged = good.replace(b"credibly model 1", b"credibly model 2")
    assert "checksum is wrong" in said(written(tmp_path, damaged))


@pytest.mark.parametrize("part", ["format", "class", "versions", "arrays", "object"])
def test_a_header_without_a_part(tmp_path, good, part):
    said(written(tmp_path, edited(good, lambda whole: whole.pop(part))))


def test_a_file_of_another_release_may_lack_new_fields_only(tmp_path, good):
    """As when this release had given the estimator a new parameter."""

    def older(whole):
        whole["versions"]["credibly"] = "0.0.9"
        del whole["object"]["model.BayesianLogisticRegression"]["verbose"]

    def same_release(whole):
        del whole["object"]["model.BayesianLogisticRegression"]["verbose"]

    model = load(written(tmp_path, edited(good, older)))
    assert model.verbose is False and model.predict(X).shape == (6,)
    with pytest.raises(ModelFileError, match="lacks its field 'verbose'"):
        load(written(tmp_path, edited(good, same_release)))


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
        (Normal(), "an object of the class credibly.model.priors.Normal"),
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
    model = CASES["LinearDiscriminant, default"]().model
    path = tmp_path / "model"
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


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model"
    save(CASES["LinearDiscriminant, default"]().model, path)
    before = path.read_bytes()

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("credibly.persistence.npy.write", full)
    with pytest.raises(InputError, match=f"Cannot write {path}: No space left"):
        save(CASES["QuadraticDiscriminant, default"]().model, path)
    assert path.read_bytes() == before and [it.name for it in tmp_path.iterdir()] == ["model"]


def test_what_could_not_be_loaded_again_is_not_written(tmp_path, monkeypatch):
    """Should a codec ever write what it cannot read."""
    from credibly.persistence import tree

    monkeypatch.setattr(tree, "make", lambda *_args, **_options: 1 / 0)
    with pytest.raises(InputError, match="could not be loaded again"):
        save(CASES["LinearDiscriminant, default"]().model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


# --- the file, with other tools ----------------------------------------------------------------------------------


def test_any_zip_tool_and_numpy_read_a_file(tmp_path, good):
    path = written(tmp_path, good)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        whole = json.loads(archive.read("header.json"))
        assert archive.comment.startswith(b"credibly model 1 sha256 ")
    with np.load(path, allow_pickle=False) as arrays:
        assert len(arrays.files) == len(whole["arrays"]) + 1
        for k, (dtype, shape, order) in enumerate(whole["arrays"]):
            found = arrays[f"arrays/{k}"]
            assert found.dtype.str == dtype and list(found.shape) == shape
            assert found.flags.f_contiguous or order == "C"


def test_the_checksum_is_the_one_that_others_compute(good):
    assert resealed(good) == good
