r"""Models within models: the likelihood-ratio test of two fits, and Rao's score test of columns that were left out.

Notation
--------
====  =================================================================  ================
Z     design of the larger model                                         (n, D)
U     gradient of its log likelihood at the smaller one's estimate       (P,)
I     its expected information there                                     (P, P)
e, k  free weights of the extra columns, and those that are kept
====  =================================================================  ================
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack

from credibly.data.columns import describe
from credibly.data.rows import Block, MemoryRows
from credibly.errors import CollinearityError, InputError
from credibly.inference.linear.covariance import counted_rows, refuse_row_space, rows_of_fit
from credibly.inference.linear.design import Design, Standardization
from credibly.inference.linear.fit import LinearFit
from credibly.inference.linear.glm import Fitted, deviance_sum, fitted_scores
from credibly.inference.linear.glm import describe as describe_fit
from credibly.inference.linear.hypotheses import HypothesisResult
from credibly.inference.linear.identifiability import named
from credibly.inference.linear.objective import Objective
from credibly.inference.linear.spec import Data
from credibly.model.likelihoods.family_likelihood import FamilyLikelihood
from credibly.model.likelihoods.label_noise import LabelNoise, NoisyCategorical
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.linalg import PSD, DesignMatrix, is_sparse

ROUNDING = 1e-9  # of a log likelihood: how far a smaller model may seem to be above a larger one
OUTSIDE = 1e-10  # of a column's sum of squares: rounding of the part that other columns explain
STATIONARY = 1e-6  # squared distance to the estimate, in standard errors

RATIO = "Likelihood-ratio test"


def need_maximum_likelihood(fit: LinearFit, what: str) -> None:
    """Refuse a fit with a prior."""
    if fit.resolved is not None:
        raise InputError(
            f"{what} compares maxima of likelihoods, so it needs prior=None; this model has a prior. With a proper "
            "prior compare log_evidence_, or use wald_test."
        )


# --- likelihood ratio -----------------------------------------------------------------------------------------


def lr_test(fit: LinearFit, data: Data | None, reduced: LinearFit, reduced_data: Data | None) -> HypothesisResult:
    r"""The likelihood-ratio test of a smaller model against a larger one, both fitted on the same rows.

    .. math:: 2 (\ell - \ell_{reduced}) \sim χ^2, \qquad (D_{reduced} - D) / s \text{ where there is a dispersion}

    D is the deviance and s the dispersion of the larger model, as in R's ``anova(test = "LRT")``.
    """
    if _model(fit) != _model(reduced):
        raise InputError(f"lr_test compares models of one kind; got {fit.likelihood!r} and {reduced.likelihood!r}.")
    for one in (fit, reduced):
        need_maximum_likelihood(one, "lr_test")
    df = _check_nested(fit, rows_of_fit(data, "lr_test"), reduced, rows_of_fit(reduced_data, "lr_test"))
    assert data is not None and reduced_data is not None
    likelihood = fit.likelihood
    if isinstance(likelihood, FamilyLikelihood) and likelihood.family.has_dispersion:
        D = deviance_sum(data, likelihood, fitted_scores(fit.weights[0]))
        D_reduced = deviance_sum(reduced_data, likelihood, fitted_scores(reduced.weights[0]))
        statistic = (D_reduced - D) / fit.dispersion
    else:
        statistic = 2 * (fit.log_likelihood - reduced.log_likelihood)
    if statistic < -ROUNDING * (1 + abs(fit.log_likelihood)):
        raise InputError(
            f"The reduced model has the higher likelihood (by {-statistic / 2:.3g}): one of the two is not at its "
            f"maximum. This one: {fit.status.value} The reduced one: {reduced.status.value}"
        )
    return HypothesisResult(RATIO, max(statistic, 0.0), df)  # below zero by rounding only


def lr_test_of_columns(fit: LinearFit, data: Data | None, deviances: Fitted | None = None) -> HypothesisResult:
    """The likelihood-ratio test that no column has an effect: against the intercept alone.

    Parameters
    ----------
    fit : LinearFit
    data : Data or None
        The rows of the fit.
    deviances : Fitted, optional
        Those of a generalised linear model, where they are known.
    """
    need_maximum_likelihood(fit, "lr_test")
    likelihood, shape = fit.likelihood, fit.shape
    if not shape.intercept or isinstance(likelihood, LabelNoise | NoisyCategorical):
        why = "label noise" if shape.intercept else "fit_intercept=False"
        raise InputError(f"lr_test() compares with the intercept alone, which a model with {why} has not.")
    df = max(1, shape.n_outputs - 1) * shape.n_features
    if isinstance(likelihood, FamilyLikelihood):
        if deviances is None:
            rows_of_fit(data, "lr_test")
            assert data is not None
            deviances = describe_fit(data, fit)
        s = fit.dispersion if likelihood.family.has_dispersion else 1.0
        return HypothesisResult(RATIO, (deviances.null_deviance - deviances.deviance) / s, df)
    rows = rows_of_fit(data, "lr_test")
    weight = np.ones(rows.n_rows) if rows.weight is None else rows.weight
    counts = np.bincount(rows.y.astype(int), weights=weight)
    counts = counts[counts > 0]
    null = float(counts @ np.log(counts / counts.sum()))  # the intercept gives every class its share of the rows
    return HypothesisResult(RATIO, 2 * (fit.log_likelihood - null), df)


# --- is one model a special case of the other? ----------------------------------------------------------------


def _check_nested(fit: LinearFit, rows: MemoryRows, reduced: LinearFit, reduced_rows: MemoryRows) -> int:
    """How many parameters the larger model has more; an error unless the smaller one is a special case of it."""
    w, v = (np.ones(it.n_rows) if it.weight is None else it.weight for it in (rows, reduced_rows))
    if not (np.array_equal(rows.y, reduced_rows.y) and np.array_equal(w, v)):
        raise InputError(
            f"The two models were not fitted on the same rows in the same order: {rows.n_rows} and "
            f"{reduced_rows.n_rows} rows, whose targets or weights differ."
        )
    df = fit.n_identified - reduced.n_identified
    if df <= 0:
        raise InputError(
            f"The reduced model has {reduced.n_identified} parameters and this one {fit.n_identified}: call lr_test "
            "on the larger model, with the smaller one as its argument."
        )
    large, small = counted_rows(rows), counted_rows(reduced_rows)
    Z, A = (it.posterior.design.standardization.design(part.X) for it, part in ((fit, large), (reduced, small)))
    outside = _unexplained(Z, A, _offset(small) - _offset(large))
    if outside.any():
        labels = np.array([*reduced.names, *["intercept"] * reduced.shape.intercept, "the offset"])
        raise InputError(
            f"The reduced model is no special case of this one: {named(labels[outside])} is no combination of this "
            "model's columns."
        )
    return df


def _model(fit: LinearFit) -> tuple[str, str, bool]:
    """The likelihood and what is learnt of it, in words that are the same for SciPy's distributions that are alike."""
    return repr(fit.spec.likelihood), repr(fit.spec.flips), fit.spec.free_dispersion


def _unexplained(Z: DesignMatrix, A: DesignMatrix, shift: Array) -> AnyArray:
    """Flags of the columns of A, and of a change of offset, that are no combination of the columns of Z."""
    cross = np.column_stack([_dense(Z.T @ A), Z.T @ shift])
    total = np.append((A**2).sum(axis=0), shift @ shift)
    explained = (PSD.of(_dense(Z.T @ Z), "the Gram matrix").half_solve(np.asfortranarray(cross)) ** 2).sum(axis=0)
    return np.asarray(total - explained > OUTSIDE * total)


def _offset(rows: Block) -> Array:
    return np.zeros(len(rows.y)) if rows.offset is None else rows.offset


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


# --- would more columns have an effect? -----------------------------------------------------------------------


def score_test(fit: LinearFit, data: Data, extra: DesignMatrix, names: Sequence[str]) -> HypothesisResult:
    r"""Rao's score test of more columns; only the model without them is fitted.

    .. math:: U^T I^{-1} U \sim χ^2

    Parameters
    ----------
    fit : LinearFit
    data : Data
        The rows of the fit, in memory.
    extra : (n, q) array or csr_array
        The columns in question.
    names : q str
        Their names.
    """
    need_maximum_likelihood(fit, "score_test")
    objective, x, is_extra = _enlarged(fit, rows_of_fit(data, "score_test"), extra)
    U, information = -objective.gradient(x), objective.expected_information(x)
    kept = PSD.of(information[np.ix_(~is_extra, ~is_extra)], "the expected information")
    across = kept.half_solve(np.asfortranarray(information[np.ix_(~is_extra, is_extra)]))
    white = kept.half_solve(U[~is_extra])
    if white @ white > STATIONARY:
        raise InputError(
            f"On these rows the model is {np.sqrt(white @ white):.2g} standard errors away from its maximum: they are "
            f"not those of the fit. Pass X, y and weights as given to fit. (The fit: {fit.status.value})"
        )
    alone = information[np.ix_(is_extra, is_extra)]
    remaining = _given_the_rest(alone, across, [*names] * (is_extra.sum() // len(names)))
    gap = U[is_extra] - across.T @ white
    return HypothesisResult("Score test", float(gap @ remaining.solve(gap)), len(gap))


def _enlarged(fit: LinearFit, rows: MemoryRows, extra: DesignMatrix) -> tuple[Objective, Array, AnyArray]:
    """The larger model's objective, this estimate in its coordinates, and flags of those that are extra."""
    refuse_row_space(fit, "score_test")
    standard, classes = fit.posterior.design.standardization, fit.posterior.design.classes
    assert isinstance(standard, Standardization)
    X = _side_by_side(rows.block(slice(0, rows.n_rows)).X, extra, sparse=not standard.center.any())
    columns = describe(MemoryRows(extra, rows.y, rows.weight))
    more = Standardization.of(columns, intercept=standard.intercept, sparse=is_sparse(X))
    center, scale = (np.append(*pair) for pair in ((standard.center, more.center), (standard.scale, more.scale)))
    # Standardized before any pass: of a column without spread nothing must be left but zeros.
    larger = MemoryRows(X, rows.y, rows.weight, rows.offset, rows.threads).through(
        Standardization(center, scale, intercept=False).design
    )
    unit = Standardization(np.zeros_like(center), np.ones_like(scale), standard.intercept)
    objective = Objective(larger, Design(unit, classes, columns), fit.likelihood, None)
    d, q = len(standard.scale), len(more.scale)
    x = np.insert(fit.posterior.free.mean.reshape(classes.n_free, -1), [d] * q, 0.0, axis=1)
    is_extra = np.zeros(x.shape, dtype=bool)
    is_extra[:, d : d + q] = True
    return objective, x.reshape(-1), is_extra.reshape(-1)


def _side_by_side(X: DesignMatrix, extra: DesignMatrix, *, sparse: bool) -> DesignMatrix:
    """All columns; sparse where one part is, unless columns have to be centred."""
    if sparse and (is_sparse(X) or is_sparse(extra)):
        both = csr_array(hstack([csr_array(X), csr_array(extra)]))
        both.sort_indices()
        return both
    return np.column_stack([_dense(X), _dense(extra)])


def _given_the_rest(alone: Array, across: Array, names: Sequence[str]) -> PSD:
    """I_ee - I_ek I_kk⁻¹ I_ke, refused where extra columns repeat others."""
    size = np.sqrt(np.diag(alone))
    unit = np.where(size == 0, 1.0, size)
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
