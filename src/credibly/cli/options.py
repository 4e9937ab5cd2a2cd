"""Arguments and options that commands share, with the words that --help shows."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

Data = Annotated[str, typer.Argument(help="A CSV or Parquet file with a header; '-' is standard input (CSV).")]
ModelFile = Annotated[Path, typer.Argument(help="A model that 'credibly fit' has saved.")]
Target = Annotated[str | None, typer.Option("--target", "-t", help="The column that holds the class.")]
ModelName = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="logistic, probit, cauchit, lda, qda, naive-bayes, gp, or auto: the best of them."
    ),
]
ModelNames = Annotated[
    str | None,
    typer.Option("--models", help="Names with commas between (logistic,lda,gp); default: all that suit the data."),
]
Features = Annotated[
    str | None, typer.Option("--features", help="Only these columns, commas between; default: all that can be used.")
]
Exclude = Annotated[str | None, typer.Option("--exclude", help="Not these columns, commas between.")]
Formula = Annotated[
    str | None,
    typer.Option("--formula", help="Instead of columns: 'y ~ age + C(sex) + poly(dose, 2)'; names the target, too."),
]
Missing = Annotated[
    str,
    typer.Option(
        "--missing",
        help="Where a model needs every cell, rows that lack one: refuse, drop, or impute (means, commonest levels).",
    ),
]
Prior = Annotated[
    str | None,
    typer.Option(
        "--prior",
        help="empirical (default), ard, hierarchical (with --inference exact), normal:2.5, student:7,2.5, jeffreys, "
        "none; lda, qda, naive-bayes: reference.",
    ),
]
Inference = Annotated[
    str | None,
    typer.Option(
        "--inference",
        help="auto (default: Laplace where it is good enough, else EP or variational), laplace, variational, ep, adf, "
        "exact (draws).",
    ),
]
LabelNoise = Annotated[
    str | None,
    typer.Option("--label-noise", help="Probability that a label is wrong: 0.05, two such (0.05,0.1), or estimate."),
]
Level = Annotated[float, typer.Option("--level", help="Probability that intervals hold.", min=0.0, max=1.0)]
Seed = Annotated[int | None, typer.Option("--seed", help="Of random draws; the same data and seed, the same answer.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite a file that exists.")]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="Between cells of a CSV file; default: found out. 'tab' is a tab.")
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Of a CSV file: utf-8 (default), latin-1, cp1252, …")]
Decimal = Annotated[str, typer.Option("--decimal", help="The decimal mark of numbers in a CSV file: '.' or ','.")]


MissingMarker = Annotated[
    list[str] | None,
    typer.Option("--missing-marker", help="A further text that stands for a missing cell (-999); may be repeated."),
]


class Reading(NamedTuple):
    """How a file is read."""

    delimiter: Delimiter = None
    encoding: Encoding = None
    decimal: Decimal = "."
    missing_marker: MissingMarker = None


class Asked(NamedTuple):
    """What is asked of a table, but for the model."""

    target: Target = None
    features: Features = None
    exclude: Exclude = None
    formula: Formula = None
    missing: Missing = "refuse"
    prior: Prior = None
    inference: Inference = None
    label_noise: LabelNoise = None
    seed: Seed = None
