"""What a comparison found: a table, the fitted models, their average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credibly.comparison.measures import NAN, PREQUENTIAL, Measured
from credibly.comparison.table import TextTable
from credibly.errors import InputError
from credibly.estimators.linear_base import only
from credibly.estimators.model_average import ModelAverage
from credibly.numerics.arrays import AnyArray, Array
from credibly.numerics.special import log_softmax

if TYPE_CHECKING:
    import pandas as pd

UNRELIABLE = "†"
SCORES = {"bic": "−BIC/2", "loo": "leave-one-out log probability"}
SHOWN = {  # column: heading and format in text
    "log_evidence": ("log evidence", ".2f"),
    "log_evidence_se": ("se", ".2g"),
    "log_bayes_factor": ("log BF", ".2f"),
    "probability": ("probability", ".3g"),
    "bic": ("BIC", ".1f"),
    "aic": ("AIC", ".1f"),
    "loo": ("LOO", ".2f"),
    "stacking_weight": ("stacking", ".3f"),
    "effective_parameters": ("parameters", ".2f"),
    "khat": ("khat", ".2f"),
    "fit_time": ("seconds", ".2g"),
}
NARROW = ["log_evidence", "log_evidence_se", "probability", "loo", "khat"]


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Models ranked, best first, with everything they were measured by.

    Attributes
    ----------
    by : str
        What they are ranked by.
    best_ : str
        Name of the best.
    models_ : dict of str to estimator
        Fitted models; those whose fit failed are missing.
    classes_ : (K,) array or None
        None for targets that are no labels.
    columns : dict of str to list
        The columns of `to_frame`, row by row, best first.
    notes : list of str
        What warnings and unreliable numbers said.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from credibly import BayesianLogisticRegression, compare
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> models = {name: BayesianLogisticRegression(prior=name) for name in ("empirical", "ard")}
    >>> found = compare(models, X[:, :2], y, random_state=0)
    >>> found.best_, list(found.models_), found.average().predict(X[:2, :2])
    ('ard', ['ard', 'empirical'], array([0, 0]))
    """

    by: str
    rows: tuple[Measured, ...]
    columns: dict[str, list[Any]]
    classes_: AnyArray | None
    given: dict[str, Any]

    @classmethod
    def of(cls, rows: Sequence[Measured], by: str, given: dict[str, Any], classes: AnyArray | None) -> Comparison:
        """Rank measured models; equals are in the order of their names."""
        ranked = tuple(sorted(rows, key=lambda row: _place(row, by)))
        return cls(by, ranked, _columns(ranked, by), classes, given)

    @property
    def best_(self) -> str:
        """The name of the best model."""
        return self.rows[0].name

    @property
    def models_(self) -> dict[str, Any]:
        """The fitted models by name, best first."""
        return {row.name: row.model for row in self.rows if row.model is not None}

    @property
    def notes(self) -> list[str]:
        """What is to be said of single models."""
        said = [f"{row.name}: failed: {row.error}" for row in self.rows if row.error]
        for row in self.rows:
            if row.evidence.doubt is not None:
                said.append(f"{UNRELIABLE} {row.name}: log evidence and LOO are not corrected: {row.evidence.doubt}")
            said += [f"{row.name}: {note}" for note in row.notes]
        if any(row.kind == PREQUENTIAL for row in self.rows):
            said.append("prequential: Σ log p(y_i | x_i, rows before i), mean and spread over orders of the rows.")
        return said

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame indexed by name, best first; `log_bayes_factor` is to the highest log evidence."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install 'credibly[data]'") from error

        frame = pd.DataFrame(self.columns, index=pd.Index([row.name for row in self.rows], name="model"))
        frame["error"] = pd.Series(self.columns["error"], index=frame.index, dtype=object)  # None stays None
        return frame

    def average(self, weights: str = "probability") -> ModelAverage:
        """A classifier that averages the probabilities of all models.

        Parameters
        ----------
        weights : "probability" (default) or "stacking"
            Posterior model probabilities (by "bic" and "loo" what stands in for them), or the weights that predict
            rows left out best.

        Returns
        -------
        ModelAverage
            Fitted: it holds these models.
        """
        column = only(weights, {"probability": "probability", "stacking": "stacking_weight"}, "weights")
        if self.classes_ is None:
            raise InputError("average() is a classifier; these are models of targets that are no labels.")
        shares = np.asarray(self.columns[column], dtype=float)
        if np.isnan(shares).all():
            raise InputError(f"No model has a {column}: see the notes of the comparison.")
        if weights == "probability":
            log_shares = _log_shares(np.array([row.score(self.by) for row in self.rows]))
        else:
            with np.errstate(divide="ignore"):  # a weight of zero
                log_shares = np.log(shares)
        parts = {
            row.name: (row.model, float(log_share))
            for row, log_share in zip(self.rows, log_shares, strict=True)
            if log_share > -np.inf  # neither zero nor NaN
        }
        return ModelAverage(self.given, by=self.by, weights=weights).keep(parts, self.classes_)

    def plot(self, ax: Any = None) -> Any:
        """Bars of the log evidence (or what else models are ranked by) from that of the best: `plots.evidence`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
        """
        from credibly.plots.comparison import evidence

        return evidence(self, ax)

    # --- text --------------------------------------------------------------------------------------------------

    def _table(self, names: Sequence[str]) -> TextTable:
        several = len({row.kind for row in self.rows}) > 1
        cells = [["", *(["kind"] if several else []), *(SHOWN[name][0] for name in names)]]
        for i, row in enumerate(self.rows):
            numbers = [_cell(self.columns[name][i], SHOWN[name][1]) for name in names]
            cells.append([_marked(row), *([row.kind] if several else []), *numbers])
        of = "" if self.classes_ is None else f", classes {self.classes_.tolist()}"
        title = f"Comparison of {len(self.rows)} models by {self.by}{of}"
        return TextTable(title, cells, len(cells[0]) - len(names), self.notes)

    def to_text(self, *, narrow: bool = False) -> str:
        """The table as text; `narrow` leaves out what a terminal of 80 columns has no room for."""
        return str(self._table(NARROW if narrow else list(SHOWN)))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._table(list(SHOWN)).html()


def _marked(row: Measured) -> str:
    """The name, with a mark where the evidence is not to be relied on."""
    return f"{row.name} {UNRELIABLE}" if row.evidence.doubt else row.name


def _place(row: Measured, by: str) -> tuple[bool, bool, float, str]:
    """Where a row stands: those that failed, or have no number, last."""
    score = row.score(by)
    missing = bool(np.isnan(score))
    return row.model is None, missing, 0.0 if missing else -score, row.name


def _log_shares(scores: Array) -> Array:
    """Log of shares ∝ exp(score), NaN where there is no score."""
    out, known = np.full(len(scores), np.nan), ~np.isnan(scores)
    out[known] = log_softmax(scores[known])
    return out


def stacking_weights(log_p: Array) -> Array:
    r"""Weights of a mixture that make the mean log probability of the rows largest, (K,).

    .. math:: \max_w \; \frac1n \sum_i \log \sum_k w_k p_{ik}, \qquad w ≥ 0, \quad \sum_k w_k = 1

    Parameters
    ----------
    log_p : (n, K) array
        Log probabilities; −inf is allowed. Rows that are impossible under every candidate say nothing about weights.

    References
    ----------
    Yao, Vehtari, Simpson & Gelman 2018, sec. 3.

    Examples
    --------
    >>> stacking_weights(np.log([[0.9, 0.4], [0.2, 0.4], [0.7, 0.4]])).round(4)
    array([0.9893, 0.0107])
    """
    from scipy.optimize import minimize  # slow to import

    top = log_p.max(axis=1, keepdims=True)
    possible = np.isfinite(top[:, 0])
    p, K = np.exp(log_p[possible] - top[possible]), log_p.shape[1]
    if not len(p):
        return np.full(K, 1.0 / K)

    def loss(w: Array) -> tuple[float, Array]:
        # With Σw added, the best weights of any sum have the sum one: no constraint is needed but w ≥ 0.
        with np.errstate(divide="ignore", invalid="ignore"):  # a row that these weights make impossible
            mixed = p @ w
            return float(w.sum() - np.log(mixed).mean()), 1.0 - (p / mixed[:, None]).mean(axis=0)

    goal: Any = {"ftol": 1e-15, "maxiter": 500}  # within 1e-7 nats a row of the best weights
    found = minimize(loss, np.full(K, 1.0 / K), jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * K, options=goal)
    return np.asarray(found.x / found.x.sum())


def _stacking_weights(rows: Sequence[Measured]) -> Array:
    """Weights of the models that have a leave-one-out probability for every row, NaN for the others."""
    out = np.full(len(rows), np.nan)
    known = [i for i, row in enumerate(rows) if row.loo is not None and not np.isnan(row.loo).any()]
    if known:
        loo = [row.loo for row in rows if row.loo is not None and not np.isnan(row.loo).any()]
        out[known] = stacking_weights(np.column_stack(loo))
    return out


def _columns(rows: Sequence[Measured], by: str) -> dict[str, list[Any]]:
    evidence = np.array([row.evidence.value for row in rows])
    best = np.nanmax(evidence) if not np.isnan(evidence).all() else NAN
    numbers = {
        "log_evidence": evidence,
        "log_evidence_se": [row.evidence.se for row in rows],
        "log_bayes_factor": evidence - best,
        "probability": np.exp(_log_shares(np.array([row.score(by) for row in rows]))),
        "bic": [row.bic for row in rows],
        "aic": [row.aic for row in rows],
        "loo": [row.loo_sum for row in rows],
        "stacking_weight": _stacking_weights(rows),
        "effective_parameters": [row.effective_parameters for row in rows],
        "khat": [row.evidence.khat for row in rows],
        "fit_time": [row.fit_time for row in rows],
    }
    words: dict[str, list[Any]] = {"error": [row.error for row in rows], "kind": [row.kind for row in rows]}
    return {name: [float(value) for value in values] for name, values in numbers.items()} | words


def _cell(value: float, form: str) -> str:
    return "" if np.isnan(value) else f"{value:{form}}"
