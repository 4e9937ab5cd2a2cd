"""The command: parse, call one function, print."""

import contextlib
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from credibly import __version__
from credibly.cli import jobs
from credibly.cli import options as o
from credibly.cli.jobs import Page, Task
from credibly.cli.models import Options, split_names
from credibly.cli.printable import printable
from credibly.cli.reading import MISSING, ReadOptions, Table, columns_of, read_table
from credibly.cli.shell import Json, Outcome, add_command, open_streams, run_app
from credibly.cli.text import comparison_text, describe_columns, fit_text, saved_text, summary_text
from credibly.data.files import check_name
from credibly.data.progress import Progress
from credibly.errors import InputError
from credibly.persistence import header, save
from credibly.tables import Choices, TableModel
from credibly.tables.columns import check_present

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Classification with honest probabilities, from a table to an answer with its uncertainty.",
)


def run() -> None:
    """Where the command `credibly` begins."""
    open_streams()
    sys.exit(run_app(app, sys.argv[1:]))


def _version(asked: bool) -> None:
    if asked:
        print(f"credibly {__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Classification with honest probabilities: fit, predict, compare, certify, report."""


@add_command(app, "demo")
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the report goes.")] = Path("demo-report.html"),
    force: o.Force = False,
) -> Outcome:
    """Fit, compare and certify models of bundled data; print what they say, and write a report."""
    from credibly.cli.demo import main as run_demo

    check_name(out, overwrite=force)
    run_demo(out)
    return Outcome({"out": out}, "")


@add_command(app, "fit")
def fit(
    data: o.Data,
    model: o.ModelName = "logistic",
    asked: o.Asked = o.Asked(),
    level: o.Level = 0.9,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the model here (model.credibly).")] = None,
    force: o.Force = False,
    reading: o.Reading = o.Reading(),
) -> Outcome:
    """Learn a model from a table; print what was learnt, and save it."""
    _check_out(out, force)
    table = _read(data, reading, asked)
    task = _task(table, asked)
    fitted, found = jobs.fit(task, model)
    if out is not None:
        save(fitted, out, overwrite=force)
    trust = jobs.trust(fitted, task)
    result = _learnt(fitted, level) | {"trust": trust, "out": out}
    last = [*([f"Certificate: {trust}"] if trust else []), *saved_text(out)]
    return Outcome(result, fit_text(fitted, table, found, level, last))


@add_command(app, "predict")
def predict(
    model: o.ModelFile,
    data: o.Data,
    out: Annotated[str, typer.Option("--out", "-o", help=".csv, .csv.gz or .parquet; '-' prints CSV.")] = "-",
    level: o.Level = 0.9,
    keep: Annotated[str | None, typer.Option("--keep", help="Columns to copy from the table (an id).")] = None,
    json: Json = False,
    force: o.Force = False,
    reading: o.Reading = o.Reading(),
) -> Outcome:
    """Predict every row of a table: probabilities with intervals, in the order of the rows."""
    from credibly.cli.predicting import Output, predict_file

    if out == "-" and json:
        raise InputError("With --json the predictions need a file of their own: --out predictions.csv.")
    fitted = jobs.load_model(model)
    kept = split_names(keep) if keep else []
    done = predict_file(fitted, data, _read_options(reading), Output(out, force, level, kept))
    if out != "-":
        return Outcome({**done.result, "out": out}, done.text)
    print(done.text, file=sys.stderr)  # beside the predictions, which standard output holds
    return Outcome(done.result, "")


@add_command(app, "compare")
def compare(
    data: o.Data,
    models: o.ModelNames = None,
    by: Annotated[str, typer.Option("--by", help="evidence, loo, bic, prequential or joint_evidence.")] = "evidence",
    asked: o.Asked = o.Asked(),
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the best model here.")] = None,
    force: o.Force = False,
    reading: o.Reading = o.Reading(),
) -> Outcome:
    """Rank models of a table: by log evidence, with everything else they are measured by."""
    _check_out(out, force)
    table = _read(data, reading, asked)
    task = _task(table, asked)
    found = jobs.compare(task, models, by)
    if out is not None:
        save(found.best, out, overwrite=force)
    ranked = found.comparison.to_frame().reset_index().to_dict(orient="records")
    notes = [*table.notes, *found.best.notes]
    result = {"by": by, "best": found.comparison.best_, "table": ranked, "notes": [*notes, *found.comparison.notes]}
    saved = [] if out is None else [f"The best model is saved to {out}."]
    return Outcome(result | {"out": out}, "\n".join([*notes, comparison_text(found.comparison), *saved]))


@add_command(app, "certify")
def certify(
    model: o.ModelFile,
    data: o.Data,
    draws: Annotated[int | None, typer.Option("--draws", help="Posterior draws; default: enough.")] = None,
    seed: o.Seed = None,
    reading: o.Reading = o.Reading(),
) -> Outcome:
    """How far a model's approximation can be trusted, on the table that it was fitted on."""
    fitted = jobs.load_model(model)
    table = _read(data, reading)
    with Progress(None, "drawing from the posterior"):
        found = fitted.certify(table.frame, draws=draws, random_state=seed)
    names = ("khat", "reliable", "verdict", "ess", "draws", "shift", "widening")
    result: dict[str, Any] = {name: getattr(found, name) for name in names}
    if found.reliable:
        result |= {"log_evidence": found.log_evidence, "log_evidence_se": found.log_evidence_se}
    return Outcome(result, str(found))


@add_command(app, "report")
def report(
    data: o.Data,
    model: o.ModelName = "logistic",
    asked: o.Asked = o.Asked(),
    compared: Annotated[
        bool | None, typer.Option("--compare/--no-compare", help="Other models beside it; default: up to 20,000 rows.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Of the page.")] = None,
    level: o.Level = 0.9,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    force: o.Force = False,
    reading: o.Reading = o.Reading(),
) -> Outcome:
    """One HTML page for people: the answer in words, pictures, calibration, certificate, how to reproduce it."""
    _check_out(out, force)
    table = _read(data, reading, asked)
    task = _task(table, asked)
    fitted, found = jobs.fit(task, model)
    if found is None and (len(table.frame) <= jobs.MOST_ROWS_COMPARED if compared is None else compared):
        found = jobs.compare(task, None, "evidence")
    command = shlex.join(["credibly", *sys.argv[1:]])
    page = jobs.write_report(task, fitted, found, Page(out, force, title, level, command, data, _read_options(reading)))
    return Outcome({"out": out, "headline": page.headline}, f"{page.headline}\nWritten to {out}.")


@add_command(app, "show")
def show(model: o.ModelFile, level: o.Level = 0.9) -> Outcome:
    """What a saved model is: its columns, its table of weights, and what it was learnt from."""
    about = header(model)
    fitted = jobs.load_model(model)
    text = [
        f"{model}: {type(fitted.model).__name__}, target {fitted.target}, classes {fitted.classes_.tolist()}",
        f"Learnt from {fitted.data.rows:,} rows, {fitted.data.columns} columns, SHA-256 {fitted.data.sha256[:16]}…",
        *describe_columns(fitted),
        *fitted.notes,
        summary_text(fitted, level),
    ]
    return Outcome({"header": about, **_learnt(fitted, level)}, "\n".join(text))


# --- pieces --------------------------------------------------------------------------------------------------------


def _read_options(reading: o.Reading) -> ReadOptions:
    markers = (*MISSING, *(reading.missing_marker or ()))
    return ReadOptions(reading.delimiter, reading.encoding, reading.decimal, markers)


def _read(data: str, reading: o.Reading, asked: o.Asked | None = None) -> Table:
    """A table, without the columns that are not wanted: they may be of a kind that cannot be read."""
    options, unwanted = _read_options(reading), split_names(asked.exclude) if asked and asked.exclude else []
    for name in unwanted:
        if asked and (name == asked.target or name in (asked.features or "").split(",")):
            raise InputError(f"--exclude {name}: the column is named as target or feature as well.")
    columns = None
    if unwanted:
        present = columns_of(data, options)
        check_present(present, unwanted)
        columns = [name for name in present if name not in unwanted]
    with Progress(1, printable(f"reading {Path(data).name}"), "B", shown=True) as bar:
        return read_table(data, columns=columns, options=options, progress=bar.reach)


def _task(table: Table, asked: o.Asked) -> Task:
    features = None if asked.features is None else split_names(asked.features)
    choices = Choices(features, (), asked.missing, asked.formula)  # what is excluded was not read
    excluded = split_names(asked.exclude) if asked.exclude else []
    options = Options(asked.prior, asked.inference, asked.label_noise)
    return Task(table, asked.target, choices, options, asked.seed, excluded)


def _check_out(out: Path | None, force: bool) -> None:
    """Before any work: a name that cannot be written to is told at once."""
    if out is not None:
        check_name(out, overwrite=force)


def _learnt(fitted: TableModel, level: float) -> dict[str, Any]:
    model = fitted.model
    found: dict[str, Any] = {
        "model": type(model).__name__,
        "target": fitted.target,
        "classes": fitted.classes_,
        "columns": list(fitted.design.sources),
        "features": list(fitted.design.names),
        "rows": fitted.data.rows,
        "sha256": fitted.data.sha256,
        "notes": list(fitted.notes),
        "status": model.status_.value if hasattr(model, "status_") else None,
    }
    for name in ("log_evidence_", "log_likelihood_", "bic_"):
        with contextlib.suppress(AttributeError):  # a flat prior has no evidence, a Gaussian process no BIC
            found[name.rstrip("_")] = getattr(model, name)
    with contextlib.suppress(AttributeError):
        frame = fitted.summary(level).to_frame()
        found["summary"] = frame.reset_index(names=frame.index.names if frame.index.nlevels > 1 else "name").to_dict(
            orient="records"
        )
    return found
