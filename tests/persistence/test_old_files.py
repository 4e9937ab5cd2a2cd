"""Files that earlier releases have saved load, and predict what they predicted then."""

import json
import shutil

import numpy as np
import pytest

from credibly import __version__
from credibly.persistence import header, load, save
from persistence.make_files import FILES, SAVED, answer, rows

OLD = sorted(FILES.glob("*/*.credibly"))


def test_this_release_has_saved_its_files():
    """A version without files: run tests/persistence/make_files.py before it is released."""
    assert {path.stem for path in OLD if path.parent.name == __version__} == SAVED.keys()


@pytest.mark.parametrize("path", OLD, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_old_file_predicts_what_it_did(path):
    expected = json.loads(path.with_suffix(".json").read_text(encoding="ascii"))
    model = load(path)
    assert type(model).__name__ == expected["class"] == header(path)["class"]
    assert header(path)["versions"]["credibly"] == path.parent.name
    found = answer(model, rows(expected["X"]))
    # The numbers in the file are exact; another BLAS or libm may round sums of some hundred terms differently.
    np.testing.assert_allclose(found, np.array(expected["answer"]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("path", OLD, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_old_file_can_be_saved_again(path, tmp_path):
    save(load(path), tmp_path / "again")
    first, again = load(path), load(tmp_path / "again")
    X = rows(json.loads(path.with_suffix(".json").read_text(encoding="ascii"))["X"])
    np.testing.assert_array_equal(answer(first, X), answer(again, X))


def test_files_do_not_depend_on_where_they_are(tmp_path):
    moved = shutil.copy(OLD[0], tmp_path / "renamed without an ending")
    assert type(load(moved)) is type(load(OLD[0]))
