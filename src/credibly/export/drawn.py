"""Draws of what a model does not know, and what they say of rows: plain arrays, before they become groups of ArviZ.

Notation
--------
====  =====================================  =========
S     draws, of all chains together
n, K  rows, classes
f     scores                                 (S, n, K)
====  =====================================  =========
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from credibly.errors import InputError
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.label_noise import NoisyCategorical
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.special import log_softmax

MOST_NUMBERS = 250_000_000  # in one variable: two gigabytes
SCORES_AT_ONCE = 4_000_000


class Variable(NamedTuple):
    """Values, draws first, and the names of their other dimensions."""

    values: AnyArray  # (S, …)
    dims: tuple[str, ...]


class RowDraws(NamedTuple):
    """What the draws say of some rows.

    Attributes
    ----------
    X : (n, d) array or None
        The columns, where they are numbers.
    y : (n,) array or None
        Recorded labels as codes, or targets; None where they are not known.
    drawn : (S, n) array
        Labels or targets drawn again.
    log_likelihood : (S, n) array or None
    constants : dict of str to (n,) array
        Weights and offsets of the rows.
    """

    X: Array | None
    y: AnyArray | None
    drawn: AnyArray
    log_likelihood: Array | None
    constants: dict[str, Array]


@dataclass(frozen=True)
class Sampled:
    """All that is exported of a model.

    Attributes
    ----------
    posterior, prior : dict of str to Variable
        `prior` is empty where the prior is no distribution.
    coords : dict of str to list
        Names along dimensions.
    rows : RowDraws or None
    inference : str
    notes : tuple of str
        What a reader of the numbers must know.
    """

    posterior: dict[str, Variable]
    prior: dict[str, Variable]
    coords: dict[str, list[Any]]
    rows: RowDraws | None
    inference: str
    notes: tuple[str, ...] = field(default=())


def check_size(draws: int, n_rows: int, most: int = MOST_NUMBERS) -> None:
    """Refuse more numbers than a machine is likely to hold, before any is computed."""
    if draws * n_rows > most:
        raise InputError(
            f"{draws:,} draws for {n_rows:,} rows are {draws * n_rows:,} numbers in each of log_likelihood and "
            f"posterior_predictive; the limit is {most:,}. Ask for fewer draws (draws=, chains=), or pass some of the "
            "rows (X=, y=)."
        )


def parts(n_rows: int, numbers_per_row: int) -> Iterator[slice]:
    """Rows in parts whose scores do not fill the memory, in order: random numbers must not depend on threads."""
    step = max(1, SCORES_AT_ONCE // max(1, numbers_per_row))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def draw_codes(rng: np.random.Generator, likelihood: AnyLikelihood, f: Array) -> Codes:
    """One recorded label for every score: codes of the shape of f without its last axis."""
    if isinstance(likelihood, Likelihood):
        proba = likelihood.mean(f[..., 0])
        return (rng.random(proba.shape) < proba).astype(np.int64)
    if isinstance(likelihood, NoisyCategorical):
        return draw_classes(rng, np.exp(likelihood.log_recorded(log_softmax(f))))
    return draw_classes(rng, likelihood.mean(f))


def draw_classes(rng: np.random.Generator, proba: Array) -> Codes:
    """One class for every vector of probabilities along the last axis."""
    below = np.cumsum(proba, axis=-1)[..., :-1]  # what is left of one belongs to the last class
    return np.asarray((rng.random(proba.shape[:-1])[..., None] > below).sum(axis=-1))


def class_names(classes: AnyArray) -> list[Any]:
    """Labels as coordinates that a file can hold: numbers as they are, all else as text."""
    labels = classes.tolist()
    plain = all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels)
    return labels if plain else [str(label) for label in labels]
