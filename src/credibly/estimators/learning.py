"""From choices to a posterior: which prior, which search, and what to do when there is no prior.

The one place where an estimator's strings ("empirical", "sgd") become objects.
"""

from typing import NamedTuple

import numpy as np

from credibly.data.columns import Columns
from credibly.data.source import Block, Rows, add
from credibly.errors import CollinearityError, InputError, NotPositiveDefinite, SeparationError
from credibly.estimators.validation import named
from credibly.inference.evidence import INTERCEPT_SCALE, ScaledPriors, maximise_evidence
from credibly.inference.frame import Frame
from credibly.inference.laplace import Controls, laplace, sampled_start, stochastic_gradient
from credibly.inference.objective import AnyLikelihood, Objective, Raw
from credibly.inference.posterior import Gaussian, InferenceResult
from credibly.model.likelihoods import Categorical
from credibly.model.priors import Moments, Normal, WeightShape
from credibly.numerics.arrays import Array
from credibly.numerics.linalg import block_diagonal
from credibly.numerics.newton import Status
from credibly.predictive import predictive_of

PRIOR_CHOICES = '"empirical", "ard", Normal(scale=2.5), Normal(mean=m0, cov=S0) or None'
PriorChoice = Normal | str | None
UNLIKELY, NEARLY_IMPOSSIBLE = 1e-2, 1e-5  # fitted probabilities that raise the suspicion of separated classes
SMALL_PROGRAMME = 500_000  # numbers in a table for which a linear programme takes a second at most
SINGULAR = 1e-13  # of the largest eigenvalue: rounding of a Gram matrix


class Problem(NamedTuple):
    """All that learning needs to know of the data."""

    likelihood: AnyLikelihood
    rows: Rows  # of the design, in the frame
    raw: Rows  # before the frame
    frame: Frame
    columns: Columns
    shape: WeightShape
    names: list[str]


class Search(NamedTuple):
    """How the mode is looked for."""

    controls: Controls
    seed: int | None  # of stochastic gradient; None for Newton


class Learnt(NamedTuple):
    """A posterior with the prior it came from."""

    result: InferenceResult
    prior: Gaussian | None  # in the frame
    contrast: Array
    status: Status
    resolved: Normal | None = None  # the prior in data units
    prior_scale: Array | None = None  # on standardised columns, where learnt


def learn(problem: Problem, choice: PriorChoice, search: Search) -> Learnt:
    """Fit with the prior chosen by an object or a short string."""
    check_prior(choice)
    if choice is None:
        return _without_prior(problem, search)
    if isinstance(choice, Normal):
        moments = choice.moments(problem.shape)
        try:
            learnt = learn_from(problem, explicit_prior(moments, problem), np.eye(problem.shape.n_outputs), search)
        except NotPositiveDefinite as error:
            raise InputError(
                f"This prior, in the units of the data, is numerically singular beside these columns ({error}) Some "
                "column's mean is huge against its spread, or its unit against the prior's scale: centre and scale the "
                'columns, or use prior="empirical", which does not depend on units.'
            ) from error
        return learnt._replace(resolved=Normal(mean=moments.mean, cov=moments.cov))
    return _with_learnt_scales(problem, choice, search)


def check_prior(choice: object) -> None:
    """Refuse what is no prior, before any work."""
    known = isinstance(choice, Normal) or choice is None or (isinstance(choice, str) and choice in {"empirical", "ard"})
    if not known:
        raise InputError(f"prior must be {PRIOR_CHOICES}; got {choice!r}.")


def objective_of(problem: Problem, prior: Gaussian | None, contrast: Array) -> Objective:
    """Minus the log posterior of a problem under one prior."""
    return Objective(problem.likelihood, problem.rows, prior, contrast, Raw.of(problem.raw, problem.frame))


def learn_from(problem: Problem, prior: Gaussian | None, contrast: Array, search: Search) -> Learnt:
    """Find the mode under one given prior."""
    objective = objective_of(problem, prior, contrast)
    size = contrast.shape[1] * problem.shape.per_output
    start = np.zeros(size) if prior is None else prior.mean
    if search.seed is not None:
        result = stochastic_gradient(np.random.default_rng(search.seed), objective, start, search.controls)
    else:
        result = laplace(objective, sampled_start(objective, start), search.controls)
    return Learnt(result, prior, contrast, result.solution.status)


def explicit_prior(moments: Moments, problem: Problem) -> Gaussian:
    """A prior in data units as a Gaussian in the frame."""
    per_class = moments.mean.reshape(problem.shape.n_outputs, -1)
    # Rows of `axes` are the frame's unit vectors in data units, so that precision_u = (axes' whitener)ᵀ(…).
    size = problem.shape.per_output
    axes = block_diagonal(problem.frame.to_data(np.eye(size)), problem.shape.n_outputs)
    return Gaussian.from_mapped_moments(problem.frame.to_frame(per_class).reshape(-1), moments.cov, axes, "the prior")


def _with_learnt_scales(problem: Problem, choice: str, search: Search) -> Learnt:
    d = problem.shape.n_features
    group = np.zeros(d, dtype=np.intp) if choice == "empirical" else np.arange(d)
    row = None
    if problem.shape.intercept:  # the intercept at the column means, as a combination of the frame's weights
        row = np.append((problem.columns.mean - problem.frame.center) / problem.frame.scale, 1.0)
    priors = ScaledPriors(group, row, problem.shape.n_outputs)
    contrast = np.eye(problem.shape.n_outputs)
    best = maximise_evidence(objective_of(problem, None, contrast), priors, search.controls)
    prior = priors.prior(best.theta)
    scale = np.exp(best.theta)
    resolved = standardised_prior(problem.columns, problem.shape, scale)
    if search.seed is not None:
        walked = learn_from(problem, prior, contrast, search)
        status = walked.status if best.status.good else best.status
        return walked._replace(status=status, resolved=resolved, prior_scale=scale)
    return Learnt(best.result, prior, contrast, best.status, resolved, scale)


def standardised_prior(columns: Columns, shape: WeightShape, scale: Array) -> Normal:
    """The learnt prior in data units: slopes s/spread, the intercept at the column means Normal(0, 10²)."""
    slopes = np.broadcast_to(scale, (shape.n_features,)) / columns.scale
    if not shape.intercept:
        return Normal(mean=np.zeros(shape.per_output), cov=np.diag(slopes**2))
    root = np.diag(np.append(slopes, INTERCEPT_SCALE))
    root[-1, :-1] = -slopes * columns.mean
    return Normal(mean=np.zeros(shape.per_output), cov=root @ root.T)


def _without_prior(problem: Problem, search: Search) -> Learnt:
    refuse_collinear(problem)
    contrast = sum_to_zero(problem.shape.n_outputs)
    try:
        learnt = learn_from(problem, None, contrast, search)
    except NotPositiveDefinite as error:
        refuse_separated(problem)
        raise CollinearityError(
            "The information matrix became singular on the way to the maximum-likelihood estimate: some combination of "
            "columns is hardly determined by these rows. Use a prior, e.g. Normal(scale=2.5)."
        ) from error
    if not learnt.status.good or _suspiciously_certain(problem, learnt):
        refuse_separated(problem)
    return learnt


def _suspiciously_certain(problem: Problem, learnt: Learnt) -> bool:
    """Whether some class is nearly ruled out somewhere: the fit might go on for ever, and a programme must decide.

    On a small table the programme is cheap, so less is enough to ask: weights or a loose tolerance can end a fit early.
    """
    W = learnt.contrast @ learnt.result.posterior.mean.reshape(learnt.contrast.shape[1], -1)
    small = problem.rows.n_rows * problem.shape.per_output <= SMALL_PROGRAMME
    predictive = predictive_of(problem.likelihood)
    least = problem.rows.map(lambda rows: predictive.proba(np.asarray(rows.X @ W.T)).min(axis=-1)).min()
    return bool(least < (UNLIKELY if small else NEARLY_IMPOSSIBLE))


def sum_to_zero(n_outputs: int) -> Array:
    """Orthonormal columns that span the weight vectors adding to zero over classes, (K, K-1); [[1]] for one."""
    if n_outputs == 1:
        return np.eye(1)
    centring = np.eye(n_outputs) - 1.0 / n_outputs
    return np.linalg.qr(centring[:, :-1])[0]


def refuse_collinear(problem: Problem) -> None:
    """Without a prior, linearly dependent columns leave the estimate undetermined: name them."""

    def block(rows: Block) -> tuple[Array | float, ...]:
        Z = rows.X if rows.weight is None else rows.X[rows.weight > 0]
        gram = Z.T @ Z
        return (gram if isinstance(gram, np.ndarray) else gram.toarray(),)

    values, vectors = np.linalg.eigh(problem.rows.sum(block, add)[0])
    null = vectors[:, values <= SINGULAR * values[-1]]
    if null.size:
        labels = [*problem.names, "the intercept"][: problem.shape.per_output]
        tied = [label for label, row in zip(labels, null, strict=True) if np.abs(row).max() > 1e-6]
        raise CollinearityError(
            f"{_why_dependent(problem, tied)}, so without a prior their coefficients are not determined. Drop some of "
            "them, or use a prior, e.g. Normal(scale=2.5)."
        )


def _why_dependent(problem: Problem, tied: list[str]) -> str:
    constant = np.asarray(problem.names)[problem.columns.constant]
    if problem.shape.intercept and len(constant):
        return f"Constant columns repeat the intercept: {named(constant)}"
    if problem.rows.n_rows < problem.shape.per_output:
        return f"There are fewer rows ({problem.rows.n_rows}) than weights ({problem.shape.per_output})"
    return f"Columns {named(tied)} are linearly dependent"


def refuse_separated(problem: Problem) -> None:
    """Raise if the classes are separated: then the estimate is infinite, whatever an optimiser returns."""
    from credibly.diagnostics.separation import separation

    counted = problem.rows.map(lambda rows: np.ones(len(rows.y)) if rows.weight is None else rows.weight) > 0
    Z, y = problem.rows.map(_dense)[counted], problem.rows.map(lambda rows: rows.y)[counted]
    n_classes = problem.likelihood.n_classes if isinstance(problem.likelihood, Categorical) else 2
    if len(np.unique(y)) < n_classes:
        raise SeparationError(
            f"Only {len(np.unique(y))} of {n_classes} classes have rows that count, so the maximum-likelihood estimate "
            'is infinite. Use a prior: prior="empirical", or Normal(scale=2.5).'
        )
    found = separation(Z[:, : problem.shape.n_features], y, fit_intercept=problem.shape.intercept)
    if found:
        names = [problem.names[int(j)] for j in found.columns]
        how = "a threshold there" if len(names) == 1 else "a threshold on a combination of them"
        does = (
            f"predicts {len(found.rows)} of {len(y)} rows without error" if len(found.rows) else "rules out some class"
        )
        raise SeparationError(
            f"The classes are separated ({found.kind}) by {named(names)}: {how} {does}, so the maximum-likelihood "
            f"estimate is infinite. Use a prior: "
            'prior="empirical", or Normal(scale=2.5).'
        )


def _dense(rows: Block) -> Array:
    return rows.X if isinstance(rows.X, np.ndarray) else np.asarray(rows.X.toarray())
