"""A disk that is full: one error that names the file, the old file as it was, and nothing partial beside it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from credibly import BayesianLogisticRegression, GaussianProcessClassifier, save
from credibly.data.files import written_whole
from credibly.errors import InputError
from credibly.report import Report
from reliability.faults import Faults, server

OLD = b"what was there before"
WRITERS = {
    "save_model": "out.credibly",
    "save_page": "out.html",
    "predict_parquet": "out.parquet",
    "predict_csv": "out.csv",
    "command_fit": "out",
    "command_predict_csv": "out.csv",
    "command_predict_gz": "out.csv.gz",
    "command_predict_parquet": "out.parquet",
}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory):
    yield from server(tmp_path_factory.mktemp("faults"))


def full(faults: Faults, scenario: str, final: str, folder: Path, moments: int) -> None:
    """The write fails in the kernel, after every share of the bytes."""
    new = faults.undisturbed(scenario, folder)["files"][final]
    (folder / final).write_bytes(OLD)
    sizes = [len(new) // 2 * k // moments for k in range(moments)]
    for found in faults.ask(scenario, folder, [{"bytes": size} for size in sizes]):
        assert found["end"] == 2, found
        said = found["error"] if "error" in found else found["result"]["said"]
        assert f"Cannot write {folder / final}: File too large. Free some space or choose another place." in said
        assert len(said.strip().splitlines()) == 1
        assert found["files"] == {final: OLD.hex()}, found["fault"]


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "final"), WRITERS.items())
def test_a_write_that_fails_at_any_byte_leaves_the_old_file(faults, scenario, final, tmp_path):
    full(faults, scenario, final, tmp_path, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "final"), [*WRITERS.items(), ("report", "out.html")])
def test_so_it_does_at_many_bytes(faults, scenario, final, tmp_path):
    full(faults, scenario, final, tmp_path, 4 if scenario == "report" else 40)


# --- a disk that really is full, where one can be made --------------------------------------------------------------


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Half a megabyte; False where this process may not mount (then a write of as many bytes fails by a limit)."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    try:
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def half_a_megabyte(folder: Path) -> Iterator[None]:
    """Files in this folder find half a megabyte of space, whatever this machine allows."""
    import resource

    with small_disk(folder) as mounted:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        if not mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, before[1]))  # Python ignores the signal of that
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def large_model() -> GaussianProcessClassifier:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    return GaussianProcessClassifier(optimize=False).fit(X, X[:, 0] > 0)


def writers(fitted: Any, many: np.ndarray) -> dict[str, Any]:
    return {
        "save": lambda path: save(fitted, path),
        "Report.save": Report("A page", "<p>" * 300_000).save,
        "predict_to.csv": lambda path: fitted.predict_to(many, path, overwrite=True),
        "predict_to.parquet": lambda path: fitted.predict_to(many, path, overwrite=True),
    }


def test_a_small_disk_that_is_full_is_told_and_keeps_what_it_had(tmp_path):
    rng = np.random.default_rng(1)
    linear = BayesianLogisticRegression().fit(rng.normal(size=(400, 260)), rng.integers(2, size=400))
    many = rng.normal(size=(20_000, 260))
    with half_a_megabyte(tmp_path):
        for name, write in (writers(linear, many) | {"save a process": lambda path: save(large_model(), path)}).items():
            path = tmp_path / name.replace(" ", "-")
            path.write_bytes(OLD)
            with pytest.raises(InputError, match=f"Cannot write {path}: .*Free some space"):
                write(path)
            assert {it.name: it.read_bytes() for it in tmp_path.iterdir()} == {path.name: OLD}, name
            path.unlink()


def test_a_checkpoint_on_a_full_disk_is_told_and_the_fit_goes_on_with_space(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(600, 200)), rng.integers(2, size=600)
    whole = BayesianLogisticRegression(n_jobs=1).fit(X, y)
    (tmp_path / "small").mkdir()
    path = tmp_path / "small" / "fit.checkpoint"
    with half_a_megabyte(tmp_path / "small"):
        with pytest.raises(InputError, match=f"Cannot write {path}: .*the same call of fit goes on"):
            BayesianLogisticRegression(n_jobs=1).fit(X, y, resume=path)
        kept = path.read_bytes()
    roomy = tmp_path / "fit.checkpoint"
    roomy.write_bytes(kept)
    assert len(kept) > 1 << 18
    again = BayesianLogisticRegression(n_jobs=1).fit(X, y, resume=roomy)
    np.testing.assert_allclose(again.posterior_.mean, whole.posterior_.mean, rtol=1e-10)
    assert not roomy.exists()


# --- names that cannot be written to --------------------------------------------------------------------------------


def test_a_link_that_leads_back_to_itself_is_told(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for name in ("a", "b"):
        with pytest.raises(InputError, match="it is not a regular file"), written_whole(tmp_path / name):
            pytest.fail("the block must not run")
    with pytest.raises(InputError, match=r"folder .* does not exist"), written_whole(tmp_path / "a" / "x"):
        pytest.fail("the block must not run")


def test_a_link_to_nothing_makes_what_it_points_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with written_whole(tmp_path / "link") as part:
        part.write_text("new")
    assert (tmp_path / "target").read_text() == "new" and (tmp_path / "link").is_symlink()
    (tmp_path / "far").symlink_to(tmp_path / "no" / "target")
    with pytest.raises(InputError, match=r"Cannot write .*far: No such file"), written_whole(tmp_path / "far"):
        pytest.fail("the block must not run")


def test_a_folder_that_may_not_be_written_to_is_told_by_the_name_of_the_file(tmp_path, monkeypatch):
    """Root may write anywhere: what the kernel would say to others is said here."""
    touch = Path.touch

    def denied(self, *args, **options):
        if self.parent == tmp_path:
            raise PermissionError(13, "Permission denied", str(self))
        touch(self, *args, **options)

    monkeypatch.setattr(Path, "touch", denied)
    model = BayesianLogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    for write in (lambda path: save(model, path), lambda path: model.predict_to([[1.0]], path)):
        path = tmp_path / "out.csv"
        with pytest.raises(InputError, match=f"Cannot write {path}: Permission denied. Choose another place."):
            write(path)
        assert list(tmp_path.iterdir()) == []


def test_a_long_name_of_wide_letters_is_written(tmp_path):
    path = tmp_path / ("𝛼" * 60)  # 240 of the 255 bytes that a name may have
    with written_whole(path) as part:
        part.write_text("new")
    assert path.read_text() == "new"
