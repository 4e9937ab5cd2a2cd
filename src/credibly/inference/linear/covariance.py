r"""Covariances of an estimate: as the model says, and as the rows say (sandwiches).

Notation
--------
====  ======================================================================  ============
x     free weights (see `design`)                                             (P,)
u     coordinates: x, and what all classes share where the posterior has it   (Q,)
T     axes, w = T u for the weights w in data units                           (M, Q)
B     inverse information of the free weights                                 (P, P)
s_n   score of a row: gradient of its log likelihood in x                     (P,)
G     number of groups
====  ======================================================================  ============
"""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag
from scipy.sparse import csr_array

from credibly.data.rows import Block, MemoryRows, Sums
from credibly.errors import InputError, NoRowsError
from credibly.inference.linear.design import Standardization
from credibly.inference.linear.fit import LinearFit
from credibly.inference.linear.objective import Objective, class_gram, class_scores, scores
from credibly.inference.linear.posterior import WeightPosterior
from credibly.inference.linear.spec import Data
from credibly.model.likelihoods import BernoulliLogit, Categorical, Likelihood
from credibly.model.likelihoods.family_likelihood import CanonicalForm, FamilyLikelihood, ThresholdForm, between
from credibly.model.likelihoods.kinds import AnyLikelihood
from credibly.model.likelihoods.proportions import Proportions
from credibly.numerics.arrays import AnyArray, Array, Codes
from credibly.numerics.linalg import PSD, bordered_gram, weighted_gram
from credibly.numerics.status import Status

KINDS = ("model", "robust", "cluster")


# --- the rows of a fit ----------------------------------------------------------------------------------------


def rows_of_fit(data: Data | None, what: str) -> MemoryRows:
    """The rows of a fit, or an error that says where they went."""
    if data is None or not isinstance(data.rows, MemoryRows):
        raise NoRowsError(
            f"{what} needs the rows of the fit, which this model no longer has: partial_fit does not keep them, nor "
            "does a fit to files, to a cluster or with resume=, and a saved or copied model holds none. Fit again with "
            "fit(X, y) on rows in memory."
        )
    return data.rows


def counted_rows(rows: MemoryRows) -> Block:
    """All rows that count as one block."""
    return rows.block(slice(0, rows.n_rows)).counted


def flat_objective(fit: LinearFit, rows: MemoryRows) -> Objective:
    """Minus the log likelihood of some rows, as a function of the free weights."""
    return Objective(rows, fit.posterior.design, fit.likelihood, None)


# --- coordinates ----------------------------------------------------------------------------------------------


def axes(posterior: WeightPosterior) -> Array:
    """T: what a unit of every coordinate adds to the weights in data units, (M, Q)."""
    design, D = posterior.design, posterior.design.standardization.size
    free = design.to_data(np.eye(design.size)).reshape(design.size, -1).T
    if posterior.shared is None:
        return free
    K = design.classes.n_classes
    one = design.standardization.to_data(np.eye(D)).T / np.sqrt(K)
    return np.hstack([free, np.tile(one, (K, 1))])


def coordinates(posterior: WeightPosterior, w: Array) -> Array:
    """Coordinates of weights in data units: (…, Q) for (…, M). Without `shared` the mean over classes is left out."""
    classes, standard = posterior.design.classes, posterior.design.standardization
    W = standard.from_data(w.reshape(*w.shape[:-1], classes.n_classes, -1))
    x = (classes.matrix.T @ W / classes.precision).reshape(*w.shape[:-1], -1)  # the columns of C are orthogonal
    if posterior.shared is None:
        return np.asarray(x)
    return np.concatenate([x, W.mean(axis=-2) * np.sqrt(classes.n_classes)], axis=-1)


def in_row_space(fit: LinearFit) -> bool:
    """Whether a fit of many weights is held in the space of its rows, without a matrix of the weights."""
    standard: object = fit.posterior.design.standardization
    return not isinstance(standard, Standardization)


def refuse_row_space(fit: LinearFit, what: str) -> None:
    """Refuse what needs that matrix."""
    if in_row_space(fit):
        raise InputError(
            f"{what} is about many rows; this model has far fewer rows than weights, of which most are as the prior "
            "says. posterior_.project(rows) has the mean and variance of any combination of weights."
        )


# --- covariances ----------------------------------------------------------------------------------------------


def covariance(fit: LinearFit, data: Data | None, kind: str = "model", groups: ArrayLike | None = None) -> Array:
    r"""Covariance of the weights in data units, (M, M), laid out as the posterior.

    .. math:: B, \qquad B \textstyle\sum_n s_n s_n^T B, \qquad
       B \tfrac{G}{G-1} \textstyle\sum_g (\sum_{n \in g} s_n) (\sum_{n \in g} s_n)^T B

    Parameters
    ----------
    fit : LinearFit
    data : Data or None
        The rows of the fit. None will do for "model" with a prior or a canonical link.
    kind : "model", "robust" or "cluster"
    groups : (n,) labels
        For "cluster".

    References
    ----------
    White 1980, HC0 of MacKinnon & White 1985; Liang & Zeger 1986, with the factor of R's ``sandwich::vcovCL``.
    """
    if kind == "model" and in_row_space(fit):
        return fit.posterior.cov
    refuse_row_space(fit, f'covariance "{kind}"')
    T = axes(fit.posterior)
    V = T @ coordinate_covariance(fit, data, kind, groups) @ T.T
    return np.asarray((V + V.T) / 2)


def coordinate_covariance(fit: LinearFit, data: Data | None, kind: str, groups: ArrayLike | None = None) -> Array:
    """Covariance of the coordinates, (Q, Q)."""
    if kind not in KINDS:
        raise InputError(f"kind of covariance must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if (groups is None) == (kind == "cluster"):
        raise InputError(
            'groups go with covariance "cluster", which needs one label for each row of the fit; '
            f"got {kind!r} and {'no groups' if groups is None else 'groups'}."
        )
    B, shared = information(fit, data), fit.posterior.shared
    if kind == "model":
        root = B.inverse_root
        free = root.T @ root
    else:
        rows = rows_of_fit(data, f'covariance "{kind}"')
        objective, x = flat_objective(fit, rows), fit.posterior.free.mean
        if kind == "robust":
            middle = squared_scores(objective, x)
        else:
            middle = squared_group_scores(objective, x, group_codes(groups, rows))
        free = B.solve(B.solve(middle).T)
    if shared is None:
        return np.asarray(free)
    # Scores add to zero over classes: of what classes share the rows say nothing, and a sandwich has no spread there.
    rest = shared.root.T @ shared.root if kind == "model" else np.zeros((shared.mean.size, shared.mean.size))
    return np.asarray(block_diag(free, rest))


def given_covariance(posterior: WeightPosterior, matrix: object) -> Array:
    """A covariance in data units, as a user gives it, as one of the coordinates."""
    M = posterior.mean.size
    try:
        V = np.asarray(matrix, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"covariance must be one of {', '.join(KINDS)} or a matrix; got {matrix!r}.") from error
    if V.shape != (M, M) or not np.isfinite(V).all() or not np.allclose(V, V.T, rtol=1e-6, atol=0.0):
        raise InputError(f"covariance must be a finite symmetric matrix of shape {(M, M)}; got shape {V.shape}.")
    return coordinates(posterior, coordinates(posterior, V).T)


# --- bread ----------------------------------------------------------------------------------------------------


def information(fit: LinearFit, data: Data | None) -> PSD:
    """The expected information at the estimate, as R has it; with a proper prior the precision of the posterior."""
    q = fit.posterior.free
    if has_model_covariance(fit) or fit.status is Status.FITTED_EXACTLY:
        return q.precision
    rows = rows_of_fit(data, "the expected information of this likelihood")
    return PSD.of(flat_objective(fit, rows).expected_information(q.mean), "the expected information")


def has_model_covariance(fit: LinearFit) -> bool:
    """Whether the covariance of the posterior is the model's: with a prior (Jeffreys too), and for canonical links."""
    return fit.resolved is not None or curvature_is_expected(fit.likelihood)


def curvature_is_expected(likelihood: AnyLikelihood) -> bool:
    """Whether the observed curvature is the expected one, whatever the targets: canonical links."""
    if not isinstance(likelihood, FamilyLikelihood):
        return isinstance(likelihood, BernoulliLogit | Categorical)
    form = likelihood.form
    if isinstance(form, ThresholdForm):
        return isinstance(form.threshold, BernoulliLogit)
    return isinstance(form, CanonicalForm)


# --- filling --------------------------------------------------------------------------------------------------


def squared_scores(objective: Objective, x: Array) -> Array:
    r"""The sum over independent rows, :math:`\sum_n s_n s_n^T`, (P, P).

    A row of weight k is k rows. A proportion of m trials is m rows, too: so many labels 1, and so many 0.
    """
    rows, standard = objective.raw
    W = standard.to_data(objective.design.score_weights(x))
    (total,) = rows.sum(partial(_squares, likelihood=objective.likelihood, W=W))
    return objective.free(objective.free(total).T)


def _squares(block: Block, likelihood: AnyLikelihood, W: Array) -> Sums:
    rows, intercept = block.counted, W.shape[1] > block.X.shape[1]
    if not isinstance(likelihood, Likelihood):
        grad = _gradient(likelihood, rows, W)
        products = grad[:, :, None] * grad[:, None, :] * rows.weights[:, None, None]
        return (class_gram(rows.X, products, intercept=intercept),)
    if isinstance(likelihood, FamilyLikelihood) and isinstance(likelihood.family, Proportions):
        zero, one = (_gradient(likelihood, rows._replace(y=np.full(len(rows.y), label)), W) for label in (0.0, 1.0))
        squares = between(rows.y, zero**2, one**2)
    else:
        squares = _gradient(likelihood, rows, W) ** 2
    return ((bordered_gram if intercept else weighted_gram)(rows.X, squares * rows.weights),)


def _gradient(likelihood: AnyLikelihood, rows: Block, W: Array) -> Array:
    """Gradient of every row's log likelihood in its score, (b,), or in its K scores, (b, K); weights left out."""
    one = isinstance(likelihood, Likelihood)
    return np.asarray(likelihood.grad(rows.y, scores(rows, W) if one else class_scores(rows.X, W)))


def squared_group_scores(objective: Objective, x: Array, groups: Codes) -> Array:
    r"""The sum over groups of dependent rows, :math:`\frac{G}{G-1} \sum_g s_g s_g^T`, (P, P).

    Parameters
    ----------
    objective : Objective
    x : (P,) array
    groups : (n,) int array
        Codes 0 … G-1 of the rows that count.
    """
    (rows, standard), n, G = objective.raw, len(groups), int(groups.max()) + 1
    assert isinstance(rows, MemoryRows)
    block = counted_rows(rows)
    W = standard.to_data(objective.design.score_weights(x))
    grad = (_gradient(objective.likelihood, block, W).T * block.weights).reshape(-1, n)
    sums = []
    for each in grad:
        by_group = csr_array((each, (groups, np.arange(n))), (G, n))
        columns = by_group @ block.X
        sums.append(columns if isinstance(columns, np.ndarray) else columns.toarray())
        if standard.intercept:
            sums.append(by_group.sum(axis=1)[:, None])
    S = objective.free(np.hstack(sums).T)
    return np.asarray(S @ S.T) * (G / (G - 1))


def group_codes(groups: ArrayLike | None, rows: MemoryRows) -> Codes:
    """Groups as codes of the rows that count."""
    try:
        labels: AnyArray = np.asarray(groups)
    except ValueError as error:
        raise InputError(f"groups must hold one label for each row of the fit: {error}") from error
    if labels.shape not in ((rows.n_rows,), (rows.n_rows, 1)):
        shape = f"{len(labels)} labels" if labels.ndim == 1 else f"shape {labels.shape}"
        raise InputError(
            f"groups must hold one label for each row: groups has {shape} for {rows.n_rows} rows of the fit."
        )
    labels = labels.reshape(-1)
    counted = labels if rows.weight is None else labels[rows.weight > 0]
    try:
        found, codes = np.unique(counted, return_inverse=True)
    except TypeError as error:
        raise InputError(f"groups must hold one label for each row, all of one type: {error}") from error
    if len(found) < 2:
        raise InputError(f"All rows are in one group, {found.tolist()[0]!r}; a covariance needs at least two.")
    return np.asarray(codes)
