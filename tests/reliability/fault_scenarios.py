"""The pieces of work that faults befall; run as a program, a server of them (see ``fault_server.py``).

Every function takes the folder that is to be written to and returns the work. What it needs besides is made once.
"""

import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Work = Callable[[], Any]


@cache
def beside() -> Path:
    """A folder for what the work reads."""
    return Path(tempfile.mkdtemp(prefix="faults-", dir=os.environ.get("FAULTS_TMP")))


def rows(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.logistic(size=n) > 0, "yes", "no")


@cache
def frame() -> Any:
    import pandas as pd

    X, y = rows()
    return pd.DataFrame(X, columns=list("abc")).assign(y=y)


@cache
def table(kind: str) -> Path:
    path = beside() / f"table.{kind}"
    if kind == "csv":
        frame().to_csv(path, index=False)
    else:
        frame().to_parquet(path, row_group_size=60)
    return path


@cache
def model() -> Any:
    from credibly import BayesianLogisticRegression, Normal

    return BayesianLogisticRegression(prior=Normal(), n_jobs=1).fit(frame()[list("abc")], frame()["y"])


@cache
def page() -> Any:
    from credibly.report import Report

    return Report("A page", "<!doctype html>" + "<p>words</p>" * 3000)


@cache
def saved() -> Path:
    """A model file of the command."""
    path = beside() / "model.credibly"
    command("fit", table("csv"), "--target", "y", "--out", path, "--force")()
    return path


def command(*arguments: Any) -> Work:
    """The command in this process; the work gives its exit code and what it says on the error stream."""
    from credibly.cli.main import app
    from credibly.cli.shell import run_app

    def work() -> dict[str, Any]:
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            code = run_app(app, [str(argument) for argument in arguments])
        return {"code": code, "said": said.getvalue()}

    return work


# --- what is written ---------------------------------------------------------------------------------------------


def save_model(folder: Path) -> Work:
    from credibly import save

    fitted = model()
    return lambda: save(fitted, folder / "out.credibly")


def save_page(folder: Path) -> Work:
    made = page()
    return lambda: made.save(folder / "out.html") and None


def predict_parquet(folder: Path) -> Work:
    return _predict(folder / "out.parquet")


def predict_csv(folder: Path) -> Work:
    return _predict(folder / "out.csv")


def _predict(path: Path) -> Work:
    from credibly import ParquetRows

    fitted, source = model(), table("parquet")

    def work() -> None:
        fitted.predict_to(ParquetRows(source, batch_rows=50), path, overwrite=True)

    return work


def report(folder: Path) -> Work:
    from credibly.report import Settings
    from credibly.report import report as build

    fitted = model()

    def work() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            build(fitted, frame()[list("abc")], frame()["y"], folder / "out.html", settings=Settings(random_state=0))

    return work


# --- the command -------------------------------------------------------------------------------------------------


def command_fit(folder: Path) -> Work:
    return command("fit", table("csv"), "--target", "y", "--prior", "normal:2", "--out", folder / "out", "--force")


def command_predict_csv(folder: Path) -> Work:
    return command("predict", saved(), table("csv"), "--out", folder / "out.csv", "--force")


def command_predict_gz(folder: Path) -> Work:
    return command("predict", saved(), table("csv"), "--out", folder / "out.csv.gz", "--force")


def command_predict_parquet(folder: Path) -> Work:
    return command("predict", saved(), table("parquet"), "--out", folder / "out.parquet", "--force")


def command_compare(folder: Path) -> Work:
    names = "logistic,probit,naive-bayes"
    return command("compare", table("csv"), "--models", names, "--target", "y", "--out", folder / "out", "--force")


def command_report(folder: Path) -> Work:
    return command("report", table("csv"), "--target", "y", "--no-compare", "--out", folder / "out.html", "--force")


def command_demo(folder: Path) -> Work:
    return command("demo", "--out", folder / "out.html", "--force")


# --- fits --------------------------------------------------------------------------------------------------------


def fit_again(folder: Path) -> Work:
    """A fit that is stopped leaves nothing behind in the process: the same fit is then what it would have been."""
    from credibly import BayesianLogisticRegression

    X, y = rows(4000)
    whole = BayesianLogisticRegression(n_jobs=2).fit(X, y)

    def work() -> None:
        fitted = BayesianLogisticRegression(n_jobs=2)
        try:
            fitted.fit(X, y)
        except KeyboardInterrupt:
            sys.settrace(None)
            if hasattr(fitted, "posterior_"):  # it was over but for its return
                np.testing.assert_allclose(fitted.posterior_.mean, whole.posterior_.mean, rtol=1e-10)
            again = fitted.fit(X, y)
            np.testing.assert_allclose(again.posterior_.mean, whole.posterior_.mean, rtol=1e-10)  # other BLAS threads
            raise

    return work


def fit_recorded(folder: Path) -> Work:
    """A fit from Parquet that writes down every pass."""
    resumed = resume(folder)

    def work() -> None:
        resumed()

    return work


def resume(folder: Path) -> Work:
    """The same, with what it found."""
    from credibly import BayesianLogisticRegression, ParquetRows

    source = table("parquet")

    def work() -> list[float]:
        rows = ParquetRows(source, target="y", features=list("abc"), batch_rows=50)
        fitted = BayesianLogisticRegression(n_jobs=1).fit(rows, resume=folder / "fit.checkpoint")
        return [*fitted.posterior_.mean.tolist(), *fitted.posterior_.cov.ravel().tolist(), fitted.log_evidence_]

    return work


SCENARIOS = {
    work.__name__: work
    for work in (
        *(save_model, save_page, predict_parquet, predict_csv, report),
        *(command_fit, command_predict_csv, command_predict_gz, command_predict_parquet),
        *(
            command_compare,
            command_report,
            command_demo,
            fit_again,
            fit_recorded,
            resume,
        ),
    )
}

if __name__ == "__main__":
    from fault_server import serve

    serve(SCENARIOS)
