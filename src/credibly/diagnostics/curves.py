"""What a threshold on the probability of one class buys: the ROC and the precision–recall curve."""

from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from credibly.diagnostics.inputs import one_class, read
from credibly.numerics.arrays import Array


class ROCCurve(NamedTuple):
    """Shares of rows whose probability reaches each threshold, from the strictest to the most lenient.

    Examples
    --------
    >>> roc_curve([0, 1], [0.2, 0.7]).thresholds
    array([inf, 0.7, 0.2])
    """

    false_positive: Array  # among the rows that are not of the class
    true_positive: Array  # among those that are
    thresholds: Array  # the first is infinite: no row reaches it


class PrecisionRecallCurve(NamedTuple):
    """How many of the rows above each threshold are of the class, from the most lenient threshold to none.

    Examples
    --------
    >>> precision_recall_curve([0, 1], [0.2, 0.7]).precision
    array([0.5, 1. , 1. ])
    """

    recall: Array  # share of the class's rows that are above the threshold
    precision: Array  # share of the rows above the threshold that are of the class
    thresholds: Array  # one less than the others: the last point, (0, 1), has none
    average_precision: float  # precision averaged over steps of recall: the area under the steps
    share: float  # of the class: the precision of guessing


def roc_curve(y: ArrayLike, proba: ArrayLike, *, label: Any = None, labels: ArrayLike | None = None) -> ROCCurve:
    """The ROC curve of one class against the rest; `auc` has the area under it, with an interval.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
    label : optional
        The class that is set against the rest; the second of two if None, and needed for more.
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Returns
    -------
    ROCCurve
        `false_positive`, `true_positive`, `thresholds`; scikit-learn's `roc_curve` with every threshold kept.

    Examples
    --------
    >>> curve = roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> curve.false_positive, curve.true_positive
    (array([0. , 0. , 0.5, 0.5, 1. ]), array([0. , 0.5, 0.5, 1. , 1. ]))
    """
    from sklearn import metrics

    events = one_class(read(y, proba, labels), label, "The curve")
    return ROCCurve(*metrics.roc_curve(events.happened, events.proba, drop_intermediate=False))


def precision_recall_curve(
    y: ArrayLike, proba: ArrayLike, *, label: Any = None, labels: ArrayLike | None = None
) -> PrecisionRecallCurve:
    r"""Precision against recall of one class, and the average precision.

    .. math:: AP = \sum_t (R_t - R_{t+1}) P_t

    over thresholds t from the lowest. For rare classes it shows what the ROC curve hides: how many alarms are false.

    Parameters
    ----------
    y : (n,) labels
    proba : (n, K) or (n,) array
    label : optional
        The class that is set against the rest; the second of two if None, and needed for more.
    labels : (K,) array, optional
        What the columns stand for, in their order.

    Returns
    -------
    PrecisionRecallCurve
        `recall`, `precision`, `thresholds`, `average_precision`, `share`; scikit-learn's numbers.

    Examples
    --------
    >>> curve = precision_recall_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> round(curve.average_precision, 4), curve.share
    (0.8333, 0.5)
    """
    from sklearn import metrics

    events = one_class(read(y, proba, labels), label, "The curve")
    precision, recall, thresholds = metrics.precision_recall_curve(events.happened, events.proba)
    area = float(metrics.average_precision_score(events.happened, events.proba))
    return PrecisionRecallCurve(recall, precision, thresholds, area, float(events.happened.mean()))
