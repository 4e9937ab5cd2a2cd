"""Fit many models, measure them alike, and rank them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from credibly.comparison.candidates import LABELS, Candidate, check_choice, classes_of, read_candidates
from credibly.comparison.measures import Measured, Request, measure
from credibly.comparison.result import Comparison
from credibly.data.progress import Progress
from credibly.diagnostics.inputs import generator
from credibly.errors import InputError


def compare(
    models: Any, X: Any, y: Any, by: str = "evidence", n_jobs: int | None = None, random_state: Any = None
) -> Comparison:
    r"""Fit models to the same rows and rank them by how probable they make the labels.

    .. math:: p(M_k \mid y, X) \propto p(y \mid X, M_k) = \int p(y \mid X, θ, M_k) \, p(θ \mid M_k) \, dθ

    Parameters
    ----------
    models : dict of name to estimator, or list of estimators
        Classifiers or GLMs of this package, or pipelines that end in one; fitted or not, clones are fitted.
    X, y
        The rows, as for `fit`.
    by : "evidence" (default), "bic", "loo", "prequential" or "joint_evidence"
        "evidence": log p(y | X), corrected by the certificate's draws where the posterior is approximate. A generative
        model has no such number; it stands by its prequential score (mean over ten orders of the rows). "prequential"
        is the same: by the chain rule the prequential score of a discriminative model is its log evidence.
        "joint_evidence": log p(X, y), of generative models among themselves. "bic": −BIC/2, needs no proper prior.
        "loo": Σ log p(y_i | other rows).
    n_jobs : int or None
        Processes, as scikit-learn. Models that come back from other processes hold no rows, as saved ones do.
    random_state : int, RandomState, Generator or None
        Of the draws behind corrected evidences and of the orders behind prequential scores; None is always the same.

    Returns
    -------
    Comparison

    Notes
    -----
    `probability` assumes that all models were equally probable before. By "bic" it is ∝ exp(−BIC/2); by "loo"
    the weights ∝ exp(LOO) are no posterior probabilities (pseudo-BMA of Yao et al. 2018).

    A model that fails is told in its row and does not lose the others.

    Earlier steps of a pipeline must not look at y: an evidence after columns were chosen by y is too high.

    References
    ----------
    MacKay 1992; Dawid 1984 (prequential scores); Vehtari et al. 2016 (leave-one-out by cavities); Yao et al. 2018
    (stacking).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from credibly import BayesianLogisticRegression, Normal, compare
    >>> X, y = load_iris(return_X_y=True)
    >>> tight, wide = (BayesianLogisticRegression(prior=Normal(scale=s)) for s in (1.0, 1000.0))
    >>> compare({"tight": tight, "wide": wide}, X, y, random_state=0).best_
    'tight'
    """
    candidates = read_candidates(models)
    check_choice(by, candidates)
    classes = classes_of(y, candidates) if candidates[0].targets == LABELS else None
    request = Request(
        by,
        all(it.generative for it in candidates),
        int(generator(0 if random_state is None else random_state).integers(2**31)),
    )
    rows = _measured(candidates, X, y, request, n_jobs)
    if all(row.error for row in rows):
        said = {row.error for row in rows}
        failures = said.pop() if len(said) == 1 else "; ".join(f"{row.name!r}: {row.error}" for row in rows)
        raise InputError(f"Every model failed. {failures}")
    if all(np.isnan(row.score(by)) for row in rows):
        raise InputError(f"No model can be ranked by {by!r}: none has a number there that is defined for every row.")
    given = {it.name: it.estimator for it in candidates}
    return Comparison.of(rows, by, given, classes)


def _measured(candidates: list[Candidate], X: Any, y: Any, request: Request, n_jobs: Any) -> list[Measured]:
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise InputError(f"n_jobs must be None or a whole number, -1 for all processors; got {n_jobs!r}.")
    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    rows = []
    with (
        Progress(len(candidates), "comparing", " models") as progress,
        warnings.catch_warnings(),
    ):  # threads may leave filters behind
        for row in parallel(delayed(measure)(candidate, X, y, request) for candidate in candidates):
            rows.append(row)
            progress.update()
    return rows
