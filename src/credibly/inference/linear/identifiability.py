"""Whether the rows determine an estimate without a prior: collinear columns and separated classes are named."""

from typing import NamedTuple, NoReturn

import numpy as np

from credibly.data.rows import Block, MemoryRows, Rows
from credibly.errors import CollinearityError, InputError, SeparationError
from credibly.inference.linear.approximation import Approximation
from credibly.inference.linear.objective import Objective, class_scores, scores
from credibly.inference.linear.spec import Data
from credibly.model.likelihoods import Likelihood
from credibly.model.likelihoods.families import NegativeBinomial, Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.kinds import AnyLikelihood, true_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.likelihoods.links import Log
from credibly.model.likelihoods.proportions import Proportions
from credibly.numerics.arrays import AnyArray, Array, Codes

SINGULAR = 1e-13  # of the largest eigenvalue: rounding of a Gram matrix
SURE = 1e-8  # a sample whose Gram matrix is that far from singular settles the question for all rows
ROWS_PER_WEIGHT = 40  # in that sample
IMPOSSIBLE = 1e-8  # a fitted probability below that raises the suspicion of separated classes
LEVEL = 1e-4  # nats: by less than that a likelihood falls only on a plateau when all weights double
PRIORS = 'prior="empirical", or Normal(scale=2.5)'


# --- collinear columns ----------------------------------------------------------------------------------------


def refuse_collinear(data: Data, objective: Objective) -> None:
    """Without a prior, linearly dependent columns leave the estimate undetermined: name them."""
    size = objective.design.standardization.size
    refuse_fewer_rows(data, size)
    design = data.rows.through(objective.design.standardization.design)
    if isinstance(data.rows, MemoryRows) and data.rows.n_rows > 4 * ROWS_PER_WEIGHT * size:
        values = np.linalg.eigvalsh(_gram(design.sample(np.random.default_rng(0), ROWS_PER_WEIGHT * size)))
        if values[0] > SURE * values[-1]:
            return
    values, vectors = np.linalg.eigh(_gram(design))
    null = vectors[:, values <= SINGULAR * values[-1]]
    if null.size:
        labels = [*data.names, "the intercept"][:size]
        tied = [label for label, row in zip(labels, null, strict=True) if np.abs(row).max() > 1e-6]
        _refuse_dependent(data, size, tied)


def refuse_fewer_rows(data: Data, size: int) -> None:
    """Without a prior, fewer rows than weights of one score leave the estimate undetermined."""
    if data.rows.n_rows < size:
        _refuse_dependent(data, size, [])


def _gram(design: Rows) -> Array:
    """ZᵀZ of the rows that count."""

    def block(part: Block) -> tuple[Array | float, ...]:
        Z = part.counted.X
        gram = Z.T @ Z
        return (gram if isinstance(gram, np.ndarray) else gram.toarray(),)

    return np.asarray(design.sum(block)[0])


def _refuse_dependent(data: Data, size: int, tied: list[str]) -> NoReturn:
    raise CollinearityError(
        f"{_why_dependent(data, size, tied)}, so without a prior the coefficients are not determined. Drop some "
        "columns, or use a prior, e.g. Normal(scale=2.5)."
    )


def _why_dependent(data: Data, size: int, tied: list[str]) -> str:
    n = data.rows.n_rows
    if n == 1:
        return "There is only one sample"
    constant = np.asarray(data.names)[data.columns.constant]
    if size > len(data.names) and len(constant):
        return f"Constant columns repeat the intercept: {named(constant)}"
    if n < size:
        return f"There are fewer rows ({n}) than weights ({size})"
    if len(tied) == 1:
        return f"Column {named(tied)} is zero beside the others"
    return f"Columns {named(tied)} are linearly dependent (to within {np.sqrt(SINGULAR):.0e} of their spreads)"


def named(names: object, most: int = 5) -> str:
    """Names in a sentence, a few of them."""
    listed = [str(name) for name in np.asarray(names, dtype=object).tolist()]
    return ", ".join(map(repr, listed[:most])) + (f" and {len(listed) - most} others" if len(listed) > most else "")


# --- separated classes ----------------------------------------------------------------------------------------


def singular_information(data: Data, objective: Objective) -> InputError:
    """The error for an information matrix that became singular on the way: what is to blame for it."""
    try:
        refuse_separated(data, objective)
        _refuse_offsets(objective)
    except SeparationError as error:
        return error
    if isinstance(objective.likelihood, LabelNoise | NoisyCategorical):
        return InputError(
            "Without a prior the likelihood of weights and label noise together has no maximum that could be found: "
            f"weights and flip probabilities explain the same rows. Use a prior: {PRIORS}."
        )
    return CollinearityError(
        "The information matrix became singular on the way to the maximum-likelihood estimate: some combination of "
        f"columns is hardly determined by these rows. Use a prior: {PRIORS}."
    )


def refuse_infinite(data: Data, objective: Objective, found: Approximation) -> None:
    """Raise if a fit without a prior heads for infinity: separated classes, or noisy labels on a plateau."""
    if not found.status.good or _least_probability(objective, found.q.mean) < IMPOSSIBLE:
        refuse_separated(data, objective)
    if isinstance(objective.likelihood, LabelNoise | NoisyCategorical):
        x = found.q.mean
        if objective.log_likelihood(2 * x) >= objective.log_likelihood(x) - LEVEL:
            raise SeparationError(
                "With label noise the likelihood levels off as the weights grow, so the maximum-likelihood estimate is "
                f"infinite: flips explain the rows on the wrong side. Use a prior: {PRIORS}."
            )


def _least_probability(objective: Objective, x: Array) -> float:
    """The smallest fitted probability of a class, or of what bounds a mean, over all rows."""
    likelihood = true_likelihood(objective.likelihood)
    rows, standard = objective.raw
    W = standard.to_data(objective.design.score_weights(x))

    def block(part: Block) -> float:
        part = part.counted
        if not len(part.y):
            return 1.0
        if not isinstance(likelihood, Likelihood):
            return float(likelihood.mean(class_scores(part.X, W)).min())
        mean = likelihood.mean(scores(part, W))
        if _counts(likelihood):
            return float(mean.min())
        if likelihood.two_labels or isinstance(getattr(likelihood, "family", None), Proportions):
            return float(np.minimum(mean, 1 - mean).min())
        return 1.0

    return float(rows.sum(block, min))


def _counts(likelihood: AnyLikelihood) -> bool:
    """Whether targets are counts with a log link, whose means reach zero at infinite scores only."""
    if not isinstance(likelihood, FamilyLikelihood):
        return False
    return isinstance(likelihood.family, Poisson | NegativeBinomial) and isinstance(likelihood.link, Log)


class Labelled(NamedTuple):
    """Rows and labels whose separation is that of a problem, and which row of it each stands for."""

    X: AnyArray
    y: AnyArray
    row: Codes


def _labels(likelihood: AnyLikelihood, rows: Rows) -> Labelled | None:
    """Rows and labels whose separation is that of the rows that count; None where there is no such thing.

    A proportion between 0 and 1 is a row of either class. A positive count holds its score where it is, as a row of
    either class does; a count of zero lets it fall.
    """
    counted = rows.map(lambda block: block.weights) > 0
    X, y = rows.map(_dense)[counted], rows.map(lambda block: block.y)[counted]
    if not isinstance(likelihood, FamilyLikelihood):
        return Labelled(X, y, np.arange(len(y)))
    if isinstance(likelihood.family, Proportions) and likelihood.link.threshold is not None:
        high, low = y > 0, y < 1
    elif _counts(likelihood):
        high, low = y > 0, np.ones(len(y), dtype=bool)
    else:
        return None
    row = np.concatenate([np.flatnonzero(high), np.flatnonzero(low)])
    return Labelled(X[row], np.repeat([1, 0], [high.sum(), low.sum()]), row)


def _dense(rows: Block) -> Array:
    return rows.X if isinstance(rows.X, np.ndarray) else np.asarray(rows.X.toarray())


def refuse_separated(data: Data, objective: Objective) -> None:
    """Raise if the classes are separated: then the estimate is infinite, whatever an optimiser returns."""
    from credibly.diagnostics.separation import separation

    standard = objective.design.standardization
    labelled = _labels(objective.likelihood, data.rows.through(standard.design))
    if labelled is None:
        return
    X, y, row = labelled
    n_classes = max(2, objective.design.classes.n_classes)
    if len(np.unique(y)) < n_classes:
        what = f"Only {len(np.unique(y))} of {n_classes} classes have rows that count"
        if isinstance(objective.likelihood, FamilyLikelihood):
            what = "All targets that count are alike and at the end of their range"
        raise SeparationError(f"{what}, so the maximum-likelihood estimate is infinite. Use a prior: {PRIORS}.")
    found = separation(X[:, : len(data.names)], y, fit_intercept=standard.intercept)
    if found:
        names = [data.names[int(j)] for j in found.columns]
        how = "a threshold there" if len(names) == 1 else "a threshold on a combination of them"
        settled, total = len(np.unique(row[found.rows])), len(np.unique(row))
        does = f"predicts {settled} of {total} rows without error" if settled else "rules out some class"
        raise SeparationError(
            f"The classes are separated ({found.kind}) by {named(names)}: {how} {does}, so the maximum-likelihood "
            f"estimate is infinite. Use a prior: {PRIORS}."
        )


def _refuse_offsets(objective: Objective) -> None:
    """Raise if the offsets alone fit every label: then one weight is as likely as another."""
    likelihood = objective.likelihood
    if not (isinstance(likelihood, FamilyLikelihood) and isinstance(likelihood.family, Proportions)):
        return
    if objective.log_likelihood(np.zeros(objective.design.size)) > -LEVEL:
        raise SeparationError(
            "The offsets alone predict every target without error, so the likelihood is flat to rounding and the "
            f"weights are not determined. Leave them out, or use a prior: {PRIORS}."
        )
