"""Scores of probabilistic predictions, for any classifier's arrays.

Arguments are in scikit-learn's order: true labels, then probabilities with a column per sorted label (or, for two
classes, the probability of the second label alone). `labels=model.classes_` says what the columns stand for, which
is needed where a class is absent from y.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtri
from scipy.stats import rankdata

from credibly.diagnostics.inputs import (
    Bins,
    Events,
    bins_of,
    check_level,
    check_pairs,
    event_of,
    one_class,
    read,
    wilson_interval,
)
from credibly.numerics.arrays import Array


def log_score(y: ArrayLike, proba: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    r"""Mean log probability of what happened; larger is better.

    .. math:: \frac1n \sum_i \log p_i(y_i)

    A probability of zero for what happened scores minus infinity (scikit-learn's `log_loss` puts a floor under it).

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Examples
    --------
    >>> round(log_score([0, 1], [0.2, 0.8]), 4)
    -0.2231
    """
    own = read(y, proba, labels).own
    with np.errstate(divide="ignore"):
        return float(np.log(own).mean())


def brier_score(y: ArrayLike, proba: ArrayLike, *, labels: ArrayLike | None = None) -> float:
    r"""Mean squared distance between probabilities and outcome, summed over classes; smaller is better.

    .. math:: \frac1n \sum_i \sum_k (p_{ik} - 1[y_i = k])^2

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Notes
    -----
    For two classes it is twice scikit-learn's `brier_score_loss`, which looks at one of them.

    Examples
    --------
    >>> round(brier_score([0, 1], [0.2, 0.8]), 4)
    0.08
    """
    codes, table, _ = read(y, proba, labels)
    return float(((table - np.eye(table.shape[1])[codes]) ** 2).sum(axis=1).mean())


class BrierDecomposition(NamedTuple):
    """The Brier score in parts, each summed over classes.

    score = reliability - resolution + uncertainty + within_variance - within_covariance.

    Examples
    --------
    Saying the overall frequency every time is reliable, and resolves nothing:

    >>> print(brier_decomposition([0, 1, 1, 1], [0.75] * 4))
    Brier score 0.3750: reliability 0.0000, resolution 0.0000, uncertainty 0.3750, within variance 0.0000, ...
    """

    reliability: float  # squared distance between what was said and what happened, bin by bin; smaller is better
    resolution: float  # how far frequencies in bins are from the overall one; larger is better
    uncertainty: float  # the score of always saying the overall frequencies
    within_variance: float  # of probabilities inside their bins
    within_covariance: float  # twice that of probabilities and outcomes inside bins: resolution that bins hide

    @property
    def score(self) -> float:
        """The Brier score: the parts put together again, exactly."""
        return self.reliability - self.resolution + self.uncertainty + self.within_variance - self.within_covariance

    def __str__(self) -> str:
        parts = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in self._asdict().items())
        return f"Brier score {self.score:.4f}: {parts}"


def brier_decomposition(
    y: ArrayLike,
    proba: ArrayLike,
    bins: int = 10,
    *,
    strategy: str = "quantile",
    debiased: bool = False,
    labels: ArrayLike | None = None,
) -> BrierDecomposition:
    r"""The Brier score as reliability, resolution, uncertainty and what happens inside bins.

    With means p̄_b, ō_b of probabilities and outcomes in bin b, and ō of all outcomes,

    .. math::
        \text{REL} = \sum_b \tfrac{n_b}{n} (\bar p_b - \bar o_b)^2, \quad
        \text{RES} = \sum_b \tfrac{n_b}{n} (\bar o_b - \bar o)^2, \quad
        \text{UNC} = \bar o (1 - \bar o)

    are the parts of one class; those of all classes are added, so that the whole is `brier_score`. Murphy's three parts
    miss it when probabilities differ within a bin; the two terms inside bins make the identity exact.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
    bins : int
        How many.
    strategy : "quantile" or "uniform"
        Bins of about equal count, or of equal width; as in scikit-learn's `calibration_curve`.
    debiased : bool
        Take out what the noise of few rows adds; the identity still holds, and parts may be negative. Needs two rows
        in every bin.
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Returns
    -------
    BrierDecomposition
        `reliability`, `resolution`, `uncertainty`, `within_variance`, `within_covariance`, and `score`.

    Notes
    -----
    Debiased, with variances v of means estimated from their rows, the parts are REL - Σ n_b/n v_b[o - p],
    RES - Σ n_b/n v_b[o] + v[o], UNC + v[o], and likewise inside bins. Where probabilities are constant in each bin
    this is the correction of Ferro & Fricker (2012), who show that resolution has no unbiased estimator (theirs is
    nearly so); reliability and uncertainty are unbiased for rows drawn at random, at given bins.

    References
    ----------
    Murphy (1973); Stephenson, Coelho & Jolliffe (2008), for the terms inside bins; Ferro & Fricker (2012).

    Examples
    --------
    >>> parts = brier_decomposition([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9], bins=2)
    >>> round(parts.reliability, 4), round(parts.resolution, 4), round(parts.uncertainty, 4)
    (0.1025, 0.5, 0.5)
    >>> round(parts.score - brier_score([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.9]), 12)
    0.0
    """
    predictions = read(y, proba, labels)
    names = predictions.classes.tolist()
    # Of two classes both columns say the same; bins of one, mirrored, are those of the other.
    asked, times = ([names[1]], 2.0) if len(names) == 2 else (names, 1.0)
    total = np.zeros(5)
    for label in asked:
        events = event_of(predictions, label)
        groups = bins_of(events.proba, bins, strategy)
        total += times * _parts(events, groups)
        if debiased:
            check_pairs(groups)
            total += times * _corrections(events, groups)
    return BrierDecomposition(*total.tolist())


def _parts(events: Events, groups: Bins) -> Array:
    p, o, share = events.proba, events.happened, groups.count / len(events.proba)
    p_mean, o_mean, base = groups.mean(p), groups.mean(o), o.mean()
    p_inside, o_inside = p - p_mean[groups.of_row], o - o_mean[groups.of_row]
    return np.array(
        [
            share @ (p_mean - o_mean) ** 2,
            share @ (o_mean - base) ** 2,
            base * (1 - base),
            (p_inside**2).mean(),
            2 * (p_inside * o_inside).mean(),
        ]
    )


def _corrections(events: Events, groups: Bins) -> Array:
    """What makes the expectation of each part that of many rows; they cancel in the sum."""
    p, o, share = events.proba, events.happened, groups.count / len(events.proba)
    gap, outcome, said = (share @ groups.variance_of_mean(values) for values in (o - p, o, p))
    overall = o.mean() * (1 - o.mean()) / (len(o) - 1)
    # var(o - p) = var(o) + var(p) - 2 cov(o, p)
    return np.array([-gap, overall - outcome, overall, said, outcome + said - gap])


@dataclass(frozen=True)
class AUC:
    """The area under the ROC curve: how often a row of the class is scored above one that is not.

    Attributes
    ----------
    value : float
    low, high : float
        Interval at `level`.
    std_error : float
        DeLong's; zero, and not used, where one class lies wholly above the other.
    level : float

    Examples
    --------
    >>> area = auc([0, 1, 0, 1], [0.1, 0.3, 0.4, 0.8])
    >>> float(area), area.low < 0.75 < area.high
    (0.75, True)
    """

    value: float
    low: float
    high: float
    std_error: float
    level: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"AUC {self.value:.4f}, {self.level:.0%} between {self.low:.4f} and {self.high:.4f}"


def auc(
    y: ArrayLike,
    proba: ArrayLike,
    *,
    label: Any = None,
    level: float = 0.9,
    labels: ArrayLike | None = None,
) -> AUC:
    r"""Area under the ROC curve with an interval.

    .. math:: A = P(s_+ > s_-) + \tfrac12 P(s_+ = s_-)

    with the probabilities s₊ of rows that are of the class and s₋ of rows that are not. It measures order alone: a
    classifier may have the best AUC and be badly calibrated.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
    label : optional
        The class that is set against the rest; the second of two if None, and needed for more.
    level : float
        Mass of the interval.
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Returns
    -------
    AUC
        `value`, ``low``, ``high``, `std_error`; `float` gives the value.

    Notes
    -----
    The value is scikit-learn's `roc_auc_score`. The variance is that of DeLong, DeLong & Clarke-Pearson (1988), with
    midranks (Sun & Xu 2014, n log n), and the interval is symmetric in the log odds of A, so that it stays within
    [0, 1]. When A is 0 or 1 DeLong's variance is zero, which is no knowledge: then the interval is Wilson's with the
    smaller class for its count, as the variance never exceeds A(1 - A)/min(m, n) (Birnbaum & Klose 1957).

    Examples
    --------
    >>> found = auc([0, 0, 1, 1, 0, 1], [0.1, 0.4, 0.35, 0.8, 0.2, 0.7])
    >>> print(found)
    AUC 0.8889, 90% between 0.3688 and 0.9910
    """
    from sklearn.metrics import roc_auc_score

    z = float(ndtri(0.5 + check_level(level) / 2))
    events = one_class(read(y, proba, labels), label, "The AUC")
    inside, outside = events.proba[events.happened == 1], events.proba[events.happened == 0]
    value = float(roc_auc_score(events.happened, events.proba))
    error = float(np.sqrt(_delong_variance(inside, outside)))
    smaller = min(len(inside), len(outside))
    if value in {0.0, 1.0} or smaller == 1 or error == 0:
        low, high = wilson_interval(np.array(value), np.array(smaller), z)
        return AUC(value, float(low), float(high), error, level)
    half = z * error / (value * (1 - value))
    low, high = expit(logit(value) + np.array([-half, half])).tolist()
    return AUC(value, low, high, error, level)


def _delong_variance(inside: Array, outside: Array) -> float:
    """Variance of the AUC by placements: of each row, the share of the other class that is on its wrong side."""
    m, n = len(inside), len(outside)
    if min(m, n) == 1:
        return 0.0
    ranks = rankdata(np.concatenate([inside, outside]))
    above = (ranks[:m] - rankdata(inside)) / n
    below = (ranks[m:] - rankdata(outside)) / m
    return float(above.var(ddof=1) / m + below.var(ddof=1) / n)
