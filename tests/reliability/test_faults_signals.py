"""Ctrl-C and kill at many moments: a file is the old one or the new one, whole, and a stopped fit can be taken up."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reliability.faults import WRITING, Faults, every, server

CREDIBLY = ("src/credibly/", "site-packages/credibly/")
OLD = b"what was there before"
WRITERS = {
    "save_model": "out.credibly",
    "save_page": "out.html",
    "predict_parquet": "out.parquet",
    "predict_csv": "out.csv",
}
COMMANDS = {
    "command_fit": "out",
    "command_predict_csv": "out.csv",
    "command_predict_gz": "out.csv.gz",
    "command_predict_parquet": "out.parquet",
}
KILLED, INTERRUPTED = -9, 130
SOME, ALL = 5, None  # moments of one piece of work in the usual run, and in the slow one


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory):
    yield from server(tmp_path_factory.mktemp("faults"))


def is_part(name: str, final: str) -> bool:
    return name.startswith(f".{final}.") and name.endswith(".part")


def check_files(found: dict[str, Any], final: str, new: str, *, parts: bool) -> None:
    """The file is the old one or the new one; beside it there is nothing, or what a killed process may leave."""
    assert found["files"].get(final) in {OLD.hex(), new}, found["fault"]
    beside = [name for name in found["files"] if name != final]
    if parts:
        assert all(is_part(name, final) for name in beside) and len(beside) <= 1, (found["fault"], beside)
    else:
        assert beside == [], (found["fault"], beside)


def sweep(faults: Faults, scenario: str, final: str, folder: Path, most: int | None) -> None:
    new = faults.undisturbed(scenario, folder)["files"][final]
    (folder / final).write_bytes(OLD)
    lines = faults.undisturbed(scenario, folder, WRITING)["lines"]
    for found in faults.ask(scenario, folder, every(lines, WRITING, "SIGKILL", most)):
        assert found["end"] == KILLED
        check_files(found, final, new, parts=True)
    for found in faults.ask(scenario, folder, every(lines, WRITING, "SIGINT", most)):
        assert found["end"] == INTERRUPTED, found
        check_files(found, final, new, parts=False)
        if "result" in found:
            assert found["result"]["said"].splitlines() == [said(scenario)]
    sizes = [len(new) // 2 * k // 3 for k in range(3)]  # the kernel kills whoever writes a byte beyond
    for found in faults.ask(scenario, folder, [{"bytes": size, "signal": "SIGXFSZ"} for size in sizes]):
        assert found["end"] == -25, found
        check_files(found, final, new, parts=True)


def said(scenario: str) -> str:
    return f"credibly {scenario.split('_')[1]}: Interrupted. No file was left half-written."


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "final"), [*WRITERS.items(), *list(COMMANDS.items())[:2]])
def test_a_file_is_the_old_one_or_the_new_one_whenever_the_writer_ends(faults, scenario, final, tmp_path):
    sweep(faults, scenario, final, tmp_path, SOME)


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "final"), [*WRITERS.items(), *COMMANDS.items()])
def test_so_it_is_at_every_line(faults, scenario, final, tmp_path):
    sweep(faults, scenario, final, tmp_path, ALL)


# --- fits -----------------------------------------------------------------------------------------------------------


def interrupted(faults: Faults, scenario: str, folder: Path, files: tuple[str, ...], most: int) -> None:
    """Work that two threads share: where the other takes up more, this one may be done before the moment comes."""
    lines = faults.undisturbed(scenario, folder, files)["lines"]
    for found in faults.ask(scenario, folder, every(lines, files, "SIGINT", most)):
        came = found["lines"] >= found["fault"]["at"]
        assert found["end"] == (INTERRUPTED if came else 0), found


def test_a_fit_that_was_interrupted_can_be_done_again_in_the_same_process(faults, tmp_path):
    """It is then what it would have been, and BLAS has the threads that it had."""
    interrupted(faults, "fit_again", tmp_path, CREDIBLY, 5)


@pytest.mark.slow
def test_so_it_is_wherever_ctrl_c_comes(faults, tmp_path):
    interrupted(faults, "fit_again", tmp_path, CREDIBLY, 200)


BLAS = ("credibly/data/threads.py",)


def taken_up(faults: Faults, folder: Path, signal: str, most: int) -> None:
    """A recorded fit is stopped, and taken up from what it left, which is taken away when it is done."""
    files = ("credibly/data/checkpoint.py", "credibly/data/archive.py", "credibly/data/files.py")
    whole = faults.undisturbed("resume", folder)["result"]
    lines = faults.undisturbed("fit_recorded", folder, files)["lines"]
    for found in faults.ask("fit_recorded", folder, every(lines, files, signal, most)):
        assert found["end"] == (INTERRUPTED if signal == "SIGINT" else KILLED)
        for name, content in found["files"].items():
            assert name == "fit.checkpoint" or is_part(name, "fit.checkpoint")
            (folder / name).write_bytes(bytes.fromhex(content))
        [resumed] = faults.ask("resume", folder, [{}])
        assert resumed["end"] == 0, resumed
        # Passes that are recorded are the same numbers; those after them are sums in the same order.
        np.testing.assert_allclose(resumed["result"], whole, rtol=1e-12)
        assert "fit.checkpoint" not in resumed["files"]
        for path in folder.iterdir():
            path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL"])
def test_a_recorded_fit_goes_on_wherever_it_was_stopped(faults, signal, tmp_path):
    taken_up(faults, tmp_path, signal, 4)


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL"])
def test_so_it_does_at_many_moments(faults, signal, tmp_path):
    taken_up(faults, tmp_path, signal, 100)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [True, False], ids=["killed", "disk full"])
def test_a_recorded_fit_goes_on_when_there_is_no_room_for_the_next_pass(faults, kill, tmp_path):
    """What is left is the record of the passes before, whole."""
    whole = faults.undisturbed("resume", tmp_path)["result"]
    fault = {"bytes": 10_000} | ({"signal": "SIGXFSZ"} if kill else {})
    [first] = faults.ask("fit_recorded", tmp_path, [fault])
    assert first["end"] == (-25 if kill else 2), first
    left = bytes.fromhex(first["files"]["fit.checkpoint"])
    assert 5_000 < len(left) <= 10_000 and zipfile.ZipFile(io.BytesIO(left)).testzip() is None
    if not kill:
        assert f"Cannot write {tmp_path / 'fit.checkpoint'}: File too large." in first["error"]
        assert "with space, the same call of fit goes on" in first["error"]
        assert list(first["files"]) == ["fit.checkpoint"]
    (tmp_path / "fit.checkpoint").write_bytes(left)
    np.testing.assert_allclose(faults.undisturbed("resume", tmp_path)["result"], whole, rtol=1e-12)


# --- what takes long ------------------------------------------------------------------------------------------------

LONG = {"report": "out.html", "command_report": "out.html", "command_compare": "out", "command_demo": "out.html"}


def stopped(faults: Faults, scenario: str, final: str, folder: Path, most: int) -> None:
    (folder / final).write_bytes(OLD)
    whole = faults.undisturbed(scenario, folder, CREDIBLY)
    for signal, end in (("SIGINT", INTERRUPTED), ("SIGKILL", KILLED)):
        chosen = every(whole["lines"], CREDIBLY, signal, most + 1)[:-1]  # at the last line all is done
        for found in faults.ask(scenario, folder, chosen):
            assert found["end"] == end, found
            check_files(found, final, whole["files"][final], parts=signal == "SIGKILL")
            if "result" in found:
                assert found["result"]["said"].splitlines()[-1] == said(scenario)
                assert "Traceback" not in found["result"]["said"]


@pytest.mark.slow
def test_a_report_that_is_stopped_leaves_the_old_one(faults, tmp_path):
    stopped(faults, "report", "out.html", tmp_path, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "final"), LONG.items())
def test_what_takes_long_is_stopped_at_many_moments(faults, scenario, final, tmp_path):
    stopped(faults, scenario, final, tmp_path, 4 if scenario == "command_demo" else 12)
