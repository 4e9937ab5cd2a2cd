"""The command with streams that end, are closed or full: one line, an exit code, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reliability.faults import environment

ROWS = "".join(f"{i % 7},{i % 3},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(300))
LIMIT = 120  # seconds: what takes longer is stuck


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "table.csv"
    path.write_text("a,b,y\n" + ROWS)
    return path


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    from credibly.cli.main import app
    from credibly.cli.shell import run_app

    path = table.with_name("model.credibly")
    assert run_app(app, ["fit", str(table), "--target", "y", "--prior", "normal:2", "--out", str(path)]) == 0
    return path


def shell(line: str, buffered: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a line of shell, in which `credibly` is the command."""
    command = f"{sys.executable} -m credibly"
    more = {"PYTHONUNBUFFERED": "" if buffered else "1"}
    text = f'set -o pipefail; credibly() {{ {command} "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", text], capture_output=True, text=True, timeout=LIMIT, env=environment(**more), check=False
    )


def one_line(done: Any, message: str) -> None:
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


FULL = "Cannot write to standard output: No space left on device. Free some space or choose another place."


@pytest.mark.parametrize("more", [pytest.param("", marks=pytest.mark.slow), "--json"], ids=["text", "json"])
def test_a_reader_that_has_seen_enough_is_no_error(model, more):
    done = shell(f"credibly show {model} {more} | true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_reader_of_predictions_that_has_seen_enough_is_no_error(model, table):
    done = shell(f"credibly predict {model} {table} 2>/dev/null | head -1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith('"prediction"') and len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("more", [pytest.param("", marks=pytest.mark.slow), "--json"], ids=["text", "json"])
def test_a_standard_output_that_is_full_is_one_line(model, more):
    done = shell(f"credibly show {model} {more} > /dev/full")
    assert done.returncode == 2
    one_line(done, f"credibly show: {FULL}")


@pytest.mark.slow
def test_predictions_to_a_closed_standard_output_are_refused(model, table):
    done = shell(f"credibly predict {model} {table} >&-")
    assert done.returncode == 2
    one_line(done, "credibly predict: Cannot write to standard output: it is closed.")


def test_without_an_error_stream_predictions_are_as_ever(model, table):
    """What would be said there is not said among the results."""
    closed = shell(f"credibly predict {model} {table} 2>&-")
    lines = closed.stdout.splitlines()
    assert closed.returncode == 0 and len(lines) == 301
    assert {line.count(",") for line in lines} == {4}


@pytest.mark.slow
def test_without_any_stream_a_file_is_written_as_ever(model, table, tmp_path):
    done = shell(f"credibly predict {model} {table} --out {tmp_path / 'out.csv'} <&- >&- 2>&-")
    assert done.returncode == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 301
    assert os.listdir(tmp_path) == ["out.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "unbuffered"])
def test_other_streams_that_end_or_are_closed(model, table, buffered, tmp_path):
    done = shell("credibly --help | true", buffered)
    assert "Traceback" not in done.stderr
    done = shell("credibly --help > /dev/full", buffered)
    assert done.returncode == 2
    one_line(done, "credibly: No space left on device.")
    done = shell("credibly fit - --target y <&-", buffered)
    assert done.returncode == 2
    one_line(done, "credibly fit: standard input is empty")
    done = shell(f"credibly show {model} >&-", buffered)
    assert (done.returncode, done.stderr) == (0, "")
    done = shell(f"credibly predict {model} {table} > /dev/full", buffered)
    assert done.returncode == 2
    one_line(done, f"credibly predict: {FULL}")
    done = shell(f"credibly demo --out {tmp_path / 'demo.html'} | head -3", buffered)
    assert (done.returncode, done.stderr) == (0, "")
    # Whether the reader was gone before the page was written depends on who is faster; half a page is none.
    assert all((tmp_path / name).read_text().rstrip().endswith("</html>") for name in os.listdir(tmp_path))


def test_names_that_cannot_be_written_to_are_told_before_any_work(model, table, tmp_path, capsys):
    from credibly.cli.main import app
    from credibly.cli.shell import run_app

    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "taken.csv").write_text("mine")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop")
    for name, message in {
        "loop.csv": "it is not a regular file",
        "folder.csv": "it is a folder",
        "pipe.csv": "it is not a regular file",
        "no/out.csv": "does not exist",
        "taken.csv/out.csv": "does not exist",
    }.items():
        for command in (
            ["fit", str(table), "--target", "y", "--force", "--out"],
            ["predict", str(model), str(table), "--force", "--out"],
            ["report", str(table), "--target", "y", "--force", "--out"],
            ["demo", "--force", "--out"],
        ):
            assert run_app(app, [*command, str(tmp_path / name)]) == 2
            said = capsys.readouterr()
            assert said.err.startswith(f"credibly {command[0]}: Cannot write {tmp_path / name}: ")
            assert message in said.err and len(said.err.splitlines()) == 1
    assert (tmp_path / "taken.csv").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["folder.csv", "loop", "loop.csv", "pipe.csv", "taken.csv"]


def test_files_to_read_that_are_loops_are_one_line(model, table, tmp_path, capsys):
    from credibly.cli.main import app
    from credibly.cli.shell import run_app

    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for command in (["fit", str(loop), "--target", "y"], ["show", str(loop)], ["predict", str(loop), str(table)]):
        assert run_app(app, command) == 2
        said = capsys.readouterr()
        assert str(loop) in said.err and len(said.err.splitlines()) == 1
