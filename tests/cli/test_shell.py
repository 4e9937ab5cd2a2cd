"""What every command does alike: exit codes, one line per error, JSON, notes."""

import json
import subprocess
import sys
import warnings
from typing import Annotated, NamedTuple

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from credibly.cli.shell import Outcome, add_command, plain
from credibly.errors import DataWarning, InputError


class Group(NamedTuple):
    size: Annotated[int, typer.Option("--size")] = 3
    word: Annotated[str | None, typer.Option("--word")] = None


def app_of(function):
    app = typer.Typer(pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    add_command(app, "work")(function)
    return app


def run(function, *arguments):
    return CliRunner().invoke(app_of(function), ["work", *arguments])


DEFAULT = Group()


def work(name: Annotated[str, typer.Argument()], group: Group = DEFAULT, loud: bool = False) -> Outcome:
    return Outcome({"name": name, "size": group.size, "nan": np.nan}, f"{name} {group.word} {loud}")


def test_text_for_people():
    done = run(work, "it", "--word", "w", "--loud")
    assert (done.exit_code, done.stdout) == (0, "it w True\n")


def test_one_object_for_scripts():
    done = run(work, "it", "--size", "5", "--json")
    assert json.loads(done.stdout) == {
        "command": "work",
        "inputs": {"name": "it", "size": 5},
        "result": {"name": "it", "size": 5, "nan": None},
    }


def failing(error):
    def fail() -> Outcome:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("the file\n  is bad"), 2, "credibly work: the file is bad\n"),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "credibly work: x.csv: No such file"),
        (KeyboardInterrupt(), 130, "credibly work: Interrupted. No file was left half-written."),
        (ZeroDivisionError("oh"), 1, "credibly work: Unexpected ZeroDivisionError: oh"),
        (ImportError("no pyarrow"), 2, "pip install 'credibly[cli]'"),
    ],
    ids=["input", "file", "interrupt", "fault", "extra"],
)
def test_errors_are_one_line_and_have_their_exit_code(error, code, message):
    done = run(failing(error))
    assert done.exit_code == code
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_errors_for_scripts():
    done = run(failing(InputError("bad")), "--json")
    assert json.loads(done.stdout) == {"command": "work", "inputs": {}, "error": "bad"}


def test_debug_shows_where():
    done = run(failing(InputError("bad")), "--debug")
    assert "Traceback" in done.stderr
    assert done.exit_code == 2


def test_a_wrong_option_is_a_usage_error():
    assert run(work, "it", "--sise", "5").exit_code == 2
    assert run(work, "it", "--size", "five").exit_code == 2


def warning() -> Outcome:
    for _ in range(2):
        warnings.warn("levels are new", DataWarning, stacklevel=1)
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    return Outcome({}, "done")


def test_warnings_are_notes_said_once():
    done = run(warning)
    assert done.stderr == "note: levels are new\n"
    assert done.stdout == "done\n"
    assert json.loads(run(warning, "--json").stdout)["result"] == {"warnings": ["levels are new"]}


def test_plain_values():
    found = plain({1: np.float64(2.5), "a": np.array([1, np.inf]), "b": (True, None, np.int64(3)), "c": {2j}})
    assert found == {"1": 2.5, "a": [1.0, None], "b": [True, None, 3], "c": ["2j"]}


STOPPED_WHILE_IMPORTING = """
import sys

class Stop:
    def find_spec(self, name, *where):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Stop())
from credibly.__main__ import run
run()
"""


def test_ctrl_c_while_the_command_is_imported_is_one_line():
    ran = subprocess.run([sys.executable, "-c", STOPPED_WHILE_IMPORTING], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr == "credibly: Interrupted. No file was left half-written.\n"
