"""Text of strangers: shown and not obeyed on a terminal, left as it is in a CSV file, refused in time in a formula."""

import io
import json
import os
import pty
import re
import sys
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from credibly.cli.main import app
from credibly.cli.printable import printable, printable_json
from credibly.cli.shell import run_app
from credibly.data.progress import Progress
from credibly.data.table_files import TableWriter
from credibly.errors import TableError
from credibly.tables.formula import FormulaDesign

TITLE, CLEAR, TURNED = "\x1b]0;you were here\x07", "\x1b[2J\x9b1A", "\u202egnp.txt"
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A table whose columns, levels and labels try to steer a terminal, and a model of it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    frame = pd.DataFrame(
        {
            f"a{TITLE}": x,
            f"b{TURNED}": np.where(rng.random(60) < 0.5, f"low{CLEAR}", "high"),
            f"y{CLEAR}": np.where(x + rng.normal(size=60) > 0, f"yes{TITLE}", f"no{TURNED}"),
        }
    )
    folder = tmp_path_factory.mktemp("hostile")
    frame.to_csv(folder / "data.csv", index=False)
    made = run("fit", folder / "data.csv", "--target", f"y{CLEAR}", "--out", folder / "model.credibly")
    assert made.exit_code == 0, made.output
    return folder, made


def test_names_and_labels_do_not_steer_the_terminal(hostile):
    folder, made = hostile
    results = [
        made,
        run("predict", folder / "model.credibly", folder / "data.csv", "--out", folder / "p.csv", "--force"),
        run("compare", folder / "data.csv", "--target", f"y{CLEAR}", "--models", "logistic,lda"),
        run("report", folder / "data.csv", "--target", f"y{CLEAR}", "--no-compare", "--out", folder / "r.html"),
        run("fit", folder / "data.csv", "--target", f"z{TITLE}"),
        run("fit", folder / f"none{TITLE}.csv", "--target", "y"),
        run("fit", folder / f"none{TITLE}.csv", "--target", "y", "--debug"),
        run("fit", folder / f"none{TITLE}.csv", "--target", "y", "--json"),
        run("predict", folder / "data.csv", folder / "data.csv"),
    ]
    assert [one.exit_code for one in results] == [0, 0, 0, 0, 2, 2, 2, 2, 2], [one.output for one in results]
    for one in results:
        assert COMMANDS.findall(one.output) == []
    assert "a\\x1b]0;you were here\\x07" in made.output


def test_wrong_options_do_not_steer_the_terminal(capsys):
    assert run_app(app, ["fit", f"--nothing{TITLE}"]) == 2
    assert COMMANDS.findall("".join(capsys.readouterr())) == []


def test_scripts_get_names_as_they_are(hostile):
    folder, _ = hostile
    out = run("fit", folder / "data.csv", "--target", f"y{CLEAR}", "--json").stdout
    assert COMMANDS.findall(out) == []
    assert json.loads(out)["inputs"]["target"] == f"y{CLEAR}"


@given(st.text())
def test_any_text_can_be_shown_and_json_means_the_same(text):
    shown = printable(text)
    assert COMMANDS.findall(shown) == []
    shown.encode()  # halves of characters could not be
    assert json.loads(printable_json(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize("text", ["años, µg/m³, 体重, 👩‍🔬, naïve\tcells\nand lines", "[red]a[/red]", "50 % – 7 °C"])
def test_names_of_honest_people_are_left_alone(text):
    assert printable(text) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["[/b].csv", "{desc}{0}.csv", "%s.csv", f"{TITLE}.csv"])
def test_names_of_files_in_a_bar_are_neither_formats_nor_commands(name, monkeypatch):
    monkeypatch.setattr(sys, "stderr", said := Terminal())
    with Progress(None, printable(f"predicting {name}")):
        pass
    assert f"predicting {printable(name)} …" in said.getvalue()
    assert TITLE not in said.getvalue()


def test_rows_on_a_terminal_are_shown_and_in_a_pipe_left_alone(monkeypatch, capfdbinary):
    frame = pd.DataFrame({"prediction": [f"yes{TITLE}", "años"]})
    with TableWriter("-") as table:
        table.write(frame)
    assert TITLE.encode() in capfdbinary.readouterr().out
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        with TableWriter("-") as table:
            table.write(frame)
        monkeypatch.undo()
        shown = os.read(master, 10_000).decode()
    os.close(master)
    assert shown.splitlines() == ['"prediction"', '"yes\\x1b]0;you were here\\x07"', '"años"']


# --- spreadsheets ----------------------------------------------------------------------------------------------------

FORMULAS = ["=cmd|' /C calc'!A0", '=HYPERLINK("x","y")', "+1+1", "-1-1", "@SUM(A1)", "\t=1", "\r=1", '"=1"', "a,=1"]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_labels_that_look_like_formulas_of_a_spreadsheet_are_written_as_they_are(tmp_path, suffix):
    """Decided so (docs/command.md): a changed label would be another one. Cells stay in their cells: all are quoted."""
    frame = pd.DataFrame({"prediction": FORMULAS, "p_=1+1": np.linspace(0, 1, len(FORMULAS))})
    path = tmp_path / f"p{suffix}"
    with TableWriter(path) as table:
        table.write(frame)
    back = pd.read_parquet(path) if suffix == ".parquet" else pd.read_csv(path)
    assert back["prediction"].tolist() == FORMULAS and back.shape == frame.shape


# --- formulas --------------------------------------------------------------------------------------------------------

NAMES = "abcdefghijklmnopqrstuvwxyz"
BOMBS = [
    "y ~ " + "(" * 10_000 + "a" + ")" * 10_000, "y ~ " + "I(" * 3000 + "a" + ")" * 3000, "y ~ " + "-" * 20_000 + "a",
    "y ~ " + "**".join(NAMES), "y ~ a" + "**2" * 5000, "y ~ a**" + "9" * 5000, "y ~ (a+b)**1000000000",
    "y ~ " + "*".join(NAMES), f"y ~ ({'+'.join(NAMES)})**8", "y ~ " + ":".join([f"({'+'.join(NAMES)})"] * 9),
    "y ~ I(a" + "**2" * 100 + ")", "y ~ I(9**9**9**9)", "y ~ I(a**9**9**9)", "y ~ I(" + "9**" * 150 + "9)",
    "y ~ I(" + "a*" * 5000 + "a)", "y ~ " + "a:" * 20_000 + "a", "y ~ " + "a+" * 50_000 + "a", "y ~ " + "~" * 20_000,
    "y ~ " + "`" * 20_001, "y ~ " + "'" * 20_001, "y ~ " + "[" * 20_000, "y ~ " + "{" * 20_000, "y ~ a #" * 5000,
    "y ~ " + "C(" * 5000, "y ~ " + "poly(a, " * 2000, "y ~ poly(a, 999999999)", "y ~ bs(a, df=999999999)",
    "y ~ " + "+".join(f"bs(a, {i})" for i in range(4, 3000)), "y ~ " + "/".join(NAMES), "\\\n" * 20_000 + "y ~ a",
    "y ~ " + "lambda:" * 5000 + "a", "y ~ I(" + "(x:=" * 90 + "a" + ")" * 90 + ")",
    "y ~ I(f'" + "{" * 200 + "a" + "}" * 200 + "')",
    "y ~ " + "\u0660" * 5000, "y ~ a" + "\u0301" * 20_000, "y ~ " + "9" * 20_000 + "*a", "~" * 3, "y ~ a - " * 5000,
]  # fmt: skip


@pytest.fixture(scope="module")
def letters():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(40, 26)), columns=list(NAMES)).assign(y=[0, 1] * 20)


@pytest.mark.parametrize("formula", BOMBS, ids=lambda it: f"{it[:24]} {len(it)}")
def test_formulas_made_to_take_for_ever_are_answered_at_once(letters, formula):
    """Two seconds of the processor: some thousand times what a formula of that length needs, on a slow machine, too."""
    start = time.process_time()
    try:
        design = FormulaDesign.of(formula, letters)
    except TableError:
        pass
    else:
        assert len(design.names) < 10_000
    assert time.process_time() - start < 2.0
