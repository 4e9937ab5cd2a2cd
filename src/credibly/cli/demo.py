"""What `make demo` runs: two real data sets, models fitted, compared and certified, in a terminal and as a page.

Breast cancer (two classes) and wine (three classes) ship with scikit-learn; nothing is downloaded.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credibly import (
    BayesianLogisticRegression,
    BayesianProbitRegression,
    GaussianProcessClassifier,
    LinearDiscriminant,
    NaiveBayes,
    NoisyThresholdClassifier,
    Normal,
    QuadraticDiscriminant,
    compare,
)
from credibly.diagnostics import brier_score, calibration_error, log_score
from credibly.numerics.arrays import AnyArray, Array
from credibly.report import About
from credibly.tables import Choices, TableModel, compare_table

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 4  # predictions printed


class Split(NamedTuple):
    """A data set with rows held out."""

    name: str
    columns: list[str]
    X: Array
    X_held: Array
    y: AnyArray
    y_held: AnyArray


def load(name: str, n_columns: int) -> Split:
    """A data set that scikit-learn ships, its first columns, a third of its rows held out."""
    from sklearn import datasets

    data = {"breast cancer": datasets.load_breast_cancer, "wine": datasets.load_wine}[name]()
    X, labels = data.data[:, :n_columns], data.target_names[data.target]
    held = np.random.default_rng(0).permutation(len(labels)) < len(labels) / 3
    columns = [str(column) for column in data.feature_names[:n_columns]]
    return Split(name, columns, X[~held], X[held], labels[~held], labels[held])


def headline(text: str) -> None:
    """A line that stands out."""
    print(f"\n{text}\n{'=' * len(text)}")


def fit(model: Any, split: Split) -> Any:
    """Fit on named columns and say how long it took."""
    start = time.perf_counter()
    model.fit(named(split.X, split.columns), split.y)
    print(f"{type(model).__name__} fitted in {1e3 * (time.perf_counter() - start):.0f} ms. {model.status_.value}")
    return model


def named(X: Array, columns: list[str]) -> pd.DataFrame:
    """A data frame, so that tables carry the names of the columns."""
    import pandas as pd

    return pd.DataFrame(X, columns=columns)


def held_out(model: Any, split: Split) -> None:
    """Scores on rows the model has not seen."""
    proba = model.predict_proba(named(split.X_held, split.columns))
    codes = np.searchsorted(model.classes_, split.y_held)
    wrong = int((proba.argmax(axis=1) != codes).sum())
    print(
        f"{len(codes)} held-out rows: {wrong} wrong, log score {log_score(codes, proba):.3f}, "
        f"Brier {brier_score(codes, proba):.3f}, calibration error {calibration_error(codes, proba, bins=5):.3f}"
    )


def predictions(model: Any, split: Split) -> None:
    """The least certain held-out rows, with intervals of the probability."""
    X = named(split.X_held, split.columns)
    proba = model.predict_proba(X)
    rows = np.argsort(proba.max(axis=1))[:SHOWN]
    intervals = model.predict_interval(X)
    for i in rows:
        k = int(proba[i].argmax())
        if len(model.classes_) == 2:
            low, high = intervals[i] if k == 1 else 1 - intervals[i][::-1]
        else:
            low, high = intervals[i, k]
        print(
            f"  P({model.classes_[k]}) = {proba[i, k]:.2f}  (90 %: {low:.2f} to {high:.2f})   truth: {split.y_held[i]}"
        )


def decisions(model: Any, split: Split) -> None:
    """Deciding with unequal costs, and declining where deciding is dearer."""
    X = named(split.X_held, split.columns)
    costs = [[0, 1], [20, 0]] if model.classes_[1] == "malignant" else [[0, 20], [1, 0]]
    labels = model.decide(X, costs, reject_cost=0.5, reject_label="ask a doctor")
    found, counts = np.unique(labels, return_counts=True)
    print("A missed cancer costs 20, a false alarm 1, a second opinion 0.5:")
    print("  " + ", ".join(f"{count} × {label}" for label, count in zip(found, counts, strict=True)))


def compared(split: Split) -> Any:
    """Links, priors, a curve and densities in one ranking; the best model."""
    models = {
        "logit": BayesianLogisticRegression(),
        "logit, a scale per column": BayesianLogisticRegression(prior="ard"),
        "logit, Normal(scale=2.5)": BayesianLogisticRegression(prior=Normal(scale=2.5)),
        "probit": BayesianProbitRegression(),
        "cauchit": NoisyThresholdClassifier("cauchy"),
        "Gaussian process, EP": GaussianProcessClassifier(inference="ep"),
        "Gaussian classes": QuadraticDiscriminant(),
    }
    found = compare(models, named(split.X, split.columns), split.y, random_state=0)
    print(found)
    print(f"The best is {found.best_!r}.")
    best = found.models_[found.best_]
    held_out(best, split)
    return best


def certified(model: Any, split: Split) -> Any:
    """What the certificate of a model says; the corrected evidence where there is one."""
    start = time.perf_counter()
    certificate = model.certify(named(split.X, split.columns), split.y)
    used = model.inference if model.inference == getattr(model, "rung_", model.inference) else f"auto: {model.rung_}"
    print(f"{type(model).__name__} ({used}), {1e3 * (time.perf_counter() - start):.0f} ms: ", end="")
    print(certificate.verdict)
    if certificate.reliable:
        corrected = f"{certificate.log_evidence:.2f} ± {certificate.log_evidence_se:.2g}"
        print(f"  log evidence {model.log_evidence_:.2f}, by the certificate {corrected}")
    return certificate


def trusted(best: Any, split: Split) -> None:
    """Certificates of the best model, and of fits to few rows: by Laplace, by the default, and by draws."""
    certified(best, split)
    few = split._replace(X=split.X[:60, :3], columns=split.columns[:3], y=split.y[:60], X_held=split.X_held[:, :3])
    print(f"\nWith {len(few.y)} rows and {len(few.columns)} columns, all under one prior:")
    prior = BayesianLogisticRegression().fit(few.X, few.y).prior_
    for inference in ("laplace", "auto", "exact"):
        model = BayesianLogisticRegression(prior=prior, inference=inference)
        fit(model, few)
        certified(model, few)
        held_out(model, few)


def curve(split: Split) -> None:
    """A Gaussian process: its hyperparameters, its evidence, and how it predicts by two approximations."""
    curve = fit(GaussianProcessClassifier(), split)
    print(curve.summary())
    print("The same process, approximated by expectation propagation, whose probabilities are mostly nearer to exact:")
    nearer = fit(GaussianProcessClassifier(curve.kernel_, inference="ep", optimize=False), split)
    for name, model in {"Laplace": curve, "EP": nearer}.items():
        print(f"  {name:8s} log evidence {model.log_evidence_:8.2f}   held out: log score {score(model, split):.3f}")


def score(model: Any, split: Split) -> float:
    """The mean log probability of held-out labels."""
    proba = model.predict_proba(named(split.X_held, split.columns))
    return float(log_score(np.searchsorted(model.classes_, split.y_held), proba))


def wrong_labels(split: Split) -> None:
    """Flip some labels, and ask a model that doubts them how many, and which."""
    flipped = np.random.default_rng(0).random(len(split.y)) < 0.1
    classes = np.unique(split.y)
    recorded = np.where(flipped, np.where(split.y == classes[0], classes[1], classes[0]), split.y)
    noisy = split._replace(y=recorded)
    for model in (BayesianLogisticRegression(), BayesianLogisticRegression(label_noise="estimate")):
        fit(model, noisy)
        held_out(model, noisy)
    suspects = np.argsort(-model.flip_probability(named(split.X, split.columns), recorded))[: flipped.sum()]
    print(
        f"{flipped.mean():.1%} were flipped; estimated {model.label_noise_:.1%} ± {model.label_noise_std_:.1%}. Of the "
        f"{flipped.sum()} labels doubted most, {int(flipped[suspects].sum())} are among them."
    )


def with_holes(split: Split, share: float) -> Split:
    """The same rows with cells removed at random, held-out rows included."""
    rng = np.random.default_rng(0)
    X, X_held = (np.where(rng.random(table.shape) < share, np.nan, table) for table in (split.X, split.X_held))
    return split._replace(X=X, X_held=X_held)


def without_holes(split: Split) -> Split:
    """What is left for a model that needs every cell: complete rows, and means in held-out cells."""
    complete = ~np.isnan(split.X).any(axis=1)
    means = np.nanmean(split.X, axis=0)
    X_held = np.where(np.isnan(split.X_held), means, split.X_held)
    return split._replace(X=split.X[complete], y=split.y[complete], X_held=X_held)


def missing_cells(split: Split) -> None:
    """Models of p(x | class) integrate missing cells out; others do with complete rows."""
    holes = with_holes(split, 0.2)
    whole = without_holes(holes)
    print(f"{len(whole.y)} of {len(holes.y)} training rows are complete. A model of p(class | x) learns from those:")
    held_out(fit(BayesianLogisticRegression(), whole), whole)
    print("Models of p(x | class) learn from all rows as they are:")
    for model in (LinearDiscriminant(), NaiveBayes(features="gaussian")):
        held_out(fit(model, holes), holes)


def which_density(split: Split) -> None:
    """The joint evidence log p(X, y) of several densities."""
    gaussians = NaiveBayes(features="gaussian")
    models = [fit(kind, split) for kind in (LinearDiscriminant(), QuadraticDiscriminant(), gaussians)]
    for model in sorted(models, key=lambda model: -model.log_evidence_):
        print(f"  {type(model).__name__:22s} joint log evidence {model.log_evidence_:8.2f}   BIC {model.bic_:7.1f}")


def forgetting(split: Split) -> None:
    """Take a row out again, and a class: exactly, and without the other rows."""
    X = named(split.X, split.columns)
    model = LinearDiscriminant(prior="reference").fit(X, split.y)
    model.forget(X[:1], split.y[:1])
    without = LinearDiscriminant(prior="reference").fit(X[1:], split.y[1:])
    gap = np.abs(model.predict_proba(X) - without.predict_proba(X)).max()
    print(f"A row forgotten: probabilities differ from a fit without it by {gap:.0e} at most.")
    last = split.y == model.classes_[-1]
    model.forget(X[1:][last[1:]], split.y[1:][last[1:]])
    print(f"A class forgotten, {model.classes_.tolist()} left; ", end="")
    print(f"learnt again: {model.add_class(split.y[last][0], X[last]).classes_.tolist()}.")


def written(split: Split, out: Path) -> None:
    """A report of all rows: one page to open in a browser."""
    frame = named(np.vstack([split.X, split.X_held]), split.columns)
    frame["diagnosis"] = np.concatenate([split.y, split.y_held])
    model = TableModel.fit(BayesianLogisticRegression(), frame, "diagnosis")
    models = {
        "logit": BayesianLogisticRegression(),
        "probit": BayesianProbitRegression(),
        "Gaussian classes": QuadraticDiscriminant(),
        "naive Bayes": NaiveBayes(features="gaussian"),
    }
    found = compare_table(models, frame, "diagnosis", Choices(), random_state=0)
    about = About(title="Which tumours are malignant?", comparison=found.comparison, command="credibly demo")
    page = model.report(frame, out, about)
    print(page.headline)
    print(f"The whole story, with pictures: open {out} in a browser.")


def main(out: Path = Path("demo-report.html")) -> None:
    """Two data sets: fit, compare, certify, decide; and what models of the columns can do besides."""
    cancer = load("breast cancer", 10)
    headline(f"Two classes: {cancer.name}, {len(cancer.y)} rows, {len(cancer.columns)} columns")
    model = fit(BayesianLogisticRegression(), cancer)
    print(model.summary())
    held_out(model, cancer)
    print("The least certain of them:")
    predictions(model, cancer)
    decisions(model, cancer)

    headline("Which prior, which link, a line or a curve? The log evidence says, without a hold-out set")
    best = compared(cancer)
    headline("How far can that be trusted? The certificate says")
    trusted(best, cancer)
    headline("A curve instead of a line: which columns bend it?")
    curve(cancer)

    headline("Are some labels wrong? One in ten of the training labels is flipped now")
    wrong_labels(cancer)

    wine = load("wine", 5)
    headline(f"Three classes: {wine.name}, {len(wine.y)} rows, {len(wine.columns)} columns")
    model = fit(BayesianLogisticRegression(), wine)
    print(model.summary())
    held_out(model, wine)
    print("The least certain of them:")
    predictions(model, wine)

    headline("A fifth of all cells is removed now")
    missing_cells(wine)
    headline("Which density? The joint evidence says")
    which_density(wine)
    headline("Rows to be erased, classes to be added: no refit")
    forgetting(wine)

    headline("A page for people")
    written(cancer, out)
