r"""Models within models: is one a special case of another, and would more columns have an effect.

Notation
--------
====  =================================================================  ================
Z     design of the larger model                                         (n, D)
U     gradient of its log-likelihood at the smaller one's estimate       (P,)
I     its expected information there                                     (P, P)
e, k  free weights of the extra columns, and those that are kept
====  =================================================================  ================
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, hstack
from sklearn.utils import check_array

from credibly.data.columns import describe
from credibly.data.rows import MemoryRows
from credibly.errors import CollinearityError, InputError, NoRowsError
from credibly.estimators.containers import named
from credibly.estimators.linear_model import LinearModel
from credibly.estimators.validation import Training, canonical
from credibly.inference.frame import Frame
from credibly.inference.hypotheses import HypothesisResult
from credibly.inference.objective import Objective
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.kinds import true_likelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import PSD, DesignMatrix, is_sparse

OUTSIDE = 1e-10  # of a column's sum of squares: rounding of the part that other columns explain
STATIONARY = 1e-6  # squared distance to the estimate, in standard errors


def rows_of_fit(model: LinearModel, what: str) -> Training:
    """The rows a model was fitted on, or an error that says where they went."""
    training: Training | None = getattr(model, "_training", None)
    if training is None:
        raise NoRowsError(
            f"{what} needs the rows of the fit, which this model no longer has: partial_fit does not keep them, nor "
            "does a fit to files, to a cluster or with resume=, and a saved or copied model holds none. Fit again with "
            "fit(X, y) on rows in memory."
        )
    return training


def need_maximum_likelihood(model: LinearModel, what: str) -> None:
    """Refuse a model with a prior."""
    if model.prior_ is not None:
        raise InputError(
            f"{what} compares maxima of likelihoods, so it needs prior=None; this {type(model).__name__} has a prior. "
            "With a proper prior compare log_evidence_, or use wald_test."
        )


def against_intercept(model: LinearModel) -> tuple[float, int]:
    """Statistic and degrees of freedom of the test that no column has an effect."""
    need_maximum_likelihood(model, "lr_test")
    likelihood, shape = model._likelihood, model._shape
    if not shape.intercept or isinstance(likelihood, LabelNoise | NoisyCategorical):
        why = "label noise" if shape.intercept else "fit_intercept=False"
        raise InputError(f"lr_test() compares with the intercept alone, which a model with {why} has not.")
    df = max(1, shape.n_outputs - 1) * shape.n_features
    if isinstance(likelihood, FamilyLikelihood):
        deviances: Any = model
        scale = deviances.dispersion_ if likelihood.family.has_dispersion else 1.0
        return (deviances.null_deviance_ - deviances.deviance_) / scale, df
    training = rows_of_fit(model, "lr_test")
    weight = np.ones(len(training.y)) if training.weight is None else training.weight
    counts = np.bincount(training.y.astype(int), weights=weight)
    counts = counts[counts > 0]
    null = float(counts @ np.log(counts / counts.sum()))  # the intercept gives every class its share of the rows
    return 2 * (model.log_likelihood_ - null), df


# --- Is one model a special case of another? ------------------------------------------------------------------


def check_nested(full: LinearModel, reduced: LinearModel) -> int:
    """How many parameters the larger model has more; an error unless the two can be compared."""
    if type(full) is not type(reduced) or _kind(full) != _kind(reduced):
        raise InputError(
            f"lr_test compares models of one kind; got {type(full).__name__} with {full._likelihood!r} and "
            f"{type(reduced).__name__} with {getattr(reduced, '_likelihood', None)!r}."
        )
    for model in (full, reduced):
        need_maximum_likelihood(model, "lr_test")
    large, small = (rows_of_fit(model, "lr_test") for model in (full, reduced))
    _check_same_rows(full, large, reduced, small)
    df = full._n_identified - reduced._n_identified
    if df <= 0:
        raise InputError(
            f"The reduced model has {reduced._n_identified} parameters and this one {full._n_identified}: call lr_test "
            "on the larger model, with the smaller one as its argument."
        )
    outside = _unexplained(full, large, reduced, small)
    if outside.any():
        labels = np.array([*reduced._weight_names(), "the offset"])[: len(outside)]
        raise InputError(
            f"The reduced model is no special case of this one: {named(labels[outside])} is no combination of this "
            "model's columns."
        )
    return df


def _kind(model: LinearModel) -> tuple[Any, ...]:
    """What two models must share to be compared: the likelihood but for what is estimated of it."""
    likelihood = getattr(model, "_likelihood", None)
    choices = tuple(_choice(getattr(model, name, None)) for name in ("dispersion", "label_noise", "threshold"))
    if isinstance(likelihood, FamilyLikelihood):
        return type(likelihood.family), likelihood.link, choices
    return type(likelihood), likelihood and type(true_likelihood(likelihood)), choices


def _choice(value: Any) -> str:
    """An argument as text, alike for arguments that mean the same; a distribution of SciPy prints its address."""
    distribution = getattr(value, "dist", None)
    return repr(value) if distribution is None else f"{distribution.name}{value.args}{sorted(value.kwds.items())}"


def _check_same_rows(full: LinearModel, large: Training, reduced: LinearModel, small: Training) -> None:
    n = len(large.y)
    w, v = (np.ones(n) if it.weight is None else it.weight for it in (large, small))
    same = (
        np.array_equal(getattr(full, "classes_", n), getattr(reduced, "classes_", n))
        and np.array_equal(large.y, small.y)
        and np.array_equal(w, v)
    )
    if not same:
        raise InputError(
            f"The two models were not fitted on the same rows in the same order: {n} and {len(small.y)} "
            "rows, whose targets or weights differ."
        )


def _unexplained(full: LinearModel, large: Training, reduced: LinearModel, small: Training) -> AnyArray:
    """Which columns of the smaller model (and whether a change of offset) are no combination of the larger one's."""
    counted = slice(None) if large.weight is None else large.weight > 0
    Z, A = (
        model.posterior_.frame.design(_float64(rows.X))[counted] for model, rows in ((full, large), (reduced, small))
    )
    shift = _offset(small)[counted] - _offset(large)[counted]
    gram, cross = _dense(Z.T @ Z), np.column_stack([_dense(Z.T @ A), Z.T @ shift])
    total = np.append((A**2).sum(axis=0), shift @ shift)
    explained = (PSD.of(gram, "the Gram matrix").half_solve(np.asfortranarray(cross)) ** 2).sum(axis=0)
    return np.asarray(total - explained > OUTSIDE * total)


def _offset(rows: Training) -> Array:
    return np.zeros(len(rows.y)) if rows.offset is None else rows.offset


def _float64(X: DesignMatrix) -> DesignMatrix:
    return X if is_sparse(X) else np.asarray(X, dtype=np.float64)


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


# --- Would more columns have an effect? -----------------------------------------------------------------------


class Extra(NamedTuple):
    """Columns that a model does not have."""

    X: DesignMatrix  # (n, q)
    names: list[str]


def read_extra(X_extra: ArrayLike, n_rows: int) -> Extra:
    """Extra columns as a user gives them, checked."""
    try:
        X = check_array(X_extra, accept_sparse="csr", dtype=np.float64, ensure_2d=False, input_name="X_extra")
    except ValueError as error:
        raise InputError(str(error)) from error
    X = canonical(X[:, None] if X.ndim == 1 else X)
    if X.shape[0] != n_rows:
        raise InputError(f"X_extra has {X.shape[0]} rows, X has {n_rows}.")
    names = getattr(X_extra, "columns", None)
    return Extra(X, [f"extra column {j}" for j in range(X.shape[1])] if names is None else [str(it) for it in names])


def rao(model: LinearModel, training: Training, extra: Extra) -> HypothesisResult:
    """The score test of extra columns."""
    objective, u, is_extra = _enlarged(model, training, extra)
    U, information = -objective.gradient(u), objective.expected_information(u)
    kept = PSD.of(information[np.ix_(~is_extra, ~is_extra)], "the expected information")
    across = kept.half_solve(np.asfortranarray(information[np.ix_(~is_extra, is_extra)]))
    white = kept.half_solve(U[~is_extra])
    if white @ white > STATIONARY:
        raise InputError(
            f"On these rows the model is {np.sqrt(white @ white):.2g} standard errors away from its maximum: they are "
            f"not those of the fit. Pass X, y and weights as given to fit. (The fit: {model.status_.value})"
        )
    alone = information[np.ix_(is_extra, is_extra)]
    remaining = _given_the_rest(alone, across, extra.names * (is_extra.sum() // len(extra.names)))
    gap = U[is_extra] - across.T @ white
    return HypothesisResult("Score test", float(gap @ remaining.solve(gap)), len(gap))


def _enlarged(model: LinearModel, training: Training, extra: Extra) -> tuple[Objective, Array, AnyArray]:
    """The larger model's objective, this estimate in its coordinates, and which of those are extra."""
    posterior, frame = model.posterior_, model.posterior_.frame
    X = _side_by_side(training.X, extra.X, sparse=not frame.center.any())
    columns = describe(MemoryRows(extra.X, training.y, training.weight))
    more = Frame.of(columns, intercept=frame.intercept, sparse=is_sparse(X))
    center, scale = (np.concatenate(pair) for pair in ((frame.center, more.center), (frame.scale, more.scale)))
    rows = training._replace(X=X).rows(model.n_jobs).through(Frame(center, scale, frame.intercept).design)
    free = posterior.gaussian.mean.reshape(posterior.contrast.shape[1], -1)
    d, q = len(frame.scale), len(more.scale)
    u = np.insert(free, [d] * q, 0.0, axis=1)
    is_extra = np.zeros(u.shape, dtype=bool)
    is_extra[:, d : d + q] = True
    return Objective(model._likelihood, rows, None, posterior.contrast), u.reshape(-1), is_extra.reshape(-1)


def _side_by_side(X: DesignMatrix, extra: DesignMatrix, *, sparse: bool) -> DesignMatrix:
    """All columns; sparse where one part is, unless columns have to be centred."""
    if sparse and (is_sparse(X) or is_sparse(extra)):
        both = csr_array(hstack([csr_array(X), csr_array(extra)]))
        both.sort_indices()
        return both
    return np.column_stack([_dense(X), _dense(extra)])


def _given_the_rest(alone: Array, across: Array, names: list[str]) -> PSD:
    """I_ee - I_ek I_kk⁻¹ I_ke, refused where extra columns repeat others."""
    size = np.sqrt(np.diag(alone))
    zero = size == 0
    unit = np.where(zero, 1.0, size)
    S = alone - across.T @ across
    values, vectors = np.linalg.eigh(S / unit / unit[:, None])
    null = vectors[:, values <= OUTSIDE]
    if null.size:
        tied = [name for name, row in zip(names, null, strict=True) if np.abs(row).max() > 1e-6]
        raise CollinearityError(
            f"{named(list(dict.fromkeys(tied)))} cannot be tested: they are combinations of the model's columns, or of "
            "each other. Drop some of them."
        )
    return PSD.of(S, "the information on the extra columns")
