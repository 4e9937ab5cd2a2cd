"""From a fitted model and its rows to a page."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from credibly.comparison.result import Comparison
from credibly.data.files import write_errors, written_whole
from credibly.data.progress import Progress
from credibly.diagnostics.inputs import check_level, whole
from credibly.errors import InputError
from credibly.report import asked, performance, provenance
from credibly.report.answers import answer
from credibly.report.categories import bent_terms, categories_of
from credibly.report.figures import draw, planned
from credibly.report.glance import columns_words, glance
from credibly.report.limits import limits
from credibly.report.material import About, Material, Settings, gather
from credibly.report.page import Report, rendered
from credibly.report.performance import Failed, Performance
from credibly.report.ranking import ranking_table, ranking_words
from credibly.report.trust import Trust, trust
from credibly.report.words import count, level_name, percent

if TYPE_CHECKING:
    import pandas as pd

    from credibly.tables.model import TableModel

FIGURES = 10  # or so; for the line that shows how far the work is


def report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str] | None = None,
    about: About | None = None,
    settings: Settings | None = None,
) -> Report:
    """One self-contained HTML page about a fitted classifier.

    It says what was asked, what the data look like, what each column does in words, how well the model predicts rows it
    has not seen and whether its probabilities can be taken at their word (cross-validated), how far its approximation
    can be trusted (the certificate), what it cannot tell, and how to make the page again.

    Parameters
    ----------
    model : fitted classifier
        Any of this package that has probabilities, or ``BayesianGLM(family="bernoulli")``.
    X, y
        The rows and labels of the fit: array, sparse matrix or frame; labels.
    path : path, optional
        Where to write the page.
    about : About, optional
        Title, question, name of the target, notes on what was dropped, command, a comparison.
    settings : Settings, optional
        Level of intervals, seed, folds, whether a file may be replaced.

    Returns
    -------
    Report
        With `html` and `save(path)`; shows itself in a notebook.

    Notes
    -----
    The same model, rows and versions give the same bytes. Cross-validation fits the model five or ten times; the
    certificate is left out beyond 200,000 rows (2,000 for a Gaussian process).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import LinearDiscriminant
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> page = report(LinearDiscriminant().fit(X, y), X, y, about=About(title="Irises", target="species"))
    >>> page.title, page.html[:15]
    ('Irises', '<!doctype html>')
    """
    about, settings = about or About(), settings or Settings()
    _check(about, settings)
    material = gather(model, X, y, about, settings)
    target = nullcontext() if path is None else written_whole(path, overwrite=settings.overwrite)
    with target as part:  # entered first, so that a name that is taken is told before the work is done
        parts = _parts(material)
        page = Report(parts["title"], rendered(parts), parts["headline"])
        if path is not None and part is not None:
            with write_errors(path):
                part.write_text(page.html, encoding="utf-8", newline="\n")
    return page


def report_table(
    model: TableModel,
    frame: pd.DataFrame,
    path: str | os.PathLike[str] | None = None,
    about: About | None = None,
    settings: Settings | None = None,
) -> Report:
    """The same for a model of a table, which is described as it came.

    Parameters
    ----------
    model : TableModel
    frame : DataFrame
        The table that the model was fitted on, with its target.
    path, about, settings
        As for `report`; the name of the target, notes and fingerprint are those of the model unless given.

    Returns
    -------
    Report

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import NaiveBayes
    >>> from credibly.tables.model import TableModel
    >>> irises = load_iris(as_frame=True).frame.rename(columns={"target": "species"})
    >>> page = report_table(TableModel.fit(NaiveBayes(), irises, "species"), irises)
    >>> page.title
    'species: naive Bayes'
    """
    from credibly.tables.model import fingerprint_of

    about = about or About()
    rows = model.training_rows(frame)
    sources = [name for name in model.design.sources if name in frame.columns]
    filled = about._replace(
        target=about.target or model.target,
        notes=(*model.notes, *about.notes),
        fingerprint=about.fingerprint or fingerprint_of(model, frame).sha256,
        table=frame[sources] if about.table is None else about.table,
        groups=about.groups or categories_of(model.design),
        bent=about.bent or bent_terms(model.design),
    )
    return report(model.model, rows.X, rows.y, path, filled, settings)


def _check(about: About, settings: Settings) -> None:
    check_level(settings.level)
    folds: Any = settings.folds
    if folds is not None:
        whole(folds, "folds", least=2)
    whole(settings.most_rows, "most_rows", least=2)
    seed: Any = settings.random_state
    notes: Any = about.notes
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise InputError(
            f"random_state of a report must be None or a whole number, so that it can be told; got {seed!r}."
        )
    if isinstance(notes, str):
        raise InputError(f"notes must be a sequence of texts; got one text, {notes!r:.60}.")
    if about.comparison is not None and not isinstance(about.comparison, Comparison):
        raise InputError(f"comparison must be what credibly.compare returns; got {type(about.comparison).__name__}.")


def _parts(material: Material) -> dict[str, Any]:
    """Everything that the template shows."""
    steps = performance.n_folds(material) + 2 + FIGURES
    with Progress(steps, "report", " steps") as progress:

        def tick() -> None:
            progress.update()

        said = answer(material)
        tick()
        found = performance.performance(material, tick)
        certificate = trust(material)
        tick()
        figures = []
        for it in planned(material, said, found, certificate):
            figures.append(draw(it))
            tick()
    return {
        "title": _title(material),
        "headline": f"{performance.headline(material, found)} {certificate.sentence}",
        "tiles": _tiles(material, found, certificate),
        "question": asked.question(material),
        "method": asked.method(material),
        "shares": asked.shares(material),
        "glance": glance(material),
        "notes": material.about.notes,
        "answer": said,
        "comparison": _comparison(material.about.comparison),
        "calibration": _calibration(material, found),
        "trust": certificate,
        "limits": limits(material, found, certificate),
        "command": material.about.command,
        "code": provenance.code(material),
        "origins": provenance.origins(material),
        "figures": figures,
    }


def _title(material: Material) -> str:
    if material.about.title:
        return material.about.title
    kind = type(material.model).__name__.removeprefix("Bayesian").removesuffix("Classifier")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower().replace("bayes", "Bayes").replace("gaussian", "Gaussian")
    return f"{material.about.target}: {words}" if material.about.target else words[:1].upper() + words[1:]


def _tiles(material: Material, found: Performance | Failed, certificate: Trust) -> list[tuple[str, str, str]]:
    """Label, number and a word on it, for the top of the page."""
    tiles = [("Rows", count(len(material.codes)), columns_words(material))]
    if isinstance(found, Performance):
        right, log = found.accuracy, found.log_score
        tiles += [
            ("Right class, unseen rows", percent(right.value), f"base rate {percent(right.base)}"),
            ("Probability it gave the truth", f"{np.exp(log.value):.2f}", f"base rate {np.exp(log.base):.2f}"),
        ]
    return [*tiles, ("Certificate", certificate.short, f"intervals at {level_name(material.settings.level)}")]


def _comparison(comparison: Any) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {"words": ranking_words(comparison), "table": ranking_table(comparison)}


def _calibration(material: Material, found: Performance | Failed) -> dict[str, Any]:
    if isinstance(found, Failed):
        return {"words": f"Cross-validation was not possible: {found.reason}", "tables": [], "notes": ()}
    tables = [
        performance.score_table(material, found),
        performance.decision_table(material, found),
        performance.surprising_table(material, found),
    ]
    return {
        "words": performance.calibration_words(material, found),
        "tables": [table for table in tables if table is not None],
        "notes": found.notes,
    }
