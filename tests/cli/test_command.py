"""The command as a user meets it: from a file to an answer, and every bad file to one line."""

import html
import json
import subprocess
import sys
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from typer.testing import CliRunner

from credibly import BayesianLogisticRegression, load
from credibly.cli.main import app
from credibly.cli.shell import run_app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def found(*arguments):
    return json.loads(done(*arguments, "--json").stdout)["result"]


def refused(*arguments):
    """The one line that an error is."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.fixture
def cancer(tmp_path):
    """A hundred and fifty patients: numbers, a category, a name for every row, gaps in one column."""
    data = load_breast_cancer()
    frame = pd.DataFrame(data.data[:150, :3], columns=["radius", "texture", "perimeter"])
    frame.insert(0, "patient_id", [f"p{i:04d}" for i in range(150)])
    frame["size"] = pd.cut(frame["radius"], [0, 12, 15, 99], labels=["small", "middle", "large"]).astype(str)
    frame["diagnosis"] = data.target_names[data.target[:150]]
    path = tmp_path / "cancer.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def gappy(cancer, tmp_path):
    frame = pd.read_csv(cancer)
    frame.loc[::5, "texture"] = np.nan
    path = tmp_path / "gappy.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def model(cancer, tmp_path):
    path = tmp_path / "model.credibly"
    done("fit", cancer, "--target", "diagnosis", "--prior", "normal:2", "--out", path)
    return path


def test_fit_tells_what_it_read_and_what_it_left_out(cancer, tmp_path):
    text = done("fit", cancer, "-t", "diagnosis", "--out", tmp_path / "m").stdout
    assert "Target diagnosis: benign (" in text
    assert "Numbers: radius, texture, perimeter." in text
    assert "Categories: size (large, middle, small)." in text
    assert "Not used: patient_id, which looks like an identifier or free text" in text
    assert "log evidence:" in text
    assert f"Saved to {tmp_path / 'm'}" in text


def test_fit_predict_is_the_estimator_on_the_same_columns(cancer, model, tmp_path):
    frame = pd.read_csv(cancer)
    X = frame[["radius", "texture", "perimeter"]].assign(
        **{f"size={level}": (frame["size"] == level).astype(float) for level in ("large", "middle", "small")}
    )
    estimator = BayesianLogisticRegression(prior=load(model).model.prior).fit(X, frame["diagnosis"])
    for name in ("p.csv", "p.parquet", "p.csv.gz"):
        out = tmp_path / name
        done("predict", model, cancer, "--out", out, "--level", "0.8", "--keep", "patient_id")
        table = pd.read_parquet(out) if name.endswith("parquet") else pd.read_csv(out)
        assert list(table) == ["patient_id", "prediction", "p_benign", "p_malignant", "lower", "upper"]
        np.testing.assert_array_equal(table["patient_id"], frame["patient_id"])
        # columns may lie in memory in another order, by row or by column: sums are rounded otherwise
        np.testing.assert_allclose(table["p_malignant"], estimator.predict_proba(X)[:, 1], rtol=1e-12)
        np.testing.assert_array_equal(table[["lower", "upper"]], estimator.predict_interval(X, level=0.8))


def test_predictions_on_standard_output_are_csv(cancer, model):
    table = pd.read_csv(StringIO(done("predict", model, cancer).stdout))
    assert list(table) == ["prediction", "p_benign", "p_malignant", "lower", "upper"]
    assert len(table) == 150


def test_where_the_truth_is_known_predictions_are_scored(cancer, model, tmp_path):
    score = found("predict", model, cancer, "--out", tmp_path / "p.csv")["score"]
    table, truth = pd.read_csv(tmp_path / "p.csv"), pd.read_csv(cancer)["diagnosis"]
    p = np.where(truth == "malignant", table["p_malignant"], table["p_benign"])
    assert score["rows"] == 150
    assert score["log_score"] == pytest.approx(np.log(p).mean(), rel=1e-12)
    assert score["accuracy"] == (table["prediction"] == truth).mean()


def test_three_classes_parquet_in_and_out(tmp_path):
    data = load_wine(as_frame=True)
    frame = data.frame.iloc[:, :4].assign(kind=data.target_names[data.target])
    frame.to_parquet(tmp_path / "wine.parquet")
    done("fit", tmp_path / "wine.parquet", "-t", "kind", "-m", "lda", "-o", tmp_path / "m.credibly")
    result = found("predict", tmp_path / "m.credibly", tmp_path / "wine.parquet", "-o", tmp_path / "p.parquet")
    assert result["rows"] == len(frame)
    expected = [f"{side}_class_{k}" for k in range(3) for side in ("lower", "upper")]
    table = pd.read_parquet(tmp_path / "p.parquet")
    assert list(table) == ["prediction", *(f"p_class_{k}" for k in range(3)), *expected]


@pytest.mark.parametrize("name", ["logistic", "probit", "cauchit", "lda", "qda", "naive-bayes", "gp"])
def test_every_model_can_be_saved_shown_and_used(cancer, tmp_path, name):
    result = found("fit", cancer, "-t", "diagnosis", "-m", name, "-o", tmp_path / "m")
    assert result["classes"] == ["benign", "malignant"]
    shown = found("show", tmp_path / "m")
    assert shown["features"] == result["features"]
    assert shown["summary"] == result["summary"]
    assert found("predict", tmp_path / "m", cancer, "-o", tmp_path / "p.csv")["score"]["accuracy"] > 0.8


def test_compare_ranks_and_keeps_the_best(cancer, tmp_path):
    result = found("compare", cancer, "-t", "diagnosis", "--models", "logistic,probit,lda", "-o", tmp_path / "best")
    names = [row["model"] for row in result["table"]]
    assert set(names) == {"logistic", "probit", "lda"}
    assert result["best"] == names[0]
    evidence = [row["log_evidence"] for row in result["table"]]
    assert evidence == sorted(evidence, reverse=True)
    assert load(tmp_path / "best").target == "diagnosis"


@pytest.mark.slow
def test_auto_is_the_best_of_a_comparison(cancer, tmp_path):
    result = found("compare", cancer, "-t", "diagnosis")
    text = done("fit", cancer, "-t", "diagnosis", "-m", "auto", "-o", tmp_path / "m").stdout
    assert f"auto: this is {result['best']}" in text


def test_certify(cancer, model):
    result = found("certify", model, cancer)
    assert result["khat"] < 0.7
    assert result["reliable"] is True
    assert "log_evidence" in result
    assert result["verdict"] in done("certify", model, cancer).stdout


def test_report(cancer, tmp_path):
    out = tmp_path / "report.html"
    result = found("report", cancer, "-t", "diagnosis", "--no-compare", "-o", out, "--title", "Lumps & bumps")
    page = out.read_text()
    assert "Lumps &amp; bumps" in page
    assert result["headline"]
    assert "patient_id" in page  # that it was left out is said


@pytest.mark.slow
def test_the_code_in_a_report_makes_the_same_page(cancer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "report.html"
    pd.read_csv(cancer).to_csv("other.csv", index=False, sep="|", decimal=",")
    choices = ["--no-compare", "--exclude", "size", "--prior", "student:4,1", "-m", "cauchit", "-o", "report.html"]
    about = ["--level", "0.8", "--seed", "3", "--title", "Lumps", "--decimal", ",", "--missing-marker", "none"]
    done("report", "other.csv", "-t", "diagnosis", *choices, *about)
    page = out.read_text()
    start = page.index("from credibly import")
    code = html.unescape(page[start : page.index("</code>", start)])
    out.unlink()
    exec(code, {})
    again = out.read_text()
    words = page[page.index("<h1") : page.rindex("How to make this again")]
    assert words in again


def test_formula(cancer, tmp_path):
    result = found("fit", cancer, "--formula", "diagnosis ~ poly(radius, 2) + size", "-o", tmp_path / "m")
    assert result["features"][:2] == ["poly(radius, 2)[1]", "poly(radius, 2)[2]"]
    assert found("predict", tmp_path / "m", cancer, "-o", tmp_path / "p.csv")["rows"] == 150
    assert "Formula: diagnosis ~ poly(radius, 2) + size" in done("show", tmp_path / "m").stdout


@pytest.mark.slow
def test_gaps(gappy, tmp_path):
    line = refused("fit", gappy, "-t", "diagnosis")
    assert "missing in 30 of 150 rows: texture (30)" in line
    assert "--missing drop" in line
    dropped = found("fit", gappy, "-t", "diagnosis", "--missing", "drop", "-o", tmp_path / "d")
    assert "30 of 150 rows lack a cell and were left out." in dropped["notes"]
    result = found("predict", tmp_path / "d", gappy, "-o", tmp_path / "p.csv")
    assert (result["rows"], result["not_predicted"], result["score"]["rows"]) == (150, 30, 120)
    assert pd.read_csv(tmp_path / "p.csv")["p_malignant"].isna().sum() == 30
    found("fit", gappy, "-t", "diagnosis", "--missing", "impute", "-o", tmp_path / "i")
    assert found("predict", tmp_path / "i", gappy, "-o", tmp_path / "p2.csv")["not_predicted"] == 0
    assert "naive-bayes" in {row["model"] for row in found("compare", gappy, "-t", "diagnosis")["table"]}


def test_nothing_is_overwritten_without_force(cancer, model, tmp_path):
    before = model.read_bytes()
    assert "exists already" in refused("fit", cancer, "-t", "diagnosis", "-o", model)
    assert model.read_bytes() == before
    done("fit", cancer, "-t", "diagnosis", "-o", model, "--force")
    done("predict", model, cancer, "-o", tmp_path / "p.csv")
    assert "exists already" in refused("predict", model, cancer, "-o", tmp_path / "p.csv")
    (tmp_path / "r.html").write_text("mine")
    assert "exists already" in refused("report", cancer, "-t", "diagnosis", "-o", tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == "mine"
    assert "folder" in refused("fit", cancer, "-t", "diagnosis", "-o", tmp_path / "no" / "m")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"x,y\n", "no rows"),
        (b"x,y\n1,a\n2\n3,b\n", "line 3"),
        (b"x,x,y\n1,2,a\n3,4,b\n", "'x'"),
        (b"x,,y\n1,2,a\n3,4,b\n", "no name"),
        (b"PK\x03\x04" + bytes(range(256)), "zip"),
        (b"x,y\n1,caf\xe9\n2,b\n", "--encoding"),
        (b"x,y\n1,a\n2,a\n3,a\n", "is constant"),
        (b"x,y\n1,a\n2,b\n3,c\n", "different in every row"),
        (b"x,y\n1,\n2,\n3,\n", "has no values"),
        (b"x,z\n1,a\n2,b\n", "no column 'y'"),
        (b"y\na\nb\na\n", "No column is left|one column"),
        (b"when,y\n2020-01-01,a\n2020-01-02,b\n2020-01-03,a\n", "holds dates"),
    ],
    ids=[
        "empty",
        "header only",
        "ragged",
        "doubled names",
        "unnamed column",
        "binary",
        "encoding",
        "constant target",
        "all distinct target",
        "empty target",
        "no target",
        "no columns",
        "dates",
    ],
)
def test_bad_files_are_told_in_one_line(tmp_path, content, message):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    line = refused("fit", path, "--target", "y")
    assert any(part in line for part in message.split("|")), line


def test_other_bad_input(cancer, model, tmp_path):
    assert "none.csv" in refused("fit", tmp_path / "none.csv", "-t", "y")
    assert "Did you mean 'diagnosis'" in refused("fit", cancer, "-t", "diagnosi")
    assert "--target NAME" in refused("fit", cancer)
    assert "There is no model 'forest'" in refused("fit", cancer, "-t", "diagnosis", "-m", "forest")
    assert "--exclude diagnosis" in refused("fit", cancer, "-t", "diagnosis", "--exclude", "diagnosis")
    assert "missing must be one of" in refused("fit", cancer, "-t", "diagnosis", "--missing", "guess")
    assert "no such file" in refused("show", tmp_path / "none").lower()
    (tmp_path / "junk").write_bytes(b"junk")
    assert "junk" in refused("predict", tmp_path / "junk", cancer)
    line = refused("predict", model, _without(cancer, tmp_path, "texture"))
    assert "lacks 1 of the 4 columns that the model was fitted on: 'texture'" in line
    assert "by must be one of" in refused("compare", cancer, "-t", "diagnosis", "--by", "luck")
    assert "Only binary" in refused("fit", cancer, "-t", "size", "-m", "probit")


def _without(path, folder, column):
    pd.read_csv(path).drop(columns=column).to_csv(folder / "without.csv", index=False)
    return folder / "without.csv"


def test_cells_of_another_type_are_named(cancer, model, tmp_path):
    frame = pd.read_csv(cancer, dtype=object)
    frame.loc[7, "radius"] = "wide"
    frame.to_csv(tmp_path / "typed.csv", index=False)
    line = refused("predict", model, tmp_path / "typed.csv", "-o", tmp_path / "p.csv")
    assert "'radius'" in line
    assert "'wide'" in line
    assert "line 9" in line
    assert not (tmp_path / "p.csv").exists()


def test_json_and_predictions_do_not_share_a_stream(cancer, model):
    result = run("predict", model, cancer, "--json")
    assert result.exit_code == 2
    assert "a file of their own" in json.loads(result.stdout)["error"]


def test_usage_errors_are_one_line_and_one_object(capsys):
    assert run_app(app, ["fit", "--json"]) == 2
    said = capsys.readouterr()
    assert "data" in json.loads(said.out)["error"].lower()  # older releases of Typer write arguments in capitals
    assert len(said.err.splitlines()) == 1
    assert run_app(app, ["fit", "x.csv", "--nonsense"]) == 2
    assert "credibly fit: No such option: --nonsense" in capsys.readouterr().err
    assert run_app(app, []) == 0
    assert "Usage:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("one", "zero"),
    [("1e0", "0"), ("+1", "-1"), ("1.0", "0.0"), ("true", "false"), ("TRUE", "FALSE"), ("01", "02"), ("0.50", "1")],
)
def test_the_truth_is_read_as_in_training(tmp_path, one, zero):
    x = np.arange(60) * 0.37
    lines = [f"{a},{one if np.sin(a) > 0.1 else zero}" for a in x]
    (tmp_path / "l.csv").write_text("\n".join(["x,y", *lines]))
    done("fit", tmp_path / "l.csv", "-t", "y", "-o", tmp_path / "m")
    assert found("predict", tmp_path / "m", tmp_path / "l.csv", "-o", tmp_path / "p.csv")["score"]["rows"] == 60


def test_labels_that_the_model_does_not_know_are_not_scored_and_told(cancer, model, tmp_path):
    frame = pd.read_csv(cancer)
    frame.loc[:9, "diagnosis"] = "unsure"
    frame.to_csv(tmp_path / "odd.csv", index=False)
    result = run("predict", model, tmp_path / "odd.csv", "-o", tmp_path / "p.csv", "--json")
    assert json.loads(result.stdout)["result"]["score"]["rows"] == 140
    assert "'unsure', which the model does not know" in str(json.loads(result.stdout)["result"]["warnings"])


def test_numbers_beyond_reason_are_refused_in_predictions_as_in_fits(cancer, model, tmp_path):
    frame = pd.read_csv(cancer)
    frame.loc[3, "radius"] = 1e300
    frame.to_csv(tmp_path / "huge.csv", index=False)
    assert "'radius' must hold numbers up to 1e+100" in refused("predict", model, tmp_path / "huge.csv")


def test_boolean_labels_are_spelt_alike_everywhere(tmp_path):
    x = np.arange(40) * 0.37
    pd.DataFrame({"x": x, "y": np.sin(x) > 0}).to_csv(tmp_path / "flags.csv", index=False)
    done("fit", tmp_path / "flags.csv", "-t", "y", "-o", tmp_path / "m")
    done("predict", tmp_path / "m", tmp_path / "flags.csv", "-o", tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv", dtype=str)
    assert list(table)[:3] == ["prediction", "p_False", "p_True"]
    assert set(table["prediction"]) <= {"True", "False"}


def test_fit_says_how_far_to_trust_it(cancer):
    text = done("fit", cancer, "-t", "diagnosis").stdout
    assert found("fit", cancer, "-t", "diagnosis")["trust"] in text
    assert found("fit", cancer, "-t", "diagnosis", "--prior", "none", "--exclude", "size,perimeter")["trust"] is None


def test_new_levels_and_further_columns_are_told(cancer, model, tmp_path):
    frame = pd.read_csv(cancer).assign(size="huge", extra=1)
    frame.to_csv(tmp_path / "new.csv", index=False)
    result = run("predict", model, tmp_path / "new.csv", "-o", tmp_path / "p.csv")
    assert result.exit_code == 0
    assert "'size' has levels that were not in the training table: 'huge'" in result.stderr


def test_it_is_a_command_of_its_own(tmp_path):
    shown = subprocess.run(
        [sys.executable, "-m", "credibly", "--version"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert shown.stdout.startswith("credibly ")
