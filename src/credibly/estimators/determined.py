"""Whether the data determine an estimate without a prior: collinear columns and separated classes are named."""

from typing import NamedTuple, NoReturn

import numpy as np

from credibly.data.rows import Block, MemoryRows, Rows, add
from credibly.data.threads import single_threaded_blas
from credibly.errors import CollinearityError, SeparationError
from credibly.estimators.containers import named
from credibly.estimators.problem import Learnt, Problem
from credibly.estimators.wide_learning import refuse_wide
from credibly.inference.contrasts import Contrast
from credibly.inference.objective import row_slopes, scores
from credibly.model.likelihoods.families import NegativeBinomial, Poisson
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.kinds import AnyLikelihood, n_outputs, true_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.model.likelihoods.links import Log
from credibly.model.likelihoods.proportions import Proportions
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.predictive import predictive_of

UNLIKELY, NEARLY_IMPOSSIBLE = 1e-2, 1e-5  # fitted probabilities that raise the suspicion of separated classes
SMALL_TABLE = 500_000  # numbers in a table for which a proof takes some hundredths of a second
LEVEL = 1e-4  # nats: by less than that a likelihood falls only on a plateau when all weights double
SINGULAR = 1e-13  # of the largest eigenvalue: rounding of a Gram matrix
ROWS_PER_WEIGHT = 40  # of a sample that is asked first: what it determines, all rows determine,
SURE = 1e-8  # if its Gram matrix is that far from singular


def may_be_separated(problem: Problem, learnt: Learnt) -> bool:
    """Whether a fit without a prior leaves it open that the classes are separated, so that a programme must decide.

    Where some class is nearly ruled out the fit might go on for ever. On a small table less is enough to ask, since
    weights or a loose tolerance can end a fit early. Then the fitted probabilities are tried as a proof of overlap.
    """
    W = learnt.contrast @ learnt.result.posterior.mean.reshape(learnt.contrast.shape[1], -1)
    small = problem.rows.n_rows * problem.shape.per_output <= SMALL_TABLE
    suspicion, likelihood = UNLIKELY if small else NEARLY_IMPOSSIBLE, problem.likelihood
    if isinstance(likelihood, FamilyLikelihood):
        return bool(problem.rows.map(lambda rows: _least_mean(likelihood, scores(rows, W))).min() < suspicion)
    f = _raw_scores(problem, W)
    if f.shape[1] == 1 and not small:  # probabilities of two classes are least where scores are largest or smallest
        f = np.array([f.min(axis=0), f.max(axis=0)])
    proba = predictive_of(true_likelihood(likelihood)).proba(f)
    return bool(proba.min() < suspicion) and not (small and _overlap(problem, proba))


def _raw_scores(problem: Problem, W: Array) -> Array:
    """Scores of weights in the frame (K, D) without making a design of all rows, (n, K): good for a suspicion."""
    w, d = problem.frame.to_data(W), problem.shape.n_features
    intercept = w[:, -1] if problem.shape.intercept else 0.0
    return problem.raw.map(lambda rows: np.asarray(rows.X @ w[:, :d].T + intercept))


def refuse_infinite(problem: Problem, learnt: Learnt) -> None:
    """Raise if a fit without a prior heads for infinity: separated classes, or noisy labels on a plateau."""
    if not learnt.status.good or may_be_separated(problem, learnt):
        refuse_separated(problem)
    refuse_plateau(problem, learnt)


def refuse_plateau(problem: Problem, learnt: Learnt) -> None:
    """Raise if the likelihood of noisy labels has no finite maximum: it levels off as the weights grow.

    With flips to explain the rows on the wrong side, a likelihood is bounded along every direction, so that rows need
    not be separated for its highest value to lie at infinity.
    """
    if not isinstance(problem.likelihood, LabelNoise | NoisyCategorical):
        return
    likelihood = problem.likelihood if learnt.likelihood is None else learnt.likelihood
    x, chain = learnt.result.posterior.mean, Contrast(learnt.contrast)

    def log_likelihood(point: Array) -> float:
        W = chain.weights(point)
        return float(problem.rows.sum(lambda rows: (float(row_slopes(likelihood, rows, W).log_prob.sum()),), add)[0])

    if log_likelihood(2 * x) >= log_likelihood(x) - LEVEL:
        raise SeparationError(
            "With label noise the likelihood levels off as the weights grow, so the maximum-likelihood estimate is "
            'infinite: flips explain the rows on the wrong side. Use a prior: prior="empirical", or Normal(scale=2.5).'
        )


def _overlap(problem: Problem, proba: Array) -> bool:
    """Whether the fitted probabilities prove that no direction separates the classes."""
    from credibly.diagnostics.overlap import overlap_is_certain

    weight = problem.rows.map(lambda rows: rows.weights)
    Z, y = problem.rows.map(_dense), problem.rows.map(lambda rows: rows.y).astype(int)
    counted = weight > 0
    return overlap_is_certain(Z[counted], y[counted], proba[counted], weight[counted])


def _least_mean(likelihood: FamilyLikelihood, f: Array) -> Array:
    """How near a mean is to a bound that it reaches only at infinite scores; one where there is none."""
    mu = likelihood.mean(f)
    if isinstance(likelihood.family, Proportions):
        return np.minimum(mu, 1 - mu)
    return mu if _counts(likelihood) else np.ones_like(mu)


def _counts(likelihood: FamilyLikelihood) -> bool:
    return isinstance(likelihood.family, Poisson | NegativeBinomial) and isinstance(likelihood.link, Log)


class Labelled(NamedTuple):
    """Rows and labels whose separation is that of a problem, and which row of it each stands for."""

    Z: Array
    y: AnyArray
    row: Codes


def _labels(likelihood: AnyLikelihood, rows: Rows) -> Labelled | None:
    """Rows and labels whose separation is that of the rows that count; None where there is no such thing.

    A proportion between 0 and 1 is a row of either class. A positive count holds its score where it is, as a row of
    either class does; a count of zero lets it fall.
    """
    counted = rows.map(lambda block: block.weights) > 0
    Z, y = rows.map(_dense)[counted], rows.map(lambda block: block.y)[counted]
    if not isinstance(likelihood, FamilyLikelihood):
        return Labelled(Z, y, np.arange(len(y)))
    if isinstance(likelihood.family, Proportions) and likelihood.link.threshold is not None:
        high, low = y > 0, y < 1
    elif _counts(likelihood):
        high, low = y > 0, np.ones(len(y), dtype=bool)
    else:
        return None
    row = np.concatenate([np.flatnonzero(high), np.flatnonzero(low)])
    return Labelled(Z[row], np.repeat([1, 0], [high.sum(), low.sum()]), row)


def refuse_collinear(problem: Problem) -> None:
    """Without a prior, linearly dependent columns leave the estimate undetermined: name them."""
    if problem.rows.n_rows < problem.shape.per_output:
        _refuse_dependent(problem, [])
    refuse_wide(problem)
    few = _few(problem)
    if few is not None:
        values = np.linalg.eigvalsh(_gram(few))
        if values[0] > SURE * values[-1]:
            return
    values, vectors = np.linalg.eigh(_gram(problem.rows))
    null = vectors[:, values <= SINGULAR * values[-1]]
    if null.size:
        labels = [*problem.names, "the intercept"][: problem.shape.per_output]
        tied = [label for label, row in zip(labels, null, strict=True) if np.abs(row).max() > 1e-6]
        _refuse_dependent(problem, tied)


def _few(problem: Problem) -> MemoryRows | None:
    """Some rows of a large table in memory, of every class: they settle most questions about all rows for less."""
    n_classes = 0 if isinstance(problem.likelihood, FamilyLikelihood) else max(2, n_outputs(problem.likelihood))
    size = ROWS_PER_WEIGHT * problem.shape.per_output * max(1, n_classes)
    if not isinstance(problem.rows, MemoryRows) or problem.rows.n_rows < 4 * size:
        return None
    return problem.rows.sample(np.random.default_rng(0), size, n_classes)


def _gram(rows: Rows) -> Array:
    """ZᵀZ of the rows that count."""

    def block(rows: Block) -> tuple[Array | float, ...]:
        Z = rows.X if rows.weight is None else rows.X[rows.weight > 0]
        gram = Z.T @ Z
        return (gram if isinstance(gram, np.ndarray) else gram.toarray(),)

    return np.asarray(rows.sum(block, add)[0])


def _refuse_dependent(problem: Problem, tied: list[str]) -> NoReturn:
    raise CollinearityError(
        f"{_why_dependent(problem, tied)}, so without a prior the coefficients are not determined. Drop some "
        "columns, or use a prior, e.g. Normal(scale=2.5)."
    )


def _why_dependent(problem: Problem, tied: list[str]) -> str:
    if problem.rows.n_rows == 1:
        return "There is only one sample"
    constant = np.asarray(problem.names)[problem.columns.constant]
    if problem.shape.intercept and len(constant):
        return f"Constant columns repeat the intercept: {named(constant)}"
    if problem.rows.n_rows < problem.shape.per_output:
        return f"There are fewer rows ({problem.rows.n_rows}) than weights ({problem.shape.per_output})"
    if len(tied) == 1:
        return f"Column {named(tied)} is zero beside the others"
    return f"Columns {named(tied)} are linearly dependent (to within {np.sqrt(SINGULAR):.0e} of their spreads)"


def refuse_separated(problem: Problem) -> None:
    """Raise if the classes are separated: then the estimate is infinite, whatever an optimiser returns."""
    from credibly.diagnostics.separation import separation

    few = _few(problem)
    if few is not None and _surely_overlap(problem, few):
        return
    labelled = _labels(problem.likelihood, problem.rows)
    if labelled is None:
        return
    Z, y, row = labelled
    n_classes = max(2, n_outputs(problem.likelihood))
    if len(np.unique(y)) < n_classes:
        if isinstance(problem.likelihood, FamilyLikelihood):
            raise SeparationError(
                "All targets that count are alike and at the end of their range, so the maximum-likelihood estimate is "
                'infinite. Use a prior: prior="empirical", or Normal(scale=2.5).'
            )
        raise SeparationError(
            f"Only {len(np.unique(y))} of {n_classes} classes have rows that count, so the maximum-likelihood estimate "
            'is infinite. Use a prior: prior="empirical", or Normal(scale=2.5).'
        )
    found = separation(Z[:, : problem.shape.n_features], y, fit_intercept=problem.shape.intercept)
    if found:
        names = [problem.names[int(j)] for j in found.columns]
        how = "a threshold there" if len(names) == 1 else "a threshold on a combination of them"
        settled, total = len(np.unique(row[found.rows])), len(np.unique(row))
        does = f"predicts {settled} of {total} rows without error" if settled else "rules out some class"
        raise SeparationError(
            f"The classes are separated ({found.kind}) by {named(names)}: {how} {does}, so the maximum-likelihood "
            f"estimate is infinite. Use a prior: "
            'prior="empirical", or Normal(scale=2.5).'
        )


def refuse_offsets(problem: Problem) -> None:
    """Raise if the offsets alone fit every label: then one weight is as likely as another."""
    likelihood = problem.likelihood
    if not (isinstance(likelihood, FamilyLikelihood) and isinstance(likelihood.family, Proportions)):
        return
    W = np.zeros((1, problem.shape.per_output))

    def loss(part: Block) -> tuple[float]:
        rows = part.counted
        return (-float(rows.weights @ likelihood.log_prob(rows.y, scores(rows, W))),)

    if problem.rows.sum(loss, add)[0] < LEVEL:
        raise SeparationError(
            "The offsets alone predict every target without error, so the likelihood is flat to rounding and the "
            'weights are not determined. Leave them out, or use a prior: prior="empirical", or Normal(scale=2.5).'
        )


def _surely_overlap(problem: Problem, few: MemoryRows) -> bool:
    """Whether some rows prove that no direction separates the classes, so that none separates all rows."""
    from credibly.diagnostics.separation import few_rows_prove_overlap

    labelled, shape = _labels(problem.likelihood, few), problem.shape
    if labelled is None or len(np.unique(labelled.y)) < max(2, n_outputs(problem.likelihood)):
        return False
    with single_threaded_blas():
        return few_rows_prove_overlap(labelled.Z[:, : shape.n_features], labelled.y.astype(np.intp), shape.intercept)


def _dense(rows: Block) -> Array:
    return rows.X if isinstance(rows.X, np.ndarray) else np.asarray(rows.X.toarray())
