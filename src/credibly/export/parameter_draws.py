"""Draws of the parameters of a generative model: class probabilities, centres and spreads of columns in each class."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credibly.data.threads import single_threaded_blas
from credibly.errors import InputError
from credibly.estimators.generative_results import GenerativeClassifierBase
from credibly.export.drawn import RowDraws, Sampled, Variable, check_size, class_names, draw_classes
from credibly.inference.conjugate import PlugInJoint
from credibly.numerics.arrays import Array, Codes
from credibly.numerics.grouped import dense
from credibly.numerics.special import log_softmax

INDEPENDENT = "draws are independent draws of the exact conjugate posterior, not of a Markov chain"
COMPLETED = "draws are independent draws of the variational posterior: cells or labels were missing in the fit"
JOINT = (
    "log_likelihood is joint, log p(x, y | parameters), as the model was learnt: its leave-one-out is of columns and "
    "label together, and not comparable with that of a discriminative model"
)
NO_PRIOR = "there is no prior group: prior_ has the conjugate prior"
NO_ROWS = "no log_likelihood and posterior_predictive: a generative model does not hold its rows; pass X and y"


class Wanted(NamedTuple):
    """Rows as the model reads them, and their labels where known."""

    X: Array
    codes: Codes | None


def sample_parameters(
    model: GenerativeClassifierBase, X: ArrayLike | None, y: ArrayLike | None, rng: np.random.Generator, size: int
) -> Sampled:
    """Everything that is exported of a generative model."""
    joint = model._integrated("to_arviz")
    wanted = _wanted(model, X, y)
    if wanted is not None:
        check_size(size, len(wanted.X))
    with single_threaded_blas():
        draws = [joint.draw(rng) for _ in range(size)]
        rows = None if wanted is None else _rows(draws, wanted, rng)
    dims = ("class", "feature")
    return Sampled(
        posterior={
            "class_probability": Variable(np.exp([_log_weights(draw) for draw in draws]), ("class",)),
            "mean": Variable(np.array([draw.density.center() for draw in draws]), dims),
            "spread": Variable(np.array([draw.density.spread() for draw in draws]), dims),
        },
        prior={},
        coords={"class": class_names(model.classes_), "feature": distinct(model._plan.row_names())},
        rows=rows,
        inference="conjugate",
        notes=(COMPLETED if model._completed else INDEPENDENT, JOINT if rows is not None else NO_ROWS, NO_PRIOR),
    )


def _wanted(model: GenerativeClassifierBase, X: ArrayLike | None, y: ArrayLike | None) -> Wanted | None:
    if X is None:
        return None
    if y is None:
        return Wanted(dense(model._design(X).X), None)
    learner, encoded, codes = model._labelled(X, y, "to_arviz")
    if learner.family is not model._plan.family:
        raise InputError("These rows hold levels of categories that the model has not learnt; fit it on them first.")
    return Wanted(encoded, codes)


def _log_weights(draw: PlugInJoint) -> Array:
    return draw.weights.log_average(draw.sums.counts)


def _rows(draws: list[PlugInJoint], wanted: Wanted, rng: np.random.Generator) -> RowDraws:
    n = len(wanted.X)
    drawn = np.empty((len(draws), n), dtype=np.int64)
    log_likelihood = None if wanted.codes is None else np.empty((len(draws), n))
    for s, draw in enumerate(draws):
        log_joint = draw.log_joint(wanted.X)
        drawn[s] = draw_classes(rng, np.exp(log_softmax(log_joint)))
        if log_likelihood is not None:
            log_likelihood[s] = log_joint[np.arange(n), wanted.codes]
    return RowDraws(None, wanted.codes, drawn, log_likelihood, {})


def distinct(names: list[str]) -> list[str]:
    """Names that tell rows of a summary apart; a number is added to those that occur again.

    Examples
    --------
    >>> distinct(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return out
